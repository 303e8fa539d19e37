/* test_choices.c: relations whose rows choose blocks of columns (graph/choices.c), beside the same edges said as
   blocks: every question that a graph answers, graphs that are made of one, files, and attention there and back. */
#include "by_hand.h"
#include "slopes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CHOICES = 3, MOST_LISTS = 4096 };

/* A relation of a few choices, and its lists. */
typedef struct drawn {
    hga_choice choice[MOST_CHOICES];
    hga_id n, n_nodes;
    hga_pos first[MOST_CHOICES][MOST_LISTS];
    hga_id *chosen;
} drawn;

/* Blocks that a list of rows [row, row + n) has, each with a chance, of those that are not later. */
static hga_pos draw_list(uint64_t *seed, const hga_choice *c, hga_id row, hga_id *out)
{
    hga_pos n = 0;
    const hga_id last = row + c->row_block < c->n_dst ? row + c->row_block : c->n_dst;
    for (hga_id j = 0; j * c->block < c->n_src; j++)
        if ((!c->causal || j * c->block < last) && random_below(seed, 3) == 0) out[n++] = j;
    return n;
}

static void draw_choice(uint64_t *seed, hga_choice *c, hga_pos *first, hga_id *chosen, hga_pos *n)
{
    hga_id lists = (c->n_dst + c->row_block - 1) / c->row_block;
    for (hga_id i = 0; i < lists; i++) first[i] = *n, *n += draw_list(seed, c, i * c->row_block, chosen + *n);
    first[lists] = *n, c->first = first, c->chosen = chosen;
}

static drawn *draw(uint64_t seed)
{
    static const hga_id blocks[] = {1, 3, 8, 16, 64}, row_blocks[] = {1, 1, 5, 16, 64};
    drawn *d = memory(1, sizeof *d);
    hga_pos n = 0;
    d->n = 1 + random_below(&seed, MOST_CHOICES), d->n_nodes = 60 + random_below(&seed, 240);
    d->chosen = memory((int64_t)d->n_nodes * d->n_nodes, sizeof *d->chosen);
    for (hga_id i = 0; i < d->n; i++) {
        hga_choice *c = &d->choice[i];
        c->dst = i * d->n_nodes / d->n + random_below(&seed, 3), c->n_dst = d->n_nodes / d->n - 3;
        c->n_src = 1 + random_below(&seed, d->n_nodes), c->src = random_below(&seed, d->n_nodes - c->n_src + 1);
        c->block = blocks[random_below(&seed, 5)], c->row_block = row_blocks[random_below(&seed, 5)];
        c->causal = (int)random_below(&seed, 2);
        draw_choice(&seed, c, d->first[i], d->chosen, &n);
    }
    return d;
}

static void drop(drawn *d) { free(d->chosen), free(d); }

static hga_graph *graph_of(const drawn *d)
{
    hga_builder *b = tokens_alone(d->n_nodes);
    hga_id near;
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id i = 0; i < d->n; i++) assert_ok(hga_builder_add_choice(b, near, &d->choice[i]));
    return finished(b);
}

static hga_graph *as_blocks(const hga_graph *g)
{
    hga_relation r = hga_graph_relation(g, 0);
    hga_builder *b = tokens_alone(hga_graph_nodes(g).n);
    hga_id near;
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_block_walk w = {0}; hga_relation_next(&r, &w);) assert_ok(hga_builder_add_blocks(b, near, &w.block));
    return finished(b);
}

/* ---- edges ---- */

static int is_chosen(const drawn *d, hga_id v, hga_id u)
{
    for (hga_id i = 0; i < d->n; i++) {
        const hga_choice *c = &d->choice[i];
        hga_id row = v - c->dst, column = u - c->src;
        if (row < 0 || row >= c->n_dst || column < 0 || column >= c->n_src) continue;
        if (c->causal && column > row) return 0;
        for (hga_pos e = c->first[row / c->row_block]; e < c->first[row / c->row_block + 1]; e++)
            if (c->chosen[e] == column / c->block) return 1;
    }
    return 0;
}

static void edges_are_those_that_were_chosen(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        drawn *d = draw(seed);
        hga_graph *g = graph_of(d);
        hga_csr rows;
        hga_pos at = 0, *degree = memory(d->n_nodes, sizeof *degree);
        assert_ok(hga_graph_rows(g, 0, 0, d->n_nodes, &rows));
        hga_graph_degrees(g, 0, 0, d->n_nodes, degree);
        for (hga_id v = 0; v < d->n_nodes; v++) {
            assert_true(degree[v] == rows.ptr[v + 1] - rows.ptr[v]);
            for (hga_id u = 0; u < d->n_nodes; u++)
                if (is_chosen(d, v, u)) assert_true(at < rows.ptr[v + 1] && rows.src[at++] == u);
            assert_true(at == rows.ptr[v + 1]);
        }
        assert_true(at == hga_graph_relation(g, 0).n_edges);
        hga_csr_clear(&rows), free(degree), hga_graph_destroy(g), drop(d);
    }
}

