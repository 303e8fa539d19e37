/* isa_neon.c: the kernels for 64-bit ARM: vectors of four, and 32 registers of them; and the table of neonbf16, which
   has the same in float32 and those of isa_neonbf16.c. */
#include "tables.h"
#define VEC_FLOATS 4
#define VEC_NEON
#include "rows.inc"

const kernel_table kernels_neon = {
    .isa = "neon", .attend_heads_bf16 = attend_heads_bf16, .narrow = narrow_row, KERNELS};

const kernel_table kernels_neonbf16 = {.isa = "neonbf16", PAIRS, KERNELS};
