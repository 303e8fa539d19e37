/* random_tensor.c: tensors of standard normal numbers. */
#include "random_tensor.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "complain.h"
#include "npy.h"
#include "numbers.h"

/* "8191x8x64" */
static int read_shape(const char *text, int *n_dims, int64_t dim[static NPY_MAX_DIMS], int64_t *count)
{
    const char *at = text;
    *n_dims = 0, *count = 1;
    do {
        char *end;
        errno = 0;
        long long n = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : 0;
        if (n < 1) return complain(CLI_USAGE, "--random: '%s' is no shape such as 8191x8x64", text);
        if (*n_dims == NPY_MAX_DIMS)
            return complain(CLI_USAGE, "--random: %s has over %d dimensions", text, NPY_MAX_DIMS);
        if (errno || __builtin_mul_overflow(*count, (int64_t)n, count) || *count > INT64_MAX / (int64_t)sizeof(float))
            return complain(CLI_USAGE, "--random: %s has more numbers than memory has addresses", text);
        dim[(*n_dims)++] = n;
        at = end;
    } while (*at == 'x' && at++);
    return *at ? complain(CLI_USAGE, "--random: '%s' is no shape such as 8191x8x64", text) : CLI_GOOD;
}

/* Two at a time (Box and Muller 1958), from two uniform numbers of which the first is not 0. */
static void fill_normal(uint64_t seed, int64_t n, float *x)
{
    const double unit = 0x1p-53, turn = 6.283185307179586;
    for (int64_t i = 0; i < n; i += 2) {
        double u = ((double)(number_bits(seed, (uint64_t)i) >> 11) + 1) * unit;
        double angle = turn * (double)(number_bits(seed, (uint64_t)i + 1) >> 11) * unit, length = sqrt(-2 * log(u));
        x[i] = (float)(length * cos(angle));
        if (i + 1 < n) x[i + 1] = (float)(length * sin(angle));
    }
}

int random_tensor_write(const char *shape, int64_t seed, const char *path)
{
    int status = CLI_GOOD, n_dims;
    int64_t dim[NPY_MAX_DIMS], count;
    float *x = NULL;
    outfile out = {0};
    TRY(read_shape(shape, &n_dims, dim, &count));
    x = malloc((size_t)count * sizeof *x);
    if (!x) TRY(complain(CLI_OUTSIDE, "out of memory: %s takes %lld bytes", shape, (long long)count * 4));
    fill_normal((uint64_t)seed, count, x);
    TRY(outfile_open(path, &out));
    TRY(npy_write_real(&out, x, n_dims, dim));
    TRY(outfile_flush(&out));
    TRY(outfile_keep(&out));
done:
    outfile_drop(&out);
    free(x);
    return status;
}
