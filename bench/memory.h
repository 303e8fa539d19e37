/* memory.h: memory for measurements, and the peak of this process. */
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include "hga.h"

/* n zeroed elements of `size` bytes, 64-byte aligned, on huge pages where there are many, for free(); *out = NULL when
   n is 0. */
hga_status bench_new(int64_t n, size_t size, void *out);

/* The most memory this process has had resident since the last reset, in bytes; 0 where the system does not say. */
int64_t bench_peak_resident(void);
void bench_reset_peak_resident(void);

#endif
