/* program_json.c: any bytes as a graph and its program in one file. What is accepted, and what a plan then accepts,
   runs: every oracle of engine.c. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    filling memory = {.byte = 0xff};
    hga_allocator a = filling_allocator(&memory);
    hga_graph *g = NULL;
    hga_program p;
    choices c = choices_of_bytes(data + size / 2, size - size / 2); /* a call by the bytes of the second half */
    if (hga_program_read_file(&a, fuzz_file(data, size), &g, &p) == HGA_OK && fuzz_is_small(g)) {
        fuzz_execute(g, &p, &c);
        fuzz_inspect(g, &p);
        fuzz_set_input(NULL, NULL);
    }
    hga_graph_destroy(g);
    fuzz_memory_end(&memory, "reading a program");
    return 0;
}
