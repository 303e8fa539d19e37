/* hga_builders.h: the hierarchies of the literature and of texts. Each makes a graph and the program that runs on it,
   with the public graph and program interface alone: any of these files is an example of how to write your own.
   Parameters start from the variant's defaults, which are not all zero: hga_bpt p; hga_defaults(&p); p.n_tokens =
   4096; hga_build_bpt(&p, &g, &program). Causal self-attention (dense, windows without stride, bpt, htransformer,
   hsa's frontiers under a branching, fenwick) sets a longer graph (hga_builder_set_longer): tokens, and nodes whose
   tokens all exist, have the bits that they have in the builder's graph of any more tokens. Reserved words stay zero
   (hga_check_reserved). Every function returns HGA_EINVAL (or HGA_EUNSUPPORTED for a combination without meaning)
   with the parameter named in hga_error_detail(). The graph belongs to the caller (hga_graph_destroy); the program is
   plain data. Arrays in parameters are borrowed for the call. Any number of threads may build at once. */
#ifndef HGA_BUILDERS_H
#define HGA_BUILDERS_H

#include "hga_program.h"
#include "hga_select.h"
#include "hga_variants.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Dense attention. n_keys = 0: self-attention; else cross-attention of n_tokens queries. Relation `near`. */
typedef struct hga_dense {
    hga_id n_tokens, n_keys;
    int causal;
    const hga_allocator *allocator;
    uint64_t reserved[4];
} hga_dense;
/* Make the graph and the program of dense attention: every query token sees every key token, or those up to itself. *g
   is then yours (hga_graph_destroy). */
HGA_API hga_status hga_build_dense(const hga_dense *p, hga_graph **g, hga_program *program);

/* Sliding window, Longformer's global tokens, Sparse Transformer's stride: i sees j if -left <= j - i <= right and
   stride divides j - i, or i < global or j < global; causal then removes j > i. left, right < 0 mean no limit. Relation
   `near`. */
typedef struct hga_window {
    hga_id n_tokens, n_keys, left, right, global, stride;
    int causal;
    const hga_allocator *allocator;
    uint64_t reserved[4];
} hga_window;
/* Make the graph and the program of a sliding window: every token sees its neighbours, and those that are global. *g is
   then yours (hga_graph_destroy). */
HGA_API hga_status hga_build_window(const hga_window *p, hga_graph **g, hga_program *program);

/* BP-Transformer (Ye et al. 2019, section 3; builders/README.md says what the rules mean). Rows of every tensor are
   nodes. Relation `near`. */
typedef enum hga_bpt_rule { HGA_BPT_SHIFTED, HGA_BPT_TEXT, HGA_BPT_ALGORITHM1 } hga_bpt_rule;
typedef struct hga_bpt {
    hga_id n_tokens, k, clip;
    hga_bpt_rule rule;
    int causal;
    const hga_allocator *allocator;
    uint64_t reserved[4];
} hga_bpt;
/* Make the graph and the program of BP-Transformer: a token sees near tokens, and spans that double in size. Tensors
   have a row for each of hga_bpt_nodes(n_tokens) nodes. *g is then yours (hga_graph_destroy). */
HGA_API hga_status hga_build_bpt(const hga_bpt *p, hga_graph **g, hga_program *program);
/* Nodes of BP-Transformer's tree over n tokens: the sum of the level sizes. -1 if there is none. */
HGA_API hga_id hga_bpt_nodes(hga_id n_tokens);
/* The tokens over which BP-Transformer's tree has so many nodes; -1 if there are none. */
HGA_API hga_id hga_bpt_tokens(hga_id nodes);

/* H-Transformer-1D (Zhu and Soricut 2021): NEIGHBOURS is section 5 with the overlap removed (eq. 18-23, 29), SIBLINGS
   appendix A (eq. 52-57, 69-73). n_keys = 0: self-attention. Relations `near`, causal also `first_child`, linear also
   `interpolate`. relative: `near` gets types (j - i) + 2c - 1. */
