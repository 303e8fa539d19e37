/* Every kernel of every instruction set this machine has, against the same formula in double: rows, heads, families.
   States and sums are in test_state_kernels.c, tiles in test_tile_kernels.c, 16 bits in test_sixteen_kernels.c. */
#include "kernel_cases.h"

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
                          .terms.r = relative ? x->rp : NULL,
                          .terms.bias = x->bias};
        if (half) t->attend(&c, &s);
        c.n = n - half, c.k += half, c.v += half, c.terms.bias += half;
        if (relative) c.terms.r += half;
        if (c.n) t->attend(&c, &s);
        plain_softmax(x, x->q[0], n, dim, dim_v, relative, all_kept(), NULL, out, &lse);
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
        t->attend(
            &(kernel_chunk){.n = 20, .dim = 8, .dim_v = 8, .q = x->q[0], .k = x->kp, .v = x->vp, .terms.bias = x->bias},
            &s);
        assert_true(s.sum == 0 && s.greatest == -INFINITY && acc[0] == 0);
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
        t->transpose_rows(n, row, 0.5f, columns, turned);
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

/* With something to add to, and with nothing; columns of which some lanes pick nothing, or none does. */
static void looking_up_adds_each_lanes_own(void **unused)
{
    (void)unused;
    enum { TABLE = 90 };
    static float table[TABLE][KERNEL_TILE], base[KERNEL_CHUNK][KERNEL_TILE], out[KERNEL_CHUNK + 1][KERNEL_TILE];
    static uint32_t pick[KERNEL_CHUNK * KERNEL_TILE];
    static int place[KERNEL_CHUNK][KERNEL_TILE];
    static uint8_t many[KERNEL_CHUNK];
    FOR_EACH_ISA(t)
    for (int round = 0; round < 50; round++) {
        const hga_id n = below(KERNEL_CHUNK + 1);
        hga_id picks = 0;
        for (int i = 0; i < TABLE; i++)
            for (int r = 0; r < KERNEL_TILE; r++) table[i][r] = draw(1);
        for (hga_id c = 0; c < KERNEL_CHUNK; c++) {
            many[c] = (uint8_t)below(KERNEL_TILE);
            for (int r = 0; r < KERNEL_TILE; r++) base[c][r] = draw(1), place[c][r] = -1;
            for (hga_id i = 0; i < many[c]; i++) pick[picks + i] = (uint32_t)below(TABLE);
            for (int r = 0; r < KERNEL_TILE && many[c]; r++) {
                if (below(4) == 0) continue;
                uint32_t *of = &pick[picks + below(many[c])];
                *of |= UINT32_C(1) << (16 + r), place[c][r] = (int)(*of & 0xffff);
            }
            picks += many[c];
        }
        for (int r = 0; r < KERNEL_TILE; r++) out[n][r] = 7;
        t->look_up(n, many, pick, table[0], round % 2 ? base[0] : NULL, out[0]);
        for (hga_id c = 0; c < n; c++)
            for (int r = 0; r < KERNEL_TILE; r++)
                assert_true(out[c][r] == (round % 2 ? base[c][r] : 0) + (place[c][r] < 0 ? 0 : table[place[c][r]][r]));
        for (int r = 0; r < KERNEL_TILE; r++) assert_true(out[n][r] == 7);
    }
}

/* All heads at once are each head by itself: keys and values of several heads, some shared by several queries, columns
   any, with and without what is added to an edge's keys. */
