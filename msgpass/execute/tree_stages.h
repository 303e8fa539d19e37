/* tree_stages.h: sums (sums.c), states down the tree (states.c) and energies up it (energies.c). */
#ifndef TREE_STAGES_H
#define TREE_STAGES_H

#include "stages.h"

/* ---- sums.c ---- */

/* Computes the sum of a row, or of a split of one. */
void sum_row(worker *w, const row_job *job);
/* A panel_function: sum_row of the panel's rows, small families with contiguous heads many at once. */
void sum_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);

/* ---- states.c ---- */

/* Merges the state of each source, its log-sum-exp plus the edge's log weight, into row v's state, in order. */
void spread_row(worker *w, const row_job *job);
/* A panel_function: spread_row of the panel's rows, many at once down the tree. */
void spread_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);
/* A panel_function: computes rows down the tree; across its cut, mixes in what their ancestors there pass down. */
void descend_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);

/* ---- energies.c ---- */

/* Computes psi of n nodes, but those below 0, from psi and the state's LSE of their children. */
void energies_of_families(worker *w, const bound_field *psi, const bound_field *state, hga_id n, const hga_id *node);
/* A panel_function: energies_of_families of the panel's rows. */
void energy_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);

#endif
