/* test_binding.c: where the threads of a call are bound, that their masks are put back, and what OpenMP's own bindings
   leave. Every thread of a call takes its binding off at its end: there its mask is looked at. */
#define _GNU_SOURCE
#include "by_hand.h"
#include "plan.h"
#include "slopes.h"

#include <omp.h>
#include <sched.h>
#include <unistd.h>

enum { MOST = 16 };

/* What threads were bound to where they took it off: by number, in this process. */
static cpu_set_t seen[MOST];
static int looked[MOST];

void __real_topology_unbind(binding *old);
void __wrap_topology_unbind(binding *old);
void __wrap_topology_unbind(binding *old)
{
    int me = omp_get_thread_num();
    if (me < MOST && (omp_get_level() == 1 || old->t)) sched_getaffinity(0, sizeof seen[me], &seen[me]), looked[me]++;
    __real_topology_unbind(old);
}

static void forget(void) { memset(looked, 0, sizeof looked); }

static cpu_set_t mask(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    return set;
}

/* The n-th CPU of a mask. */
static int cpu_of(const cpu_set_t *set, int n)
{
    int cpu = 0;
    while (!CPU_ISSET((size_t)cpu, set) || n-- > 0) cpu++;
    return cpu;
}

static void assert_bound_as_planned(const char *what, const hga_plan *plan, hga_id threads)
{
    for (hga_id t = 0; t < threads; t++) {
        if (!looked[t]) fail_msg("%s: thread %d had no part", what, t);
        assert_int_equal(CPU_COUNT(&seen[t]), 1);
        assert_true(CPU_ISSET((size_t)plan->team.pu[t], &seen[t]));
    }
}

static problem named(const char *words, hga_id n, hga_shape shape)
{
    problem p = {.shape = shape};
    snprintf(p.name, sizeof p.name, "%s", words);
    assert_ok(hga_build(words, n, &p.graph, &p.program));
    problem_fill(&p, 1);
    return p;
}

/* One call of a problem, its plan and its workspace. */
typedef struct call {
    hga_plan *plan;
    hga_workspace *workspace;
} call;

static call opened(problem *p, hga_options options)
{
    call c;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, &options, &c.plan));
    assert_ok(hga_workspace_create(c.plan, &c.workspace));
    return c;
}

static void closed(call c) { hga_workspace_destroy(c.workspace), hga_plan_destroy(c.plan); }

static const hga_shape shape = {.n_heads = 4, .dim = 16};

/* ---- calls ---- */

static void threads_of_a_call_are_bound_each_to_its_processor(void **state)
{
    (void)state;
    cpu_set_t before = mask(), after;
    hga_id threads = CPU_COUNT(&before) < 4 ? CPU_COUNT(&before) : 4;
    problem p = named("window left=50 right=50", 4000, shape);
    call c = opened(&p, (hga_options){.threads = threads, .bind = HGA_BIND_ON});
    forget();
    assert_ok(hga_plan_execute(c.plan, c.workspace, &p.io));
    assert_bound_as_planned(p.name, c.plan, threads);
    after = mask();
    assert_true(CPU_EQUAL(&before, &after));
    forget();
    assert_ok(hga_plan_execute_batch(c.plan, &c.workspace, &p.io, 1));
    assert_bound_as_planned(p.name, c.plan, threads);
    closed(c), problem_clear(&p);
}

static void one_thread_is_bound_as_well(void **state)
{
    (void)state;
    cpu_set_t before = mask(), after;
    problem p = named("htransformer block=8", 60, shape);
    slope back = slope_create(&p, 3);
    call c = opened(&p, (hga_options){.threads = 1, .bind = HGA_BIND_ON, .gradient = 1});
    p.io.tape = memory(hga_plan_tape_bytes(c.plan), 1);
    forget();
    assert_ok(hga_plan_execute(c.plan, c.workspace, &p.io));
    assert_bound_as_planned(p.name, c.plan, 1);
    forget();
    assert_ok(hga_plan_gradient(c.plan, c.workspace, &p.io, &back.grad));
    assert_bound_as_planned(p.name, c.plan, 1);
    after = mask();
    assert_true(CPU_EQUAL(&before, &after));
    free(p.io.tape), slope_clear(&back), closed(c), problem_clear(&p);
}

