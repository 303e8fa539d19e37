/* Writes text with a model that python/train/characters.py trained: its checkpoint, a beginning, and how many
   characters follow. The beginning is one append to the caches of the layers, every character after it another, so
   that a character costs what its own row costs, whatever the hierarchy.

     generate runs/characters/htransformer-block=16-0/model.safetensors "In the beginning" 200

   The most likely character is taken, as often as asked; they are those that Python's model takes. */
#include <hga.h>
#include <hga_files.h>

#include <cblas.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_LAYERS = 64, MOST_BACK = 16 };

__attribute__((format(printf, 1, 2), noreturn)) static void give_up(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("generate: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(1);
}

static void must(hga_status st, const char *what)
{
    if (st) give_up("%s: %s", what, hga_error_detail());
}

static void *memory(int64_t n, size_t size)
{
    void *p = calloc((size_t)(n ? n : 1), size);
    if (!p) give_up("no memory for %lld times %zu bytes", (long long)n, size);
    return p;
}

/* ---- the model: names and shapes are those of python/train/model.py ---- */

/* y = x W' + b */
typedef struct linear {
    const float *weight, *bias; /* [n_out][n_in], [n_out] */
    int n_in, n_out;
} linear;

typedef struct norm {
    const float *weight, *bias;
    int width;
} norm;

typedef struct layer {
    norm before_attention, before_wide;
    linear project, out, widen, narrow;
    const float *rel_key; /* [n_rel_key][width / heads], NULL without */
    hga_id n_rel_key;
    hga_pages *pages; /* each layer has a cache of its own */
    hga_cache *cache;
} layer;

typedef struct model {
    hga_arrays *file;
    int width, heads, n_letters, n_layers, back, context;
    const float *letter[MOST_BACK + 1], *place; /* [n_letters][width] each, [context][width] */
    layer layer[MOST_LAYERS];
    norm last;
    linear scores;
    json_t *letters; /* a string: letter i is its i-th character */
    hga_decoder *decoder;
    hga_decode_workspace *workspace;
    hga_graph *graph;
    int by_nodes; /* rows are nodes of a binary tree, not tokens alone */
} model;

/* A tensor of the model, [rows][columns] or [rows]. */
typedef struct tensor {
    const float *data;
    int64_t rows, columns;
} tensor;

/* The tensor of that name; 0 stands for a length that is not known yet. */
static tensor find(const model *m, int n_axes, int64_t rows, int64_t columns, const char *format, ...)
{
    char name[100];
    va_list list;
    va_start(list, format);
    vsnprintf(name, sizeof name, format, list);
    va_end(list);
    int64_t i = hga_arrays_find(m->file, name), want[] = {rows, columns};
    if (i < 0) give_up("the checkpoint has no tensor '%s'", name);
    hga_array t;
    tensor x;
    must(hga_arrays_look(m->file, i, &t), name);
    int right = t.has.n_dims == n_axes;
    for (int d = 0; right && d < n_axes; d++)
        right = t.has.dim[d] >= 1 && t.has.dim[d] < 1 << 24 && (!want[d] || t.has.dim[d] == want[d]);
    if (!right) give_up("tensor '%s' has another shape than the model's", name);
    must(hga_arrays_floats(m->file, i, &x.data), name);
    x.rows = t.has.dim[0], x.columns = t.has.dim[1];
    return x;
}

static linear read_linear(const model *m, int n_in, int n_out, const char *format, int number)
{
    char name[60];
    snprintf(name, sizeof name, format, number);
    tensor weight = find(m, 2, n_out, n_in, "%s.weight", name);
    n_out = (int)weight.rows;
    return (linear){weight.data, find(m, 1, n_out, 0, "%s.bias", name).data, n_in, n_out};
}

static norm read_norm(const model *m, const char *format, int number)
{
    char name[60];
    snprintf(name, sizeof name, format, number);
    return (norm){find(m, 1, m->width, 0, "%s.weight", name).data, find(m, 1, m->width, 0, "%s.bias", name).data,
                  m->width};
}

static int has(const model *m, const char *format, int number)
{
    char name[60];
    snprintf(name, sizeof name, format, number);
    return hga_arrays_find(m->file, name) >= 0;
}

static void read_layer(model *m, int i)
{
    layer *l = &m->layer[i];
    int width = m->width;
    l->before_attention = read_norm(m, "layers.%d.before_attention", i);
    l->before_wide = read_norm(m, "layers.%d.before_wide", i);
    l->project = read_linear(m, width, 3 * width, "layers.%d.attention.project", i);
    l->out = read_linear(m, width, width, "layers.%d.attention.out", i);
    l->widen = read_linear(m, width, 0, "layers.%d.wide.0", i);
    l->narrow = read_linear(m, l->widen.n_out, width, "layers.%d.wide.2", i);
    if (!has(m, "layers.%d.attention.rel_key", i)) return;
    tensor t = find(m, 2, 0, width / m->heads, "layers.%d.attention.rel_key", i);
    l->rel_key = t.data, l->n_rel_key = (hga_id)t.rows;
}

static const char *about(const model *m, const char *name)
{
    const char *text = hga_arrays_about(m->file, name);
    if (!text) give_up("the checkpoint does not say its '%s'", name);
    return text;
}

static void read_weights(model *m)
{
    tensor letter = find(m, 2, 0, 0, "letter.0.weight");
    m->n_letters = (int)letter.rows, m->width = (int)letter.columns;
    m->heads = atoi(about(m, "heads"));
    if (m->heads < 1 || m->width % m->heads) give_up("%d heads do not divide width %d", m->heads, m->width);
    tensor place = find(m, 2, 0, m->width, "place");
    m->place = place.data, m->context = (int)place.rows;
    for (m->back = -1; m->back < MOST_BACK && has(m, "letter.%d.weight", m->back + 1); m->back++)
        m->letter[m->back + 1] = find(m, 2, m->n_letters, m->width, "letter.%d.weight", m->back + 1).data;
    for (; has(m, "layers.%d.before_wide.weight", m->n_layers); m->n_layers++) {
        if (m->n_layers == MOST_LAYERS) give_up("the checkpoint has more than %d layers", MOST_LAYERS);
        read_layer(m, m->n_layers);
    }
    m->last = read_norm(m, "last", 0);
    m->scores = read_linear(m, m->width, m->n_letters, "scores", 0);
    m->letters = json_loads(about(m, "letters"), JSON_DECODE_ANY, NULL);
    if (!json_is_string(m->letters)) give_up("the checkpoint's letters are no JSON string");
}

/* The hierarchy's words as hga_build takes them: "hsa:branching=2,4" is "hsa branching=2,4 causal=1". */
static void build(model *m, int threads)
{
    char words[300];
    hga_program program;
    snprintf(words, sizeof words, "%.250s", about(m, "attention"));
    for (char *c = words; *c; c++)
        if (*c == ':') *c = ' ';
    int always = strncmp(words, "fenwick", 7) == 0; /* it knows nothing but the past */
    if (!always) strcat(words, " causal=1");
    must(hga_build(words, m->context, &m->graph, &program), words);
    m->by_nodes = program.field[hga_program_field(&program, HGA_IO_QUERY)].io == HGA_ROWS_NODES;
    hga_shape shape = {.n_heads = m->heads, .dim = m->width / m->heads};
    must(hga_decoder_create(m->graph, &program, &shape, &(hga_decode_options){.plan.threads = threads}, &m->decoder),
         words);
    must(hga_decode_workspace_create(m->decoder, &m->workspace), "a workspace");
    for (int i = 0; i < m->n_layers; i++) {
        must(hga_pages_create(m->decoder, 0, &m->layer[i].pages), "pages");
        must(hga_cache_create(m->layer[i].pages, &m->layer[i].cache), "a cache");
    }
}

static void close_model(model *m)
{
    for (int i = 0; i < m->n_layers; i++) hga_cache_destroy(m->layer[i].cache), hga_pages_destroy(m->layer[i].pages);
    hga_decode_workspace_destroy(m->workspace);
    hga_decoder_destroy(m->decoder);
    hga_graph_destroy(m->graph);
    json_decref(m->letters);
    hga_arrays_close(m->file);
}

/* ---- arithmetic on rows ---- */

static float *apply(const linear *f, const float *x, int rows)
{
    float *y = memory((int64_t)rows * f->n_out, sizeof *y);
    for (int r = 0; r < rows; r++) memcpy(y + (int64_t)r * f->n_out, f->bias, (size_t)f->n_out * sizeof *y);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, f->n_out, f->n_in, 1, x, f->n_in, f->weight, f->n_in, 1,
                y, f->n_out);
    return y;
}

