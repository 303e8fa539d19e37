/* Kernels of what rows leave behind, against double: states finished, merged and mixed, energies, sums of families,
   exp, and a machine's peaks. */
#include "kernel_cases.h"

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
        t->divide(n, x, y, NULL, a, b);
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
        t->mix(&(kernel_mix){.n = 1,
                             .heads = n,
                             .columns = COLUMNS,
                             .a = a,
                             .b = b,
                             .x = (const float *[]){row},
                             .y = (const float *[]){other},
                             .out = (float *[]){row},
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

/* Rows are mixed together, past the caches or not, as each is by itself. */
static void rows_are_mixed_together(void **unused)
{
    (void)unused;
    enum { ROWS = 6, HEADS = 5, COLUMNS = 48, ROW_OF = HEADS * COLUMNS };
    _Alignas(64) float x[ROWS * ROW_OF], y[ROWS * ROW_OF], past[ROWS * ROW_OF], want[ROWS * ROW_OF],
        near[ROWS * ROW_OF];
    const float *at_x[ROWS], *at_y[ROWS];
    float *at_want[ROWS], *at_past[ROWS], *at_near[ROWS];
    FOR_EACH_ISA(t)
    for (int round = 0; round < 50; round++) {
        float a[ROWS * HEADS], b[ROWS * HEADS];
        for (int i = 0; i < ROWS * HEADS; i++)
            a[i] = below(3) && round % 4 ? draw(1) : 1, b[i] = below(3) ? draw(1) : 0;
        for (int i = 0; i < ROWS * ROW_OF; i++) x[i] = draw(1), y[i] = draw(1), past[i] = near[i] = want[i] = 77;
        for (int i = 0; i < ROWS; i++) {
            int j = below(ROWS);
            at_x[i] = x + j * ROW_OF, at_y[i] = y + i * ROW_OF;
            at_want[i] = want + i * ROW_OF, at_past[i] = past + i * ROW_OF, at_near[i] = near + i * ROW_OF;
        }
        kernel_ahead ahead = {.n = 2, .range = {{x, x + 40, 16}, {y, y + ROW_OF, 32}}};
        kernel_mix m = {
            .n = 1, .heads = HEADS, .columns = COLUMNS, .x_head = COLUMNS, .y_head = COLUMNS, .out_head = COLUMNS};
        for (int i = 0; i < ROWS; i++) {
            m.a = a + i * HEADS, m.b = b + i * HEADS, m.x = at_x + i, m.y = at_y + i, m.out = at_want + i;
            t->mix(&m);
        }
        m = (kernel_mix){.n = ROWS,
                         .heads = HEADS,
                         .columns = COLUMNS,
                         .a = round % 4 ? a : NULL,
                         .b = b,
                         .x = at_x,
                         .y = at_y,
                         .out = at_near,
                         .x_head = COLUMNS,
                         .y_head = COLUMNS,
                         .out_head = COLUMNS,
                         .ahead = &ahead};
        t->mix(&m);
        assert_memory_equal(near, want, sizeof want);
        assert_true(ahead.n == 2 && ahead.range[1].at == y + ROWS * 32 && ahead.range[0].at == x);
        m.out = at_past, m.streams = 1;
        t->mix(&m), t->streamed();
        assert_memory_equal(past, want, sizeof want);
        assert_true(ahead.n == 0); /* y has 240 floats: two rows more end them, and the next three those of x */
    }
}

/* Energies of any number of members are those of one after the other. */
static void energies_are_added_up(void **unused)
{
    (void)unused;
    enum { MEMBERS = 9, HEADS = 21 };
    float energy[MEMBERS * HEADS], mass[MEMBERS];
    FOR_EACH_ISA(t)
    for (int round = 0; round < 200; round++) {
        hga_id n = below(MEMBERS + 1), heads = 1 + below(HEADS);
        double sum[HEADS], was[HEADS];
        for (hga_id h = 0; h < HEADS; h++) sum[h] = was[h] = (double)draw(3);
        for (int i = 0; i < MEMBERS * HEADS; i++) energy[i] = draw_lse();
        for (hga_id i = 0; i < n; i++) mass[i] = 0.5f + (float)below(7);
        t->energies(n, heads, energy, mass, sum);
        for (hga_id h = 0; h < HEADS; h++) {
            double want = was[h];
            for (hga_id i = 0; i < n && h < heads; i++) want += (double)mass[i] * (double)energy[i * heads + h];
            assert_true(sum[h] == want);
        }
    }
}

/* Means of families that go together are those of one after the other. */
static void families_weigh_what_each_does(void **unused)
{
    (void)unused;
    enum { FAMILIES = 12, MEMBERS = 7, ROWS = FAMILIES * MEMBERS, COLUMNS = 130 };
    static float x[ROWS * COLUMNS], want[FAMILIES * COLUMNS], is[FAMILIES * COLUMNS];
    static const hga_id widths[] = {1, 16, 24, 64, 128, COLUMNS};
    FOR_EACH_ISA(t)
    for (int round = 0; round < 200; round++) {
        hga_id n = below(FAMILIES + 1), columns = widths[below(6)], ptr[FAMILIES + 1] = {5};
        const float *row[ROWS];
        float w[ROWS], a[FAMILIES], *out[FAMILIES];
        for (int i = 0; i < ROWS * COLUMNS; i++) x[i] = draw(3);
        for (int i = 0; i < ROWS; i++) row[i] = x + below(ROWS) * COLUMNS, w[i] = draw(2);
        for (hga_id i = 0; i < n; i++) {
            ptr[i + 1] = ptr[i] + below(MEMBERS + 1), a[i] = draw(1), out[i] = is + i * columns;
            t->weigh(ptr[i + 1] - ptr[i], row + ptr[i] - 5, 0, w + ptr[i] - 5, a[i], columns, want + i * columns);
        }
        t->weigh_families(n, ptr, row, w, a, columns, out);
        assert_memory_equal(is, want, (size_t)(n * columns) * sizeof *is);
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

/* Families of no to five rows side by side: their sums, and what they are given, in place and with rows further apart,
   past the caches and on top of what is there, too. Weights that are not there are 1; members of weight 0, of no
   numbers here, have nothing to do with the others. */
static void families_side_by_side_are_summed_and_given(void **unused)
{
    (void)unused;
    enum { FAMILIES = 9, MOST = 5 * FAMILIES, COLUMNS = 96 };
    float *x = malloc(sizeof(float[MOST][COLUMNS])), *y = malloc(sizeof(float[FAMILIES][COLUMNS])),
          *out = aligned_alloc(64, sizeof(float[MOST][2 * COLUMNS]));
    FOR_EACH_ISA(t)
    for (int round = 0; round < 60; round++) {
        hga_id ptr[FAMILIES + 1] = {7}, columns = KERNEL_PAD * (1 + below(COLUMNS / KERNEL_PAD)), stride = columns;
        float w[MOST], *weight = round % 3 ? w : NULL;
        for (int i = 0; i < FAMILIES; i++) ptr[i + 1] = ptr[i] + below(6);
        for (int i = 0; i < MOST; i++) w[i] = draw(1);
        for (int i = 0; i < MOST * COLUMNS; i++) x[i] = draw(1);
        for (hga_id i = 0; weight && i < MOST; i += 4)
            for (hga_id j = 0; j < columns; j++) w[i] = 0, x[i * columns + j] = NAN;
        t->gather(FAMILIES, ptr, weight, x, columns, y);
        if (round % 2) stride = 2 * columns;
        kernel_put put = round % 8 == 5 ? KERNEL_ADD : round % 4 == 3 ? KERNEL_STREAM : KERNEL_WRITE;
        double before = put == KERNEL_ADD ? 0.75 : 0;
        for (int i = 0; i < MOST * 2 * COLUMNS; i++) out[i] = (float)before;
        t->scatter(FAMILIES, ptr, weight, y, columns, x, stride, put, round % 2 ? out : x);
        if (round % 2 == 0) memcpy(out, x, sizeof(float[MOST][COLUMNS]));
        for (int i = 0; i < FAMILIES; i++)
            for (hga_id j = 0; j < columns; j++) {
                double sum = 0, share = round % 2 ? 0 : (double)y[i * columns + j];
                for (hga_id e = ptr[i] - 7; e < ptr[i + 1] - 7; e++) {
                    double by = weight ? (double)w[e] : 1, now = (double)x[e * columns + j];
                    assert_true(isnan(out[e * stride + j]) == (by == 0));
                    if (by == 0) continue;
                    double was = now - by * share, is = was + by * (double)y[i * columns + j];
                    sum += by * was;
                    assert_true(fabs((double)out[e * stride + j] - before - is) < 1e-5);
                }
                assert_true(fabs(sum - (double)y[i * columns + j]) < 1e-4);
            }
    }
    free(x), free(y), free(out);
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
        assert_true((t->peak_pairs != NULL) == (t->transpose_pairs != NULL));
        if (!t->peak_pairs) continue;
        sink = NAN;
        assert_true(t->peak_pairs(1200, &sink) == 2 * many && isfinite(sink));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_finished_and_merged),
        cmocka_unit_test(rows_are_mixed_together),
        cmocka_unit_test(energies_are_added_up),
        cmocka_unit_test(families_weigh_what_each_does),
        cmocka_unit_test(sum_and_blend_are_what_they_say),
        cmocka_unit_test(families_side_by_side_are_summed_and_given),
        cmocka_unit_test(exp_is_exact_enough),
        cmocka_unit_test(peaks_count_their_operations),
    };
    return cmocka_run_group_tests_name("state kernels", tests, NULL, NULL);
}
