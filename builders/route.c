/* route.c: the leaf of a tree of hyperplanes for a vector (Treeformer, eq. 2). */
#include "hga_builders.h"

#include <math.h>
#include <string.h>

/* The tree for the loops below. Node j of level l has its hyperplanes at row first[l] + j * rows_per_node: one a node
   when binary, one a child otherwise. */
typedef struct route_tree {
    const hga_router *r;
    const float *weights; /* r's, or a copy of them */
    int64_t n_rows;
    float largest; /* of all |w|; INFINITY: unknown */
} route_tree;

static inline hga_id branches(const hga_id *branching, hga_id level) { return branching ? branching[level] : 2; }

/* hyperplanes a node of `level` owns */
static inline hga_id planes(const hga_id *branching, hga_id level) { return branching ? branching[level] : 1; }

int64_t hga_route_rows(hga_id height, const hga_id *branching)
{
    int64_t nodes = 1, rows = 0, more;
    if (height < 0) return -1;
    for (hga_id l = 0; l < height; l++) {
        if (branches(branching, l) < 1 || __builtin_mul_overflow(nodes, planes(branching, l), &more)) return -1;
        if (__builtin_add_overflow(rows, more, &rows) || __builtin_mul_overflow(nodes, branches(branching, l), &nodes))
            return -1;
    }
    return rows;
}

/* A leaf number must fit int32_t. */
static hga_status check_n_leaves(const hga_router *r)
{
    int64_t leaves = 1;
    for (hga_id l = 0; l < r->height; l++) {
        if (branches(r->branching, l) < 1)
            return hga_fail(HGA_EINVAL, "branching[%d] is %d; it must be at least 1", l, r->branching[l]);
        leaves *= branches(r->branching, l);
        if (leaves > INT32_MAX)
            return hga_fail(HGA_EOVERFLOW, "height %d: more than %d leaves at level %d", r->height, INT32_MAX, l + 1);
    }
    return HGA_OK;
}

/* Refuses impossible routers and inputs. */
static hga_status check_inputs(const hga_router *r, const float *x, hga_id n, const int32_t *leaf)
{
    if (r->height < 0) return hga_fail(HGA_EINVAL, "height is %d; it must be at least 0", r->height);
    if (r->dim < 1) return hga_fail(HGA_EINVAL, "dim is %d; it must be at least 1", r->dim);
    if (r->n_heads < 1) return hga_fail(HGA_EINVAL, "n_heads is %d; it must be at least 1", r->n_heads);
    if (n < 0) return hga_fail(HGA_EINVAL, "%d rows; there must be at least 0", n);
    if (n > 0 && (!x || !leaf)) return hga_fail(HGA_EINVAL, "%d rows, but %s is NULL", n, x ? "leaf" : "x");
    if (r->height > 0 && (!r->weights || !r->bias))
        return hga_fail(HGA_EINVAL, "height is %d, but %s is NULL", r->height, r->weights ? "bias" : "weights");
    return check_n_leaves(r);
}

/* ---- one decision ----

   Nearly all margins are wide, so that a product in float with a bound of its error decides; the others are computed
   again in double. */

/* w.x + b in double: decisions depend on margins of 1e-5. Four sums, so that they do not wait for each other. */
static double plane_value(const float *w, const float *x, hga_id dim, float bias)
{
    double sum[4] = {0, 0, 0, 0};
    hga_id c = 0;
    for (; c + 4 <= dim; c += 4)
        for (int i = 0; i < 4; i++) sum[i] += (double)w[c + i] * (double)x[c + i];
    for (; c < dim; c++) sum[0] += (double)w[c] * (double)x[c];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]) + (double)bias;
}

/* the child of a node whose hyperplanes start at `row`: binary by sign, else the largest value, lowest index on ties;
   -1 and *bad when one is not finite */
