/* Cases that random graphs and the variants pass by: each was broken on purpose once, and nothing else noticed. */
#include "by_hand.h"
#include "explain_solvers.h"
#include "plan.h"
#include "workspace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- order ---- */

/* Each token itself; and each the three tokens around its mirror image. */
static hga_graph *mirror_graph(hga_id n)
{
    hga_builder *b = tokens_alone(n);
    hga_id own, mirror;
    assert_ok(hga_builder_add_relation(b, "own", &own));
    assert_ok(hga_builder_add_relation(b, "mirror", &mirror));
    for (hga_id i = 0; i < n; i++) {
        assert_ok(hga_builder_add_edge(b, own, i, i, 0, 1));
        for (hga_id j = n - 2 - i; j <= n - i; j++)
            if (j >= 0 && j < n) assert_ok(hga_builder_add_edge(b, mirror, i, j, 0, 1));
    }
    return finished(b);
}

/* Means are written, attended to from the other end of the tokens, and written once more. */
static void who_writes_again_waits_for_the_readers(void **state)
{
    (void)state;
    problem p = {.name = "mirror", .graph = mirror_graph(3000), .shape = {.n_heads = 2, .dim = 8}};
    attention f = attention_on_nodes(&p.program);
    hga_id m = field_on_nodes(&p.program, "m", HGA_WIDTH_VALUE, HGA_INTERNAL);
    assert_ok(hga_program_mean(&p.program, 0, f.value, m, 0));
    assert_ok(hga_program_attend(&p.program, 1, f.query, f.key, m, f.out, 0));
    assert_ok(hga_program_mean(&p.program, 1, f.value, m, 0));
    assert_ok(hga_program_attend_more(&p.program, 1, f.query, f.key, m, f.out, 0));
    p.program.has_lse = 1;
    problem_fill(&p, 1);
    for (hga_id threads = 1; threads <= 4; threads++) {
        p.options.threads = threads;
        assert_equals_slow(&p, 3e-5);
    }
    problem_clear(&p);
}

/* ---- families ---- */

/* Four tokens of sixteen attend to each other, the next four to four nodes above, and so on: families of one group
   whose keys are the caller's and the workspace's in turns. */
static hga_graph *families_in_turns(hga_id n)
{
    hga_id above, near;
    hga_builder *b = tokens_alone(n);
    assert_ok(hga_builder_add_level(b, n / 4, &above));
    assert_ok(hga_builder_set_families(b, above, 0, n, 4));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id i = 0; i < n; i += 4)
        assert_ok(hga_builder_add_block(b, near, i, 4, i / 4 % 2 ? above + i % 32 / 8 * 4 : i, 4, i / 4 % 3));
    return finished(b);
}

static const hga_shape of_three = {.n_heads = 3, .dim = 9, .dim_v = 5};

/* Of n tokens, over means of keys and values. */
static problem attention_of_families(hga_id n, hga_shape shape)
{
    problem p = {.name = "families", .graph = families_in_turns(n), .shape = shape};
    attention f = attention_on_nodes(&p.program);
    p.program.field[f.key].io = p.program.field[f.value].io = HGA_ROWS_KEYS;
    assert_ok(hga_program_coarsen(&p.program, f.key));
    assert_ok(hga_program_coarsen(&p.program, f.value));
    assert_ok(hga_program_attend(&p.program, 0, f.query, f.key, f.value, f.out, 0));
    problem_fill(&p, 5);
    return p;
}

static void families_side_by_side_have_keys_at_strides_of_their_own(void **state)
{
    (void)state;
    problem p = attention_of_families(128, of_three);
    assert_equals_slow(&p, 3e-6);
    p.io.key = with_heads_copied(&p, &p.io.key, 3, 9);
    assert_equals_slow(&p, 3e-6);
    p.io.value = with_heads_copied(&p, &p.io.value, 3, 5);
    assert_equals_slow(&p, 3e-6);
    problem_fill_tables(&p, 1, 1, 1, 0);
    assert_equals_slow(&p, 3e-6);
    problem_clear(&p);
}

static const kernel_table *counted;
static int64_t n_families;
static void count_family(const kernel_family *c)
{
    n_families += c->terms.r && c->head_bias;
    counted->attend_family(c);
}

