/* random_graph.c: random trees, and random graphs with every sort of edge. */
#include "testing.h"

#include <stdlib.h>

/* ---- random trees ---- */

/* Put a new node over the `size` first of the roots; a lone root may also stay as it is. Returns what stands in their
   place. */
static hga_id join(hga_id *parent, const hga_id *root, hga_id size, uint64_t *rng, hga_id *n)
{
    if (size == 1 && random_below(rng, 2)) return root[0];
    for (hga_id i = 0; i < size; i++) parent[root[i]] = *n;
    parent[*n] = -1;
    return (*n)++;
}

hga_id *random_tree(uint64_t seed, hga_id leaves, hga_id *n)
{
    enum { MORE = 8 }; /* every pass at least keeps its count, and joins half of the roots in the mean */
    hga_id capacity = leaves * MORE + 256, *parent = memory(capacity, sizeof *parent),
           *root = memory(leaves, sizeof *root), count = leaves;
    for (hga_id i = 0; i < leaves; i++) parent[i] = -1, root[i] = i;
    *n = leaves;
    while (count > 1) {
        hga_id kept = 0;
        for (hga_id i = 0, size; i < count; i += size) {
            size = 1 + random_below(&seed, 5);
            if (size > count - i) size = count - i;
            if (*n >= capacity - 2) size = count - i;
            root[kept++] = join(parent, root + i, size, &seed, n);
        }
        count = kept;
    }
    free(root);
    return parent;
}

/* ---- random graphs ---- */

/* Levels over level 0 of n nodes, each family of 1 to 4, up to `height`. Returns the nodes in all. */
static hga_id add_levels(hga_builder *b, uint64_t *rng, hga_id n, int height)
{
    hga_id first, below, total = n;
    assert_ok(hga_builder_add_level(b, n, &below));
    for (int l = 1; l <= height && n > 1; l++) {
        hga_id each = 1 + random_below(rng, 4), above = (n + each - 1) / each;
        assert_ok(hga_builder_add_level(b, above, &first));
        assert_ok(hga_builder_set_families(b, first, below, n, each));
        below = first, n = above, total += above;
    }
    return total;
}

/* An interval [*first, *first + *size) inside [0, n) of at most `most`. */
static void interval(uint64_t *rng, hga_id n, hga_id most, hga_id *first, hga_id *size)
{
    *size = 1 + random_below(rng, most < n ? most : n);
    *first = random_below(rng, n - *size + 1);
}

static hga_block random_block(uint64_t *rng, hga_id n, unsigned with)
{
    hga_block b = {.count = 1, .shape = (hga_shape_kind)random_below(rng, HGA_BAND + 1)};
    interval(rng, n, 40, &b.dst, &b.n_dst);
    interval(rng, n, 40, &b.src, &b.n_src);
    b.dst_step = random_below(rng, 2 * b.n_dst + 1), b.src_step = random_below(rng, 2 * b.n_src + 1);
    while (b.count < 5 && b.dst + b.count * b.dst_step + b.n_dst <= n && b.src + b.count * b.src_step + b.n_src <= n)
        b.count++;
    b.band_first = random_below(rng, 9) - 6, b.band_last = b.band_first + random_below(rng, 9);
    if (with & WITH_TYPES)
        b.type = random_below(rng, 4), b.type_dst = random_below(rng, 3), b.type_src = random_below(rng, 3);
    if (with & WITH_WEIGHTS) b.weight = 0.25f * (float)(1 + random_below(rng, 8));
    if ((with & WITH_POSITIONS) && random_below(rng, 2)) {
        b.pos_of = 1 + random_below(rng, n);
        b.pos_step = random_below(rng, 1 + (n - b.pos_of) / b.count);
    }
    if ((with & WITH_POSITIONS) && random_below(rng, 4) == 0) {
        b.src_pos_of = 1 + random_below(rng, n);
        b.src_pos_step = random_below(rng, 1 + (n - b.src_pos_of) / b.count);
    }
    return b;
}

/* A weight that depends on the edge alone, so that an edge given twice agrees with itself. */
static float edge_weight(hga_id source, hga_id destination, int32_t type, unsigned with)
{
    uint64_t stream = (uint64_t)source * 1000003u + (uint64_t)destination * 10007u + (uint64_t)type;
    return with & WITH_WEIGHTS ? 0.125f * (float)(1 + random_below(&stream, 16)) : 1.0f;
}

static void add_edges(hga_builder *b, uint64_t *rng, hga_id relation, hga_id n, unsigned with)
{
    for (hga_id i = 0; i < 6 * n; i++) {
        hga_id source = random_below(rng, n), destination = random_below(rng, n);
        if (destination % 7 == 3) continue; /* rows without explicit edges */
        int32_t type = with & WITH_TYPES ? random_below(rng, 5) : 0;
        assert_ok(
            hga_builder_add_edge(b, relation, source, destination, type, edge_weight(source, destination, type, with)));
    }
}

static hga_id *permutation(uint64_t *rng, hga_id n)
{
    hga_id *p = memory(n, sizeof *p);
    for (hga_id i = 0; i < n; i++) {
        hga_id j = random_below(rng, i + 1);
        p[i] = p[j], p[j] = i;
    }
    return p;
}

static void set_random_orders(hga_builder *b, uint64_t *rng, hga_id relation, hga_id n)
{
    hga_id *dst = permutation(rng, n), *src = permutation(rng, n);
    assert_ok(hga_builder_set_order(b, relation, dst, n, src, n));
    free(dst), free(src);
}

hga_graph *random_graph(uint64_t seed, hga_id n_tokens, unsigned with)
{
    hga_builder *b;
    hga_graph *g;
    hga_id relation;
    assert_ok(hga_builder_create(NULL, &b));
    hga_id n = add_levels(b, &seed, n_tokens, 3);
    assert_ok(hga_builder_add_relation(b, "near", &relation));
    if (with & WITH_ORDERS) set_random_orders(b, &seed, relation, n);
    for (hga_id i = 0; (with & WITH_BLOCKS) && i < 12 + n / 25; i++) {
        hga_block block = random_block(&seed, n, with);
        assert_ok(hga_builder_add_blocks(b, relation, &block));
    }
    if (with & WITH_EDGES) add_edges(b, &seed, relation, n, with);
    assert_ok(hga_builder_finish(b, &g));
    hga_builder_destroy(b);
    return g;
}
