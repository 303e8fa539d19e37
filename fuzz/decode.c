/* decode.c: a causal program, and lives of a few caches of it: tokens are appended, many or few, to one cache or to
   several in one call; caches are forked, cut, written and read, and their files changed. Two texts begin alike, so
   that forks go different ways. Whatever happened before, rows have the bits of the full pass of their text, and a file
   that was changed is refused. */
#include "fuzz.h"

#include "stage_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CACHES = 4, N_TEXTS = 2, MOST_STEPS = 60, N_TENSORS = 5, OUT = 3, LSE = 4 };

/* ---- a problem and its full pass ---- */

typedef struct problem {
    const hga_graph *graph;
    const hga_program *program;
    hga_shape shape;
    hga_decode_options options;
    hga_io io[N_TEXTS];
    hga_id split;                      /* texts are one up to this token, and differ from there on */
    float *tensor[N_TEXTS][N_TENSORS]; /* query, key, value, out, log-sum-exps: the full passes' */
    float scale[256];
    int64_t floats[N_TENSORS]; /* of a row */
    hga_decoder *decoder;
    hga_decode_workspace *workspace;
    hga_pages *pages;
} problem;

static void draw_options(choices *c, problem *x)
{
    static const hga_id heads[] = {1, 2, 4}, page_rows[] = {0, 1, 4, 64};
    hga_id n = heads[choose(c, 3)];
    x->shape = (hga_shape){.n_heads = n, .n_kv_heads = choose(c, 2) ? n : 1, .dim = 1 + choose(c, 20)};
    x->shape.dim_v = choose(c, 2) ? 1 + choose(c, 20) : x->shape.dim;
    hga_options *o = &x->options.plan;
    o->threads = 1 + choose(c, 3);
    o->isa = rarely(c, 3) ? "ref" : NULL;
    o->precision = rarely(c, 4) ? HGA_PRECISION_BF16 : HGA_PRECISION_F32;
    o->generic = rarely(c, 8);
    o->strict_rows = rarely(c, 6);
    if (rarely(c, 4)) o->cut_edges = 8 + choose(c, 40);
    x->options.same_bits = 1;
    x->options.rollback = choose(c, 9);
    x->options.page_rows = page_rows[choose(c, 4)];
    x->options.page_type = rarely(c, 4) ? HGA_BF16 : HGA_F32;
}

/* Numbers that 16 bits hold exactly, so that rounding pages changes none. */
static float *numbers(uint64_t *rng, int64_t n)
{
    float *x = malloc((size_t)(n + 1) * sizeof *x);
    if (!x) fuzz_fail("no memory");
    for (int64_t i = 0; i < n; i++) {
        *rng = *rng * UINT64_C(6364136223846793005) + 1;
        x[i] = (float)((int)(*rng >> 58) - 32) / 16;
    }
    return x;
}

static hga_tensor *tensor_of(hga_io *io, int i)
{
    hga_tensor *of[N_TENSORS] = {&io->query, &io->key, &io->value, &io->out, &io->lse};
    return of[i];
}

static void measure(problem *x)
{
    const hga_shape *s = &x->shape;
    const int64_t floats[] = {(int64_t)s->n_heads * s->dim, (int64_t)s->n_kv_heads * s->dim,
                              (int64_t)s->n_kv_heads * s->dim_v, (int64_t)s->n_heads * s->dim_v, s->n_heads};
    memcpy(x->floats, floats, sizeof floats);
    for (int i = 0; i < 256; i++) x->scale[i] = (float)(i % 5) / 4 - 0.5f;
}

static int has_tensor(const problem *x, int i)
{
    static const hga_binding bound[] = {HGA_IO_QUERY, HGA_IO_KEY, HGA_IO_VALUE, HGA_IO_OUT};
    return i == LSE ? x->program->has_lse : program_bound(x->program, bound[i]) != 0;
}

static int has_scale(const hga_program *p)
{
    for (hga_id s = 0; s < p->n_stages; s++)
        if (p->stage[s].message == HGA_SCALED) return 1;
    return 0;
}

/* Rows that come with tokens before the split are the first text's. */
static void share_prefix(problem *x, int text)
{
    hga_id n = hga_decoder_rows(x->decoder, 0, x->split, NULL, 0), *node = malloc((size_t)(n + 1) * sizeof *node);
    if (!node) fuzz_fail("no memory");
    hga_decoder_rows(x->decoder, 0, x->split, node, n);
    for (int i = 0; i < OUT; i++)
        for (hga_id k = 0; x->tensor[0][i] && k < n; k++) {
            int64_t at = (node[k] - x->decoder->io_first) * x->floats[i];
            memcpy(x->tensor[text][i] + at, x->tensor[0][i] + at, (size_t)x->floats[i] * sizeof(float));
        }
    free(node);
}

