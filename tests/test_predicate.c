/* test_predicate.c: a mask becomes the graph of its true pairs, in few blocks where it is regular. */
#include "graphs.h"

typedef struct picture { /* a mask by its rule, and how often it was asked */
    int (*sees)(hga_id q, hga_id k, hga_id parameter);
    hga_id parameter, n_keys, asked;
} picture;

static hga_status tell(void *context, hga_id first, hga_id n, uint8_t *sees)
{
    picture *p = context;
    assert_int_equal(first, p->asked); /* ascending, each once */
    p->asked += n;
    for (hga_id i = 0; i < n; i++)
        for (hga_id k = 0; k < p->n_keys; k++) {
            assert_int_equal(sees[(int64_t)i * p->n_keys + k], 0);
            if (p->sees(first + i, k, p->parameter)) sees[(int64_t)i * p->n_keys + k] = (uint8_t)(1 + k % 255);
        }
    return HGA_OK;
}

static int all_pairs(hga_id q, hga_id k, hga_id n) { return (void)q, (void)k, (void)n, 1; }
static int no_pairs(hga_id q, hga_id k, hga_id n) { return (void)q, (void)k, (void)n, 0; }
static int earlier(hga_id q, hga_id k, hga_id n) { return (void)n, k <= q; }
static int window(hga_id q, hga_id k, hga_id reach) { return k <= q && q - k < reach; }
static int prefix(hga_id q, hga_id k, hga_id n) { return k < n || k <= q; }
static int documents(hga_id q, hga_id k, hga_id n) { return q / n == k / n && k <= q; }
static int dilated(hga_id q, hga_id k, hga_id step) { return k <= q && (q - k) % step == 0; }
static int image(hga_id q, hga_id k, hga_id width)
{
    return abs(q / width - k / width) <= 1 && abs(q % width - k % width) <= 1;
}
static int scattered(hga_id q, hga_id k, hga_id n)
{
    uint64_t seed = (uint64_t)q * 1000 + (uint64_t)k;
    return random_up_to(&seed, n) == 0;
}

/* The graph of a rule; its edges are compared with the rule itself, pair by pair. */
static hga_graph *graph_of(hga_mask mask, int (*sees)(hga_id, hga_id, hga_id), hga_id parameter)
{
    picture p = {sees, parameter, mask.n_keys, 0};
    hga_graph *g;
    mask.sees = tell, mask.context = &p;
    SUCCEEDS(hga_graph_from_predicate(NULL, &mask, &g));
    assert_int_equal(p.asked, mask.n_keys ? mask.n_queries : 0);
    hga_nodes nodes = hga_graph_nodes(g);
    assert_int_equal(nodes.n_queries, mask.n_queries);
    assert_int_equal(nodes.n_keys, mask.n_keys);
    hga_csr rows;
    SUCCEEDS(hga_graph_rows(g, 0, nodes.query_first, nodes.n_queries, &rows));
    for (hga_id q = 0; q < mask.n_queries; q++) {
        hga_pos e = rows.ptr[q];
        for (hga_id k = 0; k < mask.n_keys; k++) {
            if (!sees(q, k, parameter)) continue;
            assert_true(e < rows.ptr[q + 1]);
            assert_int_equal(rows.src[e], nodes.key_first + k);
            assert_int_equal(rows.type[e], mask.relative ? q - k + mask.n_keys - 1 : 0);
            e++;
        }
        assert_int_equal(e, rows.ptr[q + 1]);
    }
    assert_int_equal(hga_graph_relation(g, 0).n_edges, rows.ptr[mask.n_queries]);
    hga_csr_clear(&rows);
    return g;
}

static const struct {
    const char *name;
    int (*sees)(hga_id, hga_id, hga_id);
    hga_id parameter, blocks, edges; /* of 60 x 60 */
    uint32_t claims;
} rules[] = {
    {"all", all_pairs, 0, 1, 0, HGA_CLAIM_COMPLETE},
    {"none", no_pairs, 0, 0, 0, HGA_CLAIM_CAUSAL},
    {"causal", earlier, 0, 1, 0, HGA_CLAIM_CAUSAL | HGA_CLAIM_COMPLETE},
    {"window", window, 8, 2, 0, HGA_CLAIM_CAUSAL}, /* the rows that grow, those that move */
    {"prefix", prefix, 16, 2, 0, 0},               /* the square, and the rows that grow */
    {"documents", documents, 12, 1, 0, HGA_CLAIM_CAUSAL},
    {"dilated", dilated, 6, 1, 0, HGA_CLAIM_CAUSAL}, /* by residue: a triangle each, repeated */
};

