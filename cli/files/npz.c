/* npz.c: members of .npz files (the only file of the tool that includes libzip). */
#include "archive.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "complain.h"

typedef struct npz {
    const char *path;
    zip_t *zip;
    zip_int64_t n;
    char **name, **sorted; /* [n] without ".npy"; the same in their order */
} npz;

/* libzip tells of a failed allocation by its number, by another's, or by none at all, but malloc tells by errno. */
static int zip_complain(const char *path, int error, const char *what)
{
    if (errno == ENOMEM || error == ZIP_ER_MEMORY || error == ZIP_ER_OK)
        return complain(CLI_OUTSIDE, "%s: out of memory: libzip", path);
    return complain(CLI_DATA, "%s: %s", path, what);
}

/* Opens the archive; lack of memory is told apart from a damaged file. */
static int open_zip(npz *z)
{
    int code = ZIP_ER_OK;
    zip_error_t error;
    char what[256];
    errno = 0;
    z->zip = zip_open(z->path, ZIP_RDONLY, &code);
    if (z->zip) return CLI_GOOD;
    int no_memory = errno == ENOMEM;
    zip_error_init_with_code(&error, code);
    snprintf(what, sizeof what, "is no .npz file: %s", zip_error_strerror(&error));
    zip_error_fini(&error);
    return zip_complain(z->path, no_memory ? ZIP_ER_MEMORY : code, what);
}

/* "a.npy" is the array a, and so is "a". */
static int read_name(const npz *z, zip_int64_t i)
{
    errno = 0;
    const char *member = zip_get_name(z->zip, (zip_uint64_t)i, 0);
    if (!member) return zip_complain(z->path, zip_error_code_zip(zip_get_error(z->zip)), zip_strerror(z->zip));
    size_t length = strlen(member);
    if (length >= 4 && strcmp(member + length - 4, ".npy") == 0) length -= 4;
    int status = take((int64_t)length + 1, 1, &z->name[i]);
    if (status == CLI_GOOD) memcpy(z->name[i], member, length);
    return status;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Of two arrays of one name nobody knows which is meant. */
static int read_names(npz *z)
{
    int status = CLI_GOOD;
    z->n = zip_get_num_entries(z->zip, 0);
    TRY(take(z->n, sizeof *z->name, &z->name));
    TRY(take(z->n, sizeof *z->sorted, &z->sorted));
    for (zip_int64_t i = 0; i < z->n; i++) TRY(read_name(z, i));
    if (z->n == 0) goto done;
    memcpy(z->sorted, z->name, (size_t)z->n * sizeof *z->name);
    qsort(z->sorted, (size_t)z->n, sizeof *z->sorted, compare_names);
    for (zip_int64_t i = 1; i < z->n; i++)
        if (strcmp(z->sorted[i - 1], z->sorted[i]) == 0)
            TRY(complain(CLI_DATA, "%s: two arrays are named '%s'", z->path, z->sorted[i]));
done:
    return status;
}

static int npz_start(npz *z)
{
    int status = open_zip(z);
    return status ? status : read_names(z);
}

static void npz_end(npz *z)
{
    for (zip_int64_t i = 0; z->name && i < z->n; i++) free(z->name[i]);
    free(z->name), free(z->sorted);
    if (z->zip) zip_discard(z->zip);
}

static int find_member(const npz *z, const char *name, zip_int64_t *index)
{
    *index = 0;
    if (!name && z->n == 1) return CLI_GOOD;
    if (!name)
        return complain(CLI_DATA, "%s: has %lld arrays; say which by %s:NAME", z->path, (long long)z->n, z->path);
    for (; *index < z->n; ++*index)
        if (strcmp(z->name[*index], name) == 0) return CLI_GOOD;
    return complain(CLI_DATA, "%s: has no array '%s'; `hga tensor` lists them", z->path, name);
}

/* All bytes of a member, whose checksum libzip then compares, or the first `most`. Room grows with what arrives, so
   that an archive that lies about the size costs nothing. */
static int unpack(const npz *z, zip_file_t *file, int64_t most, char **memory, size_t *bytes)
{
    size_t room = 0;
    for (;;) {
        if (*bytes == room) {
            room = room ? 2 * room : 1 << 16;
            char *more = realloc(*memory, room);
            if (!more) return complain(CLI_OUTSIDE, "%s: out of memory: %zu bytes", z->path, room);
            *memory = more;
        }
        errno = 0;
        zip_int64_t got = zip_fread(file, *memory + *bytes, room - *bytes);
        if (got < 0)
            return zip_complain(z->path, zip_error_code_zip(zip_file_get_error(file)),
                                "ends inside an array, or its checksum is wrong");
        *bytes += (size_t)got;
        if (got == 0 || (int64_t)*bytes >= most) return CLI_GOOD;
    }
}

/* Unpacks at most `most` bytes of a member; a member that ends early or has a wrong checksum is an error. */
static int read_member(const npz *z, zip_int64_t index, int64_t most, char **memory, size_t *bytes)
{
    zip_stat_t about;
    zip_file_t *file = NULL;
    int status = CLI_GOOD;
    *memory = NULL, *bytes = 0;
    errno = 0;
    if (zip_stat_index(z->zip, (zip_uint64_t)index, 0, &about) == 0 && about.valid & ZIP_STAT_SIZE)
        file = zip_fopen_index(z->zip, (zip_uint64_t)index, 0);
    if (!file) TRY(zip_complain(z->path, zip_error_code_zip(zip_get_error(z->zip)), zip_strerror(z->zip)));
    TRY(unpack(z, file, most, memory, bytes));
    if (*bytes == 0) TRY(complain(CLI_DATA, "%s: an array has no bytes", z->path));
    if ((int64_t)*bytes < most && *bytes != about.size)
        TRY(complain(CLI_DATA, "%s: ends inside an array, or its checksum is wrong", z->path));
done:
    if (file) zip_fclose(file);
    return status;
}

static int open_member(const npz *z, zip_int64_t index, int64_t most, FILE **stream, char **memory)
{
    size_t bytes = 0;
    int status = read_member(z, index, most, memory, &bytes);
    if (status) return status;
    *stream = fmemopen(*memory, bytes, "rb");
    return *stream ? CLI_GOOD : complain(CLI_OUTSIDE, "%s: %s", z->path, strerror(errno));
}

int npz_open(const char *path, const char *name, FILE **stream, char **memory)
{
    npz z = {.path = path};
    zip_int64_t index;
    int status = CLI_GOOD;
    *stream = NULL, *memory = NULL;
    TRY(npz_start(&z));
    TRY(find_member(&z, name, &index));
    TRY(open_member(&z, index, INT64_MAX, stream, memory));
done:
    npz_end(&z);
    if (status) free(*memory), *memory = NULL;
    return status;
}

int npz_each(const char *path, int64_t most, int (*visit)(const char *name, FILE *stream, void *context), void *context)
{
    npz z = {.path = path};
    int status = CLI_GOOD;
    FILE *stream = NULL;
    char *memory = NULL;
    TRY(npz_start(&z));
    for (zip_int64_t i = 0; i < z.n; i++) {
        TRY(open_member(&z, i, most, &stream, &memory));
        TRY(visit(z.name[i], stream, context));
        fclose(stream), free(memory);
        stream = NULL, memory = NULL;
    }
done:
    if (stream) fclose(stream);
    free(memory);
    npz_end(&z);
    return status;
}
