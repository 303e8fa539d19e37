/* weigh.c: scores, states and shares of one row at a time. A value is that of a field on a node before some stage; it
   is the work of the last stage before it that wrote that row, or the caller's. */
#include "weigh.h"

#include "bindings.h"

#include <math.h>

/* Values are kept on shelves, which do not move. */
typedef struct shelf {
    struct shelf *before;
    int64_t n, room;
    double value[];
} shelf;
enum { SHELF = 4096 };

static hga_status take_room(weighing *w, int64_t n, double **out)
{
    hga_status st = HGA_OK;
    if (!w->shelf || w->shelf->n + n > w->shelf->room) {
        int64_t room = n > SHELF ? n : SHELF;
        shelf *new = NULL;
        HGA_TRY(hga_new(NULL, 1, sizeof *new + (size_t)room * sizeof *new->value, &new));
        *new = (shelf){.before = w->shelf, .room = room};
        w->shelf = new;
    }
    *out = w->shelf->value + w->shelf->n;
    w->shelf->n += n;
done:
    return st;
}

static double log_add(double a, double b)
{
    double greatest = a > b ? a : b;
    return greatest == -INFINITY ? greatest : greatest + log(exp(a - greatest) + exp(b - greatest));
}

/* ---- what the caller gives ---- */

static hga_id columns_of(const weighing *w, hga_id field)
{
    hga_width width = w->p->field[field].width;
    return width == HGA_WIDTH_KEY || width == HGA_WIDTH_KV_KEY ? w->shape.dim : 1;
}

/* Which row of its tensor each node of an input field has. */
static hga_status open_tensor(weighing *w, hga_id field)
{
    const hga_field *f = &w->p->field[field];
    const hga_tensor *t = program_tensor(w->p, w->io, field);
    hga_status st = HGA_OK;
    hga_id n = 0;
    if (w->io_row[field]) return HGA_OK;
    HGA_TRY(hga_new(NULL, w->nodes.n, sizeof **w->io_row, &w->io_row[field]));
    for (hga_id v = 0; v < w->nodes.n; v++) w->io_row[field][v] = program_row(&w->nodes, f->io, v) ? n++ : -1;
    HGA_TRY(hga_new_zero(NULL, w->nodes.n, sizeof **w->given, &w->given[field]));
    if (!t || !t->data) return hga_fail(HGA_EINVAL, "weights: field %s has no tensor", f->name);
    if ((unsigned)t->dtype > HGA_BF16)
        return hga_fail(HGA_EUNSUPPORTED, "weights: the tensor of field %s has dtype %d", f->name, (int)t->dtype);
    if (t->rows && t->rows < n)
        return hga_fail(HGA_EINVAL, "weights: field %s: the tensor has %lld rows of %d", f->name, (long long)t->rows,
                        n);
done:
    return st;
}

static hga_status read_given(weighing *w, hga_id field, hga_id v, const double **out)
{
    hga_status st = HGA_OK;
    hga_id columns = columns_of(w, field), heads = program_heads(w->p, &w->shape, field);
    float number;
    HGA_TRY(open_tensor(w, field));
    double **row = &w->given[field][v];
    if (!*row) {
        const hga_tensor *t = program_tensor(w->p, w->io, field);
        const char *from = tensor_at(t, heads, columns, w->io_row[field][v], w->head / (w->shape.n_heads / heads));
        HGA_TRY(take_room(w, columns, row));
        for (hga_id c = 0; c < columns; c++) {
            numbers_read(t->dtype, from + (size_t)c * dtype_bytes(t->dtype), 1, &number);
            (*row)[c] = (double)number;
        }
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
        if (!(s->writes >> f & 1u) || flow_keeps(&w->nodes, field, v, edges_exist(w->g, s->relation, v))) continue;
        if (f != s->out && f != s->keep)
            return hga_fail(HGA_EUNSUPPORTED, "weights: stage %s writes %s", s->name, field->name);
        return make_row(w, i, v, out);
    }
    int given = program_is_input(field->binding) && program_row(&w->nodes, field->io, v);
    return given ? read_given(w, f, v, out) : HGA_OK;
}

static hga_status number_of(weighing *w, hga_id f, hga_id v, hga_id before, double otherwise, double *out)
{
    const double *x;
    hga_status st = value_of(w, f, v, before, &x);
    *out = !st && x ? *x : otherwise;
    return st;
}

/* What a stage in place reads of its own field at a source is there already. */
static hga_id version(const hga_stage *s, hga_id i, hga_id f)
{
    return s->out == f && s->order != HGA_FLAT ? i + 1 : i;
}

