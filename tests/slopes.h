/* slopes.h: what the tests of gradients share: a problem with an array for every gradient, its forward and backward
   pass, and comparisons. */
#ifndef HGA_SLOPES_H
#define HGA_SLOPES_H

#include "filling.h"
#include "testing.h"
#include "way_back.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A problem with room for every gradient; which[i] is that of slow input i. */
typedef struct slope {
    problem *p;
    hga_grad_io grad;
    float *of[N_SLOW_INPUTS], *d_out, *d_lse;
    int64_t n[N_SLOW_INPUTS];
} slope;

static inline slope slope_create(problem *p, uint64_t seed)
{
    slope s = {.p = p};
    slow_inputs in = slow_inputs_of(p->graph, &p->program, &p->shape, &p->io);
    for (int i = 0; i < N_SLOW_INPUTS; i++) {
        s.n[i] = in.of[i] ? in.n[i] : 0;
        s.of[i] = s.n[i] ? memory(s.n[i], sizeof(float)) : NULL;
        for (int64_t j = 0; j < s.n[i]; j++) s.of[i][j] = NAN; /* to be overwritten */
    }
    s.d_out = random_floats(seed, 1, out_count(p));
    s.d_lse = p->io.lse.data ? random_floats(seed + 1, 1, lse_count(p)) : NULL;
    s.grad = (hga_grad_io){.d_out = {.data = s.d_out, .rows = p->n_out},
                           .d_lse = {.data = s.d_lse, .rows = p->n_out},
                           .d_query = {.data = s.of[SLOW_QUERY], .rows = p->n_query},
                           .d_key = {.data = s.of[SLOW_KEY], .rows = p->n_key},
                           .d_value = {.data = s.of[SLOW_VALUE], .rows = p->n_value},
                           .d_rel_key = s.of[SLOW_REL_KEY],
                           .d_rel_bias = s.of[SLOW_REL_BIAS],
                           .d_edge_bias = s.of[SLOW_EDGE_BIAS],
                           .d_node_pos = s.of[SLOW_NODE_POS],
                           .d_type_scale = s.of[SLOW_TYPE_SCALE],
                           .d_scale = s.of[SLOW_SCALE],
                           .d_log_mass = s.of[SLOW_LOG_MASS],
                           .d_sink = s.of[SLOW_SINK],
                           .d_slopes = s.of[SLOW_SLOPES],
                           .d_additive = s.of[SLOW_ADDITIVE],
                           .d_edge_key = s.of[SLOW_EDGE_KEY]};
    slow_inputs_clear(&in);
    return s;
}

static inline void slope_clear(slope *s)
{
    for (int i = 0; i < N_SLOW_INPUTS; i++) free(s->of[i]);
    free(s->d_out), free(s->d_lse);
}

/* A plan of a problem that runs backward, with its workspace and its tape. */
typedef struct seat {
    hga_plan *plan;
    hga_workspace *workspace;
    void *tape;
} seat;

static inline seat seat_of(const problem *p, hga_options options)
{
    seat s;
    options.gradient = 1;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, &options, &s.plan));
    assert_ok(hga_workspace_create(s.plan, &s.workspace));
    s.tape = memory(hga_plan_tape_bytes(s.plan), 1);
    return s;
}

static inline void seat_clear(seat *s)
{
    free(s->tape), hga_workspace_destroy(s->workspace), hga_plan_destroy(s->plan);
}

/* Bytes of a workspace for gradients of all that a call without tables reads. */
static inline int64_t gradient_bytes(const hga_plan *plan)
{
    int64_t bytes;
    assert_ok(hga_plan_prepare(plan, NULL, NULL, NULL, &bytes));
    return bytes;
}

/* Forward and backward. */
static inline hga_status seat_run(const seat *at, slope *s)
{
    hga_io io = s->p->io;
    io.tape = at->tape;
    hga_status st = hga_plan_execute(at->plan, at->workspace, &io);
    return st ? st : hga_plan_gradient(at->plan, at->workspace, &io, &s->grad);
}

/* The same over numbers that must be overwritten. */
static inline hga_status seat_run_anew(const seat *at, slope *s)
{
    for (int i = 0; i < N_SLOW_INPUTS; i++)
        for (int64_t j = 0; j < s->n[i]; j++) s->of[i][j] = NAN;
    return seat_run(at, s);
}

/* Executes and runs backward with these options, in memory that was not written and all of which is freed. */
static inline void slope_run(slope *s, hga_options options)
{
    filling fresh = {.byte = 0xff};
    hga_allocator allocator = filling_allocator(&fresh);
    if (!options.allocator) options.allocator = &allocator;
    seat at = seat_of(s->p, options);
    assert_ok(seat_run(&at, s));
    seat_clear(&at);
    if (fresh.live) fail_msg("%s: %lld blocks were not given back", s->p->name, (long long)fresh.live);
}

/* A gradient by two threads, of a plan that is prepared, reports each allocation that fails and leaves nothing
   allocated; its peak is from `least` to `most` of what the plan says, and a little for tables. */
