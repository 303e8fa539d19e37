/* test_arguments.c: what callers get wrong in a shape, in options or in tables is refused with the number that was
   wrong, by execution and by the weights alike. */
#include "readers.h"
#include "testing.h"

#include "sixteen.h"

#include <math.h>
#include <string.h>

enum { N = 12, DIM = 4, HEADS = 2 };

static problem p;

/* Windowed attention with everything that has rows. */
static int make(void **state)
{
    (void)state;
    hga_window w;
    hga_defaults(&w);
    p = (problem){.name = "window", .shape = {.n_heads = HEADS, .dim = DIM, .pos_dim = 3}, .options = {.threads = 1}};
    w.n_tokens = N, w.left = 2, w.right = 1;
    assert_ok(hga_build_window(&w, &p.graph, &p.program));
    problem_fill(&p, 1);
    problem_fill_tables(&p, 2, 1, 1, HEADS);
    return 0;
}

static int clear(void **state)
{
    (void)state;
    problem_clear(&p);
    return 0;
}

static void assert_says(hga_status got, hga_status want, const char *words)
{
    assert_status(want, got);
    if (!strstr(hga_error_detail(), words)) fail_msg("'%s' does not say '%s'", hga_error_detail(), words);
}

static void shapes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const struct {
        hga_shape shape;
        const char *says;
    } wrong[] = {
        {{.dim = 4}, "0 heads"},
        {{.n_heads = -2, .dim = 4}, "-2 heads"},
        {{.n_heads = 2, .n_kv_heads = -1, .dim = 4}, "-1 key/value heads"},
        {{.n_heads = 3, .n_kv_heads = 2, .dim = 4}, "2 key/value heads do not divide 3 heads"},
        {{.n_heads = 1}, "dim 0"},
        {{.n_heads = 1, .dim = 4, .dim_v = -1}, "dim_v -1"},
        {{.n_heads = 1, .dim = 4, .pos_dim = -1}, "pos_dim -1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hga_plan *plan;
        assert_says(hga_plan_create(p.graph, &p.program, &wrong[i].shape, NULL, &plan), HGA_EINVAL, wrong[i].says);
        assert_null(plan);
    }
}

/* What a call got that failed, and whose status nobody looked at. */
static void what_was_not_made_is_refused(void **state)
{
    (void)state;
    hga_plan *plan;
    hga_workspace *workspace;
    hga_graph *g;
    hga_program program;
    hga_words words;
    char *text;
    assert_says(hga_build(NULL, N, &g, &program), HGA_EINVAL, "no words");
    assert_null(g);
    assert_says(hga_words_read(NULL, &words), HGA_EINVAL, "no words");
    assert_null(words.variant);
    assert_says(hga_plan_create(g, &program, &p.shape, NULL, &plan), HGA_EINVAL, "no graph");
    assert_says(hga_workspace_create(plan, &workspace), HGA_EINVAL, "no plan");
    assert_null(workspace);
    assert_says(hga_plan_execute(plan, workspace, &p.io), HGA_EINVAL, "no plan");
    assert_says(hga_plan_explain(plan, NULL, HGA_TEXT, &text), HGA_EINVAL, "no plan");
    assert_null(text);
    hga_workspace_destroy(workspace), hga_plan_destroy(plan), hga_graph_destroy(g);
}

static void options_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const struct {
        hga_options options;
        const char *says;
    } wrong[] = {
        {{.threads = -1}, "threads is -1"},
        {{.threads = 5000}, "threads is 5000"},
        {{.cut_edges = -1}, "cut_edges -1"},
        {{.precision = (hga_precision)7}, "7 is not a precision"},
        {{.dropout = 1}, "dropout 1"},
        {{.dropout = -.5f}, "dropout -0.5"},
        {{.dropout = NAN}, "dropout nan"},
        {{.isa = "mmx"}, "mmx"},
        {{.gradient_row_ranges = -1}, "gradient_row_ranges -1"},
        {{.gradient_row_ranges = 17}, "gradient_row_ranges 17"},
        {{.gradient_subtree = -1}, "gradient_subtree -1"},
        {{.strict_rows = 2}, "strict_rows 2"},
        {{.generic = 2}, "generic 2 is neither 0 nor 1"},
        {{.keep_fields = -1}, "keep_fields -1"},
        {{.gradient = 5}, "gradient 5"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hga_plan *plan;
        hga_status st = hga_plan_create(p.graph, &p.program, &p.shape, &wrong[i].options, &plan);
        assert_int_not_equal(st, HGA_OK);
        assert_null(plan);
        if (!strstr(hga_error_detail(), wrong[i].says)) fail_msg("'%s': no '%s'", hga_error_detail(), wrong[i].says);
    }
}

