/* hga_options.strict_rows: a row's bits depend on its own edges, whatever the fifteen rows beside it see. */
#include "by_hand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 300, HEADS = 4, DIM = 12, COLUMNS = HEADS * DIM, KEPT = 5 };

/* Rows that stay what they are: every fifth, so that each group has some. */
static int stays(hga_id v) { return v % KEPT == 2; }

/* A block for each run of a row's columns: single ones and long ones, now and then none. */
static hga_graph *draw_runs(uint64_t seed, uint64_t other)
{
    hga_builder *b;
    hga_graph *g;
    hga_id r;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, N, NULL));
    assert_ok(hga_builder_add_relation(b, "edges", &r));
    for (hga_id v = 0; v < N; v++) {
        uint64_t rng = (stays(v) ? seed : other) * 1000 + (uint64_t)v;
        hga_id end = 0;
        for (hga_id runs = (hga_id)random_below(&rng, 5); runs > 0; runs--) {
            hga_id longest = random_below(&rng, 3) ? 20 : N;
            hga_id first = end + (hga_id)random_below(&rng, 40), n = 1 + (hga_id)random_below(&rng, longest);
            if (first >= N) break;
            end = first + n < N ? first + n : N;
            assert_ok(hga_builder_add_block(b, r, v, 1, first, end - first, 0));
        }
    }
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    return g;
}

/* The row before v sees nearly the same by the same block, which begins earlier: v's columns are what they were. */
static hga_block with_row_before(hga_block one)
{
    one.dst--, one.n_dst = 2, one.src -= 2, one.n_src += 2;
    one.shape = HGA_BAND, one.band_first = 1, one.band_last = one.n_src - 2;
    return one;
}

/* Blocks of one row and of several, of which some pairs have two, with types and weights; and single edges. */
static hga_graph *draw_blocks(uint64_t seed, uint64_t other)
{
    hga_builder *b;
    hga_graph *g;
    hga_id r;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, N, NULL));
    assert_ok(hga_builder_add_relation(b, "edges", &r));
    for (hga_id v = 0; v < N; v++) {
        uint64_t rng = (stays(v) ? seed : other) * 1000 + (uint64_t)v;
        for (hga_id i = (hga_id)random_below(&rng, 4); i > 0; i--) {
            hga_block one = {.dst = v, .n_dst = 1, .src = (hga_id)random_below(&rng, N - 90)};
            one.n_src = 1 + (hga_id)random_below(&rng, 90);
            one.type = (int32_t)random_below(&rng, 7), one.weight = random_below(&rng, 3) ? 1 : 2;
            while (!stays(v) && random_below(&rng, 2) && v + one.n_dst < N && !stays(v + one.n_dst)) one.n_dst++;
            int shared = stays(v) && one.src >= 2 && (other + (uint64_t)i + (uint64_t)v / KEPT) % 2;
            if (shared) one = with_row_before(one);
            assert_ok(hga_builder_add_blocks(b, r, &one));
        }
        if (random_below(&rng, 4) == 0) assert_ok(hga_builder_add_edge(b, r, (hga_id)random_below(&rng, N), v, 0, 1));
    }
    assert_ok(hga_builder_add_block(b, r, N - 1, 1, N - 1, 1, 8)); /* all have as many types */
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    return g;
}

typedef hga_graph *draw_any(uint64_t seed, uint64_t other);

typedef struct setting {
    hga_options options;
    int tables, positions, edge_bias;
} setting;

static const setting settings[] = {{.options = {.threads = 1}},
                                   {.options = {.threads = 3}, .tables = 1},
                                   {.options = {.threads = 1, .isa = "ref"}},
                                   {.options = {.threads = 2, .isa = "ref"}, .tables = 1},
                                   {.options = {.threads = 1}, .positions = 1},
                                   {.options = {.threads = 1, .precision = HGA_PRECISION_BF16}},
                                   {.options = {.threads = 1, .dropout = 0.3f}},
                                   {.options = {.threads = 1, .cut_edges = 7}},
                                   {.options = {.threads = 1}, .edge_bias = 1},
                                   {.options = {.threads = 1, .generic = 1}}};

/* A bias for each edge that depends on the edge alone: edges are numbered by their rows. */
static void fill_edge_bias(problem *p)
{
    hga_csr rows;
    assert_ok(hga_graph_rows(p->graph, 0, 0, N, &rows));
    float *bias = memory(rows.ptr[N], sizeof *bias);
    for (hga_pos e = 0; e < rows.ptr[N]; e++) bias[e] = (float)((rows.src[e] * 37 + rows.type[e] * 11) % 64) / 64;
    p->io.edge_bias.data = bias, p->io.edge_bias.rows = rows.ptr[N], p->io.edge_bias.columns = 1;
    hga_csr_clear(&rows);
}

