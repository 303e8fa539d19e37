/* test_chosen_weights.c: how much of a row's softmax each chosen block has, against the definition in double, written
   pair by pair; and beside what an execution of the chosen graph says. */
#include "hga_builders.h"
#include "selecting.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What rows' scores have besides products. */
typedef struct scoring {
    float cap, *slopes, *sink;
} scoring;

static double pair_score(const drawn *d, const scoring *x, hga_id h, hga_id first, hga_id t, hga_id u)
{
    const hga_shape *s = &d->in.shape;
    const float *q = d->q + ((int64_t)(first + t) * s->n_heads + h) * s->dim;
    const float *k = d->k + ((int64_t)(first + u) * s->n_kv_heads + h / (s->n_heads / s->n_kv_heads)) * s->dim;
    double sum = 0;
    for (hga_id c = 0; c < s->dim; c++) sum += (double)q[c] * (double)k[c];
    sum *= d->in.scale ? (double)d->scale : 1 / sqrt(s->dim);
    if (x->cap > 0) sum = (double)x->cap * tanh(sum / (double)x->cap);
    return x->slopes ? sum - (double)x->slopes[h] * abs(t - u) : sum;
}

/* A row's tokens: sample, token in it, and row of the choice. */
typedef struct place {
    hga_id first, n, t;
    hga_pos row;
} place;

static place place_of(const drawn *d, const hga_chosen *c, hga_id chooser, hga_id token)
{
    hga_id s = 0, before = 0;
    for (; token >= d->offsets[s + 1]; s++) before += blocks_of(d->offsets[s + 1] - d->offsets[s], d->how.query_block);
    hga_id t = token - d->offsets[s];
    return (place){d->offsets[s], d->offsets[s + 1] - d->offsets[s], t,
                   (hga_pos)chooser * c->n_query_blocks + before + t / d->how.query_block};
}

/* The sum of e^score over what a block has for the row. */
static double block_sum(const drawn *d, const scoring *x, hga_id h, const place *p, hga_id block)
{
    double sum = 0;
    hga_id end = least_of((block + 1) * d->how.block, p->n);
    if (d->how.causal) end = least_of(end, p->t + 1);
    for (hga_id u = block * d->how.block; u < end; u++) sum += exp(pair_score(d, x, h, p->first, p->t, u));
    return sum;
}

/* Of all rows: their log-sum-exps, and the weights. */
static void define(const drawn *d, const scoring *x, const hga_chosen *c, float *lse, double *weight)
{
    const hga_id heads = d->in.shape.n_heads, share = heads / c->n_choosers;
    for (hga_id h = 0; h < heads; h++)
        for (hga_id token = 0; token < d->in.n_tokens; token++) {
            place p = place_of(d, c, h / share, token);
            double all = x->sink ? exp((double)x->sink[h]) : 0;
            double *to = weight + ((int64_t)h * d->in.n_tokens + token) * c->slots;
            for (hga_id i = 0; i < c->slots; i++) {
                to[i] = i < c->first[p.row + 1] - c->first[p.row]
                            ? block_sum(d, x, h, &p, c->block[c->first[p.row] + i])
                            : 0;
                all += to[i];
            }
            for (hga_id i = 0; i < c->slots; i++) to[i] /= all;
            lse[(int64_t)token * heads + h] = (float)log(all);
        }
}

/* Caps, slopes and sinks are there or not, as the seed says. */
static scoring scoring_of(uint64_t seed, hga_id heads)
{
    scoring x = {.cap = seed % 2 ? 1.5f : 0};
    if (seed / 2 % 2) x.slopes = random_floats(seed + 5, 0.1, heads);
    if (seed / 4 % 2) x.sink = random_floats(seed + 6, 1, heads);
    return x;
}

