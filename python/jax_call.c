/* jax_call.c: a call of XLA's described to calls.c. Axes that vmap put in front join the batch where all samples share
   the seed and the tables; else each element of them is a call. */
#include "jax_call.h"

#include <stdlib.h>
#include <string.h>

static int axes_of_batch(const jax_call *call) { return (int)call->number[HGA_PY_AXES]; }

static int mapped_axes(const jax_call *call) { return call->at[JAX_QUERY].rank - 3 - axes_of_batch(call); }

static int is_there(const jax_array *x) { return x->rank > 0; }

static int64_t bytes_from(const jax_array *x, int axis)
{
    int64_t bytes = x->bytes;
    while (axis < x->rank) bytes *= x->dims[axis++];
    return bytes;
}

int64_t jax_bytes(const jax_array *x) { return bytes_from(x, 0); }

/* How far apart its parts along a leading axis are; 0 where it has one for all. */
static int64_t step(const jax_array *x, int axis) { return x->dims[axis] == 1 ? 0 : bytes_from(x, axis + 1); }

static int64_t product(const int64_t *n, int first, int last)
{
    int64_t all = 1;
    for (int i = first; i < last; i++) all *= n[i];
    return all;
}

/* ---- checks ---- */

/* Rows and heads are the first two of the last three axes, or of the last two of log-sum-exps. */
static int64_t rows_of(const jax_call *call, const jax_array *x, int lacks)
{
    return x->dims[x->rank - 3 + lacks + (call->number[HGA_PY_BNHD] ? 0 : 1)];
}

static int64_t heads_of(const jax_call *call, const jax_array *x, int lacks)
{
    return x->dims[x->rank - 3 + lacks + (call->number[HGA_PY_BNHD] ? 1 : 0)];
}

static hga_status check_rows(const jax_call *call, jax_operand operand, const char *name, int64_t heads, int64_t dim)
{
    const jax_array *x = &call->at[operand];
    if (x->rank != call->at[JAX_QUERY].rank || heads_of(call, x, 0) != heads || x->dims[x->rank - 1] != dim)
        return hga_fail(HGA_EINVAL, "%s is not of %lld heads of %lld columns, as the program says", name,
                        (long long)heads, (long long)dim);
    return HGA_OK;
}

/* Compares the rows, heads and widths of all arrays with the plan's, and the tape's bytes. */
hga_status jax_check(const jax_call *call)
{
    const int64_t *n = call->number;
    int64_t heads = n[HGA_PY_HEADS] * n[HGA_PY_PARTS], kv_heads = n[HGA_PY_KV_HEADS] * n[HGA_PY_PARTS];
    const jax_array *tape = &call->at[JAX_TAPE], *key = &call->at[JAX_KEY], *value = &call->at[JAX_VALUE];
    if (n[HGA_PY_AXES] < 0 || mapped_axes(call) < 0 || call->at[JAX_QUERY].rank > JAX_MOST_AXES)
        return hga_fail(HGA_EINVAL, "query has %d axes, of which %lld are the batch's", call->at[JAX_QUERY].rank,
                        (long long)n[HGA_PY_AXES]);
    hga_status st = check_rows(call, JAX_QUERY, "query", heads, n[HGA_PY_DIM]);
    if (!st) st = check_rows(call, JAX_KEY, "key", kv_heads, n[HGA_PY_DIM]);
    if (!st) st = check_rows(call, JAX_VALUE, "value", kv_heads, n[HGA_PY_DIM_V]);
    if (!st) st = check_rows(call, JAX_OUT, "out", heads, n[HGA_PY_DIM_V]);
    if (!st && rows_of(call, key, 0) != rows_of(call, value, 0))
        st = hga_fail(HGA_EINVAL, "key and value differ in rows");
    int64_t bytes = hga_py_tape_of(hga_py_cached_plan(call->kept));
    if (!st && is_there(tape) && tape->dims[tape->rank - 1] != bytes)
        st = hga_fail(HGA_EINVAL, "the program has %lld bytes for a tape, this machine's plan needs %lld",
                      (long long)tape->dims[tape->rank - 1], (long long)bytes);
    return st;
}

/* ---- a sample ---- */

static void fold(const jax_call *call, hga_tensor *t, int64_t heads)
{
    int64_t parts = call->number[HGA_PY_PARTS];
    if (parts <= 1) return;
    ptrdiff_t each = heads / parts * t->head_stride, tokens = t->row_stride;
    int by_token = call->number[HGA_PY_BY_TOKEN] != 0;
    t->fold = by_token ? parts : t->rows;
    t->row_stride = by_token ? each : tokens, t->fold_stride = by_token ? tokens : each;
    t->rows *= parts;
}

static void describe(const jax_call *call, jax_operand operand, hga_tensor *t)
{
    const jax_array *x = &call->at[operand];
    if (!is_there(x)) return;
    int64_t columns = x->dims[x->rank - 1], rows = rows_of(call, x, 0), heads = heads_of(call, x, 0);
    *t = (hga_tensor){.rows = rows, .dtype = x->dtype};
    t->row_stride = call->number[HGA_PY_BNHD] ? heads * columns : columns;
    t->head_stride = call->number[HGA_PY_BNHD] ? columns : rows * columns;
    fold(call, t, heads);
}

