/* explain_parts.h: rows and bytes by NUMA domain. */
#ifndef EXPLAIN_PARTS_H
#define EXPLAIN_PARTS_H

#include <jansson.h>
#include <stdio.h>

#include "hga_plan.h"

/* A line for every domain and stage: its rows in all phases, and where they are in the largest one. */
void parts_say(FILE *f, const hga_plan *plan);
/* The same as [{domain, stage, rows, bytes, first, last}]; last < first: none. */
json_t *parts_json(const hga_plan *plan);

#endif
