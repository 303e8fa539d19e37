/* test_topology.c: synthetic machines show where threads go; this one shows that bindings are put back. */
#define _GNU_SOURCE
#include "testing.h"
#include "topology.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static topology *machine(const char *synthetic)
{
    topology *t;
    assert_ok(topology_open(synthetic, &t));
    return t;
}

/* Threads, their domains, their PUs. */
static void assert_placed(const char *synthetic, hga_id n, const hga_id *domain, const hga_id *pu)
{
    topology *t = machine(synthetic);
    hga_id got_domain[64], got_pu[64];
    topology_locate(t, n, got_domain, got_pu);
    assert_memory_equal(got_domain, domain, (size_t)n * sizeof *domain);
    assert_memory_equal(got_pu, pu, (size_t)n * sizeof *pu);
    topology_close(t);
}

static void domains_and_cores_are_counted(void **state)
{
    (void)state;
    topology *t = machine("pack:2 numa:2 core:3 pu:2");
    assert_int_equal(topology_domains(t), 4);
    assert_int_equal(topology_cores(t), 24);
    assert_int_equal(topology_domain_at(t, 1).n_cores, 3);
    assert_int_equal(topology_domain_at(t, 1).n_pus, 6);
    assert_int_equal(topology_is_this_machine(t), 0);
    assert_true(topology_cpu_quota(t) <= 0);
    topology_close(t);
}

static void without_numa_nodes_there_is_one_domain(void **state)
{
    (void)state;
    topology *t = machine("pack:2 core:2 pu:1");
    assert_int_equal(topology_domains(t), 1);
    assert_int_equal(topology_cores(t), 4);
    topology_close(t);
}

static void threads_spread_over_domains_in_order(void **state)
{
    (void)state;
    assert_placed("pack:2 numa:1 core:4 pu:1", 1, (hga_id[]){0}, (hga_id[]){0});
    assert_placed("pack:2 numa:1 core:4 pu:1", 2, (hga_id[]){0, 1}, (hga_id[]){0, 4});
    assert_placed("pack:2 numa:1 core:4 pu:1", 4, (hga_id[]){0, 0, 1, 1}, (hga_id[]){0, 1, 4, 5});
    assert_placed("pack:2 numa:1 core:4 pu:1", 8, (hga_id[]){0, 0, 0, 0, 1, 1, 1, 1},
                  (hga_id[]){0, 1, 2, 3, 4, 5, 6, 7});
}

static void cores_come_before_their_second_pu(void **state)
{
    (void)state;
    assert_placed("numa:1 core:2 pu:2", 2, (hga_id[]){0, 0}, (hga_id[]){0, 2});
    assert_placed("numa:1 core:2 pu:2", 4, (hga_id[]){0, 0, 0, 0}, (hga_id[]){0, 2, 1, 3});
}

static void more_threads_than_pus_share_them(void **state)
{
    (void)state;
    assert_placed("numa:2 core:1 pu:1", 5, (hga_id[]){0, 0, 0, 1, 1}, (hga_id[]){0, 0, 0, 1, 1});
}

static void nonsense_is_refused_with_its_text(void **state)
{
    (void)state;
    topology *t;
    assert_status(HGA_EINVAL, topology_open("four cores", &t));
    assert_null(t);
    assert_non_null(strstr(hga_error_detail(), "four cores"));
    assert_status(HGA_EINVAL, topology_open("", &t));
    char *text;
    assert_status(HGA_EINVAL, hga_topology_describe("core:", 0, HGA_TEXT, &text));
    assert_null(text);
    assert_status(HGA_EINVAL, hga_topology_describe(NULL, -1, HGA_TEXT, &text));
    assert_status(HGA_EINVAL, hga_topology_describe(NULL, 1, (hga_format)2, &text));
    assert_non_null(strstr(hga_error_detail(), "format 2"));
}

/* ---- this machine ---- */

static void this_machine_is_discovered_once(void **state)
{
    (void)state;
    topology *a = machine(NULL), *b = machine(NULL);
    assert_ptr_equal(a, b);
    assert_true(topology_domains(a) >= 1);
    assert_in_range(topology_cores(a), 1, sysconf(_SC_NPROCESSORS_CONF));
    topology_close(a);
    topology_close(b);
    topology_close(NULL);
}

static void *open_and_close(void *context)
{
    (void)context;
    for (int i = 0; i < 50; i++) {
        topology *t;
        if (topology_open(NULL, &t)) return "failed";
        topology_close(t);
    }
    return NULL;
}

static void threads_may_open_at_once(void **state)
{
    (void)state;
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, open_and_close, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(thread[i], &failed);
        assert_null(failed);
    }
}

