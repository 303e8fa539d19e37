/* user.c: user functions that read and write whatever the header lets them, and their adjoints. */
#include "draws.h"

#include <math.h>

/* What a stage reads and writes fits the pointer that its functions are given, which nobody has to keep. */
enum { WRITES_AT = 16 };

static uint32_t reads_of(const void *ctx) { return (uint32_t)((uintptr_t)ctx & 0xffff); }

static uint32_t writes_of(const void *ctx) { return (uint32_t)((uintptr_t)ctx >> WRITES_AT & 0xffff); }

typedef struct sum {
    double of_values, of_scores;
    int64_t edges;
} sum;

static void begin(void *state, const hga_end *v, hga_id head, void *ctx)
{
    (void)ctx;
    *(sum *)state = (sum){.of_values = 0.25 * v->level + 0.125 * head};
}

/* Is the log-sum-exp of field f at this end shown, and a number? */
static int has_lse(const hga_end *end, hga_id f) { return end->lse[f] && isfinite(*end->lse[f]); }

/* All that an end shows of the fields that are read. */
static double seen(uint32_t reads, const hga_end *end)
{
    double s = 0;
    for (hga_id f = 1; f < HGA_FIELD_SLOTS; f++) {
        if (!(reads >> f & 1) || !end->field[f]) continue;
        for (hga_id i = 0; i < end->columns[f]; i++) s += (double)end->field[f][i] / (i + 1);
        if (has_lse(end, f)) s += (double)*end->lse[f];
    }
    return s;
}

static void edge(void *state, const hga_edge *e, hga_id head, void *ctx)
{
    sum *s = state;
    (void)head;
    s->of_values +=
        (double)e->weight * seen(reads_of(ctx), &e->source) + 0.5 * seen(reads_of(ctx), &e->destination) + e->type;
    s->of_scores += e->score;
    s->edges++;
}

static void merge(void *state, const void *later, void *ctx)
{
    sum *s = state;
    const sum *more = later;
    (void)ctx;
    s->of_values += more->of_values, s->of_scores += more->of_scores, s->edges += more->edges;
}

static double mean_of(const sum *s) { return (s->of_values + s->of_scores) / (double)(1 + s->edges); }

/* Bounded, so that a chain of stages stays comparable. */
static void finish(const void *state, const hga_end *v, hga_id head, void *ctx)
{
    float x = (float)sin(mean_of(state));
    (void)head;
    for (hga_id f = 1; f < HGA_FIELD_SLOTS; f++) {
        if (!(writes_of(ctx) >> f & 1) || !v->field[f]) continue;
        for (hga_id i = 0; i < v->columns[f]; i++) v->field[f][i] = x / (float)(i + 1);
        if (v->lse[f]) *v->lse[f] = x;
    }
}

static void finish_adjoint(const void *state, void *d_state, const hga_end *v, const hga_end *d_v, hga_id head,
                           void *ctx)
{
    const sum *s = state;
    double d = 0;
    (void)head;
    for (hga_id f = 1; f < HGA_FIELD_SLOTS; f++) {
        if (!(writes_of(ctx) >> f & 1) || !d_v->field[f]) continue;
        for (hga_id i = 0; i < v->columns[f]; i++) d += (double)d_v->field[f][i] / (i + 1);
        if (d_v->lse[f]) d += (double)*d_v->lse[f];
    }
    d *= cos(mean_of(s)) / (double)(1 + s->edges);
    *(sum *)d_state = (sum){.of_values = d, .of_scores = d};
}

static void seen_adjoint(uint32_t reads, const hga_end *end, const hga_end *d_end, double d)
{
    for (hga_id f = 1; f < HGA_FIELD_SLOTS; f++) {
        if (!(reads >> f & 1) || !end->field[f] || !d_end->field[f]) continue;
        for (hga_id i = 0; i < end->columns[f]; i++) d_end->field[f][i] += (float)(d / (i + 1));
        if (has_lse(end, f) && d_end->lse[f]) *d_end->lse[f] += (float)d;
    }
}

static void edge_adjoint(const void *state, const void *d_state, const hga_edge *e, double *d_score,
                         const hga_end *d_source, const hga_end *d_destination, hga_id head, void *ctx)
{
    const sum *d = d_state;
    (void)state, (void)head;
    seen_adjoint(reads_of(ctx), &e->source, d_source, (double)e->weight * d->of_values);
    seen_adjoint(reads_of(ctx), &e->destination, d_destination, 0.5 * d->of_values);
    *d_score += d->of_scores;
}

hga_udf draw_user_functions(choices *c, uint32_t reads, uint32_t writes)
{
    int merges = choose(c, 2), goes_back = choose(c, 3) < 2;
    return (hga_udf){.state_bytes = sizeof(sum),
                     .begin = begin,
                     .edge = edge,
                     .merge = merges ? merge : NULL,
                     .finish = finish,
                     .ctx = (void *)((uintptr_t)(reads & 0xffff) | (uintptr_t)(writes & 0xffff) << WRITES_AT),
                     .finish_adjoint = goes_back ? finish_adjoint : NULL,
                     .edge_adjoint = goes_back ? edge_adjoint : NULL};
}
