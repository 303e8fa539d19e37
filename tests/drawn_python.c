/* drawn_python.c: drawn calls of variants as lines of JSON, for Python's tests.

     drawn_python FIRST N

   A line has the words and the number of tokens, the options that Python has too, each array's shape, type and the seed
   of its numbers, and the CRC-32 of what the library gives in C, on one thread, of packed arrays. Numbers of a seed are
   those of array_numbers: 24 bits of splitmix64 each, in [-1, 1), rounded to the array's type. */
#include "calls.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void draw_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

/* That of zlib. */
static uint32_t crc_of(const void *data, size_t bytes, uint32_t crc)
{
    const uint8_t *at = data;
    crc = ~crc;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= at[i];
        for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

/* ---- what Python has, too ---- */

static int number_of(const drawn_call *c, const char *name)
{
    for (int i = 0; i < c->n_arrays; i++)
        if (strcmp(c->drawn[i].name, name) == 0) return i;
    return -1;
}

/* The gradients of a tensor have its type, and the output that of the queries, or else of the values. */
static void match_types(drawn_call *c)
{
    static const char *const pairs[][2] = {{"query", "d_query"}, {"key", "d_key"}, {"value", "d_value"}};
    int out = number_of(c, "out"), query = number_of(c, "query"), value = number_of(c, "value");
    for (int i = 0; i < 3; i++) {
        int x = number_of(c, pairs[i][0]), d = number_of(c, pairs[i][1]);
        if (x >= 0 && d >= 0) c->drawn[d].dtype = c->drawn[x].dtype;
    }
    c->drawn[out].dtype = c->drawn[query >= 0 ? query : value].dtype;
}

/* Options of the library alone are left at their defaults, and what Python wants it wants of every call. */
static void keep_what_python_has(drawn_call *c)
{
    const hga_options drawn = c->options;
    c->options = (hga_options){.threads = drawn.threads,
                               .isa = drawn.isa,
                               .precision = drawn.precision,
                               .gradient = drawn.gradient,
                               .dropout = drawn.dropout};
    c->accumulate = c->in_batch = c->updated = 0;
    c->modifiers = (operands){.scale = c->modifiers.scale, .has_scale = c->modifiers.has_scale};
    call_drop_edges(c);
    while (c->n_arrays && strstr("d_sink d_slopes d_additive", c->drawn[c->n_arrays - 1].name))
        c->wanted &= ~(UINT64_C(1) << --c->n_arrays);
    memset(c->asked, 0, sizeof c->asked);
    for (int i = 0; i < c->n_arrays; i++)
        if (strcmp(c->drawn[i].name, "d_log_mass") == 0 || strcmp(c->drawn[i].name, "d_scale") == 0)
            c->wanted &= ~(UINT64_C(1) << i);
    match_types(c);
    for (int i = 0; i < c->n_arrays; i++) c->plain[i].dtype = c->drawn[i].dtype;
}

/* ---- what the library gives ---- */

typedef struct results {
    call_memory memory;
    hga_status status;
} results;

/* Sample by sample, as every sample of Python's has the same layer. */
static void run(const drawn_call *c, results *r)
{
    hga_plan *plan = NULL;
    hga_workspace *workspace = NULL;
    hga_options options = c->options;
    filled f = {.arrays = c->plain, .byte = 0xff, .whole = 1, .wanted = c->wanted};
    options.threads = 1;
    void *tape = NULL;
    hga_status st;
    HGA_TRY(hga_plan_create(c->graph, c->program, &c->shape, &options, &plan));
    HGA_TRY(hga_workspace_create(plan, &workspace));
    if (!(tape = calloc(1, (size_t)hga_plan_tape_bytes(plan) + 1))) draw_fail("no memory for a tape");
    memory_fill(c, &f, &r->memory);
    for (int s = 0; s < c->n_samples; s++) {
        hga_io io;
        hga_grad_io grad;
        call_io(c, &f, &r->memory, s, &io, &grad);
        io.layer = c->io.layer;
        io.tape = c->options.gradient ? tape : NULL;
        HGA_TRY(hga_plan_execute(plan, workspace, &io));
        if (c->options.gradient && c->wanted) HGA_TRY(hga_plan_gradient(plan, workspace, &io, &grad));
    }
done:
    r->status = st;
    free(tape);
    hga_workspace_destroy(workspace), hga_plan_destroy(plan);
}

/* ---- lines ---- */

static size_t bytes_of(const array *a)
{
    return (size_t)(a->rows * a->heads * a->columns) * (a->dtype == HGA_F32 ? sizeof(float) : sizeof(uint16_t));
}

static void put_array(const drawn_call *c, const results *r, int i)
{
    static const char *const types[] = {"float32", "float16", "bfloat16"};
    const array *a = &c->plain[i];
    int is_result = a->use == ARRAY_WRITTEN || a->use == ARRAY_OUTPUT;
    if (a->use == ARRAY_OUTPUT && !(c->wanted >> i & 1)) return;
    printf(", \"%s\": {\"rows\": %lld, \"heads\": %d, \"columns\": %lld, \"type\": \"%s\", \"gap\": %td, ", a->name,
           (long long)a->rows, a->heads, (long long)a->columns, types[a->dtype],
           c->drawn[i].packed ? (ptrdiff_t)0 : 1 + c->drawn[i].head_stride % 3);
    printf("\"%s\": [", is_result ? "crc" : "seed");
    for (int s = 0; s < c->n_samples; s++)
        if (is_result)
            printf("%s%u", s ? ", " : "", crc_of(r->memory.block[s][i], bytes_of(a), 0));
        else
            printf("%s%llu", s ? ", " : "", (unsigned long long)array_seed(c, i, s));
    printf("]}");
}

static void put_line(uint64_t seed, const char *words, hga_id n, const drawn_call *c, const results *r)
{
    printf("{\"case\": %llu, \"words\": \"%s\", \"tokens\": %d, \"samples\": %d, \"layout\": \"%s\"",
           (unsigned long long)seed, words, n, c->n_samples, c->seed % 2 ? "bhnd" : "bnhd");
    printf(", \"threads\": %d, \"precision\": \"%s\", \"dropout\": %g, \"seed\": %llu, \"layer\": %u",
           c->options.threads, c->options.precision ? "bf16" : "f32", (double)c->options.dropout,
           (unsigned long long)c->io.seed, c->io.layer);
    if (c->options.isa) printf(", \"isa\": \"%s\"", c->options.isa);
    if (c->modifiers.scale != 0 || c->modifiers.has_scale) printf(", \"scale\": %g", (double)c->modifiers.scale);
    printf(", \"gradient\": %s, \"arrays\": {\"\": null", c->options.gradient ? "true" : "false");
    for (int i = 0; i < c->n_arrays; i++) put_array(c, r, i);
    printf("}}\n");
}

static void draw_line(uint64_t seed)
{
    choices c = choices_of_seed(seed);
    char words[128];
    hga_graph *g = NULL;
    hga_program p;
    drawn_call call;
    results r = {0};
    hga_id n = draw_words(&c, words, sizeof words);
    if (hga_build(words, n, &g, &p)) return;
    call_draw(&c, g, &p, &call);
    if (call.program == &call.own) call.program = &p;
    keep_what_python_has(&call);
    call_forget_biases(&call), call_drop_edges(&call);
    run(&call, &r);
    if (r.status) draw_fail("case %llu, %s: %s", (unsigned long long)seed, words, hga_error_detail());
    put_line(seed, words, n, &call, &r);
    memory_clear(&r.memory), call_clear(&call), hga_graph_destroy(g);
}

int main(int argc, char **argv)
{
    if (argc != 3) return fprintf(stderr, "drawn_python FIRST N\n"), 2;
    uint64_t first = strtoull(argv[1], NULL, 10), n = strtoull(argv[2], NULL, 10);
    for (uint64_t seed = first; seed < first + n; seed++) draw_line(seed);
    return 0;
}
