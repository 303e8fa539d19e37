/* gather.c: sums of lists over the edges of one stage. */
#include "flow.h"
#include "interrupt.h"

/* ---- chains ---- */

static int continues(const hga_graph *g, const interval_lists *l, hga_id u, hga_id next, int by_level)
{
    if (l->size[u] != 1 || l->size[next] != 1) return 0;
    const interval *a = interval_list(l, u), *b = interval_list(l, next);
    int alike = by_level ? hga_graph_level(g, u) == hga_graph_level(g, next) : a->tags == b->tags;
    return alike && a->times == b->times && a->last + 1 == b->first;
}

hga_status flow_chain(const hga_graph *g, const interval_lists *l, const hga_id *order, hga_id n, int by_level,
                      hga_id **last)
{
    hga_status st = hga_new(NULL, n, sizeof **last, last);
    for (hga_id i = n - 1; i >= 0 && !st; i--) {
        int more = i + 1 < n && continues(g, l, flow_node(order, i), flow_node(order, i + 1), by_level);
        (*last)[i] = more ? (*last)[i + 1] : i;
        st = interrupted_at(i);
    }
    return st;
}

/* ---- the sources of a row ---- */

/* Adds the list of u; if a chain continues to node `end`, up to its end. */
static hga_status add_node(const flow_sums *w, hga_id u, hga_id end)
{
    const interval *list = interval_list(w->from, u);
    hga_status st = HGA_OK;
    if (w->only && !program_row(&w->nodes, w->only->rows, u)) return HGA_OK;
    if (!w->by_level && end == u) return interval_add_list(w->sum, list, w->from->size[u]);
    uint64_t level = w->by_level ? flow_level(w->g, u) : 0;
    for (int32_t i = 0; i < w->from->size[u]; i++) {
        interval one = list[i];
        if (w->by_level) one.tags = level;
        if (end != u) one.last = interval_list(w->from, end)->last;
        HGA_TRY(interval_add(w->sum, one));
    }
done:
    return st;
}

/* Adds the lists of the sources of a span, chains as one. */
static hga_status add_span(const flow_sums *w, reach_span span)
{
    hga_status st = HGA_OK;
    for (hga_id i = span.first; i <= span.last;) {
        hga_id end = w->chain ? w->chain[i] : i;
        if (end > span.last) end = span.last;
        HGA_TRY(add_node(w, flow_node(w->order, i), flow_node(w->order, end)));
        HGA_TRY(interrupted_at(i));
        i = end + 1;
    }
done:
    return st;
}

hga_status flow_add_sources(const flow_sums *w, const reach *r)
{
    hga_status st = HGA_OK;
    if (!w->from) return HGA_OK;
    for (int64_t k = 0; k < r->n_spans; k++) {
        HGA_TRY(add_span(w, r->spans[k]));
        HGA_TRY(interrupted_at(k));
    }
    for (int64_t k = 0; k < r->n_nodes; k++) {
        HGA_TRY(add_node(w, r->nodes[k], r->nodes[k]));
        HGA_TRY(interrupted_at(k));
    }
done:
    return st;
}

/* Sources that are being written have no chains yet. */
hga_status flow_sums_begin(flow_sums *w, hga_id relation)
{
    w->nodes = hga_graph_nodes(w->g);
    w->order = flow_source_order(w->g, relation, &w->n_positions);
    w->chain = NULL;
    if (!w->from || w->from == w->out || w->only) return HGA_OK;
    return flow_chain(w->g, w->from, w->order, w->n_positions, w->by_level, &w->chain);
}

void flow_sums_end(flow_sums *w)
{
    hga_delete(NULL, w->chain, w->n_positions, sizeof *w->chain);
    w->chain = NULL;
}

/* ---- rows ---- */

static hga_status add_list(const flow_sums *w, const interval_lists *l, hga_id v)
{
    return interval_add_list(w->sum, interval_list(l, v), l->size[v]);
}

static hga_status put_sum(const flow_sums *w, hga_id v)
{
    const interval *list;
    int64_t n;
    hga_status st = interval_take(w->sum, &list, &n);
    return st ? st : interval_put(w->out, v, list, n);
}

