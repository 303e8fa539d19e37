/* Equal inputs give equal bits: whatever the number of threads, the machine, and from inside a caller's
   parallel region. */
#define _GNU_SOURCE
#include "instruments.h"
#include "slopes.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TOKENS = 170, CALLERS = 4 };

static const hga_shape shape = {.n_heads = 3, .dim = 20, .dim_v = 12, .pos_dim = 4};

/* Run with other options and compare with what one thread of this machine gave. */
static void compare(problem *p, const float *want, const float *want_lse, const char *how, hga_options options)
{
    char what[200];
    float *lse, *out = problem_out(p, &options, &lse);
    snprintf(what, sizeof what, "%s: %s", p->name, how);
    assert_same_bits(what, out, want, out_count(p));
    if (want_lse && p->program.has_lse) assert_same_bits(what, lse, want_lse, lse_count(p));
    free(out), free(lse);
}

static void check_machines(problem *p, hga_pos cut)
{
    static const hga_id threads[] = {2, 3, 5, 8};
    static const char *const machines[] = {"pack:1 core:1 pu:1", "pack:2 numa:1 core:4 pu:1",
                                           "pack:2 numa:2 core:2 pu:2", "numa:3 core:1 pu:1"};
    char how[100];
    float *lse, *out = problem_out(p, &(hga_options){.threads = 1, .cut_edges = cut}, &lse);
    for (int t = 0; t < 4; t++) {
        snprintf(how, sizeof how, "%d threads", threads[t]);
        compare(p, out, lse, how, (hga_options){.threads = threads[t], .cut_edges = cut});
        snprintf(how, sizeof how, "%d threads on %s", threads[t], machines[t]);
        compare(p, out, lse, how, (hga_options){.threads = threads[t], .cut_edges = cut, .topology = machines[t]});
    }
    compare(p, out, lse, "bound threads", (hga_options){.threads = 2, .cut_edges = cut, .bind = 1});
    compare(p, out, lse, "as many threads as there are", (hga_options){.cut_edges = cut});
    free(out), free(lse);
}

static void bits_do_not_depend_on_threads_or_machine(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        if (passed_over(i)) continue;
        variant_build(i, TOKENS, 21, &shape, &p);
        check_machines(&p, i % 2 ? 0 : 64);
        problem_clear(&p);
    }
}

/* Thousands of rows: full panels, tiles, and rows long enough to be cut. */
static void bits_of_large_graphs_do_not_depend_on_threads(void **state)
{
    static const char *const names[] = {"window_global", "neighbours_wide", "neighbours_causal_wide",
                                        "siblings_wide", "bpt_wide",        "hsa_wide",
                                        "hsa",           "coarse",          "fine"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        problem p;
        variant_build(variant_named(names[i]), shortened(4133), 25 + i,
                      &(hga_shape){.n_heads = 1, .dim = 12, .dim_v = 9}, &p);
        float *want = problem_out(&p, &(hga_options){.threads = 1, .cut_edges = 512}, NULL);
        for (hga_id threads = 2; threads < 8; threads += 1 + threads / 2) {
            compare(&p, want, NULL, "more threads", (hga_options){.threads = threads, .cut_edges = 512});
            hga_options other = {.threads = threads, .cut_edges = 512, .topology = "pack:2 numa:1 core:4 pu:1"};
            compare(&p, want, NULL, "another machine", other);
        }
        free(want);
        problem_clear(&p);
    }
}

/* Called from every thread of a parallel region, whole calls run side by side on their callers' threads. */
static void calls_inside_a_parallel_region(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        hga_status st[CALLERS];
        float *out[CALLERS];
        variant_build(i, TOKENS, 22, &shape, &p);
        problem_run(&p);
        for (int c = 0; c < CALLERS; c++) out[c] = memory(out_count(&p), sizeof *out[c]);
#pragma omp parallel for num_threads(CALLERS)
        for (int c = 0; c < CALLERS; c++) {
            hga_io io = p.io;
            io.out = (hga_tensor){.data = out[c], .rows = p.n_out}, io.lse = (hga_tensor){.data = NULL};
            st[c] = hga_attention(p.graph, &p.program, &p.shape, &(hga_options){.threads = c + 1}, &io);
        }
        for (int c = 0; c < CALLERS; c++) {
            assert_int_equal(st[c], HGA_OK);
            assert_same_bits(p.name, out[c], p.io.out.data, out_count(&p));
            free(out[c]);
        }
        problem_clear(&p);
    }
}

