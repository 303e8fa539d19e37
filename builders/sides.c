/* sides.c: query tokens first, then key tokens, or one range that is both. */
#include "sides.h"

hga_status sides_check(hga_id n_tokens, hga_id n_keys, int causal)
{
    if (n_tokens < 1) return hga_fail(HGA_EINVAL, "tokens: %d, at least 1 is needed", n_tokens);
    if (n_keys < 0) return hga_fail(HGA_EINVAL, "keys: %d is negative", n_keys);
    if (n_keys > INT32_MAX - n_tokens)
        return hga_fail(HGA_EOVERFLOW, "tokens: %d and %d keys do not fit a 32-bit id", n_tokens, n_keys);
    if (causal && n_keys > 0 && n_keys != n_tokens)
        return hga_fail(HGA_EUNSUPPORTED, "causal: %d queries and %d keys have no common order", n_tokens, n_keys);
    return HGA_OK;
}

hga_status sides_add_level(hga_builder *b, hga_id n_queries, hga_id n_keys, hga_id *first)
{
    hga_status st = hga_builder_add_level(b, n_queries + n_keys, first);
    if (!st && n_keys > 0) st = hga_builder_set_side(b, *first, n_queries, HGA_SIDE_QUERY);
    if (!st && n_keys > 0) st = hga_builder_set_side(b, *first + n_queries, n_keys, HGA_SIDE_KEY);
    return st;
}

hga_status sides_add_tokens(hga_builder *b, hga_id n_tokens, hga_id n_keys)
{
    hga_id first;
    hga_status st = sides_add_level(b, n_tokens, n_keys, &first);
    if (!st && n_keys > 0) st = hga_builder_set_tokens(b, 0, n_tokens, n_tokens, n_keys);
    return st;
}
