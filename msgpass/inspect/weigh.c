/* weigh.c: the weights of one row at a time, from values computed on demand of semantics/. A value is that of a field
   on a node before some stage: the result of the last stage before it that wrote that row, or the caller's. */
#include "call_check.h"
#include "weigh.h"

#include "bindings.h"
#include "sink.h"
#include "sixteen.h"

#include <math.h>

/* Blocks of values, which do not move. */
typedef struct shelf {
    struct shelf *before;
    int64_t n, capacity;
    double value[];
} shelf;
enum { SHELF = 4096 };

/* Allocates n numbers that stay at their address until weigh_end. */
static hga_status take_memory(weighing *w, int64_t n, double **out)
{
    hga_status st = HGA_OK;
    if (!w->shelf || w->shelf->n + n > w->shelf->capacity) {
        int64_t capacity = n > SHELF ? n : SHELF;
        shelf *new = NULL;
        HGA_TRY(hga_new(NULL, 1, sizeof *new + (size_t)capacity * sizeof *new->value, &new));
        *new = (shelf){.before = w->shelf, .capacity = capacity};
        w->shelf = new;
    }
    *out = w->shelf->value + w->shelf->n;
    w->shelf->n += n;
done:
    return st;
}

/* ---- the caller's tensors ---- */

/* Whether the field's rows are vectors; of other fields only one number is used, of states the log-sum-exp. */
static int is_of_vectors(const weighing *w, hga_id field)
{
    hga_width width = w->p->field[field].width;
    return width == HGA_WIDTH_KEY || width == HGA_WIDTH_KV_KEY;
}

static hga_id columns_of(const weighing *w, hga_id field) { return is_of_vectors(w, field) ? w->shape.dim : 1; }

/* Finds the row of each node of an input field in its tensor. */
static hga_status open_tensor(weighing *w, hga_id field)
{
    const hga_field *f = &w->p->field[field];
    const hga_tensor *t = program_tensor(w->p, w->io, field);
    hga_status st = HGA_OK;
    hga_id n = 0;
    if (w->io_row[field]) return HGA_OK;
    HGA_TRY(hga_new(NULL, w->m.nodes.n, sizeof **w->io_row, &w->io_row[field]));
    for (hga_id v = 0; v < w->m.nodes.n; v++) w->io_row[field][v] = program_row(&w->m.nodes, f->io, v) ? n++ : -1;
    HGA_TRY(hga_new_zero(NULL, w->m.nodes.n, sizeof **w->input, &w->input[field]));
    if (!t || !t->data) return hga_fail(HGA_EINVAL, "weights: field %s has no tensor", f->name);
    if ((unsigned)t->dtype > HGA_BF16)
        return hga_fail(HGA_EUNSUPPORTED, "weights: the tensor of field %s has dtype %d", f->name, (int)t->dtype);
    if (t->rows && t->rows < n)
        return hga_fail(HGA_EINVAL, "weights: field %s: the tensor has %lld rows of %d", f->name, (long long)t->rows,
                        n);
    st = tensor_check_fold(t, program_heads(w->p, &w->shape, field), program_columns(w->p, &w->shape, field),
                           "weights: the tensor of field", f->name);
done:
    return st;
}

static double number_at(const hga_tensor *t, const void *from, hga_id column)
{
    if (t->dtype == HGA_F32) return (double)((const float *)from)[column];
    uint16_t half = ((const uint16_t *)from)[column];
    return (double)(t->dtype == HGA_F16 ? widen_f16(half) : widen_bf16(half));
}

/* An input's row of node v in the current head, as doubles. */
static hga_status read_input(weighing *w, hga_id field, hga_id v, const double **out)
{
    hga_status st = HGA_OK;
    hga_id columns = columns_of(w, field), heads = program_heads(w->p, &w->shape, field);
    HGA_TRY(open_tensor(w, field));
    double **row = &w->input[field][v];
    if (!*row) {
        const hga_tensor *t = program_tensor(w->p, w->io, field);
        HGA_TRY(take_memory(w, columns, row));
        const void *from = tensor_at(t, heads, columns, w->io_row[field][v], w->head / (w->shape.n_heads / heads));
        for (hga_id c = 0; c < columns; c++) (*row)[c] = number_at(t, from, c);
    }
    *out = *row;
done:
    return st;
}

