/* halo_finding.h: what the files that find a halo share: halo.c, halo_requests.c, and halo_splits.c for rows in
   splits. */
#ifndef HALO_FINDING_H
#define HALO_FINDING_H

#include "halo.h"
#include "row_splits.h"
#include "sources.h"

enum { SHARED = OWNED_BY_ALL, MOST_REQUESTS = 1 << 16, SIDES = 2, RECENT_LEVELS = 32 };

/* Rank `to` requests rows [first, last] of a field as stage `wrote` left it, for stage `reads`. */
typedef struct row_request {
    hga_id field, wrote, to, first, last, reads;
} row_request;

/* What goes through all of a search. */
typedef struct finding finding;
/* Rows that ranks request of each other. */
typedef struct request_list {
    row_request *list;
    int64_t n, capacity, melt_at;
    /* the last two requests of each field and level, -1: neighbouring rows request the same on their left and right */
    int64_t recent[HGA_FIELD_SLOTS][RECENT_LEVELS][SIDES];
} request_list;

/* The stage at hand. */
typedef struct stage_walk {
    const hga_stage *stage;
    hga_id number, rank; /* whose rows are walked */
    uint32_t reads;      /* fields read at sources */
    hga_pos cut_edges;   /* 0: no row is cut */
    split_rule rule;
} stage_walk;

/* The shared row at hand, and its splits. */
typedef struct row_cut {
    hga_id row;
    hga_pos sources;
    hga_pos *has;    /* [n_ranks]: sources of a split that a rank owns */
    hga_id *maker;   /* [n]: the rank that computes a split, SHARED: all do */
    hga_id *run_end; /* [n]: the first split after it that has another maker */
    int64_t maker_capacity, run_capacity;
} row_cut;

struct finding {
    const hga_graph *g;
    const hga_program *p;
    hga_shape shape;
    hga_nodes nodes;
    hga_id *owner, *next; /* [n]: of a node, SHARED; the first node after it that is not of the same owner and level */
    hga_id wrote[HGA_FIELD_SLOTS];
    request_list requests;
    hga_pos shared_edges;
    hga_halo_list *out;
    stage_walk walk;
    row_cut cut;
};

typedef hga_status (*interval_visit)(finding *f, hga_id first, hga_id last, void *context);

/* In functions that order a before b. */
#define ORDER(member) \
    if (a->member != b->member) return a->member < b->member

/* ---- halo_requests.c ---- */

/* Before the first request: sets after how many they are merged, and forgets recent ones. */
void halo_begin_requests(finding *f);
/* Sorts the requests and merges those that touch. */
void halo_melt(finding *f);

/* Visits the nodes of a reach as intervals. */
hga_status halo_each_interval(finding *f, const reach *r, interval_visit visit, void *context);
/* Rank *context requests every field that the stage reads at its sources, of nodes [first, last]. */
hga_status halo_request_interval(finding *f, hga_id first, hga_id last, void *context);

/* ---- halo_splits.c ---- */

/* Is the shared row, of so many sources, cut into splits because it has its columns alone? */
int halo_cuts(const finding *f, const reach *r, hga_pos sources);
/* Finds its splits, and what the rank that computes one requests of others. */
hga_status halo_cut_row(finding *f, const reach *r, hga_pos sources);

#endif
