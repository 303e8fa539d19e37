/* draft.c: tree attention of speculative decoding (SpecInfer, Miao et al. 2024; Medusa, Cai et al. 2024): drafts that a
   small model proposes, as a tree, are judged by the large one in one call. A draft sees the whole prefix, itself and
   the drafts that it follows. The prefix is one block shared by all drafts; a draft's ancestors are a few edges. */
#include "sides.h"

/* A draft's state: whether its ancestors are known to end at the prefix. */
enum { UNSEEN, ON_THE_WAY, ENDS };

static hga_status check_drafted(const hga_draft *p)
{
    for (hga_id i = 0; i < p->n_tokens; i++) {
        if (p->parent[i] < -1 || p->parent[i] >= p->n_tokens)
            return hga_fail(HGA_EINVAL, "parent: draft %d follows %d; there are drafts 0 .. %d, and -1, the prefix", i,
                            p->parent[i], p->n_tokens - 1);
        if (p->parent[i] == i) return hga_fail(HGA_EINVAL, "parent: draft %d follows itself", i);
    }
    return HGA_OK;
}

/* Follows each draft's ancestors to the prefix or a draft known to end there; a draft visited twice in one walk is on a
   cycle. */
static hga_status check_lines(const hga_draft *p)
{
    hga_status st = HGA_OK;
    uint8_t *state = NULL;
    HGA_TRY(hga_new(p->allocator, p->n_tokens, sizeof *state, &state));
    for (hga_id i = 0; i < p->n_tokens; i++) state[i] = UNSEEN;
    for (hga_id i = 0; i < p->n_tokens; i++) {
        hga_id at = i;
        while (at >= 0 && state[at] == UNSEEN) state[at] = ON_THE_WAY, at = p->parent[at];
        if (at >= 0 && state[at] == ON_THE_WAY) {
            st = hga_fail(HGA_EINVAL, "parent: draft %d follows itself by way of %d", at, p->parent[at]);
            goto done;
        }
        for (at = i; at >= 0 && state[at] == ON_THE_WAY; at = p->parent[at]) state[at] = ENDS;
    }
done:
    hga_delete(p->allocator, state, p->n_tokens, sizeof *state);
    return st;
}

/* The prefix; if it is not set, the keys beside the drafts. */
static hga_status find_prefix(const hga_draft *p, hga_id *prefix)
{
    *prefix = p->prefix >= 0 ? p->prefix : p->n_keys - p->n_tokens;
    if (p->prefix < 0 && p->n_keys == 0)
        return hga_fail(HGA_EINVAL, "prefix: how many tokens come before the drafts is needed");
    if (*prefix < 0)
        return hga_fail(HGA_EINVAL, "keys: %d, fewer than the %d drafts, which are keys themselves", p->n_keys,
                        p->n_tokens);
    if (p->n_keys > 0 && p->n_keys - p->n_tokens != *prefix)
        return hga_fail(HGA_EINVAL, "keys: %d, but a prefix of %d and %d drafts are %lld", p->n_keys, *prefix,
                        p->n_tokens, (long long)*prefix + p->n_tokens);
    return HGA_OK;
}

/* Every draft follows another or the prefix, without cycles; *prefix is its number of tokens. */
static hga_status check_draft(const hga_draft *p, hga_id *prefix)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_check_reserved("hga_draft", p->reserved, sizeof p->reserved));
    HGA_TRY(sides_check(p->n_tokens, p->n_keys, 0));
    if (!p->parent) return hga_fail(HGA_EINVAL, "parent: NULL, but each draft needs the one that it follows");
    HGA_TRY(find_prefix(p, prefix));
    if (*prefix > INT32_MAX - 2 * (int64_t)p->n_tokens)
        return hga_fail(HGA_EOVERFLOW, "prefix: %d tokens and %d drafts do not fit a 32-bit id", *prefix, p->n_tokens);
    HGA_TRY(check_drafted(p));
    HGA_TRY(check_lines(p));
done:
    return st;
}

/* itself and the drafts that it follows, by their keys */
static hga_status add_lines(hga_builder *b, hga_id near, const hga_draft *p, hga_id key_first)
{
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < p->n_tokens; i++)
        for (hga_id at = i; !st && at >= 0; at = p->parent[at])
            st = hga_builder_add_edge(b, near, key_first + at, i, 0, 1);
    return st;
}

/* A draft's position, as a query and as a key, is behind the drafts that it follows. */
static hga_status set_positions(hga_builder *b, const hga_draft *p, hga_id prefix)
{
    hga_status st = HGA_OK;
    for (hga_id i = 0; !st && i < p->n_tokens; i++) {
        hga_id depth = 0;
        for (hga_id at = p->parent[i]; at >= 0; at = p->parent[at]) depth++;
        st = hga_builder_set_position(b, i, 1, (float)(prefix + depth));
        if (!st) st = hga_builder_set_position(b, p->n_tokens + prefix + i, 1, (float)(prefix + depth));
    }
    return st;
}

hga_status hga_build_draft(const hga_draft *p, hga_graph **g, hga_program *program)
{
    hga_status st = HGA_OK;
    hga_builder *b = NULL;
    hga_id near, prefix = 0;
    *g = NULL;
    HGA_TRY(check_draft(p, &prefix));
    HGA_TRY(hga_builder_create(p->allocator, &b));
    HGA_TRY(sides_add_tokens(b, p->n_tokens, prefix + p->n_tokens));
    HGA_TRY(hga_builder_set_claims(b, HGA_CLAIM_SINGLE));
    HGA_TRY(set_positions(b, p, prefix));
    HGA_TRY(hga_builder_add_relation(b, "near", &near));
    HGA_TRY(hga_builder_add_block(b, near, 0, p->n_tokens, p->n_tokens, prefix, 0));
    HGA_TRY(add_lines(b, near, p, p->n_tokens + prefix));
    HGA_TRY(hga_program_attention(program, near));
    HGA_TRY(hga_builder_finish(b, g));
done:
    hga_builder_destroy(b);
    return st;
}
