/* call_run.c: a call run one way, in memory that nobody has written. */
#include "calls.h"

#include "filling.h"
#include "way_back.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A plan at work for a call. */
typedef struct running {
    const drawn_call *c;
    const way *w;
    outcome *o;
    hga_plan *plan;
    hga_workspace *own[MOST_SAMPLES];
    void *tape[MOST_SAMPLES];
    hga_io io[MOST_SAMPLES];
    hga_grad_io grad[MOST_SAMPLES];
} running;

/* Another graph of the same relations, that a plan may be updated to: with edges turned round, or given otherwise. */
static hga_graph *another(const drawn_call *c)
{
    hga_graph *other = NULL;
    if (c->seed % 2 && hga_graph_transpose(c->graph, &other) == HGA_OK) return other;
    return hga_graph_compress(c->graph, &other) ? NULL : other;
}

static void destroy_workspaces(running *r)
{
    for (int s = 0; s < MOST_SAMPLES; s++) hga_workspace_destroy(r->own[s]), r->own[s] = NULL;
}

static hga_status create_workspaces(running *r)
{
    hga_status st = HGA_OK;
    destroy_workspaces(r);
    for (int s = 0; s < r->c->n_samples && !st; s++) st = hga_workspace_create(r->plan, &r->own[s]);
    return st;
}

/* Arrays as they are before a run, and tapes that hold nothing. */
static void prepare(running *r)
{
    memory_fill(r->c, &r->o->filled, &r->o->memory);
    for (int s = 0; s < r->c->n_samples; s++) {
        call_io(r->c, &r->o->filled, &r->o->memory, s, &r->io[s], &r->grad[s]);
        if (!r->c->options.gradient) continue;
        free(r->tape[s]);
        int64_t bytes = hga_plan_tape_bytes(r->plan);
        if (!(r->tape[s] = malloc((size_t)bytes + 1))) draw_fail("no memory for a tape");
        memset(r->tape[s], r->o->filled.byte, (size_t)bytes);
        r->io[s].tape = r->tape[s];
    }
}

static hga_status execute(running *r)
{
    hga_status st = HGA_OK;
    prepare(r);
    if (r->c->in_batch && !r->w->alone) return hga_plan_execute_batch(r->plan, r->own, r->io, r->c->n_samples);
    for (int s = 0; s < r->c->n_samples && !st; s++) st = hga_plan_execute(r->plan, r->own[s], &r->io[s]);
    return st;
}

/* ---- updates ---- */

/* To another graph, where it is executed, and back. The plan is as it was if the program does not suit that. */
static void go_there_and_back(running *r)
{
    hga_graph *other = another(r->c);
    if (other && hga_plan_update(r->plan, other) == HGA_OK) {
        if (create_workspaces(r) == HGA_OK) (void)execute(r);
        hga_status st = hga_plan_update(r->plan, r->c->graph);
        if (st) draw_fail("%s: no update back: %s, %s", r->w->name, hga_status_name(st), hga_error_detail());
    }
    hga_graph_destroy(other);
}

/* The plan's graph has been another since the tape was written: whoever goes back from it gets nothing. */
static void hold_old_tapes(running *r)
{
    hga_status st = hga_plan_update(r->plan, r->c->graph);
    if (st) draw_fail("no update to the same graph: %s, %s", hga_status_name(st), hga_error_detail());
    for (int s = 0; s < r->c->n_samples; s++) {
        st = hga_plan_gradient(r->plan, r->own[s], &r->io[s], &r->grad[s]);
        if (!st) draw_fail("gradients come from a tape from before an update");
    }
    memory_check(r->c, &r->o->filled, "a tape from before an update", &r->o->memory, 1, 0);
}

/* ---- fields that are kept ---- */

static int number_of(const drawn_call *c, const char *name)
{
    for (int i = 0; i < c->n_arrays; i++)
        if (strcmp(c->drawn[i].name, name) == 0) return i;
    return -1;
}

