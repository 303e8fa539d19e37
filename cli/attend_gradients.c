/* attend_gradients.c: the way back of `hga attend`. */
#include "attend_gradients.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "attend_tree.h"
#include "ordered.h"
#include "outfile.h"

/* ---- the command line ---- */

enum { KEY_OUT = 0x2600, KEY_LSE, KEY_DROPOUT, KEY_SEED, KEY_LAYER, KEY_WANTED };

static const char *const option_names[N_GRADIENTS] = {
    "--grad-query",   "--grad-key",       "--grad-value",       "--grad-rel-key",  "--grad-rel-bias", "--grad-node-pos",
    "--grad-alpha",   "--grad-edge-bias", "--grad-scale",       "--grad-log-mass", "--grad-sink",     "--grad-slopes",
    "--grad-weights", "--grad-bias",      "--grad-key-weights", "--grad-key-bias"};

static int read_dropout(const char *text, gradient_arguments *a)
{
    int status = read_number("--dropout", text, &a->dropout);
    if (status == CLI_GOOD && !(a->dropout >= 0 && (float)a->dropout < 1))
        return complain(CLI_USAGE, "--dropout: %s is not in [0, 1)", text);
    return status;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    gradient_arguments *a = state->input;
    switch (key) {
    case KEY_OUT: a->out = value; return 0;
    case KEY_LSE: a->lse = value; return 0;
    case KEY_DROPOUT: return arguments_said(read_dropout(value, a));
    case KEY_SEED: a->seeded = 1; return arguments_said(read_whole("--seed", value, 0, INT64_MAX, &a->seed));
    case KEY_LAYER: return arguments_said(read_id("--layer", value, 0, (1 << 24) - 1, &a->layer));
    default: break;
    }
    if (key < KEY_WANTED || key >= KEY_WANTED + N_GRADIENTS) return ARGP_ERR_UNKNOWN;
    a->wanted[key - KEY_WANTED] = value;
    return 0;
}

static const struct argp_option gradient_options[] = {
    {"dropout", KEY_DROPOUT, "P", 0, "drop weights of attention with this probability (default: 0)", 5},
    {"seed", KEY_SEED, "N", 0, "which weights are dropped: a seed and a layer drop the same ones in every run", 5},
    {"layer", KEY_LAYER, "N", 0, "see --seed (default: 0)", 5},
    {"grad-out", KEY_OUT, "FILE", 0, "read: the gradient of the loss with respect to the output, in its shape", 6},
    {"grad-lse", KEY_LSE, "FILE", 0, "read: the gradient of the loss with respect to --lse (default: 0)", 6},
    {"grad-query", KEY_WANTED + GRADIENT_QUERY, "FILE", 0, "write the gradient of the query, in its shape", 6},
    {"grad-key", KEY_WANTED + GRADIENT_KEY, "FILE", 0, "write the gradient of the key", 6},
    {"grad-value", KEY_WANTED + GRADIENT_VALUE, "FILE", 0, "write the gradient of the value", 6},
    {"grad-rel-key", KEY_WANTED + GRADIENT_REL_KEY, "FILE", 0, "write the gradient of --rel-key, summed over a batch",
     6},
    {"grad-rel-bias", KEY_WANTED + GRADIENT_REL_BIAS, "FILE", 0, "write the gradient of --rel-bias", 6},
    {"grad-node-pos", KEY_WANTED + GRADIENT_NODE_POS, "FILE", 0, "write the gradient of --node-pos", 6},
    {"grad-alpha", KEY_WANTED + GRADIENT_ALPHA, "FILE", 0, "write the gradient of -p alpha", 6},
    {"grad-edge-bias", KEY_WANTED + GRADIENT_EDGE_BIAS, "FILE", 0, "write the gradient of --edge-bias", 6},
    {"grad-scale", KEY_WANTED + GRADIENT_SCALE, "FILE", 0,
     "write the gradient of the scale of scores, [1], given or not", 6},
    {"grad-log-mass", KEY_WANTED + GRADIENT_LOG_MASS, "FILE", 0,
     "write the gradient of every node's log mass in the scores of its edges, [nodes], added there or not", 6},
    {"grad-sink", KEY_WANTED + GRADIENT_SINK, "FILE", 0, "write the gradient of --sink, [heads]", 6},
    {"grad-slopes", KEY_WANTED + GRADIENT_SLOPES, "FILE", 0, "write the gradient of --slopes, [heads]", 6},
    {"grad-weights", KEY_WANTED + GRADIENT_WEIGHTS, "FILE", 0,
     "write the straight-through gradient of -p weights: hyperplanes that route queries, and keys without their own",
     6},
    {"grad-bias", KEY_WANTED + GRADIENT_BIAS, "FILE", 0, "write the gradient of -p bias", 6},
    {"grad-key-weights", KEY_WANTED + GRADIENT_KEY_WEIGHTS, "FILE", 0, "write the gradient of -p key-weights", 6},
    {"grad-key-bias", KEY_WANTED + GRADIENT_KEY_BIAS, "FILE", 0, "write the gradient of -p key-bias", 6},
    {0},
};
const struct argp gradient_argp = {.options = gradient_options, .parser = parse};

