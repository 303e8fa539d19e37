/* tables.c: the registry of instruction sets. To add one: a file that includes rows.inc and makes a table of KERNELS, a
   line in tables.h, here and in CMakeLists.txt, and one in msgpass/machine/isa.c. */
#include "tables.h"

const kernel_table *const kernel_tables[] = {
    &kernels_ref,
#if defined(__x86_64__)
    &kernels_avx2, &kernels_avx512, &kernels_avx512bf16,
#elif defined(__aarch64__)
    &kernels_neon,
    &kernels_neonbf16,
#endif
    NULL,
};
