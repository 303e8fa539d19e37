/* row.c: what one query token attends to, found backwards from its output: the rows of each stage that reach it, and
   the edges of those that attend. */
#include "flow.h"
#include "hga_inspect.h"

#include <stdlib.h>

/* Nodes, each once. */
typedef struct node_set {
    hga_id *id;
    int64_t n, room;
    uint8_t *has; /* [n_nodes] */
} node_set;

typedef struct row_search {
    const hga_program *p;
    const hga_graph *g;
    hga_nodes nodes;
    /* rows of a field, as the stages before the one at hand leave them, that reach the token */
    node_set wanted[HGA_FIELD_SLOTS];
    uint32_t shown;    /* stages whose edges are reported */
    uint32_t followed; /* stages whose sources are looked at further */
    hga_seen *seen;
    int64_t n_seen, seen_room;
} row_search;

/* ---- sets of nodes ---- */

static hga_status set_add(const row_search *s, node_set *set, hga_id v)
{
    hga_status st = HGA_OK;
    if (!set->has) HGA_TRY(hga_new_zero(NULL, s->nodes.n, 1, &set->has));
    if (set->has[v]) return HGA_OK;
    HGA_TRY(hga_grow(NULL, &set->id, &set->room, set->n, set->n + 1, sizeof *set->id));
    set->has[v] = 1;
    set->id[set->n++] = v;
done:
    return st;
}

static void set_clear(const row_search *s, node_set *set)
{
    hga_delete(NULL, set->id, set->room, sizeof *set->id);
    hga_delete(NULL, set->has, s->nodes.n, 1);
    *set = (node_set){0};
}

/* ---- the edges of one row ---- */

static hga_status row_of_tree(const row_search *s, hga_id relation, hga_id v, hga_csr *out)
{
    const hga_nodes *nodes = &s->nodes;
    hga_status st = HGA_OK;
    hga_id tokens = nodes->level_ptr[1], parent = nodes->parent ? nodes->parent[v] : -1;
    int up = relation == HGA_TREE_UP && v >= tokens && nodes->child_ptr;
    hga_id first = up ? nodes->child_ptr[v - tokens] : 0,
           n = up ? nodes->child_ptr[v - tokens + 1] - first : relation == HGA_TREE_DOWN && parent >= 0;
    *out = (hga_csr){.first = v, .n = 1};
    HGA_TRY(hga_new_zero(NULL, 2, sizeof *out->ptr, &out->ptr));
    HGA_TRY(hga_new(NULL, n, sizeof *out->src, &out->src));
    out->ptr[1] = n;
    for (hga_id i = 0; i < n; i++)
        out->src[i] = !up ? parent : nodes->child_list ? nodes->child_list[first + i] : first + i;
done:
    return st;
}

static void clear_row(hga_id relation, hga_csr *row)
{
    if (relation >= 0) {
        hga_csr_clear(row);
        return;
    }
    hga_delete(NULL, row->src, row->ptr ? row->ptr[1] : 0, sizeof *row->src);
    hga_delete(NULL, row->ptr, 2, sizeof *row->ptr);
}

/* ---- reporting ---- */

static hga_seen describe(const row_search *s, hga_id stage, hga_id v, hga_id u, int32_t type)
{
    const hga_nodes *nodes = &s->nodes;
    hga_seen e = {.stage = stage, .destination = v, .source = u, .type = type, .key_last = -1};
    hga_id end = nodes->key_first + nodes->n_keys - 1, first = nodes->span_first[u], last = nodes->span_last[u];
    e.level = hga_graph_level(s->g, v), e.source_level = hga_graph_level(s->g, u);
    if (first < nodes->key_first) first = nodes->key_first;
    if (last > end) last = end;
    if (first <= last) e.key_first = first - nodes->key_first, e.key_last = last - nodes->key_first;
    return e;
}

static hga_status report(row_search *s, hga_id stage, hga_id v, const hga_csr *row)
{
    hga_status st = HGA_OK;
    int64_t n = row->ptr[1];
    HGA_TRY(hga_grow(NULL, &s->seen, &s->seen_room, s->n_seen, s->n_seen + n, sizeof *s->seen));
    for (int64_t i = 0; i < n; i++) s->seen[s->n_seen++] = describe(s, stage, v, row->src[i], row->type[i]);
done:
    return st;
}