int gradients_wanted(const gradient_arguments *typed)
{
    int wanted = 0;
    for (int i = 0; i < N_GRADIENTS; i++) wanted |= typed->wanted[i] != NULL;
    return wanted;
}

/* Weights are dropped where there are any. */
int gradients_bind_dropout(const gradient_arguments *typed, const model *m, attend_io *one)
{
    if (typed->dropout > 0 && !score_stage(&m->program))
        return complain(CLI_USAGE, "--dropout: %s computes no scores", m->title);
    one->io.seed = (uint64_t)typed->seed, one->io.layer = (uint32_t)typed->layer;
    return CLI_GOOD;
}

static int check_files(const gradient_arguments *typed, const attend_paths *paths, const char *node_map)
{
    enum { OTHERS = 3 };
    outfile_wish all[OTHERS + N_GRADIENTS] = {{"--out", paths->out}, {"--lse", paths->lse}, {"--node-map", node_map}};
    for (int i = 0; i < N_GRADIENTS; i++) all[OTHERS + i] = (outfile_wish){option_names[i], typed->wanted[i]};
    return outfiles_apart(all, OTHERS + N_GRADIENTS);
}

int gradients_check(const gradient_arguments *typed, const attend_paths *paths, const typed_modifiers *modifiers,
                    const char *node_map)
{
    const struct {
        gradient_of of;
        const char *input, *given;
    } needs[] = {
        {GRADIENT_REL_KEY, "--rel-key", paths->rel_key},    {GRADIENT_REL_BIAS, "--rel-bias", paths->rel_bias},
        {GRADIENT_NODE_POS, "--node-pos", paths->node_pos}, {GRADIENT_EDGE_BIAS, "--edge-bias", paths->edge_bias},
        {GRADIENT_SINK, "--sink", modifiers->sink},         {GRADIENT_SLOPES, "--slopes", modifiers->slopes}};
    for (int i = 0; i < N_GRADIENTS; i++)
        if (typed->wanted[i] && !typed->out) return complain(CLI_USAGE, "%s needs --grad-out FILE", option_names[i]);
    if (typed->lse && !typed->out) return complain(CLI_USAGE, "--grad-lse needs --grad-out FILE");
    if (typed->out && !gradients_wanted(typed))
        return complain(CLI_USAGE, "--grad-out: no gradient is to be written; --grad-query FILE writes one");
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++)
        if (typed->wanted[needs[i].of] && !needs[i].given)
            return complain(CLI_USAGE, "%s needs %s FILE", option_names[needs[i].of], needs[i].input);
    if (typed->dropout == 0 && typed->layer != 0 && !typed->seeded)
        return complain(CLI_USAGE, "--layer needs --dropout P and --seed N");
    return check_files(typed, paths, node_map);
}

