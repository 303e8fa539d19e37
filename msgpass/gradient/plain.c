/* plain.c: what a gradient is. A program runs forward in double, one group of heads at a time, and every stage keeps
   what it is about to overwrite; then the stages are walked backwards, each by the adjoint of its formula, row by row.
   Slow and obvious; the fast way beside it must agree. */
#include "plain.h"

#include <string.h>

/* ---- storage ---- */

static hga_status values_create(const pass *p, hga_id field, values *v)
{
    hga_status st = HGA_OK;
    hga_id all = field_heads(p->plan, field);
    v->heads = all == p->plan->shape.n_heads ? p->group : 1;
    v->columns = field_columns(p->plan, field);
    int64_t rows = (int64_t)p->nodes.n * v->heads;
    HGA_TRY(hga_new_zero(&p->plan->given, rows * v->columns, sizeof *v->x, &v->x));
    if (p->program->field[field].width == HGA_WIDTH_STATE)
        HGA_TRY(hga_new_zero(&p->plan->given, rows, sizeof *v->lse, &v->lse));
done:
    return st;
}

static void values_clear(const pass *p, values *v)
{
    int64_t rows = (int64_t)p->nodes.n * v->heads;
    hga_delete(&p->plan->given, v->x, rows * v->columns, sizeof *v->x);
    hga_delete(&p->plan->given, v->lse, rows, sizeof *v->lse);
    *v = (values){0};
}

static void values_copy(const pass *p, const values *from, values *to)
{
    size_t rows = (size_t)p->nodes.n * (size_t)from->heads;
    memcpy(to->x, from->x, rows * (size_t)from->columns * sizeof *to->x);
    if (from->lse) memcpy(to->lse, from->lse, rows * sizeof *to->lse);
}

static hga_id most_columns(const hga_plan *plan)
{
    hga_id dim = plan->shape.dim, dim_v = plan->shape.dim_v;
    return dim > dim_v ? dim : dim_v;
}

/* The caller's rows of a field into it. */
static void load(pass *p, hga_id field, const hga_tensor *t)
{
    values *f = &p->value[field];
    hga_id first, n = field_io(p->plan, field, &first), heads = field_heads(p->plan, field);
    for (hga_id i = 0; i < n; i++)
        for (hga_id h = 0; h < f->heads; h++) {
            hga_id head = head_of(p, field, h);
            float *x = p->numbers;
            numbers_read(t->dtype, tensor_at(t, heads, f->columns, i, head), f->columns, x);
            for (hga_id c = 0; c < f->columns; c++)
                at(f, first + i, h)[c] = entry_of(p, program_gradient_input(p->program, field), x[c],
                                                  ((int64_t)i * heads + head) * f->columns + c);
        }
}

static hga_status pass_create(pass *p)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_new(&p->plan->given, most_columns(p->plan), sizeof *p->numbers, &p->numbers));
    for (hga_id f = 1; f <= p->program->n_fields; f++) {
        HGA_TRY(values_create(p, f, &p->value[f]));
        HGA_TRY(values_create(p, f, &p->adjoint[f]));
        if (program_is_input(p->program->field[f].binding)) load(p, f, field_tensor(p->call, f));
    }
    HGA_TRY(user_rows_create(p));
done:
    return st;
}

static void pass_clear(pass *p)
{
    for (hga_id f = 1; f <= p->program->n_fields; f++) values_clear(p, &p->value[f]), values_clear(p, &p->adjoint[f]);
    for (hga_id s = 0; s < p->program->n_stages; s++)
        for (hga_id f = 1; f <= p->program->n_fields; f++)
            if (p->before[s][f].x) values_clear(p, &p->before[s][f]);
    hga_delete(&p->plan->given, p->numbers, most_columns(p->plan), sizeof *p->numbers);
    edges_close(&p->rows);
    user_rows_clear(p);
}
static double to_bf16(double x)
{
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (!isfinite(f)) return x;
    bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u;
    memcpy(&f, &bits, sizeof bits);
    return (double)f;
}
/* ---- stages ---- */

static int writes(const pass *p, const hga_stage *stage, hga_id v)
{
    int is_kept = v < p->nodes.level_ptr[1] && program_keeps_tokens(stage);
    return program_row(&p->nodes, p->program->field[stage->out].rows, v) && !is_kept;
}

/* Rows in the order of the stage, or backwards. */
static hga_status walk(pass *p, hga_id s, int backwards)
{
    const hga_stage *stage = &p->program->stage[s];
    int down = (stage->order == HGA_LEVELS_DOWN) != backwards;
    hga_id heads = p->value[stage->out].heads, n = p->nodes.n;
    hga_status st = HGA_OK;
    rows_open(&p->rows, p->plan, s);
    for (hga_id i = 0; i < n; i++) {
        row r = {stage, s, down ? n - 1 - i : i};
        if (!writes(p, stage, r.v)) continue;
        HGA_TRY(edges_read(&p->rows, r.v));
        const stage_rows *f = &plain_stages[p->plan->stage[s].kind];
        for (hga_id h = 0; h < heads; h++) (backwards ? f->adjoint : f->row)(p, &r, h);
    }
done:
    return st;
}

/* Operands of a bfloat16 plan are rounded before the first flat stage that reads them. */
static void round_operands(pass *p, const hga_stage *stage)
{
    for (hga_id f = 1; f <= p->program->n_fields; f++) {
        if (stage->order != HGA_FLAT || !(stage->reads >> f & 1u) || p->rounded >> f & 1u) continue;
        if (!storage_is_rounded(p->plan, f)) continue;
        values *x = &p->value[f];
        for (int64_t i = 0; i < (int64_t)p->nodes.n * x->heads * x->columns; i++) x->x[i] = to_bf16(x->x[i]);
        p->rounded |= 1u << f;
    }
}

