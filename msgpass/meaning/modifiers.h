/* modifiers.h: what a call changes about scores and weights, whatever the age of the caller's headers. */
#ifndef HGA_MEANING_MODIFIERS_H
#define HGA_MEANING_MODIFIERS_H

#include "hga_plan.h"

/* The call's, zeros where there are none or the caller's struct is too short. */
hga_modifiers modifiers_of(const hga_io *io);
/* The call's softcap or, without one, the program's; 0: none. */
float modifiers_softcap(const hga_program *p, const hga_io *io);
/* HGA_EINVAL names the member that is wrong, or the byte that this library does not know; HGA_EUNSUPPORTED the one that
   means nothing for the program. */
hga_status modifiers_check(const hga_program *p, const hga_shape *shape, const hga_io *io);

#endif
