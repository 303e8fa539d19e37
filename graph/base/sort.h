/* sort.h: the one way to sort and the one way to search. For the sources of this project; not installed. */
#ifndef HGA_SORT_H
#define HGA_SORT_H

#include <stdint.h>

/* SORT_DEFINE(sort_cells, cell, cell_before) defines `static void sort_cells(cell *x, int64_t n)`, ascending by `static
   int cell_before(const cell *, const cell *)`. That must be a total order: two items of which neither comes before the
   other must be indistinguishable, so that equal inputs give equal bits on every machine. Shell's sort with Tokuda's
   gaps: in place, without allocation or recursion, one look at what is sorted already. */
#define SORT_DEFINE(name, type, before)                                                           \
    static void name(type *x, int64_t n)                                                          \
    {                                                                                             \
        int64_t gap = 1, sorted = 1;                                                              \
        while (sorted < n && !before(&x[sorted], &x[sorted - 1])) sorted++;                       \
        if (sorted >= n) return;                                                                  \
        while (gap < n / 3) gap = gap * 9 / 4 + 1;                                                \
        for (; gap > 0; gap = gap * 4 / 9)                                                        \
            for (int64_t i = gap; i < n; i++) {                                                   \
                type moved = x[i];                                                                \
                int64_t at = i;                                                                   \
                for (; at >= gap && before(&moved, &x[at - gap]); at -= gap) x[at] = x[at - gap]; \
                x[at] = moved;                                                                    \
            }                                                                                     \
    }

/* The first i of [first, end) for which `holds`, and `end` without one; it must hold for all that follow one for which
   it does. */
static inline int64_t search_first(int64_t first, int64_t end, int (*holds)(const void *context, int64_t i),
                                   const void *context)
{
    while (first < end) {
        int64_t middle = first + (end - first) / 2;
        if (holds(context, middle))
            end = middle;
        else
            first = middle + 1;
    }
    return first;
}

#endif
