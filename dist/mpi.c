/* mpi.c: an hga_exchange by MPI, and the one file that includes mpi.h. Messages are non-blocking, and every wait also
   polls for a notice of failure, so that no rank waits for one that has failed. For the same reason a gather consists
   of messages: a collective operation of MPI cannot be abandoned once it has begun. And for the same reason messages
   are copied: a caller frees its memory after a failure, while MPI uses the buffers of pending messages until they
   complete. */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "mpi_exchange.h"

/* ---- errors ---- */

static hga_status said(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (code == MPI_SUCCESS) return HGA_OK;
    MPI_Error_string(code, text, &length);
    text[strcspn(text, "\n")] = 0;
    return hga_fail(HGA_EEXTERNAL, "MPI: %s: %s", what, text);
}

static hga_status reported_failure(const mpi_exchange *x)
{
    if (x->failure.rank == x->rank) return hga_fail(x->failure.status, "%s", x->failure.text);
    return hga_fail(x->failure.status, "rank %d: %s", x->failure.rank, x->failure.text);
}

/* Has a rank failed? */
static hga_status look_for_notice(mpi_exchange *x)
{
    int arrived = 0;
    hga_status st = HGA_OK;
    if (x->failed) return reported_failure(x);
    if (x->n_ranks == 1) return HGA_OK;
    HGA_TRY(said(MPI_Test(&x->awaits_notice, &arrived, MPI_STATUS_IGNORE), "a look for a notice"));
    if (!arrived) return HGA_OK;
    x->got[x->arriving.rank]++;
    x->failure = x->arriving, x->failed = 1;
    st = reported_failure(x);
done:
    return st;
}

static hga_status check_thread(const mpi_exchange *x)
{
    int main_thread = 1;
    if (x->any_thread) return HGA_OK;
    MPI_Is_thread_main(&main_thread);
    return main_thread ? HGA_OK : hga_fail(HGA_EINVAL, "MPI: this thread is not the one that has initialised MPI");
}

static void await_notice(mpi_exchange *x)
{
    if (x->n_ranks == 1) return;
    MPI_Irecv(&x->arriving, sizeof x->arriving, MPI_BYTE, MPI_ANY_SOURCE, TAG_OF_NOTICE, x->comm, &x->awaits_notice);
}

/* ---- a channel ---- */

static int64_t messages_of(int64_t bytes) { return (bytes + LONGEST_MESSAGE - 1) / LONGEST_MESSAGE; }

static hga_status check_messages(const mpi_exchange *x, const char *way, const hga_packet *m, hga_id n)
{
    for (hga_id i = 0; i < n; i++) {
        if (m[i].rank < 0 || m[i].rank >= x->n_ranks)
            return hga_fail(HGA_EINVAL, "message %d to %s: rank %d of %d", i, way, m[i].rank, x->n_ranks);
        if (m[i].bytes < 0 || (m[i].bytes > 0 && !m[i].data))
            return hga_fail(HGA_EINVAL, "message %d to %s: %lld bytes at %p", i, way, (long long)m[i].bytes, m[i].data);
    }
    return HGA_OK;
}

/* Grows the arrays of requests, peers and copies for these messages; large packets take several requests. */
static hga_status make_channel_capacity(channel *c, const hga_packet *send, hga_id n_send, const hga_packet *receive,
                                        hga_id n_receive)
{
    hga_status st = HGA_OK;
    int64_t n = 0, bytes = 0;
    for (hga_id i = 0; i < n_send; i++) n += messages_of(send[i].bytes), bytes += send[i].bytes;
    for (hga_id i = 0; i < n_receive; i++) n += messages_of(receive[i].bytes), bytes += receive[i].bytes;
    if (n > INT32_MAX) return hga_fail(HGA_EOVERFLOW, "%lld messages at once", (long long)n);
    HGA_TRY(hga_grow(NULL, &c->request, &c->capacity[0], 0, n, sizeof *c->request));
    HGA_TRY(hga_grow(NULL, &c->peer, &c->capacity[1], 0, n, sizeof *c->peer));
    HGA_TRY(hga_grow(NULL, &c->copy, &c->capacity[2], 0, bytes, 1));
done:
    return st;
}

