/* rank_memory.c: where the memory of a rank goes. `bench_rank_memory [TOKENS [RANKS [HEADS DIM [VARIANT]]]]`: each
   variant by one process and by a rank in the middle, each in a process of its own, whose peak the system tells. The
   rank is alone: its exchange sends nothing, all others are called for what it is, and rows that it receives are zeros,
   which changes no size. MB of 10^6 bytes:

   tensors    query, key, value and out, as many rows as the rank has
   graph      what the graph holds; plan: what the plan holds, and had at most while it was made
   workspace  addresses, of which `touched` were resident after the execution
   peak       the most that was resident, all in all, less what the process had before; and its part of one process' */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"
#include "memory.h"
#include "rows.h"

/* ---- bytes ---- */

typedef struct counted {
    int64_t live, most;
} counted;

static void *take(size_t bytes, void *context)
{
    counted *c = context;
    int64_t live = __atomic_add_fetch(&c->live, (int64_t)bytes, __ATOMIC_RELAXED);
    if (live > c->most) c->most = live;
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void give(void *memory, size_t bytes, void *context)
{
    counted *c = context;
    __atomic_sub_fetch(&c->live, (int64_t)bytes, __ATOMIC_RELAXED);
    free(memory);
}

static int64_t resident(void)
{
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%*d %lld", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

/* ---- a rank alone ---- */

static hga_status start(void *ctx, int channel, const hga_packet *send, hga_id n_send, const hga_packet *receive,
                        hga_id n_receive)
{
    (void)ctx;
    for (hga_id i = 0; i < n_receive; i++)
        if (channel == HGA_CHANNEL_OF_CALLS && n_send > 0)
            memcpy(receive[i].data, send[0].data, (size_t)receive[i].bytes);
        else
            memset(receive[i].data, 0, (size_t)receive[i].bytes);
    return HGA_OK;
}

static hga_status test(void *ctx, int channel, int *done)
{
    (void)ctx, (void)channel;
    *done = 1;
    return HGA_OK;
}

static hga_status wait_for(void *ctx, int channel)
{
    (void)ctx, (void)channel;
    return HGA_OK;
}

/* All say what this one says. */
static hga_status gather(void *ctx, const void *mine, int64_t bytes, void *all)
{
    const hga_exchange *x = ctx;
    for (hga_id r = 0; r < x->n_ranks; r++) memcpy((char *)all + r * bytes, mine, (size_t)bytes);
    return HGA_OK;
}

static void fail(void *ctx, hga_status status) { (void)ctx, (void)status; }

static hga_exchange rank_alone(hga_id rank, hga_id n_ranks)
{
    return (hga_exchange){sizeof(hga_exchange), rank, n_ranks, NULL, start, test, wait_for, gather, fail, NULL};
}

/* ---- a case ---- */

typedef struct usage {
    int64_t tensors, graph, plan, plan_most, workspace, touched, peak;
} usage;

typedef struct memory_case {
    const char *words;
    hga_id tokens, n_ranks;
    hga_shape shape;
} memory_case;

/* Rows that a call brings of the tensor bound so. */
static hga_status count_rows(const bench_case *c, hga_binding binding, int ranked, int64_t *rows)
{
    hga_status st = HGA_OK;
    hga_id field = hga_program_field(&c->program, binding);
    hga_interval list[64];
    int64_t n = 0;
    *rows = 0;
    if (!field) return HGA_OK;
    if (!ranked) {
        *rows = bound_rows(c->graph, &c->program, binding, 0);
        return HGA_OK;
    }
    HGA_TRY(hga_plan_rank_rows(c->plan, field, list, 64, &n));
    if (n > 64) HGA_TRY(hga_fail(HGA_EOVERFLOW, "%" PRId64 " intervals of rows", n));
    for (int64_t i = 0; i < n; i++) *rows += list[i].n;
done:
    return st;
}

/* Every number is written, so that all pages are there. */
static hga_status make_tensors(const memory_case *m, bench_case *c, usage *u)
{
    const hga_binding binding[] = {HGA_IO_QUERY, HGA_IO_KEY, HGA_IO_VALUE, HGA_IO_OUT};
    hga_tensor *tensor[] = {&c->io.query, &c->io.key, &c->io.value, &c->io.out};
    int64_t all = 0, floats = (int64_t)m->shape.n_heads * m->shape.dim;
    int64_t rows[4];
    hga_status st = HGA_OK;
    for (int i = 0; i < 4; i++) {
        HGA_TRY(count_rows(c, binding[i], m->n_ranks > 1, &rows[i]));
        all += rows[i] * floats;
    }
    u->tensors = all * (int64_t)sizeof(float);
    HGA_TRY(bench_new(all, sizeof(float), &c->tensors));
    for (int64_t i = 0; i < all; i++) c->tensors[i] = (float)(i % 17) / 16 - 0.5f;
    for (int64_t i = 0, at = 0; i < 4; at += rows[i++] * floats)
        *tensor[i] = (hga_tensor){.data = c->tensors + at, .rows = rows[i]};
done:
    return st;
}

static hga_status use(const memory_case *m, usage *u)
{
    bench_case c = {0};
    counted bytes = {0};
    hga_allocator a = {take, give, &bytes};
    hga_exchange x = rank_alone(m->n_ranks / 2, m->n_ranks);
    hga_id *cuts = NULL;
    hga_ranks ranks = {.exchange = &x};
    hga_options options = {.threads = 1, .allocator = &a};
    hga_status st;
    int64_t before = resident(), there;
    x.ctx = &x;
    HGA_TRY(bench_case_make(m->words, m->tokens, &c));
    HGA_TRY(bench_new(m->n_ranks + 1, sizeof *cuts, &cuts));
    for (hga_id r = 0; r <= m->n_ranks; r++) cuts[r] = (hga_id)((int64_t)m->tokens * r / m->n_ranks);
    ranks.cuts = cuts;
    if (m->n_ranks > 1) options.ranks = &ranks;
    HGA_TRY(hga_plan_create(c.graph, &c.program, &m->shape, &options, &c.plan));
    u->graph = hga_graph_bytes(c.graph), u->plan = bytes.live, u->plan_most = bytes.most;
    HGA_TRY(make_tensors(m, &c, u));
    there = resident();
    HGA_TRY(hga_workspace_create(c.plan, &c.workspace));
    HGA_TRY(hga_plan_execute(c.plan, c.workspace, &c.io));
    u->workspace = bytes.live - u->plan, u->touched = resident() - there;
    u->peak = bench_peak_resident() - before;
done:
    bench_case_clear(&c);
    free(cuts);
    return st;
}

/* In a process of its own; the answer comes back through a pipe. */
static int use_apart(const memory_case *m, usage *u)
{
    int end[2], status;
    if (pipe(end) != 0) return perror("pipe"), 1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        hga_status st = use(m, u);
        if (st) _exit(bench_complain(m->words, st));
        _exit(write(end[1], u, sizeof *u) != sizeof *u);
    }
    close(end[1]);
    int whole = read(end[0], u, sizeof *u) == sizeof *u;
    close(end[0]);
    return child < 0 || waitpid(child, &status, 0) < 0 || status != 0 || !whole;
}

static void print(const memory_case *m, const usage *u, const usage *alone)
{
    printf("%-24s %5d %9.1f %7.1f %7.1f %7.1f %9.1f %9.1f %9.1f", m->words, m->n_ranks, (double)u->tensors * 1e-6,
           (double)u->graph * 1e-6, (double)u->plan * 1e-6, (double)u->plan_most * 1e-6, (double)u->workspace * 1e-6,
           (double)u->touched * 1e-6, (double)u->peak * 1e-6);
    if (u != alone) printf(" %6.3f", (double)u->peak / (double)alone->peak);
    printf("\n");
}

int main(int n_words, char **word)
{
    static const char *const all[] = {"window left=256 right=256", "htransformer block=16", "hsa branching=4",
                                      "bpt k=4", "fenwick"};
    memory_case m = {
        .tokens = bench_argument(n_words, word, 1, 1 << 18),
        .n_ranks = bench_argument(n_words, word, 2, 8),
        .shape = {.n_heads = bench_argument(n_words, word, 3, 8), .dim = bench_argument(n_words, word, 4, 64)}};
    hga_id n_ranks = m.n_ranks;
    int failed = 0;
    printf("%-24s %5s %9s %7s %7s %7s %9s %9s %9s %6s\n", "variant", "ranks", "tensors", "graph", "plan", "at most",
           "workspace", "touched", "peak", "part");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        usage alone = {0}, shared = {0};
        if (n_words > 5 && strcmp(word[5], all[i]) != 0) continue;
        m.words = all[i], m.n_ranks = 1;
        failed |= use_apart(&m, &alone);
        if (!failed) print(&m, &alone, &alone);
        m.n_ranks = n_ranks;
        failed |= use_apart(&m, &shared);
        if (!failed) print(&m, &shared, &alone);
    }
    return failed;
}
