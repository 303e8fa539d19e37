/* routed.c: a graph of what was chosen by content (hga_select.h): query blocks attend to the blocks of keys that they
   chose. Each chooser has rows of its own: row h * n_tokens + t is token t of chooser h, and sees keys of the key/value
   head that it reads.

   Consecutive query blocks often choose alike, a first block, say, or the one before their own. A sweep over query
   blocks opens a rectangle where a block comes to be chosen, and closes it where it no longer is, so that a block that
   all choose is one rectangle. Rectangles are given to the builder in the order of their rows, which it need not sort.
   */
#include "hga_builders.h"

/* Rows [row, end) of a sample that chose a block. */
typedef struct rectangle {
    hga_id row, end, block;
} rectangle;

typedef struct sweep {
    const hga_routed *p;
    hga_builder *b;
    hga_id relation;
    hga_id key_first;          /* the node of the first key */
    hga_id row, column;        /* of the sample: its first row's and its first key's node */
    hga_id n_tokens, n_blocks; /* of the sample */
    hga_id *open;              /* [blocks]: the row where a block's rectangle began */
    rectangle *found, *sorted; /* [room] each, the first n_found */
    int64_t n_found, room, sorted_room;
    hga_id *begin; /* [query blocks + 1]: of the rectangles that begin with each */
} sweep;

/* What a query block chose, ascending. */
typedef struct chosen_list {
    const int32_t *block;
    hga_id n;
} chosen_list;

/* ---- checks ---- */

static hga_id samples_of(const hga_routed *p) { return p->offsets ? p->n_samples : 1; }

static hga_id sample_tokens(const hga_routed *p, hga_id s, hga_id *first)
{
    *first = p->offsets ? p->offsets[s] : 0;
    return (p->offsets ? p->offsets[s + 1] : p->n_tokens) - *first;
}

static hga_id blocks_of(hga_id n, hga_id block) { return n / block + (n % block != 0); }

static hga_status check_samples(const hga_routed *p)
{
    if (!p->offsets) return HGA_OK;
    if (p->n_samples < 1) return hga_fail(HGA_EINVAL, "%d samples; there must be at least 1", p->n_samples);
    for (hga_id s = 0; s < p->n_samples; s++)
        if (p->offsets[0] != 0 || p->offsets[s + 1] < p->offsets[s])
            return hga_fail(HGA_EINVAL, "offsets begin with 0 and do not decrease; offsets[%d] is %d, then %d", s,
                            p->offsets[s], p->offsets[s + 1]);
    if (p->offsets[p->n_samples] != p->n_tokens)
        return hga_fail(HGA_EINVAL, "offsets end with %d, and there are %d tokens", p->offsets[p->n_samples],
                        p->n_tokens);
    return HGA_OK;
}

static hga_status check(const hga_routed *p)
{
    if (p->n_tokens < 1) return hga_fail(HGA_EINVAL, "n_tokens is %d; it must be at least 1", p->n_tokens);
    if (p->block < 1) return hga_fail(HGA_EINVAL, "block is %d; it must be at least 1", p->block);
    if (p->query_block < 1) return hga_fail(HGA_EINVAL, "query-block is %d; it must be at least 1", p->query_block);
    if (p->n_choosers < 1) return hga_fail(HGA_EINVAL, "%d choosers; there must be at least 1", p->n_choosers);
    hga_id keys = p->n_key_heads ? p->n_key_heads : p->n_choosers;
    if (keys < 1 || p->n_choosers % keys != 0)
        return hga_fail(HGA_EINVAL, "%d choosers on %d key heads", p->n_choosers, keys);
    if ((int64_t)p->n_tokens * ((int64_t)p->n_choosers + keys) > INT32_MAX - 2)
        return hga_fail(HGA_EOVERFLOW, "%d tokens of %d choosers: more than %d rows", p->n_tokens, p->n_choosers,
                        INT32_MAX - 2);
    if (!p->choice) return hga_fail(HGA_EINVAL, "blocks are chosen by queries and keys: a graph needs their choice");
    if (!p->choice_first && p->slots < 1)
        return hga_fail(HGA_EINVAL, "choice has %d slots; there must be at least 1", p->slots);
    return check_samples(p);
}

