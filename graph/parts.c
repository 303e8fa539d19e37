/* parts.c: consecutive parts of a graph, such as heads and samples. A part's rows have the same bits however long the
   parts before it are. */
#include "parts.h"
#include "builder_parts.h"
#include "builder.h"

#include <string.h>

hga_status hga_builder_set_parts(hga_builder *b, hga_id n, const hga_id *first)
{
    hga_status st = HGA_OK;
    hga_id *part = NULL;
    if (n < 1 || !first) return hga_fail(HGA_EINVAL, "%d parts%s", n, first ? "" : ", and first is NULL");
    if (first[0] != 0) return hga_fail(HGA_EINVAL, "part 0 begins with node %d; it must with 0", first[0]);
    for (hga_id i = 1; i < n; i++)
        if (first[i] < first[i - 1])
            return hga_fail(HGA_EINVAL, "part %d begins with node %d, before part %d's %d", i, first[i], i - 1,
                            first[i - 1]);
    HGA_TRY(hga_new(&b->allocator, n, sizeof *part, &part));
    memcpy(part, first, (size_t)n * sizeof *part);
    hga_delete(&b->allocator, b->part, b->n_parts, sizeof *b->part);
    b->part = part, b->n_parts = n;
done:
    return st;
}

hga_status parts_finish(hga_builder *b, hga_graph *g)
{
    if (b->n_parts && b->part[b->n_parts - 1] > g->n)
        return hga_fail(HGA_EGRAPH, "part %d begins with node %d of %d", b->n_parts - 1, b->part[b->n_parts - 1], g->n);
    g->part = b->part, g->n_parts = b->n_parts;
    b->part = NULL, b->n_parts = 0;
    return HGA_OK;
}

hga_id graph_parts(const hga_graph *g, const hga_id **first)
{
    const hga_graph *owner = g->base ? g->base : g;
    *first = owner->part;
    return owner->n_parts;
}
