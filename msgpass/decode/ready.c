/* ready.c: with which token each row of each field is whole: the latest token that reaches it; and with which it is
   read for the last time: that of the latest row that reads it. Rows are computed when they are whole. */
#include "carve.h"
#include "choose.h"
#include "plan.h"
#include "regions.h"
#include "slices.h"
#include "sources.h"

enum { MOST_SPANS = 32 };

/* For each field and node of a program the last token with which its row is read, -1: never. */
typedef struct readers {
    const hga_program *p;
    const hga_graph *g;
    hga_nodes nodes;
    const latest_tokens *ready;
    int32_t *last[HGA_FIELD_SLOTS];
    program_values filled; /* filled by the caller or by a stage: a user's may read rows that are never filled */
    hga_id out;
    /* of the current stage */
    const hga_stage *stage;
    int looks_up;        /* whether it reads the output at its sources */
    const hga_id *order; /* of its sources; NULL: node ids */
    hga_id n_sources;
    int32_t *over[MOST_SPANS]; /* [n_sources]: of positions i .. i + 2^k - 1, to be propagated */
} readers;

static void grow_to(int32_t *x, int32_t to)
{
    if (*x < to) *x = to;
}

/* Notes that all sources of a span are read until `token`, at the two intervals of 2^k sources that cover it. */
static hga_status span_read(readers *r, reach_span s, int32_t token)
{
    hga_status st = HGA_OK;
    int k = 31 - __builtin_clz((unsigned)(s.last - s.first + 1));
    if (!r->over[k]) {
        HGA_TRY(hga_new(NULL, r->n_sources, sizeof(int32_t), &r->over[k]));
        for (hga_id i = 0; i < r->n_sources; i++) r->over[k][i] = -1;
    }
    grow_to(&r->over[k][s.first], token);
    grow_to(&r->over[k][s.last - ((hga_id)1 << k) + 1], token);
done:
    return st;
}

static void output_read(readers *r, hga_id v, int32_t token) { grow_to(&r->last[r->out][v], token); }

static int is_among(const readers *r, uint32_t fields) { return (int)(fields >> r->out & 1); }

/* A visitor of rows with the same sources, which are read when the latest of these rows is whole. */
static hga_status visit(const reach *x, void *context)
{
    readers *r = context;
    hga_status st = HGA_OK;
    int32_t token = -1;
    int lone = x->n_spans == 0 && x->n_nodes == 0;
    r->order = x->source_order;
    for (hga_id i = 0; i < x->n_rows; i++) {
        hga_id v = x->row_order ? x->row_order[x->row + i] : x->row + i;
        if (!program_row(&r->nodes, r->p->field[r->stage->out].rows, v)) continue;
        if (program_keeps_tokens(r->stage) && v < r->nodes.level_ptr[1]) continue;
        int32_t own = r->ready->of[r->stage->out][v];
        grow_to(&token, own);
        if (is_among(r, latest_own_fields(r->stage, lone))) output_read(r, v, own);
    }
    if (token < 0 || !r->looks_up) return st;
    for (int64_t i = 0; i < x->n_spans; i++) HGA_TRY(span_read(r, x->spans[i], token));
    for (int64_t i = 0; i < x->n_nodes; i++) output_read(r, x->nodes[i], token);
done:
    return st;
}

/* Propagates intervals of 2^k positions to their halves. */
static hga_status hand_down(readers *r)
{
    hga_status st = HGA_OK;
    for (int k = MOST_SPANS - 1; k > 0; k--) {
        hga_id half = (hga_id)1 << (k - 1);
        if (!r->over[k]) continue;
        for (hga_id i = 0; i + half < r->n_sources; i++)
            if (r->over[k][i] >= 0) {
                reach_span s = {i, i + half - 1}, t = {i + half, i + 2 * half - 1};
                HGA_TRY(span_read(r, s, r->over[k][i]));
                HGA_TRY(span_read(r, t, r->over[k][i]));
            }
    }
    for (hga_id i = 0; r->over[0] && i < r->n_sources; i++)
        if (r->over[0][i] >= 0) output_read(r, r->order ? r->order[i] : i, r->over[0][i]);
done:
    return st;
}

