/* rows_on_demand.h: rows on demand: memory for as many rows as are present at once, as a decoder has them
   (decode/row_slots.c). */
#ifndef ROWS_ON_DEMAND_H
#define ROWS_ON_DEMAND_H

#include "bound.h"
#include "plan.h"

/* Of plans with on_demand: of a field, or of the pieces of a stage, rows for those that need them, in
   arrays of as many numbers a row. Owners are nodes, or pieces. */
typedef enum slot_array { SLOT_ROW, SLOT_LSE, SLOT_ROUNDED, SLOT_ARRAYS } slot_array;
enum { N_ROW_SLOTS = HGA_FIELD_SLOTS + HGA_MAX_STAGES };
typedef struct row_slots {
    hga_id *slot; /* of each owner; 0: it has none; below 0: its row is lent[~place] */
    int64_t floats[SLOT_ARRAYS];
    float *part[SLOT_ARRAYS]; /* [room] rows each */
    hga_id *owner;            /* [room]: whose a place is, -1 */
    hga_id *back, *young;     /* [n_back] places that were given back; [n_young] owners since the last settling */
    hga_id capacity, end, n_back, n_young; /* places from `end` on were never taken */
    hga_id idle;                           /* settlings since more than a quarter was in use */
    int taken_here; /* places are written first by the thread that takes them, which will read them: see places.c */
    void *memory;
    int64_t bytes;
    borrowed_row *borrowed;
    int64_t borrowed_capacity;
    hga_id n_borrowed, borrowed_end, borrowed_back; /* borrowed_back: ~ of the one that was given back last, 0 */
} row_slots;

static inline float *slot_address(const row_slots *x, slot_array part, hga_id owner)
{
    return x->part[part] + x->slot[owner] * x->floats[part];
}

/* What decode/ does with workspace->places: the bytes of memory for them, which is made, and goes with the workspace;
   places for all that an execution writes, once its rows are known, and this call's addresses, the caller's rows among
   them; a place for a node's row of a field; and nobody has one any more. */
struct rows_on_demand {
    int64_t (*bytes)(const hga_plan *plan);
    hga_status (*create)(const hga_plan *plan, hga_workspace *workspace);
    hga_status (*bind)(const hga_plan *plan, hga_workspace *workspace);
    hga_status (*take)(hga_workspace *workspace, hga_id field, hga_id v, float **row);
    void (*leave_all)(hga_workspace *workspace);
};

#endif
