/* file.c: files that appear whole or not at all. */
#define _GNU_SOURCE /* O_TMPFILE */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static hga_status cannot(const char *what, const hga_file *f, int error)
{
    return hga_fail(HGA_EIO, "cannot %s %s: %s", what, f->path, strerror(error));
}

/* ---- temporary names, where a signal handler finds them ---- */

enum { MOST_TEMPORARIES = 64, MOST_LINKS = 40, MOST_ATTEMPTS = 10000 };

/* One list for the process: a signal handler unlinks the names. */
static const char *temporaries[MOST_TEMPORARIES];

/* Called before the file is made, so that at no moment a signal misses a file. */
static void remember(hga_file *f)
{
    for (int i = 0; i < MOST_TEMPORARIES; i++) {
        const char *none = NULL;
        if (!__atomic_compare_exchange_n(&temporaries[i], &none, f->temporary, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            continue;
        f->slot = i + 1;
        return;
    }
}

static void forget(hga_file *f)
{
    if (f->slot) __atomic_store_n(&temporaries[f->slot - 1], NULL, __ATOMIC_SEQ_CST);
    f->slot = 0;
    f->temporary[0] = 0;
}

void hga_files_abandon(void)
{
    for (int i = 0; i < MOST_TEMPORARIES; i++) {
        const char *name = __atomic_load_n(&temporaries[i], __ATOMIC_SEQ_CST);
        if (name) unlink(name);
    }
}

/* ---- where the file goes ---- */

static int folder_bytes(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash - path) + 1 : 0;
}

/* The name at the end of a chain of symbolic links, whether a file has it or not yet. */
static int follow_links(hga_file *f)
{
    char next[HGA_PATH_BYTES];
    for (int i = 0; i < MOST_LINKS; i++) {
        ssize_t n = readlink(f->target, next, sizeof next);
        if (n < 0) return 0;
        int folder = next[0] == '/' ? 0 : folder_bytes(f->target);
        if ((size_t)folder + (size_t)n >= sizeof f->target) return ENAMETOOLONG;
        memcpy(f->target + folder, next, (size_t)n);
        f->target[folder + n] = 0;
    }
    return ELOOP;
}

/* ---- opening ---- */

/* The descriptor that a path is a name of, such as /dev/stdout or /dev/fd/3; else -1. */
static int descriptor_named(const char *path)
{
    static const char *const folders[] = {"/proc/self/fd/", "/dev/fd/"};
    char target[64];
    ssize_t n = strncmp(path, "/dev/std", 8) == 0 ? readlink(path, target, sizeof target - 1) : 0;
    if (n > 0) target[n] = 0, path = target;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *number = path + strlen(folders[i]);
        if (strncmp(path, folders[i], strlen(folders[i])) != 0 || !*number || strlen(number) > 9) continue;
        if (strspn(number, "0123456789") == strlen(number)) return atoi(number);
    }
    return -1;
}

/* Continues at the descriptor's offset: opening the name anew would begin at the front. */
static hga_status open_descriptor(hga_file *f, int descriptor)
{
    int fd = dup(descriptor);
    f->in_place = 1;
    f->stream = fd < 0 ? NULL : fdopen(fd, "wb");
    if (f->stream) return HGA_OK;
    int error = errno;
    if (fd >= 0) close(fd);
    return cannot("write", f, error);
}

/* A file without a name in the target's folder, or -1. It can get a name only through /proc. */
static int open_nameless(const hga_file *f)
{
    char folder[HGA_PATH_BYTES] = ".", link[64];
    int n = folder_bytes(f->target);
    struct stat s;
    if (n) memcpy(folder, f->target, (size_t)n), folder[n] = 0;
    int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (fd < 0) return -1;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (lstat(link, &s) == 0) return fd;
    close(fd);
    return -1;
}

/* Makes a file beside the target under an unused name; `make` fails with EEXIST where the name is used. */
static int make_beside(hga_file *f, int (*make)(const hga_file *f, int fd), int fd)
{
    for (int attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
        int length = snprintf(f->temporary, sizeof f->temporary, "%.*s.hga-%ld-%d.tmp", folder_bytes(f->target),
                              f->target, (long)getpid(), attempt);
        errno = ENAMETOOLONG;
        if (length < 0 || (size_t)length >= sizeof f->temporary) break;
        remember(f);
        int made = make(f, fd);
        if (made >= 0) return made;
        int error = errno;
        forget(f);
        errno = error;
        if (error != EEXIST) return -1;
    }
    f->temporary[0] = 0;
    return -1;
}

