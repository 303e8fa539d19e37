/* slices.c: which rows an execution runs for some requested rows of the output. From the last phase back: a phase runs
   the rows that later phases need and that are not present, and needs their sources. The cost depends on the number of
   rows found, not on all rows: a node's row in a phase follows from the phase's first one, or from the order of its
   relation. */
#include "slices.h"
#include "plan.h"
#include "regions.h"

void slice_begin(const hga_plan *plan, slice *s)
{
    for (uint64_t set = plan->slices->touched; set; set &= set - 1) bits_clear(&s->needed[__builtin_ctzll(set)]);
    FOR_JOBS(s, j) bits_clear(&s->run[j]);
    bits_clear(&s->jobs), bits_clear(&s->items);
    s->cost = 0, s->one_token = 0;
}

/* Storages that no phase uses have no set. */
static void request_nodes(slice *s, hga_id storage, int64_t first, int64_t n)
{
    if (s->needed[storage].n) bits_put_run(&s->needed[storage], first, first + n, &no_bits);
}

void slice_request(const hga_plan *plan, slice *s, int64_t first, int64_t n)
{
    hga_id out = program_bound(&plan->program, HGA_IO_OUT);
    request_nodes(s, out, plan->fields.storage[out].io_first + first, n);
}

void slice_request_others(const hga_plan *plan, slice *s)
{
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        const field_storage *h = &plan->fields.storage[f];
        if (plan->program.field[f].binding == HGA_IO_USER && program_writes_input(&plan->program, f))
            request_nodes(s, f, h->io_first, h->io_n);
    }
}

void slice_request_nodes(slice *s, hga_id storage, hga_id first, hga_id n)
{
    if (s->needed[storage].n) bits_put_run(&s->needed[storage], first, (int64_t)first + n, &s->there[storage]);
}

void slice_request_row(slice *s, hga_id storage, hga_id v) { slice_request_nodes(s, storage, v, 1); }

/* The job of the stage's splits. */
static int64_t job_of_splits(const hga_plan *plan, hga_id stage)
{
    const slice_job *job = plan->slices->job;
    while (job->stage != stage || plan->phases.list[job->phase].job != JOB_SPLITS) job++;
    return job - plan->slices->job;
}

void slice_request_splits(const hga_plan *plan, slice *s, hga_id stage, hga_id first, hga_id n)
{
    int64_t j = job_of_splits(plan, stage);
    bits_put_run(&s->run[j], first, (int64_t)first + n, &s->made[j]);
    bits_put(&s->jobs, j);
}

void slice_put_splits(const hga_plan *plan, slice *s, hga_id stage, hga_id first, hga_id n)
{
    bits_put_run(&s->made[job_of_splits(plan, stage)], first, (int64_t)first + n, &no_bits);
}

/* ---- sources ---- */

typedef struct needing {
    slice *s;
    uint64_t storages;
} needing;

static void need_nodes(void *context, hga_id first, hga_id last)
{
    const needing *x = context;
    for (uint64_t set = x->storages; set; set &= set - 1) {
        int storage = __builtin_ctzll(set);
        bits_put_run(&x->s->needed[storage], first, (int64_t)last + 1, &x->s->there[storage]);
    }
}

void slice_own_nodes(const hga_plan *plan, const phase *ph, hga_id first, hga_id end, node_function each, void *context)
{
    int in_order = ph->job != JOB_MERGE && ph->job != JOB_SPLITS && !ph->by_position;
    if (in_order && first < end) each(context, ph->first + first, ph->first + end - 1);
    for (hga_id i = first; !in_order && i < end; i++) {
        hga_id v = phase_node(plan, ph, i);
        each(context, v, v);
    }
}

/* Marks the rows that a job's rows read: sources of their edges, and rows of their own nodes. */
static void need_all(const hga_plan *plan, slice *s, const slice_job *job)
{
    const phase *ph = &plan->phases.list[job->phase];
    needing sources = {s, job->of.sources}, own = {s, job->of.own};
    FOR_RUNS(&s->run[slice_job_of(ph, job->stage)], i, end, 0, job->rows)
    {
        if (sources.storages && !(s->one_token && job->at_hand))
            accesses_sources(plan, ph, (hga_id)i, (hga_id)(end - i), need_nodes, &sources);
        if (own.storages) slice_own_nodes(plan, ph, (hga_id)i, (hga_id)end, need_nodes, &own);
    }
}

/* ---- rows of a phase ---- */

/* Marks the row at a position of the stage's relation; of a long row its splits, or its merge. */
static void run_position(const stage_plan *s, const phase *ph, hga_id position, const row_bits *made, row_bits *run)
{
    const long_row *row = s->n_long ? long_row_at(s, position) : NULL;
    if (ph->job == JOB_ROWS) {
        if (!row && position >= ph->first && position - ph->first < ph->n) bits_put(run, position - ph->first);
    } else if (row && ph->job == JOB_MERGE) {
        bits_put(run, row - s->long_row);
    } else if (row) {
        bits_put_run(run, row->first_split, row->first_split + row->n_splits, made);
    }
}

static hga_id position_of(const stage_plan *s, hga_id v) { return s->relation.dst_rank ? s->relation.dst_rank[v] : v; }

