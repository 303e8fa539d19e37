/* forward.c: from the inputs to the output, stage after stage, without an n x n table. Complete disjoint coverage
   merges into one interval, so lists stay short exactly where hierarchies are sound. The last stage's lists are passed
   on as they are computed. Where it reads what it writes, rows are computed on demand, from the query tokens on, and a
   list is freed as soon as its last reader has read it: memory does not grow with the tokens. */
#include "flow.h"
#include "program_check.h"

enum { STRIPE = 1024 }; /* rows requested together */

typedef struct forward {
    const hga_program *p;
    const hga_graph *g;
    const flow_wish *wish;
    hga_nodes nodes;
    interval_sum sum;
    interval_lists of[HGA_FIELD_SLOTS];
} forward;

/* Nodes [first, first + n) are computed once missing[at] .. missing[end - 1] have been. */
typedef struct demand {
    hga_id first, n;
    int64_t begin, at, end;
} demand;

/* The last stage. */
typedef struct delivery {
    forward *f;
    flow_sums sums;
    interval_sum with_own;
    reach_walk *walk;
    /* where rows read rows; [n] each */
    interval_lists lodged;
    hga_pos *readers; /* number of rows that will still read list v */
    uint8_t *done, *is_missing;
    hga_id *missing; /* of every open demand, the last one's last */
    int64_t n_missing, capacity;
    demand *open;
    int64_t n_open, open_capacity;
} delivery;

/* ---- the last stage ---- */

static hga_status hand_out(const forward *f, const interval *list, int64_t n, int same, hga_id v)
{
    return f->wish->row(list, n, same, v, f->wish->context);
}

static int is_needed(const delivery *d, hga_id v)
{
    return d->done ? !d->done[v] : d->f->wish->by_node || program_row(&d->f->nodes, HGA_ROWS_QUERIES, v);
}

/* Passes a list on, and stores it for rows that will read it. */
static hga_status deliver(delivery *d, const interval *list, int64_t n, int same, hga_id v)
{
    hga_status st = hand_out(d->f, list, n, same, v);
    if (!st && d->readers && d->readers[v] > 0) st = interval_lodge(&d->lodged, v, list, n);
    return st;
}

/* Passes on the sum of a row's sources and its own list. */
static hga_status deliver_with_own(delivery *d, const interval *list, int64_t n, hga_id v)
{
    const interval_lists *own = d->sums.own;
    hga_status st = HGA_OK;
    HGA_TRY(interval_add_list(&d->with_own, list, n));
    HGA_TRY(interval_add_list(&d->with_own, interval_list(own, v), own->size[v]));
    HGA_TRY(interval_take(&d->with_own, &list, &n));
    HGA_TRY(deliver(d, list, n, 0, v));
done:
    return st;
}

/* Notes that `rows` rows have read the node's list; frees it after the last. */
static void let_go(delivery *d, hga_id u, hga_pos rows)
{
    d->readers[u] -= rows;
    if (d->readers[u] <= 0) interval_leave(&d->lodged, u);
}

static void let_sources_go(delivery *d, const reach *r, hga_pos rows)
{
    for (int64_t k = 0; k < r->n_spans; k++)
        for (hga_id i = r->spans[k].first; i <= r->spans[k].last; i++) let_go(d, flow_node(d->sums.order, i), rows);
    for (int64_t k = 0; k < r->n_nodes; k++) let_go(d, r->nodes[k], rows);
}

/* Computes the requested rows of a group; the sum of their sources is computed once. */
static hga_status deliver_rows(const reach *r, void *context)
{
    delivery *d = context;
    const flow_sums *w = &d->sums;
    const interval *list = NULL;
    int64_t n = -1;
    hga_id rows = 0, same = 0;
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < r->n_rows; i++) {
        hga_id v = flow_node(r->row_order, r->row + i);
        if (!is_needed(d, v)) continue;
        rows++;
        if (d->done) d->done[v] = 1;
        if (flow_keeps(&w->nodes, w->stage, w->field, v)) {
            HGA_TRY(deliver(d, interval_list(w->cached, v), w->cached->size[v], 0, v));
            same = 0;
            continue;
        }
        if (n < 0) {
            HGA_TRY(flow_add_sources(w, r));
            HGA_TRY(interval_take(w->sum, &list, &n));
        }
        int alone = !w->own || w->own->size[v] == 0;
        HGA_TRY(alone ? deliver(d, list, n, same, v) : deliver_with_own(d, list, n, v));
        same = alone;
    }
    if (d->readers) let_sources_go(d, r, rows);
