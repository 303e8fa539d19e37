/* variant.c: the table of variants. A row has a name, its parameters and what makes its graph. */
#include "variant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"

/* ---- parameters ---- */

#define TOKENS_ROW                                                               \
    {                                                                            \
        "tokens", PARAMETER_LENGTHS, NULL, NULL, 1,                              \
            "tokens (attend: from the query); @LENGTHS.npy makes a ragged batch" \
    }
#define CAUSAL_ROW                                                                 \
    {                                                                              \
        "causal", PARAMETER_FLAG, "0", NULL, 0, "1: nothing sees what comes later" \
    }

static const parameter dense_parameters[] = {TOKENS_ROW, CAUSAL_ROW, {0}};
static const parameter window_parameters[] = {
    TOKENS_ROW,
    {"left", PARAMETER_WHOLE, "64", NULL, 0, "tokens seen to the left"},
    {"right", PARAMETER_WHOLE, "64", NULL, 0, "tokens seen to the right"},
    {"global", PARAMETER_WHOLE, "0", NULL, 0, "first tokens that see all and that all see"},
    {"stride", PARAMETER_WHOLE, "1", NULL, 1, "only distances it divides"},
    CAUSAL_ROW,
    {0},
};
static const parameter bpt_parameters[] = {
    TOKENS_ROW,
    {"k", PARAMETER_WHOLE, "4", NULL, 1, "spans a level on each side"},
    CAUSAL_ROW,
    {"rule", PARAMETER_CHOICE, "shifted", "shifted text algorithm1", 0,
     "what happens where a level ends odd: shifted, text, algorithm1"},
    {"clip", PARAMETER_WHOLE, "10", NULL, 0, "levels from here on share their edge types"},
    {0},
};
static const parameter htransformer_parameters[] = {
    TOKENS_ROW,
    {"block", PARAMETER_WHOLE, "16", NULL, 1, "tokens in a block"},
    {"structure", PARAMETER_CHOICE, "neighbours", "neighbours siblings", 0,
     "neighbours (section 5) or siblings (appendix A)"},
    CAUSAL_ROW,
    {"interpolation", PARAMETER_CHOICE, "constant", "constant linear", 0, "constant or linear"},
    {"relative", PARAMETER_FLAG, "0", NULL, 0, "1: edges have their relative position as type"},
    {0},
};
static const parameter hsa_parameters[] = {
    TOKENS_ROW,
    {"branching", PARAMETER_LIST, NULL, NULL, 0, "hopping windows, lowest level first, such as 2,4,8,16"},
    {"parent", PARAMETER_WHOLES, NULL, NULL, 0, "the tree instead: each node's parent, -1 for a root"},
    CAUSAL_ROW,
    {"mode", PARAMETER_CHOICE, "frontier", "frontier self", 0, "causal: frontier (strict) or self"},
    {"self", PARAMETER_FLAG, "0", NULL, 0, "1: a token may attend to itself"},
    {0},
};
#define TREE_ROWS                                                                                                       \
    TOKENS_ROW, {"height", PARAMETER_WHOLE, NULL, NULL, 0, "levels below the root"},                                    \
        {"branching", PARAMETER_LIST,                                                                                   \
         NULL,        NULL,                                                                                             \
         0,           "children of a node at each level, root first, such as 10,4 (else 2)"},                           \
        {"weights", PARAMETER_REALS,                                                                                    \
         NULL,      NULL,                                                                                               \
         0,         "hyperplanes, [2^h - 1][d] or, with branching, [rows][d]; a leading [heads] allowed"},              \
        {"bias", PARAMETER_REALS, NULL, NULL, 0, "their offsets, weights' shape without [d]"},                          \
        {"key-weights", PARAMETER_REALS, NULL, NULL, 0, "the keys' own tree"},                                          \
        {"key-bias", PARAMETER_REALS, NULL, NULL, 0, "its offsets"},                                                    \
        {"query-leaf", PARAMETER_WHOLES, NULL, NULL, 0, "leaves instead of a tree, [n] or [n][heads]; -1: in no leaf"}, \
        {"key-leaf", PARAMETER_WHOLES, NULL, NULL, 0, "the keys' leaves"}, CAUSAL_ROW
static const parameter fine_parameters[] = {TREE_ROWS, {0}};
static const parameter coarse_parameters[] = {
    TREE_ROWS, {"alpha", PARAMETER_REALS, NULL, NULL, 0, "a weight for each level, root first, [h + 1]"}, {0}};
static const parameter file_parameters[] = {
    {"tokens", PARAMETER_WHOLE, NULL, NULL, 1, "the graph's queries, to be sure"},
    {"alpha", PARAMETER_REALS, NULL, NULL, 0, "the weights by type of a program with weighted sums"},
    {0},
};

/* ---- one sample of each ---- */

