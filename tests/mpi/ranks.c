/* ranks.c: what is true of an exchange by MPI, on every rank that mpirun starts. Each fact has an exchange of its own;
   what it finds is gathered by another. Rank 0 prints the facts that are not true, and their number. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "hga.h"
#include "hga_mpi.h"

/* The number of the first check of a fact that fails on this rank, by its line. */
static int wrong_at;
#define CHECK(truth)                                    \
    do {                                                \
        if (!(truth) && !wrong_at) wrong_at = __LINE__; \
    } while (0)
#define MUST(call) CHECK((call) == HGA_OK)

static char byte_of(hga_id from, hga_id to, int round, int64_t i)
{
    return (char)((from * 31 + to * 7 + round * 13 + i * (1 + i % 3)) & 127);
}

static void sleep_ms(int ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000l}, NULL); }

/* A message from every rank to every other one, of as many bytes, and room for what comes. */
typedef struct mail {
    hga_id n;
    int64_t bytes;
    char *out, *in;
    hga_packet send[64], receive[64];
} mail;

static void pack(const hga_exchange *x, int64_t bytes, int round, mail *m)
{
    m->n = 0, m->bytes = bytes;
    m->out = malloc((size_t)(bytes * x->n_ranks) + 1), m->in = malloc((size_t)(bytes * x->n_ranks) + 1);
    memset(m->in, -1, (size_t)(bytes * x->n_ranks));
    for (hga_id r = 0; r < x->n_ranks; r++) {
        if (r == x->rank) continue;
        for (int64_t i = 0; i < bytes; i++) m->out[r * bytes + i] = byte_of(x->rank, r, round, i);
        m->send[m->n] = (hga_packet){r, bytes, m->out + r * bytes};
        m->receive[m->n++] = (hga_packet){r, bytes, m->in + r * bytes};
    }
}

static int arrived(const hga_exchange *x, const mail *m, int round)
{
    for (hga_id r = 0; r < x->n_ranks; r++)
        for (int64_t i = 0; r != x->rank && i < m->bytes; i++)
            if (m->in[r * m->bytes + i] != byte_of(r, x->rank, round, i)) return 0;
    return 1;
}

static void throw_away(mail *m)
{
    free(m->out);
    free(m->in);
}

/* ---- messages ---- */

static void every_message_arrives_where_it_should(hga_exchange *x)
{
    const int64_t sizes[] = {0, 1, 100, 5000, 300001};
    for (int round = 0; round < 5; round++) {
        mail m;
        pack(x, sizes[round], round, &m);
        MUST(x->start(x->ctx, round % 2, m.send, m.n, m.receive, m.n));
        MUST(x->wait(x->ctx, round % 2));
        CHECK(arrived(x, &m, round));
        throw_away(&m);
    }
}

static void channels_do_not_meet(hga_exchange *x)
{
    mail m[9];
    for (int c = 0; c < 9; c++) {
        pack(x, 200 + c, c, &m[c]);
        MUST(x->start(x->ctx, 37 * c, m[c].send, m[c].n, m[c].receive, m[c].n));
    }
    for (int c = 9; c-- > 0;) {
        MUST(x->wait(x->ctx, 37 * c));
        CHECK(arrived(x, &m[c], c));
        throw_away(&m[c]);
    }
}

/* The faster ones begin the next exchange on a channel while the others are at the one before. */
static void a_delayed_rank_changes_nothing(hga_exchange *x)
{
    for (int round = 0; round < 12; round++) {
        mail m;
        pack(x, 1000, round, &m);
        if ((x->rank * 5 + round * 3) % 4 == 0) sleep_ms(7);
        MUST(x->start(x->ctx, 3, m.send, m.n, m.receive, m.n));
        if ((x->rank + round) % 3 == 0) sleep_ms(5);
        MUST(x->wait(x->ctx, 3));
        CHECK(arrived(x, &m, round));
        throw_away(&m);
    }
}

static void a_test_tells_when_all_is_there(hga_exchange *x)
{
    mail m;
    int done = 0;
    pack(x, 400, 0, &m);
    MUST(x->start(x->ctx, 0, m.send, m.n, m.receive, m.n));
    while (!done && !wrong_at) {
        MUST(x->test(x->ctx, 0, &done));
        if (!done) sched_yield();
    }
    CHECK(arrived(x, &m, 0));
    MUST(x->test(x->ctx, 0, &done));
    CHECK(done);
    throw_away(&m);
}

