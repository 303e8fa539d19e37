/* source_folder.h: a folder of source files as a tree. */
#ifndef CLI_SOURCE_FOLDER_H
#define CLI_SOURCE_FOLDER_H

#include <hga.h>

/* Folders, files, functions (and classes) where ctags is there and knows them, lines: the leaves, in the order of the
   names of folders and files. Every node has a name. Left out: what begins with a dot, links, files that are no UTF-8
   text or larger than 4 MiB, and lines without anything on them. CLI_DATA for a folder without a line. */
int source_folder_read(const char *path, hga_tree *out);

#endif
