/* test_decode_memory.c: what a decoder takes is what its caches hold, however many tokens go by. */
#include "filling.h"
#include "hga_builders.h"
#include "instruments.h"
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOKENS = 20000, HEADS = 4, DIM = 32, FLOATS = HEADS * DIM, MOST_GROWTH = 12 << 20 };

static const hga_shape shape = {.n_heads = HEADS, .dim = DIM};

/* ---- five hierarchies ---- */

static hga_status window(hga_graph **g, hga_program *p)
{
    hga_window w;
    hga_defaults(&w);
    w.n_tokens = TOKENS, w.left = 256, w.right = 0, w.causal = 1;
    return hga_build_window(&w, g, p);
}

static hga_status htransformer(hga_graph **g, hga_program *p)
{
    hga_htransformer h;
    hga_defaults(&h);
    h.n_tokens = TOKENS, h.block = 16, h.causal = 1;
    return hga_build_htransformer(&h, g, p);
}

static hga_status hsa(hga_graph **g, hga_program *p)
{
    static const hga_id four = 4;
    hga_hsa h;
    hga_defaults(&h);
    h.n_tokens = TOKENS, h.branching = &four, h.n_branching = 1, h.causal = 1, h.mode = HGA_HSA_FRONTIER;
    return hga_build_hsa(&h, g, p);
}

static hga_status fenwick(hga_graph **g, hga_program *p)
{
    return hga_build_fenwick(&(hga_fenwick){.n_tokens = TOKENS}, g, p);
}

static hga_status bpt(hga_graph **g, hga_program *p)
{
    hga_bpt b;
    hga_defaults(&b);
    b.n_tokens = TOKENS, b.k = 4, b.causal = 1;
    return hga_build_bpt(&b, g, p);
}

/* ---- decoding ---- */

typedef struct text {
    hga_graph *graph;
    hga_program program;
    hga_decoder *decoder;
    hga_decode_workspace *workspace;
    hga_pages *pages;
    hga_cache *cache;
    hga_id first_row, rows, *node; /* of tensors */
    float *query, *key, *value, *whole;
    float *chunk[3], *out; /* an append's */
} text;

static void text_open(text *t, hga_status (*build)(hga_graph **, hga_program *), const hga_decode_options *o,
                      hga_id longest)
{
    *t = (text){0};
    assert_ok(build(&t->graph, &t->program));
    assert_ok(hga_decoder_create(t->graph, &t->program, &shape, o, &t->decoder));
    t->rows = hga_decoder_rows(t->decoder, 0, TOKENS, NULL, 0);
    t->node = memory(t->rows, sizeof *t->node);
    hga_decoder_rows(t->decoder, 0, 1, t->node, 1);
    t->first_row = t->rows == TOKENS ? t->node[0] : 0;
    t->query = random_floats(1, 1, (int64_t)t->rows * FLOATS);
    t->key = random_floats(2, 1, (int64_t)t->rows * FLOATS);
    t->value = random_floats(3, 1, (int64_t)t->rows * FLOATS);
    t->whole = random_floats(4, 1, (int64_t)t->rows * FLOATS);
    for (int i = 0; i < 3; i++) t->chunk[i] = memory(((int64_t)2 * longest + 64) * FLOATS, sizeof(float));
    t->out = memory(((int64_t)2 * longest + 64) * FLOATS, sizeof(float));
    hga_io io = {.query = {.data = t->query, .rows = t->rows},
                 .key = {.data = t->key, .rows = t->rows},
                 .value = {.data = t->value, .rows = t->rows},
                 .out = {.data = t->whole, .rows = t->rows}};
    assert_ok(hga_attention(t->graph, &t->program, &shape, &o->plan, &io));
}

static void text_begin(text *t)
{
    assert_ok(hga_decode_workspace_create(t->decoder, &t->workspace));
    assert_ok(hga_pages_create(t->decoder, 0, &t->pages));
    assert_ok(hga_cache_create(t->pages, &t->cache));
}

/* The next n tokens' rows are those of the full pass. */
static void append(text *t, hga_id n, const char *name)
{
    const float *from[] = {t->query, t->key, t->value};
    hga_id first = hga_cache_tokens(t->cache), rows = hga_decoder_rows(t->decoder, first, n, t->node, t->rows);
    for (int i = 0; i < 3; i++)
        for (hga_id k = 0; k < rows; k++)
            memcpy(t->chunk[i] + (int64_t)k * FLOATS, from[i] + (int64_t)(t->node[k] - t->first_row) * FLOATS,
                   FLOATS * sizeof(float));
    hga_append a = {.cache = t->cache, .n_tokens = n};
    a.io = (hga_io){.query = {.data = t->chunk[0], .rows = rows},
                    .key = {.data = t->chunk[1], .rows = rows},
                    .value = {.data = t->chunk[2], .rows = rows},
                    .out = {.data = t->out, .rows = rows}};
    assert_ok(hga_decoder_append(t->decoder, t->workspace, &a, 1));
    for (hga_id k = 0; k < rows; k++)
        if (memcmp(t->out + (int64_t)k * FLOATS, t->whole + (int64_t)(t->node[k] - t->first_row) * FLOATS,
                   FLOATS * sizeof(float)))
            fail_msg("%s: row %d has other bits", name, t->node[k]);
}