/* ---- values ---- */

static hga_status make_row(weighing *w, hga_id i, hga_id v, const double **out);

/* Field f of node v before stage `before`: *out is NULL where nothing was ever written. Of a state it is the
   log-sum-exp. */
static hga_status value_of(weighing *w, hga_id f, hga_id v, hga_id before, const double **out)
{
    const hga_field *field = &w->p->field[f];
    *out = NULL;
    for (hga_id i = before - 1; i >= 0; i--) {
        const hga_stage *s = &w->p->stage[i];
        if (!(s->writes >> f & 1u) || flow_keeps(&w->m.nodes, s, field, v)) continue;
        if (f != s->out && f != s->keep && f != s->gate)
            return hga_fail(HGA_EUNSUPPORTED, "weights: stage %s writes %s", s->name, field->name);
        hga_status st = make_row(w, i, v, out);
        *out += !st && f == s->gate;
        return st;
    }
    int is_input = program_is_input(field->binding) && program_row(&w->m.nodes, field->io, v);
    return is_input ? read_input(w, f, v, out) : HGA_OK;
}

/* Values as they are when a stage runs; `was`: its own row before it runs. */
typedef struct requested {
    field_values as;
    weighing *w;
    hga_id stage;
    int was;
} requested;

/* The version of a field that a stage reads: a stage in place reads its own fields at a source after itself. */
static hga_id version(const requested *a, hga_id f)
{
    const hga_stage *s = &a->w->p->stage[a->stage];
    return !a->was && s->writes >> f & 1u && s->order != HGA_FLAT ? a->stage + 1 : a->stage;
}

/* The value of a field at a node for a formula; the first failure is stored in w->st. */
static const double *value_there(const field_values *from, hga_id f, hga_id v, hga_id head, double *buffer)
{
    const requested *a = (const requested *)(const void *)from;
    weighing *w = a->w;
    const hga_stage *s = &w->p->stage[a->stage];
    const double *x = NULL;
    (void)head;
    if (!w->st) w->st = value_of(w, f, v, version(a, f), &x);
    if (!w->st && !x && (f == s->query || f == s->key) && s->message == HGA_SCORE)
        w->st = hga_fail(HGA_EPROGRAM, "weights: stage %s scores what nothing has written", s->name);
    if (x) return x;
    for (hga_id c = 0; c < columns_of(w, f); c++) buffer[c] = is_of_vectors(w, f) ? 0 : f == s->keep ? 1 : -INFINITY;
    return buffer;
}

static double request_lse(const field_values *from, hga_id f, hga_id v, hga_id head)
{
    double lse;
    return *value_there(from, f, v, head, &lse);
}

/* ---- rows ---- */

/* A row being weighed: rows need other rows recursively, and their scratch is not on the stack. */
typedef struct weighed {
    struct weighed *next; /* of idle ones, whose memory is reused */
    edge_rows edges;      /* unless the caller has read them */
    plain_scratch scratch;
    requested now, was;
    stage_row row;
} weighed;

static hga_status take_weighed(weighing *w, weighed **out)
{
    *out = w->at_rest;
    if (!*out) return hga_new_zero(NULL, 1, sizeof **out, out);
    w->at_rest = (*out)->next;
    return HGA_OK;
}

static void put_back(weighing *w, weighed *x)
{
    if (x) x->next = w->at_rest, w->at_rest = x;
}

static hga_status check_tables(const weighing *w, const hga_stage *s, const row_edge *e)
{
    const hga_io *io = w->io;
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        if (call_table_lacks(t, s, io, (int64_t)e->type + 1))
            return hga_fail(HGA_EINVAL, "weights: %s has %lld rows, an edge has type %d", call_row(t)->name,
                            (long long)(io->table[t].data ? io->table[t].rows : 0), e->type);
    return HGA_OK;
}