static float *normed(const norm *f, const float *x, int rows)
{
    float *y = memory((int64_t)rows * f->width, sizeof *y);
    for (int r = 0; r < rows; r++) {
        const float *from = x + (int64_t)r * f->width;
        double mean = 0, variance = 0;
        for (int c = 0; c < f->width; c++) mean += (double)from[c] / f->width;
        for (int c = 0; c < f->width; c++) variance += ((double)from[c] - mean) * ((double)from[c] - mean) / f->width;
        double scale = 1 / sqrt(variance + 1e-5);
        for (int c = 0; c < f->width; c++)
            y[(int64_t)r * f->width + c] = (float)(((double)from[c] - mean) * scale) * f->weight[c] + f->bias[c];
    }
    return y;
}

static void add(float *x, const float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

static void gelu(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] *= 0.5f * (1 + erff(x[i] * 0.70710678f));
}

/* ---- tokens through the layers ---- */

/* A text under way: its characters, and of each what it begins with, [tokens][width]. */
typedef struct text {
    int *letter, n;
    float *begin;
} text;

/* A token begins as the sum of where it stands, its own embedding, and those of the tokens before it. */
static void begin_token(const model *m, text *t, int token)
{
    float *x = t->begin + (int64_t)token * m->width;
    memcpy(x, m->place + (int64_t)token * m->width, (size_t)m->width * sizeof *x);
    for (int back = 0; back <= m->back && back <= token; back++)
        add(x, m->letter[back] + (int64_t)t->letter[token - back] * m->width, m->width);
}

