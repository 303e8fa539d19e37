/* isa_avx2.c: the kernels for AVX2 and FMA. */
#include "tables.h"
#define VEC_FLOATS 8
#include "rows.inc"

const kernel_table kernels_avx2 = {
    .isa = "avx2", .attend_heads_bf16 = attend_heads_bf16, .narrow = narrow_row, KERNELS};
