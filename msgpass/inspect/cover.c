/* cover.c: key tokens reach query tokens, without an n x n table. Every node's value stands for a list of key intervals
   with multiplicities; stages add lists. Complete disjoint coverage melts into one interval, so lists stay short
   exactly where hierarchies are sound. */
#include "cover.h"

#include "program.h"
#include "sources.h"

#include <stdlib.h>
#include <string.h>

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
    uint64_t levels;
} edge_point;

typedef struct survey {
    const hga_program *p;
    const hga_graph *g;
    const cover_wish *wish;
    hga_nodes nodes;
    cover_lists of[HGA_FIELD_SLOTS];
    /* of the stage at hand */
    const hga_stage *stage;
    const cover_lists *source; /* what sources hand on; `out` itself where the stage runs in place */
    int in_place;
    int tag;                 /* what a source hands on is from now on known by the source's level */
    cover_lists nothing;     /* an empty list for every node */
    const cover_lists *own;  /* what a row adds of its own, or NULL */
    const cover_lists *kept; /* what a row keeps that the stage does not write */
    cover_lists out;         /* being written */
    const hga_id *order;
    /* [n_positions]: the last position up to which single intervals follow each other; NULL when in place */
    hga_id *chain;
    hga_id n_positions;
    cover *heap; /* lists to be added up */
    int64_t n_heap, heap_room;
    edge_point *points;
    int64_t points_room;
    int final; /* the stage at hand is the last, and its lists are handed out as they are made */
} survey;

/* ---- lists ---- */

static hga_status lists_create(hga_id n, cover_lists *l)
{
    hga_status st = HGA_OK;
    *l = (cover_lists){.n = n};
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
    *l = (cover_lists){0};
}

static const cover *list_of(const cover_lists *l, hga_id v) { return l->size[v] ? l->pool + l->start[v] : NULL; }

/* Append an interval to the list that starts at `start`, joined to its last one when it continues it. */
static hga_status push(cover_lists *l, int64_t start, hga_id first, hga_id last, hga_id times, uint64_t levels)
{
    cover *end = l->n_pool > start ? &l->pool[l->n_pool - 1] : NULL;
    if (end && end->times == times && end->levels == levels && end->last == first - 1) {
        end->last = last;
        return HGA_OK;
    }
    hga_status st = hga_grow(NULL, &l->pool, &l->room, l->n_pool, l->n_pool + 1, sizeof *l->pool);
    if (st) return st;
    cover new = {.first = first, .last = last, .times = times, .levels = levels};
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

/* Few intervals are mostly two sorted lists, one behind the other. */
static void insertion_sort(cover *list, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        cover c = list[i];
        int64_t k = i;
        for (; k > 0 && list[k - 1].first > c.first; k--) list[k] = list[k - 1];
        list[k] = c;
    }
}

/* Sort the heap by first token; tells whether its intervals are disjoint. */
static int heap_sort(survey *s)
{
    enum { FEW = 64 };
    int sorted = 1, disjoint = 1;
    for (int64_t i = 1; i < s->n_heap && sorted; i++) sorted = s->heap[i - 1].first <= s->heap[i].first;
    if (!sorted && s->n_heap <= FEW)
        insertion_sort(s->heap, s->n_heap);
    else if (!sorted)
        qsort(s->heap, (size_t)s->n_heap, sizeof *s->heap, by_first);
    for (int64_t i = 1; i < s->n_heap && disjoint; i++) disjoint = s->heap[i - 1].last < s->heap[i].first;
    return disjoint;
}

/* Levels of the intervals that are open while sweeping. */
typedef struct open_levels {
    int64_t n[COVER_LEVELS];
    uint64_t set;
} open_levels;

static void change_levels(open_levels *open, uint64_t levels, hga_id change)
{
    for (; levels; levels &= levels - 1) {
        int l = __builtin_ctzll(levels);
        open->n[l] += change > 0 ? 1 : -1;
        if (open->n[l] > 0)
            open->set |= UINT64_C(1) << l;
        else
            open->set &= ~(UINT64_C(1) << l);
    }
}

