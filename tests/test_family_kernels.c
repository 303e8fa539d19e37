/* Kernels of members of families, there and back, against double. */
#include "kernel_cases.h"

enum { HEADS = 6, CAPACITY = 70, MANY = 24 };

/* Rows of members; what is given, and what is taken. */
typedef struct siblings_case {
    float q[MANY][HEADS * CAPACITY], k[MANY][HEADS * CAPACITY], v[MANY][HEADS * CAPACITY], g[MANY][HEADS * CAPACITY],
        out[3][MANY][HEADS * CAPACITY], above[3][HEADS * CAPACITY], down[MANY], bias[MANY], lse[MANY * HEADS],
        mean[MANY * HEADS], input[MANY * HEADS], delta[MANY * HEADS], pair[MANY * MANY], d_score[MANY * MANY * HEADS],
        product[2][MANY * MANY * HEADS];
    const float *at[4][MANY];
    float *to[3][MANY];
    ptrdiff_t head[MANY];
    uint64_t columns[MANY];
    double d_scale[HEADS];
} siblings_case;

static void draw_rows(float rows[MANY][HEADS * CAPACITY], const float **at)
{
    for (int m = 0; m < MANY; m++) {
        at[m] = rows[m];
        for (int j = 0; j < HEADS * CAPACITY; j++) rows[m][j] = draw(1);
    }
}

/* Some members have no edges, some to themselves; some gradients are added to. */
static kernel_siblings draw_siblings(siblings_case *x)
{
    hga_id kv = 1 + below(2), share = 1 + below(3);
    memset(x, 0, sizeof *x);
    draw_rows(x->q, x->at[0]), draw_rows(x->k, x->at[1]), draw_rows(x->v, x->at[2]), draw_rows(x->g, x->at[3]);
    for (int m = 0; m < MANY; m++) {
        x->head[m] = CAPACITY, x->bias[m] = below(9) ? draw(2) : -INFINITY, x->down[m] = draw(1);
        x->columns[m] = below(5) ? (uint64_t)below(1 << 12) << 12 | (uint64_t)below(1 << 12) : 0;
        for (int h = 0; h < HEADS; h++) x->input[m * HEADS + h] = draw(1), x->delta[m * HEADS + h] = draw(1);
        for (int i = 0; i < 3; i++) x->to[i][m] = x->out[i][m];
    }
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < HEADS * CAPACITY; j++) x->above[i][j] = draw(1);
    for (int i = 0; i < MANY * MANY; i++) x->pair[i] = draw(1);
    kernel_siblings c = {.n = 1 + below(MANY),
                         .heads = kv * share,
                         .crowd = kv * share,
                         .dim = below(3) ? 1 + below(CAPACITY) : 64,
                         .dim_v = below(3) ? 1 + below(CAPACITY) : 64,
                         .share = share,
                         .terms.scale = 0.2f,
                         .terms.bias = x->bias,
                         .columns = x->columns,
                         .q = {x->at[0], x->head, 0},
                         .k = {x->at[1], x->head, CAPACITY},
                         .v = {x->at[2], x->head, 0},
                         .g = {x->at[3], x->head, CAPACITY},
                         .forward.lse = x->lse,
                         .forward.mean = x->mean,
                         .grad.upstream = x->input,
                         .grad.delta = x->delta,
                         .grad.d_scale = x->d_scale,
                         .grad.d_score = x->d_score};
    if (below(2)) c.pair = x->pair;
    if (below(2)) c.forward.product = x->product[0], c.forward.product_v = x->product[1];
    kernel_members *input[3] = {&c.grad.dq, &c.grad.dk, &c.grad.dv};
    for (int i = 0; i < 3; i++)
        *input[i] = (kernel_members){.at = x->to[i],
                                     .head = x->head,
                                     .above = below(3) ? x->above[i] : NULL,
                                     .above_head = CAPACITY,
                                     .down = x->down,
                                     .adds = (uint64_t)below(1 << MANY / 2)};
    for (int m = 0; m < c.n; m++) x->columns[m] &= ((uint64_t)1 << c.n) - 1;
    return c;
}