/* Begins a message, in pieces; MPI keeps the order of messages between two ranks. */
static hga_status begin_message(mpi_exchange *x, channel *c, int tag, const hga_packet *m, int receives)
{
    hga_status st = HGA_OK;
    for (int64_t at = 0; at < m->bytes; at += LONGEST_MESSAGE) {
        int64_t bytes = m->bytes - at < LONGEST_MESSAGE ? m->bytes - at : LONGEST_MESSAGE;
        char *data = (char *)m->data + at, *copy = c->copy + c->used;
        MPI_Request *r = &c->request[c->n];
        if (!receives) memcpy(copy, data, (size_t)bytes);
        HGA_TRY(receives ? said(MPI_Irecv(copy, (int)bytes, MPI_BYTE, m->rank, tag, x->comm, r), "a receive")
                         : said(MPI_Isend(copy, (int)bytes, MPI_BYTE, m->rank, tag, x->comm, r), "a send"));
        c->peer[c->n++] = (peer){m->rank, bytes, copy, data};
        c->used += bytes;
        if (receives)
            c->n_receives++;
        else
            x->sent[m->rank]++;
    }
done:
    return st;
}

/* Receives are posted before anything is sent. */
static hga_status begin_exchange(mpi_exchange *x, channel *c, int tag, const hga_packet *send, hga_id n_send,
                                 const hga_packet *receive, hga_id n_receive)
{
    hga_status st = HGA_OK;
    HGA_TRY(make_channel_capacity(c, send, n_send, receive, n_receive));
    c->n_receives = 0, c->used = 0;
    for (hga_id i = 0; i < n_receive; i++) HGA_TRY(begin_message(x, c, tag, &receive[i], 1));
    for (hga_id i = 0; i < n_send; i++) HGA_TRY(begin_message(x, c, tag, &send[i], 0));
done:
    return st;
}

/* Copies a received message to its destination, if it has the expected length. */
static hga_status take_arrived(mpi_exchange *x, int code, const MPI_Status *status, const peer *from)
{
    int class = MPI_SUCCESS, bytes = 0;
    MPI_Error_class(code, &class);
    if (class == MPI_SUCCESS || class == MPI_ERR_TRUNCATE) x->got[from->rank]++;
    if (class == MPI_ERR_TRUNCATE)
        return hga_fail(HGA_EINVAL, "rank %d has sent more than the %lld bytes that are awaited", from->rank,
                        (long long)from->bytes);
    if (code != MPI_SUCCESS) return said(code, "a message");
    MPI_Get_count(status, MPI_BYTE, &bytes);
    if (bytes != from->bytes)
        return hga_fail(HGA_EINVAL, "rank %d has sent %d bytes where %lld are awaited", from->rank, bytes,
                        (long long)from->bytes);
    memcpy(from->data, from->copy, (size_t)bytes);
    return HGA_OK;
}

/* Tests requests one by one, since errors of several requests go to the handler of MPI_COMM_WORLD, which aborts the
   process. */
static hga_status look(mpi_exchange *x, channel *c, int *done)
{
    hga_status st = HGA_OK;
    MPI_Status status;
    *done = 0;
    HGA_TRY(check_thread(x));
    HGA_TRY(look_for_notice(x));
    while (c->n_done < c->n) {
        int i = c->n_done, over = 0, code = MPI_Test(&c->request[i], &over, &status);
        if (code == MPI_SUCCESS && !over) return HGA_OK;
        c->n_done++;
        HGA_TRY(i < c->n_receives ? take_arrived(x, code, &status, &c->peer[i]) : said(code, "a message"));
    }
    c->n = c->n_done = 0;
    *done = 1;
done:
    return st;
}

static hga_status await(mpi_exchange *x, channel *c)
{
    hga_status st = HGA_OK;
    for (int done = 0; !done && !st;) {
        st = look(x, c, &done);
        if (!done && !st) sched_yield();
    }
    return st;
}

/* ---- the functions of an exchange ---- */

