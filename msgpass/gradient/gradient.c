/* gradient.c: the call. Its arguments are checked before anything is written; then the plan's solver runs. */
#include "carve.h"
#include "gradient_rows.h"
#include "gradient_check.h"
#include "call_lists.h"
#include "plan.h"
#include "ranges.h"
#include "thread_binding.h"
#include "plain.h"
#include "solvers.h"
#include "workspace_base.h"

static gradient_call call_of(const hga_plan *plan, const hga_io *io, const hga_grad_io *grad)
{
    return (gradient_call){.plan = plan,
                           .io = io,
                           .grad = grad,
                           .scale = semantics_scale(&plan->program, &plan->shape, io),
                           .threads = threads_allowed(plan->team.n)};
}

hga_status gradient_begin(const hga_plan *plan, const hga_workspace *workspace, const hga_io *io,
                          const hga_grad_io *grad, gradient_call *c)
{
    *c = call_of(plan, io, grad), c->samples = 1;
    if (!workspace_is_of(workspace, plan)) return hga_fail(HGA_EINVAL, "the workspace belongs to another plan");
    return call_check(c);
}

/* ---- memory ---- */

/* Carves all memory of a call but the solver's; returns the bytes in all. `shared`: what several processes share of
   the call; or NULL. */
static int64_t lay_out_call(gradient_call *c, hga_grad_io *own, sharing *shared, void *memory)
{
    carver arena = {.base = memory};
    if (shared) shared->of->lay_out(shared, c, &arena);
    range_open(c, own, &arena);
    c->sums = tables_lay_out(&c->needs, &arena);
    return arena.used;
}

static hga_id find_head_groups(const gradient_call *c, const solver_choice *to)
{
    return to->solver->by_heads && c->needs.as_floats ? c->plan->shape.n_heads : c->plan->shape.n_kv_heads;
}

/* Does this process compute any head? Of several processes some may have none. */
static int has_heads(const gradient_call *c) { return c->needs.kv_end > c->needs.kv_first; }

/* The call's solver, and the memory of both; a workspace has it from earlier calls without an allocation. */
typedef struct call_memory {
    const solver_choice *to;
    char *memory;
    int64_t bytes, solver, cached; /* of all but the solver, of the solver, and what it caches */
} call_memory;

/* Chooses the call's solver, and measures the bytes that it and the call take. */
static hga_status measure_call(const hga_plan *plan, gradient_call *c, sharing *shared, call_memory *d)
{
    hga_status st = solver_choose(plan, c->needs.features, &d->to);
    if (st) return st;
    const struct solver *chosen = d->to->solver;
    c->needs.head_groups = find_head_groups(c, d->to);
    if (chosen->writes_edges) c->needs.entries[HGA_TABLE_EDGE_KEY] = c->needs.entries[HGA_TABLE_EDGE_VALUE] = 0;
    if (c->io && c->grad && chosen->skips && chosen->skips(c->plan)) range_skip(c);
    if (shared) shared->reads_out = chosen->reads_out;
    d->bytes = lay_out_call(c, NULL, shared, NULL);
    d->solver = has_heads(c) ? chosen->bytes(c->plan, d->to->made, &c->needs) : 0;
    d->cached = has_heads(c) && chosen->cached_bytes ? chosen->cached_bytes(c->plan, d->to->made, &c->needs) : 0;
    return HGA_OK;
}

/* Chooses the solver and takes the call's memory from the workspace. */
static hga_status take_memory(const hga_plan *plan, gradient_call *c, sharing *shared, hga_workspace *workspace,
                              call_memory *d)
{
    hga_status st = measure_call(plan, c, shared, d);
    void *memory;
    if (st) return st;
    const struct solver *chosen = d->to->solver;
    HGA_TRY(workspace_spare(workspace, d->bytes + d->solver, &memory));
    if (chosen->cache && has_heads(c)) HGA_TRY(chosen->cache(c->plan, d->to->made, &c->needs, workspace));
    d->memory = memory;
done:
    return st;
}

/* Finds what the call reads and writes; several processes first describe the call that this one runs. */
static void find_needs(gradient_call *c, sharing *shared)
{
    if (shared && c->io) shared->of->describe(shared, c);
    c->needs = c->io ? needs_of(c) : needs_of_all(c->plan);
    if (!c->io) c->needs.threads = c->threads;
    if (shared) c->needs.kv_first = shared->kv_first, c->needs.kv_end = shared->kv_end;
}