/* Edge biases belong to the first stage that attends; its edges are counted in canonical order. */
static hga_status number_edges(weighing *w)
{
    hga_id n = w->m.nodes.n;
    hga_status st = HGA_OK;
    if (w->first_edge) return HGA_OK;
    HGA_TRY(hga_new(NULL, (int64_t)n + 1, sizeof *w->first_edge, &w->first_edge));
    w->first_edge[0] = 0;
    hga_graph_degrees(w->g, w->p->stage[w->m.biased].relation, 0, n, w->first_edge + 1);
    for (hga_id u = 0; u < n; u++) w->first_edge[u + 1] += w->first_edge[u];
    w->m.first_edge = w->first_edge;
    if (w->io->edge_bias.rows != w->first_edge[n])
        return hga_fail(HGA_EINVAL, "weights: edge_bias has %lld rows but the relation has %lld edges",
                        (long long)w->io->edge_bias.rows, (long long)w->first_edge[n]);
done:
    return st;
}

/* Computes the weights of the row of stage i at v, with these edges. */
static hga_status weigh(weighing *w, hga_id i, hga_id v, const edge_rows *edges, weighed *x)
{
    const hga_stage *s = &w->p->stage[i];
    stage_kind kind = program_kind(s);
    hga_status st = HGA_OK;
    if (!all_stage_semantics[kind].weigh)
        return hga_fail(HGA_EUNSUPPORTED, "weights: what stage %s does is not known", s->name);
    for (int64_t e = 0; e < edges->n; e++) HGA_TRY(check_tables(w, s, &edges->edge[e]));
    if (i == w->m.biased) HGA_TRY(number_edges(w));
    HGA_TRY(plain_scratch_fit(&x->scratch, NULL, edges->n, w->shape.dim));
    x->now = (requested){{value_there, request_lse, NULL, NULL}, w, i, 0}, x->was = x->now, x->was.was = 1;
    x->row = (stage_row){.m = &w->m,
                         .stage = s,
                         .kind = kind,
                         .s = i,
                         .v = v,
                         .head = w->head,
                         .edge = edges->edge,
                         .n = edges->n,
                         .values = &x->now.as,
                         .was = &x->was.as,
                         .scratch = x->scratch};
    all_stage_semantics[kind].weigh(&x->row);
    st = w->st;
done:
    return st;
}

/* Computes the row of stage i at v: of descend the share kept, of a state its log-sum-exp and, after it, what goes
   inside. */
static hga_status make_row(weighing *w, hga_id i, hga_id v, const double **out)
{
    weighed *x = NULL;
    double *made = NULL;
    hga_status st = HGA_OK;
    if (!w->made[i]) HGA_TRY(hga_new_zero(NULL, w->m.nodes.n, sizeof **w->made, &w->made[i]));
    if (!w->made[i][v]) {
        hga_id columns = columns_of(w, w->p->stage[i].out);
        HGA_TRY(take_weighed(w, &x));
        edges_open(&x->edges, w->g, NULL, w->p->stage[i].relation);
        HGA_TRY(edges_read(&x->edges, v));
        HGA_TRY(weigh(w, i, v, &x->edges, x));
        HGA_TRY(take_memory(w, (int64_t)columns + 1, &made));
        made[columns] = x->row.rest;
        if (kind_sums(x->row.kind))
            row_add_up(&x->row, columns, made);
        else
            *made = x->row.stage->reduce == HGA_SOFTMAX || x->row.stage->reduce == HGA_MERGE ? x->row.lse : x->row.rest;
        HGA_TRY(w->st);
        w->made[i][v] = made;
    }
    *out = w->made[i][v];
done:
    put_back(w, x);
    return st;
}

/* Whether no later stage than i writes the output's row v. */
static int ends_output(const weighing *w, hga_id i, hga_id v)
{
    hga_id out = program_bound(w->p, HGA_IO_OUT);
    const hga_field *field = &w->p->field[out];
    if (w->p->stage[i].out != out || !program_row(&w->m.nodes, field->io, v)) return 0;
    for (hga_id j = i + 1; j < w->p->n_stages; j++) {
        const hga_stage *s = &w->p->stage[j];
        if (s->writes >> out & 1u && !flow_keeps(&w->m.nodes, s, field, v)) return 0;
    }
    return 1;
}

