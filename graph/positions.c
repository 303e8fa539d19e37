/* positions.c: positions of nodes, for whatever depends on distances: a token's is its index, a higher node's the mean
   of its tokens'. */
#include "positions.h"
#include "graph.h"

/* The number of tokens below a node, and the sum of their positions. */
typedef struct below {
    double n, sum;
} below;

static double token_position(const hga_graph *g, hga_id v)
{
    return g->node.position ? (double)g->node.position[v] : token_index(g, v);
}

/* The tokens of a node's span, for nodes without children. */
static below of_span(const hga_graph *g, hga_id v)
{
    hga_id first = g->node.span_first[v], last = g->node.span_last[v];
    if (first > last) return (below){0, 0};
    below sum = {(double)last - first + 1, 0};
    for (hga_id token = first; token <= last; token++) sum.sum += token_position(g, token);
    return sum;
}

static below of_children(const hga_graph *g, hga_id v, const below *of)
{
    below sum = {0, 0};
    hga_id above = v - g->node.level_ptr[1];
    for (hga_id i = g->children.ptr[above]; i < g->children.ptr[above + 1]; i++) {
        const below *child = &of[g->children.list ? g->children.list[i] : i];
        sum.n += child->n, sum.sum += child->sum;
    }
    return sum;
}

static below of_node(const hga_graph *g, hga_id v, const below *of)
{
    if (v < g->node.level_ptr[1]) return (below){1, token_position(g, v)};
    below sum = g->children.ptr ? of_children(g, v, of) : (below){0, 0};
    return sum.n > 0 ? sum : of_span(g, v);
}

/* Children are on lower levels, and so have lower ids. */
hga_status hga_graph_positions(const hga_graph *g, double *out)
{
    below *of = NULL;
    hga_status st = hga_new(&g->allocator, g->n, sizeof *of, &of);
    for (hga_id v = 0; !st && g->node.position && v < g->node.level_ptr[1]; v++)
        if (g->node.position[v] < 0)
            st = hga_fail(HGA_EGRAPH, "token %d has no position: distances mean nothing here", v);
    for (hga_id v = 0; !st && v < g->n; v++) {
        of[v] = of_node(g, v, of);
        if (of[v].n == 0)
            st = hga_fail(HGA_EGRAPH, "node %d stands for no tokens, so it has no position", v);
        else
            out[v] = of[v].sum / of[v].n;
    }
    hga_delete(&g->allocator, of, g->n, sizeof *of);
    return st;
}

const float *graph_token_positions(const hga_graph *g) { return g->node.position; }
