/* pattern.c: the attention pattern as rectangles. Every way from a key token to an output crosses one edge of an attend
   stage: the key tokens that the edge's source stands for are found by going forwards from the inputs, the query tokens
   that its destination reaches by going backwards from the output, and the edge covers their product. */
#include "hga_inspect.h"
#include "program.h"
#include "sources.h"
#include "intervals.h"

typedef struct pattern {
    const hga_program *p;
    const hga_graph *g;
    hga_graph *turned; /* its transpose, made when a relation is walked backwards */
    hga_nodes nodes;
    hga_patch_visit visit;
    void *context;
    uint32_t needed, cuts;         /* stages that hand on what ends in the output; those whose edges are shown */
    tally key[HGA_FIELD_SLOTS];    /* the key tokens a value stands for */
    tally query[HGA_FIELD_SLOTS];  /* the query tokens that a value reaches */
    tally through[HGA_MAX_STAGES]; /* of each cut, the query tokens that its rows reach */
    tally_sum sum;
} pattern;

/* ---- stages ---- */

/* The field whose lists an edge hands on. A user function that names no value is taken to pass on the first value,
   state or output it may read; 0: nothing. */
static hga_id handed_on(const hga_program *p, const hga_stage *s)
{
    uint32_t fields = program_fields(s, program_rules[program_kind(s)].carry_source);
    for (hga_id f = 1; f <= p->n_fields; f++) {
        hga_width width = p->field[f].width;
        int carries = width == HGA_WIDTH_VALUE || width == HGA_WIDTH_STATE || width == HGA_WIDTH_OUT;
        if (fields ? fields >> f & 1u : program_kind(s) == KIND_USER && carries && f != s->out && s->reads >> f & 1u)
            return f;
    }
    return 0;
}

/* The field whose list a row adds of its own, 0 without. */
static hga_id own_share(const hga_stage *s)
{
    unsigned roles = program_rules[program_kind(s)].carry_own;
    return roles ? program_role(s, (stage_role)__builtin_ctz(roles)) : 0;
}

static int is_in_place(const pattern *c, const hga_stage *s) { return handed_on(c->p, s) == s->out; }

/* The stages that fields `wanted` before stage `end` come from; *wanted grows by what those read. */
static uint32_t stages_behind(const hga_program *p, hga_id end, uint32_t *wanted)
{
    uint32_t stages = 0;
    for (hga_id i = end - 1; i >= 0; i--) {
        const hga_stage *s = &p->stage[i];
        if (!program_rules[program_kind(s)].carries || !(*wanted >> s->out & 1u)) continue;
        hga_id source = handed_on(p, s), own = own_share(s);
        stages |= UINT32_C(1) << i;
        if (source) *wanted |= UINT32_C(1) << source;
        if (own) *wanted |= UINT32_C(1) << own;
    }
    return stages;
}

/* Attention where there is any, else the last step from one field to another. */
static uint32_t choose_cuts(const pattern *c)
{
    uint32_t attends = 0, last = 0;
    for (hga_id i = 0; i < c->p->n_stages; i++) {
        const hga_stage *s = &c->p->stage[i];
        if (!(c->needed >> i & 1u)) continue;
        if (s->reduce == HGA_SOFTMAX) attends |= UINT32_C(1) << i;
        if (handed_on(c->p, s) && !is_in_place(c, s)) last = UINT32_C(1) << i;
    }
    return attends ? attends : last;
}

/* Lists that were never written are empty. */
static hga_status ready(const pattern *c, tally *t) { return t->start ? HGA_OK : tally_create(c->nodes.n, t); }

/* ---- gathering lists over the edges of a stage, either way ---- */

typedef struct gathering {
    pattern *c;
    const tally *from, *own; /* what the other ends hand on; what a row adds of its own, NULL: nothing */
    tally *out;
    const hga_field *field; /* going forwards: the field written, whose other rows stay as `kept` has them */
    const tally *kept;
    const hga_field *only; /* going backwards: other ends that are not rows of this field hand on nothing */
    const hga_id *order;   /* position -> node of the other ends */
    /* position -> the last one up to which single intervals continue each other; NULL: unknown */
    const hga_id *chain;
} gathering;

