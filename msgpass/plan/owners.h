/* owners.h: which rows of the caller's tensors are which thread's (owners.c). */
#ifndef HGA_PLAN_OWNERS_H
#define HGA_PLAN_OWNERS_H

#include "hga_plan.h"

/* The field that the caller's tensor is of; HGA_EINVAL: the program has none. */
hga_status owned_field(const hga_plan *plan, hga_binding of, hga_id *field);
/* Once panels are shared out, token counts are moved to where panels meet. */
void owners_meet_panels(hga_plan *plan);
/* Of n rows side by side, which stand for all tokens, those of a thread. */
void owned_rows(const hga_plan *plan, hga_id thread, int64_t n, int64_t *first, int64_t *end);
/* Of a tensor's rows that are nodes [io_first, io_first + io_n) those of a level that are the thread's; 0: there are
   none. Every row is one thread's. */
int owned_of_level(const hga_plan *plan, hga_id thread, hga_id level, hga_id io_first, hga_id io_n, hga_id *first,
                   hga_id *end);

#endif
