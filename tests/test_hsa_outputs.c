/* test_hsa_outputs.c: HSA's outputs against Algorithms 1 to 3 and the causal formulas, recursively and in double. */
#include "hsa.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- outputs: the paper's recursion on one head, by the caller's ids ---- */

enum { DIM = 4, DIM_V = 3, POS = 2 };

typedef struct paper {
    const family_tree *t;
    int self, causal;
    const float *pos;                                  /* [node][POS] or NULL */
    double q[MOST][DIM], k[MOST][DIM], v[MOST][DIM_V]; /* rho, of every node */
    double eta[MOST], theta[MOST][DIM_V], phi[MOST], m[MOST], o[MOST][DIM_V];
} paper;

static double dot(const double *x, const double *y, int n) { return n ? x[0] * y[0] + dot(x + 1, y + 1, n - 1) : 0; }

static double similarity(const paper *a, hga_id x, hga_id y)
{
    double s = 0;
    for (int c = 0; a->pos && c < POS; c++) s += (double)a->pos[x * POS + c] * (double)a->pos[y * POS + c];
    return s;
}

/* rho(A) = mean over the leaves of A */
static void means(paper *a, const float *q, const float *k, const float *v)
{
    for (hga_id n = 0; n < a->t->n; n++)
        for (hga_id i = a->t->first[n]; i < a->t->first[n] + a->t->size[n]; i++) {
            for (int c = 0; c < DIM; c++)
                a->q[n][c] += (double)q[i * DIM + c] / a->t->size[n],
                    a->k[n][c] += (double)k[i * DIM + c] / a->t->size[n];
            for (int c = 0; c < DIM_V; c++) a->v[n][c] += (double)v[i * DIM_V + c] / a->t->size[n];
        }
}

/* lp(A, B) = e(A).e(B) + rho_q(A).rho_k(B) / sqrt d - sqrt d + log |l(B)| */
static double log_weight(const paper *a, hga_id x, hga_id y)
{
    return similarity(a, x, y) + dot(a->q[x], a->k[y], DIM) / sqrt(DIM) - sqrt(DIM) + log(a->t->size[y]);
}

static int attends(const paper *a, hga_id x, hga_id y)
{
    return siblings(a->t, x, y) && (!a->causal || a->t->first[y] < a->t->first[x]);
}

/* eta(A) = -log sum_B exp lp(A, B); theta(A) = the softmax average of rho_v */
static void look_at_siblings(paper *a, hga_id x)
{
    double sum = 0;
    for (hga_id y = 0; y < a->t->n; y++) {
        if (!attends(a, x, y)) continue;
        double w = exp(log_weight(a, x, y));
        sum += w;
        for (int c = 0; c < DIM_V; c++) a->theta[x][c] += w * a->v[y][c];
    }
    a->eta[x] = sum > 0 ? -log(sum) : INFINITY;
    for (int c = 0; c < DIM_V; c++) a->theta[x][c] = sum > 0 ? a->theta[x][c] / sum : 0;
}

/* phi(leaf) = inf, or its own energy; phi(P) = -sum over its children A of |l(A)| / |l(P)| log (e^-phi(A) + e^-eta(A))
   */
static void find_energy(paper *a, hga_id x)
{
    look_at_siblings(a, x);
    if (is_leaf(a->t, x)) {
        a->phi[x] = a->self ? -log_weight(a, x, x) : INFINITY;
        return;
    }
    for (hga_id c = 0; c < a->t->n; c++) {
        if (a->t->parent[c] != x) continue;
        find_energy(a, c);
        a->phi[x] -= (double)a->t->size[c] / a->t->size[x] * log(exp(-a->phi[c]) + exp(-a->eta[c]));
    }
}

/* s = sigmoid(phi - eta): nobody to attend to, and all goes inside; nothing inside, and all goes to the siblings;
   neither: nothing */
static double share_of_siblings(double phi, double eta)
{
    return isinf(eta) ? 0 : isinf(phi) ? 1 : 1 / (1 + exp(eta - phi));
}

static void pass_down(paper *a, hga_id x)
{
    hga_id up = a->t->parent[x];
    double m = up < 0 ? 1 : a->m[up], s = up < 0 ? 0 : share_of_siblings(a->phi[x], a->eta[x]);
    a->m[x] = m * (1 - s);
    for (int c = 0; c < DIM_V; c++) a->o[x][c] = (up < 0 ? 0 : a->o[up][c]) + m * s * a->theta[x][c];
    if (is_leaf(a->t, x) && a->self)
        for (int c = 0; c < DIM_V; c++) a->o[x][c] += a->m[x] * a->v[x][c];
    for (hga_id c = 0; c < a->t->n; c++)
        if (a->t->parent[c] == x) pass_down(a, c);
}

