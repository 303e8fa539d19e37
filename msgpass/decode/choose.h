/* choose.h: tokens that choose blocks of keys: the rows that represent blocks, and the choice (choose.c). */
#ifndef CHOOSE_H
#define CHOOSE_H

#include "appended.h"
#include "cache.h"
#include "stage_rows.h"

static inline int tokens_choose(const hga_decoder *d) { return d->options.selection != NULL; }
/* Tokens in a block of a kind; 0: there are none. */
static inline hga_id tokens_of_block(const hga_decoder *d, hga_id kind)
{
    return !tokens_choose(d) ? 0 : kind == KIND_BLOCK ? d->how.block : d->how.coarse;
}
/* Checks the options of a choice, before there is a plan. */
hga_status choose_check_options(const hga_decode_options *o, const hga_shape *shape);
/* Copies how tokens choose into the decoder, whose allocator is set. */
hga_status choose_copy(const hga_selection *how, hga_decoder *d);
/* Checks that tokens may choose on the plan's graph. */
hga_status choose_check_plan(const hga_decoder *d);
/* Checks that tokens may choose in a call with these tensors. */
hga_status choose_check_io(const hga_decoder *d, const hga_io *io);
/* Allocates memory for what an append of n tokens up to token `end` reads. */
hga_status choose_reserve(hga_decode_workspace *w, hga_id end, hga_id n);
/* Makes the rows of blocks that tokens before `end` complete, in pages of the cache's own. */
void choose_make_blocks(hga_decode_workspace *w, const hga_cache *c, hga_id end);
/* Chooses blocks for the tokens of the append: the next execution uses them in place of edges. */
hga_status choose_blocks(hga_decode_workspace *w, const hga_append *a);
/* Ends the choice. */
void choose_end(hga_decode_workspace *w);

#endif
