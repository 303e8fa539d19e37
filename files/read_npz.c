/* read_npz.c: scipy's sparse matrices. */
#include "import.h"
#include "npz.h"
#include "numpy.h"
#include "readers.h"

#include <stdio.h>
#include <string.h>

typedef struct member {
    char name[512];
    uint8_t *bytes;
    int64_t n, capacity;
    numpy array;
} member;

enum { FORMAT, SHAPE, DATA, INDICES, INDPTR, ROW, COLUMN, OFFSETS, MEMBERS };
static const char *const member_names[MEMBERS] = {"format", "shape", "data", "indices",
                                                  "indptr", "row",   "col",  "offsets"};

typedef struct matrix {
    import *x;
    npz *archive;
    member member[MEMBERS];
    int64_t rows, columns;
} matrix;

/* Refuses an archive without `format`, which is not a sparse matrix; names its first arrays. */
static hga_status refuse_archive(const matrix *m)
{
    char names[120] = "";
    int64_t n = npz_count(m->archive), shown = n < 3 ? n : 3;
    for (int64_t i = 0, used = 0; i < shown; i++)
        used += snprintf(names + used, sizeof names - (size_t)used, "%s%.30s", i ? ", " : "", npz_name(m->archive, i));
    return hga_fail(HGA_EFORMAT,
                    "%s: has the arrays (%s%s), which are no matrix of scipy.sparse.save_npz; edges or a mask are read "
                    "from the .npy that numpy.save writes",
                    m->x->name, n ? names : "none", n > shown ? ", .." : "");
}

/* Opens the array of that name. */
static hga_status open_member(matrix *m, int which)
{
    member *to = &m->member[which];
    int64_t i = 0, n = npz_count(m->archive);
    snprintf(to->name, sizeof to->name, "%s: %s.npy", m->x->name, member_names[which]);
    while (i < n && strcmp(npz_name(m->archive, i), member_names[which]) != 0) i++;
    if (i == n && which == FORMAT) return refuse_archive(m);
    if (i == n) return hga_fail(HGA_EFORMAT, "%s is missing; is it a sparse matrix of scipy's?", to->name);
    hga_status st = npz_unpack(m->archive, i, INT64_MAX, &to->bytes, &to->n, &to->capacity);
    return st ? st : numpy_open(to->name, to->bytes, to->n, 3, &to->array);
}

static hga_status expect_list(const member *x, int64_t least)
{
    if (x->array.has.n_dims == 1 && x->array.has.count >= least) return HGA_OK;
    return hga_fail(HGA_EFORMAT, "%s: %lld numbers in %d axes, where %lld are expected", x->name,
                    (long long)x->array.has.count, x->array.has.n_dims, (long long)least);
}

