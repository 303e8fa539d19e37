/* rank_rows.h: how tokens are divided among ranks, which rows of a tensor are a rank's, and the ranks' work and
   traffic. */
#ifndef CLI_RANK_ROWS_H
#define CLI_RANK_ROWS_H

#include "hga.h"
#include "variant.h"

/* The plan and the workspace of this rank, by ranges of the graph's tokens that are as equal as they can be. All ranks
   make theirs together, and agree on whether they could. */
int rank_plan_make(const model *m, const hga_shape *shape, const hga_options *typed, const hga_exchange *exchange,
                   hga_plan **plan, hga_workspace **workspace);

/* Zeroed: none. */
typedef struct row_list {
    hga_interval *interval; /* [n], for free() */
    int64_t n, rows;        /* rows of all intervals */
    int exists;             /* the program has that field */
} row_list;

/* Of the tensors of a call. */
enum { RANK_QUERY, RANK_KEY, RANK_VALUE, RANK_OUT, RANK_TENSORS };
typedef struct rank_rows {
    row_list of[RANK_TENSORS];
} rank_rows;

/* By a plan with options.ranks, in the order that the model runs in; or, by_user, as the user's tensors number them.
   Release with rank_rows_clear, whatever is returned. */
int rank_rows_find(const hga_plan *plan, const model *m, int by_user, rank_rows *rows);
void rank_rows_clear(rank_rows *rows);

/* The work of the busiest rank: edges; rows, messages and bytes that it receives or sends, whichever are more. */
typedef struct rank_work {
    double edges, rows, messages, bytes;
} rank_work;

/* By hga_halo, of as many ranks as the tool makes. */
int ranks_count(const model *m, const hga_shape *shape, hga_id ranks, rank_work *out);
/* Measures here and now the seconds of an edge of all heads on one thread, all stages together. */
int ranks_rate(const model *m, const hga_shape *shape, const hga_options *options, double *edge_seconds);

#endif
