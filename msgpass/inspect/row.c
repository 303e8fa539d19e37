/* row.c: what one query token attends to, and how much, found backward from its output: the rows of each stage that
   reach it, with their shares in it, and the edges of stages that attend. */
#include "flow.h"
#include "hga_inspect.h"
#include "program_check.h"
#include "row_edges.h"
#include "sort.h"
#include "weigh.h"

/* Nodes, each once, with their shares in the output. */
typedef struct node_set {
    hga_id *id;
    double *share;
    int64_t n, capacity, share_capacity;
    hga_id *index; /* [n_nodes]: 1 + the node's index, 0: not in the set */
} node_set;

typedef struct row_search {
    const hga_program *p;
    const hga_graph *g;
    hga_nodes nodes;
    /* rows of a field, as the stages before the current one leave them, that reach the token */
    node_set requested[HGA_FIELD_SLOTS];
    uint32_t shown;    /* stages whose edges are reported */
    uint32_t followed; /* stages whose sources are followed */
    weighing *weigh;   /* NULL: shares are not requested */
    hga_weight *seen;
    int64_t n_seen, seen_capacity;
} row_search;

/* ---- sets of nodes ---- */

/* Adds node v to the set, or to its share. */
static hga_status set_add(const row_search *s, node_set *set, hga_id v, double share)
{
    hga_status st = HGA_OK;
    if (!set->index) HGA_TRY(hga_new_zero(NULL, s->nodes.n, sizeof *set->index, &set->index));
    if (set->index[v]) {
        set->share[set->index[v] - 1] += share;
        return HGA_OK;
    }
    HGA_TRY(hga_grow(NULL, &set->id, &set->capacity, set->n, set->n + 1, sizeof *set->id));
    HGA_TRY(hga_grow(NULL, &set->share, &set->share_capacity, set->n, set->n + 1, sizeof *set->share));
    set->id[set->n] = v, set->share[set->n] = share;
    set->index[v] = (hga_id)++set->n;
done:
    return st;
}

static void set_clear(const row_search *s, node_set *set)
{
    hga_delete(NULL, set->id, set->capacity, sizeof *set->id);
    hga_delete(NULL, set->share, set->share_capacity, sizeof *set->share);
    hga_delete(NULL, set->index, s->nodes.n, sizeof *set->index);
    *set = (node_set){0};
}

/* ---- reporting ---- */

/* An edge as the caller sees it, with the key tokens under its source. */
static hga_seen seen_edge(const row_search *s, hga_id stage, hga_id v, const row_edge *edge)
{
    const hga_nodes *nodes = &s->nodes;
    hga_id u = edge->src;
    hga_seen e = {.stage = stage, .destination = v, .source = u, .type = edge->type, .key_last = -1};
    hga_id end = nodes->key_first + nodes->n_keys - 1, first = nodes->span_first[u], last = nodes->span_last[u];
    e.level = hga_graph_level(s->g, v), e.source_level = hga_graph_level(s->g, u);
    if (first < nodes->key_first) first = nodes->key_first;
    if (last > end) last = end;
    if (first <= last) e.key_first = first - nodes->key_first, e.key_last = last - nodes->key_first;
    return e;
}

/* One row: its edges, its share in the output, its sources' shares and its own. */
typedef struct row_shares {
    edge_rows edges;
    double share, own;
    double *factor, *score;
} row_shares;

/* Reports the edges of a row, with their weights in the output. */
static hga_status report(row_search *s, hga_id stage, hga_id v, const row_shares *r)
{
    hga_status st = HGA_OK;
    int64_t n = r->edges.n;
    HGA_TRY(hga_grow(NULL, &s->seen, &s->seen_capacity, s->n_seen, s->n_seen + n, sizeof *s->seen));
    for (int64_t e = 0; e < n; e++)
        s->seen[s->n_seen++] = (hga_weight){
            .edge = seen_edge(s, stage, v, &r->edges.edge[e]), .weight = r->factor[e] * r->share, .score = r->score[e]};
done:
    return st;
}

/* ---- one stage, backward ---- */

