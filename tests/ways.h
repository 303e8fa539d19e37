/* ways.h: an oracle that the tests of coverage and patterns share: how many paths there are from each key token to
   each field of each node, counted edge by edge. And what such oracles are tried on. */
#ifndef HGA_WAYS_H
#define HGA_WAYS_H

#include "draws.h"
#include "random_program.h"

#include <stdio.h>
#include <string.h>

enum { MOST_NODES = 500, MOST_TOKENS = 64 };

/* times[f][v][j]: how often key token j is in field f of node v */
typedef struct ways {
    const hga_graph *g;
    const hga_program *p;
    hga_nodes nodes;
    hga_id out; /* the field that goes out */
    int64_t times[HGA_FIELD_SLOTS][MOST_NODES][MOST_TOKENS];
} ways;

static inline int ways_descends_from(const hga_nodes *nodes, hga_id token, hga_id v)
{
    while (token >= 0 && token != v) token = nodes->parent ? nodes->parent[token] : -1;
    return token == v;
}

/* A row of the caller's stands for the tokens below it. */
static inline void ways_start(ways *w, const hga_graph *g, const hga_program *p)
{
    memset(w, 0, sizeof *w);
    w->g = g, w->p = p, w->nodes = hga_graph_nodes(g);
    assert_in_range(w->nodes.n, 1, MOST_NODES);
    assert_in_range(w->nodes.n_keys, 1, MOST_TOKENS);
    while (p->field[w->out].binding != HGA_IO_OUT) w->out++;
    for (hga_id f = 1; f <= p->n_fields; f++)
        for (hga_id v = 0; v < w->nodes.n; v++)
            for (hga_id j = 0; is_input(g, &p->field[f], v) && j < w->nodes.n_keys; j++)
                w->times[f][v][j] = ways_descends_from(&w->nodes, w->nodes.key_first + j, v);
}

static inline void ways_add(int64_t *sum, const int64_t *x)
{
    for (int j = 0; j < MOST_TOKENS; j++) sum[j] += x[j];
}

/* An edge passes on the value, the state, or what came down so far. */
static inline void ways_run(ways *w, const hga_stage *s)
{
    int64_t n;
    edge *e = stage_edges(w->g, s, &n);
    hga_id handed = s->message == HGA_GATE ? s->out : s->value;
    for (hga_id i = 0; i < w->nodes.n_levels; i++) {
        hga_id l = level_of_step(&w->nodes, s->order, i);
        for (hga_id v = w->nodes.level_ptr[l]; v < w->nodes.level_ptr[l + 1]; v++) {
            int64_t sum[MOST_TOKENS] = {0};
            for (int64_t k = 0; k < n; k++)
                if (e[k].dst == v) ways_add(sum, w->times[handed][e[k].src]);
            if (s->update == HGA_UPDATE_MERGE) ways_add(sum, w->times[s->out][v]);
            if (s->message == HGA_GATE) ways_add(sum, w->times[s->value][v]);
            if (s->message == HGA_ENERGY || !is_written(w->g, w->p, s, v)) continue;
            memcpy(w->times[s->out][v], sum, sizeof sum);
        }
    }
    free(e);
}

static inline void ways_count(ways *w, const hga_graph *g, const hga_program *p)
{
    ways_start(w, g, p);
    for (hga_id i = 0; i < p->n_stages; i++) ways_run(w, &p->stage[i]);
}

/* How often key token `other` is in the output of query token `token`. */
static inline int64_t ways_between(const ways *w, hga_id token, hga_id other)
{
    return w->times[w->out][w->nodes.query_first + token][other];
}

/* ---- what oracles are tried on ---- */

void draw_fail(const char *format, ...)
{
    fail_msg("a draw failed: %s", format);
    abort();
}

typedef void (*ways_check)(const char *name, const hga_graph *g, const hga_program *p);

/* Random programs over random graphs. */
static inline void on_random_programs(int n, ways_check check)
{
    for (int seed = 1; seed <= n; seed++) {
        uint64_t rng = (uint64_t)seed;
        hga_graph *g = random_graph((uint64_t)seed, 1 + random_below(&rng, 40), 1 + (unsigned)random_below(&rng, 63));
        hga_program p = random_program(&rng);
        char name[64];
        snprintf(name, sizeof name, "seed %d", seed);
        check(name, g, &p);
        hga_graph_destroy(g);
    }
}

/* Does the oracle know what user functions read? */
typedef enum user_stages { NO_USER_STAGES, USER_STAGES } user_stages;

/* Programs of every sort that a plan accepts, over graphs with sides, orders and relations without edges: fields of
   any width, written in place and over the caller's own tensors. Returns how many there were. */
static inline int on_drawn_programs(int n, user_stages users, ways_check check)
{
    int checked = 0;
    for (int seed = 1; seed <= n; seed++) {
        choices c = choices_of_seed((uint64_t)seed);
        hga_program p;
        hga_plan *plan = NULL;
        hga_graph *g = draw_graph(&c, NULL);
        hga_nodes nodes = g ? hga_graph_nodes(g) : (hga_nodes){0};
        int fits = g && nodes.n <= MOST_NODES && nodes.n_keys <= MOST_TOKENS && nodes.n_queries <= MOST_TOKENS;
        if (fits && draw_program(&c, g, &p) && (users || !find_stage(&p, HGA_MESSAGE_USER)) &&
            hga_plan_create(g, &p, &(hga_shape){.n_heads = 1, .dim = 1}, NULL, &plan) == HGA_OK) {
            char name[64];
            snprintf(name, sizeof name, "drawn program %d", seed);
            check(name, g, &p);
            checked++;
        }
        hga_plan_destroy(plan), hga_graph_destroy(g);
    }
    return checked;
}

/* Every variant at n lengths, within the oracles' tables. */
static inline void on_variants(int n, ways_check check)
{
    for (int i = 0; i < n_variants(); i++)
        for (int seed = 1; seed <= n; seed++) {
            problem p;
            variant_build(i, 4 + (hga_id)(seed * 9), (uint64_t)seed, &(hga_shape){.n_heads = 1, .dim = 2, .pos_dim = 2},
                          &p);
            hga_nodes nodes = hga_graph_nodes(p.graph);
            if (nodes.n <= MOST_NODES && nodes.n_keys <= MOST_TOKENS && nodes.n_queries <= MOST_TOKENS)
                check(p.name, p.graph, &p.program);
            problem_clear(&p);
        }
}

#endif