static void regular_masks_become_a_few_blocks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        for (int relative = 0; relative < 2; relative++) {
            hga_mask mask = {.n_queries = 60, .n_keys = 60, .relative = relative, .rows_at_once = 7 * relative};
            hga_graph *g = graph_of(mask, rules[i].sees, rules[i].parameter);
            hga_relation r = hga_graph_relation(g, 0);
            if (r.n_blocks != rules[i].blocks || r.n_explicit != rules[i].edges)
                fail_msg("%s: %lld blocks, %lld edges", rules[i].name, (long long)r.n_blocks, (long long)r.n_explicit);
            assert_int_equal(hga_graph_nodes(g).claims, HGA_CLAIM_SINGLE | rules[i].claims);
            hga_graph_destroy(g);
        }
}

/* Rows of an image repeat: what is stored does not grow with its height. */
static void neighbourhoods_of_an_image_repeat(void **state)
{
    (void)state;
    hga_graph *low = graph_of((hga_mask){.n_queries = 80, .n_keys = 80}, image, 8);
    hga_graph *high = graph_of((hga_mask){.n_queries = 240, .n_keys = 240}, image, 8);
    hga_relation a = hga_graph_relation(low, 0), b = hga_graph_relation(high, 0);
    assert_int_equal(a.n_blocks, b.n_blocks);
    assert_int_equal(a.n_explicit, b.n_explicit);
    assert_int_equal(b.n_explicit, 0);
    assert_true(b.n_blocks <= 9);
    hga_graph_destroy(low), hga_graph_destroy(high);
}

static int dilated_window(hga_id q, hga_id k, hga_id step) { return abs(q - k) <= 40 && (q - k) % step == 0; }

/* However many diagonals there are: in the order of residues they are a few bands. */
static void dilated_masks_are_bands_by_residue(void **state)
{
    (void)state;
    for (hga_id step = 2; step < 10; step++)
        for (int relative = 0; relative < 2; relative++)
            for (hga_id n_keys = 199; n_keys < 204; n_keys += 2) {
                hga_mask mask = {.n_queries = 201, .n_keys = n_keys, .relative = relative};
                hga_graph *g = graph_of(mask, dilated_window, step);
                hga_relation r = hga_graph_relation(g, 0);
                if (step < 5) assert_non_null(r.dst_order); /* of a few diagonals an order saves nothing */
                if (r.n_blocks > 16 || r.n_explicit)
                    fail_msg("step %d: %lld blocks, %lld edges", step, (long long)r.n_blocks, (long long)r.n_explicit);
                hga_graph_destroy(g);
            }
}

static void irregular_masks_keep_their_edges(void **state)
{
    (void)state;
    for (hga_id odds = 1; odds < 30; odds += 4)
        for (int relative = 0; relative < 2; relative++)
            hga_graph_destroy(
                graph_of((hga_mask){.n_queries = 53, .n_keys = 53, .relative = relative}, scattered, odds));
    hga_graph *g = graph_of((hga_mask){.n_queries = 53, .n_keys = 53}, scattered, 29);
    assert_true(hga_graph_relation(g, 0).n_explicit > 40);
    hga_graph_destroy(g);
}

