/* rank_report.c: the measured ranks of blocks in sum, and what they mean for choosing a block size. */
#include "rank_report.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "complain.h"
#include "table.h"
#include "terminal.h"

enum { MOST_CELLS = 32 };

/* ---- what was found ---- */

/* The blocks of a level, or the near ones (-1), in sum. */
typedef struct level_sum {
    int64_t blocks, entries, stored, full;
    hga_id least, most;
    double mean;
} level_sum;

static level_sum sum_level(const rank_map *m, hga_id level)
{
    level_sum s = {.least = INT32_MAX};
    for (int64_t i = 0; i < m->n_blocks; i++) {
        const rank_block *b = &m->blocks[i];
        if (b->level != level) continue;
        s.blocks++;
        s.entries += (int64_t)b->rows * b->columns;
        s.stored += block_stored(b);
        s.full += b->rank == (b->rows < b->columns ? b->rows : b->columns);
        s.least = b->rank < s.least ? b->rank : s.least;
        s.most = b->rank > s.most ? b->rank : s.most;
        s.mean += b->rank;
    }
    s.mean /= (double)s.blocks;
    return s;
}

static int64_t stored_in_all(const rank_map *m)
{
    int64_t stored = 0;
    for (int64_t i = 0; i < m->n_blocks; i++) stored += block_stored(&m->blocks[i]);
    return stored;
}

/* What another block size would mean. Blocks that are far at a coarser size are the same ones, so that nothing is
   measured again. */
typedef struct size_choice {
    int64_t block, stored;
    hga_id needed; /* the largest rank beyond what H-Transformer sees exactly; -1: it sees all exactly */
    hga_id kept;   /* by H-Transformer's averages, as a rank */
    int enough;
} size_choice;

/* entries of the own blocks, and with neighbours of the adjacent ones */
static int64_t near_entries(const rank_map *m, int64_t block)
{
    int64_t entries = 0;
    for (int64_t first = 0; first < m->n; first += block) {
        int64_t own = m->n - first < block ? m->n - first : block, left = m->n - first - own,
                next = left < block ? left : block;
        entries += own * own + (m->structure == PARTITION_NEIGHBOURS ? 2 * own * next : 0);
    }
    return entries;
}

static size_choice choice_at(const rank_map *m, hga_id doublings)
{
    int siblings = m->structure == PARTITION_SIBLINGS;
    size_choice c = {.block = (int64_t)m->block << doublings, .needed = -1};
    c.kept = (hga_id)(siblings ? c.block : (c.block + 1) / 2);
    c.stored = near_entries(m, c.block);
    for (int64_t i = 0; i < m->n_blocks; i++) {
        const rank_block *b = &m->blocks[i];
        if (b->level < 0 || b->level < doublings + !siblings) continue;
        c.stored += block_stored(b);
        if (b->level > doublings && b->rank > c.needed) c.needed = b->rank;
    }
    c.enough = c.needed <= c.kept;
    return c;
}

/* ---- as JSON, which the tables are made of ---- */

static json_t *level_json(const rank_map *m, hga_id level)
{
    char name[32];
    level_sum s = sum_level(m, level);
    snprintf(name, sizeof name, level < 0 ? "near" : "level %d", level);
    return json_pack("{s:s, s:i, s:I, s:I, s:i, s:f, s:i, s:I, s:I, s:I}", "blocks_of", name, "level", level, "size",
                     (json_int_t)(level < 0 ? m->block : level_size(m, level)), "blocks", (json_int_t)s.blocks,
                     "rank_least", s.least, "rank_mean", s.mean, "rank_most", s.most, "full_rank", (json_int_t)s.full,
                     "entries", (json_int_t)s.entries, "stored", (json_int_t)s.stored);
}

static json_t *levels_json(const rank_map *m)
{
    json_t *rows = json_array();
    for (hga_id l = -1; l < m->n_levels; l++)
        if (sum_level(m, l).blocks) json_array_append_new(rows, level_json(m, l));
    return rows;
}

static json_t *choice_json(const rank_map *m, const size_choice *c)
{
    return json_pack("{s:I, s:o, s:i, s:b, s:I, s:f}", "block", (json_int_t)c->block, "rank_needed",
                     c->needed < 0 ? json_null() : json_integer(c->needed), "rank_kept", c->kept, "enough", c->enough,
                     "stored", (json_int_t)c->stored, "compression", (double)m->n * m->n / (double)c->stored);
}

static json_t *choices_json(const rank_map *m)
{
    json_t *rows = json_array();
    for (hga_id d = 0; d == 0 || (int64_t)m->block << d < m->n; d++) {
        size_choice c = choice_at(m, d);
        json_array_append_new(rows, choice_json(m, &c));
    }
    return rows;
}

static json_t *block_json(const rank_block *b)
{
    return json_pack("{s:b, s:i, s:i, s:i, s:i, s:i, s:i, s:I}", "near", b->level < 0, "level", b->level, "row", b->row,
                     "column", b->column, "rows", b->rows, "columns", b->columns, "rank", b->rank, "stored",
                     (json_int_t)block_stored(b));
}

static json_t *blocks_json(const rank_map *m)
{
    json_t *rows = json_array();
    for (int64_t i = 0; i < m->n_blocks; i++) json_array_append_new(rows, block_json(&m->blocks[i]));
    return rows;
}

/* the smallest block size, of those tried, that has the rank; there always is the one that leaves nothing far */
static int64_t least_enough(const rank_map *m)
{
    hga_id d = 0;
    while ((int64_t)m->block << d < m->n && !choice_at(m, d).enough) d++;
    return (int64_t)m->block << d;
}

/* Does a block size leave nothing far away? */
static int sees_all(const rank_map *m, int64_t block)
{
    hga_id d = 0;
    while ((int64_t)m->block << d < block) d++;
    return block >= m->n || choice_at(m, d).needed < 0;
}

