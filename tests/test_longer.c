/* A builder that is told what a longer graph has next: what is taken, what is refused, and by which name. */
#include "by_hand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 4, DIM = 16, COLUMNS = HEADS * DIM, N = 39, MORE = 64 };

/* Rows see the row before theirs, or two, and every seventh row the four before it: thin tiles and families. */
static void draw(hga_builder *b, hga_id n, hga_id back)
{
    hga_id r;
    assert_ok(hga_builder_add_level(b, n, NULL));
    assert_ok(hga_builder_add_relation(b, "near", &r));
    hga_block band = {.n_dst = n, .n_src = n, .shape = HGA_BAND, .band_first = -back, .band_last = 0};
    assert_ok(hga_builder_add_blocks(b, r, &band));
    hga_block few = {.dst = 4, .n_dst = 1, .n_src = 3, .count = (n - 5) / 7 + 1, .dst_step = 7, .src_step = 7};
    assert_ok(hga_builder_add_blocks(b, r, &few));
}

static hga_graph *finish(hga_id n, int tells)
{
    hga_builder *b, *longer;
    hga_graph *g;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_create(NULL, &longer));
    draw(b, n, 1), draw(longer, MORE, 1);
    if (tells) assert_ok(hga_builder_set_longer(b, longer));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b), hga_builder_destroy(longer);
    return g;
}

static float *run(hga_graph *g)
{
    problem p = {.shape = {.n_heads = HEADS, .dim = DIM}, .graph = g};
    assert_ok(hga_program_attention(&p.program, 0));
    problem_fill_by_node(&p);
    float *out = problem_out(&p, &(hga_options){.threads = 1}, NULL);
    problem_clear(&p);
    return out;
}

static int rows_that_differ(const float *x, const float *y, hga_id n)
{
    int rows = 0;
    for (hga_id v = 0; v < n; v++) rows += memcmp(x + v * COLUMNS, y + v * COLUMNS, COLUMNS * sizeof *x) != 0;
    return rows;
}

static void whoever_tells_has_rows_that_stay(void **state)
{
    (void)state;
    float *want = run(finish(MORE, 0));
    int untold = 0;
    for (hga_id n = 17; n < MORE; n++) {
        float *told = run(finish(n, 1)), *alone = run(finish(n, 0));
        assert_int_equal(rows_that_differ(told, want, n), 0);
        untold += rows_that_differ(alone, want, n);
        free(told), free(alone);
    }
    assert_true(untold > 0);
    free(want);
}

static void names_keep_it(void **state)
{
    (void)state;
    const char *name[] = {"first"};
    hga_graph *g = finish(N, 1), *named;
    assert_ok(hga_graph_set_names(g, name, 1, &named));
    hga_graph_destroy(g);
    float *want = run(finish(MORE, 0)), *got = run(named);
    assert_int_equal(rows_that_differ(got, want, N), 0);
    free(want), free(got);
}

/* ---- what is refused ---- */

typedef void spoil(hga_builder *b);

static void as_it_is(hga_builder *b) { draw(b, MORE, 1); }
static void wider(hga_builder *b) { draw(b, MORE, 2); }
static void other_types(hga_builder *b)
{
    hga_block band = {.n_dst = MORE, .n_src = MORE, .shape = HGA_BAND, .band_first = -1, .band_last = 0, .type = 1};
    hga_block few = {.dst = 4, .n_dst = 1, .n_src = 3, .count = (MORE - 5) / 7 + 1, .dst_step = 7, .src_step = 7};
    assert_ok(hga_builder_add_level(b, MORE, NULL));
    assert_ok(hga_builder_add_relation(b, "near", NULL));
    assert_ok(hga_builder_add_blocks(b, 0, &band));
    assert_ok(hga_builder_add_blocks(b, 0, &few));
}
/* The panel is read as a whole, not only what is behind its last whole sixteen. */
static void an_earlier_row(hga_builder *b)
{
    draw(b, MORE, 1);
    assert_ok(hga_builder_add_block(b, 0, 3, 1, 10, 20, 0));
}
static void too_short(hga_builder *b) { draw(b, N, 1); }
static void nothing(hga_builder *b) { (void)b; }
static void one_relation_more(hga_builder *b)
{
    draw(b, MORE, 1);
    assert_ok(hga_builder_add_relation(b, "far", NULL));
}
static void another_name(hga_builder *b)
{
    assert_ok(hga_builder_add_level(b, MORE, NULL));
    assert_ok(hga_builder_add_relation(b, "far", NULL));
}
static void a_single_edge(hga_builder *b)
{
    draw(b, MORE, 1);
    assert_ok(hga_builder_add_edge(b, 0, 0, 1, 0, 1));
}
static void an_order(hga_builder *b)
{
    draw(b, MORE, 1);
    assert_ok(hga_builder_set_order(b, 0, (hga_id[]){1, 0}, 2, NULL, 0));
}
static void a_wrong_block(hga_builder *b)
{
    draw(b, MORE, 1);
    assert_ok(hga_builder_add_block(b, 0, MORE - 1, 2, 0, 1, 0));
}

static const struct {
    spoil *longer, *own;
    hga_status status;
    const char *detail;
} refusals[] = {{as_it_is, NULL, HGA_OK, ""},
                {wider, NULL, HGA_EGRAPH, "has other edges"},
                {other_types, NULL, HGA_EGRAPH, "has other edges"},
                {an_earlier_row, NULL, HGA_EGRAPH, "node 3 has other edges"},
                {too_short, NULL, HGA_EGRAPH, "no sixteen behind node 32"},
                {nothing, NULL, HGA_OK, ""},
                {nothing, an_order, HGA_OK, ""},
                {one_relation_more, NULL, HGA_EGRAPH, "2 relations"},
                {another_name, NULL, HGA_EGRAPH, "is near, but far"},
                {a_single_edge, NULL, HGA_EUNSUPPORTED, "single edges"},
                {an_order, NULL, HGA_EUNSUPPORTED, "an order"},
                {a_wrong_block, NULL, HGA_EGRAPH, "block 2"},
                {as_it_is, a_single_edge, HGA_EUNSUPPORTED, "single edges"},
                {as_it_is, an_order, HGA_EUNSUPPORTED, "an order"}};

static void what_is_not_longer_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        hga_builder *b, *longer;
        hga_graph *g = NULL;
        assert_ok(hga_builder_create(NULL, &b));
        assert_ok(hga_builder_create(NULL, &longer));
        refusals[i].own ? refusals[i].own(b) : draw(b, N, 1);
        refusals[i].longer(longer);
        hga_status st = hga_builder_set_longer(b, longer);
        if (!st) st = hga_builder_finish(b, &g);
        if (st != refusals[i].status || (st && !strstr(hga_error_detail(), refusals[i].detail)))
            fail_msg("case %zu: status %d, %s", i, (int)st, hga_error_detail());
        hga_graph_destroy(g), hga_builder_destroy(b), hga_builder_destroy(longer);
    }
}

static void nobody_is_longer_than_himself(void **state)
{
    (void)state;
    hga_builder *b;
    assert_ok(hga_builder_create(NULL, &b));
    assert_int_equal(hga_builder_set_longer(b, b), HGA_EINVAL);
    hga_builder_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whoever_tells_has_rows_that_stay),
                                       cmocka_unit_test(names_keep_it), cmocka_unit_test(what_is_not_longer_is_refused),
                                       cmocka_unit_test(nobody_is_longer_than_himself)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
