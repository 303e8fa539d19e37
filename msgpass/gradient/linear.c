/* linear.c: programs of sums and means alone, which are linear: what is asked of a row is shared out to the rows that
   it sums up. An edge is a number, the same for all heads, which therefore go together, in the caller's rows where
   these have them side by side. Of a stage's two ends the one with more rows is gone through once, in the relation's
   order, while rows of the other stay in the cache: those are collected into a row, or a row is spread over them.
   Threads share the columns, so that none waits for another and each adds in the same order. */
#include "linear.h"
#include "linear_edges.h"

#include <omp.h>
#include <string.h>

typedef struct linear {
    const gradient_call *call;
    const hga_plan *plan;
    hga_id columns;                     /* of all key/value heads */
    double *wide;                       /* [columns] */
    uint32_t reach;                     /* fields from which something comes to the output; other stages do not count */
    linear_rows value[HGA_FIELD_SLOTS]; /* where gradients of scales are wanted */
    linear_rows asked[HGA_FIELD_SLOTS];
    linear_edges edges[HGA_MAX_STAGES];
} linear;

/* Does the stage lead to the output? */
static int counts(const linear *x, hga_id stage) { return (int)(x->reach >> x->plan->program.stage[stage].out & 1u); }
static float *row_at(const linear_rows *x, hga_id v) { return x->at + (v - x->first) * x->row; }

/* ---- who goes this way ---- */

/* Fields from which something comes to the output. */
static uint32_t find_reach(const hga_program *p)
{
    uint32_t reach = 1u << program_bound(p, HGA_IO_OUT);
    for (const hga_stage *s = p->stage + p->n_stages; s-- > p->stage;)
        if (reach >> s->out & 1u) reach |= 1u << s->value;
    return reach;
}

/* Sums of what is there into what is not yet, and of each input. */
static int stages_are_sums(const hga_plan *plan)
{
    const hga_program *p = &plan->program;
    uint32_t there = 0;
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (program_is_input(p->field[f].binding)) there |= 1u << f;
    if (there & ~find_reach(p)) return 0;
    for (const hga_stage *s = p->stage; s < p->stage + p->n_stages; s++) {
        int is_sum = kind_sums(plan->stage[s - p->stage].kind) && s->relation >= 0 && s->order == HGA_FLAT;
        if (!is_sum || !(there >> s->value & 1u) || there >> s->out & 1u) return 0;
        if (p->field[s->value].binding == HGA_IO_OUT) return 0; /* is asked for more than the caller's */
        there |= 1u << s->out;
    }
    return 1;
}

/* Edges of blocks are listed, which must take little beside a row for each node: few of them, or many columns. */
static int edges_are_few(const hga_plan *plan)
{
    int64_t room = (int64_t)plan->nodes.n * plan->shape.n_kv_heads * plan->shape.dim_v * (int64_t)sizeof(float);
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        const hga_relation *r = &plan->stage[s].relation;
        hga_pos of_blocks = r->n_edges - (r->ptr ? r->ptr[plan->nodes.n] : 0);
        if (of_blocks > room / (hga_pos)(sizeof(hga_id) + sizeof(float))) return 0;
    }
    return 1;
}

static int is_known(const hga_plan *plan)
{
    const hga_program *p = &plan->program;
    for (hga_id f = 1; f <= p->n_fields; f++) {
        hga_width w = p->field[f].width;
        hga_binding b = p->field[f].binding;
        if ((w != HGA_WIDTH_VALUE && w != HGA_WIDTH_OUT) || storage_is_rounded(plan, f)) return 0;
        if (b != HGA_INTERNAL && b != HGA_IO_VALUE && b != HGA_IO_OUT) return 0;
    }
    return stages_are_sums(plan) && edges_are_few(plan);
}

/* ---- rows ---- */

/* Are a tensor's rows, of key/value heads, as they are needed? */
static int is_ready(const linear *x, const hga_tensor *t)
{
    return t->dtype == HGA_F32 && (t->head_stride == 0 || t->head_stride == x->plan->shape.dim_v);
}

static int out_is_ready(const linear *x)
{
    return x->plan->shape.n_heads == x->plan->shape.n_kv_heads && is_ready(x, &x->call->grad->d_out);
}

static linear_rows given_rows(const linear *x, hga_id f, const hga_tensor *t)
{
    linear_rows rows = {.at = t->data, .row = t->row_stride ? t->row_stride : x->columns};
    rows.n = field_io(x->plan, f, &rows.first);
    return rows;
}

