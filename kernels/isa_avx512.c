/* isa_avx512.c: the kernels for AVX-512; and those with what isa_avx512bf16.c has besides, in float32 the same. */
#include "tables.h"
#define VEC_FLOATS 16
#include "rows.inc"

const kernel_table kernels_avx512 = {
    .isa = "avx512", .attend_heads_bf16 = attend_heads_bf16, .narrow = narrow_row, KERNELS};

const kernel_table kernels_avx512bf16 = {.isa = "avx512bf16",
                                         .attend_heads_bf16 = pairs_attend_heads,
                                         .attend_tile_bf16 = pairs_attend_tile,
                                         .transpose_pairs = pairs_transpose,
                                         .narrow = pairs_narrow,
                                         .pair_rows = pairs_of_rows,
                                         .peak_pairs = pairs_peak,
                                         KERNELS};
