/* rank_slots.c: rows of the workspace for what a rank computes and receives, and for nothing else. Its passes run in
   the same order in every call: a row is taken before the first item that writes it and given back after the last
   one that touches it, in whichever passes these are. What is sent or received keeps its row, for messages arrive at
   any time. What is computed for messages once others have been received may run before passes that did not need
   these: it takes no row that such a pass has given back. */
#include "carve.h"
#include "rank_passes.h"
#include "plan.h"
#include "rank_aliases.h"
#include "ranks.h"
#include "slices.h"

#include <string.h>

/* Items of passes, in the order in which they run. */
typedef struct laying {
    hga_plan *plan;
    slice slice;
    accesses accesses;
    live_ranges live;
    row_bits written; /* buckets */
    void *memory;     /* of the slice, and these bits */
    int64_t bytes;
    entry *step; /* [n]; 0 is before all */
    int64_t n, capacity;
    hga_id waves;     /* so far */
    int64_t *step_of; /* [items]: in the current pass */
    /* what is being noted */
    int64_t at;
    uint64_t storages;
    int writes;
    int early; /* it may run before what was noted before it: its rows are there from the beginning */
} laying;

static int has_rows(const hga_plan *plan, hga_id storage)
{
    const field_storage *h = &plan->fields.storage[storage % HGA_FIELD_SLOTS];
    return storage < STORAGE_ROUNDED ? h->rows.n > 0 || h->lse.n > 0 : h->rounded.n > 0;
}

/* ---- steps ---- */

static hga_status add_step(laying *x, hga_id wave, hga_id thread)
{
    hga_status st = hga_grow(&x->plan->memory.allocator, &x->step, &x->capacity, x->n, x->n + 1, sizeof *x->step);
    if (!st) x->step[x->n] = (entry){.when = {wave, thread, (hga_id)x->n}, .number = x->n};
    if (!st) x->n++;
    return st;
}

/* Adds the items that a pass runs, wave by wave and thread by thread. */
static hga_status add_steps(laying *x, const rank_pass *pass)
{
    const hga_plan *plan = x->plan;
    const wave_order *o = &plan->waves;
    const pass_rows *run = plan->share.ranks->passes.run;
    hga_status st = HGA_OK;
    slice_begin(plan, &x->slice);
    for (int64_t i = pass->run; i < pass->run + pass->n_runs; i++)
        slice_run_rows(plan, &x->slice, run[i].job, run[i].first, run[i].n);
    slice_list(plan, &x->slice);
    for (int64_t share = 0; share < (int64_t)o->n * plan->team.n; share++)
        for (int64_t end = o->ptr[share + 1], i = bits_next(&x->slice.items, o->ptr[share], end); i < end;
             i = bits_next(&x->slice.items, i + 1, end)) {
            x->step_of[i] = x->n;
            HGA_TRY(add_step(x, x->waves + (hga_id)(share / plan->team.n), (hga_id)(share % plan->team.n)));
        }
    x->waves += o->n;
done:
    return st;
}

/* ---- what they touch ---- */

static void note_live(void *context, hga_id first, hga_id last)
{
    laying *x = context;
    for (uint64_t set = x->storages & x->accesses.recycled; set; set &= set - 1) {
        bucket_span b = accesses_buckets(&x->accesses, __builtin_ctzll(set), first, last);
        live_ranges_note(&x->live, x->step, x->at, x->writes, b.first, b.last);
        if (x->early && x->writes) live_ranges_note(&x->live, x->step, 0, 1, b.first, b.last);
        if (x->writes) bits_put_run(&x->written, b.first, b.last + 1, &no_bits);
    }
}

/* Notes rows [first, end) of a job, which are in one panel. */
static void note_job_rows(laying *x, const slice_job *job, hga_id first, hga_id end)
{
    const hga_plan *plan = x->plan;
    const phase *ph = &plan->phases.list[job->phase];
    x->storages = job->of.sources, x->writes = 0;
    if (x->storages && ph->job <= JOB_SPLITS) accesses_sources(plan, ph, first, end - first, note_live, x);
    x->storages = job->of.own;
    if (x->storages) slice_own_nodes(plan, ph, first, end, note_live, x);
    x->storages = job->of.writes, x->writes = 1;
    if (x->storages) slice_own_nodes(plan, ph, first, end, note_live, x);
}

