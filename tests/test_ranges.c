/* Some rows of the output alone: the bits they have among all, and nothing else is touched. */
#include "by_hand.h"
#include "engine_cases.h"
#include "plan.h"

#include "slices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const hga_shape narrow = {.n_heads = 2, .dim = 12, .dim_v = 9, .pos_dim = 4};

/* What rows hold that nobody writes. */
enum { UNTOUCHED = 0xA5 };

static void open_plan(const problem *p, hga_options o, hga_plan **plan, hga_workspace **own)
{
    o.rows = HGA_SOME_ROWS;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, &o, plan));
    assert_ok(hga_workspace_create(*plan, own));
}

/* Rows [first, first + n) of got are those of want, and around them is what was there. */
static void check_range(const char *name, const float *got, const float *want, int64_t columns, int64_t rows,
                        int64_t first, int64_t n)
{
    size_t row = (size_t)columns * sizeof *got;
    unsigned char untouched[4096];
    assert_true(row <= sizeof untouched);
    memset(untouched, UNTOUCHED, sizeof untouched);
    for (int64_t v = 0; v < rows; v++) {
        int asked = v >= first && v - first < n;
        if (memcmp(got + v * columns, asked ? want + v * columns : (const float *)(const void *)untouched, row))
            fail_msg("%s: row %lld, of rows %lld + %lld asked for", name, (long long)v, (long long)first, (long long)n);
    }
}

/* A few rows, every other time one alone. */
static void check_ranges(problem *p, hga_options o, uint64_t seed, int ranges)
{
    hga_plan *plan;
    hga_workspace *own;
    float *lse = NULL, *want = problem_out(p, &o, p->io.lse.data ? &lse : NULL);
    float *got = memory(out_count(p), sizeof *got), *got_lse = memory(lse_count(p) + 1, sizeof *got_lse);
    int64_t columns = (int64_t)p->shape.n_heads * p->shape.dim_v;
    hga_io io = p->io;
    io.out.data = got;
    if (io.lse.data) io.lse.data = got_lse;
    open_plan(p, o, &plan, &own);
    for (int i = 0; i < ranges; i++) {
        memset(got, UNTOUCHED, (size_t)out_count(p) * sizeof *got);
        memset(got_lse, UNTOUCHED, (size_t)lse_count(p) * sizeof *got_lse);
        hga_id first = random_below(&seed, p->n_out), n = 1 + random_below(&seed, i % 2 ? p->n_out - first : 1);
        io.rows = SOME_ROWS(first, n);
        assert_ok(hga_plan_execute(plan, own, &io));
        check_range(p->name, got, want, columns, p->n_out, first, n);
        if (io.lse.data) check_range(p->name, got_lse, lse, p->shape.n_heads, p->n_out, first, n);
    }
    io.rows = NULL;
    assert_ok(hga_plan_execute(plan, own, &io));
    assert_same_bits(p->name, got, want, out_count(p));
    free(want), free(lse), free(got), free(got_lse);
    hga_workspace_destroy(own), hga_plan_destroy(plan);
}

/* Threads that have blocks of tokens in turn, and rows of a few of these blocks. */
static void rows_of_blocks_in_turn_have_the_bits_they_have_among_all(void **state)
{
    static const char *const words[] = {"fenwick", "hsa branching=4 causal=1"};
    static const hga_options options[] = {
        {.threads = 2}, {.threads = 3, .dropout = 0.3f}, {.threads = 2, .precision = HGA_PRECISION_BF16}};
    (void)state;
    setenv("HGA_TUNING", "cyclic_bytes=1024", 1); /* blocks of 64 tokens, the least */
    for (size_t i = 0; i < 2 * sizeof options / sizeof *options; i++) {
        hga_options one = options[i / 2], o = one;
        problem p = {.shape = narrow};
        hga_plan *plan;
        snprintf(p.name, sizeof p.name, "%s", words[i % 2]);
        assert_ok(hga_build(words[i % 2], 64 * 16 * 3 + 29, &p.graph, &p.program));
        problem_fill(&p, 5 + i), p.io.seed = 7;
        one.threads = 1, o.rows = HGA_SOME_ROWS;
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &o, &plan));
        assert_int_equal(plan->team.cyclic, 64);
        hga_plan_destroy(plan);
        o.rows = 0;
        float *alone = problem_out(&p, &one, NULL), *first_accumulator = problem_out(&p, &o, NULL);
        assert_same_bits(p.name, first_accumulator, alone, out_count(&p));
        check_ranges(&p, o, i, 8);
        free(alone), free(first_accumulator), problem_clear(&p);
    }
    unsetenv("HGA_TUNING");
}

