/* test_not_finite.c: scores that are no finite numbers, from keys or from biases of edges: one answer of every
   normaliser by every way. -inf is an edge that is not there, so that a row of it alone is 0; NaN is in the row's
   output; +inf is NaN where weights are shares of a row's, and a weight of 1 where each score stands for itself. */
#include "by_hand.h"
#include "slopes.h"

/* ---- graphs: groups of tokens that see each other, whose keys have scores of one pattern each ---- */

enum { N_PATTERNS = 11 };

/* Of token i of a group of n. */
static float special(int pattern, int i, int n)
{
    const float least = -INFINITY, most = INFINITY;
    switch (pattern) {
    case 1: return least;
    case 2: return i % 3 == 1 ? least : 0;
    case 3: return i == n - 1 ? 0 : least;
    case 4: return i == 1 ? most : 0;
    case 5: return most;
    case 6: return i == n - 1 ? NAN : 0;
    case 7: return NAN;
    case 8: return i == 0 ? most : least;
    case 9: return i == 2 ? NAN : least;
    case 10: return i == 0 ? NAN : i == 1 ? most : i == 2 ? least : 0;
    default: return 0;
    }
}

typedef struct form {
    const char *name;
    hga_id group;
    int listed, apart; /* edges one by one; each group a block of its own */
    hga_shape_kind shape;
    hga_pos cut_edges;
} form;

static const form forms[] = {
    {"families", 7, 0, 0, HGA_ALL, 0},         {"families without oneself", 9, 0, 0, HGA_OFF_DIAGONAL, 0},
    {"blocks", 40, 0, 1, HGA_ALL, 0},          {"blocks of rows before", 37, 0, 1, HGA_LOWER, 0},
    {"edges one by one", 9, 1, 0, HGA_ALL, 0},

    {"rows in pieces", 40, 0, 1, HGA_ALL, 12},
};
enum { N_FORMS = sizeof forms / sizeof *forms };

static const hga_shape shapes[] = {{.n_heads = 4, .n_kv_heads = 2, .dim = 8, .dim_v = 4}, {.n_heads = 1, .dim = 40}};

static hga_graph *groups_of(const form *f)
{
    hga_id near, n = f->group;
    hga_builder *b = tokens_alone(N_PATTERNS * n);
    assert_ok(hga_builder_add_relation(b, "near", &near));
    hga_block same = {.n_dst = n, .n_src = n, .shape = f->shape};
    if (!f->listed && !f->apart) same.count = N_PATTERNS, same.dst_step = same.src_step = n;
    if (!f->listed && !f->apart) assert_ok(hga_builder_add_blocks(b, near, &same));
    for (hga_id g = 0; g < N_PATTERNS && f->apart; g++) {
        same.dst = same.src = g * n;
        assert_ok(hga_builder_add_blocks(b, near, &same));
    }
    for (hga_id v = 0; v < N_PATTERNS * n && f->listed; v++)
        for (hga_id u = v / n * n; u < (v / n + 1) * n; u++) assert_ok(hga_builder_add_edge(b, near, u, v, 0, 1));
    return finished(b);
}

/* ---- a problem ---- */

typedef struct normaliser {
    hga_normaliser way;
    double alpha;
} normaliser;
static const normaliser normalisers[] = {{HGA_NORMALISER_SOFTMAX, 0},
                                         {HGA_NORMALISER_SIGMOID, 0},
                                         {HGA_NORMALISER_ENTMAX, 1.3},
                                         {HGA_NORMALISER_ENTMAX, 1.5},
                                         {HGA_NORMALISER_ENTMAX, 2}};
enum { N_NORMALISERS = sizeof normalisers / sizeof *normalisers };

typedef struct question {
    problem p;
    const form *f;
    normaliser by;
    float *bias;
    int last_pattern; /* later ones are finite */
    int tame;         /* what makes a row NaN is left out: the oracle looks for thresholds of such rows for ever */
} question;

/* Does a score make the row NaN? */
static int spoils(const question *q, float x)
{
    return isnan(x) || (x == INFINITY && q->by.way != HGA_NORMALISER_SIGMOID);
}

