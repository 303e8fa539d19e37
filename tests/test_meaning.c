/* The room semantics/ by itself: the edges of rows, the table of softenings, the table of stages; and that whoever runs
   it runs the same. */
#include "by_hand.h"

#include "row_edges.h"
#include "stage_semantics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- edges ---- */

/* Node v's row is edges [at, at + n) of the relation, written out. */
static void assert_row(const edge_rows *rows, hga_id v, const edge *want, int64_t n)
{
    assert_int_equal(rows->n, n);
    for (int64_t i = 0; i < n; i++) {
        const row_edge *e = &rows->edge[i];
        assert_true(want[i].dst == v && want[i].src == e->src && want[i].type == e->type);
        assert_float_equal(want[i].weight, e->weight, 0);
        if (i && e->src == e[-1].src && e->type == e[-1].type && !(e->weight > e[-1].weight))
            assert_true(e->pos_of > e[-1].pos_of || (e->pos_of == e[-1].pos_of && e->src_pos_of >= e[-1].src_pos_of));
    }
}

/* .. whoever reads it: anew or from a list. */
static void a_rows_edges_are_the_relations_in_canonical_order(void **state)
{
    (void)state;
    for (int i = 0; i < thinned(120); i++) {
        hga_graph *g = random_graph((uint64_t)i, 1 + i % 50, 1 + (unsigned)i % 63);
        hga_id n_nodes = hga_graph_nodes(g).n;
        int64_t n, at = 0, most = 0;
        edge *want = all_rows(g, 0, &n);
        edge_rows rows = {0}, listed = {0};
        row_list list;
        edges_open(&rows, g, NULL, 0), edges_open(&listed, g, NULL, 0);
        assert_ok(edges_list(&listed, HGA_ROWS_NODES, INT64_MAX / 64, &list));
        listed.list = list.ptr ? &list : NULL;
        for (hga_id v = 0; v < n_nodes; v++) {
            int64_t end = at;
            while (end < n && want[end].dst == v) end++;
            assert_ok(edges_read(&rows, v)), assert_ok(edges_read(&listed, v));
            assert_row(&rows, v, want + at, end - at), assert_row(&listed, v, want + at, end - at);
            assert_int_equal(edges_exist(g, 0, v), end > at);
            if (end - at > most) most = end - at;
            at = end;
        }
        assert_int_equal(at, n), assert_int_equal(edges_most(g, 0), most);
        edges_unlist(g, NULL, &list), edges_close(&rows), edges_close(&listed);
        free(want), hga_graph_destroy(g);
    }
}

static void the_tree_is_edges_of_weight_one(void **state)
{
    (void)state;
    hga_builder *b = started(5, 0, 2);
    assert_ok(hga_builder_set_children(b, 5, 0, 3)), assert_ok(hga_builder_set_children(b, 6, 3, 1));
    hga_graph *g = finished(b);
    edge_rows rows = {0};
    edges_open(&rows, g, NULL, HGA_TREE_UP);
    assert_ok(edges_read(&rows, 5));
    assert_row(&rows, 5, (edge[]){{5, 0, 0, 1, 0, 0}, {5, 1, 0, 1, 0, 0}, {5, 2, 0, 1, 0, 0}}, 3);
    edges_open(&rows, g, NULL, HGA_TREE_DOWN);
    assert_ok(edges_read(&rows, 3));
    assert_row(&rows, 3, (edge[]){{3, 6, 0, 1, 0, 0}}, 1);
    assert_ok(edges_read(&rows, 4));
    assert_row(&rows, 4, NULL, 0);
    assert_true(edges_most(g, HGA_TREE_UP) == 3 && edges_most(g, HGA_TREE_DOWN) == 1);
    assert_true(edges_exist(g, HGA_TREE_DOWN, 0) && !edges_exist(g, HGA_TREE_DOWN, 4) &&
                !edges_exist(g, HGA_TREE_UP, 0) && edges_exist(g, HGA_TREE_UP, 6));
    edges_close(&rows), hga_graph_destroy(g);
}

/* Two edges of a pair that differ in the positions they use alone: edge bias i belongs to the same one of them, whether
   tiles, rows, plain rows or weights look. */
static void twins_of_other_positions_have_one_order(void **state)
{
    enum { N = 6 };
    (void)state;
    for (int turned = 0; turned < 2; turned++) {
        hga_builder *b = tokens_alone(N);
        hga_id near;
        assert_ok(hga_builder_add_relation(b, "near", &near));
        for (hga_id v = 0; v + 1 < N; v++)
            for (int i = 0; i < 2; i++) { /* columns v and v + 1, and v + 1 again */
                hga_block one = {.dst = v, .n_dst = 1, .src = v + i, .n_src = 2 - i, .count = 1, .weight = 1};
                one.pos_of = 1 + (i != turned ? (v + 2) % N : (v + 3) % N);
                assert_ok(hga_builder_add_blocks(b, near, &one));
            }
        problem p = {.name = "twins", .graph = finished(b), .shape = {.n_heads = 1, .dim = 4, .pos_dim = 3}};
        attention on = attention_on_nodes(&p.program);
        assert_ok(hga_program_attend(&p.program, near, on.query, on.key, on.value, on.out, 0));
        p.program.has_lse = 1;
        problem_fill(&p, 5), problem_fill_tables(&p, 6, 0, 0, 1);
        float *bias = random_floats(7, 1, p.io.edge_bias.rows); /* another for each twin */
        p.io.edge_bias.data = bias;
        float *lse, *plain_lse, *out = problem_out(&p, &p.options, &lse);
        p.options.generic = 1;
        float *plain = problem_out(&p, &p.options, &plain_lse);
        assert_near_floats("out", out, plain, out_count(&p), 1e-5);
        assert_near_floats("lse", lse, plain_lse, lse_count(&p), 1e-5);
        free(out), free(lse), free(plain), free(plain_lse), free(bias), problem_clear(&p);
    }
}

