/* longer.c: what a graph's last rows would see in a longer graph, which is a graph itself, of levels and blocks alone;
   and rows and nodes of the one as those of the other. */
#include "longer.h"
#include "builder_relations.h"
#include "builder.h"

#include <string.h>

static hga_status take_levels(hga_builder *from, hga_graph *g)
{
    hga_status st = hga_new(&g->allocator, from->levels.n + 1, sizeof *g->node.level_ptr, &g->node.level_ptr);
    if (st) return st;
    g->n = from->n, g->n_levels = (hga_id)from->levels.n, g->node.level_ptr[0] = 0;
    for (hga_id l = 0; l < g->n_levels; l++) g->node.level_ptr[l + 1] = g->node.level_ptr[l] + from->levels.size[l];
    return HGA_OK;
}

/* Relations of a longer graph, which can have blocks and nothing else. */
static hga_status take_blocks(hga_builder *from, hga_graph *g)
{
    hga_status st = hga_new_zero(&g->allocator, from->drafts.n, sizeof *g->relation, &g->relation);
    if (st) return st;
    g->n_relations = (hga_id)from->drafts.n;
    for (hga_id i = 0; i < g->n_relations; i++) {
        const draft *d = &from->drafts.list[i];
        memcpy(g->relation[i].name, d->name, sizeof d->name);
        if (d->edges.n || d->n_choices || d->dst_order || d->src_order)
            HGA_TRY(hga_fail(HGA_EUNSUPPORTED, "relation %s of the longer graph: it has %s; it may have blocks only",
                             d->name,
                             d->edges.n     ? "single edges"
                             : d->n_choices ? "choices"
                                            : "an order"));
        HGA_TRY(relation_blocks(g, d, &g->relation[i]));
    }
done:
    return st;
}

hga_status hga_builder_set_longer(hga_builder *b, hga_builder *longer)
{
    hga_graph *g = NULL;
    hga_status st = HGA_OK;
    if (b == longer) return hga_fail(HGA_EINVAL, "longer: a graph is not longer than itself");
    HGA_TRY(hga_new_zero(&b->allocator, 1, sizeof *g, &g));
    g->owners = 1;
    g->allocator = b->allocator;
    HGA_TRY(take_levels(longer, g));
    HGA_TRY(take_blocks(longer, g));
    hga_graph_destroy(b->longer);
    b->longer = g, g = NULL;
done:
    if (g) graph_free(g);
    builder_clear(longer);
    return st;
}

/* ---- is the graph part of its longer graph? ---- */

/* The segments of one row in both graphs. */
typedef struct row_pair {
    hga_segment *here, *there;
    hga_pos n, capacity;
} row_pair;

static hga_id level_at(const hga_graph *g, hga_id v)
{
    hga_id l = g->n_levels - 1;
    while (l > 0 && g->node.level_ptr[l] > v) l--;
    return l;
}

/* Node v's number in the longer graph. */
static hga_id node_there(const hga_graph *g, hga_id v)
{
    hga_id l = level_at(g, v);
    return v - g->node.level_ptr[l] + g->longer->node.level_ptr[l];
}
static hga_id pos_there(const hga_graph *g, hga_id pos_of)
{
    return pos_of == HGA_POS_OWN ? HGA_POS_OWN : node_there(g, pos_of - 1) + 1;
}

static int same_segment(const hga_graph *g, const hga_segment *here, const hga_segment *there)
{
    return node_there(g, here->src) == there->src && here->n_src == there->n_src &&
           node_there(g, here->src + here->n_src - 1) == there->src + there->n_src - 1 &&
           here->has_hole == there->has_hole && here->hole == there->hole && here->type == there->type &&
           here->type_src == there->type_src && !(here->weight < there->weight || here->weight > there->weight) &&
           pos_there(g, here->pos_of) == there->pos_of && pos_there(g, here->src_pos_of) == there->src_pos_of;
}

/* A row's segments here and in the longer graph; the capacity grows until both fit. */
static hga_status find_segments(const hga_graph *g, hga_id relation, hga_id row, hga_pos *n, row_pair *p)
{
    const hga_allocator *a = &g->allocator;
    *n = hga_graph_segments(g, relation, row, 1, p->here, p->capacity);
    p->n = hga_graph_segments(g->longer, relation, node_there(g, row), 1, p->there, p->capacity);
    hga_pos need = *n > p->n ? *n : p->n;
    if (need <= p->capacity) return HGA_OK;
    hga_delete(a, p->here, p->capacity, sizeof *p->here), hga_delete(a, p->there, p->capacity, sizeof *p->there);
    *p = (row_pair){.capacity = 0};
    hga_status st = hga_new(a, 2 * need, sizeof *p->here, &p->here);
    if (!st) st = hga_new(a, 2 * need, sizeof *p->there, &p->there);
    if (st) {
        hga_delete(a, p->here, 2 * need, sizeof *p->here);
        *p = (row_pair){.capacity = 0};
        return st;
    }
    p->capacity = 2 * need;
    return find_segments(g, relation, row, n, p);
}

