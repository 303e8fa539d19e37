/* phases.c: turns a program's stages, in order, into phases. */
#include "call_lists.h"
#include "panels.h"
#include "partition.h"
#include "regions.h"
#include "row_edges.h"

#include <string.h>

/* ---- flat stages ---- */

static hga_status add_even(hga_plan *plan, phase_job job, hga_id of, hga_id first, hga_id n, hga_id panel)
{
    if (n <= 0) return HGA_OK;
    return add_phase(
        plan,
        (phase){.job = job, .stage = of, .first = first, .n = n, .panel = panel, .n_panels = (n + panel - 1) / panel});
}

/* Adds a phase of splits. A row's splits cost the same; they follow no tokens, except where the row has its columns
   alone. */
static hga_status add_splits(hga_plan *plan, hga_id stage)
{
    const stage_plan *s = &plan->stage[stage];
    hga_id n = s->n_splits;
    hga_status st = add_even(plan, JOB_SPLITS, stage, 0, n, 1);
    if (st || n == 0) return st;
    phase *ph = last_phase(plan);
    st = hga_new(&plan->memory.allocator, n, sizeof *ph->cost, &ph->cost);
    int placed = 1;
    for (const long_row *row = s->long_row; !st && row < s->long_row + s->n_long; row++) {
        placed &= row->alone.first >= 0;
        hga_pos listed = explicit_edges(s, row->position, 1) / row->n_splits;
        for (hga_id i = 0; i < row->n_splits; i++) ph->cost[row->first_split + i] = cost_of(1, row->cut, listed);
    }
    return st || placed ? st : part_by_cost(plan, ph);
}

/* A phase for each level: rows of different levels differ in their sources, and a level's groups of sixteen do not
   depend on the levels below. */
static hga_status add_rows_by_level(hga_plan *plan, hga_id stage, hga_id first, hga_id n, long_search *found)
{
    const hga_id *level = plan->nodes.level_ptr;
    hga_status st = HGA_OK;
    for (hga_id l = 0; !st && l < plan->nodes.n_levels; l++) {
        hga_id begin = level[l] > first ? level[l] : first, end = level[l + 1] < first + n ? level[l + 1] : first + n;
        st = add_rows(plan, (phase){.stage = stage, .first = begin, .n = end - begin}, found);
    }
    return st;
}

/* The range of positions at which the stage writes, in whole groups of sixteen, counted from the order's beginning.
   Nodes that an order does not name, such as the keys, are at its end. */
static hga_id written_positions(const hga_plan *plan, hga_id stage, hga_id *first)
{
    hga_id begin = 0, end = plan->nodes.n;
    while (end > begin && !writes_at(plan, stage, end - 1)) end--;
    while (begin < end && !writes_at(plan, stage, begin)) begin++;
    *first = begin / KERNEL_TILE * KERNEL_TILE;
    end = (end + KERNEL_TILE - 1) / KERNEL_TILE * KERNEL_TILE;
    return (end < plan->nodes.n ? end : plan->nodes.n) - *first;
}

/* Adds a flat stage's rows, in the relation's order or level by level, then the splits of long rows and their
   merges. */
static hga_status add_flat(hga_plan *plan, hga_id stage)
{
    const hga_stage *s = &plan->program.stage[stage];
    hga_status st = HGA_OK;
    hga_id first = 0, n = plan->nodes.n;
    const hga_relation *r = &plan->stage[stage].relation;
    int by_position = r->dst_order != NULL;
    long_search found = long_open(plan, stage);
    plan->stage[stage].splits_share = found.together;
    if (!by_position && s->out) n = range_of_rows(plan, plan->program.field[s->out].rows, &first);
    if (by_position) {
        n = written_positions(plan, stage, &first);
        HGA_TRY(add_rows(plan, (phase){.stage = stage, .first = first, .n = n, .by_position = 1}, &found));
    } else {
        HGA_TRY(add_rows_by_level(plan, stage, first, n, &found));
    }
    HGA_TRY(add_splits(plan, stage));
    HGA_TRY(add_even(plan, JOB_MERGE, stage, 0, plan->stage[stage].n_long, 1));
done:
    return st;
}

