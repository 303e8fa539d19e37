/* Additive scores, those of GAT and GATv2: the library against the oracle in every variant that has scores, and by
   hand; backward against differences; what tokens pay; the words for them; and what is refused. */
#include "by_hand.h"
#include "slopes.h"

enum { MOST_HEADS = 4, MOST_COLUMNS = 8 };

typedef struct vectors {
    operands m;
    float a[MOST_HEADS * MOST_COLUMNS];
} vectors;

static const hga_shape shapes[] = {{.n_heads = 2, .dim = 4},
                                   {.n_heads = 4, .n_kv_heads = 2, .dim = 5, .dim_v = 3},
                                   {.n_heads = 1, .dim = 8, .pos_dim = 2}};

/* Without `with` the vector is ones. */
static void put_additive(problem *p, vectors *x, float negative_slope, int with)
{
    x->m = (operands){0};
    for (int i = 0; i < MOST_HEADS * MOST_COLUMNS; i++) x->a[i] = 0.25f * (float)(i * 5 % 9 - 4) + 0.125f;
    if (with) x->m.additive = x->a;
    p->program.scores = HGA_SCORES_ADDITIVE, p->program.negative_slope = negative_slope;
    bring_to(&p->io, &x->m);
}

static void refused(const problem *p, hga_status status, const char *because)
{
    assert_status(status, hga_attention(p->graph, &p->program, &p->shape, &p->options, &p->io));
    if (!strstr(hga_error_detail(), because)) fail_msg("'%s' does not say '%s'", hga_error_detail(), because);
}

/* Does somebody read the caller's own queries with a score? */
static int has_scores(const problem *p) { return find_stage(&p->program, HGA_SCORE) != NULL; }

/* ---- forward ---- */

