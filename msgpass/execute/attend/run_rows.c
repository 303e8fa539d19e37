/* run_rows.c: runs panels and splits by the functions of stage_table.c: a whole panel at once where a stage that does
   not attend has such a function, else row by row, all heads. */
#include "attend_solvers.h"
#include "row_solvers.h"
#include "panel_rows.h"
#include "plan.h"
#include "slice_run.h"
#include "stage_kernel.h"
#include "stages.h"

/* Runs a panel by the stage's function for panels where it has one, else row by row. */
void run_panel(worker *w, const phase *ph, hga_id stage, hga_id panel)
{
    const stage_plan *s = &w->plan->stage[stage];
    const stage_kernel *kernel = plan_kernel(w->plan, stage);
    panel_rows p;
    int one_by_one = !runs_by_position(w, ph);
    int loads = stage_is_fused(w->plan, stage); /* plain rows are read one by one */
    w->part_of_tree = ph->part_of_tree;
    if (!find_panel(w, ph, stage, panel, &p)) return;
    if (kernel->panel && !one_by_one) {
        hga_id all = loads ? reader_load_panel(&w->reader, p.first, p.n) : p.n;
        kernel->panel(w, stage, p.first, list_ahead(p.n, all, p.node), p.node);
        return;
    }
    if (!one_by_one && loads) reader_load(&w->reader, p.first, p.n);
    for (hga_id i = 0; i < p.n; i++) {
        const hga_id v = p.node[i];
        if (v < 0) continue;
        if (one_by_one && loads) reader_load(&w->reader, s->relation.dst_rank[v], 1);
        kernel->row(w, &(row_job){.stage = stage, .v = v, .count = INT64_MAX, .split = -1});
    }
}

/* Runs a split of a long row: its share of the row's edges. */
static void run_split(worker *w, const phase *ph, hga_id split)
{
    const stage_plan *s = &w->plan->stage[ph->stage];
    const long_row *row = long_row_of(s, split);
    const row_bits *run = rows_to_run(w->workspace, ph, ph->stage);
    hga_id v = node_at(s, row->position);
    if ((run && !bits_have(run, split)) || !has_row(w, ph->stage, v)) return;
    reader_load(&w->reader, row->position, 1);
    plan_kernel(w->plan, ph->stage)
        ->row(w, &(row_job){.stage = ph->stage,
                            .v = v,
                            .from = row->cut * (split - row->first_split),
                            .count = row->cut,
                            .split = split});
}

/* Where a panel's heads are divided among threads, the item with head range 0 computes all of them. */
void rows_run(worker *w, const wave_item *item, int64_t n)
{
    const phase *ph = &w->plan->phases.list[item->phase];
    (void)n;
    if (ph->job == JOB_SPLITS)
        run_split(w, ph, item->panel);
    else if (item->head_range == 0)
        run_panel(w, ph, ph->stage, item->panel);
}