/* Whatever way it goes. */
static void check_gradient(const char *way, problem p)
{
    cpu_set_t before = mask(), after;
    hga_id threads = CPU_COUNT(&before) < 2 ? 1 : 2;
    slope back = slope_create(&p, 3);
    float *unbound = NULL;
    for (int bind = 0; bind < 2; bind++) {
        call c = opened(&p, (hga_options){.threads = threads, .bind = bind, .gradient = 1, .gradient_row_ranges = 4});
        if (!strstr(way_back(c.plan), way)) fail_msg("%s goes %s", p.name, way_back(c.plan));
        p.io.tape = memory(hga_plan_tape_bytes(c.plan), 1);
        assert_ok(hga_plan_execute(c.plan, c.workspace, &p.io));
        forget();
        assert_ok(hga_plan_gradient(c.plan, c.workspace, &p.io, &back.grad));
        after = mask();
        assert_true(CPU_EQUAL(&before, &after));
        if (bind)
            assert_bound_as_planned(p.name, c.plan, threads), assert_same_bits(p.name, back.of[2], unbound, back.n[2]);
        else
            unbound = memory(back.n[2], sizeof *unbound),
            memcpy(unbound, back.of[2], (size_t)back.n[2] * sizeof *unbound);
        free(p.io.tape), closed(c);
    }
    free(unbound), slope_clear(&back), problem_clear(&p);
}

static void gradients_are_bound_and_keep_their_bits(void **state)
{
    (void)state;
    const hga_shape odd = {.n_heads = 4, .dim = 5};
    check_gradient("a family of siblings", named("hsa branching=4", 3000, shape));
    check_gradient("row by row and source by source", scattered(3000, shape));
    check_gradient("sums from end to end", problem_named("coarse", 3000, 3, &shape));
    check_gradient("a head at a time", named("htransformer block=8", 3000, shape));
    check_gradient("a head at a time", named("htransformer block=8", 3000, odd));
    check_gradient("a head at a time", named("dense", 1500, (hga_shape){.n_heads = 1, .dim = 16}));
}

/* Every thread of a caller's region would be bound to the same processor. */
static void inside_a_callers_region_nothing_is_bound(void **state)
{
    (void)state;
    cpu_set_t before = mask();
    problem p = named("window left=50 right=50", 400, shape);
    call c = opened(&p, (hga_options){.threads = 1, .bind = HGA_BIND_ON});
    int failed = 0;
    forget();
#pragma omp parallel num_threads(1) reduction(+ : failed)
    {
#pragma omp single
        failed += hga_plan_execute(c.plan, c.workspace, &p.io) != HGA_OK;
    }
    assert_int_equal(failed, 0);
    assert_true(looked[0] > 0);
    assert_true(CPU_EQUAL(&before, &seen[0]));
    closed(c), problem_clear(&p);
}

static void binding_by_itself_needs_several_domains(void **state)
{
    (void)state;
    problem p = named("window left=5 right=5", 100, shape);
    call c = opened(&p, (hga_options){.threads = 2, .bind = HGA_BIND_AUTO, .topology = "numa:2 core:1 pu:1"});
    assert_int_equal(c.plan->team.binding, BIND_NOTHING); /* a machine that is not this one */
    closed(c);
    c = opened(&p, (hga_options){.threads = 2, .bind = HGA_BIND_AUTO});
    hga_id domains = topology_domains(c.plan->machine.topology);
    if (domains == 1) assert_int_equal(c.plan->team.binding, BIND_NOTHING);
    closed(c);
    hga_plan *plan;
    assert_status(HGA_EINVAL, hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.bind = 3}, &plan));
    assert_non_null(strstr(hga_error_detail(), "bind 3"));
    problem_clear(&p);
}

/* ---- masks ---- */

/* What was planned before and cannot be bound now is said, and computed. */
static void a_mask_narrowed_after_the_first_plan_is_respected(void **state)
{
    (void)state;
    cpu_set_t before = mask(), narrow, after;
    if (CPU_COUNT(&before) < 2) skip();
    problem p = named("window left=50 right=50", 4000, shape);
    unsetenv("OMP_NUM_THREADS");
    call first = opened(&p, (hga_options){.bind = HGA_BIND_ON});
    assert_ok(hga_plan_execute(first.plan, first.workspace, &p.io));
    float *wide = memory(out_count(&p), sizeof *wide);
    memcpy(wide, p.io.out.data, (size_t)out_count(&p) * sizeof *wide);
    int last = cpu_of(&before, CPU_COUNT(&before) - 1);
    CPU_ZERO(&narrow);
    CPU_SET((size_t)last, &narrow);
    assert_int_equal(sched_setaffinity(0, sizeof narrow, &narrow), 0);
    call second = opened(&p, (hga_options){.bind = HGA_BIND_ON});
    assert_int_equal(hga_plan_threads(second.plan), 1);
    assert_int_equal(second.plan->team.pu[0], last);
    forget();
    assert_ok(hga_plan_execute(second.plan, second.workspace, &p.io));
    assert_bound_as_planned(p.name, second.plan, 1);
    forget();
    assert_ok(hga_plan_execute(first.plan, first.workspace, &p.io));
    assert_true(CPU_EQUAL(&narrow, &seen[0])); /* never outside the mask .. */
    char *text, what[64];
    snprintf(what, sizeof what, "cannot be bound to PU %d", first.plan->team.pu[0]);
    assert_non_null(strstr(hga_error_detail(), what)); /* .. which is said */
    assert_ok(hga_plan_explain(first.plan, NULL, HGA_TEXT, &text));
    assert_non_null(strstr(text, "threads could not be bound 1 time; first"));
    hga_text_free(text);
    after = mask();
    assert_true(CPU_EQUAL(&narrow, &after));
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_same_bits("narrowed", p.io.out.data, wide, out_count(&p));
    free(wide), closed(first), closed(second), problem_clear(&p);
}

