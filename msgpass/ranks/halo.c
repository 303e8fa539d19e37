/* halo.c: which rows each rank lacks. Every stage's rows are walked once, each as the rank that owns it; sources
   that it does not own are requested of their owners. Requests are intervals of nodes, merged as they come. Long
   rows that all ranks compute are cut into splits as the plan cuts them, each of which one rank computes. */
#include "halo_finding.h"
#include "program_check.h"
#include "regions.h"

#include "bindings.h"
#include "sort.h"
#include "sums.h"

#include <string.h>

/* ---- owners ---- */

/* Cuts ascend from 0 to the last token, and queries and keys are the same tokens. */
static hga_status check_cuts(const hga_nodes *nodes, const hga_id *cuts, hga_id n_ranks)
{
    hga_id tokens = nodes->level_ptr[1];
    if (n_ranks < 1) return hga_fail(HGA_EINVAL, "halo: %d ranks", n_ranks);
    if (cuts[0] != 0) return hga_fail(HGA_EINVAL, "halo: cut 0 is %d, not 0", cuts[0]);
    for (hga_id r = 1; r <= n_ranks; r++)
        if (cuts[r] < cuts[r - 1]) return hga_fail(HGA_EINVAL, "halo: cut %d is %d, below %d", r, cuts[r], cuts[r - 1]);
    if (cuts[n_ranks] != tokens)
        return hga_fail(HGA_EINVAL, "halo: cut %d is %d, of %d tokens", n_ranks, cuts[n_ranks], tokens);
    if (nodes->query_first != nodes->key_first || nodes->n_queries != nodes->n_keys)
        return hga_fail(HGA_EUNSUPPORTED, "halo: queries %d + %d and keys %d + %d are different tokens",
                        nodes->query_first, nodes->n_queries, nodes->key_first, nodes->n_keys);
    return HGA_OK;
}

/* The rank that has both ends of the span; SHARED if none has. */
static hga_id owner_of(const hga_id *rank, hga_id first, hga_id last)
{
    return first <= last && rank[first] == rank[last] ? rank[first] : SHARED;
}

/* Finds the owner of every node. `next` is first the rank of each token, and then what its name says. */
static void find_owners(finding *f, const hga_id *cuts, hga_id n_ranks)
{
    const hga_nodes *nodes = &f->nodes;
    for (hga_id r = 0; r < n_ranks; r++) {
        for (hga_id t = cuts[r]; t < cuts[r + 1]; t++) f->next[t] = r;
        f->out->load[r].n_tokens = cuts[r + 1] - cuts[r];
    }
    for (hga_id v = 0; v < nodes->n; v++) f->owner[v] = owner_of(f->next, nodes->span_first[v], nodes->span_last[v]);
    for (hga_id v = 0; v < nodes->n; v++)
        if (f->owner[v] == SHARED)
            f->out->n_shared++;
        else
            f->out->load[f->owner[v]].n_nodes++;
    for (hga_id l = nodes->n_levels - 1; l >= 0; l--)
        for (hga_id v = nodes->level_ptr[l + 1] - 1, end = v + 1; v >= nodes->level_ptr[l]; v--) {
            if (v + 1 < nodes->level_ptr[l + 1] && f->owner[v] != f->owner[v + 1]) end = v + 1;
            f->next[v] = end;
        }
}

/* ---- the sources of a row ---- */

static hga_pos count_sources(const reach *r)
{
    hga_pos n = r->n_nodes;
    for (int64_t i = 0; i < r->n_spans; i++) n += r->spans[i].last - r->spans[i].first + 1;
    return n;
}

/* ---- rows ---- */

static hga_id node_of(const reach *r, hga_id i) { return r->row_order ? r->row_order[r->row + i] : r->row + i; }

/* Does the stage compute node v's row? */
static int computes(const finding *f, hga_id v)
{
    return program_row(&f->nodes, f->p->field[f->walk.stage->out].rows, v) &&
           !(program_keeps_tokens(f->walk.stage) && v < f->nodes.level_ptr[1]);
}

static int64_t sent_row_bytes(const finding *f, hga_id field)
{
    int64_t columns = program_columns(f->p, &f->shape, field) + (f->p->field[field].width == HGA_WIDTH_STATE);
    return columns * program_heads(f->p, &f->shape, field) * (int64_t)sizeof(float);
}

/* ---- stages ---- */

