/* selecting.h: choices drawn at random, with the tensors that they are made from. */
#ifndef SELECTING_H
#define SELECTING_H

#include "hga_select.h"
#include "testing.h"

#include <math.h>
#include <stdlib.h>

/* A drawn call and its tensors, packed. */
typedef struct drawn {
    hga_selection how;
    hga_select_input in;
    hga_id offsets[8];
    hga_id k_each[9]; /* of each chooser; how.k_each is this, or NULL */
    float *q, *k, *input, scale;
    hga_id from; /* of tokens that are appended to others: the first */
} drawn;

static inline hga_id least_of(hga_id a, hga_id b) { return a < b ? a : b; }

static inline hga_id blocks_of(hga_id n, hga_id b) { return (n + b - 1) / b; }

static inline hga_id samples_of(const drawn *d) { return d->in.offsets ? d->in.n_samples : 1; }

static inline hga_id longest_of(const drawn *d)
{
    hga_id longest = 0;
    for (hga_id s = 0; s < samples_of(d); s++) {
        hga_id n = blocks_of(d->offsets[s + 1] - d->offsets[s], d->how.block);
        if (n > longest) longest = n;
    }
    return longest;
}

static inline hga_id query_blocks_of(const drawn *d)
{
    hga_id n = 0;
    for (hga_id s = 0; s < samples_of(d); s++) n += blocks_of(d->offsets[s + 1] - d->offsets[s], d->how.query_block);
    return n;
}

static inline void draw_samples(uint64_t *seed, drawn *d)
{
    d->in.n_samples = 1 + random_below(seed, 3);
    for (hga_id s = 0; s < d->in.n_samples; s++) d->offsets[s + 1] = d->offsets[s] + random_below(seed, 150);
    d->in.n_tokens = d->offsets[d->in.n_samples];
    d->in.offsets = d->offsets;
    if (d->in.n_samples == 1 && random_below(seed, 2)) d->in.offsets = NULL, d->in.n_samples = 0;
}

static inline void draw_how(uint64_t *seed, hga_selection *s)
{
    const hga_id blocks[] = {1, 3, 8, 16, 64}, query_blocks[] = {1, 1, 4, 16, 20};
    s->block = blocks[random_below(seed, 5)];
    s->score = (hga_select_score)random_below(seed, 3);
    s->query_block = s->score == HGA_SELECT_MINMAX ? 1 : query_blocks[random_below(seed, 5)];
    s->share = (hga_select_share)random_below(seed, 3);
    s->causal = (int)random_below(seed, 2);
    s->sinks = random_below(seed, 3), s->local = random_below(seed, 3);
    s->k = random_below(seed, 2) ? 1 + random_below(seed, 12) : 0;
    if (s->causal && s->query_block == 1 && s->score != HGA_SELECT_SCORES && random_below(seed, 2))
        s->coarse = s->block * (1 + random_below(seed, 4)), s->coarse_k = 1 + random_below(seed, 3);
    s->threshold = s->k ? 0 : random_below(seed, 5) ? 0.01 * (1 + random_below(seed, 99)) : 1;
    if (s->query_block > 1 && s->score == HGA_SELECT_MEAN && random_below(seed, 2))
        s->score = HGA_SELECT_SAMPLE, s->sample = 1 + random_below(seed, s->query_block);
}

/* The k of a chooser. */
static inline hga_id k_of(const drawn *d, hga_id chooser) { return d->how.k_each ? d->k_each[chooser] : d->how.k; }

/* Of some choices by number each chooser has its own k; some take all blocks. */
static inline void draw_k_each(uint64_t *seed, drawn *d)
{
    if (d->how.threshold != 0 || random_below(seed, 3)) return;
    d->how.n_k_each = hga_select_choosers(&d->how, &d->in.shape), d->how.k_each = d->k_each;
    for (hga_id c = 0; c < d->how.n_k_each; c++)
        d->k_each[c] = random_below(seed, 4) ? 1 + random_below(seed, 12) : INT32_MAX;
    if (random_below(seed, 2)) d->how.k = 0; /* which is not read */
}

static inline drawn *draw(uint64_t seed)
{
    drawn *d = memory(1, sizeof *d);
    d->how = hga_selection_defaults();
    draw_how(&seed, &d->how);
    draw_samples(&seed, d);
    hga_shape *shape = &d->in.shape;
    shape->n_kv_heads = 1 + random_below(&seed, 3);
    shape->n_heads = shape->n_kv_heads * (1 + random_below(&seed, 3));
    shape->dim = 1 + random_below(&seed, 40);
    draw_k_each(&seed, d);
    d->scale = 0.5f;
    if (random_below(&seed, 2)) d->in.scale = &d->scale;
    d->q = random_floats(seed, 2, (int64_t)d->in.n_tokens * shape->n_heads * shape->dim);
    d->k = random_floats(seed + 1, 2, (int64_t)d->in.n_tokens * shape->n_kv_heads * shape->dim);
    d->in.query = (hga_tensor){.data = d->q, .rows = d->in.n_tokens};
    d->in.key = (hga_tensor){.data = d->k, .rows = d->in.n_tokens};
    if (d->how.score == HGA_SELECT_SCORES) {
        int64_t n = (int64_t)hga_select_choosers(&d->how, shape) * query_blocks_of(d) * longest_of(d);
        d->input = random_floats(seed + 2, 2, n);
        for (int64_t i = 0; i < n; i += 7) d->input[i] = -INFINITY;
        d->in.scores = d->input;
    }
    return d;
}

static inline void drop(drawn *d) { free(d->q), free(d->k), free(d->input), free(d); }

#endif
