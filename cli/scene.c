/* scene.c: leaves for trees, and tensors for graphs. */
#include "scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "hga_files.h"
#include "hyperplanes.h"
#include "numbers.h"
#include "rows.h"

/* ---- hash features, positions, projections ---- */

enum { WORD = 64, POSITION = 32, FEATURES = WORD + POSITION };
static const float leaning = 0.8f; /* the share of the query's matrix in the key's */

/* ---- features ---- */

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* FNV-1a of n letters in lower case, begun at `hash` */
static uint64_t hash_letters(uint64_t hash, const char *s, int64_t n)
{
    for (int64_t i = 0; i < n; i++) hash = (hash ^ (uint64_t)(unsigned char)lower(s[i])) * UINT64_C(0x100000001B3);
    return hash;
}

static void add_hashed(uint64_t hash, float weight, float *x)
{
    for (int i = 0; i < WORD; i++) x[i] += weight * number_uniform(hash, (uint64_t)i);
}

/* the word, and its runs of three letters, at unit variance */
static void word_features(const char *word, int64_t n, uint64_t seed, float *x)
{
    uint64_t start = number_bits(seed, 0);
    add_hashed(hash_letters(start, word, n), 1, x);
    for (int64_t i = 0; i + 3 <= n; i++) add_hashed(hash_letters(~start, word + i, 3), 1 / sqrtf((float)n), x);
    float norm = 0;
    for (int i = 0; i < WORD; i++) norm += x[i] * x[i];
    for (int i = 0; i < WORD; i++) x[i] *= sqrtf((float)WORD / norm);
}

/* sines and cosines of geometric wavelengths, at unit variance */
static void position_features(hga_id position, float *x)
{
    for (int i = 0; i < POSITION; i += 2) {
        double angle = position * pow(10000, -(double)i / POSITION);
        x[i] = (float)(sqrt(2) * sin(angle));
        x[i + 1] = (float)(sqrt(2) * cos(angle));
    }
}

/* ---- projections ---- */

/* a matrix [FEATURES][columns] that keeps unit variance */
static void random_matrix(uint64_t seed, int64_t columns, float *w)
{
    numbers_fill(seed, sqrtf(3.0f / FEATURES), FEATURES * columns, w);
}

static void lean(const float *towards, int64_t n, float *w)
{
    float rest = sqrtf(1 - leaning * leaning);
    for (int64_t i = 0; i < n; i++) w[i] = leaning * towards[i] + rest * w[i];
}

/* y = x W */
static void project(const float *x, const float *w, int64_t columns, float *y)
{
    for (int e = 0; e < FEATURES; e++)
        for (int64_t c = 0; c < columns; c++) y[c] += x[e] * w[e * columns + c];
}

static void embed_one(const char *word, int64_t length, hga_id i, uint64_t seed, const float *w, embedding *out)
{
    float x[FEATURES] = {0};
    int64_t columns = (int64_t)out->heads * out->dim;
    word_features(word, length, seed, x);
    position_features(i, x + WORD);
    project(x, w, columns, out->query + i * columns);
    project(x, w + FEATURES * columns, columns, out->key + i * columns);
    project(x, w + 2 * FEATURES * columns, columns, out->value + i * columns);
}

static void embedding_clear(embedding *e)
{
    free(e->query);
    free(e->key);
    free(e->value);
    *e = (embedding){0};
}

/* Word i is text[begin[i] .. end[i]). Its features are hashes of the word in lower case (ASCII letters) and of its
   runs of three letters, so that like words are alike, and sines and cosines of its position; seeded random matrices
   project them. Keys lean towards queries, so that a word attends to its like and to its neighbours. */
static int embed_words(const char *text, const int64_t *begin, const int64_t *end, hga_id n, hga_id heads, hga_id dim,
                       uint64_t seed, embedding *out)
{
    int64_t columns = (int64_t)heads * dim;
    float *w = NULL;
    int status = CLI_GOOD;
    *out = (embedding){.n = n, .heads = heads, .dim = dim};
    TRY(take(3 * FEATURES * columns, sizeof *w, &w));
    TRY(take(n * columns, sizeof *out->query, &out->query));
    TRY(take(n * columns, sizeof *out->key, &out->key));
    TRY(take(n * columns, sizeof *out->value, &out->value));
    for (uint64_t i = 0; i < 3; i++)
        random_matrix(number_bits(seed, i + 1), columns, w + (int64_t)i * FEATURES * columns);
    lean(w, FEATURES * columns, w + FEATURES * columns);
    for (hga_id i = 0; i < n; i++) embed_one(text + begin[i], end[i] - begin[i], i, seed, w, out);
done:
    free(w);
    if (status) embedding_clear(out);
    return status;
}

