/* view_colours.c: two ramps through five colours each, and a list. */
#include "hga_view.h"

static const uint32_t colours[HGA_COLOURS_KINDS + 1][8] = {
    [HGA_COLOURS_LEVELS] = {0x3d4fc4, 0x9a3fb5, 0xd9487d, 0xf0803c, 0xf2b92e},
    [HGA_COLOURS_WEIGHTS] = {0x0b0724, 0x5b1a7f, 0xb5367a, 0xfb8761, 0xfcf5bf},
    [HGA_COLOURS_KINDS] = {0x3b7dd8, 0xe0812b, 0x2fa36b, 0xd1495b, 0x8a63d2, 0x94a11f, 0x2aa5b5, 0x8a8f98},
};

/* The colour at t of [0, 1] on a ramp of five colours, mixed of the two next to it. */
static uint32_t on_ramp(const uint32_t *ramp, double t)
{
    double at = (!(t > 0) ? 0 : t > 1 ? 1 : t) * 4;
    int i = at >= 4 ? 3 : (int)at;
    uint32_t mixed = 0;
    for (int shift = 0; shift < 24; shift += 8) {
        double a = ramp[i] >> shift & 255, b = ramp[i + 1] >> shift & 255;
        mixed |= (uint32_t)(a + (b - a) * (at - i) + 0.5) << shift;
    }
    return mixed;
}

uint32_t hga_view_colour(hga_colours of, double at)
{
    if (of == HGA_COLOURS_KINDS) return colours[of][at > 0 ? (int64_t)at % 8 : 0];
    return on_ramp(colours[of], at);
}
