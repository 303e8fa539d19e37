/* calls.c: samples of a call described to the library, as many at a time as the plan has threads. */
#include "calls.h"

#include <math.h>
#include <string.h>

uintptr_t hga_py_address(const char *buffer) { return (uintptr_t)buffer; }

int64_t hga_py_tape_of(const hga_plan *plan) { return (hga_plan_tape_bytes(plan) + 8 + 63) / 64 * 64; }

/* The address of a sample's part of something packed; 0 stays 0. */
static void *packed(uintptr_t base, int64_t sample, int64_t bytes)
{
    return base ? (char *)base + sample * bytes : NULL;
}

/* Where a sample's query, key and value begin. */
static void find_inputs(const hga_py_call *call, int64_t sample, const uintptr_t base[3], void *at[3])
{
    int64_t offset[3] = {0, 0, 0};
    for (hga_id axis = call->n_axes - 1; axis >= 0; axis--) {
        int64_t i = sample % call->shape[axis];
        sample /= call->shape[axis];
        for (int t = 0; t < 3; t++) offset[t] += i * call->strides[3 * axis + t];
    }
    for (int t = 0; t < 3; t++) at[t] = (char *)base[t] + offset[t];
}

static void set_tables(hga_io *io, const hga_py_tables *tables)
{
    for (int t = 0; tables && t < HGA_N_TABLES; t++)
        if (tables->input[t]) io->table[t].data = (const float *)tables->input[t];
}

/* What a sample reads, and the output. */
static void set_sample(const hga_py_call *call, int64_t sample, const uintptr_t inputs[3], uintptr_t out,
                       uintptr_t tape, const hga_py_tables *tables, uint64_t seed, uint32_t layer, hga_io *io)
{
    *io = call->io;
    void *at[3];
    find_inputs(call, sample, inputs, at);
    io->query.data = at[0];
    io->key.data = at[1];
    io->value.data = at[2];
    io->out.data = packed(out, sample, call->out_bytes);
    if (call->features_at) io->edge_out.data = (char *)io->out.data + call->features_at;
    io->tape = packed(tape, sample, call->tape_bytes);
    set_tables(io, tables);
    io->seed = seed;
    io->layer = layer;
}

/* Each thread has a sample to itself as long as there is one. */
static hga_status take_workspaces(const hga_py_call *call, hga_py_workspaces **out)
{
    const int64_t threads = hga_plan_threads(hga_py_cached_plan(call->cached));
    const int64_t n = call->n_samples < threads ? call->n_samples : threads;
    return hga_py_take_workspaces(call->cached, call->number, (hga_id)(n > 1 ? n : 1), out);
}

static hga_id at_once(const hga_py_call *call, const hga_py_workspaces *workspaces, int64_t first)
{
    int64_t left = call->n_samples - first;
    return left < workspaces->n ? (hga_id)left : workspaces->n;
}

/* Rows that no stage writes have no log-sum-exp. */
static void fill_lse(void *lse, int64_t bytes)
{
    float *at = lse;
    for (int64_t i = 0; at && i < bytes / (int64_t)sizeof *at; i++) at[i] = -INFINITY;
}

/* What a sample's rows hold where no stage writes them. */
static void set_out(const hga_py_call *call, int64_t sample, uintptr_t lse, hga_io *io)
{
    if (call->clear) memset(io->out.data, 0, (size_t)call->out_bytes);
    if (lse) {
        io->lse.data = packed(lse, sample, call->lse_bytes);
        fill_lse(io->lse.data, call->lse_bytes);
    }
    if (io->tape) {
        memset(io->tape, 0, (size_t)call->tape_bytes);
        memcpy((char *)io->tape + call->tape_bytes - sizeof call->number, &call->number, sizeof call->number);
    }
}

hga_status hga_py_execute(const hga_py_call *call, uintptr_t query, uintptr_t key, uintptr_t value, uintptr_t out,
                          uintptr_t lse, uintptr_t tape, const hga_py_tables *tables, uint64_t seed, uint32_t layer)
{
    const uintptr_t inputs[3] = {query, key, value};
    const hga_plan *plan = hga_py_cached_plan(call->cached);
    hga_py_workspaces *workspaces;
    hga_status st = take_workspaces(call, &workspaces);
    if (st) return st;
    for (int64_t first = 0; first < call->n_samples && !st; first += workspaces->n) {
        hga_id n = at_once(call, workspaces, first);
        for (hga_id i = 0; i < n; i++) {
            set_sample(call, first + i, inputs, out, tape, tables, seed, layer, &workspaces->ios[i]);
            set_out(call, first + i, lse, &workspaces->ios[i]);
        }
        st = workspaces->n == 1 ? hga_plan_execute(plan, workspaces->workspaces[0], workspaces->ios)
                                : hga_plan_execute_batch(plan, workspaces->workspaces, workspaces->ios, n);
    }
    hga_py_give_workspaces(call->cached, workspaces);
    return st;
}

