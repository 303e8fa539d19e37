/* archive.c: which kind of file it is, and what its arrays are. */
#include "archive.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "complain.h"
#include "npy.h"
#include "whole_file.h"

enum { MOST_HEADER = 100 << 20 };

/* ---- .safetensors: eight bytes with the header's length, the header as JSON, the tensors ---- */

/* The JSON header of a .safetensors file, and where the bytes of its tensors begin. */
static int read_header(archive *a, int64_t *first)
{
    unsigned char size[8];
    uint64_t n = 0;
    char *text = NULL;
    int status = CLI_GOOD;
    if (fread(size, 1, 8, a->stream) == 8)
        for (int i = 0; i < 8; i++) n |= (uint64_t)size[i] << 8 * i;
    if (n >= 2 && n <= MOST_HEADER) TRY(take((int64_t)n, 1, &text));
    if (!text || fread(text, 1, n, a->stream) != n)
        TRY(complain(CLI_DATA, "%s: is no .npy, .npz or .safetensors file: its header would have %" PRIu64 " bytes",
                     a->path, n));
    *first = 8 + (int64_t)n;
    TRY(json_file_parse(a->path, text, (size_t)n, JSON_REJECT_DUPLICATES, &a->header));
    if (!json_is_object(a->header)) TRY(complain(CLI_DATA, "%s: its header is no JSON object", a->path));
done:
    free(text);
    return status;
}

/* A tensor's type, sizes and place by its entry in the header. */
static int understand(const archive *a, const json_t *entry, int64_t first, archived *t)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    const json_t *shape = json_object_get(entry, "shape"), *offsets = json_object_get(entry, "data_offsets"),
                 *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
    size_t i;
    json_t *size;
    t->type = type ? type : "-";
    t->is_read = type && element_of_safetensors(type, &t->has);
    if (!json_is_array(shape) || json_array_size(shape) > HGA_NPY_DIMS)
        return complain(CLI_DATA, "%s:%s: its shape is none", a->path, t->name);
    t->has.n_dims = (int)json_array_size(shape), t->has.count = 1;
    json_array_foreach(shape, i, size)
    {
        t->has.dim[i] = json_integer_value(size);
        if (!json_is_integer(size) || t->has.dim[i] < 0 ||
            __builtin_mul_overflow(t->has.count, t->has.dim[i], &t->has.count) || t->has.count > INT64_MAX / 16)
            return complain(CLI_DATA, "%s:%s: size %zu of its shape is none", a->path, t->name, i);
    }
    int64_t begin = json_integer_value(from), end = json_integer_value(to);
    if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to) || begin < 0 || end < begin)
        return complain(CLI_DATA, "%s:%s: its data_offsets are none", a->path, t->name);
    if (__builtin_add_overflow(first, begin, &t->at) || __builtin_add_overflow(first, end, &t->end))
        return complain(CLI_DATA, "%s:%s: its data_offsets are beyond any file", a->path, t->name);
    return CLI_GOOD;
}

static int compare_places(const void *a, const void *b)
{
    const archived *x = a, *y = b;
    if (x->at != y->at) return x->at < y->at ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* Tensors lie in a row, without a hole, up to the end of the file, as the format demands. */
static int check_places(const archive *a, int64_t first, int64_t bytes)
{
    int64_t end = first;
    for (int64_t i = 0; i < a->n; end = a->array[i++].end) {
        const archived *t = &a->array[i];
        if (t->at < end)
            return complain(CLI_DATA, "%s: the tensors %s and %s overlap at byte %" PRId64, a->path, t[-1].name,
                            t->name, t->at - first);
        if (t->at > end)
            return complain(CLI_DATA, "%s: bytes %" PRId64 " to %" PRId64 " before %s are no tensor's", a->path,
                            end - first, t->at - first, t->name);
    }
    if (end == bytes) return CLI_GOOD;
    return complain(CLI_DATA, "%s: its tensors end at byte %" PRId64 " of %" PRId64, a->path, end - first,
                    bytes - first);
}

static int64_t stream_bytes(FILE *stream) { return fseeko(stream, 0, SEEK_END) ? -1 : (int64_t)ftello(stream); }

/* The tensors in the order of their bytes. */
static int open_safetensors(archive *a)
{
    const char *name;
    json_t *entry;
    int64_t first = 0;
    int status = CLI_GOOD;
    TRY(read_header(a, &first));
    TRY(take((int64_t)json_object_size(a->header), sizeof *a->array, &a->array));
    json_object_foreach(a->header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0) continue;
        a->array[a->n].name = name;
        TRY(understand(a, entry, first, &a->array[a->n++]));
    }
    if (a->n) qsort(a->array, (size_t)a->n, sizeof *a->array, compare_places);
    TRY(check_places(a, first, stream_bytes(a->stream)));
done:
    return status;
}

