/* shares.c: each child's share of its parent's gradient, where a stage sums up children: all of them, or those that
   a relation names. */
#include "fast_trees.h"
#include "plan.h"

/* An edge's weight in a sum; a mean divides by the sum of these. */
static double weight_of(const hga_plan *plan, const hga_stage *s, const row_edge *e)
{
    float mass = s->reduce == HGA_MEAN && s->by_mass ? plan->nodes.mass[e->src] : 1;
    return (double)(e->weight * mass);
}

/* Adds the shares of node v's sources; returns whether v is the parent of them all. */
static int share_out_sources(const hga_plan *plan, const hga_stage *s, const edge_rows *rows, hga_id v, float *share)
{
    double total = s->reduce == HGA_MEAN ? 0 : 1;
    int related = 1;
    for (int64_t i = 0; i < rows->n && s->reduce == HGA_MEAN; i++) total += weight_of(plan, s, &rows->edge[i]);
    for (int64_t i = 0; i < rows->n; i++) {
        hga_id u = rows->edge[i].src;
        related &= plan->nodes.parent[u] == v;
        if (total > 0) share[u] += (float)(weight_of(plan, s, &rows->edge[i]) / total);
    }
    return related;
}

/* Lists every child's share in one stage of sums; *why: a node sums others than its children. */
static hga_status list_shares(const hga_plan *plan, hga_id stage, float *share, const char **why)
{
    int known = 1;
    edge_rows rows = {0};
    hga_status st = HGA_OK;
    rows_open(&rows, plan, stage);
    for (hga_id v = plan->nodes.level_ptr[1]; v < plan->nodes.n && known; v++) {
        HGA_TRY(edges_read(&rows, v));
        known = share_out_sources(plan, &plan->program.stage[stage], &rows, v, share);
    }
    if (!known) *why = "a sum is of others than children";
done:
    edges_close(&rows);
    return st;
}

/* The shares of an earlier field whose sums are of the same rows in the same way; NULL: there is none. */
static float *same_before(const hga_plan *plan, const subtrees *s, hga_id f)
{
    const hga_stage *mine = &plan->program.stage[s->sum[f]];
    for (hga_id g = 1; g < f; g++) {
        const hga_stage *other = s->share[g] ? &plan->program.stage[s->sum[g]] : NULL;
        if (other && other->relation == mine->relation && other->reduce == mine->reduce &&
            other->by_mass == mine->by_mass)
            return s->share[g];
    }
    return NULL;
}

/* Fields whose sums are of the same rows in the same way share one list; a plain sum of all children needs none. */
hga_status shares_create(const hga_plan *plan, subtrees *s, const char **why)
{
    hga_status st = HGA_OK;
    for (hga_id f = 1; f <= plan->program.n_fields && !*why; f++) {
        const hga_stage *stage = s->sum[f] >= 0 ? &plan->program.stage[s->sum[f]] : NULL;
        int all_the_same = stage && stage->relation == HGA_TREE_UP && stage->reduce != HGA_MEAN;
        if (!stage || all_the_same) continue;
        if (stage->relation != HGA_TREE_UP && !families_lie_together(&plan->program, &plan->nodes, f))
            *why = "children do not lie side by side";
        s->share[f] = same_before(plan, s, f);
        if (s->share[f] || *why) continue;
        HGA_TRY(hga_new_zero(&plan->memory.allocator, plan->nodes.n, sizeof **s->share, &s->share[f]));
        HGA_TRY(list_shares(plan, s->sum[f], s->share[f], why));
    }
done:
    return st;
}
