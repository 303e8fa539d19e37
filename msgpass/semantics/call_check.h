/* call_check.h: is what a call brings what the rows of hga_call_tables() say? */
#ifndef HGA_SEMANTICS_CALL_CHECK_H
#define HGA_SEMANTICS_CALL_CHECK_H

#include "call.h"

/* HGA_EINVAL names the table that is wrong, and the entry; HGA_EUNSUPPORTED the one that means nothing for the program.
   How many types and edges there are is the plan's to check. */
hga_status call_check_tables(const hga_program *p, const hga_shape *shape, hga_id n_nodes, const hga_io *io);

#endif
