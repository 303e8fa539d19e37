/* Softcap, sinks and slopes: the library against the oracle, in every variant that takes them, and by hand; backward
   against differences; where rows are cut or ask for some rows; and what is refused. */
#include "slopes.h"

#include <unistd.h>

typedef struct modified {
    operands m;
    float sink[8], slopes[8];
} modified;

/* What of the three a seed brings, where the program takes it. */
static void modify(problem *p, modified *x, int softcap, int sink, int slopes)
{
    x->m = (operands){0};
    for (int h = 0; h < 8; h++) {
        x->sink[h] = h == 1 ? -INFINITY : 0.7f - 0.4f * (float)h;
        x->slopes[h] = 0.5f / (float)(1 + h);
    }
    int scores = find_stage(&p->program, HGA_SCORE) != NULL, energies = find_stage(&p->program, HGA_ENERGY) != NULL;
    if (softcap && scores && !energies) x->m.softcap = 0.8f;
    if (sink && p->program.has_lse) x->m.sink = x->sink;
    if (slopes && scores && has_positions(p->graph)) x->m.slopes = x->slopes;
    bring_to(&p->io, &x->m);
}

static void refused(const problem *p, hga_status status, const char *because)
{
    assert_status(status, hga_attention(p->graph, &p->program, &p->shape, &p->options, &p->io));
    if (!strstr(hga_error_detail(), because)) fail_msg("'%s' does not say '%s'", hga_error_detail(), because);
}

static problem dense_problem(int n, int m, const hga_shape *shape)
{
    hga_dense d;
    hga_defaults(&d);
    problem p = {.name = "dense", .shape = *shape, .options = {.threads = 1}};
    d.n_tokens = n, d.n_keys = m;
    assert_ok(hga_build_dense(&d, &p.graph, &p.program));
    problem_fill(&p, 3);
    return p;
}

/* Three loops, nothing of ours but the tensors. */
static void a_dense_row_is_its_formula(void **state)
{
    enum { N = 9, M = 14, DIM = 5 };
    (void)state;
    problem p = dense_problem(N, M, &(hga_shape){.n_heads = 1, .dim = DIM});
    modified x;
    modify(&p, &x, 1, 1, 1);
    float *lse, *got = problem_out(&p, &p.options, &lse);
    const float *q = p.io.query.data, *k = p.io.key.data, *v = p.io.value.data;
    for (int i = 0; i < N; i++) {
        double all = exp((double)x.sink[0]), weight[M];
        for (int j = 0; j < M; j++) {
            double product = 0, cap = (double)x.m.softcap;
            for (int c = 0; c < DIM; c++) product += (double)q[i * DIM + c] * (double)k[j * DIM + c];
            all += weight[j] = exp(cap * tanh(product / sqrt(DIM) / cap) - (double)x.slopes[0] * abs(i - j));
        }
        assert_true(fabs(log(all) - (double)lse[i]) < 1e-5);
        for (int c = 0; c < DIM; c++) {
            double sum = 0;
            for (int j = 0; j < M; j++) sum += weight[j] / all * (double)v[j * DIM + c];
            assert_true(fabs(sum - (double)got[i * DIM + c]) < 1e-5);
        }
    }
    free(got), free(lse), problem_clear(&p);
}

static const hga_shape shapes[] = {{.n_heads = 2, .dim = 4},
                                   {.n_heads = 4, .n_kv_heads = 2, .dim = 5, .dim_v = 3},
                                   {.n_heads = 1, .dim = 8, .pos_dim = 2}};

static void each_modified(int n, uint64_t seeds, void (*check)(problem *p, uint64_t seed))
{
    for (int i = 0; i < n_variants(); i++)
        for (uint64_t seed = 0; seed < seeds; seed++) {
            problem p;
            modified x;
            if (passed_over(i + (int)seed)) continue;
            variant_build(i, n, seed, &shapes[seed % 3], &p);
            problem_fill_tables(&p, seed, seed % 2 == 0, seed % 3 == 0, seed % 4 == 1);
            modify(&p, &x, seed % 3 != 1, seed % 3 != 0, seed % 2);
            p.options.threads = 1 + (hga_id)(seed % 3);
            check(&p, seed);
            problem_clear(&p);
        }
}

