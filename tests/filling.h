/* filling.h: memory that was not written. An allocator that fills what it allocates with one byte, overwrites what
   is freed, and counts what is not: code that reads before it writes gets NaN (0xff) or 12.08 (0x41). It fails on
   request, and checks that the freed size is the allocated one. */
#ifndef HGA_FILLING_H
#define HGA_FILLING_H

#include "hga_base.h"

typedef struct filling {
    int byte;
    int64_t fails_from;                /* this allocation, counted from 1, and all after it fail; 0: none */
    _Atomic int64_t asked;             /* how often; set it to 0 to count anew */
    _Atomic int64_t live, bytes, most; /* blocks that were not given back, their bytes, and the most of those at once */
} filling;

hga_allocator filling_allocator(filling *f);

#endif
