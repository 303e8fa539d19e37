/* goals.c: the table of goals, a row each, and what is printed of them. */
#include "goal_ways.h"

#include <string.h>

#include "progress.h"

/* ---- the table ---- */

#define SHARE "share_of_peak", 100
#define EDGE  "ns_per_edge_head", 1
#define ALONE "peers: attended edges alone"
#define HSA   "hsa:branching=2,4,8,16"
#define WIDE  "window:left=128:right=128"

static const goal goals[] = {
    {"dense n=512", goal_figure, "% of peak", 84, 1, "dense", 512, 8, 64, SHARE, NULL},
    {"dense n=1024", goal_figure, "% of peak", 84, 1, "dense", 1024, 8, 64, SHARE, NULL},
    {"dense n=2048", goal_figure, "% of peak", 84, 1, "dense", 2048, 8, 64, SHARE, NULL},
    {"dense n=4096", goal_figure, "% of peak", 84, 1, "dense", 4096, 8, 64, SHARE, NULL},
    {"dense n=8192", goal_figure, "% of peak", 84, 1, "dense", 8192, 8, 64, SHARE, NULL},
    {"dense bf16 n=8192", goal_bf16_share, "% of bf16 peak", 82, 1, "dense", 8192, 8, 64, "share_of_bf16_peak", 100,
     NULL},
    {"htransformer block=64 n=65536", goal_figure, "% of peak", 63, 1, "htransformer:block=64", 65536, 8, 64, SHARE,
     ALONE},
    {"htransformer block=16 n=65536", goal_figure, "% of peak", 37, 1, "htransformer:block=16", 65536, 8, 64, SHARE,
     ALONE},
    {"htransformer block=64 bf16 over f32", goal_bf16_ratio, "times", 0.65, 0, "htransformer:block=64", 65536, 8, 64,
     NULL, 0, NULL},
    {"htransformer block=16 bf16 over f32", goal_bf16_ratio, "times", 0.8, 0, "htransformer:block=16", 65536, 8, 64,
     NULL, 0, NULL},
    {"bpt k=64 n=8192", goal_figure, "ns/edge/head", 2.1, 0, "bpt:k=64", 8192, 8, 64, EDGE, NULL},
    {"bpt k=64 causal n=8192", goal_figure, "ns/edge/head", 2.1, 0, "bpt:k=64:causal=1", 8192, 8, 64, EDGE, NULL},
    {"bpt k=4 n=8192", goal_figure, "ns/edge/head", 4.3, 0, "bpt:k=4", 8192, 8, 64, EDGE, NULL},
    {"bpt k=4 causal n=8192", goal_figure, "ns/edge/head", 4.3, 0, "bpt:k=4:causal=1", 8192, 8, 64, EDGE, NULL},
    {"bpt k=64 rel_key over without", goal_relative, "times", 1.15, 0, "bpt:k=64", 8192, 8, 64, NULL, 0, NULL},
    {"bpt k=4 rel_key over without", goal_relative, "times", 1.15, 0, "bpt:k=4", 8192, 8, 64, NULL, 0, NULL},
    {"window 128+128 n=65536", goal_figure, "ns/edge/head", 1.55, 0, WIDE, 65536, 8, 64, EDGE, NULL},
    {"window 64+64 n=8192", goal_figure, "ns/edge/head", 1.9, 0, "window:left=64:right=64", 8192, 8, 64, EDGE, NULL},
    {"random degree=32 n=100000", goal_figure, "ns/edge/head", 27, 0, "random:degree=32", 100000, 8, 64, EDGE, NULL},
    {"random degree=32 bf16 n=100000", goal_bf16, "ns/edge/head", 17, 0, "random:degree=32", 100000, 8, 64, EDGE,
     "peers: f32"},
    {"hsa 2,4,8,16 n=65536", goal_bandwidth, "% of DRAM", 45, 1, HSA, 65536, 8, 64, NULL, 0, "of bytes_min"},
    {"hsa 2,4,8,16 n=1M", goal_bandwidth, "% of DRAM", 45, 1, HSA, 1048576, 2, 64, NULL, 0,
     "of bytes_min; 2 heads, for memory's sake"},
    {"treeformer n=8192 8x96 routed", goal_routed, "ms", 20, 0, NULL, 8192, 8, 96, NULL, 0,
     "routing, graph, plan and attention"},
    {"2 threads over 1", goal_threads, "times", 1.9, 1, .note = NULL},
    {"graph + plan, regular", goal_build, "% of execute", 2, 0, .note = NULL},
    {"graph + plan, treeformer", goal_routed_build, "% of execute", 5, 0, NULL, 8192, 8, 96, NULL, 0, "routed anew"},
    {"seconds per token 4k to 1M", goal_growth, "times", 1.2, 0, NULL, 0, 1, 64, NULL, 0, NULL},
    {"workspace htransformer block=16", goal_workspace, "MB", 40, 0, "htransformer:block=16", 65536, 8, 64, NULL, 0,
     NULL},
    {"workspace hsa 2,4,8,16", goal_workspace, "MB", 60, 0, HSA, 65536, 8, 64, NULL, 0, NULL},
    {"memory dense n=8192", goal_memory, "MB", 0, 0, "dense", 8192, 8, 64, NULL, 0,
     "10 % of the tensors + 8 MB a thread"},
    {"backward dense n=4096", goal_backward, "of forward", 2.5, 0, "dense", 4096, 8, 64, NULL, 0, NULL},
    {"backward window 128+128 n=65536", goal_backward, "of forward", 2.5, 0, WIDE, 65536, 8, 64, NULL, 0, NULL},
    {"backward htransformer block=16 n=65536", goal_backward, "of forward", 2.5, 0, "htransformer:block=16", 65536, 8,
     64, NULL, 0, NULL},
    {"backward htransformer block=64 n=65536", goal_backward, "of forward", 2.5, 0, "htransformer:block=64", 65536, 8,
     64, NULL, 0, NULL},
    {"backward bpt k=4 n=4096", goal_backward, "of forward", 2.5, 0, "bpt:k=4", 4096, 8, 64, NULL, 0, NULL},
    {"backward bpt k=64 n=4096", goal_backward, "of forward", 2.5, 0, "bpt:k=64", 4096, 8, 64, NULL, 0, NULL},
    {"backward bpt k=64 rel_key n=4096", goal_backward, "of forward", 2.7, 0, "bpt:k=64", 4096, 8, 64, "rel_key", 0,
     NULL},
    {"backward hsa 2,4,8,16 n=65536", goal_backward, "of forward", 2.5, 0, HSA, 65536, 8, 64, NULL, 0, NULL},
    {"backward treeformer-fine n=4096", goal_backward, "of forward", 2.5, 0, "treeformer-fine", 4096, 8, 64, NULL, 0,
     NULL},
    {"backward random degree=32 n=65536", goal_backward, "of forward", 2.5, 0, "random:degree=32", 65536, 8, 64, NULL,
     0, NULL},
    {"odd shapes over 8x64, dense", goal_shapes, "% of its GFLOP/s", 65, 1, "dense", 2048, 8, 64, NULL, 0, NULL},
    {"odd shapes over 8x64, bpt k=64", goal_shapes, "% of its GFLOP/s", 65, 1, "bpt:k=64", 4096, 8, 64, NULL, 0, NULL},
    {0},
};

