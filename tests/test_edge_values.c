/* What edges bring besides biases: keys, which are added to those of their sources, and features, whose sum with the
   output's weights is a second output; there and back, by whatever way the rest goes. */
#include "by_hand.h"
#include "slopes.h"

enum { FEATURES = 5, MOST_EDGES = 6000 };

typedef struct features {
    int64_t edges;
    float *key, *value; /* [edges][n_kv_heads * dim], [edges][columns] */
    float *out;         /* edge_out */
    float *d_out, *d_value;
    hga_id keys, columns;
} features;

static int64_t edges_of(const problem *p)
{
    const hga_stage *s = find_stage(&p->program, HGA_SCORE);
    return hga_graph_relation(p->graph, s->relation).n_edges;
}

static features features_of(problem *p, hga_id columns)
{
    features x = {.edges = edges_of(p), .columns = columns};
    hga_id kv = p->shape.n_kv_heads ? p->shape.n_kv_heads : p->shape.n_heads;
    x.keys = kv * p->shape.dim;
    x.key = random_floats(41, 1, x.edges * x.keys), x.value = random_floats(42, 1, x.edges * columns);
    int64_t n = p->n_out * p->shape.n_heads * columns;
    x.out = memory(n, sizeof(float)), x.d_out = random_floats(43, 1, n);
    x.d_value = memory(x.edges * columns, sizeof(float));
    p->io.edge_key = (hga_table){.data = x.key, .rows = x.edges};
    p->io.edge_value = (hga_table){.data = x.value, .rows = x.edges, .columns = columns};
    p->io.edge_out = (hga_tensor){.data = x.out, .rows = p->n_out};
    return x;
}

/* Values of edges that are added to those of their sources. */
static features added_of(problem *p)
{
    const hga_id kv = p->shape.n_kv_heads ? p->shape.n_kv_heads : p->shape.n_heads;
    features x = features_of(p, kv * (p->shape.dim_v ? p->shape.dim_v : p->shape.dim));
    p->io.edge_out = (hga_tensor){0};
    return x;
}

static void features_clear(features *x)
{
    free(x->key), free(x->value), free(x->out), free(x->d_out), free(x->d_value);
}

static int64_t features_count(const problem *p, const features *x) { return p->n_out * p->shape.n_heads * x->columns; }

/* ---- forward ---- */

/* What is summed is the sources' values: the second output is the first, whatever weighs it. */
static void sources_values_come_to_the_output(void **state)
{
    static const hga_shape of[] = {{.n_heads = 4, .n_kv_heads = 1, .dim = 8, .dim_v = 6},
                                   {.n_heads = 2, .n_kv_heads = 1, .dim = 16, .dim_v = 17},
                                   {.n_heads = 1, .dim = 5, .dim_v = 4}};
    int taken = 0;
    (void)state;
    for (int i = 0; i < n_variants(); i++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            problem p;
            variant_build(i, 150, seed, &of[(seed + (uint64_t)i) % 3], &p);
            problem_fill_tables(&p, seed, seed % 2 == 0, seed % 3 == 0, seed % 4 == 1);
            const hga_stage *s = find_stage(&p.program, HGA_SCORE);
            hga_id n_values;
            if (!s || p.program.n_stages > 1) {
                problem_clear(&p);
                continue;
            }
            hga_id *node = row_nodes(p.graph, p.program.field[s->value].io, &n_values);
            features x = features_of(&p, p.shape.dim_v);
            int64_t n;
            edge *e = all_edges(p.graph, s->relation, &n);
            sort_edges(e, n);
            if (seed % 2) p.io.edge_key = (hga_table){0};
            for (int64_t k = 0; k < n; k++) {
                const float *from = (const float *)p.io.value.data + (ptrdiff_t)(e[k].src - node[0]) * x.columns;
                memcpy(x.value + k * x.columns, from, (size_t)x.columns * sizeof *from);
            }
            p.options.threads = 1 + (hga_id)(seed % 3), p.options.dropout = seed == 3 ? 0.3f : 0;
            p.options.generic = seed == 4, p.options.cut_edges = seed == 5 ? 8 : 0;
            p.options.strict_rows = seed == 2;
            hga_status st = hga_attention(p.graph, &p.program, &p.shape, &p.options, &p.io);
            if (st == HGA_EUNSUPPORTED) assert_non_null(strstr(hga_error_detail(), "edge_value"));
            if (st != HGA_EUNSUPPORTED) assert_ok(st);
            if (!st) assert_near_floats(p.name, x.out, p.io.out.data, features_count(&p, &x), 2e-5), taken++;
            free(node), free(e), features_clear(&x), problem_clear(&p);
        }
    assert_true(taken > 30);
}