/* The field of an array holds what the array does, as far as its type can tell. */
static void hold_kept_field(const running *r, hga_binding bound, const char *name, int sample)
{
    int number = number_of(r->c, name);
    hga_id f = hga_program_field(r->c->program, bound), first, n;
    if (number < 0 || !f) return;
    const array *a = &r->o->filled.arrays[number];
    int64_t row = a->heads * (a->columns + (r->c->program->field[f].width == HGA_WIDTH_STATE));
    float *kept = malloc((size_t)(a->rows * row + 1) * sizeof *kept);
    if (!kept || hga_program_rows(r->c->program, r->c->graph, f, &first, &n)) draw_fail("no rows of %s", name);
    hga_status st = hga_workspace_field(r->plan, r->own[sample], f, first, n, kept);
    if (st) draw_fail("%s is not kept: %s, %s", name, hga_status_name(st), hga_error_detail());
    for (int64_t i = 0; i < a->rows; i++)
        for (hga_id h = 0; h < a->heads; h++)
            for (int64_t k = 0; k < a->columns; k++) {
                float was = rounded(a->dtype, kept[i * row + h * (row / a->heads) + k]),
                      is = memory_at(a, r->o->memory.block[sample][number], i, h, k);
                if (memcmp(&was, &is, sizeof is) != 0 && !(isnan(was) && isnan(is)))
                    draw_fail("%s of row %lld is kept as %.9g, not %.9g", name, (long long)i, (double)was, (double)is);
            }
    free(kept);
}

static void hold_kept_fields(const running *r)
{
    int as_input = r->c->options.precision == HGA_PRECISION_F32;
    for (int s = 0; s < r->c->n_samples; s++) {
        hold_kept_field(r, HGA_IO_OUT, "out", s);
        if (!as_input) continue;
        hold_kept_field(r, HGA_IO_QUERY, "query", s);
        hold_kept_field(r, HGA_IO_KEY, "key", s), hold_kept_field(r, HGA_IO_VALUE, "value", s);
    }
}

/* ---- gradients ---- */

/* A call without tables and without some gradients, whatever it gives: a workspace keeps what it finds. */
static void go_back_bare(running *r, int s)
{
    hga_io io = r->io[s];
    hga_grad_io bare = {.d_out = r->grad[s].d_out, .d_query = r->grad[s].d_query, .d_key = r->grad[s].d_key};
    io.rel_key.data = io.rel_bias.data = io.edge_bias.data = io.edge_key.data = io.edge_value.data = NULL;
    io.edge_out.data = NULL;
    (void)hga_plan_gradient(r->plan, r->own[s], &io, &bare);
    for (int i = 0; i < r->c->n_arrays; i++) { /* as they were before */
        if (r->c->drawn[i].use != ARRAY_OUTPUT || !r->o->memory.block[s][i]) continue;
        free(r->o->memory.block[s][i]), r->o->memory.block[s][i] = NULL;
    }
}

static hga_status go_back(running *r)
{
    hga_status st = HGA_OK;
    r->o->fast = plain_because(r->plan) == NULL;
    for (int s = 0; s < r->c->n_samples && r->w->again; s++) go_back_bare(r, s);
    if (r->w->again && (st = execute(r))) return st;
    if (r->c->in_batch && !r->w->alone)
        return hga_plan_gradient_batch(r->plan, r->own, r->io, r->grad, r->c->n_samples);
    for (int s = 0; s < r->c->n_samples && !st; s++) st = hga_plan_gradient(r->plan, r->own[s], &r->io[s], &r->grad[s]);
    return st;
}

/* ---- runs ---- */

static hga_status create(running *r, const hga_allocator *a)
{
    hga_status st = HGA_OK;
    hga_options options = r->w->options;
    options.allocator = a;
    HGA_TRY(hga_plan_create(r->c->graph, r->c->program, &r->c->shape, &options, &r->plan));
    if (r->w->updated) go_there_and_back(r);
    HGA_TRY(create_workspaces(r));
done:
    return st;
}

static void take_down(outcome *o)
{
    if (!hga_error_detail()[0]) draw_fail("refused without a word");
    snprintf(o->refused, sizeof o->refused, "%s", hga_error_detail());
}

static void go(running *r, const hga_allocator *a)
{
    outcome *o = r->o;
    o->forward = create(r, a);
    if (!o->forward) o->forward = execute(r);
    if (o->forward) take_down(o);
    if (o->forward) return;
    memory_check(r->c, &o->filled, r->w->name, &o->memory, 1, 0);
    if (r->w->options.keep_fields) hold_kept_fields(r);
    if (!r->c->options.gradient) return;
    if (r->w->updated) {
        hold_old_tapes(r);
        o->forward = create_workspaces(r);
        if (!o->forward) o->forward = execute(r);
        if (o->forward) draw_fail("not executed again after an update: %s", hga_error_detail());
    }
    o->backward = go_back(r);
    if (o->backward) take_down(o);
    memory_check(r->c, &o->filled, r->w->name, &o->memory, 1, !o->backward);
}

outcome call_run(const drawn_call *c, const way *w)
{
    filling memory = {.byte = w->filled.byte};
    hga_allocator a = filling_allocator(&memory);
    outcome o = {.filled = w->filled};
    running r = {.c = c, .w = w, .o = &o};
    go(&r, &a);
    destroy_workspaces(&r);
    hga_plan_destroy(r.plan);
    for (int s = 0; s < MOST_SAMPLES; s++) free(r.tape[s]);
    if (memory.live) draw_fail("%s: %lld blocks were not given back", w->name, (long long)memory.live);
    return o;
}

