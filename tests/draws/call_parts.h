/* call_parts.h: what the files share that draw a call. */
#ifndef HGA_CALL_PARTS_H
#define HGA_CALL_PARTS_H

#include "calls.h"

/* A call has few options or many: one has all that meet, and in the other each is seen without the rest, which may take
   another way altogether. */
static inline int sometimes(choices *c, const drawn_call *call, hga_id n) { return rarely(c, call->few ? 4 * n : n); }

int call_has_message(const hga_program *p, hga_message message);

/* One more array, packed in float32; a table is one row of one head. */
array *call_add_array(drawn_call *call, array a);
void call_add_table(drawn_call *call, const char *name, array_use use, size_t at, int64_t n);
/* call_arrays.c: of each field that the program binds, and of some that it does not. */
void call_add_tensors(choices *c, drawn_call *call);
void call_add_unbound(choices *c, drawn_call *call);

/* call_tables.c: tables by type, by edge and by node, where the choices want them; and keys and features of edges,
   which come last. */
void call_add_tables(choices *c, drawn_call *call);
void call_draw_edges(drawn_call *call, uint64_t at);

#endif
