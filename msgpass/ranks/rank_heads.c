/* rank_heads.c: a call of a rank that has all rows of some heads. */
#include "rank_heads.h"
#include "carve.h"
#include "least.h"
#include "tape.h"
#include "workspace_base.h"

#include <string.h>

static hga_tensor *tensor_of(const hga_plan *plan, hga_io *io, hga_id f)
{
    return (hga_tensor *)program_tensor(&plan->program, io, f);
}
static hga_tensor *gradient_of(const hga_plan *plan, hga_grad_io *grad, hga_id f)
{
    return (hga_tensor *)program_gradient(&plan->program, grad, f);
}
static int is_bound(const hga_plan *plan, hga_id f) { return plan->program.field[f].binding != HGA_INTERNAL; }
static int has_lses(const hga_plan *plan)
{
    return plan->program.field[program_bound(&plan->program, HGA_IO_OUT)].width == HGA_WIDTH_STATE;
}
static int is_out(const hga_plan *plan, hga_id f) { return plan->program.field[f].binding == HGA_IO_OUT; }

/* ---- what all ranks have and require ---- */

static uint8_t type_of(const hga_plan *plan, hga_id f, const hga_tensor *t)
{
    return t->data && plan->fields.storage[f].input_n ? (uint8_t)t->dtype : (uint8_t)TYPE_UNKNOWN;
}

/* What this rank's call has and requires; its needs are those of the rank's own tensors. */
static head_wish wish_of(const gradient_call *c, const hga_plan *plan)
{
    head_wish w = {.accumulate = c->grad->accumulate != 0, .d_lse = c->grad->d_lse.data != NULL};
    call_needs needs = needs_of(c);
    w.grads = needs.grads;
    memcpy(w.entries, needs.entries, sizeof w.entries);
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        if (!is_bound(plan, f)) continue;
        w.type[f] = type_of(plan, f, program_tensor(&plan->program, c->io, f));
        w.d_type[f] = type_of(plan, f, program_gradient(&plan->program, c->grad, f));
    }
    return w;
}

static const char *name_of_type(uint8_t type)
{
    return type == HGA_F32 ? "float32" : type == HGA_F16 ? "float16" : "bfloat16";
}

/* A tensor is of one type on all ranks that have rows of it. */
static hga_status join_type(uint8_t *all, uint8_t one, const hga_plan *plan, hga_id f, hga_id rank, const char *what)
{
    if (*all == TYPE_UNKNOWN) *all = one;
    if (one == TYPE_UNKNOWN || one == *all) return HGA_OK;
    return hga_fail(HGA_EINVAL, "ranks: %s field %s is of %s on rank %d, and of %s on a rank before it", what,
                    plan->program.field[f].name, name_of_type(one), rank, name_of_type(*all));
}

static hga_status same_tables(const head_wish *all, const head_wish *one, hga_id rank)
{
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        if (one->entries[t] != all->entries[t])
            return hga_fail(HGA_EINVAL, "ranks: rank 0 wants gradients of %lld entries of %s, and rank %d of %lld",
                            (long long)all->entries[t], call_row(t)->name, rank, (long long)one->entries[t]);
    return HGA_OK;
}

/* Joins a rank's wish to those of the ranks before it; all ranks find the same error. */
static hga_status join_wish(head_wish *all, const head_wish *one, const hga_plan *plan, hga_id rank)
{
    hga_status st = HGA_OK;
    HGA_TRY(same_tables(all, one, rank));
    if (all->accumulate != one->accumulate)
        HGA_TRY(hga_fail(HGA_EINVAL, "ranks: rank %d %s gradients, and rank 0 %s them", rank,
                         one->accumulate ? "adds to" : "writes", one->accumulate ? "writes" : "adds to"));
    all->grads |= one->grads, all->d_lse |= one->d_lse;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        HGA_TRY(join_type(&all->type[f], one->type[f], plan, f, rank, "the tensor of"));
        HGA_TRY(join_type(&all->d_type[f], one->d_type[f], plan, f, rank, "the gradient of"));
    }
done:
    return st;
}

static head_call *call_of(sharing *s) { return (head_call *)(void *)s; }

