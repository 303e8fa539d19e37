/* archive.c: members by name, and .safetensors. */
#include "archive.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "complain.h"

enum { MOST_HEADER = 100 << 20 };

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

static int read_header(const char *path, FILE *file, json_t **header, int64_t *first)
{
    unsigned char size[8];
    uint64_t n = 0;
    char *text = NULL;
    json_error_t error;
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
    *header = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(*header)) TRY(complain(CLI_DATA, "%s: its header is not JSON: %s", path, error.text));
done:
    free(text);
    if (status) json_decref(*header), *header = NULL;
    return status;
}

/* one entry of the header */
static int understand(const char *path, const char *name, const json_t *entry, int64_t first, safetensor *out)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    const json_t *shape = json_object_get(entry, "shape"), *offsets = json_object_get(entry, "data_offsets");
    int64_t from = json_integer_value(json_array_get(offsets, 0)), to = json_integer_value(json_array_get(offsets, 1));
    size_t i;
    json_t *size;
    if (!type || !element_of_safetensors(type, &out->type))
        return complain(CLI_DATA, "%s:%s: has the type %s, which is none of F16 BF16 F32 F64 I32 I64", path, name,
                        type ? type : "-");
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
    if (count <= INT64_MAX / 16 && count * element_bytes(out->type) == out->bytes) return CLI_GOOD;
    return complain(CLI_DATA, "%s:%s: has %" PRId64 " bytes where its shape needs %" PRId64 " x %d", path, name,
                    out->bytes, count, element_bytes(out->type));
}

int safetensors_find(const char *path, FILE *file, const char *name, safetensor *out)
{
    json_t *header = NULL;
    int64_t first = 0;
    int status = CLI_GOOD;
    TRY(read_header(path, file, &header, &first));
    if (!name) TRY(complain(CLI_DATA, "%s: say which tensor by %s:NAME; `hga tensor` lists them", path, path));
    const json_t *entry = json_object_get(header, name);
    if (!entry) TRY(complain(CLI_DATA, "%s: has no tensor '%s'; `hga tensor` lists them", path, name));
    TRY(understand(path, name, entry, first, out));
    if (fseeko(file, (off_t)out->offset, SEEK_SET) != 0) TRY(complain(CLI_DATA, "%s: %s", path, strerror(errno)));
done:
    json_decref(header);
    return status;
}

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
        if (strcmp(name, "__metadata__") == 0) continue;
        TRY(understand(path, name, entry, first, &t));
        TRY(visit(name, &t, context));
    }
done:
    json_decref(header);
    return status;
}
