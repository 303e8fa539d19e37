/* normaliser.c: a word, and perhaps a number behind a colon, into a program. */
#include "normaliser.h"

#include <math.h>
#include <string.h>

#include "arguments.h"

/* By hga_normaliser: its word, and whether a number follows. */
static const struct {
    const char *word;
    int may_have_number, needs_number;
} normalisers[] = {{"softmax", 0, 0}, {"sigmoid", 1, 0}, {"entmax", 1, 1}};
enum { N_NORMALISERS = sizeof normalisers / sizeof *normalisers };

/* The normaliser that the text names, N_NORMALISERS without; `number` is what stands behind the colon, NULL: none. */
static size_t find(const char *text, const char **number)
{
    const char *colon = strchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : strlen(text), i = 0;
    *number = colon ? colon + 1 : NULL;
    while (i < N_NORMALISERS && (strlen(normalisers[i].word) != n || memcmp(normalisers[i].word, text, n) != 0)) i++;
    if (i < N_NORMALISERS && (colon ? !normalisers[i].may_have_number : normalisers[i].needs_number)) i = N_NORMALISERS;
    return i;
}

/* sigmoid's number is a bias, entmax's its alpha. */
int normaliser_read(const char *text, typed_normaliser *out)
{
    const char *number;
    double x = 0;
    size_t which = find(text, &number);
    if (which == N_NORMALISERS)
        return complain(CLI_USAGE, "--normaliser: '%s' is not one of: softmax sigmoid sigmoid:B entmax:ALPHA", text);
    int status = number ? read_number("--normaliser", number, &x) : CLI_GOOD;
    if (!status && !isfinite((float)x)) return complain(CLI_USAGE, "--normaliser: %s does not fit float32", number);
    *out = (typed_normaliser){.words = text, .which = (hga_normaliser)which};
    out->bias = which == HGA_NORMALISER_SIGMOID ? (float)x : 0, out->alpha = which == HGA_NORMALISER_ENTMAX ? x : 0;
    if (!status && out->alpha != 0 && out->alpha != 1 && !(out->alpha >= 1.05 && out->alpha <= 2))
        return complain(CLI_USAGE, "--normaliser: entmax's alpha %s is not 1 and not from 1.05 to 2", number);
    return status;
}

int sends(const hga_program *p, hga_message message)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].message == message) return 1;
    return 0;
}

static int merges(const hga_program *p)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].update == HGA_UPDATE_MERGE) return 1;
    return 0;
}

/* Entmax of alpha 1 is softmax. */
static int is_softmax(const typed_normaliser *typed)
{
    return typed->which == HGA_NORMALISER_SOFTMAX || typed->alpha == 1;
}

int normaliser_makes_zeros(const typed_normaliser *typed)
{
    return typed->which == HGA_NORMALISER_ENTMAX && !is_softmax(typed);
}

int normaliser_put(const typed_normaliser *typed, model *m)
{
    if (!typed->words) return CLI_GOOD;
    if (!score_stage(&m->program)) return complain(CLI_USAGE, "--normaliser: %s computes no scores", m->title);
    if (typed->which == HGA_NORMALISER_SIGMOID && sends(&m->program, HGA_ENERGY))
        return complain(CLI_USAGE, "--normaliser: the energies of %s are softmax's or entmax's", m->title);
    if (normaliser_makes_zeros(typed) && merges(&m->program))
        return complain(CLI_USAGE, "--normaliser: %s merges states, which rows of entmax cannot be", m->title);
    return complain_of(hga_program_normalise(&m->program, typed->which, typed->alpha), CLI_USAGE, m->title);
}
