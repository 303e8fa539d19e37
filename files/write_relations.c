/* write_relations.c: the relations that a writer accepts: one of the graph, the tree as one, or all of them. */
#include "write.h"

static int has_tree(const hga_nodes *nodes)
{
    return nodes->child_ptr && nodes->child_ptr[nodes->n - nodes->level_ptr[1]] > 0;
}

static int is_tree(hga_id relation) { return relation == HGA_TREE_UP || relation == HGA_TREE_DOWN; }

hga_status relation_check(const hga_graph *g, hga_id relation)
{
    hga_id n = hga_graph_nodes(g).n_relations;
    if (is_tree(relation) || (relation >= 0 && relation < n)) return HGA_OK;
    if (relation == HGA_ALL_RELATIONS) return hga_fail(HGA_EUNSUPPORTED, "this format holds one relation");
    return hga_fail(HGA_EINVAL, "relation %d: the graph has %d", relation, n);
}

hga_status relations_check(const hga_graph *g, hga_id relation)
{
    return relation == HGA_ALL_RELATIONS ? HGA_OK : relation_check(g, relation);
}

hga_relation relation_view(const hga_graph *g, hga_id relation)
{
    if (relation >= 0) return hga_graph_relation(g, relation);
    hga_nodes nodes = hga_graph_nodes(g);
    hga_pos n = has_tree(&nodes) ? nodes.child_ptr[nodes.n - nodes.level_ptr[1]] : 0;
    return (hga_relation){
        .name = relation == HGA_TREE_UP ? "tree up" : "tree down", .n_edges = n, .n_explicit = n, .n_types = 1};
}

hga_id relation_transposed(hga_id relation)
{
    if (!is_tree(relation)) return relation;
    return relation == HGA_TREE_UP ? HGA_TREE_DOWN : HGA_TREE_UP;
}

/* ---- rows of the tree ---- */

static hga_id n_children(const hga_nodes *nodes, hga_id v)
{
    hga_id i = v - nodes->level_ptr[1];
    return i < 0 || !has_tree(nodes) ? 0 : nodes->child_ptr[i + 1] - nodes->child_ptr[i];
}

static hga_id in_degree(const hga_nodes *nodes, hga_id relation, hga_id v)
{
    if (relation == HGA_TREE_UP) return n_children(nodes, v);
    return nodes->parent && nodes->parent[v] >= 0;
}

void relation_degrees(const hga_graph *g, hga_id relation, hga_id first, hga_id n, hga_pos *degree)
{
    hga_nodes nodes = hga_graph_nodes(g);
    if (relation >= 0)
        hga_graph_degrees(g, relation, first, n, degree);
    else
        for (hga_id i = 0; i < n; i++) degree[i] = in_degree(&nodes, relation, first + i);
}

static hga_id source_of(const hga_nodes *nodes, hga_id relation, hga_id v, hga_id i)
{
    if (relation == HGA_TREE_DOWN) return nodes->parent[v];
    hga_id at = nodes->child_ptr[v - nodes->level_ptr[1]] + i;
    return nodes->child_list ? nodes->child_list[at] : at;
}

/* Rows of the tree's edges: type 0, weight 1, children in ascending order. */
hga_status relation_rows(const hga_graph *g, hga_id relation, hga_id first, hga_id n, hga_csr *out)
{
    if (relation >= 0) return hga_graph_rows(g, relation, first, n, out);
    hga_status st = HGA_OK;
    hga_nodes nodes = hga_graph_nodes(g);
    const hga_allocator *a = hga_graph_allocator(g);
    *out = (hga_csr){.first = first, .n = n, .allocator = *a};
    HGA_TRY(hga_new(a, (int64_t)n + 1, sizeof *out->ptr, &out->ptr));
    out->ptr[0] = 0;
    for (hga_id i = 0; i < n; i++) out->ptr[i + 1] = out->ptr[i] + in_degree(&nodes, relation, first + i);
    HGA_TRY(hga_new(a, out->ptr[n], sizeof *out->src, &out->src));
    HGA_TRY(hga_new_zero(a, out->ptr[n], sizeof *out->type, &out->type));
    HGA_TRY(hga_new(a, out->ptr[n], sizeof *out->weight, &out->weight));
    for (hga_id i = 0; i < n; i++)
        for (hga_pos e = out->ptr[i]; e < out->ptr[i + 1]; e++) {
            out->src[e] = source_of(&nodes, relation, first + i, (hga_id)(e - out->ptr[i]));
            out->weight[e] = 1;
        }
done:
    if (st) hga_csr_clear(out);
    return st;
}

/* ---- all of them ---- */

/* All relations include the tree, where the graph has one. */
relations relations_of(const hga_graph *g, hga_id relation)
{
    hga_nodes nodes = hga_graph_nodes(g);
    relations r = {.n = 1, .first = relation, .all = relation == HGA_ALL_RELATIONS};
    if (r.all) r.n = nodes.n_relations + has_tree(&nodes), r.first = 0;
    for (hga_id i = 0; i < r.n; i++) {
        hga_relation one = relation_view(g, relations_at(g, &r, i));
        r.weighted |= one.weighted, r.n_edges += one.n_edges;
    }
    return r;
}

hga_id relations_at(const hga_graph *g, const relations *r, hga_id i)
{
    return r->all && i == hga_graph_nodes(g).n_relations ? HGA_TREE_UP : r->first + i;
}
