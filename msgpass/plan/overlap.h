/* overlap.h: the caller's arrays, and whether they share memory. An array that a call writes must be disjoint from all
   others, and from itself. */
#ifndef HGA_PLAN_OVERLAP_H
#define HGA_PLAN_OVERLAP_H

#include "hga_plan.h"

/* Runs of `bytes` bytes, one for each row and head, with strides `row` and `head` in bytes. */
typedef struct io_array {
    const char *what, *name; /* "the tensor of field", "k"; name "" without */
    const char *data;        /* NULL: there is none */
    int64_t rows, heads, row, head, bytes;
    uintptr_t first, end; /* addresses of the first byte and behind the last */
} io_array;

/* Describes rows [first_row, first_row + n) of a tensor of `heads` heads of `columns`. HGA_EOVERFLOW where strides
   leave memory. */
hga_status array_of_tensor(const char *what, const char *name, const hga_tensor *t, int64_t first_row, int64_t n,
                           hga_id heads, hga_id columns, io_array *out);
/* Describes a contiguous array. */
io_array array_of_block(const char *what, const char *name, const void *data, int64_t bytes);

/* Whether both share a byte. Where neither is contiguous and their strides differ, only arrays that begin at the same
   address are found. */
int arrays_meet(const io_array *a, const io_array *b);
/* HGA_EINVAL, with a reason, where two arrays meet of which one is written, or where runs of a written array meet (a ==
   b). */
hga_status arrays_disjoint(const io_array *a, int a_written, const io_array *b, int b_written);

/* ---- of many calls at once ---- */

/* An array of a sample, in a list. */
typedef struct call_array {
    io_array at;
    int written;
    hga_id sample;
    struct call_array *next;
} call_array;

/* Prepends an array to the list. */
static inline call_array *array_listed(call_array *a, hga_id sample, call_array *list)
{
    a->sample = sample, a->next = list;
    return a;
}

/* HGA_EINVAL where an array that a sample writes meets another sample's; *sample is the later of the two. Sorts the
   list. */
hga_status listed_arrays_disjoint(call_array *list, hga_id *sample);

#endif
