/* test_select.c: which blocks are chosen by content, against the definition in double, written slowly: every block is
   asked what stands before it. Rows whose choice depends on less than what products in float may differ by are passed
   over, and few are. */
#include "appended.h"
#include "select.h"
#include "selecting.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the definition ---- */

static double mean_at(const float *x, hga_id heads, hga_id dim, hga_id head, hga_id first, hga_id end, hga_id column)
{
    double sum = 0;
    for (hga_id t = first; t < end; t++) sum += x[((int64_t)t * heads + head) * dim + column];
    return sum / (end - first);
}

static double bound_at(const drawn *d, hga_id kv, hga_id first, hga_id end, hga_id column, double q)
{
    const hga_shape *s = &d->in.shape;
    double greatest = -INFINITY;
    for (hga_id t = first; t < end; t++)
        greatest = fmax(greatest, q * (double)d->k[((int64_t)t * s->n_kv_heads + kv) * s->dim + column]);
    return greatest;
}

/* The score of block j, of b tokens, of a sample for query block i of head h. */
static double head_score(const drawn *d, hga_id sample, hga_id i, hga_id b, hga_id j, hga_id h)
{
    const hga_shape *s = &d->in.shape;
    hga_id at = d->offsets[sample], end = d->offsets[sample + 1], kv = h / (s->n_heads / s->n_kv_heads);
    hga_id q0 = at + i * d->how.query_block, q1 = least_of(q0 + d->how.query_block, end);
    hga_id k0 = at + j * b, k1 = least_of(k0 + b, end);
    double sum = 0;
    for (hga_id c = 0; c < s->dim; c++) {
        double q = mean_at(d->q, s->n_heads, s->dim, h, q0, q1, c);
        sum += d->how.score == HGA_SELECT_MINMAX ? bound_at(d, kv, k0, k1, c, q)
                                                 : q * mean_at(d->k, s->n_kv_heads, s->dim, kv, k0, k1, c);
    }
    return sum * (d->in.scale ? (double)d->scale : 1 / sqrt(s->dim));
}

/* The weight of block j in the softmax of token t of a sample, of head h. */
static double weight_of(const drawn *d, hga_id sample, hga_id t, hga_id j, hga_id h)
{
    const hga_shape *s = &d->in.shape;
    hga_id at = d->offsets[sample], n = d->how.causal ? t + 1 : d->offsets[sample + 1] - at;
    hga_id kv = h / (s->n_heads / s->n_kv_heads);
    double x[1024], most = -INFINITY, sum = 0, here = 0;
    for (hga_id u = 0; u < n; u++) {
        double product = 0;
        for (hga_id c = 0; c < s->dim; c++)
            product += (double)d->q[((int64_t)(at + t) * s->n_heads + h) * s->dim + c] *
                       d->k[((int64_t)(at + u) * s->n_kv_heads + kv) * s->dim + c];
        x[u] = product * (d->in.scale ? (double)d->scale : 1 / sqrt(s->dim));
        most = fmax(most, x[u]);
    }
    for (hga_id u = 0; u < n; u++) {
        sum += exp(x[u] - most);
        if (u / d->how.block == j) here += exp(x[u] - most);
    }
    return here / sum;
}

/* By every `sample`-th query of a query block, or by its last; of those that are appended alone. */
static double sampled_score(const drawn *d, hga_id sample, hga_id i, hga_id j, hga_id h)
{
    hga_id first = i * d->how.query_block;
    hga_id end = least_of(first + d->how.query_block, d->offsets[sample + 1] - d->offsets[sample]), found = 0;
    double sum = 0;
    for (hga_id t = d->from > first ? d->from : first; t < end; t++)
        if ((t - first) % d->how.sample == d->how.sample - 1) sum += weight_of(d, sample, t, j, h), found++;
    return found ? sum : weight_of(d, sample, end - 1, j, h);
}

static double score_of(const drawn *d, hga_id chooser, hga_id sample, hga_id i, hga_id b, hga_id j, int64_t row)
{
    if (d->input) return d->input[row * longest_of(d) + j];
    hga_id heads = d->in.shape.n_heads / hga_select_choosers(&d->how, &d->in.shape);
    double sum = 0;
    for (hga_id h = chooser * heads; h < (chooser + 1) * heads; h++)
        sum +=
            d->how.score == HGA_SELECT_SAMPLE ? sampled_score(d, sample, i, j, h) : head_score(d, sample, i, b, j, h);
    return sum;
}

typedef struct block_state {
    int own, candidate, forced;
    double score, p;
} block_state;

/* Token i looks inside the best coarse blocks before its own alone, besides what is forced or near; does that depend on
   little? */
