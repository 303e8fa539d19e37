/* coverage.c: which key tokens reach which query tokens, and how often, without an n x n table. Every node's value stands for a list of key intervals with
   multiplicities; stages add lists. Complete disjoint coverage melts into one interval, so lists stay short exactly where hierarchies are sound. */
#include "program.h"
#include "reach.h"

#include <stdlib.h>
#include <string.h>

/* Key tokens first .. last are covered `times` (2 means more than once); before them in its list, `once` tokens are covered once and `more` more often. */
typedef struct cover {
    hga_id first, last, times, once, more;
} cover;

/* Node v's list is pool[start[v] .. start[v] + size[v]): sorted, disjoint, neighbours joined. Nodes may share one. */
typedef struct cover_lists {
    hga_id n;
    int64_t *start;
    int32_t *size;
    cover *pool;
    int64_t n_pool, room;
} cover_lists;

/* Where a multiplicity changes. */
typedef struct edge_point {
    hga_id at, change;
} edge_point;

/* Pairs to show: of the first query token that has one; -1. */
typedef struct examples {
    hga_id more[2], none[2], diagonal;
} examples;

typedef struct survey {
    const hga_program *p;
    const hga_graph *g;
    hga_nodes nodes;
    cover_lists of[HGA_MAX_FIELDS];
    /* of the stage at hand */
    const hga_stage *stage;
    const cover_lists *source;  /* what sources hand on; `out` itself where the stage runs in place */
    int in_place;
    cover_lists nothing;        /* an empty list for every node */
    const cover_lists *own;     /* what a row adds of its own, or NULL */
    const cover_lists *kept;    /* what a row keeps that the stage does not write */
    cover_lists out;            /* being written */
    const hga_id *order;
    hga_id *chain;              /* [n_positions]: the last position up to which single intervals follow each other; NULL when in place */
    hga_id n_positions;
    cover *heap;                /* lists to be added up */
    int64_t n_heap, heap_room;
    edge_point *points;
    int64_t points_room;
    /* the result */
    int causal;
    int final;                  /* the stage at hand is the last, and no row of it reads another: lists are counted and dropped at once */
    hga_coverage *count;
    examples seen;
} survey;

/* ---- lists ---- */

static hga_status lists_create(hga_id n, cover_lists *l)
{
    hga_status st = HGA_OK;
    *l = (cover_lists){ .n = n };
    HGA_TRY(hga_new_zero(NULL, n, sizeof *l->start, &l->start));
    HGA_TRY(hga_new_zero(NULL, n, sizeof *l->size, &l->size));
done:
    return st;
}

static void lists_clear(cover_lists *l)
{
    hga_delete(NULL, l->start, l->n, sizeof *l->start);
    hga_delete(NULL, l->size, l->n, sizeof *l->size);
    hga_delete(NULL, l->pool, l->room, sizeof *l->pool);
    *l = (cover_lists){ 0 };
}

static const cover *list_of(const cover_lists *l, hga_id v)
{
    return l->size[v] ? l->pool + l->start[v] : NULL;
}

/* Append an interval to the list that starts at `start`, joined to its last one when it continues it. */
static hga_status push(cover_lists *l, int64_t start, hga_id first, hga_id last, hga_id times)
{
    cover *end = l->n_pool > start ? &l->pool[l->n_pool - 1] : NULL;
    if (end && end->times == times && end->last == first - 1) {
        end->last = last;
        return HGA_OK;
    }
    hga_status st = hga_grow(NULL, &l->pool, &l->room, l->n_pool, l->n_pool + 1, sizeof *l->pool);
    if (st) return st;
    cover new = { .first = first, .last = last, .times = times };
    if (l->n_pool > start) {
        cover before = l->pool[l->n_pool - 1];
        hga_id n = before.last - before.first + 1;
        new.once = before.once + (before.times == 1 ? n : 0);
        new.more = before.more + (before.times == 1 ? 0 : n);
    }
    l->pool[l->n_pool++] = new;
    return HGA_OK;
}

static void give(cover_lists *l, hga_id v, int64_t start)
{
    l->start[v] = start;
    l->size[v] = (int32_t)(l->n_pool - start);
}

/* ---- adding lists ---- */

static int by_first(const void *a, const void *b)
{
    hga_id x = ((const cover *)a)->first, y = ((const cover *)b)->first;
    return (x > y) - (x < y);
}

static int by_place(const void *a, const void *b)
{
    hga_id x = ((const edge_point *)a)->at, y = ((const edge_point *)b)->at;
    return (x > y) - (x < y);
}

