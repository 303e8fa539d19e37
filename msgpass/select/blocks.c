/* blocks.c: samples cut into blocks, and the summary row of a block of keys: their mean, or their bounds. */
#include "select.h"

#include <math.h>
#include <omp.h>

static hga_id blocks_of(hga_id n, hga_id block) { return n / block + (n % block != 0); }

/* Finds the first block of every sample, and the total. */
hga_status blocks_cut(selecting *s)
{
    const hga_select_input *in = s->in;
    hga_status st = HGA_OK;
    int64_t block = 0, query_block = 0, coarse = 0;
    s->n_samples = in->offsets ? in->n_samples : 1;
    HGA_TRY(hga_new_zero(in->allocator, s->n_samples, sizeof *s->sample, &s->sample));
    for (hga_id i = 0; i < s->n_samples; i++) {
        sample_cut *c = &s->sample[i];
        c->token = in->offsets ? in->offsets[i] : 0;
        c->n_tokens = (in->offsets ? in->offsets[i + 1] : in->n_tokens) - c->token;
        c->n_blocks = blocks_of(c->n_tokens, s->how->block);
        c->n_query_blocks = blocks_of(c->n_tokens, s->how->query_block);
        c->n_coarse = s->how->coarse ? blocks_of(c->n_tokens, s->how->coarse) : 0;
        c->block = (hga_id)block, c->query_block = (hga_id)query_block, c->coarse = (hga_id)coarse;
        block += c->n_blocks, query_block += c->n_query_blocks, coarse += c->n_coarse;
        if (c->n_blocks > s->longest) s->longest = c->n_blocks;
    }
    s->keys.n = (hga_id)block, s->n_query_blocks = (hga_id)query_block, s->coarse.n = (hga_id)coarse;
done:
    return st;
}

/* ---- rows of tensors ---- */

/* Rows of one head, from a tensor's row `first` on: n of them, at most KERNEL_CHUNK. */
typedef struct head_rows {
    const kernel_table *kernels;
    const hga_tensor *t;
    const float *const *at; /* NULL, or pointers to rows, [heads][dim] each, outside the tensor */
    hga_id heads, head, dim, n;
    int64_t first;
    const float *row[KERNEL_CHUNK];
} head_rows;

/* Finds the rows, widened into `buffer` [KERNEL_CHUNK][dim] where they have 16 bits. */
static void find_head_rows(head_rows *r, float *buffer)
{
    for (hga_id i = 0; r->at && i < r->n; i++) r->row[i] = r->at[r->first + i] + (ptrdiff_t)r->head * r->dim;
    if (r->at) return;
    const hga_tensor *t = r->t;
    int packed = t->row_stride == 0 && t->head_stride == 0;
    ptrdiff_t step = packed ? (ptrdiff_t)r->heads * r->dim : t->row_stride;
    ptrdiff_t at = r->first * step + r->head * (packed ? r->dim : t->head_stride);
    for (hga_id i = 0; i < r->n; i++, at += step) {
        if (t->dtype == HGA_F32) {
            r->row[i] = (const float *)t->data + at;
            continue;
        }
        float *wide = buffer + (ptrdiff_t)i * r->dim;
        r->kernels->widen_halves(t->dtype == HGA_F16, r->dim, (const uint16_t *)t->data + at, wide);
        r->row[i] = wide;
    }
}

/* The one row of r, of which tensor, rows outside it, heads, head and `first` are set. */
static const float *find_row(const selecting *s, head_rows *r, float *buffer)
{
    r->kernels = s->kernels, r->dim = s->dim, r->n = 1;
    find_head_rows(r, buffer);
    return r->row[0];
}

const float *query_row(const selecting *s, int64_t i, hga_id head, float *buffer)
{
    head_rows r = {.t = &s->in->query, .at = s->query_at, .heads = s->n_heads, .head = head, .first = i};
    return find_row(s, &r, buffer);
}

const float *key_row(const selecting *s, int64_t i, hga_id head, float *buffer)
{
    head_rows r = {.t = &s->in->key, .at = s->sampled.at, .heads = s->n_kv_heads, .head = head, .first = i};
    return find_row(s, &r, buffer);
}

/* ---- summary rows of blocks ---- */

/* The source of blocks: keys or queries. */
typedef struct block_kind {
    const hga_tensor *t;
    const float *const *at;
    hga_id heads, block, columns, n_blocks;
    size_t first, n; /* offsets in sample_cut of the first block and the number of blocks */
    int bounds;
    float *out; /* [heads][n_blocks][columns] */
} block_kind;

static hga_id cut_at(const sample_cut *c, size_t member) { return *(const hga_id *)((const char *)c + member); }

static void sum_rows(const selecting *s, const head_rows *r, float *out)
{
    static const float ones[KERNEL_CHUNK] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                             1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                             1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    s->kernels->sum(r->n, r->row, 0, ones, s->dim, out);
}

/* Greatest, then least; NaN stays in both. */
static void bound_rows(const head_rows *r, int fresh, float *out)
{
    for (hga_id i = 0; i < r->n; i++, fresh = 0)
        for (hga_id j = 0; j < r->dim; j++) {
            float x = r->row[i][j], *most = &out[j], *least = &out[r->dim + j];
            if (fresh || x > *most || isnan(x)) *most = x;
            if (fresh || x < *least || isnan(x)) *least = x;
        }
}

