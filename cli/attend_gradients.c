/* attend_gradients.c: the backward pass of `hga attend`. */
#include "attend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "ordered.h"

/* ---- the command line ---- */

enum { GROUP = 6 };

static const struct {
    const char *name, *says;
} tensors[GRADIENT_TABLE] = {{"query", "write the gradient of the query, in its shape"},
                             {"key", "write the gradient of the key"},
                             {"value", "write the gradient of the value"}};

const hga_call_row *gradient_row(gradient_of of)
{
    return of >= GRADIENT_TABLE ? &hga_call_tables()[of - GRADIENT_TABLE] : NULL;
}

const char *gradient_name(gradient_of of) { return of < GRADIENT_TABLE ? tensors[of].name : gradient_row(of)->option; }

const char *gradient_option(gradient_of of)
{
    static char option[N_GRADIENTS][64];
    snprintf(option[of], sizeof option[of], "--grad-%s", gradient_name(of));
    return option[of];
}

static int read_dropout(const char *text, void *input)
{
    gradient_arguments *a = input;
    MUST(read_number("--dropout", text, &a->dropout));
    if (!(a->dropout >= 0 && (float)a->dropout < 1)) return complain(CLI_USAGE, "--dropout: %s is not in [0, 1)", text);
    return CLI_GOOD;
}

static const option_row first_options[] = {
    {"dropout", READ(read_dropout), "P", ARGUMENTS_MORE, "drop weights of attention with this probability (default: 0)",
     5},
    {"seed", WHOLE(gradient_arguments, seed, 0, INT64_MAX), "N", ARGUMENTS_MORE,
     "which weights are dropped: a seed and a layer drop the same ones in every run (default: 0)", 5},
    {"layer", ID(gradient_arguments, layer, 0, (1 << 24) - 1), "N", ARGUMENTS_MORE, "see --seed (default: 0)", 5},
    {"grad-out", TEXT(gradient_arguments, out), "FILE", ARGUMENTS_MORE,
     "read: the gradient of the loss with respect to the output, in its shape", GROUP},
    {"grad-lse", TEXT(gradient_arguments, lse), "FILE", ARGUMENTS_MORE,
     "read: the gradient of the loss with respect to --lse (default: 0)", GROUP},
    {"grad-edge-out", TEXT(gradient_arguments, edge_out), "FILE", ARGUMENTS_MORE,
     "read: the gradient of the loss with respect to --edge-out (default: 0)", GROUP},
};
enum { N_FIRST = sizeof first_options / sizeof *first_options };

/* "write the gradient of --rel-key, [types][dim], summed over a batch" */
static void describe(const hga_call_row *row, size_t capacity, char *text)
{
    char shape[CALL_SHAPE_CAPACITY];
    int graph = row->is & HGA_CALL_OF_GRAPH, variant = row->is & HGA_CALL_BY_VARIANT;
    snprintf(text, capacity, "write the gradient of %s%s, %s%s, summed over a batch",
             graph     ? ""
             : variant ? "-p "
                       : "--",
             graph ? row->says : row->option, call_shape(row, shape), row->member ? ", given or not" : "");
}

/* One option for each gradient that the library can give, made of the rows of its tables. */
const option_list *gradient_list(void)
{
    static option_row rows[N_FIRST + N_GRADIENTS + 1];
    static char says[N_GRADIENTS][256];
    static const option_list list = {.rows = rows};
    option_row *out = rows + N_FIRST;
    memcpy(rows, first_options, sizeof first_options);
    for (gradient_of i = 0; i < N_GRADIENTS; i++) {
        const hga_call_row *row = gradient_row(i);
        const option_value value = {.kind = OPTION_TEXT,
                                    .at = offsetof(gradient_arguments, requested) + i * sizeof(char *)};
        if (row && !(row->is & HGA_CALL_GRADIENT)) continue;
        if (row) describe(row, sizeof says[i], says[i]);
        *out++ = (option_row){gradient_option(i) + strlen("--"), value, "FILE", ARGUMENTS_MORE,
                              row ? says[i] : tensors[i].says,   GROUP};
    }
    return &list;
}