typedef enum hga_htransformer_structure { HGA_NEIGHBOURS, HGA_SIBLINGS } hga_htransformer_structure;
typedef struct hga_htransformer {
    hga_id n_tokens, n_keys, block;
    hga_htransformer_structure structure;
    int causal, linear, relative;
    const hga_allocator *allocator;
    uint64_t reserved[4];
} hga_htransformer;
/* Make the graph and the program of H-Transformer-1D: a token sees near tokens, and far ones as means of blocks. *g is
   then yours (hga_graph_destroy). */
HGA_API hga_status hga_build_htransformer(const hga_htransformer *p, hga_graph **g, hga_program *program);

/* Treeformer (Madaan et al. 2022): fine is TF-attention (eq. 3), coarse is TC-attention (eq. 4). Leaves are the
   caller's, or come from hga_route. With n_tree_heads > 1 every head has a tree of its own and rows are folded: row =
   token * n_tree_heads + head, run with one head. Leaf -1: in no leaf. Leaves are numbered 0 .. n_leaves - 1; level l
   of a coarse tree has branching[0] * .. * branching[l - 1] nodes. Relations fine `leaf`; coarse `member`, `path` (type
   = level, type_scale = alpha). */
typedef struct hga_treeformer {
    hga_id n_queries, n_keys, n_tree_heads; /* tokens; n_keys = 0: self-attention, the keys are the queries' tokens */
    hga_id height;
    const hga_id *branching;   /* [height], NULL: 2 each */
    const int32_t *query_leaf; /* [n_queries][n_tree_heads] */
    const int32_t *key_leaf;   /* [n_keys][n_tree_heads]; NULL: query_leaf */
    hga_id n_leaves;           /* 0: from height and branching (fine may leave both out: 1 + the largest leaf) */
    int causal;                /* fine only; HGA_EUNSUPPORTED for coarse */
    const hga_allocator *allocator;
    uint64_t reserved[4];
} hga_treeformer;
/* Make the graph and the program of TF-attention: a query token sees the keys of its own leaf. *g is then yours
   (hga_graph_destroy). */
HGA_API hga_status hga_build_treeformer_fine(const hga_treeformer *p, hga_graph **g, hga_program *program);
/* Make the graph and the program of TC-attention, with the parameters and leaves of hga_build_treeformer_fine: a
   token's output is the sum, over levels, of alpha of the level times the mean of the values in its node there. */
HGA_API hga_status hga_build_treeformer_coarse(const hga_treeformer *p, hga_graph **g, hga_program *program);

/* Route n vectors down a tree of hyperplanes (eq. 2; f > 0 goes right, k-ary: argmax, lowest on ties; decided as by dot
   products in double). Binary: weights [2^h - 1][dim], bias [2^h - 1] in level order; k-ary: rows level after level, in
   each its nodes, in each node its b_l rows. x row i, head t starts at x + i * row_stride + t * head_stride; head t
   uses weights + t * rows * dim. leaf is [n][n_heads]. A non-finite dot product is HGA_EINVAL. */
typedef struct hga_router {
    hga_id height, dim, n_heads;
    const hga_id *branching; /* NULL: binary with one hyperplane a node */
    const float *weights, *bias;
    uint64_t reserved[4];
} hga_router;
/* Find the leaf to which each of n vectors goes: leaf [n][n_heads]. Row i of x for head t starts at x + i * row_stride
   + t * head_stride. HGA_EINVAL for a dot product that is not finite. */
HGA_API hga_status hga_route(const hga_router *r, const float *x, hga_id n, ptrdiff_t row_stride, ptrdiff_t head_stride,
                             int32_t *leaf);
