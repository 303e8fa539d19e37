/* at_least.h: numbers that 0 does not stand for. */
#ifndef HGA_AT_LEAST_H
#define HGA_AT_LEAST_H

#include "hga_builders.h"

/* Check a parameter that is at least 1 and whose default is not 0. A struct that was zeroed, without hga_defaults, has
   a 0 there: the message says what to call. */
hga_status check_at_least_one(const char *name, hga_id value);

#endif