int gradients_requested(const gradient_arguments *typed)
{
    int requested = 0;
    for (int i = 0; i < N_GRADIENTS; i++) requested |= typed->requested[i] != NULL;
    return requested;
}

/* Refuses dropout where there are no weights. */
int gradients_bind_dropout(const gradient_arguments *typed, const model *m, attend_io *one)
{
    if (typed->dropout > 0 && !score_stage(&m->program))
        return complain(CLI_USAGE, "--dropout: %s computes no scores", m->title);
    one->io.seed = (uint64_t)typed->seed, one->io.layer = (uint32_t)typed->layer;
    return CLI_GOOD;
}

/* Refuses the gradient of a table that the call does not have, unless the program or the graph may have it. */
static int check_needs(gradient_of of, const typed_call *call)
{
    const hga_call_row *row = gradient_row(of);
    if (!row || row->member || !call_has_option(row) || call->text[of - GRADIENT_TABLE]) return CLI_GOOD;
    return complain(CLI_USAGE, "%s needs --%s %s", gradient_option(of), row->option,
                    call_is_number(row) ? "X" : "FILE");
}

/* Checks dependences: gradients need --grad-out, and that needs one of them. */
int gradients_check(const gradient_arguments *typed, const attend_paths *paths, const typed_call *call)
{
    for (gradient_of i = 0; i < N_GRADIENTS; i++)
        if (typed->requested[i] && !typed->out)
            return complain(CLI_USAGE, "%s needs --grad-out FILE", gradient_option(i));
    if (typed->lse && !typed->out) return complain(CLI_USAGE, "--grad-lse needs --grad-out FILE");
    if (typed->edge_out && !typed->out) return complain(CLI_USAGE, "--grad-edge-out needs --grad-out FILE");
    if (typed->edge_out && !paths->edge_out) return complain(CLI_USAGE, "--grad-edge-out needs --edge-out FILE");
    if (typed->out && !gradients_requested(typed))
        return complain(CLI_USAGE, "--grad-out: no gradient is to be written; --grad-query FILE writes one");
    for (gradient_of i = 0; i < N_GRADIENTS; i++)
        if (typed->requested[i]) MUST(check_needs(i, call));
    if (typed->dropout == 0 && typed->layer != 0 && !arguments_present("seed"))
        return complain(CLI_USAGE, "--layer needs --dropout P and --seed N");
    return CLI_GOOD;
}

/* ---- gradients that are read ---- */

/* The gradient of LSE has LSE's shape: the query's without its last axis. */
static int read_lse(const char *path, const tensor_file *q, hga_id out_rows, npy *lse)
{
    float *ordered = NULL;
    MUST(npy_read(path, NPY_REAL, lse));
    int64_t heads = q->axes > 2 ? q->heads : 1, rows = lse->count / heads / q->samples;
    int swapped = q->axes > 2 && layout_heads_first(q->layout), n = 0, fits = lse->n_dims == q->axes - 1;
    if (fits && q->axes == 4) fits = lse->dim[n++] == q->samples;
    if (fits && q->axes > 2) fits = lse->dim[n + !swapped] == heads;
    if (!fits) return complain(CLI_DATA, "%s: has the shape %s, which is not the log-sum-exp's", path, npy_shape(lse));
    if (rows != out_rows)
        return complain(CLI_DATA, "%s: has %lld numbers, the log-sum-exp has %lld", path, (long long)lse->count,
                        (long long)(q->samples * heads * out_rows));
    if (!swapped) return CLI_GOOD;
    MUST(layout_swap(lse->real, q->samples, heads, rows, 1, &ordered));
    free(lse->real);
    lse->real = ordered;
    return CLI_GOOD;
}

/* The gradient of the output must have the output's samples, heads and columns. */
int gradients_open(const gradient_arguments *typed, const attend_io *all, tensor_reader read, attend_gradients *g)
{
    g->typed = typed;
    if (!typed->out) return CLI_GOOD;
    MUST(read(typed->out, all->query.layout, &g->out));
    if (g->out.samples != all->query.samples || g->out.heads != all->query.heads ||
        g->out.columns != all->value.columns)
        return complain(CLI_DATA, "%s: has %d samples of %d heads of %d, the output has %d of %d of %d", typed->out,
                        g->out.samples, g->out.heads, g->out.columns, all->query.samples, all->query.heads,
                        all->value.columns);
    if (typed->lse) MUST(read_lse(typed->lse, &all->query, g->out.rows, &g->lse));
    if (typed->edge_out) MUST(read(typed->edge_out, all->query.layout, &g->edge_out));
    return CLI_GOOD;
}

