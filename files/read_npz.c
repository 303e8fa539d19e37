/* read_npz.c: scipy's sparse matrices (the only file that includes libzip). */
#include "import.h"
#include "numpy.h"
#include "written.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zip.h>

typedef struct member {
    char name[512];
    uint8_t *bytes;
    int64_t room;
    numpy array;
} member;

enum { FORMAT, SHAPE, DATA, INDICES, INDPTR, ROW, COLUMN, MEMBERS };
static const char *const member_names[MEMBERS] = {"format", "shape", "data", "indices", "indptr", "row", "col"};

typedef struct matrix {
    import *x;
    zip_t *zip;
    member member[MEMBERS];
    int64_t rows, columns;
} matrix;

/* libzip tells of a failed allocation by its number, by another's, or by none at all, but malloc tells by errno. */
static hga_status zip_wrong(const char *name, int error, const char *what)
{
    int starved = errno == ENOMEM || error == ZIP_ER_MEMORY || error == ZIP_ER_OK;
    return hga_fail(starved ? HGA_ENOMEM : HGA_EFORMAT, "%s: %s", name, starved ? "no memory to unpack it" : what);
}

static hga_status open_zip(matrix *m)
{
    zip_error_t error;
    hga_status st = HGA_OK;
    zip_error_init(&error);
    errno = 0;
    zip_source_t *source = zip_source_buffer_create(m->x->bytes, (zip_uint64_t)m->x->n_bytes, 0, &error);
    m->zip = source ? zip_open_from_source(source, ZIP_RDONLY, &error) : NULL;
    if (!m->zip) st = zip_wrong(m->x->name, zip_error_code_zip(&error), zip_error_strerror(&error));
    if (source && !m->zip) zip_source_free(source);
    zip_error_fini(&error);
    return st;
}

/* A member's bytes to its end, whose checksum libzip then compares. Room grows with what arrives, so that an archive
   that lies about the size costs nothing. */
static hga_status unpack(const matrix *m, member *to, zip_file_t *file, int64_t size)
{
    hga_status st = HGA_OK;
    int64_t used = 0;
    for (zip_int64_t got = 1; got > 0; used += got) {
        HGA_TRY(hga_grow(m->x->allocator, &to->bytes, &to->room, used, used + 65536, 1));
        errno = 0;
        got = zip_fread(file, to->bytes + used, (zip_uint64_t)(to->room - used));
        if (got < 0) return zip_wrong(to->name, zip_error_code_zip(zip_file_get_error(file)), zip_file_strerror(file));
    }
    if (used != size)
        return hga_fail(HGA_EFORMAT, "%s: %lld of %lld bytes are there", to->name, (long long)used, (long long)size);
    st = numpy_open(to->name, to->bytes, used, &to->array);
done:
    return st;
}

static hga_status take_member(const matrix *m, member *to, zip_uint64_t index, zip_uint64_t size)
{
    if (size > INT64_MAX / 2) return hga_fail(HGA_EFORMAT, "%s: %llu bytes", to->name, (unsigned long long)size);
    errno = 0;
    zip_file_t *file = zip_fopen_index(m->zip, index, 0);
    if (!file) return zip_wrong(to->name, zip_error_code_zip(zip_get_error(m->zip)), zip_strerror(m->zip));
    hga_status st = unpack(m, to, file, (int64_t)size);
    zip_fclose(file);
    return st;
}

/* The member of that name: -1 without. Two of them are two truths. */
static hga_status locate(const matrix *m, const char *name, zip_int64_t *index)
{
    *index = -1;
    for (zip_int64_t i = 0; i < zip_get_num_entries(m->zip, 0); i++) {
        errno = 0;
        const char *here = zip_get_name(m->zip, (zip_uint64_t)i, 0);
        if (!here && errno == ENOMEM) return zip_wrong(m->x->name, ZIP_ER_MEMORY, "");
        if (!here || strcmp(here, name) != 0) continue;
        if (*index >= 0) return hga_fail(HGA_EFORMAT, "%s: two members are named %s", m->x->name, name);
        *index = i;
    }
    return HGA_OK;
}

/* The array of that name; HGA_OK and no data without one that is not needed. */
static hga_status open_member(matrix *m, int which, int is_needed)
{
    char file[32];
    member *to = &m->member[which];
    zip_int64_t index;
    zip_stat_t stat;
    snprintf(file, sizeof file, "%s.npy", member_names[which]);
    snprintf(to->name, sizeof to->name, "%s: %s", m->x->name, file);
    hga_status st = locate(m, file, &index);
    if (st) return st;
    int missing = index < 0 || zip_stat_index(m->zip, (zip_uint64_t)index, 0, &stat) != 0;
    memory_is_written(&stat, sizeof stat);
    if (!missing && stat.valid & ZIP_STAT_SIZE) return take_member(m, to, (zip_uint64_t)index, stat.size);
    return is_needed ? hga_fail(HGA_EFORMAT, "%s is missing; is it a sparse matrix of scipy's?", to->name) : HGA_OK;
}

static hga_status want_list(const member *x, int64_t least)
{
    if (x->array.has.n_dims == 1 && x->array.has.count >= least) return HGA_OK;
    return hga_fail(HGA_EFORMAT, "%s: %lld numbers in %d axes, where %lld are expected", x->name,
                    (long long)x->array.has.count, x->array.has.n_dims, (long long)least);
}

