/* slack.c: panels on which no other depends at once may run in a later wave. A thread with more work in a wave than the
   others, which then wait for it, moves such panels to waves in which it would wait for them. Panels are visited from
   the last to the first, so that those which depend on a panel have settled. */
#include "interrupt.h"
#include "slack.h"
#include "plan.h"
#include "schedule.h"

/* When later phases first use a bucket: the wave, and in it the first along the tokens, where one thread is alone. */
typedef struct next_use {
    stamp beyond, all; /* the phases beyond `phase`, and with that one */
    hga_id phase;
} next_use;

typedef struct slack {
    const hga_plan *plan;
    hga_id n_waves;
    next_use *read, *written; /* [n_buckets] */
    int64_t n_buckets;
    int64_t *cost, *most; /* [n_waves][threads]; [n_waves]: the longest of them */
} slack;

/* The current panel. */
typedef struct moving {
    slack *s;
    hga_id phase;
    stamp mine, before; /* before: the stamp before which it must have run */
} moving;

/* *all becomes the earlier of both, the stamp to precede. */
static void come_before(stamp *all, const stamp *one)
{
    if (one->wave > all->wave) return;
    if (one->wave < all->wave) {
        *all = *one;
        return;
    }
    if (one->owner != all->owner) all->owner = SEVERAL;
    if (one->at < all->at) all->at = one->at;
}

static const stamp *next_stamp(const next_use *u, hga_id number) { return u->phase == number ? &u->beyond : &u->all; }

/* A panel that reads must precede later writes; one that writes, later reads and writes. */
static void find_limit(void *context, int writes, int64_t first, int64_t last)
{
    moving *m = context;
    for (int64_t b = first; b <= last; b++) {
        come_before(&m->before, next_stamp(&m->s->written[b], m->phase));
        if (writes) come_before(&m->before, next_stamp(&m->s->read[b], m->phase));
    }
}

static void note_use(void *context, int writes, int64_t first, int64_t last)
{
    const moving *m = context;
    for (next_use *u = (writes ? m->s->written : m->s->read) + first, *end = u + (last - first + 1); u < end; u++) {
        if (u->phase != m->phase) u->beyond = u->all, u->phase = m->phase;
        come_before(&u->all, &m->mine);
    }
}

static int64_t longest(const slack *s, hga_id wave)
{
    int64_t most = 0;
    for (hga_id t = 0; t < s->plan->team.n; t++) {
        int64_t cost = s->cost[(int64_t)wave * s->plan->team.n + t];
        if (cost > most) most = cost;
    }
    return most;
}

/* Moves a panel to the first wave where its thread has time for it, if other threads wait for the thread in its
   wave. */
static void settle_wave(slack *s, entry *e, const stamp *before)
{
    hga_id threads = s->plan->team.n, here = e->when.wave;
    int precedes = before->owner == e->when.owner && e->when.at <= before->at; /* on its thread, in the same wave */
    int64_t each = item_cost(&s->plan->phases.list[e->item.phase], e->item.panel);
    int64_t *mine = s->cost + e->when.owner;
    if (mine[(int64_t)here * threads] < s->most[here]) return;
    for (hga_id w = here + 1; w < before->wave + precedes; w++) {
        if (mine[(int64_t)w * threads] + each > s->most[w]) continue;
        mine[(int64_t)here * threads] -= each, mine[(int64_t)w * threads] += each;
        s->most[here] = longest(s, here);
        e->when.wave = w;
        return;
    }
}

/* From the last panel to the first: moves each where that helps; its stamp limits those before it. */
static hga_status settle_all(slack *s, accesses *a, entry *entries, int64_t n)
{
    phase_accesses waits = {0}, tells = {0};
    hga_status st = HGA_OK;
    for (int64_t i = n - 1; i >= 0 && !st; i--) {
        entry *e = &entries[i];
        hga_id number = e->item.phase;
        moving m = {s, number, never, {s->n_waves, SEVERAL, 0}};
        if (i == n - 1 || number != entries[i + 1].item.phase)
            waits = accesses_of(a, number, 0), tells = accesses_of(a, number, 1);
        accesses_visit(a, &tells, e->item.panel, find_limit, &m);
        settle_wave(s, e, &m.before);
        m.mine = e->when;
        accesses_visit(a, &waits, e->item.panel, note_use, &m);
        st = interrupted();
    }
    return st;
}

/* Sums the costs of all shares; returns whether waves have at least 2 % of idle time. */
static int measure_shares(slack *s, const entry *entries, int64_t n)
{
    hga_id threads = s->plan->team.n;
    int64_t all = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t each = item_cost(&s->plan->phases.list[entries[i].item.phase], entries[i].item.panel);
        s->cost[(int64_t)entries[i].when.wave * threads + entries[i].when.owner] += each, all += each;
    }
    for (hga_id w = 0; w < s->n_waves; w++) sum += s->most[w] = longest(s, w);
    return (double)sum * threads > 1.02 * (double)all;
}

/* *moved: panels were tried, which needs several threads and waves that keep them waiting. */
hga_status slack_use(accesses *a, entry *entries, int64_t n, int *moved)
{
    const hga_allocator *x = &a->plan->memory.allocator;
    slack s = {.plan = a->plan, .n_buckets = a->n_buckets};
    hga_status st = HGA_OK;
    *moved = 0;
    for (int64_t i = 0; i < n; i++)
        if (entries[i].when.wave >= s.n_waves) s.n_waves = entries[i].when.wave + 1;
    if (s.plan->team.n == 1 || s.n_waves < 2) return HGA_OK;
    int64_t shares = (int64_t)s.n_waves * s.plan->team.n;
    HGA_TRY(hga_new_zero(x, shares, sizeof *s.cost, &s.cost));
    HGA_TRY(hga_new(x, s.n_waves, sizeof *s.most, &s.most));
    if (!measure_shares(&s, entries, n)) goto done;
    HGA_TRY(hga_new(x, s.n_buckets, sizeof *s.read, &s.read));
    HGA_TRY(hga_new(x, s.n_buckets, sizeof *s.written, &s.written));
    const stamp end = {s.n_waves, SEVERAL, 0};
    for (int64_t b = 0; b < s.n_buckets; b++) {
        s.read[b] = s.written[b] = (next_use){end, end, -1};
        HGA_TRY(interrupted_at(b));
    }
    HGA_TRY(settle_all(&s, a, entries, n));
    *moved = 1;
done:
    hga_delete(x, s.cost, shares, sizeof *s.cost);
    hga_delete(x, s.most, s.n_waves, sizeof *s.most);
    hga_delete(x, s.read, s.n_buckets, sizeof *s.read);
    hga_delete(x, s.written, s.n_buckets, sizeof *s.written);
    return st;
}
