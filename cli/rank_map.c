/* rank_map.c: hga rank-map, the numerical rank of the blocks of softmax scores. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "attend_io.h"
#include "command.h"
#include "drawing.h"
#include "rank_blocks.h"
#include "rank_picture.h"
#include "table.h"
#include "terminal.h"

enum { DEFAULT_BLOCK = 16, EXAMPLE_TOKENS = 16, EXAMPLE_BLOCK = 4, MOST_TOKENS = 16384, MOST_CELLS = 32 };
static const double default_tolerance = 1e-3;

typedef struct arguments {
    const char *query, *key, *out;
    double scale, tolerance;
    hga_id block, head;
    partition structure;
    tensor_layout layout;
    int has_scale, has_head, relative, example, json, quiet;
} arguments;

/* ---- scores ---- */

/* One head of given tensors. */
typedef struct head_scores {
    const float *query, *key;
    int64_t query_stride, key_stride;
    hga_id dim;
    double scale;
} head_scores;

static double score_of_head(hga_id i, hga_id j, const void *data)
{
    const head_scores *s = data;
    const float *q = s->query + i * s->query_stride, *k = s->key + j * s->key_stride;
    double sum = 0;
    for (hga_id c = 0; c < s->dim; c++) sum += (double)q[c] * (double)k[c];
    return s->scale * sum;
}

/* (12) */
static double score_of_example(hga_id i, hga_id j, const void *data)
{
    (void)data;
    double apart = i - j;
    return 2 * exp(-apart * apart) - 1;
}

static int check_tensors(const arguments *a, const tensor_file *q, const tensor_file *k)
{
    if (k->columns != q->columns)
        return complain(CLI_DATA, "%s: has dim %d, the query in %s has %d", k->array.path, k->columns, q->array.path,
                        q->columns);
    if (k->rows != q->rows)
        return complain(CLI_DATA, "%s: has %d rows, the query in %s has %d; a rank map is of self-attention",
                        k->array.path, k->rows, q->array.path, q->rows);
    if (q->heads % k->heads != 0)
        return complain(CLI_DATA, "%s: has %d heads, which do not divide the query's %d", k->array.path, k->heads,
                        q->heads);
    if (a->head >= q->heads)
        return complain(CLI_USAGE, "--head: %d, but %s has %d heads, counted from 0", a->head, q->array.path, q->heads);
    if (q->rows > MOST_TOKENS)
        return complain(CLI_DATA, "%s: has %d rows; singular values of more than %d take too long", q->array.path,
                        q->rows, MOST_TOKENS);
    return CLI_GOOD;
}

static head_scores scores_of(const arguments *a, const tensor_file *q, const tensor_file *k)
{
    hga_id group = q->heads / k->heads, dim = q->columns;
    head_scores s = {.dim = dim, .scale = a->has_scale ? a->scale : 1 / sqrt(dim)};
    s.query = q->array.real + (int64_t)a->head * dim;
    s.key = k->array.real + (int64_t)(a->head / group) * dim;
    s.query_stride = (int64_t)q->heads * dim;
    s.key_stride = (int64_t)k->heads * dim;
    return s;
}

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

static const char *structure_name(const rank_map *m)
{
    return m->structure == PARTITION_SIBLINGS ? "siblings" : "neighbours";
}