static void assert_same(const char *what, const hga_graph *got, const hga_graph *want)
{
    int64_t n, m;
    edge *a = all_edges(got, 0, &n), *b = all_edges(want, 0, &m);
    assert_same_edges(what, a, n, b, m);
    free(a), free(b);
}

/* Some rows, with all that segments tell of them. */
static void segments_are_of_the_rows_asked_for(void **state)
{
    enum { CAPACITY = 1 << 16 };
    (void)state;
    hga_segment *s = memory(CAPACITY, sizeof *s);
    for (uint64_t seed = 1; seed <= 40; seed++) {
        uint64_t rng = seed;
        drawn *d = draw(seed);
        hga_graph *g = graph_of(d);
        hga_id first = random_below(&rng, d->n_nodes), n = random_below(&rng, d->n_nodes - first + 1), pairs = 0;
        hga_pos found = hga_graph_segments(g, 0, first, n, s, CAPACITY);
        assert_true(found <= CAPACITY);
        for (hga_pos i = 0; i < found; i++) {
            assert_true(s[i].row >= first && s[i].row + s[i].n_rows <= first + n);
            assert_true(i == 0 || s[i].src >= s[i - 1].src);
            for (hga_id v = s[i].row; v < s[i].row + s[i].n_rows; v++) {
                hga_id c0, c1, hole;
                hga_segment_columns(&s[i], v, &c0, &c1, &hole);
                for (hga_id c = c0; c < c1; c++, pairs++) assert_true(is_chosen(d, v, s[i].src + c));
            }
        }
        for (hga_id v = first; v < first + n; v++)
            for (hga_id u = 0; u < d->n_nodes; u++) pairs -= is_chosen(d, v, u);
        assert_int_equal(pairs, 0);
        hga_graph_destroy(g), drop(d);
    }
    free(s);
}

/* Graphs that are made of one are those that are made of its blocks. */
static void graphs_made_of_one_have_its_edges(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        drawn *d = draw(seed);
        hga_graph *g = graph_of(d), *blocks = as_blocks(g), *x, *y;
        assert_same("blocks", g, blocks);
        assert_ok(hga_graph_transpose(g, &x));
        assert_ok(hga_graph_transpose(blocks, &y));
        assert_same("turned", x, y);
        hga_graph_destroy(x), hga_graph_destroy(y);
        assert_ok(hga_graph_concat((const hga_graph *[]){g, g}, 2, &x, NULL));
        assert_ok(hga_graph_concat((const hga_graph *[]){blocks, blocks}, 2, &y, NULL));
        assert_same("concatenated", x, y);
        hga_graph_destroy(x), hga_graph_destroy(y);
        hga_id *order = memory(d->n_nodes, sizeof *order);
        for (hga_id i = 0; i < d->n_nodes; i++) order[i] = d->n_nodes - 1 - i;
        assert_ok(hga_graph_renumber(g, order, &x));
        assert_ok(hga_graph_renumber(blocks, order, &y));
        assert_same("renumbered", x, y);
        hga_graph_destroy(x), hga_graph_destroy(y), free(order);
        assert_ok(hga_graph_compress(g, &x));
        assert_int_equal(hga_graph_relation(x, 0).n_choices, d->n);
        assert_same("compressed", x, blocks);
        hga_graph_destroy(x), hga_graph_destroy(blocks), hga_graph_destroy(g), drop(d);
    }
}

static void files_keep_them(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        drawn *d = draw(seed);
        hga_graph *g = graph_of(d), *read;
        assert_ok(hga_graph_write_json(g, NULL, "choices.json"));
        char *program;
        assert_ok(hga_graph_read_json(NULL, "choices.json", &read, &program));
        hga_text_free(program);
        hga_relation a = hga_graph_relation(g, 0), b = hga_graph_relation(read, 0);
        assert_int_equal(b.n_choices, a.n_choices);
        for (hga_pos i = 0; i < a.n_choices; i++) {
            hga_id lists = (a.choices[i].n_dst + a.choices[i].row_block - 1) / a.choices[i].row_block;
            assert_memory_equal(a.choices[i].first, b.choices[i].first, (size_t)(lists + 1) * sizeof(hga_pos));
            assert_int_equal(a.choices[i].causal, b.choices[i].causal);
        }
        assert_same("read", read, g);
        remove("choices.json");
        hga_graph_destroy(read), hga_graph_destroy(g), drop(d);
    }
}

/* ---- attention ---- */

static const hga_shape sizes[] = {{.n_heads = 2, .n_kv_heads = 1, .dim = 24, .dim_v = 20}, {.n_heads = 1, .dim = 8}};