static int leave_far(const drawn *d, hga_id chooser, hga_id sample, hga_id i, block_state *x)
{
    const hga_id each = d->how.coarse / d->how.block, own = i / d->how.coarse;
    int close = 0;
    for (hga_id a = 0; a < own - 1; a++) {
        double score = score_of(d, chooser, sample, i, d->how.coarse, a, 0);
        hga_id better = 0;
        for (hga_id other = 0; other < own; other++) {
            double its = score_of(d, chooser, sample, i, d->how.coarse, other, 0);
            if (other != a) better += its > score || (its == score && other < a);
            if (other != a) close |= fabs(its - score) < 1e-5 * (1 + fabs(score));
        }
        for (hga_id j = a * each; better >= d->how.coarse_k && j < (a + 1) * each; j++)
            if (!x[j].forced) x[j].candidate = 0;
    }
    return close;
}

static void look_at_blocks(const drawn *d, hga_id chooser, hga_id sample, hga_id i, int64_t row, block_state *x,
                           int *close)
{
    hga_id n = d->offsets[sample + 1] - d->offsets[sample], b = d->how.block, n_blocks = blocks_of(n, b);
    hga_id q0 = i * d->how.query_block, q1 = least_of(q0 + d->how.query_block, n), before = 0;
    double sum = 0;
    for (hga_id j = 0; j < n_blocks; j++) {
        x[j] = (block_state){.own = j * b < q1 && least_of((j + 1) * b, n) > q0};
        x[j].candidate = d->how.causal ? (j + 1) * b <= q0 : !x[j].own;
        if (x[j].candidate) x[j].score = score_of(d, chooser, sample, i, b, j, row);
        if (x[j].candidate && j < d->how.sinks) x[j].forced = 1;
    }
    for (hga_id j = q0 / b - 1; j >= 0 && before < d->how.local; j--, before++) x[j].forced = 1;
    if (d->how.coarse) *close |= leave_far(d, chooser, sample, i, x);
    for (hga_id j = 0; j < n_blocks; j++) {
        x[j].p = !x[j].candidate ? 0 : d->how.score == HGA_SELECT_SAMPLE ? x[j].score : exp(x[j].score);
        sum += x[j].p;
    }
    for (hga_id j = 0; j < n_blocks && sum > 0; j++) x[j].p /= sum;
}

/* Is j chosen? `close` is set where that depends on little. Block j is among the k best where few enough stand before
   it, and in the shortest prefix where those before it sum to less than the threshold. */
static int is_chosen(const drawn *d, hga_id k, const block_state *x, hga_id n, hga_id j, int *close)
{
    hga_id places = k, better = 0;
    double before = 0;
    if (x[j].own || x[j].forced) return 1;
    if (!x[j].candidate || x[j].score == -INFINITY) return 0;
    for (hga_id i = 0; i < n; i++) {
        if (x[i].own || x[i].forced) places--;
        if (!x[i].candidate || i == j || x[i].score == -INFINITY) continue;
        int is_before = x[i].score > x[j].score || (x[i].score == x[j].score && i < j);
        if (is_before) before += x[i].p;
        if (!x[i].forced && is_before) better++;
        if (!d->input && fabs(x[i].score - x[j].score) < 1e-5 * (1 + fabs(x[j].score))) *close = 1;
    }
    if (k) return better < places;
    if (d->how.threshold == 1) return 1;
    if (fabs(before - d->how.threshold) < 1e-5) *close = 1;
    return before < d->how.threshold;
}

/* Rows that were compared, from the first query block that chose on; a wrong one fails. */
static int compare(const drawn *d, const hga_chosen *got)
{
    int compared = 0;
    block_state x[512];
    int64_t row = 0;
    const hga_id first = d->from / d->how.query_block;
    assert_int_equal(got->n_query_blocks, query_blocks_of(d) - first);
    for (hga_id c = 0; c < got->n_choosers; c++)
        for (hga_id s = 0; s < samples_of(d); s++) {
            hga_id n = d->offsets[s + 1] - d->offsets[s], n_blocks = blocks_of(n, d->how.block);
            for (hga_id i = first; i < blocks_of(n, d->how.query_block); i++, row++) {
                hga_pos at = got->first[row];
                int close = 0, wrong = 0;
                look_at_blocks(d, c, s, i, row, x, &close);
                for (hga_id j = 0; j < n_blocks; j++) {
                    int want = is_chosen(d, k_of(d, c), x, n_blocks, j, &close);
                    int has = at < got->first[row + 1] && got->block[at] == j;
                    at += has, wrong |= want != has;
                }
                if (!close && (wrong || at != got->first[row + 1]))
                    fail_msg("chooser %d, sample %d, query block %d", (int)c, (int)s, (int)i);
                compared += !close;
            }
        }
    return compared;
}

