/* rank_rows.h: how the tool shares out tokens among ranks, and which rows of a tensor are then a rank's. */
#ifndef CLI_RANK_ROWS_H
#define CLI_RANK_ROWS_H

#include "hga.h"
#include "variant.h"

/* `ranks` ranges of the graph's tokens, as equal as they can be: [ranks + 1], for free(). */
int rank_cuts(const hga_graph *g, hga_id ranks, hga_id **cuts);

/* Zeroed: none. */
typedef struct row_list {
    hga_interval *interval; /* [n], for free() */
    int64_t n, rows;        /* rows of all intervals */
    int exists;             /* the program has that field */
} row_list;

/* Of the tensor of a binding, by a plan with options.ranks. */
int rank_rows(const hga_plan *plan, const hga_program *p, hga_binding binding, row_list *list);
/* .. of a model that runs in an order: the list's rows, one after the other, as the user's tensor numbers them. */
int rank_rows_of_user(const model *m, hga_binding binding, row_list *list);

#endif
