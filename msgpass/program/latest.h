/* latest.h: the latest token that reaches each field of each node, once all stages of a program have run. */
#ifndef HGA_LATEST_H
#define HGA_LATEST_H

#include "hga_program.h"

/* Instead of a token: a value of no token; no value at all, such as the state of a row without edges. */
enum { LATEST_NO_TOKEN = -1, LATEST_EMPTY = -2 };

typedef struct latest_tokens {
    hga_id n;                     /* nodes */
    int32_t *of[HGA_FIELD_SLOTS]; /* [n] each, NULL: no such field */
    int32_t *token; /* [n]: a token itself; of a node above, the last of its descendants, or LATEST_NO_TOKEN */
} latest_tokens;

/* For a program that program_check accepts; queries and keys are the same tokens. To be cleared; a failure clears it.
   */
hga_status latest_find(const hga_program *p, const hga_graph *g, latest_tokens *out);
/* Frees the tokens, and zeroes *x. */
void latest_clear(latest_tokens *x);

/* The fields that a stage reads at the source of an edge, as a set. */
uint32_t latest_source_fields(const hga_stage *s);
/* The fields that it reads at the row itself, as a set; lone: the row has no edge. */
uint32_t latest_own_fields(const hga_stage *s, int lone);

#endif
