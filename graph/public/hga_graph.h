/* hga_graph.h: what a hierarchy is. Levelled nodes, named relations stored as blocks and explicit edges, the builder
   that makes them.

   Nodes are numbered level by level, tokens (level 0) first. A relation is a set of directed edges source ->
   destination. Regular edges are *blocks*, intervals times intervals repeated with a step; irregular ones are
   explicit, stored as CSR by destination. Graphs are immutable and reference counted; any number of threads may read
   one. Builders belong to one thread at a time. */
#ifndef HGA_GRAPH_H
#define HGA_GRAPH_H

#include "hga_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Relations that every graph has, without being among its n_relations: its tree, children to parent or parent to
   children. A stage of a program may run along them, a file may hold them. For writers, HGA_ALL_RELATIONS is the
   graph's own, in their order, and then HGA_TREE_UP where some node has a parent. */
enum { HGA_TREE_UP = -1, HGA_TREE_DOWN = -2, HGA_ALL_RELATIONS = -3 };

typedef struct hga_graph hga_graph;
typedef struct hga_builder hga_builder;

/* Which side of attention a node stands on. Self-attention: HGA_SIDE_BOTH everywhere. */
enum { HGA_SIDE_BOTH = 0, HGA_SIDE_QUERY = 1, HGA_SIDE_KEY = 2 };

/* What a graph promises about token pairs; `hga check` holds it to its promise. */
enum {
    HGA_CLAIM_CAUSAL = 1, /* no token's output depends on a later token */
    HGA_CLAIM_SINGLE = 2, /* no (query token, key token) pair is covered twice */
    /* every pair is covered (the earlier ones, when causal; all but a token and itself is allowed for siblings) */
    HGA_CLAIM_COMPLETE = 4
};

/* A read-only view of the nodes; every pointer lives as long as the graph. */
typedef struct hga_nodes {
    hga_id n, n_levels, n_relations;
    const hga_id *level_ptr; /* [n_levels + 1]: level l is [level_ptr[l], level_ptr[l + 1]) */
    const hga_id *parent;    /* [n], -1 without; NULL: no node has a parent */
    const uint8_t *side;     /* [n]; NULL: HGA_SIDE_BOTH everywhere */
    const float *mass;       /* [n], tokens each node stands for */
    /* [n], the level-0 ids a node stands for; first > last: none or not an interval */
    const hga_id *span_first, *span_last;
    /* [n - level_ptr[1] + 1]: children of node level_ptr[1] + i are child_list[child_ptr[i] .. child_ptr[i + 1]) */
    const hga_id *child_ptr;
    /* NULL: the identity, so the children are the ids child_ptr[i] .. child_ptr[i + 1] - 1 */
    const hga_id *child_list;
    hga_id query_first, n_queries, key_first, n_keys; /* level-0 ranges */
    uint32_t claims;                                  /* HGA_CLAIM_* */
} hga_nodes;

/* Which pairs of a block are edges, by offset = column - row, both counted inside the block from 0. */
typedef enum hga_shape_kind {
    HGA_ALL = 0,
    HGA_LOWER,        /* offset <= 0 */
    HGA_STRICT_LOWER, /* offset < 0 */
    HGA_UPPER,        /* offset >= 0 */
    HGA_STRICT_UPPER, /* offset > 0 */
    HGA_OFF_DIAGONAL, /* offset != 0 */
    HGA_BAND          /* band_first <= offset <= band_last */
} hga_shape_kind;

/* Every row of [dst, dst + n_dst) to every column of [src, src + n_src) that `shape` keeps, `count` times, instance i
   moved by i * dst_step rows and i * src_step columns. Rows and columns are positions in the relation's orders (node
   ids where it has none). type(row, column) = type + row * type_dst + column * type_src, both counted inside the
   instance. Steps are >= 0; count 0 means 1. */
