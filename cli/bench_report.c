/* bench_report.c: what a benchmark's document has. */
#include "bench_report.h"

#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "machine_context.h"
#include "version.h"

/* ---- rows ---- */

/* work over what could have been done meanwhile; NaN where that was not measured */
static double share_of(double work, const bench_row *r, int limit)
{
    double possible = 1e9 * r->m.time.limit[limit].possible;
    return possible > 0 ? work / possible : NAN;
}

/* of the arithmetic that it may do: of bf16 pairs, too, where these were measured */
static double share_of_arithmetic(const bench_row *r)
{
    double pairs = share_of(r->m.cost.flops, r, BENCH_PAIRS);
    return isfinite(pairs) ? pairs : share_of(r->m.cost.flops, r, BENCH_FMA);
}

/* of limits that were measured in turns and that caches do not raise; NaN: none was */
static double greatest_share(const bench_row *r)
{
    return fmax(share_of_arithmetic(r), share_of(r->m.cost.bytes_min, r, BENCH_DRAM));
}

/* the least time that the machine's limits allow over the time it took: arithmetic, or moving the bytes that must
   move; memory by the context's peak where it was not measured in turns */
static double share_of_roofline(const bench_row *r)
{
    double traffic = share_of(r->m.cost.bytes_min, r, BENCH_DRAM),
           by_peak = r->m.cost.bytes_min / (r->peaks.dram_gbytes * r->m.threads * 1e9) / r->m.time.seconds;
    return fmax(share_of_arithmetic(r), isfinite(traffic) ? traffic : by_peak);
}

json_t *bench_row_name(const char *before, const bench_row *r)
{
    return json_sprintf("%s%s%s%s/tokens:%d/heads:%d/dim:%d/threads:%d/isa:%s/precision:%s%s", before, r->variant,
                        *r->parameters ? ":" : "", r->parameters, r->tokens, r->shape.n_heads, r->shape.dim,
                        r->m.threads, r->isa, r->precision, r->relative ? "/rel_key" : "");
}

json_t *bench_google_json(json_t *name, hga_id threads, int iterations, double wall, double processor)
{
    return json_pack("{s:O, s:o, s:s, s:i, s:i, s:i, s:i, s:f, s:f, s:s}", "name", name, "run_name", name, "run_type",
                     "iteration", "repetitions", 1, "repetition_index", 0, "threads", threads, "iterations", iterations,
                     "real_time", 1e3 * wall, "cpu_time", 1e3 * processor, "time_unit", "ms");
}

static json_t *google_part(const bench_row *r)
{
    const bench_timing *t = &r->m.time;
    return bench_google_json(bench_row_name("", r), r->m.threads, t->repeats, t->seconds, t->processor);
}

static json_t *case_part(const bench_row *r)
{
    return json_pack("{s:s, s:s, s:i, s:i, s:I, s:i, s:i, s:i, s:i, s:b, s:s, s:s}", "variant", r->variant,
                     "parameters", r->parameters, "tokens", r->tokens, "nodes", r->nodes, "edges",
                     (json_int_t)r->m.cost.edges, "heads", r->shape.n_heads, "kv_heads",
                     r->shape.n_kv_heads ? r->shape.n_kv_heads : r->shape.n_heads, "dim", r->shape.dim, "dim_v",
                     r->shape.dim_v ? r->shape.dim_v : r->shape.dim, "rel_key", r->relative, "isa", r->isa, "precision",
                     r->precision);
}

/* bytes of a key row and a value row for each edge and head that has its own, as if no two edges shared one */
static double bytes_gathered(const bench_row *r)
{
    const hga_shape *s = &r->shape;
    hga_id value = s->dim_v ? s->dim_v : s->dim, heads = s->n_kv_heads ? s->n_kv_heads : s->n_heads;
    double bytes = strcmp(r->precision, "bf16") == 0 ? 2 : 4;
    return r->m.cost.edges * heads * (double)(s->dim + value) * bytes;
}

/* a limit's rate, null where it was not measured */
static json_t *rate_json(const bench_row *r, int limit)
{
    double rate = r->m.time.limit[limit].rate;
    return json_number(rate > 0 ? rate : NAN);
}

/* Limits measured in turns with the repeats, and shares of them: medians of the ratios; and of the peak that the
   context has. No share is above 1, but that of reading rows at random, which may be in the caches. */
static json_t *share_part(const bench_row *r)
{
    double peak = 1e9 * r->peaks.fma_gflops * r->m.threads * r->m.time.seconds;
    double flops = r->m.cost.flops;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "peak_gflops", rate_json(r, BENCH_FMA),
                     "share_of_peak", measured_share(share_of(flops, r, BENCH_FMA)), "share_of_context_peak",
                     measured_share(flops / peak), "peak_bf16_gflops", rate_json(r, BENCH_PAIRS), "share_of_bf16_peak",
                     measured_share(share_of(flops, r, BENCH_PAIRS)), "peak_gbytes", rate_json(r, BENCH_DRAM),
                     "share_of_dram", measured_share(share_of(r->m.cost.bytes_min, r, BENCH_DRAM)),
                     "peak_gather_gbytes", rate_json(r, BENCH_GATHER), "share_of_gather",
                     json_number(share_of(bytes_gathered(r), r, BENCH_GATHER)), "share_of_roofline",
                     measured_share(share_of_roofline(r)));
}

