/* Hierarchical entmax (Amizadeh et al. 2025, eq. 51) against what it is defined by, in double: a recursion over the
   tree for each node's energy and its children's weights, whose gradient the output is; in weights, JSON and words; and
   what is refused with it. tests/test_entmax.c holds its gradients to slopes. */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double alphas[] = {1, 1.05, 1.3, 1.5, 2};
enum { N_ALPHAS = sizeof alphas / sizeof *alphas, MOST = 64, DIM = 4 };

/* ---- the definition ---- */

typedef struct node {
    double mass, q[DIM], k[DIM], v[DIM];
    double share[MOST], inside; /* of its siblings, and itself; of what is inside it */
} node;

typedef struct tree {
    hga_id n;
    const hga_id *parent;
    int self;
    double alpha;
    node *of;
} tree;

static int is_leaf(const tree *t, hga_id v)
{
    for (hga_id u = 0; u < t->n; u++)
        if (t->parent[u] == v) return 0;
    return 1;
}

static void find_means(tree *t, hga_id v)
{
    node *x = &t->of[v];
    if (is_leaf(t, v)) return;
    memset(x, 0, sizeof *x);
    for (hga_id u = 0; u < t->n; u++) {
        if (t->parent[u] != v) continue;
        find_means(t, u);
        const node *y = &t->of[u];
        x->mass += y->mass;
        for (int c = 0; c < DIM; c++)
            x->q[c] += y->mass * y->q[c], x->k[c] += y->mass * y->k[c], x->v[c] += y->mass * y->v[c];
    }
    for (int c = 0; c < DIM; c++) x->q[c] /= x->mass, x->k[c] /= x->mass, x->v[c] /= x->mass;
}

/* Weights of n scores by halving, and the greatest of p . z + H(p). */
static double conjugate(double alpha, int n, const double *z, double *p)
{
    double most = -INFINITY, low, high, sum = 0, value = 0;
    for (int i = 0; i < n; i++) most = fmax(most, z[i]);
    if (alpha == 1) {
        for (int i = 0; i < n; i++) sum += p[i] = exp(z[i] - most);
        for (int i = 0; i < n; i++) p[i] /= sum;
        return most + log(sum);
    }
    low = (alpha - 1) * most - 1, high = low + 1;
    for (int step = 0; step < 100; step++) {
        double middle = (low + high) / 2, all = 0;
        for (int i = 0; i < n; i++) all += pow(fmax((alpha - 1) * z[i] - middle, 0), 1 / (alpha - 1));
        *(all < 1 ? &high : &low) = middle;
    }
    for (int i = 0; i < n; i++) sum += p[i] = pow(fmax((alpha - 1) * z[i] - low, 0), 1 / (alpha - 1));
    for (int i = 0; i < n; i++) {
        p[i] /= sum;
        if (p[i] > 0) value += p[i] * z[i] + (p[i] - pow(p[i], alpha)) / (alpha * (alpha - 1));
    }
    return value;
}

/* What node v's siblings are to it: scores with the logarithms of masses in them, less nothing, since eq. 51 does not
   mind what is taken from all. */
static double score(const tree *t, hga_id v, hga_id u)
{
    double dot = 0;
    for (int c = 0; c < DIM; c++) dot += t->of[v].q[c] * t->of[u].k[c];
    return dot / sqrt(DIM) + log(t->of[u].mass);
}

/* -phi of node v, whose children get their weights on the way; -inf of a leaf. */
static double energy(tree *t, hga_id v)
{
    double sum = 0;
    if (is_leaf(t, v)) return -INFINITY;
    for (hga_id u = 0; u < t->n; u++) {
        if (t->parent[u] != v) continue;
        double z[MOST + 1], p[MOST + 1];
        hga_id of[MOST];
        int n = 0;
        for (hga_id w = 0; w < t->n; w++)
            if (t->parent[w] == v && (w != u || (t->self && is_leaf(t, u)))) of[n] = w, z[n++] = score(t, u, w);
        double inside = energy(t, u);
        int all = n + (inside > -INFINITY);
        memset(t->of[u].share, 0, sizeof t->of[u].share), t->of[u].inside = 0;
        z[n] = inside;
        double g = all ? conjugate(t->alpha, all, z, p) : -INFINITY;
        for (int i = 0; i < n; i++) t->of[u].share[of[i]] = p[i];
        if (all > n) t->of[u].inside = p[n];
        sum += t->of[u].mass / t->of[v].mass * g;
    }
    return sum;
}

