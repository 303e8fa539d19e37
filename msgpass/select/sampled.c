/* sampled.c: a block's score by true weights of some queries: each sampled query has the softmax of its products with
   all keys that it may see, summed by blocks. Keys are read once. Weights are about a reference that may rise from
   chunk to chunk, as in attention; when a row has seen all keys, the sums of each chunk are brought to the last one.

   A tile has the m-th sampled query of each of sixteen query blocks, so that its sums lie as scores do. Blocks of more
   than KERNEL_CHUNK tokens are summed in runs. */
#include "sampled.h"

#include <math.h>
#include <omp.h>
#include <string.h>

static int is_sampled(const selecting *s) { return s->how->score == HGA_SELECT_SAMPLE; }

/* ---- keys ---- */

hga_status sampled_pack(selecting *s)
{
    if (!is_sampled(s)) return HGA_OK;
    const hga_allocator *a = s->in->allocator;
    sampled_keys *keys = &s->sampled;
    keys->n = keys->at ? s->sample->n_tokens : s->in->n_tokens;
    hga_status st = hga_new(a, s->n_kv_heads * keys->n, (size_t)s->dim * sizeof *keys->rows, &keys->rows);
    for (hga_id kv = 0; !st && kv < s->n_kv_heads; kv++)
#pragma omp parallel for num_threads(s->threads) if (s->threads > 1)
        for (int64_t i = 0; i < keys->n; i++) {
            float *to = keys->rows + (kv * keys->n + i) * s->dim;
            const float *from = key_row(s, i, kv, to);
            if (from != to) memcpy(to, from, (size_t)s->dim * sizeof *to);
            if (s->in->precision == HGA_PRECISION_BF16) s->kernels->round_bf16(s->dim, to, to);
        }
    return st;
}

void sampled_drop(selecting *s)
{
    hga_delete(s->in->allocator, s->sampled.rows, s->n_kv_heads * s->sampled.n,
               (size_t)s->dim * sizeof *s->sampled.rows);
    s->sampled.rows = NULL;
}

/* ---- runs of blocks ---- */

/* How a sample's keys are read: columns of a chunk, and of one of its runs, which lies in one block. */
typedef struct key_cut {
    hga_id block, columns, run;
} key_cut;

static key_cut cut_keys(hga_id block)
{
    if (block > KERNEL_CHUNK) return (key_cut){block, KERNEL_CHUNK, KERNEL_CHUNK};
    return (key_cut){block, KERNEL_CHUNK / block * block, block};
}

/* Columns of the chunk that begins at key u, of `end` keys. */
static hga_id chunk_columns(const key_cut *c, hga_id u, hga_id end)
{
    hga_id n = c->columns;
    if (c->block > KERNEL_CHUNK && c->block - u % c->block < n) n = c->block - u % c->block;
    return end - u < n ? end - u : n;
}

static hga_id runs_of_block(const key_cut *c) { return (c->block - 1) / c->run + 1; }
static hga_id runs_of_chunk(const key_cut *c) { return c->columns / c->run; }

/* Runs of the longest sample. */
static int64_t most_runs(const selecting *s)
{
    const key_cut c = cut_keys(s->how->block);
    return (int64_t)s->longest * runs_of_block(&c);
}

/* ---- scratch ---- */

hga_status sampler_make(const selecting *s, sampler *t)
{
    hga_status st = HGA_OK;
    const hga_allocator *a = s->in->allocator;
    HGA_TRY(hga_new(a, (int64_t)KERNEL_TILE * s->dim, sizeof *t->queries, &t->queries));
    HGA_TRY(hga_new(a, (int64_t)2 * s->dim * KERNEL_TILE, sizeof *t->transposed, &t->transposed));
    HGA_TRY(hga_new(a, 2 * most_runs(s) * KERNEL_TILE, sizeof *t->sum, &t->sum));
    HGA_TRY(hga_new(a, 2 * most_runs(s) * KERNEL_TILE, sizeof *t->factor, &t->factor));
done:
    return st;
}

void sampler_drop(const selecting *s, sampler *t)
{
    const hga_allocator *a = s->in->allocator;
    hga_delete(a, t->queries, (int64_t)KERNEL_TILE * s->dim, sizeof *t->queries);
    hga_delete(a, t->transposed, (int64_t)2 * s->dim * KERNEL_TILE, sizeof *t->transposed);
    hga_delete(a, t->sum, 2 * most_runs(s) * KERNEL_TILE, sizeof *t->sum);
    hga_delete(a, t->factor, 2 * most_runs(s) * KERNEL_TILE, sizeof *t->factor);
}

/* ---- sampled queries ---- */

/* The m-th sampled token of query block i, counted in the sample; -1: there is none. */
static hga_id sampled_token(const selecting *s, const sample_cut *c, hga_id i, hga_id m)
{
    const int64_t step = s->how->sample, first = (int64_t)i * s->how->query_block,
                  from = first < c->from ? c->from : first;
    const int64_t end = first + s->how->query_block < c->n_tokens ? first + s->how->query_block : c->n_tokens;
    const int64_t t = first + ((from - first) / step + m + 1) * step - 1;
    if (t < end) return (hga_id)t;
    return m == 0 ? (hga_id)(end - 1) : -1;
}

