/* bench_cases.c: variants and tensors of the benchmark. */
#include "bench_cases.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "numbers.h"
#include "rows.h"

enum { LEAF_TOKENS = 64, MAX_HEIGHT = 24, DEFAULT_DEGREE = 32, MAX_DEGREE = 65536 };

/* ---- names ---- */

/* the end of the item that starts here: a comma before something that is no number */
static size_t item_length(const char *list)
{
    size_t n = strcspn(list, ",");
    while (list[n] == ',' && isdigit((unsigned char)list[n + 1])) n += 1 + strcspn(list + n + 1, ",");
    return n;
}

/* what is made by chance has one parameter, a whole number */
static int read_only(const bench_variant *v, const char *name, hga_id most, hga_id *out)
{
    char what[64];
    size_t n = strlen(name);
    snprintf(what, sizeof what, "--variants: %s", name);
    for (int i = 0; i < v->typed.n; i++) {
        const char *typed = v->typed.setting[i];
        if (strncmp(typed, name, n) != 0 || typed[n] != '=')
            return complain(CLI_USAGE, "--variants: '%s' takes %s only", v->typed.name, name);
        int status = read_id(what, typed + n + 1, 0, most, out);
        if (status) return status;
    }
    return CLI_GOOD;
}

static int read_random(bench_variant *v)
{
    v->degree = DEFAULT_DEGREE;
    int status = read_only(v, "degree", MAX_DEGREE, &v->degree);
    return status || v->degree ? status : complain(CLI_USAGE, "--variants: degree: 0 is not in 1 .. %d", MAX_DEGREE);
}

/* name:parameter=value:.. */
static int read_variant(const char *item, size_t length, bench_variant *v)
{
    *v = (bench_variant){.height = -1};
    if (length == 0 || length >= sizeof v->text)
        return complain(CLI_USAGE, "--variants: '%.*s' is not a variant", (int)length, item);
    memcpy(v->text, item, length);
    memcpy(v->parts, item, length);
    for (char *part = v->parts, *next; part; part = next) {
        next = strchr(part, ':');
        if (next) *next++ = 0;
        if (part == v->parts)
            v->typed.name = part;
        else
            v->typed.setting[v->typed.n++] = part;
        if (v->typed.n == MAX_PARAMETERS)
            return complain(CLI_USAGE, "--variants: '%s' has too many parameters", v->text);
    }
    v->coarse = strcmp(v->typed.name, "treeformer-coarse") == 0;
    v->tree = v->coarse || strcmp(v->typed.name, "treeformer-fine") == 0;
    if (v->tree) return read_only(v, "height", MAX_HEIGHT, &v->height);
    if (strcmp(v->typed.name, "random") == 0) return read_random(v);
    settings s;
    const char *name;
    int status = variant_settings(&v->typed, &s, &name); /* a wrong name or value is known before anything runs */
    if (status == CLI_GOOD) settings_clear(&s);
    return status;
}

int bench_variants_read(const char *list, bench_variant *out, int *n)
{
    *n = 0;
    while (1) {
        size_t length = item_length(list);
        if (*n == MAX_LIST) return complain(CLI_USAGE, "--variants: more than %d", MAX_LIST);
        int status = read_variant(list, length, &out[(*n)++]);
        if (status) return status;
        if (!list[length]) return CLI_GOOD;
        list += length + 1;
    }
}

/* ---- graphs ---- */

/* leaves of about LEAF_TOKENS */
static hga_id height_for(hga_id tokens)
{
    hga_id height = 0;
    while (height < MAX_HEIGHT && tokens >> (height + 1) >= LEAF_TOKENS) height++;
    return height;
}

static int make_alpha(hga_id height, model *out)
{
    out->n_alpha = height + 1;
    int status = take(out->n_alpha, sizeof *out->alpha, &out->alpha);
    for (hga_id l = 0; status == CLI_GOOD && l <= height; l++) out->alpha[l] = 1.0f / (float)out->n_alpha;
    return status;
}