static hga_status heap_add(survey *s, const cover *list, int64_t n)
{
    if (n == 0) return HGA_OK;
    hga_status st = hga_grow(NULL, &s->heap, &s->heap_room, s->n_heap, s->n_heap + n, sizeof *s->heap);
    if (st) return st;
    memcpy(s->heap + s->n_heap, list, (size_t)n * sizeof *list);
    s->n_heap += n;
    return HGA_OK;
}

/* Sort the heap by first token; tells whether its intervals are disjoint. */
static int heap_sort(survey *s)
{
    int sorted = 1, disjoint = 1;
    for (int64_t i = 1; i < s->n_heap && sorted; i++) sorted = s->heap[i - 1].first <= s->heap[i].first;
    if (!sorted) qsort(s->heap, (size_t)s->n_heap, sizeof *s->heap, by_first);
    for (int64_t i = 1; i < s->n_heap && disjoint; i++) disjoint = s->heap[i - 1].last < s->heap[i].first;
    return disjoint;
}

/* Overlapping intervals: sweep over the places where the number of them changes. */
static hga_status heap_sweep(survey *s, cover_lists *out, int64_t start)
{
    hga_status st = HGA_OK;
    int64_t n = 2 * s->n_heap, times = 0;
    HGA_TRY(hga_grow(NULL, &s->points, &s->points_room, 0, n, sizeof *s->points));
    for (int64_t i = 0; i < s->n_heap; i++) {
        cover c = s->heap[i];
        s->points[2 * i] = (edge_point){ c.first, c.times };
        s->points[2 * i + 1] = (edge_point){ c.last + 1, -c.times };
    }
    qsort(s->points, (size_t)n, sizeof *s->points, by_place);
    for (int64_t i = 0; i < n; i++) {
        hga_id from = i ? s->points[i - 1].at : 0, to = s->points[i].at - 1;
        if (times > 0 && from <= to) HGA_TRY(push(out, start, from, to, times > 1 ? 2 : 1));
        times += s->points[i].change;
    }
done:
    return st;
}

/* The sum of the lists in the heap becomes a new list of `out`, which starts at *start. */
static hga_status heap_sum(survey *s, cover_lists *out, int64_t *start)
{
    hga_status st = HGA_OK;
    *start = out->n_pool;
    if (!heap_sort(s)) return heap_sweep(s, out, *start);
    for (int64_t i = 0; i < s->n_heap; i++) HGA_TRY(push(out, *start, s->heap[i].first, s->heap[i].last, s->heap[i].times));
done:
    return st;
}

/* ---- inputs ---- */

/* The key tokens of a node that the graph gives as an interval; 0 when it does not. */
static int span_of(const hga_nodes *nodes, hga_id v, cover *out)
{
    hga_id first = nodes->span_first[v], last = nodes->span_last[v], end = nodes->key_first + nodes->n_keys - 1;
    if (first > last) return 0;
    first = first > nodes->key_first ? first : nodes->key_first, last = last < end ? last : end;
    *out = (cover){ .first = first - nodes->key_first, .last = last - nodes->key_first, .times = 1 };
    return 1;
}

static hga_status add_children(survey *s, const cover_lists *l, hga_id v)
{
    const hga_nodes *nodes = &s->nodes;
    hga_status st = HGA_OK;
    if (v < nodes->level_ptr[1] || !nodes->child_ptr) return HGA_OK;
    for (hga_id i = nodes->child_ptr[v - nodes->level_ptr[1]]; i < nodes->child_ptr[v - nodes->level_ptr[1] + 1]; i++) {
        hga_id u = nodes->child_list ? nodes->child_list[i] : i;
        HGA_TRY(heap_add(s, list_of(l, u), l->size[u]));
    }
done:
    return st;
}

/* A value the caller gives on a node stands for the node's tokens: its span, or its children's lists where they fill no interval. */
static hga_status start_input(survey *s, hga_id f)
{
    const hga_field *field = &s->p->field[f];
    cover_lists all = { 0 };
    hga_status st = HGA_OK;
    HGA_TRY(lists_create(s->nodes.n, &all));
    for (hga_id v = 0; v < s->nodes.n; v++) {
        int64_t start = all.n_pool;
        cover span;
        s->n_heap = 0;
        if (!span_of(&s->nodes, v, &span)) {
            HGA_TRY(add_children(s, &all, v));
            HGA_TRY(heap_sum(s, &all, &start));
        } else if (span.first <= span.last) HGA_TRY(push(&all, start, span.first, span.last, 1));
        give(&all, v, start);
    }
    for (hga_id v = 0; v < s->nodes.n; v++)
        if (!program_row(&s->nodes, field->io, v)) all.size[v] = 0;
    s->of[f] = all;
    return HGA_OK;
done:
    lists_clear(&all);
    return st;
}