/* ---- what is given ---- */

/* The gradient of LSE has LSE's shape: the query's without its last axis. */
static int read_lse(const char *path, const tensor_file *q, npy *lse)
{
    char shape[200];
    float *ordered = NULL;
    int status = CLI_GOOD;
    TRY(npy_read_real(path, lse));
    int64_t heads = q->axes > 2 ? q->heads : 1, rows = lse->count / heads / q->samples;
    int swapped = q->axes > 2 && layout_heads_first(q->layout), n = 0, fits = lse->n_dims == q->axes - 1;
    if (fits && q->axes == 4) fits = lse->dim[n++] == q->samples;
    if (fits && q->axes > 2) fits = lse->dim[n + !swapped] == heads;
    if (!fits)
        TRY(complain(CLI_DATA, "%s: has the shape %s, which is not the log-sum-exp's", path,
                     npy_shape(lse->n_dims, lse->dim, shape)));
    if (!swapped) goto done;
    TRY(layout_swap(lse->real, q->samples, heads, rows, 1, &ordered));
    free(lse->real);
    lse->real = ordered;
done:
    return status;
}

static int open_given(const gradient_arguments *typed, const typed_variant *variant, const attend_io *all,
                      int (*read)(const char *path, tensor_layout layout, tensor_file *t), attend_gradients *g)
{
    int status = CLI_GOOD;
    g->typed = typed, g->variant = variant;
    if (!typed->out) goto done;
    TRY(read(typed->out, all->query.layout, &g->out));
    if (g->out.samples != all->query.samples || g->out.heads != all->query.heads ||
        g->out.columns != all->value.columns)
        TRY(complain(CLI_DATA, "%s: has %d samples of %d heads of %d, the output has %d of %d of %d", typed->out,
                     g->out.samples, g->out.heads, g->out.columns, all->query.samples, all->query.heads,
                     all->value.columns));
    if (typed->lse) TRY(read_lse(typed->lse, &all->query, &g->lse));
done:
    return status;
}

int gradients_open_sizes(const gradient_arguments *typed, const typed_variant *variant, const attend_io *all,
                         attend_gradients *g)
{
    return open_given(typed, variant, all, tensor_file_read_sizes, g);
}

int gradients_open(const gradient_arguments *typed, const typed_variant *variant, const attend_io *all,
                   attend_gradients *g)
{
    int status = open_given(typed, variant, all, tensor_file_read, g);
    for (int i = 0; !status && i < N_GRADIENTS; i++)
        if (typed->wanted[i]) status = outfile_open(typed->wanted[i], &g->file[i]);
    return status;
}

int gradients_check_given(const attend_gradients *g, const model *m, const attend_io *one)
{
    if (g->out.rows != one->out_rows)
        return complain(CLI_DATA, "%s: has %d rows, the output has %d", g->typed->out, g->out.rows, one->out_rows);
    if (g->typed->lse && !m->program.has_lse)
        return complain(CLI_USAGE, "--grad-lse: %s has no softmax denominator", m->title);
    if (g->typed->lse && g->lse.count != (int64_t)g->out.samples * g->out.rows * g->out.heads)
        return complain(CLI_DATA, "%s: has %lld numbers, the log-sum-exp has %lld", g->typed->lse,
                        (long long)g->lse.count, (long long)g->out.samples * g->out.rows * g->out.heads);
    const gradient_of scored[] = {GRADIENT_SCALE, GRADIENT_LOG_MASS};
    for (size_t i = 0; i < sizeof scored / sizeof scored[0]; i++)
        if (g->typed->wanted[scored[i]] && !score_stage(&m->program))
            return complain(CLI_USAGE, "%s: %s computes no scores", option_names[scored[i]], m->title);
    if (g->typed->wanted[GRADIENT_ALPHA] && !one->io.type_scale.data)
        return complain(CLI_USAGE, "--grad-alpha: %s has no weights alpha", m->title);
    return CLI_GOOD;
}

