/* file.c: a graph and its program in one file, the program as one more member of the graph's JSON. */
#include "hga_program.h"

#include <string.h>

hga_status hga_program_write_file(const hga_program *p, const hga_graph *g, const char *path)
{
    static const char member[] = "\"program\": ";
    char *text = NULL, *members = NULL;
    int64_t bytes = 0;
    hga_status st = HGA_OK;
    HGA_TRY(hga_program_to_json(p, g, &text));
    bytes = (int64_t)(sizeof member + strlen(text));
    HGA_TRY(hga_new(NULL, bytes, 1, &members));
    memcpy(members, member, sizeof member - 1);
    memcpy(members + sizeof member - 1, text, strlen(text) + 1);
    HGA_TRY(hga_graph_write_json(g, members, path));
done:
    hga_delete(NULL, members, bytes, 1);
    hga_text_free(text);
    return st;
}

hga_status hga_program_read_file(const hga_allocator *a, const char *path, hga_graph **g, hga_program *p)
{
    char *text = NULL;
    hga_status st = HGA_OK;
    *g = NULL;
    HGA_TRY(hga_graph_read_json(a, path, g, &text));
    if (!text) HGA_TRY(hga_fail(HGA_EFORMAT, "%s: the graph has no program", path));
    HGA_TRY(hga_program_from_json(text, *g, p));
done:
    hga_text_free(text);
    if (st) hga_graph_destroy(*g), *g = NULL;
    return st;
}
