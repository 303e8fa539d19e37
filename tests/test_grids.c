/* test_grids.c: neighbourhood and draft against their definitions, word for word. */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- neighbourhood ---- */

enum { AXES = 3 };

/* A grid as slow as its definition. */
typedef struct grid {
    hga_id shape[AXES], kernel[AXES], dilation[AXES], causal[AXES], n_axes, n;
} grid;

static hga_neighbourhood asked(const grid *x)
{
    return (hga_neighbourhood){.n_tokens = x->n,
                               .shape = x->shape,
                               .n_axes = x->n_axes,
                               .kernel = x->kernel,
                               .n_kernel = x->n_axes,
                               .dilation = x->dilation,
                               .n_dilation = x->n_axes,
                               .causal = x->causal,
                               .n_causal = x->n_axes};
}

/* Does i see j along an axis? Members of i's class are counted one by one. */
static int sees_along(const grid *x, hga_id a, hga_id i, hga_id j)
{
    hga_id step = x->dilation[a], kernel = x->kernel[a], members = 0, own = -1, other = -1;
    for (hga_id p = 0; p < x->shape[a]; p++) {
        if (p % step != i % step) continue;
        if (p == i) own = members;
        if (p == j) other = members;
        members++;
    }
    if (other < 0) return 0;
    if (x->causal[a]) return other <= own && other > own - kernel;
    hga_id first = own - kernel / 2;
    if (first > members - kernel) first = members - kernel;
    if (first < 0) first = 0;
    return other >= first && other < first + kernel;
}

static int sees(const grid *x, hga_id i, hga_id j)
{
    for (hga_id a = x->n_axes; a-- > 0; i /= x->shape[a], j /= x->shape[a])
        if (!sees_along(x, a, i % x->shape[a], j % x->shape[a])) return 0;
    return 1;
}

static hga_graph *neighbourhood(const grid *x)
{
    hga_graph *g;
    hga_program program;
    hga_neighbourhood p = asked(x);
    assert_ok(hga_build_neighbourhood(&p, &g, &program));
    assert_int_equal(program.has_lse, 1);
    return g;
}

static void assert_is_neighbourhood(const grid *x)
{
    char what[160];
    hga_graph *g = neighbourhood(x);
    int64_t n_got, n_want = 0;
    edge *got = all_rows(g, 0, &n_got), *want = memory((int64_t)x->n * x->n, sizeof *want);
    int causal = 1;
    for (hga_id i = 0; i < x->n; i++)
        for (hga_id j = 0; j < x->n; j++)
            if (sees(x, i, j)) want[n_want++] = (edge){.dst = i, .src = j};
    for (hga_id a = 0; a < x->n_axes; a++) causal &= x->causal[a];
    snprintf(what, sizeof what, "%d axes, %d,%d,%d, kernel %d,%d,%d, dilation %d,%d,%d, causal %d,%d,%d", x->n_axes,
             x->shape[0], x->shape[1], x->shape[2], x->kernel[0], x->kernel[1], x->kernel[2], x->dilation[0],
             x->dilation[1], x->dilation[2], x->causal[0], x->causal[1], x->causal[2]);
    assert_same_edges(what, got, n_got, want, n_want);
    assert_int_equal(hga_graph_relation(g, 0).n_explicit, 0);
    assert_int_equal((hga_graph_nodes(g).claims & HGA_CLAIM_CAUSAL) != 0, causal);
    assert_true(hga_graph_nodes(g).claims & HGA_CLAIM_SINGLE);
    hga_neighbourhood p = asked(x);
    assert_true(hga_variant_named("neighbourhood")->edges(&p) == (double)n_want);
    free(got), free(want);
    hga_graph_destroy(g);
}