typedef struct hga_block {
    hga_id dst, n_dst, src, n_src;
    hga_id count, dst_step, src_step;
    int32_t type, type_dst, type_src;
    /* the node whose position embedding the rows use, moved by pos_step per instance; see HGA_POS_OWN */
    hga_id pos_of, pos_step;
    float weight; /* of every edge; 0 means 1 */
    hga_shape_kind shape;
    hga_id band_first, band_last; /* HGA_BAND only */
    /* the same of the columns: whose position embedding they use */
    hga_id src_pos_of, src_pos_step;
} hga_block;
/* pos_of of a block whose rows, and src_pos_of of one whose columns, use their own position embedding. It is 0, so
   that a zeroed block means it; node p is named by p + 1. */
enum { HGA_POS_OWN = 0 };

/* Blocks of columns that blocks of rows chose, by content, say. Rows [dst, dst + n_dst) are cut into blocks of
   `row_block`, columns [src, src + n_src) into blocks of `block`, of which the last may be shorter. The rows of block i
   see the columns of blocks chosen[first[i]] .. chosen[first[i + 1] - 1], which ascend; where it is causal, row dst + r
   no column after src + r. Edges have type 0 and weight 1. */
typedef struct hga_choice {
    hga_id dst, n_dst, src, n_src;
    hga_id row_block, block;
    int causal;
    const hga_pos *first; /* [blocks of rows + 1] */
    const hga_id *chosen;
    uint64_t reserved[2]; /* 0 */
} hga_choice;

/* A read-only view of a relation. n_edges counts blocks and explicit edges; a pair in two blocks counts twice. */
typedef struct hga_relation {
    const char *name;
    hga_pos n_edges, n_blocks, n_explicit;
    const hga_block *blocks; /* sorted by dst, src, type; NULL where there are choices: hga_relation_next has both */
    const hga_id *dst_order; /* [n_nodes], a permutation: position -> node; NULL: the identity */
    const hga_id *dst_rank;  /* its inverse, node -> position; NULL with dst_order */
    const hga_id *src_order; /* [n_src_order]: position -> node; NULL: the identity */
    hga_id n_src_order;
    const hga_pos *ptr;  /* [n_nodes + 1], explicit in-edges of node v are [ptr[v], ptr[v + 1]); NULL: none */
    const hga_id *src;   /* [n_explicit], ascending (src, type) within a row */
    const int32_t *type; /* [n_explicit]; NULL: 0 */
    const float *weight; /* [n_explicit]; NULL: 1 */
    int32_t n_types;     /* 1 + the largest type */
    int weighted;        /* some edge has a weight other than 1 */
    int positioned;      /* some block names a pos_of or a src_pos_of */
    /* rows that choose, ascending; then n_blocks is how many blocks all of them have, and there is nothing else */
    const hga_choice *choices;
    hga_pos n_choices;
} hga_relation;

/* A walk over the blocks of a relation, one by one and sorted, with those that rows chose among them. */
typedef struct hga_block_walk {
    hga_block block; /* the current one */
    hga_pos at, choice, list;
} hga_block_walk;
/* Step to a relation's next block, w->block: 1, or 0 after the last. Begin with a zeroed *w. The blocks that rows chose
   come one by one, too. */
HGA_API int hga_relation_next(const hga_relation *r, hga_block_walk *w);

/* ---- building ---- */

/* Make an empty builder; `a` (copied) also serves the graph. *out is yours: hga_builder_destroy. */
HGA_API hga_status hga_builder_create(const hga_allocator *a, hga_builder **out);
/* Free a builder, finished or not; NULL is accepted. */
HGA_API void hga_builder_destroy(hga_builder *b);

/* Append a level of n >= 0 nodes (level 0 first: the tokens); *first gets its first node id, NULL is accepted. */
HGA_API hga_status hga_builder_add_level(hga_builder *b, hga_id n, hga_id *first);

/* Say which level-0 nodes are queries and which are keys; without a call all are both. The two ranges are equal or
   disjoint, and together cover level 0. */
