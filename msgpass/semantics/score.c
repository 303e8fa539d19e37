/* score.c: scores term by term, and weights of sums, in double. */
#include "score.h"
#include "philox.h"
#include "vectors.h"

float semantics_scale(const hga_program *p, const hga_shape *s, const hga_io *io)
{
    float input = call_number(HGA_TABLE_SCALE, p, io);
    if (io->scale.data) return input;
    if (input == 0 && p->scores == HGA_SCORES_ADDITIVE) return 1;
    return input != 0 ? input : (float)(1 / sqrt((double)s->dim)); /* in double, then rounded, as callers write it */
}

/* The data of a call for scores, weights and adjoints, numbers in double. */
semantics semantics_of_call(const hga_program *p, hga_nodes nodes, const hga_shape *s, const hga_io *io)
{
    return (semantics){.program = p,
                       .nodes = nodes,
                       .shape = *s,
                       .io = io,
                       .soften = semantics_softening(p),
                       .scale = (double)semantics_scale(p, s, io),
                       .bias = (double)call_number(HGA_TABLE_NORMALISER_BIAS, p, io),
                       .softcap = (double)call_number(HGA_TABLE_SOFTCAP, p, io),
                       .additive = io->additive.data,
                       .slopes = io->slopes.data,
                       .biased = -1};
}

/* ---- sums ---- */

double edge_count(const semantics *m, const hga_stage *s, const row_edge *e)
{
    return (double)e->weight * (s->by_mass ? (double)m->nodes.mass[e->src] : 1);
}

double edge_moved_count(const semantics *m, const hga_stage *s, const row_edge *e)
{
    return edge_count(m, s, e) * exp(table_entry(m, HGA_TABLE_LOG_MASS, 0, e->src));
}

double sum_factor(const semantics *m, const hga_stage *s, const row_edge *e)
{
    double factor = s->reduce == HGA_MEAN ? edge_count(m, s, e) : (double)e->weight;
    if (s->message == HGA_SCALED)
        factor *= table_entry(m, HGA_TABLE_TYPE_SCALE, m->io->type_scale.data[e->type], e->type);
    return factor;
}

double edge_dropout_factor(float dropout, const hga_io *io, const row_edge *e, hga_id v, hga_id head)
{
    return dropout == 0
               ? 1
               : (double)philox_dropout(dropout, io->seed, io->layer, v, e->src, e->type, io->first_head + head);
}

/* ---- scores ---- */

scored_edge edge_between(const semantics *m, hga_id stage, hga_id v, hga_id head, const row_edge *e, int64_t i,
                         const double *q, const double *k)
{
    int64_t index = stage == m->biased ? m->first_edge[v] + i : -1;
    return (scored_edge){&m->program->stage[stage], e, v, head, q, k, index};
}

/* The edge's entry of edge_bias; and the first entry of its edge_key, of the key's head. -1: none. */
static int64_t bias_entry(const semantics *m, const scored_edge *x)
{
    hga_id heads = m->io->edge_bias.columns;
    return m->io->edge_bias.data && x->index >= 0 ? x->index * heads + (heads == 1 ? 0 : x->head) : -1;
}
static int64_t key_entry(const semantics *m, const scored_edge *x)
{
    const hga_shape *s = &m->shape;
    hga_id kv = x->head / (s->n_heads / s->n_kv_heads);
    return m->io->edge_key.data && x->index >= 0 ? (x->index * s->n_kv_heads + kv) * s->dim : -1;
}

/* Column c of the position of a node. */
static double position(const semantics *m, hga_id node, hga_id c)
{
    int64_t i = (int64_t)node * m->shape.pos_dim + c;
    return table_entry(m, HGA_TABLE_NODE_POS, m->io->node_pos.data[i], i);
}
/* The nodes whose positions the row uses, and the source. */
static hga_id own_node(const scored_edge *x) { return x->e->pos_of ? x->e->pos_of - 1 : x->v; }
static hga_id other_node(const scored_edge *x) { return x->e->src_pos_of ? x->e->src_pos_of - 1 : x->e->src; }

