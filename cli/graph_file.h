/* graph_file.h: graphs in files: reading one with its program, writing one in any format. */
#ifndef CLI_GRAPH_FILE_H
#define CLI_GRAPH_FILE_H

#include "arguments.h"

#include "complain.h"
#include "node_ids.h"
#include "npy.h"
#include "picture_file.h"

/* A graph from a file; `text` is its program as JSON, NULL without one (then `lacks` is why), and `program` what it
   says. Files of edges attend all their relations jointly over their tree (hga_program_hierarchy). */
typedef struct graph_file {
    hga_graph *graph;
    hga_program program;
    char *text;
    char lacks[256];
    node_ids map; /* from the file's nodes */
    int in_order; /* tokens are in reading order, and the file's numbers do not matter; or they were told */
} graph_file;
/* Reads a graph's file, or a tree's (tree_file.h), on which HSA is the program. `parents` is the name of a .npy
   file; NULL: none. pattern: every edge has weight 1. Prints on stderr what names of the file were taken for. */
int graph_file_read(const char *path, const char *parents, int pattern, graph_file *out);
/* The same with parents that were read before; NULL: none. Tokens are in the order of the file's ids, or in the
   tree's. */
int graph_file_import(const char *path, const npy *parents, int depth_first, int pattern, graph_file *out);
/* Puts the graph, which has no program in its file, under a tree of clusters (hga_graph_coarsen); all of its
   relations are attended over that. `name` is the argument, for complaints. */
int graph_file_coarsen(const char *path, const char *name, const hga_id *size, hga_id n_sizes, graph_file *f);
void graph_file_clear(graph_file *f);

/* What to write. */
typedef struct graph_source {
    const hga_graph *graph;
    const hga_program *program; /* NULL without one */
    const char *program_text;   /* becomes the JSON's `program`; NULL accepted */
    hga_id main;                /* the relation written when none is named, -1 without one */
    const char *title;          /* of pictures */
    const words *names;         /* of tokens; NULL: the graph's */
} graph_source;

/* Where and how to write. */
typedef struct graph_target {
    const char *path, *format, *relation; /* format NULL: by path's suffix; relation NULL: the main one */
    int64_t max_edges;                    /* of a drawing */
    picture_options picture;
} graph_target;
/* -o, --format, --relation, --max-edges, and a picture's: input is a graph_target. */
extern const option_list target_list;

/* Is the target complete? Checked before anything is built. */
int graph_target_check(const graph_target *t);
int graph_target_is_picture(const graph_target *t);
int graph_write(const graph_source *source, const graph_target *t);

#endif
