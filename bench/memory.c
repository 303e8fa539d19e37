/* memory.c: checked allocation, and what Linux says of this process. */
#define _DEFAULT_SOURCE /* madvise */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LINE = 64, HUGE_PAGE = 1 << 21 };

/* Large tensors request huge pages, as numpy's do: otherwise rows read at random would first walk the page tables. */
static void *take(size_t bytes)
{
    size_t unit = bytes >= 2 * (size_t)HUGE_PAGE ? HUGE_PAGE : LINE;
    void *memory = aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
#ifdef MADV_HUGEPAGE
    if (memory && unit == HUGE_PAGE) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    return memory;
}

hga_status bench_new(int64_t n, size_t size, void *out)
{
    void *memory = NULL;
    memcpy(out, &memory, sizeof memory);
    if (n == 0) return HGA_OK;
    size_t bytes;
    int failed = n < 0 || __builtin_mul_overflow((size_t)n, size, &bytes) || bytes > SIZE_MAX - HUGE_PAGE;
    memory = failed ? NULL : take(bytes);
    if (!memory) return hga_fail(HGA_ENOMEM, "no memory for %lld elements of %zu bytes", (long long)n, size);
    memset(memory, 0, bytes);
    memcpy(out, &memory, sizeof memory);
    return HGA_OK;
}

int64_t bench_peak_resident(void)
{
    char line[256];
    long long kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %lld kB", &kilobytes) == 1) break;
    if (file) fclose(file);
    return kilobytes * 1024;
}

void bench_reset_peak_resident(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file) return;
    fputs("5", file);
    fclose(file);
}
