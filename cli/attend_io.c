/* attend_io.c: an execution's inputs and outputs. */
#include "attend_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

/* ---- the command line ---- */

/* As tensors_out_type has them, but for the last. */
#define TYPE_WORDS "f16 bf16 f32 f64 same"
enum { TYPE_F32 = 2, TYPE_SAME = 4 };

static void start(void *input) { ((typed_tensors *)input)->out_type = TYPE_F32; }

static const option_row options[] = {
    {"query", TEXT(typed_tensors, paths.query), "FILE", 0,
     "query tensor, [rows][dim] or [rows][heads][dim]; - is standard input", 2},
    {"key", TEXT(typed_tensors, paths.key), "FILE", 0, "key tensor; its number of heads divides the query's", 2},
    {"value", TEXT(typed_tensors, paths.value), "FILE", 0, "value tensor, with the key's rows and heads", 2},
    {"out", TEXT(typed_tensors, paths.out), "FILE", 0, "the file of the output; - is standard output", 2},
    {"lse", TEXT(typed_tensors, paths.lse), "FILE", 0,
     "the file of the log of the softmax denominators (default: not written)", 3},
    {"layout", CHOICE(typed_tensors, layout, LAYOUT_WORDS), "L", 0,
     "nhd, hnd, bnhd or bhnd: the axes of query, key, value and output; torch's are hnd; a fourth axis in front is a "
     "batch, which bnhd and bhnd require (default: nhd)",
     3},
    {"out-type", CHOICE(typed_tensors, out_type, TYPE_WORDS), "T", ARGUMENTS_MORE,
     "f16, bf16, f32, f64 or same: the type of what comes out; same is the query's (default: f32)", 3},
    {"quiet", FLAG(typed_tensors, quiet), NULL, ARGUMENTS_MORE,
     "leave out the line on stderr that says how the tensors were read", 3},
    {0},
};
const option_list tensors_list = {.rows = options, .start = start};

int paths_check(const attend_paths *p)
{
    const char *missing = !p->query ? "query" : !p->key ? "key" : !p->value ? "value" : NULL;
    return missing ? complain(CLI_USAGE, "--%s FILE is missing", missing) : CLI_GOOD;
}

int tensors_check(const typed_tensors *typed)
{
    MUST(paths_check(&typed->paths));
    return typed->paths.out ? CLI_GOOD : complain(CLI_USAGE, "--out FILE is missing");
}

element tensors_out_type(const typed_tensors *typed, const tensor_file *query)
{
    static const element type[TYPE_SAME] = {
        {.kind = 'f', .size = 2}, {.kind = 'V', .size = 2}, {.kind = 'f', .size = 4}, {.kind = 'f', .size = 8}};
    return typed->out_type == TYPE_SAME ? query->array.type : type[typed->out_type];
}

/* ---- query, key and value ---- */

/* Key and value must have as many rows and heads as each other, and the samples of the query. */
static int check_pairs(const tensor_file *q, const tensor_file *k, const tensor_file *v)
{
    if (k->samples != q->samples || v->samples != q->samples)
        return complain(CLI_DATA, "%s: has %d samples, the query in %s has %d",
                        k->samples != q->samples ? k->array.path : v->array.path,
                        k->samples != q->samples ? k->samples : v->samples, q->array.path, q->samples);
    if (v->rows != k->rows)
        return complain(CLI_DATA, "%s: has %d rows, the key in %s has %d", v->array.path, v->rows, k->array.path,
                        k->rows);
    if (v->heads != k->heads)
        return complain(CLI_DATA, "%s: has %d heads, the key in %s has %d", v->array.path, v->heads, k->array.path,
                        k->heads);
    return tensor_file_check_pair(q, k);
}

int attend_io_read(const attend_paths *paths, const typed_call *call, tensor_layout layout, tensor_reader read,
                   attend_io *a)
{
    MUST(read(paths->query, layout, &a->query));
    MUST(read(paths->key, layout, &a->key));
    MUST(read(paths->value, layout, &a->value));
    MUST(check_pairs(&a->query, &a->key, &a->value));
    a->part = part_of(a, 0, 1);
    return call ? call_files_read(call, &a->tables) : CLI_GOOD;
}

head_part part_of(const attend_io *all, hga_id i, hga_id parts)
{
    hga_id heads = all->query.heads, each = heads / parts, share = heads / all->key.heads;
    hga_id first = i * each, kv_first = first / share;
    return (head_part){first, each, heads, kv_first, (first + each - 1) / share + 1 - kv_first};
}

