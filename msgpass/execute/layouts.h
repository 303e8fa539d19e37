/* layouts.h: what choose_tiles finds of a panel, kept with the plan. Choosing hangs on the graph and the sort of call
   alone, and takes a tenth of the time where many short segments meet in a panel. So the first workspace of a plan has
   it done once, for all heads, workspaces and executions.

   keep_layouts.c  chooses and writes              replay.c  reads and runs

   There are words for the panels of phases that attend by position whose rows have all of their edges in tiles. The
   others are chosen anew, and so are all in a call that adds something to single scores, or asks for some rows. A
   panel's words:

     how many batches; of each: chunks | groups that are complete << 16; of each chunk
         columns | parts << 8 | odd << 16 | ALIKE if its weights are; the weight, or one a column; sources;
         of each part: group | first << 8 | last << 16 | full << 24; unless that is all, the columns' lanes, two a word
     */
#ifndef LAYOUTS_H
#define LAYOUTS_H

#include "execute.h"

#include <string.h>

enum { ALIKE = 1 << 17 };

typedef struct layout_block { /* words of several panels */
    struct layout_block *next;
    uint32_t *word;
    int64_t room, used;
} layout_block;

typedef struct layouts {
    int64_t n_phases, n_panels;
    int64_t *first;         /* [n_phases]: number of a phase's first panel, -1 */
    const uint32_t **panel; /* [n_panels]: their words; NULL: it is chosen anew */
    layout_block *block;
    int64_t words;
} layouts;

/* Has the group all of its rows in all of the chunk's n columns? */
static inline int part_is_all(const tile_part *part, hga_id n)
{
    return part->full && part->first == 0 && part->last == n;
}

static inline float float_of(uint32_t word)
{
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

#endif
