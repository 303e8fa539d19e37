/* build.c: hga build, a variant's graph to a file. */
#include "arguments.h"
#include "command.h"
#include "graph_file.h"
#include "variant.h"

typedef struct arguments {
    typed_variant variant;
    graph_target target;
} arguments;

static error_t parse(int key, char *value, struct argp_state *state)
{
    (void)value;
    arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->variant;
        state->child_inputs[1] = &a->target;
        return 0;
    case ARGP_KEY_END:
        if (!a->variant.name) return arguments_said(complain(CLI_USAGE, "build: VARIANT is missing"));
        return arguments_said(graph_target_check(&a->target));
    default: return ARGP_ERR_UNKNOWN;
    }
}

int run_build(int argc, char **argv)
{
    struct argp_child children[] = {{&variant_argp, 0, NULL, 0}, {&target_argp, 0, NULL, 0}, {0}};
    struct argp argp = {NULL, parse, "VARIANT", "A variant's graph, to a file.\v", children, NULL, NULL};
    arguments a = {0};
    model m = {0};
    char *program = NULL;
    int status = CLI_GOOD;
    TRY(arguments_parse(&argp, argc, argv, &a));
    TRY(model_build(&a.variant, NULL, &m));
    TRY(complain_of(hga_program_to_json(&m.program, m.graph, &program), CLI_USAGE, m.title));
    graph_source source = {m.graph, &m.program, program, main_relation(&m.program), m.title, NULL};
    TRY(graph_write(&source, &a.target));
done:
    hga_text_free(program);
    model_clear(&m);
    return status;
}
