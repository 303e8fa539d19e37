/* contest.c: the contenders and what they are fed. */
#include "contest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hga_files.h"
#include "nearest.h"
#include "numbers.h"
#include "parameter.h"
#include "rows.h"
#include "variant_routed.h"

enum { LEAF_TOKENS = 128 };

/* ---- leaves ---- */
/* hyperplanes in random directions, through the median key of each node where leaves are to be of one size. */

static hga_id height_for(hga_id n)
{
    hga_id height = 0;
    while (n >> (height + 1) >= LEAF_TOKENS) height++;
    return height;
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float dot(const float *x, const float *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
    return (float)sum;
}

/* the median of w . k over the keys of one node; `room` holds a float a key */
static float median_projection(const embedding *e, const int32_t *node_of, int32_t node, const float *w, float *room)
{
    int64_t columns = (int64_t)e->heads * e->dim, n = 0;
    for (hga_id i = 0; i < e->n; i++)
        if (node_of[i] == node) room[n++] = dot(w, e->key + i * columns, columns);
    if (n == 0) return 0;
    qsort(room, (size_t)n, sizeof *room, by_size);
    return room[n / 2];
}

/* level by level: a median for each node, then everybody goes one level down */
static int grow_tree(const embedding *e, hga_id height, float *weights, float *bias)
{
    int64_t columns = (int64_t)e->heads * e->dim;
    int32_t *node_of = NULL;
    float *room = NULL;
    int status = CLI_GOOD;
    TRY(take(e->n, sizeof *node_of, &node_of));
    TRY(take(e->n, sizeof *room, &room));
    for (hga_id l = 0; l < height; l++) {
        int64_t first = ((int64_t)1 << l) - 1;
        for (int32_t j = 0; j < 1 << l; j++)
            bias[first + j] = -median_projection(e, node_of, j, weights + (first + j) * columns, room);
        for (hga_id i = 0; i < e->n; i++) {
            int64_t plane = first + node_of[i];
            node_of[i] =
                2 * node_of[i] + (dot(weights + plane * columns, e->key + i * columns, columns) + bias[plane] > 0);
        }
    }
done:
    free(node_of);
    free(room);
    return status;
}

static int route_words(const embedding *e, hga_id height, int medians, uint64_t seed, int32_t *query_leaf,
                       int32_t *key_leaf)
{
    hga_id columns = e->heads * e->dim;
    int64_t planes = ((int64_t)1 << height) - 1;
    float *weights = NULL, *bias = NULL;
    int status = CLI_GOOD;
    if (planes == 0) return CLI_GOOD; /* everybody in the one leaf */
    TRY(take(planes * columns, sizeof *weights, &weights));
    TRY(take(planes, sizeof *bias, &bias));
    numbers_fill(number_bits(seed, 100), 1, planes * columns, weights);
    if (medians) TRY(grow_tree(e, height, weights, bias));
    hga_router r = {.height = height, .dim = columns, .n_heads = 1, .weights = weights, .bias = bias};
    TRY(complain_of(hga_route(&r, e->query, e->n, columns, 0, query_leaf), CLI_OUTSIDE, "treeformer"));
    TRY(complain_of(hga_route(&r, e->key, e->n, columns, 0, key_leaf), CLI_OUTSIDE, "treeformer"));
done:
    free(weights);
    free(bias);
    return status;
}

/* ---- the scene ---- */

int scene_route(scene *s, hga_id height, int medians, uint64_t seed)
{
    int status = CLI_GOOD;
    free(s->query_leaf);
    free(s->key_leaf);
    s->query_leaf = s->key_leaf = NULL;
    s->height = height;
    TRY(take(s->words.n, sizeof *s->query_leaf, &s->query_leaf));
    TRY(take(s->words.n, sizeof *s->key_leaf, &s->key_leaf));
    TRY(route_words(&s->words, height, medians, seed, s->query_leaf, s->key_leaf));
done:
    return status;
}

int scene_make(const scene_text *t, hga_id max_words, scene *out)
{
    int status = CLI_GOOD;
    *out = (scene){0};
    TRY(complain_of(hga_tree_text(NULL, t->text, t->bytes, NULL, max_words, &out->tree), CLI_DATA, t->name));
    const int64_t *begin = out->tree.leaf_begin, *end = out->tree.leaf_end;
    hga_id n = out->tree.n_leaves;
    TRY(embed_words(t->text, begin, end, n, t->heads, t->dim, t->seed, &out->words));
    TRY(scene_route(out, height_for(n), 1, t->seed));
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

/* ---- contenders ---- */

hga_treeformer scene_treeformer(const scene *s)
{
    hga_treeformer t = hga_treeformer_defaults();
    t.n_queries = s->words.n;
    t.height = s->height;
    t.n_leaves = (hga_id)1 << s->height;
    t.query_leaf = s->query_leaf;
    t.key_leaf = s->key_leaf;
    return t;
}

enum { MAX_CONTENDERS = 64, LABEL_ROOM = 96 };
static contender chosen[MAX_CONTENDERS + 1];
static char labels[MAX_CONTENDERS][LABEL_ROOM];
const contender *const contenders = chosen;

/* what is not typed but comes with the text */
static const char *from_text(const hga_variant *v, const char *words)
{
    if (v->can & HGA_NEEDS_LEAVES) return "random tree";
    if (v->can & HGA_NEEDS_SEGMENTS) return "the text's sentences";
    return v->can & HGA_TAKES_TREE && !strstr(words, "branching=") ? "the text's tree" : "";
}

static int is_causal(const hga_variant *v, const char *words)
{
    return v->can & HGA_ALWAYS_CAUSAL || strstr(words, "causal=1") != NULL;
}

static void add_contender(const hga_variant *v, const char *words, int *n)
{
    const char *given = from_text(v, words);
    if (*n == MAX_CONTENDERS) return;
    snprintf(labels[*n], LABEL_ROOM, "%s%s%s", given, *given && *words ? " " : "", words);
    chosen[*n] = (contender){v->name, labels[*n], words, v, is_causal(v, words)};
    chosen[++*n] = (contender){0};
}

static int check_list(const char *list)
{
    char hint[96], name[64];
    const char *known[MAX_CONTENDERS];
    int n = 0;
    for (const hga_variant *v = hga_variants(); v->name && n < MAX_CONTENDERS; v++) known[n++] = v->name;
    for (const char *c = list;; c += strcspn(c, ",") + 1) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(c, ","), c);
        if (!hga_variant_named(name))
            return complain(CLI_USAGE, "--variants: no variant '%s'%s", name, nearest_hint(name, known, n, hint));
        if (!hga_variant_named(name)->shows[0])
            return complain(CLI_USAGE, "--variants: %s needs what no text has; hga attend takes it", name);
        if (!c[strcspn(c, ",")]) return CLI_GOOD;
    }
}

