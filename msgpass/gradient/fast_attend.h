/* fast_attend.h: the adjoint of an attending stage (fast_attend.c), also where a threshold weighs whole rows
   (fast_whole.c); its panels (cached_panels.c). */
#ifndef HGA_GRADIENT_FAST_ATTEND_H
#define HGA_GRADIENT_FAST_ATTEND_H

#include "fast_pass.h"

/* Allocates a thread's panel from plan->memory.user; *out is NULL on failure. */
hga_status panel_create(const hga_plan *plan, struct panel **out);
/* Frees a panel, with plan->memory.user; NULL is accepted. */
void panel_destroy(const hga_allocator *a, struct panel *panel);
/* Opens the panel for a call: drops tiles that were found for other parts of scores. */
void panel_open(const gradient_call *c, struct panel *panel);
/* Bytes of a panel: the struct, its floats and its column batch; its lists are not counted. */
int64_t panel_bytes(const hga_plan *plan);
/* The adjoint of an attending stage, for the current head. */
hga_status fast_attend(fast_pass *p, hga_id s);
/* The same of rows [begin, end). */
hga_status attend_range(fast_pass *p, hga_id s, hga_id begin, hga_id end);
/* The same of the rows of the trees' part i, the top or subtree i - 1, in all stages that attend. */
hga_status attend_subtree(fast_pass *p, hga_id i);
/* Adds sums that are left, when all rows are done. */
void attend_ends(fast_pass *p);

/* ---- fast_whole.c ---- */

/* The adjoint of a panel's rows at positions [first, end) where a threshold of all of a row's scores weighs it. */
hga_status attend_whole(fast_pass *p, hga_id s, hga_id first, hga_id end);
/* Carves the memory of a row of at most so many edges. */
void whole_row_lay_out(int64_t edges, whole_row *x, carver *arena);

/* ---- cached_panels.c ---- */

/* Creates the workspace's panels of the first n threads that do not exist yet; drops another plan's first. */
hga_status keep_panels(const hga_plan *plan, hga_workspace *workspace, hga_id n);
/* The workspace's panels, one a thread; only after keep_panels. */
struct panel **cached_panels_of(hga_workspace *workspace);

#endif