static void blocks_are_those_of_the_definition(void **state)
{
    (void)state;
    int compared = 0;
    int64_t rows = 0;
    for (int i = 0; i < 400; i++) {
        if (passed_over(i)) continue;
        drawn *d = draw((uint64_t)i + 1);
        hga_chosen got;
        d->in.threads = 1 + i % 3;
        assert_ok(hga_select_blocks(&d->how, &d->in, &got));
        compared += compare(d, &got);
        rows += (int64_t)got.n_choosers * got.n_query_blocks;
        hga_chosen_clear(&got);
        drop(d);
    }
    assert_true(rows > 1000 && compared > 0.9 * (double)rows);
}

static void same_choice(const hga_chosen *a, const hga_chosen *b)
{
    int64_t rows = (int64_t)a->n_choosers * a->n_query_blocks;
    assert_int_equal(a->n_choosers, b->n_choosers);
    assert_int_equal(a->slots, b->slots);
    assert_memory_equal(a->first, b->first, (size_t)(rows + 1) * sizeof *a->first);
    assert_memory_equal(a->block, b->block, (size_t)a->first[rows] * sizeof *a->block);
}

static void threads_and_layouts_change_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++) {
        if (passed_over(i)) continue;
        drawn *d = draw((uint64_t)i + 1000);
        const hga_shape *s = &d->in.shape;
        hga_id n = d->in.n_tokens;
        hga_chosen one, two;
        int64_t values = (int64_t)n * s->n_heads * s->dim;
        float *turned = memory(values + 1, sizeof *turned);
        for (int64_t at = 0; at < values; at++) { /* [heads][tokens][dim] */
            int64_t t = at / s->dim / s->n_heads, h = at / s->dim % s->n_heads;
            turned[(h * n + t) * s->dim + at % s->dim] = d->q[at];
        }
        assert_ok(hga_select_blocks(&d->how, &d->in, &one));
        d->in.threads = 3;
        d->in.query =
            (hga_tensor){.data = turned, .rows = n, .row_stride = s->dim, .head_stride = (ptrdiff_t)n * s->dim};
        assert_ok(hga_select_blocks(&d->how, &d->in, &two));
        same_choice(&one, &two);
        hga_chosen_clear(&one), hga_chosen_clear(&two);
        free(turned), drop(d);
    }
}

/* The upper halves of floats whose lower ones are cut off: the same numbers in 16 bits. */
static uint16_t *cut_halves(float *x, int64_t n)
{
    uint16_t *half = memory(n + 1, sizeof *half);
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        half[i] = (uint16_t)(bits >> 16), bits &= 0xffff0000;
        memcpy(&x[i], &bits, sizeof bits);
    }
    return half;
}

static void numbers_of_16_bits_choose_alike(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        if (passed_over(i)) continue;
        drawn *d = draw((uint64_t)i + 2000);
        const hga_shape *s = &d->in.shape;
        uint16_t *q = cut_halves(d->q, (int64_t)d->in.n_tokens * s->n_heads * s->dim);
        uint16_t *k = cut_halves(d->k, (int64_t)d->in.n_tokens * s->n_kv_heads * s->dim);
        hga_chosen wide, half;
        assert_ok(hga_select_blocks(&d->how, &d->in, &wide));
        d->in.query.data = q, d->in.key.data = k, d->in.query.dtype = d->in.key.dtype = HGA_BF16;
        assert_ok(hga_select_blocks(&d->how, &d->in, &half));
        same_choice(&wide, &half);
        hga_chosen_clear(&wide), hga_chosen_clear(&half);
        free(q), free(k), drop(d);
    }
}

static void later_tokens_change_no_earlier_choice(void **state)
{
    (void)state;
    enum { N = 200, H = 2, DIM = 8 };
    float *q = random_floats(1, 1, N * H * DIM), *k = random_floats(2, 1, N * H * DIM);
    hga_selection how = hga_selection_defaults();
    how.block = 8, how.k = 6, how.causal = 1;
    hga_select_input in = {.n_tokens = N, .shape = {.n_heads = H, .dim = DIM}};
    in.query = (hga_tensor){.data = q, .rows = N}, in.key = (hga_tensor){.data = k, .rows = N};
    hga_chosen before, after;
    assert_ok(hga_select_blocks(&how, &in, &before));
    for (int64_t i = 101 * H * DIM; i < N * H * DIM; i++) q[i] = -q[i], k[i] = 3 - k[i];
    assert_ok(hga_select_blocks(&how, &in, &after));
    for (int h = 0; h < H; h++)
        for (int t = 0; t <= 100; t++) {
            hga_pos x = before.first[h * N + t], y = after.first[h * N + t], n = before.first[h * N + t + 1] - x;
            assert_int_equal(n, after.first[h * N + t + 1] - y);
            assert_memory_equal(before.block + x, after.block + y, (size_t)n * sizeof(hga_id));
        }
    hga_chosen_clear(&before), hga_chosen_clear(&after);
    free(q), free(k);
}