/* Notes what a run of rows touches, at the steps of the items that have these rows. */
static void note_run(laying *x, const pass_rows *run)
{
    const hga_plan *plan = x->plan;
    const slice_job *job = &plan->slices->job[run->job];
    const phase *ph = &plan->phases.list[job->phase];
    hga_id parts = head_ranges(ph), end = run->first + run->n;
    for (hga_id i = run->first, next; i < end; i = next) {
        hga_id panel = i / ph->panel;
        next = end - i < ph->panel - i % ph->panel ? end : (panel + 1) * ph->panel;
        for (hga_id k = 0; k < parts; k++) {
            x->at = x->step_of[plan->slices->when[ph->items_at + (int64_t)panel * parts + k]];
            note_job_rows(x, job, i, next);
        }
    }
}

static void keep_part(laying *x, const rank_part *p)
{
    if (!p->field || !(x->accesses.recycled >> p->field & 1u)) return;
    bucket_span b = accesses_buckets(&x->accesses, p->field, p->first, p->first + p->n - 1);
    live_ranges_keep(&x->live, b.first, b.last);
    bits_put_run(&x->written, b.first, b.last + 1, &no_bits);
}

/* Rows that this rank does not write are others', in columns that are masked: they may hold anything. */
static void forget_unwritten(laying *x)
{
    for (int64_t b = 0; b < x->live.n_buckets; b++)
        if (!bits_have(&x->written, b)) x->live.ends[b].first = -1;
}

static hga_status note_pass(laying *x, const rank_pass *pass)
{
    hga_status st = add_steps(x, pass);
    for (int64_t i = 0; !st && i < pass->n_runs; i++) note_run(x, &x->plan->share.ranks->passes.run[pass->run + i]);
    return st;
}

/* Notes what is computed for messages once so many batches have been received. */
static hga_status note_for_messages(laying *x, hga_id come)
{
    const struct rank_plan *r = x->plan->share.ranks;
    hga_status st = HGA_OK;
    x->early = come > 0;
    for (hga_id b = 0; b < r->traffic.n_batches; b++)
        if (r->traffic.batch[b].before.needs == come) HGA_TRY(note_pass(x, &r->traffic.batch[b].before));
    if (come < r->traffic.n_batches) HGA_TRY(note_pass(x, &r->traffic.batch[come].ahead));
    x->early = 0;
done:
    return st;
}

/* Walks the passes in their order, and what messages need as early as it may run. */
static hga_status note_all(laying *x)
{
    const struct rank_plan *r = x->plan->share.ranks;
    hga_status st = HGA_OK;
    int64_t next = 0;
    HGA_TRY(add_step(x, x->waves++, 0));
    for (int64_t i = 0; i < r->traffic.n_parts; i++) keep_part(x, &r->traffic.part[i]);
    for (hga_id come = 0; come <= r->traffic.n_batches; come++) {
        HGA_TRY(note_for_messages(x, come));
        for (; next < r->passes.n_passes && r->passes.pass[next].needs == come; next++)
            HGA_TRY(note_pass(x, &r->passes.pass[next]));
    }
    forget_unwritten(x);
done:
    return st;
}

/* ---- all of it ---- */

/* Allocates the walk: steps, buckets, live ranges, and a slice. */
static hga_status open(laying *x)
{
    hga_plan *plan = x->plan;
    hga_status st = HGA_OK;
    carver measure = {0};
    HGA_TRY(accesses_open(&x->accesses, plan, has_rows));
    HGA_TRY(live_ranges_open(&plan->memory.allocator, x->accesses.n_buckets, &x->live));
    HGA_TRY(hga_new(&plan->memory.allocator, plan->waves.n_items, sizeof *x->step_of, &x->step_of));
    carve(&measure, slices_bytes(plan), 1);
    bits_carve(&measure, x->accesses.n_buckets);
    x->bytes = measure.used;
    HGA_TRY(hga_new_zero(&plan->memory.allocator, x->bytes, 1, &x->memory));
    carver arena = {.base = x->memory};
    slice_open(plan, &x->slice, carve(&arena, slices_bytes(plan), 1));
    x->written = bits_carve(&arena, x->accesses.n_buckets);
done:
    return st;
}