/* Refuses the gradient of a table that neither the call nor the program or the graph has. */
static int check_there(gradient_of of, const model *m, const attend_io *one)
{
    const hga_call_row *row = gradient_row(of);
    if (!row) return CLI_GOOD;
    if (row->is & HGA_CALL_NEEDS_SCORES && !score_stage(&m->program))
        return complain(CLI_USAGE, "%s: %s computes no scores", gradient_option(of), m->title);
    if (row->is & HGA_CALL_BY_VARIANT && !one->io.table[of - GRADIENT_TABLE].data)
        return complain(CLI_USAGE, "%s: %s has no weights %s", gradient_option(of), m->title, row->option);
    return CLI_GOOD;
}

static int check_edge_out(const attend_gradients *g, const attend_io *one)
{
    const tensor_file *x = &g->edge_out;
    hga_id columns = one->io.edge_value.columns;
    if (x->samples == g->out.samples && x->rows == one->out_rows && x->heads == g->out.heads && x->columns == columns)
        return CLI_GOOD;
    return complain(CLI_DATA, "%s: has %d samples of %d rows of %d heads of %d, --edge-out has %d of %d of %d of %d",
                    g->typed->edge_out, x->samples, x->rows, x->heads, x->columns, g->out.samples, one->out_rows,
                    g->out.heads, columns);
}

/* Compares the gradients that were read with the model's output, whose rows are known only now. */
int gradients_check_inputs(const attend_gradients *g, const model *m, const attend_io *one)
{
    if (g->out.rows != one->out_rows)
        return complain(CLI_DATA, "%s: has %d rows, the output has %d", g->typed->out, g->out.rows, one->out_rows);
    if (g->typed->lse && !m->program.has_lse)
        return complain(CLI_USAGE, "--grad-lse: %s has no softmax denominator", m->title);
    if (g->typed->edge_out) MUST(check_edge_out(g, one));
    for (gradient_of i = 0; i < N_GRADIENTS; i++)
        if (g->typed->requested[i]) MUST(check_there(i, m, one));
    return CLI_GOOD;
}

/* ---- sums ---- */

const tensor_file *gradient_tensor(const attend_io *a, gradient_of of)
{
    return of == GRADIENT_QUERY ? &a->query : of == GRADIENT_KEY ? &a->key : of == GRADIENT_VALUE ? &a->value : NULL;
}

/* Allocates the sum of a gradient over all samples, in the axes of its tensor's file, or of the table; samples must
   agree on what they share. */
static int open_sum(const model *m, const attend_io *all, const attend_io *one, gradient_of of, attend_gradients *g)
{
    const tensor_file *t = gradient_tensor(all, of);
    const npy *file = t ? &t->array : &all->tables.file[of - GRADIENT_TABLE];
    const int of_file = file->n_dims > 0;
    npy *sum = &g->sum[of];
    const int64_t count = t         ? file->count * all->query.samples
                          : of_file ? file->count
                                    : call_entries(m, &one->shape, &one->io, of - GRADIENT_TABLE);
    if (sum->real && count != sum->count)
        return complain(CLI_DATA, "%s: the samples of %s have different graphs", gradient_option(of), m->title);
    if (sum->real) return CLI_GOOD;
    *sum = (npy){.n_dims = of_file ? file->n_dims : 1, .dim = {count}, .count = count};
    if (of_file) memcpy(sum->dim, file->dim, sizeof sum->dim);
    return take(count, sizeof *sum->real, &sum->real);
}

/* ---- a sample ---- */

/* Heads of a tensor's gradient in the call; trees by head have a key and value for each query head. */
static hga_id engine_heads(const attend_io *one, gradient_of of)
{
    int wide = one->shape.n_heads == 1 && one->query.heads > 1;
    return of == GRADIENT_QUERY || wide ? one->part.n : one->part.kv_n;
}