static void describe_lse(const jax_call *call, jax_operand operand, hga_tensor *t)
{
    const jax_array *x = &call->at[operand];
    if (!is_there(x)) return;
    int64_t rows = rows_of(call, x, 1), heads = heads_of(call, x, 1);
    *t = (hga_tensor){.rows = rows,
                      .row_stride = call->number[HGA_PY_BNHD] ? heads : 1,
                      .head_stride = call->number[HGA_PY_BNHD] ? 1 : rows};
    fold(call, t, heads);
}

static void describe_sample(const jax_call *call, hga_py_call *c)
{
    describe(call, JAX_QUERY, &c->io.query), describe(call, JAX_KEY, &c->io.key),
        describe(call, JAX_VALUE, &c->io.value);
    describe(call, JAX_OUT, &c->io.out), describe_lse(call, JAX_LSE, &c->io.lse);
    describe(call, JAX_D_OUT, &c->grad.d_out), describe_lse(call, JAX_D_LSE, &c->grad.d_lse);
    describe(call, JAX_D_QUERY, &c->grad.d_query), describe(call, JAX_D_KEY, &c->grad.d_key);
    describe(call, JAX_D_VALUE, &c->grad.d_value);
}

/* Sizes of the tables, whose own axes follow those that were mapped. */
static void describe_tables(const jax_call *call, hga_py_call *c, hga_py_tables *tables)
{
    const hga_call_row *row = hga_call_tables();
    for (int t = 0; t < HGA_N_TABLES; t++) {
        const jax_array *x = &call->inputs[t];
        int axis = mapped_axes(call);
        if (!x->data) continue;
        c->io.table[t].rows = row[t].rows == HGA_EXTENT_ONE || axis >= x->rank ? 1 : x->dims[axis++];
        c->io.table[t].columns = row[t].columns == HGA_EXTENT_ONE || axis >= x->rank ? 1 : (hga_id)x->dims[axis];
        tables->floats[t] = bytes_from(x, mapped_axes(call)) / 4;
    }
}

/* ---- samples ---- */

typedef struct samples {
    const jax_call *call;
    int own_axes;                      /* leading axes whose elements are calls of their own */
    int64_t n[JAX_MOST_AXES];          /* of the leading axes */
    int64_t stride[3 * JAX_MOST_AXES]; /* of queries, keys and values, of the axes of a call */
    hga_py_call c;
    hga_py_tables tables;
} samples;

/* Is there but one along all axes that were mapped? */
static int is_shared(const jax_call *call, const jax_array *x) { return product(x->dims, 0, mapped_axes(call)) == 1; }

static int is_whole(const samples *s, const jax_array *x)
{
    return !is_there(x) || memcmp(x->dims, s->n, sizeof *s->n * (size_t)mapped_axes(s->call)) == 0;
}

static int go_together(const samples *s)
{
    const jax_call *call = s->call;
    int together = is_shared(call, &call->at[JAX_SEED]);
    for (int t = 0; t < HGA_N_TABLES; t++)
        together &= (!is_there(&call->inputs[t]) || is_shared(call, &call->inputs[t])) && !call->outputs[t].data;
    for (jax_operand p = JAX_OUT; p < JAX_N_OPERANDS; p++) together &= is_whole(s, &call->at[p]);
    return together;
}

/* Of a mapped axis, where an array has it and more than one along it. */
static void count_mapped(samples *s, const jax_array *x)
{
    for (int axis = 0; axis < mapped_axes(s->call) && axis < x->rank; axis++)
        if (x->dims[axis] != 1) s->n[axis] = x->dims[axis];
}

static void count_leading(samples *s)
{
    const jax_call *call = s->call;
    const jax_array *query = &call->at[JAX_QUERY];
    for (int axis = 0; axis < query->rank - 3; axis++) s->n[axis] = query->dims[axis];
    for (int p = 0; p < JAX_N_OPERANDS; p++) count_mapped(s, &call->at[p]);
    for (int t = 0; t < HGA_N_TABLES; t++) count_mapped(s, &call->inputs[t]), count_mapped(s, &call->outputs[t]);
}

/* What one call of the library has: its samples, their strides and bytes, and the tables. */
static void describe_samples(samples *s)
{
    const jax_call *call = s->call;
    int leading = call->at[JAX_QUERY].rank - 3;
    const hga_plan *plan = hga_py_cached_plan(call->kept);
    count_leading(s);
    s->own_axes = go_together(s) ? 0 : mapped_axes(call);
    for (int axis = s->own_axes; axis < leading; axis++)
        for (int p = 0; p < 3; p++) s->stride[3 * (axis - s->own_axes) + p] = step(&call->at[JAX_QUERY + p], axis);
    s->c = (hga_py_call){.cached = call->kept,
                         .n_axes = leading - s->own_axes,
                         .shape = s->n + s->own_axes,
                         .strides = s->stride,
                         .number = hga_py_cached_number(call->kept),
                         .clear = 1,
                         .tape_bytes = hga_py_tape_of(plan)};
    s->c.n_samples = product(s->n, s->own_axes, leading);
    s->c.out_bytes = bytes_from(&call->at[JAX_OUT], leading);
    s->c.lse_bytes = s->c.out_bytes / call->number[HGA_PY_DIM_V] / call->at[JAX_OUT].bytes * 4;
    if (call->is_back) s->c.d_out_bytes = bytes_from(&call->at[JAX_D_OUT], leading);
    for (int p = 0; p < 3; p++) s->c.grad_bytes[p] = bytes_from(&call->at[JAX_QUERY + p], leading);
    describe_sample(call, &s->c);
    describe_tables(call, &s->c, &s->tables);
}

