/* read_numpy.c: edges as a NumPy array. */
#include "import.h"
#include "numpy.h"

static hga_status read_array(import *x)
{
    hga_status st = HGA_OK;
    numpy a;
    hga_id relation;
    HGA_TRY(import_relation(x, NULL, &relation));
    HGA_TRY(numpy_open(x->name, x->bytes, x->n_bytes, &a));
    if (a.has.n_dims != 2 || a.has.dim[1] < 2 || a.has.dim[1] > 3)
        return hga_fail(HGA_EFORMAT, "%s: edges are an array of [edges][2 or 3], not of %d axes, [%lld][%lld]", x->name,
                        a.has.n_dims, (long long)a.has.dim[0], (long long)a.has.dim[1]);
    int64_t along = a.has.fortran ? 1 : a.has.dim[1], across = a.has.fortran ? a.has.dim[0] : 1;
    for (int64_t e = 0; e < a.has.dim[0]; e++) {
        int64_t end[3] = {0, 0, 0};
        for (int64_t k = 0; k < a.has.dim[1]; k++) HGA_TRY(numpy_integer(&a, e * along + k * across, &end[k]));
        x->line = e + 1; /* what errors count */
        HGA_TRY(import_edge_add(x, relation, end[0], end[1], end[2], 1));
    }
done:
    return st;
}

hga_status hga_graph_read_npy(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out)
{
import x;
    hga_status st = import_open(&x, a, path, o, out);
    return import_close(&x, st ? st : read_array(&x), out);
}
