/* Tiles of every instruction set this machine has, against the same formula in double, and scores that rise. */
#include "kernel_cases.h"
#include "scores.h"

/* The values of a tile, side by side; how far apart. */
static ptrdiff_t lay_side_by_side(const kernel_tile *t, const float **v)
{
    enum { STRIDE = MOST_DIM + 3 };
    static float side[KERNEL_CHUNK][STRIDE];
    for (hga_id c = 0; c < t->n; c++) {
        memcpy(side[c], t->v[c], (size_t)t->dim_v * sizeof(float));
        v[c] = side[c];
    }
    return STRIDE;
}

/* Any rows, columns or none, masks and pair biases, in one group or two, fresh or not, ending or not; and a group
   computes the same bits alone as beside another, and with values side by side as with values anywhere. */
static void a_tile_is_softmax_of_each_row(void **unused)
{
    (void)unused;
    numbers *x = malloc(sizeof *x);
    static group_case g[2], alone;
    FOR_EACH_ISA(t)
    for (int round = 0; round < 600; round++) {
        hga_id dim = 1 + below(MOST_DIM), dim_v = 1 + below(MOST_DIM), n = below(20) ? 1 + below(KERNEL_CHUNK) : 0,
               many = 1 + below(2);
        fill(x, dim);
        kernel_tile tile = {
            .n_groups = many, .n = n, .dim = dim, .dim_v = dim_v, .k = x->kp, .v = x->vp, .terms.bias = x->bias};
        for (hga_id i = 0; i < many; i++) tile.group[i] = make_group(&g[i], x, i, 1 + below(KERNEL_TILE), dim, dim_v);
        kernel_tile last = tile;
        alone = g[many - 1];
        for (hga_id r = 0; r < KERNEL_TILE; r++) alone.out[r] = alone.end[r];
        const float *side[KERNEL_CHUNK];
        last.n_groups = 1, last.group[0] = tile.group[many - 1];
        last.v_row = lay_side_by_side(&last, side), last.v = side;
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

/* A score begins with its bias and has dim products added, each time rounded by 6e-8 of itself at most; and weights are
   of what is said of scores by 32 above. */
static double tolerance_of(const numbers *x, hga_id n, hga_id dim)
{
    double most = 0;
    for (hga_id e = 0; e < n; e++)
        if (isfinite(x->bias[e])) most = fmax(most, fabs((double)x->bias[e]));
    return 2e-5 + (3e-7 + 3e-8 * dim) * most;
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
        kernel_tile tile = {.n_groups = 2, .dim = dim, .dim_v = dim_v, .k = x->kp, .v = x->vp, .terms.bias = x->bias};
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
                part.n = c.first[i + 1] - first, part.k += first, part.v += first, part.terms.bias += first;
                for (hga_id k = 0; k < part.n_groups; k++) {
                    if (part.group[k].rows) part.group[k].rows += first;
                    part.group[k].fresh &= i == 0;
                }
                part.group[both].out = i < c.n - 1 || !out ? NULL : both ? out : alone.out;
                t->attend_tile(&part);
            }
        }
        for (hga_id i = 0; i < 2; i++)
            compare_group(tolerance_of(x, n, dim), t->isa, &g[i], &tile.group[i], x, i, n, dim, dim_v);
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
        kernel_tile tile = {
            .n_groups = 1, .n = half, .dim = 8, .dim_v = 24, .k = x->kp, .v = x->vp, .terms.bias = x->bias};
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
                part.k += i * half, part.v += i * half, part.terms.bias += i * half, part.group[0].fresh &= i == 0;
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
                                      .terms.bias = x->bias + first},
                      &s);
            t->attend_heads(&(kernel_heads){.n = many,
                                            .heads = heads,
                                            .dim = dim,
                                            .dim_v = dim_v,
                                            .share = heads,
                                            .q = q,
                                            .q_head = ROW,
                                            .columns.k = x->kp + first,
                                            .columns.v = x->vp + first,
                                            .terms.bias = x->bias + first,
                                            .states.greatest = greatest,
                                            .states.sum = sum,
                                            .states.acc = acc,
                                            .states.head = ROW});
        }
        double out[ROW], lse, most = tolerance_of(x, n, dim);
        for (hga_id h = 0; h < heads; h++) {
            plain_softmax(x, x->q[h], n, dim, dim_v, 0, all_kept(), NULL, out, &lse);
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
        kernel_tile tile = {
            .n_groups = 1, .n = n, .dim = 8, .dim_v = dim_v, .k = x->kp, .v = x->vp, .terms.bias = x->bias};
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

/* The sums of a row's weights by `each` columns, beside 2^score in double. */
static void compare_sums(const group_case *g, const kernel_tile *t, hga_id group, const numbers *x, hga_id r,
                         hga_id each, const float *sum)
{
    const kernel_tile_group *of = &t->group[group];
    double all = 0;
    for (hga_id c = 0; c < t->n; sum += KERNEL_TILE) {
        double want = 0;
        for (hga_id end = t->n - c < each ? t->n : c + each; c < end; c++) {
            double s = (double)x->bias[c] + (of->pair_bias ? (double)g->pair[c * KERNEL_TILE + r] : 0);
            for (hga_id j = 0; j < t->dim; j++) s += (double)x->q[group + r][j] * (double)x->k[c][j];
            if (!of->rows || of->rows[c] >> r & 1) want += exp2(s);
        }
        const double found = sum[r] == 0 ? 0 : (double)sum[r] * exp2((double)g->greatest[r]);
        assert_true(fabs(found - want) <= 2e-5 * want);
        all += want;
    }
    assert_true(all == 0 ? g->sum[r] == 0 : fabs((double)g->sum[r] * exp2((double)g->greatest[r]) - all) <= 2e-5 * all);
}

/* A tile's weights alone: the references and sums have the bits of attend_tile, of a group alone or beside another. */
static void weights_are_summed_by_columns(void **unused)
{
    (void)unused;
    numbers *x = malloc(sizeof *x);
    static group_case g[2], alone;
    static float sum[2][KERNEL_CHUNK * KERNEL_TILE];
    FOR_EACH_ISA(t)
    for (int round = 0; round < 300; round++) {
        hga_id dim = 1 + below(MOST_DIM), n = 1 + below(KERNEL_CHUNK), many = 1 + below(2), each = 1 + below(n);
        fill(x, dim);
        kernel_tile tile = {.n_groups = many, .n = n, .dim = dim, .k = x->kp, .v = x->vp, .terms.bias = x->bias};
        for (hga_id i = 0; i < many; i++) {
            tile.group[i] = make_group(&g[i], x, i, 1 + below(KERNEL_TILE), dim, 0);
            tile.group[i].out = NULL, tile.group[i].state.stride = 0;
        }
        alone = g[many - 1];
        kernel_tile last = tile;
        last.n_groups = 1, last.group[0] = tile.group[many - 1];
        last.group[0].state = (kernel_tile_state){alone.greatest, alone.sum, alone.acc, 0};
        float *const to[] = {sum[0], sum[1]};
        t->weigh_tile(&tile, each, to);
        t->attend_tile(&last);
        for (hga_id i = 0; i < many; i++)
            for (hga_id r = 0; r < tile.group[i].n_rows; r++) compare_sums(&g[i], &tile, i, x, r, each, sum[i]);
        const size_t rows = (size_t)last.group[0].n_rows * sizeof *alone.sum;
        assert_memory_equal(alone.greatest, g[many - 1].greatest, rows);
        assert_memory_equal(alone.sum, g[many - 1].sum, rows);
    }
    free(x);
}

/* Biases of edges: those of a row's columns, one after the other in memory, in some heads. */
static void biases_of_edges_are_those_of_pairs(void **unused)
{
    enum { MOST = 17, ALL = KERNEL_TILE * KERNEL_CHUNK * MOST };
    (void)unused;
    float *table = malloc(ALL * sizeof *table), *out = malloc(ALL * sizeof *out);
    for (int i = 0; i < ALL; i++) table[i] = (float)i / 64 - 100;
    FOR_EACH_ISA(t)
    for (hga_id heads = 1; heads <= MOST; heads++) {
        const hga_id n = 1 + below(KERNEL_CHUNK);
        uint64_t columns[KERNEL_TILE] = {0};
        const float *row[KERNEL_TILE];
        ptrdiff_t apart[KERNEL_TILE];
        for (int r = 0; r < KERNEL_TILE; r++) {
            for (hga_id c = 0; c < n; c++) columns[r] |= (uint64_t)(below(4) > 0) << c;
            row[r] = table + r * KERNEL_CHUNK * MOST, apart[r] = r % 2 ? heads : MOST;
        }
        t->edge_biases(
            &(kernel_edge_biases){.n = n, .heads = heads, .columns = columns, .row = row, .edge = apart, .out = out});
        for (hga_id h = 0; h < heads; h++)
            for (int r = 0; r < KERNEL_TILE; r++)
                for (hga_id c = 0, e = 0; c < n; c++) {
                    if (!(columns[r] >> c & 1)) continue;
                    const double want = (double)row[r][e++ * apart[r] + h] * (double)KERNEL_LOG2E,
                                 got = (double)out[(h * KERNEL_CHUNK + c) * KERNEL_TILE + r];
                    assert_true(fabs(got - want) <= 1e-6 * fabs(want));
                }
    }
    free(table), free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(biases_of_edges_are_those_of_pairs),
        cmocka_unit_test(a_tile_is_softmax_of_each_row),
        cmocka_unit_test(tiles_bear_rising_scores),
        cmocka_unit_test(a_row_of_a_tile_stands_alone),
        cmocka_unit_test(rows_bear_rising_scores),
        cmocka_unit_test(biases_in_base_2_stay_finite),
        cmocka_unit_test(what_is_not_finite_stays_with_its_rows),
        cmocka_unit_test(weights_are_summed_by_columns),
    };
    return cmocka_run_group_tests_name("tile_kernels", tests, NULL, NULL);
}
