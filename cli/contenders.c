/* contenders.c: rows of the registry, written out, and their graphs. */
#include "trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_LEAF = 4 };

static int is_tree(const hga_variant *v) { return (v->can & HGA_NEEDS_LEAVES) != 0; }

/* Checks that each name of the list, if there is one, is a variant that has parameters to sweep, or to be shown
   with. */
static int check_names(const char *list, int swept)
{
    char name[VARIANT_NAME], names[512] = "";
    size_t used = 0;
    for (const hga_variant *v = hga_variants(); v->name; v++)
        if (swept ? v->sweeps != NULL : v->shows[0] != NULL)
            used += (size_t)snprintf(names + used, sizeof names - used, " %s", v->name);
    for (const hga_variant *v; variant_next(&list, name, &v);)
        if (!v || (swept ? !v->sweeps : !v->shows[0]))
            return complain(CLI_USAGE, "--variants: '%s' is not one of:%s", name, names);
    return CLI_GOOD;
}

/* ---- how a variant is shown ---- */

/* does it take the text's tree, unless the words name another? */
static int takes_tree(const hga_variant *v, const char *words)
{
    return v->can & HGA_TAKES_TREE && !strstr(words, "branching=");
}

/* what is not typed but comes with the text */
static const char *from_text(const hga_variant *v, const char *words)
{
    if (is_tree(v)) return "random tree";
    if (v->can & HGA_NEEDS_SEGMENTS) return "the text's sentences";
    return takes_tree(v, words) ? "the text's tree" : "";
}

/* The next of the list, zeroed; NULL: it is full. */
static contender *next_of(contenders *c) { return c->n < MAX_CONTENDERS ? &c->of[c->n++] : NULL; }

static void add_shown(const hga_variant *v, const char *words, contenders *out)
{
    const char *input = from_text(v, words);
    contender *c = next_of(out);
    if (!c) return;
    *c = (contender){.variant = v, .causal = v->can & HGA_ALWAYS_CAUSAL || strstr(words, "causal=1")};
    snprintf(c->words, sizeof c->words, "%s", words);
    snprintf(c->parameters, sizeof c->parameters, "%s%s%s", input, *input && *words ? " " : "", words);
}

int contenders_shown(const char *list, contenders *out)
{
    MUST(check_names(list, 0));
    out->n = 0;
    for (const hga_variant *v = hga_variants(); v->name; v++)
        for (const char *const *words = v->shows; *words; words++)
            if (v == hga_variants() || !list || variant_listed(list, v)) add_shown(v, *words, out);
    return CLI_GOOD;
}

/* ---- what is worth comparing ---- */

static int fits_order(const hga_variant *v, int causal)
{
    return causal ? (v->can & (HGA_CAN_CAUSAL | HGA_ALWAYS_CAUSAL)) != 0 : !(v->can & HGA_ALWAYS_CAUSAL);
}

/* does it attend to less than all? */
static int makes_sense(const hga_variant *v, const hga_sweep *s, hga_id x, hga_id n)
{
    if (is_tree(v)) return n >> x >= LEAST_LEAF;
    return (int64_t)s->covers * x < n;
}

/* the row's text with x in place of each number; returns its length */
static int write_words(const char *text, hga_id x, char out[static CONTENDER_TEXT])
{
    int used = 0;
    out[0] = 0;
    for (const char *c = text; *c && used < CONTENDER_TEXT; c++)
        used += *c == '#' ? snprintf(out + used, (size_t)(CONTENDER_TEXT - used), "%d", x)
                          : snprintf(out + used, (size_t)(CONTENDER_TEXT - used), "%c", *c);
    return used;
}

/* random hyperplanes, or ones through medians, are the tool's own choice */
static void add_swept(const hga_variant *v, const char *text, hga_id x, int causal, int medians, contenders *out)
{
    const char *mask = causal && v->can & HGA_CAN_CAUSAL ? "causal=1" : "";
    char words[CONTENDER_TEXT];
    contender *c = next_of(out);
    if (!c) return;
    *c = (contender){.variant = v, .causal = causal, .medians = medians, .height = is_tree(v) ? x : 0};
    const char *between = write_words(text, x, words) && *mask ? " " : "";
    const char *split = !is_tree(v) ? "" : medians ? " split=median" : " split=random";
    snprintf(c->words, sizeof c->words, "%.80s%s%s", words, between, mask);
    snprintf(c->parameters, sizeof c->parameters, "%.60s%s%s%s", words, split, between, mask);
}

static void add_sweep(const hga_variant *v, const hga_sweep *s, hga_id n, int causal, int medians, contenders *out)
{
    enum { MOST = sizeof s->x / sizeof *s->x };
    if (!s->x[0]) add_swept(v, s->words, 0, causal, medians, out);
    for (int i = 0; i < MOST && s->x[i]; i++)
        if (makes_sense(v, s, s->x[i], n)) add_swept(v, s->words, s->x[i], causal, medians, out);
}

/* Lists each variant's sweep; those of trees once by random leaves and once by medians. */
int contenders_swept(const char *list, hga_id n, int causal, contenders *out)
{
    MUST(check_names(list, 1));
    out->n = 0;
    for (const hga_variant *v = hga_variants(); v->name; v++) {
        int listed = list && variant_listed(list, v);
        if (listed && !fits_order(v, causal))
            return complain(CLI_USAGE, "--variants: %s %s", v->name,
                            causal ? "cannot be causal" : "is always causal; say --causal");
        if (!v->sweeps || !fits_order(v, causal) || (list && !listed && v != hga_variants())) continue;
        for (int medians = is_tree(v); medians >= 0; medians--)
            for (const hga_sweep *s = v->sweeps; s->words; s++) add_sweep(v, s, n, causal, medians, out);
    }
    return CLI_GOOD;
}

