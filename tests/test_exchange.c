/* test_exchange.c: ranks that are threads of one process compute what one process does, bit by bit, whatever is cut
   where; they send what hga_halo says; and where one fails, all do, and none hangs. */
#include "bindings.h"
#include "engine_cases.h"
#include "filling.h"
#include "random_program.h"
#include "ranks.h"
#include "slices.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { MOST_RANKS = 8, CALLS = 2 };

static const hga_shape narrow = {.n_heads = 4, .n_kv_heads = 2, .dim = 12, .dim_v = 9};

/* ---- tensors of some rows ---- */

/* How tensors lie: packed, heads first, bfloat16, float16 with gaps. */
typedef enum layout { PACKED, HEADS_FIRST, BF16_PACKED, F16_WIDE, N_LAYOUTS } layout;

typedef struct some_rows {
    hga_interval *rows;
    int64_t n_intervals, n;
} some_rows;

typedef struct tensors {
    hga_io io;
    some_rows of[HGA_FIELD_SLOTS];
    void *owned[HGA_FIELD_SLOTS + 1];
} tensors;

static hga_dtype type_of(layout l) { return l == BF16_PACKED ? HGA_BF16 : l == F16_WIDE ? HGA_F16 : HGA_F32; }

static hga_tensor empty_tensor(layout l, int64_t rows, hga_id heads, hga_id columns, void **owned)
{
    hga_tensor t = {.rows = rows, .dtype = type_of(l)};
    int64_t wide = (int64_t)heads * columns + 5;
    if (l == HEADS_FIRST) t.row_stride = columns, t.head_stride = rows * columns + 3;
    if (l == F16_WIDE) t.row_stride = wide, t.head_stride = columns;
    int64_t n = rows * wide + 4 * heads;
    t.data = *owned = memory(n + 1, sizeof(float));
    memset(t.data, 0xff, (size_t)n * sizeof(float));
    return t;
}

/* Values of a problem's tensor of field f, whole. */
static const float *values_of(const problem *p, hga_id f)
{
    const hga_tensor *t = program_tensor(&p->program, &p->io, f);
    return t->data;
}

/* Rows of the whole problem, field by field, that the plan's rank has; all of them without one. */
static void find_rows(const problem *p, const hga_plan *plan, hga_id f, some_rows *out)
{
    hga_id first, n;
    assert_ok(hga_program_rows(&p->program, p->graph, f, &first, &n));
    if (!plan) {
        *out = (some_rows){memory(1, sizeof *out->rows), 1, n};
        out->rows[0] = (hga_interval){0, n};
        return;
    }
    assert_ok(hga_plan_rank_rows(plan, f, NULL, 0, &out->n_intervals));
    out->rows = memory(out->n_intervals + 1, sizeof *out->rows);
    assert_ok(hga_plan_rank_rows(plan, f, out->rows, out->n_intervals, &out->n_intervals));
    for (int64_t i = 0; i < out->n_intervals; i++) out->n += out->rows[i].n;
}

static void open_tensors(const problem *p, const hga_plan *plan, layout l, tensors *t)
{
    *t = (tensors){.io = p->io};
    for (hga_id f = 1; f <= p->program.n_fields; f++) {
        if (p->program.field[f].binding == HGA_INTERNAL) continue;
        hga_id heads = program_heads(&p->program, &p->shape, f), columns = program_columns(&p->program, &p->shape, f);
        hga_tensor *tensor = (hga_tensor *)program_tensor(&p->program, &t->io, f);
        find_rows(p, plan, f, &t->of[f]);
        *tensor = empty_tensor(l, t->of[f].n, heads, columns, &t->owned[f]);
        if (p->program.field[f].binding == HGA_IO_OUT) continue;
        int64_t row = 0;
        for (int64_t i = 0; i < t->of[f].n_intervals; i++)
            for (int64_t k = 0; k < t->of[f].rows[i].n; k++, row++)
                for (hga_id h = 0; h < heads; h++)
                    numbers_write(tensor->dtype, values_of(p, f) + ((t->of[f].rows[i].first + k) * heads + h) * columns,
                                  columns, tensor_at(tensor, heads, columns, row, h));
    }
    if (!p->io.lse.data) return;
    hga_id out = program_bound(&p->program, HGA_IO_OUT);
    t->io.lse = empty_tensor(l == HEADS_FIRST ? l : PACKED, t->of[out].n, p->shape.n_heads, 1, &t->owned[0]);
}

