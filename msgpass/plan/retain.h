/* retain.h: an allocator that retains released blocks and reuses them. */
#ifndef RETAIN_H
#define RETAIN_H

#include "hga_base.h"

typedef struct retained retained;

/* Allocates from `from` (NULL: the C library's). One thread at a time. */
hga_status retained_create(const hga_allocator *from, retained **out);
/* All blocks must have been released. NULL is accepted. */
void retained_destroy(retained *r);
/* Its interface as hga_allocator. */
hga_allocator retained_allocator(retained *r);
/* From now on released blocks are retained. An allocation reuses one as long as no more blocks of its class are in use
   at once than ever before. */
void retained_keep(retained *r);
/* Bytes in use and retained. */
int64_t retained_bytes(const retained *r);

#endif