enum { LEAF_TOKENS = 128 };

/* ---- leaves ---- */

/* The height of a tree whose leaves have at least LEAF_TOKENS of n words. */
static hga_id height_for(hga_id n)
{
    hga_id height = 0;
    while (n >> (height + 1) >= LEAF_TOKENS) height++;
    return height;
}

/* Sends queries and keys down a tree of hyperplanes, random or through medians, to its leaves. */
static int route_words(const embedding *e, hga_id height, int medians, uint64_t seed, int32_t *query_leaf,
                       int32_t *key_leaf)
{
    hga_id columns = e->heads * e->dim;
    int64_t planes = ((int64_t)1 << height) - 1;
    float *weights = NULL, *bias = NULL;
    int status = CLI_GOOD;
    if (planes == 0) return CLI_GOOD; /* all tokens are in the one leaf */
    TRY(take(planes * columns, sizeof *weights, &weights));
    TRY(take(planes, sizeof *bias, &bias));
    numbers_fill(number_bits(seed, 100), 1, planes * columns, weights);
    if (medians)
        TRY(complain_of(bench_halve(e->key, e->n, columns, columns, height, weights, bias), CLI_OUTSIDE, "treeformer"));
    hga_router r = {.height = height, .dim = columns, .n_heads = 1, .weights = weights, .bias = bias};
    TRY(complain_of(hga_route(&r, e->query, e->n, columns, 0, query_leaf), CLI_OUTSIDE, "treeformer"));
    TRY(complain_of(hga_route(&r, e->key, e->n, columns, 0, key_leaf), CLI_OUTSIDE, "treeformer"));
done:
    free(weights);
    free(bias);
    return status;
}

/* ---- the scene ---- */

/* Frees the leaves that the words had in another tree. */
int scene_route(scene *s, hga_id height, int medians, uint64_t seed)
{
    free(s->query_leaf);
    free(s->key_leaf);
    s->query_leaf = s->key_leaf = NULL;
    s->height = height;
    MUST(take(s->words.n, sizeof *s->query_leaf, &s->query_leaf));
    MUST(take(s->words.n, sizeof *s->key_leaf, &s->key_leaf));
    return route_words(&s->words, height, medians, seed, s->query_leaf, s->key_leaf);
}

/* Makes a tree of the text's units and embeddings of its words. */
int scene_make(const scene_text *t, hga_id max_words, scene *out)
{
    int status = CLI_GOOD;
    *out = (scene){.call = t->call, .files = t->files};
    TRY(complain_of(hga_tree_text(NULL, t->text, t->bytes, NULL, max_words, &out->tree), CLI_DATA, t->name));
    const int64_t *begin = out->tree.leaf_begin, *end = out->tree.leaf_end;
    hga_id n = out->tree.n_leaves;
    TRY(embed_words(t->text, begin, end, n, t->shape.n_heads, t->shape.dim, (uint64_t)t->seed, &out->words));
    TRY(scene_route(out, height_for(n), 1, (uint64_t)t->seed));
done:
    if (status) scene_clear(out);
    return status;
}

void scene_clear(scene *s)
{
    if (s->tree.n) hga_tree_clear(&s->tree);
    embedding_clear(&s->words);
    free(s->query_leaf);
    free(s->key_leaf);
    *s = (scene){0};
}

/* ---- tensors ---- */

/* each node's row is the mean of its tokens' */
static void spread_rows(const hga_nodes *n, const float *tokens, int64_t columns, float *rows)
{
    hga_id first = n->level_ptr[1];
    memcpy(rows, tokens, (size_t)(first * columns) * sizeof *rows);
    for (hga_id v = first; v < n->n; v++) {
        float *row = rows + v * columns, share = 1 / (float)(n->span_last[v] - n->span_first[v] + 1);
        for (int64_t u = n->span_first[v]; u <= n->span_last[v]; u++)
            for (int64_t c = 0; c < columns; c++) row[c] += share * tokens[u * columns + c];
    }
}