static int create_temporary(const hga_file *f, int fd)
{
    (void)fd;
    return open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

/* Opens a file beside the target, which gets the target's name in hga_file_keep, and the permissions of the file that
   it replaces. */
static hga_status open_new(hga_file *f, const struct stat *there)
{
    int fd = open_nameless(f);
    if (fd < 0) fd = make_beside(f, create_temporary, -1);
    if (fd < 0) return cannot("write", f, errno);
    if (there) (void)!fchmod(fd, there->st_mode & 07777);
    f->stream = fdopen(fd, "wb");
    if (f->stream) return HGA_OK;
    close(fd);
    hga_file_drop(f);
    return hga_fail(HGA_ENOMEM, "cannot allocate a stream for %s", f->path);
}

hga_status hga_file_open(hga_file *f, const char *path)
{
    struct stat there;
    f->stream = NULL, f->in_place = f->slot = 0, f->path[0] = f->target[0] = f->temporary[0] = 0;
    if (!path || !*path) return hga_fail(HGA_EINVAL, "the name of the file to write is empty");
    if (strlen(path) >= sizeof f->path)
        return hga_fail(HGA_EIO, "cannot write %.64s..: %s", path, strerror(ENAMETOOLONG));
    memcpy(f->path, path, strlen(path) + 1);
    if (strcmp(path, "-") == 0) {
        f->stream = stdout, f->in_place = 1;
        memcpy(f->path, "standard output", sizeof "standard output");
        return HGA_OK;
    }
    int descriptor = descriptor_named(path);
    if (descriptor >= 0) return open_descriptor(f, descriptor);
    int exists = stat(path, &there) == 0;
    if (exists && !S_ISREG(there.st_mode)) {
        f->in_place = 1;
        f->stream = fopen(path, "wb");
        return f->stream ? HGA_OK : cannot("write", f, errno);
    }
    memcpy(f->target, path, strlen(path) + 1);
    int error = follow_links(f);
    return error ? cannot("write", f, error) : open_new(f, exists ? &there : NULL);
}

/* ---- keeping ---- */

/* The errno of a stream that only knows that writing failed: found by writing one more byte to a file that is dropped,
   or none where what is written stays. */
static int why_written_badly(const hga_file *f)
{
    return write(fileno(f->stream), "", f->in_place ? 0 : 1) < 0 ? errno : EIO;
}

hga_status hga_file_flush(hga_file *f)
{
    errno = 0;
    if (fflush(f->stream) == 0 && !ferror(f->stream)) return HGA_OK;
    return cannot("write", f, errno ? errno : why_written_badly(f));
}

static int link_to(const char *name, int fd)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, link, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

static int link_beside(const hga_file *f, int fd) { return link_to(f->temporary, fd); }

hga_status hga_file_share(hga_file *f)
{
    if (!f->stream || f->in_place)
        return hga_fail(HGA_EINVAL, "%s cannot be shared: it is written as it comes", f->path);
    if (f->temporary[0] || make_beside(f, link_beside, fileno(f->stream)) == 0) return HGA_OK;
    return cannot("share", f, errno);
}

/* Gives a nameless file the target's name; where a file has it already, through a temporary name. 0, or errno. */
static int give_name(hga_file *f, int fd)
{
    if (!f->temporary[0]) {
        if (link_to(f->target, fd) == 0) return 0;
        if (errno != EEXIST || make_beside(f, link_beside, fd) != 0) return errno;
    }
    if (rename(f->temporary, f->target) != 0) return errno;
    forget(f);
    return 0;
}

/* Closes the stream but not the file, so that errors of closing come before the file gets a name. */
static hga_status close_stream(hga_file *f, int *fd)
{
    *fd = dup(fileno(f->stream));
    int error = *fd < 0 ? errno : 0;
    if (fclose(f->stream) != 0 && !error) error = errno;
    f->stream = NULL;
    return error ? cannot("write", f, error) : HGA_OK;
}

hga_status hga_file_keep(hga_file *f)
{
    int fd = -1;
    if (!f->stream) return HGA_OK;
    hga_status st = hga_file_flush(f);
    if (!st && f->stream != stdout) st = close_stream(f, &fd);
    int error = st || f->in_place ? 0 : give_name(f, fd);
    if (error) st = cannot("write", f, error);
    if (fd >= 0) close(fd);
    hga_file_drop(f);
    return st;
}

void hga_file_drop(hga_file *f)
{
    if (f->stream && f->stream != stdout) fclose(f->stream);
    f->stream = NULL;
    if (f->temporary[0]) unlink(f->temporary);
    forget(f);
}
