/* test_exchange_failures.c: where one rank fails, or means something else, all are told, and none hangs; what ranks
   cannot do is refused by name. */
#include "exchange.h"
#include "plan.h"

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

/* Sixteen tokens see each other; and one edge inside of rank 1, or another. */
static hga_graph *pairs(int another)
{
    hga_builder *b = NULL;
    hga_graph *g = NULL;
    hga_id relation;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 200, NULL));
    assert_ok(hga_builder_add_relation(b, "pairs", &relation));
    for (hga_id v = 0; v < 192; v += 16) assert_ok(hga_builder_add_block(b, relation, v, 16, v, 16, 0));
    assert_ok(hga_builder_add_edge(b, relation, 70, another ? 100 : 101, 0, 1));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    return g;
}

static void ranks_that_mean_different_things_are_told(void **state)
{
    (void)state;
    static const char *const what[] = {"different cuts",     "different options",  "different options",
                                       "different programs", "different programs", "different programs",
                                       "different shapes",   "different graphs",   "different instruction sets"};
    const kernel_table *best;
    assert_ok(isa_kernels(NULL, &best));
    for (int i = 0; i < 9; i++) {
        if (i == 8 && strcmp(best->isa, "ref") == 0) continue;
        problem p, pair[2], window;
        hga_exchange xs[3];
        rank_run runs[3];
        hga_id cuts[4], others[4];
        char says[80];
        open_three(&p, xs, runs, cuts);
        variant_build(variant_named("window"), 200, 3, &narrow, &window);
        for (int k = 0; k < 2; k++) pair[k] = (problem){.graph = pairs(k), .program = window.program, .shape = narrow};
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
        for (int r = 0; r < 3 && i == 7; r++) runs[r].p = &pair[r == 2];
        if (i == 8) runs[2].options.isa = "ref";
        if (i >= 3 && i < 7) runs[2].p = &other;
        run_ranks(runs, 3);
        expect_all(runs, HGA_EINVAL);
        snprintf(says, sizeof says, "ranks: rank 0 and rank 2 have %s", what[i]);
        for (int r = 0; r < 3; r++)
            if (!strstr(runs[r].said, says)) fail_msg("rank %d: %s", r, runs[r].said);
        for (int k = 0; k < 2; k++) hga_graph_destroy(pair[k].graph);
        problem_clear(&window);
        close_three(&p, xs, runs);
    }
}

/* ---- called for different things ---- */

/* Rank 1 of three does something else with its plan than execute it, or with other numbers. */
typedef enum elsewhere {
    UPDATES,
    CREATES,
    NO_SAMPLES,
    TWO_SAMPLES,
    NO_WORKSPACE,
    GOES_BACK,
    OTHER_SEED,
    OTHER_SCALE,
    OTHER_SINK,
    OTHER_PLAN,
    N_ELSEWHERE
} elsewhere;

typedef struct caller {
    rank_run run;
    elsewhere does;
    pthread_barrier_t *ready;
} caller;

