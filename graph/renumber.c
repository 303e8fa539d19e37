/* renumber.c: the same graph under other numbers. Explicit edges, and blocks of one pair, are renumbered; other blocks
   keep their positions, which the relation's new orders map to the new numbers. */
#include "copy.h"
#include "graph.h"
#include "sort.h"

typedef struct renumbering {
    const hga_graph *g;
    const hga_allocator *a;
    const hga_id *order; /* [n] new -> old */
    hga_id *position;    /* [n] old -> new */
    hga_builder *b;
} renumbering;

/* ---- the order, and its inverse ---- */

/* position[v] is the index of node v in the order, which lists every node once, on its own level and side. */
static hga_status find_positions(const hga_graph *g, const hga_id *order, hga_id *position)
{
    for (hga_id v = 0; v < g->n; v++) position[v] = -1;
    for (hga_id i = 0; i < g->n; i++) {
        hga_id v = order[i];
        if (v < 0 || v >= g->n) return hga_fail(HGA_EINVAL, "order[%d] = %d is not one of %d nodes", i, v, g->n);
        if (position[v] >= 0)
            return hga_fail(HGA_EINVAL, "order[%d] = %d: order[%d] is the same node", i, v, position[v]);
        if (node_stand(g, i) != node_stand(g, v))
            return hga_fail(HGA_EINVAL, "order[%d] = %d: nodes %d and %d are on other levels or sides", i, v, i, v);
        position[v] = i;
    }
    return HGA_OK;
}

static hga_status renumbering_open(const hga_graph *g, const hga_id *order, renumbering *x)
{
    *x = (renumbering){.g = g, .a = hga_graph_allocator(g), .order = order};
    hga_status st = hga_new(x->a, g->n, sizeof *x->position, &x->position);
    return st ? st : find_positions(g, order, x->position);
}

static void renumbering_clear(renumbering *x)
{
    hga_delete(x->a, x->position, x->g->n, sizeof *x->position);
    hga_builder_destroy(x->b);
}

/* ---- nodes ---- */

static hga_status move_sides(renumbering *x)
{
    hga_status st = HGA_OK;
    for (hga_id v = 0; x->g->node.side && !st && v < x->g->n; v++)
        st = hga_builder_set_side(x->b, x->position[v], 1, x->g->node.side[v]);
    return st;
}

/* Sets parents and masses under the new numbers. */
static hga_status move_tree(renumbering *x)
{
    const hga_graph *g = x->g;
    hga_status st = HGA_OK;
    hga_id *parent = NULL;
    float *mass = NULL;
    HGA_TRY(hga_new(x->a, g->node.parent ? g->n : 0, sizeof *parent, &parent));
    HGA_TRY(hga_new(x->a, g->n, sizeof *mass, &mass));
    for (hga_id i = 0; i < g->n; i++) {
        hga_id v = x->order[i];
        if (parent) parent[i] = g->node.parent[v] < 0 ? -1 : x->position[g->node.parent[v]];
        mass[i] = g->node.mass[v];
    }
    HGA_TRY(parents_copy(x->b, parent, g->n));
    HGA_TRY(masses_copy(x->b, x->a, g->n, parent, mass));
done:
    hga_delete(x->a, parent, g->node.parent ? g->n : 0, sizeof *parent);
    hga_delete(x->a, mass, g->n, sizeof *mass);
    return st;
}

/* Sets everything about nodes under the new numbers. */
static hga_status move_nodes(renumbering *x)
{
    const hga_graph *g = x->g;
    hga_status st = HGA_OK;
    for (hga_id l = 0; l < g->n_levels; l++)
        HGA_TRY(hga_builder_add_level(x->b, g->node.level_ptr[l + 1] - g->node.level_ptr[l], NULL));
    HGA_TRY(
        hga_builder_set_tokens(x->b, g->token.query_first, g->token.n_queries, g->token.key_first, g->token.n_keys));
    HGA_TRY(move_sides(x));
    HGA_TRY(move_tree(x));
    HGA_TRY(positions_copy(x->b, g, 1, x->position));
    HGA_TRY(names_copy(x->b, g, x->position));
    HGA_TRY(kinds_copy(x->b, g, x->position));
done:
    return st;
}

