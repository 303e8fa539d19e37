/* A language model of Llama's architecture in C, with any hierarchy as its attention: RMSNorm, rotary positions,
   grouped heads, SwiGLU by OpenBLAS, attention token by token by hga's decoder. It reads what python/smollm.py --save
   writes, goes on behind a beginning, which is given as numbers of tokens, and takes the most likely token each time:
   the text is that of transformers' greedy generation.

     llama smollm2.safetensors "1 2683 198" 64 "dense"

   Names of tensors are those of transformers. */
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

enum { MOST_LAYERS = 128 };

__attribute__((format(printf, 1, 2), noreturn)) static void give_up(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("llama: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(1);
}

static void must(hga_status st, const char *what)
{
    if (st) give_up("%s: %s", what, hga_error_detail());
}

static float *floats(int64_t rows, int64_t columns)
{
    float *p = calloc((size_t)(rows * columns + 1), sizeof *p);
    if (!p) give_up("no memory for %lld rows of %lld numbers", (long long)rows, (long long)columns);
    return p;
}

/* ---- the model ---- */

typedef struct layer {
    const float *before_attention, *before_wide; /* [width] */
    const float *query, *key, *value, *out;      /* [heads dim][width], [kv_heads dim][width] twice, back */
    const float *gate, *up, *down;               /* [wide][width] twice, [width][wide] */
    hga_pages *pages;
    hga_cache *cache;
} layer;

typedef struct model {
    hga_arrays *file;
    int width, wide, heads, kv_heads, dim, n_tokens, n_layers;
    double eps, theta;
    const float *token, *scores, *last; /* [n_tokens][width] twice, [width] */
    layer layer[MOST_LAYERS];
    json_t *pieces; /* of each token its bytes, a character each */
    hga_graph *graph;
    hga_decoder *decoder;
    hga_decode_workspace *workspace;
} model;

static double about(const model *m, const char *name, double least)
{
    const char *text = hga_arrays_about(m->file, name);
    char *end = NULL;
    double x = text ? strtod(text, &end) : 0;
    if (!text || *end || !(x >= least && x < 1e9))
        give_up("the file says '%s' of its %s", text ? text : "nothing", name);
    return x;
}

/* The tensor of that name, of rows x columns numbers; without columns a vector. */
static const float *tensor(const model *m, int64_t rows, int64_t columns, const char *format, ...)
{
    char name[100];
    va_list list;
    va_start(list, format);
    vsnprintf(name, sizeof name, format, list);
    va_end(list);
    int64_t i = hga_arrays_find(m->file, name);
    if (i < 0) give_up("the file has no tensor '%s'", name);
    hga_array t;
    const float *data;
    must(hga_arrays_look(m->file, i, &t), name);
    if (t.has.n_dims != 1 + (columns > 0) || t.has.dim[0] != rows || (columns && t.has.dim[1] != columns))
        give_up("tensor '%s' has another shape than the model's", name);
    must(hga_arrays_floats(m->file, i, &data), name);
    return data;
}

static void read_layer(model *m, int i)
{
    const int64_t w = m->width, q = (int64_t)m->heads * m->dim, kv = (int64_t)m->kv_heads * m->dim;
    m->layer[i] = (layer){
        .before_attention = tensor(m, w, 0, "model.layers.%d.input_layernorm.weight", i),
        .before_wide = tensor(m, w, 0, "model.layers.%d.post_attention_layernorm.weight", i),
        .query = tensor(m, q, w, "model.layers.%d.self_attn.q_proj.weight", i),
        .key = tensor(m, kv, w, "model.layers.%d.self_attn.k_proj.weight", i),
        .value = tensor(m, kv, w, "model.layers.%d.self_attn.v_proj.weight", i),
        .out = tensor(m, w, q, "model.layers.%d.self_attn.o_proj.weight", i),
        .gate = tensor(m, m->wide, w, "model.layers.%d.mlp.gate_proj.weight", i),
        .up = tensor(m, m->wide, w, "model.layers.%d.mlp.up_proj.weight", i),
        .down = tensor(m, w, m->wide, "model.layers.%d.mlp.down_proj.weight", i),
    };
}

static void read_weights(model *m)
{
    m->width = (int)about(m, "width", 1), m->wide = (int)about(m, "wide", 1), m->n_tokens = (int)about(m, "tokens", 1);
    m->heads = (int)about(m, "heads", 1), m->kv_heads = (int)about(m, "kv_heads", 1), m->dim = (int)about(m, "dim", 2);
    m->n_layers = (int)about(m, "layers", 1), m->eps = about(m, "eps", 0), m->theta = about(m, "theta", 1);
    if (m->n_layers > MOST_LAYERS) give_up("%d layers, at most %d", m->n_layers, MOST_LAYERS);
    if (m->heads % m->kv_heads || m->dim % 2) give_up("%d heads on %d of %d columns", m->heads, m->kv_heads, m->dim);
    m->token = tensor(m, m->n_tokens, m->width, "model.embed_tokens.weight");
    int own = hga_arrays_find(m->file, "lm_head.weight") >= 0; /* else scores are by the embeddings */
    m->scores = own ? tensor(m, m->n_tokens, m->width, "lm_head.weight") : m->token;
    m->last = tensor(m, m->width, 0, "model.norm.weight");
    for (int i = 0; i < m->n_layers; i++) read_layer(m, i);
    const char *pieces = hga_arrays_about(m->file, "pieces");
    m->pieces = pieces ? json_loads(pieces, JSON_ALLOW_NUL, NULL) : NULL;
    if (!json_is_array(m->pieces)) give_up("the file's pieces are no JSON array");
}

/* Causal attention of up to n tokens by the words that hga_build takes. */
static void build(model *m, const char *words, int n, int threads)
{
    char all[300];
    hga_program program;
    int always = strncmp(words, "fenwick", 7) == 0; /* it knows nothing but the past */
    snprintf(all, sizeof all, "%.250s%s", words, always ? "" : " causal=1");
    must(hga_build(all, n, &m->graph, &program), words);
    if (program.field[hga_program_field(&program, HGA_IO_QUERY)].io == HGA_ROWS_NODES)
        give_up("%s: its rows are nodes, the model's are tokens", words);
    hga_shape shape = {.n_heads = m->heads, .n_kv_heads = m->kv_heads, .dim = m->dim};
    hga_decode_options options = {.plan.threads = threads};
    must(hga_decoder_create(m->graph, &program, &shape, &options, &m->decoder), words);
    must(hga_decode_workspace_create(m->decoder, &m->workspace), "a workspace");
    for (layer *l = m->layer; l < m->layer + m->n_layers; l++) {
        must(hga_pages_create(m->decoder, 0, &l->pages), "pages");
        must(hga_cache_create(l->pages, &l->cache), "a cache");
    }
}

static void close_model(model *m)
{
    for (layer *l = m->layer; l < m->layer + m->n_layers; l++) hga_cache_destroy(l->cache), hga_pages_destroy(l->pages);
    hga_decode_workspace_destroy(m->workspace);
    hga_decoder_destroy(m->decoder);
    hga_graph_destroy(m->graph);
    json_decref(m->pieces);
    hga_arrays_close(m->file);
}

/* ---- arithmetic on rows ---- */

/* x W', [rows][n_out] */
static float *apply(const float *weight, int n_in, int n_out, const float *x, int rows)
{
    float *y = floats(rows, n_out);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, n_out, n_in, 1, x, n_in, weight, n_in, 0, y, n_out);
    return y;
}