/* Overlapping intervals: sweep over the places where the number of them changes. */
static hga_status heap_sweep(survey *s, cover_lists *out, int64_t start)
{
    hga_status st = HGA_OK;
    int64_t n = 2 * s->n_heap, times = 0;
    open_levels open = {.set = 0};
    HGA_TRY(hga_grow(NULL, &s->points, &s->points_room, 0, n, sizeof *s->points));
    for (int64_t i = 0; i < s->n_heap; i++) {
        cover c = s->heap[i];
        s->points[2 * i] = (edge_point){c.first, c.times, c.levels};
        s->points[2 * i + 1] = (edge_point){c.last + 1, -c.times, c.levels};
    }
    qsort(s->points, (size_t)n, sizeof *s->points, by_place);
    for (int64_t i = 0; i < n; i++) {
        hga_id from = i ? s->points[i - 1].at : 0, to = s->points[i].at - 1;
        if (times > 0 && from <= to) HGA_TRY(push(out, start, from, to, times > 1 ? 2 : 1, open.set));
        times += s->points[i].change;
        change_levels(&open, s->points[i].levels, s->points[i].change);
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
    for (int64_t i = 0; i < s->n_heap; i++)
        HGA_TRY(push(out, *start, s->heap[i].first, s->heap[i].last, s->heap[i].times, s->heap[i].levels));
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
    *out = (cover){.first = first - nodes->key_first, .last = last - nodes->key_first, .times = 1};
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

/* What the next layer is given on node v comes from v's own output, where it has one. */
static int is_letter(const survey *s, hga_id v)
{
    return s->wish->by_node && program_row(&s->nodes, s->p->field[program_bound(s->p, HGA_IO_OUT)].io, v);
}

/* A value the caller gives on a node stands for the node's tokens: its span, or its children's lists where they fill no
   interval. */
static hga_status start_node(survey *s, cover_lists *all, hga_id v)
{
    hga_status st = HGA_OK;
    int64_t start = all->n_pool;
    cover span;
    s->n_heap = 0;
    if (is_letter(s, v)) {
        HGA_TRY(push(all, start, v, v, 1, 0));
    } else if (!span_of(&s->nodes, v, &span)) {
        HGA_TRY(add_children(s, all, v));
        HGA_TRY(heap_sum(s, all, &start));
    } else if (span.first <= span.last) {
        HGA_TRY(push(all, start, span.first, span.last, 1, 0));
    }
    give(all, v, start);
done:
    return st;
}

static hga_status start_input(survey *s, hga_id f)
{
    const hga_field *field = &s->p->field[f];
    cover_lists all = {0};
    hga_status st = HGA_OK;
    HGA_TRY(lists_create(s->nodes.n, &all));
    for (hga_id v = 0; v < s->nodes.n; v++) HGA_TRY(start_node(s, &all, v));
    for (hga_id v = 0; v < s->nodes.n; v++)
        if (!program_row(&s->nodes, field->io, v)) all.size[v] = 0;
    s->of[f] = all;
    return HGA_OK;
done:
    lists_clear(&all);
    return st;
}

/* ---- one stage ---- */

/* Single intervals that follow each other, as tokens do, are taken together. */
static hga_status find_chains(survey *s)
{
    hga_relation rel = {0};
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
        int alike = a->times == b->times &&
                    (s->tag ? hga_graph_level(s->g, u) == hga_graph_level(s->g, next) : a->levels == b->levels);
        if (alike && a->last + 1 == b->first) s->chain[i] = s->chain[i + 1];
    }
    return HGA_OK;
}

static hga_status add_node(survey *s, hga_id u)
{
    int64_t before = s->n_heap;
    hga_status st = heap_add(s, list_of(s->source, u), s->source->size[u]);
    for (int64_t i = before; i < s->n_heap && s->tag; i++) s->heap[i].levels = cover_level(s->g, u);
    return st;
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

/* The list a row has from its sources, plus its own. `shared` is the sources' sum in s->out, used as it is by rows that
   add nothing. */
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
static int shares_parent(const survey *s, const reach *r) { return s->in_place && r->n_spans == 0 && r->n_nodes == 1; }

static hga_status hand_out(survey *s, const cover_lists *lists, hga_id v)
{
    return s->wish->row(list_of(lists, v), lists->size[v], v, s->wish->context);
}

/* What all rows of a group have from their sources. */
static hga_status add_sources(survey *s, const reach *r, int64_t *shared, int64_t *size)
{
    hga_status st = HGA_OK;
    if (shares_parent(s, r)) {
        *shared = s->out.start[r->nodes[0]], *size = s->out.size[r->nodes[0]];
        return HGA_OK;
    }
    s->n_heap = 0;
    for (int64_t k = 0; k < r->n_spans; k++) HGA_TRY(add_span(s, r->spans[k]));
    for (int64_t k = 0; k < r->n_nodes; k++) HGA_TRY(add_node(s, r->nodes[k]));
    HGA_TRY(heap_sum(s, &s->out, shared));
    *size = s->out.n_pool - *shared;
done:
    return st;
}

/* Of a last stage whose rows read no other row of it, only those that are asked for. */
static int is_wanted(const survey *s, hga_id v)
{
    return !s->final || s->in_place || s->wish->by_node || program_row(&s->nodes, HGA_ROWS_QUERIES, v);
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
        if (!is_wanted(s, v)) continue;
        if (!program_row(&s->nodes, out->rows, v) || (lone && given)) {
            HGA_TRY(keep_row(s, v));
        } else {
            if (!added) HGA_TRY(add_sources(s, r, &shared, &size));
            added = 1;
            HGA_TRY(finish_row(s, v, shared, size));
        }
        if (s->final) HGA_TRY(hand_out(s, &s->out, v));
    }
    if (s->final && !s->in_place) s->out.n_pool = 0;
done:
    return st;
}

/* Depth first, so that of a last stage along the tree only the lists between a root and the node at hand are kept. */
static hga_status walk_families(survey *s, hga_id *stack, int64_t *end)
{
    const hga_nodes *nodes = &s->nodes;
    hga_status st = HGA_OK;
    for (hga_id root = nodes->n - 1, n = 0; root >= 0; root--) {
        if (!nodes->parent || nodes->parent[root] < 0) stack[n++] = root;
        while (n > 0) {
            hga_id v = stack[--n], p = nodes->parent ? nodes->parent[v] : -1;
            reach r = {.row = v, .n_rows = 1, .nodes = p < 0 ? NULL : nodes->parent + v, .n_nodes = p >= 0};
            s->out.n_pool = p < 0 ? 0 : end[p];
            HGA_TRY(visit_rows(&r, s));
            end[v] = s->out.n_pool;
            if (v < nodes->level_ptr[1] || !nodes->child_ptr) continue;
            for (hga_id i = nodes->child_ptr[v - nodes->level_ptr[1]];
                 i < nodes->child_ptr[v - nodes->level_ptr[1] + 1]; i++)
                stack[n++] = nodes->child_list ? nodes->child_list[i] : i;
        }
    }
done:
    return st;
}

static hga_status visit_families(survey *s)
{
    hga_id *stack = NULL;
    int64_t *end = NULL;
    hga_status st = HGA_OK;
    HGA_TRY(hga_new(NULL, s->nodes.n, sizeof *stack, &stack));
    HGA_TRY(hga_new(NULL, s->nodes.n, sizeof *end, &end));
    HGA_TRY(walk_families(s, stack, end));
done:
    hga_delete(NULL, stack, s->nodes.n, sizeof *stack);
    hga_delete(NULL, end, s->nodes.n, sizeof *end);
    return st;
}

/* A user function that names no value is taken to pass on the first value, state or output it may read. */
hga_id cover_source(const hga_program *p, const hga_stage *s)
{
    const stage_rule *rule = &program_rules[program_kind(s)];
    uint32_t fields = program_fields(s, rule->carry_source);
    for (hga_id f = 1; f <= p->n_fields; f++) {
        hga_width width = p->field[f].width;
        int carries = width == HGA_WIDTH_VALUE || width == HGA_WIDTH_STATE || width == HGA_WIDTH_OUT;
        if (fields ? fields >> f & 1u : program_kind(s) == KIND_USER && carries && f != s->out && s->reads >> f & 1u)
            return f;
    }
    return 0;
}

hga_id cover_own(const hga_stage *s)
{
    unsigned roles = program_rules[program_kind(s)].carry_own;
    return roles ? program_role(s, (stage_role)__builtin_ctz(roles)) : 0;
}

/* Lists that were never written are empty. */
static hga_status ready(survey *s, hga_id f) { return s->of[f].start ? HGA_OK : lists_create(s->nodes.n, &s->of[f]); }

/* Each node's list in the field that the stage writes. */
static hga_status cover_stage(survey *s, const hga_stage *stage, int tag, int last)
{
    hga_id source = cover_source(s->p, stage), own = cover_own(stage);
    hga_status st = HGA_OK;
    s->stage = stage;
    s->tag = tag;
    HGA_TRY(ready(s, stage->out));
    if (source) HGA_TRY(ready(s, source));
    if (own) HGA_TRY(ready(s, own));
    s->in_place = source == stage->out && stage->order != HGA_FLAT;
    s->source = !source ? &s->nothing : s->in_place ? &s->out : &s->of[source];
    s->own = own ? &s->of[own] : NULL;
    s->kept = &s->of[stage->out];
    s->final = last && (!s->in_place || stage->relation == HGA_TREE_DOWN);
    HGA_TRY(lists_create(s->nodes.n, &s->out));
    HGA_TRY(find_chains(s));
    if (s->final && s->in_place)
        HGA_TRY(visit_families(s));
    else
        HGA_TRY(reach_rows(s->g, stage->relation, stage->order, visit_rows, s));
    lists_clear(&s->of[stage->out]);
    s->of[stage->out] = s->out;
    s->out = (cover_lists){0};
done:
    hga_delete(NULL, s->chain, s->n_positions, sizeof *s->chain);
    s->chain = NULL;
    return st;
}

uint32_t cover_stages(const hga_program *p, uint32_t *fields)
{
    uint32_t stages = 0;
    *fields = UINT32_C(1) << program_bound(p, HGA_IO_OUT);
    for (hga_id i = p->n_stages - 1; i >= 0; i--) {
        const hga_stage *s = &p->stage[i];
        if (!program_rules[program_kind(s)].carries || !(*fields >> s->out & 1u)) continue;
        hga_id source = cover_source(p, s), own = cover_own(s);
        stages |= UINT32_C(1) << i;
        if (source) *fields |= UINT32_C(1) << source;
        if (own) *fields |= UINT32_C(1) << own;
    }
    return stages;
}

uint32_t cover_attending(const hga_program *p, uint32_t stages)
{
    uint32_t scores = 0, last = 0;
    for (hga_id i = 0; i < p->n_stages; i++) {
        const hga_stage *s = &p->stage[i];
        if (!(stages >> i & 1u)) continue;
        if (s->reduce == HGA_SOFTMAX) scores |= UINT32_C(1) << i;
        if (cover_source(p, s) && cover_source(p, s) != s->out) last = UINT32_C(1) << i;
    }
    return scores ? scores : last;
}

uint64_t cover_level(const hga_graph *g, hga_id v)
{
    hga_id l = hga_graph_level(g, v);
    return UINT64_C(1) << (l < COVER_LEVELS ? l : COVER_LEVELS - 1);
}

/* ---- everything ---- */

/* The stages in order. A last stage hands out its rows as it makes them, if it can; after another, or none, they are
   handed out here. */
static hga_status survey_all(survey *s)
{
    hga_status st = HGA_OK;
    uint32_t fields, stages = cover_stages(s->p, &fields), attending = cover_attending(s->p, stages);
    hga_id out = program_bound(s->p, HGA_IO_OUT);
    HGA_TRY(lists_create(s->nodes.n, &s->nothing));
    for (hga_id f = 1; f <= s->p->n_fields; f++)
        if (program_is_input(s->p->field[f].binding) && fields >> f & 1u) HGA_TRY(start_input(s, f));
    for (hga_id i = 0; i < s->p->n_stages; i++)
        if (stages >> i & 1u)
            HGA_TRY(cover_stage(s, &s->p->stage[i], s->wish->by_level && attending >> i & 1u, stages >> i == 1));
    HGA_TRY(ready(s, out));
    for (hga_id v = 0; v < s->nodes.n && !s->final; v++) HGA_TRY(hand_out(s, &s->of[out], v));
done:
    return st;
}

hga_status cover_rows(const hga_program *p, const hga_graph *g, const cover_wish *wish)
{
    survey s = {.p = p, .g = g, .wish = wish};
    hga_status st = HGA_OK;
    HGA_TRY(program_check(p, g));
    s.nodes = hga_graph_nodes(g);
    HGA_TRY(survey_all(&s));
done:
    for (hga_id f = 0; f < HGA_FIELD_SLOTS; f++) lists_clear(&s.of[f]);
    lists_clear(&s.out);
    lists_clear(&s.nothing);
    hga_delete(NULL, s.heap, s.heap_room, sizeof *s.heap);
    hga_delete(NULL, s.points, s.points_room, sizeof *s.points);
    return st;
}
