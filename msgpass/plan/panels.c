/* panels.c: independent rows of a stage are a phase, cut into panels. Cuts depend on the graph; only which thread gets
   which panel depends on the number of threads, and the height of panels of the tree where a single thread computes
   all. */
#include "panels.h"
#include "interrupt.h"
#include "partition.h"
#include "row_edges.h"

#include <string.h>

_Static_assert((int)PANEL_ROWS <= (int)LONGER_PANEL, "rows that are read from a longer graph have been compared");

hga_status add_phase(hga_plan *plan, phase ph)
{
    hga_status st = hga_grow(&plan->memory.allocator, &plan->phases.list, &plan->phases.capacity, plan->phases.n,
                             plan->phases.n + 1, sizeof *plan->phases.list);
    if (!st) plan->phases.list[plan->phases.n++] = ph;
    return st;
}

phase *last_phase(hga_plan *plan) { return &plan->phases.list[plan->phases.n - 1]; }

/* ---- costs ---- */

/* Sums over the segments of some rows. */
typedef struct measures {
    hga_pos segments, list; /* capacities of a reader that loads them */
    int64_t edges;          /* pairs, an upper bound where a band cuts corners */
    int64_t listed;         /* those of them that are listed one by one */
    int64_t columns;        /* of all segments */
    hga_pos degree;         /* greatest in-degree, an upper bound */
    hga_pos alone;          /* most columns of a segment with one row */
    hga_id width;           /* columns of the last segment */
} measures;

/* A visitor that adds segments of one kind to the measures of some rows. */
static void measure_segments(const hga_segments *s, void *context)
{
    measures *m = context;
    const hga_segment *one = &s->first;
    int64_t band = (int64_t)one->band_last - one->band_first + 1, width = band < one->n_src ? band : one->n_src;
    int64_t meet = s->row_step ? (one->n_rows - 1) / s->row_step + 1 : s->count;
    m->segments += s->count;
    m->list += (hga_pos)s->count * one->n_rows;
    m->edges += (int64_t)s->count * one->n_rows * width;
    m->columns += (int64_t)s->count * one->n_src;
    m->degree += width * (meet < s->count ? meet : s->count);
    m->width = one->n_src;
    if (one->n_rows == 1 && one->n_src > m->alone) m->alone = one->n_src;
}

/* Rows with one segment of so many columns, shared by as many rows, run head by head, with keys and values packed
   contiguously; not with so many columns that this would take tens of megabytes per thread. */
enum { WIDE = 2 * KERNEL_CHUNK, TOO_WIDE = 1 << 16 };

/* Windows, whose columns move on, have capacity for several panels: columns that two panels share are copied once. As
   many as stay in the second cache. */
enum { MOVING = 12 * KERNEL_CHUNK };

/* A panel with at least one in so many nodes as a column shares most with the next. */
enum { IN_COMMON = 4 };

static void note_width(hga_plan *plan, hga_id stage, hga_id columns)
{
    stage_plan *s = &plan->stage[stage];
    if (!kind_attends(s->kind) || plan->options.dropout > 0) return; /* eight heads share dropout's draws */
    if (columns < WIDE || columns > TOO_WIDE || s->relation.n_edges / columns < WIDE) return;
    s->waits_for_heads |= columns >= plan->nodes.n / IN_COMMON;
    if (columns < MOVING) columns = plan->nodes.n < MOVING ? plan->nodes.n : MOVING;
    if (columns > plan->most.wide_columns) plan->most.wide_columns = columns;
}

static void widen_capacities(hga_plan *plan, const measures *m)
{
    if (m->segments > plan->most.segments) plan->most.segments = m->segments;
    if (m->list > plan->most.listed) plan->most.listed = m->list;
}

/* Widens capacities for a level's last rows, with which readers load rows of a longer graph. */
static void make_capacity_ahead(hga_plan *plan, hga_id stage, hga_id first, hga_id n)
{
    const hga_graph *longer = kind_attends(plan->stage[stage].kind) ? graph_longer(plan->graph) : NULL;
    rows_ahead next = look_ahead(longer, &plan->nodes, first, n);
    measures m = {0};
    if (!next.n) return;
    hga_graph_visit_segments(longer, plan->program.stage[stage].relation, next.first, next.n, measure_segments, &m);
    widen_capacities(plan, &m);
}

