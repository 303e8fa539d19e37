/* row_ranges.c: where a stage's rows are divided into ranges, and which sources several ranges have edges to. */
#include "plan.h"
#include "subtrees.h"

#include <string.h>

/* Finds every node's index in the order of the relation's columns; nodes that are no columns come last. */
static hga_status order_sources(const hga_plan *plan, const hga_relation *r, row_ranges *s)
{
    hga_status st = HGA_OK;
    hga_id n = plan->nodes.n, at = r->n_src_order;
    if (!r->src_order) return HGA_OK;
    HGA_TRY(hga_new(&plan->memory.allocator, n, sizeof *s->order, &s->order));
    HGA_TRY(hga_new(&plan->memory.allocator, n, sizeof *s->rank, &s->rank));
    for (hga_id v = 0; v < n; v++) s->rank[v] = -1;
    for (hga_id i = 0; i < at; i++) s->order[i] = r->src_order[i], s->rank[s->order[i]] = i;
    for (hga_id v = 0; v < n; v++)
        if (s->rank[v] < 0) s->rank[v] = at, s->order[at++] = v;
done:
    return st;
}

/* ---- which columns rows have edges to ---- */

typedef struct visitor {
    void (*visit)(void *context, hga_id first, hga_id last);
    void *context;
} visitor;

static void visit_blocks(const hga_segments *s, void *context)
{
    const visitor *to = context;
    for (hga_id i = 0; i < s->count; i++) {
        hga_segment x = hga_segments_at(s, i);
        to->visit(to->context, x.src, x.src + x.n_src - 1);
    }
}

/* Calls `visit` for every run of columns that rows [first, first + n) have edges to. */
void row_ranges_visit(const hga_plan *plan, hga_id stage, hga_id first, hga_id n, const row_ranges *s,
                      void (*visit)(void *context, hga_id first, hga_id last), void *context)
{
    const hga_relation *r = &plan->stage[stage].relation;
    visitor to = {visit, context};
    if (r->n_blocks)
        hga_graph_visit_segments(plan->graph, plan->program.stage[stage].relation, first, n, visit_blocks, &to);
    for (hga_id i = first; r->ptr && i < first + n; i++) {
        hga_id v = r->dst_order ? r->dst_order[i] : i;
        for (hga_pos e = r->ptr[v]; e < r->ptr[v + 1]; e++) {
            hga_id at = s->rank ? s->rank[r->src[e]] : r->src[e];
            visit(context, at, at);
        }
    }
}

/* Which range touched each `width` columns last, and how many of these the current range has touched. */
typedef struct column_touch {
    hga_id *by, n, width;
    hga_id me;
    int64_t many;
} column_touch;

static hga_status touching_open(const hga_plan *plan, hga_id width, column_touch *t)
{
    *t = (column_touch){.n = plan->nodes.n / width + 1, .width = width};
    return hga_new_zero(&plan->memory.allocator, t->n, sizeof *t->by, &t->by);
}

static void touching_close(const hga_plan *plan, column_touch *t)
{
    hga_delete(&plan->memory.allocator, t->by, t->n, sizeof *t->by);
}

static void touch_columns(void *context, hga_id first, hga_id last)
{
    column_touch *t = context;
    for (hga_id c = first / t->width; c <= last / t->width; c++) t->many += t->by[c] != t->me, t->by[c] = t->me;
}

/* Touches the columns that subtrees [first, first + n) have edges to. */
static void touch_subtrees(const hga_plan *plan, const subtrees *t, hga_id first, hga_id n, const row_ranges *s,
                           column_touch *touched)
{
    for (hga_id at = t->ptr[first + 1]; at < t->ptr[first + n + 1]; at++)
        for (hga_id stage = 0; stage < plan->program.n_stages; stage++)
            if (kind_attends(plan->stage[stage].kind))
                row_ranges_visit(plan, stage, t->rows[at].first, t->rows[at].end - t->rows[at].first, s, touch_columns,
                                 touched);
}

