/* choose.c: tokens that choose which blocks of earlier ones they see (select/appended.h): rows that represent complete
   blocks are in pages of their own, and a choice replaces the graph's edges for one execution. */
#include "choose.h"
#include "attend_solvers.h"
#include "bindings.h"
#include "parts.h"
#include "plan.h"
#include "score.h"

#include <string.h>

/* ---- checks ---- */

/* Tokens choose one by one, or with prefill those of one append by query blocks. */
hga_status choose_check_options(const hga_decode_options *o, const hga_shape *shape)
{
    if (o->prefill < 0) return hga_fail(HGA_EINVAL, "prefill is %d; it must be at least 0", o->prefill);
    if (!o->selection)
        return o->prefill > 1 ? hga_fail(HGA_EINVAL, "prefill is %d, but no tokens choose", o->prefill) : HGA_OK;
    hga_selection how = *o->selection;
    if (how.query_block > 1)
        return hga_fail(HGA_EUNSUPPORTED,
                        "decoding: tokens of query_block %d choose by later ones; prefill lets those of one append",
                        how.query_block);
    if (o->prefill > 1) how.query_block = o->prefill;
    return appended_check(&how, shape);
}

hga_status choose_copy(const hga_selection *how, hga_decoder *d)
{
    hga_status st = HGA_OK;
    if (!how) return HGA_OK;
    HGA_TRY(hga_new(&d->allocator, how->n_k_each, sizeof *d->k_each, &d->k_each));
    d->how = *how;
    if (how->k_each) memcpy(d->k_each, how->k_each, (size_t)how->n_k_each * sizeof *d->k_each);
    if (how->k_each) d->how.k_each = d->k_each;
    d->options.selection = &d->how;
done:
    return st;
}

/* Choosing needs the graph of hga_build_routed_decoder, whose rows can run by their columns. */
hga_status choose_check_plan(const hga_decoder *d)
{
    const hga_plan *plan = d->plan;
    const hga_id *part;
    const int64_t n = plan->nodes.n;
    if (!tokens_choose(d)) return HGA_OK;
    const char *refused = solver_refusal(plan, 0, 0, SOLVER_COLUMNS);
    if (refused) return hga_fail(HGA_EUNSUPPORTED, "decoding: tokens that choose: %s", refused);
    if (graph_parts(plan->graph, &part) != 1 || plan->program.n_stages != 1 || !plan->stage[0].by_columns ||
        plan->nodes.n_queries != n || plan->stage[0].relation.n_edges != n * (n + 1) / 2)
        return hga_fail(HGA_EUNSUPPORTED,
                        "decoding: tokens choose on the graph of hga_build_routed_decoder; this is another");
    return HGA_OK;
}

hga_status choose_check_io(const hga_decoder *d, const hga_io *io)
{
    if (!tokens_choose(d)) return HGA_OK;
    const char *refused = solver_refusal(d->plan, 0, call_features(&d->plan->program, io), SOLVER_COLUMNS);
    return refused ? hga_fail(HGA_EUNSUPPORTED, "decoding: tokens that choose: %s", refused) : HGA_OK;
}

/* ---- blocks ---- */

static hga_id complete_blocks(const hga_decoder *d, hga_id kind, hga_id end)
{
    const hga_id n = tokens_of_block(d, kind);
    return n ? end / n : 0;
}

hga_status choose_reserve(hga_decode_workspace *w, hga_id end, hga_id n)
{
    const hga_decoder *d = w->decoder;
    if (!tokens_choose(d)) return HGA_OK;
    const int64_t blocks = (int64_t)complete_blocks(d, KIND_BLOCK, end) + complete_blocks(d, KIND_COARSE, end);
    const int64_t block = d->how.coarse > d->how.block ? d->how.coarse : d->how.block;
    const int64_t keys = block < end ? block : end; /* of a complete block */
    const int64_t sampled = d->how.score == HGA_SELECT_SAMPLE ? end : 0;
    const int64_t most = n + blocks + sampled > keys ? n + blocks + sampled : keys;
    return most <= w->at_capacity ? HGA_OK : hga_grow(&w->allocator, &w->at, &w->at_capacity, 0, most, sizeof *w->at);
}

/* Finds the rows of tokens [first, first + n) of a tensor. */
static void find_tokens(const hga_decode_workspace *w, hga_binding of, hga_id first, hga_id n, const float **at)
{
    const hga_id f = program_bound(&w->decoder->plan->program, of);
    for (hga_id i = 0; i < n; i++) at[i] = workspace_input_row(w->workspace, f, w->decoder->io_first + first + i);
}