static void is_the_oracles(problem *p, uint64_t seed)
{
    (void)seed;
    float *lse, *got = problem_out(p, &p->options, &lse);
    double *want, *want_lse;
    slow_execute(p->graph, &p->program, &p->shape, &p->io, &want, &want_lse);
    assert_near(p->name, got, want, out_count(p), 2e-5);
    if (p->program.has_lse && lse) assert_near(p->name, lse, want_lse, lse_count(p), 2e-5);
    free(got), free(lse), free(want), free(want_lse);
}

static void variants_are_the_oracles(void **state)
{
    (void)state;
    each_modified(37, 6, is_the_oracles);
}

/* Large enough for tiles, families and rows that are cut; a sink counted in every piece would show. */
static void long_rows_are_the_oracles(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        modified x;
        variant_build(i, 150, (uint64_t)i, &shapes[0], &p);
        modify(&p, &x, 0, 1, 0);
        p.options.cut_edges = 3, p.options.threads = 2;
        is_the_oracles(&p, 0);
        problem_clear(&p);
    }
}

/* What is fused is what is defined, in every instruction set and precision, and so are its bits at any number of
   threads: tiles, families, rows; rows that are cut; relative keys, which are capped with their product. */
static void fused_is_plain(void **state)
{
    static const char *const isas[] = {FLOAT_ISAS, PAIRS_ISA};
    static const hga_shape wide = {.n_heads = 4, .n_kv_heads = 2, .dim = 24, .dim_v = 20};
    (void)state;
    for (int i = 0; i < n_variants(); i++)
        for (int j = 0; j < 4; j++) {
            problem p;
            modified x;
            hga_plan *plan;
            hga_options o = {.isa = isas[j], .threads = 1, .dropout = i % 3 == 0 ? 0.2f : 0};
            if (passed_over(4 * i + j)) continue;
            variant_build(i, 300, (uint64_t)i, i % 2 ? &wide : &shapes[0], &p);
            problem_fill_tables(&p, (uint64_t)i, i % 4 == 1, i % 4 == 2, i % 8 == 3);
            modify(&p, &x, (i + j) % 4 != 0, 1, (i + j) % 4 != 1);
            if (hga_plan_create(p.graph, &p.program, &p.shape, &o, &plan)) {
                problem_clear(&p); /* not on this machine */
                continue;
            }
            hga_plan_destroy(plan);
            hga_options generic = o, two = o, half = o, generic_half;
            generic.generic = 1, two.threads = 2, half.precision = HGA_PRECISION_BF16;
            generic_half = half, generic_half.generic = 1;
            float *fused = problem_out(&p, &o, NULL), *again = problem_out(&p, &two, NULL),
                  *plain = problem_out(&p, &generic, NULL), *rounded = problem_out(&p, &half, NULL),
                  *plain_rounded = problem_out(&p, &generic_half, NULL);
            for (int64_t e = 0; e < out_count(&p); e++) {
                if (fabs((double)fused[e] - (double)plain[e]) > 3e-5 ||
                    fabs((double)rounded[e] - (double)plain_rounded[e]) > 0.02)
                    fail_msg("%s, %s: number %lld is %g, in bfloat16 %g, not %g", p.name, isas[j], (long long)e,
                             (double)fused[e], (double)rounded[e], (double)plain[e]);
            }
            assert_same_bits(p.name, fused, again, out_count(&p));
            free(fused), free(again), free(plain), free(rounded), free(plain_rounded), problem_clear(&p);
        }
}

static void gradient_is_the_slope(problem *p, uint64_t seed)
{
    slope s = slope_create(p, seed);
    slope_run(&s, (hga_options){.threads = 1 + (hga_id)(seed % 2)});
    assert_is_the_slope(&s, 2e-5);
    slope_clear(&s);
}

static void gradients_are_slopes(void **state)
{
    (void)state;
    each_modified(19, 6, gradient_is_the_slope);
}

/* Whatever way runs, gradients are those of the plain way. */
static void fast_gradient_is_plain(problem *p, uint64_t seed)
{
    slope plain = slope_create(p, seed), fast = slope_create(p, seed);
    slope_run(&plain, (hga_options){.generic = 1, .threads = 1});
    slope_run(&fast, (hga_options){.threads = 1 + (hga_id)(seed % 3)});
    assert_same_slopes(&plain, &fast, 2e-5);
    slope_clear(&plain), slope_clear(&fast);
}