/* Sum, mean or weighted sum: the share of each edge. */
static hga_status share_edges(const weighing *w, const hga_stage *s, const edge_rows *row, double *factor)
{
    double total = 0;
    for (int64_t e = 0; e < row->n; e++) {
        const row_edge *edge = &row->edge[e];
        factor[e] = (double)edge->weight;
        if (s->message == HGA_SCALED) {
            if (!w->io->type_scale || edge->type >= w->io->n_type_scale)
                return hga_fail(HGA_EINVAL, "weights: type_scale has %d values, an edge has type %d",
                                w->io->n_type_scale, edge->type);
            factor[e] *= (double)w->io->type_scale[edge->type];
        }
        if (s->reduce == HGA_MEAN && s->by_mass) factor[e] *= (double)w->nodes.mass[edge->src];
        total += factor[e];
    }
    for (int64_t e = 0; e < row->n && s->reduce == HGA_MEAN && total != 0; e++) factor[e] /= total;
    return HGA_OK;
}

/* ---- scores ---- */

static hga_status check_tables(const weighing *w, const row_edge *e)
{
    const hga_io *io = w->io;
    if (io->rel_key && e->type >= io->n_rel_key)
        return hga_fail(HGA_EINVAL, "weights: rel_key has %d rows, an edge has type %d", io->n_rel_key, e->type);
    if (io->rel_bias && e->type >= io->n_rel_bias)
        return hga_fail(HGA_EINVAL, "weights: rel_bias has %d rows, an edge has type %d", io->n_rel_bias, e->type);
    if (io->node_pos && io->n_node_pos && io->n_node_pos < w->nodes.n)
        return hga_fail(HGA_EINVAL, "weights: node_pos has %d rows of %d", io->n_node_pos, w->nodes.n);
    return HGA_OK;
}

/* s(u, v, e) of hga_program.h without edge_bias. */
static hga_status score_edge(weighing *w, hga_id i, hga_id v, const double *query, const row_edge *e, double *out)
{
    const hga_stage *s = &w->p->stage[i];
    const hga_io *io = w->io;
    const double *key;
    double dot = 0, sum = log((double)e->weight);
    hga_status st = HGA_OK;
    HGA_TRY(check_tables(w, e));
    HGA_TRY(value_of(w, s->key, e->src, version(s, i, s->key), &key));
    if (!query || !key) return hga_fail(HGA_EPROGRAM, "weights: stage %s scores what nothing has written", s->name);
    const float *rel = io->rel_key ? io->rel_key + (int64_t)e->type * w->shape.dim : NULL;
    for (hga_id c = 0; c < w->shape.dim; c++) dot += query[c] * (key[c] + (rel ? (double)rel[c] : 0));
    sum += w->scale * dot;
    if (io->rel_bias) sum += (double)io->rel_bias[(int64_t)e->type * w->shape.n_heads + w->head];
    if (s->by_mass) sum += log((double)w->nodes.mass[e->src]);
    for (hga_id c = 0; io->node_pos && c < w->shape.pos_dim; c++)
        sum += (double)io->node_pos[(int64_t)(e->pos_of ? e->pos_of - 1 : v) * w->shape.pos_dim + c] *
               (double)io->node_pos[(int64_t)(e->src_pos_of ? e->src_pos_of - 1 : e->src) * w->shape.pos_dim + c];
    *out = sum;
done:
    return st;
}

/* Edge biases belong to the first stage that attends; its edges are counted in canonical order. */
static hga_status add_edge_bias(weighing *w, hga_id v, int64_t n, double *score)
{
    const hga_io *io = w->io;
    hga_status st = HGA_OK;
    if (!w->first_edge) {
        HGA_TRY(hga_new(NULL, (int64_t)w->nodes.n + 1, sizeof *w->first_edge, &w->first_edge));
        w->first_edge[0] = 0;
        hga_graph_degrees(w->g, w->p->stage[w->biased].relation, 0, w->nodes.n, w->first_edge + 1);
        for (hga_id u = 0; u < w->nodes.n; u++) w->first_edge[u + 1] += w->first_edge[u];
    }
    hga_pos edges = w->first_edge[w->nodes.n];
    if (io->n_edge_bias && io->n_edge_bias < edges)
        return hga_fail(HGA_EINVAL, "weights: edge_bias has %lld rows of %lld", (long long)io->n_edge_bias,
                        (long long)edges);
    for (int64_t e = 0; e < n; e++)
        score[e] +=
            (double)
                io->edge_bias[(w->first_edge[v] + e) * io->edge_bias_heads + (io->edge_bias_heads == 1 ? 0 : w->head)];
done:
    return st;
}

static hga_status score_row(weighing *w, hga_id i, hga_id v, const edge_rows *row, double *score)
{
    const hga_stage *s = &w->p->stage[i];
    const double *query = NULL;
    hga_status st = HGA_OK;
    if (row->n) HGA_TRY(value_of(w, s->query, v, version(s, i, s->query), &query));
    for (int64_t e = 0; e < row->n; e++) HGA_TRY(score_edge(w, i, v, query, &row->edge[e], &score[e]));
    if (w->io->edge_bias && i == w->biased) HGA_TRY(add_edge_bias(w, v, row->n, score));
done:
    return st;
}