static int64_t floats_of(const hga_py_tables *tables)
{
    int64_t floats = 0;
    for (int t = 0; tables && t < HGA_N_TABLES; t++) floats += tables->gradients[t] ? tables->floats[t] : 0;
    return floats;
}

/* The gradients that are wanted of a sample; those of tables go to the sample's spare memory, where there is any. */
static void set_gradients(const hga_py_call *call, int64_t sample, const uintptr_t gradients[3],
                          const hga_py_tables *tables, float *spare, hga_grad_io *g)
{
    hga_tensor *tensors[3] = {&g->d_query, &g->d_key, &g->d_value};
    for (int t = 0; t < 3; t++) tensors[t]->data = packed(gradients[t], sample, call->grad_bytes[t]);
    for (int t = 0; tables && t < HGA_N_TABLES; t++) {
        if (!tables->gradients[t]) continue;
        g->d_table[t] = spare ? spare : (float *)tables->gradients[t];
        if (spare) spare += tables->floats[t];
    }
}

/* Tables' gradients of n samples, which lie in spare memory, added in order. */
static void add_tables(const hga_py_tables *tables, hga_id n, const float *from)
{
    for (hga_id i = 0; from && i < n; i++)
        for (int t = 0; t < HGA_N_TABLES; t++) {
            if (!tables->gradients[t]) continue;
            float *sum = (float *)tables->gradients[t];
            for (int64_t e = 0; e < tables->floats[t]; e++) sum[e] += from[e];
            from += tables->floats[t];
        }
}

static void clear_tables(const hga_py_tables *tables)
{
    for (int t = 0; t < HGA_N_TABLES; t++)
        if (tables->gradients[t]) memset((void *)tables->gradients[t], 0, sizeof(float) * (size_t)tables->floats[t]);
}

/* Memory for the gradients of tables of as many samples as run at once, and their sums set to 0. One sample alone
   writes them at once: *spare is NULL. */
static hga_status spare_tables(const hga_py_call *call, const hga_py_tables *tables, hga_id n, float **spare)
{
    const int64_t floats = floats_of(tables);
    void *memory = NULL;
    hga_status st = HGA_OK;
    if (floats && call->n_samples != 1) {
        clear_tables(tables);
        st = hga_py_take_memory(hga_py_cached_memory(call->cached), floats * n * (int64_t)sizeof **spare, 0, &memory);
    }
    *spare = memory;
    return st;
}

/* Gradients of tables are added up over all samples. */
hga_status hga_py_gradient(const hga_py_call *call, uintptr_t query, uintptr_t key, uintptr_t value, uintptr_t out,
                           uintptr_t tape, uintptr_t d_out, uintptr_t d_lse, uintptr_t d_query, uintptr_t d_key,
                           uintptr_t d_value, const hga_py_tables *tables, uint64_t seed, uint32_t layer)
{
    const uintptr_t inputs[3] = {query, key, value}, gradients[3] = {d_query, d_key, d_value};
    const hga_plan *plan = hga_py_cached_plan(call->cached);
    const int64_t floats = floats_of(tables);
    hga_py_workspaces *workspaces;
    float *spare = NULL;
    hga_status st = take_workspaces(call, &workspaces);
    if (st) return st;
    st = spare_tables(call, tables, workspaces->n, &spare);
    for (int64_t first = 0; first < call->n_samples && !st; first += workspaces->n) {
        hga_id n = at_once(call, workspaces, first);
        for (hga_id i = 0; i < n; i++) {
            hga_grad_io *g = &workspaces->grads[i];
            set_sample(call, first + i, inputs, out, tape, tables, seed, layer, &workspaces->ios[i]);
            *g = call->grad;
            g->d_out.data = packed(d_out, first + i, call->d_out_bytes);
            if (call->features_at) g->d_edge_out.data = (char *)g->d_out.data + call->features_at;
            g->d_lse.data = packed(d_lse, first + i, call->lse_bytes);
            set_gradients(call, first + i, gradients, tables, spare ? spare + i * floats : NULL, g);
        }
        st = workspaces->n == 1
                 ? hga_plan_gradient(plan, workspaces->workspaces[0], workspaces->ios, workspaces->grads)
                 : hga_plan_gradient_batch(plan, workspaces->workspaces, workspaces->ios, workspaces->grads, n);
        if (!st) add_tables(tables, n, spare);
    }
    hga_py_give_memory(spare);
    hga_py_give_workspaces(call->cached, workspaces);
    return st;
}

void hga_py_append_rows(const hga_py_rows *rows, hga_cache *cache, hga_id n_tokens, uintptr_t query, uintptr_t key,
                        uintptr_t value, uintptr_t out, uintptr_t lse, hga_append *to)
{
    hga_io *io = &to->io;
    *to = rows->append;
    to->cache = cache, to->n_tokens = n_tokens;
    io->query.data = (void *)query, io->key.data = (void *)key, io->value.data = (void *)value;
    io->out.data = (void *)out, io->lse.data = (void *)lse;
    memset(io->out.data, 0, (size_t)rows->out_bytes); /* a program may leave rows alone */
    fill_lse(io->lse.data, rows->lse_bytes);
}
