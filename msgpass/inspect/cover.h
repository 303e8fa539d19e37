/* cover.h: which key tokens reach which query tokens, as sorted lists of intervals, one list a node. Counted by
   coverage.c, inspect_levels.c and inspect_layers.c. */
#ifndef HGA_COVER_H
#define HGA_COVER_H

#include "hga_inspect.h"

enum { COVER_LEVELS = 64 }; /* levels above share the last bit of a set */

/* Key tokens first .. last are covered `times` (2 means more than once), by way of sources on `levels`; before them in
   its list, `once` tokens are covered once and `more` more often. */
typedef struct cover {
    hga_id first, last, times, once, more;
    uint64_t levels;
} cover;

/* The list of node v in the out field: n disjoint intervals in order, lent for the call; NULL when n is 0. */
typedef hga_status (*cover_row)(const cover *list, int64_t n, hga_id v, void *context);

typedef struct cover_wish {
    int by_level; /* tell the levels of attended sources; 0: `levels` is 0, and lists are shorter */
    /* 0: intervals of key tokens. 1: of nodes, self-attention only: a node with a row in the caller's output stands for
       itself, others for their tokens */
    int by_node;
    cover_row row; /* called once for every query token, and perhaps for other nodes; with by_node for every node */
    void *context;
} cover_wish;

hga_status cover_rows(const hga_program *p, const hga_graph *g, const cover_wish *wish);

/* Which stages hand on what ends in the out field, backwards from it, and the fields they take it from; sets. */
uint32_t cover_stages(const hga_program *p, uint32_t *fields);
/* Those of them whose edges are what a query attends to: where there are scores, these, else the last step from one
   field to another. */
uint32_t cover_attending(const hga_program *p, uint32_t stages);
/* The field whose lists an edge hands on, 0 without. */
hga_id cover_source(const hga_program *p, const hga_stage *s);
/* The field whose list a row adds of its own, 0 without. */
hga_id cover_own(const hga_stage *s);
/* The level of node v as a set. */
uint64_t cover_level(const hga_graph *g, hga_id v);

#endif