/* The number of hyperplanes that a tree has: 2^h - 1, or the sum over levels of nodes * b_l. -1 on overflow. */
HGA_API int64_t hga_route_rows(hga_id height, const hga_id *branching);
/* Nodes of all levels, root and leaves among them: 1 + b_0 + b_0 b_1 + ... -1: none, or more than INT32_MAX leaves. */
HGA_API int64_t hga_route_nodes(hga_id height, const hga_id *branching);

/* Trees that learn. Routing is a hard choice. Its straight-through gradient is that of the probability P of a path, the
   product over its decisions of sigmoid(f) to the right and sigmoid(-f) to the left, k-ary: of the softmax over the
   node's hyperplanes (the paper gives none; docs/treeformer-fine.md has the definition). A loss that multiplies by P /
   stop(P) has gradient d log P:
     fine    of a query d_out . out, of a key d_log_mass (hga_gradient.h), in d_path;
     coarse  of every level's part of the path, in d_level, or of every node of the tree, in d_node: what
             hga_coarse_gradient computes.
   Rows and heads are those of hga_route, and leaf is its result; a row in no leaf (-1) contributes nothing. */
typedef struct hga_route_grad {
    const float *x;
    hga_id n;
    ptrdiff_t row_stride, head_stride; /* of x and of d_x */
    const int32_t *leaf;               /* [n][n_heads] */
    /* inputs, NULL: none of the kind; their gradients are added */
    const float *d_path;  /* [n][n_heads]: of the log-probability of the whole path */
    const float *d_level; /* [n][n_heads][height + 1]: .. of its first l decisions */
    const float *d_node;  /* [n][n_heads][hga_route_nodes]: of the probability to come to a node, level after level */
    /* required, or NULL: of the router's weights and bias, and of x; rows that several heads share get the sum */
    float *d_weights, *d_bias, *d_x;
    int accumulate; /* 1: add to what they hold; 0: overwrite */
    const hga_allocator *allocator;
    uint64_t reserved[4];
} hga_route_grad;
/* The straight-through gradient of hga_route (docs/treeformer-fine.md): of the log-probabilities that each token takes
   its path, as a product of the routers' decisions along it, by weights, bias and x. HGA_EINVAL names what is missing,
   HGA_ENOMEM. Threads may call at once with gradients of their own. */
HGA_API hga_status hga_route_gradient(const hga_router *r, const hga_route_grad *grad);

/* The gradient of the paths in coarse attention, for hga_route_gradient: out_i = sum_l alpha_l mean_l(i), where a
   query's term of level l has factor P_l / stop(P_l) and a key's share of its node's mean likewise. `dense`: of the
   probabilities to come to every node, whose terms have weight 1 on the path and 0 elsewhere. Heads that share a tree
   are columns of one: dim_v is that of all of them. */
typedef struct hga_coarse_grad {
    hga_id dim_v;
    const float *value, *d_out; /* [n_keys][n_tree_heads][dim_v], [n_queries][n_tree_heads][dim_v] */
    const float *alpha;         /* [height + 1] */
    int dense;
    float *d_query, *d_key; /* required or NULL: [n][n_tree_heads][height + 1], dense: [..][hga_route_nodes] */
    uint64_t reserved[4];
} hga_coarse_grad;
/* Compute the gradients of the paths' probabilities, of queries and keys of hga_build_treeformer_coarse, into the
   arrays of `grad` that are not NULL. hga_route_gradient computes those of the router from them. */
HGA_API hga_status hga_coarse_gradient(const hga_treeformer *p, const hga_coarse_grad *grad);

/* Measure the balance of a tree: count the rows in each leaf, count [n_heads][n_leaves], and the entropy of that
   distribution in nats (log n_leaves when even, 0 when all are in one leaf), entropy [n_heads] or NULL. leaf is
   [n][n_heads]. */
HGA_API hga_status hga_leaf_histogram(const int32_t *leaf, hga_id n, hga_id n_heads, hga_id n_leaves, int64_t *count,
                                      double *entropy);

