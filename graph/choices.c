/* choices.c: relations whose rows choose blocks of columns, for example by content. The lists are stored, four bytes a
   chosen block; blocks and segments are made on demand. */
#include "block.h"
#include "builder_relations.h"
#include "blocks.h"
#include "builder.h"
#include "sort.h"

#include <string.h>

static hga_pos lists_of(const hga_choice *c) { return c->n_dst / c->row_block + (c->n_dst % c->row_block != 0); }

/* ---- building ---- */

/* The choice's rows and columns are nodes, its blocks are not empty, and its rows follow those of earlier choices. */
static hga_status check_form(const hga_builder *b, const draft *d, const hga_choice *c)
{
    const long long at = (long long)d->n_choices;
    hga_status st = hga_check_reserved("hga_choice", c->reserved, sizeof c->reserved);
    if (st) return st;
    if (c->dst < 0 || c->n_dst < 0 || c->n_dst > b->n - c->dst)
        return hga_fail(HGA_EGRAPH, "relation %s, choice %lld: rows %d .. %lld leave [0, %d)", d->name, at, c->dst,
                        (long long)c->dst + c->n_dst - 1, b->n);
    if (c->src < 0 || c->n_src < 0 || c->n_src > b->n - c->src)
        return hga_fail(HGA_EGRAPH, "relation %s, choice %lld: columns %d .. %lld leave [0, %d)", d->name, at, c->src,
                        (long long)c->src + c->n_src - 1, b->n);
    if (c->row_block < 1 || c->block < 1)
        return hga_fail(HGA_EGRAPH, "relation %s, choice %lld: blocks of %d rows and %d columns", d->name, at,
                        c->row_block, c->block);
    const hga_choice *last = d->n_choices ? &d->choice[d->n_choices - 1] : NULL;
    if (last && c->dst < last->dst + last->n_dst)
        return hga_fail(HGA_EGRAPH, "relation %s, choice %lld begins with row %d; rows before %d have chosen", d->name,
                        at, c->dst, last->dst + last->n_dst);
    if (c->n_dst > 0 && (!c->first || !c->chosen))
        return hga_fail(HGA_EINVAL, "relation %s, choice %lld: no lists of blocks", d->name, at);
    return HGA_OK;
}

/* The list of a block of rows ascends; in a causal choice its last block begins before the rows end. */
static hga_status check_choice_list(const draft *d, const hga_choice *c, hga_pos list)
{
    const hga_id *x = c->chosen + c->first[list], n_blocks = c->n_src / c->block + (c->n_src % c->block != 0);
    const hga_pos n = c->first[list + 1] - c->first[list];
    const int64_t end = least((list + 1) * c->row_block, c->n_dst);
    const long long at = (long long)d->n_choices, row = (long long)(c->dst + list * c->row_block);
    if (n < 0)
        return hga_fail(HGA_EGRAPH, "relation %s, choice %lld: row %lld has %lld blocks", d->name, at, row,
                        (long long)n);
    for (hga_pos i = 0; i < n; i++) {
        if (x[i] < 0 || x[i] >= n_blocks)
            return hga_fail(HGA_EGRAPH, "relation %s, choice %lld: row %lld has block %d, and there are %d", d->name,
                            at, row, x[i], n_blocks);
        if (i > 0 && x[i] <= x[i - 1])
            return hga_fail(HGA_EGRAPH,
                            "relation %s, choice %lld: row %lld has block %d after block %d; they must ascend", d->name,
                            at, row, x[i], x[i - 1]);
    }
    if (c->causal && n > 0 && (int64_t)x[n - 1] * c->block >= end)
        return hga_fail(HGA_EGRAPH, "relation %s, choice %lld: row %lld has block %d, which comes later", d->name, at,
                        row, x[n - 1]);
    return HGA_OK;
}

