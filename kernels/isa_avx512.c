/* isa_avx512.c: the kernels for AVX-512. */
#include "tables.h"
#define VEC_FLOATS 16
#define TABLE      kernels_avx512
#define ISA        "avx512"
#include "rows.inc"
