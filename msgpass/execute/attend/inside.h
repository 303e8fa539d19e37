/* inside.h: equal families (run_equal.c), entmax (entmax_rows.c), and attention with the energies of the inside
   (run_inside.c). */
#ifndef INSIDE_H
#define INSIDE_H

#include "stages.h"

/* ---- run_equal.c ---- */

/* How run_sixteen computes rows by entmax: with energies, [16][heads], or NULL. Rows in left_out, as bits, are not
   written. */
typedef struct inside_rows {
    float alpha;
    float *energy[KERNEL_TILE];
    unsigned left_out;
} inside_rows;
/* Whether rows [first, first + n), nodes, whole sixteens, have equal families and nothing else; describes these in
   w->equal. */
int find_equal(worker *w, hga_id stage, hga_id first, hga_id n);
/* Computes rows [first, first + 16) of w->equal, all heads; with `inside` (else NULL) by entmax. */
void run_sixteen(worker *w, hga_id stage, hga_id first, const inside_rows *inside);

/* ---- entmax_rows.c ---- */

/* Attends to all edges of a row by entmax, and stores it; its log-sum-exp is INFINITY. */
void entmax_row(worker *w, const row_job *job);
/* The same with the energy of the inside as one of the scores; the row's own energy, in the gate, replaces it. */
void inside_row(worker *w, const row_job *job);

/* ---- run_inside.c ---- */

/* A panel_function: inside_row of the panel's rows, sixteen at a time by run_sixteen where families are equal. */
void inside_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);

#endif
