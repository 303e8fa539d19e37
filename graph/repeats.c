/* repeats.c: edges that are often unintended: repeated ones, and loops. */
#include "hga_graph.h"

static int is_pair(const hga_block *b) { return b->n_dst == 1 && b->n_src == 1 && b->count <= 1; }

/* Repeated edges are blocks of one pair, which are adjacent after sorting. */
hga_pos hga_graph_repeated(const hga_graph *g, hga_id relation)
{
    hga_relation r = hga_graph_relation(g, relation);
    hga_pos repeated = 0;
    for (hga_pos i = 1; r.blocks && i < r.n_blocks; i++) {
        const hga_block *a = &r.blocks[i - 1], *b = &r.blocks[i];
        repeated += is_pair(a) && is_pair(b) && a->dst == b->dst && a->src == b->src && a->type == b->type;
    }
    return repeated;
}

/* Counts a relation's edges from a node to itself, some rows at a time. */
hga_status hga_graph_loops(const hga_graph *g, hga_id relation, hga_pos *loops)
{
    enum { ROWS = 4096 };
    hga_id n = hga_graph_nodes(g).n;
    *loops = 0;
    for (hga_id first = 0; relation >= 0 && first < n; first += ROWS) {
        hga_csr rows;
        hga_status st = hga_graph_rows(g, relation, first, n - first < ROWS ? n - first : ROWS, &rows);
        if (st) return st;
        for (hga_id i = 0; i < rows.n; i++)
            for (hga_pos e = rows.ptr[i]; e < rows.ptr[i + 1]; e++) *loops += rows.src[e] == first + i;
        hga_csr_clear(&rows);
    }
    return HGA_OK;
}
