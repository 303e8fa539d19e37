/* rank_ready.c: which of a rank's rows need nothing that has not been received. What reads a late row is late
   itself, phase after phase. */
#include "plan.h"
#include "rank_division.h"

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

/* A row that is written over a late one is late, too. */
static int is_late(const hga_plan *plan, const slice *s, const slice_job *job, hga_id i)
{
    const phase *ph = &plan->phases.list[job->phase];
    source_watch sources = {s, job->of.sources, 0}, own = {s, job->of.own | job->of.writes, 0};
    hga_id v = phase_node(plan, ph, i);
    watch(&own, v, v);
    if (!own.late && ph->job <= JOB_SPLITS && sources.storages) accesses_sources(plan, ph, i, 1, watch, &sources);
    return own.late || sources.late;
}

static void put_late_row(slice *s, uint64_t by, hga_id v)
{
    for (; by; by &= by - 1)
        if (s->needed[__builtin_ctzll(by)].n) bits_put(&s->needed[__builtin_ctzll(by)], v);
}

/* A late split makes its row late, which another phase merges. */
static void put_late(const hga_plan *plan, slice *s, const slice_job *job, hga_id v)
{
    const phase *ph = &plan->phases.list[job->phase];
    uint64_t by = ph->job == JOB_SPLITS ? plan->program.stage[job->stage].writes : job->of.writes;
    put_late_row(s, by, v);
}

/* Marks rows of other ranks, or rows that are made of their splits, as late. */
static void put_part(const hga_plan *plan, slice *s, const rank_part *p)
{
    const stage_plan *of = &plan->stage[p->stage];
    if (!p->field)
        put_late_row(s, plan->program.stage[p->stage].writes, node_at(of, long_row_of(of, p->first)->position));
    else if (s->needed[p->field].n)
        bits_put_run(&s->needed[p->field], p->first, (int64_t)p->first + p->n, &no_bits);
}

void division_request_sent(const hga_plan *plan, slice *s, hga_id batch)
{
    const struct rank_plan *r = plan->share.ranks;
    const rank_batch *b = &r->traffic.batch[batch];
    for (int64_t i = b->send; i < b->send + b->n_send; i++) {
        const rank_message *m = &r->traffic.message[i];
        for (const rank_part *p = r->traffic.part + m->part; p < r->traffic.part + m->part + m->n_parts; p++)
            p->field ? slice_request_nodes(s, p->field, p->first, p->n)
                     : slice_request_splits(plan, s, p->stage, p->first, p->n);
    }
}

/* The slice's needed rows become those that batches from `first` on receive. */
static void put_received(const hga_plan *plan, slice *s, hga_id first)
{
    const struct rank_plan *r = plan->share.ranks;
    for (int i = 0; i < N_STORAGES; i++)
        if (s->needed[i].n) bits_clear(&s->needed[i]);
    for (int64_t b = first; b < r->traffic.n_batches; b++) {
        const rank_batch *batch = &r->traffic.batch[b];
        for (int64_t i = batch->receive; i < batch->receive + batch->n_receive; i++) {
            const rank_message *m = &r->traffic.message[i];
            for (const rank_part *p = r->traffic.part + m->part; p < r->traffic.part + m->part + m->n_parts; p++)
                put_part(plan, s, p);
        }
    }
}

/* Rows outside `among` count as late: so do rows that need them. */
void division_find_ready(division *d, hga_id batch, const row_bits *among)
{
    const hga_plan *plan = d->plan;
    put_received(plan, &d->s, batch);
    for (int64_t j = 0; j < plan->slices->n_jobs; j++) {
        const slice_job *job = &plan->slices->job[j];
        bits_clear(&d->ready[j]);
        FOR_RUNS(&d->left[j], i, end, 0, job->rows)
        {
            for (int64_t k = i; k < end; k++)
                if ((among && !bits_have(&among[j], k)) || is_late(plan, &d->s, job, (hga_id)k))
                    put_late(plan, &d->s, job, phase_node(plan, &plan->phases.list[job->phase], (hga_id)k));
                else
                    bits_put(&d->ready[j], k);
        }
    }
}
