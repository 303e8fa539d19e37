/* Rows of few listed edges, whose heads are narrow, as graph networks have them: the plain definition's results on
   every instruction set, whatever the call brings, and the same bits wherever the caller's heads lie. */
#include "by_hand.h"
#include "explain_solvers.h"
#include "isas.h"
#include "plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 90, FROM_ALL = 7, APART = 2 };

/* Rows of no edge, of some, of exactly a chunk, and of more; weights, and edges that repeat with other types. */
static hga_graph *listed(void)
{
    hga_builder *b = tokens_alone(N);
    uint64_t rng = 3;
    hga_id near;
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id v = 0; v < N; v++) {
        const hga_id edges = v == FROM_ALL ? N : v == 2 * FROM_ALL ? KERNEL_CHUNK : v % 9;
        for (hga_id i = 0; i < edges; i++) {
            hga_id u = edges > 9 ? i : random_below(&rng, N);
            assert_ok(hga_builder_add_edge(b, near, u, v, i, u % 4 ? 1 : 0.5f));
        }
    }
    return finished(b);
}

typedef struct call {
    hga_graph *graph;
    hga_program program;
    hga_shape shape;
    hga_options options;
    float *q, *k, *v, *out, *lse;
    hga_io io;
} call;

static float *numbers(int64_t n, uint64_t seed)
{
    float *x = memory(n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)random_below(&seed, 2001) / 500 - 2;
    return x;
}

/* [rows][heads][columns], or the heads one after the other. */
static float *laid(const float *x, hga_id heads, hga_id columns, int apart)
{
    float *y = memory((int64_t)N * heads * columns, sizeof *y);
    for (hga_id i = 0; i < N; i++)
        for (hga_id h = 0; h < heads; h++)
            memcpy(y + (apart ? h * N + i : i * heads + h) * columns, x + (i * heads + h) * columns,
                   (size_t)columns * sizeof *y);
    return y;
}

static hga_tensor tensor(float *x, hga_id heads, hga_id columns, int apart)
{
    return (hga_tensor){.data = x,
                        .rows = N,
                        .row_stride = apart ? columns : (ptrdiff_t)heads * columns,
                        .head_stride = apart ? (ptrdiff_t)N * columns : columns};
}

/* Outputs, and then log-sum-exps, rows before heads. */
static float *run(call *c, int apart, const char *isa)
{
    const hga_shape *s = &c->shape;
    hga_options options = c->options;
    float *x[4] = {laid(c->q, s->n_heads, s->dim, apart), laid(c->k, s->n_heads, s->dim, apart),
                   laid(c->v, s->n_heads, s->dim_v, apart), memory((int64_t)N * s->n_heads * s->dim_v, sizeof(float))};
    hga_io io = c->io;
    float *all = memory((int64_t)N * s->n_heads * (s->dim_v + 1), sizeof *all), *lse = all + N * s->n_heads * s->dim_v;
    io.query = tensor(x[0], s->n_heads, s->dim, apart), io.key = tensor(x[1], s->n_heads, s->dim, apart);
    io.value = tensor(x[2], s->n_heads, s->dim_v, apart), io.out = tensor(x[3], s->n_heads, s->dim_v, apart);
    io.lse = (hga_tensor){.data = lse, .rows = N, .row_stride = s->n_heads};
    options.isa = isa;
    assert_ok(hga_attention(c->graph, &c->program, &c->shape, &options, &io));
    for (hga_id i = 0; i < N; i++)
        for (hga_id h = 0; h < s->n_heads; h++)
            memcpy(all + (i * s->n_heads + h) * s->dim_v, x[3] + (apart ? h * N + i : i * s->n_heads + h) * s->dim_v,
                   (size_t)s->dim_v * sizeof *all);
    for (int t = 0; t < 4; t++) free(x[t]);
    return all;
}

static int goes_this_way(const call *c, const char *isa)
{
    pair_solvers solvers[HGA_MAX_STAGES];
    hga_options options = c->options;
    hga_plan *plan;
    hga_io io = c->io;
    options.isa = isa;
    assert_ok(hga_plan_create(c->graph, &c->program, &c->shape, &options, &plan));
    assert_ok(solvers_find(plan, &io, solvers));
    hga_plan_destroy(plan);
    return solvers[0].applies >> SOLVER_FEW_EDGES & 1 && solvers[0].few_edges > 0 && solvers[0].rows > 0;
}

static int check(call *c)
{
    char isa[16];
    int goes = 0;
    const int64_t n = (int64_t)N * c->shape.n_heads * (c->shape.dim_v + 1);
    const hga_options options = c->options;
    c->options.generic = 1;
    float *plain = run(c, 0, NULL);
    c->options = options;
    for (int i = 0; isa_name(i, isa, sizeof isa); i++) {
        float *together = run(c, 0, isa), *apart = run(c, 1, isa);
        c->options.threads = 3;
        float *shared = run(c, 0, isa);
        c->options.threads = options.threads;
        assert_memory_equal(together, apart, (size_t)n * sizeof *together);
        assert_memory_equal(together, shared, (size_t)n * sizeof *together);
        for (int64_t k = 0; k < n; k++)
            if (together[k] != plain[k] && !(fabsf(together[k] - plain[k]) <= 2e-5f * (1 + fabsf(plain[k]))))
                fail_msg("%s, %d x %d, %d: entry %lld is %g, not %g", isa, c->shape.n_heads, c->shape.dim,
                         c->shape.dim_v, (long long)k, (double)together[k], (double)plain[k]);
        goes += goes_this_way(c, isa);
        free(together), free(apart), free(shared);
    }
    free(plain);
    return goes;
}

