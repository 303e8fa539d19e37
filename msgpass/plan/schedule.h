/* schedule.h: shared by the files that make a schedule. schedule.c is on top and calls the others, panel by panel
   in program order:

   accesses.c      which rows a panel reads and writes
   dependences.c   what it depends on: panels that wrote what it reads (RAW), read (WAR) or wrote (WAW) what it writes
   slack.c         which panels may come later, so that threads wait less
   live_ranges.c   from when to when the workspace must hold a row */
#ifndef SCHEDULE_H
#define SCHEDULE_H

#include "plan.h"

/* Sets of rows: the storages, and the splits of each stage. */
enum { SPLITS = N_STORAGES, N_ROW_SETS = SPLITS + HGA_MAX_STAGES };

/* When a panel runs: in a wave, on a thread, and at a position among its tokens. */
typedef struct stamp {
    hga_id wave, owner, at; /* wave -1: never */
} stamp;

/* A panel of the program. */
typedef struct entry {
    stamp when;
    wave_item item;
    hga_id last;    /* position */
    int64_t number; /* in program order */
} entry;

/* ---- accesses.c ---- */

/* Of a level: its first bucket, and log2 of a bucket's nodes. */
typedef struct level_buckets {
    hga_id first;
    int shift;
} level_buckets;

/* The first and the last phase that use a row set; -1: none, or the caller alone. */
typedef struct users {
    int64_t first, last;
} users;

/* Buckets of a row set by their numbers. */
typedef struct bucket_span {
    int64_t first, last;
} bucket_span;

/* Buckets [first, last] of contiguous rows, of any row set. */
typedef struct bucket_run {
    hga_id first, last;
} bucket_run;

/* A list of a panel's runs, of its sources or of its own rows: not computed, complete, or more runs than its
   capacity. */
typedef enum runs_found { RUNS_UNKNOWN, RUNS_LISTED, RUNS_TOO_MANY } runs_found;
typedef struct run_list {
    runs_found found;
    hga_id n;
    bucket_run run[32];
} run_list;

/* Storages that a phase reads at the sources and at the row, and writes there. */
typedef struct storages_touched {
    uint64_t sources, own, writes;
} storages_touched;

typedef struct accesses accesses;
/* Rows are tracked by buckets of neighbours. Bucket b of row set s has number at[s] + b. */
struct accesses {
    const hga_plan *plan;
    level_buckets *bucket;     /* [n_levels + 1] */
    storages_touched *touched; /* [n_phases] */
    int64_t n_phases;
    users writers[N_ROW_SETS], all[N_ROW_SETS];
    uint64_t recycled; /* storages whose rows are recycled from node to node */
    int64_t at[N_ROW_SETS], n_buckets;
    int one_bucket; /* for all rows of a set */
    hga_id level;   /* of the last node */
    /* the last panel visited, whose runs are found once for all callers */
    const phase *of;
    hga_id panel;
    run_list sources, own;
};

/* Some storages, by the numbers of their first buckets. */
typedef struct row_sets {
    int64_t at[N_STORAGES];
    hga_id n;
} row_sets;

/* What a phase reads at its sources and at its rows, and writes there. */
typedef struct phase_accesses {
    const phase *of;
    row_sets sources, own, writes;
} phase_accesses;

/* Receives buckets first .. last of one set, which are read or written. */
typedef void (*access_function)(void *context, int writes, int64_t first, int64_t last);

/* Cuts levels into buckets, and numbers the buckets of storages. recycles: whether a storage's rows hold one node after
   another. */
hga_status accesses_open(accesses *a, const hga_plan *plan, int (*recycles)(const hga_plan *plan, hga_id storage));
/* Frees what accesses_open allocated; also after it failed. */
void accesses_close(accesses *a);
/* The accesses of phase `number` that phases before it (after = 0) or after it (1) share; with 1 also those of recycled
   rows. */
