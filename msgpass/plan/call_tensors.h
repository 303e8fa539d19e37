/* call_tensors.h: a tensor that the caller hands to a call, with what the plan asks of it: it is checked by itself, and
   compared with the others as an array, by one description, forward and backward. */
#ifndef HGA_PLAN_CALL_TENSORS_H
#define HGA_PLAN_CALL_TENSORS_H

#include "overlap.h"

/* What is asked of a tensor, besides its rows. */
enum {
    TENSOR_IS_NEEDED = 1,   /* where there are rows */
    TENSOR_IS_FLOAT32 = 2,  /* no other type */
    TENSOR_IS_UNFOLDED = 4, /* no folds */
    TENSOR_IS_WRITTEN = 8   /* it must not overlap others */
};

typedef struct call_tensor {
    const char *what, *name; /* "the tensor of field", "k"; name "" without */
    const hga_tensor *tensor;
    hga_id needed;         /* rows that it must have */
    int64_t first, rows;   /* those of them that the call reads or writes */
    hga_id heads, columns; /* of each head */
    unsigned is;
} call_tensor;

/* All rows of a field's tensor, or of its gradient. */
call_tensor tensor_of_field(const hga_plan *plan, hga_id field, const hga_tensor *tensor, const char *what);
/* As many columns for each row and head of the output. */
call_tensor tensor_of_output(const hga_plan *plan, const hga_tensor *tensor, const char *what, hga_id columns);

/* HGA_EINVAL or HGA_EUNSUPPORTED names the tensor, and what is wrong with its type, address, folds or rows. */
hga_status call_tensor_check(const hga_plan *plan, const call_tensor *t);
/* HGA_EOVERFLOW where strides leave memory. */
hga_status call_tensor_array(const call_tensor *t, io_array *out);
/* A table of the call (what ""), or its gradient: as many floats as the call's table has. */
io_array call_table_array(const hga_plan *plan, const hga_io *io, hga_call_table table, const float *data,
                          const char *what);

#endif