/* score(i, C) = e(B).e(C) + q_i.rho_k(C) / sqrt d + log |l(C)| over i itself and the left siblings C of its ancestors B
   */
static void look_at_frontier(paper *a, hga_id leaf)
{
    double sum = 0, *o = a->o[leaf];
    for (hga_id b = leaf; b >= 0; b = a->t->parent[b])
        for (hga_id c = 0; c < a->t->n; c++) {
            if (!attends(a, b, c) && !(b == leaf && c == leaf)) continue;
            double w = exp(similarity(a, b, c) + dot(a->q[leaf], a->k[c], DIM) / sqrt(DIM)) * a->t->size[c];
            sum += w;
            for (int x = 0; x < DIM_V; x++) o[x] += w * a->v[c][x];
        }
    for (int x = 0; x < DIM_V; x++) o[x] /= sum;
}

static void by_the_paper(paper *a, int frontier)
{
    for (hga_id v = 0; v < a->t->n; v++) {
        if (frontier && is_leaf(a->t, v)) look_at_frontier(a, v);
        if (frontier || a->t->parent[v] >= 0) continue;
        find_energy(a, v);
        pass_down(a, v);
    }
}

/* position embeddings by the caller's ids, moved to the graph's */
static float *move_positions(const family_tree *t, const float *pos)
{
    float *moved = memory((int64_t)t->n * POS, sizeof *moved);
    for (hga_id v = 0; v < t->n; v++) memcpy(moved + t->node_of[v] * POS, pos + v * POS, POS * sizeof *moved);
    return moved;
}

static void check_outputs(const hga_id *parent, hga_id n, int causal, int self, hga_hsa_mode mode, int positions,
                          uint64_t seed)
{
    family_tree t;
    problem r = {.name = "hsa"};
    understand(&t, parent, n);
    hga_hsa h = tree(parent, n, t.node_of);
    h.causal = causal, h.self = self, h.mode = mode;
    r.graph = build(&h, &r.program);
    assert_int_equal(r.program.has_lse, 0);
    r.shape = (hga_shape){.n_heads = 1, .n_kv_heads = 1, .dim = DIM, .dim_v = DIM_V, .pos_dim = positions ? POS : 0};
    problem_fill(&r, seed);
    float *pos = random_floats(seed + 9, 1, (int64_t)n * POS), *moved = move_positions(&t, pos);
    r.io.node_pos.data = positions ? moved : NULL, r.io.node_pos.rows = hga_graph_nodes(r.graph).n;
    problem_run(&r);
    paper *a = memory(1, sizeof *a);
    a->t = &t, a->self = self || causal, a->causal = causal, a->pos = positions ? pos : NULL;
    means(a, r.io.query.data, r.io.key.data, r.io.value.data);
    by_the_paper(a, causal && mode == HGA_HSA_FRONTIER);
    for (hga_id i = 0; i < t.n_leaves; i++)
        assert_near("out", (float *)r.io.out.data + i * DIM_V, a->o[t.leaf[i]], DIM_V, 2e-5);
    free(a), free(pos), free(moved);
    problem_clear(&r);
}

static void outputs_are_the_papers(int causal, int self, hga_hsa_mode mode)
{
    uint64_t rng = 31;
    for (int round = 0; round < 12; round++) {
        hga_id n, *parent = random_tree(next_random(&rng), 1 + random_below(&rng, 30), &n);
        if (round % 3 == 1) shuffle_names(parent, n, &rng);
        check_outputs(parent, n, causal, self, mode, round % 2, next_random(&rng));
        free(parent);
    }
    check_outputs(ragged, 8, causal, self, mode, 1, 5);
    check_outputs((const hga_id[]){2, 2, -1, 5, 5, -1, -1}, 7, causal, self, mode, 1, 6); /* a batch */
    check_outputs((const hga_id[]){1, 2, -1}, 3, causal, self, mode, 1, 7);               /* one leaf below a chain */
}

static void both_ways(void **state)
{
    (void)state;
    outputs_are_the_papers(0, 0, HGA_HSA_FRONTIER);
}

static void both_ways_and_itself(void **state)
{
    (void)state;
    outputs_are_the_papers(0, 1, HGA_HSA_FRONTIER);
}

static void causal_by_left_siblings(void **state)
{
    (void)state;
    outputs_are_the_papers(1, 0, HGA_HSA_SELF);
}

static void causal_by_the_frontier(void **state)
{
    (void)state;
    outputs_are_the_papers(1, 0, HGA_HSA_FRONTIER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways),
        cmocka_unit_test(both_ways_and_itself),
        cmocka_unit_test(causal_by_left_siblings),
        cmocka_unit_test(causal_by_the_frontier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
