/* scattered.c: edges listed one by one run backward twice. Rows that lie anywhere come from memory for every edge,
   and to add to one there costs as much as two: so the first pass runs over the queries, whose gradients sum over
   their keys and values, and the second over the keys, with the edges transposed, whose gradients sum over queries
   and their gradients. Both score again, and write each row once. A row is read with all its heads, contiguous, and
   the rows of the next edges are prefetched: the hardware does not foresee them. */
#include "scattered.h"
#include "carve.h"
#include "estimate.h"
#include "plan.h"
#include "thread_binding.h"

#include <math.h>
#include <omp.h>
#include <string.h>

/* ---- which plans ---- */

static int same_rows(const hga_plan *plan, hga_id a, hga_id b)
{
    hga_id first, other, n = field_io(plan, a, &first);
    return n == field_io(plan, b, &other) && first == other;
}

/* Takes one stage that attends, from the caller's queries, keys and values to the output, in float. */
static const char *program_refuses(const hga_plan *plan, reason *buffer)
{
    const hga_program *p = &plan->program;
    const hga_stage *s = &p->stage[0];
    if (p->n_stages != 1) return reason_of(buffer, "the stages that count are %d, not one", p->n_stages);
    if (plan->stage[0].kind != KIND_ATTEND) return reason_of(buffer, "stage '%s' does not attend", s->name);
    if (p->field[s->query].binding != HGA_IO_QUERY || p->field[s->key].binding != HGA_IO_KEY ||
        p->field[s->value].binding != HGA_IO_VALUE || p->field[s->out].binding != HGA_IO_OUT)
        return reason_of(buffer, "stage '%s' attends to other fields than the caller's", s->name);
    if (!same_rows(plan, s->query, s->out) || !same_rows(plan, s->key, s->value))
        return "queries and output, or keys and values, have different rows";
    if (storage_is_rounded(plan, s->query)) return "operands are rounded to bfloat16";
    return NULL;
}

/* Pairs have no terms of their own. */
static const char *scattered_refuses(const hga_plan *plan, unsigned features, reason *buffer)
{
    const hga_shape *s = &plan->shape;
    const char *why;
    if (rows_are_whole(plan)) return "weights depend on all scores of a row";
    if ((why = is_generic(plan, buffer))) return why;
    if ((why = program_refuses(plan, buffer))) return why;
    const hga_relation *r = &plan->stage[0].relation;
    if (!r->ptr || r->n_blocks) return reason_of(buffer, "edges of '%s' are not all listed one by one", r->name);
    if (s->n_heads > KERNEL_HEADS) return reason_of(buffer, "more than %d heads", KERNEL_HEADS);
    if (features & CALL_HAS_NONLINEAR) return "softcaps or slopes";
    if (features & CALL_HAS_TYPES) return "the call has relative keys or biases";
    if (features & CALL_HAS_EDGE_BIASES) return "the call has biases of edges";
    if (features & CALL_HAS_POSITIONS) return "the call has positions";
    if (features & CALL_HAS_SIXTEEN) return "the call has numbers of 16 bits";
    if (features & CALL_HAS_FOLDS) return "the call's rows are folded";
    return NULL;
}

/* ---- how long a call takes ---- */

/* All heads of two rows have so many numbers that computing an edge's weight and slope again takes longer than to read
   them (measured). */
enum { LONG_PRODUCTS = 512 };

static hga_pos count_edges(const scattered *x)
{
    const hga_pos *ptr = scattered_sources(x).ptr;
    return ptr[x->rows.n] - ptr[0];
}

/* Does it pay that the first pass writes weights and slopes for the second? They take no more than a quarter of the
   tensors and their gradients. */
static int slopes_pay(const scattered *x)
{
    int64_t edge = (int64_t)sizeof *x->edges.index + 2 * x->plan->shape.n_heads * (int64_t)sizeof *x->edges.weights;
    return x->plan->shape.n_heads * (x->operands.q.columns + x->operands.v.columns) >= LONG_PRODUCTS &&
           edge * count_edges(x) <= tensor_bytes(x->plan) / 4;
}

static scattered scattered_of(const hga_plan *plan);

