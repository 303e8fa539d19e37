/* owners.h: which thread owns which rows of the caller's tensors (owners.c). */
#ifndef HGA_PLAN_OWNERS_H
#define HGA_PLAN_OWNERS_H

#include "hga_plan.h"

/* The field to which the caller's tensor is bound; HGA_EINVAL: the program has none. */
hga_status owned_field(const hga_plan *plan, hga_binding of, hga_id *field);
/* Moves the bounds of threads' tokens to bounds of panels, once panels are divided among threads. */
void owners_meet_panels(hga_plan *plan);
/* A thread's rows of n contiguous rows, which represent all tokens. */
void owned_rows(const hga_plan *plan, hga_id thread, int64_t n, int64_t *first, int64_t *end);
/* A thread's rows of a level among a tensor's rows, nodes [io_first, io_first + io_n); 0: there are none. Every row
   belongs to one thread. */
int owned_of_level(const hga_plan *plan, hga_id thread, hga_id level, hga_id io_first, hga_id io_n, hga_id *first,
                   hga_id *end);

#endif