static void queries_and_keys_may_be_different_tokens(void **state)
{
    (void)state;
    static const hga_id sizes[][2] = {{5, 9}, {9, 5}, {1, 40}, {40, 1}, {0, 3}, {3, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t k = 0; k < sizeof rules / sizeof *rules; k++) {
            hga_mask mask = {.n_queries = sizes[i][0], .n_keys = sizes[i][1], .relative = (int)(k & 1)};
            hga_graph *g = graph_of(mask, rules[k].sees, rules[k].parameter);
            assert_int_equal(hga_graph_nodes(g).key_first, mask.n_queries);
            assert_false(hga_graph_nodes(g).claims & HGA_CLAIM_CAUSAL);
            hga_graph_destroy(g);
        }
    hga_graph *g = graph_of((hga_mask){.n_queries = 6, .n_keys = 6, .cross = 1}, earlier, 0);
    assert_int_equal(hga_graph_nodes(g).n, 12);
    hga_graph_destroy(g);
}

static void an_array_is_the_same_mask(void **state)
{
    (void)state;
    enum { N = 40, WIDE = 48 };
    uint8_t bytes[N * WIDE];
    for (hga_id q = 0; q < N; q++)
        for (hga_id k = 0; k < WIDE; k++) bytes[q * WIDE + k] = k >= N || scattered(q, k, 2); /* the rest is not read */
    hga_graph *g, *told = graph_of((hga_mask){.n_queries = N, .n_keys = N}, scattered, 2);
    SUCCEEDS(hga_graph_from_predicate(
        NULL, &(hga_mask){.n_queries = N, .n_keys = N, .bytes = bytes, .row_bytes = WIDE, .relation = "near"}, &g));
    assert_equal_nodes(g, told);
    assert_equal_rows(g, told);
    assert_string_equal(hga_graph_relation(g, 0).name, "near");
    assert_string_equal(hga_graph_relation(told, 0).name, "edges");
    hga_graph_destroy(g), hga_graph_destroy(told);
}

enum { ROWS = 60, MOST_RUNS = ROWS * ROWS };

/* A rule's runs, and the rows that share them, or each row for itself. */
typedef struct known {
    hga_id row[ROWS + 1], keys[2 * MOST_RUNS];
    hga_pos ptr[ROWS + 1];
    hga_mask_runs runs;
} known;

static void know_row(known *x, int (*sees)(hga_id, hga_id, hga_id), hga_id parameter, hga_id q)
{
    hga_pos n = x->ptr[x->runs.n];
    for (hga_id k = 0, before = 0, now; k <= ROWS; k++, before = now) {
        now = k < ROWS && sees(q, k, parameter);
        if (now && !before) x->keys[2 * n] = k;
        if (before && !now) x->keys[2 * n++ + 1] = k;
    }
    x->row[x->runs.n++] = q, x->row[x->runs.n] = q + 1, x->ptr[x->runs.n] = n;
}

/* Does the last group have the runs of the one before? */
static int is_again(const known *x)
{
    hga_id i = x->runs.n - 1;
    if (i < 1 || x->ptr[i + 1] - x->ptr[i] != x->ptr[i] - x->ptr[i - 1]) return 0;
    size_t n = (size_t)(x->ptr[i + 1] - x->ptr[i]);
    return n == 0 || memcmp(x->keys + 2 * x->ptr[i], x->keys + 2 * x->ptr[i - 1], 2 * n * sizeof *x->keys) == 0;
}

static void know(known *x, int (*sees)(hga_id, hga_id, hga_id), hga_id parameter, int shared)
{
    x->runs = (hga_mask_runs){0, x->row, x->ptr, x->keys};
    x->row[0] = 0, x->ptr[0] = 0;
    for (hga_id q = 0; q < ROWS; q++) {
        know_row(x, sees, parameter, q);
        if (shared && is_again(x)) x->row[--x->runs.n] = q + 1;
    }
}

static void assert_stored_alike(const hga_graph *a, const hga_graph *b)
{
    hga_relation x = hga_graph_relation(a, 0), y = hga_graph_relation(b, 0);
    assert_int_equal(x.n_blocks, y.n_blocks);
    assert_int_equal(x.n_explicit, y.n_explicit);
    if (x.n_blocks) assert_memory_equal(x.blocks, y.blocks, (size_t)x.n_blocks * sizeof *x.blocks);
    assert_int_equal(hga_graph_nodes(a).claims, hga_graph_nodes(b).claims);
    assert_equal_nodes(a, b);
    assert_equal_rows(a, b);
}

static int steps(hga_id q, hga_id k, hga_id n) { return k / n <= q / n; }
static int comb(hga_id q, hga_id k, hga_id n) { return (q / n + k / n) % 2 == 0; }
static int fading(hga_id q, hga_id k, hga_id n) { return k % 3 == 0 && q % n < n - 1; }
static int sinks(hga_id q, hga_id k, hga_id n) { return k < n || (q >= 30 && k == 40) || (q / 5 == k / 5 && k <= q); }

/* Rows that share their runs are told at once; nothing of the graph tells how it was told. */
static void known_runs_are_the_same_graph(void **state)
{
    (void)state;
    static known x;
    struct {
        int (*sees)(hga_id, hga_id, hga_id);
        hga_id parameter;
    } more[] = {{steps, 7}, {comb, 9}, {comb, 3}, {fading, 4}, {fading, 9}, {sinks, 2}, {scattered, 2}, {scattered, 9}};
    const size_t n = sizeof rules / sizeof *rules, n_more = sizeof more / sizeof *more;
    for (size_t i = 0; i < 4 * (n + n_more); i++) {
        int (*sees)(hga_id, hga_id, hga_id) = i / 4 < n ? rules[i / 4].sees : more[i / 4 - n].sees;
        hga_id parameter = i / 4 < n ? rules[i / 4].parameter : more[i / 4 - n].parameter;
        hga_mask mask = {.n_queries = ROWS, .n_keys = ROWS, .relative = (int)(i & 1)};
        hga_graph *g, *told = graph_of(mask, sees, parameter);
        know(&x, sees, parameter, (int)(i & 2));
        mask.runs = &x.runs;
        SUCCEEDS(hga_graph_from_predicate(NULL, &mask, &g));
        assert_stored_alike(g, told);
        hga_graph_destroy(g), hga_graph_destroy(told);
    }
}

static void wrong_runs_are_refused(void **state)
{
    (void)state;
    hga_graph *g;
    static const struct {
        const char *says;
        hga_id row[3], keys[4];
        hga_pos ptr[3];
    } wrong[] = {
        {"rows 0 .. 8, the mask has 9", {0, 4, 8}, {0, 2, 0, 2}, {0, 1, 2}},
        {"rows 1 .. 9", {1, 4, 9}, {0, 2, 0, 2}, {0, 1, 2}},
        {"group 1 do not go up", {0, 9, 9}, {0, 2, 0, 2}, {0, 1, 2}},
        {"group 1 do not go up", {0, 4, 9}, {0, 2, 3, 5}, {0, 2, 1}},
        {"keys 2 .. 4 of row 0", {0, 4, 9}, {0, 2, 2, 4}, {0, 2, 2}},
        {"keys 3 .. 3 of row 4", {0, 4, 9}, {0, 2, 3, 3}, {0, 1, 2}},
        {"keys 3 .. 8 of row 4", {0, 4, 9}, {0, 2, 3, 8}, {0, 1, 2}},
        {"keys -1 .. 2 of row 0", {0, 4, 9}, {-1, 2, 3, 4}, {0, 1, 2}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hga_mask_runs runs = {2, wrong[i].row, wrong[i].ptr, wrong[i].keys};
        FAILS(HGA_EINVAL, wrong[i].says,
              hga_graph_from_predicate(NULL, &(hga_mask){.n_queries = 9, .n_keys = 7, .runs = &runs}, &g));
    }
    FAILS(HGA_EINVAL, "no rows", hga_graph_from_predicate(NULL, &(hga_mask){.runs = &(hga_mask_runs){0}}, &g));
}

static hga_status tell_nothing(void *context, hga_id first, hga_id n, uint8_t *sees)
{
    (void)context, (void)n, (void)sees;
    return first < 4 ? HGA_OK : hga_fail(HGA_EIO, "row %d is not to be had", first);
}

static void wrong_masks_are_refused_with_the_number(void **state)
{
    (void)state;
    const uint8_t bytes[4] = {0};
    hga_graph *g;
    FAILS(HGA_EINVAL, "NULL", hga_graph_from_predicate(NULL, NULL, &g));
    FAILS(HGA_EINVAL, "-1 queries", hga_graph_from_predicate(NULL, &(hga_mask){.n_queries = -1, .bytes = bytes}, &g));
    FAILS(HGA_EINVAL, "2147483647 keys",
          hga_graph_from_predicate(NULL, &(hga_mask){.n_keys = INT32_MAX, .bytes = bytes}, &g));
    FAILS(HGA_EINVAL, "0 of sees, bytes and runs",
          hga_graph_from_predicate(NULL, &(hga_mask){.n_queries = 1, .n_keys = 1}, &g));
    FAILS(HGA_EINVAL, "2 of sees, bytes and runs",
          hga_graph_from_predicate(NULL, &(hga_mask){.sees = tell_nothing, .bytes = bytes}, &g));
    FAILS(HGA_EINVAL, "row_bytes is 1",
          hga_graph_from_predicate(NULL, &(hga_mask){.n_queries = 2, .n_keys = 2, .bytes = bytes, .row_bytes = 1}, &g));
    FAILS(HGA_EINVAL, "rows_at_once is -2",
          hga_graph_from_predicate(NULL, &(hga_mask){.sees = tell_nothing, .rows_at_once = -2}, &g));
    FAILS(HGA_EINVAL, "hga_mask",
          hga_graph_from_predicate(NULL, &(hga_mask){.bytes = bytes, .reserved = {0, 0, 1}}, &g));
    FAILS(HGA_EIO, "row 4 is not to be had",
          hga_graph_from_predicate(
              NULL, &(hga_mask){.n_queries = 9, .n_keys = 2, .sees = tell_nothing, .rows_at_once = 2}, &g));
    assert_null(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regular_masks_become_a_few_blocks),
        cmocka_unit_test(neighbourhoods_of_an_image_repeat),
        cmocka_unit_test(dilated_masks_are_bands_by_residue),
        cmocka_unit_test(irregular_masks_keep_their_edges),
        cmocka_unit_test(queries_and_keys_may_be_different_tokens),
        cmocka_unit_test(an_array_is_the_same_mask),
        cmocka_unit_test(wrong_masks_are_refused_with_the_number),
        cmocka_unit_test(known_runs_are_the_same_graph),
        cmocka_unit_test(wrong_runs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
