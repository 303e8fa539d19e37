/* test_goals.c: every row of bench/goals.json can be missed. On a machine and a clock of our own each row's figure is
   made a tenth better than its goal, and then a tenth worse, by the time or the memory of what it measures: it is what
   it was made, and the verdict turns. A row of another kind fails until it is said here how its figure gets worse.
   Graphs are a 64th as long as the goals'. */
#include "arguments.h"
#include "goals.h"
#include "goals_page.h"
#include "routed.h"
#include "testing.h"

#include <math.h>
#include <string.h>

enum { SHORTER = 64, REPEATS = 3 };
static const double peak = 1e11, pairs_peak = 2e11, dram = 1e10, gather = 5e9, usual_share = 0.5, routed_seconds = 0.01;

/* ---- the world: what the row at hand shall come to ---- */

static struct world {
    const json_t *goal, *item; /* item: of a list of cases, the one at hand */
    double figure, bound;      /* what it comes to; the goal */
    size_t part;               /* of a sum, the part that is all of it */
    double second;             /* what the row's time takes in the second pass, over the first */
    int routed;
    const bench_place *place;
    double now, over_seconds, over_cost; /* of the measurement below the line: its time, by what it is counted in */
    goals_run run;
} world;

static const json_t *member(const char *key)
{
    const json_t *own = world.item ? json_object_get(world.item, key) : NULL;
    return own ? own : json_object_get(world.goal, key);
}

static const char *word(const char *key) { return json_string_value(member(key)); }
static int has(const char *key) { return member(key) != NULL; }

/* The figure without the factor that it is shown with. */
static double figure(void) { return world.figure / (has("times") ? json_number_value(member("times")) : 1); }
static int is_key(const char *key) { return word("key") && strcmp(word("key"), key) == 0; }

/* Is `key` of a sum, and the part that is all of it? */
static int is_part(const char *key)
{
    const json_t *list = member("key"), *one = json_is_array(list) ? json_array_get(list, world.part) : list;
    return json_is_string(one) && strcmp(json_string_value(one), key) == 0;
}

static hga_id number_in(const json_t *o, const char *key, hga_id otherwise)
{
    const json_t *x = json_object_get(o, key);
    return x ? (hga_id)json_integer_value(x) : otherwise;
}

/* Is what is measured below the line of the row's ratio? */
static int is_below(const hga_shape *s, const hga_options *o)
{
    const json_t *over = member("over");
    const char *precision = json_string_value(json_object_get(over, "precision"));
    return over && number_in(over, "heads", s->n_heads) == s->n_heads && number_in(over, "dim", s->dim) == s->dim &&
           number_in(over, "dim_v", s->dim_v) == s->dim_v &&
           number_in(over, "kv_heads", s->n_kv_heads) == s->n_kv_heads &&
           number_in(over, "threads", o->threads) == o->threads &&
           number_in(over, "tokens", world.place->tokens * SHORTER) == world.place->tokens * SHORTER &&
           (!precision || (strcmp(precision, "bf16") == 0) == (o->precision == HGA_PRECISION_BF16)) &&
           (!json_object_get(over, "rel_key") ||
            json_is_true(json_object_get(over, "rel_key")) == world.place->relative);
}

/* ---- how long an execution takes ---- */

/* The work of a case, and what the machine would do of it in a second: shares of a limit. */
static double seconds_of_share(const hga_plan *plan)
{
    hga_cost c = hga_plan_cost(plan);
    const hga_shape *s = &world.place->shape;
    double threads = hga_plan_threads(plan), bytes = c.edges * s->n_heads * 2 * s->dim * 4;
    if (is_key("share_of_peak")) return c.flops / (threads * peak);
    if (is_key("share_of_bf16_peak")) return c.flops / (threads * pairs_peak);
    if (is_key("share_of_dram")) return c.bytes_min / (threads * dram);
    return is_key("share_of_gather") ? bytes / (threads * gather) : 0;
}

/* What times are counted in, where a row is a ratio of two. */
static double unit_of(const hga_plan *plan)
{
    hga_cost c = hga_plan_cost(plan);
    if (is_key("gflops")) return c.flops;
    return is_key("ns_per_edge_head") ? c.edges * world.place->shape.n_heads : 1;
}

/* The row's ratio is of the times of the two, or of speeds: then more is faster. */
static double seconds_of_ratio(const hga_plan *plan, double usual)
{
    double unit = unit_of(plan), stretch = !is_key("gflops") && has("at_least") ? world.bound / world.figure : 1;
    if (is_below(&world.place->shape, &world.place->options))
        return world.over_cost = unit, world.over_seconds = usual * stretch;
    double each = world.over_seconds * unit / world.over_cost;
    return is_key("gflops") ? each / figure() : each * figure();
}

