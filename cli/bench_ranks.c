/* bench_ranks.c: a case on the ranks of mpirun, by an exchange that counts, and measures how long the engine has
   been in it. Computing is processor time outside of it, since ranks may be more than processors. */
#include "bench_run.h"

#include <math.h>
#include <stdlib.h>

#include "counted_wire.h"
#include "numbers.h"
#include "rank_rows.h"
#include "world.h"

enum { LEAST_REPEATS = 5, MOST_REPEATS = 200, RATE_TOKENS = 8192, STREAM = 12 };

/* ---- the link ---- */

/* Measures the latency by messages of 8 bytes and the bandwidth by those of 4 MiB; typed values stay. */
int bench_link_measure(bench_link *link)
{
    const int64_t large = 4 << 20;
    double small_seconds = 0, large_seconds = 0;
    char *data = NULL;
    int status = CLI_GOOD;
    TRY(world_agree(take(large, 1, &data)));
    TRY(world_agree(complain_of(wire_ping(world_exchange(), 8, data, 500, &small_seconds), CLI_OUTSIDE, "MPI")));
    TRY(world_agree(complain_of(wire_ping(world_exchange(), large, data, 20, &large_seconds), CLI_OUTSIDE, "MPI")));
    if (link->latency_us == 0) link->latency_us = 1e6 * small_seconds;
    if (link->gbits == 0) link->gbits = 8e-9 * (double)large / fmax(large_seconds - small_seconds, 1e-9);
done:
    free(data);
    return status;
}

/* ---- a case ---- */

/* What a rank has measured of one execution, or the most of all ranks. */
typedef struct rank_times {
    double compute, within, wall; /* seconds: processor time a thread outside of the exchange; wall time in it; all */
    double messages, bytes;       /* in or out, whichever are more */
} rank_times;

typedef struct rank_case {
    const bench_setup *index;
    bench_case made; /* graph, program, plan, workspace, tensors of the rank's rows */
    counted_wire exchange;
    hga_id threads;
    rank_rows rows;
    call_files files;
    int repeats;
} rank_case;

/* Makes this rank's plan and workspace; all ranks agree on whether they could be made. */
static int open_plan(rank_case *c)
{
    const model m = model_of(c->made.graph, &c->made.program, c->index->variant->text);
    MUST(rank_plan_make(&m, &c->index->shape, &c->index->options, &c->exchange.outer, &c->made.plan,
                        &c->made.workspace));
    c->threads = hga_plan_threads(c->made.plan);
    return CLI_GOOD;
}

/* Random numbers for the rank's rows. */
static int open_tensors(rank_case *c)
{
    const hga_shape *s = &c->index->shape;
    int64_t heads = s->n_heads, kv = s->n_kv_heads ? s->n_kv_heads : heads;
    int64_t width[RANK_TENSORS] = {heads * s->dim, kv * s->dim, kv * s->dim, heads * s->dim}, floats = 1, at = 0;
    hga_tensor *tensor[RANK_TENSORS] = {&c->made.io.query, &c->made.io.key, &c->made.io.value, &c->made.io.out};
    const model m = model_of(c->made.graph, &c->made.program, c->index->variant->text);
    MUST(rank_rows_find(c->made.plan, &m, 0, &c->rows));
    for (int i = 0; i < RANK_TENSORS; i++) floats += c->rows.of[i].rows * width[i];
    MUST(take(floats, sizeof *c->made.tensors, &c->made.tensors));
    numbers_fill(STREAM + (uint64_t)world_rank(), 1, floats, c->made.tensors);
    for (int i = 0; i < RANK_TENSORS; at += c->rows.of[i].rows * width[i], i++)
        if (c->rows.of[i].exists) *tensor[i] = (hga_tensor){.data = c->made.tensors + at, .rows = c->rows.of[i].rows};
    c->made.io.type_scale.data = c->made.type_scale, c->made.io.type_scale.rows = c->made.n_type_scale;
    return bench_bind(c->index, &c->made, &c->files);
}

/* Times one call, and counts what it exchanged: sent or received, whichever is more. */
static hga_status execute(rank_case *c, rank_times *out)
{
    const counted_wire *x = &c->exchange;
    counted_wire_open(world_exchange(), &c->exchange);
    bench_time start = bench_clock();
    hga_status st = hga_plan_execute(c->made.plan, c->made.workspace, &c->made.io);
    bench_time took = bench_since(start);
    double processor = c->threads > 1 ? took.process - x->within.process : took.thread - x->within.thread;
    *out = (rank_times){.compute = processor / c->threads,
                        .within = x->within.wall,
                        .wall = took.wall,
                        .messages = fmax((double)x->messages[0], (double)x->messages[1]),
                        .bytes = fmax((double)x->bytes[0], (double)x->bytes[1])};
    return st;
}

/* Runs one execution; the result is the busiest rank's. They start together, since an agreement comes before. */
static int run_once(rank_case *c, rank_times *most)
{
    rank_times mine = {0}, *all = NULL;
    int status = CLI_GOOD;
    TRY(world_agree(take(world_ranks(), sizeof *all, &all)));
    TRY(world_agree(complain_of(execute(c, &mine), CLI_USAGE, c->index->variant->text)));
    TRY(world_gather(&mine, sizeof mine, all));
    *most = (rank_times){0};
    for (hga_id r = 0; r < world_ranks(); r++) {
        most->compute = fmax(most->compute, all[r].compute), most->within = fmax(most->within, all[r].within);
        most->wall = fmax(most->wall, all[r].wall), most->messages = fmax(most->messages, all[r].messages);
        most->bytes = fmax(most->bytes, all[r].bytes);
    }
done:
    free(all);
    return status;
}