static json_t *goal_row(const goals_run *r, const goal *g, const finding *f)
{
    /* goals are for their own lengths; a ratio of disturbed times says nothing */
    int done = isfinite(f->reached) && !r->place.dry_run, disturbed = done && f->busy < BENCH_TRUSTED,
        refused = f->scaling && f->busy < BENCH_TRUSTED_SCALING, judged = done && !r->most_tokens && !refused;
    int met = g->at_least ? f->reached >= f->goal : f->reached <= f->goal;
    json_t *row = json_pack("{s:s, s:f, s:b, s:s, s:o, s:o, s:s?, s:o, s:s?, s:s?, s:I}", "case", g->name, "goal",
                            f->goal, "at_least", g->at_least, "unit", g->unit, "reached",
                            json_number(done ? f->reached : NAN), "met", judged ? json_boolean(met) : json_null(),
                            "peer", f->peer, "peer_value", json_number(f->peer ? f->peer_value : NAN), "note",
                            done && refused ? "no verdict below 0.95 of the processor" : f->note, "benchmark",
                            f->benchmark, "bytes", (json_int_t)f->bytes);
    return json_joined(row,
                       json_pack("{s:o, s:b, s:s, s:o, s:o}", "cpu_over_wall", json_number(done ? f->busy : NAN),
                                 "disturbed", disturbed, "mark", disturbed ? "!" : "", "share_of_peak",
                                 json_number(done ? f->share : NAN), "goal_share_of_peak", json_number(f->goal_share)));
}