/* Ranks exchange what they have and require, and check that they make the same call. */
static hga_status agree_on_call(sharing *s, const gradient_call *c, hga_workspace *workspace)
{
    hga_status st = HGA_OK;
    head_call *h = call_of(s);
    const hga_plan *plan = h->plan;
    const hga_exchange *x = plan->share.ranks->exchange;
    head_wish mine = wish_of(c, plan);
    void *memory;
    HGA_TRY(workspace_spare(workspace, x->n_ranks * (int64_t)sizeof mine, &memory));
    const head_wish *all = memory;
    HGA_TRY(rank_call_meet(x, rank_word_of(RANKS_GO_BACK, plan, c->io, c->samples)));
    HGA_TRY(x->gather(x->ctx, &mine, sizeof mine, memory));
    h->all = all[0];
    for (hga_id k = 1; k < x->n_ranks; k++) HGA_TRY(join_wish(&h->all, &all[k], plan, k));
done:
    return st;
}

/* Assumes that the other ranks' calls are like this one, or without tensors that they require all gradients, of
   float32. */
static hga_status guess(sharing *s, const gradient_call *c, hga_workspace *workspace)
{
    head_call *h = call_of(s);
    (void)workspace;
    h->all = c->io ? wish_of(c, h->plan) : (head_wish){.grads = needs_of_all(c->plan).grads};
    return HGA_OK;
}

/* ---- tensors with all rows of the heads here ---- */

static hga_dtype known_type(uint8_t type) { return type == TYPE_UNKNOWN ? HGA_F32 : (hga_dtype)type; }

/* A tensor of all rows and the heads here, which are contiguous. Its data pointer is where head 0 would be, which is
   not read unless it is here. */
static hga_tensor tensor_here(const head_call *h, hga_id f, hga_id heads, hga_id columns, hga_dtype type, void *memory)
{
    hga_id group = heads / h->plan->shape.n_kv_heads, first,
           end = heads_of_rank(h->plan, h->plan->share.ranks->exchange->rank, &first);
    uintptr_t before = (uintptr_t)group * (uintptr_t)first * (uintptr_t)columns * dtype_bytes(type);
    return (hga_tensor){.data = memory ? (void *)((uintptr_t)memory - before) : NULL,
                        .rows = h->plan->fields.storage[f].io_n,
                        .row_stride = (ptrdiff_t)group * (end - first) * columns,
                        .head_stride = columns,
                        .dtype = type};
}

static hga_tensor here(const head_call *h, hga_id f, uint8_t type, void *memory)
{
    return tensor_here(h, f, field_heads(h->plan, f), field_columns(h->plan, f), known_type(type), memory);
}

/* The gradient of the output is always there; others where any rank requires them. */
static int has_gradient(const head_call *h, hga_id f) { return is_out(h->plan, f) || h->all.grads >> f & 1u; }

/* The call's tensors become these; h->io and h->grad hold their memory. */
static void replace_tensors(gradient_call *c, head_call *h, const hga_io *io, const hga_grad_io *input)
{
    const hga_plan *plan = h->plan;
    hga_id out = program_bound(&plan->program, HGA_IO_OUT);
    hga_io whole = *io;
    hga_grad_io grad = *input;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        if (!is_bound(plan, f)) continue;
        void *memory = gradient_of(plan, &h->grad, f)->data;
        *tensor_of(plan, &whole, f) = here(h, f, h->all.type[f], tensor_of(plan, &h->io, f)->data);
        *gradient_of(plan, &grad, f) = here(h, f, h->all.d_type[f], has_gradient(h, f) ? memory : NULL);
    }
    grad.d_lse = tensor_here(h, out, plan->shape.n_heads, 1, HGA_F32, h->all.d_lse ? h->grad.d_lse.data : NULL);
    h->io = whole, h->grad = grad;
    c->io = &h->io, c->grad = &h->grad;
}

static void describe_heads(sharing *s, gradient_call *c)
{
    head_call *h = call_of(s);
    for (hga_id f = 1; f <= h->plan->program.n_fields; f++)
        if (is_bound(h->plan, f)) tensor_of(h->plan, &h->io, f)->data = gradient_of(h->plan, &h->grad, f)->data = h;
    h->grad.d_lse.data = h;
    replace_tensors(c, h, c->io, c->grad);
}

/* The most head groups of a rank, which are gathered together. */
static hga_id most_head_groups(const gradient_call *c, const hga_plan *plan)
{
    hga_id heads = plan->shape.n_kv_heads, n_ranks = plan->share.ranks->exchange->n_ranks;
    return c->needs.head_groups / heads * ((heads + n_ranks - 1) / n_ranks);
}