phase_accesses accesses_of(const accesses *a, hga_id number, int after);
/* Calls `each` with all that a panel reads and writes. */
void accesses_visit(accesses *a, const phase_accesses *of, hga_id panel, access_function each, void *context);
/* The buckets that hold nodes [first, last] of a storage. */
bucket_span accesses_buckets(accesses *a, hga_id storage, hga_id first, hga_id last);
/* The storages that a phase uses for one of its stages (jobs on a field: for that). */
storages_touched accesses_touched(const hga_plan *plan, const phase *ph, hga_id stage);
/* Receives nodes first .. last. */
typedef void (*node_function)(void *context, hga_id first, hga_id last);
/* Calls `each` with the sources of rows [first, first + n) of a phase, nodes first .. last at a time, possibly repeated
   and in any order. */
void accesses_sources(const hga_plan *plan, const phase *ph, hga_id first, hga_id n, node_function each, void *context);
/* The node of row i of a phase. */
hga_id phase_node(const hga_plan *plan, const phase *ph, hga_id i);
/* Rows of a panel; the last one may have fewer. */
static inline hga_id phase_rows(const phase *ph, hga_id panel)
{
    return ph->n - panel * ph->panel < ph->panel ? ph->n - panel * ph->panel : ph->panel;
}
/* Cost of an item of the panel: its head range's share. */
static inline int64_t item_cost(const phase *ph, hga_id panel)
{
    return (ph->cost ? ph->cost[panel] : phase_rows(ph, panel)) / head_ranges(ph);
}

/* ---- dependences.c ---- */

/* The latest that touched a bucket. Panels of a phase never wait for each other, though they may share a bucket. */
typedef struct trace {
    stamp before, all; /* of the phases before `phase`; and including it */
    hga_id phase;
} trace;

typedef struct dependences {
    trace *read, *written; /* [n] buckets */
    int64_t n;
} dependences;

extern const stamp never;
/* Owner of a stamp that stands for panels of several threads: no single thread may join it. */
enum { SEVERAL = -1 };

/* Allocates n buckets that nothing has touched. */
hga_status dependences_open(const hga_allocator *a, int64_t n, dependences *d);
/* Frees them; also after dependences_open failed. */
void dependences_close(const hga_allocator *a, dependences *d);
/* The latest stamp on which a panel of phase `number` depends. */
stamp dependences_of(const dependences *d, accesses *a, const phase_accesses *waits, hga_id number, hga_id panel);
/* Notes that a panel of that phase uses these buckets at `mine`. */
void dependences_note(dependences *d, hga_id number, const stamp *mine, int writes, int64_t first, int64_t last);

/* ---- live_ranges.c ---- */

/* The first and the last panel, by stamps, that touch a bucket: entries, -1 before any. */
typedef struct bucket_ends {
    int64_t first, last;
    uint8_t first_shared, last_shared; /* in that wave several threads touch it, in no order */
    uint8_t input;                     /* the program's first access reads it, or it stays */
} bucket_ends;

typedef struct live_ranges {
    bucket_ends *ends; /* [n_buckets] */
    int64_t n_buckets;
    live_range *range; /* [n] */
    int64_t n, capacity;
} live_ranges;

/* Allocates n_buckets buckets that nothing has touched. */
hga_status live_ranges_open(const hga_allocator *a, int64_t n_buckets, live_ranges *l);
/* Frees the buckets and the ranges; also after live_ranges_open failed. */
void live_ranges_close(const hga_allocator *a, live_ranges *l);
/* Makes all buckets untouched again. */
void live_ranges_forget(live_ranges *l);
/* Notes that entry e, the latest of the program so far, uses these buckets. */
void live_ranges_note(live_ranges *l, const entry *entries, int64_t e, int writes, int64_t first, int64_t last);
/* Makes these buckets live from the first entry beyond the last. */
void live_ranges_keep(live_ranges *l, int64_t first, int64_t last);
/* Finds the ranges of all recycled storages, once entries are in order, waves ascending. */
hga_status live_ranges_find(live_ranges *l, const accesses *a, const entry *entries, int64_t n);

#endif
