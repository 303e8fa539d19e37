/* needed_rows.h: rows of the program's own fields that an execution of a slice is to compute as well, whoever reads
   them later: what decoding keeps of tokens that will not be there again. */
#ifndef NEEDED_ROWS_H
#define NEEDED_ROWS_H

#include "hga_plan.h"

typedef struct needed_row {
    hga_id field, node;
} needed_row;

/* Blocks of keys that tokens choose (hga_select.h), of a stage whose rows and sources are tokens, and which goes by
   columns: they see these and none behind themselves, whatever the relation says. Token t is in query block t /
   query_block, of which number `first` and n_query_blocks in all are there. Row r = chooser * n_query_blocks + query
   block - first has the blocks block[at[r]] to block[at[r + 1] - 1], ascending, of `width` tokens each. */
typedef struct row_choice {
    hga_id width, query_block, first, n_query_blocks, n_choosers;
    const hga_pos *at;
    const hga_id *block;
} row_choice;

/* Of the next execution with this workspace, until another is named, NULL: none; borrowed. */
void workspace_choose(hga_workspace *workspace, const row_choice *choice);

/* Of the next executions with this workspace, until others are named; borrowed. Rows that are there are left alone.
   alone: of the output no row is computed, whatever is asked for. one_token: they and the output's are the rows of one
   token, and all rows that later tokens read are there, or in the list: slice_job.at_hand. */
void workspace_request(hga_workspace *workspace, const needed_row *list, int64_t n, int alone, int one_token);

/* After an execution: rows that it needed, and that are not whole before token `end`, are not there. latest[f][v] is
   the token with which node v's row of field f is whole. (A row without edges is computed from whatever is there.) */
void workspace_forget_later(const hga_plan *plan, hga_workspace *workspace, int32_t *const *latest, hga_id end);

#endif
