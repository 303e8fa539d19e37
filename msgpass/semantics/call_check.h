/* call_check.h: checks a call's tables against the rows of hga_call_tables(). */
#ifndef HGA_SEMANTICS_CALL_CHECK_H
#define HGA_SEMANTICS_CALL_CHECK_H

#include "call.h"

/* HGA_EINVAL names the table that is wrong, and the entry; HGA_EUNSUPPORTED the one that does not apply to the program.
   The plan checks the numbers of types and edges. */
hga_status call_check_tables(const hga_program *p, const hga_shape *shape, hga_id n_nodes, const hga_io *io);

#endif
