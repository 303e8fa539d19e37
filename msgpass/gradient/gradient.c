/* gradient.c: the call. What it is given is checked before anything is written; then every key/value head is a pass. */
#include "gradient.h"

#include "philox.h"

#include <math.h>
#include <string.h>

/* ---- fields and tensors ---- */

hga_id field_heads(const hga_plan *plan, hga_id field)
{
    hga_width w = plan->program.field[field].width;
    return w == HGA_WIDTH_KV_KEY || w == HGA_WIDTH_VALUE ? plan->shape.n_kv_heads : plan->shape.n_heads;
}

hga_id field_columns(const hga_plan *plan, hga_id field)
{
    hga_width w = plan->program.field[field].width;
    return w == HGA_WIDTH_SCALAR                          ? 1
           : w == HGA_WIDTH_KEY || w == HGA_WIDTH_KV_KEY ? plan->shape.dim
                                                          : plan->shape.dim_v;
}

hga_id field_io(const hga_plan *plan, hga_id field, hga_id *first)
{
    return range_of_rows(plan, plan->program.field[field].io, first);
}

/* Which of the caller's own tensors a field is. */
static hga_id user_number(const hga_plan *plan, hga_id field)
{
    hga_id n = 0;
    for (hga_id f = 1; f < field; f++) n += plan->program.field[f].binding == HGA_IO_USER;
    return n;
}

const hga_tensor *field_tensor(const gradient_call *c, hga_id field)
{
    switch (c->plan->program.field[field].binding) {
    case HGA_IO_QUERY: return &c->io->query;
    case HGA_IO_KEY: return &c->io->key;
    case HGA_IO_VALUE: return &c->io->value;
    case HGA_IO_OUT: return &c->io->out;
    case HGA_IO_USER: return &c->io->user[user_number(c->plan, field)];
    default: return NULL;
    }
}

const hga_tensor *field_gradient(const gradient_call *c, hga_id field)
{
    switch (c->plan->program.field[field].binding) {
    case HGA_IO_QUERY: return &c->grad->d_query;
    case HGA_IO_KEY: return &c->grad->d_key;
    case HGA_IO_VALUE: return &c->grad->d_value;
    case HGA_IO_OUT: return &c->grad->d_out;
    case HGA_IO_USER: return &c->grad->d_user[user_number(c->plan, field)];
    default: return NULL;
    }
}

float *tensor_at(const hga_tensor *t, hga_id heads, hga_id columns, int64_t i, hga_id h)
{
    ptrdiff_t head = t->head_stride ? t->head_stride : columns;
    ptrdiff_t row = t->row_stride ? t->row_stride : (ptrdiff_t)heads * columns;
    return (float *)t->data + i * row + h * head;
}

/* ---- dropout ---- */

double dropout_factor(const gradient_call *c, const row_edge *e, hga_id v, hga_id head)
{
    double p = (double)c->plan->options.dropout;
    if (p == 0) return 1;
    uint32_t x[4] = {(uint32_t)v, (uint32_t)e->src, (uint32_t)e->type,
                     (uint32_t)c->io->layer << 8 | (uint32_t)(head / 8)};
    philox4x32_10(x, (uint32_t)c->io->seed, (uint32_t)(c->io->seed >> 32));
    uint32_t draw = x[head % 8 / 2] >> 16 * (head % 2) & 0xffffu;
    return draw < (uint32_t)lrint(p * 65536) ? 0 : 1 / (1 - p);
}

/* ---- checks ---- */

static hga_status check_tensor(const gradient_call *c, const hga_tensor *t, hga_id field, const char *what)
{
    hga_id first, n = field_io(c->plan, field, &first);
    const char *name = c->plan->program.field[field].name;
    if (t->dtype != HGA_F32)
        return hga_fail(HGA_EUNSUPPORTED, "%s field %s has dtype %d, not float32", what, name, (int)t->dtype);
    if ((uintptr_t)t->data % _Alignof(float))
        return hga_fail(HGA_EINVAL, "%s field %s does not start at a multiple of %zu bytes", what, name,
                        _Alignof(float));
    if (t->rows < n)
        return hga_fail(HGA_EINVAL, "%s field %s has %lld rows, not %d", what, name, (long long)t->rows, n);
    return HGA_OK;
}

/* Tensors of the forward pass, of the output's gradient, and those that are wanted. */
static hga_status check_tensors(const gradient_call *c)
{
    const hga_program *p = &c->plan->program;
    hga_status st = HGA_OK;
    for (hga_id f = 1; !st && f <= p->n_fields; f++) {
        const hga_tensor *given = field_tensor(c, f), *wanted = field_gradient(c, f);
        if (!given) continue;
        int out = p->field[f].binding == HGA_IO_OUT;
        hga_id first, n = field_io(c->plan, f, &first);
        if (out && n > 0 && !wanted->data) return hga_fail(HGA_EINVAL, "the gradient of the output is missing");
        if (!given->data && n > 0) return hga_fail(HGA_EINVAL, "the tensor of field %s is missing", p->field[f].name);
        st = check_tensor(c, given, f, "the tensor of");
        if (!st && wanted->data) st = check_tensor(c, wanted, f, out ? "the given gradient of" : "the gradient of");
    }
    if (st || !c->grad->d_lse.data) return st;
    if (!p->has_lse) return hga_fail(HGA_EUNSUPPORTED, "this program's output has no log-sum-exp");
    return check_tensor(c, &c->grad->d_lse, program_bound(p, HGA_IO_OUT), "the gradient of the log-sum-exp of");
}