/* Reads the edges of a row, and with tensors computes their weights in it. */
static hga_status find_shares(row_search *s, hga_id i, hga_id v, row_shares *r)
{
    hga_status st = HGA_OK;
    edges_open(&r->edges, s->g, NULL, s->p->stage[i].relation);
    HGA_TRY(edges_read(&r->edges, v));
    HGA_TRY(hga_new_zero(NULL, r->edges.n, sizeof *r->factor, &r->factor));
    HGA_TRY(hga_new_zero(NULL, r->edges.n, sizeof *r->score, &r->score));
    if (s->weigh) HGA_TRY(weigh_row(s->weigh, i, v, &r->edges, r->factor, r->score, &r->own));
done:
    return st;
}

/* Traces a row that the stage wrote: sources that it reads in place join `after`; others join the requested rows. */
static hga_status trace_written(row_search *s, hga_id i, node_set *after, hga_id v, row_shares *r)
{
    const hga_stage *stage = &s->p->stage[i];
    hga_id source = flow_source(s->p, stage), own = flow_own(stage);
    hga_status st = HGA_OK;
    HGA_TRY(find_shares(s, i, v, r));
    if (s->shown >> i & 1u) HGA_TRY(report(s, i, v, r));
    node_set *before = flow_in_place(s->p, stage) ? after : source ? &s->requested[source] : NULL;
    for (int64_t e = 0; e < r->edges.n && before && s->followed >> i & 1u; e++)
        HGA_TRY(set_add(s, before, r->edges.edge[e].src, r->factor[e] * r->share));
    if (own) HGA_TRY(set_add(s, &s->requested[own], v, r->own * r->share));
done:
    return st;
}

/* Traces one row that reaches the token: as the stage has written it, or, if left unchanged, from before. */
static hga_status trace_row(row_search *s, hga_id i, node_set *after, int64_t k)
{
    const hga_stage *stage = &s->p->stage[i];
    hga_id v = after->id[k];
    row_shares r = {.share = after->share[k]};
    if (flow_keeps(&s->nodes, stage, &s->p->field[stage->out], v))
        return set_add(s, &s->requested[stage->out], v, r.share);
    hga_status st = trace_written(s, i, after, v, &r);
    hga_delete(NULL, r.factor, r.edges.n, sizeof *r.factor);
    hga_delete(NULL, r.score, r.edges.n, sizeof *r.score);
    edges_close(&r.edges);
    return st;
}

/* In place, a row's share is known once all rows that read it have been traced: so levels run against the order of the
   stage. */
static hga_status trace_stage(row_search *s, hga_id i)
{
    const hga_stage *stage = &s->p->stage[i];
    hga_id n_levels = flow_in_place(s->p, stage) ? s->nodes.n_levels : 1;
    hga_status st = HGA_OK;
    node_set after = s->requested[stage->out];
    s->requested[stage->out] = (node_set){0};
    for (hga_id l = 0; l < n_levels; l++) {
        hga_id level = stage->order == HGA_LEVELS_UP ? n_levels - 1 - l : l;
        for (int64_t k = 0; k < after.n; k++)
            if (n_levels == 1 || hga_graph_level(s->g, after.id[k]) == level) HGA_TRY(trace_row(s, i, &after, k));
    }
done:
    set_clear(s, &after);
    return st;
}

/* ---- the whole row ---- */

/* If some stages have scores, their edges are the answer; else every edge on the path, since no single stage tells all.
   Shares are followed down to the inputs. */
static void choose_stages(row_search *s, uint32_t stages)
{
    uint32_t attending = flow_attending(s->p, stages), scores = 0, relations = 0;
    for (hga_id i = 0; i < s->p->n_stages; i++) {
        const hga_stage *stage = &s->p->stage[i];
        if (!(stages >> i & 1u)) continue;
        if (stage->reduce == HGA_SOFTMAX) scores |= UINT32_C(1) << i;
        if (stage->relation >= 0) relations |= UINT32_C(1) << i;
    }
    s->shown = scores ? attending : attending | relations;
    s->followed = scores && !s->weigh ? stages & ~attending : stages;
}

/* Orders by destination, stage, source and type. */
static int weight_before(const hga_weight *a, const hga_weight *b)
{
    const hga_seen *x = &a->edge, *y = &b->edge;
    if (x->destination != y->destination) return x->destination < y->destination;
    if (x->stage != y->stage) return x->stage < y->stage;
    if (x->source != y->source) return x->source < y->source;
    if (x->type != y->type) return x->type < y->type;
    return a->score < b->score;
}

SORT_DEFINE(sort_seen, hga_weight, weight_before)

