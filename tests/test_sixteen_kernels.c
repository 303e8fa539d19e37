/* Kernels of 16-bit numbers, and products of their pairs, of every instruction set this machine has. */
#include "halves.h"
#include "kernel_cases.h"

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

/* All numbers of 16 bits, from any address, in rows of any length: nothing is written after a row. */
static void every_half_is_widened(void **unused)
{
    (void)unused;
    FOR_EACH_ISA(t)
    for (int f16 = 0; f16 < 2; f16++)
        for (uint32_t first = 0, n = 0; first < 0x10000; first += n) {
            uint16_t half[41];
            float wide[41], want[41];
            n = 1 + (uint32_t)below(40);
            if (n > 0x10000 - first) n = 0x10000 - first;
            for (uint32_t i = 0; i < n; i++) half[i] = (uint16_t)(first + i);
            wide[n] = want[n] = 7;
            t->widen_halves(f16, (hga_id)n, half, wide);
            widen_row(f16, half, want, (hga_id)n);
            assert_memory_equal(wide, want, (n + 1) * sizeof *wide);
        }
}

/* Each half, what lies half way to the next, and the floats beside these; NaN of any bits, and floats of any. */
static void floats_are_rounded_to_the_nearest_half(void **unused)
{
    (void)unused;
    FOR_EACH_ISA(t)
    for (int f16 = 0; f16 < 2; f16++)
        for (uint32_t first = 0; first < 0x10000; first += 4) {
            enum { N = 4 * 7 + 3 };
            float x[N];
            uint16_t narrow[N + 1], want[N + 1];
            for (uint32_t i = 0; i < 4 * 7; i++) {
                uint16_t half = (uint16_t)(first + i / 7);
                float here = f16 ? widen_f16(half) : widen_bf16(half);
                uint32_t step = f16 ? 1u << 12 : 1u << 15, bits = sixteen_bits(here) + i % 7 / 3 * step + i % 3 - 1;
                x[i] = float_of(bits);
            }
            for (int i = 4 * 7; i < N; i++) x[i] = float_of((uint32_t)below(1 << 16) << 16 | (uint32_t)below(1 << 16));
            hga_id n = N - (hga_id)(first / 4 % 9);
            narrow[n] = want[n] = 77;
            t->narrow_halves(f16, n, x, narrow);
            narrow_row(f16, x, want, n);
            assert_memory_equal(narrow, want, ((size_t)n + 1) * sizeof *narrow);
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
    t->transpose_pairs(g->n_rows, row, dim, pairs);
    g->q_pairs = pairs, g->q = NULL;
}

static const hga_id odd_dims[] = {1, 2, 3, 15, 16, 17, 24, 31, 32, 33, 40, 48, 63, 64, 65, 80, 96, 128, 130};
static hga_id draw_dim(void) { return odd_dims[below((hga_id)(sizeof odd_dims / sizeof *odd_dims))]; }

/* Values in pairs; those on both sides of the tile's columns are nobody's, and are no numbers or not there. */
static void pair_values(const kernel_table *t, const halves *y, hga_id n, hga_id dim_v, kernel_tile *tile)
{
    static uint32_t pairs[(KERNEL_CHUNK + 2) / 2 * ROW];
    static uint16_t nobody[ROW];
    const uint16_t *row[KERNEL_CHUNK + 2], *beside = below(2) ? nobody : NULL;
    memset(nobody, 0xff, sizeof nobody);
    tile->odd = below(2), tile->v_pairs = pairs, tile->v_row = ROW;
    row[0] = beside;
    for (hga_id c = 0; c < n; c++) row[tile->odd + c] = y->vp[c];
    row[tile->odd + n] = beside;
    t->pair_rows((tile->odd + n + 1) / 2 * 2, row, dim_v, pairs, ROW);
}

/* Scores become whole: in base 2, weights are then exact in 16 bits. */
static void make_columns_whole(numbers *x)
{
    for (hga_id c = 0; c < KERNEL_CHUNK; c++) {
        memset(x->k[c], 0, sizeof x->k[c]);
        x->bias[c] = floorf(x->bias[c]);
    }
}
static void make_groups_whole(group_case *g, hga_id many)
{
    for (hga_id i = 0; i < many; i++)
        for (int j = 0; j < KERNEL_CHUNK * KERNEL_TILE; j++) g[i].pair[j] = floorf(g[i].pair[j]);
}

/* A weight that is rounded to eight bits is as much as half of the last one off. */
static const double ROUNDED_WEIGHTS = 4e-3;

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
        hga_id dim = draw_dim(), dim_v = draw_dim(), n = below(20) ? 1 + below(KERNEL_CHUNK) : 0, many = 1 + below(2);
        if (!t->attend_tile_bf16) break;
        int whole = below(2);
        fill(&y->x, dim);
        if (whole) make_columns_whole(&y->x);
        for (int i = 0; i < 3 && n && round % 3 == 0; i++) {
            float bad = below(2) ? NAN : below(2) ? INFINITY : -INFINITY;
            (below(4) ? y->x.v : y->x.k)[below(n)][below(2) ? 0 : below(dim < dim_v ? dim : dim_v)] = bad;
        }
        round_numbers(t, y, dim, dim_v);
        float scale = 1 / sqrtf((float)dim);
        kernel_tile tile = {.n_groups = many,
                            .n = n,
                            .dim = dim,
                            .dim_v = dim_v,
                            .terms.bias = y->x.bias,
                            .k16 = y->kp,
                            .terms.scale = scale};
        pair_values(t, y, n, dim_v, &tile);
        if (n == 0) tile.odd = 0;
        for (hga_id i = 0; i < many; i++) {
            tile.group[i] = make_group(&g[i], &y->x, i, 1 + below(KERNEL_TILE), dim, dim_v);
            pair_group(t, y, i, dim, &tile.group[i], q[i]);
        }
        if (whole) make_groups_whole(g, many);
        kernel_tile last = tile;
        alone = g[many - 1];
        for (hga_id r = 0; r < KERNEL_TILE; r++) alone.out[r] = alone.end[r];
        last.n_groups = 1, last.group[0] = tile.group[many - 1];
        last.group[0].state = (kernel_tile_state){alone.greatest, alone.sum, alone.acc, last.group[0].state.stride};
        if (last.group[0].out) last.group[0].out = alone.out;
        t->attend_tile_bf16(&tile);
        t->attend_tile_bf16(&last);
        for (int r = 0; r < KERNEL_TILE + 1; r++) t->scale(dim, scale, y->x.q[r], y->x.q[r]);
        for (hga_id i = 0; i < many; i++)
            compare_group(whole ? 2e-5 : ROUNDED_WEIGHTS, t->isa, &g[i], &tile.group[i], &y->x, i, n, dim, dim_v);
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
        if (!t->transpose_pairs) break;
        fill(&y->x, dim);
        for (hga_id r = 0; r < rows; r++) row[r] = r == missing ? NULL : y->x.k[r];
        turned[(dim + 1) / 2 * KERNEL_TILE] = 7;
        t->transpose_pairs(rows, row, dim, turned);
        round_numbers(t, y, dim, dim);
        for (hga_id j = 0; j < dim + dim % 2; j++)
            for (hga_id r = 0; r < KERNEL_TILE; r++)
                assert_true((turned[j / 2 * KERNEL_TILE + r] >> j % 2 * 16 & 0xffff) ==
                            (r < rows && row[r] && j < dim ? y->kp[r][j] : 0));
        assert_true(turned[(dim + 1) / 2 * KERNEL_TILE] == 7);
    }
    free(y);
}

