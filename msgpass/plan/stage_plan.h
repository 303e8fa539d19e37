/* stage_plan.h: what a plan knows of a stage; its phases, independent rows cut into panels (phases.c), and the waves in
   which panels run (schedule.c). */
#ifndef HGA_PLAN_STAGE_PLAN_H
#define HGA_PLAN_STAGE_PLAN_H

#include "hga_plan.h"
#include "kernels.h"
#include "program.h"
#include "row_splits.h"
#include "regions.h"
#include "stage_semantics.h"

/* Rows that are looked up together, in groups of a tile's height; a phase with few rows has smaller panels. */
enum { PANEL_GROUPS = 16, PANEL_ROWS = PANEL_GROUPS * KERNEL_TILE };

typedef struct long_row { /* a row whose splits, `cut` edges each, are divided among threads and merged */
    hga_id position;
    hga_id first_split, n_splits;
    hga_pos cut, n_edges;
    lone_columns alone;
} long_row;

typedef enum phase_job { JOB_ROWS, JOB_SPLITS, JOB_MERGE, JOB_ROUND, JOB_LSE } phase_job;

/* Stages down the tree: a row and its parent; only if the parent is below the cut, so that a subtree is finished as
   soon as it has been attended to; a row below the cut and its nearest ancestor that is not below it. */
typedef enum tree_part { TREE_WHOLE, TREE_BELOW, TREE_ACROSS } tree_part;

typedef struct phase {
    phase_job job;
    hga_id stage;    /* JOB_ROUND, JOB_LSE: the field */
    hga_id together; /* JOB_ROWS: so many stages, from that one on, run over the same rows; 0 and 1: it alone */
    hga_id first, n; /* rows: positions of the relation's order, or nodes */
    int by_position;
    tree_part part_of_tree;
    hga_id panel; /* rows in a panel */
    hga_id n_panels;
    hga_id head_ranges; /* ranges of key/value heads that a panel is computed in, 0 and 1: all at once */
    int64_t *cost;      /* [n_panels]: edges, estimated, and a little for each row; NULL: rows alone */
    /* [n_panels][head_ranges]: an item's thread; NULL: the one that owns the tokens that its rows stand for */
    hga_id *owner;
    int64_t jobs_at, items_at; /* for slices: jobs and items of the phases before */
} phase;

static inline hga_id head_ranges(const phase *ph) { return ph->head_ranges > 1 ? ph->head_ranges : 1; }
static inline hga_id stages_end(const phase *ph) { return ph->stage + (ph->together > 1 ? ph->together : 1); }
/* Whether the phase computes rows of the stage. */
static inline int runs_stage(const phase *ph, hga_id stage)
{
    return ph->job == JOB_ROWS && stage >= ph->stage && stage < stages_end(ph);
}
static inline int64_t count_items(const phase *ph) { return (int64_t)ph->n_panels * head_ranges(ph); }

typedef struct stage_plan {
    stage_kind kind;
    hga_relation relation; /* zeroed along the tree */
    double edges;
    hga_pos panels;
    hga_id cut_level, cut; /* stages down the tree: the level of the cut and its first node; 0: none */
    int crosses_all;       /* values cross the cut to all nodes below it, not to the output's rows alone */
    long_row *long_row;    /* ascending position */
    hga_id n_long, n_splits;
    int64_t long_capacity;
    int by_columns;          /* panels run by columns, see by_columns.c */
    int splits_share;        /* most splits have the columns of some others */
    int waits_for_heads;     /* most nodes are columns of a panel that runs head by head, and all panels share them */
    int strict;              /* how a row is computed depends on no neighbouring row */
    int from_instances;      /* a strict stage's columns have slots counted from their instance, not their level */
    int has_rowless_columns; /* blocks have columns of nodes without rows: no tiles */
    program_shown shown;     /* the fields that an aggregate sees, and where */
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

/* ---- waves: the order in which panels run ---- */

/* Where there are fewer panels than threads an item is a panel and a range of key/value heads. */
typedef struct wave_item {
    hga_id phase, panel, head_range;
} wave_item;

/* The threads wait for each other between waves; in wave w thread t runs item[ptr[w * threads + t]] .. item[ptr[w *
   threads + t + 1] - 1], in the order of its tokens, which costs cost[w * threads + t]. */
typedef struct wave_order {
    wave_item *item;
    int64_t *ptr, n_items, *cost;
    hga_id n;  /* waves */
    int alone; /* too little work for more than one thread */
    /* [threads + 1]: thread t has tokens token[t] .. token[t + 1] - 1, where rows follow the tokens; as the rows of
       the output are cut into panels */
    hga_id *token;
} wave_order;

/* ---- making them ---- */

/* Makes the phases of all stages, in order, with their panels and long rows. */
hga_status phases_make(hga_plan *plan);
/* Drops costs and owners, which only planning needs. */
void phases_forget_costs(hga_plan *plan);
/* Frees phases, windows of columns, long rows and row_ptr. */
void phases_clear(hga_plan *plan);
/* Makes the order of all panels, once their storage is known; the plan's waves must be clear. */
hga_status waves_make(hga_plan *plan);
/* Sum of the longest shares of all waves as a fraction of all work: 1 where only one thread works at a time. */
double waves_longest_shares(const hga_plan *plan);
/* Frees the order; team.n must be as when it was made. */
void waves_clear(hga_plan *plan);

#endif