static void close_tensors(tensors *t)
{
    for (int i = 0; i < HGA_FIELD_SLOTS; i++) free(t->of[i].rows), free(t->owned[i]);
}

/* Rows of a rank are those of one process. */
static void compare(const problem *p, const char *what, hga_id rank, const tensors *got, hga_id f, const hga_tensor *a,
                    const hga_tensor *b, hga_id heads, hga_id columns)
{
    int64_t row = 0;
    for (int64_t i = 0; i < got->of[f].n_intervals; i++)
        for (int64_t k = 0; k < got->of[f].rows[i].n; k++, row++)
            for (hga_id h = 0; h < heads; h++) {
                int64_t whole = got->of[f].rows[i].first + k;
                const void *x = tensor_at(a, heads, columns, row, h), *y = tensor_at(b, heads, columns, whole, h);
                if (memcmp(x, y, (size_t)columns * dtype_bytes(a->dtype)))
                    fail_msg("%s, %s: row %lld of rank %d has other bits than in one process (%g, not %g)", p->name,
                             what, (long long)whole, rank, (double)*(const float *)x, (double)*(const float *)y);
            }
}

static void compare_tensors(const problem *p, const char *what, hga_id rank, const tensors *got, const tensors *want)
{
    hga_id out = program_bound(&p->program, HGA_IO_OUT);
    for (hga_id f = 1; f <= p->program.n_fields; f++)
        if (p->program.field[f].binding != HGA_INTERNAL)
            compare(p, what, rank, got, f, program_tensor(&p->program, &got->io, f),
                    program_tensor(&p->program, &want->io, f), program_heads(&p->program, &p->shape, f),
                    program_columns(&p->program, &p->shape, f));
    if (p->io.lse.data) compare(p, what, rank, got, out, &got->io.lse, &want->io.lse, p->shape.n_heads, 1);
}

/* ---- a run ---- */

/* What a rank forgets to give: its values, all tensors, the new graph. */
typedef enum gap { NO_GAP, VALUES, TENSORS, GRAPH } gap;

typedef struct rank_run {
    const problem *p;
    const hga_exchange *x;
    const hga_id *cuts;
    hga_options options;
    layout lie;
    tensors t;
    filling f;
    gap forgets;
    const hga_graph *before; /* its plan is another graph's at first; NULL */
    hga_plan *plan;          /* where it is left */
    hga_status st;
    int allocated; /* by later calls */
    char said[300];
    pthread_t thread;
} rank_run;

static hga_status execute_rank(rank_run *r)
{
    hga_plan *plan = NULL;
    hga_workspace *workspace = NULL;
    hga_allocator a = filling_allocator(&r->f);
    hga_status st = HGA_OK;
    hga_ranks ranks = {.exchange = r->x, .cuts = r->cuts};
    r->options.ranks = &ranks, r->options.allocator = &a;
    HGA_TRY(hga_plan_create(r->before ? r->before : r->p->graph, &r->p->program, &r->p->shape, &r->options, &plan));
    if (r->before) HGA_TRY(hga_plan_update(plan, r->forgets == GRAPH ? NULL : r->p->graph));
    HGA_TRY(hga_workspace_create(plan, &workspace));
    open_tensors(r->p, plan, r->lie, &r->t);
    hga_io io = r->t.io;
    if (r->forgets == VALUES) io.value.data = NULL;
    int64_t asked = r->f.asked;
    for (int i = 0; i < CALLS; i++) {
        HGA_TRY(hga_plan_execute(plan, workspace, r->forgets == TENSORS ? NULL : &io));
        if (i == 0 && r->lie < BF16_PACKED) asked = r->f.asked;
    }
    r->allocated = r->lie < BF16_PACKED && r->f.asked != asked;
done:
    snprintf(r->said, sizeof r->said, "%s", st ? hga_error_detail() : "");
    hga_workspace_destroy(workspace);
    hga_plan_destroy(plan);
    return st;
}

static void *run_rank(void *r)
{
    ((rank_run *)r)->st = execute_rank(r);
    return NULL;
}

static void run_ranks(rank_run *runs, hga_id n_ranks)
{
    for (hga_id r = 0; r < n_ranks; r++) assert_int_equal(pthread_create(&runs[r].thread, NULL, run_rank, &runs[r]), 0);
    for (hga_id r = 0; r < n_ranks; r++) pthread_join(runs[r].thread, NULL);
}

