/* rank_picture.c: the block map as rectangles. */
#include "rank_picture.h"

#include <math.h>
#include <stdio.h>

#include "outfile.h"

enum { SIDE = 720, LEFT = 60, TOP = 60, LEGEND = 90 };
static const double least_room = 9; /* pixels a digit needs */

/* from pale to dark blue */
static void colour_of(double share, char text[static 8])
{
    static const double pale[3] = {232, 240, 250}, dark[3] = {11, 60, 120};
    int c[3];
    for (int i = 0; i < 3; i++) c[i] = (int)lround(pale[i] + share * (dark[i] - pale[i]));
    snprintf(text, 8, "#%02x%02x%02x", (unsigned)c[0] & 255, (unsigned)c[1] & 255, (unsigned)c[2] & 255);
}

static double share_of(const rank_block *b) { return (double)b->rank / (b->rows < b->columns ? b->rows : b->columns); }

static int digits(hga_id n) { return n < 10 ? 1 : 1 + digits(n / 10); }

static void draw_rank(FILE *file, const rank_block *b, double x, double y, double width, double height)
{
    double size = width / (digits(b->rank) + 1) * 1.6;
    if (size > height * 0.6) size = height * 0.6;
    if (size > 28) size = 28;
    if (size < least_room) return;
    fprintf(file, "<text x=\"%.2f\" y=\"%.2f\" font-size=\"%.1f\" text-anchor=\"middle\" fill=\"%s\">%d</text>\n",
            x + width / 2, y + height / 2 + size * 0.35, size, share_of(b) > 0.5 ? "#ffffff" : "#10233f", b->rank);
}

static void draw_block(FILE *file, const rank_map *m, const rank_block *b)
{
    char colour[8];
    double unit = (double)SIDE / m->n, x = LEFT + b->column * unit, y = TOP + b->row * unit, width = b->columns * unit,
           height = b->rows * unit;
    colour_of(share_of(b), colour);
    fprintf(file, "<rect class=\"block\" x=\"%.3f\" y=\"%.3f\" width=\"%.3f\" height=\"%.3f\" fill=\"%s\"><title>", x,
            y, width, height, colour);
    fprintf(file, "queries %d to %d, keys %d to %d: rank %d</title></rect>\n", b->row, b->row + b->rows - 1, b->column,
            b->column + b->columns - 1, b->rank);
    draw_rank(file, b, x, y, width, height);
}

static void draw_legend(FILE *file)
{
    char colour[8];
    int y = TOP + SIDE + 40;
    for (int i = 0; i <= 10; i++) {
        colour_of(i / 10.0, colour);
        fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"20\" height=\"14\" fill=\"%s\"/>\n", LEFT + 20 * i, y, colour);
    }
    fprintf(file, "<text x=\"%d\" y=\"%d\" font-size=\"13\">rank as a share of the block's side: 0 to 1</text>\n",
            LEFT + 230, y + 12);
}

static void draw_axes(FILE *file, const rank_map *m)
{
    int end = TOP + SIDE;
    fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#10233f\"/>\n", LEFT, TOP,
            SIDE, SIDE);
    fprintf(file, "<text x=\"%d\" y=\"%d\" font-size=\"13\">0</text>\n", LEFT, end + 18);
    fprintf(file, "<text x=\"%d\" y=\"%d\" font-size=\"13\" text-anchor=\"middle\">key</text>\n", LEFT + SIDE / 2,
            end + 18);
    fprintf(file, "<text x=\"%d\" y=\"%d\" font-size=\"13\" text-anchor=\"end\">%d</text>\n", LEFT + SIDE, end + 18,
            m->n);
    fprintf(file, "<text x=\"%d\" y=\"%d\" font-size=\"13\" text-anchor=\"end\">0</text>\n", LEFT - 8, TOP + 13);
    fprintf(file, "<text x=\"%d\" y=\"%d\" font-size=\"13\" text-anchor=\"end\">query</text>\n", LEFT - 8,
            TOP + SIDE / 2);
    fprintf(file, "<text x=\"%d\" y=\"%d\" font-size=\"13\" text-anchor=\"end\">%d</text>\n", LEFT - 8, end, m->n);
}

static void draw(FILE *file, const rank_map *m, const char *title)
{
    int width = LEFT + SIDE + 20, height = TOP + SIDE + LEGEND;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\">\n",
            width, height, width, height);
    fprintf(file, "<style>.block { stroke: #ffffff; stroke-width: %.2f }</style>\n",
            fmin(1.5, 0.1 * SIDE * m->block / m->n));
    fprintf(file, "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", width, height);
    fprintf(file, "<text x=\"%d\" y=\"36\" font-size=\"15\">%s</text>\n", LEFT, title);
    for (int64_t i = 0; i < m->n_blocks; i++) draw_block(file, m, &m->blocks[i]);
    draw_axes(file, m);
    draw_legend(file);
    fprintf(file, "</svg>\n");
}

int rank_picture_write(const rank_map *m, const char *title, const char *path)
{
    outfile out = {0};
    int status = CLI_GOOD;
    TRY(outfile_open(path, &out));
    draw(out.file, m, title);
    TRY(outfile_keep(&out));
done:
    outfile_drop(&out);
    return status;
}
