/* character_model.c: the first layer of a trained model, on a text. */
#include "character_model.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "archive.h"

/* ---- reading ---- */

static int file_of(const char *folder, char **path)
{
    static const char name[] = "/model.safetensors";
    int status = take((int64_t)(strlen(folder) + sizeof name), 1, path);
    if (status == CLI_GOOD) strcpy(*path, folder), strcat(*path, name);
    return status;
}

/* A tensor of that name and shape; 0 stands for a length that is not known yet. */
static int read_tensor(const char *path, int n_dims, int64_t rows, int64_t columns, npy *out, const char *format, ...)
{
    char name[100], shape[200], *whole = NULL;
    const int64_t want[] = {rows, columns};
    int status = CLI_GOOD;
    va_list list;
    va_start(list, format);
    vsnprintf(name, sizeof name, format, list);
    va_end(list);
    TRY(take((int64_t)(strlen(path) + strlen(name)) + 2, 1, &whole));
    strcpy(whole, path), strcat(whole, ":"), strcat(whole, name);
    TRY(npy_read_real(whole, out));
    int right = out->real && out->n_dims == n_dims;
    for (int i = 0; right && i < n_dims; i++) right = !want[i] || out->dim[i] == want[i];
    if (!right)
        TRY(complain(CLI_DATA, "%s: is %s, which is not the model's shape", whole,
                     npy_shape(out->n_dims, out->dim, shape)));
done:
    free(whole);
    return status;
}

static int read_heads(const char *path, character_model *m)
{
    char *text = NULL, *end;
    int status = CLI_GOOD;
    TRY(safetensors_about(path, "heads", &text));
    long heads = strtol(text, &end, 10);
    if (end == text || *end || heads < 1 || heads > m->width || m->width % heads)
        TRY(complain(CLI_DATA, "%s: '%s' heads do not divide width %lld", path, text, (long long)m->width));
    m->heads = (hga_id)heads, m->dim = (hga_id)(m->width / heads);
done:
    free(text);
    return status;
}

/* Bytes of the character that begins here; `room` at most. */
static int64_t letter_bytes(const char *c, int64_t room)
{
    int64_t n = 1;
    while (n < room && (c[n] & 0xc0) == 0x80) n++;
    return n;
}

static int read_letters(const char *path, character_model *m)
{
    char *text = NULL;
    json_t *letters = NULL;
    int64_t n = 0, bytes;
    int status = CLI_GOOD;
    TRY(safetensors_about(path, "letters", &text));
    letters = json_loads(text, JSON_DECODE_ANY, NULL);
    if (!json_is_string(letters)) TRY(complain(CLI_DATA, "%s: its letters are no JSON string", path));
    bytes = (int64_t)json_string_length(letters);
    TRY(take(bytes + 1, 1, &m->letters));
    memcpy(m->letters, json_string_value(letters), (size_t)bytes);
    for (int64_t at = 0; at < bytes; at += letter_bytes(m->letters + at, bytes - at)) n++;
    if (n != m->letter[0].dim[0])
        TRY(complain(CLI_DATA, "%s: has %d letters and embeddings of %d", path, (int)n, (int)m->letter[0].dim[0]));
done:
    json_decref(letters);
    free(text);
    return status;
}

/* Embeddings of the characters before: as many as there are. */
static int read_back(const char *path, character_model *m)
{
    int status = CLI_GOOD, has = 1;
    while (m->n_back < CHARACTERS_BACK) {
        char name[40];
        snprintf(name, sizeof name, "letter.%d.weight", m->n_back + 1);
        TRY(safetensors_has(path, name, &has));
        if (!has) break;
        TRY(read_tensor(path, 2, m->letter[0].dim[0], m->width, &m->letter[m->n_back + 1], "%s", name));
        m->n_back++;
    }
done:
    return status;
}

int character_model_read(const char *folder, character_model *m)
{
    char *path = NULL;
    int status = CLI_GOOD;
    *m = (character_model){.folder = folder};
    TRY(file_of(folder, &path));
    TRY(read_tensor(path, 2, 0, 0, &m->letter[0], "letter.0.weight"));
    m->width = m->letter[0].dim[1];
    TRY(read_heads(path, m));
    TRY(read_letters(path, m));
    TRY(read_back(path, m));
    TRY(read_tensor(path, 2, 0, m->width, &m->place, "place"));
    m->context = m->place.dim[0];
    TRY(read_tensor(path, 1, m->width, 0, &m->scale, "layers.0.before_attention.weight"));
    TRY(read_tensor(path, 1, m->width, 0, &m->shift, "layers.0.before_attention.bias"));
    TRY(read_tensor(path, 2, 3 * m->width, m->width, &m->project, "layers.0.attention.project.weight"));
    TRY(read_tensor(path, 1, 3 * m->width, 0, &m->bias, "layers.0.attention.project.bias"));
done:
    free(path);
    if (status) character_model_clear(m);
    return status;
}

