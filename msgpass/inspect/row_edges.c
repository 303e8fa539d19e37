/* row_edges.c: a row's edges out of segments, lists and the tree. */
#include "row_edges.h"

#include "sort.h"

void row_edges_clear(row_edges *r)
{
    hga_delete(NULL, r->e, r->room, sizeof *r->e);
    *r = (row_edges){0};
}

static hga_status add(row_edges *r, row_edge e)
{
    hga_status st = hga_grow(NULL, &r->e, &r->room, r->n, r->n + 1, sizeof *r->e);
    if (!st) r->e[r->n++] = e;
    return st;
}

/* ---- the tree ---- */

/* The children of v as places of child_list: *first .. *first + the result. */
static hga_id children(const hga_nodes *nodes, hga_id v, hga_id *first)
{
    hga_id above = v - nodes->level_ptr[1];
    if (above < 0 || !nodes->child_ptr) return 0;
    *first = nodes->child_ptr[above];
    return nodes->child_ptr[above + 1] - *first;
}

static int has_parent(const hga_nodes *nodes, hga_id v) { return nodes->parent && nodes->parent[v] >= 0; }

static hga_status add_tree(const hga_nodes *nodes, hga_id relation, hga_id v, row_edges *out)
{
    hga_status st = HGA_OK;
    hga_id first = 0, n = relation == HGA_TREE_UP ? children(nodes, v, &first) : 0;
    row_edge e = {.pos_of = v, .weight = 1};
    for (hga_id i = first; i < first + n; i++) {
        e.source = e.source_pos_of = nodes->child_list ? nodes->child_list[i] : i;
        HGA_TRY(add(out, e));
    }
    if (relation == HGA_TREE_DOWN && has_parent(nodes, v)) {
        e.source = e.source_pos_of = nodes->parent[v];
        HGA_TRY(add(out, e));
    }
done:
    return st;
}

/* ---- relations ---- */

/* The columns that a segment has on the row at `position`. */
static hga_status add_segment(const hga_relation *r, const hga_segment *s, hga_id position, hga_id v, row_edges *out)
{
    hga_status st = HGA_OK;
    hga_id first, end, hole;
    hga_segment_columns(s, position, &first, &end, &hole);
    for (hga_id c = first; c < end; c++) {
        if (c == hole) continue;
        hga_id at = s->src + c, u = r->src_order ? r->src_order[at] : at;
        HGA_TRY(add(out, (row_edge){.source = u,
                                    .pos_of = s->pos_of == HGA_POS_OWN ? v : s->pos_of - 1,
                                    .source_pos_of = s->src_pos_of == HGA_POS_OWN ? u : s->src_pos_of - 1,
                                    .type = s->type + (position - s->row) * s->type_dst + c * s->type_src,
                                    .weight = s->weight}));
    }
done:
    return st;
}

static hga_status add_blocks(const hga_graph *g, hga_id relation, const hga_relation *r, hga_id v, row_edges *out)
{
    hga_id position = r->dst_rank ? r->dst_rank[v] : v;
    hga_segment *segment = NULL;
    hga_pos n = hga_graph_segments(g, relation, position, 1, NULL, 0);
    hga_status st = HGA_OK;
    HGA_TRY(hga_new(NULL, n, sizeof *segment, &segment));
    hga_graph_segments(g, relation, position, 1, segment, n);
    for (hga_pos i = 0; i < n; i++) HGA_TRY(add_segment(r, &segment[i], position, v, out));
done:
    hga_delete(NULL, segment, n, sizeof *segment);
    return st;
}

static hga_status add_listed(const hga_relation *r, hga_id v, row_edges *out)
{
    hga_status st = HGA_OK;
    for (hga_pos i = r->ptr ? r->ptr[v] : 0, end = r->ptr ? r->ptr[v + 1] : 0; i < end; i++)
        HGA_TRY(add(out, (row_edge){.source = r->src[i],
                                    .pos_of = v,
                                    .source_pos_of = r->src[i],
                                    .type = r->type ? r->type[i] : 0,
                                    .weight = r->weight ? r->weight[i] : 1}));
done:
    return st;
}

static int comes_before(const row_edge *a, const row_edge *b)
{
    if (a->source != b->source) return a->source < b->source;
    if (a->type != b->type) return a->type < b->type;
    if (a->weight < b->weight || a->weight > b->weight) return a->weight < b->weight;
    return a->pos_of != b->pos_of ? a->pos_of < b->pos_of : a->source_pos_of < b->source_pos_of;
}

SORT_DEFINE(sort_row, row_edge, comes_before)

hga_status row_edges_find(const hga_graph *g, hga_id relation, hga_id v, row_edges *out)
{
    hga_status st = HGA_OK;
    if (relation < 0) {
        hga_nodes nodes = hga_graph_nodes(g);
        HGA_TRY(add_tree(&nodes, relation, v, out));
    } else {
        hga_relation r = hga_graph_relation(g, relation);
        HGA_TRY(add_blocks(g, relation, &r, v, out));
        HGA_TRY(add_listed(&r, v, out));
    }
    sort_row(out->e, out->n);
done:
    return st;
}
