/* outfile.c: the library's files, complained about, and what is tidied up when a signal ends the tool. */
#include "outfile.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "complain.h"

/* ---- signals ---- */

static void end_tidily(int number)
{
    hga_files_abandon();
    signal(number, SIG_DFL);
    raise(number);
}

void outfile_watch_signals(void)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction before, ours = {.sa_handler = end_tidily};
    sigemptyset(&ours.sa_mask);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        if (sigaction(ending[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL) sigaction(ending[i], &ours, NULL);
    signal(SIGXFSZ, SIG_IGN);
}

/* ---- files ---- */

static int said(hga_status st, const outfile *out)
{
    return complain_of(st, st == HGA_EINVAL ? CLI_USAGE : CLI_OUTSIDE, out->whole.path);
}

int outfile_open(const char *path, outfile *out)
{
    *out = (outfile){0};
    int status = said(hga_file_open(&out->whole, path), out);
    out->file = out->whole.stream;
    return status;
}

int outfile_check(const char *path)
{
    outfile out = {0};
    int status = outfile_open(path, &out);
    outfile_drop(&out);
    return status;
}

int outfile_flush(outfile *out) { return said(hga_file_flush(&out->whole), out); }

int outfile_keep(outfile *out)
{
    out->file = NULL;
    return said(hga_file_keep(&out->whole), out);
}

void outfile_drop(outfile *out)
{
    out->file = NULL;
    hga_file_drop(&out->whole);
}

/* ---- names ---- */

/* The folder of a path as the system knows it, and the name within it. */
static const char *split(const char *path, struct stat *folder, int *found)
{
    const char *slash = strrchr(path, '/');
    char *name = slash ? strndup(path, (size_t)(slash - path) + 1) : NULL;
    *found = slash && !name ? 0 : stat(name ? name : ".", folder) == 0;
    free(name);
    return slash ? slash + 1 : path;
}

int outfile_same(const char *a, const char *b)
{
    struct stat x, y;
    int found_x, found_y;
    if (strcmp(a, b) == 0) return 1;
    if (stat(a, &x) == 0 && stat(b, &y) == 0) return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    const char *name_a = split(a, &x, &found_x), *name_b = split(b, &y, &found_y);
    return found_x && found_y && strcmp(name_a, name_b) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
