/* isa_avx512bf16.c: the kernels for AVX-512 with products of bfloat16 pairs. In float32 they compute the same bits as
   isa_avx512.c's. */
#include "tables.h"
#define VEC_FLOATS 16
#define TABLE      kernels_avx512bf16
#define ISA        "avx512bf16"
#include "rows.inc"
