/* picture_file.c: from a graph to a picture of its attention. */
#include "picture_file.h"

#include <stdio.h>
#include <stdlib.h>

#include "arguments.h"
#include "plot.h"

enum {
    SVG_CELLS = 160,
    SVG_TOKENS = 256,
    WORD_TOKENS = 400,
    DEFAULT_WIDTH = 900,
    LEAST_WIDTH = 360,
    MOST_WIDTH = 8192
};

/* The least pixels of a cell. A rectangle of an .svg costs some eighty bytes, a pixel nothing: cells of an .svg are
   larger, unless that would hide tokens. */
static int least_cell(const hga_nodes *n, picture_kind kind, hga_id width)
{
    return kind == PICTURE_PNG || (n->n_queries <= SVG_TOKENS && n->n_keys <= SVG_TOKENS) ? 1 : width / SVG_CELLS;
}

static int make_picture(const hga_graph *g, const hga_program *p, const picture_options *o, const layout *l,
                        picture *out)
{
    progress bar = progress_start(o->tensors.query ? "weighing" : "drawing");
    int status = o->tensors.query ? picture_weights(p, g, &o->tensors, l->max_rows, l->max_columns, &bar, out)
                                  : picture_pattern(p, g, l->max_rows, l->max_columns, &bar, out);
    progress_end(&bar);
    return status;
}

static void name_weights(const picture_options *o, const char *title, char text[static 256])
{
    if (o->tensors.head < 0)
        snprintf(text, 256, "%.180s: attention weights, mean over heads", title);
    else
        snprintf(text, 256, "%.180s: attention weights, head %d", title, o->tensors.head);
}

/* The graph's names of all tokens, NULL where some has none. */
static int names_of(const hga_graph *g, const char ***out)
{
    hga_id n = hga_graph_nodes(g).level_ptr[1];
    for (hga_id v = 0; v < n; v++)
        if (!hga_graph_name(g, v)) return CLI_GOOD;
    int status = take(n, sizeof **out, out);
    for (hga_id v = 0; status == CLI_GOOD && v < n; v++) (*out)[v] = hga_graph_name(g, v);
    return status;
}

/* The axes have words only if there are few enough tokens. */
int picture_file_write(const hga_graph *g, const hga_program *p, const char *title, const words *names,
                       picture_kind kind, const picture_options *o, const char *path)
{
    hga_nodes n = hga_graph_nodes(g);
    picture made = {0};
    const char **kept = NULL;
    char text[256];
    int status = CLI_GOOD;
    if (n.n_queries == 0 || n.n_keys == 0) return complain(CLI_DATA, "%s: has no tokens to draw", title);
    if (!names && n.n_queries <= WORD_TOKENS && n.n_keys <= WORD_TOKENS) TRY(names_of(g, &kept));
    const char **word = names ? names->text : kept;
    plot_words on_axes = {word ? word + n.query_first : NULL, word ? word + n.key_first : NULL};
    if (o->tensors.query)
        name_weights(o, title, text);
    else
        snprintf(text, sizeof text, "%.200s", title);
    layout l = layout_start(o->width, least_cell(&n, kind, o->width), n.n_queries, n.n_keys, &on_axes);
    TRY(make_picture(g, p, o, &l, &made));
    layout_finish(&made, hga_graph_kinds(g).n, &l);
    plot drawn = {.layout = l,
                  .picture = &made,
                  .title = text,
                  .words = on_axes,
                  .kinds = {hga_graph_kinds(g), n.query_first, n.key_first}};
    drawing all = plot_drawing(&drawn);
    TRY((kind == PICTURE_SVG ? svg_write : png_write)(&all, path));
done:
    picture_clear(&made);
    free((void *)kept);
    return status;
}

/* ---- options ---- */

static void start(void *options)
{
    *(picture_options *)options = (picture_options){.width = DEFAULT_WIDTH, .tensors.head = -1};
}

const char *picture_requested(const picture_options *o)
{
    const picture_tensors *t = &o->tensors;
    return o->typed_width    ? "--width"
           : t->head >= 0    ? "--head"
           : o->typed_layout ? "--layout"
           : t->key          ? "--key"
           : t->query        ? "--query"
                             : NULL;
}

void picture_forget_tensors(picture_options *o)
{
    o->tensors = (picture_tensors){.head = -1, .quiet = o->tensors.quiet};
    o->typed_layout = 0;
}

int picture_options_check(const picture_options *o)
{
    if (o->tensors.query && !o->tensors.key) return complain(CLI_USAGE, "--key FILE is missing beside --query");
    if (o->tensors.key && !o->tensors.query) return complain(CLI_USAGE, "--query FILE is missing beside --key");
    if (o->tensors.head >= 0 && !o->tensors.query) return complain(CLI_USAGE, "--head: needs --query and --key");
    return CLI_GOOD;
}

static const option_row options[] = {
    {"width", ID_SAID(picture_options, width, LEAST_WIDTH, MOST_WIDTH, typed_width), "PIXELS", 0,
     "width of a picture (default: 900)", 3},
    {"query", TEXT(picture_options, tensors.query), "FILE", 0,
     "draw the attention weights for this query tensor, [rows][dim] or [rows][heads][dim] (default: who attends to "
     "whom, by level)",
     3},
    {"key", TEXT(picture_options, tensors.key), "FILE", 0, "the key tensor that goes with --query", 3},
    {"layout", CHOICE_SAID(picture_options, tensors.layout, LAYOUT_WORDS, typed_layout), "L", 0,
     "of the tensors: nhd, or hnd, heads first, as torch has it (default: nhd)", 3},
    {"quiet", FLAG(picture_options, tensors.quiet), NULL, 0,
     "leave out the line on stderr that says how the tensors were read", 3},
    {"head", ID(picture_options, tensors.head, 0, MAX_HEADS - 1), "H", 0,
     "the head whose weights are drawn (default: the mean over heads)", 3},
    {0},
};
const option_list picture_list = {.rows = options, .start = start};
