/* ways.c: the ways to attend as a table, and which one a call's items go. The first row that does not refuse, and that
   fits, takes an item; the last ones fit all. */
#include "attend_ways.h"
#include "plan.h"
#include "unknowns.h"
#include "workspace.h"

typedef struct attend_way {
    const char *name;
    unsigned jobs;    /* of phases, as bits of phase_job */
    unsigned refuses; /* unknowns.h: any of these, for the reason that feature_words gives */
    /* How many items, from the first of n on, the graph has for it there; nothing is computed. NULL: one. */
    int64_t (*fits)(worker *w, const wave_item *item, int64_t n);
    const char *lacks; /* why none is, where none is */
    /* Items that it fits. NULL: rows come to it from those that choose_tiles.c looks at. */
    void (*take)(worker *w, const wave_item *item, int64_t n);
} attend_way;

enum { ROWS = 1u << JOB_ROWS, PIECES = 1u << JOB_PIECES };

enum {
    /* what no function that computes rows together knows */
    NOT_TOGETHER = IS_PLAIN | HOLDS_ROWS | ADDS_SCORES | BRINGS_EDGE_BIASES | BRINGS_OF_EDGES | CAPS_KEYS | HAS_STRAYS,
    NOT_IN_TILES = NOT_TOGETHER | IS_ORDERED | IS_LISTED,
    NOT_IN_FAMILIES = BRINGS_POSITIONS | BRINGS_SLOPES | READS_SIXTEEN | MANY_HEADS | GOES_ON | IS_STRICT
};

static const attend_way ways[N_ATTEND_WAYS] = {
    [WAY_WIDE] = {"tiles head by head", ROWS,
                  NOT_IN_TILES | BRINGS_TYPES | BRINGS_POSITIONS | DROPS_WEIGHTS | SOME_ROWS | IS_STRICT | WRITES_OVER |
                      HAS_NO_WIDE,
                  wide_fits, "no panels behind each other have many columns of one block alone", wide_take},
    [WAY_PIECES] = {"pieces together", PIECES, NOT_TOGETHER | BRINGS_POSITIONS | IS_LONE | HAS_NO_PIECES, pieces_fit,
                    "no pieces have columns alone that others have", pieces_take},
    [WAY_COLUMNS] = {"by columns", ROWS, NOT_IN_TILES | BRINGS_TYPES | BRINGS_POSITIONS | WRITES_OVER, columns_fit,
                     "rows share their columns with those beside them", columns_take},
    [WAY_KEPT] = {"kept tiles", ROWS,
                  NOT_IN_TILES | BRINGS_POSITIONS | DROPS_ALIKE | SOME_ROWS | IS_STRICT | SPLITS_HEADS, kept_fits,
                  "no panel's tiles are dear to choose and few to keep", kept_take},
    [WAY_EQUAL] = {"panels of equal families", ROWS,
                   NOT_IN_TILES | NOT_IN_FAMILIES | BRINGS_TYPES | DROPS_WEIGHTS | SOME_ROWS | SPLITS_HEADS, equal_fits,
                   "no panel has families of one size alone", equal_take},
    [WAY_TILES] = {"tiles", ROWS, NOT_IN_TILES | IS_STRICT, NULL, "too few of sixteen rows share a column", tiles_take},
    [WAY_STRICT] = {"strict tiles", ROWS, NOT_IN_TILES | IS_LOOSE, NULL, "too few of sixteen rows share a column",
                    tiles_take},
    [WAY_FAMILIES] = {"families", ROWS, NOT_IN_TILES | NOT_IN_FAMILIES, NULL, "no few rows have a few columns alone",
                      NULL},
    [WAY_HEADS] = {"row by row, all heads at once", ROWS | PIECES,
                   IS_PLAIN | HOLDS_ROWS | BRINGS_EDGE_BIASES | BRINGS_TYPE_BIASES | BRINGS_SLOPES | ADDS_KEYS |
                       FEW_HEADS | MANY_HEADS,
                   NULL, "nothing is left for it", rows_take},
    [WAY_ROWS] = {"row by row, head by head", ROWS | PIECES, IS_PLAIN | HOLDS_ROWS, NULL, "nothing is left for it",
                  rows_take},
    [WAY_WHOLE] = {"row by row, whole rows", ROWS, IS_PLAIN, NULL, NULL, rows_take},
    [WAY_PLAIN] = {"row by row in double", ROWS, 0, NULL, NULL, rows_take},
};

/* Bit i of ways[s]: way i refuses nothing of what stage s and the call have. */
void ways_open(const hga_plan *plan, unsigned brings, int some_rows, hga_workspace *workspace)
{
    workspace->brings = brings;
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        workspace->ways[s] = 0;
        if (!kind_attends(plan->stage[s].kind)) continue;
        const unsigned features = stage_features(plan, s, brings, some_rows);
        for (int i = 0; i < N_ATTEND_WAYS; i++)
            if (!(ways[i].refuses & features)) workspace->ways[s] = (uint16_t)(workspace->ways[s] | 1u << i);
    }
}

int64_t way_fits(worker *w, attend_way_number way, const wave_item *item, int64_t n)
{
    const attend_way *x = &ways[way];
    const phase *ph = &w->plan->phase[item->phase];
    if (!x->take || !(x->jobs >> ph->job & 1) || !goes(w, ph->stage, way)) return 0;
    return x->fits ? x->fits(w, item, n) : 1;
}

int64_t ways_take(worker *w, const wave_item *item, int64_t n)
{
    attend_way_number i = 0;
    int64_t taken;
    while (!(taken = way_fits(w, i, item, n))) i++;
    ways[i].take(w, item, taken);
    return taken;
}

/* ---- what is told of them ---- */

const char *way_name(attend_way_number way) { return ways[way].name; }

const char *way_lacks(attend_way_number way) { return ways[way].lacks; }

const char *way_refusal(const hga_plan *plan, hga_id stage, unsigned brings, attend_way_number way)
{
    const unsigned refused = stage_features(plan, stage, brings, 0) & ways[way].refuses;
    return refused ? feature_words(refused) : NULL;
}