/* ---- states: the logarithm of what each edge, and the row itself, brings to the sum ---- */

static hga_status bring(weighing *w, hga_id i, hga_id v, const edge_rows *row, double *brought, double *own)
{
    const hga_stage *s = &w->p->stage[i];
    hga_status st = HGA_OK;
    *own = -INFINITY;
    if (s->update == HGA_UPDATE_MERGE) HGA_TRY(number_of(w, s->out, v, i, -INFINITY, own));
    if (s->message == HGA_SCORE) return score_row(w, i, v, row, brought);
    for (int64_t e = 0; e < row->n; e++) {
        HGA_TRY(number_of(w, s->value, row->edge[e].src, version(s, i, s->value), -INFINITY, &brought[e]));
        brought[e] += log((double)row->edge[e].weight);
    }
done:
    return st;
}

static double sum_up(const double *brought, int64_t n, double own)
{
    double sum = own;
    for (int64_t e = 0; e < n; e++) sum = log_add(sum, brought[e]);
    return sum;
}

/* ---- gates ---- */

/* The mass that the way down leaves at v's parent, and the part of it that v takes. */
static hga_status open_gate(weighing *w, hga_id i, hga_id v, const edge_rows *row, double *left, double *open)
{
    const hga_stage *s = &w->p->stage[i];
    double lse, psi;
    hga_status st = HGA_OK;
    *left = 1, *open = 0;
    HGA_TRY(number_of(w, s->value, v, i, -INFINITY, &lse));
    HGA_TRY(number_of(w, s->gate, v, i, -INFINITY, &psi));
    if (row->n) HGA_TRY(number_of(w, s->keep, row->edge[0].src, i + 1, 1, left));
    if (lse > -INFINITY) *open = 1 / (1 + exp(psi - lse));
done:
    return st;
}

static hga_status energy(weighing *w, hga_id i, const edge_rows *row, double *out)
{
    const hga_stage *s = &w->p->stage[i];
    hga_status st = HGA_OK;
    double sum = 0, total = 0, psi, lse;
    for (int64_t e = 0; e < row->n; e++) {
        double mass = (double)w->nodes.mass[row->edge[e].src];
        HGA_TRY(number_of(w, s->out, row->edge[e].src, i + 1, -INFINITY, &psi));
        HGA_TRY(number_of(w, s->value, row->edge[e].src, i, -INFINITY, &lse));
        sum += mass * log_add(psi, lse), total += mass;
    }
    *out = total > 0 ? sum / total : -INFINITY;
done:
    return st;
}

/* ---- rows ---- */

static hga_status add_up(weighing *w, hga_id i, const edge_rows *row, const double *factor, double *out)
{
    const hga_stage *s = &w->p->stage[i];
    hga_id columns = columns_of(w, s->out);
    hga_status st = HGA_OK;
    for (hga_id c = 0; c < columns; c++) out[c] = 0;
    for (int64_t e = 0; e < row->n; e++) {
        const double *x;
        HGA_TRY(value_of(w, s->value, row->edge[e].src, version(s, i, s->value), &x));
        for (hga_id c = 0; x && c < columns; c++) out[c] += factor[e] * x[c];
    }
done:
    return st;
}

static hga_status make_values(weighing *w, hga_id i, hga_id v, const edge_rows *row, double *scratch, double *out)
{
    const hga_stage *s = &w->p->stage[i];
    double own, left, open;
    hga_status st = HGA_OK;
    switch (program_kind(s)) {
    case KIND_MEAN:
    case KIND_SUM:
    case KIND_WEIGHTED_SUM: HGA_TRY(share_edges(w, s, row, scratch)); return add_up(w, i, row, scratch, out);
    case KIND_ATTEND:
    case KIND_ATTEND_MORE:
    case KIND_SPREAD:
        HGA_TRY(bring(w, i, v, row, scratch, &own));
        *out = sum_up(scratch, row->n, own);
        return HGA_OK;
    case KIND_ENERGY: return energy(w, i, row, out);
    case KIND_DESCEND:
        HGA_TRY(open_gate(w, i, v, row, &left, &open));
        *out = left * (1 - open);
        return HGA_OK;
    default: return hga_fail(HGA_EUNSUPPORTED, "weights: what stage %s does is not known", s->name);
    }
done:
    return st;
}

