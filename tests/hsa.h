/* hsa.h: HSA by the definition, by the caller's ids. */
#ifndef HGA_TESTS_HSA_H
#define HGA_TESTS_HSA_H

#include "testing.h"

#include <string.h>

static inline hga_graph *build(const hga_hsa *h, hga_program *p)
{
    hga_graph *g;
    assert_ok(hga_build_hsa(h, &g, p));
    return g;
}

static inline hga_hsa windows(hga_id n, const hga_id *branching, hga_id n_branching)
{
    hga_hsa h;
    hga_defaults(&h);
    h.n_tokens = n, h.branching = branching, h.n_branching = n_branching;
    return h;
}

static inline hga_hsa tree(const hga_id *parent, hga_id n, hga_id *node_of)
{
    hga_hsa h;
    hga_defaults(&h);
    h.parent = parent, h.n_parent = n, h.node_of = node_of;
    return h;
}

/* ---- the definition, by the caller's ids ---- */

enum { MOST = 400 };
static const hga_id ragged[] = {-1, 0, 0, 2, 2, 0, 1, 6};

/* A tree with what the definitions speak of. Leaves are numbered depth first, children by increasing id. */
typedef struct family_tree {
    hga_id n, n_leaves;
    const hga_id *parent;
    hga_id leaf[MOST];  /* leaf -> node */
    hga_id index[MOST]; /* node -> leaf, -1 above */
    hga_id size[MOST], height[MOST], first[MOST];
    hga_id node_of[MOST]; /* the graph's ids, as the builder says */
} family_tree;

static inline void visit(family_tree *t, hga_id v)
{
    t->size[v] = t->height[v] = 0, t->index[v] = -1, t->first[v] = t->n_leaves;
    for (hga_id c = 0; c < t->n; c++) {
        if (t->parent[c] != v) continue;
        visit(t, c);
        t->size[v] += t->size[c];
        if (t->height[v] <= t->height[c]) t->height[v] = t->height[c] + 1;
    }
    if (t->size[v]) return;
    t->size[v] = 1, t->index[v] = t->n_leaves;
    t->leaf[t->n_leaves++] = v;
}

static inline void understand(family_tree *t, const hga_id *parent, hga_id n)
{
    t->n = n, t->n_leaves = 0, t->parent = parent;
    assert_true(n <= MOST);
    for (hga_id v = 0; v < n; v++)
        if (parent[v] < 0) visit(t, v);
}

static inline int is_leaf(const family_tree *t, hga_id v) { return t->index[v] >= 0; }

static inline int siblings(const family_tree *t, hga_id a, hga_id b)
{
    return a != b && t->parent[a] >= 0 && t->parent[a] == t->parent[b];
}

/* ids in no order: the same tree with its nodes renamed */
static inline void shuffle_names(hga_id *parent, hga_id n, uint64_t *rng)
{
    hga_id name[MOST], old[MOST];
    for (hga_id i = 0; i < n; i++) {
        hga_id j = random_below(rng, i + 1);
        name[i] = name[j], name[j] = i;
    }
    memcpy(old, parent, (size_t)n * sizeof *old);
    for (hga_id i = 0; i < n; i++) parent[name[i]] = old[i] < 0 ? -1 : name[old[i]];
}

#endif
