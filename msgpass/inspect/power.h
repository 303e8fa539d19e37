/* power.h: a reflexive relation between nodes, as intervals of ids. Where tokens reach whole neighbourhoods, one
   interval a node suffices, and composing two relations is a search for the smallest and the largest end over an
   interval. */
#ifndef HGA_HOP_H
#define HGA_HOP_H

#include "sources.h"

/* Node v reaches [first[v], last[v]], which holds v, and the further spans extra[start[v] .. start[v] + size[v]),
   sorted and disjoint from each other and from it. */
typedef struct hop {
    hga_id n;
    hga_id *first, *last;
    int64_t *start;
    int32_t *size;
    reach_span *extra;
    int64_t n_extra, capacity;
    hga_id *next;  /* [n]: the next node with extra spans, from v on; n without */
    hga_id *other; /* [n]: the next node after v with extra spans other than v's; n without */
    /* [2 n]: the smallest `first` below each position of a binary tree over the nodes, whose leaves are n .. 2 n - 1 */
    hga_id *low;
    hga_id *high; /* and the largest `last` */
} hop;

/* Creates the relation in which every node reaches itself only. */
hga_status hop_create(hga_id n, hop *h);
/* Frees the relation, and zeroes *h. */
void hop_clear(hop *h);
/* Sets what v reaches; `spans` may overlap and are sorted in place. */
hga_status hop_set(hop *h, hga_id v, reach_span *spans, int64_t n);
/* To be called after the last hop_set, before a relation is composed. */
hga_status hop_finish(hop *h);
/* out: from v to what b reaches from what a reaches from v. *work is the number of intervals that may still be joined,
   and is reduced; HGA_EUNSUPPORTED: it does not suffice, or the result has too many intervals. */
hga_status hop_compose(const hop *a, const hop *b, int64_t *work, hop *out);
/* Whether both relations, of equally many nodes, have the same intervals. */
int hop_equal(const hop *a, const hop *b);

#endif