static hga_id node_at(const hga_id *order, hga_id position) { return order ? order[position] : position; }

static hga_status add_list(pattern *c, const tally *t, hga_id v)
{
    return tally_add(&c->sum, tally_list(t, v), t->size[v]);
}

static hga_status add_node(const gathering *w, hga_id u)
{
    if (w->only && !program_row(&w->c->nodes, w->only->rows, u)) return HGA_OK;
    return add_list(w->c, w->from, u);
}

static hga_status add_span(const gathering *w, reach_span span)
{
    hga_status st = HGA_OK;
    tally_sum *sum = &w->c->sum;
    for (hga_id i = span.first; i <= span.last;) {
        hga_id end = w->chain ? w->chain[i] : i;
        if (end > span.last) end = span.last;
        HGA_TRY(add_node(w, node_at(w->order, i)));
        if (end > i) sum->run[sum->n - 1].last = tally_list(w->from, node_at(w->order, end))->last;
        i = end + 1;
    }
done:
    return st;
}

static hga_status add_ends(const gathering *w, const reach *r)
{
    hga_status st = HGA_OK;
    for (int64_t k = 0; k < r->n_spans; k++) HGA_TRY(add_span(w, r->spans[k]));
    for (int64_t k = 0; k < r->n_nodes; k++) HGA_TRY(add_node(w, r->nodes[k]));
done:
    return st;
}

/* Does the stage leave row v as it was? */
static int is_kept(const pattern *c, const hga_field *out, hga_id v, int has_edges)
{
    int given = program_is_input(out->binding) && program_row(&c->nodes, out->io, v);
    return !program_row(&c->nodes, out->rows, v) || (!has_edges && given);
}

/* Rows that share their ends, and add nothing, share the list. */
static hga_status gather_rows(const reach *r, void *context)
{
    const gathering *w = context;
    pattern *c = w->c;
    hga_status st = HGA_OK;
    int64_t start = 0;
    int32_t size = -1;
    for (hga_id i = 0; i < r->n_rows; i++) {
        hga_id v = node_at(r->row_order, r->row + i);
        if (w->field && is_kept(c, w->field, v, r->n_spans + r->n_nodes > 0)) {
            HGA_TRY(add_list(c, w->kept, v));
            HGA_TRY(tally_put(&c->sum, w->out, v));
            continue;
        }
        if (size < 0) {
            HGA_TRY(add_ends(w, r));
            HGA_TRY(tally_append(&c->sum, w->out, &start, &size));
        }
        w->out->start[v] = start, w->out->size[v] = size;
        if (!w->own || w->own->size[v] == 0) continue;
        HGA_TRY(add_list(c, w->out, v));
        HGA_TRY(add_list(c, w->own, v));
        HGA_TRY(tally_put(&c->sum, w->out, v));
    }
done:
    return st;
}

/* Single intervals of nodes of one level that continue each other, as tokens do, are taken together. */
static hga_status find_chain(const pattern *c, const tally *t, const hga_id *order, hga_id n, hga_id **out)
{
    hga_id *chain = NULL;
    hga_status st = hga_new(NULL, n, sizeof *chain, &chain);
    *out = chain;
    if (st) return st;
    for (hga_id i = n - 1; i >= 0; i--) {
        chain[i] = i;
        if (i + 1 == n) continue;
        hga_id u = node_at(order, i), next = node_at(order, i + 1);
        if (t->size[u] != 1 || t->size[next] != 1 || hga_graph_level(c->g, u) != hga_graph_level(c->g, next)) continue;
        const tally_run *a = tally_list(t, u), *b = tally_list(t, next);
        if (a->times == b->times && a->last + 1 == b->first) chain[i] = chain[i + 1];
    }
    return HGA_OK;
}

