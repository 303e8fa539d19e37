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

static int check_arguments(void *input)
{
    arguments *a = input;
    chosen_by_target(&a->variant, &a->target, &a->chosen);
    const outfile_wish files[] = {{"--output", a->target.path}, {"--node-map", a->node_map}};
    int status = graph_target_check(&a->target);
    return status ? status : outfiles_apart(files, 2);
}

static const option_row options[] = {
    {"text", TEXT(arguments, text), "FILE", 0,
     "the tokens are the words of this text (- is standard input), or the first --tokens of them; .json and pictures "
     "name them; hsa uses the text's sections and sentences, too",
     2},
    {"node-map", TEXT(arguments, node_map), "FILE", 0,
     "write [nodes] int32: the caller's id of each node, for hsa with parent", 2},
    {0},
};

int run_build(int argc, char **argv)
{
    const option_part parts[] = {{&variant_list, offsetof(arguments, variant), NULL, 0},
                                 {&target_list, offsetof(arguments, target), NULL, 0},
                                 {&chosen_scores_list, offsetof(arguments, chosen), NULL, 0},
                                 {0}};
    const option_list line = {.rows = options,
                              .parts = parts,
                              .check = check_arguments,
                              .words = "VARIANT",
                              .says = "A variant's graph, to a file.\v"};
    arguments a = {0};
    model m = {0};
    words names = {0};
    outfile map = {0};
    char *program = NULL;
    int status = CLI_GOOD;
    TRY(arguments_parse(&line, argc, argv, &a));
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