static void open_runs(const problem *p, const hga_options *o, layout l, const hga_id *cuts, hga_exchange *xs,
                      hga_id n_ranks, rank_run *runs)
{
    for (hga_id r = 0; r < n_ranks; r++)
        runs[r] = (rank_run){.p = p, .x = &xs[r], .cuts = cuts, .options = *o, .lie = l, .f = {.byte = 0xff}};
}

/* Bytes are those that hga_halo counts; or, where shared rows are long, all that these read. */
static void check_counts(const problem *p, const hga_id *cuts, hga_id n_ranks, const hga_exchange *xs)
{
    hga_halo_list halo;
    assert_ok(hga_halo(p->graph, &p->program, &p->shape, cuts, n_ranks, &halo));
    if (halo.n_pieces) {
        hga_halo_clear(&halo);
        assert_ok(halo_find(p->graph, &p->program, &p->shape, cuts, n_ranks, 0, NULL, &halo));
    }
    for (hga_id r = 0; r < n_ranks; r++) {
        hga_dist_counts c = hga_dist_in_process_counts(&xs[r]);
        assert_int_equal(c.bytes_in, CALLS * halo.load[r].bytes_in);
        assert_int_equal(c.bytes_out, CALLS * halo.load[r].bytes_out);
    }
    hga_halo_clear(&halo);
}

static tensors run_whole(const problem *p, const hga_options *o, layout l)
{
    tensors t;
    open_tensors(p, NULL, l, &t);
    assert_ok(hga_attention(p->graph, &p->program, &p->shape, o, &t.io));
    return t;
}

static void hold(const problem *p, const char *what, const hga_options *o, layout l, const hga_id *cuts, hga_id n_ranks,
                 const hga_dist_wire *wire, const tensors *want)
{
    hga_exchange xs[MOST_RANKS];
    rank_run runs[MOST_RANKS];
    char how[200];
    snprintf(how, sizeof how, "%s, %d ranks", what, n_ranks);
    assert_ok(hga_dist_in_process(n_ranks, wire, xs));
    open_runs(p, o, l, cuts, xs, n_ranks, runs);
    run_ranks(runs, n_ranks);
    for (hga_id r = 0; r < n_ranks; r++) {
        if (runs[r].st) fail_msg("%s, %s: rank %d: %s", p->name, how, r, runs[r].said);
        compare_tensors(p, how, r, &runs[r].t, want);
        assert_int_equal(runs[r].allocated, 0);
        assert_int_equal(runs[r].f.live, 0);
    }
    check_counts(p, cuts, n_ranks, xs);
    for (hga_id r = 0; r < n_ranks; r++) close_tensors(&runs[r].t), hga_dist_destroy(&xs[r]);
}

/* ---- cuts ---- */

static hga_id tokens_of(const problem *p) { return hga_graph_nodes(p->graph).level_ptr[1]; }

static void cut_evenly(hga_id n, hga_id n_ranks, hga_id multiple, hga_id *cuts)
{
    for (hga_id r = 0; r < n_ranks; r++) cuts[r] = (hga_id)((int64_t)n * r / n_ranks) / multiple * multiple;
    cuts[n_ranks] = n;
}

/* Anywhere, ranks without tokens among them. */
static void cut_anywhere(hga_id n, hga_id n_ranks, uint64_t *rng, hga_id *cuts)
{
    cuts[0] = 0, cuts[n_ranks] = n;
    for (hga_id r = 1; r < n_ranks; r++) {
        hga_id at = random_below(rng, n + 1), i = r;
        for (; cuts[i - 1] > at; i--) cuts[i] = cuts[i - 1];
        cuts[i] = at;
    }
}

static int is_cross(const problem *p)
{
    hga_nodes n = hga_graph_nodes(p->graph);
    return n.query_first != n.key_first || n.n_queries != n.n_keys;
}

static const hga_dist_wire strict = {.fill = 1};

/* ---- every variant ---- */

