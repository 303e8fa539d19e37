/* explain.c: hga explain, the plan of a variant. */
#include <stdio.h>

#include "arguments.h"
#include "command.h"
#include "terminal.h"
#include "variant.h"

typedef struct arguments {
    typed_variant variant;
    hga_shape shape;
    hga_options options;
    int json;
} arguments;

enum { KEY_TOPOLOGY = 0x2200, KEY_METIS, KEY_JSON };

static error_t parse(int key, char *value, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->variant;
        state->child_inputs[1] = &a->shape;
        state->child_inputs[2] = &a->options;
        return 0;
    case KEY_TOPOLOGY: a->options.topology = value; return 0;
    case KEY_METIS: a->options.partition_metis = 1; return 0;
    case KEY_JSON: a->json = 1; return 0;
    case ARGP_KEY_END: return a->variant.name ? 0 : arguments_said(complain(CLI_USAGE, "explain: VARIANT is missing"));
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"topology", KEY_TOPOLOGY, "S", 0,
     "plan for a machine described as hwloc does, such as \"pack:2 numa:1 core:4 pu:1\" (default: this machine)", 8},
    {"metis", KEY_METIS, NULL, 0, "cut irregular relations by METIS (default: by contiguous cost)", 8},
    {"json", KEY_JSON, NULL, 0, "as JSON", 9},
    {0},
};

int run_explain(int argc, char **argv)
{
    struct argp_child children[] = {
        {&variant_argp, 0, NULL, 0}, {&shape_argp, 0, NULL, 0}, {&machine_argp, 0, NULL, 0}, {0}};
    struct argp argp = {
        options,  parse, "VARIANT", "The plan of a variant: stages, kernels, tiles, threads, domains, workspace.\v",
        children, NULL,  NULL};
    arguments a = {0};
    model m = {0};
    hga_plan *plan = NULL;
    char *text = NULL;
    int status = CLI_GOOD;
    TRY(arguments_parse(&argp, argc, argv, &a));
    TRY(model_build(&a.variant, NULL, &m));
    if (m.tree_heads > 1) a.shape.n_heads = a.shape.n_kv_heads = 1;
    TRY(complain_of(hga_plan_create(m.graph, &m.program, &a.shape, &a.options, &plan),
                    m.from_file ? CLI_DATA : CLI_USAGE, m.title));
    TRY(complain_of((a.json ? hga_plan_explain_json : hga_plan_explain)(plan, &text), CLI_USAGE, m.title));
    terminal_lines(stdout, text);
done:
    hga_text_free(text);
    hga_plan_destroy(plan);
    model_clear(&m);
    return status;
}
