/* merge_splits.c: merges the splits of a row two by two, halves of halves: which two depends on their number alone. So
   contiguous splits are merged on whichever rank computes them, and the result is merged further elsewhere. */
#include "execution.h"
#include "plan.h"
#include "row_splits.h"
#include "splits.h"
#include "stage_kernel.h"
#include "stages.h"

/* Whether the merged state of the splits is present, from another process or from earlier in this execution. */
static int is_merged(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id lo, hga_id hi)
{
    return plan_is_shared(plan) && plan->share.wing->execution->has_merged(plan, workspace, stage, lo, hi);
}

void splits_merge(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id lo, hga_id hi)
{
    if (hi - lo == 1 || is_merged(plan, workspace, stage, lo, hi)) return;
    hga_id middle = splits_middle(lo, hi);
    splits_merge(plan, workspace, stage, lo, middle);
    splits_merge(plan, workspace, stage, middle, hi);
    plan_kernel(plan, stage)->splits->join(plan, workspace, stage, lo, middle);
}
