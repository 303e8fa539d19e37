/* candidates.c: one table. */
#include "candidates.h"

#include <stdio.h>
#include <string.h>

#include "arguments.h"
#include "variant.h"

/* A row says which numbers x to put into a text; a candidate makes sense while `covers` * x < tokens: beyond, it sees
   all there is. */
typedef struct family {
    const char *variant, *text; /* each # stands for x */
    hga_id covers;
    hga_id x[8]; /* ended by 0 */
} family;

static const family families[] = {
    {"dense", "", 0, {1}},
    {"window", "left=# right=#", 1, {4, 16, 64, 256, 1024}},
    {"bpt", "k=#", 2, {1, 2, 4, 8, 16, 32, 64}},
    {"htransformer", "block=#", 2, {4, 8, 16, 32, 64, 128, 256}},
    {"htransformer", "block=# structure=siblings", 2, {4, 8, 16, 32, 64, 128, 256}},
    {"hsa", "branching=#", 1, {2, 4, 8, 16, 32, 64}},
    {"hsa", "branching=#,4,8,16", 1, {2}},
    {"treeformer-fine", "height=# split=median", 0, {1, 2, 3, 4, 6, 8, 10}},
    {"treeformer-fine", "height=# split=random", 0, {1, 2, 3, 4, 6, 8, 10}},
    {"treeformer-coarse", "height=# split=median", 0, {1, 2, 3, 4, 6, 8, 10}},
    {"treeformer-coarse", "height=# split=random", 0, {1, 2, 3, 4, 6, 8, 10}},
};
enum { N_FAMILIES = sizeof families / sizeof families[0], LEAST_LEAF = 4 };

static const char names[] = "dense window bpt htransformer hsa treeformer-fine treeformer-coarse";

static int is_tree(const char *variant) { return strncmp(variant, "treeformer", 10) == 0; }
static int is_coarse(const char *variant) { return strcmp(variant, "treeformer-coarse") == 0; }

int candidate_routes(const candidate *c) { return is_tree(c->variant); }

/* ---- the list ---- */

/* is `name` among the names with commas between them? */
static int listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *c = list;; c += strcspn(c, ",") + 1) {
        if (strcspn(c, ",") == length && strncmp(c, name, length) == 0) return 1;
        if (!c[strcspn(c, ",")]) return 0;
    }
}

static int check_names(const char *list, int causal)
{
    for (const char *c = list;; c += strcspn(c, ",") + 1) {
        char name[32];
        size_t length = strcspn(c, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, c);
        if (length >= sizeof name || choice_of(names, name) < 0)
            return complain(CLI_USAGE, "--variants: '%.*s' is not one of: %s", (int)length, c, names);
        if (causal && is_coarse(name)) return complain(CLI_USAGE, "--variants: %s cannot be causal", name);
        if (!c[length]) return CLI_GOOD;
    }
}

static int makes_sense(const family *f, hga_id x, hga_id n)
{
    if (is_tree(f->variant)) return n >> x >= LEAST_LEAF;
    return (int64_t)f->covers * x < n;
}

/* the row's text with x in each place of a number */
static void write_parameters(const char *text, hga_id x, int causal, char out[static PARAMETERS_ROOM])
{
    int used = 0;
    out[0] = 0;
    for (const char *c = text; *c && used < PARAMETERS_ROOM; c++)
        used += *c == '#' ? snprintf(out + used, (size_t)(PARAMETERS_ROOM - used), "%d", x)
                          : snprintf(out + used, (size_t)(PARAMETERS_ROOM - used), "%c", *c);
    if (causal && used < PARAMETERS_ROOM)
        snprintf(out + used, (size_t)(PARAMETERS_ROOM - used), "%scausal=1", used ? " " : "");
}

static candidate candidate_of(const family *f, hga_id x, int causal)
{
    candidate c = {.variant = f->variant,
                   .height = is_tree(f->variant) ? x : 0,
                   .medians = strstr(f->text, "median") != NULL,
                   .causal = causal};
    write_parameters(f->text, x, causal, c.parameters);
    return c;
}

int candidates_list(const char *variants, hga_id n, int causal, candidate out[static MAX_CANDIDATES], int *n_out)
{
    *n_out = 0;
    int status = variants ? check_names(variants, causal) : CLI_GOOD;
    if (status) return status;
    for (const family *f = families; f < families + N_FAMILIES; f++) {
        if (f != families && variants && !listed(variants, f->variant)) continue;
        if (causal && is_coarse(f->variant)) continue;
        for (int i = 0; i < 8 && f->x[i]; i++)
            if (makes_sense(f, f->x[i], n)) out[(*n_out)++] = candidate_of(f, f->x[i], causal);
    }
    return CLI_GOOD;
}

/* ---- graphs ---- */

static int build_tree(const candidate *c, const scene *s, hga_graph **g, hga_program *p)
{
    hga_treeformer t = scene_treeformer(s);
    t.causal = c->causal;
    return complain_of((is_coarse(c->variant) ? hga_build_treeformer_coarse : hga_build_treeformer_fine)(&t, g, p),
                       CLI_OUTSIDE, c->variant);
}

/* by the table of variants, as if its parameters had been typed */
static int build_typed(const candidate *c, const scene *s, hga_graph **g, hga_program *p)
{
    char text[PARAMETERS_ROOM], tokens[16], *rest = NULL;
    typed_variant typed = {.name = c->variant, .tokens = tokens};
    model m = {0};
    snprintf(text, sizeof text, "%s", c->parameters);
    snprintf(tokens, sizeof tokens, "%d", s->words.n);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        typed.setting[typed.n++] = word;
    int status = model_build(&typed, NULL, &m);
    if (status) return status;
    *g = m.graph;
    *p = m.program;
    m.graph = NULL; /* the caller's now */
    model_clear(&m);
    return CLI_GOOD;
}

int candidate_build(const candidate *c, const scene *s, hga_graph **g, hga_program *p)
{
    return candidate_routes(c) ? build_tree(c, s, g, p) : build_typed(c, s, g, p);
}
