/* test_written.c: no program is accepted whose execution reads a row that nobody gave or wrote, and user functions are
   shown values or NULL. */
#include "by_hand.h"
#include "program_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void refused(const hga_program *p, hga_graph *g, const char *because)
{
    assert_status(HGA_EPROGRAM, program_check(p, g));
    if (!strstr(hga_error_detail(), because)) fail_msg("'%s' does not say '%s'", hga_error_detail(), because);
    hga_graph_destroy(g);
}

/* Key token 0, query token 1, and node 2 over both or over one of them; `near` has the edges that `sources` lists, all
   into the query token. */
static hga_graph *cross(hga_id child, hga_id n_children, const hga_id *sources, int n_sources)
{
    hga_builder *b;
    hga_graph *g;
    hga_id near;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 2, NULL));
    assert_ok(hga_builder_add_level(b, 1, NULL));
    assert_ok(hga_builder_set_tokens(b, 1, 1, 0, 1));
    assert_ok(hga_builder_set_children(b, 2, child, n_children));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (int i = 0; i < n_sources; i++) assert_ok(hga_builder_add_edge(b, near, sources[i], 1, 0, 1));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    return g;
}

/* Query on `queries`, key and value given on key tokens and coarsened in place. */
static hga_program coarse_keys(hga_field_rows rows)
{
    hga_program p;
    hga_program_init(&p);
    hga_id q = field(&p, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES),
           k = field(&p, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, rows),
           v = field(&p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, rows),
           o = field(&p, "o", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    assert_ok(hga_program_coarsen(&p, k));
    assert_ok(hga_program_coarsen(&p, v));
    assert_ok(hga_program_attend(&p, 0, q, k, v, o, 1));
    return p;
}

/* Fields in place, going up, hold nothing on tokens that are not the caller's: 2.9 or 1.5e13 came out of this once. */
static void coarsened_keys_are_not_there_on_query_tokens(void **state)
{
    (void)state;
    hga_program p = coarse_keys(HGA_ROWS_NODES);
    refused(&p, cross(0, 1, (hga_id[]){0, 1}, 2),
            "needs field 'k' on node 1, where neither the caller nor an earlier stage has written it");
    hga_graph *g = cross(0, 1, (hga_id[]){0, 2}, 2);
    assert_ok(program_check(&p, g));
    hga_graph_destroy(g);
}

static void families_of_both_sides_have_no_mean_of_one(void **state)
{
    (void)state;
    hga_program p = coarse_keys(HGA_ROWS_NODES);
    refused(&p, cross(0, 2, (hga_id[]){0}, 1), "stage 'coarsen k' needs field 'k' on node 1");
    refused(&p, cross(1, 1, (hga_id[]){0}, 1), "stage 'coarsen k' needs field 'k' on node 1");
}

/* The other way round: rows that are key tokens have no query, unless they have no edge either. */
static void coarsened_queries_are_not_there_on_key_tokens(void **state)
{
    (void)state;
    for (int edges = 0; edges < 2; edges++) {
        hga_builder *b;
        hga_graph *g;
        hga_program p;
        hga_program_init(&p);
        assert_ok(hga_builder_create(NULL, &b));
        assert_ok(hga_builder_add_level(b, 2, NULL));
        assert_ok(hga_builder_add_level(b, 1, NULL));
        assert_ok(hga_builder_set_tokens(b, 1, 1, 0, 1));
        assert_ok(hga_builder_set_children(b, 2, 1, 1));
        assert_ok(hga_builder_add_relation(b, "near", NULL));
        assert_ok(hga_builder_add_edge(b, 0, 0, 2, 0, 1));
        if (edges) assert_ok(hga_builder_add_edge(b, 0, 0, 0, 0, 1));
        assert_ok(hga_builder_finish(b, &g));
        hga_builder_destroy(b);
        hga_id q = field(&p, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_NODES),
               k = field(&p, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_KEYS),
               v = field(&p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_KEYS),
               o = field(&p, "o", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_NODES);
        assert_ok(hga_program_coarsen(&p, q));
        assert_ok(hga_program_attend(&p, 0, q, k, v, o, 1));
        if (edges) {
            refused(&p, g, "stage 'attend o' needs field 'q' on node 0");
            continue;
        }
        assert_ok(program_check(&p, g));
        hga_graph_destroy(g);
    }
}

/* Tokens have sides like any node: keys that the caller gives on all of them are not there on those of the query's side
   (reading one in the plain executor was reading at address 0). */
static void a_token_may_have_a_side(void **state)
{
    (void)state;
    for (int side = HGA_SIDE_BOTH; side <= HGA_SIDE_KEY; side++) {
        hga_builder *b = tokens_alone(3);
        hga_id near;
        assert_ok(hga_builder_set_side(b, 1, 1, side));
        assert_ok(hga_builder_add_relation(b, "near", &near));
        assert_ok(hga_builder_add_block(b, near, 0, 3, 0, 3, 0));
        hga_graph *g = finished(b);
        hga_program p;
        assert_ok(hga_program_attention(&p, near));
        for (hga_id f = 1; f <= p.n_fields; f++)
            if (p.field[f].binding == HGA_IO_KEY) p.field[f].rows = HGA_ROWS_KEY_SIDE;
        if (side == HGA_SIDE_QUERY) {
            refused(&p, g, "field 'key': the caller's rows have node 1, where the field does not exist");
            continue;
        }
        for (int generic = 0; generic < 2; generic++) {
            float x[3] = {1, 2, 3}, out[3] = {0};
            hga_tensor t = {.data = x, .rows = 3};
            hga_io io = {.query = t, .key = t, .value = t, .out = {.data = out, .rows = 3}};
            assert_ok(
                hga_attention(g, &p, &(hga_shape){.n_heads = 1, .dim = 1}, &(hga_options){.generic = generic}, &io));
            assert_true(out[0] > 2 && out[2] > out[0]);
        }
        hga_graph_destroy(g);
    }
}

/* A state that is merged into must be there on every row; one that is written above only is not an output. */
static void the_output_is_written_everywhere(void **state)
{
    (void)state;
    hga_program p;
    hga_program_init(&p);
    hga_id x = field(&p, "x", HGA_WIDTH_OUT, HGA_IO_USER, HGA_ROWS_KEYS, HGA_ROWS_KEYS),
           o = field(&p, "o", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_NODES, HGA_ROWS_NODES);
    (void)x;
    add_means_up(&p, o, o);
    refused(&p, cross(0, 1, NULL, 0), "reads field 'o', which is neither an input nor written before");
}

/* ---- user stages ---- */

static void begin(void *s, const hga_end *v, hga_id head, void *ctx) { (void)s, (void)v, (void)head, (void)ctx; }
static void each(void *s, const hga_edge *e, hga_id head, void *ctx) { (void)s, (void)e, (void)head, (void)ctx; }
static void finish(const void *s, const hga_end *v, hga_id head, void *ctx) { (void)s, (void)v, (void)head, (void)ctx; }

static hga_stage user_stage(hga_id out, uint32_t reads)
{
    return (hga_stage){.name = "mine",
                       .message = HGA_MESSAGE_USER,
                       .reduce = HGA_REDUCE_USER,
                       .update = HGA_UPDATE_USER,
                       .out = out,
                       .reads = reads,
                       .writes = 1u << out,
                       .udf = {.begin = begin, .edge = each, .finish = finish}};
}

static void users_scores_need_query_and_key(void **state)
{
    (void)state;
    hga_program p = coarse_keys(HGA_ROWS_NODES);
    hga_stage s = user_stage(4, 0);
    s.query = 1, s.key = 2;
    p.n_stages = 0;
    assert_ok(hga_program_add_stage(&p, &s));
    refused(&p, cross(0, 1, (hga_id[]){0, 2}, 2), "stage 'mine' needs field 'k' on node 2");
    hga_graph *g = cross(0, 1, (hga_id[]){0}, 1);
    assert_ok(program_check(&p, g));
    hga_graph_destroy(g);
}

static void a_user_stage_does_not_write_over_inputs(void **state)
{
    (void)state;
    hga_program p = coarse_keys(HGA_ROWS_NODES);
    hga_stage s = user_stage(2, 1u << 2);
    s.relation = HGA_TREE_UP, s.order = HGA_LEVELS_UP;
    p.stage[1] = p.stage[2], p.n_stages = 2;
    p.stage[0] = s;
    refused(&p, cross(0, 1, (hga_id[]){0}, 1), "stage 'mine' writes over the caller's rows of field 'k'");
}

static void a_user_stage_in_place_goes_level_by_level_one_way(void **state)
{
    (void)state;
    hga_program p = coarse_keys(HGA_ROWS_KEYS);
    hga_id sum = field(&p, "sum", HGA_WIDTH_VALUE, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES);
    hga_stage s = user_stage(sum, 1u << sum), attend = p.stage[2];
    p.n_stages = 2;
    p.stage[0] = s, p.stage[1] = attend;
    refused(&p, cross(0, 1, (hga_id[]){0}, 1), "stage 'mine' reads field 'sum' that it writes");
    p.stage[0].order = HGA_LEVELS_UP;
    refused(&p, cross(0, 1, (hga_id[]){0}, 1), "has an edge from node 0 of level 0 to node 1 of level 0");
    p.stage[0].relation = HGA_TREE_UP;
    hga_graph *g = cross(0, 1, (hga_id[]){0}, 1);
    assert_ok(program_check(&p, g));
    hga_graph_destroy(g);
}

static void what_nobody_writes_is_not_read(void **state)
{
    (void)state;
    hga_program p = coarse_keys(HGA_ROWS_KEYS);
    hga_id never = field(&p, "never", HGA_WIDTH_VALUE, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES);
    hga_stage s = user_stage(4, 1u << never);
    p.n_stages = 0;
    assert_ok(hga_program_add_stage(&p, &s));
    refused(&p, cross(0, 1, (hga_id[]){0}, 1), "reads field 'never', which is neither an input");
}

/* What a user function was shown. */
typedef struct shown {
    hga_id k, o, x;
    int key_at_source[3], key_at_row, out_before, out_after, other, columns[3];
} shown;

static void look_begin(void *s, const hga_end *v, hga_id head, void *ctx)
{
    shown *t = ctx;
    (void)s, (void)head;
    t->out_before += v->field[t->o] != NULL, t->key_at_row += v->field[t->k] != NULL;
}

static void look_edge(void *s, const hga_edge *e, hga_id head, void *ctx)
{
    shown *t = ctx;
    (void)s, (void)head;
    if (e->source.field[t->k]) t->key_at_source[e->source.node]++;
    t->other += e->source.field[t->o] != NULL;
    t->other += e->source.field[t->x] != NULL; /* not among the stage's reads */
}

static void look_finish(const void *s, const hga_end *v, hga_id head, void *ctx)
{
    shown *t = ctx;
    (void)s, (void)head;
    t->out_after += v->field[t->o] != NULL;
    t->columns[0] = v->columns[t->k], t->columns[1] = v->columns[t->o], t->columns[2] = v->columns[t->x];
    for (hga_id c = 0; c < v->columns[t->o]; c++) v->field[t->o][c] = 1;
}

/* Keys are given on node 0, exist on every node, and were never coarsened. */
static void user_functions_are_shown_values_or_null(void **state)
{
    (void)state;
    hga_program p;
    hga_program_init(&p);
    shown t = {.k = field(&p, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_NODES),
               .o = field(&p, "o", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES),
               .x = field(&p, "x", HGA_WIDTH_SCALAR, HGA_IO_USER, HGA_ROWS_NODES, HGA_ROWS_NODES)};
    hga_stage s = user_stage(t.o, 1u << t.k);
    s.udf = (hga_udf){.begin = look_begin, .edge = look_edge, .finish = look_finish, .ctx = &t};
    assert_ok(hga_program_add_stage(&p, &s));
    hga_graph *g = cross(0, 1, (hga_id[]){0, 1, 2}, 3);
    float x[4 * 3] = {0};
    hga_io io = {.key = {.data = x, .rows = 1}, .out = {.data = x + 4, .rows = 1}, .user = {{.data = x, .rows = 3}}};
    assert_ok(hga_attention(g, &p, &(hga_shape){.n_heads = 1, .dim = 4, .dim_v = 2}, NULL, &io));
    assert_int_equal(t.key_at_source[0], 1);
    assert_int_equal(t.key_at_source[1], 0);
    assert_int_equal(t.key_at_source[2], 0);
    assert_int_equal(t.key_at_row, 0);
    assert_int_equal(t.other, 0);
    assert_int_equal(t.out_before, 0);
    assert_int_equal(t.out_after, 1);
    assert_int_equal(t.columns[0], 4);
    assert_int_equal(t.columns[1], 2);
    assert_int_equal(t.columns[2], 1);
    assert_true(x[4] == 1 && x[5] == 1 && x[6] == 0);
    hga_graph_destroy(g);
}

/* ---- large aggregates ---- */

enum { BINS = 1 << 16 };

static void bins_begin(void *s, const hga_end *v, hga_id head, void *ctx)
{
    (void)v, (void)head, (void)ctx;
    memset(s, 0, BINS * sizeof(int32_t));
}

static void bins_edge(void *s, const hga_edge *e, hga_id head, void *ctx)
{
    (void)head, (void)ctx;
    ((int32_t *)s)[e->source.node % BINS]++;
}

static void bins_merge(void *s, const void *later, void *ctx)
{
    (void)ctx;
    for (int i = 0; i < BINS; i++) ((int32_t *)s)[i] += ((const int32_t *)later)[i];
}

static void bins_finish(const void *s, const hga_end *v, hga_id head, void *ctx)
{
    int32_t filled = 0;
    (void)head;
    for (int i = 0; i < BINS; i++) filled += ((const int32_t *)s)[i] > 0;
    v->field[*(const hga_id *)ctx][0] = (float)filled;
}

/* 256 kB an aggregate, cut and merged. */
static void aggregates_may_be_large(void **state)
{
    (void)state;
    enum { N = 1000 };
    hga_graph *g;
    hga_program p;
    float out[N];
    assert_ok(hga_build_dense(&(hga_dense){.n_tokens = N}, &g, &p));
    hga_program_init(&p);
    hga_id o = field(&p, "o", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    hga_stage s = user_stage(o, 0);
    s.udf = (hga_udf){.state_bytes = BINS * sizeof(int32_t),
                      .begin = bins_begin,
                      .edge = bins_edge,
                      .merge = bins_merge,
                      .finish = bins_finish,
                      .ctx = &o};
    assert_ok(hga_program_add_stage(&p, &s));
    hga_io io = {.out = {.data = out, .rows = N}};
    assert_ok(hga_attention(g, &p, &(hga_shape){.n_heads = 1, .dim = 1}, &(hga_options){.cut_edges = 300}, &io));
    for (int i = 0; i < N; i++) assert_true(out[i] == N);
    hga_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coarsened_keys_are_not_there_on_query_tokens),
        cmocka_unit_test(families_of_both_sides_have_no_mean_of_one),
        cmocka_unit_test(coarsened_queries_are_not_there_on_key_tokens),
        cmocka_unit_test(a_token_may_have_a_side),
        cmocka_unit_test(the_output_is_written_everywhere),
        cmocka_unit_test(users_scores_need_query_and_key),
        cmocka_unit_test(a_user_stage_does_not_write_over_inputs),
        cmocka_unit_test(a_user_stage_in_place_goes_level_by_level_one_way),
        cmocka_unit_test(what_nobody_writes_is_not_read),
        cmocka_unit_test(user_functions_are_shown_values_or_null),
        cmocka_unit_test(aggregates_may_be_large),
    };
    return cmocka_run_group_tests_name("written", tests, NULL, NULL);
}