/* A run of columns meets one window more than its length fills, and a hole makes two runs of one. */
static void note_visits(hga_plan *plan, hga_id stage, const measures *m)
{
    const int64_t visits = m->edges / KERNEL_CHUNK + 3 * m->list;
    if (plan->stage[stage].by_columns && visits > plan->most.visits) plan->most.visits = visits;
}

/* Measures positions [first, first + n) of a stage, and widens the plan's capacities. */
static measures measure_rows(hga_plan *plan, hga_id stage, hga_id first, hga_id n)
{
    measures m = {0};
    hga_graph_visit_segments(plan->graph, plan->program.stage[stage].relation, first, n, measure_segments, &m);
    widen_capacities(plan, &m);
    note_visits(plan, stage, &m);
    make_capacity_ahead(plan, stage, first, n);
    if (m.segments == 1 && !plan->stage[stage].by_columns) note_width(plan, stage, m.width);
    int64_t input = explicit_edges(&plan->stage[stage], first, n);
    m.edges += input, m.degree += input, m.listed = input;
    return m;
}

/* Starting and storing a row takes about as long as this many of its edges in blocks; an edge that is listed takes as
   long as LISTED_COST of those (measured on R-MAT, a million edges, 1 x 16 to 8 x 64). */
enum { ROW_COST = 32, LISTED_COST = 16 };

int64_t cost_of(hga_id rows, int64_t edges, int64_t listed)
{
    return ROW_COST * (int64_t)rows + edges + (LISTED_COST - 1) * listed;
}

/* Whether the stage writes a row at that position of its relation's order. */
int writes_at(const hga_plan *plan, hga_id stage, hga_id position)
{
    hga_id out = plan->program.stage[stage].out;
    return !out || program_row(&plan->nodes, plan->program.field[out].rows, node_at(&plan->stage[stage], position));
}

/* Whether every position of the phase is known to be written. The phase has all written positions: where the rows
   written are a range, all are if the range is as long as the phase. */
static int writes_everywhere(const hga_plan *plan, const phase *ph)
{
    hga_id first, out = plan->program.stage[ph->stage].out;
    if (!ph->by_position || !out) return 1;
    hga_field_rows rows = plan->program.field[out].rows;
    return program_is_range(rows) && range_of_rows(plan, rows, &first) == ph->n;
}

/* The written rows of a panel, which take time. */
static hga_id count_written(const hga_plan *plan, const phase *ph, hga_id first, hga_id n)
{
    hga_id written = 0;
    if (writes_everywhere(plan, ph)) return n;
    for (hga_id at = first; at < first + n; at++) written += writes_at(plan, ph->stage, at);
    return written;
}

/* Rows of LEVELS_* stages run by node id; with a destination order each is looked up by itself. */
static measures measure_panel(hga_plan *plan, const phase *ph, hga_id first, hga_id n)
{
    const stage_plan *s = &plan->stage[ph->stage];
    if (!s->relation.dst_order || ph->by_position) return measure_rows(plan, ph->stage, first, n);
    measures all = {0};
    for (hga_id v = first; v < first + n; v++) {
        measures row = measure_rows(plan, ph->stage, s->relation.dst_rank[v], 1);
        all.edges += row.edges, all.listed += row.listed;
    }
    return all;
}

/* ---- row phases ---- */

/* Rows of a panel: enough that the kernels' scalars, or the groups of a panel of tiles, share their overhead; tall
   tiles only where rows have many edges, since a panel's rows and sources should still be in the cache for the next
   stage (measured). */
enum {
    LOW_ROWS = 16,
    HIGH_ROWS = 64,
    LOW_TREE = 8,
    LOW_TOKENS = 256,
    LOW_PANEL = 4 * KERNEL_TILE,
    MANY_EDGES = 4 * KERNEL_CHUNK
};

static int64_t stored_row_bytes(const hga_plan *plan, hga_id field)
{
    const field_storage *x = &plan->fields.storage[field];
    return field ? (int64_t)x->heads * x->columns * (int64_t)sizeof(float) : 0;
}

