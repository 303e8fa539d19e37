/* outfile.c: the library's files, complained about, and what is tidied up when a signal ends the tool. */
#include "outfile.h"

#include <fcntl.h>
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

/* ---- names ---- */

/* The name at the end of a chain of symbolic links, whether a file has it or not; `room` has HGA_PATH_BYTES. */
static const char *follow_links(const char *path, char *room)
{
    char next[HGA_PATH_BYTES];
    enum { MOST_LINKS = 40 };
    snprintf(room, HGA_PATH_BYTES, "%s", path);
    for (int i = 0; i < MOST_LINKS; i++) {
        ssize_t n = readlink(room, next, sizeof next - 1);
        if (n < 0) break;
        const char *slash = strrchr(room, '/');
        size_t folder = next[0] == '/' || !slash ? 0 : (size_t)(slash - room) + 1;
        if (folder + (size_t)n >= HGA_PATH_BYTES) break;
        memcpy(room + folder, next, (size_t)n);
        room[folder + (size_t)n] = 0;
    }
    return room;
}

/* The folder of a path as the system knows it, and the name within it. */
static const char *split(const char *path, struct stat *folder, int *found)
{
    const char *slash = strrchr(path, '/');
    char *name = slash ? strndup(path, (size_t)(slash - path) + 1) : NULL;
    *found = slash && !name ? 0 : stat(name ? name : ".", folder) == 0;
    free(name);
    return slash ? slash + 1 : path;
}

static int is_stream(const char *path)
{
    return strcmp(path, "-") == 0 || strncmp(path, "/dev/std", 8) == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
           strncmp(path, "/proc/self/fd/", 14) == 0;
}

static int find(const char *path, struct stat *s)
{
    return (strcmp(path, "-") == 0 ? fstat(STDOUT_FILENO, s) : stat(path, s)) == 0;
}

/* Files that exist are compared by device and inode, others by their folder and name behind all links. */
int outfile_same(const char *a, const char *b)
{
    struct stat x, y;
    int found_x = find(a, &x), found_y = find(b, &y);
    if (found_x && found_y) {
        int device = S_ISCHR(x.st_mode) && !(is_stream(a) && is_stream(b));
        return !device && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    }
    if (strcmp(a, b) == 0) return 1;
    if (found_x || found_y) return 0;
    char room_a[HGA_PATH_BYTES], room_b[HGA_PATH_BYTES];
    const char *name_a = split(follow_links(a, room_a), &x, &found_x);
    const char *name_b = split(follow_links(b, room_b), &y, &found_y);
    return found_x && found_y && strcmp(name_a, name_b) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int outfiles_apart(const outfile_wish *all, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; all[i].path && j < i; j++)
            if (all[j].path && outfile_same(all[i].path, all[j].path))
                return complain(CLI_USAGE, "%s: '%s' is %s's file as well", all[i].option, all[i].path, all[j].option);
    return CLI_GOOD;
}
