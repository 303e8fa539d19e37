/* scorings.h: scores and normalisers without fused kernels in 16 bits. */
#ifndef SCORINGS_H
#define SCORINGS_H

#include "program_check.h"
#include "testing.h"

typedef struct scoring {
    const char *name;
    hga_normaliser normaliser;
    double alpha;
    hga_scores scores;
} scoring;

static const scoring scorings[] = {
    {"sigmoids", HGA_NORMALISER_SIGMOID, 0, HGA_SCORES_PRODUCT},
    {"entmax", HGA_NORMALISER_ENTMAX, 1.5, HGA_SCORES_PRODUCT},
    {"additive scores", HGA_NORMALISER_SOFTMAX, 0, HGA_SCORES_ADDITIVE},
    {"sigmoids of additive scores", HGA_NORMALISER_SIGMOID, 0, HGA_SCORES_ADDITIVE},
    {"entmax of additive scores", HGA_NORMALISER_ENTMAX, 1.5, HGA_SCORES_ADDITIVE},
};
enum { N_SCORINGS = sizeof scorings / sizeof *scorings };

/* A variant with that scoring in bfloat16; 0: it is undefined. */
static inline int scored_build(int i, const scoring *s, hga_id n, const hga_shape *shape, problem *out)
{
    variant_build(i, n, 3 + (uint64_t)i, shape, out);
    out->options = (hga_options){.threads = 2, .precision = HGA_PRECISION_BF16};
    out->program.scores = s->scores, out->program.negative_slope = 0.2f;
    hga_status st = HGA_OK;
    if (s->normaliser != HGA_NORMALISER_SOFTMAX) st = hga_program_normalise(&out->program, s->normaliser, s->alpha);
    if (!st) st = program_check(&out->program, out->graph);
    if (!out->program.has_lse) out->io.lse.data = NULL;
    if (st) problem_clear(out);
    return !st;
}

#endif
