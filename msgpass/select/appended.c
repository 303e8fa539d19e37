/* appended.c: a choice of tokens that are appended to others (appended.h). */
#include "appended.h"
#include "sampled.h"
#include "selection_check.h"
#include "select.h"

static hga_id kv_heads_of(const hga_shape *s) { return s->n_kv_heads ? s->n_kv_heads : s->n_heads; }

static int has_bounds(const hga_selection *how) { return how->score == HGA_SELECT_MINMAX; }

hga_status appended_check(const hga_selection *how, const hga_shape *shape)
{
    const hga_select_input nothing = {.shape = *shape};
    if (how->score == HGA_SELECT_SCORES)
        return hga_fail(HGA_EUNSUPPORTED, "tokens that come one by one choose by their own scores, not by given ones");
    if (!how->causal)
        return hga_fail(HGA_EUNSUPPORTED, "tokens that come one by one choose among those before: causal is 0");
    return selection_check(how, &nothing);
}

int64_t appended_floats(const hga_selection *how, const hga_shape *shape)
{
    return (int64_t)kv_heads_of(shape) * shape->dim * (has_bounds(how) ? 2 : 1);
}

static selecting open_appended(const appended_tokens *x, const hga_select_input *in)
{
    selecting s = {.how = x->how, .in = in, .kernels = x->kernels, .threads = x->threads};
    selecting_find_shape(&s);
    s.columns = has_bounds(x->how) ? 2 * s.dim : s.dim;
    return s;
}

static hga_select_input input_of(const appended_tokens *x)
{
    return (hga_select_input){
        .shape = x->shape, .scale = x->scale, .precision = x->precision, .allocator = x->allocator};
}

void appended_block(const appended_tokens *x, const float *const *key, hga_id n, float *out)
{
    const hga_select_input in = input_of(x);
    const selecting s = open_appended(x, &in);
    block_of_rows(&s, key, n, s.n_kv_heads, has_bounds(x->how), s.columns, out);
}

/* The summary rows of query blocks. */
static hga_status make_queries(const appended_tokens *x, selecting *s)
{
    const hga_id c = x->how->query_block, first = s->sample->first_query;
    if (c == 1 || x->how->score == HGA_SELECT_SAMPLE) return HGA_OK;
    hga_status st =
        hga_new(x->allocator, (int64_t)s->n_heads * s->n_query_blocks, (size_t)s->dim * sizeof(float), &s->queries);
#pragma omp parallel for num_threads(s->threads) if (s->threads > 1 && !st)
    for (hga_id i = 0; i < (st ? 0 : s->n_query_blocks); i++) {
        const int64_t begin = (int64_t)(first + i) * c, from = begin < x->from ? x->from : begin,
                      end = begin + c < x->end ? begin + c : x->end;
        block_of_rows(s, x->query + (from - x->from), (hga_id)(end - from), s->n_heads, 0,
                      (ptrdiff_t)s->n_query_blocks * s->dim, s->queries + (ptrdiff_t)i * s->dim);
    }
    return st;
}

/* The appended tokens are the last of one sample, whose blocks are the caller's. */
hga_status appended_choose(const appended_tokens *x, hga_chosen *out)
{
    hga_status st = HGA_OK;
    const hga_id b = x->how->block, c = x->how->query_block;
    const hga_select_input in = input_of(x);
    selecting s = open_appended(x, &in);
    sample_cut all = {.token = -x->from, .n_tokens = x->end, .n_blocks = (x->end - 1) / b + 1, .from = x->from};
    all.first_query = x->from / c;
    all.n_query_blocks = (x->end - 1) / c + 1, all.query_block = -all.first_query;
    s.sample = &all, s.n_samples = 1, s.longest = all.n_blocks;
    s.n_query_blocks = all.n_query_blocks - all.first_query;
    s.keys.n = all.n_blocks, s.keys.at = x->block, s.coarse.at = x->coarse, s.query_at = x->query;
    s.sampled.at = x->key;
    HGA_TRY(make_queries(x, &s));
    HGA_TRY(sampled_pack(&s));
    HGA_TRY(selecting_choose(&s, out));
done:
    sampled_drop(&s);
    hga_delete(x->allocator, s.queries, (int64_t)s.n_heads * s.n_query_blocks, (size_t)s.dim * sizeof(float));
    return st;
}
