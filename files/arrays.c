/* arrays.c: the format of a file, its arrays, and their elements. */
#define _GNU_SOURCE /* fmemopen */
#include "arrays.h"
#include "load.h"
#include "npy_format.h"
#include "sixteen.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the stream ---- */

static int64_t stream_bytes(FILE *stream) { return fseeko(stream, 0, SEEK_END) ? -1 : (int64_t)ftello(stream); }

static void close_stream(hga_arrays *x)
{
    if (x->stream) fclose(x->stream);
    hga_delete(x->by, x->member, x->member_capacity, 1);
    x->stream = NULL, x->member = NULL, x->n_member = x->member_capacity = 0, x->whole = -1;
}

/* Length of "model.safetensors:x.q" in messages. */
enum { CALLED = 600 };
static const char *called(const hga_arrays *x, int64_t i, char text[CALLED])
{
    const char *name = x->array[i].is.name;
    snprintf(text, CALLED, "%.400s%s%.190s", x->path, *name ? ":" : "", name);
    return text;
}

/* Opens bytes in memory as the stream. */
static hga_status open_memory(const char *name, void *bytes, int64_t n, FILE **stream)
{
    if (n == 0) return hga_fail(HGA_EFORMAT, "%s: has no bytes", name);
    *stream = fmemopen(bytes, (size_t)n, "rb");
    return *stream ? HGA_OK : hga_fail(HGA_ENOMEM, "no memory to read %s", name);
}

/* Opens the file; a pipe is read to its end. */
static hga_status open_stream(hga_arrays *x, const char *path)
{
    struct stat s;
    int is_input = strcmp(path, "-") == 0, found = !is_input && stat(path, &s) == 0;
    if (found && S_ISDIR(s.st_mode)) return hga_fail(HGA_EIO, "%s: is a folder", x->path);
    if (is_input || (found && !S_ISREG(s.st_mode))) {
        hga_status st = bytes_load(x->by, path, x->path, &x->file, &x->n_file, &x->file_capacity);
        return st ? st : open_memory(x->path, x->file, x->n_file, &x->stream);
    }
    x->stream = fopen(path, "rb");
    if (x->stream) return HGA_OK;
    return hga_fail(errno == ENOMEM ? HGA_ENOMEM : HGA_EIO, "%s: cannot be read: %s", x->path, strerror(errno));
}

/* ---- .npy and .npz ---- */

/* Reads the header of array i from a stream of that many bytes, and the offset of its elements. */
static hga_status read_npy(hga_arrays *x, int64_t i, FILE *stream, int64_t bytes)
{
    char name[CALLED];
    array_entry *a = &x->array[i];
    rewind(stream);
    hga_status st = hga_npy_read_header(called(x, i, name), stream, &a->is.has);
    a->at = st ? 0 : ftello(stream), a->end = st ? 0 : bytes;
    return st;
}

/* Unpacks a member whose header is known, which replaces the current stream. */
static hga_status unpack(hga_arrays *x, int64_t i)
{
    char name[CALLED];
    hga_status st = HGA_OK;
    close_stream(x);
    HGA_TRY(npz_unpack(x->npz, i, INT64_MAX, &x->member, &x->n_member, &x->member_capacity));
    HGA_TRY(open_memory(called(x, i, name), x->member, x->n_member, &x->stream));
    x->whole = i;
done:
    return st;
}

/* Reads the header of member i and its size from the archive's directory, without unpacking more than a header. */
static hga_status look_into(hga_arrays *x, int64_t i)
{
    enum { HEAD = 1 << 17 }; /* longer than any header */
    char name[CALLED];
    uint8_t *head = NULL;
    int64_t n, capacity = 0;
    FILE *stream = NULL;
    hga_status st = HGA_OK;
    HGA_TRY(npz_unpack(x->npz, i, HEAD, &head, &n, &capacity));
    HGA_TRY(open_memory(called(x, i, name), head, n, &stream));
    st = read_npy(x, i, stream, npz_bytes(x->npz, i));
done:
    if (stream) fclose(stream);
    hga_delete(x->by, head, capacity, 1);
    return st;
}