static void check_problem(problem *p, hga_options o, uint64_t seed) { check_ranges(p, o, seed, 6); }

static void rows_asked_for_have_the_bits_they_have_among_all(void **state)
{
    static const hga_options options[] = {{.threads = 1},
                                          {.threads = 3},
                                          {.threads = 2, .precision = HGA_PRECISION_BF16},
                                          {.threads = 2, .cut_edges = 64},
                                          {.threads = 2, .generic = 1}};
    (void)state;
    for (int i = 0; i < n_variants(); i++)
        for (uint64_t seed = 1; seed < 3; seed++) {
            problem p;
            variant_build(i, 170 + 60 * (hga_id)seed, seed, &narrow, &p);
            check_problem(&p, options[(i + (int)seed) % 5], seed);
            problem_clear(&p);
        }
}

static void rows_of_large_graphs_have_the_bits_they_have_among_all(void **state)
{
    static const char *const names[] = {"dense_causal", "window_global", "neighbours_wide", "neighbours_linear",
                                        "bpt_wide",     "hsa_wide",      "coarse",          "fine"};
    (void)state;
    for (int i = 0; i < 8; i++) {
        problem p;
        variant_build(variant_named(names[i]), 3001, 5, &narrow, &p);
        check_problem(&p, (hga_options){.threads = 2, .cut_edges = i % 2 ? 512 : 0}, 7 + (uint64_t)i);
        problem_clear(&p);
    }
}

static void any_of_many_ranges_has_the_bits_it_has_among_all(void **state)
{
    static const char *const names[] = {"window", "dense_causal", "neighbours_causal", "bpt"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        problem p;
        variant_build(variant_named(names[i]), 300 + 100 * i, 9, &narrow, &p);
        p.program.has_lse = 1;
        check_ranges(&p, (hga_options){.threads = 1 + i % 2}, 11 + (uint64_t)i, thinned(300));
        problem_clear(&p);
    }
}

/* Is a row in one of the intervals? */
static int is_requested(const hga_rows *rows, int64_t v)
{
    int64_t i = 0;
    while (i < rows->n_intervals && v >= rows->interval[i].first + rows->interval[i].n) i++;
    return i < rows->n_intervals && v >= rows->interval[i].first;
}

/* Ascending intervals of some of n rows. */
static hga_rows random_intervals(uint64_t *seed, int64_t n, hga_interval buffer[4])
{
    hga_rows rows = {.interval = buffer};
    for (int64_t at = random_below(seed, n / 2); at < n && rows.n_intervals < 4; rows.n_intervals++) {
        int64_t many = 1 + random_below(seed, (n - at + 1) / 2);
        buffer[rows.n_intervals] = (hga_interval){at, many};
        at += many + random_below(seed, n / 4);
    }
    return rows;
}

/* Rows of any intervals have the bits they have among all, of float32 and of 16 bits; the others stay as they are. */
static void rows_of_several_intervals_have_the_bits_they_have_among_all(void **state)
{
    static const char *const names[] = {"bpt_causal", "neighbours", "window_global", "hsa", "fine"};
    (void)state;
    for (int i = 0; i < 40; i++) {
        problem p;
        hga_plan *plan;
        hga_workspace *own;
        hga_interval buffer[4];
        uint64_t seed = 3 + (uint64_t)i;
        hga_options o = {.threads = 1 + i % 3};
        if (passed_over(i)) continue;
        variant_build(variant_named(names[i % 5]), 100 + 9 * i, seed, &narrow, &p);
        p.io.out.dtype = i % 4 == 3 ? HGA_BF16 : HGA_F32;
        size_t row = (size_t)(narrow.n_heads * narrow.dim_v) * (p.io.out.dtype ? sizeof(uint16_t) : sizeof(float));
        char *want = memory(p.n_out, row), *got = memory(p.n_out, row), untouched[128];
        hga_rows rows = random_intervals(&seed, p.n_out, buffer);
        hga_io io = p.io;
        open_plan(&p, o, &plan, &own);
        io.out.data = want;
        assert_ok(hga_plan_execute(plan, own, &io));
        io.out.data = got, io.rows = &rows;
        memset(got, UNTOUCHED, (size_t)p.n_out * row), memset(untouched, UNTOUCHED, row);
        assert_ok(hga_plan_execute(plan, own, &io));
        for (int64_t v = 0; v < p.n_out; v++)
            if (memcmp(got + (size_t)v * row, is_requested(&rows, v) ? want + (size_t)v * row : untouched, row))
                fail_msg("%s %d: row %lld", p.name, i, (long long)v);
        free(want), free(got);
        hga_workspace_destroy(own), hga_plan_destroy(plan), problem_clear(&p);
    }
}