static float special_of(const question *q, hga_id token)
{
    int pattern = token / q->f->group;
    float x = pattern > q->last_pattern ? 0 : special(pattern, token % q->f->group, q->f->group);
    return q->tame && spoils(q, x) ? 0 : x;
}

/* The first column of queries is 1, that of keys what is to be added to a score. */
static void put_into_keys(question *q)
{
    const hga_shape *s = &q->p.shape;
    hga_id heads = s->n_heads, kv = s->n_kv_heads ? s->n_kv_heads : heads;
    float *query = q->p.io.query.data, *key = q->p.io.key.data;
    for (hga_id v = 0; v < N_PATTERNS * q->f->group; v++) {
        for (hga_id h = 0; h < heads; h++) query[(v * heads + h) * s->dim] = 1;
        for (hga_id h = 0; h < kv; h++) key[(v * kv + h) * s->dim] += special_of(q, v);
    }
}

static void put_into_biases(question *q)
{
    int64_t n;
    edge *e = all_edges(q->p.graph, 0, &n);
    q->bias = memory(n, sizeof *q->bias);
    for (int64_t i = 0; i < n; i++) q->bias[i] = special_of(q, e[i].src);
    q->p.io.edge_bias.data = q->bias, q->p.io.edge_bias.rows = n, q->p.io.edge_bias.columns = 1;
    free(e);
}

static question ask(const form *f, const hga_shape *shape, normaliser by, int in_biases, int last_pattern, int tame)
{
    question q = {.p = {.shape = *shape}, .f = f, .by = by, .last_pattern = last_pattern, .tame = tame};
    snprintf(q.p.name, sizeof q.p.name, "%s, %d heads, normaliser %d %g, in %s", f->name, shape->n_heads, (int)by.way,
             by.alpha, in_biases ? "biases" : "keys");
    q.p.graph = groups_of(f);
    assert_ok(hga_program_attention(&q.p.program, 0));
    assert_ok(hga_program_normalise(&q.p.program, by.way, by.alpha));
    problem_fill(&q.p, 3);
    if (by.way != HGA_NORMALISER_SOFTMAX) q.p.io.lse.data = NULL;
    (in_biases ? put_into_biases : put_into_keys)(&q);
    return q;
}

static void end(question *q) { free(q->bias), problem_clear(&q->p); }

/* ---- what a row must be ---- */

enum { IS_A_NUMBER, IS_NOTHING, IS_NAN };

static void find_kinds(const question *q, int *kind)
{
    int64_t n;
    edge *e = all_edges(q->p.graph, 0, &n);
    for (hga_id v = 0; v < N_PATTERNS * q->f->group; v++) kind[v] = IS_NOTHING;
    for (int64_t i = 0; i < n; i++) {
        float x = special_of(q, e[i].src);
        if (spoils(q, x)) kind[e[i].dst] = IS_NAN;
        if (x > -INFINITY && kind[e[i].dst] == IS_NOTHING) kind[e[i].dst] = IS_A_NUMBER;
    }
    free(e);
}

static void check_rows(const question *q, const char *way, const int *kind, const float *got, const double *want,
                       double tolerance)
{
    int64_t columns = out_count(&q->p) / q->p.n_out;
    for (int64_t i = 0; i < out_count(&q->p); i++) {
        int64_t v = i / columns;
        int good = kind[v] == IS_NAN       ? isnan(got[i])
                   : kind[v] == IS_NOTHING ? got[i] == 0
                                           : fabs((double)got[i] - want[i]) <= tolerance;
        if (!good)
            fail_msg("%s, %s: row %lld (pattern %lld) is %g, not %s%g", q->p.name, way, (long long)v,
                     (long long)(v / q->f->group), (double)got[i], kind[v] == IS_NAN ? "NaN, " : "",
                     kind[v] == IS_A_NUMBER ? want[i] : 0.0);
    }
}