/* Lists the chunks that a range shares with one before it; `seen` marks what those touched. */
static hga_status list_shared(const hga_plan *plan, hga_id of_range, const column_touch *touched, uint8_t *seen,
                              row_ranges *s)
{
    hga_status st = HGA_OK;
    int64_t n = s->ptr[of_range];
    for (hga_id c = 0; !st && c < count_chunks(plan); c++) {
        if (touched->by[c] != touched->me) continue;
        if (seen[c]) {
            if (n == s->capacity)
                st = hga_grow(&plan->memory.allocator, &s->chunk, &s->capacity, n, n + 1, sizeof *s->chunk);
            if (!st) s->chunk[n++] = c;
        }
        seen[c] = 1;
    }
    s->ptr[of_range + 1] = n;
    return st;
}

/* ---- where rows are divided ---- */

/* The cost of a row, and of a column, in edges. A column is loaded from memory for the panel, and its gradient
   stored. Found with rows of all kinds, tokens and spans. */
enum { A_ROW = 32, A_COLUMN = 6, COLUMNS = 8 };
/* Fills sum[i] with the cost of the panels before panel i. */
static hga_status find_costs(const hga_plan *plan, hga_id stage, const row_ranges *s, int64_t *sum)
{
    hga_status st = HGA_OK;
    const hga_id *order = plan->stage[stage].relation.dst_order;
    hga_id n = plan->nodes.n, panel = 0;
    hga_pos *degree = NULL;
    column_touch touched = {0};
    HGA_TRY(touching_open(plan, COLUMNS, &touched));
    HGA_TRY(hga_new(&plan->memory.allocator, n, sizeof *degree, &degree));
    hga_graph_degrees(plan->graph, plan->program.stage[stage].relation, 0, n, degree);
    for (hga_id first = 0; first < n; first += ROW_RANGE_PANEL, panel++) {
        hga_id rows = n - first < ROW_RANGE_PANEL ? n - first : ROW_RANGE_PANEL;
        touched.me++, touched.many = 0;
        row_ranges_visit(plan, stage, first, rows, s, touch_columns, &touched);
        sum[panel + 1] = sum[panel] + A_ROW * rows + A_COLUMN * COLUMNS * touched.many;
        for (hga_id i = first; i < first + rows; i++) sum[panel + 1] += degree[order ? order[i] : i];
    }
done:
    hga_delete(&plan->memory.allocator, degree, n, sizeof *degree);
    touching_close(plan, &touched);
    return st;
}

/* Ends each range where the prefix sum is nearest to its even share. */
static void cut_evenly(const int64_t *sum, hga_id units, hga_id unit, hga_id end, row_ranges *s)
{
    hga_id at = 0;
    for (hga_id i = 0; i <= s->n; i++) {
        double part = (double)sum[units] * i / s->n;
        while (at < units && (double)sum[at] + (double)sum[at + 1] < 2 * part) at++;
        s->first[i] = i == s->n || at * unit > end ? end : at * unit;
    }
}

/* Finds for each range the chunks of sources that earlier ranges have edges to as well. */
static hga_status find_shared(const hga_plan *plan, hga_id stage, const subtrees *trees, column_touch *touched,
                              uint8_t *seen, row_ranges *s)
{
    hga_status st = HGA_OK;
    memset(seen, 0, (size_t)count_chunks(plan));
    for (hga_id i = 0; !st && i < s->n; i++) {
        hga_id first = s->first[i], n = s->first[i + 1] - first;
        touched->me++;
        if (n > 0 && trees)
            touch_subtrees(plan, trees, first, n, s, touched);
        else if (n > 0)
            row_ranges_visit(plan, stage, first, n, s, touch_columns, touched);
        st = list_shared(plan, i, touched, seen, s);
    }
    return st;
}

/* As many ranges as there are rows or subtrees for, fewer where heads are many, since shared sources then cost more;
   a power of two, which threads divide evenly. */