static void hold(uint64_t seed, hga_id threads)
{
    drawn *d = draw(seed);
    hga_chosen c;
    scoring x = scoring_of(seed, d->in.shape.n_heads);
    assert_ok(hga_select_blocks(&d->how, &d->in, &c));
    const int64_t rows = (int64_t)d->in.n_tokens * d->in.shape.n_heads, n = rows * c.slots;
    float *lse = memory(rows + 1, sizeof *lse), *got = memory(n + 1, sizeof *got);
    double *want = memory(n + 1, sizeof *want);
    define(d, &x, &c, lse, want);
    hga_chosen_scores of = {.lse = {.data = lse, .rows = d->in.n_tokens}, .softcap = x.cap, .slopes = x.slopes};
    memset(got, 0xff, (size_t)n * sizeof *got);
    d->in.threads = threads;
    assert_ok(hga_chosen_weights(&d->how, &d->in, &c, &of, got));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) < 1e-5))
            fail_msg("drawn %d, weight %lld: %g, not %g", (int)seed, (long long)i, (double)got[i], want[i]);
    hga_chosen_clear(&c);
    free(lse), free(got), free(want), free(x.slopes), free(x.sink), drop(d);
}

static void weights_are_those_of_the_definition(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200; i++)
        if (!passed_over((int)i)) hold(i + 1, 1 + (hga_id)i % 3);
}

/* The log-sum-exps of an execution: rows sum to 1, and a block's part is what it adds to an output whose values are
   ones there and zeros elsewhere. */
static void they_are_an_executions(void **state)
{
    enum { N = 200, DIM = 24, BLOCK = 16 };
    (void)state;
    float *x = random_floats(3, 1, N * DIM), *v = memory(N, sizeof *v), *out = memory(N, sizeof *out),
          *lse = memory(N, sizeof *lse);
    hga_selection how = hga_selection_defaults();
    how.block = BLOCK, how.k = 4, how.causal = 1;
    hga_select_input in = {.n_tokens = N, .shape = {.n_heads = 1, .dim = DIM}, .threads = 1};
    in.query = in.key = (hga_tensor){.data = x, .rows = N};
    hga_chosen c;
    assert_ok(hga_select_blocks(&how, &in, &c));
    hga_routed p;
    hga_defaults(&p);
    p.n_tokens = N, p.block = BLOCK, p.causal = 1, p.choice = c.block, p.choice_first = c.first;
    hga_graph *g;
    hga_program program;
    assert_ok(hga_build_routed(&p, &g, &program));
    program.has_lse = 1;
    float *got = memory(N * c.slots, sizeof *got);
    for (hga_id block = 0; block < N / BLOCK; block++) {
        for (hga_id t = 0; t < N; t++) v[t] = t / BLOCK == block;
        hga_io io = {.query = {.data = x, .rows = N}, .key = {.data = x, .rows = N}, .value = {.data = v, .rows = N}};
        io.out = (hga_tensor){.data = out, .rows = N}, io.lse = (hga_tensor){.data = lse, .rows = N};
        assert_ok(hga_attention(g, &program, &(hga_shape){.n_heads = 1, .dim = DIM, .dim_v = 1}, NULL, &io));
        hga_chosen_scores of = {.lse = {.data = lse, .rows = N}};
        assert_ok(hga_chosen_weights(&how, &in, &c, &of, got));
        for (hga_id t = 0; t < N; t++) {
            double sum = 0, here = 0;
            for (hga_id i = 0; i < c.slots; i++) {
                sum += (double)got[t * c.slots + i];
                if (i < c.first[t + 1] - c.first[t] && c.block[c.first[t] + i] == block)
                    here = (double)got[t * c.slots + i];
            }
            assert_true(fabs(sum - 1) < 1e-5 && fabs(here - (double)out[t]) < 1e-5);
        }
    }
    hga_graph_destroy(g), hga_chosen_clear(&c);
    free(x), free(v), free(out), free(lse), free(got);
}

/* Copies onto themselves, which the C library does not define. */
static _Atomic int onto_themselves;
void *__real_memcpy(void *to, const void *from, size_t n);
void *__wrap_memcpy(void *to, const void *from, size_t n);
void *__wrap_memcpy(void *to, const void *from, size_t n)
{
    onto_themselves += to == from && n > 0;
    return __real_memcpy(to, from, n);
}

