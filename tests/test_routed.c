/* test_routed.c: graphs of what was chosen by content: their pairs are those of the definition, one by one, and their
   limits are graphs that others build. */
#include "hga_select.h"
#include "parts.h"
#include "testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A choice of chance: of each query block its own blocks, and of the others some. */
typedef struct drawn {
    hga_routed p;
    hga_id offsets[4], rows; /* query blocks of all samples */
    int32_t choice[20000];
} drawn;

static hga_id blocks_of(hga_id n, hga_id b) { return (n + b - 1) / b; }

static hga_id least_of(hga_id a, hga_id b) { return a < b ? a : b; }

static hga_id sample_of(const drawn *d, hga_id token)
{
    hga_id s = 0;
    while (d->offsets[s + 1] <= token) s++;
    return s;
}

static void draw_row(uint64_t *seed, drawn *d, hga_id n, hga_id i, int32_t *out)
{
    hga_id b = d->p.block, c = d->p.query_block, last = (least_of((i + 1) * c, n) - 1) / b, k = 0;
    for (hga_id j = 0; j < d->p.slots; j++) out[j] = -1;
    for (hga_id j = 0; j < (d->p.causal ? last + 1 : blocks_of(n, b)); j++)
        if ((j >= i * c / b && j <= last) || random_below(seed, 3) == 0 || j == 0) out[k++] = j;
}

static drawn *draw(uint64_t seed)
{
    drawn *d = memory(1, sizeof *d);
    hga_routed *p = &d->p;
    hga_defaults(p);
    const hga_id key_heads[] = {0, 1, 2};
    p->n_choosers = 2, p->n_key_heads = key_heads[random_below(&seed, 3)];
    p->block = 1 + random_below(&seed, 9), p->query_block = 1 + random_below(&seed, 3) * random_below(&seed, 8);
    p->causal = random_below(&seed, 2);
    p->n_samples = 1 + random_below(&seed, 3);
    hga_id longest = 0;
    for (hga_id s = 0; s < p->n_samples; s++) {
        hga_id n = 1 + random_below(&seed, 40);
        d->offsets[s + 1] = d->offsets[s] + n, d->rows += blocks_of(n, p->query_block);
        if (n > longest) longest = n;
    }
    p->n_tokens = d->offsets[p->n_samples], p->offsets = d->offsets, p->choice = d->choice;
    p->slots = blocks_of(longest, p->block);
    int32_t *at = d->choice;
    for (hga_id c = 0; c < p->n_choosers; c++)
        for (hga_id s = 0; s < p->n_samples; s++) {
            hga_id n = d->offsets[s + 1] - d->offsets[s];
            for (hga_id i = 0; i < blocks_of(n, p->query_block); i++, at += p->slots) draw_row(&seed, d, n, i, at);
        }
    return d;
}

/* Does token t of chooser c see token u? */
static int sees(const drawn *d, hga_id c, hga_id t, hga_id u)
{
    const hga_routed *p = &d->p;
    hga_id s = sample_of(d, t), row = 0;
    if (sample_of(d, u) != s || (p->causal && u > t)) return 0;
    for (hga_id i = 0; i < s; i++) row += blocks_of(d->offsets[i + 1] - d->offsets[i], p->query_block);
    row += (t - d->offsets[s]) / p->query_block;
    const int32_t *list = d->choice + ((int64_t)c * d->rows + row) * p->slots;
    for (hga_id i = 0; i < p->slots; i++)
        if (list[i] == (u - d->offsets[s]) / p->block) return 1;
    return 0;
}

static void compare(const drawn *d)
{
    hga_graph *g;
    hga_program program;
    assert_ok(hga_build_routed(&d->p, &g, &program));
    int64_t n, at = 0;
    edge *e = all_edges(g, 0, &n);
    hga_nodes nodes = hga_graph_nodes(g);
    const hga_id tokens = d->p.n_tokens, heads = d->p.n_key_heads ? d->p.n_key_heads : d->p.n_choosers;
    for (hga_id c = 0; c < d->p.n_choosers; c++)
        for (hga_id t = 0; t < tokens; t++)
            for (hga_id u = 0; u < tokens; u++) {
                hga_id head = c / (d->p.n_choosers / heads);
                if (!sees(d, c, t, u)) continue;
                assert_true(at < n);
                assert_int_equal(e[at].dst, nodes.query_first + c * tokens + t);
                assert_int_equal(e[at].src, nodes.key_first + head * tokens + u);
                at++;
            }
    assert_int_equal(at, n);
    free(e);
    hga_graph_destroy(g);
}

