/* merge_pieces.c: the pieces of a row are merged two by two, halves of halves: which two hangs on their number alone.
   So pieces that lie side by side are merged wherever they are computed, and what they become goes on from there. */
#include "row_pieces.h"
#include "ranks.h"
#include "stages.h"

/* Are the pieces one that somebody else has made, or that was made already in this execution? It is now. */
static int is_merged(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id lo, hga_id hi)
{
    const struct rank_plan *r = plan->ranks;
    int64_t i = r ? rank_limb_at(r, stage, lo, hi) : -1;
    if (i < 0) return 0;
    if (!rank_makes(r, &r->limb[i])) return 1;
    int merged = workspace->rank.merged[i];
    workspace->rank.merged[i] = 1;
    return merged;
}

void pieces_merge(const hga_plan *plan, const hga_workspace *workspace, hga_id stage, hga_id lo, hga_id hi)
{
    if (hi - lo == 1 || is_merged(plan, workspace, stage, lo, hi)) return;
    hga_id middle = pieces_middle(lo, hi);
    pieces_merge(plan, workspace, stage, lo, middle);
    pieces_merge(plan, workspace, stage, middle, hi);
    plan_kernel(plan, stage)->pieces->join(plan, workspace, stage, lo, middle);
}
