/* Every kernel of every instruction set this machine has, against the same formula in double. */
#include "testing.h"

#include "execute.h"
#include "kernels.h"

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
static float draw(float scale)
{
    seed = seed * 1664525u + 1013904223u;
    return ((float)(seed >> 8) / 8388608.0f - 1) * scale;
}

static hga_id below(hga_id n)
{
    seed = seed * 1664525u + 1013904223u;
    return (hga_id)((seed >> 8) % (uint32_t)n);
}

static void fill(numbers *x, hga_id dim)
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
static void plain_softmax(const numbers *x, const float *q, hga_id n, hga_id dim, hga_id dim_v, int relative,
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
static int is_near(double x, double want, double most)
{
    return isfinite(want) ? fabs(x - want) <= most : isnan(want) ? isnan(x) : x == want;
}

static double natural(float greatest, float sum) { return (double)greatest * LN2 + log((double)sum); }

/* `own`: the log-sum-exp of what is compared */
static void compare_within(double most, const char *isa, const float *acc, double own, float sum, const double *out,
                           double lse, hga_id dim_v)
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

static void compare_state(const char *isa, const float *acc, float greatest, float sum, const double *out, double lse,
                          hga_id dim_v)
{
    compare_within(2e-5, isa, acc, natural(greatest, sum), sum, out, lse, dim_v);
}

#define FOR_EACH_ISA(t)                                                              \
    for (const kernel_table *const *at = kernel_tables, *t; (t = *at) != NULL; at++) \
        if (isa_kernels(t->isa, &(const kernel_table *){NULL}) == HGA_OK)

static int all_kept[KERNEL_CHUNK];

/* Two chunks one after the other: the state carries over. */
static void attend_is_softmax(void **unused)
{
    (void)unused;
    numbers *x = malloc(sizeof *x);
    FOR_EACH_ISA(t)
    for (int round = 0; round < 400; round++) {
        hga_id dim = 1 + below(MOST_DIM), dim_v = 1 + below(MOST_DIM), n = 1 + below(KERNEL_CHUNK), half = below(n + 1);
        int relative = round & 1;
        float acc[ROW] = {0};
        double out[ROW], lse;
        fill(x, dim);
        kernel_state s = {-INFINITY, 0, acc};
        kernel_chunk c = {.n = half,
                          .dim = dim,
                          .dim_v = dim_v,
                          .q = x->q[0],
                          .k = x->kp,
                          .v = x->vp,
                          .r = relative ? x->rp : NULL,
                          .bias = x->bias};
        if (half) t->attend(&c, &s);
        c.n = n - half, c.k += half, c.v += half, c.bias += half;
        if (relative) c.r += half;
        if (c.n) t->attend(&c, &s);
        plain_softmax(x, x->q[0], n, dim, dim_v, relative, all_kept, NULL, out, &lse);
        compare_state(t->isa, acc, s.greatest, s.sum, out, lse, dim_v);
    }
    free(x);
}

static void minus_infinity_scores_weigh_nothing(void **unused)
{
    (void)unused;
    numbers *x = malloc(sizeof *x);
    FOR_EACH_ISA(t)
    {
        fill(x, 8);
        float acc[ROW] = {0};
        for (int i = 0; i < KERNEL_CHUNK; i++) x->bias[i] = -INFINITY;
        kernel_state s = {-INFINITY, 0, acc};
        t->attend(&(kernel_chunk){.n = 20, .dim = 8, .dim_v = 8, .q = x->q[0], .k = x->kp, .v = x->vp, .bias = x->bias},
                  &s);
        assert_true(s.sum == 0 && s.greatest == -INFINITY && acc[0] == 0);
    }
    free(x);
}

/* One group of a tile and what it is compared with. */
typedef struct group_case {
    float q[MOST_DIM * KERNEL_TILE], pair[KERNEL_CHUNK * KERNEL_TILE], acc[KERNEL_TILE * ROW], greatest[KERNEL_TILE],
        sum[KERNEL_TILE];
    uint16_t mask[KERNEL_CHUNK];
    float end[KERNEL_TILE][ROW], *out[KERNEL_TILE];
} group_case;

/* Rows r0 .. of the queries; some groups with a mask, some with pair biases; some that are fresh, over whatever was
   there, and some that end here. */
static kernel_tile_group make_group(group_case *g, const numbers *x, hga_id r0, hga_id rows, hga_id dim, hga_id dim_v)
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

static void compare_group(double most, const char *isa, group_case *g, const kernel_tile_group *t, const numbers *x,
                          hga_id r0, hga_id n, hga_id dim, hga_id dim_v)
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

static void compare_groups_bits(const group_case *a, const group_case *b, const kernel_tile_group *t, hga_id dim_v)
{
    assert_memory_equal(a->greatest, b->greatest, sizeof a->greatest);
    for (hga_id r = 0; r < t->n_rows; r++) {
        ptrdiff_t first = r * t->state.stride;
        if (!t->out) assert_memory_equal(a->acc + first, b->acc + first, (size_t)dim_v * sizeof *a->acc);
        assert_memory_equal(a->end[r], b->end[r], sizeof a->end[r]);
    }
}

/* Any rows, columns, masks and pair biases, in one group or two, fresh or not, ending or not; and a group computes the
   same bits alone as beside another. */
static void a_tile_is_softmax_of_each_row(void **unused)
{
    (void)unused;
    numbers *x = malloc(sizeof *x);
    static group_case g[2], alone;
    FOR_EACH_ISA(t)
    for (int round = 0; round < 600; round++) {
        hga_id dim = 1 + below(MOST_DIM), dim_v = 1 + below(MOST_DIM), n = 1 + below(KERNEL_CHUNK), many = 1 + below(2);
        fill(x, dim);
        kernel_tile tile = {
            .n_groups = many, .n = n, .dim = dim, .dim_v = dim_v, .k = x->kp, .v = x->vp, .bias = x->bias};
        for (hga_id i = 0; i < many; i++) tile.group[i] = make_group(&g[i], x, i, 1 + below(KERNEL_TILE), dim, dim_v);
        kernel_tile last = tile;
        alone = g[many - 1];
        for (hga_id r = 0; r < KERNEL_TILE; r++) alone.out[r] = alone.end[r];
        last.n_groups = 1, last.group[0] = tile.group[many - 1];
        last.group[0].state = (kernel_tile_state){alone.greatest, alone.sum, alone.acc, last.group[0].state.stride};
        if (last.group[0].out) last.group[0].out = alone.out;
        t->attend_tile(&tile);
        t->attend_tile(&last);
        for (hga_id i = 0; i < many; i++) compare_group(2e-5, t->isa, &g[i], &tile.group[i], x, i, n, dim, dim_v);
        compare_groups_bits(&alone, &g[many - 1], &last.group[0], dim_v);
    }
    free(x);
}

/* ---- scores that rise from chunk to chunk ---- */

/* Where chunks are cut, and by how much a chunk's scores differ from those before: a few bits, which the greatest score
   so far still serves, up to hundreds, which it does not. NaN and infinities come now and then. */
enum { MOST_CHUNKS = 5 };
static const float steps[] = {0, 1, 8, 20, -20, 160, -160, 800, -800};

typedef struct chunks {
    hga_id n, first[MOST_CHUNKS + 1];
} chunks;

static chunks cut_chunks(numbers *x, hga_id columns, int strange)
{
    chunks c = {.n = 1 + below(MOST_CHUNKS)};
    float level = 0, step = steps[below((hga_id)(sizeof steps / sizeof *steps))];
    for (hga_id i = 1; i <= c.n; i++)
        c.first[i] = i == c.n ? columns : c.first[i - 1] + below(columns - c.first[i - 1] + 1);
    for (hga_id i = 0; i < c.n; i++, level += step)
        for (hga_id e = c.first[i]; e < c.first[i + 1]; e++) {
            x->bias[e] = below(9) ? level + draw(3) : -INFINITY;
            if (strange && !below(40)) x->bias[e] = below(2) ? NAN : INFINITY;
        }
    return c;
}

/* float32 knows scores to some 1e-7 of themselves, and weights of what is said of scores by 32 above. */
static double tolerance_of(const numbers *x, hga_id n)
{
    double most = 0;
    for (hga_id e = 0; e < n; e++)
        if (isfinite(x->bias[e])) most = fmax(most, fabs((double)x->bias[e]));
    return 2e-5 + 3e-7 * most;
}

/* Tiles: rows without edges, alone in some chunks or in all, and rows that end or not; a group's bits do not depend on
   the one beside it, nor a row's on the other rows, whether their scores rise or not. */
static void tiles_bear_rising_scores(void **unused)
{
    (void)unused;
    numbers *x = malloc(sizeof *x);
    static group_case g[2], alone;
    FOR_EACH_ISA(t)
    for (int round = 0; round < 600; round++) {
        hga_id dim = 1 + below(20), dim_v = 1 + below(MOST_DIM), n = 1 + below(KERNEL_CHUNK),
               rows = 1 + below(KERNEL_TILE);
        fill(x, dim);
        chunks c = cut_chunks(x, n, round % 5 == 0);
        kernel_tile tile = {.n_groups = 2, .dim = dim, .dim_v = dim_v, .k = x->kp, .v = x->vp, .bias = x->bias};
        for (hga_id i = 0; i < 2; i++) {
            tile.group[i] = make_group(&g[i], x, i, i ? rows : KERNEL_TILE, dim, dim_v);
            tile.group[i].pair_bias = NULL, tile.group[i].rows = round % 3 ? g[i].mask : NULL;
        }
        float *const *out = tile.group[1].out;
        tile.group[0].out = NULL;
        alone = g[1];
        kernel_tile last = tile;
        last.n_groups = 1, last.group[0] = tile.group[1], last.group[0].q = alone.q;
        last.group[0].state = (kernel_tile_state){alone.greatest, alone.sum, alone.acc, tile.group[1].state.stride};
        for (hga_id r = 0; r < KERNEL_TILE; r++) alone.out[r] = alone.end[r];
        for (hga_id i = 0; i < c.n; i++) {
            hga_id first = c.first[i];
            for (int both = 0; both < 2; both++) {
                kernel_tile part = both ? tile : last;
                part.n = c.first[i + 1] - first, part.k += first, part.v += first, part.bias += first;
                for (hga_id k = 0; k < part.n_groups; k++) {
                    if (part.group[k].rows) part.group[k].rows += first;
                    part.group[k].fresh &= i == 0;
                }
                part.group[both].out = i < c.n - 1 || !out ? NULL : both ? out : alone.out;
                t->attend_tile(&part);
            }
        }
        for (hga_id i = 0; i < 2; i++)
            compare_group(tolerance_of(x, n), t->isa, &g[i], &tile.group[i], x, i, n, dim, dim_v);
        compare_groups_bits(&alone, &g[1], &tile.group[1], dim_v);
    }
    free(x);
}

/* A row's bits do not change when other rows' scores rise. */
static void a_row_of_a_tile_stands_alone(void **unused)
{
    (void)unused;
    numbers *x = malloc(sizeof *x);
    static group_case g, h;
    FOR_EACH_ISA(t)
    for (int round = 0; round < 200; round++) {
        fill(x, 8);
        hga_id half = KERNEL_CHUNK / 2, still = below(KERNEL_TILE);
        kernel_tile tile = {.n_groups = 1, .n = half, .dim = 8, .dim_v = 24, .k = x->kp, .v = x->vp, .bias = x->bias};
        tile.group[0] = make_group(&g, x, 0, KERNEL_TILE, 8, 24);
        tile.group[0].out = NULL, tile.group[0].rows = NULL, tile.group[0].pair_bias = g.pair;
        h = g;
        for (hga_id e = 0; e < KERNEL_CHUNK; e++)
            for (hga_id r = 0; r < KERNEL_TILE; r++)
                if (r != still && e >= half) h.pair[e * KERNEL_TILE + r] += 100;
        for (int other = 0; other < 2; other++)
            for (hga_id i = 0; i < 2; i++) {
                kernel_tile part = tile;
                group_case *of = other ? &h : &g;
                part.k += i * half, part.v += i * half, part.bias += i * half, part.group[0].fresh &= i == 0;
                part.group[0].state = (kernel_tile_state){of->greatest, of->sum, of->acc, tile.group[0].state.stride};
                part.group[0].q = of->q, part.group[0].pair_bias = of->pair + i * half * KERNEL_TILE;
                t->attend_tile(&part);
            }
        ptrdiff_t place = still * tile.group[0].state.stride;
        assert_memory_equal(g.acc + place, h.acc + place, 24 * sizeof *g.acc);
        assert_true(g.greatest[still] == h.greatest[still] && g.sum[still] == h.sum[still]);
        assert_true(g.greatest[(still + 1) % KERNEL_TILE] < h.greatest[(still + 1) % KERNEL_TILE]);
    }
    free(x);
}

/* Single rows, and all heads of a row. */
static void rows_bear_rising_scores(void **unused)
{
    (void)unused;
    enum { MOST_HEADS = 8 };
    numbers *x = malloc(sizeof *x);
    FOR_EACH_ISA(t)
    for (int round = 0; round < 600; round++) {
        hga_id dim = 1 + below(20), dim_v = 1 + below(40), n = 1 + below(KERNEL_CHUNK), heads = 1 + below(MOST_HEADS);
        static float q[MOST_HEADS * ROW], acc[MOST_HEADS * ROW], one[ROW];
        float greatest[MOST_HEADS], sum[MOST_HEADS];
        fill(x, dim);
        chunks c = cut_chunks(x, n, round % 5 == 0);
        memset(acc, 0, sizeof acc), memset(one, 0, sizeof one);
        kernel_state s = {-INFINITY, 0, one};
        for (hga_id h = 0; h < heads; h++)
            memcpy(q + h * ROW, x->q[h], sizeof x->q[h]), greatest[h] = -INFINITY, sum[h] = 0;
        for (hga_id i = 0; i < c.n; i++) {
            hga_id first = c.first[i], many = c.first[i + 1] - first;
            if (!many) continue;
            t->attend(&(kernel_chunk){.n = many,
                                      .dim = dim,
                                      .dim_v = dim_v,
                                      .q = x->q[0],
                                      .k = x->kp + first,
                                      .v = x->vp + first,
                                      .bias = x->bias + first},
                      &s);
            t->attend_heads(&(kernel_heads){.n = many,
                                            .heads = heads,
                                            .dim = dim,
                                            .dim_v = dim_v,
                                            .share = heads,
                                            .q = q,
                                            .q_head = ROW,
                                            .k = x->kp + first,
                                            .v = x->vp + first,
                                            .bias = x->bias + first,
                                            .greatest = greatest,
                                            .sum = sum,
                                            .acc = acc,
                                            .acc_head = ROW});
        }
        double out[ROW], lse, most = tolerance_of(x, n);
        for (hga_id h = 0; h < heads; h++) {
            plain_softmax(x, x->q[h], n, dim, dim_v, 0, all_kept, NULL, out, &lse);
            compare_within(most, t->isa, acc + h * ROW, natural(greatest[h], sum[h]), sum[h], out, lse, dim_v);
            if (h == 0) compare_within(most, t->isa, one, natural(s.greatest, s.sum), s.sum, out, lse, dim_v);
        }
    }
    free(x);
}

/* What stands for "no edge" in a caller's biases, the least number, is not turned into -inf, which would leave a row of
   nothing else without edges. */
static void biases_in_base_2_stay_finite(void **unused)
{
    (void)unused;
    assert_true(in_base_2(-FLT_MAX) == -FLT_MAX && in_base_2(-INFINITY) == -INFINITY && isnan(in_base_2(NAN)));
    assert_true(in_base_2(-3e38f) == -FLT_MAX && in_base_2(0) == 0);
    assert_true(fabs((double)in_base_2(2.5f) - 2.5 / LN2) < 1e-6 && fabs((double)in_base_2(-80) + 80 / LN2) < 1e-4);
}

/* A value that is not finite reaches the rows that see its column, and no others. */
static void what_is_not_finite_stays_with_its_rows(void **unused)
{
    (void)unused;
    numbers *x = malloc(sizeof *x);
    static group_case g;
    FOR_EACH_ISA(t)
    for (int round = 0; round < 200; round++) {
        hga_id dim_v = 1 + below(MOST_DIM), n = 1 + below(KERNEL_CHUNK), bad = below(n), j = below(dim_v);
        fill(x, 8);
        kernel_tile tile = {.n_groups = 1, .n = n, .dim = 8, .dim_v = dim_v, .k = x->kp, .v = x->vp, .bias = x->bias};
        tile.group[0] = make_group(&g, x, 0, 1 + below(KERNEL_TILE), 8, dim_v);
        tile.group[0].rows = g.mask;
        x->v[bad][j] = round % 2 ? NAN : INFINITY;
        t->attend_tile(&tile);
        for (hga_id r = 0; r < tile.group[0].n_rows; r++) {
            const float *row = tile.group[0].out ? g.end[r] : g.acc + r * tile.group[0].state.stride;
            for (hga_id i = 0; i < dim_v; i++) assert_true(isfinite(row[i]) == !(i == j && g.mask[bad] >> r & 1));
        }
    }
    free(x);
}

static void rows_are_turned_and_copied(void **unused)
{
    (void)unused;
    numbers *x = malloc(sizeof *x);
    static float turned[(MOST_DIM + 1) * KERNEL_TILE], copied[KERNEL_CHUNK * ROW];
    FOR_EACH_ISA(t)
    for (int round = 0; round < 100; round++) {
        hga_id n = below(KERNEL_TILE + 1), columns = 1 + below(MOST_DIM), missing = below(KERNEL_TILE);
        const float *row[KERNEL_TILE];
        fill(x, columns);
        for (hga_id r = 0; r < n; r++) row[r] = r == missing ? NULL : x->k[r];
        for (int i = 0; i < KERNEL_TILE; i++) turned[columns * KERNEL_TILE + i] = 7;
        t->turn_rows(n, row, 0.5f, columns, turned);
        for (hga_id j = 0; j < columns; j++)
            for (hga_id r = 0; r < KERNEL_TILE; r++)
                assert_true(turned[j * KERNEL_TILE + r] == (r < n && row[r] ? 0.5f * row[r][j] : 0));
        for (int i = 0; i < KERNEL_TILE; i++) assert_true(turned[columns * KERNEL_TILE + i] == 7);
        memset(copied, 0, sizeof copied);
        t->copy_rows(n, x->kp, columns, copied, ROW);
        for (hga_id i = 0; i < n; i++)
            for (hga_id j = 0; j < ROW; j++) assert_true(copied[i * ROW + j] == (j < columns ? x->kp[i][j] : 0));
    }
    free(x);
}

static void looking_up_adds_each_lanes_own(void **unused)
{
    (void)unused;
    enum { TABLE = 90 };
    static float table[TABLE][KERNEL_TILE], out[KERNEL_CHUNK + 1][KERNEL_TILE], was[KERNEL_CHUNK + 1][KERNEL_TILE];
    static int32_t place[KERNEL_CHUNK][KERNEL_TILE];
    FOR_EACH_ISA(t)
    for (int round = 0; round < 50; round++) {
        hga_id n = below(KERNEL_CHUNK + 1);
        for (int i = 0; i < TABLE; i++)
            for (int r = 0; r < KERNEL_TILE; r++) table[i][r] = draw(1);
        for (int i = 0; i <= KERNEL_CHUNK; i++)
            for (int r = 0; r < KERNEL_TILE; r++) was[i][r] = out[i][r] = draw(1);
        for (int i = 0; i < KERNEL_CHUNK; i++)
            for (int r = 0; r < KERNEL_TILE; r++) place[i][r] = below(TABLE);
        t->look_up(n, place[0], table[0], out[0]);
        for (hga_id i = 0; i <= KERNEL_CHUNK; i++)
            for (int r = 0; r < KERNEL_TILE; r++)
                assert_true(out[i][r] == (i < n ? was[i][r] + table[place[i][r]][r] : was[i][r]));
    }
}

/* All heads at once are each head by itself: keys and values of several heads, some shared by several queries, columns
   any. */
static void heads_are_each_head(void **unused)
{
    (void)unused;
    enum { MOST_HEADS = 20, ROOM = 48 };
    static float key[KERNEL_CHUNK][MOST_HEADS * ROOM], value[KERNEL_CHUNK][MOST_HEADS * ROOM], q[MOST_HEADS * ROOM],
        acc[MOST_HEADS * ROOM];
    FOR_EACH_ISA(t)
    for (int round = 0; round < 200; round++) {
        hga_id kv = 1 + below(5), share = 1 + below(4), heads = kv * share, n = 1 + below(KERNEL_CHUNK),
               dim = 1 + below(ROOM - 8), dim_v = 1 + below(ROOM - 8);
        float bias[KERNEL_CHUNK + KERNEL_PAD], greatest[MOST_HEADS], sum[MOST_HEADS];
        const float *k[KERNEL_CHUNK], *v[KERNEL_CHUNK];
        memset(q, 0, sizeof q), memset(acc, 0, sizeof acc);
        for (hga_id e = 0; e < n; e++) {
            k[e] = key[e], v[e] = value[e], bias[e] = below(6) ? draw(2) : -INFINITY;
            for (int j = 0; j < MOST_HEADS * ROOM; j++) key[e][j] = draw(1), value[e][j] = draw(1);
        }
        for (hga_id h = 0; h < heads; h++) {
            greatest[h] = -INFINITY, sum[h] = 0;
            for (hga_id j = 0; j < dim; j++) q[h * ROOM + j] = draw(1);
        }
        t->attend_heads(&(kernel_heads){.n = n,
                                        .heads = heads,
                                        .dim = dim,
                                        .dim_v = dim_v,
                                        .share = share,
                                        .q = q,
                                        .q_head = ROOM,
                                        .k = k,
                                        .v = v,
                                        .k_head = dim,
                                        .v_head = dim_v,
                                        .bias = bias,
                                        .greatest = greatest,
                                        .sum = sum,
                                        .acc = acc,
                                        .acc_head = ROOM});
        for (hga_id h = 0; h < heads; h++) {
            float alone[ROOM] = {0};
            kernel_state s = {-INFINITY, 0, alone};
            t->attend(&(kernel_chunk){.n = n,
                                      .dim = dim,
                                      .dim_v = dim_v,
                                      .q = q + h * ROOM,
                                      .k = k,
                                      .v = v,
                                      .k_offset = h / share * dim,
                                      .v_offset = h / share * dim_v,
                                      .bias = bias},
                      &s);
            double lse = natural(greatest[h], sum[h]), want = natural(s.greatest, s.sum);
            if (s.sum == 0)
                assert_true(sum[h] == 0 && greatest[h] == -INFINITY);
            else if (fabs(lse - want) > 1e-5)
                fail_msg("%s: log-sum-exp of head %d is %g, not %g", t->isa, h, lse, want);
            for (hga_id j = 0; j < dim_v && s.sum != 0; j++)
                assert_true(fabs((double)(acc[h * ROOM + j] / sum[h]) - (double)(alone[j] / s.sum)) < 1e-5);
        }
    }
}

/* ---- families ---- */

enum { FAMILY_HEADS = 12, FAMILY_ROOM = 80 };

typedef struct family_case {
    float q[KERNEL_TILE][FAMILY_HEADS * FAMILY_ROOM], k[KERNEL_FAMILY][FAMILY_HEADS * FAMILY_ROOM],
        v[KERNEL_FAMILY][FAMILY_HEADS * FAMILY_ROOM], out[KERNEL_TILE][FAMILY_HEADS * FAMILY_ROOM],
        lse[KERNEL_TILE][FAMILY_HEADS];
    const float *qs[KERNEL_TILE], *ks[KERNEL_FAMILY], *vs[KERNEL_FAMILY];
    float *outs[KERNEL_TILE], *lses[KERNEL_TILE], bias[KERNEL_FAMILY];
    uint16_t rows[KERNEL_FAMILY];
} family_case;

/* Some rows have no place to go to, some columns no edge, some scores none or huge ones. */
static kernel_family draw_family(family_case *x)
{
    hga_id kv = 1 + below(4), share = 1 + below(3);
    float size = below(8) ? 1 : 40;
    for (int r = 0; r < KERNEL_TILE; r++) {
        x->qs[r] = x->q[r], x->outs[r] = below(6) ? x->out[r] : NULL, x->lses[r] = x->lse[r];
        for (int j = 0; j < FAMILY_HEADS * FAMILY_ROOM; j++) x->q[r][j] = draw(size), x->out[r][j] = 77;
    }
    for (int e = 0; e < KERNEL_FAMILY; e++) {
        x->ks[e] = x->k[e], x->vs[e] = x->v[e], x->bias[e] = below(8) ? draw(3) : -INFINITY;
        x->rows[e] = below(4) ? (uint16_t)below(1 << KERNEL_TILE) : 0;
        for (int j = 0; j < FAMILY_HEADS * FAMILY_ROOM; j++) x->k[e][j] = draw(1), x->v[e][j] = draw(1);
    }
    return (kernel_family){.n_rows = 1 + below(KERNEL_TILE),
                           .n = 1 + below(KERNEL_FAMILY),
                           .heads = kv * share,
                           .dim = below(3) ? 1 + below(FAMILY_ROOM) : 64,
                           .dim_v = 1 + below(FAMILY_ROOM),
                           .share = share,
                           .q = x->qs,
                           .k = x->ks,
                           .v = x->vs,
                           .q_head = FAMILY_ROOM,
                           .k_head = FAMILY_ROOM,
                           .v_head = FAMILY_ROOM,
                           .scale = 0.3f,
                           .bias = x->bias,
                           .rows = x->rows,
                           .out = x->outs,
                           .lse = x->lses,
                           .out_head = FAMILY_ROOM};
}

/* Row r and head h in double. */
static void plain_family(const kernel_family *c, hga_id r, hga_id h, double *out, double *lse)
{
    double score[KERNEL_FAMILY], greatest = -INFINITY, sum = 0;
    hga_id kv = h / c->share;
    for (hga_id e = 0; e < c->n; e++) {
        score[e] = 0;
        for (hga_id j = 0; j < c->dim; j++)
            score[e] += (double)c->q[r][h * c->q_head + j] * (double)c->k[e][kv * c->k_head + j];
        score[e] = c->rows[e] >> r & 1 ? score[e] * (double)c->scale + (double)c->bias[e] : -INFINITY;
        if (score[e] > greatest) greatest = score[e];
    }
    for (hga_id j = 0; j < c->dim_v; j++) out[j] = 0;
    for (hga_id e = 0; e < c->n; e++) {
        double p = score[e] == -INFINITY ? 0 : exp2(score[e] - greatest);
        sum += p;
        for (hga_id j = 0; j < c->dim_v; j++) out[j] += p * (double)c->v[e][kv * c->v_head + j];
    }
    for (hga_id j = 0; j < c->dim_v; j++) out[j] = sum > 0 ? out[j] / sum : 0;
    *lse = sum > 0 ? greatest * LN2 + log(sum) : -INFINITY;
}

static void a_family_is_softmax_of_each_row(void **unused)
{
    (void)unused;
    static family_case x;
    double want[FAMILY_ROOM], lse;
    FOR_EACH_ISA(t)
    for (int round = 0; round < 200; round++) {
        kernel_family c = draw_family(&x);
        t->attend_family(&c);
        for (hga_id r = 0; r < KERNEL_TILE; r++)
            for (hga_id h = 0; h < FAMILY_HEADS; h++) {
                int given = r < c.n_rows && h < c.heads && c.out[r];
                if (given) plain_family(&c, r, h, want, &lse);
                if (given && !is_near((double)c.lse[r][h], lse, 3e-4))
                    fail_msg("%s: lse %g is not %g", t->isa, (double)c.lse[r][h], lse);
                for (hga_id j = 0; j < FAMILY_ROOM; j++) {
                    double got = (double)x.out[r][h * FAMILY_ROOM + j], should = given && j < c.dim_v ? want[j] : 77;
                    if (!is_near(got, should, 3e-4)) fail_msg("%s: [%d] %g is not %g", t->isa, j, got, should);
                }
            }
    }
}

static void what_is_not_finite_stays_with_its_family_row(void **unused)
{
    (void)unused;
    static family_case x;
    FOR_EACH_ISA(t)
    for (int round = 0; round < 40; round++) {
        kernel_family c = draw_family(&x);
        c.n_rows = KERNEL_TILE, c.n = 2;
        x.rows[0] = 0x00ff, x.rows[1] = 0xff00, x.bias[0] = x.bias[1] = 0;
        x.k[0][0] = round & 1 ? NAN : INFINITY, x.v[0][0] = NAN;
        t->attend_family(&c);
        for (hga_id r = 0; r < KERNEL_TILE; r++)
            if (c.out[r]) assert_true(r < 8 ? isnan(c.out[r][0]) : isfinite(c.out[r][0]) && isfinite(c.lse[r][0]));
    }
}

static double plain_log_add(double a, double b)
{
    double most = a > b ? a : b;
    return most == -INFINITY ? most : most + log(exp(a - most) + exp(b - most));
}

/* A score, a very low one, or none. */
static float draw_lse(void) { return below(4) == 0 ? -INFINITY : below(4) == 0 ? draw(80) : draw(5); }

static void states_are_finished_and_merged(void **unused)
{
    (void)unused;
    enum { N = 37, COLUMNS = 21 };
    float x[N], y[N], a[N], b[N], row[N * COLUMNS], was[N * COLUMNS], other[N * COLUMNS];
    FOR_EACH_ISA(t)
    for (int round = 0; round < 200; round++) {
        hga_id n = 1 + below(N);
        for (hga_id i = 0; i < n; i++) x[i] = draw_lse(), y[i] = draw_lse();
        t->log_add(n, x, y, a);
        for (hga_id i = 0; i < n; i++) {
            double want = plain_log_add((double)x[i], (double)y[i]);
            assert_true((double)a[i] == want || fabs((double)a[i] - want) < 1e-5 * fmax(1, fabs(want)));
        }
        t->divide(n, x, y, a, b);
        for (hga_id i = 0; i < n; i++) {
            double want = x[i] == -INFINITY ? 0 : y[i] == -INFINITY ? 1 : 1 / (1 + exp((double)y[i] - (double)x[i]));
            assert_true(fabs((double)a[i] - want) < 1e-6 && fabs((double)b[i] - (1 - want)) < 1e-6);
        }
        for (hga_id i = 0; i < n; i++) a[i] = below(3) ? 1 + draw(0.9f) : 0;
        t->finish(n, x, a, b, y);
        for (hga_id i = 0; i < n; i++) {
            assert_true(a[i] == 0 ? b[i] == 0 && y[i] == -INFINITY : fabs((double)(b[i] * a[i]) - 1) < 1e-6);
            if (a[i] != 0 && x[i] > -INFINITY) assert_true(fabs((double)y[i] - natural(x[i], a[i])) < 1e-5);
        }
        for (hga_id i = 0; i < n; i++) x[i] = draw_lse(), y[i] = draw_lse();
        for (int i = 0; i < N * COLUMNS; i++) row[i] = was[i] = draw(1), other[i] = draw(1);
        float lse[N];
        t->shares(n, x, y, a, b, lse);
        t->mix(&(kernel_mix){.heads = n,
                             .columns = COLUMNS,
                             .a = a,
                             .b = b,
                             .x = row,
                             .y = other,
                             .out = row,
                             .x_head = COLUMNS,
                             .y_head = COLUMNS,
                             .out_head = COLUMNS});
        for (hga_id i = 0; i < n; i++) {
            double want = plain_log_add((double)x[i], (double)y[i]);
            assert_true((double)lse[i] == want || fabs((double)lse[i] - want) < 1e-5 * fmax(1, fabs(want)));
            if (y[i] == -INFINITY) assert_true(a[i] == 1 && b[i] == 0 && lse[i] == x[i]);
            for (int j = 0; j < COLUMNS && want > -INFINITY; j++) {
                double mixed = exp((double)x[i] - want) * (double)was[i * COLUMNS + j] +
                               exp((double)y[i] - want) * (double)other[i * COLUMNS + j];
                assert_true(fabs((double)row[i * COLUMNS + j] - mixed) < 1e-5);
            }
        }
    }
}

static void sum_and_blend_are_what_they_say(void **unused)
{
    (void)unused;
    numbers *x = malloc(sizeof *x);
    FOR_EACH_ISA(t)
    for (int round = 0; round < 200; round++) {
        hga_id n = below(KERNEL_CHUNK + 1), columns = 1 + below(MOST_DIM);
        if (round % 4 == 0) n = below(6), columns = 16 * (8 + below(4)); /* a few long rows */
        fill(x, 4);
        float acc[ROW], was[ROW], out[ROW];
        for (int j = 0; j < ROW; j++) acc[j] = was[j] = draw(1);
        t->sum(n, x->kp, 3, x->bias, columns, acc);
        for (hga_id j = 0; j < ROW; j++) {
            double want = (double)was[j];
            for (hga_id i = 0; j < columns && i < n; i++) want += (double)x->bias[i] * (double)x->k[i][3 + j];
            assert_true(fabs((double)acc[j] - want) < 1e-4);
        }
        t->weigh(n, x->kp, 3, x->bias, 0.25f, columns, acc);
        for (hga_id j = 0; j < columns; j++) {
            double want = 0;
            for (hga_id i = 0; i < n; i++) want += 0.25 * (double)x->bias[i] * (double)x->k[i][3 + j];
            assert_true(fabs((double)acc[j] - want) < 1e-4);
        }
        t->blend(columns, 2, x->k[0], -0.5f, x->v[0], out);
        t->scale(columns, 3, x->v[1], acc);
        for (hga_id j = 0; j < columns; j++) assert_true(acc[j] == 3 * x->v[1][j]);
        for (hga_id j = 0; j < columns; j++) assert_true(fabsf(out[j] - (2 * x->k[0][j] - 0.5f * x->v[0][j])) < 1e-6f);
    }
    free(x);
}

/* Within 2 ulp from -87 to 0, and an exact zero below. */
static void exp_is_exact_enough(void **unused)
{
    (void)unused;
    FOR_EACH_ISA(t)
    for (float x = -100; x <= 0; x += 0.0037f) {
        float y[5] = {x, -INFINITY, 0, x, -1e30f};
        t->exp(5, y);
        double want = x > -87 ? exp((double)x) : 0;
        if (fabs((double)y[0] - want) > 2.5e-7 * want)
            fail_msg("%s: e^%g is %.9g, not %.9g", t->isa, (double)x, (double)y[0], want);
        assert_true(y[1] == 0 && y[2] == 1 && y[4] == 0 && y[3] == y[0]);
    }
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void widen(const kernel_table *t, hga_id n, const uint16_t *x, float *out) { t->widen(1, &x, n, out, 0); }

static void bf16_rounds_to_nearest_even(void **unused)
{
    (void)unused;
    FOR_EACH_ISA(t)
    {
        float x[4] = {1 + 1 / 256.0f, 1 + 3 / 256.0f, -3.14159274f, 0}, y[4];
        t->round_bf16(4, x, y);
        assert_true(y[0] == 1 && y[1] == 1 + 4 / 256.0f && y[2] == -3.140625f && y[3] == 0);
    }
}

/* Any length, nothing written beyond it; NaN of any bits stays NaN, what is too large becomes infinite, and 16 bits
   become the float that was rounded. */
static void narrow_rounds_and_widen_restores(void **unused)
{
    (void)unused;
    static const uint32_t special[] = {0x7f800001, 0x7fffffff, 0xff80ffff, 0x7fc00000, 0x7f800000,
                                       0xff800000, 0x7f7fffff, 0x80000000, 0x00000001};
    FOR_EACH_ISA(t)
    for (hga_id n = 0; n < 50; n++) {
        float x[50], rounded[51], wide[51];
        uint16_t narrow[51];
        for (hga_id i = 0; i < n; i++)
            x[i] = below(3) ? draw(1000) : float_of(special[below((hga_id)(sizeof special / sizeof *special))]);
        narrow[n] = 77, rounded[n] = wide[n] = 7;
        t->narrow(n, x, narrow);
        widen(t, n, narrow, wide);
        t->round_bf16(n, x, rounded);
        for (hga_id i = 0; i < n; i++) {
            assert_true(isnan(x[i]) ? isnan(wide[i])
                                    : fabsf(x[i]) > 1e38f || wide[i] == x[i] ||
                                          fabsf(wide[i] - x[i]) <= fabsf(x[i]) / 256 + 1e-38f);
            assert_memory_equal(&wide[i], &rounded[i], sizeof *wide);
            assert_true(narrow[i] == (uint16_t)(x[i] == x[i] ? narrow[i] : narrow[i] | 0x40));
        }
        assert_true(narrow[n] == 77 && rounded[n] == 7 && wide[n] == 7);
    }
}

/* ---- 16 bits ---- */

/* The numbers with keys, values and queries rounded, and the same in 16 bits, row after row without a gap. */
typedef struct halves {
    numbers x;
    uint16_t k[KERNEL_CHUNK * ROW + 1], v[KERNEL_CHUNK * ROW + 1], q[(KERNEL_TILE + 1) * ROW];
    const uint16_t *kp[KERNEL_CHUNK], *vp[KERNEL_CHUNK];
} halves;

static void round_numbers(const kernel_table *t, halves *y, hga_id dim, hga_id dim_v)
{
    for (hga_id i = 0; i < KERNEL_CHUNK; i++) {
        y->kp[i] = y->k + 1 + i * dim, y->vp[i] = y->v + 1 + i * dim_v;
        t->narrow(dim, y->x.k[i], y->k + 1 + i * dim), widen(t, dim, y->kp[i], y->x.k[i]);
        t->narrow(dim_v, y->x.v[i], y->v + 1 + i * dim_v), widen(t, dim_v, y->vp[i], y->x.v[i]);
    }
    for (hga_id r = 0; r < KERNEL_TILE + 1; r++)
        t->narrow(dim, y->x.q[r], y->q + r * dim), widen(t, dim, y->q + r * dim, y->x.q[r]);
}

static void pair_group(const kernel_table *t, const halves *y, hga_id r0, hga_id dim, kernel_tile_group *g,
                       uint32_t *pairs)
{
    const float *row[KERNEL_TILE];
    for (hga_id r = 0; r < g->n_rows; r++) row[r] = y->x.q[r0 + r];
    t->turn_pairs(g->n_rows, row, dim, pairs);
    g->q_pairs = pairs, g->q = NULL;
}

static const hga_id odd_dims[] = {1, 2, 3, 15, 16, 17, 24, 31, 32, 33, 40, 48, 63, 64, 65, 80, 96, 128, 130};
static hga_id draw_dim(void) { return odd_dims[below((hga_id)(sizeof odd_dims / sizeof *odd_dims))]; }

/* Any rows, columns, dims, masks and pair biases, with numbers that are not finite where no edge is or where some rows
   see them; and a group computes the same alone as beside another. */
static void a_tile_of_16_bits_is_softmax_of_each_row(void **unused)
{
    (void)unused;
    halves *y = malloc(sizeof *y);
    static group_case g[2], alone;
    static uint32_t q[2][(MOST_DIM + 1) / 2 * KERNEL_TILE];
    FOR_EACH_ISA(t)
    for (int round = 0; round < 600; round++) {
        hga_id dim = draw_dim(), dim_v = draw_dim(), n = 1 + below(KERNEL_CHUNK), many = 1 + below(2);
        if (!t->attend_tile_bf16) break;
        fill(&y->x, dim);
        for (int i = 0; i < 3 && round % 3 == 0; i++) {
            float bad = below(2) ? NAN : below(2) ? INFINITY : -INFINITY;
            (below(4) ? y->x.v : y->x.k)[below(n)][below(2) ? 0 : below(dim < dim_v ? dim : dim_v)] = bad;
        }
        round_numbers(t, y, dim, dim_v);
        float scale = 1 / sqrtf((float)dim);
        kernel_tile tile = {.n_groups = many,
                            .n = n,
                            .dim = dim,
                            .dim_v = dim_v,
                            .bias = y->x.bias,
                            .k16 = y->kp,
                            .v = y->x.vp,
                            .scale = scale};
        for (hga_id i = 0; i < many; i++) {
            tile.group[i] = make_group(&g[i], &y->x, i, 1 + below(KERNEL_TILE), dim, dim_v);
            pair_group(t, y, i, dim, &tile.group[i], q[i]);
        }
        kernel_tile last = tile;
        alone = g[many - 1];
        for (hga_id r = 0; r < KERNEL_TILE; r++) alone.out[r] = alone.end[r];
        last.n_groups = 1, last.group[0] = tile.group[many - 1];
        last.group[0].state = (kernel_tile_state){alone.greatest, alone.sum, alone.acc, last.group[0].state.stride};
        if (last.group[0].out) last.group[0].out = alone.out;
        t->attend_tile_bf16(&tile);
        t->attend_tile_bf16(&last);
        for (int r = 0; r < KERNEL_TILE + 1; r++) t->scale(dim, scale, y->x.q[r], y->x.q[r]);
        for (hga_id i = 0; i < many; i++) compare_group(2e-5, t->isa, &g[i], &tile.group[i], &y->x, i, n, dim, dim_v);
        compare_groups_bits(&alone, &g[many - 1], &last.group[0], dim_v);
    }
    free(y);
}

/* Rows are rounded and turned, with zeros around them. */
static void pairs_are_turned(void **unused)
{
    (void)unused;
    halves *y = malloc(sizeof *y);
    static uint32_t turned[(MOST_DIM + 1) / 2 * KERNEL_TILE + 1];
    FOR_EACH_ISA(t)
    for (int round = 0; round < 100; round++) {
        hga_id dim = draw_dim(), rows = below(KERNEL_TILE + 1), missing = below(KERNEL_TILE);
        const float *row[KERNEL_TILE];
        if (!t->turn_pairs) break;
        fill(&y->x, dim);
        for (hga_id r = 0; r < rows; r++) row[r] = r == missing ? NULL : y->x.k[r];
        turned[(dim + 1) / 2 * KERNEL_TILE] = 7;
        t->turn_pairs(rows, row, dim, turned);
        round_numbers(t, y, dim, dim);
        for (hga_id j = 0; j < dim + dim % 2; j++)
            for (hga_id r = 0; r < KERNEL_TILE; r++)
                assert_true((turned[j / 2 * KERNEL_TILE + r] >> j % 2 * 16 & 0xffff) ==
                            (r < rows && row[r] && j < dim ? y->kp[r][j] : 0));
        assert_true(turned[(dim + 1) / 2 * KERNEL_TILE] == 7);
    }
    free(y);
}

/* Peaks count what was asked for and not less: two operations a lane and step, four where pairs are multiplied; a
   peak of pairs is there where pairs are. */
static void peaks_count_their_operations(void **unused)
{
    (void)unused;
    FOR_EACH_ISA(t)
    {
        float sink = NAN;
        double one = t->peak_fma(12, &sink), many = t->peak_fma(1200, &sink);
        assert_true(one > 0 && many == 100 * one && isfinite(sink));
        assert_true((t->peak_pairs != NULL) == (t->turn_pairs != NULL));
        if (!t->peak_pairs) continue;
        sink = NAN;
        assert_true(t->peak_pairs(1200, &sink) == 2 * many && isfinite(sink));
    }
}

/* One head's softmax over keys and values of 16 bits, in double. */
static void plain_head(hga_id n, hga_id dim, hga_id dim_v, const float *q, const uint16_t *const *k, ptrdiff_t k_at,
                       const uint16_t *const *v, ptrdiff_t v_at, const float *bias, double *out, double *lse)
{
    double score[KERNEL_CHUNK], most = -INFINITY, sum = 0;
    for (hga_id e = 0; e < n; e++) {
        score[e] = (double)bias[e];
        for (hga_id j = 0; j < dim; j++) score[e] += (double)q[j] * (double)float_of((uint32_t)k[e][k_at + j] << 16);
        if (score[e] > most) most = score[e];
    }
    for (hga_id j = 0; j < dim_v; j++) out[j] = 0;
    for (hga_id e = 0; e < n; e++) {
        double p = score[e] == -INFINITY ? 0 : exp2(score[e] - most);
        sum += p;
        for (hga_id j = 0; j < dim_v; j++) out[j] += p * (double)float_of((uint32_t)v[e][v_at + j] << 16);
    }
    for (hga_id j = 0; j < dim_v; j++) out[j] = sum == 0 ? 0 : out[j] / sum;
    *lse = sum == 0 ? -INFINITY : most * LN2 + log(sum);
}

/* One head or many, some sharing keys, in two chunks; rows of 16 bits begin anywhere. */
static void heads_of_16_bits_are_softmax(void **unused)
{
    (void)unused;
    enum { MOST_HEADS = 20, ROOM = 144 };
    static uint16_t key[KERNEL_CHUNK][5 * ROOM], value[KERNEL_CHUNK][5 * ROOM];
    static uint16_t q16[MOST_HEADS * ROOM];
    static float q[MOST_HEADS * ROOM], acc[MOST_HEADS * ROOM], row[5 * ROOM];
    FOR_EACH_ISA(t)
    for (int round = 0; round < 200; round++) {
        hga_id kv = 1 + below(5), share = 1 + below(4), heads = kv * share, n = 1 + below(KERNEL_CHUNK),
               half = below(n + 1), dim = draw_dim(), dim_v = draw_dim();
        float bias[KERNEL_CHUNK + KERNEL_PAD], greatest[MOST_HEADS], sum[MOST_HEADS];
        const uint16_t *k[KERNEL_CHUNK], *v[KERNEL_CHUNK];
        memset(acc, 0, sizeof acc);
        for (hga_id e = 0; e < n; e++) {
            k[e] = key[e] + e % 3, v[e] = value[e] + e % 2, bias[e] = below(6) ? draw(2) : -INFINITY;
            for (int j = 0; j < 5 * ROOM; j++) row[j] = draw(1);
            t->narrow(5 * ROOM, row, key[e]);
            for (int j = 0; j < 5 * ROOM; j++) row[j] = draw(1);
            t->narrow(5 * ROOM, row, value[e]);
        }
        for (hga_id h = 0; h < heads; h++) {
            greatest[h] = -INFINITY, sum[h] = 0;
        }
        for (int j = 0; j < MOST_HEADS * ROOM; j++) q[j] = draw(1);
        float scale = 1 / sqrtf((float)dim);
        t->narrow(MOST_HEADS * ROOM, q, q16), widen(t, MOST_HEADS * ROOM, q16, q),
            t->scale(MOST_HEADS * ROOM, scale, q, q);
        kernel_heads c = {.n = half,
                          .heads = heads,
                          .dim = dim,
                          .dim_v = dim_v,
                          .share = share,
                          .q16 = q16,
                          .scale = scale,
                          .q_head = dim,
                          .k16 = k,
                          .v16 = v,
                          .k_head = dim,
                          .v_head = dim_v};
        c.bias = bias, c.greatest = greatest, c.sum = sum, c.acc = acc, c.acc_head = ROOM;
        t->attend_heads_bf16(&c);
        c.n = n - half, c.k16 += half, c.v16 += half, c.bias += half;
        t->attend_heads_bf16(&c);
        for (hga_id h = 0; h < heads; h++) {
            double out[ROOM], lse;
            plain_head(n, dim, dim_v, q + h * dim, k, h / share * dim, v, h / share * dim_v, bias, out, &lse);
            compare_state(t->isa, acc + h * ROOM, greatest[h], sum[h], out, lse, dim_v);
        }
    }
}

/* Products of pairs are for operands of 16 bits alone: in float32 the two tables of AVX-512 compute the same bits. */
static void products_of_pairs_leave_float32_alone(void **unused)
{
    (void)unused;
    const kernel_table *t, *u;
    if (isa_kernels("avx512", &t) != HGA_OK || isa_kernels("avx512bf16", &u) != HGA_OK) skip();
    numbers *x = malloc(sizeof *x);
    static group_case g, h;
    for (int round = 0; round < 100; round++) {
        hga_id dim = draw_dim(), dim_v = draw_dim(), n = 1 + below(KERNEL_CHUNK);
        fill(x, dim);
        kernel_tile tile = {.n_groups = 1, .n = n, .dim = dim, .dim_v = dim_v, .k = x->kp, .v = x->vp, .bias = x->bias};
        tile.group[0] = make_group(&g, x, 0, 1 + below(KERNEL_TILE), dim, dim_v);
        kernel_tile other = tile;
        h = g;
        for (hga_id r = 0; r < KERNEL_TILE; r++) h.out[r] = h.end[r];
        other.group[0].state = (kernel_tile_state){h.greatest, h.sum, h.acc, tile.group[0].state.stride};
        if (other.group[0].out) other.group[0].out = h.out;
        t->attend_tile(&tile);
        u->attend_tile(&other);
        compare_groups_bits(&h, &g, &tile.group[0], dim_v);
        for (int j = 0; j < KERNEL_TILE * ROW; j++) g.acc[j] = h.acc[j] = 0;
        g.greatest[0] = h.greatest[0] = -INFINITY, g.sum[0] = h.sum[0] = 0;
        kernel_state s = {-INFINITY, 0, g.acc}, r = {-INFINITY, 0, h.acc};
        kernel_chunk c = {.n = n, .dim = dim, .dim_v = dim_v, .q = x->q[0], .k = x->kp, .v = x->vp, .bias = x->bias};
        t->attend(&c, &s);
        u->attend(&c, &r);
        assert_true(s.greatest == r.greatest && s.sum == r.sum);
        kernel_heads all = {.n = n,
                            .heads = 1,
                            .dim = dim,
                            .dim_v = dim_v,
                            .share = 1,
                            .q = x->q[0],
                            .k = x->kp,
                            .v = x->vp,
                            .bias = x->bias};
        all.greatest = g.greatest, all.sum = g.sum, all.acc = g.acc;
        t->attend_heads(&all);
        all.greatest = h.greatest, all.sum = h.sum, all.acc = h.acc;
        u->attend_heads(&all);
        t->exp(KERNEL_CHUNK, g.pair), u->exp(KERNEL_CHUNK, h.pair);
        assert_memory_equal(g.acc, h.acc, sizeof g.acc);
        assert_memory_equal(g.pair, h.pair, sizeof g.pair);
        assert_true(g.greatest[0] == h.greatest[0] && g.sum[0] == h.sum[0]);
    }
    free(x);
}

int main(void)
{
    for (int i = 0; i < KERNEL_CHUNK; i++) all_kept[i] = 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attend_is_softmax),
        cmocka_unit_test(minus_infinity_scores_weigh_nothing),
        cmocka_unit_test(a_tile_is_softmax_of_each_row),
        cmocka_unit_test(tiles_bear_rising_scores),
        cmocka_unit_test(a_row_of_a_tile_stands_alone),
        cmocka_unit_test(rows_bear_rising_scores),
        cmocka_unit_test(biases_in_base_2_stay_finite),
        cmocka_unit_test(what_is_not_finite_stays_with_its_rows),
        cmocka_unit_test(heads_are_each_head),
        cmocka_unit_test(a_family_is_softmax_of_each_row),
        cmocka_unit_test(what_is_not_finite_stays_with_its_family_row),
        cmocka_unit_test(states_are_finished_and_merged),
        cmocka_unit_test(rows_are_turned_and_copied),
        cmocka_unit_test(looking_up_adds_each_lanes_own),
        cmocka_unit_test(sum_and_blend_are_what_they_say),
        cmocka_unit_test(exp_is_exact_enough),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(narrow_rounds_and_widen_restores),
        cmocka_unit_test(pairs_are_turned),
        cmocka_unit_test(peaks_count_their_operations),
        cmocka_unit_test(a_tile_of_16_bits_is_softmax_of_each_row),
        cmocka_unit_test(heads_of_16_bits_are_softmax),
        cmocka_unit_test(products_of_pairs_leave_float32_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
