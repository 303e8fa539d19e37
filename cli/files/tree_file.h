/* tree_file.h: trees that are no graphs: folders, HTML, Markdown, arrays of parents, scipy's linkage. */
#ifndef CLI_TREE_FILE_H
#define CLI_TREE_FILE_H

#include <hga.h>

/* A folder; .html, .htm, .xhtml, .md, .markdown; a .npy of one axis of whole numbers, or of [n][4] real ones. */
int tree_file_is(const char *path);
/* Parents and, but for arrays, names and leaves; hga_tree_clear. */
int tree_file_read(const char *path, hga_tree *out);

/* Gives the nodes of a graph that was made of a tree the tree's names; node_of[v] is the graph's id of node v.
   Replaces the graph if there are names. */
int tree_file_name(const hga_tree *tree, const hga_id *node_of, hga_graph **graph);

/* Prints one line on stderr on the order of rows: by_id or by the tree, the first few leaves, and how to change it.
   Nothing if row i is leaf i both ways. `node_of` is [n], leaves of the graph are its first n_leaves ids. */
void tree_file_tell(const char *path, const hga_id *node_of, hga_id n, hga_id n_leaves, int by_id);

#endif
