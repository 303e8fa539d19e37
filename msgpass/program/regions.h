/* regions.h: which rows of each field hold values (regions.c), stage by stage (written.c). */
#ifndef REGIONS_H
#define REGIONS_H

#include "program.h"

/* A set of regions of nodes: every hga_field_rows, and the rows that a stage visits, is one. */
typedef uint16_t row_set;

/* The region of node v: its rows are in a set s when s >> region & 1. */
int program_region(const hga_nodes *nodes, hga_id v);
/* The regions whose nodes are among such rows. */
row_set program_row_set(hga_field_rows rows);
/* The regions that have nodes at all. */
row_set program_present(const hga_nodes *nodes);
/* Whether the stage starts from level 0 and does not write it. */
int program_keeps_tokens(const hga_stage *s);
/* The rows that a stage computes. */
row_set program_visits(const hga_program *p, const hga_stage *s);

/* The caller's rows of a field that a stage writes: their old values are not read. */
row_set program_writes_input(const hga_program *p, hga_id field);

typedef struct program_values {
    row_set holds[HGA_FIELD_SLOTS];
} program_values;

/* The values before the first stage: the caller's inputs. */
void program_values_start(const hga_program *p, program_values *v);
/* Adds the rows that the stage writes: from the values before it to those after it. */
void program_values_after(const hga_program *p, const hga_stage *s, program_values *v);

/* Where an aggregate sees field f: at the sources, at the row, and at the row in finish. */
typedef struct program_shown {
    row_set source[HGA_FIELD_SLOTS], row[HGA_FIELD_SLOTS], result[HGA_FIELD_SLOTS];
} program_shown;
/* What stage s sees, `before` being the values before it. */
void program_show(const hga_program *p, const hga_stage *s, const program_values *before, program_shown *to);

#endif
