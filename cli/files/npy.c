/* npy.c: one array after its .npy header, whose elements all are numbers that we can use, read and written; headers and
   elements by hga_npy.h. */
#include "npy_stream.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"

const char *npy_shape(int n_dims, const int64_t *dim, char text[static 200])
{
    int used = snprintf(text, 200, "(");
    for (int i = 0; i < n_dims; i++)
        used += snprintf(text + used, 200 - (size_t)used, "%s%lld", i ? ", " : "", (long long)dim[i]);
    snprintf(text + used, 200 - (size_t)used, n_dims == 1 ? ",)" : ")");
    return text;
}

static int read_header(const char *name, FILE *file, npy_header *h)
{
    hga_status st = hga_npy_read_header(name, file, &h->has);
    if (st) return complain_of(st, CLI_DATA, name);
    if (element_of_npy(&h->has, &h->type)) return CLI_GOOD;
    return complain(CLI_DATA, "%s: its type is not f2, f4, f8, bfloat16 (V2), i4 or i8", name);
}

static int check_end(const char *path, FILE *file, int64_t bytes)
{
    if (fgetc(file) == EOF) return CLI_GOOD;
    return complain(CLI_DATA, "%s: goes on after its %lld bytes of elements", path, (long long)bytes);
}

/* `alone`: nothing may follow. Room grows with what arrives, so that a header that lies about the size costs nothing */
static int read_elements(const char *path, FILE *file, int64_t bytes, int alone, unsigned char **out)
{
    int64_t capacity = 0, used = 0;
    unsigned char *data = NULL;
    while (used < bytes) {
        capacity = capacity ? 2 * capacity : 1 << 20;
        if (capacity > bytes) capacity = bytes;
        unsigned char *more = realloc(data, (size_t)capacity);
        if (!more) {
            free(data);
            return complain(CLI_OUTSIDE, "%s: out of memory: %lld bytes", path, (long long)capacity);
        }
        data = more;
        size_t got = fread(data + used, 1, (size_t)(capacity - used), file);
        used += (int64_t)got;
        if (used < capacity) {
            free(data);
            if (ferror(file)) return complain(CLI_DATA, "%s: cannot be read: %s", path, strerror(errno));
            return complain(CLI_DATA, "%s: has %lld bytes of elements where its shape needs %lld", path,
                            (long long)used, (long long)bytes);
        }
    }
    int status = alone ? check_end(path, file, bytes) : CLI_GOOD;
    if (status) free(data), data = NULL;
    *out = data;
    return status;
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

/* Elements [first, first + n) of the array, of C order unless they are all, to `to`. */
static int store_real(const char *path, const hga_npy *h, const unsigned char *bytes, int64_t first, int64_t n,
                      int endless, float *to)
{
    const int64_t size = h->size;
    for (int64_t i = 0; i < n; i++) {
        double x = 0;
        if (hga_npy_real(h, bytes + size * i, &x)) return complain(CLI_DATA, "%s: %s", path, hga_error_detail());
        int64_t place = place_of(h, first + i);
        float *at = to + (place - first);
        *at = (float)x;
        if (isfinite(*at) || (endless && isinf(x) && x < 0)) continue;
        char text[200];
        const char *what = isnan(x) ? "NaN" : isinf(x) ? "infinite" : "too large for float32";
        return complain(CLI_DATA, "%s: element %s is %s", path, position(h, place, text), what);
    }
    return CLI_GOOD;
}

/* Elements as int32 in the order of C; one that does not fit is named by its position. */
static int store_whole(const char *path, const hga_npy *h, const unsigned char *bytes, int32_t *to)
{
    const int64_t size = h->size;
    for (int64_t i = 0; i < h->count; i++) {
        int64_t x = 0;
        if (hga_npy_whole(h, bytes + size * i, &x)) return complain(CLI_DATA, "%s: %s", path, hga_error_detail());
        int64_t place = place_of(h, i);
        char text[200];
        if (x < INT32_MIN || x > INT32_MAX)
            return complain(CLI_DATA, "%s: element %s is %lld, which does not fit int32", path,
                            position(h, place, text), (long long)x);
        to[place] = (int32_t)x;
    }
    return CLI_GOOD;
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

static int go_to(const char *name, FILE *file, int64_t at)
{
    if (fseeko(file, (off_t)at, SEEK_SET) == 0) return CLI_GOOD;
    return complain(CLI_DATA, "%s: a part of it cannot be read: %s", name, strerror(errno));
}

/* The runs of an array that begins where the file stands. */
static int read_runs(const char *name, FILE *file, const hga_npy *h, const npy_part *part, int alone, float *to)
{
    const runs r = runs_of(h->n_dims, h->dim, part);
    const int64_t begin = ftello(file);
    int status = begin < 0 ? go_to(name, file, 0) : CLI_GOOD;
    for (int64_t i = 0, n; !status && i < r.outer * part->n_intervals; i++, to += n) {
        unsigned char *bytes = NULL;
        int64_t first = run_at(&r, part, i, &n);
        status = go_to(name, file, begin + first * h->size);
        if (!status) status = read_elements(name, file, n * h->size, 0, &bytes);
        if (!status) status = store_real(name, h, bytes, first, n, 0, to);
        free(bytes);
    }
    if (!status && alone) status = go_to(name, file, begin + h->count * h->size);
    return status || !alone ? status : check_end(name, file, h->count * h->size);
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

/* ---- what is asked for ---- */

/* The whole array, of real or whole numbers. */
static int read_all(const char *name, FILE *file, const npy_header *h, int holds, int alone, npy *out)
{
    unsigned char *bytes = NULL;
    int status = CLI_GOOD;
    TRY(read_elements(name, file, h->has.count * element_bytes(h->type), alone, &bytes));
    if (holds != NPY_WHOLE) {
        TRY(take(h->has.count, sizeof *out->real, &out->real));
        TRY(store_real(name, &h->has, bytes, 0, h->has.count, holds == NPY_ENDLESS, out->real));
    } else {
        TRY(take(h->has.count, sizeof *out->whole, &out->whole));
        TRY(store_whole(name, &h->has, bytes, out->whole));
    }
done:
    free(bytes);
    return status;
}

static int check_part(const char *name, const hga_npy *h, const npy_part *part)
{
    const hga_interval *last = part->n_intervals ? &part->interval[part->n_intervals - 1] : NULL;
    if (part->axis < h->n_dims && (!last || last->first + last->n <= h->dim[part->axis])) return CLI_GOOD;
    char text[200];
    return complain(CLI_DATA, "%s: has the shape %s, which has no row %lld", name, npy_shape(h->n_dims, h->dim, text),
                    last ? (long long)(last->first + last->n - 1) : 0);
}

/* Some of an array's rows; of one in the order of Fortran all is read, for its rows are scattered. */
static int read_part(const char *name, FILE *file, const npy_header *h, const npy_part *part, int alone, npy *out)
{
    npy all = {0};
    int status = CLI_GOOD;
    TRY(check_part(name, &h->has, part));
    out->dim[part->axis] = length_of(part);
    out->count = h->has.dim[part->axis] ? h->has.count / h->has.dim[part->axis] * out->dim[part->axis] : 0;
    TRY(take(out->count, sizeof *out->real, &out->real));
    if (h->has.fortran) {
        TRY(read_all(name, file, h, NPY_REAL, alone, &all));
        take_runs(h->has.n_dims, h->has.dim, part, all.real, out->real);
    } else {
        TRY(read_runs(name, file, &h->has, part, alone, out->real));
    }
done:
    free(all.real);
    return status;
}

/* Checks that the array holds the kind of number that is wished before it reads any. */
int npy_read_values(const char *name, FILE *file, const npy_header *h, const npy_wish *wish, int alone, npy *out)
{
    if (element_is_real(h->type) != (wish->holds != NPY_WHOLE))
        return complain(CLI_DATA, "%s: holds %s where %s is needed", name, element_name(h->type),
                        wish->holds ? "float16, bfloat16, float32 or float64" : "int32 or int64");
    if (h->has.n_dims == 0) return complain(CLI_DATA, "%s: holds a single number, not an array", name);
    out->n_dims = h->has.n_dims, out->count = h->has.count, out->type = h->type;
    memcpy(out->dim, h->has.dim, sizeof out->dim);
    if (wish->sizes) return CLI_GOOD;
    return wish->part ? read_part(name, file, h, wish->part, alone, out)
                      : read_all(name, file, h, wish->holds, alone, out);
}

int npy_read_stream(const char *name, FILE *file, const npy_wish *wish, npy *out)
{
    npy_header h = {0};
    int status = read_header(name, file, &h);
    return status ? status : npy_read_values(name, file, &h, wish, 1, out);
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
    hga_npy h = element_npy(type);
    h.n_dims = n_dims;
    memcpy(h.dim, dim, (size_t)n_dims * sizeof *dim);
    return hga_npy_header(&h, text);
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
    const hga_npy h = element_npy(type);
    double back;
    for (int64_t i = 0; i < count; i++) {
        hga_npy_put(&h, data[i], bytes);
        if (isfinite(data[i]) && (hga_npy_real(&h, bytes, &back) || !isfinite(back)))
            return complain(CLI_DATA, "%s: %g does not fit %s", out->whole.path, (double)data[i], element_name(type));
        if (fwrite(bytes, (size_t)element_bytes(type), 1, out->file) != 1)
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
        if (fseeko(out->file, begin + (off_t)(at * element_bytes(type)), SEEK_SET))
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