/* How the leaves of `parent` are numbered as tokens: depth first, children by increasing id; or by increasing id. */
typedef enum hga_hsa_leaves { HGA_LEAVES_DEPTH_FIRST, HGA_LEAVES_BY_ID } hga_hsa_leaves;
/* HSA (Amizadeh et al. 2025): Algorithms 1-3 with the sign of line 18 corrected. The tree is `parent` (or hopping
   windows of `branching`: lowest level first, the last number repeated until one root is left). Relation `sibling`, or
   `frontier` with causal and FRONTIER. `self`: a leaf may attend to itself. */
typedef enum hga_hsa_mode { HGA_HSA_FRONTIER, HGA_HSA_SELF } hga_hsa_mode;
typedef struct hga_hsa {
    hga_id n_tokens;         /* leaves; with parent 0 or their number */
    const hga_id *branching; /* [n_branching] */
    hga_id n_branching;
    const hga_id *parent; /* [n_parent], -1 for a root; several roots are a batch */
    hga_id n_parent;
    int causal, self;
    hga_hsa_mode mode;     /* when causal */
    hga_hsa_leaves leaves; /* BY_ID in another order than depth-first has no causal form: HGA_EUNSUPPORTED */
    hga_id *node_of;       /* NULL, or [n_parent] filled with the graph's id of each of the caller's nodes */
    const hga_allocator *allocator;
    uint64_t reserved[4];
} hga_hsa;
/* Make the graph and the program of hierarchical self-attention: a token sees its siblings in the tree, and those of
   its ancestors. *g is then yours (hga_graph_destroy). */
HGA_API hga_status hga_build_hsa(const hga_hsa *p, hga_graph **g, hga_program *program);

/* ---- hierarchies found in data: they give the `parent` array that hga_build_hsa takes ---- */

/* A tree over n_leaves leaves as parent ids (-1: root), leaves in depth-first order with children by increasing id,
   level names by height, and optional position embeddings [n][pos_dim] of each node within its family. Free with
   hga_tree_clear. */
typedef struct hga_tree {
    hga_id n, n_leaves, *parent;
    hga_id *leaf_node; /* [n_leaves], node of leaf i in reading order */
    float *pos;        /* [n][pos_dim] or NULL */
    hga_id pos_dim;
    int64_t *leaf_begin, *leaf_end; /* text: byte range of leaf i; NULL elsewhere */
    const char *const *kind_name;   /* [n_kinds], static */
    uint8_t *kind;                  /* [n], index into kind_name */
    hga_id n_kinds;
    hga_allocator allocator;
    int64_t *name_at; /* [n], where a node's name begins in name_text, -1 without; NULL: see hga_tree_name */
    char *name_text;
    int64_t name_bytes, name_capacity;
} hga_tree;
/* Free the arrays of a tree that any hga_tree_ function made; a zeroed tree is accepted. */
HGA_API void hga_tree_clear(hga_tree *tree);
/* A node's name, for hga_graph_set_names with the ids of hga_hsa.node_of: a document's word itself, a section's
   heading. NULL without; valid as long as the tree. */
HGA_API const char *hga_tree_name(const hga_tree *tree, hga_id node);

/* Make the tree of a height x width image (leaves = pixels or tokens in the order of nested patches): patches of
   `patch[l]` x `patch[l]` cells of the level below, lowest first, then one root. leaf_node order; *cell (NULL accepted,
   [height * width]) tells leaf -> row-major cell. Position embedding: sines and cosines of the offset in the family,
   pos_dim = 4. */
HGA_API hga_status hga_tree_grid(const hga_allocator *a, hga_id height, hga_id width, const hga_id *patch,
                                 hga_id n_patch, hga_id *cell, hga_tree *out);
/* Make the tree of an unordered set: one family of n leaves without positions (HSA, section on sets). Free it with
   hga_tree_clear. */
HGA_API hga_status hga_tree_set(const hga_allocator *a, hga_id n, hga_tree *out);
/* Make the tree of a record of n_fields key-value pairs: each field a family {key, value..} with the key's embedding
   orthogonal to the values'; n_values[f] >= 1 values, themselves ordered. */