/* Numbers of 16 bits are widened in place: the weights have the bits of those of wide numbers that are the same. */
static void numbers_of_16_bits_weigh_alike(void **state)
{
    enum { N = 100, DIM = 24, ALL = N * DIM };
    (void)state;
    float *wide = random_floats(3, 1, ALL), lse[N], *got[2];
    uint16_t short_ones[ALL];
    hga_selection how = hga_selection_defaults();
    how.block = 8, how.k = 4, how.causal = 1;
    for (int i = 0; i < ALL; i++) {
        uint32_t bits;
        memcpy(&bits, &wide[i], sizeof bits);
        short_ones[i] = (uint16_t)(bits >> 16), bits &= 0xffff0000;
        memcpy(&wide[i], &bits, sizeof bits);
    }
    for (int i = 0; i < N; i++) lse[i] = 0.01f * (float)i;
    for (int i = 0; i < 2; i++) {
        hga_select_input in = {.n_tokens = N, .shape = {.n_heads = 1, .dim = DIM}, .threads = 2};
        in.query = in.key =
            i ? (hga_tensor){.data = short_ones, .rows = N, .dtype = HGA_BF16} : (hga_tensor){.data = wide, .rows = N};
        hga_chosen c;
        assert_ok(hga_select_blocks(&how, &in, &c));
        got[i] = memory(N * c.slots, sizeof **got), onto_themselves = 0;
        assert_ok(hga_chosen_weights(&how, &in, &c, &(hga_chosen_scores){.lse = {.data = lse, .rows = N}}, got[i]));
        assert_int_equal(onto_themselves, 0);
        if (i) assert_same_bits("weights", got[1], got[0], N * c.slots);
        hga_chosen_clear(&c);
    }
    free(wide), free(got[0]), free(got[1]);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    float x[8] = {0}, out[64], lse[8] = {0};
    int32_t block[] = {0, 1, 0, 1};
    hga_pos first[] = {0, 1, 2, 3, 4};
    hga_selection how = hga_selection_defaults();
    how.block = 2;
    hga_select_input in = {.n_tokens = 4, .shape = {.n_heads = 1, .dim = 2}};
    in.query = in.key = (hga_tensor){.data = x, .rows = 4};
    hga_chosen c = {.n_choosers = 1, .n_query_blocks = 4, .slots = 1, .first = first, .block = block};
    hga_chosen_scores of = {.lse = {.data = lse, .rows = 4}};
    assert_ok(hga_chosen_weights(&how, &in, &c, &of, out));
    block[3] = 2;
    assert_status(HGA_EINVAL, hga_chosen_weights(&how, &in, &c, &of, out));
    assert_non_null(strstr(hga_error_detail(), "the choice has block 2, and there are 2"));
    block[3] = 1, first[2] = 4;
    assert_status(HGA_EINVAL, hga_chosen_weights(&how, &in, &c, &of, out));
    assert_string_equal(hga_error_detail(), "row 1 of the choice has 3 blocks, and there are 1 slots");
    first[2] = 2, first[1] = 3;
    c.slots = 3;
    assert_status(HGA_EINVAL, hga_chosen_weights(&how, &in, &c, &of, out));
    assert_string_equal(hga_error_detail(), "row 1 of the choice has -1 blocks, and there are 3 slots");
    first[1] = 1, c.slots = 1, c.n_query_blocks = 3;
    assert_status(HGA_EINVAL, hga_chosen_weights(&how, &in, &c, &of, out));
    assert_non_null(
        strstr(hga_error_detail(), "the choice is of 1 choosers' 3 query blocks, the call of 1 choosers' 4"));
    c.n_query_blocks = 4, of.lse.data = NULL;
    assert_status(HGA_EINVAL, hga_chosen_weights(&how, &in, &c, &of, out));
    assert_non_null(strstr(hga_error_detail(), "lse is missing"));
    of.lse.data = lse, of.lse.dtype = HGA_BF16;
    assert_status(HGA_EINVAL, hga_chosen_weights(&how, &in, &c, &of, out));
    assert_non_null(strstr(hga_error_detail(), "lse is not of 32 bits"));
    of.lse.dtype = HGA_F32, of.softcap = -1;
    assert_status(HGA_EINVAL, hga_chosen_weights(&how, &in, &c, &of, out));
    assert_non_null(strstr(hga_error_detail(), "softcap is -1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_those_of_the_definition),
        cmocka_unit_test(they_are_an_executions),
        cmocka_unit_test(numbers_of_16_bits_weigh_alike),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
