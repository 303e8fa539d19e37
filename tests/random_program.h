/* random_program.h: what the tests of influence and coverage share: programs of every kind of stage over a random
   graph, and a stage's edges one by one. */
#ifndef HGA_RANDOM_PROGRAM_H
#define HGA_RANDOM_PROGRAM_H

#include "by_hand.h"

#include <stdlib.h>

/* Inputs on tokens that are coarsened, or on all nodes; one of five programs to the output over relation 0. */
static inline hga_program random_program(uint64_t *rng)
{
    hga_program p;
    hga_program_init(&p);
    int way = random_below(rng, 5), input = random_below(rng, 2);
    hga_field_rows io = input ? HGA_ROWS_NODES : HGA_ROWS_QUERIES;
    hga_id q = field(&p, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, io, HGA_ROWS_NODES);
    hga_id k = field(&p, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, io, HGA_ROWS_NODES);
    hga_id v = field(&p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, io, HGA_ROWS_NODES);
    for (hga_id f = q; f <= v && !input; f++) assert_ok(hga_program_coarsen(&p, f));
    if (way == 0) { /* averages of averages */
        hga_id m =
            field(&p, "m", HGA_WIDTH_VALUE, HGA_INTERNAL, io, random_below(rng, 2) ? HGA_ROWS_NODES : HGA_ROWS_ABOVE);
        hga_id out = field(&p, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_NODES);
        p.field[m].rows = HGA_ROWS_NODES;
        assert_ok(hga_program_mean(&p, random_below(rng, 2) ? 0 : HGA_TREE_UP, v, m, 0));
        if (random_below(rng, 2)) assert_ok(hga_program_coarsen(&p, m)); /* in place, where the caller has no rows */
        if (random_below(rng, 2)) {                                      /* sums of sums */
            hga_id sums = field(&p, "sums", HGA_WIDTH_OUT, HGA_INTERNAL, io, HGA_ROWS_NODES);
            assert_ok(hga_program_weighted_sum(&p, 0, m, sums));
            m = sums;
        }
        assert_ok(hga_program_weighted_sum(&p, 0, m, out));
        return p;
    }
    hga_id state =
        field(&p, "state", HGA_WIDTH_STATE, way == 4 ? HGA_INTERNAL : HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_NODES);
    assert_ok(hga_program_attend(&p, 0, q, k, v, state, 1));
    if (way == 2) { /* once more, and what it saw first counts twice */
        hga_stage more = p.stage[p.n_stages - 1];
        more.name[0] = 'A', more.update = HGA_UPDATE_MERGE;
        assert_ok(hga_program_add_stage(&p, &more));
    }
    if (way == 3) assert_ok(hga_program_spread(&p, HGA_TREE_DOWN, state));
    if (way == 4) {
        hga_id psi = field(&p, "psi", HGA_WIDTH_SCALAR, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES);
        hga_id keep = field(&p, "keep", HGA_WIDTH_SCALAR, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES);
        hga_id out = field(&p, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_NODES);
        assert_ok(hga_program_energy(&p, state, psi));
        assert_ok(hga_program_descend(&p, state, psi, keep, out));
    }
    return p;
}

/* The (source, destination) pairs of a stage, for free(). */
static inline edge *stage_edges(const hga_graph *g, const hga_stage *s, int64_t *n)
{
    if (s->relation >= 0) return all_edges(g, s->relation, n);
    hga_nodes nodes = hga_graph_nodes(g);
    edge *e = memory(nodes.n, sizeof *e);
    *n = 0;
    for (hga_id v = 0; v < nodes.n; v++) {
        hga_id p = nodes.parent ? nodes.parent[v] : -1;
        if (p < 0) continue;
        e[(*n)++] = s->relation == HGA_TREE_UP ? (edge){.src = v, .dst = p} : (edge){.src = p, .dst = v};
    }
    return e;
}

/* The level of a stage's i-th step. */
static inline hga_id level_of_step(const hga_nodes *nodes, hga_order order, hga_id i)
{
    return order == HGA_LEVELS_DOWN ? nodes->n_levels - 1 - i : i;
}

static inline int is_row(const hga_graph *g, hga_field_rows rows, hga_id v)
{
    hga_id n, found = 0, *list = row_nodes(g, rows, &n);
    for (hga_id i = 0; i < n; i++) found |= list[i] == v;
    free(list);
    return found;
}

/* Does the stage write row v? In place and upwards it does not write tokens; a row without edges it does write. */
static inline int is_written(const hga_graph *g, const hga_program *p, const hga_stage *s, hga_id v)
{
    int keeps_tokens = s->order == HGA_LEVELS_UP && s->value == s->out && s->message != HGA_MESSAGE_USER;
    if (keeps_tokens && v < hga_graph_nodes(g).level_ptr[1]) return 0;
    return is_row(g, p->field[s->out].rows, v);
}

/* Does the caller have a row of field f for node v? */
static inline int is_input(const hga_graph *g, const hga_field *f, hga_id v)
{
    return f->binding != HGA_INTERNAL && f->binding != HGA_IO_OUT && is_row(g, f->io, v);
}

#endif
