/* Facts about folded rows: a graph for each key/value head attends over [tokens][heads][columns] and [heads][tokens]
   [columns], packed or strided, with the bits of copies in the order of its rows; and what is refused. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TOKENS = 45,
    KV = 3,
    GROUP = 2,
    DIM = 16,
    ROWS = TOKENS * KV,
    GAP = 3,
    MOST = (TOKENS + GAP) * KV * GROUP * DIM
};

/* Head 0 is causal, head 1 sees all, head 2 a band and single edges; row h * TOKENS + t. */
static hga_graph *graph_of_heads(void)
{
    hga_builder *b;
    hga_graph *g;
    hga_id near;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, ROWS, NULL));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    const hga_block blocks[] = {{.n_dst = TOKENS, .n_src = TOKENS, .shape = HGA_LOWER},
                                {.dst = TOKENS, .n_dst = TOKENS, .src = TOKENS, .n_src = TOKENS},
                                {.dst = 2 * TOKENS,
                                 .n_dst = TOKENS,
                                 .src = 2 * TOKENS,
                                 .n_src = TOKENS,
                                 .shape = HGA_BAND,
                                 .band_first = -2,
                                 .band_last = 3}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) assert_ok(hga_builder_add_blocks(b, near, &blocks[i]));
    for (hga_id t = 0; t < TOKENS; t += 4)
        assert_ok(hga_builder_add_edge(b, near, 2 * TOKENS + (t * 7 + 20) % TOKENS, 2 * TOKENS + t, 0, 1));
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    return g;
}

/* ---- layouts ---- */

typedef enum layout { COPIED, TOKENS_FIRST, HEADS_FIRST, STRIDED, N_LAYOUTS } layout;

/* So many heads share a row of the graph; numbers of `columns`. */
static hga_tensor tensor_of(layout l, hga_id heads, hga_id columns, hga_dtype type, void *data)
{
    ptrdiff_t all = KV * heads;
    hga_tensor t = {.data = data, .rows = ROWS, .dtype = type, .fold = TOKENS};
    switch (l) {
    case TOKENS_FIRST: t.row_stride = all * columns, t.head_stride = columns; break;
    case HEADS_FIRST: t.row_stride = columns, t.head_stride = TOKENS * columns; break;
    case STRIDED: t.row_stride = columns, t.head_stride = (TOKENS + GAP) * columns; break;
    default: t.fold = 0;
    }
    if (t.fold) t.fold_stride = heads * t.head_stride;
    return t;
}

static float *at(const hga_tensor *t, hga_id heads, hga_id columns, hga_id row, hga_id head)
{
    if (!t->fold) return (float *)t->data + ((ptrdiff_t)row * heads + head) * columns;
    return (float *)t->data + row / TOKENS * t->fold_stride + row % TOKENS * t->row_stride + head * t->head_stride;
}

/* From one layout to another. */
static void copy(const hga_tensor *from, hga_id heads, hga_id columns, const hga_tensor *to)
{
    for (hga_id row = 0; row < ROWS; row++)
        for (hga_id h = 0; h < heads; h++)
            memcpy(at(to, heads, columns, row, h), at(from, heads, columns, row, h), (size_t)columns * sizeof(float));
}

/* ---- a call ---- */

enum { Q, K, V, OUT, LSE, D_OUT, D_LSE, DQ, DK, DV, N_TENSORS };

static hga_id heads_of(int tensor) { return tensor == K || tensor == V || tensor == DK || tensor == DV ? 1 : GROUP; }
static hga_id columns_of(int tensor) { return tensor == LSE || tensor == D_LSE ? 1 : DIM; }

typedef struct call {
    layout layout;
    hga_options options;
    float *memory[N_TENSORS];
    hga_io io;
    hga_grad_io grad;
} call;

static hga_tensor *place_of(call *c, int tensor)
{
    hga_tensor *const all[N_TENSORS] = {&c->io.query,   &c->io.key,      &c->io.value,   &c->io.out,
                                        &c->io.lse,     &c->grad.d_out,  &c->grad.d_lse, &c->grad.d_query,
                                        &c->grad.d_key, &c->grad.d_value};
    return all[tensor];
}

