/* filling.c: fills, spoils, counts. */
#include "filling.h"

#include <stdlib.h>
#include <string.h>

static void *take(size_t bytes, void *context)
{
    filling *f = context;
    size_t whole = (bytes + 63) / 64 * 64;
    if (whole > (size_t)1 << 30) return NULL;
    void *memory = aligned_alloc(64, whole);
    if (!memory) return NULL;
    memset(memory, f->byte, whole);
    f->live++;
    return memory;
}

static void give(void *memory, size_t bytes, void *context)
{
    filling *f = context;
    if (!memory) return;
    memset(memory, ~f->byte, bytes);
    free(memory);
    f->live--;
}

hga_allocator filling_allocator(filling *f) { return (hga_allocator){take, give, f}; }
