/* picture_weights.c: attention weights summed over cells. The output is linear in the values, so that running the
   program on the indicator columns of the cells gives, row by row, the attention paid to each cell, exactly and without
   a tokens x tokens table. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "picture.h"
#include "rows.h"

enum { CHUNK = 128, DECADES = 3, STEPS = 60 };

typedef struct weighing {
    const hga_program *program;
    const hga_graph *graph;
    hga_nodes nodes;
    picture *picture;
    tensor_file query, key;
    hga_id kv_head, n_values, n_out; /* rows of the value and of the output */
    hga_id *column_of;               /* key token -> its column */
    float *value, *out;              /* [rows][CHUNK] */
    double *cells;                   /* [rows of cells][columns], attention summed over queries and heads */
} weighing;

/* ---- tensors ---- */

static int check_rows(const weighing *w, const tensor_file *t, hga_binding binding, hga_field_rows otherwise)
{
    hga_id rows = bound_rows(w->graph, w->program, binding, otherwise);
    return rows == t->rows ? CLI_GOOD
                           : complain(CLI_DATA, "%s: has %d rows, the graph needs %d", t->array.path, t->rows, rows);
}

/* Query and key must have the rows that the program reads, and the requested head. */
static int read_tensors(weighing *w, const picture_tensors *t)
{
    MUST(tensor_file_check_program(w->program));
    MUST(tensor_file_read_pair(t->query, t->key, t->layout, &w->query, &w->key));
    MUST(check_rows(w, &w->query, HGA_IO_QUERY, HGA_ROWS_QUERIES));
    MUST(check_rows(w, &w->key, HGA_IO_KEY, HGA_ROWS_KEYS));
    if (t->head >= w->query.heads)
        MUST(complain(CLI_USAGE, "--head: %d, but %s has heads 0 .. %d", t->head, t->query, w->query.heads - 1));
    return CLI_GOOD;
}

/* ---- values ---- */

/* For columns [first, first + n): each value row is the mean of its key tokens' indicators, so that a node's weight
   is divided equally among its tokens. */
static int fill_values(weighing *w, hga_id first, hga_id n)
{
    const hga_nodes *nodes = &w->nodes;
    hga_id *tokens = NULL, begin = nodes->key_first, rows = nodes->n_keys;
    int status = CLI_GOOD;
    TRY(take(nodes->n, sizeof *tokens, &tokens));
    memset(w->value, 0, (size_t)((int64_t)w->n_values * CHUNK) * sizeof *w->value);
    hga_id value = hga_program_field(w->program, HGA_IO_VALUE);
    if (value)
        TRY(complain_of(hga_program_rows(w->program, w->graph, value, &begin, &rows), CLI_DATA, "attention weights"));
    for (int fill = 0; fill < 2; fill++)
        for (hga_id j = 0; j < nodes->n_keys; j++)
            for (hga_id v = nodes->key_first + j; v >= 0; v = nodes->parent ? nodes->parent[v] : -1) {
                hga_id column = w->column_of[j] - first;
                if (!fill)
                    tokens[v]++;
                else if (v >= begin && v - begin < rows && column >= 0 && column < n)
                    w->value[(int64_t)(v - begin) * CHUNK + column] += 1 / (float)tokens[v];
            }
done:
    free(tokens);
    return status;
}

/* ---- sums ---- */

static void add_rows(weighing *w, hga_id first, hga_id n)
{
    const picture *p = w->picture;
    const hga_field *f = bound_field(w->program, HGA_IO_OUT);
    hga_id skip = f && f->io == HGA_ROWS_NODES ? w->nodes.query_first : 0;
    for (hga_id i = 0; i < p->n_queries; i++) {
        double *cell = w->cells + (int64_t)cell_of(i, p->n_queries, p->rows) * p->columns + first;
        for (hga_id c = 0; c < n; c++) cell[c] += (double)w->out[((int64_t)i + skip) * CHUNK + c];
    }
}

/* Computes the attention to n columns of cells at once, whose indicators are the values. */
static int run_columns(weighing *w, const hga_plan *plan, hga_workspace *workspace, hga_id head, hga_id first)
{
    hga_id left = w->picture->columns - first, n = left < CHUNK ? left : CHUNK;
    hga_io io = {.query = tensor_file_heads(&w->query, head, 1, 1),
                 .key = tensor_file_heads(&w->key, head / (w->query.heads / w->key.heads), 1, 1),
                 .value = {.data = w->value, .rows = w->n_values},
                 .out = {.data = w->out, .rows = w->n_out}};
    MUST(fill_values(w, first, n));
    MUST(complain_of(hga_plan_execute(plan, workspace, &io), CLI_DATA, "attention weights"));
    add_rows(w, first, n);
    return CLI_GOOD;
}

