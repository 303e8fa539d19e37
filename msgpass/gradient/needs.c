/* needs.c: what the memory of a call depends on, so that its size can be computed without a call. */
#include "plan.h"
#include "live.h"
#include "gradient_rows.h"
#include "solvers.h"

static int is_folded(const hga_tensor *t) { return t->fold && t->fold_stride && t->data; }

static int is_packed(const hga_tensor *t, hga_id columns)
{
    return t->dtype == HGA_F32 && (t->head_stride == 0 || t->head_stride == columns) && !is_folded(t);
}

static int adds_up(const hga_tensor *output) { return !output->data || output->dtype == HGA_F32; }

/* Of the caller's tensors; the types of those that no stage reads do not count. */
static void find_tensors(const gradient_call *c, call_needs *needs)
{
    const hga_program *p = &c->plan->program;
    for (hga_id f = 1; f <= p->n_fields; f++) {
        const hga_tensor *input = field_tensor(c, f), *output = field_gradient(c, f);
        if (!input) continue;
        hga_id columns = field_columns(c->plan, f);
        int out = p->field[f].binding == HGA_IO_OUT;
        if (output->data && !out) needs->grads |= UINT32_C(1) << f;
        if (is_packed(input, columns)) needs->packed |= UINT32_C(1) << f;
        if (is_packed(output, columns)) needs->d_packed |= UINT32_C(1) << f;
        if (field_is_used(p, f) && (is_folded(input) || is_folded(output))) needs->features |= CALL_HAS_FOLDS;
        if (field_is_used(p, f) && (input->dtype != HGA_F32 || !adds_up(output))) needs->features |= CALL_HAS_SIXTEEN;
    }
}

static void find_tables(const gradient_call *c, call_needs *needs)
{
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        if (!c->grad->d_table[t]) continue;
        needs->entries[t] = hga_call_entries(t, &c->plan->shape, c->plan->nodes.n, c->io);
        if (call_table_is_by_head(t, c->io)) needs->by_head |= 1u << t;
    }
}

/* What a checked call needs of a pass: tensors, tables, head groups, and compact rows. */
call_needs needs_of(const gradient_call *c)
{
    const hga_io *io = c->io;
    call_needs needs = {.threads = c->threads, .n_rel_key = io->rel_key.data ? (hga_id)io->rel_key.rows : 0};
    needs.head_groups = needs.kv_end = c->plan->shape.n_kv_heads;
    needs.as_floats = adds_up(&c->grad->d_key) && adds_up(&c->grad->d_value);
    for (int i = 0; i < HGA_MAX_USER_TENSORS; i++) needs.as_floats &= adds_up(&c->grad->d_user[i]);
    needs.features = call_features(&c->plan->program, io);
    find_tensors(c, &needs), find_tables(c, &needs);
    range_needs(c, needs.compact_bytes);
    return needs;
}

/* The needs of a call that requires every gradient. */
call_needs needs_of_all(const hga_plan *plan)
{
    static const hga_io none;
    const hga_program *p = &plan->program;
    hga_id heads = plan->shape.n_kv_heads;
    call_needs needs = {.threads = plan->team.n, .head_groups = heads, .kv_end = heads, .as_floats = 1};
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (program_is_input(p->field[f].binding)) needs.grads |= UINT32_C(1) << f;
    needs.packed = needs.d_packed = UINT32_MAX;
    needs.features = call_features(p, &none);
    for (hga_id s = 0; s < p->n_stages; s++)
        if (p->stage[s].message == HGA_SCALED) needs.entries[HGA_TABLE_TYPE_SCALE] = plan->stage[s].relation.n_types;
    return needs;
}