HGA_API hga_status hga_builder_set_tokens(hga_builder *b, hga_id query_first, hga_id n_queries, hga_id key_first,
                                          hga_id n_keys);

/* Say on which side nodes [first, first + n) stand: HGA_SIDE_BOTH, HGA_SIDE_QUERY or HGA_SIDE_KEY. */
HGA_API hga_status hga_builder_set_side(hga_builder *b, hga_id first, hga_id n, int side);

/* Make parents: nodes [child, child + n) become children of `parent`, which must be on a higher level. */
HGA_API hga_status hga_builder_set_children(hga_builder *b, hga_id parent, hga_id child, hga_id n);

/* Make families of the nodes child .. child + n - 1: the first `each` of them become children of `parent`, the next of
   parent + 1, and so on; the last parent may get fewer. */
HGA_API hga_status hga_builder_set_families(hga_builder *b, hga_id parent, hga_id child, hga_id n, hga_id each);

/* Override a node's mass (default: 1 for a token, the children's sum above, 1 for a childless node above). */
HGA_API hga_status hga_builder_set_mass(hga_builder *b, hga_id node, float mass);

/* Tokens [first, first + n) are at `position`, for distances (hga_graph_positions), instead of at their index among the
   queries or keys; -1: they have none, because distances mean nothing. Of several the last counts. */
HGA_API hga_status hga_builder_set_position(hga_builder *b, hga_id first, hga_id n, float position);

/* Give a node a name, UTF-8, copied; of several the last counts. */
HGA_API hga_status hga_builder_set_name(hga_builder *b, hga_id node, const char *name);
/* Say of what kind nodes [first, first + n) are, by a name of 1 to 63 bytes; the last call counts. */
HGA_API hga_status hga_builder_set_kinds(hga_builder *b, hga_id first, hga_id n, const char *kind);

/* Say what the graph promises, HGA_CLAIM_*. hga_program_influence and hga_program_coverage check it; this does not. */
HGA_API hga_status hga_builder_set_claims(hga_builder *b, uint32_t claims);

/* Add a relation with a name of its own (1 to 63 bytes); *relation gets its index. */
HGA_API hga_status hga_builder_add_relation(hga_builder *b, const char *name, hga_id *relation);

/* Position -> node of a relation's rows and columns, copied; NULL keeps the identity. Each lists a node at most once;
   nodes that dst_order does not list are appended to it in id order. Call before adding blocks that use it. */
HGA_API hga_status hga_builder_set_order(hga_builder *b, hga_id relation, const hga_id *dst_order, hga_id n_dst,
                                         const hga_id *src_order, hga_id n_src);

/* Add one explicit edge, by node ids whatever the orders are. The same (source, destination, type) twice counts once;
   two weights for it are an error. */
HGA_API hga_status hga_builder_add_edge(hga_builder *b, hga_id relation, hga_id source, hga_id destination,
                                        int32_t type, float weight);

/* Add n explicit edges, given in arrays of n; type NULL: 0 each, weight NULL: 1 each. If one is refused, the edges
   before it are added. */
HGA_API hga_status hga_builder_add_edges(hga_builder *b, hga_id relation, int64_t n, const hga_id *source,
                                         const hga_id *destination, const int32_t *type, const float *weight);

/* Add the weights of the relation's single edges that are given more than once, so that an edge counts as often as it
   was given, in any order. A sum that is not finite is HGA_EGRAPH at hga_builder_finish. */
HGA_API hga_status hga_builder_sum_edges(hga_builder *b, hga_id relation);

/* Add one full block of edges of one type: rows [dst, dst + n_dst) see columns [src, src + n_src). */
HGA_API hga_status hga_builder_add_block(hga_builder *b, hga_id relation, hga_id dst, hga_id n_dst, hga_id src,
                                         hga_id n_src, int32_t type);
/* Add any block: some of its pairs, repeated, with types (hga_block). */
HGA_API hga_status hga_builder_add_blocks(hga_builder *b, hga_id relation, const hga_block *block);