/* Adds the rounding of a field's rows in some regions, level by level, since the level above depends on the one below;
   panels are as high as those of the tree. */
static hga_status add_rounding(hga_plan *plan, hga_id f, row_set regions)
{
    const hga_id *level = plan->nodes.level_ptr;
    hga_status st = HGA_OK;
    for (hga_id l = 0; !st && l < plan->nodes.n_levels; l++) {
        hga_id begin = level[l], end = level[l + 1];
        while (begin < end && !(regions >> program_region(&plan->nodes, begin) & 1)) begin++;
        while (begin < end && !(regions >> program_region(&plan->nodes, end - 1) & 1)) end--;
        if (begin < end) st = add_even(plan, JOB_ROUND, f, begin, end - begin, tree_rows(plan, begin));
    }
    return st;
}

/* Rounds, of the operands that a flat stage reads rounded, the rows that the caller provided or stages wrote since the
   last rounding. */
static hga_status add_roundings(hga_plan *plan, hga_id stage, program_values *since)
{
    hga_status st = HGA_OK;
    const hga_stage *s = &plan->program.stage[stage];
    for (hga_id f = 1; !st && f <= plan->program.n_fields; f++) {
        if (!(s->reads >> f & 1u) || read_storage(plan, s, f) == f) continue;
        st = add_rounding(plan, f, since->holds[f]);
        since->holds[f] = 0;
    }
    return st;
}

/* Canonical positions of rows, where a user function needs them. */
static hga_status find_positions(hga_plan *plan, hga_id stage)
{
    stage_plan *s = &plan->stage[stage];
    hga_pos degree = 0;
    if (s->kind != KIND_USER || plan->program.stage[stage].relation < 0) return HGA_OK;
    return first_edges_make(plan, stage, &s->row_ptr, &degree);
}

/* ---- few panels, many threads ---- */

/* Number of ranges of key/value heads for the panels of a stage: enough for two items a thread, where its panels are
   fewer. */
static hga_id find_head_ranges(const hga_plan *plan, hga_id stage)
{
    const stage_plan *s = &plan->stage[stage];
    if (!kind_attends(s->kind) || !stage_is_fused(plan, stage) || attends_by_rows(plan) || plan->team.n == 1) return 1;
    int64_t need = 2 * (int64_t)plan->team.n;
    if (!s->panels || s->panels >= need) return 1;
    int64_t parts = (need - 1) / s->panels + 1;
    return parts < plan->shape.n_kv_heads ? (hga_id)parts : plan->shape.n_kv_heads;
}

/* Splits a phase's panels by heads: heads are independent, so threads divide them. Bits are those of all heads at
   once. */
static hga_status split_heads(hga_plan *plan, phase *ph, hga_id parts)
{
    const hga_allocator *a = &plan->memory.allocator;
    int64_t *cost = NULL, n = (int64_t)ph->n_panels * parts;
    hga_delete(a, ph->owner, count_items(ph), sizeof *ph->owner);
    ph->owner = NULL, ph->head_ranges = parts;
    hga_status st = hga_new(a, n, sizeof *cost, &cost);
    if (!st) st = hga_new(a, n, sizeof *ph->owner, &ph->owner);
    for (int64_t i = 0; !st && i < n; i++) cost[i] = ph->cost[i / parts];
    if (!st) share_by_cost((hga_id)n, cost, plan->team.n, ph->owner);
    hga_delete(a, cost, n, sizeof *cost);
    return st;
}