enum { ADDITIVE = 1, EDGE_KEYS = 2, CAP = 4, POSITIONS = 8, DROPOUT = 16, N_CALLS = 32 };

/* Returns on how many instruction sets rows of few edges went together. */
static int check_shape(hga_id heads, hga_id dim, hga_id dim_v, int has)
{
    static const float softcap = 1.5f, scale = 0.3f;
    call c = {.graph = listed(), .shape = {.n_heads = heads, .n_kv_heads = heads, .dim = dim, .dim_v = dim_v}};
    const int64_t edges = hga_graph_relation(c.graph, 0).n_edges;
    float *a = numbers((int64_t)heads * dim, 11), *keys = numbers(edges * heads * dim, 12), *at = numbers(N * 3, 13);
    assert_ok(hga_program_attention(&c.program, 0));
    if (has & ADDITIVE) c.program.scores = HGA_SCORES_ADDITIVE, c.program.negative_slope = 0.2f;
    c.q = numbers((int64_t)N * heads * dim, 1), c.k = numbers((int64_t)N * heads * dim, 2);
    c.v = numbers((int64_t)N * heads * dim_v, 3);
    if (has & ADDITIVE) c.io.additive = (hga_table){.data = a, .rows = heads, .columns = dim};
    if (has & EDGE_KEYS) c.io.edge_key = (hga_table){.data = keys, .rows = edges, .columns = heads * dim};
    if (has & CAP) c.io.softcap.data = &softcap, c.io.scale.data = &scale;
    if (has & POSITIONS) c.shape.pos_dim = 3, c.io.node_pos = (hga_table){.data = at, .rows = N, .columns = 3};
    if (has & DROPOUT) c.options.dropout = 0.3f, c.io.seed = 5;
    const int goes = check(&c);
    hga_graph_destroy(c.graph);
    free(a), free(keys), free(at), free(c.q), free(c.k), free(c.v);
    return goes;
}

static void rows_of_every_width_are_the_plain_ones(void **state)
{
    (void)state;
    static const hga_id of[][3] = {{8, 8, 8},   {4, 16, 16}, {16, 4, 4}, {16, 2, 2}, {4, 32, 32}, {3, 16, 16},
                                   {3, 32, 32}, {6, 16, 16}, {3, 8, 8},  {5, 8, 8},  {5, 6, 6}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        int goes = 0;
        for (int has = 0; has < N_CALLS; has++) goes += check_shape(of[i][0], of[i][1], of[i][2], has);
        if (i < 8) assert_true(goes >= N_CALLS); /* at least on one instruction set */
    }
}

static void one_column_of_keys_is_enough_for_sums(void **state)
{
    (void)state;
    static const hga_id of[][2] = {{8, 8}, {4, 16}, {1, 64}, {2, 64}, {16, 8}, {3, 16}, {6, 5}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        int goes = 0;
        for (int has = 0; has < N_CALLS; has++)
            if (has & ADDITIVE) goes += check_shape(of[i][0], 1, of[i][1], has);
        if (i < 6) assert_true(goes >= N_CALLS / 2);
    }
}

/* A score that is no number stays with its row and its head; rows that nobody sends to are 0. */
static void numbers_that_are_none_stay_in_their_rows(void **state)
{
    (void)state;
    enum { HEADS = 8, DIM = 8, ROW = HEADS * DIM };
    call c = {.graph = edges_over(N, 4 * N),
              .shape = {.n_heads = HEADS, .n_kv_heads = HEADS, .dim = DIM, .dim_v = DIM}};
    char isa[16];
    assert_ok(hga_program_attention(&c.program, 0));
    c.q = numbers(N * ROW, 1), c.k = numbers(N * ROW, 2), c.v = numbers(N * ROW, 3);
    for (int i = 0; isa_name(i, isa, sizeof isa); i++) {
        float *before = run(&c, 0, isa), was = c.q[5 * ROW + APART * DIM];
        c.q[5 * ROW + APART * DIM] = NAN;
        float *after = run(&c, 0, isa);
        c.q[5 * ROW + APART * DIM] = was;
        for (hga_id k = 0; k < N * ROW; k++) {
            const int hit = k / ROW == 5 && k % ROW / DIM == APART;
            if (hit ? !isnan(after[k]) : memcmp(&after[k], &before[k], sizeof *after) != 0)
                fail_msg("%s: entry %d is %g, before %g", isa, k, (double)after[k], (double)before[k]);
        }
        free(before), free(after);
    }
    hga_graph_destroy(c.graph);
    free(c.q), free(c.k), free(c.v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_every_width_are_the_plain_ones),
        cmocka_unit_test(one_column_of_keys_is_enough_for_sums),
        cmocka_unit_test(numbers_that_are_none_stay_in_their_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
