/* user_softmax.h: softmax attention written by a user: begin, edge, merge, finish over the engine's scores. */
#ifndef HGA_USER_SOFTMAX_H
#define HGA_USER_SOFTMAX_H

#include "testing.h"

#include <math.h>
#include <string.h>

typedef struct user_softmax {
    double greatest, sum, acc[80];
} user_softmax;

typedef struct user_context {
    hga_id value, out, dim_v;
} user_context;

static inline void user_begin(void *state, const hga_end *v, hga_id head, void *ctx)
{
    (void)v, (void)head, (void)ctx;
    user_softmax *s = state;
    memset(s, 0, sizeof *s);
    s->greatest = -INFINITY;
}

static inline void user_rescale(user_softmax *s, double greatest, hga_id n)
{
    if (!(greatest > s->greatest)) return;
    double factor = exp(s->greatest - greatest);
    for (hga_id c = 0; c < n; c++) s->acc[c] *= factor;
    s->sum *= factor;
    s->greatest = greatest;
}

static inline void user_edge(void *state, const hga_edge *e, hga_id head, void *ctx)
{
    (void)head;
    const user_context *u = ctx;
    user_softmax *s = state;
    user_rescale(s, e->score, u->dim_v);
    double weight = exp(e->score - s->greatest);
    for (hga_id c = 0; c < u->dim_v; c++) s->acc[c] += weight * (double)e->source.field[u->value][c];
    s->sum += weight;
}

static inline void user_merge(void *state, const void *later, void *ctx)
{
    const user_context *u = ctx;
    user_softmax *s = state, other = *(const user_softmax *)later;
    user_rescale(s, other.greatest, u->dim_v);
    user_rescale(&other, s->greatest, u->dim_v);
    if (other.greatest != s->greatest) return;
    for (hga_id c = 0; c < u->dim_v; c++) s->acc[c] += other.acc[c];
    s->sum += other.sum;
}

static inline void user_finish(const void *state, const hga_end *v, hga_id head, void *ctx)
{
    (void)head;
    const user_context *u = ctx;
    const user_softmax *s = state;
    for (hga_id c = 0; c < u->dim_v; c++) v->field[u->out][c] = s->sum > 0 ? (float)(s->acc[c] / s->sum) : 0;
    v->lse[u->out][0] = s->sum > 0 ? (float)(s->greatest + log(s->sum)) : -INFINITY;
}

/* Replaces a program's first attending stage by the user's; returns it. */
static inline hga_stage *make_user_stage(problem *p, user_context *ctx, int with_merge)
{
    hga_stage *s = (hga_stage *)(uintptr_t)find_stage(&p->program, HGA_SCORE);
    *ctx = (user_context){.value = s->value, .out = s->out, .dim_v = p->shape.dim_v ? p->shape.dim_v : p->shape.dim};
    s->reads = 1u << s->query | 1u << s->key | 1u << s->value, s->writes = 1u << s->out;
    s->message = HGA_MESSAGE_USER, s->reduce = HGA_REDUCE_USER, s->update = HGA_UPDATE_USER;
    s->udf = (hga_udf){.state_bytes = sizeof(user_softmax),
                       .begin = user_begin,
                       .edge = user_edge,
                       .merge = with_merge ? user_merge : NULL,
                       .finish = user_finish,
                       .ctx = ctx};
    return s;
}

#endif
