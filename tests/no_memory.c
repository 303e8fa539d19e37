/* no_memory.c: preloaded, it lets each allocation fail in turn, from whatever library: HGA_NO_MEMORY is "FILE MOST".
   Where FILE is opened for reading the process forks, again and again: of the N-th child's allocations after it has
   opened it the N-th fails. Its output goes to stdout.N and stderr.N; the file told.N is made when there were as many,
   and status.N says how it ended. The first without told.N is the last, and then the process, which has waited for all,
   ends. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOR_ALL __attribute__((visibility("default")))

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

FOR_ALL FILE *fopen(const char *path, const char *mode);
FOR_ALL FILE *fopen64(const char *path, const char *mode);

static char file[256];
static long most, turn, left; /* turn: whose process this is; left: until the allocation that fails */

__attribute__((constructor)) static void read_wish(void)
{
    const char *wish = getenv("HGA_NO_MEMORY");
    if (wish && sscanf(wish, "%255s %ld", file, &most) != 2) most = 0;
}

static const char *of_turn(const char *name)
{
    static char path[64];
    snprintf(path, sizeof path, "%s.%ld", name, turn);
    return path;
}

static int fails(void)
{
    if (!turn || __atomic_sub_fetch(&left, 1, __ATOMIC_RELAXED) != 0) return 0;
    close(open(of_turn("told"), O_CREAT | O_WRONLY, 0600));
    errno = ENOMEM;
    return 1;
}

static void send_to(int stream, const char *name)
{
    int to = open(of_turn(name), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(to, stream), close(to);
}

/* Returns in the children. */
static void take_turns(void)
{
    for (turn = 1; turn < most; turn++) {
        pid_t child = fork();
        if (child == 0) {
            send_to(1, "stdout"), send_to(2, "stderr");
            return;
        }
        int status = -1, to = open(of_turn("status"), O_CREAT | O_WRONLY, 0600);
        waitpid(child, &status, 0);
        dprintf(to, "%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
        close(to);
        if (access(of_turn("told"), F_OK) != 0) break;
    }
    _exit(0);
}

static FILE *forward(const char *name, const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *);
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(&next, &found, sizeof next);
    int begins = most && !turn && strcmp(path, file) == 0;
    if (begins) take_turns();
    FILE *opened = next(path, mode);
    if (begins) left = turn;
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