/* ---- graphs whose edges are listed ---- */

/* Some twice, some with weights, rows without any, and one of very many. */
static problem listed_in_order(hga_id n, const hga_shape *shape, int additive, const hga_id *order)
{
    problem p = {.name = "edges listed one by one", .shape = *shape};
    uint64_t rng = 5;
    hga_id near;
    hga_builder *b = tokens_alone(n);
    assert_ok(hga_builder_add_relation(b, "near", &near));
    if (order) assert_ok(hga_builder_set_order(b, near, order, n, NULL, 0));
    for (hga_id v = 0; v < n; v++)
        for (hga_id i = 0; i < (v == 7 ? 300 : v % 12); i++) {
            hga_id u = random_below(&rng, n);
            assert_ok(hga_builder_add_edge(b, near, u, v, 0, u % 5 ? 1 : 0.5f));
        }
    p.graph = finished(b);
    assert_ok(hga_program_attention(&p.program, near));
    if (additive) p.program.scores = HGA_SCORES_ADDITIVE, p.program.negative_slope = 0.2f;
    problem_fill(&p, 1);
    return p;
}

static problem listed(hga_id n, const hga_shape *shape, int additive)
{
    return listed_in_order(n, shape, additive, NULL);
}

static const hga_shape shapes[] = {{.n_heads = 4, .dim = 1, .dim_v = 7},
                                   {.n_heads = 4, .dim = 16},
                                   {.n_heads = 6, .n_kv_heads = 2, .dim = 5, .dim_v = 16},
                                   {.n_heads = 2, .dim = 37, .dim_v = 8},
                                   {.n_heads = 17, .dim = 2, .dim_v = 3}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* There and back. */
static void go(slope *s, features *x, hga_options options, hga_rows *some)
{
    for (int64_t i = 0; i < features_count(s->p, x); i++) x->out[i] = NAN;
    for (int64_t i = 0; i < x->edges * x->columns; i++) x->d_value[i] = NAN;
    if (s->p->io.edge_out.data) s->grad.d_edge_out = (hga_tensor){.data = x->d_out, .rows = s->p->n_out};
    s->grad.d_edge_value = x->d_value;
    s->p->io.rows = some, options.rows = some != NULL;
    seat at = seat_of(s->p, options);
    assert_ok(seat_run_anew(&at, s));
    seat_clear(&at);
}

typedef struct kept {
    float *of[3 + N_SLOW_INPUTS];
    int64_t n[3 + N_SLOW_INPUTS];
} kept;

static float *copy_of(const float *x, int64_t n)
{
    float *to = memory(n, sizeof *to);
    return memcpy(to, x, (size_t)n * sizeof *to);
}

static kept keep(const slope *s, const features *x)
{
    kept k = {.n = {s->p->io.edge_out.data ? features_count(s->p, x) : 0, x->edges * x->columns, out_count(s->p)}};
    const float *of[] = {x->out, x->d_value, s->p->io.out.data};
    for (int i = 0; i < 3; i++) k.of[i] = copy_of(of[i], k.n[i]);
    for (int i = 0; i < N_SLOW_INPUTS; i++)
        if (s->n[i]) k.n[3 + i] = s->n[i], k.of[3 + i] = copy_of(s->of[i], s->n[i]);
    return k;
}

static void kept_clear(kept *k)
{
    for (int i = 0; i < 3 + N_SLOW_INPUTS; i++) free(k->of[i]);
}

/* Which way this call goes back. */
static const char *way_of(const slope *s, hga_options options)
{
    seat at = seat_of(s->p, options);
    const char *name, *refusal = NULL;
    hga_id i = 0;
    do name = hga_plan_gradient_tried(at.plan, &s->p->io, &s->grad, i++, &refusal);
    while (name && refusal);
    seat_clear(&at);
    return name;
}

/* In every shape, there and back by the edges' way as in double, with the same bits by one thread and by three. */
static void the_way_of_edges_is_the_definition(void **state)
{
    static float vector[256];
    (void)state;
    for (int i = 0; i < 256; i++) vector[i] = 0.125f * (float)(i * 7 % 15) - 0.5f;
    for (int i = 0; i < 8 * N_SHAPES; i++) {
        problem p = listed(90, &shapes[i % N_SHAPES], i / N_SHAPES % 2);
        p.options.dropout = i / N_SHAPES % 4 > 1 ? 0.25f : 0;
        if (p.program.scores == HGA_SCORES_ADDITIVE) p.io.additive.data = vector;
        features x = i / N_SHAPES > 3 ? added_of(&p) : features_of(&p, i % 2 ? FEATURES : 16);
        if (i / N_SHAPES > 5) p.io.edge_key = (hga_table){0};
        slope s = slope_create(&p, 3);
        hga_options plain = p.options;
        plain.generic = 1;
        go(&s, &x, plain, NULL);
        kept want = keep(&s, &x), one = {0};
        for (hga_id threads = 1; threads <= 3; threads += 2) {
            hga_options fast = p.options;
            fast.threads = threads;
            go(&s, &x, fast, NULL);
            assert_string_equal(way_of(&s, fast), "row by row and source by source, all heads together");
            kept got = keep(&s, &x);
            for (int k = 0; k < 3 + N_SLOW_INPUTS; k++) {
                char what[80];
                sprintf(what, "case %d, array %d, %d threads", i, k, threads);
                double size = 1;
                for (int64_t j = 0; j < want.n[k]; j++) size = fmax(size, fabs((double)want.of[k][j]));
                double fine = want.n[k] == 1 ? 4e-4 : 4e-5; /* a number is a sum over all edges */
                if (want.n[k]) assert_near_floats(what, got.of[k], want.of[k], want.n[k], fine * size);
                if (want.n[k] && threads > 1) assert_same_bits(what, got.of[k], one.of[k], want.n[k]);
            }
            if (threads == 1)
                one = got;
            else
                kept_clear(&got);
        }
        kept_clear(&want), kept_clear(&one), slope_clear(&s), features_clear(&x), problem_clear(&p);
    }
}

/* .. whatever solver runs the rest: values of edges, added to those of their sources, are as those of sources of their
   own, each of one edge. */
static void added_values_are_as_those_of_other_sources(void **state)
{
    static const hga_shape of[] = {
        {.n_heads = 8, .dim = 8}, {.n_heads = 2, .dim = 16}, {.n_heads = 4, .n_kv_heads = 2, .dim = 4}};
    (void)state;
    for (int i = 0; i < 6; i++) {
        problem p = listed(60, &of[i % 3], i / 3);
        features x = added_of(&p);
        int64_t n;
        edge *e = all_edges(p.graph, 0, &n);
        sort_edges(e, n);
        hga_builder *b = tokens_alone(60 + (hga_id)n);
        hga_id near;
        assert_ok(hga_builder_set_tokens(b, 0, 60, 60, (hga_id)n));
        assert_ok(hga_builder_add_relation(b, "near", &near));
        float *k = memory(n * x.keys, sizeof *k), *v = memory(n * x.columns, sizeof *v);
        float *out = memory(out_count(&p), sizeof *out);
        for (hga_id j = 0; j < n; j++) {
            assert_ok(hga_builder_add_edge(b, near, 60 + j, e[j].dst, 0, e[j].weight));
            for (hga_id c = 0; c < x.keys; c++)
                k[j * x.keys + c] = ((const float *)p.io.key.data)[e[j].src * x.keys + c] + x.key[j * x.keys + c];
            for (hga_id c = 0; c < x.columns; c++)
                v[j * x.columns + c] =
                    ((const float *)p.io.value.data)[e[j].src * x.columns + c] + x.value[j * x.columns + c];
        }
        hga_graph *apart = finished(b);
        hga_io io = p.io;
        io.key.data = k, io.value.data = v, io.out.data = out, io.key.rows = io.value.rows = n;
        io.edge_key = io.edge_value = (hga_table){0}, io.lse = (hga_tensor){0};
        assert_ok(hga_attention(apart, &p.program, &p.shape, NULL, &io));
        assert_ok(hga_attention(p.graph, &p.program, &p.shape, NULL, &p.io));
        assert_near_floats("outputs", p.io.out.data, out, out_count(&p), 2e-5);
        hga_graph_destroy(apart), free(k), free(v), free(out), free(e), features_clear(&x), problem_clear(&p);
    }
}

/* The order in which rows stand changes no bit of them, whether rows are cut or not, by one thread or by three. */
static void orders_of_rows_change_nothing(void **state)
{
    enum { N = 90 };
    hga_id order[N];
    (void)state;
    for (hga_id i = 0; i < N; i++) order[i] = (hga_id)(i * 37 % N);
    for (int i = 0; i < 4 * N_SHAPES; i++) {
        const hga_shape *shape = &shapes[i % N_SHAPES];
        hga_options options = {.threads = i / N_SHAPES % 2 ? 3 : 1, .cut_edges = i / N_SHAPES > 1 ? 8 : 0};
        problem p = listed(N, shape, 0), q = listed_in_order(N, shape, 0, order);
        features x = features_of(&p, FEATURES), y = features_of(&q, FEATURES);
        assert_ok(hga_attention(p.graph, &p.program, shape, &options, &p.io));
        assert_ok(hga_attention(q.graph, &q.program, shape, &options, &q.io));
        assert_same_bits("outputs", q.io.out.data, p.io.out.data, out_count(&p));
        assert_same_bits("sums of features", y.out, x.out, features_count(&p, &x));
        features_clear(&x), features_clear(&y), problem_clear(&p), problem_clear(&q);
    }
}

/* What the definition gives back is what a change of each number makes of the loss. */
static void gradients_are_differences(void **state)
{
    const double by = 1e-4;
    (void)state;
    for (int i = 0; i < 8; i++) {
        static const hga_shape of[] = {{.n_heads = 2, .dim = 3}, {.n_heads = 4, .n_kv_heads = 2, .dim = 2, .dim_v = 3}};
        problem p = listed(20, &of[i % 2], i / 2 % 2);
        features x = i / 4 ? added_of(&p) : features_of(&p, 3);
        slope s = slope_create(&p, 3);
        hga_options options = {.gradient = 1, .generic = 1};
        go(&s, &x, options, NULL);
        hga_plan *plan;
        assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &options, &plan));
        const struct {
            hga_call_table table;
            const float *d;
            int64_t n;
        } moved[] = {{HGA_TABLE_EDGE_KEY, s.of[SLOW_EDGE_KEY], x.edges * x.keys},
                     {HGA_TABLE_EDGE_VALUE, x.d_value, x.edges * x.columns}};
        for (int t = 0; t < 2; t++)
            for (int64_t j = i; j < moved[t].n; j += 7) {
                double up, down;
                hga_gradient_input input = (hga_gradient_input)(HGA_GRADIENT_TABLE + (int)moved[t].table);
                assert_ok(hga_plan_loss(plan, &p.io, &s.grad, input, j, by, &up));
                assert_ok(hga_plan_loss(plan, &p.io, &s.grad, input, j, -by, &down));
                if (!(fabs((up - down) / 2 / by - (double)moved[t].d[j]) < 2e-5))
                    fail_msg("case %d, table %d, entry %lld: %g, not %g", i, t, (long long)j, (double)moved[t].d[j],
                             (up - down) / 2 / by);
            }
        hga_plan_destroy(plan), slope_clear(&s), features_clear(&x), problem_clear(&p);
    }
}

