/* decoding.h: a problem decoded token by token beside its full pass: what tests of decoding share. Memory that was
   not written is NaN, and pages that are released are overwritten. */
#ifndef DECODING_H
#define DECODING_H

#include "causal_cases.h"
#include "filling.h"
#include "stage_rows.h"
#include "workspace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const hga_shape narrow = {.n_heads = 4, .n_kv_heads = 2, .dim = 12, .dim_v = 9};

typedef struct session {
    problem *p;
    filling memory;
    hga_allocator allocator;
    hga_decoder *decoder;
    hga_decode_workspace *workspace;
    hga_pages *pages;
    float *want, *want_lse; /* the full pass */
} session;

static inline void session_open(session *s, problem *p, const hga_decode_options *o, int64_t most_bytes)
{
    *s = (session){.p = p, .memory = {.byte = 0xff}};
    s->allocator = filling_allocator(&s->memory);
    hga_decode_options own = *o;
    own.plan.allocator = &s->allocator;
    assert_ok(hga_decoder_create(p->graph, &p->program, &p->shape, &own, &s->decoder));
    assert_ok(hga_decode_workspace_create(s->decoder, &s->workspace));
    assert_ok(hga_pages_create(s->decoder, most_bytes, &s->pages));
    s->pages->poison = 1;
    s->want = problem_out(p, &o->plan, p->program.has_lse ? &s->want_lse : NULL);
}

static inline void session_close(session *s)
{
    hga_pages_destroy(s->pages);
    hga_decode_workspace_destroy(s->workspace);
    hga_decoder_destroy(s->decoder);
    assert_int_equal(s->memory.live, 0);
    free(s->want), free(s->want_lse);
}

/* An append of the problem's next n tokens, its rows gathered in the order that the decoder names. */
typedef struct fed {
    hga_append append;
    hga_id n, *node;
    float *rows[3], *out, *lse;
} fed;

static inline hga_tensor *input(hga_io *io, int i) { return i == 0 ? &io->query : i == 1 ? &io->key : &io->value; }

/* Tokens [from, from + n_tokens), for no cache yet. */
static inline void feed_from(const session *s, hga_id from, hga_id n_tokens, fed *f)
{
    const problem *p = s->p;
    hga_id kv = p->shape.n_kv_heads ? p->shape.n_kv_heads : p->shape.n_heads;
    hga_id dim_v = p->shape.dim_v ? p->shape.dim_v : p->shape.dim;
    const int64_t floats[] = {(int64_t)p->shape.n_heads * p->shape.dim, (int64_t)kv * p->shape.dim,
                              (int64_t)kv * dim_v};
    *f = (fed){.append = {.n_tokens = n_tokens, .io = p->io}};
    f->n = hga_decoder_rows(s->decoder, from, n_tokens, NULL, 0);
    f->node = memory(f->n + 1, sizeof *f->node);
    assert_int_equal(hga_decoder_rows(s->decoder, from, n_tokens, f->node, f->n), f->n);
    for (int i = 0; i < 3; i++) {
        const float *all = input(&f->append.io, i)->data;
        f->rows[i] = memory(f->n * floats[i] + 1, sizeof(float));
        if (!all) continue;
        for (hga_id k = 0; k < f->n; k++)
            memcpy(f->rows[i] + k * floats[i], all + (f->node[k] - s->decoder->io_first) * floats[i],
                   (size_t)floats[i] * sizeof(float));
        *input(&f->append.io, i) = (hga_tensor){.data = f->rows[i], .rows = f->n};
    }
    f->out = memory((int64_t)f->n * p->shape.n_heads * dim_v + 1, sizeof(float));
    f->lse = memory((int64_t)f->n * p->shape.n_heads + 1, sizeof(float));
    f->append.io.out = (hga_tensor){.data = f->out, .rows = f->n};
    f->append.io.lse = (hga_tensor){.data = s->want_lse ? f->lse : NULL, .rows = f->n};
}

static inline void feed(const session *s, hga_cache *c, hga_id n_tokens, fed *f)
{
    feed_from(s, hga_cache_tokens(c), n_tokens, f);
    f->append.cache = c;
}

