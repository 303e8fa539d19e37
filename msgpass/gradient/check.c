/* check.c: checks a call's arguments before anything is written. */
#include "call_check.h"
#include "gradient_check.h"
#include "call_lists.h"
#include "gradient.h"
#include "tape.h"

/* edge_out is there where edge_value is summed, and where its gradient is; d_lse where the output has one. */
static hga_status check_pairs(const gradient_call *c)
{
    const int value = c->io->edge_value.data != NULL, out = c->io->edge_out.data != NULL;
    if ((out && !value) || (c->grad->d_edge_out.data && !out))
        return hga_fail(HGA_EINVAL, "no %s", value ? "edge_out" : "edge_value");
    if (c->grad->d_lse.data && !c->plan->program.has_lse)
        return hga_fail(HGA_EUNSUPPORTED, "this program's output has no log-sum-exp");
    return HGA_OK;
}

/* Refuses gradients of user tensors that are not in the program: the length of their rows is unknown. */
static hga_status check_users(const gradient_call *c)
{
    const hga_program *p = &c->plan->program;
    hga_id users = 0;
    for (hga_id f = 1; f <= p->n_fields; f++) users += p->field[f].binding == HGA_IO_USER;
    for (hga_id i = users; i < HGA_MAX_USER_TENSORS; i++)
        if (c->grad->d_user[i].data)
            return hga_fail(HGA_EINVAL, "the gradient of user tensor %d is requested, but the program has %d", i,
                            users);
    return HGA_OK;
}

/* Tensors of the forward pass, the output's gradient, and the required gradients. */
static hga_status check_tensors(const gradient_call *c)
{
    gradient_tensors all;
    hga_status st = check_pairs(c);
    list_tensors(c, &all);
    for (int i = 0; i < all.n && !st; i++) st = call_tensor_check(c->plan, &all.of[i]);
    return st ? st : check_users(c);
}

/* Does the table exist? Numbers have their defaults, and the graph has its masses. */
static int is_there(const gradient_call *c, hga_call_table t)
{
    return call_row(t)->is & HGA_CALL_OF_GRAPH || call_row(t)->rows == HGA_EXTENT_ONE || c->io->table[t].data;
}

/* Refuses gradients of tables that have none, that the call does not have, or that the library does not know. */
hga_status call_check_outputs(const gradient_call *c)
{
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        const char *name = call_row(t)->name;
        if (!c->grad->d_table[t]) continue;
        if (!(call_row(t)->is & HGA_CALL_GRADIENT)) return hga_fail(HGA_EUNSUPPORTED, "%s has no gradient", name);
        if (!is_there(c, t))
            return hga_fail(HGA_EINVAL, "the gradient of %s is requested, but there is no %s", name, name);
    }
    for (int t = HGA_N_TABLES; t < HGA_MAX_TABLES; t++)
        if (c->grad->d_table[t])
            return hga_fail(HGA_EINVAL, "hga_grad_io: table %d is requested, which this library does not know", t);
    return HGA_OK;
}

/* The tape is of an execution of the same rows of the output as this call. */
static hga_status check_rows_of_tape(const gradient_call *c, const tape_header *header)
{
    requested_rows requested;
    hga_status st = ranges_requested(c->plan, c->io, &requested);
    if (st) return st;
    requested_stamp is = ranges_stamp(&requested), was = header->requested;
    if (was.first != is.first || was.n != is.n || was.intervals != is.intervals)
        return hga_fail(HGA_EINVAL, "the tape is of rows %lld + %lld of the output%s, not of %lld + %lld%s",
                        (long long)was.first, (long long)was.n, was.intervals > 1 ? " with gaps" : "",
                        (long long)is.first, (long long)is.n, is.intervals > 1 ? " with gaps" : "");
    if (was.hash != is.hash)
        return hga_fail(HGA_EINVAL, "the tape is of other intervals of rows %lld + %lld of the output",
                        (long long)is.first, (long long)is.n);
    return HGA_OK;
}

/* The tape is of this plan, of its graph as it is now and of the same rows. Sets the call's log-sum-exps. */
static hga_status check_tape(gradient_call *c)
{
    if (!c->plan->options.gradient) return hga_fail(HGA_EINVAL, "the plan was made without options.gradient");
    if (!c->io->tape) return hga_fail(HGA_EINVAL, "no tape: hga_plan_execute leaves one in hga_io.tape");
    const tape_header *header = c->io->tape;
    if (header->magic != TAPE_MAGIC) return hga_fail(HGA_EINVAL, "the tape was not written by an execution");
    if (header->identity != c->plan->version.identity) return hga_fail(HGA_EINVAL, "the tape is of another plan");
    if (header->serial != c->plan->version.serial)
        return hga_fail(HGA_EINVAL, "the tape is of the plan's graph before it was updated");
    c->tape_lse = tape_lse(c->io->tape), c->lse_row = c->plan->shape.n_heads;
    return check_rows_of_tape(c, header);
}