static void fill(problem *x, int text)
{
    uint64_t rng = 5 + (uint64_t)text;
    hga_io *io = &x->io[text];
    for (int i = 0; i < N_TENSORS; i++) {
        if (!has_tensor(x, i)) continue;
        x->tensor[text][i] = numbers(&rng, x->decoder->io_n * x->floats[i]);
        *tensor_of(io, i) = (hga_tensor){.data = x->tensor[text][i], .rows = x->decoder->io_n};
    }
    if (text) share_prefix(x, text);
    if (has_scale(x->program)) io->type_scale.data = x->scale, io->type_scale.rows = 256;
}

/* Does it decode? What does not is refused in words. */
static int open_problem(choices *c, problem *x, const hga_allocator *a)
{
    hga_options full = x->options.plan;
    x->options.plan.allocator = a;
    hga_status st = hga_decoder_create(x->graph, x->program, &x->shape, &x->options, &x->decoder);
    if (st && !*hga_error_detail()) fuzz_fail("decoding is refused without a word");
    if (st) return 0;
    measure(x);
    x->split = choose(c, hga_decoder_tokens(x->decoder) + 1);
    for (int text = 0; text < N_TEXTS; text++) {
        fill(x, text);
        if (hga_attention(x->graph, x->program, &x->shape, &full, &x->io[text])) return 0;
    }
    if (hga_decode_workspace_create(x->decoder, &x->workspace) || hga_pages_create(x->decoder, 0, &x->pages))
        fuzz_fail("%s", hga_error_detail());
    x->pages->poison = 1;
    return 1;
}

static void close_problem(problem *x)
{
    if (x->pages && hga_pages_used(x->pages)) fuzz_fail("%lld bytes of no cache", (long long)hga_pages_used(x->pages));
    hga_pages_destroy(x->pages);
    hga_decode_workspace_destroy(x->workspace);
    hga_decoder_destroy(x->decoder);
    for (int i = 0; i < N_TEXTS * N_TENSORS; i++) free(x->tensor[i / N_TENSORS][i % N_TENSORS]);
}

/* ---- appends ---- */

/* A cache, and which text it has. */
typedef struct reader {
    hga_cache *cache;
    int text;
} reader;

typedef struct fed {
    int text;
    hga_id n, *node;
    float *rows[N_TENSORS];
} fed;

static hga_append append_of(const problem *x, const reader *r, hga_id n_tokens, fed *f)
{
    hga_append a = {.cache = r->cache, .n_tokens = n_tokens, .io = x->io[r->text]};
    hga_id from = hga_cache_tokens(r->cache);
    f->text = r->text, f->n = hga_decoder_rows(x->decoder, from, n_tokens, NULL, 0);
    f->node = malloc((size_t)(f->n + 1) * sizeof *f->node);
    if (!f->node) fuzz_fail("no memory");
    hga_decoder_rows(x->decoder, from, n_tokens, f->node, f->n);
    for (int i = 0; i < N_TENSORS; i++) {
        f->rows[i] = NULL;
        if (!x->tensor[f->text][i]) continue;
        f->rows[i] = malloc((size_t)(f->n * x->floats[i] + 1) * sizeof(float));
        if (!f->rows[i]) fuzz_fail("no memory");
        for (hga_id k = 0; i < OUT && k < f->n; k++)
            memcpy(f->rows[i] + k * x->floats[i],
                   x->tensor[f->text][i] + (f->node[k] - x->decoder->io_first) * x->floats[i],
                   (size_t)x->floats[i] * sizeof(float));
        *tensor_of(&a.io, i) = (hga_tensor){.data = f->rows[i], .rows = f->n};
    }
    return a;
}

static void check_fed(const problem *x, const fed *f)
{
    for (int i = OUT; i < N_TENSORS; i++)
        for (hga_id k = 0; x->tensor[f->text][i] && k < f->n; k++) {
            const float *got = f->rows[i] + k * x->floats[i],
                        *want = x->tensor[f->text][i] + (f->node[k] - x->decoder->io_first) * x->floats[i];
            for (int64_t j = 0; j < x->floats[i]; j++)
                if (memcmp(&got[j], &want[j], sizeof *got) && !(isnan(got[j]) && isnan(want[j])))
                    fuzz_fail("%s of row %d, number %d is %.9g, in the full pass %.9g", i == OUT ? "output" : "lse",
                              f->node[k], (int)j, (double)got[j], (double)want[j]);
        }
}

static void free_fed(fed *f)
{
    free(f->node);
    for (int i = 0; i < N_TENSORS; i++) free(f->rows[i]);
}