/* Rows two by two, with zeros around them. */
static void rows_are_paired(void **unused)
{
    (void)unused;
    halves *y = malloc(sizeof *y);
    static uint32_t pairs[KERNEL_CHUNK / 2 * ROW + 1];
    FOR_EACH_ISA(t)
    for (int round = 0; round < 100; round++) {
        hga_id dim = draw_dim(), rows = 1 + below(KERNEL_CHUNK), missing = below(KERNEL_CHUNK),
               capacity = (dim + KERNEL_PAD - 1) / KERNEL_PAD * KERNEL_PAD;
        if (!t->pair_rows) break;
        fill(&y->x, dim);
        round_numbers(t, y, dim, dim);
        y->vp[missing] = NULL;
        hga_id n_pairs = (rows + 1) / 2;
        pairs[n_pairs * capacity] = 7;
        t->pair_rows(rows, y->vp, dim, pairs, capacity);
        for (hga_id i = 0; i < 2 * n_pairs; i++)
            for (hga_id j = 0; j < capacity; j++)
                assert_true((pairs[i / 2 * capacity + j] >> i % 2 * 16 & 0xffff) ==
                            (i < rows && y->vp[i] && j < dim ? y->vp[i][j] : 0));
        assert_true(pairs[n_pairs * capacity] == 7);
    }
    free(y);
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
    enum { MOST_HEADS = 20, CAPACITY = 144 };
    static uint16_t key[KERNEL_CHUNK][5 * CAPACITY], value[KERNEL_CHUNK][5 * CAPACITY];
    static uint16_t q16[MOST_HEADS * CAPACITY];
    static float q[MOST_HEADS * CAPACITY], acc[MOST_HEADS * CAPACITY], row[5 * CAPACITY];
    FOR_EACH_ISA(t)
    for (int round = 0; round < 200; round++) {
        hga_id kv = 1 + below(5), share = 1 + below(4), heads = kv * share, n = 1 + below(KERNEL_CHUNK),
               half = below(n + 1), dim = draw_dim(), dim_v = draw_dim();
        float bias[KERNEL_CHUNK + KERNEL_PAD], greatest[MOST_HEADS], sum[MOST_HEADS];
        const uint16_t *k[KERNEL_CHUNK], *v[KERNEL_CHUNK];
        memset(acc, 0, sizeof acc);
        for (hga_id e = 0; e < n; e++) {
            k[e] = key[e] + e % 3, v[e] = value[e] + e % 2, bias[e] = below(6) ? draw(2) : -INFINITY;
            for (int j = 0; j < 5 * CAPACITY; j++) row[j] = draw(1);
            t->narrow(5 * CAPACITY, row, key[e]);
            for (int j = 0; j < 5 * CAPACITY; j++) row[j] = draw(1);
            t->narrow(5 * CAPACITY, row, value[e]);
        }
        for (hga_id h = 0; h < heads; h++) {
            greatest[h] = -INFINITY, sum[h] = 0;
        }
        for (int j = 0; j < MOST_HEADS * CAPACITY; j++) q[j] = draw(1);
        float scale = 1 / sqrtf((float)dim);
        t->narrow(MOST_HEADS * CAPACITY, q, q16), widen(t, MOST_HEADS * CAPACITY, q16, q),
            t->scale(MOST_HEADS * CAPACITY, scale, q, q);
        kernel_heads c = {.n = half,
                          .heads = heads,
                          .dim = dim,
                          .dim_v = dim_v,
                          .share = share,
                          .bf16.q = q16,
                          .terms.scale = scale,
                          .q_head = dim,
                          .bf16.k = k,
                          .bf16.v = v,
                          .columns.k_head = dim,
                          .columns.v_head = dim_v};
        c.terms.bias = bias, c.states.greatest = greatest, c.states.sum = sum, c.states.acc = acc,
        c.states.head = CAPACITY;
        if (below(2)) c.known = half + below(n - half + 1); /* asked for meanwhile, and read by the next call */
        t->attend_heads_bf16(&c);
        c.n = n - half, c.bf16.k += half, c.bf16.v += half, c.terms.bias += half, c.known = c.known ? c.n : 0;
        t->attend_heads_bf16(&c);
        for (hga_id h = 0; h < heads; h++) {
            double out[CAPACITY], lse;
            plain_head(n, dim, dim_v, q + h * dim, k, h / share * dim, v, h / share * dim_v, bias, out, &lse);
            compare_state(t->isa, acc + h * CAPACITY, greatest[h], sum[h], out, lse, dim_v);
        }
    }
}