/* Reads the shape; the columns of a non-square matrix are nodes of their own. */
static hga_status read_shape(matrix *m)
{
    hga_status st = HGA_OK;
    HGA_TRY(open_member(m, SHAPE));
    HGA_TRY(expect_list(&m->member[SHAPE], 2));
    if (m->member[SHAPE].array.has.count != 2)
        return hga_fail(HGA_EFORMAT, "%s: an array of %lld axes, where a matrix has two", m->x->name,
                        (long long)m->member[SHAPE].array.has.count);
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

/* The value of entry e. With `pattern` the data is ignored. */
static hga_status read_weight(matrix *m, int64_t e, double *weight)
{
    *weight = 1;
    m->x->reader.line = e + 1;
    return m->x->wish->pattern ? HGA_OK : numpy_real(&m->member[DATA].array, e, weight);
}

/* Adds an entry; the columns of a non-square matrix are nodes of their own. */
static hga_status add_entry(matrix *m, int64_t e, int64_t row, int64_t column, double weight)
{
    if (row < 0 || row >= m->rows || column < 0 || column >= m->columns)
        return hga_fail(HGA_EFORMAT, "%s: entry %lld is at %lld, %lld of %lld x %lld", m->x->name, (long long)e,
                        (long long)row, (long long)column, (long long)m->rows, (long long)m->columns);
    return import_edge_add(m->x, 0, column + (m->rows == m->columns ? 0 : m->rows), row, 0, weight);
}

/* Opens the data, which must be numbers. */
static hga_status open_weights(matrix *m)
{
    hga_status st = open_member(m, DATA);
    const hga_npy *has = &m->member[DATA].array.has;
    if (st || (has->kind != 'S' && has->kind != 'U')) return st;
    return hga_fail(HGA_EFORMAT, "%s: its weights are texts, not numbers; " WITHOUT_WEIGHTS, m->member[DATA].name);
}

/* Opens the values of entries, which are not needed with `pattern`. */
static hga_status open_values(matrix *m)
{
    if (m->x->wish->pattern) return HGA_OK;
    hga_status st = open_weights(m);
    return st ? st : expect_list(&m->member[DATA], 0);
}

/* Reads the range of entries of a row (or column, or row of blocks). */
static hga_status read_entries_of(const matrix *m, int64_t i, int64_t most, int64_t *from, int64_t *to)
{
    const member *pointers = &m->member[INDPTR];
    hga_status st = HGA_OK;
    HGA_TRY(numpy_integer(&pointers->array, i, from));
    HGA_TRY(numpy_integer(&pointers->array, i + 1, to));
    if (i == 0 && *from != 0) return hga_fail(HGA_EFORMAT, "%s begins with %lld", pointers->name, (long long)*from);
    if (*to < *from || *to > most)
        return hga_fail(HGA_EFORMAT, "%s: %lld after %lld of %lld entries", pointers->name, (long long)*to,
                        (long long)*from, (long long)most);
done:
    return st;
}

/* Opens n ranges of indices; *most is the number of indices, each of which has data. */
static hga_status open_runs(matrix *m, int64_t n, int64_t n_data, int64_t *most)
{
    hga_status st = HGA_OK;
    HGA_TRY(open_member(m, INDPTR));
    HGA_TRY(open_member(m, INDICES));
    HGA_TRY(expect_list(&m->member[INDPTR], n + 1));
    HGA_TRY(expect_list(&m->member[INDICES], 0));
    *most = m->member[INDICES].array.has.count;
    if (n_data >= 0 && n_data < *most) *most = n_data;
done:
    return st;
}

/* csr: indptr by rows, indices are columns; csc: the reverse. */
static hga_status read_compressed(matrix *m, int by_column)
{
    hga_status st = HGA_OK;
    int64_t n = by_column ? m->columns : m->rows, most, from, to, other;
    double weight;
    HGA_TRY(open_values(m));
    HGA_TRY(open_runs(m, n, m->x->wish->pattern ? -1 : m->member[DATA].array.has.count, &most));
    for (int64_t i = 0; i < n; i++) {
        HGA_TRY(read_entries_of(m, i, most, &from, &to));
        for (int64_t e = from; e < to; e++) {
            HGA_TRY(numpy_integer(&m->member[INDICES].array, e, &other));
            HGA_TRY(read_weight(m, e, &weight));
            HGA_TRY(by_column ? add_entry(m, e, other, i, weight) : add_entry(m, e, i, other, weight));
        }
    }
done:
    return st;
}

static hga_status read_csr(matrix *m) { return read_compressed(m, 0); }
static hga_status read_csc(matrix *m) { return read_compressed(m, 1); }

/* coo: an entry for each row and column. */
static hga_status read_coordinates(matrix *m)
{
    hga_status st = HGA_OK;
    int64_t row, column;
    double weight;
    HGA_TRY(open_values(m));
    HGA_TRY(open_member(m, ROW));
    HGA_TRY(open_member(m, COLUMN));
    int64_t n = m->member[m->x->wish->pattern ? ROW : DATA].array.has.count;
    HGA_TRY(expect_list(&m->member[ROW], n));
    HGA_TRY(expect_list(&m->member[COLUMN], n));
    for (int64_t e = 0; e < n; e++) {
        HGA_TRY(numpy_integer(&m->member[ROW].array, e, &row));
        HGA_TRY(numpy_integer(&m->member[COLUMN].array, e, &column));
        HGA_TRY(read_weight(m, e, &weight));
        HGA_TRY(add_entry(m, e, row, column, weight));
    }
done:
    return st;
}

/* Reads an element of data with n_dims axes as a number; zeros pad a block or a diagonal. */
static hga_status read_filled(matrix *m, const int64_t *at, int n_dims, double *weight)
{
    const hga_npy *has = &m->member[DATA].array.has;
    int64_t e = 0;
    for (int k = 0; k < n_dims; k++) {
        int axis = has->fortran ? n_dims - 1 - k : k;
        e = e * has->dim[axis] + at[axis];
    }
    m->x->reader.line = e + 1;
    return numpy_real(&m->member[DATA].array, e, weight);
}

static hga_status open_filled(matrix *m, int n_dims)
{
    hga_status st = open_weights(m);
    int has = m->member[DATA].array.has.n_dims;
    if (!st && has != n_dims)
        st = hga_fail(HGA_EFORMAT, "%s: %d axes, where %d are expected", m->member[DATA].name, has, n_dims);
    return st;
}

/* Adds the entries of one block of bsr, in block row `row` and block column `column`. */
static hga_status read_block(matrix *m, int64_t block, int64_t row, int64_t column)
{
    const int64_t *size = m->member[DATA].array.has.dim + 1;
    hga_status st = HGA_OK;
    double weight;
    for (int64_t i = 0; i < size[0]; i++)
        for (int64_t j = 0; j < size[1]; j++) {
            HGA_TRY(read_filled(m, (int64_t[]){block, i, j}, 3, &weight));
            if (weight != 0) HGA_TRY(add_entry(m, block, row * size[0] + i, column * size[1] + j, weight));
        }
done:
    return st;
}

/* bsr: the range of blocks of each block row. */
static hga_status read_blocks(matrix *m)
{
    hga_status st = HGA_OK;
    int64_t most, from, to, column;
    HGA_TRY(open_filled(m, 3));
    const int64_t *dim = m->member[DATA].array.has.dim;
    if (dim[1] < 1 || dim[2] < 1 || m->rows % dim[1] || m->columns % dim[2])
        return hga_fail(HGA_EFORMAT, "%s: blocks of %lld x %lld in %lld x %lld", m->x->name, (long long)dim[1],
                        (long long)dim[2], (long long)m->rows, (long long)m->columns);
    HGA_TRY(open_runs(m, m->rows / dim[1], dim[0], &most));
    for (int64_t i = 0; i < m->rows / dim[1]; i++) {
        HGA_TRY(read_entries_of(m, i, most, &from, &to));
        for (int64_t b = from; b < to; b++) {
            HGA_TRY(numpy_integer(&m->member[INDICES].array, b, &column));
            if (column < 0 || column >= m->columns / dim[2])
                return hga_fail(HGA_EFORMAT, "%s: a block in column %lld", m->x->name, (long long)column);
            HGA_TRY(read_block(m, b, i, column));
        }
    }
done:
    return st;
}

/* dia: element [k][j] is in column j of diagonal offsets[k]; elements outside of the matrix are ignored. */
static hga_status read_diagonals(matrix *m)
{
    hga_status st = HGA_OK;
    int64_t offset;
    double weight;
    HGA_TRY(open_filled(m, 2));
    HGA_TRY(open_member(m, OFFSETS));
    const int64_t *dim = m->member[DATA].array.has.dim;
    HGA_TRY(expect_list(&m->member[OFFSETS], dim[0]));
    for (int64_t k = 0; k < dim[0]; k++) {
        HGA_TRY(numpy_integer(&m->member[OFFSETS].array, k, &offset));
        if (offset <= -m->rows || offset >= m->columns) continue;
        for (int64_t j = offset > 0 ? offset : 0; j < dim[1] && j < m->columns && j - offset < m->rows; j++) {
            HGA_TRY(read_filled(m, (int64_t[]){k, j}, 2, &weight));
            if (weight != 0) HGA_TRY(add_entry(m, k, j - offset, j, weight));
        }
    }
done:
    return st;
}

/* "csr" as bytes, or as UCS-4 */
static int is_format(const numpy *a, const char *name)
{
    int step = a->has.kind == 'U' ? 4 : 1;
    if ((a->has.kind != 'S' && a->has.kind != 'U') || a->has.count != 1 || a->has.size != 3 * step) return 0;
    for (int i = 0; i < 3; i++)
        if (a->data[i * step + (a->has.swapped && step == 4 ? 3 : 0)] != (uint8_t)name[i]) return 0;
    return 1;
}

static const struct {
    const char *name;
    hga_status (*read)(matrix *m);
} formats[] = {
    {"csr", read_csr}, {"csc", read_csc}, {"coo", read_coordinates}, {"bsr", read_blocks}, {"dia", read_diagonals}};

/* Reads a matrix in the format that the file names. */
static hga_status read_matrix(matrix *m)
{
    hga_status st = HGA_OK;
    hga_id relation;
    HGA_TRY(import_relation(m->x, NULL, &relation));
    HGA_TRY(npz_open(m->x->allocator, m->x->name, m->x->file.at ? m->x->file.at : "", m->x->file.n, &m->archive));
    HGA_TRY(open_member(m, FORMAT));
    HGA_TRY(read_shape(m));
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (is_format(&m->member[FORMAT].array, formats[i].name)) return formats[i].read(m);
    st = hga_fail(HGA_EFORMAT, "%s: the matrix is not one of csr, csc, coo, bsr, dia", m->x->name);
done:
    return st;
}

hga_status import_npz(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out)
{
import x;
    matrix m = {.x = &x};
    hga_status st = import_open(&x, a, path, o, out);
    if (!st) st = read_matrix(&m);
    for (int i = 0; i < MEMBERS; i++) hga_delete(a, m.member[i].bytes, m.member[i].capacity, 1);
    npz_close(m.archive);
    return import_close(&x, st, out);
}
