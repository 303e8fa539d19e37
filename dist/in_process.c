/* in_process.c: ranks that are threads of one process. A message is copied when it starts and stays in its receiver's
   queue until it is received, so sending never blocks. All ranks share one lock: this is for tests and simulations. */
#include "hga_dist.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The channel of gathers, which callers cannot use. */
enum { GATHERS = -1 };

/* A message from its start until it is received. */
typedef struct parcel {
    hga_id from;
    int channel;
    int64_t bytes;
    double due; /* arrival time, monotonic clock */
    void *data;
    struct parcel *next;
} parcel;

/* The messages that a channel of a rank waits for. */
typedef struct pending {
    int channel, open;
    hga_packet *receive; /* [n], in the order passed to `start` */
    int64_t n, capacity;
} pending;

typedef struct hub hub;

typedef struct end {
    hub *of;
    hga_id rank;
    int closed;
    parcel *first, **last; /* queue of arrived messages, in order */
    pending *pending;      /* [n]: by channel, reused by the next start */
    int64_t n, capacity;
    uint64_t stream; /* random state of the delays */
    hga_dist_counts counts;
} end;

struct hub {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    hga_allocator allocator;
    hga_dist_wire wire;
    hga_id n_ranks, open;
    hga_id failed_rank;
    hga_status failed;
    char why[400]; /* the error's text */
    end *ends;     /* [n_ranks] */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* splitmix64, a number in [0, 1) */
static double draw_number(uint64_t *stream)
{
    uint64_t z = *stream += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static double delay_of(end *e)
{
    const hga_dist_wire *w = &e->of->wire;
    return w->most_delay > w->delay ? w->delay + draw_number(&e->stream) * (w->most_delay - w->delay) : w->delay;
}

/* ---- parcels; the caller holds the lock ---- */

static void parcel_delete(const hub *h, parcel *p)
{
    hga_delete(&h->allocator, p->data, p->bytes, 1);
    hga_delete(&h->allocator, p, 1, sizeof *p);
}

/* Copies a message into its receiver's queue, where it becomes available after the wire's delay. */
static hga_status post(end *from, int channel, const hga_packet *m)
{
    hga_status st = HGA_OK;
    hub *h = from->of;
    end *to = &h->ends[m->rank];
    parcel *p = NULL;
    HGA_TRY(hga_new_zero(&h->allocator, 1, sizeof *p, &p));
    *p = (parcel){.from = from->rank, .channel = channel, .bytes = m->bytes};
    p->due = h->wire.delay > 0 || h->wire.most_delay > 0 ? now() + delay_of(from) : 0;
    HGA_TRY(hga_new(&h->allocator, m->bytes, 1, &p->data));
    if (m->bytes) memcpy(p->data, m->data, (size_t)m->bytes);
    *to->last = p, to->last = &p->next;
    return st;
done:
    if (p) hga_delete(&h->allocator, p, 1, sizeof *p);
    return st;
}

/* The link to the first parcel of a sender on a channel; NULL if there is none. */
static parcel **find_parcel(end *e, hga_id from, int channel)
{
    for (parcel **at = &e->first; *at; at = &(*at)->next)
        if ((*at)->from == from && (*at)->channel == channel) return at;
    return NULL;
}

static void take_parcel(end *e, parcel **at)
{
    parcel *p = *at;
    *at = p->next;
    if (e->last == &p->next) e->last = at;
    parcel_delete(e->of, p);
}

/* ---- pending receives; the caller holds the lock ---- */

static pending *find_pending(const end *e, int channel)
{
    for (int64_t i = 0; i < e->n; i++)
        if (e->pending[i].channel == channel) return &e->pending[i];
    return NULL;
}

/* Registers the messages that the channel waits for. */
static hga_status open_pending(end *e, int channel, const hga_packet *receive, hga_id n)
{
    hga_status st = HGA_OK;
    const hga_allocator *a = &e->of->allocator;
    pending *p = find_pending(e, channel);
    if (!p) {
        HGA_TRY(hga_grow(a, &e->pending, &e->capacity, e->n, e->n + 1, sizeof *e->pending));
        p = &e->pending[e->n++];
        *p = (pending){.channel = channel};
    }
    HGA_TRY(hga_grow(a, &p->receive, &p->capacity, 0, n, sizeof *p->receive));
    if (n) memcpy(p->receive, receive, (size_t)n * sizeof *receive);
    p->n = n, p->open = 1;
done:
    return st;
}

/* The time at which the last of its messages arrives; -1: one has not been sent, by *missing. The k-th message received
   from a rank is the k-th that it sent. */
static double whole_at(const end *e, const pending *p, hga_id *missing)
{
    double last = 0;
    for (int64_t i = 0; i < p->n; i++) {
        int64_t before = 0;
        const parcel *x = e->first;
        for (int64_t k = 0; k < i; k++) before += p->receive[k].rank == p->receive[i].rank;
        for (; x; x = x->next)
            if (x->from == p->receive[i].rank && x->channel == p->channel && before-- == 0) break;
        if (!x) {
            *missing = p->receive[i].rank;
            return -1;
        }
        if (x->due > last) last = x->due;
    }
    return last;
}

/* Copies the channel's messages, which have all arrived, to their destinations. */
static hga_status take_all(end *e, pending *p)
{
    p->open = 0;
    for (int64_t i = 0; i < p->n; i++) {
        const hga_packet *m = &p->receive[i];
        parcel **at = find_parcel(e, m->rank, p->channel);
        if ((*at)->bytes != m->bytes)
            return hga_fail(HGA_EINVAL, "rank %d waits for %lld bytes from rank %d, which sent %lld", e->rank,
                            (long long)m->bytes, m->rank, (long long)(*at)->bytes);
        if (m->bytes) memcpy(m->data, (*at)->data, (size_t)m->bytes);
        take_parcel(e, at);
    }
    return HGA_OK;
}

static hga_status say_failed(const hub *h)
{
    return hga_fail(h->failed, "rank %d of %d has failed: %s", h->failed_rank, h->n_ranks, h->why);
}

/* Waits for a change, or until `due` (< 0: unknown). */
static void wait_for_change(hub *h, double due)
{
    if (due < 0) {
        pthread_cond_wait(&h->changed, &h->lock);
        return;
    }
    struct timespec t = {.tv_sec = (time_t)due, .tv_nsec = (long)((due - (double)(time_t)due) * 1e9)};
    pthread_cond_timedwait(&h->changed, &h->lock, &t);
}

/* ---- the functions of an end ---- */

static hga_status check_message(const end *e, const char *way, const hga_packet *m)
{
    if (m->rank < 0 || m->rank >= e->of->n_ranks || m->rank == e->rank)
        return hga_fail(HGA_EINVAL, "rank %d of %d cannot %s rank %d", e->rank, e->of->n_ranks, way, m->rank);
    if (m->bytes < 0 || (m->bytes && !m->data))
        return hga_fail(HGA_EINVAL, "%lld bytes that rank %d is to %s rank %d %s", (long long)m->bytes, e->rank, way,
                        m->rank, m->bytes < 0 ? "are none" : "have no memory");
    return HGA_OK;
}

static hga_status check_start(const end *e, int channel, const hga_packet *send, hga_id n_send,
                              const hga_packet *receive, hga_id n_receive)
{
    const pending *p = find_pending(e, channel);
    hga_status st = HGA_OK;
    if (p && p->open) return hga_fail(HGA_EINVAL, "rank %d begins channel %d again before its wait", e->rank, channel);
    for (hga_id i = 0; !st && i < n_send; i++) st = check_message(e, "send to", &send[i]);
    for (hga_id i = 0; !st && i < n_receive; i++) st = check_message(e, "receive from", &receive[i]);
    return st;
}

/* Checks the messages, registers receives and posts sends. */
static hga_status start_locked(end *e, int channel, const hga_packet *send, hga_id n_send, const hga_packet *receive,
                               hga_id n_receive)
{
    hga_status st = HGA_OK;
    hub *h = e->of;
    if (h->failed) return say_failed(h);
    HGA_TRY(check_start(e, channel, send, n_send, receive, n_receive));
    for (hga_id i = 0; h->wire.fill && i < n_receive; i++)
        if (receive[i].bytes) memset(receive[i].data, 0xff, (size_t)receive[i].bytes);
    HGA_TRY(open_pending(e, channel, receive, n_receive));
    for (hga_id i = 0; i < n_send; i++) HGA_TRY(post(e, channel, &send[i]));
    pthread_cond_broadcast(&h->changed);
done:
    return st;
}

/* Counts messages, except those of HGA_CHANNEL_OF_CALLS, which carry no rows. */
static void count_start(end *e, int channel, const hga_packet *send, hga_id n_send, const hga_packet *receive,
                        hga_id n_receive)
{
    if (channel == HGA_CHANNEL_OF_CALLS) return;
    for (hga_id i = 0; i < n_send; i++) e->counts.messages_out++, e->counts.bytes_out += send[i].bytes;
    for (hga_id i = 0; i < n_receive; i++) e->counts.messages_in++, e->counts.bytes_in += receive[i].bytes;
}

/* hga_exchange.start: posts sends and registers receives, under the hub's lock. */
static hga_status in_process_start(void *ctx, int channel, const hga_packet *send, hga_id n_send,
                                   const hga_packet *receive, hga_id n_receive)
{
    end *e = ctx;
    if (channel < 0) return hga_fail(HGA_EINVAL, "channel %d", channel);
    pthread_mutex_lock(&e->of->lock);
    hga_status st = start_locked(e, channel, send, n_send, receive, n_receive);
    if (!st) count_start(e, channel, send, n_send, receive, n_receive);
    pthread_mutex_unlock(&e->of->lock);
    return st;
}

static hga_status check_begun(const end *e, int channel, pending **out)
{
    *out = find_pending(e, channel);
    if (*out && (*out)->open) return HGA_OK;
    return hga_fail(HGA_EINVAL, "rank %d waits for channel %d, which it has not begun", e->rank, channel);
}

/* hga_exchange.test: have all messages of the channel arrived, including the wire's delay? */
static hga_status in_process_test(void *ctx, int channel, int *done)
{
    end *e = ctx;
    pending *p;
    *done = 0;
    pthread_mutex_lock(&e->of->lock);
    hga_status st = e->of->failed ? say_failed(e->of) : check_begun(e, channel, &p);
    hga_id missing;
    double due = st ? -1 : whole_at(e, p, &missing);
    *done = due >= 0 && (due == 0 || due <= now());
    pthread_mutex_unlock(&e->of->lock);
    return st;
}

/* Waits until everything has arrived, a rank has failed, or an awaited rank is closed. */
static hga_status wait_locked(end *e, int channel)
{
    hub *h = e->of;
    pending *p;
    hga_status st = h->failed ? say_failed(h) : check_begun(e, channel, &p);
    while (!st) {
        hga_id missing;
        double due = whole_at(e, p, &missing);
        if (due >= 0 && (due == 0 || due <= now())) return take_all(e, p);
        if (due < 0 && h->ends[missing].closed)
            return hga_fail(HGA_EINVAL, "rank %d waits for rank %d, which is gone", e->rank, missing);
        wait_for_change(h, due);
        if (h->failed) st = say_failed(h);
    }
    return st;
}

static hga_status in_process_wait(void *ctx, int channel)
{
    end *e = ctx;
    pthread_mutex_lock(&e->of->lock);
    hga_status st = wait_locked(e, channel);
    pthread_mutex_unlock(&e->of->lock);
    return st;
}

/* Exchanges a message with each other rank, on a separate channel. */
static hga_status in_process_gather(void *ctx, const void *mine, int64_t bytes, void *all)
{
    end *e = ctx;
    hub *h = e->of;
    hga_status st = HGA_OK;
    hga_packet *m = NULL;
    hga_id others = 0;
    int locked = 0;
    if (bytes < 0) return hga_fail(HGA_EINVAL, "gather: %lld bytes", (long long)bytes);
    HGA_TRY(hga_new(&h->allocator, 2 * (int64_t)h->n_ranks, sizeof *m, &m));
    if (bytes) memcpy((char *)all + e->rank * bytes, mine, (size_t)bytes);
    for (hga_id r = 0; r < h->n_ranks; r++) {
        if (r == e->rank) continue;
        m[h->n_ranks + others] = (hga_packet){r, bytes, (char *)all + r * bytes};
        m[others++] = (hga_packet){r, bytes, (char *)all + e->rank * bytes};
    }
    pthread_mutex_lock(&h->lock), locked = 1;
    HGA_TRY(start_locked(e, GATHERS, m, others, m + h->n_ranks, others));
    e->counts.gathers++, e->counts.bytes_gathered += bytes * others;
    HGA_TRY(wait_locked(e, GATHERS));
done:
    if (locked) pthread_mutex_unlock(&h->lock);
    hga_delete(&h->allocator, m, 2 * (int64_t)h->n_ranks, sizeof *m);
    return st;
}

/* Records the first failure, which every current and later wait returns. */
static void in_process_fail(void *ctx, hga_status status)
{
    end *e = ctx;
    hub *h = e->of;
    pthread_mutex_lock(&h->lock);
    if (!h->failed) {
        h->failed = status ? status : HGA_EEXTERNAL, h->failed_rank = e->rank;
        const char *why = hga_error_detail();
        snprintf(h->why, sizeof h->why, "%s", *why ? why : hga_status_name(h->failed));
    }
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

/* ---- creating and destroying ---- */

/* Frees the hub with all of its ends and the parcels that were not received. */
static void hub_delete(hub *h)
{
    hga_allocator a = h->allocator;
    for (hga_id r = 0; h->ends && r < h->n_ranks; r++) {
        end *e = &h->ends[r];
        while (e->first) take_parcel(e, &e->first);
        for (int64_t i = 0; i < e->n; i++)
            hga_delete(&a, e->pending[i].receive, e->pending[i].capacity, sizeof *e->pending[i].receive);
        hga_delete(&a, e->pending, e->capacity, sizeof *e->pending);
    }
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    hga_delete(&a, h->ends, h->n_ranks, sizeof *h->ends);
    hga_delete(&a, h, 1, sizeof *h);
}

/* The last end to close frees the hub. */
static void in_process_close(void *ctx)
{
    end *e = ctx;
    hub *h = e->of;
    pthread_mutex_lock(&h->lock);
    e->closed = 1;
    pthread_cond_broadcast(&h->changed);
    int last = --h->open == 0;
    pthread_mutex_unlock(&h->lock);
    if (last) hub_delete(h);
}

static hga_status check_wire(hga_id n_ranks, const hga_dist_wire *w, const hga_exchange *xs)
{
    if (n_ranks < 1 || !xs) return hga_fail(HGA_EINVAL, "%d ranks%s", n_ranks, xs ? "" : ", and nowhere to put them");
    if (!(w->delay >= 0 && w->delay < 1e6) || !(w->most_delay >= 0 && w->most_delay < 1e6))
        return hga_fail(HGA_EINVAL, "a wire with a delay of %g to %g seconds", w->delay, w->most_delay);
    return hga_check_reserved("hga_dist_wire", w->reserved, sizeof w->reserved);
}

static void init_locks(hub *h)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&h->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&h->lock, NULL);
}

hga_status hga_dist_in_process(hga_id n_ranks, const hga_dist_wire *wire, hga_exchange *xs)
{
    hga_status st = HGA_OK;
    hub *h = NULL;
    hga_dist_wire w = wire ? *wire : (hga_dist_wire){0};
    HGA_TRY(check_wire(n_ranks, &w, xs));
    HGA_TRY(hga_new_zero(w.allocator, 1, sizeof *h, &h));
    *h = (hub){
        .allocator = w.allocator ? *w.allocator : (hga_allocator){0}, .wire = w, .n_ranks = n_ranks, .open = n_ranks};
    init_locks(h);
    HGA_TRY(hga_new_zero(&h->allocator, n_ranks, sizeof *h->ends, &h->ends));
    for (hga_id r = 0; r < n_ranks; r++) {
        end *e = &h->ends[r];
        *e =
            (end){.of = h, .rank = r, .last = &e->first, .stream = w.seed + (uint64_t)r * UINT64_C(0xd1342543de82ef95)};
        xs[r] = (hga_exchange){sizeof *xs,       r,
                               n_ranks,          e,
                               in_process_start, in_process_test,
                               in_process_wait,  in_process_gather,
                               in_process_fail,  in_process_close};
    }
    return st;
done:
    if (h) hub_delete(h);
    return st;
}

hga_dist_counts hga_dist_in_process_counts(const hga_exchange *x)
{
    end *e = x->ctx;
    pthread_mutex_lock(&e->of->lock);
    hga_dist_counts counts = e->counts;
    pthread_mutex_unlock(&e->of->lock);
    return counts;
}

void hga_dist_destroy(hga_exchange *x)
{
    if (!x) return;
    if (x->close) x->close(x->ctx);
    memset(x, 0, sizeof *x);
}