static hga_status dense_sample(const settings *s, hga_id n, hga_id keys, hga_graph **g, hga_program *p)
{
    hga_dense d = hga_dense_defaults();
    d.n_tokens = n;
    d.n_keys = keys;
    d.causal = setting_id(s, "causal");
    return hga_build_dense(&d, g, p);
}

static hga_status window_sample(const settings *s, hga_id n, hga_id keys, hga_graph **g, hga_program *p)
{
    hga_window w = hga_window_defaults();
    w.n_tokens = n;
    w.n_keys = keys;
    w.left = setting_id(s, "left");
    w.right = setting_id(s, "right");
    w.global = setting_id(s, "global");
    w.stride = setting_id(s, "stride");
    w.causal = setting_id(s, "causal");
    return hga_build_window(&w, g, p);
}

static hga_status bpt_sample(const settings *s, hga_id n, hga_id keys, hga_graph **g, hga_program *p)
{
    (void)keys;
    hga_bpt b = hga_bpt_defaults();
    b.n_tokens = n;
    b.k = setting_id(s, "k");
    b.clip = setting_id(s, "clip");
    b.rule = (hga_bpt_rule)setting_id(s, "rule");
    b.causal = setting_id(s, "causal");
    return hga_build_bpt(&b, g, p);
}

static hga_status htransformer_sample(const settings *s, hga_id n, hga_id keys, hga_graph **g, hga_program *p)
{
    hga_htransformer h = hga_htransformer_defaults();
    h.n_tokens = n;
    h.n_keys = keys;
    h.block = setting_id(s, "block");
    h.structure = (hga_htransformer_structure)setting_id(s, "structure");
    h.causal = setting_id(s, "causal");
    h.linear = setting_id(s, "interpolation");
    h.relative = setting_id(s, "relative");
    return hga_build_htransformer(&h, g, p);
}

static hga_status hsa_sample(const settings *s, hga_id n, hga_id keys, hga_graph **g, hga_program *p)
{
    (void)keys;
    const npy *b = setting_array(s, "branching");
    hga_hsa h = hga_hsa_defaults();
    h.n_tokens = n;
    h.branching = b->whole;
    h.n_branching = (hga_id)b->count;
    h.causal = setting_id(s, "causal");
    h.mode = (hga_hsa_mode)setting_id(s, "mode");
    h.self = setting_id(s, "self");
    return hga_build_hsa(&h, g, p);
}

/* ---- the table ---- */

typedef struct variant {
    const char *name, *says;
    const parameter *parameters;
    int (*make)(const variant_job *job, model *out);
    hga_status (*sample)(const settings *s, hga_id tokens, hga_id keys, hga_graph **g, hga_program *p);
    hga_id (*tokens_of)(hga_id rows);
    int crossing;
} variant;

static const variant variants[] = {
    {"dense", "every token sees every token", dense_parameters, make_from_tokens, dense_sample, NULL, 1},
    {"window", "sliding window, global tokens, strides", window_parameters, make_from_tokens, window_sample, NULL, 1},
    {"bpt", "BP-Transformer; rows of tensors are nodes", bpt_parameters, make_from_tokens, bpt_sample, hga_bpt_tokens,
     0},
    {"htransformer", "H-Transformer-1D", htransformer_parameters, make_from_tokens, htransformer_sample, NULL, 1},
    {"hsa", "hierarchical self-attention", hsa_parameters, make_hsa, hsa_sample, NULL, 0},
    {"treeformer-fine", "Treeformer, TF-attention", fine_parameters, make_treeformer, NULL, NULL, 1},
    {"treeformer-coarse", "Treeformer, TC-attention", coarse_parameters, make_treeformer, NULL, NULL, 1},
    {"graph=FILE", "a graph and its program from JSON", file_parameters, make_from_file, NULL, NULL, 1},
};
enum { N_VARIANTS = sizeof variants / sizeof variants[0] };

static const char file_prefix[] = "graph=";

static const variant *find_variant(const char *name)
{
    if (strncmp(name, file_prefix, sizeof file_prefix - 1) == 0) return &variants[N_VARIANTS - 1];
    for (size_t i = 0; i + 1 < N_VARIANTS; i++)
        if (strcmp(name, variants[i].name) == 0) return &variants[i];
    return NULL;
}

static int complain_of_name(const char *name)
{
    char known[256] = "";
    for (size_t i = 0; i < N_VARIANTS; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, " %s", variants[i].name);
    }
    return complain(CLI_USAGE, "no variant '%s'; there are:%s", name, known);
}