static int print_json(const arguments *a, const rank_map *m, double scale)
{
    int64_t stored = stored_in_all(m);
    json_t *whole = json_pack("{s:i, s:i, s:o, s:i, s:s, s:f, s:b, s:I, s:I, s:f, s:I}", "tokens", m->n, "head",
                              a->head, "scale", a->example ? json_null() : json_real(scale), "block", m->block,
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
    if (least >= m->n)
        printf("On these scores no smaller block than all %d tokens has the rank that the far blocks need: a hierarchy "
               "does not suit them at "
               "tolerance %g.\n",
               m->n, m->tolerance);
    else
        printf("On these scores block=%lld is the smallest of those above with the rank that tolerance %g needs. That "
               "is necessary, not sufficient: the "
               "singular\nvectors are the best factors there are, averages are given. `hga choose` measures the error "
               "itself.\n",
               (long long)least, m->tolerance);
}

static void describe(const arguments *a, const rank_map *m, double scale, char text[static 384])
{
    char what[192];
    if (a->example)
        snprintf(what, sizeof what, "exp(2 exp(-(i - j)^2) - 1)");
    else
        snprintf(what, sizeof what, "%.100s: exp(%g q.k), head %d", file_name(a->query), scale, a->head);
    snprintf(text, 384, "%s; %d tokens, blocks of %d, %s; tolerance %g%s", what, m->n, m->block, structure_name(m),
             m->tolerance, m->relative ? " sigma_1" : "");
}

static int print_text(const arguments *a, const rank_map *m, double scale)
{
    char title[384];
    int64_t stored = stored_in_all(m), entries = (int64_t)m->n * m->n;
    int status = CLI_GOOD;
    describe(a, m, scale, title);
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

/* ---- the command ---- */

enum {
    KEY_QUERY = 0x2800,
    KEY_KEY,
    KEY_SCALE,
    KEY_TOLERANCE,
    KEY_BLOCK,
    KEY_STRUCTURE,
    KEY_HEAD,
    KEY_RELATIVE,
    KEY_EXAMPLE,
    KEY_JSON,
    KEY_LAYOUT,
    KEY_QUIET
};

static int read_tolerance(const char *text, double *out)
{
    int status = read_number("--tolerance", text, out);
    if (status == CLI_GOOD && *out <= 0) return complain(CLI_USAGE, "--tolerance: %s is not above 0", text);
    return status;
}

static int read_structure(const char *text, partition *out)
{
    int i = choice_of("neighbours siblings", text);
    if (i < 0) return complain(CLI_USAGE, "--structure: '%s' is not one of: siblings neighbours", text);
    *out = i == 0 ? PARTITION_NEIGHBOURS : PARTITION_SIBLINGS;
    return CLI_GOOD;
}

static int check(arguments *a)
{
    if (a->example && (a->query || a->key || a->has_scale || a->has_head))
        return complain(CLI_USAGE, "--example has scores of its own: no --query, --key, --scale or --head");
    if (!a->example && !a->query) return complain(CLI_USAGE, "--query FILE is missing (or --example)");
    if (!a->example && !a->key) return complain(CLI_USAGE, "--key FILE is missing");
    if (a->block == 0) a->block = a->example ? EXAMPLE_BLOCK : DEFAULT_BLOCK;
    return drawing_check_path("-o", a->out);
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case KEY_QUERY: a->query = value; return 0;
    case KEY_KEY: a->key = value; return 0;
    case KEY_SCALE: a->has_scale = 1; return arguments_said(read_number("--scale", value, &a->scale));
    case KEY_TOLERANCE: return arguments_said(read_tolerance(value, &a->tolerance));
    case KEY_BLOCK: return arguments_said(read_id("--block", value, 1, MOST_TOKENS, &a->block));
    case KEY_STRUCTURE: return arguments_said(read_structure(value, &a->structure));
    case KEY_HEAD: a->has_head = 1; return arguments_said(read_id("--head", value, 0, MAX_HEADS, &a->head));
    case KEY_RELATIVE: a->relative = 1; return 0;
    case KEY_EXAMPLE: a->example = 1; return 0;
    case KEY_JSON: a->json = 1; return 0;
    case KEY_LAYOUT: return arguments_said(read_layout(value, &a->layout));
    case KEY_QUIET: a->quiet = 1; return 0;
    case 'o': a->out = value; return 0;
    case ARGP_KEY_END: return arguments_said(check(a));
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"query", KEY_QUERY, "FILE", 0, "query tensor, [rows][dim] or [rows][heads][dim]; - is standard input", 1},
    {"key", KEY_KEY, "FILE", 0, "key tensor of as many rows; its heads divide the query's", 1},
    {"scale", KEY_SCALE, "S", 0, "factor of q . k (default: 1 / sqrt(dim))", 1},
    {"head", KEY_HEAD, "H", 0, "the query head, from 0 (default: 0)", 1},
    {"example", KEY_EXAMPLE, NULL, 0, "the paper's example instead, (11) and (12), 16 tokens in blocks of 4", 2},
    {"tolerance", KEY_TOLERANCE, "E", 0, "what singular values that are left out may sum up to (default: 1e-3)", 3},
    {"relative", KEY_RELATIVE, NULL, 0,
     "the tolerance is a share of the block's largest singular value (default: a number, as in the paper)", 3},
    {"block", KEY_BLOCK, "C", 0, "tokens in a block of the finest level (default: 16)", 3},
    {"structure", KEY_STRUCTURE, "NAME", 0, "siblings, as in (9), or neighbours, as in (16)-(19) (default: siblings)",
     3},
    {"layout", KEY_LAYOUT, "L", 0, "of the tensors: nhd, or hnd, heads first, as torch has it (default: nhd)", 1},
    {"quiet", KEY_QUIET, NULL, 0, "do not say on stderr what the query was understood to be", 9},
    {NULL, 'o', "FILE", 0, "draw the map, as .svg or .png", 9},
    {"json", KEY_JSON, NULL, 0, "as JSON", 9},
    {0},
};

static const char doc[] =
    "Whether a hierarchy suits given queries and keys: the numerical rank of each block of A = exp(scores), as in "
    "section 4 of "
    "the H-Transformer-1D paper."
    "\vThe rank of a block is the least r such that its singular values after the first r sum up to less than the "
    "tolerance. "
    "Any number of tokens and "
    "any block size: the last blocks are as small as they come. Singular values are LAPACK's, in double.";

static int measure(const arguments *a, hga_id n, const score_source *scores, rank_map *m)
{
    int status = rank_map_cut(n, a->block, a->structure, m);
    if (status) return status;
    m->tolerance = a->tolerance;
    m->relative = a->relative;
    return rank_map_measure(scores, m);
}

static int report(const arguments *a, const rank_map *m, double scale)
{
    char title[384];
    describe(a, m, scale, title);
    int status = a->out ? rank_picture_write(m, title, a->out) : CLI_GOOD;
    if (status) return status;
    return a->json ? print_json(a, m, scale) : print_text(a, m, scale);
}

int run_rank_map(int argc, char **argv)
{
    struct argp argp = {options, parse, NULL, doc, NULL, NULL, NULL};
    arguments a = {.tolerance = default_tolerance, .structure = PARTITION_SIBLINGS};
    tensor_file q = {0}, k = {0};
    rank_map m = {0};
    head_scores head = {0};
    score_source scores = {score_of_example, NULL};
    int status = CLI_GOOD;
    TRY(arguments_parse(&argp, argc, argv, &a));
    if (!a.example) {
        TRY(tensor_file_read_one(a.query, a.layout, &q));
        TRY(tensor_file_read_one(a.key, a.layout, &k));
        TRY(check_tensors(&a, &q, &k));
        if (!a.quiet) tensor_file_say(&q);
        head = scores_of(&a, &q, &k);
        scores = (score_source){score_of_head, &head};
    }
    TRY(measure(&a, a.example ? EXAMPLE_TOKENS : q.rows, &scores, &m));
    TRY(report(&a, &m, head.scale));
done:
    rank_map_clear(&m);
    npy_clear(&q.array);
    npy_clear(&k.array);
    return status;
}
