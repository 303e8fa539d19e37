/* memory.c: checked allocation, and what Linux says of this process. */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

hga_status bench_new(int64_t n, size_t size, void *out)
{
    void *memory = NULL;
    memcpy(out, &memory, sizeof memory);
    if (n == 0) return HGA_OK;
    size_t bytes;
    int failed = n < 0 || __builtin_mul_overflow((size_t)n, size, &bytes) || bytes > SIZE_MAX - 63;
    memory = failed ? NULL : aligned_alloc(64, (bytes + 63) & ~(size_t)63);
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
