/* copy.c: copies a graph's contents to a builder; what can be derived is left out. */
#include "copy.h"
#include "graph.h"

/* (*out)[v] is the sum of the children's masses, 1 without children. It is summed in the builder's order, so that both
   round alike. sum -1: no child yet; ids ascend with levels, so every child comes before its parent. */
hga_status masses_by_default(const hga_allocator *a, hga_id n, const hga_id *parent, const float *mass, float **out)
{
    hga_status st = HGA_OK;
    double *sum = NULL;
    HGA_TRY(hga_new(a, n, sizeof **out, out));
    HGA_TRY(hga_new(a, n, sizeof *sum, &sum));
    for (hga_id v = 0; v < n; v++) sum[v] = -1;
    for (hga_id v = 0; v < n; v++) {
        hga_id p = parent ? parent[v] : -1;
        (*out)[v] = sum[v] < 0 ? 1 : (float)sum[v];
        if (p >= 0) sum[p] = (sum[p] < 0 ? 0 : sum[p]) + (double)mass[v];
    }
done:
    hga_delete(a, sum, n, sizeof *sum);
    return st;
}

/* ---- families ---- */

static hga_id same_parent_until(const hga_id *parent, hga_id n_nodes, hga_id child)
{
    hga_id end = child + 1;
    while (end < n_nodes && parent[end] == parent[child]) end++;
    return end;
}

/* The children from `child` on of consecutive parents with equally many children each, the last perhaps fewer. */
family_run family_run_at(const hga_id *parent, hga_id n_nodes, hga_id child)
{
    hga_id end = same_parent_until(parent, n_nodes, child);
    family_run run = {parent[child], child, end - child, end - child};
    for (hga_id p = run.parent + 1, size = run.each; size == run.each && end < n_nodes && parent[end] == p; p++) {
        hga_id next = same_parent_until(parent, n_nodes, end);
        size = next - end;
        if (size > run.each) break;
        end = next, run.n += size;
    }
    return run;
}

/* Sets the parents family run by family run. */
hga_status parents_copy(hga_builder *b, const hga_id *parent, hga_id n_nodes)
{
    hga_status st = HGA_OK;
    for (hga_id v = 0; parent && !st && v < n_nodes;) {
        if (parent[v] < 0) {
            v++;
            continue;
        }
        family_run run = family_run_at(parent, n_nodes, v);
        st = hga_builder_set_families(b, run.parent, run.child, run.n, run.each);
        v += run.n;
    }
    return st;
}

/* ---- nodes ---- */

side_run side_run_at(const hga_nodes *nodes, hga_id v)
{
    side_run run = {v, 1, nodes->side[v], nodes->side[v] == side_by_default(nodes, v)};
    for (hga_id u = v + 1;
         u < nodes->n && nodes->side[u] == run.side && (run.side == side_by_default(nodes, u)) == run.is_default; u++)
        run.n++;
    return run;
}

/* A view with sides, all default, differs from one without: one call preserves that. */
static hga_status sides_copy(hga_builder *b, const hga_nodes *nodes)
{
    hga_status st = HGA_OK;
    int unsaid = nodes->side && !is_cross(nodes);
    for (hga_id v = 0; nodes->side && !st && v < nodes->n;) {
        side_run run = side_run_at(nodes, v);
        if (!run.is_default) st = hga_builder_set_side(b, run.first, run.n, run.side), unsaid = 0;
        v += run.n;
    }
    return st || !unsaid ? st : hga_builder_set_side(b, 0, nodes->n, HGA_SIDE_BOTH);
}

hga_status masses_copy(hga_builder *b, const hga_allocator *a, hga_id n, const hga_id *parent, const float *mass)
{
    float *usual = NULL;
    hga_status st = masses_by_default(a, n, parent, mass, &usual);
    for (hga_id v = 0; !st && v < n; v++)
        if (mass[v] != usual[v]) st = hga_builder_set_mass(b, v, mass[v]);
    hga_delete(a, usual, n, sizeof *usual);
    return st;
}

hga_status positions_copy(hga_builder *b, const hga_graph *g, int index, const hga_id *map)
{
    hga_status st = HGA_OK;
    for (hga_id v = 0; (g->node.position || index) && !st && v < g->node.level_ptr[1]; v++)
        st = hga_builder_set_position(b, map ? map[v] : v, 1,
                                      g->node.position ? g->node.position[v] : (float)token_index(g, v));
    return st;
}

hga_status names_copy(hga_builder *b, const hga_graph *g, const hga_id *map)
{
    hga_status st = HGA_OK;
    for (hga_id v = 0; g->node_names.at && !st && v < g->n; v++)
        if (g->node_names.at[v] >= 0) st = hga_builder_set_name(b, map ? map[v] : v, hga_graph_name(g, v));
    return st;
}

/* Kinds keep their numbers where the builder has none. */
hga_status kinds_copy(hga_builder *b, const hga_graph *g, const hga_id *map)
{
    const hga_kinds kinds = hga_graph_kinds(g);
    hga_status st = HGA_OK;
    for (int32_t k = 0; !st && k < kinds.n; k++) st = hga_builder_set_kinds(b, 0, 0, kinds.name[k]);
    for (hga_id v = 0; kinds.of && !st && v < g->n; v++)
        if (kinds.of[v] >= 0) st = hga_builder_set_kinds(b, map ? map[v] : v, 1, kinds.name[kinds.of[v]]);
    return st;
}

/* Copies everything about g's nodes, claims excepted, to a builder. */
hga_status nodes_copy(hga_builder *b, const hga_graph *g)
{
    hga_status st = HGA_OK;
    hga_nodes nodes = hga_graph_nodes(g);
    for (hga_id l = 0; l < nodes.n_levels; l++)
        HGA_TRY(hga_builder_add_level(b, nodes.level_ptr[l + 1] - nodes.level_ptr[l], NULL));
    HGA_TRY(hga_builder_set_tokens(b, nodes.query_first, nodes.n_queries, nodes.key_first, nodes.n_keys));
    HGA_TRY(sides_copy(b, &nodes));
    HGA_TRY(parents_copy(b, nodes.parent, nodes.n));
    HGA_TRY(masses_copy(b, hga_graph_allocator(g), nodes.n, nodes.parent, nodes.mass));
    HGA_TRY(positions_copy(b, g, 0, NULL));
    HGA_TRY(names_copy(b, g, NULL));
    HGA_TRY(kinds_copy(b, g, NULL));
done:
    return st;
}

hga_status blocks_copy(hga_builder *b, hga_id relation, const hga_relation *r)
{
    hga_status st = HGA_OK;
    for (hga_pos i = 0; !st && i < r->n_choices; i++) st = hga_builder_add_choice(b, relation, &r->choices[i]);
    for (hga_pos i = 0; !st && !r->n_choices && i < r->n_blocks; i++)
        st = hga_builder_add_blocks(b, relation, &r->blocks[i]);
    return st;
}