/* Add blocks that rows chose, copied. The rows of a relation's choices ascend, and it has nothing else: no blocks,
   single edges or orders. HGA_EGRAPH names a list that does not ascend, or a block that is not there or comes later. */
HGA_API hga_status hga_builder_add_choice(hga_builder *b, hga_id relation, const hga_choice *choice);

/* Declare how the graph would continue, so that rows keep their bits when nodes are added. Rows are computed sixteen at
   a time, and the method for sixteen rows depends on all of them. Therefore, without `longer`, the last bits of rows
   after a level's last complete sixteen may differ from those in a longer graph.

   `longer` is a builder with the levels and blocks of a larger graph of the same relations. Each level with edges needs
   enough nodes to complete the last sixteen, and each row of b's graph has the same edges there, nodes counted within
   levels. The call empties `longer`, as hga_builder_finish does, whatever the outcome. It is for relations of blocks;
   HGA_EUNSUPPORTED names one with orders or single edges. hga_builder_finish returns HGA_EGRAPH, with the node, if a
   row after a level's last complete sixteen has other edges in `longer`. Files store it (`longer`). Graphs made by
   concatenating, transposing or compressing do not keep it.

   For graphs with orders pass an empty `longer`. It promises that rows keep their edges whatever nodes are added, each
   at the same distance from the first column of its block's instance; nothing checks that. Such rows are computed from
   their own edges alone, as with hga_options.strict_rows, with columns counted from that first column. */
HGA_API hga_status hga_builder_set_longer(hga_builder *b, hga_builder *longer);

/* Divide the nodes into n consecutive parts, such as heads or samples: part i begins at node first[i]; first[0] is 0,
   and they ascend. Softmax over blocks of edges of one type and weight, without orders and single edges, then counts
   columns from the beginning of their part: a row's bits depend on its own edges and what it reads, not on neighbouring
   rows nor on the length of earlier parts. This is slower where neighbouring rows see the same columns. Graphs made
   from this graph do not keep its parts. */
HGA_API hga_status hga_builder_set_parts(hga_builder *b, hga_id n, const hga_id *first);

/* Check everything, compress explicit edges to CSR, derive masses, spans and children. The builder is empty afterwards,
   whatever the outcome. CXSparse sorts explicit edges in memory of malloc, not of the builder's allocator, and frees it
   before this returns: 8 bytes an edge and 12 a node, or, where an edge has a type or a weight, 32 and 24. */
HGA_API hga_status hga_builder_finish(hga_builder *b, hga_graph **out);

/* ---- graphs ---- */

/* Add an owner to a graph; returns g. */
HGA_API hga_graph *hga_graph_retain(const hga_graph *g);
/* Give up a graph; its last owner's call frees it. NULL is accepted. */
HGA_API void hga_graph_destroy(hga_graph *g);

/* A view of the nodes, valid as long as the graph. */
HGA_API hga_nodes hga_graph_nodes(const hga_graph *g);
/* A view of a relation, which must be in [0, n_relations). */
HGA_API hga_relation hga_graph_relation(const hga_graph *g, hga_id relation);
/* The index of the relation of that name, -1 without. */
HGA_API hga_id hga_graph_find_relation(const hga_graph *g, const char *name);
/* The level of a node. */
HGA_API hga_id hga_graph_level(const hga_graph *g, hga_id node);
/* Find where each node is, out[n], for distances between nodes (hga_io.slopes): a query or key where the builder put it
   or else at its index among the queries or keys, a node above at the mean of the tokens below it. HGA_EGRAPH names a
   node with no tokens below, or a token that has no position; HGA_ENOMEM. */
HGA_API hga_status hga_graph_positions(const hga_graph *g, double *out);
/* A node's name, as long as the graph lives; NULL for a node without one. Of a text's tokens these are its words. */
HGA_API const char *hga_graph_name(const hga_graph *g, hga_id node);
/* The same graph, sharing its structure, in which node v < n has the name name[v]; NULL, and every later node, keeps
   what it had. The names are copied. HGA_EGRAPH for what is not UTF-8. */
