/* fast_find.c: finds what columns rows have edges to before any call, so that the first call allocates nothing
   either: the walk of attention without its numbers. */
#include "fast_attend.h"
#include "fast_draws.h"
#include "fast_threads.h"
#include "panel.h"

static hga_status find_row_range(fast_pass *p, hga_id stage, hga_id i)
{
    const row_ranges *cut = &p->call->row_ranges[stage];
    hga_status st = HGA_OK;
    if (!p->call->subtrees->n) return attend_range(p, stage, cut->first[i], cut->first[i + 1]);
    for (hga_id at = cut->first[i]; at < cut->first[i + 1]; at++) HGA_TRY(attend_subtree(p, at + 1));
done:
    return st;
}

/* Finds the row ranges of each stage that attends, or of the subtrees' last one; the first thread finds part 0 of
   the trees, too. */
hga_status fast_find(fast_pass *p, fast_thread *l, hga_id first, hga_id n_threads)
{
    hga_status st = HGA_OK;
    const subtrees *t = p->call->subtrees;
    fast_pass one = *p;
    one.finds = 1, one.heads.at_once = 1, one.own.d_rel_key = NULL;
    one.panel = l->panel, one.rows = l->rows, one.rows.lists = p->rows.lists;
    for (hga_id s = p->program->n_stages; s-- > 0;) {
        if (t->n ? s != t->last_attended : !kind_attends(p->plan->stage[s].kind)) continue;
        hga_id n = p->call->row_ranges[s].n, step = n_threads < n ? n_threads : n;
        for (hga_id i = first; i < n && first < step; i += step) HGA_TRY(find_row_range(&one, s, i));
    }
    if (t->n && first == 0) HGA_TRY(attend_subtree(&one, 0));
    HGA_TRY(reserve_draws(&one));
done:
    return st;
}