static void a_side_that_is_none_is_refused(void **state)
{
    (void)state;
    hga_builder *b;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 2, NULL));
    assert_says(hga_builder_set_side(b, 0, 1, 7), HGA_EGRAPH, "side: 7 is not a side");
    assert_says(hga_builder_set_side(b, 0, 1, -1), HGA_EGRAPH, "side: -1 is not a side");
    hga_builder_destroy(b);
}

/* A plan stays as it was when it cannot be updated. */
static void updates_want_the_same_relations(void **state)
{
    (void)state;
    hga_plan *plan;
    hga_graph *other;
    hga_builder *b;
    hga_id relation;
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &p.options, &plan));
    assert_int_equal(hga_plan_threads(plan), 1);
    assert_status(HGA_EINVAL, hga_plan_update(NULL, p.graph));
    assert_says(hga_plan_update(plan, NULL), HGA_EINVAL, "no graph");
    for (int relations = 0; relations < 2; relations++) {
        assert_ok(hga_builder_create(NULL, &b));
        assert_ok(hga_builder_add_level(b, N, NULL));
        if (relations) assert_ok(hga_builder_add_relation(b, "another", &relation));
        assert_ok(hga_builder_finish(b, &other));
        hga_builder_destroy(b);
        assert_says(hga_plan_update(plan, other), HGA_EPROGRAM, relations ? "another" : "relations");
        hga_graph_destroy(other);
    }
    hga_workspace *own;
    assert_ok(hga_workspace_create(plan, &own));
    assert_ok(hga_plan_execute(plan, own, &p.io));
    hga_workspace_destroy(own);
    hga_plan_destroy(plan);
}

/* ---- tables ---- */

/* What is changed in a call that works, and what the refusal says. */
static void too_few_rel_keys(hga_io *io) { io->rel_key.rows = 0; }
static void too_few_rel_biases(hga_io *io) { io->rel_bias.rows = 0; }
static void too_few_positions(hga_io *io) { io->node_pos.rows = N - 1; }
static void too_few_edge_biases(hga_io *io) { io->edge_bias.rows--; }
static void edge_biases_of_three_heads(hga_io *io) { io->edge_bias.columns = 3; }
static void no_query(hga_io *io) { io->query.data = NULL; }
static void no_key(hga_io *io) { io->key.data = NULL; }

static const struct {
    void (*spoil)(hga_io *);
    const char *says;
} spoilt[] = {
    {too_few_rel_keys, "rel_key has 0 rows"},
    {too_few_rel_biases, "rel_bias has 0 rows"},
    {too_few_positions, "node_pos has 11 rows"},
    {too_few_edge_biases, "edge_bias has"},
    {edge_biases_of_three_heads, "edge_bias has 3 columns, not 1 or 2 (heads)"},
    {no_query, "query"},
    {no_key, "key"},
};
enum { N_SPOILT = sizeof spoilt / sizeof *spoilt };

static void tables_of_other_sizes_are_refused_by_an_execution(void **state)
{
    (void)state;
    assert_ok(hga_attention(p.graph, &p.program, &p.shape, &p.options, &p.io));
    for (int i = 0; i < N_SPOILT; i++) {
        hga_io io = p.io;
        spoilt[i].spoil(&io);
        assert_says(hga_attention(p.graph, &p.program, &p.shape, &p.options, &io), HGA_EINVAL, spoilt[i].says);
    }
}

/* Rows would be read after others were written there. */
static void an_output_over_an_input_is_refused(void **state)
{
    (void)state;
    hga_io io = p.io;
    io.out.data = io.value.data;
    assert_says(hga_attention(p.graph, &p.program, &p.shape, &p.options, &io), HGA_EINVAL,
                "the output would be written over the tensor of field v");
}

