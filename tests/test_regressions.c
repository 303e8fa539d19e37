/* Bugs of graphs, storage, ranks and tiles found by reading, each with the smallest graph that shows it. */
#include "by_hand.h"
#include "plan.h"
#include "workspace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- graph ---- */

static void bands_open_below_can_be_turned_round(void **state)
{
    (void)state;
    hga_builder *b = started(4, 0, 0);
    hga_graph *turned;
    assert_ok(hga_builder_add_blocks(
        b, 0, &(hga_block){.n_dst = 4, .n_src = 4, .shape = HGA_BAND, .band_first = INT32_MIN, .band_last = 0}));
    hga_graph *g = finished(b);
    assert_ok(hga_graph_transpose(g, &turned));
    assert_int_equal(hga_graph_relation(turned, 0).n_edges, 10);
    hga_graph_destroy(g), hga_graph_destroy(turned);
}

/* The pair on the diagonal that is left out would have had the largest type, and here the only negative one. */
static void pairs_left_out_have_no_type(void **state)
{
    (void)state;
    hga_builder *b = started(4, 0, 0);
    assert_ok(hga_builder_add_blocks(
        b, 0,
        &(hga_block){.n_dst = 4, .n_src = 4, .type = 10, .type_dst = -1, .type_src = -1, .shape = HGA_OFF_DIAGONAL}));
    assert_ok(hga_builder_add_blocks(
        b, 1,
        &(hga_block){.n_dst = 4, .n_src = 4, .type = -1, .type_dst = 1, .type_src = 1, .shape = HGA_OFF_DIAGONAL}));
    hga_graph *g = finished(b);
    assert_int_equal(hga_graph_relation(g, 0).n_types, 10);
    assert_int_equal(hga_graph_relation(g, 1).n_types, 5);
    hga_graph_destroy(g);
}

/* A float stops counting at 2^24. */
static void masses_of_large_families_count_on(void **state)
{
    (void)state;
    hga_builder *b = started(3, 0, 1);
    assert_ok(hga_builder_set_children(b, 3, 0, 3));
    assert_ok(hga_builder_set_mass(b, 0, 16777216));
    hga_graph *g = finished(b), *turned;
    assert_true(hga_graph_nodes(g).mass[3] == 16777218);
    assert_ok(hga_graph_transpose(g, &turned));
    assert_true(hga_graph_nodes(turned).mass[3] == 16777218);
    hga_graph_destroy(g), hga_graph_destroy(turned);
}

/* Types are small along the band, but not at the corner of the block that they are counted from. */
static void steep_types_stay_what_they_are(void **state)
{
    (void)state;
    hga_builder *b = started(64, 0, 0);
    problem p = {.name = "steep", .shape = {.n_heads = 1, .dim = 3}};
    assert_ok(hga_builder_add_blocks(
        b, 0,
        &(hga_block){.n_dst = 64, .n_src = 64, .type_dst = 1 << 30, .type_src = 1 - (1 << 30), .shape = HGA_BAND}));
    p.graph = finished(b);
    assert_int_equal(hga_graph_relation(p.graph, 0).n_types, 64);
    assert_ok(hga_program_attention(&p.program, 0));
    problem_fill(&p, 1);
    problem_fill_tables(&p, 2, 1, 1, 0);
    problem_run(&p);
    assert_equals_slow(&p, 1e-5);
    problem_clear(&p);
}

/* ---- where fields live ---- */

/* Means over all nodes, keys among them, of a field that the caller gives for the queries only. */
static void fields_on_other_tokens_than_the_callers_have_room(void **state)
{
    (void)state;
    for (int coarse = 0; coarse < 2; coarse++) {
        hga_builder *b = started(6, 2, 1);
        assert_ok(hga_builder_add_block(b, 0, 0, 7, 0, 2, 0));
        assert_ok(hga_builder_add_block(b, 1, 0, 2, 2, 4, 0));
        problem p = {.name = "means", .graph = finished(b), .shape = {.n_heads = 2, .dim = 3}};
        hga_id out = field(&p.program, "out", HGA_WIDTH_OUT, HGA_IO_OUT, coarse ? HGA_ROWS_ABOVE : HGA_ROWS_QUERIES,
                           HGA_ROWS_NODES);
        hga_id x = field(&p.program, "x", HGA_WIDTH_VALUE, HGA_IO_VALUE, coarse ? HGA_ROWS_NODES : HGA_ROWS_QUERIES,
                         HGA_ROWS_NODES);
        hga_id m = field(&p.program, "m", HGA_WIDTH_VALUE, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES);
        assert_ok(hga_program_mean(&p.program, 0, x, m, 0));
        assert_ok(hga_program_weighted_sum(&p.program, 1, m, out));
        problem_fill(&p, 3);
        p.io.type_scale.data = (float[]){0.5f}, p.io.type_scale.rows = 1;
        problem_run(&p);
        assert_equals_slow(&p, 1e-5);
        p.options.generic = 1;
        problem_run(&p);
        assert_equals_slow(&p, 1e-5);
        problem_clear(&p);
    }
}

