/* names.h: which of many records has a name. For the sources of this project; not installed. */
#ifndef NAMES_H
#define NAMES_H

#include "hga_base.h"

/* A hash table of the records' numbers; zeroed, it is empty. */
typedef struct name_index {
    int32_t *slot; /* [n_slots], a power of two; -1 empty */
    int64_t n_slots, n;
} name_index;

/* The name of a record. */
typedef const char *(*name_of)(const void *records, int64_t i);

/* The number of the record of that name, -1 without. */
int32_t names_find(const name_index *x, const void *records, name_of of, const char *name);
/* Note record number x->n, whose name must be new. */
hga_status names_add(const hga_allocator *a, name_index *x, const void *records, name_of of);
/* Frees the table, which is empty then. */
void names_clear(const hga_allocator *a, name_index *x);

#endif