static double product(const float *x, const float *y, hga_id n)
{
    double sum = 0;
    for (hga_id j = 0; j < n; j++) sum += (double)x[j] * (double)y[j];
    return sum;
}

/* What head h of member r's softmax is: scores in base 2 of members that it has an edge to, and their log-sum-exp. */
static double plain_scores(const kernel_siblings *c, hga_id r, hga_id h, double *score)
{
    double most = -INFINITY, sum = 0;
    for (hga_id e = 0; e < c->n; e++) {
        score[e] =
            product(c->q.at[r] + h * CAPACITY, c->k.at[e] + h / c->share * CAPACITY, c->dim) * (double)c->terms.scale +
            (double)c->terms.bias[e] + (c->pair ? (double)c->pair[r * c->n + e] : 0);
        if (!(c->columns[r] >> e & 1)) score[e] = -INFINITY;
        most = fmax(most, score[e]);
    }
    for (hga_id e = 0; e < c->n && most > -INFINITY; e++) sum += exp2(score[e] - most);
    return sum > 0 ? most + log2(sum) : -INFINITY;
}

static double plain_weight(double score, double lse) { return score == -INFINITY ? 0 : exp2(score - lse); }

static void means_are_those_of_the_softmax(void **state)
{
    (void)state;
    static siblings_case x;
    double score[MANY];
    FOR_EACH_ISA(t)
    for (int round = 0; round < 100; round++) {
        kernel_siblings c = draw_siblings(&x);
        t->siblings_means(&c);
        for (hga_id r = 0; r < c.n; r++)
            for (hga_id h = 0; h < c.heads; h++) {
                double lse = plain_scores(&c, r, h, score), mean = 0;
                for (hga_id e = 0; e < c.n; e++)
                    mean += plain_weight(score[e], lse) *
                            product(c.g.at[r] + h * CAPACITY, c.v.at[e] + h / c.share * CAPACITY, c.dim_v);
                assert_true(is_near((double)c.forward.lse[r * c.heads + h], lse * LN2, 1e-4));
                assert_true(is_near((double)c.forward.mean[r * c.heads + h], mean, 1e-4));
            }
    }
}

/* Members as rows and columns of attend_family. */
static kernel_family family_of(const kernel_siblings *c, float *const *out, float *const *lse)
{
    static lane_mask rows[KERNEL_FAMILY];
    for (hga_id e = 0; e < c->n; e++) {
        rows[e] = 0;
        for (hga_id r = 0; r < c->n; r++) rows[e] = (lane_mask)(rows[e] | (c->columns[r] >> e & 1) << r);
    }
    return (kernel_family){.n_rows = c->n,
                           .n = c->n,
                           .heads = c->heads,
                           .dim = c->dim,
                           .dim_v = c->dim_v,
                           .share = c->share,
                           .q = c->q.at,
                           .columns.k = c->k.at,
                           .columns.v = c->v.at,
                           .q_head = CAPACITY,
                           .columns.k_head = CAPACITY,
                           .columns.v_head = c->v.head[0],
                           .terms.scale = c->terms.scale,
                           .terms.bias = c->terms.bias,
                           .rows = rows,
                           .results.out = out,
                           .results.lse = lse,
                           .results.head = CAPACITY};
}

