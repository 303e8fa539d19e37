/* way_back.h: what a plan reports of its gradient. */
#ifndef HGA_WAY_BACK_H
#define HGA_WAY_BACK_H

#include "hga_gradient.h"

/* The solver of calls without tables; NULL: there is no memory to find out. *plain, if the last solver is left, is
   why the one before it refuses them; else NULL. */
static inline const char *way_back_of(const hga_plan *plan, const char **plain)
{
    const char *name, *refusal = NULL;
    hga_id i = 0;
    for (*plain = NULL; (name = hga_plan_gradient_tried(plan, NULL, NULL, i, &refusal)) && refusal; i++)
        *plain = refusal;
    if (hga_plan_gradient_tried(plan, NULL, NULL, i + 1, NULL)) *plain = NULL;
    return name;
}

static inline const char *way_back(const hga_plan *plan)
{
    const char *plain;
    return way_back_of(plan, &plain);
}

/* NULL: it does not run row by row in double. */
static inline const char *plain_because(const hga_plan *plan)
{
    const char *plain;
    return way_back_of(plan, &plain), plain;
}

#endif
