/* read_mtx.c: Matrix Market files. */
#include "import.h"

#include <string.h>
#include <strings.h>

typedef struct header {
    int pattern, symmetric;
} header;

/* %%MatrixMarket matrix coordinate real|integer|pattern general|symmetric */
static hga_status read_header(import *x, header *h)
{
    char word[5][24];
    for (int i = 0; i < 5; i++) scan_word(x, word[i], sizeof word[i]);
    if (strcasecmp(word[0], "%%MatrixMarket") != 0 || strcasecmp(word[1], "matrix") != 0)
        return scan_wrong(x, "a Matrix Market file begins with %%%%MatrixMarket matrix");
    if (strcasecmp(word[2], "coordinate") != 0)
        return scan_wrong(x, "'%s': only coordinate matrices are graphs", word[2]);
    h->pattern = strcasecmp(word[3], "pattern") == 0;
    if (!h->pattern && strcasecmp(word[3], "real") != 0 && strcasecmp(word[3], "integer") != 0 &&
        strcasecmp(word[3], "double") != 0)
        return scan_wrong(x, "'%s': values are real, integer or pattern", word[3]);
    h->symmetric = strcasecmp(word[4], "symmetric") == 0;
    if (!h->symmetric && strcasecmp(word[4], "general") != 0)
        return scan_wrong(x, "'%s': a matrix is general or symmetric", word[4]);
    return HGA_OK;
}

/* To the next line that is no comment and not empty. */
static hga_status next_entry(import *x, const char *what)
{
    while (scan_next_line(x)) {
        scan_blanks(x);
        if (!scan_at_line_end(x) && *x->at != '%') return HGA_OK;
    }
    return scan_wrong(x, "the file ends before %s", what);
}

static hga_status read_sizes(import *x, int64_t *rows, int64_t *columns, int64_t *entries)
{
    hga_status st = HGA_OK;
    HGA_TRY(next_entry(x, "its sizes"));
    HGA_TRY(scan_integer(x, "rows", 0, INT32_MAX - 4097, rows));
    HGA_TRY(scan_integer(x, "columns", 0, INT32_MAX - 4097, columns));
    HGA_TRY(scan_integer(x, "entries", 0, INT64_MAX / 64, entries));
    if (*rows != *columns) x->n_queries = (hga_id)*rows;
    int64_t nodes = *rows == *columns ? *rows : *rows + *columns;
    if (nodes > 0) st = import_reach(x, nodes - 1);
done:
    return st;
}

/* Row and column count from 1; the columns of what is not square are nodes of their own. */
static hga_status read_entry(import *x, const header *h, int64_t rows, int64_t columns)
{
    hga_status st = HGA_OK;
    int64_t row, column, apart = rows == columns ? 0 : rows;
    double weight = 1;
    HGA_TRY(next_entry(x, "its last entry"));
    HGA_TRY(scan_integer(x, "row", 1, rows, &row));
    HGA_TRY(scan_integer(x, "column", 1, columns, &column));
    if (!h->pattern) HGA_TRY(scan_real(x, "value", &weight));
    scan_blanks(x);
    if (!scan_at_line_end(x)) HGA_TRY(scan_wrong(x, "more numbers than an entry has"));
    HGA_TRY(import_edge_add(x, 0, column - 1 + apart, row - 1, 0, weight));
    if (h->symmetric && row != column) st = import_edge_add(x, 0, row - 1, column - 1, 0, weight);
done:
    return st;
}

static hga_status read_matrix(import *x)
{
    hga_status st = HGA_OK;
    header h = {0};
    hga_id relation;
    int64_t rows = 0, columns = 0, entries = 0;
    HGA_TRY(import_relation(x, NULL, &relation));
    HGA_TRY(read_header(x, &h));
    HGA_TRY(read_sizes(x, &rows, &columns, &entries));
    if (h.symmetric && rows != columns) HGA_TRY(scan_wrong(x, "a symmetric matrix is square"));
    for (int64_t i = 0; i < entries; i++) HGA_TRY(read_entry(x, &h, rows, columns));
done:
    return st;
}

hga_status hga_graph_read_mtx(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out)
{
import x;
    hga_status st = import_open(&x, a, path, o, out);
    return import_close(&x, st ? st : read_matrix(&x), out);
}
