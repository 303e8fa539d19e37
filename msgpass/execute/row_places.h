/* row_places.h: rows on demand: memory for the rows that are there at once, as a decoder has them (decode/places.c). */
#ifndef ROW_PLACES_H
#define ROW_PLACES_H

#include "bound.h"
#include "plan.h"

/* Of plans with by_need: of a field, or of the pieces of a stage, rows for those that need them, in
   arrays of as many numbers a row. Owners are nodes, or pieces. */
typedef enum place_part { PLACE_ROW, PLACE_LSE, PLACE_ROUNDED, PLACE_PARTS } place_part;
enum { N_PLACES = HGA_FIELD_SLOTS + HGA_MAX_STAGES };
typedef struct row_places {
    hga_id *place; /* of each owner; 0: it has none; below 0: its row is lent[~place] */
    int64_t floats[PLACE_PARTS];
    float *part[PLACE_PARTS]; /* [room] rows each */
    hga_id *owner;            /* [room]: whose a place is, -1 */
    hga_id *back, *young;     /* [n_back] places that were given back; [n_young] owners since the last settling */
    hga_id room, end, n_back, n_young; /* places from `end` on were never taken */
    hga_id idle;                       /* settlings since more than a quarter was in use */
    int taken_here; /* places are written first by the thread that takes them, which will read them: see places.c */
    void *memory;
    int64_t bytes;
    lent_row *lent;
    int64_t lent_room;
    hga_id n_lent, lent_end, lent_back; /* lent_back: ~ of the one that was given back last, 0 */
} row_places;

static inline float *place_in(const row_places *x, place_part part, hga_id owner)
{
    return x->part[part] + x->place[owner] * x->floats[part];
}

/* What decode/ does with workspace->places: the bytes of memory for them, which is made, and goes with the workspace;
   places for all that an execution writes, once its rows are known, and this call's addresses, the caller's rows among
   them; a place for a node's row of a field; and nobody has one any more. */
struct rows_by_need {
    int64_t (*bytes)(const hga_plan *plan);
    hga_status (*create)(const hga_plan *plan, hga_workspace *workspace);
    hga_status (*bind)(const hga_plan *plan, hga_workspace *workspace);
    hga_status (*take)(hga_workspace *workspace, hga_id field, hga_id v, float **row);
    void (*leave_all)(hga_workspace *workspace);
};

#endif
