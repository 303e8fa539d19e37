/* build.c: hga build, a variant's graph to a file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hga_files.h"
#include "arguments.h"
#include "chosen_source.h"
#include "command.h"
#include "graph_file.h"
#include "whole_file.h"
#include "words.h"

/* ---- a variant on the words of a text ---- */

/* The words of the text, as JSON for the graph's file and as the names of tokens. */
static int name_tokens(const char *text, const hga_tree *tree, words *names)
{
    MUST(take(tree->n_leaves, sizeof *names->text, &names->text));
    names->document = json_array();
    for (hga_id i = 0; i < tree->n_leaves; i++) {
        json_t *word = json_stringn(text + tree->leaf_begin[i], (size_t)(tree->leaf_end[i] - tree->leaf_begin[i]));
        if (json_array_append_new(names->document, word)) return complain(CLI_OUTSIDE, "out of memory: word %d", i);
        names->text[i] = json_string_value(word);
    }
    return CLI_GOOD;
}

/* a variant on the tree of the text, with the other parameters as typed */
static int build_tree(const char *path, const settings *s, const hga_variant *v, const hga_tree *tree, model *out)
{
    _Alignas(max_align_t) char parameters[1024];
    char title[300];
    *out = (model){.tree_heads = 1};
    MUST(settings_fill(s, v, parameters));
    MUST(complain_of(hga_variant_set_array(v, parameters, "parent", tree->parent, tree->n, 0), CLI_OUTSIDE, path));
    MUST(complain_of(v->build(parameters, &out->graph, &out->program), CLI_DATA, path));
    const char *slash = strrchr(path, '/');
    snprintf(title, sizeof title, "%s on %.200s%s", v->name, slash ? slash + 1 : path,
             setting_id(s, "causal") ? " causal=1" : "");
    out->title = strdup(title);
    if (!out->title) return complain(CLI_OUTSIDE, "out of memory");
    return CLI_GOOD;
}

/* Builds on the text's own tree if the variant takes one and has no other; else the variant on as many tokens as
   words. */
static int build(const char *path, const typed_variant *typed, const settings *s, const hga_variant *v,
                 const chosen_source *chosen, const hga_tree *tree, model *out)
{
    char tokens[16];
    if (v && v->can & HGA_TAKES_TREE && !setting_is_set(s, "branching") && !setting_is_set(s, "parent"))
        return build_tree(path, s, v, tree, out);
    typed_variant counted = *typed;
    snprintf(tokens, sizeof tokens, "%d", tree->n_leaves);
    counted.tokens = tokens;
    return chosen_build(&counted, chosen, CHOSEN_ONE, 0, out);
}

/* The text (UTF-8, "-" is standard input) has the tokens, as many as --tokens says or all, and their names; for hsa
   without branching or parent also the hierarchy of its chapters, paragraphs and sentences. */
static int text_model_build(const char *path, const typed_variant *typed, const chosen_source *chosen, model *out,
                            words *names)
{
    settings s = {0};
    hga_tree tree = {0};
    const hga_variant *v;
    char *text = NULL;
    size_t bytes = 0;
    hga_id most = 0;
    int status = CLI_GOOD;
    *names = (words){0};
    TRY(variant_settings(typed, &s, &v));
    if (setting_array(&s, "tokens"))
        TRY(complain(CLI_USAGE, "--text: tokens=@LENGTHS.npy is for a batch, and this is one text"));
    if (setting_is_set(&s, "tokens")) most = setting_id(&s, "tokens");
    TRY(whole_file_read(path, &text, &bytes));
    TRY(complain_of(hga_tree_text(NULL, text, bytes, NULL, most, &tree), CLI_DATA, path));
    TRY(name_tokens(text, &tree, names));
    TRY(build(path, typed, &s, v, chosen, &tree, out));
    if (hga_graph_nodes(out->graph).level_ptr[1] != tree.n_leaves)
        TRY(complain(CLI_USAGE, "--text: the graph has %d tokens, the text %d words",
                     hga_graph_nodes(out->graph).level_ptr[1], tree.n_leaves));
done:
    if (tree.n) hga_tree_clear(&tree);
    settings_clear(&s);
    free(text);
    return status;
}

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
    MUST(graph_target_check(&a->target));
    return outfiles_distinct(files, 2);
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
