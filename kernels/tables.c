/* tables.c: the registry of instruction sets. To add one: a file that includes rows.inc, a line here, a line in
   CMakeLists.txt and one in msgpass/cpu.c. */
#include "tables.h"

const kernel_table *const kernel_tables[] = {
    &kernels_ref,
#if defined(__x86_64__)
    &kernels_avx2, &kernels_avx512, &kernels_avx512bf16,
#endif
    NULL,
};
