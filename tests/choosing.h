/* choosing.h: rows that share columns with few of their neighbours and many of their panel. */
#ifndef CHOOSING_H
#define CHOOSING_H

#include "by_hand.h"

#include <stdlib.h>

enum { RUNS = 3 };

/* What is odd about a graph. */
enum { ALIKE = 0, TWICE = 1, HOLES = 2, SOME = 4 };

/* Each row has a few runs of 16 to 64 columns of its own choice, aligned or not. TWICE: every 300th row has a run
   twice; HOLES: some runs lack a column; SOME: only the first of three rows has edges. */
static inline hga_graph *rows_that_choose(hga_id n_rows, uint64_t seed, int odd)
{
    hga_block *block = memory(n_rows * (RUNS + 1), sizeof *block);
    hga_id n = 0;
    for (hga_id i = 0; i < n_rows; i++)
        for (hga_id j = 0; j < RUNS; j++) {
            hga_block b = {.dst = i, .n_dst = 1, .src = random_below(&seed, 3) * (n_rows / 32 * 10) + n_rows / 11 * j};
            b.n_src = random_below(&seed, 2) ? 64 : 16 + random_below(&seed, 40);
            b.src += random_below(&seed, 4) ? 0 : 5;
            if (odd & HOLES && j == 0) b.shape = HGA_OFF_DIAGONAL;
            if (odd & SOME && i % 3) continue;
            block[n++] = b;
            if (odd & TWICE && i % 300 == 0 && j == 0) block[n++] = b;
        }
    hga_graph *g = blocks_over(n_rows, block, n);
    free(block);
    return g;
}

/* Each row chooses blocks of 64 by itself: its own, and one or two of those before it. */
static inline hga_graph *rows_with_blocks(hga_id n_rows, uint64_t seed)
{
    enum { BLOCK = 64 };
    hga_builder *b = tokens_alone(n_rows);
    hga_id relation, *chosen = memory(3 * n_rows, sizeof *chosen);
    hga_pos *first = memory(n_rows + 1, sizeof *first), n = 0;
    hga_choice c = {.n_dst = n_rows, .n_src = n_rows, .row_block = 1, .block = BLOCK, .causal = 1, .first = first};
    for (hga_id t = 0; t < n_rows; t++, first[t] = n) {
        const hga_id own = t / BLOCK, one = own ? random_below(&seed, own) : 0;
        if (t % 4 == 0 && one > 0) chosen[n++] = random_below(&seed, one);
        if (own) chosen[n++] = one;
        chosen[n++] = own;
    }
    c.chosen = chosen;
    assert_ok(hga_builder_add_relation(b, "near", &relation));
    assert_ok(hga_builder_add_choice(b, relation, &c));
    free(chosen), free(first);
    return finished(b);
}

#endif