/* What a token gets: of each of its ancestors' siblings a share of what is left. */
static void output(const tree *t, hga_id token, double *out)
{
    hga_id path[MOST], n = 0;
    double left = 1;
    for (hga_id v = token; v >= 0; v = t->parent[v]) path[n++] = v;
    for (int c = 0; c < DIM; c++) out[c] = 0;
    for (hga_id i = n - 2; i >= 0; left *= t->of[path[i--]].inside)
        for (hga_id u = 0; u < t->n; u++)
            for (int c = 0; c < DIM; c++) out[c] += left * t->of[path[i]].share[u] * t->of[u].v[c];
}

/* ---- trees ---- */

static const hga_id ragged[] = {9, 9, 9, 10, 10, 11, 12, 14, 14, 14, 11, 14, 13, 14, -1},
                    flat[] = {6, 6, 6, 6, 6, 6, -1}, alone[] = {-1}, chain[] = {2, 3, 4, 4, 5, -1};
static const struct {
    const char *name;
    const hga_id *parent;
    hga_id n;
} trees[] = {{"ragged", ragged, 15}, {"flat", flat, 7}, {"alone", alone, 1}, {"chain", chain, 6}};
enum { N_TREES = sizeof trees / sizeof *trees };

static problem problem_on(int i, int self, double alpha)
{
    problem p = {.shape = {.n_heads = 1, .dim = DIM}, .options = {.threads = 1}};
    hga_hsa h;
    hga_defaults(&h);
    h.parent = trees[i].parent, h.n_parent = trees[i].n, h.self = self;
    snprintf(p.name, sizeof p.name, "%s, alpha %g", trees[i].name, alpha);
    assert_ok(hga_build_hsa(&h, &p.graph, &p.program));
    assert_ok(hga_program_normalise(&p.program, HGA_NORMALISER_ENTMAX, alpha));
    problem_fill(&p, (uint64_t)i);
    float *const of[] = {p.io.query.data, p.io.key.data};
    for (int64_t c = 0; c < p.n_out * DIM; c++) of[0][c] *= 3, of[1][c] *= 2;
    return p;
}

/* The problem's own numbers in a tree of the graph's nodes. */
static tree tree_of(const problem *p, int self, double alpha)
{
    const hga_nodes nodes = hga_graph_nodes(p->graph);
    tree t = {.n = nodes.n, .parent = nodes.parent, .self = self, .alpha = alpha};
    t.of = memory(t.n, sizeof *t.of);
    for (hga_id v = 0; v < (hga_id)p->n_out; v++) {
        t.of[v].mass = 1;
        for (int c = 0; c < DIM; c++) {
            t.of[v].q[c] = (double)((float *)p->io.query.data)[v * DIM + c];
            t.of[v].k[c] = (double)((float *)p->io.key.data)[v * DIM + c];
            t.of[v].v[c] = (double)((float *)p->io.value.data)[v * DIM + c];
        }
    }
    return t;
}

static double energy_of_all(tree *t)
{
    find_means(t, t->n - 1);
    return energy(t, t->n - 1);
}

typedef void tree_check(problem *p, tree *t);
static void each_tree(tree_check *check)
{
    for (int i = 0; i < N_TREES; i++)
        for (int self = 0; self < 2; self++)
            for (int a = 0; a < N_ALPHAS; a++) {
                if (i == 2 && self) continue; /* the definition begins at families */
                problem p = problem_on(i, self, alphas[a]);
                tree t = tree_of(&p, self, alphas[a]);
                check(&p, &t);
                free(t.of), problem_clear(&p);
            }
}

static void check_outputs(problem *p, tree *t)
{
    double *want = memory(p->n_out * DIM, sizeof *want);
    if (t->n > 1) energy_of_all(t);
    for (hga_id v = 0; v < (hga_id)p->n_out && t->n > 1; v++) output(t, v, want + v * DIM);
    for (int generic = 0; generic < 2; generic++) {
        p->options.generic = generic;
        float *got = problem_out(p, &p->options, NULL);
        assert_near(p->name, got, want, p->n_out * DIM, 2e-6);
        free(got);
    }
    free(want);
}

static void outputs_are_shares_of_the_tree(void **state)
{
    (void)state;
    each_tree(check_outputs);
}

/* With v = k the output is -n sqrt(d) times the gradient of phi of the root. */
static void check_energy(problem *p, tree *t)
{
    const double by = 1e-5;
    double *want = memory(p->n_out * DIM, sizeof *want);
    memcpy(p->io.value.data, p->io.key.data, (size_t)(p->n_out * DIM) * sizeof(float));
    for (hga_id v = 0; v < (hga_id)p->n_out && t->n > 1; v++)
        for (int c = 0; c < DIM; c++) {
            double *q = &t->of[v].q[c], was = *q, up, down;
            *q = was + by, up = energy_of_all(t);
            *q = was - by, down = energy_of_all(t);
            *q = was;
            want[v * DIM + c] = (double)p->n_out * sqrt(DIM) * (up - down) / (2 * by);
        }
    float *got = problem_out(p, &p->options, NULL);
    assert_near(p->name, got, want, p->n_out * DIM, 2e-4); /* differences across kinks */
    free(got), free(want);
}

