/* thread_binding.h: chooses processors for threads, and binds them for the length of a call (binding.c). */
#ifndef HGA_PLAN_THREAD_BINDING_H
#define HGA_PLAN_THREAD_BINDING_H

#include "hga_plan.h"
#include "machine.h"

/* Sets team.domain and team.pu, [team.n], and who binds the threads (team.binding). HGA_EINVAL: options.bind is
   not 0 to 2. */
hga_status binding_choose(hga_plan *plan);
/* Frees what binding_choose has allocated. */
void binding_clear(hga_plan *plan);
/* Binds a thread of a call's own region, and no other; *old is for topology_unbind. A thread that cannot be bound is
   noted, and runs unbound. */
void binding_take(const hga_plan *plan, binding *old);
/* Binds the calling thread of a call without a region, if the caller set HGA_BIND_ON. */
void binding_take_alone(const hga_plan *plan, binding *old);
/* Number of times that threads could not be bound; what: the first failure in words, or NULL. */
int64_t binding_failed(const hga_plan *plan, char what[200]);
/* Makes the same words hga_error_detail() of the calling thread. */
void binding_say(const hga_plan *plan);

#endif