/* The channel of this number, created on first use. */
static hga_status channel_of(mpi_exchange *x, int number, channel **out)
{
    hga_status st = HGA_OK;
    int64_t before = x->n_channels;
    if (number < 0 || number >= MOST_CHANNELS)
        return hga_fail(HGA_EINVAL, "channel %d is not one of %d", number, MOST_CHANNELS);
    if (number >= before) {
        HGA_TRY(hga_grow(NULL, &x->channel, &x->n_channels, before, (int64_t)number + 1, sizeof *x->channel));
        memset(x->channel + before, 0, (size_t)(x->n_channels - before) * sizeof *x->channel);
    }
    *out = &x->channel[number];
done:
    return st;
}

/* hga_exchange.start: refuses a wrong thread, a busy channel and wrong packets before anything is sent. */
static hga_status mpi_start(void *ctx, int number, const hga_packet *send, hga_id n_send, const hga_packet *receive,
                            hga_id n_receive)
{
    mpi_exchange *x = ctx;
    channel *c = NULL;
    hga_status st = HGA_OK;
    HGA_TRY(check_thread(x));
    HGA_TRY(look_for_notice(x));
    HGA_TRY(channel_of(x, number, &c));
    if (c->n) return hga_fail(HGA_EINVAL, "channel %d has messages that no call has waited for", number);
    HGA_TRY(check_messages(x, "send", send, n_send));
    HGA_TRY(check_messages(x, "receive", receive, n_receive));
    HGA_TRY(begin_exchange(x, c, number, send, n_send, receive, n_receive));
done:
    return st;
}

static hga_status mpi_test(void *ctx, int number, int *done)
{
    mpi_exchange *x = ctx;
    channel *c = NULL;
    hga_status st = channel_of(x, number, &c);
    *done = 0;
    return st ? st : look(x, c, done);
}

static hga_status mpi_wait(void *ctx, int number)
{
    mpi_exchange *x = ctx;
    channel *c = NULL;
    hga_status st = channel_of(x, number, &c);
    return st ? st : await(x, c);
}

/* Blocks [first, first + n) of a ring of n_ranks blocks of `bytes` as messages: two where they wrap around. */
static void arc(const mpi_exchange *x, hga_id rank, hga_id first, hga_id n, int64_t bytes, char *all, hga_packet m[2])
{
    hga_id before = first + n <= x->n_ranks ? n : x->n_ranks - first;
    m[0] = (hga_packet){rank, before * bytes, all + first * bytes};
    m[1] = (hga_packet){rank, (n - before) * bytes, all};
}

/* log2 P rounds: a rank that has the blocks of `have` ranks, its own the last, sends them to the rank `have` ahead and
   receives as many from the rank `have` behind. */
static hga_status mpi_gather(void *ctx, const void *mine, int64_t bytes, void *all)
{
    mpi_exchange *x = ctx;
    const hga_id P = x->n_ranks;
    hga_packet send[2], receive[2];
    hga_status st = HGA_OK;
    if (bytes < 0) return hga_fail(HGA_EINVAL, "gather: %lld bytes", (long long)bytes);
    HGA_TRY(check_thread(x));
    HGA_TRY(look_for_notice(x));
    if (x->gather.n) return hga_fail(HGA_EINVAL, "gather: one before it has failed");
    if (bytes > 0) memmove((char *)all + x->rank * bytes, mine, (size_t)bytes);
    for (hga_id have = 1, n; have < P && bytes > 0; have += n) {
        n = have < P - have ? have : P - have;
        hga_id ahead = (x->rank + have) % P, behind = (x->rank + P - have) % P;
        arc(x, ahead, (x->rank + P - n + 1) % P, n, bytes, all, send);
        arc(x, behind, (behind + P - n + 1) % P, n, bytes, all, receive);
        HGA_TRY(begin_exchange(x, &x->gather, GATHER, send, 2, receive, 2));
        HGA_TRY(await(x, &x->gather));
    }
done:
    return st;
}

/* Sends a notice to all other ranks, unless another rank failed first. */
static void mpi_fail(void *ctx, hga_status status)
{
    mpi_exchange *x = ctx;
    if (status == HGA_OK || look_for_notice(x)) return;
    x->failed = 1;
    x->failure = (notice){.status = status, .rank = x->rank};
    snprintf(x->failure.text, sizeof x->failure.text, "%s", hga_error_detail());
    for (hga_id r = 0; r < x->n_ranks; r++)
        if (r != x->rank &&
            MPI_Isend(&x->failure, sizeof x->failure, MPI_BYTE, r, TAG_OF_NOTICE, x->comm, &x->tells[r]) == MPI_SUCCESS)
            x->sent[r]++;
}

