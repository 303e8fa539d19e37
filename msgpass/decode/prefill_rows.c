/* prefill_rows.c: which rows of a prompt are sent home: those that the cache holds, and those of other ranks that rows
   computed at home read. A field's rows are computed by the ranks that have the tokens under them, unless they depend
   on tensors of other ranks as well. */
#include "carve.h"
#include "decoder.h"
#include "plan.h"
#include "prefill.h"

/* ---- owners ---- */

enum { NO_OWNER = -1 };

/* The rank that has the token, by its cuts; NO_OWNER for one after the prompt. */
static hga_id owner_of_token(const prefill *x, hga_id token)
{
    hga_id first = 0, end = x->call->exchange->n_ranks;
    if (token >= x->n) return NO_OWNER;
    while (end - first > 1) {
        hga_id middle = first + (end - first) / 2;
        if (token < x->call->cuts[middle])
            end = middle;
        else
            first = middle;
    }
    return first;
}

hga_id prefill_owner(const prefill *x, hga_id kind, hga_id v)
{
    const hga_nodes *nodes = &x->d->plan->nodes;
    if (kind_is_input(kind)) return owner_of_token(x, x->d->ready.of[field_of_kind(kind)][v]);
    if (nodes->span_first[v] > nodes->span_last[v]) return NO_OWNER;
    hga_id first = owner_of_token(x, nodes->span_first[v]);
    return first == owner_of_token(x, nodes->span_last[v]) ? first : NO_OWNER;
}

static int is_made_by_ranks(const prefill *x, hga_id field)
{
    return x->slice.there[field].n > 0 && !(x->made_at_home >> field & 1u);
}

static int is_sent(const prefill *x, hga_id kind, hga_id v)
{
    hga_id owner = prefill_owner(x, kind, v);
    return owner != NO_OWNER && owner != x->home && (kind_is_input(kind) || is_made_by_ranks(x, field_of_kind(kind)));
}

static hga_id kind_of(const prefill *x, hga_id field, hga_id v)
{
    return 2 * field + (slice_is_input(x->d->plan, field, v) ? 1 : 0);
}

/* ---- sources of a slice ---- */

typedef void (*row_reader)(prefill *x, hga_id field, hga_id v);

typedef struct reading {
    prefill *x;
    row_reader each;
    uint64_t storages;
} reading;

static void read_interval(void *context, hga_id first, hga_id last)
{
    reading *r = context;
    uint64_t fields = r->storages & ((UINT64_C(1) << STORAGE_ROUNDED) - 1);
    for (; fields; fields &= fields - 1)
        for (hga_id v = first; v <= last; v++) r->each(r->x, __builtin_ctzll(fields), v);
}

static void read_row(prefill *x, const slice_job *job, hga_id i, row_reader each)
{
    const hga_plan *plan = x->d->plan;
    const phase *ph = &plan->phases.list[job->phase];
    hga_id v = phase_node(plan, ph, i);
    reading sources = {x, each, job->of.sources}, own = {x, each, job->of.own};
    read_interval(&own, v, v);
    if (ph->job <= JOB_SPLITS && sources.storages) accesses_sources(plan, ph, i, 1, read_interval, &sources);
}

/* Finds the slice's rows and calls `each` with the rows that they read. */
static void read_slice(prefill *x, row_reader each)
{
    const struct slice_plan *p = x->d->plan->slices;
    slice_find(x->d->plan, &x->slice);
    for (int64_t j = 0; j < p->n_jobs; j++) {
        FOR_RUNS(&x->slice.run[j], i, end, 0, p->job[j].rows)
        {
            for (int64_t k = i; k < end; k++) read_row(x, &p->job[j], (hga_id)k, each);
        }
    }
}

/* ---- rows sent home ---- */

static void lack(prefill *x, hga_id field, hga_id v)
{
    hga_id kind = kind_of(x, field, v);
    if (x->d->row_bytes[kind] && is_sent(x, kind, v)) bits_put(&x->lacks[kind], v);
}

