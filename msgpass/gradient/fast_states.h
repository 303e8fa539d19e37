/* fast_states.h: states merged down the tree (fast_states.c), energies (fast_energies.c), and states computed again
   (fast_again.c). */
#ifndef HGA_GRADIENT_FAST_STATES_H
#define HGA_GRADIENT_FAST_STATES_H

#include "fast_pass.h"

/* The adjoint of states that are merged down the tree or along a relation: merges a row's adjoint into those of its
   sources, as a state is merged. */
hga_status fast_spread(fast_pass *p, hga_id s);
/* The delta of row i of the output, whose gradient is `upstream`: 0 for sigmoids; of whole rows fast_whole.c finds
   it. */
static inline float adjoint_delta(const fast_pass *p, int64_t i, hga_id columns, const float *upstream,
                                  const float *result)
{
    const hga_tensor *d_lse = &p->call->grad->d_lse;
    double less = 0;
    if (weights_are_sigmoids(p->plan) || rows_are_whole(p->plan)) return 0;
    if (d_lse->data) less = (double)*(const float *)tensor_at(d_lse, p->plan->shape.n_heads, 1, i, p->heads.head);
    return (float)(p->plan->machine.kernels->dot(columns, upstream, result) - less);
}
/* Merges the adjoints of the children of these nodes into theirs, to which nothing was added but the output's
   gradient. */
void merge_families(const fast_pass *p, hga_id f, row_range nodes);

/* Is the field a state whose energies are taken? */
int has_energies(const hga_program *p, hga_id field);
/* Runs attention forward: the states of the current head. */
hga_status fast_attend_forward(fast_pass *p, hga_id s);
/* Runs energies forward or backward. */
hga_status fast_energy(fast_pass *p, hga_id s, int backwards);
/* Runs the shares that are left of each node forward or backward. */
hga_status fast_descend(fast_pass *p, hga_id s, int backwards);
/* Converts the adjoint of a state into the form that attention's adjoint reads. */
void request_states(const fast_pass *p, hga_id field);

#endif