static void fast_gradients_are_plain(void **state)
{
    (void)state;
    each_modified(70, 3, fast_gradient_is_plain);
}

static void loss_is_the_oracles(problem *p, uint64_t seed)
{
    static const struct {
        int slow;
        hga_gradient_input input;
    } inputs[] = {{SLOW_QUERY, HGA_GRADIENT_QUERY},
                  {SLOW_SINK, HGA_GRADIENT_TABLE + HGA_TABLE_SINK},
                  {SLOW_SLOPES, HGA_GRADIENT_TABLE + HGA_TABLE_SLOPES}};
    slope s = slope_create(p, seed);
    slow_inputs in = slow_inputs_of(p->graph, &p->program, &p->shape, &p->io);
    hga_options options = {.gradient = 1};
    hga_plan *plan;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, &options, &plan));
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        if (!s.n[inputs[i].slow]) continue;
        double got, x = in.of[inputs[i].slow][0];
        assert_ok(hga_plan_loss(plan, &p->io, &s.grad, inputs[i].input, 0, 0.25, &got));
        in.of[inputs[i].slow][0] = x + 0.25;
        double want = slow_loss(&s, &in);
        in.of[inputs[i].slow][0] = x;
        assert_true(fabs(got - want) <= 1e-6 * fmax(1, fabs(want)));
    }
    hga_plan_destroy(plan);
    slow_inputs_clear(&in), slope_clear(&s);
}

static void losses_are_the_oracles(void **state)
{
    (void)state;
    each_modified(19, 6, loss_is_the_oracles);
}

/* The greatest slopes leave a row to the key at its own place, forward and backward; the greatest and smallest caps
   make numbers, too. */
static void extremes_make_numbers(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        problem p = dense_problem(40, 40, &shapes[0]);
        modified x;
        modify(&p, &x, 0, 0, i == 0);
        for (int h = 0; h < 8; h++) x.slopes[h] = 3e38f;
        if (i) x.m.softcap = i == 1 ? 1e-30f : 1e30f;
        is_the_oracles(&p, 0);
        problem_clear(&p);
    }
}

/* Rows without edges are the sink's alone. */
static void an_empty_row_is_the_sinks(void **state)
{
    (void)state;
    hga_builder *b;
    hga_id edges;
    problem p = {.name = "empty", .shape = {.n_heads = 2, .dim = 4}, .options = {.threads = 1}};
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 3, NULL));
    assert_ok(hga_builder_add_relation(b, "edges", &edges));
    assert_ok(hga_builder_add_edge(b, edges, 0, 1, 0, 1));
    assert_ok(hga_builder_finish(b, &p.graph));
    hga_builder_destroy(b);
    assert_ok(hga_program_attention(&p.program, 0));
    problem_fill(&p, 5);
    modified x;
    modify(&p, &x, 0, 1, 0);
    float *lse, *out = problem_out(&p, &p.options, &lse);
    assert_true(lse[0] == x.sink[0] && lse[1] == -INFINITY);
    for (int i = 0; i < 8; i++) assert_true(out[i] == 0);
    gradient_is_the_slope(&p, 1);
    free(out), free(lse), problem_clear(&p);
}

/* Drafts stand behind what they follow, prefixes in front; concatenated graphs keep a sample's own distances; JSON
   keeps what a graph says. */
