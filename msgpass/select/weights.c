/* weights.c: the share of a row's softmax in each block that it chose, from its scores and log-sum-exp. */
#include "select.h"
#include "selection_check.h"

#include <math.h>
#include <omp.h>
#include <string.h>

typedef struct weighing {
    selecting s;
    const hga_chosen *chosen;
    const hga_chosen_scores *of;
    hga_id padded;
    float *keys; /* [n_tokens][padded], of the current key/value head */
    float *out;
} weighing;

/* A row of a head: its query and log-sum-exp. */
typedef struct weighed_row {
    hga_id token, head; /* the token in its sample */
    const sample_cut *sample;
    const float *q; /* [padded], scaled */
    float lse;
} weighed_row;

static hga_id padded_dim(hga_id dim) { return (dim + KERNEL_PAD - 1) / KERNEL_PAD * KERNEL_PAD; }

/* ---- operands ---- */

static void lay_operand(const weighing *w, const float *from, float *to)
{
    if (to != from) memcpy(to, from, (size_t)w->s.dim * sizeof *to); /* of 16 bits, they are in place */
    if (w->s.in->precision == HGA_PRECISION_BF16) w->s.kernels->round_bf16(w->s.dim, to, to);
    memset(to + w->s.dim, 0, (size_t)(w->padded - w->s.dim) * sizeof *to);
}

static void pack_keys(const weighing *w, hga_id kv)
{
#pragma omp parallel for num_threads(w->s.threads) if (w->s.threads > 1)
    for (hga_id t = 0; t < w->s.in->n_tokens; t++) {
        float *to = w->keys + (ptrdiff_t)t * w->padded;
        lay_operand(w, key_row(&w->s, t, kv, to), to);
    }
}

static float lse_of(const weighing *w, int64_t token, hga_id head)
{
    const hga_tensor *t = &w->of->lse;
    const ptrdiff_t row = t->row_stride || t->head_stride ? t->row_stride : w->s.n_heads;
    const ptrdiff_t step = t->row_stride || t->head_stride ? t->head_stride : 1;
    return ((const float *)t->data)[token * row + head * step];
}

/* ---- weights ---- */

/* The weights of tokens [first, first + n) of the row's sample, n <= KERNEL_CHUNK. */
static double weigh_columns(const weighing *w, const weighed_row *r, hga_id first, hga_id n)
{
    const float *k[KERNEL_CHUNK];
    float difference[KERNEL_CHUNK], score[KERNEL_CHUNK + KERNEL_PAD];
    const float slope = w->of->slopes ? w->of->slopes[r->head] : 0;
    for (hga_id c = 0; c < n; c++) {
        k[c] = w->keys + (ptrdiff_t)(r->sample->token + first + c) * w->padded;
        difference[c] = -slope * fabsf((float)(r->token - first - c));
    }
    w->s.kernels->grad_scores(
        &(kernel_grad_row){
            .n = n, .dim = w->s.dim, .k = k, .terms.bias = difference, .q = r->q, .terms.cap = w->of->softcap},
        score);
    double sum = 0;
    for (hga_id c = 0; c < n; c++) sum += (double)expf(score[c] - r->lse);
    return sum;
}

/* The weight of block j of the row's sample; causal: only of tokens up to the row's. */
static double weigh_block(const weighing *w, const weighed_row *r, hga_id j)
{
    int64_t first = (int64_t)j * w->s.how->block, end = first + w->s.how->block;
    if (end > r->sample->n_tokens) end = r->sample->n_tokens;
    if (w->s.how->causal && end > r->token + 1) end = r->token + 1;
    double sum = 0;
    for (; first < end; first += KERNEL_CHUNK)
        sum += weigh_columns(w, r, (hga_id)first, (hga_id)(end - first < KERNEL_CHUNK ? end - first : KERNEL_CHUNK));
    return sum;
}

/* A row that sees nothing has no weights. */
static void weigh_row(const weighing *w, const weighed_row *r, hga_pos row)
{
    const hga_chosen *c = w->chosen;
    const int64_t token = (int64_t)r->sample->token + r->token;
    float *out = w->out + ((int64_t)r->head * w->s.in->n_tokens + token) * c->slots;
    for (hga_id i = 0; i < c->slots; i++) {
        const int some = i < c->first[row + 1] - c->first[row] && r->lse > -INFINITY;
        out[i] = some ? (float)weigh_block(w, r, c->block[c->first[row] + i]) : 0;
    }
}

/* Query block i of a sample, of one head. */
static void weigh_query_block(const weighing *w, const sample_cut *sample, hga_id i, hga_id head, float *q)
{
    const hga_selection *how = w->s.how;
    const hga_pos row = (hga_pos)(head / w->s.choosing) * w->s.n_query_blocks + sample->query_block + i;
    const int64_t first = (int64_t)i * how->query_block, end = first + how->query_block;
    for (int64_t t = first; t < end && t < sample->n_tokens; t++) {
        weighed_row r = {.token = (hga_id)t, .head = head, .sample = sample, .q = q};
        lay_operand(w, query_row(&w->s, sample->token + t, head, q), q);
        w->s.kernels->scale(w->s.dim, w->s.scale, q, q);
        r.lse = lse_of(w, sample->token + t, head);
        weigh_row(w, &r, row);
    }
}