static void a_rank_may_write_to_itself(hga_exchange *x)
{
    char out[] = "mine", in[] = "....";
    MUST(x->start(x->ctx, 1, &(hga_packet){x->rank, 5, out}, 1, &(hga_packet){x->rank, 5, in}, 1));
    MUST(x->wait(x->ctx, 1));
    CHECK(strcmp(in, "mine") == 0);
}

static void gathering_puts_ranks_in_order(hga_exchange *x)
{
    const int64_t sizes[] = {0, 1, 24, 70000};
    for (int round = 0; round < 4; round++) {
        int64_t bytes = sizes[round];
        char *mine = malloc((size_t)bytes + 1), *all = malloc((size_t)(bytes * x->n_ranks) + 1);
        for (int64_t i = 0; i < bytes; i++) mine[i] = byte_of(x->rank, 0, round, i);
        if ((x->rank + round) % 3 == 1) sleep_ms(3);
        MUST(x->gather(x->ctx, mine, bytes, all));
        for (hga_id r = 0; r < x->n_ranks; r++)
            for (int64_t i = 0; i < bytes; i++) CHECK(all[r * bytes + i] == byte_of(r, 0, round, i));
        /* and where it is there already */
        memset(all, 0, (size_t)(bytes * x->n_ranks));
        memcpy(all + x->rank * bytes, mine, (size_t)bytes);
        MUST(x->gather(x->ctx, all + x->rank * bytes, bytes, all));
        for (hga_id r = 0; r < x->n_ranks; r++)
            for (int64_t i = 0; i < bytes; i++) CHECK(all[r * bytes + i] == byte_of(r, 0, round, i));
        free(mine);
        free(all);
    }
}

/* ---- what is refused ---- */

static int says(const char *text) { return strstr(hga_error_detail(), text) != NULL; }

static void wrong_messages_are_named(hga_exchange *x)
{
    char data[8];
    CHECK(x->start(x->ctx, 0, &(hga_packet){x->n_ranks, 8, data}, 1, NULL, 0) == HGA_EINVAL &&
          says("message 0 to send: rank"));
    CHECK(x->start(x->ctx, 0, NULL, 0, &(hga_packet){-1, 8, data}, 1) == HGA_EINVAL && says("to receive: rank -1"));
    CHECK(x->start(x->ctx, 0, &(hga_packet){0, -8, data}, 1, NULL, 0) == HGA_EINVAL && says("-8 bytes"));
    CHECK(x->start(x->ctx, 0, &(hga_packet){0, 8, NULL}, 1, NULL, 0) == HGA_EINVAL && says("8 bytes at"));
    CHECK(x->start(x->ctx, 32000, NULL, 0, NULL, 0) == HGA_EINVAL && says("channel 32000"));
    CHECK(x->wait(x->ctx, -1) == HGA_EINVAL && says("channel -1"));
    CHECK(x->gather(x->ctx, data, -1, data) == HGA_EINVAL && says("-1 bytes"));
}

static void a_channel_has_one_exchange_at_a_time(hga_exchange *x)
{
    mail m;
    pack(x, 100, 0, &m);
    MUST(x->start(x->ctx, 2, m.send, m.n, m.receive, m.n));
    if (x->n_ranks > 1) CHECK(x->start(x->ctx, 2, NULL, 0, NULL, 0) == HGA_EINVAL && says("channel 2 has messages"));
    MUST(x->wait(x->ctx, 2));
    throw_away(&m);
}

static void a_message_of_another_length_is_named(hga_exchange *x)
{
    char data[64] = {0};
    hga_id next = (x->rank + 1) % x->n_ranks, before = (x->rank + x->n_ranks - 1) % x->n_ranks;
    if (x->n_ranks == 1) return;
    MUST(x->start(x->ctx, 0, &(hga_packet){next, 40, data}, 1, &(hga_packet){before, 64, data}, 1));
    CHECK(x->wait(x->ctx, 0) == HGA_EINVAL && says("has sent 40 bytes where 64 are awaited"));
    MUST(x->start(x->ctx, 1, &(hga_packet){next, 60, data}, 1, &(hga_packet){before, 20, data}, 1));
    CHECK(x->wait(x->ctx, 1) == HGA_EINVAL && says("more than the 20 bytes"));
}

/* ---- memory that is not there ---- */

