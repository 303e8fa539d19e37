/* test_timing.c: shares of limits that are asked in turns with the repeats, on a machine and a clock of our own: its
   speed falls to half from some repeat on, as a core's does whose other half begins to work. */
#include "timing.h"

#include "bursts.h"
#include "machine_context.h"
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 200 };

/* What the machine does in order, and how fast it is meanwhile. */
typedef struct machine {
    double speed, work, rate;
    int repeats, slow_from, slow_to; /* repeats [slow_from, slow_to) take twice as long */
    int asked, unlike;               /* unlike: repeats that did not follow a question */
    const double *own;               /* NULL, or the speeds of each repeat as the limit has them, whatever it takes */
    int fail_at;                     /* the question that fails, from 1 on */
    double took[MOST], answer[MOST];
} machine;

static void set_speed(machine *m) { m->speed = m->repeats >= m->slow_from && m->repeats < m->slow_to ? 0.5 : 1; }

/* The linker gives these to timing.c for clock.h's: time passes only where the machine works, so that nothing here
   depends on who else wants the processor. */
double __wrap_bench_seconds(void);
bench_time __wrap_bench_clock(void);
bench_time __wrap_bench_since(bench_time start);
static double now;
double __wrap_bench_seconds(void) { return now; }
bench_time __wrap_bench_clock(void) { return (bench_time){now, now, now}; }
bench_time __wrap_bench_since(bench_time start)
{
    return (bench_time){now - start.wall, now - start.process, now - start.thread};
}

static hga_status run(void *context)
{
    machine *m = context;
    m->unlike += m->asked != m->repeats + 1;
    m->took[m->repeats] = m->work / m->speed;
    now += m->took[m->repeats++];
    set_speed(m);
    return HGA_OK;
}

static hga_status ask(void *context, int threads, double rate[BENCH_LIMITS])
{
    machine *m = context;
    if (++m->asked == m->fail_at) return hga_fail(HGA_EINVAL, "the question %d", m->asked);
    double answer = m->rate * (m->own ? m->own[m->asked - 1] : m->speed);
    m->answer[m->asked - 1] = answer;
    rate[BENCH_FMA] = answer * threads, rate[BENCH_PAIRS] = 2 * rate[BENCH_FMA], rate[BENCH_DRAM] = 0;
    return HGA_OK;
}

static hga_status measure(machine *m, int repetitions, int threads, bench_timing *t)
{
    set_speed(m);
    bench_rules rules = {.repetitions = repetitions, .warmup = -1, .limits = {.ask = ask, .context = m}};
    return bench_repeat(run, m, &rules, threads, t);
}

/* The median over the repeats of the machine's own times, each at the mean of the rates around it. */
static double possible(const machine *m)
{
    double x[MOST];
    for (int i = 0; i < m->repeats; i++) {
        x[i] = m->took[i] * (m->answer[i] + m->answer[i + 1]) / 2;
        for (int k = i; k > 0 && x[k] < x[k - 1]; k--) {
            double y = x[k];
            x[k] = x[k - 1], x[k - 1] = y;
        }
    }
    return bench_quantile(x, m->repeats, 0.5);
}

static int is_near(double a, double b) { return fabs(a - b) < 1e-9 * b; }

/* Half of the repeats are twice as slow, and so is the limit then: by the medians of both, or by the best, the share
   would be another. */
static void shares_are_those_of_neighbours_in_time(void **state)
{
    (void)state;
    machine m = {.work = 0.015, .rate = 100, .slow_from = 5, .slow_to = MOST};
    bench_timing t;
    assert_ok(measure(&m, 13, 1, &t));
    assert_true(is_near(t.limit[BENCH_FMA].possible, possible(&m)));
    assert_true(t.limit[BENCH_FMA].possible < 0.7 * t.seconds * 100);                     /* by the best peak */
    assert_true(is_near(t.limit[BENCH_PAIRS].possible, 2 * t.limit[BENCH_FMA].possible)); /* each its own */
    assert_true(is_near(t.limit[BENCH_FMA].rate, 50));                                    /* 8 of 13 are slow */
}

/* Each repeat has the mean of the rates before and after it, in whatever order they are large. */
static void a_repeat_has_the_rates_around_it(void **state)
{
    static const double own[] = {1, 9, 1, 9, 3, 3, 5, 3};
    (void)state;
    machine m = {.work = 0.015, .rate = 100, .slow_from = 4, .slow_to = MOST, .own = own};
    bench_timing t;
    assert_ok(measure(&m, 7, 1, &t)); /* means 5 5 5 6 3 4 4, times 1 1 1 1 2 2 2 */
    assert_true(is_near(t.limit[BENCH_FMA].possible, 100 * 0.015 * 6) && is_near(t.limit[BENCH_FMA].rate, 500));
}

/* One disturbed repeat between others moves nothing. */
static void one_repeat_is_no_median(void **state)
{
    (void)state;
    machine m = {.work = 0.015, .rate = 100, .slow_from = 3, .slow_to = 4};
    bench_timing t;
    assert_ok(measure(&m, 7, 1, &t));
    assert_true(is_near(t.limit[BENCH_FMA].rate, 100) && is_near(t.limit[BENCH_FMA].possible, possible(&m)));
}

static void a_limit_is_asked_before_each_repeat_and_after_the_last(void **state)
{
    (void)state;
    machine m = {.work = 0.012, .rate = 100, .slow_from = MOST};
    bench_timing t;
    assert_ok(measure(&m, 6, 1, &t));
    assert_int_equal(m.unlike, 0);
    assert_int_equal(m.asked, 7);
}

