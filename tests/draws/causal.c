/* causal.c: graphs and programs whose tokens see none that come later. */
#include "draws.h"

#include <stdio.h>

/* Nothing but variants that may be causal. */
static hga_status causal_variant(choices *c, hga_graph **g, hga_program *p)
{
    char words[96];
    hga_id n = 1 + choose(c, rarely(c, 6) ? 300 : 70), a = 1 + choose(c, 7), b = 1 + choose(c, 9);
    switch (choose(c, 8)) {
    case 0: snprintf(words, sizeof words, "dense causal=1"); break;
    case 1: snprintf(words, sizeof words, "window left=%d right=0 causal=1 stride=%d", 4 * a, 1 + choose(c, 3)); break;
    case 2: snprintf(words, sizeof words, "bpt k=%d clip=%d causal=1", a, b); break;
    case 3: snprintf(words, sizeof words, "htransformer block=%d causal=1", a); break;
    case 4: snprintf(words, sizeof words, "htransformer block=%d structure=siblings causal=1 relative=1", a); break;
    case 5: snprintf(words, sizeof words, "hsa branching=%d,%d causal=1", 1 + a, 1 + b); break;
    case 6: snprintf(words, sizeof words, "fenwick"); break;
    default: snprintf(words, sizeof words, "dilated segments=%d,%d dilations=1,%d causal=1", 4 * a, 9 * a, b);
    }
    return hga_build(words, n, g, p);
}

/* Tokens below families below families; a token sees nodes whose last token is none after it. */
typedef struct tower {
    hga_id tokens, level[4], n_levels, family;
} tower;

/* The last token of node v. */
static hga_id last_of(const tower *t, hga_id v)
{
    hga_id l = 0, width = 1;
    while (v >= t->level[l + 1]) l++, width *= t->family;
    hga_id end = (v - t->level[l] + 1) * width;
    return (end < t->tokens ? end : t->tokens) - 1;
}

static hga_status add_edges(choices *c, hga_builder *b, hga_id relation, const tower *t)
{
    hga_status st = HGA_OK;
    if (choose(c, 2)) {
        hga_id first = choose(c, t->tokens), n = 1 + choose(c, t->tokens - first);
        hga_block own = {.dst = first, .n_dst = n, .src = first, .n_src = n, .shape = HGA_LOWER};
        HGA_TRY(hga_builder_add_blocks(b, relation, &own));
    }
    for (hga_id i = choose(c, 90); i > 0; i--) {
        hga_id v = choose(c, t->tokens), u = choose(c, t->level[t->n_levels]);
        if (last_of(t, u) <= v) HGA_TRY(hga_builder_add_edge(b, relation, u, v, choose(c, 3), 1));
    }
done:
    return st;
}

static hga_status causal_graph(choices *c, hga_id n_relations, hga_graph **g)
{
    tower t = {.tokens = 1 + choose(c, rarely(c, 5) ? 200 : 50), .n_levels = 1, .family = 2 + choose(c, 3)};
    hga_builder *b = NULL;
    hga_status st = HGA_OK;
    hga_id relation;
    HGA_TRY(hga_builder_create(NULL, &b));
    HGA_TRY(hga_builder_add_level(b, t.tokens, NULL));
    t.level[1] = t.tokens;
    for (hga_id levels = 1 + choose(c, 3); t.n_levels < levels; t.n_levels++) {
        hga_id below = t.level[t.n_levels] - t.level[t.n_levels - 1], n = (below + t.family - 1) / t.family;
        HGA_TRY(hga_builder_add_level(b, n, NULL));
        HGA_TRY(hga_builder_set_families(b, t.level[t.n_levels], t.level[t.n_levels - 1], below, t.family));
        t.level[t.n_levels + 1] = t.level[t.n_levels] + n;
    }
    for (hga_id r = 0; r < n_relations; r++) {
        HGA_TRY(hga_builder_add_relation(b, r ? "far" : "near", &relation));
        HGA_TRY(add_edges(c, b, relation, &t));
    }
    HGA_TRY(hga_builder_finish(b, g));
done:
    hga_builder_destroy(b);
    return st;
}

/* Attention to tokens and to means of them, once or twice; or sums. */
static hga_status causal_program(choices *c, hga_id n_relations, hga_program *p)
{
    hga_status st = HGA_OK;
    hga_id q = 0, k = 0, v, out;
    int sums = rarely(c, 4);
    hga_program_init(p);
    if (!sums) {
        HGA_TRY(hga_program_add_field(p, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES, &q));
        HGA_TRY(hga_program_add_field(p, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_NODES, &k));
    }
    HGA_TRY(hga_program_add_field(p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_NODES, &v));
    HGA_TRY(hga_program_add_field(p, "out", sums ? HGA_WIDTH_OUT : HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES,
                                  HGA_ROWS_QUERIES, &out));
    HGA_TRY(hga_program_coarsen(p, v));
    p->has_lse = !sums;
    if (sums) {
        HGA_TRY(hga_program_weighted_sum(p, 0, v, out));
        goto done;
    }
    HGA_TRY(hga_program_coarsen(p, k));
    for (hga_id r = 0; r < n_relations; r++) {
        HGA_TRY(hga_program_attend(p, r, q, k, v, out, 0));
        if (r) p->stage[p->n_stages - 1].name[0] = 'A', p->stage[p->n_stages - 1].update = HGA_UPDATE_MERGE;
    }
done:
    return st;
}

int draw_causal(choices *c, int any_program, hga_graph **g, hga_program *p)
{
    hga_id n_relations = 1 + choose(c, 2);
    *g = NULL;
    if (!any_program && rarely(c, 6)) return draw_hierarchy(c, NULL, g, p);
    if (!any_program && !rarely(c, 2)) return causal_variant(c, g, p) == HGA_OK;
    if (causal_graph(c, n_relations, g) != HGA_OK) return 0;
    return any_program ? draw_program(c, *g, p) : causal_program(c, n_relations, p) == HGA_OK;
}