static int run_goal(goals_run *r, const goal *g)
{
    finding f = {.goal = g->goal, .note = g->note, .share = NAN, .goal_share = NAN, .busy = NAN};
    int status = g->run(r, g, &f);
    if (status) return status;
    return json_array_append_new(r->goals, goal_row(r, g, &f)) == 0 ? CLI_GOOD : complain(CLI_OUTSIDE, "out of memory");
}

int goals_measure(goals_run *r)
{
    int n = 0, status = CLI_GOOD;
    progress bar = progress_start("goals");
    while (goals[n].name) n++;
    for (int i = 0; i < n && status == CLI_GOOD; i++) {
        progress_show((double)i / n, &bar);
        if (!r->only || strstr(goals[i].name, r->only)) status = run_goal(r, &goals[i]);
    }
    progress_end(&bar);
    if (status == CLI_GOOD && json_array_size(r->goals) == 0)
        status = complain(CLI_USAGE, "--case: no case has '%s' in its name", r->only);
    return status;
}

/* ---- printing ---- */

static json_t *figure(double value, const char *unit)
{
    return isfinite(value) ? json_sprintf("%.3g %s", value, unit) : json_string("-");
}

/* nanoseconds mean little beside another machine's; shares of the two peaks do */
static json_t *note_of(const json_t *row)
{
    const char *note = text_of(row, "note");
    double share = number_of(row, "share_of_peak");
    if (!isfinite(share)) return json_string(note ? note : "");
    return json_sprintf("%.0f %% of peak; goal: %.0f %% of %d GFLOP/s%s%s", 100 * share,
                        100 * number_of(row, "goal_share_of_peak"), GOAL_MACHINE_GFLOPS, note ? "; " : "",
                        note ? note : "");
}

/* numbers with their units, as the table shows them */
static json_t *printed(const json_t *row)
{
    const char *unit = text_of(row, "unit"), *peer = text_of(row, "peer");
    double wanted = number_of(row, "goal");
    json_t *other = peer ? json_sprintf("%s %.3g", peer, number_of(row, "peer_value")) : json_string("-");
    json_t *met = json_object_get(row, "met");
    json_t *aim =
        json_sprintf("%s %.3g %s", json_is_true(json_object_get(row, "at_least")) ? ">=" : "<=", wanted, unit);
    return json_pack("{s:O, s:o, s:o, s:o, s:O, s:o, s:O, s:O, s:O, s:O}", "case", json_object_get(row, "case"), "goal",
                     aim, "reached", figure(number_of(row, "reached"), unit), "peer", other, "met", met, "note",
                     note_of(row), "bytes", json_object_get(row, "bytes"), "cpu_over_wall",
                     json_object_get(row, "cpu_over_wall"), "disturbed", json_object_get(row, "disturbed"), "mark",
                     json_object_get(row, "mark"));
}

const column goals_columns[] = {
    {"case", "case", NULL, 0}, {"goal", "goal", NULL, 0}, {"reached", "reached", NULL, 0}, {"peer", "peer", NULL, 0},
    {"met", "met", NULL, 0},   MEASURED_COLUMNS,          {"note", "note", NULL, 0},       {0}};
const column goals_dry_columns[] = {{"case", "case", NULL, 0},
                                    {"goal", "goal", NULL, 0},
                                    {"bytes", "MB without peers", "%.1f", 1e-6},
                                    {"note", "note", NULL, 0},
                                    {0}};

json_t *goals_as_text(const json_t *measured)
{
    json_t *rows = json_array(), *row;
    size_t i;
    json_array_foreach(measured, i, row) json_array_append_new(rows, printed(row));
    return rows;
}
