/* strips.c: where a stage's rows are cut, and which sources several strips see. */
#include "strips.h"

#include <string.h>

enum { LEAST_ROWS = 1024, MOST_SHARES = 64, EDGES_A_ROW = 16 };

static hga_id chunks_of(const hga_plan *plan) { return (plan->nodes.n + CHUNK - 1) / CHUNK; }

typedef struct touching {
    const hga_id *order;
    uint8_t *touched; /* [chunks] */
} touching;

static void touch(const hga_segments *s, void *context)
{
    touching *t = context;
    for (hga_id i = 0; i < s->count; i++) {
        hga_segment x = hga_segments_at(s, i);
        if (!t->order)
            for (hga_id c = x.src / CHUNK; c <= (x.src + x.n_src - 1) / CHUNK; c++) t->touched[c] = 1;
        else
            for (hga_id c = 0; c < x.n_src; c++) t->touched[t->order[x.src + c] / CHUNK] = 1;
    }
}

/* The chunks that rows at positions [first, first + n) have edges to. */
static void touch_rows(const hga_plan *plan, hga_id stage, hga_id first, hga_id n, uint8_t *touched)
{
    hga_id relation = plan->program.stage[stage].relation;
    hga_relation r = hga_graph_relation(plan->graph, relation);
    touching t = {r.src_order, touched};
    if (r.n_blocks) hga_graph_visit_segments(plan->graph, relation, first, n, touch, &t);
    for (hga_id i = first; r.ptr && i < first + n; i++) {
        hga_id v = r.dst_order ? r.dst_order[i] : i;
        for (hga_pos e = r.ptr[v]; e < r.ptr[v + 1]; e++) touched[r.src[e] / CHUNK] = 1;
    }
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

static hga_status cut(const hga_plan *plan, hga_id stage, uint8_t *touched, uint8_t *seen, strips *s)
{
    hga_status st = HGA_OK;
    hga_id n = plan->nodes.n;
    memset(seen, 0, (size_t)chunks_of(plan));
    for (hga_id i = 0; !st && i < s->n; i++) {
        hga_id first = i * s->rows;
        if (first < n) touch_rows(plan, stage, first, n - first < s->rows ? n - first : s->rows, touched);
        st = list_shared(plan, i, touched, seen, s);
    }
    return st;
}

/* Strips as there are rows for, fewer where heads are many. */
static hga_id strips_wanted(const hga_plan *plan)
{
    int64_t forced = plan->options.gradient_strips, n = plan->nodes.n / LEAST_ROWS,
            most = MOST_SHARES / plan->shape.n_kv_heads;
    if (forced) return (hga_id)forced;
    if (n > MOST_STRIPS) n = MOST_STRIPS;
    return (hga_id)(n > most ? (most > 1 ? most : 1) : n < 1 ? 1 : n);
}

/* Adding a row to another costs about what an edge does: rows of strips' own must be few beside the edges. */
static int is_worth_it(const hga_plan *plan, hga_id stage, const strips *s)
{
    hga_pos edges = plan->stage[stage].relation.n_edges;
    return plan->options.gradient_strips || s->ptr[s->n] * CHUNK * EDGES_A_ROW <= edges;
}

hga_status strips_create(const hga_plan *plan, hga_id stage, strips *out)
{
    hga_status st = HGA_OK;
    hga_id chunks = chunks_of(plan), panels = (plan->nodes.n + STRIP_PANEL - 1) / STRIP_PANEL;
    uint8_t *touched = NULL, *seen = NULL;
    *out = (strips){.n = strips_wanted(plan)};
    HGA_TRY(hga_new_zero(&plan->given, chunks, 1, &touched));
    HGA_TRY(hga_new_zero(&plan->given, chunks, 1, &seen));
    for (;; out->n /= 2) {
        out->rows = (panels + out->n - 1) / out->n * STRIP_PANEL;
        if (out->n == 1) break;
        HGA_TRY(cut(plan, stage, touched, seen, out));
        if (is_worth_it(plan, stage, out)) break;
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
    *s = (strips){0};
}

int64_t strips_most_chunks(const strips *s)
{
    int64_t most = 0;
    for (hga_id i = 0; i < s->n; i++) most = s->ptr[i + 1] - s->ptr[i] > most ? s->ptr[i + 1] - s->ptr[i] : most;
    return most;
}