/* Relative keys and biases of types that a row's columns share do not keep rows from going by families. */
static void families_have_types(void **state)
{
    (void)state;
    problem p = attention_of_families(128, of_three);
    hga_plan *plan;
    hga_workspace *own;
    problem_fill_tables(&p, 1, 1, 1, 0);
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.threads = 1}, &plan));
    assert_ok(hga_workspace_create(plan, &own));
    kernel_table counting = *plan->machine.kernels;
    counted = plan->machine.kernels, plan->machine.kernels = &counting, counting.attend_family = count_family;
    n_families = 0;
    assert_ok(hga_plan_execute(plan, own, &p.io));
    assert_true(n_families >= 128 / 16);
    plan->machine.kernels = counted;
    hga_workspace_destroy(own), hga_plan_destroy(plan), problem_clear(&p);
}

/* The outputs, and whether some rows went panel by panel. */
static float *out_of_families(problem *p, const hga_options *options, int *panels)
{
    hga_plan *plan;
    hga_workspace *own;
    pair_solvers solvers[HGA_MAX_STAGES];
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, options, &plan));
    assert_ok(hga_workspace_create(plan, &own));
    assert_ok(hga_plan_execute(plan, own, &p->io));
    assert_ok(solvers_find(plan, &p->io, solvers));
    *panels = 0;
    for (hga_id s = 0; s < p->program.n_stages; s++)
        if (solvers[s].applies >> SOLVER_EQUAL & 1) *panels = 1;
    hga_workspace_destroy(own), hga_plan_destroy(plan);
    float *out = memory(out_count(p), sizeof *out);
    memcpy(out, p->io.out.data, (size_t)out_count(p) * sizeof *out);
    return out;
}

/* Panels of equal families have the bits of families that are looked at group by group, as in a call whose types add
   nothing. Rows of the caller and of the workspace, heads apart, shared keys, members who see themselves or those
   before them; and families that are no panel's: the last of a level, or too large. */
static void panels_of_equal_families_have_families_bits(void **state)
{
    (void)state;
    static const hga_id branching[][4] = {{2, 4, 8, 16}, {4, 2, 2, 2}, {8, 8, 4, 2}, {16, 4, 4, 4}, {3, 4, 4, 4}};
    static const int least[] = {1, 1, 1, 0, 0};
    static const hga_shape shapes[] = {
        {.n_heads = 3, .dim = 9, .dim_v = 5}, {.n_heads = 8, .dim = 64}, {.n_heads = 4, .n_kv_heads = 2, .dim = 24}};
    static const float nothing[8];
    for (int i = 0; i < 5 * 3 * 3; i++) {
        if (every_other_passed_over(i)) continue;
        const int kind = i % 3;
        hga_hsa h;
        hga_defaults(&h);
        problem p = {.name = "equal families", .shape = shapes[i / 3 % 3]};
        h.n_tokens = 300, h.branching = branching[i / 9], h.n_branching = 4;
        h.self = kind == 1, h.causal = kind == 2, h.mode = HGA_HSA_SELF;
        assert_ok(hga_build_hsa(&h, &p.graph, &p.program));
        problem_fill(&p, (uint64_t)i);
        if (i % 2) p.io.key = with_heads_copied(&p, &p.io.key, p.shape.n_kv_heads ? 2 : p.shape.n_heads, p.shape.dim);
        int rows, none;
        float *together = out_of_families(&p, &(hga_options){.threads = 1}, &rows);
        p.io.rel_bias.data = nothing, p.io.rel_bias.rows = 1;
        float *apart = out_of_families(&p, &(hga_options){.threads = 1}, &none);
        assert_true(!none && rows >= (least[i / 9] && kind == 0));
        assert_same_bits(p.name, together, apart, out_count(&p));
        free(together), free(apart), problem_clear(&p);
    }
}

/* One block of families of some tokens, or nearly that: with a hole or a triangle, weighted, on other rows than their
   own, at other steps, on too few rows or columns, given twice, beside another block. */
