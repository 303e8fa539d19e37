/* formulas.c: edge counts without graphs, as independent tests of the builders: they share no code. */
#include "formulas.h"
#include "least.h"

#include <math.h>
#include <stddef.h>

#include "hga_builders.h"

static int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* n m, or the pairs with j <= i */
static double pairs(int64_t n, int64_t m, int causal)
{
    return causal ? (double)n * (double)(n + 1) / 2 : (double)n * (double)m;
}

static int64_t keys_of(int64_t n_tokens, int64_t n_keys) { return n_keys > 0 ? n_keys : n_tokens; }

double formula_dense(const void *parameters)
{
    const hga_dense *p = parameters;
    return pairs(p->n_tokens, keys_of(p->n_tokens, p->n_keys), p->causal);
}

/* row i: multiples of the stride within reach, and the global columns not among those */
static int64_t window_row(const hga_window *p, int64_t n, int64_t i)
{
    int64_t stride = p->stride, global = least(p->global, n);
    if (i < global) return p->causal ? i + 1 : n;
    int64_t left = least(p->left < 0 ? n : p->left, i) / stride,
            right = p->causal ? 0 : least(p->right < 0 ? n : p->right, n - 1 - i) / stride;
    int64_t first_global = ceiling(i - global + 1, stride); /* steps to the left until the columns are global */
    int64_t both = global && left >= first_global ? left - first_global + 1 : 0;
    return left + right + 1 + global - both;
}

double formula_window(const void *parameters)
{
    const hga_window *p = parameters;
    double edges = 0;
    if (p->n_keys > 0 && p->n_keys != p->n_tokens) return NAN;
    for (int64_t i = 0; i < p->n_tokens; i++) edges += (double)window_row(p, p->n_tokens, i);
    return edges;
}

/* section 3 with a shifted odd rule: k slots a level on each side, a slot beyond the level's end left out, and one edge
   to each ancestor */
static int64_t bpt_row(int64_t n, int64_t k, int causal, int64_t i)
{
    int64_t edges = 0, below = 0, l = i - 1, r = i + 1;
    int held = 0; /* the right slot is a child of the node that r names */
    for (int64_t c = n;; below = c, c = ceiling(c, 2)) {
        edges += least(k, l + 1) + 1;
        int64_t inside = r < c ? least(k, c - r) : 0;
        if (held && inside > 0 && 2 * r + 1 >= below) inside--;
        if (!causal) edges += inside;
        l -= k;
        r += k;
        held = r % 2 != 0;
        l = l < 0 ? -1 : l / 2;
        r /= 2;
        if (c == 1) return edges;
    }
}

double formula_bpt(const void *parameters)
{
    const hga_bpt *p = parameters;
    double edges = 0;
    if (p->rule != HGA_BPT_SHIFTED) return NAN;
    for (int64_t i = 0; i < p->n_tokens; i++) edges += (double)bpt_row(p->n_tokens, p->k, p->causal, i);
    return edges;
}

/* eq. 18-23 less the overlap, for 2^M blocks of an even c: all of three blocks below, three quarters of two above */
static double neighbour_edges(double c, double blocks, int causal)
{
    double edges = causal ? blocks * c * (c + 1) / 2 + (blocks - 1) * c * c : (3 * blocks - 2) * c * c;
    for (double b = blocks / 2; b >= 2; b /= 2) edges += (causal ? 1 : 2) * (b - 1) * 0.75 * c * c;
    return edges;
}

/* eq. 52-57: a block and its sibling below, its sibling above */
static double sibling_edges(double c, double blocks, int causal)
{
    double edges = causal ? blocks * c * (c + 1) / 2 : blocks * c * c;
    for (double b = blocks; b >= 2; b /= 2) edges += (causal ? 0.5 : 1) * b * c * c;
    return edges;
}

double formula_htransformer(const void *parameters)
{
    const hga_htransformer *p = parameters;
    int64_t n = p->n_tokens, c = p->block, blocks = n / c;
    int causal = p->causal, siblings = p->structure == HGA_SIBLINGS;
    if (p->n_keys > 0 && p->n_keys != n) return NAN;
    if (n <= c) return pairs(n, n, causal);
    if (n % c != 0 || (blocks & (blocks - 1)) != 0 || (!siblings && c % 2 != 0)) return NAN;
    return (siblings ? sibling_edges : neighbour_edges)((double)c, (double)blocks, causal);
}

/* families of one level: full ones of b and a last one of the rest; `pairs` is f (f - 1) for the siblings on both sides
   */
static double family_pairs(int64_t nodes, int64_t b)
{
    double full = (double)(nodes / b), rest = (double)(nodes % b), size = (double)b;
    return full * size * (size - 1) + rest * (rest - 1);
}

/* each leaf below a family's child j sees the j children before it; a child has `width` leaves, the last one fewer */
static double frontier_pairs(int64_t n, int64_t nodes, int64_t b, int64_t width)
{
    double pairs = 0;
    for (int64_t j = 0; j < nodes; j++) pairs += (double)(j % b) * (double)least(width, n - j * width);
    return pairs;
}

