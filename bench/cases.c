/* cases.c: graphs by their words, and tensors for them. */
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "numbers.h"
#include "rows.h"

enum {
    LEAF_TOKENS = 64,
    MAX_HEIGHT = 24,
    DEFAULT_DEGREE = 32,
    MAX_DEGREE = 65536,
    DEFAULT_LENGTH = 64,
    HEIGHT_BY_TOKENS = -1
};
/* streams of random numbers: what is drawn for one thing says nothing of another */
enum { STREAM_QUERY_LEAF = 1, STREAM_KEY_LEAF, STREAM_TENSORS, STREAM_EDGES, STREAM_RELATIVE = 8 };

/* ---- random graphs ---- */

/* leaves of about LEAF_TOKENS */
static hga_id height_for(hga_id tokens)
{
    hga_id height = 0;
    while (height < MAX_HEIGHT && tokens >> (height + 1) >= LEAF_TOKENS) height++;
    return height;
}

/* every level has the same weight */
static hga_status make_level_weights(hga_id height, bench_case *out)
{
    out->n_type_scale = height + 1;
    hga_status st = bench_new(out->n_type_scale, sizeof *out->type_scale, &out->type_scale);
    for (hga_id l = 0; st == HGA_OK && l <= height; l++) out->type_scale[l] = 1.0f / (float)out->n_type_scale;
    return st;
}

static hga_status make_tree(hga_id tokens, hga_id height, int coarse, bench_case *out)
{
    hga_status st;
    int32_t *leaf = NULL; /* [2][tokens]: the queries', the keys' */
    hga_treeformer t = {.n_queries = tokens, .n_keys = tokens, .n_tree_heads = 1};
    t.height = height >= 0 ? height : height_for(tokens);
    t.n_leaves = (hga_id)1 << t.height;
    HGA_TRY(bench_new(2 * (int64_t)tokens, sizeof *leaf, &leaf));
    for (int64_t i = 0; i < tokens; i++) {
        leaf[i] = (int32_t)(number_bits(STREAM_QUERY_LEAF, (uint64_t)i) & (uint64_t)(t.n_leaves - 1));
        leaf[tokens + i] = (int32_t)(number_bits(STREAM_KEY_LEAF, (uint64_t)i) & (uint64_t)(t.n_leaves - 1));
    }
    t.query_leaf = leaf, t.key_leaf = leaf + tokens;
    if (coarse) HGA_TRY(make_level_weights(t.height, out));
    HGA_TRY((coarse ? hga_build_treeformer_coarse : hga_build_treeformer_fine)(&t, &out->graph, &out->program));
done:
    free(leaf);
    return st;
}

/* explicit edges, as graphs from elsewhere have; a source drawn twice is one edge */
static hga_status make_random(hga_id tokens, hga_id degree, bench_case *out)
{
    hga_status st;
    hga_builder *b = NULL;
    hga_id near;
    HGA_TRY(hga_builder_create(NULL, &b));
    HGA_TRY(hga_builder_add_level(b, tokens, NULL));
    HGA_TRY(hga_builder_add_relation(b, "near", &near));
    for (int64_t e = 0; e < (int64_t)tokens * degree; e++) {
        hga_id source = (hga_id)(number_bits(STREAM_EDGES, (uint64_t)e) % (uint64_t)tokens);
        HGA_TRY(hga_builder_add_edge(b, near, source, (hga_id)(e / degree), 0, 1));
    }
    hga_program_init(&out->program);
    HGA_TRY(hga_program_attention(&out->program, near));
    HGA_TRY(hga_builder_finish(b, &out->graph));
done:
    hga_builder_destroy(b);
    return st;
}

static hga_status make_segments(hga_id tokens, hga_id length, bench_case *out)
{
    hga_status st;
    int32_t *segment = NULL;
    HGA_TRY(bench_new(tokens, sizeof *segment, &segment));
    for (hga_id i = 0; i < tokens; i++) segment[i] = i / length;
    hga_segmented s = {.n_tokens = tokens, .query_segment = segment};
    HGA_TRY(hga_build_segments(&s, &out->graph, &out->program));
done:
    free(segment);
    return st;
}

/* Chooses for the heads of one chooser, by its own selection; its rows come after those of the choosers before. */
static hga_status choose_of(const hga_selection *how, const hga_shape *one, hga_id n, const float *query,
                            const float *key, hga_chosen *out)
{
    hga_select_input in = {.n_tokens = n, .shape = *one};
    in.query = (hga_tensor){.data = (void *)(uintptr_t)query, .rows = n};
    in.key = (hga_tensor){.data = (void *)(uintptr_t)key, .rows = n};
    return hga_select_blocks(how, &in, out);
}

