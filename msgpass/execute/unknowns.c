/* unknowns.c: features of a call, its plan and a stage that not every solver supports. */
#include "unknowns.h"
#include "plan.h"

/* ---- in words ---- */

static const struct {
    unsigned feature;
    const char *words;
} words[] = {
    {IS_PLAIN, "all stages are computed in double, as they are defined"},
    {HOLDS_ROWS, "weights depend on all scores of a row"},
    {ADDS_SCORES, "scores are additive"},
    {CALL_HAS_EDGE_BIASES, "the call brings biases of edges"},
    {CALL_HAS_EDGE_KEYS, "the call brings keys of edges"},
    {CALL_HAS_EDGE_VALUES, "the call brings features of edges"},
    {CAPS_KEYS, "scores that relative keys are part of are capped"},
    {ADDS_KEYS, "relative keys go with 32 bits and products alone, keys of edges with 32 bits"},
    {CALL_HAS_TYPE_KEYS, "the call brings relative keys"},
    {CALL_HAS_TYPE_BIASES, "the call brings biases of types"},
    {CALL_HAS_POSITIONS, "the call brings positions"},
    {CALL_HAS_SLOPES, "the call brings slopes"},
    {DROPS_WEIGHTS, "weights are dropped"},
    {DROPS_ALIKE, "weights are dropped by types that scores do not tell apart"},
    {SOME_ROWS, "some rows are computed, or those of a rank"},
    {IS_STRICT, "rows are strict"},
    {IS_LOOSE, "rows are not strict"},
    {IS_LONE, "a decoder's rows may come alone"},
    {READS_SIXTEEN, "keys and values are read in 16 bits"},
    {FEW_HEADS, "so few heads are faster one by one"},
    {MANY_HEADS, "there are more heads than go together"},
    {CONTINUES, "rows go on from states that are there"},
    {HAS_ROWLESS_COLUMNS, "blocks have columns of nodes without rows"},
    {IS_ORDERED, "rows go level by level, not in the order of blocks"},
    {WRITES_OVER, "results take the place of rows that other panels read"},
    {IS_LISTED, "no edges are in blocks"},
    {SPLITS_HEADS, "threads share out the heads of a panel"},
    {HAS_NO_WIDE, "no rows have one wide block and nothing else"},
    {HAS_NO_SPLITS, "no long rows share the columns of their pieces"},
};

const char *feature_words(unsigned features)
{
    int i = 0;
    while (!(words[i].feature & features)) i++;
    return words[i].words;
}

/* ---- detection ---- */

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
    if (keys && call_has & CALL_HAS_CAP) x |= CAPS_KEYS;
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
static unsigned stage_unknowns(const hga_plan *plan, hga_id stage)
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
    return x;
}

unsigned stage_features(const hga_plan *plan, hga_id stage, unsigned call_has, int some_rows)
{
    return find_call(plan, call_has, some_rows) | find_plan(plan) | stage_unknowns(plan, stage);
}
