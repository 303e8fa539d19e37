/* rank_aliases.h: rows of the workspace that are stored in the caller's. */
#ifndef RANK_GUESTS_H
#define RANK_GUESTS_H

#include "plan.h"
#include "schedule.h"

/* Once all that a rank computes is noted, step by step: finds which rows are stored in an output's until these are
   written. */
hga_status rank_aliases_find(hga_plan *plan, accesses *a, const live_ranges *l, const entry *step);

#endif