/* Query blocks look ahead: the choice of token 0's block depends on the last query of its block. */
static void a_query_block_looks_ahead(void **state)
{
    (void)state;
    enum { N = 64 };
    float q[N], k[N];
    for (int t = 0; t < N; t++) q[t] = 1, k[t] = (float)(t / 4);
    hga_selection how = {.block = 4, .query_block = 16, .k = 5, .causal = 1};
    hga_select_input in = {.n_tokens = N, .shape = {.n_heads = 1, .dim = 1}};
    in.query = (hga_tensor){.data = q, .rows = N}, in.key = (hga_tensor){.data = k, .rows = N};
    hga_chosen c;
    assert_ok(hga_select_blocks(&how, &in, &c));
    assert_int_equal(c.block[c.first[3]], 11);
    hga_chosen_clear(&c);
    q[63] = -100;
    assert_ok(hga_select_blocks(&how, &in, &c));
    assert_int_equal(c.block[c.first[3]], 0);
    hga_chosen_clear(&c);
}

static void ties_go_to_the_lower_block_and_the_table_is_filled(void **state)
{
    (void)state;
    float input[8 * 8] = {0};
    hga_selection how = {.block = 2, .query_block = 2, .k = 3, .score = HGA_SELECT_SCORES};
    hga_select_input in = {.n_tokens = 15, .shape = {.n_heads = 4, .dim = 1}, .scores = input};
    how.share = HGA_SELECT_ALL;
    input[5 * 8 + 6] = 1;
    input[2 * 8 + 0] = -INFINITY;
    hga_chosen c;
    assert_ok(hga_select_blocks(&how, &in, &c));
    int32_t table[8 * 4];
    const int32_t want[8 * 3] = {0, 1, 2, 0, 1, 2, 1, 2, 3, 0, 1, 3, 0, 1, 4, 0, 5, 6, 0, 1, 6, 0, 1, 7};
    assert_int_equal(c.slots, 3);
    hga_chosen_table(&c, table);
    assert_memory_equal(table, want, sizeof want);
    hga_chosen_clear(&c);
    how.causal = 1;
    assert_ok(hga_select_blocks(&how, &in, &c));
    hga_chosen_table(&c, table);
    const int32_t first[] = {0, -1, -1, 0, 1, -1, 1, 2, -1};
    assert_memory_equal(table, first, sizeof first);
    hga_chosen_clear(&c);
    how.k = 0, how.threshold = 0.3, how.causal = 0;
    memset(input, 0, sizeof input);
    assert_ok(hga_select_blocks(&how, &in, &c)); /* three of seven sevenths */
    hga_chosen_table(&c, table);
    const int32_t thirds[] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 4};
    assert_int_equal(c.slots, 4);
    assert_memory_equal(table, thirds, sizeof thirds);
    hga_chosen_clear(&c);
}

/* Scores of a row: drawn, in steps of a quarter, nearly all one, or with one far above the rest. */
static void draw_scores(uint64_t seed, hga_id n, float *score)
{
    float *drawn_scores = random_floats(seed, 3, n);
    for (hga_id j = 0; j < n; j++) {
        const float x = drawn_scores[j];
        score[j] = seed % 4 == 0   ? x
                   : seed % 4 == 1 ? (float)(int)(4 * x) / 4
                   : seed % 4 == 2 ? 1 + x * 1e-7f
                                   : x - (j == n / 2 ? 0 : 40);
    }
    free(drawn_scores);
}

/* By sorting all of them, as the definition has it. */
static void choose_plainly(const float *score, hga_id n, double threshold, uint8_t *chosen)
{
    double *p = memory(n, sizeof *p), all = 0, sum = 0, most = -INFINITY;
    for (hga_id j = 0; j < n; j++) most = fmax(most, (double)score[j]);
    for (hga_id j = 0; j < n; j++) all += p[j] = exp((double)score[j] - most);
    for (hga_id j = 0; j < n; j++) p[j] /= all, chosen[j] = 0;
    while (sum < threshold) {
        hga_id best = -1;
        for (hga_id j = 0; j < n; j++)
            if (!chosen[j] && (best < 0 || p[j] > p[best])) best = j;
        if (best < 0) break;
        chosen[best] = 1, sum += p[best];
    }
    free(p);
}