static hga_status open_npz(hga_arrays *x)
{
    hga_status st = npz_open(x->by, x->path, x->file, x->n_file, &x->npz);
    int64_t n = st ? 0 : npz_count(x->npz);
    if (!st) st = hga_new_zero(x->by, n, sizeof *x->array, &x->array);
    if (st) return st;
    x->n = x->capacity = n;
    for (int64_t i = 0; i < n; i++) x->array[i].is.name = npz_name(x->npz, i);
    return HGA_OK;
}

static hga_status open_npy(hga_arrays *x)
{
    hga_status st = hga_new_zero(x->by, 1, sizeof *x->array, &x->array);
    if (st) return st;
    x->n = x->capacity = 1, x->array->is.name = "";
    return read_npy(x, 0, x->stream, stream_bytes(x->stream));
}

/* ---- any of them ---- */

/* Detects the format by the first bytes and lists the arrays. */
static hga_status open_kind(hga_arrays *x)
{
    unsigned char lead[64] = {0};
    int64_t bytes = stream_bytes(x->stream);
    rewind(x->stream);
    size_t n = fread(lead, 1, sizeof lead, x->stream);
    if (n >= 4 && (memcmp(lead, "PK\3\4", 4) == 0 || memcmp(lead, "PK\5\6", 4) == 0)) return open_npz(x);
    if (n >= 6 && memcmp(lead, "\x93NUMPY", 6) == 0) return open_npy(x);
    if (n >= 10 && lead[8] == '{') return safetensors_open(x, bytes);
    hga_status st = check_fetched(x->path, lead, (int64_t)n);
    return st ? st : hga_fail(HGA_EFORMAT, "%s: not a .npy, .npz or .safetensors file", x->path);
}

hga_status hga_arrays_open(const hga_allocator *a, const char *path, hga_arrays **out)
{
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    hga_arrays *x;
    hga_status st = HGA_OK;
    *out = NULL;
    HGA_TRY(hga_new_zero(a, 1, sizeof *x, &x));
    if (a) x->allocator = *a, x->by = &x->allocator;
    *out = x, x->whole = -1;
    HGA_TRY(hga_new(x->by, (int64_t)strlen(name) + 1, 1, &x->path));
    memcpy(x->path, name, strlen(name) + 1);
    HGA_TRY(open_stream(x, path));
    HGA_TRY(open_kind(x));
done:
    if (st) hga_arrays_close(*out), *out = NULL;
    return st;
}

void hga_arrays_close(hga_arrays *x)
{
    if (!x) return;
    hga_allocator a = x->allocator;
    close_stream(x);
    npz_close(x->npz);
    json_decref(x->header);
    hga_delete(x->by, x->file, x->file_capacity, 1);
    for (int64_t i = 0; i < x->n; i++)
        hga_delete(x->by, x->array[i].kept, x->array[i].is.has.count, sizeof *x->array[i].kept);
    hga_delete(x->by, x->array, x->capacity, sizeof *x->array);
    if (x->path) hga_delete(x->by, x->path, (int64_t)strlen(x->path) + 1, 1);
    hga_delete(x->by ? &a : NULL, x, 1, sizeof *x);
}

int64_t hga_arrays_count(const hga_arrays *x) { return x->n; }

int64_t hga_arrays_find(const hga_arrays *x, const char *name)
{
    for (int64_t i = 0; i < x->n; i++)
        if (strcmp(x->array[i].is.name, name) == 0) return i;
    return -1;
}

const char *hga_arrays_about(const hga_arrays *x, const char *word)
{
    return json_string_value(json_object_get(json_object_get(x->header, "__metadata__"), word));
}

static hga_status check_number(const hga_arrays *x, int64_t i)
{
    if (i >= 0 && i < x->n) return HGA_OK;
    return hga_fail(HGA_EINVAL, "%s: array %lld of %lld", x->path, (long long)i, (long long)x->n);
}