static chosen_list list_of(const hga_routed *p, int64_t row)
{
    if (p->choice_first)
        return (chosen_list){p->choice + p->choice_first[row],
                             (hga_id)(p->choice_first[row + 1] - p->choice_first[row])};
    chosen_list c = {p->choice + row * p->slots, 0};
    while (c.n < p->slots && c.block[c.n] != -1) c.n++;
    return c;
}

static hga_status check_list(const hga_routed *p, int64_t row, const chosen_list *c, hga_id n_blocks, hga_id last)
{
    for (hga_id i = 0; i < c->n; i++) {
        if (c->block[i] < 0 || c->block[i] >= n_blocks)
            return hga_fail(HGA_EINVAL, "choice: row %lld has block %d, and there are %d", (long long)row, c->block[i],
                            n_blocks);
        if (i > 0 && c->block[i] <= c->block[i - 1])
            return hga_fail(HGA_EINVAL, "choice: row %lld has block %d behind block %d; blocks ascend", (long long)row,
                            c->block[i], c->block[i - 1]);
        if (p->causal && c->block[i] > last)
            return hga_fail(HGA_EINVAL, "choice: row %lld has block %d, which comes later", (long long)row,
                            c->block[i]);
    }
    return HGA_OK;
}

/* ---- rectangles ---- */

static hga_id least_of(hga_id a, hga_id b) { return a < b ? a : b; }

static hga_status find(sweep *s, hga_id row, hga_id end, hga_id block)
{
    if (s->n_found == s->room) {
        hga_status st = hga_grow(s->p->allocator, &s->found, &s->room, s->n_found, s->n_found + 1, sizeof *s->found);
        if (st) return st;
    }
    s->found[s->n_found++] = (rectangle){row, end, block};
    return HGA_OK;
}

/* Blocks of `before` that are not among `now` end at `row`; those that are new begin there. */
static hga_status go_on(sweep *s, const chosen_list *before, const chosen_list *now, hga_id row)
{
    hga_status st = HGA_OK;
    for (hga_id i = 0, j = 0; i < before->n || j < now->n;) {
        if (j == now->n || (i < before->n && before->block[i] < now->block[j])) {
            hga_id block = before->block[i++];
            HGA_TRY(find(s, s->open[block], row, block));
        } else if (i == before->n || now->block[j] < before->block[i]) {
            s->open[now->block[j++]] = row;
        } else {
            i++, j++;
        }
    }
done:
    return st;
}

/* By the query block where they begin, and there by the block. */
static hga_status sort_found(sweep *s)
{
    hga_status st = HGA_OK;
    const hga_id c = s->p->query_block, n = blocks_of(s->n_tokens, c);
    if (s->sorted_room < s->n_found)
        HGA_TRY(hga_grow(s->p->allocator, &s->sorted, &s->sorted_room, 0, s->n_found, sizeof *s->sorted));
    for (hga_id i = 0; i <= n; i++) s->begin[i] = 0;
    for (int64_t i = 0; i < s->n_found; i++) s->begin[s->found[i].row / c + 1]++;
    for (hga_id i = 0; i < n; i++) s->begin[i + 1] += s->begin[i];
    for (int64_t i = 0; i < s->n_found; i++) {
        hga_id first = s->begin[s->found[i].row / c]++;
        s->sorted[first] = s->found[i];
    }
    for (hga_id i = 0, first = 0; i < n; first = s->begin[i++])
        for (hga_id j = first + 1; j < s->begin[i]; j++) {
            rectangle moved = s->sorted[j];
            hga_id at = j;
            for (; at > first && s->sorted[at - 1].block > moved.block; at--) s->sorted[at] = s->sorted[at - 1];
            s->sorted[at] = moved;
        }
done:
    return st;
}

/* A block that a causal query block meets has columns up to the row. */
static hga_status add_rectangle(const sweep *s, const rectangle *x)
{
    hga_id first = x->block * s->p->block, n = least_of(s->p->block, s->n_tokens - first);
    hga_block block = {.dst = s->row + x->row, .n_dst = x->end - x->row, .src = s->column + first, .n_src = n};
    if (s->p->causal && first + n > x->row) {
        if (first >= x->end) return HGA_OK; /* later than all rows */
        block.shape = HGA_BAND, block.band_first = -block.n_dst, block.band_last = x->row - first;
    }
    return hga_builder_add_blocks(s->b, s->relation, &block);
}

