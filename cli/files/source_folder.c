/* source_folder.c: folders, files, functions and lines as a tree. Functions are universal-ctags', asked once for all
   files; without it, or in languages that it does not know, lines belong to their file. */
#include "source_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "complain.h"
#include "hga_files.h"
#include "whole_file.h"

enum { MOST_BYTES = 4 << 20, MOST_DEPTH = 100, MOST_OPEN = 64 };

/* A function or class, lines counted from 1. */
typedef struct tag {
    char *path, *name;
    long first, last;
} tag;

typedef struct folder {
    hga_tree *tree;
    int64_t parent_room, kind_room, at_room, leaf_room;
    tag *tags; /* by path, then by first line, outer before inner */
    size_t n_tags, tag_room;
    FILE *list; /* names of files, for ctags */
} folder;

enum { LINE, FUNCTION, SOURCE, FOLDER };
static const char *const kinds[] = {"line", "function", "file", "folder"};

static int add(folder *f, hga_id parent, int kind, const char *name, size_t n, hga_id *node)
{
    hga_tree *t = f->tree;
    hga_status st = HGA_OK;
    if (t->n > INT32_MAX - 4) return complain(CLI_DATA, "%.*s: more than %d nodes", (int)n, name, INT32_MAX - 4);
    HGA_TRY(hga_grow(NULL, &t->parent, &f->parent_room, t->n, (int64_t)t->n + 1, sizeof *t->parent));
    HGA_TRY(hga_grow(NULL, &t->kind, &f->kind_room, t->n, (int64_t)t->n + 1, 1));
    HGA_TRY(hga_grow(NULL, &t->name_at, &f->at_room, t->n, (int64_t)t->n + 1, sizeof *t->name_at));
    HGA_TRY(hga_grow(NULL, &t->name_text, &t->name_room, t->name_bytes, t->name_bytes + (int64_t)n + 1, 1));
    if (kind == LINE) {
        HGA_TRY(
            hga_grow(NULL, &t->leaf_node, &f->leaf_room, t->n_leaves, (int64_t)t->n_leaves + 1, sizeof *t->leaf_node));
        t->leaf_node[t->n_leaves++] = t->n;
    }
    memcpy(t->name_text + t->name_bytes, name, n);
    t->name_text[t->name_bytes + (int64_t)n] = 0;
    t->parent[t->n] = parent, t->kind[t->n] = (uint8_t)kind, t->name_at[t->n] = t->name_bytes;
    t->name_bytes += (int64_t)n + 1;
    *node = t->n++;
done:
    return complain_of(st, CLI_OUTSIDE, "folder");
}

/* Undo the nodes from `first` on: they turned out to hold no line. */
static void forget(folder *f, hga_id first)
{
    if (first < f->tree->n) f->tree->name_bytes = f->tree->name_at[first], f->tree->n = first;
}

/* ---- folders ---- */

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static int is_shown(const struct dirent *e) { return e->d_name[0] != '.'; }

typedef int (*file_visitor)(folder *f, const char *path, const char *name, hga_id parent);

static int walk(folder *f, const char *path, const char *name, hga_id parent, int depth, file_visitor visit);

static int visit_entry(folder *f, const char *path, const char *name, hga_id parent, int depth, file_visitor visit)
{
    struct stat s;
    char inner[4096];
    if (snprintf(inner, sizeof inner, "%s/%s", path, name) >= (int)sizeof inner || lstat(inner, &s)) return CLI_GOOD;
    if (S_ISDIR(s.st_mode) && depth < MOST_DEPTH) return walk(f, inner, name, parent, depth + 1, visit);
    return S_ISREG(s.st_mode) && s.st_size <= MOST_BYTES ? visit(f, inner, name, parent) : CLI_GOOD;
}

static int walk(folder *f, const char *path, const char *name, hga_id parent, int depth, file_visitor visit)
{
    struct dirent **entry = NULL;
    hga_id node = -1, leaves = f->tree->n_leaves, before = f->tree->n;
    int status = CLI_GOOD, n = scandir(path, &entry, is_shown, by_name);
    if (n < 0) return complain(CLI_DATA, "%s: cannot be read: %s", path, strerror(errno));
    if (!f->list) status = add(f, parent, FOLDER, name, strlen(name), &node);
    for (int i = 0; i < n; i++) {
        if (status == CLI_GOOD) status = visit_entry(f, path, entry[i]->d_name, node, depth, visit);
        free(entry[i]);
    }
    free(entry);
    if (status == CLI_GOOD && f->tree->n_leaves == leaves) forget(f, before);
    return status;
}

