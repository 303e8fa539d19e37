/* graph_argument.c: a word that names a variant is one; anything else is a file. */
#include "graph_argument.h"

#include <errno.h>
#include <hga.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "complain.h"
#include "json_file.h"

/* ---- words of tokens ---- */

/* Texts that are freed together. */
typedef struct word_list {
    char **word;
    hga_id n, room;
} word_list;

static void clear(word_list *w)
{
    for (hga_id i = 0; i < w->n; i++) free(w->word[i]);
    free(w->word);
}

/* Adds a word to the list. */
static int add(word_list *w, const char *path, const char *text, size_t bytes)
{
    if (w->n == w->room) {
        hga_id room = w->room ? w->room > INT32_MAX / 2 ? INT32_MAX : 2 * w->room : 1024;
        char **more = w->n == room ? NULL : realloc(w->word, (size_t)room * sizeof *more);
        if (!more) return complain(CLI_OUTSIDE, "%s: out of memory: word %d", path, w->n);
        w->word = more, w->room = room;
    }
    w->word[w->n] = strndup(text, bytes);
    if (!w->word[w->n]) return complain(CLI_OUTSIDE, "%s: out of memory: word %d", path, w->n);
    w->n++;
    return CLI_GOOD;
}

/* A line's end is \n or \r\n; the last may lack it. */
static int read_lines(FILE *file, const char *path, word_list *out)
{
    char *line = NULL;
    size_t room = 0;
    int status = CLI_GOOD;
    for (ssize_t n; status == CLI_GOOD && (n = getline(&line, &room, file)) >= 0;) {
        size_t bytes = (size_t)n;
        if (bytes && line[bytes - 1] == '\n') bytes--;
        if (bytes && line[bytes - 1] == '\r') bytes--;
        size_t mark = out->n == 0 && bytes >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
        if (memchr(line, 0, bytes))
            status = complain(CLI_DATA, "%s: line %d has a zero byte", path, out->n + 1);
        else
            status = add(out, path, line + mark, bytes - mark);
    }
    if (status == CLI_GOOD && ferror(file))
        status = complain(CLI_DATA, "%s: cannot be read: %s", path, strerror(errno));
    else if (status == CLI_GOOD && !feof(file))
        status = complain(CLI_OUTSIDE, "%s: out of memory: line %d", path, out->n + 1);
    free(line);
    return status;
}

/* A list of texts, or an object that has one as its member `words`. */
static int read_json(const char *path, word_list *out)
{
    json_t *all;
    int status = json_file_read(path, &all);
    if (status) return status;
    const json_t *list = json_is_object(all) ? json_object_get(all, "words") : all;
    if (!json_is_array(list)) status = complain(CLI_DATA, "%s: is neither a list of words nor has one", path);
    for (size_t i = 0; status == CLI_GOOD && i < json_array_size(list); i++) {
        const json_t *word = json_array_get(list, i);
        if (json_is_string(word))
            status = add(out, path, json_string_value(word), json_string_length(word));
        else
            status = complain(CLI_DATA, "%s: words[%zu] is no text", path, i);
    }
    json_decref(all);
    return status;
}

/* A .json file has a list of texts, any other a word a line. */
static int read_words(const char *path, word_list *out)
{
    size_t length = strlen(path);
    const char *name = strcmp(path, "-") == 0 ? "stdin" : path;
    if (length > 5 && strcmp(path + length - 5, ".json") == 0) return read_json(path, out);
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    if (!file) return complain(CLI_DATA, "%s: cannot be read: %s", path, strerror(errno));
    int status = read_lines(file, name, out);
    if (file != stdin) fclose(file);
    return status;
}

/* Give the graph's tokens the words of a file: a word a line, or, in .json, a list of texts or an object with such a
   list as `words`. The graph becomes another one. CLI_DATA where there are more or fewer words than tokens. */
static int token_words_give(const char *path, hga_graph **graph)
{
    const char *name = strcmp(path, "-") == 0 ? "stdin" : path;
    word_list w = {0};
    hga_graph *named = NULL;
    hga_id tokens = hga_graph_nodes(*graph).level_ptr[1];
    int status = CLI_GOOD;
    TRY(read_words(path, &w));
    if (w.n != tokens) TRY(complain(CLI_DATA, "%s: words: %d for %d tokens", name, w.n, tokens));
    TRY(complain_of(hga_graph_set_names(*graph, (const char *const *)w.word, w.n, &named), CLI_DATA, path));
    hga_graph_destroy(*graph);
    *graph = named;
done:
    clear(&w);
    return status;
}

