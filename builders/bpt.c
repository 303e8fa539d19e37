/* bpt.c: BP-Transformer. The tree halves the tokens until one node is left. Leaf i sees k nodes to either side on every
   level, nearest first, and each span sees its tokens. The pointers of the authors' loop have a closed form: with x =
   floor((i - lead) / 2^j) the first right slot of level j is node x + lead + 1, and with x = floor((i + lead) / 2^j)
   the first left slot is node x - lead - 1; lead is k - 1, or k under the rule `text`. So leaves come in groups of 2^j
   with equal slots, and a slot moves by one node from group to group: staircases. The rules differ where a pointer
   skips a sibling: `shifted` makes the sibling slot 0 of the next level, for one half of each group; `text` appends it
   to its own level, for every second group; `algorithm1` drops it and covers tokens twice. */
#include "at_least.h"
#include "longer.h"

enum { MAX_LEVELS = 32 };

typedef struct bpt_tree {
    hga_id n_levels;
    int64_t size[MAX_LEVELS], first[MAX_LEVELS + 1];
} bpt_tree;

/* The state of building one graph. */
typedef struct bpt_drawing {
    hga_builder *builder;
    hga_id near;
    const hga_bpt *p;
    hga_id n_tokens, there; /* the tokens so far, if fewer: spans of later ones are whole */
    int64_t k, lead;
    bpt_tree tree;
} bpt_drawing;

static bpt_tree halve(hga_id n_tokens)
{
    bpt_tree t = {.n_levels = 1, .size = {n_tokens}, .first = {0, n_tokens}};
    while (t.size[t.n_levels - 1] > 1) {
        t.size[t.n_levels] = (t.size[t.n_levels - 1] + 1) / 2;
        t.first[t.n_levels + 1] = t.first[t.n_levels] + t.size[t.n_levels];
        t.n_levels++;
    }
    return t;
}

hga_id hga_bpt_nodes(hga_id n_tokens)
{
    if (n_tokens < 1) return -1;
    bpt_tree t = halve(n_tokens);
    int64_t nodes = t.first[t.n_levels];
    return nodes > INT32_MAX ? -1 : (hga_id)nodes;
}

/* The number of nodes grows with that of tokens, so bisection inverts it. */
hga_id hga_bpt_tokens(hga_id nodes)
{
    hga_id lo = 1, hi = nodes;
    while (lo < hi) {
        hga_id mid = lo + (hi - lo) / 2, have = hga_bpt_nodes(mid);
        if (have >= 0 && have < nodes)
            lo = mid + 1;
        else
            hi = mid;
    }
    return nodes >= 1 && hga_bpt_nodes(lo) == nodes ? lo : -1;
}

/* the first edge type of level j: of the leaf itself, or of a span's tokens */
static int64_t type_base(const bpt_drawing *d, hga_id j) { return (2 * d->k + 1) * (j < d->p->clip ? j : d->p->clip); }

/* A staircase of leaf groups over the nodes of level j, its columns counted within the level. */
static hga_status add_slots(const bpt_drawing *d, hga_id j, hga_staircase s)
{
    s.row_end = d->n_tokens;
    s.col += d->tree.first[j], s.col_begin = d->tree.first[j], s.col_end = d->tree.first[j + 1];
    return hga_builder_add_staircase(d->builder, d->near, &s);
}

/* slot s has type 2 s + 1 on the left and 2 s + 2 on the right; `from` is the first slot of the level's own nodes */
static hga_status add_left(const bpt_drawing *d, hga_id j, int64_t from)
{
    int64_t group = (int64_t)1 << j, k = d->k;
    hga_staircase s = {.row = -d->lead,
                       .n_rows = group,
                       .row_step = group,
                       .col = -d->lead - k,
                       .n_cols = k - from,
                       .col_step = 1,
                       .type_src = -2};
    s.type = type_base(d, j) + 2 * k - 1;
    return add_slots(d, j, s);
}
/* The slots from `from` on that level j's groups have on their right. */
static hga_status add_right(const bpt_drawing *d, hga_id j, int64_t from)
{
    int64_t group = (int64_t)1 << j, col = d->lead + 1 + from;
    hga_staircase s = {.row = d->lead,
                       .n_rows = group,
                       .row_step = group,
                       .col = col,
                       .n_cols = d->k - from,
                       .col_step = 1,
                       .type_src = 2};
    s.type = type_base(d, j) + 2 * from + 2;
    return add_slots(d, j, s);
}

/* Slot 0 under `shifted`: half of each group takes the level's own node, the other half the skipped sibling one level
   finer. */
