/* The engine against the slow oracle: every variant and random graphs, every shape and instruction set, plain and fused
   executor, user functions, renamed programs. */
#include "testing.h"
#include "user_softmax.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Narrow, odd and wide, fewer key heads than query heads, values of another width. */
static const hga_shape shapes[] = {
    {.n_heads = 1, .dim = 1, .pos_dim = 1},
    {.n_heads = 3, .dim = 3, .dim_v = 7, .pos_dim = 2},
    {.n_heads = 6, .n_kv_heads = 2, .dim = 17, .dim_v = 5, .pos_dim = 5},
    {.n_heads = 4, .n_kv_heads = 1, .dim = 24, .dim_v = 40, .pos_dim = 3},
    {.n_heads = 2, .dim = 80, .pos_dim = 17},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };
static const double tolerance = 3e-5;

/* ---- instruction sets ---- */

/* Name number i of those usable here, NULL after the last. */
static const char *isa_name(int i, char *room, size_t bytes)
{
    const char *at = hga_isa_list();
    while (i-- > 0 && at) at = strchr(at, ' '), at = at ? at + 1 : NULL;
    if (!at || !*at) return NULL;
    snprintf(room, bytes, "%.*s", (int)strcspn(at, " "), at);
    return room;
}

/* The oracle's values, then the plain executor's and the fused kernels' of every instruction set against them. */
static void check_all_executors(problem *p)
{
    char name[32];
    double *want = NULL, *want_lse = NULL;
    slow_execute(p->graph, &p->program, &p->shape, &p->io, &want, &want_lse);
    for (int i = -1; i < 0 || isa_name(i, name, sizeof name); i++) {
        float *lse,
            *out = problem_out(
                p, &(hga_options){.generic = i < 0, .isa = i < 0 ? NULL : name, .cut_edges = i % 2 ? 0 : 64}, &lse);
        char what[160];
        snprintf(what, sizeof what, "%s, %d heads of %d, %s", p->name, p->shape.n_heads, p->shape.dim,
                 i < 0 ? "generic" : name);
        assert_near(what, out, want, out_count(p), tolerance);
        if (p->program.has_lse && want_lse) assert_near(what, lse, want_lse, lse_count(p), 2 * tolerance);
        free(out), free(lse);
    }
    free(want), free(want_lse);
}

/* ---- edges ---- */

static void check_edges(const hga_graph *g, const char *name)
{
    for (hga_id r = 0; r < hga_graph_nodes(g).n_relations; r++) {
        int64_t n_got, n_want;
        edge *got = all_rows(g, r, &n_got), *want = all_edges(g, r, &n_want);
        assert_same_edges(name, got, n_got, want, n_want);
        for (int64_t i = 0; i < n_got; i++) assert_true(got[i].weight == want[i].weight);
        assert_int_equal(n_want, hga_graph_relation(g, r).n_edges);
        free(got), free(want);
    }
}

/* What the oracle expands by hand is what hga_graph_rows gives. */
static void rows_are_the_blocks_and_edges(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        variant_build(i, 53, 3, shapes, &p);
        check_edges(p.graph, p.name);
        problem_clear(&p);
    }
    for (unsigned with = 1; with < 64; with++) {
        hga_graph *g = random_graph(with, 40, with);
        check_edges(g, "random graph");
        hga_graph_destroy(g);
    }
}

/* ---- built-in variants ---- */

static void variants_equal_the_oracle(void **state)
{
    static const hga_id sizes[] = {1, 2, 7, 40, 97, 260};
    (void)state;
    for (int i = 0; i < n_variants(); i++)
        for (int s = 0; s < 6; s++) {
            problem p;
            if (passed_over(6 * i + s)) continue;
            variant_build(i, sizes[s], (uint64_t)(20 + s), shapes + (i + s) % N_SHAPES, &p);
            check_all_executors(&p);
            problem_clear(&p);
        }
}

/* Relative keys, relative biases, edge biases and another scale, one after the other on the same graph. */
static void tables_equal_the_oracle(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++)
        for (int tables = 0; tables < 4; tables++) {
            problem p;
            if (passed_over(4 * i + tables)) continue;
            variant_build(i, 45, (uint64_t)(30 + tables), shapes + (i + tables) % N_SHAPES, &p);
            if (find_stage(&p.program, HGA_SCORE)) {
                problem_fill_tables(&p, 9, tables != 1, tables != 0,
                                    tables < 2    ? 0
                                    : tables == 2 ? 1
                                                  : p.shape.n_heads);
                p.io.scale = tables == 3 ? 0.125f : 0;
                check_all_executors(&p);
            }
            problem_clear(&p);
        }
}

