/* isa_avx512bf16.c: the kernels that multiply pairs of bfloat16, with AVX-512 and one instruction more. All others are
   isa_avx512.c's. */
#include "tables.h"
#define VEC_FLOATS 16
#include "pairs.inc"