static void forget_spans(readers *r)
{
    for (int k = 0; k < MOST_SPANS; k++) {
        hga_delete(NULL, r->over[k], r->n_sources, sizeof(int32_t));
        r->over[k] = NULL;
    }
}

/* Notes when the stage reads rows of the output, at its sources or at its own rows. */
static hga_status follow_stage(readers *r, const hga_stage *s)
{
    hga_status st = HGA_OK;
    r->stage = s, r->looks_up = is_among(r, latest_source_fields(s)), r->order = NULL, r->n_sources = r->nodes.n;
    if (!r->looks_up && !is_among(r, latest_own_fields(s, 0) | latest_own_fields(s, 1))) return HGA_OK;
    if (s->relation >= 0) {
        hga_relation rel = hga_graph_relation(r->g, s->relation);
        if (rel.src_order) r->n_sources = rel.n_src_order;
    }
    HGA_TRY(reach_rows(r->g, s->relation, s->order, visit, r));
    HGA_TRY(hand_down(r));
done:
    forget_spans(r);
    return st;
}

static hga_status nobody_reads(readers *r)
{
    hga_status st = HGA_OK;
    for (hga_id f = 1; f <= r->p->n_fields; f++) {
        HGA_TRY(hga_new(NULL, r->nodes.n, sizeof(int32_t), &r->last[f]));
        for (hga_id v = 0; v < r->nodes.n; v++) r->last[f][v] = -1;
    }
done:
    return st;
}

/* Uses only the program's edges for rows of the output that are the caller's: the plan may also read rows there that
   make no difference. */
static hga_status find_output_readers(readers *r)
{
    hga_status st = HGA_OK;
    for (hga_id s = 0; s < r->p->n_stages; s++) HGA_TRY(follow_stage(r, &r->p->stage[s]));
done:
    return st;
}

/* ---- rows that the plan reads ---- */

/* Slices need rows as the plan's phases read them, which may be more than the program's edges say. A job's rows are
   visited from the latest token down: a source keeps the first token noted, and is skipped from then on, so that a
   job's sources cost in proportion to their number, however often they are read. */
typedef struct plan_reads {
    readers *r;
    const hga_plan *plan;
    uint64_t storages;
    int32_t token;
    hga_id *next;              /* [nodes + 1]: of a node that has been read, a later one; of others, themselves */
    hga_id *order, *of_row;    /* [most rows]: rows, the latest token first; their tokens */
    int64_t *begin, most_rows; /* [tokens + 1], by token */
    hga_id n_tokens;
} plan_reads;

static void storage_read(plan_reads *x, hga_id storage, hga_id v)
{
    hga_id f = storage % HGA_FIELD_SLOTS;
    if (f == x->r->out && slice_is_input(x->plan, f, v)) return;
    if (f >= 1 && f <= x->r->p->n_fields) grow_to(&x->r->last[f][v], x->token);
}

static void node_read(plan_reads *x, uint64_t storages, hga_id v)
{
    for (uint64_t set = storages; set; set &= set - 1) storage_read(x, __builtin_ctzll(set), v);
}

/* The first node from v on that has not been read (union-find). */
static hga_id not_read(hga_id *next, hga_id v)
{
    while (next[v] != v) v = next[v] = next[next[v]];
    return v;
}

static void nodes_read(void *context, hga_id first, hga_id last)
{
    plan_reads *x = context;
    for (hga_id v = not_read(x->next, first); v <= last; v = not_read(x->next, v)) {
        node_read(x, x->storages, v);
        x->next[v] = v + 1;
    }
}

static int32_t job_token(const readers *r, const slice_job *job, hga_id v)
{
    int32_t token = 0;
    for (uint32_t set = r->p->stage[job->stage].writes; set; set &= set - 1)
        grow_to(&token, r->ready->of[__builtin_ctz(set)][v]);
    return token;
}

