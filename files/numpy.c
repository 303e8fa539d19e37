/* numpy.c: a NumPy array in memory, whose header is read as a stream. */
#define _GNU_SOURCE /* fmemopen */
#include "numpy.h"
#include "npy_format.h"

#include <errno.h>
#include <stdio.h>

/* Reads the header and the offset of the elements. */
static hga_status read_header(numpy *x, void *bytes, int64_t n, int64_t *start)
{
    if (n == 0) return hga_fail(HGA_EFORMAT, "%s: no NumPy array", x->name);
    errno = 0;
    FILE *stream = fmemopen(bytes, (size_t)n, "rb");
    if (!stream) return hga_fail(HGA_ENOMEM, "no memory to read %s", x->name);
    hga_status st = hga_npy_read_header(x->name, stream, &x->has);
    *start = ftell(stream);
    fclose(stream);
    return st;
}

/* Opens an array of at most that many axes and checks that its elements are present. */
hga_status numpy_open(const char *name, void *bytes, int64_t n, int most_axes, numpy *out)
{
    int64_t start = 0, all;
    *out = (numpy){.name = name};
    hga_status st = read_header(out, bytes, n, &start);
    if (st) return st;
    const hga_npy *h = &out->has;
    if (h->n_dims > most_axes)
        return hga_fail(HGA_EFORMAT, "%s: %d axes, where at most %d are expected", name, h->n_dims, most_axes);
    if (__builtin_mul_overflow(h->count, (int64_t)h->size, &all) || all > n - start)
        return hga_fail(HGA_EFORMAT, "%s: %lld elements of %d bytes in %lld", name, (long long)h->count, h->size,
                        (long long)(n - start));
    out->data = (const uint8_t *)bytes + start;
    return HGA_OK;
}

hga_status numpy_integer(const numpy *x, int64_t i, int64_t *out)
{
    hga_status st = hga_npy_whole(&x->has, x->data + i * x->has.size, out);
    return st ? hga_fail(st, "%s: element %lld is not a whole number of 63 bits", x->name, (long long)i) : HGA_OK;
}

hga_status numpy_real(const numpy *x, int64_t i, double *out)
{
    hga_status st = hga_npy_real(&x->has, x->data + i * x->has.size, out);
    return st ? hga_fail(st, "%s: element %lld is not a number", x->name, (long long)i) : HGA_OK;
}