HGA_API hga_status hga_graph_set_names(const hga_graph *g, const char *const *name, hga_id n, hga_graph **out);
/* Kinds of nodes, such as text and picture, in the order in which they were named first: nodes of the same kind go
   through the same projection of a hierarchical transformer. They change nothing of attention. */
typedef struct hga_kinds {
    hga_id n;                /* 0: none declared */
    const char *const *name; /* [n] */
    const int32_t *of;       /* [nodes]: each node's, -1: none; NULL: none declared */
} hga_kinds;
/* The kinds of a graph's nodes, for as long as the graph lives. */
HGA_API hga_kinds hga_graph_kinds(const hga_graph *g);
/* The same graph, sharing its structure, in which node v < n is of kind[v]; NULL, and every later node, stays what it
   was. Kinds that the graph has keep their numbers. */
HGA_API hga_status hga_graph_set_kinds(const hga_graph *g, const char *const *kind, hga_id n, hga_graph **out);
/* Bytes of memory that a graph holds. */
HGA_API int64_t hga_graph_bytes(const hga_graph *g);
/* Where a graph's memory came from; never NULL, lives as long as the graph. */
HGA_API const hga_allocator *hga_graph_allocator(const hga_graph *g);

/* ---- rows ---- */

/* Part of a block instance. Row position p in [row, row + n_rows) has the columns c in [0, n_src) with band_first <= c
   - (p - row) <= band_last, but not c - (p - row) == hole when has_hole; its source position is src + c, its type is
   type + (p - row) * type_dst + c * type_src. */
typedef struct hga_segment {
    hga_id row, n_rows, src, n_src;
    hga_id band_first, band_last, hole;
    int32_t type, type_dst, type_src;
    hga_id pos_of; /* node id + 1, or HGA_POS_OWN */
    float weight;  /* 1 where the block left it 0 */
    int has_hole;
    /* rows and columns of the instance before the part's: a caller that takes other rows finds the instance's
       first column at the same src - src_inside */
    hga_id row_inside, src_inside;
    hga_id src_pos_of; /* of the columns; node id + 1, or HGA_POS_OWN */
} hga_segment;

/* Find the segments of the blocks that meet row positions [first, first + n), sorted by (src, type, row). Writes at
   most `capacity`, returns how many there are. Cost: logarithmic in the number of blocks plus the answer. The explicit
   part is not included. */
HGA_API hga_pos hga_graph_segments(const hga_graph *g, hga_id relation, hga_id first, hga_id n, hga_segment *out,
                                   hga_pos capacity);

/* Equal segments at equal steps: number i of `count` is i * row_step rows and i * src_step columns further on. */
typedef struct hga_segments {
    hga_segment first;
    hga_id count, row_step, src_step;
    hga_id pos_step;     /* 0 where rows use their own position embedding */
    hga_id src_pos_step; /* the same of columns */
} hga_segments;

/* What hga_graph_visit_segments calls. */
typedef void (*hga_segments_visit)(const hga_segments *s, void *context);
/* Call `visit` with the segments that hga_graph_segments finds, in no order, repeated ones once: for sums over many
   segments. */
HGA_API void hga_graph_visit_segments(const hga_graph *g, hga_id relation, hga_id first, hga_id n,
                                      hga_segments_visit visit, void *context);

/* Number i of them. */
static inline hga_segment hga_segments_at(const hga_segments *s, hga_id i)
{
    hga_segment one = s->first;
    one.row += i * s->row_step, one.src += i * s->src_step, one.pos_of += i * s->pos_step;
    one.src_pos_of += i * s->src_pos_step;
    return one;
}

/* The columns [*c0, *c1) of a segment's row position p (inside the segment); at most one hole in it, *hole = -1
   without. */