/* |x_q - x_k|, the factor of slopes. */
static double score_distance(const semantics *m, const scored_edge *x)
{
    return fabs(m->position[x->v] - m->position[x->e->src]);
}

/* ---- products and additive scores ---- */

/* Column c of rel_key[type] + edge_key[e]. */
static double beside_key(const semantics *m, const scored_edge *x, hga_id c)
{
    int64_t type = (int64_t)x->e->type * m->shape.dim + c, edge = key_entry(m, x);
    double sum = m->io->rel_key.data ? table_entry(m, HGA_TABLE_REL_KEY, m->io->rel_key.data[type], type) : 0;
    if (edge >= 0) sum += table_entry(m, HGA_TABLE_EDGE_KEY, m->io->edge_key.data[edge + c], edge + c);
    return sum;
}

/* Adds the gradient d of beside_key to both tables. */
static void beside_key_adjoint(const semantics *m, const scored_edge *x, hga_id c, double d, const table_sums *sums)
{
    int64_t edge = key_entry(m, x);
    if (sums->of[HGA_TABLE_REL_KEY]) sums->of[HGA_TABLE_REL_KEY][(int64_t)x->e->type * m->shape.dim + c] += d;
    if (sums->of[HGA_TABLE_EDGE_KEY] && edge >= 0) sums->of[HGA_TABLE_EDGE_KEY][edge + c] += d;
}

/* q . (k + rel_key[type] + edge_key[e]) */
static double dot_product(const semantics *m, const scored_edge *x)
{
    const int more = m->io->rel_key.data || key_entry(m, x) >= 0; /* else an infinite query times 0 would be NaN */
    double sum = dot(x->q, x->k, m->shape.dim);
    for (hga_id c = 0; more && c < m->shape.dim; c++) sum += x->q[c] * beside_key(m, x, c);
    return sum;
}

/* Adds the product's gradient d to query and key, and to the tables added to the key. */
static void dot_product_adjoint(const semantics *m, const scored_edge *x, double d, double *dq, double *dk,
                                const table_sums *sums)
{
    hga_id dim = m->shape.dim;
    axpy(d, x->k, dim, dq);
    axpy(d, x->q, dim, dk);
    for (hga_id c = 0; c < dim; c++) {
        dq[c] += d * beside_key(m, x, c);
        beside_key_adjoint(m, x, c, d * x->q[c], sums);
    }
}

/* Column c of q + k + rel_key[type] + edge_key[e], and its factor in the sum. */
static double added(const semantics *m, const scored_edge *x, hga_id c)
{
    return x->q[c] + x->k[c] + beside_key(m, x, c);
}
static double counted(const semantics *m, const scored_edge *x, hga_id c)
{
    int64_t i = (int64_t)x->head * m->shape.dim + c;
    return m->additive ? table_entry(m, HGA_TABLE_ADDITIVE, m->additive[i], i) : 1;
}
/* The slope of LeakyReLU: its value is this times z. */
static double leaky_relu(const semantics *m, double z) { return z > 0 ? 1 : (double)m->program->negative_slope; }

static double additive(const semantics *m, const scored_edge *x)
{
    double sum = 0;
    for (hga_id c = 0; c < m->shape.dim; c++) {
        double z = added(m, x, c);
        sum += counted(m, x, c) * leaky_relu(m, z) * z;
    }
    return sum;
}

/* Adds d, column by column through LeakyReLU, to query, key, the tables added to it, and the head's vector. */
static void additive_adjoint(const semantics *m, const scored_edge *x, double d, double *dq, double *dk,
                             const table_sums *sums)
{
    hga_id dim = m->shape.dim;
    for (hga_id c = 0; c < dim; c++) {
        double z = added(m, x, c), dz = d * counted(m, x, c) * leaky_relu(m, z);
        dq[c] += dz, dk[c] += dz;
        beside_key_adjoint(m, x, c, dz, sums);
        if (sums->of[HGA_TABLE_ADDITIVE])
            sums->of[HGA_TABLE_ADDITIVE][(int64_t)x->head * dim + c] += d * leaky_relu(m, z) * z;
    }
}

