/* test_order.c: orders of nodes: what each promises, what it gains on meshes and hubs, and that attention over the
   graph in order is attention over the graph. */
#include "slopes.h"

static const hga_ordering all[] = {HGA_ORDERING_RCM, HGA_ORDERING_METIS, HGA_ORDERING_DEGREE};
enum { N_ALL = 3 };

/* ---- graphs ---- */

typedef struct drawing {
    hga_builder *b;
    hga_id n, near;
    hga_id *number; /* [n]: what node i is called */
} drawing;

static drawing drawing_open(hga_id n, uint64_t seed)
{
    drawing d = {.n = n, .number = memory(n, sizeof *d.number)};
    for (hga_id i = 0; i < n; i++) d.number[i] = i;
    for (hga_id i = n - 1; seed && i > 0; i--) {
        hga_id j = random_below(&seed, i + 1), x = d.number[i];
        d.number[i] = d.number[j], d.number[j] = x;
    }
    assert_ok(hga_builder_create(NULL, &d.b));
    assert_ok(hga_builder_add_level(d.b, n, NULL));
    assert_ok(hga_builder_add_relation(d.b, "near", &d.near));
    return d;
}

static void join(drawing *d, hga_id u, hga_id v)
{
    assert_ok(hga_builder_add_edge(d->b, d->near, d->number[u], d->number[v], 0, 1));
}

static hga_graph *drawing_close(drawing *d)
{
    hga_graph *g;
    assert_ok(hga_builder_finish(d->b, &g));
    hga_builder_destroy(d->b);
    free(d->number);
    return g;
}

/* side x side nodes and their neighbours along both axes and one diagonal; seed 0: row by row. */
static hga_graph *mesh(hga_id side, uint64_t seed)
{
    drawing d = drawing_open(side * side, seed);
    for (hga_id y = 0; y < side; y++)
        for (hga_id x = 0; x < side; x++)
            for (int step = 1; step < 4; step++) {
                hga_id to_y = y + step / 2, to_x = x + step % 2, i = y * side + x, j = to_y * side + to_x;
                if (to_y < side && to_x < side) join(&d, i, j), join(&d, j, i);
            }
    return drawing_close(&d);
}

static hga_graph *in_order(const hga_graph *g, hga_ordering how)
{
    hga_graph *h;
    hga_id *order = memory(hga_graph_nodes(g).n, sizeof *order);
    assert_ok(hga_graph_order(g, how, order));
    assert_ok(hga_graph_renumber(g, order, &h));
    free(order);
    return h;
}

static hga_locality locality(const hga_graph *g)
{
    hga_locality l;
    assert_ok(hga_graph_locality(g, 2, &l));
    return l;
}

/* ---- what every order is ---- */

static void orders_list_every_node_once_on_its_level(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        hga_graph *g = random_graph(seed, 1 + (hga_id)(seed * 5), (unsigned)seed % 64), *h;
        hga_id n = hga_graph_nodes(g).n, *order = memory(n, sizeof *order), *again = memory(n, sizeof *again);
        for (int i = 0; i < N_ALL; i++) {
            assert_ok(hga_graph_order(g, all[i], order));
            assert_ok(hga_graph_order(g, all[i], again));
            assert_memory_equal(order, again, (size_t)n * sizeof *order);
            assert_ok(hga_graph_renumber(g, order, &h)); /* which looks at it */
            hga_graph_destroy(h);
        }
        free(order), free(again);
        hga_graph_destroy(g);
    }
}

static void queries_and_keys_stay_on_their_sides(void **state)
{
    (void)state;
    hga_builder *b;
    hga_graph *g, *h;
    hga_id near;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 70, NULL));
    assert_ok(hga_builder_set_tokens(b, 30, 40, 0, 30));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id v = 30; v < 70; v++) assert_ok(hga_builder_add_edge(b, near, v * 7 % 30, v, 0, 1));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    for (int i = 0; i < N_ALL; i++) {
        h = in_order(g, all[i]);
        assert_int_equal(hga_graph_nodes(h).query_first, 30);
        hga_graph_destroy(h);
    }
    hga_graph_destroy(g);
}

