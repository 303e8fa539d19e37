/* solvers.c: the table of attention solvers, and the choice for a call's items. The first row that does not refuse, and
   that fits, runs an item; the last ones fit all. */
#include "attend_solvers.h"
#include "row_solvers.h"
#include "panel_solvers.h"
#include "plan.h"
#include "stages.h"
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
    NOT_TOGETHER = IS_PLAIN | HOLDS_ROWS | ADDS_SCORES | CALL_HAS_EDGE_BIASES | CALL_HAS_OF_EDGES | BENDS_KEYS |
                   HAS_ROWLESS_COLUMNS,
    NOT_IN_TILES = NOT_TOGETHER | IS_ORDERED | IS_LISTED,
    NOT_IN_FAMILIES = CALL_HAS_POSITIONS | CALL_HAS_SLOPES | READS_SIXTEEN | MANY_HEADS | CONTINUES | IS_STRICT
};

static const attend_solver solvers[N_ATTEND_SOLVERS] = {
    [SOLVER_WIDE] = {"tiles head by head", ROWS,
                     NOT_IN_TILES | CALL_HAS_TYPES | CALL_HAS_POSITIONS | DROPS_WEIGHTS | SOME_ROWS | IS_STRICT |
                         WRITES_OVER | HAS_NO_WIDE,
                     wide_fits, "no consecutive panels have many columns of one block alone", wide_run},
    [SOLVER_SPLITS] = {"splits together", HAVE_SPLITS,
                       (NOT_TOGETHER & ~CALL_HAS_EDGE_BIASES) | CALL_HAS_POSITIONS | IS_LONE | HAS_NO_SPLITS |
                           IS_UNRANKED,
                       splits_fit, "no splits have columns alone that others have", splits_take},
    [SOLVER_COLUMNS] = {"by columns", ROWS, NOT_IN_TILES | CALL_HAS_TYPES | CALL_HAS_POSITIONS | WRITES_OVER,
                        columns_fit, "rows share their columns with those beside them", columns_run},
    [SOLVER_CACHED] = {"cached tiles", ROWS,
                       NOT_IN_TILES | CALL_HAS_POSITIONS | DROPS_ALIKE | SOME_ROWS | IS_STRICT | SPLITS_HEADS,
                       cached_fits, "no panel's tiles are expensive to choose and few to cache", cached_take},
    [SOLVER_EQUAL] = {"panels of equal families", ROWS,
                      NOT_IN_TILES | NOT_IN_FAMILIES | CALL_HAS_TYPES | DROPS_WEIGHTS | SOME_ROWS | SPLITS_HEADS,
                      equal_fits, "no panel has families of one size alone", equal_run},
    [SOLVER_TILES] = {"tiles", ROWS, (NOT_IN_TILES & ~(CALL_HAS_EDGE_BIASES | ADDS_SCORES)) | IS_STRICT | IS_UNRANKED,
                      NULL, "too few of sixteen rows share a column", tiles_run},
    [SOLVER_STRICT] = {"strict tiles", ROWS, NOT_IN_TILES | IS_LOOSE, NULL, "too few of sixteen rows share a column",
                       tiles_run},
    [SOLVER_FAMILIES] = {"families", ROWS, NOT_IN_TILES | NOT_IN_FAMILIES, NULL, "no few rows have a few columns alone",
                         NULL},
    [SOLVER_FEW_EDGES] = {"few edges a row, all heads at once", ROWS,
                          IS_PLAIN | HOLDS_ROWS | CALL_HAS_EDGE_BIASES | CALL_HAS_TYPE_BIASES | CALL_HAS_TYPE_KEYS |
                              CALL_HAS_SLOPES | CALL_HAS_EDGE_VALUES | READS_SIXTEEN | FEW_HEADS | MANY_HEADS |
                              CONTINUES | IS_LONE,
                          few_edges_fit_stage, "edges are in blocks, or heads are wide", few_edges_run},
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
    if (!x->take || !(x->jobs >> ph->job & 1) || !applies(w, ph->stage, (int)solver)) return 0;
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

/* ---- features that not every solver supports, in words ---- */

static const struct {
    unsigned feature;
    const char *words;
} words[] = {
    {IS_PLAIN, "all stages are computed in double, as they are defined"},
    {HOLDS_ROWS, "weights depend on all scores of a row"},
    {ADDS_SCORES, "scores are additive"},
    {CALL_HAS_EDGE_BIASES, "the call has biases of edges"},
    {IS_UNRANKED, "the call has biases of edges, which blocks do not have in the order of sources"},
    {CALL_HAS_EDGE_KEYS, "the call has keys of edges, or values that are added"},
    {CALL_HAS_EDGE_VALUES, "the call has features of edges"},
    {BENDS_KEYS, "scores that relative keys are part of are capped or additive"},
    {ADDS_KEYS, "relative keys need 32 bits and products, keys of edges 32 bits"},
    {CALL_HAS_TYPE_KEYS, "the call has relative keys"},
    {CALL_HAS_TYPE_BIASES, "the call has biases of types"},
    {CALL_HAS_POSITIONS, "the call has positions"},
    {CALL_HAS_SLOPES, "the call has slopes"},
    {DROPS_WEIGHTS, "weights are dropped"},
    {DROPS_ALIKE, "weights are dropped by types that scores do not depend on"},
    {SOME_ROWS, "some rows are computed, or those of a rank"},
    {IS_STRICT, "rows are strict"},
    {IS_LOOSE, "rows are not strict"},
    {IS_LONE, "a decoder's rows may come alone"},
    {READS_SIXTEEN, "keys and values are read in 16 bits"},
    {FEW_HEADS, "so few heads are faster one by one"},
    {MANY_HEADS, "there are more heads than run together"},
    {CONTINUES, "rows continue from states that are there"},
    {HAS_ROWLESS_COLUMNS, "blocks have columns of nodes without rows"},
    {IS_ORDERED, "rows run level by level, not in the order of blocks"},
    {WRITES_OVER, "results take the place of rows that other panels read"},
    {IS_LISTED, "no edges are in blocks"},
    {SPLITS_HEADS, "threads divide the heads of a panel"},
    {HAS_NO_WIDE, "no rows have one wide block and nothing else"},
    {HAS_NO_SPLITS, "no long rows share the columns of their splits"},
};

const char *feature_words(unsigned features)
{
    int i = 0;
    while (!(words[i].feature & features)) i++;
    return words[i].words;
}

/* ---- detection of these features ---- */

static const area *stored_rows(const hga_plan *plan, hga_id f)
{
    const field_storage *h = &plan->fields.storage[f];
    return h->host ? &plan->fields.storage[h->host].rows : &h->rows;
}

/* Whether nodes use rows of both from one pool. */
static int share_pool(const area *x, const area *y)
{
    return x->slot && y->slot && x->floats == y->floats && x->own_pool == y->own_pool;
}

/* Whether a row may be written over another panel's operand. Its last reader is done by then, but not for every
   head. */
static int writes_over(const hga_plan *plan, const hga_stage *s)
{
    const area *written[] = {stored_rows(plan, s->out), &plan->fields.storage[s->out].lse};
    const hga_id operand[] = {s->query, s->key, s->value};
    if (s->key == s->out || s->value == s->out) return 1;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++)
            if (share_pool(written[i], stored_rows(plan, operand[k])) ||
                share_pool(written[i], &plan->fields.storage[operand[k]].rounded))
                return 1;
    return 0;
}

