/* safetensors.c: a .safetensors file: eight bytes with the header's length, the header as JSON, the tensors. */
#include "arrays.h"
#include "json_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_HEADER = 100 << 20 };

/* Reads the JSON header and the offset of the tensors' bytes. */
static hga_status read_header(hga_arrays *x, int64_t bytes, int64_t *first)
{
    unsigned char size[8];
    uint64_t n = 0;
    char *text = NULL;
    hga_status st = HGA_OK;
    if (fread(size, 1, 8, x->stream) == 8)
        for (int i = 0; i < 8; i++) n |= (uint64_t)size[i] << 8 * i;
    if (n < 2 || n > MOST_HEADER || 8 + (int64_t)n > bytes)
        return hga_fail(HGA_EFORMAT,
                        "%s: not a .npy, .npz or .safetensors file: its header would have %" PRIu64 " bytes", x->path,
                        n);
    *first = 8 + (int64_t)n;
    HGA_TRY(hga_new(x->by, (int64_t)n, 1, &text));
    if (fread(text, 1, n, x->stream) != n) HGA_TRY(hga_fail(HGA_EIO, "cannot read %s to its end", x->path));
    HGA_TRY(json_parse(x->path, text, n, &x->header));
    if (!json_is_object(x->header)) st = hga_fail(HGA_EFORMAT, "%s: its header is not a JSON object", x->path);
done:
    hga_delete(x->by, text, (int64_t)n, 1);
    return st;
}

/* Kind and size of a type by its name; kind 0 for a type that is not supported. */
static void read_type(const char *type, hga_npy *h)
{
    static const struct {
        const char *name;
        char kind;
        int size;
    } known[] = {{"F16", 'f', 2}, {"BF16", 'V', 2}, {"F32", 'f', 4}, {"F64", 'f', 8}, {"I32", 'i', 4}, {"I64", 'i', 8}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, type) == 0) h->kind = known[i].kind, h->size = known[i].size;
}

/* Reads `shape` of an entry and its number of elements. */
static hga_status read_shape(const hga_arrays *x, const char *name, const json_t *shape, hga_npy *h)
{
    size_t i;
    json_t *size;
    if (!json_is_array(shape) || json_array_size(shape) > HGA_NPY_DIMS)
        return hga_fail(HGA_EFORMAT, "%s:%s: its shape is not a list of at most %d sizes", x->path, name, HGA_NPY_DIMS);
    h->n_dims = (int)json_array_size(shape), h->count = 1;
    json_array_foreach(shape, i, size)
    {
        h->dim[i] = json_integer_value(size);
        if (!json_is_integer(size) || h->dim[i] < 0 || __builtin_mul_overflow(h->count, h->dim[i], &h->count) ||
            h->count > INT64_MAX / 16)
            return hga_fail(HGA_EFORMAT, "%s:%s: size %zu of its shape is not a size", x->path, name, i);
    }
    return HGA_OK;
}

/* Reads a tensor's type, shape and offset from its entry in the header. */
static hga_status read_entry(const hga_arrays *x, const json_t *entry, int64_t first, array_entry *t)
{
    const char *name = t->is.name, *type = json_string_value(json_object_get(entry, "dtype"));
    const json_t *offsets = json_object_get(entry, "data_offsets"), *from = json_array_get(offsets, 0),
                 *to = json_array_get(offsets, 1);
    int64_t begin = json_integer_value(from), end = json_integer_value(to);
    t->is.type = type ? type : "-";
    read_type(t->is.type, &t->is.has);
    hga_status st = read_shape(x, name, json_object_get(entry, "shape"), &t->is.has);
    if (st) return st;
    if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to) || begin < 0 || end < begin)
        return hga_fail(HGA_EFORMAT, "%s:%s: its data_offsets are none", x->path, name);
    if (__builtin_add_overflow(first, begin, &t->at) || __builtin_add_overflow(first, end, &t->end))
        return hga_fail(HGA_EFORMAT, "%s:%s: its data_offsets are beyond any file", x->path, name);
    return HGA_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const array_entry *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Checks that tensors are contiguous up to the end of the file, as the format demands. */
static hga_status check_offsets(const hga_arrays *x, int64_t first, int64_t bytes)
{
    int64_t end = first;
    for (int64_t i = 0; i < x->n; end = x->array[i++].end) {
        const array_entry *t = &x->array[i];
        if (t->at < end)
            return hga_fail(HGA_EFORMAT, "%s: the tensors %s and %s overlap at byte %" PRId64, x->path, t[-1].is.name,
                            t->is.name, t->at - first);
        if (t->at > end)
            return hga_fail(HGA_EFORMAT, "%s: bytes %" PRId64 " to %" PRId64 " before %s are no tensor's", x->path,
                            end - first, t->at - first, t->is.name);
    }
    if (end == bytes) return HGA_OK;
    return hga_fail(HGA_EFORMAT, "%s: its tensors end at byte %" PRId64 " of %" PRId64, x->path, end - first,
                    bytes - first);
}

/* Lists the tensors in the order of their bytes. */
hga_status safetensors_open(hga_arrays *x, int64_t bytes)
{
    const char *name;
    json_t *entry;
    int64_t first = 0;
    hga_status st = HGA_OK;
    rewind(x->stream);
    HGA_TRY(read_header(x, bytes, &first));
    HGA_TRY(hga_new_zero(x->by, (int64_t)json_object_size(x->header), sizeof *x->array, &x->array));
    x->capacity = (int64_t)json_object_size(x->header);
    json_object_foreach(x->header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0) continue;
        x->array[x->n].is.name = name;
        HGA_TRY(read_entry(x, entry, first, &x->array[x->n++]));
    }
    if (x->n) qsort(x->array, (size_t)x->n, sizeof *x->array, compare_offsets);
    st = check_offsets(x, first, bytes);
done:
    return st;
}
