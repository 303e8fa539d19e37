/* isa_neonbf16.c: the kernels that multiply pairs of bfloat16 by BFDOT, which 64-bit ARM has from version 8.6 on, and
   may have from 8.2 on. All others are isa_neon.c's. */
#include "tables.h"
#define VEC_FLOATS 4
#define VEC_NEON
#include "pairs.inc"