/* ---- room ---- */

static void shape_like(const npy *a, int *n_dims, int64_t *dim)
{
    *n_dims = a->n_dims;
    memcpy(dim, a->dim, sizeof a->dim);
}

/* The axes of what samples share: those of the file that it is the gradient of. */
static void find_shape(const model *m, const attend_io *one, gradient_of of, int *n_dims, int64_t *dim)
{
    *n_dims = 1;
    switch (of) {
    case GRADIENT_REL_KEY: shape_like(&one->rel_key, n_dims, dim); return;
    case GRADIENT_REL_BIAS: shape_like(&one->rel_bias, n_dims, dim); return;
    case GRADIENT_NODE_POS: shape_like(&one->node_pos, n_dims, dim); return;
    case GRADIENT_EDGE_BIAS: shape_like(&one->edge_bias, n_dims, dim); return;
    case GRADIENT_ALPHA: dim[0] = one->io.type_scale.rows; return;
    case GRADIENT_LOG_MASS: dim[0] = hga_graph_nodes(m->graph).n; return;
    case GRADIENT_SINK:
    case GRADIENT_SLOPES: dim[0] = one->shape.n_heads; return;
    default: dim[0] = 1; return;
    }
}

const tensor_file *gradient_tensor(const attend_io *a, gradient_of of)
{
    return of == GRADIENT_QUERY ? &a->query : of == GRADIENT_KEY ? &a->key : of == GRADIENT_VALUE ? &a->value : NULL;
}

static int64_t count_of(int n_dims, const int64_t *dim)
{
    int64_t n = 1;
    for (int i = 0; i < n_dims; i++) n *= dim[i];
    return n;
}

/* Where a gradient of all samples is summed; samples must agree on what they share. */
static int open_sum(const model *m, const attend_io *all, const attend_io *one, gradient_of of, attend_gradients *g)
{
    int n_dims = 1, status = CLI_GOOD;
    int64_t dim[NPY_MAX_DIMS] = {0};
    const tensor_file *t = gradient_tensor(all, of);
    if (t)
        dim[0] = t->array.count * all->query.samples;
    else if (of >= GRADIENT_WEIGHTS)
        TRY(attend_tree_shape(g->variant, of, &n_dims, dim));
    else
        find_shape(m, one, of, &n_dims, dim);
    int64_t n = count_of(n_dims, dim);
    if (g->sum[of] && n != count_of(g->n_dims[of], g->dim[of]))
        return complain(CLI_DATA, "%s: the samples of %s have different graphs", option_names[of], m->title);
    if (g->sum[of]) return CLI_GOOD;
    g->n_dims[of] = n_dims;
    memcpy(g->dim[of], dim, sizeof dim);
    TRY(take(n, sizeof(float), &g->sum[of]));
done:
    return status;
}

/* ---- a sample ---- */

static int64_t engine_count(const model *m, const attend_io *one, gradient_of of)
{
    const tensor_file *t = gradient_tensor(one, of);
    hga_id heads = one->query.heads;
    int wide = one->shape.n_heads == 1 && heads > 1; /* trees by head: a key and value for each query head */
    switch (of) {
    case GRADIENT_REL_KEY: return one->rel_key.count;
    case GRADIENT_REL_BIAS: return (int64_t)one->io.rel_bias.rows * one->shape.n_heads;
    case GRADIENT_EDGE_BIAS: return one->edge_bias.count;
    case GRADIENT_ALPHA: return one->io.type_scale.rows;
    case GRADIENT_NODE_POS: return one->node_pos.count;
    case GRADIENT_LOG_MASS: return hga_graph_nodes(m->graph).n;
    case GRADIENT_SCALE: return 1;
    case GRADIENT_SINK:
    case GRADIENT_SLOPES: return one->shape.n_heads;
    default: return (int64_t)t->rows * (wide ? heads : t->heads) * t->columns;
    }
}

