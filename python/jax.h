/* jax.h: attention as programs of XLA call it (hga.jax). A program says a call in attributes; the plan for it is made
   when the program is instantiated, or by Python when it is traced, and kept for all calls of its kind. */
#ifndef HGA_PY_JAX_H
#define HGA_PY_JAX_H

#include "calls.h"

/* The attribute `numbers` of a call, by place. */
typedef enum hga_py_number {
    HGA_PY_FORM, /* HGA_PY_THIS_FORM, of the attributes */
    HGA_PY_KEY,  /* two: equal for equal kinds, that is for all that a plan is made of */
    HGA_PY_KEY_2,
    HGA_PY_HEADS, /* of the plan, which has those of a part where there are parts */
    HGA_PY_KV_HEADS,
    HGA_PY_DIM,
    HGA_PY_DIM_V,
    HGA_PY_POS_DIM,
    HGA_PY_GENERIC,
    HGA_PY_THREADS,
    HGA_PY_BIND,
    HGA_PY_STRICT,
    HGA_PY_PRECISION,
    HGA_PY_GRADIENT, /* the last that a plan depends on */
    HGA_PY_BNHD,     /* 1: rows come before heads */
    HGA_PY_PARTS,    /* of the graph's rows, 1 without */
    HGA_PY_BY_TOKEN, /* 1: rows of the parts of a token follow one another */
    HGA_PY_AXES,     /* of the batch; what comes before them was mapped by vmap */
    HGA_PY_LAYER,
    HGA_PY_N_NUMBERS
} hga_py_number;
enum { HGA_PY_THIS_FORM = 1 };

/* What a plan is made of, borrowed. */
typedef struct hga_py_kind {
    const int64_t *number; /* [HGA_PY_N_NUMBERS] */
    double dropout;
    const char *isa;       /* [isa_bytes], none: the best */
    const char *hierarchy; /* [hierarchy_bytes], its JSON */
    int64_t isa_bytes, hierarchy_bytes;
} hga_py_kind;

/* The plan of that kind, found or made, the caller's until it is released. Any thread may call. */
hga_status hga_py_cache(const hga_py_kind *kind, hga_py_cached **out);
/* Bytes of the tape of a sample of that kind. */
hga_status hga_py_tape_bytes(const hga_py_kind *kind, int64_t *bytes);

/* Run f(data) while no other does, on one thread of its own, whose team of OpenMP is the only one. */
hga_status hga_py_run_alone(hga_status (*f)(void *), void *data);

/* Handlers of XLA's: 0 makes the plan, 1 is forward, 2 is back; NULL where XLA's header was not there at the build. */
void *hga_py_jax_handler(int which);
/* Which version of XLA's interface the process has; HGA_EUNSUPPORTED if its handlers are others than those built. */
hga_status hga_py_jax_speak(int major, int minor);

#endif
