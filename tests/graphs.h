/* graphs.h: small graphs with something of everything, and what it means that two graphs or two lists of edges are
   equal. For the tests of graph/. */
#ifndef GRAPHS_H
#define GRAPHS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hga_graph.h"

#define SUCCEEDS(call)                                                                 \
    do {                                                                               \
        hga_status status_ = (call);                                                   \
        if (status_) fail_msg("%s: %s", hga_status_name(status_), hga_error_detail()); \
    } while (0)

/* The call fails with this status and the error text holds these words. */
#define FAILS(status, words, call)                                                                                     \
    do {                                                                                                               \
        hga_status status_ = (call);                                                                                   \
        if (status_ != (status))                                                                                       \
            fail_msg("%s, not %s: %s", hga_status_name(status_), hga_status_name(status), hga_error_detail());         \
        if (!strstr(hga_error_detail(), (words))) fail_msg("\"%s\" does not say \"%s\"", hga_error_detail(), (words)); \
    } while (0)

/* ---- random numbers ---- */

static inline uint64_t random_bits(uint64_t *seed)
{
    uint64_t z = *seed += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static inline hga_id random_up_to(uint64_t *seed, hga_id most)
{
    return (hga_id)(random_bits(seed) % (uint64_t)(most + 1));
}

/* ---- an allocator that fails once ---- */

typedef struct scarce {
    _Atomic int64_t left, blocks; /* allocations until the one that fails; blocks not given back */
} scarce;

static inline void *scarce_allocate(size_t bytes, void *context)
{
    scarce *s = context;
    if (s->left-- == 0) return NULL;
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (p) s->blocks++;
    return p;
}

static inline void scarce_release(void *memory, size_t bytes, void *context)
{
    (void)bytes;
    ((scarce *)context)->blocks--;
    free(memory);
}

static inline hga_allocator scarce_allocator(scarce *s) { return (hga_allocator){scarce_allocate, scarce_release, s}; }

/* ---- edges ---- */

typedef struct edge {
    hga_id dst, src;
    int32_t type;
    float weight;
} edge;

typedef struct edges {
    int64_t n, capacity;
    edge *e;
} edges;

static inline void edges_add(edges *list, edge e)
{
    if (list->n == list->capacity) {
        list->capacity = 2 * list->capacity + 16;
        list->e = realloc(list->e, (size_t)list->capacity * sizeof *list->e);
        assert_non_null(list->e);
    }
    list->e[list->n++] = e;
}

static inline int edge_order(const void *x, const void *y)
{
    const edge *a = x, *b = y;
    if (a->dst != b->dst) return a->dst < b->dst ? -1 : 1;
    if (a->src != b->src) return a->src < b->src ? -1 : 1;
    if (a->type != b->type) return a->type < b->type ? -1 : 1;
    return (a->weight > b->weight) - (a->weight < b->weight);
}

static inline void edges_sort(edges *list)
{
    if (list->n) qsort(list->e, (size_t)list->n, sizeof *list->e, edge_order);
}

/* A relation's edges in the order hga_graph_rows gives them. */
static inline edges edges_of(const hga_graph *g, hga_id relation)
{
    edges list = {0};
    hga_csr rows;
    hga_id n = hga_graph_nodes(g).n;
    SUCCEEDS(hga_graph_rows(g, relation, 0, n, &rows));
    for (hga_id v = 0; v < n; v++)
        for (hga_pos e = rows.ptr[v]; e < rows.ptr[v + 1]; e++)
            edges_add(&list, (edge){v, rows.src[e], rows.type[e], rows.weight[e]});
    hga_csr_clear(&rows);
    assert_int_equal(list.n, hga_graph_relation(g, relation).n_edges);
    return list;
}

/* Frees both. */
static inline void assert_equal_edges(edges a, edges b)
{
    assert_int_equal(a.n, b.n);
    for (int64_t i = 0; i < a.n; i++)
        if (edge_order(&a.e[i], &b.e[i]) != 0)
            fail_msg("edge %lld: %d -> %d type %d weight %g, not %d -> %d type %d weight %g", (long long)i, a.e[i].src,
                     a.e[i].dst, a.e[i].type, (double)a.e[i].weight, b.e[i].src, b.e[i].dst, b.e[i].type,
                     (double)b.e[i].weight);
    free(a.e), free(b.e);
}

static inline void assert_equal_rows(const hga_graph *a, const hga_graph *b)
{
    assert_int_equal(hga_graph_nodes(a).n_relations, hga_graph_nodes(b).n_relations);
    for (hga_id i = 0; i < hga_graph_nodes(a).n_relations; i++) assert_equal_edges(edges_of(a, i), edges_of(b, i));
}

/* ---- graphs ---- */

static inline void assert_equal_arrays(const char *what, const void *a, const void *b, int64_t n, size_t size)
{
    if (!a != !b) fail_msg("one graph has no %s", what);
    if (a && n > 0 && memcmp(a, b, (size_t)n * size) != 0) fail_msg("the %s differ", what);
}

static inline void assert_equal_nodes(const hga_graph *g, const hga_graph *h)
{
    hga_nodes a = hga_graph_nodes(g), b = hga_graph_nodes(h);
    assert_int_equal(a.n, b.n);
    assert_int_equal(a.n_levels, b.n_levels);
    assert_int_equal(a.n_relations, b.n_relations);
    assert_equal_arrays("levels", a.level_ptr, b.level_ptr, a.n_levels + 1, sizeof(hga_id));
    assert_equal_arrays("parents", a.parent, b.parent, a.n, sizeof(hga_id));
    assert_equal_arrays("sides", a.side, b.side, a.n, 1);
    assert_equal_arrays("masses", a.mass, b.mass, a.n, sizeof(float));
    assert_equal_arrays("first tokens", a.span_first, b.span_first, a.n, sizeof(hga_id));
    assert_equal_arrays("last tokens", a.span_last, b.span_last, a.n, sizeof(hga_id));
    assert_equal_arrays("children", a.child_ptr, b.child_ptr, a.n - a.level_ptr[1] + 1, sizeof(hga_id));
    assert_equal_arrays("lists of children", a.child_list, b.child_list,
                        a.child_list ? a.child_ptr[a.n - a.level_ptr[1]] : 0, sizeof(hga_id));
    assert_int_equal(a.query_first, b.query_first);
    assert_int_equal(a.n_queries, b.n_queries);
    assert_int_equal(a.key_first, b.key_first);
    assert_int_equal(a.n_keys, b.n_keys);
    assert_int_equal(a.claims, b.claims);
}

/* All that a view of a relation shows. */
static inline void assert_equal_relations(const hga_graph *g, const hga_graph *h)
{
    assert_equal_nodes(g, h);
    hga_id n = hga_graph_nodes(g).n;
    for (hga_id i = 0; i < hga_graph_nodes(g).n_relations; i++) {
        hga_relation a = hga_graph_relation(g, i), b = hga_graph_relation(h, i);
        assert_string_equal(a.name, b.name);
        assert_int_equal(a.n_edges, b.n_edges);
        assert_int_equal(a.n_blocks, b.n_blocks);
        assert_int_equal(a.n_explicit, b.n_explicit);
        assert_int_equal(a.n_src_order, b.n_src_order);
        assert_int_equal(a.n_types, b.n_types);
        assert_int_equal(a.weighted, b.weighted);
        assert_int_equal(a.positioned, b.positioned);
        assert_equal_arrays("blocks", a.blocks, b.blocks, a.n_blocks, sizeof(hga_block));
        assert_equal_arrays("row orders", a.dst_order, b.dst_order, n, sizeof(hga_id));
        assert_equal_arrays("row ranks", a.dst_rank, b.dst_rank, n, sizeof(hga_id));
        assert_equal_arrays("column orders", a.src_order, b.src_order, a.n_src_order, sizeof(hga_id));
        assert_equal_arrays("row pointers", a.ptr, b.ptr, n + 1, sizeof(hga_pos));
        assert_equal_arrays("sources", a.src, b.src, a.n_explicit, sizeof(hga_id));
        assert_equal_arrays("types", a.type, b.type, a.n_explicit, sizeof(int32_t));
        assert_equal_arrays("weights", a.weight, b.weight, a.n_explicit, sizeof(float));
    }
}

static inline hga_graph *finished(hga_builder *b)
{
    hga_graph *g;
    SUCCEEDS(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    return g;
}

/* n tokens and relation `near`, which has no edges yet. */
static inline hga_builder *tokens_near(hga_id n, hga_id *near)
{
    hga_builder *b;
    SUCCEEDS(hga_builder_create(NULL, &b));
    SUCCEEDS(hga_builder_add_level(b, n, NULL));
    SUCCEEDS(hga_builder_add_relation(b, "near", near));
    return b;
}

/* A binary tree over eight tokens: blocks of every shape, orders, explicit edges with types and weights, positions, a
   mass, a claim. */
static inline hga_graph *mixed_graph(const hga_allocator *a)
{
    hga_builder *b;
    hga_id near, loose, ordered;
    SUCCEEDS(hga_builder_create(a, &b));
    for (hga_id n = 8; n >= 1; n /= 2) SUCCEEDS(hga_builder_add_level(b, n, NULL));
    SUCCEEDS(hga_builder_set_families(b, 8, 0, 14, 2));
    SUCCEEDS(hga_builder_set_mass(b, 3, 0.1f));
    SUCCEEDS(hga_builder_set_claims(b, HGA_CLAIM_CAUSAL | HGA_CLAIM_COMPLETE));
    SUCCEEDS(hga_builder_add_relation(b, "near", &near));
    for (int shape = HGA_ALL; shape <= HGA_BAND; shape++) {
        hga_block block = {.dst = shape,
                           .n_dst = 3,
                           .src = 1,
                           .n_src = 4,
                           .type = 20,
                           .type_dst = -1,
                           .type_src = 2,
                           .shape = (hga_shape_kind)shape};
        if (shape == HGA_BAND) block.band_first = -1, block.band_last = 2;
        if (shape == HGA_LOWER)
            block.count = 3, block.dst_step = 4, block.src_step = 2, block.pos_of = 9, block.pos_step = 1;
        if (shape == HGA_UPPER) block.weight = 0.3f;
        SUCCEEDS(hga_builder_add_blocks(b, near, &block));
    }
    SUCCEEDS(hga_builder_add_relation(b, "loose \"edges\"", &loose));
    SUCCEEDS(hga_builder_add_edge(b, loose, 0, 14, 3, 1));
    SUCCEEDS(hga_builder_add_edge(b, loose, 5, 2, 0, 1));
    SUCCEEDS(hga_builder_add_edge(b, loose, 5, 2, 4, 1.0f / 3));
    SUCCEEDS(hga_builder_add_edge(b, loose, 1, 2, 0, 3e-30f));
    SUCCEEDS(hga_builder_add_relation(b, "ordered", &ordered));
    SUCCEEDS(hga_builder_set_order(b, ordered, (hga_id[]){7, 3, 12, 13, 14, 0}, 6, (hga_id[]){6, 4, 2, 0, 1}, 5));
    SUCCEEDS(hga_builder_add_block(b, ordered, 0, 4, 1, 3, 2));
    SUCCEEDS(hga_builder_add_edge(b, ordered, 11, 9, 1, 1));
    return finished(b);
}

/* Five queries after three keys, one coarse level with both sides. */
static inline hga_graph *cross_graph(const hga_allocator *a)
{
    hga_builder *b;
    hga_id near, up;
    SUCCEEDS(hga_builder_create(a, &b));
    SUCCEEDS(hga_builder_add_level(b, 8, NULL));
    SUCCEEDS(hga_builder_add_level(b, 5, NULL));
    SUCCEEDS(hga_builder_set_tokens(b, 3, 5, 0, 3));
    SUCCEEDS(hga_builder_set_side(b, 8, 2, HGA_SIDE_KEY));
    SUCCEEDS(hga_builder_set_side(b, 10, 3, HGA_SIDE_QUERY));
    SUCCEEDS(hga_builder_set_families(b, 8, 0, 3, 2));
    SUCCEEDS(hga_builder_set_families(b, 10, 3, 5, 2));
    SUCCEEDS(hga_builder_add_relation(b, "near", &near));
    SUCCEEDS(hga_builder_add_block(b, near, 3, 5, 0, 3, 0));
    SUCCEEDS(hga_builder_add_block(b, near, 10, 2, 8, 2, 1));
    SUCCEEDS(hga_builder_add_edge(b, near, 9, 12, 2, 0.5f));
    SUCCEEDS(hga_builder_add_relation(b, "up", &up));
    SUCCEEDS(hga_builder_add_blocks(
        b, up, &(hga_block){.dst = 10, .n_dst = 1, .src = 3, .n_src = 2, .count = 2, .dst_step = 1, .src_step = 2}));
    return finished(b);
}

/* A random partial order of [0, n). */
static inline hga_id random_order(uint64_t *seed, hga_id n, hga_id *order)
{
    for (hga_id i = 0; i < n; i++) order[i] = i;
    for (hga_id i = n - 1; i > 0; i--) {
        hga_id j = random_up_to(seed, i), x = order[i];
        order[i] = order[j], order[j] = x;
    }
    return 1 + random_up_to(seed, n - 1);
}

static inline void add_random_block(uint64_t *seed, hga_builder *b, hga_id relation, hga_id n_rows, hga_id n_columns)
{
    hga_block x = {.n_dst = 1 + random_up_to(seed, n_rows < 5 ? n_rows - 1 : 4),
                   .n_src = 1 + random_up_to(seed, n_columns < 5 ? n_columns - 1 : 4)};
    hga_id rows = n_rows - x.n_dst, columns = n_columns - x.n_src;
    x.dst = random_up_to(seed, rows), x.src = random_up_to(seed, columns);
    x.count = random_up_to(seed, 4);
    if (x.count > 1) {
        x.dst_step = random_up_to(seed, (rows - x.dst) / (x.count - 1));
        x.src_step = random_up_to(seed, (columns - x.src) / (x.count - 1));
    }
    x.shape = (hga_shape_kind)random_up_to(seed, HGA_BAND);
    if (x.shape == HGA_BAND) x.band_first = -random_up_to(seed, 2), x.band_last = x.band_first + random_up_to(seed, 3);
    x.type = 20 + random_up_to(seed, 3), x.type_dst = random_up_to(seed, 4) - 2, x.type_src = random_up_to(seed, 4) - 2;
    if (random_up_to(seed, 2) == 0) x.weight = (float)(1 + random_up_to(seed, 5)) / 3;
    if (random_up_to(seed, 2) == 0) x.pos_of = 1 + random_up_to(seed, 3), x.pos_step = random_up_to(seed, 1);
    if (random_up_to(seed, 2) == 0) x.src_pos_of = 1 + random_up_to(seed, 3), x.src_pos_step = random_up_to(seed, 1);
    SUCCEEDS(hga_builder_add_blocks(b, relation, &x));
}

/* Two levels and a few stray nodes above, any parents, two relations of anything; `cross` makes the first tokens keys
   or queries. */
static inline hga_graph *random_graph(uint64_t seed, int cross)
{
    hga_builder *b;
    SUCCEEDS(hga_builder_create(NULL, &b));
    hga_id n0 = 6 + random_up_to(&seed, 20), n1 = 2 + random_up_to(&seed, 6), n = n0 + n1 + 2, order[64], relation;
    SUCCEEDS(hga_builder_add_level(b, n0, NULL));
    SUCCEEDS(hga_builder_add_level(b, n1, NULL));
    SUCCEEDS(hga_builder_add_level(b, 2, NULL));
    if (cross) {
        hga_id m = 1 + random_up_to(&seed, n0 - 2), queries_first = random_up_to(&seed, 1);
        SUCCEEDS(hga_builder_set_tokens(b, queries_first ? 0 : m, queries_first ? m : n0 - m, queries_first ? m : 0,
                                        queries_first ? n0 - m : m));
        for (hga_id v = n0; v < n; v++) SUCCEEDS(hga_builder_set_side(b, v, 1, random_up_to(&seed, 2)));
    }
    for (hga_id v = 0; v < n0; v++)
        if (random_up_to(&seed, 4)) SUCCEEDS(hga_builder_set_children(b, n0 + random_up_to(&seed, n1 - 1), v, 1));
    for (int i = 0; i < 3; i++)
        SUCCEEDS(hga_builder_set_mass(b, random_up_to(&seed, n - 1), (float)random_up_to(&seed, 9) / 7));
    SUCCEEDS(hga_builder_set_claims(b, (uint32_t)random_up_to(&seed, 7)));
    static const char *const names[] = {"near", "far"};
    int swapped = random_up_to(&seed, 1);
    for (int k = 0; k < 2; k++) {
        if (k == 1 && random_up_to(&seed, 3) == 0) continue;
        hga_id n_columns = n, n_dst;
        SUCCEEDS(hga_builder_add_relation(b, names[k ^ swapped], &relation));
        if (random_up_to(&seed, 2) == 0) {
            n_dst = random_order(&seed, n, order);
            SUCCEEDS(hga_builder_set_order(b, relation, order, n_dst, NULL, 0));
        } else if (random_up_to(&seed, 2) == 0) {
            n_columns = random_order(&seed, n, order);
            SUCCEEDS(hga_builder_set_order(b, relation, NULL, 0, order, n_columns));
        }
        for (int i = random_up_to(&seed, 6); i > 0; i--) add_random_block(&seed, b, relation, n, n_columns);
        for (int i = random_up_to(&seed, 20); i > 0; i--) {
            hga_id u = random_up_to(&seed, n - 1), v = random_up_to(&seed, n - 1);
            SUCCEEDS(hga_builder_add_edge(b, relation, u, v, random_up_to(&seed, 3), (float)(1 + (u + v) % 3) / 2));
        }
    }
    return finished(b);
}

/* ---- failures ---- */

/* Makes a graph of another: whichever allocation fails, nothing is made and nothing left allocated. */
static inline void assert_nothing_is_left_behind(hga_status (*make)(const hga_graph *g, hga_graph **out))
{
    scarce s = {INT64_MAX, 0};
    hga_allocator a = scarce_allocator(&s);
    hga_graph *g = mixed_graph(&a), *made = NULL;
    int64_t held = s.blocks;
    for (int64_t n = 0; !made; n++) {
        s.left = n;
        hga_status st = make(g, &made);
        if (st) assert_int_equal(st, HGA_ENOMEM), assert_null(made), assert_int_equal(s.blocks, held);
    }
    s.left = INT64_MAX;
    hga_graph_destroy(made), hga_graph_destroy(g);
    assert_int_equal(s.blocks, 0);
}

/* ---- files ---- */

/* How many files there are in the working directory. */
static inline int files_here(void)
{
    int n = 0;
    DIR *here = opendir(".");
    assert_non_null(here);
    while (readdir(here)) n++;
    closedir(here);
    return n;
}

/* A name in the working directory that only this process uses. */
static inline const char *scratch(const char *suffix)
{
    static char name[8][64];
    static int next;
    char *text = name[next++ % 8];
    snprintf(text, sizeof name[0], "scratch-%ld%s", (long)getpid(), suffix);
    return text;
}

/* The whole file, ended by a NUL, for free(). */
static inline char *file_bytes(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot read %s", path);
    size_t capacity = 1 << 16;
    char *text = NULL;
    *n = 0;
    for (size_t got = 1; got > 0; *n += got) {
        if (!text || *n + 1 >= capacity) text = realloc(text, capacity *= 2);
        assert_non_null(text);
        got = fread(text + *n, 1, capacity - *n - 1, f);
    }
    fclose(f);
    text[*n] = 0;
    return text;
}

static inline void write_bytes(const char *path, const char *text, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f) fail_msg("cannot write %s", path);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

#endif