static void tables_of_other_sizes_are_refused_by_the_weights(void **state)
{
    (void)state;
    double weight[N];
    assert_ok(hga_program_weights(&p.program, p.graph, &p.shape, &p.io, N / 2, 1, NULL, NULL, weight));
    for (int i = 0; i < N_SPOILT; i++) {
        hga_io io = p.io;
        spoilt[i].spoil(&io);
        assert_says(hga_program_weights(&p.program, p.graph, &p.shape, &io, N / 2, 1, NULL, NULL, weight), HGA_EINVAL,
                    spoilt[i].says);
    }
    hga_shape shape = {.n_heads = 2, .n_kv_heads = 3, .dim = DIM};
    assert_says(hga_program_weights(&p.program, p.graph, &shape, &p.io, 0, 0, NULL, NULL, weight), HGA_EINVAL,
                "2 heads of 4, 3 key/value heads");
}

static void weigh(const hga_tensor *key, double *weight)
{
    hga_io io = p.io;
    io.key = *key;
    assert_ok(hga_program_weights(&p.program, p.graph, &p.shape, &io, 5, 1, NULL, NULL, weight));
}

/* The keys rounded to 16 bits, and the same numbers in float32. */
static void assert_same_weights(hga_dtype type)
{
    uint16_t half[N * HEADS * DIM];
    float whole[N * HEADS * DIM];
    double want[N], got[N];
    for (int i = 0; i < N * HEADS * DIM; i++) {
        float x = ((const float *)p.io.key.data)[i];
        half[i] = type == HGA_F16 ? narrow_f16(x) : narrow_bf16(x);
        whole[i] = type == HGA_F16 ? widen_f16(half[i]) : widen_bf16(half[i]);
    }
    weigh(&(hga_tensor){.data = whole, .rows = N}, want);
    weigh(&(hga_tensor){.data = half, .rows = N, .dtype = type}, got);
    assert_memory_equal(got, want, sizeof want);
}

/* Rows of a tensor apart from each other weigh what packed ones do; 16-bit ones what their float32 would. */
static void weights_read_tensors_as_executions_do(void **state)
{
    (void)state;
    double want[N], got[N];
    float apart[N][HEADS + 1][DIM + 1];
    weigh(&p.io.key, want);
    for (int v = 0; v < N; v++)
        for (int h = 0; h < HEADS; h++)
            memcpy(apart[v][h], (const float *)p.io.key.data + (v * HEADS + h) * DIM, sizeof(float[DIM]));
    weigh(&(hga_tensor){.data = apart, .rows = N, .row_stride = (HEADS + 1) * (DIM + 1), .head_stride = DIM + 1}, got);
    assert_memory_equal(got, want, sizeof want);
    assert_same_weights(HGA_F16);
    assert_same_weights(HGA_BF16);
    hga_io io = p.io;
    io.key.dtype = (hga_dtype)9;
    assert_says(hga_program_weights(&p.program, p.graph, &p.shape, &io, 5, 1, NULL, NULL, got), HGA_EUNSUPPORTED,
                "dtype 9");
}

/* ---- files ---- */

static void wishes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const hga_id parent[2] = {-1, -1};
    hga_graph *g;
    hga_import wish = {.n_parents = -1, .parents = parent};
    assert_says(import_csv(NULL, "a.csv", &wish, &g), HGA_EINVAL, "-1 parents");
    wish = (hga_import){.n_parents = 2};
    assert_says(import_csv(NULL, "a.csv", &wish, &g), HGA_EINVAL, "2 parents");
    wish = (hga_import){.reserved = {0, 0, 1}};
    assert_says(import_mtx(NULL, "a.mtx", &wish, &g), HGA_EINVAL, "reserved[2]");
    assert_says(import_mtx(NULL, "", NULL, &g), HGA_EINVAL, "is empty");
    assert_says(import_gml(NULL, NULL, NULL, &g), HGA_EINVAL, "is empty");
    assert_null(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_that_cannot_be_are_refused),
        cmocka_unit_test(what_was_not_made_is_refused),
        cmocka_unit_test(options_that_cannot_be_are_refused),
        cmocka_unit_test(a_side_that_is_none_is_refused),
        cmocka_unit_test(updates_want_the_same_relations),
        cmocka_unit_test(tables_of_other_sizes_are_refused_by_an_execution),
        cmocka_unit_test(an_output_over_an_input_is_refused),
        cmocka_unit_test(tables_of_other_sizes_are_refused_by_the_weights),
        cmocka_unit_test(weights_read_tensors_as_executions_do),
        cmocka_unit_test(wishes_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests_name("arguments", tests, make, clear);
}
