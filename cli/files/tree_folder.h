/* tree_folder.h: a folder as a tree. */
#ifndef CLI_TREE_FOLDER_H
#define CLI_TREE_FOLDER_H

#include <hga.h>

int tree_folder_is(const char *path);
/* Files are the leaves, folder after folder, each by name; folders without files are left out, links and other things
   that are no files, too. Nodes have their names. CLI_DATA without any file; hga_tree_clear. */
int tree_folder_read(const char *path, hga_tree *out);

#endif