done:
    return st;
}

/* ---- on demand ---- */

static hga_status count_readers(const reach *r, void *context)
{
    delivery *d = context;
    for (int64_t k = 0; k < r->n_spans; k++)
        for (hga_id i = r->spans[k].first; i <= r->spans[k].last; i++)
            d->readers[flow_node(d->sums.order, i)] += r->n_rows;
    for (int64_t k = 0; k < r->n_nodes; k++) d->readers[r->nodes[k]] += r->n_rows;
    return HGA_OK;
}

static hga_status ask_for(delivery *d, hga_id u)
{
    if (d->done[u] || d->is_missing[u]) return HGA_OK;
    hga_status st = hga_grow(NULL, &d->missing, &d->capacity, d->n_missing, d->n_missing + 1, sizeof *d->missing);
    if (st) return st;
    d->is_missing[u] = 1;
    d->missing[d->n_missing++] = u;
    return HGA_OK;
}

/* Rows that the stage does not write read nothing, and may then have edges from any level. */
static hga_status find_missing(const reach *r, void *context)
{
    delivery *d = context;
    hga_status st = HGA_OK;
    int requested = 0;
    for (hga_id i = 0; i < r->n_rows && !requested; i++) {
        hga_id v = flow_node(r->row_order, r->row + i);
        requested = !d->done[v] && !flow_keeps(&d->sums.nodes, d->sums.stage, d->sums.field, v);
    }
    if (!requested) return HGA_OK;
    for (int64_t k = 0; k < r->n_spans; k++)
        for (hga_id i = r->spans[k].first; i <= r->spans[k].last; i++) HGA_TRY(ask_for(d, flow_node(d->sums.order, i)));
    for (int64_t k = 0; k < r->n_nodes; k++) HGA_TRY(ask_for(d, r->nodes[k]));
done:
    return st;
}

/* Opens a demand: nodes [first, first + n) wait until their missing sources are computed. */
static hga_status open_demand(delivery *d, hga_id first, hga_id n)
{
    demand x = {first, n, d->n_missing, d->n_missing, 0};
    hga_status st = HGA_OK;
    HGA_TRY(reach_nodes(d->walk, first, n, find_missing, d));
    x.end = d->n_missing;
    for (int64_t i = x.begin; i < x.end; i++) d->is_missing[d->missing[i]] = 0;
    HGA_TRY(hga_grow(NULL, &d->open, &d->open_capacity, d->n_open, d->n_open + 1, sizeof *d->open));
    d->open[d->n_open++] = x;
done:
    return st;
}

/* Number of missing nodes that are contiguous, limited to one stripe. */
static hga_id next_run(const delivery *d, const demand *x)
{
    hga_id run = 1;
    const hga_id *missing = d->missing + x->at;
    while (x->at + run < x->end && missing[run] == missing[0] + run && run < STRIPE) run++;
    return run;
}

/* Computes nodes [first, first + n), after all they read: level by level towards the roots, so that at most as many
   demands are open at once as the tree has levels. Missing nodes are found in the order of the rows, mostly
   contiguous. */
static hga_status meet_demand(delivery *d, hga_id first, hga_id n)
{
    hga_status st = HGA_OK;
    HGA_TRY(open_demand(d, first, n));
    while (d->n_open > 0) {
        demand *x = &d->open[d->n_open - 1];
        if (x->at < x->end) {
            hga_id from = d->missing[x->at], run = next_run(d, x);
            x->at += run;
            HGA_TRY(open_demand(d, from, run));
        } else {
            d->n_open--, d->n_missing = x->begin;
            HGA_TRY(reach_nodes(d->walk, x->first, x->n, deliver_rows, d));
        }
    }
done:
    return st;
}