static void check_lse(const question *q, const char *way, const int *kind, const float *lse)
{
    for (int64_t i = 0; i < q->p.n_out * q->p.shape.n_heads; i++) {
        int k = kind[i / q->p.shape.n_heads];
        int good = k == IS_NOTHING ? lse[i] == -INFINITY : k == IS_NAN ? !(lse[i] < INFINITY) : isfinite(lse[i]);
        if (!good) fail_msg("%s, %s: log-sum-exp %lld is %g", q->p.name, way, (long long)i, (double)lse[i]);
    }
}

/* ---- ways ---- */

typedef struct way {
    const char *name;
    hga_options options;
} way;

static const way ways[] = {
    {"plain", {.generic = 1}},
    {"ref", {.isa = "ref"}},
    {"avx2", {.isa = "avx2"}},
    {"avx512", {.isa = "avx512"}},
    {"avx512bf16", {.isa = "avx512bf16"}},
    {"neon", {.isa = "neon"}},
    {"strict rows", {.strict_rows = 1}},
    {"plain, bf16", {.generic = 1, .precision = HGA_PRECISION_BF16}},
    {"ref, bf16", {.isa = "ref", .precision = HGA_PRECISION_BF16}},
    {"avx2, bf16", {.isa = "avx2", .precision = HGA_PRECISION_BF16}},
    {"avx512, bf16", {.isa = "avx512", .precision = HGA_PRECISION_BF16}},
    {"avx512bf16, bf16", {.isa = "avx512bf16", .precision = HGA_PRECISION_BF16}},
    {"neon, bf16", {.isa = "neon", .precision = HGA_PRECISION_BF16}},
    {"neonbf16, bf16", {.isa = "neonbf16", .precision = HGA_PRECISION_BF16}},
};
enum { N_WAYS = sizeof ways / sizeof *ways };

static int is_here(const way *w) { return !w->options.isa || strstr(hga_isa_list(), w->options.isa); }

static hga_options options_of(const question *q, const way *w)
{
    hga_options o = w->options;
    o.threads = 1, o.cut_edges = q->f->cut_edges;
    return o;
}

/* Of rows that are numbers. */
static double *expected(const form *f, const hga_shape *shape, normaliser by, int in_biases)
{
    double *want;
    question q = ask(f, shape, by, in_biases, N_PATTERNS, 1);
    slow_execute(q.p.graph, &q.p.program, &q.p.shape, &q.p.io, &want, NULL);
    end(&q);
    return want;
}

static void hold_forward(const form *f, const hga_shape *shape, normaliser by, int in_biases)
{
    question q = ask(f, shape, by, in_biases, N_PATTERNS, 0);
    int *kind = memory(N_PATTERNS * f->group, sizeof *kind);
    double *want = expected(f, shape, by, in_biases);
    find_kinds(&q, kind);
    for (int i = 0; i < N_WAYS; i++) {
        if (!is_here(&ways[i])) continue;
        hga_options o = options_of(&q, &ways[i]);
        float *lse, *got = problem_out(&q.p, &o, &lse);
        check_rows(&q, ways[i].name, kind, got, want, o.precision == HGA_PRECISION_BF16 ? 0.1 : 1e-4);
        if (by.way == HGA_NORMALISER_SOFTMAX) check_lse(&q, ways[i].name, kind, lse);
        free(got), free(lse);
    }
    free(want), free(kind), end(&q);
}

/* Patterns 0 to 3 alone, so that all gradients are numbers, and those of a row of nothing are 0. */
static void hold_gradients_of_masks(const form *f, const hga_shape *shape, normaliser by)
{
    question q = ask(f, shape, by, 1, 3, 0);
    slope plain = slope_create(&q.p, 5);
    slope_run(&plain, (hga_options){.generic = 1, .threads = 1});
    for (int i = 0; i < N_WAYS; i++) {
        if (!is_here(&ways[i]) || ways[i].options.precision == HGA_PRECISION_BF16) continue;
        slope s = slope_create(&q.p, 5);
        slope_run(&s, options_of(&q, &ways[i]));
        assert_same_slopes(&plain, &s, 2e-4);
        hga_id row = shape->n_heads * shape->dim;
        for (hga_id j = f->group * row; j < 2 * f->group * row; j++)
            if (s.of[SLOW_QUERY][j] != 0) fail_msg("%s, %s: a masked row has a gradient", q.p.name, ways[i].name);
        slope_clear(&s);
    }
    slope_clear(&plain), end(&q);
}

