/* npz.c: the arrays of a .npz archive, packed or not (the only file that includes libzip). */
#include "npz.h"
#include "written.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#define BROKEN "ends inside an array, or its checksum is wrong"

struct npz {
    hga_allocator allocator;
    const hga_allocator *by; /* NULL: the C library's */
    char *path;
    zip_t *zip;
    int64_t n;
    char **name; /* [n], without ".npy" */
};

/* libzip reports a failed allocation by its own code, by another code, or not at all, but malloc sets errno. */
static hga_status zip_wrong(const npz *z, int error, const char *what, const char *why)
{
    int starved = errno == ENOMEM || error == ZIP_ER_MEMORY || error == ZIP_ER_OK;
    if (starved) return hga_fail(HGA_ENOMEM, "%s: no memory to unpack it", z->path);
    return hga_fail(HGA_EFORMAT, "%s: %s: %s", z->path, what, why);
}

static hga_status archive_wrong(npz *z)
{
    return zip_wrong(z, zip_error_code_zip(zip_get_error(z->zip)), "not a .npz file", zip_strerror(z->zip));
}

static hga_status copy_text(const npz *z, const char *text, size_t n, char **out)
{
    hga_status st = hga_new_zero(z->by, (int64_t)n + 1, 1, out);
    if (!st) memcpy(*out, text, n);
    return st;
}

static void delete_text(const npz *z, char *text)
{
    if (text) hga_delete(z->by, text, (int64_t)strlen(text) + 1, 1);
}

static hga_status open_zip(npz *z, const void *bytes, int64_t n)
{
    zip_error_t error;
    hga_status st = HGA_OK;
    zip_error_init(&error);
    errno = 0;
    zip_source_t *source = bytes ? zip_source_buffer_create(bytes, (zip_uint64_t)n, 0, &error)
                                 : zip_source_file_create(z->path, 0, -1, &error);
    z->zip = source ? zip_open_from_source(source, ZIP_RDONLY, &error) : NULL;
    if (!z->zip) st = zip_wrong(z, zip_error_code_zip(&error), "not a .npz file", zip_error_strerror(&error));
    if (source && !z->zip) zip_source_free(source);
    zip_error_fini(&error);
    return st;
}

