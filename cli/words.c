/* words.c: the words of a graph that was made of a text. */
#include "words.h"

#include <stdlib.h>
#include <string.h>

static int copy_words(const char *path, const json_t *list, hga_id n, words *out)
{
    if (!json_is_array(list)) return complain(CLI_DATA, "%s: words: an array is expected", path);
    if (json_array_size(list) != (size_t)n)
        return complain(CLI_DATA, "%s: words: %zu for %d tokens", path, json_array_size(list), n);
    int status = take(n, sizeof *out->text, &out->text);
    for (hga_id i = 0; status == CLI_GOOD && i < n; i++) {
        out->text[i] = json_string_value(json_array_get(list, (size_t)i));
        if (!out->text[i]) status = complain(CLI_DATA, "%s: words[%d]: a string is expected", path, i);
    }
    return status;
}

int words_read(const char *path, hga_id n, words *out)
{
    json_error_t error;
    *out = (words){0};
    if (!path || strcmp(path, "-") == 0) return CLI_GOOD;
    out->document = json_load_file(path, 0, &error);
    if (!out->document) return complain(CLI_DATA, "%s: line %d: %s", path, error.line, error.text);
    const json_t *list = json_object_get(out->document, "words");
    int status = list ? copy_words(path, list, n, out) : CLI_GOOD;
    if (status) words_clear(out);
    return status;
}

void words_clear(words *w)
{
    json_decref(w->document);
    free(w->text);
    *w = (words){0};
}