/* The linker puts these before the library's own. */
static int no_memory;
hga_status __real_hga_new_zero(const hga_allocator *a, int64_t n, size_t size, void *out);
hga_status __wrap_hga_new_zero(const hga_allocator *a, int64_t n, size_t size, void *out);
hga_status __real_hga_grow(const hga_allocator *a, void *array, int64_t *capacity, int64_t used, int64_t n,
                           size_t size);
hga_status __wrap_hga_grow(const hga_allocator *a, void *array, int64_t *capacity, int64_t used, int64_t n,
                           size_t size);

/* The no_memory-th one fails. */
static int fails(void) { return no_memory > 0 && --no_memory == 0; }

hga_status __wrap_hga_new_zero(const hga_allocator *a, int64_t n, size_t size, void *out)
{
    return fails() ? hga_fail(HGA_ENOMEM, "no memory") : __real_hga_new_zero(a, n, size, out);
}

hga_status __wrap_hga_grow(const hga_allocator *a, void *array, int64_t *capacity, int64_t used, int64_t n, size_t size)
{
    return fails() ? hga_fail(HGA_ENOMEM, "no memory") : __real_hga_grow(a, array, capacity, used, n, size);
}

static void without_memory_on_one_rank_none_has_an_exchange(hga_exchange *x)
{
    enum { ALLOCATIONS = 5 };
    for (int i = 1; i <= ALLOCATIONS + 1; i++) {
        hga_exchange y;
        no_memory = x->rank == x->n_ranks - 1 ? i : 0;
        hga_status st = hga_dist_mpi_world(&y);
        no_memory = 0;
        CHECK(st == (i <= ALLOCATIONS ? HGA_ENOMEM : HGA_OK));
        CHECK(!st == (y.ctx != NULL));
        hga_dist_destroy(&y);
    }
}

/* It is not begun then, and may be begun again. */
static void nor_is_an_exchange_begun_without_memory(hga_exchange *x)
{
    /* the channels; after them the requests; the peers and the copies, where the channel is there */
    const int at[] = {1, 2, 2, 3};
    for (int i = 0; i < 4; i++) {
        mail m;
        pack(x, 50, i, &m);
        no_memory = at[i];
        hga_status st = x->start(x->ctx, 20, m.send, m.n, m.receive, m.n);
        no_memory = 0;
        CHECK(st == HGA_ENOMEM);
        throw_away(&m);
    }
    mail m;
    pack(x, 50, 4, &m);
    MUST(x->start(x->ctx, 20, m.send, m.n, m.receive, m.n));
    MUST(x->wait(x->ctx, 20));
    CHECK(arrived(x, &m, 4));
    throw_away(&m);
}

/* ---- failures ---- */

/* Everybody else has the failure of rank `of`, in its words, now and later. */
static void has_failed(hga_exchange *x, hga_status st, hga_id of)
{
    char text[64], data[4];
    int done = 0;
    snprintf(text, sizeof text, "rank %d: row %d is bad", of, of + 100);
    CHECK(st == HGA_EPROGRAM);
    if (x->rank != of) CHECK(says(text));
    CHECK(x->start(x->ctx, 5, NULL, 0, NULL, 0) == HGA_EPROGRAM);
    CHECK(x->test(x->ctx, 5, &done) == HGA_EPROGRAM);
    CHECK(x->wait(x->ctx, 5) == HGA_EPROGRAM);
    CHECK(x->gather(x->ctx, data, 0, data) == HGA_EPROGRAM);
    if (x->rank != of) CHECK(says(text));
}

static void fail_as(hga_exchange *x) { x->fail(x->ctx, hga_fail(HGA_EPROGRAM, "row %d is bad", x->rank + 100)); }

static void who_waits_hears_of_a_failure(hga_exchange *x)
{
    const hga_id of = x->n_ranks - 1;
    mail m;
    pack(x, 2000, 0, &m);
    hga_status st = HGA_EPROGRAM;
    if (x->rank == of) {
        sleep_ms(20);
        fail_as(x);
    } else {
        st = x->start(x->ctx, 0, m.send, m.n, m.receive, m.n); /* which may hear of it, too */
        if (!st) st = x->wait(x->ctx, 0);
    }
    has_failed(x, st, of);
    throw_away(&m);
}

static void who_gathers_hears_of_it(hga_exchange *x)
{
    const hga_id of = x->n_ranks / 2;
    char mine[512] = {0}, *all = malloc(512 * (size_t)x->n_ranks);
    hga_status st = HGA_EPROGRAM;
    if (x->rank == of) {
        sleep_ms(10);
        fail_as(x);
    } else {
        st = x->gather(x->ctx, mine, sizeof mine, all);
        while (!st) st = x->gather(x->ctx, mine, sizeof mine, all); /* a round or two may not need that rank */
    }
    has_failed(x, st, of);
    free(all);
}