static void positions_are_where_tokens_will_stand(void **state)
{
    static const int32_t parent[] = {-1, 0, 0, 2, -1};
    static const double want[] = {3, 4, 4, 5, 3, 0, 1, 2, 3, 4, 4, 5, 3};
    (void)state;
    hga_draft d;
    hga_defaults(&d);
    hga_graph *g, *again, *both;
    hga_program p;
    double at[26];
    d.n_tokens = 5, d.prefix = 3, d.parent = parent;
    assert_ok(hga_build_draft(&d, &g, &p));
    assert_ok(hga_graph_positions(g, at));
    for (int i = 0; i < 13; i++) assert_true(at[i] == want[i]);
    char path[64];
    snprintf(path, sizeof path, "draft-%ld.json", (long)getpid());
    assert_ok(hga_graph_write_json(g, NULL, path));
    assert_ok(hga_graph_read_json(NULL, path, &again, NULL));
    remove(path);
    memset(at, 0, sizeof at);
    assert_ok(hga_graph_positions(again, at));
    for (int i = 0; i < 13; i++) assert_true(at[i] == want[i]);
    const hga_graph *two[] = {g, again};
    assert_ok(hga_graph_concat(two, 2, &both, NULL));
    assert_ok(hga_graph_positions(both, at));
    for (int i = 0; i < 26; i++) assert_true(at[i] == (i < 10 ? want[i % 5] : want[5 + (i - 10) % 8]));
    hga_graph_destroy(both), hga_graph_destroy(again), hga_graph_destroy(g);
    hga_neighbourhood n;
    hga_defaults(&n);
    static const int32_t shape[] = {4, 5}, kernel[] = {3, 3};
    n.shape = shape, n.n_axes = 2, n.kernel = kernel, n.n_kernel = 2;
    assert_ok(hga_build_neighbourhood(&n, &g, &p));
    assert_status(HGA_EGRAPH, hga_graph_positions(g, at));
    assert_non_null(strstr(hga_error_detail(), "token 0 has no position"));
    hga_graph_destroy(g);
}

static int takes(const problem *p, int softcap, int sink, int slopes)
{
    static const float one[] = {0.5f};
    operands m = {.softcap = softcap ? 2.0f : 0, .sink = sink ? one : NULL};
    hga_io io = p->io;
    if (slopes) m.slopes = one;
    bring_to(&io, &m);
    return hga_attention(p->graph, &p->program, &p->shape, &p->options, &io) == HGA_OK;
}

static int takes_normaliser(const problem *p, hga_normaliser normaliser)
{
    hga_program program = p->program;
    hga_io io = p->io;
    program.has_lse = 0, io.lse.data = NULL;
    assert_ok(hga_program_normalise(&program, normaliser, normaliser == HGA_NORMALISER_ENTMAX ? 1.5 : 0));
    return hga_attention(p->graph, &program, &p->shape, &p->options, &io) == HGA_OK;
}

/* The registry says of each variant what its program takes. */
static void the_registry_says_what_variants_take(void **state)
{
    static const char *const words[] = {"dense",
                                        "window left=2",
                                        "bpt k=2",
                                        "htransformer block=4",
                                        "hsa branching=2,2",
                                        "fenwick",
                                        "dilated segments=4,8 dilations=1,2",
                                        "neighbourhood shape=4,6 kernel=3"};
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char name[32];
        problem p = {.shape = {.n_heads = 1, .dim = 4}, .options = {.threads = 1}};
        snprintf(p.name, sizeof p.name, "%s", words[i]);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(words[i], " "), words[i]);
        unsigned can = hga_variant_named(name)->can;
        assert_ok(hga_build(words[i], 24, &p.graph, &p.program));
        problem_fill(&p, i);
        assert_int_equal(takes(&p, 1, 0, 0), (can & HGA_TAKES_SOFTCAP) != 0);
        assert_int_equal(takes(&p, 0, 1, 0), (can & HGA_TAKES_SINK) != 0);
        assert_int_equal(takes(&p, 0, 0, 1), (can & HGA_TAKES_SLOPES) != 0);
        assert_int_equal(takes_normaliser(&p, HGA_NORMALISER_SIGMOID), (can & HGA_TAKES_SIGMOID) != 0);
        assert_int_equal(takes_normaliser(&p, HGA_NORMALISER_ENTMAX), (can & HGA_TAKES_ENTMAX) != 0);
        problem_clear(&p);
    }
}