static void nothing_begin(void *state, const hga_end *v, hga_id head, void *ctx)
{
    (void)state, (void)v, (void)head, (void)ctx;
}
static void nothing_edge(void *state, const hga_edge *e, hga_id head, void *ctx)
{
    (void)state, (void)e, (void)head, (void)ctx;
}
static void count_edge(void *state, const hga_edge *e, hga_id head, void *ctx)
{
    (void)head, (void)ctx;
    assert_true(e->position >= 0);
    ++*(int *)state;
}
static void count_begin(void *state, const hga_end *v, hga_id head, void *ctx)
{
    (void)v, (void)head, (void)ctx;
    *(int *)state = 0;
}
static void count_finish(const void *state, const hga_end *v, hga_id head, void *ctx)
{
    (void)head;
    *v->field[*(hga_id *)ctx] = (float)*(const int *)state;
}
/* The field *ctx becomes 7 on the row. */
static void seven_finish(const void *state, const hga_end *v, hga_id head, void *ctx)
{
    (void)state, (void)head;
    v->field[*(hga_id *)ctx][0] = 7;
}

/* bfloat16 precision rounds the query, key and value; a tensor of the user's is read, and written, as it is. */
static void the_users_tensors_are_not_copied(void **state)
{
    (void)state;
    hga_program p;
    hga_graph *g;
    float input[2] = {1.5f, 2.5f}, taken[2] = {0}, out[2];
    hga_builder *b = started(2, 0, 0);
    assert_ok(hga_builder_add_block(b, 0, 0, 2, 0, 2, 0));
    g = finished(b);
    hga_program_init(&p);
    hga_id x = field(&p, "x", HGA_WIDTH_VALUE, HGA_IO_USER, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    hga_id y = field(&p, "y", HGA_WIDTH_VALUE, HGA_IO_USER, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    hga_id o = field(&p, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    assert_ok(hga_program_mean(&p, 0, x, y, 0));
    assert_ok(hga_program_weighted_sum(&p, 0, y, o));
    hga_io io = {.out = {.data = out, .rows = 2},
                 .type_scale = {.data = (float[]){1}, .rows = 1},
                 .user = {{.data = input, .rows = 2}, {.data = taken, .rows = 2}}};
    assert_ok(hga_attention(g, &p, &(hga_shape){.n_heads = 1, .dim = 1},
                            &(hga_options){.precision = HGA_PRECISION_BF16}, &io));
    assert_true(taken[0] == 2 && taken[1] == 2 && out[0] == 4);
    hga_graph_destroy(g);
}

/* The rows of a query that a later stage writes, or that a user's scores read, are not anyone else's before that. */
static void rows_that_are_still_used_are_not_given_away(void **state)
{
    (void)state;
    for (int written = 0; written < 2; written++) {
        hga_builder *b = started(3, 0, 1);
        assert_ok(hga_builder_add_block(b, 0, 0, 4, 0, 3, 0));
        problem p = {.name = "still used", .graph = finished(b), .shape = {.n_heads = 1, .dim = 2}};
        hga_id v = field(&p.program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
        hga_id k = field(&p.program, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
        hga_id input = field(&p.program, "given", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
        hga_id q = field(&p.program, "q", HGA_WIDTH_KEY, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES);
        hga_id mark = field(&p.program, "mark", HGA_WIDTH_SCALAR, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES);
        hga_id s = field(&p.program, "state", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_NODES, HGA_ROWS_NODES);
        p.program.field[s].binding = HGA_INTERNAL;
        hga_id out = field(&p.program, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
        assert_ok(hga_program_mean(&p.program, 0, input, q, 0));
        assert_ok(hga_program_attend(&p.program, 0, q, k, v, s, 0));
        hga_id psi = field(&p.program, "psi", HGA_WIDTH_SCALAR, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES);
        hga_id keep = field(&p.program, "keep", HGA_WIDTH_SCALAR, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES);
        p.program.field[out].rows = HGA_ROWS_NODES;
        hga_id target = written ? q : mark;
        hga_stage user = {
            .name = "user",
            .relation = 0,
            .message = HGA_MESSAGE_USER,
            .reduce = HGA_REDUCE_USER,
            .update = HGA_UPDATE_USER,
            .query = written ? 0 : q,
            .key = written ? 0 : k,
            .out = target,
            .writes = 1u << target,
            .udf = {.begin = nothing_begin, .edge = nothing_edge, .finish = seven_finish, .ctx = &target}};
        assert_ok(hga_program_add_stage(&p.program, &user));
        assert_ok(hga_program_energy(&p.program, s, psi));
        assert_ok(hga_program_descend(&p.program, s, psi, keep, out));
        problem_fill(&p, 1);
        float *shared = problem_out(&p, &(hga_options){0}, NULL),
              *kept = problem_out(&p, &(hga_options){.keep_fields = 1}, NULL);
        assert_memory_equal(shared, kept, (size_t)out_count(&p) * sizeof *shared);
        free(shared), free(kept);
        problem_clear(&p);
    }
}

/* Level by level, a user's scores read the queries that the stage before coarsens: neither may start before the other's
   level is done. */
static void scores_wait_for_their_queries(void **state)
{
    (void)state;
    hga_builder *b = started(2, 0, 1);
    assert_ok(hga_builder_set_children(b, 2, 0, 2));
    hga_graph *g = finished(b);
    hga_program p;
    hga_program_init(&p);
    hga_id q = field(&p, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_NODES);
    hga_id k = field(&p, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    hga_id out = field(&p, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_NODES, HGA_ROWS_NODES);
    assert_ok(hga_program_coarsen(&p, q));
    hga_stage user = {.name = "user",
                      .relation = HGA_TREE_UP,
                      .order = HGA_LEVELS_UP,
                      .message = HGA_MESSAGE_USER,
                      .reduce = HGA_REDUCE_USER,
                      .update = HGA_UPDATE_USER,
                      .query = q,
                      .key = k,
                      .out = out,
                      .writes = 1u << out,
                      .udf = {.begin = nothing_begin, .edge = nothing_edge, .finish = seven_finish, .ctx = &out}};
    assert_ok(hga_program_add_stage(&p, &user));
    hga_plan *plan;
    assert_ok(hga_plan_create(g, &p, &(hga_shape){.n_heads = 1, .dim = 1}, NULL, &plan));
    int coarsened = 0;
    for (int64_t i = 0; i < plan->waves.n_items; i++) {
        const phase *ph = &plan->phases.list[plan->waves.item[i].phase];
        coarsened |= ph->stage == 0 && ph->first == 2;
        if (ph->stage == 1 && ph->first == 2) assert_true(coarsened);
    }
    hga_plan_destroy(plan);
    hga_graph_destroy(g);
}

/* A leaf under a chain of nodes, beside a chain over all the others: rows do not walk up such chains to a cut. */
static void trees_of_long_chains_are_not_cut_high_up(void **state)
{
    enum { LEAVES = 40, CHAIN = 30, ROOT = LEAVES + 2 * CHAIN };
    (void)state;
    hga_id parent[ROOT + 1];
    for (hga_id v = 0; v < LEAVES; v++) parent[v] = v ? LEAVES + CHAIN : LEAVES;
    for (hga_id v = LEAVES; v < ROOT; v++) parent[v] = v + 1;
    parent[LEAVES + CHAIN - 1] = ROOT, parent[ROOT] = -1;
    problem p = {.name = "chains", .shape = {.n_heads = 2, .dim = 3}};
    hga_hsa h;
    hga_defaults(&h);
    h.parent = parent, h.n_parent = ROOT + 1;
    assert_ok(hga_build_hsa(&h, &p.graph, &p.program));
    problem_fill(&p, 3);
    hga_plan *plan;
    assert_int_equal(hga_graph_nodes(p.graph).n_levels, CHAIN + 2);
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &p.options, &plan));
    for (hga_id s = 0; s < plan->program.n_stages; s++) assert_in_range(plan->stage[s].cut_level, 0, 16);
    hga_plan_destroy(plan);
    problem_run(&p);
    assert_equals_slow(&p, 1e-5);
    problem_clear(&p);
}

/* ---- ranks ---- */

/* A wide row of explicit edges beside narrow rows of blocks: a user's edges come in canonical order, and are ranked
   neither here nor there. A row is held whole, so that a plan may outgrow a workspace, and says so. */
static void explicit_rows_need_no_room_to_rank(void **state)
{
    (void)state;
    for (int update = 0; update < 2; update++) {
        hga_builder *b = started(200, 0, 0);
        assert_ok(hga_builder_add_block(b, 0, 0, 2, 0, 2, 0));
        for (hga_id u = 0; !update && u < 200; u++) assert_ok(hga_builder_add_edge(b, 1, u, 5, 0, 1));
        hga_graph *g = finished(b), *other;
        b = started(200, 0, 0);
        for (hga_id u = 0; u < 200; u++) assert_ok(hga_builder_add_edge(b, 0, u, 5, 0, 1));
        other = finished(b);
        hga_program p;
        hga_program_init(&p);
        hga_id out = field(&p, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
        hga_stage user = {.name = "first",
                          .relation = 0,
                          .message = HGA_MESSAGE_USER,
                          .reduce = HGA_REDUCE_USER,
                          .update = HGA_UPDATE_USER,
                          .out = out,
                          .writes = 1u << out,
                          .udf = {.state_bytes = sizeof(int),
                                  .begin = count_begin,
                                  .edge = count_edge,
                                  .finish = count_finish,
                                  .ctx = &out}};
        assert_ok(hga_program_add_stage(&p, &user));
        if (!update) {
            strcpy(user.name, "second"), user.relation = 1;
            assert_ok(hga_program_add_stage(&p, &user));
        }
        hga_plan *plan;
        hga_workspace *s;
        float *counts = memory(200, sizeof *counts);
        hga_io io = {.out = {.data = counts, .rows = 200}};
        assert_ok(hga_plan_create(g, &p, &(hga_shape){.n_heads = 1, .dim = 1}, NULL, &plan));
        assert_ok(hga_workspace_create(plan, &s));
        assert_ok(hga_plan_execute(plan, s, &io));
        if (update) {
            assert_ok(hga_plan_update(plan, other));
            assert_status(HGA_EINVAL, hga_plan_execute(plan, s, &io));
            hga_workspace_destroy(s);
            assert_ok(hga_workspace_create(plan, &s));
            assert_ok(hga_plan_execute(plan, s, &io));
        }
        assert_true(counts[5] == 200 && counts[6] == 0);
        free(counts);
        hga_workspace_destroy(s), hga_plan_destroy(plan);
        hga_graph_destroy(g), hga_graph_destroy(other);
    }
}

/* ---- kernels ---- */

/* A later chunk's scores are so much greater that e^(before - after) is 0: nothing of the earlier ones may remain. */
static void what_underflows_is_forgotten(void **state)
{
    (void)state;
    enum { N = 128 };
    float q[N], k[N], v[N], out[N];
    hga_builder *b = started(N, 0, 0);
    for (hga_id u = 0; u < N; u++) {
        assert_ok(hga_builder_add_edge(b, 0, u, 0, 0, 1));
        q[u] = 1, k[u] = u < N / 2 ? -200 : 0, v[u] = u < N / 2 ? 1000 : 1;
    }
    hga_graph *g = finished(b);
    hga_program p;
    hga_program_init(&p);
    assert_ok(hga_program_attention(&p, 0));
    hga_io io = {.query = {.data = q, .rows = N},
                 .key = {.data = k, .rows = N},
                 .value = {.data = v, .rows = N},
                 .out = {.data = out, .rows = N}};
    assert_ok(hga_attention(g, &p, &(hga_shape){.n_heads = 1, .dim = 1}, NULL, &io));
    assert_true(out[0] == 1);
    hga_graph_destroy(g);
}

/* ---- tiles ---- */

/* Softmax attention of all nodes over the relation "a" of one level. */
static void attend_nodes(problem *p, hga_builder *b, hga_shape shape)
{
    memset(p, 0, sizeof *p);
    p->graph = finished(b), p->shape = shape;
    hga_program_init(&p->program);
    hga_id q = field(&p->program, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_NODES, HGA_ROWS_NODES);
    hga_id k = field(&p->program, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_NODES, HGA_ROWS_NODES);
    hga_id v = field(&p->program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_NODES, HGA_ROWS_NODES);
    hga_id out = field(&p->program, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_NODES, HGA_ROWS_NODES);
    assert_ok(hga_program_attend(&p->program, 0, q, k, v, out, 0));
    problem_fill(p, 5);
}

/* Pairs with two edges, one of a wide block and one of a narrow block whose columns are a chunk of the wide one's: each
   is a part of a chunk of its own. Panels are as tall as they get, so that one part more than groups would be one too
   many. */
static void wide_and_narrow_blocks_have_the_same_columns(void **state)
{
    enum { N = 32 * PANEL_ROWS, WIDE = 7 * KERNEL_CHUNK };
    problem p;
    float *lse, *out, *plain_lse, *plain;
    (void)state;
    hga_builder *b = started(N, 0, 0);
    assert_ok(hga_builder_add_block(b, 0, 0, N, 0, WIDE, 0));
    assert_ok(hga_builder_add_block(b, 0, 0, N, 0, KERNEL_CHUNK, 1));
    attend_nodes(&p, b, (hga_shape){.n_heads = 1, .dim = 4});
    out = problem_out(&p, &(hga_options){.threads = 1}, &lse);
    plain = problem_out(&p, &(hga_options){.threads = 1, .generic = 1}, &plain_lse);
    assert_near_floats("states", out, plain, out_count(&p), 1e-5);
    assert_near_floats("log-sum-exps", lse, plain_lse, lse_count(&p), 1e-5);
    free(out), free(lse), free(plain), free(plain_lse);
    problem_clear(&p);
}

/* A state has room for as many types as its plan's graph had. */
static void more_types_need_another_state(void **state)
{
    enum { N = 100, MORE = 40, TYPES = MORE + N };
    problem few, many;
    hga_plan *plan;
    hga_workspace *made_before;
    (void)state;
    hga_builder *b = started(N, 0, 0);
    assert_ok(hga_builder_add_block(b, 0, 0, N, 0, N, 0));
    attend_nodes(&few, b, (hga_shape){.n_heads = 1, .dim = 4});
    b = started(N, 0, 0);
    assert_ok(hga_builder_add_blocks(b, 0, &(hga_block){.n_dst = N, .n_src = N, .type = MORE, .type_dst = 1}));
    attend_nodes(&many, b, few.shape);
    many.io.rel_bias.data = many.owned[many.n_owned++] = random_floats(7, 1, TYPES), many.io.rel_bias.rows = TYPES;
    assert_ok(hga_plan_create(few.graph, &few.program, &few.shape, &(hga_options){.threads = 1}, &plan));
    assert_ok(hga_workspace_create(plan, &made_before));
    assert_ok(hga_plan_update(plan, many.graph));
    assert_status(HGA_EINVAL, hga_plan_execute(plan, made_before, &many.io));
    hga_workspace_destroy(made_before), hga_plan_destroy(plan);
    problem_clear(&few), problem_clear(&many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bands_open_below_can_be_turned_round),
        cmocka_unit_test(pairs_left_out_have_no_type),
        cmocka_unit_test(masses_of_large_families_count_on),
        cmocka_unit_test(steep_types_stay_what_they_are),
        cmocka_unit_test(fields_on_other_tokens_than_the_callers_have_room),
        cmocka_unit_test(trees_of_long_chains_are_not_cut_high_up),
        cmocka_unit_test(the_users_tensors_are_not_copied),
        cmocka_unit_test(rows_that_are_still_used_are_not_given_away),
        cmocka_unit_test(scores_wait_for_their_queries),
        cmocka_unit_test(explicit_rows_need_no_room_to_rank),
        cmocka_unit_test(what_underflows_is_forgotten),
        cmocka_unit_test(wide_and_narrow_blocks_have_the_same_columns),
        cmocka_unit_test(more_types_need_another_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
