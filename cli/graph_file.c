/* graph_file.c: the table of formats, and reading graphs of any. */
#include "graph_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hga_files.h"
#include "arguments.h"
#include "hga_graph.h"
#include "npy.h"
#include "progress.h"
#include "terminal.h"
#include "tree_file.h"
#include "world.h"

/* ---- reading ---- */

/* Makes the program of a file that cannot hold one: all relations are attended jointly over the tree. If that is no
   program the graph stays without one, and `lacks` says why. */
static int attend_all(const char *path, graph_file *out)
{
    hga_status st = hga_program_from_json("\"attend\"", out->graph, &out->program);
    if (st == HGA_EPROGRAM || st == HGA_EINVAL) {
        snprintf(out->lacks, sizeof out->lacks, "%s", hga_error_detail());
        return CLI_GOOD;
    }
    if (!st) st = hga_program_to_json(&out->program, out->graph, &out->text);
    return complain_of(st, CLI_DATA, path);
}

/* HSA on a tree, with its names. */
static int import_tree(const char *path, const npy *parents, int depth_first, int pattern, graph_file *out)
{
    hga_tree tree = {0};
    hga_hsa h;
    hga_defaults(&h);
    int status = CLI_GOOD;
    if (pattern) return complain(CLI_USAGE, "%s: is a tree, whose edges have no weights to ignore", path);
    if (parents) return complain(CLI_USAGE, "%s: is a tree and takes no other parents", path);
    TRY(tree_file_read(path, &tree));
    TRY(node_ids_make(tree.n, &out->map));
    h.parent = tree.parent, h.n_parent = tree.n, h.node_of = out->map.id;
    h.leaves = depth_first ? HGA_LEAVES_DEPTH_FIRST : HGA_LEAVES_BY_ID;
    TRY(complain_of(hga_build_hsa(&h, &out->graph, &out->program), CLI_DATA, path));
    out->in_order = tree.name_at != NULL;
    TRY(node_ids_fit(out->graph, path, &out->map));
    TRY(tree_file_name(&tree, out->map.id, &out->graph));
    TRY(complain_of(hga_program_to_json(&out->program, out->graph, &out->text), CLI_DATA, path));
done:
    hga_tree_clear(&tree);
    return status;
}

/* Prints what a file was taken for, once however many ranks read it. */
static void say(const char *path, const char *what)
{
    if (!world_speaks()) return;
    fputs("hga: ", stderr);
    terminal_text(stderr, path);
    fputs(": ", stderr);
    terminal_text(stderr, what);
    fputc('\n', stderr);
}

/* Warns of edges that a file has more than once, which count as often. */
static void say_twice(const char *path, const hga_graph *g)
{
    hga_pos twice = 0;
    for (hga_id r = 0; r < hga_graph_nodes(g).n_relations; r++) twice += hga_graph_repeated(g, r);
    char text[80];
    snprintf(text, sizeof text, "%lld edges repeat another and count once more", (long long)twice);
    if (twice && !hga_graph_is_json(path)) say(path, text);
}

/* Reads the file by the library; makes a program for edges without one. */
static int import_edges(const char *path, const npy *parents, int depth_first, int pattern, graph_file *out)
{
    hga_node_map map = {0};
    char *attributes = NULL;
    hga_import wish = {.depth_first = depth_first, .node_map = &map, .attributes = &attributes, .pattern = pattern};
    int status = CLI_GOOD;
    if (parents) wish.parents = parents->whole, wish.n_parents = (hga_id)parents->count;
    TRY(complain_of(hga_graph_read(NULL, path, &wish, &out->graph, &out->text), CLI_DATA, path));
    if (map.n_graphs && map.n[0] > 0) {
        TRY(node_ids_make(map.n[0], &out->map));
        memcpy(out->map.id, map.id[0], (size_t)map.n[0] * sizeof *out->map.id);
        TRY(node_ids_fit(out->graph, path, &out->map));
    }
    if (attributes) say(path, attributes);
    say_twice(path, out->graph);
    if (out->text)
        TRY(complain_of(hga_program_from_json(out->text, out->graph, &out->program), CLI_DATA, path));
    else if (!hga_graph_is_json(path))
        TRY(attend_all(path, out));
done:
    hga_node_map_clear(&map);
    hga_text_free(attributes);
    return status;
}