/* As many repeats as the first one's time allows; all ranks know the same times. */
static int repeats_of(const bench_rules *rules, double seconds)
{
    double n = bench_budget(rules) / fmax(seconds, 1e-6);
    if (rules->repetitions) return rules->repetitions;
    return n < LEAST_REPEATS ? LEAST_REPEATS : n > MOST_REPEATS ? MOST_REPEATS : (int)n;
}

static double median(double *x, int n)
{
    bench_sort(x, n);
    return bench_quantile(x, n, 0.5);
}

/* Medians over the repeats of the busiest rank's times. */
static int measure(rank_case *c, rank_times *out)
{
    double *times = NULL;
    int status = CLI_GOOD;
    TRY(run_once(c, out)); /* warm-up */
    TRY(run_once(c, out));
    const int n = c->repeats = repeats_of(&c->index->rules, out->wall);
    TRY(world_agree(take(3 * (int64_t)n, sizeof *times, &times)));
    for (int i = 0; i < n; i++) {
        TRY(run_once(c, out));
        times[i] = out->compute, times[n + i] = out->within, times[2 * n + i] = out->wall;
    }
    out->compute = median(times, n), out->within = median(times + n, n), out->wall = median(times + 2 * n, n);
done:
    free(times);
    return status;
}

/* ---- the prediction ---- */

/* Measures the rate of one process on so many tokens, or on fewer where that takes long. */
static int rate_of(const rank_case *c, double *edge_seconds)
{
    const bench_setup *p = c->index;
    bench_case few = {0};
    int status = CLI_GOOD;
    TRY(bench_build(p, p->tokens < RATE_TOKENS ? p->tokens : RATE_TOKENS, &few));
    model m = model_of(few.graph, &few.program, p->variant->text);
    TRY(ranks_rate(&m, &p->shape, &p->options, edge_seconds));
done:
    bench_case_clear(&few);
    return status;
}

/* Predicts the times from the counts of hga_halo, the measured time of an edge and the link. */
static int predict(const rank_case *c, const bench_link *link, rank_work *work, rank_times *out)
{
    model m = model_of(c->made.graph, &c->made.program, c->index->variant->text);
    double edge_seconds = 0;
    MUST(ranks_count(&m, &c->index->shape, world_ranks(), work));
    MUST(rate_of(c, &edge_seconds));
    out->compute = work->edges * edge_seconds / c->threads;
    out->within = 1e-6 * work->messages * link->latency_us + 8e-9 * work->bytes / link->gbits;
    out->wall = out->compute + out->within;
    return CLI_GOOD;
}

/* A row with what was predicted and what was measured. */
static json_t *row_of(const rank_case *c, const bench_link *link, const rank_work *work, const rank_times *said,
                      const rank_times *is)
{
    const bench_setup *p = c->index;
    json_t *name = json_sprintf("ranks:%s/tokens:%d/ranks:%d/heads:%d/dim:%d/threads:%d", p->variant->text, p->tokens,
                                world_ranks(), p->shape.n_heads, p->shape.dim, c->threads);
    json_t *row = json_joined(bench_google_json(name, c->threads, c->repeats, is->wall, is->compute),
                              json_pack("{s:s, s:i, s:i, s:i, s:i}", "variant", p->variant->text, "tokens", p->tokens,
                                        "ranks", world_ranks(), "heads", p->shape.n_heads, "dim", p->shape.dim));
    return json_joined(row, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
                                      "rows_predicted", work->rows, "bytes_predicted", work->bytes, "bytes_measured",
                                      is->bytes, "messages_predicted", work->messages, "messages_measured",
                                      is->messages, "compute_seconds_predicted", said->compute, "compute_seconds",
                                      is->compute, "exchange_seconds_predicted", said->within, "exchange_seconds",
                                      is->within, "seconds_predicted", said->wall, "seconds", is->wall, "latency_us",
                                      link->latency_us, "gbits", link->gbits));
}

static void close_case(rank_case *c)
{
    rank_rows_clear(&c->rows);
    call_files_clear(&c->files);
    bench_case_clear(&c->made);
}

/* One case on all ranks: measured, then predicted by rank 0, which has the row. */
int bench_ranks_run(const bench_setup *p, const bench_link *link, json_t *rows)
{
    rank_case c = {.index = p};
    rank_times said = {0}, is = {0};
    rank_work work = {0};
    int status = CLI_GOOD;
    counted_wire_open(world_exchange(), &c.exchange);
    TRY(world_agree(bench_build(p, p->tokens, &c.made)));
    TRY(open_plan(&c));
    TRY(world_agree(open_tensors(&c)));
    TRY(measure(&c, &is));
    TRY(world_agree(world_speaks() ? predict(&c, link, &work, &said) : CLI_GOOD));
    if (world_speaks()) status = row_append(rows, row_of(&c, link, &work, &said, &is));
done:
    close_case(&c);
    return status;
}
