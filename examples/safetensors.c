#include "safetensors.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* That of the format's own library: a header is at most so long. */
static const uint64_t longest_header = 100000000;

struct safetensors {
    json_t *header;
    char *data;
    int64_t n_bytes;
    safetensors_tensor *tensor;
    size_t n;
};

/* A tensor's bytes [begin, end) of the data, to be put in order. */
typedef struct extent {
    int64_t begin, end;
    const char *name;
} extent;

/* One sentence of what is wrong; 0, so that it can be returned. */
__attribute__((format(printf, 2, 3))) static int wrong(char *said, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(said, SAFETENSORS_SAID, format, list);
    va_end(list);
    return 0;
}

/* ---- the file ---- */

static int64_t size_of(FILE *file)
{
    if (fseek(file, 0, SEEK_END)) return -1;
    long size = ftell(file);
    return fseek(file, 0, SEEK_SET) ? -1 : size;
}

static uint64_t little_endian(const unsigned char byte[8])
{
    uint64_t x = 0;
    for (int i = 7; i >= 0; i--) x = x << 8 | byte[i];
    return x;
}

/* The header's text in `text`, NUL behind it, and what follows in s->data. */
static int read_parts(FILE *file, safetensors *s, char **text, char *said)
{
    unsigned char first[8];
    int64_t size = size_of(file);
    if (size < 8 || fread(first, 1, 8, file) != 8)
        return wrong(said, "it has %lld bytes, the length of a header has 8", (long long)size);
    uint64_t n = little_endian(first);
    if (n > (uint64_t)size - 8 || n > longest_header)
        return wrong(said, "its header claims %llu bytes, %lld follow and at most %llu are read", (unsigned long long)n,
                     (long long)size - 8, (unsigned long long)longest_header);
    s->n_bytes = size - 8 - (int64_t)n;
    *text = malloc(n + 1);
    s->data = malloc((size_t)s->n_bytes + 1); /* apart from the header, so that numbers lie as floats must */
    if (!*text || !s->data) return wrong(said, "there is no memory for %lld bytes", (long long)size);
    (*text)[n] = 0;
    if (fread(*text, 1, n, file) != n || fread(s->data, 1, (size_t)s->n_bytes, file) != (size_t)s->n_bytes)
        return wrong(said, "it could not be read to its end");
    json_error_t error;
    s->header = json_loadb(*text, n, JSON_REJECT_DUPLICATES, &error);
    if (!s->header) return wrong(said, "its header, byte %d: %s", error.position, error.text);
    return json_is_object(s->header) || wrong(said, "its header is no JSON object");
}

/* ---- a tensor ---- */

/* The shape, and how many numbers it has. */
static int read_shape(const char *name, const json_t *shape, int64_t most, safetensors_tensor *t, int64_t *count,
                      char *said)
{
    size_t n = json_array_size(shape);
    if (!json_is_array(shape) || n > SAFETENSORS_AXES)
        return wrong(said, "tensor '%.60s': its shape is no list of at most %d lengths", name, SAFETENSORS_AXES);
    *count = 1;
    t->n_axes = (int)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *each = json_array_get(shape, i);
        json_int_t length = json_integer_value(each);
        if (!json_is_integer(each) || length < 0)
            return wrong(said, "tensor '%.60s': length %zu of its shape is no whole number >= 0", name, i);
        if (length && *count > most / length)
            return wrong(said, "tensor '%.60s': its shape has more numbers than the file", name);
        t->length[i] = length;
        *count *= length;
    }
    return 1;
}

static int read_extent(const char *name, const json_t *offsets, int64_t n_bytes, extent *e, char *said)
{
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return wrong(said, "tensor '%.60s': its data_offsets are no two whole numbers", name);
    *e = (extent){json_integer_value(begin), json_integer_value(end), name};
    if (e->begin < 0 || e->begin > e->end || e->end > n_bytes)
        return wrong(said, "tensor '%.60s': its bytes %lld to %lld are not within the file's %lld", name,
                     (long long)e->begin, (long long)e->end, (long long)n_bytes);
    return 1;
}

static int read_tensor(const safetensors *s, const char *name, const json_t *about, safetensors_tensor *t, extent *e,
                       char *said)
{
    const char *type = json_string_value(json_object_get(about, "dtype"));
    int64_t count = 0;
    if (!type) return wrong(said, "tensor '%.60s' has no dtype", name);
    if (strcmp(type, "F32")) return wrong(said, "tensor '%.60s': its dtype is '%.20s', only F32 is read", name, type);
    t->name = name;
    if (!read_shape(name, json_object_get(about, "shape"), s->n_bytes, t, &count, said)) return 0;
    if (!read_extent(name, json_object_get(about, "data_offsets"), s->n_bytes, e, said)) return 0;
    if ((e->end - e->begin) / 4 != count || (e->end - e->begin) % 4 || e->begin % 4)
        return wrong(said, "tensor '%.60s': %lld numbers of float32 are not its bytes %lld to %lld", name,
                     (long long)count, (long long)e->begin, (long long)e->end);
    t->data = (const float *)(const void *)(s->data + e->begin);
    return 1;
}

static int by_begin(const void *a, const void *b)
{
    const extent *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* The tensors are all of the data, each byte once. */
static int check_extents(extent *list, size_t n, int64_t n_bytes, char *said)
{
    int64_t at = 0;
    qsort(list, n, sizeof *list, by_begin);
    for (size_t i = 0; i < n; i++) {
        if (list[i].begin < at)
            return wrong(said, "tensors '%.60s' and '%.60s' overlap", list[i - 1].name, list[i].name);
        if (list[i].begin > at)
            return wrong(said, "bytes %lld to %lld are no tensor's", (long long)at, (long long)list[i].begin);
        at = list[i].end;
    }
    return at == n_bytes || wrong(said, "bytes %lld to %lld are no tensor's", (long long)at, (long long)n_bytes);
}

static int read_tensors(safetensors *s, char *said)
{
    const char *name;
    json_t *about;
    size_t most = json_object_size(s->header), n = 0;
    extent *list = calloc(most + 1, sizeof *list);
    s->tensor = calloc(most + 1, sizeof *s->tensor);
    int right = list && s->tensor ? 1 : wrong(said, "there is no memory for %zu tensors", most);
    json_object_foreach(s->header, name, about)
    {
        if (!right) break;
        if (!strcmp(name, "__metadata__")) continue;
        right = read_tensor(s, name, about, &s->tensor[n], &list[n], said);
        n++;
    }
    right = right && check_extents(list, n, s->n_bytes, said);
    s->n = n;
    free(list);
    return right;
}

/* ---- the interface ---- */

safetensors *safetensors_read(const char *path, char said[SAFETENSORS_SAID])
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    safetensors *s = calloc(1, sizeof *s);
    int right = s ? 1 : wrong(said, "there is no memory");
    if (!file) right = wrong(said, "it cannot be opened");
    right = right && read_parts(file, s, &text, said) && read_tensors(s, said);
    if (file) fclose(file);
    free(text);
    if (!right) safetensors_free(s), s = NULL;
    return s;
}

void safetensors_free(safetensors *s)
{
    if (!s) return;
    json_decref(s->header);
    free(s->data), free(s->tensor), free(s);
}

const safetensors_tensor *safetensors_named(const safetensors *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(s->tensor[i].name, name)) return &s->tensor[i];
    return NULL;
}

const char *safetensors_about(const safetensors *s, const char *name)
{
    return json_string_value(json_object_get(json_object_get(s->header, "__metadata__"), name));
}