/* ---- the end ---- */

/* Cancels a receive, unless its message has arrived. */
static void cancel(mpi_exchange *x, MPI_Request *r)
{
    MPI_Status status;
    int cancelled = 0;
    if (*r == MPI_REQUEST_NULL) return;
    MPI_Cancel(r);
    MPI_Wait(r, &status);
    MPI_Test_cancelled(&status, &cancelled);
    if (!cancelled) x->got[status.MPI_SOURCE]++;
}

static void cancel_receives(mpi_exchange *x, channel *c)
{
    for (int i = c->n_done; c->n && i < c->n_receives; i++) cancel(x, &c->request[i]);
}

/* Receives and drops a message that no channel waits for. */
static void discard_message(mpi_exchange *x)
{
    int there = 0, bytes = 0;
    MPI_Message message;
    MPI_Status status;
    char *data = NULL;
    if (MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, x->comm, &there, &message, &status) || !there) return;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    x->got[status.MPI_SOURCE]++;
    int keeps = hga_new(NULL, bytes, 1, &data) == HGA_OK;
    MPI_Mrecv(data, keeps ? bytes : 0, MPI_BYTE, &message, MPI_STATUS_IGNORE); /* truncated if there is no memory */
    hga_delete(NULL, data, bytes, 1);
}

static int all_done(MPI_Request *request, int n)
{
    for (int i = 0, done = 0; i < n; i++)
        if (MPI_Test(&request[i], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) return 0;
    return 1;
}

static int all_sent(mpi_exchange *x)
{
    int sent = all_done(x->tells, x->n_ranks) && all_done(x->gather.request, x->gather.n);
    for (int64_t i = 0; sent && i < x->n_channels; i++) sent = all_done(x->channel[i].request, x->channel[i].n);
    return sent;
}

/* A long message completes at the sender when it is received, and an unreceived one could be matched in the next
   communicator, which may reuse the same context id. So the ranks exchange the numbers of messages sent, and each
   receives all of them. */
static void drain(mpi_exchange *x)
{
    MPI_Request counts;
    int sent_all = 0;
    if (MPI_Ialltoall(x->sent, 1, MPI_INT64_T, x->due, 1, MPI_INT64_T, x->comm, &counts)) return;
    for (;;) {
        if (!sent_all && MPI_Test(&counts, &sent_all, MPI_STATUS_IGNORE)) return;
        int taken = sent_all && all_sent(x);
        for (hga_id r = 0; taken && r < x->n_ranks; r++) taken = x->got[r] >= x->due[r];
        if (taken) return;
        discard_message(x);
        sched_yield();
    }
}

static void clear_channel(channel *c)
{
    hga_delete(NULL, c->request, c->capacity[0], sizeof *c->request);
    hga_delete(NULL, c->peer, c->capacity[1], sizeof *c->peer);
    hga_delete(NULL, c->copy, c->capacity[2], 1);
}

/* Frees all that make_exchange and the channels allocated. */
static void release(mpi_exchange *x)
{
    for (int64_t i = 0; i < x->n_channels; i++) clear_channel(&x->channel[i]);
    clear_channel(&x->gather);
    hga_delete(NULL, x->channel, x->n_channels, sizeof *x->channel);
    hga_delete(NULL, x->tells, x->n_ranks, sizeof *x->tells);
    hga_delete(NULL, x->sent, x->n_ranks, sizeof *x->sent);
    hga_delete(NULL, x->got, x->n_ranks, sizeof *x->got);
    hga_delete(NULL, x->due, x->n_ranks, sizeof *x->due);
    hga_delete(NULL, x, 1, sizeof *x);
}

/* Cancels or completes pending requests before the communicator is freed. */
static void mpi_close(void *ctx)
{
    mpi_exchange *x = ctx;
    int ends_mpi = x->starts_mpi;
    cancel(x, &x->awaits_notice);
    for (int64_t i = 0; i < x->n_channels; i++) cancel_receives(x, &x->channel[i]);
    cancel_receives(x, &x->gather);
    drain(x);
    MPI_Comm_free(&x->comm);
    release(x);
    if (ends_mpi) MPI_Finalize();
}

/* ---- the beginning ---- */

/* Checks that MPI is running and supports MPI_THREAD_FUNNELED. */
static hga_status check_mpi(void)
{
    int begun = 0, ended = 0, level = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (!begun || ended) return hga_fail(HGA_EINVAL, "MPI %s", ended ? "has ended" : "is not initialised");
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_FUNNELED)
        return hga_fail(HGA_EINVAL, "MPI: MPI_Init_thread with MPI_THREAD_FUNNELED is needed");
    return HGA_OK;
}