HGA_API hga_status hga_tree_record(const hga_allocator *a, hga_id n_fields, const hga_id *n_values, hga_tree *out);

/* Make a tree of the clusters of a graph's tokens that hga_graph_coarsen finds (which says what sizes are, and what
   fails): tokens are the leaves, in their own numbers, clusters above them; several roots unless the last size covers
   all that are left. */
HGA_API hga_status hga_tree_from_graph(const hga_allocator *a, const hga_graph *g, const hga_id *size, hga_id n_sizes,
                                       hga_tree *out);

/* ---- flat and nested partitions ---- */

/* Fenwick trees' partition of the past (log-linear attention, Guo et al. 2025): token t sees itself and, for every set
   bit l of t, node (t >> l) - 1 of level l, the complete spans of 2^l tokens. Causal, and the first rows of a longer
   text are those of the shorter. Relation `past`. */
typedef struct hga_fenwick {
    hga_id n_tokens;
    const hga_allocator *allocator;
    uint64_t reserved[4];
} hga_fenwick;
/* Make the graph and the program of a Fenwick tree: a token sees itself and its past in spans of powers of two. *g is
   then yours (hga_graph_destroy). */
HGA_API hga_status hga_build_fenwick(const hga_fenwick *p, hga_graph **g, hga_program *program);

/* Dilated attention (LongNet, Ding et al. 2023, eq. 5-11, with every residue class instead of one a head): in branch b
   token i sees j if i / segments[b] = j / segments[b], rounded down, and dilations[b] divides j - i; causal removes j >
   i. The branches' softmax states are merged, so a pair that several have counts as often. Relations `branch_0`,
   `branch_1`, ..; NULL: segments 64, 256, 1024 and dilations 1, 4, 16. At most HGA_MAX_STAGES branches. */
typedef struct hga_dilated {
    hga_id n_tokens;
    const hga_id *segments; /* [n_segments] */
    hga_id n_segments;
    const hga_id *dilations; /* [n_dilations], as many */
    hga_id n_dilations;
    int causal;
    const hga_allocator *allocator;
    uint64_t reserved[4];
} hga_dilated;
/* Make the graph and the program of dilated attention: a token sees segments with growing strides. *g is then yours
   (hga_graph_destroy). */
HGA_API hga_status hga_build_dilated(const hga_dilated *p, hga_graph **g, hga_program *program);

/* Dense attention within aligned segments (the cross-attention of BP-Transformer's translation): a query token of
   segment a sees every key token of segment a. Segments are numbered without decreasing; -1: in none. n_keys = 0:
   self-attention within segments. causal: a token sees those of its segment up to itself, as in packed documents; then
   both sides are one text, whose tokens are queries and keys, and key_segment equals query_segment. Relation `near`. */
typedef struct hga_segmented {
    hga_id n_tokens, n_keys;
    const int32_t *query_segment; /* [n_tokens] */
    const int32_t *key_segment;   /* [n_keys] */
    int causal;
    const hga_allocator *allocator;
    uint64_t reserved[4];
} hga_segmented;
/* Make the graph and the program of attention within segments: a query token sees every key token of its segment. *g is
   then yours (hga_graph_destroy). */
HGA_API hga_status hga_build_segments(const hga_segmented *p, hga_graph **g, hga_program *program);

/* ---- grids and drafts ---- */

/* Neighbourhood attention (NATTEN, Hassani et al. 2023): tokens are a grid of `shape`, row-major, the last axis
   fastest; without it one axis of n_tokens. Along an axis of length L a token at i belongs to the class of i mod
   dilation, of m tokens, as its member i' = i / dilation, rounded down. It sees min(kernel, m) of them from the member
   clamp(i' - kernel / 2, 0, max(m - kernel, 0)) on; along a causal axis those from i' - kernel + 1 to i'. Neighbours
   are the product over axes. One number in a list stands for all axes; NULL: kernel 7, dilation 1, causal 0. No token
   sees a later one where every axis is causal. Relation `near`. */
