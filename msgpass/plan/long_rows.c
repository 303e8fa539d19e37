/* long_rows.c: rows that are cut into splits, which panels of their own compute and others merge: rows with so large a
   share of all edges that one thread would be busy with them alone; and rows that have their columns alone, since a
   split can run when others read the same columns, a whole row cannot. Cuts depend on the row and its relation, never
   on threads. */
#include "panels.h"
#include "parts.h"
#include "plan.h"

const long_search no_long_rows = {.limit = INT64_MAX, .alone = INT64_MAX};

int64_t explicit_edges(const stage_plan *s, hga_id first, hga_id n)
{
    if (!s->relation.ptr) return 0;
    if (!s->relation.dst_order) return s->relation.ptr[first + n] - s->relation.ptr[first];
    int64_t edges = 0;
    for (hga_id p = first; p < first + n; p++)
        edges += s->relation.ptr[node_at(s, p) + 1] - s->relation.ptr[node_at(s, p)];
    return edges;
}

/* The degree from which on the stage's rows are cut, and the edges of a split; no_long_rows: none is cut. */
long_search long_open(const hga_plan *plan, hga_id stage)
{
    const stage_plan *s = &plan->stage[stage];
    hga_pos cut = plan->options.cut_edges, share = s->relation.n_edges / MOST_LONG;
    /* plain rows are not cut */
    if (!stage_is_fused(plan, stage) || plan->program.stage[stage].order != HGA_FLAT) return no_long_rows;
    const hga_id *parts;
    if (s->strict || graph_parts(plan->graph, &parts))
        return no_long_rows; /* whether a row is long or alone depends on other rows */
    /* among more rows the share would differ */
    int64_t limit = graph_longer(plan->graph) ? INT64_MAX : share > cut ? share : cut;
    if (s->kind != KIND_ATTEND && !kind_sums(s->kind)) return no_long_rows;
    if (s->kind == KIND_ATTEND && rows_are_whole(plan)) return no_long_rows;
    split_rule alone = split_rule_of(plan->graph, &plan->program, stage, cut);
    return (long_search){
        .limit = limit, .split = cut, .alone = alone.longer, .split_alone = alone.split, .together = alone.together};
}

/* Lists the rows among [first, first + n) that are cut; subtracts their edges from *edges and *listed. */
hga_status find_long(hga_plan *plan, hga_id stage, hga_id first, hga_id n, long_search *w, int64_t *edges,
                     int64_t *listed)
{
    stage_plan *s = &plan->stage[stage];
    look_at_rows(plan->graph, plan->program.stage[stage].relation, first, n, w->row);
    for (hga_id i = 0; i < n; i++) {
        hga_pos listed_here = explicit_edges(s, first + i, 1), degree = w->row[i].degree += listed_here;
        lone_columns alone = {.first = -1};
        if (degree > w->alone) alone = lone_columns_of(plan->graph, &plan->program, stage, first + i, &w->row[i]);
        if (alone.first < 0 && degree <= w->limit) continue;
        hga_pos cut = alone.first < 0 ? w->split : w->split_alone, splits = (degree - 1) / cut + 1;
        if (splits > INT32_MAX / 2 - s->n_splits)
            return hga_fail(HGA_EOVERFLOW, "rows cut after %lld edges make too many pieces", (long long)cut);
        hga_status st = hga_grow(&plan->memory.allocator, &s->long_row, &s->long_capacity, s->n_long, s->n_long + 1,
                                 sizeof *s->long_row);
        if (st) return st;
        s->long_row[s->n_long++] = (long_row){first + i, s->n_splits, (hga_id)splits, cut, degree, alone};
        s->n_splits += (hga_id)splits;
        *edges -= degree, *listed -= listed_here;
    }
    return HGA_OK;
}