/* One, two and three axes, kernels of any parity and length, dilations beyond the axis, axes causal or not. */
static void neighbourhoods_are_their_definition(void **state)
{
    (void)state;
    static const hga_id most[] = {60, 12, 6};
    for (uint64_t seed = 1, t = 0; t < 1500; t++) {
        grid x = {.n_axes = 1 + (hga_id)(t % AXES), .n = 1};
        for (hga_id a = 0; a < x.n_axes; a++) {
            x.shape[a] = 1 + random_below(&seed, most[x.n_axes - 1]);
            x.kernel[a] = 1 + random_below(&seed, 9);
            x.dilation[a] = random_below(&seed, 2) ? 1 : 1 + random_below(&seed, 8);
            x.causal[a] = random_below(&seed, 2);
            x.n *= x.shape[a];
        }
        assert_is_neighbourhood(&x);
    }
}

/* NATTEN's rule by its numbers: at an edge the window keeps its size, dilated within its residue. */
static void windows_keep_their_size_at_the_edges(void **state)
{
    (void)state;
    grid x = {.n_axes = 1, .shape = {10}, .kernel = {3}, .dilation = {2}, .n = 10};
    static const hga_id want[10][3] = {{0, 2, 4}, {1, 3, 5}, {0, 2, 4}, {1, 3, 5}, {2, 4, 6},
                                       {3, 5, 7}, {4, 6, 8}, {5, 7, 9}, {4, 6, 8}, {5, 7, 9}};
    hga_graph *g = neighbourhood(&x);
    hga_csr csr;
    assert_ok(hga_graph_rows(g, 0, 0, 10, &csr));
    assert_int_equal(csr.ptr[10], 30);
    assert_memory_equal(csr.src, want, sizeof want);
    hga_csr_clear(&csr);
    hga_graph_destroy(g);
}

static void one_number_stands_for_all_axes_and_none_for_the_default(void **state)
{
    (void)state;
    hga_graph *plain, *told;
    hga_program program;
    assert_ok(hga_build("neighbourhood shape=9,10 dilation=2", 0, &plain, &program));
    assert_ok(hga_build("neighborhood shape=9,10 kernel=7,7 dilation=2,2 causal=0,0", 90, &told, &program));
    int64_t n_plain, n_told;
    edge *a = all_rows(plain, 0, &n_plain), *b = all_rows(told, 0, &n_told);
    assert_same_edges("defaults", a, n_plain, b, n_told);
    free(a), free(b);
    hga_graph_destroy(plain), hga_graph_destroy(told);
    assert_ok(hga_build("neighbourhood kernel=3", 5, &plain, &program)); /* no shape: one axis */
    assert_int_equal(hga_graph_relation(plain, 0).n_edges, 15);
    hga_graph_destroy(plain);
}

static void a_grid_is_a_few_blocks(void **state)
{
    (void)state;
    hga_graph *g;
    hga_program program;
    assert_ok(hga_build("neighbourhood shape=64,64", 0, &g, &program));
    assert_int_equal(hga_graph_relation(g, 0).n_edges, 64 * 64 * 49);
    assert_int_equal(hga_graph_relation(g, 0).n_blocks, 13 * 3);
    hga_graph_destroy(g);
    assert_ok(hga_build("neighbourhood shape=4000,1000 kernel=5 causal=1", 0, &g, &program));
    assert_int_equal(hga_graph_relation(g, 0).n_blocks, 5);
    hga_graph_destroy(g);
}

/* ---- draft ---- */

static int follows(const int32_t *parent, hga_id i, hga_id j)
{
    while (i >= 0 && i != j) i = parent[i];
    return i == j;
}

/* Parents without a ring, in any order of drafts. */
static void draw_parents(uint64_t *seed, int32_t *parent, hga_id m)
{
    int32_t place[64], drawn[64];
    for (hga_id i = 0; i < m; i++) {
        hga_id at = random_below(seed, i + 1);
        place[i] = place[at], place[at] = i;
        drawn[i] = random_below(seed, i + 1) - 1;
    }
    for (hga_id i = 0; i < m; i++) parent[place[i]] = drawn[i] < 0 ? -1 : place[drawn[i]];
}

