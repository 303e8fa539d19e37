/* program_check.h: the check of programs (check.c, check_rows.c). */
#ifndef PROGRAM_CHECK_H
#define PROGRAM_CHECK_H

#include "program.h"

/* Everything a plan relies on: HGA_OK, or HGA_EPROGRAM naming the stage or field and what is wrong with it. */
hga_status program_check(const hga_program *p, const hga_graph *g);
/* The check of edges in program_check: fields hold values where they are read, and a stage in place runs strictly up or
   down. */
hga_status program_check_rows(const hga_program *p, const hga_graph *g);

#endif
