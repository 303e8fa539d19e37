/* rank_passes.c: what a rank computes when. What a batch sends is computed as soon as earlier batches allow, and
   sent; while a batch is under way, rows that do not need it are computed, some tokens at a time, so that a batch
   that has arrived meanwhile can be received; rows that need it wait. The passes are the same in every call, so they
   are found once, by taking them from all rows that the rank computes. */
#include "carve.h"
#include "rank_passes.h"
#include "plan.h"
#include "rank_division.h"

#include <math.h>

/* ---- which rows ---- */

/* Marks rows that other ranks compute as there, so that this rank does not. Rounding rows to 16 bits is each rank's
   own work, and so is what becomes of input rows. */
static void begin_there(const hga_plan *plan, slice *s)
{
    const struct rank_plan *r = plan->share.ranks;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        const field_storage *h = &plan->fields.storage[f];
        int64_t at = 0;
        if (!s->there[f].n) continue;
        for (int64_t k = 0; k < r->rows.n_mine; at = r->rows.mine[k].first + r->rows.mine[k].n, k++)
            bits_put_run(&s->there[f], at, r->rows.mine[k].first, &no_bits);
        bits_put_run(&s->there[f], at, plan->nodes.n, &no_bits);
        if (!rank_gives_back(plan, f)) bits_take_run(&s->there[f], h->io_first, (int64_t)h->io_first + h->io_n);
    }
    for (int64_t i = 0; i < r->n_splits; i++) {
        const rank_split *l = &r->split[i];
        if (!rank_makes(r, l)) slice_put_splits(plan, s, l->stage, l->first, l->n);
    }
}

/* Where chunk i of n of so many rows begins, at a panel's first row. */
static hga_id chunk_begin(const hga_plan *plan, hga_id rows, int i, int n)
{
    hga_id panel = plan->requested.panel ? plan->requested.panel : PANEL_ROWS;
    return i == n ? rows : (hga_id)((int64_t)rows * i / n) / panel * panel;
}

/* Requests chunk i of n of the rank's rows of all that a call writes. */
static void request_output(const hga_plan *plan, slice *s, int i, int n)
{
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        if (!rank_gives_back(plan, f)) continue;
        for (rows_here at = {0}; rows_here_next(plan, f, &at);) {
            hga_id begin = chunk_begin(plan, at.n, i, n);
            slice_request_nodes(s, f, at.first + begin, chunk_begin(plan, at.n, i + 1, n) - begin);
        }
    }
}

/* ---- passes ---- */

/* A run is at most so many panels, so that passes can be cut between runs. */
enum { RUN_PANELS = 4 };

/* Adds rows [first, end) of a job, in runs of at most RUN_PANELS panels. */
static hga_status add_job_rows(const hga_plan *plan, int64_t job, int64_t first, int64_t end)
{
    hga_status st = HGA_OK;
    struct rank_plan *r = plan->share.ranks;
    const int64_t most = (int64_t)RUN_PANELS * plan->phases.list[plan->slices->job[job].phase].panel;
    for (int64_t next; first < end; first = next) {
        next = (first / most + 1) * most < end ? (first / most + 1) * most : end;
        HGA_TRY(hga_grow(&r->allocator, &r->passes.run, &r->passes.run_capacity, r->passes.n_runs, r->passes.n_runs + 1,
                         sizeof *r->passes.run));
        r->passes.run[r->passes.n_runs++] = (pass_rows){job, (hga_id)first, (hga_id)(next - first)};
    }
done:
    return st;
}

