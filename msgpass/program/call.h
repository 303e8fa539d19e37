/* call.h: a call's tables besides rows, by the rows of hga_call_tables(). */
#ifndef HGA_PROGRAM_CALL_H
#define HGA_PROGRAM_CALL_H

#include "hga_gradient.h"

/* The table's row of hga_call_tables(). */
const hga_call_row *call_row(hga_call_table which);

/* Whether every head has entries of its own. */
int call_table_is_by_head(hga_call_table which, const hga_io *io);
/* Whether its length does not depend on the graph: ranks then compare its numbers. */
int call_table_is_of_shape(hga_call_table which);
/* The name of the call's table of edges; NULL: none. */
const char *call_of_edges(const hga_io *io);
/* Whether the call has a table of edges. */
int call_has_edges(const hga_io *io);
/* Whether the call has a table that needs distances between nodes. */
int call_needs_positions(const hga_io *io);
/* Whether the stage looks up rows of the table by the type of edges, and the table has fewer than `types` rows. */
int call_table_lacks(hga_call_table which, const hga_stage *stage, const hga_io *io, int64_t types);
/* The number of a table of one entry: the call's, else the program's; 0: none. */
float call_number(hga_call_table which, const hga_program *p, const hga_io *io);
/* The address of the program's own number for calls without one, 0: none. NULL where programs have no such number. */
float *call_standard(const hga_call_row *row, const hga_program *p);
/* The program's number that only the plain semantics supports; NULL: none. */
const hga_call_row *call_standing_plain(const hga_program *p);
/* The features of a call that not every solver, forward or backward, supports. A number that is 0 is no feature; the
   program's own counts. */
enum {
    CALL_HAS_TYPE_KEYS = 1,
    CALL_HAS_TYPE_BIASES = 2,
    CALL_HAS_TYPES = CALL_HAS_TYPE_KEYS | CALL_HAS_TYPE_BIASES,
    CALL_HAS_POSITIONS = 4,
    CALL_HAS_EDGE_BIASES = 8,
    CALL_HAS_SLOPES = 16,
    CALL_HAS_CAP = 32,
    CALL_HAS_NONLINEAR = CALL_HAS_SLOPES | CALL_HAS_CAP, /* those with HGA_CALL_BENDS */
    CALL_HAS_EDGE_KEYS = 64,
    CALL_HAS_EDGE_VALUES = 128,
    FORWARD_FEATURE_SETS = 256,
    /* of gradients only: */
    CALL_HAS_SIXTEEN = 256, /* tensors of 16 bits */
    CALL_HAS_FOLDS = 512,   /* rows of a tensor or of its gradient are folded */
    CALL_HAS_OF_EDGES = CALL_HAS_EDGE_KEYS | CALL_HAS_EDGE_VALUES,
    CALL_FEATURE_SETS = 1024
};
/* Whether edge_value is added to values, as edge_key is to keys: a call without edge_out. */
int call_adds_edge_values(const hga_io *io);
/* The features of a call, as bits. Values of edges that are added are as keys of edges: what supports one supports the
   other. */
unsigned call_features(const hga_program *p, const hga_io *io);
/* Whether the number may be an entry. */
int call_entry_is_fit(const hga_call_row *row, float x);
/* HGA_EPROGRAM names a number of the program that is out of range. */
hga_status call_check_standing(const hga_program *p);
#endif
