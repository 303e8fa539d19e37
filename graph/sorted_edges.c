/* sorted_edges.c: lists of edges by their ends are compressed columns of CXSparse and their transposes, with 32-bit
   positions up to 2^31 edges, which move half the bytes of 64-bit ones. Where edges need numbers, these are their
   values: doubles, which are exact. Else they are patterns. CXSparse allocates its own memory with malloc, and it is
   freed here. */
#include "sorted_edges.h"

#include <limits.h>
#include <suitesparse/cs.h>

static hga_status no_memory(const char *relation, hga_pos n)
{
    return hga_fail(HGA_ENOMEM, "relation %s: CXSparse cannot allocate lists of %lld edges", relation, (long long)n);
}

static hga_status new_lists(const hga_allocator *a, hga_id rows, hga_pos n, int numbered, sorted_edges *out)
{
    hga_status st = HGA_OK;
    *out = (sorted_edges){.rows = rows, .n = n};
    HGA_TRY(hga_new(a, (int64_t)rows + 1, sizeof *out->ptr, &out->ptr));
    HGA_TRY(hga_new(a, n, sizeof *out->column, &out->column));
    if (numbered) HGA_TRY(hga_new(a, n, sizeof *out->number, &out->number));
done:
    if (st) edges_clear(a, out);
    return st;
}

/* The values of edges: their numbers; NULL where edges are not numbered. */
static hga_status new_values(const hga_allocator *a, int numbered, hga_pos n, double **out)
{
    hga_status st = numbered ? hga_new(a, n, sizeof **out, out) : HGA_OK;
    for (hga_pos e = 0; numbered && !st && e < n; e++) (*out)[e] = (double)e;
    return st;
}

/* ---- 32-bit positions: the input is read in place ---- */

/* The columns of c from the first on are the rows. */
static hga_status copy_int(const hga_allocator *a, const cs_di *c, hga_id first, hga_id rows, hga_pos n,
                           sorted_edges *out)
{
    hga_status st = new_lists(a, rows, n, c->x != NULL, out);
    if (st) return st;
    for (hga_id v = 0; v <= rows; v++) out->ptr[v] = c->p[first + v];
    for (hga_pos e = 0; e < n; e++) out->column[e] = c->i[e];
    for (hga_pos e = 0; c->x && e < n; e++) out->number[e] = (hga_pos)c->x[e];
    return HGA_OK;
}

static hga_status sort_int(const hga_allocator *a, const loose_edges *x, sorted_edges *out)
{
    cs_di triplets = {.nzmax = (int)x->n, .nz = (int)x->n, .m = x->nodes, .n = x->nodes}, *by_column, *by_row;
    hga_status st = new_values(a, x->numbered, x->n, &triplets.x);
    if (st) return st;
    triplets.p = (int *)x->column, triplets.i = (int *)x->row; /* which are only read */
    by_column = cs_di_compress(&triplets);
    hga_delete(a, triplets.x, x->n, sizeof *triplets.x);
    by_row = by_column ? cs_di_transpose(by_column, x->numbered) : NULL;
    cs_di_spfree(by_column);
    st = by_row ? copy_int(a, by_row, 0, x->nodes, x->n, out) : no_memory(x->relation, x->n);
    cs_di_spfree(by_row);
    return st;
}

static hga_status transpose_int(const hga_allocator *a, const edges_by_row *x, sorted_edges *out)
{
    hga_status st = HGA_OK;
    hga_pos n = x->ptr[x->rows] - x->ptr[0];
    cs_di triplets = {.nzmax = (int)n, .nz = -1, .m = x->first + x->columns, .n = x->rows}, *transpose = NULL;
    HGA_TRY(hga_new(a, (int64_t)x->rows + 1, sizeof *triplets.p, &triplets.p));
    HGA_TRY(new_values(a, x->numbered, n, &triplets.x));
    for (hga_id v = 0; v <= x->rows; v++) triplets.p[v] = (int)(x->ptr[v] - x->ptr[0]);
    triplets.i = (int *)x->column + x->ptr[0]; /* which are only read */
    transpose = cs_di_transpose(&triplets, x->numbered);
    if (!transpose) st = no_memory(x->relation, n);
done:
    hga_delete(a, triplets.p, (int64_t)x->rows + 1, sizeof *triplets.p);
    hga_delete(a, triplets.x, n, sizeof *triplets.x);
    if (!st) st = copy_int(a, transpose, x->first, x->columns, n, out);
    cs_di_spfree(transpose);
    return st;
}