/* ---- counting ---- */

/* Of a list: tokens before `end` covered once and more often, and whether token end - 1 is covered. */
static void count_before(const cover *list, int64_t n, hga_id end, int64_t *once, int64_t *more, int *last_is_covered)
{
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (list[mid].first < end) lo = mid + 1;
        else hi = mid;
    }
    *once = *more = *last_is_covered = 0;
    if (lo == 0) return;
    cover c = list[lo - 1];
    hga_id inside = (c.last < end ? c.last + 1 : end) - c.first;
    *once = c.once + (c.times == 1 ? inside : 0);
    *more = c.more + (c.times == 1 ? 0 : inside);
    *last_is_covered = end > c.first && end <= c.last + 1;
}

/* The first token below `end` covered more than once, -1 without. */
static hga_id first_more(const cover *list, int64_t n, hga_id end)
{
    for (int64_t i = 0; i < n && list[i].first < end; i++)
        if (list[i].times > 1) return list[i].first;
    return -1;
}

/* The first token below `end` other than `except` that is not covered, -1 without. */
static hga_id first_none(const cover *list, int64_t n, hga_id end, hga_id except)
{
    hga_id next = 0;
    for (int64_t i = 0; i <= n; i++) {
        hga_id gap_end = i < n && list[i].first < end ? list[i].first : end;
        if (next == except && next < gap_end) next++;
        if (next < gap_end) return next;
        if (i < n) next = list[i].last + 1;
    }
    return -1;
}

static int is_earlier(hga_id i, hga_id seen)
{
    return seen < 0 || i < seen;
}

/* Count a node's list if the node is a query token. Query tokens come in any order. */
static void count_row(survey *s, const cover_lists *lists, hga_id v)
{
    hga_id i = v - s->nodes.query_first, n_keys = s->nodes.n_keys, earlier = i < n_keys ? i + 1 : n_keys, end = s->causal ? earlier : n_keys;
    if (v < s->nodes.query_first || i >= s->nodes.n_queries) return;
    const cover *list = list_of(lists, v);
    int64_t n = lists->size[v], once_early, more_early, once_all, more_all;
    int self, unused;
    count_before(list, n, earlier, &once_early, &more_early, &self);
    count_before(list, n, n_keys, &once_all, &more_all, &unused);
    int64_t once = s->causal ? once_early : once_all, more = s->causal ? more_early : more_all, none = end - once - more;
    int lacks_self = s->nodes.query_first == s->nodes.key_first && i < n_keys && !self;
    hga_coverage *c = s->count;
    examples *seen = &s->seen;
    c->pairs += end, c->none += none, c->once += once, c->more += more, c->none_diagonal += lacks_self;
    c->later += once_all + more_all - once_early - more_early;
    if (more && is_earlier(i, seen->more[0])) seen->more[0] = i, seen->more[1] = first_more(list, n, end);
    if (none > lacks_self && is_earlier(i, seen->none[0])) seen->none[0] = i, seen->none[1] = first_none(list, n, end, lacks_self ? i : -1);
    if (lacks_self && is_earlier(i, seen->diagonal)) seen->diagonal = i;
}

/* ---- one stage ---- */

/* Single intervals that follow each other, as tokens do, are taken together. */
static hga_status find_chains(survey *s)
{
    hga_relation rel = { 0 };
    if (s->stage->relation >= 0) rel = hga_graph_relation(s->g, s->stage->relation);
    s->order = rel.src_order;
    s->n_positions = rel.src_order ? rel.n_src_order : s->nodes.n;
    if (s->in_place) return HGA_OK;
    hga_status st = hga_new(NULL, s->n_positions, sizeof *s->chain, &s->chain);
    if (st) return st;
    for (hga_id i = s->n_positions - 1; i >= 0; i--) {
        s->chain[i] = i;
        if (i + 1 == s->n_positions) continue;
        hga_id u = s->order ? s->order[i] : i, next = s->order ? s->order[i + 1] : i + 1;
        if (s->source->size[u] != 1 || s->source->size[next] != 1) continue;
        const cover *a = list_of(s->source, u), *b = list_of(s->source, next);
        if (a->times == b->times && a->last + 1 == b->first) s->chain[i] = s->chain[i + 1];
    }
    return HGA_OK;
}

static hga_status add_node(survey *s, hga_id u)
{
    return heap_add(s, list_of(s->source, u), s->source->size[u]);
}