/* Thousands of rows, so that rows come in full panels and tiles: bands, triangles, holes, types that go with the row,
   the column or both. */
static void large_graphs_equal_the_oracle(void **state)
{
    static const char *const names[] = {"window",
                                        "window_global",
                                        "window_strided",
                                        "neighbours_wide",
                                        "neighbours_causal_wide",
                                        "siblings_wide",
                                        "siblings_causal",
                                        "bpt_wide",
                                        "bpt_text",
                                        "fine_causal",
                                        "hsa_wide",
                                        "hsa_frontier_wide",
                                        "hsa",
                                        "coarse"};
    static const hga_shape few[] = {{.n_heads = 2, .dim = 9, .dim_v = 7},
                                    {.n_heads = 2, .n_kv_heads = 1, .dim = 24, .dim_v = 17, .pos_dim = 2}};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        problem p;
        int dense = strncmp(names[i], "window", 6) == 0 || strncmp(names[i], "fine", 4) == 0;
        variant_build(variant_named(names[i]), shortened(dense ? 1300 : 4133), 40 + i, few + i % 2, &p);
        if (i % 3 && find_stage(&p.program, HGA_SCORE)) problem_fill_tables(&p, 9, i % 3 == 2, 1, 0);
        check_all_executors(&p);
        problem_clear(&p);
    }
}

/* ---- programs on random graphs ---- */

typedef struct fields {
    hga_id query, key, value, state, out;
} fields;

/* query, key and value of the rows `io`, known on every node. */
static fields add_inputs(hga_program *p, hga_rows queries, hga_rows keys)
{
    fields f = {.out = -1};
    hga_program_init(p);
    assert_ok(hga_program_add_field(p, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, queries, HGA_ROWS_NODES, &f.query));
    assert_ok(hga_program_add_field(p, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, keys, HGA_ROWS_NODES, &f.key));
    assert_ok(hga_program_add_field(p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, keys, HGA_ROWS_NODES, &f.value));
    return f;
}

/* Softmax attention of all nodes. */
static void attend_program(hga_program *p)
{
    fields f = add_inputs(p, HGA_ROWS_NODES, HGA_ROWS_NODES);
    assert_ok(hga_program_add_field(p, "o", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_NODES, HGA_ROWS_NODES, &f.state));
    assert_ok(hga_program_attend(p, 0, f.query, f.key, f.value, f.state, 0));
    p->has_lse = 1;
}

/* The same edges a second time, by mass, merged into the first state. */
static void attend_more_program(hga_program *p)
{
    attend_program(p);
    hga_stage more = p->stage[0];
    snprintf(more.name, sizeof more.name, "more");
    more.update = HGA_UPDATE_MERGE, more.by_mass = 1;
    assert_ok(hga_program_add_stage(p, &more));
}

/* Tokens' means upwards, attention everywhere, states downwards. */
static void up_and_down_program(hga_program *p)
{
    fields f = add_inputs(p, HGA_ROWS_QUERIES, HGA_ROWS_KEYS);
    assert_ok(hga_program_add_field(p, "o", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_NODES, &f.state));
    assert_ok(hga_program_coarsen(p, f.query));
    assert_ok(hga_program_coarsen(p, f.key));
    assert_ok(hga_program_coarsen(p, f.value));
    assert_ok(hga_program_attend(p, 0, f.query, f.key, f.value, f.state, 1));
    assert_ok(hga_program_spread(p, HGA_TREE_DOWN, f.state));
    p->has_lse = 1;
}

