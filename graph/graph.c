/* graph.c: a finished graph, read. */
#include "graph.h"
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
    hga_delete(a, r->dst_order, n, sizeof *r->dst_order);
    hga_delete(a, r->dst_rank, n, sizeof *r->dst_rank);
    hga_delete(a, r->src_order, r->n_src_order, sizeof *r->src_order);
    hga_delete(a, r->ptr, (int64_t)n + 1, sizeof *r->ptr);
    hga_delete(a, r->src, r->n_explicit, sizeof *r->src);
    hga_delete(a, r->type, r->n_explicit, sizeof *r->type);
    hga_delete(a, r->weight, r->n_explicit, sizeof *r->weight);
}

/* A graph that shares all but names and kinds with its base releases the base. */
void graph_free(hga_graph *g)
{
    hga_allocator a = g->allocator;
    hga_id above = g->level_ptr && g->n_levels ? g->n - g->level_ptr[1] : 0;
    hga_delete(&a, g->name_at, g->n, sizeof *g->name_at);
    hga_delete(&a, g->name_text, g->name_capacity, 1);
    kinds_clear(&a, &g->kinds);
    hga_delete(&a, g->kind, g->n, sizeof *g->kind);
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
    hga_delete(&a, g->level_ptr, (int64_t)g->n_levels + 1, sizeof *g->level_ptr);
    hga_delete(&a, g->parent, g->n, sizeof *g->parent);
    hga_delete(&a, g->side, g->n, sizeof *g->side);
    hga_delete(&a, g->mass, g->n, sizeof *g->mass);
    hga_delete(&a, g->position, g->n - above, sizeof *g->position);
    hga_delete(&a, g->span_first, g->n, sizeof *g->span_first);
    hga_delete(&a, g->span_last, g->n, sizeof *g->span_last);
    hga_delete(&a, g->child_ptr, (int64_t)above + 1, sizeof *g->child_ptr);
    hga_delete(&a, g->child_list, g->n_children, sizeof *g->child_list);
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
        .level_ptr = g->level_ptr,
        .parent = g->parent,
        .side = g->side,
        .mass = g->mass,
        .span_first = g->span_first,
        .span_last = g->span_last,
        .child_ptr = g->child_ptr,
        .child_list = g->child_list,
        .query_first = g->query_first,
        .n_queries = g->n_queries,
        .key_first = g->key_first,
        .n_keys = g->n_keys,
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
        .n_explicit = r->n_explicit,
        .blocks = r->blocks,
        .dst_order = r->dst_order,
        .dst_rank = r->dst_rank,
        .src_order = r->src_order,
        .n_src_order = r->n_src_order,
        .ptr = r->ptr,
        .src = r->src,
        .type = r->type,
        .weight = r->weight,
        .n_types = r->n_types,
        .weighted = r->weighted,
        .positioned = r->positioned,
        .choices = r->choice,
        .n_choices = r->n_choices,
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
    return (hga_id)search_first(0, g->n_levels - 1, ends_after, &(level_position){g->level_ptr, node});
}

static int64_t relation_bytes(const stored_relation *r, int64_t n)
{
    int64_t bytes = r->n_src_order * (int64_t)sizeof(hga_id) + choices_bytes(r);
    if (r->blocks) bytes += r->n_blocks * (int64_t)(sizeof *r->blocks + sizeof *r->reach);
    if (r->dst_order) bytes += 2 * n * (int64_t)sizeof(hga_id);
    if (r->ptr) bytes += (n + 1) * (int64_t)sizeof(hga_pos) + r->n_explicit * (int64_t)sizeof(hga_id);
    if (r->type) bytes += r->n_explicit * (int64_t)sizeof(int32_t);
    if (r->weight) bytes += r->n_explicit * (int64_t)sizeof(float);
    return bytes;
}

const hga_allocator *hga_graph_allocator(const hga_graph *g) { return &g->allocator; }

int64_t hga_graph_bytes(const hga_graph *g)
{
    int64_t n = g->n, each = g->mass ? (int64_t)(sizeof *g->mass + sizeof *g->span_first + sizeof *g->span_last) : 0;
    if (g->parent) each += (int64_t)sizeof *g->parent;
    if (g->position) each += (int64_t)sizeof *g->position * g->level_ptr[1] / (n ? n : 1);
    if (g->side) each += (int64_t)sizeof *g->side;
    int64_t bytes = (int64_t)sizeof *g + n * each + (g->n_levels + 1) * (int64_t)sizeof(hga_id) +
                    g->n_relations * (int64_t)sizeof(stored_relation);
    if (g->child_ptr) bytes += (n - g->level_ptr[1] + 1 + g->n_children) * (int64_t)sizeof(hga_id);
    if (g->name_at) bytes += n * (int64_t)sizeof *g->name_at + g->name_capacity;
    if (g->kind) bytes += n * (int64_t)sizeof *g->kind;
    bytes += kinds_bytes(&g->kinds);
    bytes += g->names.n_slots * (int64_t)sizeof *g->names.slot;
    if (g->longer) bytes += hga_graph_bytes(g->longer);
    bytes += g->n_parts * (int64_t)sizeof *g->part;
    for (hga_id i = 0; i < g->n_relations; i++) bytes += relation_bytes(&g->relation[i], n);
    return bytes;
}