/* Of the lengths of a row, the greatest alone has more than its share. */
static double seconds_of_length(void)
{
    const json_t *lengths = member("lengths");
    double n = (double)world.place->tokens * SHORTER, each = n * (strcmp(word("by"), "tokens") == 0 ? 1 : log2(n));
    int last = n == (double)json_integer_value(json_array_get(lengths, json_array_size(lengths) - 1));
    return 1e-6 * each * (last ? figure() : 1);
}

static double seconds_of(const hga_plan *plan)
{
    double usual = hga_plan_cost(plan).flops / (hga_plan_threads(plan) * peak * usual_share);
    if (world.routed) return routed_seconds;
    if (seconds_of_share(plan) > 0) return seconds_of_share(plan) / figure();
    if (has("over")) return seconds_of_ratio(plan, usual);
    if (has("lengths")) return seconds_of_length();
    if (is_part("graph_seconds") || is_part("plan_seconds")) return 1e-3 / figure();
    return usual;
}

/* ---- what the linker gives in place of clock, limits and calls ---- */

/* The row's own limit; no other is in its way, however short the calls are made. */
static double limit_of(const char *key, double rate) { return is_key(key) ? rate : 1e3 * rate; }

double __wrap_bench_seconds(void) { return world.now; }
double __wrap_bench_seconds(void);
bench_time __wrap_bench_clock(void);
bench_time __wrap_bench_clock(void) { return (bench_time){world.now, 2 * world.now, world.now}; } /* on both cores */
bench_time __wrap_bench_since(bench_time start);
bench_time __wrap_bench_since(bench_time start)
{
    bench_time t = __wrap_bench_clock();
    return (bench_time){t.wall - start.wall, t.process - start.process, t.thread - start.thread};
}

#define WRAP(type, name, ...)        \
    type __real_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__); \
    type __wrap_##name(__VA_ARGS__)

WRAP(hga_status, hga_measure_flops, const char *isa, int pairs, double seconds, double *gflops)
{
    (void)isa, (void)seconds;
    *gflops = (pairs ? limit_of("share_of_bf16_peak", pairs_peak) : limit_of("share_of_peak", peak)) / 1e9;
    return HGA_OK;
}
WRAP(hga_status, hga_measure_read, const char *isa, hga_pos n, const float *x, double *gbytes)
{
    (void)isa, (void)n, (void)x;
    *gbytes = limit_of("share_of_dram", dram) / 1e9;
    return HGA_OK;
}
WRAP(hga_status, hga_measure_gather, const char *isa, hga_pos n, hga_id columns, const float *x, double *gbytes)
{
    (void)isa, (void)n, (void)columns, (void)x;
    *gbytes = gather / 1e9;
    return HGA_OK;
}

WRAP(hga_status, hga_plan_execute, const hga_plan *plan, hga_workspace *w, const hga_io *io)
{
    world.now += seconds_of(plan) * (world.run.pass ? world.second : 1);
    return io->tape ? __real_hga_plan_execute(plan, w, io) : HGA_OK; /* whose results nobody looks at */
}
WRAP(hga_status, hga_plan_gradient, const hga_plan *plan, hga_workspace *w, const hga_io *io, const hga_grad_io *grad)
{
    world.now += seconds_of(plan) * (is_key("over_forward") ? figure() : 2);
    return __real_hga_plan_gradient(plan, w, io, grad);
}
WRAP(hga_status, hga_plan_create, const hga_graph *g, const hga_program *p, const hga_shape *s, const hga_options *o,
     hga_plan **plan)
{
    world.now += is_part("plan_seconds") ? 1e-3 : 0;
    return __real_hga_plan_create(g, p, s, o, plan);
}
WRAP(int, bench_variant_build, const bench_variant *v, hga_id tokens, bench_case *out)
{
    world.now += is_part("graph_seconds") ? 1e-3 : 0;
    return __real_bench_variant_build(v, tokens, out);
}

/* Parts of a routed call: of a figure of parts the part at hand is all of it; of one of the call routing is the rest,
   which execution leaves. */