/* One sample of a tensor, whose numbers may be missing: commands that only choose blocks read no values. */
static tensor_file sample_of(const tensor_file *t, hga_id sample)
{
    tensor_file one = *t;
    if (one.array.real) one.array.real += sample * t->array.count;
    one.samples = 1;
    return one;
}

attend_io attend_io_sample(const attend_io *all, hga_id sample)
{
    return (attend_io){.query = sample_of(&all->query, sample),
                       .key = sample_of(&all->key, sample),
                       .value = sample_of(&all->value, sample),
                       .tables = call_files_attach(&all->tables),
                       .part = all->part};
}

model_tensors attend_io_tensors(const attend_io *a)
{
    return (model_tensors){&a->query.array,  &a->key.array, a->query.heads, a->key.heads,
                           a->query.columns, NULL,          a->part};
}

/* ---- some heads ---- */

int part_axis(const hga_call_row *row, const npy *a, hga_id heads)
{
    if (row->rows == HGA_EXTENT_HEADS) return 0;
    int by_head = row->columns == HGA_EXTENT_HEADS || row->columns == HGA_EXTENT_HEADS_OR_ONE;
    return by_head && a->n_dims == 2 && (heads == 1 || a->dim[1] != 1) ? 1 : -1;
}

/* Cuts a table by head to the part's heads; borrows any other as it is. */
static int cut_table(const hga_call_row *row, const head_part *p, const npy *all, npy *out)
{
    int axis = part_axis(row, all, p->of);
    *out = *all;
    if (axis < 0) return CLI_GOOD;
    if (all->dim[axis] != p->of)
        return complain(CLI_DATA, "%s: has the shape %s; --%s has numbers for %d heads", all->path, npy_shape(all),
                        row->option, p->of);
    int64_t rows = axis ? all->dim[0] : 1;
    out->dim[axis] = p->n, out->count = all->count / p->of * p->n;
    const int64_t each = all->count / rows / p->of * p->n, of = all->count / rows;
    MUST(take(rows * each, sizeof *out->real, &out->real));
    for (int64_t r = 0; r < rows; r++)
        memcpy(out->real + r * each, all->real + r * of + of / p->of * p->first, (size_t)each * sizeof *out->real);
    return CLI_GOOD;
}

int attend_io_part(const attend_io *all, hga_id sample, const head_part *p, attend_io *one)
{
    *one = attend_io_sample(all, sample);
    one->part = *p;
    if (p->n == p->of) return CLI_GOOD;
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        if (all->tables.file[t].path)
            MUST(cut_table(&hga_call_tables()[t], p, &all->tables.file[t], &one->tables.file[t]));
    return CLI_GOOD;
}

void attend_io_part_clear(const attend_io *all, attend_io *one)
{
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        if (one->tables.file[t].real != all->tables.file[t].real) free(one->tables.file[t].real);
    attend_io_clear(one);
}

/* ---- rows ---- */

/* A field's rows in tokens or nodes of the caller; if the program lacks the field, the rows of `otherwise`. */
static hga_id rows_of(const model *m, hga_binding binding, hga_field_rows otherwise)
{
    return bound_rows(m->graph, &m->program, binding, otherwise) / m->tree_heads;
}

static int check_rows(const model *m, hga_binding binding, hga_field_rows otherwise, const tensor_file *t)
{
    hga_id rows = rows_of(m, binding, otherwise);
    char hint[64] = "";
    if (rows == t->rows) return CLI_GOOD;
    if (t->axes > 2 && t->heads == rows) /* swapped axes would fit */
        snprintf(hint, sizeof hint, ", as it has heads; --layout %s?", layout_heads_first(t->layout) ? "nhd" : "hnd");
    return complain(CLI_DATA, "%s: has %d rows, %s needs %d%s", t->array.path, t->rows, m->title, rows, hint);
}

/* Do the tensors have the rows that the program reads, and does it write any? */
static int check_all_rows(const model *m, attend_io *a)
{
    MUST(tensor_file_check_program(&m->program));
    if (!bound_field(&m->program, HGA_IO_OUT)) return complain(CLI_DATA, "the program of %s has no output", m->title);
    MUST(check_rows(m, HGA_IO_QUERY, HGA_ROWS_QUERIES, &a->query));
    MUST(check_rows(m, HGA_IO_KEY, HGA_ROWS_KEYS, &a->key));
    MUST(check_rows(m, HGA_IO_VALUE, HGA_ROWS_KEYS, &a->value));
    a->out_rows = rows_of(m, HGA_IO_OUT, HGA_ROWS_QUERIES);
    return CLI_GOOD;
}

/* ---- weights of levels ---- */

