/* read.c: reads a file by its suffix, and suggests a conversion for one that is not supported. */
#include "readers.h"
#include "load.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

typedef hga_status (*reader)(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out);

#define BY_NETWORKX(read) "python3 -c 'import networkx as nx; nx.write_graphml(nx." read "(\"@\"), \"@.graphml\")'"

/* Suffixes with their reader, or with a command that converts the file; @ is the file's name. */
static const struct format {
    const char *suffix;
    reader read;
    const char *command;
} formats[] = {
    {".mtx", import_mtx, NULL},
    {".csv", import_csv, NULL},
    {".tsv", import_csv, NULL},
    {".edges", import_csv, NULL},
    {".graphml", import_graphml, NULL},
    {".gml", import_gml, NULL},
    {".graph", import_metis, NULL},
    {".npy", import_npy, NULL},
    {".npz", import_npz, NULL},
    {".gexf", NULL, BY_NETWORKX("read_gexf")},
    {".net", NULL, BY_NETWORKX("read_pajek")},
    {".adjlist", NULL, BY_NETWORKX("read_adjlist")},
    {".g6", NULL, BY_NETWORKX("read_graph6")},
    {".s6", NULL, BY_NETWORKX("read_sparse6")},
    {".dot", NULL, "gv2gml \"@\" -o \"@.gml\""},
    {".gv", NULL, "gv2gml \"@\" -o \"@.gml\""},
    {".txt", NULL, "cp \"@\" \"@.edges\""},
    {".gz", NULL, "gunzip \"@\""},
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

/* The format of a name's suffix, in any case of letters; NULL for an unknown one. */
static const struct format *format_of(const char *path)
{
    const char *dot = path ? strrchr(path, '.') : NULL;
    for (int i = 0; dot && i < N_FORMATS; i++)
        if (strcasecmp(dot, formats[i].suffix) == 0) return &formats[i];
    return NULL;
}

static reader reader_of(const char *path)
{
    const struct format *known = format_of(path);
    return known ? known->read : NULL;
}

int hga_graph_is_json(const char *path) { return !reader_of(path); }

/* ---- unsupported files ---- */

/* Writes a command with the file's name; with FILE where the name is long or needs quoting in the shell or Python. */
static void write_command(const char *command, const char *path, char *out, size_t capacity)
{
    const char *name = strlen(path) > 60 || strpbrk(path, "'\"\\$`!") ? "FILE" : path;
    size_t used = 0;
    for (; *command && used + strlen(name) + 1 < capacity; command++)
        if (*command == '@')
            used += (size_t)snprintf(out + used, capacity - used, "%s", name);
        else
            out[used++] = *command;
    out[used] = 0;
}

/* Lists the supported suffixes, except JSON's. */
static void list_suffixes(char *out, size_t capacity)
{
    size_t used = 0;
    for (int i = 0; i < N_FORMATS && used < capacity; i++)
        if (formats[i].read)
            used += (size_t)snprintf(out + used, capacity - used, "%s%s", used ? ", " : "", formats[i].suffix);
}

/* The suffix of a name; NULL without one. */
static const char *end_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && !strchr(dot, '/') ? dot : NULL;
}

static hga_status refuse_format(const char *path)
{
    const struct format *known = format_of(path);
    const char *end = end_of(path);
    char command[240] = "", suffixes[120];
    if (known) write_command(known->command, path, command, sizeof command);
    list_suffixes(suffixes, sizeof suffixes);
    return hga_fail(HGA_EFORMAT, "%.60s: files %s%.12s are not read%s%s%s; read are %s and hga's JSON", path,
                    end ? "that end in " : "without an end like .csv", end ? end : "", known ? ", but `" : "", command,
                    known ? "` makes one that is" : "", suffixes);
}

/* A file without a known suffix may be JSON; refuses one whose first character cannot start JSON. Only regular files
   are examined. */
static hga_status check_beginning(const char *path)
{
    struct stat s;
    char lead[256] = "";
    const char *end = end_of(path), *at = lead;
    if (end && strcasecmp(end, ".json") == 0) return HGA_OK;
    FILE *file = stat(path, &s) == 0 && S_ISREG(s.st_mode) ? fopen(path, "rb") : NULL;
    if (!file) return HGA_OK;
    const int64_t n = (int64_t)fread(lead, 1, sizeof lead - 1, file);
    fclose(file);
    hga_status st = check_fetched(path, lead, n);
    for (at += mark_bytes(lead, n); isspace((unsigned char)*at);) at++;
    return st || *at == '{' ? st : refuse_format(path);
}

/* Reads other programs' files by suffix; for JSON refuses options that the graph defines itself. */
hga_status hga_graph_read(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out,
                          char **program)
{
    if (program) *program = NULL;
    const reader read = reader_of(path);
    if (read) return read(a, path, o, out);
    *out = NULL;
    if (o && o->node_map) memset(o->node_map, 0, sizeof *o->node_map);
    if (o && o->attributes) *o->attributes = NULL;
    hga_status st = path ? check_beginning(path) : HGA_OK;
    if (st) return st;
    if (o && o->pattern) return hga_fail(HGA_EINVAL, "%s: weights in JSON are those of the graph", path ? path : "");
    if (o && o->depth_first) return hga_fail(HGA_EINVAL, "%s: tokens in JSON have their order", path ? path : "");
    if (o && o->parents) return hga_fail(HGA_EINVAL, "%s: a graph in JSON has its own parents", path ? path : "");
    return hga_graph_read_json(a, path, out, program);
}