static void every_variant_has_the_bits_of_one_process(void **state)
{
    static const hga_id counts[] = {1, 2, 3, 4, 7, 8};
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        hga_id cuts[MOST_RANKS + 1];
        uint64_t rng = (uint64_t)i;
        if (passed_over(i)) continue;
        variant_build(i, 330 + i, 3 + (uint64_t)i, &narrow, &p);
        if (is_cross(&p)) {
            problem_clear(&p);
            continue;
        }
        hga_options o = {.threads = 1};
        tensors want = run_whole(&p, &o, PACKED);
        for (int c = 0; c < 6; c++) {
            cut_evenly(tokens_of(&p), counts[c], 16, cuts);
            hold(&p, "cut at sixteens", &o, PACKED, cuts, counts[c], &strict, &want);
            cut_anywhere(tokens_of(&p), counts[c], &rng, cuts);
            hold(&p, "cut anywhere", &o, PACKED, cuts, counts[c], &strict, &want);
        }
        close_tensors(&want);
        problem_clear(&p);
    }
}

/* Spans of thousands of tokens that cross cuts are cut into pieces by the engine, and are whole on every rank. */
static void long_rows_that_cross_cuts_keep_their_bits(void **state)
{
    (void)state;
    for (int aligned = 0; aligned < 2; aligned++) {
        problem p;
        hga_halo_list halo;
        hga_id cuts[MOST_RANKS + 1];
        uint64_t rng = 11;
        variant_build(variant_named("bpt"), 3000, 3, &narrow, &p);
        hga_options o = {.threads = 2};
        tensors want = run_whole(&p, &o, PACKED);
        aligned ? cut_evenly(tokens_of(&p), 3, 16, cuts) : cut_anywhere(tokens_of(&p), 3, &rng, cuts);
        assert_ok(hga_halo(p.graph, &p.program, &p.shape, cuts, 3, &halo));
        assert_true(halo.n_pieces > 0);
        hold(&p, "long rows", &o, PACKED, cuts, 3, &strict, &want);
        hga_halo_clear(&halo);
        close_tensors(&want);
        problem_clear(&p);
    }
}

/* ---- options ---- */

static const hga_options settings[] = {{.threads = 3},
                                       {.threads = 2, .precision = HGA_PRECISION_BF16},
                                       {.threads = 1, .isa = "ref"},
                                       {.threads = 2, .cut_edges = 24},
                                       {.threads = 2, .generic = 1},
                                       {.threads = 1, .strict_rows = 1},
                                       {.threads = 2, .dropout = 0.25f},
                                       {.threads = 1, .precision = HGA_PRECISION_BF16, .dropout = 0.5f}};
enum { N_SETTINGS = sizeof settings / sizeof *settings };

static void options_and_layouts_change_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++)
        for (int s = 0; s < N_SETTINGS; s++) {
            problem p;
            hga_id cuts[MOST_RANKS + 1], n_ranks = 2 + (i + s) % 4;
            uint64_t rng = (uint64_t)(i * N_SETTINGS + s);
            if (passed_over(i + s)) continue;
            variant_build(i, 150 + 7 * s, 3 + (uint64_t)i, &narrow, &p);
            layout l = (layout)((i + s) % N_LAYOUTS);
            p.io.seed = 5, p.io.layer = 3;
            if (is_cross(&p)) {
                problem_clear(&p);
                continue;
            }
            char what[40];
            snprintf(what, sizeof what, "setting %d, layout %d", s, (int)l);
            tensors want = run_whole(&p, &settings[s], l);
            s % 2 ? cut_evenly(tokens_of(&p), n_ranks, 16, cuts) : cut_anywhere(tokens_of(&p), n_ranks, &rng, cuts);
            hold(&p, what, &settings[s], l, cuts, n_ranks, &strict, &want);
            close_tensors(&want);
            problem_clear(&p);
        }
}

/* Tables of types and edges, positions, softcaps, sinks and slopes, where the program can have them. */
static void tables_and_modifiers_are_every_ranks(void **state)
{
    static const float sink[] = {0.5f, -1, 2, -INFINITY}, slopes[] = {0.1f, 0, 0.02f, 1};
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        hga_id cuts[MOST_RANKS + 1];
        if (passed_over(i)) continue;
        variant_build(i, 170, 3 + (uint64_t)i, &narrow, &p);
        const hga_stage *attends = find_stage(&p.program, HGA_SCORE);
        int energies = find_stage(&p.program, HGA_ENERGY) != NULL, whole = p.shape.n_heads == 4;
        hga_modifiers m = {.size = sizeof m, .softcap = energies ? 0 : 3};
        if (p.program.has_lse && whole) m.sink = sink;
        double *at = memory(hga_graph_nodes(p.graph).n, sizeof *at);
        int has_distances = hga_graph_positions(p.graph, at) == HGA_OK;
        free(at);
        if (!energies && whole && has_distances) m.slopes = slopes;
        if (attends && !is_cross(&p)) {
            problem_fill_tables(&p, 9, 1, 1, 1);
            p.io.modifiers = &m;
            hga_options o = {.threads = 2,
                             .edge_bias = p.io.edge_bias != NULL,
                             .modifiers = (energies ? 0 : HGA_MODIFIES_SOFTCAP) | (m.slopes ? HGA_MODIFIES_SLOPES : 0)};
            tensors want = run_whole(&p, &o, PACKED);
            cut_evenly(tokens_of(&p), 3, 16, cuts);
            hold(&p, "tables and modifiers", &o, PACKED, cuts, 3, &strict, &want);
            close_tensors(&want);
        }
        problem_clear(&p);
    }
}