/* RMSNorm */
static float *normed(const model *m, const float *weight, const float *x, int rows)
{
    float *y = floats(rows, m->width);
    for (int64_t r = 0; r < rows; r++) {
        const float *from = x + r * m->width;
        double squares = 0;
        for (int c = 0; c < m->width; c++) squares += (double)from[c] * from[c];
        double scale = 1 / sqrt(squares / m->width + m->eps);
        for (int c = 0; c < m->width; c++) y[r * m->width + c] = (float)(from[c] * scale) * weight[c];
    }
    return y;
}

/* Rotary positions: columns c and c + dim / 2 of each head turn by an angle that grows with the token's place. */
static void rotate(const model *m, float *x, int heads, int rows, int first)
{
    const int half = m->dim / 2;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < half; c++) {
            double angle = (first + r) * pow(m->theta, -(double)c / half);
            float cosine = (float)cos(angle), sine = (float)sin(angle);
            for (int h = 0; h < heads; h++) {
                float *row = x + ((int64_t)r * heads + h) * m->dim, a = row[c], b = row[c + half];
                row[c] = a * cosine - b * sine, row[c + half] = b * cosine + a * sine;
            }
        }
}

static void add(float *x, const float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

/* SwiGLU: gate times its sigmoid times up */
static void gated(float *gate, const float *up, int64_t n)
{
    for (int64_t i = 0; i < n; i++) gate[i] *= up[i] / (1 + expf(-gate[i]));
}

/* ---- tokens through the layers ---- */

/* Rows of new tokens over what the layer's cache holds and they themselves. */
static float *attend(const model *m, const layer *l, const float *a, int rows, int first)
{
    const int q_width = m->heads * m->dim, kv_width = m->kv_heads * m->dim;
    float *q = apply(l->query, m->width, q_width, a, rows), *k = apply(l->key, m->width, kv_width, a, rows);
    float *v = apply(l->value, m->width, kv_width, a, rows), *y = floats(rows, q_width);
    rotate(m, q, m->heads, rows, first);
    rotate(m, k, m->kv_heads, rows, first);
    hga_append append = {.cache = l->cache, .n_tokens = rows};
    append.io.query = (hga_tensor){.data = q, .rows = rows}, append.io.key = (hga_tensor){.data = k, .rows = rows};
    append.io.value = (hga_tensor){.data = v, .rows = rows}, append.io.out = (hga_tensor){.data = y, .rows = rows};
    must(hga_decoder_append(m->decoder, m->workspace, &append, 1), "an append");
    free(q), free(k), free(v);
    return y;
}

static void pass_layer(const model *m, const layer *l, float *x, int rows, int first)
{
    const int64_t n = (int64_t)rows * m->width;
    float *a = normed(m, l->before_attention, x, rows), *y = attend(m, l, a, rows, first);
    float *out = apply(l->out, m->heads * m->dim, m->width, y, rows);
    add(x, out, n);
    float *b = normed(m, l->before_wide, x, rows), *gate = apply(l->gate, m->width, m->wide, b, rows);
    float *up = apply(l->up, m->width, m->wide, b, rows);
    gated(gate, up, (int64_t)rows * m->wide);
    float *down = apply(l->down, m->wide, m->width, gate, rows);
    add(x, down, n);
    free(a), free(y), free(out), free(b), free(gate), free(up), free(down);
}

/* Tokens [first, first + rows) through all layers; the most likely one behind the last. */
static int next_token(const model *m, const int *token, int first, int rows)
{
    int best = 0;
    float *x = floats(rows, m->width);
    for (int r = 0; r < rows; r++)
        memcpy(x + (int64_t)r * m->width, m->token + (int64_t)token[first + r] * m->width,
               (size_t)m->width * sizeof *x);
    for (int i = 0; i < m->n_layers; i++) pass_layer(m, &m->layer[i], x, rows, first);
    float *state = normed(m, m->last, x + (int64_t)(rows - 1) * m->width, 1);
    float *score = apply(m->scores, m->width, m->n_tokens, state, 1);
    for (int i = 1; i < m->n_tokens; i++)
        if (score[i] > score[best]) best = i;
    free(x), free(state), free(score);
    return best;
}

/* ---- the program ---- */

/* A token's bytes: each is a character of the file's string, U+0000 to U+00FF. */
static void print_token(const model *m, int token)
{
    const json_t *piece = json_array_get(m->pieces, (size_t)token);
    const unsigned char *c = (const unsigned char *)json_string_value(piece);
    size_t n = json_string_length(piece);
    for (size_t i = 0; c && i < n; i++) {
        int two = c[i] >= 0xc0 && i + 1 < n;
        putchar(two ? (c[i] & 3) << 6 | (c[i + 1] & 0x3f) : c[i]);
        i += (size_t)two;
    }
}

static int number(const char *word, char **end, const char *what, long least, long most)
{
    long x = strtol(word, end, 10);
    if (*end == word || x < least || x > most)
        give_up("%s: '%s' is no number from %ld to %ld", what, word, least, most);
    return (int)x;
}

static int count(const char *word, const char *what)
{
    char *end;
    int n = number(word, &end, what, 1, 1 << 20);
    if (*end) give_up("%s: '%s' is no number", what, word);
    return n;
}

/* "1 2683 198" */
static int read_tokens(const model *m, const char *text, int *token)
{
    int n = 0;
    for (char *end; *text; text = end) {
        token[n++] = number(text, &end, "a token", 0, m->n_tokens - 1);
        while (*end == ' ') end++;
    }
    if (!n) give_up("a beginning has at least one token");
    return n;
}

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    model m = {0};
    if (argc < 4 || argc > 6) give_up("usage: llama MODEL.safetensors \"TOKEN ..\" MORE [ATTENTION [THREADS]]");
    must(hga_arrays_open(NULL, argv[1], &m.file), "the model");
    read_weights(&m);
    int more = count(argv[3], "the number of tokens"),
        *token = calloc(strlen(argv[2]) + (size_t)more + 1, sizeof *token);
    if (!token) give_up("no memory for %d tokens", more);
    int n = read_tokens(&m, argv[2], token);
    build(&m, argc > 4 ? argv[4] : "dense", n + more, argc > 5 ? count(argv[5], "the number of threads") : 1);
    double begin = now(), prefill = begin;
    for (int i = 0, first = 0; i < more; i++) {
        token[n] = next_token(&m, token, first, n - first);
        if (i == 0) prefill = now();
        first = n++;
        print_token(&m, token[first]);
    }
    putchar('\n');
    for (int i = n - more; i < n; i++) fprintf(stderr, "%d ", token[i]);
    fprintf(stderr, "\n%.1f ms for the beginning, %.2f ms a token\n", 1e3 * (prefill - begin),
            more > 1 ? 1e3 * (now() - prefill) / (more - 1) : 0.0);
    free(token);
    close_model(&m);
    return 0;
}