/* How many of the blocks come before the one that token `row` is in; causal, the others are its query block's own. */
static hga_id before_own(const sweep *s, const chosen_list *c, hga_id row)
{
    hga_id n = c->n;
    while (s->p->causal && n > 0 && c->block[n - 1] >= row / s->p->block) n--;
    return n;
}

static hga_status sweep_sample(sweep *s, int64_t at)
{
    hga_status st = HGA_OK;
    chosen_list before = {NULL, 0}, none = {NULL, 0};
    for (hga_id row = 0; row < s->n_tokens; at++) {
        hga_id n = least_of(s->p->query_block, s->n_tokens - row);
        chosen_list now = list_of(s->p, at);
        HGA_TRY(check_list(s->p, at, &now, s->n_blocks, (row + n - 1) / s->p->block));
        const hga_id end = now.n;
        now.n = before_own(s, &now, row);
        HGA_TRY(go_on(s, &before, &now, row));
        for (hga_id i = now.n; i < end; i++) HGA_TRY(find(s, row, row + n, now.block[i]));
        before = now, row += n;
    }
    HGA_TRY(go_on(s, &before, &none, s->n_tokens));
done:
    return st;
}

/* One sample of one chooser, whose query blocks are rows of the choice from `at` on. */
static hga_status add_sample(sweep *s, int64_t at)
{
    hga_status st = HGA_OK;
    s->n_found = 0;
    HGA_TRY(sweep_sample(s, at));
    HGA_TRY(sort_found(s));
    for (int64_t i = 0; i < s->n_found; i++) HGA_TRY(add_rectangle(s, &s->sorted[i]));
done:
    return st;
}

static hga_status add_choice(sweep *s)
{
    hga_status st = HGA_OK;
    const hga_routed *p = s->p;
    const hga_id share = p->n_key_heads ? p->n_choosers / p->n_key_heads : 1;
    int64_t at = 0;
    HGA_TRY(hga_new(p->allocator, blocks_of(p->n_tokens, p->block), sizeof *s->open, &s->open));
    HGA_TRY(hga_new(p->allocator, (int64_t)blocks_of(p->n_tokens, p->query_block) + 1, sizeof *s->begin, &s->begin));
    for (hga_id c = 0; c < p->n_choosers; c++)
        for (hga_id i = 0; i < samples_of(p); i++) {
            hga_id first;
            s->n_tokens = sample_tokens(p, i, &first), s->n_blocks = blocks_of(s->n_tokens, p->block);
            s->row = c * p->n_tokens + first;
            s->column = s->key_first + c / share * p->n_tokens + first;
            HGA_TRY(add_sample(s, at));
            at += blocks_of(s->n_tokens, p->query_block);
        }
done:
    hga_delete(p->allocator, s->open, blocks_of(p->n_tokens, p->block), sizeof *s->open);
    hga_delete(p->allocator, s->begin, (int64_t)blocks_of(p->n_tokens, p->query_block) + 1, sizeof *s->begin);
    hga_delete(p->allocator, s->found, s->room, sizeof *s->found);
    hga_delete(p->allocator, s->sorted, s->sorted_room, sizeof *s->sorted);
    return st;
}

/* ---- how it is chosen ---- */

hga_routed hga_routed_defaults(void)
{
    const hga_selection how = hga_selection_defaults();
    return (hga_routed){.block = how.block,
                        .query_block = how.query_block,
                        .n_choosers = 1,
                        .k = how.k,
                        .sinks = how.sinks,
                        .local = how.local,
                        .coarse_k = how.coarse_k,
                        .prefill = 1};
}

