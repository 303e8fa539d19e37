/* trial.c: graph, plan, execution and what came out of it. */
#include "trial.h"

#include <stdlib.h>
#include <string.h>

#include "measured.h"
#include "weights.h"

/* Dense attention comes first; the others are compared with it. */
static int compare(const scene *s, hga_id dim_v, const cast *ran, reference *ref, trial *t)
{
    int64_t n = (int64_t)s->words.n * s->words.heads * dim_v;
    if (!ref->out) {
        int status = take(n, sizeof *ref->out, &ref->out);
        if (status) return status;
        memcpy(ref->out, ran->out, (size_t)n * sizeof *ref->out);
        ref->seconds = t->m.time.seconds;
    }
    t->distance = relative_distance(ran->out, ref->out, n);
    return CLI_GOOD;
}

/* Graph, plan and execution of a contender, each timed, and how far the output is from the reference's. */
int trial_run(const scene *s, const contender *c, const trial_way *way, reference *ref, trial *out)
{
    const char *name = c->variant->name;
    hga_id dim_v = way->shape.dim_v ? way->shape.dim_v : way->shape.dim;
    hga_graph *g = NULL;
    hga_program p;
    hga_plan *plan = NULL;
    cast in = {0};
    int status = CLI_GOOD;
    double start = bench_seconds();
    TRY(contender_build(s, c, &g, &p));
    out->graph_seconds = bench_seconds() - start;
    out->nodes = hga_graph_nodes(g).n;
    bench_job j = {g, &p, way->shape, way->options};
    TRY(complain_of(bench_plan(&j, &plan, &out->m), CLI_USAGE, name));
    out->bytes = cast_bytes(s, g, &p, dim_v) + out->m.graph_bytes + out->m.plan_bytes + out->m.workspace_bytes;
    if (way->plans_only) goto done;
    TRY(cast_make(s, g, &p, s->words.value, dim_v, &in));
    TRY(complain_of(bench_execute(plan, &in.io, &way->rules, &out->m), CLI_USAGE, name));
    if (ref) TRY(compare(s, dim_v, &in, ref, out));
    if (way->look) TRY(way->look(way->context, c, g, &p, plan));
done:
    cast_clear(&in);
    hga_plan_destroy(plan);
    hga_graph_destroy(g);
    return status;
}

/* The first contender's rows of attention become the reference of all that follow with it. */
int trial_probe(const scene *probe, const contender *c, const hga_options *options, reference *ref, trial *out)
{
    hga_graph *g = NULL;
    hga_program p;
    float *weights = NULL;
    int status = CLI_GOOD;
    TRY(contender_build(probe, c, &g, &p));
    TRY(weights_of_graph(probe, g, &p, options, &weights));
    int mine = !ref->weights;
    if (mine) ref->weights = weights;
    out->divergence = mean_divergence(weights, ref->weights, probe->words.n, probe->words.heads);
    if (!mine) free(weights);
done:
    hga_graph_destroy(g);
    return status;
}

void reference_clear(reference *ref)
{
    free(ref->out);
    free(ref->weights);
    *ref = (reference){0};
}

json_t *trial_json(const trial *t, hga_id tokens, const reference *dense)
{
    double edges = t->m.cost.edges;
    json_t *row = json_pack("{s:i, s:I, s:f, s:f, s:f, s:I, s:I, s:o, s:o, s:f}", "nodes", t->nodes, "edges",
                            (json_int_t)edges, "edges_per_token", edges / tokens, "flops", t->m.cost.flops, "speedup",
                            dense->seconds / t->m.time.seconds, "bytes", (json_int_t)t->bytes, "bytes_workspace",
                            (json_int_t)t->m.workspace_bytes, "relative_l2", json_number(t->distance), "mean_kl",
                            json_number(t->divergence), "graph_seconds", t->graph_seconds);
    return json_joined(row, measured_json(&t->m));
}