/* Loops, nothing of ours but the tensors: GATv2's e(i, j) = a . LeakyReLU(q_i + k_j). */
static void a_dense_row_is_its_formula(void **state)
{
    enum { N = 9, M = 14, DIM = 5 };
    (void)state;
    hga_dense d;
    hga_defaults(&d);
    problem p = {.name = "dense", .shape = {.n_heads = 1, .dim = DIM}, .options = {.threads = 1}};
    vectors x;
    d.n_tokens = N, d.n_keys = M;
    assert_ok(hga_build_dense(&d, &p.graph, &p.program));
    problem_fill(&p, 3), put_additive(&p, &x, 0.2f, 1);
    float *lse, *got = problem_out(&p, &p.options, &lse);
    const float *q = p.io.query.data, *k = p.io.key.data, *v = p.io.value.data;
    for (int i = 0; i < N; i++) {
        double all = 0, weight[M];
        for (int j = 0; j < M; j++) {
            double e = 0;
            for (int c = 0; c < DIM; c++) {
                double z = (double)q[i * DIM + c] + (double)k[j * DIM + c];
                e += (double)x.a[c] * (z > 0 ? z : (double)0.2f * z);
            }
            all += weight[j] = exp(e);
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

static void variants_are_the_oracles(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            problem p;
            vectors x;
            variant_build(i, 37, seed, &shapes[seed % 3], &p);
            problem_fill_tables(&p, seed, seed % 2 == 0, seed % 3 == 0, seed % 4 == 1);
            p.options.threads = 1 + (hga_id)(seed % 3);
            if (has_scores(&p)) {
                put_additive(&p, &x, 0.25f * (float)(seed % 3), seed % 4 != 3);
                float *lse, *got = problem_out(&p, &p.options, &lse);
                double *want, *want_lse;
                slow_execute(p.graph, &p.program, &p.shape, &p.io, &want, &want_lse);
                assert_near(p.name, got, want, out_count(&p), 2e-5);
                if (p.program.has_lse && lse) assert_near(p.name, lse, want_lse, lse_count(&p), 2e-5);
                free(got), free(lse), free(want), free(want_lse);
            }
            problem_clear(&p);
        }
}

static const char *const isas[] = {FLOAT_ISAS, PAIRS_ISA};

/* The fused rows are the plain ones, in every instruction set of this machine: long rows in pieces, heads together and
   alone, one column and many, dropped weights, bfloat16; with softcaps, slopes and sinks. */
static void rows_are_plain_ones(void **state)
{
    static const hga_shape of[] = {{.n_heads = 8, .dim = 1, .dim_v = 20},
                                   {.n_heads = 6, .n_kv_heads = 2, .dim = 1, .dim_v = 3},
                                   {.n_heads = 2, .dim = 37},
                                   {.n_heads = 4, .n_kv_heads = 2, .dim = 16, .dim_v = 5}};
    static const float slopes[8] = {0.5f, 0.25f, 0.125f, 0, 0.5f, 0.25f, 0.125f, 0};
    static float a[8 * 37];
    (void)state;
    for (size_t j = 0; j < sizeof a / sizeof *a; j++) a[j] = 0.0625f * (float)(j * 7 % 17) - 0.5f;
    for (int i = 0; i < n_variants(); i++)
        for (uint64_t seed = 0; seed < 4; seed++) {
            problem p;
            operands m = {.additive = seed % 3 ? a : NULL};
            if (passed_over(4 * i + (int)seed)) continue;
            variant_build(i, 90, seed, &of[(seed + (uint64_t)i) % 4], &p);
            problem_fill_tables(&p, seed, seed % 2 == 0, seed == 3, seed == 1);
            bring_to(&p.io, &m);
            p.options.dropout = seed == 2 ? 0.25f : 0, p.options.cut_edges = seed == 1 ? 20 : 0;
            p.options.precision = seed == 3 ? HGA_PRECISION_BF16 : HGA_PRECISION_F32;
            if (seed != 2 && !find_stage(&p.program, HGA_ENERGY)) m.softcap = 0.7f;
            if (seed && has_positions(p.graph)) m.slopes = slopes;
            if (seed != 3 && p.program.has_lse) m.sink = slopes;
            p.program.scores = HGA_SCORES_ADDITIVE, p.program.negative_slope = 0.2f;
            for (size_t isa = 0; isa < 4 && has_scores(&p); isa++) {
                hga_options plain = p.options, fast = p.options;
                plain.generic = 1, fast.isa = isas[isa], fast.threads = 1 + (hga_id)isa % 3;
                hga_plan *plan;
                if (hga_plan_create(p.graph, &p.program, &p.shape, &fast, &plan)) continue; /* not this machine's */
                hga_plan_destroy(plan);
                float *want = problem_out(&p, &plain, NULL), *got = problem_out(&p, &fast, NULL);
                for (int64_t j = 0; j < out_count(&p); j++)
                    if (!(fabsf(got[j] - want[j]) < 2e-5f * fmaxf(1, fabsf(want[j]))))
                        fail_msg("%s, %s, seed %d: %g, not %g", p.name, isas[isa], (int)seed, (double)got[j],
                                 (double)want[j]);
                free(want), free(got);
            }
            problem_clear(&p);
        }
}

/* ---- backward ---- */

/* Sums q + k are not where LeakyReLU has a corner, so that differences are slopes: queries of even heads are far above
   all keys, those of odd ones far below. Where queries are no tensor called so LeakyReLU is the identity. */
static void put_smooth(problem *p, vectors *x)
{
    float *q = p->io.query.data;
    const hga_stage *s = find_stage(&p->program, HGA_SCORE);
    put_additive(p, x, p->program.field[s->query].binding == HGA_IO_QUERY ? 0.25f : 1, 1);
    for (int64_t i = 0; i < p->n_query; i++)
        for (hga_id h = 0; h < p->shape.n_heads; h++)
            for (hga_id c = 0; c < p->shape.dim; c++)
                q[(i * p->shape.n_heads + h) * p->shape.dim + c] += h % 2 ? -5.0f : 5.0f;
}

static void slopes_of_additive(problem *p, uint64_t seed)
{
    vectors x;
    if (!has_scores(p)) return;
    put_smooth(p, &x);
    slope s = slope_create(p, seed);
    slope_run(&s, (hga_options){.threads = 1 + (hga_id)(seed % 2)});
    assert_is_the_slope(&s, 2e-5); /* scores of 5 and more round: that of the scale sums over all of them */
    slope_clear(&s);
}

static void gradients_are_slopes(void **state)
{
    (void)state;
    each_variant(slopes_of_additive, 13, 6);
}

/* Both sides of the corner in one score: queries stand between the marks where keys are. */
static void gradients_of_mixed_signs_are_slopes(void **state)
{
    (void)state;
    static const char *const names[] = {"window", "dense_cross", "neighbours_cross"};
    int n = 0;
    for (int i = 0; i < 3; i++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            problem p;
            vectors x;
            variant_build(variant_named(names[i]), 24, seed, &shapes[seed % 2], &p);
            if (p.io.query.data && hga_graph_nodes(p.graph).n_levels == 1) {
                float *q = p.io.query.data, *k = p.io.key.data;
                hga_id kv = p.shape.n_kv_heads ? p.shape.n_kv_heads : p.shape.n_heads;
                for (int64_t j = 0; j < p.n_query * p.shape.n_heads * p.shape.dim; j++)
                    q[j] = roundf(q[j] * 8) / 8 + 0.0625f;
                for (int64_t j = 0; j < p.n_key * kv * p.shape.dim; j++) k[j] = roundf(k[j] * 8) / 8;
                put_additive(&p, &x, 0.2f, 1);
                slope s = slope_create(&p, seed);
                slope_run(&s, (hga_options){.threads = 1});
                assert_is_the_slope(&s, 1e-5);
                slope_clear(&s), n++;
            }
            problem_clear(&p);
        }
    assert_true(n >= 6);
}

/* Of columns that the fast ways like, on every variant: whichever way takes the plan, gradients are the plain ones. */
static void gradients_are_plain_ones(void **state)
{
    static const hga_shape of[] = {{.n_heads = 4, .dim = 16}, {.n_heads = 2, .dim = 32}, {.n_heads = 1, .dim = 64}};
    static float a[64];
    (void)state;
    for (size_t j = 0; j < sizeof a / sizeof *a; j++) a[j] = 0.0625f * (float)(j * 7 % 17) - 0.5f;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        operands m = {.additive = a};
        variant_build(i, 70, (uint64_t)i, &of[i % 3], &p);
        if (has_scores(&p)) {
            bring_to(&p.io, &m), p.program.scores = HGA_SCORES_ADDITIVE, p.program.negative_slope = 0.2f;
            if (i % 2 && !find_stage(&p.program, HGA_ENERGY)) m.softcap = 0.7f;
            slope plain = slope_create(&p, 1), fast = slope_create(&p, 1);
            slope_run(&plain, (hga_options){.generic = 1, .threads = 1});
            slope_run(&fast, (hga_options){.threads = 2});
            assert_same_slopes(&plain, &fast, 5e-5);
            slope_clear(&plain), slope_clear(&fast);
        }
        problem_clear(&p);
    }
    /* of edges listed one by one, where nothing but rows is attended to */
    problem p = {.name = "listed", .shape = of[1]};
    operands m = {.additive = a};
    p.graph = edges_over(60, 300);
    assert_ok(hga_program_attention(&p.program, 0));
    problem_fill(&p, 5);
    bring_to(&p.io, &m), p.program.scores = HGA_SCORES_ADDITIVE, p.program.negative_slope = 0.2f;
    slope plain = slope_create(&p, 1), fast = slope_create(&p, 1);
    slope_run(&plain, (hga_options){.generic = 1, .threads = 1});
    slope_run(&fast, (hga_options){.threads = 2});
    assert_same_slopes(&plain, &fast, 5e-5);
    slope_clear(&plain), slope_clear(&fast), problem_clear(&p);
}

/* In tiles: heads that share keys, columns that fill no vector, weights and masses, biases of edges and types, slopes,
   sigmoids, dropped weights, in two instruction sets; by two threads the bits of one. Without a vector scores of many
   columns are so large that float32 rounds them visibly. */
static void gradients_in_tiles_are_plain_ones(void **state)
{
    static const char *const words[] = {"dense",    "window left=40 right=40", "dense causal=1",
                                        "bpt k=16", "htransformer block=8",    "hsa branching=4 causal=1",
                                        "fenwick"};
    static const hga_shape of[] = {{.n_heads = 4, .n_kv_heads = 2, .dim = 13, .dim_v = 21},
                                   {.n_heads = 2, .dim = 64},
                                   {.n_heads = 3, .dim = 1, .dim_v = 5}};
    static const float slopes[] = {0.05f, 0.02f, 0, 0.1f}, leaky[] = {0.2f, 0, 1, -0.5f, 1.5f};
    static float a[2 * 64];
    (void)state;
    for (size_t j = 0; j < sizeof a / sizeof *a; j++) a[j] = 0.0625f * (float)(j * 7 % 17) - 0.5f;
    for (int i = 0; i < 7 * 12; i++) {
        problem p = {.shape = of[i / 7 % 3]};
        const int sigmoids = i % 5 == 4;
        operands m = {.additive = i % 4 || p.shape.dim > 32 ? a : NULL,
                      .softcap = i % 6 == 5 ? 2.0f : 0,
                      .slopes = i % 3 ? NULL : slopes};
        snprintf(p.name, sizeof p.name, "%s, %d", words[i % 7], i);
        assert_ok(hga_build(words[i % 7], 150, &p.graph, &p.program));
        if (sigmoids) p.program.has_lse = 0, assert_ok(hga_program_normalise(&p.program, HGA_NORMALISER_SIGMOID, 0));
        problem_fill(&p, (uint64_t)i);
        if (sigmoids) p.io.lse.data = NULL;
        problem_fill_tables(&p, (uint64_t)i, 0, 0, i % 2);
        bring_to(&p.io, &m), p.program.scores = HGA_SCORES_ADDITIVE, p.program.negative_slope = leaky[i % 5];
        slope plain = slope_create(&p, 1), fast = slope_create(&p, 1), two = slope_create(&p, 1);
        hga_options options = {.threads = 1, .dropout = i % 4 == 3 ? 0.25f : 0, .isa = isas[i / 7 % 2]};
        hga_plan *plan;
        if (hga_plan_create(p.graph, &p.program, &p.shape, &options, &plan))
            options.isa = NULL;
        else
            hga_plan_destroy(plan);
        slope_run(&fast, options);
        options.threads = 2, slope_run(&two, options);
        options.generic = 1, slope_run(&plain, options);
        assert_same_slopes(&plain, &fast, 5e-5);
        for (int k = 0; k < N_SLOW_INPUTS; k++)
            assert_memory_equal(fast.of[k], two.of[k], (size_t)fast.n[k] * sizeof *fast.of[k]);
        slope_clear(&plain), slope_clear(&fast), slope_clear(&two), problem_clear(&p);
    }
}

/* A key that is infinite has weight 0 where it takes scores to -inf, with any slope. */
static void infinite_keys_are_plain_ones(void **state)
{
    static const float leaky[] = {0.2f, 0, 1, -1, 1.5f, 100};
    (void)state;
    for (int i = 0; i < 6; i++) {
        problem p = {.shape = {.n_heads = 1, .dim = 8}};
        float a[8];
        operands m = {.additive = a};
        for (int c = 0; c < 8; c++) a[c] = -0.25f * (float)(c + 1);
        assert_ok(hga_build("dense", 64, &p.graph, &p.program));
        problem_fill(&p, (uint64_t)i);
        bring_to(&p.io, &m), p.program.scores = HGA_SCORES_ADDITIVE, p.program.negative_slope = leaky[i];
        for (int c = 0; c < 8; c++) ((float *)p.io.key.data)[c] = INFINITY;
        float *got = problem_out(&p, &(hga_options){.threads = 1}, NULL),
              *want = problem_out(&p, &(hga_options){.generic = 1}, NULL);
        for (int64_t j = 0; j < out_count(&p); j++)
            if (!(fabsf(got[j] - want[j]) < 1e-4f * fmaxf(1, fabsf(want[j]))))
                fail_msg("slope %g: number %d is %g, not %g", (double)leaky[i], (int)j, (double)got[j],
                         (double)want[j]);
        free(got), free(want), problem_clear(&p);
    }
}

/* LeakyReLU's slope at 0 is that below it, as semantics/score.c has it. */
static void sums_of_zero_have_the_negative_slope(void **state)
{
    (void)state;
    problem p;
    vectors x;
    variant_build(variant_named("dense"), 40, 2, &shapes[0], &p);
    put_additive(&p, &x, 0.2f, 1);
    memset(p.io.query.data, 0, (size_t)p.n_query * 2 * 4 * sizeof(float));
    memset(p.io.key.data, 0, (size_t)p.n_key * 2 * 4 * sizeof(float));
    slope plain = slope_create(&p, 1), fast = slope_create(&p, 1);
    slope_run(&plain, (hga_options){.generic = 1, .threads = 1});
    slope_run(&fast, (hga_options){.threads = 1});
    assert_same_slopes(&plain, &fast, 1e-6);
    slope_clear(&plain), slope_clear(&fast), problem_clear(&p);
}

/* The loss that gradients are checked by moves the vector, too. */
static void a_loss_moves_the_vector(void **state)
{
    (void)state;
    problem p;
    vectors x;
    variant_build(variant_named("window"), 19, 2, &shapes[0], &p);
    put_additive(&p, &x, 0.2f, 1);
    slope s = slope_create(&p, 2);
    slow_inputs in = slow_inputs_of(p.graph, &p.program, &p.shape, &p.io);
    hga_options options = {.gradient = 1};
    hga_plan *plan;
    double got, before, want;
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &options, &plan));
    before = slow_loss(&s, &in);
    in.of[SLOW_ADDITIVE][5] += 0.25;
    want = slow_loss(&s, &in);
    assert_ok(hga_plan_loss(plan, &p.io, &s.grad, HGA_GRADIENT_TABLE + HGA_TABLE_ADDITIVE, 5, 0.25, &got));
    assert_true(fabs(got - want) <= 1e-6 * fmax(1, fabs(want)));
    assert_true(fabs(want - before) > 1e-3);
    hga_plan_destroy(plan), slow_inputs_clear(&in), slope_clear(&s), problem_clear(&p);
}

