/* engine.c: a random graph, a random program over it and a call of it, all from the input's bytes; or a variant of the
   library's; then every oracle. */
#include "fuzz.h"

/* What a builder made, or the choices did. */
static hga_graph *some_graph(choices *c, const hga_allocator *a, hga_program *p)
{
    char words[128];
    hga_graph *g = NULL;
    if (!rarely(c, 4)) {
        g = draw_graph(c, a);
        if (!g || (fuzz_is_small(g) && draw_program(c, g, p))) return g;
        hga_graph_destroy(g);
        return NULL;
    }
    hga_id n = draw_words(c, words, sizeof words);
    return hga_build(words, n, &g, p) == HGA_OK ? g : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    choices c = choices_of_bytes(data, size);
    filling memory = {.byte = 0xff};
    hga_allocator a = filling_allocator(&memory);
    hga_program p;
    hga_graph *g = some_graph(&c, &a, &p);
    if (g && fuzz_is_small(g)) {
        fuzz_execute(g, &p, &c);
        fuzz_inspect(g, &p);
        fuzz_set_input(NULL, NULL);
    }
    hga_graph_destroy(g);
    fuzz_memory_end(&memory, "a graph");
    return 0;
}