static int splits_heads(const hga_plan *plan, hga_id stage)
{
    int splits = 0;
    for (int64_t i = 0; plan->team.n > 1 && i < plan->phases.n && !splits; i++)
        splits = runs_stage(&plan->phases.list[i], stage) && head_ranges(&plan->phases.list[i]) > 1;
    return splits;
}

/* The call's features, by itself and together with its plan, that some solver does not support. */
static unsigned find_call(const hga_plan *plan, unsigned call_has, int some_rows)
{
    const int keys = (call_has & CALL_HAS_TYPE_KEYS) != 0, sums = scores_are_sums(plan),
              drops = plan->options.dropout > 0;
    unsigned x = call_has & (FORWARD_FEATURE_SETS - 1);
    if (keys && (call_has & CALL_HAS_CAP || sums)) x |= BENDS_KEYS;
    if (keys && (plan->fields.bf16_rows || sums)) x |= ADDS_KEYS;
    if (call_has & CALL_HAS_EDGE_KEYS && plan->fields.bf16_rows) x |= ADDS_KEYS;
    if (drops) x |= DROPS_WEIGHTS;
    if (drops && !(call_has & CALL_HAS_TYPES)) x |= DROPS_ALIKE;
    if (some_rows || plan_is_shared(plan) || rows_stay(plan)) x |= SOME_ROWS;
    return x;
}

/* With fewer, running head by head, in other kernels, is faster. */
enum { ENOUGH_HEADS = 3 };

/* The plan's features that some solver does not support. */
static unsigned find_plan(const hga_plan *plan)
{
    const int sums = scores_are_sums(plan);
    unsigned x = 0;
    if (plan->fields.lone_rows) x |= IS_LONE;
    if (plan->fields.bf16_rows) x |= READS_SIXTEEN;
    if (plan->shape.n_heads < ENOUGH_HEADS && !plan->fields.bf16_rows && !sums) x |= FEW_HEADS;
    if (plan->shape.n_heads > KERNEL_HEADS) x |= MANY_HEADS;
    if (sums) x |= ADDS_SCORES;
    if (rows_are_whole(plan)) x |= HOLDS_ROWS;
    if (!plan->most.wide_columns) x |= HAS_NO_WIDE;
    return x;
}

/* The stage's features that some solver does not support. */
static unsigned stage_unknowns(const hga_plan *plan, hga_id stage, unsigned call_has)
{
    const stage_plan *s = &plan->stage[stage];
    const hga_stage *of = &plan->program.stage[stage];
    unsigned x = s->strict ? IS_STRICT : IS_LOOSE;
    if (!stage_is_fused(plan, stage)) x |= IS_PLAIN;
    if (kind_starts_from_out(s->kind)) x |= CONTINUES;
    if (s->has_rowless_columns) x |= HAS_ROWLESS_COLUMNS;
    if (writes_over(plan, of)) x |= WRITES_OVER;
    if (!s->relation.n_blocks) x |= IS_LISTED;
    if (s->relation.dst_order && of->order != HGA_FLAT) x |= IS_ORDERED;
    if (splits_heads(plan, stage)) x |= SPLITS_HEADS;
    if (!s->splits_share) x |= HAS_NO_SPLITS;
    if (call_has & CALL_HAS_EDGE_BIASES && stage == plan->bias_stage && (s->relation.ptr || s->relation.src_order))
        x |= IS_UNRANKED;
    return x;
}

unsigned stage_features(const hga_plan *plan, hga_id stage, unsigned call_has, int some_rows)
{
    return find_call(plan, call_has, some_rows) | find_plan(plan) | stage_unknowns(plan, stage, call_has);
}
