/* carve.h: a block of memory that is cut into arrays, each of which begins at a whole cache line. */
#ifndef HGA_PLAN_CARVE_H
#define HGA_PLAN_CARVE_H

#include "kernels.h"

#include <stdint.h>

/* Vectors that cross cache lines cost twice: memory has this many floats more than its arrays need, so that they begin
   at whole lines. */
enum { LINE_FLOATS = 16 };
static inline float *first_line(float *memory)
{
    return memory ? memory + (LINE_FLOATS - (uintptr_t)memory / sizeof *memory % LINE_FLOATS) % LINE_FLOATS : NULL;
}

/* A block of memory that is cut into arrays, each from a whole line on; without a block they are measured. */
typedef struct carver {
    void *base; /* NULL: measuring */
    int64_t used;
} carver;
/* The next n elements of `size` bytes; NULL while measuring. */
static inline void *carve(carver *arena, int64_t n, size_t size)
{
    const int64_t line = LINE_FLOATS * sizeof(float);
    char *here = arena->base ? (char *)arena->base + arena->used : NULL;
    arena->used += (n * (int64_t)size + line - 1) / line * line;
    return here;
}
static inline float *carve_floats(carver *arena, int64_t n) { return carve(arena, n, sizeof(float)); }
static inline int64_t carved_floats(const carver *arena) { return arena->used / (int64_t)sizeof(float); }

#endif