hga_status hga_routed_selection(const hga_routed *p, hga_selection *out)
{
    *out = hga_selection_defaults();
    out->block = p->block, out->query_block = p->query_block, out->causal = p->causal;
    out->sinks = p->sinks, out->local = p->local, out->share = p->share, out->score = p->score;
    out->coarse = p->coarse, out->coarse_k = p->coarse_k, out->threshold = p->threshold;
    if (p->k != out->k)
        out->k = p->k;
    else if (p->threshold != 0)
        out->k = 0;
    if (p->prefill < 0) return hga_fail(HGA_EINVAL, "prefill is %d; it must be at least 1", p->prefill);
    if (p->prefill <= 1) return HGA_OK;
    if (p->query_block > 1)
        return hga_fail(HGA_EINVAL,
                        "prefill is %d and query-block is %d; prefill is for tokens that choose for themselves",
                        p->prefill, p->query_block);
    if (p->n_tokens > 1) out->query_block = p->prefill;
    return HGA_OK;
}

/* ---- the graph ---- */

/* Tokens that choose for themselves have the bits that they have among more of them: each head's samples are parts. */
static hga_status set_parts(const sweep *s)
{
    hga_status st = HGA_OK;
    const hga_routed *p = s->p;
    const hga_id heads = p->n_key_heads ? p->n_key_heads : p->n_choosers, n = heads * samples_of(p) + 1;
    hga_id *part = NULL, at = 0, first;
    HGA_TRY(hga_new(p->allocator, n, sizeof *part, &part));
    if (s->key_first > 0) part[at++] = 0;
    for (hga_id h = 0; h < heads; h++)
        for (hga_id i = 0; i < samples_of(p); i++)
            sample_tokens(p, i, &first), part[at++] = s->key_first + h * p->n_tokens + first;
    HGA_TRY(hga_builder_set_parts(s->b, at, part));
done:
    hga_delete(p->allocator, part, n, sizeof *part);
    return st;
}

hga_status hga_build_routed(const hga_routed *routed, hga_graph **g, hga_program *program)
{
    hga_status st = HGA_OK;
    hga_selection how;
    hga_routed mine = *routed;
    const hga_routed *p = &mine;
    sweep s = {.p = p};
    *g = NULL;
    HGA_TRY(hga_check_reserved("hga_routed", p->reserved, sizeof p->reserved));
    HGA_TRY(hga_routed_selection(routed, &how));
    mine.query_block = how.query_block;
    HGA_TRY(check(p));
    int cross = p->n_key_heads && p->n_key_heads != p->n_choosers;
    hga_id rows = p->n_choosers * p->n_tokens, keys = cross ? p->n_key_heads * p->n_tokens : 0;
    s.key_first = cross ? rows : 0;
    HGA_TRY(hga_builder_create(p->allocator, &s.b));
    HGA_TRY(hga_sides_add_tokens(s.b, rows, keys));
    HGA_TRY(hga_builder_set_claims(s.b, HGA_CLAIM_SINGLE | (p->causal && !cross ? HGA_CLAIM_CAUSAL : 0u)));
    HGA_TRY(hga_builder_add_relation(s.b, "chosen", &s.relation));
    HGA_TRY(add_choice(&s));
    if (p->causal && p->query_block == 1) HGA_TRY(set_parts(&s));
    HGA_TRY(hga_program_attention(program, 0));
    HGA_TRY(hga_builder_finish(s.b, g));
done:
    hga_builder_destroy(s.b);
    return st;
}

hga_status hga_build_routed_decoder(hga_id n_tokens, const hga_allocator *a, hga_graph **g, hga_program *program)
{
    hga_status st = HGA_OK;
    hga_builder *b = NULL;
    hga_id relation;
    const hga_block all = {.n_dst = n_tokens, .n_src = n_tokens, .shape = HGA_LOWER};
    *g = NULL;
    HGA_TRY(hga_sides_check(n_tokens, 0, 1));
    HGA_TRY(hga_builder_create(a, &b));
    HGA_TRY(hga_sides_add_tokens(b, n_tokens, 0));
    HGA_TRY(hga_builder_set_claims(b, HGA_CLAIM_SINGLE | HGA_CLAIM_COMPLETE | HGA_CLAIM_CAUSAL));
    HGA_TRY(hga_builder_add_relation(b, "chosen", &relation));
    HGA_TRY(hga_builder_add_blocks(b, relation, &all));
    HGA_TRY(hga_builder_set_parts(b, 1, &(hga_id){0}));
    HGA_TRY(hga_program_attention(program, relation));
    HGA_TRY(hga_builder_finish(b, g));
done:
    hga_builder_destroy(b);
    return st;
}
