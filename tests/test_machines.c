/* test_machines.c: machines in files, as lstopo writes them: caches, cores of several kinds, and what hga does. */
#include "testing.h"
#include "topology.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEVELS = 3 };

static const struct {
    const char *file;
    hga_id kinds, n_pus[2];
    topology_cache cache[LEVELS];
} machines[] = {
    {HGA_MACHINES "/two_kinds.xml", 2, {4, 4}, {{32 << 10, 1}, {128 << 10, 1}, {3 << 20, 8}}},
    {HGA_MACHINES "/server.xml", 0, {0}, {{64 << 10, 1}, {1 << 20, 1}, {0, 0}}},
    {HGA_MACHINES "/clusters.xml", 2, {4, 4}, {{64 << 10, 1}, {4 << 20, 4}, {0, 0}}},
    {"numa:1 l2:2(size=524288) core:4 pu:1", 0, {0}, {{0, 0}, {512 << 10, 4}, {0, 0}}},
    {"pack:1 core:8 pu:1", 0, {0}, {{0}}}, /* a virtual machine that says nothing */
};
enum { N_MACHINES = sizeof machines / sizeof *machines };

static void cores_kinds_and_caches_are_those_of_the_file(void **state)
{
    (void)state;
    for (int i = 0; i < N_MACHINES; i++) {
        topology *t;
        hga_id n_pus[4] = {0};
        assert_ok(topology_open(machines[i].file, &t));
        assert_int_equal(topology_is_this_machine(t), 0);
        assert_int_equal(topology_domains(t), 1);
        assert_int_equal(topology_cores(t), 8);
        assert_int_equal(topology_domain_at(t, 0).n_cores, 8);
        assert_int_equal(topology_kinds(t, 4, n_pus), machines[i].kinds);
        assert_memory_equal(n_pus, machines[i].n_pus, sizeof machines[i].n_pus);
        for (hga_id level = 1; level <= LEVELS; level++) {
            topology_cache cache = topology_cache_at(t, level), want = machines[i].cache[level - 1];
            if (cache.bytes != want.bytes || cache.n_pus != want.n_pus)
                fail_msg("%s: L%d of %lld bytes for %d PUs", machines[i].file, level, (long long)cache.bytes,
                         cache.n_pus);
        }
        assert_int_equal(topology_cache_at(t, 4).bytes, 0);
        topology_close(t);
    }
}

static void no_more_kinds_are_written_than_fit(void **state)
{
    (void)state;
    topology *t;
    hga_id n_pus[2] = {0, -1};
    assert_ok(topology_open(machines[0].file, &t));
    assert_int_equal(topology_kinds(t, 1, n_pus), 1);
    assert_int_equal(n_pus[1], -1);
    topology_close(t);
}

/* As many threads as there are cores of all kinds, a place for each, and the bits of one thread. */
static void plans_for_them_give_the_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < N_MACHINES; i++) {
        problem p;
        hga_plan *plan;
        char *text;
        const hga_options one = {.threads = 1}, all = {.threads = 8, .topology = machines[i].file};
        variant_build(variant_named("bpt"), 300, 7, &(hga_shape){.n_heads = 2, .dim = 16}, &p);
        float *want = problem_out(&p, &one, NULL), *out = problem_out(&p, &all, NULL);
        assert_same_bits(machines[i].file, out, want, out_count(&p));
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &all, &plan));
        assert_int_equal(hga_plan_threads(plan), 8);
        assert_ok(hga_plan_explain(plan, NULL, HGA_TEXT, &text));
        hga_text_free(text), hga_plan_destroy(plan);
        free(want), free(out);
        problem_clear(&p);
    }
}

static void descriptions_name_kinds_and_caches(void **state)
{
    (void)state;
    char *text;
    assert_ok(hga_topology_describe(HGA_MACHINES "/clusters.xml", 2, HGA_TEXT, &text));
    assert_string_equal(text, "another machine: 1 NUMA domain, 8 cores, 8 PUs; 2 threads\n"
                              "domain 0 (node 0): 8 cores, PUs 0-7; threads 0-1 on PUs 0-1\n"
                              "cores of 2 kinds, PUs of each, the slowest first: 4, 4; threads have equal shares of "
                              "the work, so that fast cores "
                              "wait for slow ones\n"
                              "smallest caches: L1 64 kB, L2 4096 kB for 4 PUs\n");
    hga_text_free(text);
    assert_ok(hga_topology_describe(HGA_MACHINES "/two_kinds.xml", 2, HGA_JSON, &text));
    assert_non_null(strstr(text,
                           "\"kinds\": [4, 4], \"smallest_caches\": [{\"level\": 1, \"bytes\": 32768, \"pus\": 1}, "
                           "{\"level\": 2, \"bytes\": 131072, \"pus\": 1}, "
                           "{\"level\": 3, \"bytes\": 3145728, \"pus\": 8}], "));
    hga_text_free(text);
}

/* hwloc's own reader of XML would print. */
static void other_files_are_refused_by_name_and_silently(void **state)
{
    (void)state;
    const struct {
        const char *name, *text;
    } files[] = {{"missing.xml", NULL},
                 {"empty.xml", ""},
                 {"prose.xml", "eight cores"},
                 {"half.xml", "<?xml version=\"1.0\"?>\n<topology version=\"2.0\">\n<object type=\"Machine\""}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        topology *t;
        char silent[] = "silent_XXXXXX";
        FILE *f = files[i].text ? fopen(files[i].name, "w") : NULL;
        if (f) fputs(files[i].text, f), fclose(f);
        int file = mkstemp(silent), out = dup(1), err = dup(2);
        fflush(NULL);
        dup2(file, 1), dup2(file, 2);
        hga_status st = topology_open(files[i].name, &t);
        fflush(NULL);
        dup2(out, 1), dup2(err, 2);
        close(out), close(err);
        off_t printed = lseek(file, 0, SEEK_END);
        close(file), unlink(silent), unlink(files[i].name);
        assert_int_equal(st, HGA_EFORMAT);
        assert_null(t);
        if (!strstr(hga_error_detail(), files[i].name)) fail_msg("%s", hga_error_detail());
        assert_int_equal(printed, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_kinds_and_caches_are_those_of_the_file),
        cmocka_unit_test(no_more_kinds_are_written_than_fit),
        cmocka_unit_test(plans_for_them_give_the_same_bits),
        cmocka_unit_test(descriptions_name_kinds_and_caches),
        cmocka_unit_test(other_files_are_refused_by_name_and_silently),
    };
    return cmocka_run_group_tests_name("machines", tests, NULL, NULL);
}
