/* read_numpy.c: edges as a NumPy array of integers, or a mask as an array of booleans. */
#include "import.h"
#include "numpy.h"
#include "readers.h"

/* Row q of a mask in Fortran order. */
static hga_status tell_rows(void *context, hga_id first, hga_id n, uint8_t *sees)
{
    const numpy *a = context;
    int64_t rows = a->has.dim[0], columns = a->has.dim[1];
    for (int64_t k = 0; k < columns; k++)
        for (hga_id i = 0; i < n; i++) sees[i * columns + k] = a->data[k * rows + first + i];
    return HGA_OK;
}

/* Finds blocks in a mask, for graphs of tokens only. */
static hga_status find_blocks(import *x, numpy *a)
{
    hga_mask mask = {
        .n_queries = (hga_id)a->has.dim[0], .n_keys = (hga_id)a->has.dim[1], .relation = x->wish->relation};
    if (a->has.fortran)
        mask.sees = tell_rows, mask.context = a;
    else
        mask.bytes = a->data;
    return hga_graph_from_predicate(x->allocator, &mask, &x->made);
}

/* With a tree, adds the entries of a mask as edges. */
static hga_status list_tree_edges(import *x, const numpy *a, hga_id relation)
{
    hga_status st = HGA_OK;
    int64_t rows = a->has.dim[0], columns = a->has.dim[1], key_first = rows == columns ? 0 : rows;
    if (key_first) x->n_queries = (hga_id)rows;
    for (int64_t q = 0; q < rows; q++)
        for (int64_t k = 0; k < columns; k++)
            if (a->data[a->has.fortran ? k * rows + q : q * columns + k])
                HGA_TRY(import_edge_add(x, relation, key_first + k, q, 0, 1));
done:
    return st;
}

/* Reads a mask as blocks, or with a tree edge by edge. */
static hga_status read_mask(import *x, numpy *a, hga_id relation)
{
    hga_status st = HGA_OK;
    int64_t rows = a->has.dim[0], columns = a->has.dim[1], n;
    if (__builtin_add_overflow(rows, rows == columns ? 0 : columns, &n)) n = INT64_MAX;
    if (n > 0) HGA_TRY(import_reach(x, n - 1));
    if (x->wish->parents || x->wish->depth_first || relation < 0) return list_tree_edges(x, a, relation);
    return find_blocks(x, a);
done:
    return st;
}

/* Refuses a square array of zeros and ones, which may be two or three edges or a mask of as many tokens. */
static hga_status check_mask(const import *x, const numpy *a)
{
    hga_status st = HGA_OK;
    int64_t number, highest = 0;
    for (int64_t i = 0; i < a->has.count && highest < 2; i++) {
        HGA_TRY(numpy_integer(a, i, &number));
        if (number < 0 || number > highest) highest = number < 0 ? 2 : number;
    }
    if (a->has.dim[0] == a->has.dim[1] && highest < 2)
        st = hga_fail(HGA_EFORMAT,
                      "%s: whole numbers [%lld][%lld] that are 0 and 1 alone may be edges or a mask: save a mask as "
                      "truth values (.astype(bool)), edges as .csv",
                      x->name, (long long)a->has.dim[0], (long long)a->has.dim[1]);
done:
    return st;
}

/* Reads a mask, or edges of two or three numbers. */
static hga_status read_array(import *x)
{
    hga_status st = HGA_OK;
    numpy a;
    hga_id relation;
    HGA_TRY(import_relation(x, NULL, &relation));
    HGA_TRY(numpy_open(x->name, x->file.at, x->file.n, 2, &a));
    if (a.has.kind == 'b' && a.has.n_dims == 2) return read_mask(x, &a, relation);
    if (a.has.n_dims != 2 || a.has.dim[1] < 2 || a.has.dim[1] > 3)
        return hga_fail(HGA_EFORMAT,
                        "%s: edges are whole numbers, [edges][2 or 3], a mask truth values (.astype(bool)), "
                        "[rows][columns]; this has %d axes, [%lld][%lld]",
                        x->name, a.has.n_dims, (long long)a.has.dim[0], (long long)a.has.dim[1]);
    HGA_TRY(check_mask(x, &a));
    int64_t along = a.has.fortran ? 1 : a.has.dim[1], across = a.has.fortran ? a.has.dim[0] : 1;
    for (int64_t e = 0; e < a.has.dim[0]; e++) {
        int64_t end[3] = {0, 0, 0};
        for (int64_t k = 0; k < a.has.dim[1]; k++) HGA_TRY(numpy_integer(&a, e * along + k * across, &end[k]));
        x->reader.line = e + 1; /* the line number in errors */
        HGA_TRY(import_edge_add(x, relation, end[0], end[1], end[2], 1));
    }
done:
    return st;
}

hga_status import_npy(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out)
{
import x;
    hga_status st = import_open(&x, a, path, o, out);
    return import_close(&x, st ? st : read_array(&x), out);
}