static void short_repeats_share_a_question(void **state)
{
    (void)state;
    machine m = {.work = 1e-3, .rate = 100, .slow_from = MOST};
    bench_timing t;
    assert_ok(measure(&m, 100, 1, &t));
    assert_in_range(m.asked, 10, 11); /* what is known holds for a hundredth of a second */
    assert_true(t.limit[BENCH_FMA].rate == 100);
}

static void limits_are_of_all_threads(void **state)
{
    (void)state;
    machine m = {.work = 1e-4, .rate = 100, .slow_from = MOST};
    bench_timing t;
    assert_ok(measure(&m, 3, 2, &t));
    assert_true(t.limit[BENCH_FMA].rate == 200 && t.limit[BENCH_PAIRS].rate == 400 && t.limit[BENCH_DRAM].rate == 0);
}

static void a_question_that_fails_ends_it(void **state)
{
    (void)state;
    machine m = {.work = 0.012, .rate = 100, .slow_from = MOST, .fail_at = 3};
    bench_timing t;
    assert_status(HGA_EINVAL, measure(&m, 6, 1, &t));
    assert_int_equal(m.repeats, 2);
}

static void nobody_asks_unasked(void **state)
{
    (void)state;
    machine m = {.work = 1e-5, .slow_from = MOST, .asked = 1};
    bench_timing t;
    m.speed = 1;
    assert_ok(bench_repeat(run, &m, &(bench_rules){.repetitions = 3, .warmup = -1}, 1, &t));
    assert_true(m.asked == 1 && t.limit[BENCH_FMA].rate == 0 && t.limit[BENCH_FMA].possible == 0);
}

/* ---- this machine ---- */

static void bursts_say_what_was_asked(void **state)
{
    (void)state;
    bench_asking a = {.isa = "ref", .row = 100}, all = {.isa = "ref", .memory = 1, .pairs = 1, .row = 100};
    bench_limits limits;
    double rate[BENCH_LIMITS] = {-1, -1, -1, -1}, two[BENCH_LIMITS];
    assert_ok(bench_limits_open(&a, &limits));
    assert_ok(limits.ask(limits.context, 1, rate));
    bench_limits_close(&a);
    assert_true(rate[BENCH_FMA] > 0 && rate[BENCH_PAIRS] == 0 && rate[BENCH_DRAM] == 0 && rate[BENCH_GATHER] == 0);
    assert_ok(bench_limits_open(&all, &limits));
    assert_ok(limits.ask(limits.context, 2, two));
    assert_true(two[BENCH_FMA] > 0 && two[BENCH_PAIRS] == 0 && two[BENCH_DRAM] > 0 && two[BENCH_GATHER] > 0);
    /* ref multiplies no pairs */
    bench_limits_close(&all);
}

static void rates_of_nothing_are_refused(void **state)
{
    (void)state;
    double rate;
    float x[3 * 128] = {0};
    assert_status(HGA_EINVAL, hga_measure_flops("ref", 0, 0, &rate));
    assert_status(HGA_EINVAL, hga_measure_flops("ref", 0, 61, &rate));
    assert_status(HGA_EINVAL, hga_measure_read("ref", 127, x, &rate));
    assert_status(HGA_EUNSUPPORTED, hga_measure_flops("abacus", 0, 0.001, &rate));
    assert_ok(hga_measure_read("ref", 128, x, &rate));
    assert_true(rate > 0);
    assert_status(HGA_EINVAL, hga_measure_gather("ref", 3, 127, x, &rate));
    assert_status(HGA_EINVAL, hga_measure_gather("ref", 0, 128, x, &rate));
    assert_status(HGA_EUNSUPPORTED, hga_measure_gather("abacus", 3, 128, x, &rate));
    for (int rows = 1; rows <= 3; rows++) { /* of any number, without reading behind them */
        assert_ok(hga_measure_gather("ref", rows, 128, x, &rate));
        assert_true(rate > 0);
    }
}

/* Of x86 the first core's model; ARM has numbers, one line a core, and cores of several kinds. */
static void a_processor_has_its_name_or_its_numbers(void **state)
{
    static const struct {
        const char *lines, *cpu;
        double mhz;
    } rows[] = {
        {"processor : 0\nmodel name\t: AMD EPYC\ncpu MHz\t\t: 2400.5\nprocessor : 1\nmodel name\t: other\n", "AMD EPYC",
         2400.5},
        {"CPU implementer\t: 0x41\nCPU part\t: 0xd05\n\nCPU implementer\t: 0x41\nCPU part\t: 0xd05\n\n"
         "CPU implementer\t: 0x41\nCPU part\t: 0xd0b\n",
         "ARM cores 0x41 0xd05, 0x41 0xd0b", 0},
        {"", "", 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bench_context c = {.n_caches = 0};
        FILE *f = fopen("cpuinfo", "w");
        assert_non_null(f);
        fputs(rows[i].lines, f), fclose(f);
        bench_context_cpu("cpuinfo", &c);
        unlink("cpuinfo");
        assert_string_equal(c.cpu, rows[i].cpu);
        assert_true(fabs(c.mhz - rows[i].mhz) < 1e-9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_those_of_neighbours_in_time),
        cmocka_unit_test(a_repeat_has_the_rates_around_it),
        cmocka_unit_test(one_repeat_is_no_median),
        cmocka_unit_test(a_limit_is_asked_before_each_repeat_and_after_the_last),
        cmocka_unit_test(short_repeats_share_a_question),
        cmocka_unit_test(limits_are_of_all_threads),
        cmocka_unit_test(a_question_that_fails_ends_it),
        cmocka_unit_test(nobody_asks_unasked),
        cmocka_unit_test(bursts_say_what_was_asked),
        cmocka_unit_test(rates_of_nothing_are_refused),
        cmocka_unit_test(a_processor_has_its_name_or_its_numbers),
    };
    return cmocka_run_group_tests_name("timing", tests, NULL, NULL);
}
