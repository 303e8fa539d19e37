/* archive.c: members by name, and .safetensors. */
#include "archive.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "complain.h"
#include "json_file.h"

enum { MOST_HEADER = 100 << 20 };

/* FILE:NAME is a tensor of FILE only where no file has the whole name, and FILE is there. */
int tensor_name_split(const char *path, tensor_name *out)
{
    *out = (tensor_name){0};
    int status = take((int64_t)strlen(path) + 1, 1, &out->file);
    if (status) return status;
    memcpy(out->file, path, strlen(path));
    char *colon = strrchr(out->file, ':');
    if (!colon || strcmp(path, "-") == 0 || access(path, F_OK) == 0) return CLI_GOOD;
    *colon = 0;
    if (access(out->file, F_OK) == 0)
        out->name = colon + 1;
    else
        *colon = ':';
    return CLI_GOOD;
}

/* ---- .safetensors: eight bytes with the header's length, the header as JSON, the tensors ---- */

/* The JSON header of a .safetensors file, and where the bytes of its tensors begin. */
static int read_text(const char *path, FILE *file, json_t **header, int64_t *first)
{
    unsigned char size[8];
    uint64_t n = 0;
    char *text = NULL;
    int status = CLI_GOOD;
    *header = NULL;
    rewind(file);
    if (fread(size, 1, 8, file) != 8) return complain(CLI_DATA, "%s: is no .npy, .npz or .safetensors file", path);
    for (int i = 0; i < 8; i++) n |= (uint64_t)size[i] << 8 * i;
    if (n < 2 || n > MOST_HEADER) return complain(CLI_DATA, "%s: is no .npy, .npz or .safetensors file", path);
    *first = 8 + (int64_t)n;
    TRY(take((int64_t)n, 1, &text));
    if (fread(text, 1, n, file) != n)
        TRY(complain(CLI_DATA, "%s: is no .npy, .npz or .safetensors file: its header would have %" PRIu64 " bytes",
                     path, n));
    TRY(json_file_parse(path, text, (size_t)n, JSON_REJECT_DUPLICATES, header));
    if (!json_is_object(*header)) TRY(complain(CLI_DATA, "%s: its header is no JSON object", path));
done:
    free(text);
    if (status) json_decref(*header), *header = NULL;
    return status;
}

/* ---- where the tensors lie: in a row, without a hole, up to the end of the file, as the format demands ---- */

typedef struct extent {
    const char *name;
    int64_t from, to;
} extent;

static int compare_extents(const void *a, const void *b)
{
    const extent *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static int is_metadata(const char *name) { return strcmp(name, "__metadata__") == 0; }

/* The bytes that each tensor has by its data_offsets. */
static int read_extents(const char *path, const json_t *header, extent *out, size_t *n)
{
    const char *name;
    json_t *entry;
    *n = 0;
    json_object_foreach((json_t *)(uintptr_t)header, name, entry)
    {
        const json_t *offsets = json_object_get(entry, "data_offsets"), *from = json_array_get(offsets, 0),
                     *to = json_array_get(offsets, 1);
        if (is_metadata(name)) continue;
        extent e = {name, json_integer_value(from), json_integer_value(to)};
        if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to) || e.from < 0 ||
            e.to < e.from)
            return complain(CLI_DATA, "%s:%s: its data_offsets are none", path, name);
        out[(*n)++] = e;
    }
    return CLI_GOOD;
}

/* Tensors in order of their bytes must follow each other without gaps, up to the end of the file. */
static int check_extents(const char *path, const extent *e, size_t n, int64_t bytes)
{
    int64_t end = 0;
    for (size_t i = 0; i < n; end = e[i++].to) {
        if (e[i].from < end)
            return complain(CLI_DATA, "%s: the tensors %s and %s overlap at byte %" PRId64, path, e[i - 1].name,
                            e[i].name, e[i].from);
        if (e[i].from > end)
            return complain(CLI_DATA, "%s: bytes %" PRId64 " to %" PRId64 " before %s are no tensor's", path, end,
                            e[i].from, e[i].name);
    }
    if (end == bytes) return CLI_GOOD;
    return complain(CLI_DATA, "%s: its tensors end at byte %" PRId64 " of %" PRId64, path, end, bytes);
}

