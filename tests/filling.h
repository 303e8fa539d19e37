/* filling.h: memory that nobody has written. An allocator that fills what it hands out with one byte, spoils what it
   gets back, and counts what it does not: whoever reads before writing gets NaN (0xff) or 12.08 (0x41). It fails where
   that is asked for, and holds whoever gives back to the size that was taken. */
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