static hga_graph *nearly_families(uint64_t *rng, hga_id n, hga_id members)
{
    static const hga_shape_kind kinds[] = {HGA_ALL, HGA_OFF_DIAGONAL, HGA_LOWER, HGA_STRICT_LOWER};
    hga_block b[2] = {{.n_dst = members, .n_src = members, .dst_step = members, .src_step = members}};
    hga_id n_blocks = 1;
    b[0].count = n / members, b[0].shape = kinds[random_below(rng, 4)];
    if (random_below(rng, 2)) b[0].weight = 2.5f;
    switch (random_below(rng, 10)) {
    case 0: b[0].dst = 16, b[0].count -= 16 / members; break;
    case 1: b[0].src = b[0].dst = 2, b[0].count -= members > 1; break;
    case 2: b[0].src_step = 0; break;
    case 3: b[0].src_step = 1; break;
    case 4: b[0].dst_step = members / 2; break;
    case 5: b[0].n_src--, b[0].src_step -= members == 2; break;
    case 6: b[0].count -= 16 / members; break;
    case 7: b[n_blocks++] = b[0]; break;
    case 8: b[n_blocks++] = (hga_block){.dst = 20, .n_dst = 4, .src = 1, .n_src = 3, .count = 1}; break;
    default: break;
    }
    return blocks_over(n, b, n_blocks);
}

static void what_is_nearly_equal_families_is_not_taken_for_them(void **state)
{
    (void)state;
    static const float nothing[8];
    uint64_t rng = 3;
    int rows, none, all = 0;
    for (int i = 0; i < 600; i++) {
        problem p = {.name = "nearly families", .shape = {.n_heads = 2, .dim = 16}};
        p.graph = nearly_families(&rng, 48 + 16 * random_below(&rng, 3), (hga_id)2 << random_below(&rng, 4));
        if (every_other_passed_over(i)) {
            hga_graph_destroy(p.graph);
            continue;
        }
        attention f = attention_on_nodes(&p.program);
        assert_ok(hga_program_attend(&p.program, 0, f.query, f.key, f.value, f.out, i % 2));
        problem_fill(&p, (uint64_t)i);
        assert_equals_slow(&p, 3e-5);
        float *together = out_of_families(&p, &(hga_options){.threads = 1}, &rows);
        p.io.rel_bias.data = nothing, p.io.rel_bias.rows = 1;
        float *apart = out_of_families(&p, &(hga_options){.threads = 1}, &none);
        assert_same_bits(p.name, together, apart, out_count(&p));
        all += rows;
        free(together), free(apart), problem_clear(&p);
    }
    assert_true(all > 0);
}

/* Families ask for tokens that later means read, each once and nothing else, where the caller's rows are large and lie
   from end to end. */
static const problem *asked;
static ptrdiff_t n_asked;
static int is_of(const hga_tensor *t, const problem *p, const float *from, const float *to)
{
    const float *first = t->data;
    return from >= first && to <= first + (ptrdiff_t)t->rows * p->shape.n_heads * p->shape.dim;
}
static ptrdiff_t floats_left(const kernel_ahead *a)
{
    ptrdiff_t floats = 0;
    for (hga_id i = 0; i < a->n; i++) {
        const float *at = a->range[i].at, *end = a->range[i].end;
        assert_true(is_of(&asked->io.query, asked, at, end) || is_of(&asked->io.key, asked, at, end) ||
                    is_of(&asked->io.value, asked, at, end));
        floats += end - at;
    }
    return floats;
}
static void watch_family(const kernel_family *c)
{
    ptrdiff_t before = floats_left(c->ahead);
    counted->attend_family(c);
    n_asked += before - floats_left(c->ahead);
}
static ptrdiff_t floats_asked(problem *p, int64_t large)
{
    hga_plan *plan;
    hga_workspace *own;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, &(hga_options){.threads = 1}, &plan));
    assert_ok(hga_workspace_create(plan, &own));
    kernel_table watching = *plan->machine.kernels;
    counted = plan->machine.kernels, plan->machine.kernels = &watching, watching.attend_family = watch_family;
    plan->machine.tuning.is.stream_output = large;
    asked = p, n_asked = 0;
    assert_ok(hga_plan_execute(plan, own, &p->io));
    plan->machine.kernels = counted;
    hga_workspace_destroy(own), hga_plan_destroy(plan);
    return n_asked;
}