/* Marks the rows of the phase for the needed nodes of a storage. */
static void run_needed(const hga_plan *plan, const phase *ph, const row_bits *needed, const row_bits *made,
                       row_bits *run)
{
    const stage_plan *s = &plan->stage[ph->stage];
    int splits = ph->job == JOB_SPLITS || ph->job == JOB_MERGE;
    int64_t first = splits || ph->by_position ? 0 : ph->first,
            end = splits || ph->by_position ? needed->n : first + ph->n;
    FOR_RUNS(needed, i, last, first, end)
    {
        for (int64_t v = i; v < last; v++)
            run_position(s, ph, ph->by_position || splits ? position_of(s, (hga_id)v) : (hga_id)v, made, run);
    }
}

/* The same of a phase whose rows are contiguous nodes. */
static void run_nodes(const phase *ph, const row_bits *needed, row_bits *run)
{
    const int64_t first = ph->first, end = first + ph->n;
    FOR_RUNS(needed, i, last, first, end) bits_put_run(run, i - first, last - first, &no_bits);
}

/* Marks the rows of a job whose results are needed. */
static void find_needed(const hga_plan *plan, slice *s, const slice_job *job, int64_t j)
{
    const phase *ph = &plan->phases.list[job->phase];
    for (uint64_t by = job->fills; by; by &= by - 1) {
        const row_bits *needed = &s->needed[__builtin_ctzll(by)];
        if (bits_none(needed)) continue;
        if (job->by_node)
            run_nodes(ph, needed, &s->run[j]);
        else
            run_needed(plan, ph, needed, &s->made[j], &s->run[j]);
    }
}

void slice_find(const hga_plan *plan, slice *s)
{
    for (int64_t j = plan->slices->n_jobs - 1; j >= 0; j--) {
        const slice_job *job = &plan->slices->job[j];
        find_needed(plan, s, job, j);
        if (bits_none(&s->run[j])) continue;
        bits_put(&s->jobs, j);
        if (plan->phases.list[job->phase].job != JOB_LSE) need_all(plan, s, job);
    }
}

void slice_run_rows(const hga_plan *plan, slice *s, int64_t job, hga_id first, hga_id n)
{
    (void)plan;
    bits_put_run(&s->run[job], first, first + n, &no_bits);
    bits_put(&s->jobs, job);
}

/* ---- items ---- */

static void list_panel(const hga_plan *plan, slice *s, const phase *ph, int64_t panel)
{
    hga_id parts = head_ranges(ph);
    for (hga_id k = 0; k < parts; k++) bits_put(&s->items, plan->slices->when[ph->items_at + panel * parts + k]);
}

double slice_row_cost(const hga_plan *plan, const phase *ph)
{
    double edges = ph->job <= JOB_MERGE ? plan->stage[ph->stage].edges / plan->nodes.n : 1;
    return edges < 1 ? 1 : edges;
}

/* Lists the items that have rows to run, and sums these rows' costs. */
void slice_list(const hga_plan *plan, slice *s)
{
    FOR_JOBS(s, j)
    {
        const phase *ph = &plan->phases.list[plan->slices->job[j].phase];
        int64_t listed = -1;
        FOR_RUNS(&s->run[j], i, end, 0, s->run[j].n)
        {
            s->cost += (double)(end - i) * slice_row_cost(plan, ph);
            for (int64_t p = i / ph->panel > listed ? i / ph->panel : listed + 1; p <= (end - 1) / ph->panel; p++)
                list_panel(plan, s, ph, listed = p);
        }
    }
}

/* ---- rows present ---- */

void slice_drop_rows(slice *s, hga_id f, hga_id first, hga_id n)
{
    row_bits *of[] = {&s->there[f], &s->there[STORAGE_ROUNDED + f]};
    for (int i = 0; i < 2; i++)
        if (of[i]->n) bits_take_run(of[i], first, (int64_t)first + n);
}

/* Notes rows as present, except the caller's, which he provides anew in each call. */
void slice_note_there(const hga_plan *plan, slice *s, hga_id storage, int64_t first, int64_t end)
{
    const field_storage *h = &plan->fields.storage[storage % HGA_FIELD_SLOTS];
    int64_t io = h->io_first, io_end = io + h->io_n;
    bits_put_run(&s->there[storage], first, h->io_n && io < end ? io : end, &no_bits);
    if (h->io_n && io_end < end) bits_put_run(&s->there[storage], first > io_end ? first : io_end, end, &no_bits);
}

/* Notes the rows that have run as present, in each storage that their jobs write. */
void slice_end(const hga_plan *plan, slice *s)
{
    if (!plan->slices->listed) return;
    FOR_JOBS(s, j)
    {
        const slice_job *job = &plan->slices->job[j];
        const phase *ph = &plan->phases.list[job->phase];
        int in_order = ph->job != JOB_MERGE && !ph->by_position;
        if (s->made[j].n) FOR_RUNS(&s->run[j], i, end, 0, job->rows) bits_put_run(&s->made[j], i, end, &no_bits);
        for (uint64_t by = job->of.writes; by; by &= by - 1) {
            hga_id storage = __builtin_ctzll(by);
            FOR_RUNS(&s->run[j], i, end, 0, job->rows)
            {
                if (in_order) slice_note_there(plan, s, storage, ph->first + i, ph->first + end);
                for (int64_t k = i; !in_order && k < end; k++) {
                    hga_id v = phase_node(plan, ph, (hga_id)k);
                    slice_note_there(plan, s, storage, v, (int64_t)v + 1);
                }
            }
        }
    }
}