/* Energies upwards and gates downwards. */
static void energy_program(hga_program *p)
{
    hga_id psi, keep, out;
    fields f = add_inputs(p, HGA_ROWS_QUERIES, HGA_ROWS_KEYS);
    assert_ok(hga_program_add_field(p, "s", HGA_WIDTH_STATE, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &f.state));
    assert_ok(hga_program_add_field(p, "psi", HGA_WIDTH_SCALAR, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &psi));
    assert_ok(hga_program_add_field(p, "keep", HGA_WIDTH_SCALAR, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &keep));
    assert_ok(hga_program_add_field(p, "o", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_NODES, &out));
    assert_ok(hga_program_coarsen(p, f.query));
    assert_ok(hga_program_coarsen(p, f.key));
    assert_ok(hga_program_coarsen(p, f.value));
    assert_ok(hga_program_attend(p, 0, f.query, f.key, f.value, f.state, 1));
    assert_ok(hga_program_energy(p, f.state, psi));
    assert_ok(hga_program_descend(p, f.state, psi, keep, out));
}

/* Means of values, then their sum weighted by type. */
static void mean_and_weighted_sum_program(hga_program *p)
{
    hga_id value, mean, out;
    hga_program_init(p);
    assert_ok(hga_program_add_field(p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_NODES, HGA_ROWS_NODES, &value));
    assert_ok(hga_program_add_field(p, "m", HGA_WIDTH_VALUE, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, &mean));
    assert_ok(hga_program_add_field(p, "o", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_NODES, HGA_ROWS_NODES, &out));
    assert_ok(hga_program_mean(p, 0, value, mean, 1));
    assert_ok(hga_program_weighted_sum(p, 0, mean, out));
}

/* Sums of values over the relation, weighted by type once more. */
static void sum_program(hga_program *p)
{
    hga_stage s = {.name = "sum", .message = HGA_COPY, .reduce = HGA_SUM, .update = HGA_REPLACE};
    mean_and_weighted_sum_program(p);
    s.value = p->stage[0].value, s.out = p->stage[0].out;
    hga_stage last = p->stage[1];
    p->n_stages = 0;
    assert_ok(hga_program_add_stage(p, &s));
    assert_ok(hga_program_add_stage(p, &last));
}

static const struct {
    const char *name;
    void (*make)(hga_program *p);
} programs[] = {
    {"attend", attend_program},
    {"attend more", attend_more_program},
    {"up and down", up_and_down_program},
    {"energy", energy_program},
    {"mean and weighted sum", mean_and_weighted_sum_program},
    {"sum", sum_program},
};
enum { N_PROGRAMS = sizeof programs / sizeof *programs };

static void random_problem(int program, unsigned with, hga_id n, uint64_t seed, hga_shape shape, problem *p)
{
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "%s on random graph %llu with %u", programs[program].name,
             (unsigned long long)seed, with);
    p->graph = random_graph(seed, n, with);
    programs[program].make(&p->program);
    p->shape = shape;
    problem_fill(p, seed + 3);
    problem_fill_tables(p, seed + 7, 0, 0, 0);
    p->io.n_type_scale = hga_graph_relation(p->graph, 0).n_types;
    p->io.type_scale = p->owned[p->n_owned++] = random_floats(seed + 11, 1, p->io.n_type_scale);
}

/* Sums are linear in the values: bring the largest result to 1, where the tolerance lives. */
static void keep_sums_small(problem *p)
{
    double largest = 1, *want;
    hga_id heads = p->shape.n_kv_heads ? p->shape.n_kv_heads : p->shape.n_heads,
           columns = p->shape.dim_v ? p->shape.dim_v : p->shape.dim;
    slow_execute(p->graph, &p->program, &p->shape, &p->io, &want, NULL);
    for (int64_t i = 0; i < out_count(p); i++) largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < p->n_value * heads * columns; i++) ((float *)p->io.value.data)[i] /= (float)largest;
    free(want);
}

/* Blocks of every shape, explicit edges, types, weights, orders and position embeddings in all combinations. */
static void random_graphs_equal_the_oracle(void **state)
{
    (void)state;
    for (int i = 0; i < N_PROGRAMS; i++)
        for (unsigned with = 1; with<64; with += with> 8 ? 2 : 1) {
            problem p;
            if (passed_over(i + (int)with)) continue;
            random_problem(i, with, 20 + (hga_id)with, with * 10 + (unsigned)i, shapes[with % N_SHAPES], &p);
            if (find_stage(&p.program, HGA_SCORE))
                problem_fill_tables(&p, 5, with & 1, with & 2, with % 3 == 2 ? p.shape.n_heads : 0);
            else
                keep_sums_small(&p);
            check_all_executors(&p);
            problem_clear(&p);
        }
}

