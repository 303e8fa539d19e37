/* sorted_edges.c: lists of edges by their ends are compressed columns of CXSparse and their transposes. Edges that need
   no numbers are patterns with 32-bit positions, which move 4 bytes an edge; else the number of an edge is its value, a
   double, which is exact. CXSparse takes memory of its own from malloc, and gives it back here. */
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

/* ---- patterns ---- */

/* The columns of c from the first on are the rows. */
static hga_status copy_pattern(const hga_allocator *a, const cs_di *c, hga_id first, hga_id rows, hga_pos n,
                               sorted_edges *out)
{
    hga_status st = new_lists(a, rows, n, 0, out);
    if (st) return st;
    for (hga_id v = 0; v <= rows; v++) out->ptr[v] = c->p[first + v];
    for (hga_pos e = 0; e < n; e++) out->column[e] = c->i[e];
    return HGA_OK;
}

static hga_status sort_pattern(const hga_allocator *a, const loose_edges *x, sorted_edges *out)
{
    cs_di triplets = {.nzmax = (int)x->n, .nz = (int)x->n, .m = x->nodes, .n = x->nodes};
    triplets.p = (int *)x->column, triplets.i = (int *)x->row; /* which are only read */
    cs_di *by_column = cs_di_compress(&triplets), *by_row = by_column ? cs_di_transpose(by_column, 0) : NULL;
    cs_di_spfree(by_column);
    hga_status st = by_row ? copy_pattern(a, by_row, 0, x->nodes, x->n, out) : no_memory(x->relation, x->n);
    cs_di_spfree(by_row);
    return st;
}

static hga_status transpose_pattern(const hga_allocator *a, const edges_by_row *x, sorted_edges *out)
{
    hga_pos n = x->ptr[x->rows] - x->ptr[0];
    cs_di triplets = {.nzmax = (int)n, .nz = -1, .m = x->first + x->columns, .n = x->rows};
    hga_status st = hga_new(a, (int64_t)x->rows + 1, sizeof *triplets.p, &triplets.p);
    if (st) return st;
    for (hga_id v = 0; v <= x->rows; v++) triplets.p[v] = (int)(x->ptr[v] - x->ptr[0]);
    triplets.i = (int *)x->column + x->ptr[0]; /* which are only read */
    cs_di *transpose = cs_di_transpose(&triplets, 0);
    hga_delete(a, triplets.p, (int64_t)x->rows + 1, sizeof *triplets.p);
    st = transpose ? copy_pattern(a, transpose, x->first, x->columns, n, out) : no_memory(x->relation, n);
    cs_di_spfree(transpose);
    return st;
}

/* ---- numbers ---- */

static hga_status copy_numbered(const hga_allocator *a, const cs_dl *c, hga_id first, hga_id rows, hga_pos n,
                                int numbered, sorted_edges *out)
{
    hga_status st = new_lists(a, rows, n, numbered, out);
    if (st) return st;
    for (hga_id v = 0; v <= rows; v++) out->ptr[v] = c->p[first + v];
    for (hga_pos e = 0; e < n; e++) out->column[e] = (hga_id)c->i[e];
    for (hga_pos e = 0; numbered && e < n; e++) out->number[e] = (hga_pos)c->x[e];
    return HGA_OK;
}

/* What CXSparse is given: n edges, whose values are their numbers, and so many positions of columns. */
static hga_status new_triplets(const hga_allocator *a, hga_pos n, hga_pos positions, cs_dl *out)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_new(a, positions, sizeof *out->p, &out->p));
    HGA_TRY(hga_new(a, n, sizeof *out->i, &out->i));
    HGA_TRY(hga_new(a, n, sizeof *out->x, &out->x));
    for (hga_pos e = 0; e < n; e++) out->x[e] = (double)e;
done:
    return st;
}

static void drop_triplets(const hga_allocator *a, hga_pos n, hga_pos positions, cs_dl *triplets)
{
    hga_delete(a, triplets->p, positions, sizeof *triplets->p);
    hga_delete(a, triplets->i, n, sizeof *triplets->i);
    hga_delete(a, triplets->x, n, sizeof *triplets->x);
}

static hga_status sort_numbered(const hga_allocator *a, const loose_edges *x, sorted_edges *out)
{
    cs_dl triplets = {.nzmax = x->n, .nz = x->n, .m = x->nodes, .n = x->nodes}, *by_column = NULL, *by_row = NULL;
    hga_status st = new_triplets(a, x->n, x->n, &triplets);
    for (hga_pos e = 0; !st && e < x->n; e++) triplets.p[e] = x->column[e], triplets.i[e] = x->row[e];
    if (!st) by_column = cs_dl_compress(&triplets);
    drop_triplets(a, x->n, x->n, &triplets);
    if (st) return st;
    if (by_column) by_row = cs_dl_transpose(by_column, 1);
    cs_dl_spfree(by_column);
    st = by_row ? copy_numbered(a, by_row, 0, x->nodes, x->n, x->numbered, out) : no_memory(x->relation, x->n);
    cs_dl_spfree(by_row);
    return st;
}

static hga_status transpose_numbered(const hga_allocator *a, const edges_by_row *x, sorted_edges *out)
{
    hga_pos n = x->ptr[x->rows] - x->ptr[0], positions = (hga_pos)x->rows + 1;
    cs_dl triplets = {.nzmax = n, .nz = -1, .m = (hga_pos)x->first + x->columns, .n = x->rows}, *transpose = NULL;
    hga_status st = new_triplets(a, n, positions, &triplets);
    for (hga_id v = 0; !st && v <= x->rows; v++) triplets.p[v] = x->ptr[v] - x->ptr[0];
    for (hga_pos e = 0; !st && e < n; e++) triplets.i[e] = x->column[x->ptr[0] + e];
    if (!st) transpose = cs_dl_transpose(&triplets, 1);
    drop_triplets(a, n, positions, &triplets);
    if (st) return st;
    st = transpose ? copy_numbered(a, transpose, x->first, x->columns, n, x->numbered, out) : no_memory(x->relation, n);
    cs_dl_spfree(transpose);
    return st;
}

/* ---- either ---- */

/* int counts the edges, and one more than the rows or columns, in whose number CXSparse takes memory. */
static int is_pattern(int numbered, hga_pos n, hga_pos longest)
{
    return !numbered && n <= INT_MAX && longest < INT_MAX;
}

hga_status edges_sort(const hga_allocator *a, const loose_edges *x, sorted_edges *out)
{
    *out = (sorted_edges){0};
    return is_pattern(x->numbered, x->n, x->nodes) ? sort_pattern(a, x, out) : sort_numbered(a, x, out);
}

hga_status edges_transpose(const hga_allocator *a, const edges_by_row *x, sorted_edges *out)
{
    hga_pos columns = (hga_pos)x->first + x->columns, n = x->ptr[x->rows] - x->ptr[0];
    *out = (sorted_edges){0};
    return is_pattern(x->numbered, n, columns > x->rows ? columns : x->rows) ? transpose_pattern(a, x, out)
                                                                             : transpose_numbered(a, x, out);
}
