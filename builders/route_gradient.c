/* route_gradient.c: trees that learn. Routing is discrete, so its gradient is 0; its straight-through gradient is that
   of the product of the decisions' probabilities along a path (or to every node), each a sigmoid of the hyperplane, or
   a softmax over a node's hyperplanes. */
#include "hga_builders.h"

#include <math.h>
#include <string.h>

/* A tree's shape, and its numbers of hyperplanes and nodes. */
typedef struct levels {
    hga_id height;
    const hga_id *branching;
    int64_t n_rows, n_nodes;
} levels;

static hga_id children_at(const levels *t, hga_id l) { return t->branching ? t->branching[l] : 2; }
static hga_id planes(const levels *t, hga_id l) { return t->branching ? t->branching[l] : 1; }

/* Nodes of all levels, the leaves among them; -1: too many. */
static int64_t count_nodes(hga_id height, const hga_id *branching)
{
    int64_t all = 1, nodes = 1;
    for (hga_id l = 0; l < height; l++) {
        if (branching && branching[l] < 1) return -1;
        nodes *= branching ? branching[l] : 2;
        if (nodes > INT32_MAX) return -1;
        all += nodes;
    }
    return all;
}

int64_t hga_route_nodes(hga_id height, const hga_id *branching)
{
    return height < 0 ? -1 : count_nodes(height, branching);
}

static hga_status levels_of(hga_id height, const hga_id *branching, levels *out)
{
    *out = (levels){height, branching, hga_route_rows(height, branching), hga_route_nodes(height, branching)};
    if (out->n_rows < 0 || out->n_nodes < 0)
        return hga_fail(HGA_EINVAL, "height %d: no tree, or more than %d leaves", height, INT32_MAX);
    return HGA_OK;
}

/* ---- one decision ---- */

/* The probabilities of a node's children from its hyperplanes' values: sigmoids of -f and f, or a softmax. */
static void probabilities(const hga_router *r, hga_id n_planes, const double *f, double *share)
{
    if (!r->branching) {
        share[0] = 1 / (1 + exp(f[0])), share[1] = 1 / (1 + exp(-f[0]));
        return;
    }
    double most = f[0], sum = 0;
    for (hga_id c = 1; c < n_planes; c++) most = fmax(most, f[c]);
    for (hga_id c = 0; c < n_planes; c++) sum += share[c] = exp(f[c] - most);
    for (hga_id c = 0; c < n_planes; c++) share[c] /= sum;
}

/* The gradients df of the hyperplanes' values, from d, the gradients of the children's probabilities: softmax's
   adjoint, of which the sigmoid is the case of planes (0, f). */
static void decision_adjoint(const hga_router *r, hga_id n, const double *share, const double *d, double *df)
{
    double sum = 0;
    for (hga_id c = 0; c < n; c++) sum += share[c] * d[c];
    for (hga_id c = r->branching ? 0 : 1; c < n; c++) df[c - !r->branching] = share[c] * (d[c] - sum);
}

/* ---- a row ---- */

/* A row's descent through one head's tree. */
typedef struct descent {
    const hga_router *r;
    const hga_route_grad *g;
    levels t;
    hga_id head;
    const float *x;
    float *d_x;
    double *d_weights, *d_bias; /* [n_rows][dim], [n_rows]: of the head */
    double *f, *share, *d, *df; /* [most branches] */
    double *reach, *adjoint;    /* dense: [n_nodes] */
} descent;

/* The values of the hyperplanes from `row` on. */
static void evaluate(const descent *w, int64_t row, hga_id n)
{
    for (hga_id c = 0; c < n; c++) {
        const float *weights = w->r->weights + (w->head * w->t.n_rows + row + c) * w->r->dim;
        w->f[c] = (double)w->r->bias[w->head * w->t.n_rows + row + c];
        for (hga_id j = 0; j < w->r->dim; j++) w->f[c] += (double)weights[j] * (double)w->x[j];
    }
    probabilities(w->r, n, w->f, w->share);
}

