/* read.c: any file by the end of its name. */
#include "hga_import.h"
#include "load.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef hga_status (*reader)(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out);

/* By the end of a name, however its letters are; NULL: JSON. */
static reader reader_of(const char *path)
{
    static const struct {
        const char *suffix;
        reader read;
    } formats[] = {
        {".mtx", hga_graph_read_mtx},     {".csv", hga_graph_read_csv},         {".tsv", hga_graph_read_csv},
        {".edges", hga_graph_read_csv},   {".graphml", hga_graph_read_graphml}, {".gml", hga_graph_read_gml},
        {".graph", hga_graph_read_metis}, {".npy", hga_graph_read_npy},         {".npz", hga_graph_read_npz},
    };
    const char *dot = path ? strrchr(path, '.') : NULL;
    for (size_t i = 0; dot && i < sizeof formats / sizeof *formats; i++)
        if (strcasecmp(dot, formats[i].suffix) == 0) return formats[i].read;
    return NULL;
}

int hga_graph_is_json(const char *path) { return !reader_of(path); }

/* Whose name ends otherwise may never have been JSON. */
static hga_status read_json(const hga_allocator *a, const char *path, const char *dot, hga_graph **out, char **program)
{
    char what[400];
    hga_status st = hga_graph_read_json(a, path, out, program);
    if (st != HGA_EFORMAT || !dot || strchr(dot, '/') || strcasecmp(dot, ".json") == 0) return st;
    snprintf(what, sizeof what, "%s", hga_error_detail());
    return hga_fail(st, "%s (files that end in %.20s are read as JSON)", what, dot);
}

/* Other programs' files by the end of the name; of JSON options are refused that are the graph's own. */
hga_status hga_graph_read(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out,
                          char **program)
{
    if (program) *program = NULL;
    const reader read = reader_of(path);
    if (read) return read(a, path, o, out);
    *out = NULL;
    if (o && o->node_map) memset(o->node_map, 0, sizeof *o->node_map);
    if (o && o->attributes) *o->attributes = NULL;
    if (o && o->pattern) return hga_fail(HGA_EINVAL, "%s: weights in JSON are those of the graph", path ? path : "");
    if (o && o->depth_first) return hga_fail(HGA_EINVAL, "%s: tokens in JSON have their order", path ? path : "");
    if (o && o->parents) return hga_fail(HGA_EINVAL, "%s: a graph in JSON has its own parents", path ? path : "");
    return read_json(a, path, path ? strrchr(path, '.') : NULL, out, program);
}
