/* follow.h: the oracle of levels, rows and layers: every token followed along every edge, forward, as sets of at
   most 64 tokens. */
#ifndef HGA_FOLLOW_H
#define HGA_FOLLOW_H

#include "random_program.h"

#include <string.h>

enum { MOST_NODES = 500, MOST_TOKENS = 64 };

/* A graph and program taken apart: each stage's edges by destination, and where fields are. */
typedef struct world {
    const hga_graph *g;
    const hga_program *p;
    hga_nodes nodes;
    edge *e[HGA_MAX_STAGES];
    int64_t n_edges[HGA_MAX_STAGES];
    /* goes_on: into the next layer */
    uint8_t row[HGA_FIELD_SLOTS][MOST_NODES], input[HGA_FIELD_SLOTS][MOST_NODES], goes_on[MOST_NODES];
    /* the tokens under a node */
    uint64_t below[MOST_NODES];
    /* stages whose edges are attention */
    uint32_t attends;
    hga_id out;
} world;

static inline int fits(const hga_graph *g)
{
    hga_nodes nodes = hga_graph_nodes(g);
    return nodes.n <= MOST_NODES && nodes.n_keys <= MOST_TOKENS && nodes.n_queries <= MOST_TOKENS;
}

static inline void take_apart(world *w, const hga_graph *g, const hga_program *p)
{
    memset(w, 0, sizeof *w);
    w->g = g, w->p = p, w->nodes = hga_graph_nodes(g);
    while (p->field[w->out].binding != HGA_IO_OUT) w->out++;
    for (hga_id f = 1; f <= p->n_fields; f++)
        for (hga_id v = 0; v < w->nodes.n; v++)
            w->row[f][v] = (uint8_t)is_row(g, p->field[f].rows, v),
            w->input[f][v] = (uint8_t)is_input(g, &p->field[f], v);
    for (hga_id v = 0; v < w->nodes.n; v++) w->goes_on[v] = (uint8_t)is_row(g, p->field[w->out].io, v);
    for (hga_id j = 0; j < w->nodes.n_keys; j++)
        for (hga_id v = w->nodes.key_first + j; v >= 0; v = w->nodes.parent ? w->nodes.parent[v] : -1)
            w->below[v] |= UINT64_C(1) << j;
    for (hga_id i = 0; i < p->n_stages; i++) {
        w->e[i] = stage_edges(g, &p->stage[i], &w->n_edges[i]);
        if (w->e[i]) sort_edges(w->e[i], w->n_edges[i]);
        if (p->stage[i].reduce == HGA_SOFTMAX) w->attends |= UINT32_C(1) << i;
    }
    if (!w->attends) w->attends = UINT32_C(1) << (p->n_stages - 1);
}

static inline void put_away(world *w)
{
    for (hga_id i = 0; i < w->p->n_stages; i++) free(w->e[i]);
}

/* One question: what the caller's rows hold, which level attention is let through (-1: all), which row of which stage
   is marked with a token of its own (-1: none). */
typedef struct question {
    const uint64_t *input;
    hga_id level, stage, node;
} question;

typedef uint64_t values[HGA_FIELD_SLOTS][MOST_NODES];

static inline int passes(const world *w, const question *q, hga_id i, hga_id source)
{
    return q->level < 0 || !(w->attends >> i & 1u) || hga_graph_level(w->g, source) == q->level;
}

static inline const edge *first_edge(const world *w, hga_id i, hga_id v)
{
    int64_t lo = 0, hi = w->n_edges[i];
    while (lo < hi) {
        int64_t mid = (lo + hi) / 2;
        if (w->e[i][mid].dst < v)
            lo = mid + 1;
        else
            hi = mid;
    }
    return w->e[i] + lo;
}

static inline void run_row(const world *w, const question *q, hga_id i, hga_id v, values x)
{
    const hga_stage *s = &w->p->stage[i];
    uint64_t sum = 0;
    if (s->message == HGA_ENERGY || !w->row[s->out][v] || !is_written(w->g, w->p, s, v)) return;
    for (const edge *e = first_edge(w, i, v); e < w->e[i] + w->n_edges[i] && e->dst == v; e++) {
        if (passes(w, q, i, e->src)) sum |= x[s->message == HGA_GATE ? s->out : s->value][e->src];
    }
    if (s->update == HGA_UPDATE_MERGE) sum |= x[s->out][v];
    if (s->message == HGA_GATE) sum |= x[s->value][v];
    x[s->out][v] = sum;
    if (q->stage == i && q->node == v) x[s->out][v] |= 1;
}

/* Computes what the out field holds on every node. */
static inline void answer(const world *w, const question *q, uint64_t *out)
{
    static values x;
    memset(x, 0, sizeof x);
    for (hga_id f = 1; f <= w->p->n_fields; f++)
        for (hga_id v = 0; v < w->nodes.n; v++)
            if (w->input[f][v] && q->input) x[f][v] = q->input[v];
    for (hga_id i = 0; i < w->p->n_stages; i++)
        for (hga_id k = 0; k < w->nodes.n_levels; k++) {
            hga_id l = level_of_step(&w->nodes, w->p->stage[i].order, k);
            for (hga_id v = w->nodes.level_ptr[l]; v < w->nodes.level_ptr[l + 1]; v++) run_row(w, q, i, v, x);
        }
    memcpy(out, x[w->out], sizeof x[w->out]);
}

#endif