/* The tokens below a node of a binary tree over n tokens: tokens come first, then spans of two, four, .. */
static void span_of(int node, int n, int *first, int *end)
{
    int size = 1, on_level = n;
    while (node >= on_level) node -= on_level, on_level = (on_level + 1) / 2, size *= 2;
    *first = node * size;
    *end = *first + size < n ? *first + size : n;
}

/* What rows begin with: tokens as they are, spans as the means of theirs. */
static float *begin_rows(const model *m, const text *t, const hga_id *node, int rows)
{
    float *x = memory((int64_t)rows * m->width, sizeof *x);
    for (int r = 0; r < rows; r++) {
        int first = node[r], end = first + 1;
        if (m->by_nodes) span_of(node[r], m->context, &first, &end);
        float *row = x + (int64_t)r * m->width;
        for (int i = first; i < end; i++) add(row, t->begin + (int64_t)i * m->width, m->width);
        for (int c = 0; c < m->width; c++) row[c] /= (float)(end - first);
    }
    return x;
}

/* Rows' attention over what the layer's cache holds and they themselves. */
static float *attend(const model *m, const layer *l, const float *qkv, int tokens, int rows)
{
    ptrdiff_t dim = m->width / m->heads, stride = 3 * (ptrdiff_t)m->width;
    float *y = memory((int64_t)rows * m->width, sizeof *y);
    hga_append append = {.cache = l->cache, .n_tokens = tokens};
    hga_tensor *in[] = {&append.io.query, &append.io.key, &append.io.value};
    for (int i = 0; i < 3; i++)
        *in[i] = (hga_tensor){
            .data = (float *)(uintptr_t)(qkv + i * m->width), .rows = rows, .row_stride = stride, .head_stride = dim};
    append.io.out = (hga_tensor){.data = y, .rows = rows};
    append.io.rel_key.data = l->rel_key, append.io.rel_key.rows = l->n_rel_key;
    must(hga_decoder_append(m->decoder, m->workspace, &append, 1), "an append");
    return y;
}

static void pass_layer(const model *m, const layer *l, float *x, int tokens, int rows)
{
    int64_t n = (int64_t)rows * m->width;
    float *a = normed(&l->before_attention, x, rows), *qkv = apply(&l->project, a, rows);
    float *y = attend(m, l, qkv, tokens, rows), *out = apply(&l->out, y, rows);
    add(x, out, n);
    float *b = normed(&l->before_wide, x, rows), *wide = apply(&l->widen, b, rows);
    gelu(wide, (int64_t)rows * l->widen.n_out);
    float *narrow = apply(&l->narrow, wide, rows);
    add(x, narrow, n);
    free(a), free(qkv), free(y), free(out), free(b), free(wide), free(narrow);
}