/* The order of the sources of a relation; of the tree: node ids. */
static const hga_id *source_order(const hga_graph *g, hga_id relation, hga_id *n)
{
    *n = hga_graph_nodes(g).n;
    if (relation < 0) return NULL;
    hga_relation r = hga_graph_relation(g, relation);
    if (r.src_order) *n = r.n_src_order;
    return r.src_order;
}

/* Gather over a relation of g (the graph, or its transpose). Where `from` is being written itself, nothing is known of
   chains in it. */
static hga_status gather(gathering *w, const hga_graph *g, hga_id relation, hga_order order)
{
    hga_status st = HGA_OK;
    hga_id n, *chain = NULL;
    w->order = source_order(g, relation, &n);
    if (w->from != w->out && !w->only) HGA_TRY(find_chain(w->c, w->from, w->order, n, &chain));
    w->chain = chain;
    HGA_TRY(reach_rows(g, relation, order, gather_rows, w));
done:
    hga_delete(NULL, chain, n, sizeof *chain);
    return st;
}

/* ---- backwards from the output ---- */

/* t[v] += more[v] */
static hga_status add_all(pattern *c, tally *t, const tally *more)
{
    tally sums = {0};
    hga_status st = HGA_OK;
    HGA_TRY(ready(c, t));
    HGA_TRY(tally_create(c->nodes.n, &sums));
    for (hga_id v = 0; v < c->nodes.n; v++) {
        HGA_TRY(add_list(c, t, v));
        HGA_TRY(add_list(c, more, v));
        HGA_TRY(tally_put(&c->sum, &sums, v));
    }
    tally_clear(t);
    *t = sums;
    return HGA_OK;
done:
    tally_clear(&sums);
    return st;
}

/* Which nodes have an in-edge of the stage; *out is [n]. */
static hga_status find_edges(const pattern *c, const hga_stage *s, hga_pos **out)
{
    const hga_nodes *nodes = &c->nodes;
    hga_status st = hga_new_zero(NULL, nodes->n, sizeof **out, out);
    if (st) return st;
    if (s->relation >= 0) hga_graph_degrees(c->g, s->relation, 0, nodes->n, *out);
    for (hga_id v = 0; s->relation < 0 && nodes->parent && v < nodes->n; v++)
        if (nodes->parent[v] >= 0) (*out)[s->relation == HGA_TREE_UP ? nodes->parent[v] : v] = 1;
    return HGA_OK;
}

/* `all` keeps the lists of the rows that the stage writes, *kept gets the others. */
static hga_status split(const pattern *c, const hga_stage *s, tally *all, tally *kept)
{
    const hga_field *out = &c->p->field[s->out];
    hga_pos *n_edges = NULL;
    hga_status st = HGA_OK;
    tally_sum sum = {0};
    HGA_TRY(tally_create(c->nodes.n, kept));
    HGA_TRY(find_edges(c, s, &n_edges));
    for (hga_id v = 0; v < c->nodes.n; v++) {
        if (!is_kept(c, out, v, n_edges[v] > 0)) continue;
        HGA_TRY(tally_add(&sum, tally_list(all, v), all->size[v]));
        HGA_TRY(tally_put(&sum, kept, v));
        all->size[v] = 0;
    }
done:
    tally_sum_clear(&sum);
    hga_delete(NULL, n_edges, c->nodes.n, sizeof *n_edges);
    return st;
}

/* to[u] = own[u] + the lists of the destinations of u's edges. */
static hga_status gather_back(pattern *c, const hga_stage *s, const tally *from, const tally *own, tally *to)
{
    hga_status st = HGA_OK;
    int up = s->relation == HGA_TREE_UP;
    hga_order order = s->order == HGA_FLAT ? HGA_FLAT : s->order == HGA_LEVELS_UP ? HGA_LEVELS_DOWN : HGA_LEVELS_UP;
    gathering w = {.c = c, .from = from, .own = own, .out = to, .only = from == to ? &c->p->field[s->out] : NULL};
    if (s->relation < 0) return gather(&w, c->g, up ? HGA_TREE_DOWN : HGA_TREE_UP, order);
    if (!c->turned) HGA_TRY(hga_graph_transpose(c->g, &c->turned));
    HGA_TRY(gather(&w, c->turned, s->relation, order));
done:
    return st;
}

