/* embed.c: hash features, positions, projections. */
#include "embed.h"

#include <math.h>
#include <stdlib.h>

#include "numbers.h"

enum { WORD = 64, POSITION = 32, FEATURES = WORD + POSITION };
static const float leaning = 0.8f; /* of a key's matrix, the part that is the query's */

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

/* the word, and its pieces of three letters, at unit variance */
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

int embed_words(const char *text, const int64_t *begin, const int64_t *end, hga_id n, hga_id heads, hga_id dim,
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

void embedding_clear(embedding *e)
{
    free(e->query);
    free(e->key);
    free(e->value);
    *e = (embedding){0};
}