/* Queries of one tile. */
typedef struct sampled_tile {
    const scored_rows *of;
    hga_id token[KERNEL_TILE]; /* each row's; those of a row without one are -1 */
    hga_id least, most;        /* of all */
    const float *q;            /* transposed, scaled for base 2 */
    kernel_tile_state state;
    float greatest[KERNEL_TILE], total[KERNEL_TILE], unused[KERNEL_PAD];
    lane_mask seen[KERNEL_CHUNK];
    float *sum, *factor;
} sampled_tile;

/* Finds the m-th sampled query of each row; 0: no row has one. */
static int find_queries(const selecting *s, const scored_rows *r, hga_id m, sampled_tile *x)
{
    x->of = r, x->least = INT32_MAX, x->most = -1;
    for (hga_id i = r->first; i < r->end; i++) {
        const hga_id t = x->token[i] = sampled_token(s, r->x->sample, query_block_of(r->x, i), m);
        if (t >= 0 && t < x->least) x->least = t;
        if (t > x->most) x->most = t;
    }
    return x->most >= 0;
}

/* Their rows across the lanes. A row without a query has that of the greatest token, whose results nobody reads: a
   lane of zeros may make NaN of an infinite key. */
static void transpose_sampled(const selecting *s, sampler *t, sampled_tile *x, float *to)
{
    const float *row[KERNEL_TILE] = {NULL}, *other = NULL;
    const scored_rows *r = x->of;
    for (hga_id i = r->first; i < r->end; i++) {
        if (x->token[i] < 0) continue;
        float *buffer = t->queries + (ptrdiff_t)i * s->dim;
        row[i] = query_row(s, (int64_t)r->x->sample->token + x->token[i], head_of(s, r->x, i, r->h), buffer);
        if (s->in->precision == HGA_PRECISION_BF16) s->kernels->round_bf16(s->dim, row[i], buffer), row[i] = buffer;
        if (x->token[i] == x->most) other = row[i];
    }
    for (hga_id i = r->first; i < r->end; i++)
        if (x->token[i] < 0) row[i] = other;
    s->kernels->transpose_rows(r->end, row, s->scale * KERNEL_LOG2E, s->dim, to);
    x->q = to;
}

/* ---- weights ---- */

/* Which rows see the columns from u on; NULL: all do. */
static const lane_mask *find_seen(const selecting *s, sampled_tile *x, hga_id u, hga_id n)
{
    if (!s->how->causal || u + n - 1 <= x->least) return NULL;
    for (hga_id c = 0; c < n; c++) {
        unsigned rows = 0;
        for (hga_id i = x->of->first; i < x->of->end; i++)
            rows |= (unsigned)((x->token[i] < 0 ? x->most : x->token[i]) >= u + c) << i;
        x->seen[c] = (lane_mask)rows;
    }
    return x->seen;
}

/* The weights of n columns from u on, summed by runs, about each tile's references. */
static void weigh_chunk(const selecting *s, sampled_tile *x, int n_tiles, hga_id u, hga_id n, float *const *sum)
{
    static const float none[KERNEL_CHUNK];
    const float *key[KERNEL_CHUNK];
    const scored_rows *r = x->of;
    const int64_t first = s->sampled.at ? 0 : r->x->sample->token;
    const float *rows = s->sampled.rows + (r->kv * s->sampled.n + first + u) * s->dim;
    const key_cut cut = cut_keys(s->how->block);
    for (hga_id c = 0; c < n; c++) key[c] = rows + (ptrdiff_t)c * s->dim;
    kernel_tile tile = {.n_groups = n_tiles, .n = n, .dim = s->dim, .k = key, .terms.bias = none};
    for (int g = 0; g < n_tiles; g++)
        tile.group[g] = (kernel_tile_group){.n_rows = KERNEL_TILE,
                                            .q = x[g].q,
                                            .rows = find_seen(s, &x[g], u, n),
                                            .fresh = u == 0,
                                            .state = x[g].state};
    s->kernels->weigh_tile(&tile, cut.run, sum);
}

/* The weights of all keys that a row of the tiles sees; returns the number of runs. */
static int64_t weigh_keys(const selecting *s, sampler *t, sampled_tile *x, int n_tiles)
{
    const key_cut cut = cut_keys(s->how->block);
    hga_id end = x->of->x->sample->n_tokens, n;
    int64_t chunk = 0, run = 0;
    if (s->how->causal) end = (n_tiles > 1 && x[1].most > x->most ? x[1].most : x->most) + 1;
    for (int g = 0; g < n_tiles; g++) {
        x[g].sum = t->sum + g * most_runs(s) * KERNEL_TILE;
        x[g].factor = t->factor + g * most_runs(s) * KERNEL_TILE;
        x[g].state = (kernel_tile_state){x[g].greatest, x[g].total, x[g].unused, 0};
    }
    for (hga_id u = 0; u < end; u += n, chunk++) {
        float *const sum[] = {x->sum + run * KERNEL_TILE, n_tiles > 1 ? x[1].sum + run * KERNEL_TILE : NULL};
        n = chunk_columns(&cut, u, end);
        weigh_chunk(s, x, n_tiles, u, n, sum);
        for (int g = 0; g < n_tiles; g++)
            memcpy(x[g].factor + chunk * KERNEL_TILE, x[g].greatest, sizeof x[g].greatest);
        run += (n - 1) / cut.run + 1;
    }
    return run;
}