/* Adds up the weights of one head, or of all, head by head and some columns at a time. */
static int run_heads(weighing *w, hga_id head, progress *bar)
{
    hga_shape shape = {.n_heads = 1, .n_kv_heads = 1, .dim = w->query.columns, .dim_v = CHUNK};
    hga_plan *plan = NULL;
    hga_workspace *workspace = NULL;
    hga_id from = head < 0 ? 0 : head, to = head < 0 ? w->query.heads : head + 1;
    int status = CLI_GOOD;
    TRY(complain_of(hga_plan_create(w->graph, w->program, &shape, NULL, &plan), CLI_DATA, "attention weights"));
    TRY(complain_of(hga_workspace_create(plan, &workspace), CLI_DATA, "attention weights"));
    for (hga_id h = from; h < to; h++) {
        for (hga_id first = 0; first < w->picture->columns; first += CHUNK) {
            TRY(run_columns(w, plan, workspace, h, first));
            progress_show(((h - from) + ((double)first + CHUNK) / w->picture->columns) / (to - from + 1), bar);
        }
    }
done:
    hga_workspace_destroy(workspace);
    hga_plan_destroy(plan);
    return status;
}

/* ---- cells ---- */

/* Means over the queries of a row and over heads, then logarithms from the largest down. */
static int finish_cells(weighing *w, hga_id heads)
{
    picture *p = w->picture;
    float *value = NULL;
    int status = take((int64_t)p->rows * p->columns, sizeof *value, &value);
    for (hga_id r = 0; status == CLI_GOOD && r < p->rows; r++)
        for (hga_id c = 0; c < p->columns; c++) {
            double *cell = &w->cells[(int64_t)r * p->columns + c];
            *cell /= (double)(cell_start(r + 1, p->n_queries, p->rows) - cell_start(r, p->n_queries, p->rows)) * heads;
            if (*cell > p->largest) p->largest = *cell;
        }
    for (int64_t i = 0; status == CLI_GOOD && i < (int64_t)p->rows * p->columns; i++)
        if (w->cells[i] > 0) value[i] = (float)fmax(1 + log10(w->cells[i] / p->largest) / DECADES, 1e-6);
    if (status == CLI_GOOD) status = picture_from_cells(p, value, NULL, STEPS);
    free(value);
    return status;
}

/* Allocates values, outputs and cells, and finds the column of each key. */
static int take_area(weighing *w)
{
    const picture *p = w->picture;
    MUST(take(w->nodes.n_keys, sizeof *w->column_of, &w->column_of));
    MUST(take((int64_t)w->n_values * CHUNK, sizeof *w->value, &w->value));
    MUST(take((int64_t)w->n_out * CHUNK, sizeof *w->out, &w->out));
    MUST(take((int64_t)p->rows * p->columns, sizeof *w->cells, &w->cells));
    for (hga_id j = 0; j < w->nodes.n_keys; j++) w->column_of[j] = cell_of(j, p->n_keys, p->columns);
    return CLI_GOOD;
}

static void weighing_clear(weighing *w)
{
    npy_clear(&w->query.array);
    npy_clear(&w->key.array);
    free(w->column_of);
    free(w->value);
    free(w->out);
    free(w->cells);
}

/* The picture of attention weights, computed by the program itself; files of query and key are read here. */
int picture_weights(const hga_program *p, const hga_graph *g, const picture_tensors *tensors, hga_id max_rows,
                    hga_id max_columns, progress *bar, picture *out)
{
    weighing w = {.program = p, .graph = g, .nodes = hga_graph_nodes(g), .picture = out};
    int status = CLI_GOOD;
    *out = picture_of(g, max_rows, max_columns);
    out->is_weights = 1, out->decades = DECADES;
    if (!score_stage(p))
        TRY(complain(CLI_USAGE, "--query: the program computes no scores, so that no tensors decide its weights"));
    TRY(read_tensors(&w, tensors));
    w.n_values = bound_rows(g, p, HGA_IO_VALUE, HGA_ROWS_KEYS);
    w.n_out = bound_rows(g, p, HGA_IO_OUT, HGA_ROWS_QUERIES);
    if (!tensors->quiet) tensor_file_say(&w.query);
    TRY(take_area(&w));
    TRY(run_heads(&w, tensors->head, bar));
    TRY(finish_cells(&w, tensors->head < 0 ? w.query.heads : 1));
done:
    weighing_clear(&w);
    if (status) picture_clear(out);
    return status;
}
