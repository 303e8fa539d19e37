/* pages.h: memory whose pages nobody has touched, so that each goes to the domain of the thread that does first. */
#ifndef HGA_PAGES_H
#define HGA_PAGES_H

#include "hga_base.h"

/* Blocks straight from the system, which begin at a page and are cleared. Small ones are on small pages, so that two
   threads' rows share 4096 bytes at most; large ones may be on huge pages, begin at one and share 2 MB. */
hga_allocator pages_fresh(void);
/* How many bytes of a block of so many go to one domain together. */
int64_t pages_grain(int64_t bytes);

/* One huge page, for memory whose rows are read here and there; NULL: there is none. And back. */
int64_t pages_huge_bytes(void);
void *pages_take_huge(void);
void pages_give_huge(void *page);

#endif
