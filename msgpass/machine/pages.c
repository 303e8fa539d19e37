/* pages.c: malloc reuses freed memory, on pages that some thread touched long ago; and its header, or a huge page,
   places adjacent pages, too. So where first touch matters, memory comes directly from the system. */
#define _DEFAULT_SOURCE /* madvise */
#include "pages.h"

#include <stdint.h>
#include <sys/mman.h>

/* Huge pages save walks through the page tables, and are placed in one domain whole: worth it where there are many. */
enum { SMALL_PAGE = 1 << 12, HUGE_PAGE = 1 << 21, HUGE_WORTH = 1 << 28 };

int64_t pages_grain(int64_t bytes) { return bytes < HUGE_WORTH ? SMALL_PAGE : HUGE_PAGE; }

static size_t rounded(size_t bytes)
{
    size_t grain = bytes < HUGE_WORTH ? SMALL_PAGE : HUGE_PAGE;
    return (bytes + grain - 1) / grain * grain;
}

static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Maps from one huge page to another, and unmaps what is before and after. */
static void *map_huge(size_t bytes)
{
    char *p = map(bytes + HUGE_PAGE);
    if (!p) return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (before) munmap(p, before);
    munmap(p + before + bytes, HUGE_PAGE - before);
#ifdef MADV_HUGEPAGE
    madvise(p + before, bytes, MADV_HUGEPAGE); /* a hint */
#endif
    return p + before;
}

/* Large blocks get huge pages; smaller ones are advised against them. */
static void *take_pages(size_t bytes, void *context)
{
    (void)context;
    if (bytes > SIZE_MAX - 2 * HUGE_PAGE) return NULL;
    if (bytes >= HUGE_WORTH) return map_huge(rounded(bytes));
    void *p = map(rounded(bytes));
#ifdef MADV_NOHUGEPAGE
    if (p) madvise(p, rounded(bytes), MADV_NOHUGEPAGE);
#endif
    return p;
}

static void give_pages_back(void *memory, size_t bytes, void *context)
{
    (void)context;
    munmap(memory, rounded(bytes));
}

int64_t pages_huge_bytes(void) { return HUGE_PAGE; }

void *pages_take_huge(void) { return map_huge(HUGE_PAGE); }

void pages_give_huge(void *page) { munmap(page, HUGE_PAGE); }

hga_allocator pages_fresh(void) { return (hga_allocator){.allocate = take_pages, .release = give_pages_back}; }