/* Rows that are NaN have NaN in the gradients of their queries. */
static void hold_gradients_of_nan(const form *f, const hga_shape *shape, normaliser by)
{
    question q = ask(f, shape, by, 1, N_PATTERNS, 0);
    int *kind = memory(N_PATTERNS * f->group, sizeof *kind);
    hga_id row = shape->n_heads * shape->dim;
    find_kinds(&q, kind);
    for (int i = 0; i < N_WAYS; i++) {
        if (!is_here(&ways[i]) || ways[i].options.precision == HGA_PRECISION_BF16) continue;
        slope s = slope_create(&q.p, 5);
        slope_run(&s, options_of(&q, &ways[i]));
        for (hga_id j = 0; j < N_PATTERNS * f->group * row; j++)
            if (kind[j / row] == IS_NAN && !isnan(s.of[SLOW_QUERY][j]))
                fail_msg("%s, %s: row %d is NaN, not so its query's gradient %g", q.p.name, ways[i].name, j / row,
                         (double)s.of[SLOW_QUERY][j]);
        slope_clear(&s);
    }
    free(kind), end(&q);
}

/* ---- facts ---- */

static void outputs_are_the_same_by_every_way(void **state)
{
    (void)state;
    for (int f = 0; f < N_FORMS; f++)
        for (int i = 0; i < N_NORMALISERS; i++)
            for (int s = 0; s < 4; s++)
                if (!passed_over(f + i + s)) hold_forward(&forms[f], &shapes[s / 2], normalisers[i], s % 2);
}

static void masked_edges_have_no_gradient_by_any_way(void **state)
{
    (void)state;
    for (int f = 0; f < N_FORMS; f++)
        for (int i = 0; i < N_NORMALISERS; i++)
            for (int s = 0; s < 2; s++)
                if (!passed_over(f + i + s)) hold_gradients_of_masks(&forms[f], &shapes[s], normalisers[i]);
}

static void what_is_nan_is_nan_on_the_way_back(void **state)
{
    (void)state;
    for (int f = 0; f < N_FORMS; f++)
        for (int i = 0; i < N_NORMALISERS; i++)
            for (int s = 0; s < 2; s++)
                if (!passed_over(f + i + s)) hold_gradients_of_nan(&forms[f], &shapes[s], normalisers[i]);
}

/* ---- what the loss does not ask for ---- */

enum { TOKENS = 4, TOKENS_AND_PARENTS = TOKENS + 2, HEADS = 2, DIM = 3 };

/* Four tokens under two parents; all attend to each other. */
static hga_graph *tokens_and_parents(void)
{
    hga_builder *b = started(TOKENS, 0, 2);
    assert_ok(hga_builder_set_children(b, TOKENS, 0, 2));
    assert_ok(hga_builder_set_children(b, TOKENS + 1, 2, 2));
    assert_ok(hga_builder_add_blocks(
        b, 0, &(hga_block){.n_dst = TOKENS_AND_PARENTS, .n_src = TOKENS_AND_PARENTS, .shape = HGA_ALL}));
    return finished(b);
}

/* The sine of a query and its energy. The energy of a token, which has no children, is -inf, and the sine's slope there
   no number. */
typedef struct sine_fields {
    hga_id query, psi, out;
} sine_fields;

static void sine_begins(void *state, const hga_end *v, hga_id head, void *ctx)
{
    (void)state, (void)v, (void)head, (void)ctx;
}

static void sine_has_no_edges(void *state, const hga_edge *e, hga_id head, void *ctx)
{
    (void)state, (void)e, (void)head, (void)ctx;
}