enum { HGA_NEIGHBOURHOOD_KERNEL = 7 };
typedef struct hga_neighbourhood {
    hga_id n_tokens;     /* 0, or the product of shape */
    const hga_id *shape; /* [n_axes], 1 to 3 */
    hga_id n_axes;
    const hga_id *kernel; /* [n_kernel], each >= 1 */
    hga_id n_kernel;
    const hga_id *dilation; /* [n_dilation], each >= 1 */
    hga_id n_dilation;
    const hga_id *causal; /* [n_causal], each 0 or 1 */
    hga_id n_causal;
    const hga_allocator *allocator;
    uint64_t reserved[4];
} hga_neighbourhood;
/* Make the graph and the program of neighbourhood attention: a token sees the nearest ones on its grid. *g is then
   yours (hga_graph_destroy). */
HGA_API hga_status hga_build_neighbourhood(const hga_neighbourhood *p, hga_graph **g, hga_program *program);

/* Tree attention of speculative decoding (SpecInfer, Miao et al. 2024): n_tokens drafts are the queries; the keys are a
   prefix and then the drafts. A draft sees the whole prefix, itself, parent[itself], its parent, and so on until -1, in
   any order of drafts. HGA_EINVAL for a draft that follows itself. Relation `near`. */
typedef struct hga_draft {
    hga_id n_tokens, n_keys; /* drafts; 0, or prefix + n_tokens */
    hga_id prefix;           /* tokens; -1: n_keys - n_tokens */
    const int32_t *parent;   /* [n_tokens], -1: follows the prefix */
    const hga_allocator *allocator;
    uint64_t reserved[4];
} hga_draft;
/* Make the graph and the program of tree attention: a draft sees the prefix, itself and the drafts that it follows. *g
   is then yours (hga_graph_destroy). */
HGA_API hga_status hga_build_draft(const hga_draft *p, hga_graph **g, hga_program *program);

/* How hierarchies by content choose, as in hga_selection; the builder reads none of this but `prefill`. */
typedef struct hga_routed_choice {
    hga_id k; /* the default, 16, does not count where there is a threshold; not read where there is k_each */
    hga_id sinks, local, coarse, coarse_k;
    hga_id prefill; /* with query_block 1: tokens of one call that choose together; 0 and 1: each for itself */
    hga_select_share share;
    hga_select_score score;
    double threshold; /* 0: by k */
    hga_id sample;    /* of a query block's queries every so many-th one, where scores are HGA_SELECT_SAMPLE */
    hga_id n_k_each;
    const hga_id *k_each; /* NULL, or instead of k: [n_k_each], each chooser's */
} hga_routed_choice;

/* Attention to the blocks that hga_select_blocks chose by content: query blocks attend to the blocks of keys that they
   chose; with `causal` each token attends only to tokens up to itself. Rows are folded, one chooser's tokens after
   another's: row c * n_tokens + t is token t of chooser c, and reads keys of head c / (n_choosers / n_key_heads).
   Relation `chosen`. HGA_EINVAL: a row of the choice names a block that is not there, or comes later, or does not
   ascend; or there is no choice: without one there is no graph.

   Causal tokens that choose for themselves (query_block 1) are parts (hga_builder_set_parts): their rows of the output
   have the bits that they have among more tokens. */