static void families_ask_for_tokens_that_means_read_next(void **state)
{
    (void)state;
    enum { TOKENS = 4096, HEADS = 2, DIM = 16, ALL = 2 * TOKENS * HEADS * DIM };
    problem p = attention_of_families(TOKENS, (hga_shape){.n_heads = HEADS, .dim = DIM, .dim_v = DIM});
    ptrdiff_t floats = floats_asked(&p, 0);
    assert_true(floats > ALL / 4 && floats <= ALL);
    assert_int_equal(floats_asked(&p, INT64_MAX), 0);
    p.io.key = with_heads_copied(&p, &p.io.key, HEADS, DIM);
    p.io.value = with_heads_copied(&p, &p.io.value, HEADS, DIM);
    assert_int_equal(floats_asked(&p, 0), 0);
    problem_clear(&p);
    p = (problem){.name = "equal families", .shape = {.n_heads = HEADS, .dim = DIM}};
    assert_ok(hga_build("hsa branching=4", TOKENS, &p.graph, &p.program));
    problem_fill(&p, 4);
    floats = floats_asked(&p, 0);
    assert_true(floats > ALL / 4 && floats <= ALL / 2 * 3);
    problem_clear(&p);
}

/* ---- tiles ---- */

/* Both groups of sixteen rows see the same columns, in the same order, but by other types. */
static void equal_columns_of_other_types_are_other_columns(void **state)
{
    (void)state;
    hga_builder *b = tokens_alone(32);
    hga_id near;
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id i = 0; i < 2; i++)
        for (hga_id h = 0; h < 2; h++) assert_ok(hga_builder_add_block(b, near, 16 * i, 16, 8 * h, 8, i ? 1 - h : h));
    problem p = {.name = "types", .graph = finished(b), .shape = {.n_heads = 2, .dim = 8}};
    attention f = attention_on_nodes(&p.program);
    assert_ok(hga_program_attend(&p.program, near, f.query, f.key, f.value, f.out, 0));
    p.program.has_lse = 1;
    problem_fill(&p, 2);
    problem_fill_tables(&p, 3, 0, 1, 0);
    assert_equals_slow(&p, 3e-5);
    problem_clear(&p);
}

/* ---- canonical positions ---- */

/* Two blocks share two columns, so that rows have equal edges, each with a bias of its own. */
static void equal_edges_have_positions_of_their_own(void **state)
{
    (void)state;
    hga_builder *b = tokens_alone(4);
    hga_id near;
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_block(b, near, 0, 4, 0, 3, 0));
    assert_ok(hga_builder_add_block(b, near, 0, 4, 1, 3, 0));
    problem p = {.name = "equal edges", .graph = finished(b), .shape = {.n_heads = 1, .dim = 4}};
    attention f = attention_on_nodes(&p.program);
    assert_ok(hga_program_attend(&p.program, near, f.query, f.key, f.value, f.out, 0));
    p.program.has_lse = 1;
    problem_fill(&p, 4);
    float bias[24];
    fill_random(5, 2, 24, bias);
    p.io.edge_bias.data = bias, p.io.edge_bias.rows = 24, p.io.edge_bias.columns = 1;
    for (p.options.generic = 0; p.options.generic < 2; p.options.generic++) assert_equals_slow(&p, 3e-5);
    problem_clear(&p);
}

/* ---- long sums ---- */

/* 2^24 and then ones, each of which a float sum of that size would lose. */
static void long_sums_do_not_stop_counting(void **state)
{
    (void)state;
    enum { KEYS = 60000, CUT = 4096 };
    hga_builder *b = tokens_alone(KEYS);
    hga_id all;
    assert_ok(hga_builder_add_relation(b, "all", &all));
    assert_ok(hga_builder_add_block(b, all, 0, 1, 0, KEYS, 0));
    problem p = {.name = "long sum", .graph = finished(b), .shape = {.n_heads = 1, .dim = 1}};
    hga_program_init(&p.program);
    hga_id value = field_on_nodes(&p.program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE);
    hga_id out = field_on_nodes(&p.program, "o", HGA_WIDTH_OUT, HGA_IO_OUT);
    assert_ok(hga_program_weighted_sum(&p.program, all, value, out));
    problem_fill(&p, 6);
    float *x = p.io.value.data;
    for (int i = 0; i < KEYS; i++) x[i] = i ? 1 : 16777216;
    p.io.type_scale.data = (const float[]){1}, p.io.type_scale.rows = 1;
    problem_run(&p);
    double lost = 16777216 + (KEYS - 1) - (double)((float *)p.io.out.data)[0];
    assert_true(lost >= 0 && lost <= CUT); /* those that came before the first doubles */
    problem_clear(&p);
}

