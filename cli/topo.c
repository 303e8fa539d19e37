/* topo.c: hga topo, the machine as the engine sees it. */
#include <stdio.h>

#include "arguments.h"
#include "command.h"

typedef struct arguments {
    const char *synthetic;
    hga_id threads;
    int json;
} arguments;

static const option_row options[] = {
    {"synthetic", TEXT(arguments, synthetic), "S", 0,
     "a machine described as hwloc does, such as \"pack:2 numa:1 core:4 pu:1\", or by a file of lstopo, machine.xml "
     "(default: this machine)",
     0},
    {"threads,t", ID(arguments, threads, 1, 4096), "T", 0,
     "threads to place (default: OMP_NUM_THREADS, or the cores there are)", 0},
    {"json", FLAG(arguments, json), NULL, 0, "as JSON", 0},
    {0},
};

int run_topo(int argc, char **argv)
{
    const option_list line = {.rows = options,
                              .says = "The machine as the engine sees it, and the processors that threads would use."};
    arguments a = {0};
    char *text = NULL;
    int status = CLI_GOOD;
    TRY(arguments_parse(&line, argc, argv, &a));
    TRY(complain_of(hga_topology_describe(a.synthetic, a.threads, a.json ? HGA_JSON : HGA_TEXT, &text), CLI_USAGE,
                    a.synthetic ? a.synthetic : "topology"));
    fputs(text, stdout);
done:
    hga_text_free(text);
    return status;
}