/* The row of stage i at v: of descend what it keeps, of a state its log-sum-exp. */
static hga_status make_row(weighing *w, hga_id i, hga_id v, const double **out)
{
    edge_rows row = {0};
    double *scratch = NULL, *x = NULL;
    hga_status st = HGA_OK;
    if (!w->made[i]) HGA_TRY(hga_new_zero(NULL, w->nodes.n, sizeof **w->made, &w->made[i]));
    if (!w->made[i][v]) {
        edges_open(&row, w->g, NULL, w->p->stage[i].relation);
        HGA_TRY(edges_read(&row, v));
        HGA_TRY(hga_new(NULL, row.n, sizeof *scratch, &scratch));
        HGA_TRY(take_room(w, columns_of(w, w->p->stage[i].out), &x));
        HGA_TRY(make_values(w, i, v, &row, scratch, x));
        w->made[i][v] = x;
    }
    *out = w->made[i][v];
done:
    hga_delete(NULL, scratch, row.n, sizeof *scratch);
    edges_close(&row);
    return st;
}

/* ---- factors ---- */

/* Parts of a state's sum; a row without any is 0. */
static void part_sum(const edge_rows *row, const double *brought, double own, double *factor, double *own_factor)
{
    double sum = sum_up(brought, row->n, own);
    for (int64_t e = 0; e < row->n; e++) factor[e] = sum > -INFINITY ? exp(brought[e] - sum) : 0;
    *own_factor = sum > -INFINITY ? exp(own - sum) : 0;
}

hga_status weigh_row(weighing *w, hga_id i, hga_id v, const edge_rows *row, double *factor, double *score, double *own)
{
    const hga_stage *s = &w->p->stage[i];
    double brought = -INFINITY, left, open;
    hga_status st = HGA_OK;
    *own = 0;
    for (int64_t e = 0; e < row->n; e++) score[e] = 0, factor[e] = 1;
    switch (program_kind(s)) {
    case KIND_MEAN:
    case KIND_SUM:
    case KIND_WEIGHTED_SUM: return share_edges(w, s, row, factor);
    case KIND_ATTEND:
    case KIND_ATTEND_MORE:
    case KIND_SPREAD:
        HGA_TRY(bring(w, i, v, row, score, &brought));
        part_sum(row, score, brought, factor, own);
        for (int64_t e = 0; e < row->n && s->message == HGA_STATE; e++) score[e] = 0;
        return HGA_OK;
    case KIND_DESCEND:
        HGA_TRY(open_gate(w, i, v, row, &left, &open));
        *own = left * open;
        return HGA_OK;
    default: return hga_fail(HGA_EUNSUPPORTED, "weights: what stage %s does is not known", s->name);
    }
done:
    return st;
}

/* ---- begin and end ---- */

hga_status weigh_begin(weighing *w)
{
    hga_shape *shape = &w->shape;
    w->nodes = hga_graph_nodes(w->g);
    w->biased = -1;
    if (!shape->n_kv_heads) shape->n_kv_heads = shape->n_heads;
    if (shape->n_heads < 1 || shape->dim < 1 || shape->n_kv_heads < 1 || shape->n_heads % shape->n_kv_heads)
        return hga_fail(HGA_EINVAL, "weights: %d heads of %d, %d key/value heads", shape->n_heads, shape->dim,
                        shape->n_kv_heads);
    if (w->head < 0 || w->head >= shape->n_heads)
        return hga_fail(HGA_EINVAL, "weights: head %d of %d", w->head, shape->n_heads);
    if (w->io->edge_bias && w->io->edge_bias_heads != 1 && w->io->edge_bias_heads != shape->n_heads)
        return hga_fail(HGA_EINVAL, "weights: edge_bias has %d heads of %d", w->io->edge_bias_heads, shape->n_heads);
    for (hga_id i = w->p->n_stages - 1; i >= 0; i--)
        if (w->p->stage[i].message == HGA_SCORE) w->biased = i;
    w->scale = w->io->scale != 0          ? (double)w->io->scale
               : w->p->default_scale != 0 ? (double)w->p->default_scale
                                          : 1 / sqrt((double)shape->dim);
    return HGA_OK;
}

void weigh_end(weighing *w)
{
    hga_id n = w->nodes.n;
    for (hga_id f = 0; f < HGA_FIELD_SLOTS; f++) {
        hga_delete(NULL, w->io_row[f], n, sizeof **w->io_row);
        hga_delete(NULL, w->given[f], n, sizeof **w->given);
    }
    for (hga_id i = 0; i < HGA_MAX_STAGES; i++) hga_delete(NULL, w->made[i], n, sizeof **w->made);
    hga_delete(NULL, w->first_edge, (int64_t)n + 1, sizeof *w->first_edge);
    for (shelf *s = w->shelf, *before; s; s = before) {
        before = s->before;
        hga_delete(NULL, s, 1, sizeof *s + (size_t)s->room * sizeof *s->value);
    }
    w->shelf = NULL;
}
