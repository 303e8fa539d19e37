/* pages.h: memory whose pages no thread has touched, so that each is placed in the domain of the thread that touches it
   first. */
#ifndef HGA_PAGES_H
#define HGA_PAGES_H

#include "hga_base.h"

/* Blocks from the system, which begin at a page and are cleared. Small ones are on small pages, so that two threads'
   rows share 4096 bytes at most; large ones may be on huge pages, begin at one and share 2 MB. */
hga_allocator pages_fresh(void);
/* The unit of placement, in bytes, of a block of that size. */
int64_t pages_grain(int64_t bytes);

/* Bytes of a huge page. */
int64_t pages_huge_bytes(void);
/* Allocates one huge page, for memory whose rows are read at random; NULL: failed. */
void *pages_take_huge(void);
/* Frees the page. */
void pages_give_huge(void *page);

#endif
