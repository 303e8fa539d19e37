/* gradient.c: the call. What it is given is checked before anything is written; then it goes the way of its plan. */
#include "rank_call.h"
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

/* Everything but what the way takes; bytes in all. */
static int64_t lay_out(gradient_call *c, hga_grad_io *own, rank_call *rank, void *memory)
{
    carver room = {.base = memory};
    if (c->plan->ranks) rank_lay_out(c->plan, rank, &room);
    range_open(c, own, &room);
    c->sums = tables_lay_out(&c->needs, &room);
    return room.used;
}

static hga_id find_turns(const gradient_call *c, const way_choice *to)
{
    return to->way->by_heads && c->needs.as_floats ? c->plan->shape.n_heads : c->plan->shape.n_kv_heads;
}

/* The call's way, and the memory that it and the rest take, where the workspace has it from earlier calls without an
   allocation. */
typedef struct departure {
    const way_choice *to;
    char *memory;
    int64_t bytes; /* of all but the way */
} departure;

static hga_status depart(const hga_plan *plan, gradient_call *c, hga_workspace *workspace, departure *d)
{
    hga_status st = HGA_OK;
    void *memory;
    HGA_TRY(way_choose(plan, c->needs.features, &d->to));
    c->needs.turns = find_turns(c, d->to);
    if (c->io && c->grad && d->to->way->skips && d->to->way->skips(c->plan)) range_skip(c);
    d->bytes = lay_out(c, NULL, &(rank_call){0}, NULL);
    HGA_TRY(workspace_spare(workspace, d->bytes + d->to->way->room(c->plan, d->to->made, &c->needs), &memory));
    if (d->to->way->keep) HGA_TRY(d->to->way->keep(c->plan, d->to->made, &c->needs, workspace));
    d->memory = memory;
done:
    return st;
}

/* The call's needs; a rank's are those of the whole tensors that it will have. */
static void find_needs(gradient_call *c, rank_call *rank)
{
    if (c->plan->ranks) rank_describe(c, rank);
    c->needs = needs_of(c);
}

/* Parts of all ranks are put together, and what is wanted of tensors goes to them. */
static hga_status meet_ranks(gradient_call *c, const rank_call *rank, const hga_grad_io *wanted)
{
    hga_status st = HGA_OK;
    HGA_TRY(rank_return_given(c));
    HGA_TRY(rank_sum_shared(c, rank));
    HGA_TRY(rank_sum_tables(c, rank));
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
    rank_call rank = {0};
    departure d;
    HGA_TRY(way_plan(plan, &c->plan));
    unread_take_out(c->plan, &read), c->grad = &read;
    find_needs(c, &rank);
    HGA_TRY(depart(plan, c, workspace, &d));
    if (c->threads > 1) HGA_TRY(threads_prepare(c->threads));
    lay_out(c, &own, &rank, d.memory);
    if (plan->ranks) HGA_TRY(rank_agree(c, &rank));
    if (plan->ranks) rank_open(c, &rank, io, &read);
    tables_clear(c);
    binding old = {0};
    if (c->threads == 1) binding_take_alone(plan, &old);
    st = d.to->way->go(c, d.to->made, workspace, d.memory + d.bytes);
    topology_unbind(&old);
    if (st) goto done;
    sinks_sum(c);
    if (plan->ranks) HGA_TRY(meet_ranks(c, &rank, &read));
    if (plan->ranks) c->grad = &read;
    tables_store(c);
    unread_store(c->plan, wanted);
    binding_say(plan);
done:
    c->grad = wanted, c->plan = plan, c->io = io, c->ranks = NULL;
    return st;
}

/* What such calls need; without tensors what calls of packed floats and without tables do. */
static hga_status prepare(const hga_plan *plan, gradient_call *c, hga_workspace *workspace, hga_grad_io *read)
{
    hga_status st = HGA_OK;
    static const hga_io none;
    rank_call rank = {0};
    departure d;
    HGA_TRY(way_plan(plan, &c->plan));
    if (c->io) {
        unread_take_out(c->plan, read), c->grad = read;
        find_needs(c, &rank);
    } else {
        c->needs = needs_of_all(c->plan), c->needs.threads = c->threads, c->io = &none;
    }
    if (!workspace) return way_choose(plan, c->needs.features, &d.to);
    HGA_TRY(depart(plan, c, workspace, &d));
    if (d.to->way->find) HGA_TRY(d.to->way->find(c, d.to->made, workspace, d.memory + d.bytes));
done:
    return st;
}

hga_status hga_plan_prepare(const hga_plan *plan, hga_workspace *workspace, const hga_io *io, const hga_grad_io *grad)
{
    if (!plan || !io != !grad) return hga_fail(HGA_EINVAL, "no %s", !plan ? "plan" : !io ? "tensors" : "gradients");
    if (!plan->options.gradient) return hga_fail(HGA_EINVAL, "the plan was made without options.gradient");
    if (workspace && !workspace_is_of(workspace, plan))
        return hga_fail(HGA_EINVAL, "the workspace belongs to another plan");
    asked_rows asked;
    hga_status st = io ? ranges_asked(plan, io, &asked) : HGA_OK;
    if (st) return st;
    gradient_call c = {.plan = plan, .io = io, .grad = grad, .threads = threads_allowed(plan->threads)};
    hga_grad_io read = grad ? *grad : (hga_grad_io){0};
    return prepare(plan, &c, workspace, &read);
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

/* ---- what is told before ---- */

int64_t hga_plan_gradient_bytes(const hga_plan *plan)
{
    const way_choice *to;
    if (!plan->options.gradient) return 0;
    if (way_choose(plan, 0, &to)) return -1;
    const hga_shape *s = &plan->shape;
    call_needs needs = needs_of_all(to->plan);
    carver room = {0};
    needs.turns = to->way->by_heads ? s->n_heads : s->n_kv_heads;
    tables_lay_out(&needs, &room);
    int64_t kept = to->way->kept ? to->way->kept(to->plan, to->made, &needs) : 0;
    return room.used + to->way->room(to->plan, to->made, &needs) + kept;
}