static void a_binding_is_put_back(void **state)
{
    (void)state;
    topology *t = machine(NULL);
    cpu_set_t before, bound, after;
    hga_id domain, pu;
    binding old;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    topology_locate(t, 1, &domain, &pu);
    assert_ok(topology_bind(t, pu, &old));
    assert_int_equal(sched_getaffinity(0, sizeof bound, &bound), 0);
    assert_int_equal(CPU_COUNT(&bound), 1);
    assert_true(CPU_ISSET((size_t)pu, &bound));
    topology_unbind(&old);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    topology_unbind(&old);
    topology_close(t);
}

static void synthetic_machines_bind_nothing(void **state)
{
    (void)state;
    topology *t = machine("numa:4 core:16 pu:1");
    cpu_set_t before, after;
    binding old;
    sched_getaffinity(0, sizeof before, &before);
    assert_ok(topology_bind(t, 63, &old));
    sched_getaffinity(0, sizeof after, &after);
    assert_true(CPU_EQUAL(&before, &after));
    topology_unbind(&old);
    topology_close(t);
}

/* ---- quota ---- */

static void write_file(const char *root, const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(whole, 0700);
        *slash = '/';
    }
    FILE *f = fopen(whole, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static double quota(const char *root)
{
    char self[512];
    snprintf(self, sizeof self, "%s/self", root);
    return topology_read_quota(root, self);
}

static char *folder(char *name)
{
    strcpy(name, "quota_XXXXXX");
    assert_non_null(mkdtemp(name));
    return name;
}

static void remove_folder(const char *name)
{
    char command[600];
    snprintf(command, sizeof command, "rm -r '%s'", name);
    assert_int_equal(system(command), 0);
}

static void assert_quota(double got, double want)
{
    if (got < want - 1e-9 || got > want + 1e-9) fail_msg("quota %g, want %g", got, want);
}

static void the_tightest_group_above_decides(void **state)
{
    (void)state;
    char name[32], *root = folder(name);
    write_file(root, "self", "0::/a/b/c\n");
    assert_quota(quota(root), 0);
    write_file(root, "a/b/c/cpu.max", "max 100000\n");
    assert_quota(quota(root), 0);
    write_file(root, "a/cpu.max", "250000 100000\n");
    assert_quota(quota(root), 2.5);
    write_file(root, "a/b/cpu.max", "150000 100000\n");
    assert_quota(quota(root), 1.5);
    write_file(root, "cpu.max", "50000 100000\n");
    assert_quota(quota(root), 0.5);
    remove_folder(root);
}

static void version_1_groups_are_read_too(void **state)
{
    (void)state;
    char name[32], *root = folder(name);
    write_file(root, "self", "7:cpuset:/x\n4:cpu,cpuacct:/box\n0::/\n");
    write_file(root, "cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
    write_file(root, "cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
    assert_quota(quota(root), 0);
    write_file(root, "cpu,cpuacct/box/cpu.cfs_quota_us", "300000\n");
    assert_quota(quota(root), 3);
    write_file(root, "cpu/cpu.cfs_quota_us", "200000\n");
    write_file(root, "cpu/cpu.cfs_period_us", "100000\n");
    assert_quota(quota(root), 2);
    remove_folder(root);
}

static void no_files_mean_no_quota(void **state)
{
    (void)state;
    assert_quota(topology_read_quota("/nonexistent", "/nonexistent/self"), 0);
}

/* Half a CPU still pays for a thread, and is said to be half a one. */
static void a_quota_below_one_cpu_leaves_a_thread(void **state)
{
    (void)state;
    char name[32], *root = folder(name), self[512], *text;
    topology *t;
    snprintf(self, sizeof self, "%s/self", root);
    write_file(root, "cpu.max", "50000 100000\n");
    assert_ok(topology_open_in(root, self, &t));
    assert_int_equal(topology_cores(t), 1);
    assert_ok(topology_describe(t, NULL, 0, HGA_TEXT, &text));
    assert_non_null(strstr(text, ", a quota of 0.50 CPUs; 1 thread\n"));
    hga_text_free(text);
    assert_ok(topology_describe(t, NULL, 0, HGA_JSON, &text));
    assert_non_null(strstr(text, "\"cpu_quota\": 0.5, \"usable\": 1, "));
    hga_text_free(text);
    topology_close(t);
    remove_folder(root);
}

static void a_quota_pays_for_threads_rounded_up(void **state)
{
    (void)state;
    assert_int_equal(topology_paid_for(0, 8), 8);
    assert_int_equal(topology_paid_for(0.01, 8), 1);
    assert_int_equal(topology_paid_for(1, 8), 1);
    assert_int_equal(topology_paid_for(1.5, 8), 2);
    assert_int_equal(topology_paid_for(7.5, 8), 8);
    assert_int_equal(topology_paid_for(20, 8), 8);
}

/* ---- words ---- */

static void descriptions_show_domains_and_threads(void **state)
{
    (void)state;
    char *text;
    assert_ok(hga_topology_describe("pack:2 numa:1 core:4 pu:1", 2, HGA_TEXT, &text));
    assert_string_equal(text, "another machine: 2 NUMA domains, 8 cores, 8 PUs; 2 threads\n"
                              "domain 0 (node 0): 4 cores, PUs 0-3; thread 0 on PU 0\n"
                              "domain 1 (node 1): 4 cores, PUs 4-7; thread 1 on PU 4\n");
    hga_text_free(text);
    assert_ok(hga_topology_describe("numa:1 core:2 pu:1", 0, HGA_JSON, &text));
    assert_string_equal(
        text,
        "{\"schema\": 1, \"synthetic\": \"numa:1 core:2 pu:1\", \"this_machine\": false, \"cpu_quota\": null, "
        "\"usable\": 2, \"memory_node\": null, \"kinds\": [], \"smallest_caches\": [], \"domains\": ["
        "{\"domain\": 0, \"node\": 0, \"cores\": 2, \"pus\": [0, 1], \"first_thread\": 0, \"thread_pus\": [0, 1]}], "
        "\"threads\": 2, \"tuning\": null}\n");
    hga_text_free(text);
    assert_ok(hga_topology_describe(NULL, 0, HGA_TEXT, &text));
    assert_non_null(strstr(text, "this machine: "));
    hga_text_free(text);
}

static void nothing_is_printed(void **state)
{
    (void)state;
    char name[] = "silent_XXXXXX", *text;
    int file = mkstemp(name), out = dup(1), err = dup(2);
    topology *t;
    fflush(NULL);
    dup2(file, 1), dup2(file, 2);
    hga_status wrong = topology_open("rubbish:x (", &t), right = hga_topology_describe(NULL, 3, HGA_TEXT, &text);
    fflush(NULL);
    dup2(out, 1), dup2(err, 2);
    close(out), close(err);
    assert_int_equal(lseek(file, 0, SEEK_END), 0);
    close(file);
    unlink(name);
    assert_int_equal(wrong, HGA_EINVAL);
    assert_ok(right);
    hga_text_free(text);
}

/* A child that sees an empty /sys; 77 where the system does not let it. */
static int discover_without_sys(void)
{
    topology *t;
    FILE *f;
    uid_t user = getuid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 77;
    if ((f = fopen("/proc/self/setgroups", "w"))) fputs("deny", f), fclose(f);
    if ((f = fopen("/proc/self/uid_map", "w"))) fprintf(f, "0 %d 1", (int)user), fclose(f);
    if (mount("none", "/sys", "tmpfs", 0, NULL) != 0) return 77;
    if (topology_open(NULL, &t) != HGA_OK || topology_cores(t) < 1) return 2;
    topology_close(t);
    return 0;
}

/* hwloc says by itself that it finds no processors there. */
static void nothing_is_printed_without_sys(void **state)
{
    (void)state;
    char name[] = "silent_XXXXXX";
    int file = mkstemp(name), status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(file, 1), dup2(file, 2);
        status = discover_without_sys();
        fflush(NULL);
        _exit(status);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    off_t printed = lseek(file, 0, SEEK_END);
    close(file);
    unlink(name);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: no name space of its own\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(printed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_printed_without_sys), /* first: a machine is discovered once */
        cmocka_unit_test(domains_and_cores_are_counted),
        cmocka_unit_test(without_numa_nodes_there_is_one_domain),
        cmocka_unit_test(threads_spread_over_domains_in_order),
        cmocka_unit_test(cores_come_before_their_second_pu),
        cmocka_unit_test(more_threads_than_pus_share_them),
        cmocka_unit_test(nonsense_is_refused_with_its_text),
        cmocka_unit_test(this_machine_is_discovered_once),
        cmocka_unit_test(threads_may_open_at_once),
        cmocka_unit_test(a_binding_is_put_back),
        cmocka_unit_test(synthetic_machines_bind_nothing),
        cmocka_unit_test(the_tightest_group_above_decides),
        cmocka_unit_test(version_1_groups_are_read_too),
        cmocka_unit_test(a_quota_below_one_cpu_leaves_a_thread),
        cmocka_unit_test(a_quota_pays_for_threads_rounded_up),
        cmocka_unit_test(no_files_mean_no_quota),
        cmocka_unit_test(descriptions_show_domains_and_threads),
        cmocka_unit_test(nothing_is_printed),
    };
    return cmocka_run_group_tests_name("topology", tests, NULL, NULL);
}
