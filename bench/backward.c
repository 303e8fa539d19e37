/* backward.c: times gradients, in turns with the execution whose tape they read. */
#include "backward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "numbers.h"

enum { QUERY, KEY, VALUE, OUT, N_TENSORS, STREAM_OTHERS = 16, STREAM_INPUT };

/* What both directions work on. */
typedef struct turns {
    hga_plan *plan;
    hga_workspace *workspace;
    hga_io io;
    hga_grad_io grad;
    float *inputs[2][OUT]; /* two sets, used alternately */
    float *requested[OUT]; /* of query, key, value */
    int64_t count[N_TENSORS];
    int64_t relative, turn;
    float *memory;
} turns;

static int64_t packed(const hga_tensor *t, hga_id heads, hga_id columns) { return t->rows * heads * columns; }

static void count_numbers(const bench_case *c, const hga_shape *s, int64_t count[N_TENSORS])
{
    hga_id kv = s->n_kv_heads ? s->n_kv_heads : s->n_heads, dim_v = s->dim_v ? s->dim_v : s->dim;
    count[QUERY] = packed(&c->io.query, s->n_heads, s->dim), count[KEY] = packed(&c->io.key, kv, s->dim);
    count[VALUE] = packed(&c->io.value, kv, dim_v), count[OUT] = packed(&c->io.out, s->n_heads, dim_v);
}

/* Counts the second set of inputs, the gradients of all, and the output's gradient. */
static int64_t numbers_of(const int64_t count[N_TENSORS])
{
    return 2 * (count[QUERY] + count[KEY] + count[VALUE]) + count[OUT];
}

int64_t bench_backward_bytes(const bench_case *c, const hga_shape *shape)
{
    int64_t count[N_TENSORS];
    count_numbers(c, shape, count);
    return numbers_of(count) * (int64_t)sizeof(float);
}

static hga_status start(const bench_case *c, const bench_job *j, turns *t)
{
    hga_status st;
    hga_options options = j->options;
    options.gradient = 1;
    HGA_TRY(hga_plan_create(j->graph, j->program, &j->shape, &options, &t->plan));
    HGA_TRY(hga_workspace_create(t->plan, &t->workspace));
    t->io = c->io;
    count_numbers(c, &j->shape, t->count);
    t->relative = (int64_t)c->io.rel_key.rows * j->shape.dim;
    int64_t n = numbers_of(t->count), at = 0;
    HGA_TRY(bench_new(n + t->relative, sizeof *t->memory, &t->memory));
    const hga_tensor *own[] = {&c->io.query, &c->io.key, &c->io.value};
    hga_tensor *requested[] = {&t->grad.d_query, &t->grad.d_key, &t->grad.d_value};
    for (int i = QUERY; i < OUT; i++) {
        t->inputs[0][i] = own[i]->data, t->inputs[1][i] = t->memory + at, at += t->count[i];
        t->requested[i] = t->memory + at, at += t->count[i];
        numbers_fill((uint64_t)(STREAM_OTHERS + 8 * i), 1, t->count[i], t->inputs[1][i]);
        *requested[i] = (hga_tensor){.data = t->count[i] ? t->requested[i] : NULL, .rows = own[i]->rows};
    }
    t->grad.d_out = (hga_tensor){.data = t->memory + at, .rows = c->io.out.rows};
    numbers_fill(STREAM_INPUT, 1, t->count[OUT], t->memory + at);
    if (t->relative) t->grad.d_rel_key = t->memory + n;
    HGA_TRY(bench_new(hga_plan_tape_bytes(t->plan), 1, &t->io.tape));
done:
    return st;
}

/* NaN, all of it. */
static void poison(float *x, int64_t n)
{
    if (n) memset(x, 0xff, (size_t)n * sizeof *x);
}

/* Switches to the other inputs, and overwrites all results with NaN. */
static hga_status prepare(void *context)
{
    turns *t = context;
    hga_tensor *input[] = {&t->io.query, &t->io.key, &t->io.value};
    t->turn = !t->turn;
    for (int i = QUERY; i < OUT; i++) {
        if (t->count[i]) input[i]->data = t->inputs[t->turn][i];
        poison(t->requested[i], t->count[i]);
    }
    poison(t->io.out.data, t->count[OUT]);
    poison(t->grad.d_rel_key, t->relative);
    return HGA_OK;
}

static hga_status execute(void *context)
{
    const turns *t = context;
    return hga_plan_execute(t->plan, t->workspace, &t->io);
}

static hga_status go_back(void *context)
{
    const turns *t = context;
    return hga_plan_gradient(t->plan, t->workspace, &t->io, &t->grad);
}

/* Was everything written? */
static hga_status check(const turns *t)
{
    for (int i = QUERY; i < OUT; i++)
        for (int64_t e = 0; e < t->count[i]; e++)
            if (isnan(t->requested[i][e])) return hga_fail(HGA_EINVAL, "entry %lld of a gradient is NaN", (long long)e);
    for (int64_t e = 0; e < t->relative; e++)
        if (isnan(t->grad.d_rel_key[e])) return hga_fail(HGA_EINVAL, "entry %lld of d_rel_key is NaN", (long long)e);
    return HGA_OK;
}

static void end(turns *t)
{
    hga_workspace_destroy(t->workspace);
    hga_plan_destroy(t->plan);
    free(t->io.tape);
    free(t->memory);
}

hga_status bench_backward(const bench_case *c, const bench_job *j, const bench_rules *rules, bench_measurement *forward,
                          bench_measurement *backward)
{
    static hga_status (*const both[2])(void *) = {execute, go_back};
    hga_status st;
    turns t = {0};
    bench_timing times[2];
    int64_t bytes;
    HGA_TRY(start(c, j, &t));
    HGA_TRY(hga_plan_prepare(t.plan, t.workspace, &t.io, &t.grad, &bytes));
    HGA_TRY(bench_alternate(prepare, both, &t, rules, hga_plan_threads(t.plan), times));
    HGA_TRY(check(&t));
    *backward = *forward;
    forward->time = times[0], backward->time = times[1];
    backward->cost.flops = backward->cost.gradient_flops;
    backward->workspace_bytes = bytes + hga_plan_tape_bytes(t.plan);
done:
    end(&t);
    return st;
}
