/* fast_states.c: the adjoint of merging states. In linear form a merge is a sum, and its adjoint a copy to every
   term: so a row's adjoint (G, delta, lse) is added to its sources', which is the merge of states again, with -lse
   as the log-sum-exp. States of sigmoids are sums already: rows are added, and all have the same lse. */
#include "fast_states.h"
#include "carve.h"
#include "plan.h"

#include <math.h>

/* The adjoint of a state. */
typedef struct adjoint_state {
    const float *row;
    float delta, lse;
} adjoint_state;

/* Adds the adjoint of a sum, times w, to node u's. */
static void add_adjoint(const fast_pass *p, hga_id f, hga_id u, adjoint_state from, float w)
{
    const fast_field *x = &p->field[f];
    const kernel_table *k = p->plan->machine.kernels;
    float *row = adjoint_row(p, f, u);
    if (w == 0) return;
    x->lse[u] == INFINITY ? k->scale(x->padded, w, from.row, row) : k->blend(x->padded, 1, row, w, from.row, row);
    x->delta[u] = 0, x->lse[u] = from.lse;
}

/* Merges the adjoint of a state, times w, into node u's. */
static void merge_adjoint(const fast_pass *p, hga_id f, hga_id u, adjoint_state from, float w)
{
    const fast_field *x = &p->field[f];
    if (weights_are_sigmoids(p->plan)) {
        add_adjoint(p, f, u, from, w);
        return;
    }
    double a = -(double)x->lse[u], b = log((double)w) - (double)from.lse;
    if (b == -INFINITY) return;
    double hi = a > b ? a : b, keep = exp(a - hi), add = exp(b - hi), sum = keep + add;
    if (a == -INFINITY)
        p->plan->machine.kernels->scale(x->padded, 1, from.row, adjoint_row(p, f, u));
    else
        p->plan->machine.kernels->blend(x->padded, (float)(keep / sum), adjoint_row(p, f, u), (float)(add / sum),
                                        from.row, adjoint_row(p, f, u));
    x->delta[u] = (float)((keep * (double)x->delta[u] + add * (double)from.delta) / sum);
    x->lse[u] = (float)-(hi + log(sum));
}

/* Merges each row's adjoint into its sources', the lowest level first: merging is its own adjoint. */
hga_status fast_spread(fast_pass *p, hga_id s)
{
    const hga_stage *stage = &p->program->stage[s];
    hga_status st = HGA_OK;
    rows_open(&p->rows, p->plan, s);
    for (node_walk w = {0}; node_next(p, 0, &w);) {
        hga_id v = w.v;
        const fast_field *x = &p->field[stage->out];
        if (!program_row(&p->nodes, p->program->field[stage->out].rows, v) || x->lse[v] == INFINITY) continue;
        HGA_TRY(edges_read(&p->rows, v));
        const adjoint_state adjoint = {adjoint_row(p, stage->out, v), x->delta[v], x->lse[v]};
        for (int64_t i = 0; i < p->rows.n; i++)
            merge_adjoint(p, stage->out, p->rows.edge[i].src, adjoint, p->rows.edge[i].weight);
    }
done:
    return st;
}

static float *adjoint_row_of(const fast_field *x, hga_id v)
{
    return x->adjoint + (ptrdiff_t)(x->index ? x->index[v] : v) * x->padded;
}

/* Lists node v itself, if its adjoint is not zero, and its children from *at on, KERNEL_CHUNK at most: their rows,
   deltas and -lse. */
static hga_id find_askers(const fast_field *x, const brood *b, hga_id v, hga_id *at, const float **row, float *delta,
                          float *ask)
{
    hga_id n = 0;
    for (hga_id u = v;; u = b->list ? b->list[*at] : b->first + *at, ++*at) {
        if (x->lse[u] != INFINITY) row[n] = adjoint_row_of(x, u), delta[n] = x->delta[u], ask[n++] = -x->lse[u];
        if (n == KERNEL_CHUNK || *at == b->n) break;
    }
    return n;
}