/* Finds the cached rows that are sent, and other ranks' rows that rows computed at home read. */
static void find_lacking(prefill *x)
{
    const hga_decoder *d = x->d;
    for (hga_id f = 1; f <= d->plan->program.n_fields; f++)
        for (hga_id v = 0; x->slice.there[f].n && v < d->plan->nodes.n; v++)
            if (!slice_is_input(d->plan, f, v) && is_sent(x, 2 * f, v)) bits_put(&x->slice.there[f], v);
    slice_begin(d->plan, &x->slice);
    for (int64_t i = 0; i < d->born.ptr[x->n]; i++) {
        const cached_row *r = &d->born.row[i];
        if (kind_stands(r->kind) || !is_cached(d, r, x->n)) continue;
        if (is_sent(x, r->kind, r->node))
            bits_put(&x->lacks[r->kind], r->node);
        else if (!kind_is_input(r->kind))
            slice_request_row(&x->slice, field_of_kind(r->kind), r->node);
    }
    read_slice(x, lack);
}

static void look_for_foreign(prefill *x, hga_id field, hga_id v)
{
    if (slice_is_input(x->d->plan, field, v) && prefill_owner(x, 2 * field + 1, v) != x->reader)
        x->depends_on_others = 1;
}

static void clear_there(prefill *x)
{
    for (hga_id f = 1; f <= x->d->plan->program.n_fields; f++)
        if (x->slice.there[f].n) bits_clear(&x->slice.there[f]);
}

/* Whether rows of the field that the rank would send depend on tensors of other ranks. */
static int hang_on_others(prefill *x, hga_id f, hga_id rank)
{
    const row_bits *rows = &x->lacks[2 * f];
    x->reader = rank, x->depends_on_others = 0;
    clear_there(x);
    slice_begin(x->d->plan, &x->slice);
    FOR_RUNS(rows, v, end, 0, rows->n)
    {
        for (int64_t u = v; u < end; u++)
            if (prefill_owner(x, 2 * f, (hga_id)u) == rank) slice_request_row(&x->slice, f, (hga_id)u);
    }
    read_slice(x, look_for_foreign);
    return x->depends_on_others;
}

/* A field is computed by ranks until one of their rows is found to depend on others, and then at home, from its rows'
   sources. Returns whether any field changed. */
static int find_made_at_home(prefill *x)
{
    uint32_t before = x->made_at_home;
    for (hga_id f = 1; f <= x->d->plan->program.n_fields; f++)
        for (hga_id r = 0; r < x->call->exchange->n_ranks; r++)
            if (!(x->made_at_home >> f & 1u) && x->lacks[2 * f].n && hang_on_others(x, f, r))
                x->made_at_home |= UINT32_C(1) << f;
    return x->made_at_home != before;
}

void prefill_find(prefill *x)
{
    do {
        for (hga_id k = 0; k < N_PAGE_KINDS; k++)
            if (x->lacks[k].n) bits_clear(&x->lacks[k]);
        clear_there(x);
        find_lacking(x);
    } while (find_made_at_home(x));
}

/* ---- memory ---- */

/* Carves the call's sets of rows and packets, or measures them without memory. Returns their bytes. */
int64_t prefill_carve(prefill *x, void *memory)
{
    const hga_plan *plan = x->d->plan;
    carver arena = {.base = memory};
    void *of_slice = carve(&arena, slices_bytes(plan), 1);
    if (memory) slice_open(plan, &x->slice, of_slice);
    for (hga_id k = 0; k < N_PAGE_KINDS; k++)
        x->lacks[k] = x->d->row_bytes[k] ? bits_carve(&arena, plan->nodes.n) : no_bits;
    x->packet = carve(&arena, x->call->exchange->n_ranks, sizeof *x->packet);
    return arena.used;
}