/* ---- one stage, backwards ---- */

/* Rows of `after` reach the token. What the stage reads in place joins them; what it reads as it was before joins the
   wanted rows. */
static hga_status trace_row(row_search *s, hga_id i, node_set *after, hga_id v)
{
    const hga_stage *stage = &s->p->stage[i];
    hga_id source = flow_source(s->p, stage), own = flow_own(stage);
    hga_csr row = {0};
    hga_status st = HGA_OK;
    if (stage->relation >= 0)
        HGA_TRY(hga_graph_rows(s->g, stage->relation, v, 1, &row));
    else
        HGA_TRY(row_of_tree(s, stage->relation, v, &row));
    if (flow_keeps(&s->nodes, &s->p->field[stage->out], v, row.ptr[1] > 0)) {
        HGA_TRY(set_add(s, &s->wanted[stage->out], v));
        goto done;
    }
    if (s->shown >> i & 1u) HGA_TRY(report(s, i, v, &row));
    node_set *before = flow_in_place(s->p, stage) ? after : source ? &s->wanted[source] : NULL;
    for (int64_t e = 0; e < row.ptr[1] && before && s->followed >> i & 1u; e++) HGA_TRY(set_add(s, before, row.src[e]));
    if (own) HGA_TRY(set_add(s, &s->wanted[own], v));
done:
    clear_row(stage->relation, &row);
    return st;
}

static hga_status trace_stage(row_search *s, hga_id i)
{
    hga_id out = s->p->stage[i].out;
    hga_status st = HGA_OK;
    node_set after = s->wanted[out];
    s->wanted[out] = (node_set){0};
    for (int64_t k = 0; k < after.n; k++) HGA_TRY(trace_row(s, i, &after, after.id[k]));
done:
    set_clear(s, &after);
    return st;
}

/* ---- the whole row ---- */

/* Where something is attended to by scores, those edges are the answer; else every edge on the way is, for no one of
   them tells all. */
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
    s->followed = scores ? stages & ~attending : stages;
}

static int by_destination(const void *a, const void *b)
{
    const hga_seen *x = a, *y = b;
    if (x->destination != y->destination) return x->destination < y->destination ? -1 : 1;
    if (x->stage != y->stage) return x->stage < y->stage ? -1 : 1;
    if (x->source != y->source) return x->source < y->source ? -1 : 1;
    return (x->type > y->type) - (x->type < y->type);
}

static hga_status search(row_search *s, hga_id token)
{
    hga_status st = HGA_OK;
    hga_id out = program_bound(s->p, HGA_IO_OUT);
    uint32_t fields = UINT32_C(1) << out, stages = flow_stages(s->p, s->p->n_stages, &fields);
    choose_stages(s, stages);
    HGA_TRY(set_add(s, &s->wanted[out], s->nodes.query_first + token));
    for (hga_id i = s->p->n_stages - 1; i >= 0; i--)
        if (stages >> i & 1u) HGA_TRY(trace_stage(s, i));
    if (s->n_seen) qsort(s->seen, (size_t)s->n_seen, sizeof *s->seen, by_destination);
done:
    return st;
}

hga_status hga_program_row(const hga_program *p, const hga_graph *g, hga_id token, hga_seen_visit visit, void *context)
{
    row_search s = {.p = p, .g = g};
    hga_status st = HGA_OK;
    if (!visit) return hga_fail(HGA_EINVAL, "row: nobody to tell");
    HGA_TRY(program_check(p, g));
    s.nodes = hga_graph_nodes(g);
    if (token < 0 || token >= s.nodes.n_queries)
        return hga_fail(HGA_EINVAL, "row: token %d of %d query tokens", token, s.nodes.n_queries);
    HGA_TRY(search(&s, token));
    for (int64_t i = 0; i < s.n_seen; i++) HGA_TRY(visit(&s.seen[i], context));
done:
    for (hga_id f = 0; f < HGA_FIELD_SLOTS; f++) set_clear(&s, &s.wanted[f]);
    hga_delete(NULL, s.seen, s.seen_room, sizeof *s.seen);
    return st;
}
