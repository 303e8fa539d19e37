/* sorted_edges.h: lists of edges by their ends, as CXSparse sorts them (graph/sorted_edges.c; without_cxsparse.c stands
   in its place). */
#ifndef HGA_SORTED_EDGES_H
#define HGA_SORTED_EDGES_H

#include "hga_base.h"

/* Edges row after row: those of row i are [ptr[i], ptr[i + 1]). */
typedef struct sorted_edges {
    hga_id rows;
    hga_pos n;
    hga_pos *ptr;    /* [rows + 1] */
    hga_id *column;  /* [n] */
    hga_pos *number; /* [n]: which edge it was before; NULL: not requested */
} sorted_edges;

static inline void edges_clear(const hga_allocator *a, sorted_edges *x)
{
    hga_delete(a, x->ptr, (int64_t)x->rows + 1, sizeof *x->ptr);
    hga_delete(a, x->column, x->n, sizeof *x->column);
    hga_delete(a, x->number, x->n, sizeof *x->number);
    x->rows = 0, x->n = 0, x->ptr = NULL, x->column = NULL, x->number = NULL;
}

/* Edges of a relation, as they come; `numbered`: the result has their old numbers. */
typedef struct loose_edges {
    const char *relation;
    hga_id nodes;
    hga_pos n;
    const hga_id *row, *column; /* [n] */
    int numbered;
    int wide; /* 64-bit positions, however many there are: for tests */
} loose_edges;

/* By row and then by column. Equal ones stay in their order. */
hga_status edges_sort(const hga_allocator *a, const loose_edges *x, sorted_edges *out);

/* Rows of a relation whose columns are all in [first, first + columns). */
typedef struct edges_by_row {
    const char *relation;
    hga_id rows, first, columns;
    const hga_pos *ptr;   /* [rows + 1] */
    const hga_id *column; /* those of row i are [ptr[i], ptr[i + 1]) */
    int numbered;         /* from ptr[0] on */
    int wide;             /* as of loose edges */
} edges_by_row;

/* The transpose, whose row 0 is column `first`; the columns of its rows ascend. */
hga_status edges_transpose(const hga_allocator *a, const edges_by_row *x, sorted_edges *out);

#endif