/* Appends a copy of the choice's lists to those of the choices before it. */
hga_status choice_add(hga_builder *b, draft *d, const hga_choice *c)
{
    hga_status st = check_form(b, d, c);
    if (st) return st;
    const hga_allocator *a = &b->allocator;
    const hga_pos lists = lists_of(c), n = lists ? c->first[lists] - c->first[0] : 0, at = d->n_chosen;
    for (hga_pos i = 0; i < lists; i++) HGA_TRY(check_choice_list(d, c, i));
    HGA_TRY(hga_grow(a, &d->choice, &d->choice_capacity, d->n_choices, d->n_choices + 1, sizeof *d->choice));
    HGA_TRY(hga_grow(a, &d->list, &d->list_capacity, d->n_lists, d->n_lists + lists + 1, sizeof *d->list));
    HGA_TRY(hga_grow(a, &d->chosen, &d->chosen_capacity, at, at + n, sizeof *d->chosen));
    for (hga_pos i = 0; i < lists; i++) d->list[d->n_lists + i] = at + c->first[i] - c->first[0];
    d->list[d->n_lists + lists] = at + n;
    if (n) memcpy(d->chosen + at, c->chosen + c->first[0], (size_t)n * sizeof *d->chosen);
    d->choice[d->n_choices] = *c;
    d->n_choices++, d->n_lists += lists + 1, d->n_chosen += n;
done:
    return st;
}

void choices_drop(const hga_allocator *a, draft *d)
{
    hga_delete(a, d->choice, d->choice_capacity, sizeof *d->choice);
    hga_delete(a, d->list, d->list_capacity, sizeof *d->list);
    hga_delete(a, d->chosen, d->chosen_capacity, sizeof *d->chosen);
}

void choices_clear(const hga_allocator *a, stored_relation *r)
{
    hga_delete(a, r->choices.row, r->choices.capacity, sizeof *r->choices.row);
    hga_delete(a, r->choices.list, r->choices.list_capacity, sizeof *r->choices.list);
    hga_delete(a, r->choices.chosen, r->choices.chosen_capacity, sizeof *r->choices.chosen);
}

int64_t choices_bytes(const stored_relation *r)
{
    return r->choices.capacity * (int64_t)sizeof *r->choices.row +
           r->choices.list_capacity * (int64_t)sizeof *r->choices.list +
           r->choices.chosen_capacity * (int64_t)sizeof *r->choices.chosen;
}

/* ---- as blocks ---- */

/* Block `chosen` of list `list`; where it is causal and reaches past its first row, a lower triangular band. */
static hga_block block_of(const hga_choice *c, hga_pos list, hga_id chosen)
{
    const int64_t row = list * c->row_block, column = (int64_t)chosen * c->block;
    hga_block b = {.dst = (hga_id)(c->dst + row), .src = (hga_id)(c->src + column)};
    b.n_dst = (hga_id)least(c->row_block, c->n_dst - row), b.n_src = (hga_id)least(c->block, c->n_src - column);
    if (c->causal && column + b.n_src - 1 > row)
        b.shape = HGA_BAND, b.band_first = -b.n_dst, b.band_last = (hga_id)(row - column);
    return b;
}

/* Counts a list's edges. Blocks that all of its rows see whole come first, so only the last ones are counted one by
   one. */
static hga_pos list_edges(const hga_choice *c, hga_pos list)
{
    const int64_t row = list * c->row_block, n_dst = least(c->row_block, c->n_dst - row);
    hga_pos i = c->first[list + 1], n = 0;
    for (; i > c->first[list] && (c->causal || ((int64_t)c->chosen[i - 1] + 1) * c->block > c->n_src); i--) {
        const hga_block b = block_of(c, list, c->chosen[i - 1]);
        if (b.shape == HGA_ALL && b.n_src == c->block) break;
        n += block_edges(&b);
    }
    return n + (i - c->first[list]) * n_dst * c->block;
}

static hga_pos count_choice_edges(const stored_relation *r)
{
    hga_pos n = 0;
    for (hga_pos i = 0; i < r->choices.n; i++)
        for (hga_pos list = 0, lists = lists_of(&r->choices.row[i]); list < lists; list++)
            n += list_edges(&r->choices.row[i], list);
    return n;
}