/* Counting sort of the job's rows, the latest token first. */
static void order_rows(plan_reads *x, const slice_job *job)
{
    const phase *ph = &x->plan->phases.list[job->phase];
    int64_t before = 0;
    for (hga_id t = 0; t <= x->n_tokens; t++) x->begin[t] = 0;
    for (hga_id i = 0; i < job->rows; i++) {
        x->of_row[i] = job_token(x->r, job, phase_node(x->plan, ph, i));
        x->begin[x->of_row[i]]++;
    }
    for (hga_id t = x->n_tokens; t >= 0; t--) {
        int64_t n = x->begin[t];
        x->begin[t] = before, before += n;
    }
    for (hga_id i = 0; i < job->rows; i++) x->order[x->begin[x->of_row[i]]++] = i;
}

/* Notes when the rows of a job read their sources and themselves, those of the latest tokens first. */
static void job_reads(plan_reads *x, const slice_job *job)
{
    const phase *ph = &x->plan->phases.list[job->phase];
    order_rows(x, job);
    x->storages = job->of.sources;
    for (hga_id v = 0; x->storages && v <= x->r->nodes.n; v++) x->next[v] = v;
    for (hga_id k = 0; k < job->rows; k++) {
        hga_id i = x->order[k];
        x->token = x->of_row[i];
        if (x->storages) accesses_sources(x->plan, ph, i, 1, nodes_read, x);
        node_read(x, job->of.own, phase_node(x->plan, ph, i));
    }
}

/* Notes when the plan's phases read rows, which may be later than the program's edges say. */
static hga_status add_plan(readers *r, const hga_plan *plan)
{
    hga_status st = HGA_OK;
    plan_reads x = {.r = r, .plan = plan, .n_tokens = r->nodes.n_queries};
    for (int64_t j = 0; j < plan->slices->n_jobs; j++)
        if (plan->slices->job[j].rows > x.most_rows) x.most_rows = plan->slices->job[j].rows;
    HGA_TRY(hga_new(NULL, (int64_t)r->nodes.n + 1, sizeof *x.next, &x.next));
    HGA_TRY(hga_new(NULL, x.most_rows, sizeof *x.order, &x.order));
    HGA_TRY(hga_new(NULL, x.most_rows, sizeof *x.of_row, &x.of_row));
    HGA_TRY(hga_new(NULL, (int64_t)x.n_tokens + 1, sizeof *x.begin, &x.begin));
    for (int64_t j = 0; j < plan->slices->n_jobs; j++) {
        const slice_job *job = &plan->slices->job[j];
        if (plan->phases.list[job->phase].job <= JOB_MERGE) job_reads(&x, job);
    }
done:
    hga_delete(NULL, x.next, (int64_t)r->nodes.n + 1, sizeof *x.next);
    hga_delete(NULL, x.order, x.most_rows, sizeof *x.order);
    hga_delete(NULL, x.of_row, x.most_rows, sizeof *x.of_row);
    hga_delete(NULL, x.begin, (int64_t)x.n_tokens + 1, sizeof *x.begin);
    return st;
}

/* The token with which a row is computed: the first one, where it depends on none. */
static int32_t first_token_of(const readers *r, hga_id f, hga_id v)
{
    const int32_t born = r->ready->of[f][v];
    return born < 0 ? 0 : born;
}

/* ---- jobs whose sources are at hand ---- */

/* A visitor of sources that notes whether one of the rows is among them. */
typedef struct search {
    row_bits rows;
    int found;
} search;

static void look_for(void *context, hga_id first, hga_id last)
{
    search *x = context;
    x->found |= bits_next(&x->rows, first, (int64_t)last + 1) <= last;
}

/* The internal rows of a field that no token after their own reads: no cache holds them. Rows of the last token do not
   count, since nothing is cached with it. */
static void put_passing(const hga_decoder *d, const readers *r, hga_id f, row_bits *to)
{
    for (hga_id v = 0; v < r->nodes.n; v++) {
        const int32_t born = first_token_of(r, f, v), last = r->last[f][v];
        if (last >= 0 && last <= born && born < d->n_tokens - 1 && !slice_is_input(d->plan, f, v)) bits_put(to, v);
    }
}

/* Whether the job reads, at the sources of the output's rows, only rows that a cache holds or is about to hold. Jobs
   that read rounded rows do not count: an execution makes those rows. */
