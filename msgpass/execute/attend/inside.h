/* inside.h: equal families (run_equal.c), entmax (entmax_rows.c), and attention with the energies of the inside
   (run_inside.c). */
#ifndef INSIDE_H
#define INSIDE_H

#include "stages.h"

/* run_equal.c: have rows [first, first + n), nodes, whole sixteens, equal families and nothing else? Then w->equal says
   how, and they run sixteen at a time; with entmax and energies, [16][heads], or NULL. Rows that are left out, as bits,
   are not written. */
typedef struct inside_rows {
    float alpha;
    float *energy[KERNEL_TILE];
    unsigned left_out;
} inside_rows;
int find_equal(worker *w, hga_id stage, hga_id first, hga_id n);
void run_sixteen(worker *w, hga_id stage, hga_id first, const inside_rows *inside);
/* entmax_rows.c; run_inside.c: a panel's rows, as families where these are equal */
void entmax_row(worker *w, const row_job *job);
void inside_row(worker *w, const row_job *job);
void inside_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node);

#endif