/* "bpt k=4", the variant as it was typed */
static int make_title(const typed_variant *typed, char **title)
{
    size_t length = strlen(typed->name) + 1;
    for (int i = 0; i < typed->n; i++) length += strlen(typed->setting[i]) + 1;
    if (typed->tokens) length += strlen(typed->tokens) + sizeof " tokens=";
    int status = take((int64_t)length, 1, title);
    if (status) return status;
    strcpy(*title, typed->name);
    for (int i = 0; i < typed->n; i++) strcat(strcat(*title, " "), typed->setting[i]);
    if (typed->tokens) strcat(strcat(*title, " tokens="), typed->tokens);
    return CLI_GOOD;
}

static int read_settings(const variant *v, const typed_variant *typed, settings *out)
{
    int status = settings_read(v->parameters, typed->name, typed->setting, typed->n, out);
    if (status == CLI_GOOD && typed->tokens) status = settings_set(out, typed->name, "tokens", typed->tokens);
    if (status) settings_clear(out);
    return status;
}

int variant_settings(const typed_variant *typed, settings *out, const char **name)
{
    const variant *v = find_variant(typed->name);
    if (!v) return complain_of_name(typed->name);
    *name = v->name;
    return read_settings(v, typed, out);
}

int model_build(const typed_variant *typed, const model_tensors *tensors, model *out)
{
    settings s = {0};
    int status = CLI_GOOD;
    *out = (model){.tree_heads = 1};
    const variant *v = find_variant(typed->name);
    if (!v) return complain_of_name(typed->name);
    TRY(read_settings(v, typed, &s));
    TRY(make_title(typed, &out->title));
    variant_job job = {.settings = &s, .tensors = tensors, .sample = v->sample, .tokens_of = v->tokens_of};
    job.crossing = v->crossing;
    job.name = v->name;
    job.path = strchr(typed->name, '=') ? strchr(typed->name, '=') + 1 : NULL;
    TRY(v->make(&job, out));
done:
    settings_clear(&s);
    if (status) model_clear(out);
    return status;
}

void model_clear(model *m)
{
    hga_graph_destroy(m->graph);
    free(m->title);
    free(m->node_of);
    free(m->alpha);
    *m = (model){0};
}

const hga_stage *score_stage(const hga_program *p)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].message == HGA_SCORE) return &p->stage[i];
    return NULL;
}

hga_id main_relation(const hga_program *p)
{
    const hga_stage *attended = score_stage(p);
    if (attended) return attended->relation;
    for (hga_id i = p->n_stages; i-- > 0;)
        if (p->stage[i].relation >= 0) return p->stage[i].relation;
    return -1;
}

/* ---- typed ---- */

static int add_setting(typed_variant *t, const char *text)
{
    if (t->n == MAX_TYPED) return complain(CLI_USAGE, "-p: more than %d of them", MAX_TYPED);
    t->setting[t->n++] = text;
    return CLI_GOOD;
}

static error_t parse_variant(int key, char *value, struct argp_state *state)
{
    typed_variant *t = state->input;
    switch (key) {
    case 'p': return arguments_said(add_setting(t, value));
    case 'n': t->tokens = value; return 0;
    case ARGP_KEY_ARG:
        if (t->name) return ARGP_ERR_UNKNOWN;
        t->name = value;
        return find_variant(value) ? 0 : arguments_said(complain_of_name(value));
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option variant_options[] = {
    {"parameter", 'p', "NAME=VALUE", 0, "a parameter of the variant, repeatable; @FILE.npy is an array", 1},
    {"tokens", 'n', "N", 0, "the number of tokens, as -p tokens=N", 1},
    {0},
};

static size_t write_kind(char *text, size_t room, const parameter *p)
{
    static const char *const kind[] = {"0|1", "N", "WORD", "LIST", "N", "@FILE", "@FILE"};
    int n = p->standard
                ? snprintf(text, room, "  %s=%s (default: %s)  %s\n", p->name, kind[p->kind], p->standard, p->says)
                : snprintf(text, room, "  %s=%s  %s\n", p->name, kind[p->kind], p->says);
    return n < 0 ? 0 : (size_t)n < room ? (size_t)n : room;
}

/* the table of variants and parameters, after the options of --help */
static char *help_variants(int key, const char *text, void *input)
{
    (void)input;
    enum { ROOM = 1 << 14 };
    if (key != ARGP_KEY_HELP_EXTRA) return (char *)(uintptr_t)text;
    char *all = malloc(ROOM);
    size_t used = 0;
    if (!all) return NULL;
    used += (size_t)snprintf(all, ROOM, "Variants and their parameters:\n");
    for (size_t i = 0; i < N_VARIANTS; i++) {
        used += (size_t)snprintf(all + used, ROOM - used, "\n%s: %s\n", variants[i].name, variants[i].says);
        for (const parameter *p = variants[i].parameters; p->name; p++) used += write_kind(all + used, ROOM - used, p);
    }
    return all;
}

const struct argp variant_argp = {.options = variant_options, .parser = parse_variant, .help_filter = help_variants};
