/* npy.c: arrays whose elements all are numbers that we can use, read and written; headers and elements by hga_npy.h. */
#include "npy.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "archive.h"
#include "complain.h"

const char *npy_shape(int n_dims, const int64_t *dim, char text[static 200])
{
    int used = snprintf(text, 200, "(");
    for (int i = 0; i < n_dims; i++)
        used += snprintf(text + used, 200 - (size_t)used, "%s%lld", i ? ", " : "", (long long)dim[i]);
    snprintf(text + used, 200 - (size_t)used, n_dims == 1 ? ",)" : ")");
    return text;
}

/* ---- elements ---- */

/* where element i of the file goes: the same place, or for Fortran order the place with the sizes read backwards */
static int64_t place_of(const hga_npy *h, int64_t i)
{
    if (!h->fortran) return i;
    int64_t place = 0, stride = h->count;
    int64_t index[NPY_MAX_DIMS];
    for (int d = 0; d < h->n_dims; d++) {
        index[d] = i % h->dim[d];
        i /= h->dim[d];
    }
    for (int d = 0; d < h->n_dims; d++) {
        stride /= h->dim[d];
        place += index[d] * stride;
    }
    return place;
}

/* "[3, 0]" of an element */
static const char *position(const hga_npy *h, int64_t place, char text[static 200])
{
    int64_t index[NPY_MAX_DIMS];
    for (int d = h->n_dims; d-- > 0; place /= h->dim[d]) index[d] = place % h->dim[d];
    npy_shape(h->n_dims, index, text);
    return text;
}

/* What an array must hold: whole numbers, real ones, or real ones and -inf. */
typedef enum content { WHOLE, REAL, ENDLESS } content;

/* An array whose elements are being read. */
typedef struct reading {
    const char *name;
    FILE *stream;
    const archived *of;
    content wish;
} reading;

/* One element, the one at `place` in the order of C. */
static int store_real(const reading *r, const unsigned char *bytes, int64_t place, float *to)
{
    double x = 0;
    char text[200];
    if (hga_npy_real(&r->of->has, bytes, &x)) return complain(CLI_DATA, "%s: %s", r->name, hga_error_detail());
    *to = (float)x;
    if (isfinite(*to) || (r->wish == ENDLESS && isinf(x) && x < 0)) return CLI_GOOD;
    const char *what = isnan(x) ? "NaN" : isinf(x) ? "infinite" : "too large for float32";
    return complain(CLI_DATA, "%s: element %s is %s", r->name, position(&r->of->has, place, text), what);
}

static int store_whole(const reading *r, const unsigned char *bytes, int64_t place, int32_t *to)
{
    int64_t x = 0;
    char text[200];
    if (hga_npy_whole(&r->of->has, bytes, &x)) return complain(CLI_DATA, "%s: %s", r->name, hga_error_detail());
    *to = (int32_t)x;
    if (*to == x) return CLI_GOOD;
    return complain(CLI_DATA, "%s: element %s is %lld, which does not fit int32", r->name,
                    position(&r->of->has, place, text), (long long)x);
}

/* Elements [first, first + n) of the file, some at a time, to `real` or `whole`; of Fortran's order all. */
static int read_run(const reading *r, int64_t first, int64_t n, float *real, int32_t *whole)
{
    enum { CHUNK = 1 << 16 };
    const hga_npy *h = &r->of->has;
    const size_t size = (size_t)h->size;
    unsigned char *bytes = NULL;
    int status = CLI_GOOD;
    TRY(take(n < CHUNK ? n : CHUNK, size, &bytes));
    if (fseeko(r->stream, (off_t)(r->of->at + first * h->size), SEEK_SET))
        TRY(complain(CLI_DATA, "%s: cannot be read: %s", r->name, strerror(errno)));
    for (int64_t i = 0; i < n; i++) {
        const size_t left = (size_t)(n - i < CHUNK ? n - i : CHUNK);
        if (i % CHUNK == 0 && fread(bytes, size, left, r->stream) != left)
            TRY(complain(CLI_DATA, "%s: cannot be read: %s", r->name,
                         ferror(r->stream) ? strerror(errno) : "it has become shorter"));
        const unsigned char *from = bytes + i % CHUNK * h->size;
        const int64_t place = place_of(h, first + i);
        TRY(real ? store_real(r, from, place, real + place - first)
                 : store_whole(r, from, place, whole + place - first));
    }
done:
    free(bytes);
    return status;
}