/* Where element e of the axes apart begins; 0 of what is not there. */
static uintptr_t begins(const samples *s, const jax_array *x, int64_t e)
{
    int64_t bytes = 0;
    for (int axis = s->own_axes - 1; axis >= 0 && is_there(x); axis--) {
        bytes += e % s->n[axis] * step(x, axis);
        e /= s->n[axis];
    }
    return x->data ? (uintptr_t)(x->data + bytes) : 0;
}

static uint64_t seed_of(const samples *s, int64_t e)
{
    uint32_t half[2];
    memcpy(half, (const void *)begins(s, &s->call->at[JAX_SEED], e), sizeof half);
    return (uint64_t)half[1] << 32 | half[0];
}

/* Is the tape of each sample this plan's? Else its plan is gone, or was another process's. */
static int is_of_plan(const samples *s, uintptr_t tape)
{
    const char *end = (const char *)tape;
    int64_t number;
    for (int64_t i = 0; i < s->c.n_samples; i++) {
        end += s->c.tape_bytes;
        memcpy(&number, end - sizeof number, sizeof number);
        if (number != s->c.number) return 0;
    }
    return 1;
}

static hga_status forth(const samples *s, int64_t e, uintptr_t out, uintptr_t lse, uintptr_t tape)
{
    const jax_array *at = s->call->at;
    return hga_py_execute(&s->c, begins(s, &at[JAX_QUERY], e), begins(s, &at[JAX_KEY], e), begins(s, &at[JAX_VALUE], e),
                          out, lse, tape, &s->tables, seed_of(s, e), (uint32_t)s->call->number[HGA_PY_LAYER]);
}

static hga_status back(const samples *s, int64_t e, uintptr_t tape)
{
    const jax_array *at = s->call->at;
    uintptr_t p[JAX_N_OPERANDS];
    for (int i = 0; i < JAX_N_OPERANDS; i++) p[i] = begins(s, &at[i], e);
    return hga_py_gradient(&s->c, p[JAX_QUERY], p[JAX_KEY], p[JAX_VALUE], p[JAX_OUT], tape, p[JAX_D_OUT], p[JAX_D_LSE],
                           p[JAX_D_QUERY], p[JAX_D_KEY], p[JAX_D_VALUE], &s->tables, seed_of(s, e),
                           (uint32_t)s->call->number[HGA_PY_LAYER]);
}

/* With a tape of its own, from running forward once more. */
static hga_status back_anew(const samples *s, int64_t e)
{
    int64_t n = s->c.n_samples;
    char *tape = calloc((size_t)n, (size_t)s->c.tape_bytes), *out = calloc((size_t)n, (size_t)s->c.out_bytes + 1);
    hga_status st = tape && out ? forth(s, e, (uintptr_t)out, 0, (uintptr_t)tape)
                                : hga_fail(HGA_ENOMEM, "no memory for another tape of %lld samples", (long long)n);
    if (!st) st = back(s, e, (uintptr_t)tape);
    free(tape), free(out);
    return st;
}

static hga_status run_element(const samples *s, int64_t e)
{
    const jax_array *at = s->call->at;
    uintptr_t tape = begins(s, &at[JAX_TAPE], e);
    if (!s->call->is_back) return forth(s, e, begins(s, &at[JAX_OUT], e), begins(s, &at[JAX_LSE], e), tape);
    return is_of_plan(s, tape) ? back(s, e, tape) : back_anew(s, e);
}

/* Tables' addresses of element e. */
static void set_tables(samples *s, int64_t e)
{
    for (int t = 0; t < HGA_N_TABLES; t++) {
        s->tables.input[t] = begins(s, &s->call->inputs[t], e);
        s->tables.gradients[t] = begins(s, &s->call->outputs[t], e);
    }
}

/* Computes element after element of the axes that are apart, each with all its samples. */
static hga_status run_samples(void *of)
{
    samples *s = of;
    hga_status st = HGA_OK;
    for (int64_t e = 0, elements = product(s->n, 0, s->own_axes); !st && e < elements; e++) {
        set_tables(s, e);
        st = run_element(s, e);
    }
    return st;
}

hga_status jax_run(const jax_call *call)
{
    samples s = {.call = call};
    describe_samples(&s);
    return hga_plan_threads(hga_py_cached_plan(call->kept)) > 1 ? hga_py_run_alone(run_samples, &s) : run_samples(&s);
}
