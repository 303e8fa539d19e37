/* row_weights.h: the attention weights of one token's edges. */
#ifndef CLI_ROW_WEIGHTS_H
#define CLI_ROW_WEIGHTS_H

#include "inspect_row.h"

/* Edges in the order of hga_program_row and their weights [n][heads], NULL: not asked for. For free(). */
typedef struct row_edge_list {
    hga_seen *seen;
    double *weight;
    int64_t n;
    hga_id heads;
} row_edge_list;

/* Those of the token by the tensors of the wish. Weights of coarse sources are the whole node's. */
int row_weights(const graph_file *f, const row_wish *wish, row_edge_list *out);

#endif
