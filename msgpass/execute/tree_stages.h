/* tree_stages.h: sums (sums.c), states down the tree (states.c) and energies up it (energies.c). */
#ifndef TREE_STAGES_H
#define TREE_STAGES_H

#include "stages.h"

void sum_row(worker *w, const row_job *job);
void sum_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);
void spread_row(worker *w, const row_job *job);
void spread_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);
void descend_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);
/* energies.c: computes psi of n nodes, but those below 0, from psi and the state's LSE of their children. */
void energies_of_families(worker *w, const bound_field *psi, const bound_field *state, hga_id n, const hga_id *node);
void energy_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);

#endif
