/* Tiles in the backward pass of every instruction set this machine has, against the formula in double; and rows that go
   past the caches. */
#include "carve.h"
#include "plan.h"
#include "kernel_cases.h"

enum { PADDED = (MOST_DIM + KERNEL_PAD - 1) / KERNEL_PAD * KERNEL_PAD };

/* Sixteen rows, and what they are given. */
typedef struct back_rows {
    float q[KERNEL_TILE][PADDED], g[KERNEL_TILE][PADDED], transposed_q[PADDED * KERNEL_TILE],
        transposed_g[PADDED * KERNEL_TILE], lse[KERNEL_TILE], delta[KERNEL_TILE], dq[KERNEL_TILE * PADDED];
    float q_rows[KERNEL_TILE * PADDED], g_rows[KERNEL_TILE * PADDED];
    float at[KERNEL_TILE];
    uint16_t mask[KERNEL_CHUNK];
} back_rows;

/* A tile's columns, padded with zeros, and what they are given. */
typedef struct back_columns {
    float k[KERNEL_CHUNK][PADDED], v[KERNEL_CHUNK][PADDED], dk[KERNEL_CHUNK][PADDED], dv[KERNEL_CHUNK][PADDED],
        bias[KERNEL_CHUNK], sum[KERNEL_CHUNK], at[KERNEL_CHUNK];
    double d_slope;
    const float *kp[KERNEL_CHUNK], *vp[KERNEL_CHUNK];
    float *dkp[KERNEL_CHUNK], *dvp[KERNEL_CHUNK];
} back_columns;

static void draw_columns(back_columns *x, hga_id dim, hga_id dim_v)
{
    memset(x, 0, sizeof *x);
    for (hga_id c = 0; c < KERNEL_CHUNK; c++) {
        for (hga_id j = 0; j < dim; j++) x->k[c][j] = draw(1);
        for (hga_id j = 0; j < dim_v; j++) x->v[c][j] = draw(1);
        x->bias[c] = draw(1), x->at[c] = draw(9);
        x->kp[c] = x->k[c], x->vp[c] = x->v[c], x->dkp[c] = x->dk[c], x->dvp[c] = x->dv[c];
    }
}

static kernel_grad_group draw_rows(back_rows *x, hga_id dim, hga_id dim_v)
{
    hga_id columns = padded(dim), columns_v = padded(dim_v);
    memset(x, 0, sizeof *x);
    for (hga_id r = 0; r < KERNEL_TILE; r++) {
        for (hga_id j = 0; j < dim; j++)
            x->q[r][j] = x->q_rows[r * columns + j] = x->transposed_q[j * KERNEL_TILE + r] = draw(0.3f);
        for (hga_id j = 0; j < dim_v; j++)
            x->g[r][j] = x->g_rows[r * columns_v + j] = x->transposed_g[j * KERNEL_TILE + r] = draw(1);
        x->lse[r] = 2 + draw(1), x->delta[r] = draw(1), x->at[r] = draw(9);
    }
    for (hga_id c = 0; c < KERNEL_CHUNK; c++) x->mask[c] = (uint16_t)below(1 << KERNEL_TILE);
    return (kernel_grad_group){.rows = below(2) ? x->mask : NULL,
                               .q = x->transposed_q,
                               .g = x->transposed_g,
                               .q_rows = x->q_rows,
                               .g_rows = x->g_rows,
                               .lse = x->lse,
                               .delta = x->delta,
                               .row_at = x->at,
                               .dq = x->dq};
}

static double apart(const back_columns *x, const back_rows *y, hga_id c, hga_id r)
{
    return fabs((double)x->at[c] - (double)y->at[r]);
}

/* The slope of a pair's score, that of its content, and its weight. */
static double slope_of(const back_columns *x, const back_rows *y, hga_id c, hga_id r, const kernel_grad_tile *t,
                       double *weight, double *of_content)
{
    double score = (double)x->bias[c], input = 0, content = 0, bend = 1, cap = (double)t->terms.cap;
    for (hga_id j = 0; j < t->dim; j++) content += (double)x->k[c][j] * (double)y->q[r][j];
    if (cap > 0) bend = 1 - pow(tanh(content / cap), 2), content = cap * tanh(content / cap);
    score += content;
    if (t->terms.column_at) score -= (double)t->terms.slope * apart(x, y, c, r);
    for (hga_id j = 0; j < t->dim_v; j++) input += (double)x->v[c][j] * (double)y->g[r][j];
    *weight = exp(score - (double)y->lse[r]);
    *of_content = *weight * (input - (double)y->delta[r]) * bend;
    return *weight * (input - (double)y->delta[r]);
}

