/* fuses.h: runs a function that makes something with its first allocation failing, then its second, and so on until
   it succeeds. Each time it must return HGA_ENOMEM, give NULL and leave no block allocated. Once with the caller's
   allocator, once with malloc itself, which the packages use inside. One program includes this in one file. */
#ifndef HGA_FUSES_H
#define HGA_FUSES_H

#include <errno.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <hga.h>

#include "instruments.h"

/* ---- a fuse: the n-th allocation fails ---- */

/* `left` allocations until the one that fails, 0 when none will; what is taken and not given back. Threads of one call
   share a fuse. */
typedef struct fuse {
    _Atomic long left, blocks;
    _Atomic long long bytes;
    _Atomic int blown;
} fuse;

static inline int blow(fuse *f)
{
    long left = f->left;
    while (left && !atomic_compare_exchange_weak(&f->left, &left, left - 1)) continue;
    if (left == 1) f->blown = 1;
    return left == 1;
}

/* The size is stored before the block, so that release can check it. */
enum { FRONT = 64 };

static inline void *fused_allocate(size_t bytes, void *context)
{
    fuse *f = context;
    void *p = NULL;
    if (blow(f) || posix_memalign(&p, FRONT, bytes + FRONT)) return NULL;
    memcpy(p, &bytes, sizeof bytes);
    f->blocks++;
    f->bytes += (long long)bytes;
    return (char *)p + FRONT;
}

static inline void fused_release(void *memory, size_t bytes, void *context)
{
    fuse *f = context;
    size_t taken;
    memcpy(&taken, (char *)memory - FRONT, sizeof taken);
    assert_int_equal(taken, bytes);
    f->blocks--;
    f->bytes -= (long long)bytes;
    free((char *)memory - FRONT);
}

static fuse lent;
static const hga_allocator fused = {fused_allocate, fused_release, &lent};

/* ---- the same for malloc ---- */
/* this program's is taken before the C library's. Sanitisers bring their own, so not with them. */

static _Thread_local fuse libc;
static _Thread_local int watching;

#if defined(__GLIBC__) && !defined(IS_SANITIZED)
enum { MALLOC_IS_OURS = 1 };
/* seen by the shared libraries, in a program whose symbols are hidden */
#define FOR_ALL __attribute__((visibility("default")))
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

static inline void *refuse(void)
{
    errno = ENOMEM;
    return NULL;
}

static inline void *counted(void *p)
{
    if (watching && p) libc.blocks++;
    return p;
}

FOR_ALL void *malloc(size_t bytes) { return watching && blow(&libc) ? refuse() : counted(__libc_malloc(bytes)); }

FOR_ALL void *calloc(size_t n, size_t bytes)
{
    return watching && blow(&libc) ? refuse() : counted(__libc_calloc(n, bytes));
}

FOR_ALL void *realloc(void *old, size_t bytes)
{
    if (watching && blow(&libc)) return refuse();
    return old ? __libc_realloc(old, bytes) : counted(__libc_realloc(old, bytes));
}

FOR_ALL int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    if (watching && blow(&libc)) return ENOMEM;
    *out = counted(__libc_memalign(alignment, bytes));
    return *out ? 0 : ENOMEM;
}

FOR_ALL void *aligned_alloc(size_t alignment, size_t bytes)
{
    return watching && blow(&libc) ? refuse() : counted(__libc_memalign(alignment, bytes));
}

FOR_ALL void free(void *memory)
{
    if (watching && memory) libc.blocks--;
    __libc_free(memory);
}
#else
enum { MALLOC_IS_OURS = 0 };
#endif

/* ---- what is tried ---- */

/* Makes one thing with allocator `a`, checks that a failure gives NULL, and frees everything. */
typedef hga_status (*attempt)(const hga_allocator *a);

/* What is wrong after an attempt; NULL: nothing. Only we call a caller's allocator, so success in spite of it has
   hidden a failure. Packages that can do without also call malloc: stdio reads without its buffer. */
static inline const char *fault(const fuse *f, long blocks, long long bytes, hga_status st, int leaks)
{
    if (!leaks && (f->blocks != blocks || f->bytes != bytes)) return "memory is not given back";
    if (!f->blown) return st ? "no allocation failed" : NULL;
    if (st == HGA_OK && f == &lent) return "the failure is hidden";
    if (st != HGA_OK && st != HGA_ENOMEM) return "the status is another";
    return *hga_error_detail() ? NULL : "the detail is empty";
}

/* Fails the n-th allocation, for every n until there are not so many. `leaks`: the package inside leaks by itself. */
static inline void fail_each(fuse *f, const hga_allocator *a, attempt make, int leaks)
{
    int n_faults = 0;
    long n = 0;
    do {
        long blocks = f->blocks;
        long long bytes = f->bytes;
        f->blown = 0;
        f->left = ++n;
        watching = f == &libc;
        hga_status st = make(a);
        watching = 0;
        f->left = 0;
        const char *what = fault(f, blocks, bytes, st, leaks);
        if (!what) continue;
        n_faults++;
        print_error("allocation %ld fails: %s; %s, %s; %+ld blocks\n", n, what, hga_status_name(st), hga_error_detail(),
                    f->blocks - blocks);
    } while (f->blown && n_faults < 10);
    assert_int_equal(n_faults, 0);
    assert_true(n > 1);
}

static inline void every_allocation(attempt make) { fail_each(&lent, &fused, make, 0); }

/* The packages allocate some things for good at their first use, so runs it once beforehand. */
static inline void every_malloc(attempt make, int leaks)
{
    if (!MALLOC_IS_OURS) skip();
    assert_int_equal(make(NULL), HGA_OK);
    fail_each(&libc, NULL, make, leaks);
}

/* A graph pointer before an attempt; neither valid nor NULL. */
#define NOWHERE ((void *)(uintptr_t)64)

static inline hga_status settle(hga_status st, hga_graph **g)
{
    if (st && *g) fail_msg("%s, and yet a graph", hga_status_name(st));
    hga_graph_destroy(*g);
    return st;
}

#define BY_ALLOCATOR(what)                                                     \
    static void every_failing_allocation_of_##what##_is_reported(void **state) \
    {                                                                          \
        (void)state;                                                           \
        every_allocation(make_##what);                                         \
    }
#define BY_MALLOC(what)                                                    \
    static void every_failing_malloc_of_##what##_is_reported(void **state) \
    {                                                                      \
        (void)state;                                                       \
        every_malloc(make_##what, 0);                                      \
    }

#define ALLOCATOR_ROW(what) cmocka_unit_test(every_failing_allocation_of_##what##_is_reported),
#define MALLOC_ROW(what)    cmocka_unit_test(every_failing_malloc_of_##what##_is_reported),

#endif
