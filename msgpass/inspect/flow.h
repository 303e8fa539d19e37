/* flow.h: what every question about a program is answered by: which tokens flow into a value, as lists of intervals.
   Which stages and fields they flow through, which rows a stage leaves as they were, what goes in, and the sums over
   the edges of one stage, either way. */
#ifndef HGA_FLOW_H
#define HGA_FLOW_H

#include "intervals.h"
#include "program.h"
#include "sources.h"

/* ---- stages and fields ---- */

/* The field whose lists an edge of the stage hands on, 0 without. */
hga_id flow_source(const hga_program *p, const hga_stage *s);
/* The field whose list a row adds of its own, 0 without. */
hga_id flow_own(const hga_stage *s);
/* Does the stage read what it writes? */
int flow_in_place(const hga_program *p, const hga_stage *s);
/* The stages before stage `end` by which something flows into *fields; *fields grows by what those read. Sets. */
uint32_t flow_stages(const hga_program *p, hga_id end, uint32_t *fields);
/* Those of them whose edges are what a query attends to: where there are scores, these, else the last step from one
   field to another. */
uint32_t flow_attending(const hga_program *p, uint32_t stages);
/* Does a stage that writes `out` leave row v as it was? Not a row without edges: that holds a sum of nothing. */
int flow_keeps(const hga_nodes *nodes, const hga_stage *s, const hga_field *out, hga_id v);

/* ---- lists ---- */

enum { FLOW_LEVELS = 64 }; /* levels above share the last tag */
/* The level of node v as a set of tags. */
uint64_t flow_level(const hga_graph *g, hga_id v);
static inline hga_id flow_node(const hga_id *order, hga_id position) { return order ? order[position] : position; }
/* The order of the sources of a relation, and how many positions it has; of the tree: node ids. */
const hga_id *flow_source_order(const hga_graph *g, hga_id relation, hga_id *n);

/* What the caller gives in an input field: each row of it stands for the key tokens below its node. Rows of `letters`
   (HGA_ROWS_*, -1: none) stand for themselves instead, by node. */
hga_status flow_start(const hga_graph *g, const hga_field *field, int letters, interval_sum *sum, interval_lists *out);

/* Lists of single intervals that continue each other, as those of tokens do, are added as one: last[i] is the last
   position that position i goes on to. With `by_level`, nodes must be of one level, whatever their tags. */
hga_status flow_chain(const hga_graph *g, const interval_lists *l, const hga_id *order, hga_id n, int by_level,
                      hga_id **last);

/* Sums over the edges of a stage: out[v] = own[v] + the lists of v's sources. */
typedef struct flow_sums {
    const hga_graph *g; /* the graph or, backwards, its transpose */
    interval_sum *sum;
    const interval_lists *from; /* what the sources hand on, NULL: nothing; may be `out`, for a stage in place */
    const interval_lists *own;  /* NULL: nothing */
    const hga_stage *stage;     /* NULL, or the stage, and the field that it writes: what rows it leaves alone */
    const hga_field *field;     /* stay as `kept` has them */
    const interval_lists *cached;
    const hga_field *only; /* NULL, or: sources that are not rows of this field hand on nothing */
    int by_level;          /* what is handed on is from now on known by the source's level alone */
    interval_lists *out;   /* created */
    /* of the relation at hand */
    hga_nodes nodes;
    const hga_id *order;
    hga_id *chain, n_positions;
} flow_sums;

hga_status flow_sums_begin(flow_sums *w, hga_id relation);
void flow_sums_end(flow_sums *w);
/* Everything that the sources of a group hand on goes into the sum. */
hga_status flow_add_sources(const flow_sums *w, const reach *r);
/* All rows of a stage over the relation, flow_sums_begin and _end included. */
hga_status flow_gather(flow_sums *w, hga_id relation, hga_order order);

/* What a stage reads of the lists `of` each field, without `out`. */
hga_status flow_reads(const hga_program *p, const hga_graph *g, const hga_stage *s, interval_sum *sum,
                      interval_lists *of, flow_sums *out);
/* of[s->out] after the stage. */
hga_status flow_forward(const hga_program *p, const hga_graph *g, const hga_stage *s, int by_level, interval_sum *sum,
                        interval_lists *of);

/* ---- the whole way ---- */

/* The list of node v in the out field: n intervals, lent for the call; `same`: they are those of the call before. */
typedef hga_status (*flow_row)(const interval *list, int64_t n, int same, hga_id v, void *context);

typedef struct flow_wish {
    int by_level; /* tag intervals with the levels of attended sources; 0: no tags, and lists are shorter */
    /* 0: intervals of key tokens. 1: of nodes, self-attention only: a node with a row in the caller's output stands for
       itself, others for their tokens */
    int by_node;
    flow_row row; /* called once for every query token, and perhaps for other nodes; with by_node for every node */
    void *context;
} flow_wish;

/* Which key tokens reach the output of which node: `times` 2 means more than once. */
hga_status flow_rows(const hga_program *p, const hga_graph *g, const flow_wish *wish);

#endif
