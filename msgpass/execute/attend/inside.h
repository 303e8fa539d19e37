/* inside.h: equal families (run_equal.c), entmax (entmax_rows.c), and attention with the energies of the inside
   (run_inside.c). */
#ifndef INSIDE_H
#define INSIDE_H

#include "stages.h"

/* run_equal.c: find_equal tells whether rows [first, first + n), nodes, whole sixteens, have equal families and nothing
   else, and describes these in w->equal. run_sixteen computes sixteen of them; with `inside` by entmax, and with
   energies, [16][heads], or NULL. Rows in left_out, as bits, are not written. */
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
