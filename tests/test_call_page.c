/* What a call may bring, as docs/modifiers.md has it: `test_call_page page` writes the lines of its table. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 600 };

/* "[types][dim]"; a number has none. */
static void write_shape(const hga_call_row *row, char *to)
{
    *to = 0;
    if (row->rows == HGA_EXTENT_ONE) sprintf(to, "a number");
    if (row->rows != HGA_EXTENT_ONE) sprintf(to, "[%s]", hga_extent_name(row->rows));
    if (row->columns != HGA_EXTENT_ONE) sprintf(to + strlen(to), "[%s]", hga_extent_name(row->columns));
}

/* How the tool has it. */
static void write_option(const hga_call_row *row, char *to)
{
    if (row->is & HGA_CALL_OF_GRAPH)
        sprintf(to, "of the graph");
    else if (row->is & HGA_CALL_BY_VARIANT)
        sprintf(to, "`-p %s`", row->option);
    else if (row->is & HGA_CALL_BY_WORD)
        sprintf(to, "`--normaliser`'s word");
    else
        sprintf(to, "`--%s`", row->option);
}

static void write_line(const hga_call_row *row, char line[LINE])
{
    char shape[64], option[64];
    write_shape(row, shape), write_option(row, option);
    snprintf(line, LINE, "| `%s` | %s | %s | %s | %s |\n", row->name, shape, option,
             row->is & HGA_CALL_GRADIENT ? "yes" : "no", row->says);
}

static char *page(void)
{
    FILE *file = fopen(HGA_DOCS "/modifiers.md", "r");
    assert_non_null(file);
    char *text = memory(1 << 20, 1);
    text[fread(text, 1, (1 << 20) - 1, file)] = 0;
    fclose(file);
    return text;
}

static void every_row_is_a_line_of_the_page(void **state)
{
    (void)state;
    char *text = page(), line[LINE];
    for (const hga_call_row *row = hga_call_tables(); row->name; row++) {
        write_line(row, line);
        if (!strstr(text, line)) fail_msg("docs/modifiers.md has no line\n%sas `test_call_page page` writes it", line);
    }
    free(text);
}

/* A row is found by its name, whichever way its words are joined. */
static void rows_are_found_by_name(void **state)
{
    (void)state;
    assert_ptr_equal(hga_call_table_named("rel-key"), &hga_call_tables()[HGA_TABLE_REL_KEY]);
    assert_ptr_equal(hga_call_table_named("rel_key"), &hga_call_tables()[HGA_TABLE_REL_KEY]);
    assert_null(hga_call_table_named("rel_keys"));
    assert_null(hga_call_table_named("rel"));
}

int main(int argc, char **argv)
{
    char line[LINE];
    for (const hga_call_row *row = hga_call_tables(); argc > 1 && strcmp(argv[1], "page") == 0 && row->name; row++)
        write_line(row, line), fputs(line, stdout);
    if (argc > 1) return 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_row_is_a_line_of_the_page),
                                       cmocka_unit_test(rows_are_found_by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