static void outputs_are_the_gradient_of_the_energy(void **state)
{
    (void)state;
    each_tree(check_energy);
}

/* ---- all that runs ---- */

/* Whatever the threads: the same bits. Whatever the instruction set, the rows and how heads share: the plain rows. */
static void rows_are_the_plain_ones(void **state)
{
    (void)state;
    static const char *const isas[] = {NULL, FLOAT_ISAS}, *const names[] = {"hsa", "hsa_self", "hsa_wide"};
    static const hga_shape shapes[] = {{.n_heads = 2, .dim = 8},
                                       {.n_heads = 6, .n_kv_heads = 2, .dim = 64, .dim_v = 24},
                                       {.n_heads = 20, .dim = 64},
                                       {.n_heads = 1, .dim = 5, .pos_dim = 2}};
    for (int i = 0; i < 72; i++) {
        problem p;
        variant_build(variant_named(names[i % 3]), 40 + 9 * i, (uint64_t)i, &shapes[i % 4], &p);
        if (i % 5 == 0) problem_fill_tables(&p, (uint64_t)i, 1, 1, i % 2);
        assert_ok(hga_program_normalise(&p.program, HGA_NORMALISER_ENTMAX, alphas[1 + i / 4 % 4]));
        const hga_precision precision = i % 7 == 3 ? HGA_PRECISION_BF16 : HGA_PRECISION_F32;
        hga_options fast = {.threads = 1, .isa = isas[i / 3 % 4], .precision = precision};
        hga_plan *plan;
        if (hga_plan_create(p.graph, &p.program, &p.shape, &fast, &plan) == HGA_OK) {
            hga_plan_destroy(plan);
            float *want = problem_out(&p, &(hga_options){.threads = 1, .generic = 1, .precision = precision}, NULL);
            float *got = problem_out(&p, &fast, NULL);
            /* means that fall between two numbers of 16 bits go either way */
            assert_near_floats(p.name, got, want, out_count(&p), precision == HGA_PRECISION_BF16 ? 5e-3 : 2e-5);
            fast.threads = 3;
            float *three = problem_out(&p, &fast, NULL);
            assert_same_bits(p.name, three, got, out_count(&p));
            free(want), free(got), free(three);
        }
        problem_clear(&p);
    }
}

/* Rows that are asked for alone are those of all. */
static void some_rows_are_those_of_all(void **state)
{
    (void)state;
    problem p;
    variant_build(variant_named("hsa_wide"), 300, 4, &(hga_shape){.n_heads = 3, .dim = 16}, &p);
    assert_ok(hga_program_normalise(&p.program, HGA_NORMALISER_ENTMAX, 1.5));
    float *all = problem_out(&p, &(hga_options){.threads = 2}, NULL);
    p.io.rows = SOME_ROWS(37, 60);
    float *some = problem_out(&p, &(hga_options){.threads = 2, .rows = HGA_SOME_ROWS}, NULL);
    assert_same_bits("some rows", some + 37 * 48, all + 37 * 48, 60 * 48);
    free(all), free(some), problem_clear(&p);
}

/* A token that nobody weighs, and whose ancestors nobody weighs either, may hold anything. */
static void only_the_supports_values_are_read(void **state)
{
    (void)state;
    enum { N = 64, OFF = 21 };
    for (int generic = 0; generic < 2; generic++) {
        problem p;
        const hga_id branching = 4;
        hga_hsa h;
        hga_defaults(&h);
        h.n_tokens = N, h.branching = &branching, h.n_branching = 1;
        p = (problem){
            .name = "off", .shape = {.n_heads = 1, .dim = DIM}, .options = {.threads = 1, .generic = generic}};
        assert_ok(hga_build_hsa(&h, &p.graph, &p.program));
        assert_ok(hga_program_normalise(&p.program, HGA_NORMALISER_ENTMAX, 1.5));
        problem_fill(&p, 1);
        float *q = p.io.query.data, *k = p.io.key.data, *v = p.io.value.data;
        for (int i = 0; i < N; i++) q[i * DIM] = 4;
        k[OFF * DIM] = -1000, v[OFF * DIM] = NAN;
        float *got = problem_out(&p, &p.options, NULL);
        for (int i = 0; i < N * DIM; i++) assert_true(isfinite(got[i]));
        free(got), problem_clear(&p);
    }
}

/* ---- weights and words ---- */

