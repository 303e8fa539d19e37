/* no_tmpfile.c: preloaded, it takes files without a name away, as file systems do that have none (NFS, FAT). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/types.h>

__attribute__((visibility("default"))) int open(const char *path, int flags, ...);
__attribute__((visibility("default"))) int open64(const char *path, int flags, ...);

static int forward(const char *name, const char *path, int flags, mode_t mode)
{
    int (*next)(const char *, int, ...);
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(&next, &found, sizeof next);
    if ((flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return next(path, flags, mode);
}

static mode_t mode_of(int flags, va_list rest) { return flags & O_CREAT ? (mode_t)va_arg(rest, int) : 0; }

int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = mode_of(flags, rest);
    va_end(rest);
    return forward("open", path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = mode_of(flags, rest);
    va_end(rest);
    return forward("open64", path, flags, mode);
}
