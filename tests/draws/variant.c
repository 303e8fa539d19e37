/* variant.c: variants of the library: by words, as hga_build and the tool take them, or with the leaves of tokens. */
#include "draws.h"

#include <stdio.h>
#include <stdlib.h>

static const char *yes(choices *c, const char *word) { return choose(c, 2) ? word : ""; }

hga_id draw_words(choices *c, char *words, size_t bytes)
{
    static const char *const rules[] = {"shifted", "text", "algorithm1"};
    hga_id n = 1 + (rarely(c, 6) ? choose(c, 400) : choose(c, 90));
    hga_id a = 1 + choose(c, rarely(c, 3) ? 40 : 7), b = 1 + choose(c, 9);
    int cross = rarely(c, 3);
    const char *causal = cross ? "" : yes(c, " causal=1");
    char keys[24] = "";
    if (cross) snprintf(keys, sizeof keys, " keys=%d", 1 + choose(c, 90));
    switch (choose(c, 14)) {
    case 0: snprintf(words, bytes, "dense%s%s", causal, keys); break;
    case 1: snprintf(words, bytes, "window left=%d right=%d global=%d%s", a, b, choose(c, n < 3 ? n : 3), keys); break;
    case 2: snprintf(words, bytes, "window left=%d right=0 causal=1 stride=%d", 4 * a, 1 + choose(c, 4)); break;
    case 3: snprintf(words, bytes, "bpt k=%d clip=%d%s", a, b, causal); break;
    case 4: snprintf(words, bytes, "bpt k=%d rule=%s", a, rules[choose(c, 3)]); break;
    case 5: snprintf(words, bytes, "htransformer block=%d%s%s%s", a, causal, yes(c, " relative=1"), keys); break;
    case 6: snprintf(words, bytes, "htransformer block=%d structure=siblings%s relative=1", a, causal); break;
    case 7: snprintf(words, bytes, "htransformer block=%d interpolation=linear%s", a, keys); break;
    case 8: snprintf(words, bytes, "hsa branching=%d,%d%s", 1 + a, 1 + b, yes(c, " self=1")); break;
    case 9:
        snprintf(words, bytes, "hsa branching=%d,%d causal=1 mode=%s", 1 + a, 1 + b,
                 choose(c, 2) ? "self" : "frontier");
        break;
    case 10: snprintf(words, bytes, "fenwick"); break;
    case 11:
        n = a * b;
        snprintf(words, bytes, "neighbourhood shape=%d,%d kernel=%d dilation=1,%d causal=%d,%d", a, b, 1 + choose(c, 6),
                 1 + choose(c, 3), (int)choose(c, 2), (int)choose(c, 2));
        break;
    case 12:
        n = 6;
        snprintf(words, bytes, "draft parent=-1,0,0,4,1,-1 prefix=%d", choose(c, 90));
        break;
    default: snprintf(words, bytes, "dilated segments=%d,%d dilations=1,%d%s", 4 * a, 9 * a, b, causal);
    }
    return n;
}

/* Leaves of a binary tree for queries and keys, one token in eight in none of them. */
static hga_status routed(choices *c, hga_graph **g, hga_program *p)
{
    enum { MOST = 2 * 300 };
    int32_t leaf[MOST];
    hga_treeformer t;
    hga_defaults(&t);
    t.n_queries = 1 + choose(c, rarely(c, 4) ? 300 : 60), t.height = 1 + choose(c, 3);
    for (hga_id i = 0; i < 2 * t.n_queries; i++) leaf[i] = choose(c, 8) ? choose(c, 1 << t.height) : -1;
    t.query_leaf = leaf, t.key_leaf = leaf + t.n_queries, t.causal = choose(c, 2);
    return choose(c, 2) ? hga_build_treeformer_coarse(&t, g, p) : hga_build_treeformer_fine(&t, g, p);
}

static hga_status variant(choices *c, hga_graph **g, hga_program *p)
{
    char words[128];
    if (rarely(c, 8)) return routed(c, g, p);
    hga_id n = draw_words(c, words, sizeof words);
    return hga_build(words, n, g, p);
}

int draw_hierarchy(choices *c, const hga_allocator *a, hga_graph **g, hga_program *p)
{
    *g = NULL;
    if (rarely(c, 3)) return variant(c, g, p) == HGA_OK;
    *g = draw_graph(c, a);
    return *g && draw_program(c, *g, p);
}
