/* call_tables.c: the tables, a row each. */
#include "call_tables.h"
#include "modifiers.h"

/* What there is an entry, or a column, for. */
typedef enum extent { ONE, DIM, HEADS, POS_DIM, NODES, KEY_TYPES, BIAS_TYPES, SCALE_TYPES, EDGES, EDGE_HEADS } extent;

/* Where the caller's address is. */
typedef enum holder { IN_NOTHING, IN_IO, IN_MODIFIERS } holder;

static const struct {
    const char *name;
    holder holder;
    size_t given, wanted; /* in it; in hga_grad_io */
    extent rows, columns;
} tables[N_TABLES] = {
#define IO(member)       IN_IO, offsetof(hga_io, member), offsetof(hga_grad_io, d_##member)
#define MODIFIER(member) IN_MODIFIERS, offsetof(hga_modifiers, member), offsetof(hga_grad_io, d_##member)
#define GRADIENT(member) IN_NOTHING, 0, offsetof(hga_grad_io, d_##member)
    [REL_KEY] = {"rel_key", IO(rel_key), KEY_TYPES, DIM},
    [REL_BIAS] = {"rel_bias", IO(rel_bias), BIAS_TYPES, HEADS},
    [EDGE_BIAS] = {"edge_bias", IO(edge_bias), EDGES, EDGE_HEADS},
    [NODE_POS] = {"node_pos", IO(node_pos), NODES, POS_DIM},
    [TYPE_SCALE] = {"type_scale", IO(type_scale), SCALE_TYPES, ONE},
    [LOG_MASS] = {"log_mass", GRADIENT(log_mass), NODES, ONE},
    [SCALE] = {"scale", GRADIENT(scale), ONE, ONE},
    [SINK] = {"sink", MODIFIER(sink), HEADS, ONE},
    [SLOPES] = {"slopes", MODIFIER(slopes), HEADS, ONE},
    [ADDITIVE] = {"additive", MODIFIER(additive), HEADS, DIM},
};

const char *call_table_name(call_table which) { return tables[which].name; }

int call_table_is_given(call_table which) { return tables[which].holder != IN_NOTHING; }

const float *call_table_given(call_table which, const hga_io *io)
{
    const hga_modifiers modifiers = modifiers_of(io);
    const char *const holders[] = {
        [IN_NOTHING] = NULL, [IN_IO] = (const char *)io, [IN_MODIFIERS] = (const char *)&modifiers};
    const char *from = holders[tables[which].holder];
    return from ? *(const float *const *)(const void *)(from + tables[which].given) : NULL;
}

float *call_table_wanted(call_table which, const hga_grad_io *grad)
{
    return *(float *const *)(const void *)((const char *)grad + tables[which].wanted);
}

int64_t call_table_entries(call_table which, const hga_shape *s, hga_id n_nodes, const hga_io *io)
{
    const int64_t n[] = {[ONE] = 1,
                         [DIM] = s->dim,
                         [HEADS] = s->n_heads,
                         [POS_DIM] = s->pos_dim,
                         [NODES] = n_nodes,
                         [KEY_TYPES] = io->n_rel_key,
                         [BIAS_TYPES] = io->n_rel_bias,
                         [SCALE_TYPES] = io->n_type_scale,
                         [EDGES] = io->n_edge_bias,
                         [EDGE_HEADS] = io->edge_bias_heads};
    return n[tables[which].rows] * n[tables[which].columns];
}

int call_table_is_by_head(call_table which, const hga_io *io)
{
    return call_table_is_of_heads(which) || tables[which].columns == HEADS ||
           (tables[which].columns == EDGE_HEADS && io->edge_bias_heads > 1);
}

int call_table_is_of_heads(call_table which) { return tables[which].rows == HEADS; }
