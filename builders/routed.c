/* routed.c: a graph of blocks chosen by content (hga_select.h): query blocks attend to the blocks of keys that they
   chose. Each chooser has rows of its own: row h * n_tokens + t is token t of chooser h, and sees keys of the key/value
   head that it reads. */
#include "at_least.h"
#include "sides.h"

#include <string.h>

typedef struct routed_telling {
    const hga_routed *p;
    hga_builder *b;
    hga_id relation;
    hga_id key_first; /* the node of the first key */
    hga_pos *first;   /* [query blocks of a chooser + 1]: where a sample's lists begin in `chosen` */
    hga_id *chosen;   /* the lists, contiguous, where the caller has a table */
} routed_telling;

/* The blocks that a query block chose, ascending. */
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

/* Samples are contiguous and cover all tokens. */
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

/* Refuses invalid blocks, heads, choices and samples. */
static hga_status check_routed(const hga_routed *p)
{
    if (p->n_tokens < 1) return hga_fail(HGA_EINVAL, "n_tokens is %d; it must be at least 1", p->n_tokens);
    hga_status st = check_at_least_one("block", p->block);
    if (!st) st = check_at_least_one("query-block", p->query_block);
    if (st) return st;
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

/* Blocks of a row ascend and exist; in causal rows none is later. */
static hga_status check_blocks(const hga_routed *p, int64_t row, const chosen_list *c, hga_id n_blocks, hga_id last)
{
    for (hga_id i = 0; i < c->n; i++) {
        if (c->block[i] < 0 || c->block[i] >= n_blocks)
            return hga_fail(HGA_EINVAL, "choice: row %lld has block %d, and there are %d", (long long)row, c->block[i],
                            n_blocks);
        if (i > 0 && c->block[i] <= c->block[i - 1])
            return hga_fail(HGA_EINVAL, "choice: row %lld has block %d after block %d; blocks must ascend",
                            (long long)row, c->block[i], c->block[i - 1]);
        if (p->causal && c->block[i] > last)
            return hga_fail(HGA_EINVAL, "choice: row %lld has block %d, which comes later", (long long)row,
                            c->block[i]);
    }
    return HGA_OK;
}

/* ---- lists ---- */

static hga_id least_of(hga_id a, hga_id b) { return a < b ? a : b; }

/* Makes a choice of all blocks one block, which runs in the tiles of dense attention. */
static void join_blocks(hga_choice *c)
{
    static const hga_pos first[] = {0, 1};
    static const hga_id only = 0;
    c->row_block = c->n_dst, c->block = c->n_src, c->first = first, c->chosen = &only;
}

/* One sample of one chooser, whose query blocks are rows of the choice from `at` on. */
static hga_status add_sample(routed_telling *x, hga_choice *c, int64_t at)
{
    hga_status st = HGA_OK;
    const hga_routed *p = x->p;
    const hga_id lists = blocks_of(c->n_dst, c->row_block), n_blocks = blocks_of(c->n_src, c->block);
    hga_pos n = 0, all = 0; /* blocks that are chosen; that there are to choose */
    for (hga_id i = 0; i < lists; i++) {
        const chosen_list list = list_of(p, at + i);
        const hga_id last = least_of((i + 1) * c->row_block, c->n_dst) - 1;
        HGA_TRY(check_blocks(p, at + i, &list, n_blocks, last / p->block));
        x->first[i] = n;
        if (!p->choice_first) memcpy(x->chosen + n, list.block, (size_t)list.n * sizeof *x->chosen);
        n += list.n, all += p->causal ? last / p->block + 1 : n_blocks;
    }
    x->first[lists] = n;
    c->first = p->choice_first ? p->choice_first + at : x->first;
    c->chosen = p->choice_first ? p->choice : x->chosen;
    if (n == all && n > 0) join_blocks(c);
    HGA_TRY(hga_builder_add_choice(x->b, x->relation, c));
done:
    return st;
}

/* Adds the choices of all choosers, sample by sample. */
static hga_status add_choice(routed_telling *x)
{
    hga_status st = HGA_OK;
    const hga_routed *p = x->p;
    const hga_id share = p->n_key_heads ? p->n_choosers / p->n_key_heads : 1;
    const int64_t lists = blocks_of(p->n_tokens, p->query_block), capacity = p->choice_first ? 0 : lists * p->slots;
    int64_t at = 0;
    HGA_TRY(hga_new(p->allocator, lists + 1, sizeof *x->first, &x->first));
    HGA_TRY(hga_new(p->allocator, capacity, sizeof *x->chosen, &x->chosen));
    for (hga_id h = 0; h < p->n_choosers; h++)
        for (hga_id i = 0; i < samples_of(p); i++) {
            hga_id first, n = sample_tokens(p, i, &first);
            hga_choice c = {.dst = h * p->n_tokens + first, .n_dst = n, .n_src = n, .row_block = p->query_block};
            c.src = x->key_first + h / share * p->n_tokens + first, c.block = p->block, c.causal = p->causal;
            HGA_TRY(add_sample(x, &c, at));
            at += blocks_of(n, p->query_block);
        }
done:
    hga_delete(p->allocator, x->first, lists + 1, sizeof *x->first);
    hga_delete(p->allocator, x->chosen, capacity, sizeof *x->chosen);
    return st;
}

/* A token's position is its own number, in every head: distances are those of one text. */
static hga_status place_tokens(const routed_telling *x, hga_id nodes)
{
    hga_status st = HGA_OK;
    for (hga_id v = 0; !st && v < nodes; v++) st = hga_builder_set_position(x->b, v, 1, (float)(v % x->p->n_tokens));
    return st;
}

/* ---- parameters of the selection ---- */

hga_status hga_routed_selection(const hga_routed *p, hga_selection *out)
{
    *out = hga_selection_defaults();
    out->block = p->block, out->query_block = p->query_block, out->causal = p->causal;
    out->sinks = p->choose.sinks, out->local = p->choose.local, out->share = p->choose.share,
    out->score = p->choose.score, out->sample = p->choose.sample;
    out->coarse = p->choose.coarse, out->coarse_k = p->choose.coarse_k, out->threshold = p->choose.threshold;
    out->k_each = p->choose.k_each, out->n_k_each = p->choose.n_k_each;
    if (p->choose.k != out->k)
        out->k = p->choose.k;
    else if (p->choose.threshold != 0)
        out->k = 0;
    if (p->choose.prefill < 0) return hga_fail(HGA_EINVAL, "prefill is %d; it must be at least 0", p->choose.prefill);
    if (p->choose.prefill <= 1) return HGA_OK;
    if (p->query_block > 1)
        return hga_fail(HGA_EINVAL,
                        "prefill is %d and query-block is %d; prefill is for tokens that choose for themselves",
                        p->choose.prefill, p->query_block);
    if (p->n_tokens > 1) out->query_block = p->choose.prefill;
    if (p->n_tokens == 1 && out->score == HGA_SELECT_SAMPLE) out->score = HGA_SELECT_MEAN;
    return HGA_OK;
}

/* ---- the graph ---- */

/* Makes each head's samples parts, so that tokens that choose for themselves keep their bits when tokens are appended.
   */
static hga_status set_parts(const routed_telling *s)
{
    hga_status st = HGA_OK;
    const hga_routed *p = s->p;
    const hga_id heads = p->n_key_heads ? p->n_key_heads : p->n_choosers;
    const int64_t n = (int64_t)heads * (samples_of(p) < p->n_tokens ? samples_of(p) : p->n_tokens) + 1;
    hga_id *part = NULL, at = 0, first;
    HGA_TRY(hga_new(p->allocator, n, sizeof *part, &part));
    if (s->key_first > 0) part[at++] = 0;
    for (hga_id h = 0; h < heads; h++)
        for (hga_id i = 0; i < samples_of(p); i++)
            if (sample_tokens(p, i, &first) > 0) part[at++] = s->key_first + h * p->n_tokens + first;
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
    routed_telling s = {.p = p};
    *g = NULL;
    HGA_TRY(hga_check_reserved("hga_routed", p->reserved, sizeof p->reserved));
    HGA_TRY(hga_routed_selection(routed, &how));
    mine.query_block = how.query_block;
    HGA_TRY(check_routed(p));
    int cross = p->n_key_heads && p->n_key_heads != p->n_choosers;
    hga_id rows = p->n_choosers * p->n_tokens, keys = cross ? p->n_key_heads * p->n_tokens : 0;
    s.key_first = cross ? rows : 0;
    HGA_TRY(hga_builder_create(p->allocator, &s.b));
    HGA_TRY(sides_add_tokens(s.b, rows, keys));
    HGA_TRY(hga_builder_set_claims(s.b, HGA_CLAIM_SINGLE | (p->causal && !cross ? HGA_CLAIM_CAUSAL : 0u)));
    HGA_TRY(hga_builder_add_relation(s.b, "chosen", &s.relation));
    HGA_TRY(add_choice(&s));
    if (p->causal && p->query_block == 1) HGA_TRY(set_parts(&s));
    if (cross) HGA_TRY(place_tokens(&s, rows + keys));
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
    HGA_TRY(sides_check(n_tokens, 0, 1));
    HGA_TRY(hga_builder_create(a, &b));
    HGA_TRY(sides_add_tokens(b, n_tokens, 0));
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