/* Divides the heads of the panels of stages that have few panels among threads. */
static hga_status split_stages(hga_plan *plan)
{
    hga_status st = HGA_OK;
    for (int64_t i = 0; !st && i < plan->phases.n; i++) {
        phase *ph = &plan->phases.list[i];
        hga_id parts = ph->job == JOB_ROWS ? find_head_ranges(plan, ph->stage) : 1;
        int in_order = ph->by_position || !plan->stage[ph->stage].relation.dst_order;
        if (parts > 1 && in_order) st = split_heads(plan, ph, parts);
    }
    return st;
}

/* The plain executor and thresholds hold whole rows. The capacity is a power of two, so that similar graphs need the
   same. */
static void find_plain_edges(hga_plan *plan)
{
    plan->most.plain_edges = -1;
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        int whole = kind_attends(plan->stage[s].kind) && rows_are_whole(plan);
        if (stage_is_fused(plan, s) && !whole) continue;
        int64_t widest = edges_most(plan->graph, plan->program.stage[s].relation);
        int64_t capacity = 1;
        while (capacity < widest) capacity *= 2;
        if (capacity > plan->most.plain_edges) plan->most.plain_edges = capacity;
    }
}

/* Stage by stage: operands are rounded before the stage that reads them; log-sum-exps are copied at the end. */
hga_status phases_make(hga_plan *plan)
{
    hga_status st = HGA_OK;
    plan->most.segments = plan->most.listed = plan->most.visits = 0, plan->most.wide_columns = 0;
    find_plain_edges(plan);
    program_values since;
    program_values_start(&plan->program, &since);
    for (hga_id s = 0; s < plan->program.n_stages; s++) HGA_TRY(find_positions(plan, s));
    for (hga_id s = 0, n = 1; s < plan->program.n_stages; s += n, n = 1) {
        if (reads_rounded(&plan->program.stage[s])) HGA_TRY(add_roundings(plan, s, &since));
        if (plan->program.stage[s].order != HGA_FLAT) {
            n = stages_together(plan, s);
            HGA_TRY(add_levels(plan, s, n));
        } else {
            HGA_TRY(add_flat(plan, s));
        }
        for (hga_id i = s; i < s + n; i++) program_values_after(&plan->program, &plan->program.stage[i], &since);
    }
    hga_id out = program_bound(&plan->program, HGA_IO_OUT);
    if (out && (plan->program.has_lse || plan->options.gradient) && plan->program.field[out].width == HGA_WIDTH_STATE) {
        hga_id first, n = range_of_rows(plan, plan->program.field[out].io, &first);
        HGA_TRY(add_even(plan, JOB_LSE, out, first, n, 1024));
    }
    HGA_TRY(split_stages(plan));
done:
    return st;
}

void phases_forget_costs(hga_plan *plan)
{
    const hga_allocator *a = &plan->memory.allocator;
    for (int64_t i = 0; i < plan->phases.n; i++) {
        phase *ph = &plan->phases.list[i];
        hga_delete(a, ph->cost, ph->n_panels, sizeof *ph->cost);
        hga_delete(a, ph->owner, count_items(ph), sizeof *ph->owner);
        ph->cost = NULL, ph->owner = NULL;
    }
}

/* Forgets phases, windows of columns and long rows. */
void phases_clear(hga_plan *plan)
{
    const hga_allocator *a = &plan->memory.allocator;
    phases_forget_costs(plan);
    hga_delete(a, plan->phases.list, plan->phases.capacity, sizeof *plan->phases.list);
    plan->phases.list = NULL, plan->phases.n = plan->phases.capacity = 0;
    hga_delete(a, plan->windows.begin, plan->windows.capacity, sizeof *plan->windows.begin);
    plan->windows = (column_windows){0};
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        stage_plan *sp = &plan->stage[s];
        hga_delete(a, sp->long_row, sp->long_capacity, sizeof *sp->long_row);
        hga_delete(a, sp->row_ptr, (int64_t)plan->nodes.n + 1, sizeof *sp->row_ptr);
        sp->long_row = NULL, sp->n_long = sp->n_splits = 0, sp->splits_share = 0, sp->long_capacity = 0,
        sp->row_ptr = NULL, sp->panels = 0;
    }
}