/* Computes the requested nodes, a stripe at a time, each after its sources. */
static hga_status demand_all(delivery *d, const hga_stage *s)
{
    const forward *f = d->f;
    hga_id n = f->nodes.n, first = f->wish->by_node ? 0 : f->nodes.query_first,
           end = f->wish->by_node ? n : first + f->nodes.n_queries;
    hga_status st = HGA_OK;
    HGA_TRY(hga_new_zero(NULL, n, sizeof *d->readers, &d->readers));
    HGA_TRY(hga_new_zero(NULL, n, 1, &d->done));
    HGA_TRY(hga_new_zero(NULL, n, 1, &d->is_missing));
    HGA_TRY(interval_lists_create(n, &d->lodged));
    HGA_TRY(reach_walk_create(f->g, s->relation, &d->walk));
    HGA_TRY(reach_nodes(d->walk, 0, n, count_readers, d));
    for (; first < end; first += STRIPE) HGA_TRY(meet_demand(d, first, end - first < STRIPE ? end - first : STRIPE));
done:
    hga_delete(NULL, d->missing, d->capacity, sizeof *d->missing);
    hga_delete(NULL, d->open, d->open_capacity, sizeof *d->open);
    hga_delete(NULL, d->readers, n, sizeof *d->readers);
    hga_delete(NULL, d->done, n, 1);
    hga_delete(NULL, d->is_missing, n, 1);
    interval_lists_clear(&d->lodged);
    reach_walk_destroy(d->walk);
    return st;
}

/* Runs the last stage, whose lists are passed on as they are computed. */
static hga_status run_last(forward *f, const hga_stage *s, int by_level)
{
    delivery d = {.f = f, .with_own = {.most = f->sum.most}};
    hga_status st = HGA_OK;
    int in_place = flow_in_place(f->p, s);
    HGA_TRY(flow_reads(f->p, f->g, s, &f->sum, f->of, &d.sums));
    d.sums.by_level = by_level;
    d.sums.out = &d.lodged;
    if (in_place) d.sums.from = &d.lodged;
    HGA_TRY(flow_sums_begin(&d.sums, s->relation));
    HGA_TRY(in_place ? demand_all(&d, s) : reach_rows(f->g, s->relation, s->order, deliver_rows, &d));
done:
    flow_sums_end(&d.sums);
    interval_sum_clear(&d.with_own);
    return st;
}

/* ---- everything ---- */

/* Inputs that reach the output past every attended edge are tagged with the level of their row. */
static void tag_rows(const forward *f, interval_lists *input)
{
    for (hga_id v = 0; v < f->nodes.n; v++)
        for (int32_t k = 0; k < input->size[v]; k++) input->pool[input->start[v] + k].tags = flow_level(f->g, v);
}

/* Computes lists of the inputs, then stage after stage of what reaches the output. */
static hga_status run_stages(forward *f)
{
    hga_id out = program_bound(f->p, HGA_IO_OUT);
    uint32_t fields = UINT32_C(1) << out, stages = flow_stages(f->p, f->p->n_stages, &fields),
             attending = flow_attending(f->p, stages);
    int letters = f->wish->by_node ? (int)f->p->field[out].io : -1;
    hga_status st = HGA_OK;
    for (hga_id i = 1; i <= f->p->n_fields; i++)
        if (program_is_input(f->p->field[i].binding) && fields >> i & 1u) {
            HGA_TRY(flow_start(f->g, &f->p->field[i], letters, &f->sum, &f->of[i]));
            if (f->wish->by_level) tag_rows(f, &f->of[i]);
        }
    for (hga_id i = 0; i < f->p->n_stages; i++)
        if (stages >> i & 1u) {
            const hga_stage *s = &f->p->stage[i];
            int by_level = f->wish->by_level && attending >> i & 1u, is_last = stages >> i == 1;
            HGA_TRY(is_last ? run_last(f, s, by_level) : flow_forward(f->p, f->g, s, by_level, &f->sum, f->of));
        }
    for (hga_id v = 0; v < f->nodes.n && !stages; v++) HGA_TRY(hand_out(f, NULL, 0, 0, v));
done:
    return st;
}

/* Runs the program on sets of keys instead of numbers. */
hga_status flow_rows(const hga_program *p, const hga_graph *g, const flow_wish *wish)
{
    forward f = {.p = p, .g = g, .wish = wish, .sum = {.most = 2}};
    hga_status st = HGA_OK;
    HGA_TRY(program_check(p, g));
    f.nodes = hga_graph_nodes(g);
    HGA_TRY(run_stages(&f));
done:
    for (hga_id i = 0; i < HGA_FIELD_SLOTS; i++) interval_lists_clear(&f.of[i]);
    interval_sum_clear(&f.sum);
    return st;
}
