/* kinds.c: kinds of nodes, such as text and picture: set in a builder, read in a graph. */
#include "builder.h"
#include "builder_parts.h"
#include "kind_list.h"

/* ---- the builder ---- */

hga_status hga_builder_set_kinds(hga_builder *b, hga_id first, hga_id n, const char *kind)
{
    hga_status st = HGA_OK;
    declared_kinds declared = {.first = first, .n = n};
    if (first < 0 || n < 0 || first > b->n - n)
        return hga_fail(HGA_EGRAPH, "kind: nodes %d .. %lld leave [0, %d)", first, (long long)first + n - 1, b->n);
    HGA_TRY(kinds_note(&b->allocator, &b->kinds, kind, &declared.kind));
    HGA_TRY(hga_grow(&b->allocator, &b->declared.list, &b->declared.capacity, b->declared.n, b->declared.n + 1,
                     sizeof *b->declared.list));
    b->declared.list[b->declared.n++] = declared;
done:
    return st;
}

/* The graph takes the builder's names. */
hga_status kinds_finish(hga_builder *b, hga_graph *g)
{
    if (b->declared.n == 0) return HGA_OK;
    hga_status st = hga_new(&g->allocator, g->n, sizeof *g->node.kind, &g->node.kind);
    if (st) return st;
    for (hga_id v = 0; v < g->n; v++) g->node.kind[v] = -1;
    for (int64_t i = 0; i < b->declared.n; i++)
        for (hga_id v = 0; v < b->declared.list[i].n; v++)
            g->node.kind[b->declared.list[i].first + v] = b->declared.list[i].kind;
    g->kinds = b->kinds, b->kinds = (kind_list){0};
    return HGA_OK;
}

/* ---- the graph ---- */

hga_kinds hga_graph_kinds(const hga_graph *g)
{
    return (hga_kinds){g->kinds.n, (const char *const *)g->kinds.name, g->node.kind};
}

hga_status hga_graph_set_kinds(const hga_graph *g, const char *const *kind, hga_id n, hga_graph **out)
{
    *out = NULL;
    if (n < 0 || n > g->n) return hga_fail(HGA_EINVAL, "%d kinds for %d nodes", n, g->n);
    return graph_with_labels(g, NULL, 0, kind, n, out);
}