static linear_rows own_rows(const linear *x, hga_id f, carver *room)
{
    const hga_field *field = &x->plan->program.field[f];
    linear_rows rows = {.row = padded(x->columns)};
    rows.n = range_of_rows(x->plan, field->binding == HGA_INTERNAL ? field->rows : field->io, &rows.first);
    rows.at = carve_floats(room, rows.n * rows.row);
    return rows;
}

/* Every array; floats in all. */
static int64_t lay_out(linear *x, float *memory)
{
    const hga_program *p = &x->plan->program;
    const hga_grad_io *g = x->call->grad;
    carver room = {.base = memory};
    for (hga_id f = 1; f <= p->n_fields; f++) {
        hga_binding b = p->field[f].binding;
        const hga_tensor *given = b == HGA_INTERNAL ? NULL : field_gradient(x->call, f);
        int ready = given && (b == HGA_IO_OUT ? out_is_ready(x) : !given->data || is_ready(x, given));
        x->asked[f] = ready ? given_rows(x, f, given) : own_rows(x, f, &room);
        if (!g->d_type_scale || b == HGA_IO_OUT) continue;
        ready = b == HGA_IO_VALUE && is_ready(x, &x->call->io->value);
        x->value[f] = ready ? given_rows(x, f, &x->call->io->value) : own_rows(x, f, &room);
    }
    return carved_floats(&room);
}

/* Heads h, h + 1 .. of the caller's row i, `group` of them, are added up. */
static void fold_heads(const linear *x, const hga_tensor *t, hga_id heads, hga_id i, hga_id h, hga_id group, float *sum)
{
    enum { SOME = 64 };
    hga_id columns = x->plan->shape.dim_v;
    for (hga_id c = 0; c < columns; c += SOME) {
        float part[SOME];
        hga_id n = columns - c < SOME ? columns - c : SOME;
        for (hga_id k = 0; k < group; k++) {
            const char *from = tensor_at(t, heads, columns, i, h + k);
            numbers_read(t->dtype, from + (size_t)c * dtype_bytes(t->dtype), n, k ? part : sum + c);
            if (k) x->plan->kernels->blend(n, 1, sum + c, 1, part, sum + c);
        }
    }
}

/* The caller's rows, folded, where they are not `given` as they are. */
static void load(const linear *x, const hga_tensor *given, hga_id heads, const linear_rows *to)
{
    const hga_shape *s = &x->plan->shape;
    hga_id group = heads / s->n_kv_heads, threads = x->call->threads;
    if (!to->at || to->at == given->data) return;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (hga_id i = 0; i < to->n; i++)
        for (hga_id kv = 0; kv < s->n_kv_heads; kv++)
            fold_heads(x, given, heads, i, kv * group, group, to->at + i * to->row + (ptrdiff_t)kv * s->dim_v);
}

static void store(const linear *x, const linear_rows *from, const hga_tensor *t)
{
    const hga_shape *s = &x->plan->shape;
    hga_id threads = x->call->threads;
    if (!from->at || from->at == t->data) return;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (hga_id i = 0; i < from->n; i++)
        for (hga_id kv = 0; kv < s->n_kv_heads; kv++)
            numbers_write(t->dtype, from->at + i * from->row + (ptrdiff_t)kv * s->dim_v, s->dim_v,
                          tensor_at(t, s->n_kv_heads, s->dim_v, i, kv));
}

static void load_all(const linear *x)
{
    const hga_grad_io *g = x->call->grad;
    const hga_shape *s = &x->plan->shape;
    for (hga_id f = 1; f <= x->plan->program.n_fields; f++) {
        hga_binding b = x->plan->program.field[f].binding;
        if (b == HGA_IO_VALUE) load(x, &x->call->io->value, s->n_kv_heads, &x->value[f]);
        if (b == HGA_IO_VALUE && g->accumulate) load(x, &g->d_value, s->n_kv_heads, &x->asked[f]);
        if (b == HGA_IO_OUT) load(x, &g->d_out, s->n_heads, &x->asked[f]);
    }
}

static void store_all(const linear *x)
{
    for (hga_id f = 1; f <= x->plan->program.n_fields; f++)
        if (x->plan->program.field[f].binding == HGA_IO_VALUE) store(x, &x->asked[f], &x->call->grad->d_value);
}

/* ---- edges ---- */

static hga_status list_edges(linear *x, hga_id stage)
{
    const hga_stage *s = &x->plan->program.stage[stage];
    return counts(x, stage)
               ? linear_edges_list(x->call, stage, &x->asked[s->out], &x->asked[s->value], &x->edges[stage])
               : HGA_OK;
}