static inline void check_row(const session *s, const char *how, hga_id node, const float *got, const float *all,
                             hga_id columns, double tolerance)
{
    const float *want = all + (int64_t)(node - s->decoder->io_first) * columns;
    if (tolerance == 0 && memcmp(got, want, (size_t)columns * sizeof *got))
        fail_msg("%s, %s: row %d has other bits (%.9g, not %.9g)", s->p->name, how, node, (double)*got, (double)*want);
    for (hga_id c = 0; c < columns; c++)
        if (!(fabs((double)got[c] - (double)want[c]) <= tolerance) && got[c] != want[c])
            fail_msg("%s, %s: row %d column %d is %.9g, not %.9g", s->p->name, how, node, c, (double)got[c],
                     (double)want[c]);
}

/* The outputs are the full pass's: its bits, or within a tolerance. */
static inline void check_fed(const session *s, const char *how, const fed *f, double tolerance)
{
    hga_id heads = s->p->shape.n_heads, dim_v = s->p->shape.dim_v ? s->p->shape.dim_v : s->p->shape.dim;
    for (hga_id k = 0; k < f->n; k++) {
        check_row(s, how, f->node[k], f->out + (int64_t)k * heads * dim_v, s->want, heads * dim_v, tolerance);
        if (s->want_lse) check_row(s, how, f->node[k], f->lse + (int64_t)k * heads, s->want_lse, heads, tolerance);
    }
}

static inline void starve(fed *f)
{
    for (int i = 0; i < 3; i++) free(f->rows[i]);
    free(f->node), free(f->out), free(f->lse);
}

/* Tensors of a problem of the narrow shape, rounded. */
static inline void round_to_bf16(problem *p)
{
    const int64_t rows[] = {p->n_query, p->n_key, p->n_value}, columns[] = {4 * 12, 2 * 12, 2 * 9};
    for (int k = 0; k < 3; k++) {
        float *x = input(&p->io, k)->data;
        for (int64_t j = 0; x && j < rows[k] * columns[k]; j++) {
            uint32_t u;
            memcpy(&u, &x[j], sizeof u);
            u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u;
            memcpy(&x[j], &u, sizeof u);
        }
    }
}

/* Overwrites the workspace, as if it had served another decoder's caches: nothing in it is the next cache's. */
static inline void spoil(const session *s)
{
    hga_workspace *w = s->workspace->workspace;
    s->workspace->resident = 0;
    for (row_slots *x = w->slots.of; x < w->slots.of + N_ROW_SLOTS; x++)
        for (int k = 0; k < SLOT_ARRAYS; k++)
            if (x->part[k]) memset(x->part[k], 0xff, (size_t)(x->capacity * x->floats[k]) * sizeof(float));
}

static inline void append_tokens(const session *s, const char *how, hga_cache *c, hga_id n, double tolerance)
{
    fed f;
    feed(s, c, n, &f);
    if (hga_cache_tokens(c) % 3) spoil(s);
    assert_ok(hga_decoder_append(s->decoder, s->workspace, &f.append, 1));
    check_fed(s, how, &f, tolerance);
    starve(&f);
}

/* Bytes of all pages of a cache's rows that are live. */
static inline uint64_t stamp_of(const hga_cache *c)
{
    uint64_t sum = (uint64_t)c->tokens;
    const hga_decoder *d = c->pages->decoder;
    for (int64_t k = 0; k < c->table.n_slots; k++) {
        const page_entry *e = &c->table.entry[k];
        hga_id kind = (hga_id)((e->key - 1) >> 32);
        for (uint64_t live = e->key ? e->live : 0; live; live &= live - 1) {
            const char *row = page_row(d, e->page, __builtin_ctzll(live));
            uint64_t x = e->key * 64 + (uint64_t)__builtin_ctzll(live);
            for (int64_t b = 0; b < d->row_bytes[kind]; b++) x = (x ^ (uint8_t)row[b]) * UINT64_C(0x100000001b3);
            sum += x;
        }
    }
    return sum;
}

#endif