static hga_status add_shifted_slot(const bpt_drawing *d, hga_id j)
{
    hga_status st = HGA_OK;
    int64_t group = (int64_t)1 << j, half = group / 2, lead = d->lead;
    hga_staircase own = {.n_rows = half, .row_step = group, .n_cols = 1, .col_step = 1},
                  behind = {.n_rows = half, .row_step = group, .n_cols = 1, .col_step = 2};
    own.type = behind.type = type_base(d, j) + 1;
    behind.row = -lead, behind.col = -2 * (lead + 1);
    own.row = half - lead, own.col = -lead - 1;
    HGA_TRY(add_slots(d, j - 1, behind));
    HGA_TRY(add_slots(d, j, own));
    if (d->p->causal) goto done;
    own.type = behind.type = type_base(d, j) + 2;
    own.row = lead, own.col = lead + 1;
    behind.row = half + lead, behind.col = 2 * (lead + 1) + 1;
    HGA_TRY(add_slots(d, j, own));
    HGA_TRY(add_slots(d, j - 1, behind));
done:
    return st;
}

/* Slot k under `text`, of slot k - 1's type: on the left of odd groups and on the right of even ones. */
static hga_status add_text_slot(const bpt_drawing *d, hga_id j)
{
    hga_status st = HGA_OK;
    int64_t group = (int64_t)1 << j, k = d->k, lead = d->lead, base = type_base(d, j);
    hga_staircase left = {.n_rows = group, .row_step = 2 * group, .n_cols = 1, .col_step = 2}, right = left;
    left.row = group - lead, left.col = -lead - k, left.type = base + 2 * k - 1;
    right.row = lead, right.col = lead + 1 + k, right.type = base + 2 * k;
    HGA_TRY(add_slots(d, j, left));
    if (!d->p->causal) HGA_TRY(add_slots(d, j, right));
done:
    return st;
}

/* Spans [first, end) of level j see their tokens before n. */
static hga_status add_spans(const bpt_drawing *d, hga_id j, int64_t first, int64_t end, int64_t n)
{
    const bpt_tree *t = &d->tree;
    int64_t group = (int64_t)1 << j;
    hga_staircase s = {.row = t->first[j],
                       .n_rows = 1,
                       .row_step = 1,
                       .row_begin = t->first[j] + first,
                       .row_end = t->first[j] + end,
                       .n_cols = group,
                       .col_step = group,
                       .col_end = n,
                       .type = type_base(d, j)};
    return hga_builder_add_staircase(d->builder, d->near, &s);
}

/* A span sees its tokens, the last one only those so far. */
static hga_status add_affiliated(const bpt_drawing *d, hga_id j)
{
    int64_t group = (int64_t)1 << j, there = (d->there + group - 1) / group;
    hga_status st = add_spans(d, j, 0, there, d->there);
    return st || there == d->tree.size[j] ? st : add_spans(d, j, there, d->tree.size[j], d->n_tokens);
}

/* Adds what leaves see of level j by the rule, and what its spans see. */
static hga_status add_level(const bpt_drawing *d, hga_id j)
{
    hga_status st = HGA_OK;
    int shifted = d->p->rule == HGA_BPT_SHIFTED;
    HGA_TRY(add_left(d, j, shifted));
    if (!d->p->causal) HGA_TRY(add_right(d, j, shifted));
    if (shifted) HGA_TRY(add_shifted_slot(d, j));
    if (d->p->rule == HGA_BPT_TEXT) HGA_TRY(add_text_slot(d, j));
    HGA_TRY(add_affiliated(d, j));
done:
    return st;
}

/* A band of leaves, whose types change by `slope` from one distance to the next. */
static hga_status add_band(const bpt_drawing *d, int64_t first, int64_t last, int32_t type, int32_t slope)
{
    hga_id n = d->n_tokens;
    hga_block band = {.n_dst = n,
                      .n_src = n,
                      .type = type,
                      .type_dst = -slope,
                      .type_src = slope,
                      .shape = HGA_BAND,
                      .band_first = (hga_id)first,
                      .band_last = (hga_id)last};
    return hga_builder_add_blocks(d->builder, d->near, &band);
}

/* Level 0: the leaf itself, type 0, and k leaves to either side; the one at distance x has type 2 x - 1 on the left, 2
   x on the right. */
static hga_status add_leaves(const bpt_drawing *d)
{
    hga_status st = HGA_OK;
    HGA_TRY(add_band(d, 0, 0, 0, 0));
    HGA_TRY(add_band(d, -d->k, -1, -1, -2));
    if (!d->p->causal) HGA_TRY(add_band(d, 1, d->k, 0, 2));
    if (d->p->rule == HGA_BPT_TEXT) HGA_TRY(add_text_slot(d, 0));
done:
    return st;
}

static hga_status add_levels(hga_builder *b, const bpt_tree *t)
{
    hga_status st = HGA_OK;
    for (hga_id j = 0; j < t->n_levels; j++) HGA_TRY(hga_builder_add_level(b, (hga_id)t->size[j], NULL));
done:
    return st;
}

