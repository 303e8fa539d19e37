/* row_weights.c: the tensors of hga inspect --row, and the weights that the library finds with them. */
#include "row_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attend_io.h"
#include "rows.h"

/* ---- tensors ---- */

/* [rows][dim] or [rows][heads][dim] */
static int read_tensor(const char *option, const char *path, hga_id rows, tensor_file *t)
{
    char shape[200];
    npy *a = &t->array;
    int status = npy_read_real(path, a);
    if (status) return status;
    int64_t n_heads = a->n_dims == 3 ? a->dim[1] : 1, n_dim = a->n_dims > 1 ? a->dim[a->n_dims - 1] : 0;
    if ((a->n_dims != 2 && a->n_dims != 3) || a->dim[0] != rows || n_heads < 1 || n_heads > INT32_MAX || n_dim < 1 ||
        n_dim > INT32_MAX)
        return complain(CLI_DATA, "%s: %s has shape %s, not (%d, dim) or (%d, heads, dim)", option, path,
                        npy_shape(a->n_dims, a->dim, shape), rows, rows);
    t->rows = rows, t->heads = (hga_id)n_heads, t->columns = (hga_id)n_dim;
    return CLI_GOOD;
}

/* Weights need no values, but the rows of values that there would be. */
static int read_tensors(const graph_file *f, const attend_paths *paths, attend_io *io)
{
    int status = CLI_GOOD;
    TRY(read_tensor("--query", paths->query, bound_rows(f->graph, &f->program, HGA_IO_QUERY, HGA_ROWS_QUERIES),
                    &io->query));
    TRY(read_tensor("--key", paths->key, bound_rows(f->graph, &f->program, HGA_IO_KEY, HGA_ROWS_KEYS), &io->key));
    if (io->key.columns != io->query.columns)
        return complain(CLI_DATA, "--key: %d columns, but --query has %d", io->key.columns, io->query.columns);
    if (io->query.heads % io->key.heads)
        return complain(CLI_DATA, "--key: %d heads do not divide the %d of --query", io->key.heads, io->query.heads);
    io->value = (tensor_file){
        .rows = bound_rows(f->graph, &f->program, HGA_IO_VALUE, HGA_ROWS_KEYS), .heads = io->key.heads, .columns = 1};
done:
    return status;
}

/* ---- edges ---- */

typedef struct edge_list {
    row_edge_list *out;
    hga_id head;
    int64_t at, room;
} edge_list;

static hga_status room_for_one(edge_list *l)
{
    row_edge_list *out = l->out;
    if (out->n < l->room) return HGA_OK;
    int64_t room = 2 * l->room + 64;
    hga_seen *seen = realloc(out->seen, (size_t)room * sizeof *seen);
    if (seen) out->seen = seen;
    double *weight = realloc(out->weight, (size_t)(room * out->heads) * sizeof *weight);
    if (weight) out->weight = weight;
    if (!seen || !weight) return hga_fail(HGA_ENOMEM, "%lld edges of one token", (long long)room);
    l->room = room;
    return HGA_OK;
}

/* Every head has the same edges in the same order, so the first one's are listed and all weighed. */
static hga_status add_edge(const hga_weight *w, void *context)
{
    edge_list *l = context;
    row_edge_list *out = l->out;
    if (l->head == 0) {
        hga_status st = room_for_one(l);
        if (st) return st;
        out->seen[out->n++] = w->edge;
    }
    out->weight[l->at++ * out->heads + l->head] = w->weight;
    return HGA_OK;
}

static int weigh_all(const graph_file *f, const row_wish *wish, const attend_io *io, row_edge_list *out)
{
    int status = CLI_GOOD;
    edge_list l = {.out = out};
    out->heads = io->shape.n_heads;
    for (l.head = 0; l.head < out->heads && !status; l.head++) {
        l.at = 0;
        status = complain_of(
            hga_program_weights(&f->program, f->graph, &io->shape, &io->io, wish->token, l.head, add_edge, &l, NULL),
            CLI_DATA, wish->path);
    }
    return status;
}

int row_weights(const graph_file *f, const row_wish *wish, row_edge_list *out)
{
    attend_io io = {0};
    model m = {.graph = f->graph, .program = f->program, .tree_heads = 1, .from_file = 1};
    const double *scale = wish->scale != 0 ? &wish->scale : NULL;
    int status = CLI_GOOD;
    if (!score_stage(&f->program)) return complain(CLI_USAGE, "--query: nothing in %s depends on queries", wish->path);
    m.title = strdup(wish->path);
    if (!m.title) return complain(CLI_OUTSIDE, "out of memory");
    TRY(read_tensors(f, &wish->tensors, &io));
    TRY(attend_io_bind(&wish->tensors, &m, scale, &io));
    TRY(weigh_all(f, wish, &io, out));
done:
    attend_io_clear(&io);
    free(m.title);
    return status;
}
