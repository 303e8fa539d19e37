/* fast_draws.h: what dropout draws for a panel (fast_draws.c): for all heads of an eight that go backward with it,
   cached with its tiles and edges until the seed, the layer or the eight is another. */
#ifndef HGA_GRADIENT_FAST_DRAWS_H
#define HGA_GRADIENT_FAST_DRAWS_H

#include "panel.h"

/* How many draws may be cached, in numbers of 16 bits. */
int64_t most_draws(const hga_plan *plan);
/* Starts a head. */
void draws_open(const fast_pass *p);
/* Allocates memory for all draws of a call for its cached tiles and lists. */
hga_status reserve_draws(fast_pass *p);
/* The bits of a tile's groups. */
hga_status tile_draws(const fast_pass *p, tile *t, const uint16_t *drop_mask[2]);
/* The bits of a group's left edges; *bits NULL: they are not cached. */
hga_status left_draws(const fast_pass *p, const group *g, found *f, const uint8_t **bits);

#endif
