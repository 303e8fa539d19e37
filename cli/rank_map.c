/* rank_map.c: hga rank-map, the numerical rank of the blocks of softmax scores. */
#include <math.h>

#include "arguments.h"
#include "attend_io.h"
#include "command.h"
#include "drawing.h"
#include "rank_blocks.h"
#include "rank_picture.h"
#include "rank_report.h"

enum { DEFAULT_BLOCK = 16, EXAMPLE_TOKENS = 16, EXAMPLE_BLOCK = 4, MOST_TOKENS = 16384 };
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

/* ---- the command ---- */

enum { KEY_SCALE = 0x2800, KEY_TOLERANCE, KEY_BLOCK, KEY_STRUCTURE, KEY_HEAD, KEY_LAYOUT };

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
    case KEY_SCALE: a->has_scale = 1; return arguments_said(read_number("--scale", value, &a->scale));
    case KEY_TOLERANCE: return arguments_said(read_tolerance(value, &a->tolerance));
    case KEY_BLOCK: return arguments_said(read_id("--block", value, 1, MOST_TOKENS, &a->block));
    case KEY_STRUCTURE: return arguments_said(read_structure(value, &a->structure));
    case KEY_HEAD: a->has_head = 1; return arguments_said(read_id("--head", value, 0, MAX_HEADS, &a->head));
    case KEY_LAYOUT: return arguments_said(read_layout(value, &a->layout));
    case 'o': a->out = value; return 0;
    case ARGP_KEY_END: return arguments_said(check(a));
    default: return arguments_put(key, value, a);
    }
}

static const struct argp_option options[] = {
    {"query", TEXT(arguments, query), "FILE", 0, "query tensor, [rows][dim] or [rows][heads][dim]; - is standard input",
     1},
    {"key", TEXT(arguments, key), "FILE", 0, "key tensor of as many rows; its heads divide the query's", 1},
    {"scale", KEY_SCALE, "S", 0, "factor of q . k (default: 1 / sqrt(dim))", 1},
    {"head", KEY_HEAD, "H", 0, "the query head, from 0 (default: 0)", 1},
    {"example", FLAG(arguments, example), NULL, 0,
     "the paper's example instead, (11) and (12), 16 tokens in blocks of 4", 2},
    {"tolerance", KEY_TOLERANCE, "E", 0, "what singular values that are left out may sum up to (default: 1e-3)", 3},
    {"relative", FLAG(arguments, relative), NULL, 0,
     "the tolerance is a share of the block's largest singular value (default: a number, as in the paper)", 3},
    {"block", KEY_BLOCK, "C", 0, "tokens in a block of the finest level (default: 16)", 3},
    {"structure", KEY_STRUCTURE, "NAME", 0, "siblings, as in (9), or neighbours, as in (16)-(19) (default: siblings)",
     3},
    {"layout", KEY_LAYOUT, "L", 0, "of the tensors: nhd, or hnd, heads first, as torch has it (default: nhd)", 1},
    {"quiet", FLAG(arguments, quiet), NULL, 0, "leave out the line on stderr that says how the tensors were read", 9},
    {NULL, 'o', "FILE", 0, "draw the map, as .svg or .png", 9},
    {"json", FLAG(arguments, json), NULL, 0, "as JSON", 9},
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
    rank_scores s = {.query = a->example ? NULL : a->query, .head = a->head, .scale = scale};
    char title[RANK_TITLE_BYTES];
    rank_report_title(m, &s, title);
    int status = a->out ? rank_picture_write(m, title, a->out) : CLI_GOOD;
    if (status) return status;
    return a->json ? rank_report_json(m, &s) : rank_report_text(m, &s);
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