/* Checks that an array has as many bytes as its shape needs. */
static hga_status check_bytes(const hga_arrays *x, int64_t i)
{
    char name[CALLED];
    const array_entry *a = &x->array[i];
    const int64_t bytes = a->end - a->at, needs = a->is.has.count * a->is.has.size;
    if (!a->is.has.kind || bytes == needs) return HGA_OK;
    if (bytes > needs && !a->is.type)
        return hga_fail(HGA_EFORMAT, "%s: goes on after its %lld bytes of elements", called(x, i, name),
                        (long long)needs);
    return hga_fail(HGA_EFORMAT, "%s: has %lld bytes of elements where its shape needs %lld", called(x, i, name),
                    (long long)bytes, (long long)needs);
}

/* Reads the header of array i, unless it is known. */
static hga_status find_array(hga_arrays *x, int64_t i)
{
    hga_status st = check_number(x, i);
    if (!st && x->npz && !x->array[i].end) st = look_into(x, i);
    return st ? st : check_bytes(x, i);
}

hga_status hga_arrays_look(hga_arrays *x, int64_t i, hga_array *out)
{
    *out = (hga_array){0};
    hga_status st = find_array(x, i);
    if (!st) *out = x->array[i].is;
    return st;
}

/* ---- elements ---- */

/* Checks that the array's elements are of the requested kind. */
static hga_status check_kind(const char *name, const array_entry *a, int is_whole)
{
    char type[HGA_NPY_TYPE_BYTES];
    const hga_npy *h = &a->is.has;
    const int is_real = h->kind == 'f' || h->kind == 'V';
    if (!h->kind)
        return hga_fail(HGA_EFORMAT, "%s: has the type %s, which is not one of F16 BF16 F32 F64 I32 I64", name,
                        a->is.type);
    if (!(is_whole ? h->kind == 'i' && h->size >= 4 : is_real))
        return hga_fail(HGA_EFORMAT, "%s: holds %s where %s is needed", name, hga_npy_type(h, type),
                        is_whole ? "int32 or int64" : "float16, bfloat16, float32 or float64");
    return HGA_OK;
}

/* the position of element i of the file in C order; in Fortran order the index with the dimensions reversed */
static int64_t offset_of(const hga_npy *h, int64_t i)
{
    if (!h->fortran) return i;
    int64_t offset = 0, stride = h->count;
    int64_t index[HGA_NPY_DIMS];
    for (int d = 0; d < h->n_dims; d++) {
        index[d] = i % h->dim[d];
        i /= h->dim[d];
    }
    for (int d = 0; d < h->n_dims; d++) {
        stride /= h->dim[d];
        offset += index[d] * stride;
    }
    return offset;
}

static hga_status store_real(const char *name, const hga_npy *h, const void *bytes, int64_t offset, float *to)
{
    double x = 0;
    char text[HGA_NPY_SHAPE_BYTES];
    hga_status st = hga_npy_real(h, bytes, &x);
    *to = (float)x;
    if (st || !isfinite(x) || isfinite(*to)) return st;
    return hga_fail(HGA_EFORMAT, "%s: element %s is too large for float32", name, hga_npy_index(h, offset, text));
}

static hga_status store_whole(const char *name, const hga_npy *h, const void *bytes, int64_t offset, int32_t *to)
{
    int64_t x = 0;
    char text[HGA_NPY_SHAPE_BYTES];
    hga_status st = hga_npy_whole(h, bytes, &x);
    *to = (int32_t)x;
    if (st || *to == x) return st;
    return hga_fail(HGA_EFORMAT, "%s: element %s is %lld, which does not fit int32", name,
                    hga_npy_index(h, offset, text), (long long)x);
}

/* Where elements go: `real` or `whole` is the place of element `first`. */
typedef struct destination {
    float *real;
    int32_t *whole;
    int64_t first;
} destination;

static int is_plain_half(const hga_npy *h)
{
    return h->size == 2 && (h->kind == 'f' || h->kind == 'V') && !h->swapped && !h->fortran;
}

