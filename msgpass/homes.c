/* homes.c: where the values of each field live. Rows that the caller's tensors have stay there; the others get workspace. In bfloat16 keys and values get rows of 16 bits
   besides, which is what attending stages then read; queries are rounded as they are loaded. Where other stages read them, too, there are rounded rows of floats. */
#include "engine.h"

#include <math.h>

hga_id range_of_rows(const hga_plan *plan, hga_rows rows, hga_id *first)
{
    const hga_nodes *n = &plan->nodes;
    switch (rows) {
    case HGA_ROWS_QUERIES: *first = n->query_first; return n->n_queries;
    case HGA_ROWS_KEYS: *first = n->key_first; return n->n_keys;
    case HGA_ROWS_ABOVE: *first = n->level_ptr[1]; return n->n - n->level_ptr[1];
    default: *first = 0; return n->n;
    }
}

static void find_width(const hga_shape *s, hga_width width, home *h)
{
    h->columns = width == HGA_WIDTH_KEY || width == HGA_WIDTH_KV_KEY ? s->dim : width == HGA_WIDTH_SCALAR ? 1 : s->dim_v;
    h->heads = width == HGA_WIDTH_KV_KEY || width == HGA_WIDTH_VALUE ? s->n_kv_heads : s->n_heads;
}

int home_is_rounded(const hga_plan *plan, hga_id field)
{
    const hga_field *f = &plan->program.field[field];
    int operand = f->width == HGA_WIDTH_KEY || f->width == HGA_WIDTH_KV_KEY || f->width == HGA_WIDTH_VALUE;
    return plan->options.precision == HGA_PRECISION_BF16 && operand && f->binding != HGA_IO_USER;
}

static int attends(const hga_plan *plan, hga_id stage)
{
    return plan->stage[stage].kind == KIND_ATTEND || plan->stage[stage].kind == KIND_ATTEND_MORE;
}

int homes_can_halve(const hga_plan *plan)
{
    uint32_t operands = 0, rounded = 0;
    if (plan->options.precision != HGA_PRECISION_BF16 || plan->options.generic) return 0;
    for (hga_id f = 0; f < plan->program.n_fields; f++) operands |= (uint32_t)home_is_rounded(plan, f) << f;
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        const hga_stage *stage = &plan->program.stage[s];
        uint32_t reads = stage->reads & operands;
        if (stage->writes & rounded || (reads & rounded && !attends(plan, s))) return 0;
        if (stage->order != HGA_FLAT) continue;
        if (reads && !attends(plan, s)) return 0;
        rounded |= reads;
    }
    return 1;
}

static int is_attended(const hga_plan *plan, hga_id field)
{
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        if (attends(plan, s) && (plan->program.stage[s].key == field || plan->program.stage[s].value == field)) return 1;
    return 0;
}

/* Is every token that the field exists on a row of the caller's? */
static int tokens_are_given(const hga_plan *plan, const hga_field *f, const home *h)
{
    for (hga_id v = 0; v < plan->nodes.level_ptr[1]; v++) {
        if (v == h->io_first) v += h->io_n;
        if (v < plan->nodes.level_ptr[1] && program_row(&plan->nodes, f->rows, v)) return 0;
    }
    return 1;
}

/* Workspace rows are those of `rows` less the caller's, as one range of ids: levels above the tokens, or everything. */
static void find_rows(const hga_plan *plan, const hga_field *f, home *h)
{
    hga_id first, n = range_of_rows(plan, f->rows, &first), number = (hga_id)(f - plan->program.field);
    h->rounded = home_is_rounded(plan, number) && !plan->halves;
    if (plan->halves && is_attended(plan, number)) h->halves = (area){.first = first, .n = n, .floats = ((int64_t)h->heads * h->columns + 1) / 2};
    h->rows = (area){.first = first, .n = n, .floats = (int64_t)h->heads * h->columns};
    if (f->width == HGA_WIDTH_STATE) h->lse = (area){.first = first, .n = n, .floats = h->heads};
    if (f->binding == HGA_INTERNAL) return;
    h->io_n = range_of_rows(plan, f->io, &h->io_first);
    if (h->rounded) return;
    hga_id base = plan->nodes.level_ptr[1];
    if (h->io_first == first && h->io_n == n) {
        h->rows.n = 0;
    } else if (first < base && first + n > base && tokens_are_given(plan, f, h)) {
        h->rows.first = base, h->rows.n = first + n - base;
    }
}