/* ---- functions ---- */

static int list_file(folder *f, const char *path, const char *name, hga_id parent)
{
    (void)name, (void)parent;
    if (!strchr(path, '\n')) fprintf(f->list, "%s\n", path);
    return CLI_GOOD;
}

static int by_place(const void *a, const void *b)
{
    const tag *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    if (order) return order;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->last == y->last ? 0 : x->last > y->last ? -1 : 1;
}

/* "name<tab>path<tab>12;"<tab>kind<tab>end:34": functions, methods and classes that say where they end */
static int keep_tag(folder *f, char *text)
{
    static const char *const wanted[] = {"function", "method", "class", "subroutine", "procedure", "func"};
    char *field[4] = {text};
    for (int i = 1; i < 4; i++) {
        char *tab = strchr(field[i - 1], '\t');
        if (!tab) return CLI_GOOD;
        *tab = 0, field[i] = tab + 1;
    }
    char *kind = field[3], *end = strstr(kind, "end:");
    size_t i = 0, length = strcspn(kind, "\t\n");
    while (i < sizeof wanted / sizeof *wanted && (strlen(wanted[i]) != length || strncmp(kind, wanted[i], length) != 0))
        i++;
    if (!end || i == sizeof wanted / sizeof *wanted) return CLI_GOOD;
    if (f->n_tags == f->tag_room) {
        size_t room = f->tag_room ? 2 * f->tag_room : 256;
        tag *more = realloc(f->tags, room * sizeof *more);
        if (!more) return complain(CLI_OUTSIDE, "out of memory: functions");
        f->tags = more, f->tag_room = room;
    }
    tag one = {strdup(field[1]), strdup(field[0]), strtol(field[2], NULL, 10), strtol(end + 4, NULL, 10)};
    f->tags[f->n_tags++] = one;
    return one.path && one.name ? CLI_GOOD : complain(CLI_OUTSIDE, "out of memory: functions");
}

/* What ctags says of the files in a list; nothing where there is no universal-ctags. */
static int read_tags(folder *f, const char *list)
{
    char command[300], *line = NULL;
    size_t room = 0;
    int status = CLI_GOOD;
    snprintf(command, sizeof command, "ctags --sort=no --excmd=number --fields=Ke -f - -L %s 2>/dev/null", list);
    FILE *pipe = popen(command, "r");
    if (!pipe) return CLI_GOOD;
    while (status == CLI_GOOD && getline(&line, &room, pipe) >= 0)
        if (line[0] != '!') status = keep_tag(f, line);
    free(line);
    pclose(pipe);
    if (f->n_tags) qsort(f->tags, f->n_tags, sizeof *f->tags, by_place);
    return status;
}

static int find_functions(folder *f, const char *path)
{
    char list[] = "/tmp/hga-files-XXXXXX";
    int handle = mkstemp(list), status = CLI_GOOD;
    if (handle < 0) return CLI_GOOD;
    f->list = fdopen(handle, "w");
    if (f->list) status = walk(f, path, path, -1, 0, list_file);
    if (f->list) fclose(f->list);
    f->list = NULL;
    if (status == CLI_GOOD) status = read_tags(f, list);
    remove(list);
    return status;
}

/* ---- files ---- */

