/* pick.c: chooses the blocks of sixteen query blocks from their scores. */
#include "select.h"

#include <math.h>
#include <string.h>

candidates candidates_of(const hga_selection *s, const sample_cut *sample, hga_id i)
{
    int64_t first = (int64_t)i * s->query_block, last = first + s->query_block - 1;
    if (last >= sample->n_tokens) last = sample->n_tokens - 1;
    candidates c = {.first_own = (hga_id)(first / s->block), .last_own = (hga_id)(last / s->block)};
    c.end = s->causal ? c.first_own : sample->n_blocks;
    return c;
}

static float *score_at(const picker *p, hga_id row, hga_id block)
{
    return &p->score[(ptrdiff_t)block * KERNEL_TILE + row];
}

/* Sets the scores of own blocks and of those past the candidates to -inf. */
static void leave_candidates(const candidates *c, hga_id row, hga_id n, picker *p)
{
    for (hga_id j = c->first_own; j <= c->last_own && j < n; j++) *score_at(p, row, j) = -INFINITY;
    for (hga_id j = c->end; j < n; j++) *score_at(p, row, j) = -INFINITY;
}

/* Sets the scores of missing rows to -inf. */
static void leave_absent(const sixteen *x, hga_id n, float *score)
{
    for (int64_t at = 0; at < (int64_t)n * KERNEL_TILE; at += KERNEL_TILE)
        for (hga_id row = x->n; row < KERNEL_TILE; row++) score[at + row] = -INFINITY;
}

/* The first row with NaN or +inf among n blocks' scores; -1: none. */
static hga_id find_bad(const sixteen *x, const float *score, hga_id n, hga_id *bad_block)
{
    int bad = 0;
    for (int64_t i = 0; i < (int64_t)n * KERNEL_TILE; i++) bad |= !(score[i] < INFINITY);
    for (hga_id row = 0; bad && row < x->n; row++)
        for (hga_id j = 0; j < n; j++)
            if (!(score[(ptrdiff_t)j * KERNEL_TILE + row] < INFINITY)) return *bad_block = j, row;
    return -1;
}

static hga_id force(picker *p, hga_id row, hga_id j)
{
    lane_mask bit = (lane_mask)(1u << row), had = p->forced[j] & bit;
    p->forced[j] |= bit;
    return !had;
}

/* Forces own blocks, sinks and local candidates; returns their number. */
static hga_id force_row(const hga_selection *s, const candidates *c, hga_id row, picker *p)
{
    hga_id n = 0;
    for (hga_id j = c->first_own; j <= c->last_own; j++) n += force(p, row, j);
    for (hga_id j = 0; j < s->sinks && j < c->end; j++) n += force(p, row, j);
    for (hga_id j = c->first_own - 1; j >= 0 && c->first_own - j <= s->local; j--) n += force(p, row, j);
    return n;
}

/* ---- the shortest prefix by definition: a heap of a row's candidates by probability ---- */

static int is_likelier(const double *p, hga_id a, hga_id b) { return p[a] > p[b] || (p[a] == p[b] && a < b); }

