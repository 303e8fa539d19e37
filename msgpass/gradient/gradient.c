/* gradient.c: the call. What it is given is checked before anything is written; then it goes the way of its plan. */
#include "rank_call.h"
#include "rank_heads.h"
#include "ways.h"

static gradient_call call_of(const hga_plan *plan, const hga_io *io, const hga_grad_io *grad)
{
    return (gradient_call){.plan = plan,
                           .io = io,
                           .grad = grad,
                           .scale = meaning_scale(&plan->program, &plan->shape, io),
                           .threads = threads_allowed(plan->threads)};
}

hga_status gradient_begin(const hga_plan *plan, const hga_workspace *workspace, const hga_io *io,
                          const hga_grad_io *grad, gradient_call *c)
{
    *c = call_of(plan, io, grad), c->samples = 1;
    if (!workspace_is_of(workspace, plan)) return hga_fail(HGA_EINVAL, "the workspace belongs to another plan");
    return call_check(c);
}

/* ---- memory ---- */

/* What ranks share of the call: rows of all heads, or heads of all rows. */
typedef struct shared_call {
    rank_call rows;
    head_call heads;
} shared_call;

static int goes_by_heads(const hga_plan *plan) { return plan->ranks && !ranks_go_by_rows(plan); }

/* Everything but what the way takes; bytes in all. */
static int64_t lay_out(gradient_call *c, hga_grad_io *own, shared_call *shared, void *memory)
{
    carver room = {.base = memory};
    if (c->plan->ranks) rank_lay_out(c->plan, &shared->rows, &room);
    if (shared->heads.plan) heads_lay_out(c, &shared->heads, &room);
    range_open(c, own, &room);
    c->sums = tables_lay_out(&c->needs, &room);
    return room.used;
}

static hga_id find_turns(const gradient_call *c, const way_choice *to)
{
    return to->way->by_heads && c->needs.as_floats ? c->plan->shape.n_heads : c->plan->shape.n_kv_heads;
}

/* Has the call any head? On ranks there may be none for it. */
static int has_heads(const gradient_call *c) { return c->needs.kv_end > c->needs.kv_first; }

/* The call's way, and the memory that it and the rest take, where the workspace has it from earlier calls without an
   allocation. */
typedef struct departure {
    const way_choice *to;
    char *memory;
    int64_t bytes, way, kept; /* of all but the way, of the way, and what it keeps */
} departure;

static hga_status measure(const hga_plan *plan, gradient_call *c, shared_call shared, departure *d)
{
    hga_status st = way_choose(plan, c->needs.features, &d->to);
    if (st) return st;
    const struct way *goes = d->to->way;
    c->needs.turns = find_turns(c, d->to);
    if (c->io && c->grad && goes->skips && goes->skips(c->plan)) range_skip(c);
    shared.heads.reads_out = goes->reads_out;
    d->bytes = lay_out(c, NULL, &shared, NULL);
    d->way = has_heads(c) ? goes->room(c->plan, d->to->made, &c->needs) : 0;
    d->kept = has_heads(c) && goes->kept ? goes->kept(c->plan, d->to->made, &c->needs) : 0;
    return HGA_OK;
}

static hga_status depart(const hga_plan *plan, gradient_call *c, shared_call shared, hga_workspace *workspace,
                         departure *d)
{
    hga_status st = measure(plan, c, shared, d);
    void *memory;
    if (st) return st;
    const struct way *goes = d->to->way;
    HGA_TRY(workspace_spare(workspace, d->bytes + d->way, &memory));
    if (goes->keep && has_heads(c)) HGA_TRY(goes->keep(c->plan, d->to->made, &c->needs, workspace));
    d->memory = memory;
done:
    return st;
}

/* A rank has its own. */
static void find_heads(gradient_call *c, const shared_call *shared)
{
    const hga_plan *plan = shared->heads.plan;
    if (plan) c->needs.kv_end = heads_of_rank(plan, plan->ranks->exchange->rank, &c->needs.kv_first);
}

/* The call's needs; a rank's are those of the tensors that it will have. */
static void find_needs(gradient_call *c, shared_call *shared)
{
    if (c->plan->ranks) rank_describe(c, &shared->rows);
    if (shared->heads.plan) heads_describe(c, &shared->heads);
    c->needs = needs_of(c);
    find_heads(c, shared);
}

/* What the rank is to have of others comes. */
static hga_status open_shared(gradient_call *c, shared_call *shared, const hga_io *io, const hga_grad_io *given)
{
    hga_status st = HGA_OK;
    if (shared->heads.plan) return heads_open(c, &shared->heads, io, given);
    if (!c->plan->ranks) return HGA_OK;
    HGA_TRY(rank_agree(c, &shared->rows));
    rank_open(c, &shared->rows, io, given);
done:
    return st;
}

/* Parts of all ranks are put together, and what is wanted of tensors goes to them. */
static hga_status close_shared(gradient_call *c, const shared_call *shared, const hga_grad_io *wanted)
{
    hga_status st = HGA_OK;
    if (shared->heads.plan) return heads_close(c, &shared->heads, wanted);
    if (!c->plan->ranks) return HGA_OK;
    HGA_TRY(rank_return_given(c));
    HGA_TRY(rank_sum_shared(c, &shared->rows));
    HGA_TRY(rank_sum_tables(c, &shared->rows));
    rank_store(c, wanted);
done:
    return st;
}