/* ---- OpenMP's own bindings, in processes that begin with them ---- */

static int n_cpus;

/* In the child: every CPU has its thread, whatever `bind` says, and OpenMP keeps them there. */
static void every_place_has_its_thread(void **state)
{
    (void)state;
    problem p = named("window left=50 right=50", 8000, shape);
    for (int bind = 0; bind < 3; bind++) {
        cpu_set_t all;
        call c = opened(&p, (hga_options){.bind = bind});
        assert_int_equal(hga_plan_threads(c.plan), n_cpus);
        assert_int_equal(c.plan->team.binding, BIND_BY_OPENMP);
        forget();
        assert_ok(hga_plan_execute(c.plan, c.workspace, &p.io));
        CPU_ZERO(&all);
        for (int t = 0; t < n_cpus; t++) {
            assert_true(looked[t] > 0);
            assert_int_equal(CPU_COUNT(&seen[t]), 1);
            assert_true(CPU_ISSET((size_t)c.plan->team.pu[t], &seen[t]));
            CPU_OR(&all, &all, &seen[t]);
        }
        assert_int_equal(CPU_COUNT(&all), n_cpus);
        char *text;
        assert_ok(hga_plan_explain(c.plan, NULL, HGA_TEXT, &text));
        assert_non_null(strstr(text, "bound by OpenMP"));
        hga_text_free(text), closed(c);
    }
    problem_clear(&p);
}

static char self[4096];

static int run_under(const char *name, const char *value)
{
    char command[4400];
    snprintf(command, sizeof command,
             "env -u OMP_NUM_THREADS %s='%s' %s '%s' child %d >child.log 2>&1 || { cat child.log; exit 1; }", name,
             value, strcmp(name, "GOMP_CPU_AFFINITY") == 0 ? "" : "OMP_PLACES=threads", self, n_cpus);
    return system(command);
}

static void openmps_own_bindings_are_left_to_it(void **state)
{
    (void)state;
    cpu_set_t all = mask();
    char list[16 * MOST] = "";
    n_cpus = CPU_COUNT(&all);
    if (n_cpus < 2 || n_cpus > MOST) skip();
    for (int i = 0; i < n_cpus; i++) snprintf(list + strlen(list), 16, "%s%d", i ? "," : "", cpu_of(&all, i));
    assert_int_equal(run_under("OMP_PROC_BIND", "true"), 0);
    assert_int_equal(run_under("OMP_PROC_BIND", "spread"), 0);
    assert_int_equal(run_under("OMP_PROC_BIND", "close"), 0);
    assert_int_equal(run_under("GOMP_CPU_AFFINITY", list), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest child[] = {cmocka_unit_test(every_place_has_its_thread)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_of_a_call_are_bound_each_to_its_processor),
        cmocka_unit_test(one_thread_is_bound_as_well),
        cmocka_unit_test(gradients_are_bound_and_keep_their_bits),
        cmocka_unit_test(inside_a_callers_region_nothing_is_bound),
        cmocka_unit_test(binding_by_itself_needs_several_domains),
        cmocka_unit_test(openmps_own_bindings_are_left_to_it),
        cmocka_unit_test(a_mask_narrowed_after_the_first_plan_is_respected),
    };
    if (argc > 2 && strcmp(argv[1], "child") == 0) {
        n_cpus = atoi(argv[2]);
        return cmocka_run_group_tests_name("binding by OpenMP", child, NULL, NULL);
    }
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return 1;
    return cmocka_run_group_tests_name("binding", tests, NULL, NULL);
}