/* Merges n states, each with weight e^ask, into node v's. */
static void merge_states(const fast_pass *p, const fast_field *x, hga_id v, hga_id n, const float **row,
                         const float *delta, float *ask)
{
    float hi = ask[0], sum = 0, mean = 0;
    if (weights_are_sigmoids(p->plan)) {
        for (hga_id i = 0; i < n; i++) ask[i] = 1;
        p->plan->machine.kernels->weigh(n, row, 0, ask, 1, x->padded, adjoint_row_of(x, v));
        x->delta[v] = 0, x->lse[v] = -hi;
        return;
    }
    for (hga_id i = 1; i < n; i++) hi = ask[i] > hi ? ask[i] : hi;
    for (hga_id i = 0; i < n; i++) ask[i] = expf(ask[i] - hi), sum += ask[i], mean += ask[i] * delta[i];
    p->plan->machine.kernels->weigh(n, row, 0, ask, 1 / sum, x->padded, adjoint_row_of(x, v));
    x->delta[v] = mean / sum, x->lse[v] = -(hi + logf(sum));
}

/* Merges a family; of more than KERNEL_CHUNK members chunk by chunk, each with the result so far. */
static void merge_family(const fast_pass *p, const fast_field *x, hga_id v)
{
    const float *row[KERNEL_CHUNK];
    float delta[KERNEL_CHUNK], ask[KERNEL_CHUNK];
    brood b = brood_of(&p->nodes, v);
    for (hga_id at = 0; at < b.n;) {
        hga_id n = find_askers(x, &b, v, &at, row, delta, ask);
        if (n) merge_states(p, x, v, n, row, delta, ask);
    }
}

/* ---- several families at once ---- */

enum { MOST_MERGED = 128 };

/* Weighs the members of n families; 0 if a member's adjoint is zero or a parent already has one. Sums have the same
   lse: each weighs 1. */
static int weigh_adjoint(const fast_pass *p, const fast_field *x, hga_id v, hga_id n, const hga_id *ptr, float *weight)
{
    for (hga_id i = 0; i < n; i++) {
        float hi = -INFINITY;
        if (x->lse[v + i] != INFINITY) return 0;
        for (hga_id e = ptr[i]; e < ptr[i + 1]; e++) {
            if (x->lse[e] == INFINITY) return 0;
            hi = -x->lse[e] > hi ? -x->lse[e] : hi;
        }
        for (hga_id e = ptr[i]; e < ptr[i + 1]; e++) weight[e - ptr[0]] = -x->lse[e] - hi;
    }
    p->plan->machine.kernels->exp(ptr[n] - ptr[0], weight);
    return 1;
}

/* Merges the deltas and log-sum-exps of node v's children into v's, and divides their weights by their sum; sums are
   not divided. */
static void merge_numbers(const fast_field *x, int are_sums, hga_id v, hga_id first, hga_id n, float *weight)
{
    if (are_sums) {
        if (n) x->delta[v] = 0, x->lse[v] = x->lse[first];
        return;
    }
    float sum = 0, mean = 0, hi = -INFINITY;
    for (hga_id i = 0; i < n; i++) {
        sum += weight[i], mean += weight[i] * x->delta[first + i];
        hi = -x->lse[first + i] > hi ? -x->lse[first + i] : hi;
    }
    for (hga_id i = 0; i < n; i++) weight[i] /= sum;
    if (n) x->delta[v] = mean / sum, x->lse[v] = -(hi + logf(sum));
}

static void merge_batch(const fast_pass *p, const fast_field *x, hga_id v, hga_id n, const hga_id *ptr)
{
    float weight[MOST_MERGED];
    if (p->nodes.child_list || ptr[n] - ptr[0] > MOST_MERGED || !weigh_adjoint(p, x, v, n, ptr, weight)) {
        for (hga_id i = 0; i < n; i++) merge_family(p, x, v + i);
        return;
    }
    const int are_sums = weights_are_sigmoids(p->plan);
    for (hga_id i = 0; i < n; i++)
        merge_numbers(x, are_sums, v + i, ptr[i], ptr[i + 1] - ptr[i], weight + (ptr[i] - ptr[0]));
    p->plan->machine.kernels->gather(n, ptr, weight, adjoint_row_of(x, ptr[0]), x->padded, adjoint_row_of(x, v));
}

void merge_families(const fast_pass *p, hga_id f, row_range nodes)
{
    const fast_field *x = &p->field[f];
    hga_id base = p->nodes.level_ptr[1];
    const hga_id *ptr = p->nodes.child_ptr;
    for (hga_id v = nodes.first, n; ptr && v < nodes.end; v += n) {
        for (n = 1; v + n < nodes.end && ptr[v + n + 1 - base] - ptr[v - base] <= MOST_MERGED;) n++;
        merge_batch(p, x, v, n, ptr + (v - base));
    }
}
