/* scores.c: the terms of scores besides the products: masses, weights, positions, biases; and the addresses of a
   chunk's source rows. */
#include "scores.h"
#include "stages.h"

#include <float.h>
#include <math.h>
#include <string.h>

static float dot(const float *a, const float *b, hga_id n)
{
    float sum = 0;
    for (hga_id i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

float in_base_2(float x)
{
    float y = x * KERNEL_LOG2E;
    return y < -FLT_MAX && x >= -FLT_MAX ? -FLT_MAX : y;
}

/* Terms that all heads share, in base 2: the sigmoids' bias, counts, and with v >= 0 products of positions. */
void score_bases(const worker *w, hga_id stage, hga_id v, const edge_chunk *c, float *bases)
{
    const hga_stage *s = stage_of(w, stage);
    hga_id dim = w->plan->shape.pos_dim;
    float mass = 1, log_mass = 0, weight = 1, log_weight = 0;
    for (hga_id e = 0; e < c->n; e++) {
        float base = w->workspace->scores.sigmoid_bias_2;
        if (s->by_mass) {
            float m = w->plan->nodes.mass[c->src[e]];
            if (m != mass) mass = m, log_mass = log2f(m); /* masses come in long runs */
            base += log_mass;
        }
        if (c->weight[e] != weight) weight = c->weight[e], log_weight = log2f(weight);
        base += log_weight;
        if (w->io->node_pos.data && v >= 0) {
            hga_id own = c->pos_of[e] ? c->pos_of[e] - 1 : v;
            hga_id other = c->src_pos_of[e] ? c->src_pos_of[e] - 1 : c->src[e];
            base += KERNEL_LOG2E * dot(w->io->node_pos.data + (ptrdiff_t)own * dim,
                                       w->io->node_pos.data + (ptrdiff_t)other * dim, dim);
        }
        bases[e] = base;
    }
}

static float distance(const worker *w, hga_id v, hga_id u)
{
    const double *at = w->plan->cache->lists.position;
    return fabsf((float)at[v] - (float)at[u]);
}

/* Clamped to FLT_MAX, so that the greatest slopes times a distance of 0 are not NaN. */
float slope_in_base_2(const worker *w, hga_id head)
{
    return fminf(w->workspace->scores.slopes[head] * KERNEL_LOG2E, FLT_MAX);
}

/* Sets row.bias[e]: the base of edge e plus the head's terms: types, slopes and biases of edges. */
void score_biases(worker *w, const row_job *job, hga_id head)
{
    const edge_chunk *c = &w->chunk;
    const hga_io *io = w->io;
    hga_id heads = w->plan->shape.n_heads;
    memcpy(w->rows.row.bias, w->rows.row.base, (size_t)c->n * sizeof *w->rows.row.bias);
    if (io->rel_bias.data)
        for (hga_id e = 0; e < c->n; e++)
            w->rows.row.bias[e] += in_base_2(io->rel_bias.data[(ptrdiff_t)c->type[e] * heads + head]);
    if (w->workspace->scores.slopes)
        for (hga_id e = 0; e < c->n; e++)
            w->rows.row.bias[e] -= slope_in_base_2(w, head) * distance(w, job->v, c->src[e]);
    if (io->edge_bias.data && job->stage == w->plan->bias_stage) {
        hga_pos first = w->plan->cache->lists.first_edge[job->v];
        hga_id columns = io->edge_bias.columns, column = columns == 1 ? 0 : head;
        for (hga_id e = 0; e < c->n; e++)
            w->rows.row.bias[e] += in_base_2(io->edge_bias.data[(first + w->rows.row.rank[e]) * columns + column]);
    }
}

/* Finds the rows of the chunk's sources; *same: all of them have one head stride, *stride. */
void find_sources(const edge_chunk *c, const bound_field *x, const float **row, int *same, ptrdiff_t *stride)
{
    int from_io = 0, from_ws = 0;
    *same = 1, *stride = x->ws.head;
    if (!x->io.n) { /* a decoder's rows are all in its workspace */
        for (hga_id e = 0; e < c->n; e++) row[e] = bound_ws_row(x, c->src[e]);
        return;
    }
    for (hga_id e = 0; e < c->n; e++) {
        int io = bound_is_io(x, c->src[e]);
        from_io |= io, from_ws |= !io;
        row[e] = bound_row(x, c->src[e]);
    }
    *same = x->heads == 1 || !(from_io && from_ws) || x->io.head == x->ws.head;
    if (from_io) *stride = x->io.head;
}

void pack_sources(const worker *w, const bound_field *x, hga_id first, hga_id n, const float **row, float *to)
{
    for (hga_id e = 0; e < n; e++) {
        const float *from = row[e];
        row[e] = to;
        for (hga_id h = 0; h < x->heads; h++, to += x->columns)
            memcpy(to, from + h * bound_head(x, w->chunk.src[first + e]), (size_t)x->columns * sizeof *to);
    }
}

void move_to_head(const edge_chunk *c, const bound_field *x, const float *const *row, hga_id head, const float **out)
{
    for (hga_id e = 0; e < c->n; e++) out[e] = row[e] + head * bound_head(x, c->src[e]);
}
