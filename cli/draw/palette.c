/* palette.c: two ramps through five colours each. */
#include "palette.h"

static const uint32_t levels[5] = {0x3d4fc4, 0x9a3fb5, 0xd9487d, 0xf0803c, 0xf2b92e};
static const uint32_t weights[5] = {0x0b0724, 0x5b1a7f, 0xb5367a, 0xfb8761, 0xfcf5bf};

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

uint32_t weight_colour(double value) { return on_ramp(weights, value); }

double share_opacity(double share) { return 0.2 + 0.8 * share; }