/* ---- any graph and program ---- */

static void fill_scales(problem *p)
{
    int32_t n = 1;
    for (hga_id r = 0; r < hga_graph_nodes(p->graph).n_relations; r++)
        if (hga_graph_relation(p->graph, r).n_types > n) n = hga_graph_relation(p->graph, r).n_types;
    p->io.type_scale = p->owned[p->n_owned++] = random_floats(7, 1, n);
    p->io.n_type_scale = n;
}

static void random_programs_on_random_graphs_cut_anywhere(void **state)
{
    int held = 0;
    (void)state;
    for (int seed = 1; seed <= thinned(400); seed++) {
        uint64_t rng = (uint64_t)seed;
        problem p = {.shape = {.n_heads = 2, .n_kv_heads = 2, .dim = 5, .dim_v = 3}};
        hga_plan *plan = NULL;
        hga_id cuts[MOST_RANKS + 1], n_ranks = 1 + random_below(&rng, MOST_RANKS);
        snprintf(p.name, sizeof p.name, "random program %d", seed);
        p.graph = random_graph((uint64_t)seed, 1 + random_below(&rng, 200), 1 + (unsigned)random_below(&rng, 63));
        p.program = random_program(&rng);
        hga_options o = {.threads = 1 + random_below(&rng, 3), .generic = random_below(&rng, 4) == 0, .slices = 1};
        if (hga_plan_create(p.graph, &p.program, &p.shape, &o, &plan) == HGA_OK && !is_cross(&p)) {
            o.slices = 0, held++;
            problem_fill(&p, rng);
            problem_fill_tables(&p, rng, 0, 0, 0);
            fill_scales(&p);
            tensors want = run_whole(&p, &o, PACKED);
            cut_anywhere(tokens_of(&p), n_ranks, &rng, cuts);
            hold(&p, "cut anywhere", &o, PACKED, cuts, n_ranks, &strict, &want);
            close_tensors(&want);
        }
        hga_plan_destroy(plan);
        problem_clear(&p);
    }
    assert_true(held > thinned(200));
}

/* ---- time ---- */

/* Rows of the output's stage that a pass computes. */
static int64_t rows_of_pass(const hga_plan *plan, const rank_pass *pass, hga_id stage)
{
    int64_t n = 0;
    for (const pass_rows *x = plan->ranks->run + pass->run, *end = x + pass->n_runs; x < end; x++) {
        const slice_job *job = &plan->slices->job[x->job];
        if (job->stage == stage && plan->phase[job->phase].job == JOB_ROWS) n += x->n;
    }
    return n;
}

static void *make_plan(void *r)
{
    rank_run *run = r;
    hga_ranks ranks = {.exchange = run->x, .cuts = run->cuts};
    hga_plan *plan = NULL;
    run->options.ranks = &ranks;
    run->st = hga_plan_create(run->p->graph, &run->p->program, &run->p->shape, &run->options, &plan);
    run->plan = plan;
    return NULL;
}

/* Of a window that sees eight to either side the sixteen rows at a rank's two ends wait for others; the rest is
   computed between start and wait. */