/* Both passes read the rows at the other ends with all heads, and prefetch them. */
static double estimate_scattered(const hga_plan *plan)
{
    const scattered x = scattered_of(plan);
    const double edges = (double)count_edges(&x), rows = ((double)x.rows.n + x.keys.n) / 2;
    const double columns = x.operands.q.columns + x.operands.v.columns, shared = 1.0 / x.heads.share;
    const double row = columns * x.heads.n * sizeof(float);
    const double of_queries = doublings(x.rows.n * row), of_keys = doublings(x.keys.n * row * shared);
    const double product = slopes_pay(&x) ? 0.051 + 0.013 * shared : 0.33;
    return x.heads.n * (edges * (2.3 + columns * (product + 0.022 * (of_queries + of_keys * shared))) +
                        rows * (13 + 0.13 * columns * of_queries));
}

/* ---- edges by their sources ---- */

/* Sets the positions of the transposed edges in tables of edges. */
static void place_edges(const scattered *x)
{
    edge_list in = scattered_sources(x);
    memcpy(x->edges.cursor, x->edges.transposed.list.ptr + 1, (size_t)x->keys.n * sizeof *x->edges.cursor);
    for (hga_pos e = in.ptr[x->rows.n]; e-- > in.ptr[0];)
        x->edges.index[--x->edges.cursor[in.other[e] - x->keys.first]] = e;
}

static void drop_transposed(const hga_plan *plan, void *what)
{
    transposed_edges *t = what;
    hga_delete(&plan->memory.allocator, t->weight, t->list.n, sizeof *t->weight);
    hga_delete(&plan->memory.allocator, t->type, t->list.n, sizeof *t->type);
    edges_clear(&plan->memory.allocator, &t->list);
    hga_delete(&plan->memory.allocator, t, 1, sizeof *t);
}

/* Lists the edges by their sources, a source's destinations in ascending order of rows. */
static hga_status transpose_edges(const scattered *x, transposed_edges *t)
{
    hga_status st = HGA_OK;
    const hga_allocator *a = &x->plan->memory.allocator;
    edge_list in = scattered_sources(x);
    int typed = in.type && x->plan->options.dropout > 0;
    edges_by_row input = {x->r->name, x->rows.n, x->keys.first, x->keys.n, in.ptr, in.other, in.weight || typed, 0};
    HGA_TRY(edges_transpose(a, &input, &t->list));
    sorted_edges *list = &t->list;
    if (in.weight) HGA_TRY(hga_new(a, list->n, sizeof *t->weight, &t->weight));
    if (typed) HGA_TRY(hga_new(a, list->n, sizeof *t->type, &t->type));
    for (hga_pos e = 0; e < list->n; e++) {
        list->column[e] += x->rows.first;
        if (t->weight) t->weight[e] = in.weight[in.ptr[0] + list->number[e]];
        if (t->type) t->type[e] = in.type[in.ptr[0] + list->number[e]];
    }
    hga_delete(a, list->number, list->n, sizeof *list->number);
    list->number = NULL;
done:
    return st;
}

static hga_status make_transposed(const hga_plan *plan, void **out, const char **why, reason *buffer)
{
    hga_status st = HGA_OK;
    scattered x = scattered_of(plan);
    transposed_edges *t = NULL;
    (void)why, (void)buffer;
    HGA_TRY(hga_new_zero(&plan->memory.allocator, 1, sizeof *t, &t));
    HGA_TRY(transpose_edges(&x, t));
    *out = t;
done:
    if (st && t) drop_transposed(plan, t);
    return st;
}

/* Adds the deltas of features of edges for queries [first, end). */
static void add_feature_adjoints(const scattered *x, hga_id first, hga_id end, float *delta)
{
    float more[BLOCK * KERNEL_HEADS];
    const kernel_wide *o = &x->operands.edge_out, *g = &x->operands.d_edge_out;
    x->plan->machine.kernels->dot_heads(&(kernel_dots){.n = end - first,
                                                       .heads = x->heads.n,
                                                       .columns = x->call->io->edge_value.columns,
                                                       .x = {o->at + first * o->row, o->row, o->head},
                                                       .y = {g->at + first * g->row, g->row, g->head},
                                                       .out = more,
                                                       .out_row = x->heads.n});
    for (hga_id i = 0; i < end - first; i++, delta += 2 * (ptrdiff_t)x->heads.n)
        for (hga_id h = 0; h < x->heads.n; h++) delta[h] += more[(ptrdiff_t)i * x->heads.n + h];
}

/* Sets the adjoints of queries [first, end): their log-sum-exps, and what their scores' gradients are relative to,
   which is 0 where weights are sigmoids. */
