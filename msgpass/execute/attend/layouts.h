/* layouts.h: the tiles that choose_tiles finds for a panel, cached with the plan. Choosing depends on the graph and the
   sort of call only, and takes a tenth of the time where many short segments meet in a panel. So the first workspace of
   a plan chooses once, for all heads, workspaces and executions; the first execution whose scores depend on types
   chooses for such calls, which have tiles of their own, unless it cannot use them.

   cache_layouts.c  chooses and writes              replay.c  reads and runs

   Words are written for panels of phases that attend by position whose rows have all of their edges in tiles or
   families; not for panels of equal families only, which are found as fast (run_equal.c). The others are chosen anew in
   each call, and so are all panels in a call of some rows, or with scores of single pairs that depend on more than
   types. A panel's words:

     number of batches and families, TYPED if types are distinguished, HAS_FAMILIES if there are some: only calls whose
         rows may run as families use the panel; of families: the group | FAMILIES | the rows << 16, a chunk's columns,
         TYPED: types, the columns' lane masks; of each batch: chunks | groups that are complete << 16; of each chunk
         columns | parts << 8 | odd << 16 | ALIKE if its weights are equal | IN_ORDER if its sources are contiguous;
             the weight, or one a column; the first source, or all;
         TYPED: types_vary in two words, types of the other columns;
         of each part: group | first << 8 | last << 16 | full << 24; unless that is all, the columns' lane masks, two a
             word;
             where types vary: how many, their list, or | STEPS and the first and the step to the next;
                 how many picks, these, two a word of at most SHORT_LIST types; those of each column, four a word
     */
#ifndef LAYOUTS_H
#define LAYOUTS_H

#include "plan.h"
#include "workspace.h"

#include <string.h>

enum { FAMILIES = 1 << 8, ALIKE = 1 << 17, IN_ORDER = 1 << 18, STEPS = 1 << 19, SHORT_LIST = 256 };
#define TYPED        (UINT32_C(1) << 31)
#define HAS_FAMILIES (UINT32_C(1) << 30)

typedef struct layout_set { /* of one sort of call */
    int64_t n_phases, n_panels, words;
    int64_t *first; /* [n_phases]: index of a phase's first panel, -1 */
    int64_t *panel; /* [n_panels]: index of its first word; -1: its tiles are chosen anew */
    uint32_t *word; /* [words] */
} layout_set;

typedef struct layouts {
    layout_set plain, typed;
    int knows_types; /* typed has been found */
} layouts;

/* Whether the part has all rows of its group in all of the chunk's n columns. */
static inline int part_is_all(const tile_part *part, hga_id n)
{
    return part->full && part->first == 0 && part->last == n;
}

/* A pick, see part_types, of at most SHORT_LIST types: index | first lane << 8 | number of further lanes << 12. */
static inline uint16_t short_pick(uint32_t pick)
{
    const uint32_t rows = pick >> 16, first = (uint32_t)__builtin_ctz(rows);
    return (uint16_t)((pick & 0xff) | first << 8 | (uint32_t)(__builtin_popcount(rows) - 1) << 12);
}
/* The pick, as part_types has it, of a short one. */
static inline uint32_t long_pick(uint32_t pick)
{
    return (pick & 0xff) | ((2u << (pick >> 12)) - 1) << (16 + (pick >> 8 & 0xf));
}

/* ---- cache_layouts.c ---- */

/* Chooses the tiles of a plan, when it gets its first workspace. */
hga_status layouts_open(const hga_plan *plan, hga_workspace *workspace);
/* Chooses those of calls whose scores depend on types, in the first such call. */
hga_status layouts_learn_types(const hga_plan *plan, const hga_workspace *workspace);

/* ---- replay.c ---- */

/* The words of an item's panel; NULL: this call has none. */
const uint32_t *layout_of(const worker *w, wave_item item);
/* Computes the batches and families that the words list. */
void replay_panel(worker *w, hga_id stage, row_panel *p, const uint32_t *kept);

static inline hga_id words_of_bytes(hga_id n) { return (n + 3) / 4; }

static inline float float_of(uint32_t word)
{
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

#endif