static void heads_are_each_head(void **unused)
{
    (void)unused;
    enum { MOST_HEADS = 20, CAPACITY = 48 };
    static float key[KERNEL_CHUNK][MOST_HEADS * CAPACITY], value[KERNEL_CHUNK][MOST_HEADS * CAPACITY],
        q[MOST_HEADS * CAPACITY], acc[MOST_HEADS * CAPACITY], no_number[MOST_HEADS * CAPACITY];
    for (int j = 0; j < MOST_HEADS * CAPACITY; j++) no_number[j] = NAN;
    FOR_EACH_ISA(t)
    for (int round = 0; round < 200; round++) {
        hga_id kv = 1 + below(5), share = 1 + below(4), heads = kv * share, n = 1 + below(KERNEL_CHUNK),
               dim = 1 + below(CAPACITY - 8), dim_v = 1 + below(CAPACITY - 8),
               known = below(2) ? n + below(KERNEL_HEAD_EDGES + 1) : 0;
        float bias[KERNEL_CHUNK + KERNEL_PAD], greatest[MOST_HEADS], sum[MOST_HEADS];
        const float *k[KERNEL_CHUNK + KERNEL_HEAD_EDGES], *v[KERNEL_CHUNK + KERNEL_HEAD_EDGES],
            *r[KERNEL_CHUNK], *const *relative = below(2) ? r : NULL;
        memset(q, 0, sizeof q), memset(acc, 0, sizeof acc);
        for (hga_id e = 0; e < n; e++) {
            k[e] = key[e], v[e] = value[e], r[e] = key[below(n)], bias[e] = below(6) ? draw(2) : -INFINITY;
            for (int j = 0; j < MOST_HEADS * CAPACITY; j++) key[e][j] = draw(1), value[e][j] = draw(1);
        }
        for (hga_id e = n; e < known; e++) k[e] = v[e] = no_number; /* asked for, not read */
        for (hga_id h = 0; h < heads; h++) {
            greatest[h] = -INFINITY, sum[h] = 0;
            for (hga_id j = 0; j < dim; j++) q[h * CAPACITY + j] = draw(1);
        }
        t->attend_heads(&(kernel_heads){.n = n,
                                        .known = known,
                                        .heads = heads,
                                        .dim = dim,
                                        .dim_v = dim_v,
                                        .share = share,
                                        .q = q,
                                        .q_head = CAPACITY,
                                        .columns.k = k,
                                        .columns.v = v,
                                        .columns.k_head = dim,
                                        .columns.v_head = dim_v,
                                        .terms.r = relative,
                                        .terms.bias = bias,
                                        .states.greatest = greatest,
                                        .states.sum = sum,
                                        .states.acc = acc,
                                        .states.head = CAPACITY});
        for (hga_id h = 0; h < heads; h++) {
            float alone[CAPACITY] = {0};
            kernel_state s = {-INFINITY, 0, alone};
            t->attend(&(kernel_chunk){.n = n,
                                      .dim = dim,
                                      .dim_v = dim_v,
                                      .q = q + h * CAPACITY,
                                      .k = k,
                                      .v = v,
                                      .k_offset = h / share * dim,
                                      .v_offset = h / share * dim_v,
                                      .terms.r = relative,
                                      .terms.bias = bias},
                      &s);
            double lse = natural(greatest[h], sum[h]), want = natural(s.greatest, s.sum);
            if (s.sum == 0)
                assert_true(sum[h] == 0 && greatest[h] == -INFINITY);
            else if (fabs(lse - want) > 1e-5)
                fail_msg("%s: log-sum-exp of head %d is %g, not %g", t->isa, h, lse, want);
            for (hga_id j = 0; j < dim_v && s.sum != 0; j++)
                assert_true(fabs((double)(acc[h * CAPACITY + j] / sum[h]) - (double)(alone[j] / s.sum)) < 1e-5);
        }
    }
}

/* ---- families ---- */

enum { FAMILY_HEADS = 24, FAMILY_CAPACITY = 80 };