/* A user's stage has both adjoints, and no two heads write the same row. */
static hga_status check_user_stage(const hga_plan *plan, const hga_stage *s)
{
    if (!s->udf.finish_adjoint || !s->udf.edge_adjoint)
        return hga_fail(HGA_EUNSUPPORTED, "stage %s is a user's function, which has no %s", s->name,
                        !s->udf.finish_adjoint ? "finish_adjoint" : "edge_adjoint");
    for (hga_id f = 1; f <= plan->program.n_fields; f++)
        if (s->writes >> f & 1u && field_heads(plan, f) != plan->shape.n_heads)
            return hga_fail(HGA_EUNSUPPORTED, "stage %s: %d heads write field %s of %d", s->name, plan->shape.n_heads,
                            plan->program.field[f].name, field_heads(plan, f));
    return HGA_OK;
}

/* Does every stage have an adjoint? */
static hga_status check_stages(const hga_plan *plan)
{
    hga_status st = HGA_OK;
    for (hga_id s = 0; !st && s < plan->program.n_stages; s++)
        if (plan->stage[s].kind == KIND_USER) st = check_user_stage(plan, &plan->program.stage[s]);
    return st;
}

static hga_status check_reserved(const gradient_call *c)
{
    hga_status st = hga_check_reserved("hga_grad_io", c->grad->reserved, sizeof c->grad->reserved);
    if (!st) st = hga_check_reserved("hga_io", c->io->reserved, sizeof c->io->reserved);
    if (!st && c->grad->accumulate != 0 && c->grad->accumulate != 1)
        st = hga_fail(HGA_EINVAL, "accumulate %d is neither 0 nor 1", c->grad->accumulate);
    if (!st) st = call_check_tables(&c->plan->program, &c->plan->shape, c->plan->nodes.n, c->io);
    if (!st) st = plan_check_call(c->plan, c->io);
    return st ? st : plan_make_call_lists(c->plan, c->io);
}

/* Checks in this order: tensors fit before required gradients are checked, and before written memory is compared
   with memory that is read. */
hga_status call_check(gradient_call *c)
{
    hga_status st = HGA_OK;
    HGA_TRY(check_reserved(c));
    HGA_TRY(check_tape(c));
    HGA_TRY(check_stages(c->plan));
    HGA_TRY(check_tensors(c));
    HGA_TRY(call_check_outputs(c));
    HGA_TRY(check_disjoint(c));
done:
    return st;
}

/* Numbers of an input; -1: the call does not have it. */
static int64_t count_entries(const gradient_call *c, hga_gradient_input input)
{
    const hga_program *p = &c->plan->program;
    const hga_shape *s = &c->plan->shape;
    hga_id first;
    if ((int)input >= HGA_GRADIENT_TABLE) {
        const hga_call_table t = (hga_call_table)(input - HGA_GRADIENT_TABLE);
        return is_there(c, t) ? hga_call_entries(t, s, c->plan->nodes.n, c->io) : -1;
    }
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (program_gradient_input(p, f) == input)
            return (int64_t)field_io(c->plan, f, &first) * program_heads(p, s, f) * field_columns(c->plan, f);
    return -1;
}

hga_status call_check_input(const gradient_call *c)
{
    const hga_gradient_input input = c->moved.input;
    const int t = (int)input - HGA_GRADIENT_TABLE;
    if (input == HGA_GRADIENT_NONE) return HGA_OK;
    if (t >= 0 && (t >= HGA_N_TABLES || !(call_row((hga_call_table)t)->is & HGA_CALL_GRADIENT)))
        return hga_fail(HGA_EINVAL, "loss: table %d has no gradient", t);
    const int64_t n = count_entries(c, input), entry = c->moved.entry;
    if (n < 0) return hga_fail(HGA_EINVAL, "loss: the call has no input of number %d", (int)input);
    if (entry >= 0 && entry < n) return HGA_OK;
    return hga_fail(HGA_EINVAL, "loss: entry %lld of an input of %lld numbers", (long long)entry, (long long)n);
}

hga_status call_check_loss(const gradient_call *c)
{
    hga_status st = HGA_OK;
    HGA_TRY(check_reserved(c));
    HGA_TRY(check_stages(c->plan));
    HGA_TRY(check_tensors(c));
done:
    return st;
}