/* What the rows of a stage reach once it has run: in place, a row also reaches what its destinations reach. Takes
   query[out] away. */
static hga_status take_reached(pattern *c, const hga_stage *s, tally *all)
{
    hga_status st = HGA_OK;
    tally after = c->query[s->out];
    c->query[s->out] = (tally){0};
    *all = after;
    if (!is_in_place(c, s)) return HGA_OK;
    *all = (tally){0};
    HGA_TRY(tally_create(c->nodes.n, all));
    HGA_TRY(gather_back(c, s, all, &after, all));
done:
    tally_clear(&after);
    return st;
}

/* query[.] before stage i, from query[.] after it. */
static hga_status go_back(pattern *c, hga_id i)
{
    const hga_stage *s = &c->p->stage[i];
    hga_id source = handed_on(c->p, s), own = own_share(s);
    tally all = {0}, before = {0};
    hga_status st = HGA_OK;
    HGA_TRY(ready(c, &c->query[s->out]));
    HGA_TRY(take_reached(c, s, &all));
    HGA_TRY(split(c, s, &all, &c->query[s->out]));
    if (own) HGA_TRY(add_all(c, &c->query[own], &all));
    if (c->cuts >> i & 1u) {
        c->through[i] = all;
        return HGA_OK;
    }
    if (source && !is_in_place(c, s)) {
        HGA_TRY(ready(c, &c->query[source]));
        HGA_TRY(tally_create(c->nodes.n, &before));
        HGA_TRY(gather_back(c, s, &all, &c->query[source], &before));
        tally_clear(&c->query[source]);
        c->query[source] = before;
        before = (tally){0};
    }
done:
    tally_clear(&all);
    tally_clear(&before);
    return st;
}

static hga_status start_output(pattern *c)
{
    tally *t = &c->query[program_bound(c->p, HGA_IO_OUT)];
    hga_status st = tally_create(c->nodes.n, t);
    for (hga_id i = 0; !st && i < c->nodes.n_queries; i++) {
        st = tally_add(&c->sum, &(tally_run){i, i, 1}, 1);
        if (!st) st = tally_put(&c->sum, t, c->nodes.query_first + i);
    }
    return st;
}

/* ---- forwards from the inputs ---- */

/* The key tokens of a node that the graph gives as an interval; 0 when it does not. */
static int span_of(const hga_nodes *nodes, hga_id v, tally_run *out)
{
    hga_id first = nodes->span_first[v], last = nodes->span_last[v], end = nodes->key_first + nodes->n_keys - 1;
    if (first > last) return 0;
    first = first > nodes->key_first ? first : nodes->key_first, last = last < end ? last : end;
    *out = (tally_run){first - nodes->key_first, last - nodes->key_first, 1};
    return 1;
}

static hga_status add_children(pattern *c, const tally *t, hga_id v)
{
    const hga_nodes *nodes = &c->nodes;
    hga_status st = HGA_OK;
    if (v < nodes->level_ptr[1] || !nodes->child_ptr) return HGA_OK;
    for (hga_id i = nodes->child_ptr[v - nodes->level_ptr[1]]; i < nodes->child_ptr[v - nodes->level_ptr[1] + 1]; i++)
        HGA_TRY(add_list(c, t, node_at(nodes->child_list, i)));
done:
    return st;
}

/* A value the caller gives on a node stands for the node's tokens: its span, or its children's lists where they fill no
   interval. */