/* The weights of levels, which a program with weighted sums needs, one for each type of edge. */
static int bind_alpha(const model *m, attend_io *a)
{
    int32_t types = types_read(m->graph, &m->program, HGA_SCALED);
    if (!types && m->alpha) return complain(CLI_USAGE, "alpha: the program of %s has no weighted sum", m->title);
    if (!types) return CLI_GOOD;
    if (!m->alpha) return complain(CLI_USAGE, "%s needs -p alpha=@FILE.npy", m->title);
    if (m->n_alpha < types)
        return complain(CLI_DATA, "alpha: has %d weights, the edges of %s have %d types", m->n_alpha, m->title, types);
    a->io.type_scale.data = m->alpha;
    a->io.type_scale.rows = m->n_alpha;
    return CLI_GOOD;
}

/* ---- shape, heads and outputs ---- */

/* Where each head has a tree of its own the program sees one head, whose rows are all heads of all tokens. */
static int fold_heads(attend_io *a)
{
    a->shape.n_heads = a->shape.n_kv_heads = 1;
    if (a->key.heads == a->query.heads) return CLI_GOOD;
    MUST(tensor_file_widen(&a->key, a->query.heads, &a->wide_key));
    MUST(tensor_file_widen(&a->value, a->query.heads, &a->wide_value));
    a->io.key.data = a->wide_key;
    a->io.value.data = a->wide_value;
    return CLI_GOOD;
}

/* Binds shape, data and rows of the call; tensors that the program does not read are left out. */
static int bind_tensors(const model *m, attend_io *a)
{
    const head_part *p = &a->part;
    const hga_id per = m->tree_heads > 1 ? p->n : 1;
    a->shape = (hga_shape){.n_heads = p->n, .n_kv_heads = p->kv_n, .dim = a->query.columns, .dim_v = a->value.columns};
    a->io.query = tensor_file_heads(&a->query, p->first, p->n, per);
    a->io.key = tensor_file_heads(&a->key, p->kv_first, p->kv_n, per);
    a->io.value = tensor_file_heads(&a->value, p->kv_first, p->kv_n, per);
    if (m->tree_heads > 1) MUST(fold_heads(a));
    if (!bound_field(&m->program, HGA_IO_QUERY)) a->io.query.data = NULL;
    if (!bound_field(&m->program, HGA_IO_KEY)) a->io.key.data = NULL;
    if (!bound_field(&m->program, HGA_IO_VALUE)) a->io.value.data = NULL;
    return CLI_GOOD;
}

int64_t attend_io_columns(const attend_io *a, int made)
{
    return made == MADE_OUT ? a->value.columns : made == MADE_LSE ? 0 : a->io.edge_value.columns;
}

/* Allocates the output, and the log-sum-exp and the edges' sums if they were requested. */
static int bind_outputs(const attend_paths *paths, attend_io *a)
{
    const int requested[N_MADE] = {1, paths->lse != NULL, paths->edge_out != NULL};
    hga_tensor *const to[N_MADE] = {&a->io.out, &a->io.lse, &a->io.edge_out};
    const int64_t rows = (int64_t)a->out_rows * a->part.n;
    for (int i = 0; i < N_MADE; i++) {
        const int64_t columns = attend_io_columns(a, i);
        if (requested[i]) MUST(take(rows * (columns ? columns : 1), sizeof *a->made[i], &a->made[i]));
        *to[i] = (hga_tensor){.data = a->made[i], .rows = rows / a->shape.n_heads};
    }
    return CLI_GOOD;
}

int attend_io_bind_inputs(const attend_paths *paths, const typed_call *call, const model *m, attend_io *a)
{
    if (paths->lse && !m->program.has_lse) return complain(CLI_USAGE, "--lse: %s has no softmax denominator", m->title);
    MUST(check_all_rows(m, a));
    MUST(bind_tensors(m, a));
    MUST(call_files_bind(call, m, &a->shape, &a->tables, &a->io));
    return bind_alpha(m, a);
}

int attend_io_bind(const attend_paths *paths, const typed_call *call, const model *m, attend_io *a)
{
    MUST(attend_io_bind_inputs(paths, call, m, a));
    return bind_outputs(paths, a);
}

void attend_io_clear(attend_io *a)
{
    npy *const read[] = {&a->query.array, &a->key.array, &a->value.array};
    for (size_t i = 0; !a->tables.borrowed && i < sizeof read / sizeof *read; i++) npy_clear(read[i]);
    call_files_clear(&a->tables);
    free(a->wide_key);
    free(a->wide_value);
    for (int i = 0; i < N_MADE; i++) free(a->made[i]);
    *a = (attend_io){0};
}