static hga_status add_families(hga_builder *b, const bpt_tree *t)
{
    hga_status st = HGA_OK;
    for (hga_id j = 0; j + 1 < t->n_levels; j++)
        HGA_TRY(hga_builder_set_families(b, (hga_id)t->first[j + 1], (hga_id)t->first[j], (hga_id)t->size[j], 2));
done:
    return st;
}

/* The tree's nodes and the edges' types must fit 32 bits. */
static hga_status check_bpt(const hga_bpt *p)
{
    if (p->n_tokens < 1) return hga_fail(HGA_EINVAL, "tokens: %d, at least 1 is needed", p->n_tokens);
    if (hga_bpt_nodes(p->n_tokens) < 0)
        return hga_fail(HGA_EOVERFLOW, "tokens: the tree over %d has too many nodes for a 32-bit id", p->n_tokens);
    hga_status st = check_at_least_one("k", p->k);
    if (st) return st;
    if (p->clip < 0) return hga_fail(HGA_EINVAL, "clip: %d is negative", p->clip);
    if ((unsigned)p->rule > HGA_BPT_ALGORITHM1) return hga_fail(HGA_EINVAL, "rule: %d is not one", (int)p->rule);
    int64_t levels = p->clip < MAX_LEVELS ? p->clip + 1 : MAX_LEVELS;
    if ((2 * (int64_t)p->k + 1) * levels >= INT32_MAX)
        return hga_fail(HGA_EOVERFLOW, "k: %d needs more edge types than 32 bits number", p->k);
    return HGA_OK;
}

/* The rows of every tensor are nodes. */
static hga_status bpt_program(hga_id near, hga_program *program)
{
    hga_status st = HGA_OK;
    hga_id query, key, value, out;
    hga_program_init(program);
    HGA_TRY(
        hga_program_add_field(program, "query", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_NODES, HGA_ROWS_NODES, &query));
    HGA_TRY(hga_program_add_field(program, "key", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_NODES, HGA_ROWS_NODES, &key));
    HGA_TRY(
        hga_program_add_field(program, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_NODES, HGA_ROWS_NODES, &value));
    HGA_TRY(hga_program_add_field(program, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_NODES, HGA_ROWS_NODES, &out));
    HGA_TRY(hga_program_attend(program, near, query, key, value, out, 0));
    program->has_lse = 1;
done:
    return st;
}

/* Draws n_tokens tokens, of which the first `there` exist. */
static hga_status draw_bpt(hga_builder *b, const hga_bpt *p, hga_id n_tokens, hga_id there, hga_id *near)
{
    hga_status st = HGA_OK;
    bpt_drawing d = {.builder = b,
                     .p = p,
                     .n_tokens = n_tokens,
                     .there = there,
                     .k = p->k,
                     .lead = p->rule == HGA_BPT_TEXT ? p->k : p->k - 1,
                     .tree = halve(n_tokens)};
    HGA_TRY(add_levels(b, &d.tree));
    HGA_TRY(hga_builder_add_relation(b, "near", near));
    d.near = *near;
    HGA_TRY(add_leaves(&d));
    for (hga_id j = 1; j < d.tree.n_levels; j++) HGA_TRY(add_level(&d, j));
done:
    return st;
}

static hga_status draw_more_bpt(hga_builder *b, const void *parameters, hga_id n_tokens, hga_id there)
{
    hga_id near;
    return draw_bpt(b, parameters, n_tokens, there, &near);
}

hga_status hga_build_bpt(const hga_bpt *p, hga_graph **g, hga_program *program)
{
    hga_status st = HGA_OK;
    hga_builder *b = NULL;
    hga_id near;
    *g = NULL;
    HGA_TRY(hga_check_reserved("hga_bpt", p->reserved, sizeof p->reserved));
    HGA_TRY(check_bpt(p));
    HGA_TRY(hga_builder_create(p->allocator, &b));
    bpt_tree t = halve(p->n_tokens);
    HGA_TRY(draw_bpt(b, p, p->n_tokens, p->n_tokens, &near));
    HGA_TRY(add_families(b, &t));
    HGA_TRY(hga_builder_set_claims(b, HGA_CLAIM_SINGLE | HGA_CLAIM_COMPLETE | (p->causal ? HGA_CLAIM_CAUSAL : 0u)));
    if (p->causal) HGA_TRY(draw_longer(b, p->allocator, p->n_tokens, (int64_t)1 << (t.n_levels - 1), draw_more_bpt, p));
    HGA_TRY(bpt_program(near, program));
    HGA_TRY(hga_builder_finish(b, g));
done:
    hga_builder_destroy(b);
    return st;
}