static void open_call(call *c)
{
    for (int i = 0; i < N_TENSORS; i++) {
        hga_id heads = heads_of(i), columns = columns_of(i);
        float *numbers = random_floats((uint64_t)i + 1, 1, (int64_t)ROWS * heads * columns);
        c->memory[i] = memory(MOST, sizeof(float));
        hga_tensor *t = place_of(c, i), packed = tensor_of(COPIED, heads, columns, HGA_F32, numbers);
        *t = tensor_of(c->layout, heads, columns, HGA_F32, c->memory[i]);
        copy(&packed, heads, columns, t);
        free(numbers);
    }
}

static void close_call(call *c)
{
    for (int i = 0; i < N_TENSORS; i++) free(c->memory[i]);
}

static const hga_shape shape = {.n_heads = GROUP, .n_kv_heads = 1, .dim = DIM};

static void run(const hga_graph *g, call *c)
{
    hga_program p;
    hga_plan *plan;
    hga_workspace *workspace;
    c->options.gradient = 1;
    assert_ok(hga_program_attention(&p, 0));
    assert_ok(hga_plan_create(g, &p, &shape, &c->options, &plan));
    assert_ok(hga_workspace_create(plan, &workspace));
    c->io.tape = memory(hga_plan_tape_bytes(plan), 1);
    assert_ok(hga_plan_execute(plan, workspace, &c->io));
    assert_ok(hga_plan_gradient(plan, workspace, &c->io, &c->grad));
    free(c->io.tape), c->io.tape = NULL;
    hga_workspace_destroy(workspace);
    hga_plan_destroy(plan);
}

static void assert_same(call *got, call *want, const char *what)
{
    for (int i = 0; i < N_TENSORS; i++)
        for (hga_id row = 0; row < ROWS; row++)
            for (hga_id h = 0; h < heads_of(i); h++)
                assert_same_bits(what, at(place_of(got, i), heads_of(i), columns_of(i), row, h),
                                 at(place_of(want, i), heads_of(i), columns_of(i), row, h), columns_of(i));
}

static void folded_tensors_have_the_bits_of_copies(void **state)
{
    (void)state;
    static const hga_options options[] = {{.threads = 1},
                                          {.threads = 3},
                                          {.threads = 1, .generic = 1},
                                          {.threads = 1, .dropout = 0.25f},
                                          {.threads = 1, .strict_rows = 1},
                                          {.threads = 1, .isa = "ref"},
                                          {.threads = 2, .precision = HGA_PRECISION_BF16}};
    hga_graph *g = graph_of_heads();
    for (size_t o = 0; o < sizeof options / sizeof *options; o++) {
        call copied = {.layout = COPIED, .options = options[o]};
        open_call(&copied);
        run(g, &copied);
        for (layout l = TOKENS_FIRST; l < N_LAYOUTS; l++) {
            char what[64];
            call c = {.layout = l, .options = options[o]};
            snprintf(what, sizeof what, "options %zu, layout %d", o, (int)l);
            open_call(&c);
            run(g, &c);
            assert_same(&c, &copied, what);
            close_call(&c);
        }
        close_call(&copied);
    }
    hga_graph_destroy(g);
}

/* Rows token * heads + head, Treeformer's: the strides change places. */
static void rows_may_go_head_by_head_inside_a_token(void **state)
{
    (void)state;
    enum { HEADS = 4 };
    int32_t leaf[TOKENS * HEADS];
    hga_treeformer t;
    hga_defaults(&t);
    t.n_queries = TOKENS, t.n_tree_heads = HEADS, t.height = 2, t.query_leaf = leaf;
    uint64_t stream = 9;
    for (int i = 0; i < TOKENS * HEADS; i++) leaf[i] = (int32_t)random_below(&stream, 4);
    hga_graph *g;
    hga_program p;
    assert_ok(hga_build_treeformer_fine(&t, &g, &p));
    const hga_shape one = {.n_heads = 1, .dim = DIM};
    int64_t n = (int64_t)TOKENS * HEADS * DIM;
    float *x = random_floats(3, 1, n), *turned = memory(n, sizeof *x), *want = memory(n, sizeof *x),
          *got = memory(n, sizeof *x);
    for (hga_id i = 0; i < TOKENS; i++) /* [heads][tokens][columns] */
        for (hga_id h = 0; h < HEADS; h++)
            memcpy(turned + (h * TOKENS + i) * DIM, x + (i * HEADS + h) * DIM, DIM * sizeof *x);
    hga_tensor packed = {.data = x, .rows = TOKENS * HEADS}, folded = packed;
    folded.data = turned, folded.fold = HEADS, folded.row_stride = (ptrdiff_t)TOKENS * DIM, folded.fold_stride = DIM;
    hga_io io = {.query = packed, .key = packed, .value = packed, .out = packed}, other = io;
    io.out.data = want;
    other.query = other.key = other.value = other.out = folded;
    other.out.data = got;
    assert_ok(hga_attention(g, &p, &one, NULL, &io));
    assert_ok(hga_attention(g, &p, &one, NULL, &other));
    for (hga_id i = 0; i < TOKENS; i++)
        for (hga_id h = 0; h < HEADS; h++)
            assert_same_bits("by head", got + (h * TOKENS + i) * DIM, want + (i * HEADS + h) * DIM, DIM);
    free(x), free(turned), free(want), free(got);
    hga_graph_destroy(g);
}