/* The same to the last block, ties and sums that come to the threshold exactly among them. */
static void the_shortest_prefix_is_that_of_all_sorted(void **state)
{
    enum { N = 150, ROWS = 40 };
    static const double thresholds[] = {0.01, 0.25, 0.5, 0.9, 0.95, 0.999};
    (void)state;
    float *input = memory((int64_t)(N + 1) * (N + 1), sizeof *input);
    uint8_t want[N + 1];
    for (uint64_t seed = 0; seed < ROWS; seed++) {
        hga_chosen c;
        hga_selection how = hga_selection_defaults();
        how.block = 1, how.k = 0, how.threshold = thresholds[seed % 6], how.score = HGA_SELECT_SCORES, how.causal = 1;
        how.sinks = how.local = 0;
        hga_select_input in = {.n_tokens = N + 1, .shape = {.n_heads = 1, .dim = 1}, .scores = input};
        for (hga_id i = 0; i <= N; i++) draw_scores(seed, N + 1, input + (int64_t)i * (N + 1));
        assert_ok(hga_select_blocks(&how, &in, &c));
        for (hga_id i = 0; i <= N; i++) {
            choose_plainly(input + (int64_t)i * (N + 1), i, how.threshold, want);
            hga_pos at = c.first[i];
            want[i] = 1;
            for (hga_id j = 0; j <= i; j++)
                if (want[j]) assert_true(at < c.first[i + 1] && c.block[at++] == j);
            assert_true(at == c.first[i + 1]);
        }
        hga_chosen_clear(&c);
    }
    free(input);
}

/* Three rows of sixteen: what the scratch had of others before is not looked at. */
static void rows_that_are_not_there_have_no_scores(void **state)
{
    enum { BLOCKS = 12, ROWS = 3, TOKENS = 46 };
    (void)state;
    const hga_selection how = {.block = 4, .query_block = 1, .k = 3, .causal = 1, .coarse = 8, .coarse_k = 2};
    const sample_cut cut = {.n_tokens = TOKENS, .n_blocks = BLOCKS, .n_query_blocks = TOKENS, .n_coarse = 6};
    const sixteen x = {.sample = &cut, .first = TOKENS - ROWS, .each = ROWS, .n = ROWS};
    float score[BLOCKS * KERNEL_TILE], coarse[BLOCKS * KERNEL_TILE];
    lane_mask chosen[BLOCKS], forced[BLOCKS], open[BLOCKS];
    picker p = {.score = score, .chosen = chosen, .forced = forced, .coarse = coarse, .open = open};
    selecting s = {.how = &how};
    hga_id bad_block;
    assert_ok(isa_kernels(NULL, &s.kernels));
    for (int i = 0; i < BLOCKS * KERNEL_TILE; i++)
        score[i] = coarse[i] = i % KERNEL_TILE < ROWS ? (float)(i * 7 % 11) : NAN;
    assert_int_equal(pick_sixteen(&s, &x, &p, &bad_block), -1);
    for (int i = 0; i < coarse_before(&s, &x) * KERNEL_TILE; i++)
        if (i % KERNEL_TILE >= ROWS) assert_true(score[i] == -INFINITY && coarse[i] == -INFINITY);
    for (int j = 0; j < BLOCKS; j++) assert_int_equal(chosen[j] >> ROWS, 0);
}

static void what_cannot_be_chosen_from_is_named(void **state)
{
    (void)state;
    enum { N = 40 };
    float x[N] = {0};
    hga_chosen c;
    hga_selection how = hga_selection_defaults();
    hga_select_input in = {.n_tokens = N, .shape = {.n_heads = 1, .dim = 1}};
    in.query = in.key = (hga_tensor){.data = x, .rows = N};
    how.block = 4;
    x[9] = NAN;
    assert_status(HGA_EINVAL, hga_select_blocks(&how, &in, &c));
    assert_non_null(strstr(hga_error_detail(), "block 2 for query block 0, chooser 0"));
    how.causal = 1; /* the first token that could choose block 2 is 12; query 9 chooses of blocks 0 and 1 */
    assert_status(HGA_EINVAL, hga_select_blocks(&how, &in, &c));
    assert_non_null(strstr(hga_error_detail(), "block 0 for query block 9, chooser 0"));
    x[9] = 0;
    how.threshold = 0.5;
    assert_status(HGA_EINVAL, hga_select_blocks(&how, &in, &c));
    assert_string_equal(hga_error_detail(), "k is 16 and threshold is 0.5; blocks are chosen by one of them");
    how.k = 0, how.threshold = 1.5;
    assert_status(HGA_EINVAL, hga_select_blocks(&how, &in, &c));
    how.threshold = 0, how.block = 0;
    assert_status(HGA_EINVAL, hga_select_blocks(&how, &in, &c));
    assert_string_equal(hga_error_detail(), "block is 0; it must be at least 1");
    how = hga_selection_defaults();
    how.score = HGA_SELECT_MINMAX, how.query_block = 4;
    assert_status(HGA_EUNSUPPORTED, hga_select_blocks(&how, &in, &c));
    how = hga_selection_defaults();
    how.block = 4, how.causal = 1, how.coarse = 10;
    assert_status(HGA_EINVAL, hga_select_blocks(&how, &in, &c));
    assert_string_equal(hga_error_detail(), "coarse is 10; it must be a multiple of block, 4");
    how.coarse = 8, how.coarse_k = 0;
    assert_status(HGA_EINVAL, hga_select_blocks(&how, &in, &c));
    how.coarse_k = 1, how.query_block = 2;
    assert_status(HGA_EUNSUPPORTED, hga_select_blocks(&how, &in, &c));
    how.query_block = 1, how.causal = 0;
    assert_status(HGA_EUNSUPPORTED, hga_select_blocks(&how, &in, &c));
    how.causal = 1, how.score = HGA_SELECT_SCORES;
    assert_status(HGA_EUNSUPPORTED, hga_select_blocks(&how, &in, &c));
    how = hga_selection_defaults();
    in.key.fold = 8;
    assert_status(HGA_EUNSUPPORTED, hga_select_blocks(&how, &in, &c));
    in.key.fold = 0, in.key.rows = 39;
    assert_status(HGA_EINVAL, hga_select_blocks(&how, &in, &c));
    assert_string_equal(hga_error_detail(), "key has 39 rows, and there are 40 tokens");
}