int contenders_choose(const char *list)
{
    int n = 0, status = list ? check_list(list) : CLI_GOOD;
    for (const hga_variant *v = hga_variants(); status == CLI_GOOD && v->name; v++)
        for (const char *const *words = v->shows; *words; words++)
            if (v == hga_variants() || !list || variant_listed(list, v)) add_contender(v, *words, &n);
    return status;
}

/* ---- what is done with scores ---- */

static const typed_call *modified; /* NULL: nothing */
static call_files read_once;       /* its files, for all of them: a pipe is read once */

static int modify_program(const contender *c, hga_graph *g, hga_program *p)
{
    model m = {.graph = g, .program = *p, .tree_heads = 1, .title = (char *)(uintptr_t)c->name};
    int status = modified ? call_put(modified, &m) : CLI_GOOD;
    *p = m.program;
    return status;
}

static int modify_call(const hga_graph *g, const hga_program *p, const embedding *e, cast *c)
{
    model m = {.graph = (hga_graph *)(uintptr_t)g, .program = *p, .tree_heads = 1, .title = (char[]){"the text"}};
    hga_shape shape = {.n_heads = e->heads, .n_kv_heads = e->heads, .dim = e->dim};
    int status = modified ? call_files_read(modified, &read_once) : CLI_GOOD;
    c->files = call_files_lend(&read_once);
    return status || !modified ? status : call_files_bind(modified, &m, &shape, &c->files, &c->io);
}

void contenders_clear(void) { call_files_clear(&read_once); }