typedef struct hga_routed {
    hga_id n_tokens;
    hga_id n_samples;      /* in order, each with blocks of its own; 0: one */
    const hga_id *offsets; /* [n_samples + 1], NULL for one */
    hga_id block, query_block;
    int causal;
    hga_id n_choosers, n_key_heads; /* n_key_heads 0: as many, then keys are the queries' tokens */
    hga_id slots;
    const int32_t *choice;       /* [n_choosers][query blocks][slots], ascending, -1 after the last; see choice_first */
    const hga_pos *choice_first; /* NULL, or [n_choosers * query blocks + 1]: `choice` is as in hga_chosen */
    const hga_allocator *allocator;
    hga_routed_choice choose;
    uint64_t reserved[2];
} hga_routed;
/* The settings for hga_select_blocks whose choice hga_build_routed takes. Its query_block is `prefill` where that is
   more than 1 and there are several tokens; a single token, n_tokens 1, then chooses by the mean where others are
   sampled. n_tokens 0: for decoders. Its k_each is that of *p, not a copy. HGA_EINVAL: `prefill` beside query blocks,
   or below 0. */
HGA_API hga_status hga_routed_selection(const hga_routed *p, hga_selection *out);
/* Make the graph and the program of a choice: tokens attend to the blocks that they, or their query block, chose. *g is
   then yours (hga_graph_destroy). */
HGA_API hga_status hga_build_routed(const hga_routed *p, hga_graph **g, hga_program *program);
/* The graph of a decoder whose tokens choose (hga_decode_options.selection): one part of at most n_tokens tokens, each
   of which may see any up to itself. */
HGA_API hga_status hga_build_routed_decoder(hga_id n_tokens, const hga_allocator *a, hga_graph **g,
                                            hga_program *program);

/* The structs above, each with the name of its variant in hga_variants.h. */
#define HGA_BUILDER_STRUCTS(X)            \
    X(hga_dense, "dense")                 \
    X(hga_window, "window")               \
    X(hga_bpt, "bpt")                     \
    X(hga_htransformer, "htransformer")   \
    X(hga_treeformer, "treeformer-fine")  \
    X(hga_hsa, "hsa")                     \
    X(hga_fenwick, "fenwick")             \
    X(hga_dilated, "dilated")             \
    X(hga_segmented, "segments")          \
    X(hga_neighbourhood, "neighbourhood") \
    X(hga_draft, "draft")                 \
    X(hga_routed, "routed")

/* hga_defaults(&p) fills p, one of these structs, with its defaults (hga_variant_defaults). */
#ifndef __cplusplus
#define HGA_BUILDER_STRUCT_NAME(type, name) , type * : name
#define hga_defaults(p) \
    hga_variant_defaults(hga_variant_named(_Generic((p)HGA_BUILDER_STRUCTS(HGA_BUILDER_STRUCT_NAME))), (p))
#endif

/* ---- what builders share: regular blocks clipped at the ends of their level, and the two sides of attention ---- */

/* A rectangle of edges moved by steps for as long as it meets its rows and columns; what regular levels are made of.
   Instance m, for every integer m, has rows row + m * row_step .. + n_rows - 1 and columns col + m * col_step .. +
   n_cols - 1, clipped to [row_begin, row_end) and [col_begin, col_end), which lie within 0 .. INT32_MAX. Steps are > 0.
   type(r, c) = type + r * type_dst + c * type_src, counted inside the unclipped instance. A shape other than HGA_ALL
   may be clipped at the high ends only, and HGA_BAND is refused. */
typedef struct hga_staircase {
    int64_t row, n_rows, row_step, col, n_cols, col_step;
    int64_t row_begin, row_end, col_begin, col_end;
    int64_t type, type_dst, type_src;
    hga_shape_kind shape;
    float weight; /* 0 means 1 */
} hga_staircase;

/* Add the edges of a staircase to a relation: the whole instances as one repeated block, each clipped one as a block of
   its own. */
HGA_API hga_status hga_builder_add_staircase(hga_builder *b, hga_id relation, const hga_staircase *s);

#ifdef __cplusplus
}
#define HGA_BUILDER_STRUCT_DEFAULTS(type, name) \
    inline void hga_defaults(type *p) { hga_variant_defaults(hga_variant_named(name), p); }
HGA_BUILDER_STRUCTS(HGA_BUILDER_STRUCT_DEFAULTS)
#endif
#endif