/* Families, or the frontiers of leaves, level by level until one node is left. */
double formula_hsa(const void *parameters)
{
    const hga_hsa *p = parameters;
    int64_t n = p->n_tokens, nodes = n, width = 1;
    int frontier = p->causal && p->mode == HGA_HSA_FRONTIER;
    if (!p->branching || p->n_branching < 1) return NAN;
    double edges = p->causal || p->self ? (double)n : 0;
    for (int64_t l = 0; nodes > 1; l++) {
        int64_t size = p->branching[least(l, p->n_branching - 1)];
        if (size < 2 && l >= p->n_branching) return NAN;
        double found = frontier ? frontier_pairs(n, nodes, size, width) : family_pairs(nodes, size);
        edges += p->causal && !frontier ? found / 2 : found;
        nodes = ceiling(nodes, size);
        width *= size;
    }
    return edges;
}

/* ---- leaves and segments ---- */

/* Numbers of the rows of two sides, [n][heads], -1 for none; equal numbers of one head see each other. */
typedef struct labels {
    const int32_t *query, *key;
    int64_t n_queries, n_keys, heads;
    int causal;
} labels;

static int32_t largest(const int32_t *x, int64_t n)
{
    int32_t most = -1;
    for (int64_t i = 0; i < n; i++) most = x[i] > most ? x[i] : most;
    return most;
}

static void count_keys(const labels *x, int64_t i, hga_pos *count)
{
    for (int64_t h = 0; i < x->n_keys && h < x->heads; h++) {
        int32_t label = x->key[i * x->heads + h];
        if (label >= 0) count[label * x->heads + h]++;
    }
}

/* queries times keys, label by label; causal: the keys so far */
static double matches(const labels *x)
{
    int64_t most = largest(x->query, x->n_queries * x->heads), other = largest(x->key, x->n_keys * x->heads);
    if (other > most) most = other;
    hga_pos *count = NULL, size = (most + 1) * x->heads;
    double edges = 0;
    if (hga_new_zero(NULL, size, sizeof *count, &count)) return NAN;
    for (int64_t i = 0; !x->causal && i < x->n_keys; i++) count_keys(x, i, count);
    for (int64_t i = 0; i < x->n_queries; i++) {
        if (x->causal) count_keys(x, i, count);
        for (int64_t h = 0; h < x->heads; h++) {
            int32_t label = x->query[i * x->heads + h];
            if (label >= 0) edges += (double)count[label * x->heads + h];
        }
    }
    hga_delete(NULL, count, size, sizeof *count);
    return edges;
}

/* heads have trees of their own */
double formula_fine(const void *parameters)
{
    const hga_treeformer *p = parameters;
    if (!p->query_leaf) return NAN;
    labels x = {p->query_leaf, p->key_leaf ? p->key_leaf : p->query_leaf, p->n_queries, p->n_keys, 1, p->causal};
    if (p->n_tree_heads > 1) x.heads = p->n_tree_heads;
    if (!x.n_keys) x.n_keys = x.n_queries;
    return matches(&x);
}

/* every query that is in a leaf sees a node of each level */
double formula_coarse(const void *parameters)
{
    const hga_treeformer *p = parameters;
    int64_t heads = p->n_tree_heads > 1 ? p->n_tree_heads : 1, inside = 0;
    for (int64_t i = 0; i < p->n_queries * heads; i++) inside += !p->query_leaf || p->query_leaf[i] >= 0;
    return (double)inside * (1 + p->height);
}

double formula_segments(const void *parameters)
{
    const hga_segmented *p = parameters;
    labels x = {p->query_segment, p->query_segment, p->n_tokens, p->n_tokens, 1, p->causal};
    if (p->n_keys > 0) x.key = p->key_segment, x.n_keys = p->n_keys;
    return x.query && x.key ? matches(&x) : NAN;
}

/* ---- partitions ---- */

/* itself, and a node for each bit: bit l is set in half of each full 2^(l + 1), and in the rest of a last one */
double formula_fenwick(const void *parameters)
{
    const hga_fenwick *p = parameters;
    int64_t n = p->n_tokens, edges = n;
    for (int64_t half = 1; half < n; half *= 2) {
        int64_t rest = n % (2 * half);
        edges += n / (2 * half) * half + (rest > half ? rest - half : 0);
    }
    return (double)edges;
}

/* classes of one segment of n tokens: n mod r of them have one member more */
static double class_pairs(int64_t n, int64_t r, int causal)
{
    int64_t size = n / r, more = n % r;
    return (double)more * pairs(size + 1, size + 1, causal) + (double)(r - more) * pairs(size, size, causal);
}

