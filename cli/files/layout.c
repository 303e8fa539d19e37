/* layout.c: axes by name. */
#include "layout.h"

#include <string.h>

const char *layout_axes(tensor_layout l)
{
    static const char *const axes[] = {"[rows][heads][dim]", "[heads][rows][dim]", "[batch][rows][heads][dim]",
                                       "[batch][heads][rows][dim]"};
    return axes[l];
}

int layout_heads_first(tensor_layout l) { return l == LAYOUT_HND || l == LAYOUT_BHND; }

int layout_batched(tensor_layout l) { return l == LAYOUT_BNHD || l == LAYOUT_BHND; }

int layout_swap(const float *data, int64_t samples, int64_t a, int64_t b, int64_t columns, float **out)
{
    int status = take(samples * a * b * columns, sizeof **out, out);
    if (status) return status;
    for (int64_t s = 0; s < samples; s++)
        for (int64_t i = 0; i < a; i++)
            for (int64_t j = 0; j < b; j++)
                memcpy(*out + ((s * b + j) * a + i) * columns, data + ((s * a + i) * b + j) * columns,
                       (size_t)columns * sizeof **out);
    return CLI_GOOD;
}