static void pairs_are_those_of_the_choice(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        if (passed_over(i)) continue;
        drawn *d = draw((uint64_t)i + 1);
        compare(d);
        free(d);
    }
}

/* A list by rows says what a table says. */
static void a_list_by_rows_is_the_same(void **state)
{
    (void)state;
    for (int i = 0; i < 30; i++) {
        drawn *d = draw((uint64_t)i + 500);
        hga_pos *first = memory((int64_t)d->p.n_choosers * d->rows + 1, sizeof *first), n = 0;
        int32_t *list = memory(20000, sizeof *list);
        for (hga_id r = 0; r < d->p.n_choosers * d->rows; r++) {
            first[r] = n;
            for (hga_id j = 0; j < d->p.slots && d->choice[(int64_t)r * d->p.slots + j] >= 0; j++)
                list[n++] = d->choice[(int64_t)r * d->p.slots + j];
        }
        first[d->p.n_choosers * d->rows] = n;
        d->p.choice = list, d->p.choice_first = first;
        compare(d);
        free(first), free(list), free(d);
    }
}

static void attend_built(hga_graph *g, const hga_program *program, const float *x, hga_id dim, float *out)
{
    hga_io io = {0};
    io.query = io.key = io.value = (hga_tensor){.data = (void *)(uintptr_t)x, .rows = hga_graph_nodes(g).n_keys};
    io.out = (hga_tensor){.data = out, .rows = hga_graph_nodes(g).n_queries};
    assert_ok(hga_attention(g, program, &(hga_shape){.n_heads = 1, .dim = dim}, NULL, &io));
    hga_graph_destroy(g);
}

/* Attention over what hga_select_blocks chose, of one head. */
static void attend_chosen(const hga_selection *how, const float *x, hga_id n, hga_id dim, float *out)
{
    hga_select_input in = {.n_tokens = n, .shape = {.n_heads = 1, .dim = dim}};
    in.query = in.key = (hga_tensor){.data = (void *)(uintptr_t)x, .rows = n};
    hga_chosen chosen;
    assert_ok(hga_select_blocks(how, &in, &chosen));
    hga_routed p;
    hga_defaults(&p);
    p.n_tokens = n, p.block = how->block, p.query_block = how->query_block, p.causal = how->causal;
    p.choice = chosen.block, p.choice_first = chosen.first;
    hga_graph *g;
    hga_program program;
    assert_ok(hga_build_routed(&p, &g, &program));
    attend_built(g, &program, x, dim, out);
    hga_chosen_clear(&chosen);
}

/* k of all blocks, and threshold 1, are dense attention; own blocks alone are segments. */
static void limits_are_dense_and_segments(void **state)
{
    (void)state;
    enum { N = 150, DIM = 12, B = 16 };
    float *x = random_floats(3, 1, N * DIM), *got = random_floats(4, 1, N * DIM), *want = random_floats(5, 1, N * DIM);
    int32_t segment[N];
    for (int t = 0; t < N; t++) segment[t] = t / B;
    for (int causal = 0; causal < 2; causal++)
        for (int c = 1; c <= 20; c += 19) {
            hga_graph *g;
            hga_program program;
            hga_selection how = hga_selection_defaults();
            how.block = B, how.query_block = c, how.causal = causal, how.k = 99;
            assert_ok(hga_build_dense(&(hga_dense){.n_tokens = N, .causal = causal}, &g, &program));
            attend_built(g, &program, x, DIM, want);
            attend_chosen(&how, x, N, DIM, got);
            assert_near_floats("k of all blocks", got, want, N * DIM, 2e-6);
            how.k = 0, how.threshold = 1;
            attend_chosen(&how, x, N, DIM, got);
            assert_near_floats("threshold 1", got, want, N * DIM, 2e-6);
            how.k = 1, how.threshold = 0, how.sinks = how.local = 0, how.query_block = c == 1 ? 1 : B;
            hga_segmented s = {.n_tokens = N, .query_segment = segment, .causal = causal};
            assert_ok(hga_build_segments(&s, &g, &program));
            attend_built(g, &program, x, DIM, want);
            attend_chosen(&how, x, N, DIM, got);
            assert_near_floats("own blocks alone", got, want, N * DIM, 2e-6);
        }
    free(x), free(got), free(want);
}

