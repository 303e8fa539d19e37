/* sums.c: sums and means of rows, and prefetching the tokens that the next means read. */
#include "bound.h"
#include "tree_stages.h"
#include "plan.h"
#include "scores.h"
#include "stages.h"
#include "carve.h"
#include "execution.h"
#include "panel_rows.h"

#include <string.h>

static float edge_factor(const worker *w, const hga_stage *s, stage_kind kind, hga_id e)
{
    const edge_chunk *c = &w->chunk;
    float factor = c->weight[e];
    if (kind == KIND_MEAN && s->by_mass) factor *= w->plan->nodes.mass[c->src[e]];
    if (kind == KIND_WEIGHTED_SUM) factor *= w->io->type_scale.data[c->type[e]];
    return factor;
}

/* to[head] = factor * the chunk's weighted rows, or with `more` acc += them; contiguous heads are one long row. */
static void sum_chunk(worker *w, const bound_field *x, const bound_field *out, int more, float factor, float *to,
                      ptrdiff_t to_head)
{
    const edge_chunk *c = &w->chunk;
    const kernel_table *k = w->plan->machine.kernels;
    int same;
    ptrdiff_t stride;
    find_sources(c, x, w->rows.at.k, &same, &stride);
    int one_row = same && stride == x->columns && to_head == x->columns && x->heads == out->heads;
    hga_id parts = one_row ? 1 : out->heads, columns = x->columns * (out->heads / parts);
    for (hga_id h = 0; h < parts; h++) {
        hga_id from = one_row ? 0 : x->heads == out->heads ? h : kv_head(&w->plan->shape, h);
        if (!same) move_to_head(c, x, w->rows.at.k, from, w->rows.at.k_head);
        const float *const *row = same ? w->rows.at.k : w->rows.at.k_head;
        ptrdiff_t offset = same ? from * stride : 0;
        if (more)
            k->sum(c->n, row, offset, w->rows.row.bias, columns, w->rows.row.acc + h * out->columns);
        else
            k->weigh(c->n, row, offset, w->rows.row.bias, factor, columns, to + h * to_head);
    }
}

static void pour(worker *w, hga_id columns, int first, int last)
{
    for (hga_id j = 0; j < columns; j++) {
        w->plain.numbers[j] = (first ? 0 : w->plain.numbers[j]) + (double)w->rows.row.acc[j];
        w->rows.row.acc[j] = last ? (float)w->plain.numbers[j] : 0;
    }
}

/* Loads the chunk's factors into bias; returns their sum. */
static double load_factors(worker *w, const hga_stage *s, stage_kind kind)
{
    double total = 0;
    for (hga_id e = 0; e < w->chunk.n; e++) {
        w->rows.row.bias[e] = edge_factor(w, s, kind, e);
        total += (double)w->rows.row.bias[e];
    }
    return total;
}

static float mean_factor(stage_kind kind, double total)
{
    return kind != KIND_MEAN ? 1 : total > 0 ? (float)(1 / total) : 0;
}

/* acc = the sum of the job's edges, the first chunk of which is read; returns the sum of their factors. */
static double sum_edges(worker *w, const row_job *job, edge_cursor *c)
{
    const hga_stage *s = stage_of(w, job->stage);
    stage_kind kind = w->plan->stage[job->stage].kind;
    const bound_field *x = read_field(w, s, s->value), *out = field(w, s->out);
    hga_id columns = out->columns * out->heads;
    hga_pos left = job->count, done = 0;
    double total = 0;
    int poured = 0;
    memset(w->rows.row.acc, 0, (size_t)columns * sizeof *w->rows.row.acc);
    for (; w->chunk.n; cursor_next(c, left -= w->chunk.n, &w->chunk)) {
        total += load_factors(w, s, kind);
        sum_chunk(w, x, out, 1, 1, NULL, out->columns);
        done += w->chunk.n;
        if (done % SUM_CUT == 0) pour(w, columns, !poured++, 0);
    }
    if (poured) pour(w, columns, 0, 1);
    return total;
}

/* Computes a row with more edges than a chunk. */
static void sum_long_row(worker *w, const row_job *job, edge_cursor *c)
{
    const bound_field *out = field(w, stage_of(w, job->stage)->out);
    float factor = mean_factor(w->plan->stage[job->stage].kind, sum_edges(w, job, c));
    for (hga_id h = 0; h < out->heads; h++)
        w->plan->machine.kernels->scale(out->columns, factor, w->rows.row.acc + h * out->columns,
                                        bound_row(out, job->v) + h * bound_head(out, job->v));
}

/* ---- splits ---- */

static void sum_split(worker *w, const row_job *job, edge_cursor *c)
{
    const bound_field *out = field(w, stage_of(w, job->stage)->out);
    hga_id columns = out->columns * out->heads;
    double *sums = sums_of_split(w->plan, w->workspace, job->stage, job->split);
    sums[columns] = sum_edges(w, job, c);
    for (hga_id j = 0; j < columns; j++) sums[j] = (double)w->rows.row.acc[j];
}

static void join_sums(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id split, hga_id next)
{
    const field_storage *out = &plan->fields.storage[plan->program.stage[stage].out];
    double *x = sums_of_split(plan, workspace, stage, split);
    const double *y = sums_of_split(plan, workspace, stage, next);
    for (hga_id j = 0; j <= out->columns * out->heads; j++) x[j] += y[j];
}

