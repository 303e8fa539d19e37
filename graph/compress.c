/* compress.c: regular explicit edges as blocks: a row's edges are split into runs of columns, of which column_runs.c
   makes blocks. All in positions, that is in the relation's orders. */
#include "copy.h"
#include "column_runs.h"

typedef struct compression {
    const hga_relation *r;
    hga_id n_nodes;
    hga_id *column_of; /* [n_nodes] node -> column, -1 without; NULL: the identity */
    int64_t n_cells, cell_capacity;
    cell *cells;
    column_runs found;
} compression;

static hga_id row_node(const compression *c, hga_id row) { return c->r->dst_order ? c->r->dst_order[row] : row; }

/* The row's explicit edges by column; those whose source has no column stay explicit. */
static hga_status find_cells(compression *c, hga_id row)
{
    hga_status st = HGA_OK;
    hga_id v = row_node(c, row);
    hga_pos first = c->r->ptr[v], end = c->r->ptr[v + 1];
    c->n_cells = 0;
    HGA_TRY(hga_grow(c->found.allocator, &c->cells, &c->cell_capacity, 0, end - first, sizeof *c->cells));
    for (hga_pos e = first; e < end; e++) {
        hga_id u = c->r->src[e];
        cell x = {c->column_of ? c->column_of[u] : u, c->r->type ? c->r->type[e] : 0,
                  c->r->weight ? c->r->weight[e] : 1};
        if (x.column >= 0)
            c->cells[c->n_cells++] = x;
        else
            HGA_TRY(hga_builder_add_edge(c->found.b, c->found.index, u, v, x.type, x.weight));
    }
done:
    return st;
}

static hga_status find_runs(compression *c)
{
    hga_status st = HGA_OK;
    for (hga_id row = 0; row < c->n_nodes; row++) {
        HGA_TRY(find_cells(c, row));
        HGA_TRY(column_runs_add_row(&c->found, row, c->cells, c->n_cells));
    }
done:
    return st;
}

static hga_status number_columns(compression *c)
{
    if (!c->r->src_order) return HGA_OK;
    hga_status st = hga_new(c->found.allocator, c->n_nodes, sizeof *c->column_of, &c->column_of);
    if (st) return st;
    for (hga_id u = 0; u < c->n_nodes; u++) c->column_of[u] = -1;
    for (hga_id i = 0; i < c->r->n_src_order; i++) c->column_of[c->r->src_order[i]] = i;
    return HGA_OK;
}

/* Copies blocks unchanged; explicit edges become blocks where they are regular. */
static hga_status compress_relation(compression *c)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_builder_add_relation(c->found.b, c->r->name, &c->found.index));
    HGA_TRY(hga_builder_set_order(c->found.b, c->found.index, c->r->dst_order, c->n_nodes, c->r->src_order,
                                  c->r->n_src_order));
    HGA_TRY(blocks_copy(c->found.b, c->found.index, c->r));
    if (c->r->n_explicit == 0) return HGA_OK;
    HGA_TRY(number_columns(c));
    HGA_TRY(find_runs(c));
    HGA_TRY(column_runs_tell(&c->found));
done:
    hga_delete(c->found.allocator, c->column_of, c->n_nodes, sizeof *c->column_of);
    hga_delete(c->found.allocator, c->cells, c->cell_capacity, sizeof *c->cells);
    column_runs_clear(&c->found);
    return st;
}

hga_status hga_graph_compress(const hga_graph *g, hga_graph **out)
{
    hga_status st = HGA_OK;
    hga_nodes nodes = hga_graph_nodes(g);
    hga_builder *b = NULL;
    *out = NULL;
    HGA_TRY(hga_builder_create(hga_graph_allocator(g), &b));
    HGA_TRY(nodes_copy(b, g));
    HGA_TRY(hga_builder_set_claims(b, nodes.claims));
    for (hga_id i = 0; i < nodes.n_relations; i++) {
        hga_relation r = hga_graph_relation(g, i);
        compression c = {.r = &r, .n_nodes = nodes.n};
        c.found.allocator = hga_graph_allocator(g), c.found.b = b;
        c.found.dst_order = r.dst_order, c.found.src_order = r.src_order;
        HGA_TRY(compress_relation(&c));
    }
    HGA_TRY(hga_builder_finish(b, out));
done:
    hga_builder_destroy(b);
    return st;
}
