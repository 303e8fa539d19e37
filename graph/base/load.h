/* load.h: a whole file in memory. For the sources of this project; not installed. */
#ifndef LOAD_H
#define LOAD_H

#include "hga_base.h"

/* HGA_EFORMAT where the first bytes of a file, which errors call by `name`, are those of what Git LFS leaves in place
   of one that it has not fetched. */
hga_status check_fetched(const char *name, const void *bytes, int64_t n);
/* All n bytes of a file, "-" for stdin, in *capacity bytes to be deleted whatever the status; `name` is what errors
   call it. */
hga_status bytes_load(const hga_allocator *a, const char *path, const char *name, char **text, int64_t *n,
                      int64_t *capacity);
/* The bytes of the mark that some programs put before UTF-8: 3, or 0 without one. */
int64_t mark_bytes(const char *text, int64_t n);
/* The bytes of the UTF-8 character at `at`, n bytes before the end; 0 for what is none. */
int64_t utf8_character(const char *at, int64_t n);
/* Is it UTF-8 without a zero byte? */
int is_utf8(const char *text, int64_t n);

#endif