static void graphs_of_nothing_have_orders(void **state)
{
    (void)state;
    for (hga_id n = 0; n < 3; n++) {
        drawing d = drawing_open(n, 0);
        hga_graph *g = drawing_close(&d);
        for (int i = 0; i < N_ALL; i++) {
            hga_id order[2] = {7, 7};
            assert_ok(hga_graph_order(g, all[i], order));
            for (hga_id v = 0; v < n; v++) assert_int_equal(order[v], v);
        }
        hga_graph_destroy(g);
    }
}

static void other_ways_are_refused(void **state)
{
    (void)state;
    hga_graph *g = mesh(3, 0);
    hga_id order[9];
    hga_locality l;
    assert_status(HGA_EINVAL, hga_graph_order(g, (hga_ordering)0, order));
    assert_status(HGA_EINVAL, hga_graph_order(g, (hga_ordering)4, order));
    assert_status(HGA_EINVAL, hga_graph_locality(g, 0, &l));
    hga_graph_destroy(g);
}

/* ---- what each promises ---- */

static void a_path_is_walked_from_end_to_end(void **state)
{
    (void)state;
    drawing d = drawing_open(300, 7);
    for (hga_id i = 0; i + 1 < 300; i++) join(&d, i, i + 1); /* directed */
    hga_graph *g = drawing_close(&d), *h = in_order(g, HGA_ORDERING_RCM);
    assert_true(locality(g).bandwidth > 100);
    assert_int_equal(locality(h).bandwidth, 1);
    hga_graph_destroy(g), hga_graph_destroy(h);
}

/* Two paths, even nodes and odd ones, and a node by itself between them. */
static void components_come_one_after_the_other(void **state)
{
    (void)state;
    hga_id order[41];
    drawing d = drawing_open(41, 0);
    for (hga_id i = 0; i + 2 < 40; i++) join(&d, i, i + 2);
    hga_graph *g = drawing_close(&d);
    assert_ok(hga_graph_order(g, HGA_ORDERING_RCM, order));
    int changes = 0;
    for (int i = 1; i < 41; i++) {
        int here = order[i] == 40 ? 2 : order[i] % 2, before = order[i - 1] == 40 ? 2 : order[i - 1] % 2;
        changes += here != before;
    }
    assert_int_equal(changes, 2);
    hga_graph_destroy(g);
}

static void hubs_come_first_by_degree(void **state)
{
    (void)state;
    hga_id order[50];
    drawing d = drawing_open(50, 0);
    for (hga_id i = 0; i < 50; i++)
        if (i != 31) join(&d, i, 31);
    for (hga_id i = 0; i < 20; i++)
        if (i != 17) join(&d, 17, i); /* the other direction counts as well */
    hga_graph *g = drawing_close(&d);
    assert_ok(hga_graph_order(g, HGA_ORDERING_DEGREE, order));
    assert_int_equal(order[0], 31);
    assert_int_equal(order[1], 17);
    hga_graph_destroy(g);
}

/* The mesh of 64 x 64 in a random order: half of the edges lead from one half to the other; a straight cut takes 64 of
   each of two kinds and 63 diagonals, of 12033 pairs. */
