/* strips.c: where a stage's rows are cut, and which sources several strips see. */
#include "subtrees.h"

#include <string.h>

enum { LEAST_ROWS = 1024, LEAST_SUBTREES = 2, MOST_SHARES = 64, EDGES_A_ROW = 16, MOST_HEADS = 8 };

static hga_id chunks_of(const hga_plan *plan) { return (plan->nodes.n + CHUNK - 1) / CHUNK; }

/* Every node's place in the order of the relation's columns; nodes that are none come last. */
static hga_status order_sources(const hga_plan *plan, const hga_relation *r, strips *s)
{
    hga_status st = HGA_OK;
    hga_id n = plan->nodes.n, at = r->n_src_order;
    if (!r->src_order) return HGA_OK;
    HGA_TRY(hga_new(&plan->given, n, sizeof *s->order, &s->order));
    HGA_TRY(hga_new(&plan->given, n, sizeof *s->rank, &s->rank));
    for (hga_id v = 0; v < n; v++) s->rank[v] = -1;
    for (hga_id i = 0; i < at; i++) s->order[i] = r->src_order[i], s->rank[s->order[i]] = i;
    for (hga_id v = 0; v < n; v++)
        if (s->rank[v] < 0) s->rank[v] = at, s->order[at++] = v;
done:
    return st;
}

static void touch(const hga_segments *s, void *context)
{
    uint8_t *touched = context; /* [chunks] */
    for (hga_id i = 0; i < s->count; i++) {
        hga_segment x = hga_segments_at(s, i);
        for (hga_id c = x.src / CHUNK; c <= (x.src + x.n_src - 1) / CHUNK; c++) touched[c] = 1;
    }
}

/* The chunks that rows at positions [first, first + n) have edges to. */
static void touch_rows(const hga_plan *plan, hga_id stage, hga_id first, hga_id n, const strips *s, uint8_t *touched)
{
    hga_id relation = plan->program.stage[stage].relation;
    hga_relation r = hga_graph_relation(plan->graph, relation);
    if (r.n_blocks) hga_graph_visit_segments(plan->graph, relation, first, n, touch, touched);
    for (hga_id i = first; r.ptr && i < first + n; i++) {
        hga_id v = r.dst_order ? r.dst_order[i] : i;
        for (hga_pos e = r.ptr[v]; e < r.ptr[v + 1]; e++) touched[(s->rank ? s->rank[r.src[e]] : r.src[e]) / CHUNK] = 1;
    }
}

/* The chunks that subtrees [first, first + n) have edges to. */
static void touch_subtrees(const hga_plan *plan, const subtrees *t, hga_id first, hga_id n, const strips *s,
                           uint8_t *touched)
{
    for (hga_id at = t->ptr[first + 1]; at < t->ptr[first + n + 1]; at++)
        for (hga_id stage = 0; stage < plan->program.n_stages; stage++)
            if (kind_attends(plan->stage[stage].kind))
                touch_rows(plan, stage, t->rows[at].first, t->rows[at].end - t->rows[at].first, s, touched);
}

/* List the chunks that a strip shares with one before it. `seen` is what those touched. */
static hga_status list_shared(const hga_plan *plan, hga_id strip, uint8_t *touched, uint8_t *seen, strips *s)
{
    hga_status st = HGA_OK;
    int64_t n = s->ptr[strip];
    for (hga_id c = 0; !st && c < chunks_of(plan); c++) {
        if (touched[c] && seen[c]) {
            if (n == s->room) st = hga_grow(&plan->given, &s->chunk, &s->room, n, n + 1, sizeof *s->chunk);
            if (!st) s->chunk[n++] = c;
        }
        seen[c] |= touched[c], touched[c] = 0;
    }
    s->ptr[strip + 1] = n;
    return st;
}