/* Requests the sources of rows that all have one owner. */
static hga_status find_requests(const reach *r, void *context)
{
    finding *f = context;
    hga_pos sources = count_sources(r);
    hga_id rows = 0;
    for (hga_id i = 0; i < r->n_rows; i++) rows += computes(f, node_of(r, i));
    if (rows == 0 || sources == 0) return HGA_OK;
    if (f->walk.rank == SHARED && halo_cuts(f, r, sources)) return halo_cut_row(f, r, sources);
    *(f->walk.rank == SHARED ? &f->shared_edges : &f->out->load[f->walk.rank].n_edges) += rows * sources;
    hga_id to = f->walk.rank == SHARED ? HGA_EVERY_RANK : f->walk.rank;
    return halo_each_interval(f, r, halo_request_interval, &to);
}

static uint32_t source_reads(const hga_stage *s)
{
    if (program_kind(s) == KIND_USER) return s->reads | program_fields(s, 1u << ROLE_QUERY | 1u << ROLE_KEY);
    return program_fields(s, program_rules[program_kind(s)].reads.source);
}

/* Counts edges where one rank has all nodes and requests nothing: degrees suffice, which are found quicker than
   sources. */
static void count_alone(finding *f)
{
    enum { PART = 1024 };
    hga_pos degree[PART];
    for (hga_id first = 0; first < f->nodes.n; first += PART) {
        hga_id n = f->nodes.n - first < PART ? f->nodes.n - first : PART;
        hga_graph_degrees(f->g, f->walk.stage->relation, first, n, degree);
        for (hga_id i = 0; i < n; i++)
            if (computes(f, first + i)) f->out->load[0].n_edges += degree[i];
    }
}

/* Visits the rows of a stage, those of one owner together. */
static hga_status walk_rows(finding *f)
{
    hga_status st = HGA_OK;
    reach_walk *walk = NULL;
    HGA_TRY(reach_walk_create(f->g, f->walk.stage->relation, &walk));
    for (hga_id v = 0; v < f->nodes.n; v = f->next[v]) {
        f->walk.rank = f->owner[v];
        HGA_TRY(reach_nodes(walk, v, f->next[v] - v, find_requests, f));
    }
done:
    reach_walk_destroy(walk);
    return st;
}

/* Finds what each rank requests of others for one stage; later stages request the fields it writes as it left them. */
static hga_status walk_stage(finding *f, hga_id number)
{
    hga_status st = HGA_OK;
    const hga_stage *s = &f->p->stage[number];
    f->walk.stage = s, f->walk.number = number;
    f->walk.reads = source_reads(s);
    f->walk.rule =
        f->walk.cut_edges ? split_rule_of(f->g, f->p, number, f->walk.cut_edges) : (split_rule){.longer = INT64_MAX};
    uint32_t in_place = f->walk.reads & s->writes;
    for (hga_id i = 1; i <= f->p->n_fields; i++)
        if (in_place >> i & 1u) f->wrote[i] = number;
    if (f->out->n_ranks == 1 && f->out->n_shared == 0 && s->relation >= 0)
        count_alone(f);
    else
        HGA_TRY(walk_rows(f));
    for (hga_id i = 1; i <= f->p->n_fields; i++)
        if (s->writes >> i & 1u) f->wrote[i] = number;
done:
    return st;
}

/* ---- transfers ---- */

/* Has node v a row of the field? User functions read sources without: such rows are not sent. */
static int has_row_to_send(const finding *f, hga_id field, hga_id v)
{
    return program_row(&f->nodes, f->p->field[field].rows, v);
}

/* The end of nodes that have node u's owner and level, and have a row of the field if it has one. */
static hga_id end_of_alike(const finding *f, hga_id field, hga_id u, hga_id last)
{
    hga_id most = f->next[u] <= last ? f->next[u] : last + 1, end = u + 1;
    int has = has_row_to_send(f, field, u);
    while (end < most && has_row_to_send(f, field, end) == has) end++;
    return end;
}

/* Makes transfers of the nodes of a request that other ranks own. */
static hga_status add_transfers(finding *f, const row_request *w, hga_id first, hga_id last)
{
    hga_status st = HGA_OK;
    hga_halo_list *out = f->out;
    for (hga_id u = first, end; u <= last; u = end) {
        end = end_of_alike(f, w->field, u, last);
        if (f->owner[u] == SHARED || f->owner[u] == w->to || !has_row_to_send(f, w->field, u)) continue;
        HGA_TRY(hga_grow(&out->allocator, &out->transfer, &out->capacity[0], out->n_transfers, out->n_transfers + 1,
                         sizeof *out->transfer));
        out->transfer[out->n_transfers++] = (hga_transfer){
            f->owner[u], w->to, w->field, u, end - u, w->wrote, w->reads, (end - u) * sent_row_bytes(f, w->field)};
    }
done:
    return st;
}