static void meshes_in_a_bad_order_become_meshes_again(void **state)
{
    (void)state;
    hga_graph *g = mesh(64, 5), *straight = mesh(64, 0);
    hga_locality bad = locality(g), good = locality(straight);
    assert_int_equal(bad.edges, 2 * (2 * 64 * 63 + 63 * 63));
    assert_true(bad.cut > bad.edges * 45 / 100);
    for (int i = 0; i < 2; i++) {
        hga_graph *h = in_order(g, all[i]);
        hga_locality l = locality(h);
        assert_int_equal(l.edges, bad.edges);
        assert_true(l.cut <= l.edges * 2 / 100);
        assert_true(l.gathered < bad.gathered / 2 && l.gathered < good.gathered * 5 / 4);
        assert_true(l.distance < bad.distance / 10);
        if (all[i] == HGA_ORDERING_RCM) assert_true(l.bandwidth <= 2 * good.bandwidth);
        hga_graph_destroy(h);
    }
    hga_graph_destroy(g), hga_graph_destroy(straight);
}

static void what_locality_counts(void **state)
{
    (void)state;
    drawing d = drawing_open(200, 0);
    join(&d, 0, 1), join(&d, 0, 2), join(&d, 0, 150), join(&d, 199, 150), join(&d, 150, 150);
    hga_graph *g = drawing_close(&d);
    hga_locality l = locality(g);
    assert_int_equal(l.edges, 5);
    assert_int_equal(l.bandwidth, 150);
    assert_int_equal(l.gathered, 1 + 3); /* node 0 for rows 0 .. 127; 0, 150 and 199 for the others */
    assert_true(fabs(l.distance - (1 + 2 + 150 + 49 + 0) / 5.0) < 1e-12);
    assert_int_equal(l.cut, 1); /* 199 -> 150: two edges end before node 150, all before 199, and a half has three */
    hga_graph_destroy(g);
}

/* ---- attention ---- */

/* rows of x, [n][columns] by the caller's numbers, in the order's */
static float *moved(const float *x, const hga_id *order, hga_id n, int64_t columns)
{
    float *y = memory((int64_t)n * columns + 1, sizeof *y);
    for (hga_id i = 0; x && i < n; i++) memcpy(y + i * columns, x + order[i] * columns, (size_t)columns * sizeof *y);
    return y;
}

/* p over the graph in order, every input moved along; what is borrowed is p's. */
static problem in_other_numbers(const problem *p, const hga_id *order)
{
    problem q = *p;
    hga_id h = p->shape.n_heads, d = p->shape.dim, tokens = hga_graph_nodes(p->graph).n_queries;
    q.n_owned = 0;
    assert_ok(hga_graph_renumber(p->graph, order, &q.graph));
    q.io.query.data = q.owned[q.n_owned++] = moved(p->io.query.data, order, tokens, h * d);
    q.io.key.data = q.owned[q.n_owned++] = moved(p->io.key.data, order, tokens, h * d);
    q.io.value.data = q.owned[q.n_owned++] = moved(p->io.value.data, order, tokens, h * d);
    if (p->io.node_pos.data)
        q.io.node_pos.data = q.owned[q.n_owned++] =
            moved(p->io.node_pos.data, order, hga_graph_nodes(p->graph).n, p->shape.pos_dim);
    if (p->io.edge_bias.data) {
        hga_pos n = p->io.edge_bias.rows, *at = memory(n + 1, sizeof *at);
        hga_id columns = p->io.edge_bias.columns;
        float *bias = memory(n * columns + 1, sizeof *bias);
        assert_ok(hga_graph_renumbered_edges(p->graph, 0, order, at));
        for (hga_pos e = 0; e < n; e++)
            memcpy(bias + e * columns, p->io.edge_bias.data + at[e] * columns, (size_t)columns * sizeof *bias);
        q.io.edge_bias.data = q.owned[q.n_owned++] = bias;
        free(at);
    }
    q.io.out.data = q.owned[q.n_owned++] = memory(out_count(p) + 1, sizeof(float));
    q.io.lse.data = q.owned[q.n_owned++] = memory(lse_count(p) + 1, sizeof(float));
    return q;
}

static void assert_same_rows(const char *what, const float *got, const float *want, const hga_id *order, hga_id n,
                             int64_t columns, double tolerance)
{
    float *in_order = moved(want, order, n, columns);
    assert_near_floats(what, got, in_order, n * columns, tolerance);
    free(in_order);
}

