/* segments.c: dense attention inside aligned segments, as between the leaves of a sentence and those of its translation
   (BP-Transformer, Ye et al. 2019, machine translation). Segments are numbered in order on both sides, so each is one
   block: its queries against its keys. Tokens in no segment are left out of the orders. Causal, with one text on both
   sides, it is the mask of packed documents. */
#include "sides.h"
#include "longer.h"

/* One side: the tokens that are in a segment, and the segment of each, both in order. */
typedef struct segment_side {
    const int32_t *segment; /* [n] */
    hga_id n, n_inside;
    hga_id *order; /* [n], the first n_inside are used: nodes; NULL: all are inside */
} segment_side;

/* Segments of one side are in order; tokens may be in none. */
static hga_status check_side(const char *what, const int32_t *segment, hga_id n)
{
    int32_t last = -1;
    for (hga_id i = 0; i < n; i++) {
        if (segment[i] < -1) return hga_fail(HGA_EINVAL, "%s: token %d is in %d; -1 is none", what, i, segment[i]);
        if (segment[i] >= 0 && segment[i] < last)
            return hga_fail(HGA_EINVAL, "%s: token %d is in segment %d, after one in %d; segments must be in order",
                            what, i, segment[i], last);
        if (segment[i] >= 0) last = segment[i];
    }
    return HGA_OK;
}

/* Causal requires that both sides are one text. */
static hga_status check_equal(const hga_segmented *p)
{
    for (hga_id i = 0; i < p->n_keys; i++)
        if (p->key_segment[i] != p->query_segment[i])
            return hga_fail(HGA_EINVAL, "key-segment: token %d is in %d, but as a query in %d; causal needs equal ones",
                            i, p->key_segment[i], p->query_segment[i]);
    return HGA_OK;
}

static hga_status check_segmented(const hga_segmented *p)
{
    if (!p->query_segment) return hga_fail(HGA_EINVAL, "query-segment: NULL, but each token needs its segment");
    if (p->n_keys > 0 && !p->key_segment)
        return hga_fail(HGA_EINVAL, "key-segment: NULL, but there are %d keys", p->n_keys);
    hga_status st = sides_check(p->n_tokens, p->n_keys, p->causal);
    if (!st) st = check_side("query-segment", p->query_segment, p->n_tokens);
    if (!st && p->n_keys > 0) st = check_side("key-segment", p->key_segment, p->n_keys);
    return st || !p->causal ? st : check_equal(p);
}

/* the nodes first + i of the tokens i that are in a segment; no list where all are */
static hga_status list_inside(const hga_allocator *a, hga_id first, segment_side *t)
{
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < t->n; i++) t->n_inside += t->segment[i] >= 0;
    if (t->n_inside == t->n) return HGA_OK;
    HGA_TRY(hga_new(a, t->n, sizeof *t->order, &t->order));
    for (hga_id i = 0, at = 0; i < t->n; i++)
        if (t->segment[i] >= 0) t->order[at++] = first + i;
done:
    return st;
}

/* the token at a position among those inside, counted on its side; `first` is the side's first node */
static int32_t segment_at(const segment_side *t, hga_id first, hga_id position)
{
    return t->segment[t->order ? t->order[position] - first : position];
}

/* one past the last position of the segment at `position` */
static hga_id segment_end(const segment_side *t, hga_id first, hga_id position)
{
    int32_t segment = segment_at(t, first, position);
    while (position < t->n_inside && segment_at(t, first, position) == segment) position++;
    return position;
}

/* Merges the two sides: a segment of both is a block. */
static hga_status add_segments(hga_builder *b, hga_id relation, const segment_side *query, const segment_side *key,
                               hga_id key_first, hga_shape_kind shape)
{
    hga_status st = HGA_OK;
    hga_id base = key->order ? 0 : key_first;
    for (hga_id q = 0, k = 0; q < query->n_inside && k < key->n_inside;) {
        int32_t a = segment_at(query, 0, q), c = segment_at(key, key_first, k);
        hga_id q_end = segment_end(query, 0, q), k_end = segment_end(key, key_first, k);
        hga_block block = {.dst = q, .n_dst = q_end - q, .src = base + k, .n_src = k_end - k, .shape = shape};
        if (a == c) HGA_TRY(hga_builder_add_blocks(b, relation, &block));
        if (a <= c) q = q_end;
        if (c <= a) k = k_end;
    }
done:
    return st;
}

/* an order only where some token is in no segment; then both sides have one */
static hga_status set_orders(hga_builder *b, hga_id relation, const segment_side *query, const segment_side *key)
{
    if (!query->order && !key->order) return HGA_OK;
    return hga_builder_set_order(b, relation, query->order, query->order ? query->n_inside : 0, key->order,
                                 key->order ? key->n_inside : 0);
}

hga_status hga_build_segments(const hga_segmented *p, hga_graph **g, hga_program *program)
{
    hga_status st = HGA_OK;
    hga_builder *b = NULL;
    const hga_id n_keys = p->causal ? 0 : p->n_keys; /* 0: the keys are the queries' tokens */
    hga_id near, key_first = n_keys > 0 ? p->n_tokens : 0;
    segment_side query = {.segment = p->query_segment, .n = p->n_tokens}, key = query;
    if (n_keys > 0) key = (segment_side){.segment = p->key_segment, .n = n_keys};
    *g = NULL;
    HGA_TRY(hga_check_reserved("hga_segmented", p->reserved, sizeof p->reserved));
    HGA_TRY(check_segmented(p));
    HGA_TRY(list_inside(p->allocator, 0, &query));
    HGA_TRY(list_inside(p->allocator, key_first, &key));
    HGA_TRY(hga_builder_create(p->allocator, &b));
    HGA_TRY(sides_add_tokens(b, p->n_tokens, n_keys));
    HGA_TRY(hga_builder_set_claims(b, HGA_CLAIM_SINGLE | (p->causal ? HGA_CLAIM_CAUSAL : 0u)));
    if (p->causal) HGA_TRY(keep_positions(b, p->allocator));
    HGA_TRY(hga_builder_add_relation(b, "near", &near));
    HGA_TRY(set_orders(b, near, &query, &key));
    HGA_TRY(add_segments(b, near, &query, &key, key_first, p->causal ? HGA_LOWER : HGA_ALL));
    HGA_TRY(hga_program_attention(program, near));
    HGA_TRY(hga_builder_finish(b, g));
done:
    hga_delete(p->allocator, query.order, query.n, sizeof *query.order);
    hga_delete(p->allocator, key.order, key.n, sizeof *key.order);
    hga_builder_destroy(b);
    return st;
}