/* Heads that choose for themselves read [tokens][heads][columns] where they lie, and go back there: the bits are those
   of copies, a head behind another. */
static void heads_are_read_where_they_lie(void **state)
{
    (void)state;
    enum { N = 300, H = 3, DIM = 16, ALL = N * H * DIM };
    float *x = random_floats(8, 1, ALL), *copy = random_floats(9, 1, ALL), *got = random_floats(10, 1, ALL);
    for (int64_t i = 0; i < ALL; i++) copy[(i / DIM % H * N + i / DIM / H) * DIM + i % DIM] = x[i];
    for (int c = 1; c <= 16; c += 15) {
        hga_selection how = {.block = 16, .query_block = c, .k = 4, .sinks = 1, .local = 1, .causal = 1};
        hga_select_input in = {.n_tokens = N, .shape = {.n_heads = H, .dim = DIM}};
        in.query = in.key = (hga_tensor){.data = x, .rows = N};
        hga_chosen chosen;
        assert_ok(hga_select_blocks(&how, &in, &chosen));
        hga_routed p = {.n_tokens = N, .block = 16, .query_block = c, .causal = 1, .n_choosers = H};
        p.choice = chosen.block, p.choice_first = chosen.first;
        hga_graph *g;
        hga_program program;
        assert_ok(hga_build_routed(&p, &g, &program));
        hga_tensor folded = {.data = x, .rows = N * H, .row_stride = H * DIM, .head_stride = DIM};
        folded.fold = N, folded.fold_stride = DIM;
        hga_io io = {.query = folded, .key = folded, .value = folded, .out = folded};
        io.out.data = got;
        const hga_shape shape = {.n_heads = 1, .dim = DIM};
        assert_ok(hga_attention(g, &program, &shape, NULL, &io));
        float *want = memory(ALL, sizeof *want);
        attend_built(g, &program, copy, DIM, want);
        for (int64_t i = 0; i < ALL; i++)
            assert_same_bits("a value", &got[i], &want[(i / DIM % H * N + i / DIM / H) * DIM + i % DIM], 1);
        free(want), hga_chosen_clear(&chosen);
    }
    free(x), free(copy), free(got);
}

/* A chosen block is its number, and nothing more. */
static void lists_are_kept_as_they_come(void **state)
{
    (void)state;
    enum { N = 64, B = 8 };
    int32_t choice[N][2];
    for (int t = 0; t < N; t++) choice[t][0] = 0, choice[t][1] = t / B ? t / B : -1;
    hga_routed p;
    hga_defaults(&p);
    p.n_tokens = N, p.block = B, p.causal = 1, p.slots = 2, p.choice = choice[0];
    hga_graph *g;
    hga_program program;
    assert_ok(hga_build_routed(&p, &g, &program));
    hga_relation r = hga_graph_relation(g, 0);
    assert_int_equal(r.n_choices, 1);
    assert_int_equal(r.n_blocks, 2 * N - B);
    assert_int_equal(r.choices[0].first[N], 2 * N - B);
    assert_memory_equal(r.choices[0].chosen + r.choices[0].first[N - 1], choice[N - 1], sizeof choice[0]);
    assert_int_equal(r.n_edges, (N - B) * B + N / B * B * (B + 1) / 2);
    hga_graph_destroy(g);
}

/* A chooser that takes all is one block of dense attention, sample by sample; the others keep their lists. */
static void all_blocks_are_one(void **state)
{
    (void)state;
    enum { N = 40, B = 8, SLOTS = N / B };
    static const hga_id offsets[] = {0, 24, N};
    for (int c = 1; c <= B; c += B - 1)
        for (int causal = 0; causal < 2; causal++) {
            const int rows = N / c, first_rows = 24 / c;
            int32_t choice[2 * N][SLOTS];
            for (int r = 0; r < 2 * rows; r++)
                for (int j = 0; j < SLOTS; j++) {
                    const int row = r % rows, second = row >= first_rows, own = (row - second * first_rows) * c / B;
                    const int end = r >= rows ? 1 : causal ? own + 1 : second ? 2 : 3;
                    choice[r][j] = j < end ? j : -1;
                }
            hga_routed p;
            hga_defaults(&p);
            p.n_tokens = N, p.n_samples = 2, p.offsets = offsets, p.block = B, p.query_block = c, p.causal = causal;
            p.n_choosers = 2, p.slots = SLOTS, p.choice = choice[0];
            hga_graph *g;
            hga_program program;
            assert_ok(hga_build_routed(&p, &g, &program));
            hga_relation r = hga_graph_relation(g, 0);
            assert_int_equal(r.n_choices, 4);
            for (int i = 0; i < 2; i++) assert_int_equal(r.choices[i].first[1] - r.choices[i].first[0], 1);
            assert_true(r.choices[0].row_block == 24 && r.choices[1].block == 16 && r.choices[2].row_block == c);
            const int own = causal ? 2 * B * (B + 1) / 2 + (N - 2 * B) * B : N * B;
            assert_int_equal(r.n_edges, (causal ? 12 * 25 + 8 * 17 : 24 * 24 + 16 * 16) + own);
            hga_graph_destroy(g);
        }
}

