/* numpy.c: NumPy's array files: magic, version, length of a Python dictionary, the dictionary, the elements. */
#include "numpy.h"

#include <string.h>

typedef struct header {
    const char *at, *end;
} header;

static hga_status wrong(const numpy *x, const char *what) { return hga_fail(HGA_EFORMAT, "%s: %s", x->name, what); }

/* What follows 'key': in the dictionary; NULL without. */
static const char *value_of(const header *h, const char *key)
{
    size_t n = strlen(key);
    for (const char *at = h->at; at + n + 2 < h->end; at++) {
        if ((*at != '\'' && *at != '"') || strncmp(at + 1, key, n) != 0 || at[n + 1] != *at) continue;
        for (at += n + 2; at < h->end && (*at == ' ' || *at == ':'); at++) continue;
        return at < h->end ? at : NULL;
    }
    return NULL;
}

/* '<i4' and the like; texts may be longer than a digit tells. */
static hga_status read_type(const header *h, numpy *x)
{
    static const char *const known[] = {"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "b1"};
    const char *at = value_of(h, "descr");
    if (!at || (*at != '\'' && *at != '"') || h->end - at < 6) return wrong(x, "the type of the elements is not told");
    x->is_big = at[1] == '>';
    x->kind = at[2], x->size = at[3] - '0';
    if (x->kind == 'U') x->size *= 4;
    if ((x->kind == 'S' || x->kind == 'U') && at[3] >= '1' && at[3] <= '9' && at[4] == *at) return HGA_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(at + 2, known[i], 2) == 0 && at[4] == *at) return HGA_OK;
    return hga_fail(HGA_EFORMAT, "%s: elements of type %.5s", x->name, at);
}

/* (), (3,) or (3, 2) */
static hga_status read_shape(const header *h, numpy *x)
{
    const char *at = value_of(h, "shape");
    if (!at || *at != '(') return wrong(x, "the shape is not told");
    x->count = 1;
    for (at++; at < h->end && *at != ')';) {
        if (*at == ' ' || *at == ',') {
            at++;
            continue;
        }
        int64_t n = 0;
        const char *digits = at;
        for (; at < h->end && *at >= '0' && *at <= '9'; at++)
            if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *at - '0', &n))
                return wrong(x, "the shape is too large");
        if (at == digits) return wrong(x, "the shape is not made of numbers");
        if (x->n_dims == 2) return wrong(x, "more than two axes");
        x->dim[x->n_dims++] = n;
        if (__builtin_mul_overflow(x->count, n, &x->count)) return wrong(x, "the shape is too large");
    }
    return at < h->end ? HGA_OK : wrong(x, "the shape has no end");
}

hga_status numpy_open(const char *name, const void *bytes, int64_t n, numpy *out)
{
    const uint8_t *b = bytes;
    hga_status st = HGA_OK;
    int64_t all;
    *out = (numpy){.name = name};
    if (n < 10 || memcmp(b, "\x93NUMPY", 6) != 0) return wrong(out, "no NumPy array");
    int64_t start = b[6] == 1 ? 10 : 12, length = b[8] | b[9] << 8;
    if (b[6] < 1 || b[6] > 3 || n < start) return wrong(out, "a NumPy array of an unknown version");
    if (b[6] > 1) length |= (int64_t)b[10] << 16 | (int64_t)b[11] << 24;
    if (length > n - start) return wrong(out, "the array ends in its header");
    header h = {(const char *)b + start, (const char *)b + start + length};
    HGA_TRY(read_type(&h, out));
    HGA_TRY(read_shape(&h, out));
    const char *fortran = value_of(&h, "fortran_order");
    out->is_fortran = fortran && *fortran == 'T';
    out->data = b + start + length;
    if (__builtin_mul_overflow(out->count, (int64_t)out->size, &all) || all > n - start - length)
        st = hga_fail(HGA_EFORMAT, "%s: %lld elements of %d bytes in %lld", name, (long long)out->count, out->size,
                      (long long)(n - start - length));
done:
    return st;
}

/* The element's bytes as an integer, the first the lowest. */
static uint64_t bits_of(const numpy *x, int64_t i)
{
    uint64_t bits = 0;
    for (int k = 0; k < x->size; k++)
        bits |= (uint64_t)x->data[i * x->size + (x->is_big ? x->size - 1 - k : k)] << 8 * k;
    return bits;
}

hga_status numpy_integer(const numpy *x, int64_t i, int64_t *out)
{
    if (x->kind != 'i' && x->kind != 'u' && x->kind != 'b') return wrong(x, "the elements are no whole numbers");
    uint64_t bits = bits_of(x, i);
    int unused = 64 - 8 * x->size;
    *out = x->kind == 'i' ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
    if (x->kind != 'i' && *out < 0) return wrong(x, "a number does not fit 63 bits");
    return HGA_OK;
}

/* Ten bits and five of exponent, biased by 15. */
static double half_of(uint64_t bits)
{
    int64_t exponent = bits >> 10 & 31, low = bits & 1023;
    double size = exponent ? (double)(1024 + low) : (double)low * 2;
    for (; exponent > 25; exponent--) size *= 2;
    for (; exponent < 25; exponent++) size /= 2;
    return bits >> 15 ? -size : size;
}

hga_status numpy_real(const numpy *x, int64_t i, double *out)
{
    int64_t whole;
    if (x->kind != 'f') {
        hga_status st = numpy_integer(x, i, &whole);
        *out = (double)(st ? 0 : whole);
        return st;
    }
    uint64_t bits = bits_of(x, i);
    uint32_t low = (uint32_t)bits;
    float single;
    memcpy(&single, &low, sizeof single);
    if (x->size == 8)
        memcpy(out, &bits, sizeof bits);
    else
        *out = x->size == 4 ? (double)single : half_of(bits);
    return HGA_OK;
}