static hga_status take(int64_t *total, int64_t rows, int64_t each, int64_t *at)
{
    int64_t floats;
    *at = *total;
    if (__builtin_mul_overflow(rows, each, &floats) || __builtin_add_overflow(floats, KERNEL_PAD, &floats) ||
        __builtin_add_overflow(*total, floats, total) || *total > INT64_MAX / 8)
        return hga_fail(HGA_EOVERFLOW, "the workspace of %lld rows of %lld floats does not fit", (long long)rows, (long long)each);
    *total = (*total + KERNEL_PAD - 1) / KERNEL_PAD * KERNEL_PAD;
    return HGA_OK;
}

/* Rows that nodes take from a pool are laid out with it. */
static hga_status take_area(const hga_plan *plan, int64_t *total, area *a)
{
    if (!a->slot) return take(total, a->n, a->floats, &a->at);
    for (hga_id i = 0; i < plan->n_pools; i++)
        if (plan->pool[i].floats == a->floats) a->at = plan->pool[i].at;
    return HGA_OK;
}

void homes_find(hga_plan *plan)
{
    for (hga_id f = 0; f < plan->program.n_fields; f++) {
        home *h = &plan->home[f];
        *h = (home){0};
        find_width(&plan->shape, plan->program.field[f].width, h);
        find_rows(plan, &plan->program.field[f], h);
    }
}

hga_status homes_lay_out(hga_plan *plan)
{
    int64_t total = 0;
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < plan->n_pools; i++) HGA_TRY(take(&total, plan->pool[i].rows, plan->pool[i].floats, &plan->pool[i].at));
    for (hga_id f = 0; f < plan->program.n_fields; f++) {
        HGA_TRY(take_area(plan, &total, &plan->home[f].rows));
        HGA_TRY(take_area(plan, &total, &plan->home[f].lse));
        HGA_TRY(take_area(plan, &total, &plan->home[f].halves));
    }
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        HGA_TRY(take(&total, plan->stage[s].n_pieces, (int64_t)plan->shape.n_heads * (padded(plan->shape.dim_v) + 2), &plan->stage[s].piece_at));
    plan->workspace_floats = total + (total ? LINE_FLOATS : 0);
done:
    return st;
}

/* ---- this call's addresses ---- */

/* The caller's tensor of a field, NULL for internal ones; *what names it. */
static const hga_tensor *tensor_of(const hga_plan *plan, const hga_io *io, hga_id field, const char **what)
{
    const hga_program *p = &plan->program;
    hga_id user = 0;
    *what = p->field[field].name;
    switch (p->field[field].binding) {
    case HGA_IO_QUERY: return &io->query;
    case HGA_IO_KEY: return &io->key;
    case HGA_IO_VALUE: return &io->value;
    case HGA_IO_OUT: return &io->out;
    case HGA_IO_USER:
        for (hga_id f = 0; f < field; f++) user += p->field[f].binding == HGA_IO_USER;
        return user < HGA_MAX_USER_TENSORS ? &io->user[user] : NULL;
    default: return NULL;
    }
}

/* Kernels read floats where floats may be. */
static hga_status check_floats(const hga_tensor *t, const char *what)
{
    if (t->dtype != HGA_F32) return hga_fail(HGA_EUNSUPPORTED, "the tensor of field %s has dtype %d, not float32", what, (int)t->dtype);
    size_t beyond = (size_t)((uintptr_t)t->data % _Alignof(float));
    if (beyond) return hga_fail(HGA_EINVAL, "the tensor of field %s starts %zu bytes past a multiple of %zu", what, beyond, _Alignof(float));
    return HGA_OK;
}

