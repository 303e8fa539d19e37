/* drawn_calls.c: drawn calls one by one.

     drawn_calls hold FIRST N      each in a process of its own; what fails is listed with what it says; with
                                   HGA_WHY in the environment also why calls were refused
     drawn_calls bytes SEED        the same call as a seed of the engine's fuzzer, on stdout

   The numbers are seeds, as test_drawn's. */
#include "calls.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const hga_graph *graph;
static const hga_program *program;
static const drawn_call *in_hand;

void draw_fail(const char *format, ...)
{
    va_list arguments;
    if (program) draw_describe(graph, program);
    if (in_hand) call_describe(in_hand);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

/* How a process of one call ends. */
enum { HELD = 0, FAILED = 1, NOT_DRAWN = 3, REFUSED = 4 };

static void hold(uint64_t seed)
{
    choices c = choices_of_seed(seed);
    hga_graph *g;
    hga_program p;
    drawn_call call;
    if (!draw_hierarchy(&c, NULL, &g, &p)) exit(NOT_DRAWN);
    call_draw(&c, g, &p, &call);
    graph = g, program = &p, in_hand = &call;
    call_fate fate = call_hold(&call);
    call_hold_on_ranks(&call, &fate);
    if (!fate.forward) call_hold_decoding(&call, &fate);
    if (fate.forward && getenv("HGA_WHY")) printf("%llu refused: %s\n", (unsigned long long)seed, fate.refused);
    if (!fate.forward && fate.backward && getenv("HGA_WHY"))
        printf("%llu no gradient: %s\n", (unsigned long long)seed, fate.refused);
    if (!fate.forward && fate.decoded && getenv("HGA_WHY"))
        printf("%llu no decoder: %s\n", (unsigned long long)seed, fate.refused_decoding);
    if (!fate.forward && fate.on_ranks && getenv("HGA_WHY"))
        printf("%llu not on ranks: %s\n", (unsigned long long)seed, fate.refused_on_ranks);
    call_clear(&call);
    hga_graph_destroy(g);
    exit(fate.forward ? REFUSED : HELD);
}

static int hold_apart(uint64_t seed)
{
    int status = 0;
    pid_t child = fork();
    if (child < 0) exit(2);
    if (child == 0) hold(seed);
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) != FAILED) return 0;
    printf("%llu %s %d\n", (unsigned long long)seed, WIFSIGNALED(status) ? "died of signal" : "failed",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    fflush(stdout);
    return 1;
}

/* The decisions of a call as bytes. */
static void put_bytes(uint64_t seed)
{
    static uint8_t record[1 << 16];
    choices c = choices_of_seed(seed);
    hga_graph *g;
    hga_program p;
    drawn_call call;
    c.record = record, c.capacity = sizeof record;
    if (draw_hierarchy(&c, NULL, &g, &p)) call_draw(&c, g, &p, &call), call_clear(&call);
    hga_graph_destroy(g);
    fwrite(record, 1, c.at, stdout);
}

int main(int argc, char **argv)
{
    int failed = 0;
    if (argc == 3 && strcmp(argv[1], "bytes") == 0) return put_bytes(strtoull(argv[2], NULL, 10)), 0;
    if (argc != 4 || strcmp(argv[1], "hold") != 0) return fprintf(stderr, "drawn_calls hold FIRST N | bytes SEED\n"), 2;
    uint64_t first = strtoull(argv[2], NULL, 10), n = strtoull(argv[3], NULL, 10);
    for (uint64_t seed = first; seed < first + n; seed++) failed += hold_apart(seed);
    return failed > 0;
}