/* Products of pairs are for operands of 16 bits alone: in float32 the two tables of AVX-512, and NEON's, compute the
   same bits. */
static void products_of_pairs_leave_float32_alone(void **unused)
{
    (void)unused;
    static const char *const floats[] = {FLOAT_ISAS};
    const kernel_table *t, *u;
    if (isa_kernels(floats[2], &t) != HGA_OK || isa_kernels(PAIRS_ISA, &u) != HGA_OK) skip();
    numbers *x = malloc(sizeof *x);
    static group_case g, h;
    for (int round = 0; round < 100; round++) {
        hga_id dim = draw_dim(), dim_v = draw_dim(), n = 1 + below(KERNEL_CHUNK);
        fill(x, dim);
        kernel_tile tile = {
            .n_groups = 1, .n = n, .dim = dim, .dim_v = dim_v, .k = x->kp, .v = x->vp, .terms.bias = x->bias};
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
        kernel_chunk c = {
            .n = n, .dim = dim, .dim_v = dim_v, .q = x->q[0], .k = x->kp, .v = x->vp, .terms.bias = x->bias};
        t->attend(&c, &s);
        u->attend(&c, &r);
        assert_true(s.greatest == r.greatest && s.sum == r.sum);
        kernel_heads all = {.n = n,
                            .heads = 1,
                            .dim = dim,
                            .dim_v = dim_v,
                            .share = 1,
                            .q = x->q[0],
                            .columns.k = x->kp,
                            .columns.v = x->vp,
                            .terms.bias = x->bias};
        all.states.greatest = g.greatest, all.states.sum = g.sum, all.states.acc = g.acc;
        t->attend_heads(&all);
        all.states.greatest = h.greatest, all.states.sum = h.sum, all.states.acc = h.acc;
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(narrow_rounds_and_widen_restores),
        cmocka_unit_test(every_half_is_widened),
        cmocka_unit_test(floats_are_rounded_to_the_nearest_half),
        cmocka_unit_test(a_tile_of_16_bits_is_softmax_of_each_row),
        cmocka_unit_test(pairs_are_turned),
        cmocka_unit_test(rows_are_paired),
        cmocka_unit_test(heads_of_16_bits_are_softmax),
        cmocka_unit_test(products_of_pairs_leave_float32_alone),
    };
    return cmocka_run_group_tests_name("sixteen_kernels", tests, NULL, NULL);
}