/* ---- the user's tensors, and operands written twice ---- */

/* Means of the caller's x and of the caller's y are attended to, one after the other, out of one field. */
static void attend_two_tensors(hga_program *p)
{
    attention f = attention_on_nodes(p);
    hga_id x = field_on_nodes(p, "x", HGA_WIDTH_VALUE, HGA_IO_USER),
           y = field_on_nodes(p, "y", HGA_WIDTH_VALUE, HGA_IO_USER),
           m = field_on_nodes(p, "m", HGA_WIDTH_VALUE, HGA_INTERNAL);
    assert_ok(hga_program_mean(p, 0, x, m, 0));
    assert_ok(hga_program_attend(p, 1, f.query, f.key, m, f.out, 0));
    assert_ok(hga_program_mean(p, 1, y, m, 0));
    assert_ok(hga_program_attend_more(p, 1, f.query, f.key, m, f.out, 0));
    p->has_lse = 1;
}

static void the_callers_own_tensors_are_operands_like_others(void **state)
{
    (void)state;
    problem p = {.name = "two tensors", .graph = mirror_graph(500), .shape = {.n_heads = 2, .dim = 8}};
    attend_two_tensors(&p.program);
    problem_fill(&p, 7);
    for (int i = 0; i < 2; i++)
        p.io.user[i] =
            (hga_tensor){.data = p.owned[p.n_owned++] = random_floats(8 + (uint64_t)i, 2, 500 * 2 * 8), .rows = 500};
    for (p.options.generic = 0; p.options.generic < 2; p.options.generic++) {
        p.options.precision = HGA_PRECISION_F32;
        assert_equals_slow(&p, 3e-5);
        p.options.precision = HGA_PRECISION_BF16;
        assert_equals_slow(&p, 6e-2);
    }
    problem_clear(&p);
}

/* What the loss gains by an entry of each is what its gradient says: values are linear in it. */
static void the_callers_own_tensors_have_slopes_like_others(void **state)
{
    (void)state;
    enum { N = 40, HEADS = 2, DIM = 3, COUNT = N * HEADS * DIM };
    problem p = {.name = "two slopes", .graph = mirror_graph(N), .shape = {.n_heads = HEADS, .dim = DIM}};
    float own[2][COUNT], slope[2][COUNT], d_out[COUNT];
    hga_grad_io grad = {.d_out = {.data = d_out, .rows = N}};
    hga_plan *plan;
    hga_workspace *workspace;
    attend_two_tensors(&p.program);
    problem_fill(&p, 7);
    fill_random(10, 1, COUNT, d_out);
    for (int i = 0; i < 2; i++) {
        fill_random(8 + (uint64_t)i, 2, COUNT, own[i]);
        p.io.user[i] = (hga_tensor){.data = own[i], .rows = N};
        grad.d_user[i] = (hga_tensor){.data = slope[i], .rows = N};
    }
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.gradient = 1}, &plan));
    assert_ok(hga_workspace_create(plan, &workspace));
    p.io.tape = memory(hga_plan_tape_bytes(plan), 1);
    assert_ok(hga_plan_execute(plan, workspace, &p.io));
    assert_ok(hga_plan_gradient(plan, workspace, &p.io, &grad));
    for (int i = 0; i < 2; i++)
        for (int64_t at = 0; at < COUNT; at += 7) {
            double before, after, want = (double)slope[i][at];
            hga_gradient_input input = (hga_gradient_input)(HGA_GRADIENT_USER + i);
            assert_ok(hga_plan_loss(plan, &p.io, &grad, input, at, 0, &before));
            assert_ok(hga_plan_loss(plan, &p.io, &grad, input, at, 1, &after));
            if (!(fabs(after - before - want) <= 2e-5 * fmax(1, fabs(want))))
                fail_msg("tensor %d at %d: %.9g, not %.9g", i, (int)at, after - before, want);
        }
    free(p.io.tape), p.io.tape = NULL;
    hga_workspace_destroy(workspace), hga_plan_destroy(plan), problem_clear(&p);
}

