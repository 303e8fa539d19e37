/* longer.c: draws a graph of more tokens than the caller's. */
#include "longer.h"

/* Trees have at most twice as many nodes as tokens, and a few for the ends of their levels. */
enum { GROUP = 16, MOST_TOKENS = INT32_MAX / 2 - 4096 };

/* Sets no longer graph where that many tokens do not fit. */
hga_status draw_longer(hga_builder *b, const hga_allocator *a, hga_id n_tokens, int64_t widest, draw_tokens draw,
                       const void *parameters)
{
    hga_status st = HGA_OK;
    hga_builder *longer = NULL;
    int64_t more = n_tokens + GROUP * widest;
    if (more > MOST_TOKENS) return st;
    HGA_TRY(hga_builder_create(a, &longer));
    HGA_TRY(draw(longer, parameters, (hga_id)more, n_tokens));
    HGA_TRY(hga_builder_set_longer(b, longer));
done:
    hga_builder_destroy(longer);
    return st;
}

hga_status keep_positions(hga_builder *b, const hga_allocator *a)
{
    hga_builder *none = NULL;
    hga_status st = hga_builder_create(a, &none);
    if (!st) st = hga_builder_set_longer(b, none);
    hga_builder_destroy(none);
    return st;
}
