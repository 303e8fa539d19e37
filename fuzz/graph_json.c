/* graph_json.c: any bytes as a graph's JSON. What is accepted keeps every rule, and is the same after it was written
   and read again. */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void write_and_read(const hga_graph *g, const hga_allocator *a)
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int n_accepted;
    fuzz_memory memory = {.fill = 0xff};
    hga_allocator a = fuzz_allocator(&memory);
    hga_graph *g = NULL;
    char *program = NULL;
    if (hga_graph_read_json(&a, fuzz_file(data, size), &g, &program) == HGA_OK) {
        for (const hga_rule *rule = hga_graph_rules(); rule->name; rule++)
            if (rule->check(g)) fuzz_fail("accepted, but %s: %s", rule->name, hga_error_detail());
        if (fuzz_is_small(g) && n_accepted++ % 8 == 0) write_and_read(g, &a);
    } else if (!hga_error_detail()[0]) {
        fuzz_fail("refused without a word");
    }
    hga_text_free(program);
    hga_graph_destroy(g);
    fuzz_memory_end(&memory, "reading a graph");
    return 0;
}
