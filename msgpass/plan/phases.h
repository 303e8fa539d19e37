/* phases.h: phases, independent rows cut into panels (phases.c); the waves in which panels run (schedule.c). */
#ifndef HGA_PLAN_PHASES_H
#define HGA_PLAN_PHASES_H

#include "hga_plan.h"
#include "kernels.h"
#include "program.h"
#include "row_splits.h"

/* Rows that are looked up together, in groups of a tile's height; a phase with few rows has smaller panels. */
enum { PANEL_GROUPS = 16, PANEL_ROWS = PANEL_GROUPS * KERNEL_TILE };

typedef struct long_row { /* a row whose pieces, `cut` edges each, are shared out and merged */
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
    hga_id together; /* JOB_ROWS: so many stages, from that one on, go through the same rows; 0 and 1: it alone */
    hga_id first, n; /* rows: positions of the relation's order, or nodes */
    int by_position;
    tree_part part_of_tree;
    hga_id panel; /* rows in a panel */
    hga_id n_panels;
    hga_id head_ranges; /* ranges of key/value heads that a panel is computed in, 0 and 1: all at once */
    int64_t *cost;      /* [n_panels]: edges, roughly, and a little for each row; NULL: rows alone */
    /* [n_panels][head_ranges]: whose item it is; NULL: whose tokens its rows stand for */
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

/* ---- waves: the order in which panels run ---- */

/* Where there are fewer panels than threads an item is a panel and a range of key/value heads. */
typedef struct wave_item {
    hga_id phase, panel, head_range;
} wave_item;

/* The threads wait for each other between waves; in wave w thread t runs item[ptr[w * threads + t]] .. item[ptr[w *
   threads + t + 1] - 1], along its tokens, which costs cost[w * threads + t]. */
typedef struct wave_order {
    wave_item *item;
    int64_t *ptr, n_items, *cost;
    hga_id n;  /* waves */
    int alone; /* so little work that one thread does it all */
    /* [threads + 1]: thread t goes along tokens token[t] .. token[t + 1] - 1, where rows follow the tokens; as the rows
       of the output are cut into panels */
    hga_id *token;
} wave_order;

/* ---- making them ---- */

hga_status phases_make(hga_plan *plan);
/* Drops costs and owners, which only planning needs. */
void phases_forget_costs(hga_plan *plan);
void phases_clear(hga_plan *plan);
/* Makes the order of all panels, once their storage is known; the plan's waves must be clear. */
hga_status waves_make(hga_plan *plan);
/* Sum of the longest shares of all waves as a fraction of all work: 1 where only one thread works at a time. */
double waves_longest_shares(const hga_plan *plan);
void waves_clear(hga_plan *plan);

#endif
