/* weights.c: attention rows by way of the identity. */
#include "weights.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 128 }; /* columns of the identity at a time */

/* columns [first, first + CHUNK) of the identity, the same for every head */
static void identity_columns(hga_id n, hga_id heads, hga_id first, float *value)
{
    memset(value, 0, (size_t)((int64_t)n * heads * CHUNK) * sizeof *value);
    for (hga_id i = first; i < n && i < first + CHUNK; i++)
        for (hga_id h = 0; h < heads; h++) value[((int64_t)i * heads + h) * CHUNK + i - first] = 1;
}

/* Attention to CHUNK tokens at once, whose indicators are the values. */
static int run_columns(const scene *s, const hga_graph *g, const hga_program *p, const hga_options *options,
                       const float *value, hga_id first, float *weights)
{
    hga_id n = s->words.n, heads = s->words.heads, width = n - first < CHUNK ? n - first : CHUNK;
    hga_shape shape = {.n_heads = heads, .dim = s->words.dim, .dim_v = CHUNK};
    cast c = {0};
    int status = CLI_GOOD;
    TRY(cast_make(s, g, p, value, CHUNK, &c));
    TRY(complain_of(hga_attention(g, p, &shape, options, &c.io), CLI_OUTSIDE, "attention rows"));
    for (int64_t row = 0; row < (int64_t)n * heads; row++)
        memcpy(weights + row * n + first, c.out + row * CHUNK, (size_t)width * sizeof *weights);
done:
    cast_clear(&c);
    return status;
}

static void normalise(float *row, hga_id n)
{
    double sum = 0;
    for (hga_id j = 0; j < n; j++) sum += (double)row[j];
    if (sum <= 0) return;
    for (hga_id j = 0; j < n; j++) row[j] = (float)(row[j] / sum);
}

/* Some columns of the identity at a time, and in the end each row is normalised. */
int weights_of_graph(const scene *s, const hga_graph *g, const hga_program *p, const hga_options *options,
                     float **weights)
{
    hga_id n = s->words.n, heads = s->words.heads;
    float *value = NULL;
    int status = CLI_GOOD;
    *weights = NULL;
    TRY(take((int64_t)n * heads * n, sizeof **weights, weights));
    TRY(take((int64_t)n * heads * CHUNK, sizeof *value, &value));
    for (hga_id first = 0; first < n; first += CHUNK) {
        identity_columns(n, heads, first, value);
        TRY(run_columns(s, g, p, options, value, first, *weights));
    }
    for (int64_t row = 0; row < (int64_t)n * heads; row++) normalise(*weights + row * n, n);
done:
    free(value);
    if (status) free(*weights), *weights = NULL;
    return status;
}

double relative_distance(const float *x, const float *y, int64_t n)
{
    double apart = 0, whole = 0;
    for (int64_t i = 0; i < n; i++) {
        apart += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        whole += (double)y[i] * (double)y[i];
    }
    return sqrt(apart / whole);
}

/* q as small as a float can be stands for 0, where rounding lost what softmax never makes 0 */
static double divergence(const float *p, const float *q, hga_id n)
{
    double sum = 0;
    for (hga_id j = 0; j < n; j++)
        if (p[j] > 0) sum += (double)p[j] * log((double)p[j] / (double)(q[j] > FLT_MIN ? q[j] : FLT_MIN));
    return sum;
}

static int any(const float *row, hga_id n)
{
    for (hga_id j = 0; j < n; j++)
        if (row[j] > 0) return 1;
    return 0;
}

double mean_divergence(const float *p, const float *q, hga_id n, hga_id heads)
{
    double sum = 0;
    int64_t rows = 0;
    for (int64_t row = 0; row < (int64_t)n * heads; row++) {
        if (!any(p + row * n, n)) continue;
        sum += divergence(p + row * n, q + row * n, n);
        rows++;
    }
    return sum / (double)rows;
}
