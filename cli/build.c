/* build.c: hga build, a variant's graph to a file. */
#include "arguments.h"
#include "chosen_source.h"
#include "command.h"
#include "graph_file.h"
#include "text_model.h"

typedef struct arguments {
    typed_variant variant;
    graph_target target;
    chosen_source chosen;
    const char *text, *node_map;
} arguments;

static int check_arguments(const arguments *a)
{
    const outfile_wish files[] = {{"--output", a->target.path}, {"--node-map", a->node_map}};
    int status = graph_target_check(&a->target);
    return status ? status : outfiles_apart(files, 2);
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->variant;
        state->child_inputs[1] = &a->target;
        state->child_inputs[2] = &a->chosen;
        return 0;
    case ARGP_KEY_END:
        if (!a->variant.name) return arguments_said(complain(CLI_USAGE, "build: VARIANT is missing"));
        chosen_by_target(&a->variant, &a->target, &a->chosen);
        return arguments_said(check_arguments(a));
    default: return arguments_put(key, value, a);
    }
}

static const struct argp_option options[] = {
    {"text", TEXT(arguments, text), "FILE", 0,
     "the tokens are the words of this text (- is standard input), or the first --tokens of them; their names go into "
     ".json and onto pictures; hsa "
     "takes its hierarchy too",
     2},
    {"node-map", TEXT(arguments, node_map), "FILE", 0,
     "write [nodes] int32: the caller's id of each node, for hsa with parent", 2},
    {0},
};

int run_build(int argc, char **argv)
{
    struct argp_child children[] = {
        {&variant_argp, 0, NULL, 0}, {&target_argp, 0, NULL, 0}, {&chosen_scores_argp, 0, NULL, 0}, {0}};
    struct argp argp = {options, parse, "VARIANT", "A variant's graph, to a file.\v", children, NULL, NULL};
    arguments a = {0};
    model m = {0};
    words names = {0};
    outfile map = {0};
    char *program = NULL;
    int status = CLI_GOOD;
    TRY(arguments_parse(&argp, argc, argv, &a));
    TRY(a.text ? text_model_build(a.text, &a.variant, &a.chosen, &m, &names)
               : chosen_build(&a.variant, &a.chosen, CHOSEN_ONE, 0, &m));
    TRY(complain_of(hga_program_to_json(&m.program, m.graph, &program), CLI_USAGE, m.title));
    graph_source source = {m.graph, &m.program, program, main_relation(&m.program), m.title, &names};
    if (a.node_map) TRY(outfile_open(a.node_map, &map));
    if (a.node_map) TRY(node_ids_put(&m.map, m.graph, &map));
    TRY(graph_write(&source, &a.target));
    TRY(outfile_keep(&map));
done:
    outfile_drop(&map);
    hga_text_free(program);
    words_clear(&names);
    model_clear(&m);
    return status;
}
