/* call_arrays.h: the caller's arrays of a call, and whether those that it writes are disjoint from the others
   (bound.c). */
#ifndef CALL_ARRAYS_H
#define CALL_ARRAYS_H

#include "call.h"
#include "overlap.h"
#include "plan.h"

/* The caller's arrays that a call reads or writes. */
enum { MOST_ARRAYS = 7 + HGA_MAX_USER_TENSORS + HGA_N_TABLES };
typedef struct call_arrays {
    call_array array[MOST_ARRAYS];
    int n;
} call_arrays;

/* Lists the call's arrays in workspace->arrays; HGA_EINVAL: a written one overlaps another. */
hga_status arrays_find(const hga_plan *plan, const hga_io *io, hga_workspace *workspace);
/* HGA_EINVAL: an array that a sample writes overlaps another sample's; *sample is its number. */
hga_status arrays_of_samples(hga_workspace *const *workspaces, hga_id n, hga_id *sample);

#endif
