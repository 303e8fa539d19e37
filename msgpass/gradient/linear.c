/* linear.c: programs of sums and means alone, which are linear: a row's gradient is scattered to its sources. An
   edge is a number, the same for all heads, which are therefore computed together, in the caller's rows where these
   have contiguous heads. Of a stage's two ends the one with more rows is walked once, in the relation's order, while
   rows of the other stay in the cache: those are summed into a row, or a row is added to them. Threads divide the
   columns, so that none waits for another and each adds in the same order. */
#include "carve.h"
#include "live.h"
#include "linear_edges.h"
#include "number_types.h"
#include "plan.h"
#include "thread_binding.h"

#include <omp.h>
#include <string.h>

typedef struct linear {
    const gradient_call *call;
    const hga_plan *plan;
    hga_id kv_first, heads;             /* key/value heads of this process */
    hga_id columns;                     /* of them */
    double *wide;                       /* [columns] */
    double *heavy[HGA_MAX_STAGES];      /* [heavy nodes][columns]: their sums so far */
    float *scaled[HGA_MAX_STAGES];      /* [edges]: weights times scales of types; where there are scales */
    char *scratch[HGA_MAX_STAGES];      /* where edges are listed by the call */
    linear_rows value[HGA_FIELD_SLOTS]; /* where gradients of scales are required */
    linear_rows adjoint[HGA_FIELD_SLOTS];
    const linear_edges *edges; /* [stages] */
    linear_edges own[HGA_MAX_STAGES];
} linear;

/* What a plan holds where the lists are few beside the tensors. */
typedef struct made_linear {
    linear_edges edges[HGA_MAX_STAGES];
    char *block;
    int64_t bytes;
} made_linear;

static float *row_at(const linear_rows *x, hga_id v) { return x->at + (v - x->first) * x->row; }

/* ---- which plans ---- */

/* Takes plans whose fields are values in float, the caller's or the program's own, and whose edges are few enough to
   list. */
static const char *linear_refuses(const hga_plan *plan, unsigned features, reason *buffer)
{
    const hga_program *p = &plan->program;
    const char *why;
    (void)features;
    if ((why = is_generic(plan, buffer))) return why;
    if ((why = linear_stages_refuse(plan, buffer))) return why;
    for (hga_id f = 1; f <= p->n_fields; f++) {
        hga_width w = p->field[f].width;
        hga_binding b = p->field[f].binding;
        if (!field_is_used(p, f)) continue;
        if (w != HGA_WIDTH_VALUE && w != HGA_WIDTH_OUT)
            return reason_of(buffer, "field '%s' is not of values", p->field[f].name);
        if (storage_is_rounded(plan, f)) return "operands are rounded to bfloat16";
        if (b != HGA_INTERNAL && b != HGA_IO_VALUE && b != HGA_IO_OUT)
            return reason_of(buffer, "field '%s' is a tensor of the user's", p->field[f].name);
    }
    return linear_edges_refuse(plan, buffer);
}

static int64_t lay_out_edges(const hga_plan *plan, linear_edges *edges, void *memory)
{
    carver arena = {.base = memory};
    for (hga_id s = 0; s < plan->program.n_stages; s++) linear_edges_lay_out(plan, s, &edges[s], &arena);
    return arena.used;
}