WRAP(hga_status, hga_route, const hga_router *r, const float *x, hga_id n, ptrdiff_t row, ptrdiff_t head, int32_t *leaf)
{
    world.now += has("key") ? 0 : (figure() - 1) * routed_seconds;
    return __real_hga_route(r, x, n, row, head, leaf);
}
WRAP(hga_status, hga_build_treeformer_fine, const hga_treeformer *t, hga_graph **g, hga_program *p)
{
    world.now += is_part("build_seconds") ? figure() * routed_seconds : 0;
    return __real_hga_build_treeformer_fine(t, g, p);
}
WRAP(hga_status, hga_plan_update, hga_plan *plan, hga_graph *g)
{
    world.now += is_part("update_seconds") ? figure() * routed_seconds : 0;
    return __real_hga_plan_update(plan, g);
}

static int64_t bytes_of(const char *key, int64_t real)
{
    if (is_part(key)) return (int64_t)figure();
    return json_is_array(member("key")) ? 0 : real;
}
WRAP(int64_t, hga_plan_workspace_bytes, const hga_plan *plan)
{
    return bytes_of("bytes_workspace", __real_hga_plan_workspace_bytes(plan));
}
WRAP(int64_t, hga_plan_bytes, const hga_plan *plan) { return bytes_of("bytes_plan", __real_hga_plan_bytes(plan)); }
WRAP(int64_t, hga_graph_bytes, const hga_graph *g) { return bytes_of("bytes_graph", __real_hga_graph_bytes(g)); }

/* Of a list of variants, the one that is measured. */
static const json_t *item_of(const bench_place *p)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(world.goal, "each"), i, item)
    {
        const char *variant = text_of(item, "variant");
        if (variant && strcmp(variant, p->variant->text) == 0) return item;
    }
    return NULL;
}

/* Shorter than the row says, which so is told. */
WRAP(int, bench_run, const bench_place *p, json_t *rows, int *failed)
{
    bench_place small = *p;
    size_t from = json_array_size(rows);
    small.tokens = p->tokens / SHORTER, small.peers = 0;
    world.place = &small, world.item = item_of(p);
    int status = __real_bench_run(&small, rows, failed);
    for (size_t i = from; i < json_array_size(rows); i++)
        json_object_set_new(json_array_get(rows, i), "tokens", json_integer(p->tokens));
    world.place = NULL, world.item = NULL;
    return status;
}
WRAP(hga_status, measure_routed, hga_id tokens, hga_id heads, hga_id dim, hga_id height, const hga_options *options,
     const bench_rules *rules, bench_measurement *out, routed_times *times)
{
    world.routed = 1;
    hga_status st = __real_measure_routed(tokens / SHORTER, heads, dim, height, options, rules, out, times);
    world.routed = 0;
    return st;
}

/* ---- a run ---- */

static const json_t *row_of(const char *name)
{
    size_t i;
    json_t *row;
    json_array_foreach(world.run.goals, i, row) if (strcmp(text_of(row, "case"), name) == 0) return row;
    fail_msg("%s: is in no row", name);
    return NULL;
}

/* The row, measured; to be ended. */
static const typed_call nothing;
static const json_t *measured(double figure_wanted)
{
    world.figure = figure_wanted;
    world.run = (goals_run){
        .only = json_string_value(json_object_get(world.goal, "case")), .rows = json_array(), .goals = json_array()};
    bench_place *p = &world.run.place;
    p->call = &nothing, p->options.threads = 1, p->options.isa = default_isa(), p->peaks.bf16_gflops = 1,
    p->peaks.fma_gflops = peak / 1e9, p->peaks.dram_gbytes = dram / 1e9;
    p->rules = (bench_rules){.repetitions = REPEATS, .warmup = -1};
    assert_int_equal(goals_measure(&world.run), CLI_GOOD);
    return row_of(world.run.only);
}

static void end_run(void) { json_decref(world.run.rows), json_decref(world.run.goals); }

/* The number that is to be reached; of some rows what is measured says it. */
static double bound_of_row(void)
{
    const json_t *bound = member(has("at_least") ? "at_least" : "at_most");
    if (json_is_number(bound)) return json_number_value(bound);
    double found = number_of(measured(world.bound = 1), "goal");
    end_run();
    return found;
}