/* One plan serves many threads, each with a state of its own. */
static void threads_share_a_plan(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i += 3) {
        problem p;
        hga_plan *plan;
        hga_status st[CALLERS];
        hga_workspace *own[CALLERS];
        float *out[CALLERS];
        variant_build(i, TOKENS, 23, &shape, &p);
        problem_run(&p);
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.threads = 3}, &plan));
        for (int c = 0; c < CALLERS; c++) {
            assert_ok(hga_workspace_create(plan, &own[c]));
            out[c] = memory(out_count(&p), sizeof *out[c]);
        }
#pragma omp parallel for num_threads(CALLERS)
        for (int c = 0; c < CALLERS; c++) {
            hga_io io = p.io;
            io.out = (hga_tensor){.data = out[c], .rows = p.n_out}, io.lse = (hga_tensor){.data = NULL};
            st[c] = hga_plan_execute(plan, own[c], &io);
        }
        for (int c = 0; c < CALLERS; c++) {
            assert_int_equal(st[c], HGA_OK);
            assert_same_bits(p.name, out[c], p.io.out.data, out_count(&p));
            hga_workspace_destroy(own[c]), free(out[c]);
        }
        hga_plan_destroy(plan);
        problem_clear(&p);
    }
}

/* The workspace has no memory: the second execution of a state is the first. */
static void a_state_can_be_used_again(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        hga_plan *plan;
        hga_workspace *own;
        variant_build(i, TOKENS, 24, &shape, &p);
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.threads = 2}, &plan));
        assert_ok(hga_workspace_create(plan, &own));
        float *first = memory(out_count(&p), sizeof *first);
        assert_ok(hga_plan_execute(plan, own, &p.io));
        memcpy(first, p.io.out.data, (size_t)out_count(&p) * sizeof *first);
        assert_ok(hga_plan_execute(plan, own, &p.io));
        assert_same_bits(p.name, p.io.out.data, first, out_count(&p));
        free(first);
        hga_workspace_destroy(own);
        hga_plan_destroy(plan);
        problem_clear(&p);
    }
}

/* ---- processes ---- */

/* Status of a child that does this, or -1 when it was killed; it has two minutes. */
static int in_a_child(int (*what)(void *), void *context)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(120);
        _exit(what(context));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Bytes of address space that the process has. */