static hga_status search(row_search *s, hga_id token)
{
    hga_status st = HGA_OK;
    hga_id out = program_bound(s->p, HGA_IO_OUT);
    uint32_t fields = UINT32_C(1) << out, stages = flow_stages(s->p, s->p->n_stages, &fields);
    choose_stages(s, stages);
    HGA_TRY(set_add(s, &s->requested[out], s->nodes.query_first + token, 1));
    for (hga_id i = s->p->n_stages - 1; i >= 0; i--)
        if (stages >> i & 1u) HGA_TRY(trace_stage(s, i));
    sort_seen(s->seen, s->n_seen);
done:
    return st;
}

/* Checks the arguments, and finds what one token's row reads. */
static hga_status begin_search(row_search *s, hga_id token, const void *visit)
{
    hga_status st = HGA_OK;
    if (!visit) return hga_fail(HGA_EINVAL, "row: visit is NULL");
    HGA_TRY(program_check(s->p, s->g));
    s->nodes = hga_graph_nodes(s->g);
    if (token < 0 || token >= s->nodes.n_queries)
        return hga_fail(HGA_EINVAL, "row: no query token %d; there are 0 .. %d", token, s->nodes.n_queries - 1);
    HGA_TRY(search(s, token));
done:
    return st;
}

static void end(row_search *s)
{
    for (hga_id f = 0; f < HGA_FIELD_SLOTS; f++) set_clear(s, &s->requested[f]);
    hga_delete(NULL, s->seen, s->seen_capacity, sizeof *s->seen);
}

hga_status hga_program_row(const hga_program *p, const hga_graph *g, hga_id token, hga_seen_visit visit, void *context)
{
    row_search s = {.p = p, .g = g};
    hga_status st = HGA_OK;
    HGA_TRY(begin_search(&s, token, visit ? "" : NULL));
    for (int64_t i = 0; i < s.n_seen; i++) HGA_TRY(visit(&s.seen[i].edge, context));
done:
    end(&s);
    return st;
}

/* ---- weights ---- */

/* Divides a node's share evenly among the key tokens under it. */
static void spend(const interval *list, int64_t n, double share, double *token_weight)
{
    double tokens = 0;
    for (int64_t i = 0; i < n; i++) tokens += (double)(list[i].last - list[i].first + 1) * (double)list[i].times;
    for (int64_t i = 0; i < n; i++)
        for (hga_id j = list[i].first; j <= list[i].last; j++)
            token_weight[j] += share * (double)list[i].times / tokens;
}

/* Divides every input's shares among the key tokens under its nodes. */
static hga_status spend_all(const row_search *s, double *token_weight)
{
    interval_sum sum = {0};
    interval_lists lists = {0};
    hga_status st = HGA_OK;
    for (hga_id j = 0; j < s->nodes.n_keys; j++) token_weight[j] = 0;
    for (hga_id f = 1; f <= s->p->n_fields; f++) {
        const node_set *set = &s->requested[f];
        if (!program_is_input(s->p->field[f].binding) || !set->n) continue;
        HGA_TRY(flow_start(s->g, &s->p->field[f], -1, &sum, &lists));
        for (int64_t k = 0; k < set->n; k++)
            spend(interval_list(&lists, set->id[k]), lists.size[set->id[k]], set->share[k], token_weight);
        interval_lists_clear(&lists);
    }
done:
    interval_lists_clear(&lists);
    interval_sum_clear(&sum);
    return st;
}

hga_status hga_program_weights(const hga_program *p, const hga_graph *g, const hga_shape *shape, const hga_io *io,
                               hga_id token, hga_id head, hga_weight_visit visit, void *context, double *token_weight)
{
    weighing w = {.p = p, .g = g, .io = io, .head = head};
    row_search s = {.p = p, .g = g, .weigh = &w};
    hga_status st = HGA_OK;
    if (!shape || !io) return hga_fail(HGA_EINVAL, "weights: shape and tensors are needed");
    w.shape = *shape;
    HGA_TRY(weigh_begin(&w));
    HGA_TRY(begin_search(&s, token, visit || token_weight ? "" : NULL));
    for (int64_t i = 0; i < s.n_seen && visit; i++) HGA_TRY(visit(&s.seen[i], context));
    if (token_weight) HGA_TRY(spend_all(&s, token_weight));
done:
    end(&s);
    weigh_end(&w);
    return st;
}
