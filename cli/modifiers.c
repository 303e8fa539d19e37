/* modifiers.c: words, numbers and files into a program and a call. */
#include "modifiers.h"
#include "arguments.h"
#include "command.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the command line ---- */

/* By hga_normaliser: its word, and whether a number follows. */
static const struct {
    const char *word;
    int may_have_number, needs_number;
} normalisers[] = {{"softmax", 0, 0}, {"sigmoid", 1, 0}, {"entmax", 1, 1}};
enum { N_NORMALISERS = sizeof normalisers / sizeof *normalisers };

/* The normaliser that the text names, N_NORMALISERS without; `number` is what stands behind the colon, NULL: none. */
static size_t find_normaliser(const char *text, const char **number)
{
    const char *colon = strchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : strlen(text), i = 0;
    *number = colon ? colon + 1 : NULL;
    while (i < N_NORMALISERS && (strlen(normalisers[i].word) != n || memcmp(normalisers[i].word, text, n) != 0)) i++;
    if (i < N_NORMALISERS && (colon ? !normalisers[i].may_have_number : normalisers[i].needs_number)) i = N_NORMALISERS;
    return i;
}

static int read_normaliser(const char *text, typed_modifiers *out)
{
    const char *number;
    double x = 0;
    size_t which = find_normaliser(text, &number);
    if (which == N_NORMALISERS)
        return complain(CLI_USAGE, "--normaliser: '%s' is not one of: softmax sigmoid sigmoid:B entmax:ALPHA", text);
    int status = number ? read_number("--normaliser", number, &x) : CLI_GOOD;
    if (!status && !isfinite((float)x)) return complain(CLI_USAGE, "--normaliser: %s does not fit float32", number);
    out->has_normaliser = 1, out->words = text, out->normaliser = (hga_normaliser)which;
    out->bias = which == HGA_NORMALISER_SIGMOID ? (float)x : 0, out->alpha = which == HGA_NORMALISER_ENTMAX ? x : 0;
    if (!status && out->alpha != 0 && out->alpha != 1 && !(out->alpha >= 1.05 && out->alpha <= 2))
        return complain(CLI_USAGE, "--normaliser: entmax's alpha %s is not 1 and not from 1.05 to 2", number);
    return status;
}

static int read_softcap(const char *text, typed_modifiers *out)
{
    double x = 0;
    int status = read_number("--softcap", text, &x);
    out->softcap = (float)x;
    if (!status && !(x >= 1e-30 && x <= 1e30))
        return complain(CLI_USAGE, "--softcap: %s is not a number from 1e-30 to 1e30", text);
    return status;
}

enum { KEY_NORMALISER = 0x2a80, KEY_SOFTCAP, KEY_SINK, KEY_SLOPES };

static error_t parse(int key, char *value, struct argp_state *state)
{
    typed_modifiers *typed = state->input;
    switch (key) {
    case KEY_NORMALISER: return arguments_said(read_normaliser(value, typed));
    case KEY_SOFTCAP: return arguments_said(read_softcap(value, typed));
    case KEY_SINK: typed->sink = value; return 0;
    case KEY_SLOPES: typed->slopes = value; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"normaliser", KEY_NORMALISER, "N", 0,
     "of scores: softmax; sigmoid, sigmoid:B, each weight by itself, 1 / (1 + e^-(score + B)); or entmax:ALPHA, "
     "ALPHA from 1.05 to 2, most weights exactly 0, 2 is sparsemax (default: the program's, softmax)",
     4},
    {"normalizer", 0, NULL, OPTION_ALIAS, NULL, 4},
    {"softcap", KEY_SOFTCAP, "C", 0,
     "cap scores before biases are added: C tanh(scale q . k / C) (default: the program's, none)", 4},
    {"sink", KEY_SINK, "FILE", 0,
     "a number a head, [heads]: each row's softmax denominator gains e^sink; -inf: no sink (default: none)", 4},
    {"slopes", KEY_SLOPES, "FILE", 0,
     "a number a head, [heads], at least 0: scores lose slope |query's position - key's| (default: none)", 4},
    {0},
};
const struct argp modifiers_argp = {.options = options, .parser = parse};

/* ---- the program ---- */

static int sends(const hga_program *p, hga_message message)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].message == message) return 1;
    return 0;
}

static int check_program(const typed_modifiers *typed, const model *m)
{
    const struct {
        const char *option;
        int given, needs_softmax;
    } all[] = {
        {"--normaliser", typed->has_normaliser, typed->normaliser != HGA_NORMALISER_SOFTMAX && typed->alpha != 1},
        {"--softcap", typed->softcap != 0, 1},
        {"--slopes", typed->slopes != NULL, 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].given && !score_stage(&m->program))
            return complain(CLI_USAGE, "%s: %s computes no scores", all[i].option, m->title);
        if (all[i].given && all[i].needs_softmax && sends(&m->program, HGA_ENERGY))
            return complain(CLI_USAGE, "%s: the energies of %s are softmax's", all[i].option, m->title);
    }
    return CLI_GOOD;
}