/* Runs a checked call: chooses the solver, runs it, and stores the sums of tables in the caller's tables. */
hga_status gradient_run(gradient_call *c, hga_workspace *workspace, sharing *shared)
{
    hga_status st = HGA_OK;
    const hga_plan *plan = c->plan;
    const hga_io *io = c->io;
    const hga_grad_io *grad = c->grad;
    hga_grad_io own = {0}, read = *grad;
    call_memory d;
    HGA_TRY(solver_plan(plan, &c->plan));
    unread_take_out(c->plan, &read), c->grad = &read;
    if (shared) HGA_TRY(shared->of->agree(shared, c, workspace));
    find_needs(c, shared);
    HGA_TRY(take_memory(plan, c, shared, workspace, &d));
    if (c->threads > 1) HGA_TRY(threads_prepare(c->threads));
    lay_out_call(c, &own, shared, d.memory);
    if (shared) HGA_TRY(shared->of->open(shared, c, io, &read));
    tables_clear(c);
    binding old = {0};
    if (c->threads == 1) binding_take_alone(plan, &old);
    if (has_heads(c)) st = d.to->solver->go(c, d.to->made, workspace, d.memory + d.bytes);
    topology_unbind(&old);
    if (st) goto done;
    sinks_sum(c);
    if (shared) HGA_TRY(shared->of->close(shared, c, &read));
    tables_store(c);
    unread_store(c->plan, grad);
    binding_say(plan);
done:
    c->grad = grad, c->plan = plan, c->io = io;
    return st;
}

hga_status gradient_go(gradient_call *c, hga_workspace *workspace)
{
    const plan_wing *wing = c->plan->share.wing;
    return wing ? wing->gradient->go(c, workspace) : gradient_run(c, workspace, NULL);
}

/* Measures a call; with a workspace, takes its memory and finds now what the solver finds out of the graph. */
hga_status gradient_prepare(gradient_call *c, hga_workspace *workspace, int64_t *bytes, sharing *shared)
{
    hga_status st = HGA_OK;
    static const hga_io none;
    const hga_plan *plan = c->plan;
    hga_grad_io read;
    call_memory d;
    HGA_TRY(solver_plan(plan, &c->plan));
    if (c->grad) read = *c->grad, unread_take_out(c->plan, &read), c->grad = &read;
    if (shared) HGA_TRY(shared->of->agree(shared, c, workspace));
    find_needs(c, shared);
    if (!c->io) c->io = &none;
    HGA_TRY(workspace ? take_memory(plan, c, shared, workspace, &d) : measure_call(plan, c, shared, &d));
    if (bytes) *bytes = d.bytes + d.solver + d.cached;
    if (workspace && d.to->solver->find && has_heads(c))
        HGA_TRY(d.to->solver->find(c, d.to->made, workspace, d.memory + d.bytes));
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
    requested_rows requested;
    hga_status st = io ? ranges_requested(plan, io, &requested) : HGA_OK;
    if (!st && io) st = plan_make_call_lists(plan, io);
    if (st) return st;
    gradient_call c = {.plan = plan, .io = io, .grad = grad, .threads = threads_allowed(plan->team.n)};
    if (io) st = call_check_outputs(&c);
    if (st) return st;
    const plan_wing *wing = plan->share.wing;
    return wing ? wing->gradient->prepare(&c, workspace, bytes) : gradient_prepare(&c, workspace, bytes, NULL);
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
    if (plan->share.wing) return plan_failed(plan, hga_fail(HGA_EUNSUPPORTED, "ranks: a loss is of one process' rows"));
    if (plan->options.precision != HGA_PRECISION_F32)
        return hga_fail(HGA_EUNSUPPORTED, "operands rounded to bfloat16 have no slope");
    if (!plan->options.gradient) return hga_fail(HGA_EINVAL, "the plan was made without options.gradient");
    hga_status st = HGA_OK;
    hga_grad_io own = {0};
    carver arena = {0};
    void *rows = NULL;
    gradient_call c = call_of(plan, io, grad);
    c.moved = (nudge){input, entry, by};
    HGA_TRY(call_check_loss(&c));
    HGA_TRY(call_check_input(&c));
    range_needs(&c, c.needs.compact_bytes);
    range_open(&c, &own, &arena);
    HGA_TRY(hga_new(&plan->memory.user, arena.used, 1, &rows));
    if (arena.used) range_open(&c, &own, &(carver){.base = rows});
    *loss = 0;
    for (hga_id kv = 0; kv < plan->shape.n_kv_heads; kv++) {
        double part;
        HGA_TRY(plain_loss(&c, kv, &part));
        *loss += part;
    }
done:
    hga_delete(&plan->memory.user, rows, arena.used, 1);
    return st;
}
