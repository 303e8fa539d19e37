/* decode_run.c: feeds the library's caches. */
#include "decode_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "clock.h"
#include "numbers.h"
#include "outfile.h"

/* ---- the command line ---- */

/* Sizes with commas between them, or random:SEED. */
static int read_chunks(const char *text, void *input)
{
    typed_decoding *out = input;
    int64_t seed = 0;
    out->chunks_text = text;
    out->random_chunks = strncmp(text, "random:", 7) == 0;
    if (!out->random_chunks) return read_list("--chunks", text, 1, INT32_MAX, MOST_CHUNKS, &out->n_chunks, out->chunk);
    MUST(read_whole("--chunks random", text + 7, 0, INT64_MAX, &seed));
    out->seed = (uint64_t)seed;
    return CLI_GOOD;
}

/* T:BACK */
static int read_cut(const char *text, void *input)
{
    typed_decoding *out = input;
    char at[32];
    size_t n = strcspn(text, ":");
    if (!text[n] || n >= sizeof at) return complain(CLI_USAGE, "--cut: '%s' is not T:BACK", text);
    memcpy(at, text, n), at[n] = 0;
    MUST(read_id("--cut", at, 1, INT32_MAX, &out->at[CUT]));
    return read_id("--cut", text + n + 1, 1, out->at[CUT], &out->back);
}

static void start(void *input)
{
    typed_decoding *typed = input;
    typed->at[FORK] = typed->at[CUT] = typed->at[SAVE] = NEVER, typed->n_chunks = 1, typed->chunk[0] = 1;
}

static const option_row decoding_options[] = {
    {"chunks", READ(read_chunks), "LIST", 0,
     "how many tokens each append has; the list is repeated. random:SEED: 1 to 64 at random (default: 1)", 5},
    {"same", FLAG(typed_decoding, same), NULL, 0,
     "rows have the bits that `hga attend` gives them (default: within 2e-6)", 5},
    {"fork-at", ID(typed_decoding, at[FORK], 0, INT32_MAX), "T", 0,
     "fork the cache when it has T tokens, and continue in the fork", 5},
    {"cut", READ(read_cut), "T:BACK", 0, "when the cache has T tokens, take back the last BACK and append them again",
     5},
    {"save", TEXT(typed_decoding, save), "FILE", 0, "write the cache to a file", 5},
    {"save-at", ID(typed_decoding, at[SAVE], 0, INT32_MAX), "T", 0,
     "save the cache when it has T tokens (default: at the end)", 5},
    {"resume", TEXT(typed_decoding, resume), "FILE", 0,
     "start with the cache in a file. The tensors begin with the tokens that it has; their rows of the output are NaN",
     5},
    {0},
};
const option_list decoding_list = {.rows = decoding_options, .start = start};

int decoding_check(const typed_decoding *typed, const attend_paths *paths)
{
    const outfile_wish files[] = {{"--out", paths->out}, {"--lse", paths->lse}, {"--save", typed->save}};
    if (typed->at[SAVE] != NEVER && !typed->save) return complain(CLI_USAGE, "--save-at: there is no --save FILE");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i].path && outfile_same(files[i].path, "-"))
            return complain(CLI_USAGE, "%s %s: standard output has the table", files[i].option, files[i].path);
    return outfiles_distinct(files, (int)(sizeof files / sizeof *files));
}

/* A cache that is resumed cannot be forked, cut or saved before its end. */
static int check_tokens(const typed_decoding *typed, hga_id first, hga_id end)
{
    static const char *const option[N_MOMENTS] = {"--fork-at", "--cut", "--save-at"};
    for (int i = 0; i < N_MOMENTS; i++) {
        const hga_id at = typed->at[i];
        if (at == NEVER) continue;
        if (at > end) return complain(CLI_USAGE, "%s: %d is beyond the %d tokens", option[i], at, end);
        if (at < first)
            return complain(CLI_USAGE, "%s: the cache of %s has %d tokens already, not %d", option[i], typed->resume,
                            first, at);
    }
    return CLI_GOOD;
}

/* Tokens of chunk i. */
static hga_id chunk_of(const typed_decoding *typed, uint64_t i)
{
    if (typed->random_chunks) return 1 + (hga_id)(number_bits(typed->seed, i) % LONGEST_RANDOM_CHUNK);
    return typed->chunk[i % (uint64_t)typed->n_chunks];
}

enum { QUERY, KEY, VALUE, OUT, LSE, N_TENSORS };