/* Rows of [n][width]. */
static const float **rows_of(const float *x, hga_id n, hga_id width)
{
    const float **row = memory(n + 1, sizeof *row);
    for (hga_id i = 0; i < n; i++) row[i] = x + (int64_t)i * width;
    return row;
}

/* An append that begins or ends within a query block samples the tokens that it has of it. */
static void appended_parts_sample_their_own_tokens(void **state)
{
    (void)state;
    int compared = 0, rows = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t seed = i + 5000;
        drawn *d = draw(seed);
        if (d->how.score != HGA_SELECT_SAMPLE || !d->how.causal || d->in.n_tokens < 2) {
            drop(d);
            continue;
        }
        d->offsets[1] = d->in.n_tokens, d->in.n_samples = 0, d->in.offsets = NULL;
        d->from = random_below(&seed, d->in.n_tokens);
        const hga_shape *s = &d->in.shape;
        const float **q = rows_of(d->q, d->in.n_tokens, s->n_heads * s->dim),
                    **k = rows_of(d->k, d->in.n_tokens, s->n_kv_heads * s->dim);
        appended_tokens x = {.how = &d->how, .shape = *s, .scale = d->in.scale, .threads = 1 + (hga_id)(i % 3)};
        x.from = d->from, x.end = d->in.n_tokens, x.query = q + d->from, x.key = k;
        hga_chosen got;
        assert_ok(isa_kernels(NULL, &x.kernels));
        assert_ok(appended_choose(&x, &got));
        compared += compare(d, &got), rows += got.n_choosers * got.n_query_blocks;
        hga_chosen_clear(&got);
        free(q), free(k), drop(d);
    }
    assert_true(rows > 500 && compared > 0.7 * rows); /* many weigh next to nothing, and are close */
}

/* Weights that vanish in float are those of blocks that tie: the lower ones are chosen, and by a threshold none. */
static void candidates_without_weight_tie(void **state)
{
    (void)state;
    enum { N = 96, B = 8, OWN = 7 };
    float q[N], k[N];
    for (int t = 0; t < N; t++) q[t] = 100, k[t] = (float)(t / B); /* own blocks have all the weight */
    hga_selection how = {.block = B, .query_block = B, .k = 4, .causal = 1, .score = HGA_SELECT_SAMPLE, .sample = 3};
    hga_select_input in = {.n_tokens = N, .shape = {.n_heads = 1, .dim = 1}};
    in.query = (hga_tensor){.data = q, .rows = N}, in.key = (hga_tensor){.data = k, .rows = N};
    hga_chosen c;
    assert_ok(hga_select_blocks(&how, &in, &c));
    hga_pos at = c.first[OWN];
    assert_int_equal(c.first[OWN + 1] - at, 4);
    for (int i = 0; i < 3; i++) assert_int_equal(c.block[at + i], i);
    hga_chosen_clear(&c);
    how.k = 0, how.threshold = 0.5;
    assert_ok(hga_select_blocks(&how, &in, &c));
    for (hga_id i = 0; i < c.n_query_blocks; i++) assert_int_equal(c.first[i + 1] - c.first[i], 1);
    hga_chosen_clear(&c);
    how.threshold = 1; /* all of them, whatever they weigh */
    assert_ok(hga_select_blocks(&how, &in, &c));
    for (hga_id i = 0; i < c.n_query_blocks; i++) assert_int_equal(c.first[i + 1] - c.first[i], i + 1);
    hga_chosen_clear(&c);
}

