/* edges_of_note.c: what to say of a graph's edges before somebody wonders. */
#include "edges_of_note.h"

static int is_pair(const hga_block *b) { return b->n_dst == 1 && b->n_src == 1 && b->count <= 1; }

/* Files' repeated edges are blocks of one pair, which sorting has put beside each other. */
hga_pos edges_twice(const hga_graph *g, hga_id relation)
{
    hga_relation r = hga_graph_relation(g, relation);
    hga_pos twice = 0;
    for (hga_pos i = 1; r.blocks && i < r.n_blocks; i++) {
        const hga_block *a = &r.blocks[i - 1], *b = &r.blocks[i];
        twice += is_pair(a) && is_pair(b) && a->dst == b->dst && a->src == b->src && a->type == b->type;
    }
    return twice;
}

hga_status edges_loops(const hga_graph *g, hga_id relation, hga_pos *loops)
{
    enum { ROWS = 4096 };
    hga_id n = hga_graph_nodes(g).n;
    *loops = 0;
    for (hga_id first = 0; first < n; first += ROWS) {
        hga_csr rows;
        hga_status st = hga_graph_rows(g, relation, first, n - first < ROWS ? n - first : ROWS, &rows);
        if (st) return st;
        for (hga_id i = 0; i < rows.n; i++)
            for (hga_pos e = rows.ptr[i]; e < rows.ptr[i + 1]; e++) *loops += rows.src[e] == first + i;
        hga_csr_clear(&rows);
    }
    return HGA_OK;
}