static hga_status leave(const hga_weight *w, void *context)
{
    (void)w, (void)context;
    return HGA_OK;
}

/* What a token pays is what its row of the output is made of. */
static void weights_are_those_of_the_output(void **state)
{
    (void)state;
    problem p = problem_on(0, 0, 1.5);
    double share[9], *v = memory(9 * DIM, sizeof *v);
    float *out = problem_out(&p, &p.options, NULL);
    for (hga_id token = 0; token < 9; token++) {
        double sum = 0;
        assert_ok(hga_program_weights(&p.program, p.graph, &p.shape, &p.io, token, 0, leave, NULL, share));
        for (int c = 0; c < DIM; c++) v[c] = 0;
        for (int j = 0; j < 9; j++) {
            sum += share[j];
            for (int c = 0; c < DIM; c++) v[c] += share[j] * (double)((float *)p.io.value.data)[j * DIM + c];
        }
        assert_true(fabs(sum - 1) < 1e-9);
        assert_near("weights", out + token * DIM, v, DIM, 2e-6);
    }
    free(out), free(v), problem_clear(&p);
}

static void json_has_the_stage_and_softmax_gives_it_back(void **state)
{
    (void)state;
    problem p = problem_on(0, 0, 1.5);
    hga_program back;
    char *text, *again;
    float *want = problem_out(&p, &p.options, NULL);
    assert_ok(hga_program_to_json(&p.program, p.graph, &text));
    assert_non_null(strstr(text, "\"attend inside\""));
    assert_ok(hga_program_from_json(text, p.graph, &back));
    p.program = back;
    float *got = problem_out(&p, &p.options, NULL);
    assert_same_bits("json", got, want, out_count(&p));
    free(got), free(want), hga_text_free(text);
    assert_ok(hga_program_normalise(&p.program, HGA_NORMALISER_SOFTMAX, 0));
    problem softmax = problem_on(0, 0, 1);
    assert_ok(hga_program_normalise(&softmax.program, HGA_NORMALISER_SOFTMAX, 0));
    assert_ok(hga_program_to_json(&p.program, p.graph, &text));
    assert_ok(hga_program_to_json(&softmax.program, p.graph, &again));
    assert_string_equal(text, again);
    hga_text_free(text), hga_text_free(again), problem_clear(&softmax), problem_clear(&p);
}

/* ---- what is refused ---- */

static void refused(const problem *p, const hga_options *o, hga_status status, const char *because)
{
    hga_plan *plan;
    assert_status(status, hga_plan_create(p->graph, &p->program, &p->shape, o, &plan));
    if (!strstr(hga_error_detail(), because)) fail_msg("'%s' does not say '%s'", hga_error_detail(), because);
}

static void what_has_no_meaning_is_refused_by_name(void **state)
{
    (void)state;
    problem p = problem_on(0, 0, 1.5);
    refused(&p, &(hga_options){.dropout = 0.1f}, HGA_EUNSUPPORTED, "dropout: entmax of energies has none");
    assert_ok(hga_program_normalise(&p.program, HGA_NORMALISER_SIGMOID, 0));
    refused(&p, NULL, HGA_EPROGRAM, "reads log-sum-exps, which normaliser sigmoid has not");
    assert_ok(hga_program_normalise(&p.program, HGA_NORMALISER_ENTMAX, 1.5));
    p.io.table[HGA_TABLE_SOFTCAP].data = &(float){3};
    assert_status(HGA_EUNSUPPORTED, hga_attention(p.graph, &p.program, &p.shape, NULL, &p.io));
    assert_non_null(strstr(hga_error_detail(), "the program's scores are those of an energy"));
    for (hga_id i = 0; i < p.program.n_stages; i++)
        if (p.program.stage[i].message == HGA_SCORE) p.program.stage[i].normaliser = HGA_NORMALISER_SIGMOID;
    for (hga_id i = 0; i < p.program.n_stages; i++) p.program.stage[i].alpha = 0;
    refused(&p, NULL, HGA_EPROGRAM, "shares a row's weights out, which sigmoid does not");
    problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_shares_of_the_tree),
        cmocka_unit_test(outputs_are_the_gradient_of_the_energy),
        cmocka_unit_test(rows_are_the_plain_ones),
        cmocka_unit_test(some_rows_are_those_of_all),
        cmocka_unit_test(only_the_supports_values_are_read),
        cmocka_unit_test(weights_are_those_of_the_output),
        cmocka_unit_test(json_has_the_stage_and_softmax_gives_it_back),
        cmocka_unit_test(what_has_no_meaning_is_refused_by_name),
    };
    return cmocka_run_group_tests_name("entmax of energies", tests, NULL, NULL);
}
