/* no_memory.c: preloaded, it lets one allocation fail: HGA_NO_MEMORY is "FILE N TOLD", and of the allocations after
   FILE was opened for reading it is the N-th, from whatever library. TOLD is then made, for who wants to know that
   there were as many. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOR_ALL __attribute__((visibility("default")))

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

FOR_ALL FILE *fopen(const char *path, const char *mode);
FOR_ALL FILE *fopen64(const char *path, const char *mode);

static char file[256], told[256];
static long left; /* until the one that fails */
static int armed;

__attribute__((constructor)) static void read_wish(void)
{
    const char *wish = getenv("HGA_NO_MEMORY");
    if (wish && sscanf(wish, "%255s %ld %255s", file, &left, told) != 3) left = 0;
}

static int fails(void)
{
    if (!armed || __atomic_sub_fetch(&left, 1, __ATOMIC_RELAXED) != 0) return 0;
    close(open(told, O_CREAT | O_WRONLY, 0600));
    errno = ENOMEM;
    return 1;
}

static FILE *forward(const char *name, const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *);
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(&next, &found, sizeof next);
    FILE *opened = next(path, mode);
    armed |= left > 0 && strcmp(path, file) == 0;
    return opened;
}

FILE *fopen(const char *path, const char *mode) { return forward("fopen", path, mode); }
FILE *fopen64(const char *path, const char *mode) { return forward("fopen64", path, mode); }

FOR_ALL void *malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }
FOR_ALL void *calloc(size_t n, size_t bytes) { return fails() ? NULL : __libc_calloc(n, bytes); }
FOR_ALL void *realloc(void *old, size_t bytes) { return fails() ? NULL : __libc_realloc(old, bytes); }
FOR_ALL void *aligned_alloc(size_t alignment, size_t bytes)
{
    return fails() ? NULL : __libc_memalign(alignment, bytes);
}

FOR_ALL int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    if (fails()) return ENOMEM;
    *out = __libc_memalign(alignment, bytes);
    return *out ? 0 : ENOMEM;
}
