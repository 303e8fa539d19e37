/* partition.h: which thread has which part of the rows (parts.c, cyclic.c). */
#ifndef HGA_PLAN_PARTITION_H
#define HGA_PLAN_PARTITION_H

#include "plan.h"

enum { CELL = 16 };
static inline hga_id cells_of(const hga_plan *plan) { return plan->nodes.level_ptr[1] / CELL + 1; }
/* Parts of about equal cost; cost NULL: all alike. Things whose places are in one cell always have the same part. */
void share_by_cost(hga_id n, const int64_t *cost, hga_id parts, hga_id *part);
/* Parts of a phase's panels, for rows that have nothing to do with the order of the tokens. */
hga_status part_by_cost(const hga_plan *plan, phase *ph);
/* cyclic.c: what plan->cyclic is to be, once storage is known. */
hga_id cyclic_tokens(const hga_plan *plan);

#endif
