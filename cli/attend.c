/* attend.c: hga attend, attention on tensors from .npy files. */
#include <math.h>
#include <string.h>

#include "arguments.h"
#include "attend_io.h"
#include "command.h"
#include "outfile.h"

typedef struct arguments {
    typed_variant variant;
    hga_options options;
    attend_paths paths;
    double scale;
    int has_scale;
} arguments;

/* ---- the command line ---- */

enum {
    KEY_QUERY = 0x2000,
    KEY_KEY,
    KEY_VALUE,
    KEY_OUT,
    KEY_LSE,
    KEY_REL_KEY,
    KEY_REL_BIAS,
    KEY_NODE_POS,
    KEY_EDGE_BIAS,
    KEY_SCALE,
    KEY_GRADIENT
};

static const char **path_of(attend_paths *p, int key)
{
    switch (key) {
    case KEY_QUERY: return &p->query;
    case KEY_KEY: return &p->key;
    case KEY_VALUE: return &p->value;
    case KEY_OUT: return &p->out;
    case KEY_LSE: return &p->lse;
    case KEY_REL_KEY: return &p->rel_key;
    case KEY_REL_BIAS: return &p->rel_bias;
    case KEY_NODE_POS: return &p->node_pos;
    case KEY_EDGE_BIAS: return &p->edge_bias;
    default: return NULL;
    }
}

static int read_scale(const char *text, arguments *a)
{
    int status = read_number("--scale", text, &a->scale);
    a->has_scale = 1;
    if (status == CLI_GOOD && !isfinite((float)a->scale))
        return complain(CLI_USAGE, "--scale: %s does not fit float32", text);
    return status;
}

static int check_paths(const arguments *a)
{
    const attend_paths *p = &a->paths;
    if (!a->variant.name) return complain(CLI_USAGE, "attend: VARIANT is missing");
    if (!p->query) return complain(CLI_USAGE, "--query FILE is missing");
    if (!p->key) return complain(CLI_USAGE, "--key FILE is missing");
    if (!p->value) return complain(CLI_USAGE, "--value FILE is missing");
    if (!p->out) return complain(CLI_USAGE, "--out FILE is missing");
    if (p->lse && outfile_same(p->lse, p->out))
        return complain(CLI_USAGE, "--lse: '%s' is --out's file as well", p->lse);
    return CLI_GOOD;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->variant;
        state->child_inputs[1] = &a->options;
        return 0;
    case KEY_SCALE: return arguments_said(read_scale(value, a));
    case KEY_GRADIENT: return arguments_said(complain(CLI_USAGE, "--grad-*: this version computes no gradients"));
    case ARGP_KEY_END: return arguments_said(check_paths(a));
    default: break;
    }
    const char **path = path_of(&a->paths, key);
    if (!path) return ARGP_ERR_UNKNOWN;
    *path = value;
    return 0;
}

#define GRADIENT(name)                                     \
    {                                                      \
        name, KEY_GRADIENT, "FILE", OPTION_HIDDEN, NULL, 0 \
    }
static const struct argp_option options[] = {
    {"query", KEY_QUERY, "FILE", 0, "query tensor, [rows][dim] or [rows][heads][dim]; - is standard input", 2},
    {"key", KEY_KEY, "FILE", 0, "key tensor; its heads divide the query's", 2},
    {"value", KEY_VALUE, "FILE", 0, "value tensor, with the key's rows and heads", 2},
    {"out", KEY_OUT, "FILE", 0, "where the output goes; - is standard output", 2},
    {"lse", KEY_LSE, "FILE", 0, "where the log of the softmax denominators goes (default: nowhere)", 3},
    {"rel-key", KEY_REL_KEY, "FILE", 0, "added to keys by edge type, [types][dim] (default: none)", 4},
    {"rel-bias", KEY_REL_BIAS, "FILE", 0,
     "added to scores by edge type, [types][heads], or one column for all heads (default: none)", 4},
    {"node-pos", KEY_NODE_POS, "FILE", 0, "position embeddings, [nodes][c] (default: none)", 4},
    {"edge-bias", KEY_EDGE_BIAS, "FILE", 0,
     "added to scores, [edges][heads] or [edges], by destination, source, type (default: none)", 4},
    {"scale", KEY_SCALE, "S", 0, "factor of q . k (default: 1 / sqrt(dim))", 4},
    GRADIENT("grad-out"),
    GRADIENT("grad-query"),
    GRADIENT("grad-key"),
    GRADIENT("grad-value"),
    GRADIENT("grad-rel-key"),
    GRADIENT("grad-rel-bias"),
    GRADIENT("grad-node-pos"),
    GRADIENT("grad-alpha"),
    GRADIENT("grad-edge-bias"),
    {0},
};

/* ---- the work ---- */

static int execute(const model *m, const hga_options *o, const attend_io *a)
{
    return complain_of(hga_attention(m->graph, &m->program, &a->shape, o, &a->io), m->from_file ? CLI_DATA : CLI_USAGE,
                       m->title);
}

/* both files appear, or none */
static int write_results(const attend_paths *paths, const attend_io *a)
{
    outfile out = {0}, lse = {0};
    int status = CLI_GOOD, heads = a->query.array.n_dims == 3;
    int64_t out_dim[3] = {a->out_rows, heads ? a->query.heads : a->value.columns, a->value.columns},
            lse_dim[2] = {a->out_rows, a->query.heads};
    TRY(outfile_open(paths->out, &out));
    TRY(npy_write_real(&out, a->out, heads ? 3 : 2, out_dim));
    TRY(outfile_flush(&out));
    if (paths->lse) {
        TRY(outfile_open(paths->lse, &lse));
        TRY(npy_write_real(&lse, a->lse, heads ? 2 : 1, lse_dim));
        TRY(outfile_keep(&lse));
    }
    TRY(outfile_keep(&out));
done:
    outfile_drop(&lse);
    outfile_drop(&out);
    return status;
}

int run_attend(int argc, char **argv)
{
    struct argp_child children[] = {{&variant_argp, 0, NULL, 0}, {&machine_argp, 0, NULL, 0}, {0}};
    struct argp argp = {options, parse, "VARIANT", "Attention on tensors from .npy files.\v", children, NULL, NULL};
    arguments a = {0};
    attend_io io = {0};
    model m = {0};
    int status = CLI_GOOD;
    TRY(arguments_parse(&argp, argc, argv, &a));
    TRY(attend_io_read(&a.paths, &io));
    model_tensors tensors = attend_io_tensors(&io);
    TRY(model_build(&a.variant, &tensors, &m));
    TRY(attend_io_bind(&a.paths, &m, a.has_scale ? &a.scale : NULL, &io));
    TRY(execute(&m, &a.options, &io));
    TRY(write_results(&a.paths, &io));
done:
    attend_io_clear(&io);
    model_clear(&m);
    return status;
}
