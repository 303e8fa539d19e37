/* labels.c: names of nodes: set in a builder, read in a graph. */
#include "builder.h"
#include "builder_parts.h"
#include "kind_list.h"
#include "load.h"

#include <stddef.h>
#include <string.h>

hga_status hga_builder_set_name(hga_builder *b, hga_id node, const char *name)
{
    hga_status st = HGA_OK;
    if (node < 0 || node >= b->n) return hga_fail(HGA_EGRAPH, "name: node %d leaves [0, %d)", node, b->n);
    if (!name) return hga_fail(HGA_EINVAL, "the name of node %d is NULL", node);
    int64_t length = (int64_t)strlen(name);
    if (!is_utf8(name, length)) return hga_fail(HGA_EGRAPH, "the name of node %d is not UTF-8", node);
    HGA_TRY(hga_grow(&b->allocator, &b->labels.list, &b->labels.capacity, b->labels.n, b->labels.n + 1,
                     sizeof *b->labels.list));
    HGA_TRY(hga_grow(&b->allocator, &b->labels.text, &b->labels.text_capacity, b->labels.text_bytes,
                     b->labels.text_bytes + length + 1, 1));
    memcpy(b->labels.text + b->labels.text_bytes, name, (size_t)length + 1);
    b->labels.list[b->labels.n++] = (label){node, b->labels.text_bytes};
    b->labels.text_bytes += length + 1;
done:
    return st;
}

/* The graph takes the builder's texts. */
hga_status labels_finish(hga_builder *b, hga_graph *g)
{
    if (b->labels.n == 0) return HGA_OK;
    hga_status st = hga_new(&g->allocator, g->n, sizeof *g->node_names.at, &g->node_names.at);
    if (st) return st;
    for (hga_id v = 0; v < g->n; v++) g->node_names.at[v] = -1;
    for (int64_t i = 0; i < b->labels.n; i++) g->node_names.at[b->labels.list[i].node] = b->labels.list[i].at;
    g->node_names.text = b->labels.text, g->node_names.bytes = b->labels.text_capacity;
    b->labels.text = NULL, b->labels.text_capacity = b->labels.text_bytes = 0;
    return HGA_OK;
}

const char *hga_graph_name(const hga_graph *g, hga_id node)
{
    return g->node_names.at && node >= 0 && node < g->n && g->node_names.at[node] >= 0
               ? g->node_names.text + g->node_names.at[node]
               : NULL;
}

/* ---- the same graph with other names ---- */

/* The new name of node v, or its old one; NULL: none. */
static const char *new_name(const hga_graph *g, const char *const *name, hga_id n, hga_id v)
{
    return v < n && name[v] ? name[v] : hga_graph_name(g, v);
}

/* Copies the nodes' new names into one contiguous text. */
static hga_status copy_names(const hga_graph *g, const char *const *name, hga_id n, hga_graph *named)
{
    int64_t bytes = 0;
    for (hga_id v = 0; v < g->n; v++) {
        const char *text = new_name(g, name, n, v);
        if (!text) continue;
        if (!is_utf8(text, (int64_t)strlen(text))) return hga_fail(HGA_EGRAPH, "the name of node %d is not UTF-8", v);
        bytes += (int64_t)strlen(text) + 1;
    }
    hga_status st = hga_new(&g->allocator, g->n, sizeof *named->node_names.at, &named->node_names.at);
    if (!st) st = hga_new(&g->allocator, bytes, 1, &named->node_names.text);
    if (st) return st;
    named->node_names.bytes = bytes;
    int64_t at = 0;
    for (hga_id v = 0; v < g->n; v++) {
        const char *text = new_name(g, name, n, v);
        named->node_names.at[v] = text ? at : -1;
        if (!text) continue;
        memcpy(named->node_names.text + at, text, strlen(text) + 1);
        at += (int64_t)strlen(text) + 1;
    }
    return HGA_OK;
}

/* A graph that has its own names and kinds and shares everything else with g. */
hga_status graph_with_labels(const hga_graph *g, const char *const *name, hga_id n_names, const char *const *kind,
                             hga_id n_kinds, hga_graph **out)
{
    hga_graph *with = NULL;
    hga_status st = hga_new(&g->allocator, 1, sizeof *with, &with);
    if (st) return st;
    memcpy((char *)with + offsetof(hga_graph, allocator), (const char *)g + offsetof(hga_graph, allocator),
           sizeof *g - offsetof(hga_graph, allocator));
    with->owners = 1;
    with->node_names.at = NULL, with->node_names.text = NULL, with->node_names.bytes = 0;
    with->kinds = (kind_list){0}, with->node.kind = NULL;
    with->base = hga_graph_retain(g);
    if (n_names || g->node_names.at) st = copy_names(g, name, n_names, with);
    if (!st) st = kinds_take(g, kind, n_kinds, with);
    if (st)
        graph_free(with);
    else
        *out = with;
    return st;
}

hga_status hga_graph_set_names(const hga_graph *g, const char *const *name, hga_id n, hga_graph **out)
{
    *out = NULL;
    if (n < 0 || n > g->n) return hga_fail(HGA_EINVAL, "%d names for %d nodes", n, g->n);
    return graph_with_labels(g, name, n, NULL, 0, out);
}