static void rows_that_need_nothing_of_others_are_computed_meanwhile(void **state)
{
    (void)state;
    hga_window d = hga_window_defaults();
    problem p = {.name = "window", .shape = narrow};
    hga_exchange xs[3];
    rank_run runs[3];
    hga_id cuts[] = {0, 208, 400, 600};
    hga_options o = {.threads = 1};
    d.n_tokens = 600, d.left = d.right = 8;
    assert_ok(hga_build_window(&d, &p.graph, &p.program));
    assert_ok(hga_dist_in_process(3, NULL, xs));
    open_runs(&p, &o, PACKED, cuts, xs, 3, runs);
    for (int r = 0; r < 3; r++) pthread_create(&runs[r].thread, NULL, make_plan, &runs[r]);
    for (int r = 0; r < 3; r++) pthread_join(runs[r].thread, NULL), assert_ok(runs[r].st);
    const struct rank_plan *r = runs[1].plan->ranks;
    assert_int_equal(r->n_batches, 1);
    assert_int_equal(r->n_passes, 3);
    assert_int_equal(r->pass[0].start, 0);
    assert_int_equal(r->pass[1].wait, 0);
    assert_int_equal(rows_of_pass(runs[1].plan, &r->pass[0], 0), 0);
    assert_int_equal(rows_of_pass(runs[1].plan, &r->pass[1], 0), 192 - 16);
    assert_int_equal(rows_of_pass(runs[1].plan, &r->pass[2], 0), 16);
    for (int i = 0; i < 3; i++) hga_plan_destroy(runs[i].plan), hga_dist_destroy(&xs[i]);
    problem_clear(&p);
}

static void a_rank_that_is_late_changes_nothing(void **state)
{
    static const char *const names[] = {"window", "bpt", "neighbours", "hsa", "fenwick"};
    (void)state;
    for (int i = 0; i < 5; i++) {
        problem p;
        hga_id cuts[MOST_RANKS + 1];
        variant_build(variant_named(names[i]), 260, 3, &narrow, &p);
        hga_options o = {.threads = 1};
        tensors want = run_whole(&p, &o, PACKED);
        cut_evenly(tokens_of(&p), 5, 16, cuts);
        for (uint64_t seed = 0; seed < 4; seed++)
            hold(&p, "late", &o, PACKED, cuts, 5, &(hga_dist_wire){.most_delay = 3e-3, .seed = seed, .fill = 1}, &want);
        close_tensors(&want);
        problem_clear(&p);
    }
}

/* ---- failures ---- */

/* Rank `bad` of three does something else; returns how many failed with the status. */
static void open_three(problem *p, hga_exchange *xs, rank_run *runs, hga_id *cuts)
{
    hga_options o = {.threads = 1};
    variant_build(variant_named("bpt"), 200, 3, &narrow, p);
    cut_evenly(tokens_of(p), 3, 16, cuts);
    assert_ok(hga_dist_in_process(3, NULL, xs));
    open_runs(p, &o, PACKED, cuts, xs, 3, runs);
}

static void close_three(problem *p, hga_exchange *xs, rank_run *runs)
{
    for (int r = 0; r < 3; r++) close_tensors(&runs[r].t), hga_dist_destroy(&xs[r]);
    problem_clear(p);
}

static void expect_all(const rank_run *runs, hga_status st)
{
    for (int r = 0; r < 3; r++) {
        if (runs[r].st != st) fail_msg("rank %d: %s, %s", r, hga_status_name(runs[r].st), runs[r].said);
        assert_int_equal(runs[r].f.live, 0);
    }
}

static void what_one_rank_forgets_reaches_all(void **state)
{
    (void)state;
    static const char *const what[] = {[VALUES] = "is missing", [TENSORS] = "no tensors", [GRAPH] = "no graph"};
    for (gap g = VALUES; g <= GRAPH; g++) {
        problem p;
        hga_exchange xs[3];
        rank_run runs[3];
        hga_id cuts[4];
        open_three(&p, xs, runs, cuts);
        for (int r = 0; r < 3; r++) runs[r].before = g == GRAPH ? p.graph : NULL;
        runs[1].forgets = g;
        run_ranks(runs, 3);
        expect_all(runs, HGA_EINVAL);
        assert_non_null(strstr(runs[1].said, what[g]));
        assert_non_null(strstr(runs[0].said, "rank 1 of 3 has failed"));
        close_three(&p, xs, runs);
    }
}

/* Each allocation of one rank, until none fails. */
static void a_failing_allocation_of_one_rank_reaches_all(void **state)
{
    (void)state;
    for (int64_t n = 1, over = 0; !over; n += 1 + n / 8) {
        problem p;
        hga_exchange xs[3];
        rank_run runs[3];
        hga_id cuts[4];
        open_three(&p, xs, runs, cuts);
        runs[2].f.fails_from = n;
        run_ranks(runs, 3);
        over = runs[2].st == HGA_OK;
        expect_all(runs, over ? HGA_OK : HGA_ENOMEM);
        close_three(&p, xs, runs);
    }
}

