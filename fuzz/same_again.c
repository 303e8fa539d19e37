/* same_again.c: a graph that was accepted keeps every rule, and is the same after it was written and read again. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fuzz_check_rules(const hga_graph *g)
{
    for (const hga_rule *rule = hga_graph_rules(); rule->name; rule++)
        if (rule->check(g)) fuzz_fail("accepted, but %s: %s", rule->name, hga_error_detail());
}

/* The file's text, for free(). */
static char *text_of(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) fuzz_fail("%s was not written", path);
    char *text = calloc(1, (size_t)1 << 22);
    if (!text || fread(text, 1, ((size_t)1 << 22) - 1, file) == 0) fuzz_fail("nothing in %s", path);
    fclose(file);
    return text;
}

void fuzz_write_and_read(const hga_graph *g, const hga_allocator *a)
{
    hga_graph *again = NULL;
    if (hga_graph_write_json(g, NULL, fuzz_scratch())) fuzz_fail("not written: %s", hga_error_detail());
    char *text = text_of(fuzz_scratch());
    if (hga_graph_read_json(a, fuzz_scratch(), &again, NULL)) fuzz_fail("not read again: %s", hga_error_detail());
    if (hga_graph_write_json(again, NULL, fuzz_scratch())) fuzz_fail("not written again: %s", hga_error_detail());
    char *text_again = text_of(fuzz_scratch());
    if (strcmp(text, text_again) != 0) fuzz_fail("written, read and written, the text differs");
    hga_graph_destroy(again);
    free(text), free(text_again);
}
