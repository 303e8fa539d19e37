/* kernel_cases.h: what the tests of kernels share: numbers, the formula in double, groups of a tile. */
#ifndef KERNEL_CASES_H
#define KERNEL_CASES_H

#include "testing.h"

#include "kernels.h"
#include "machine.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DIM = 130, ROW = 192 };
static const double LN2 = 0.69314718055994531;

typedef struct numbers {
    float k[KERNEL_CHUNK][ROW], v[KERNEL_CHUNK][ROW], r[KERNEL_CHUNK][ROW], q[KERNEL_TILE + 1][ROW],
        bias[KERNEL_CHUNK + KERNEL_PAD];
    const float *kp[KERNEL_CHUNK], *vp[KERNEL_CHUNK], *rp[KERNEL_CHUNK];
} numbers;

static uint32_t seed = 1;
static inline float draw(float scale)
{
    seed = seed * 1664525u + 1013904223u;
    return ((float)(seed >> 8) / 8388608.0f - 1) * scale;
}

/* Each instruction set gets the same numbers, whichever others this machine has. */
static inline int begin_draws(void)
{
    seed = 1;
    return 1;
}

static inline hga_id below(hga_id n)
{
    seed = seed * 1664525u + 1013904223u;
    return (hga_id)((seed >> 8) % (uint32_t)n);
}

static inline void fill(numbers *x, hga_id dim)
{
    memset(x, 0, sizeof *x);
    for (int i = 0; i < KERNEL_CHUNK; i++) {
        for (int j = 0; j < ROW; j++) x->k[i][j] = draw(1), x->v[i][j] = draw(1), x->r[i][j] = draw(1);
        x->bias[i] = draw(3);
        x->kp[i] = x->k[i], x->vp[i] = x->v[i], x->rp[i] = x->r[i];
    }
    for (int r = 0; r < KERNEL_TILE + 1; r++)
        for (hga_id j = 0; j < dim; j++) x->q[r][j] = draw(1);
}

/* out[dim_v], *lse: softmax in base 2 over columns with keep[c], in double; the log-sum-exp is natural */
static inline void plain_softmax(const numbers *x, const float *q, hga_id n, hga_id dim, hga_id dim_v, int relative,
                                 const int *keep, const double *extra, double *out, double *lse)
{
    double score[KERNEL_CHUNK], most = -INFINITY, sum = 0;
    for (hga_id c = 0; c < n; c++) {
        score[c] = (double)x->bias[c] + (extra ? extra[c] : 0);
        for (hga_id j = 0; j < dim; j++)
            score[c] += (double)q[j] * ((double)x->k[c][j] + (relative ? (double)x->r[c][j] : 0));
        if (keep[c] && score[c] > most) most = score[c];
    }
    for (hga_id j = 0; j < dim_v; j++) out[j] = 0;
    for (hga_id c = 0; c < n; c++) {
        if (!keep[c]) continue;
        double p = score[c] == -INFINITY ? 0 : exp2(score[c] - most);
        sum += p;
        for (hga_id j = 0; j < dim_v; j++) out[j] += p * (double)x->v[c][j];
    }
    for (hga_id j = 0; j < dim_v; j++) out[j] = sum == 0 ? 0 : out[j] / sum;
    *lse = sum == 0 ? -INFINITY : most * LN2 + log(sum);
}

/* NaN and infinity must be where they are in double. */
static inline int is_near(double x, double want, double most)
{
    return isfinite(want) ? fabs(x - want) <= most : isnan(want) ? isnan(x) : x == want;
}

static inline double natural(float greatest, float sum) { return (double)greatest * LN2 + log((double)sum); }

/* `own`: the log-sum-exp of what is compared */
static inline void compare_within(double most, const char *isa, const float *acc, double own, float sum,
                                  const double *out, double lse, hga_id dim_v)
{
    if (lse == -INFINITY) {
        assert_true(sum == 0);
        return;
    }
    if (!is_near(own, lse, fmax(2e-5, most))) fail_msg("%s: lse %.8g is not %.8g", isa, own, lse);
    for (hga_id j = 0; j < dim_v; j++)
        if (!is_near((double)(acc[j] / sum), out[j], most))
            fail_msg("%s: [%d] %.8g is not %.8g", isa, j, (double)(acc[j] / sum), out[j]);
}

static inline void compare_state(const char *isa, const float *acc, float greatest, float sum, const double *out,
                                 double lse, hga_id dim_v)
{
    compare_within(2e-5, isa, acc, natural(greatest, sum), sum, out, lse, dim_v);
}

#define FOR_EACH_ISA(t)                                                              \
    for (const kernel_table *const *at = kernel_tables, *t; (t = *at) != NULL; at++) \
        if (isa_kernels(t->isa, &(const kernel_table *){NULL}) == HGA_OK && begin_draws())