static int64_t engine_count(const model *m, const attend_io *one, gradient_of of)
{
    const tensor_file *t = gradient_tensor(one, of);
    if (!t) return call_entries(m, &one->shape, &one->io, of - GRADIENT_TABLE);
    return (int64_t)t->rows * engine_heads(one, of) * t->columns;
}

/* Adds [rows][heads][columns] to heads [first, first + n) of [rows][of][columns], each head to its group's. */
static void add_heads(const float *x, int64_t rows, hga_id heads, hga_id first, hga_id n, const tensor_file *t,
                      float *sum)
{
    for (int64_t i = 0; i < rows * heads; i++)
        for (int64_t c = 0; c < t->columns; c++)
            sum[(i / heads * t->heads + first + i % heads / (heads / n)) * t->columns + c] += x[i * t->columns + c];
}

/* Adds a table's gradient of the part's heads to their entries. */
static void add_table(const model *m, const attend_io *all, const attend_io *one, hga_call_table t, const float *x,
                      int64_t n, float *sum)
{
    const npy *file = &all->tables.file[t];
    const int axis = file->n_dims ? part_axis(&hga_call_tables()[t], file, one->part.of) : -1;
    if (axis == 0) sum += one->part.first * (file->count / file->dim[0]);
    if (axis == 1) sum += one->part.first;
    call_files_add(&one->tables, m, t, x, n, axis == 1 ? file->dim[1] : 0, sum);
}

/* Copies tensors' gradients to the sample's slice; adds gradients of tables over all samples. */
void gradients_add_sample(const model *m, const attend_io *all, const attend_io *one, hga_id sample,
                          const sample_gradients *s, attend_gradients *g)
{
    const head_part *p = &one->part;
    for (gradient_of i = 0; i < N_GRADIENTS; i++) {
        const tensor_file *t = gradient_tensor(one, i);
        const int query = i == GRADIENT_QUERY;
        if (!s->of[i] || !g->sum[i].real) continue;
        if (t)
            add_heads(s->of[i], t->rows, engine_heads(one, i), query ? p->first : p->kv_first, query ? p->n : p->kv_n,
                      t, g->sum[i].real + sample * t->array.count);
        else
            add_table(m, all, one, i - GRADIENT_TABLE, s->of[i], s->n[i], g->sum[i].real);
    }
}

hga_grad_io gradients_bind(const hga_io *io, float *d_out, float *d_lse, float *const of[N_GRADIENTS])
{
    hga_grad_io grad = {.d_out = {.data = d_out, .rows = io->out.rows},
                        .d_lse = {.data = d_lse, .rows = io->out.rows},
                        .d_query = {.data = of[GRADIENT_QUERY], .rows = io->query.rows},
                        .d_key = {.data = of[GRADIENT_KEY], .rows = io->key.rows},
                        .d_value = {.data = of[GRADIENT_VALUE], .rows = io->value.rows}};
    memcpy(grad.d_table, of + GRADIENT_TABLE, HGA_N_TABLES * sizeof *grad.d_table);
    return grad;
}

/* The part's heads of a sample in a gradient that was read, [samples][rows][heads][columns]. */
static hga_tensor input(float *x, const attend_gradients *g, const attend_io *one, hga_id sample, int64_t columns)
{
    const head_part *p = &one->part;
    hga_tensor of = {.rows = one->io.out.rows};
    if (x) of.data = x + ((int64_t)sample * g->out.rows * p->of + p->first) * columns;
    if (p->n < p->of) of.row_stride = p->of * columns, of.head_stride = columns;
    return of;
}

static hga_grad_io bind_sample(const attend_io *one, hga_id sample, const attend_gradients *g,
                               const sample_gradients *s)
{
    hga_grad_io grad = gradients_bind(&one->io, NULL, NULL, s->of);
    grad.d_out = input(g->out.array.real, g, one, sample, g->out.columns);
    grad.d_lse = input(g->lse.real, g, one, sample, 1);
    grad.d_edge_out = input(g->edge_out.array.real, g, one, sample, g->edge_out.columns);
    return grad;
}