static int64_t most_scratch(const hga_plan *plan)
{
    int64_t most = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        int64_t bytes = linear_scratch_bytes(plan, s);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void drop_linear(const hga_plan *plan, void *what)
{
    made_linear *made = what;
    hga_delete(&plan->memory.allocator, made->block, made->bytes, 1);
    hga_delete(&plan->memory.allocator, made, 1, sizeof *made);
}

/* The plan holds the edges if they are few beside the tensors; else each call lists them in its own memory. */
static hga_status make_linear(const hga_plan *plan, void **out, const char **why, reason *buffer)
{
    hga_status st = HGA_OK;
    made_linear *made = NULL;
    char *scratch = NULL;
    int64_t bytes = most_scratch(plan);
    (void)why, (void)buffer;
    HGA_TRY(hga_new_zero(&plan->memory.allocator, 1, sizeof *made, &made));
    made->bytes = lay_out_edges(plan, made->edges, NULL);
    if (made->bytes > most_list_bytes(plan)) goto done;
    HGA_TRY(hga_new(&plan->memory.allocator, bytes, 1, &scratch));
    HGA_TRY(hga_new(&plan->memory.allocator, made->bytes, 1, &made->block));
    lay_out_edges(plan, made->edges, made->block);
    for (hga_id s = 0; s < plan->program.n_stages; s++) linear_edges_list(plan, s, &made->edges[s], scratch);
    *out = made, made = NULL;
done:
    hga_delete(&plan->memory.allocator, scratch, bytes, 1);
    if (made) drop_linear(plan, made);
    return st;
}

/* ---- rows ---- */

/* Are the rows of a field's adjoint, or of its values, the caller's own? */
static int adjoint_is_input(const linear *x, const call_needs *needs, hga_id f)
{
    hga_binding b = x->plan->program.field[f].binding;
    int packed = (int)(needs->d_packed >> f & 1u);
    if (b == HGA_IO_OUT) return x->plan->shape.n_heads == x->plan->shape.n_kv_heads && packed;
    return b != HGA_INTERNAL && (packed || !(needs->grads >> f & 1u));
}

static int value_is_input(const linear *x, const call_needs *needs, hga_id f)
{
    return x->plan->program.field[f].binding == HGA_IO_VALUE && needs->packed >> f & 1u;
}

/* The caller's rows, whose heads are the key/value heads or as many. */
static linear_rows input_rows(const linear *x, hga_id f, const hga_tensor *t)
{
    const hga_shape *s = &x->plan->shape;
    linear_rows rows = {.at = t->data ? tensor_at(t, s->n_kv_heads, s->dim_v, 0, x->kv_first) : NULL,
                        .row = t->row_stride ? t->row_stride : (ptrdiff_t)s->n_kv_heads * s->dim_v};
    rows.n = field_io(x->plan, f, &rows.first);
    return rows;
}

static linear_rows own_rows(const linear *x, hga_id f, carver *arena)
{
    const hga_field *field = &x->plan->program.field[f];
    linear_rows rows = {.row = padded(x->columns)};
    rows.n = range_of_rows(x->plan, field->binding == HGA_INTERNAL ? field->rows : field->io, &rows.first);
    rows.at = carve_floats(arena, rows.n * rows.row);
    return rows;
}

/* Carves every array but the caller's rows; returns the bytes in all. */
static int64_t lay_out_linear(linear *x, const void *made, const call_needs *needs, void *memory)
{
    const hga_program *p = &x->plan->program;
    carver arena = {.base = memory};
    x->wide = carve(&arena, x->columns, sizeof *x->wide);
    for (hga_id f = 1; f <= p->n_fields; f++) {
        if (!field_is_used(p, f)) continue;
        if (!adjoint_is_input(x, needs, f)) x->adjoint[f] = own_rows(x, f, &arena);
        if (!needs->entries[HGA_TABLE_TYPE_SCALE] || p->field[f].binding == HGA_IO_OUT) continue;
        if (!value_is_input(x, needs, f)) x->value[f] = own_rows(x, f, &arena);
    }
    for (hga_id s = 0; s < p->n_stages; s++) {
        int64_t heavy = (int64_t)linear_most_heavy(x->plan, s) * x->columns, scratch = linear_scratch_bytes(x->plan, s);
        x->heavy[s] = carve(&arena, heavy, sizeof *x->heavy[s]);
        if (p->stage[s].message == HGA_SCALED)
            x->scaled[s] = carve(&arena, x->plan->stage[s].relation.n_edges, sizeof *x->scaled[s]);
        if (!made) linear_edges_lay_out(x->plan, s, &x->own[s], &arena);
        if (!made) x->scratch[s] = carve(&arena, scratch, 1);
    }
    return arena.used;
}

/* Points adjoints and values to the caller's rows. */
static void bind_linear(linear *x, const gradient_call *c)
{
    const hga_program *p = &c->plan->program;
    x->call = c;
    for (hga_id f = 1; f <= p->n_fields; f++) {
        if (!field_is_used(p, f)) continue;
        if (adjoint_is_input(x, &c->needs, f)) x->adjoint[f] = input_rows(x, f, field_gradient(c, f));
        if (c->needs.entries[HGA_TABLE_TYPE_SCALE] && value_is_input(x, &c->needs, f))
            x->value[f] = input_rows(x, f, field_tensor(c, f));
    }
}

/* Adds up heads h, h + 1 .. of the caller's row i, `group` of them. */
static void fold_heads(const linear *x, const hga_tensor *t, hga_id heads, hga_id i, hga_id h, hga_id group, float *sum)
{
    enum { SOME = 64 };
    hga_id columns = x->plan->shape.dim_v;
    for (hga_id c = 0; c < columns; c += SOME) {
        float part[SOME];
        hga_id n = columns - c < SOME ? columns - c : SOME;
        for (hga_id k = 0; k < group; k++) {
            const char *from = tensor_at(t, heads, columns, i, h + k);
            numbers_read(x->plan->machine.kernels, t->dtype, from + (size_t)c * dtype_bytes(t->dtype), n,
                         k ? part : sum + c);
            if (k) x->plan->machine.kernels->blend(n, 1, sum + c, 1, part, sum + c);
        }
    }
}

/* Are they the caller's own rows? */
static int is_its_own(const linear *x, const linear_rows *rows, const hga_tensor *t)
{
    const hga_shape *s = &x->plan->shape;
    return t->data && (void *)rows->at == tensor_at(t, s->n_kv_heads, s->dim_v, 0, x->kv_first);
}

/* Sums the caller's rows over groups of heads into `to`, unless `to` is the caller's rows. */
static void load_folded(const linear *x, const hga_tensor *input, hga_id heads, const linear_rows *to)
{
    const hga_shape *s = &x->plan->shape;
    hga_id group = heads / s->n_kv_heads, threads = x->call->threads;
    if (!to->at || is_its_own(x, to, input)) return;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        binding old;
        binding_take(x->plan, &old);
#pragma omp for nowait
        for (hga_id i = 0; i < to->n; i++)
            for (hga_id kv = 0; kv < x->heads; kv++)
                fold_heads(x, input, heads, i, (x->kv_first + kv) * group, group,
                           to->at + i * to->row + (ptrdiff_t)kv * s->dim_v);
        topology_unbind(&old);
    }
}