static void sine_ends(const void *state, const hga_end *v, hga_id head, void *ctx)
{
    (void)state, (void)head;
    const sine_fields *f = ctx;
    for (hga_id c = 0; c < DIM; c++) v->field[f->out][c] = sinf(v->field[f->query][c] + v->field[f->psi][0]);
}

static void sine_goes_back(const void *state, void *d_state, const hga_end *v, const hga_end *d_v, hga_id head,
                           void *ctx)
{
    (void)state, (void)d_state, (void)head;
    const sine_fields *f = ctx;
    for (hga_id c = 0; c < DIM; c++) {
        float by = cosf(v->field[f->query][c] + v->field[f->psi][0]) * d_v->field[f->out][c];
        d_v->field[f->query][c] += by, d_v->field[f->psi][0] += by;
    }
}

static void no_edge_goes_back(const void *state, const void *d_state, const hga_edge *e, double *d_score,
                              const hga_end *d_source, const hga_end *d_destination, hga_id head, void *ctx)
{
    (void)state, (void)d_state, (void)e, (void)d_score, (void)d_source, (void)d_destination, (void)head, (void)ctx;
}

static hga_stage sine_stage(sine_fields *f)
{
    return (hga_stage){.name = "sine",
                       .relation = HGA_TREE_UP,
                       .order = HGA_LEVELS_UP,
                       .message = HGA_MESSAGE_USER,
                       .reduce = HGA_REDUCE_USER,
                       .update = HGA_UPDATE_USER,
                       .out = f->out,
                       .reads = 1u << f->query | 1u << f->psi,
                       .writes = 1u << f->out,
                       .udf = {.state_bytes = 1,
                               .begin = sine_begins,
                               .edge = sine_has_no_edges,
                               .finish = sine_ends,
                               .ctx = f,
                               .finish_adjoint = sine_goes_back,
                               .edge_adjoint = no_edge_goes_back}};
}

/* An attention, its energies and their sines, which are the output or read by nobody. */
static problem with_sines(int are_output, sine_fields *f)
{
    problem p = {.name = "sines", .shape = {.n_heads = HEADS, .dim = DIM}, .graph = tokens_and_parents()};
    attention a = attention_on_nodes(&p.program);
    if (are_output) p.program.field[a.out].binding = HGA_INTERNAL;
    *f =
        (sine_fields){.query = a.query,
                      .psi = field_on_nodes(&p.program, "psi", HGA_WIDTH_SCALAR, HGA_INTERNAL),
                      .out = field_on_nodes(&p.program, "sine", HGA_WIDTH_OUT, are_output ? HGA_IO_OUT : HGA_INTERNAL)};
    hga_stage sine = sine_stage(f);
    assert_ok(hga_program_attend(&p.program, 0, a.query, a.key, a.value, a.out, 0));
    assert_ok(hga_program_energy(&p.program, a.out, f->psi));
    assert_ok(hga_program_add_stage(&p.program, &sine));
    problem_fill(&p, 1);
    return p;
}

/* The loss asks for nothing of the tokens' rows where the sines are the output: by definition, and as a plan goes back
   by itself, no gradient is NaN. */
static void rows_that_are_not_asked_for_give_nothing(void **state)
{
    (void)state;
    for (int are_output = 0; are_output < 2; are_output++) {
        sine_fields f;
        problem p = with_sines(are_output, &f);
        slope plain = slope_create(&p, 5), other = slope_create(&p, 5);
        for (int i = 0; are_output && i < TOKENS * HEADS * DIM; i++) plain.d_out[i] = other.d_out[i] = 0;
        slope_run(&plain, (hga_options){.generic = 1, .threads = 1});
        slope_run(&other, (hga_options){.threads = 1});
        assert_same_slopes(&plain, &other, 1e-5);
        slope_clear(&plain), slope_clear(&other), problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_are_the_same_by_every_way),
        cmocka_unit_test(masked_edges_have_no_gradient_by_any_way),
        cmocka_unit_test(what_is_nan_is_nan_on_the_way_back),
        cmocka_unit_test(rows_that_are_not_asked_for_give_nothing),
    };
    return cmocka_run_group_tests_name("not_finite", tests, NULL, NULL);
}
