/* window_visits.c: which rows have which window of columns. */
#include "window_visits.h"

#include <string.h>

static int is_touched(const window_visits *x, hga_id window)
{
    return (int)(x->touched[window / 64] >> window % 64 & 1);
}

window_visit *visits_last(window_visits *x, hga_id window)
{
    return is_touched(x, window) ? &x->visit[x->last[window]] : NULL;
}

void visits_add(window_visits *x, hga_id window, window_visit visit)
{
    if (is_touched(x, window))
        x->visit[x->last[window]].next = x->n;
    else
        x->first[window] = x->n, x->touched[window / 64] |= UINT64_C(1) << window % 64;
    visit.next = -1, x->visit[x->n] = visit;
    x->last[window] = x->n++;
}

hga_id visits_next(const window_visits *x, hga_id window)
{
    for (hga_id word = window / 64; word < x->words; word++) {
        uint64_t bits = x->touched[word];
        if (word == window / 64) bits = bits >> window % 64 << window % 64;
        if (bits) return word * 64 + __builtin_ctzll(bits);
    }
    return -1;
}

void visits_forget(window_visits *x)
{
    memset(x->touched, 0, (size_t)x->words * sizeof *x->touched);
    x->n = 0;
}

/* Computes which of n rows have each column; the part covers the columns that some row has, from a multiple of
   SUM_ACCUMULATORS on. */
window_part visits_trim(const uint64_t *columns, hga_id n, lane_mask *rows)
{
    const lane_mask whole = (lane_mask)(UINT32_MAX >> (32 - n));
    uint64_t some = 0, all = UINT64_MAX;
    window_part part;
    for (hga_id r = 0; r < n; r++) some |= columns[r], all &= columns[r];
    part.first = __builtin_ctzll(some) / SUM_ACCUMULATORS * SUM_ACCUMULATORS,
    part.last = KERNEL_CHUNK - __builtin_clzll(some);
    part.full = some == all && __builtin_popcountll(some) == part.last - part.first;
    for (hga_id e = 0; e < KERNEL_CHUNK; e++) rows[e] = all >> e & 1 ? whole : 0;
    for (uint64_t left = some & ~all; left; left &= left - 1) {
        const int e = __builtin_ctzll(left);
        for (hga_id r = 0; r < n; r++) rows[e] = (lane_mask)(rows[e] | (columns[r] >> e & 1) << r);
    }
    return part;
}