/* ---- blocks ---- */

static int is_one_pair(const hga_block *b) { return b->n_dst == 1 && b->n_src == 1 && b->count <= 1; }

static int all_are_pairs(const hga_relation *r)
{
    for (hga_block_walk w = {0}; hga_relation_next(r, &w);)
        if (!is_one_pair(&w.block)) return 0;
    return !r->dst_order && !r->src_order;
}

/* Position -> new node, of rows or columns; was NULL: the identity. */
static hga_status move_order(const renumbering *x, const hga_id *was, hga_id n, hga_id **out)
{
    hga_status st = hga_new(x->a, n, sizeof **out, out);
    for (hga_id p = 0; !st && p < n; p++) (*out)[p] = x->position[was ? was[p] : p];
    return st;
}

/* Sets orders that map the blocks' positions to the new numbers. */
static hga_status move_orders(renumbering *x, hga_id relation, const hga_relation *r)
{
    hga_status st = HGA_OK;
    hga_id *rows = NULL, *columns = NULL, n = x->g->n, n_columns = r->src_order ? r->n_src_order : n;
    HGA_TRY(move_order(x, r->dst_order, n, &rows));
    HGA_TRY(move_order(x, r->src_order, n_columns, &columns));
    HGA_TRY(hga_builder_set_order(x->b, relation, rows, n, columns, n_columns));
done:
    hga_delete(x->a, rows, n, sizeof *rows);
    hga_delete(x->a, columns, n_columns, sizeof *columns);
    return st;
}

static hga_id moved_position(const renumbering *x, hga_id of)
{
    return of == HGA_POS_OWN ? of : x->position[of - 1] + 1;
}

/* Adds a block. Instances that use other nodes' positions are added one by one: these nodes have no constant step in
   the new numbers. */
static hga_status add_instances(const renumbering *x, hga_id relation, hga_block one)
{
    hga_status st = HGA_OK;
    hga_id count = one.count < 1 ? 1 : one.count, step = one.pos_step, src_step = one.src_pos_step;
    hga_id of = one.pos_of, src_of = one.src_pos_of;
    if (of == HGA_POS_OWN && src_of == HGA_POS_OWN) return hga_builder_add_blocks(x->b, relation, &one);
    one.count = 1, one.pos_step = one.src_pos_step = 0;
    for (hga_id i = 0; i < count && !st; i++, one.dst += one.dst_step, one.src += one.src_step) {
        one.pos_of = of == HGA_POS_OWN ? of : moved_position(x, of + i * step);
        one.src_pos_of = src_of == HGA_POS_OWN ? src_of : moved_position(x, src_of + i * src_step);
        st = hga_builder_add_blocks(x->b, relation, &one);
    }
    return st;
}

/* Single pairs move; other blocks keep their positions, and the relation gets orders. */
static hga_status move_blocks(renumbering *x, hga_id relation, const hga_relation *r)
{
    hga_status st = HGA_OK;
    int pairs = all_are_pairs(r);
    if (!r->n_blocks) return HGA_OK;
    if (!pairs) HGA_TRY(move_orders(x, relation, r));
    for (hga_block_walk w = {0}; hga_relation_next(r, &w);) {
        hga_block b = w.block;
        if (pairs) b.dst = x->position[b.dst], b.src = x->position[b.src];
        HGA_TRY(add_instances(x, relation, b));
    }
done:
    return st;
}

/* ---- explicit edges ---- */