static int has_all_at_hand(const hga_decoder *d, const readers *r, const slice_job *job, search *x)
{
    const phase *ph = &d->plan->phases.list[job->phase];
    if (ph->job > JOB_SPLITS || !(job->fills >> r->out & 1) || !job->of.sources) return 0;
    if (job->of.sources >> r->out & 1 || job->of.sources >> STORAGE_ROUNDED) return 0;
    bits_clear(&x->rows);
    x->found = 0;
    for (uint64_t set = job->of.sources; set; set &= set - 1) put_passing(d, r, __builtin_ctzll(set), &x->rows);
    accesses_sources(d->plan, ph, 0, ph->n, look_for, x);
    return !x->found;
}

/* Finds the jobs for which an append of one token need not visit sources. */
static hga_status find_at_hand(const hga_decoder *d, const readers *r)
{
    carver measure = {0};
    void *memory = NULL;
    bits_carve(&measure, r->nodes.n);
    hga_status st = hga_new_zero(NULL, measure.used, 1, &memory);
    if (st) return st;
    search x = {.rows = bits_carve(&(carver){.base = memory}, r->nodes.n)};
    for (int64_t j = 0; j < d->plan->slices->n_jobs; j++) {
        slice_job *job = &d->plan->slices->job[j];
        job->at_hand = has_all_at_hand(d, r, job, &x);
    }
    hga_delete(NULL, memory, measure.used, 1);
    return HGA_OK;
}

/* ---- which programs can be decoded ---- */

/* No output may depend on a later token, nor be read once later tokens are present. */
static hga_status check_output(const hga_decoder *d, const readers *r)
{
    hga_id out = r->out;
    for (hga_id v = d->io_first; v < d->io_first + d->io_n; v++) {
        int32_t own = r->ready->token[v], sees = r->ready->of[out][v];
        if (sees > own && sees > 0)
            return hga_fail(HGA_EUNSUPPORTED,
                            "decoding needs a causal hierarchy: the output of token %d depends on token %d",
                            own < 0 ? 0 : own, sees);
        if (r->last[out][v] > own && r->last[out][v] > 0)
            return hga_fail(HGA_EUNSUPPORTED, "decoding: token %d reads the output of token %d, which is yours by then",
                            r->last[out][v], own);
    }
    return HGA_OK;
}

/* ---- events ---- */

typedef struct row_at {
    hga_id f, v;
    int is_input;
    int32_t born, last;
} row_at;

/* Of field 0: the next row of a block, which any later token may read. */
static int next_block(const hga_decoder *d, row_at *at)
{
    at->last = d->n_tokens - 1;
    for (; at->is_input < N_BLOCK_KINDS; at->is_input++, at->v = 0) {
        const int64_t n = tokens_of_block(d, at->is_input), born = (at->v + 1) * n - 1;
        if (n == 0 || born >= at->last) continue;
        at->born = (int32_t)born;
        return 1;
    }
    return 0;
}

/* The next row that outlives its token, from *at on. */
static int next_cached(const hga_decoder *d, const readers *r, row_at *at)
{
    if (at->f == 0 && next_block(d, at)) return 1;
    if (at->f == 0) at->f = 1, at->v = 0;
    for (; at->f <= r->p->n_fields; at->f++, at->v = 0) {
        const field_storage *h = &d->plan->fields.storage[at->f];
        for (; at->v < r->nodes.n; at->v++) {
            hga_id v = at->v;
            if (!(r->filled.holds[at->f] >> program_region(&r->nodes, v) & 1)) continue;
            at->is_input = v >= h->io_first && v - h->io_first < h->io_n;
            at->born = first_token_of(r, at->f, v), at->last = r->last[at->f][v];
            if (at->last > at->born) return 1;
        }
    }
    return 0;
}

static hga_status open_events(const hga_decoder *d, row_events *e, int64_t n)
{
    hga_status st = HGA_OK;
    e->n = n;
    HGA_TRY(hga_new(&d->allocator, n, sizeof *e->row, &e->row));
    HGA_TRY(hga_new_zero(&d->allocator, (int64_t)d->n_tokens + 2, sizeof *e->ptr, &e->ptr));
done:
    return st;
}

/* Prefix sums of counts at token + 2: begins at token + 1, which become ends as the tokens' rows are listed. */
static void add_up(int64_t *ptr, hga_id n)
{
    for (hga_id t = 0; t < n; t++) ptr[t + 2] += ptr[t + 1];
}

