/* coming.c: prefetches rows that a later panel reads from memory. Means over the tokens are bound by memory, rows of
   families and of descents compute from the caches: so these prefetch the tokens of the next means, enough lines with
   each row that the last are requested when their panel begins. */
#include "carve.h"
#include "execution.h"
#include "panel_rows.h"
#include "plan.h"
#include "stages.h"

/* Whether the phase is the first of means over tokens: it reads the caller's rows. */
static int takes_tokens(const hga_plan *plan, const phase *ph)
{
    return ph->job == JOB_ROWS && ph->first == plan->nodes.level_ptr[1] && kind_sums(plan->stage[ph->stage].kind) &&
           plan->program.stage[ph->stage].relation == HGA_TREE_UP;
}

/* Rows of the item that can prefetch. */
static hga_id asking_rows(const hga_plan *plan, wave_item item)
{
    const phase *ph = &plan->phases.list[item.phase];
    if (ph->job != JOB_ROWS || ph->part_of_tree == TREE_ACROSS) return 0;
    stage_kind kind = plan->stage[ph->stage].kind;
    hga_id first, n;
    panel_bounds(ph, item.panel, &first, &n);
    return kind_attends(kind) || kind == KIND_DESCEND ? n : 0;
}

/* Adds tokens first .. last of a field, if they come from memory and are contiguous. */
static void add_tokens(worker *w, hga_id f, hga_id first, hga_id last)
{
    const bound_field *x = field(w, f);
    int end_to_end =
        x->io.head == x->columns && x->io.row == (ptrdiff_t)x->columns * x->heads && !x->io.slot && !x->io.fold;
    if (!end_to_end || !bound_is_io(x, first) || !bound_is_io(x, last) || !storage_is_large(w->plan, f)) return;
    w->coming.range[w->coming.n].at = bound_row(x, first);
    w->coming.range[w->coming.n++].end = bound_row(x, last) + x->io.row;
}

/* Finds the tokens that the panel sums up the tree. */
static void find_panel_tokens(worker *w, const phase *ph, hga_id panel)
{
    const hga_nodes *nodes = &w->plan->nodes;
    const hga_id *list = NULL;
    hga_id v, n, first = 0, last = 0;
    panel_bounds(ph, panel, &v, &n);
    children_of(nodes, v, &list, &first);
    const hga_id of_last = children_of(nodes, v + n - 1, &list, &last);
    last += of_last - 1;
    for (hga_id s = stages_end(ph) - 1; !list && last >= first && s >= ph->stage && w->coming.n < KERNEL_AHEAD; s--)
        add_tokens(w, stage_of(w, s)->value, first, last);
}

/* Limit of floats a row prefetches: memory has so many requests in flight. */
enum { MOST_AHEAD = 32 * LINE_FLOATS };

static void pace_asking(kernel_ahead *c, int64_t rows)
{
    enum { LINE = LINE_FLOATS };
    ptrdiff_t all = 0;
    for (hga_id i = 0; i < c->n; i++) all += c->range[i].end - c->range[i].at;
    ptrdiff_t each = (all / rows + LINE - 1) / LINE * LINE;
    for (hga_id i = 0; i < c->n; i++) c->range[i].floats = each < MOST_AHEAD ? each : MOST_AHEAD;
}

/* Divides the prefetch of the next means' tokens among the rows of the items before it. */
void find_coming(worker *w, int64_t done, int64_t end)
{
    const hga_plan *plan = w->plan;
    const wave_item *item = plan->waves.item;
    int64_t i = done + 1, rows = 0;
    if (!takes_tokens(plan, &plan->phases.list[item[done].phase])) return;
    w->coming.n = 0;
    for (; i < end && !takes_tokens(plan, &plan->phases.list[item[i].phase]); i++) rows += asking_rows(plan, item[i]);
    if (i == end || rows == 0) return;
    find_panel_tokens(w, &plan->phases.list[item[i].phase], item[i].panel);
    pace_asking(&w->coming, rows);
}
