/* attend_parts.c: some heads of a call, cut out of it, and what they give put back. */
#include "attend_parts.h"

#include <stdlib.h>
#include <string.h>

head_part part_of(const attend_io *all, hga_id i, hga_id parts)
{
    hga_id heads = all->query.heads, each = heads / parts, share = heads / all->key.heads;
    hga_id first = i * each, kv_first = first / share;
    return (head_part){first, each, heads, kv_first, (first + each - 1) / share + 1 - kv_first};
}

static int is_all(const head_part *p) { return p->n == p->of; }

void part_put(const head_part *p, int64_t rows, int64_t columns, const float *x, float *all)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy(all + (r * p->of + p->first) * columns, x + r * p->n * columns, (size_t)(p->n * columns) * sizeof *all);
}

/* Heads [first, first + n) of [rows][of][columns], for free(). */
static int cut_heads(const float *x, int64_t rows, hga_id of, hga_id first, hga_id n, int64_t columns, float **out)
{
    int status = take(rows * n * columns, sizeof **out, out);
    for (int64_t r = 0; !status && r < rows; r++)
        memcpy(*out + r * n * columns, x + (r * of + first) * columns, (size_t)(n * columns) * sizeof **out);
    return status;
}

/* ---- tensors ---- */

static int cut_tensor(const tensor_file *all, hga_id sample, hga_id first, hga_id n, tensor_file *out)
{
    *out = *all;
    out->array.real = NULL, out->array.path = all->array.path;
    out->samples = 1, out->heads = n;
    out->array.count = (int64_t)all->rows * n * all->columns;
    if (all->array.n_dims > 2) out->array.dim[1] = n;
    return cut_heads(all->array.real + sample * all->array.count, all->rows, all->heads, first, n, all->columns,
                     &out->array.real);
}

/* ---- tables ---- */

/* Which axis of a table's file has the heads; -1: none, it is the same for all. */
static int axis_of_heads(const hga_call_row *row, const npy *a, hga_id heads)
{
    if (row->rows == HGA_EXTENT_HEADS) return 0;
    int by_head = row->columns == HGA_EXTENT_HEADS || row->columns == HGA_EXTENT_HEADS_OR_ONE;
    return by_head && a->n_dims == 2 && (heads == 1 || a->dim[1] != 1) ? 1 : -1;
}

/* A table by head becomes one of the part's heads; any other is used as it is. */
static int cut_table(const hga_call_row *row, const head_part *p, const npy *all, npy *out)
{
    char shape[200];
    int axis = axis_of_heads(row, all, p->of);
    *out = *all;
    if (axis < 0) return CLI_GOOD;
    if (all->dim[axis] != p->of)
        return complain(CLI_DATA, "%s: has the shape %s; --%s has numbers for %d heads", all->path,
                        npy_shape(all->n_dims, all->dim, shape), row->option, p->of);
    int64_t rows = axis ? all->dim[0] : 1;
    out->dim[axis] = p->n, out->count = all->count / p->of * p->n;
    return cut_heads(all->real, rows, p->of, p->first, p->n, all->count / rows / p->of, &out->real);
}

int part_take(const attend_io *all, hga_id sample, const head_part *p, attend_io *one)
{
    *one = attend_io_sample(all, sample);
    if (is_all(p)) return CLI_GOOD;
    one->query.array.real = one->key.array.real = one->value.array.real = NULL;
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) one->tables.file[t] = (npy){0};
    MUST(cut_tensor(&all->query, sample, p->first, p->n, &one->query));
    MUST(cut_tensor(&all->key, sample, p->kv_first, p->kv_n, &one->key));
    MUST(cut_tensor(&all->value, sample, p->kv_first, p->kv_n, &one->value));
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        if (all->tables.file[t].path)
            MUST(cut_table(&hga_call_tables()[t], p, &all->tables.file[t], &one->tables.file[t]));
    return CLI_GOOD;
}

