/* overlap.h: arrays of the caller's, and whether they share memory. What a call writes must lie apart from what it
   reads, from what else it writes, and from itself. */
#ifndef HGA_PLAN_OVERLAP_H
#define HGA_PLAN_OVERLAP_H

#include "hga_plan.h"

/* Runs of `bytes`, heads of rows, so many bytes apart. */
typedef struct io_array {
    const char *what, *name; /* "the tensor of field", "k"; name "" without */
    const char *data;        /* NULL: there is none */
    int64_t rows, heads, row, head, bytes;
    uintptr_t first, end; /* where the first byte is, and where there are none behind */
} io_array;

/* Rows [first_row, first_row + n) of a tensor of `heads` heads of `columns`; an array in one piece. HGA_EOVERFLOW where
   strides lead out of memory. */
hga_status array_of_tensor(const char *what, const char *name, const hga_tensor *t, int64_t first_row, int64_t n,
                           hga_id heads, hga_id columns, io_array *out);
io_array array_of_block(const char *what, const char *name, const void *data, int64_t bytes);

/* Do both have a byte? Where neither is in one piece and their strides differ, only what begins at one place is
   found. */
int arrays_meet(const io_array *a, const io_array *b);
/* HGA_EINVAL, with what the matter is, where two arrays meet, one of which is written, or, being one and the same, its
   runs do. */
hga_status arrays_disjoint(const io_array *a, int a_written, const io_array *b, int b_written);

/* ---- of many calls at once ---- */

/* One of a sample's, in a list. */
typedef struct call_array {
    io_array at;
    int written;
    hga_id sample;
    struct call_array *next;
} call_array;

/* The list with one more at its head. */
static inline call_array *array_listed(call_array *a, hga_id sample, call_array *list)
{
    a->sample = sample, a->next = list;
    return a;
}

/* HGA_EINVAL where what a sample writes meets what another writes or reads; *sample is the later of the two. The list
   is sorted. */
hga_status listed_arrays_disjoint(call_array *list, hga_id *sample);

#endif
