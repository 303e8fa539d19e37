/* test_allocation_plans.c: what is made from a graph, found out about a program, planned and executed, where an
   allocation fails. */
#include "fuses.h"

/* They live by `fused`, so what is made from them does too. */
static hga_graph *input, *other, *wide, *near; /* wide: rows of more edges than a piece; near: a few */
static hga_program program, wide_program, near_program;
static hga_plan *plan;

static hga_status make_transpose(const hga_allocator *a)
{
    (void)a;
    hga_graph *g = NOWHERE;
    return settle(hga_graph_transpose(input, &g), &g);
}

static hga_status make_compress(const hga_allocator *a)
{
    (void)a;
    hga_graph *g = NOWHERE;
    return settle(hga_graph_compress(input, &g), &g);
}

static hga_status make_order(const hga_allocator *a)
{
    (void)a;
    static hga_id order[4096];
    hga_graph *g = NULL;
    assert_true(hga_graph_nodes(input).n <= 4096);
    hga_status st = hga_graph_order(input, HGA_ORDERING_RCM, order);
    return settle(st ? st : hga_graph_renumber(input, order, &g), &g);
}

/* Of the tokens' relations, which have no levels above them. */
static hga_status make_coarsen(const hga_allocator *a)
{
    static const hga_id size[] = {3, 4};
    hga_builder *b = NULL;
    hga_graph *flat = NULL, *g = NULL;
    hga_status st = hga_builder_create(a, &b);
    if (!st) st = hga_builder_add_level(b, 60, NULL);
    if (!st) st = hga_builder_add_relation(b, "near", NULL);
    for (hga_id i = 0; i < 200 && !st; i++) st = hga_builder_add_edge(b, 0, i * 7 % 60, i * 11 % 59, i % 2, 1);
    if (!st) st = hga_builder_finish(b, &flat);
    hga_builder_destroy(b);
    if (!st) st = hga_graph_coarsen(flat, size, 2, NULL, NULL, &g);
    hga_graph_destroy(flat);
    return settle(st, &g);
}

static hga_status make_concat(const hga_allocator *a)
{
    (void)a;
    hga_graph *g = NOWHERE;
    hga_node_map map = {0};
    hga_status st = hga_graph_concat((const hga_graph *const[]){input, other, input}, 3, &g, &map);
    hga_node_map_clear(&map);
    return settle(st, &g);
}

static hga_status make_rows(const hga_allocator *a)
{
    (void)a;
    hga_csr rows = {0};
    hga_status st = HGA_OK;
    for (hga_id r = 0; !st && r < hga_graph_nodes(input).n_relations; r++) {
        st = hga_graph_rows(input, r, 0, hga_graph_nodes(input).n, &rows);
        hga_csr_clear(&rows);
    }
    return st;
}

static hga_status make_influence(const hga_allocator *a)
{
    (void)a;
    hga_id token, sees;
    return hga_program_influence(&program, input, &token, &sees);
}

static hga_status make_halo(const hga_allocator *a)
{
    (void)a;
    hga_halo_list halo;
    hga_id tokens = hga_graph_nodes(input).level_ptr[1];
    hga_status st = hga_halo(input, &program, &(hga_shape){.n_heads = 1, .dim = 4},
                             (hga_id[]){0, tokens / 3, tokens / 2, tokens}, 3, &halo);
    hga_halo_clear(&halo);
    return st;
}

static hga_status make_coverage(const hga_allocator *a)
{
    (void)a;
    hga_coverage coverage;
    return hga_program_coverage(&program, input, 0, &coverage);
}

static hga_status make_levels(const hga_allocator *a)
{
    (void)a;
    hga_coverage coverage;
    hga_levels_count levels;
    hga_status st = hga_program_coverage_levels(&program, input, 0, &coverage, &levels);
    hga_levels_count_clear(&levels);
    return st;
}

static hga_status make_layers(const hga_allocator *a)
{
    (void)a;
    hga_id layers;
    return hga_program_layers(&near_program, near, 0, 100, &layers);
}

static hga_status look_away(const hga_patch *patch, void *context)
{
    (void)patch, (void)context;
    return HGA_OK;
}

static hga_status make_pattern(const hga_allocator *a)
{
    (void)a;
    return hga_program_pattern(&program, input, look_away, NULL);
}

static hga_status see_nothing(const hga_seen *seen, void *context)
{
    (void)seen, (void)context;
    return HGA_OK;
}

static hga_status make_row(const hga_allocator *a)
{
    (void)a;
    return hga_program_row(&program, input, 1, see_nothing, NULL);
}

static const hga_shape shape = {.n_heads = 2, .dim = 8};

