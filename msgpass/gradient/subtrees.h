/* subtrees.h: where the nodes of a graph are cut into subtrees that run backward one after the other, so that their
   rows are in cache from the first stage to the last. The cuts depend on the graph and the shape alone. */
#ifndef HGA_GRADIENT_SUBTREES_H
#define HGA_GRADIENT_SUBTREES_H

#include "plan.h"
#include "row_ranges.h"
#include "solvers.h"

typedef struct row_range {
    hga_id first, end;
} row_range;

/* Nodes below level `n_levels` belong to subtrees: consecutive tokens and what stands for them alone. Those above are
   the top. */
typedef struct subtrees {
    hga_id n, n_levels;            /* n = 0: the program does not run by subtrees */
    hga_id query, key, value, out; /* its fields, one each */
    hga_id last_attended;          /* of the stages that attend */
    int spreads;                   /* states are merged down the tree */
    hga_id *begin;                 /* [n + 1][n_levels]: level l of subtree i is begin[i][l] .. begin[i + 1][l] - 1 */
    row_range *rows;               /* what is attended together: of the top rows[ptr[0]] .. rows[ptr[1] - 1], */
    hga_id *ptr, n_rows;           /* of subtree i rows[ptr[i + 1]] .. rows[ptr[i + 2] - 1]; [n + 2] */
    hga_id *needs;                 /* [n]: rows of subtree i have edges to subtrees before needs[i] alone, each no less
                                        than the one before it; n + 1: to the top, too */
    hga_id *index; /* [nodes]: where queries', keys', values' and the output's rows lie, so that subtrees
                                        far from each other share memory; NULL: as nodes do */
    /* The stage that sums children up, -1 without; and [nodes] the share of a parent's gradient that each of
       them gets: 0, it is not summed; NULL: all of it, or there is no such stage. Fields may have the same. */
    hga_id sum[HGA_FIELD_SLOTS];
    float *share[HGA_FIELD_SLOTS];
} subtrees;

/* The subtrees of a plan's program that subtrees_refuse has accepted; or *why its graph does not fit. Zero `out`
   first; it is cleared if that fails. */
hga_status subtrees_create(const hga_plan *plan, subtrees *out, const char **why);
/* Why are the stages of the plan's program, whatever its graph, not those that run by subtrees? NULL: they are. */
const char *subtrees_refuse(const hga_plan *plan, reason *buffer);
/* Frees the subtrees. */
void subtrees_clear(const hga_plan *plan, subtrees *s);

/* shares.c: the shares of all fields; or *why a stage sums up others than the children of its rows. */
hga_status shares_create(const hga_plan *plan, subtrees *s, const char **why);

/* Nodes of level l that belong to subtree i, and the first node of the top. */
static inline row_range subtree_level(const subtrees *s, hga_id i, hga_id l)
{
    const hga_id *begin = s->begin + (ptrdiff_t)i * s->n_levels + l;
    return (row_range){begin[0], begin[s->n_levels]};
}

#endif
