/* fast_tiles.h: columns of a group side by side (fast_column_runs.c), laid into tiles (fast_tiles.c), which are
   computed (fast_run_tiles.c). */
#ifndef HGA_GRADIENT_FAST_TILES_H
#define HGA_GRADIENT_FAST_TILES_H

#include "panel.h"

/* Find the windows of a group whose rows begin at position `first`; edges that are in none are left. Where pairs have
   something of their own every window becomes a tile at once. */
hga_status find_windows(fast_pass *p, hga_id s, group *g, hga_id first, hga_id n);
/* The segments of n rows from position `first` on, by source. */
hga_status read_segments(fast_pass *p, hga_id s, hga_id first, hga_id n);
/* Lay a window of one group into a tile. */
hga_status lay_window(fast_pass *p, group *g, const window *w, tile *t);
/* Lay the windows of two groups into tiles, side by side. */
hga_status lay_windows(fast_pass *p, group *pair);
/* Compute all tiles of the panel. */
hga_status run_panel_tiles(fast_pass *p, hga_id s);
/* Compute one whose pairs have nothing of their own, of the panel's groups. */
hga_status run_plain_tile(fast_pass *p, hga_id s, tile *t);

#endif
