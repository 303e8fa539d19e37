/* levels.c: stages that go level by level become phases, one for each level. Means and sums of several fields over the
   tree go together: a panel's children have come from memory for all of them. */
#include "panels.h"

/* Rows of the tree have few edges each, and no scores. */
enum { TREE_ROW_COST = 16 };

int64_t tree_cost(const hga_plan *plan, hga_id stage, hga_id first, hga_id n)
{
    const hga_nodes *nodes = &plan->nodes;
    hga_id base = nodes->level_ptr[1];
    int64_t edges = n;
    if (plan->program.stage[stage].relation == HGA_TREE_UP)
        edges =
            nodes->child_ptr && first >= base ? nodes->child_ptr[first + n - base] - nodes->child_ptr[first - base] : 0;
    return TREE_ROW_COST * (int64_t)n + edges;
}

/* ---- stages side by side ---- */

static int adds_children(const hga_plan *plan, hga_id stage)
{
    stage_kind kind = plan->stage[stage].kind;
    return (kind == KIND_MEAN || kind == KIND_SUM) && plan->program.stage[stage].relation == HGA_TREE_UP;
}

hga_id stages_together(const hga_plan *plan, hga_id stage)
{
    const hga_stage *s = plan->program.stage;
    uint32_t reads = s[stage].reads, writes = s[stage].writes;
    hga_id next = stage + 1;
    while (adds_children(plan, stage) && next < plan->program.n_stages && adds_children(plan, next) &&
           program_keeps_tokens(&s[next]) == program_keeps_tokens(&s[stage]) && !(s[next].reads & writes) &&
           !(s[next].writes & (reads | writes))) {
        reads |= s[next].reads, writes |= s[next].writes;
        next++;
    }
    return next - stage;
}

hga_status add_levels(hga_plan *plan, hga_id stage, hga_id together)
{
    const hga_nodes *n = &plan->nodes;
    const hga_stage *s = &plan->program.stage[stage];
    hga_status st = HGA_OK;
    long_search none = {.limit = INT64_MAX};
    for (hga_id i = 0; !st && i < n->n_levels; i++) {
        hga_id l = s->order == HGA_LEVELS_UP ? i : n->n_levels - 1 - i;
        phase rows = {
            .stage = stage, .together = together, .first = n->level_ptr[l], .n = n->level_ptr[l + 1] - n->level_ptr[l]};
        if (l >= program_keeps_tokens(s)) st = add_rows(plan, rows, &none);
    }
    return st;
}
