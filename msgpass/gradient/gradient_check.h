/* gradient_check.h: checks of a gradient's call, before anything is written (check.c, disjoint.c). */
#ifndef HGA_GRADIENT_GRADIENT_CHECK_H
#define HGA_GRADIENT_GRADIENT_CHECK_H

#include "call_tensors.h"
#include "gradient.h"

/* ---- check.c ---- */

/* Does a call have a tape of its plan, stages with adjoints, and the tensors that they need? Then c->tape_lse
   is set. Includes call_check_outputs and check_disjoint. */
hga_status call_check(gradient_call *c);
/* For a loss alone: does it have stages with adjoints, and the tensors that they need? */
hga_status call_check_loss(const gradient_call *c);
/* Does the call have the entry that a loss moves? */
hga_status call_check_input(const gradient_call *c);
/* A required gradient of a table needs the table. */
hga_status call_check_outputs(const gradient_call *c);

/* ---- disjoint.c ---- */

/* Every tensor of a call: its inputs and output, the given gradients, and those that it writes. */
enum { MOST_TENSORS = 2 * (4 + HGA_MAX_USER_TENSORS) + 6 };
typedef struct gradient_tensors {
    call_tensor of[MOST_TENSORS];
    int n;
} gradient_tensors;
void list_tensors(const gradient_call *c, gradient_tensors *all);

/* Are the required gradients disjoint from what is read, and from each other? */
hga_status check_disjoint(const gradient_call *c);
/* Are the gradients of each of n calls disjoint from what the other calls read and write? Else *sample is the later
   of two. */
hga_status calls_disjoint(const gradient_call *call, hga_id n, hga_id *sample);

#endif
