/* rank_passes.c: what a rank computes when. What a batch sends is computed as soon as the batches before it allow, and
   sent; while a batch is under way, whatever needs nothing of it is computed, some tokens at a time, so that a batch
   that has come meanwhile can be taken; and what needs it waits. The passes are the same in every call, so they are
   found once, by taking them from all rows that the rank computes. */
#include "ranks.h"
#include "slices.h"

#include <math.h>

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
    for (const rank_limb *l = r->limb; l < r->limb + r->n_limbs; l++)
        if (!rank_makes(r, l)) slice_put_pieces(plan, s, l->stage, l->first, l->n);
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
            p->field ? slice_want_nodes(s, p->field, p->first, p->n)
                     : slice_want_pieces(plan, s, p->stage, p->first, p->n);
}

/* Where chunk i of n of so many rows begins, at a panel's first row. */
static hga_id chunk_begin(const hga_plan *plan, hga_id rows, int i, int n)
{
    hga_id panel = plan->panel_asked ? plan->panel_asked : PANEL_ROWS;
    return i == n ? rows : (hga_id)((int64_t)rows * i / n) / panel * panel;
}

/* Chunk i of n of the rank's rows of all that a call writes. */
static void want_output(const hga_plan *plan, slice *s, int i, int n)
{
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        if (!rank_gives_back(plan, f)) continue;
        for (rank_rows at = {0}; rank_rows_next(plan, f, &at);) {
            hga_id begin = chunk_begin(plan, at.n, i, n);
            slice_want_nodes(s, f, at.first + begin, chunk_begin(plan, at.n, i + 1, n) - begin);
        }
    }
}

/* ---- which rows wait ---- */

/* Rows of jobs: those that are in no pass yet, and of these those that need nothing of the batch at hand and of later
   ones. */
typedef struct division {
    hga_plan *plan;
    slice s;
    row_bits *left, *ready; /* [n_jobs] */
} division;

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

/* What is written over a late row is late, too. */
static int is_late(const hga_plan *plan, const slice *s, const slice_job *job, hga_id i)
{
    const phase *ph = &plan->phase[job->phase];
    source_watch sources = {s, job->of.sources, 0}, own = {s, job->of.own | job->of.writes, 0};
    hga_id v = phase_node(plan, ph, i);
    watch(&own, v, v);
    if (!own.late && ph->job <= JOB_PIECES && sources.storages) accesses_sources(plan, ph, i, 1, watch, &sources);
    return own.late || sources.late;
}

static void put_late_row(slice *s, uint64_t by, hga_id v)
{
    for (; by; by &= by - 1)
        if (s->needed[__builtin_ctzll(by)].n) bits_put(&s->needed[__builtin_ctzll(by)], v);
}

/* A late piece makes its row late, which another phase merges. */
static void put_late(const hga_plan *plan, slice *s, const slice_job *job, hga_id v)
{
    const phase *ph = &plan->phase[job->phase];
    uint64_t by = ph->job == JOB_PIECES ? plan->program.stage[job->stage].writes : job->of.writes;
    put_late_row(s, by, v);
}

/* Rows of others, or rows that are made of their pieces. */
static void put_part(const hga_plan *plan, slice *s, const rank_part *p)
{
    const stage_plan *of = &plan->stage[p->stage];
    if (!p->field)
        put_late_row(s, plan->program.stage[p->stage].writes, node_at(of, long_row_of(of, p->first)->position));
    else if (s->needed[p->field].n)
        bits_put_run(&s->needed[p->field], p->first, (int64_t)p->first + p->n, &no_bits);
}

/* The rows that batches from `first` on bring become the slice's needed rows. */
static void put_received(const hga_plan *plan, slice *s, hga_id first)
{
    const struct rank_plan *r = plan->ranks;
    for (int i = 0; i < N_STORAGES; i++)
        if (s->needed[i].n) bits_clear(&s->needed[i]);
    for (int64_t b = first; b < r->n_batches; b++)
        for (const rank_message *m = r->message + r->batch[b].receive, *end = m + r->batch[b].n_receive; m < end; m++)
            for (const rank_part *p = r->part + m->part; p < r->part + m->part + m->n_parts; p++) put_part(plan, s, p);
}

/* Which of the rows that are left need nothing of batches from that one on. */
static void find_ready(division *d, hga_id batch)
{
    const hga_plan *plan = d->plan;
    put_received(plan, &d->s, batch);
    for (int64_t j = 0; j < plan->slices->n_jobs; j++) {
        const slice_job *job = &plan->slices->job[j];
        bits_clear(&d->ready[j]);
        FOR_RUNS(&d->left[j], i, end, 0, job->rows)
        {
            for (int64_t k = i; k < end; k++)
                if (is_late(plan, &d->s, job, (hga_id)k))
                    put_late(plan, &d->s, job, phase_node(plan, &plan->phase[job->phase], (hga_id)k));
                else
                    bits_put(&d->ready[j], k);
        }
    }
}