/* The same with thousands of nodes: blocks with holes, bands, weights and both slopes of types go through tiles, in
   orders of their own. */
static void large_random_graphs_equal_the_oracle(void **state)
{
    static const unsigned sorts[] = {WITH_BLOCKS, WITH_BLOCKS | WITH_TYPES, WITH_BLOCKS | WITH_WEIGHTS | WITH_EDGES,
                                     WITH_BLOCKS | WITH_TYPES | WITH_WEIGHTS | WITH_ORDERS,
                                     WITH_BLOCKS | WITH_EDGES | WITH_TYPES | WITH_WEIGHTS | WITH_POSITIONS};
    static const hga_shape few[] = {{.n_heads = 1, .dim = 12}, {.n_heads = 2, .n_kv_heads = 1, .dim = 19, .dim_v = 6}};
    (void)state;
    for (int i = 0; i < 5; i++)
        for (int program = 0; program < 3; program++) {
            problem p;
            if (passed_over(3 * i + program)) continue;
            hga_shape shape = few[(i + program) % 2];
            shape.pos_dim = sorts[i] & WITH_POSITIONS ? 3 : 0;
            random_problem(program, sorts[i], shortened(3000), (uint64_t)(60 + i), shape, &p);
            if (i % 2) problem_fill_tables(&p, 5, program == 2, 1, 0);
            check_all_executors(&p);
            problem_clear(&p);
        }
}

/* ---- layouts ---- */

/* A packed [row][head][column] tensor as [head][row][column] with rows and heads apart. */
static hga_tensor head_major(problem *p, const hga_tensor *from, int64_t rows, hga_id heads, hga_id columns)
{
    ptrdiff_t row = columns + 3, head = (ptrdiff_t)(rows + 2) * row;
    float *to = p->owned[p->n_owned++] = memory(head * heads, sizeof *to);
    for (int64_t i = 0; from->data && i < rows * heads; i++)
        memcpy(to + i / heads * row + i % heads * head, (const float *)from->data + i * columns,
               (size_t)columns * sizeof *to);
    return (hga_tensor){.data = from->data ? to : NULL, .rows = rows, .row_stride = row, .head_stride = head};
}

/* [head][row][column] tensors with gaps give what packed ones give, and the gaps are left alone. */
static void strides_change_nothing(void **state)
{
    (void)state;
    hga_shape shape = {.n_heads = 4, .n_kv_heads = 2, .dim = 9, .dim_v = 6, .pos_dim = 2};
    for (int i = 0; i < 2 * n_variants(); i++) {
        problem p;
        variant_build(i / 2, 60, 5, &shape, &p);
        p.options.precision = i % 2 ? HGA_PRECISION_BF16 : HGA_PRECISION_F32;
        hga_id heads = p.shape.n_heads, kv = p.shape.n_kv_heads;
        problem_run(&p);
        hga_io packed = p.io;
        p.io.query = head_major(&p, &packed.query, p.n_query, heads, 9);
        p.io.key = head_major(&p, &packed.key, p.n_key, kv, 9);
        p.io.value = head_major(&p, &packed.value, p.n_value, kv, 6);
        p.io.out = head_major(&p, &packed.out, p.n_out, heads, 6);
        const float *out = p.io.out.data;
        for (int64_t j = 0; j < (p.n_out + 2) * heads * 9; j++) ((float *)p.io.out.data)[j] = 1234;
        problem_run(&p);
        for (int64_t j = 0; j < (p.n_out + 2) * heads * 9; j++) {
            int64_t head = j / 9 / (p.n_out + 2), row = j / 9 % (p.n_out + 2), column = j % 9;
            float want =
                row < p.n_out && column < 6 ? ((float *)packed.out.data)[(row * heads + head) * 6 + column] : 1234;
            assert_near_floats(p.name, out + j, &want, 1, 1e-6);
        }
        problem_clear(&p);
    }
}

/* ---- empty rows ---- */

