/* base.c: allocation with checked sizes. */
#define _DEFAULT_SOURCE /* madvise */
#include "hga_base.h"
#include "interrupt.h"
#include "written.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LINE = 64, HUGE_PAGE = 1 << 21 };

/* Large allocations ask for huge pages, without which every random row access begins with a walk through the page
   tables. */
static void *take_aligned(size_t bytes)
{
    void *p = NULL;
    int large = bytes >= 2 * (size_t)HUGE_PAGE;
    if (posix_memalign(&p, large ? HUGE_PAGE : LINE, bytes)) return NULL;
#ifdef MADV_HUGEPAGE
    if (large) madvise(p, bytes, MADV_HUGEPAGE); /* a hint: where it is not granted, small pages do */
#endif
    return p;
}

static void *take_memory(const hga_allocator *a, size_t bytes)
{
    return a && a->allocate ? a->allocate(bytes, a->context) : take_aligned(bytes);
}

#ifdef WRITTEN_IS_SEEN
/* Packages write unseen by the sanitizer. So memory of malloc counts as written, memory of hga_new does not, and
   arguments of the C library's functions are not checked, as packages call them, too. Our own code is checked where it
   is compiled, and what it writes to files in write.c. */
const char *__msan_default_options(void) { return "poison_in_malloc=0:poison_in_free=0"; }
static void count_as_written(const volatile void *p, size_t bytes) { __msan_unpoison(p, bytes); }
static void pass(const volatile void *p) { (void)p; }
__attribute__((constructor)) static void trust_packages(void)
{
    __msan_scoped_disable_interceptor_checks();
    __sanitizer_install_malloc_and_free_hooks(count_as_written, pass);
}
#endif

hga_status hga_new(const hga_allocator *a, int64_t n, size_t size, void *out)
{
    void *p = NULL;
    memcpy(out, &p, sizeof p);
    if (n < 0 || (size && (uint64_t)n > (uint64_t)(PTRDIFF_MAX - 64) / size))
        return hga_fail(HGA_EOVERFLOW, "%lld elements of %zu bytes do not fit the address space", (long long)n, size);
    size_t bytes = (size_t)n * size;
    if (bytes == 0) return HGA_OK;
    hga_status st = interrupted();
    if (st) return st;
    p = take_memory(a, bytes);
    if (!p) return hga_fail(HGA_ENOMEM, "cannot allocate %zu bytes", bytes);
    memory_is_unwritten(p, bytes);
    memcpy(out, &p, sizeof p);
    return HGA_OK;
}

enum { AT_ONCE = 1 << 26 }; /* bytes written between two checks for an interrupt */

hga_status hga_new_zero(const hga_allocator *a, int64_t n, size_t size, void *out)
{
    hga_status st = hga_new(a, n, size, out);
    char *p;
    memcpy(&p, out, sizeof p);
    size_t bytes = p ? (size_t)n * size : 0;
    for (size_t at = 0; at < bytes && !st; at += AT_ONCE, st = at < bytes ? interrupted() : HGA_OK)
        memset(p + at, 0, bytes - at < AT_ONCE ? bytes - at : AT_ONCE);
    if (!st || !p) return st;
    hga_delete(a, p, n, size);
    p = NULL;
    memcpy(out, &p, sizeof p);
    return st;
}

void hga_delete(const hga_allocator *a, void *memory, int64_t n, size_t size)
{
    if (!memory) return;
    if (a && a->release)
        a->release(memory, (size_t)n * size, a->context);
    else
        free(memory);
}

hga_status hga_check_reserved(const char *what, const void *words, size_t bytes)
{
    const unsigned char *byte = words;
    for (size_t i = 0; i < bytes; i++)
        if (byte[i])
            return hga_fail(
                HGA_EINVAL,
                "%s: byte %zu of its reserved words is %d, not 0: start from a zeroed struct or its defaults", what, i,
                byte[i]);
    return HGA_OK;
}

hga_status hga_grow(const hga_allocator *a, void *array, int64_t *capacity, int64_t used, int64_t n, size_t size)
{
    if (n <= *capacity) return HGA_OK;
    int64_t grown = *capacity + *capacity / 2 + 8;
    if (grown < n) grown = n;
    char *old, *fresh;
    hga_status st = hga_new(a, grown, size, &fresh);
    memcpy(&old, array, sizeof old);
    for (size_t at = 0, bytes = (size_t)used * size; at < bytes && !st; at += AT_ONCE, st = interrupted())
        memcpy(fresh + at, old + at, bytes - at < AT_ONCE ? bytes - at : AT_ONCE);
    hga_delete(a, st ? fresh : old, st ? grown : *capacity, size);
    if (st) return st;
    memcpy(array, &fresh, sizeof fresh);
    *capacity = grown;
    return HGA_OK;
}
