/* measure.c: times plans and executions. */
#include "measure.h"

hga_status bench_plan(const bench_job *j, hga_plan **plan, bench_measurement *out)
{
    *out = (bench_measurement){0};
    double start = bench_seconds();
    hga_status st = hga_plan_create(j->graph, j->program, &j->shape, &j->options, plan);
    if (st) return st;
    out->plan_seconds = bench_seconds() - start;
    out->cost = hga_plan_cost(*plan);
    out->threads = hga_plan_threads(*plan);
    out->workspace_bytes = hga_plan_workspace_bytes(*plan);
    out->plan_bytes = hga_plan_bytes(*plan);
    out->graph_bytes = hga_graph_bytes(j->graph);
    return HGA_OK;
}

/* One execution, as an action. */
typedef struct execution {
    const hga_plan *plan;
    hga_workspace *workspace;
    const hga_io *io;
} execution;

static hga_status execute(void *context)
{
    const execution *e = context;
    return hga_plan_execute(e->plan, e->workspace, e->io);
}

hga_status bench_execute(const hga_plan *plan, const hga_io *io, const bench_rules *rules, bench_measurement *out)
{
    hga_status st;
    execution e = {.plan = plan, .io = io};
    HGA_TRY(hga_workspace_create(plan, &e.workspace));
    HGA_TRY(bench_repeat(execute, &e, rules, hga_plan_threads(plan), &out->time));
done:
    hga_workspace_destroy(e.workspace);
    return st;
}