/* Some of the caches get some of the tokens that they have not had yet; which text goes on is open up to the split. */
static void append(choices *c, const problem *x, reader r[N_CACHES], uint32_t which)
{
    hga_append list[N_CACHES];
    fed f[N_CACHES];
    hga_id n = 0;
    for (int i = 0; i < N_CACHES; i++) {
        hga_id left = r[i].cache ? hga_decoder_tokens(x->decoder) - hga_cache_tokens(r[i].cache) : 0;
        if (!(which >> i & 1) || !left) continue;
        hga_id most = choose(c, 3) ? 4 : 60;
        if (hga_cache_tokens(r[i].cache) <= x->split) r[i].text = choose(c, N_TEXTS);
        list[n] = append_of(x, &r[i], 1 + choose(c, left < most ? left : most), &f[n]), n++;
    }
    if (hga_decoder_append(x->decoder, x->workspace, list, n)) fuzz_fail("append: %s", hga_error_detail());
    for (hga_id i = 0; i < n; i++) check_fed(x, &f[i]), free_fed(&f[i]);
}

/* ---- files ---- */

enum { MOST_FILE = 1 << 22 };

/* Of a cache's bytes some are changed, or missing, or too many. */
static void change_file(choices *c, const problem *x, const hga_cache *cache)
{
    hga_cache *read = NULL;
    static uint8_t text[MOST_FILE + 1];
    if (hga_cache_write(cache, fuzz_scratch())) fuzz_fail("not written: %s", hga_error_detail());
    FILE *file = fopen(fuzz_scratch(), "rb");
    size_t n = file ? fread(text, 1, MOST_FILE, file) : 0;
    if (file) fclose(file);
    if (n == 0) fuzz_fail("nothing was written");
    if (n == MOST_FILE) return;
    size_t at = (size_t)choose(c, (hga_id)n);
    switch (choose(c, 3)) {
    case 0: n = at; break;
    case 1: text[at] ^= (uint8_t)(1 << choose(c, 8)); break;
    default: text[n++] = (uint8_t)choose(c, 256);
    }
    hga_status st = hga_cache_read(x->pages, fuzz_file(text, n), &read);
    if (st != HGA_EFORMAT || !*hga_error_detail() || read)
        fuzz_fail("a file with byte %zu changed is read: %s", at, hga_status_name(st));
}

static hga_cache *written_and_read(const problem *x, hga_cache *cache)
{
    hga_cache *read;
    if (hga_cache_write(cache, fuzz_scratch())) fuzz_fail("not written: %s", hga_error_detail());
    if (hga_cache_read(x->pages, fuzz_scratch(), &read)) fuzz_fail("not read: %s", hga_error_detail());
    if (hga_cache_tokens(read) != hga_cache_tokens(cache)) fuzz_fail("read with other tokens");
    hga_cache_destroy(cache);
    return read;
}

/* ---- lives ---- */

static void cut(choices *c, const problem *x, hga_cache *cache)
{
    hga_id tokens = hga_cache_tokens(cache), to = choose(c, 4) ? tokens - choose(c, x->options.rollback + 1) : 0;
    if (to < 0) to = 0;
    hga_status st = hga_cache_cut(cache, to);
    if (st && (st != HGA_EINVAL || !*hga_error_detail())) fuzz_fail("cut: %s", hga_error_detail());
    if (hga_cache_tokens(cache) != (st ? tokens : to)) fuzz_fail("cut to other tokens");
}

static void step(choices *c, const problem *x, reader r[N_CACHES])
{
    reader *at = &r[choose(c, N_CACHES)], *other = &r[choose(c, N_CACHES)];
    if (!at->cache && hga_cache_create(x->pages, &at->cache)) fuzz_fail("%s", hga_error_detail());
    switch (choose(c, 8)) {
    case 4:
        if (at == other) break;
        hga_cache_destroy(other->cache);
        *other = *at;
        if (hga_cache_fork(at->cache, &other->cache)) fuzz_fail("fork: %s", hga_error_detail());
        break;
    case 1: cut(c, x, at->cache); break;
    case 2: at->cache = written_and_read(x, at->cache); break;
    case 3: change_file(c, x, at->cache); break;
    default: append(c, x, r, choose(c, 2) ? (uint32_t)choose(c, 1 << N_CACHES) : 1u << (at - r));
    }
}

static void live(choices *c, const problem *x)
{
    reader r[N_CACHES] = {0};
    hga_id steps = MOST_STEPS - choose(c, MOST_STEPS / 2);
    for (hga_id i = 0; i < steps; i++) step(c, x, r);
    for (int i = 0; i < N_CACHES; i++) hga_cache_destroy(r[i].cache);
    fuzz_n_executed++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    choices c = choices_of_bytes(data, size);
    filling memory = {.byte = 0xff};
    hga_allocator a = filling_allocator(&memory);
    hga_program p;
    hga_graph *g;
    if (draw_causal(&c, 0, &g, &p) && fuzz_is_small(g)) {
        problem x = {.graph = g, .program = &p};
        fuzz_set_input(g, &p);
        draw_options(&c, &x);
        if (open_problem(&c, &x, &a)) live(&c, &x);
        close_problem(&x);
        fuzz_set_input(NULL, NULL);
    }
    hga_graph_destroy(g);
    fuzz_memory_end(&memory, "a decoder");
    return 0;
}