static float *run(hga_graph *g, const setting *s, int strict)
{
    problem p = {.shape = {.n_heads = HEADS, .dim = DIM, .pos_dim = s->positions ? 3 : 0}, .graph = g};
    hga_options o = s->options;
    o.strict_rows = strict;
    assert_ok(hga_program_attention(&p.program, 0));
    problem_fill_by_node(&p);
    if (s->tables || s->positions) problem_fill_tables(&p, 8, s->tables, s->tables, 0);
    if (s->edge_bias) fill_edge_bias(&p);
    float *out = problem_out(&p, &o, NULL);
    if (s->edge_bias) free((void *)(uintptr_t)p.io.edge_bias.data);
    problem_clear(&p);
    return out;
}

static int moved(const float *x, const float *y)
{
    int rows = 0;
    for (hga_id v = 0; v < N; v++)
        rows += stays(v) && memcmp(x + v * COLUMNS, y + v * COLUMNS, COLUMNS * sizeof *x) != 0;
    return rows;
}

static void rows_hang_on_their_own_edges(void **state)
{
    draw_any *const draw[] = {draw_runs, draw_blocks};
    int loose = 0;
    (void)state;
    for (int d = 0; d < 2; d++)
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
            for (uint64_t seed = 1; seed < 4; seed++) {
                float *want = run(draw[d](seed, 50), &settings[i], 1), *was = run(draw[d](seed, 50), &settings[i], 0);
                for (uint64_t other = 60; other < 63; other++) {
                    float *got = run(draw[d](seed, other), &settings[i], 1);
                    float *is = run(draw[d](seed, other), &settings[i], 0);
                    int rows = moved(got, want);
                    if (rows) fail_msg("setting %zu, graph %d of seed %d: %d rows moved", i, d, (int)seed, rows);
                    loose += moved(is, was);
                    free(got), free(is);
                }
                free(want), free(was);
            }
    assert_true(loose > 0);
}

/* The outputs of every variant are right, too, and the same with any number of threads. */
static void variants_are_what_they_are(void **state)
{
    hga_shape shape = {.n_heads = 4, .n_kv_heads = 2, .dim = 16};
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        variant_build(i, 150, 12, &shape, &p);
        for (int tables = 0; tables < 2; tables++) {
            if (tables) problem_fill_tables(&p, 8, 1, 1, 0);
            float *want = problem_out(&p, &(hga_options){.threads = 1}, NULL);
            float *got = problem_out(&p, &(hga_options){.threads = 1, .strict_rows = 1}, NULL);
            float *many = problem_out(&p, &(hga_options){.threads = 5, .strict_rows = 1}, NULL);
            assert_same_bits(p.name, many, got, out_count(&p));
            for (int64_t at = 0; at < out_count(&p); at++)
                if (!(fabsf(got[at] - want[at]) <= 4e-6f))
                    fail_msg("%s: %g, not %g", p.name, (double)got[at], (double)want[at]);
            free(want), free(got), free(many);
        }
        problem_clear(&p);
    }
}

/* Rows 15 and 16 are of two groups. All that the first has of the block is its hole: no edge, and so no types. */
static void a_group_may_have_no_more_than_a_hole(void **state)
{
    (void)state;
    enum { TOKENS = 32 };
    hga_builder *b = tokens_alone(TOKENS);
    hga_id near;
    hga_program program;
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_blocks(
        b, near, &(hga_block){.dst = 15, .n_dst = 2, .src = 9, .n_src = 1, .shape = HGA_OFF_DIAGONAL}));
    assert_ok(hga_builder_add_block(b, near, 20, 1, 9, 2, 1));
    hga_graph *g = finished(b);
    float query[TOKENS] = {0}, value[TOKENS], out[TOKENS];
    for (int i = 0; i < TOKENS; i++) value[i] = (float)i;
    assert_ok(hga_program_attention(&program, near));
    const hga_tensor zeros = {.data = query, .rows = TOKENS};
    hga_io io = {.query = zeros, .key = zeros, .value = {.data = value, .rows = TOKENS}};
    io.out = (hga_tensor){.data = out, .rows = TOKENS}, io.rel_bias = (hga_table){.data = (float[]){1, 2}, .rows = 2};
    assert_ok(hga_attention(g, &program, &(hga_shape){.n_heads = 1, .dim = 1}, &(hga_options){.strict_rows = 1}, &io));
    assert_true(out[15] == 0 && out[16] == 9 && out[20] == 9.5F);
    hga_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_hang_on_their_own_edges),
                                       cmocka_unit_test(variants_are_what_they_are),
                                       cmocka_unit_test(a_group_may_have_no_more_than_a_hole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