/* ---- refusals ---- */

static void refused(const hga_graph *g, const call *c, hga_status status, const char *says)
{
    hga_program p;
    assert_ok(hga_program_attention(&p, 0));
    assert_status(status, hga_attention(g, &p, &shape, &c->options, &c->io));
    if (!strstr(hga_error_detail(), says)) fail_msg("\"%s\" has no \"%s\"", hga_error_detail(), says);
}

static void folds_that_cannot_be_are_refused(void **state)
{
    (void)state;
    hga_graph *g = graph_of_heads();
    call c = {.layout = TOKENS_FIRST};
    open_call(&c);
    const hga_io good = c.io;
    c.io.query.fold = -1;
    refused(g, &c, HGA_EINVAL, "field query is folded by -1 rows");
    c.io = good, c.io.query.fold_stride++;
    refused(g, &c, HGA_EUNSUPPORTED, "field query: neither rows, 96 apart, nor folds, 33 apart, are 2 heads, 16 apart");
    c.io = good, c.io.out.row_stride = PTRDIFF_MAX / 4;
    refused(g, &c, HGA_EOVERFLOW, "field out: 45 rows");
    c.io = good, c.io.out = c.io.query; /* the same memory */
    refused(g, &c, HGA_EINVAL, "would be written over");
    c.io = good, c.io.out.row_stride = DIM; /* heads of one token over those of another */
    refused(g, &c, HGA_EINVAL, "overlaps itself");
    c.io = good, c.io.lse.fold = INT64_MAX;
    refused(g, &c, HGA_EINVAL, "the log-sum-exp is folded by 9223372036854775807 rows");
    close_call(&c);
    hga_graph_destroy(g);
}

/* The only rank of a run, which has failed after an error; says NULL: it does not. */
static void run_on_rank(const hga_graph *g, call *c, const char *says)
{
    hga_exchange x;
    hga_program p;
    const hga_id cuts[] = {0, ROWS};
    assert_ok(hga_program_attention(&p, 0));
    assert_ok(hga_dist_in_process(1, NULL, &x));
    c->options.ranks = &(hga_ranks){.exchange = &x, .cuts = cuts};
    if (says)
        refused(g, c, HGA_EUNSUPPORTED, says);
    else
        assert_ok(hga_attention(g, &p, &shape, &c->options, &c->io));
    hga_dist_destroy(&x);
}

static void ranks_refuse_folds(void **state)
{
    (void)state;
    hga_graph *g = graph_of_heads();
    call c = {.layout = HEADS_FIRST};
    open_call(&c);
    run_on_rank(g, &c, "the log-sum-exp is folded, on ranks");
    c.io.lse = (hga_tensor){0};
    run_on_rank(g, &c, "the tensor of field query is folded, on ranks");
    c.io.query = (hga_tensor){.data = c.memory[Q], .rows = ROWS};
    c.io.key = c.io.value = c.io.query;
    c.io.out = (hga_tensor){.data = c.memory[OUT], .rows = ROWS};
    run_on_rank(g, &c, NULL);
    close_call(&c);
    hga_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folded_tensors_have_the_bits_of_copies),
        cmocka_unit_test(rows_may_go_head_by_head_inside_a_token),
        cmocka_unit_test(folds_that_cannot_be_are_refused),
        cmocka_unit_test(ranks_refuse_folds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
