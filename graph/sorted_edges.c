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
    cs_di given = {.nzmax = (int)x->n, .nz = (int)x->n, .m = x->nodes, .n = x->nodes};
    given.p = (int *)x->column, given.i = (int *)x->row; /* which are only read */
    cs_di *by_column = cs_di_compress(&given), *by_row = by_column ? cs_di_transpose(by_column, 0) : NULL;
    cs_di_spfree(by_column);
    hga_status st = by_row ? copy_pattern(a, by_row, 0, x->nodes, x->n, out) : no_memory(x->relation, x->n);
    cs_di_spfree(by_row);
    return st;
}

static hga_status turn_pattern(const hga_allocator *a, const edges_by_row *x, sorted_edges *out)
{
    hga_pos n = x->ptr[x->rows] - x->ptr[0];
    cs_di given = {.nzmax = (int)n, .nz = -1, .m = x->first + x->columns, .n = x->rows};
    hga_status st = hga_new(a, (int64_t)x->rows + 1, sizeof *given.p, &given.p);
    if (st) return st;
    for (hga_id v = 0; v <= x->rows; v++) given.p[v] = (int)(x->ptr[v] - x->ptr[0]);
    given.i = (int *)x->column + x->ptr[0]; /* which are only read */
    cs_di *turned = cs_di_transpose(&given, 0);
    hga_delete(a, given.p, (int64_t)x->rows + 1, sizeof *given.p);
    st = turned ? copy_pattern(a, turned, x->first, x->columns, n, out) : no_memory(x->relation, n);
    cs_di_spfree(turned);
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
static hga_status new_given(const hga_allocator *a, hga_pos n, hga_pos positions, cs_dl *out)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_new(a, positions, sizeof *out->p, &out->p));
    HGA_TRY(hga_new(a, n, sizeof *out->i, &out->i));
    HGA_TRY(hga_new(a, n, sizeof *out->x, &out->x));
    for (hga_pos e = 0; e < n; e++) out->x[e] = (double)e;
done:
    return st;
}

static void drop_given(const hga_allocator *a, hga_pos n, hga_pos positions, cs_dl *given)
{
    hga_delete(a, given->p, positions, sizeof *given->p);
    hga_delete(a, given->i, n, sizeof *given->i);
    hga_delete(a, given->x, n, sizeof *given->x);
}

static hga_status sort_numbered(const hga_allocator *a, const loose_edges *x, sorted_edges *out)
{
    cs_dl given = {.nzmax = x->n, .nz = x->n, .m = x->nodes, .n = x->nodes}, *by_column = NULL, *by_row = NULL;
    hga_status st = new_given(a, x->n, x->n, &given);
    for (hga_pos e = 0; !st && e < x->n; e++) given.p[e] = x->column[e], given.i[e] = x->row[e];
    if (!st) by_column = cs_dl_compress(&given);
    drop_given(a, x->n, x->n, &given);
    if (st) return st;
    if (by_column) by_row = cs_dl_transpose(by_column, 1);
    cs_dl_spfree(by_column);
    st = by_row ? copy_numbered(a, by_row, 0, x->nodes, x->n, x->numbered, out) : no_memory(x->relation, x->n);
    cs_dl_spfree(by_row);
    return st;
}

static hga_status turn_numbered(const hga_allocator *a, const edges_by_row *x, sorted_edges *out)
{
    hga_pos n = x->ptr[x->rows] - x->ptr[0], positions = (hga_pos)x->rows + 1;
    cs_dl given = {.nzmax = n, .nz = -1, .m = (hga_pos)x->first + x->columns, .n = x->rows}, *turned = NULL;
    hga_status st = new_given(a, n, positions, &given);
    for (hga_id v = 0; !st && v <= x->rows; v++) given.p[v] = x->ptr[v] - x->ptr[0];
    for (hga_pos e = 0; !st && e < n; e++) given.i[e] = x->column[x->ptr[0] + e];
    if (!st) turned = cs_dl_transpose(&given, 1);
    drop_given(a, n, positions, &given);
    if (st) return st;
    st = turned ? copy_numbered(a, turned, x->first, x->columns, n, x->numbered, out) : no_memory(x->relation, n);
    cs_dl_spfree(turned);
    return st;
}

/* ---- either ---- */

static int is_pattern(hga_pos n, int numbered) { return !numbered && n <= INT_MAX; }

hga_status edges_sort(const hga_allocator *a, const loose_edges *x, sorted_edges *out)
{
    *out = (sorted_edges){0};
    return is_pattern(x->n, x->numbered) ? sort_pattern(a, x, out) : sort_numbered(a, x, out);
}

hga_status edges_turn(const hga_allocator *a, const edges_by_row *x, sorted_edges *out)
{
    *out = (sorted_edges){0};
    return is_pattern(x->ptr[x->rows] - x->ptr[0], x->numbered) ? turn_pattern(a, x, out) : turn_numbered(a, x, out);
}
