/* filling.h: memory that nobody has written. An allocator that fills what it hands out with one byte, spoils what it
   gets back, and counts what it does not: whoever reads before writing gets NaN (0xff) or 12.08 (0x41). */
#ifndef HGA_FILLING_H
#define HGA_FILLING_H

#include "hga_base.h"

typedef struct filling {
    int byte;
    _Atomic int64_t live; /* blocks that were not given back */
} filling;

hga_allocator filling_allocator(filling *f);

#endif