/* Whether the row's only source propagates its list unchanged, from the same pool. */
static int is_handed_on(const flow_sums *w, const reach *r)
{
    return w->from == w->out && !w->only && !w->by_level && r->n_spans == 0 && r->n_nodes == 1;
}

/* Sets the list of row v to the sum of a group's sources; the group's other rows share it. */
static hga_status gather_sources(const flow_sums *w, const reach *r, hga_id v)
{
    hga_status st = HGA_OK;
    if (is_handed_on(w, r)) {
        w->out->start[v] = w->out->start[r->nodes[0]], w->out->size[v] = w->out->size[r->nodes[0]];
        return HGA_OK;
    }
    HGA_TRY(flow_add_sources(w, r));
    HGA_TRY(put_sum(w, v));
done:
    return st;
}

static hga_status add_own(const flow_sums *w, hga_id v)
{
    hga_status st = HGA_OK;
    if (!w->own || w->own->size[v] == 0) return HGA_OK;
    HGA_TRY(add_list(w, w->out, v));
    HGA_TRY(add_list(w, w->own, v));
    HGA_TRY(put_sum(w, v));
done:
    return st;
}

/* A visitor of rows with the same sources, whose lists are summed once for all of them. */
static hga_status gather_rows(const reach *r, void *context)
{
    const flow_sums *w = context;
    hga_status st = HGA_OK;
    int64_t start = 0;
    int32_t size = -1;
    for (hga_id i = 0; i < r->n_rows; i++) {
        hga_id v = flow_node(r->row_order, r->row + i);
        if (w->stage && flow_keeps(&w->nodes, w->stage, w->field, v)) {
            HGA_TRY(add_list(w, w->cached, v));
            HGA_TRY(put_sum(w, v));
            continue;
        }
        if (size < 0) {
            HGA_TRY(gather_sources(w, r, v));
            start = w->out->start[v], size = w->out->size[v];
        }
        w->out->start[v] = start, w->out->size[v] = size;
        HGA_TRY(add_own(w, v));
    }
done:
    return st;
}

hga_status flow_gather(flow_sums *w, hga_id relation, hga_order order)
{
    hga_status st = HGA_OK;
    HGA_TRY(flow_sums_begin(w, relation));
    HGA_TRY(reach_rows(w->g, relation, order, gather_rows, w));
done:
    flow_sums_end(w);
    return st;
}

/* ---- stages ---- */

/* Lists that were never written are empty. */
static hga_status ready(const hga_graph *g, interval_lists *l)
{
    return l->start ? HGA_OK : interval_lists_create(hga_graph_nodes(g).n, l);
}

/* Finds the lists that a stage sums: those of its sources, and its rows' own. */
hga_status flow_reads(const hga_program *p, const hga_graph *g, const hga_stage *s, interval_sum *sum,
                      interval_lists *of, flow_sums *out)
{
    hga_id source = flow_source(p, s), own = flow_own(s);
    hga_status st = HGA_OK;
    *out = (flow_sums){.g = g, .sum = sum, .stage = s, .field = &p->field[s->out], .cached = &of[s->out]};
    HGA_TRY(ready(g, &of[s->out]));
    if (source) HGA_TRY(ready(g, &of[source]));
    if (own) HGA_TRY(ready(g, &of[own]));
    if (source) out->from = &of[source];
    if (own) out->own = &of[own];
done:
    return st;
}

/* Replaces of[s->out] by the lists of the field's rows after the stage. */
hga_status flow_forward(const hga_program *p, const hga_graph *g, const hga_stage *s, int by_level, interval_sum *sum,
                        interval_lists *of)
{
    interval_lists new = {0};
    flow_sums w;
    hga_status st = HGA_OK;
    HGA_TRY(flow_reads(p, g, s, sum, of, &w));
    HGA_TRY(interval_lists_create(hga_graph_nodes(g).n, &new));
    w.out = &new, w.by_level = by_level;
    if (flow_in_place(p, s)) w.from = &new;
    HGA_TRY(flow_gather(&w, s->relation, s->order));
    interval_lists_clear(&of[s->out]);
    of[s->out] = new;
    return HGA_OK;
done:
    interval_lists_clear(&new);
    return st;
}
