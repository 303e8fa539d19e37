/* hga_inspect.h: who sees whom, at which level, how often. Exact answers for any graph and program, by interval
   arithmetic on spans and segments: never by sampling, never by expanding tokens x tokens. */
#ifndef HGA_INSPECT_H
#define HGA_INSPECT_H

#include "hga_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Find out whether any output depends on a later token. Follows the latest token that reaches every field of every node
   through all stages. *token = -1 when causal, else a query token and *sees, the latest token that influences it.
   Self-attention only (HGA_EUNSUPPORTED otherwise); user stages count as reading all they may. */
HGA_API hga_status hga_program_influence(const hga_program *p, const hga_graph *g, hga_id *token, hga_id *sees);

/* (query token, key token) pairs the program's attend stages cover, through sources' spans and the states' path down
   the tree. */
typedef struct hga_coverage {
    int64_t pairs;            /* n_queries * n_keys, or the earlier ones when `causal` */
    int64_t none, once, more; /* among them, covered never, once, more often */
    int64_t none_diagonal;    /* of `none`, a token and itself */
    int64_t later;            /* pairs covered whose key token is later than the query token */
    hga_id token, other;      /* a pair covered more than once, or (first) never; -1 */
} hga_coverage;
/* Count the (query token, key token) pairs that a program covers on a graph, and those that it does not; causal 1: of
   the pairs whose key is not later than the query. */
HGA_API hga_status hga_program_coverage(const hga_program *p, const hga_graph *g, int causal, hga_coverage *out);

/* Tokens x tokens that one run of edges covers: query tokens [query, query + n_queries) (counted within the query
   range) see key tokens [key, key + n_keys) (within the key range) through destination nodes of level `level` and
   sources of level `source_level`, in stage `stage`. Every pair of the rectangle is covered `times` times by it. */
typedef struct hga_patch {
    hga_id query, n_queries, key, n_keys;
    hga_id level, source_level, stage;
    hga_pos times;
} hga_patch;
typedef hga_status (*hga_patch_visit)(const hga_patch *patch, void *context);

/* Visit the rectangles of the attention pattern, in no particular order; together they cover what hga_program_coverage
   counts. Large full blocks are one patch; bands and holes are cut into rectangles; tree stages (spread, descend) widen
   a row's queries to all tokens below it. Programs without attend stages: the pairs reached through mean / sum /
   weighted sum. Stops at the first status that is not HGA_OK and returns it. Memory does not grow with edges. */
HGA_API hga_status hga_program_pattern(const hga_program *p, const hga_graph *g, hga_patch_visit visit, void *context);

/* One source that a query token attends to. */
typedef struct hga_seen {
    hga_id stage, destination, source; /* the edge, by node ids */
    hga_id level, source_level;
    int32_t type;
    hga_id key_first, key_last; /* the source's span within the key range; first > last: not an interval */
} hga_seen;
typedef hga_status (*hga_seen_visit)(const hga_seen *seen, void *context);
/* Visit everything that query token `token` attends to, directly and through the nodes whose states reach it, canonical
   order within each destination, destinations from the token up. */
HGA_API hga_status hga_program_row(const hga_program *p, const hga_graph *g, hga_id token, hga_seen_visit visit,
                                   void *context);

/* One edge by which a query token attends, with its weight. */
typedef struct hga_weight {
    hga_seen edge;
    double score;  /* s(u, v, e) of hga_program.h; 0 where the stage has no scores */
    double weight; /* the source's value is in the token's output this many times */
} hga_weight;
typedef hga_status (*hga_weight_visit)(const hga_weight *weight, void *context);
/* Compute the weights that query token `token` pays under query head `head`, in double, by the stages' definitions
   (semantics/) and not by the engine: the edges that hga_program_row visits (and earlier ones, where values are results
   of attention), in its order, and each key token's share of the output: token_weight[n_keys], a node's share evenly
   among the tokens under it. Either may be NULL. `shape` and `io` as for hga_plan_execute: queries and keys, tables and
   user tensors are read; values and outputs are not (NULL is accepted). Where all rows have edges and all stages take
   means or attend, weights sum to one. HGA_EINVAL names a tensor that is missing or too short; HGA_EUNSUPPORTED: a user
   function is on the path. Computes what the one token needs: the cost is that of its edges and of the coarse queries
   and keys among them (with an energy, of the tree). */
HGA_API hga_status hga_program_weights(const hga_program *p, const hga_graph *g, const hga_shape *shape,
                                       const hga_io *io, hga_id token, hga_id head, hga_weight_visit visit,
                                       void *context, double *token_weight);

/* How often pairs are covered, by the set of levels that cover them: times[i] pairs are covered by exactly the levels
   in the bit set levels[i]. */
typedef struct hga_levels_count {
    hga_id n;
    uint64_t *levels;
    int64_t *pairs;
    hga_allocator allocator;
} hga_levels_count;
/* Count the pairs by the levels that cover them. *out is yours: hga_levels_count_clear. */
HGA_API hga_status hga_program_levels(const hga_program *p, const hga_graph *g, hga_levels_count *out);
/* hga_program_coverage and hga_program_levels in one walk, for two thirds of the time of two. */
HGA_API hga_status hga_program_coverage_levels(const hga_program *p, const hga_graph *g, int causal,
                                               hga_coverage *coverage, hga_levels_count *out);
/* Free the arrays of a hga_levels_count. */
HGA_API void hga_levels_count_clear(hga_levels_count *c);

/* Count the layers of this program until every token has been reached by every other (by every earlier one, when
   causal): 1 when one layer does it; -1 if it never happens; 0 if more than `most` were needed. Self-attention only. */
HGA_API hga_status hga_program_layers(const hga_program *p, const hga_graph *g, int causal, hga_id most,
                                      hga_id *layers);
/* Count layers as hga_program_layers does, but give up with HGA_EUNSUPPORTED when more than `work` intervals of nodes
   must be joined; irregular graphs have many of them. Some ten million take a second. */
HGA_API hga_status hga_program_layers_within(const hga_program *p, const hga_graph *g, int causal, hga_id most,
                                             int64_t work, hga_id *layers);

#ifdef __cplusplus
}
#endif
#endif
