/* formula.c: edge counts without graphs. They share nothing with the builders, so that agreement means something. */
#include "formula.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t ceiling(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* n^2, or the pairs with j <= i */
static double dense_edges(const settings *s, int64_t n)
{
    double m = (double)n;
    return setting_id(s, "causal") ? m * (m + 1) / 2 : m * m;
}

/* row i: multiples of the stride within reach, and the global columns that those leave out */
static int64_t window_row(const settings *s, int64_t n, int64_t i)
{
    int64_t stride = setting_id(s, "stride"), global = least(setting_id(s, "global"), n),
            causal = setting_id(s, "causal");
    if (i < global) return causal ? i + 1 : n;
    int64_t left = least(setting_id(s, "left"), i) / stride,
            right = causal ? 0 : least(setting_id(s, "right"), n - 1 - i) / stride;
    int64_t first_global = ceiling(i - global + 1, stride); /* steps to the left until the columns are global */
    int64_t both = global && left >= first_global ? left - first_global + 1 : 0;
    return left + right + 1 + global - both;
}

static double window_edges(const settings *s, int64_t n)
{
    double edges = 0;
    for (int64_t i = 0; i < n; i++) edges += (double)window_row(s, n, i);
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

static double bpt_edges(const settings *s, int64_t n)
{
    double edges = 0;
    if (setting_id(s, "rule") != 0) return NAN;
    for (int64_t i = 0; i < n; i++) edges += (double)bpt_row(n, setting_id(s, "k"), setting_id(s, "causal"), i);
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

static double htransformer_edges(const settings *s, int64_t n)
{
    int64_t c = setting_id(s, "block"), blocks = n / c;
    int causal = setting_id(s, "causal"), siblings = setting_id(s, "structure");
    if (n <= c) return dense_edges(s, n);
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

static double hsa_edges(const settings *s, int64_t n)
{
    const npy *b = setting_array(s, "branching");
    int causal = setting_id(s, "causal"), frontier = causal && setting_id(s, "mode") == 0;
    if (!b) return NAN;
    double edges = causal || setting_id(s, "self") ? (double)n : 0;
    int64_t nodes = n, width = 1;
    for (int64_t l = 0; nodes > 1; l++) {
        int64_t size = b->whole[least(l, b->count - 1)];
        if (size < 2 && l >= b->count) return NAN;
        double pairs = frontier ? frontier_pairs(n, nodes, size, width) : family_pairs(nodes, size);
        edges += causal && !frontier ? pairs / 2 : pairs;
        nodes = ceiling(nodes, size);
        width *= size;
    }
    return edges;
}

static int32_t largest(const npy *a)
{
    int32_t most = -1;
    for (int64_t i = 0; i < a->count; i++) most = a->whole[i] > most ? a->whole[i] : most;
    return most;
}

/* queries times keys, leaf by leaf; causal: the keys so far. Heads have trees of their own. */
static double fine_edges(const settings *s, int64_t n)
{
    const npy *q = setting_array(s, "query-leaf"), *k = setting_array(s, "key-leaf");
    if (!k) k = q;
    if (!q || q->count % n != 0 || k->n_dims != q->n_dims) return NAN;
    int64_t heads = q->count / n, rows = q->count > k->count ? q->count : k->count;
    int32_t leaves = (largest(q) > largest(k) ? largest(q) : largest(k)) + 1;
    int64_t *count = calloc((size_t)(leaves * heads) + 1, sizeof *count);
    double edges = 0;
    if (!count) return NAN;
    if (!setting_id(s, "causal"))
        for (int64_t i = 0; i < k->count; i++)
            count[k->whole[i] >= 0 ? k->whole[i] * heads + i % heads : leaves * heads]++;
    for (int64_t i = 0; i < rows; i++) {
        if (setting_id(s, "causal") && i < k->count && k->whole[i] >= 0) count[k->whole[i] * heads + i % heads]++;
        if (i < q->count && q->whole[i] >= 0) edges += (double)count[q->whole[i] * heads + i % heads];
    }
    free(count);
    return edges;
}

/* every query that is in a leaf sees a node of each level */
static double coarse_edges(const settings *s, int64_t n)
{
    const npy *q = setting_array(s, "query-leaf"), *b = setting_array(s, "branching");
    double levels = 1 + (b ? (double)b->count : (double)setting_id(s, "height")), inside = 0;
    if (!q) return (double)n * levels;
    for (int64_t i = 0; i < q->count; i++) inside += q->whole[i] >= 0;
    return inside * levels;
}

static const struct {
    const char *variant;
    double (*edges)(const settings *s, int64_t n);
} formulas[] = {
    {"dense", dense_edges},
    {"window", window_edges},
    {"bpt", bpt_edges},
    {"hsa", hsa_edges},
    {"treeformer-fine", fine_edges},
    {"treeformer-coarse", coarse_edges},
    {"htransformer", htransformer_edges},
};

double formula_edges(const char *variant, const settings *s, int64_t n)
{
    if (setting_array(s, "tokens")) return NAN; /* a batch */
    for (size_t i = 0; i < sizeof formulas / sizeof formulas[0]; i++)
        if (strcmp(formulas[i].variant, variant) == 0) return formulas[i].edges(s, n);
    return NAN;
}
