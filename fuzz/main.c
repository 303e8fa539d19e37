/* main.c: what libFuzzer does, as far as a compiler without it needs it:

     fuzz_NAME [--runs N] [--seconds S] [--seed X] [--dictionary=FILE] FILE|FOLDER..

   runs every file once, then N mutants of them, or as many as S seconds allow (the same ones for the same seed), and
   says how many executions there were. An input that ends the process, or takes longer than 60 seconds, is kept as
   crash-NAME in the current folder. */
#define _GNU_SOURCE
#include "dictionary.h"
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 16, MOST_SEEDS = 4096, MOST_WORDS = 256, TIMEOUT = 60 };

typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;

static bytes seeds[MOST_SEEDS], words[MOST_WORDS];
static size_t n_seeds, n_words;
static uint8_t input[MOST_BYTES];
static size_t input_size;
static char crash_name[128];
static uint64_t rng = 1;
static long n_executions;

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

/* ---- an input that must be kept ---- */

static void keep_input(void)
{
    int file = open(crash_name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0 || write(file, input, input_size) != (ssize_t)input_size) return;
    static const char text[] = "kept as ";
    if (write(2, text, sizeof text - 1) < 0 || write(2, crash_name, strlen(crash_name)) < 0 || write(2, "\n", 1) < 0)
        return;
}

static void on_signal(int signal_number)
{
    keep_input();
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void watch(const char *program)
{
    const char *name = strrchr(program, '/');
    snprintf(crash_name, sizeof crash_name, "crash-%s", name ? name + 1 : program);
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(keep_input);
    static char stack[1 << 16]; /* a stack that has overflowed has no room for the handler */
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    static const int signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &action, NULL);
}

/* ---- seeds and words ---- */

static void load(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || n_seeds == MOST_SEEDS) fuzz_fail("%s cannot be read", path);
    uint8_t *data = malloc(MOST_BYTES);
    if (!data) fuzz_fail("no memory");
    seeds[n_seeds++] = (bytes){data, fread(data, 1, MOST_BYTES, file)};
    fclose(file);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static void load_all(const char *path)
{
    struct dirent **entry;
    int n = scandir(path, &entry, NULL, by_name);
    if (n < 0) load(path);
    for (int i = 0; i < n; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entry[i]->d_name);
        if (entry[i]->d_name[0] != '.') load(name);
        free(entry[i]);
    }
    if (n >= 0) free(entry);
}

static void take_word(const uint8_t *word, size_t size)
{
    uint8_t *data = n_words < MOST_WORDS ? malloc(size) : NULL;
    if (!data) fuzz_fail("no memory for %zu words", n_words + 1);
    words[n_words++] = (bytes){memcpy(data, word, size), size};
}

static void load_dictionary(const char *path)
{
    const char *why = NULL;
    long line = dictionary_read(path, take_word, &why);
    if (line < 0) fuzz_fail("%s cannot be read", path);
    if (line) fuzz_fail("%s: line %ld: %s", path, line, why);
}

/* ---- mutants ---- */

static size_t below(size_t n)
{
    uint64_t z = rng += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return n ? (size_t)((z ^ z >> 31) % n) : 0;
}

/* Put bytes in place of n bytes of the input at `at`. */
static void replace(size_t at, size_t n, const uint8_t *by, size_t size)
{
    if (input_size - n + size > MOST_BYTES) return;
    memmove(input + at + size, input + at + n, input_size - at - n);
    if (size) memcpy(input + at, by, size);
    input_size += size - n;
}

static void mutate_once(void)
{
    static const char *const numbers[] = {"0", "-1", "1", "2147483647", "2147483648", "-2147483648", "1e308", "65536"};
    static uint8_t part[MOST_BYTES];
    size_t at = below(input_size + 1), rest = input_size - at, n = below(rest < 40 ? rest + 1 : 40);
    uint8_t byte = (uint8_t)below(256);
    const bytes *other = &seeds[below(n_seeds)], *word = &words[below(n_words)];
    switch (below(n_words ? 9 : 7)) {
    case 0: replace(at, rest ? 1 : 0, &byte, 1); break;
    case 1: /* one bit */
        if (rest) input[at] ^= (uint8_t)(1 << below(8));
        break;
    case 2: replace(at, n, NULL, 0); break;
    case 3: /* again */
        memcpy(part, input + at, n);
        replace(below(input_size + 1), 0, part, n);
        break;
    case 4: /* a piece of another seed */
        if (n_seeds) {
            size_t from = below(other->size + 1), most = other->size - from;
            replace(at, n, other->data + from, below(most < 200 ? most + 1 : 200));
        }
        break;
    case 5: /* random bytes */
        for (size_t i = 0; i < n; i++) part[i] = (uint8_t)below(256);
        replace(at, n, part, n);
        break;
    case 6: { /* another number */
        while (at < input_size && (input[at] < '0' || input[at] > '9')) at++;
        size_t digits = 0;
        while (at + digits < input_size && input[at + digits] >= '0' && input[at + digits] <= '9') digits++;
        const char *number = numbers[below(8)];
        char small[12];
        if (below(2)) number = small, snprintf(small, sizeof small, "%d", (int)below(40));
        replace(at, digits, (const uint8_t *)number, strlen(number));
        break;
    }
    default: replace(at, below(3) ? 0 : n, word->data, word->size);
    }
}

/* A seed changed a few times; without seeds, and now and then, bytes from nowhere. */
static void make_mutant(int random_bytes)
{
    if (!n_seeds || random_bytes) {
        input_size = 16 + below(800);
        for (size_t i = 0; i < input_size; i++) input[i] = (uint8_t)below(256);
        return;
    }
    const bytes *seed = &seeds[below(n_seeds)];
    input_size = seed->size;
    memcpy(input, seed->data, seed->size);
    for (size_t n = 1 + below(1 + below(6)); n > 0; n--) mutate_once();
}

/* ---- runs ---- */

static void run_input(void)
{
    alarm(TIMEOUT);
    LLVMFuzzerTestOneInput(input, input_size);
    n_executions++;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    long runs = 0;
    double seconds = 0, started = now();
    watch(argv[0]);
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--runs") == 0)
            runs = atol(value), i++;
        else if (strcmp(argv[i], "--seconds") == 0)
            seconds = atof(value), i++;
        else if (strcmp(argv[i], "--seed") == 0)
            rng = strtoull(value, NULL, 10) * 1000003 + 1, i++;
        else if (strncmp(argv[i], "--dictionary=", 13) == 0)
            load_dictionary(argv[i] + 13);
        else
            load_all(argv[i]);
    }
    for (size_t i = 0; i < n_seeds; i++) {
        memcpy(input, seeds[i].data, input_size = seeds[i].size);
        run_input();
    }
    /* Fuzzers that make choices want bytes from nowhere; readers would refuse them at the first one. */
    int from_nowhere = n_words == 0;
    for (long i = 0; runs ? i < runs : now() - started < seconds; i++) {
        make_mutant(from_nowhere && i % 2);
        run_input();
    }
    printf("%s: %ld executions, %ld programs executed\n", crash_name + strlen("crash-"), n_executions, fuzz_n_executed);
    return 0;
}