static hga_status add_span(survey *s, reach_span span)
{
    hga_status st = HGA_OK;
    for (hga_id i = span.first; i <= span.last;) {
        hga_id u = s->order ? s->order[i] : i, end = s->chain ? s->chain[i] : i;
        HGA_TRY(add_node(s, u));
        if (end > span.last) end = span.last;
        if (end > i) s->heap[s->n_heap - 1].last = list_of(s->source, s->order ? s->order[end] : end)->last;
        i = end + 1;
    }
done:
    return st;
}

/* The list a row has from its sources, plus its own. `shared` is the sources' sum in s->out, used as it is by rows that add nothing. */
static hga_status finish_row(survey *s, hga_id v, int64_t shared, int64_t shared_size)
{
    hga_status st = HGA_OK;
    int64_t start = shared;
    if (!s->own || s->own->size[v] == 0) {
        s->out.start[v] = shared;
        s->out.size[v] = (int32_t)shared_size;
        return HGA_OK;
    }
    s->n_heap = 0;
    if (shared_size) HGA_TRY(heap_add(s, s->out.pool + shared, shared_size));
    HGA_TRY(heap_add(s, list_of(s->own, v), s->own->size[v]));
    HGA_TRY(heap_sum(s, &s->out, &start));
    give(&s->out, v, start);
done:
    return st;
}

/* A row the stage leaves as it was. */
static hga_status keep_row(survey *s, hga_id v)
{
    if (s->kept->size[v] == 0) return HGA_OK;
    s->n_heap = 0;
    hga_status st = heap_add(s, list_of(s->kept, v), s->kept->size[v]);
    int64_t start = 0;
    if (!st) st = heap_sum(s, &s->out, &start);
    if (!st) give(&s->out, v, start);
    return st;
}

/* A row with one source in the same pool and nothing of its own shares that source's list. */
static int shares_parent(const survey *s, const reach *r)
{
    return s->in_place && r->n_spans == 0 && r->n_nodes == 1;
}

static hga_status visit_rows(const reach *r, void *context)
{
    survey *s = context;
    hga_status st = HGA_OK;
    int64_t shared = 0, size = 0;
    const hga_field *out = &s->p->field[s->stage->out];
    int lone = r->n_spans == 0 && r->n_nodes == 0, added = 0;
    for (hga_id i = 0; i < r->n_rows; i++) {
        hga_id v = r->row_order ? r->row_order[r->row + i] : r->row + i;
        int given = program_is_input(out->binding) && program_row(&s->nodes, out->io, v);
        if (!program_row(&s->nodes, out->rows, v) || (lone && given)) {
            HGA_TRY(keep_row(s, v));
            if (s->final) count_row(s, &s->out, v);
            continue;
        }
        if (!added && shares_parent(s, r)) shared = s->out.start[r->nodes[0]], size = s->out.size[r->nodes[0]];
        else if (!added) {
            s->n_heap = 0;
            for (int64_t k = 0; k < r->n_spans; k++) HGA_TRY(add_span(s, r->spans[k]));
            for (int64_t k = 0; k < r->n_nodes; k++) HGA_TRY(add_node(s, r->nodes[k]));
            HGA_TRY(heap_sum(s, &s->out, &shared));
            size = s->out.n_pool - shared;
        }
        added = 1;
        HGA_TRY(finish_row(s, v, shared, size));
        if (s->final) count_row(s, &s->out, v);
    }
    if (s->final) s->out.n_pool = 0;
done:
    return st;
}

/* The field whose lists an edge hands on. A user function that names no value is taken to pass on the first value, state or output it may read; -1: nothing. */
static hga_id handed_on(const hga_program *p, const hga_stage *s)
{
    const stage_rule *rule = &program_rules[program_kind(s)];
    uint32_t fields = program_fields(s, rule->carry_source);
    for (hga_id f = 0; f < p->n_fields; f++) {
        hga_width width = p->field[f].width;
        int carries = width == HGA_WIDTH_VALUE || width == HGA_WIDTH_STATE || width == HGA_WIDTH_OUT;
        if (fields ? fields >> f & 1u : program_kind(s) == KIND_USER && carries && f != s->out && s->reads >> f & 1u) return f;
    }
    return -1;
}

/* The field whose list a row adds of its own, -1 without. */
static hga_id own_share(const hga_stage *s)
{
    unsigned roles = program_rules[program_kind(s)].carry_own;
    return roles ? program_role(s, (stage_role)__builtin_ctz(roles)) : -1;
}

