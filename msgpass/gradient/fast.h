/* fast.h: a pass from beginning to end (fast.c), stage by stage (fast_stages.c) or subtree by subtree
   (fast_subtrees.c). */
#ifndef HGA_GRADIENT_FAST_H
#define HGA_GRADIENT_FAST_H

#include "fast_pass.h"
#include "fast_threads.h"

/* ---- fast.c ---- */

/* Measures a pass's memory, or carves it where the carver has memory. */
void fast_lay_out(const hga_plan *plan, const made_fast *made, const call_needs *needs, fast_pass *p, carver *arena);
/* Are any rows padded? Padding must be zero. */
int fast_has_padding(const fast_pass *p);
/* Zeros part `part` of `parts` of the fields' memory, padding included. */
void fast_clear(const fast_pass *p, hga_id part, hga_id parts);
/* Starts the pass for a call with threads first[0] .. first[n_threads - 1]: uses the first one's panel and scratch,
   pads relative keys, and takes logarithms of masses. */
void fast_begin(const gradient_call *c, fast_thread *first, hga_id n_threads, fast_pass *p);
/* The gradients of one head group, without those of keys and values. */
hga_status fast_gradient(fast_pass *p, hga_id head_group);
/* The gradients of keys and values, added to those of earlier head groups where several write the same rows. */
hga_status fast_end(fast_pass *p);
/* Does attention alone read and write all fields? Then a head passes nothing but sums on to the next. */
int runs_by_panels(const hga_plan *plan);

/* ---- fast_stages.c ---- */

/* The adjoint of a stage, of the current rows. */
hga_status stage_back(fast_pass *p, hga_id s);
/* A stage of sums, forward or backward. */
hga_status walk_sum(fast_pass *p, hga_id s, int backwards);

/* ---- fast_subtrees.c ---- */

/* fast_gradient subtree by subtree, head after head. */
hga_status subtrees_gradient(fast_pass *p);
/* fast_end subtree by subtree. */
void subtrees_end(fast_pass *p);

#endif