/* ---- softening ---- */

enum { EDGES = 9 };

/* A sigmoid's bias; alphas of entmax, where others have one way to be. */
static const double numbers[HGA_N_NORMALISERS][4] = {
    [HGA_NORMALISER_SOFTMAX] = {0}, [HGA_NORMALISER_SIGMOID] = {-0.6}, [HGA_NORMALISER_ENTMAX] = {1.5, 2, 1.05, 1.3}};

/* What the test takes a gradient of: a sum over the weights and, where there is one, the log-sum-exp. */
static double loss_of(const softening *f, const soften_row *row, const double *d, double d_lse)
{
    double score[EDGES], weight[EDGES], scratch[2][EDGES];
    soften_row r = *row;
    r.score = score, r.weight = weight, r.slope = scratch[0], r.d_count = scratch[1];
    memcpy(score, row->score, sizeof score);
    double lse = f->weigh(&r), loss = d_lse == 0 ? 0 : d_lse * lse;
    for (int i = 0; i < EDGES; i++) loss += d[i] * weight[i];
    return loss;
}

static void a_softenings_adjoint_is_its_slope(void **state)
{
    (void)state;
    for (int way = 0; way < HGA_N_NORMALISERS; way++)
        for (uint64_t seed = 0; seed < 40; seed++) {
            const softening *f = &softenings[way];
            const int has_lse = (normaliser_is((hga_normaliser)way) & NORMALISER_HAS_LSE) != 0;
            float drawn[3 * EDGES];
            double score[EDGES], count[EDGES], d[EDGES], weight[EDGES], slope[EDGES], d_count[EDGES], h = 1e-5;
            soften_row row = {EDGES, numbers[way][seed % 4], score, weight, count, slope, d_count}, moved = row;
            double kept[EDGES];
            moved.score = kept;
            fill_random(seed, 1, 3 * EDGES, drawn);
            for (int i = 0; i < EDGES; i++) {
                count[i] = 1.5 + (double)drawn[i], d[i] = (double)drawn[EDGES + i];
                score[i] = kept[i] = log(count[i]) + 2 * (double)drawn[2 * EDGES + i];
            }
            double lse = f->weigh(&row), d_lse = has_lse ? 0.7 : 0;
            memcpy(slope, d, sizeof d);
            assert_true(isfinite(lse) == has_lse);
            f->adjoint(&row, d_lse);
            for (int i = 0; i < EDGES; i++) {
                double was = kept[i], tokens = count[i], more, less;
                kept[i] = was + h, count[i] = tokens * exp(h), more = loss_of(f, &moved, d, d_lse);
                kept[i] = was - h, count[i] = tokens / exp(h), less = loss_of(f, &moved, d, d_lse);
                kept[i] = was, count[i] = tokens;
                assert_true(fabs((more - less) / (2 * h) - d_count[i]) < 1e-8);
                kept[i] = was + h, more = loss_of(f, &moved, d, d_lse);
                kept[i] = was - h, less = loss_of(f, &moved, d, d_lse);
                kept[i] = was;
                assert_true(fabs((more - less) / (2 * h) - slope[i]) < 1e-8);
            }
        }
}

/* Nor does what has a score of -inf move what it is given. */
static void rows_without_scores_weigh_nothing(void **state)
{
    (void)state;
    for (int way = 0; way < HGA_N_NORMALISERS; way++)
        for (int64_t n = 0; n < 3; n++) {
            const softening *f = &softenings[way];
            const int has_lse = (normaliser_is((hga_normaliser)way) & NORMALISER_HAS_LSE) != 0;
            double score[] = {-INFINITY, -INFINITY}, count[] = {1, 0}, weight[] = {7, 7}, slope[2], d_count[] = {3, 3};
            soften_row row = {n, numbers[way][0], score, weight, count, slope, d_count};
            assert_true(f->weigh(&row) == (has_lse ? -INFINITY : INFINITY));
            slope[0] = 1, slope[1] = 2;
            f->adjoint(&row, 3);
            for (int64_t i = 0; i < n; i++) assert_true(weight[i] == 0 && slope[i] == 0 && d_count[i] == 0);
            assert_true(n == 2 || weight[n] == 7);
        }
}

/* ---- stages ---- */

static void every_kind_but_the_users_has_a_meaning(void **state)
{
    (void)state;
    for (stage_kind k = KIND_NONE; k < N_KINDS; k++) {
        const stage_semantics *m = &all_stage_semantics[k];
        int has = k != KIND_NONE && k != KIND_USER;
        assert_true(!!m->weigh == has && !!m->row == has && !!m->adjoint == has);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rows_edges_are_the_relations_in_canonical_order),
        cmocka_unit_test(the_tree_is_edges_of_weight_one),
        cmocka_unit_test(twins_of_other_positions_have_one_order),
        cmocka_unit_test(a_softenings_adjoint_is_its_slope),
        cmocka_unit_test(rows_without_scores_weigh_nothing),
        cmocka_unit_test(every_kind_but_the_users_has_a_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
