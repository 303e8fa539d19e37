/* retain.c: released blocks are kept in lists by size class, four classes to a power of two: a block serves any size of
   its class. */
#include "retain.h"

enum { CLASSES = 4 * 64, GRAIN = 64 };

/* Header of an idle block. */
typedef struct block {
    struct block *next;
    int64_t bytes;
} block;

struct retained {
    hga_allocator from;
    int keeps;
    int64_t bytes;
    block *idle[CLASSES];
};

/* The class of a size, and the largest size of that class. */
static int class_of(size_t bytes, size_t *largest)
{
    size_t step = GRAIN;
    int octave = 0;
    while (bytes > 8 * step && step < SIZE_MAX / 32) step *= 2, octave++;
    size_t steps = (bytes + step - 1) / step; /* 1 to 8 in the first octave, 5 to 8 in the others */
    *largest = steps * step;
    return 4 * octave + (int)steps - 1;
}

/* Allocates a block of the size's class: an idle one where there is one. */
static void *take_block(size_t bytes, void *context)
{
    retained *r = context;
    size_t largest;
    int class = class_of(bytes, &largest);
    block *b = r->idle[class];
    if (b) {
        r->idle[class] = b->next;
        return b;
    }
    if (hga_new(&r->from, (int64_t)largest, 1, &b)) return NULL;
    r->bytes += (int64_t)largest;
    return b;
}

/* Releases a block, or with `keeps` adds it to its class's idle list. */
static void give_block_back(void *memory, size_t bytes, void *context)
{
    retained *r = context;
    size_t largest;
    int class = class_of(bytes, &largest);
    if (r->keeps) {
        block *b = memory;
        *b = (block){r->idle[class], (int64_t)largest};
        r->idle[class] = b;
        return;
    }
    r->bytes -= (int64_t)largest;
    hga_delete(&r->from, memory, (int64_t)largest, 1);
}

hga_status retained_create(const hga_allocator *from, retained **out)
{
    hga_status st = hga_new_zero(from, 1, sizeof **out, out);
    if (st) return st;
    if (from) (*out)->from = *from;
    return HGA_OK;
}

/* Frees the idle blocks; blocks in use must have been released. */
void retained_destroy(retained *r)
{
    if (!r) return;
    for (int class = 0; class < CLASSES; class ++)
        for (block *b = r->idle[class], *next; b; b = next) {
            next = b->next;
            hga_delete(&r->from, b, b->bytes, 1);
        }
    hga_allocator from = r->from;
    hga_delete(&from, r, 1, sizeof *r);
}

hga_allocator retained_allocator(retained *r)
{
    return (hga_allocator){.allocate = take_block, .release = give_block_back, .context = r};
}

void retained_keep(retained *r) { r->keeps = 1; }

int64_t retained_bytes(const retained *r) { return (int64_t)sizeof *r + r->bytes; }