/* Takes the slice's rows that are ready as a pass; they are no longer left. */
static hga_status take_pass(division *d, hga_id needs, rank_pass *out)
{
    hga_status st = HGA_OK;
    struct rank_plan *r = d->plan->share.ranks;
    *out = (rank_pass){.run = r->passes.n_runs, .needs = needs};
    for (int64_t j = 0; j < d->plan->slices->n_jobs; j++) {
        FOR_RUNS(&d->s.run[j], i, end, 0, d->ready[j].n)
        {
            FOR_RUNS(&d->ready[j], k, last, i, end)
            {
                HGA_TRY(add_job_rows(d->plan, j, k, last));
                bits_take_run(&d->left[j], k, last);
            }
            bits_take_run(&d->ready[j], i, end);
        }
    }
    out->n_runs = r->passes.n_runs - out->run;
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

static void run_early(division *d)
{
    for (int64_t j = 0; j < d->plan->slices->n_jobs; j++) FOR_RUNS(&d->early[j], i, end, 0, d->early[j].n)
    slice_run_rows(d->plan, &d->s, j, (hga_id)i, (hga_id)(end - i));
}

/* Takes the passes of the batches whose rows are ready once `needs` batches have been received (rank_batches.c). */
static hga_status add_batches(division *d, hga_id needs, hga_id *n)
{
    hga_status st = HGA_OK;
    struct rank_plan *r = d->plan->share.ranks;
    for (; *n < r->traffic.n_batches; ++*n) {
        slice_begin(d->plan, &d->s);
        division_request_sent(d->plan, &d->s, *n);
        slice_find(d->plan, &d->s);
        if (!all_ready(d)) break;
        if (*n == 0 && d->has_early) run_early(d);
        HGA_TRY(take_pass(d, needs, &r->traffic.batch[*n].before));
    }
done:
    return st;
}

/* Takes what later batches send and is ready by then; it runs before all else, since others wait for it. */
static hga_status add_ahead(division *d, hga_id needs, hga_id first)
{
    struct rank_plan *r = d->plan->share.ranks;
    if (needs == r->traffic.n_batches) return HGA_OK;
    slice_begin(d->plan, &d->s);
    for (hga_id b = first; b < r->traffic.n_batches; b++) division_request_sent(d->plan, &d->s, b);
    slice_find(d->plan, &d->s);
    return take_pass(d, needs, &r->traffic.batch[needs].ahead);
}

/* Multiplications between two tests whether a batch has arrived: about a millisecond's. Small panels, which tests
   request, get many. */
static const double CHUNK_WORK = 6e7;
enum { MOST_CHUNKS = 16 };

static double cost_of_ready(const division *d)
{
    double cost = 0;
    for (int64_t j = 0; j < d->plan->slices->n_jobs; j++)
        FOR_RUNS(&d->ready[j], i, end, 0, d->ready[j].n) cost += (double)(end - i) * d->cost[j];
    return cost;
}

static double cost_of_pass(const division *d, const rank_pass *pass)
{
    double cost = 0;
    for (int64_t i = pass->run; i < pass->run + pass->n_runs; i++) {
        const pass_rows *x = &d->plan->share.ranks->passes.run[i];
        cost += x->n * d->cost[x->job];
    }
    return cost;
}

static int count_chunks(const division *d, double cost)
{
    double chunks = division_work(d, cost) / CHUNK_WORK;
    if (d->plan->requested.panel) return MOST_CHUNKS;
    return chunks < 1 ? 1 : chunks < MOST_CHUNKS ? (int)chunks : MOST_CHUNKS;
}

static void run_all_ready(division *d)
{
    for (int64_t j = 0; j < d->plan->slices->n_jobs; j++) FOR_RUNS(&d->ready[j], i, end, 0, d->ready[j].n)
    slice_run_rows(d->plan, &d->s, j, (hga_id)i, (hga_id)(end - i));
}

/* Adds the pass as several, none of which costs more than `most`: rows need nothing of later rows in a pass. */
static hga_status add_in_parts(division *d, rank_pass pass, double most)
{
    hga_status st = HGA_OK;
    struct rank_plan *r = d->plan->share.ranks;
    double whole = cost_of_pass(d, &pass);
    most = whole / fmax(1, rint(whole / most));
    for (int64_t run = pass.run, end = run + pass.n_runs; run < end;) {
        double cost = 0;
        for (pass.run = run; run < end && (run == pass.run || cost < most); run++)
            cost += r->passes.run[run].n * d->cost[r->passes.run[run].job];
        pass.n_runs = run - pass.run;
        HGA_TRY(hga_grow(&r->allocator, &r->passes.pass, &r->passes.pass_capacity, r->passes.n_passes,
                         r->passes.n_passes + 1, sizeof *r->passes.pass));
        r->passes.pass[r->passes.n_passes++] = pass;
    }
done:
    return st;
}

/* Adds all that is ready, along the tokens; in the order of the phases where some tokens need most of it. */
static hga_status add_ready(division *d, hga_id needs)
{
    hga_status st = HGA_OK;
    double cost = needs < d->plan->share.ranks->traffic.n_batches ? cost_of_ready(d) : 0;
    int chunks = count_chunks(d, cost);
    if (needs == d->plan->share.ranks->traffic.n_batches) chunks = 1;
    for (int i = 0; i < chunks; i++) {
        rank_pass pass;
        slice_begin(d->plan, &d->s);
        if (i + 1 < chunks) {
            request_output(d->plan, &d->s, i, chunks);
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

/* ---- all of it ---- */

/* Carves the sets of rows that a division works with; only measures without memory. Returns their bytes. */
static int64_t division_carve(division *d, void *memory)
{
    const struct slice_plan *p = d->plan->slices;
    carver arena = {.base = memory, .used = p->bytes};
    row_bits **sets[] = {&d->left, &d->ready, &d->early};
    if (memory) slice_open(d->plan, &d->s, memory);
    d->cost = carve(&arena, p->n_jobs, sizeof *d->cost);
    for (int i = 0; i < 3; i++) {
        row_bits *set = *sets[i] = carve(&arena, p->n_jobs, sizeof *set);
        for (int64_t j = 0; j < p->n_jobs; j++) {
            row_bits rows = bits_carve(&arena, p->job[j].rows);
            if (set) set[j] = rows;
        }
    }
    return arena.used;
}

/* The cost of a row of a job, by its phase's panels: some stages of a phase share its rows. */
static double row_cost(const phase *ph)
{
    int64_t cost = 0;
    for (hga_id p = 0; p < ph->n_panels; p++) cost += ph->cost ? ph->cost[p] : phase_rows(ph, p);
    return ph->n ? (double)cost / ph->n / (stages_end(ph) - ph->stage) : 0;
}

/* Marks all that the rank computes as left. */
static void begin_division(division *d)
{
    const hga_plan *plan = d->plan;
    for (int64_t j = 0; j < plan->slices->n_jobs; j++)
        d->cost[j] = row_cost(&plan->phases.list[plan->slices->job[j].phase]);
    begin_there(plan, &d->s);
    slice_begin(plan, &d->s);
    for (hga_id b = 0; b < plan->share.ranks->traffic.n_batches; b++) division_request_sent(plan, &d->s, b);
    request_output(plan, &d->s, 0, 1);
    slice_find(plan, &d->s);
    for (int64_t j = 0; j < plan->slices->n_jobs; j++)
        FOR_RUNS(&d->s.run[j], i, end, 0, d->s.run[j].n) bits_put_run(&d->left[j], i, end, &no_bits);
}

/* Finds for each number of received batches the passes that can run then: first those that are sent. */
hga_status rank_passes_make(hga_plan *plan)
{
    hga_status st = HGA_OK;
    division d = {.plan = plan};
    void *memory = NULL;
    hga_id batches = 0;
    int64_t bytes = division_carve(&d, NULL);
    HGA_TRY(hga_new_zero(&plan->memory.allocator, bytes, 1, &memory));
    division_carve(&d, memory);
    begin_division(&d);
    for (hga_id come = 0; come <= plan->share.ranks->traffic.n_batches; come++) {
        division_find_ready(&d, come, NULL);
        if (come == 0) HGA_TRY(division_find_early(&d));
        HGA_TRY(add_batches(&d, come, &batches));
        HGA_TRY(add_ahead(&d, come, batches));
        HGA_TRY(add_ready(&d, come));
    }
done:
    hga_delete(&plan->memory.allocator, memory, bytes, 1);
    return st;
}
