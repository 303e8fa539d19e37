/* read_mtx.c: Matrix Market files. */
#include "import.h"
#include "readers.h"
#include "scan.h"

#include <string.h>
#include <strings.h>

typedef enum symmetry { GENERAL, SYMMETRIC, SKEW, HERMITIAN, SYMMETRIES } symmetry;

typedef struct header {
    int is_array, is_pattern;
    int n_values; /* of an entry: 0, 1, or 2 for a complex value */
    symmetry symmetry;
} header;

/* The index of `word` among n words; n if it is none of them. */
static int which_word(const char *word, const char *const *words, int n)
{
    int i = 0;
    while (i < n && strcasecmp(word, words[i]) != 0) i++;
    return i;
}

/* %%MatrixMarket matrix coordinate|array real|.. general|.. */
static hga_status read_mtx_header(import *x, header *h)
{
    static const char *const kinds[] = {"real", "integer", "double", "unsigned-integer", "pattern", "complex"};
    static const char *const symmetries[SYMMETRIES] = {"general", "symmetric", "skew-symmetric", "hermitian"};
    char word[5][24];
    for (int i = 0; i < 5; i++) scan_word(x, word[i], sizeof word[i]);
    if (strcasecmp(word[0], "%%MatrixMarket") != 0 || strcasecmp(word[1], "matrix") != 0)
        return scan_wrong(x, "a Matrix Market file begins with %%%%MatrixMarket matrix");
    h->is_array = strcasecmp(word[2], "array") == 0;
    if (!h->is_array && strcasecmp(word[2], "coordinate") != 0)
        return scan_wrong(x, "'%s': a matrix is a coordinate one or an array", word[2]);
    int kind = which_word(word[3], kinds, 6);
    if (kind == 6) return scan_wrong(x, "'%s': values are real, integer, complex or pattern", word[3]);
    h->is_pattern = kind == 4, h->n_values = kind == 4 ? 0 : kind == 5 ? 2 : 1;
    if (h->is_pattern && h->is_array) return scan_wrong(x, "an array has values, and no pattern alone");
    if (h->n_values == 2 && !x->wish->pattern)
        return scan_wrong(x, "complex values are no weights; --pattern, in Python weights=\"ignore\", reads edges "
                             "without weights");
    h->symmetry = (symmetry)which_word(word[4], symmetries, SYMMETRIES);
    if (h->symmetry == SYMMETRIES)
        return scan_wrong(x, "'%s': a matrix is general, symmetric, skew-symmetric or hermitian", word[4]);
    return HGA_OK;
}

/* Advances to the next line that is neither a comment nor empty; returns 0 at the end. */
static int find_entry(import *x)
{
    while (scan_next_line(x)) {
        scan_blanks(x);
        if (!scan_at_line_end(x) && *x->reader.at != '%') return 1;
    }
    return 0;
}

static hga_status next_entry(import *x, const char *what)
{
    return find_entry(x) ? HGA_OK : scan_wrong(x, "the file ends before %s", what);
}

/* Reads the numbers of rows, columns and entries; the columns of a non-square matrix are nodes of their own. */
static hga_status read_sizes(import *x, const header *h, int64_t *rows, int64_t *columns, int64_t *entries)
{
    hga_status st = HGA_OK;
    HGA_TRY(next_entry(x, "its sizes"));
    HGA_TRY(scan_integer(x, "rows", 0, INT32_MAX - 4097, rows));
    HGA_TRY(scan_integer(x, "columns", 0, INT32_MAX - 4097, columns));
    if (!h->is_array) HGA_TRY(scan_integer(x, "entries", 0, INT64_MAX / 64, entries));
    scan_blanks(x);
    if (!scan_at_line_end(x)) HGA_TRY(scan_wrong(x, "more numbers than the sizes of a matrix"));
    if (h->symmetry != GENERAL && *rows != *columns) HGA_TRY(scan_wrong(x, "a symmetric matrix is square"));
    if (*rows != *columns) x->n_queries = (hga_id)*rows;
    int64_t nodes = *rows == *columns ? *rows : *rows + *columns;
    if (nodes > 0) st = import_reach(x, nodes - 1);
done:
    return st;
}

/* Reads the value of an entry and whether it is 0. */
static hga_status read_value(import *x, const header *h, double *weight, int *is_zero)
{
    hga_status st = HGA_OK;
    double value[2] = {1, 0};
    for (int i = 0; i < h->n_values; i++) HGA_TRY(scan_real(x, "value", &value[i]));
    *weight = value[0], *is_zero = value[0] == 0 && value[1] == 0;
    scan_blanks(x);
    if (!scan_at_line_end(x)) st = scan_wrong(x, "more numbers than an entry has");
done:
    return st;
}

/* Adds an entry, and its mirror image where the matrix is symmetric. The columns of a non-square matrix are nodes of
   their own. */
static hga_status add_entry(import *x, const header *h, int64_t row, int64_t column, double weight)
{
    int64_t first_key = x->n_queries < 0 ? 0 : x->n_queries;
    hga_status st = import_edge_add(x, 0, column + first_key, row, 0, weight);
    if (st || h->symmetry == GENERAL || row == column) return st;
    return import_edge_add(x, 0, row, column, 0, h->symmetry == SKEW ? -weight : weight);
}

/* Reads an entry; indices count from 1, and a stored zero is an edge too. */
static hga_status read_entry(import *x, const header *h, int64_t rows, int64_t columns)
{
    hga_status st = HGA_OK;
    int64_t row, column;
    double weight;
    int is_zero;
    HGA_TRY(next_entry(x, "its last entry"));
    HGA_TRY(scan_integer(x, "row", 1, rows, &row));
    HGA_TRY(scan_integer(x, "column", 1, columns, &column));
    HGA_TRY(read_value(x, h, &weight, &is_zero));
    st = add_entry(x, h, row - 1, column - 1, weight);
done:
    return st;
}

/* Reads a dense matrix, column by column; of a symmetric one the part from the diagonal down, or below it. */
static hga_status read_array(import *x, const header *h, int64_t rows, int64_t columns)
{
    hga_status st = HGA_OK;
    double weight;
    int is_zero;
    for (int64_t column = 0; column < columns; column++)
        for (int64_t row = h->symmetry == GENERAL ? 0 : column + (h->symmetry == SKEW); row < rows; row++) {
            HGA_TRY(next_entry(x, "its last entry"));
            HGA_TRY(read_value(x, h, &weight, &is_zero));
            if (!is_zero) HGA_TRY(add_entry(x, h, row, column, weight));
        }
done:
    return st;
}

/* Reads exactly as many entries as the header gives. */
static hga_status read_matrix(import *x)
{
    hga_status st = HGA_OK;
    header h = {0};
    hga_id relation;
    int64_t rows = 0, columns = 0, entries = 0;
    HGA_TRY(scan_start(x));
    HGA_TRY(import_relation(x, NULL, &relation));
    HGA_TRY(read_mtx_header(x, &h));
    HGA_TRY(read_sizes(x, &h, &rows, &columns, &entries));
    for (int64_t i = 0; i < entries; i++) HGA_TRY(read_entry(x, &h, rows, columns));
    if (h.is_array) HGA_TRY(read_array(x, &h, rows, columns));
    if (find_entry(x)) st = scan_wrong(x, "more entries than its sizes say");
done:
    return st;
}

hga_status import_mtx(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out)
{
import x;
    hga_status st = import_open(&x, a, path, o, out);
    return import_close(&x, st ? st : read_matrix(&x), out);
}