static hga_status call_rank(caller *c)
{
    rank_run *r = &c->run;
    static const float sink[] = {0.5f, 1, 2, 3};
    const operands m = {.sink = sink};
    const float half = 0.5f;
    const hga_ranks ranks = {.exchange = r->x, .cuts = r->cuts};
    hga_plan *plan = NULL, *second = NULL;
    hga_workspace *workspace = NULL, *of_second = NULL, *another = NULL;
    tensors more = {0};
    hga_status st = HGA_OK;
    hga_options wide = r->options;
    void *tape = NULL;
    r->options.ranks = wide.ranks = &ranks, r->options.dropout = 0.25f, wide.strict_rows = 1;
    r->options.gradient = c->does == GOES_BACK;
    HGA_TRY(hga_plan_create(r->p->graph, &r->p->program, &r->p->shape, &r->options, &plan));
    HGA_TRY(hga_plan_create(r->p->graph, &r->p->program, &r->p->shape, &wide, &second));
    HGA_TRY(hga_workspace_create(plan, &workspace));
    HGA_TRY(hga_workspace_create(second, &of_second));
    HGA_TRY(hga_workspace_create(plan, &another));
    open_tensors(r->p, plan, PACKED, &r->t);
    open_tensors(r->p, plan, PACKED, &more);
    if (r->options.gradient) r->t.io.tape = tape = memory(hga_plan_tape_bytes(plan), 1);
    HGA_TRY(hga_plan_execute(plan, workspace, &r->t.io));
    pthread_barrier_wait(c->ready);
    if (r->x->rank != 1) {
        st = hga_plan_execute(plan, workspace, &r->t.io);
        goto done;
    }
    if (c->does == UPDATES) st = hga_plan_update(plan, r->p->graph);
    if (c->does == CREATES) st = hga_attention(r->p->graph, &r->p->program, &r->p->shape, &r->options, &r->t.io);
    if (c->does == NO_SAMPLES) st = hga_plan_execute_batch(plan, NULL, NULL, 0);
    if (c->does == TWO_SAMPLES)
        st =
            hga_plan_execute_batch(plan, (hga_workspace *const[]){workspace, another}, (hga_io[]){r->t.io, more.io}, 2);
    if (c->does == NO_WORKSPACE)
        st = hga_plan_execute_batch(plan, (hga_workspace *const[]){workspace, NULL}, (hga_io[]){r->t.io, more.io}, 2);
    if (c->does == GOES_BACK)
        st = hga_plan_gradient(plan, workspace, &r->t.io,
                               &(hga_grad_io){.d_out = more.io.out, .d_query = more.io.query});
    if (c->does == OTHER_SEED) r->t.io.seed++;
    if (c->does == OTHER_SCALE) r->t.io.scale.data = &half;
    if (c->does == OTHER_SINK) bring_to(&r->t.io, &m);
    if (c->does >= OTHER_SEED)
        st = c->does == OTHER_PLAN ? hga_plan_execute(second, of_second, &r->t.io)
                                   : hga_plan_execute(plan, workspace, &r->t.io);
done:
    snprintf(r->said, sizeof r->said, "%s", st ? hga_error_detail() : "");
    hga_workspace_destroy(workspace), hga_workspace_destroy(of_second), hga_workspace_destroy(another);
    close_tensors(&more), free(tape);
    hga_plan_destroy(plan), hga_plan_destroy(second);
    return st;
}

static void *run_caller(void *c)
{
    ((caller *)c)->run.st = call_rank(c);
    return NULL;
}

static void ranks_that_are_called_for_different_things_are_told(void **state)
{
    static const char *const what[] = {[UPDATES] = "updates a plan",
                                       [CREATES] = "makes a plan",
                                       [NO_SAMPLES] = "different numbers of samples",
                                       [TWO_SAMPLES] = "different numbers of samples",
                                       [NO_WORKSPACE] = "sample 1: no workspace",
                                       [GOES_BACK] = "runs backward",
                                       [OTHER_SEED] = "different seeds, layers or tables",
                                       [OTHER_SCALE] = "different seeds, layers or tables",
                                       [OTHER_SINK] = "different seeds, layers or tables",
                                       [OTHER_PLAN] = "different plans"};
    (void)state;
    for (elsewhere e = UPDATES; e < N_ELSEWHERE; e++) {
        problem p;
        hga_exchange xs[3];
        rank_run runs[3];
        caller callers[3];
        hga_id cuts[4];
        pthread_barrier_t ready;
        open_three(&p, xs, runs, cuts);
        assert_int_equal(pthread_barrier_init(&ready, NULL, 3), 0);
        for (int r = 0; r < 3; r++) {
            callers[r] = (caller){runs[r], e, &ready};
            assert_int_equal(pthread_create(&callers[r].run.thread, NULL, run_caller, &callers[r]), 0);
        }
        for (int r = 0; r < 3; r++) {
            pthread_join(callers[r].run.thread, NULL);
            runs[r] = callers[r].run;
        }
        for (int r = 0; r < 3; r++)
            if (runs[r].st != HGA_EINVAL || !strstr(runs[r].said, what[e])) fail_msg("rank %d: %s", r, runs[r].said);
        pthread_barrier_destroy(&ready);
        close_three(&p, xs, runs);
    }
}

/* Ranks whose seeds or layers differ draw different edges, where any are dropped; where none are, they are nothing to
   anybody. */
