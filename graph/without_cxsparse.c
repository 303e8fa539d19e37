/* without_cxsparse.c: in place of sparse.c where CXSparse is left out: relations without explicit edges alone. */
#include "graph.h"

hga_status sparse_compress(const hga_allocator *a, hga_id n, explicit_edge *edges, hga_pos n_edges, int sums,
                           stored_relation *out)
{
    (void)a, (void)n, (void)edges, (void)sums;
    return hga_fail(HGA_EUNSUPPORTED,
                    "relation %s: its %lld edges that are given one by one need CXSparse, which this library was built "
                    "without (HGA_WITH_CXSPARSE=OFF); blocks do not",
                    out->name, (long long)n_edges);
}