static hga_status make_weights(const hga_allocator *a)
{
    (void)a;
    static float zeros[1 << 16];
    static double weight[1 << 10];
    hga_io io = {.query = {.data = zeros}, .key = {.data = zeros}};
    assert_true(hga_graph_nodes(input).n <= 1 << 10);
    return hga_program_weights(&program, input, &shape, &io, 1, 1, NULL, NULL, weight);
}

static hga_options options_of(const hga_allocator *a)
{
    return (hga_options){.threads = 1, .cut_edges = 64, .allocator = a};
}

/* A plan, or none and its status. */
static hga_status plan_or_none(const hga_graph *g, const hga_program *p, const hga_options *options, hga_plan **made)
{
    *made = NOWHERE;
    hga_status st = hga_plan_create(g, p, &shape, options, made);
    if (st && *made) fail_msg("%s, and yet a plan", hga_status_name(st));
    return st;
}

static hga_status plan_and_destroy(const hga_allocator *a, const hga_graph *g, const hga_program *p)
{
    hga_options options = options_of(a);
    hga_plan *made;
    hga_status st = plan_or_none(g, p, &options, &made);
    hga_plan_destroy(made);
    return st;
}

static hga_status make_plan(const hga_allocator *a) { return plan_and_destroy(a, input, &program); }

static hga_status make_wide_plan(const hga_allocator *a) { return plan_and_destroy(a, wide, &wide_program); }

/* An update that fails leaves a plan that can be destroyed. */
static hga_status make_update(const hga_allocator *a)
{
    hga_options options = options_of(a);
    hga_plan *made = NULL;
    hga_status st = hga_plan_create(input, &program, &shape, &options, &made);
    if (!st) st = hga_plan_update(made, other);
    hga_plan_destroy(made);
    return st;
}

/* Edges by their sources, for the way back: with numbers where they have types and weights, and as a pattern. */
static hga_status list_by_source(const hga_allocator *a, int with_types)
{
    hga_options options = options_of(a);
    options.gradient = 1, options.dropout = 0.5f;
    hga_plan *made = NULL;
    hga_graph *g = NULL;
    hga_builder *b = NULL;
    hga_program p;
    hga_status st = hga_builder_create(a, &b);
    if (!st) st = hga_builder_add_level(b, 60, NULL);
    if (!st) st = hga_builder_add_relation(b, "near", NULL);
    for (hga_id i = 0; i < 200 && !st; i++)
        st = hga_builder_add_edge(b, 0, i * 7 % 60, i * 11 % 59, with_types ? i % 2 : 0,
                                  with_types ? 1 + (float)(i * 7 % 60) : 1);
    if (!st) st = hga_builder_finish(b, &g);
    hga_builder_destroy(b);
    if (!st) st = hga_program_attention(&p, 0);
    if (!st) st = plan_or_none(g, &p, &options, &made);
    if (!st) st = hga_plan_prepare(made, NULL, NULL, NULL, NULL);
    hga_plan_destroy(made), hga_graph_destroy(g);
    return st;
}

static hga_status make_edges_by_source(const hga_allocator *a) { return list_by_source(a, 1); }

static hga_status make_pattern_by_source(const hga_allocator *a) { return list_by_source(a, 0); }

static hga_status make_state(const hga_allocator *a)
{
    (void)a;
    hga_workspace *workspace = NOWHERE;
    hga_status st = hga_workspace_create(plan, &workspace);
    if (st && workspace) fail_msg("%s, and yet a workspace", hga_status_name(st));
    hga_workspace_destroy(workspace);
    return st;
}

static hga_status make_explain(const hga_allocator *a)
{
    (void)a;
    char *text = NOWHERE;
    hga_status st = hga_plan_explain(plan, NULL, HGA_TEXT, &text);
    if (st && text) fail_msg("%s, and yet a text", hga_status_name(st));
    hga_text_free(text);
    return st;
}

/* A hundred rows for each tensor, the inputs' being the same. */
static hga_io io_to(float (*out)[2][8])
{
    static float x[100][2][8];
    hga_tensor in = {.data = x, .rows = 100};
    return (hga_io){.query = in, .key = in, .value = in, .out = {.data = out, .rows = 100}};
}

static hga_status make_attention(const hga_allocator *a)
{
    static float out[100][2][8];
    hga_options options = options_of(a);
    hga_io io = io_to(out);
    return hga_attention(input, &program, &shape, &options, &io);
}

/* What some rows of the output need is found where there is room for it. */
static hga_status make_ranges(const hga_allocator *a)
{
    hga_options options = options_of(a);
    options.rows = HGA_SOME_ROWS;
    hga_plan *made;
    hga_workspace *own = NULL;
    hga_status st = plan_or_none(input, &program, &options, &made);
    if (!st) st = hga_plan_update(made, other);
    if (!st) st = hga_workspace_create(made, &own);
    hga_workspace_destroy(own), hga_plan_destroy(made);
    return st;
}

