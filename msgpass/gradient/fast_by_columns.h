/* fast_by_columns.h: stages whose rows share columns with few of their neighbours run window by window
   (fast_by_columns.c). */
#ifndef HGA_GRADIENT_FAST_BY_COLUMNS_H
#define HGA_GRADIENT_FAST_BY_COLUMNS_H

#include "panel.h"

/* A panel's memory for them; NULL: no stage runs by columns. */
typedef struct column_batch column_batch;
/* Bytes of a batch without its list of visits, which grows; 0: no stage runs by columns. */
int64_t column_batch_bytes(const hga_plan *plan);
/* Allocates a batch. Zero *out first: it stays NULL where no stage runs by columns. column_batch_destroy frees it,
   whatever the outcome. */
hga_status column_batch_create(const hga_plan *plan, column_batch **out);
/* Frees a batch, with plan->memory.user; NULL is accepted. */
void column_batch_destroy(const hga_allocator *a, column_batch *x);
/* Does the stage run by columns in this call? */
int runs_by_columns(const fast_pass *p, hga_id s);
/* Computes the rows between the panel's begin and end. */
hga_status attend_by_columns(fast_pass *p, hga_id s);

#endif
