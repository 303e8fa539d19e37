/* children.c: see children.h. */
#include "children.h"

static const hga_id no_children[CHILDREN_AT_ONCE + 1];

static const hga_id *children_from(const hga_nodes *nodes, hga_id v)
{
    const hga_id tokens = nodes->level_ptr[1];
    return !nodes->child_ptr || v < tokens ? no_children : nodes->child_ptr + (v - tokens);
}

static void find_masses(const hga_nodes *nodes, some_families *out)
{
    const some_nodes *of = &out->children;
    out->mass = nodes->mass + of->first;
    if (!of->list) return;
    for (hga_id i = 0; i < of->n; i++) out->buffer[i] = nodes->mass[of->list[i]];
    out->mass = out->buffer;
}

hga_id take_families(const hga_nodes *nodes, hga_id most, hga_id n, const hga_id *node, some_families *out)
{
    const hga_id *ptr = children_from(nodes, node[0]), tokens = nodes->level_ptr[1];
    hga_id i = 0;
    if (n > CHILDREN_AT_ONCE) n = CHILDREN_AT_ONCE;
    if (node[0] < tokens && n > tokens - node[0]) n = tokens - node[0];
    while (i < n && node[i] == node[0] + i && ptr[i + 1] - ptr[i] < KERNEL_CHUNK && ptr[i + 1] - ptr[0] <= most) i++;
    out->parents = nodes_from(i, node[0]), out->ptr = ptr;
    out->children = (some_nodes){ptr[i] - ptr[0], ptr[0], nodes->child_list ? nodes->child_list + ptr[0] : NULL};
    find_masses(nodes, out);
    return i;
}
