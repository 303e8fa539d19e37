/* rows.h: the rows and types that a program reads. */
#ifndef BENCH_ROWS_H
#define BENCH_ROWS_H

#include "hga.h"

/* The field bound to one of the caller's tensors; NULL: none. */
const hga_field *bound_field(const hga_program *p, hga_binding binding);
/* Rows of the tensor bound so; of `otherwise` if the program has no such field. */
hga_id bound_rows(const hga_graph *g, const hga_program *p, hga_binding binding, hga_field_rows otherwise);
/* The most types of edges that a stage with such a message reads in a table; 0 without such a stage. */
int32_t types_read(const hga_graph *g, const hga_program *p, hga_message message);
/* The first stage that computes scores; NULL: none. */
const hga_stage *score_stage(const hga_program *p);

#endif