/* Tokens are the graph's: of trees that differ by head there are `heads` for each of the caller's. */
typedef struct session {
    const typed_decoding *typed;
    attend_io *sample;
    hga_id n, per; /* samples; the graph's tokens for each of the caller's */
    hga_id tokens, end, first_row;
    hga_id at[N_MOMENTS]; /* NEVER once it was */
    uint64_t n_chunks;
    hga_cache **cache; /* [n] */
    hga_append *list;  /* [n] */
    hga_id *node;
    float *rows; /* of all samples' tensors, one after the other */
    int64_t node_capacity, rows_capacity;
    decoded *out;
} session;

static hga_tensor *tensor_of(hga_io *io, int i)
{
    hga_tensor *of[N_TENSORS] = {&io->query, &io->key, &io->value, &io->out, &io->lse};
    return of[i];
}

static int64_t floats_of(const hga_shape *s, int i)
{
    const int64_t of[N_TENSORS] = {(int64_t)s->n_heads * s->dim, (int64_t)s->n_kv_heads * s->dim,
                                   (int64_t)s->n_kv_heads * s->dim_v, (int64_t)s->n_heads * s->dim_v, s->n_heads};
    return of[i];
}

static int grow(void *array, int64_t *capacity, int64_t n, size_t size)
{
    void **at = array;
    if (n <= *capacity) return CLI_GOOD;
    void *more = realloc(*at, (size_t)(2 * n) * size);
    if (!more) return complain(CLI_OUTSIDE, "out of memory");
    *at = more, *capacity = 2 * n;
    return CLI_GOOD;
}

/* ---- an append ---- */

/* Gathers rows of a sample's tensor, or scatters them back, by the rows that the decoder names. */
static void move_rows(const session *s, const hga_tensor *t, int64_t floats, hga_id n, float *rows, int gather)
{
    float *all = (float *)(uintptr_t)t->data;
    for (hga_id k = 0; k < n; k++, rows += floats) {
        float *there = all + (s->node[k] - s->first_row) * floats;
        memcpy(gather ? rows : there, gather ? there : rows, (size_t)floats * sizeof *rows);
    }
}

/* Points into `rows`: the samples' next tokens, or their outputs. */
static void lay_rows(session *s, hga_id chunk, hga_id n_rows)
{
    float *rows = s->rows;
    for (hga_id i = 0; i < s->n; i++) {
        attend_io *a = &s->sample[i];
        s->list[i] = (hga_append){.cache = s->cache[i], .n_tokens = chunk, .io = a->io};
        for (int t = 0; t < N_TENSORS; t++) {
            int64_t floats = floats_of(&a->shape, t);
            const hga_tensor *from = tensor_of(&a->io, t);
            if (!from->data) continue;
            if (t < OUT) move_rows(s, from, floats, n_rows, rows, 1);
            *tensor_of(&s->list[i].io, t) = (hga_tensor){.data = rows, .rows = n_rows};
            rows += n_rows * floats;
        }
    }
}

static void take_rows(const session *s, hga_id n_rows)
{
    for (hga_id i = 0; i < s->n; i++)
        for (int t = OUT; t < N_TENSORS; t++) {
            attend_io *a = &s->sample[i];
            if (!tensor_of(&a->io, t)->data) continue;
            float *rows = (float *)(uintptr_t)tensor_of(&s->list[i].io, t)->data;
            move_rows(s, tensor_of(&a->io, t), floats_of(&a->shape, t), n_rows, rows, 0);
        }
}

static int note_seconds(decoded *d, double seconds, hga_id tokens, hga_id n_samples)
{
    MUST(grow(&d->seconds, &d->capacity, d->n_seconds + tokens, sizeof *d->seconds));
    for (hga_id i = 0; i < tokens; i++) d->seconds[d->n_seconds++] = seconds / tokens / n_samples;
    d->appends++;
    return CLI_GOOD;
}

static void note_bytes(session *s)
{
    decoded *d = s->out;
    int64_t bytes = hga_pages_used(d->pages), workspace = hga_decode_workspace_bytes(d->workspace);
    if (d->most_at == 0 || bytes > d->most_bytes) d->most_bytes = bytes, d->most_at = s->tokens;
    if (workspace > d->workspace_bytes) d->workspace_bytes = workspace;
}

