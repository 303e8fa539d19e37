/* thread_binding.h: where threads go, and binding them for the length of a call (binding.c). */
#ifndef HGA_PLAN_THREAD_BINDING_H
#define HGA_PLAN_THREAD_BINDING_H

#include "hga_plan.h"
#include "machine.h"

hga_status binding_choose(hga_plan *plan);
void binding_clear(hga_plan *plan);
/* Bind a thread of a call's own region, and no other; *old is for topology_unbind. A thread that cannot be bound is
   noted, and computes where it is. */
void binding_take(const hga_plan *plan, binding *old);
/* The same of the calling thread of a call that has no region, when the caller asked for it by name. */
void binding_take_alone(const hga_plan *plan, binding *old);
/* How often threads could not be bound; what: the first time of all in words, NULL accepted. */
int64_t binding_failed(const hga_plan *plan, char what[200]);
/* The same words as hga_error_detail() of the calling thread. */
void binding_say(const hga_plan *plan);

#endif
