/* rank_passes.h: what is computed when (rank_passes.c), and rows of the workspace for it (rank_slots.c). */
#ifndef RANK_PASSES_H
#define RANK_PASSES_H

#include "ranks.h"

/* rank_passes.c, rank_slots.c: once there are slices, finds what is computed when; then rows of the workspace for
   what the rank computes and receives. */
hga_status rank_passes_make(hga_plan *plan);
hga_status rank_slots_make(hga_plan *plan);

#endif
