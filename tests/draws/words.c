/* words.c: the words of variants, as hga_build and the tool take them. */
#include "draws.h"

#include <stdio.h>

static const char *yes(choices *c, const char *word) { return choose(c, 2) ? word : ""; }

hga_id draw_words(choices *c, char *words, size_t bytes)
{
    static const char *const rules[] = {"shifted", "text", "algorithm1"};
    hga_id n = 1 + (rarely(c, 6) ? choose(c, 400) : choose(c, 90));
    hga_id a = 1 + choose(c, rarely(c, 3) ? 40 : 7), b = 1 + choose(c, 9);
    const char *causal = yes(c, " causal=1");
    switch (choose(c, 12)) {
    case 0: snprintf(words, bytes, "dense%s", causal); break;
    case 1: snprintf(words, bytes, "window left=%d right=%d global=%d", a, b, choose(c, n < 3 ? n : 3)); break;
    case 2: snprintf(words, bytes, "window left=%d right=0 causal=1 stride=%d", 4 * a, 1 + choose(c, 4)); break;
    case 3: snprintf(words, bytes, "bpt k=%d clip=%d%s", a, b, causal); break;
    case 4: snprintf(words, bytes, "bpt k=%d rule=%s", a, rules[choose(c, 3)]); break;
    case 5: snprintf(words, bytes, "htransformer block=%d%s%s", a, causal, yes(c, " relative=1")); break;
    case 6: snprintf(words, bytes, "htransformer block=%d structure=siblings%s relative=1", a, causal); break;
    case 7: snprintf(words, bytes, "htransformer block=%d interpolation=linear", a); break;
    case 8: snprintf(words, bytes, "hsa branching=%d,%d%s", 1 + a, 1 + b, yes(c, " self=1")); break;
    case 9:
        snprintf(words, bytes, "hsa branching=%d,%d causal=1 mode=%s", 1 + a, 1 + b,
                 choose(c, 2) ? "self" : "frontier");
        break;
    case 10: snprintf(words, bytes, "fenwick"); break;
    default: snprintf(words, bytes, "dilated segments=%d,%d dilations=1,%d%s", 4 * a, 9 * a, b, causal);
    }
    return n;
}