/* [rows][heads][columns] is added to [rows][narrow heads][columns], each head to its group's. */
static void add_heads(const float *x, int64_t rows, int64_t heads, int64_t narrow, int64_t columns, float *sum)
{
    for (int64_t i = 0; i < rows * heads; i++)
        for (int64_t c = 0; c < columns; c++)
            sum[(i / heads * narrow + i % heads / (heads / narrow)) * columns + c] += x[i * columns + c];
}

/* Nodes in the caller's ids. */
static void add_nodes(const node_ids *map, const float *x, hga_id nodes, int64_t columns, float *sum)
{
    for (hga_id i = 0; i < nodes; i++)
        for (int64_t c = 0; c < columns; c++) sum[i * columns + c] += x[node_ids_at(map, i) * columns + c];
}

void gradients_add_sample(const model *m, const attend_io *one, hga_id sample, const sample_gradients *s,
                          attend_gradients *g)
{
    hga_id heads = one->query.heads, nodes = hga_graph_nodes(m->graph).n;
    for (gradient_of i = 0; i < N_GRADIENTS; i++) {
        const tensor_file *t = gradient_tensor(one, i);
        if (!s->of[i] || !g->sum[i]) continue;
        if (t) {
            int64_t in_use = s->n[i] / t->rows / t->columns;
            add_heads(s->of[i], t->rows, in_use, t->heads, t->columns, g->sum[i] + sample * t->array.count);
        } else if (i == GRADIENT_NODE_POS || i == GRADIENT_LOG_MASS)
            add_nodes(&m->map, s->of[i], nodes, s->n[i] / nodes, g->sum[i]);
        else if (i == GRADIENT_REL_BIAS && one->rel_bias_shared)
            add_heads(s->of[i], s->n[i] / heads, heads, 1, 1, g->sum[i]);
        else
            add_heads(s->of[i], s->n[i], 1, 1, 1, g->sum[i]);
    }
}

/* What the engine is given and asked for. */
static hga_grad_io bind_gradients(const attend_io *one, hga_id sample, const attend_gradients *g,
                                  const sample_gradients *s)
{
    int64_t lse = (int64_t)g->out.rows * g->out.heads;
    return (hga_grad_io){.d_out = {.data = g->out.array.real + sample * g->out.array.count, .rows = one->io.out.rows},
                         .d_lse = {.data = g->lse.real ? g->lse.real + sample * lse : NULL, .rows = one->io.out.rows},
                         .d_query = {.data = s->of[GRADIENT_QUERY], .rows = one->io.query.rows},
                         .d_key = {.data = s->of[GRADIENT_KEY], .rows = one->io.key.rows},
                         .d_value = {.data = s->of[GRADIENT_VALUE], .rows = one->io.value.rows},
                         .d_rel_key = s->of[GRADIENT_REL_KEY],
                         .d_rel_bias = s->of[GRADIENT_REL_BIAS],
                         .d_edge_bias = s->of[GRADIENT_EDGE_BIAS],
                         .d_node_pos = s->of[GRADIENT_NODE_POS],
                         .d_type_scale = s->of[GRADIENT_ALPHA],
                         .d_log_mass = s->of[GRADIENT_LOG_MASS],
                         .d_scale = s->of[GRADIENT_SCALE],
                         .d_sink = s->of[GRADIENT_SINK],
                         .d_slopes = s->of[GRADIENT_SLOPES]};
}

