/* states.c: merges finished states down the hierarchy, and descends with energies. A row has little work, and each of
   its steps depends on the one before: so the kernels take the scalars of many rows at once, and then all their
   vectors. */
#include "bound.h"
#include "tree_stages.h"
#include "stage_kernel.h"
#include "stage_plan.h"
#include "stages.h"

#include <math.h>
#include <string.h>

/* Rows computed at once: limited by the capacity of their scalars, [rows][heads], and of addresses. */
enum { ROWS_AT_ONCE = 128 };
static hga_id rows_at_once(const worker *w, hga_id heads)
{
    return w->rows.lanes / heads < ROWS_AT_ONCE ? w->rows.lanes / heads : ROWS_AT_ONCE;
}

/* ---- mixing ---- */

/* Rows of nodes, of one field. */
typedef struct field_rows {
    const bound_field *of;
    some_nodes node;
} field_rows;

/* How many of the rows from `from` on, up to n, have the first one's head stride. */
static hga_id alike(const field_rows *x, hga_id from, hga_id n)
{
    const bound_field of = *x->of;
    hga_id i = from + 1;
    if (!of.io.n || (of.io.head == of.ws.head && !of.io.streams)) return n - from;
    for (const int io = bound_is_io(&of, node_of(&x->node, from)); i < n;) {
        if (bound_is_io(&of, node_of(&x->node, i)) != io) break;
        i++;
    }
    return i - from;
}

static ptrdiff_t head_of(const field_rows *x, hga_id i) { return bound_head(x->of, node_of(&x->node, i)); }

/* out = a x + b y of n rows, [heads][columns] each. */
static void mix(const worker *w, kernel_mix m, field_rows x, field_rows y, field_rows out)
{
    const hga_id n = out.node.n;
    float *x_at[ROWS_AT_ONCE], *y_at[ROWS_AT_ONCE], *out_at[ROWS_AT_ONCE];
    const float *a = m.a, *b = m.b;
    const int streams = m.streams;
    find_rows(x.of, x.node, x_at), find_rows(y.of, y.node, y_at), find_rows(out.of, out.node, out_at);
    m.heads = out.of->heads, m.columns = out.of->columns;
    for (hga_id at = 0; at < n; at += m.n) {
        const hga_id of_x = alike(&x, at, n), of_y = alike(&y, at, n), of_out = alike(&out, at, n);
        m.n = of_x < of_y ? of_x : of_y;
        if (of_out < m.n) m.n = of_out;
        m.a = a ? a + at * m.heads : NULL, m.b = b + at * m.heads;
        m.x = (const float *const *)x_at + at, m.y = (const float *const *)y_at + at, m.out = out_at + at;
        m.x_head = head_of(&x, at), m.y_head = head_of(&y, at), m.out_head = head_of(&out, at);
        m.streams = streams && bound_is_io(out.of, node_of(&out.node, at));
        w->plan->machine.kernels->mix(&m);
    }
}

/* ---- merging ---- */

/* The shares a and b of states x, and of y times `weight`, in their merge, and its log-sum-exp. Where weights are
   sigmoids, states are sums: a share is 1, or of an empty state 0. */
static void find_shares(const worker *w, hga_id n, const float *x, const float *y, float weight, float *a, float *b,
                        float *lse)
{
    if (!weights_are_sigmoids(w->plan)) {
        w->plan->machine.kernels->shares(n, x, y, a, b, lse);
        return;
    }
    for (hga_id i = 0; i < n; i++) {
        a[i] = x[i] == -INFINITY ? 0 : 1, b[i] = y[i] == -INFINITY ? 0 : weight;
        lse[i] = a[i] == 0 && b[i] == 0 ? -INFINITY : 0;
    }
}

/* Merges the state of each source into row v's, in order. */
void spread_row(worker *w, const row_job *job)
{
    const bound_field *x = field(w, stage_of(w, job->stage)->out);
    const field_rows own = {x, nodes_from(1, job->v)};
    float *lse = bound_lse(x, job->v), *theirs = w->rows.scalars[0], *a = w->rows.row.greatest, *b = w->rows.row.sum;
    edge_cursor c = cursor_start(&w->reader, job->v);
    for (cursor_next(&c, job->count, &w->chunk); w->chunk.n; cursor_next(&c, job->count, &w->chunk))
        for (hga_id e = 0; e < w->chunk.n; e++) {
            hga_id u = w->chunk.src[e];
            float log_weight = w->chunk.weight[e] == 1 ? 0 : logf(w->chunk.weight[e]);
            for (hga_id h = 0; h < x->heads; h++) theirs[h] = bound_lse(x, u)[h] + log_weight;
            find_shares(w, x->heads, lse, theirs, w->chunk.weight[e], a, b, lse);
            mix(w, (kernel_mix){.a = a, .b = b}, own, (field_rows){x, nodes_from(1, u)}, own);
        }
}

/* Nodes, and the ancestor of each; -1: none. */
typedef struct pairs {
    hga_id n, node[ROWS_AT_ONCE], above[ROWS_AT_ONCE];
} pairs;