static const char *structure_name(const rank_map *m)
{
    return m->structure == PARTITION_SIBLINGS ? "siblings" : "neighbours";
}

int rank_report_json(const rank_map *m, const rank_scores *s)
{
    int64_t stored = stored_in_all(m);
    json_t *whole = json_pack("{s:i, s:i, s:o, s:i, s:s, s:f, s:b, s:I, s:I, s:f, s:I}", "tokens", m->n, "head",
                              s->head, "scale", s->query ? json_real(s->scale) : json_null(), "block", m->block,
                              "structure", structure_name(m), "tolerance", m->tolerance, "relative", m->relative,
                              "entries", (json_int_t)m->n * m->n, "stored", (json_int_t)stored, "compression",
                              (double)m->n * m->n / (double)stored, "least_block", (json_int_t)least_enough(m));
    json_t *lists = json_pack("{s:o, s:o, s:o}", "levels", levels_json(m), "block_sizes", choices_json(m), "blocks",
                              blocks_json(m));
    if (whole && json_object_update(whole, lists) != 0) json_decref(whole), whole = NULL;
    json_decref(lists);
    return json_print(stdout, whole);
}

/* ---- as text ---- */

/* Each block's rank where its first row and column meet, a point where the block goes on. */
static int print_map(const rank_map *m)
{
    int cells = (int)(((int64_t)m->n + m->block - 1) / m->block);
    hga_id *rank = NULL;
    if (cells > MOST_CELLS) {
        printf("The map has %d x %d blocks; -o FILE.svg draws it.\n\n", cells, cells);
        return CLI_GOOD;
    }
    int status = take((int64_t)cells * cells, sizeof *rank, &rank);
    if (status) return status;
    for (int i = 0; i < cells * cells; i++) rank[i] = -1;
    for (int64_t i = 0; i < m->n_blocks; i++)
        rank[m->blocks[i].row / m->block * cells + m->blocks[i].column / m->block] = m->blocks[i].rank;
    for (int i = 0; i < cells * cells; i++) {
        if (rank[i] >= 0)
            printf("%5d", rank[i]);
        else
            printf("%5s", ".");
        if ((i + 1) % cells == 0) putchar('\n');
    }
    putchar('\n');
    free(rank);
    return CLI_GOOD;
}

static const column level_columns[] = {
    {"blocks_of", "blocks", NULL, 0},    {"size", "side", NULL, 0},
    {"blocks", "number", NULL, 0},       {"rank_least", "least rank", NULL, 0},
    {"rank_mean", "mean", "%.2f", 0},    {"rank_most", "most", NULL, 0},
    {"full_rank", "full rank", NULL, 0}, {"entries", "entries", NULL, 0},
    {"stored", "stored", NULL, 0},       {0},
};

static const column choice_columns[] = {
    {"block", "block", NULL, 0},
    {"rank_needed", "rank needed far away", NULL, 0},
    {"rank_kept", "rank htransformer keeps", NULL, 0},
    {"enough", "enough", NULL, 0},
    {"stored", "stored", NULL, 0},
    {"compression", "compression", "%.3f", 0},
    {0},
};

static int print_rows(json_t *rows, const column *columns)
{
    int status = rows ? table_print(stdout, rows, columns) : complain(CLI_OUTSIDE, "out of memory");
    json_decref(rows);
    putchar('\n');
    return status;
}

/* what it means for choosing a block size */
static void print_advice(const rank_map *m)
{
    int64_t least = least_enough(m);
    printf("\"stored\": a near block whole, a far one as itself or as two factors of its rank, whichever are fewer "
           "numbers.\n");
    printf("htransformer with structure=%s represents a far block by averages, a matrix of rank at most %s.\n",
           structure_name(m), m->structure == PARTITION_SIBLINGS ? "block" : "block / 2");
    if (sees_all(m, least))
        printf("No hierarchy keeps these scores at tolerance %g: no block size leaves blocks far away and has the rank "
               "that they need. block=%lld\nsees every pair exactly, as dense attention does.\n",
               m->tolerance, (long long)least);
    else
        printf("On these scores block=%lld is the smallest of those above with the rank that tolerance %g needs. That "
               "is necessary, not sufficient: the "
               "singular\nvectors are the best factors there are, averages are given. `hga choose` measures the error "
               "itself.\n",
               (long long)least, m->tolerance);
}

void rank_report_title(const rank_map *m, const rank_scores *s, char text[static RANK_TITLE_BYTES])
{
    char what[192];
    if (s->query)
        snprintf(what, sizeof what, "%.100s: exp(%g q.k), head %d", file_name(s->query), s->scale, s->head);
    else
        snprintf(what, sizeof what, "exp(2 exp(-(i - j)^2) - 1)");
    snprintf(text, RANK_TITLE_BYTES, "%s; %d tokens, blocks of %d, %s; tolerance %g%s", what, m->n, m->block,
             structure_name(m), m->tolerance, m->relative ? " sigma_1" : "");
}

int rank_report_text(const rank_map *m, const rank_scores *s)
{
    char title[RANK_TITLE_BYTES];
    int64_t stored = stored_in_all(m), entries = (int64_t)m->n * m->n;
    int status = CLI_GOOD;
    rank_report_title(m, s, title);
    terminal_text(stdout, title);
    fputs("\n\n", stdout);
    TRY(print_map(m));
    TRY(print_rows(levels_json(m), level_columns));
    printf("stored %lld of %lld entries: compression %.4g\n\n", (long long)stored, (long long)entries,
           (double)entries / (double)stored);
    TRY(print_rows(choices_json(m), choice_columns));
    print_advice(m);
done:
    return status;
}
