/* isa_neon.c: the kernels for 64-bit ARM: vectors of four, and 32 registers of them. */
#include "tables.h"
#define VEC_FLOATS 4
#define VEC_NEON
#include "rows.inc"

const kernel_table kernels_neon = {
    .isa = "neon", .attend_heads_bf16 = attend_heads_bf16, .narrow = narrow_row, KERNELS};