/* Two relations of a few blocks with some edges of single rows among them, the first perhaps in an order of its own. */
static hga_graph *blocks_and_edges(uint64_t *rng, hga_id n, int ordered)
{
    hga_builder *b = tokens_alone(n);
    hga_id *order = memory(n, sizeof *order);
    for (hga_id i = 0, j; i < n; i++) j = random_below(rng, i + 1), order[i] = order[j], order[j] = i;
    for (hga_id r = 0; r < 2; r++) {
        assert_ok(hga_builder_add_relation(b, r ? "far" : "near", NULL));
        if (ordered && r == 0) assert_ok(hga_builder_set_order(b, r, order, n, NULL, 0));
        for (hga_id k = 1 + random_below(rng, 4); k > 0; k--) {
            hga_id dst = random_below(rng, n - 1), src = random_below(rng, n - 1), rows = 1 + random_below(rng, 40),
                   columns = 1 + random_below(rng, 40);
            assert_ok(hga_builder_add_block(b, r, dst, rows < n - dst ? rows : n - dst, src,
                                            columns < n - src ? columns : n - src, 0));
        }
        for (hga_id k = random_below(rng, 60); k > 0; k--)
            assert_ok(hga_builder_add_edge(b, r, random_below(rng, n), random_below(rng, n), 0, 1));
    }
    free(order);
    return finished(b);
}

/* What goes into tiles depends on the rows that there are, not on those that are asked for: explicit edges among
   blocks, rows in an order of their own, a second relation that is merged in. */
static void rows_over_explicit_edges_have_the_bits_they_have_among_all(void **state)
{
    static const hga_options options[] = {{.threads = 1},
                                          {.threads = 2, .isa = "ref"},
                                          {.threads = 2, .cut_edges = 20},
                                          {.threads = 2, .dropout = 0.2f},
                                          {.threads = 1, .precision = HGA_PRECISION_BF16}};
    static const hga_shape several[] = {{.n_heads = 1, .dim = 32, .dim_v = 32},
                                        {.n_heads = 6, .n_kv_heads = 2, .dim = 7, .dim_v = 11}};
    (void)state;
    for (int i = 0; i < 400; i++) {
        uint64_t rng = 7 * (uint64_t)i + 1;
        problem p = {.shape = several[i % 3 == 0]};
        if (passed_over(i)) continue;
        snprintf(p.name, sizeof p.name, "blocks and edges %d", i);
        p.graph = blocks_and_edges(&rng, 30 + random_below(&rng, 70), i % 2);
        attention f = attention_on_nodes(&p.program);
        assert_ok(hga_program_attend(&p.program, i / 2 % 2, f.query, f.key, f.value, f.out, 0));
        if (i / 2 % 2) assert_ok(hga_program_attend_more(&p.program, 0, f.query, f.key, f.value, f.out, 0));
        p.program.has_lse = 1;
        problem_fill(&p, (uint64_t)i);
        check_problem(&p, options[i / 4 % 5], (uint64_t)i);
        problem_clear(&p);
    }
}

/* ---- down the levels ---- */

/* What a stage of the user's adds up from above, and the fields that get one more. */
typedef struct depth {
    hga_id read, mark, out;
} depth;

static void depth_begin(void *s, const hga_end *v, hga_id head, void *ctx)
{
    (void)v, (void)head, (void)ctx;
    *(float *)s = 1;
}

