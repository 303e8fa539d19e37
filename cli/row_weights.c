/* row_weights.c: the tensors of hga inspect --row and hga view, and the weights that the library finds with them. */
#include "row_weights.h"

#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "rows.h"
#include "tree_file.h"

/* ---- tensors ---- */

static int check_rows(const graph_file *f, const char *option, const tensor_file *t, hga_binding binding,
                      hga_field_rows otherwise)
{
    hga_id rows = bound_rows(f->graph, &f->program, binding, otherwise);
    if (t->rows == rows) return CLI_GOOD;
    return complain(CLI_DATA, "%s: %s has shape %s, not (%d, dim) or (%d, heads, dim)", option, t->array.path,
                    npy_shape(&t->array), rows, rows);
}

/* Weights need no values, but the rows that values would have. */
static int read_tensors(const graph_file *f, const weighing *w, attend_io *io)
{
    MUST(tensor_file_read_pair(w->tensors.query, w->tensors.key, w->layout, &io->query, &io->key));
    MUST(check_rows(f, "--query", &io->query, HGA_IO_QUERY, HGA_ROWS_QUERIES));
    MUST(check_rows(f, "--key", &io->key, HGA_IO_KEY, HGA_ROWS_KEYS));
    io->part = part_of(io, 0, 1);
    io->value = (tensor_file){
        .rows = bound_rows(f->graph, &f->program, HGA_IO_VALUE, HGA_ROWS_KEYS), .heads = io->key.heads, .columns = 1};
    return CLI_GOOD;
}

/* ---- edges ---- */

typedef struct edge_list {
    row_edge_list *out;
    hga_id head;
    int64_t at;
} edge_list;

hga_status row_edge_add(const hga_seen *seen, void *list)
{
    row_edge_list *l = list;
    if (l->n == l->capacity) {
        int64_t capacity = 2 * l->capacity + 64;
        hga_seen *more = realloc(l->seen, (size_t)capacity * sizeof *more);
        if (more) l->seen = more;
        double *weight = l->heads ? realloc(l->weight, (size_t)(capacity * l->heads) * sizeof *weight) : NULL;
        if (weight) l->weight = weight;
        if (!more || (l->heads && !weight)) return hga_fail(HGA_ENOMEM, "%lld edges of one token", (long long)capacity);
        l->capacity = capacity;
    }
    l->seen[l->n++] = *seen;
    return HGA_OK;
}

/* Every head has the same edges in the same order, so the first one's are listed and all weighed. */
static hga_status add_edge(const hga_weight *w, void *context)
{
    edge_list *l = context;
    row_edge_list *out = l->out;
    hga_status st = l->head == 0 ? row_edge_add(&w->edge, out) : HGA_OK;
    if (st) return st;
    out->weight[l->at++ * out->heads + l->head] = w->weight;
    return HGA_OK;
}

/* All heads' weights are of the same edges, which the first head has listed. */
int row_weights(const graph_file *f, const row_tensors *t, hga_id token, row_edge_list *out)
{
    edge_list l = {.out = out};
    const int64_t before = out->n;
    out->heads = t->heads;
    for (l.head = 0; l.head < out->heads; l.head++) {
        l.at = before;
        MUST(complain_of(hga_program_weights(&t->m.program, f->graph, &t->io.shape, &t->io.io, token, t->first + l.head,
                                             add_edge, &l, NULL),
                         CLI_DATA, t->path));
    }
    return CLI_GOOD;
}

/* Reads the tensors of --query and the others, and binds them to the graph's program. */
int row_tensors_read(const weighing *w, const graph_file *f, const char *path, row_tensors *out)
{
    *out = (row_tensors){.path = path};
    if (f->map.id && !f->in_order) tree_file_tell(path, f->map.id, f->map.n, hga_graph_nodes(f->graph).level_ptr[1], 1);
    if (!score_stage(&f->program)) return complain(CLI_USAGE, "--query: nothing in %s depends on queries", path);
    out->m = (model){.graph = f->graph,
                     .program = f->program,
                     .map = f->map,
                     .tree_heads = 1,
                     .from_file = 1,
                     .title = strdup(path)};
    if (!out->m.title) return complain(CLI_OUTSIDE, "out of memory");
    MUST(read_tensors(f, w, &out->io));
    MUST(call_put(&w->call, &out->m));
    MUST(attend_io_bind(&w->tensors, &w->call, &out->m, &out->io));
    out->first = w->first, out->heads = w->heads ? w->heads : out->io.shape.n_heads;
    return CLI_GOOD;
}

void row_tensors_clear(row_tensors *t)
{
    attend_io_clear(&t->io);
    free(t->m.title);
    *t = (row_tensors){0};
}

void weighing_chooses(const weighing *w, chosen_source *c)
{
    c->query = w->tensors.query, c->key = w->tensors.key, c->layout = w->layout;
    if (w->call.text[HGA_TABLE_SCALE]) c->scale = &w->call.number[HGA_TABLE_SCALE];
}

void weighing_of(const model *m, weighing *w) { w->first = m->first_head, w->heads = m->n_heads; }

/* ---- the command line ---- */

static int check(void *input)
{
    const weighing *w = input;
    const attend_paths *t = &w->tensors;
    if (!t->query != !t->key) return complain(CLI_USAGE, "--query and --key go together");
    if (!t->query && call_typed(&w->call))
        return complain(CLI_USAGE, "%s: without --query and --key there are no scores", call_typed(&w->call));
    return CLI_GOOD;
}

static const option_row options[] = {
    {"query", TEXT(weighing, tensors.query), "FILE", 0,
     "queries [rows][dim] or [rows][heads][dim], for the attention weights", 2},
    {"key", TEXT(weighing, tensors.key), "FILE", 0, "keys [rows][dim] or [rows][heads][dim]", 2},
    {"layout", CHOICE(weighing, layout, LAYOUT_WORDS), "L", 0,
     "of the tensors: nhd, or hnd, heads first, as torch has it (default: nhd)", 2},
    {0},
};
const option_list weighing_list = {.rows = options, .check = check};
