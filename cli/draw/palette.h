/* palette.h: the colours of pictures. Lightness rises with the level, or the weight, and hue changes with it, so
   that they can be distinguished without seeing red or green, and in grey. */
#ifndef CLI_PALETTE_H
#define CLI_PALETTE_H

#include "hga.h"

/* 0xRRGGBB. Levels keep off both ends of lightness, so that they read on a light and on a dark page. */
uint32_t level_colour(hga_id level, hga_id n_levels);
/* Of a kind of nodes; the ninth has the first one's. */
uint32_t kind_colour(int32_t kind);
/* value in [0, 1]; 0 is nearly black. */
uint32_t weight_colour(double value);
/* How strongly a cell is painted of which this share (> 0) is covered: never so faint that it is lost. */
double share_opacity(double share);

/* One colour a variant, in every chart; 0 stands for ink, which dense attention has. */
uint32_t variant_colour(const char *variant);

#endif
