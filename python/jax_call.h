/* jax_call.h: a call as XLA brings it: arrays, packed, whose first axes vmap has put there. */
#ifndef HGA_PY_JAX_CALL_H
#define HGA_PY_JAX_CALL_H

#include "jax.h"

enum { JAX_MOST_AXES = 16 };

/* Of a buffer of XLA's. */
typedef struct jax_array {
    char *data;
    int rank;
    const int64_t *dims;
    hga_dtype dtype; /* of numbers */
    int bytes;       /* of an entry */
} jax_array;

typedef enum jax_operand {
    JAX_QUERY,
    JAX_KEY,
    JAX_VALUE,
    JAX_SEED,    /* [2], the lower half first */
    JAX_OUTPUTS, /* [1], bits of the gradients that are wanted */
    JAX_OUT,
    JAX_LSE,
    JAX_TAPE,
    JAX_D_OUT,
    JAX_D_LSE,
    JAX_D_QUERY,
    JAX_D_KEY,
    JAX_D_VALUE,
    JAX_N_OPERANDS
} jax_operand;

typedef struct jax_call {
    const int64_t *number; /* the attribute */
    hga_py_cached *kept;
    jax_array at[JAX_N_OPERANDS];                              /* data NULL and rank 0: not there */
    jax_array inputs[HGA_MAX_TABLES], outputs[HGA_MAX_TABLES]; /* by hga_call_table */
    int is_back;
} jax_call;

int64_t jax_bytes(const jax_array *x);
/* Is it of shapes that the plan has? HGA_EINVAL. */
hga_status jax_check(const jax_call *call);
hga_status jax_run(const jax_call *call);

#endif