/* Carves tensors with all rows of the heads here, and buffers for messages between ranks. */
static void lay_out_tensors(sharing *s, const gradient_call *c, carver *arena)
{
    head_call measured = *call_of(s), *h = arena->base ? call_of(s) : &measured;
    const hga_plan *plan = h->plan;
    hga_id out = program_bound(&plan->program, HGA_IO_OUT), heads = plan->shape.n_heads,
           own = heads_here(plan, &c->needs, heads);
    int64_t bytes = swap_bytes(plan, out, heads, 1, sizeof(float)), sums = most(GATHERED, most_head_groups(c, plan));
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        hga_id all = field_heads(plan, f), columns = field_columns(plan, f);
        size_t number = dtype_bytes(known_type(h->all.type[f])), d_number = dtype_bytes(known_type(h->all.d_type[f]));
        int64_t numbers = (int64_t)plan->fields.storage[f].io_n * heads_here(plan, &c->needs, all) * columns;
        int reads = !is_out(plan, f) || h->shared.reads_out;
        if (!is_bound(plan, f)) continue;
        tensor_of(plan, &h->io, f)->data = reads ? carve(arena, numbers, number) : NULL;
        gradient_of(plan, &h->grad, f)->data = has_gradient(h, f) ? carve(arena, numbers, d_number) : NULL;
        bytes = most(bytes, swap_bytes(plan, f, all, columns, number > d_number ? number : d_number));
    }
    h->lse = has_lses(plan) ? carve_floats(arena, (int64_t)plan->fields.storage[out].io_n * own) : NULL;
    h->grad.d_lse.data = h->all.d_lse ? carve_floats(arena, (int64_t)plan->fields.storage[out].io_n * own) : NULL;
    h->buffer = carve(arena, bytes, 1);
    h->send = carve(arena, swap_packets(plan), sizeof *h->send);
    h->receive = carve(arena, swap_packets(plan), sizeof *h->receive);
    h->mine = carve(arena, sums, sizeof *h->mine);
    h->gathered = carve(arena, plan->share.ranks->exchange->n_ranks * sums, sizeof *h->gathered);
}

/* ---- rows are received ---- */

static hga_status swap_field(const head_call *h, hga_id f, const hga_tensor *mine, const hga_tensor *to)
{
    head_swap s = {h, f, field_heads(h->plan, f), field_columns(h->plan, f), mine, to};
    hga_tensor none = {.dtype = to->dtype};
    if (!mine->data) s.mine = &none;
    return swap_to_heads(&s);
}

/* Swaps the output's log-sum-exps, or their gradient. */
static hga_status swap_lse(const head_call *h, const hga_tensor *mine, const hga_tensor *to)
{
    hga_id out = program_bound(&h->plan->program, HGA_IO_OUT);
    return swap_to_heads(&(head_swap){h, out, h->plan->shape.n_heads, 1, mine, to});
}

static hga_status swap_tape(gradient_call *c, const head_call *h)
{
    hga_id out = program_bound(&h->plan->program, HGA_IO_OUT);
    const hga_tensor mine = {.data = (void *)(uintptr_t)c->tape_lse},
                     to = tensor_here(h, out, h->plan->shape.n_heads, 1, HGA_F32, h->lse);
    c->tape_lse = to.data, c->lse_row = to.row_stride;
    return swap_lse(h, &mine, &to);
}

/* Tensors with all rows of the heads here replace the caller's, and their rows are received from all ranks. */
static hga_status open(sharing *s, gradient_call *c, const hga_io *io, const hga_grad_io *input)
{
    hga_status st = HGA_OK;
    head_call *h = call_of(s);
    const hga_plan *plan = h->plan;
    replace_tensors(c, h, io, input);
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        if (!is_bound(plan, f)) continue;
        const hga_tensor *to = tensor_of(plan, &h->io, f), *d = gradient_of(plan, &h->grad, f);
        int comes =
            is_out(plan, f) || (h->grad.accumulate && d->data); /* what a call accumulates to is part of the sums */
        if (to->data) HGA_TRY(swap_field(h, f, program_tensor(&plan->program, io, f), to));
        if (comes) HGA_TRY(swap_field(h, f, program_gradient(&plan->program, input, f), d));
    }
    if (h->all.d_lse) HGA_TRY(swap_lse(h, &input->d_lse, &h->grad.d_lse));
    if (has_lses(plan)) HGA_TRY(swap_tape(c, h));
done:
    return st;
}

/* ---- sums of tables ---- */

/* The rank's heads are head groups [*first, end); returns end. */
static hga_id head_groups_of_rank(const gradient_call *c, const hga_plan *plan, hga_id rank, hga_id *first)
{
    hga_id each = c->needs.head_groups / plan->shape.n_kv_heads, end = heads_of_rank(plan, rank, first);
    *first *= each;
    return end * each;
}