/* Rows from one execution to the next. */
static hga_status make_slices(const hga_allocator *a)
{
    static float out[100][2][8], row[16];
    hga_options options = options_of(a);
    options.rows = HGA_ROWS_THAT_STAY;
    hga_id key = hga_program_field(&program, HGA_IO_KEY), above = hga_graph_nodes(input).level_ptr[1];
    hga_plan *made;
    hga_workspace *own = NULL;
    hga_io io = io_to(out);
    io.rows = &(hga_rows){.n_intervals = 1, .interval = &(hga_interval){3, 5}};
    hga_status st = plan_or_none(input, &program, &options, &made);
    if (!st) st = hga_workspace_create(made, &own);
    if (!st) st = hga_plan_execute(made, own, &io);
    if (!st) st = hga_workspace_rows(made, own, key, above, 1, HGA_ROWS_PUT, row);
    hga_workspace_destroy(own), hga_plan_destroy(made);
    return st;
}

static hga_status make_sixteen(const hga_allocator *a)
{
    static float out[100][2][8];
    hga_options options = options_of(a);
    hga_io io = io_to(out);
    io.query.dtype = HGA_F16, io.out.dtype = HGA_BF16;
    return hga_attention(input, &program, &shape, &options, &io);
}

/* What a batch runs on is made; running it takes nothing. */
static hga_status make_batch(const hga_allocator *a)
{
    static float out[2][100][2][8];
    hga_options options = options_of(a);
    hga_plan *made = NULL;
    hga_workspace *own[2] = {NULL, NULL};
    hga_io io[2];
    for (int i = 0; i < 2; i++) io[i] = io_to(out[i]);
    hga_status st = hga_plan_create(input, &program, &shape, &options, &made);
    for (int i = 0; !st && i < 2; i++) st = hga_workspace_create(made, &own[i]);
    long blocks = lent.blocks;
    if (!st) st = hga_plan_execute_batch(made, own, io, 2);
    assert_int_equal(lent.blocks, blocks);
    for (int i = 0; i < 2; i++) hga_workspace_destroy(own[i]);
    hga_plan_destroy(made);
    return st;
}

/* ---- the facts ---- */

static int prepare(void **state)
{
    (void)state;
    hga_status st;
    hga_workspace *workspace = NULL;
    hga_options options = options_of(&fused);
    hga_htransformer h1d = {.n_tokens = 45, .block = 4, .causal = 1, .relative = 1, .allocator = &fused};
    HGA_TRY(hga_build_htransformer(&h1d, &other, &program));
    h1d.relative = 0;
    HGA_TRY(hga_build_htransformer(&h1d, &input, &program));
    HGA_TRY(hga_build_window(&(hga_window){.n_tokens = 40, .left = 2, .right = 2, .stride = 1, .allocator = &fused},
                             &near, &near_program));
    HGA_TRY(hga_build_dense(&(hga_dense){.n_tokens = 150, .allocator = &fused}, &wide, &wide_program));
    HGA_TRY(hga_plan_create(input, &program, &shape, &options, &plan));
    HGA_TRY(hga_workspace_create(plan, &workspace)); /* the first one leaves something with the plan */
    hga_workspace_destroy(workspace);
done:
    if (st) print_error("%s: %s\n", hga_status_name(st), hga_error_detail());
    return st ? -1 : 0;
}

/* With everything given back nothing is left. */
static int clear(void **state)
{
    (void)state;
    hga_plan_destroy(plan);
    hga_graph_destroy(input);
    hga_graph_destroy(other);
    hga_graph_destroy(wide);
    hga_graph_destroy(near);
    return lent.blocks || lent.bytes ? -1 : 0;
}

#define ALLOCATOR_FACTS(fact)                                                                                   \
    fact(transpose) fact(compress) fact(order) fact(coarsen) fact(concat) fact(rows) fact(plan) fact(wide_plan) \
        fact(update) fact(edges_by_source) fact(pattern_by_source) fact(state) fact(attention) fact(sixteen)    \
            fact(batch) fact(ranges) fact(slices) fact(halo)
#define MALLOC_FACTS(fact)                                                                                        \
    fact(transpose) fact(compress) fact(order) fact(concat) fact(influence) fact(layers) fact(row) fact(coverage) \
        fact(edges_by_source) fact(pattern_by_source) fact(levels) fact(pattern) fact(weights) fact(explain)      \
            fact(halo)

ALLOCATOR_FACTS(BY_ALLOCATOR)
MALLOC_FACTS(BY_MALLOC)

int main(void)
{
    const struct CMUnitTest facts[] = {ALLOCATOR_FACTS(ALLOCATOR_ROW) MALLOC_FACTS(MALLOC_ROW)};
    return cmocka_run_group_tests_name("allocation_plans", facts, prepare, clear);
}