static void depth_edge(void *s, const hga_edge *e, hga_id head, void *ctx)
{
    (void)head;
    *(float *)s += e->source.field[((const depth *)ctx)->read][0];
}

static void depth_finish(const void *s, const hga_end *v, hga_id head, void *ctx)
{
    const depth *d = ctx;
    (void)head;
    v->field[d->mark][0] = *(const float *)s;
    for (hga_id c = 0; c < v->columns[d->out]; c++) v->field[d->out][c] = *(const float *)s;
}

/* A stage that goes down the tree and writes the output of all nodes beside the field whose rows it goes through. Where
   it reads that field above, no row can be left out; else rows are, and what is written with them. */
static void an_output_beside_a_stages_own_field_is_left_out(void **state)
{
    (void)state;
    for (int reads_above = 0; reads_above < 2; reads_above++) {
        hga_builder *b = tokens_alone(40);
        assert_ok(hga_builder_add_level(b, 10, NULL));
        for (hga_id i = 0; i < 10; i++) assert_ok(hga_builder_set_children(b, 40 + i, 4 * i, 4));
        problem p = {.name = "depths", .graph = finished(b), .shape = narrow};
        hga_program_init(&p.program);
        hga_id input = field_on_nodes(&p.program, "given", HGA_WIDTH_VALUE, HGA_IO_VALUE),
               mark = field_on_nodes(&p.program, "mark", HGA_WIDTH_SCALAR, HGA_INTERNAL),
               out = field_on_nodes(&p.program, "out", HGA_WIDTH_OUT, HGA_IO_OUT);
        depth d = {reads_above ? mark : input, mark, out};
        assert_ok(hga_program_add_stage(&p.program, &(hga_stage){.name = "down",
                                                                 .relation = HGA_TREE_DOWN,
                                                                 .order = HGA_LEVELS_DOWN,
                                                                 .message = HGA_MESSAGE_USER,
                                                                 .reduce = HGA_REDUCE_USER,
                                                                 .update = HGA_UPDATE_USER,
                                                                 .out = mark,
                                                                 .reads = 1u << d.read,
                                                                 .writes = 1u << mark | 1u << out,
                                                                 .udf = {.state_bytes = sizeof(float),
                                                                         .begin = depth_begin,
                                                                         .edge = depth_edge,
                                                                         .finish = depth_finish,
                                                                         .ctx = &d}}));
        problem_fill(&p, 1);
        hga_plan *plan;
        if (reads_above)
            assert_status(HGA_EUNSUPPORTED,
                          hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.rows = HGA_SOME_ROWS}, &plan));
        else
            check_problem(&p, (hga_options){.threads = 2}, 3);
        problem_clear(&p);
    }
}

/* The output of other rows than queries: a plan says that it cannot leave rows out, or does. */
static void whatever_rows_the_output_has_others_are_left_alone(void **state)
{
    (void)state;
    int run = 0, refused = 0;
    for (int i = 0; i < 6 * N_PROGRAMS; i++) {
        problem p;
        hga_plan *plan;
        hga_options o = {.threads = 2, .rows = HGA_SOME_ROWS};
        random_problem(i % N_PROGRAMS, 63, 20 + 30 * (i / N_PROGRAMS), 5 + (uint64_t)i, narrow, &p);
        hga_id out = hga_program_field(&p.program, HGA_IO_OUT);
        p.program.field[out].io = i / N_PROGRAMS % 2 ? HGA_ROWS_ABOVE : HGA_ROWS_NODES;
        problem_fill(&p, 3);
        hga_status st = hga_plan_create(p.graph, &p.program, &p.shape, &o, &plan);
        if (st) assert_status(HGA_EUNSUPPORTED, st), assert_non_null(strstr(hga_error_detail(), "cannot be left out"));
        if (!st) hga_plan_destroy(plan), check_problem(&p, o, (uint64_t)i);
        st ? refused++ : run++;
        problem_clear(&p);
    }
    assert_true(run > 0 && refused > 0);
}

/* Means and what is scaled back from them, where the output is declared before what it is made of: nobody reads the
   output, so that any of its rows may be left out. */
