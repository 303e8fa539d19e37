/* attend.c: hga attend, attention on tensors from .npy files. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "attend_gradients.h"
#include "command.h"
#include "modifiers.h"
#include "outfile.h"

typedef struct arguments {
    typed_variant variant;
    hga_options options;
    attend_paths paths;
    gradient_arguments gradients;
    tensor_layout layout;
    typed_modifiers modifiers;
    const char *out_type;
    double scale;
    int has_scale, quiet;
    const char *node_map;
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
    KEY_LAYOUT,
    KEY_OUT_TYPE,
    KEY_QUIET,
    KEY_NODE_MAP
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
    return gradients_check(&a->gradients, p, &a->modifiers);
}

static int check_type(const char *text)
{
    element type;
    if (strcmp(text, "same") == 0 || element_of_option(text, &type)) return CLI_GOOD;
    return complain(CLI_USAGE, "--out-type: '%s' is not one of: f16 bf16 f32 f64 same", text);
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->variant;
        state->child_inputs[1] = &a->options;
        state->child_inputs[2] = &a->gradients;
        state->child_inputs[3] = &a->modifiers;
        return 0;
    case KEY_SCALE: return arguments_said(read_scale(value, a));
    case KEY_LAYOUT: return arguments_said(read_layout(value, &a->layout));
    case KEY_OUT_TYPE: a->out_type = value; return arguments_said(check_type(value));
    case KEY_NODE_MAP: a->node_map = value; return 0;
    case KEY_QUIET: a->quiet = 1; return 0;
    case ARGP_KEY_END: return arguments_said(check_paths(a));
    default: break;
    }
    const char **path = path_of(&a->paths, key);
    if (!path) return ARGP_ERR_UNKNOWN;
    *path = value;
    return 0;
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
    {"layout", KEY_LAYOUT, "L", 0,
     "of query, key, value and what comes out: nhd, or hnd as torch has it; a fourth axis in front is a batch, on "
     "which "
     "bnhd and bhnd insist (default: nhd)",
     3},
    {"out-type", KEY_OUT_TYPE, "T", 0, "of what comes out: f16 bf16 f32 f64, or same, the query's (default: f32)", 3},
    {"node-map", KEY_NODE_MAP, "FILE", 0, "write [nodes] int32: the caller's id of each node, for hsa with parent", 3},
    {"quiet", KEY_QUIET, NULL, 0, "leave out the line on stderr that says how the tensors were read", 3},
    {0},
};

/* ---- the work ---- */

/* Weights are dropped where there are any. */
static int bind_dropout(const gradient_arguments *typed, const model *m, attend_io *one)
{
    if (typed->dropout > 0 && !score_stage(&m->program))
        return complain(CLI_USAGE, "--dropout: %s computes no scores", m->title);
    one->io.seed = (uint64_t)typed->seed, one->io.layer = (uint32_t)typed->layer;
    return CLI_GOOD;
}

static int execute(const model *m, const hga_options *o, const attend_io *a)
{
    return complain_of(hga_attention(m->graph, &m->program, &a->shape, o, &a->io), m->from_file ? CLI_DATA : CLI_USAGE,
                       m->title);
}

/* What all samples give: [samples][rows][heads][columns] and [samples][rows][heads]. */
typedef struct results {
    hga_id rows;
    float *out, *lse;
} results;

/* Routing looks at a sample's own tensors; everything else is one graph for samples that are equally long. */
static int build_for(const arguments *a, const attend_io *one, model *m)
{
    const hga_variant *v = hga_variant_named(a->variant.name);
    model_tensors tensors = attend_io_tensors(one);
    if (m->graph && !(v && v->can & HGA_NEEDS_LEAVES)) return CLI_GOOD;
    model_clear(m);
    return model_build(&a->variant, &tensors, m);
}