static size_t first_tag(const folder *f, const char *path)
{
    size_t low = 0, high = f->n_tags;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(f->tags[middle].path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The functions that are open on a line. */
typedef struct nest {
    hga_id node[MOST_OPEN];
    long last[MOST_OPEN];
    int depth;
} nest;

static int add_lines(folder *f, const char *path, hga_id file, char *text, size_t bytes)
{
    nest in = {.node = {file}, .last = {0}, .depth = 1};
    size_t next = first_tag(f, path);
    long number = 1;
    int status = CLI_GOOD;
    hga_id leaf;
    for (char *at = text, *end = text + bytes; at < end; number++) {
        char *stop = memchr(at, '\n', (size_t)(end - at)), *after = stop ? stop + 1 : end;
        size_t n = (size_t)((stop ? stop : end) - at), blank = strspn(at, " \t\r\f");
        while (n && strchr(" \t\r", at[n - 1])) n--;
        while (in.depth > 1 && in.last[in.depth - 1] < number) in.depth--;
        for (; next < f->n_tags && strcmp(f->tags[next].path, path) == 0 && f->tags[next].first <= number; next++) {
            if (f->tags[next].last <= number || in.depth == MOST_OPEN || blank >= n) continue;
            TRY(add(f, in.node[in.depth - 1], FUNCTION, f->tags[next].name, strlen(f->tags[next].name),
                    &in.node[in.depth]));
            in.last[in.depth++] = f->tags[next].last;
        }
        if (blank < n) TRY(add(f, in.node[in.depth - 1], LINE, at, n, &leaf));
        at = after;
    }
done:
    return status;
}

static int is_text(const char *text, size_t bytes)
{
    hga_tree words = {0};
    if (bytes == 0 || memchr(text, 0, bytes)) return 0;
    int good = hga_tree_text(NULL, text, bytes, NULL, 1, &words) == HGA_OK;
    hga_tree_clear(&words);
    return good;
}

static int add_file(folder *f, const char *path, const char *name, hga_id parent)
{
    char *text = NULL;
    size_t bytes = 0;
    hga_id file, leaves = f->tree->n_leaves, before = f->tree->n;
    int status = CLI_GOOD;
    TRY(whole_file_read(path, &text, &bytes));
    if (!is_text(text, bytes)) goto done;
    TRY(add(f, parent, SOURCE, name, strlen(name), &file));
    char *ended = realloc(text, bytes + 1);
    if (!ended) TRY(complain(CLI_OUTSIDE, "%s: out of memory", path));
    text = ended, text[bytes] = 0;
    TRY(add_lines(f, path, file, text, bytes));
    if (f->tree->n_leaves == leaves) forget(f, before);
done:
    free(text);
    return status;
}

/* ---- all of it ---- */

/* Arrays as long as hga_tree_clear takes them to be. */
static int fit(void *array, int64_t room, int64_t n, size_t size)
{
    void *old, *fitting = NULL;
    memcpy(&old, array, sizeof old);
    int status = complain_of(hga_new(NULL, n, size, &fitting), CLI_OUTSIDE, "folder");
    if (status) return status;
    memcpy(fitting, old, (size_t)n * size);
    hga_delete(NULL, old, room, size);
    memcpy(array, &fitting, sizeof fitting);
    return CLI_GOOD;
}

static int finish(folder *f, const char *path)
{
    hga_tree *t = f->tree;
    int status = CLI_GOOD;
    if (t->n_leaves == 0) return complain(CLI_DATA, "%s: has no file of text", path);
    t->kind_name = kinds, t->n_kinds = 4;
    TRY(fit(&t->parent, f->parent_room, t->n, sizeof *t->parent));
    f->parent_room = t->n;
    TRY(fit(&t->kind, f->kind_room, t->n, sizeof *t->kind));
    f->kind_room = t->n;
    TRY(fit(&t->name_at, f->at_room, t->n, sizeof *t->name_at));
    f->at_room = t->n;
    TRY(fit(&t->leaf_node, f->leaf_room, t->n_leaves, sizeof *t->leaf_node));
    f->leaf_room = t->n_leaves;
done:
    return status;
}

static void drop_tree(folder *f)
{
    hga_tree *t = f->tree;
    hga_delete(NULL, t->parent, f->parent_room, sizeof *t->parent);
    hga_delete(NULL, t->kind, f->kind_room, 1);
    hga_delete(NULL, t->name_at, f->at_room, sizeof *t->name_at);
    hga_delete(NULL, t->leaf_node, f->leaf_room, sizeof *t->leaf_node);
    hga_delete(NULL, t->name_text, t->name_room, 1);
    *t = (hga_tree){0};
}

int source_folder_read(const char *path, hga_tree *out)
{
    char clean[4096];
    folder f = {.tree = out};
    int status = CLI_GOOD;
    *out = (hga_tree){0};
    if (snprintf(clean, sizeof clean, "%s", path) >= (int)sizeof clean)
        return complain(CLI_DATA, "%.60s..: the name is too long", path);
    for (size_t n = strlen(clean); n > 1 && clean[n - 1] == '/';) clean[--n] = 0;
    TRY(find_functions(&f, clean));
    TRY(walk(&f, clean, file_name(clean), -1, 0, add_file));
    TRY(finish(&f, path));
done:
    if (status) drop_tree(&f);
    for (size_t i = 0; i < f.n_tags; i++) free(f.tags[i].path), free(f.tags[i].name);
    free(f.tags);
    return status;
}
