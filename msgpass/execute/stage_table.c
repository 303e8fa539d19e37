/* stage_table.c: the one place that chooses a stage's functions. */
#include "attend.h"
#include "tree_stages.h"
#include "inside.h"
#include "plan.h"
#include "stages.h"

/* By stage_kind. Every kind but a user's is fused where the plan says so: stage_is_fused. */
static const stage_kernel fused_stages[N_KINDS] = {
    [KIND_MEAN] = {"rows mean", sum_row, sum_panel, &sums_in_splits},
    [KIND_SUM] = {"rows sum", sum_row, sum_panel, &sums_in_splits},
    [KIND_WEIGHTED_SUM] = {"rows weighted sum", sum_row, sum_panel, &sums_in_splits},
    [KIND_ATTEND] = {"online softmax", attend_row, NULL, &states_in_splits},
    [KIND_ATTEND_MORE] = {"online softmax, merged", attend_row, NULL, NULL},
    [KIND_SPREAD] = {"rows state merge", spread_row, spread_panel, NULL},
    [KIND_ENERGY] = {"rows energy", NULL, energy_panel, NULL},
    [KIND_DESCEND] = {"rows descend", NULL, descend_panel, NULL},
};

/* The definition of every stage, for those without a fused function. */
static const stage_kernel plain_stages[N_KINDS] = {
    [KIND_MEAN] = {"plain mean", plain_row, NULL, NULL},
    [KIND_SUM] = {"plain sum", plain_row, NULL, NULL},
    [KIND_WEIGHTED_SUM] = {"plain weighted sum", plain_row, NULL, NULL},
    [KIND_ATTEND] = {"plain softmax", plain_row, NULL, NULL},
    [KIND_ATTEND_MORE] = {"plain softmax, merged", plain_row, NULL, NULL},
    [KIND_SPREAD] = {"plain state merge", plain_row, NULL, NULL},
    [KIND_ENERGY] = {"plain energy", plain_row, NULL, NULL},
    [KIND_DESCEND] = {"plain descend", plain_row, NULL, NULL},
    [KIND_ATTEND_INSIDE] = {"plain softmax, with energies", plain_row, NULL, NULL},
    [KIND_USER] = {"user function", plain_row, NULL, NULL},
};

/* Stages with other normalisers than softmax: fused, and plain. */
static const stage_kernel fused_others[HGA_N_NORMALISERS][N_KINDS] = {
    [HGA_NORMALISER_SIGMOID] = {[KIND_ATTEND] = {"sigmoid", attend_row, NULL, &states_in_splits},
                                [KIND_ATTEND_MORE] = {"sigmoid, added", attend_row, NULL, NULL},
                                [KIND_SPREAD] = {"rows state sum", spread_row, spread_panel, NULL}},
    [HGA_NORMALISER_ENTMAX] = {[KIND_ATTEND] = {"entmax", entmax_row, NULL, NULL},
                               [KIND_ATTEND_INSIDE] = {"entmax, with energies", inside_row, inside_panel, NULL}},
};
#define PLAIN(NAME, name)                                                                              \
    [HGA_NORMALISER_##NAME] = {[KIND_ATTEND] = {"plain " #name, plain_row, NULL, NULL},                \
                               [KIND_ATTEND_MORE] = {"plain " #name ", added", plain_row, NULL, NULL}, \
                               [KIND_SPREAD] = {"plain state sum", plain_row, NULL, NULL},             \
                               [KIND_ATTEND_INSIDE] = {"plain " #name ", with energies", plain_row, NULL, NULL}},
static const stage_kernel other_stages[HGA_N_NORMALISERS][N_KINDS] = {HGA_NORMALISERS(PLAIN)};
#undef PLAIN

/* Stages with softmax of additive scores: fused, and plain. */
static const stage_kernel additive_stages[N_KINDS] = {
    [KIND_ATTEND] = {"additive scores, online softmax", attend_row, NULL, &states_in_splits},
    [KIND_ATTEND_MORE] = {"additive scores, online softmax, merged", attend_row, NULL, NULL},
};
static const stage_kernel plain_additive_stages[N_KINDS] = {
    [KIND_ATTEND] = {"plain additive scores", plain_row, NULL, NULL},
    [KIND_ATTEND_MORE] = {"plain additive scores, merged", plain_row, NULL, NULL},
};

const stage_kernel *plan_kernel(const hga_plan *plan, hga_id stage)
{
    stage_kind kind = plan->stage[stage].kind;
    const hga_normaliser normaliser = program_normaliser(&plan->program);
    const stage_kernel *other = &other_stages[normaliser][kind];
    if (normaliser != HGA_NORMALISER_SOFTMAX && other->name)
        return stage_is_fused(plan, stage) ? &fused_others[normaliser][kind] : other;
    if (scores_are_sums(plan) && additive_stages[kind].name)
        return stage_is_fused(plan, stage) ? &additive_stages[kind] : &plain_additive_stages[kind];
    return stage_is_fused(plan, stage) ? &fused_stages[kind] : &plain_stages[kind];
}
