/* explain_back.h: which solver computes a plan's gradients. */
#ifndef EXPLAIN_BACK_H
#define EXPLAIN_BACK_H

#include <jansson.h>
#include <stdio.h>

#include "hga_plan.h"

/* For a call with the tables of `io` (NULL: none) and gradients of all tensors: `way`, the solver; `refused`, the other
   solvers with their reasons; `plain`, if the last solver of all runs, why the one before does not; bytes. */
hga_status back_find(const hga_plan *plan, const hga_io *io, json_t **out);
/* The same in words. */
void back_say(FILE *f, const json_t *back);

#endif
