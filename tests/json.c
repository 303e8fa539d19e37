/* json.c: a tool for the shell tests. json FILE [KEY..] parses the whole file ("-": stdin) and prints the value found
   by following member names and indices; a text without its quotes, for a list or an object its number of members.
   Exits with 1 when the file is no JSON or has no such value. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *member(json_t *of, const char *key)
{
    return json_is_array(of) ? json_array_get(of, strtoull(key, NULL, 10)) : json_object_get(of, key);
}

static void show(json_t *value)
{
    if (json_is_string(value))
        puts(json_string_value(value));
    else if (json_is_array(value))
        printf("%zu\n", json_array_size(value));
    else if (json_is_object(value))
        printf("%zu\n", json_object_size(value));
    else
        json_dumpf(value, stdout, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)), putchar('\n');
}

int main(int n_words, char **word)
{
    json_error_t error;
    if (n_words < 2) return fprintf(stderr, "json FILE [KEY..]\n"), 2;
    json_t *whole = strcmp(word[1], "-") == 0 ? json_loadf(stdin, 0, &error) : json_load_file(word[1], 0, &error);
    if (!whole) return printf("%s: line %d: %s\n", word[1], error.line, error.text), 1;
    json_t *value = whole;
    for (int i = 2; i < n_words; i++) {
        value = member(value, word[i]);
        if (!value) return printf("%s: nothing at '%s'\n", word[1], word[i]), 1;
    }
    show(value);
    json_decref(whole);
    return 0;
}