/* By hga_scores. */
static const struct {
    double (*value)(const semantics *m, const scored_edge *x);
    void (*adjoint)(const semantics *m, const scored_edge *x, double d, double *dq, double *dk, const table_sums *sums);
} products[HGA_SCORES_ADDITIVE + 1] = {
    [HGA_SCORES_PRODUCT] = {dot_product, dot_product_adjoint}, [HGA_SCORES_ADDITIVE] = {additive, additive_adjoint}};

static double product(const semantics *m, const scored_edge *x) { return products[m->program->scores].value(m, x); }

/* ---- the whole score ---- */

static double content(const semantics *m, const scored_edge *x)
{
    return (m->scale + table_entry(m, HGA_TABLE_SCALE, 0, 0)) * product(m, x);
}

static double capped(const semantics *m, double content)
{
    return m->softcap > 0 ? m->softcap * tanh(content / m->softcap) : content;
}

/* The derivative of the score by the content. */
static double cap_slope(const semantics *m, const scored_edge *x)
{
    double t = m->softcap > 0 ? tanh(content(m, x) / m->softcap) : 0;
    return 1 - t * t;
}

/* The capped content plus counts, biases, positions, slopes. */
double edge_score(const semantics *m, const scored_edge *x)
{
    const hga_io *io = m->io;
    int64_t bias = (int64_t)x->e->type * m->shape.n_heads + x->head, of_edge = bias_entry(m, x);
    double sum = capped(m, content(m, x)) + log((double)x->e->weight);
    if (io->rel_bias.data) sum += table_entry(m, HGA_TABLE_REL_BIAS, io->rel_bias.data[bias], bias);
    if (of_edge >= 0) sum += table_entry(m, HGA_TABLE_EDGE_BIAS, io->edge_bias.data[of_edge], of_edge);
    if (x->stage->by_mass) sum += log((double)m->nodes.mass[x->e->src]);
    sum += table_entry(m, HGA_TABLE_LOG_MASS, 0, x->e->src);
    for (hga_id c = 0; io->node_pos.data && c < m->shape.pos_dim; c++)
        sum += position(m, own_node(x), c) * position(m, other_node(x), c);
    if (m->slopes) sum -= table_entry(m, HGA_TABLE_SLOPES, m->slopes[x->head], x->head) * score_distance(m, x);
    return sum;
}

static void positions_adjoint(const semantics *m, const scored_edge *x, double ds, double *d_pos)
{
    hga_id dim = m->shape.pos_dim;
    for (hga_id c = 0; c < dim; c++) {
        int64_t mine = (int64_t)own_node(x) * dim + c, other = (int64_t)other_node(x) * dim + c;
        d_pos[mine] += ds * (double)m->io->node_pos.data[other];
        d_pos[other] += ds * (double)m->io->node_pos.data[mine];
    }
}

/* ds is the gradient of the score, d_count that of its count's logarithm; `sums` has the tables whose gradients are
   requested. */
void edge_score_adjoint(const semantics *m, const scored_edge *x, double ds, double d_count, double *dq, double *dk,
                        const table_sums *sums)
{
    double d_content = ds * cap_slope(m, x);
    products[m->program->scores].adjoint(m, x, m->scale * d_content, dq, dk, sums);
    if (sums->of[HGA_TABLE_REL_BIAS])
        sums->of[HGA_TABLE_REL_BIAS][(int64_t)x->e->type * m->shape.n_heads + x->head] += ds;
    if (sums->of[HGA_TABLE_EDGE_BIAS] && x->index >= 0) sums->of[HGA_TABLE_EDGE_BIAS][bias_entry(m, x)] += ds;
    if (sums->of[HGA_TABLE_LOG_MASS]) sums->of[HGA_TABLE_LOG_MASS][x->e->src] += d_count;
    if (sums->of[HGA_TABLE_SCALE]) *sums->of[HGA_TABLE_SCALE] += d_content * product(m, x);
    if (sums->of[HGA_TABLE_SLOPES]) sums->of[HGA_TABLE_SLOPES][x->head] -= ds * score_distance(m, x);
    if (sums->of[HGA_TABLE_NODE_POS]) positions_adjoint(m, x, ds, sums->of[HGA_TABLE_NODE_POS]);
}