/* Options of a VARIANT and those of a file do not mix. */
static int check(void *input)
{
    graph_argument *a = input;
    int status = CLI_GOOD;
    if (!a->path && !a->typed.name) return complain(CLI_USAGE, "GRAPH or VARIANT is missing");
    if (a->path && (a->typed.n || a->typed.tokens))
        return complain(CLI_USAGE, "%s: -p and -n are for a VARIANT; this is none, so it is a file; graph=%s is one",
                        a->path, a->path);
    if (a->parents && !a->path) return complain(CLI_USAGE, "--parents: is for a file of edges, not a VARIANT");
    if (a->tree && !a->path)
        return complain(CLI_USAGE, "--tree: is for a file of edges, not a VARIANT; graph=FILE takes -p tree=%s",
                        a->tree);
    if (a->pattern && !a->path) TRY(variant_add(&a->typed, ignore_weights));
    if (a->tree && a->parents) return complain(CLI_USAGE, "--tree: the graph has a tree already, of --parents");
done:
    return status;
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
     "of a VARIANT: a parameter, repeatable; `hga help VARIANT` lists them", 1},
    {"tokens,n", TEXT(graph_argument, typed.tokens), "N", 0, "of a VARIANT: the number of tokens", 1},
    {"parents", TEXT(graph_argument, parents), "FILE", 0,
     "of a GRAPH that is a file of edges: the parent of every node by the file's numbers, -1 without, as .npy", 1},
    {"tree", TEXT(graph_argument, tree), "metis:LIST", 0,
     "of a GRAPH that is a file of edges: clusters that METIS finds, of so many nodes each, level by level "
     "(metis:8,8,8); edges join the clusters of what they join",
     1},
    {"pattern", FLAG(graph_argument, pattern), NULL, 0,
     "of a GRAPH that is a file of edges: every edge has weight 1, whatever the file says (zeros, negative values)", 1},
    {"words", TEXT(graph_argument, words), "FILE", 0,
     "the words of the tokens, one a line, or .json with a list of them, which lists and pictures show", 1},
    {0},
};
static const option_part parts[] = {{&chosen_scores_list, offsetof(graph_argument, chosen), NULL, 0}, {0}};
const option_list graph_list = {.rows = options, .parts = parts, .take = take_graph, .check = check};

/* A variant's graph and program, described as those of a file are. */
static int build_graph(graph_argument *a, graph_file *out)
{
    int status = CLI_GOOD;
    TRY(chosen_build(&a->typed, &a->chosen, a->which, a->has_tensors, &a->built));
    a->title = a->built.title;
    out->graph = hga_graph_retain(a->built.graph);
    out->program = a->built.program;
    out->map = a->built.map, a->built.map = (node_ids){0};
    out->in_order = 1;
    TRY(complain_of(hga_program_to_json(&out->program, out->graph, &out->text), CLI_USAGE, a->title));
done:
    return status;
}

static int put_under_clusters(const graph_argument *a, graph_file *out)
{
    enum { MOST_LEVELS = 32 };
    hga_id size[MOST_LEVELS];
    int n = 0;
    int status = read_list_behind("metis", "--tree", a->tree, 2, MOST_LEVELS, &n, size);
    return status ? status : graph_file_coarsen(a->path, "--tree", size, n, out);
}

/* Clusters and words come after the graph, which both make another one of. */
int graph_argument_read(graph_argument *a, graph_file *out)
{
    int status = CLI_GOOD;
    *out = (graph_file){0};
    TRY(a->path ? graph_file_read(a->path, a->parents, a->pattern, out) : build_graph(a, out));
    if (a->path && a->tree) TRY(put_under_clusters(a, out));
    if (a->path) a->title = a->path;
    if (a->words) TRY(token_words_give(a->words, &out->graph));
done:
    if (status) graph_file_clear(out);
    return status;
}

void graph_argument_clear(graph_argument *a) { model_clear(&a->built); }