/* Rows that nobody asks for are not computed, and give nothing back, whatever is given of them; gradients are added to
   what there is. */
static void some_rows_and_sums(void **state)
{
    enum { FIRST = 5, N = 30, ALL = 90 };
    (void)state;
    problem p = listed(ALL, &shapes[1], 0);
    features x = features_of(&p, FEATURES);
    slope s = slope_create(&p, 3);
    const int64_t row = p.shape.n_heads * FEATURES;
    for (int64_t i = 0; i < features_count(&p, &x); i++)
        if (i / row < FIRST || i / row >= FIRST + N) x.d_out[i] = NAN;
    for (int64_t i = 0; i < out_count(&p); i++)
        if (i / (p.shape.n_heads * p.shape.dim) < FIRST || i / (p.shape.n_heads * p.shape.dim) >= FIRST + N)
            s.d_out[i] = NAN;
    go(&s, &x, (hga_options){.threads = 1}, SOME_ROWS(FIRST, N));
    kept part = keep(&s, &x);
    for (int64_t i = 0; i < features_count(&p, &x); i++)
        assert_true(isnan(x.out[i]) == (i / row < FIRST || i / row >= FIRST + N));
    for (int64_t i = 0; i < features_count(&p, &x); i++)
        if (isnan(x.d_out[i])) x.d_out[i] = 0;
    for (int64_t i = 0; i < out_count(&p); i++)
        if (isnan(s.d_out[i])) s.d_out[i] = 0;
    for (int64_t i = 0; s.d_lse && i < lse_count(&p); i++)
        if (i / p.shape.n_heads < FIRST || i / p.shape.n_heads >= FIRST + N) s.d_lse[i] = 0;
    go(&s, &x, (hga_options){.threads = 1}, NULL);
    const int key = 3 + SLOW_EDGE_KEY;
    assert_same_bits("keys of edges", part.of[key], s.of[SLOW_EDGE_KEY], part.n[key]);
    assert_same_bits("features of edges", part.of[1], x.d_value, part.n[1]);
    seat at = seat_of(&p, (hga_options){.threads = 1});
    s.grad.accumulate = 1;
    assert_ok(seat_run(&at, &s));
    for (int64_t i = 0; i < part.n[key]; i++) assert_true(s.of[SLOW_EDGE_KEY][i] == 2 * part.of[key][i]);
    for (int64_t i = 0; i < part.n[1]; i++) assert_true(fabsf(x.d_value[i] - 2 * part.of[1][i]) < 1e-6f);
    seat_clear(&at), kept_clear(&part), slope_clear(&s), features_clear(&x), problem_clear(&p);
}

