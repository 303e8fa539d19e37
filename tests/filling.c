/* filling.c: fills, spoils, counts. */
#include "filling.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The size stands in front of the block. */
enum { FRONT = 64 };

static void *take(size_t bytes, void *context)
{
    filling *f = context;
    size_t whole = FRONT + (bytes + 63) / 64 * 64;
    int64_t asked = ++f->asked;
    if ((f->fails_from && asked >= f->fails_from) || whole > (size_t)1 << 30) return NULL;
    char *block = aligned_alloc(FRONT, whole);
    if (!block) return NULL;
    memcpy(block, &bytes, sizeof bytes);
    memset(block + FRONT, f->byte, whole - FRONT);
    f->live++;
    int64_t now = atomic_fetch_add(&f->bytes, (int64_t)bytes) + (int64_t)bytes;
    if (now > f->most) f->most = now;
    return block + FRONT;
}

static void give(void *memory, size_t bytes, void *context)
{
    filling *f = context;
    if (!memory) return;
    char *block = (char *)memory - FRONT;
    size_t taken;
    memcpy(&taken, block, sizeof taken);
    if (taken != bytes) {
        fprintf(stderr, "%zu bytes are given back, %zu were taken\n", bytes, taken);
        abort();
    }
    memset(memory, ~f->byte, bytes);
    free(block);
    f->live--;
    f->bytes -= (int64_t)bytes;
}

hga_allocator filling_allocator(filling *f) { return (hga_allocator){take, give, f}; }