int hga_relation_next(const hga_relation *r, hga_block_walk *w)
{
    if (!r->n_choices) {
        if (w->at < r->n_blocks) w->block = r->blocks[w->at];
        return w->at++ < r->n_blocks;
    }
    for (; w->choice < r->n_choices; w->choice++, w->list = 0) {
        const hga_choice *c = &r->choices[w->choice];
        for (const hga_pos lists = lists_of(c); w->list < lists; w->list++)
            if (w->at < c->first[w->list + 1]) {
                w->block = block_of(c, w->list, c->chosen[w->at++]);
                return 1;
            }
    }
    return 0;
}

/* ---- finished ---- */

/* The draft's choices become the relation's, which has nothing else. */
hga_status choices_finish(draft *d, stored_relation *r)
{
    if (!d->n_choices) return HGA_OK;
    if (d->n_blocks || d->edges.n || r->order.dst || r->order.src)
        return hga_fail(HGA_EGRAPH, "relation %s has choices, and %s; it has nothing else", d->name,
                        d->n_blocks  ? "blocks"
                        : d->edges.n ? "single edges"
                                     : "an order");
    r->choices.row = d->choice, r->choices.n = d->n_choices, r->choices.capacity = d->choice_capacity;
    r->choices.list = d->list, r->choices.list_capacity = d->list_capacity, r->choices.chosen = d->chosen,
    r->choices.chosen_capacity = d->chosen_capacity;
    r->n_blocks = d->n_chosen;
    d->choice = NULL, d->list = NULL, d->chosen = NULL;
    hga_pos at = 0;
    for (hga_pos i = 0; i < r->choices.n; i++) {
        hga_choice *c = &r->choices.row[i];
        c->first = r->choices.list + at, c->chosen = r->choices.chosen, at += lists_of(c) + 1;
    }
    r->n_edges = count_choice_edges(r);
    relation_note_types(r, 0);
    return HGA_OK;
}

/* ---- as segments ---- */

/* Contiguous blocks are one segment. The columns that no row of [row, end) sees are cut off. */
static void visit_list(const hga_choice *c, hga_pos list, int64_t row, int64_t end, hga_segments_visit visit,
                       void *context)
{
    hga_segments s = {.count = 1};
    s.first = (hga_segment){.row = (hga_id)(c->dst + row), .n_rows = (hga_id)(end - row), .weight = 1};
    s.first.band_first = -s.first.n_rows, s.first.row_inside = (hga_id)(row - list * c->row_block);
    for (hga_pos i = c->first[list], next; i < c->first[list + 1]; i = next) {
        for (next = i + 1; next < c->first[list + 1] && c->chosen[next] == c->chosen[next - 1] + 1;) next++;
        const int64_t column = (int64_t)c->chosen[i] * c->block;
        int64_t n = least(((int64_t)c->chosen[next - 1] + 1) * c->block, c->n_src);
        n = (c->causal ? least(n, end) : n) - column;
        if (n <= 0) continue;
        s.first.src = (hga_id)(c->src + column), s.first.n_src = (hga_id)n;
        s.first.band_last = (hga_id)(c->causal ? least(row - column, n) : n);
        visit(&s, context);
    }
}

static int ends_after(const void *context, int64_t i)
{
    const hga_choice *c = *(const hga_choice *const *)context + i;
    return c->dst + c->n_dst > ((const hga_choice *const *)context)[1]->dst;
}

/* Visits the segments of rows [first, first + n), choice by choice and list by list. */
void choices_visit(const stored_relation *r, hga_id first, hga_id n, hga_segments_visit visit, void *context)
{
    const hga_choice from = {.dst = first}, *searched[2] = {r->choices.row, &from};
    const int64_t last = (int64_t)first + n;
    for (hga_pos i = search_first(0, r->choices.n, ends_after, searched); i < r->choices.n; i++) {
        const hga_choice *c = &r->choices.row[i];
        const int64_t begin = first > c->dst ? first - c->dst : 0, end = least(last - c->dst, c->n_dst);
        for (int64_t row = begin, next; row < end; row = next) {
            const hga_pos list = row / c->row_block;
            next = least((list + 1) * c->row_block, end);
            visit_list(c, list, row, next, visit, context);
        }
        if (c->dst >= last) return;
    }
}
