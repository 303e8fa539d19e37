/* rank_passes.h: what is computed when (rank_passes.c), and rows of the workspace for it (rank_slots.c). */
#ifndef RANK_PASSES_H
#define RANK_PASSES_H

#include "ranks.h"

/* Finds what is computed when, once there are slices. */
hga_status rank_passes_make(hga_plan *plan);
/* Then assigns rows of the workspace to what the rank computes or receives. */
hga_status rank_slots_make(hga_plan *plan);

#endif
