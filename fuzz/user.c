/* user.c: user functions that read and write whatever the header lets them. */
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 4 };

typedef struct user {
    uint32_t reads, writes;
    hga_width width[HGA_FIELD_SLOTS];
} user;

static user users[MOST];
static unsigned n_users;
static hga_shape shape;

void fuzz_user_shape(const hga_shape *s) { shape = *s; }

static hga_id columns(hga_width width)
{
    hga_id values = shape.dim_v ? shape.dim_v : shape.dim;
    return width == HGA_WIDTH_SCALAR ? 1 : width == HGA_WIDTH_KEY || width == HGA_WIDTH_KV_KEY ? shape.dim : values;
}

typedef struct sum {
    double of_values, of_scores;
    int64_t edges;
} sum;

static void begin(void *state, const hga_end *v, hga_id head, void *ctx)
{
    (void)ctx;
    *(sum *)state = (sum){.of_values = 0.25 * v->level + 0.125 * head};
}

/* All that an end shows of the fields that are read. */
static double seen(const user *u, const hga_end *end)
{
    double s = 0;
    for (hga_id f = 1; f < HGA_FIELD_SLOTS; f++) {
        if (!(u->reads >> f & 1) || !end->field[f]) continue;
        for (hga_id i = 0; i < columns(u->width[f]); i++) s += (double)end->field[f][i] / (i + 1);
        if (u->width[f] == HGA_WIDTH_STATE && end->lse[f] && isfinite(*end->lse[f])) s += (double)*end->lse[f];
    }
    return s;
}

static void edge(void *state, const hga_edge *e, hga_id head, void *ctx)
{
    sum *s = state;
    (void)head;
    s->of_values += (double)e->weight * seen(ctx, &e->source) + 0.5 * seen(ctx, &e->destination) + e->type;
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

/* Bounded, so that a chain of stages stays comparable. */
static void finish(const void *state, const hga_end *v, hga_id head, void *ctx)
{
    const sum *s = state;
    const user *u = ctx;
    float x = (float)sin((s->of_values + s->of_scores) / (double)(1 + s->edges));
    (void)head;
    for (hga_id f = 1; f < HGA_FIELD_SLOTS; f++) {
        if (!(u->writes >> f & 1) || !v->field[f]) continue;
        for (hga_id i = 0; i < columns(u->width[f]); i++) v->field[f][i] = x / (float)(i + 1);
        if (u->width[f] == HGA_WIDTH_STATE && v->lse[f]) *v->lse[f] = x;
    }
}

hga_udf fuzz_user_functions(const hga_program *p, uint32_t reads, uint32_t writes)
{
    user *u = &users[n_users++ % MOST];
    *u = (user){.reads = reads, .writes = writes};
    for (hga_id f = 1; f <= p->n_fields; f++) u->width[f] = p->field[f].width;
    return (hga_udf){.state_bytes = sizeof(sum), begin, edge, (reads ^ writes) & 2 ? NULL : merge, finish, u};
}
