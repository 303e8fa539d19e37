/* names.c: which of many records has a name, by open addressing. */
#include "names.h"

#include <string.h>

/* FNV-1a */
static uint64_t hash_of(const char *name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++) h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return h ^ h >> 32;
}

/* The slot that has the name, or the empty one where it belongs; one slot of two is empty at least. */
static int64_t name_slot(const name_index *x, const void *records, name_of of, const char *name)
{
    int64_t mask = x->n_slots - 1, at = (int64_t)(hash_of(name) & (uint64_t)mask);
    while (x->slot[at] >= 0 && strcmp(of(records, x->slot[at]), name) != 0) at = (at + 1) & mask;
    return at;
}

int32_t names_find(const name_index *x, const void *records, name_of of, const char *name)
{
    return x->n_slots ? x->slot[name_slot(x, records, of, name)] : -1;
}

/* Twice as many slots, and every name in its new one. */
static hga_status widen(const hga_allocator *a, name_index *x, const void *records, name_of of)
{
    name_index wider = {.n_slots = x->n_slots ? 2 * x->n_slots : 16, .n = x->n};
    hga_status st = hga_new(a, wider.n_slots, sizeof *wider.slot, &wider.slot);
    if (st) return st;
    memset(wider.slot, -1, (size_t)wider.n_slots * sizeof *wider.slot);
    for (int64_t i = 0; i < x->n; i++) wider.slot[name_slot(&wider, records, of, of(records, i))] = (int32_t)i;
    names_clear(a, x);
    *x = wider;
    return HGA_OK;
}

hga_status names_add(const hga_allocator *a, name_index *x, const void *records, name_of of)
{
    hga_status st = 2 * (x->n + 1) > x->n_slots ? widen(a, x, records, of) : HGA_OK;
    if (st) return st;
    x->slot[name_slot(x, records, of, of(records, x->n))] = (int32_t)x->n;
    x->n++;
    return HGA_OK;
}

void names_clear(const hga_allocator *a, name_index *x)
{
    hga_delete(a, x->slot, x->n_slots, sizeof *x->slot);
    memset(x, 0, sizeof *x);
}
