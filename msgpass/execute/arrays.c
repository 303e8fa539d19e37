/* arrays.c: what a call writes must lie apart from what it reads: rows would be read after others were written there,
   and threads go through both at once. */
#include "bindings.h"
#include "execute.h"

/* ---- of one call ---- */

static void add_array(call_arrays *c, const given_array *a, int written)
{
    if (a->data) c->array[c->n++] = (call_array){.at = *a, .written = written};
}

static void add_block(call_arrays *c, const char *what, const void *data, int64_t n, size_t size, int written)
{
    given_array a = array_of_block(what, data, n * (int64_t)size);
    add_array(c, &a, written);
}

/* Of the output the rows that are asked for, with their log-sum-exps. */
static hga_status add_output(const hga_plan *plan, const hga_io *io, hga_workspace *state)
{
    hga_status st = HGA_OK;
    given_array a;
    hga_id f = program_bound(&plan->program, HGA_IO_OUT), first = state->row_first - plan->storage[f].io_first;
    hga_id n = state->row_end - state->row_first, heads = plan->storage[f].heads;
    HGA_TRY(array_of_tensor("the output", "", &io->out, first, n, heads, plan->storage[f].columns, &a));
    add_array(&state->arrays, &a, 1);
    HGA_TRY(array_of_tensor("the log-sum-exp", "", &io->lse, first, n, heads, 1, &a));
    add_array(&state->arrays, &a, 1);
    add_block(&state->arrays, "the tape", io->tape, hga_plan_tape_bytes(plan), 1, 1);
done:
    return st;
}

static hga_status add_field(const hga_plan *plan, const hga_io *io, hga_workspace *state, hga_id f)
{
    const char *name = plan->program.field[f].name;
    const field_storage *h = &plan->storage[f];
    const hga_tensor *t = program_tensor(&plan->program, io, f);
    given_array a;
    if (!t || plan->program.field[f].binding == HGA_IO_OUT) return HGA_OK;
    hga_status st = array_of_tensor("the tensor of field", name, t, 0, h->io_n, h->heads, h->columns, &a);
    if (!st) add_array(&state->arrays, &a, program_writes_given(&plan->program, f) != 0);
    return st;
}

static void add_tables(const hga_plan *plan, const hga_io *io, call_arrays *c)
{
    const hga_shape *s = &plan->shape;
    add_block(c, "rel_key", io->rel_key, (int64_t)io->n_rel_key * s->dim, sizeof(float), 0);
    add_block(c, "rel_bias", io->rel_bias, (int64_t)io->n_rel_bias * s->n_heads, sizeof(float), 0);
    add_block(c, "edge_bias", io->edge_bias, io->n_edge_bias * io->edge_bias_heads, sizeof(float), 0);
    add_block(c, "node_pos", io->node_pos, (int64_t)plan->nodes.n * s->pos_dim, sizeof(float), 0);
    add_block(c, "type_scale", io->type_scale, io->n_type_scale, sizeof(float), 0);
}

hga_status arrays_find(const hga_plan *plan, const hga_io *io, hga_workspace *state)
{
    call_arrays *c = &state->arrays;
    hga_status st = HGA_OK;
    c->n = 0;
    HGA_TRY(add_output(plan, io, state));
    for (hga_id f = 1; f <= plan->program.n_fields; f++) HGA_TRY(add_field(plan, io, state, f));
    add_tables(plan, io, c);
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k <= i; k++)
            if (c->array[i].written || c->array[k].written)
                HGA_TRY(arrays_apart(&c->array[k].at, c->array[k].written, &c->array[i].at, c->array[i].written));
done:
    return st;
}

/* ---- of the samples of a batch ---- */

/* Two lists by where arrays begin become one. */
static call_array *merge(call_array *a, call_array *b)
{
    call_array *first = NULL, **last = &first;
    for (; a && b; last = &(*last)->next) {
        call_array **least = b->at.first < a->at.first ? &b : &a;
        *last = *least, *least = (*least)->next;
    }
    *last = a ? a : b;
    return first;
}

/* The arrays of all samples by where they begin: list i is of 2^i of them, or empty. */
static call_array *sort_arrays(hga_workspace *const *states, hga_id n)
{
    enum { LISTS = 48 };
    call_array *list[LISTS] = {NULL}, *all = NULL;
    for (hga_id i = 0; i < n; i++)
        for (int k = 0; k < states[i]->arrays.n; k++) {
            call_array *a = &states[i]->arrays.array[k];
            int at = 0;
            a->sample = i, a->next = NULL;
            for (; list[at]; at++) a = merge(list[at], a), list[at] = NULL;
            list[at] = a;
        }
    for (int at = 0; at < LISTS; at++) all = merge(all, list[at]);
    return all;
}

/* `x` against all before it in the list; *sample is the later one of two that meet. */
static hga_status compare(const call_array *list, const call_array *x, hga_id *sample)
{
    for (const call_array *y = list; y != x; y = y->next) {
        if (y->sample == x->sample || !(x->written || y->written) || !arrays_meet(&x->at, &y->at)) continue;
        const call_array *later = y->sample > x->sample ? y : x, *other = later == x ? y : x;
        *sample = later->sample;
        return arrays_refuse(&later->at, &other->at, other->sample);
    }
    return HGA_OK;
}

/* An array that begins behind the ends of all before it meets none of them. */
hga_status arrays_of_samples(hga_workspace *const *states, hga_id n, hga_id *sample)
{
    hga_status st = HGA_OK;
    uintptr_t written = 0, any = 0;
    const call_array *list = sort_arrays(states, n);
    for (const call_array *x = list; x && !st; x = x->next) {
        if (x->at.first < (x->written ? any : written)) st = compare(list, x, sample);
        if (x->at.end > any) any = x->at.end;
        if (x->written && x->at.end > written) written = x->at.end;
    }
    return st;
}
