/* Numbers that follow the machine: results have the same bits whatever they are, and what is no number is refused. */
#include "by_hand.h"
#include "plan.h"
#include "slopes.h"
#include "testing.h"
#include "tuning.h"
#include "workspace.h"

#include <stdlib.h>
#include <string.h>

static void override(const char *text)
{
    assert_int_equal(text ? setenv("HGA_TUNING", text, 1) : unsetenv("HGA_TUNING"), 0);
}

/* ---- the table ---- */

static void the_table_has_a_row_for_every_processor(void **state)
{
    (void)state;
    const processor makers[] = {{.maker = "AuthenticAMD", .family = 25, .second_cache = 1 << 20},
                                {.maker = "GenuineIntel", .family = 6, .second_cache = 1 << 20},
                                {.maker = "aarch64"},
                                {.maker = ""}};
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) assert_int_equal(tuning_of(&makers[i]).pack_readers, 3);
    const processor large = {.maker = "GenuineIntel", .family = 6, .second_cache = 2 << 20};
    assert_int_equal(tuning_of(&large).pack_readers, 6);
    assert_int_equal(tuning_of(&large).attend_bytes, 256 << 10);
    assert_int_equal(tuning_of(&large).near_sources, 32 << 20);
}

/* Nobody has measured on ARM, whatever its caches. */
static void a_row_says_where_it_was_measured(void **state)
{
    (void)state;
    const processor arm = {.maker = "aarch64", .second_cache = 1 << 20}, intel = {"GenuineIntel", 6, 0, 2 << 20, 0};
    const tuned on_arm = {.here = arm, .is = tuning_of(&arm)}, on_intel = {.here = intel, .is = tuning_of(&intel)};
    assert_null(tuning_measured(&arm));
    assert_non_null(strstr(tuned_say(&on_arm).text, "cyclic_bytes 1048576; these numbers were not measured"));
    assert_non_null(strstr(tuned_say(&on_intel).text, "; these numbers were measured on Emerald Rapids"));
}

static void a_processor_says_whose_it_is(void **state)
{
    (void)state;
    processor p = processor_here();
#if defined(__x86_64__)
    assert_int_equal(strlen(p.maker), 12);
    assert_true(p.family >= 6);
#endif
#if defined(__aarch64__)
    assert_string_equal(p.maker, "aarch64");
#endif
    assert_true(p.second_cache >= 0 && p.third_cache >= 0);
}

/* ---- bits ---- */

/* An array of the caller's at a whole line, so that it may be streamed. */
static void *at_a_line(int64_t n)
{
    void *x = aligned_alloc(64, (size_t)(n * (int64_t)sizeof(float) + 64) / 64 * 64);
    assert_non_null(x);
    return x;
}

typedef struct results {
    float *out, *lse, *of[3];
} results;

/* Output, log-sum-exps and the gradients of queries, keys and values, under what HGA_TUNING says now. */
static results results_of(problem *p, hga_options o)
{
    static const int inputs[] = {SLOW_QUERY, SLOW_KEY, SLOW_VALUE};
    slope s = slope_create(p, 1);
    hga_tensor *input[] = {&s.grad.d_query, &s.grad.d_key, &s.grad.d_value};
    hga_tensor out = p->io.out, lse = p->io.lse;
    results r = {.out = at_a_line(out_count(p)), .lse = lse.data ? at_a_line(lse_count(p)) : NULL};
    p->io.out.data = r.out, p->io.lse.data = r.lse;
    for (int i = 0; i < 3; i++) {
        r.of[i] = at_a_line(s.n[inputs[i]]);
        if (input[i]->data) input[i]->data = r.of[i];
    }
    slope_run(&s, o);
    p->io.out = out, p->io.lse = lse;
    slope_clear(&s);
    return r;
}

static void results_clear(results *r)
{
    free(r->out), free(r->lse);
    for (int i = 0; i < 3; i++) free(r->of[i]);
}

static void assert_same_results(problem *p, const results *a, const results *b, const char *what)
{
    static const int inputs[] = {SLOW_QUERY, SLOW_KEY, SLOW_VALUE};
    slope sizes = slope_create(p, 1);
    assert_same_bits(what, a->out, b->out, out_count(p));
    if (a->lse) assert_same_bits(what, a->lse, b->lse, lse_count(p));
    for (int i = 0; i < 3; i++) assert_same_bits(what, a->of[i], b->of[i], sizes.n[inputs[i]]);
    slope_clear(&sizes);
}

