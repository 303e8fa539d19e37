/* block.h: the shape of one block, for counting its edges (block.c) and cutting it (blocks.c). */
#ifndef BLOCK_H
#define BLOCK_H

#include "graph.h"
#include "least.h"

static inline int64_t clamp(int64_t x, int64_t lo, int64_t hi) { return x < lo ? lo : x > hi ? hi : x; }
/* floor(a / b), b > 0 */
static inline int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

static inline hga_id instances(const hga_block *b) { return b->count ? b->count : 1; }

/* One past the last row of the last instance. */
static inline int64_t row_end(const hga_block *b)
{
    return b->dst + (int64_t)(instances(b) - 1) * b->dst_step + b->n_dst;
}

/* The shape as a band of offsets column - row; *hole: offset 0 is left out. */
static inline void shape_band(const hga_block *b, int64_t *lo, int64_t *hi, int *hole)
{
    int64_t low = -(int64_t)b->n_dst, high = b->n_src;
    switch (b->shape) {
    case HGA_LOWER: high = 0; break;
    case HGA_STRICT_LOWER: high = -1; break;
    case HGA_UPPER: low = 0; break;
    case HGA_STRICT_UPPER: low = 1; break;
    case HGA_BAND: low = clamp(b->band_first, low, high + 1), high = clamp(b->band_last, low - 1, high); break;
    default: break;
    }
    *lo = low, *hi = high, *hole = b->shape == HGA_OFF_DIAGONAL;
}

#endif
