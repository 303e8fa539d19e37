/* npy.c: arrays whose elements all are numbers that we can use, read (hga_arrays.h) and written (npy_format.h). */
#include "npy.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "complain.h"

/* ---- elements ---- */

/* An array whose elements are being read. */
typedef struct reading {
    const char *name; /* as it was typed */
    hga_arrays *file;
    int64_t i;
    hga_array is;
    npy_content wish;
} reading;

/* Reads real elements [first, first + n), which are finite or, where that is allowed, -inf; in Fortran's order all. */
static int read_run(const reading *r, int64_t first, int64_t n, float *to)
{
    char text[HGA_NPY_SHAPE_BYTES];
    MUST(complain_of(hga_arrays_real(r->file, r->i, first, n, to), CLI_DATA, r->name));
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(to[i]) && !(r->wish == NPY_ENDLESS && to[i] < 0))
            return complain(CLI_DATA, "%s: element %s is %s", r->name, hga_npy_index(&r->is.has, first + i, text),
                            isnan(to[i]) ? "NaN" : "infinite");
    return CLI_GOOD;
}

/* ---- ranges of rows ---- */

/* Contiguous runs of elements: an interval of the range's axis, for each index of the axes before it. */
typedef struct runs {
    int64_t outer, inner, along; /* the product of the axes before; of those after; and the axis itself */
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

/* Run i of the range: its first element in the array, and how many there are. */
static int64_t run_at(const runs *r, const npy_part *part, int64_t i, int64_t *n)
{
    const hga_interval *interval = &part->interval[i % part->n_intervals];
    *n = interval->n * r->inner;
    return (i / part->n_intervals * r->along + interval->first) * r->inner;
}

static int check_part(const reading *r, const npy_part *part)
{
    const hga_npy *h = &r->is.has;
    const hga_interval *last = part->n_intervals ? &part->interval[part->n_intervals - 1] : NULL;
    if (part->axis < h->n_dims && (!last || last->first + last->n <= h->dim[part->axis])) return CLI_GOOD;
    char text[HGA_NPY_SHAPE_BYTES];
    return complain(CLI_DATA, "%s: has the shape %s, which has no row %lld", r->name,
                    hga_npy_shape(h->n_dims, h->dim, text), last ? (long long)(last->first + last->n - 1) : 0);
}

/* Reads some of an array's rows; in Fortran's order reads all, for its rows are scattered. */
static int read_part(const reading *r, const npy_part *part, npy *out)
{
    const hga_npy *h = &r->is.has;
    float *all = NULL, *to;
    int status = CLI_GOOD;
    TRY(check_part(r, part));
    out->dim[part->axis] = length_of(part);
    out->count = h->dim[part->axis] ? h->count / h->dim[part->axis] * out->dim[part->axis] : 0;
    TRY(take(out->count, sizeof *out->real, &out->real));
    if (h->fortran) TRY(take(h->count, sizeof *all, &all));
    if (h->fortran) TRY(read_run(r, 0, h->count, all));
    const runs of = runs_of(h->n_dims, h->dim, part);
    to = out->real;
    for (int64_t i = 0, n; i < of.outer * part->n_intervals; i++, to += n) {
        const int64_t first = run_at(&of, part, i, &n);
        if (all)
            memcpy(to, all + first, (size_t)n * sizeof *to);
        else
            TRY(read_run(r, first, n, to));
    }
done:
    free(all);
    return status;
}

/* ---- reading ---- */

/* Reads all of an array, a range, or its sizes alone; checks that its elements are there before any is read. */
static int read_array(const reading *r, const npy_part *part, npy *out)
{
    const hga_npy *h = &r->is.has;
    hga_status st =
        r->wish == NPY_WHOLE ? hga_arrays_whole(r->file, r->i, 0, 0, NULL) : hga_arrays_real(r->file, r->i, 0, 0, NULL);
    MUST(complain_of(st, CLI_DATA, r->name));
    if (h->n_dims == 0) return complain(CLI_DATA, "%s: holds a single number, not an array", r->name);
    out->type = (element){.kind = h->kind, .size = h->size};
    out->n_dims = h->n_dims, out->count = h->count;
    memcpy(out->dim, h->dim, sizeof out->dim);
    if (r->wish == NPY_SIZES) return CLI_GOOD;
    if (part) return read_part(r, part, out);
    if (r->wish != NPY_WHOLE) {
        int status = take(h->count, sizeof *out->real, &out->real);
        return status ? status : read_run(r, 0, h->count, out->real);
    }
    MUST(take(h->count, sizeof *out->whole, &out->whole));
    return complain_of(hga_arrays_whole(r->file, r->i, 0, h->count, out->whole), CLI_DATA, r->name);
}

static const char *called(const char *path) { return strcmp(path, "-") == 0 ? "standard input" : path; }

/* Splits FILE:NAME: returns NAME, and cuts `path` to FILE; NULL if a file has the whole name, or FILE does not
   exist. */
static const char *split_name(char *path)
{
    char *colon = strrchr(path, ':');
    if (!colon || access(path, F_OK) == 0) return NULL;
    *colon = 0;
    if (access(path, F_OK) == 0) return colon + 1;
    *colon = ':';
    return NULL;
}

/* The names of a file's arrays. */
static const char *what_it_has(const reading *r)
{
    hga_array first = {0};
    return hga_arrays_count(r->file) && hga_arrays_look(r->file, 0, &first) == HGA_OK && first.type ? "tensor"
                                                                                                    : "array";
}

/* Finds the array of this name; without a name the only one. */
static int find_array(const char *path, const char *name, reading *r)
{
    const int64_t n = hga_arrays_count(r->file);
    if (name && hga_arrays_find(r->file, "") == 0)
        return complain(CLI_DATA, "%s: is one array, which has no name", path);
    if (!name && n != 1)
        return complain(CLI_DATA, "%s: has %lld %ss; say which by %s:NAME, `hga tensor` lists them", path, (long long)n,
                        what_it_has(r), path);
    r->i = name ? hga_arrays_find(r->file, name) : 0;
    if (r->i < 0) return complain(CLI_DATA, "%s: has no %s '%s'; `hga tensor` lists them", path, what_it_has(r), name);
    return complain_of(hga_arrays_look(r->file, r->i, &r->is), CLI_DATA, r->name);
}

/* Opens the file that a path names, with or without the name of an array in it, and reads that array. */
static int read_path(const char *path, npy_content wish, const npy_part *part, npy *out)
{
    char *file = strdup(path);
    int status = CLI_GOOD;
    *out = (npy){.path = strdup(called(path))};
    reading r = {.name = out->path, .wish = wish};
    if (!file || !out->path) TRY(complain(CLI_OUTSIDE, "%s: out of memory", path));
    const char *name = split_name(file);
    TRY(complain_of(hga_arrays_open(NULL, file, &r.file), CLI_DATA, name ? file : out->path));
    TRY(find_array(name ? file : out->path, name, &r));
    TRY(read_array(&r, part, out));
done:
    hga_arrays_close(r.file);
    free(file);
    if (status) npy_clear(out);
    return status;
}

int npy_read(const char *path, npy_content wish, npy *out) { return read_path(path, wish, NULL, out); }

int npy_read_part(const char *path, const npy_part *part, npy *out) { return read_path(path, NPY_REAL, part, out); }

const char *npy_shape(const npy *a)
{
    static char text[2][HGA_NPY_SHAPE_BYTES];
    static int last;
    last = !last;
    return hga_npy_shape(a->n_dims, a->dim, text[last]);
}

int npy_complain_of_shape(const npy *a, const char *what)
{
    return complain(CLI_DATA, "%s: %s, not the shape %s", a->path, what, npy_shape(a));
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
    char buffer[HGA_NPY_TYPE_BYTES];
    double back;
    for (int64_t i = 0; i < count; i++) {
        hga_npy_put(&type, data[i], bytes);
        if (isfinite(data[i]) && (hga_npy_real(&type, bytes, &back) || !isfinite(back)))
            return complain(CLI_DATA, "%s: %g does not fit %s", out->whole.path, (double)data[i],
                            hga_npy_type(&type, buffer));
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

/* Seeks to each run of the range's elements, at its offset in the whole array. */
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

int npy_write_whole(outfile *out, const int32_t *data, int n_dims, const int64_t *dim)
{
    int64_t count = 1;
    for (int i = 0; i < n_dims; i++) count *= dim[i];
    put_header(out->file, ELEMENT_I32, n_dims, dim);
    if (fwrite(data, sizeof *data, (size_t)count, out->file) == (size_t)count) return CLI_GOOD;
    return complain(CLI_OUTSIDE, "cannot write %s: %s", out->whole.path, strerror(errno));
}