static const char *const overrides[] = {
    "pack_readers=1",
    "pack_readers=2147483647",
    "stream_output=0",
    "stream_gradients=0",
    "stream_output=1152921504606846976,stream_gradients=1152921504606846976,far_sources=0",
    "near_sources=0",
    "near_sources=1152921504606846976",
    "tree_bytes=1024",
    "tree_bytes=1073741824",
    "attend_bytes=1024",
    "attend_bytes=1073741824",
    "pack_readers=2,stream_output=0,stream_gradients=0,far_sources=0,tree_bytes=4096,attend_bytes=8192"};

/* Every variant, in every instruction set, with heads that share keys and without, in bfloat16, by one thread and by
   two. */
static void no_number_changes_a_bit(void **state)
{
    static const char *const isas[] = {FLOAT_ISAS, PAIRS_ISA};
    static const hga_shape shapes[] = {{.n_heads = 4, .n_kv_heads = 1, .dim = 16, .dim_v = 32},
                                       {.n_heads = 2, .dim = 16}};
    (void)state;
    for (int i = 0; i < n_variants(); i++)
        for (int j = 0; j < 4; j++) {
            if (passed_over(4 * i + j) || !strstr(hga_isa_list(), isas[j])) continue;
            problem p;
            variant_build(i, 450, (uint64_t)i, &shapes[(i + j) % 2], &p);
            hga_options o = {.isa = isas[j], .threads = 1 + (i + j) % 2};
            if ((i + j) % 3 == 2) o.precision = HGA_PRECISION_BF16;
            override(NULL);
            results plain = results_of(&p, o);
            for (size_t k = 0; k < sizeof overrides / sizeof *overrides; k++) {
                override(overrides[k]);
                results other = results_of(&p, o);
                char what[200];
                snprintf(what, sizeof what, "%s, %s, %s", p.name, isas[j], overrides[k]);
                assert_same_results(&p, &plain, &other, what);
                results_clear(&other);
            }
            override(NULL);
            results_clear(&plain), problem_clear(&p);
        }
}

/* A number that changed nothing would pass the test above: panels follow theirs, and a plan says what it has. */
static void numbers_reach_the_plan(void **state)
{
    (void)state;
    hga_graph *g;
    hga_program program;
    int64_t panels[2];
    char *text;
    assert_ok(hga_build("htransformer block=16", 65536, &g, &program));
    for (int i = 0; i < 2; i++) {
        hga_plan *plan;
        override(i ? "attend_bytes=65536,pack_readers=77" : NULL);
        assert_ok(
            hga_plan_create(g, &program, &(hga_shape){.n_heads = 2, .dim = 64}, &(hga_options){.threads = 1}, &plan));
        panels[i] = plan->waves.n_items;
        assert_ok(hga_plan_explain(plan, NULL, HGA_TEXT, &text));
        assert_int_equal(strstr(text, "pack_readers 77") != NULL, i);
        assert_int_equal(strstr(text, "(HGA_TUNING)") != NULL, i);
        hga_text_free(text), hga_plan_destroy(plan);
    }
    assert_true(panels[1] > panels[0]);
    assert_ok(hga_topology_describe(NULL, 1, HGA_TEXT, &text));
    assert_non_null(strstr(text, "pack_readers 77"));
    hga_text_free(text);
    assert_ok(hga_topology_describe(NULL, 1, HGA_JSON, &text));
    assert_non_null(strstr(text, "\"pack_readers\": 77"));
    hga_text_free(text);
    override(NULL);
    hga_graph_destroy(g);
}

/* Of edges that are listed, and only there, a chunk says which come next: those of the rows behind it, to the last. */
static void far_sources_are_told_ahead(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        hga_graph *g;
        hga_program program;
        hga_plan *plan;
        hga_workspace *workspace;
        const int far = i < 2, listed = i % 2 == 0;
        override(far ? "far_sources=0" : "far_sources=1000000");
        if (listed)
            g = edges_over(40, 200), assert_ok(hga_program_attention(&program, 0));
        else
            assert_ok(hga_build("window left=2 right=2", 40, &g, &program));
        assert_ok(
            hga_plan_create(g, &program, &(hga_shape){.n_heads = 4, .dim = 8}, &(hga_options){.threads = 1}, &plan));
        assert_ok(hga_workspace_create(plan, &workspace));
        worker *w = &workspace->team.worker[0];
        hga_id stage = program.n_stages - 1, told = 0;
        reader_open(&w->reader, plan, stage);
        const hga_relation *r = &w->reader.r;
        for (hga_id v = 0; v < 40; v++) {
            edge_chunk chunk;
            reader_load(&w->reader, v, 1);
            edge_cursor c = cursor_start(&w->reader, v);
            cursor_next(&c, KERNEL_CHUNK, &chunk);
            hga_pos left = far && listed ? r->ptr[40] - r->ptr[v + 1] : 0;
            assert_int_equal(chunk.more, left < KERNEL_HEAD_EDGES ? left : KERNEL_HEAD_EDGES);
            for (hga_id e = 0; e < chunk.more; e++) assert_int_equal(chunk.src[chunk.n + e], r->src[r->ptr[v + 1] + e]);
            told += chunk.more;
        }
        assert_true((told > 0) == (far && listed));
        hga_workspace_destroy(workspace), hga_plan_destroy(plan), hga_graph_destroy(g);
    }
    override(NULL);
}