/* Lists the rows that outlive their token by birth and by death. */
static hga_status list_events(hga_decoder *d, const readers *r)
{
    hga_status st = HGA_OK;
    int64_t n = 0;
    for (row_at at = {0}; next_cached(d, r, &at); at.v++) n++;
    HGA_TRY(open_events(d, &d->born, n));
    HGA_TRY(open_events(d, &d->dies, n));
    for (row_at at = {0}; next_cached(d, r, &at); at.v++) d->born.ptr[at.born + 2]++, d->dies.ptr[at.last + 2]++;
    add_up(d->born.ptr, d->n_tokens), add_up(d->dies.ptr, d->n_tokens);
    for (row_at at = {0}; next_cached(d, r, &at); at.v++) {
        hga_id kind = 2 * at.f + at.is_input;
        d->born.row[d->born.ptr[at.born + 1]++] = (cached_row){at.v, at.last, kind};
        d->dies.row[d->dies.ptr[at.last + 1]++] = (cached_row){at.v, at.born, kind};
    }
done:
    return st;
}

/* Lists rows of tensors by the token with which they are whole. */
static hga_status list_io(hga_decoder *d, const readers *r)
{
    hga_status st = HGA_OK;
    if (d->io_first == r->nodes.query_first && d->io_n == d->n_tokens) return HGA_OK;
    HGA_TRY(hga_new(&d->allocator, d->io_n, sizeof *d->io_node, &d->io_node));
    HGA_TRY(hga_new_zero(&d->allocator, (int64_t)d->n_tokens + 2, sizeof *d->io_ptr, &d->io_ptr));
    for (hga_id v = d->io_first; v < d->io_first + d->io_n; v++)
        d->io_ptr[(r->ready->token[v] < 0 ? 0 : r->ready->token[v]) + 2]++;
    add_up(d->io_ptr, d->n_tokens);
    for (hga_id v = d->io_first; v < d->io_first + d->io_n; v++)
        d->io_node[d->io_ptr[(r->ready->token[v] < 0 ? 0 : r->ready->token[v]) + 1]++] = v;
done:
    return st;
}

/* A row of the output that depends on earlier tokens only is computed with its own token, when it is requested. */
static void request_with_own_tokens(hga_decoder *d, hga_id out)
{
    for (hga_id v = d->io_first; v < d->io_first + d->io_n; v++) grow_to(&d->ready.of[out][v], d->ready.token[v]);
}

hga_status ready_find(hga_decoder *d, const hga_graph *g, const hga_program *p)
{
    hga_status st = HGA_OK;
    readers r = {.p = p, .g = g, .nodes = hga_graph_nodes(g), .ready = &d->ready, .out = program_bound(p, HGA_IO_OUT)};
    program_values_start(p, &r.filled);
    for (hga_id s = 0; s < p->n_stages; s++) program_values_after(p, &p->stage[s], &r.filled);
    HGA_TRY(latest_find(p, g, &d->ready));
    request_with_own_tokens(d, r.out);
    HGA_TRY(nobody_reads(&r));
    HGA_TRY(find_output_readers(&r));
    HGA_TRY(add_plan(&r, d->plan));
    HGA_TRY(find_at_hand(d, &r));
    HGA_TRY(check_output(d, &r));
    HGA_TRY(list_events(d, &r));
    HGA_TRY(list_io(d, &r));
done:
    for (hga_id f = 0; f < HGA_FIELD_SLOTS; f++) hga_delete(NULL, r.last[f], r.nodes.n, sizeof(int32_t));
    return st;
}

static void clear_events(const hga_decoder *d, row_events *e)
{
    hga_delete(&d->allocator, e->row, e->n, sizeof *e->row);
    hga_delete(&d->allocator, e->ptr, (int64_t)d->n_tokens + 2, sizeof *e->ptr);
}

void ready_clear(hga_decoder *d)
{
    latest_clear(&d->ready);
    clear_events(d, &d->born), clear_events(d, &d->dies);
    hga_delete(&d->allocator, d->io_node, d->io_n, sizeof *d->io_node);
    hga_delete(&d->allocator, d->io_ptr, (int64_t)d->n_tokens + 2, sizeof *d->io_ptr);
}