/* What the references of chunks become: e^(reference - last one) / the sum of all weights; 0 where there is none. */
static void find_factors(const selecting *s, sampled_tile *x, int64_t runs)
{
    const key_cut cut = cut_keys(s->how->block);
    const hga_id n = (hga_id)((runs - 1) / runs_of_chunk(&cut) + 1) * KERNEL_TILE;
    float inverse[KERNEL_TILE];
    for (hga_id i = 0; i < KERNEL_TILE; i++)
        inverse[i] = i >= x->of->first && i < x->of->end && x->token[i] >= 0 && x->total[i] > 0 ? 1 / x->total[i] : 0;
    for (hga_id k = 0; k < n; k++) {
        const float last = x->greatest[k % KERNEL_TILE];
        x->factor[k] = last > -INFINITY ? (x->factor[k] - last) * KERNEL_LN2 : 0;
    }
    s->kernels->exp(n, x->factor);
    for (hga_id k = 0; k < n; k++) x->factor[k] *= inverse[k % KERNEL_TILE];
}

/* Adds the rows' shares of each of n blocks, of which there are so many runs, to its scores. */
static void add_shares(const selecting *s, const sampled_tile *x, hga_id n, int64_t runs, float *out)
{
    const key_cut cut = cut_keys(s->how->block);
    const hga_id of_block = runs_of_block(&cut), of_chunk = runs_of_chunk(&cut);
    for (int64_t p = 0; p < runs && p / of_block < n; p++) {
        float *to = out + p / of_block * KERNEL_TILE;
        const float *sum = x->sum + p * KERNEL_TILE, *factor = x->factor + p / of_chunk * KERNEL_TILE;
        for (hga_id i = x->of->first; i < x->of->end; i++) to[i] += sum[i] * factor[i];
    }
}

/* The first row whose products have NaN or +inf, and the block of the first of these; -1: none. */
static hga_id find_bad(const selecting *s, const sampled_tile *x, int64_t runs, hga_id *bad_block)
{
    const key_cut cut = cut_keys(s->how->block);
    for (hga_id i = x->of->first; i < x->of->end; i++) {
        if (x->token[i] < 0 || x->total[i] < INFINITY) continue;
        int64_t p = 0;
        while (p < runs - 1 && x->sum[p * KERNEL_TILE + i] < INFINITY) p++;
        *bad_block = (hga_id)(p / runs_of_block(&cut));
        return i;
    }
    return -1;
}

/* ---- scores ---- */

/* The first of bad rows, and of its blocks. */
typedef struct first_bad {
    hga_id row, block;
} first_bad;

static void note_bad(first_bad *first, hga_id row, hga_id block)
{
    if (row < 0) return;
    if (first->row < 0 || row < first->row || (row == first->row && block < first->block))
        *first = (first_bad){row, block};
}

/* Adds the scores of rows that read one key/value head, two sampled queries of each at a time. */
static void score_rows(const selecting *s, sampler *t, const scored_rows *r, hga_id n, float *out, first_bad *bad)
{
    sampled_tile x[2];
    for (hga_id m = 0; find_queries(s, r, m, &x[0]); m += 2) {
        const int n_tiles = 1 + find_queries(s, r, m + 1, &x[1]);
        for (int g = 0; g < n_tiles; g++)
            transpose_sampled(s, t, &x[g], t->transposed + (ptrdiff_t)g * s->dim * KERNEL_TILE);
        const int64_t runs = weigh_keys(s, t, x, n_tiles);
        for (int g = 0; g < n_tiles; g++) {
            hga_id block = 0, row = find_bad(s, &x[g], runs, &block);
            note_bad(bad, row, block);
            find_factors(s, &x[g], runs);
            add_shares(s, &x[g], n, runs, out);
        }
        if (n_tiles == 1) break;
    }
}

hga_id sampled_score(const selecting *s, sampler *t, const sixteen *x, hga_id n, float *out, hga_id *bad_block)
{
    first_bad bad = {-1, -1};
    memset(out, 0, (size_t)n * KERNEL_TILE * sizeof *out);
    for (hga_id h = 0; h < s->choosing; h++)
        for (scored_rows r = rows_from(s, x, 0, h);; r = rows_from(s, x, r.end, h)) {
            score_rows(s, t, &r, n, out, &bad);
            if (r.end == x->n) break;
        }
    *bad_block = bad.block;
    return bad.row;
}