/* the tokens' rows, or, where rows are nodes, those computed at *at, which is advanced */
static const float *rows_for(const hga_nodes *n, hga_id rows, const float *tokens, int64_t columns, float **at)
{
    if (rows == n->level_ptr[1]) return tokens;
    float *filled = *at;
    spread_rows(n, tokens, columns, filled);
    *at += rows * columns;
    return filled;
}

static int make_alpha(hga_id levels, cast *c)
{
    MUST(take(levels, sizeof *c->alpha, &c->alpha));
    for (hga_id l = 0; l < levels; l++) c->alpha[l] = 1 / (float)levels;
    c->io.type_scale.data = c->alpha;
    c->io.type_scale.rows = levels;
    return CLI_GOOD;
}

int64_t cast_bytes(const scene *s, const hga_graph *g, const hga_program *p, hga_id dim_v)
{
    int64_t keys =
                (int64_t)bound_rows(g, p, HGA_IO_QUERY, HGA_ROWS_QUERIES) + bound_rows(g, p, HGA_IO_KEY, HGA_ROWS_KEYS),
            values =
                (int64_t)bound_rows(g, p, HGA_IO_VALUE, HGA_ROWS_KEYS) + bound_rows(g, p, HGA_IO_OUT, HGA_ROWS_QUERIES);
    return (int64_t)sizeof(float) * s->words.heads * (keys * s->words.dim + values * dim_v);
}

/* Binds the tables of scores. */
static int bind_call(const scene *s, const hga_graph *g, const hga_program *p, cast *c)
{
    const embedding *e = &s->words;
    model m = model_of(g, p, "these tokens");
    hga_shape shape = {.n_heads = e->heads, .n_kv_heads = e->heads, .dim = e->dim};
    int status = s->call ? call_files_read(s->call, s->files) : CLI_GOOD;
    if (status || !s->call) return status;
    c->files = call_files_attach(s->files);
    return call_files_bind(s->call, &m, &shape, &c->files, &c->io);
}

/* Allocates a call's tensors in one block; where rows are the tokens the scene's own are read instead. */
int cast_make(const scene *s, const hga_graph *g, const hga_program *p, const float *value, hga_id dim_v, cast *out)
{
    const embedding *e = &s->words;
    hga_nodes n = hga_graph_nodes(g);
    hga_id q = bound_rows(g, p, HGA_IO_QUERY, HGA_ROWS_QUERIES), k = bound_rows(g, p, HGA_IO_KEY, HGA_ROWS_KEYS);
    hga_id v = bound_rows(g, p, HGA_IO_VALUE, HGA_ROWS_KEYS), o = bound_rows(g, p, HGA_IO_OUT, HGA_ROWS_QUERIES);
    int64_t width = (int64_t)e->heads * e->dim, width_v = (int64_t)e->heads * dim_v;
    *out = (cast){0};
    int status = CLI_GOOD;
    TRY(take(cast_bytes(s, g, p, dim_v) / (int64_t)sizeof(float), sizeof *out->memory, &out->memory));
    float *at = out->memory;
    out->out = at;
    at += o * width_v;
    out->io.out.data = out->out;
    out->io.query.rows = q, out->io.key.rows = k, out->io.value.rows = v, out->io.out.rows = o;
    if (bound_field(p, HGA_IO_QUERY)) out->io.query.data = (void *)(uintptr_t)rows_for(&n, q, e->query, width, &at);
    if (bound_field(p, HGA_IO_KEY)) out->io.key.data = (void *)(uintptr_t)rows_for(&n, k, e->key, width, &at);
    out->io.value.data = (void *)(uintptr_t)rows_for(&n, v, value ? value : e->value, width_v, &at);
    if (!bound_field(p, HGA_IO_QUERY)) TRY(make_alpha(s->height + 1, out));
    TRY(bind_call(s, g, p, out));
done:
    if (status) cast_clear(out);
    return status;
}

void cast_clear(cast *c)
{
    free(c->memory);
    free(c->alpha);
    call_files_clear(&c->files);
    *c = (cast){0};
}
