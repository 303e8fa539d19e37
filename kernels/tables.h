/* tables.h: the compiled tables, for tables.c alone. */
#ifndef TABLES_H
#define TABLES_H
#include "kernels.h"
extern const kernel_table kernels_ref, kernels_avx2, kernels_avx512, kernels_avx512bf16;
#endif