typedef struct family_case {
    float q[KERNEL_TILE][FAMILY_HEADS * FAMILY_CAPACITY], k[KERNEL_CHUNK][FAMILY_HEADS * FAMILY_CAPACITY],
        v[KERNEL_CHUNK][FAMILY_HEADS * FAMILY_CAPACITY], out[KERNEL_TILE][FAMILY_HEADS * FAMILY_CAPACITY],
        lse[KERNEL_TILE][FAMILY_HEADS];
    const float *qs[KERNEL_TILE], *ks[KERNEL_CHUNK], *vs[KERNEL_CHUNK];
    float *outs[KERNEL_TILE], *lses[KERNEL_TILE], bias[KERNEL_CHUNK];
    uint16_t rows[KERNEL_CHUNK];
    uint8_t first[KERNEL_TILE], end[KERNEL_TILE];
    float r[4][FAMILY_CAPACITY], head_bias[KERNEL_CHUNK * KERNEL_HEADS]; /* what types add */
    const float *rs[KERNEL_CHUNK];
} family_case;

/* Row r's columns lie in [first, first + n), and it has none of the others. */
static void place_row(family_case *x, hga_id r, hga_id first, hga_id n)
{
    x->first[r] = (uint8_t)first, x->end[r] = (uint8_t)(first + n);
    for (hga_id e = 0; e < KERNEL_CHUNK; e++)
        if (e < first || e >= first + n) x->rows[e] &= (uint16_t) ~(1u << r);
}

/* Some rows have no place to go to, some columns no edge, some scores none or huge ones; in some cases all rows have
   the same columns, and those are as many as there may be of one row. */
static kernel_family draw_family(family_case *x)
{
    hga_id kv = below(3) ? 1 + below(7) : 8, share = 1 + below(3);
    int full = !below(4);
    hga_id n = full ? KERNEL_FAMILY : 1 + below(KERNEL_CHUNK);
    float size = below(8) ? 1 : 40;
    for (int r = 0; r < KERNEL_TILE; r++) {
        x->qs[r] = x->q[r], x->outs[r] = below(6) ? x->out[r] : NULL, x->lses[r] = x->lse[r];
        for (int j = 0; j < FAMILY_HEADS * FAMILY_CAPACITY; j++) x->q[r][j] = draw(size), x->out[r][j] = 77;
    }
    for (int e = 0; e < KERNEL_CHUNK; e++) {
        x->ks[e] = x->k[e], x->vs[e] = x->v[e], x->bias[e] = below(8) ? draw(3) : -INFINITY;
        x->rows[e] = full ? UINT16_MAX : below(4) ? (uint16_t)below(1 << KERNEL_TILE) : 0;
        for (int j = 0; j < FAMILY_HEADS * FAMILY_CAPACITY; j++) x->k[e][j] = draw(1), x->v[e][j] = draw(1);
        x->rs[e] = x->r[below(4)];
        for (int h = 0; h < KERNEL_HEADS; h++) x->head_bias[e * KERNEL_HEADS + h] = below(9) ? draw(2) : -INFINITY;
    }
    for (int i = 0; i < 4 * FAMILY_CAPACITY; i++) x->r[i / FAMILY_CAPACITY][i % FAMILY_CAPACITY] = draw(1);
    for (hga_id r = 0; r < KERNEL_TILE; r++) {
        hga_id first = full ? 0 : below(n), capacity = n - first < KERNEL_FAMILY ? n - first : KERNEL_FAMILY;
        place_row(x, r, first, full ? n : 1 + below(capacity));
    }
    return (kernel_family){.n_rows = 1 + below(KERNEL_TILE),
                           .n = n,
                           .heads = kv * share,
                           .dim = below(3) ? 1 + below(FAMILY_CAPACITY) : 64,
                           .dim_v = 1 + below(FAMILY_CAPACITY),
                           .share = share,
                           .q = x->qs,
                           .columns.k = x->ks,
                           .columns.v = x->vs,
                           .q_head = FAMILY_CAPACITY,
                           .columns.k_head = FAMILY_CAPACITY,
                           .columns.v_head = FAMILY_CAPACITY,
                           .terms.scale = 0.3f,
                           .terms.bias = x->bias,
                           .head_bias = below(2) ? x->head_bias : NULL,
                           .terms.r = below(2) ? x->rs : NULL,
                           .rows = x->rows,
                           .results.out = x->outs,
                           .results.lse = x->lses,
                           .results.head = FAMILY_CAPACITY};
}

