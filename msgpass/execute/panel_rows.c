/* panel_rows.c: the rows of a panel that an execution runs, and their edges. */
#include "panel_rows.h"
#include "slice_run.h"
#include "stage_plan.h"
#include "stages.h"

void open_stage(worker *w, hga_id stage)
{
    if (w->reading != stage) reader_open(&w->reader, w->plan, stage);
    w->reading = stage;
}

/* Whether the stage has rows of all nodes [first, first + n). */
static int has_rows(const worker *w, hga_id stage, hga_id first, hga_id n)
{
    const hga_nodes *nodes = &w->plan->nodes;
    hga_id out = w->plan->program.stage[stage].out;
    switch (out ? w->plan->program.field[out].rows : HGA_ROWS_NODES) {
    case HGA_ROWS_NODES: return 1;
    case HGA_ROWS_ABOVE: return first >= nodes->level_ptr[1];
    case HGA_ROWS_QUERIES: return first >= nodes->query_first && first + n <= nodes->query_first + nodes->n_queries;
    case HGA_ROWS_KEYS: return first >= nodes->key_first && first + n <= nodes->key_first + nodes->n_keys;
    default: return !nodes->side;
    }
}

/* Lists the nodes of n rows: NO_ROW where the stage computes none, left_out(v) where this execution does not. */
void list_nodes(const worker *w, const phase *ph, hga_id stage, hga_id begin, hga_id n, hga_id *node)
{
    const stage_plan *s = &w->plan->stage[stage];
    const row_bits *run = rows_to_run(w->workspace, ph, stage);
    const int in_order = !(ph->by_position && s->relation.dst_order);
    if (in_order && !s->n_long && has_rows(w, stage, begin, n)) {
        for (hga_id i = 0; i < n; i++)
            node[i] = run && !bits_have(run, begin + i - ph->first) ? left_out(begin + i) : begin + i;
        return;
    }
    for (hga_id i = 0; i < n; i++) {
        hga_id v = ph->by_position ? node_at(s, begin + i) : begin + i;
        int mine = has_row(w, stage, v) && !(s->n_long && long_row_at(s, begin + i));
        node[i] = !mine ? NO_ROW : run && !bits_have(run, begin + i - ph->first) ? left_out(v) : v;
    }
}

int runs_by_position(const worker *w, const phase *ph)
{
    return ph->by_position || !w->plan->stage[ph->stage].relation.dst_order;
}

void panel_bounds(const phase *ph, hga_id panel, hga_id *first, hga_id *n)
{
    *first = ph->first + panel * ph->panel;
    *n = *first + ph->panel < ph->first + ph->n ? ph->panel : ph->first + ph->n - *first;
}

hga_id list_ahead(hga_id n, hga_id all, hga_id *node)
{
    for (; n < all; n++) node[n] = NO_ROW;
    return all;
}

int find_panel(worker *w, const phase *ph, hga_id stage, hga_id panel, panel_rows *out)
{
    open_stage(w, stage);
    panel_bounds(ph, panel, &out->first, &out->n);
    if (!narrow_panel(w, ph, stage, &out->first, &out->n)) return 0;
    list_nodes(w, ph, stage, out->first, out->n, out->node);
    return 1;
}

void load_ahead(worker *w, panel_rows *p)
{
    p->n = list_ahead(p->n, reader_load_panel(&w->reader, p->first, p->n), p->node);
}

int open_panel(worker *w, wave_item item, panel_rows *out)
{
    const phase *ph = &w->plan->phases.list[item.phase];
    if (!find_panel(w, ph, ph->stage, item.panel, out)) return 0;
    load_ahead(w, out);
    return 1;
}

void list_panel(const worker *w, wave_item item, panel_rows *out)
{
    const phase *ph = &w->plan->phases.list[item.phase];
    panel_bounds(ph, item.panel, &out->first, &out->n);
    list_nodes(w, ph, ph->stage, out->first, out->n, out->node);
    out->n = list_ahead(out->n, w->reader.n, out->node);
}

void load_panel(worker *w, wave_item item)
{
    const phase *ph = &w->plan->phases.list[item.phase];
    hga_id first, n;
    open_stage(w, ph->stage);
    panel_bounds(ph, item.panel, &first, &n);
    reader_load_panel(&w->reader, first, n);
}

/* Narrows a panel to the groups of sixteen from the first row to the last that this execution runs; 0: none. */
int narrow_panel(const worker *w, const phase *ph, hga_id stage, hga_id *begin, hga_id *n)
{
    const row_bits *run = rows_to_run(w->workspace, ph, stage);
    if (!run) return 1;
    int64_t first = *begin - ph->first, end = first + *n, at = bits_next(run, first, end), last = end;
    if (at == end) return 0;
    for (int64_t next = at; next < end; next = bits_next(run, last, end)) last = bits_next_out(run, next, end);
    hga_id skipped = (hga_id)(at - first) / KERNEL_TILE * KERNEL_TILE;
    hga_id groups = (hga_id)(last - first - skipped + KERNEL_TILE - 1) / KERNEL_TILE * KERNEL_TILE;
    *begin += skipped, *n -= skipped;
    if (groups < *n) *n = groups;
    return 1;
}