static void drafts_are_their_definition(void **state)
{
    (void)state;
    int32_t parent[64];
    for (uint64_t seed = 1, t = 0; t < 1000; t++) {
        hga_graph *g;
        hga_program program;
        hga_id m = 1 + random_below(&seed, 40), prefix = random_below(&seed, 30);
        draw_parents(&seed, parent, m);
        hga_draft p = {.n_tokens = m, .prefix = prefix, .parent = parent};
        if (t % 3 == 1) p.n_keys = prefix + m;
        if (t % 3 == 2) p.n_keys = prefix + m, p.prefix = -1;
        assert_ok(hga_build_draft(&p, &g, &program));
        hga_nodes nodes = hga_graph_nodes(g);
        assert_true(nodes.n_queries == m && nodes.key_first == m && nodes.n_keys == prefix + m);
        int64_t n_got, n_want = 0;
        edge *got = all_rows(g, 0, &n_got), *want = memory((int64_t)m * (prefix + m), sizeof *want);
        for (hga_id i = 0; i < m; i++)
            for (hga_id j = 0; j < prefix + m; j++)
                if (j < prefix || follows(parent, i, j - prefix)) want[n_want++] = (edge){.dst = i, .src = m + j};
        assert_same_edges("draft", got, n_got, want, n_want);
        assert_true(hga_variant_named("draft")->edges(&p) == (double)n_want);
        free(got), free(want);
        hga_graph_destroy(g);
    }
}

/* However many drafts there are, they have the prefix as one block. */
static void drafts_share_the_prefix(void **state)
{
    (void)state;
    hga_graph *g;
    hga_program program;
    assert_ok(hga_build("draft prefix=4096 parent=-1,0,0,1,1,2", 0, &g, &program));
    hga_relation r = hga_graph_relation(g, 0);
    assert_int_equal(r.n_blocks, 1);
    assert_int_equal(r.blocks[0].n_dst, 6);
    assert_int_equal(r.blocks[0].n_src, 4096);
    assert_int_equal(r.n_explicit, 1 + 2 + 2 + 3 + 3 + 3);
    hga_graph_destroy(g);
}

/* A draft tree in one call gives each draft what its own line gives it, appended to the prefix. */
static void a_draft_has_what_its_line_alone_gives(void **state)
{
    (void)state;
    enum { PREFIX = 19, M = 7, DIM = 4 };
    static const int32_t parent[M] = {-1, 4, 1, 0, 0, -1, 5};
    hga_graph *g;
    hga_program program;
    float *q = random_floats(1, 1, M * DIM), *k = random_floats(2, 1, (PREFIX + M) * DIM),
          *v = random_floats(3, 1, (PREFIX + M) * DIM);
    float out[M * DIM], alone[DIM], keys[(PREFIX + M) * DIM], values[(PREFIX + M) * DIM];
    hga_shape shape = {.n_heads = 1, .dim = DIM};
    assert_ok(hga_build_draft(&(hga_draft){.n_tokens = M, .prefix = PREFIX, .parent = parent}, &g, &program));
    hga_io io = {.query = {.data = q, .rows = M},
                 .key = {.data = k, .rows = PREFIX + M},
                 .value = {.data = v, .rows = PREFIX + M},
                 .out = {.data = out, .rows = M}};
    assert_ok(hga_attention(g, &program, &shape, NULL, &io));
    hga_graph_destroy(g);
    for (hga_id i = 0; i < M; i++) {
        hga_id n = PREFIX;
        memcpy(keys, k, PREFIX * DIM * sizeof *k), memcpy(values, v, PREFIX * DIM * sizeof *v);
        for (hga_id at = i; at >= 0; at = parent[at], n++) {
            memcpy(keys + n * DIM, k + (PREFIX + at) * DIM, DIM * sizeof *k);
            memcpy(values + n * DIM, v + (PREFIX + at) * DIM, DIM * sizeof *v);
        }
        char words[64];
        snprintf(words, sizeof words, "dense keys=%d", n);
        assert_ok(hga_build(words, 1, &g, &program));
        hga_io one = {.query = {.data = q + i * DIM, .rows = 1},
                      .key = {.data = keys, .rows = n},
                      .value = {.data = values, .rows = n},
                      .out = {.data = alone, .rows = 1}};
        assert_ok(hga_attention(g, &program, &shape, NULL, &one));
        assert_near_floats("draft", out + i * DIM, alone, DIM, 2e-6);
        hga_graph_destroy(g);
    }
    free(q), free(k), free(v);
}