static hga_id choose_exactly(const route_tree *t, hga_id head, int64_t row, hga_id n_planes, const float *x,
                             int64_t *bad)
{
    const hga_router *r = t->r;
    const float *w = t->weights + (head * t->n_rows + row) * r->dim, *bias = r->bias + head * t->n_rows + row;
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

enum { LANES = 16 };
typedef float floats __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t words __attribute__((vector_size(LANES * 4)));
typedef float eight __attribute__((vector_size(32)));
typedef float four __attribute__((vector_size(16)));
typedef int32_t four_words __attribute__((vector_size(16)));

#define INLINED  static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 4")

/* w.x + b up to `error` */
typedef struct estimate {
    double value, error; /* error: INFINITY or NaN when the value is unusable */
} estimate;

/* The sums of the lanes of two vectors. */
INLINED void sum_lanes(const floats *x, const floats *y, float *sum_x, float *sum_y)
{
    eight x8 = __builtin_shufflevector(*x, *x, 0, 1, 2, 3, 4, 5, 6, 7) +
               __builtin_shufflevector(*x, *x, 8, 9, 10, 11, 12, 13, 14, 15);
    eight y8 = __builtin_shufflevector(*y, *y, 0, 1, 2, 3, 4, 5, 6, 7) +
               __builtin_shufflevector(*y, *y, 8, 9, 10, 11, 12, 13, 14, 15);
    four x4 = __builtin_shufflevector(x8, x8, 0, 1, 2, 3) + __builtin_shufflevector(x8, x8, 4, 5, 6, 7);
    four y4 = __builtin_shufflevector(y8, y8, 0, 1, 2, 3) + __builtin_shufflevector(y8, y8, 4, 5, 6, 7);
    four both = __builtin_shufflevector(x4, y4, 0, 4, 1, 5) + __builtin_shufflevector(x4, y4, 2, 6, 3, 7);
    *sum_x = both[0] + both[2], *sum_y = both[1] + both[3];
}

/* Products and sums round by at most 2^-24 of sum |w x| each, in whatever order; twice that covers the rounding of sum
   |w x| itself, and the last term underflow, flushed to zero or not. */
INLINED estimate estimate_plane(const float *w, const float *x, hga_id dim, float bias)
{
    floats sum = {0}, sum_abs = {0};
    words magnitude = {0};
    magnitude = magnitude + INT32_MAX; /* all bits but the sign */
    hga_id c = 0;
    for (; c + LANES <= dim; c += LANES) {
        floats product = *(const floats *)(w + c) * *(const floats *)(x + c);
        sum += product;
        sum_abs += (floats)((words)product & magnitude);
    }
    float value, size;
    sum_lanes(&sum, &sum_abs, &value, &size);
    for (; c < dim; c++) value += w[c] * x[c], size += fabsf(w[c] * x[c]);
    return (estimate){(double)value + (double)bias, (double)size * (dim + 2) * 0x1p-23 + dim * 0x1p-125};
}

/* The result of choose_exactly, mostly without it: the sign, or a largest value that no other can reach. */
INLINED hga_id choose(const route_tree *t, hga_id head, int64_t row, hga_id n_planes, const float *x, int64_t *bad)
{
    const hga_router *r = t->r;
    const float *w = t->weights + (head * t->n_rows + row) * r->dim, *bias = r->bias + head * t->n_rows + row;
    if (!r->branching) {
        estimate e = estimate_plane(w, x, r->dim, *bias);
        if (fabs(e.value) > e.error && fabs(e.value) < INFINITY) return e.value > 0;
        return choose_exactly(t, head, row, n_planes, x, bad);
    }
    estimate best = {-INFINITY, 0};
    double rival = -INFINITY; /* an upper bound of all but the best */
    hga_id child = 0;
    int sure = 1;
    for (hga_id c = 0; c < n_planes; c++) {
        estimate e = estimate_plane(w + (ptrdiff_t)c * r->dim, x, r->dim, bias[c]);
        sure &= fabs(e.value) + e.error < INFINITY;
        estimate lower = e.value > best.value ? best : e;
        if (e.value > best.value) best = e, child = c;
        if (lower.value + lower.error > rival) rival = lower.value + lower.error;
    }
    return sure && best.value - best.error > rival ? child : choose_exactly(t, head, row, n_planes, x, bad);
}

/* ---- four rows at once ---- */

/* Sums of four vectors' lanes. */
INLINED four sum_of_each(const floats *x)
{
    four folded[4];
    UNROLLED for (int i = 0; i < 4; i++)
    {
        eight half = __builtin_shufflevector(x[i], x[i], 0, 1, 2, 3, 4, 5, 6, 7) +
                     __builtin_shufflevector(x[i], x[i], 8, 9, 10, 11, 12, 13, 14, 15);
        folded[i] = __builtin_shufflevector(half, half, 0, 1, 2, 3) + __builtin_shufflevector(half, half, 4, 5, 6, 7);
    }
    four first = __builtin_shufflevector(folded[0], folded[1], 0, 4, 1, 5) +
                 __builtin_shufflevector(folded[0], folded[1], 2, 6, 3, 7);
    four last = __builtin_shufflevector(folded[2], folded[3], 0, 4, 1, 5) +
                __builtin_shufflevector(folded[2], folded[3], 2, 6, 3, 7);
    return __builtin_shufflevector(first, last, 0, 1, 4, 5) + __builtin_shufflevector(first, last, 2, 3, 6, 7);
}

/* w.x of four pairs. */
INLINED four products(const float *const *w, const float *const *x, hga_id dim)
{
    floats sum[4] = {{0}};
    hga_id c = 0;
    UNROLLED for (; c + LANES <= dim; c += LANES)
    {
        UNROLLED for (int i = 0; i < 4; i++) sum[i] += *(const floats *)(w[i] + c) * *(const floats *)(x[i] + c);
    }
    four value = sum_of_each(sum);
    for (; c < dim; c++)
        for (int i = 0; i < 4; i++) value[i] += w[i][c] * x[i][c];
    return value;
}

/* Sums of |x| of four rows. */
INLINED four sizes(const float *const *x, hga_id dim)
{
    floats sum[4] = {{0}};
    words magnitude = {0};
    magnitude = magnitude + INT32_MAX;
    hga_id c = 0;
    UNROLLED for (; c + LANES <= dim; c += LANES)
    {
        UNROLLED for (int i = 0; i < 4; i++) sum[i] += (floats)((words) * (const floats *)(x[i] + c) & magnitude);
    }
    four size = sum_of_each(sum);
    for (; c < dim; c++)
        for (int i = 0; i < 4; i++) size[i] += fabsf(x[i][c]);
    return size;
}

/* Rows descend ABREAST at once, in vectors of four: a decision depends on the one before it, but not on other rows'. */
enum { ABREAST = 16, COMMON_DIM = 64 };

typedef struct four_rows {
    const float *x[4];
    four error; /* of their products, at most */
    four_words node;
} four_rows;

/* The errors are those of estimate_plane, with no |w| larger than the tree's largest. */
INLINED void start(const route_tree *t, const float *x, ptrdiff_t row_stride, hga_id dim, four_rows *f)
{
    UNROLLED for (int i = 0; i < 4; i++) f->x[i] = x + i * row_stride;
    f->error = sizes(f->x, dim) * t->largest * (((float)dim + 2) * 0x1p-23f) + (float)dim * 0x1p-125f;
    f->node = (four_words){0};
}

/* The same for a row whose sign the estimate leaves open; -1: it is not finite. */
static __attribute__((noinline, cold)) int32_t sign_exactly(const route_tree *t, hga_id head, int64_t row,
                                                            const float *x)
{
    int64_t plane;
    return choose_exactly(t, head, row, 1, x, &plane);
}

/* One level down a binary tree: from nodes of the level whose hyperplanes start at `level_row`. 0 when one row has no
   child. */
INLINED int step(const route_tree *t, hga_id head, int64_t level_row, hga_id dim, four_rows *f)
{
    const int64_t first = head * t->n_rows + level_row;
    const float *w = t->weights + first * dim, *bias = t->r->bias + first, *plane[4];
    UNROLLED for (int i = 0; i < 4; i++) plane[i] = w + (ptrdiff_t)f->node[i] * dim;
    four value = products(plane, f->x, dim);
    value += (four){bias[f->node[0]], bias[f->node[1]], bias[f->node[2]], bias[f->node[3]]};
    const four size = (four)((four_words)value & INT32_MAX);
    const four_words sure = (size > f->error) & (size < INFINITY), from = f->node;
    f->node = from * 2 - (value > 0);
    for (int i = 0; i < 4 && !(sure[0] & sure[1] & sure[2] & sure[3]); i++) {
        int32_t child = sure[i] ? value[i] > 0 : sign_exactly(t, head, level_row + from[i], f->x[i]);
        if (child < 0) return 0;
        f->node[i] = from[i] * 2 + child;
    }
    return 1;
}

/* ---- all rows ---- */

typedef struct rows {
    const float *x;
    hga_id n;
    ptrdiff_t row_stride, head_stride;
    int32_t *leaf; /* [n][heads] */
} rows;

/* A row and head whose product with a hyperplane is not finite. */
typedef struct obstacle {
    hga_id row, head;
    int64_t plane;
} obstacle;

/* Rows that descend one head's tree before the next head's, so that its hyperplanes stay in cache. */
enum { ROWS = 512 };

/* Prefetches rows, which are read once, a head at a time: hardware does not predict this. */
INLINED void fetch(const rows *r, hga_id first, hga_id n, hga_id head, hga_id dim)
{
    for (hga_id i = first; i < first + n && i < r->n; i++)
        for (hga_id c = 0; c < dim; c += LANES)
            __builtin_prefetch(r->x + i * r->row_stride + head * r->head_stride + c);
}

/* The leaves of rows first .. first + n - 1 for one head: node(0) = 0, node(l + 1) = node(l) * b_l + child, and -1 once
   it fails. *bad gets the first row, by its first head, that does. */
INLINED void descend(const route_tree *t, const rows *r, hga_id first, hga_id n, hga_id head, obstacle *bad)
{
    int64_t node[ABREAST] = {0}, plane, level_row = 0, nodes = 1;
    const float *x = r->x + first * r->row_stride + head * r->head_stride;
    fetch(r, first + ABREAST, ABREAST, head, t->r->dim);
    for (hga_id l = 0; l < t->r->height; l++) {
        hga_id n_planes = planes(t->r->branching, l), b = branches(t->r->branching, l);
        for (hga_id i = 0; i < n; i++) {
            if (node[i] < 0) continue;
            hga_id child = choose(t, head, level_row + node[i] * n_planes, n_planes, x + i * r->row_stride, &plane);
            node[i] = child < 0 ? -1 : node[i] * b + child;
            int earlier = bad->row < 0 || first + i < bad->row || (first + i == bad->row && head < bad->head);
            if (child < 0 && earlier) *bad = (obstacle){first + i, head, plane};
        }
        level_row += nodes * n_planes;
        nodes *= b;
    }
    for (hga_id i = 0; i < n; i++) r->leaf[(int64_t)(first + i) * t->r->n_heads + head] = (int32_t)node[i];
}

/* The same for ABREAST rows of a binary tree whose largest weight is known. 0 when one fails: no leaf is written. */
INLINED int descend_together(const route_tree *t, const rows *r, hga_id first, hga_id head, hga_id dim)
{
    four_rows f[ABREAST / 4];
    const hga_id levels = t->r->height ? t->r->height : 1,
                 each = 1 + (ABREAST - 1) / levels; /* at once they would wait */
    const float *x = r->x + first * r->row_stride + head * r->head_stride;
    for (int i = 0; i < ABREAST / 4; i++) start(t, x + 4 * i * r->row_stride, r->row_stride, dim, &f[i]);
    for (hga_id l = 0; l < t->r->height; l++) {
        if (l * each < ABREAST) fetch(r, first + ABREAST + l * each, each, head, dim);
        for (int i = 0; i < ABREAST / 4; i++)
            if (!step(t, head, ((int64_t)1 << l) - 1, dim, &f[i])) return 0;
    }
    for (int i = 0; i < ABREAST; i++) r->leaf[(int64_t)(first + i) * t->r->n_heads + head] = f[i / 4].node[i % 4];
    return 1;
}

INLINED int can_descend_together(const route_tree *t, const rows *r, hga_id first, hga_id n, hga_id head)
{
    if (n < ABREAST || t->largest == INFINITY) return 0;
    return t->r->dim == COMMON_DIM ? descend_together(t, r, first, head, COMMON_DIM)
                                   : descend_together(t, r, first, head, t->r->dim);
}

static inline int64_t n_weights(const route_tree *t) { return t->r->n_heads * t->n_rows * t->r->dim; }

/* The largest |weight|, by its bits, which ascend as positive floats do. NaN is the largest: then no estimate is sure.
   */
INLINED float largest_weight(const route_tree *t)
{
    const int64_t n = n_weights(t);
    words each = {0};
    int32_t most = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        const words size = (words) * (const floats *)(t->weights + i) & INT32_MAX, more = each - size;
        each = size + (more & ~(more >> 31));
    }
    for (int lane = 0; lane < LANES; lane++) most = each[lane] > most ? each[lane] : most;
    for (; i < n; i++) {
        int32_t bits;
        memcpy(&bits, t->weights + i, sizeof bits);
        most = (bits & INT32_MAX) > most ? bits & INT32_MAX : most;
    }
    float largest;
    memcpy(&largest, &most, sizeof largest);
    return largest;
}