/* ---- passes ---- */

static double row_cost(const hga_plan *plan, int64_t job)
{
    return slice_row_cost(plan, &plan->phase[plan->slices->job[job].phase]);
}

/* A run is at most so many panels, so that passes can be cut between runs. */
enum { RUN_PANELS = 4 };

static hga_status add_run(const hga_plan *plan, int64_t job, int64_t first, int64_t end)
{
    hga_status st = HGA_OK;
    struct rank_plan *r = plan->ranks;
    const int64_t most = (int64_t)RUN_PANELS * plan->phase[plan->slices->job[job].phase].panel;
    for (int64_t next; first < end; first = next) {
        next = (first / most + 1) * most < end ? (first / most + 1) * most : end;
        HGA_TRY(hga_grow(&r->allocator, &r->run, &r->run_room, r->n_runs, r->n_runs + 1, sizeof *r->run));
        r->run[r->n_runs++] = (pass_rows){job, (hga_id)first, (hga_id)(next - first)};
    }
done:
    return st;
}

/* Of the slice's rows those that are ready: they are a pass, and left no more. */
static hga_status take_pass(division *d, hga_id needs, rank_pass *out)
{
    hga_status st = HGA_OK;
    struct rank_plan *r = d->plan->ranks;
    *out = (rank_pass){.run = r->n_runs, .needs = needs};
    for (int64_t j = 0; j < d->plan->slices->n_jobs; j++) {
        FOR_RUNS(&d->s.run[j], i, end, 0, d->ready[j].n)
        {
            FOR_RUNS(&d->ready[j], k, last, i, end)
            {
                HGA_TRY(add_run(d->plan, j, k, last));
                bits_take_run(&d->left[j], k, last);
            }
            bits_take_run(&d->ready[j], i, end);
        }
    }
    out->n_runs = r->n_runs - out->run;
done:
    return st;
}

/* Are all rows of the slice that are left ready? */
static int all_ready(const division *d)
{
    for (int64_t j = 0; j < d->plan->slices->n_jobs; j++) {
        FOR_RUNS(&d->s.run[j], i, end, 0, d->s.run[j].n)
        {
            FOR_RUNS(&d->left[j], k, last, i, end) if (bits_next_out(&d->ready[j], k, last) < last) return 0;
        }
    }
    return 1;
}

/* The batches whose rows are ready once so many have come; batch b is when b have, as rank_batches.c has it. */
static hga_status add_batches(division *d, hga_id needs, hga_id *n)
{
    hga_status st = HGA_OK;
    struct rank_plan *r = d->plan->ranks;
    for (; *n < r->n_batches; ++*n) {
        slice_begin(d->plan, &d->s);
        want_sent(d->plan, &d->s, *n);
        slice_find(d->plan, &d->s);
        if (!all_ready(d)) break;
        HGA_TRY(take_pass(d, needs, &r->batch[*n].before));
    }
done:
    return st;
}

/* Of what later batches send, what is ready by then goes before all else: others wait for them. */
static hga_status add_ahead(division *d, hga_id needs, hga_id first)
{
    struct rank_plan *r = d->plan->ranks;
    if (needs == r->n_batches) return HGA_OK;
    slice_begin(d->plan, &d->s);
    for (hga_id b = first; b < r->n_batches; b++) want_sent(d->plan, &d->s, b);
    slice_find(d->plan, &d->s);
    return take_pass(d, needs, &r->batch[needs].ahead);
}

/* Multiplications between two looks at whether a batch has come: about a millisecond's. Small panels, which tests ask
   for, are for many looks. */
static const double CHUNK_WORK = 2e7;
enum { MOST_CHUNKS = 16 };

static double cost_of_ready(const division *d)
{
    double cost = 0;
    for (int64_t j = 0; j < d->plan->slices->n_jobs; j++)
        FOR_RUNS(&d->ready[j], i, end, 0, d->ready[j].n) cost += (double)(end - i) * row_cost(d->plan, j);
    return cost;
}

static double cost_of_pass(const hga_plan *plan, const rank_pass *pass)
{
    double cost = 0;
    for (const pass_rows *x = plan->ranks->run + pass->run, *end = x + pass->n_runs; x < end; x++)
        cost += x->n * row_cost(plan, x->job);
    return cost;
}