static inline void hga_segment_columns(const hga_segment *s, hga_id p, hga_id *c0, hga_id *c1, hga_id *hole)
{
    int64_t r = (int64_t)p - s->row, lo = r + s->band_first, hi = r + s->band_last + 1;
    *c0 = lo < 0 ? 0 : lo > s->n_src ? s->n_src : (hga_id)lo;
    *c1 = hi > s->n_src ? s->n_src : hi < *c0 ? *c0 : (hga_id)hi;
    int64_t h = r + s->hole;
    *hole = s->has_hole && h >= *c0 && h < *c1 ? (hga_id)h : -1;
}

/* In-edges of destination nodes [first, first + n) as ordinary CSR, canonical order: source, type within a row. */
typedef struct hga_csr {
    hga_id first, n;
    hga_pos *ptr;  /* [n + 1] */
    hga_id *src;   /* [ptr[n]] */
    int32_t *type; /* [ptr[n]] */
    float *weight; /* [ptr[n]] */
    hga_allocator allocator;
} hga_csr;
/* Expand the edges into destination nodes [first, first + n) to arrays, *out, which are yours: hga_csr_clear. */
HGA_API hga_status hga_graph_rows(const hga_graph *g, hga_id relation, hga_id first, hga_id n, hga_csr *out);
/* Free the arrays of a hga_csr. */
HGA_API void hga_csr_clear(hga_csr *csr);

/* Count the in-degrees of destination nodes [first, first + n) without expanding them. */
HGA_API void hga_graph_degrees(const hga_graph *g, hga_id relation, hga_id first, hga_id n, hga_pos *degree);
/* Count the edges that are another's copy, of the same source, destination and type, among those that stand by
   themselves; blocks of many pairs are not compared. */
HGA_API hga_pos hga_graph_repeated(const hga_graph *g, hga_id relation);
/* Count the edges from a node to itself; a tree has none. HGA_ENOMEM. */
HGA_API hga_status hga_graph_loops(const hga_graph *g, hga_id relation, hga_pos *loops);

/* ---- whole-graph operations: each makes a new graph ---- */

/* Make a graph of the same nodes, every relation with its edges reversed. */
HGA_API hga_status hga_graph_transpose(const hga_graph *g, hga_graph **out);

/* The graphs concatenated, numbered level by level (all samples' level 0, then all level 1, ..; within a level query
   side before key side, then by sample). All must have the same relations by name, or lack some. *node_map (NULL
   accepted), released with hga_node_map_clear, tells the new id of every old node. */
typedef struct hga_node_map {
    hga_id n_graphs;
    hga_id **id; /* id[g][old node] = new node */
    hga_id *n;   /* n[g] nodes of graph g */
    hga_allocator allocator;
} hga_node_map;
/* Concatenate n_graphs graphs to one, which is yours (hga_graph_destroy). Number of node v of graph i:
   node_map->id[i][v]. */
HGA_API hga_status hga_graph_concat(const hga_graph *const *graphs, hga_id n_graphs, hga_graph **out,
                                    hga_node_map *node_map);
/* Free the arrays of a hga_node_map. */
HGA_API void hga_node_map_clear(hga_node_map *map);

/* The same graph with explicit edges turned into blocks wherever they are regular; edges and their order stay. */
HGA_API hga_status hga_graph_compress(const hga_graph *g, hga_graph **out);

/* ---- coarser levels ---- */

/* A function of yours that long calls call now and then, on the calling thread, with the share of the work that is
   done, from 0 to 1, and the context that you passed. NULL is accepted. */
typedef void (*hga_progress)(double done, void *context);

