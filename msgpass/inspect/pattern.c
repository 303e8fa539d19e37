/* pattern.c: the attention pattern as rectangles. Every path from a key token to an output crosses one edge of an
   attend stage: the key tokens under the edge's source are found forward from the inputs, the query tokens that its
   destination reaches backward from the output, and the edge covers their product. */
#include "flow.h"
#include "hga_inspect.h"
#include "program_check.h"

typedef struct pattern {
    const hga_program *p;
    const hga_graph *g;
    hga_graph *transposed; /* its transpose, made when a relation is walked backwards */
    hga_nodes nodes;
    hga_patch_visit visit;
    void *context;
    uint32_t needed, cuts;                  /* stages that propagate to the output; those whose edges are shown */
    interval_lists key[HGA_FIELD_SLOTS];    /* the key tokens under a value */
    interval_lists query[HGA_FIELD_SLOTS];  /* the query tokens that a value reaches */
    interval_lists through[HGA_MAX_STAGES]; /* of each cut, the query tokens that its rows reach */
    interval_sum sum;
} pattern;

/* Lists that were never written are empty. */
static hga_status ready(const pattern *c, interval_lists *t)
{
    return t->start ? HGA_OK : interval_lists_create(c->nodes.n, t);
}

/* ---- backward from the output ---- */

/* t[v] += more[v] */
static hga_status add_all(pattern *c, interval_lists *t, const interval_lists *more)
{
    interval_lists sums = {0};
    const interval *list;
    int64_t n;
    hga_status st = HGA_OK;
    HGA_TRY(ready(c, t));
    HGA_TRY(interval_lists_create(c->nodes.n, &sums));
    for (hga_id v = 0; v < c->nodes.n; v++) {
        HGA_TRY(interval_add_list(&c->sum, interval_list(t, v), t->size[v]));
        HGA_TRY(interval_add_list(&c->sum, interval_list(more, v), more->size[v]));
        HGA_TRY(interval_take(&c->sum, &list, &n));
        HGA_TRY(interval_put(&sums, v, list, n));
    }
    interval_lists_clear(t);
    *t = sums;
    return HGA_OK;
done:
    interval_lists_clear(&sums);
    return st;
}

/* Splits lists: `all` retains the rows that the stage writes, *kept gets the others. */
static hga_status split(const pattern *c, const hga_stage *s, interval_lists *all, interval_lists *kept)
{
    const hga_field *out = &c->p->field[s->out];
    hga_status st = HGA_OK;
    HGA_TRY(interval_lists_create(c->nodes.n, kept));
    for (hga_id v = 0; v < c->nodes.n; v++) {
        if (!flow_keeps(&c->nodes, s, out, v)) continue;
        HGA_TRY(interval_put(kept, v, interval_list(all, v), all->size[v]));
        all->size[v] = 0;
    }
done:
    return st;
}

/* to[u] = own[u] + the lists of the destinations of u's edges. */
static hga_status gather_back(pattern *c, const hga_stage *s, const interval_lists *from, const interval_lists *own,
                              interval_lists *to)
{
    hga_status st = HGA_OK;
    int up = s->relation == HGA_TREE_UP;
    hga_order order = s->order == HGA_FLAT ? HGA_FLAT : s->order == HGA_LEVELS_UP ? HGA_LEVELS_DOWN : HGA_LEVELS_UP;
    flow_sums w = {.g = c->g, .sum = &c->sum, .from = from, .own = own, .out = to};
    if (from == to) w.only = &c->p->field[s->out];
    if (s->relation < 0) return flow_gather(&w, up ? HGA_TREE_DOWN : HGA_TREE_UP, order);
    if (!c->transposed) HGA_TRY(hga_graph_transpose(c->g, &c->transposed));
    w.g = c->transposed;
    HGA_TRY(flow_gather(&w, s->relation, order));
done:
    return st;
}

/* The lists of a stage's rows after it has run: in place, a row also reaches what its destinations reach. Empties
   query[out]. */
static hga_status take_reached(pattern *c, const hga_stage *s, interval_lists *all)
{
    hga_status st = HGA_OK;
    interval_lists after = c->query[s->out];
    c->query[s->out] = (interval_lists){0};
    *all = after;
    if (!flow_in_place(c->p, s)) return HGA_OK;
    *all = (interval_lists){0};
    HGA_TRY(interval_lists_create(c->nodes.n, all));
    HGA_TRY(gather_back(c, s, all, &after, all));
done:
    interval_lists_clear(&after);
    return st;
}

