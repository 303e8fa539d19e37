/* isa_ref.c: the kernels with what every machine has: vectors of four. */
#include "tables.h"
#define VEC_FLOATS 4
#define TABLE      kernels_ref
#define ISA        "ref"
#include "rows.inc"