/* Out, log-sum-exps and the gradients of query, key and value, in every order. */
static void check_orders(problem *p)
{
    hga_nodes nodes = hga_graph_nodes(p->graph);
    hga_id *order = memory(nodes.n, sizeof *order), h = p->shape.n_heads, tokens = nodes.n_queries;
    slope s = slope_create(p, 3);
    slope_run(&s, (hga_options){.threads = 1});
    for (int i = 0; i < N_ALL; i++) {
        assert_ok(hga_graph_order(p->graph, all[i], order));
        problem q = in_other_numbers(p, order);
        slope t = slope_create(&q, 3);
        float *d_out = moved(s.d_out, order, tokens, h * p->shape.dim), *d_lse = moved(s.d_lse, order, tokens, h);
        memcpy(t.d_out, d_out, (size_t)out_count(p) * sizeof *d_out);
        if (t.d_lse) memcpy(t.d_lse, d_lse, (size_t)lse_count(p) * sizeof *d_lse);
        slope_run(&t, (hga_options){.threads = 2});
        assert_same_rows("out", q.io.out.data, p->io.out.data, order, tokens, h * p->shape.dim, 1e-6);
        if (p->io.lse.data) assert_same_rows("lse", q.io.lse.data, p->io.lse.data, order, tokens, h, 2e-6);
        for (int of = SLOW_QUERY; of <= SLOW_VALUE; of++)
            assert_same_rows("gradient", t.of[of], s.of[of], order, tokens, h * p->shape.dim, 1e-5);
        slope_clear(&t);
        free(d_out), free(d_lse);
        for (int k = 0; k < q.n_owned; k++) free(q.owned[k]);
        hga_graph_destroy(q.graph);
    }
    slope_clear(&s);
    free(order);
}

static void attend_over(hga_graph *g, hga_id pos_dim, int tables)
{
    problem p = {.name = "ordered", .graph = g, .shape = {.n_heads = 2, .dim = 8, .pos_dim = pos_dim}};
    p.options.gradient = 1;
    assert_ok(hga_program_hierarchy(&p.program, g, (hga_id[]){0}, 1));
    problem_fill(&p, 11);
    if (tables) problem_fill_tables(&p, 12, 1, 1, 2);
    check_orders(&p);
    problem_clear(&p);
}

static void attention_in_order_is_attention(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++)
        attend_over(random_graph(seed, 20 + (hga_id)seed * 7, WITH_EDGES | ((unsigned)seed * 5 % 64)), seed % 2 ? 3 : 0,
                    1);
}

static void attention_on_meshes_and_hubs_in_order_is_attention(void **state)
{
    (void)state;
    attend_over(mesh(20, 9), 0, 0);
    drawing d = drawing_open(400, 4); /* node 0 sees all but the last twenty, which stand alone, and some see it */
    for (hga_id i = 1; i < 380; i++) {
        join(&d, i, 0);
        if (i % 3 == 0) join(&d, 0, i), join(&d, i, i - 1);
    }
    attend_over(drawing_close(&d), 0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_list_every_node_once_on_its_level),
        cmocka_unit_test(queries_and_keys_stay_on_their_sides),
        cmocka_unit_test(graphs_of_nothing_have_orders),
        cmocka_unit_test(other_ways_are_refused),
        cmocka_unit_test(a_path_is_walked_from_end_to_end),
        cmocka_unit_test(components_come_one_after_the_other),
        cmocka_unit_test(hubs_come_first_by_degree),
        cmocka_unit_test(meshes_in_a_bad_order_become_meshes_again),
        cmocka_unit_test(what_locality_counts),
        cmocka_unit_test(attention_in_order_is_attention),
        cmocka_unit_test(attention_on_meshes_and_hubs_in_order_is_attention),
    };
    return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