int graph_file_import(const char *path, const npy *parents, int depth_first, int pattern, graph_file *out)
{
    *out = (graph_file){.lacks = "it has no member \"program\" that names the stages"};
    int status = (tree_file_is(path) ? import_tree : import_edges)(path, parents, depth_first, pattern, out);
    if (status) graph_file_clear(out);
    return status;
}

int graph_file_read(const char *path, const char *parents, int pattern, graph_file *out)
{
    npy tree = {0};
    int status = CLI_GOOD;
    *out = (graph_file){0};
    if (parents) TRY(npy_read(parents, NPY_WHOLE, &tree));
    if (tree.n_dims > 1 || tree.count > INT32_MAX)
        TRY(complain(CLI_DATA, "%s: parents are [nodes], one axis", parents));
    TRY(graph_file_import(path, parents ? &tree : NULL, 0, pattern, out));
done:
    npy_clear(&tree);
    return status;
}

/* Puts the graph under clusters, and a program over all levels in place of the flat one. */
int graph_file_coarsen(const char *path, const char *name, const hga_id *size, hga_id n_sizes, graph_file *f)
{
    hga_graph *coarse = NULL;
    if (f->text && (hga_graph_is_json(path) || tree_file_is(path)))
        return complain(CLI_USAGE, "%s: %s has a program of its own; clusters are for a file of edges", name, path);
    progress bar = progress_start("clusters");
    hga_status st = hga_graph_coarsen(f->graph, size, n_sizes, progress_show, &bar, &coarse);
    progress_end(&bar);
    MUST(complain_of(st, CLI_DATA, path));
    hga_graph_destroy(f->graph);
    f->graph = coarse;
    MUST(node_ids_fit(coarse, path, &f->map));
    hga_text_free(f->text);
    f->text = NULL;
    return attend_all(path, f);
}

void graph_file_clear(graph_file *f)
{
    hga_graph_destroy(f->graph);
    hga_text_free(f->text);
    node_ids_clear(&f->map);
    *f = (graph_file){0};
}

/* ---- writing ---- */

typedef struct writing {
    const graph_source *source;
    const graph_target *target;
    hga_id relation;
} writing;

/* the members of the JSON that are not the graph's: its program and its words, if there are any; for free() */
static int join_members(const char *program, const json_t *names, char **out)
{
    char *list = names ? json_dumps(names, 0) : NULL;
    if (names && !list) return complain(CLI_OUTSIDE, "out of memory: words");
    size_t capacity = (program ? strlen(program) : 0) + (list ? strlen(list) : 0) + 64;
    int status = take((int64_t)capacity, 1, out);
    if (status == CLI_GOOD)
        snprintf(*out, capacity, "%s%s%s%s%s", program ? "\"program\": " : "", program ? program : "",
                 program && list ? ",\n  " : "", list ? "\"words\": " : "", list ? list : "");
    free(list);
    return status;
}

static int said(const writing *w, hga_status st) { return complain_of(st, CLI_USAGE, w->target->path); }

/* The program and the words of tokens are members beside the graph's own. */
static int write_json(const writing *w)
{
    const graph_source *s = w->source;
    char *members = NULL;
    int status = CLI_GOOD;
    TRY(join_members(s->program_text, s->names ? s->names->document : NULL, &members));
    TRY(said(w, hga_graph_write_json(s->graph, *members ? members : NULL, w->target->path)));
done:
    free(members);
    return status;
}

static int write_dot(const writing *w)
{
    return said(w, hga_graph_write_dot(w->source->graph, w->relation, w->target->path, w->target->max_edges));
}

