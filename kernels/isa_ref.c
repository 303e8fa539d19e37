/* isa_ref.c: the kernels for any machine: vectors of four. */
#include "tables.h"
#define VEC_FLOATS 4
#include "rows.inc"

const kernel_table kernels_ref = {.isa = "ref", .attend_heads_bf16 = attend_heads_bf16, .narrow = narrow_row, KERNELS};
