/* isa_avx2.c: the kernels for AVX2 and FMA. */
#include "tables.h"
#define VEC_FLOATS 8
#define TABLE      kernels_avx2
#define ISA        "avx2"
#include "rows.inc"