typedef hga_status edge_writer(const hga_graph *, hga_id, const char *, hga_progress, void *);

static int write_edges(const writing *w, edge_writer *write)
{
    progress bar = progress_start("writing edges");
    hga_status st = write(w->source->graph, w->relation, w->target->path, progress_show, &bar);
    progress_end(&bar);
    return said(w, st);
}

/* Warns of loops, which METIS's format cannot hold. */
static int say_loops(const writing *w)
{
    hga_pos loops = 0;
    MUST(said(w, hga_graph_loops(w->source->graph, w->relation, &loops)));
    if (loops)
        fprintf(stderr,
                "hga: %s: %lld edges from a node to itself are left out, which METIS's files have no place for\n",
                w->target->path, (long long)loops);
    return CLI_GOOD;
}

/* Warns of weights that the format has no place for. */
static void say_weights(const writing *w, const char *format)
{
    const hga_graph *g = w->source->graph;
    int weighted = 0;
    for (hga_id r = 0; r < hga_graph_nodes(g).n_relations; r++)
        if (w->relation == r || w->relation == HGA_ALL_RELATIONS) weighted |= hga_graph_relation(g, r).weighted;
    if (weighted)
        fprintf(stderr, "hga: %s: weights of edges are left out, which .%s files have no place for\n", w->target->path,
                format);
}

static int write_picture(const writing *w, picture_kind kind)
{
    const graph_source *s = w->source;
    if (!s->program) return complain(CLI_DATA, "%s: has no program, so there is no attention to draw", s->title);
    return picture_file_write(s->graph, s->program, s->title, s->names, kind, &w->target->picture, w->target->path);
}

static int write_svg(const writing *w) { return write_picture(w, PICTURE_SVG); }
static int write_png(const writing *w) { return write_picture(w, PICTURE_PNG); }

static const struct format {
    const char *name;
    enum { EVERY, ONE, ONE_OR_ALL } relations;
    int is_picture, no_weights;
    edge_writer *edges;            /* of a list of edges */
    int (*write)(const writing *); /* of the others, and what comes after a list */
} formats[] = {
    {"json", EVERY, 0, 0, NULL, write_json},
    {"npy", ONE, 0, 1, hga_graph_write_npy, NULL},
    {"mtx", ONE, 0, 0, hga_graph_write_mtx, NULL},
    {"csv", ONE_OR_ALL, 0, 0, hga_graph_write_csv, NULL},
    {"dot", ONE_OR_ALL, 0, 1, NULL, write_dot},
    {"graphml", ONE_OR_ALL, 0, 0, hga_graph_write_graphml, NULL},
    {"gexf", ONE_OR_ALL, 0, 0, hga_graph_write_gexf, NULL},
    {"graph", ONE, 0, 1, hga_graph_write_metis, say_loops},
    {"svg", EVERY, 1, 0, NULL, write_svg},
    {"png", EVERY, 1, 0, NULL, write_png},
};
enum { N_FORMATS = sizeof formats / sizeof formats[0] };
static const char format_names[] = "json npy mtx csv dot graphml gexf graph svg png";

static const struct format *format_of(const graph_target *t)
{
    const char *name = t->format;
    const char *dot = strrchr(t->path, '.');
    if (!name) name = dot && !strchr(dot, '/') ? dot + 1 : "";
    for (size_t i = 0; i < N_FORMATS; i++)
        if (strcmp(name, formats[i].name) == 0) return &formats[i];
    return NULL;
}

