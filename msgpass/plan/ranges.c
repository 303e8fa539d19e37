/* ranges.c: which panels an execution needs that is asked for some rows of the output alone. What a panel reads is
   needed as soon as something that it writes is, so one pass against the program's order finds all of them. */
#include "schedule.h"

#include <string.h>

static hga_id out_field(const hga_plan *plan) { return program_bound(&plan->program, HGA_IO_OUT); }

static int writes_out(const hga_plan *plan, const phase *ph)
{
    uint32_t out = 1u << out_field(plan);
    uint32_t writes = 0;
    for (hga_id s = ph->stage; ph->job <= JOB_MERGE && s < stages_end(ph); s++) writes |= plan->program.stage[s].writes;
    return (ph->job == JOB_ROWS || ph->job == JOB_MERGE) && writes & out;
}

/* ---- may rows be left out? ---- */

/* Buckets of the caller's rows of a field, of which no source may be one. */
typedef struct forbidden {
    int64_t first, last;
    int found;
} forbidden;

static void look_for(void *context, int writes, int64_t first, int64_t last)
{
    forbidden *f = context;
    f->found |= !writes && first <= f->last && last >= f->first;
}

/* Fields whose rows are written, or left alone, together with the output's. */
static uint32_t fields_with_out(const hga_plan *plan)
{
    uint32_t fields = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        if (plan->program.stage[s].writes >> out_field(plan) & 1u) fields |= plan->program.stage[s].writes;
    return fields;
}

/* Does a panel of the phase read field f at sources that are rows of the output? */
static int reads_rows(accesses *a, hga_id number, hga_id f)
{
    const hga_plan *plan = a->plan;
    const field_storage *out = &plan->storage[out_field(plan)];
    phase_accesses of = accesses_of(a, number, 0);
    hga_id i = 0;
    if (a->at[f + 1] == a->at[f] || out->io_n == 0) return 0; /* no buckets: no phase reads it behind another */
    while (i < of.sources.n && of.sources.at[i] != a->at[f]) i++;
    if (i == of.sources.n) return 0;
    forbidden x = {accesses_bucket(a, f, out->io_first), accesses_bucket(a, f, out->io_first + out->io_n - 1), 0};
    of.sources = (row_sets){.at = {a->at[f]}, .n = 1}, of.own.n = of.writes.n = 0;
    for (hga_id p = 0; p < of.of->n_panels && !x.found; p++) accesses_visit(a, &of, p, look_for, &x);
    return x.found;
}

static hga_status check_sources(accesses *a)
{
    const hga_plan *plan = a->plan;
    uint32_t fields = fields_with_out(plan);
    for (int64_t i = 0; i < plan->n_phases; i++)
        for (hga_id f = 1; f <= plan->program.n_fields && plan->phase[i].job <= JOB_PIECES; f++)
            if (fields >> f & 1u && reads_rows(a, (hga_id)i, f))
                return hga_fail(HGA_EUNSUPPORTED,
                                "ranges: stage %d reads field %s at other rows of the output, which cannot be left out",
                                plan->phase[i].stage, plan->program.field[f].name);
    return HGA_OK;
}

static hga_status check_plan(const hga_plan *plan)
{
    if (!out_field(plan)) return hga_fail(HGA_EUNSUPPORTED, "ranges: the program has no output");
    if (plan->options.keep_fields)
        return hga_fail(HGA_EUNSUPPORTED, "ranges: keep_fields keeps every row of every field");
    return HGA_OK;
}

hga_status ranges_make(hga_plan *plan)
{
    int64_t n = 0;
    for (int64_t i = 0; i < plan->n_phases; i++) plan->phase[i].panels_at = n, n += plan->phase[i].n_panels;
    plan->n_panels = n;
    if (!plan->options.ranges) return HGA_OK;
    hga_status st = check_plan(plan);
    if (st) return st;
    st = hga_new_zero(&plan->allocator, 1, sizeof *plan->ranged, &plan->ranged);
    if (st) return st;
    accesses *a = plan->ranged;
    st = accesses_open(a, plan);
    return st ? st : check_sources(a);
}

void ranges_clear(hga_plan *plan)
{
    if (!plan->ranged) return;
    plan->ranged->plan = plan; /* which an update may have moved */
    accesses_close(plan->ranged);
    hga_delete(&plan->allocator, plan->ranged, 1, sizeof *plan->ranged);
    plan->ranged = NULL;
}

/* ---- an execution's ---- */