static size_t address_space(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu", &pages) != 1) pages = 0;
    if (f) fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

enum { MANY = 64, CAPACITY = 100 << 20 };

/* The process gets so much more address space and no more; `all` is what it had. */
static int leave_little_room(struct rlimit *all)
{
    if (getrlimit(RLIMIT_AS, all)) return -1;
    return setrlimit(RLIMIT_AS, &(struct rlimit){address_space() + CAPACITY, all->rlim_max});
}

static int gets_more_than_is_left(void *context)
{
    struct rlimit all;
    (void)context;
    if (leave_little_room(&all)) return 2;
    return mmap(NULL, 2 * (size_t)CAPACITY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
}

/* An emulator lives in the same address space, and keeps no limit of it; neither do sanitizers. */
static void need_limits(void)
{
#ifdef IS_SANITIZED
    print_message("skipped: sanitizers need the address space\n");
    skip();
#endif
    int gets_more = in_a_child(gets_more_than_is_left, NULL);
    assert_in_range(gets_more, 0, 1);
    if (gets_more) {
        print_message("skipped: limits of the address space are not kept here\n");
        skip();
    }
}

/* With room for few stacks: out of memory, and then as before. */
static int execute_with_little_room(void *context)
{
    problem *p = context;
    hga_plan *plan;
    hga_workspace *own;
    struct rlimit all;
    if (hga_plan_create(p->graph, &p->program, &p->shape, &(hga_options){.threads = MANY}, &plan)) return 2;
    if (hga_workspace_create(plan, &own)) return 3;
    if (leave_little_room(&all)) return 4;
    if (hga_plan_execute(plan, own, &p->io) != HGA_ENOMEM) return 5;
    if (!strstr(hga_error_detail(), "threads cannot start")) return 6;
    if (setrlimit(RLIMIT_AS, &all)) return 7;
    return hga_plan_execute(plan, own, &p->io) == HGA_OK ? 0 : 8;
}

/* OpenMP's runtime would print and end the process. */
static void threads_that_cannot_start_are_an_error(void **state)
{
    (void)state;
    problem p;
    need_limits();
    variant_build(variant_named("window"), 3000, 26, &(hga_shape){.n_heads = 4, .dim = 16}, &p);
    assert_int_equal(in_a_child(execute_with_little_room, &p), 0);
    problem_clear(&p);
}

static int execute_again(void *context)
{
    problem *p = context;
    float *want = memory(out_count(p), sizeof *want);
    memcpy(want, p->io.out.data, (size_t)out_count(p) * sizeof *want);
    if (hga_attention(p->graph, &p->program, &p->shape, &p->options, &p->io)) return 2;
    return memcmp(want, p->io.out.data, (size_t)out_count(p) * sizeof *want) ? 3 : 0;
}

/* The child of a process with threads has none of them, and OpenMP's runtime would wait for them. */
static void a_child_computes_what_its_parent_computed(void **state)
{
    (void)state;
    problem p;
    variant_build(variant_named("window"), 3000, 27, &(hga_shape){.n_heads = 4, .dim = 16}, &p);
    p.options.threads = 2;
    problem_run(&p);
    assert_int_equal(in_a_child(execute_again, &p), 0);
    problem_run(&p);
    problem_clear(&p);
}

/* ---- and back ---- */

/* One that goes by heads, one by strips of a single head, one by families. */
static const struct {
    const char *words;
    hga_shape shape;
} ways_back[] = {{"window left=20 right=20", {.n_heads = 4, .dim = 16}},
                 {"window left=20 right=20", {.n_heads = 1, .dim = 16}},
                 {"hsa branching=2,4,8", {.n_heads = 4, .dim = 16}}};
enum { N_WAYS_BACK = sizeof ways_back / sizeof ways_back[0] };

static problem problem_back(int way)
{
    problem p = {.shape = ways_back[way].shape};
    snprintf(p.name, sizeof p.name, "%s, %d heads", ways_back[way].words, p.shape.n_heads);
    assert_ok(hga_build(ways_back[way].words, 3000, &p.graph, &p.program));
    problem_fill(&p, 28);
    return p;
}

static int go_back_again(void *context)
{
    slope *s = context, again = slope_create(s->p, 1);
    slope_run(&again, (hga_options){.threads = 2});
    return memcmp(s->of[SLOW_QUERY], again.of[SLOW_QUERY], (size_t)s->n[SLOW_QUERY] * sizeof(float)) != 0;
}

static void a_child_goes_back_as_its_parent_did(void **state)
{
    (void)state;
    for (int way = 0; way < N_WAYS_BACK; way++) {
        problem p = problem_back(way);
        slope s = slope_create(&p, 1);
        slope_run(&s, (hga_options){.threads = 2});
        assert_int_equal(in_a_child(go_back_again, &s), 0);
        slope_clear(&s), problem_clear(&p);
    }
}

/* What was left by an execution that needed no threads: out of memory, and then as before. */
static int go_back_with_little_room(void *context)
{
    slope *s = context;
    const problem *p = s->p;
    hga_plan *plan;
    hga_workspace *own;
    hga_io io = p->io;
    struct rlimit all;
    if (hga_plan_create(p->graph, &p->program, &p->shape, &(hga_options){.threads = MANY, .gradient = 1}, &plan))
        return 2;
    if (hga_workspace_create(plan, &own)) return 3;
    io.tape = memory(hga_plan_tape_bytes(plan), 1);
    hga_status st = HGA_OK;
#pragma omp parallel num_threads(2) /* inside a caller's region an execution takes no threads of its own */
#pragma omp single
    st = hga_plan_execute(plan, own, &io);
    if (st) return 4;
    if (leave_little_room(&all)) return 5;
    if (hga_plan_gradient(plan, own, &io, &s->grad) != HGA_ENOMEM) return 6;
    if (!strstr(hga_error_detail(), "threads cannot start")) return 7;
    if (setrlimit(RLIMIT_AS, &all)) return 8;
    return hga_plan_gradient(plan, own, &io, &s->grad) == HGA_OK ? 0 : 9;
}

static void threads_that_cannot_start_on_the_way_back_are_an_error(void **state)
{
    (void)state;
    need_limits();
    for (int way = 0; way < N_WAYS_BACK; way++) {
        problem p = problem_back(way);
        slope s = slope_create(&p, 1);
        int outcome = in_a_child(go_back_with_little_room, &s);
        if (outcome != 0) fail_msg("%s: outcome %d", p.name, outcome);
        slope_clear(&s), problem_clear(&p);
    }
}

/* A graph of hubs and of many rows with an edge or two, as power laws give: row v of n has about 2 n / (v + 2) listed
   edges. */
static hga_graph *skewed_graph(hga_id n)
{
    hga_builder *b;
    hga_graph *g;
    hga_id near;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, n, NULL));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id v = 0; v < n; v++)
        for (hga_id i = 0; i < 2 * n / (v + 2); i++)
            assert_ok(hga_builder_add_edge(b, near, (hga_id)((v + i * 37LL) % n), v, 0, 1));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    return g;
}