static void an_output_that_nobody_reads_can_be_left_out(void **state)
{
    (void)state;
    hga_builder *b = tokens_alone(40);
    hga_id near;
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_block(b, near, 0, 40, 0, 40, 0));
    problem p = {.name = "means", .graph = finished(b), .shape = narrow};
    hga_program_init(&p.program);
    hga_id v = field_on_nodes(&p.program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE),
           out = field_on_nodes(&p.program, "out", HGA_WIDTH_OUT, HGA_IO_OUT),
           mean = field_on_nodes(&p.program, "mean", HGA_WIDTH_VALUE, HGA_INTERNAL);
    assert_ok(hga_program_mean(&p.program, near, v, mean, 0));
    assert_ok(hga_program_weighted_sum(&p.program, near, mean, out));
    problem_fill(&p, 1);
    p.io.type_scale.data = (const float[]){0.5f}, p.io.type_scale.rows = 1;
    for (int generic = 0; generic < 2; generic++) check_problem(&p, (hga_options){.threads = 2, .generic = generic}, 3);
    problem_clear(&p);
}

/* The panels of attending stages that rows [first, first + n) need, as a share of all. */
static double share_needed(const hga_plan *plan, hga_id first, hga_id n)
{
    slice x;
    void *buffer = memory(slices_bytes(plan), 1);
    int64_t count = 0, all = 0;
    memset(buffer, 0, (size_t)slices_bytes(plan));
    slice_open(plan, &x, buffer);
    slice_begin(plan, &x);
    slice_request(plan, &x, first, n);
    slice_find(plan, &x);
    for (int64_t i = 0; i < plan->phases.n; i++) {
        const phase *ph = &plan->phases.list[i];
        if (ph->job != JOB_ROWS || !kind_attends(plan->stage[ph->stage].kind)) continue;
        all += ph->n_panels;
        for (hga_id p = 0; p < ph->n_panels; p++) {
            int64_t begin = p * ph->panel, end = begin + phase_rows(ph, p);
            count += bits_next(slice_rows(&x, ph, ph->stage), begin, end) < end;
        }
    }
    free(buffer);
    return (double)count / (double)all;
}

/* A sixteenth of the tokens needs about a sixteenth of the panels. */
static void what_rows_do_not_need_is_not_computed(void **state)
{
    static const char *const names[] = {"dense_causal", "window_causal", "neighbours_causal", "bpt_causal"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        problem p;
        hga_plan *plan;
        hga_workspace *own;
        variant_build(variant_named(names[i]), 16384, 3, &(hga_shape){.n_heads = 1, .dim = 4}, &p);
        open_plan(&p, (hga_options){.threads = 1}, &plan, &own);
        hga_id n = (hga_id)p.n_out, first = i == 3 ? 8192 : n / 2; /* spans' rows are behind those of the tokens */
        double share = share_needed(plan, first, 1024);
        if (share > 0.1) fail_msg("%s: %.3f of the panels for 1024 of %d rows", p.name, share, n);
        hga_workspace_destroy(own), hga_plan_destroy(plan);
        problem_clear(&p);
    }
}

/* Columns that kernels attend to for a group of sixteen rows, or for fewer; for how many rows tiles add values. */
static int64_t n_attended, n_added;
static const kernel_table *counted;

static void count_tile(const kernel_tile *t)
{
    n_attended += (int64_t)t->n_groups * t->n;
    for (hga_id i = 0; i < t->n_groups; i++) n_added += (t->group[i].n_rows - t->group[i].first_row) * (int64_t)t->n;
    counted->attend_tile(t);
}

static void count_chunk(const kernel_chunk *c, kernel_state *s)
{
    n_attended += c->n;
    counted->attend(c, s);
}

static void count_heads(const kernel_heads *c)
{
    n_attended += c->n;
    counted->attend_heads(c);
}

static void count_family(const kernel_family *c)
{
    n_attended += c->n;
    counted->attend_family(c);
}

static int64_t count_columns(const hga_plan *plan, hga_workspace *own, const hga_io *io)
{
    n_attended = n_added = 0;
    assert_ok(hga_plan_execute(plan, own, io));
    return n_attended;
}

/* One row costs the scores of its group of sixteen and values of its own, not a panel of 128, nor those of the rows
   that lie with it in some list. */