/* One edge on three tokens: the other rows are 0 with a log-sum-exp of -inf, alone and merged with each other. */
static void empty_rows_are_zero(void **state)
{
    (void)state;
    hga_builder *b;
    hga_id relation, parent;
    problem p = {.shape = {.n_heads = 2, .dim = 3}};
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 3, NULL));
    assert_ok(hga_builder_add_level(b, 1, &parent));
    assert_ok(hga_builder_set_children(b, parent, 0, 3));
    assert_ok(hga_builder_add_relation(b, "near", &relation));
    assert_ok(hga_builder_add_edge(b, relation, 2, 1, 0, 1));
    assert_ok(hga_builder_finish(b, &p.graph));
    hga_builder_destroy(b);
    up_and_down_program(&p.program);
    problem_fill(&p, 4);
    for (p.options.generic = 0; p.options.generic < 2; p.options.generic++) {
        problem_run(&p);
        for (int i = 0; i < 18; i++) {
            float want = i / 6 == 1 ? ((float *)p.io.value.data)[12 + i % 6] : 0;
            assert_near_floats("out", (float *)p.io.out.data + i, &want, 1, 1e-6);
        }
        for (int i = 0; i < 6; i++)
            assert_true(i / 2 == 1 ? isfinite(((float *)p.io.lse.data)[i]) : ((float *)p.io.lse.data)[i] == -INFINITY);
    }
    problem_clear(&p);
}

/* ---- user functions ---- */

/* Written by a user, softmax attention gives what the built-in stage gives; rows are cut where the user can merge. */
static void user_softmax_equals_the_built_in(void **state)
{
    static const char *const names[] = {"dense", "window", "bpt",         "neighbours", "neighbours_causal",
                                        "fine",  "hsa",    "hsa_frontier"};
    (void)state;
    for (int i = 0; i < 16; i++) {
        problem p;
        user_context ctx;
        variant_build(variant_named(names[i / 2]), 150, 6, shapes + 1 + i % 3, &p);
        if (strcmp(names[i / 2], "bpt") == 0) problem_fill_tables(&p, 8, 1, 1, 0);
        float *want = problem_out(&p, &p.options, NULL);
        make_user_stage(&p, &ctx, i % 2);
        p.options.cut_edges = 64, p.options.threads = 2;
        problem_run(&p);
        assert_near_floats(p.name, p.io.out.data, want, out_count(&p), tolerance);
        p.options.generic = 1;
        problem_run(&p);
        assert_near_floats(p.name, p.io.out.data, want, out_count(&p), tolerance);
        free(want);
        problem_clear(&p);
    }
}

/* ---- names mean nothing ---- */

/* value of a member, with an x in front; tree relations keep their names. */
static void rename_member(json_t *object, const char *member)
{
    char name[96];
    const char *old = json_string_value(json_object_get(object, member));
    if (!old || strncmp(old, "tree ", 5) == 0) return;
    snprintf(name, sizeof name, "x%.30s", old);
    assert_int_equal(json_object_set_new(object, member, json_string(name)), 0);
}

static void rename_members(json_t *objects, const char *const *members)
{
    size_t i;
    json_t *object;
    json_array_foreach(objects, i, object) for (const char *const *m = members; *m; m++) rename_member(object, *m);
}

/* Every name in the file that a person could have chosen otherwise. */
static void rename_file(const char *path)
{
    static const char *const name[] = {"name", NULL}, *const stage[] = {"name", "relation", "query", "key", "value",
                                                                        "gate", "keep",     "out",   NULL};
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error), *program = json_object_get(root, "program");
    if (!root) fail_msg("%s: %s", path, error.text);
    assert_non_null(program);
    rename_members(json_object_get(root, "relations"), name);
    rename_members(json_object_get(program, "fields"), name);
    rename_members(json_object_get(program, "stages"), stage);
    assert_int_equal(json_dump_file(root, path, JSON_INDENT(1)), 0);
    json_decref(root);
}

/* Write graph and program, rename, read back. */
static void round_trip(const problem *p, hga_graph **g, hga_program *program)
{
    const char *path = "renamed.json";
    char *text, *members;
    assert_ok(hga_program_to_json(&p->program, p->graph, &text));
    size_t bytes = strlen(text) + 16;
    members = memory((int64_t)bytes, 1);
    snprintf(members, bytes, "\"program\": %s", text);
    hga_text_free(text);
    assert_ok(hga_graph_write_json(p->graph, members, path));
    free(members);
    rename_file(path);
    assert_ok(hga_graph_read_json(NULL, path, g, &text));
    assert_non_null(text);
    assert_ok(hga_program_from_json(text, *g, program));
    hga_text_free(text);
    remove(path);
}