static void find_adjoint(const scattered *x, hga_id first, hga_id end)
{
    const hga_tensor *d_lse = &x->call->grad->d_lse;
    const kernel_wide *o = &x->operands.o.read, *g = &x->operands.g.read;
    const int relative = !weights_are_sigmoids(x->plan);
    hga_id all = x->plan->shape.n_heads;
    float *adjoint = x->adjoint + 2 * (ptrdiff_t)first * x->heads.n;
    if (relative)
        x->plan->machine.kernels->dot_heads(&(kernel_dots){.n = end - first,
                                                           .heads = x->heads.n,
                                                           .columns = x->operands.o.columns,
                                                           .x = {o->at + first * o->row, o->row, o->head},
                                                           .y = {g->at + first * g->row, g->row, g->head},
                                                           .out = adjoint + x->heads.n,
                                                           .out_row = 2 * (ptrdiff_t)x->heads.n});
    if (x->operands.d_edge_out.at) add_feature_adjoints(x, first, end, adjoint + x->heads.n);
    for (hga_id row = first; row < end; row++, adjoint += 2 * x->heads.n)
        for (hga_id h = 0; h < x->heads.n; h++) {
            adjoint[h] = call_requests_lse(x->call, row, x->heads.first + h);
            if (!relative) adjoint[x->heads.n + h] = 0;
            if (d_lse->data)
                adjoint[x->heads.n + h] -= *(const float *)tensor_at(d_lse, all, 1, row, x->heads.first + h);
        }
}

/* Every query's log-sum-exp, and what its scores' gradients are relative to. */
static void find_all_adjoints(const scattered *x)
{
    hga_id threads = x->call->threads;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        binding old;
        binding_take(x->plan, &old);
#pragma omp for nowait
        for (hga_id first = 0; first < x->rows.n; first += BLOCK)
            find_adjoint(x, first, x->rows.n - first < BLOCK ? x->rows.n : first + BLOCK);
        topology_unbind(&old);
    }
}

/* ---- the call ---- */

static wide_rows wide_rows_of(const hga_plan *plan, hga_id field)
{
    return (wide_rows){.heads = field_heads(plan, field), .columns = field_columns(plan, field)};
}

/* Rows and edges, and all heads, without a call. */
static scattered scattered_of(const hga_plan *plan)
{
    const hga_stage *s = &plan->program.stage[0];
    scattered x = {.plan = plan,
                   .r = &plan->stage[0].relation,
                   .stage = s,
                   .heads.n = plan->shape.n_heads,
                   .heads.share = plan->shape.n_heads / plan->shape.n_kv_heads};
    x.operands.q = wide_rows_of(plan, s->query), x.operands.k = wide_rows_of(plan, s->key);
    x.operands.v = wide_rows_of(plan, s->value), x.operands.o = x.operands.g = wide_rows_of(plan, s->out);
    x.rows.n = field_io(plan, s->query, &x.rows.first), x.keys.n = field_io(plan, s->key, &x.keys.first);
    return x;
}

/* Rows, edges, and the heads that this process computes. */
static scattered scattered_here(const hga_plan *plan, const call_needs *needs)
{
    scattered x = scattered_of(plan);
    wide_rows *rows[] = {&x.operands.q, &x.operands.k, &x.operands.v, &x.operands.o, &x.operands.g};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) rows[i]->heads = heads_here(plan, needs, rows[i]->heads);
    x.heads.first = first_here(plan, needs, x.heads.n), x.heads.n = heads_here(plan, needs, x.heads.n);
    return x;
}

/* The gradient's rows from the first of these heads on. */
static kernel_gradient from_here(const gradient_call *c, hga_id field, const hga_tensor *t)
{
    hga_id all = field_heads(c->plan, field), columns = field_columns(c->plan, field);
    return (kernel_gradient){
        .at = t->data ? tensor_at(t, all, columns, 0, first_here(c->plan, &c->needs, all)) : NULL,
        .row = t->row_stride ? t->row_stride : (ptrdiff_t)all * columns,
        .head = t->head_stride ? t->head_stride : columns,
    };
}

static void bind_wide(const gradient_call *c, hga_id field, wide_rows *x, const hga_tensor *t, const hga_tensor *d)
{
    kernel_gradient read = from_here(c, field, t);
    x->read = (kernel_wide){read.at, read.row, read.head};
    if (d) x->from = from_here(c, field, d);
}

