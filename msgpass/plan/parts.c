/* parts.c: which thread gets which part: contiguous runs of about equal cost, or what METIS finds. Only who computes
   depends on it. */
#include "partition.h"
#include "plan.h"

/* Each thing goes to the part in which the middle of its cost lies. */
void share_by_cost(hga_id n, const int64_t *cost, hga_id parts, hga_id *part)
{
    double total = 0, sum = 0;
    for (hga_id i = 0; i < n; i++) total += cost ? (double)cost[i] : 1;
    for (hga_id i = 0; i < n; i++) {
        double each = cost ? (double)cost[i] : 1;
        part[i] = total > 0 ? (hga_id)((sum + 0.5 * each) / total * parts) : 0;
        if (part[i] >= parts) part[i] = parts - 1;
        sum += each;
    }
}

hga_status part_by_cost(const hga_plan *plan, phase *ph)
{
    hga_status st = hga_new(&plan->allocator, ph->n_panels, sizeof *ph->part, &ph->part);
    if (!st) share_by_cost(ph->n_panels, ph->cost, plan->threads, ph->part);
    return st;
}

/* ---- METIS: which panels belong together ---- */

/* The panel that reads each node's row: its own panel as a destination, -1 outside. */
static void panels_of_nodes(const hga_plan *plan, const phase *ph, const stage_plan *s, hga_id *panel)
{
    for (hga_id v = 0; v < plan->nodes.n; v++) panel[v] = -1;
    for (hga_id p = 0; p < ph->n; p++) {
        hga_id at = ph->first + p, v = ph->by_position ? node_at(s, at) : at;
        panel[v] = p / ph->panel;
    }
}

/* Edges between panels, by explicit edges; a pair of panels may be listed several times, which adds up. */
hga_status part_by_metis(hga_plan *plan, phase *ph)
{
    const stage_plan *s = &plan->stage[ph->stage];
    const hga_relation *r = &s->relation;
    const hga_allocator *a = &plan->allocator;
    hga_status st = HGA_OK;
    hga_id *panel = NULL;
    int64_t *ptr = NULL, *adjacent = NULL, *weight = NULL, n_adjacent = 0;
    HGA_TRY(hga_new(a, plan->nodes.n, sizeof *panel, &panel));
    HGA_TRY(hga_new(a, ph->n_panels, sizeof *ph->part, &ph->part));
    HGA_TRY(hga_new_zero(a, (int64_t)ph->n_panels + 1, sizeof *ptr, &ptr));
    HGA_TRY(hga_new(a, r->n_explicit, sizeof *adjacent, &adjacent));
    HGA_TRY(hga_new(a, r->n_explicit, sizeof *weight, &weight));
    panels_of_nodes(plan, ph, s, panel);
    for (hga_id p = 0; p < ph->n_panels; p++) {
        hga_id begin = ph->first + p * ph->panel,
               end = begin + ph->panel < ph->first + ph->n ? begin + ph->panel : ph->first + ph->n;
        for (hga_id at = begin; at < end; at++) {
            hga_id v = ph->by_position ? node_at(s, at) : at;
            for (hga_pos e = r->ptr[v]; e < r->ptr[v + 1]; e++) {
                hga_id other = panel[r->src[e]];
                if (other < 0 || other == p) continue;
                if (n_adjacent > ptr[p] && adjacent[n_adjacent - 1] == other)
                    weight[n_adjacent - 1]++;
                else
                    adjacent[n_adjacent] = other, weight[n_adjacent++] = 1;
            }
        }
        ptr[p + 1] = n_adjacent;
    }
    HGA_TRY(partition_graph(a, ph->n_panels, ptr, adjacent, ph->cost, weight, plan->threads, ph->part));
done:
    hga_delete(a, panel, plan->nodes.n, sizeof *panel);
    hga_delete(a, ptr, (int64_t)ph->n_panels + 1, sizeof *ptr);
    hga_delete(a, adjacent, r->n_explicit, sizeof *adjacent);
    hga_delete(a, weight, r->n_explicit, sizeof *weight);
    return st;
}
