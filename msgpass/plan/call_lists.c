/* call_lists.c: checks that a call's tables fit the graph; and lists of the graph for calls that have slopes or tables
   of edges: made by the first such call, cached until the plan is updated or destroyed. */
#include "call.h"
#include "call_lists.h"
#include "plan.h"

/* ---- lists ---- */

static hga_status make_positions(const hga_plan *plan, call_lists *lists)
{
    double *position = NULL;
    hga_status st = hga_new(&plan->memory.allocator, plan->nodes.n, sizeof *position, &position);
    if (!st) st = hga_graph_positions(plan->graph, position);
    if (st) hga_delete(&plan->memory.allocator, position, plan->nodes.n, sizeof *position), position = NULL;
    lists->position = position;
    return st;
}

/* first[v]: prefix sum of the in-degrees; *degree grows to the greatest in-degree. */
hga_status first_edges_make(const hga_plan *plan, hga_id stage, hga_pos **first, hga_pos *degree)
{
    hga_id n = plan->nodes.n;
    hga_pos sum = 0, *at = NULL;
    hga_status st = hga_new(&plan->memory.allocator, (int64_t)n + 1, sizeof *at, &at);
    *first = at;
    if (st) return st;
    hga_graph_degrees(plan->graph, plan->program.stage[stage].relation, 0, n, at);
    for (hga_id v = 0; v < n; v++) {
        hga_pos here = at[v];
        if (here > *degree) *degree = here;
        at[v] = sum, sum += here;
    }
    at[n] = sum;
    return HGA_OK;
}

static hga_status make_lists(const hga_plan *plan, const hga_io *io)
{
    call_lists *lists = &plan->cache->lists;
    hga_status st = HGA_OK;
    if (call_needs_positions(io) && !lists->position) st = make_positions(plan, lists);
    if (!st && call_has_edges(io) && plan->bias_stage >= 0 && !lists->first_edge)
        st = first_edges_make(plan, plan->bias_stage, &lists->first_edge, &lists->degree);
    return st;
}

/* ---- checks ---- */

/* Checks that a table that stages look up by types has a row for each. */
static hga_status check_types(const hga_plan *plan, const hga_io *io, hga_call_table t)
{
    for (hga_id i = 0; i < plan->program.n_stages; i++) {
        const hga_relation *r = &plan->stage[i].relation;
        if (call_table_lacks(t, &plan->program.stage[i], io, r->n_types))
            return hga_fail(HGA_EINVAL, "%s has %lld rows but relation %s has %d types", call_row(t)->name,
                            (long long)(io->table[t].data ? io->table[t].rows : 0), r->name, r->n_types);
    }
    return HGA_OK;
}

/* Checks that a table of edges has a row for each edge of the stage that attends. */
static hga_status check_edges(const hga_plan *plan, const hga_io *io)
{
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        if (!io->table[t].data || call_row(t)->rows != HGA_EXTENT_EDGES) continue;
        const char *name = call_row(t)->name;
        if (plan->bias_stage < 0) return hga_fail(HGA_EINVAL, "%s is given, but no stage attends", name);
        hga_pos n = plan->stage[plan->bias_stage].relation.n_edges;
        if (io->table[t].rows != n)
            return hga_fail(HGA_EINVAL, "%s has %lld rows but the relation has %lld edges", name,
                            (long long)io->table[t].rows, (long long)n);
    }
    return HGA_OK;
}

/* Counters of draws have 24 bits of the layer and 8 of eight heads. */
static hga_status check_draws(const hga_plan *plan, const hga_io *io)
{
    enum { MOST_HEADS = 2048 };
    if (io->layer >> 24) return hga_fail(HGA_EINVAL, "layer %u is not below 2^24", io->layer);
    if (io->first_head < 0 || io->first_head >= MOST_HEADS)
        return hga_fail(HGA_EINVAL, "first_head is %d, not in 0 .. %d", io->first_head, MOST_HEADS - 1);
    if (plan->options.dropout > 0 && io->first_head > MOST_HEADS - plan->shape.n_heads)
        return hga_fail(HGA_EUNSUPPORTED, "dropout: heads %d .. %lld, there are draws for 0 .. %d", io->first_head,
                        (long long)io->first_head + plan->shape.n_heads - 1, MOST_HEADS - 1);
    return HGA_OK;
}

hga_status plan_check_call(const hga_plan *plan, const hga_io *io)
{
    hga_status st = HGA_OK;
    for (hga_call_table t = 0; !st && t < HGA_N_TABLES; t++)
        if (call_row(t)->rows == HGA_EXTENT_TYPES) st = check_types(plan, io, t);
    if (!st) st = check_edges(plan, io);
    return st ? st : check_draws(plan, io);
}

/* Tables that no kernel supports need a plan without kernels. */
static hga_status check_plain(const hga_plan *plan, const hga_io *io)
{
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        if (io->table[t].data && call_row(t)->is & HGA_CALL_IS_PLAIN && !plan->options.generic)
            return hga_fail(HGA_EUNSUPPORTED, "%s: only plans with options.generic know it", call_row(t)->name);
    return HGA_OK;
}

hga_status plan_make_call_lists(const hga_plan *plan, const hga_io *io)
{
    hga_status bad = check_plain(plan, io);
    if (bad) return bad;
    if (!call_needs_positions(io) && !call_has_edges(io)) return HGA_OK;
    pthread_mutex_lock(&plan->cache->lock);
    hga_status st = make_lists(plan, io);
    pthread_mutex_unlock(&plan->cache->lock);
    return st;
}

void call_lists_clear(const hga_plan *plan)
{
    call_lists *lists = &plan->cache->lists;
    hga_delete(&plan->memory.allocator, lists->position, plan->nodes.n, sizeof *lists->position);
    hga_delete(&plan->memory.allocator, lists->first_edge, (int64_t)plan->nodes.n + 1, sizeof *lists->first_edge);
    *lists = (call_lists){0};
}