/* Runs forward and backward. The plan is returned to the caller, who destroys it. */
int gradients_execute(const model *m, hga_options options, const hga_shape *shape, const hga_io *io,
                      const hga_grad_io *grad, hga_plan **plan)
{
    hga_workspace *workspace = NULL;
    char *tape = NULL;
    ordered_call c = {0};
    int status = CLI_GOOD;
    options.gradient = 1;
    TRY(model_complain_of(hga_plan_create(ordered_graph(m), &m->program, shape, &options, plan), m));
    TRY(model_complain_of(hga_workspace_create(*plan, &workspace), m));
    TRY(take(hga_plan_tape_bytes(*plan), 1, &tape));
    TRY(ordered_open(m, shape, io, grad, &c));
    c.io.tape = tape;
    TRY(model_complain_of(hga_plan_execute(*plan, workspace, &c.io), m));
    TRY(model_complain_of(hga_plan_gradient(*plan, workspace, &c.io, &c.grad), m));
    ordered_return(&c);
done:
    ordered_close(&c);
    free(tape);
    hga_workspace_destroy(workspace);
    return status;
}

/* Allocates the required gradients of one sample. */
int gradients_open_sample(const model *m, const attend_io *all, const attend_io *one, hga_id sample,
                          attend_gradients *g, sample_gradients *s, hga_grad_io *grad)
{
    for (gradient_of i = 0; i < N_GRADIENTS; i++) {
        if (!g->typed->requested[i]) continue;
        MUST(open_sum(m, all, one, i, g));
        s->n[i] = engine_count(m, one, i);
        MUST(take(s->n[i], sizeof(float), &s->of[i]));
    }
    *grad = bind_sample(one, sample, g, s);
    return CLI_GOOD;
}

void gradients_close_sample(sample_gradients *s)
{
    for (int i = 0; i < N_GRADIENTS; i++) free(s->of[i]);
}

/* One sample: its gradients are in arrays of its own until they are added to the sums of all. */
int gradients_run(const model *m, const hga_options *options, const attend_io *all, hga_id sample, attend_io *one,
                  attend_gradients *g)
{
    sample_gradients s = {0};
    hga_grad_io grad;
    hga_plan *plan = NULL;
    int status = CLI_GOOD;
    TRY(gradients_check_inputs(g, m, one));
    TRY(gradients_open_sample(m, all, one, sample, g, &s, &grad));
    TRY(gradients_execute(m, *options, &one->shape, &one->io, &grad, &plan));
    gradients_add_sample(m, all, one, sample, &s, g);
done:
    hga_plan_destroy(plan);
    gradients_close_sample(&s);
    return status;
}

/* ---- files ---- */

int gradients_write(const attend_io *all, element type, const attend_gradients *g, outfile file[static N_GRADIENTS])
{
    for (gradient_of i = 0; i < N_GRADIENTS; i++) {
        const tensor_file *t = gradient_tensor(all, i);
        if (!g->typed->requested[i]) continue;
        MUST(t ? tensor_file_write(&file[i], t, t->rows, t->columns, type, g->sum[i].real)
               : npy_write_as(&file[i], type, g->sum[i].real, g->sum[i].n_dims, g->sum[i].dim));
    }
    return CLI_GOOD;
}

void gradients_clear(attend_gradients *g)
{
    for (int i = 0; i < N_GRADIENTS; i++) npy_clear(&g->sum[i]);
    npy_clear(&g->out.array);
    npy_clear(&g->edge_out.array);
    npy_clear(&g->lse);
    *g = (attend_gradients){0};
}

/* ---- all that attend writes ---- */

void attend_targets(const typed_attend *a, outfile_wish wish[static N_TARGETS])
{
    const attend_paths *p = &a->tensors.paths;
    const outfile_wish first[TO_GRADIENTS] = {{"--out", p->out},
                                              {"--lse", p->lse},
                                              {"--edge-out", p->edge_out},
                                              {"--node-map", a->node_map},
                                              {"--choice", a->chosen.choice},
                                              {"--block-weights", a->chosen.weights}};
    memcpy(wish, first, sizeof first);
    for (gradient_of i = 0; i < N_GRADIENTS; i++)
        wish[TO_GRADIENTS + i] = (outfile_wish){gradient_option(i), a->gradients.requested[i]};
}
