/* scattered_pass.c: a pass over the rows at one end of edges listed one by one: queries, or keys with the edges
   transposed. A row is read with all its heads, contiguous, and the rows of the next edges are prefetched. */
#include "scattered.h"
#include "plan.h"
#include "thread_binding.h"

#include <omp.h>
#include <string.h>

/* The queries' edges, with their sources. */
edge_list scattered_sources(const scattered *x)
{
    return (edge_list){x->r->ptr + x->rows.first, x->r->src, x->r->weight, x->r->type};
}

/* ---- a pass over the rows at one end ---- */

typedef struct edge_pass {
    edge_list edges;
    hga_id n, first, other_first;   /* rows; the nodes of row 0 and of the other ends' */
    int of_keys, far;               /* far: the other ends come from memory */
    const wide_rows *mine, *mine_v; /* whose gradients are summed; mine_v NULL: none */
    const hga_pos *index;           /* of edges in tables of edges; NULL: their own */
} edge_pass;

/* Do n rows, of so many heads of two tensors, come from memory? */
static int rows_are_far(const scattered *x, hga_id n, hga_id heads)
{
    int64_t row = (int64_t)heads * (x->operands.q.columns + x->operands.v.columns) * (int64_t)sizeof(float);
    return row * n >= x->plan->machine.tuning.is.far_sources;
}

static edge_pass pass_of_queries(const scattered *x)
{
    return (edge_pass){.edges = scattered_sources(x),
                       .n = x->rows.n,
                       .first = x->rows.first,
                       .other_first = x->keys.first,
                       .far = rows_are_far(x, x->keys.n, x->heads.n / x->heads.share),
                       .mine = &x->operands.q};
}

/* Rows are keys and values, and edges are transposed. */
static edge_pass pass_of_keys(const scattered *x)
{
    return (edge_pass){.edges = {x->edges.transposed.list.ptr, x->edges.transposed.list.column,
                                 x->edges.transposed.weight, x->edges.transposed.type},
                       .n = x->keys.n,
                       .first = x->keys.first,
                       .other_first = x->rows.first,
                       .of_keys = 1,
                       .far = rows_are_far(x, x->rows.n, x->heads.n),
                       .mine = &x->operands.k,
                       .mine_v = &x->operands.v,
                       .index = x->edges.index};
}

/* ---- edge runs: edges that a kernel computes at once, of rows in order ---- */

enum { AHEAD = KERNEL_HEAD_EDGES }; /* edges after a run's last that are prefetched */

typedef struct edge_span {
    hga_pos at;
    hga_id n, more;
    int continues;            /* the first row has edges before these */
    hga_id row[KERNEL_CHUNK]; /* of each edge */
} edge_span;

/* Finds the next edges of rows up to `end`, the first of them in a row from `*row` on; returns 0 if there are none. */
static int next_edge_run(const edge_pass *p, hga_id *row, hga_id end, edge_span *out)
{
    const hga_pos *ptr = p->edges.ptr;
    hga_pos left = ptr[end] - out->at, behind;
    if (left == 0) return 0;
    out->n = (hga_id)(left < KERNEL_CHUNK ? left : KERNEL_CHUNK), behind = ptr[p->n] - out->at - out->n;
    out->more = (hga_id)(behind < AHEAD ? behind : AHEAD);
    for (hga_id i = 0; i < out->n; i++) {
        while (ptr[*row + 1] <= out->at + i) ++*row;
        out->row[i] = *row;
    }
    out->continues = out->at > ptr[out->row[0]];
    return 1;
}

/* The key of edge i of a run. */
static hga_id key_of(const edge_pass *p, const edge_span *at, hga_id i)
{
    return p->of_keys ? at->row[i] : p->edges.other[at->at + i] - p->other_first;
}

