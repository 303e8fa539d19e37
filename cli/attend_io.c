/* attend_io.c: what goes into an execution and what comes out. */
#include "attend_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows.h"

/* ---- query, key and value ---- */

static int check_pairs(const tensor_file *q, const tensor_file *k, const tensor_file *v)
{
    if (k->samples != q->samples || v->samples != q->samples)
        return complain(CLI_DATA, "%s: has %d samples, the query in %s has %d",
                        k->samples != q->samples ? k->array.path : v->array.path,
                        k->samples != q->samples ? k->samples : v->samples, q->array.path, q->samples);
    if (k->columns != q->columns)
        return complain(CLI_DATA, "%s: has dim %d, the query in %s has %d", k->array.path, k->columns, q->array.path,
                        q->columns);
    if (v->rows != k->rows)
        return complain(CLI_DATA, "%s: has %d rows, the key in %s has %d", v->array.path, v->rows, k->array.path,
                        k->rows);
    if (v->heads != k->heads)
        return complain(CLI_DATA, "%s: has %d heads, the key in %s has %d", v->array.path, v->heads, k->array.path,
                        k->heads);
    if (q->heads % k->heads != 0)
        return complain(CLI_DATA, "%s: has %d heads, which do not divide the query's %d", k->array.path, k->heads,
                        q->heads);
    return CLI_GOOD;
}

int attend_io_read_tables(const attend_paths *paths, attend_io *a)
{
    int status = CLI_GOOD;
    if (paths->rel_key) TRY(npy_read_real(paths->rel_key, &a->rel_key));
    if (paths->rel_bias) TRY(npy_read_real(paths->rel_bias, &a->rel_bias));
    if (paths->node_pos) TRY(npy_read_real(paths->node_pos, &a->node_pos));
    if (paths->edge_bias) TRY(npy_read_real(paths->edge_bias, &a->edge_bias));
done:
    return status;
}

int attend_io_read(const attend_paths *paths, tensor_layout layout, attend_io *a)
{
    int status = CLI_GOOD;
    TRY(tensor_file_read(paths->query, layout, &a->query));
    TRY(tensor_file_read(paths->key, layout, &a->key));
    TRY(tensor_file_read(paths->value, layout, &a->value));
    TRY(check_pairs(&a->query, &a->key, &a->value));
    TRY(attend_io_read_tables(paths, a));
done:
    return status;
}

int attend_io_read_sizes(const attend_paths *paths, tensor_layout layout, attend_io *a)
{
    int status = CLI_GOOD;
    TRY(tensor_file_read_sizes(paths->query, layout, &a->query));
    TRY(tensor_file_read_sizes(paths->key, layout, &a->key));
    TRY(tensor_file_read_sizes(paths->value, layout, &a->value));
    TRY(check_pairs(&a->query, &a->key, &a->value));
    TRY(attend_io_read_tables(paths, a));
done:
    return status;
}

/* one sample of a tensor */
static tensor_file sample_of(const tensor_file *t, hga_id sample)
{
    tensor_file one = *t;
    one.array.real += sample * t->array.count;
    one.samples = 1;
    return one;
}

attend_io attend_io_sample(const attend_io *all, hga_id sample)
{
    return (attend_io){.query = sample_of(&all->query, sample),
                       .key = sample_of(&all->key, sample),
                       .value = sample_of(&all->value, sample),
                       .rel_key = all->rel_key,
                       .rel_bias = all->rel_bias,
                       .node_pos = all->node_pos,
                       .edge_bias = all->edge_bias,
                       .sink = all->sink,
                       .slopes = all->slopes,
                       .borrowed = 1};
}

model_tensors attend_io_tensors(const attend_io *a)
{
    return (model_tensors){&a->query.array, &a->key.array, a->query.heads, a->key.heads, a->query.columns};
}

/* ---- rows ---- */

/* a field's rows in tokens or nodes of the caller; a program without the field leaves the tensor to the tree that
   routes it */
static hga_id rows_of(const model *m, hga_binding binding, hga_field_rows otherwise)
{
    return bound_rows(m->graph, &m->program, binding, otherwise) / m->tree_heads;
}

static int check_rows(const model *m, hga_binding binding, hga_field_rows otherwise, const tensor_file *t)
{
    hga_id rows = rows_of(m, binding, otherwise);
    char hint[64] = "";
    if (rows == t->rows) return CLI_GOOD;
    if (t->axes > 2 && t->heads == rows) /* the axes the other way round would fit */
        snprintf(hint, sizeof hint, ", as it has heads; --layout %s?", layout_heads_first(t->layout) ? "nhd" : "hnd");
    return complain(CLI_DATA, "%s: has %d rows, %s needs %d%s", t->array.path, t->rows, m->title, rows, hint);
}

