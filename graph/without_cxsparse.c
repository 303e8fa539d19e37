/* without_cxsparse.c: in place of sorted_edges.c where CXSparse is left out: relations without explicit edges alone. */
#include "sorted_edges.h"

static hga_status refuse(const char *relation, hga_pos n)
{
    return hga_fail(HGA_EUNSUPPORTED,
                    "relation %s: its %lld edges that are given one by one need CXSparse, which this library was built "
                    "without (HGA_WITH_CXSPARSE=OFF); blocks do not",
                    relation, (long long)n);
}

hga_status edges_sort(const hga_allocator *a, const loose_edges *x, sorted_edges *out)
{
    (void)a, *out = (sorted_edges){0};
    return refuse(x->relation, x->n);
}

hga_status edges_transpose(const hga_allocator *a, const edges_by_row *x, sorted_edges *out)
{
    (void)a, *out = (sorted_edges){0};
    return refuse(x->relation, x->ptr[x->rows] - x->ptr[0]);
}