static void attention_is_the_oracles(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        if (passed_over((int)seed)) continue;
        drawn *d = draw(seed);
        problem p = {.name = "choices", .shape = sizes[seed % 2], .graph = graph_of(d)};
        assert_ok(hga_program_attention(&p.program, 0));
        problem_fill(&p, seed);
        assert_equals_slow(&p, 3e-5);
        slope plain = slope_create(&p, 1), fast = slope_create(&p, 1);
        slope_run(&plain, (hga_options){.threads = 1, .generic = 1});
        slope_run(&fast, (hga_options){.threads = 2});
        assert_same_slopes(&plain, &fast, 2e-4);
        slope_clear(&plain), slope_clear(&fast), problem_clear(&p), drop(d);
    }
}

/* ---- what is refused ---- */

static void assert_says(hga_status got, hga_status want, const char *words)
{
    if (got != want || !strstr(hga_error_detail(), words))
        fail_msg("status %d, '%s' does not say '%s'", (int)got, hga_error_detail(), words);
}

static void wrong_choices_are_named(void **state)
{
    (void)state;
    hga_id chosen[] = {0, 1, 0, 2}, near;
    hga_pos first[] = {0, 2, 4};
    const hga_choice good = {.n_dst = 8, .n_src = 12, .row_block = 4, .block = 4, .first = first, .chosen = chosen};
    hga_builder *b = tokens_alone(12);
    assert_ok(hga_builder_add_relation(b, "near", &near));
    hga_choice c = good;
    c.dst = 5;
    assert_says(hga_builder_add_choice(b, near, &c), HGA_EGRAPH, "choice 0: rows 5 .. 12 leave [0, 12)");
    c = good, c.dst = -1;
    assert_says(hga_builder_add_choice(b, near, &c), HGA_EGRAPH, "choice 0: rows -1 .. 6 leave [0, 12)");
    c = good, c.src = -1;
    assert_says(hga_builder_add_choice(b, near, &c), HGA_EGRAPH, "choice 0: columns -1 .. 10 leave [0, 12)");
    c = good, c.n_src = 13;
    assert_says(hga_builder_add_choice(b, near, &c), HGA_EGRAPH, "choice 0: columns 0 .. 12 leave [0, 12)");
    c = good, c.block = 0;
    assert_says(hga_builder_add_choice(b, near, &c), HGA_EGRAPH, "blocks of 4 rows and 0 columns");
    c = good, c.causal = 1;
    assert_says(hga_builder_add_choice(b, near, &c), HGA_EGRAPH, "row 0 has block 1, which comes later");
    c = good, c.n_src = 8;
    assert_says(hga_builder_add_choice(b, near, &c), HGA_EGRAPH, "row 4 has block 2, and there are 2");
    c = good, c.chosen = NULL;
    assert_says(hga_builder_add_choice(b, near, &c), HGA_EINVAL, "no lists of blocks");
    chosen[3] = 0;
    assert_says(hga_builder_add_choice(b, near, &good), HGA_EGRAPH, "row 4 has block 0 after block 0");
    chosen[3] = 2;
    assert_ok(hga_builder_add_choice(b, near, &good));
    assert_says(hga_builder_add_choice(b, near, &good), HGA_EGRAPH,
                "choice 1 begins with row 0; rows before 8 have chosen");
    assert_ok(hga_builder_add_block(b, near, 0, 1, 0, 1, 0));
    hga_graph *g;
    assert_says(hga_builder_finish(b, &g), HGA_EGRAPH, "relation near has choices, and blocks; it has nothing else");
    hga_builder_destroy(b);
}

/* Rows of choices are in no order: of all nodes, of some, or of columns. */
static void choices_have_no_order(void **state)
{
    enum { TOKENS = 12 };
    static const hga_id chosen[] = {0, 1, 0, 2}, order[TOKENS] = {11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    static const hga_pos first[] = {0, 2, 4};
    static const hga_id listed[][2] = {{TOKENS, 0}, {5, 0}, {0, TOKENS}, {0, 5}};
    (void)state;
    for (size_t i = 0; i < sizeof listed / sizeof *listed; i++) {
        const hga_id rows = listed[i][0], columns = listed[i][1];
        hga_builder *b = tokens_alone(TOKENS);
        hga_graph *g;
        hga_id near;
        assert_ok(hga_builder_add_relation(b, "near", &near));
        assert_ok(hga_builder_add_choice(
            b, near,
            &(hga_choice){.n_dst = 8, .n_src = 12, .row_block = 4, .block = 4, .first = first, .chosen = chosen}));
        assert_ok(hga_builder_set_order(b, near, rows ? order : NULL, rows, columns ? order : NULL, columns));
        assert_says(hga_builder_finish(b, &g), HGA_EGRAPH,
                    "relation near has choices, and an order; it has nothing else");
        hga_builder_destroy(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_are_those_that_were_chosen),
        cmocka_unit_test(segments_are_of_the_rows_asked_for),
        cmocka_unit_test(graphs_made_of_one_have_its_edges),
        cmocka_unit_test(files_keep_them),
        cmocka_unit_test(attention_is_the_oracles),
        cmocka_unit_test(wrong_choices_are_named),
        cmocka_unit_test(choices_have_no_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