static int check_all_rows(const model *m, attend_io *a)
{
    int status = CLI_GOOD;
    for (hga_id i = 1; i <= m->program.n_fields; i++)
        if (m->program.field[i].binding == HGA_IO_USER)
            TRY(complain(CLI_USAGE, "the program reads a tensor of its own, '%s', which no option gives",
                         m->program.field[i].name));
    if (!bound_field(&m->program, HGA_IO_OUT)) TRY(complain(CLI_DATA, "the program of %s has no output", m->title));
    TRY(check_rows(m, HGA_IO_QUERY, HGA_ROWS_QUERIES, &a->query));
    TRY(check_rows(m, HGA_IO_KEY, HGA_ROWS_KEYS, &a->key));
    TRY(check_rows(m, HGA_IO_VALUE, HGA_ROWS_KEYS, &a->value));
    a->out_rows = rows_of(m, HGA_IO_OUT, HGA_ROWS_QUERIES);
done:
    return status;
}

/* ---- the other tensors ---- */

/* [types] or [types][1] */
static int has_one_column(const npy *a) { return a->n_dims == 1 || (a->n_dims == 2 && a->dim[1] == 1); }

/* [types][columns], or one column for all where it may be shared; at least as many types as the edges have */
static int check_types(const npy *a, const model *m, hga_id columns, int shared)
{
    char shape[200];
    if (!shared && (a->n_dims != 2 || a->dim[1] != columns))
        return complain(CLI_DATA, "%s: has the shape %s, not [types][%d]", a->path, npy_shape(a->n_dims, a->dim, shape),
                        columns);
    int32_t types = types_read(m->graph, &m->program, HGA_SCORE);
    if (a->dim[0] < types || a->dim[0] > INT32_MAX)
        return complain(CLI_DATA, "%s: has %lld types, the edges of %s have %d", a->path, (long long)a->dim[0],
                        m->title, types);
    return CLI_GOOD;
}

/* A column a head of biases that have one for all. */
static int widen_bias(attend_io *a)
{
    int64_t heads = a->shape.n_heads, n = a->rel_bias.count * heads;
    int status = take(n, sizeof *a->wide_bias, &a->wide_bias);
    for (int64_t i = 0; status == CLI_GOOD && i < n; i++) a->wide_bias[i] = a->rel_bias.real[i / heads];
    a->io.rel_bias.data = a->wide_bias;
    return status;
}

static int bind_types(const attend_paths *paths, const model *m, attend_io *a)
{
    int status = CLI_GOOD;
    if (paths->rel_bias && m->tree_heads > 1)
        TRY(complain(CLI_USAGE, "--rel-bias: trees that differ by head have one bias for all; use --edge-bias"));
    a->rel_bias_shared = has_one_column(&a->rel_bias);
    if (paths->rel_key) TRY(check_types(&a->rel_key, m, a->shape.dim, 0));
    if (paths->rel_bias) TRY(check_types(&a->rel_bias, m, a->shape.n_heads, a->rel_bias_shared));
    a->io.rel_key.data = a->rel_key.real;
    a->io.rel_key.rows = (hga_id)a->rel_key.dim[0];
    a->io.rel_bias.data = a->rel_bias.real;
    a->io.rel_bias.rows = (hga_id)a->rel_bias.dim[0];
    if (a->rel_bias_shared) TRY(widen_bias(a));
done:
    return status;
}

static int bind_edge_bias(const char *path, const model *m, attend_io *a)
{
    char shape[200];
    const npy *b = &a->edge_bias;
    if (!path) return CLI_GOOD;
    int64_t heads = b->n_dims == 2 ? b->dim[1] : 1;
    if (b->n_dims > 2 || (heads != 1 && heads != a->shape.n_heads))
        return complain(CLI_DATA, "%s: has the shape %s, not [edges] or [edges][%d]", b->path,
                        npy_shape(b->n_dims, b->dim, shape), a->shape.n_heads);
    hga_pos edges = hga_graph_relation(m->graph, score_stage(&m->program)->relation).n_edges;
    if (b->dim[0] != edges)
        return complain(CLI_DATA, "%s: has %lld edges, %s has %lld", b->path, (long long)b->dim[0], m->title,
                        (long long)edges);
    a->io.edge_bias.data = b->real;
    a->io.edge_bias.columns = (hga_id)heads;
    a->io.edge_bias.rows = edges;
    return CLI_GOOD;
}

/* rows in the caller's node ids go where the graph has those nodes */
static int reorder_node_pos(const model *m, const npy *p, float **out)
{
    int64_t columns = p->dim[1];
    int status = take(p->count, sizeof **out, out);
    for (hga_id i = 0; status == CLI_GOOD && i < m->map.n; i++)
        memcpy(*out + node_ids_at(&m->map, i) * columns, p->real + i * columns, (size_t)columns * sizeof **out);
    return status;
}