/* Appends a chunk to every cache in one timed call; inputs and outputs are the rows that the decoder names. */
static int append(session *s, hga_id chunk)
{
    const hga_decoder *d = s->out->decoder;
    int64_t floats = 0;
    hga_id n = hga_decoder_rows(d, s->tokens, chunk, NULL, 0);
    for (int t = 0; t < N_TENSORS; t++) floats += floats_of(&s->sample->shape, t);
    MUST(grow(&s->node, &s->node_capacity, n, sizeof *s->node));
    MUST(grow(&s->rows, &s->rows_capacity, s->n * floats * n, sizeof *s->rows));
    hga_decoder_rows(d, s->tokens, chunk, s->node, n);
    lay_rows(s, chunk, n);
    double start = bench_seconds();
    MUST(complain_of(hga_decoder_append(d, s->out->workspace, s->list, s->n), CLI_USAGE, "append"));
    MUST(note_seconds(s->out, bench_seconds() - start, chunk / s->per, s->n));
    take_rows(s, n);
    s->tokens += chunk;
    note_bytes(s);
    return CLI_GOOD;
}

/* ---- between appends ---- */

/* Replaces each cache by its own fork, and destroys the original. */
static int fork_caches(session *s)
{
    for (hga_id i = 0; i < s->n; i++) {
        hga_cache *fork;
        MUST(complain_of(hga_cache_fork(s->cache[i], &fork), CLI_USAGE, "--fork-at"));
        hga_cache_destroy(s->cache[i]);
        s->cache[i] = fork;
    }
    return CLI_GOOD;
}

static int cut_caches(session *s)
{
    s->tokens -= s->typed->back * s->per;
    for (hga_id i = 0; i < s->n; i++) MUST(complain_of(hga_cache_cut(s->cache[i], s->tokens), CLI_USAGE, "--cut"));
    return CLI_GOOD;
}

/* Is it the moment? True once. */
static int is_now(const session *s, hga_id *moment)
{
    int now = *moment == s->tokens;
    if (now) *moment = NEVER;
    return now;
}

static int meet_moments(session *s)
{
    if (is_now(s, &s->at[SAVE])) MUST(complain_of(hga_cache_fork(s->cache[0], &s->out->saved), CLI_USAGE, "--save"));
    if (is_now(s, &s->at[FORK])) MUST(fork_caches(s));
    if (is_now(s, &s->at[CUT])) MUST(cut_caches(s));
    return CLI_GOOD;
}

/* The length of the next chunk, which ends with the tokens, or at a moment, whichever is first. */
static hga_id next_chunk(session *s)
{
    hga_id left = s->end - s->tokens, chunk = chunk_of(s->typed, s->n_chunks++);
    if (chunk <= left / s->per) left = chunk * s->per;
    for (int i = 0; i < N_MOMENTS; i++)
        if (s->at[i] > s->tokens && s->at[i] - s->tokens < left) left = s->at[i] - s->tokens;
    return left;
}

/* Feeds chunks up to the last token, with forks, cuts and files at their moments. */
static int feed(session *s)
{
    while (1) {
        MUST(meet_moments(s));
        if (s->tokens == s->end) break;
        MUST(append(s, next_chunk(s)));
    }
    return CLI_GOOD;
}

/* ---- open and close ---- */

/* Complains of a program that cannot be decoded, with the hint if a token sees a later one. */
static int refuse(hga_status st, const model *m)
{
    char detail[512];
    hga_id token = -1, sees;
    snprintf(detail, sizeof detail, "%s", hga_error_detail());
    if (st != HGA_EUNSUPPORTED || !*m->causal_hint) return model_complain_of(st, m);
    if (hga_program_influence(&m->program, m->graph, &token, &sees) || token < 0)
        return complain(CLI_USAGE, "%s: %s", m->title, detail);
    return complain(CLI_USAGE, "%s: %s%s", m->title, detail, m->causal_hint);
}

/* The decoder, its workspace and its pages, which are timed for the report. */
static int open_decoder(const typed_decoding *typed, const model *m, const hga_options *options, session *s)
{
    hga_decode_options o = {.plan = *options, .same_bits = typed->same, .prefill = m->prefill};
    hga_id tokens = hga_graph_nodes(m->graph).level_ptr[1] / s->per;
    decoded *d = s->out;
    MUST(check_tokens(typed, 0, tokens)); /* which bounds the rollback */
    o.rollback = typed->back * s->per;
    if (m->how.block) o.selection = &m->how;
    double start = bench_seconds();
    hga_status st = hga_decoder_create(m->graph, &m->program, &s->sample->shape, &o, &d->decoder);
    if (st) return refuse(st, m);
    MUST(model_complain_of(hga_decode_workspace_create(d->decoder, &d->workspace), m));
    MUST(model_complain_of(hga_pages_create(d->decoder, 0, &d->pages), m));
    d->decoder_seconds = bench_seconds() - start;
    s->end = hga_decoder_tokens(d->decoder), d->tokens = s->end / s->per;
    return CLI_GOOD;
}

