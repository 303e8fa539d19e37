/* isa_avx512.c: the kernels for AVX-512, and the table of avx512bf16, which has the same in float32 and those of
   isa_avx512bf16.c. */
#include "tables.h"
#define VEC_FLOATS 16
#include "rows.inc"

const kernel_table kernels_avx512 = {
    .isa = "avx512", .attend_heads_bf16 = attend_heads_bf16, .narrow = narrow_row, KERNELS};

const kernel_table kernels_avx512bf16 = {.isa = "avx512bf16", PAIRS, KERNELS};
