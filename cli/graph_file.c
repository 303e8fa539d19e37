/* graph_file.c: the table of formats, and reading JSON. */
#include "graph_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "progress.h"

/* ---- reading ---- */

int graph_file_read(const char *path, graph_file *out)
{
    *out = (graph_file){0};
    int status = complain_of(hga_graph_read_json(NULL, path, &out->graph, &out->text), CLI_DATA, path);
    if (status == CLI_GOOD && out->text) status = complain_of(hga_program_from_json(out->text, out->graph, &out->program), CLI_DATA, path);
    if (status) graph_file_clear(out);
    return status;
}

void graph_file_clear(graph_file *f)
{
    hga_graph_destroy(f->graph);
    hga_text_free(f->text);
    *f = (graph_file){0};
}

/* ---- writing ---- */

typedef struct writing {
    const hga_graph *graph;
    const char *program_text;
    hga_id relation;
    const graph_target *target;
} writing;

static hga_status write_json(const writing *w)
{
    static const char name[] = "\"program\": ";
    char *member = NULL;
    if (!w->program_text) return hga_graph_write_json(w->graph, NULL, w->target->path);
    size_t length = sizeof name + strlen(w->program_text);
    hga_status st = HGA_OK;
    HGA_TRY(hga_new(NULL, (int64_t)length, 1, &member));
    snprintf(member, length, "%s%s", name, w->program_text);
    HGA_TRY(hga_graph_write_json(w->graph, member, w->target->path));
done:
    hga_delete(NULL, member, (int64_t)length, 1);
    return st;
}

static hga_status write_npy(const writing *w)
{
    progress bar = progress_start("writing edges");
    hga_status st = hga_graph_write_npy(w->graph, w->relation, w->target->path, progress_show, &bar);
    progress_end(&bar);
    return st;
}

static hga_status write_mtx(const writing *w)
{
    progress bar = progress_start("writing edges");
    hga_status st = hga_graph_write_mtx(w->graph, w->relation, w->target->path, progress_show, &bar);
    progress_end(&bar);
    return st;
}

static hga_status write_dot(const writing *w) { return hga_graph_write_dot(w->graph, w->relation, w->target->path, w->target->max_edges); }

static const struct format {
    const char *name;
    int one_relation;
    hga_status (*write)(const writing *);
} formats[] = {
    {"json", 0, write_json},
    {"npy", 1, write_npy},
    {"mtx", 1, write_mtx},
    {"dot", 1, write_dot},
};
enum { N_FORMATS = sizeof formats / sizeof formats[0] };
static const char format_names[] = "json npy mtx dot";

static const struct format *format_of(const graph_target *t)
{
    const char *name = t->format;
    const char *dot = strrchr(t->path, '.');
    if (!name) name = dot && !strchr(dot, '/') ? dot + 1 : "";
    for (size_t i = 0; i < N_FORMATS; i++)
        if (strcmp(name, formats[i].name) == 0) return &formats[i];
    return NULL;
}

int graph_target_check(const graph_target *t)
{
    if (!t->path) return complain(CLI_USAGE, "-o FILE is missing");
    const struct format *f = format_of(t);
    if (!f && t->format) return complain(CLI_USAGE, "--format: '%s' is not one of: %s", t->format, format_names);
    if (!f) return complain(CLI_USAGE, "-o %s: the name does not end in .json, .npy, .mtx or .dot; say --format", t->path);
    if (t->relation && !f->one_relation) return complain(CLI_USAGE, "--relation: %s holds every relation", f->name);
    return CLI_GOOD;
}

/* the index of the relation to write */
static int pick_relation(const hga_graph *g, hga_id main, const char *name, hga_id *relation)
{
    *relation = name ? hga_graph_find_relation(g, name) : main;
    if (*relation >= 0) return CLI_GOOD;
    if (!name) return complain(CLI_DATA, "the graph has no relation to write");
    char known[512] = "";
    for (hga_id r = 0; r < hga_graph_nodes(g).n_relations; r++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, " %s", hga_graph_relation(g, r).name);
    }
    return complain(CLI_USAGE, "--relation: no relation '%s'; there are:%s", name, known);
}

int graph_write(const hga_graph *g, const char *program_text, hga_id main, const graph_target *t)
{
    const struct format *f = format_of(t);
    writing w = {g, program_text, -1, t};
    int status = f->one_relation ? pick_relation(g, main, t->relation, &w.relation) : CLI_GOOD;
    return status ? status : complain_of(f->write(&w), CLI_USAGE, t->path);
}

/* ---- options ---- */

enum { KEY_FORMAT = 0x1200, KEY_RELATION, KEY_MAX_EDGES, DEFAULT_MAX_EDGES = 20000 };

static error_t parse_target(int key, char *value, struct argp_state *state)
{
    graph_target *t = state->input;
    switch (key) {
    case ARGP_KEY_INIT: t->max_edges = DEFAULT_MAX_EDGES; return 0;
    case 'o': t->path = value; return 0;
    case KEY_FORMAT: t->format = value; return 0;
    case KEY_RELATION: t->relation = value; return 0;
    case KEY_MAX_EDGES: return arguments_said(read_whole("--max-edges", value, 1, INT64_MAX, &t->max_edges));
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option target_options[] = {
    {"output", 'o', "FILE", 0, "where to write, - for standard output", 2},
    {"format", KEY_FORMAT, "FORMAT", 0, "json, npy, mtx or dot (default: by FILE's suffix)", 2},
    {"relation", KEY_RELATION, "NAME", 0,
     "the relation whose edges npy, mtx and dot hold (default: the first attended; without one, the last stage's)", 2},
    {"max-edges", KEY_MAX_EDGES, "N", 0, "refuse a .dot with more edges (default: 20000)", 2},
    {0},
};
const struct argp target_argp = {.options = target_options, .parser = parse_target};
