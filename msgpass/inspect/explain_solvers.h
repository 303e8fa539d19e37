/* explain_solvers.h: which solvers compute the pairs of attended stages. */
#ifndef EXPLAIN_SOLVERS_H
#define EXPLAIN_SOLVERS_H

#include <jansson.h>
#include <stdio.h>

#include "attend_solvers.h"
#include "plan.h"

/* Of a stage: pairs in tiles, and these tiles' slots; pairs in families, of rows of few edges, and row by row. Of long
   stages some panels are sampled, evenly spread. */
typedef struct pair_solvers {
    double tiles, tile_slots, families, few_edges, rows;
    int64_t panels, looked_at;
    int attends;           /* 0: the rest is unused */
    unsigned applies;      /* solvers that run some panels, as bits */
    attend_solver_id last; /* the rows' solver: later ones are not tried */
    unsigned call_has;     /* the call's features */
} pair_solvers;

/* Finds the solvers of all stages for calls with the features of this one; io NULL: no tables. */
hga_status solvers_find(const hga_plan *plan, const hga_io *io, pair_solvers solvers[HGA_MAX_STAGES]);
/* Prints for a stage that attends which share of its pairs each solver computes, and why others do not. */
void solvers_say(FILE *f, const hga_plan *plan, hga_id stage, const pair_solvers *solvers);
/* {tiles, places, families, few_edges, rows, panels, looked_at, ways: [name], refused: [{way, why}]} */
json_t *solvers_json(const hga_plan *plan, hga_id stage, const pair_solvers *solvers);

#endif