/* Stores a gradient's rows in the caller's tensor, unless they are its own rows. */
static void store_folded(const linear *x, const linear_rows *from, const hga_tensor *t)
{
    const hga_shape *s = &x->plan->shape;
    hga_id threads = x->call->threads;
    if (!from->at || is_its_own(x, from, t)) return;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        binding old;
        binding_take(x->plan, &old);
#pragma omp for nowait
        for (hga_id i = 0; i < from->n; i++)
            for (hga_id kv = 0; kv < x->heads; kv++)
                numbers_write(x->plan->machine.kernels, t->dtype, from->at + i * from->row + (ptrdiff_t)kv * s->dim_v,
                              s->dim_v, tensor_at(t, s->n_kv_heads, s->dim_v, i, x->kv_first + kv));
        topology_unbind(&old);
    }
}

/* Loads the caller's values and the output's gradient, and the values' gradient if the call accumulates. */
static void load_all(const linear *x)
{
    const hga_grad_io *g = x->call->grad;
    const hga_shape *s = &x->plan->shape;
    for (hga_id f = 1; f <= x->plan->program.n_fields; f++) {
        hga_binding b = x->plan->program.field[f].binding;
        if (b == HGA_IO_VALUE) load_folded(x, &x->call->io->value, s->n_kv_heads, &x->value[f]);
        if (b == HGA_IO_VALUE && g->accumulate) load_folded(x, &g->d_value, s->n_kv_heads, &x->adjoint[f]);
        if (b == HGA_IO_OUT) load_folded(x, &g->d_out, s->n_heads, &x->adjoint[f]);
    }
}

static void store_all(const linear *x)
{
    for (hga_id f = 1; f <= x->plan->program.n_fields; f++)
        if (x->plan->program.field[f].binding == HGA_IO_VALUE) store_folded(x, &x->adjoint[f], &x->call->grad->d_value);
}

/* ---- edges ---- */

/* Multiplies weights by the scales of their types. */
static void scale_edges(const linear *x, hga_id stage)
{
    const linear_edges *e = &x->edges[stage];
    const float *scale = x->call->io->type_scale.data;
    for (hga_pos i = 0; e->type && i < e->ptr[e->n]; i++) x->scaled[stage][i] = e->weight[i] * scale[e->type[i]];
}

/* Lists and scales edges, each stage's by one thread. */
static void list_all(linear *x, int anew)
{
    hga_id n = x->plan->program.n_stages, threads = x->call->threads < n ? x->call->threads : n;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        binding old;
        binding_take(x->plan, &old);
#pragma omp for schedule(dynamic, 1) nowait
        for (hga_id s = 0; s < n; s++) {
            if (anew) linear_edges_list(x->plan, s, &x->own[s], x->scratch[s]);
            scale_edges(x, s);
        }
        topology_unbind(&old);
    }
}

static const float *weights_of(const linear *x, hga_id stage)
{
    return x->edges[stage].type ? x->scaled[stage] : x->edges[stage].weight;
}

