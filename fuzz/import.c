/* import.c: any bytes as another program's graph. The first line is the end of the file's name ("mtx"), the rest the
   file; "+p" after it gives parents, "+i" the pattern alone. What is accepted keeps every rule, and is the same after
   it was written and read again. */
#include "readers.h"
#include "fuzz.h"
#include "hga_files.h"

#include <string.h>

typedef hga_status (*reader)(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out);

static const struct {
    const char *name;
    reader read;
} readers[] = {{"mtx", import_mtx},     {"csv", import_csv}, {"graphml", import_graphml}, {"gml", import_gml},
               {"graph", import_metis}, {"npy", import_npy}, {"npz", import_npz}};

static reader reader_named(const uint8_t *name, size_t n)
{
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (n == strlen(readers[i].name) && memcmp(name, readers[i].name, n) == 0) return readers[i].read;
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int n_accepted;
    static const hga_id parents[] = {4, 4, 5, 5, 6, 6, -1};
    filling memory = {.byte = 0xff};
    hga_allocator a = filling_allocator(&memory);
    hga_import with = {0};
    hga_graph *g = NULL;
    const uint8_t *end = memchr(data, '\n', size);
    char *line = NULL;
    size_t name = end ? (size_t)(end - data) : 0;
    if (name > 2 && memcmp(data + name - 2, "+p", 2) == 0) {
        with = (hga_import){.parents = parents, .n_parents = sizeof parents / sizeof *parents};
        name -= 2;
    } else if (name > 2 && memcmp(data + name - 2, "+i", 2) == 0) {
        with.pattern = 1, name -= 2;
    }
    with.attributes = &line;
    reader read = reader_named(data, name);
    if (!read) return 0;
    if (read(&a, fuzz_file(end + 1, size - (size_t)(end + 1 - data)), &with, &g) == HGA_OK) {
        fuzz_check_rules(g);
        if (fuzz_is_small(g) && n_accepted++ % 8 == 0) fuzz_write_and_read(g, &a);
    } else if (!hga_error_detail()[0]) {
        fuzz_fail("refused without a word");
    }
    if (!g && line) fuzz_fail("a line on what was not read");
    hga_text_free(line);
    hga_graph_destroy(g);
    fuzz_memory_end(&memory, "reading another program's graph");
    return 0;
}