/* Does the format hold the request: one relation or all, a picture or not? */
int graph_target_check(const graph_target *t)
{
    if (!t->path) return complain(CLI_USAGE, "-o FILE is missing");
    const struct format *f = format_of(t);
    if (!f && t->format) return complain(CLI_USAGE, "--format: '%s' is not one of: %s", t->format, format_names);
    if (!f)
        return complain(CLI_USAGE, "-o %s: no format has this suffix; give --format, one of: %s", t->path,
                        format_names);
    int all = t->relation && strcmp(t->relation, "all") == 0;
    if (t->relation && f->relations == EVERY && !all)
        return complain(CLI_USAGE, "--relation: %s %s every relation", f->name, f->is_picture ? "shows" : "holds");
    if (f->relations == ONE && all)
        return complain(CLI_USAGE, "--relation: %s holds one relation; all: csv dot graphml gexf json", f->name);
    if (!f->is_picture && picture_requested(&t->picture))
        return complain(CLI_USAGE, "%s: is for .svg and .png only", picture_requested(&t->picture));
    return picture_options_check(&t->picture);
}

int graph_target_is_picture(const graph_target *t)
{
    const struct format *f = t->path ? format_of(t) : NULL;
    return f && f->is_picture;
}

/* The relations of every graph; one of the graph's own name comes first. */
static const struct {
    const char *name;
    hga_id relation;
} common[] = {
    {"tree", HGA_TREE_UP}, {"tree up", HGA_TREE_UP}, {"tree down", HGA_TREE_DOWN}, {"all", HGA_ALL_RELATIONS}};

/* the index of the relation to write */
static int pick_relation(const hga_graph *g, hga_id main, const char *name, hga_id *relation)
{
    *relation = name ? hga_graph_find_relation(g, name) : main;
    if (*relation >= 0) return CLI_GOOD;
    if (!name)
        return complain(CLI_DATA, "the graph has no relation to write; --relation tree writes each node's parent");
    for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
        if (strcmp(name, common[i].name) != 0) continue;
        *relation = common[i].relation;
        if (*relation == HGA_ALL_RELATIONS || hga_graph_nodes(g).parent) return CLI_GOOD;
        return complain(CLI_USAGE, "--relation: %s: the graph has no tree: no node has a parent", name);
    }
    char known[512] = "";
    for (hga_id r = 0; r < hga_graph_nodes(g).n_relations; r++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, " %s", hga_graph_relation(g, r).name);
    }
    return complain(CLI_USAGE, "--relation: no relation '%s'; there are:%s tree all", name, known);
}

int graph_write(const graph_source *source, const graph_target *t)
{
    const struct format *f = format_of(t);
    writing w = {source, t, -1};
    if (f->relations != EVERY) MUST(pick_relation(source->graph, source->main, t->relation, &w.relation));
    if (f->edges) MUST(write_edges(&w, f->edges));
    if (f->write) MUST(f->write(&w));
    if (f->no_weights) say_weights(&w, f->name);
    return CLI_GOOD;
}

/* ---- options ---- */

enum { DEFAULT_MAX_EDGES = 20000 };

static void start_target(void *target) { ((graph_target *)target)->max_edges = DEFAULT_MAX_EDGES; }

static const option_row target_options[] = {
    {"output,o", TEXT(graph_target, path), "FILE", 0, "where to write, - for standard output", 2},
    {"format", TEXT(graph_target, format), "FORMAT", 0,
     "json, npy, mtx, csv, dot, graphml, gexf, graph (METIS), svg or png (default: by FILE's suffix)", 2},
    {"relation", TEXT(graph_target, relation), "NAME", 0,
     "the relation whose edges are written; `tree`: each node and its parent (`tree down`: the reverse); `all`: every "
     "relation and the tree, named, in csv, dot, graphml and gexf; json and pictures have all (default: the first "
     "attended; without one, the last stage's)",
     2},
    {"max-edges", WHOLE(graph_target, max_edges, 1, INT64_MAX), "N", 0,
     "refuse a .dot with more edges (default: 20000)", 2},
    {0},
};
static const option_part target_parts[] = {{&picture_list, offsetof(graph_target, picture), NULL, 0}, {0}};
const option_list target_list = {.rows = target_options, .parts = target_parts, .start = start_target};