static int make_tree(const bench_variant *v, hga_id tokens, model *out)
{
    int32_t *query = NULL, *key = NULL;
    int status = CLI_GOOD;
    hga_treeformer t = hga_treeformer_defaults();
    t.n_queries = tokens;
    t.height = v->height >= 0 ? v->height : height_for(tokens);
    t.n_leaves = (hga_id)1 << t.height;
    TRY(take(tokens, sizeof *query, &query));
    TRY(take(tokens, sizeof *key, &key));
    for (hga_id i = 0; i < tokens; i++) {
        query[i] = (int32_t)(number_bits(1, (uint64_t)i) & (uint64_t)(t.n_leaves - 1));
        key[i] = (int32_t)(number_bits(2, (uint64_t)i) & (uint64_t)(t.n_leaves - 1));
    }
    t.query_leaf = query;
    t.key_leaf = key;
    out->tree_heads = 1;
    if (v->coarse) TRY(make_alpha(t.height, out));
    TRY(complain_of(
        (v->coarse ? hga_build_treeformer_coarse : hga_build_treeformer_fine)(&t, &out->graph, &out->program),
        CLI_USAGE, v->text));
done:
    free(query);
    free(key);
    if (status) model_clear(out);
    return status;
}

/* explicit edges, which is what a graph from elsewhere has; a source drawn twice is one edge */
static int make_random(const bench_variant *v, hga_id tokens, model *out)
{
    hga_builder *b = NULL;
    hga_id relation;
    hga_status st = hga_builder_create(NULL, &b);
    if (!st) st = hga_builder_add_level(b, tokens, NULL);
    if (!st) st = hga_builder_add_relation(b, "near", &relation);
    for (int64_t e = 0; !st && e < (int64_t)tokens * v->degree; e++) {
        hga_id source = (hga_id)(number_bits(4, (uint64_t)e) % (uint64_t)tokens);
        st = hga_builder_add_edge(b, relation, source, (hga_id)(e / v->degree), 0, 1);
    }
    hga_program_init(&out->program);
    if (!st) st = hga_program_attention(&out->program, relation);
    if (!st) st = hga_builder_finish(b, &out->graph);
    hga_builder_destroy(b);
    return complain_of(st, CLI_OUTSIDE, v->text);
}

int bench_model(const bench_variant *v, hga_id tokens, model *out)
{
    char text[16];
    *out = (model){0};
    if (v->tree) return make_tree(v, tokens, out);
    if (v->degree) return make_random(v, tokens, out);
    typed_variant typed = v->typed;
    snprintf(text, sizeof text, "%d", tokens);
    typed.tokens = text;
    return model_build(&typed, NULL, out);
}

/* ---- tensors ---- */

int bench_tensors_make(const model *m, const hga_shape *shape, int allocate, bench_tensors *out)
{
    const hga_binding binding[] = {HGA_IO_QUERY, HGA_IO_KEY, HGA_IO_VALUE, HGA_IO_OUT};
    const hga_rows otherwise[] = {HGA_ROWS_QUERIES, HGA_ROWS_KEYS, HGA_ROWS_KEYS, HGA_ROWS_QUERIES};
    hga_id kv = shape->n_kv_heads ? shape->n_kv_heads : shape->n_heads,
           heads[] = {shape->n_heads, kv, kv, shape->n_heads};
    int64_t rows[4], count[4], all = 0;
    *out = (bench_tensors){0};
    for (int i = 0; i < 4; i++) {
        rows[i] =
            bound_field(&m->program, binding[i]) ? bound_rows(m->graph, &m->program, binding[i], otherwise[i]) : 0;
        count[i] = rows[i] * heads[i] * shape->dim;
        all += count[i];
    }
    out->bytes = all * (int64_t)sizeof(float);
    if (!allocate) return CLI_GOOD;
    int status = take(all, sizeof(float), &out->memory);
    if (status) return status;
    numbers_fill(3, 1.0f, all - count[3], out->memory);
    hga_tensor *tensor[] = {&out->io.query, &out->io.key, &out->io.value, &out->io.out};
    for (int64_t i = 0, at = 0; i < 4; at += count[i++])
        tensor[i]->data = count[i] ? out->memory + at : NULL, tensor[i]->rows = rows[i];
    out->io.type_scale = m->alpha;
    out->io.n_type_scale = m->n_alpha;
    return CLI_GOOD;
}

void bench_tensors_clear(bench_tensors *t)
{
    free(t->memory);
    *t = (bench_tensors){0};
}
