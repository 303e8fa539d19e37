/* hyperplanes.c: finds level by level a median for each node, so that all leaves get equally many tokens. */
#include "hyperplanes.h"

#include <stdlib.h>

#include "memory.h"

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float dot(const float *x, const float *y, hga_id n)
{
    double sum = 0;
    for (hga_id i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return (float)sum;
}

/* The median of the products of a node's tokens with its hyperplane's direction: between the middle two of an even
   number, so that as many are on either side, and none on it; `buffer` holds a float for each token. */
static float median(const float *along, const int32_t *node_of, hga_id n, int32_t node, float *buffer)
{
    size_t here = 0;
    for (hga_id i = 0; i < n; i++)
        if (node_of[i] == node) buffer[here++] = along[i];
    if (here == 0) return 0;
    qsort(buffer, here, sizeof *buffer, by_size);
    return (buffer[(here - 1) / 2] + buffer[here / 2]) / 2;
}

hga_status bench_halve(const float *x, hga_id n, ptrdiff_t stride, hga_id columns, hga_id height, const float *weights,
                       float *bias)
{
    int32_t *node_of = NULL; /* of its level */
    float *along = NULL;     /* [2][n]: the second half is a buffer */
    hga_status st = HGA_OK;
    HGA_TRY(bench_new(n, sizeof *node_of, &node_of));
    HGA_TRY(bench_new(2 * (int64_t)n, sizeof *along, &along));
    for (hga_id l = 0; l < height; l++) {
        const int64_t first = ((int64_t)1 << l) - 1;
        for (hga_id i = 0; i < n; i++)
            along[i] = dot(weights + (first + node_of[i]) * columns, x + i * stride, columns);
        for (int32_t j = 0; j < 1 << l; j++) bias[first + j] = -median(along, node_of, n, j, along + n);
        for (hga_id i = 0; i < n; i++) node_of[i] = 2 * node_of[i] + (along[i] + bias[first + node_of[i]] > 0);
    }
done:
    free(node_of);
    free(along);
    return st;
}
