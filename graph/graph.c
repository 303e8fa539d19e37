/* graph.c: a finished graph, read. */
#include "graph.h"
#include "blocks.h"
#include "kind_list.h"
#include "sort.h"

hga_graph *hga_graph_retain(const hga_graph *g)
{
    hga_graph *owned = (hga_graph *)(uintptr_t)g; /* the count of owners is the only mutable member */
    owned->owners++;
    return owned;
}

/* Frees the arrays of a relation among n nodes. */
static void relation_clear(const hga_allocator *a, hga_id n, stored_relation *r)
{
    if (r->blocks) hga_delete(a, r->blocks, r->n_blocks, sizeof *r->blocks);
    if (r->reach) hga_delete(a, r->reach, r->n_blocks, sizeof *r->reach);
    choices_clear(a, r);
    hga_delete(a, r->order.dst, n, sizeof *r->order.dst);
    hga_delete(a, r->order.dst_rank, n, sizeof *r->order.dst_rank);
    hga_delete(a, r->order.src, r->order.n_src, sizeof *r->order.src);
    hga_delete(a, r->edges.ptr, (int64_t)n + 1, sizeof *r->edges.ptr);
    hga_delete(a, r->edges.src, r->edges.n, sizeof *r->edges.src);
    hga_delete(a, r->edges.type, r->edges.n, sizeof *r->edges.type);
    hga_delete(a, r->edges.weight, r->edges.n, sizeof *r->edges.weight);
}

/* A graph that shares all but names and kinds with its base releases the base. */
void graph_free(hga_graph *g)
{
    hga_allocator a = g->allocator;
    hga_id above = g->node.level_ptr && g->n_levels ? g->n - g->node.level_ptr[1] : 0;
    hga_delete(&a, g->node_names.at, g->n, sizeof *g->node_names.at);
    hga_delete(&a, g->node_names.text, g->node_names.bytes, 1);
    kinds_clear(&a, &g->kinds);
    hga_delete(&a, g->node.kind, g->n, sizeof *g->node.kind);
    if (g->base) {
        hga_graph_destroy(g->base);
        hga_delete(&a, g, 1, sizeof *g);
        return;
    }
    hga_graph_destroy(g->longer);
    hga_delete(&a, g->part, g->n_parts, sizeof *g->part);
    for (hga_id i = 0; i < g->n_relations; i++) relation_clear(&a, g->n, &g->relation[i]);
    hga_delete(&a, g->relation, g->n_relations, sizeof *g->relation);
    names_clear(&a, &g->names);
    hga_delete(&a, g->node.level_ptr, (int64_t)g->n_levels + 1, sizeof *g->node.level_ptr);
    hga_delete(&a, g->node.parent, g->n, sizeof *g->node.parent);
    hga_delete(&a, g->node.side, g->n, sizeof *g->node.side);
    hga_delete(&a, g->node.mass, g->n, sizeof *g->node.mass);
    hga_delete(&a, g->node.position, g->n - above, sizeof *g->node.position);
    hga_delete(&a, g->node.span_first, g->n, sizeof *g->node.span_first);
    hga_delete(&a, g->node.span_last, g->n, sizeof *g->node.span_last);
    hga_delete(&a, g->children.ptr, (int64_t)above + 1, sizeof *g->children.ptr);
    hga_delete(&a, g->children.list, g->children.n, sizeof *g->children.list);
    hga_delete(&a, g, 1, sizeof *g);
}

void hga_graph_destroy(hga_graph *g)
{
    if (g && --g->owners == 0) graph_free(g);
}

hga_nodes hga_graph_nodes(const hga_graph *g)
{
    return (hga_nodes){
        .n = g->n,
        .n_levels = g->n_levels,
        .n_relations = g->n_relations,
        .level_ptr = g->node.level_ptr,
        .parent = g->node.parent,
        .side = g->node.side,
        .mass = g->node.mass,
        .span_first = g->node.span_first,
        .span_last = g->node.span_last,
        .child_ptr = g->children.ptr,
        .child_list = g->children.list,
        .query_first = g->token.query_first,
        .n_queries = g->token.n_queries,
        .key_first = g->token.key_first,
        .n_keys = g->token.n_keys,
        .claims = g->claims,
    };
}