/* A mask of every column. */
static inline const int *all_kept(void)
{
    static int kept[KERNEL_CHUNK];
    for (int i = 0; i < KERNEL_CHUNK; i++) kept[i] = 1;
    return kept;
}

/* One group of a tile and what it is compared with. */
typedef struct group_case {
    float q[MOST_DIM * KERNEL_TILE], pair[KERNEL_CHUNK * KERNEL_TILE], acc[KERNEL_TILE * ROW], greatest[KERNEL_TILE],
        sum[KERNEL_TILE];
    uint16_t mask[KERNEL_CHUNK];
    float end[KERNEL_TILE][ROW], *out[KERNEL_TILE];
} group_case;

/* Rows r0 .. of the queries; some groups with a mask, some with pair biases; some that start fresh, over whatever
   was there, and some that end here. */
static inline kernel_tile_group make_group(group_case *g, const numbers *x, hga_id r0, hga_id rows, hga_id dim,
                                           hga_id dim_v)
{
    const float *row[KERNEL_TILE];
    int fresh = below(2);
    for (hga_id r = 0; r < KERNEL_TILE; r++)
        g->greatest[r] = fresh ? 3 : -INFINITY, g->sum[r] = fresh ? NAN : 0, row[r] = x->q[r0 + r];
    for (int i = 0; i < KERNEL_TILE * ROW; i++) g->acc[i] = fresh ? NAN : 0;
    for (hga_id j = 0; j < dim; j++)
        for (hga_id r = 0; r < KERNEL_TILE; r++) g->q[j * KERNEL_TILE + r] = r < rows ? row[r][j] : 0;
    for (int i = 0; i < KERNEL_CHUNK * KERNEL_TILE; i++) g->pair[i] = draw(2);
    for (hga_id c = 0; c < KERNEL_CHUNK; c++) g->mask[c] = (uint16_t)(below(1 << 16) & below(1 << 16));
    for (hga_id r = 0; r < KERNEL_TILE; r++) g->out[r] = g->end[r];
    for (hga_id r = 0; r < KERNEL_TILE; r++)
        for (int j = 0; j < ROW; j++) g->end[r][j] = 7;
    return (kernel_tile_group){.n_rows = rows,
                               .q = g->q,
                               .rows = below(2) ? g->mask : NULL,
                               .pair_bias = below(3) ? NULL : g->pair,
                               .fresh = fresh,
                               .out = below(2) ? g->out : NULL,
                               .state = {g->greatest, g->sum, g->acc, (dim_v + 15) / 16 * 16}};
}

static inline void compare_group(double most, const char *isa, group_case *g, const kernel_tile_group *t,
                                 const numbers *x, hga_id r0, hga_id n, hga_id dim, hga_id dim_v)
{
    for (hga_id r = 0; r < t->n_rows; r++) {
        int keep[KERNEL_CHUNK], edges = 0;
        double extra[KERNEL_CHUNK], out[ROW], lse;
        for (hga_id c = 0; c < n; c++) {
            keep[c] = !t->rows || g->mask[c] >> r & 1, edges += keep[c];
            extra[c] = t->pair_bias ? (double)g->pair[c * KERNEL_TILE + r] : 0;
        }
        plain_softmax(x, x->q[r0 + r], n, dim, dim_v, 0, keep, extra, out, &lse);
        /* an ended row is what remains when its sum is 1, or 0 without an edge */
        compare_within(most, isa, t->out ? g->end[r] : g->acc + r * t->state.stride,
                       t->out ? (double)g->greatest[r] : natural(g->greatest[r], g->sum[r]),
                       t->out ? (lse > -INFINITY ? 1.0f : 0.0f) : g->sum[r], out, lse, dim_v);
        for (hga_id j = 0; t->out && !edges && j < dim_v; j++)
            assert_true(g->end[r][j] == 0 && g->greatest[r] == -INFINITY);
        for (hga_id j = t->out ? dim_v : 0; j < ROW; j++) assert_true(g->end[r][j] == 7);
    }
    for (hga_id r = t->n_rows; r < KERNEL_TILE; r++) assert_true(g->end[r][0] == 7);
}

static inline void compare_groups_bits(const group_case *a, const group_case *b, const kernel_tile_group *t,
                                       hga_id dim_v)
{
    assert_memory_equal(a->greatest, b->greatest, sizeof a->greatest);
    for (hga_id r = 0; r < t->n_rows; r++) {
        ptrdiff_t first = r * t->state.stride;
        if (!t->out) assert_memory_equal(a->acc + first, b->acc + first, (size_t)dim_v * sizeof *a->acc);
        assert_memory_equal(a->end[r], b->end[r], sizeof a->end[r]);
    }
}

#endif
