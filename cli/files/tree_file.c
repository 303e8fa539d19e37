/* tree_file.c: which reader reads a tree's file. */
#include "tree_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "complain.h"
#include "hga_files.h"
#include "npy.h"
#include "tree_folder.h"
#include "whole_file.h"

typedef enum kind { NO_TREE, FOLDER, HTML, MARKDOWN, PARENTS, LINKAGE } kind;

/* ---- kinds of files ---- */

/* The kind by the header of a .npy; the reader complains about what is wrong with it. */
static kind kind_of_array(const char *path)
{
    hga_npy h = {0};
    FILE *file = fopen(path, "rb");
    int is_array = file && hga_npy_read_header(path, file, &h) == HGA_OK;
    if (file) fclose(file);
    if (is_array && h.n_dims == 1 && h.kind == 'i') return PARENTS;
    return is_array && h.n_dims == 2 && h.dim[1] == 4 && h.kind == 'f' ? LINKAGE : NO_TREE;
}

static int ends_with(const char *path, const char *suffix)
{
    size_t n = strlen(path), m = strlen(suffix);
    return n > m && strcasecmp(path + n - m, suffix) == 0;
}

static kind kind_of(const char *path)
{
    if (tree_folder_is(path)) return FOLDER;
    if (ends_with(path, ".html") || ends_with(path, ".htm") || ends_with(path, ".xhtml")) return HTML;
    if (ends_with(path, ".md") || ends_with(path, ".markdown")) return MARKDOWN;
    return ends_with(path, ".npy") ? kind_of_array(path) : NO_TREE;
}

int tree_file_is(const char *path) { return kind_of(path) != NO_TREE; }

/* ---- reading ---- */

/* Reads a file whole and has one of the library's readers make the tree. */
static int read_document(const char *path, hga_status (*read)(const hga_allocator *, const char *, size_t, hga_tree *),
                         hga_tree *out)
{
    char *text = NULL;
    size_t bytes = 0;
    int status = CLI_GOOD;
    TRY(whole_file_read(path, &text, &bytes));
    TRY(complain_of(read(NULL, text, bytes, out), CLI_DATA, path));
done:
    free(text);
    return status;
}

/* A tree as one array, in which each node has its parent or -1, as the builder checks. */
static int read_parents(const char *path, hga_tree *out)
{
    npy a = {0};
    int status = CLI_GOOD;
    TRY(npy_read(path, NPY_WHOLE, &a));
    if (a.count < 1 || a.count > INT32_MAX - 4)
        TRY(complain(CLI_DATA, "%s: a tree of %lld nodes", path, (long long)a.count));
    out->n = (hga_id)a.count, out->parent = a.whole, a.whole = NULL;
done:
    npy_clear(&a);
    return status;
}

/* A tree as SciPy's linkage of clusters: four numbers a merge. */
static int read_linkage(const char *path, hga_tree *out)
{
    enum { MOST = 1 << 22 }; /* numbers of clusters are read as float32 */
    npy a = {0};
    double *linkage = NULL;
    int status = CLI_GOOD;
    TRY(npy_read(path, NPY_REAL, &a));
    if (a.dim[0] < 1 || a.dim[0] > MOST)
        TRY(complain(CLI_DATA, "%s: a linkage of %lld merges; 1 to %d are read", path, (long long)a.dim[0], MOST));
    TRY(take(a.count, sizeof *linkage, &linkage));
    for (int64_t i = 0; i < a.count; i++) linkage[i] = (double)a.real[i];
    TRY(complain_of(hga_tree_linkage(NULL, linkage, (hga_id)a.dim[0], out), CLI_DATA, path));
done:
    free(linkage);
    npy_clear(&a);
    return status;
}

int tree_file_read(const char *path, hga_tree *out)
{
    *out = (hga_tree){0};
    switch (kind_of(path)) {
    case FOLDER: return tree_folder_read(path, out);
    case HTML: return read_document(path, hga_tree_html, out);
    case MARKDOWN: return read_document(path, hga_tree_markdown, out);
    case PARENTS: return read_parents(path, out);
    case LINKAGE: return read_linkage(path, out);
    default: return complain(CLI_DATA, "%s: not a tree", path);
    }
}

/* ---- names and rows of the graph ---- */

int tree_file_name(const hga_tree *tree, const hga_id *node_of, hga_graph **graph)
{
    const char **name = NULL;
    hga_graph *named = NULL;
    int status = CLI_GOOD;
    if (!tree->name_at) return CLI_GOOD;
    TRY(take(tree->n, sizeof *name, &name));
    for (hga_id v = 0; v < tree->n; v++) name[node_of[v]] = hga_tree_name(tree, v);
    TRY(complain_of(hga_graph_set_names(*graph, name, tree->n, &named), CLI_DATA, "names"));
    hga_graph_destroy(*graph);
    *graph = named;
done:
    free((void *)name);
    return status;
}

/* Prints nothing of leaves that are in the expected order. */
void tree_file_tell(const char *path, const hga_id *node_of, hga_id n, hga_id n_leaves, int by_id)
{
    enum { SHOWN = 4 };
    hga_id shown[SHOWN] = {0}, at = 0;
    int moved = 0;
    for (hga_id v = 0; v < n; v++) {
        if (node_of[v] >= n_leaves) continue;
        if (node_of[v] < SHOWN) shown[node_of[v]] = v;
        moved |= by_id ? node_of[v] != v : node_of[v] != at++;
    }
    if (!moved || n_leaves == 0) return;
    fprintf(stderr, "hga: %s: rows are the leaves %s:", path, by_id ? "by id" : "in depth-first order");
    for (hga_id i = 0; i < n_leaves && i < SHOWN; i++) fprintf(stderr, " %d", shown[i]);
    fprintf(stderr, "%s; -p leaves=%s makes rows go by %s\n", n_leaves > SHOWN ? " .." : "",
            by_id ? "depth-first" : "id", by_id ? "the tree" : "id");
}