/* Borrowed means borrowed: what the caller does to the tensors after an execution does not show in the fields kept. */
static void kept_fields_outlive_the_callers_tensors(void **state)
{
    (void)state;
    enum { N = 40, HEADS = 2, DIM = 3 };
    problem p = {.name = "kept", .graph = mirror_graph(N), .shape = {.n_heads = HEADS, .dim = DIM}};
    attention f = attention_on_nodes(&p.program);
    assert_ok(hga_program_attend(&p.program, 1, f.query, f.key, f.value, f.out, 0));
    p.program.has_lse = 1;
    problem_fill(&p, 9);
    float *const tensor[] = {p.io.query.data, p.io.key.data, p.io.value.data, p.io.out.data};
    for (int generic = 0; generic < 2; generic++) {
        hga_plan *plan;
        hga_workspace *w;
        float want[4][N * HEADS * DIM], got[N * HEADS * (DIM + 1)];
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.keep_fields = 1, .generic = generic},
                                  &plan));
        assert_ok(hga_workspace_create(plan, &w));
        assert_ok(hga_plan_execute(plan, w, &p.io));
        for (int i = 0; i < 4; i++) {
            memcpy(want[i], tensor[i], sizeof want[i]);
            for (int j = 0; j < N * HEADS * DIM; j++) tensor[i][j] = -77;
        }
        for (hga_id i = 0; i < 4; i++) {
            int columns = i == 3 ? DIM + 1 : DIM; /* a state has its log-sum-exp besides */
            assert_ok(hga_workspace_field(plan, w, i + 1, 0, N, got));
            for (int j = 0; j < N * HEADS; j++)
                assert_memory_equal(got + j * columns, want[i] + j * DIM, DIM * sizeof *got);
            memcpy(tensor[i], want[i], sizeof want[i]);
        }
        hga_workspace_destroy(w), hga_plan_destroy(plan);
    }
    problem_clear(&p);
}

/* Chunks that groups share have columns that some of the groups do not see, or nobody. */
static void what_is_not_finite_stays_with_those_who_see_it_in_shared_chunks(void **state)
{
    (void)state;
    enum { TOKENS = 700, SPOILT = 100 };
    problem p = {.name = "spans", .shape = {.n_heads = 2, .dim = 20}};
    assert_ok(hga_build("bpt k=64", TOKENS, &p.graph, &p.program));
    problem_fill(&p, 3);
    for (int precision = 0; precision < 2; precision++) {
        ((float *)p.io.value.data)[SPOILT * 40 + 7] = INFINITY, ((float *)p.io.key.data)[(SPOILT + 250) * 40] = NAN;
        hga_options plain = {.generic = 1, .precision = precision ? HGA_PRECISION_BF16 : HGA_PRECISION_F32},
                    fast = {.threads = 1, .precision = plain.precision};
        float *want = problem_out(&p, &plain, NULL), *got = problem_out(&p, &fast, NULL);
        int64_t odd = 0;
        for (int64_t i = 0; i < out_count(&p); i++) {
            if (isfinite(want[i]) != isfinite(got[i]))
                fail_msg("entry %lld is %g, not %g", (long long)i, (double)got[i], (double)want[i]);
            odd += !isfinite(want[i]);
        }
        assert_true(odd > 0 && odd < out_count(&p) / 2);
        free(want), free(got);
    }
    problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_writes_again_waits_for_the_readers),
        cmocka_unit_test(families_side_by_side_have_keys_at_strides_of_their_own),
        cmocka_unit_test(families_have_types),
        cmocka_unit_test(panels_of_equal_families_have_families_bits),
        cmocka_unit_test(what_is_nearly_equal_families_is_not_taken_for_them),
        cmocka_unit_test(families_ask_for_tokens_that_means_read_next),
        cmocka_unit_test(equal_columns_of_other_types_are_other_columns),
        cmocka_unit_test(equal_edges_have_positions_of_their_own),
        cmocka_unit_test(long_sums_do_not_stop_counting),
        cmocka_unit_test(the_callers_own_tensors_are_operands_like_others),
        cmocka_unit_test(the_callers_own_tensors_have_slopes_like_others),
        cmocka_unit_test(kept_fields_outlive_the_callers_tensors),
        cmocka_unit_test(what_is_not_finite_stays_with_those_who_see_it_in_shared_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