/* How the run's edges are weighed. Where sigmoids have counts, fills `inverse` with 1 / those of the edges. */
static kernel_sigmoids sigmoids_of(const scattered *x, const edge_pass *p, const edge_span *at, float *inverse)
{
    const float *weight = p->edges.weight, *mass = x->log_mass ? x->plan->nodes.mass + x->keys.first : NULL;
    const int on = weights_are_sigmoids(x->plan), counts = on && (weight || mass);
    for (hga_id i = 0; counts && i < at->n; i++)
        inverse[i] = 1 / ((weight ? weight[at->at + i] : 1) * (mass ? mass[key_of(p, at, i)] : 1));
    return (kernel_sigmoids){.on = on, .inverse_count = counts ? inverse : NULL};
}

/* Computes the terms of scores besides products; NULL: none. */
static const float *find_scores(const scattered *x, const edge_pass *p, const edge_span *at, float *score)
{
    const float *weight = p->edges.weight;
    if (!weight && !x->log_mass) return NULL;
    for (hga_id i = 0; i < at->n; i++) {
        float w = weight ? weight[at->at + i] : 1;
        hga_id key = key_of(p, at, i);
        score[i] = (w == 1 ? 0 : logf(w)) + (x->log_mass ? x->log_mass[key] : 0);
    }
    return score;
}

/* Draws the dropout mask of a run's edges in each head. */
static void drop_edges(const scattered *x, const edge_pass *p, const edge_span *at, float *cached)
{
    static const int32_t untyped[KERNEL_CHUNK];
    const hga_io *io = x->call->io;
    const hga_id *other = p->edges.other + at->at;
    hga_id row[KERNEL_CHUNK];
    for (hga_id i = 0; i < at->n; i++) row[i] = p->first + at->row[i];
    x->plan->machine.kernels->drop_pairs(&(kernel_drop_pairs){.draw = draw_of_call(x->plan, io),
                                                              .n = at->n,
                                                              .first_head = x->heads.first,
                                                              .heads = x->heads.n,
                                                              .destination = p->of_keys ? other : row,
                                                              .source = p->of_keys ? row : other,
                                                              .type = p->edges.type ? p->edges.type + at->at : untyped},
                                         cached);
}

/* Adds the tables' gradients in double, for each key/value head separately. */
static void sum_tables(const scattered *x, const edge_pass *p, const scattered_thread *l, const edge_span *at)
{
    hga_id head_groups = x->heads.n / x->heads.share;
    for (hga_id i = 0; i < at->n; i++) {
        const float *slope = l->slope + i * x->heads.n, *product = l->product + i * x->heads.n;
        double *d_scale = x->grads.d_scale ? x->grads.d_scale + (ptrdiff_t)(at->row[i] / BLOCK) * head_groups : NULL;
        for (hga_id h = 0; d_scale && !p->of_keys && h < x->heads.n; h++)
            d_scale[h / x->heads.share] += (double)slope[h] * (double)product[h];
        for (hga_id h = 0; x->grads.sums->of[HGA_TABLE_LOG_MASS] && p->of_keys && h < x->heads.n; h++)
            x->grads.sums[h / x->heads.share].of[HGA_TABLE_LOG_MASS][x->keys.first + at->row[i]] += (double)slope[h];
    }
}