/* What a plan says of its stages, their names left out: kernels, edges, panels, phases. */
static json_t *explain(const hga_graph *g, const hga_program *program, const hga_shape *shape)
{
    hga_plan *plan;
    char *text;
    json_error_t error;
    assert_ok(hga_plan_create(g, program, shape, &(hga_options){.threads = 2}, &plan));
    assert_ok(hga_plan_explain_json(plan, &text));
    json_t *root = json_loads(text, 0, &error), *stages = json_incref(json_object_get(root, "stages")), *stage;
    size_t i;
    assert_int_equal(json_array_size(stages), program->n_stages);
    json_array_foreach(stages, i, stage)
    {
        assert_non_null(json_object_get(stage, "kernel"));
        json_object_del(stage, "name"), json_object_del(stage, "relation");
    }
    json_decref(root);
    hga_text_free(text);
    hga_plan_destroy(plan);
    return stages;
}

/* A variant written to a file, renamed and read back runs with the same kernels and gives the same bits. */
static void renamed_variants_are_the_same(void **state)
{
    (void)state;
    hga_shape shape = {.n_heads = 2, .dim = 16, .pos_dim = 3};
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        hga_graph *g;
        hga_program program;
        variant_build(i, 83, 12, &shape, &p);
        problem_run(&p);
        round_trip(&p, &g, &program);
        assert_int_equal(hga_graph_find_relation(g, hga_graph_relation(p.graph, 0).name), -1);
        problem renamed = p;
        renamed.graph = g, renamed.program = program;
        float *out = problem_out(&renamed, &p.options, NULL);
        assert_same_bits(p.name, out, p.io.out.data, out_count(&p));
        json_t *a = explain(p.graph, &p.program, &p.shape), *b = explain(g, &program, &p.shape);
        if (!json_equal(a, b)) fail_msg("%s: another plan after renaming", p.name);
        json_decref(a), json_decref(b), free(out);
        hga_graph_destroy(g);
        problem_clear(&p);
    }
}

/* ---- plans ---- */

/* A plan given new edges does what a new plan for them does. */
static void an_updated_plan_is_a_new_plan(void **state)
{
    (void)state;
    hga_shape shape = {.n_heads = 2, .dim = 16};
    problem a, b;
    hga_plan *plan;
    hga_workspace *workspace;
    variant_build(variant_named("fine"), 90, 1, &shape, &a);
    variant_build(variant_named("fine"), 90, 2, &shape, &b);
    assert_ok(hga_plan_create(a.graph, &a.program, &shape, &(hga_options){.threads = 2}, &plan));
    assert_ok(hga_plan_update(plan, b.graph));
    assert_ok(hga_workspace_create(plan, &workspace));
    float *want = problem_out(&b, &b.options, NULL);
    assert_ok(hga_plan_execute(plan, workspace, &b.io));
    assert_same_bits("updated", b.io.out.data, want, out_count(&b));
    free(want);
    hga_workspace_destroy(workspace);
    hga_plan_destroy(plan);
    problem_clear(&a), problem_clear(&b);
}

/* Operands rounded to bfloat16, everything else as before: 2 percent in the mean square. */
static void bfloat16_is_near(void **state)
{
    (void)state;
    hga_shape shape = {.n_heads = 2, .dim = 32, .pos_dim = 3};
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        double error = 0, size = 0;
        variant_build(i, 75, 15, &shape, &p);
        for (int64_t j = 0; j < p.n_query * p.shape.n_heads * 32; j++) ((float *)p.io.query.data)[j] *= 0.5f;
        problem_run(&p);
        float *out = problem_out(&p, &(hga_options){.precision = HGA_PRECISION_BF16}, NULL);
        for (int64_t j = 0; j < out_count(&p); j++) {
            double want = ((float *)p.io.out.data)[j], difference = (double)out[j] - want;
            error += difference * difference, size += want * want;
        }
        if (!(sqrt(error) <= 2e-2 * sqrt(size))) fail_msg("%s: relative error %.3g", p.name, sqrt(error / size));
        if (error == 0 && find_stage(&p.program, HGA_SCORE)) fail_msg("%s: nothing was rounded", p.name);
        free(out);
        problem_clear(&p);
    }
}

