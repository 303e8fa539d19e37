/* graph_json.c: any bytes as a graph's JSON. What is accepted keeps every rule, and is the same after it was written
   and read again. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int n_accepted;
    filling memory = {.byte = 0xff};
    hga_allocator a = filling_allocator(&memory);
    hga_graph *g = NULL;
    char *program = NULL;
    if (hga_graph_read_json(&a, fuzz_file(data, size), &g, &program) == HGA_OK) {
        fuzz_check_rules(g);
        if (fuzz_is_small(g) && n_accepted++ % 8 == 0) fuzz_write_and_read(g, &a);
    } else if (!hga_error_detail()[0]) {
        fuzz_fail("refused without a word");
    }
    hga_text_free(program);
    hga_graph_destroy(g);
    fuzz_memory_end(&memory, "reading a graph");
    return 0;
}
