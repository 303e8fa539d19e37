/* npy.c: one array after its .npy header, versions 1.0 and 2.0, read and written. A header is a Python dictionary of
   three keys; we read exactly that. */
#include "npy_stream.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"

const char *npy_shape(int n_dims, const int64_t *dim, char text[static 200])
{
    int used = snprintf(text, 200, "(");
    for (int i = 0; i < n_dims; i++)
        used += snprintf(text + used, 200 - (size_t)used, "%s%lld", i ? ", " : "", (long long)dim[i]);
    snprintf(text + used, 200 - (size_t)used, n_dims == 1 ? ",)" : ")");
    return text;
}

/* ---- the header's little language ---- */

static const char *skip(const char *s)
{
    while (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r') s++;
    return s;
}

/* 'word' or "word" -> word; NULL when there is none */
static const char *read_quoted(const char *s, char *word, size_t room)
{
    char quote = *s;
    if (quote != '\'' && quote != '"') return NULL;
    size_t n = 0;
    for (s++; *s && *s != quote; s++) {
        if (n + 1 >= room) return NULL;
        word[n++] = *s;
    }
    word[n] = 0;
    return *s ? s + 1 : NULL;
}

static const char *read_shape(const char *s, npy_header *h)
{
    if (*s != '(') return NULL;
    s = skip(s + 1);
    h->n_dims = 0;
    while (*s != ')') {
        if (h->n_dims == NPY_MAX_DIMS || !isdigit((unsigned char)*s)) return NULL;
        int64_t value = 0;
        for (; isdigit((unsigned char)*s); s++)
            if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *s - '0', &value))
                return NULL;
        h->dim[h->n_dims++] = value;
        s = skip(s);
        if (*s == ',')
            s = skip(s + 1);
        else if (*s != ')')
            return NULL;
    }
    return s + 1;
}

static const char *read_descr(const char *s, npy_header *h)
{
    char word[16];
    s = read_quoted(s, word, sizeof word);
    if (!s || !element_of_descr(word, &h->type, &h->swapped)) return NULL;
    return s;
}

static const char *read_order(const char *s, npy_header *h)
{
    h->fortran = strncmp(s, "True", 4) == 0;
    if (h->fortran) return s + 4;
    return strncmp(s, "False", 5) == 0 ? s + 5 : NULL;
}

static const struct {
    const char *key, *wrong;
    const char *(*read)(const char *, npy_header *);
} entries[] = {
    {"descr", "its type is not f2, f4, f8, bfloat16 (V2), i4 or i8", read_descr},
    {"fortran_order", "fortran_order is not True or False", read_order},
    {"shape", "its shape is not a tuple of at most 8 sizes", read_shape},
};
enum { N_ENTRIES = sizeof entries / sizeof entries[0] };

/* the product of the sizes, which must also fit in memory as 8-byte numbers */
static int count_elements(npy_header *h)
{
    h->count = 1;
    for (int i = 0; i < h->n_dims; i++)
        if (h->dim[i] == 0) h->count = 0;
    for (int i = 0; i < h->n_dims && h->count > 0; i++)
        if (__builtin_mul_overflow(h->count, h->dim[i], &h->count)) return 0;
    return h->count <= INT64_MAX / 16;
}

static int parse_header(const char *path, const char *text, npy_header *h)
{
    unsigned seen = 0;
    const char *s = skip(text);
    if (*s++ != '{') return complain(CLI_DATA, "%s: its header is not a dictionary", path);
    for (s = skip(s); *s != '}'; s = skip(s)) {
        char key[32];
        s = read_quoted(s, key, sizeof key);
        size_t i = 0;
        while (s && i < N_ENTRIES && strcmp(key, entries[i].key) != 0) i++;
        if (!s || i == N_ENTRIES || seen & 1u << i)
            return complain(CLI_DATA, "%s: its header has an unknown, repeated or broken key", path);
        s = skip(s);
        if (*s++ != ':') return complain(CLI_DATA, "%s: its header has no value for '%s'", path, key);
        s = entries[i].read(skip(s), h);
        if (!s) return complain(CLI_DATA, "%s: %s", path, entries[i].wrong);
        seen |= 1u << i;
        s = skip(s);
        if (*s == ',')
            s++;
        else if (*s != '}')
            return complain(CLI_DATA, "%s: its header is broken after '%s'", path, key);
    }
    if (*skip(s + 1)) return complain(CLI_DATA, "%s: its header goes on after the dictionary", path);
    for (size_t i = 0; i < N_ENTRIES; i++)
        if (!(seen & 1u << i)) return complain(CLI_DATA, "%s: its header lacks '%s'", path, entries[i].key);
    return count_elements(h) ? CLI_GOOD : complain(CLI_DATA, "%s: its shape has more elements than any memory", path);
}

