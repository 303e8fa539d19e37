/* tables.h: the compiled tables, for tables.c, and the functions of pairs.inc for a table of a set that has them. */
#ifndef TABLES_H
#define TABLES_H
#include "kernels.h"
extern const kernel_table kernels_ref, kernels_avx2, kernels_avx512, kernels_avx512bf16, kernels_neon, kernels_neonbf16;

/* pairs.inc: see kernel_table. One file of a machine's includes it. */
void pairs_attend_heads(const kernel_heads *c);
void pairs_attend_tile(const kernel_tile *t);
void pairs_transpose(hga_id n, const float *const *x, hga_id columns, uint32_t *out);
void pairs_of_rows(hga_id n, const uint16_t *const *x, hga_id columns, uint32_t *out, ptrdiff_t stride);
void pairs_narrow(hga_id n, const float *x, uint16_t *out);
double pairs_peak(hga_pos n, float *sink);

#define PAIRS                                                                       \
    .attend_heads_bf16 = pairs_attend_heads, .attend_tile_bf16 = pairs_attend_tile, \
    .transpose_pairs = pairs_transpose, .narrow = pairs_narrow, .pair_rows = pairs_of_rows, .peak_pairs = pairs_peak
#endif