/* ---- refused ---- */

static void refused(const problem *p, hga_status status, const char *because)
{
    assert_status(status, hga_attention(p->graph, &p->program, &p->shape, &p->options, &p->io));
    if (!strstr(hga_error_detail(), because)) fail_msg("'%s' does not say '%s'", hga_error_detail(), because);
}

static void what_cannot_be_is_refused_in_words(void **state)
{
    static const float sink[4];
    (void)state;
    problem p = listed(30, &shapes[1], 0);
    features x = features_of(&p, FEATURES);
    hga_tensor edge_out = p.io.edge_out;
    p.io.edge_out.data = NULL;
    refused(&p, HGA_EINVAL, "edge_value is given, but no edge_out");
    p.io.edge_out = edge_out, p.io.edge_out.rows = 29;
    refused(&p, HGA_EINVAL, "edge_out has 29 rows");
    p.io.edge_out = edge_out, p.io.edge_out.dtype = HGA_BF16;
    refused(&p, HGA_EUNSUPPORTED, "edge_out has dtype 2, not float32");
    p.io.edge_out = edge_out, p.io.edge_value.rows--;
    refused(&p, HGA_EINVAL, "edge_value has");
    p.io.edge_value.rows++, p.io.edge_value.columns = 0;
    refused(&p, HGA_EINVAL, "edge_value has 0 columns");
    p.io.edge_value.columns = FEATURES, p.io.edge_key.columns = 3;
    refused(&p, HGA_EINVAL, "edge_key has 3 columns, not 64 (key heads * dim)");
    p.io.edge_key.columns = 0, p.io.sink.data = sink;
    refused(&p, HGA_EUNSUPPORTED, "edge_value: sinks");
    p.io.sink.data = NULL, p.io.edge_out.data = p.io.out.data;
    refused(&p, HGA_EINVAL, "edge_out");
    p.io.edge_out = edge_out, p.io.edge_value = (hga_table){0};
    refused(&p, HGA_EINVAL, "edge_out is given, but no edge_value");
    features_clear(&x), problem_clear(&p);
}

static void an_output_of_several_stages_has_no_such_sum(void **state)
{
    (void)state;
    problem p = {.name = "htransformer", .shape = {.n_heads = 2, .dim = 4}};
    assert_ok(hga_build("htransformer block=4", 64, &p.graph, &p.program));
    problem_fill(&p, 1);
    features x = features_of(&p, FEATURES);
    refused(&p, HGA_EUNSUPPORTED, "edge_value: the");
    features_clear(&x), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_values_come_to_the_output),
        cmocka_unit_test(the_way_of_edges_is_the_definition),
        cmocka_unit_test(added_values_are_as_those_of_other_sources),
        cmocka_unit_test(orders_of_rows_change_nothing),
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(some_rows_and_sums),
        cmocka_unit_test(what_cannot_be_is_refused_in_words),
        cmocka_unit_test(an_output_of_several_stages_has_no_such_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