void character_model_clear(character_model *m)
{
    for (int i = 0; i <= CHARACTERS_BACK; i++) npy_clear(&m->letter[i]);
    npy_clear(&m->place), npy_clear(&m->scale), npy_clear(&m->shift), npy_clear(&m->project), npy_clear(&m->bias);
    free(m->letters);
    *m = (character_model){0};
}

/* ---- a text's characters ---- */

/* The last characters that were read, and the place of the next one. */
typedef struct reading {
    const character_model *m;
    int64_t at, place; /* bytes of the text; 0 to context - 1 */
    int last[CHARACTERS_BACK + 1], n_last;
    int64_t left_out;
    float *state; /* [width], twice */
} reading;

/* The letter's number, -1 without. */
static int letter_number(const character_model *m, const char *c, int64_t bytes)
{
    int64_t all = (int64_t)strlen(m->letters), n = 0;
    for (int64_t at = 0, known; at < all; at += known, n++) {
        known = letter_bytes(m->letters + at, all - at);
        if (known == bytes && !memcmp(m->letters + at, c, (size_t)bytes)) return (int)n;
    }
    return bytes == 1 && strchr("\t\n\v\f\r", *c) ? letter_number(m, " ", 1) : -1;
}

static void read_letter(reading *r, int number)
{
    memmove(r->last + 1, r->last, CHARACTERS_BACK * sizeof *r->last);
    r->last[0] = number;
    r->place = r->n_last && r->place + 1 < r->m->context ? r->place + 1 : 0;
    r->n_last = r->place == 0 ? 1 : r->n_last + 1;
}

/* Up to byte `end`. */
static void read_on(reading *r, const char *text, int64_t end)
{
    for (int64_t bytes; r->at < end; r->at += bytes) {
        bytes = letter_bytes(text + r->at, end - r->at);
        int number = letter_number(r->m, text + r->at, bytes);
        if (number < 0)
            r->left_out++;
        else
            read_letter(r, number);
    }
}

/* What the last character begins with, in a text that began with its context. */
static void begin_last(const reading *r, float *x)
{
    const character_model *m = r->m;
    memcpy(x, m->place.real + r->place * m->width, (size_t)m->width * sizeof *x);
    for (int back = 0; back <= m->n_back && back < r->n_last; back++)
        for (int64_t c = 0; c < m->width; c++) x[c] += m->letter[back].real[r->last[back] * m->width + c];
}

static void normalise(const character_model *m, const float *x, float *y)
{
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < m->width; c++) mean += (double)x[c] / (double)m->width;
    for (int64_t c = 0; c < m->width; c++) variance += ((double)x[c] - mean) * ((double)x[c] - mean) / (double)m->width;
    double scale = 1 / sqrt(variance + 1e-5); /* torch's LayerNorm */
    for (int64_t c = 0; c < m->width; c++)
        y[c] = (float)(((double)x[c] - mean) * scale) * m->scale.real[c] + m->shift.real[c];
}

/* Third `which` of the projection: queries, keys, values. */
static void project(const character_model *m, const float *x, int which, float *y)
{
    for (int64_t row = 0; row < m->width; row++) {
        const float *w = m->project.real + (which * m->width + row) * m->width;
        float sum = m->bias.real[which * m->width + row];
        for (int64_t c = 0; c < m->width; c++) sum += w[c] * x[c];
        y[row] = sum;
    }
}

static void embed_last(const reading *r, hga_id i, embedding *out)
{
    const character_model *m = r->m;
    float *of[] = {out->query, out->key, out->value};
    begin_last(r, r->state);
    normalise(m, r->state, r->state + m->width);
    for (int k = 0; k < 3; k++) project(m, r->state + m->width, k, of[k] + i * m->width);
}

int character_model_embed(const character_model *m, const char *text, const int64_t *begin, const int64_t *end,
                          hga_id n, embedding *out)
{
    reading r = {.m = m, .at = n ? begin[0] : 0};
    int status = CLI_GOOD;
    *out = (embedding){.n = n, .heads = m->heads, .dim = m->dim};
    TRY(take(n * m->width, sizeof *out->query, &out->query));
    TRY(take(n * m->width, sizeof *out->key, &out->key));
    TRY(take(n * m->width, sizeof *out->value, &out->value));
    TRY(take(2 * m->width, sizeof *r.state, &r.state));
    for (hga_id i = 0; i < n; i++) {
        read_on(&r, text, end[i]);
        if (!r.n_last) TRY(complain(CLI_DATA, "%s: has no letter of the text's first word", m->folder));
        embed_last(&r, i, out);
    }
    out->left_out = r.left_out;
done:
    free(r.state);
    if (status) embedding_clear(out);
    return status;
}
