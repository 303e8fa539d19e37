/* token_words.c: words of tokens from a file of their own: a word a line, or JSON. */
#include "token_words.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "whole_file.h"

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

int token_words_give(const char *path, hga_graph **graph)
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
