/* graph_argument.c: a word that names a variant is one; anything else is a file. */
#include "graph_argument.h"

#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "complain.h"
#include "whole_file.h"

/* ---- words of tokens ---- */

/* Reads a text for each line, which ends with or \r ; the last may lack it. */
static int read_lines(const char *path, json_t **list)
{
    char *text = NULL;
    size_t bytes = 0;
    int status = CLI_GOOD;
    *list = json_array();
    TRY(whole_file_read(path, &text, &bytes));
    for (size_t at = 0, n; at < bytes; at += n + 1) {
        const char *end = memchr(text + at, '\n', bytes - at);
        n = end ? (size_t)(end - text) - at : bytes - at;
        size_t length = n && text[at + n - 1] == '\r' ? n - 1 : n, line = json_array_size(*list) + 1;
        if (memchr(text + at, 0, length)) TRY(complain(CLI_DATA, "%s: line %zu has a zero byte", path, line));
        if (json_array_append_new(*list, json_stringn(text + at, length)) != 0)
            TRY(complain(CLI_DATA, "%s: line %zu is not UTF-8, or memory ran out", path, line));
    }
done:
    free(text);
    return status;
}

/* The texts of an array of JSON, or of an object that has one as its member `words`. */
static int find_words(const char *path, const json_t *document, const char ***word, hga_id *n)
{
    const json_t *list = json_is_object(document) ? json_object_get(document, "words") : document;
    if (!json_is_array(list)) return complain(CLI_DATA, "%s: is neither a list of words nor has one", path);
    *n = (hga_id)json_array_size(list);
    MUST(take(*n, sizeof **word, word));
    for (hga_id i = 0; i < *n; i++) {
        (*word)[i] = json_string_value(json_array_get(list, (size_t)i));
        if (!(*word)[i]) return complain(CLI_DATA, "%s: words[%d] is not a text", path, i);
    }
    return CLI_GOOD;
}

/* Gives the graph's tokens the words of a file: a word for each line, or, in .json, a list of texts or an object
   with such a list as `words`. Replaces the graph. CLI_DATA if there are more or fewer words than tokens. */
static int give_words(const char *path, hga_graph **graph)
{
    const char *name = strcmp(path, "-") == 0 ? "stdin" : path, *dot = strrchr(path, '.'), **word = NULL;
    json_t *document = NULL;
    hga_graph *named = NULL;
    hga_id tokens = hga_graph_nodes(*graph).level_ptr[1], n = 0;
    int status = CLI_GOOD;
    TRY((dot && strcmp(dot, ".json") == 0 ? json_file_read : read_lines)(path, &document));
    TRY(find_words(name, document, &word, &n));
    if (n != tokens) TRY(complain(CLI_DATA, "%s: words: %d for %d tokens", name, n, tokens));
    TRY(complain_of(hga_graph_set_names(*graph, word, n, &named), CLI_DATA, path));
    hga_graph_destroy(*graph);
    *graph = named;
done:
    free(word);
    json_decref(document);
    return status;
}

/* Options of a VARIANT and those of a file do not mix. */
static int check(void *input)
{
    graph_argument *a = input;
    if (!a->path && !a->typed.name) return complain(CLI_USAGE, "GRAPH or VARIANT is missing");
    if (a->path && (a->typed.n || a->typed.tokens))
        return complain(CLI_USAGE, "%s: -p and -n are for a VARIANT; this is none, so it is a file; graph=%s is one",
                        a->path, a->path);
    if (a->parents && !a->path) return complain(CLI_USAGE, "--parents: is for a file of edges, not a VARIANT");
    if (a->tree && !a->path)
        return complain(CLI_USAGE, "--tree: is for a file of edges, not a VARIANT; graph=FILE takes -p tree=%s",
                        a->tree);
    if (a->pattern && !a->path) MUST(variant_add(&a->typed, ignore_weights));
    if (a->tree && a->parents) return complain(CLI_USAGE, "--tree: the graph has a tree already, of --parents");
    return CLI_GOOD;
}

static int add_parameter(const char *text, void *input) { return variant_add(&((graph_argument *)input)->typed, text); }

static int take_graph(char *word, void *input)
{
    graph_argument *a = input;
    if (a->path || a->typed.name) return WORD_LEFT;
    if (variant_is_named(word)) return variant_take(word, &a->typed);
    a->path = word;
    return CLI_GOOD;
}

static const option_row options[] = {
    {"parameter,p", READ(add_parameter), "NAME=VALUE", 0,
     "for a VARIANT: a parameter, repeatable; `hga help VARIANT` lists them", 1},
    {"tokens,n", TEXT(graph_argument, typed.tokens), "N", 0, "for a VARIANT: the number of tokens", 1},
    {"parents", TEXT(graph_argument, parents), "FILE", 0,
     "for a file of edges: .npy with the parent of every node, in the file's numbering; -1: no parent", 1},
    {"tree", TEXT(graph_argument, tree), "metis:LIST", 0,
     "for a file of edges: put levels of clusters above the nodes, which METIS finds; metis:8,8,8 is three levels, "
     "with "
     "8 nodes to a cluster. An edge between two nodes also joins their clusters",
     1},
    {"pattern", FLAG(graph_argument, pattern), NULL, 0,
     "for a file of edges: every edge has weight 1, whatever the file says (zeros, negative values)", 1},
    {"words", TEXT(graph_argument, words), "FILE", 0,
     "the words of the tokens, one a line, or .json with a list of them, which lists and pictures show", 1},
    {0},
};
static const option_part parts[] = {{&chosen_scores_list, offsetof(graph_argument, chosen), NULL, 0}, {0}};
const option_list graph_list = {.rows = options, .parts = parts, .take = take_graph, .check = check};

/* A variant's graph and program, described as those of a file are. */
static int build_graph(graph_argument *a, graph_file *out)
{
    MUST(chosen_build(&a->typed, &a->chosen, a->which, a->has_tensors, &a->built));
    a->title = a->built.title;
    out->graph = hga_graph_retain(a->built.graph);
    out->program = a->built.program;
    out->map = a->built.map, a->built.map = (node_ids){0};
    out->in_order = 1;
    return complain_of(hga_program_to_json(&out->program, out->graph, &out->text), CLI_USAGE, a->title);
}

static int put_under_clusters(const graph_argument *a, graph_file *out)
{
    enum { MOST_LEVELS = 32 };
    hga_id size[MOST_LEVELS];
    int n = 0;
    MUST(read_list_behind("metis", "--tree", a->tree, 2, MOST_LEVELS, &n, size));
    return graph_file_coarsen(a->path, "--tree", size, n, out);
}

/* Clusters and words come after the graph, which both replace. */
int graph_argument_read(graph_argument *a)
{
    MUST(a->path ? graph_file_read(a->path, a->parents, a->pattern, &a->file) : build_graph(a, &a->file));
    if (a->path && a->tree) MUST(put_under_clusters(a, &a->file));
    if (a->path) a->title = a->path;
    return a->words ? give_words(a->words, &a->file.graph) : CLI_GOOD;
}

void graph_argument_clear(graph_argument *a)
{
    graph_file_clear(&a->file);
    model_clear(&a->built);
}