/* To nearest, ties to even. */
static void round_all(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits, half = 0x8000;
        memcpy(&bits, x + i, 4);
        uint32_t rest = bits & 0xffff, up = rest > half || (rest == half && (bits & 0x10000));
        bits = (bits - rest) + (up ? 0x10000 : 0);
        memcpy(x + i, &bits, 4);
    }
}

/* Where nothing is coarsened, rounding the inputs beforehand is all that the precision does. */
static void bfloat16_rounds_the_operands(void **state)
{
    static const char *const names[] = {"dense", "window", "bpt", "fine"};
    (void)state;
    hga_shape shape = {.n_heads = 2, .dim = 32};
    for (int i = 0; i < 4; i++) {
        problem p;
        variant_build(variant_named(names[i]), 75, 15, &shape, &p);
        float *out = problem_out(&p, &(hga_options){.precision = HGA_PRECISION_BF16}, NULL);
        round_all(p.io.query.data, p.n_query * 64), round_all(p.io.key.data, p.n_key * 64),
            round_all(p.io.value.data, p.n_value * 64);
        problem_run(&p);
        assert_near_floats(p.name, out, p.io.out.data, out_count(&p), 1e-5);
        free(out);
        problem_clear(&p);
    }
}

/* What a number more or less in the last place of a mean does once it is rounded. */
static const double LAST_PLACE = 4e-3;

/* Every instruction set against the plain executor, which has its operands rounded in float32. */
static void check_bfloat16(problem *p)
{
    char name[32], what[160];
    float *want_lse, *want = problem_out(p, &(hga_options){.precision = HGA_PRECISION_BF16, .generic = 1}, &want_lse);
    double most = find_stage(&p->program, HGA_COPY) ? LAST_PLACE : tolerance;
    for (int i = 0; isa_name(i, name, sizeof name); i++) {
        float *lse,
            *out = problem_out(
                p, &(hga_options){.precision = HGA_PRECISION_BF16, .isa = name, .cut_edges = i % 2 ? 0 : 64}, &lse);
        snprintf(what, sizeof what, "bf16 %s, %d heads of %d, %s", p->name, p->shape.n_heads, p->shape.dim, name);
        assert_near_floats(what, out, want, out_count(p), most);
        if (p->program.has_lse) assert_near_floats(what, lse, want_lse, lse_count(p), 2 * most);
        free(out), free(lse);
    }
    free(want), free(want_lse);
}

/* Whatever the graph: masks, types, weights, positions, biases of edges, dims that fill no vector, heads that share
   keys. */
static void bfloat16_equals_the_plain_executor(void **state)
{
    (void)state;
    for (int i = 0; i < N_PROGRAMS; i++)
        for (unsigned with = 1; with < 64; with += 3) {
            problem p;
            if (passed_over(i + (int)with)) continue;
            random_problem(i, with, 20 + (hga_id)with, with * 10 + (unsigned)i, shapes[with % N_SHAPES], &p);
            if (find_stage(&p.program, HGA_SCORE))
                problem_fill_tables(&p, 5, with & 1, with & 2, with % 4 == 2 ? p.shape.n_heads : 0);
            else
                keep_sums_small(&p);
            check_bfloat16(&p);
            problem_clear(&p);
        }
    for (int i = 0; i < 2 * n_variants(); i++) {
        problem p;
        if (passed_over(i)) continue;
        variant_build(i / 2, 300, 21, &shapes[i % N_SHAPES], &p);
        if (i % 2 && find_stage(&p.program, HGA_SCORE)) problem_fill_tables(&p, 5, i % 4 == 1, 1, 0);
        check_bfloat16(&p);
        problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_the_blocks_and_edges),    cmocka_unit_test(variants_equal_the_oracle),
        cmocka_unit_test(tables_equal_the_oracle),          cmocka_unit_test(large_graphs_equal_the_oracle),
        cmocka_unit_test(random_graphs_equal_the_oracle),   cmocka_unit_test(large_random_graphs_equal_the_oracle),
        cmocka_unit_test(strides_change_nothing),           cmocka_unit_test(empty_rows_are_zero),
        cmocka_unit_test(user_softmax_equals_the_built_in), cmocka_unit_test(renamed_variants_are_the_same),
        cmocka_unit_test(an_updated_plan_is_a_new_plan),    cmocka_unit_test(bfloat16_is_near),
        cmocka_unit_test(bfloat16_rounds_the_operands),     cmocka_unit_test(bfloat16_equals_the_plain_executor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
