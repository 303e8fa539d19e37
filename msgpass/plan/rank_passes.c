/* rank_passes.c: what a rank computes when. Between messages it runs slices of the plan: what a batch sends; while the
   first batch is under way, the rows of the output that need nothing of others; when all have come, the rest. They are
   the same in every call, so they are found once. */
#include "ranks.h"
#include "slices.h"

/* ---- which rows ---- */

/* Rows that others compute are there, so that nobody here does. What rounds rows to 16 bits is everybody's own work,
   and so is what becomes of rows that were given. */
static void begin_there(const hga_plan *plan, slice *s)
{
    const struct rank_plan *r = plan->ranks;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        const field_storage *h = &plan->storage[f];
        int64_t at = 0;
        if (!s->there[f].n) continue;
        for (int64_t k = 0; k < r->n_mine; at = r->mine[k].first + r->mine[k].n, k++)
            bits_put_run(&s->there[f], at, r->mine[k].first, &no_bits);
        bits_put_run(&s->there[f], at, plan->nodes.n, &no_bits);
        if (!rank_gives_back(plan, f)) bits_take_run(&s->there[f], h->io_first, (int64_t)h->io_first + h->io_n);
    }
}

int rank_gives_back(const hga_plan *plan, hga_id f)
{
    hga_binding of = plan->program.field[f].binding;
    return of == HGA_IO_OUT || (of == HGA_IO_USER && program_writes_given(&plan->program, f));
}

static void want_sent(const hga_plan *plan, slice *s, hga_id batch)
{
    const struct rank_plan *r = plan->ranks;
    const rank_batch *b = &r->batch[batch];
    for (const rank_message *m = r->message + b->send; m < r->message + b->send + b->n_send; m++)
        for (const rank_part *p = r->part + m->part; p < r->part + m->part + m->n_parts; p++)
            slice_want_nodes(s, p->field, p->first, p->n);
}

/* Rows of the output: nodes of fields. */
typedef struct output_rows {
    rank_part *rows;
    int64_t n, room;
} output_rows;

static hga_status add_output(const hga_plan *plan, output_rows *o, hga_id f, hga_id first, hga_id n)
{
    hga_status st = hga_grow(&plan->allocator, &o->rows, &o->room, o->n, o->n + 1, sizeof *o->rows);
    if (!st) o->rows[o->n++] = (rank_part){f, first, n};
    return st;
}

static void want_output(slice *s, const output_rows *o)
{
    for (int64_t i = 0; i < o->n; i++) slice_want_nodes(s, o->rows[i].field, o->rows[i].first, o->rows[i].n);
}

/* ---- which rows wait ---- */

typedef struct source_watch {
    const slice *s;
    uint64_t storages;
    int late;
} source_watch;

static void watch(void *context, hga_id first, hga_id last)
{
    source_watch *x = context;
    for (uint64_t set = x->storages; set && !x->late; set &= set - 1) {
        const row_bits *late = &x->s->needed[__builtin_ctzll(set)];
        x->late = late->n && bits_next(late, first, (int64_t)last + 1) <= last;
    }
}

static int is_late(const hga_plan *plan, const slice *s, const slice_job *job, hga_id i)
{
    const phase *ph = &plan->phase[job->phase];
    source_watch sources = {s, job->of.sources, 0}, own = {s, job->of.own, 0};
    hga_id v = phase_node(plan, ph, i);
    watch(&own, v, v);
    if (!own.late && ph->job <= JOB_PIECES && sources.storages) accesses_sources(plan, ph, i, 1, watch, &sources);
    return own.late || sources.late;
}

/* A late piece makes its row late, which another phase merges. */
static void put_late(const hga_plan *plan, slice *s, const slice_job *job, hga_id v)
{
    const phase *ph = &plan->phase[job->phase];
    uint64_t by = ph->job == JOB_PIECES ? plan->program.stage[job->stage].writes : job->of.writes;
    for (; by; by &= by - 1)
        if (s->needed[__builtin_ctzll(by)].n) bits_put(&s->needed[__builtin_ctzll(by)], v);
}