static void one_row_attends_as_its_group_does(void **state)
{
    static const char *const words[] = {"window left=128 right=128", "window left=300", "dense"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        problem p = {.shape = {.n_heads = 1, .dim = 8}};
        hga_plan *plan;
        hga_workspace *own;
        hga_id n = i == 2 ? 2048 : 8192;
        assert_ok(hga_build(words[i], n, &p.graph, &p.program));
        problem_fill(&p, 1);
        open_plan(&p, (hga_options){.threads = 1}, &plan, &own);
        kernel_table counting = *plan->machine.kernels;
        counted = plan->machine.kernels, plan->machine.kernels = &counting;
        counting.attend_tile = count_tile, counting.attend = count_chunk;
        counting.attend_heads = count_heads, counting.attend_family = count_family;
        int64_t all = count_columns(plan, own, &p.io);
        p.io.rows = SOME_ROWS(n / 2 + 3, 1);
        int64_t one = count_columns(plan, own, &p.io);
        if (one < 1 || one * (n / 16) > 2 * all)
            fail_msg("%s: %lld columns for one row, %lld for all %d", words[i], (long long)one, (long long)all, n);
        if (n_added < 1 || n_added > one) fail_msg("%s: values are added %lld times", words[i], (long long)n_added);
        plan->machine.kernels = counted;
        double panels = (double)plan->stage[0].panels, needed = panels * share_needed(plan, n / 2 + 3, 1);
        if (needed < 0.5 || needed > 1.5) fail_msg("%s: %.0f of %.0f panels are needed", words[i], needed, panels);
        hga_workspace_destroy(own), hga_plan_destroy(plan), problem_clear(&p);
    }
}

static void assert_detail(const char *want)
{
    if (!strstr(hga_error_detail(), want)) fail_msg("'%s' does not say '%s'", hga_error_detail(), want);
}

static void ranges_are_checked(void **state)
{
    (void)state;
    problem p;
    hga_plan *plan;
    hga_workspace *own;
    variant_build(variant_named("neighbours"), 100, 3, &narrow, &p);
    open_plan(&p, (hga_options){.threads = 1, .gradient = 1}, &plan, &own);
    static const int64_t wrong[][2] = {{-1, 3}, {0, 101},       {100, 1}, {99, 2}, {5, 0},
                                       {5, -1}, {1, INT64_MAX}, {0, -1},  {0, 0}};
    hga_io io = p.io;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        io.rows = SOME_ROWS(wrong[i][0], wrong[i][1]);
        assert_status(HGA_EINVAL, hga_plan_execute(plan, own, &io));
        assert_detail("but the output has 100");
    }
    const hga_interval one = {5, 10};
    const hga_rows several = {.n_intervals = 2, .interval = (const hga_interval[]){{1, 2}, {2, 3}}};
    io.rows = SOME_ROWS(5, 10);
    assert_ok(hga_plan_execute(plan, own, &io));
    io.rows = &several;
    assert_status(HGA_EINVAL, hga_plan_execute(plan, own, &io));
    assert_detail("rows 2 + 3 are asked for behind rows 1 + 2; intervals ascend");
    io.rows = &(hga_rows){.n_intervals = 0, .interval = &one};
    assert_status(HGA_EINVAL, hga_plan_execute(plan, own, &io));
    assert_detail("hga_rows has 0 intervals");
    io.rows = &(hga_rows){.n_intervals = 1};
    assert_status(HGA_EINVAL, hga_plan_execute(plan, own, &io));
    assert_detail("which are missing");
    io.rows = &(hga_rows){.n_intervals = 1, .interval = &one, .reserved = {0, 1}};
    assert_status(HGA_EINVAL, hga_plan_execute(plan, own, &io));
    assert_detail("hga_rows: byte 8 of its reserved words");
    io.rows = SOME_ROWS(5, 10);
    hga_workspace_destroy(own), hga_plan_destroy(plan);
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, NULL, &plan));
    assert_ok(hga_workspace_create(plan, &own));
    assert_status(HGA_EINVAL, hga_plan_execute(plan, own, &io));
    assert_detail("rows 5 + 10 are asked for, but the plan was made without options.rows");
    hga_workspace_destroy(own), hga_plan_destroy(plan);
    hga_options o = {.rows = HGA_SOME_ROWS, .keep_fields = 1};
    assert_status(HGA_EUNSUPPORTED, hga_plan_create(p.graph, &p.program, &p.shape, &o, &plan));
    assert_detail("options.rows: keep_fields");
    for (int64_t rows = -1; rows < 4; rows += 4) {
        o = (hga_options){.rows = rows};
        assert_status(HGA_EINVAL, hga_plan_create(p.graph, &p.program, &p.shape, &o, &plan));
        assert_detail("is not one of HGA_EVERY_ROW, HGA_SOME_ROWS, HGA_ROWS_THAT_STAY");
    }
    problem_clear(&p);
}