/* Adds the gradients df of the hyperplanes' values to weights, biases and x. */
static void spread(const descent *w, int64_t row, hga_id n)
{
    for (hga_id c = 0; c < n; c++) {
        const float *weights = w->r->weights + (w->head * w->t.n_rows + row + c) * w->r->dim;
        if (w->d_bias) w->d_bias[row + c] += w->df[c];
        for (hga_id j = 0; w->d_weights && j < w->r->dim; j++)
            w->d_weights[(row + c) * w->r->dim + j] += w->df[c] * (double)w->x[j];
        for (hga_id j = 0; w->d_x && j < w->r->dim; j++) w->d_x[j] += (float)(w->df[c] * (double)weights[j]);
    }
}

/* The taken path: `d` has the gradients of the log-probabilities of its first l decisions, l = 0 .. height, or one
   gradient of all of them. */
static void walk_path(const descent *w, const float *d, int by_level, int64_t leaf)
{
    const levels *t = &w->t;
    double below = by_level ? 0 : (double)*d;
    for (hga_id l = t->height; l-- > 0;) {
        hga_id b = children_at(t, l), n = planes(t, l);
        int64_t node = leaf / b, child = leaf % b, level_row = hga_route_rows(l, t->branching);
        if (by_level) below += (double)d[l + 1];
        evaluate(w, level_row + node * n, n);
        for (hga_id c = b - n; c < b; c++) w->df[c - (b - n)] = below * ((c == child) - w->share[c]);
        spread(w, level_row + node * n, n);
        leaf = node;
    }
}

/* Every node: `d` has the gradients of the probabilities that the row comes to them. First the probabilities,
   downwards; then, upwards, a node's gradient is its own plus its children's, weighted by their shares. */
static void walk_all(const descent *w, const float *d)
{
    const levels *t = &w->t;
    int64_t first[64] = {0}, nodes = 1, row = 0;
    w->reach[0] = 1;
    for (hga_id l = 0; l < t->height; l++) {
        hga_id b = children_at(t, l), n = planes(t, l);
        first[l + 1] = first[l] + nodes;
        for (int64_t j = 0; j < nodes; j++) {
            evaluate(w, row + j * n, n);
            for (hga_id c = 0; c < b; c++) w->reach[first[l + 1] + j * b + c] = w->reach[first[l] + j] * w->share[c];
        }
        row += nodes * n, nodes *= b;
    }
    for (int64_t j = 0; j < t->n_nodes; j++) w->adjoint[j] = (double)d[j];
    for (hga_id l = t->height; l-- > 0;) {
        hga_id b = children_at(t, l), n = planes(t, l);
        nodes /= b, row -= nodes * n;
        for (int64_t j = 0; j < nodes; j++) {
            const double *children = w->adjoint + first[l + 1] + j * b;
            evaluate(w, row + j * n, n);
            for (hga_id c = 0; c < b; c++) {
                w->adjoint[first[l] + j] += w->share[c] * children[c];
                w->d[c] = w->reach[first[l] + j] * children[c];
            }
            decision_adjoint(w->r, b, w->share, w->d, w->df);
            spread(w, row + j * n, n);
        }
    }
}

/* ---- the call ---- */

/* Refuses impossible routers and rows, and a call without any gradient. */
static hga_status check_route_grad(const hga_router *r, const hga_route_grad *g)
{
    hga_status st = hga_check_reserved("hga_router", r->reserved, sizeof r->reserved);
    if (!st) st = hga_check_reserved("hga_route_grad", g->reserved, sizeof g->reserved);
    if (st) return st;
    if (r->height < 0 || r->height > 31) return hga_fail(HGA_EINVAL, "height is %d, not 0 to 31", r->height);
    if (r->dim < 1) return hga_fail(HGA_EINVAL, "dim is %d; it must be at least 1", r->dim);
    if (r->n_heads < 1) return hga_fail(HGA_EINVAL, "n_heads is %d; it must be at least 1", r->n_heads);
    if (g->n < 0) return hga_fail(HGA_EINVAL, "%d rows; there must be at least 0", g->n);
    if (r->height > 0 && (!r->weights || !r->bias))
        return hga_fail(HGA_EINVAL, "height is %d, but %s is NULL", r->height, r->weights ? "bias" : "weights");
    if (g->n > 0 && (!g->x || !g->leaf)) return hga_fail(HGA_EINVAL, "%d rows, but no %s", g->n, g->x ? "leaf" : "x");
    if (g->n > 0 && !g->d_path && !g->d_level && !g->d_node)
        return hga_fail(HGA_EINVAL, "no gradient is given: d_path, d_level or d_node");
    return HGA_OK;
}