static void assert_nearly(const char *isa, const char *what, double x, double want)
{
    if (!(fabs(x - want) <= 5e-5 * fmax(1, fabs(want)))) fail_msg("%s: %s is %.9g, not %.9g", isa, what, x, want);
}

/* What each column and row is given, and the columns' sums. */
static void compare_back(const char *isa, const kernel_grad_tile *t, const back_columns *x, const back_rows *y)
{
    double dq[2][KERNEL_TILE][PADDED] = {{{0}}}, d_slope = 0;
    for (hga_id c = 0; c < t->n; c++) {
        double dk[PADDED] = {0}, dv[PADDED] = {0}, sum = 0;
        for (hga_id i = 0; i < t->n_groups * KERNEL_TILE; i++) {
            hga_id g = i / KERNEL_TILE, r = i % KERNEL_TILE;
            double weight, dc, ds = slope_of(x, &y[g], c, r, t, &weight, &dc);
            if (t->group[g].rows && !(y[g].mask[c] >> r & 1)) continue;
            for (hga_id j = 0; j < t->dim; j++)
                dk[j] += dc * (double)y[g].q[r][j], dq[g][r][j] += dc * (double)x->k[c][j];
            for (hga_id j = 0; j < t->dim_v; j++) dv[j] += weight * (double)y[g].g[r][j];
            sum += ds, d_slope -= ds * apart(x, &y[g], c, r);
        }
        for (hga_id j = 0; j < PADDED; j++)
            assert_nearly(isa, "dk", (double)x->dk[c][j], dk[j]), assert_nearly(isa, "dv", (double)x->dv[c][j], dv[j]);
        assert_nearly(isa, "a column's sum", (double)x->sum[c], sum);
    }
    if (t->d_slope) assert_nearly(isa, "the slope's gradient", x->d_slope, d_slope);
    for (hga_id i = 0; i < t->n_groups * KERNEL_TILE; i++)
        for (hga_id j = 0; j < padded(t->dim); j++)
            assert_nearly(isa, "dq", (double)y[i / KERNEL_TILE].dq[i % KERNEL_TILE * padded(t->dim) + j],
                          dq[i / KERNEL_TILE][i % KERNEL_TILE][j]);
}

static void a_tile_goes_back_as_in_double(void **state)
{
    (void)state;
    static back_columns x;
    static back_rows y[2];
    FOR_EACH_ISA(t)
    for (int round = 0; round < 200; round++) {
        hga_id dim = 1 + below(MOST_DIM), dim_v = 1 + below(MOST_DIM), n = 1 + below(KERNEL_CHUNK);
        draw_columns(&x, dim, dim_v);
        kernel_grad_tile tile = {.n_groups = 1 + below(2),
                                 .n = n,
                                 .dim = dim,
                                 .dim_v = dim_v,
                                 .k = x.kp,
                                 .v = x.vp,
                                 .terms.bias = x.bias,
                                 .dk = x.dkp,
                                 .dv = x.dvp,
                                 .column_sum = x.sum,
                                 .terms.cap = below(2) ? 0.7f : 0};
        if (below(2)) tile.terms.column_at = x.at, tile.terms.slope = 0.2f, tile.d_slope = &x.d_slope;
        for (hga_id i = 0; i < tile.n_groups; i++) tile.group[i] = draw_rows(&y[i], dim, dim_v);
        t->grad_tile(&tile);
        compare_back(t->isa, &tile, &x, y);
    }
}

static void streamed_rows_arrive(void **state)
{
    (void)state;
    enum { ROWS = 7, COLUMNS = 6 * KERNEL_PAD, STRIDE = COLUMNS + 5 };
    static float from[ROWS][STRIDE];
    static float to[ROWS][COLUMNS + KERNEL_PAD] __attribute__((aligned(64)));
    float *out[ROWS];
    FOR_EACH_ISA(t)
    {
        memset(to, 0, sizeof to);
        for (int i = 0; i < ROWS; i++) {
            out[i] = i == 2 ? NULL : to[ROWS - 1 - i];
            for (int j = 0; j < STRIDE; j++) from[i][j] = draw(1);
        }
        t->stream(ROWS, COLUMNS, from[0], STRIDE, out);
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS + KERNEL_PAD; j++)
                assert_true(to[ROWS - 1 - i][j] == (i == 2 || j >= COLUMNS ? 0 : from[i][j]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tile_goes_back_as_in_double),
        cmocka_unit_test(streamed_rows_arrive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