/* A wanted gradient of a table needs the table. */
static hga_status check_tables(const gradient_call *c)
{
    const hga_io *io = c->io;
    const hga_grad_io *g = c->grad;
    const struct {
        const char *name;
        const void *wanted, *given;
    } tables[] = {{"rel_key", g->d_rel_key, io->rel_key},
                  {"rel_bias", g->d_rel_bias, io->rel_bias},
                  {"edge_bias", g->d_edge_bias, io->edge_bias},
                  {"node_pos", g->d_node_pos, io->node_pos},
                  {"type_scale", g->d_type_scale, io->type_scale}};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (tables[i].wanted && !tables[i].given)
            return hga_fail(HGA_EINVAL, "the gradient of %s is wanted, but there is no %s", tables[i].name,
                            tables[i].name);
    return HGA_OK;
}

/* Does every stage have an adjoint? */
static hga_status check_stages(const hga_plan *plan)
{
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        if (plan->stage[s].kind == KIND_USER)
            return hga_fail(HGA_EUNSUPPORTED, "stage %s is a user's function, which has no adjoint",
                            plan->program.stage[s].name);
    return HGA_OK;
}

/* ---- sums of tables ---- */

/* A table's gradient is summed over heads and edges in double, and stored once. */
typedef struct table {
    float *to;
    int64_t n;
    double **sum;
} table;
enum { N_TABLES = 7 };

static void list_tables(gradient_call *c, table tables[N_TABLES])
{
    const hga_io *io = c->io;
    const hga_grad_io *g = c->grad;
    const hga_shape *s = &c->plan->shape;
    table_sums *sums = &c->sums;
    const table all[N_TABLES] = {{g->d_rel_key, (int64_t)io->n_rel_key * s->dim, &sums->rel_key},
                                 {g->d_rel_bias, (int64_t)io->n_rel_bias * s->n_heads, &sums->rel_bias},
                                 {g->d_edge_bias, io->n_edge_bias * io->edge_bias_heads, &sums->edge_bias},
                                 {g->d_node_pos, (int64_t)c->plan->nodes.n * s->pos_dim, &sums->node_pos},
                                 {g->d_type_scale, io->n_type_scale, &sums->type_scale},
                                 {g->d_log_mass, c->plan->nodes.n, &sums->log_mass},
                                 {g->d_scale, 1, &sums->scale}};
    memcpy(tables, all, sizeof all);
}

static hga_status tables_create(gradient_call *c)
{
    table tables[N_TABLES];
    hga_status st = HGA_OK;
    list_tables(c, tables);
    for (int i = 0; i < N_TABLES; i++)
        if (tables[i].to) HGA_TRY(hga_new_zero(&c->plan->given, tables[i].n, sizeof(double), tables[i].sum));
done:
    return st;
}

static void tables_store(gradient_call *c)
{
    table tables[N_TABLES];
    list_tables(c, tables);
    for (int i = 0; i < N_TABLES; i++)
        for (int64_t j = 0; tables[i].to && j < tables[i].n; j++)
            tables[i].to[j] = (float)((c->grad->accumulate ? (double)tables[i].to[j] : 0) + (*tables[i].sum)[j]);
}

static void tables_clear(gradient_call *c)
{
    table tables[N_TABLES];
    list_tables(c, tables);
    for (int i = 0; i < N_TABLES; i++) hga_delete(&c->plan->given, *tables[i].sum, tables[i].n, sizeof(double));
}

hga_status hga_plan_gradient(const hga_plan *plan, hga_workspace *workspace, const hga_io *io, const hga_grad_io *grad)
{
    if (!plan || !workspace || !io || !grad)
        return hga_fail(HGA_EINVAL, "no %s", !plan ? "plan" : !workspace ? "workspace" : !io ? "tensors" : "gradients");
    hga_status st = HGA_OK;
    float scale = io->scale != 0 ? io->scale : plan->program.default_scale;
    gradient_call c = {.plan = plan,
                       .io = io,
                       .grad = grad,
                       .scale = scale != 0 ? scale : 1 / sqrtf((float)plan->shape.dim)};
    if (!plan->options.gradient) return hga_fail(HGA_EINVAL, "the plan was made without options.gradient");
    HGA_TRY(hga_check_reserved("hga_grad_io", grad->reserved, sizeof grad->reserved));
    HGA_TRY(check_stages(plan));
    HGA_TRY(check_tensors(&c));
    HGA_TRY(check_tables(&c));
    HGA_TRY(tables_create(&c));
    for (hga_id kv = 0; kv < plan->shape.n_kv_heads; kv++) HGA_TRY(plain_gradient(&c, kv));
    tables_store(&c);
done:
    tables_clear(&c);
    return st;
}
