/* retain.h: an allocator that keeps what is released and hands it out again. */
#ifndef RETAIN_H
#define RETAIN_H

#include "hga_base.h"

typedef struct retained retained;

/* Memory from `from` (NULL: the C library's). One thread at a time. */
hga_status retained_create(const hga_allocator *from, retained **out);
/* All that was taken must have been released. NULL is accepted. */
void retained_destroy(retained *r);
/* It in the form that everyone takes. */
hga_allocator retained_allocator(retained *r);
/* From now on released blocks stay. A size is met from memory as long as no more blocks like it are in use at once than
   ever before. */
void retained_keep(retained *r);
/* In use and kept. */
int64_t retained_bytes(const retained *r);

#endif