/* A query and a key are as far apart as their tokens, though heads that share keys have rows of their own. */
static void distances_are_those_of_tokens(void **state)
{
    (void)state;
    enum { N = 6 };
    int32_t choice[2 * N][1] = {{0}};
    double at[3 * N];
    hga_routed p;
    hga_defaults(&p);
    p.n_tokens = N, p.n_choosers = 2, p.n_key_heads = 1, p.causal = 1, p.slots = 1, p.choice = choice[0];
    hga_graph *g;
    hga_program program;
    assert_ok(hga_build_routed(&p, &g, &program));
    assert_ok(hga_graph_positions(g, at));
    for (hga_id v = 0; v < 3 * N; v++) assert_true(at[v] == v % N);
    hga_graph_destroy(g);
}

static void wrong_choices_are_named(void **state)
{
    (void)state;
    int32_t choice[4][2] = {{0, -1}, {0, 1}, {1, 2}, {0, 3}};
    hga_routed p;
    hga_defaults(&p);
    p.n_tokens = 8, p.block = 2, p.query_block = 2, p.slots = 2, p.choice = choice[0], p.causal = 1;
    hga_graph *g;
    hga_program program;
    assert_ok(hga_build_routed(&p, &g, &program));
    hga_graph_destroy(g);
    choice[1][1] = 2;
    assert_status(HGA_EINVAL, hga_build_routed(&p, &g, &program));
    assert_string_equal(hga_error_detail(), "choice: row 1 has block 2, which comes later");
    choice[1][1] = 0;
    assert_status(HGA_EINVAL, hga_build_routed(&p, &g, &program));
    assert_string_equal(hga_error_detail(), "choice: row 1 has block 0 after block 0; blocks must ascend");
    choice[1][1] = 4;
    assert_status(HGA_EINVAL, hga_build_routed(&p, &g, &program));
    assert_string_equal(hga_error_detail(), "choice: row 1 has block 4, and there are 4");
    choice[1][1] = 1, p.n_choosers = 3, p.n_key_heads = 2;
    assert_status(HGA_EINVAL, hga_build_routed(&p, &g, &program));
    assert_string_equal(hga_error_detail(), "3 choosers on 2 key heads");
    p.n_choosers = 1, p.n_key_heads = 0, p.choice = NULL;
    assert_status(HGA_EINVAL, hga_build_routed(&p, &g, &program));
    assert_null(g);
}

/* Samples of no tokens have no part, and need no room, however many there are. */
static void empty_samples_are_no_parts(void **state)
{
    (void)state;
    const int32_t choice[] = {0, 0, 0, 0, 0};
    const hga_pos lists[] = {0, 1, 2, 3, 4, 5};
    const hga_id offsets[] = {0, 0, 0, 3, 3, 5, 5}, *first;
    hga_routed p;
    hga_defaults(&p);
    hga_graph *g;
    hga_program program;
    p.n_tokens = 5, p.causal = 1, p.offsets = offsets, p.n_samples = 6;
    p.choice = choice, p.choice_first = lists;
    assert_ok(hga_build_routed(&p, &g, &program));
    assert_int_equal(graph_parts(g, &first), 2);
    assert_true(first[0] == 0 && first[1] == 3);
    hga_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_those_of_the_choice),
        cmocka_unit_test(a_list_by_rows_is_the_same),
        cmocka_unit_test(limits_are_dense_and_segments),
        cmocka_unit_test(heads_are_read_where_they_lie),
        cmocka_unit_test(distances_are_those_of_tokens),
        cmocka_unit_test(lists_are_kept_as_they_come),
        cmocka_unit_test(all_blocks_are_one),
        cmocka_unit_test(wrong_choices_are_named),
        cmocka_unit_test(empty_samples_are_no_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
