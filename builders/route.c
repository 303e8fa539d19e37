/* route.c: which leaf of a tree of hyperplanes a vector falls into (Treeformer, eq. 2). */
#include "hga_builders.h"

#include <math.h>

/* The tree as the loops below want it. Node j of level l has its hyperplanes at row first[l] + j * rows_per_node: one a node when binary, one a
   child otherwise. */
typedef struct tree {
    const hga_router *r;
    int64_t n_rows;
} tree;

static hga_id branches(const hga_id *branching, hga_id level) { return branching ? branching[level] : 2; }

/* hyperplanes a node of `level` owns */
static hga_id planes(const hga_id *branching, hga_id level) { return branching ? branching[level] : 1; }

int64_t hga_route_rows(hga_id height, const hga_id *branching)
{
    int64_t nodes = 1, rows = 0, more;
    if (height < 0) return -1;
    for (hga_id l = 0; l < height; l++) {
        if (branches(branching, l) < 1 || __builtin_mul_overflow(nodes, planes(branching, l), &more)) return -1;
        if (__builtin_add_overflow(rows, more, &rows) || __builtin_mul_overflow(nodes, branches(branching, l), &nodes)) return -1;
    }
    return rows;
}

/* A leaf number must fit int32_t. */
static hga_status check_leaves(const hga_router *r)
{
    int64_t leaves = 1;
    for (hga_id l = 0; l < r->height; l++) {
        if (branches(r->branching, l) < 1) return hga_fail(HGA_EINVAL, "branching[%d] is %d; it must be at least 1", l, r->branching[l]);
        leaves *= branches(r->branching, l);
        if (leaves > INT32_MAX) return hga_fail(HGA_EOVERFLOW, "height %d: more than %d leaves at level %d", r->height, INT32_MAX, l + 1);
    }
    return HGA_OK;
}

static hga_status check(const hga_router *r, const float *x, hga_id n, const int32_t *leaf)
{
    if (r->height < 0) return hga_fail(HGA_EINVAL, "height is %d; it must be at least 0", r->height);
    if (r->dim < 1) return hga_fail(HGA_EINVAL, "dim is %d; it must be at least 1", r->dim);
    if (r->n_heads < 1) return hga_fail(HGA_EINVAL, "n_heads is %d; it must be at least 1", r->n_heads);
    if (n < 0) return hga_fail(HGA_EINVAL, "%d rows; there must be at least 0", n);
    if (n > 0 && (!x || !leaf)) return hga_fail(HGA_EINVAL, "%d rows, but %s is NULL", n, x ? "leaf" : "x");
    if (r->height > 0 && (!r->weights || !r->bias))
        return hga_fail(HGA_EINVAL, "height is %d, but %s is NULL", r->height, r->weights ? "bias" : "weights");
    return check_leaves(r);
}

/* w.x + b in double: decisions hang on margins of 1e-5. Four sums, so that they do not wait for each other. */
static double plane_value(const float *w, const float *x, hga_id dim, float bias)
{
    double sum[4] = {0, 0, 0, 0};
    hga_id c = 0;
    for (; c + 4 <= dim; c += 4)
        for (int i = 0; i < 4; i++) sum[i] += (double)w[c + i] * (double)x[c + i];
    for (; c < dim; c++) sum[0] += (double)w[c] * (double)x[c];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]) + (double)bias;
}

/* the child of a node whose hyperplanes start at `row`: binary by sign, else the largest value, lowest index on ties; -1 and *bad when one is not
   finite */
static hga_id choose(const tree *t, hga_id head, int64_t row, hga_id n_planes, const float *x, int64_t *bad)
{
    const hga_router *r = t->r;
    const float *w = r->weights + (head * t->n_rows + row) * r->dim, *bias = r->bias + head * t->n_rows + row;
    double best = -INFINITY;
    hga_id child = 0;
    for (hga_id c = 0; c < n_planes; c++) {
        double f = plane_value(w + (ptrdiff_t)c * r->dim, x, r->dim, bias[c]);
        if (!isfinite(f)) return *bad = row + c, -1;
        if (!r->branching) return f > 0;
        if (f > best) best = f, child = c;
    }
    return child;
}

/* node(0) = 0, node(l + 1) = node(l) * b_l + child */
static int32_t descend(const tree *t, hga_id head, const float *x, int64_t *bad)
{
    int64_t node = 0, level_row = 0, nodes = 1;
    for (hga_id l = 0; l < t->r->height; l++) {
        hga_id n_planes = planes(t->r->branching, l), b = branches(t->r->branching, l);
        hga_id child = choose(t, head, level_row + node * n_planes, n_planes, x, bad);
        if (child < 0) return -1;
        node = node * b + child;
        level_row += nodes * n_planes;
        nodes *= b;
    }
    return (int32_t)node;
}

hga_status hga_route(const hga_router *r, const float *x, hga_id n, ptrdiff_t row_stride, ptrdiff_t head_stride, int32_t *leaf)
{
    hga_status st = HGA_OK;
    HGA_TRY(check(r, x, n, leaf));
    tree t = {r, hga_route_rows(r->height, r->branching)};
    for (hga_id i = 0; i < n; i++)
        for (hga_id head = 0; head < r->n_heads; head++) {
            int64_t bad = 0;
            int32_t found = descend(&t, head, x + i * row_stride + head * head_stride, &bad);
            if (found < 0) return hga_fail(HGA_EINVAL, "row %d, head %d: its product with hyperplane %lld is not finite", i, head, (long long)bad);
            leaf[(int64_t)i * r->n_heads + head] = found;
        }
done:
    return st;
}