static void a_plan_that_is_updated_is_the_new_graphs(void **state)
{
    (void)state;
    static const char *const names[] = {"window", "bpt", "siblings"};
    for (int i = 0; i < 3; i++) {
        problem p, old;
        hga_exchange xs[3];
        rank_run runs[3];
        hga_id cuts[4];
        hga_options o = {.threads = 1};
        variant_build(variant_named(names[i]), 200, 3, &narrow, &p);
        variant_build(variant_named(names[i]), 200, 4, &narrow, &old);
        tensors want = run_whole(&p, &o, PACKED);
        cut_evenly(tokens_of(&p), 3, 16, cuts);
        assert_ok(hga_dist_in_process(3, &strict, xs));
        open_runs(&p, &o, PACKED, cuts, xs, 3, runs);
        for (int r = 0; r < 3; r++) runs[r].before = old.graph;
        run_ranks(runs, 3);
        expect_all(runs, HGA_OK);
        for (int r = 0; r < 3; r++) compare_tensors(&p, "updated", r, &runs[r].t, &want);
        close_tensors(&want);
        problem_clear(&old);
        close_three(&p, xs, runs);
    }
}

static void ranks_that_mean_different_things_are_told(void **state)
{
    (void)state;
    static const char *const what[] = {"different cuts",    "different options", "different options",
                                       "different program", "different program", "different program",
                                       "different shape"};
    for (int i = 0; i < 7; i++) {
        problem p;
        hga_exchange xs[3];
        rank_run runs[3];
        hga_id cuts[4], others[4];
        open_three(&p, xs, runs, cuts);
        problem other = p;
        memcpy(others, cuts, sizeof others);
        others[1] += 16;
        if (i == 0) runs[2].cuts = others;
        if (i == 1) runs[2].options.precision = HGA_PRECISION_BF16;
        if (i == 2) runs[2].options.dropout = 0.5f;
        if (i == 3) other.program.default_scale = 0.5f;
        if (i == 4) p.program.softcap = 20, other.program.softcap = 30;
        if (i == 5) other.program.stage[other.program.n_stages - 1].by_mass ^= 1;
        if (i == 6) other.shape.dim += 4;
        if (i >= 3) runs[2].p = &other;
        run_ranks(runs, 3);
        expect_all(runs, HGA_EINVAL);
        int told = 0;
        for (int r = 0; r < 3; r++) {
            told += strstr(runs[r].said, what[i]) != NULL;
            if (!strstr(runs[r].said, what[i]) && !strstr(runs[r].said, "has failed")) fail_msg("%s", runs[r].said);
        }
        assert_true(told > 0);
        close_three(&p, xs, runs);
    }
}

/* ---- what is refused ---- */

static hga_status plan_alone(const problem *p, hga_options o, const hga_ranks *ranks)
{
    hga_plan *plan = NULL;
    o.ranks = ranks;
    hga_status st = hga_plan_create(p->graph, &p->program, &p->shape, &o, &plan);
    hga_plan_destroy(plan);
    return st;
}

#define assert_refused(status, text, call)                                         \
    do {                                                                           \
        assert_status(status, call);                                               \
        if (!strstr(hga_error_detail(), text)) fail_msg("%s", hga_error_detail()); \
    } while (0)