/* Row r and head h in double. */
static void plain_family(const kernel_family *c, hga_id r, hga_id h, double *out, double *lse)
{
    double score[KERNEL_CHUNK], greatest = -INFINITY, sum = 0;
    hga_id kv = h / c->share;
    for (hga_id e = 0; e < c->n; e++) {
        score[e] = 0;
        for (hga_id j = 0; j < c->dim; j++)
            score[e] += (double)c->q[r][h * c->q_head + j] * ((double)c->columns.k[e][kv * c->columns.k_head + j] +
                                                              (c->terms.r ? (double)c->terms.r[e][j] : 0));
        double bias = (double)c->terms.bias[e] + (c->head_bias ? (double)c->head_bias[e * KERNEL_HEADS + h] : 0);
        score[e] = c->rows[e] >> r & 1 ? score[e] * (double)c->terms.scale + bias : -INFINITY;
        if (score[e] > greatest) greatest = score[e];
    }
    for (hga_id j = 0; j < c->dim_v; j++) out[j] = 0;
    for (hga_id e = 0; e < c->n; e++) {
        double p = score[e] == -INFINITY ? 0 : exp2(score[e] - greatest);
        sum += p;
        for (hga_id j = 0; j < c->dim_v; j++) out[j] += p * (double)c->columns.v[e][kv * c->columns.v_head + j];
    }
    for (hga_id j = 0; j < c->dim_v; j++) out[j] = sum > 0 ? out[j] / sum : 0;
    *lse = sum > 0 ? greatest * LN2 + log(sum) : -INFINITY;
}

static void a_family_is_softmax_of_each_row(void **unused)
{
    (void)unused;
    static family_case x;
    double want[FAMILY_CAPACITY], lse;
    FOR_EACH_ISA(t)
    for (int round = 0; round < 200; round++) {
        kernel_family c = draw_family(&x);
        t->attend_family(&c);
        for (hga_id r = 0; r < KERNEL_TILE; r++)
            for (hga_id h = 0; h < FAMILY_HEADS; h++) {
                int input = r < c.n_rows && h < c.heads && c.results.out[r];
                if (input) plain_family(&c, r, h, want, &lse);
                if (input && !is_near((double)c.results.lse[r][h], lse, 3e-4))
                    fail_msg("%s: lse %g is not %g", t->isa, (double)c.results.lse[r][h], lse);
                for (hga_id j = 0; j < FAMILY_CAPACITY; j++) {
                    double got = (double)x.out[r][h * FAMILY_CAPACITY + j],
                           should = input && j < c.dim_v ? want[j] : 77;
                    if (!is_near(got, should, 3e-4)) fail_msg("%s: [%d] %g is not %g", t->isa, j, got, should);
                }
            }
    }
}

/* Where heads lie does not change a row's bits, also when it has one column only. */
static void families_bits_do_not_hang_on_strides(void **unused)
{
    (void)unused;
    static family_case x, apart;
    FOR_EACH_ISA(t)
    for (int round = 0; round < 100; round++) {
        kernel_family c = draw_family(&x);
        c.share = 1, c.dim_v = below(2) ? 64 : 1 + below(FAMILY_CAPACITY), c.columns.v_head = c.dim_v;
        for (hga_id r = 0; r < KERNEL_TILE; r++) place_row(&x, r, x.first[r], below(2) ? 1 : x.end[r] - x.first[r]);
        for (int j = 0; j < FAMILY_CAPACITY; j++) x.v[0][j] = -0.0f;
        if (!below(4)) x.k[0][0] = NAN;
        t->attend_family(&c);
        memcpy(&apart, &x, sizeof x);
        c.results.head = c.dim_v;
        t->attend_family(&c);
        for (hga_id r = 0; r < c.n_rows; r++)
            for (hga_id h = 0; h < c.heads && c.results.out[r]; h++)
                assert_memory_equal(x.out[r] + h * c.dim_v, apart.out[r] + h * FAMILY_CAPACITY,
                                    (size_t)c.dim_v * sizeof(float));
    }
}