/* Forward with a tape, and back. */
static int there_and_back(const model *m, const hga_options *options, attend_io *one, const hga_grad_io *grad)
{
    hga_plan *plan = NULL;
    hga_workspace *workspace = NULL;
    char *tape = NULL;
    ordered_call c = {0};
    int status = CLI_GOOD, blame = m->from_file ? CLI_DATA : CLI_USAGE;
    hga_options mine = *options;
    mine.gradient = 1;
    TRY(complain_of(hga_plan_create(ordered_graph(m), &m->program, &one->shape, &mine, &plan), blame, m->title));
    TRY(complain_of(hga_workspace_create(plan, &workspace), blame, m->title));
    TRY(take(hga_plan_tape_bytes(plan), 1, &tape));
    TRY(ordered_open(m, &one->shape, &one->io, grad, &c));
    c.io.tape = tape;
    TRY(complain_of(hga_plan_execute(plan, workspace, &c.io), blame, m->title));
    TRY(complain_of(hga_plan_gradient(plan, workspace, &c.io, &c.grad), blame, m->title));
    ordered_return(&c);
done:
    ordered_close(&c);
    free(tape);
    hga_workspace_destroy(workspace);
    hga_plan_destroy(plan);
    return status;
}

int gradients_open_sample(const model *m, const attend_io *all, const attend_io *one, hga_id sample,
                          attend_gradients *g, sample_gradients *s, hga_grad_io *grad)
{
    int status = CLI_GOOD;
    for (gradient_of i = 0; i < N_GRADIENTS; i++) {
        if (g->typed->wanted[i]) TRY(open_sum(m, all, one, i, g));
        int asked =
            g->typed->wanted[i] || (i == GRADIENT_LOG_MASS && attend_tree_is_wanted(g) && score_stage(&m->program));
        if (!asked || i >= GRADIENT_WEIGHTS) continue;
        s->n[i] = engine_count(m, one, i);
        TRY(take(s->n[i], sizeof(float), &s->of[i]));
    }
    *grad = bind_gradients(one, sample, g, s);
done:
    return status;
}

void gradients_close_sample(sample_gradients *s)
{
    for (int i = 0; i < N_GRADIENTS; i++) free(s->of[i]);
}

int gradients_run(const model *m, const hga_options *options, const attend_io *all, hga_id sample, attend_io *one,
                  attend_gradients *g)
{
    sample_gradients s = {0};
    hga_grad_io grad;
    int status = CLI_GOOD;
    TRY(gradients_check_given(g, m, one));
    TRY(gradients_open_sample(m, all, one, sample, g, &s, &grad));
    TRY(there_and_back(m, options, one, &grad));
    if (attend_tree_is_wanted(g)) TRY(attend_tree_add(m, one, sample, s.of[GRADIENT_LOG_MASS], g));
    gradients_add_sample(m, one, sample, &s, g);
done:
    gradients_close_sample(&s);
    return status;
}

/* ---- files ---- */

int gradients_flush(const attend_io *all, element type, attend_gradients *g)
{
    int status = CLI_GOOD;
    for (gradient_of i = 0; i < N_GRADIENTS; i++) {
        const tensor_file *t = gradient_tensor(all, i);
        if (!g->typed->wanted[i]) continue;
        if (t)
            TRY(tensor_file_write(&g->file[i], t, t->rows, t->columns, type, g->sum[i]));
        else
            TRY(npy_write_as(&g->file[i], type, g->sum[i], g->n_dims[i], g->dim[i]));
        TRY(outfile_flush(&g->file[i]));
    }
done:
    return status;
}

int gradients_keep(attend_gradients *g)
{
    int status = CLI_GOOD;
    for (int i = 0; i < N_GRADIENTS; i++)
        if (g->typed->wanted[i]) TRY(outfile_keep(&g->file[i]));
done:
    return status;
}

void gradients_clear(attend_gradients *g)
{
    for (int i = 0; i < N_GRADIENTS; i++) {
        outfile_drop(&g->file[i]);
        free(g->sum[i]);
    }
    npy_clear(&g->out.array);
    npy_clear(&g->lse);
    *g = (attend_gradients){0};
}