/* The summary row of tokens [first, first + n) of a head. */
static void make_block(const selecting *s, const block_kind *k, int64_t first, hga_id n, hga_id head, float *buffer,
                       float *out)
{
    head_rows r = {.kernels = s->kernels, .t = k->t, .at = k->at, .heads = k->heads, .head = head, .dim = s->dim};
    for (hga_id j = 0; j < k->columns; j++) out[j] = 0;
    for (hga_id done = 0; done < n; done += r.n) {
        r.n = n - done < KERNEL_CHUNK ? n - done : KERNEL_CHUNK, r.first = first + done;
        find_head_rows(&r, buffer);
        if (k->bounds)
            bound_rows(&r, done == 0, out);
        else
            sum_rows(s, &r, out);
    }
    if (!k->bounds) s->kernels->scale(s->dim, 1 / (float)n, out, out);
    if (s->in->precision == HGA_PRECISION_BF16) s->kernels->round_bf16(k->columns, out, out);
}

void block_of_rows(const selecting *s, const float *const *row, hga_id n, hga_id heads, int bounds, ptrdiff_t stride,
                   float *out)
{
    const block_kind k = {.at = row, .heads = heads, .columns = bounds ? 2 * s->dim : s->dim, .bounds = bounds};
    for (hga_id h = 0; h < heads; h++) make_block(s, &k, 0, n, h, NULL, out + h * stride);
}

/* Block j of a sample, of all heads. */
static void make_heads(const selecting *s, const block_kind *k, const sample_cut *c, hga_id first_block, hga_id j,
                       float *buffer)
{
    int64_t first = (int64_t)j * k->block, n = c->n_tokens - first;
    for (hga_id h = 0; h < k->heads; h++)
        make_block(s, k, c->token + first, (hga_id)(n < k->block ? n : k->block), h, buffer,
                   k->out + ((ptrdiff_t)h * k->n_blocks + first_block + j) * k->columns);
}

/* All blocks of one kind, sample by sample; a sample's blocks are divided among threads. */
static hga_status make_blocks(const selecting *s, const block_kind *k)
{
    hga_status st = HGA_OK;
    float *buffer = NULL;
    const int64_t each = (int64_t)s->dim * KERNEL_CHUNK;
    HGA_TRY(hga_new(s->in->allocator, s->threads * each, sizeof *buffer, &buffer));
    for (const sample_cut *c = s->sample; c < s->sample + s->n_samples; c++) {
        hga_id first = cut_at(c, k->first), n = cut_at(c, k->n);
#pragma omp parallel for num_threads(s->threads) if (s->threads > 1)
        for (hga_id j = 0; j < n; j++) make_heads(s, k, c, first, j, buffer + omp_get_thread_num() * each);
    }
done:
    hga_delete(s->in->allocator, buffer, s->threads * each, sizeof *buffer);
    return st;
}

static hga_status make_keys(selecting *s, hga_id block, size_t first, size_t n, key_blocks *out)
{
    const hga_select_input *in = s->in;
    const int bounds = s->how->score == HGA_SELECT_MINMAX;
    hga_status st =
        hga_new(in->allocator, (int64_t)s->n_kv_heads * out->n, (size_t)s->columns * sizeof(float), &out->rows);
    block_kind keys = {&in->key, NULL, s->n_kv_heads, block, s->columns, out->n, first, n, bounds, out->rows};
    return st ? st : make_blocks(s, &keys);
}

/* The means of query blocks. */
static hga_status make_queries(selecting *s)
{
    const hga_select_input *in = s->in;
    hga_status st =
        hga_new(in->allocator, (int64_t)s->n_heads * s->n_query_blocks, (size_t)s->dim * sizeof(float), &s->queries);
    block_kind queries = {.t = &in->query,
                          .heads = s->n_heads,
                          .block = s->how->query_block,
                          .columns = s->dim,
                          .n_blocks = s->n_query_blocks,
                          .first = offsetof(sample_cut, query_block),
                          .n = offsetof(sample_cut, n_query_blocks),
                          .out = s->queries};
    return st ? st : make_blocks(s, &queries);
}

/* The summary rows of blocks of keys, of coarse ones, and of query blocks of several tokens. */
hga_status blocks_make(selecting *s)
{
    hga_status st = HGA_OK;
    const hga_selection *how = s->how;
    s->columns = how->score == HGA_SELECT_MINMAX ? 2 * s->dim : s->dim;
    if (how->score == HGA_SELECT_SCORES || how->score == HGA_SELECT_SAMPLE) return HGA_OK;
    HGA_TRY(make_keys(s, how->block, offsetof(sample_cut, block), offsetof(sample_cut, n_blocks), &s->keys));
    if (how->coarse)
        HGA_TRY(make_keys(s, how->coarse, offsetof(sample_cut, coarse), offsetof(sample_cut, n_coarse), &s->coarse));
    if (how->query_block > 1) HGA_TRY(make_queries(s));
done:
    return st;
}

static void drop_keys(const selecting *s, const key_blocks *k)
{
    hga_delete(s->in->allocator, k->rows, (int64_t)s->n_kv_heads * k->n, (size_t)s->columns * sizeof *k->rows);
}

void blocks_drop(selecting *s)
{
    const hga_allocator *a = s->in->allocator;
    hga_delete(a, s->queries, (int64_t)s->n_heads * s->n_query_blocks, (size_t)s->dim * sizeof *s->queries);
    drop_keys(s, &s->coarse);
    drop_keys(s, &s->keys);
    hga_delete(a, s->sample, s->n_samples, sizeof *s->sample);
}