/* ---- which may stay ---- */

/* Builds each to find whether it takes the call: one that the user named may not be left out. */
int contenders_keep(const scene *s, const char *list, contenders *all)
{
    int kept = 0;
    for (int i = 0; s->call && i < all->n; i++) {
        const contender *c = &all->of[i];
        hga_graph *g = NULL;
        hga_program p;
        int status = contender_build(s, c, &g, &p), may_go = c->variant != hga_variants() && !list;
        hga_graph_destroy(g);
        if (status == CLI_GOOD)
            all->of[kept++] = *c;
        else if (status == CLI_USAGE && may_go)
            complain(CLI_GOOD, "%s %s is left out", c->variant->name, c->parameters);
        else
            return status;
    }
    if (s->call) all->n = kept;
    return CLI_GOOD;
}

/* ---- graphs ---- */

/* The segment of each word: the innermost unit of the text that it is in, numbered in reading order. */
static int number_segments(const hga_tree *t, int32_t **segment)
{
    MUST(take(t->n_leaves, sizeof **segment, segment));
    for (hga_id i = 0, at = -1, last = -2; i < t->n_leaves; i++) {
        hga_id unit = t->parent[t->leaf_node[i]];
        at += unit != last;
        last = unit;
        (*segment)[i] = at;
    }
    return CLI_GOOD;
}

/* sets the arrays that the scene has for this variant */
static int add_arrays(const scene *s, const contender *c, int32_t *segment, void *parameters)
{
    const hga_variant *v = c->variant;
    hga_status st = HGA_OK;
    char height[16];
    snprintf(height, sizeof height, "%d", s->height);
    if (v->can & HGA_NEEDS_SEGMENTS)
        st = hga_variant_set_array(v, parameters, "query-segment", segment, s->words.n, 0);
    else if (is_tree(v)) {
        st = hga_variant_set(v, parameters, "height", height);
        if (!st) st = hga_variant_set_array(v, parameters, "query-leaf", s->query_leaf, s->words.n, 0);
        hga_treeformer *t = parameters;
        t->key_leaf = s->key_leaf; /* of the same tokens: n_keys stays 0 */
    } else if (takes_tree(v, c->words))
        st = hga_variant_set_array(v, parameters, "parent", s->tree.parent, s->tree.n, 0);
    return complain_of(st, CLI_OUTSIDE, v->name);
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

/* Cuts the words at their blanks, in `buffer`. */
static int cut_words(const contender *c, char buffer[static CONTENDER_TEXT], const char *typed[static MAX_TYPED])
{
    char *rest = NULL;
    int n = 0;
    memcpy(buffer, c->words, sizeof c->words);
    for (char *word = strtok_r(buffer, " ", &rest); word && n < MAX_TYPED; word = strtok_r(NULL, " ", &rest))
        typed[n++] = word;
    return n;
}

/* Builds the graph that the words choose together. */
static int build_chosen(const scene *s, const contender *c, hga_graph **g, hga_program *p)
{
    char text[CONTENDER_TEXT], tokens[16], name[] = "the words";
    typed_variant typed = {.name = c->variant->name, .tokens = tokens};
    const npy query = words_of(s, s->words.query, name), key = words_of(s, s->words.key, name);
    const choosing together = {.choosers = 1};
    const model_tensors tensors = {&query, &key, s->words.heads, s->words.heads, s->words.dim, &together, {0}};
    model m = {0};
    snprintf(tokens, sizeof tokens, "%d", s->words.n);
    typed.n = cut_words(c, text, typed.setting);
    MUST(model_build(&typed, &tensors, &m));
    *g = m.graph, *p = m.program;
    m.graph = NULL; /* the caller's now */
    model_clear(&m);
    return CLI_GOOD;
}

/* Parameters as they are typed, with the tokens, the segments and the leaves that the scene has. */
static int build_input(const scene *s, const contender *c, hga_graph **g, hga_program *p)
{
    _Alignas(max_align_t) char parameters[1024];
    char text[CONTENDER_TEXT];
    const char *typed[MAX_TYPED];
    int n = cut_words(c, text, typed), status = CLI_GOOD;
    settings input = {0};
    int32_t *segment = NULL;
    hga_id tokens = s->words.n;
    TRY(settings_read(c->variant->parameters, c->variant->name, typed, n, &input));
    TRY(settings_fill(&input, c->variant, parameters));
    if (c->variant->can & HGA_NEEDS_SEGMENTS) TRY(number_segments(&s->tree, &segment));
    TRY(add_arrays(s, c, segment, parameters));
    memcpy(parameters + c->variant->tokens, &tokens, sizeof tokens);
    TRY(complain_of(c->variant->build(parameters, g, p), CLI_OUTSIDE, c->variant->name));
done:
    settings_clear(&input);
    free(segment);
    return status;
}

int contender_build(const scene *s, const contender *c, hga_graph **g, hga_program *p)
{
    int status = (c->variant->can & HGA_NEEDS_CHOICE ? build_chosen : build_input)(s, c, g, p);
    if (status || !s->call) return status;
    model m = model_of(*g, p, c->variant->name);
    status = call_put(s->call, &m);
    *p = m.program;
    return status;
}