/* what follows from work and time */
static json_t *rate_part(const bench_row *r)
{
    const hga_cost *cost = &r->m.cost;
    double seconds = r->m.time.seconds;
    json_t *row = json_pack("{s:f, s:f, s:f, s:o, s:f, s:f, s:o}", "graph_seconds", r->graph_seconds, "flops",
                            cost->flops, "gflops", cost->flops / seconds / 1e9, "ns_per_edge_head",
                            json_number(1e9 * seconds / (cost->edges * r->shape.n_heads)), "bytes_min", cost->bytes_min,
                            "gbytes_per_second", cost->bytes_min / seconds / 1e9, "over_forward",
                            json_number(r->over_forward > 0 ? r->over_forward : NAN));
    return json_joined(row, share_part(r));
}

static json_t *memory_part(const bench_row *r)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "bytes_workspace", (json_int_t)r->m.workspace_bytes, "bytes_graph",
                     (json_int_t)r->m.graph_bytes, "bytes_plan", (json_int_t)r->m.plan_bytes, "bytes_tensors",
                     (json_int_t)r->tensor_bytes, "peak_rss_bytes", (json_int_t)r->peak_rss_bytes);
}

json_t *bench_row_json(const bench_row *r)
{
    json_t *row = json_joined(google_part(r), case_part(r));
    row = json_joined(json_joined(json_joined(row, rate_part(r)), measured_json(&r->m)), memory_part(r));
    return measured_within(row, greatest_share(r));
}

/* what would run; there are no times, and Google's tools require some */
json_t *bench_dry_row_json(const bench_row *r)
{
    int64_t all = r->tensor_bytes + r->m.workspace_bytes + r->m.graph_bytes + r->m.plan_bytes;
    json_t *row = json_joined(json_joined(google_part(r), case_part(r)), memory_part(r));
    row = json_joined(row, json_pack("{s:f, s:I}", "flops", r->m.cost.flops, "bytes", (json_int_t)all));
    if (!(r->estimated_seconds > 0)) return row;
    return json_joined(row, json_pack("{s:f, s:f}", "estimated_seconds", r->estimated_seconds, "estimated_case_seconds",
                                      r->estimated_case_seconds));
}

/* ---- context ---- */

static json_t *caches_json(const bench_context *c)
{
    json_t *list = json_array();
    for (int i = 0; i < c->n_caches; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:i, s:I, s:i}", "type", c->cache[i].type, "level", c->cache[i].level,
                                        "size", (json_int_t)c->cache[i].bytes, "num_sharing", c->cache[i].sharing));
    return list;
}

static json_t *machine_part(void)
{
    bench_context c;
    bench_context_read(&c);
    return json_pack("{s:s, s:i, s:i, s:b, s:s, s:o, s:[f, f, f]}", "cpu_model", c.cpu, "num_cpus", c.cores,
                     "mhz_per_cpu", (int)c.mhz, "cpu_scaling_enabled",
                     c.governor[0] && strcmp(c.governor, "performance") != 0, "governor", c.governor, "caches",
                     caches_json(&c), "load_avg", c.load[0], c.load[1], c.load[2]);
}

json_t *bench_context_json(const char *program, json_t *peaks)
{
    char date[64] = "", host[256] = "";
    time_t now = time(NULL);
    struct tm local;
    if (localtime_r(&now, &local)) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S%z", &local);
    if (gethostname(host, sizeof host - 1) != 0) snprintf(host, sizeof host, "unknown");
    json_t *ours =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o}", "date", date, "host_name", host, "executable", program,
                  "library_build_type", strcmp(BUILD_TYPE, "Debug") == 0 ? "debug" : "release", "compiler",
                  BUILD_COMPILER, "hga_version", hga_version(), "hga_commit", BUILD_COMMIT, "peaks", peaks);
    return json_joined(ours, machine_part());
}

#define SETTING "threads isa precision"
#define SERIES  "variant parameters"

/* ---- scaling ---- */

/* the row of the same case on one thread */
static const json_t *on_one_thread(const json_t *rows, const json_t *like)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) if (rows_agree(row, like, SERIES " tokens isa precision") &&
                                         row_whole(row, "threads") == 1) return row;
    return NULL;
}