/* Of what the slice runs, the rows that are made of received ones become its needed rows. */
static void find_late(const hga_plan *plan, slice *s)
{
    const struct rank_plan *r = plan->ranks;
    for (int i = 0; i < N_STORAGES; i++)
        if (s->needed[i].n) bits_clear(&s->needed[i]);
    for (int64_t b = 0; b < r->n_batches; b++)
        for (const rank_message *m = r->message + r->batch[b].receive, *end = m + r->batch[b].n_receive; m < end; m++)
            for (const rank_part *p = r->part + m->part; p < r->part + m->part + m->n_parts; p++)
                if (s->needed[p->field].n)
                    bits_put_run(&s->needed[p->field], p->first, (int64_t)p->first + p->n, &no_bits);
    for (int64_t j = 0; j < plan->slices->n_jobs; j++) {
        const slice_job *job = &plan->slices->job[j];
        FOR_RUNS(&s->run[j], i, end, 0, s->run[j].n)
        {
            for (int64_t k = i; k < end; k++)
                if (is_late(plan, s, job, (hga_id)k))
                    put_late(plan, s, job, phase_node(plan, &plan->phase[job->phase], (hga_id)k));
        }
    }
}

/* The rank's output in two: what waits for others, and what need not. */
static hga_status divide_output(const hga_plan *plan, slice *s, output_rows *early, output_rows *late)
{
    hga_status st = HGA_OK;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        if (!rank_gives_back(plan, f)) continue;
        for (rank_rows at = {0}; rank_rows_next(plan, f, &at);) HGA_TRY(add_output(plan, late, f, at.first, at.n));
    }
    slice_begin(plan, s);
    want_output(s, late);
    slice_find(plan, s);
    find_late(plan, s);
    late->n = 0;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        const row_bits *waits = &s->needed[f];
        if (!rank_gives_back(plan, f) || !waits->n) continue;
        for (rank_rows at = {0}; rank_rows_next(plan, f, &at);)
            for (int64_t v = at.first, end = v + at.n, next; v < end; v = next) {
                int is_early = !bits_have(waits, v);
                next = is_early ? bits_next(waits, v, end) : bits_next_out(waits, v, end);
                HGA_TRY(add_output(plan, is_early ? early : late, f, (hga_id)v, (hga_id)(next - v)));
            }
    }
done:
    return st;
}

/* ---- passes ---- */

/* What was wanted since slice_begin is a pass, which ends with starting a batch, or waiting for one, -1. */
static hga_status add_pass(const hga_plan *plan, slice *s, hga_id start, hga_id wait)
{
    hga_status st = HGA_OK;
    struct rank_plan *r = plan->ranks;
    rank_pass pass = {.run = r->n_runs, .start = start, .wait = wait};
    slice_find(plan, s);
    for (int64_t j = 0; j < plan->slices->n_jobs; j++) FOR_RUNS(&s->run[j], i, end, 0, s->run[j].n)
        {
            HGA_TRY(hga_grow(&r->allocator, &r->run, &r->run_room, r->n_runs, r->n_runs + 1, sizeof *r->run));
            r->run[r->n_runs++] = (pass_rows){j, (hga_id)i, (hga_id)(end - i)};
        }
    slice_end(plan, s);
    pass.n_runs = r->n_runs - pass.run;
    HGA_TRY(hga_grow(&r->allocator, &r->pass, &r->pass_room, r->n_passes, r->n_passes + 1, sizeof *r->pass));
    r->pass[r->n_passes++] = pass;
done:
    return st;
}

hga_status rank_passes_make(hga_plan *plan)
{
    hga_status st = HGA_OK;
    void *memory = NULL;
    slice s;
    output_rows early = {0}, late = {0};
    if (!plan->ranks) return HGA_OK;
    HGA_TRY(hga_new_zero(&plan->allocator, slices_bytes(plan), 1, &memory));
    slice_open(plan, &s, memory);
    begin_there(plan, &s);
    HGA_TRY(divide_output(plan, &s, &early, &late));
    for (hga_id b = 0; b < plan->ranks->n_batches; b++) {
        slice_begin(plan, &s);
        want_sent(plan, &s, b);
        HGA_TRY(add_pass(plan, &s, b, -1));
        slice_begin(plan, &s);
        if (b == 0) want_output(&s, &early);
        HGA_TRY(add_pass(plan, &s, -1, b));
    }
    slice_begin(plan, &s);
    if (plan->ranks->n_batches == 0) want_output(&s, &early);
    want_output(&s, &late);
    HGA_TRY(add_pass(plan, &s, -1, -1));
done:
    hga_delete(&plan->allocator, early.rows, early.room, sizeof *early.rows);
    hga_delete(&plan->allocator, late.rows, late.room, sizeof *late.rows);
    hga_delete(&plan->allocator, memory, slices_bytes(plan), 1);
    return st;
}