static void sink_likely(hga_id *heap, hga_id n, const double *p, hga_id at)
{
    hga_id moved = heap[at];
    for (hga_id child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && is_likelier(p, heap[child + 1], heap[child])) child++;
        if (!is_likelier(p, heap[child], moved)) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* A row's candidates with scores, n of them in the picker's heap. */
typedef struct likely {
    hga_id row, n;
    float most, least;
} likely;

/* The row's candidates with scores, which become the heap's first. */
static likely find_likely(const picker *p, hga_id row, hga_id n)
{
    likely x = {.row = row, .most = -INFINITY, .least = INFINITY};
    for (hga_id j = 0; j < n; j++) {
        const float s = *score_at(p, row, j);
        if (!(s > -INFINITY)) continue;
        p->heap[x.n++] = j, x.most = fmaxf(x.most, s), x.least = fminf(x.least, s);
    }
    return x;
}

/* Their probabilities: the softmax of the scores, or where these are weights their shares of the sum, without which
   none is likely. */
static likely find_probabilities(const picker *p, hga_id row, hga_id n)
{
    double sum = 0;
    likely x = find_likely(p, row, n);
    for (hga_id i = 0; i < x.n; i++) {
        const double s = (double)*score_at(p, row, p->heap[i]);
        sum += p->p[p->heap[i]] = p->weights ? s : exp(s - (double)x.most);
    }
    if (sum == 0) x.n = 0;
    for (hga_id i = 0; i < x.n; i++) p->p[p->heap[i]] /= sum;
    return x;
}

static void choose(picker *p, hga_id row, hga_id j) { p->chosen[j] |= (lane_mask)(1u << row); }

/* Chooses the shortest prefix of the heap's first n, where `sum` is the probability of those before them. `close`,
   unless NULL, is set where another order of additions might decide otherwise. */
static void choose_prefix(double threshold, hga_id row, hga_id n, double sum, picker *p, int *close)
{
    enum { CLOSE = 1000000000 };
    for (hga_id at = n / 2 - 1; at >= 0; at--) sink_likely(p->heap, n, p->p, at);
    while (n > 0 && sum < threshold) {
        sum += p->p[p->heap[0]];
        choose(p, row, p->heap[0]);
        p->heap[0] = p->heap[--n];
        if (n > 0) sink_likely(p->heap, n, p->p, 0);
        if (close) *close |= fabs(sum - threshold) * CLOSE < 1;
    }
}

/* ---- the same by buckets of descending scores: only one bucket has both chosen and other candidates ---- */

enum { BUCKETS = 128 };

typedef struct buckets {
    double sum[BUCKETS];
    float scale; /* buckets from one score to another */
} buckets;

/* The bucket of a score; greater scores are never in a later one. */
static hga_id bucket_of(const picker *p, const likely *x, const buckets *b, hga_id j)
{
    return (hga_id)((x->most - *score_at(p, x->row, j)) * b->scale);
}

/* Scores that are nearly equal have equal probabilities, which are ordered by block. */
static int may_be_bucketed(const likely *x) { return x->n > 8 && x->most - x->least > 1e-3f && x->least > -1e30f; }

/* The bucket in which the sum reaches the threshold, and the sum of those before it. */
static hga_id find_bucket(const picker *p, const likely *x, double threshold, buckets *b, double *before)
{
    hga_id at = 0;
    double sum = 0;
    *b = (buckets){.scale = (BUCKETS - 1) / (x->most - x->least)};
    for (hga_id i = 0; i < x->n; i++) b->sum[bucket_of(p, x, b, p->heap[i])] += p->p[p->heap[i]];
    for (; at < BUCKETS - 1 && sum + b->sum[at] < threshold; at++) sum += b->sum[at];
    *before = sum;
    return at;
}

/* 0: another order of additions might decide otherwise; the caller then discards the choice. */
static int choose_by_buckets(double threshold, const likely *x, picker *p)
{
    buckets b;
    double before;
    hga_id n = 0, all = x->n, at = find_bucket(p, x, threshold, &b, &before);
    int close = fabs(before - threshold) < 1e-9 || fabs(before + b.sum[at] - threshold) < 1e-9;
    for (hga_id i = 0; !close && i < all; i++) {
        const hga_id j = p->heap[i], bucket = bucket_of(p, x, &b, j);
        if (bucket < at) choose(p, x->row, j);
        if (bucket == at) p->heap[n++] = j;
    }
    if (!close) choose_prefix(threshold, x->row, n, before, p, &close);
    return !close;
}

/* The fewest most probable candidates whose probabilities reach the threshold; 1: all of them. */
static void choose_likely(double threshold, hga_id row, hga_id n_blocks, picker *p)
{
    if (threshold == 1) {
        const hga_id n = find_likely(p, row, n_blocks).n;
        for (hga_id i = 0; i < n; i++) choose(p, row, p->heap[i]);
        return;
    }
    likely x = find_probabilities(p, row, n_blocks);
    if (may_be_bucketed(&x) && choose_by_buckets(threshold, &x, p)) return;
    for (hga_id j = 0; j < n_blocks; j++) p->chosen[j] &= (lane_mask) ~(1u << row);
    x = find_probabilities(p, row, n_blocks);
    choose_prefix(threshold, row, x.n, 0, p, NULL);
}

/* ---- coarse blocks ---- */

hga_id coarse_before(const selecting *s, const sixteen *x)
{
    return (hga_id)((int64_t)last_query_block(x) / s->how->coarse);
}

/* Chooses each row's best coarse blocks before its own, in p->open. */
static void open_coarse(const selecting *s, const sixteen *x, hga_id n, picker *p)
{
    hga_id requested[KERNEL_TILE] = {0};
    memset(p->open, 0, (size_t)n * sizeof *p->open);
    for (hga_id row = 0; row < x->n; row++) {
        requested[row] = s->how->coarse_k;
        for (hga_id a = query_block_of(x, row) / s->how->coarse; a < n; a++)
            p->coarse[(ptrdiff_t)a * KERNEL_TILE + row] = -INFINITY;
    }
    s->kernels->pick_best(n, requested, p->coarse, p->open);
}

/* Removes candidates that are neither forced, nor in a chosen coarse block, nor near. */
static void close_others(const selecting *s, const sixteen *x, hga_id n, picker *p)
{
    const hga_id each = s->how->coarse / s->how->block;
    for (hga_id row = 0; row < x->n; row++) {
        const hga_id near = query_block_of(x, row) / s->how->coarse - 1;
        const lane_mask bit = (lane_mask)(1u << row);
        for (hga_id j = 0; j < n && j / each < near; j++)
            if (!((p->open[j / each] | p->forced[j]) & bit)) *score_at(p, row, j) = -INFINITY;
    }
}

/* ---- sixteen ---- */

static void choose_best(const selecting *s, hga_id n, const hga_id *requested, picker *p)
{
    for (hga_id j = 0; j < n; j++)
        for (lane_mask rows = p->forced[j]; rows; rows &= (lane_mask)(rows - 1))
            *score_at(p, __builtin_ctz(rows), j) = -INFINITY;
    s->kernels->pick_best(n, requested, p->score, p->chosen);
}

/* Marks each row's choice in p->chosen; returns the first row with a NaN or +inf score, -1: none. */
hga_id pick_sixteen(const selecting *s, const sixteen *x, picker *p, hga_id *bad_block)
{
    hga_id requested[KERNEL_TILE] = {0}, n = candidates_of(s->how, x->sample, last_query_block(x)).end;
    memset(p->forced, 0, (size_t)x->sample->n_blocks * sizeof *p->forced);
    memset(p->chosen, 0, (size_t)x->sample->n_blocks * sizeof *p->chosen);
    const hga_id n_coarse = s->how->coarse ? coarse_before(s, x) : 0;
    for (hga_id row = 0; row < x->n; row++) {
        const candidates c = candidates_of(s->how, x->sample, query_block_of(x, row));
        leave_candidates(&c, row, n, p);
        const hga_id forced = force_row(s->how, &c, row, p);
        const hga_id k = blocks_of_chooser(s->how, x->chooser + row / x->each);
        if (forced < k) requested[row] = k - forced;
    }
    leave_absent(x, n, p->score), leave_absent(x, n_coarse, p->coarse);
    hga_id bad = find_bad(x, p->score, n, bad_block);
    if (bad < 0) bad = find_bad(x, p->coarse, n_coarse, bad_block);
    if (bad >= 0) return bad;
    if (n_coarse > 0) open_coarse(s, x, n_coarse, p), close_others(s, x, n, p);
    if (by_number(s->how)) choose_best(s, n, requested, p);
    for (hga_id row = 0; !by_number(s->how) && row < x->n; row++) choose_likely(s->how->threshold, row, n, p);
    for (hga_id j = 0; j < x->sample->n_blocks; j++) p->chosen[j] |= p->forced[j];
    return -1;
}
