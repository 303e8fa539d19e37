/* bench_run.c: a case and the peers beside it, measured. */
#include "bench_run.h"

#include <string.h>

#include "race.h"

static const char *parameters_of(const bench_variant *v)
{
    const char *colon = strchr(v->text, ':');
    return colon ? colon + 1 : "";
}

static void describe(const bench_place *p, const model *m, bench_row *r)
{
    r->variant = p->variant->typed.name;
    r->parameters = parameters_of(p->variant);
    r->isa = p->options.isa;
    r->precision = p->options.precision == HGA_PRECISION_BF16 ? "bf16" : "f32";
    r->tokens = p->tokens;
    r->nodes = hga_graph_nodes(m->graph).n;
    hga_id relation = main_relation(&m->program);
    r->edges = relation < 0 ? 0 : hga_graph_relation(m->graph, relation).n_edges;
    r->shape = p->shape;
    r->peaks = p->peaks;
}

static int append(json_t *rows, const bench_place *p, const bench_row *r)
{
    int failed = json_array_append_new(rows, p->dry_run ? bench_dry_row_json(r) : bench_row_json(r)) != 0;
    return failed ? complain(CLI_OUTSIDE, "out of memory") : CLI_GOOD;
}

static int run_ours(const bench_place *p, const model *m, bench_row *r)
{
    hga_plan *plan = NULL;
    bench_tensors t = {0};
    int status = CLI_GOOD;
    job j = {m->graph, &m->program, p->shape, p->options, p->variant->text};
    TRY(measure_plan(&j, &plan, &r->m));
    TRY(bench_tensors_make(m, &p->shape, !p->dry_run, &t));
    r->tensor_bytes = t.bytes;
    if (!p->dry_run) TRY(measure_execution(&j, plan, &t.io, p->seconds, &r->m));
    r->peak_rss_bytes = peak_resident();
done:
    bench_tensors_clear(&t);
    hga_plan_destroy(plan);
    return status;
}

/* a peer's row is ours with its own name, work and times */
static int run_peer(const bench_place *p, const race *shared, const peer *other, const bench_row *ours, json_t *rows)
{
    char name[64];
    bench_row r = *ours;
    snprintf(name, sizeof name, "peer:%s", other->name);
    r.variant = name;
    r.parameters = p->variant->text;
    r.precision = "f32";
    r.graph_seconds = 0;
    r.tensor_bytes = (int64_t)shared->job.rows * shared->job.heads * shared->job.dim * 16;
    int status = race_run(shared, other, p->seconds, &r.m);
    r.peak_rss_bytes = peak_resident();
    return status ? status : append(rows, p, &r);
}

static int run_peers(const bench_place *p, const model *m, const bench_row *ours, json_t *rows, int *failed)
{
    race shared = {0};
    hga_options options = p->options;
    hga_id kv_heads = p->shape.n_kv_heads;
    int status = CLI_GOOD;
    if (p->dry_run || !p->peers || (kv_heads && kv_heads != p->shape.n_heads) || !race_possible(m->graph, &m->program))
        return CLI_GOOD;
    options.threads = ours->m.threads;
    TRY(race_start(m->graph, &m->program, &p->shape, &options, &shared));
    for (int i = 0; peers[i]; i++) {
        if (!(p->peers >> i & 1) || !peers[i]->can(&shared.job)) continue;
        status = run_peer(p, &shared, peers[i], ours, rows);
        if (status != CLI_GOOD && status != CLI_FAILED) goto done;
        *failed += status == CLI_FAILED;
        status = CLI_GOOD;
    }
done:
    race_clear(&shared);
    return status;
}

int bench_run(const bench_place *p, json_t *rows, int *failed)
{
    model m = {0};
    bench_row r = {0};
    int status = CLI_GOOD;
    reset_peak_resident();
    double start = seconds_now();
    TRY(bench_model(p->variant, p->tokens, &m));
    r.graph_seconds = seconds_now() - start;
    describe(p, &m, &r);
    TRY(run_ours(p, &m, &r));
    TRY(append(rows, p, &r));
    TRY(run_peers(p, &m, &r, rows, failed));
done:
    model_clear(&m);
    return status;
}