/* Gathers entries [at, at + n) of a table that has an array for each head group. */
static hga_status gather_head_groups(const gradient_call *c, const head_call *h, hga_call_table which, int64_t at,
                                     int64_t n)
{
    const hga_exchange *x = h->plan->share.ranks->exchange;
    hga_id most = most_head_groups(c, h->plan), first, end = head_groups_of_rank(c, h->plan, x->rank, &first);
    size_t bytes = (size_t)n * sizeof(double);
    memset(h->mine, 0, (size_t)most * bytes);
    for (hga_id t = first; t < end; t++) memcpy(h->mine + (t - first) * n, c->sums[t].of[which] + at, bytes);
    hga_status st = x->gather(x->ctx, h->mine, most * (int64_t)bytes, h->gathered);
    for (hga_id k = 0; !st && k < x->n_ranks; k++) {
        end = head_groups_of_rank(c, h->plan, k, &first);
        for (hga_id t = first; t < end; t++)
            memcpy(c->sums[t].of[which] + at, h->gathered + ((int64_t)k * most + t - first) * n, bytes);
    }
    return st;
}

/* Gathers entries [at, at + n) of a table where heads have entries of their own: those of other heads are zeros
   here. */
static hga_status gather_entries(const gradient_call *c, const head_call *h, hga_call_table which, int64_t at,
                                 int64_t n)
{
    const hga_exchange *x = h->plan->share.ranks->exchange;
    double *sum = c->sums[0].of[which] + at;
    hga_status st = x->gather(x->ctx, sum, n * (int64_t)sizeof *sum, h->gathered);
    for (int64_t i = 0; !st && i < n; i++) {
        sum[i] = 0;
        for (hga_id k = 0; k < x->n_ranks; k++) sum[i] += h->gathered[k * n + i];
    }
    return st;
}

/* Gathers the sums of every table from all ranks, as many entries at a time as the buffer holds. */
static hga_status gather_tables(const gradient_call *c, const head_call *h)
{
    hga_status st = HGA_OK;
    for (hga_call_table which = 0; which < HGA_N_TABLES; which++) {
        int by_head = c->needs.by_head >> which & 1;
        int64_t all = c->needs.entries[which],
                some = by_head ? GATHERED : most(1, GATHERED / most_head_groups(c, h->plan));
        for (int64_t at = 0; at < all; at += some)
            HGA_TRY(
                (by_head ? gather_entries : gather_head_groups)(c, h, which, at, all - at < some ? all - at : some));
    }
done:
    return st;
}

/* Sends gradients to the ranks that own their rows, and gathers the sums of tables from all ranks. */
static hga_status close(sharing *s, gradient_call *c, const hga_grad_io *grad)
{
    hga_status st = HGA_OK;
    const head_call *h = call_of(s);
    const hga_plan *plan = h->plan;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        if (!(h->all.grads >> f & 1u)) continue;
        const hga_tensor *from = program_gradient(&plan->program, &h->grad, f), none = {.dtype = from->dtype};
        head_swap swap = {
            h, f, field_heads(plan, f), field_columns(plan, f), program_gradient(&plan->program, grad, f), from};
        if (!swap.mine->data) swap.mine = &none;
        HGA_TRY(swap_to_rows(&swap));
    }
    HGA_TRY(gather_tables(c, h));
    c->grad = grad;
done:
    return st;
}

/* ---- the call ---- */

static const struct sharing_functions heads = {agree_on_call, describe_heads, lay_out_tensors, open, close},
                                      heads_to_come = {guess, describe_heads, lay_out_tensors, open, close};

static head_call begin_heads(const hga_plan *plan, const struct sharing_functions *of)
{
    head_call h = {.shared.of = of, .plan = plan};
    h.shared.kv_end = heads_of_rank(plan, plan->share.ranks->exchange->rank, &h.shared.kv_first);
    return h;
}

static hga_status go_by_heads(gradient_call *c, hga_workspace *workspace)
{
    head_call h = begin_heads(c->plan, &heads);
    return gradient_run(c, workspace, &h.shared);
}

static hga_status prepare(gradient_call *c, hga_workspace *workspace, int64_t *bytes)
{
    head_call h = begin_heads(c->plan, &heads_to_come);
    return gradient_prepare(c, workspace, bytes, &h.shared);
}

static hga_status go_with_none(const hga_plan *plan)
{
    return rank_call_meet(plan->share.ranks->exchange, rank_word_of(RANKS_GO_BACK, plan, NULL, 0));
}

const struct shared_gradient heads_shared = {go_by_heads, prepare, go_with_none};