void outcome_clear(outcome *o) { memory_clear(&o->memory); }

/* ---- comparisons ---- */

/* The coarser of the types in which two arrays hold a number. */
static hga_dtype coarser(hga_dtype a, hga_dtype b) { return a == HGA_F32 ? b : a; }

static int64_t elements(const array *a, asked rows) { return asked_count(rows) * a->heads * a->columns; }

/* Element i of rows `rows`. */
static float element(const array *a, const void *block, asked rows, int64_t i)
{
    int64_t row = (int64_t)a->heads * a->columns;
    return memory_at(a, block, asked_row(rows, i / row), (hga_id)(i % row / a->columns), i % a->columns);
}

/* The largest of the numbers, at least 1. */
static double size_of(const array *a, const void *block, asked rows)
{
    double size = 1;
    for (int64_t i = 0; i < elements(a, rows); i++) size = fmax(size, fabs((double)element(a, block, rows, i)));
    return size;
}

static int are_near(float x, float y, double tolerance)
{
    return memcmp(&x, &y, sizeof x) == 0 || (tolerance > 0 && (x == y || (isnan(x) && isnan(y)))) ||
           fabs((double)x - (double)y) <= tolerance;
}

/* What a wanted gradient held before, where one of two runs added to it. */
static float *added(const drawn_call *c, const outcome *x, const outcome *y, int s, int i)
{
    const array *a = &c->drawn[i];
    float *start = calloc((size_t)(a->rows * a->heads * a->columns + 1), sizeof *start);
    if (!start) draw_fail("no memory for %s", a->name);
    if (a->use == ARRAY_OUTPUT && x->filled.accumulate && !y->filled.accumulate) array_numbers(c, i, s, start);
    return start;
}

/* One array of one sample. Gradients are compared by the size of the largest, and so are sums of sigmoids in bfloat16:
   products of pairs round weights, which do not add up to 1, so that an error is one of what is summed, not of the sum.
   Of a gradient that is no number nobody says more. */
static void compare(const drawn_call *c, const char *what, const outcome *x, const outcome *y, int s, int i,
                    double tolerance)
{
    const array *a = &x->filled.arrays[i], *b = &y->filled.arrays[i];
    const void *p = x->memory.block[s][i], *q = y->memory.block[s][i];
    hga_dtype type = coarser(a->dtype, b->dtype);
    int wanted = a->use == ARRAY_OUTPUT, whole = x->filled.whole && y->filled.whole;
    asked rows = wanted ? asked_between(0, a->rows) : a->use == ARRAY_READ ? rows_written(a) : asked_of(c, s, whole);
    if (!p || !q) return;
    const int by_size = tolerance > 0 && (wanted || sums_rounded_sigmoids(c));
    double size = by_size ? size_of(a, p, rows) : 1;
    if (!wanted && !isfinite(size)) size = 1;
    float *start = added(c, x, y, s, i);
    for (int64_t j = 0; j < elements(a, rows) && isfinite(size); j++) {
        float u = rounded(type, element(a, p, rows, j)), v = element(b, q, rows, j);
        v = rounded(type, start[wanted ? j : 0] == 0 ? v : start[j] + v);
        if (!are_near(u, v, tolerance * (wanted ? size : fmax(size, fabs((double)u)))))
            draw_fail("%s: number %lld of %s of sample %d is %.9g, then %.9g", what, (long long)j, a->name, s,
                      (double)u, (double)v);
    }
    free(start);
}

void outcomes_compare(const drawn_call *c, const char *what, const outcome *a, const outcome *b, double forward,
                      double backward)
{
    if (a->forward != b->forward || (!a->forward && a->backward != b->backward))
        draw_fail("%s: %s and %s (%s), then %s and %s (%s)", what, hga_status_name(a->forward),
                  hga_status_name(a->backward), a->refused, hga_status_name(b->forward), hga_status_name(b->backward),
                  b->refused);
    for (int s = 0; s < c->n_samples && !a->forward; s++)
        for (int i = 0; i < c->n_arrays; i++) {
            array_use use = c->drawn[i].use;
            int is_output =
                use == ARRAY_WRITTEN || (use == ARRAY_READ && !asked_count(c->asked[s])); /* not all rows then */
            if (is_output) compare(c, what, a, b, s, i, forward);
            if (use == ARRAY_OUTPUT && !a->backward && backward >= 0) compare(c, what, a, b, s, i, backward);
        }
}