/* ---- weights and words ---- */

/* What a token pays is what its output is made of. */
static void weights_are_what_outputs_are_made_of(void **state)
{
    (void)state;
    problem p;
    vectors x;
    variant_build(variant_named("window"), 31, 7, &shapes[0], &p);
    put_additive(&p, &x, 0.2f, 1);
    hga_id n_keys = hga_graph_nodes(p.graph).n_keys;
    double *share = memory(n_keys, sizeof *share), sum = 0;
    float *out = problem_out(&p, &p.options, NULL);
    const float *v = p.io.value.data;
    assert_ok(hga_program_weights(&p.program, p.graph, &p.shape, &p.io, 17, 1, NULL, NULL, share));
    for (hga_id j = 0; j < n_keys; j++) sum += share[j] * (double)v[(j * 2 + 1) * 4];
    assert_true(fabs(sum - (double)out[(17 * 2 + 1) * 4]) < 1e-5);
    free(share), free(out), problem_clear(&p);
}

static void json_and_explanations_say_additive(void **state)
{
    (void)state;
    problem p;
    vectors x;
    hga_program back;
    hga_plan *plan;
    char *text;
    variant_build(variant_named("window"), 20, 1, &shapes[0], &p);
    assert_ok(hga_program_to_json(&p.program, p.graph, &text));
    assert_null(strstr(text, "\"scores\""));
    hga_text_free(text), put_additive(&p, &x, 0.25f, 0);
    assert_ok(hga_program_to_json(&p.program, p.graph, &text));
    assert_non_null(strstr(text, "\"scores\": \"additive\""));
    assert_non_null(strstr(text, "\"negative_slope\": 0.25"));
    assert_ok(hga_program_from_json(text, p.graph, &back));
    assert_true(back.scores == HGA_SCORES_ADDITIVE && back.negative_slope == 0.25f);
    hga_graph *read;
    assert_ok(hga_program_write_file(&p.program, p.graph, "additive.json"));
    assert_ok(hga_program_read_file(NULL, "additive.json", &read, &back));
    assert_true(back.scores == HGA_SCORES_ADDITIVE);
    hga_graph_destroy(read);
    FILE *file = fopen("additive.json", "r");
    char head[200] = "";
    assert_true(file && fread(head, 1, sizeof head - 1, file) > 0);
    assert_non_null(strstr(head, "\"schema\": 2"));
    fclose(file), remove("additive.json");
    memcpy(strstr(text, "\"additive\""), "\"addition\"", 10);
    assert_status(HGA_EFORMAT, hga_program_from_json(text, p.graph, &back));
    assert_non_null(strstr(hga_error_detail(), "'scores' cannot be 'addition'"));
    hga_text_free(text);
    hga_options o = {.gradient = 1};
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &o, &plan));
    assert_ok(hga_plan_explain(plan, NULL, HGA_TEXT, &text));
    assert_non_null(strstr(text, "additive scores, online softmax"));
    int said = 0;
    const char *why = "";
    for (hga_id i = 0; why && hga_plan_gradient_tried(plan, NULL, NULL, i, &why); i++)
        said |= why && strcmp(why, "additive scores") == 0;
    assert_true(said);
    hga_text_free(text), hga_plan_destroy(plan), problem_clear(&p);
}