/* Do the tensors of the header fill the rest of the file exactly? */
static int check_layout(const char *path, FILE *file, const json_t *header, int64_t first)
{
    struct stat s;
    size_t n = 0;
    extent *extents = NULL;
    int status = CLI_GOOD;
    if (fstat(fileno(file), &s) != 0) return complain(CLI_DATA, "%s: %s", path, strerror(errno));
    TRY(take((int64_t)json_object_size(header), sizeof *extents, &extents));
    TRY(read_extents(path, header, extents, &n));
    if (n > 0) qsort(extents, n, sizeof *extents, compare_extents);
    TRY(check_extents(path, extents, n, (int64_t)s.st_size - first));
done:
    free(extents);
    return status;
}

/* ---- one entry of the header ---- */

/* A tensor's type, sizes and place by its entry in the header; the type may be one that is not read. */
static int understand(const char *path, const char *name, const json_t *entry, int64_t first, safetensor *out)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    const json_t *shape = json_object_get(entry, "shape"), *offsets = json_object_get(entry, "data_offsets");
    int64_t from = json_integer_value(json_array_get(offsets, 0)), to = json_integer_value(json_array_get(offsets, 1));
    size_t i;
    json_t *size;
    out->type_name = type ? type : "-";
    out->is_read = type && element_of_safetensors(type, &out->type);
    if (!json_is_array(shape) || json_array_size(shape) > ARCHIVE_MAX_DIMS || json_array_size(offsets) != 2 ||
        from < 0 || to < from)
        return complain(CLI_DATA, "%s:%s: its shape or its data_offsets are none", path, name);
    int64_t count = 1;
    out->n_dims = (int)json_array_size(shape);
    json_array_foreach(shape, i, size)
    {
        out->dim[i] = json_integer_value(size);
        if (!json_is_integer(size) || out->dim[i] < 0 || __builtin_mul_overflow(count, out->dim[i], &count))
            return complain(CLI_DATA, "%s:%s: size %zu of its shape is none", path, name, i);
    }
    out->offset = first + from, out->bytes = to - from;
    if (!out->is_read) return CLI_GOOD;
    if (count <= INT64_MAX / 16 && count * element_bytes(out->type) == out->bytes) return CLI_GOOD;
    return complain(CLI_DATA, "%s:%s: has %" PRId64 " bytes where its shape needs %" PRId64 " x %d", path, name,
                    out->bytes, count, element_bytes(out->type));
}

static int read_header(const char *path, FILE *file, json_t **header, int64_t *first)
{
    int status = read_text(path, file, header, first);
    if (status == CLI_GOOD) status = check_layout(path, file, *header, *first);
    if (status) json_decref(*header), *header = NULL;
    return status;
}

/* Finds a tensor by name and leaves the file where its elements begin. */
int safetensors_find(const char *path, FILE *file, const char *name, safetensor *out)
{
    json_t *header = NULL;
    int64_t first = 0;
    int status = CLI_GOOD;
    TRY(read_header(path, file, &header, &first));
    if (!name) TRY(complain(CLI_DATA, "%s: say which tensor by %s:NAME; `hga tensor` lists them", path, path));
    const json_t *entry = is_metadata(name) ? NULL : json_object_get(header, name);
    if (!entry) TRY(complain(CLI_DATA, "%s: has no tensor '%s'; `hga tensor` lists them", path, name));
    TRY(understand(path, name, entry, first, out));
    if (!out->is_read)
        TRY(complain(CLI_DATA, "%s:%s: has the type %s, which is none of F16 BF16 F32 F64 I32 I64", path, name,
                     out->type_name));
    out->type_name = NULL;
    if (fseeko(file, (off_t)out->offset, SEEK_SET) != 0) TRY(complain(CLI_DATA, "%s: %s", path, strerror(errno)));
done:
    json_decref(header);
    return status;
}

/* Visits all tensors of the header, those of types that are not read as well. */
int safetensors_each(const char *path, FILE *file, int (*visit)(const char *name, const safetensor *t, void *context),
                     void *context)
{
    json_t *header = NULL, *entry;
    int64_t first = 0;
    const char *name;
    int status = CLI_GOOD;
    TRY(read_header(path, file, &header, &first));
    json_object_foreach(header, name, entry)
    {
        safetensor t;
        if (is_metadata(name)) continue;
        TRY(understand(path, name, entry, first, &t));
        TRY(visit(name, &t, context));
    }
done:
    json_decref(header);
    return status;
}