/* Entmax of alpha 1 is softmax, and merges. */
static int put_normaliser(const typed_modifiers *typed, model *m)
{
    hga_program *p = &m->program;
    int entmax = modifiers_make_zeros(typed);
    for (hga_id i = 0; entmax && i < p->n_stages; i++)
        if (p->stage[i].update == HGA_UPDATE_MERGE)
            return complain(CLI_USAGE, "--normaliser: %s merges states, which rows of entmax cannot be", m->title);
    return complain_of(hga_program_normalise(p, typed->normaliser, typed->alpha), CLI_USAGE, m->title);
}

/* Slopes take distances. */
static int check_positions(const model *m)
{
    double *at = NULL;
    int status = CLI_GOOD;
    TRY(take(hga_graph_nodes(m->graph).n, sizeof *at, &at));
    if (hga_graph_positions(m->graph, at)) TRY(complain(CLI_USAGE, "--slopes: %s: %s", m->title, hga_error_detail()));
done:
    free(at);
    return status;
}

int modifiers_put(const typed_modifiers *typed, model *m)
{
    int status = check_program(typed, m);
    if (!status && typed->has_normaliser) status = put_normaliser(typed, m);
    if (status) return status;
    if (typed->softcap != 0) m->program.softcap = typed->softcap;
    if (typed->sink && !m->program.has_lse)
        return complain(CLI_USAGE, "--sink: %s has no softmax denominator", m->title);
    if (typed->slopes) status = check_positions(m);
    if (status) return status;
    if (m->tree_heads > 1 && (typed->sink || typed->slopes))
        return complain(CLI_USAGE, "%s: %s has a tree for each head", typed->sink ? "--sink" : "--slopes", m->title);
    return CLI_GOOD;
}

/* ---- the call ---- */

int modifiers_read(const typed_modifiers *typed, attend_io *a)
{
    int status = CLI_GOOD;
    if (typed->sink && !a->sink.path) TRY(npy_read_endless(typed->sink, &a->sink));
    if (typed->slopes && !a->slopes.path) TRY(npy_read_real(typed->slopes, &a->slopes));
done:
    return status;
}

static int check_heads(const npy *x, hga_id heads)
{
    char shape[200];
    if (x->n_dims != 1 || x->dim[0] != heads)
        return complain(CLI_DATA, "%s: has the shape %s, not [%d]", x->path, npy_shape(x->n_dims, x->dim, shape),
                        heads);
    return CLI_GOOD;
}

static int bind_sink(const char *path, attend_io *a)
{
    int status = check_heads(&a->sink, a->shape.n_heads);
    if (status) return status;
    for (hga_id h = 0; h < a->shape.n_heads; h++)
        if (isnan(a->sink.real[h]) || a->sink.real[h] == INFINITY)
            return complain(CLI_DATA, "%s: number %d is %g, neither finite nor -inf", path, h, (double)a->sink.real[h]);
    a->modifiers.sink = a->sink.real;
    return CLI_GOOD;
}

static int bind_slopes(const char *path, attend_io *a)
{
    int status = check_heads(&a->slopes, a->shape.n_heads);
    if (status) return status;
    for (hga_id h = 0; h < a->shape.n_heads; h++)
        if (!(a->slopes.real[h] >= 0 && isfinite(a->slopes.real[h])))
            return complain(CLI_DATA, "%s: number %d is %g, not finite and at least 0", path, h,
                            (double)a->slopes.real[h]);
    a->modifiers.slopes = a->slopes.real;
    return CLI_GOOD;
}

int modifiers_bind(const typed_modifiers *typed, attend_io *a)
{
    int status = CLI_GOOD;
    if (typed->bias == 0 && !typed->sink && !typed->slopes) return CLI_GOOD;
    a->modifiers.size = sizeof a->modifiers, a->modifiers.normaliser_bias = typed->bias;
    a->io.modifiers = &a->modifiers;
    TRY(modifiers_read(typed, a));
    if (typed->sink) TRY(bind_sink(typed->sink, a));
    if (typed->slopes) TRY(bind_slopes(typed->slopes, a));
done:
    return status;
}

int modifiers_typed(const typed_modifiers *typed)
{
    return typed->has_normaliser || typed->softcap != 0 || typed->sink || typed->slopes;
}

json_t *modifiers_json(const typed_modifiers *typed)
{
    json_t *all = json_object();
    if (typed->has_normaliser) json_object_set_new(all, "normaliser", json_string(typed->words));
    if (typed->softcap != 0) json_object_set_new(all, "softcap", json_real((double)typed->softcap));
    if (typed->sink) json_object_set_new(all, "sink", json_string(typed->sink));
    if (typed->slopes) json_object_set_new(all, "slopes", json_string(typed->slopes));
    return all;
}

int modifiers_make_zeros(const typed_modifiers *typed)
{
    return typed->normaliser == HGA_NORMALISER_ENTMAX && typed->alpha != 1;
}