/* Head by head of every key/value head, whose keys are packed once. */
static hga_status weigh_all(weighing *w)
{
    hga_status st = HGA_OK;
    const selecting *s = &w->s;
    const hga_id share = s->n_heads / s->n_kv_heads;
    float *q = NULL;
    w->padded = padded_dim(s->dim);
    HGA_TRY(hga_new(s->in->allocator, (int64_t)s->in->n_tokens * w->padded, sizeof *w->keys, &w->keys));
    HGA_TRY(hga_new(s->in->allocator, (int64_t)s->threads * w->padded, sizeof *q, &q));
    for (hga_id kv = 0; kv < s->n_kv_heads; kv++) {
        pack_keys(w, kv);
        for (hga_id h = kv * share; h < (kv + 1) * share; h++)
            for (const sample_cut *c = s->sample; c < s->sample + s->n_samples; c++)
#pragma omp parallel for num_threads(s->threads) schedule(dynamic, 16) if (s->threads > 1)
                for (hga_id i = 0; i < c->n_query_blocks; i++)
                    weigh_query_block(w, c, i, h, q + (ptrdiff_t)omp_get_thread_num() * w->padded);
    }
done:
    hga_delete(s->in->allocator, w->keys, (int64_t)s->in->n_tokens * w->padded, sizeof *w->keys);
    hga_delete(s->in->allocator, q, (int64_t)s->threads * w->padded, sizeof *q);
    return st;
}

/* ---- the call ---- */

static hga_status check_scores(const hga_chosen_scores *of, hga_id n)
{
    hga_status st = hga_check_reserved("hga_chosen_scores", of->reserved, sizeof of->reserved);
    if (!st) st = selection_check_tensor("lse", &of->lse, n);
    if (st) return st;
    if (of->lse.dtype != HGA_F32) return hga_fail(HGA_EINVAL, "lse is not of 32 bits");
    if (!(of->softcap >= 0 && of->softcap < INFINITY))
        return hga_fail(HGA_EINVAL, "softcap is %g; it must be finite, and 0 or more", (double)of->softcap);
    return HGA_OK;
}

/* One row of the choice has no more blocks than slots, and blocks that exist. */
static hga_status check_listed(const hga_chosen *c, hga_pos row, hga_id n_blocks)
{
    const hga_pos n = c->first[row + 1] - c->first[row];
    if (n < 0 || n > c->slots)
        return hga_fail(HGA_EINVAL, "row %lld of the choice has %lld blocks, and there are %d slots", (long long)row,
                        (long long)n, c->slots);
    for (hga_pos at = c->first[row]; at < c->first[row + 1]; at++)
        if (c->block[at] < 0 || c->block[at] >= n_blocks)
            return hga_fail(HGA_EINVAL, "the choice has block %d, and there are %d", c->block[at], n_blocks);
    return HGA_OK;
}

/* Checks that the choice fits the call. */
static hga_status check_chosen(const weighing *w)
{
    const hga_chosen *c = w->chosen;
    const selecting *s = &w->s;
    hga_status st = HGA_OK;
    if (c->n_choosers != s->n_choosers || c->n_query_blocks != s->n_query_blocks)
        return hga_fail(HGA_EINVAL, "the choice is of %d choosers' %d query blocks, the call of %d choosers' %d",
                        c->n_choosers, c->n_query_blocks, s->n_choosers, s->n_query_blocks);
    for (hga_id i = 0; i < s->n_choosers; i++)
        for (const sample_cut *p = s->sample; p < s->sample + s->n_samples; p++) {
            const hga_pos row = (hga_pos)i * s->n_query_blocks + p->query_block;
            for (hga_id r = 0; !st && r < p->n_query_blocks; r++) st = check_listed(c, row + r, p->n_blocks);
        }
    return st;
}

hga_status hga_chosen_weights(const hga_selection *how, const hga_select_input *in, const hga_chosen *chosen,
                              const hga_chosen_scores *scores, float *out)
{
    hga_status st = HGA_OK;
    hga_selection by_mean = *how; /* queries and keys are read, whichever scores chose */
    hga_select_input input = *in;
    by_mean.score = HGA_SELECT_MEAN, input.scores = NULL;
    weighing w = {.s = {.how = &by_mean, .in = &input}, .chosen = chosen, .of = scores, .out = out};
    HGA_TRY(selection_check(&by_mean, &input));
    HGA_TRY(check_scores(scores, in->n_tokens));
    HGA_TRY(selection_open(&w.s));
    HGA_TRY(check_chosen(&w));
    HGA_TRY(weigh_all(&w));
done:
    hga_delete(in->allocator, w.s.sample, w.s.n_samples, sizeof *w.s.sample);
    return st;
}
