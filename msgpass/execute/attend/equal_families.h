/* equal_families.h: families of one size that a panel consists of (run_equal.c). */
#ifndef EQUAL_FAMILIES_H
#define EQUAL_FAMILIES_H

#include "kernels.h"

/* Rows of equal families, in groups of sixteen: which of a group's rows have which of its columns, which no other group
   has. */
typedef struct equal_families {
    hga_id first, n, edges; /* rows; edges of a group */
    float weight;
    lane_mask rows[KERNEL_TILE];
} equal_families;

#endif