/* Number of tokens that node v spans, at least one. */
static int64_t tokens_of(const hga_plan *plan, hga_id v)
{
    int64_t tokens = (int64_t)plan->nodes.span_last[v] - plan->nodes.span_first[v] + 1;
    return tokens > 0 ? tokens : 1;
}

/* One thread, and threads with blocks dealt cyclically, have panels of few rows with long spans: a reader of a row
   waits for all tokens of its panel, which have then left the cache. Other threads synchronize wherever a panel has
   tokens of two of them, and have more rows a panel. */
static hga_id least_tree_rows(const hga_plan *plan, hga_id first)
{
    const int64_t low = plan->team.cyclic && plan->team.cyclic < LOW_TOKENS ? plan->team.cyclic : LOW_TOKENS,
                  rows = low / tokens_of(plan, first);
    if (plan->team.n > 1 && !plan->team.cyclic) return LOW_TREE;
    return rows > LOW_TREE ? LOW_TREE : rows > 1 ? (hga_id)rows : 1;
}

/* Rows of the tree have few sources, their children or their parent, so that tall panels gain nothing; and a row waits
   until all tokens of the panels below it are present. */
hga_id tree_rows(const hga_plan *plan, hga_id first)
{
    const hga_shape *s = &plan->shape;
    int64_t tokens = plan->machine.tuning.is.tree_bytes / ((int64_t)s->n_heads * s->dim_v * (int64_t)sizeof(float));
    int64_t rows = tokens / tokens_of(plan, first);
    hga_id least = least_tree_rows(plan, first);
    return rows < least ? least : rows < HIGH_ROWS ? (hga_id)rows : HIGH_ROWS;
}

static hga_id flat_rows(hga_id n) { return n / 256 < LOW_ROWS ? LOW_ROWS : n / 256 > HIGH_ROWS ? HIGH_ROWS : n / 256; }

/* Height of the panels of rows [first, first + n): tall ones read their sources less often, low ones divide better
   among threads. Whole tiles where there are any, so that sixteen rows of a level are a group wherever panels begin. */
static hga_id panel_rows(const hga_plan *plan, hga_id stage, hga_id first, hga_id n)
{
    const stage_plan *s = &plan->stage[stage];
    if (s->by_columns) return PANEL_ROWS;
    if (!kind_attends(s->kind)) {
        hga_id rows = flat_rows(n), fit = plan->program.stage[stage].relation < 0 ? tree_rows(plan, first) : rows;
        return (rows == LOW_ROWS && fit >= LOW_TREE) || rows < fit ? rows : fit;
    }
    hga_id tall = s->edges > (double)MANY_EDGES * plan->nodes.n ? PANEL_ROWS : PANEL_ROWS / 2;
    return n / 32 < LOW_PANEL ? LOW_PANEL : n / 32 > tall ? tall : n / 32 / KERNEL_TILE * KERNEL_TILE;
}

/* Sources per row of a panel above which a taller panel would read noticeably less. */
enum { FEW_SOURCES = 4 };

/* The lowest panel whose rows share their sources well enough. */
static hga_id low_panel(hga_plan *plan, hga_id stage, hga_id first, hga_id n, hga_id panel)
{
    const hga_stage *s = &plan->program.stage[stage];
    int64_t bytes = stored_row_bytes(plan, s->query) + stored_row_bytes(plan, s->key) +
                    stored_row_bytes(plan, s->value) + stored_row_bytes(plan, s->out);
    int64_t fit = plan->machine.tuning.is.attend_bytes / tokens_of(plan, first) / bytes / KERNEL_TILE * KERNEL_TILE;
    for (int64_t rows = fit < KERNEL_TILE ? KERNEL_TILE : fit; rows < panel && rows < n; rows *= 2) {
        measures m = measure_rows(plan, stage, first + (hga_id)(n - rows) / 2, (hga_id)rows);
        if (m.columns <= FEW_SOURCES * rows) return (hga_id)rows;
    }
    return panel;
}

/* Most sources that a panel of such rows reads (measured: 512 takes 3 % longer on spans). */
enum { MOST_SOURCES = 128 };

