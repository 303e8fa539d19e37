/* npy_files.c: which kind of file has the arrays, and which of them is meant: one .npy, members of .npz, tensors of
   .safetensors. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "archive.h"
#include "complain.h"
#include "npy_stream.h"

static const char *shown(const char *path) { return strcmp(path, "-") == 0 ? "standard input" : path; }

typedef enum file_kind { KIND_NPY, KIND_NPZ, KIND_SAFETENSORS } file_kind;

/* by the first bytes; what cannot go back, a pipe, is a .npy */
static file_kind kind_of(FILE *file)
{
    unsigned char lead[10] = {0};
    struct stat s;
    if (fstat(fileno(file), &s) != 0 || !S_ISREG(s.st_mode)) return KIND_NPY;
    size_t n = fread(lead, 1, sizeof lead, file);
    rewind(file);
    if (n >= 4 && memcmp(lead, "PK\3\4", 4) == 0) return KIND_NPZ;
    return n == sizeof lead && lead[7] == 0 && lead[8] == '{' ? KIND_SAFETENSORS : KIND_NPY;
}

static npy_header header_of(const safetensor *t)
{
    npy_header h = {.type = t->type, .has = element_npy(t->type)};
    h.has.n_dims = t->n_dims, h.has.count = t->bytes / element_bytes(t->type);
    memcpy(h.has.dim, t->dim, (size_t)t->n_dims * sizeof *h.has.dim);
    return h;
}

static int read_safetensor(const char *path, const tensor_name *n, FILE *file, const npy_wish *wish, npy *out)
{
    safetensor t = {0};
    int status = safetensors_find(n->file, file, n->name, &t);
    if (status) return status;
    npy_header h = header_of(&t);
    return npy_read_values(path, file, &h, wish, 0, out);
}

static int read_npz(const char *path, const tensor_name *n, const npy_wish *wish, npy *out)
{
    FILE *stream = NULL;
    char *memory = NULL;
    int status = npz_open(n->file, n->name, &stream, &memory);
    if (status == CLI_GOOD) status = npy_read_stream(path, stream, wish, out);
    if (stream) fclose(stream);
    free(memory);
    return status;
}

static int read_kind(const char *path, const tensor_name *n, FILE *file, const npy_wish *wish, npy *out)
{
    switch (file == stdin ? KIND_NPY : kind_of(file)) {
    case KIND_NPZ: return read_npz(path, n, wish, out);
    case KIND_SAFETENSORS: return read_safetensor(path, n, file, wish, out);
    case KIND_NPY: break;
    }
    if (n->name) return complain(CLI_DATA, "%s: is one array, which has no name", n->file);
    return npy_read_stream(path, file, wish, out);
}

static int open_file(const char *path, FILE **file)
{
    struct stat s;
    *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!*file) return complain(CLI_DATA, "%s: cannot be read: %s", path, strerror(errno));
    if (fstat(fileno(*file), &s) == 0 && S_ISDIR(s.st_mode)) return complain(CLI_DATA, "%s: is a folder", path);
    return CLI_GOOD;
}

/* Opens the file that a path names, with or without the name of a tensor in it, and reads that array. */
static int read_path(const char *path, const npy_wish *wish, npy *out)
{
    FILE *file = NULL;
    tensor_name n = {0};
    int status = CLI_GOOD;
    const char *name = shown(path);
    *out = (npy){0};
    TRY(tensor_name_split(path, &n));
    TRY(open_file(n.file, &file));
    TRY(take((int64_t)strlen(name) + 1, 1, &out->path));
    memcpy(out->path, name, strlen(name));
    TRY(read_kind(name, &n, file, wish, out));
done:
    if (file && file != stdin) fclose(file);
    free(n.file);
    if (status) npy_clear(out);
    return status;
}

int npy_read_real(const char *path, npy *out) { return read_path(path, &(npy_wish){.holds = NPY_REAL}, out); }

int npy_read_endless(const char *path, npy *out) { return read_path(path, &(npy_wish){.holds = NPY_ENDLESS}, out); }

int npy_read_whole(const char *path, npy *out) { return read_path(path, &(npy_wish){.holds = NPY_WHOLE}, out); }

int npy_read_part(const char *path, const npy_part *part, npy *out)
{
    return read_path(path, &(npy_wish){.holds = NPY_REAL, .part = part}, out);
}

int npy_read_sizes(const char *path, npy *out)
{
    return read_path(path, &(npy_wish){.holds = NPY_REAL, .sizes = 1}, out);
}

/* ---- listing ---- */

typedef struct listing {
    npy_visitor visit;
    void *context;
} listing;

/* `path` is what complaints call it. */
static int list_array(const char *path, const char *name, FILE *stream, const listing *l)
{
    hga_npy h = {0};
    char type[ELEMENT_NAME];
    int status = complain_of(hga_npy_read_header(path, stream, &h), CLI_DATA, path);
    return status ? status : l->visit(name, element_name_of_npy(&h, type), h.n_dims, h.dim, l->context);
}

static int list_member(const char *name, FILE *stream, void *context)
{
    return list_array(name, name, stream, context);
}

static int list_safetensor(const char *name, const safetensor *t, void *context)
{
    const listing *l = context;
    return l->visit(name, t->is_read ? element_name(t->type) : t->type_name, t->n_dims, t->dim, l->context);
}

/* The first bytes of the file tell whether it is .npy, .npz or .safetensors. */
int npy_each(const char *path, npy_visitor visit, void *context)
{
    listing l = {visit, context};
    FILE *file = NULL;
    int status = CLI_GOOD;
    TRY(open_file(path, &file));
    file_kind kind = file == stdin ? KIND_NPY : kind_of(file);
    if (kind == KIND_NPZ) TRY(npz_each(path, NPY_HEADER_BYTES, list_member, &l));
    if (kind == KIND_SAFETENSORS) TRY(safetensors_each(path, file, list_safetensor, &l));
    if (kind == KIND_NPY) TRY(list_array(shown(path), "", file, &l));
done:
    if (file && file != stdin) fclose(file);
    return status;
}