/* Stores n elements from element e on. */
static hga_status store_elements(const char *name, const hga_npy *h, const unsigned char *from, int64_t e, int64_t n,
                                 const destination *to)
{
    if (to->real && is_plain_half(h)) { /* always finite in float32 where they are finite */
        const uint16_t *half = (const uint16_t *)(const void *)from;
        float *out = to->real + e - to->first;
        for (int64_t i = 0; i < n; i++) out[i] = h->kind == 'V' ? widen_bf16(half[i]) : widen_f16(half[i]);
        return HGA_OK;
    }
    hga_status st = HGA_OK;
    for (int64_t i = 0; i < n && !st; i++, from += h->size) {
        const int64_t offset = offset_of(h, e + i);
        st = to->real ? store_real(name, h, from, offset, to->real + offset - to->first)
                      : store_whole(name, h, from, offset, to->whole + offset - to->first);
    }
    return st;
}

/* Reads elements from the stream, a buffer at a time. */
static hga_status read_elements(const hga_arrays *x, const char *name, const array_entry *a, int64_t n,
                                const destination *to)
{
    enum { CHUNK = 1 << 16 };
    const hga_npy *h = &a->is.has;
    const int64_t capacity = n < CHUNK ? n : CHUNK;
    unsigned char *bytes = NULL;
    hga_status st = HGA_OK;
    HGA_TRY(hga_new(x->by, capacity, (size_t)h->size, &bytes));
    if (fseeko(x->stream, (off_t)(a->at + to->first * h->size), SEEK_SET))
        HGA_TRY(hga_fail(HGA_EIO, "%s: cannot be read: %s", name, strerror(errno)));
    for (int64_t e = 0; e < n; e += CHUNK) {
        const size_t some = (size_t)(n - e < CHUNK ? n - e : CHUNK);
        if (fread(bytes, (size_t)h->size, some, x->stream) != some)
            HGA_TRY(hga_fail(HGA_EIO, "%s: cannot be read: %s", name,
                             ferror(x->stream) ? strerror(errno) : "it has become shorter"));
        HGA_TRY(store_elements(name, h, bytes, to->first + e, (int64_t)some, to));
    }
done:
    hga_delete(x->by, bytes, capacity, (size_t)h->size);
    return st;
}

/* Reads elements of array i to `real` or `whole`, after checking its size and kind. */
static hga_status read_array(hga_arrays *x, int64_t i, int64_t first, int64_t n, float *real, int32_t *whole,
                             int is_whole)
{
    char name[CALLED];
    hga_status st = find_array(x, i);
    if (!st) st = check_kind(called(x, i, name), &x->array[i], is_whole);
    if (st || n == 0) return st;
    const hga_npy *h = &x->array[i].is.has;
    if (first < 0 || n < 0 || first > h->count - n || (h->fortran && n < h->count))
        return hga_fail(HGA_EINVAL, "%s: elements %lld to %lld of %lld%s", name, (long long)first, (long long)first + n,
                        (long long)h->count, h->fortran ? " in Fortran's order" : "");
    if (x->npz && x->whole != i) st = unpack(x, i);
    return st ? st : read_elements(x, name, &x->array[i], n, &(destination){real, whole, first});
}

hga_status hga_arrays_real(hga_arrays *x, int64_t i, int64_t first, int64_t n, float *out)
{
    return read_array(x, i, first, n, out, NULL, 0);
}

/* With n = 0 checks that the elements can be read, before the caller allocates memory for them. */
hga_status hga_arrays_floats(hga_arrays *x, int64_t i, const float **out)
{
    float *all = NULL;
    hga_status st = HGA_OK;
    *out = NULL;
    HGA_TRY(hga_arrays_real(x, i, 0, 0, NULL));
    array_entry *a = &x->array[i];
    if (!a->kept) {
        HGA_TRY(hga_new(x->by, a->is.has.count, sizeof *all, &all));
        st = hga_arrays_real(x, i, 0, a->is.has.count, all);
        if (st) hga_delete(x->by, all, a->is.has.count, sizeof *all), all = NULL;
        a->kept = all;
    }
    *out = a->kept;
done:
    return st;
}

hga_status hga_arrays_whole(hga_arrays *x, int64_t i, int64_t first, int64_t n, int32_t *out)
{
    return read_array(x, i, first, n, NULL, out, 1);
}