static void who_computes_hears_of_it_later(hga_exchange *x)
{
    int done = 0;
    hga_status st = HGA_OK;
    if (x->rank == 0) {
        fail_as(x);
        st = HGA_EPROGRAM;
    }
    while (!st) st = x->test(x->ctx, 0, &done);
    has_failed(x, st, 0);
}

static void *pages(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* Whoever reads or writes it afterwards ends the process. */
static void the_memory_of_messages_is_free_once_a_rank_has_failed(hga_exchange *x)
{
    enum { BYTES = 8 << 20 };
    hga_status st = HGA_EPROGRAM;
    if (x->n_ranks == 1) return;
    char *out = pages(BYTES), *in = pages(BYTES);
    memset(out, 1, BYTES);
    if (x->rank == 0) {
        sleep_ms(20);
        fail_as(x);
    } else {
        st = x->start(x->ctx, 0, &(hga_packet){0, BYTES, out}, 1, &(hga_packet){0, BYTES, in}, 1);
        if (!st) st = x->wait(x->ctx, 0);
    }
    CHECK(st == HGA_EPROGRAM);
    munmap(out, BYTES), munmap(in, BYTES);
    hga_dist_destroy(x);
}

/* Long messages leave their sender when they are taken, and nobody takes them. */
static void long_messages_that_nobody_takes_hold_nobody_up(hga_exchange *x)
{
    mail m;
    pack(x, 3 << 20, 0, &m);
    hga_status st = HGA_EPROGRAM;
    if (x->rank == 0) {
        fail_as(x);
    } else {
        st = x->start(x->ctx, 0, m.send, m.n, m.receive, m.n); /* which may hear of it, too */
        if (!st) st = x->wait(x->ctx, 0);
    }
    has_failed(x, st, 0);
    hga_dist_destroy(x);
    throw_away(&m);
}

static void several_may_fail_at_once(hga_exchange *x)
{
    hga_status st = HGA_OK;
    int done = 0;
    if (x->rank % 2 == 0) fail_as(x), fail_as(x);
    while (!st) st = x->test(x->ctx, 0, &done);
    CHECK(st == HGA_EPROGRAM && says("is bad"));
}

static void an_end_in_the_middle_is_an_end(hga_exchange *x)
{
    mail m;
    pack(x, 1 << 20, 0, &m);
    MUST(x->start(x->ctx, 0, m.send, m.n, m.receive, m.n));
    hga_dist_destroy(x);
    throw_away(&m);
}

static void the_end_is_accepted_twice(hga_exchange *x)
{
    hga_dist_destroy(x);
    hga_dist_destroy(x);
    hga_dist_destroy(NULL);
    CHECK(x->ctx == NULL);
}

/* ---- a prompt ---- */

enum { PROMPT = 333, CAPACITY = 400, HEADS = 2, DIM = 8, FLOATS = HEADS * DIM };

static hga_tensor rows_of(float *x, hga_id first, hga_id n)
{
    return (hga_tensor){.data = x + (ptrdiff_t)first * FLOATS, .rows = n};
}

static hga_io io_of(float *x, hga_id first, hga_id n)
{
    hga_tensor rows = rows_of(x, first, n);
    return (hga_io){.query = rows, .key = rows, .value = rows};
}

/* The token after the prompt, in *row. */
static void go_on(const hga_decoder *d, hga_decode_workspace *w, hga_cache *c, float *x, float *row)
{
    hga_append next = {.cache = c, .n_tokens = 1, .io = io_of(x, PROMPT, 1)};
    next.io.out = rows_of(row, 0, 1);
    MUST(hga_decoder_append(d, w, &next, 1));
}

/* The last rank gets the cache of one that has appended all tokens. */
static void a_prompt_of_all_ranks_is_gone_on_from(hga_exchange *x)
{
    static float token[CAPACITY * FLOATS], row[FLOATS], want[FLOATS];
    hga_htransformer h;
    hga_defaults(&h);
    hga_id cuts[65], home = x->n_ranks - 1;
    hga_graph *g = NULL;
    hga_program program;
    hga_decoder *d = NULL;
    hga_decode_workspace *w = NULL;
    hga_pages *all = NULL;
    hga_cache *mine = NULL, *alone = NULL;
    for (int i = 0; i < CAPACITY * FLOATS; i++) token[i] = (float)(i * 37 % 101) / 101;
    for (hga_id r = 0; r <= x->n_ranks; r++) cuts[r] = PROMPT * r / x->n_ranks;
    h.n_tokens = CAPACITY, h.block = 8, h.causal = 1;
    MUST(hga_build_htransformer(&h, &g, &program));
    hga_shape shape = {.n_heads = HEADS, .dim = DIM};
    MUST(hga_decoder_create(g, &program, &shape, &(hga_decode_options){.plan.threads = 1, .same_bits = 1}, &d));
    MUST(hga_decode_workspace_create(d, &w));
    MUST(hga_pages_create(d, 0, &all));
    if (x->rank == home) MUST(hga_cache_create(all, &mine));
    hga_prefill prompt = {.exchange = x, .cuts = cuts, .home = home, .cache = mine};
    prompt.io = io_of(token, cuts[x->rank], cuts[x->rank + 1] - cuts[x->rank]);
    MUST(hga_decoder_prefill(d, w, &prompt));
    if (x->rank == home && !wrong_at) {
        MUST(hga_cache_create(all, &alone));
        MUST(hga_decoder_append(d, w, &(hga_append){alone, PROMPT, io_of(token, 0, PROMPT)}, 1));
        go_on(d, w, alone, token, want);
        go_on(d, w, mine, token, row);
        CHECK(memcmp(row, want, sizeof row) == 0 && row[0] > 0);
    }
    hga_cache_destroy(alone);
    hga_cache_destroy(mine);
    hga_pages_destroy(all);
    hga_decode_workspace_destroy(w);
    hga_decoder_destroy(d);
    hga_graph_destroy(g);
}

/* ---- all of them ---- */

typedef struct fact {
    const char *name;
    void (*check)(hga_exchange *x);
} fact;
#define FACT(name)  \
    {               \
#name, name \
    }
static const fact facts[] = {
    FACT(every_message_arrives_where_it_should),
    FACT(channels_do_not_meet),
    FACT(a_delayed_rank_changes_nothing),
    FACT(a_test_tells_when_all_is_there),
    FACT(a_rank_may_write_to_itself),
    FACT(gathering_puts_ranks_in_order),
    FACT(wrong_messages_are_named),
    FACT(a_channel_has_one_exchange_at_a_time),
    FACT(a_message_of_another_length_is_named),
    FACT(without_memory_on_one_rank_none_has_an_exchange),
    FACT(nor_is_an_exchange_begun_without_memory),
    FACT(a_prompt_of_all_ranks_is_gone_on_from),
    FACT(who_waits_hears_of_a_failure),
    FACT(who_gathers_hears_of_it),
    FACT(who_computes_hears_of_it_later),
    FACT(the_memory_of_messages_is_free_once_a_rank_has_failed),
    FACT(long_messages_that_nobody_takes_hold_nobody_up),
    FACT(several_may_fail_at_once),
    FACT(an_end_in_the_middle_is_an_end),
    FACT(the_end_is_accepted_twice),
};
enum { N_FACTS = sizeof facts / sizeof facts[0] };

/* How many ranks found it untrue; rank 0 says where. */
static int untrue(hga_exchange *home, const fact *f)
{
    int at[64] = {0}, n = 0;
    hga_exchange x;
    wrong_at = 0;
    MUST(hga_dist_mpi_world(&x));
    if (!wrong_at) f->check(&x);
    hga_dist_destroy(&x);
    if (home->gather(home->ctx, &wrong_at, sizeof wrong_at, at)) return 1;
    for (hga_id r = 0; r < home->n_ranks; r++) {
        n += at[r] != 0;
        if (at[r] && home->rank == 0)
            printf("not true: %s, rank %d of %d, line %d\n", f->name, r, home->n_ranks, at[r]);
    }
    return n;
}

int main(void)
{
    hga_exchange home;
    int failed = 0;
    alarm(60);
    if (hga_dist_mpi_world(&home)) {
        printf("%s\n", hga_error_detail());
        return 1;
    }
    for (int i = 0; i < N_FACTS; i++) failed += untrue(&home, &facts[i]) != 0;
    if (home.rank == 0) printf("%d facts on %d ranks, %d not true\n", N_FACTS, home.n_ranks, failed);
    hga_dist_destroy(&home);
    return failed != 0;
}