static kernel_wide features_at(const gradient_call *c, const hga_tensor *t)
{
    hga_id heads = c->plan->shape.n_heads, columns = c->io->edge_value.columns;
    ptrdiff_t head = t->head_stride ? t->head_stride : columns;
    return (kernel_wide){t->data, t->row_stride ? t->row_stride : (ptrdiff_t)heads * columns, head};
}

/* Points to the call's tensors and gradients as rows of all heads that are computed here. */
static void bind_scattered(scattered *x, const gradient_call *c)
{
    const hga_io *io = c->io;
    const hga_grad_io *grad = c->grad;
    const hga_stage *s = x->stage;
    x->call = c;
    bind_wide(c, s->query, &x->operands.q, &io->query, &grad->d_query),
        bind_wide(c, s->key, &x->operands.k, &io->key, &grad->d_key);
    bind_wide(c, s->value, &x->operands.v, &io->value, &grad->d_value);
    bind_wide(c, s->out, &x->operands.o, &io->out, NULL), bind_wide(c, s->out, &x->operands.g, &grad->d_out, NULL);
    x->operands.edge_out = features_at(c, &io->edge_out), x->operands.d_edge_out = features_at(c, &grad->d_edge_out);
    x->grads.sums = c->sums + c->needs.kv_first;
}

static hga_id count_blocks(const scattered *x) { return x->rows.n / BLOCK + 1; }

/* Does the second pass read what the first finds, although edges have no features? If both run, and it pays. */
static int keeps_slopes(const scattered *x, const call_needs *needs)
{
    const hga_stage *s = x->stage;
    int of_queries = needs->grads >> s->query & 1, of_keys = (needs->grads >> s->key | needs->grads >> s->value) & 1;
    return of_queries && of_keys && !needs->entries[HGA_TABLE_LOG_MASS] && slopes_pay(x);
}

/* Carves positions of transposed edges in lists of edges, and what is cached of each edge there. */
static void lay_out_indices(scattered *x, const call_needs *needs, carver *arena)
{
    edge_list in = scattered_sources(x);
    int64_t of_edges = in.ptr[x->rows.n] * x->heads.n;
    x->edges.index = carve(arena, count_edges(x), sizeof *x->edges.index);
    x->edges.cursor = carve(arena, x->keys.n, sizeof *x->edges.cursor);
    if (needs->entries[HGA_TABLE_LOG_MASS]) return;
    x->edges.weights = carve_floats(arena, of_edges), x->edges.contents = carve_floats(arena, of_edges);
}

/* Carves every array; returns the bytes in all. */
static int64_t lay_out_scattered(scattered *x, const void *made, const call_needs *needs, scattered_thread **out,
                                 void *memory)
{
    int64_t heads = x->heads.n, pairs = heads * KERNEL_CHUNK + KERNEL_PAD, vectors = heads * x->operands.q.columns,
            values = heads * x->operands.v.columns;
    int with_tables = needs->entries[HGA_TABLE_SCALE] || needs->entries[HGA_TABLE_LOG_MASS],
        keys = (needs->features & CALL_HAS_EDGE_KEYS) != 0;
    carver arena = {.base = memory};
    scattered_thread *thread = carve(&arena, needs->threads, sizeof *thread);
    if (needs->entries[HGA_TABLE_SCALE])
        x->grads.d_scale = carve(&arena, count_blocks(x) * (heads / x->heads.share), sizeof *x->grads.d_scale);
    if (needs->entries[HGA_TABLE_ADDITIVE]) x->grads.d_additive = carve_floats(&arena, count_blocks(x) * vectors);
    x->adjoint = carve_floats(&arena, 2 * heads * x->rows.n);
    if (x->stage->by_mass) x->log_mass = carve_floats(&arena, x->keys.n);
    if (scores_are_sums(x->plan)) x->additive = carve_floats(&arena, vectors);
    if (needs->features & CALL_HAS_OF_EDGES || keeps_slopes(x, needs)) lay_out_indices(x, needs, &arena);
    for (hga_id t = 0; t < needs->threads; t++) {
        scattered_thread l = {x->plan->options.dropout > 0 ? carve_floats(&arena, pairs) : NULL,
                              with_tables ? carve_floats(&arena, pairs) : NULL,
                              with_tables ? carve_floats(&arena, pairs) : NULL,
                              keys ? carve_floats(&arena, KERNEL_HEAD_EDGES * vectors + KERNEL_PAD) : NULL,
                              keys ? carve_floats(&arena, KERNEL_HEAD_EDGES * values + KERNEL_PAD) : NULL};
        if (thread) thread[t] = l;
    }
    x->edges.transposed = *(const transposed_edges *)made;
    if (out) *out = thread;
    return arena.used;
}