static hga_id row_ranges_needed(const hga_plan *plan, const subtrees *trees, hga_id heads)
{
    int64_t forced = plan->options.gradient_row_ranges, most = MOST_SHARES / heads,
            n = trees ? trees->n / (LEAST_SUBTREES * heads) : plan->nodes.n / LEAST_ROWS;
    if (forced) return (hga_id)forced;
    hga_id many = 1;
    while (2 * many <= n && 2 * many <= most && 2 * many <= MOST_ROW_RANGES) many *= 2;
    return many;
}

/* Adding a row to another costs about what an edge does: the ranges' own rows must be few beside the edges, and the
   fewer the more heads there are for threads to divide. */
static int is_worth_it(const hga_plan *plan, hga_id stage, const subtrees *trees, hga_id heads, const row_ranges *s)
{
    hga_pos edges = plan->stage[stage].relation.n_edges;
    if (heads > BACK_HEADS) heads = BACK_HEADS;
    for (hga_id i = 0; trees && i < plan->program.n_stages; i++)
        if (i != stage && kind_attends(plan->stage[i].kind)) edges += plan->stage[i].relation.n_edges;
    return plan->options.gradient_row_ranges || s->ptr[s->n] * CHUNK * EDGES_A_ROW * heads <= edges;
}

/* Creates the ranges; halves their number until the cost of shared chunks is worth it. */
hga_status row_ranges_create(const hga_plan *plan, hga_id stage, const subtrees *trees, hga_id heads, row_ranges *out)
{
    hga_status st = HGA_OK;
    hga_id chunks = count_chunks(plan), unit = trees ? 1 : ROW_RANGE_PANEL, end = trees ? trees->n : plan->nodes.n,
           units = (end + unit - 1) / unit;
    column_touch touched = {0};
    uint8_t *seen = NULL;
    int64_t *cost = NULL;
    *out = (row_ranges){.n = row_ranges_needed(plan, trees, heads)};
    HGA_TRY(order_sources(plan, &plan->stage[stage].relation, out));
    HGA_TRY(touching_open(plan, CHUNK, &touched));
    HGA_TRY(hga_new_zero(&plan->memory.allocator, chunks, 1, &seen));
    HGA_TRY(hga_new_zero(&plan->memory.allocator, (int64_t)units + 1, sizeof *cost, &cost));
    for (hga_id i = 0; trees && i < units; i++) cost[i + 1] = i + 1;
    if (!trees && out->n > 1) HGA_TRY(find_costs(plan, stage, out, cost));
    for (;; out->n /= 2) {
        cut_evenly(cost, units, unit, end, out);
        if (out->n == 1) break;
        HGA_TRY(find_shared(plan, stage, trees, &touched, seen, out));
        if (is_worth_it(plan, stage, trees, heads, out)) break;
    }
    if (out->n == 1) out->ptr[1] = 0;
done:
    hga_delete(&plan->memory.allocator, cost, (int64_t)units + 1, sizeof *cost);
    touching_close(plan, &touched);
    hga_delete(&plan->memory.allocator, seen, chunks, 1);
    if (st) row_ranges_clear(plan, out);
    return st;
}

void row_ranges_clear(const hga_plan *plan, row_ranges *s)
{
    hga_delete(&plan->memory.allocator, s->chunk, s->capacity, sizeof *s->chunk);
    hga_delete(&plan->memory.allocator, s->order, plan->nodes.n, sizeof *s->order);
    hga_delete(&plan->memory.allocator, s->rank, plan->nodes.n, sizeof *s->rank);
    *s = (row_ranges){0};
}

int64_t row_ranges_most_chunks(const row_ranges *s)
{
    int64_t most = 0;
    for (hga_id i = 0; i < s->n; i++) most = s->ptr[i + 1] - s->ptr[i] > most ? s->ptr[i + 1] - s->ptr[i] : most;
    return most;
}