/* Whether n rows outweigh a pass over all hyperplanes. */
static inline int pays(const route_tree *t, hga_id n) { return n / 8 >= t->n_rows; }

/* Routes all rows: 1 when all have a leaf; else *bad is the first row, by its first head, without one. */
INLINED int route(route_tree *t, const rows *r, obstacle *bad)
{
    *bad = (obstacle){.row = -1};
    if (!t->r->branching && pays(t, r->n)) t->largest = largest_weight(t);
    for (hga_id begin = 0, end; begin < r->n && bad->row < 0; begin = end) {
        end = r->n - begin < ROWS ? r->n : begin + ROWS;
        for (hga_id head = 0; head < t->r->n_heads; head++)
            for (hga_id first = begin; first < end; first += ABREAST) {
                const hga_id n = end - first < ABREAST ? end - first : ABREAST;
                if (!can_descend_together(t, r, first, n, head)) descend(t, r, first, n, head, bad);
            }
    }
    return bad->row < 0;
}

static int route_plain(route_tree *t, const rows *r, obstacle *bad) { return route(t, r, bad); }

#ifdef __x86_64__
static __attribute__((target("avx512f"))) int route_avx512(route_tree *t, const rows *r, obstacle *bad)
{
    return route(t, r, bad);
}
static __attribute__((target("avx2,fma"))) int route_avx2(route_tree *t, const rows *r, obstacle *bad)
{
    return route(t, r, bad);
}
#endif