static int bind_node_pos(const char *path, const model *m, attend_io *a)
{
    char shape[200];
    const npy *p = &a->node_pos;
    int status = CLI_GOOD;
    if (!path) return status;
    hga_id nodes = hga_graph_nodes(m->graph).n;
    if (p->n_dims != 2 || p->dim[0] != nodes || p->dim[1] < 1 || p->dim[1] > INT32_MAX)
        return complain(CLI_DATA, "%s: has the shape %s, not [nodes = %d][columns]", p->path,
                        npy_shape(p->n_dims, p->dim, shape), nodes);
    if (m->map.id) status = reorder_node_pos(m, p, &a->node_pos_of);
    a->io.node_pos.data = m->map.id ? a->node_pos_of : p->real, a->io.node_pos.rows = nodes;
    a->shape.pos_dim = (hga_id)p->dim[1];
    return status;
}

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

/* options that only scores can use */
static int check_scored(const attend_paths *paths, const model *m, const double *scale)
{
    const struct {
        const char *option;
        int given;
    } options[] = {
        {"--rel-key", paths->rel_key != NULL},
        {"--rel-bias", paths->rel_bias != NULL},
        {"--node-pos", paths->node_pos != NULL},
        {"--edge-bias", paths->edge_bias != NULL},
        {"--scale", scale != NULL},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (options[i].given && !score_stage(&m->program))
            return complain(CLI_USAGE, "%s: %s computes no scores", options[i].option, m->title);
    if (paths->lse && !m->program.has_lse) return complain(CLI_USAGE, "--lse: %s has no softmax denominator", m->title);
    return CLI_GOOD;
}

/* ---- shape, heads and outputs ---- */

static int fold_heads(attend_io *a)
{
    int status = CLI_GOOD;
    a->shape.n_heads = a->shape.n_kv_heads = 1;
    if (a->key.heads == a->query.heads) goto done;
    TRY(tensor_file_widen(&a->key, a->query.heads, &a->wide_key));
    TRY(tensor_file_widen(&a->value, a->query.heads, &a->wide_value));
    a->io.key.data = a->wide_key;
    a->io.value.data = a->wide_value;
done:
    return status;
}

static int bind_tensors(const model *m, attend_io *a)
{
    a->shape = (hga_shape){
        .n_heads = a->query.heads, .n_kv_heads = a->key.heads, .dim = a->query.columns, .dim_v = a->value.columns};
    a->io.query.data = a->query.array.real;
    a->io.key.data = a->key.array.real;
    a->io.value.data = a->value.array.real;
    hga_id per = m->tree_heads > 1 ? a->query.heads : 1;
    a->io.query.rows = (int64_t)a->query.rows * per;
    a->io.key.rows = (int64_t)a->key.rows * per;
    a->io.value.rows = (int64_t)a->value.rows * per;
    int status = m->tree_heads > 1 ? fold_heads(a) : CLI_GOOD;
    if (!bound_field(&m->program, HGA_IO_QUERY)) a->io.query.data = NULL;
    if (!bound_field(&m->program, HGA_IO_KEY)) a->io.key.data = NULL;
    if (!bound_field(&m->program, HGA_IO_VALUE)) a->io.value.data = NULL;
    return status;
}

static int bind_outputs(const attend_paths *paths, attend_io *a)
{
    int status = CLI_GOOD;
    int64_t rows = (int64_t)a->out_rows * a->query.heads;
    TRY(take(rows * a->value.columns, sizeof *a->out, &a->out));
    if (paths->lse) TRY(take(rows, sizeof *a->lse, &a->lse));
    a->io.out.data = a->out;
    a->io.lse.data = a->lse;
    a->io.out.rows = a->io.lse.rows = (int64_t)a->out_rows * (a->query.heads / a->shape.n_heads);
done:
    return status;
}

static void bind_scale(const double *scale, attend_io *a)
{
    if (!scale) return;
    a->io.scale = (float)*scale;
    a->modifiers = (hga_modifiers){.size = sizeof a->modifiers, .scale_is_given = 1};
    a->io.modifiers = &a->modifiers;
}

int attend_io_bind_inputs(const attend_paths *paths, const model *m, const double *scale, attend_io *a)
{
    int status = CLI_GOOD;
    TRY(check_scored(paths, m, scale));
    TRY(check_all_rows(m, a));
    TRY(bind_tensors(m, a));
    TRY(bind_types(paths, m, a));
    TRY(bind_edge_bias(paths->edge_bias, m, a));
    TRY(bind_node_pos(paths->node_pos, m, a));
    TRY(bind_alpha(m, a));
    bind_scale(scale, a);
done:
    return status;
}

int attend_io_bind(const attend_paths *paths, const model *m, const double *scale, attend_io *a)
{
    int status = attend_io_bind_inputs(paths, m, scale, a);
    return status ? status : bind_outputs(paths, a);
}

void attend_io_clear(attend_io *a)
{
    npy *const read[] = {&a->query.array, &a->key.array, &a->value.array, &a->rel_key, &a->rel_bias,
                         &a->node_pos,    &a->edge_bias, &a->sink,        &a->slopes};
    for (size_t i = 0; !a->borrowed && i < sizeof read / sizeof *read; i++) npy_clear(read[i]);
    free(a->node_pos_of);
    free(a->wide_bias);
    free(a->wide_key);
    free(a->wide_value);
    free(a->out);
    free(a->lse);
    *a = (attend_io){0};
}