/* ---- bytes ---- */

static int read_bytes(const char *path, FILE *file, void *to, size_t n, const char *what)
{
    size_t got = fread(to, 1, n, file);
    if (got == n) return CLI_GOOD;
    if (ferror(file)) return complain(CLI_DATA, "%s: cannot be read: %s", path, strerror(errno));
    return complain(CLI_DATA, "%s: ends inside %s, after %zu of %zu bytes", path, what, got, n);
}

int npy_read_header(const char *path, FILE *file, npy_header *h)
{
    unsigned char lead[8], size[4] = {0};
    char *text = NULL;
    int status = CLI_GOOD;
    TRY(read_bytes(path, file, lead, sizeof lead, "the first eight bytes of a .npy file"));
    if (memcmp(lead, "\x93NUMPY", 6) != 0) TRY(complain(CLI_DATA, "%s: is not a .npy file", path));
    if (lead[6] < 1 || lead[6] > 2 || lead[7] != 0)
        TRY(complain(CLI_DATA, "%s: is .npy version %d.%d, not 1.0 or 2.0", path, lead[6], lead[7]));
    TRY(read_bytes(path, file, size, lead[6] == 1 ? 2 : 4, "the header's length"));
    uint32_t n = (uint32_t)size[0] | (uint32_t)size[1] << 8 | (uint32_t)size[2] << 16 | (uint32_t)size[3] << 24;
    if (n > NPY_MAX_HEADER)
        TRY(complain(CLI_DATA, "%s: says that its header has %u bytes, more than %d", path, n, NPY_MAX_HEADER));
    TRY(take((int64_t)n + 1, 1, &text));
    TRY(read_bytes(path, file, text, n, "its header"));
    if (strlen(text) != n) TRY(complain(CLI_DATA, "%s: its header has a zero byte", path));
    TRY(parse_header(path, text, h));
done:
    free(text);
    return status;
}

/* `alone`: nothing may follow. Room grows with what arrives, so that a header that lies about the size costs nothing */
static int read_elements(const char *path, FILE *file, int64_t bytes, int alone, unsigned char **out)
{
    int64_t capacity = 0, used = 0;
    unsigned char *data = NULL;
    while (used < bytes) {
        capacity = capacity ? 2 * capacity : 1 << 20;
        if (capacity > bytes) capacity = bytes;
        unsigned char *more = realloc(data, (size_t)capacity);
        if (!more) {
            free(data);
            return complain(CLI_OUTSIDE, "%s: out of memory: %lld bytes", path, (long long)capacity);
        }
        data = more;
        size_t got = fread(data + used, 1, (size_t)(capacity - used), file);
        used += (int64_t)got;
        if (used < capacity) {
            free(data);
            if (ferror(file)) return complain(CLI_DATA, "%s: cannot be read: %s", path, strerror(errno));
            return complain(CLI_DATA, "%s: has %lld bytes of elements where its shape needs %lld", path,
                            (long long)used, (long long)bytes);
        }
    }
    *out = data;
    if (!alone || fgetc(file) == EOF) return CLI_GOOD;
    free(data);
    *out = NULL;
    return complain(CLI_DATA, "%s: goes on after its %lld bytes of elements", path, (long long)bytes);
}

/* ---- elements ---- */

/* where element i of the file goes: the same place, or for Fortran order the place with the sizes read backwards */
static int64_t place_of(const npy_header *h, int64_t i)
{
    if (!h->fortran) return i;
    int64_t place = 0, stride = h->count;
    int64_t index[NPY_MAX_DIMS];
    for (int d = 0; d < h->n_dims; d++) {
        index[d] = i % h->dim[d];
        i /= h->dim[d];
    }
    for (int d = 0; d < h->n_dims; d++) {
        stride /= h->dim[d];
        place += index[d] * stride;
    }
    return place;
}

/* "[3, 0]" of an element */
static const char *position(const npy_header *h, int64_t place, char text[static 200])
{
    int64_t index[NPY_MAX_DIMS];
    for (int d = h->n_dims; d-- > 0; place /= h->dim[d]) index[d] = place % h->dim[d];
    npy_shape(h->n_dims, index, text);
    return text;
}