/* Scores a run's edges again and adds their gradients to the pass's rows, to the edges' own and to tables. */
static void run_edge_run(const scattered *x, const edge_pass *p, const scattered_thread *l, const edge_span *at)
{
    float score[KERNEL_CHUNK], inverse[KERNEL_CHUNK];
    int with_tables = p->of_keys ? x->grads.sums->of[HGA_TABLE_LOG_MASS] != NULL : x->grads.d_scale != NULL;
    ptrdiff_t vectors = (ptrdiff_t)x->heads.n * x->operands.q.columns;
    const hga_io *io = x->call->io;
    float *const *d_table = x->call->grad->d_table;
    if (l->cached && !(p->of_keys && x->edges.weights)) drop_edges(x, p, at, l->cached);
    x->plan->machine.kernels->grad_heads(&(kernel_grad_heads){
        .ends.n = at->n,
        .ends.more = at->more,
        .ends.far = p->far,
        .heads = x->heads.n,
        .dim = x->operands.q.columns,
        .dim_v = x->operands.v.columns,
        .share = x->heads.share,
        .ends.of_keys = p->of_keys,
        .ends.row = at->row,
        .ends.other = p->edges.other + at->at,
        .ends.other_first = p->other_first,
        .q = x->operands.q.read,
        .k = x->operands.k.read,
        .g = x->operands.g.read,
        .v = x->operands.v.read,
        .additive.a = x->additive,
        .additive.negative_slope = x->plan->program.negative_slope,
        .terms.scale = x->call->scale,
        .terms.bias = find_scores(x, p, at, score),
        .sigmoid = sigmoids_of(x, p, at, inverse),
        .adjoint = x->adjoint,
        .drop_mask = l->cached,
        .sums.of_slopes = p->mine->from,
        .sums.of_weights = p->mine_v ? p->mine_v->from : (kernel_gradient){0},
        .sums.continues = at->continues,
        .sums.adds = x->call->grad->accumulate,
        .d_leaky_relu = x->grads.d_additive && !p->of_keys ? x->grads.d_additive + at->row[0] / BLOCK * vectors : NULL,
        .slope = with_tables ? l->slope : NULL,
        .product = with_tables ? l->product : NULL,
        .edges.list = p->index ? p->index + at->at : NULL,
        .edges.first = at->at,
        .edges.key = io->edge_key.data,
        .edges.value = writes_edge_values(x) ? io->edge_value.data : NULL,
        .edges.features = io->edge_value.columns,
        .edges.d_out = x->operands.d_edge_out,
        .edges.d_key = p->of_keys ? NULL : d_table[HGA_TABLE_EDGE_KEY],
        .edges.d_value = p->of_keys || !writes_edge_values(x) ? NULL : d_table[HGA_TABLE_EDGE_VALUE],
        .edges.packed = l->packed,
        .edges.packed_v = l->packed_v,
        .cached.weights = x->edges.weights,
        .cached.contents = x->edges.contents});
    if (with_tables) sum_tables(x, p, l, at);
}

/* ---- all rows ---- */

static void clear_row(const wide_rows *x, hga_id row)
{
    for (hga_id h = 0; x->from.at && h < x->heads; h++)
        memset(x->from.at + row * x->from.row + h * x->from.head, 0, (size_t)x->columns * sizeof *x->from.at);
}

/* Rows [first, end): gradients of rows without edges are zeroed, the others computed run by run. */
static void run_block(const scattered *x, const edge_pass *p, const scattered_thread *l, hga_id first, hga_id end)
{
    edge_span at = {.at = p->edges.ptr[first]};
    for (hga_id row = first; row < end && !x->call->grad->accumulate; row++) {
        if (p->edges.ptr[row] < p->edges.ptr[row + 1]) continue;
        clear_row(p->mine, row);
        if (p->mine_v) clear_row(p->mine_v, row);
    }
    for (hga_id row = first; next_edge_run(p, &row, end, &at); at.at += at.n) run_edge_run(x, p, l, &at);
}

/* All rows of a pass; threads take blocks of them as they come. */
static void run_pass(const scattered *x, edge_pass p, const scattered_thread *thread)
{
    hga_id threads = x->call->threads;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        binding old;
        binding_take(x->plan, &old);
#pragma omp for schedule(dynamic, 1) nowait
        for (hga_id first = 0; first < p.n; first += BLOCK)
            run_block(x, &p, &thread[threads > 1 ? omp_get_thread_num() : 0], first,
                      p.n - first < BLOCK ? p.n : first + BLOCK);
        topology_unbind(&old);
    }
}

void scattered_pass_queries(const scattered *x, const scattered_thread *thread)
{
    run_pass(x, pass_of_queries(x), thread);
}

void scattered_pass_keys(const scattered *x, const scattered_thread *thread) { run_pass(x, pass_of_keys(x), thread); }