/* Lists the nodes of [0, n) that are computed here: only those with an ancestor, unless `orphans`. */
static void find_pairs(const worker *w, hga_id stage, hga_id n, const hga_id *node, int orphans, pairs *out)
{
    const tree_part part = w->part_of_tree;
    const hga_id cut = w->plan->stage[stage].cut;
    hga_id found = 0;
    for (hga_id i = 0; i < n; i++) {
        hga_id u = node[i] < 0 ? -1 : node_above(&w->plan->nodes, part, cut, node[i]);
        out->node[found] = node[i], out->above[found] = u;
        found += node[i] >= 0 && (u >= 0 || orphans);
    }
    out->n = found;
}

/* Merges each row's state with its ancestor's. */
static void spread_families(worker *w, hga_id stage, const pairs *p)
{
    float *mine = w->rows.scalars[0], *theirs = w->rows.scalars[1], *a = w->rows.scalars[2], *b = w->rows.scalars[3];
    const bound_field *x = field(w, stage_of(w, stage)->out);
    const field_rows own = {x, nodes_of(p->n, p->node)}, above = {x, nodes_of(p->n, p->above)};
    load_lses(x, own.node, mine);
    load_lses(x, above.node, theirs);
    find_shares(w, p->n * x->heads, mine, theirs, 1, a, b, mine);
    store_lses(x, own.node, mine);
    mix(w, (kernel_mix){.a = a, .b = b}, own, above, own);
}

/* Down the tree, merges many rows at once; along other relations one by one. */
void spread_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node)
{
    const bound_field *x = field(w, stage_of(w, stage)->out);
    pairs p;
    (void)first;
    if (stage_of(w, stage)->relation != HGA_TREE_DOWN) {
        for (hga_id i = 0; i < n; i++)
            if (node[i] >= 0) spread_row(w, &(row_job){.stage = stage, .v = node[i], .count = INT64_MAX, .split = -1});
        return;
    }
    for (hga_id at = 0, most = rows_at_once(w, x->heads); at < n; at += most) {
        find_pairs(w, stage, n - at < most ? n - at : most, node + at, 0, &p);
        spread_families(w, stage, &p);
    }
}

/* ---- descent ---- */

/* The share of its mass that a node spends on its siblings is 1 / (1 + e^(psi - LSE)); the rest passes inside. Either
   none of these nodes has an ancestor, or all have. */
static void descend_rows(worker *w, hga_id stage, some_nodes node, some_nodes above)
{
    const hga_stage *s = stage_of(w, stage);
    float *share = w->rows.scalars[0], *rest = w->rows.scalars[1], *whole = w->rows.scalars[2],
          *nothing = w->rows.scalars[3];
    const bound_field *state = field(w, s->value), *keep = field(w, s->keep), *out = field(w, s->out);
    const field_rows own = {state, node}, from = {out, above};
    const int is_below = node_of(&above, 0) >= 0;
    const hga_id n = node.n * out->heads;
    kernel_mix m = {.b = share, .streams = out->io.streams, .ahead = &w->coming};
    load_lses(state, node, share);
    load_scalars(field(w, s->gate), node, rest);
    if (is_below)
        load_scalars(keep, above, whole);
    else
        memset(nothing, 0, (size_t)n * sizeof *nothing), m.a = nothing;
    w->plan->machine.kernels->divide(n, share, rest, is_below ? whole : NULL, share, rest);
    store_scalars(keep, node, rest);
    mix(w, m, is_below ? from : own, own, (field_rows){out, node});
}

/* Runs consecutive nodes that all have ancestors, or none. */
static void descend_runs(worker *w, hga_id stage, const pairs *p)
{
    for (hga_id at = 0, end; at < p->n; at = end) {
        for (end = at + 1; end < p->n && (p->above[end] < 0) == (p->above[at] < 0);) end++;
        descend_rows(w, stage, nodes_of(end - at, p->node + at), nodes_of(end - at, p->above + at));
    }
}

/* Multiplies rows that were computed as if node u, their ancestor across the cut, had passed everything inside, by what
   it passed, and mixes in u's row. */
static void descend_across(worker *w, hga_id stage, const pairs *p)
{
    const hga_stage *s = stage_of(w, stage);
    const bound_field *keep = field(w, s->keep), *out = field(w, s->out);
    const field_rows rows = {out, nodes_of(p->n, p->node)}, above = {out, nodes_of(p->n, p->above)};
    float *inside = w->rows.scalars[0], *own = w->rows.scalars[1];
    load_scalars(keep, above.node, inside);
    mix(w, (kernel_mix){.b = inside}, above, rows, rows);
    if (!w->plan->stage[stage].crosses_all) return;
    load_scalars(keep, rows.node, own);
    for (hga_id i = 0; i < p->n * out->heads; i++) own[i] *= inside[i];
    store_scalars(keep, rows.node, own);
}

/* Computes many rows at once; across the tree's cut they are mixed with what their ancestor there passes down. */
void descend_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node)
{
    const bound_field *out = field(w, stage_of(w, stage)->out);
    const int across = w->part_of_tree == TREE_ACROSS;
    pairs p;
    (void)first;
    for (hga_id at = 0, most = rows_at_once(w, out->heads); at < n; at += most) {
        find_pairs(w, stage, n - at < most ? n - at : most, node + at, !across, &p);
        if (across)
            descend_across(w, stage, &p);
        else
            descend_runs(w, stage, &p);
    }
    if (!across && out->io.streams) w->plan->machine.kernels->streamed();
}