/* "a.npy" is the array a, and so is "a". */
static hga_status read_name(npz *z, int64_t i)
{
    errno = 0;
    const char *member = zip_get_name(z->zip, (zip_uint64_t)i, 0);
    if (!member) return archive_wrong(z);
    size_t length = strlen(member);
    if (length >= 4 && strcmp(member + length - 4, ".npy") == 0) length -= 4;
    return copy_text(z, member, length, &z->name[i]);
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Reads the names; refuses two arrays of one name. */
static hga_status read_names(npz *z)
{
    hga_status st = HGA_OK;
    char **sorted = NULL;
    z->n = zip_get_num_entries(z->zip, 0);
    HGA_TRY(hga_new_zero(z->by, z->n, sizeof *z->name, &z->name));
    HGA_TRY(hga_new(z->by, z->n, sizeof *sorted, &sorted));
    for (int64_t i = 0; i < z->n; i++) HGA_TRY(read_name(z, i));
    if (z->n)
        memcpy(sorted, z->name, (size_t)z->n * sizeof *sorted),
            qsort(sorted, (size_t)z->n, sizeof *sorted, compare_names);
    for (int64_t i = 1; i < z->n; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            HGA_TRY(hga_fail(HGA_EFORMAT, "%s: two arrays are named '%s'", z->path, sorted[i]));
done:
    hga_delete(z->by, sorted, z->n, sizeof *sorted);
    return st;
}

hga_status npz_open(const hga_allocator *a, const char *path, const void *bytes, int64_t n, npz **out)
{
    npz *z;
    hga_status st = HGA_OK;
    *out = NULL;
    HGA_TRY(hga_new_zero(a, 1, sizeof *z, &z));
    if (a) z->allocator = *a, z->by = &z->allocator;
    *out = z;
    HGA_TRY(copy_text(z, path, strlen(path), &z->path));
    HGA_TRY(open_zip(z, bytes, n));
    HGA_TRY(read_names(z));
done:
    if (st) npz_close(*out), *out = NULL;
    return st;
}

void npz_close(npz *z)
{
    if (!z) return;
    hga_allocator a = z->allocator;
    for (int64_t i = 0; z->name && i < z->n; i++) delete_text(z, z->name[i]);
    hga_delete(z->by, z->name, z->n, sizeof *z->name);
    delete_text(z, z->path);
    if (z->zip) zip_discard(z->zip);
    hga_delete(z->by ? &a : NULL, z, 1, sizeof *z);
}

int64_t npz_count(const npz *z) { return z->n; }

const char *npz_name(const npz *z, int64_t i) { return i >= 0 && i < z->n ? z->name[i] : NULL; }

/* A packed array that is being read. */
typedef struct unpacking {
    npz *z;
    const char *name;
    zip_file_t *file;
    uint8_t *bytes;
    int64_t n, capacity;
} unpacking;

/* Unpacks `most` bytes, or to the end, where libzip compares the checksum. The buffer grows with the data, so that a
   wrong size in the archive costs no memory. */
static hga_status unpack(unpacking *u, int64_t most)
{
    hga_status st = HGA_OK;
    zip_int64_t got = 1;
    for (; got > 0 && u->n < most; u->n += got) {
        HGA_TRY(hga_grow(u->z->by, &u->bytes, &u->capacity, u->n, u->n + 65536, 1));
        const int64_t capacity = u->capacity < most ? u->capacity : most;
        errno = 0;
        got = zip_fread(u->file, u->bytes + u->n, (zip_uint64_t)(capacity - u->n));
        if (got < 0) return zip_wrong(u->z, zip_error_code_zip(zip_file_get_error(u->file)), u->name, BROKEN);
    }
done:
    return st;
}

/* Unpacks exactly the number of bytes that the archive states; one more is requested to detect excess. */
static hga_status unpack_known(unpacking *u, int64_t most, int64_t size)
{
    const int64_t expected = size < most ? size : most;
    hga_status st = unpack(u, size < most ? size + 1 : most);
    if (st || u->n == expected) return st;
    return hga_fail(HGA_EFORMAT, "%s: %s: " BROKEN ": %s%lld of %lld bytes are there", u->z->path, u->name,
                    u->n > size ? "over " : "", (long long)(u->n > size ? size : u->n), (long long)size);
}

int64_t npz_bytes(const npz *z, int64_t i)
{
    zip_stat_t about;
    const int known = zip_stat_index(z->zip, (zip_uint64_t)i, 0, &about) == 0;
    memory_is_written(&about, sizeof about);
    return known && about.valid & ZIP_STAT_SIZE && about.size < INT64_MAX / 2 ? (int64_t)about.size : -1;
}

hga_status npz_unpack(npz *z, int64_t i, int64_t most, uint8_t **bytes, int64_t *n, int64_t *capacity)
{
    unpacking u = {.z = z, .name = npz_name(z, i)};
    *bytes = NULL, *n = *capacity = 0;
    if (!u.name) return hga_fail(HGA_EINVAL, "%s: array %lld of %lld", z->path, (long long)i, (long long)z->n);
    const int64_t size = npz_bytes(z, i);
    if (size < 0) return hga_fail(HGA_EFORMAT, "%s: %s: the archive does not say how long it is", z->path, u.name);
    errno = 0;
    u.file = zip_fopen_index(z->zip, (zip_uint64_t)i, 0);
    if (!u.file) return zip_wrong(z, zip_error_code_zip(zip_get_error(z->zip)), u.name, zip_strerror(z->zip));
    hga_status st = unpack_known(&u, most, size);
    zip_fclose(u.file);
    if (st)
        hga_delete(z->by, u.bytes, u.capacity, 1);
    else
        *bytes = u.bytes, *n = u.n, *capacity = u.capacity;
    return st;
}