/* Keep what the stage is about to overwrite. */
static hga_status keep(pass *p, hga_id s)
{
    hga_status st = HGA_OK;
    for (hga_id f = 1; f <= p->program->n_fields; f++) {
        if (!(p->program->stage[s].writes >> f & 1u)) continue;
        HGA_TRY(values_create(p, f, &p->before[s][f]));
        values_copy(p, &p->value[f], &p->before[s][f]);
    }
done:
    return st;
}

static hga_status forward(pass *p)
{
    hga_status st = HGA_OK;
    for (hga_id s = 0; s < p->program->n_stages; s++) {
        round_operands(p, &p->program->stage[s]);
        HGA_TRY(keep(p, s));
        HGA_TRY(walk(p, s, 0));
    }
done:
    return st;
}

/* Stages from last to first; behind each, its fields are again what it found. */
static hga_status backward(pass *p)
{
    hga_status st = HGA_OK;
    for (hga_id s = p->program->n_stages; s-- > 0;) {
        HGA_TRY(walk(p, s, 1));
        for (hga_id f = 1; f <= p->program->n_fields; f++) {
            if (!p->before[s][f].x) continue;
            values_copy(p, &p->before[s][f], &p->value[f]);
            values_clear(p, &p->before[s][f]);
        }
    }
done:
    return st;
}

/* The caller's gradients of the output into its adjoint. */
static void seed(pass *p)
{
    hga_id out = program_bound(p->program, HGA_IO_OUT), first, n = field_io(p->plan, out, &first);
    values *d = &p->adjoint[out];
    const hga_tensor *lse = &p->call->grad->d_lse, *out_given = &p->call->grad->d_out;
    for (hga_id i = 0; i < n; i++)
        for (hga_id h = 0; h < d->heads; h++) {
            hga_id head = head_of(p, out, h), heads = p->plan->shape.n_heads;
            float *given = p->numbers;
            numbers_read(out_given->dtype, tensor_at(out_given, heads, d->columns, i, head), d->columns, given);
            for (hga_id c = 0; c < d->columns; c++) at(d, first + i, h)[c] = (double)given[c];
            if (lse->data) *lse_at(d, first + i, h) = (double)*(const float *)tensor_at(lse, heads, 1, i, head);
        }
}

/* The gradients of the caller's rows of an input to where they are wanted. */
static void store(pass *p, hga_id field)
{
    const hga_tensor *t = field_gradient(p->call, field);
    if (!t || !t->data) return;
    values *d = &p->adjoint[field];
    hga_id first, n = field_io(p->plan, field, &first), heads = field_heads(p->plan, field);
    for (hga_id i = 0; i < n; i++)
        for (hga_id h = 0; h < d->heads; h++) {
            void *to = tensor_at(t, heads, d->columns, i, head_of(p, field, h));
            float *x = p->numbers;
            if (p->call->grad->accumulate) numbers_read(t->dtype, to, d->columns, x);
            for (hga_id c = 0; c < d->columns; c++)
                x[c] = (float)((p->call->grad->accumulate ? (double)x[c] : 0) + at(d, first + i, h)[c]);
            numbers_write(t->dtype, x, d->columns, to);
        }
}

/* Values, adjoints and what stages overwrite, of one key/value head. */
int64_t plain_bytes(const hga_plan *plan)
{
    int64_t doubles = 0, group = plan->shape.n_heads / plan->shape.n_kv_heads;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        int64_t heads = field_heads(plan, f) == plan->shape.n_heads ? group : 1, copies = 2;
        for (hga_id s = 0; s < plan->program.n_stages; s++) copies += plan->program.stage[s].writes >> f & 1u;
        doubles += copies * plan->nodes.n * heads * (field_columns(plan, f) + 1);
    }
    return doubles * (int64_t)sizeof(double) + user_rows_bytes(plan);
}

static pass pass_of(const gradient_call *c, hga_id kv)
{
    return (pass){.call = c,
                  .plan = c->plan,
                  .program = &c->plan->program,
                  .nodes = c->plan->nodes,
                  .kv = kv,
                  .group = c->plan->shape.n_heads / c->plan->shape.n_kv_heads,
                  .rows = {0}};
}

hga_status plain_gradient(const gradient_call *c, hga_id kv)
{
    hga_status st = HGA_OK;
    pass p = pass_of(c, kv);
    HGA_TRY(pass_create(&p));
    HGA_TRY(forward(&p));
    seed(&p);
    HGA_TRY(backward(&p));
    for (hga_id f = 1; f <= p.program->n_fields; f++)
        if (program_is_input(p.program->field[f].binding)) store(&p, f);
done:
    pass_clear(&p);
    return st;
}

hga_status plain_loss(const gradient_call *c, hga_id kv, double *loss)
{
    hga_status st = HGA_OK;
    pass p = pass_of(c, kv);
    HGA_TRY(pass_create(&p));
    HGA_TRY(forward(&p));
    seed(&p);
    hga_id out = program_bound(p.program, HGA_IO_OUT), first, n = field_io(p.plan, out, &first);
    const values *x = &p.value[out], *d = &p.adjoint[out];
    *loss = 0;
    for (hga_id i = first; i < first + n; i++)
        for (hga_id h = 0; h < x->heads; h++) {
            *loss += dot(at(d, i, h), at(x, i, h), x->columns);
            if (x->lse && *lse_at(x, i, h) != -INFINITY) *loss += *lse_at(d, i, h) * *lse_at(x, i, h);
        }
done:
    pass_clear(&p);
    return st;
}