/* Computes query[.] before stage i from query[.] after it. */
static hga_status go_back(pattern *c, hga_id i)
{
    const hga_stage *s = &c->p->stage[i];
    hga_id source = flow_source(c->p, s), own = flow_own(s);
    interval_lists all = {0}, before = {0};
    hga_status st = HGA_OK;
    HGA_TRY(ready(c, &c->query[s->out]));
    HGA_TRY(take_reached(c, s, &all));
    HGA_TRY(split(c, s, &all, &c->query[s->out]));
    if (own) HGA_TRY(add_all(c, &c->query[own], &all));
    if (c->cuts >> i & 1u) {
        c->through[i] = all;
        return HGA_OK;
    }
    if (source && !flow_in_place(c->p, s)) {
        HGA_TRY(ready(c, &c->query[source]));
        HGA_TRY(interval_lists_create(c->nodes.n, &before));
        HGA_TRY(gather_back(c, s, &all, &c->query[source], &before));
        interval_lists_clear(&c->query[source]);
        c->query[source] = before;
        before = (interval_lists){0};
    }
done:
    interval_lists_clear(&all);
    interval_lists_clear(&before);
    return st;
}

static hga_status start_output(pattern *c)
{
    interval_lists *t = &c->query[program_bound(c->p, HGA_IO_OUT)];
    hga_status st = interval_lists_create(c->nodes.n, t);
    for (hga_id i = 0; !st && i < c->nodes.n_queries; i++) {
        st = interval_put(t, c->nodes.query_first + i, &(interval){.first = i, .last = i, .times = 1}, 1);
    }
    return st;
}

/* ---- rectangles ---- */

/* Edges of a cut. Rows and sources are visited in order; those that continue each other are collected and shown
   together. */
typedef struct showing {
    pattern *c;
    const interval_lists *query, *key;
    hga_patch patch; /* n_queries 0: no rows wait; n_keys 0: no sources wait */
    hga_pos row_times, key_times;
    const hga_id *chain;
    const reach *r;
} showing;

static hga_status show_patch(showing *w)
{
    if (w->patch.n_keys == 0) return HGA_OK;
    w->patch.times = interval_times(w->row_times, w->key_times);
    hga_status st = w->c->visit(&w->patch, w->c->context);
    w->patch.n_keys = 0;
    return st;
}

/* Adds keys that continue the patch; else shows the patch first. */
static hga_status feed_key(showing *w, interval run, hga_id level)
{
    hga_patch *p = &w->patch;
    hga_id n = run.last - run.first + 1;
    if (p->n_keys > 0 && p->key + p->n_keys == run.first && p->source_level == level && w->key_times == run.times) {
        p->n_keys += n;
        return HGA_OK;
    }
    hga_status st = show_patch(w);
    p->key = run.first, p->n_keys = n, p->source_level = level, w->key_times = run.times;
    return st;
}

/* Adds the key tokens of source u, or of a chain of sources that ends with `end`. */
static hga_status feed_source(showing *w, hga_id u, hga_id end)
{
    hga_status st = HGA_OK;
    const interval *list = interval_list(w->key, u);
    hga_id level = hga_graph_level(w->c->g, u);
    if (end != u && list)
        return feed_key(w, (interval){list->first, interval_list(w->key, end)->last, list->times, 0}, level);
    for (int32_t k = 0; k < w->key->size[u]; k++) HGA_TRY(feed_key(w, list[k], level));
done:
    return st;
}

/* Shows the collected rows against all of their sources. */
static hga_status show_rows(showing *w)
{
    const reach *r = w->r;
    hga_status st = HGA_OK;
    if (w->patch.n_queries == 0) return HGA_OK;
    for (int64_t k = 0; k < r->n_spans; k++)
        for (hga_id i = r->spans[k].first; i <= r->spans[k].last;) {
            hga_id end = w->chain[i] < r->spans[k].last ? w->chain[i] : r->spans[k].last;
            HGA_TRY(feed_source(w, flow_node(r->source_order, i), flow_node(r->source_order, end)));
            i = end + 1;
        }
    for (int64_t k = 0; k < r->n_nodes; k++) HGA_TRY(feed_source(w, r->nodes[k], r->nodes[k]));
    HGA_TRY(show_patch(w));
    w->patch.n_queries = 0;
done:
    return st;
}

/* Collects queries that continue the collected ones; else shows these first. */
static hga_status feed_row(showing *w, interval run, hga_id level)
{
    hga_patch *p = &w->patch;
    hga_id n = run.last - run.first + 1;
    if (p->n_queries > 0 && p->query + p->n_queries == run.first && p->level == level && w->row_times == run.times) {
        p->n_queries += n;
        return HGA_OK;
    }
    hga_status st = show_rows(w);
    p->query = run.first, p->n_queries = n, p->level = level, w->row_times = run.times;
    return st;
}

