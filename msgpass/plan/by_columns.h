/* by_columns.h: which stages run by columns (by_columns.c). */
#ifndef HGA_PLAN_BY_COLUMNS_H
#define HGA_PLAN_BY_COLUMNS_H

#include "panels.h"

/* Decides which stages run by columns. */
hga_status by_columns_find(hga_plan *plan);

#endif
