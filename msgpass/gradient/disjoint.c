/* disjoint.c: gradients are disjoint from each other and from everything that the call reads. */
#include "gradient.h"
#include "gradient_check.h"
#include "overlap.h"

enum { MOST_READ = 8 + HGA_MAX_USER_TENSORS + HGA_N_TABLES, MOST_GRADIENTS = 3 + HGA_MAX_USER_TENSORS + HGA_N_TABLES };

/* What a call reads and what it writes. */
typedef struct gradient_arrays {
    io_array read[MOST_READ], outputs[MOST_GRADIENTS];
    int n_read, n_outputs;
} gradient_arrays;

/* Adds a field's tensor, which is read, and its gradient: read for the output, written for all others. */
static hga_status add_tensor(const gradient_call *c, hga_id f, gradient_arrays *all)
{
    const hga_program *p = &c->plan->program;
    const hga_tensor *input = field_tensor(c, f), *output = field_gradient(c, f);
    hga_id heads = field_heads(c->plan, f), columns = field_columns(c->plan, f);
    int64_t n = field_rows_input(c->plan, f);
    int out = p->field[f].binding == HGA_IO_OUT;
    hga_status st = array_of_tensor("the tensor of field", p->field[f].name, input, 0, n, heads, columns,
                                    &all->read[all->n_read++]);
    if (st) return st;
    if (out)
        return array_of_tensor("the given gradient of field", p->field[f].name, output, 0, n, heads, columns,
                               &all->read[all->n_read++]);
    return array_of_tensor("the gradient of field", p->field[f].name, output, 0, n, heads, columns,
                           &all->outputs[all->n_outputs++]);
}

/* Adds the gradients of tensors that the program has no field for: they are zeroed. */
static hga_status add_unbound(const gradient_call *c, gradient_arrays *all)
{
    const hga_shape *s = &c->plan->shape;
    const hga_program *p = &c->plan->program;
    const hga_grad_io *g = c->grad;
    hga_status st = HGA_OK;
    if (!program_bound(p, HGA_IO_QUERY))
        HGA_TRY(array_of_tensor("the gradient of the", "query", &g->d_query, 0, g->d_query.rows, s->n_heads, s->dim,
                                &all->outputs[all->n_outputs++]));
    if (!program_bound(p, HGA_IO_KEY))
        HGA_TRY(array_of_tensor("the gradient of the", "key", &g->d_key, 0, g->d_key.rows, s->n_kv_heads, s->dim,
                                &all->outputs[all->n_outputs++]));
    if (!program_bound(p, HGA_IO_VALUE))
        HGA_TRY(array_of_tensor("the gradient of the", "value", &g->d_value, 0, g->d_value.rows, s->n_kv_heads,
                                s->dim_v, &all->outputs[all->n_outputs++]));
done:
    return st;
}

/* Adds tables, edge_out, the tape and the log-sum-exp's gradient. */
static hga_status add_others(const gradient_call *c, gradient_arrays *all)
{
    const hga_io *io = c->io;
    const hga_grad_io *g = c->grad;
    const hga_id heads = c->plan->shape.n_heads;
    hga_status st = HGA_OK;
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        int64_t bytes = hga_call_entries(t, &c->plan->shape, c->plan->nodes.n, io) * (int64_t)sizeof(float);
        const float *input = io->table[t].data;
        all->outputs[all->n_outputs++] = array_of_block("the gradient of", call_row(t)->name, g->d_table[t], bytes);
        if (input) all->read[all->n_read++] = array_of_block(call_row(t)->name, "", input, bytes);
    }
    hga_id n = field_rows_input(c->plan, program_bound(&c->plan->program, HGA_IO_OUT));
    HGA_TRY(
        array_of_tensor("edge_out", "", &io->edge_out, 0, n, heads, io->edge_value.columns, &all->read[all->n_read++]));
    HGA_TRY(array_of_tensor("the gradient of edge_out", "", &g->d_edge_out, 0, n, heads, io->edge_value.columns,
                            &all->read[all->n_read++]));
    all->read[all->n_read++] = array_of_block("the tape", "", io->tape, hga_plan_tape_bytes(c->plan));
    HGA_TRY(
        array_of_tensor("the gradient of the log-sum-exp", "", &g->d_lse, 0, n, heads, 1, &all->read[all->n_read++]));
done:
    return st;
}

static hga_status compare(const gradient_arrays *all)
{
    hga_status st = HGA_OK;
    for (int i = 0; i < all->n_outputs && !st; i++) {
        if (!all->outputs[i].data) continue;
        for (int k = 0; k < all->n_read && !st; k++) st = arrays_disjoint(&all->outputs[i], 1, &all->read[k], 0);
        for (int k = 0; k <= i && !st; k++) st = arrays_disjoint(&all->outputs[k], 1, &all->outputs[i], 1);
    }
    return st;
}

/* Lists every array that a call reads or writes. */
static hga_status find_arrays(const gradient_call *c, gradient_arrays *all)
{
    hga_status st = HGA_OK;
    *all = (gradient_arrays){.n_read = 0, .n_outputs = 0};
    for (hga_id f = 1; f <= c->plan->program.n_fields; f++)
        if (field_tensor(c, f)) HGA_TRY(add_tensor(c, f, all));
    HGA_TRY(add_unbound(c, all));
    HGA_TRY(add_others(c, all));
done:
    return st;
}

hga_status check_disjoint(const gradient_call *c)
{
    gradient_arrays all;
    hga_status st = find_arrays(c, &all);
    return st ? st : compare(&all);
}

/* ---- many calls at once ---- */

/* Prepends one sample's arrays to the list. */
static call_array *list_arrays(const io_array *a, int n, int written, hga_id sample, call_array **buffer,
                               call_array *list)
{
    for (int i = 0; i < n; i++) {
        if (!a[i].data) continue;
        **buffer = (call_array){.at = a[i], .written = written};
        list = array_listed((*buffer)++, sample, list);
    }
    return list;
}

/* Compares the arrays of all n calls with each other; on failure *sample is the call at fault. */
hga_status calls_disjoint(const gradient_call *call, hga_id n, hga_id *sample)
{
    hga_status st = HGA_OK;
    const hga_allocator *user_allocator = &call->plan->memory.user;
    call_array *memory = NULL, *buffer, *list = NULL;
    gradient_arrays all;
    int64_t most = (int64_t)n * (MOST_READ + MOST_GRADIENTS);
    HGA_TRY(hga_new(user_allocator, most, sizeof *memory, &memory));
    buffer = memory;
    for (*sample = 0; *sample < n; ++*sample) {
        HGA_TRY(find_arrays(&call[*sample], &all));
        list = list_arrays(all.read, all.n_read, 0, *sample, &buffer, list);
        list = list_arrays(all.outputs, all.n_outputs, 1, *sample, &buffer, list);
    }
    st = listed_arrays_disjoint(list, sample);
done:
    hga_delete(user_allocator, memory, most, sizeof *memory);
    return st;
}
