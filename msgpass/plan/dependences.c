/* dependences.c: the panels on which a panel depends. The last reader and writer of each bucket of rows are stored as a
   stamp: of several, the latest wave, and in it the latest along the tokens, where one thread was alone. Nothing is
   needed of earlier waves: a panel of the latest one's thread may join it, any other runs a wave later. */
#include "interrupt.h"
#include "stage_plan.h"
#include "schedule.h"

const stamp never = {.wave = -1};

/* *all becomes the later of both, the stamp to wait for. */
static void wait_for(stamp *all, const stamp *one)
{
    if (one->wave < all->wave) return;
    if (one->wave > all->wave) {
        *all = *one;
        return;
    }
    if (one->owner != all->owner) all->owner = SEVERAL;
    if (one->at > all->at) all->at = one->at;
}

static void wait_for_trace(stamp *all, const trace *t, hga_id number)
{
    wait_for(all, t->phase == number ? &t->before : &t->all);
}

/* A panel, and the latest stamp on which it depends. */
typedef struct waiting {
    const dependences *on;
    hga_id phase;
    stamp after;
} waiting;

/* Reads depend on writers; writes on readers, too. */
static void await(void *context, int writes, int64_t first, int64_t last)
{
    waiting *w = context;
    for (int64_t t = first; t <= last; t++) wait_for_trace(&w->after, &w->on->written[t], w->phase);
    for (int64_t t = first; writes && t <= last; t++) wait_for_trace(&w->after, &w->on->read[t], w->phase);
}

stamp dependences_of(const dependences *d, accesses *a, const phase_accesses *waits, hga_id number, hga_id panel)
{
    waiting w = {d, number, never};
    accesses_visit(a, waits, panel, await, &w);
    return w.after;
}

void dependences_note(dependences *d, hga_id number, const stamp *mine, int writes, int64_t first, int64_t last)
{
    for (trace *t = (writes ? d->written : d->read) + first, *end = t + (last - first + 1); t < end; t++) {
        if (t->phase != number) t->before = t->all, t->phase = number;
        wait_for(&t->all, mine);
    }
}

hga_status dependences_open(const hga_allocator *a, int64_t n, dependences *d)
{
    hga_status st = HGA_OK;
    d->n = n;
    HGA_TRY(hga_new(a, n, sizeof *d->read, &d->read));
    HGA_TRY(hga_new(a, n, sizeof *d->written, &d->written));
    for (int64_t i = 0; i < n; i++) {
        d->read[i] = d->written[i] = (trace){never, never, -1};
        HGA_TRY(interrupted_at(i));
    }
done:
    return st;
}

void dependences_close(const hga_allocator *a, dependences *d)
{
    hga_delete(a, d->read, d->n, sizeof *d->read);
    hga_delete(a, d->written, d->n, sizeof *d->written);
}