/* A visitor of rows with the same sources: shows all query tokens that they reach against these sources. */
static hga_status show_edges(const reach *r, void *context)
{
    showing *w = context;
    hga_status st = HGA_OK;
    w->r = r;
    for (hga_id i = 0; i < r->n_rows; i++) {
        hga_id v = flow_node(r->row_order, r->row + i);
        const interval *list = interval_list(w->query, v);
        for (int32_t k = 0; k < w->query->size[v]; k++) HGA_TRY(feed_row(w, list[k], hga_graph_level(w->c->g, v)));
    }
    HGA_TRY(show_rows(w));
done:
    return st;
}

/* Shows all patches of one stage that attends. */
static hga_status show_cut(pattern *c, hga_id i)
{
    const hga_stage *s = &c->p->stage[i];
    hga_id source = flow_source(c->p, s), n = 0, *chain = NULL;
    hga_status st = HGA_OK;
    HGA_TRY(ready(c, &c->key[source]));
    const hga_id *order = flow_source_order(c->g, s->relation, &n);
    HGA_TRY(flow_chain(c->g, &c->key[source], order, n, 1, &chain));
    showing w = {.c = c, .query = &c->through[i], .key = &c->key[source], .patch = {.stage = i}, .chain = chain};
    HGA_TRY(reach_rows(c->g, s->relation, HGA_FLAT, show_edges, &w));
    interval_lists_clear(&c->through[i]);
done:
    hga_delete(NULL, chain, n, sizeof *chain);
    return st;
}

/* Shows input f, which reaches the output without crossing a cut, as in a program that only passes values up and down
   the tree: every node is its own source. */
static hga_status show_input(pattern *c, hga_id f)
{
    hga_status st = HGA_OK;
    showing w = {.c = c, .query = &c->query[f], .key = &c->key[f], .patch = {.stage = __builtin_ctz(c->needed)}};
    for (hga_id v = 0; v < c->nodes.n; v++) {
        reach r = {.row = v, .n_rows = 1, .nodes = &v, .n_nodes = 1};
        HGA_TRY(show_edges(&r, &w));
    }
done:
    return st;
}

/* ---- everything ---- */

/* Makes the lists of the inputs that reach cuts, and shows inputs that reach the output past all cuts. */
static hga_status show_inputs(pattern *c, uint32_t fields)
{
    hga_status st = HGA_OK;
    for (hga_id f = 1; f <= c->p->n_fields; f++) {
        int reaches = c->query[f].n_pool > 0;
        if (!program_is_input(c->p->field[f].binding) || !(reaches || fields >> f & 1u)) continue;
        HGA_TRY(flow_start(c->g, &c->p->field[f], -1, &c->sum, &c->key[f]));
        if (reaches) HGA_TRY(show_input(c, f));
    }
done:
    return st;
}

/* Backward to find the queries that each cut reaches, then forward to find its keys and show both. */
static hga_status show_all(pattern *c)
{
    hga_status st = HGA_OK;
    uint32_t requested = UINT32_C(1) << program_bound(c->p, HGA_IO_OUT), fields = 0, stages = 0;
    c->needed = flow_stages(c->p, c->p->n_stages, &requested);
    c->cuts = flow_attending(c->p, c->needed);
    if (!c->needed) return HGA_OK;
    HGA_TRY(start_output(c));
    for (hga_id i = c->p->n_stages - 1; i >= 0; i--)
        if (c->needed >> i & 1u) HGA_TRY(go_back(c, i));
    for (hga_id i = 0; i < c->p->n_stages; i++) {
        if (!(c->cuts >> i & 1u)) continue;
        uint32_t behind = UINT32_C(1) << flow_source(c->p, &c->p->stage[i]);
        stages |= flow_stages(c->p, i, &behind);
        fields |= behind;
    }
    HGA_TRY(show_inputs(c, fields));
    for (hga_id i = 0; i < c->p->n_stages; i++) {
        if (c->cuts >> i & 1u) HGA_TRY(show_cut(c, i));
        if (stages >> i & 1u) HGA_TRY(flow_forward(c->p, c->g, &c->p->stage[i], 0, &c->sum, c->key));
    }
done:
    return st;
}

hga_status hga_program_pattern(const hga_program *p, const hga_graph *g, hga_patch_visit visit, void *context)
{
    pattern c = {.p = p, .g = g, .visit = visit, .context = context};
    hga_status st = HGA_OK;
    if (!visit) return hga_fail(HGA_EINVAL, "pattern: visit is NULL");
    HGA_TRY(program_check(p, g));
    c.nodes = hga_graph_nodes(g);
    HGA_TRY(show_all(&c));
done:
    for (hga_id f = 0; f < HGA_FIELD_SLOTS; f++) interval_lists_clear(&c.key[f]), interval_lists_clear(&c.query[f]);
    for (hga_id i = 0; i < HGA_MAX_STAGES; i++) interval_lists_clear(&c.through[i]);
    interval_sum_clear(&c.sum);
    hga_graph_destroy(c.transposed);
    return st;
}