static hga_status start_input(pattern *c, hga_id f)
{
    tally *t = &c->key[f];
    hga_status st = HGA_OK;
    HGA_TRY(tally_create(c->nodes.n, t));
    for (hga_id v = 0; v < c->nodes.n; v++) {
        tally_run span;
        if (!span_of(&c->nodes, v, &span))
            HGA_TRY(add_children(c, t, v));
        else if (span.first <= span.last)
            HGA_TRY(tally_add(&c->sum, &span, 1));
        HGA_TRY(tally_put(&c->sum, t, v));
    }
    for (hga_id v = 0; v < c->nodes.n; v++)
        if (!program_row(&c->nodes, c->p->field[f].io, v)) t->size[v] = 0;
done:
    return st;
}

static hga_status go_forward(pattern *c, const hga_stage *s)
{
    hga_id source = handed_on(c->p, s), own = own_share(s);
    tally nothing = {0}, new = {0};
    hga_status st = HGA_OK;
    HGA_TRY(tally_create(c->nodes.n, &nothing));
    HGA_TRY(tally_create(c->nodes.n, &new));
    HGA_TRY(ready(c, &c->key[s->out]));
    if (source) HGA_TRY(ready(c, &c->key[source]));
    if (own) HGA_TRY(ready(c, &c->key[own]));
    gathering w = {
        .c = c, .out = &new, .field = &c->p->field[s->out], .kept = &c->key[s->out], .own = own ? &c->key[own] : NULL};
    w.from = !source ? &nothing : is_in_place(c, s) ? &new : &c->key[source];
    HGA_TRY(gather(&w, c->g, s->relation, s->order));
    tally_clear(&c->key[s->out]);
    c->key[s->out] = new;
    new = (tally){0};
done:
    tally_clear(&nothing);
    tally_clear(&new);
    return st;
}

/* ---- rectangles ---- */

/* Edges of a cut. Rows and sources are fed one after the other; those that continue each other wait and are shown
   together. */
typedef struct showing {
    pattern *c;
    const tally *query, *key;
    hga_patch patch; /* n_queries 0: no rows wait; n_keys 0: no sources wait */
    hga_pos row_times, key_times;
    const hga_id *chain;
    const reach *r;
} showing;

static hga_status show_patch(showing *w)
{
    if (w->patch.n_keys == 0) return HGA_OK;
    w->patch.times = tally_times(w->row_times, w->key_times);
    hga_status st = w->c->visit(&w->patch, w->c->context);
    w->patch.n_keys = 0;
    return st;
}

static hga_status feed_key(showing *w, tally_run run, hga_id level)
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

static hga_status feed_source(showing *w, hga_id u, hga_id end)
{
    hga_status st = HGA_OK;
    const tally_run *list = tally_list(w->key, u);
    hga_id level = hga_graph_level(w->c->g, u);
    if (end != u && list)
        return feed_key(w, (tally_run){list->first, tally_list(w->key, end)->last, list->times}, level);
    for (int32_t k = 0; k < w->key->size[u]; k++) HGA_TRY(feed_key(w, list[k], level));
done:
    return st;
}

/* The rows that wait, against every source of theirs. */
static hga_status show_rows(showing *w)
{
    const reach *r = w->r;
    hga_status st = HGA_OK;
    if (w->patch.n_queries == 0) return HGA_OK;
    for (int64_t k = 0; k < r->n_spans; k++)
        for (hga_id i = r->spans[k].first; i <= r->spans[k].last;) {
            hga_id end = w->chain[i] < r->spans[k].last ? w->chain[i] : r->spans[k].last;
            HGA_TRY(feed_source(w, node_at(r->source_order, i), node_at(r->source_order, end)));
            i = end + 1;
        }
    for (int64_t k = 0; k < r->n_nodes; k++) HGA_TRY(feed_source(w, r->nodes[k], r->nodes[k]));
    HGA_TRY(show_patch(w));
    w->patch.n_queries = 0;
done:
    return st;
}

static hga_status feed_row(showing *w, tally_run run, hga_id level)
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

