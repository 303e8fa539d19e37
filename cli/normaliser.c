/* normaliser.c: a word and a number into a program and a call. */
#include "normaliser.h"
#include "arguments.h"
#include "command.h"

#include <math.h>
#include <string.h>

int normaliser_read(const char *text, typed_normaliser *out)
{
    static const char sigmoid[] = "sigmoid";
    size_t n = sizeof sigmoid - 1;
    double bias = 0;
    *out = (typed_normaliser){.given = 1};
    if (strcmp(text, "softmax") == 0) return CLI_GOOD;
    if (strncmp(text, sigmoid, n) != 0 || (text[n] && text[n] != ':'))
        return complain(CLI_USAGE, "--normaliser: '%s' is not one of: softmax sigmoid sigmoid:B", text);
    int status = text[n] ? read_number("--normaliser", text + n + 1, &bias) : CLI_GOOD;
    if (!status && !isfinite((float)bias))
        return complain(CLI_USAGE, "--normaliser: %s does not fit float32", text + n + 1);
    out->kind = HGA_NORMALISER_SIGMOID, out->bias = (float)bias;
    return status;
}

int normaliser_put(const typed_normaliser *n, model *m)
{
    hga_program *p = &m->program;
    if (!n->given) return CLI_GOOD;
    if (!score_stage(p)) return complain(CLI_USAGE, "--normaliser: %s computes no scores", m->title);
    for (hga_id i = 0; i < p->n_stages; i++) {
        hga_stage *s = &p->stage[i];
        if (n->kind != HGA_NORMALISER_SOFTMAX && (s->message == HGA_ENERGY || s->message == HGA_GATE))
            return complain(CLI_USAGE, "--normaliser: the energies of %s are softmax's", m->title);
        if (s->message == HGA_SCORE) s->normaliser = n->kind;
    }
    if (n->kind != HGA_NORMALISER_SOFTMAX) p->has_lse = 0;
    return CLI_GOOD;
}

void normaliser_bind(const typed_normaliser *n, hga_modifiers *to, hga_io *io)
{
    if (!n->given || n->bias == 0) return;
    to->size = sizeof *to, to->normaliser_bias = n->bias;
    io->modifiers = to;
}