/* By the formula, whether some have one edge only, or heads lie side by side. */
static void outputs_are_families(void **state)
{
    (void)state;
    static siblings_case x;
    static float lse[MANY][HEADS];
    double score[MANY], want;
    float *to[MANY], *lse_at[MANY];
    ptrdiff_t side_by_side[MANY];
    FOR_EACH_ISA(t)
    for (int round = 0; round < 200; round++) {
        kernel_siblings c = draw_siblings(&x);
        c.pair = NULL;
        if (c.n > KERNEL_FAMILY) c.n = KERNEL_FAMILY;
        if (!below(3)) c.share = 1, c.dim_v = 64;
        for (int m = 0; m < MANY; m++) {
            to[m] = x.out[0][m], lse_at[m] = lse[m];
            side_by_side[m] = c.share == 1 ? c.dim_v : CAPACITY;
            x.columns[m] &= ((uint64_t)1 << c.n) - 1;
            if (!x.columns[m] || below(3)) x.columns[m] = (uint64_t)1 << below(c.n);
        }
        c.v.head = side_by_side;
        kernel_ahead ahead = {.n = 1, .range = {{x.q[0], x.q[0] + 16 * MANY, 16}}};
        const ptrdiff_t *out_head = c.share == 1 ? side_by_side : x.head;
        kernel_family family = family_of(&c, to, lse_at);
        family.results.head = out_head[0], family.ahead = &ahead;
        t->attend_family(&family);
        assert_true(ahead.range[0].at == x.q[0] + 16 * c.n);
        for (hga_id r = 0; r < c.n; r++)
            for (hga_id h = 0; h < c.heads; h++) {
                const float *got = to[r] + h * out_head[r];
                double of_row = plain_scores(&c, r, h, score);
                assert_true(is_near((double)lse[r][h], of_row * LN2, 1e-4));
                for (hga_id j = 0; j < c.dim_v && of_row > -INFINITY; j++) {
                    want = 0;
                    for (hga_id e = 0; e < c.n; e++)
                        want += plain_weight(score[e], of_row) * (double)c.v.at[e][h / c.share * c.v.head[e] + j];
                    assert_true(is_near((double)got[j], want, 1e-4));
                }
            }
    }
}

/* Sums of gradients in double, [which][member][head * CAPACITY + column]. */
typedef struct siblings_sums {
    double of[3][MANY][HEADS * CAPACITY], d_score[MANY * MANY * HEADS], d_scale[HEADS];
} siblings_sums;

static void add_plain(siblings_sums *sums, const kernel_siblings *c, hga_id r, hga_id e, hga_id h, double weight)
{
    hga_id kv = h / c->share, at = r * c->heads + h;
    const float *q = c->q.at[r] + h * CAPACITY, *k = c->k.at[e] + kv * CAPACITY, *v = c->v.at[e] + kv * CAPACITY,
                *g = c->g.at[r] + h * CAPACITY;
    double own = weight * (double)c->grad.upstream[at],
           d_score = own * product(g, v, c->dim_v) - weight * (double)c->grad.delta[at],
           scale = (double)c->terms.scale * LN2;
    for (hga_id j = 0; j < c->dim; j++) {
        sums->of[0][r][h * CAPACITY + j] += d_score * scale * (double)k[j];
        sums->of[1][e][kv * CAPACITY + j] += d_score * scale * (double)q[j];
    }
    for (hga_id j = 0; j < c->dim_v; j++) sums->of[2][e][kv * CAPACITY + j] += own * (double)g[j];
    sums->d_score[(r * c->n + e) * c->heads + h] = d_score, sums->d_scale[h] += d_score * product(q, k, c->dim);
}

static void start_plain(siblings_sums *sums, const siblings_case *x, const kernel_siblings *c)
{
    const kernel_members *input[3] = {&c->grad.dq, &c->grad.dk, &c->grad.dv};
    memset(sums, 0, sizeof *sums);
    for (int i = 0; i < 3; i++)
        for (hga_id m = 0; m < c->n; m++)
            for (int j = 0; j < HEADS * CAPACITY; j++) {
                if (input[i]->above) sums->of[i][m][j] = (double)x->down[m] * (double)x->above[i][j];
                if (input[i]->adds >> m & 1) sums->of[i][m][j] += (double)x->out[i][m][j];
            }
}