/* Makes the exchange of a communicator's ranks, without messages. */
static hga_status make_exchange(MPI_Comm comm, mpi_exchange **out)
{
    mpi_exchange *x = NULL;
    hga_status st = HGA_OK;
    int level = 0, n = 0, rank = 0;
    HGA_TRY(hga_new_zero(NULL, 1, sizeof *x, &x));
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &n);
    MPI_Query_thread(&level);
    x->comm = comm, x->rank = rank, x->n_ranks = n;
    x->any_thread = level >= MPI_THREAD_SERIALIZED;
    x->awaits_notice = MPI_REQUEST_NULL;
    HGA_TRY(hga_new(NULL, n, sizeof *x->tells, &x->tells));
    for (int r = 0; r < n; r++) x->tells[r] = MPI_REQUEST_NULL;
    HGA_TRY(hga_new_zero(NULL, n, sizeof *x->sent, &x->sent));
    HGA_TRY(hga_new_zero(NULL, n, sizeof *x->got, &x->got));
    HGA_TRY(hga_new_zero(NULL, n, sizeof *x->due, &x->due));
    HGA_TRY(hga_grow(NULL, &x->channel, &x->n_channels, 0, N_CHANNELS_AT_FIRST, sizeof *x->channel));
    memset(x->channel, 0, (size_t)x->n_channels * sizeof *x->channel);
done:
    if (st && x) release(x), x = NULL;
    *out = x;
    return st;
}

/* If one rank is out of memory, all fail. */
static hga_status agree_on_status(MPI_Comm comm, hga_status st)
{
    int mine = (int)st, worst = mine;
    MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, comm);
    if (st || !worst) return st;
    return hga_fail((hga_status)worst, "another rank has no exchange: %s", hga_status_name((hga_status)worst));
}

/* Opens the exchange on a duplicate of the communicator, so that it has no other messages. */
static hga_status open_exchange(MPI_Comm of, int starts_mpi, hga_exchange *out)
{
    mpi_exchange *x = NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    hga_status st = HGA_OK;
    HGA_TRY(said(MPI_Comm_dup(of, &comm), "a copy of the communicator"));
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    HGA_TRY(agree_on_status(comm, make_exchange(comm, &x)));
    x->starts_mpi = starts_mpi;
    await_notice(x);
    *out = (hga_exchange){.size = sizeof *out,
                          .rank = x->rank,
                          .n_ranks = x->n_ranks,
                          .ctx = x,
                          .start = mpi_start,
                          .test = mpi_test,
                          .wait = mpi_wait,
                          .gather = mpi_gather,
                          .fail = mpi_fail,
                          .close = mpi_close};
done:
    if (st && x) release(x);
    if (st && comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
    return st;
}

hga_status hga_dist_mpi(int fortran_comm, hga_exchange *out)
{
    hga_status st = check_mpi();
    *out = (hga_exchange){0};
    if (st) return st;
    MPI_Comm comm = MPI_Comm_f2c((MPI_Fint)fortran_comm);
    if (comm == MPI_COMM_NULL) return hga_fail(HGA_EINVAL, "MPI: handle %d is not a communicator", fortran_comm);
    return open_exchange(comm, 0, out);
}

hga_status hga_dist_mpi_world(hga_exchange *out)
{
    int begun = 0, level = 0;
    hga_status st = HGA_OK;
    *out = (hga_exchange){0};
    MPI_Initialized(&begun);
    if (!begun) HGA_TRY(said(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread"));
    HGA_TRY(check_mpi());
    if (!begun)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* MPICH takes the handler of a request from here */
    HGA_TRY(open_exchange(MPI_COMM_WORLD, !begun, out));
done:
    if (st && !begun) MPI_Finalize();
    return st;
}
