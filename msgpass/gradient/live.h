/* live.h: stages that count (live.c), and what the fast solvers require of energies (fast_energies.c). */
#ifndef HGA_GRADIENT_LIVE_H
#define HGA_GRADIENT_LIVE_H

#include "solvers.h"

/* Is each state that the program reads again made by attention alone, and each energy and share by
   one stage, as the fast solvers require? */
int energies_are_simple(const hga_plan *plan);

/* Removes stages whose results are not read on the way to the output; those that stay move up. */
void keep_live_stages(hga_plan *plan);
/* Does any stage read or write the field? */
int field_is_used(const hga_program *p, hga_id field);

#endif