/* Makes transfers of the nodes of a request that are not sent to every rank: the requests of every rank, sorted, are
   `every` and those after it. */
static hga_status add_rest(finding *f, const row_request *w, const row_request *every, const row_request *end)
{
    hga_status st = HGA_OK;
    hga_id first = w->first;
    for (; every < end && every->first <= w->last; every++) {
        if (every->last < first) continue;
        if (every->first > first) HGA_TRY(add_transfers(f, w, first, every->first - 1));
        first = every->last + 1;
    }
    if (first <= w->last) HGA_TRY(add_transfers(f, w, first, w->last));
done:
    return st;
}

/* Rows that every rank is sent may be read by one rank before all read them. */
static void read_early(row_request *every, const row_request *end, const row_request *w)
{
    for (; every < end && every->first <= w->last; every++)
        if (every->last >= w->first && w->reads < every->reads) every->reads = w->reads;
}

/* Makes transfers of requests of one field as one stage left it: those of every rank come first. */
static hga_status list_transfers(finding *f)
{
    hga_status st = HGA_OK;
    halo_melt(f);
    if (f->requests.n == 0) return st;
    for (row_request *begin = f->requests.list, *last = begin + f->requests.n, *end, *every; begin < last;
         begin = end) {
        for (end = begin; end < last && end->field == begin->field && end->wrote == begin->wrote;) end++;
        for (every = begin; every < end && every->to == HGA_EVERY_RANK;) every++;
        for (const row_request *w = every; w < end; w++) read_early(begin, every, w);
        for (const row_request *w = begin; w < end; w++) HGA_TRY(add_rest(f, w, begin, w < every ? begin : every));
    }
done:
    return st;
}

/* ---- what each rank does ---- */

/* One message of a stage, or one gather, from every rank to every rank. */
typedef struct message {
    hga_id from, to, stage;
} message;

static int message_before(const message *a, const message *b)
{
    ORDER(from);
    ORDER(to);
    return a->stage < b->stage;
}
SORT_DEFINE(sort_messages, message, message_before)

/* Counts n rows from a rank to another, or to every other one. */
static void note_transfer(hga_halo_list *out, hga_id from, hga_id to, int64_t rows, int64_t bytes)
{
    hga_id first = to == HGA_EVERY_RANK ? 0 : to, last = to == HGA_EVERY_RANK ? out->n_ranks - 1 : to;
    for (hga_id r = first; r <= last; r++) {
        if (r == from) continue;
        out->load[r].rows_in += rows, out->load[r].bytes_in += bytes;
        out->load[from].rows_out += rows, out->load[from].bytes_out += bytes;
    }
}

/* Counts messages, which are sorted; those to every rank come first. */
static void add_messages(hga_halo_list *out, const message *m, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (i > 0 && !message_before(&m[i - 1], &m[i])) continue;
        if (m[i].to == HGA_EVERY_RANK)
            out->n_gathers++;
        else
            out->load[m[i].to].messages_in++, out->load[m[i].from].messages_out++;
    }
}

/* Counts what each rank sends and receives in all, in how many messages, and adds the edges that all ranks compute. */
static hga_status add_traffic(hga_halo_list *out, hga_pos shared_edges)
{
    hga_status st = HGA_OK;
    message *m = NULL;
    int64_t n = 0, most = out->n_transfers + out->n_splits;
    HGA_TRY(hga_new(NULL, most, sizeof *m, &m));
    for (int64_t i = 0; i < out->n_transfers; i++) {
        const hga_transfer *t = &out->transfer[i];
        note_transfer(out, t->from, t->to, t->n, t->bytes);
        m[n++] = (message){t->to == HGA_EVERY_RANK ? 0 : t->from, t->to, t->read_by};
    }
    for (int64_t i = 0; i < out->n_splits; i++) {
        const hga_split *x = &out->split[i];
        if (x->rank == HGA_EVERY_RANK) continue;
        note_transfer(out, x->rank, HGA_EVERY_RANK, 1, x->bytes);
        m[n++] = (message){0, HGA_EVERY_RANK, x->stage};
    }
    sort_messages(m, n);
    add_messages(out, m, n);
    for (hga_id r = 0; r < out->n_ranks; r++) out->load[r].n_edges += shared_edges;
done:
    hga_delete(NULL, m, most, sizeof *m);
    return st;
}