static hga_status cut(const hga_plan *plan, hga_id stage, const subtrees *trees, uint8_t *touched, uint8_t *seen,
                      strips *s)
{
    hga_status st = HGA_OK;
    memset(seen, 0, (size_t)chunks_of(plan));
    for (hga_id i = 0; !st && i < s->n; i++) {
        hga_id first = i * s->rows, n = s->end - first < s->rows ? s->end - first : s->rows;
        if (n > 0 && trees)
            touch_subtrees(plan, trees, first, n, s, touched);
        else if (n > 0)
            touch_rows(plan, stage, first, n, s, touched);
        st = list_shared(plan, i, touched, seen, s);
    }
    return st;
}

/* Strips as there are rows or subtrees for, fewer where heads are many, since what strips share costs them more; a
   power of two, which threads share out evenly. */
static hga_id strips_wanted(const hga_plan *plan, const subtrees *trees)
{
    int64_t forced = plan->options.gradient_strips, most = MOST_SHARES / plan->shape.n_kv_heads,
            n = trees ? trees->n / (LEAST_SUBTREES * plan->shape.n_kv_heads) : plan->nodes.n / LEAST_ROWS;
    if (forced) return (hga_id)forced;
    hga_id many = 1;
    while (2 * many <= n && 2 * many <= most && 2 * many <= MOST_STRIPS) many *= 2;
    return many;
}

/* Adding a row to another costs about what an edge does: rows of strips' own must be few beside the edges, and the
   fewer the more heads there are for threads to share out. */
static int is_worth_it(const hga_plan *plan, hga_id stage, const subtrees *trees, const strips *s)
{
    hga_pos edges = plan->stage[stage].relation.n_edges;
    int64_t heads = plan->shape.n_kv_heads < MOST_HEADS ? plan->shape.n_kv_heads : MOST_HEADS;
    for (hga_id i = 0; trees && i < plan->program.n_stages; i++)
        if (i != stage && kind_attends(plan->stage[i].kind)) edges += plan->stage[i].relation.n_edges;
    return plan->options.gradient_strips || s->ptr[s->n] * CHUNK * EDGES_A_ROW * heads <= edges;
}

hga_status strips_create(const hga_plan *plan, hga_id stage, const subtrees *trees, strips *out)
{
    hga_status st = HGA_OK;
    hga_id chunks = chunks_of(plan), unit = trees ? 1 : STRIP_PANEL;
    uint8_t *touched = NULL, *seen = NULL;
    *out = (strips){.n = strips_wanted(plan, trees), .end = trees ? trees->n : plan->nodes.n};
    HGA_TRY(order_sources(plan, &plan->stage[stage].relation, out));
    HGA_TRY(hga_new_zero(&plan->given, chunks, 1, &touched));
    HGA_TRY(hga_new_zero(&plan->given, chunks, 1, &seen));
    for (;; out->n /= 2) {
        out->rows = ((out->end + unit - 1) / unit + out->n - 1) / out->n * unit;
        if (out->n == 1) break;
        HGA_TRY(cut(plan, stage, trees, touched, seen, out));
        if (is_worth_it(plan, stage, trees, out)) break;
    }
    if (out->n == 1) out->ptr[1] = 0;
done:
    hga_delete(&plan->given, touched, chunks, 1);
    hga_delete(&plan->given, seen, chunks, 1);
    if (st) strips_clear(plan, out);
    return st;
}

void strips_clear(const hga_plan *plan, strips *s)
{
    hga_delete(&plan->given, s->chunk, s->room, sizeof *s->chunk);
    hga_delete(&plan->given, s->order, plan->nodes.n, sizeof *s->order);
    hga_delete(&plan->given, s->rank, plan->nodes.n, sizeof *s->rank);
    *s = (strips){0};
}

int64_t strips_most_chunks(const strips *s)
{
    int64_t most = 0;
    for (hga_id i = 0; i < s->n; i++) most = s->ptr[i + 1] - s->ptr[i] > most ? s->ptr[i + 1] - s->ptr[i] : most;
    return most;
}