/* ---- what is refused ---- */

static void what_means_nothing_is_refused(void **state)
{
    (void)state;
    problem p;
    vectors x;
    variant_build(variant_named("window"), 20, 1, &shapes[0], &p);
    put_additive(&p, &x, NAN, 1);
    refused(&p, HGA_EPROGRAM, "negative_slope nan is not finite");
    p.program.negative_slope = 0.2f, x.a[6] = INFINITY;
    refused(&p, HGA_EINVAL, "additive of head 1, column 2 is inf, not finite");
    x.a[6] = 0, p.program.scores = HGA_SCORES_PRODUCT;
    refused(&p, HGA_EPROGRAM, "negative_slope 0.2, but scores are products");
    p.program.negative_slope = 0;
    refused(&p, HGA_EUNSUPPORTED, "additive: the program's scores are products");
    p.program.scores = (hga_scores)7, x.m.additive = NULL;
    refused(&p, HGA_EPROGRAM, "scores 7");
    problem_clear(&p);
    variant_build(variant_named("coarse"), 20, 1, &shapes[0], &p);
    put_additive(&p, &x, 0.2f, 0);
    refused(&p, HGA_EPROGRAM, "scores are additive, but no stage has scores");
    problem_clear(&p);
    variant_build(variant_named("window"), 20, 1, &shapes[0], &p);
    put_additive(&p, &x, 0.2f, 1);
    slope s = slope_create(&p, 1);
    hga_options o = {.gradient = 1};
    hga_plan *plan;
    hga_workspace *workspace;
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &o, &plan));
    assert_ok(hga_workspace_create(plan, &workspace));
    hga_io io = p.io;
    io.additive.data = NULL, io.tape = memory(hga_plan_tape_bytes(plan), 1);
    assert_ok(hga_plan_execute(plan, workspace, &io));
    assert_status(HGA_EINVAL, hga_plan_gradient(plan, workspace, &io, &s.grad));
    assert_non_null(strstr(hga_error_detail(), "the gradient of additive is requested, but there is no additive"));
    io.additive.data = x.a, s.grad.d_additive = x.a;
    assert_status(HGA_EINVAL, hga_plan_gradient(plan, workspace, &io, &s.grad));
    assert_non_null(strstr(hga_error_detail(), "additive"));
    free(io.tape), hga_workspace_destroy(workspace), hga_plan_destroy(plan), slope_clear(&s), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_dense_row_is_its_formula),
                                       cmocka_unit_test(variants_are_the_oracles),
                                       cmocka_unit_test(rows_are_plain_ones),
                                       cmocka_unit_test(gradients_are_slopes),
                                       cmocka_unit_test(gradients_of_mixed_signs_are_slopes),
                                       cmocka_unit_test(gradients_are_plain_ones),
                                       cmocka_unit_test(gradients_in_tiles_are_plain_ones),
                                       cmocka_unit_test(infinite_keys_are_plain_ones),
                                       cmocka_unit_test(sums_of_zero_have_the_negative_slope),
                                       cmocka_unit_test(a_loss_moves_the_vector),
                                       cmocka_unit_test(weights_are_what_outputs_are_made_of),
                                       cmocka_unit_test(json_and_explanations_say_additive),
                                       cmocka_unit_test(what_means_nothing_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