/* Put a tree of clusters over a graph of tokens, as METIS's multilevel schemes coarsen. The m nodes of level l are
   divided into (m - 1) / size[l] + 1 clusters of about size[l] nodes each (at least 2), with few edges between
   clusters; the clusters are level l + 1. This goes on until the sizes end or one cluster is left. An edge u -> v also
   makes an edge, on every level, from u's cluster to v's, of the same relation and type; equal edges become one. So a
   cluster with edges inside has an edge to itself, and no edge joins clusters whose tokens no edge joins. The weight of
   such an edge is the mean over all pairs of a token of one cluster and a token of the other, weighted by mass, in
   which pairs without an edge count 0. So on every level the edges into a cluster count together as much as the tokens
   in it have neighbours, and edges of tokens without mass join no clusters. Tokens keep their numbers, names, masses
   and positions; claims are not kept. hga_program_hierarchy over *out attends each token's neighbours and, through the
   clusters that it is in, the means of the neighbouring clusters. Equal graphs give equal trees. HGA_EINVAL for a graph
   that has levels already, or sizes below 2; HGA_EUNSUPPORTED for tokens on two sides, and in a library without METIS;
   HGA_EOVERFLOW for more than METIS can hold; HGA_ENOMEM. `progress` gets the share of the clusters that are found.
   Source: Karypis and Kumar 1998. */
HGA_API hga_status hga_graph_coarsen(const hga_graph *g, const hga_id *size, hga_id n_sizes, hga_progress progress,
                                     void *context, hga_graph **out);

/* ---- orders ---- */

/* How nodes are put in an order in which those that an edge joins are near each other: a gather then finds rows that
   are in a cache already, and runs of rows need little from each other. */
typedef enum hga_ordering {
    HGA_ORDERING_RCM = 1, /* reverse Cuthill-McKee (1969): a small bandwidth, for meshes; a component after the other */
    HGA_ORDERING_METIS,   /* parts with few edges between them, neighbouring ones consecutive: the fewest edges cut */
    HGA_ORDERING_DEGREE   /* most neighbours first, so that hubs are together */
} hga_ordering;

/* Find an order of the nodes; order[n]: the node at each position. Nodes keep their level, and tokens their side; all
   relations and the tree count, whatever their direction, and are listed edge by edge. Equal graphs give equal orders.
   HGA_EINVAL, HGA_ENOMEM; HGA_EUNSUPPORTED for METIS in a library without it, HGA_EOVERFLOW for more than it can hold.
   */
HGA_API hga_status hga_graph_order(const hga_graph *g, hga_ordering how, hga_id *order);

/* The same graph in which node order[i] has the number i: whatever has a row a node must be permuted, too. Attention
   over it is the same but for the last bits, and for dropout, which is drawn by number. Tokens keep their positions; a
   claim to be causal is not kept, nor is what is known of a longer graph. HGA_EINVAL says which node an order lacks,
   lists twice or moves to another level or side. */
HGA_API hga_status hga_graph_renumber(const hga_graph *g, const hga_id *order, hga_graph **out);

/* Find how edges move; edge[n_edges]: where g's canonical order has each edge of the relation in the canonical order of
   the renumbered graph, which is how edge biases move along. */
HGA_API hga_status hga_graph_renumbered_edges(const hga_graph *g, hga_id relation, const hga_id *order, hga_pos *edge);

/* How well a graph's nodes are numbered, over all its relations: the smaller, the better. */
typedef struct hga_locality {
    hga_pos edges;
    hga_pos cut;      /* edges that join two parts, where parts are runs of nodes with equally many edges */
    hga_pos gathered; /* source rows that are read if each 128 consecutive rows read each of their sources once */
    hga_id bandwidth; /* the largest difference between the numbers of an edge's two ends */
    double distance;  /* the mean difference */
} hga_locality;

/* Measure how well a graph's nodes are numbered; parts: how many parts `cut` counts between, at least 1. */
HGA_API hga_status hga_graph_locality(const hga_graph *g, hga_id parts, hga_locality *out);

/* List a forest's nodes depth first; order[n] has each node before its children, siblings by increasing id, one root's
   tree after the other's. parent[v] is -1 for a root. Memory: two ids a node, from `a` (NULL: malloc). HGA_EINVAL names
   a parent that is no node, or a node that is its own ancestor (then `order` is undefined); HGA_ENOMEM. */
HGA_API hga_status hga_forest_preorder(const hga_allocator *a, hga_id n, const hga_id *parent, hga_id *order);

