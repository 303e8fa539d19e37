/* traits.c: which options a call has. */
#include "traits.h"

#include <stdio.h>
#include <string.h>

const trait_row trait_table[N_TRAITS] = {
    [TRAIT_THREADS] = {"threads", "hga_options.threads"},
    [TRAIT_ISA] = {"isa", "hga_options.isa"},
    [TRAIT_BF16] = {"precision bf16", "hga_options.precision"},
    [TRAIT_GENERIC] = {"generic", "hga_options.generic"},
    [TRAIT_TOPOLOGY] = {"topology", "hga_options.topology"},
    [TRAIT_BIND] = {"bind", "hga_options.bind"},
    [TRAIT_METIS] = {"partition_metis", "hga_options.partition_metis"},
    [TRAIT_KEEP_FIELDS] = {"keep_fields", "hga_options.keep_fields"},
    [TRAIT_CUT_EDGES] = {"cut_edges", "hga_options.cut_edges"},
    [TRAIT_DROPOUT] = {"dropout", "hga_options.dropout hga_io.seed hga_io.layer"},
    [TRAIT_RANGES] = {"ranges", "hga_options.ranges hga_io.first_row hga_io.n_rows"},
    [TRAIT_LISTED_ROWS] = {"rows by a list",
                           "hga_io.rows hga_rows.n_intervals hga_rows.interval hga_interval.first hga_interval.n"},
    [TRAIT_SLICES] = {"slices", "hga_options.slices"},
    [TRAIT_STRICT] = {"strict_rows", "hga_options.strict_rows"},
    [TRAIT_BATCH] = {"batch", ""},
    [TRAIT_UPDATED] = {"updates", ""},
    [TRAIT_GROUPED] = {"grouped heads", "hga_shape.n_kv_heads"},
    [TRAIT_DIM_V] = {"dim_v", "hga_shape.dim_v"},
    [TRAIT_SCALE] = {"scale", "hga_io.scale"},
    [TRAIT_SCALE_ZERO] = {"scale 0", "hga_io.modifiers hga_modifiers.scale_is_given"},
    [TRAIT_SIGMOID] = {"sigmoid", "hga_modifiers.normaliser_bias"},
    [TRAIT_ENTMAX] = {"entmax", ""},
    [TRAIT_SOFTCAP] = {"softcap", "hga_modifiers.softcap hga_options.modifiers"},
    [TRAIT_SINK] = {"sink", "hga_modifiers.sink"},
    [TRAIT_SLOPES] = {"slopes", "hga_modifiers.slopes"},
    [TRAIT_ADDITIVE] = {"additive scores", "hga_modifiers.additive"},
    [TRAIT_STRIDES] = {"strides", "hga_tensor.row_stride hga_tensor.head_stride"},
    [TRAIT_F16_TENSORS] = {"f16 tensors", "hga_tensor.dtype"},
    [TRAIT_BF16_TENSORS] = {"bf16 tensors", "hga_tensor.dtype"},
    [TRAIT_LSE] = {"lse", "hga_io.lse"},
    [TRAIT_REL_KEY] = {"rel_key", "hga_io.rel_key hga_io.n_rel_key"},
    [TRAIT_REL_BIAS] = {"rel_bias", "hga_io.rel_bias hga_io.n_rel_bias"},
    [TRAIT_EDGE_BIAS] = {"edge_bias", "hga_options.edge_bias hga_io.edge_bias hga_io.n_edge_bias"},
    [TRAIT_EDGE_BIAS_HEADS] = {"edge_bias by head", "hga_io.edge_bias_heads"},
    [TRAIT_NODE_POS] = {"node_pos", "hga_shape.pos_dim hga_io.node_pos hga_io.n_node_pos"},
    [TRAIT_TYPE_SCALE] = {"type_scale", "hga_io.type_scale hga_io.n_type_scale"},
    [TRAIT_USER_TENSORS] = {"user tensors", "hga_io.user"},
    [TRAIT_USER_FUNCTIONS] = {"user functions", ""},
    [TRAIT_ROW_ORDER] = {"order of rows", ""},
    [TRAIT_SOURCE_ORDER] = {"order of sources", ""},
    [TRAIT_SIDES] = {"sides of tokens", ""},
    [TRAIT_CROSS] = {"cross-attention", ""},
    [TRAIT_RANKS] = {"ranks", "hga_options.ranks"},
    [TRAIT_GRADIENT] = {"gradient", "hga_options.gradient hga_io.tape hga_grad_io.d_out"},
    [TRAIT_STRIPS] = {"gradient_strips", "hga_options.gradient_strips"},
    [TRAIT_SUBTREE] = {"gradient_subtree", "hga_options.gradient_subtree"},
    [TRAIT_ACCUMULATE] = {"accumulate", "hga_grad_io.accumulate"},
    [TRAIT_D_LSE] = {"d_lse", "hga_grad_io.d_lse"},
    [TRAIT_SOME_GRADIENTS] = {"some gradients", ""},
    [TRAIT_D_QUERY] = {"d_query", "hga_grad_io.d_query"},
    [TRAIT_D_KEY] = {"d_key", "hga_grad_io.d_key"},
    [TRAIT_D_VALUE] = {"d_value", "hga_grad_io.d_value"},
    [TRAIT_D_USER] = {"d_user", "hga_grad_io.d_user"},
    [TRAIT_D_REL_KEY] = {"d_rel_key", "hga_grad_io.d_rel_key"},
    [TRAIT_D_REL_BIAS] = {"d_rel_bias", "hga_grad_io.d_rel_bias"},
    [TRAIT_D_EDGE_BIAS] = {"d_edge_bias", "hga_grad_io.d_edge_bias"},
    [TRAIT_D_NODE_POS] = {"d_node_pos", "hga_grad_io.d_node_pos"},
    [TRAIT_D_TYPE_SCALE] = {"d_type_scale", "hga_grad_io.d_type_scale"},
    [TRAIT_D_LOG_MASS] = {"d_log_mass", "hga_grad_io.d_log_mass"},
    [TRAIT_D_SCALE] = {"d_scale", "hga_grad_io.d_scale"},
    [TRAIT_D_SINK] = {"d_sink", "hga_grad_io.d_sink"},
    [TRAIT_D_SLOPES] = {"d_slopes", "hga_grad_io.d_slopes"},
    [TRAIT_D_ADDITIVE] = {"d_additive", "hga_grad_io.d_additive"},
};