hga_relation hga_graph_relation(const hga_graph *g, hga_id index)
{
    const stored_relation *r = &g->relation[index];
    return (hga_relation){
        .name = r->name,
        .n_edges = r->n_edges,
        .n_blocks = r->n_blocks,
        .n_explicit = r->edges.n,
        .blocks = r->blocks,
        .dst_order = r->order.dst,
        .dst_rank = r->order.dst_rank,
        .src_order = r->order.src,
        .n_src_order = r->order.n_src,
        .ptr = r->edges.ptr,
        .src = r->edges.src,
        .type = r->edges.type,
        .weight = r->edges.weight,
        .n_types = r->n_types,
        .weighted = r->weighted,
        .positioned = r->positioned,
        .choices = r->choices.row,
        .n_choices = r->choices.n,
    };
}

static const char *relation_name_at(const void *relations, int64_t i)
{
    return ((const stored_relation *)relations)[i].name;
}

hga_id hga_graph_find_relation(const hga_graph *g, const char *name)
{
    return names_find(&g->names, g->relation, relation_name_at, name);
}

typedef struct level_position {
    const hga_id *level_ptr;
    hga_id node;
} level_position;

static int ends_after(const void *context, int64_t level)
{
    const level_position *p = context;
    return p->level_ptr[level + 1] > p->node;
}

hga_id hga_graph_level(const hga_graph *g, hga_id node)
{
    return (hga_id)search_first(0, g->n_levels - 1, ends_after, &(level_position){g->node.level_ptr, node});
}

static int64_t relation_bytes(const stored_relation *r, int64_t n)
{
    int64_t bytes = r->order.n_src * (int64_t)sizeof(hga_id) + choices_bytes(r);
    if (r->blocks) bytes += r->n_blocks * (int64_t)(sizeof *r->blocks + sizeof *r->reach);
    if (r->order.dst) bytes += 2 * n * (int64_t)sizeof(hga_id);
    if (r->edges.ptr) bytes += (n + 1) * (int64_t)sizeof(hga_pos) + r->edges.n * (int64_t)sizeof(hga_id);
    if (r->edges.type) bytes += r->edges.n * (int64_t)sizeof(int32_t);
    if (r->edges.weight) bytes += r->edges.n * (int64_t)sizeof(float);
    return bytes;
}

const hga_allocator *hga_graph_allocator(const hga_graph *g) { return &g->allocator; }

int64_t hga_graph_bytes(const hga_graph *g)
{
    int64_t n = g->n,
            each = g->node.mass
                       ? (int64_t)(sizeof *g->node.mass + sizeof *g->node.span_first + sizeof *g->node.span_last)
                       : 0;
    if (g->node.parent) each += (int64_t)sizeof *g->node.parent;
    if (g->node.position) each += (int64_t)sizeof *g->node.position * g->node.level_ptr[1] / (n ? n : 1);
    if (g->node.side) each += (int64_t)sizeof *g->node.side;
    int64_t bytes = (int64_t)sizeof *g + n * each + (g->n_levels + 1) * (int64_t)sizeof(hga_id) +
                    g->n_relations * (int64_t)sizeof(stored_relation);
    if (g->children.ptr) bytes += (n - g->node.level_ptr[1] + 1 + g->children.n) * (int64_t)sizeof(hga_id);
    if (g->node_names.at) bytes += n * (int64_t)sizeof *g->node_names.at + g->node_names.bytes;
    if (g->node.kind) bytes += n * (int64_t)sizeof *g->node.kind;
    bytes += kinds_bytes(&g->kinds);
    bytes += g->names.n_slots * (int64_t)sizeof *g->names.slot;
    if (g->longer) bytes += hga_graph_bytes(g->longer);
    bytes += g->n_parts * (int64_t)sizeof *g->part;
    for (hga_id i = 0; i < g->n_relations; i++) bytes += relation_bytes(&g->relation[i], n);
    return bytes;
}
