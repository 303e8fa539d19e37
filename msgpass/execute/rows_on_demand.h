/* rows_on_demand.h: rows on demand: memory for as many rows as are present at once, as a decoder has them
   (decode/row_slots.c). */
#ifndef ROWS_ON_DEMAND_H
#define ROWS_ON_DEMAND_H

#include "bound.h"
#include "plan.h"

/* Of plans with on_demand: rows of a field, or of the splits of a stage, in slots that owners take; floats[k] numbers a
   row in array part[k]. Owners are nodes, or splits. */
typedef enum slot_array { SLOT_ROW, SLOT_LSE, SLOT_ROUNDED, SLOT_ARRAYS } slot_array;
enum { N_ROW_SLOTS = HGA_FIELD_SLOTS + HGA_MAX_STAGES };
typedef struct row_slots {
    hga_id *slot; /* of each owner; 0: it has none; below 0: its row is borrowed[~slot] */
    int64_t floats[SLOT_ARRAYS];
    float *part[SLOT_ARRAYS];              /* [capacity] rows each */
    hga_id *owner;                         /* [capacity]: of a slot; -1: free */
    hga_id *back, *young;                  /* [n_back] freed slots; [n_young] owners since the last settling */
    hga_id capacity, end, n_back, n_young; /* slots from `end` on were never taken */
    hga_id idle;                           /* settlings since more than a quarter was in use */
    int taken_here; /* slots are written first by the thread that takes them, which will read them: see row_slots.c */
    void *memory;
    int64_t bytes;
    borrowed_row *borrowed;
    int64_t borrowed_capacity;
    hga_id n_borrowed, borrowed_end, borrowed_back; /* borrowed_back: ~ of the one freed last, 0 */
} row_slots;

static inline float *slot_address(const row_slots *x, slot_array part, hga_id owner)
{
    return x->part[part] + x->slot[owner] * x->floats[part];
}

/* What decode/ does with workspace->slots. */
struct rows_on_demand {
    int64_t (*bytes)(const hga_plan *plan); /* of memory for slots */
    /* allocates it, for the life of the workspace */
    hga_status (*create)(const hga_plan *plan, hga_workspace *workspace);
    /* takes slots for all that an execution writes, once its rows are known, and sets this call's addresses, the
       caller's rows among them */
    hga_status (*bind)(const hga_plan *plan, hga_workspace *workspace);
    /* takes a slot for a node's row of a field */
    hga_status (*take)(hga_workspace *workspace, hga_id field, hga_id v, float **row);
    /* frees all slots */
    void (*leave_all)(hga_workspace *workspace);
};

#endif
