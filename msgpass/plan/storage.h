/* storage.h: where the rows of a field are stored (storage.c), and recycled rows of the workspace (allocate.c). */
#ifndef HGA_PLAN_STORAGE_H
#define HGA_PLAN_STORAGE_H

#include "kernels.h"
#include "program.h"

#include <stdint.h>

/* The floats of a row of n columns whose padding vectors may read and write. */
static inline hga_id padded(hga_id n) { return (n + KERNEL_PAD - 1) / KERNEL_PAD * KERNEL_PAD; }

/* Rows of the workspace for nodes [first, first + n). */
typedef struct area {
    hga_id first, n;
    int64_t floats;  /* of a row */
    hga_id own_pool; /* the field that alone has a pool of such rows; 0: nodes of any field take them */
    int64_t at;      /* floats from the start of the workspace */
    /* [n]: the recycled row of node first + i; NULL: row i, which no other node has */
    hga_id *slot;
} area;

/* Of a rank: rows of an internal field that are stored in rows of the caller's until these are written. */
typedef struct alias_rows {
    hga_id host; /* the field in whose tensor they are; 0: none */
    hga_id first, n;
    hga_id *row; /* [n]: of node first + i: the row of the rank's tensor; -1: it is in the workspace */
} alias_rows;

typedef struct field_storage {
    hga_id columns, heads;
    hga_id io_first, io_n; /* nodes whose rows are the caller's; 0 rows when internal */
    hga_id input_n;        /* rows of the call's tensor: all of them, or the rank's */
    area rows;             /* of the others, [heads][columns] */
    area lse;              /* states: of all of them, [heads] */
    /* operands that flat stages read rounded to bfloat16: of all nodes, in 16 bits in a plan of bf16 rows, else in
       floats. They are recomputed where the field was written since */
    area rounded;
    /* keep_fields: a copy of the caller's rows, [copy_n][heads][columns], made after each execution */
    int64_t copy_at;
    hga_id copy_n;
    /* the field in whose rows this one's values are stored, since they are not needed once those are written; 0: its
       own */
    hga_id host;
    alias_rows aliases;
} field_storage;

/* Recycled rows of one length. */
typedef struct row_pool {
    int64_t floats, rows, at;
    hga_id own_pool; /* see area */
    int64_t nodes;   /* that they serve */
} row_pool;
static inline int pool_is_of(const row_pool *p, const area *x)
{
    return p->floats == x->floats && p->own_pool == x->own_pool;
}

/* Storages: the rows of field f, and its rounded rows. */
enum { STORAGE_ROUNDED = HGA_FIELD_SLOTS, N_STORAGES = 2 * HGA_FIELD_SLOTS };

/* When rows of a storage are live: taken before item `begin` runs and freed after item `end`, never for -1; from and to
   the free rows of thread `thread`, which no other thread takes. */
typedef struct live_range {
    hga_id storage, first, n; /* nodes */
    hga_id thread;
    int64_t begin, end;
} live_range;

/* ---- storage.c ---- */

/* Whether the field is an operand of a bfloat16 plan. Flat stages read it rounded; stages that run level by level,
   which coarsen, read it unrounded. */
int storage_is_rounded(const hga_plan *plan, hga_id field);
/* Whether every flat stage that reads operands attends by a fused function, which alone reads 16 bits: then
   plan->bf16_rows. */
int storage_can_be_bf16(const hga_plan *plan);
/* Whether the stage reads rounded operands. */
static inline int reads_rounded(const hga_stage *s) { return s->order == HGA_FLAT || s->message == HGA_SCORE; }
/* The storage in which a stage reads a field. It writes to the field itself. */
hga_id read_storage(const hga_plan *plan, const hga_stage *s, hga_id field);
/* The storages in which a stage reads some fields, as bits. */
uint64_t read_storages(const hga_plan *plan, const hga_stage *s, uint32_t fields);
/* Whether the caller's rows of the field exceed the caches. */
int storage_is_large(const hga_plan *plan, hga_id field);
/* Whether the alias's rows may be stored in the host's until these are written, as far as the stages allow. */
int storage_may_host(const hga_plan *plan, hga_id alias, hga_id host);
/* Whether an attending stage reads keys or values of the field. */
int storage_is_attended(const hga_plan *plan, hga_id field);
/* Finds each field's areas, and the aliases. */
void storage_find(hga_plan *plan);
/* Counts the rows that a call has of each field. */
void storage_count_input(hga_plan *plan);
/* Sets the offsets of all areas, once slots are known. */
hga_status storage_lay_out(hga_plan *plan);
/* Removes the field's aliases. */
void aliases_clear(hga_plan *plan, hga_id field);
/* Whether node v's row is stored in its host's. */
static inline int is_alias(const alias_rows *x, hga_id v)
{
    return (uint32_t)(v - x->first) < (uint32_t)x->n && x->row[v - x->first] >= 0;
}
/* Floats of a split of a long row: a state of each head, or the sums of all columns and of their weights in double. */
int64_t split_floats(const hga_plan *plan, hga_id stage);
/* The nodes whose rows a tensor of such rows has: returns their number, from *first on. */
hga_id range_of_rows(const hga_plan *plan, hga_field_rows rows, hga_id *first);
/* A walk over the rows that the caller has of a field, of those that are computed here; it begins zeroed. Nodes
   [first, first + n) are rows row .. row + n - 1. */
typedef struct rows_here {
    int64_t interval, row;
    hga_id first, n;
} rows_here;
/* Advances to the next run of rows; 0: there are none. */
int rows_here_next(const hga_plan *plan, hga_id field, rows_here *at);

/* ---- allocate.c ---- */

/* Whether rows of a storage are recycled. */
int slots_recycle(const hga_plan *plan, hga_id storage);
/* Assigns slots to all ranges, in the order of n_items items. */
hga_status slots_assign(hga_plan *plan, const live_range *ranges, int64_t n, int64_t n_items);
/* Frees the slots of every field, and its aliases. */
void slots_clear(hga_plan *plan);

#endif