/* ---- all stages, on some columns ---- */

/* Columns that kernels sum up together, at any thread count; half as many where threads would have none otherwise. */
enum { STRETCH = 128 };
static hga_id stretch_of(const linear *x) { return x->columns < 2 * STRETCH ? STRETCH / 2 : STRETCH; }

/* Columns first .. end - 1, in whole stretches but for the last. */
typedef struct column_range {
    hga_id first, end, stretch;
} column_range;

static hga_id stretch_at(const column_range *c, hga_id at)
{
    return c->end - at < c->stretch ? c->end - at : c->stretch;
}

/* sum = the weighted sum of n edges' rows; or += it, unless `anew`. */
static void collect_row(const linear *x, hga_id stage, hga_pos at, hga_id n, const linear_rows *from, int anew,
                        const column_range *c, float *sum)
{
    const kernel_table *k = x->plan->machine.kernels;
    const linear_edges *e = &x->edges[stage];
    const float *row[KERNEL_CHUNK], *weight = weights_of(x, stage) + at;
    for (hga_id i = 0; i < n; i++) row[i] = row_at(from, e->other[at + i]);
    for (hga_id j = c->first; j < c->end; j += c->stretch)
        if (anew)
            k->weigh(n, row, j, weight, 1, stretch_at(c, j), sum + j);
        else
            k->sum(n, row, j, weight, stretch_at(c, j), sum + j);
}

/* Adds a row's sum so far to `wide`, or sets it the first time; the last time returns the whole sum in the row. */
static void pour(float *sum, double *wide, int first, int last, const column_range *c)
{
    for (hga_id j = c->first; j < c->end; j++) {
        wide[j] = (first ? 0 : wide[j]) + (double)sum[j];
        sum[j] = last ? (float)wide[j] : 0;
    }
}

/* Each row of the order becomes the weighted sum of its edges' rows, or adds it; long sums are accumulated in
   doubles. */
static void sum_sources(const linear *x, hga_id stage, const linear_rows *from, const linear_rows *to, int anew,
                        const column_range *c)
{
    const linear_edges *e = &x->edges[stage];
    for (hga_id i = 0; i < e->n; i++) {
        float *sum = row_at(to, e->order[i]);
        hga_pos begin = e->ptr[i], end = e->ptr[i + 1];
        if (anew && begin == end) memset(sum + c->first, 0, (size_t)(c->end - c->first) * sizeof *sum);
        for (hga_pos at = begin; at < end; at += KERNEL_CHUNK) {
            hga_id n = end - at < KERNEL_CHUNK ? (hga_id)(end - at) : KERNEL_CHUNK;
            collect_row(x, stage, at, n, from, anew && at == begin, c, sum);
            hga_pos done = at + n - begin;
            if (done % SUM_CUT == 0 || (done > SUM_CUT && at + n == end))
                pour(sum, x->wide, done == SUM_CUT, at + n == end, c);
        }
    }
}

/* Adds each row of the order, weighted, to its edges' rows of `to`, which are zeroed first if `anew`. */
static void spread(const linear *x, hga_id stage, const linear_rows *from, const linear_rows *to, int anew,
                   const column_range *c)
{
    const linear_edges *e = &x->edges[stage];
    const float *weight = weights_of(x, stage);
    for (hga_id i = 0; anew && i < to->n; i++)
        memset(to->at + i * to->row + c->first, 0, (size_t)(c->end - c->first) * sizeof(float));
    for (hga_id i = 0; i < e->n; i++) {
        const float *row = row_at(from, e->order[i]);
        for (hga_pos at = e->ptr[i]; at < e->ptr[i + 1]; at++)
            for (hga_id j = c->first; j < c->end; j += c->stretch)
                x->plan->machine.kernels->sum(1, &row, j, weight + at, stretch_at(c, j), row_at(to, e->other[at]) + j);
        int last = i == e->n - 1;
        if ((i + 1) % SUM_CUT && !last) continue;
        for (hga_id k = 0; k < e->n_heavy; k++)
            pour(row_at(to, e->heavy[k]), x->heavy[stage] + (ptrdiff_t)k * x->columns, i < SUM_CUT, last, c);
    }
}

/* Is this the first stage that adds to its source's adjoint? False if a later stage reads the field, or the call
   accumulates. */
static int asks_first(const linear *x, hga_id stage)
{
    const hga_program *p = &x->plan->program;
    hga_id f = p->stage[stage].value;
    for (hga_id s = stage + 1; s < p->n_stages; s++)
        if (p->stage[s].value == f) return 0;
    return !program_is_input(p->field[f].binding) || !x->call->grad->accumulate;
}