/* What goes on is a fork, and its origin goes. */
static void text_fork(text *t)
{
    hga_cache *origin = t->cache;
    assert_ok(hga_cache_fork(origin, &t->cache));
    append(t, 1, "a fork");
    hga_cache_destroy(origin);
}

static void text_close(text *t)
{
    hga_cache_destroy(t->cache);
    hga_pages_destroy(t->pages);
    hga_decode_workspace_destroy(t->workspace);
    hga_decoder_destroy(t->decoder);
    hga_graph_destroy(t->graph);
    free(t->node), free(t->query), free(t->key), free(t->value), free(t->whole), free(t->out);
    for (int i = 0; i < 3; i++) free(t->chunk[i]);
}

/* ---- what the process has ---- */

typedef struct process {
    long addresses, resident;
} process;

static process look(void)
{
    process x = {0};
    FILE *f = fopen("/proc/self/statm", "r");
    if (f) {
        assert_int_equal(fscanf(f, "%ld %ld", &x.addresses, &x.resident), 2);
        fclose(f);
    }
    return x;
}

/* .. beside so many bytes that caches hold. Sanitizers have memory of their own, for what was given back, too. */
static void assert_no_growth(const char *name, process before, int64_t held)
{
    process now = look();
    double page = (double)sysconf(_SC_PAGESIZE), addresses = (double)(now.addresses - before.addresses) * page,
           resident = (double)(now.resident - before.resident) * page;
#ifdef IS_SANITIZED
    return;
#endif
    if (addresses > (double)(MOST_GROWTH + held) || resident > (double)(MOST_GROWTH + held))
        fail_msg("%s: %.1f MB more resident, %.1f MB more addresses, of which caches hold %.1f", name, resident / 1e6,
                 addresses / 1e6, (double)held / 1e6);
}

enum { WINDOW, HTRANSFORMER, HSA, FENWICK, BPT, N_ALL };
static const struct {
    const char *name;
    hga_status (*build)(hga_graph **, hga_program *);
} all[N_ALL] = {{"window", window}, {"htransformer", htransformer}, {"hsa", hsa}, {"fenwick", fenwick}, {"bpt", bpt}};

/* Beside what the cache itself holds: a span of BP-Transformer's reads all of its tokens, which wait for its last. */
static void tokens_one_by_one_take_no_more_memory(void **state)
{
    (void)state;
    for (int i = 0; i < N_ALL; i++) {
        text t;
        text_open(&t, all[i].build, &(hga_decode_options){.plan = {.threads = 1}, .same_bits = 1}, 1);
        process before = look();
        text_begin(&t);
        for (hga_id k = 0; k < TOKENS; k++) append(&t, 1, all[i].name);
        assert_no_growth(all[i].name, before, hga_pages_bytes(t.pages));
        text_close(&t);
    }
}

/* Forks, cuts and chunks of any length on the way; pages of 16 bits; operands rounded; a prompt first. */
static void whatever_was_appended_memory_comes_back(void **state)
{
    static const hga_decode_options settings[] = {
        {.plan = {.threads = 1}, .same_bits = 1, .rollback = 50},
        {.plan = {.threads = 1, .precision = HGA_PRECISION_BF16}, .same_bits = 1, .rollback = 50},
        {.plan = {.threads = 1, .precision = HGA_PRECISION_BF16, .generic = 1}, .same_bits = 1, .rollback = 50}};
    (void)state;
    for (int i = 0; i < N_ALL; i++)
        for (int k = 0; k < 3; k++) {
            enum { PROMPT = 6000 };
            text t;
            filling memory_of = {.byte = 0xff};
            hga_allocator counted = filling_allocator(&memory_of);
            if (passed_over(i + k) || i == HSA || i == FENWICK || (k == 2 && i != WINDOW)) continue;
            hga_decode_options o = settings[k];
            o.plan.allocator = &counted;
            text_open(&t, all[i].build, &o, PROMPT);
            int64_t of_decoder = memory_of.bytes;
            text_begin(&t);
            assert_int_equal(hga_decode_workspace_bytes(t.workspace), hga_decoder_workspace_bytes(t.decoder));
            append(&t, 100, all[i].name);
            int64_t few = hga_decode_workspace_bytes(t.workspace);
            append(&t, PROMPT - 100, all[i].name);
            int64_t many = hga_decode_workspace_bytes(t.workspace);
            for (hga_id n = 0; n < 120; n++) {
                if (n == 30) text_fork(&t);
                if (n == 60) assert_ok(hga_cache_cut(t.cache, hga_cache_tokens(t.cache) - 40));
                append(&t, 1 + n % 3, all[i].name);
            }
            int64_t after = hga_decode_workspace_bytes(t.workspace);
            assert_true(many > few + PROMPT * FLOATS);
            if (i != BPT) assert_true(after < few + (many - few) / 8);
            int64_t pages = hga_pages_bytes(t.pages), told = after + pages, taken = memory_of.bytes - of_decoder;
            /* tables of pages, the cache and the pool are small */
            if (taken < told || taken > told + told / 16 + 100000)
                fail_msg("%s: %lld bytes are taken, %lld and %lld are told", all[i].name, (long long)taken,
                         (long long)after, (long long)pages);
            text_close(&t);
            assert_int_equal(memory_of.live, 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_one_by_one_take_no_more_memory),
        cmocka_unit_test(whatever_was_appended_memory_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