/* Eight heads and four are multiplied together, two edges at a time, and three by themselves: nobody sees that. */
static void families_bits_do_not_hang_on_how_many_heads_come(void **unused)
{
    (void)unused;
    static family_case x, whole;
    FOR_EACH_ISA(t)
    for (int round = 0; round < 60; round++) {
        kernel_family c = draw_family(&x);
        c.heads = 12, c.share = 1, c.dim = 64, c.terms.r = NULL, c.head_bias = NULL;
        t->attend_family(&c);
        memcpy(&whole, &x, sizeof x);
        c.heads = 3;
        for (int part = 0; part < 4; part++) {
            const hga_id on = part * 3 * FAMILY_CAPACITY;
            for (int e = 0; e < KERNEL_CHUNK; e++) x.ks[e] = x.k[e] + on, x.vs[e] = x.v[e] + on;
            for (int r = 0; r < KERNEL_TILE; r++) {
                x.qs[r] = x.q[r] + on, x.lses[r] = x.lse[r] + part * 3;
                if (x.outs[r]) x.outs[r] = x.out[r] + on;
            }
            t->attend_family(&c);
        }
        assert_memory_equal(x.out, whole.out, sizeof x.out);
        assert_memory_equal(x.lse, whole.lse, sizeof x.lse);
    }
}

static void families_have_the_same_bits_past_the_caches(void **unused)
{
    (void)unused;
    static family_case x __attribute__((aligned(64))), streamed __attribute__((aligned(64)));
    FOR_EACH_ISA(t)
    for (int round = 0; round < 40; round++) {
        kernel_family c = draw_family(&x);
        c.dim_v = 64, c.results.streams = 1;
        if (round % 2) c.share = 1, c.columns.v_head = c.results.head = 64; /* a row with one column is a copy */
        for (hga_id r = 0; round % 2 && r < KERNEL_TILE; r++) place_row(&x, r, x.first[r], 1);
        for (int e = 0; e < KERNEL_CHUNK; e++) x.v[e][e] = -0.0f;
        t->attend_family(&c);
        memcpy(&streamed, &x, sizeof x);
        c.results.streams = 0;
        t->attend_family(&c);
        assert_memory_equal(x.out, streamed.out, sizeof x.out);
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
        x.rows[0] = 0x00ff, x.rows[1] = 0xff00;
        for (hga_id r = 0; r < KERNEL_TILE; r++) x.first[r] = 0, x.end[r] = 2;
        x.bias[0] = x.bias[1] = 0, c.head_bias = NULL;
        x.k[0][0] = round & 1 ? NAN : INFINITY, x.v[0][0] = NAN;
        t->attend_family(&c);
        for (hga_id r = 0; r < KERNEL_TILE; r++)
            if (c.results.out[r])
                assert_true(r < 8 ? isnan(c.results.out[r][0])
                                  : isfinite(c.results.out[r][0]) && isfinite(c.results.lse[r][0]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attend_is_softmax),
        cmocka_unit_test(minus_infinity_scores_weigh_nothing),
        cmocka_unit_test(rows_are_turned_and_copied),
        cmocka_unit_test(looking_up_adds_each_lanes_own),
        cmocka_unit_test(heads_are_each_head),
        cmocka_unit_test(a_family_is_softmax_of_each_row),
        cmocka_unit_test(families_bits_do_not_hang_on_strides),
        cmocka_unit_test(families_bits_do_not_hang_on_how_many_heads_come),
        cmocka_unit_test(families_have_the_same_bits_past_the_caches),
        cmocka_unit_test(what_is_not_finite_stays_with_its_family_row),
    };
    return cmocka_run_group_tests_name("kernels", tests, NULL, NULL);
}
