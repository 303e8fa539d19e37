/* least.h: the lesser and the greater of two counts. For the sources of this project; not installed. */
#ifndef HGA_LEAST_H
#define HGA_LEAST_H

#include <stdint.h>

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
