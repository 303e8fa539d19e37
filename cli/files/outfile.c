/* outfile.c: the library's files, with complaints, and cleaning up when a signal ends the tool. */
#include "outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    struct sigaction before, ours = {.sa_handler = end_tidily};
    sigemptyset(&ours.sa_mask);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        if (sigaction(ending[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL) sigaction(ending[i], &ours, NULL);
    signal(SIGXFSZ, SIG_IGN);
}

void outfile_reserve_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
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

int outfile_write(const char *path, int (*put)(FILE *file, const void *context), const void *context)
{
    outfile out = {0};
    int status = outfile_open(path, &out);
    if (!status) status = put(out.file, context);
    if (!status) status = outfile_keep(&out);
    outfile_drop(&out);
    return status;
}

/* ---- names ---- */

static int is_stream(const char *path)
{
    return strcmp(path, "-") == 0 || strncmp(path, "/dev/std", 8) == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
           strncmp(path, "/proc/self/fd/", 14) == 0;
}

static int find(const char *path, struct stat *s)
{
    return (strcmp(path, "-") == 0 ? fstat(STDOUT_FILENO, s) : stat(path, s)) == 0;
}

/* The path with all links resolved that a file in an existing folder would get; realpath knows it of files that do
   not exist yet, too. */
static int goes_to(const char *path, char buffer[static PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    snprintf(buffer, PATH_MAX, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    return access(buffer, F_OK) == 0 && (realpath(path, buffer) || errno == ENOENT);
}

/* Files that exist are compared by device and inode, others by their folder and name with all links resolved. */
int outfile_same(const char *a, const char *b)
{
    struct stat x, y;
    char buffer_a[PATH_MAX], buffer_b[PATH_MAX];
    int found_x = find(a, &x), found_y = find(b, &y);
    if (found_x && found_y) {
        int device = S_ISCHR(x.st_mode) && !(is_stream(a) && is_stream(b));
        return !device && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    }
    if (strcmp(a, b) == 0) return 1;
    return !found_x && !found_y && goes_to(a, buffer_a) && goes_to(b, buffer_b) && strcmp(buffer_a, buffer_b) == 0;
}

int outfiles_distinct(const outfile_wish *all, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; all[i].path && j < i; j++)
            if (all[j].path && outfile_same(all[i].path, all[j].path))
                return complain(CLI_USAGE, "%s: '%s' is %s's file as well", all[i].option, all[i].path, all[j].option);
    return CLI_GOOD;
}