/* Adds a relation's explicit edges under the new numbers. */
static hga_status move_edges(renumbering *x, hga_id relation, const hga_relation *r)
{
    hga_status st = HGA_OK;
    hga_id *src = NULL, *dst = NULL;
    HGA_TRY(hga_new(x->a, r->n_explicit, sizeof *src, &src));
    HGA_TRY(hga_new(x->a, r->n_explicit, sizeof *dst, &dst));
    for (hga_id v = 0; r->n_explicit && v < x->g->n; v++)
        for (hga_pos e = r->ptr[v]; e < r->ptr[v + 1]; e++) src[e] = x->position[r->src[e]], dst[e] = x->position[v];
    HGA_TRY(hga_builder_add_edges(x->b, relation, r->n_explicit, src, dst, r->type, r->weight));
done:
    hga_delete(x->a, src, r->n_explicit, sizeof *src);
    hga_delete(x->a, dst, r->n_explicit, sizeof *dst);
    return st;
}

static hga_status move_relation(renumbering *x, const hga_relation *r)
{
    hga_id relation;
    hga_status st = hga_builder_add_relation(x->b, r->name, &relation);
    if (!st) st = move_blocks(x, relation, r);
    return st ? st : move_edges(x, relation, r);
}

/* Other numbers are another order of tokens, in which nothing is causal. */
static uint32_t claims_kept(uint32_t claims) { return claims & HGA_CLAIM_CAUSAL ? claims & HGA_CLAIM_SINGLE : claims; }

hga_status hga_graph_renumber(const hga_graph *g, const hga_id *order, hga_graph **out)
{
    hga_status st = HGA_OK;
    renumbering x = {0};
    *out = NULL;
    HGA_TRY(renumbering_open(g, order, &x));
    HGA_TRY(hga_builder_create(x.a, &x.b));
    HGA_TRY(move_nodes(&x));
    HGA_TRY(hga_builder_set_claims(x.b, claims_kept(g->claims)));
    for (hga_id i = 0; i < g->n_relations; i++) {
        hga_relation r = hga_graph_relation(g, i);
        HGA_TRY(move_relation(&x, &r));
    }
    HGA_TRY(hga_builder_finish(x.b, out));
done:
    renumbering_clear(&x);
    return st;
}

/* ---- the permutation of edges ---- */

/* An edge in the canonical order of the new graph, and its index in the old. */
typedef struct moved_edge {
    hga_id src;
    int32_t type;
    float weight;
    hga_pos was;
} moved_edge;

static int moved_before(const moved_edge *a, const moved_edge *b)
{
    if (a->src != b->src) return a->src < b->src;
    if (a->type != b->type) return a->type < b->type;
    return a->weight != b->weight ? a->weight < b->weight : a->was < b->was;
}

SORT_DEFINE(sort_moved, moved_edge, moved_before)

static hga_pos longest_row(const hga_csr *rows)
{
    hga_pos most = 0;
    for (hga_id v = 0; v < rows->n; v++)
        if (rows->ptr[v + 1] - rows->ptr[v] > most) most = rows->ptr[v + 1] - rows->ptr[v];
    return most;
}

hga_status hga_graph_renumbered_edges(const hga_graph *g, hga_id relation, const hga_id *order, hga_pos *edge)
{
    hga_status st = HGA_OK;
    renumbering x = {0};
    hga_csr rows = {0};
    moved_edge *row = NULL;
    hga_pos widest = 0, at = 0;
    HGA_TRY(renumbering_open(g, order, &x));
    HGA_TRY(hga_graph_rows(g, relation, 0, g->n, &rows));
    widest = longest_row(&rows);
    HGA_TRY(hga_new(x.a, widest, sizeof *row, &row));
    for (hga_id i = 0; i < g->n; i++) {
        hga_pos first = rows.ptr[order[i]], n = rows.ptr[order[i] + 1] - first;
        for (hga_pos e = first; e < first + n; e++)
            row[e - first] = (moved_edge){x.position[rows.src[e]], rows.type[e], rows.weight[e], e};
        sort_moved(row, n);
        for (hga_pos e = 0; e < n; e++) edge[at++] = row[e].was;
    }
done:
    hga_delete(x.a, row, widest, sizeof *row);
    hga_csr_clear(&rows);
    renumbering_clear(&x);
    return st;
}