/* ---- parts ---- */

/* Runs of elements that lie one behind the other: of each index of the axes before the part's, an interval of it. */
typedef struct runs {
    int64_t outer, inner, along; /* the product of the axes before; behind; and the axis itself */
} runs;

static runs runs_of(int n_dims, const int64_t *dim, const npy_part *part)
{
    runs r = {1, 1, dim[part->axis]};
    for (int d = 0; d < n_dims; d++)
        if (d != part->axis) *(d < part->axis ? &r.outer : &r.inner) *= dim[d];
    return r;
}

static int64_t length_of(const npy_part *part)
{
    int64_t n = 0;
    for (int64_t i = 0; i < part->n_intervals; i++) n += part->interval[i].n;
    return n;
}

/* Run number i of the part: its first element in the array, and how many there are. */
static int64_t run_at(const runs *r, const npy_part *part, int64_t i, int64_t *n)
{
    const hga_interval *interval = &part->interval[i % part->n_intervals];
    *n = interval->n * r->inner;
    return (i / part->n_intervals * r->along + interval->first) * r->inner;
}

/* Of an array that is there as a whole. */
static void take_runs(int n_dims, const int64_t *dim, const npy_part *part, const float *from, float *to)
{
    const runs r = runs_of(n_dims, dim, part);
    for (int64_t i = 0, n; i < r.outer * part->n_intervals; i++, to += n) {
        int64_t first = run_at(&r, part, i, &n);
        memcpy(to, from + first, (size_t)n * sizeof *to);
    }
}

static int check_part(const reading *r, const npy_part *part)
{
    const hga_npy *h = &r->of->has;
    const hga_interval *last = part->n_intervals ? &part->interval[part->n_intervals - 1] : NULL;
    if (part->axis < h->n_dims && (!last || last->first + last->n <= h->dim[part->axis])) return CLI_GOOD;
    char text[200];
    return complain(CLI_DATA, "%s: has the shape %s, which has no row %lld", r->name,
                    npy_shape(h->n_dims, h->dim, text), last ? (long long)(last->first + last->n - 1) : 0);
}

/* Some of an array's rows; of one in the order of Fortran all is read, for its rows are scattered. */
static int read_part(const reading *r, const npy_part *part, npy *out)
{
    const hga_npy *h = &r->of->has;
    float *all = NULL, *to;
    int status = CLI_GOOD;
    TRY(check_part(r, part));
    out->dim[part->axis] = length_of(part);
    out->count = h->dim[part->axis] ? h->count / h->dim[part->axis] * out->dim[part->axis] : 0;
    TRY(take(out->count, sizeof *out->real, &out->real));
    if (h->fortran) {
        TRY(take(h->count, sizeof *all, &all));
        TRY(read_run(r, 0, h->count, all, NULL));
        take_runs(h->n_dims, h->dim, part, all, out->real);
        goto done;
    }
    const runs of = runs_of(h->n_dims, h->dim, part);
    to = out->real;
    for (int64_t i = 0, n; i < of.outer * part->n_intervals; i++, to += n) {
        const int64_t first = run_at(&of, part, i, &n);
        TRY(read_run(r, first, n, to, NULL));
    }
done:
    free(all);
    return status;
}

/* ---- what is asked for ---- */

/* Are there as many bytes as its shape needs? */
static int check_bytes(const char *name, const archived *of)
{
    const int64_t bytes = of->end - of->at, needs = of->has.count * of->has.size;
    if (bytes < needs || (bytes > needs && of->type))
        return complain(CLI_DATA, "%s: has %lld bytes of elements where its shape needs %lld", name, (long long)bytes,
                        (long long)needs);
    if (bytes == needs) return CLI_GOOD;
    return complain(CLI_DATA, "%s: goes on after its %lld bytes of elements", name, (long long)needs);
}

