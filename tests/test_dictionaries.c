/* test_dictionaries.c: every dictionary of fuzz/ is one that libFuzzer takes; what it refuses is refused. */
#include "dictionary.h"
#include "testing.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct line_case {
    const char *line, *word; /* NULL: refused */
} line_case;

static const line_case lines[] = {
    {"", ""},
    {"  # \"a comment\"", ""},
    {"\"a\"", "a"},
    {"name=\"a b\"\t\n", "a b"},
    {"\"\\xef\\xBB\\xbf\"", "\xef\xbb\xbf"},
    {"\"say \\\"\\\\\\\"\"", "say \"\\\""},
    {"\"a \" in it\"", "a \" in it"}, /* the last one ends the word */
    {"\"\xc3\xa9\"", NULL},
    {"\"\\n\"", NULL},
    {"\"\\x4\"", NULL},
    {"\"\\xg0\"", NULL},
    {"\"\\\"", NULL},
    {"\"\"", NULL},
    {"a", NULL},
    {"abc", NULL},
    {"abc\"", NULL},
    {"\"abc", NULL},
    {"\"a\" # and a comment", NULL},
    {"\"0123456789012345678901234567890123456789012345678901234567890123\"",
     "0123456789012345678901234567890123456789012345678901234567890123"},
    {"\"01234567890123456789012345678901234567890123456789012345678901234\"", NULL},
};

static void a_line_is_a_word_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        uint8_t word[DICTIONARY_LONGEST];
        size_t size;
        const char *why = dictionary_line(lines[i].line, word, &size);
        if (!why != !!lines[i].word) fail_msg("%s: %s", lines[i].line, why ? why : "taken");
        if (why) continue;
        assert_int_equal(size, strlen(lines[i].word));
        assert_memory_equal(word, lines[i].word, size);
    }
}

static int n_words;

static void count_word(const uint8_t *word, size_t size)
{
    (void)word, (void)size;
    n_words++;
}

static int is_dictionary(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);
    return n > 5 && strcmp(entry->d_name + n - 5, ".dict") == 0;
}

static void every_dictionary_is_read_to_its_end(void **state)
{
    (void)state;
    struct dirent **entry;
    int n = scandir(HGA_CORPUS "/..", &entry, is_dictionary, alphasort);
    assert_true(n >= 3);
    for (int i = 0; i < n; i++) {
        char path[4096];
        const char *why = NULL;
        snprintf(path, sizeof path, HGA_CORPUS "/../%s", entry[i]->d_name);
        long line = dictionary_read(path, count_word, &why);
        if (line) fail_msg("%s: line %ld: %s", path, line, why ? why : "not there");
        free(entry[i]);
    }
    free(entry);
    assert_true(n_words > 100);
}

static void a_wrong_line_is_named_by_its_number(void **state)
{
    (void)state;
    const char *why = NULL;
    FILE *file = fopen("wrong.dict", "w");
    assert_non_null(file);
    fputs("# words\n\"right\"\nwrong\n\"right\"\n", file);
    fclose(file);
    n_words = 0;
    assert_int_equal(dictionary_read("wrong.dict", count_word, &why), 3);
    assert_string_equal(why, "no word in quotation marks ends it");
    assert_int_equal(n_words, 1);
    remove("wrong.dict");
    assert_int_equal(dictionary_read("wrong.dict", count_word, &why), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_a_word_or_refused),
        cmocka_unit_test(every_dictionary_is_read_to_its_end),
        cmocka_unit_test(a_wrong_line_is_named_by_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