static int64_t scattered_bytes(const hga_plan *plan, const void *made, const call_needs *needs)
{
    scattered x = scattered_here(plan, needs);
    return lay_out_scattered(&x, made, needs, NULL, NULL);
}

/* Loads the call's tables, and zeros the sums of tables. */
static void load_tables(const scattered *x)
{
    const float *additive = x->call->io->additive.data;
    int64_t vectors = (int64_t)x->heads.n * x->operands.q.columns,
            first = (int64_t)x->heads.first * x->operands.q.columns;
    for (hga_id u = 0; x->log_mass && u < x->keys.n; u++) x->log_mass[u] = logf(x->plan->nodes.mass[x->keys.first + u]);
    for (int64_t i = 0; x->additive && i < vectors; i++) x->additive[i] = additive ? additive[first + i] : 1;
    if (x->grads.d_scale)
        memset(x->grads.d_scale, 0,
               (size_t)(count_blocks(x) * (x->heads.n / x->heads.share)) * sizeof *x->grads.d_scale);
    if (x->grads.d_additive)
        memset(x->grads.d_additive, 0, (size_t)(count_blocks(x) * vectors) * sizeof *x->grads.d_additive);
}

/* Adds the blocks' sums in their order. */
static void store_tables(const scattered *x)
{
    int64_t vectors = (int64_t)x->heads.n * x->operands.q.columns, head_groups = x->heads.n / x->heads.share;
    double *d_additive = x->grads.sums->of[HGA_TABLE_ADDITIVE]
                             ? x->grads.sums->of[HGA_TABLE_ADDITIVE] + (ptrdiff_t)x->heads.first * x->operands.q.columns
                             : NULL;
    for (int64_t i = 0; x->grads.d_scale && i < count_blocks(x) * head_groups; i++)
        *x->grads.sums[i % head_groups].of[HGA_TABLE_SCALE] += x->grads.d_scale[i];
    for (int64_t i = 0; x->grads.d_additive && i < count_blocks(x) * vectors; i++)
        d_additive[i % vectors] += (double)x->grads.d_additive[i];
}

static void clear_table(const scattered *x, hga_call_table which)
{
    float *to = x->call->grad->d_table[which];
    int64_t n = hga_call_entries(which, &x->plan->shape, x->plan->nodes.n, x->call->io);
    if (to && !x->call->grad->accumulate) memset(to, 0, (size_t)n * sizeof *to);
}

/* Zeros gradients of edges' keys and features that no edge writes: of features whose sums have no gradient, and of
   edges into rows that are not of the output. All others are written edge by edge. */
static void clear_edges(const scattered *x)
{
    int some = count_edges(x) < x->r->n_edges;
    if (some) clear_table(x, HGA_TABLE_EDGE_KEY);
    if (some || !writes_edge_values(x)) clear_table(x, HGA_TABLE_EDGE_VALUE);
}

/* A call: the pass of queries if they or tables require a gradient, then that of keys and values. */
static hga_status go_scattered(gradient_call *c, const void *made, hga_workspace *workspace, void *memory)
{
    scattered x = scattered_here(c->plan, &c->needs);
    scattered_thread *thread;
    (void)workspace;
    bind_scattered(&x, c);
    lay_out_scattered(&x, made, &c->needs, &thread, memory);
    load_tables(&x);
    find_all_adjoints(&x);
    clear_edges(&x);
    if (x.operands.q.from.at || x.grads.d_scale || x.grads.d_additive || x.edges.index)
        scattered_pass_queries(&x, thread);
    store_tables(&x);
    if (x.operands.k.from.at || x.operands.v.from.at || x.grads.sums->of[HGA_TABLE_LOG_MASS]) {
        if (x.edges.index) place_edges(&x);
        scattered_pass_keys(&x, thread);
    }
    return HGA_OK;
}

const solver scattered_solver = {.name = "row by row and source by source, all heads together",
                                 .reads_out = 1,
                                 .writes_edges = 1,
                                 .refuses = scattered_refuses,
                                 .estimate = estimate_scattered,
                                 .make = make_transposed,
                                 .drop = drop_transposed,
                                 .bytes = scattered_bytes,
                                 .go = go_scattered};
