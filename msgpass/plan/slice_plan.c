/* slice_plan.c: what a plan knows for its slices: its jobs, what each accesses, and where in the order an item is; and
   which programs have none. */
#include "carve.h"
#include "plan.h"
#include "slices.h"

static hga_id out_field(const hga_plan *plan) { return program_bound(&plan->program, HGA_IO_OUT); }

/* ---- which rows may be left out ---- */

/* The option that requests rows to be left out or cached. */
static const char *requester(const hga_plan *plan) { return plan_is_shared(plan) ? "ranks" : "options.rows"; }

static hga_status check_plan(const hga_plan *plan)
{
    const char *what = requester(plan);
    if (!out_field(plan)) return hga_fail(HGA_EUNSUPPORTED, "%s: the program has no output", what);
    if (plan->options.keep_fields)
        return hga_fail(HGA_EUNSUPPORTED, "%s: keep_fields keeps every row of every field", what);
    if (rows_stay(plan) && plan->options.gradient && !plan_is_shared(plan))
        return hga_fail(HGA_EUNSUPPORTED, "%s: a gradient needs all that the output is made of, in one call", what);
    return HGA_OK;
}

/* Fields whose rows are written, or left out, together with the output's. */
static uint32_t fields_with_out(const hga_plan *plan)
{
    uint32_t fields = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        if (plan->program.stage[s].writes >> out_field(plan) & 1u) fields |= plan->program.stage[s].writes;
    return fields;
}

/* Nodes that no source may be. */
typedef struct forbidden {
    const hga_plan *plan;
    const row_bits *later; /* NULL: the output's own */
    hga_id node;           /* that was found, -1 */
} forbidden;

/* A visitor of sources that notes a forbidden node. */
static void look_for(void *context, hga_id first, hga_id last)
{
    forbidden *x = context;
    const field_storage *out = &x->plan->fields.storage[out_field(x->plan)];
    if (x->later) {
        int64_t v = bits_next(x->later, first, (int64_t)last + 1);
        if (v <= last) x->node = (hga_id)v;
    } else if (out->io_n && first < out->io_first + out->io_n && last >= out->io_first) {
        x->node = first > out->io_first ? first : out->io_first;
    }
}

/* Refuses phases that read rows which an earlier phase wrote with the output's, at sources that are rows of the
   output. */
static hga_status check_sources(const hga_plan *plan)
{
    const struct slice_plan *p = plan->slices;
    uint64_t fields = fields_with_out(plan), written = 0; /* by phases before */
    for (int64_t j = 0; j < p->n_jobs; j++) {
        const slice_job *job = &p->job[j];
        const phase *ph = &plan->phases.list[job->phase];
        uint64_t reads = (job->of.sources | job->of.sources >> STORAGE_ROUNDED) & fields & written;
        written |= job->of.writes;
        forbidden x = {.plan = plan, .node = -1};
        if (!reads || ph->job > JOB_SPLITS) continue;
        accesses_sources(plan, ph, 0, ph->n, look_for, &x);
        if (x.node >= 0)
            return hga_fail(HGA_EUNSUPPORTED,
                            "%s: stage %d reads field %s at other rows of the output, which cannot be left out",
                            requester(plan), job->stage, plan->program.field[__builtin_ctzll(reads)].name);
    }
    return HGA_OK;
}

/* ---- which rows may be cached ---- */

/* The nodes of the rows that a job writes, or of those that it merges. */
static void put_job_nodes(const hga_plan *plan, const phase *ph, row_bits *to)
{
    int in_order = ph->job != JOB_MERGE && ph->job != JOB_SPLITS && !ph->by_position;
    if (in_order) bits_put_run(to, ph->first, ph->first + ph->n, &no_bits);
    for (hga_id i = 0; !in_order && i < ph->n; i++) bits_put(to, phase_node(plan, ph, i));
}