/* ---- all of it ---- */

/* Checks the arguments, and finds the owner of every node. */
static hga_status start(finding *f, const hga_shape *shape, const hga_id *cuts, hga_id n_ranks)
{
    hga_status st = HGA_OK;
    HGA_TRY(program_check(f->p, f->g));
    f->shape = *shape;
    if (!f->shape.n_kv_heads) f->shape.n_kv_heads = f->shape.n_heads;
    if (!f->shape.dim_v) f->shape.dim_v = f->shape.dim;
    if (f->shape.n_heads < 1 || f->shape.dim < 1)
        return hga_fail(HGA_EINVAL, "halo: %d heads of %d", f->shape.n_heads, f->shape.dim);
    f->nodes = hga_graph_nodes(f->g);
    HGA_TRY(check_cuts(&f->nodes, cuts, n_ranks));
    f->out->n_ranks = n_ranks;
    HGA_TRY(hga_new_zero(&f->out->allocator, n_ranks, sizeof *f->out->load, &f->out->load));
    HGA_TRY(hga_new(NULL, f->nodes.n, sizeof *f->owner, &f->owner));
    HGA_TRY(hga_new(NULL, f->nodes.n, sizeof *f->next, &f->next));
    HGA_TRY(hga_new(NULL, n_ranks, sizeof *f->cut.has, &f->cut.has));
    find_owners(f, cuts, n_ranks);
    halo_begin_requests(f), memset(f->wrote, -1, sizeof f->wrote);
done:
    return st;
}

/* Walks all stages for rows that one rank reads and another computes, and lists them as transfers. */
hga_status halo_find(const hga_graph *g, const hga_program *p, const hga_shape *shape, const hga_id *cuts,
                     hga_id n_ranks, hga_pos cut_edges, hga_id *owner, hga_halo_list *out)
{
    hga_status st = HGA_OK;
    finding f = {.g = g, .p = p, .out = out, .walk.cut_edges = cut_edges};
    if (!out) return hga_fail(HGA_EINVAL, "halo: no result");
    memset(out, 0, sizeof *out);
    if (!g || !p || !shape || !cuts)
        return hga_fail(HGA_EINVAL, "halo: no %s", !g ? "graph" : !p ? "program" : !shape ? "shape" : "cuts");
    out->allocator = *hga_graph_allocator(g);
    HGA_TRY(start(&f, shape, cuts, n_ranks));
    for (hga_id s = 0; s < p->n_stages; s++) HGA_TRY(walk_stage(&f, s));
    HGA_TRY(list_transfers(&f));
    HGA_TRY(add_traffic(out, f.shared_edges));
    if (owner) memcpy(owner, f.owner, (size_t)f.nodes.n * sizeof *owner);
done:
    hga_delete(NULL, f.owner, f.nodes.n, sizeof *f.owner);
    hga_delete(NULL, f.next, f.nodes.n, sizeof *f.next);
    hga_delete(NULL, f.requests.list, f.requests.capacity, sizeof *f.requests.list);
    hga_delete(NULL, f.cut.has, n_ranks, sizeof *f.cut.has);
    hga_delete(NULL, f.cut.maker, f.cut.maker_capacity, sizeof *f.cut.maker);
    hga_delete(NULL, f.cut.run_end, f.cut.run_capacity, sizeof *f.cut.run_end);
    if (st != HGA_OK) hga_halo_clear(out);
    return st;
}

hga_status hga_halo(const hga_graph *g, const hga_program *p, const hga_shape *shape, const hga_id *cuts,
                    hga_id n_ranks, hga_halo_list *out)
{
    return halo_find(g, p, shape, cuts, n_ranks, CUT_EDGES, NULL, out);
}

void hga_halo_clear(hga_halo_list *list)
{
    if (!list) return;
    const hga_allocator *a = &list->allocator;
    hga_delete(a, list->transfer, list->capacity[0], sizeof *list->transfer);
    hga_delete(a, list->split, list->capacity[1], sizeof *list->split);
    hga_delete(a, list->load, list->n_ranks, sizeof *list->load);
    memset(list, 0, sizeof *list);
}
