/* stage_plan.h: what a plan knows of a stage, and its long rows (long_rows.c); blocks with columns of nodes without
   rows (rowless_columns.c). */
#ifndef HGA_PLAN_STAGE_PLAN_H
#define HGA_PLAN_STAGE_PLAN_H

#include "phases.h"
#include "regions.h"
#include "stage_semantics.h"

/* What the plan knows of a stage. */
typedef struct stage_plan {
    stage_kind kind;
    hga_relation relation; /* zeroed along the tree */
    double edges;
    hga_pos panels;
    hga_id cut_level, cut; /* stages down the tree: the level of the cut and its first node; 0: none */
    int crosses_all;       /* what comes across the cut goes to all nodes below it, not to the output's rows alone */
    long_row *long_row;    /* ascending position */
    hga_id n_long, n_splits;
    int64_t long_capacity;
    int by_columns;      /* panels go by their columns, see by_columns.c */
    int splits_share;    /* most pieces have the columns of some others */
    int waits_for_heads; /* most nodes are columns of a panel that runs head by head, and all panels share them */
    int strict;          /* what a row is computed with depends on no row beside it */
    int from_instances;  /* columns of a strict stage have places from their instance's first on, not their level's */
    int has_rowless_columns; /* blocks have columns of nodes without rows: no tiles */
    program_shown shown;     /* where an aggregate sees which fields */
    hga_pos *row_ptr;        /* [n + 1]: canonical position of a row's first edge, of a user's function; NULL */
    int64_t split_at;        /* floats from the start of the workspace: [n_splits][split_floats] */
} stage_plan;

static inline hga_id level_of_node(const hga_nodes *nodes, hga_id v)
{
    hga_id l = nodes->n_levels - 1;
    while (l > 0 && nodes->level_ptr[l] > v) l--;
    return l;
}

/* The node at a position of the stage's relation. */
static inline hga_id node_at(const stage_plan *s, hga_id position)
{
    return s->relation.dst_order ? s->relation.dst_order[position] : position;
}

/* The long row at a position, or NULL. */
static inline const long_row *long_row_at(const stage_plan *s, hga_id position)
{
    hga_id lo = 0, hi = s->n_long;
    if (hi == 0 || position < s->long_row[0].position || position > s->long_row[hi - 1].position) return NULL;
    while (lo < hi) {
        hga_id mid = lo + (hi - lo) / 2;
        if (s->long_row[mid].position < position)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < s->n_long && s->long_row[lo].position == position ? &s->long_row[lo] : NULL;
}

static inline const long_row *long_row_of(const stage_plan *s, hga_id split)
{
    hga_id lo = 0, hi = s->n_long;
    while (hi - lo > 1) {
        hga_id mid = lo + (hi - lo) / 2;
        if (s->long_row[mid].first_split <= split)
            lo = mid;
        else
            hi = mid;
    }
    return &s->long_row[lo];
}

/* The node whose value node v reads in a stage down the tree; -1: none. */
static inline hga_id node_above(const hga_nodes *nodes, tree_part part, hga_id cut, hga_id v)
{
    hga_id u = nodes->parent ? nodes->parent[v] : -1;
    if (part == TREE_BELOW) return u < cut ? u : -1;
    while (part == TREE_ACROSS && u >= 0 && u < cut) u = nodes->parent[u];
    return u;
}

/* Finds the stages whose blocks have columns of nodes without rows. */
void rowless_columns_find(hga_plan *plan);

#endif
