/* rank_memory.c: where the memory of a rank goes. `bench_rank_memory [TOKENS [RANKS [HEADS DIM [VARIANT]]]]`: each
   variant by one process and by a rank in the middle, each in a process of its own, whose peak the system reports.
   The rank is alone: its exchange sends nothing, all others make the same call, and rows that it receives are zeros,
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
#include "rank_alone.h"

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

/* ---- a case ---- */

typedef struct usage {
    int64_t tensors, graph, plan, plan_most, workspace, touched, peak;
} usage;

typedef struct memory_case {
    const char *words;
    hga_id tokens, n_ranks;
    hga_shape shape;
} memory_case;

static hga_status use(const memory_case *m, usage *u)
{
    bench_case c = {0};
    counted bytes = {0};
    hga_allocator a = {take, give, &bytes};
    rank_alone r = {0};
    hga_options options = {.threads = 1, .allocator = &a};
    hga_status st;
    int64_t before = resident(), there;
    HGA_TRY(bench_case_make(m->words, m->tokens, &c));
    HGA_TRY(rank_alone_make(m->n_ranks / 2, m->n_ranks, m->tokens, &r));
    if (m->n_ranks > 1) options.ranks = &r.ranks;
    HGA_TRY(hga_plan_create(c.graph, &c.program, &m->shape, &options, &c.plan));
    u->graph = hga_graph_bytes(c.graph), u->plan = bytes.live, u->plan_most = bytes.most;
    HGA_TRY(rank_alone_tensors(&c, &m->shape, m->n_ranks > 1, &u->tensors));
    there = resident();
    HGA_TRY(hga_workspace_create(c.plan, &c.workspace));
    HGA_TRY(hga_plan_execute(c.plan, c.workspace, &c.io));
    u->workspace = bytes.live - u->plan, u->touched = resident() - there;
    u->peak = bench_peak_resident() - before;
done:
    bench_case_clear(&c);
    rank_alone_clear(&r);
    return st;
}

/* Runs in a process of its own; the result comes back through a pipe. */
static int use_own_process(const memory_case *m, usage *u)
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
        failed |= use_own_process(&m, &alone);
        if (!failed) print(&m, &alone, &alone);
        m.n_ranks = n_ranks;
        failed |= use_own_process(&m, &shared);
        if (!failed) print(&m, &shared, &alone);
    }
    return failed;
}
