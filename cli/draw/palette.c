/* palette.c: two ramps through five colours each. */
#include "palette.h"

#include <string.h>

static const uint32_t levels[5] = {0x3d4fc4, 0x9a3fb5, 0xd9487d, 0xf0803c, 0xf2b92e};
static const uint32_t weights[5] = {0x0b0724, 0x5b1a7f, 0xb5367a, 0xfb8761, 0xfcf5bf};

/* The colour at t of [0, 1] on a ramp of five colours, mixed of the two next to it. */
static uint32_t on_ramp(const uint32_t *ramp, double t)
{
    double at = (t < 0 ? 0 : t > 1 ? 1 : t) * 4;
    int i = at >= 4 ? 3 : (int)at;
    uint32_t mixed = 0;
    for (int shift = 0; shift < 24; shift += 8) {
        double a = ramp[i] >> shift & 255, b = ramp[i + 1] >> shift & 255;
        mixed |= (uint32_t)(a + (b - a) * (at - i) + 0.5) << shift;
    }
    return mixed;
}

uint32_t level_colour(hga_id level, hga_id n_levels)
{
    return on_ramp(levels, n_levels > 1 ? (double)level / (n_levels - 1) : 0);
}

uint32_t kind_colour(int32_t kind)
{
    static const uint32_t kinds[] = {0x3b7dd8, 0xe0812b, 0x2fa36b, 0xd1495b, 0x8a63d2, 0x94a11f, 0x2aa5b5, 0x8a8f98};
    return kinds[kind % (int32_t)(sizeof kinds / sizeof *kinds)];
}

uint32_t weight_colour(double value) { return on_ramp(weights, value); }

double share_opacity(double share) { return 0.2 + 0.8 * share; }

uint32_t variant_colour(const char *variant)
{
    static const struct {
        const char *variant;
        uint32_t colour;
    } colours[] = {
        {"dense", 0},
        {"window", 0x8a8f98},
        {"bpt", 0xd1495b},
        {"htransformer", 0x3b7dd8},
        {"hsa", 0x2fa36b},
        {"treeformer-fine", 0xc98a1e},
        {"treeformer-coarse", 0x8a63d2},
        {"fenwick", 0x2aa5b5},
        {"dilated", 0x94a11f},
        {"segments", 0xc9497b},
        {"neighbourhood", 0x5b6ee1},
        {"draft", 0xb5651d},
    };
    for (size_t i = 0; i < sizeof colours / sizeof colours[0]; i++)
        if (strcmp(colours[i].variant, variant) == 0) return colours[i].colour;
    return 0xe0812b;
}