/* Low panels for rows with many sources of their own: the keys and values of so many tokens stay in the cache for the
   levels that also read them. */
static hga_id few_sources(hga_plan *plan, hga_id stage, hga_id first, hga_id n, hga_id panel)
{
    hga_id rows = panel < n ? panel : n;
    measures m = measure_rows(plan, stage, first + (n - rows) / 2, rows);
    if (m.columns <= MOST_SOURCES || m.edges >= 2 * m.columns) return panel;
    int64_t fit = rows * (int64_t)MOST_SOURCES / m.columns / KERNEL_TILE * KERNEL_TILE;
    return fit ? (hga_id)fit : KERNEL_TILE;
}

/* Low panels for sums of rows with columns of their own, like splits of long rows. */
static hga_id few_edges(hga_plan *plan, hga_id stage, hga_id first, hga_id n, hga_id panel)
{
    hga_id rows = panel < n ? panel : n;
    measures m = measure_rows(plan, stage, first + (n - rows) / 2, rows);
    if (m.edges <= SPLIT_SUM || m.edges >= 2 * m.columns) return panel;
    int64_t fit = rows * (int64_t)SPLIT_SUM / m.edges;
    return fit < 1 ? 1 : fit < panel ? (hga_id)fit : panel;
}

/* Rows of the tree have few edges each, and no scores. */
enum { TREE_ROW_COST = 16 };

static int64_t tree_cost(const hga_plan *plan, hga_id stage, hga_id first, hga_id n)
{
    const hga_nodes *nodes = &plan->nodes;
    hga_id base = nodes->level_ptr[1];
    int64_t edges = n;
    if (plan->program.stage[stage].relation == HGA_TREE_UP)
        edges =
            nodes->child_ptr && first >= base ? nodes->child_ptr[first + n - base] - nodes->child_ptr[first - base] : 0;
    return TREE_ROW_COST * (int64_t)n + edges;
}

/* Adds a phase of rows, with its panels' height and costs, and finds the rows that are cut. */
hga_status add_rows(hga_plan *plan, phase rows, long_search *found)
{
    hga_id stage = rows.stage, first = rows.first, n = rows.n;
    if (n <= 0) return HGA_OK;
    hga_id panel = panel_rows(plan, stage, first, n);
    hga_status st = HGA_OK;
    if (plan->stage[stage].kind == KIND_ATTEND && !rows.by_position && !plan->stage[stage].by_columns) {
        panel = few_sources(plan, stage, first, n, panel);
        panel = low_panel(plan, stage, first, n, panel);
    }
    int in_order = rows.by_position || plan->stage[stage].relation.dst_order;
    if (kind_sums(plan->stage[stage].kind) && !in_order && plan->program.stage[stage].relation >= 0)
        panel = few_edges(plan, stage, first, n, panel);
    if (plan->team.cyclic && panel > plan->team.cyclic) panel = plan->team.cyclic;
    if (plan->requested.panel) panel = plan->requested.panel;
    rows.job = JOB_ROWS, rows.panel = panel, rows.n_panels = (n + panel - 1) / panel;
    HGA_TRY(add_phase(plan, rows));
    phase *ph = last_phase(plan);
    for (hga_id s = stage; s < stages_end(ph); s++) plan->stage[s].panels += ph->n_panels;
    HGA_TRY(hga_new(&plan->memory.allocator, ph->n_panels, sizeof *ph->cost, &ph->cost));
    for (hga_id p = 0; p < ph->n_panels; p++) {
        hga_id begin = first + p * panel, many = n - p * panel < panel ? n - p * panel : panel;
        HGA_TRY(interrupted());
        if (plan->program.stage[stage].relation < 0) {
            ph->cost[p] = (stages_end(ph) - stage) * tree_cost(plan, stage, begin, many);
            continue;
        }
        measures m = measure_panel(plan, ph, begin, many);
        if (m.degree > found->limit || m.alone > found->alone)
            HGA_TRY(find_long(plan, stage, begin, many, found, &m.edges, &m.listed));
        ph->cost[p] = cost_of(count_written(plan, ph, begin, many), m.edges, m.listed);
    }
    if (rows.by_position) HGA_TRY(part_by_cost(plan, ph));
done:
    return st;
}