/* Each stage's by one thread. */
static hga_status list_all(linear *x)
{
    hga_id n = x->plan->program.n_stages, threads = x->call->threads < n ? x->call->threads : n;
    hga_status st = HGA_OK, each[HGA_MAX_STAGES];
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (hga_id s = 0; s < n; s++) each[s] = list_edges(x, s);
    for (hga_id s = 0; s < n && !st; s++) /* said by another thread */
        if (each[s]) st = hga_fail(each[s], "the gradient's edges found no memory");
    return st;
}

/* ---- from end to end, on some columns ---- */

/* Columns that kernels sum up together, whatever the threads; half as many where threads would have none else. */
enum { STRETCH = 128 };
static hga_id stretch_of(const linear *x) { return x->columns < 2 * STRETCH ? STRETCH / 2 : STRETCH; }

/* Columns first .. end - 1, whole stretches of them but for the last. */
typedef struct column_range {
    hga_id first, end, stretch;
} column_range;

static hga_id stretch_at(const column_range *c, hga_id at)
{
    return c->end - at < c->stretch ? c->end - at : c->stretch;
}

/* `sum` = the weighted sum of n edges' rows; or more of it. */
static void collect_row(const linear *x, const linear_edges *e, hga_pos at, hga_id n, const linear_rows *from, int anew,
                        const column_range *c, float *sum)
{
    const kernel_table *k = x->plan->kernels;
    const float *row[KERNEL_CHUNK];
    for (hga_id i = 0; i < n; i++) row[i] = row_at(from, e->other[at + i]);
    for (hga_id j = c->first; j < c->end; j += c->stretch)
        if (anew)
            k->weigh(n, row, j, e->weight + at, 1, stretch_at(c, j), sum + j);
        else
            k->sum(n, row, j, e->weight + at, stretch_at(c, j), sum + j);
}

/* A row's sum so far goes to `wide`, its first time or another; or comes back whole. */
static void pour(float *sum, double *wide, int first, int last, const column_range *c)
{
    for (hga_id j = c->first; j < c->end; j++) {
        wide[j] = (first ? 0 : wide[j]) + (double)sum[j];
        sum[j] = last ? (float)wide[j] : 0;
    }
}

static void collect(const linear *x, const linear_edges *e, const linear_rows *from, const linear_rows *to, int anew,
                    const column_range *c)
{
    for (hga_id i = 0; i < e->n; i++) {
        float *sum = row_at(to, e->order[i]);
        hga_pos begin = e->ptr[i], end = e->ptr[i + 1];
        if (anew && begin == end) memset(sum + c->first, 0, (size_t)(c->end - c->first) * sizeof *sum);
        for (hga_pos at = begin; at < end; at += KERNEL_CHUNK) {
            hga_id n = end - at < KERNEL_CHUNK ? (hga_id)(end - at) : KERNEL_CHUNK;
            collect_row(x, e, at, n, from, anew && at == begin, c, sum);
            hga_pos done = at + n - begin;
            if (done % SUM_CUT == 0 || (done > SUM_CUT && at + n == end))
                pour(sum, x->wide, done == SUM_CUT, at + n == end, c);
        }
    }
}

/* Each row of the order, weighted, is added to its edges' rows of `to`, which begin at zero or as they are. */
static void spread(const linear *x, const linear_edges *e, const linear_rows *from, const linear_rows *to, int anew,
                   const column_range *c)
{
    for (hga_id i = 0; anew && i < to->n; i++)
        memset(to->at + i * to->row + c->first, 0, (size_t)(c->end - c->first) * sizeof(float));
    for (hga_id i = 0; i < e->n; i++) {
        const float *row = row_at(from, e->order[i]);
        for (hga_pos at = e->ptr[i]; at < e->ptr[i + 1]; at++)
            for (hga_id j = c->first; j < c->end; j += c->stretch)
                x->plan->kernels->sum(1, &row, j, e->weight + at, stretch_at(c, j), row_at(to, e->other[at]) + j);
        int last = i == e->n - 1;
        if ((i + 1) % SUM_CUT && !last) continue;
        for (hga_id k = 0; k < e->n_heavy; k++)
            pour(row_at(to, e->heavy[k]), e->wide + (ptrdiff_t)k * x->columns, i < SUM_CUT, last, c);
    }
}

/* Does no later stage ask of the field, nor the caller for more of it? */
static int asks_first(const linear *x, hga_id stage)
{
    const hga_program *p = &x->plan->program;
    hga_id f = p->stage[stage].value;
    for (hga_id s = stage + 1; s < p->n_stages; s++)
        if (p->stage[s].value == f && counts(x, s)) return 0;
    return !program_is_input(p->field[f].binding) || !x->call->grad->accumulate;
}

