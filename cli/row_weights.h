/* row_weights.h: the attention weights of one token's edges. */
#ifndef CLI_ROW_WEIGHTS_H
#define CLI_ROW_WEIGHTS_H

#include "inspect_row.h"

/* The weight of each of the n edges that hga_program_row gave, [n][heads], for free(); those of a token sum to one.
   Weights of coarse sources are the whole node's. */
int row_weights(const graph_file *f, const row_wish *wish, const hga_seen *seen, int64_t n, hga_id *heads,
                double **weight);

#endif