static void what_means_nothing_is_refused(void **state)
{
    (void)state;
    problem p = dense_problem(6, 6, &shapes[0]);
    modified x;
    modify(&p, &x, 0, 0, 0);
    x.m.softcap = -1, bring_to(&p.io, &x.m),
    refused(&p, HGA_EINVAL, "softcap -1 is not from 1e-30 to 1e30, or 0 for none");
    x.m.softcap = 1e-40f, bring_to(&p.io, &x.m), refused(&p, HGA_EINVAL, "softcap 9.99995e-41");
    x.m.softcap = 3e38f, bring_to(&p.io, &x.m), refused(&p, HGA_EINVAL, "softcap 3e+38");
    x.m.softcap = NAN, bring_to(&p.io, &x.m), refused(&p, HGA_EINVAL, "softcap");
    x.m.softcap = 0, x.m.sink = x.sink, x.sink[1] = NAN, bring_to(&p.io, &x.m),
    refused(&p, HGA_EINVAL, "sink of head 1 is nan");
    x.sink[1] = INFINITY, bring_to(&p.io, &x.m), refused(&p, HGA_EINVAL, "sink of head 1 is inf");
    x.m.sink = NULL, x.m.slopes = x.slopes, x.slopes[1] = -0.5f, bring_to(&p.io, &x.m),
    refused(&p, HGA_EINVAL, "slopes of head 1 is -0.5");
    x.slopes[1] = INFINITY, bring_to(&p.io, &x.m), refused(&p, HGA_EINVAL, "slopes of head 1 is inf");
    x.slopes[1] = 0.5f;
    problem_clear(&p);
    variant_build(variant_named("hsa"), 20, 1, &shapes[0], &p);
    modify(&p, &x, 0, 0, 0);
    x.m.softcap = 2, bring_to(&p.io, &x.m), refused(&p, HGA_EUNSUPPORTED, "those of an energy");
    x.m.softcap = 0, x.m.sink = x.sink, x.sink[1] = 0, bring_to(&p.io, &x.m),
    refused(&p, HGA_EUNSUPPORTED, "no log-sum-exp");
    problem_clear(&p);
    variant_build(variant_named("coarse"), 20, 1, &shapes[0], &p);
    modify(&p, &x, 0, 0, 0);
    x.m.softcap = 2, bring_to(&p.io, &x.m), refused(&p, HGA_EUNSUPPORTED, "softcap: the program computes no scores");
    x.m.softcap = 0, x.m.slopes = x.slopes, bring_to(&p.io, &x.m),
    refused(&p, HGA_EUNSUPPORTED, "slopes: the program computes no scores");
    x.m.slopes = NULL, x.m.sink = x.sink, bring_to(&p.io, &x.m), refused(&p, HGA_EUNSUPPORTED, "no log-sum-exp");
    problem_clear(&p);
}

/* The first call with slopes or biases of edges makes the lists of the graph that these need; later ones allocate
   nothing, and an update makes them anew in the memory of the first. */
static void a_plan_takes_what_later_calls_bring(void **state)
{
    (void)state;
    static const char *const names[] = {"window", "bpt", "neighbours"};
    for (int i = 0; i < 3; i++) {
        problem p;
        modified x;
        filling memory = {.byte = 1};
        const hga_allocator a = filling_allocator(&memory);
        hga_plan *plan;
        hga_workspace *workspace;
        variant_build(variant_named(names[i]), 150, 1, &shapes[0], &p);
        hga_io plain = p.io;
        modify(&p, &x, 1, 1, 1);
        problem_fill_tables(&p, 5, 0, 0, 1);
        float *want = problem_out(&p, &p.options, NULL), *got = random_floats(1, 1, out_count(&p));
        p.io.out.data = plain.out.data = got;
        hga_options options = p.options;
        options.allocator = &a;
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &options, &plan));
        assert_ok(hga_workspace_create(plan, &workspace));
        assert_ok(hga_plan_execute(plan, workspace, &plain));
        for (int again = 0; again < 3; again++) {
            int64_t before = memory.asked;
            assert_ok(hga_plan_execute(plan, workspace, &p.io));
            assert_same_bits(names[i], want, got, out_count(&p));
            assert_int_equal(memory.asked > before, again == 0);
            if (again == 1) assert_ok(hga_plan_update(plan, p.graph));
        }
        hga_workspace_destroy(workspace), hga_plan_destroy(plan);
        free(want), free(got), problem_clear(&p);
    }
}

/* What the program says holds where the call says nothing. */
static void a_programs_softcap_is_a_calls(void **state)
{
    (void)state;
    problem p = dense_problem(20, 20, &shapes[0]);
    modified x;
    modify(&p, &x, 1, 0, 0);
    float *call = problem_out(&p, &p.options, NULL);
    bring_to(&p.io, NULL), p.program.softcap = x.m.softcap;
    float *program = problem_out(&p, &p.options, NULL);
    assert_same_bits("softcap", call, program, out_count(&p));
    p.program.softcap = -2;
    refused(&p, HGA_EPROGRAM, "softcap -2");
    free(call), free(program), problem_clear(&p);
}