/* Names the reader of the row: rounding is for later stages. */
static hga_status refuse_row(const hga_plan *plan, const slice_job *job, hga_id storage, hga_id v)
{
    const char *name = plan->program.field[storage % HGA_FIELD_SLOTS].name, *what = requester(plan);
    if (plan->phases.list[job->phase].job == JOB_ROUND)
        return hga_fail(HGA_EUNSUPPORTED, "%s: field %s is rounded at node %d before a later stage writes it", what,
                        name, v);
    return hga_fail(HGA_EUNSUPPORTED, "%s: stage %d reads field %s at node %d before a later one writes it", what,
                    plan->phases.list[job->phase].job > JOB_MERGE ? -1 : job->stage, name, v);
}

/* Cached rows of a storage are as the last phase left them; so no other phase may read them as they were before a later
   write, except those that write them. The caller's rows are never cached, except on ranks, where all passes of a call
   share them. From the last phase back, `later` are the nodes that later phases write. */
static hga_status check_storage(const hga_plan *plan, hga_id storage, row_bits *later)
{
    const struct slice_plan *p = plan->slices;
    for (int64_t j = p->n_jobs - 1; j >= 0; j--) {
        const slice_job *job = &p->job[j];
        const phase *ph = &plan->phases.list[job->phase];
        forbidden x = {.plan = plan, .later = later, .node = -1};
        int own = job->of.own >> storage & 1 && !(job->of.writes >> storage & 1);
        if (job->of.sources >> storage & 1) accesses_sources(plan, ph, 0, ph->n, look_for, &x);
        for (hga_id i = 0; own && x.node < 0 && i < ph->n; i++) {
            hga_id v = phase_node(plan, ph, i);
            if (bits_have(later, v)) x.node = v;
        }
        if (x.node >= 0 && (plan_is_shared(plan) || !slice_is_input(plan, storage, x.node)))
            return refuse_row(plan, job, storage, x.node);
        if (job->of.writes >> storage & 1) put_job_nodes(plan, ph, later);
    }
    return HGA_OK;
}

/* Refuses programs in which a phase reads rows of a cached storage before a later phase writes them. */
static hga_status check_cached(const hga_plan *plan)
{
    void *memory = NULL;
    carver measure = {0};
    row_bits later;
    bits_carve(&measure, plan->nodes.n);
    hga_status st = hga_new_zero(&plan->memory.allocator, measure.used, 1, &memory);
    later = bits_carve(&(carver){.base = memory}, plan->nodes.n);
    for (hga_id s = 0; !st && s < N_STORAGES; s++) {
        if (!(plan->slices->listed >> s & 1)) continue;
        bits_clear(&later);
        st = check_storage(plan, s, &later);
    }
    hga_delete(&plan->memory.allocator, memory, measure.used, 1);
    return st;
}

/* ---- making ---- */

/* The storages whose needed nodes become rows of the job. Splits write no storage of their own: they serve those that
   write their rows. */
static uint64_t filled_by(const hga_plan *plan, const phase *ph, hga_id stage, uint64_t writes)
{
    if (ph->job == JOB_LSE) return UINT64_C(1) << stage;
    return ph->job == JOB_SPLITS ? plan->program.stage[stage].writes : writes;
}

static int runs_by_node(const hga_plan *plan, const phase *ph)
{
    if (ph->by_position || ph->job == JOB_SPLITS || ph->job == JOB_MERGE) return 0;
    return ph->job > JOB_MERGE || !plan->stage[ph->stage].n_long;
}

/* Lists a job for each stage of a phase, with the storages that it accesses. */
static hga_status list_jobs(hga_plan *plan, struct slice_plan *p)
{
    for (int64_t i = 0; i < plan->phases.n; i++) {
        phase *ph = &plan->phases.list[i];
        ph->jobs_at = p->n_jobs, ph->items_at = p->n_items;
        p->n_jobs += stages_end(ph) - ph->stage, p->n_items += count_items(ph);
    }
    hga_status st = hga_new(&plan->memory.allocator, p->n_jobs, sizeof *p->job, &p->job);
    for (int64_t i = 0; !st && i < plan->phases.n; i++) {
        const phase *ph = &plan->phases.list[i];
        for (hga_id s = ph->stage; s < stages_end(ph); s++) {
            storages_touched t = accesses_touched(plan, ph, s);
            p->job[slice_job_of(ph, s)] = (slice_job){.phase = (hga_id)i,
                                                      .stage = s,
                                                      .of = t,
                                                      .fills = filled_by(plan, ph, s, t.writes),
                                                      .by_node = runs_by_node(plan, ph),
                                                      .rows = ph->n};
            p->touched |= t.sources | t.own | t.writes, p->listed |= t.writes;
        }
    }
    if (!rows_stay(plan)) p->listed = 0;
    return st;
}