/* The weight of one far key decides, whichever chunk it is in, and however far scores rise behind it. */
static void a_single_far_key_is_found(void **state)
{
    (void)state;
    enum { N = 1000, DIM = 3 };
    static const hga_id blocks[] = {1, 5, 16, 48, 100};
    float *q = random_floats(1, 1, N * DIM), *k = random_floats(2, 1, N * DIM);
    for (int i = 0; i < N * DIM; i++) k[i] *= 0.1f;
    for (int c = 0; c < DIM; c++) q[996 * DIM + c] = 30, k[333 * DIM + c] = 2;
    hga_select_input in = {.n_tokens = N, .shape = {.n_heads = 1, .dim = DIM}};
    in.query = (hga_tensor){.data = q, .rows = N}, in.key = (hga_tensor){.data = k, .rows = N};
    for (int i = 0; i < 5; i++) {
        hga_selection how = {.block = blocks[i], .query_block = 20, .causal = 1, .score = HGA_SELECT_SAMPLE};
        hga_chosen c;
        how.sample = 17, how.k = (1000 - 980) / blocks[i] + 3; /* token 996 is the one of the last query block */
        assert_ok(hga_select_blocks(&how, &in, &c));
        int found = 0;
        for (hga_pos at = c.first[49]; at < c.first[50]; at++) found |= c.block[at] == 333 / blocks[i];
        assert_true(found);
        hga_chosen_clear(&c);
    }
    free(q), free(k);
}

static void refuse_sample(const hga_selection *how, const hga_select_input *in, hga_status want, const char *words)
{
    hga_chosen c;
    assert_status(want, hga_select_blocks(how, in, &c));
    if (!strstr(hga_error_detail(), words)) fail_msg("'%s' does not say '%s'", hga_error_detail(), words);
}

/* Products that are no weights are named where a sampled query meets them, also in a block of its own; others are not
   looked at. */
static void bad_samples_are_named(void **state)
{
    (void)state;
    enum { N = 80, DIM = 2 };
    float x[N * DIM], y[N * DIM];
    hga_chosen c;
    hga_selection how = {.block = 4, .query_block = 8, .k = 3, .causal = 1, .score = HGA_SELECT_SAMPLE, .sample = 4};
    hga_select_input in = {.n_tokens = N, .shape = {.n_heads = 1, .dim = DIM}, .threads = 2};
    in.query = (hga_tensor){.data = x, .rows = N}, in.key = (hga_tensor){.data = y, .rows = N};
    for (int i = 0; i < N * DIM; i++) x[i] = y[i] = 1;
    y[30 * DIM] = INFINITY;
    refuse_sample(&how, &in, HGA_EINVAL, "the score of block 7 for query block 3, chooser 0, is not a number or +inf");
    y[30 * DIM] = NAN;
    refuse_sample(&how, &in, HGA_EINVAL, "block 7 for query block 3, chooser 0");
    y[30 * DIM] = -INFINITY; /* whom nobody looks at */
    assert_ok(hga_select_blocks(&how, &in, &c));
    hga_chosen_clear(&c);
    y[30 * DIM] = 1, x[29 * DIM] = NAN; /* which is not sampled */
    assert_ok(hga_select_blocks(&how, &in, &c));
    hga_chosen_clear(&c);
    x[31 * DIM] = NAN;
    refuse_sample(&how, &in, HGA_EINVAL, "block 0 for query block 3, chooser 0");
    y[(N - 1) * DIM] = INFINITY, x[31 * DIM] = 1, how.causal = 0;
    refuse_sample(&how, &in, HGA_EINVAL, "block 19 for query block 0, chooser 0");
    how.causal = 1, how.query_block = 1;
    refuse_sample(&how, &in, HGA_EUNSUPPORTED, "query_block or prefill must be above 1");
    how.query_block = 8, how.sample = 9;
    refuse_sample(&how, &in, HGA_EINVAL, "sample is 9; it must be at most query_block or prefill, 8");
    how.sample = 0;
    refuse_sample(&how, &in, HGA_EINVAL, "sample is 0; it must be at least 1");
    how.sample = 4, how.coarse = 8, how.coarse_k = 1;
    refuse_sample(&how, &in, HGA_EUNSUPPORTED, "query_block or prefill is 8");
}