static hga_status check_input_leaves(const hga_router *r, const hga_route_grad *g)
{
    int64_t leaves = 1;
    for (hga_id l = 0; l < r->height; l++) leaves *= r->branching ? r->branching[l] : 2;
    for (int64_t i = 0; i < (int64_t)g->n * r->n_heads; i++)
        if (g->leaf[i] < -1 || g->leaf[i] >= leaves)
            return hga_fail(HGA_EINVAL, "leaf %d of row %lld, of %lld leaves", g->leaf[i], (long long)(i / r->n_heads),
                            (long long)leaves);
    return HGA_OK;
}

/* A row of x may belong to several heads: all are cleared before the first adds to one. */
static void clear_gradients(const hga_router *r, const hga_route_grad *g)
{
    int64_t rows = hga_route_rows(r->height, r->branching) * r->n_heads;
    if (g->accumulate) return;
    if (g->d_weights) memset(g->d_weights, 0, (size_t)(rows * r->dim) * sizeof *g->d_weights);
    if (g->d_bias) memset(g->d_bias, 0, (size_t)rows * sizeof *g->d_bias);
    for (hga_id i = 0; g->d_x && i < g->n; i++)
        for (hga_id h = 0; h < r->n_heads; h++)
            memset(g->d_x + i * g->row_stride + h * g->head_stride, 0, (size_t)r->dim * sizeof *g->d_x);
}

/* Every row's descent through one head's tree, with each kind of gradient present. */
static void walk_head(descent *w)
{
    const hga_route_grad *g = w->g;
    for (hga_id i = 0; i < g->n; i++) {
        int64_t at = (int64_t)i * w->r->n_heads + w->head;
        ptrdiff_t x = i * g->row_stride + w->head * g->head_stride;
        w->x = g->x + x, w->d_x = g->d_x ? g->d_x + x : NULL;
        if (g->leaf[at] < 0) continue;
        if (g->d_path) walk_path(w, g->d_path + at, 0, g->leaf[at]);
        if (g->d_level) walk_path(w, g->d_level + at * (w->t.height + 1), 1, g->leaf[at]);
        if (g->d_node) walk_all(w, g->d_node + at * w->t.n_nodes);
    }
}

static void add_sums(const descent *w, const double *sums)
{
    int64_t rows = w->t.n_rows, dim = w->r->dim, at = w->head * rows;
    for (int64_t i = 0; w->d_weights && i < rows * dim; i++) w->g->d_weights[at * dim + i] += (float)sums[i];
    for (int64_t i = 0; w->d_bias && i < rows; i++) w->g->d_bias[at + i] += (float)sums[rows * dim + i];
}

hga_status hga_route_gradient(const hga_router *r, const hga_route_grad *g)
{
    hga_status st = check_route_grad(r, g);

    descent w = {.r = r, .g = g};
    double *memory = NULL;
    int64_t n = 0, sums = 0, most = 2;
    if (st) return st;
    HGA_TRY(levels_of(r->height, r->branching, &w.t));
    HGA_TRY(check_input_leaves(r, g));
    for (hga_id l = 0; l < r->height; l++) most = children_at(&w.t, l) > most ? children_at(&w.t, l) : most;
    sums = w.t.n_rows * (r->dim + 1);
    n = sums + 4 * most + 2 * w.t.n_nodes;
    HGA_TRY(hga_new(g->allocator, n, sizeof *memory, &memory));
    w.f = memory + sums, w.share = w.f + most, w.d = w.share + most, w.df = w.d + most;
    w.reach = w.df + most, w.adjoint = w.reach + w.t.n_nodes;
    w.d_weights = g->d_weights ? memory : NULL, w.d_bias = g->d_bias ? memory + w.t.n_rows * r->dim : NULL;
    clear_gradients(r, g);
    for (w.head = 0; w.head < r->n_heads; w.head++) {
        memset(memory, 0, (size_t)sums * sizeof *memory);
        walk_head(&w);
        add_sums(&w, memory);
    }
done:
    hga_delete(g->allocator, memory, n, sizeof *memory);
    return st;
}