static hga_status read_shape(matrix *m)
{
    hga_status st = HGA_OK;
    HGA_TRY(open_member(m, SHAPE, 1));
    HGA_TRY(want_list(&m->member[SHAPE], 2));
    HGA_TRY(numpy_integer(&m->member[SHAPE].array, 0, &m->rows));
    HGA_TRY(numpy_integer(&m->member[SHAPE].array, 1, &m->columns));
    if (m->rows < 0 || m->columns < 0 || m->rows > INT32_MAX - 4097 || m->columns > INT32_MAX - 4097)
        return hga_fail(HGA_EFORMAT, "%s: a matrix of %lld rows and %lld columns", m->x->name, (long long)m->rows,
                        (long long)m->columns);
    int64_t nodes = m->rows == m->columns ? m->rows : m->rows + m->columns;
    if (m->rows != m->columns) m->x->n_queries = (hga_id)m->rows;
    if (nodes > 0) st = import_reach(m->x, nodes - 1);
done:
    return st;
}

/* The columns of what is not square are nodes of their own. */
static hga_status add_entry(matrix *m, int64_t e, int64_t row, int64_t column)
{
    double weight = 1;
    if (row < 0 || row >= m->rows || column < 0 || column >= m->columns)
        return hga_fail(HGA_EFORMAT, "%s: entry %lld lies at %lld, %lld of %lld x %lld", m->x->name, (long long)e,
                        (long long)row, (long long)column, (long long)m->rows, (long long)m->columns);
    hga_status st = numpy_real(&m->member[DATA].array, e, &weight);
    m->x->line = e + 1;
    return st ? st : import_edge_add(m->x, 0, column + (m->rows == m->columns ? 0 : m->rows), row, 0, weight);
}

/* csr: indptr over rows, indices are columns; csc the other way round. */
static hga_status read_compressed(matrix *m, int by_column)
{
    hga_status st = HGA_OK;
    int64_t n = by_column ? m->columns : m->rows, from, to = 0, other;
    HGA_TRY(open_member(m, INDPTR, 1));
    HGA_TRY(open_member(m, INDICES, 1));
    HGA_TRY(want_list(&m->member[INDPTR], n + 1));
    int64_t most = m->member[INDICES].array.has.count < m->member[DATA].array.has.count
                       ? m->member[INDICES].array.has.count
                       : m->member[DATA].array.has.count;
    HGA_TRY(numpy_integer(&m->member[INDPTR].array, 0, &from));
    if (from != 0) return hga_fail(HGA_EFORMAT, "%s begins with %lld", m->member[INDPTR].name, (long long)from);
    for (int64_t i = 0; i < n; i++, from = to) {
        HGA_TRY(numpy_integer(&m->member[INDPTR].array, i + 1, &to));
        if (to < from || to > most)
            return hga_fail(HGA_EFORMAT, "%s: %lld after %lld of %lld entries", m->member[INDPTR].name, (long long)to,
                            (long long)from, (long long)most);
        for (int64_t e = from; e < to; e++) {
            HGA_TRY(numpy_integer(&m->member[INDICES].array, e, &other));
            HGA_TRY(by_column ? add_entry(m, e, other, i) : add_entry(m, e, i, other));
        }
    }
done:
    return st;
}

static hga_status read_coordinates(matrix *m)
{
    hga_status st = HGA_OK;
    int64_t n = m->member[DATA].array.has.count, row, column;
    HGA_TRY(open_member(m, ROW, 1));
    HGA_TRY(open_member(m, COLUMN, 1));
    HGA_TRY(want_list(&m->member[ROW], n));
    HGA_TRY(want_list(&m->member[COLUMN], n));
    for (int64_t e = 0; e < n; e++) {
        HGA_TRY(numpy_integer(&m->member[ROW].array, e, &row));
        HGA_TRY(numpy_integer(&m->member[COLUMN].array, e, &column));
        HGA_TRY(add_entry(m, e, row, column));
    }
done:
    return st;
}

/* "csr" as bytes, or with four bytes a letter */
static int is_format(const numpy *a, const char *name)
{
    int step = a->has.kind == 'U' ? 4 : 1;
    if ((a->has.kind != 'S' && a->has.kind != 'U') || a->has.count != 1 || a->has.size != 3 * step) return 0;
    for (int i = 0; i < 3; i++)
        if (a->data[i * step + (a->has.swapped && step == 4 ? 3 : 0)] != (uint8_t)name[i]) return 0;
    return 1;
}

static hga_status read_matrix(matrix *m)
{
    hga_status st = HGA_OK;
    hga_id relation;
    HGA_TRY(import_relation(m->x, NULL, &relation));
    HGA_TRY(open_zip(m));
    HGA_TRY(open_member(m, FORMAT, 1));
    HGA_TRY(read_shape(m));
    HGA_TRY(open_member(m, DATA, 1));
    HGA_TRY(want_list(&m->member[DATA], 0));
    const numpy *format = &m->member[FORMAT].array;
    if (is_format(format, "csr")) return read_compressed(m, 0);
    if (is_format(format, "csc")) return read_compressed(m, 1);
    if (is_format(format, "coo")) return read_coordinates(m);
    st = hga_fail(HGA_EFORMAT, "%s: the matrix is none of csr, csc, coo", m->x->name);
done:
    return st;
}

hga_status hga_graph_read_npz(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out)
{
import x;
    matrix m = {.x = &x};
    hga_status st = import_open(&x, a, path, o, out);
    if (!st) st = read_matrix(&m);
    for (int i = 0; i < MEMBERS; i++) hga_delete(a, m.member[i].bytes, m.member[i].room, 1);
    if (m.zip) zip_discard(m.zip);
    return import_close(&x, st, out);
}