int64_t ranges_bytes(const hga_plan *plan) { return plan->ranged ? plan->n_panels + plan->ranged->n_buckets : 0; }

/* Which buckets somebody needs; is there one among the panel's? */
typedef struct needing {
    uint8_t *bucket;
    int found;
} needing;

static void look_up(void *context, int writes, int64_t first, int64_t last)
{
    needing *n = context;
    for (int64_t b = first; writes && !n->found && b <= last; b++) n->found = n->bucket[b];
}

static void ask_for(void *context, int writes, int64_t first, int64_t last)
{
    needing *n = context;
    if (!writes) memset(n->bucket + first, 1, (size_t)(last - first + 1));
}

/* Has the panel one of nodes [first, first + n) among its rows? */
static int has_nodes(const hga_plan *plan, const phase *ph, hga_id panel, hga_id first, hga_id n)
{
    hga_id begin = panel * ph->panel, rows = phase_rows(ph, panel);
    int in_order = ph->job != JOB_MERGE && !ph->by_position;
    if (in_order) return ph->first + begin < first + n && ph->first + begin + rows > first;
    for (hga_id i = begin; i < begin + rows; i++) {
        hga_id v = phase_node(plan, ph, i);
        if (v >= first && v - first < n) return 1;
    }
    return 0;
}

/* As the caller writes it: by two numbers, 0 0 being all, or by a list. */
static hga_status read_asked(const hga_io *io, long long *first, long long *n)
{
    const hga_rows *rows = io->rows;
    *first = io->first_row, *n = io->n_rows;
    if (!rows) return HGA_OK;
    hga_status st = hga_check_reserved("hga_rows", rows->reserved, sizeof rows->reserved);
    if (st) return st;
    if (io->first_row || io->n_rows)
        return hga_fail(HGA_EINVAL, "rows %lld + %lld are asked for, and hga_io.rows as well", *first, *n);
    if (rows->n_intervals < 1 || !rows->interval)
        return hga_fail(HGA_EINVAL, "hga_rows has %lld intervals%s", (long long)rows->n_intervals,
                        rows->interval ? "" : ", which are missing");
    if (rows->n_intervals > 1)
        return hga_fail(HGA_EUNSUPPORTED, "hga_rows has %lld intervals; an execution takes one",
                        (long long)rows->n_intervals);
    *first = rows->interval->first, *n = rows->interval->n;
    return *n < 1 ? hga_fail(HGA_EINVAL, "rows %lld + %lld are asked for", *first, *n) : HGA_OK;
}

hga_status ranges_asked(const hga_plan *plan, const hga_io *io, hga_id *first, hga_id *n)
{
    long long asked, many;
    hga_status st = read_asked(io, &asked, &many);
    *first = 0, *n = plan->storage[out_field(plan)].io_n;
    if (st || (asked == 0 && many == 0)) return st;
    if (!plan->ranged)
        return hga_fail(HGA_EINVAL, "rows %lld + %lld are asked for, but the plan was made without options.ranges",
                        asked, many);
    if (asked < 0 || many < 1 || asked > *n - many)
        return hga_fail(HGA_EINVAL, "rows %lld + %lld are asked for, but the output has %d", asked, many, *n);
    *first = (hga_id)asked, *n = (hga_id)many;
    return HGA_OK;
}

void ranges_find(const hga_plan *plan, hga_id first, hga_id n, uint8_t *memory)
{
    accesses a = *plan->ranged; /* which remembers where it looked last */
    needing x = {.bucket = memory + plan->n_panels};
    memset(memory, 0, (size_t)ranges_bytes(plan));
    a.plan = plan;
    first += plan->storage[out_field(plan)].io_first;
    for (hga_id i = (hga_id)plan->n_phases - 1; i >= 0; i--) {
        const phase *ph = &plan->phase[i];
        /* whoever writes a row asks for what it needs; its log-sum-exp is copied beside others that nobody asked for */
        int ends = ph->job == JOB_LSE || writes_out(plan, ph), asks = ph->job != JOB_LSE;
        phase_accesses tells = accesses_of(&a, i, 1), waits = accesses_of(&a, i, 0);
        tells.sources.n = tells.own.n = waits.writes.n = 0;
        for (hga_id p = 0; p < ph->n_panels; p++) {
            x.found = ends && has_nodes(plan, ph, p, first, n);
            if (!x.found) accesses_visit(&a, &tells, p, look_up, &x);
            memory[ph->panels_at + p] = (uint8_t)x.found;
            if (x.found && asks) accesses_visit(&a, &waits, p, ask_for, &x);
        }
    }
}
