/* partition.h: partitions of rows among threads (parts.c, cyclic.c). */
#ifndef HGA_PLAN_PARTITION_H
#define HGA_PLAN_PARTITION_H

#include "plan.h"

/* schedule.c partitions positions among threads in cells of so many. */
enum { CELL = 16 };
static inline hga_id cells_of(const hga_plan *plan) { return plan->nodes.level_ptr[1] / CELL + 1; }
/* ---- parts.c ---- */

/* Partitions n things into parts of about equal cost; cost NULL: all equal. */
void share_by_cost(hga_id n, const int64_t *cost, hga_id parts, hga_id *part);
/* Partitions a phase's panels among threads, for rows that do not follow the order of the tokens. */
hga_status part_by_cost(const hga_plan *plan, phase *ph);

/* ---- cyclic.c ---- */

/* The value of plan->cyclic, once storage is known. */
hga_id cyclic_tokens(const hga_plan *plan);

#endif