/* ---- .npy and .npz ---- */

static int open_npz(archive *a)
{
    int status = CLI_GOOD;
    TRY(complain_of(hga_npz_open(NULL, a->path, a->file, (int64_t)a->bytes, &a->npz), CLI_DATA, a->path));
    a->n = hga_npz_count(a->npz);
    TRY(take(a->n, sizeof *a->array, &a->array));
    for (int64_t i = 0; i < a->n; i++) a->array[i].name = hga_npz_name(a->npz, i);
done:
    return status;
}

static int open_npy(archive *a)
{
    a->n = 1;
    int status = take(1, sizeof *a->array, &a->array);
    if (status == CLI_GOOD) a->array->name = "";
    return status;
}

/* A stream of bytes in memory. */
static int open_memory(const archive *a, char *bytes, size_t n, FILE **stream)
{
    *stream = fmemopen(bytes, n, "rb");
    return *stream ? CLI_GOOD : complain(CLI_OUTSIDE, "%s: %s", a->path, strerror(errno));
}

/* The member becomes the stream, in place of the one before. */
static int unpack(archive *a, int64_t i)
{
    int64_t bytes = 0, room;
    uint8_t *unpacked;
    int status = CLI_GOOD;
    fclose(a->stream), free(a->unpacked);
    a->stream = NULL, a->unpacked = NULL;
    TRY(complain_of(hga_npz_unpack(a->npz, i, INT64_MAX, &unpacked, &bytes, &room), CLI_DATA, a->path));
    a->unpacked = (char *)unpacked;
    if (bytes == 0) TRY(complain(CLI_DATA, "%s: %s: has no bytes", a->path, a->array[i].name));
    TRY(open_memory(a, a->unpacked, (size_t)bytes, &a->stream));
done:
    return status;
}

int archive_look(archive *a, int64_t i)
{
    archived *t = &a->array[i];
    int status = CLI_GOOD;
    if (a->header) return CLI_GOOD;
    if (a->npz) TRY(unpack(a, i));
    rewind(a->stream);
    TRY(complain_of(hga_npy_read_header(a->path, a->stream, &t->has), CLI_DATA, a->path));
    t->is_read = 1, t->at = ftello(a->stream), t->end = stream_bytes(a->stream);
done:
    return status;
}

/* ---- any of them ---- */

/* What is no file, a pipe, is read to its end. */
static int open_stream(const char *path, archive *a)
{
    struct stat s;
    int is_input = strcmp(path, "-") == 0, found = !is_input && stat(path, &s) == 0;
    if (found && S_ISDIR(s.st_mode)) return complain(CLI_DATA, "%s: is a folder", path);
    if (is_input || (found && !S_ISREG(s.st_mode))) {
        int status = whole_file_read(path, &a->file, &a->bytes);
        return status ? status : open_memory(a, a->file, a->bytes, &a->stream);
    }
    a->stream = fopen(path, "rb");
    return a->stream ? CLI_GOOD : complain(CLI_DATA, "%s: cannot be read: %s", path, strerror(errno));
}

int archive_open(const char *path, archive *a)
{
    unsigned char lead[10] = {0};
    *a = (archive){.path = strcmp(path, "-") == 0 ? "standard input" : path};
    int status = open_stream(path, a);
    if (status) return status;
    size_t n = fread(lead, 1, sizeof lead, a->stream);
    rewind(a->stream);
    if (n >= 4 && memcmp(lead, "PK\3\4", 4) == 0) return open_npz(a);
    const int is_numpy = n >= 6 && memcmp(lead, "\x93NUMPY", 6) == 0;
    return n == sizeof lead && lead[8] == '{' && !is_numpy ? open_safetensors(a) : open_npy(a);
}

void archive_close(archive *a)
{
    if (a->stream) fclose(a->stream);
    free(a->file), free(a->unpacked), free(a->array);
    hga_npz_close(a->npz);
    json_decref(a->header);
    *a = (archive){0};
}