/* All choosers' tables, as wide as the widest row can be. */
static hga_status choose_blocks(const hga_routed *p, const hga_selection *how, const hga_shape *shape, bench_case *out,
                                int32_t **table, hga_id *slots)
{
    const int64_t n = p->n_tokens, kv = shape->n_kv_heads ? shape->n_kv_heads : shape->n_heads;
    const int64_t q = n * shape->n_heads * shape->dim, k = n * kv * shape->dim;
    const hga_id rows = (p->n_tokens + how->query_block - 1) / how->query_block;
    hga_chosen chosen = {0};
    hga_selection own;
    float *x = NULL;
    hga_status st;
    *slots = (p->n_tokens + how->block - 1) / how->block;
    HGA_TRY(bench_new(q + k, sizeof *x, &x));
    HGA_TRY(bench_new((int64_t)out->choosers * rows * *slots, sizeof **table, table));
    numbers_fill(STREAM_TENSORS, 1, q + k, x);
    const hga_shape one = bench_case_shape(out, shape);
    for (int64_t c = 0, to = 0; c < out->choosers; c++) {
        const float *key = x + q + (out->choosers > 1 ? c * kv / out->choosers * n * shape->dim : 0);
        HGA_TRY(hga_select_chooser(how, (hga_id)c, out->choosers, &own));
        HGA_TRY(choose_of(&own, &one, p->n_tokens, x + q / out->choosers * c, key, &chosen));
        for (hga_id r = 0; r < rows; r++, to += *slots)
            for (hga_id i = 0; i < *slots; i++) {
                hga_pos at = chosen.first[r] + i;
                (*table)[to + i] = at < chosen.first[r + 1] ? chosen.block[at] : -1;
            }
        hga_chosen_clear(&chosen);
    }
done:
    hga_chosen_clear(&chosen);
    free(x);
    return st;
}

hga_status bench_make_routed(const hga_routed *p, const hga_shape *shape, bench_case *out)
{
    hga_routed mine = *p;
    hga_selection how;
    int32_t *table = NULL;
    hga_status st;
    HGA_TRY(hga_routed_selection(p, &how));
    out->choosers = mine.n_choosers = hga_select_choosers(&how, shape);
    mine.n_key_heads = mine.n_choosers > 1 ? (shape->n_kv_heads ? shape->n_kv_heads : shape->n_heads) : 0;
    HGA_TRY(choose_blocks(p, &how, shape, out, &table, &mine.slots));
    mine.choice = table;
    HGA_TRY(hga_build_routed(&mine, &out->graph, &out->program));
done:
    free(table);
    return st;
}

hga_shape bench_case_shape(const bench_case *c, const hga_shape *shape)
{
    hga_shape one = *shape;
    if (c->choosers <= 1) return one;
    one.n_heads /= c->choosers, one.n_kv_heads = 1;
    return one;
}

/* ---- words ---- */

/* A random graph has one setting, a whole number. */
typedef struct chance {
    const char *setting; /* NULL: it is none */
    hga_id is, least, most;
} chance;

static chance chance_of(const char *name, const hga_variant *v)
{
    if (strcmp(name, "random") == 0) return (chance){"degree", DEFAULT_DEGREE, 1, MAX_DEGREE};
    if (v && v->can & HGA_NEEDS_SEGMENTS) return (chance){"length", DEFAULT_LENGTH, 1, INT32_MAX};
    if (v && v->can & HGA_NEEDS_LEAVES) return (chance){"height", HEIGHT_BY_TOKENS, 0, MAX_HEIGHT};
    return (chance){0};
}

/* Reads one " setting=number" after the name. */
static hga_status read_setting(const char *name, const char *text, chance *c)
{
    size_t n = strlen(c->setting);
    char *end = NULL;
    if (strncmp(text, c->setting, n) != 0 || text[n] != '=')
        return hga_fail(HGA_EINVAL, "%s takes %s only", name, c->setting);
    long long is = strtoll(text + n + 1, &end, 10);
    if (end == text + n + 1 || (*end && *end != ' '))
        return hga_fail(HGA_EINVAL, "%s: %s is no whole number", name, c->setting);
    if (is < c->least || is > c->most)
        return hga_fail(HGA_EINVAL, "%s: %s: %lld is not in %d .. %d", name, c->setting, is, c->least, c->most);
    c->is = (hga_id)is;
    return HGA_OK;
}

static hga_status read_words(const char *words, const hga_variant **v, chance *c)
{
    char name[64];
    hga_status st = HGA_OK;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(words, " "), words);
    *v = hga_variant_named(name);
    *c = chance_of(name, *v);
    const char *at = strchr(words, ' ');
    if (c->setting && at) st = read_setting(name, at + 1, c);
    if (c->setting && at && !st && strchr(at + 1, ' '))
        st = hga_fail(HGA_EINVAL, "%s: %s is given twice", name, c->setting);
    return st;
}

