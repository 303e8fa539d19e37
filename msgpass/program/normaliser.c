/* normaliser.c: the rows of normalisers, and their words. */
#include "program.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME(NAME, name) #name,
const char *const program_normaliser_names[] = {HGA_NORMALISERS(NAME) NULL};
#undef NAME

static const hga_normaliser_row rows[HGA_N_NORMALISERS + 1] = {
    [HGA_NORMALISER_SOFTMAX] = {.name = "softmax"},
    [HGA_NORMALISER_SIGMOID] = {"sigmoid", "B", 0, -FLT_MAX, FLT_MAX,
                                "each weight by itself, 1 / (1 + e^-(score + B))"},
    [HGA_NORMALISER_ENTMAX] = {"entmax", "ALPHA", 1, 1.05, 2,
                               "ALPHA from 1.05 to 2, most weights exactly 0, 2 is sparsemax"},
};

/* A row of the table above, to the code; the formulas are in semantics/soften.c. */
static const unsigned is[HGA_N_NORMALISERS] = {
    [HGA_NORMALISER_SOFTMAX] = NORMALISER_HAS_LSE | NORMALISER_MERGES | NORMALISER_SHARES_OUT,
    [HGA_NORMALISER_SIGMOID] = NORMALISER_MERGES | NORMALISER_HAS_BIAS | NORMALISER_IS_PLAIN_BESIDE_USERS,
    [HGA_NORMALISER_ENTMAX] = NORMALISER_SHARES_OUT | NORMALISER_HAS_ALPHA | NORMALISER_IS_PLAIN_OF_SUMS,
};

const hga_normaliser_row *hga_normalisers(void) { return rows; }

unsigned normaliser_is(hga_normaliser normaliser) { return is[normaliser]; }

int normaliser_takes(hga_normaliser normaliser, double number)
{
    const hga_normaliser_row *row = &rows[normaliser];
    if (is[normaliser] & NORMALISER_HAS_ALPHA && number == 1) return 1;
    return row->number ? number >= row->least && number <= row->most : number == 0;
}

/* ---- words ---- */

/* "softmax sigmoid sigmoid:B entmax:ALPHA". */
static void list_words(size_t capacity, char *text)
{
    size_t at = 0;
    for (const hga_normaliser_row *row = rows; row->name && at < capacity; row++) {
        if (!row->needs_number) at += (size_t)snprintf(text + at, capacity - at, "%s%s", at ? " " : "", row->name);
        if (row->number && at < capacity)
            at += (size_t)snprintf(text + at, capacity - at, "%s%s:%s", at ? " " : "", row->name, row->number);
    }
}

/* The number after the colon. */
static hga_status read_number(const char *words, const char *text, hga_normaliser which, double *x)
{
    char *end;
    *x = strtod(text, &end);
    if (end == text || *end || isspace((unsigned char)*text))
        return hga_fail(HGA_EINVAL, "'%s': '%s' is not a number", words, text);
    if (normaliser_takes(which, *x)) return HGA_OK;
    if (is[which] & NORMALISER_HAS_BIAS) return hga_fail(HGA_EINVAL, "'%s': %s does not fit float32", words, text);
    return hga_fail(HGA_EINVAL, "'%s': %s's alpha %s is not 1 and not from %g to %g", words, rows[which].name, text,
                    rows[which].least, rows[which].most);
}

hga_status hga_normaliser_named(const char *words, hga_normaliser *normaliser, double *alpha, float *bias)
{
    const char *colon = strchr(words, ':');
    size_t n = colon ? (size_t)(colon - words) : strlen(words);
    const hga_normaliser_row *row = rows;
    double x = 0;
    *normaliser = HGA_NORMALISER_SOFTMAX, *alpha = 0, *bias = 0;
    while (row->name && (strlen(row->name) != n || memcmp(row->name, words, n) != 0)) row++;
    const hga_normaliser which = (hga_normaliser)(row - rows);
    if (!row->name || (colon ? !row->number || !colon[1] : row->needs_number)) {
        char known[256] = "";
        list_words(sizeof known, known);
        return hga_fail(HGA_EINVAL, "'%s' is not one of: %s", words, known);
    }
    hga_status st = colon ? read_number(words, colon + 1, which, &x) : HGA_OK;
    if (st) return st;
    *normaliser = which;
    *alpha = is[which] & NORMALISER_HAS_ALPHA ? x : 0, *bias = is[which] & NORMALISER_HAS_BIAS ? (float)x : 0;
    return HGA_OK;
}