/* Of what kinds there are; a sum has as many parts. */
static size_t parts_or_fail(void)
{
    static const char *const known[] = {"share_of_peak", "share_of_bf16_peak", "share_of_dram", "share_of_gather",
                                        "over_forward",  "bytes_workspace",    "bytes_plan",    "bytes_graph",
                                        "graph_seconds", "plan_seconds",       "build_seconds", "update_seconds",
                                        "gflops",        "ns_per_edge_head"};
    json_t *key = json_object_get(world.goal, "key"),
           *list = json_is_array(key) ? json_incref(key) : json_pack("[o]", key ? json_incref(key) : json_string(""));
    size_t i, n = json_array_size(list);
    json_t *one;
    json_array_foreach(list, i, one)
    {
        int found = !key && (has("over") || has("lengths") || has("routed"));
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            found |= strcmp(known[k], json_string_value(one)) == 0;
        if (!found) fail_msg("%s: is of a kind that this test cannot make worse", text_of(world.goal, "case"));
    }
    json_decref(list);
    return n;
}

/* ---- facts ---- */

static void hold(int met)
{
    int better = met == has("at_least");
    double want = world.bound * (better ? 1.1 : 1 / 1.1);
    const json_t *row = measured(want);
    double got = number_of(row, "reached");
    if (!(fabs(got / want - 1) < 0.01)) fail_msg("%s: is %g, made to be %g", text_of(row, "case"), got, want);
    if (!json_equal(json_object_get(row, "met"), met ? json_true() : json_false()))
        fail_msg("%s: %g is %smet, its goal being %g", text_of(row, "case"), got, met ? "not " : "", world.bound);
    assert_string_equal(text_of(row, "mark"), "");
    end_run();
}

static json_t *begin_table(void)
{
    json_t *table = json_loads(goals_page, 0, NULL);
    assert_non_null(table);
    world.second = 1;
    return table;
}

static void the_verdict_of_every_row_turns(void **state)
{
    (void)state;
    json_t *table = begin_table(), *goal;
    size_t i;
    json_array_foreach(table, i, goal)
    {
        world.goal = goal, world.part = 0;
        size_t n = parts_or_fail();
        world.bound = bound_of_row();
        for (world.part = 0; world.part < n; world.part++) hold(1), hold(0);
    }
    json_decref(table);
}

/* The case of that name, whose second pass takes so much longer than the first, which comes to `first`. */
static const json_t *measured_twice(const json_t *table, const char *name, double first, double longer)
{
    size_t i;
    json_t *goal;
    world.goal = NULL;
    json_array_foreach(table, i, goal) if (strcmp(text_of(goal, "case"), name) == 0) world.goal = goal;
    assert_non_null(world.goal);
    world.part = 0, world.second = longer, world.bound = bound_of_row();
    return measured(first);
}

static void a_row_is_measured_twice_and_marked_where_the_two_differ(void **state)
{
    (void)state;
    static const struct {
        double first, longer;
        const char *mark, *note;
        int met; /* -1: not judged */
        double reached;
    } rows[] = {
        {95, 1.04, "", NULL, 1, 95}, /* nearly the same, whichever is better */
        {95, 0.96, "", NULL, 1, 95 / 0.96},
        {95, 1.06, "!", NULL, 1, 95}, /* of a goal of 84 both are met .. */
        {95, 1.2, "!", "no verdict: met in one of two passes", -1, 95},
        {70, 1.2, "!", NULL, 0, 70}, /* .. or none */
        {76, 0.8, "!", "no verdict: met in one of two passes", -1, 95},
    };
    json_t *table = begin_table();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *row = measured_twice(table, "dense n=2048", rows[i].first, rows[i].longer), *shown;
        const json_t *both = json_object_get(row, "reached_in_passes"), *met = json_object_get(row, "met");
        assert_true(fabs(json_number_value(json_array_get(both, 0)) - rows[i].first) < 1e-6);
        assert_true(fabs(json_number_value(json_array_get(both, 1)) - rows[i].first / rows[i].longer) < 1e-6);
        assert_true(fabs(number_of(row, "reached") - rows[i].reached) < 1e-6);
        assert_string_equal(text_of(row, "mark"), rows[i].mark);
        assert_true(rows[i].met < 0 ? json_is_null(met) : json_is_true(met) == rows[i].met && json_is_boolean(met));
        if (rows[i].note) assert_string_equal(text_of(row, "note"), rows[i].note);
        json_t *text = goals_as_text(world.run.goals);
        shown = json_array_get(text, 0);
        assert_int_equal(*rows[i].mark != 0, strstr(text_of(shown, "note"), ", then ") != NULL);
        assert_int_equal(json_array_size(world.run.rows), 2); /* a measurement of each pass */
        json_decref(text), end_run();
    }
    json_decref(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_verdict_of_every_row_turns),
        cmocka_unit_test(a_row_is_measured_twice_and_marked_where_the_two_differ),
    };
    return cmocka_run_group_tests_name("goals", tests, NULL, NULL);
}
