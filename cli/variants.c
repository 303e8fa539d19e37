/* variants.c: hga variants, the registry as text or JSON. */
#include <stdio.h>
#include <string.h>

#include "arguments.h"
#include "command.h"
#include "table.h"
#include "variant.h"

typedef struct arguments {
    int json;
} arguments;

static const option_row options[] = {{"json", FLAG(arguments, json), NULL, 0, "as JSON", 0}, {0}};

/* ---- abilities ---- */

static const struct {
    unsigned can;
    const char *member, *says; /* says NULL: in JSON alone */
} abilities[] = {
    {HGA_CAN_CAUSAL, "can_causal", "can be causal"},
    {HGA_ALWAYS_CAUSAL, "always_causal", "always causal"},
    {HGA_CAN_CROSS, "can_cross", "cross-attention"},
    {HGA_ROWS_ARE_NODES, "rows_are_nodes", "rows are nodes"},
    {HGA_TAKES_TREE, "takes_tree", "takes a tree"},
    {HGA_NEEDS_LEAVES, "needs_leaves", "needs leaves or hyperplanes"},
    {HGA_NEEDS_SEGMENTS, "needs_segments", "needs segments"},
    {HGA_NEEDS_TYPE_SCALE, "needs_alpha", "needs alpha"},
    {HGA_TAKES_SHAPE, "takes_shape", "takes a shape"},
    {HGA_NEEDS_DRAFTS, "needs_drafts", "needs drafts"},
    {HGA_NEEDS_CHOICE, "needs_choice", "chosen in the call"},
    {HGA_TAKES_SOFTCAP, "takes_softcap", NULL},
    {HGA_TAKES_SINK, "takes_sink", NULL},
    {HGA_TAKES_SLOPES, "takes_slopes", NULL},
    {HGA_TAKES_SIGMOID, "takes_sigmoid", NULL},
    {HGA_TAKES_ENTMAX, "takes_entmax", NULL},
};
enum { N_ABILITIES = sizeof abilities / sizeof abilities[0] };

static void print_variant(const hga_variant *v)
{
    variant_print(stdout, v);
    if (!v) return;
    printf("  (%s", v->paper);
    for (int i = 0; i < N_ABILITIES; i++)
        if (abilities[i].says && v->can & abilities[i].can) printf("; %s", abilities[i].says);
    printf(")\n\n");
}

/* ---- JSON ---- */

/* A parameter's name, kind and default, and what it may be. */
static json_t *parameter_json(const hga_parameter *p)
{
    static const char *const kind[HGA_PARAMETER_FLOATS + 1] = {"flag", "whole", "word", "real", "wholes", "reals"};
    static const char *const place[HGA_IN_CHOICE + 1] = {"builder", "router", "key router", "tensors", "choice"};
    json_t *row = json_pack("{s:s, s:s, s:s, s:s?, s:s}", "name", p->name, "kind", kind[p->kind], "of", place[p->place],
                            "default", p->standard, "says", p->says);
    if (p->study) json_object_set_new(row, "study", json_words(p->study));
    if (p->kind == HGA_PARAMETER_WHOLE || p->kind == HGA_PARAMETER_IDS)
        json_object_set_new(row, "least", json_integer(p->least));
    if (p->kind == HGA_PARAMETER_WHOLE && parameter_may_be_list(p)) json_object_set_new(row, "array", json_true());
    if (p->kind != HGA_PARAMETER_WORD) return row;
    json_object_set_new(row, "words", json_words(p->words));
    return row;
}

static json_t *variant_json(const hga_variant *v)
{
    json_t *row = json_pack("{s:s, s:s, s:s}", "name", v->name, "says", v->says, "paper", v->paper);
    json_t *parameters = json_array();
    for (int i = 0; i < N_ABILITIES; i++)
        json_object_set_new(row, abilities[i].member, json_boolean(v->can & abilities[i].can));
    for (const hga_parameter *p = v->parameters; p->name; p++) json_array_append_new(parameters, parameter_json(p));
    json_object_set_new(row, "parameters", parameters);
    return row;
}

static int print_json(void)
{
    json_t *rows = json_array();
    for (const hga_variant *v = hga_variants(); v->name; v++) json_array_append_new(rows, variant_json(v));
    return json_print(stdout, json_pack("{s:o}", "rows", rows));
}

/* It takes no word; who types a variant looks for that one. */
static int refuse_variant(char *word, void *input)
{
    (void)input;
    if (!hga_variant_named(word)) return WORD_LEFT;
    return complain(CLI_USAGE, "unexpected argument '%s'; `hga help %s` has that variant alone", word, word);
}

int run_variants(int argc, char **argv)
{
    const option_list line = {.rows = options,
                              .take = refuse_variant,
                              .words = "",
                              .says = "The built-in hierarchies: parameters, defaults, what each can."};
    arguments a = {0};
    MUST(arguments_parse(&line, argc, argv, &a));
    if (a.json) return print_json();
    for (const hga_variant *v = hga_variants(); v->name; v++) print_variant(v);
    print_variant(NULL);
    return CLI_GOOD;
}