/* Lists that were never written are empty. */
static hga_status ready(survey *s, hga_id f)
{
    return s->of[f].start ? HGA_OK : lists_create(s->nodes.n, &s->of[f]);
}

static hga_status cover_stage(survey *s, const hga_stage *stage, int last)
{
    hga_id source = handed_on(s->p, stage), own = own_share(stage);
    hga_status st = HGA_OK;
    s->stage = stage;
    HGA_TRY(ready(s, stage->out));
    if (source >= 0) HGA_TRY(ready(s, source));
    if (own >= 0) HGA_TRY(ready(s, own));
    s->in_place = source == stage->out && stage->order != HGA_FLAT;
    s->source = source < 0 ? &s->nothing : s->in_place ? &s->out : &s->of[source];
    s->own = own >= 0 ? &s->of[own] : NULL;
    s->kept = &s->of[stage->out];
    s->final = last && !s->in_place;
    HGA_TRY(lists_create(s->nodes.n, &s->out));
    HGA_TRY(find_chains(s));
    HGA_TRY(reach_rows(s->g, stage->relation, stage->order, visit_rows, s));
    lists_clear(&s->of[stage->out]);
    s->of[stage->out] = s->out;
    s->out = (cover_lists){ 0 };
done:
    hga_delete(NULL, s->chain, s->n_positions, sizeof *s->chain);
    s->chain = NULL;
    return st;
}

/* Which stages hand on what ends in `out`, backwards from it, and the fields they take it from. */
static uint32_t needed_stages(const hga_program *p, uint32_t *fields)
{
    uint32_t stages = 0;
    *fields = UINT32_C(1) << program_bound(p, HGA_IO_OUT);
    for (hga_id i = p->n_stages - 1; i >= 0; i--) {
        const hga_stage *s = &p->stage[i];
        if (!program_rules[program_kind(s)].carries || !(*fields >> s->out & 1u)) continue;
        hga_id source = handed_on(p, s), own = own_share(s);
        stages |= UINT32_C(1) << i;
        if (source >= 0) *fields |= UINT32_C(1) << source;
        if (own >= 0) *fields |= UINT32_C(1) << own;
    }
    return stages;
}

/* ---- everything ---- */

/* The pair to show: one covered more than once, else one never covered, a token and itself last. */
static void choose_example(const examples *seen, hga_coverage *c)
{
    if (seen->more[0] >= 0) c->token = seen->more[0], c->other = seen->more[1];
    else if (seen->none[0] >= 0) c->token = seen->none[0], c->other = seen->none[1];
    else c->token = c->other = seen->diagonal;
}

/* The stages in order. A last stage that is not in place has counted its rows; after another, or none, they are counted here. */
static hga_status survey_all(survey *s)
{
    hga_status st = HGA_OK;
    uint32_t fields, stages = needed_stages(s->p, &fields);
    hga_id out = program_bound(s->p, HGA_IO_OUT);
    HGA_TRY(lists_create(s->nodes.n, &s->nothing));
    for (hga_id f = 0; f < s->p->n_fields; f++)
        if (program_is_input(s->p->field[f].binding) && fields >> f & 1u) HGA_TRY(start_input(s, f));
    for (hga_id i = 0; i < s->p->n_stages; i++)
        if (stages >> i & 1u) HGA_TRY(cover_stage(s, &s->p->stage[i], stages >> i == 1));
    HGA_TRY(ready(s, out));
    for (hga_id v = 0; v < s->nodes.n && !s->final; v++) count_row(s, &s->of[out], v);
    choose_example(&s->seen, s->count);
done:
    return st;
}

hga_status hga_program_coverage(const hga_program *p, const hga_graph *g, int causal, hga_coverage *out)
{
    survey s = { .p = p, .g = g, .causal = causal, .count = out, .seen = { { -1, -1 }, { -1, -1 }, -1 } };
    hga_status st = HGA_OK;
    if (!out) return hga_fail(HGA_EINVAL, "coverage: nowhere to put the result");
    *out = (hga_coverage){ .token = -1, .other = -1 };
    HGA_TRY(program_check(p, g));
    s.nodes = hga_graph_nodes(g);
    HGA_TRY(survey_all(&s));
done:
    for (hga_id f = 0; f < HGA_MAX_FIELDS; f++) lists_clear(&s.of[f]);
    lists_clear(&s.out);
    lists_clear(&s.nothing);
    hga_delete(NULL, s.heap, s.heap_room, sizeof *s.heap);
    hga_delete(NULL, s.points, s.points_room, sizeof *s.points);
    return st;
}