/* ---- 64-bit positions ---- */

static hga_status copy_long(const hga_allocator *a, const cs_dl *c, hga_id first, hga_id rows, hga_pos n,
                            sorted_edges *out)
{
    hga_status st = new_lists(a, rows, n, c->x != NULL, out);
    if (st) return st;
    for (hga_id v = 0; v <= rows; v++) out->ptr[v] = c->p[first + v];
    for (hga_pos e = 0; e < n; e++) out->column[e] = (hga_id)c->i[e];
    for (hga_pos e = 0; c->x && e < n; e++) out->number[e] = (hga_pos)c->x[e];
    return HGA_OK;
}

/* Allocates CXSparse's input: n edges, and so many positions of columns. */
static hga_status new_triplets(const hga_allocator *a, int numbered, hga_pos n, hga_pos positions, cs_dl *out)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_new(a, positions, sizeof *out->p, &out->p));
    HGA_TRY(hga_new(a, n, sizeof *out->i, &out->i));
    HGA_TRY(new_values(a, numbered, n, &out->x));
done:
    return st;
}

static void drop_triplets(const hga_allocator *a, hga_pos n, hga_pos positions, cs_dl *triplets)
{
    hga_delete(a, triplets->p, positions, sizeof *triplets->p);
    hga_delete(a, triplets->i, n, sizeof *triplets->i);
    hga_delete(a, triplets->x, n, sizeof *triplets->x);
}

static hga_status sort_long(const hga_allocator *a, const loose_edges *x, sorted_edges *out)
{
    cs_dl triplets = {.nzmax = x->n, .nz = x->n, .m = x->nodes, .n = x->nodes}, *by_column = NULL, *by_row = NULL;
    hga_status st = new_triplets(a, x->numbered, x->n, x->n, &triplets);
    for (hga_pos e = 0; !st && e < x->n; e++) triplets.p[e] = x->column[e], triplets.i[e] = x->row[e];
    if (!st) by_column = cs_dl_compress(&triplets);
    drop_triplets(a, x->n, x->n, &triplets);
    if (st) return st;
    if (by_column) by_row = cs_dl_transpose(by_column, x->numbered);
    cs_dl_spfree(by_column);
    st = by_row ? copy_long(a, by_row, 0, x->nodes, x->n, out) : no_memory(x->relation, x->n);
    cs_dl_spfree(by_row);
    return st;
}

static hga_status transpose_long(const hga_allocator *a, const edges_by_row *x, sorted_edges *out)
{
    hga_pos n = x->ptr[x->rows] - x->ptr[0], positions = (hga_pos)x->rows + 1;
    cs_dl triplets = {.nzmax = n, .nz = -1, .m = (hga_pos)x->first + x->columns, .n = x->rows}, *transpose = NULL;
    hga_status st = new_triplets(a, x->numbered, n, positions, &triplets);
    for (hga_id v = 0; !st && v <= x->rows; v++) triplets.p[v] = x->ptr[v] - x->ptr[0];
    for (hga_pos e = 0; !st && e < n; e++) triplets.i[e] = x->column[x->ptr[0] + e];
    if (!st) transpose = cs_dl_transpose(&triplets, x->numbered);
    drop_triplets(a, n, positions, &triplets);
    if (st) return st;
    st = transpose ? copy_long(a, transpose, x->first, x->columns, n, out) : no_memory(x->relation, n);
    cs_dl_spfree(transpose);
    return st;
}

/* ---- either ---- */

/* 32 bits hold the number of edges, and the number of rows or columns plus one, for which CXSparse allocates memory. */
static int fit_int(int wide, hga_pos n, hga_pos longest) { return !wide && n <= INT_MAX && longest < INT_MAX; }

hga_status edges_sort(const hga_allocator *a, const loose_edges *x, sorted_edges *out)
{
    *out = (sorted_edges){0};
    return fit_int(x->wide, x->n, x->nodes) ? sort_int(a, x, out) : sort_long(a, x, out);
}

hga_status edges_transpose(const hga_allocator *a, const edges_by_row *x, sorted_edges *out)
{
    hga_pos columns = (hga_pos)x->first + x->columns, n = x->ptr[x->rows] - x->ptr[0];
    *out = (sorted_edges){0};
    return fit_int(x->wide, n, columns > x->rows ? columns : x->rows) ? transpose_int(a, x, out)
                                                                      : transpose_long(a, x, out);
}