/* Energies read the states of all tokens: where those are the output, none may be left out. */
static void outputs_that_other_rows_read_cannot_be_left_out(void **state)
{
    (void)state;
    problem p;
    hga_plan *plan;
    variant_build(variant_named("hsa"), 100, 3, &narrow, &p);
    hga_field *field = p.program.field;
    hga_id attended = find_stage(&p.program, HGA_SCORE)->out, out = 1;
    while (field[out].binding != HGA_IO_OUT) out++;
    assert_true(out != attended);
    field[attended].binding = HGA_IO_OUT, field[attended].io = field[out].io, field[out].binding = HGA_INTERNAL;
    hga_options o = {.rows = HGA_SOME_ROWS};
    assert_status(HGA_EUNSUPPORTED, hga_plan_create(p.graph, &p.program, &p.shape, &o, &plan));
    assert_detail("at other rows of the output, which cannot be left out");
    problem_clear(&p);
}

static void double_begin(void *s, const hga_end *v, hga_id head, void *ctx) { (void)s, (void)v, (void)head, (void)ctx; }

static void double_edge(void *s, const hga_edge *e, hga_id head, void *ctx) { (void)s, (void)e, (void)head, (void)ctx; }

/* twice = 2 out, both of the row itself */
static void double_finish(const void *s, const hga_end *v, hga_id head, void *ctx)
{
    const depth *d = ctx;
    (void)s, (void)head;
    for (hga_id c = 0; c < v->columns[d->mark]; c++) v->field[d->mark][c] = 2 * v->field[d->read][c];
}

/* Four pairs of tokens. A token attends to its pair; then twice each row of the output is a value that is attended
   to. */
static void open_pairs(problem *p, depth *d)
{
    hga_builder *b = tokens_alone(8);
    hga_id near, nothing;
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_relation(b, "nothing", &nothing));
    assert_ok(hga_builder_add_blocks(b, near,
                                     &(hga_block){.n_dst = 2, .n_src = 2, .count = 4, .dst_step = 2, .src_step = 2}));
    *p = (problem){.name = "pairs", .graph = finished(b), .shape = narrow};
    hga_program_init(&p->program);
    const hga_id query = field_on_nodes(&p->program, "query", HGA_WIDTH_KEY, HGA_IO_QUERY),
                 key = field_on_nodes(&p->program, "key", HGA_WIDTH_KV_KEY, HGA_IO_KEY),
                 value = field_on_nodes(&p->program, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE),
                 twice = field_on_nodes(&p->program, "twice", HGA_WIDTH_VALUE, HGA_INTERNAL),
                 out = field_on_nodes(&p->program, "out", HGA_WIDTH_STATE, HGA_IO_OUT);
    *d = (depth){.read = out, .mark = twice};
    assert_ok(hga_program_attend(&p->program, near, query, key, value, out, 0));
    assert_ok(hga_program_add_stage(&p->program, &(hga_stage){.name = "double",
                                                              .relation = nothing,
                                                              .message = HGA_MESSAGE_USER,
                                                              .reduce = HGA_REDUCE_USER,
                                                              .update = HGA_UPDATE_USER,
                                                              .out = twice,
                                                              .reads = 1u << out,
                                                              .writes = 1u << twice,
                                                              .udf = {.state_bytes = sizeof(float),
                                                                      .begin = double_begin,
                                                                      .edge = double_edge,
                                                                      .finish = double_finish,
                                                                      .ctx = d}}));
    assert_ok(hga_program_attend_more(&p->program, near, query, key, twice, out, 0));
    problem_fill(p, 1);
}

/* Rows that are made of other rows of the output need these: a call that does not request them is refused, and writes
   nothing, unless they were requested before and what is made of them stays. */