/* ---- graphs of masks ---- */

/* Which keys queries [first, first + n) see: sets sees[i * n_keys + k], which comes as 0, to anything else where query
   first + i sees key k. A status other than HGA_OK ends the call that asked, which returns it. */
typedef hga_status (*hga_predicate)(void *context, hga_id first, hga_id n, uint8_t *sees);

/* Rows by the runs of keys that they see: queries [row[i], row[i + 1]) see keys [keys[2 j], keys[2 j + 1]) for every j
   from ptr[i] to ptr[i + 1]. Rows go up from 0 to n_queries. Runs of a row go up as well; two do not touch, and none
   is empty. Only read during the call. */
typedef struct hga_mask_runs {
    hga_id n;           /* of groups of rows */
    const hga_id *row;  /* [n + 1] */
    const hga_pos *ptr; /* [n + 1] */
    const hga_id *keys; /* [ptr[n]][2] */
} hga_mask_runs;

/* A mask over tokens; start from a zeroed one. It has one of `sees`, `bytes` and `runs`. */
typedef struct hga_mask {
    hga_id n_queries, n_keys; /* equal: queries and keys are the same tokens, unless `cross` is 1 */
    int cross;                /* 1: they are different tokens, as they always are where the two numbers differ */
    int relative;             /* an edge's type is query - key + n_keys - 1, for tables by distance; 0: types are 0 */
    hga_predicate sees;       /* called with ascending rows, each once, on the calling thread */
    void *context;
    const uint8_t *bytes; /* [n_queries][n_keys], not 0 where the query sees the key; only read during the call */
    int64_t row_bytes;    /* from a row to the next; 0: n_keys */
    hga_id rows_at_once;  /* of one call of `sees`; 0: those of some 4 MB */
    const char *relation; /* its name; NULL: "edges" */
    const hga_mask_runs *runs;
    uint64_t reserved[3]; /* 0 */
} hga_mask;

/* A graph of one relation in which a query has an edge from every key that it sees. Its blocks (rectangles, triangles,
   bands, repeated with a step) are found while the rows go by: edges are not listed, but for what is irregular. Where
   most edges are on diagonals with a stride of d, the relation's orders are by residue modulo d, in which these are
   bands. Equal masks give equal graphs, in whichever form they are passed. It claims what is true of HGA_CLAIM_CAUSAL,
   HGA_CLAIM_SINGLE and HGA_CLAIM_COMPLETE. HGA_EINVAL for a wrong mask, HGA_ENOMEM, what `sees` returned. */
HGA_API hga_status hga_graph_from_predicate(const hga_allocator *a, const hga_mask *mask, hga_graph **out);

/* ---- rules ---- */

typedef struct hga_rule {
    const char *name;                       /* e.g. "parents_are_higher" */
    const char *says;                       /* one sentence */
    hga_status (*check)(const hga_graph *); /* HGA_OK, or HGA_EGRAPH with the offender in hga_error_detail() */
} hga_rule;
/* The table of rules, ended by a NULL name; hga_builder_finish and hga_graph_read hold graphs to all of them. */
HGA_API const hga_rule *hga_graph_rules(void);

/* ---- files ---- */

/* Write a graph as JSON. `members` (NULL accepted) is the text of further members of the top-level object, without
   braces, such as "\"program\": {..}". Written to a temporary name beside `path` and renamed; "-" is stdout. */
HGA_API hga_status hga_graph_write_json(const hga_graph *g, const char *members, const char *path);
/* Read a graph that hga_graph_write_json wrote, or a person. "-" is stdin. *program (NULL accepted) gets the text of
   its `program` member, or NULL; free it with hga_text_free. Explicit edges and blocks may be mixed. */
HGA_API hga_status hga_graph_read_json(const hga_allocator *a, const char *path, hga_graph **out, char **program);
/* Free a text that the library gave; NULL is accepted. */
HGA_API void hga_text_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
