/* disjoint.c: the tensors of a gradient's call, listed once; its gradients are disjoint from each other and from
   everything that the call reads. */
#include "gradient.h"
#include "gradient_check.h"
#include "overlap.h"

/* ---- the tensors of a call ---- */

static void add(gradient_tensors *all, call_tensor x, unsigned is)
{
    x.is = is;
    if (x.tensor) all->of[all->n++] = x;
}

/* Gradients of tensors that the program has no field for, which are zeros; rows as any other of their kind. */
static void add_unbound(const gradient_call *c, gradient_tensors *all)
{
    const hga_shape *s = &c->plan->shape;
    const hga_grad_io *g = c->grad;
    const struct {
        hga_binding binding;
        call_tensor x;
    } inputs[] = {
        {HGA_IO_QUERY, {.name = "query", .tensor = &g->d_query, .heads = s->n_heads, .columns = s->dim}},
        {HGA_IO_KEY, {.name = "key", .tensor = &g->d_key, .heads = s->n_kv_heads, .columns = s->dim}},
        {HGA_IO_VALUE, {.name = "value", .tensor = &g->d_value, .heads = s->n_kv_heads, .columns = s->dim_v}}};
    for (int i = 0; i < 3; i++) {
        call_tensor x = inputs[i].x;
        x.what = "the gradient of the", x.rows = x.tensor->rows;
        if (!program_bound(&c->plan->program, inputs[i].binding)) add(all, x, TENSOR_IS_WRITTEN);
    }
}

/* The gradient of the output is read, all others are written. */
void list_tensors(const gradient_call *c, gradient_tensors *all)
{
    const hga_plan *plan = c->plan;
    const hga_io *io = c->io;
    const hga_grad_io *g = c->grad;
    all->n = 0;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        const int out = plan->program.field[f].binding == HGA_IO_OUT;
        const char *what = out ? "the given gradient of field" : "the gradient of field";
        add(all, tensor_of_field(plan, f, field_tensor(c, f), "the tensor of field"), TENSOR_IS_NEEDED);
        add(all, tensor_of_field(plan, f, field_gradient(c, f), what), out ? TENSOR_IS_NEEDED : TENSOR_IS_WRITTEN);
    }
    add(all, tensor_of_output(plan, &io->edge_out, "edge_out", io->edge_value.columns),
        TENSOR_IS_FLOAT32 | TENSOR_IS_UNFOLDED);
    add(all, tensor_of_output(plan, &g->d_edge_out, "the gradient of edge_out", io->edge_value.columns),
        TENSOR_IS_FLOAT32 | TENSOR_IS_UNFOLDED);
    add(all, tensor_of_output(plan, &g->d_lse, "the gradient of the log-sum-exp", 1), TENSOR_IS_FLOAT32);
    add_unbound(c, all);
}

/* ---- its arrays ---- */

enum { MOST_READ = MOST_TENSORS + 1 + HGA_N_TABLES, MOST_GRADIENTS = MOST_TENSORS + HGA_N_TABLES };

/* What a call reads and what it writes. */
typedef struct gradient_arrays {
    io_array read[MOST_READ], outputs[MOST_GRADIENTS];
    int n_read, n_outputs;
} gradient_arrays;

/* Lists every array that a call reads or writes. */
static hga_status find_arrays(const gradient_call *c, gradient_arrays *all)
{
    gradient_tensors tensors;
    hga_status st = HGA_OK;
    all->n_read = all->n_outputs = 0;
    list_tensors(c, &tensors);
    for (int i = 0; i < tensors.n && !st; i++) {
        const call_tensor *t = &tensors.of[i];
        st = call_tensor_array(t,
                               t->is & TENSOR_IS_WRITTEN ? &all->outputs[all->n_outputs++] : &all->read[all->n_read++]);
    }
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        all->outputs[all->n_outputs++] = call_table_array(c->plan, c->io, t, c->grad->d_table[t], "the gradient of");
        all->read[all->n_read++] = call_table_array(c->plan, c->io, t, c->io->table[t].data, "");
    }
    all->read[all->n_read++] = array_of_block("the tape", "", c->io->tape, hga_plan_tape_bytes(c->plan));
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