/* ---- what has no meaning ---- */

static void refused(hga_status status, const char *words, hga_id n, const char *says)
{
    hga_graph *g = (hga_graph *)&(char){0};
    hga_program program;
    assert_status(status, hga_build(words, n, &g, &program));
    assert_null(g);
    if (!strstr(hga_error_detail(), says)) fail_msg("%s: '%s' does not say '%s'", words, hga_error_detail(), says);
}

static void what_has_no_meaning_is_refused_with_its_number(void **state)
{
    (void)state;
    refused(HGA_EINVAL, "neighbourhood", 0, "tokens: 0");
    refused(HGA_EINVAL, "neighbourhood shape=4,4", 15, "tokens: 15, but shape has 16");
    refused(HGA_EINVAL, "neighbourhood shape=2,2,2,2", 0, "shape: 4 axes");
    refused(HGA_EINVAL, "neighbourhood shape=4,0", 0, "shape: 0 is not in 1");
    refused(HGA_EOVERFLOW, "neighbourhood shape=65536,65536", 0, "shape");
    refused(HGA_EINVAL, "neighbourhood shape=4,4 kernel=3,3,3", 0, "kernel: 3 numbers for 2 axes");
    refused(HGA_EINVAL, "neighbourhood shape=4,4 kernel=0", 0, "kernel: 0 is not in 1");
    refused(HGA_EINVAL, "neighbourhood shape=4,4,4 dilation=1,2", 0, "dilation: 2 numbers for 3 axes");
    refused(HGA_EINVAL, "neighbourhood shape=4,4 causal=0,2", 0, "causal: number 1 is 2");
    refused(HGA_EINVAL, "neighbourhood shape=4,4 stride=2", 0, "no parameter 'stride'");
    refused(HGA_EINVAL, "draft prefix=3", 2, "parent: NULL");
    refused(HGA_EINVAL, "draft parent=-1,0", 0, "prefix");
    refused(HGA_EINVAL, "draft prefix=3 parent=-1,0 keys=4", 0, "keys: 4, but a prefix of 3 and 2 drafts are 5");
    refused(HGA_EINVAL, "draft parent=-1,0,1 keys=2", 0, "keys: 2, fewer than the 3 drafts");
    refused(HGA_EINVAL, "draft prefix=3 parent=-1,2", 0, "draft 1 follows 2");
    refused(HGA_EINVAL, "draft prefix=3 parent=-1,1", 0, "draft 1 follows itself");
    refused(HGA_EINVAL, "draft prefix=3 parent=-1,3,1,2", 0, "follows itself by way of");
    refused(HGA_EINVAL, "draft prefix=3 parent=-2", 0, "parent: -2 is not in -1");
    refused(HGA_EINVAL, "draft prefix=3 parent=-1,0", 3, "tokens: 3, but parent has 2");
    refused(HGA_EOVERFLOW, "draft prefix=2147483640 parent=-1,0,0,0", 0, "prefix");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbourhoods_are_their_definition),
        cmocka_unit_test(windows_keep_their_size_at_the_edges),
        cmocka_unit_test(one_number_stands_for_all_axes_and_none_for_the_default),
        cmocka_unit_test(a_grid_is_a_few_blocks),
        cmocka_unit_test(drafts_are_their_definition),
        cmocka_unit_test(drafts_share_the_prefix),
        cmocka_unit_test(a_draft_has_what_its_line_alone_gives),
        cmocka_unit_test(what_has_no_meaning_is_refused_with_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