static hga_status check_same_row(const hga_graph *g, hga_id relation, hga_id row, row_pair *p)
{
    hga_pos n;
    hga_status st = find_segments(g, relation, row, &n, p);
    int same = n == p->n;
    for (hga_pos i = 0; !st && same && i < n; i++) same = same_segment(g, &p->here[i], &p->there[i]);
    return st || same ? st
                      : hga_fail(HGA_EGRAPH, "relation %s: node %d has other edges in the longer graph",
                                 g->relation[relation].name, row);
}

/* Checks a level whose size is not a multiple of 16: its last panel reads its edges from the longer graph, so its rows
   must have the same edges there. */
static hga_status check_level(const hga_graph *g, hga_id relation, hga_id level, row_pair *p)
{
    const hga_graph *longer = g->longer;
    hga_id end = g->node.level_ptr[level + 1], size = end - g->node.level_ptr[level], n = size % LONGER_ROWS;
    hga_id read = size < LONGER_PANEL ? size : LONGER_PANEL;
    hga_id more = longer->node.level_ptr[level + 1] - longer->node.level_ptr[level];
    hga_pos degree[LONGER_PANEL];
    int some = 0;
    if (!n) return HGA_OK;
    hga_graph_degrees(g, relation, end - read, read, degree);
    for (hga_id i = read - n; i < read; i++) some |= degree[i] != 0;
    if (some && more < size - n + LONGER_ROWS)
        return hga_fail(HGA_EGRAPH, "level %d: the longer graph has %d nodes, and no sixteen behind node %d", level,
                        more, end - n);
    if (more < size - n + LONGER_ROWS) return HGA_OK; /* nothing is read there */
    hga_status st = HGA_OK;
    for (hga_id v = end - read; !st && v < end; v++) st = check_same_row(g, relation, v, p);
    return st;
}

/* Relation i must be that of the longer graph, with blocks only; its last rows are compared. */
static hga_status check_relation(const hga_graph *g, hga_id i, row_pair *p)
{
    const stored_relation *r = &g->relation[i], *more = &g->longer->relation[i];
    hga_status st = HGA_OK;
    if (strcmp(r->name, more->name) != 0)
        return hga_fail(HGA_EGRAPH, "relation %d is %s, but %s in the longer graph", i, r->name, more->name);
    if (r->edges.n || r->order.dst || r->order.src)
        return hga_fail(HGA_EUNSUPPORTED, "relation %s has %s, and so no longer graph", r->name,
                        r->edges.n ? "single edges" : "an order");
    for (hga_id l = 0; !st && l < g->n_levels; l++) st = check_level(g, i, l, p);
    return st;
}

/* Checks that the graph is part of its longer graph, level by level and relation by relation. */
hga_status longer_check(const hga_graph *g)
{
    const hga_graph *longer = g->longer;
    row_pair p = {.capacity = 0};
    hga_status st = HGA_OK;
    if (!longer || graph_keeps_positions(g)) return st;
    if (longer->n_levels < g->n_levels)
        return hga_fail(HGA_EGRAPH, "the longer graph has %d levels, this one %d", longer->n_levels, g->n_levels);
    if (longer->n_relations != g->n_relations)
        return hga_fail(HGA_EGRAPH, "the longer graph has %d relations, this one %d", longer->n_relations,
                        g->n_relations);
    HGA_TRY(instances_can_be_visited(longer));
    for (hga_id i = 0; i < g->n_relations; i++) HGA_TRY(check_relation(g, i, &p));
done:
    hga_delete(&g->allocator, p.here, p.capacity, sizeof *p.here);
    hga_delete(&g->allocator, p.there, p.capacity, sizeof *p.there);
    return st;
}

static const hga_graph *longer_of(const hga_graph *g) { return g->base ? g->base->longer : g->longer; }

const hga_graph *graph_longer(const hga_graph *g)
{
    return longer_of(g) && longer_of(g)->n_levels ? longer_of(g) : NULL;
}

int graph_keeps_positions(const hga_graph *g) { return longer_of(g) && !longer_of(g)->n_levels; }

/* ---- its rows and nodes, and this graph's ---- */

static hga_id level_of(const hga_nodes *nodes, hga_id v)
{
    hga_id l = nodes->n_levels - 1;
    while (l > 0 && nodes->level_ptr[l] > v) l--;
    return l;
}

rows_ahead look_ahead(const hga_graph *longer, const hga_nodes *nodes, hga_id first, hga_id n)
{
    hga_id l = level_of(nodes, first), begin = nodes->level_ptr[l], end = nodes->level_ptr[l + 1];
    if (!longer || !n || first + n != end || (end - begin) % LONGER_ROWS == 0) return (rows_ahead){0, 0};
    const hga_id *level = hga_graph_nodes(longer).level_ptr;
    rows_ahead next = {level[l] + first - begin, n + LONGER_ROWS - (end - begin) % LONGER_ROWS};
    if (next.first + next.n > level[l + 1]) next.n = 0; /* rows without edges */
    return next;
}

hga_id node_here(const hga_graph *longer, const hga_nodes *nodes, hga_id v)
{
    const hga_nodes all = hga_graph_nodes(longer);
    hga_id l = level_of(&all, v), inside = v - all.level_ptr[l];
    if (l >= nodes->n_levels) return 0;
    hga_id size = nodes->level_ptr[l + 1] - nodes->level_ptr[l];
    return inside < size ? nodes->level_ptr[l] + inside : 0;
}