static void finish_sum(worker *w, hga_id stage, hga_id v, hga_id split)
{
    const bound_field *out = field(w, stage_of(w, stage)->out);
    hga_id columns = out->columns;
    const double *sums = sums_of_split(w->plan, w->workspace, stage, split);
    double factor = (double)mean_factor(w->plan->stage[stage].kind, sums[columns * out->heads]);
    for (hga_id h = 0; h < out->heads; h++)
        for (hga_id j = 0; j < columns; j++)
            bound_row(out, v)[h * bound_head(out, v) + j] = (float)(factor * sums[h * columns + j]);
}

static char *move_sums(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id split, char *parcel,
                       int in)
{
    const field_storage *out = &plan->fields.storage[plan->program.stage[stage].out];
    double *sums = sums_of_split(plan, workspace, stage, split);
    size_t bytes = ((size_t)out->columns * (size_t)out->heads + 1) * sizeof *sums;
    in ? memcpy(sums, parcel, bytes) : memcpy(parcel, sums, bytes);
    return parcel + bytes;
}

const split_kernel sums_in_splits = {join_sums, finish_sum, move_sums};

/* ---- rows ---- */

/* Computes the row in w->chunk, which has all of its edges. */
static void sum_short_row(worker *w, const row_job *job)
{
    const hga_stage *s = stage_of(w, job->stage);
    stage_kind kind = w->plan->stage[job->stage].kind;
    const bound_field *x = read_field(w, s, s->value), *out = field(w, s->out);
    float factor = mean_factor(kind, load_factors(w, s, kind));
    sum_chunk(w, x, out, 0, factor, bound_row(out, job->v), bound_head(out, job->v));
}

/* Computes a split's sum, or a row's in one chunk or in several. */
void sum_row(worker *w, const row_job *job)
{
    edge_cursor c = cursor_start(&w->reader, job->v);
    cursor_skip(&c, job->from);
    cursor_next(&c, job->count, &w->chunk);
    if (job->split >= 0)
        sum_split(w, job, &c);
    else if (w->chunk.n == KERNEL_CHUNK)
        sum_long_row(w, job, &c);
    else
        sum_short_row(w, job);
}

/* ---- families: a node's children ---- */

static int heads_lie_side_by_side(const bound_field *x)
{
    return x->ws.head == x->columns && (!x->io.n || x->io.head == x->columns);
}

/* Whether families are sums of contiguous rows, whose edges differ in mass only. */
static int families_go_as_rows(const worker *w, hga_id stage)
{
    const hga_stage *s = stage_of(w, stage);
    const bound_field *x = read_field(w, s, s->value), *out = field(w, s->out);
    return s->relation == HGA_TREE_UP && w->plan->stage[stage].kind == KIND_MEAN && x->heads == out->heads &&
           heads_lie_side_by_side(x) && heads_lie_side_by_side(out);
}

/* Means of families, one long row each. */
static void weigh_families(worker *w, const bound_field *x, const bound_field *out, int by_mass, const some_families *f)
{
    float *row[CHILDREN_AT_ONCE], *mean[CHILDREN_AT_ONCE], factor[CHILDREN_AT_ONCE], ones[CHILDREN_AT_ONCE];
    const float *weight = by_mass ? f->mass : ones;
    for (hga_id i = 0; !by_mass && i < f->children.n; i++) ones[i] = 1;
    for (hga_id i = 0; i < f->parents.n; i++) {
        double total = 0;
        for (hga_id e = f->ptr[i] - f->ptr[0]; e < f->ptr[i + 1] - f->ptr[0]; e++) total += (double)weight[e];
        factor[i] = mean_factor(KIND_MEAN, total);
    }
    find_rows(x, f->children, row), find_rows(out, f->parents, mean);
    w->plan->machine.kernels->weigh_families(f->parents.n, f->ptr, (const float *const *)row, weight, factor,
                                             x->columns * x->heads, mean);
}

static void sum_rows_of(worker *w, hga_id stage, hga_id n, const hga_id *node)
{
    for (hga_id i = 0; i < n; i++)
        if (node[i] >= 0) sum_row(w, &(row_job){.stage = stage, .v = node[i], .count = INT64_MAX, .split = -1});
}

/* A small family with contiguous heads is one weighted sum of long rows; other rows are summed edge by edge. */
void sum_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node)
{
    const hga_stage *s = stage_of(w, stage);
    const bound_field *x = read_field(w, s, s->value), *out = field(w, s->out);
    const int as_rows = families_go_as_rows(w, stage);
    some_families f;
    (void)first;
    for (hga_id at = 0, taken; at < n; at += taken) {
        taken = as_rows && node[at] >= 0 ? take_families(&w->plan->nodes, CHILDREN_AT_ONCE, n - at, node + at, &f) : 0;
        if (taken)
            weigh_families(w, x, out, s->by_mass, &f);
        else
            taken = as_rows ? 1 : n - at, sum_rows_of(w, stage, taken, node + at);
    }
}

/* ---- prefetching the tokens of the next means, while families and descents compute ---- */

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