/* A chooser's rows are those that it has with its k for all, and alone; one k for all is the same number for each. */
static void each_chooser_takes_its_own_number(void **state)
{
    (void)state;
    enum { N = 200, HEADS = 6, KV = 3, DIM = 8 };
    static const hga_id each[] = {1, 4, 99, 7, 2, 12}, alike[] = {5, 5, 5, 5, 5, 5};
    const hga_shape shape = {.n_heads = HEADS, .n_kv_heads = KV, .dim = DIM};
    float *q = random_floats(1, 1, N * HEADS * DIM), *k = random_floats(2, 1, N * KV * DIM);
    for (int share = 0; share <= HGA_SELECT_ALL; share++)
        for (hga_id threads = 1; threads <= 3; threads += 2) {
            hga_selection how = {.block = 8, .query_block = threads > 1 ? 16 : 1, .causal = 1};
            hga_select_input in = {.n_tokens = N, .shape = shape, .threads = threads};
            hga_chosen got, want;
            how.share = (hga_select_share)share, how.sinks = 1, how.local = 1;
            in.query = (hga_tensor){.data = q, .rows = N}, in.key = (hga_tensor){.data = k, .rows = N};
            how.k_each = each, how.n_k_each = hga_select_choosers(&how, &shape);
            assert_ok(hga_select_blocks(&how, &in, &got));
            /* all blocks; own and forced ones */
            assert_int_equal(got.slots, share != HGA_SELECT_ALL ? 25 : how.query_block > 1 ? 4 : 3);
            for (hga_id c = 0; c < got.n_choosers; c++) {
                const hga_pos *mine = got.first + (hga_pos)c * got.n_query_blocks, *its;
                hga_selection one;
                assert_ok(hga_select_chooser(&how, c, how.n_k_each, &one));
                assert_true(one.k == each[c] && one.share == HGA_SELECT_ALL && !one.k_each && !one.n_k_each);
                one.share = how.share;
                assert_ok(hga_select_blocks(&one, &in, &want));
                its = want.first + (hga_pos)c * want.n_query_blocks;
                for (hga_id r = 0; r < got.n_query_blocks; r++) {
                    assert_int_equal(mine[r + 1] - mine[r], its[r + 1] - its[r]);
                    assert_memory_equal(got.block + mine[r], want.block + its[r],
                                        (size_t)(mine[r + 1] - mine[r]) * sizeof *got.block);
                }
                hga_chosen_clear(&want);
            }
            hga_chosen_clear(&got);
            how.k_each = alike;
            assert_ok(hga_select_blocks(&how, &in, &got));
            how.k_each = NULL, how.n_k_each = 0, how.k = 5;
            assert_ok(hga_select_blocks(&how, &in, &want));
            same_choice(&got, &want);
            hga_chosen_clear(&got), hga_chosen_clear(&want);
        }
    free(q), free(k);
}

static void a_wrong_k_of_a_chooser_is_named(void **state)
{
    (void)state;
    enum { N = 40 };
    static const hga_id each[] = {3, 0, -2};
    static const struct {
        hga_id n;
        double threshold;
        const char *words;
    } wrong[] = {{1, 0, "k has 1 numbers, and there are 2 choosers"},
                 {3, 0, "k of chooser 1 is 0; it must be at least 1"},
                 {2, 0.5, "k has 2 numbers and threshold is 0.5; blocks are chosen by one of them"},
                 {0, 0, "n_k_each is 0, and k_each is given"},
                 {-1, 0, "n_k_each is -1, and k_each is given"}};
    float x[2 * N] = {0};
    hga_chosen c;
    hga_select_input in = {.n_tokens = N, .shape = {.n_heads = 2, .dim = 1}};
    in.query = in.key = (hga_tensor){.data = x, .rows = N};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hga_selection how = hga_selection_defaults();
        how.k_each = each, how.n_k_each = wrong[i].n, how.threshold = wrong[i].threshold;
        assert_status(HGA_EINVAL, hga_select_blocks(&how, &in, &c));
        assert_string_equal(hga_error_detail(), wrong[i].words);
    }
    hga_selection how = hga_selection_defaults(), one;
    how.n_k_each = 2;
    assert_status(HGA_EINVAL, hga_select_blocks(&how, &in, &c));
    assert_string_equal(hga_error_detail(), "n_k_each is 2, and k_each is NULL");
    how.k_each = each;
    assert_status(HGA_EINVAL, hga_select_chooser(&how, 0, 4, &one));
    assert_string_equal(hga_error_detail(), "k has 2 numbers, and there are 4 choosers");
    assert_status(HGA_EINVAL, hga_select_chooser(&how, 2, 2, &one));
    assert_string_equal(hga_error_detail(), "chooser is 2, and there are 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_those_of_the_definition),
        cmocka_unit_test(rows_that_are_not_there_have_no_scores),
        cmocka_unit_test(threads_and_layouts_change_nothing),
        cmocka_unit_test(numbers_of_16_bits_choose_alike),
        cmocka_unit_test(later_tokens_change_no_earlier_choice),
        cmocka_unit_test(a_query_block_looks_ahead),
        cmocka_unit_test(ties_go_to_the_lower_block_and_the_table_is_filled),
        cmocka_unit_test(the_shortest_prefix_is_that_of_all_sorted),
        cmocka_unit_test(appended_parts_sample_their_own_tokens),
        cmocka_unit_test(candidates_without_weight_tie),
        cmocka_unit_test(a_single_far_key_is_found),
        cmocka_unit_test(bad_samples_are_named),
        cmocka_unit_test(what_cannot_be_chosen_from_is_named),
        cmocka_unit_test(each_chooser_takes_its_own_number),
        cmocka_unit_test(a_wrong_k_of_a_chooser_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
