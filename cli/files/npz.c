/* npz.c: members of .npz files (the only file of the tool that includes libzip). */
#include "archive.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "complain.h"

static int open_zip(const char *path, zip_t **zip)
{
    int code;
    zip_error_t error;
    *zip = zip_open(path, ZIP_RDONLY, &code);
    if (*zip) return CLI_GOOD;
    zip_error_init_with_code(&error, code);
    int status = complain(CLI_DATA, "%s: is no .npz file: %s", path, zip_error_strerror(&error));
    zip_error_fini(&error);
    return status;
}

/* "NAME.npy" is the member NAME */
static int find_member(const char *path, zip_t *zip, const char *name, zip_int64_t *index)
{
    char member[1024];
    zip_int64_t n = zip_get_num_entries(zip, 0);
    *index = 0;
    if (!name && n == 1) return CLI_GOOD;
    if (!name) return complain(CLI_DATA, "%s: has %lld arrays; say which by %s:NAME", path, (long long)n, path);
    snprintf(member, sizeof member, "%s.npy", name);
    *index = zip_name_locate(zip, member, 0);
    if (*index < 0) *index = zip_name_locate(zip, name, 0);
    return *index >= 0 ? CLI_GOOD : complain(CLI_DATA, "%s: has no array '%s'; `hga tensor` lists them", path, name);
}

static int read_member(const char *path, zip_t *zip, zip_int64_t index, char **memory, size_t *bytes)
{
    zip_stat_t about;
    zip_file_t *file = NULL;
    int status = CLI_GOOD;
    if (zip_stat_index(zip, (zip_uint64_t)index, 0, &about) != 0 || !(about.valid & ZIP_STAT_SIZE))
        return complain(CLI_DATA, "%s: %s", path, zip_strerror(zip));
    if (about.size == 0 || about.size > INT64_MAX / 2) return complain(CLI_DATA, "%s: an array has no bytes", path);
    *bytes = (size_t)about.size;
    TRY(take((int64_t)about.size, 1, memory));
    file = zip_fopen_index(zip, (zip_uint64_t)index, 0);
    if (!file || zip_fread(file, *memory, about.size) != (zip_int64_t)about.size)
        TRY(complain(CLI_DATA, "%s: %s", path,
                     file ? "ends inside an array, or its checksum is wrong" : zip_strerror(zip)));
done:
    if (file) zip_fclose(file);
    return status;
}

int npz_open(const char *path, const char *name, FILE **stream, char **memory)
{
    zip_t *zip = NULL;
    zip_int64_t index;
    size_t bytes = 0;
    int status = CLI_GOOD;
    *stream = NULL, *memory = NULL;
    TRY(open_zip(path, &zip));
    TRY(find_member(path, zip, name, &index));
    TRY(read_member(path, zip, index, memory, &bytes));
    *stream = fmemopen(*memory, bytes, "rb");
    if (!*stream) TRY(complain(CLI_OUTSIDE, "%s: %s", path, strerror(errno)));
done:
    if (zip) zip_discard(zip);
    if (status) free(*memory), *memory = NULL;
    return status;
}

int npz_names(const char *path, int (*visit)(const char *name, void *context), void *context)
{
    zip_t *zip = NULL;
    int status = CLI_GOOD;
    TRY(open_zip(path, &zip));
    for (zip_int64_t i = 0; i < zip_get_num_entries(zip, 0); i++) {
        char name[1024];
        const char *member = zip_get_name(zip, (zip_uint64_t)i, 0);
        snprintf(name, sizeof name, "%s", member ? member : "");
        char *suffix = strstr(name, ".npy");
        if (suffix && !suffix[4]) *suffix = 0;
        TRY(visit(name, context));
    }
done:
    if (zip) zip_discard(zip);
    return status;
}
