/* explain_back.h: which way the gradients of a plan go. */
#ifndef EXPLAIN_BACK_H
#define EXPLAIN_BACK_H

#include <jansson.h>
#include <stdio.h>

#include "hga_plan.h"

/* Of a call that brings the tables of `io` (NULL: none) and wants the gradient of every tensor: `way`; of each way that
   does not take it, `refused`, why; where the last of all takes it, `plain`, why the one before does not; bytes. */
hga_status back_find(const hga_plan *plan, const hga_io *io, json_t **out);
/* The same in words. */
void back_say(FILE *f, const json_t *back);

#endif
