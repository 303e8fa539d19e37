/* fast_tiles.h: windows of a group's columns (fast_column_runs.c), tiles made of them (fast_tiles.c), and the
   computation of tiles (fast_run_tiles.c). */
#ifndef HGA_GRADIENT_FAST_TILES_H
#define HGA_GRADIENT_FAST_TILES_H

#include "panel.h"

/* Finds the windows of a group whose rows start at position `first`; edges that are in none are left. Where pairs
   have terms of their own every window becomes a tile at once. */
hga_status find_windows(fast_pass *p, hga_id s, group *g, hga_id first, hga_id n);
/* Reads the segments of n rows from position `first` on, by source, to the panel's list. */
hga_status read_segments(fast_pass *p, hga_id s, hga_id first, hga_id n);
/* Makes a window of one group a tile. */
hga_status lay_window(fast_pass *p, group *g, const window *w, tile *t);
/* Makes tiles of the windows of two groups. */
hga_status lay_windows(fast_pass *p, group *pair);
/* Computes all tiles of the panel. */
hga_status run_panel_tiles(fast_pass *p, hga_id s);
/* Computes a tile whose pairs have no terms of their own, of the panel's groups. */
hga_status run_plain_tile(fast_pass *p, hga_id s, tile *t);

#endif