static int was_near;
static void note_near(const kernel_heads *c) { was_near = c->near; }

/* A row of 256 keys and values of 8 x 64 floats has 1 MB of them. */
static void near_sources_say_how_long_a_lone_row_may_be(void **state)
{
    static const struct {
        const char *told;
        int near;
    } rows[] = {{"near_sources=0", 0}, {"near_sources=1048575", 0}, {"near_sources=1048576", 1}};
    const hga_shape shape = {.n_heads = 8, .dim = 64};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hga_graph *g;
        hga_program program;
        hga_plan *plan;
        hga_workspace *workspace;
        float *numbers = calloc(258 * 512, sizeof *numbers);
        override(rows[i].told);
        assert_ok(hga_build_dense(&(hga_dense){.n_tokens = 1, .n_keys = 256}, &g, &program));
        assert_ok(hga_plan_create(g, &program, &shape, &(hga_options){.threads = 1}, &plan));
        assert_ok(hga_workspace_create(plan, &workspace));
        kernel_table noting = *plan->machine.kernels;
        noting.attend_heads = note_near, plan->machine.kernels = &noting, was_near = -1;
        hga_tensor one = {.data = numbers, .rows = 1}, all = {.data = numbers, .rows = 256};
        hga_io io = {.query = one, .key = all, .value = all, .out = {.data = numbers + 257 * 512, .rows = 1}};
        assert_ok(hga_plan_execute(plan, workspace, &io));
        assert_int_equal(was_near, rows[i].near);
        hga_workspace_destroy(workspace), hga_plan_destroy(plan), hga_graph_destroy(g);
        free(numbers);
    }
    override(NULL);
}

/* ---- what is refused ---- */

static void what_is_no_number_is_refused_by_name(void **state)
{
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"pack=3", "HGA_TUNING: 'pack=3' is not NUMBER=VALUE, where the numbers are pack_readers, stream_output"},
        {"pack_readers", "'pack_readers' is not NUMBER=VALUE"},
        {"pack_readers=3,", "'' is not NUMBER=VALUE"},
        {"pack_readers=", "'pack_readers=' is not a whole number from 1 to 2147483647"},
        {"pack_readers=0", "'pack_readers=0' is not a whole number from 1"},
        {"pack_readers=-3", "'pack_readers=-3' is not a whole number"},
        {"pack_readers= 3", "'pack_readers= 3' is not a whole number"},
        {"pack_readers=3x", "'pack_readers=3x' is not a whole number"},
        {"stream_output=99999999999999999999", "is not a whole number from 0 to 1152921504606846976"},
        {"attend_bytes=1023", "'attend_bytes=1023' is not a whole number from 1024 to 1073741824"},
        {"pack_readers=2,tree_bytes=much", "'tree_bytes=much' is not a whole number"},
    };
    problem p;
    hga_plan *plan;
    char *text;
    (void)state;
    variant_build(variant_named("window"), 40, 1, &(hga_shape){.n_heads = 1, .dim = 4}, &p);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        override(rows[i].text);
        assert_status(HGA_EINVAL, hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.threads = 1}, &plan));
        if (!strstr(hga_error_detail(), rows[i].said))
            fail_msg("'%s' does not say: %s", hga_error_detail(), rows[i].said);
        assert_status(HGA_EINVAL, hga_topology_describe(NULL, 1, HGA_TEXT, &text));
        tuning t = {1, 2, 3, 4, 5, 6, 7, 8}, was = t;
        assert_status(HGA_EINVAL, tuning_override(rows[i].text, &t));
        assert_memory_equal(&t, &was, sizeof t);
    }
    override("");
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.threads = 1}, &plan));
    hga_plan_destroy(plan);
    override(NULL);
    problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_table_has_a_row_for_every_processor),
                                       cmocka_unit_test(a_row_says_where_it_was_measured),
                                       cmocka_unit_test(a_processor_says_whose_it_is),
                                       cmocka_unit_test(no_number_changes_a_bit),
                                       cmocka_unit_test(numbers_reach_the_plan),
                                       cmocka_unit_test(far_sources_are_told_ahead),
                                       cmocka_unit_test(near_sources_say_how_long_a_lone_row_may_be),
                                       cmocka_unit_test(what_is_no_number_is_refused_by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
