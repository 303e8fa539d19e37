/* hga_machine.h: this computer as the engine sees it: NUMA domains, instruction sets, measured limits. */
#ifndef HGA_MACHINE_H
#define HGA_MACHINE_H

#include "hga_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Describe a machine as the engine sees it: one line a NUMA domain with its cores, and where `threads` would run.
   `synthetic` as hwloc's, or a file of lstopo's ("machine.xml"; hwloc reads it, so take one that you trust), or NULL.
   HGA_JSON: an object with the same. HGA_EFORMAT: the file cannot be read, or is no such file. *text is yours:
   hga_text_free. */
HGA_API hga_status hga_topology_describe(const char *synthetic, hga_id threads, hga_format format, char **text);
/* ISAs compiled in and usable here, e.g. "ref avx2 avx512 avx512bf16", on 64-bit ARM "ref neon neonbf16": the best
   is last. Static text. */
HGA_API const char *hga_isa_list(void);
/* Does the instruction set multiply pairs of bfloat16 (`pairs` 1), or not (0)? NULL as in hga_options.isa. There
   products of tensors of bfloat16 are faster in HGA_PRECISION_BF16. HGA_EUNSUPPORTED: it is not this machine's. */
HGA_API hga_status hga_isa_pairs(const char *isa, int *pairs);
/* This machine's limits, measured now with the same kernels' instructions: fp32 FMA and exp on one thread, read
   bandwidth. About a second. */
typedef struct hga_peaks {
    double fma_gflops, exp_gelements, l2_gbytes, dram_gbytes; /* one thread */
    double bf16_gflops; /* products of bfloat16 pairs; 0 where the instruction set has none */
} hga_peaks;
/* Measure this machine's limits with the instruction set `isa` (NULL as in hga_options.isa). About a second. */
HGA_API hga_status hga_measure_peaks(const char *isa, hga_peaks *out);
/* Measure what the calling thread reaches at this moment, which on a shared core changes from second to second: the
   rate of multiply-adds of full vectors in float32 (pairs: of products of bfloat16 pairs, 0 where the instruction set
   has none) over about `seconds`, above 0 and at most 60. In 1e9 a second. */
HGA_API hga_status hga_measure_flops(const char *isa, int pairs, double seconds, double *gflops);
/* Measure the rate, in 1e9 bytes a second, of reading n floats (a multiple of 128, at least 128) once, from cache or
   memory, on the calling thread at this moment. */
HGA_API hga_status hga_measure_read(const char *isa, hga_pos n, const float *x, double *gbytes);
/* Measure the rate, in 1e9 bytes a second, of reading n rows of `columns` floats (a multiple of 128, at least 128) each
   once, in an order that no prefetcher guesses, with later rows requested while earlier ones are read: the most that an
   engine can reach for rows that the edges of a graph name at random. x: [n][columns], n >= 1. */
HGA_API hga_status hga_measure_gather(const char *isa, hga_pos n, hga_id columns, const float *x, double *gbytes);

#ifdef __cplusplus
}
#endif
#endif