hga_status bench_case_by_chance(const char *words, int *by_chance)
{
    const hga_variant *v;
    chance c;
    hga_status st = read_words(words, &v, &c);
    *by_chance = c.setting != NULL;
    return st;
}

hga_status bench_case_make(const char *words, hga_id tokens, bench_case *out)
{
    const hga_variant *v;
    chance c;
    hga_status st = read_words(words, &v, &c);
    *out = (bench_case){0};
    if (st) return st;
    if (!c.setting) return hga_build(words, tokens, &out->graph, &out->program);
    if (!v) return make_random(tokens, c.is, out);
    if (v->can & HGA_NEEDS_SEGMENTS) return make_segments(tokens, c.is, out);
    return make_tree(tokens, c.is, (v->can & HGA_NEEDS_TYPE_SCALE) != 0, out);
}

/* ---- tensors, plans, times ---- */

/* rows of each of the four tensors, and numbers; those that the program has no field for are empty */
static void count_numbers(const bench_case *c, const hga_shape *s, int64_t rows[4], int64_t count[4])
{
    const hga_binding binding[] = {HGA_IO_QUERY, HGA_IO_KEY, HGA_IO_VALUE, HGA_IO_OUT};
    hga_id kv = s->n_kv_heads ? s->n_kv_heads : s->n_heads, dim_v = s->dim_v ? s->dim_v : s->dim;
    const hga_id heads[] = {s->n_heads, kv, kv, s->n_heads}, columns[] = {s->dim, s->dim, dim_v, dim_v};
    for (int i = 0; i < 4; i++) {
        rows[i] = bound_field(&c->program, binding[i]) ? bound_rows(c->graph, &c->program, binding[i], 0) : 0;
        count[i] = rows[i] * heads[i] * columns[i];
    }
}

hga_status bench_case_tensors(bench_case *c, const hga_shape *shape, int allocate)
{
    int64_t rows[4], count[4], all;
    count_numbers(c, shape, rows, count);
    all = count[0] + count[1] + count[2] + count[3];
    c->tensor_bytes = all * (int64_t)sizeof(float);
    if (!allocate) return HGA_OK;
    hga_status st = bench_new(all, sizeof(float), &c->tensors);
    if (st) return st;
    numbers_fill(STREAM_TENSORS, 1, all - count[3], c->tensors);
    hga_tensor *tensor[] = {&c->io.query, &c->io.key, &c->io.value, &c->io.out};
    for (int64_t i = 0, at = 0; i < 4; at += count[i++])
        tensor[i]->data = count[i] ? c->tensors + at : NULL, tensor[i]->rows = rows[i];
    c->io.type_scale.data = c->type_scale;
    c->io.type_scale.rows = c->n_type_scale;
    return HGA_OK;
}

hga_status bench_case_relative(bench_case *c, hga_id dim)
{
    const hga_stage *s = score_stage(&c->program);
    if (!s || s->relation < 0) return hga_fail(HGA_EUNSUPPORTED, "the program attends no relation");
    hga_id types = hga_graph_relation(c->graph, s->relation).n_types;
    hga_status st = bench_new((int64_t)types * dim, sizeof *c->relative, &c->relative);
    if (st) return st;
    numbers_fill(STREAM_RELATIVE, 1, (int64_t)types * dim, c->relative);
    c->io.rel_key.data = c->relative;
    c->io.rel_key.rows = types;
    return HGA_OK;
}

hga_status bench_case_ready(bench_case *c, const hga_shape *shape, const hga_options *options)
{
    hga_status st;
    HGA_TRY(hga_plan_create(c->graph, &c->program, shape, options, &c->plan));
    HGA_TRY(hga_workspace_create(c->plan, &c->workspace));
    HGA_TRY(bench_case_tensors(c, shape, 1));
done:
    return st;
}

static hga_status execute(void *context)
{
    bench_case *c = context;
    return hga_plan_execute(c->plan, c->workspace, &c->io);
}

hga_status bench_case_time(bench_case *c, const bench_rules *rules, bench_timing *out)
{
    return bench_repeat(execute, c, rules, hga_plan_threads(c->plan), out);
}

void bench_case_clear(bench_case *c)
{
    free(c->tensors);
    free(c->type_scale);
    free(c->relative);
    hga_workspace_destroy(c->workspace);
    hga_plan_destroy(c->plan);
    hga_graph_destroy(c->graph);
    *c = (bench_case){0};
}

/* ---- studies ---- */

int bench_complain(const char *what, hga_status st)
{
    fprintf(stderr, "%s: %s: %s\n", what, hga_status_name(st), hga_error_detail());
    return 1;
}

hga_id bench_argument(int n_words, char **word, int i, hga_id otherwise)
{
    return n_words > i ? (hga_id)strtol(word[i], NULL, 10) : otherwise;
}
