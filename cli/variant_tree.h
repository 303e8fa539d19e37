/* variant_tree.h: trees of hyperplanes, and the leaves that they send tokens to. */
#ifndef CLI_VARIANT_TREE_H
#define CLI_VARIANT_TREE_H

#include "variant.h"

/* One side's leaves, [n][heads]. */
typedef struct leaves {
    int32_t *leaf;
    hga_id n, heads;
} leaves;

typedef struct tree {
    hga_id height;           /* -1: not known */
    const hga_id *branching; /* NULL: binary */
    int64_t rows;            /* hyperplanes */
} tree;

/* The hyperplanes of one side and the vectors they judge. */
typedef struct routing {
    const tree *tree;
    const npy *weights, *bias, *x;
    hga_id heads, x_heads, dim;
    hga_id tree_heads, tree_dim;
} routing;

int tree_read(const settings *s, tree *t);
/* The hyperplanes of the queries, or of the keys, by the names of their parameters. */
int tree_routing(const variant_job *job, const tree *t, const char *weights, const char *bias, int keys, routing *r);
/* The leaves they send the tokens to. */
int tree_route(const routing *r, leaves *out);
/* Which tree head t has; its hyperplanes; and the vectors that they judge, where there are leaves for `heads`. */
static inline int64_t tree_of_head(const routing *r, hga_id t) { return r->tree_heads > 1 ? t : 0; }
hga_router tree_router(const routing *r, hga_id t);
const float *tree_vectors(const routing *r, hga_id t, hga_id heads);

/* The leaves of both sides, of one number of heads; key.leaf NULL: those of the queries. The caller frees them. */
int treeformer_leaves(const variant_job *job, const tree *t, leaves *query, leaves *key);

/* ---- variant_tree_gradient.c ---- */

typedef enum tree_table { TREE_WEIGHTS, TREE_BIAS, TREE_KEY_WEIGHTS, TREE_KEY_BIAS, N_TREE_TABLES } tree_table;

/* The array that a gradient has the shape of; NULL when none was typed. */
const npy *tree_table_of(const settings *s, tree_table which);

/* What attention asks of the paths, [tokens][heads] with `heads` trees: fine of the whole path, coarse of every level's
   part, [tokens][heads][height + 1]. */
typedef struct tree_asks {
    hga_id heads;
    const float *query, *key;
    int by_level;
} tree_asks;

/* The straight-through gradients of hyperplanes (docs/treeformer-fine.md) are added to sum[], NULL where not wanted. */
int tree_gradients(const variant_job *job, const tree *t, const tree_asks *asks, float *const *sum);

#endif