/* the same for the widest vectors of this machine */
static int route_all(route_tree *t, const rows *r, obstacle *bad)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f")) return route_avx512(t, r, bad);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return route_avx2(t, r, bad);
#endif
    return route_plain(t, r, bad);
}

/* Copies hyperplanes whose vectors would straddle two cache lines, since many rows read them. */
static hga_status lay_on_lines(route_tree *t, float **copy)
{
    if ((uintptr_t)t->weights % sizeof(floats) == 0 || t->r->dim % LANES) return HGA_OK;
    hga_status st = hga_new(NULL, n_weights(t), sizeof **copy, copy);
    if (st) return st;
    memcpy(*copy, t->weights, (size_t)n_weights(t) * sizeof **copy);
    t->weights = *copy;
    return HGA_OK;
}

hga_status hga_route(const hga_router *r, const float *x, hga_id n, ptrdiff_t row_stride, ptrdiff_t head_stride,
                     int32_t *leaf)
{
    hga_status st = hga_check_reserved("hga_router", r->reserved, sizeof r->reserved);
    if (!st) st = check_inputs(r, x, n, leaf);
    if (st) return st;
    route_tree t = {r, r->weights, hga_route_rows(r->height, r->branching), INFINITY};
    float *copy = NULL;
    obstacle bad = {.row = -1};
    if (pays(&t, n)) st = lay_on_lines(&t, &copy);
    if (!st && !route_all(&t, &(rows){x, n, row_stride, head_stride, leaf}, &bad))
        st = hga_fail(HGA_EINVAL, "row %d, head %d: its product with hyperplane %lld is not finite", bad.row, bad.head,
                      (long long)bad.plane);
    hga_delete(NULL, copy, n_weights(&t), sizeof *copy);
    return st;
}