static int count_chunks(const division *d, double cost)
{
    const hga_shape *shape = &d->plan->shape;
    double chunks = cost * shape->n_heads * (shape->dim + shape->dim_v) / CHUNK_WORK;
    if (d->plan->panel_asked) return MOST_CHUNKS;
    return chunks < 1 ? 1 : chunks < MOST_CHUNKS ? (int)chunks : MOST_CHUNKS;
}

static void run_all_ready(division *d)
{
    for (int64_t j = 0; j < d->plan->slices->n_jobs; j++) FOR_RUNS(&d->ready[j], i, end, 0, d->ready[j].n)
    slice_run_rows(d->plan, &d->s, j, (hga_id)i, (hga_id)(end - i));
}

/* The pass, in so many as no chunk costs more than that: whoever comes later in it needs nothing of who comes later
   still. */
static hga_status add_in_parts(division *d, rank_pass pass, double most)
{
    hga_status st = HGA_OK;
    struct rank_plan *r = d->plan->ranks;
    double whole = cost_of_pass(d->plan, &pass);
    most = whole / fmax(1, rint(whole / most));
    for (int64_t run = pass.run, end = run + pass.n_runs; run < end;) {
        double cost = 0;
        for (pass.run = run; run < end && (run == pass.run || cost < most); run++)
            cost += r->run[run].n * row_cost(d->plan, r->run[run].job);
        pass.n_runs = run - pass.run;
        HGA_TRY(hga_grow(&r->allocator, &r->pass, &r->pass_room, r->n_passes, r->n_passes + 1, sizeof *r->pass));
        r->pass[r->n_passes++] = pass;
    }
done:
    return st;
}

/* All that is ready, along the tokens; and in the order of the phases where some tokens need most of it. */
static hga_status add_ready(division *d, hga_id needs)
{
    hga_status st = HGA_OK;
    double cost = needs < d->plan->ranks->n_batches ? cost_of_ready(d) : 0;
    int chunks = count_chunks(d, cost);
    if (needs == d->plan->ranks->n_batches) chunks = 1;
    for (int i = 0; i < chunks; i++) {
        rank_pass pass;
        slice_begin(d->plan, &d->s);
        if (i + 1 < chunks) {
            want_output(d->plan, &d->s, i, chunks);
            slice_find(d->plan, &d->s);
        } else {
            run_all_ready(d);
        }
        HGA_TRY(take_pass(d, needs, &pass));
        HGA_TRY(add_in_parts(d, pass, chunks > 1 ? cost / chunks : INFINITY));
    }
done:
    return st;
}

/* ---- the whole ---- */

static int64_t division_carve(division *d, void *memory)
{
    const struct slice_plan *p = d->plan->slices;
    carver room = {.base = memory, .used = p->bytes};
    row_bits **sets[] = {&d->left, &d->ready};
    if (memory) slice_open(d->plan, &d->s, memory);
    for (int i = 0; i < 2; i++) {
        row_bits *set = *sets[i] = carve(&room, p->n_jobs, sizeof *set);
        for (int64_t j = 0; j < p->n_jobs; j++) {
            row_bits rows = bits_carve(&room, p->job[j].rows);
            if (set) set[j] = rows;
        }
    }
    return room.used;
}

/* All that the rank computes is left. */
static void begin(division *d)
{
    const hga_plan *plan = d->plan;
    begin_there(plan, &d->s);
    slice_begin(plan, &d->s);
    for (hga_id b = 0; b < plan->ranks->n_batches; b++) want_sent(plan, &d->s, b);
    want_output(plan, &d->s, 0, 1);
    slice_find(plan, &d->s);
    for (int64_t j = 0; j < plan->slices->n_jobs; j++)
        FOR_RUNS(&d->s.run[j], i, end, 0, d->s.run[j].n) bits_put_run(&d->left[j], i, end, &no_bits);
}

hga_status rank_passes_make(hga_plan *plan)
{
    hga_status st = HGA_OK;
    division d = {.plan = plan};
    void *memory = NULL;
    hga_id batches = 0;
    if (!plan->ranks) return HGA_OK;
    int64_t bytes = division_carve(&d, NULL);
    HGA_TRY(hga_new_zero(&plan->allocator, bytes, 1, &memory));
    division_carve(&d, memory);
    begin(&d);
    for (hga_id come = 0; come <= plan->ranks->n_batches; come++) {
        find_ready(&d, come);
        HGA_TRY(add_batches(&d, come, &batches));
        HGA_TRY(add_ahead(&d, come, batches));
        HGA_TRY(add_ready(&d, come));
    }
done:
    hga_delete(&plan->allocator, memory, bytes, 1);
    return st;
}