/* Computes values of the program's own fields, and then all adjoints, on some columns. */
static void run_linear_columns(const linear *x, const column_range *c)
{
    const hga_program *p = &x->plan->program;
    for (hga_id s = 0; s < p->n_stages; s++) {
        const linear_rows *from = &x->value[p->stage[s].value], *to = &x->value[p->stage[s].out];
        if (to->at) (x->edges[s].by_source ? spread : sum_sources)(x, s, from, to, 1, c);
    }
    for (hga_id s = p->n_stages; s-- > 0;) {
        const linear_rows *from = &x->adjoint[p->stage[s].out], *to = &x->adjoint[p->stage[s].value];
        if (to->at) (x->edges[s].by_source ? sum_sources : spread)(x, s, from, to, asks_first(x, s), c);
    }
}

/* Divides stretches of columns among threads. */
static void run_stretches(const linear *x)
{
    hga_id stretch = stretch_of(x), n = (x->columns - 1) / stretch + 1,
           threads = x->call->threads < n ? x->call->threads : n;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        binding old;
        binding_take(x->plan, &old);
#pragma omp for schedule(static, 1) nowait
        for (hga_id t = 0; t < threads; t++) {
            hga_id first = n * t / threads * stretch, end = n * (t + 1) / threads * stretch;
            run_linear_columns(x, &(column_range){first, end < x->columns ? end : x->columns, stretch});
        }
        topology_unbind(&old);
    }
}

/* ---- scales of types ---- */

/* Adds the gradients of scales of types in one key/value head: for each edge its weight times gradient . value. */
static void give_scales(const linear *x, hga_id stage, hga_id kv)
{
    const hga_stage *s = &x->plan->program.stage[stage];
    const linear_edges *e = &x->edges[stage];
    const linear_rows *adjoint = &x->adjoint[s->out], *value = &x->value[s->value];
    hga_id columns = x->plan->shape.dim_v;
    double *scale = x->call->sums[x->kv_first + kv].of[HGA_TABLE_TYPE_SCALE];
    for (hga_id i = 0; e->type && i < e->n; i++)
        for (hga_pos at = e->ptr[i]; at < e->ptr[i + 1]; at++) {
            hga_id v = e->by_source ? e->other[at] : e->order[i], u = e->by_source ? e->order[i] : e->other[at];
            scale[e->type[at]] += (double)e->weight[at] *
                                  (double)x->plan->machine.kernels->dot(columns, row_at(adjoint, v) + kv * columns,
                                                                        row_at(value, u) + kv * columns);
        }
}

/* One thread computes a head's sums; they are added in the order of the heads. */
static void give_all_scales(const linear *x)
{
    hga_id heads = x->heads, threads = x->call->threads < heads ? x->call->threads : heads;
    if (!x->call->grad->d_type_scale) return;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        binding old;
        binding_take(x->plan, &old);
#pragma omp for schedule(static, 1) nowait
        for (hga_id kv = 0; kv < heads; kv++)
            for (hga_id s = 0; s < x->plan->program.n_stages; s++) give_scales(x, s, kv);
        topology_unbind(&old);
    }
}

/* ---- the call ---- */

static linear linear_of(const hga_plan *plan, const call_needs *needs)
{
    hga_id heads = needs->kv_end - needs->kv_first;
    return (linear){.plan = plan, .kv_first = needs->kv_first, .heads = heads, .columns = heads * plan->shape.dim_v};
}

static int64_t linear_bytes(const hga_plan *plan, const void *made, const call_needs *needs)
{
    linear x = linear_of(plan, needs);
    return lay_out_linear(&x, made, needs, NULL);
}

/* A call: lists edges unless the plan holds them, loads rows, runs all columns, stores gradients. */
static hga_status go_linear(gradient_call *c, const void *what, hga_workspace *workspace, void *memory)
{
    const made_linear *made = what;
    linear x = linear_of(c->plan, &c->needs);
    (void)workspace;
    lay_out_linear(&x, made, &c->needs, memory);
    bind_linear(&x, c);
    x.edges = made ? made->edges : x.own;
    list_all(&x, !made);
    load_all(&x);
    run_stretches(&x);
    give_all_scales(&x);
    store_all(&x);
    return HGA_OK;
}

const solver linear_solver = {.name = "sums from end to end, all heads together",
                              .refuses = linear_refuses,
                              .make = make_linear,
                              .drop = drop_linear,
                              .bytes = linear_bytes,
                              .go = go_linear};
