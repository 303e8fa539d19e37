/* needed_rows.h: rows of the program's internal fields that an execution of a slice must compute too, although none of
   its output rows reads them: decoding caches them, since their tokens' inputs will not be present again. */
#ifndef NEEDED_ROWS_H
#define NEEDED_ROWS_H

#include "hga_plan.h"

typedef struct needed_row {
    hga_id field, node;
} needed_row;

/* Blocks of keys that tokens choose (hga_select.h), of a stage whose rows and sources are tokens, and which runs by
   columns: they see these and none later than themselves, whatever the relation says. Token t is in query block t /
   query_block, of which number `first` and n_query_blocks in all are there. Row r = chooser * n_query_blocks + query
   block - first has the blocks block[at[r]] to block[at[r + 1] - 1], ascending, of `width` tokens each. */
typedef struct row_choice {
    hga_id width, query_block, first, n_query_blocks, n_choosers;
    const hga_pos *at;
    const hga_id *block;
} row_choice;

/* Sets the choice of the next execution with this workspace, until the next call; NULL: none; borrowed. */
void workspace_choose(hga_workspace *workspace, const row_choice *choice);

/* Sets the needed rows of the next executions with this workspace, until the next call; borrowed. Rows already present
   are not computed again. alone: no row of the output is computed, whatever is requested. one_token: the list and the
   output's rows are those of one token, and all rows that later tokens read are present or in the list:
   slice_job.at_hand. */
void workspace_request(hga_workspace *workspace, const needed_row *list, int64_t n, int alone, int one_token);

/* After an execution: marks the rows that it needed, and that are not whole before token `end`, as not present.
   latest[f][v] is the token with which node v's row of field f is whole. (A row without edges is computed from whatever
   is present.) */
void workspace_forget_later(const hga_plan *plan, hga_workspace *workspace, int32_t *const *latest, hga_id end);

#endif
