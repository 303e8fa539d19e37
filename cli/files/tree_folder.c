/* tree_folder.c: folders, walked in the order of their names. */
#include "tree_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "complain.h"
#include "terminal.h"

int tree_folder_is(const char *path)
{
    struct stat s;
    return strcmp(path, "-") != 0 && stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* ---- the tree, as it grows ---- */

/* Keeps capacity for one node more, and for so many bytes of its name. */
static int keep_capacity(hga_tree *t, int64_t *nodes, int64_t name)
{
    if (t->n == *nodes) {
        const int64_t more = *nodes ? 2 * *nodes : 64;
        hga_id *parent = realloc(t->parent, (size_t)more * sizeof *parent);
        if (parent) t->parent = parent;
        int64_t *at = realloc(t->name_at, (size_t)more * sizeof *at);
        if (at) t->name_at = at;
        if (!parent || !at) return complain(CLI_OUTSIDE, "out of memory: a tree of %lld nodes", (long long)more);
        *nodes = more;
    }
    while (t->name_bytes + name > t->name_capacity) {
        const int64_t more = t->name_capacity ? 2 * t->name_capacity : 4096;
        char *text = realloc(t->name_text, (size_t)more);
        if (!text) return complain(CLI_OUTSIDE, "out of memory: names of %d nodes", t->n);
        t->name_text = text, t->name_capacity = more;
    }
    return CLI_GOOD;
}

/* Bytes of a name that are no UTF-8 become question marks, as Graph.from_folder has them. */
static void mend(char *name)
{
    for (size_t n; *name; name += n ? n : 1)
        if (!(n = utf8_bytes(name))) *name = '?';
}

static int add_node(hga_tree *t, int64_t *nodes, hga_id parent, const char *name)
{
    enum { MOST_NODES = 1 << 24 };
    const int64_t bytes = (int64_t)strlen(name) + 1;
    if (t->n == MOST_NODES) return complain(CLI_DATA, "more than %d files and folders", MOST_NODES);
    MUST(keep_capacity(t, nodes, bytes));
    t->parent[t->n] = parent, t->name_at[t->n] = t->name_bytes, t->n++;
    mend(memcpy(t->name_text + t->name_bytes, name, (size_t)bytes));
    t->name_bytes += bytes;
    return CLI_GOOD;
}

/* ---- walking: what is no folder is a file, and links are not followed ---- */

static int by_bytes(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static int is_inside(const struct dirent *e) { return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0; }

static int add_folder(const char *path, const char *name, hga_id parent, hga_tree *t, int64_t *nodes);

static int add_entry(const char *folder, const char *name, hga_id parent, hga_tree *t, int64_t *nodes)
{
    char *path = NULL;
    const size_t bytes = strlen(folder) + strlen(name) + 2;
    struct stat s;
    int status = CLI_GOOD;
    TRY(take((int64_t)bytes, 1, &path));
    snprintf(path, bytes, "%s/%s", folder, name);
    if (lstat(path, &s) != 0) TRY(complain(CLI_DATA, "%s: %s", path, strerror(errno)));
    status = S_ISDIR(s.st_mode) ? add_folder(path, name, parent, t, nodes) : add_node(t, nodes, parent, name);
done:
    free(path);
    return status;
}

/* A folder and what is below it; takes itself back where no file is. */
static int add_folder(const char *path, const char *name, hga_id parent, hga_tree *t, int64_t *nodes)
{
    struct dirent **entry = NULL;
    const hga_id at = t->n;
    const int64_t names = t->name_bytes;
    int status = CLI_GOOD, n = scandir(path, &entry, is_inside, by_bytes);
    if (n < 0) return complain(CLI_DATA, "%s: %s", path, strerror(errno));
    status = add_node(t, nodes, parent, name);
    for (int i = 0; i < n && !status; i++) status = add_entry(path, entry[i]->d_name, at, t, nodes);
    if (!status && t->n == at + 1) t->n = at, t->name_bytes = names;
    for (int i = 0; i < n; i++) free(entry[i]);
    free(entry);
    return status;
}

/* "sources" of "../sources/"; the path itself where it ends in dots. */
static int name_of(const char *path, char **out)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t first = end;
    while (first > 0 && path[first - 1] != '/') first--;
    MUST(take((int64_t)(end - first) + 2, 1, out));
    memcpy(*out, path + first, end - first);
    if (first == end) memcpy(*out, "/", 2);
    return CLI_GOOD;
}

int tree_folder_read(const char *path, hga_tree *out)
{
    int64_t nodes = 0;
    char *name = NULL;
    int status = CLI_GOOD;
    *out = (hga_tree){0};
    TRY(name_of(path, &name));
    TRY(add_folder(path, name, -1, out, &nodes));
    if (out->n == 0) TRY(complain(CLI_DATA, "%s: has no files", path));
done:
    free(name);
    if (status) hga_tree_clear(out);
    return status;
}