/* The full segments of each branch, and the rest. */
double formula_dilated(const void *parameters)
{
    static const hga_id segments[] = {64, 256, 1024}, dilations[] = {1, 4, 16};
    const hga_dilated *p = parameters;
    const hga_id *w = p->segments ? p->segments : segments, *r = p->dilations ? p->dilations : dilations;
    int64_t branches = p->segments ? p->n_segments : 3;
    double edges = 0;
    for (int64_t b = 0; b < branches; b++)
        edges += (double)(p->n_tokens / w[b]) * class_pairs(w[b], r[b], p->causal) +
                 class_pairs(p->n_tokens % w[b], r[b], p->causal);
    return edges;
}

/* ---- grids and drafts ---- */

/* each of m tokens of a class sees `kernel` others, or all m; causal: the first ones fewer */
static double class_neighbours(int64_t m, int64_t kernel, int causal)
{
    int64_t seen = kernel < m ? kernel : m;
    return (double)m * (double)seen - (causal ? (double)seen * (double)(seen - 1) / 2 : 0);
}

static hga_id of_axis(const hga_id *list, hga_id n, hga_id axis, hga_id standard)
{
    return list ? list[n == 1 ? 0 : axis] : standard;
}

/* The product of the pairs along each axis. */
double formula_neighbourhood(const void *parameters)
{
    const hga_neighbourhood *p = parameters;
    double edges = 1;
    for (hga_id a = 0; a < (p->shape ? p->n_axes : 1); a++) {
        int64_t n = p->shape ? p->shape[a] : p->n_tokens, step = of_axis(p->dilation, p->n_dilation, a, 1);
        int64_t kernel = of_axis(p->kernel, p->n_kernel, a, HGA_NEIGHBOURHOOD_KERNEL), more = n % step;
        int causal = of_axis(p->causal, p->n_causal, a, 0) != 0;
        edges *= (double)more * class_neighbours(n / step + 1, kernel, causal) +
                 (double)(step - more) * class_neighbours(n / step, kernel, causal);
    }
    return edges;
}

double formula_draft(const void *parameters)
{
    const hga_draft *p = parameters;
    double m = p->n_tokens, lines = 0;
    if (!p->parent) return NAN;
    for (hga_id i = 0; i < p->n_tokens; i++)
        for (hga_id at = i; at >= 0; at = p->parent[at]) lines++;
    return m * (p->prefix >= 0 ? p->prefix : p->n_keys - m) + lines;
}

/* ---- chosen blocks ---- */

/* Of a query block: tokens first .. last meet blocks own .. last_own. */
typedef struct query_rows {
    int64_t first, last, own, last_own;
} query_rows;

/* Blocks chosen besides own: k of the candidates, but all that are forced; -1: it depends on the choice, since the
   number of candidates from coarse blocks is unknown. */
static int64_t chosen_besides(const hga_routed *p, hga_id k, const query_rows *q, int64_t n_blocks)
{
    int64_t all = p->causal ? q->own : n_blocks - (q->last_own - q->own + 1);
    int64_t after =
        q->last_own + 1 < p->choose.sinks && !p->causal ? least(p->choose.sinks, n_blocks) - (q->last_own + 1) : 0;
    int64_t forced = least(q->own, (int64_t)p->choose.sinks + p->choose.local) + after;
    int64_t budget = k - (q->last_own - q->own + 1);
    if (p->choose.coarse && budget < all && budget > forced) {
        int64_t each = p->choose.coarse / p->block, before = q->own / each;
        int64_t open = q->own % each + least(before, p->choose.coarse_k) * each;
        if (before > p->choose.coarse_k && budget > open) return -1;
    }
    return budget > all ? all : budget > forced ? budget : forced;
}

/* Of a chooser. Not causal, chosen blocks are whole ones: fewer edges where the last is shorter and a row chose it. */
static double edges_chosen(const hga_routed *p, hga_id k)
{
    const int64_t n = p->n_tokens, b = p->block, n_blocks = (n + b - 1) / b;
    const int64_t step = p->choose.prefill > 1 && n > 1 ? p->choose.prefill : p->query_block;
    double edges = 0;
    for (query_rows q = {0}; q.first < n; q.first += step) {
        q.last = least(q.first + step, n) - 1, q.own = q.first / b, q.last_own = q.last / b;
        int64_t besides = chosen_besides(p, k, &q, n_blocks), rows = q.last - q.first + 1;
        int64_t end = least((q.last_own + 1) * b, n), own = end - q.own * b;
        if (besides < 0) return NAN;
        if (p->causal) {
            edges += (double)(rows * (besides - q.own) * b + rows * (q.first + q.last + 2) / 2);
            continue;
        }
        edges += (double)(rows * least(own + besides * b, n));
    }
    return edges;
}

/* The mean of choosers that have a k each. */
double formula_routed(const void *parameters)
{
    const hga_routed *p = parameters;
    double edges = 0;
    if (p->choose.threshold > 0) return NAN;
    if (!p->choose.k_each) return edges_chosen(p, p->choose.k);
    for (hga_id i = 0; i < p->choose.n_k_each; i++) edges += edges_chosen(p, p->choose.k_each[i]);
    return edges / p->choose.n_k_each;
}