static void what_ranks_cannot_do_is_named(void **state)
{
    (void)state;
    problem p;
    hga_exchange x;
    variant_build(variant_named("window"), 40, 3, &narrow, &p);
    const hga_options none = {.threads = 1};
    static const struct {
        hga_options o;
        const char *text;
    } refused[] = {{{.ranges = 1}, "ranks: not with options.ranges"},
                   {{.slices = 1}, "ranks: not with options.slices"},
                   {{.gradient = 1}, "ranks: not with options.gradient"},
                   {{.keep_fields = 1}, "ranks: not with options.keep_fields"}};
    const struct {
        hga_id cuts[2];
        const char *text;
    } wrong[] = {{{1, 40}, "cut 0 is 1"}, {{0, 39}, "cut 1 is 39, of 40 tokens"}};
    hga_id cuts[] = {0, 40};
    for (int i = 0; i < 4; i++) {
        assert_ok(hga_dist_in_process(1, NULL, &x));
        assert_refused(HGA_EUNSUPPORTED, refused[i].text, plan_alone(&p, refused[i].o, &(hga_ranks){&x, cuts, {0}}));
        hga_dist_destroy(&x);
    }
    for (int i = 0; i < 2; i++) {
        assert_ok(hga_dist_in_process(1, NULL, &x));
        assert_refused(HGA_EINVAL, wrong[i].text, plan_alone(&p, none, &(hga_ranks){&x, wrong[i].cuts, {0}}));
        hga_dist_destroy(&x);
    }
    /* rounded in place, after the tree's means have read them */
    problem tree;
    variant_build(variant_named("neighbours"), 40, 3, &narrow, &tree);
    assert_ok(hga_dist_in_process(1, NULL, &x));
    const hga_options plain = {.threads = 1, .generic = 1, .precision = HGA_PRECISION_BF16};
    assert_refused(HGA_EUNSUPPORTED, "before a later one writes it",
                   plan_alone(&tree, plain, &(hga_ranks){&x, cuts, {0}}));
    hga_dist_destroy(&x);
    problem_clear(&tree);
    assert_refused(HGA_EINVAL, "no exchange", plan_alone(&p, none, &(hga_ranks){NULL, cuts, {0}}));
    assert_ok(hga_dist_in_process(1, NULL, &x));
    assert_refused(HGA_EINVAL, "no cuts", plan_alone(&p, none, &(hga_ranks){&x, NULL, {0}}));
    hga_exchange short_one = x;
    short_one.size = 8;
    assert_refused(HGA_EINVAL, "an exchange of 8 bytes", plan_alone(&p, none, &(hga_ranks){&short_one, cuts, {0}}));
    hga_dist_destroy(&x);
    problem_clear(&p);
}

static void calls_of_rows_of_batches_and_decoders_are_refused(void **state)
{
    (void)state;
    problem p;
    hga_exchange x;
    hga_plan *plan;
    hga_workspace *workspace;
    hga_decoder *decoder;
    hga_id cuts[] = {0, 40};
    int64_t first, n;
    variant_build(variant_named("window_causal"), 40, 3, &narrow, &p);
    assert_ok(hga_dist_in_process(1, NULL, &x));
    hga_ranks ranks = {.exchange = &x, .cuts = cuts};
    hga_options o = {.threads = 1, .ranks = &ranks};
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &o, &plan));
    assert_ok(hga_workspace_create(plan, &workspace));
    assert_ok(hga_plan_execute(plan, workspace, &p.io));
    assert_refused(HGA_EUNSUPPORTED, "no batch", hga_plan_execute_batch(plan, &workspace, &p.io, 1));
    assert_refused(HGA_EUNSUPPORTED, "one process", hga_plan_rows(plan, HGA_IO_OUT, 0, &first, &n));
    assert_refused(HGA_EUNSUPPORTED, "options.slices",
                   hga_workspace_rows(plan, workspace, 0, 0, 0, HGA_ROWS_DROP, NULL));
    assert_refused(HGA_EUNSUPPORTED, "without options.ranks",
                   hga_decoder_create(p.graph, &p.program, &p.shape, &(hga_decode_options){.plan = o}, &decoder));
    hga_io io = p.io;
    io.first_row = 3, io.n_rows = 2;
    assert_refused(HGA_EUNSUPPORTED, "all of its rows", hga_plan_execute(plan, workspace, &io));
    hga_workspace_destroy(workspace), hga_plan_destroy(plan);
    hga_dist_destroy(&x);
    problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_has_the_bits_of_one_process),
        cmocka_unit_test(long_rows_that_cross_cuts_keep_their_bits),
        cmocka_unit_test(options_and_layouts_change_nothing),
        cmocka_unit_test(tables_and_modifiers_are_every_ranks),
        cmocka_unit_test(random_programs_on_random_graphs_cut_anywhere),
        cmocka_unit_test(rows_that_need_nothing_of_others_are_computed_meanwhile),
        cmocka_unit_test(a_rank_that_is_late_changes_nothing),
        cmocka_unit_test(what_one_rank_forgets_reaches_all),
        cmocka_unit_test(a_failing_allocation_of_one_rank_reaches_all),
        cmocka_unit_test(a_plan_that_is_updated_is_the_new_graphs),
        cmocka_unit_test(ranks_that_mean_different_things_are_told),
        cmocka_unit_test(what_ranks_cannot_do_is_named),
        cmocka_unit_test(calls_of_rows_of_batches_and_decoders_are_refused),
    };
    alarm(getenv("HGA_TEST_QUICK") ? 600 : 120); /* a rank that hangs ends the test */
    return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
