/* needs.c: what the memory of a call hangs on, so that nobody has to make one up to learn its size. */
#include "ways.h"

static int is_packed(const hga_tensor *t, hga_id columns)
{
    return t->dtype == HGA_F32 && (t->head_stride == 0 || t->head_stride == columns);
}

static int adds_up(const hga_tensor *wanted) { return !wanted->data || wanted->dtype == HGA_F32; }

/* Of the caller's tensors; the types of those that no stage looks at say nothing. */
static void find_tensors(const gradient_call *c, call_needs *needs)
{
    const hga_program *p = &c->plan->program;
    for (hga_id f = 1; f <= p->n_fields; f++) {
        const hga_tensor *given = field_tensor(c, f), *wanted = field_gradient(c, f);
        if (!given) continue;
        hga_id columns = field_columns(c->plan, f);
        int out = p->field[f].binding == HGA_IO_OUT;
        if (wanted->data && !out) needs->wanted |= UINT32_C(1) << f;
        if (is_packed(given, columns)) needs->packed |= UINT32_C(1) << f;
        if (is_packed(wanted, columns)) needs->d_packed |= UINT32_C(1) << f;
        if (field_is_used(p, f) && (given->dtype != HGA_F32 || !adds_up(wanted))) needs->features |= BRINGS_SIXTEEN;
    }
}

static void find_tables(const gradient_call *c, int64_t entries[N_TABLES])
{
    const hga_io *io = c->io;
    const hga_grad_io *g = c->grad;
    const hga_shape *s = &c->plan->shape;
    if (g->d_rel_key) entries[REL_KEY] = (int64_t)io->n_rel_key * s->dim;
    if (g->d_rel_bias) entries[REL_BIAS] = (int64_t)io->n_rel_bias * s->n_heads;
    if (g->d_edge_bias) entries[EDGE_BIAS] = io->n_edge_bias * io->edge_bias_heads;
    if (g->d_node_pos) entries[NODE_POS] = (int64_t)c->plan->nodes.n * s->pos_dim;
    if (g->d_type_scale) entries[TYPE_SCALE] = io->n_type_scale;
    if (g->d_log_mass) entries[LOG_MASS] = c->plan->nodes.n;
    if (g->d_scale) entries[SCALE] = 1;
    if (g->d_sink) entries[SINK] = s->n_heads;
    if (g->d_slopes) entries[SLOPES] = s->n_heads;
    if (g->d_additive) entries[ADDITIVE] = (int64_t)s->n_heads * s->dim;
}

call_needs needs_of(const gradient_call *c)
{
    const hga_io *io = c->io;
    call_needs needs = {.threads = c->threads, .n_rel_key = io->rel_key ? io->n_rel_key : 0};
    needs.turns = needs.kv_end = c->plan->shape.n_kv_heads, needs.biases_apart = io->edge_bias_heads > 1;
    needs.as_floats = adds_up(&c->grad->d_key) && adds_up(&c->grad->d_value);
    for (int i = 0; i < HGA_MAX_USER_TENSORS; i++) needs.as_floats &= adds_up(&c->grad->d_user[i]);
    if (io->rel_key || io->rel_bias) needs.features |= BRINGS_TYPES;
    if (io->node_pos) needs.features |= BRINGS_POSITIONS;
    if (io->edge_bias) needs.features |= BRINGS_EDGE_BIASES;
    find_tensors(c, &needs), find_tables(c, needs.entries);
    range_needs(c, needs.kept_bytes);
    return needs;
}

call_needs needs_of_all(const hga_plan *plan)
{
    const hga_program *p = &plan->program;
    hga_id heads = plan->shape.n_kv_heads;
    call_needs needs = {.threads = plan->threads, .turns = heads, .kv_end = heads, .as_floats = 1};
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (program_is_input(p->field[f].binding)) needs.wanted |= UINT32_C(1) << f;
    needs.packed = needs.d_packed = UINT32_MAX;
    for (hga_id s = 0; s < p->n_stages; s++)
        if (p->stage[s].message == HGA_SCALED) needs.entries[TYPE_SCALE] = plan->stage[s].relation.n_types;
    return needs;
}