static inline void assert_failures_are_told(slope *s, double least, double most)
{
    problem *p = s->p;
    filling m = {.byte = 0xff};
    hga_allocator a = filling_allocator(&m);
    hga_options options = {.gradient = 1, .threads = 2, .allocator = &a};
    hga_plan *plan;
    hga_io io = p->io;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, &options, &plan));
    io.tape = memory(hga_plan_tape_bytes(plan), 1);
    double said = (double)gradient_bytes(plan);
    hga_status st = HGA_ENOMEM;
    for (int64_t fails = 1; st; fails++) {
        hga_workspace *workspace;
        m.fails_from = 0;
        assert_ok(hga_workspace_create(plan, &workspace));
        assert_ok(hga_plan_execute(plan, workspace, &io));
        int64_t before = m.bytes, blocks = m.live;
        m.most = before;
        m.asked = 0;
        m.fails_from = fails;
        st = hga_plan_gradient(plan, workspace, &io, &s->grad);
        m.fails_from = 0;
        if (st) assert_status(HGA_ENOMEM, st);
        double took = (double)(m.most - before);
        if (!st && !(took >= least * said && took <= most * said + 8192))
            fail_msg("%s: %.0f bytes were said, %.0f taken", p->name, said, took);
        assert_true(m.live <= blocks + 1); /* the workspace keeps its memory */
        hga_workspace_destroy(workspace);
    }
    hga_plan_destroy(plan);
    assert_int_equal(m.live, 0);
    free(io.tape);
}

/* sum of d_out . out and d_lse . lse, whose gradients these are. */
static inline double slow_loss(const slope *s, const slow_inputs *in)
{
    double *out, *lse = NULL, sum = 0;
    slow_run(s->p->graph, &s->p->program, &s->p->shape, in, &out, &lse);
    for (int64_t i = 0; i < out_count(s->p); i++) sum += (double)s->d_out[i] * out[i];
    for (int64_t i = 0; s->d_lse && i < lse_count(s->p); i++)
        if (lse[i] > -INFINITY) sum += (double)s->d_lse[i] * lse[i];
    free(out), free(lse);
    return sum;
}

/* Compares some entries of every input with a five point difference of steps h. */
static inline void assert_is_the_slope_by(slope *s, double tolerance, double h)
{
    slow_inputs in = slow_inputs_of(s->p->graph, &s->p->program, &s->p->shape, &s->p->io);
    uint64_t rng = 77;
    for (int i = 0; i < N_SLOW_INPUTS; i++) {
        double size = 0;
        for (int64_t j = 0; j < s->n[i]; j++) size = fmax(size, fabs((double)s->of[i][j]));
        for (int tries = 0; tries < 12 && s->n[i]; tries++) {
            int64_t j = random_below(&rng, (int)s->n[i]);
            double x = in.of[i][j], f[5];
            for (int k = 0; k < 5; k++) in.of[i][j] = x + (k - 2) * h, f[k] = slow_loss(s, &in);
            in.of[i][j] = x;
            double want = (f[0] - 8 * f[1] + 8 * f[3] - f[4]) / (12 * h), got = (double)s->of[i][j];
            if (!(fabs(got - want) <= tolerance * fmax(1, size)))
                fail_msg("%s: input %d entry %lld: %.9g, not %.9g", s->p->name, i, (long long)j, got, want);
        }
    }
    slow_inputs_clear(&in);
}

static inline void assert_is_the_slope(slope *s, double tolerance) { assert_is_the_slope_by(s, tolerance, 1e-3); }

/* The gradients of b are those of a; that of the scale, a sum over all pairs, to twice the tolerance. */
static inline void assert_same_slopes(const slope *a, const slope *b, double tolerance)
{
    for (int i = 0; i < N_SLOW_INPUTS; i++) {
        double size = i == SLOW_SCALE ? 2 : 1;
        for (int64_t j = 0; j < a->n[i]; j++) size = fmax(size, (i == SLOW_SCALE ? 2 : 1) * fabs((double)a->of[i][j]));
        for (int64_t j = 0; j < a->n[i]; j++)
            if (!(fabs((double)a->of[i][j] - (double)b->of[i][j]) <= tolerance * size))
                fail_msg("%s: input %d entry %lld of %lld: %.9g, not %.9g", a->p->name, i, (long long)j,
                         (long long)a->n[i], (double)b->of[i][j], (double)a->of[i][j]);
    }
}

/* A variant with tables, by name. */
static inline problem problem_named(const char *variant, hga_id n, uint64_t seed, const hga_shape *shape)
{
    problem p;
    variant_build(variant_named(variant), n, seed, shape, &p);
    problem_fill_tables(&p, seed, 1, 1, 0);
    return p;
}

static inline void each_variant(void (*check)(problem *p, uint64_t seed), hga_id n, uint64_t seeds)
{
    static const hga_shape shapes[] = {{.n_heads = 2, .dim = 4},
                                       {.n_heads = 4, .n_kv_heads = 2, .dim = 5, .dim_v = 3},
                                       {.n_heads = 1, .dim = 8, .pos_dim = 2}};
    for (int i = 0; i < n_variants(); i++)
        for (uint64_t seed = 0; seed < seeds; seed++) {
            problem p;
            if (passed_over(i + (int)seed)) continue;
            variant_build(i, n, seed, &shapes[seed % 3], &p);
            problem_fill_tables(&p, seed, seed % 2 == 0, seed % 3 == 0, seed % 4 == 1);
            check(&p, seed);
            problem_clear(&p);
        }
}

#endif
