/* calls.h: one call of attention from Python. What was checked once (shapes, strides, types, tables' sizes) is kept in
   an hga_py_call; a call brings addresses. Samples of a batch are described here, as many at once as the plan has
   threads. */
#ifndef HGA_PY_CALLS_H
#define HGA_PY_CALLS_H

#include "pool.h"

/* What calls have in common. Queries, keys and values lie where the caller has them: a sample is found by the strides
   of the batch's axes. All else is packed, one sample behind the other. */
typedef struct hga_py_call {
    hga_py_cached *cached; /* the plan */
    hga_io io;             /* a sample's rows, strides, types, numbers and sizes of tables; no addresses */
    hga_grad_io grad;      /* the same of gradients, as if all were wanted */
    int64_t n_samples;
    hga_id n_axes;
    const int64_t *shape;                                  /* [n_axes], of the batch */
    const int64_t *strides;                                /* [n_axes][3], bytes, of query, key, value */
    int64_t out_bytes, lse_bytes, tape_bytes, d_out_bytes; /* of a sample; a tape ends in the plan's number */
    int64_t grad_bytes[3];                                 /* of a sample's gradient of query, key, value */
    int64_t number;                                        /* the plan's, when all this was found out */
    int64_t features_at; /* bytes from a row of the output, or of its gradient, to that of edge_out; 0: there is none */
    int clear; /* 1: the output is set to 0 first, since a program may leave rows alone; 0: the caller has done it */
} hga_py_call;

/* Tables of a call by hga_call_table, as addresses; 0: not given, or not wanted. */
typedef struct hga_py_tables {
    uintptr_t input[HGA_MAX_TABLES];
    uintptr_t gradients[HGA_MAX_TABLES]; /* gradients, summed over samples */
    int64_t floats[HGA_MAX_TABLES];      /* how many numbers each of them has */
} hga_py_tables;

/* Bytes of a sample's tape: what the library asks for, then the plan's number, to the end of a whole line. */
int64_t hga_py_tape_of(const hga_plan *plan);

/* The address of what a buffer holds, as a number. */
uintptr_t hga_py_address(const char *buffer);

/* All samples forward: out, and lse and tape where they have an address. tables NULL: none. Errors as those of
   hga_plan_execute, and HGA_PY_TAKEN. Any number of threads may share a call. */
hga_status hga_py_execute(const hga_py_call *call, uintptr_t query, uintptr_t key, uintptr_t value, uintptr_t out,
                          uintptr_t lse, uintptr_t tape, const hga_py_tables *tables, uint64_t seed, uint32_t layer);

/* All samples back, given what hga_py_execute left in out and tape. d_lse 0: none is given. Gradients are packed and
   overwritten. Errors as those of hga_plan_gradient, and HGA_PY_TAKEN. */
hga_status hga_py_gradient(const hga_py_call *call, uintptr_t query, uintptr_t key, uintptr_t value, uintptr_t out,
                           uintptr_t tape, uintptr_t d_out, uintptr_t d_lse, uintptr_t d_query, uintptr_t d_key,
                           uintptr_t d_value, const hga_py_tables *tables, uint64_t seed, uint32_t layer);

/* How one cache's new rows lie, and so much of what comes of them: what appends of such rows have in common. */
typedef struct hga_py_rows {
    hga_append append;
    int64_t out_bytes, lse_bytes;
} hga_py_rows;

/* An append of such rows, which are at these addresses; lse 0: nobody asks for it. */
void hga_py_append_rows(const hga_py_rows *rows, hga_cache *cache, hga_id n_tokens, uintptr_t query, uintptr_t key,
                        uintptr_t value, uintptr_t out, uintptr_t lse, hga_append *to);

#endif