const char *const trait_others[] = {
    "hga_shape.n_heads every call has heads",
    "hga_shape.dim every call has columns",
    "hga_shape.reserved no option yet",
    "hga_options.allocator every run has one, which fills",
    "hga_tensor.data what a tensor is",
    "hga_tensor.rows what a tensor is",
    "hga_io.query what a call reads",
    "hga_io.key what a call reads",
    "hga_io.value what a call reads",
    "hga_io.out what a call writes",
    "hga_io.reserved no option yet",
    "hga_grad_io.reserved no option yet",
    "hga_modifiers.size of what the caller knows",
    "hga_rows.reserved no option yet",
    NULL,
};

/* ---- of graph and program ---- */

static uint64_t bit(trait t) { return UINT64_C(1) << t; }

static uint64_t bit_if(int holds, trait t) { return holds ? bit(t) : 0; }

static uint64_t of_graph(const hga_graph *g)
{
    hga_nodes nodes = hga_graph_nodes(g);
    uint64_t t = bit_if(nodes.query_first != nodes.key_first || nodes.n_queries != nodes.n_keys, TRAIT_CROSS);
    for (hga_id r = 0; r < nodes.n_relations; r++) {
        hga_relation x = hga_graph_relation(g, r);
        t |= bit_if(x.dst_order != NULL, TRAIT_ROW_ORDER) | bit_if(x.src_order != NULL, TRAIT_SOURCE_ORDER);
    }
    for (hga_id v = 0; nodes.side && v < nodes.level_ptr[1] && !(t & bit(TRAIT_CROSS)); v++)
        t |= bit_if(nodes.side[v] != HGA_SIDE_BOTH, TRAIT_SIDES);
    return t;
}

static int has_stage(const hga_program *p, hga_message message)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].message == message) return 1;
    return 0;
}

/* ---- of arrays ---- */

static uint64_t of_array(const drawn_call *c, int number)
{
    static const struct {
        const char *name;
        trait of;
    } named[] = {{"lse", TRAIT_LSE},
                 {"rel_key", TRAIT_REL_KEY},
                 {"rel_bias", TRAIT_REL_BIAS},
                 {"edge_bias", TRAIT_EDGE_BIAS},
                 {"node_pos", TRAIT_NODE_POS},
                 {"type_scale", TRAIT_TYPE_SCALE},
                 {"user", TRAIT_USER_TENSORS},
                 {"d_lse", TRAIT_D_LSE},
                 {"d_query", TRAIT_D_QUERY},
                 {"d_key", TRAIT_D_KEY},
                 {"d_value", TRAIT_D_VALUE},
                 {"d_user", TRAIT_D_USER},
                 {"d_rel_key", TRAIT_D_REL_KEY},
                 {"d_rel_bias", TRAIT_D_REL_BIAS},
                 {"d_edge_bias", TRAIT_D_EDGE_BIAS},
                 {"d_node_pos", TRAIT_D_NODE_POS},
                 {"d_type_scale", TRAIT_D_TYPE_SCALE},
                 {"d_log_mass", TRAIT_D_LOG_MASS},
                 {"d_scale", TRAIT_D_SCALE},
                 {"d_sink", TRAIT_D_SINK},
                 {"d_slopes", TRAIT_D_SLOPES},
                 {"d_additive", TRAIT_D_ADDITIVE}};
    const array *a = &c->drawn[number];
    int given = a->use != ARRAY_WANTED || c->wanted >> number & 1;
    uint64_t t = bit_if(!given, TRAIT_SOME_GRADIENTS);
    if (!given) return t;
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        t |= bit_if(strcmp(a->name, named[i].name) == 0, named[i].of);
    t |= bit_if(!a->packed, TRAIT_STRIDES);
    return t | bit_if(a->dtype == HGA_F16, TRAIT_F16_TENSORS) | bit_if(a->dtype == HGA_BF16, TRAIT_BF16_TENSORS);
}