static appended_tokens open_tokens(const hga_decode_workspace *w)
{
    const hga_decoder *d = w->decoder;
    return (appended_tokens){.how = &d->how,
                             .shape = d->plan->shape,
                             .precision = d->plan->options.precision,
                             .kernels = d->plan->machine.kernels,
                             .threads = 1,
                             .allocator = &w->allocator};
}

static float *block_row(const hga_decoder *d, const hga_cache *c, hga_id kind, hga_id block)
{
    const page_entry *e = table_find(&c->table, page_key(d, kind, block));
    return (float *)(void *)page_row(d, e->page, block);
}

/* Makes the rows of blocks that tokens before `end` complete, each from the block's keys. */
void choose_make_blocks(hga_decode_workspace *w, const hga_cache *c, hga_id end)
{
    const hga_decoder *d = w->decoder;
    const appended_tokens x = open_tokens(w);
    for (int64_t i = d->born.ptr[c->tokens]; tokens_choose(d) && i < d->born.ptr[end]; i++) {
        const cached_row *r = &d->born.row[i];
        if (!kind_stands(r->kind)) continue;
        const hga_id n = tokens_of_block(d, r->kind);
        find_tokens(w, HGA_IO_KEY, r->node * n, n, w->at);
        appended_block(&x, w->at, n, block_row(d, c, r->kind, r->node));
    }
}

/* Finds the rows of the blocks of a kind that some token before `end` may see, page by page; returns how many. */
static hga_id find_blocks(const hga_decoder *d, const hga_cache *c, hga_id kind, hga_id end, const float **at)
{
    const hga_id each = 1 << d->page_shift, n = complete_blocks(d, kind, end - 1);
    for (hga_id first = 0; first < n; first += each) {
        const float *row = block_row(d, c, kind, first);
        for (hga_id j = first; j < n && j < first + each; j++, row += d->row_floats[kind]) at[j] = row;
    }
    return n;
}

/* ---- the choice ---- */

/* How tokens of an append of n choose: several by query blocks, single ones for themselves, by means where they cannot
   sample. */
static hga_selection append_selection(const hga_decoder *d, hga_id n)
{
    hga_selection how = d->how;
    if (n > 1 && d->options.prefill > 1)
        how.query_block = d->options.prefill;
    else if (how.score == HGA_SELECT_SAMPLE)
        how.score = HGA_SELECT_MEAN;
    return how;
}

/* Products that take about as long as waking the other threads. */
static const double SMALL = 1e6;

/* Chooses the blocks that the appended tokens see, which replace the graph's edges in the next execution. */
hga_status choose_blocks(hga_decode_workspace *w, const hga_append *a)
{
    const hga_decoder *d = w->decoder;
    const hga_plan *plan = d->plan;
    const hga_id from = a->cache->tokens, n = a->n_tokens, end = from + n;
    if (!tokens_choose(d) || (!a->io.out.data && !a->io.lse.data)) return HGA_OK;
    appended_tokens x = open_tokens(w);
    const hga_selection how = append_selection(d, n);
    const float scale = semantics_scale(&plan->program, &plan->shape, &a->io);
    const float **const blocks = w->at + n;
    if (a->io.scale.data || call_number(HGA_TABLE_SCALE, &plan->program, &a->io) != 0) x.scale = &scale;
    find_tokens(w, HGA_IO_QUERY, from, n, w->at);
    hga_id n_blocks = find_blocks(d, a->cache, KIND_BLOCK, end, blocks), scored = n_blocks;
    find_blocks(d, a->cache, KIND_COARSE, end, blocks + n_blocks);
    x.how = &how, x.from = from, x.end = end;
    x.query = w->at, x.block = blocks, x.coarse = blocks + n_blocks;
    if (how.score == HGA_SELECT_SAMPLE) {
        find_tokens(w, HGA_IO_KEY, 0, end, w->at + n + n_blocks);
        x.key = blocks + n_blocks, scored = end / how.sample; /* as many products for each query */
    }
    if ((double)n * plan->shape.n_heads * scored * plan->shape.dim > SMALL) x.threads = plan->team.n;
    hga_status st = appended_choose(&x, &w->chosen);
    w->choice = (row_choice){.width = how.block,
                             .query_block = how.query_block,
                             .first = from / how.query_block,
                             .n_query_blocks = w->chosen.n_query_blocks,
                             .n_choosers = w->chosen.n_choosers,
                             .at = w->chosen.first,
                             .block = w->chosen.block};
    workspace_choose(w->workspace, &w->choice);
    return st;
}

void choose_end(hga_decode_workspace *w)
{
    workspace_choose(w->workspace, NULL);
    if (w->chosen.first) hga_chosen_clear(&w->chosen);
}