/* Compares rows of one case on one thread and on several; no verdict where either was disturbed. */
static json_t *scaling_row(const json_t *one, const json_t *many)
{
    double times = row_number(one, "seconds") / row_number(many, "seconds"),
           busy = fmin(row_number(one, "cpu_over_wall"), row_number(many, "cpu_over_wall"));
    json_t *verdict = busy < BENCH_TRUSTED_SCALING
                          ? json_sprintf("none: below %.2f of the processor", BENCH_TRUSTED_SCALING)
                          : json_sprintf("%.0f %% of %d threads", 100 * times / (double)row_whole(many, "threads"),
                                         (int)row_whole(many, "threads"));
    return json_pack("{s:O, s:O, s:O, s:O, s:O, s:O, s:f, s:O, s:O, s:b, s:o}", "variant",
                     json_object_get(many, "variant"), "parameters", json_object_get(many, "parameters"), "tokens",
                     json_object_get(many, "tokens"), "isa", json_object_get(many, "isa"), "precision",
                     json_object_get(many, "precision"), "threads", json_object_get(many, "threads"), "times", times,
                     "cpu_over_wall_alone", json_object_get(one, "cpu_over_wall"), "cpu_over_wall",
                     json_object_get(many, "cpu_over_wall"), "judged", busy >= BENCH_TRUSTED_SCALING, "verdict",
                     verdict);
}

json_t *bench_scaling(const json_t *rows)
{
    json_t *list = json_array(), *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        const json_t *one = row_whole(row, "threads") > 1 ? on_one_thread(rows, row) : NULL;
        if (one) json_array_append_new(list, scaling_row(one, row));
    }
    return list;
}

/* ---- overtaking ---- */

/* Is it the reference of a row: plain dense attention, or, where rows have their mask, dense attention with the
   same? */
static int is_reference(const json_t *d, const json_t *row)
{
    const json_t *mask = json_object_get(row, "causal");
    if (strcmp(row_text(d, "variant"), "dense") != 0) return 0;
    return mask ? json_equal(mask, json_object_get(d, "causal")) : !*row_text(d, "parameters");
}

/* dense attention on as many tokens in the same setting */
static const json_t *dense_beside(const json_t *rows, const json_t *row)
{
    size_t i;
    json_t *d;
    json_array_foreach(rows, i, d)
    {
        if (is_reference(d, row) && rows_agree(d, row, SETTING " tokens")) return d;
    }
    return NULL;
}

/* log(time / dense time): below 0 the variant is faster; NaN without dense beside it */
static double lead(const json_t *rows, const json_t *row)
{
    const json_t *d = dense_beside(rows, row);
    return d ? log(row_number(row, "seconds") / row_number(d, "seconds")) : NAN;
}

/* the shortest length above `from` measured for this variant, NULL when there is none */
static const json_t *next_length(const json_t *rows, const json_t *like, json_int_t from)
{
    const json_t *best = NULL;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        if (!rows_agree(row, like, SERIES " " SETTING) || row_whole(row, "tokens") <= from) continue;
        if (!best || row_whole(row, "tokens") < row_whole(best, "tokens")) best = row;
    }
    return best;
}

/* The length from which on it is faster, up to the longest: between the last that was slower and the next, on the
   straight line in logarithms of length and time. */
static json_t *overtake(const json_t *rows, const json_t *like)
{
    double before = NAN, length_before = 0, from = 0;
    int bracketed = 0;
    for (const json_t *row = next_length(rows, like, 0); row; row = next_length(rows, like, row_whole(row, "tokens"))) {
        double now = lead(rows, row), length = (double)row_whole(row, "tokens");
        if (isnan(now)) continue;
        if (now < 0 && !(before < 0)) {
            bracketed = before >= 0;
            from = bracketed ? length_before * pow(length / length_before, before / (before - now)) : length;
        }
        before = now, length_before = length;
    }
    return before < 0 ? json_pack("{s:f, s:b}", "tokens", ceil(from), "or_shorter", !bracketed)
                      : json_pack("{s:n, s:b}", "tokens", "or_shorter", 0);
}

/* Peers, gradients and dense attention itself are no candidates. */
json_t *bench_overtakes(const json_t *rows)
{
    json_t *list = json_array(), *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        if (strcmp(row_text(row, "variant"), "dense") == 0 || strncmp(row_text(row, "variant"), "peer:", 5) == 0 ||
            strncmp(row_text(row, "variant"), "gradient:", 9) == 0 || !row_is_first(rows, i, SERIES " " SETTING) ||
            isnan(lead(rows, row)))
            continue;
        json_t *found = overtake(rows, row);
        json_t *setting =
            json_pack("{s:O, s:O, s:O*, s:O*, s:O*}", "variant", json_object_get(row, "variant"), "parameters",
                      json_object_get(row, "parameters"), "threads", json_object_get(row, "threads"), "isa",
                      json_object_get(row, "isa"), "precision", json_object_get(row, "precision"));
        if (setting && found) json_object_update(setting, found);
        json_decref(found);
        json_array_append_new(list, setting);
    }
    return list;
}
