/* engine.c: a random graph, a random program over it and a call of it, all from the input's bytes; or a variant of the
   library's; then every oracle. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    choices c = choices_of_bytes(data, size);
    filling memory = {.byte = 0xff};
    hga_allocator a = filling_allocator(&memory);
    hga_program p;
    hga_graph *g;
    if (draw_hierarchy(&c, &a, &g, &p) && fuzz_is_small(g)) {
        fuzz_execute(g, &p, &c);
        fuzz_inspect(g, &p);
        fuzz_set_input(NULL, NULL);
    }
    hga_graph_destroy(g);
    fuzz_memory_end(&memory, "a graph");
    return 0;
}