static hga_status bind_view(const hga_plan *plan, const hga_io *io, hga_state *state, hga_id f)
{
    const home *h = &plan->home[f];
    view *x = &state->view[f];
    const char *what;
    const hga_tensor *t = tensor_of(plan, io, f, &what);
    *x = (view){.io_first = h->io_first, .io_n = h->io_n, .columns = h->columns, .heads = h->heads};
    x->ws = state->workspace ? state->workspace + h->rows.at : NULL;
    x->ws_first = h->rows.first, x->ws_slot = h->rows.slot, x->ws_head = h->columns, x->ws_row = h->rows.floats;
    x->lse = state->workspace ? state->workspace + h->lse.at : NULL;
    x->lse_first = h->lse.first, x->lse_slot = h->lse.slot;
    x->halves = state->workspace ? (uint16_t *)(void *)(state->workspace + h->halves.at) : NULL;
    x->halves_first = h->halves.first, x->halves_slot = h->halves.slot, x->halves_row = 2 * h->halves.floats;
    if (plan->program.field[f].binding == HGA_INTERNAL) return HGA_OK;
    if (!t) return hga_fail(HGA_EPROGRAM, "field %s: at most %d tensors of the user's", what, HGA_MAX_USER_TENSORS);
    if (!t->data && h->io_n > 0) return hga_fail(HGA_EINVAL, "the tensor of field %s is missing", what);
    hga_status st = check_floats(t, what);
    if (st) return st;
    x->io = t->data;
    x->io_head = t->head_stride ? t->head_stride : h->columns;
    x->io_row = t->row_stride ? t->row_stride : (ptrdiff_t)h->columns * h->heads;
    if (h->rounded) x->io_n = 0; /* stages see the copy */
    return HGA_OK;
}

static hga_status check_tables(const hga_plan *plan, const hga_io *io)
{
    const hga_program *p = &plan->program;
    for (hga_id s = 0; s < p->n_stages; s++) {
        const stage_plan *sp = &plan->stage[s];
        int scores = p->stage[s].query >= 0 && p->stage[s].key >= 0 && p->stage[s].relation >= 0;
        int32_t n_types = sp->relation.n_types;
        if (scores && io->rel_key && io->n_rel_key < n_types)
            return hga_fail(HGA_EINVAL, "rel_key has %d rows but relation %s has %d types", io->n_rel_key, sp->relation.name, n_types);
        if (scores && io->rel_bias && io->n_rel_bias < n_types)
            return hga_fail(HGA_EINVAL, "rel_bias has %d rows but relation %s has %d types", io->n_rel_bias, sp->relation.name, n_types);
        int32_t n_scales = io->type_scale ? io->n_type_scale : 0;
        if (sp->kind == KIND_WEIGHTED_SUM && n_scales < n_types)
            return hga_fail(HGA_EINVAL, "type_scale has %d entries but relation %s has %d types", n_scales, sp->relation.name, n_types);
    }
    if (io->edge_bias) {
        if (plan->bias_stage < 0) return hga_fail(HGA_EINVAL, "the plan was made without edge_bias, or no stage attends");
        hga_pos n = plan->stage[plan->bias_stage].relation.n_edges;
        if (io->n_edge_bias != n)
            return hga_fail(HGA_EINVAL, "edge_bias has %lld rows but the relation has %lld edges", (long long)io->n_edge_bias, (long long)n);
        if (io->edge_bias_heads != 1 && io->edge_bias_heads != plan->shape.n_heads)
            return hga_fail(HGA_EINVAL, "edge_bias has %d heads, not 1 or %d", io->edge_bias_heads, plan->shape.n_heads);
    }
    if (io->node_pos && plan->shape.pos_dim < 1)
        return hga_fail(HGA_EINVAL, "node_pos is given but the shape says pos_dim = %d", plan->shape.pos_dim);
    if (io->lse.data && !p->has_lse) return hga_fail(HGA_EUNSUPPORTED, "this program's output has no log-sum-exp");
    if (io->lse.data) {
        hga_status st = check_floats(&io->lse, "lse");
        if (st) return st;
    }
    if (!isfinite(io->scale)) return hga_fail(HGA_EINVAL, "scale %g is not finite", (double)io->scale);
    return HGA_OK;
}

hga_status views_bind(const hga_plan *plan, const hga_io *io, hga_state *state)
{
    hga_status st = check_tables(plan, io);
    for (hga_id f = 0; !st && f < plan->program.n_fields; f++) st = bind_view(plan, io, state, f);
    float scale = io->scale != 0 ? io->scale : plan->program.default_scale;
    state->scale = scale != 0 ? scale : 1 / sqrtf((float)plan->shape.dim);
    return st;
}
