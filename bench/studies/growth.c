/* growth.c: how time and memory grow. `bench_growth time`: the time of one execution from 64k to 1M tokens, and its
   ratio from length to length; `bench_growth memory`: peak memory of graphs with 10^9 edges and more against the
   size of their tensors; `bench_growth linear [LONGEST]`: H-Transformer from 4k to 16M tokens, seconds and peak
   bytes per token, which do not grow. `time` and `memory` exit 1 when a ratio or a limit is passed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"

/* The least time of `runs` executions, one head of 16, and the bytes of the four tensors. */
static hga_status run(const char *words, hga_id n, int runs, double *seconds, double *tensor_bytes)
{
    hga_status st;
    bench_case c = {0};
    bench_timing t;
    HGA_TRY(bench_case_make(words, n, &c));
    HGA_TRY(bench_case_ready(&c, &(hga_shape){.n_heads = 1, .dim = 16}, NULL));
    HGA_TRY(bench_case_time(&c, &(bench_rules){.repetitions = runs, .warmup = -1}, &t));
    *seconds = t.least;
    *tensor_bytes = (double)c.tensor_bytes;
done:
    if (st) bench_complain(words, st);
    bench_case_clear(&c);
    return st;
}

static int grow_in_time(void)
{
    static const char *const variants[] = {"window left=64 right=64",   "bpt k=4",
                                           "htransformer block=16",     "htransformer block=16 causal=1",
                                           "hsa branching=2,4,8,16",    "hsa branching=2,4,8,16 causal=1",
                                           "treeformer-coarse height=8"};
    int failed = 0;
    printf("%-31s %9s %10s %8s\n", "variant", "tokens", "ms", "ratio");
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        for (double n = 65536, last = 0, seconds, bytes; n <= 1048576; n *= 2, last = seconds) {
            if (run(variants[i], (hga_id)n, 20, &seconds, &bytes)) return 1;
            printf("%-31s %9.0f %10.2f", variants[i], n, seconds * 1e3);
            if (last > 0) printf(" %8.2f%s", seconds / last, seconds / last < 2.3 ? "" : "  over 2.3");
            printf("\n");
            failed |= last > 0 && seconds / last >= 2.3;
        }
    return failed;
}

/* Time and memory of one execution. */
typedef struct usage {
    double seconds, tensor_bytes, peak_bytes;
} usage;

/* Runs in a process of its own, whose peak memory the system reports; the result comes back through a pipe. */
static int run_process(const char *words, hga_id n, int runs, usage *u)
{
    int end[2], status;
    if (pipe(end) != 0) return perror("pipe"), 1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        struct rusage used;
        if (run(words, n, runs, &u->seconds, &u->tensor_bytes)) _exit(1);
        getrusage(RUSAGE_SELF, &used);
        u->peak_bytes = (double)used.ru_maxrss * 1024;
        _exit(write(end[1], u, sizeof *u) != sizeof *u);
    }
    close(end[1]);
    int whole = read(end[0], u, sizeof *u) == sizeof *u;
    close(end[0]);
    return child < 0 || waitpid(child, &status, 0) < 0 || status != 0 || !whole;
}

static int grow_in_memory(const char *words, hga_id n)
{
    usage u;
    if (run_process(words, n, 1, &u)) return 1;
    double limit = 2 * u.tensor_bytes + 1e9;
    printf("%-31s %9d tokens  tensors %6.2f GB  peak %6.2f GB  limit %6.2f GB  %s\n", words, n, u.tensor_bytes / 1e9,
           u.peak_bytes / 1e9, limit / 1e9, u.peak_bytes <= limit ? "within" : "over");
    return u.peak_bytes > limit;
}

/* At short lengths the bytes are mostly the process itself, so they are printed beside those of the tensors. */
static int grow_linearly(hga_id longest)
{
    printf("%9s %10s %12s %12s %14s\n", "tokens", "ms", "ns/token", "bytes/token", "tensors/token");
    for (int64_t n = 4096; n <= longest; n *= 4) {
        usage u;
        if (run_process("htransformer block=16", (hga_id)n, n < 1 << 22 ? 5 : 2, &u)) return 1;
        double tokens = (double)n;
        printf("%9.0f %10.2f %12.1f %12.0f %14.0f\n", tokens, u.seconds * 1e3, u.seconds * 1e9 / tokens,
               u.peak_bytes / tokens, u.tensor_bytes / tokens);
    }
    return 0;
}

int main(int n_words, char **word)
{
    if (n_words == 2 && strcmp(word[1], "time") == 0) return grow_in_time();
    if (n_words == 2 && strcmp(word[1], "memory") == 0)
        return grow_in_memory("bpt k=64", 1 << 20) | grow_in_memory("htransformer block=16", 1 << 24);
    if (n_words >= 2 && strcmp(word[1], "linear") == 0)
        return grow_linearly(n_words > 2 ? (hga_id)strtol(word[2], NULL, 10) : 1 << 24);
    fprintf(stderr, "usage: bench_growth time|memory|linear [LONGEST]\n");
    return 2;
}