/* Has the array the kind of number that is wished, and are its elements there, before any is read? */
static int check_array(const reading *r)
{
    const archived *of = r->of;
    char room[ELEMENT_NAME];
    if (!of->is_read)
        return complain(CLI_DATA, "%s: has the type %s, which is none of F16 BF16 F32 F64 I32 I64", r->name, of->type);
    if (!element_is_read(&of->has))
        return complain(CLI_DATA, "%s: its type is not f2, f4, f8, bfloat16 (V2), i4 or i8", r->name);
    if (element_is_real(&of->has) != (r->wish != WHOLE))
        return complain(CLI_DATA, "%s: holds %s where %s is needed", r->name, element_name(&of->has, room),
                        r->wish ? "float16, bfloat16, float32 or float64" : "int32 or int64");
    if (of->has.n_dims == 0) return complain(CLI_DATA, "%s: holds a single number, not an array", r->name);
    return check_bytes(r->name, of);
}

/* All of an array, a part, or, without a place for either, its sizes. */
static int read_array(const reading *r, const npy_part *part, int sizes, npy *out)
{
    const hga_npy *h = &r->of->has;
    int status = check_array(r);
    if (status) return status;
    out->type = (element){.kind = h->kind, .size = h->size};
    out->n_dims = h->n_dims, out->count = h->count;
    memcpy(out->dim, h->dim, sizeof out->dim);
    if (sizes) return CLI_GOOD;
    if (part) return read_part(r, part, out);
    status = r->wish == WHOLE ? take(h->count, sizeof *out->whole, &out->whole)
                              : take(h->count, sizeof *out->real, &out->real);
    return status ? status : read_run(r, 0, h->count, out->real, out->whole);
}

/* FILE:NAME is an array of FILE only where no file has the whole name, and FILE is there. NAME, or NULL; `path` is then
   FILE alone. */
static const char *split_name(char *path)
{
    char *colon = strrchr(path, ':');
    if (!colon || access(path, F_OK) == 0) return NULL;
    *colon = 0;
    if (access(path, F_OK) == 0) return colon + 1;
    *colon = ':';
    return NULL;
}

/* Which of the arrays has the name; without one the only one. */
static int find_array(const archive *a, const char *name, int64_t *i)
{
    const char *what = a->header ? "tensor" : "array";
    *i = 0;
    if (name && !a->header && !a->npz) return complain(CLI_DATA, "%s: is one array, which has no name", a->path);
    if (!name && a->n == 1) return CLI_GOOD;
    if (!name)
        return complain(CLI_DATA, "%s: has %lld %ss; say which by %s:NAME, `hga tensor` lists them", a->path,
                        (long long)a->n, what, a->path);
    for (; *i < a->n; ++*i)
        if (strcmp(a->array[*i].name, name) == 0) return CLI_GOOD;
    return complain(CLI_DATA, "%s: has no %s '%s'; `hga tensor` lists them", a->path, what, name);
}

/* Opens the file that a path names, with or without the name of an array in it, and reads that array. */
static int read_path(const char *path, content wish, const npy_part *part, int sizes, npy *out)
{
    archive a = {0};
    int64_t i;
    char *file = strdup(path);
    int status = CLI_GOOD;
    *out = (npy){.path = strdup(strcmp(path, "-") == 0 ? "standard input" : path)};
    if (!file || !out->path) TRY(complain(CLI_OUTSIDE, "%s: out of memory", path));
    const char *name = split_name(file);
    TRY(archive_open(file, &a));
    TRY(find_array(&a, name, &i));
    TRY(archive_look(&a, i));
    TRY(read_array(&(reading){out->path, a.stream, &a.array[i], wish}, part, sizes, out));
done:
    archive_close(&a);
    free(file);
    if (status) npy_clear(out);
    return status;
}

int npy_read_real(const char *path, npy *out) { return read_path(path, REAL, NULL, 0, out); }

int npy_read_endless(const char *path, npy *out) { return read_path(path, ENDLESS, NULL, 0, out); }

int npy_read_whole(const char *path, npy *out) { return read_path(path, WHOLE, NULL, 0, out); }

int npy_read_part(const char *path, const npy_part *part, npy *out) { return read_path(path, REAL, part, 0, out); }

int npy_read_sizes(const char *path, npy *out) { return read_path(path, REAL, NULL, 1, out); }