/* A softcap of 0 is none: over the program's, and where a cap means nothing; and nobody goes another way for it. */
static void a_softcap_of_0_is_none(void **state)
{
    (void)state;
    const float none = 0;
    problem p = dense_problem(20, 20, &shapes[0]);
    float *want = problem_out(&p, &p.options, NULL);
    p.program.softcap = 0.5f, p.io.softcap.data = &none;
    float *got = problem_out(&p, &p.options, NULL);
    assert_same_bits("softcap 0", got, want, out_count(&p));
    free(got), free(want), problem_clear(&p);
    variant_build(variant_named("hsa"), 60, 1, &shapes[0], &p);
    slope s = slope_create(&p, 1);
    hga_plan *plan;
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.gradient = 1}, &plan));
    const char *refusal = NULL, *way = hga_plan_gradient_tried(plan, &p.io, &s.grad, 0, &refusal);
    assert_non_null(way), assert_null(refusal);
    p.io.softcap.data = &none;
    assert_string_equal(hga_plan_gradient_tried(plan, &p.io, &s.grad, 0, &refusal), way), assert_null(refusal);
    p.io.softcap.data = NULL, p.program.softcap = 0.5f;
    refused(&p, HGA_EUNSUPPORTED, "softcap: the program's scores are those of an energy");
    hga_plan_destroy(plan), slope_clear(&s), problem_clear(&p);
}

/* What no gradient is of cannot be moved, nor prepared for. */
static void what_has_no_gradient_is_refused(void **state)
{
    (void)state;
    problem p = dense_problem(20, 20, &shapes[0]);
    slope s = slope_create(&p, 1);
    hga_plan *plan;
    double loss;
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.gradient = 1}, &plan));
    for (int t = HGA_TABLE_SOFTCAP; t < HGA_MAX_TABLES + 3; t += HGA_MAX_TABLES - HGA_TABLE_SOFTCAP - 1) {
        hga_gradient_input input = (hga_gradient_input)(HGA_GRADIENT_TABLE + t);
        assert_status(HGA_EINVAL, hga_plan_loss(plan, &p.io, &s.grad, input, 0, 0.1, &loss));
    }
    s.grad.d_user[0].data = s.d_out;
    assert_status(HGA_EINVAL, hga_plan_loss(plan, &p.io, &s.grad, HGA_GRADIENT_KEY, 0, 0.1, &loss));
    assert_string_equal(hga_error_detail(), "the gradient of user tensor 0 is requested, but the program has 0");
    s.grad.d_user[0].data = NULL;
    s.grad.d_softcap = s.d_out;
    assert_status(HGA_EUNSUPPORTED, hga_plan_prepare(plan, NULL, &p.io, &s.grad, NULL));
    s.grad.d_softcap = NULL, s.grad.d_table[HGA_MAX_TABLES - 1] = s.d_out;
    assert_status(HGA_EINVAL, hga_plan_prepare(plan, NULL, &p.io, &s.grad, NULL));
    hga_plan_destroy(plan), slope_clear(&s), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_dense_row_is_its_formula),
                                       cmocka_unit_test(variants_are_the_oracles),
                                       cmocka_unit_test(long_rows_are_the_oracles),
                                       cmocka_unit_test(fused_is_plain),
                                       cmocka_unit_test(gradients_are_slopes),
                                       cmocka_unit_test(fast_gradients_are_plain),
                                       cmocka_unit_test(losses_are_the_oracles),
                                       cmocka_unit_test(extremes_make_numbers),
                                       cmocka_unit_test(an_empty_row_is_the_sinks),
                                       cmocka_unit_test(positions_are_where_tokens_will_stand),
                                       cmocka_unit_test(the_registry_says_what_variants_take),
                                       cmocka_unit_test(what_means_nothing_is_refused),
                                       cmocka_unit_test(a_plan_takes_what_later_calls_bring),
                                       cmocka_unit_test(a_programs_softcap_is_a_calls),
                                       cmocka_unit_test(a_softcap_of_0_is_none),
                                       cmocka_unit_test(what_has_no_gradient_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