static void seeds_and_layers_count_where_edges_are_dropped(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        int drops = i / 2, layers = i % 2;
        problem p, own[3];
        hga_exchange xs[3];
        rank_run runs[3];
        hga_id cuts[4];
        open_three(&p, xs, runs, cuts);
        for (int r = 0; r < 3; r++) {
            own[r] = p, runs[r].p = &own[r], runs[r].options.dropout = drops ? 0.25f : 0;
            if (layers)
                own[r].io.layer = (uint32_t)r;
            else
                own[r].io.seed = (uint64_t)r;
        }
        run_ranks(runs, 3);
        expect_all(runs, drops ? HGA_EINVAL : HGA_OK);
        if (drops) assert_non_null(strstr(runs[1].said, "different seeds, layers or tables"));
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
    } refused[] = {{{.rows = HGA_SOME_ROWS}, "ranks: not with options.rows"},
                   {{.rows = HGA_ROWS_THAT_STAY}, "ranks: not with options.rows"},
                   {{.keep_fields = 1}, "ranks: not with options.keep_fields"}};
    const struct {
        hga_id cuts[2];
        const char *text;
    } wrong[] = {{{1, 40}, "cut 0 is 1"}, {{0, 39}, "cut 1 is 39, of 40 tokens"}};
    hga_id cuts[] = {0, 40};
    for (int i = 0; i < 3; i++) {
        assert_ok(hga_dist_in_process(1, NULL, &x));
        assert_refused(HGA_EUNSUPPORTED, refused[i].text,
                       plan_alone(&p, refused[i].o, &(hga_ranks){.exchange = &x, .cuts = cuts}));
        hga_dist_destroy(&x);
    }
    for (int i = 0; i < 2; i++) {
        assert_ok(hga_dist_in_process(1, NULL, &x));
        assert_refused(HGA_EINVAL, wrong[i].text,
                       plan_alone(&p, none, &(hga_ranks){.exchange = &x, .cuts = wrong[i].cuts}));
        hga_dist_destroy(&x);
    }
    assert_refused(HGA_EINVAL, "no exchange", plan_alone(&p, none, &(hga_ranks){.exchange = NULL, .cuts = cuts}));
    assert_ok(hga_dist_in_process(1, NULL, &x));
    assert_refused(HGA_EINVAL, "no cuts", plan_alone(&p, none, &(hga_ranks){.exchange = &x, .cuts = NULL}));
    assert_refused(HGA_EINVAL, "hga_ranks",
                   plan_alone(&p, none, &(hga_ranks){.exchange = &x, .cuts = cuts, .reserved = {1}}));
    hga_exchange short_one = x;
    short_one.size = 8;
    assert_refused(HGA_EINVAL, "an exchange of 8 bytes",
                   plan_alone(&p, none, &(hga_ranks){.exchange = &short_one, .cuts = cuts}));
    hga_dist_destroy(&x);
    problem_clear(&p);
}

/* What is below other ranks' nodes they do not bring. */
static void entmax_of_energies_is_for_one_process(void **state)
{
    (void)state;
    problem p;
    hga_exchange x;
    variant_build(variant_named("hsa"), 40, 3, &narrow, &p);
    const hga_id n = hga_graph_nodes(p.graph).n_queries, cuts[] = {0, n};
    assert_ok(hga_program_normalise(&p.program, HGA_NORMALISER_ENTMAX, 1.5));
    assert_ok(hga_dist_in_process(1, NULL, &x));
    assert_refused(HGA_EUNSUPPORTED, "ranks: entmax of energies is for one process",
                   plan_alone(&p, (hga_options){.threads = 1}, &(hga_ranks){.exchange = &x, .cuts = cuts}));
    hga_dist_destroy(&x), problem_clear(&p);
}

static void calls_of_rows_and_decoders_are_refused(void **state)
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
    assert_refused(HGA_EUNSUPPORTED, "one process", hga_plan_rows(plan, HGA_IO_OUT, 0, &first, &n));
    assert_refused(HGA_EUNSUPPORTED, "HGA_ROWS_THAT_STAY",
                   hga_workspace_rows(plan, workspace, 0, 0, 0, HGA_ROWS_DROP, NULL));
    assert_refused(HGA_EUNSUPPORTED, "without options.ranks",
                   hga_decoder_create(p.graph, &p.program, &p.shape, &(hga_decode_options){.plan = o}, &decoder));
    hga_io io = p.io;
    io.rows = SOME_ROWS(3, 2);
    assert_refused(HGA_EUNSUPPORTED, "all of its rows", hga_plan_execute(plan, workspace, &io));
    hga_workspace_destroy(workspace), hga_plan_destroy(plan);
    hga_dist_destroy(&x);
    problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_rank_forgets_reaches_all),
        cmocka_unit_test(a_failing_allocation_of_one_rank_reaches_all),
        cmocka_unit_test(a_plan_that_is_updated_is_the_new_graphs),
        cmocka_unit_test(ranks_that_mean_different_things_are_told),
        cmocka_unit_test(ranks_that_are_called_for_different_things_are_told),
        cmocka_unit_test(seeds_and_layers_count_where_edges_are_dropped),
        cmocka_unit_test(entmax_of_energies_is_for_one_process),
        cmocka_unit_test(what_ranks_cannot_do_is_named),
        cmocka_unit_test(calls_of_rows_and_decoders_are_refused),
    };
    end_when_ranks_hang();
    return cmocka_run_group_tests_name("exchange_failures", tests, NULL, NULL);
}
