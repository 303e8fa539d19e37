/* attend_ways.h: the ways to attend, which are rows of ways.c. */
#ifndef ATTEND_WAYS_H
#define ATTEND_WAYS_H

#include "plan.h"
#include "workspace.h"

/* The ways to attend, in the order in which they are asked (ways.c). */
typedef enum attend_way_number {
    WAY_WIDE,
    WAY_PIECES,
    WAY_COLUMNS,
    WAY_KEPT,
    WAY_EQUAL,
    WAY_TILES,
    WAY_STRICT,
    WAY_FAMILIES,
    WAY_HEADS,
    WAY_ROWS,
    WAY_WHOLE,
    WAY_PLAIN,
    N_ATTEND_WAYS
} attend_way_number;
_Static_assert((int)N_ATTEND_WAYS <= 16, "a stage's ways are bits");

/* May the stage's rows go that way in this call? */
static inline int goes(const worker *w, hga_id stage, attend_way_number way)
{
    return w->workspace->ways[stage] >> way & 1;
}

/* ---- the rows ---- */

/* What the rows of ways.c ask and run. attend_panel.c: a panel group by group, by tiles chosen now or kept. */
void tiles_take(worker *w, const wave_item *item, int64_t n);
int64_t kept_fits(worker *w, const wave_item *item, int64_t n);
void kept_take(worker *w, const wave_item *item, int64_t n);
/* run_equal.c: panels that have equal families alone. */
int64_t equal_fits(worker *w, const wave_item *item, int64_t n);
void equal_take(worker *w, const wave_item *item, int64_t n);
/* run_wide.c: panels of a phase whose rows have many columns of one block. Log-sum-exps that are copied for the
   caller may be among the items, which are not taken. */
int64_t wide_fits(worker *w, const wave_item *item, int64_t n);
void wide_take(worker *w, const wave_item *item, int64_t n);
/* run_pieces.c: pieces that have the same columns. */
int64_t pieces_fit(worker *w, const wave_item *item, int64_t n);
void pieces_take(worker *w, const wave_item *item, int64_t n);
/* run_by_columns.c: panels whose rows share columns with few neighbours and with many of their panel. */
int64_t columns_fit(worker *w, const wave_item *item, int64_t n);
void columns_take(worker *w, const wave_item *item, int64_t n);
/* What it would compute: adds the pairs, and the places of tiles that they are in. */
void columns_look(worker *w, const wave_item *item, int64_t n, double *pairs, double *places);
/* run_rows.c: panels and pieces, row by row. */
void rows_take(worker *w, const wave_item *item, int64_t n);

/* ---- which one ---- */

/* Which ways stages of a call go that brings so much (call.h), of some rows or of all: workspace->ways. */
void ways_open(const hga_plan *plan, unsigned brings, int some_rows, hga_workspace *workspace);
/* The first of n items, of an attending stage, and as many behind it as go its way. */
int64_t ways_take(worker *w, const wave_item *item, int64_t n);

/* What is told of it. */
const char *way_name(attend_way_number way);
/* Why calls that bring so much do not go that way in a stage; NULL: they may. */
const char *way_refusal(const hga_plan *plan, hga_id stage, unsigned brings, attend_way_number way);
/* Why no item of theirs does. */
const char *way_lacks(attend_way_number way);
/* How many of n items are for it, of those that it may take. */
int64_t way_fits(worker *w, attend_way_number way, const wave_item *item, int64_t n);

#endif
