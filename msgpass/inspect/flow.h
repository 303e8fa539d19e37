/* flow.h: what all queries about a program use: which tokens flow into a value, as lists of intervals. Which stages and
   fields they flow through, which rows a stage leaves unchanged, the lists of inputs, and the sums over the edges of
   one stage, in both directions. */
#ifndef HGA_FLOW_H
#define HGA_FLOW_H

#include "intervals.h"
#include "program.h"
#include "sources.h"

/* ---- stages and fields ---- */

/* The field whose lists an edge of the stage propagates; 0: none. */
hga_id flow_source(const hga_program *p, const hga_stage *s);
/* The field whose list at its own node a row adds; 0: none. */
hga_id flow_own(const hga_stage *s);
/* Whether the stage reads the field that it writes. */
int flow_in_place(const hga_program *p, const hga_stage *s);
/* The stages before stage `end` by which something flows into *fields; *fields grows by the fields that they read.
   Sets. */
uint32_t flow_stages(const hga_program *p, hga_id end, uint32_t *fields);
/* Those of them whose edges are what a query attends to: the ones with scores, if there are any, else the last step
   from one field to another. */
uint32_t flow_attending(const hga_program *p, uint32_t stages);
/* Whether a stage that writes `out` leaves row v unchanged. A row without edges does not count: it holds a sum of
   nothing. */
int flow_keeps(const hga_nodes *nodes, const hga_stage *s, const hga_field *out, hga_id v);

/* ---- lists ---- */

enum { FLOW_LEVELS = 64 }; /* levels above share the last tag */
/* The level of node v as a set of tags. */
uint64_t flow_level(const hga_graph *g, hga_id v);
static inline hga_id flow_node(const hga_id *order, hga_id position) { return order ? order[position] : position; }
/* The order of the sources of a relation, and how many positions it has; of the tree: node ids. */
const hga_id *flow_source_order(const hga_graph *g, hga_id relation, hga_id *n);

/* Lists of an input field: each row represents the key tokens below its node. Rows of `letters` (HGA_ROWS_*, -1: none)
   represent themselves instead, by node. */
hga_status flow_start(const hga_graph *g, const hga_field *field, int letters, interval_sum *sum, interval_lists *out);

/* Finds chains of single intervals that continue each other, as those of tokens do, to be added as one: last[i] is the
   last position of the chain from position i. With `by_level`, nodes must be of one level, whatever their tags. */
hga_status flow_chain(const hga_graph *g, const interval_lists *l, const hga_id *order, hga_id n, int by_level,
                      hga_id **last);

/* Sums over the edges of a stage: out[v] = own[v] + the lists of v's sources. */
typedef struct flow_sums {
    const hga_graph *g; /* the graph or, backwards, its transpose */
    interval_sum *sum;
    const interval_lists *from; /* the sources' lists, NULL: none; may be `out`, for a stage in place */
    const interval_lists *own;  /* NULL: none */
    const hga_stage *stage;     /* NULL, or the stage, and the field that it writes: rows that it leaves unchanged */
    const hga_field *field;     /* have their lists in `cached` */
    const interval_lists *cached;
    const hga_field *only; /* NULL, or: sources that are not rows of this field add nothing */
    int by_level;          /* added intervals are tagged by the source's level alone */
    interval_lists *out;   /* created */
    /* of the current relation */
    hga_nodes nodes;
    const hga_id *order;
    hga_id *chain, n_positions;
} flow_sums;

/* Finds the sources' order and chains for a relation. Call flow_sums_end whatever the outcome. */
hga_status flow_sums_begin(flow_sums *w, hga_id relation);
/* Frees the chains. */
void flow_sums_end(flow_sums *w);
/* Adds the lists of all sources of a group to the sum. */
hga_status flow_add_sources(const flow_sums *w, const reach *r);
/* Computes all rows of a stage over the relation, flow_sums_begin and _end included. */
hga_status flow_gather(flow_sums *w, hga_id relation, hga_order order);

/* Sets the lists that a stage reads, `of` each field, without `out`. */
hga_status flow_reads(const hga_program *p, const hga_graph *g, const hga_stage *s, interval_sum *sum,
                      interval_lists *of, flow_sums *out);
/* Computes of[s->out] after the stage. */
hga_status flow_forward(const hga_program *p, const hga_graph *g, const hga_stage *s, int by_level, interval_sum *sum,
                        interval_lists *of);

/* ---- the whole program ---- */

/* Receives the list of node v in the out field: n intervals, borrowed for the call; `same`: they are those of the call
   before. */
typedef hga_status (*flow_row)(const interval *list, int64_t n, int same, hga_id v, void *context);

typedef struct flow_wish {
    int by_level; /* tag intervals with the levels of attended sources; 0: no tags, and lists are shorter */
    /* 0: intervals of key tokens. 1: of nodes, self-attention only: a node with a row in the caller's output stands for
       itself, others for their tokens */
    int by_node;
    flow_row row; /* called once for every query token, and perhaps for other nodes; with by_node for every node */
    void *context;
} flow_wish;

/* Computes which key tokens reach the output of which node: `times` 2 means more than once. */
hga_status flow_rows(const hga_program *p, const hga_graph *g, const flow_wish *wish);

#endif