void part_clear(const attend_io *all, const head_part *p, attend_io *one)
{
    npy *const cut[] = {&one->query.array, &one->key.array, &one->value.array};
    for (size_t i = 0; !is_all(p) && i < sizeof cut / sizeof *cut; i++) free(cut[i]->real);
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        if (one->tables.file[t].real != all->tables.file[t].real) free(one->tables.file[t].real);
    attend_io_clear(one);
}

/* ---- gradients ---- */

/* The given gradients of the output and of the log-sum-exp, cut to the part's heads. */
int part_gradients(const attend_gradients *g, hga_id sample, const head_part *p, attend_gradients *of_part)
{
    const int64_t rows = g->out.rows, lse = rows * p->of;
    *of_part = (attend_gradients){.typed = g->typed};
    MUST(cut_tensor(&g->out, sample, p->first, p->n, &of_part->out));
    of_part->out.array.path = NULL; /* which is g's */
    if (!g->lse.real) return CLI_GOOD;
    of_part->lse.count = rows * p->n;
    return cut_heads(g->lse.real + sample * lse, rows, p->of, p->first, p->n, 1, &of_part->lse.real);
}

/* x [rows][n][columns] is added to heads [first, first + n) of [rows][of][columns]. */
static void add_heads(const float *x, int64_t rows, int64_t first, int64_t n, int64_t of, int64_t columns, float *sum)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n * columns; i++) sum[(r * of + first) * columns + i] += x[r * n * columns + i];
}

/* Puts the gradient of the part's heads of a tensor among those of all heads. */
static int add_tensor(const attend_io *all, hga_id sample, const head_part *p, gradient_of of, const float *x,
                      attend_gradients *g)
{
    const tensor_file *t = gradient_tensor(all, of);
    int query = of == GRADIENT_QUERY;
    if (!g->sum[of]) MUST(take(t->array.count * all->query.samples, sizeof(float), &g->sum[of]));
    add_heads(x, t->rows, query ? p->first : p->kv_first, query ? p->n : p->kv_n, t->heads, t->columns,
              g->sum[of] + sample * t->array.count);
    return CLI_GOOD;
}

static int64_t count_of(int n_dims, const int64_t *dim)
{
    int64_t n = 1;
    for (int i = 0; i < n_dims; i++) n *= dim[i];
    return n;
}

/* A gradient of a table by head goes to the part's heads; of a table that all heads share it is added. */
static int add_table(const attend_io *all, const head_part *p, gradient_of of, const attend_gradients *part,
                     attend_gradients *g)
{
    const hga_call_row *row = gradient_row(of);
    const npy *file = &all->tables.file[of - GRADIENT_TABLE];
    int axis = file->path ? axis_of_heads(row, file, p->of) : -1;
    int64_t n = count_of(part->n_dims[of], part->dim[of]);
    if (!g->sum[of]) {
        g->n_dims[of] = part->n_dims[of];
        memcpy(g->dim[of], part->dim[of], sizeof g->dim[of]);
        if (axis >= 0) g->dim[of][axis] = p->of;
        MUST(take(count_of(g->n_dims[of], g->dim[of]), sizeof(float), &g->sum[of]));
    }
    int64_t rows = axis == 1 ? part->dim[of][0] : 1;
    add_heads(part->sum[of], rows, axis < 0 ? 0 : p->first, axis < 0 ? 1 : p->n, axis < 0 ? 1 : p->of,
              n / rows / (axis < 0 ? 1 : p->n), g->sum[of]);
    return CLI_GOOD;
}

int part_add_gradients(const attend_io *all, hga_id sample, const head_part *p, const attend_gradients *of_part,
                       attend_gradients *g)
{
    int status = CLI_GOOD;
    for (gradient_of i = 0; i < N_GRADIENTS && !status; i++) {
        if (!of_part->sum[i]) continue;
        status = gradient_tensor(all, i) ? add_tensor(all, sample, p, i, of_part->sum[i], g)
                                         : add_table(all, p, i, of_part, g);
    }
    return status;
}