/* Are the bytes there of an array in a list, if they are of a type that we know? */
static int check_listed(const archive *a, const archived *t)
{
    char name[512];
    if (!t->is_read) return CLI_GOOD;
    snprintf(name, sizeof name, "%s%s%s", a->path, *t->name ? ":" : "", t->name);
    return check_bytes(name, t);
}

/* Every array's name, type and shape. All of a .npz is unpacked, one array at a time: nothing less tells whether it is
   there. */
int npy_each(const char *path, npy_visitor visit, void *context)
{
    archive a = {0};
    char room[ELEMENT_NAME];
    int status = CLI_GOOD;
    TRY(archive_open(path, &a));
    for (int64_t i = 0; i < a.n; i++) {
        const archived *t = &a.array[i];
        TRY(archive_look(&a, i));
        TRY(check_listed(&a, t));
        TRY(visit(t->name, t->is_read ? element_name(&t->has, room) : t->type, t->has.n_dims, t->has.dim, context));
    }
done:
    archive_close(&a);
    return status;
}

void npy_clear(npy *a)
{
    free(a->real);
    free(a->whole);
    free(a->path);
    *a = (npy){0};
}

/* ---- writing ---- */

static int header_of(element type, int n_dims, const int64_t *dim, char text[HGA_NPY_HEADER_BYTES])
{
    type.n_dims = n_dims;
    memcpy(type.dim, dim, (size_t)n_dims * sizeof *dim);
    return hga_npy_header(&type, text);
}

static void put_header(FILE *file, element type, int n_dims, const int64_t *dim)
{
    char text[HGA_NPY_HEADER_BYTES];
    fwrite(text, 1, (size_t)header_of(type, n_dims, dim, text), file);
}

/* Writes floats as elements of a type; a finite number must stay finite in it. */
static int put_elements(outfile *out, element type, const float *data, int64_t count)
{
    unsigned char bytes[8];
    char room[ELEMENT_NAME];
    double back;
    for (int64_t i = 0; i < count; i++) {
        hga_npy_put(&type, data[i], bytes);
        if (isfinite(data[i]) && (hga_npy_real(&type, bytes, &back) || !isfinite(back)))
            return complain(CLI_DATA, "%s: %g does not fit %s", out->whole.path, (double)data[i],
                            element_name(&type, room));
        if (fwrite(bytes, (size_t)type.size, 1, out->file) != 1)
            return complain(CLI_OUTSIDE, "cannot write %s: %s", out->whole.path, strerror(errno));
    }
    return CLI_GOOD;
}

int npy_write_as(outfile *out, element type, const float *data, int n_dims, const int64_t *dim)
{
    int64_t count = 1;
    for (int i = 0; i < n_dims; i++) count *= dim[i];
    put_header(out->file, type, n_dims, dim);
    return put_elements(out, type, data, count);
}

int npy_write_part(outfile *out, element type, const float *data, int n_dims, const int64_t *dim, const npy_part *part,
                   int first)
{
    char text[HGA_NPY_HEADER_BYTES];
    const runs r = runs_of(n_dims, dim, part);
    const off_t begin = header_of(type, n_dims, dim, text);
    int status = CLI_GOOD;
    if (first) put_header(out->file, type, n_dims, dim);
    for (int64_t i = 0, n; !status && i < r.outer * part->n_intervals; i++, data += n) {
        int64_t at = run_at(&r, part, i, &n);
        if (fseeko(out->file, begin + (off_t)(at * type.size), SEEK_SET))
            return complain(CLI_OUTSIDE, "cannot write %s: %s", out->whole.path, strerror(errno));
        status = put_elements(out, type, data, n);
    }
    return status;
}

int npy_write_real(outfile *out, const float *data, int n_dims, const int64_t *dim)
{
    return npy_write_as(out, ELEMENT_F32, data, n_dims, dim);
}

int npy_write_whole(outfile *out, const int32_t *data, int n_dims, const int64_t *dim)
{
    int64_t count = 1;
    for (int i = 0; i < n_dims; i++) count *= dim[i];
    put_header(out->file, ELEMENT_I32, n_dims, dim);
    if (fwrite(data, sizeof *data, (size_t)count, out->file) == (size_t)count) return CLI_GOOD;
    return complain(CLI_OUTSIDE, "cannot write %s: %s", out->whole.path, strerror(errno));
}
