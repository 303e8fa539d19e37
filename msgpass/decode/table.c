/* table.c: which pages a cache holds: a hash table with open addressing, whose entries move up when one is removed. */
#include "cache.h"

#include <string.h>

static int64_t home(const page_table *t, uint64_t key)
{
    return (int64_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (t->n_slots - 1);
}
static int64_t after(const page_table *t, int64_t slot) { return (slot + 1) & (t->n_slots - 1); }

page_entry *table_find(const page_table *t, uint64_t key)
{
    if (!t->n_slots) return NULL;
    for (int64_t s = home(t, key); t->entry[s].key; s = after(t, s))
        if (t->entry[s].key == key) return &t->entry[s];
    return NULL;
}

static page_entry *entry_for(page_table *t, uint64_t key)
{
    int64_t s = home(t, key);
    while (t->entry[s].key) s = after(t, s);
    t->entry[s].key = key;
    return &t->entry[s];
}

/* At most half of the slots are used. */
hga_status table_reserve(const hga_allocator *a, page_table *t, int64_t n)
{
    page_table larger = {.n_slots = t->n_slots ? t->n_slots : 16, .n = t->n};
    if (2 * (t->n + n) <= t->n_slots) return HGA_OK;
    while (2 * (t->n + n) > larger.n_slots) larger.n_slots *= 2;
    hga_status st = hga_new_zero(a, larger.n_slots, sizeof *larger.entry, &larger.entry);
    if (st) return st;
    for (int64_t s = 0; s < t->n_slots; s++)
        if (t->entry[s].key) *entry_for(&larger, t->entry[s].key) = t->entry[s];
    table_clear(a, t);
    *t = larger;
    return HGA_OK;
}

page_entry *table_add(page_table *t, uint64_t key)
{
    t->n++;
    return entry_for(t, key);
}

/* Moves later entries into the hole, so that probing still finds them. */
void table_remove(page_table *t, page_entry *e)
{
    int64_t hole = e - t->entry;
    for (int64_t s = after(t, hole); t->entry[s].key; s = after(t, s)) {
        int64_t at = home(t, t->entry[s].key), mask = t->n_slots - 1;
        if (((s - at) & mask) < ((s - hole) & mask)) continue;
        t->entry[hole] = t->entry[s];
        hole = s;
    }
    memset(&t->entry[hole], 0, sizeof t->entry[hole]);
    t->n--;
}

void table_clear(const hga_allocator *a, page_table *t)
{
    hga_delete(a, t->entry, t->n_slots, sizeof *t->entry);
    *t = (page_table){0};
}