static void leave_out(int at)
{
    complain(CLI_GOOD, "%s %s is left out", chosen[at].name, chosen[at].parameters);
    for (int i = at; chosen[i].name; i++) chosen[i] = chosen[i + 1];
}

int contenders_modify(const scene *s, const char *list, const typed_call *typed)
{
    int at = 0;
    modified = typed && call_typed(typed) ? typed : NULL;
    while (modified && chosen[at].name) {
        hga_graph *g = NULL;
        hga_program p;
        int status = contender_build(s, &chosen[at], &g, &p), others = chosen[at].variant != hga_variants() && !list;
        hga_graph_destroy(g);
        if (status != CLI_GOOD && (status != CLI_USAGE || !others)) return status;
        if (status == CLI_GOOD)
            at++;
        else
            leave_out(at);
    }
    return CLI_GOOD;
}

/* ---- graphs ---- */

/* The segment of each word: the innermost unit of the text that it is in, numbered in reading order. */
static int number_segments(const hga_tree *t, int32_t **segment)
{
    int status = take(t->n_leaves, sizeof **segment, segment);
    for (hga_id i = 0, at = -1, last = -2; status == CLI_GOOD && i < t->n_leaves; i++) {
        hga_id unit = t->parent[t->leaf_node[i]];
        at += unit != last;
        last = unit;
        (*segment)[i] = at;
    }
    return status;
}

/* the arrays that the scene has for this variant */
static int add_arrays(const scene *s, const contender *c, int32_t *segment, void *parameters)
{
    const hga_variant *v = c->variant;
    hga_status st = HGA_OK;
    char height[16];
    snprintf(height, sizeof height, "%d", s->height);
    if (v->can & HGA_NEEDS_SEGMENTS)
        st = hga_variant_set_array(v, parameters, "query-segment", segment, s->words.n, 0);
    else if (v->can & HGA_NEEDS_LEAVES) {
        st = hga_variant_set(v, parameters, "height", height);
        if (!st) st = hga_variant_set_array(v, parameters, "query-leaf", s->query_leaf, s->words.n, 0);
        hga_treeformer *t = parameters;
        t->key_leaf = s->key_leaf; /* of the same tokens: n_keys stays 0 */
    } else if (v->can & HGA_TAKES_TREE && !strstr(c->words, "branching="))
        st = hga_variant_set_array(v, parameters, "parent", s->tree.parent, s->tree.n, 0);
    return complain_of(st, CLI_OUTSIDE, c->name);
}

/* All heads of the words. */
static npy words_of(const scene *s, float *x, char *name)
{
    const embedding *e = &s->words;
    return (npy){.n_dims = 3,
                 .dim = {e->n, e->heads, e->dim},
                 .count = (int64_t)e->n * e->heads * e->dim,
                 .type = ELEMENT_F32,
                 .real = x,
                 .path = name};
}

int scene_build(const scene *s, const char *variant, const char *words, hga_graph **g, hga_program *p)
{
    char text[LABEL_ROOM], tokens[16], *rest = NULL, name[] = "the words";
    typed_variant typed = {.name = variant, .tokens = tokens};
    const npy query = words_of(s, s->words.query, name), key = words_of(s, s->words.key, name);
    const choosing together = {.choosers = 1};
    const model_tensors tensors = {&query, &key, s->words.heads, s->words.heads, s->words.dim, &together};
    model m = {0};
    snprintf(text, sizeof text, "%s", words);
    snprintf(tokens, sizeof tokens, "%d", s->words.n);
    for (char *word = strtok_r(text, " ", &rest); word && typed.n < MAX_TYPED; word = strtok_r(NULL, " ", &rest))
        typed.setting[typed.n++] = word;
    int status = model_build(&typed, routed_is(&typed) ? &tensors : NULL, &m);
    if (status) return status;
    *g = m.graph, *p = m.program;
    m.graph = NULL; /* the caller's now */
    model_clear(&m);
    return CLI_GOOD;
}