static void gradients_of_a_family_are_the_formulas(void **state)
{
    (void)state;
    static siblings_case x;
    static siblings_sums sums;
    double score[MANY];
    FOR_EACH_ISA(t)
    for (int round = 0; round < 100; round++) {
        kernel_siblings c = draw_siblings(&x);
        for (int i = 0; i < 3; i++)
            for (int m = 0; m < MANY; m++)
                for (int j = 0; j < HEADS * CAPACITY; j++) x.out[i][m][j] = draw(1);
        start_plain(&sums, &x, &c);
        t->siblings_means(&c);
        for (hga_id r = 0; r < c.n; r++)
            for (hga_id h = 0; h < c.heads; h++) {
                double lse = plain_scores(&c, r, h, score);
                for (hga_id e = 0; e < c.n; e++)
                    if (c.columns[r] >> e & 1) add_plain(&sums, &c, r, e, h, plain_weight(score[e], lse));
            }
        t->siblings_gradients(&c);
        for (hga_id m = 0; m < c.n; m++) {
            for (hga_id h = 0; h < c.heads; h++)
                for (hga_id j = 0; j < c.dim; j++)
                    assert_true(is_near((double)x.out[0][m][h * CAPACITY + j], sums.of[0][m][h * CAPACITY + j], 1e-4));
            for (hga_id h = 0; h < c.heads / c.share; h++) {
                for (hga_id j = 0; j < c.dim; j++)
                    assert_true(is_near((double)x.out[1][m][h * CAPACITY + j], sums.of[1][m][h * CAPACITY + j], 1e-4));
                for (hga_id j = 0; j < c.dim_v; j++)
                    assert_true(is_near((double)x.out[2][m][h * CAPACITY + j], sums.of[2][m][h * CAPACITY + j], 1e-4));
            }
        }
        for (int i = 0; i < c.n * c.n * c.heads; i++) assert_true(is_near((double)x.d_score[i], sums.d_score[i], 1e-4));
        for (int h = 0; h < c.heads; h++) assert_true(is_near(x.d_scale[h], sums.d_scale[h], 1e-2));
    }
}

/* Heads at multiples of 64 bytes may go past the caches; what arrives is the same, and what lies between them stays. */
static void gradients_past_the_caches_have_the_same_bits(void **state)
{
    (void)state;
    enum { STEP = 80 };
    static siblings_case x;
    static float out[2][3][MANY][HEADS * STEP] __attribute__((aligned(64)));
    float *to[2][3][MANY];
    ptrdiff_t head[MANY];
    for (int m = 0; m < MANY; m++) {
        head[m] = STEP;
        for (int i = 0; i < 6; i++) to[i / 3][i % 3][m] = out[i / 3][i % 3][m];
    }
    FOR_EACH_ISA(t)
    for (int round = 0; round < 50; round++) {
        kernel_siblings c = draw_siblings(&x);
        kernel_members *input[3] = {&c.grad.dq, &c.grad.dk, &c.grad.dv};
        c.dim = 16 * (1 + below(4)), c.dim_v = 16 * (1 + below(4));
        t->siblings_means(&c);
        memset(out, 0x55, sizeof out);
        for (int past = 0; past < 2; past++) {
            for (int i = 0; i < 3; i++)
                input[i]->at = to[past][i], input[i]->head = head, input[i]->adds = 0,
                input[i]->streams = past ? ((uint64_t)1 << MANY) - 1 : 0;
            t->siblings_gradients(&c);
        }
        assert_memory_equal(out[0], out[1], sizeof out[0]);
    }
}

/* Products that were kept stand for those made again, and for the values. */
static void products_that_are_kept_change_no_bit(void **state)
{
    (void)state;
    static siblings_case x;
    static float again[3][MANY][HEADS * CAPACITY];
    FOR_EACH_ISA(t)
    for (int round = 0; round < 50; round++) {
        kernel_siblings c = draw_siblings(&x);
        kernel_members *input[3] = {&c.grad.dq, &c.grad.dk, &c.grad.dv};
        for (int i = 0; i < 3; i++) input[i]->adds = 0;
        c.crowd = KERNEL_HEADS; /* few rows at a time */
        c.forward.product = c.forward.product_v = NULL;
        t->siblings_means(&c), t->siblings_gradients(&c);
        memcpy(again, x.out, sizeof again);
        c.forward.product = x.product[0], c.forward.product_v = x.product[1];
        t->siblings_means(&c);
        memset(x.v, 0xff, sizeof x.v);
        t->siblings_gradients(&c);
        assert_memory_equal(again, x.out, sizeof again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_past_the_caches_have_the_same_bits),
        cmocka_unit_test(outputs_are_families),
        cmocka_unit_test(means_are_those_of_the_softmax),
        cmocka_unit_test(gradients_of_a_family_are_the_formulas),
        cmocka_unit_test(products_that_are_kept_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
