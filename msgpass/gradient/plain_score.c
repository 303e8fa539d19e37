/* plain_score.c: the weight that an edge has among the scores, and what its gradient is spread over. */
#include "plain.h"

/* Column c of the position of a node; of that which the row uses. */
static double position(const pass *p, hga_id node, hga_id c)
{
    int64_t i = (int64_t)node * p->plan->shape.pos_dim + c;
    return entry_of(p, HGA_GRADIENT_NODE_POS, p->call->io->node_pos[i], i);
}
static hga_id own_node(const attended *x) { return x->e->pos_of ? x->e->pos_of - 1 : x->v; }
static hga_id other_node(const attended *x) { return x->e->src_pos_of ? x->e->src_pos_of - 1 : x->e->src; }

static int64_t bias_place(const pass *p, const attended *x)
{
    hga_id heads = p->call->io->edge_bias_heads;
    return x->position * heads + (heads == 1 ? 0 : x->head);
}

/* q . (k + rel_key[type]) */
static double product(const pass *p, const attended *x)
{
    const hga_io *io = p->call->io;
    hga_id dim = p->plan->shape.dim;
    const double *q = at(&p->value[x->stage->query], x->v, x->h), *k = at(&p->value[x->stage->key], x->e->src, x->h);
    double sum = dot(q, k, dim);
    for (hga_id c = 0; io->rel_key && c < dim; c++) {
        int64_t i = (int64_t)x->e->type * dim + c;
        sum += q[c] * entry_of(p, HGA_GRADIENT_REL_KEY, io->rel_key[i], i);
    }
    return sum;
}

double plain_score(const pass *p, const attended *x)
{
    const hga_io *io = p->call->io;
    const hga_shape *shape = &p->plan->shape;
    int64_t bias = (int64_t)x->e->type * shape->n_heads + x->head;
    double sum = entry_of(p, HGA_GRADIENT_SCALE, p->call->scale, 0) * product(p, x) + log((double)x->e->weight);
    if (io->rel_bias) sum += entry_of(p, HGA_GRADIENT_REL_BIAS, io->rel_bias[bias], bias);
    if (x->biased) sum += entry_of(p, HGA_GRADIENT_EDGE_BIAS, io->edge_bias[bias_place(p, x)], bias_place(p, x));
    if (x->stage->by_mass) sum += log((double)p->nodes.mass[x->e->src]);
    sum += entry_of(p, HGA_GRADIENT_LOG_MASS, 0, x->e->src);
    for (hga_id c = 0; io->node_pos && c < shape->pos_dim; c++)
        sum += position(p, own_node(x), c) * position(p, other_node(x), c);
    return sum;
}

void plain_score_adjoint(pass *p, const attended *x, double ds)
{
    const hga_io *io = p->call->io;
    const table_sums *sums = &p->call->sums[p->kv];
    const hga_shape *shape = &p->plan->shape;
    double scale = (double)p->call->scale;
    const double *q = at(&p->value[x->stage->query], x->v, x->h), *k = at(&p->value[x->stage->key], x->e->src, x->h);
    double *dq = at(&p->adjoint[x->stage->query], x->v, x->h), *dk = at(&p->adjoint[x->stage->key], x->e->src, x->h);
    axpy(scale * ds, k, shape->dim, dq);
    axpy(scale * ds, q, shape->dim, dk);
    for (hga_id c = 0; io->rel_key && c < shape->dim; c++)
        dq[c] += scale * ds * (double)io->rel_key[(ptrdiff_t)x->e->type * shape->dim + c];
    if (sums->of[REL_KEY]) axpy(scale * ds, q, shape->dim, sums->of[REL_KEY] + (ptrdiff_t)x->e->type * shape->dim);
    if (sums->of[REL_BIAS]) sums->of[REL_BIAS][(ptrdiff_t)x->e->type * shape->n_heads + x->head] += ds;
    if (sums->of[EDGE_BIAS] && x->biased) sums->of[EDGE_BIAS][bias_place(p, x)] += ds;
    if (sums->of[LOG_MASS]) sums->of[LOG_MASS][x->e->src] += ds;
    if (sums->of[SCALE]) *sums->of[SCALE] += ds * product(p, x);
    if (!sums->of[NODE_POS]) return;
    for (hga_id c = 0; c < shape->pos_dim; c++) {
        ptrdiff_t mine = (ptrdiff_t)own_node(x) * shape->pos_dim + c,
                  other = (ptrdiff_t)other_node(x) * shape->pos_dim + c;
        sums->of[NODE_POS][mine] += ds * (double)io->node_pos[other];
        sums->of[NODE_POS][other] += ds * (double)io->node_pos[mine];
    }
}
attended attended_edge(const pass *p, const row *r, int64_t i, hga_id h)
{
    int biased = p->call->io->edge_bias && r->s == p->plan->bias_stage;
    hga_pos first = biased ? p->plan->stage[r->s].row_ptr[r->v] : 0;
    return (attended){.e = &p->rows.edge[i],
                      .v = r->v,
                      .h = h,
                      .head = p->kv * p->group + h,
                      .position = first + i,
                      .biased = biased,
                      .stage = r->stage};
}