static int build_given(const scene *s, const contender *c, hga_graph **g, hga_program *p)
{
    _Alignas(max_align_t) char parameters[1024];
    char text[LABEL_ROOM], *rest = NULL;
    const char *typed[MAX_TYPED];
    int n = 0, status = CLI_GOOD;
    settings given = {0};
    int32_t *segment = NULL;
    hga_id tokens = s->words.n;
    snprintf(text, sizeof text, "%s", c->words);
    for (char *word = strtok_r(text, " ", &rest); word && n < MAX_TYPED; word = strtok_r(NULL, " ", &rest))
        typed[n++] = word;
    TRY(settings_read(c->variant->parameters, c->name, typed, n, &given));
    TRY(settings_fill(&given, c->variant, parameters));
    if (c->variant->can & HGA_NEEDS_SEGMENTS) TRY(number_segments(&s->tree, &segment));
    TRY(add_arrays(s, c, segment, parameters));
    memcpy(parameters + c->variant->tokens, &tokens, sizeof tokens);
    TRY(complain_of(c->variant->build(parameters, g, p), CLI_OUTSIDE, c->name));
done:
    settings_clear(&given);
    free(segment);
    return status;
}

int contender_build(const scene *s, const contender *c, hga_graph **g, hga_program *p)
{
    int chosen_in_call = c->variant->can & HGA_NEEDS_CHOICE;
    int status = chosen_in_call ? scene_build(s, c->name, c->words, g, p) : build_given(s, c, g, p);
    return status ? status : modify_program(c, *g, p);
}

int contender_made(const scene *s, const void *c, hga_graph **g, hga_program *p) { return contender_build(s, c, g, p); }

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

/* the tokens' rows, or, where rows are nodes, *at's part of the memory */
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
    int status = take(levels, sizeof *c->alpha, &c->alpha);
    for (hga_id l = 0; status == CLI_GOOD && l < levels; l++) c->alpha[l] = 1 / (float)levels;
    c->io.type_scale.data = c->alpha;
    c->io.type_scale.rows = levels;
    return status;
}

int64_t cast_bytes(const scene *s, const hga_graph *g, const hga_program *p, hga_id dim_v)
{
    int64_t keys =
                (int64_t)bound_rows(g, p, HGA_IO_QUERY, HGA_ROWS_QUERIES) + bound_rows(g, p, HGA_IO_KEY, HGA_ROWS_KEYS),
            values =
                (int64_t)bound_rows(g, p, HGA_IO_VALUE, HGA_ROWS_KEYS) + bound_rows(g, p, HGA_IO_OUT, HGA_ROWS_QUERIES);
    return (int64_t)sizeof(float) * s->words.heads * (keys * s->words.dim + values * dim_v);
}

int cast_make(const scene *s, const hga_graph *g, const hga_program *p, const float *value, hga_id dim_v, cast *out)
{
    const embedding *e = &s->words;
    hga_nodes n = hga_graph_nodes(g);
    hga_id q = bound_rows(g, p, HGA_IO_QUERY, HGA_ROWS_QUERIES), k = bound_rows(g, p, HGA_IO_KEY, HGA_ROWS_KEYS);
    hga_id v = bound_rows(g, p, HGA_IO_VALUE, HGA_ROWS_KEYS), o = bound_rows(g, p, HGA_IO_OUT, HGA_ROWS_QUERIES);
    int64_t width = (int64_t)e->heads * e->dim, width_v = (int64_t)e->heads * dim_v;
    *out = (cast){.bytes = cast_bytes(s, g, p, dim_v)};
    int status = CLI_GOOD;
    TRY(take(out->bytes / (int64_t)sizeof(float), sizeof *out->memory, &out->memory));
    float *at = out->memory;
    out->out = at;
    at += o * width_v;
    out->io.out.data = out->out;
    out->io.query.rows = q, out->io.key.rows = k, out->io.value.rows = v, out->io.out.rows = o;
    if (bound_field(p, HGA_IO_QUERY)) out->io.query.data = (void *)(uintptr_t)rows_for(&n, q, e->query, width, &at);
    if (bound_field(p, HGA_IO_KEY)) out->io.key.data = (void *)(uintptr_t)rows_for(&n, k, e->key, width, &at);
    out->io.value.data = (void *)(uintptr_t)rows_for(&n, v, value ? value : e->value, width_v, &at);
    if (!bound_field(p, HGA_IO_QUERY)) TRY(make_alpha(s->height + 1, out));
    TRY(modify_call(g, p, e, out));
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
