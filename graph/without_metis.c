/* without_metis.c: in place of partition.c and cut_in_two.c where METIS is left out. */
#include "partition.h"

hga_status partition_graph(const hga_allocator *a, int64_t n_vertices, const int64_t *ptr, const int64_t *adj,
                           const int64_t *vertex_weight, const int64_t *edge_weight, hga_id n_parts, part_found found,
                           void *context, hga_id *part)
{
    (void)a, (void)ptr, (void)adj, (void)vertex_weight, (void)edge_weight, (void)found, (void)context, (void)part;
    return hga_fail(HGA_EUNSUPPORTED,
                    "%d parts of %lld nodes need METIS, which this library was built without (HGA_WITH_METIS=OFF)",
                    n_parts, (long long)n_vertices);
}
