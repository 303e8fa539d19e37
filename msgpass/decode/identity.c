/* identity.c: a hash of the shape and the options that determine a cache's bits. */
#include "identity.h"
#include "choose.h"

uint64_t identity_of_numbers(const hga_decoder *d)
{
    const hga_shape *s = &d->plan->shape;
    const hga_options *o = &d->plan->options;
    const int64_t of[] = {s->n_heads,   s->n_kv_heads, s->dim,       s->dim_v,       s->pos_dim,
                          o->precision, o->generic,    o->cut_edges, o->strict_rows, d->options.page_type};
    const int64_t blocks[] = {d->how.block, d->how.coarse, d->how.score};
    const uint64_t x = identity_mix(IDENTITY_OF_NOTHING, of, sizeof of);
    return tokens_choose(d) ? identity_mix(x, blocks, sizeof blocks) : x;
}