/* Marks output rows that are not computed. */
static void mark_rows(attend_io *a)
{
    for (int t = OUT; t < N_TENSORS; t++) {
        float *rows = a->made[t - OUT];
        for (int64_t i = 0; rows && i < a->io.out.rows * floats_of(&a->shape, t); i++) rows[i] = NAN;
    }
}

static int resume(session *s)
{
    if (s->n > 1) return complain(CLI_USAGE, "--resume: a file has one cache, the tensors have %d samples", s->n);
    MUST(complain_of(hga_cache_read(s->out->pages, s->typed->resume, &s->cache[0]), CLI_DATA, s->typed->resume));
    s->tokens = hga_cache_tokens(s->cache[0]), s->out->resumed = s->tokens / s->per;
    mark_rows(s->sample);
    return CLI_GOOD;
}

/* Opens a cache for each sample, empty or from the file that is resumed, and sets the moments. */
static int open_caches(session *s)
{
    MUST(take(s->n, sizeof *s->cache, &s->cache));
    MUST(take(s->n, sizeof *s->list, &s->list));
    if (s->typed->save && s->n > 1)
        return complain(CLI_USAGE, "--save: a file has one cache, the tensors have %d samples", s->n);
    for (hga_id i = 0; !s->typed->resume && i < s->n; i++)
        MUST(complain_of(hga_cache_create(s->out->pages, &s->cache[i]), CLI_USAGE, "caches"));
    if (s->typed->resume) MUST(resume(s));
    MUST(check_tokens(s->typed, s->out->resumed, s->out->tokens));
    for (int i = 0; i < N_MOMENTS; i++) s->at[i] = s->typed->at[i] == NEVER ? NEVER : s->typed->at[i] * s->per;
    if (s->typed->save && s->at[SAVE] == NEVER) s->at[SAVE] = s->end;
    return CLI_GOOD;
}

/* Counts what the caches held when they held most. */
static int count_rows(const model *m, decoded *d)
{
    d->n_levels = hga_graph_nodes(m->graph).n_levels;
    MUST(take(d->n_levels, sizeof *d->level_rows, &d->level_rows));
    for (hga_id l = 0; l < d->n_levels; l++) {
        d->level_rows[l] = hga_decoder_cache_level_rows(d->decoder, d->most_at, l);
        d->rows += d->level_rows[l];
    }
    return CLI_GOOD;
}

/* The first row of the tensors, as a node. */
static int find_first_row(session *s)
{
    const hga_decoder *d = s->out->decoder;
    hga_id n = hga_decoder_rows(d, 0, s->end, NULL, 0);
    MUST(grow(&s->node, &s->node_capacity, n, sizeof *s->node));
    hga_decoder_rows(d, 0, s->end, s->node, n);
    s->first_row = s->node[0];
    for (hga_id i = 1; i < n; i++)
        if (s->node[i] < s->first_row) s->first_row = s->node[i];
    return CLI_GOOD;
}

static void session_clear(session *s)
{
    for (hga_id i = 0; s->cache && i < s->n; i++) hga_cache_destroy(s->cache[i]);
    free(s->cache);
    free(s->list);
    free(s->node);
    free(s->rows);
}

/* Makes a decoder and a cache for each sample; appends chunks of tokens until all are there. */
int decode_run(const typed_decoding *typed, const model *m, const hga_options *options, attend_io *sample, hga_id n,
               decoded *out)
{
    session s = {
        .typed = typed, .sample = sample, .n = n, .per = m->tree_heads, .at = {NEVER, NEVER, NEVER}, .out = out};
    int status = CLI_GOOD;
    TRY(open_decoder(typed, m, options, &s));
    TRY(find_first_row(&s));
    TRY(open_caches(&s));
    TRY(feed(&s));
    TRY(count_rows(m, out));
done:
    session_clear(&s);
    return status;
}

void decoded_clear(decoded *d)
{
    hga_cache_destroy(d->saved);
    hga_pages_destroy(d->pages);
    hga_decode_workspace_destroy(d->workspace);
    hga_decoder_destroy(d->decoder);
    free(d->seconds);
    free(d->level_rows);
    *d = (decoded){0};
}