/* Listed edges take the time, rows next to none: two threads get equally many of these, a few rows with all of them. */
static void threads_share_the_edges_of_a_skewed_graph(void **state)
{
    (void)state;
    hga_graph *g = skewed_graph(16384);
    hga_relation r = hga_graph_relation(g, 0);
    hga_program program;
    hga_plan *plan;
    int64_t first, n;
    assert_ok(hga_program_hierarchy(&program, g, (hga_id[]){0}, 1));
    assert_ok(hga_plan_create(g, &program, &(hga_shape){.n_heads = 4, .dim = 16, .dim_v = 16},
                              &(hga_options){.threads = 2}, &plan));
    assert_ok(hga_plan_rows(plan, HGA_IO_OUT, 0, &first, &n));
    double share = (double)r.ptr[first + n] / (double)r.n_edges;
    if (first != 0 || share < 0.42 || share > 0.58) fail_msg("%lld rows have %.2f of the edges", (long long)n, share);
    hga_plan_destroy(plan), hga_graph_destroy(g);
}

/* ---- what first calls with slopes and biases of edges leave with a plan ---- */

static problem biased_window(const char *words, const operands *slopes)
{
    problem p = {.shape = {.n_heads = 2, .dim = 5}, .options = {.threads = 1}};
    snprintf(p.name, sizeof p.name, "%s", words);
    assert_ok(hga_build(words, 300, &p.graph, &p.program));
    problem_fill(&p, 5), problem_fill_tables(&p, 7, 0, 0, 2);
    bring_to(&p.io, slopes);
    return p;
}

/* Callers at once, every second of which brings biases and no slopes, then both. */
static void call_at_once(const problem *p, const hga_plan *plan, hga_workspace *const *own, const float *const *want)
{
    float *out[CALLERS];
    for (int i = 0; i < CALLERS; i++) out[i] = memory(out_count(p), sizeof **out);
    _Pragma("omp parallel for num_threads(CALLERS) schedule(static, 1)") for (int i = 0; i < 2 * CALLERS; i++)
    {
        int caller = i % CALLERS, both = (i / CALLERS + caller) % 2;
        hga_io io = p->io;
        io.out.data = out[caller], io.lse.data = NULL;
        if (!both) bring_to(&io, NULL);
        assert_ok(hga_plan_execute(plan, own[caller], &io));
        assert_same_bits(p->name, out[caller], want[both], out_count(p));
    }
    for (int i = 0; i < CALLERS; i++) free(out[i]);
}

static void call_twice(problem *p, const hga_plan *plan, hga_workspace *const *own)
{
    const operands slopes = {.slopes = p->io.slopes.data};
    float *both = problem_out(p, &p->options, NULL);
    bring_to(&p->io, NULL);
    float *biases = problem_out(p, &p->options, NULL);
    bring_to(&p->io, &slopes);
    call_at_once(p, plan, own, (const float *const[]){biases, both});
    call_at_once(p, plan, own, (const float *const[]){biases, both});
    free(both), free(biases);
}

static void first_calls_at_once_make_lists_of_the_graph_at_hand(void **state)
{
    static const float numbers[] = {0.5f, 0.125f};
    const operands slopes = {.slopes = numbers};
    hga_plan *plan;
    hga_workspace *own[CALLERS];
    (void)state;
    problem narrow = biased_window("window left=20 right=20", &slopes),
            wide = biased_window("window left=24 right=24", &slopes);
    assert_ok(hga_plan_create(wide.graph, &wide.program, &wide.shape, &wide.options, &plan));
    for (int i = 0; i < CALLERS; i++) assert_ok(hga_workspace_create(plan, &own[i]));
    assert_ok(hga_plan_update(plan, narrow.graph));
    call_twice(&narrow, plan, own);
    assert_ok(hga_plan_update(plan, wide.graph));
    call_twice(&wide, plan, own);
    for (int i = 0; i < CALLERS; i++) hga_workspace_destroy(own[i]);
    hga_plan_destroy(plan), problem_clear(&narrow), problem_clear(&wide);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_cannot_start_are_an_error), /* first, while there are no threads */
        cmocka_unit_test(threads_that_cannot_start_on_the_way_back_are_an_error),
        cmocka_unit_test(a_child_goes_back_as_its_parent_did),
        cmocka_unit_test(a_child_computes_what_its_parent_computed),
        cmocka_unit_test(bits_do_not_depend_on_threads_or_machine),
        cmocka_unit_test(bits_of_large_graphs_do_not_depend_on_threads),
        cmocka_unit_test(calls_inside_a_parallel_region),
        cmocka_unit_test(threads_share_a_plan),
        cmocka_unit_test(first_calls_at_once_make_lists_of_the_graph_at_hand),
        cmocka_unit_test(a_state_can_be_used_again),
        cmocka_unit_test(threads_share_the_edges_of_a_skewed_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
