/* slow_inputs.c: what a call brings, in double and packed, for the oracle. */
#include "slow.h"

#include <math.h>
#include <stdlib.h>

static double *doubles(const float *x, int64_t n)
{
    double *y = x && n ? memory(n, sizeof *y) : NULL;
    for (int64_t i = 0; y && i < n; i++) y[i] = (double)x[i];
    return y;
}

/* The caller's rows, side by side. */
static double *rows_of(const hga_graph *g, const hga_field *field, const hga_tensor *t, hga_id heads, hga_id columns,
                       int64_t *n)
{
    hga_id rows;
    free(row_nodes(g, field->io, &rows));
    ptrdiff_t row = t->row_stride ? t->row_stride : heads * columns, head = t->head_stride ? t->head_stride : columns;
    double *x = memory((int64_t)rows * heads * columns, sizeof *x);
    *n = 0;
    for (hga_id i = 0; i < rows; i++)
        for (hga_id h = 0; h < heads; h++)
            for (hga_id c = 0; c < columns; c++) x[(*n)++] = (double)((const float *)t->data)[i * row + h * head + c];
    return x;
}

slow_inputs slow_inputs_of(const hga_graph *g, const hga_program *p, const hga_shape *input, const hga_io *io)
{
    slow_inputs in = {.edge_bias_heads = io->edge_bias.columns};
    hga_shape shape = slow_shape(input);
    in.softcap = (double)(io->softcap.data ? *io->softcap.data : p->softcap);
    in.bias = io->normaliser_bias.data ? (double)*io->normaliser_bias.data : 0;
    in.n[SLOW_SINK] = in.n[SLOW_SLOPES] = shape.n_heads;
    in.of[SLOW_SINK] = doubles(io->sink.data, shape.n_heads);
    in.of[SLOW_SLOPES] = doubles(io->slopes.data, shape.n_heads);
    in.n[SLOW_ADDITIVE] = (int64_t)shape.n_heads * shape.dim;
    in.of[SLOW_ADDITIVE] = doubles(io->additive.data, in.n[SLOW_ADDITIVE]);
    hga_id user = SLOW_USER;
    const int64_t n_nodes = hga_graph_nodes(g).n;
    for (hga_id f = 1; f <= p->n_fields; f++) {
        const hga_field *field = &p->field[f];
        int which = field->binding == HGA_IO_QUERY   ? SLOW_QUERY
                    : field->binding == HGA_IO_KEY   ? SLOW_KEY
                    : field->binding == HGA_IO_VALUE ? SLOW_VALUE
                    : field->binding == HGA_IO_USER  ? user++
                                                     : -1;
        if (which < 0) continue;
        const hga_tensor *t = which == SLOW_QUERY   ? &io->query
                              : which == SLOW_KEY   ? &io->key
                              : which == SLOW_VALUE ? &io->value
                                                    : &io->user[which - SLOW_USER];
        in.of[which] =
            rows_of(g, field, t, heads_of(&shape, field->width), columns_of(&shape, field->width), &in.n[which]);
    }
    in.n[SLOW_REL_KEY] = (int64_t)io->rel_key.rows * shape.dim,
    in.n[SLOW_REL_BIAS] = (int64_t)io->rel_bias.rows * shape.n_heads;
    in.n[SLOW_EDGE_BIAS] = io->edge_bias.rows * io->edge_bias.columns, in.n[SLOW_NODE_POS] = n_nodes * shape.pos_dim;
    in.n[SLOW_TYPE_SCALE] = io->type_scale.rows, in.n[SLOW_SCALE] = 1, in.n[SLOW_LOG_MASS] = n_nodes;
    in.of[SLOW_REL_KEY] = doubles(io->rel_key.data, in.n[SLOW_REL_KEY]);
    in.of[SLOW_REL_BIAS] = doubles(io->rel_bias.data, in.n[SLOW_REL_BIAS]);
    in.of[SLOW_EDGE_BIAS] = doubles(io->edge_bias.data, in.n[SLOW_EDGE_BIAS]);
    in.n[SLOW_EDGE_KEY] = io->edge_key.rows * shape.n_kv_heads * shape.dim;
    in.of[SLOW_EDGE_KEY] = doubles(io->edge_key.data, in.n[SLOW_EDGE_KEY]);
    in.of[SLOW_NODE_POS] = doubles(io->node_pos.data, in.n[SLOW_NODE_POS]);
    in.of[SLOW_TYPE_SCALE] = doubles(io->type_scale.data, in.n[SLOW_TYPE_SCALE]);
    in.of[SLOW_LOG_MASS] = memory(n_nodes, sizeof(double));
    in.of[SLOW_SCALE] = memory(1, sizeof(double));
    in.of[SLOW_SCALE][0] = io->scale.data          ? (double)*io->scale.data
                           : p->default_scale != 0 ? (double)p->default_scale
                           : p->scores             ? 1
                                                   : 1 / sqrt(shape.dim);
    return in;
}

void slow_inputs_clear(slow_inputs *in)
{
    for (int i = 0; i < N_SLOW_INPUTS; i++) free(in->of[i]);
    *in = (slow_inputs){0};
}