static void rows_made_of_rows_of_the_output_need_these(void **state)
{
    (void)state;
    const int64_t columns = (int64_t)narrow.n_heads * narrow.dim_v;
    problem p;
    depth d;
    open_pairs(&p, &d);
    float *want = problem_out(&p, &(hga_options){.threads = 1}, NULL), *got = memory(out_count(&p), sizeof *got);
    for (int stay = 0; stay < 2; stay++) {
        hga_plan *plan;
        hga_workspace *own;
        const hga_options o = {.rows = stay ? HGA_ROWS_THAT_STAY : HGA_SOME_ROWS};
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &o, &plan));
        assert_ok(hga_workspace_create(plan, &own));
        hga_io io = p.io;
        io.out.data = got;
        static const struct {
            hga_id first, n;
            int refused[2]; /* where rows do not stay, and where they do */
        } call[] = {{4, 1, {1, 1}}, {4, 2, {0, 0}}, {4, 1, {1, 0}}, {7, 1, {1, 1}}, {0, 8, {0, 0}}};
        for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
            memset(got, UNTOUCHED, (size_t)out_count(&p) * sizeof *got);
            io.rows = SOME_ROWS(call[i].first, call[i].n);
            const hga_status st = hga_plan_execute(plan, own, &io);
            assert_int_equal(st, call[i].refused[stay] ? HGA_EUNSUPPORTED : HGA_OK);
            check_range(p.name, got, want, columns, 8, call[i].first, st ? 0 : call[i].n);
            if (!st) continue;
            assert_detail(call[i].first == 4 ? "row 5 of the output is not requested" : "row 6 of the output is not");
            assert_int_equal(strstr(hga_error_detail(), "request it now, or before") != NULL, stay);
        }
        hga_workspace_destroy(own), hga_plan_destroy(plan);
    }
    free(want), free(got);
    problem_clear(&p);
}

/* Updates take the ranges along. */
static void plans_with_ranges_are_updated(void **state)
{
    (void)state;
    problem p, other;
    hga_plan *plan;
    hga_workspace *own;
    variant_build(variant_named("neighbours"), 300, 3, &narrow, &p);
    variant_build(variant_named("neighbours"), 200, 3, &narrow, &other);
    open_plan(&p, (hga_options){.threads = 1}, &plan, &own);
    assert_ok(hga_plan_update(plan, other.graph));
    float *want = problem_out(&other, &(hga_options){.threads = 1}, NULL);
    hga_io io = other.io;
    memset(io.out.data, UNTOUCHED, (size_t)out_count(&other) * sizeof(float));
    io.rows = SOME_ROWS(50, 77);
    assert_ok(hga_plan_execute(plan, own, &io));
    check_range("updated", io.out.data, want, (int64_t)narrow.n_heads * narrow.dim_v, other.n_out, 50, 77);
    free(want);
    hga_workspace_destroy(own), hga_plan_destroy(plan);
    problem_clear(&p), problem_clear(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_asked_for_have_the_bits_they_have_among_all),
                                       cmocka_unit_test(rows_of_large_graphs_have_the_bits_they_have_among_all),
                                       cmocka_unit_test(rows_of_blocks_in_turn_have_the_bits_they_have_among_all),
                                       cmocka_unit_test(rows_over_explicit_edges_have_the_bits_they_have_among_all),
                                       cmocka_unit_test(an_output_beside_a_stages_own_field_is_left_out),
                                       cmocka_unit_test(whatever_rows_the_output_has_others_are_left_alone),
                                       cmocka_unit_test(an_output_that_nobody_reads_can_be_left_out),
                                       cmocka_unit_test(what_rows_do_not_need_is_not_computed),
                                       cmocka_unit_test(any_of_many_ranges_has_the_bits_it_has_among_all),
                                       cmocka_unit_test(rows_of_several_intervals_have_the_bits_they_have_among_all),
                                       cmocka_unit_test(one_row_attends_as_its_group_does),
                                       cmocka_unit_test(ranges_are_checked),
                                       cmocka_unit_test(outputs_that_other_rows_read_cannot_be_left_out),
                                       cmocka_unit_test(rows_made_of_rows_of_the_output_need_these),
                                       cmocka_unit_test(plans_with_ranges_are_updated)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