static void close(laying *x)
{
    const hga_allocator *a = &x->plan->memory.allocator;
    accesses_close(&x->accesses);
    live_ranges_close(a, &x->live);
    hga_delete(a, x->step, x->capacity, sizeof *x->step);
    hga_delete(a, x->step_of, x->plan->waves.n_items, sizeof *x->step_of);
    hga_delete(a, x->memory, x->bytes, 1);
}

/* ---- of which nodes ---- */

/* Nodes from the first to the last that have a row. */
typedef struct node_reach {
    hga_id first, end;
} node_reach;

static void reach_to(node_reach *x, hga_id first, hga_id end)
{
    if (first >= end) return;
    if (x->end == 0 || first < x->first) x->first = first;
    if (end > x->end) x->end = end;
}

/* Is the row stored in the caller's tensor? */
static int is_elsewhere(const hga_plan *plan, hga_id f, hga_id v)
{
    const field_storage *h = &plan->fields.storage[f];
    return is_alias(&h->aliases, v) || (slice_is_input(plan, f, v) && rank_computes(plan->share.ranks, v));
}

/* Finds the nodes from first to last of the field's live ranges, and of its rows that are not in the caller's
   tensors. */
static void find_reach(const laying *x, hga_id f, node_reach *rows, node_reach *lse)
{
    for (int64_t i = 0; i < x->live.n; i++) {
        const live_range *l = &x->live.range[i];
        if (l->storage != f) continue;
        hga_id first = l->first, end = l->first + l->n;
        reach_to(lse, first, end);
        while (first < end && is_elsewhere(x->plan, f, first)) first++;
        while (first < end && is_elsewhere(x->plan, f, end - 1)) end--;
        reach_to(rows, first, end);
    }
}

/* Shortens areas, which have an index for each node from the first that has a row to the last. Not of attended keys
   and values: any row of these may be in a column that is masked. */
static void shorten_areas(laying *x)
{
    for (hga_id f = 1; f <= x->plan->program.n_fields; f++) {
        field_storage *h = &x->plan->fields.storage[f];
        node_reach rows = {0}, lse = {0};
        if (storage_is_attended(x->plan, f) || !(x->accesses.recycled >> f & 1u)) continue;
        find_reach(x, f, &rows, &lse);
        if (h->rows.n) h->rows.first = rows.first, h->rows.n = rows.end - rows.first;
        if (h->lse.n) h->lse.first = lse.first, h->lse.n = lse.end - lse.first;
    }
}

/* Areas that no pass touches get no rows. */
static void drop_areas(hga_plan *plan)
{
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        field_storage *h = &plan->fields.storage[f];
        area *const areas[] = {&h->rows, &h->lse, &h->rounded};
        for (int i = 0; i < 3; i++)
            if (!areas[i]->slot) areas[i]->n = 0;
    }
}

/* Assigns slots of the workspace to the rows that this rank computes or receives, by their live ranges. */
hga_status rank_slots_make(hga_plan *plan)
{
    hga_status st = HGA_OK;
    laying x = {.plan = plan, .accesses.plan = plan};
    HGA_TRY(open(&x));
    HGA_TRY(note_all(&x));
    HGA_TRY(rank_aliases_find(plan, &x.accesses, &x.live, x.step));
    HGA_TRY(live_ranges_find(&x.live, &x.accesses, x.step, x.n));
    shorten_areas(&x);
    HGA_TRY(slots_assign(plan, x.live.range, x.live.n, x.n));
    drop_areas(plan);
done:
    close(&x);
    return st;
}