/* One sample: its model, its execution, its rows of the results. */
static int run_sample(const arguments *a, const attend_io *all, hga_id sample, model *m, attend_gradients *g,
                      results *r)
{
    attend_io one = attend_io_sample(all, sample);
    int status = CLI_GOOD;
    TRY(build_for(a, &one, m));
    TRY(modifiers_put(&a->modifiers, m));
    TRY(attend_io_bind(&a->paths, m, a->has_scale ? &a->scale : NULL, &one));
    TRY(modifiers_bind(&a->modifiers, &one));
    if (sample == 0 && !a->quiet) tensor_file_say(&all->query);
    TRY(bind_dropout(&a->gradients, m, &one));
    TRY(gradients_wanted(&a->gradients) ? gradients_run(m, &a->options, all, sample, &one, g)
                                        : execute(m, &a->options, &one));
    if (sample == 0 && a->node_map) TRY(model_write_node_map(m, a->node_map)); /* all samples have one graph */
    int64_t heads = (int64_t)one.out_rows * all->query.heads, columns = all->value.columns;
    r->rows = one.out_rows;
    if (!r->out) TRY(take(all->query.samples * heads * columns, sizeof *r->out, &r->out));
    if (!r->lse && one.lse) TRY(take(all->query.samples * heads, sizeof *r->lse, &r->lse));
    memcpy(r->out + sample * heads * columns, one.out, (size_t)(heads * columns) * sizeof *one.out);
    if (one.lse) memcpy(r->lse + sample * heads, one.lse, (size_t)heads * sizeof *one.lse);
done:
    attend_io_clear(&one);
    return status;
}

/* Where results go, opened before anything is computed, so that a path that cannot be written is known at once. */
typedef struct targets {
    outfile out, lse;
} targets;

static int targets_open(const attend_paths *paths, targets *t)
{
    int status = outfile_open(paths->out, &t->out);
    return status || !paths->lse ? status : outfile_open(paths->lse, &t->lse);
}

/* all files appear, or none */
static int write_results(const arguments *a, const attend_io *all, const results *r, attend_gradients *g, targets *t)
{
    element type = ELEMENT_F32;
    int status = CLI_GOOD;
    if (a->out_type && !element_of_option(a->out_type, &type)) type = all->query.array.type;
    TRY(tensor_file_write(&t->out, &all->query, r->rows, all->value.columns, type, r->out));
    TRY(outfile_flush(&t->out));
    TRY(gradients_flush(all, type, g));
    if (a->paths.lse) {
        TRY(tensor_file_write(&t->lse, &all->query, r->rows, 0, type, r->lse));
        TRY(outfile_keep(&t->lse));
    }
    TRY(gradients_keep(g));
    TRY(outfile_keep(&t->out));
done:
    return status;
}

int run_attend(int argc, char **argv)
{
    struct argp_child children[] = {{&variant_argp, 0, NULL, 0},
                                    {&machine_argp, 0, NULL, 0},
                                    {&gradient_argp, 0, NULL, 0},
                                    {&modifiers_argp, 0, NULL, 0},
                                    {0}};
    struct argp argp = {options, parse, "VARIANT", "Attention on tensors from .npy files.\v", children, NULL, NULL};
    arguments a = {0};
    attend_io all = {0};
    results r = {0};
    targets t = {0};
    attend_gradients g = {0};
    model m = {0};
    int status = CLI_GOOD;
    TRY(arguments_parse(&argp, argc, argv, &a));
    a.options.dropout = (float)a.gradients.dropout;
    TRY(attend_io_read(&a.paths, a.layout, &all));
    TRY(gradients_open(&a.gradients, &a.variant, &all, &g));
    TRY(targets_open(&a.paths, &t));
    for (hga_id s = 0; s < all.query.samples; s++) TRY(run_sample(&a, &all, s, &m, &g, &r));
    TRY(write_results(&a, &all, &r, &g, &t));
done:
    model_clear(&m);
    gradients_clear(&g);
    outfile_drop(&t.lse);
    outfile_drop(&t.out);
    free(r.out);
    free(r.lse);
    attend_io_clear(&all);
    return status;
}
