/* wants.h: rows of the program's own fields that an execution of a slice is to compute as well, whoever reads them
   later: what decoding keeps of tokens that will not be there again. */
#ifndef WANTS_H
#define WANTS_H

#include "hga_plan.h"

typedef struct wanted_row {
    hga_id field, node;
} wanted_row;

/* Of the next executions with this workspace, until others are named; borrowed. Rows that are there are left alone.
   alone: of the output no row is computed, whatever is asked for. */
void workspace_want(hga_workspace *workspace, const wanted_row *list, int64_t n, int alone);

/* After an execution: rows that it needed, and that are not whole before token `end`, are not there. latest[f][v] is
   the token with which node v's row of field f is whole. (A row without edges is computed from whatever is there.) */
void workspace_forget_later(const hga_plan *plan, hga_workspace *workspace, int32_t *const *latest, hga_id end);

#endif