/* The text's tokens from `from` on through all layers; the most likely letter behind the last. */
static int next_letter(const model *m, text *t, int from)
{
    int tokens = t->n - from, last = 0, best = 0;
    for (int i = from; i < t->n; i++) begin_token(m, t, i);
    hga_id rows = hga_decoder_rows(m->decoder, from, tokens, NULL, 0), *node = memory(rows, sizeof *node);
    hga_decoder_rows(m->decoder, from, tokens, node, rows);
    for (hga_id r = 0; r < rows; r++)
        if (node[r] == t->n - 1) last = r;
    float *x = begin_rows(m, t, node, rows);
    for (int i = 0; i < m->n_layers; i++) pass_layer(m, &m->layer[i], x, tokens, rows);
    float *state = normed(&m->last, x + (int64_t)last * m->width, 1), *score = apply(&m->scores, state, 1);
    for (int i = 1; i < m->n_letters; i++)
        if (score[i] > score[best]) best = i;
    free(node), free(x), free(state), free(score);
    return best;
}

/* ---- letters ---- */

/* Bytes of the character of UTF-8 that begins here. */
static int bytes_of(const char *c)
{
    int n = 1;
    while ((c[n] & 0xc0) == 0x80) n++;
    return n;
}

static const char *nth_letter(const model *m, int i)
{
    const char *c = json_string_value(m->letters);
    for (; i && *c; i--) c += bytes_of(c);
    return c;
}

static int letter_number(const model *m, const char *c)
{
    for (int i = 0; i < m->n_letters; i++) {
        const char *known = nth_letter(m, i);
        if (*known && bytes_of(known) == bytes_of(c) && !memcmp(known, c, (size_t)bytes_of(c))) return i;
    }
    give_up("the model has no letter '%.*s'", bytes_of(c), c);
}

static void print_letter(const model *m, int i)
{
    const char *c = nth_letter(m, i);
    if (!*c) give_up("the checkpoint names fewer letters than it has scores");
    fwrite(c, 1, (size_t)bytes_of(c), stdout);
}

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int number(const char *word, const char *what, int least)
{
    char *end;
    long x = strtol(word, &end, 10);
    if (*end || end == word || x < least || x > 1 << 24)
        give_up("%s is '%s', not a number from %d on", what, word, least);
    return (int)x;
}

int main(int argc, char **argv)
{
    model m = {0};
    if (argc < 4 || argc > 5) give_up("usage: generate MODEL.safetensors BEGINNING CHARACTERS [THREADS]");
    int more = number(argv[3], "the number of characters", 0);
    must(hga_arrays_open(NULL, argv[1], &m.file), "the model");
    read_weights(&m);
    build(&m, argc > 4 ? number(argv[4], "the number of threads", 1) : 1);

    text t = {memory(m.context, sizeof(int)), 0, memory((int64_t)m.context * m.width, sizeof(float))};
    for (const char *c = argv[2]; *c; c += bytes_of(c)) {
        if (t.n == m.context) give_up("the beginning is longer than the model's %d characters", m.context);
        t.letter[t.n++] = letter_number(&m, c);
    }
    if (!t.n || more > m.context - t.n)
        give_up("a beginning of %d and %d more: the model has from 1 to %d characters", t.n, more, m.context);
    fputs(argv[2], stdout);
    double begin = now(), prefill = begin;
    for (int i = 0, from = 0; i < more; i++) {
        int letter = next_letter(&m, &t, from);
        if (i == 0) prefill = now();
        from = t.n;
        t.letter[t.n++] = letter;
        print_letter(&m, letter);
    }
    putchar('\n');
    if (more > 1)
        fprintf(stderr, "%.1f ms for the beginning, %.3f ms a character\n", 1e3 * (prefill - begin),
                1e3 * (now() - prefill) / (more - 1));
    free(t.letter), free(t.begin);
    close_model(&m);
    return 0;
}
