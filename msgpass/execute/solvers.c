/* solvers.c: the table of attention solvers, and the choice for a call's items. The first row that does not refuse, and
   that fits, runs an item; the last ones fit all. */
#include "attend_solvers.h"
#include "plan.h"
#include "unknowns.h"
#include "workspace.h"

typedef struct attend_solver {
    const char *name;
    unsigned jobs;    /* of phases, as bits of phase_job */
    unsigned refuses; /* unknowns.h: any of these features; feature_words gives the reason */
    /* How many items, from the first of n on, the solver fits there; computes nothing. NULL: one. */
    int64_t (*fits)(worker *w, const wave_item *item, int64_t n);
    const char *lacks; /* why no item fits, where none does */
    /* Runs the items that it fits. NULL: rows come to it from the solvers that use choose_tiles.c. */
    void (*take)(worker *w, const wave_item *item, int64_t n);
} attend_solver;

enum { ROWS = 1u << JOB_ROWS, HAVE_SPLITS = 1u << JOB_SPLITS };

enum {
    /* features that no function for several rows supports */
    NOT_TOGETHER = IS_PLAIN | HOLDS_ROWS | ADDS_SCORES | CALL_HAS_EDGE_BIASES | CALL_HAS_OF_EDGES | CAPS_KEYS |
                   HAS_ROWLESS_COLUMNS,
    NOT_IN_TILES = NOT_TOGETHER | IS_ORDERED | IS_LISTED,
    NOT_IN_FAMILIES = CALL_HAS_POSITIONS | CALL_HAS_SLOPES | READS_SIXTEEN | MANY_HEADS | CONTINUES | IS_STRICT
};

static const attend_solver solvers[N_ATTEND_SOLVERS] = {
    [SOLVER_WIDE] = {"tiles head by head", ROWS,
                     NOT_IN_TILES | CALL_HAS_TYPES | CALL_HAS_POSITIONS | DROPS_WEIGHTS | SOME_ROWS | IS_STRICT |
                         WRITES_OVER | HAS_NO_WIDE,
                     wide_fits, "no panels behind each other have many columns of one block alone", wide_run},
    [SOLVER_SPLITS] = {"pieces together", HAVE_SPLITS, NOT_TOGETHER | CALL_HAS_POSITIONS | IS_LONE | HAS_NO_SPLITS,
                       splits_fit, "no pieces have columns alone that others have", splits_take},
    [SOLVER_COLUMNS] = {"by columns", ROWS, NOT_IN_TILES | CALL_HAS_TYPES | CALL_HAS_POSITIONS | WRITES_OVER,
                        columns_fit, "rows share their columns with those beside them", columns_run},
    [SOLVER_CACHED] = {"kept tiles", ROWS,
                       NOT_IN_TILES | CALL_HAS_POSITIONS | DROPS_ALIKE | SOME_ROWS | IS_STRICT | SPLITS_HEADS,
                       cached_fits, "no panel's tiles are dear to choose and few to keep", cached_take},
    [SOLVER_EQUAL] = {"panels of equal families", ROWS,
                      NOT_IN_TILES | NOT_IN_FAMILIES | CALL_HAS_TYPES | DROPS_WEIGHTS | SOME_ROWS | SPLITS_HEADS,
                      equal_fits, "no panel has families of one size alone", equal_run},
    [SOLVER_TILES] = {"tiles", ROWS, NOT_IN_TILES | IS_STRICT, NULL, "too few of sixteen rows share a column",
                      tiles_run},
    [SOLVER_STRICT] = {"strict tiles", ROWS, NOT_IN_TILES | IS_LOOSE, NULL, "too few of sixteen rows share a column",
                       tiles_run},
    [SOLVER_FAMILIES] = {"families", ROWS, NOT_IN_TILES | NOT_IN_FAMILIES, NULL, "no few rows have a few columns alone",
                         NULL},
    [SOLVER_HEADS] = {"row by row, all heads at once", ROWS | HAVE_SPLITS,
                      IS_PLAIN | HOLDS_ROWS | CALL_HAS_EDGE_BIASES | CALL_HAS_TYPE_BIASES | CALL_HAS_SLOPES |
                          ADDS_KEYS | FEW_HEADS | MANY_HEADS,
                      NULL, "nothing is left for it", rows_run},
    [SOLVER_ROWS] = {"row by row, head by head", ROWS | HAVE_SPLITS, IS_PLAIN | HOLDS_ROWS, NULL,
                     "nothing is left for it", rows_run},
    [SOLVER_WHOLE] = {"row by row, whole rows", ROWS, IS_PLAIN, NULL, NULL, rows_run},
    [SOLVER_PLAIN] = {"row by row in double", ROWS, 0, NULL, NULL, rows_run},
};

/* Bit i of solvers[s]: solver i refuses no feature of stage s and the call. */
void solvers_open(const hga_plan *plan, unsigned call_has, int some_rows, hga_workspace *workspace)
{
    workspace->call_has = call_has;
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        workspace->solvers[s] = 0;
        if (!kind_attends(plan->stage[s].kind)) continue;
        const unsigned features = stage_features(plan, s, call_has, some_rows);
        for (int i = 0; i < N_ATTEND_SOLVERS; i++)
            if (!(solvers[i].refuses & features)) workspace->solvers[s] = (uint16_t)(workspace->solvers[s] | 1u << i);
    }
}

int64_t solver_fits(worker *w, attend_solver_id solver, const wave_item *item, int64_t n)
{
    const attend_solver *x = &solvers[solver];
    const phase *ph = &w->plan->phases.list[item->phase];
    if (!x->take || !(x->jobs >> ph->job & 1) || !applies(w, ph->stage, solver)) return 0;
    return x->fits ? x->fits(w, item, n) : 1;
}

int64_t solvers_run(worker *w, const wave_item *item, int64_t n)
{
    attend_solver_id i = 0;
    int64_t taken;
    while (!(taken = solver_fits(w, i, item, n))) i++;
    solvers[i].take(w, item, taken);
    return taken;
}

/* ---- for reports ---- */

const char *solver_name(attend_solver_id solver) { return solvers[solver].name; }

const char *solver_lacks(attend_solver_id solver) { return solvers[solver].lacks; }

const char *solver_refusal(const hga_plan *plan, hga_id stage, unsigned call_has, attend_solver_id solver)
{
    const unsigned refused = stage_features(plan, stage, call_has, 0) & solvers[solver].refuses;
    return refused ? feature_words(refused) : NULL;
}