static uint64_t of_options(const hga_options *o)
{
    return bit_if(o->threads > 1, TRAIT_THREADS) | bit_if(o->isa != NULL, TRAIT_ISA) |
           bit_if(o->precision == HGA_PRECISION_BF16, TRAIT_BF16) | bit_if(o->generic, TRAIT_GENERIC) |
           bit_if(o->topology != NULL, TRAIT_TOPOLOGY) | bit_if(o->bind, TRAIT_BIND) |
           bit_if(o->partition_metis, TRAIT_METIS) | bit_if(o->keep_fields, TRAIT_KEEP_FIELDS) |
           bit_if(o->cut_edges != 0, TRAIT_CUT_EDGES) | bit_if(o->dropout > 0, TRAIT_DROPOUT) |
           bit_if(o->ranges != 0, TRAIT_RANGES) | bit_if(o->slices != 0, TRAIT_SLICES) |
           bit_if(o->strict_rows != 0, TRAIT_STRICT) | bit_if(o->gradient, TRAIT_GRADIENT) |
           bit_if(o->gradient && o->gradient_strips, TRAIT_STRIPS) |
           bit_if(o->gradient && o->gradient_subtree, TRAIT_SUBTREE);
}

uint64_t traits_of(const drawn_call *c)
{
    const hga_shape *s = &c->shape;
    uint64_t t = of_graph(c->graph) | of_options(&c->options);
    t |= bit_if(has_stage(c->program, HGA_MESSAGE_USER), TRAIT_USER_FUNCTIONS);
    for (hga_id i = 0; i < c->program->n_stages; i++)
        t |= bit_if(c->program->stage[i].normaliser == HGA_NORMALISER_SIGMOID, TRAIT_SIGMOID) |
             bit_if(c->program->stage[i].normaliser == HGA_NORMALISER_ENTMAX, TRAIT_ENTMAX);
    t |= bit_if(c->program->scores == HGA_SCORES_ADDITIVE, TRAIT_ADDITIVE);
    t |= bit_if(c->modifiers.softcap != 0, TRAIT_SOFTCAP) | bit_if(c->modifiers.sink != NULL, TRAIT_SINK);
    t |= bit_if(c->modifiers.slopes != NULL, TRAIT_SLOPES);
    t |= bit_if(s->n_kv_heads != s->n_heads, TRAIT_GROUPED) | bit_if(s->dim_v && s->dim_v != s->dim, TRAIT_DIM_V);
    t |= bit_if(c->io.scale != 0, TRAIT_SCALE) | bit_if(c->in_batch, TRAIT_BATCH) | bit_if(c->updated, TRAIT_UPDATED);
    t |= bit_if(c->modifiers.scale_is_given && c->io.scale == 0, TRAIT_SCALE_ZERO);
    for (int i = 0; i < c->n_samples; i++) t |= bit_if(c->by_list && c->n_rows[i], TRAIT_LISTED_ROWS);
    t |= bit_if(c->options.gradient && c->accumulate, TRAIT_ACCUMULATE);
    t |= bit_if(c->bias && c->io.edge_bias_heads > 1, TRAIT_EDGE_BIAS_HEADS);
    for (int i = 0; i < c->n_arrays; i++) t |= of_array(c, i);
    /* a table counts where somebody looks it up */
    if (!has_stage(c->program, HGA_SCALED)) t &= ~bit(TRAIT_TYPE_SCALE);
    if (!has_stage(c->program, HGA_SCORE))
        t &= ~(bit(TRAIT_REL_KEY) | bit(TRAIT_REL_BIAS) | bit(TRAIT_NODE_POS) | bit(TRAIT_SCALE) |
               bit(TRAIT_SCALE_ZERO) | bit(TRAIT_DROPOUT));
    return t;
}

void call_describe(const drawn_call *c)
{
    uint64_t t = traits_of(c);
    fprintf(stderr, "heads %d/%d, columns %d/%d, threads %d, %d samples:", c->shape.n_heads, c->shape.n_kv_heads,
            c->shape.dim, c->shape.dim_v, c->options.threads, c->n_samples);
    for (int i = 0; i < N_TRAITS; i++)
        if (t >> i & 1) fprintf(stderr, " %s,", trait_table[i].name);
    for (int s = 0; s < c->n_samples; s++)
        fprintf(stderr, " rows %lld + %lld", (long long)c->first_row[s], (long long)c->n_rows[s]);
    fprintf(stderr, " of %lld\n", (long long)c->out_rows);
}
