/* levels.c: turns stages that run level by level into phases, one for each level. Means and sums of several fields over
   the tree run together: a panel's children are loaded from memory once for all of them. Stages down the tree are
   cut. */
#include "panels.h"
#include "plan.h"
#include "regions.h"

/* ---- stages that run together ---- */

static int adds_children(const hga_plan *plan, hga_id stage)
{
    stage_kind kind = plan->stage[stage].kind;
    return (kind == KIND_MEAN || kind == KIND_SUM) && plan->program.stage[stage].relation == HGA_TREE_UP;
}

/* Number of stages from this one on that sum up children and are independent of each other. */
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

static hga_status add_level(hga_plan *plan, phase like, hga_id level)
{
    const hga_id *ptr = plan->nodes.level_ptr;
    like.first = ptr[level], like.n = ptr[level + 1] - ptr[level];
    long_search none = no_long_rows;
    return add_rows(plan, like, &none);
}

static hga_status add_whole(hga_plan *plan, hga_id stage, hga_id together)
{
    const hga_stage *s = &plan->program.stage[stage];
    hga_status st = HGA_OK;
    for (hga_id i = 0, levels = plan->nodes.n_levels; !st && i < levels; i++) {
        hga_id l = s->order == HGA_LEVELS_UP ? i : levels - 1 - i;
        if (l >= program_keeps_tokens(s)) st = add_level(plan, (phase){.stage = stage, .together = together}, l);
    }
    return st;
}

/* ---- down the tree, below a cut first ----

   What a row reads from above may be merged in any order: softmax states merge to the same, and shares multiply. Level
   after level from the top down, nothing could run before all attention is done, and the states of all nodes would wait
   in memory. So the nodes below a level of small subtrees run first, as soon as the subtree has been attended to, when
   its states are in the cache and not needed afterwards; the levels from the cut on run as always; and then each row
   below reads its ancestor there. */

static int goes_down(const hga_plan *plan, hga_id stage)
{
    stage_kind kind = plan->stage[stage].kind;
    return (kind == KIND_SPREAD || kind == KIND_DESCEND) && stage_is_fused(plan, stage) &&
           plan->program.stage[stage].relation == HGA_TREE_DOWN;
}

static hga_id find_cut(const hga_plan *plan, hga_id stage)
{
    const hga_nodes *n = &plan->nodes;
    for (hga_id l = 2; goes_down(plan, stage) && l < n->n_levels && l <= HIGHEST_CUT; l++) {
        hga_id v = n->level_ptr[l]; /* of a higher level where this one has no nodes */
        if (v < n->n && n->span_last[v] - n->span_first[v] + 1 >= CUT_TOKENS) return l;
    }
    return 0;
}

/* Whether a later stage, or the caller, reads what the stage wrote on nodes above the tokens. */
static int shows_nodes(const hga_plan *plan, hga_id stage)
{
    const hga_program *p = &plan->program;
    int shows = plan->options.keep_fields;
    for (hga_id s = stage + 1; s < p->n_stages; s++)
        shows |= ((p->stage[s].reads | p->stage[s].writes) & p->stage[stage].writes) != 0;
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (p->stage[stage].writes >> f & 1u)
            shows |= plan->fields.storage[f].io_n &&
                     plan->fields.storage[f].io_first + plan->fields.storage[f].io_n > plan->nodes.level_ptr[1];
    return shows;
}

/* States merge with a parent's; shares begin at the cut's children. */
static hga_status add_below(hga_plan *plan, hga_id stage)
{
    hga_id top = plan->stage[stage].cut_level - (plan->stage[stage].kind == KIND_SPREAD ? 2 : 1);
    hga_status st = HGA_OK;
    for (hga_id l = top; !st && l >= 0; l--)
        st = add_level(plan, (phase){.stage = stage, .part_of_tree = TREE_BELOW}, l);
    return st;
}

static hga_status add_from_cut(hga_plan *plan, hga_id stage)
{
    hga_status st = HGA_OK;
    for (hga_id l = plan->nodes.n_levels - 1; !st && l >= plan->stage[stage].cut_level; l--)
        st = add_level(plan, (phase){.stage = stage}, l);
    return st;
}

static hga_status add_across(hga_plan *plan, hga_id stage)
{
    hga_id levels = plan->stage[stage].crosses_all ? plan->stage[stage].cut_level : 1;
    hga_status st = HGA_OK;
    for (hga_id l = levels - 1; !st && l >= 0; l--)
        st = add_level(plan, (phase){.stage = stage, .part_of_tree = TREE_ACROSS}, l);
    return st;
}

hga_status add_levels(hga_plan *plan, hga_id stage, hga_id together)
{
    stage_plan *s = &plan->stage[stage];
    hga_id level = find_cut(plan, stage);
    if (!level) return add_whole(plan, stage, together);
    s->cut_level = level, s->cut = plan->nodes.level_ptr[level], s->crosses_all = shows_nodes(plan, stage);
    hga_status st = add_below(plan, stage);
    if (!st) st = add_from_cut(plan, stage);
    return st ? st : add_across(plan, stage);
}
