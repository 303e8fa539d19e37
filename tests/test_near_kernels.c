/* Keys and values that are in a cache and lie side by side are not asked for, and scores go by strips of heads: the
   bits are those of rows that lie anywhere. */
#include "kernel_cases.h"

enum { MOST_HEADS = 20, DIM = 64, FLOATS = MOST_HEADS * DIM, PAGE = 16 };

typedef struct heads_case {
    float k[KERNEL_CHUNK + 1][FLOATS], v[KERNEL_CHUNK + 1][FLOATS], q[FLOATS], bias[KERNEL_CHUNK + KERNEL_PAD];
    const float *ks[KERNEL_CHUNK], *vs[KERNEL_CHUNK];
    float drop_mask[KERNEL_CHUNK * MOST_HEADS + KERNEL_PAD];
    hga_id dim;
    ptrdiff_t head; /* floats from one head to the next */
    int capped, drops, sigmoid;
} heads_case;

typedef struct heads_state {
    float greatest[MOST_HEADS], sum[MOST_HEADS], acc[FLOATS];
} heads_state;

/* Rows side by side in pages of PAGE edges, of which the first has `in_first`. */
static void lay_rows(heads_case *x, hga_id n, hga_id kv, hga_id dim, hga_id in_first)
{
    const hga_id columns = kv * dim;
    for (hga_id e = 0; e < n; e++) {
        const ptrdiff_t at = (ptrdiff_t)e * columns + (e + PAGE - in_first) / PAGE * KERNEL_PAD;
        x->ks[e] = x->k[0] + at, x->vs[e] = x->v[0] + at;
    }
    x->dim = dim, x->head = dim;
}

/* The rows of `from`, one head after the other. */
static void lay_heads_apart(heads_case *x, const heads_case *from, hga_id n, hga_id kv)
{
    *x = *from;
    x->head = KERNEL_CHUNK * x->dim;
    for (hga_id e = 0; e < n; e++) {
        x->ks[e] = x->k[0] + e * x->dim, x->vs[e] = x->v[0] + e * x->dim;
        for (hga_id h = 0; h < kv; h++) {
            memcpy(x->k[0] + h * x->head + e * x->dim, from->ks[e] + h * x->dim, (size_t)x->dim * sizeof(float));
            memcpy(x->v[0] + h * x->head + e * x->dim, from->vs[e] + h * x->dim, (size_t)x->dim * sizeof(float));
        }
    }
}

static void draw_case(heads_case *x)
{
    for (hga_id e = 0; e <= KERNEL_CHUNK; e++)
        for (int j = 0; j < FLOATS; j++) x->k[e][j] = draw(1), x->v[e][j] = draw(1);
    for (int j = 0; j < FLOATS; j++) x->q[j] = draw(1);
    for (hga_id e = 0; e < KERNEL_CHUNK; e++) x->bias[e] = draw(2);
    for (int i = 0; i < KERNEL_CHUNK * MOST_HEADS; i++) x->drop_mask[i] = below(3) ? 1.5f : 0;
}

static heads_state attend(const kernel_table *t, const heads_case *x, hga_id n, hga_id kv, hga_id share, int near)
{
    heads_state s = {.sum = {0}};
    for (hga_id h = 0; h < kv * share; h++) s.greatest[h] = -INFINITY;
    t->attend_heads(&(kernel_heads){.n = n,
                                    .heads = kv * share,
                                    .dim = x->dim,
                                    .dim_v = x->dim,
                                    .share = share,
                                    .near = near,
                                    .q = x->q,
                                    .q_head = DIM,
                                    .columns.k = x->ks,
                                    .columns.v = x->vs,
                                    .columns.k_head = x->head,
                                    .columns.v_head = x->head,
                                    .terms.cap = x->capped ? 3 : 0,
                                    .terms.bias = x->bias,
                                    .drop_mask = x->drops ? x->drop_mask : NULL,
                                    .sigmoid.on = x->sigmoid,
                                    .states.greatest = s.greatest,
                                    .states.sum = s.sum,
                                    .states.acc = s.acc,
                                    .states.head = DIM});
    return s;
}

/* The vector of head h by the formula, in double. */
static void check_head(const heads_case *x, const heads_state *s, hga_id n, hga_id h, hga_id share)
{
    double sum = 0, out[DIM] = {0};
    for (hga_id e = 0; e < n; e++) {
        double score = (double)x->bias[e];
        for (int j = 0; j < DIM; j++) score += (double)x->q[h * DIM + j] * (double)x->ks[e][h / share * DIM + j];
        const double weight = exp2(score);
        sum += weight;
        for (int j = 0; j < DIM; j++) out[j] += weight * (double)x->vs[e][h / share * DIM + j];
    }
    for (int j = 0; j < DIM; j++) assert_true(fabs(out[j] / sum - (double)(s->acc[h * DIM + j] / s->sum[h])) < 1e-5);
}

static void rows_side_by_side_have_the_bits_of_others(void **unused)
{
    (void)unused;
    heads_case *x = calloc(1, sizeof *x);
    FOR_EACH_ISA(t)
    for (int round = 0; round < 60; round++) {
        const hga_id kv = 1 + below(5), share = 1 + below(4), n = 1 + below(KERNEL_CHUNK);
        draw_case(x);
        lay_rows(x, n, kv, DIM, 1 + below(PAGE));
        const heads_state near = attend(t, x, n, kv, share, 1), anywhere = attend(t, x, n, kv, share, 0);
        assert_memory_equal(&near, &anywhere, sizeof near);
        for (hga_id h = 0; h < kv * share; h++) check_head(x, &near, n, h, share);
    }
    free(x);
}

/* Whole heads are read one after the other where each is a stream by itself, which no bit shows. */
static void heads_apart_have_the_bits_of_others(void **unused)
{
    (void)unused;
    heads_case *x = calloc(1, sizeof *x), *apart = malloc(sizeof *apart);
    FOR_EACH_ISA(t)
    for (int round = 0; round < 90; round++) {
        const hga_id kv = 1 + below(5), share = 1 + (round % 4 == 3), n = 1 + below(KERNEL_CHUNK);
        draw_case(x);
        x->capped = round % 4 == 1, x->drops = round % 7 < 2, x->sigmoid = round % 3 == 2;
        lay_rows(x, n, kv, round % 5 ? DIM : 1 + below(DIM), 1 + below(PAGE));
        lay_heads_apart(apart, x, n, kv);
        const heads_state beside = attend(t, x, n, kv, share, 0), by_head = attend(t, apart, n, kv, share, round % 2);
        assert_memory_equal(&beside, &by_head, sizeof beside);
    }
    free(x), free(apart);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_side_by_side_have_the_bits_of_others),
                                       cmocka_unit_test(heads_apart_have_the_bits_of_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