/* Values of the program's own fields, and then what is asked of all, on some columns. */
static void run_columns(const linear *x, const column_range *c)
{
    const hga_program *p = &x->plan->program;
    for (hga_id s = 0; s < p->n_stages; s++) {
        const linear_rows *from = &x->value[p->stage[s].value], *to = &x->value[p->stage[s].out];
        if (to->at && counts(x, s)) (x->edges[s].by_source ? spread : collect)(x, &x->edges[s], from, to, 1, c);
    }
    for (hga_id s = p->n_stages; s-- > 0;) {
        const linear_rows *from = &x->asked[p->stage[s].out], *to = &x->asked[p->stage[s].value];
        if (to->at && counts(x, s))
            (x->edges[s].by_source ? collect : spread)(x, &x->edges[s], from, to, asks_first(x, s), c);
    }
}

/* Threads have columns of their own. */
static void run_all(const linear *x)
{
    hga_id stretch = stretch_of(x), n = (x->columns - 1) / stretch + 1,
           threads = x->call->threads < n ? x->call->threads : n;
#pragma omp parallel for schedule(static, 1) num_threads(threads) if (threads > 1)
    for (hga_id t = 0; t < threads; t++) {
        hga_id first = n * t / threads * stretch, end = n * (t + 1) / threads * stretch;
        run_columns(x, &(column_range){first, end < x->columns ? end : x->columns, stretch});
    }
}

/* ---- scales of types ---- */

static void give_scales(const linear *x, hga_id stage, hga_id kv)
{
    const hga_stage *s = &x->plan->program.stage[stage];
    const linear_edges *e = &x->edges[stage];
    const linear_rows *asked = &x->asked[s->out], *value = &x->value[s->value];
    hga_id columns = x->plan->shape.dim_v;
    double *scale = x->call->sums[kv].of[TYPE_SCALE];
    for (hga_id i = 0; e->type && i < e->n; i++)
        for (hga_pos at = e->ptr[i]; at < e->ptr[i + 1]; at++) {
            hga_id v = e->by_source ? e->other[at] : e->order[i], u = e->by_source ? e->order[i] : e->other[at];
            scale[e->type[at]] +=
                (double)e->unscaled[at] * (double)x->plan->kernels->dot(columns, row_at(asked, v) + kv * columns,
                                                                        row_at(value, u) + kv * columns);
        }
}

/* A head's sums are one thread's, and added in the order of the heads. */
static void give_all_scales(const linear *x)
{
    hga_id heads = x->plan->shape.n_kv_heads, threads = x->call->threads < heads ? x->call->threads : heads;
    if (!x->call->grad->d_type_scale) return;
#pragma omp parallel for schedule(static, 1) num_threads(threads) if (threads > 1)
    for (hga_id kv = 0; kv < heads; kv++)
        for (hga_id s = 0; s < x->plan->program.n_stages; s++) give_scales(x, s, kv);
}

/* ---- the call ---- */

static linear linear_of(const gradient_call *c)
{
    return (linear){
        .call = c, .plan = c->plan, .columns = linear_columns(c->plan), .reach = find_reach(&c->plan->program)};
}

hga_status linear_gradient(gradient_call *c, hga_workspace *workspace, int *known)
{
    hga_status st = HGA_OK;
    linear x = linear_of(c);
    void *memory;
    *known = is_known(c->plan);
    if (!*known) return HGA_OK;
    HGA_TRY(workspace_spare(workspace, lay_out(&x, NULL) * (int64_t)sizeof(float), &memory));
    lay_out(&x, memory);
    HGA_TRY(hga_new(&c->plan->given, x.columns, sizeof *x.wide, &x.wide));
    HGA_TRY(list_all(&x));
    load_all(&x);
    run_all(&x);
    give_all_scales(&x);
    store_all(&x);
done:
    for (hga_id s = 0; s < c->plan->program.n_stages; s++) linear_edges_clear(c->plan, &x.edges[s]);
    hga_delete(&c->plan->given, x.wide, x.columns, sizeof *x.wide);
    return st;
}

int64_t linear_bytes(const hga_plan *plan)
{
    static const hga_io io;
    float wanted;
    hga_grad_io grad = {0};
    gradient_call c = {.plan = plan, .io = &io, .grad = &grad};
    if (!is_known(plan)) return -1;
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        if (plan->program.stage[s].message == HGA_SCALED) grad.d_type_scale = &wanted;
    linear x = linear_of(&c);
    int64_t bytes = lay_out(&x, NULL) * (int64_t)sizeof(float);
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        const linear_rows *out = &x.asked[plan->program.stage[s].out], *value = &x.asked[plan->program.stage[s].value];
        bytes += linear_edges_bytes(plan, s, out->n > value->n ? out->n : value->n);
    }
    return bytes;
}