/* The share of a row of the output that the sink leaves. */
static double left_by_sink(const weighing *w, hga_id i, hga_id v, double lse)
{
    const float *sink = w->io->sink.data;
    return sink && ends_output(w, i, v) ? sink_shares_of((double)sink[w->head], lse).row : 1;
}

/* The weights and scores of a row's edges, and the weight of its own row, less the sink's share. */
hga_status weigh_row(weighing *w, hga_id i, hga_id v, const edge_rows *row, double *factor, double *score, double *own)
{
    const hga_stage *s = &w->p->stage[i];
    weighed *x;
    hga_status st = HGA_OK;
    HGA_TRY(take_weighed(w, &x));
    HGA_TRY(weigh(w, i, v, row, x));
    double left = left_by_sink(w, i, v, x->row.lse);
    for (int64_t e = 0; e < row->n; e++) {
        factor[e] = left * x->scratch.weight[e];
        score[e] = s->message == HGA_SCORE ? x->scratch.score[e] : 0;
    }
    *own = left * x->scratch.weight[row->n];
done:
    put_back(w, x);
    return st;
}

/* ---- begin and end ---- */

/* Checks the shape, the head and the call, and finds what formulas need of the graph. */
hga_status weigh_begin(weighing *w)
{
    hga_shape *shape = &w->shape;
    if (!shape->n_kv_heads) shape->n_kv_heads = shape->n_heads;
    if (shape->n_heads < 1 || shape->dim < 1 || shape->n_kv_heads < 1 || shape->n_heads % shape->n_kv_heads)
        return hga_fail(HGA_EINVAL, "weights: %d heads of %d, %d key/value heads", shape->n_heads, shape->dim,
                        shape->n_kv_heads);
    if (w->head < 0 || w->head >= shape->n_heads)
        return hga_fail(HGA_EINVAL, "weights: no head %d; there are 0 .. %d", w->head, shape->n_heads - 1);
    hga_status st = call_check_tables(w->p, shape, hga_graph_nodes(w->g).n, w->io);
    if (st) return st;
    if (call_needs_positions(w->io)) {
        st = hga_new(NULL, hga_graph_nodes(w->g).n, sizeof *w->position, &w->position);
        if (!st) st = hga_graph_positions(w->g, w->position);
        if (st) return st;
    }
    w->m = semantics_of_call(w->p, hga_graph_nodes(w->g), shape, w->io);
    w->m.position = w->position;
    for (hga_id i = w->p->n_stages - 1; i >= 0 && w->io->edge_bias.data; i--)
        if (w->p->stage[i].message == HGA_SCORE) w->m.biased = i;
    return HGA_OK;
}

/* Frees positions, computed rows, and their blocks. */
void weigh_end(weighing *w)
{
    hga_id n = w->m.nodes.n;
    hga_delete(NULL, w->position, hga_graph_nodes(w->g).n, sizeof *w->position);
    for (hga_id f = 0; f < HGA_FIELD_SLOTS; f++) {
        hga_delete(NULL, w->io_row[f], n, sizeof **w->io_row);
        hga_delete(NULL, w->input[f], n, sizeof **w->input);
    }
    for (hga_id i = 0; i < HGA_MAX_STAGES; i++) hga_delete(NULL, w->made[i], n, sizeof **w->made);
    hga_delete(NULL, w->first_edge, (int64_t)n + 1, sizeof *w->first_edge);
    for (shelf *s = w->shelf, *before; s; s = before) {
        before = s->before;
        hga_delete(NULL, s, 1, sizeof *s + (size_t)s->capacity * sizeof *s->value);
    }
    w->shelf = NULL;
    for (weighed *x = w->at_rest, *next; x; x = next) {
        next = x->next;
        edges_close(&x->edges), plain_scratch_clear(&x->scratch, NULL);
        hga_delete(NULL, x, 1, sizeof *x);
    }
    w->at_rest = NULL;
}
