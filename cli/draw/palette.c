/* palette.c: the colours of levels, kinds and weights, as the viewer has them, and of variants. */
#include "palette.h"

#include <string.h>

#include "hga_view.h"

uint32_t level_colour(hga_id level, hga_id n_levels)
{
    return hga_view_colour(HGA_COLOURS_LEVELS, n_levels > 1 ? (double)level / (n_levels - 1) : 0);
}

uint32_t kind_colour(int32_t kind) { return hga_view_colour(HGA_COLOURS_KINDS, kind); }

uint32_t weight_colour(double value) { return hga_view_colour(HGA_COLOURS_WEIGHTS, value); }

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