static int store_real(const char *path, const npy_header *h, const unsigned char *bytes, float *to)
{
    const int64_t size = element_bytes(h->type);
    for (int64_t i = 0; i < h->count; i++) {
        double x = element_real(h->type, bytes + size * i, h->swapped);
        int64_t place = place_of(h, i);
        to[place] = (float)x;
        if (isfinite(to[place])) continue;
        char text[200];
        const char *what = isnan(x) ? "NaN" : isinf(x) ? "infinite" : "too large for float32";
        return complain(CLI_DATA, "%s: element %s is %s", path, position(h, place, text), what);
    }
    return CLI_GOOD;
}

static int store_whole(const char *path, const npy_header *h, const unsigned char *bytes, int32_t *to)
{
    const int64_t size = element_bytes(h->type);
    for (int64_t i = 0; i < h->count; i++) {
        int64_t x = element_whole(h->type, bytes + size * i, h->swapped);
        int64_t place = place_of(h, i);
        char text[200];
        if (x < INT32_MIN || x > INT32_MAX)
            return complain(CLI_DATA, "%s: element %s is %lld, which does not fit int32", path,
                            position(h, place, text), (long long)x);
        to[place] = (int32_t)x;
    }
    return CLI_GOOD;
}

int npy_read_values(const char *name, FILE *file, const npy_header *h, int real, int alone, npy *out)
{
    unsigned char *bytes = NULL;
    int status = CLI_GOOD;
    if (element_is_real(h->type) != real)
        TRY(complain(CLI_DATA, "%s: holds %s where %s is needed", name, element_name(h->type),
                     real ? "float16, bfloat16, float32 or float64" : "int32 or int64"));
    if (h->n_dims == 0) TRY(complain(CLI_DATA, "%s: holds a single number, not an array", name));
    TRY(read_elements(name, file, h->count * element_bytes(h->type), alone, &bytes));
    out->n_dims = h->n_dims, out->count = h->count, out->type = h->type;
    memcpy(out->dim, h->dim, sizeof out->dim);
    if (real) {
        TRY(take(h->count, sizeof *out->real, &out->real));
        TRY(store_real(name, h, bytes, out->real));
    } else {
        TRY(take(h->count, sizeof *out->whole, &out->whole));
        TRY(store_whole(name, h, bytes, out->whole));
    }
done:
    free(bytes);
    return status;
}

int npy_read_stream(const char *name, FILE *file, int real, npy *out)
{
    npy_header h = {0};
    int status = npy_read_header(name, file, &h);
    return status ? status : npy_read_values(name, file, &h, real, 1, out);
}

void npy_clear(npy *a)
{
    free(a->real);
    free(a->whole);
    free(a->path);
    *a = (npy){0};
}

/* ---- writing ---- */

/* Lead and header together fill 64-byte lines. */
static void put_header(FILE *file, element type, int n_dims, const int64_t *dim)
{
    char shape[200], head[512];
    int used = snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                        element_descr(type), npy_shape(n_dims, dim, shape));
    int whole = (10 + used + 1 + 63) / 64 * 64 - 10;
    unsigned char lead[10] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(whole & 255), (unsigned char)(whole >> 8)};
    fwrite(lead, 1, sizeof lead, file);
    fprintf(file, "%s%*s\n", head, whole - 1 - used, "");
}

int npy_write_as(outfile *out, element type, const float *data, int n_dims, const int64_t *dim)
{
    int64_t count = 1;
    unsigned char bytes[8];
    for (int i = 0; i < n_dims; i++) count *= dim[i];
    put_header(out->file, type, n_dims, dim);
    for (int64_t i = 0; i < count; i++) {
        element_put(type, data[i], bytes);
        if (isfinite(data[i]) && !isfinite(element_real(type, bytes, 0)))
            return complain(CLI_DATA, "%s: %g does not fit %s", out->whole.path, (double)data[i], element_name(type));
        if (fwrite(bytes, (size_t)element_bytes(type), 1, out->file) != 1)
            return complain(CLI_OUTSIDE, "cannot write %s: %s", out->whole.path, strerror(errno));
    }
    return CLI_GOOD;
}

int npy_write_real(outfile *out, const float *data, int n_dims, const int64_t *dim)
{
    return npy_write_as(out, ELEMENT_F32, data, n_dims, dim);
}

int npy_write_whole(outfile *out, const int32_t *data, int n_dims, const int64_t *dim)
{
    int64_t count = 1;
    for (int i = 0; i < n_dims; i++) count *= dim[i];
    put_header(out->file, ELEMENT_I32, n_dims, dim);
    if (fwrite(data, sizeof *data, (size_t)count, out->file) == (size_t)count) return CLI_GOOD;
    return complain(CLI_OUTSIDE, "cannot write %s: %s", out->whole.path, strerror(errno));
}