static hga_status list_items(hga_plan *plan, struct slice_plan *p)
{
    hga_status st = hga_new(&plan->memory.allocator, p->n_items, sizeof *p->when, &p->when);
    for (int64_t i = 0; !st && i < plan->waves.n_items; i++) {
        wave_item x = plan->waves.item[i];
        const phase *ph = &plan->phases.list[x.phase];
        p->when[ph->items_at + (int64_t)x.panel * head_ranges(ph) + x.head_range] = i;
    }
    return st;
}

/* Carves a slice's sets of rows: of each storage those needed and those present, of each job those that run; and
   items. */
static void carve_slice(const hga_plan *plan, carver *arena, slice *s)
{
    const struct slice_plan *p = plan->slices;
    for (hga_id i = 0; i < N_STORAGES; i++) {
        s->needed[i] = p->touched >> i & 1 ? bits_carve(arena, plan->nodes.n) : no_bits;
        s->there[i] = p->listed >> i & 1 ? bits_carve(arena, plan->nodes.n) : no_bits;
    }
    s->jobs = bits_carve(arena, p->n_jobs);
    s->run = carve(arena, p->n_jobs, sizeof *s->run);
    s->made = carve(arena, p->n_jobs, sizeof *s->made);
    for (int64_t j = 0; j < p->n_jobs; j++) {
        int makes = plan_is_shared(plan) && plan->phases.list[p->job[j].phase].job == JOB_SPLITS;
        row_bits rows = bits_carve(arena, p->job[j].rows), made = makes ? bits_carve(arena, p->job[j].rows) : no_bits;
        if (s->run) s->run[j] = rows, s->made[j] = made;
    }
    s->items = bits_carve(arena, p->n_items);
}

void slice_open(const hga_plan *plan, slice *s, void *memory) { carve_slice(plan, &(carver){.base = memory}, s); }

/* For plans with options.rows: lists jobs and items, measures slices, and refuses programs whose rows cannot be left
   out. */
hga_status slices_make(hga_plan *plan)
{
    if (!plan->options.rows) return HGA_OK;
    slice measured;
    carver arena = {0};
    hga_status st = check_plan(plan);
    if (st) return st;
    HGA_TRY(hga_new_zero(&plan->memory.allocator, 1, sizeof *plan->slices, &plan->slices));
    HGA_TRY(list_jobs(plan, plan->slices));
    HGA_TRY(list_items(plan, plan->slices));
    carve_slice(plan, &arena, &measured);
    plan->slices->bytes = arena.used;
    HGA_TRY(check_sources(plan));
    HGA_TRY(check_cached(plan));
done:
    return st;
}

void slices_clear(hga_plan *plan)
{
    struct slice_plan *p = plan->slices;
    if (!p) return;
    hga_delete(&plan->memory.allocator, p->job, p->n_jobs, sizeof *p->job);
    hga_delete(&plan->memory.allocator, p->when, p->n_items, sizeof *p->when);
    hga_delete(&plan->memory.allocator, p, 1, sizeof *p);
    plan->slices = NULL;
}

int64_t slices_bytes(const hga_plan *plan) { return plan->slices ? plan->slices->bytes : 0; }

int slice_is_input(const hga_plan *plan, hga_id storage, hga_id v)
{
    const field_storage *h = &plan->fields.storage[storage % HGA_FIELD_SLOTS];
    return v >= h->io_first && v - h->io_first < h->io_n;
}