static hga_status show_edges(const reach *r, void *context)
{
    showing *w = context;
    hga_status st = HGA_OK;
    w->r = r;
    for (hga_id i = 0; i < r->n_rows; i++) {
        hga_id v = node_at(r->row_order, r->row + i);
        const tally_run *list = tally_list(w->query, v);
        for (int32_t k = 0; k < w->query->size[v]; k++) HGA_TRY(feed_row(w, list[k], hga_graph_level(w->c->g, v)));
    }
    HGA_TRY(show_rows(w));
done:
    return st;
}

static hga_status show_cut(pattern *c, hga_id i)
{
    const hga_stage *s = &c->p->stage[i];
    hga_id source = handed_on(c->p, s), n = 0, *chain = NULL;
    hga_status st = HGA_OK;
    HGA_TRY(ready(c, &c->key[source]));
    const hga_id *order = source_order(c->g, s->relation, &n);
    HGA_TRY(find_chain(c, &c->key[source], order, n, &chain));
    showing w = {.c = c, .query = &c->through[i], .key = &c->key[source], .patch = {.stage = i}, .chain = chain};
    HGA_TRY(reach_rows(c->g, s->relation, HGA_FLAT, show_edges, &w));
    tally_clear(&c->through[i]);
done:
    hga_delete(NULL, chain, n, sizeof *chain);
    return st;
}

/* Input f reaches the output without crossing a cut, as in a program that only passes values up and down the tree:
   every node is its own source. */
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

static hga_status show_inputs(pattern *c, uint32_t fields)
{
    hga_status st = HGA_OK;
    for (hga_id f = 1; f <= c->p->n_fields; f++) {
        int reaches = c->query[f].n_pool > 0;
        if (!program_is_input(c->p->field[f].binding) || !(reaches || fields >> f & 1u)) continue;
        HGA_TRY(start_input(c, f));
        if (reaches) HGA_TRY(show_input(c, f));
    }
done:
    return st;
}

static hga_status show_all(pattern *c)
{
    hga_status st = HGA_OK;
    uint32_t wanted = UINT32_C(1) << program_bound(c->p, HGA_IO_OUT), fields = 0, stages = 0;
    c->needed = stages_behind(c->p, c->p->n_stages, &wanted);
    c->cuts = choose_cuts(c);
    if (!c->needed) return HGA_OK;
    HGA_TRY(start_output(c));
    for (hga_id i = c->p->n_stages - 1; i >= 0; i--)
        if (c->needed >> i & 1u) HGA_TRY(go_back(c, i));
    for (hga_id i = 0; i < c->p->n_stages; i++) {
        if (!(c->cuts >> i & 1u)) continue;
        uint32_t behind = UINT32_C(1) << handed_on(c->p, &c->p->stage[i]);
        stages |= stages_behind(c->p, i, &behind);
        fields |= behind;
    }
    HGA_TRY(show_inputs(c, fields));
    for (hga_id i = 0; i < c->p->n_stages; i++) {
        if (c->cuts >> i & 1u) HGA_TRY(show_cut(c, i));
        if (stages >> i & 1u) HGA_TRY(go_forward(c, &c->p->stage[i]));
    }
done:
    return st;
}

hga_status hga_program_pattern(const hga_program *p, const hga_graph *g, hga_patch_visit visit, void *context)
{
    pattern c = {.p = p, .g = g, .visit = visit, .context = context};
    hga_status st = HGA_OK;
    if (!visit) return hga_fail(HGA_EINVAL, "pattern: nobody to show it to");
    HGA_TRY(program_check(p, g));
    c.nodes = hga_graph_nodes(g);
    HGA_TRY(show_all(&c));
done:
    for (hga_id f = 0; f < HGA_FIELD_SLOTS; f++) tally_clear(&c.key[f]), tally_clear(&c.query[f]);
    for (hga_id i = 0; i < HGA_MAX_STAGES; i++) tally_clear(&c.through[i]);
    tally_sum_clear(&c.sum);
    hga_graph_destroy(c.turned);
    return st;
}