hga_status gradient_go(gradient_call *c, hga_workspace *workspace)
{
    hga_status st = HGA_OK;
    const hga_plan *plan = c->plan;
    const hga_io *io = c->io;
    const hga_grad_io *wanted = c->grad;
    hga_grad_io own = {0}, read = *wanted;
    shared_call shared = {0};
    departure d;
    HGA_TRY(way_plan(plan, &c->plan));
    unread_take_out(c->plan, &read), c->grad = &read;
    if (goes_by_heads(plan)) HGA_TRY(heads_agree(c, plan, workspace, &shared.heads));
    find_needs(c, &shared);
    HGA_TRY(depart(plan, c, shared, workspace, &d));
    if (c->threads > 1) HGA_TRY(threads_prepare(c->threads));
    shared.heads.reads_out = d.to->way->reads_out;
    lay_out(c, &own, &shared, d.memory);
    HGA_TRY(open_shared(c, &shared, io, &read));
    tables_clear(c);
    binding old = {0};
    if (c->threads == 1) binding_take_alone(plan, &old);
    if (has_heads(c)) st = d.to->way->go(c, d.to->made, workspace, d.memory + d.bytes);
    topology_unbind(&old);
    if (st) goto done;
    sinks_sum(c);
    HGA_TRY(close_shared(c, &shared, &read));
    if (plan->ranks) c->grad = &read;
    tables_store(c);
    unread_store(c->plan, wanted);
    binding_say(plan);
done:
    c->grad = wanted, c->plan = plan, c->io = io, c->ranks = NULL;
    return st;
}

/* What such calls need; without tensors what calls of packed floats and without tables do. */
static hga_status prepare(const hga_plan *plan, gradient_call *c, hga_workspace *workspace, hga_grad_io *read,
                          int64_t *bytes)
{
    hga_status st = HGA_OK;
    static const hga_io none;
    shared_call shared = {0};
    departure d;
    HGA_TRY(way_plan(plan, &c->plan));
    if (c->io) {
        unread_take_out(c->plan, read), c->grad = read;
        if (goes_by_heads(plan)) heads_guess(c, plan, &shared.heads);
        find_needs(c, &shared);
    } else {
        c->needs = needs_of_all(c->plan), c->needs.threads = c->threads, c->io = &none;
        if (goes_by_heads(plan)) heads_guess_all(plan, &c->needs, &shared.heads);
        find_heads(c, &shared);
    }
    HGA_TRY(workspace ? depart(plan, c, shared, workspace, &d) : measure(plan, c, shared, &d));
    if (bytes) *bytes = d.bytes + d.way + d.kept;
    if (workspace && d.to->way->find && has_heads(c))
        HGA_TRY(d.to->way->find(c, d.to->made, workspace, d.memory + d.bytes));
done:
    return st;
}

hga_status hga_plan_prepare(const hga_plan *plan, hga_workspace *workspace, const hga_io *io, const hga_grad_io *grad,
                            int64_t *bytes)
{
    if (!plan || !io != !grad) return hga_fail(HGA_EINVAL, "no %s", !plan ? "plan" : !io ? "tensors" : "gradients");
    if (!plan->options.gradient) return hga_fail(HGA_EINVAL, "the plan was made without options.gradient");
    if (workspace && !workspace_is_of(workspace, plan))
        return hga_fail(HGA_EINVAL, "the workspace belongs to another plan");
    asked_rows asked;
    hga_status st = io ? ranges_asked(plan, io, &asked) : HGA_OK;
    if (!st && io) st = plan_bring(plan, io);
    if (st) return st;
    gradient_call c = {.plan = plan, .io = io, .grad = grad, .threads = threads_allowed(plan->threads)};
    if (io) st = call_check_wanted(&c);
    if (st) return st;
    hga_grad_io read = grad ? *grad : (hga_grad_io){0};
    return prepare(plan, &c, workspace, &read, bytes);
}

hga_status hga_plan_gradient(const hga_plan *plan, hga_workspace *workspace, const hga_io *io, const hga_grad_io *grad)
{
    if (!plan || !workspace || !io || !grad)
        return plan_failed(plan, hga_fail(HGA_EINVAL, "no %s",
                                          !plan        ? "plan"
                                          : !workspace ? "workspace"
                                          : !io        ? "tensors"
                                                       : "gradients"));
    gradient_call c;
    hga_status st = gradient_begin(plan, workspace, io, grad, &c);
    return plan_failed(plan, st ? st : gradient_go(&c, workspace));
}

hga_status hga_plan_loss(const hga_plan *plan, const hga_io *io, const hga_grad_io *grad, hga_gradient_input input,
                         int64_t entry, double by, double *loss)
{
    if (!plan || !io || !grad || !loss)
        return hga_fail(HGA_EINVAL, "no %s", !plan ? "plan" : !io ? "tensors" : !grad ? "gradients" : "loss");
    if (plan->ranks) return plan_failed(plan, hga_fail(HGA_EUNSUPPORTED, "ranks: a loss is of one process' rows"));
    if (plan->options.precision != HGA_PRECISION_F32)
        return hga_fail(HGA_EUNSUPPORTED, "operands rounded to bfloat16 have no slope");
    if (!plan->options.gradient) return hga_fail(HGA_EINVAL, "the plan was made without options.gradient");
    hga_status st = HGA_OK;
    hga_grad_io own = {0};
    carver room = {0};
    void *rows = NULL;
    gradient_call c = call_of(plan, io, grad);
    c.moved = (nudge){input, entry, by};
    HGA_TRY(call_check_loss(&c));
    HGA_TRY(call_check_input(input));
    range_needs(&c, c.needs.kept_bytes);
    range_open(&c, &own, &room);
    HGA_TRY(hga_new(&plan->given, room.used, 1, &rows));
    if (room.used) range_open(&c, &own, &(carver){.base = rows});
    *loss = 0;
    for (hga_id kv = 0; kv < plan->shape.n_kv_heads; kv++) {
        double part;
        HGA_TRY(plain_loss(&c, kv, &part));
        *loss += part;
    }
done:
    hga_delete(&plan->given, rows, room.used, 1);
    return st;
}
