/* isa_avx512bf16.c: the kernels that multiply pairs of bfloat16, with AVX-512 and one instruction more. All others are
   isa_avx512.c's. */
#pragma GCC diagnostic ignored "-Wunused-function"
#include "tables.h"
#define VEC_FLOATS 16
#include "rows.inc"

void pairs_attend_heads(const kernel_heads *c) { attend_heads_bf16(c); }
void pairs_attend_tile(const kernel_tile *t) { attend_tile_bf16(t); }
void pairs_transpose(hga_id n, const float *const *x, hga_id columns, uint32_t *out)
{
    transpose_pairs(n, x, columns, out);
}
void pairs_of_rows(hga_id n, const uint16_t *const *x, hga_id columns, uint32_t *out, ptrdiff_t stride)
{
    pair_rows(n, x, columns, out, stride);
}
void pairs_narrow(hga_id n, const float *x, uint16_t *out) { narrow_row(n, x, out); }
double pairs_peak(hga_pos n, float *sink) { return peak_pairs(n, sink); }
