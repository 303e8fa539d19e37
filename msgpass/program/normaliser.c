/* normaliser.c: names of normalisers. */
#include "program.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int program_alpha_is_fit(double alpha) { return alpha == 1 || (alpha >= 1.05 && alpha <= 2); }

/* The number after the colon: sigmoid's bias, entmax's alpha. */
static hga_status read_number(const char *words, const char *text, hga_normaliser which, double *x)
{
    char *end;
    *x = strtod(text, &end);
    if (end == text || *end || isspace((unsigned char)*text))
        return hga_fail(HGA_EINVAL, "'%s': '%s' is not a number", words, text);
    if (which == HGA_NORMALISER_SIGMOID && !isfinite((float)*x))
        return hga_fail(HGA_EINVAL, "'%s': %s does not fit float32", words, text);
    if (which == HGA_NORMALISER_ENTMAX && !program_alpha_is_fit(*x))
        return hga_fail(HGA_EINVAL, "'%s': entmax's alpha %s is not 1 and not from 1.05 to 2", words, text);
    return HGA_OK;
}

hga_status hga_normaliser_named(const char *words, hga_normaliser *normaliser, double *alpha, float *bias)
{
    const char *colon = strchr(words, ':');
    size_t n = colon ? (size_t)(colon - words) : strlen(words);
    int which = 0;
    double x = 0;
    *normaliser = HGA_NORMALISER_SOFTMAX, *alpha = 0, *bias = 0;
    for (const char *name; (name = program_normaliser_names[which]); which++)
        if (strlen(name) == n && memcmp(name, words, n) == 0) break;
    int has_number = colon && colon[1], needs = which == HGA_NORMALISER_ENTMAX, takes = which != HGA_NORMALISER_SOFTMAX;
    if (!program_normaliser_names[which] || (colon ? !takes || !has_number : needs))
        return hga_fail(HGA_EINVAL, "'%s' is not one of: softmax sigmoid sigmoid:B entmax:ALPHA", words);
    hga_status st = colon ? read_number(words, colon + 1, (hga_normaliser)which, &x) : HGA_OK;
    if (st) return st;
    *normaliser = (hga_normaliser)which;
    *alpha = needs ? x : 0, *bias = needs ? 0 : (float)x;
    return HGA_OK;
}
