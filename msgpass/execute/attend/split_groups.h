/* split_groups.h: splits of rows that have their columns alone (stage_plan.h: long_row), computed together where
   several rows have these columns. */
#ifndef SPLIT_GROUPS_H
#define SPLIT_GROUPS_H

#include "stage_plan.h"
#include "worker.h"

/* Columns [first, first + n) of a split, or of all splits of a group. */
typedef struct split_columns {
    hga_id first, n;
} split_columns;

/* Splits that are computed together, and their rows. */
typedef struct split_group {
    split_columns columns;
    float weight;
    hga_id n, node[KERNEL_TILE], split[KERNEL_TILE];
    split_columns of[KERNEL_TILE];
    int32_t type[KERNEL_TILE], type_step[KERNEL_TILE]; /* of a split's first edge; from edge to edge */
} split_group;

/* A split's columns. Of rows that have no columns only the number is meaningful, not the first. */
split_columns columns_of_split(const stage_plan *s, hga_id split);
/* The first of n items, as long as they are splits that are computed together; n 0: they are not. */
void find_split_group(const worker *w, const wave_item *item, int64_t n, split_group *x);

#endif
