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
    [TRAIT_KEEP_FIELDS] = {"keep_fields", "hga_options.keep_fields"},
    [TRAIT_CUT_EDGES] = {"cut_edges", "hga_options.cut_edges"},
    [TRAIT_DROPOUT] = {"dropout", "hga_options.dropout hga_io.seed hga_io.layer"},
    [TRAIT_SOME_ROWS] = {"some rows", "hga_options.rows hga_io.rows"},
    [TRAIT_INTERVALS] = {"several intervals",
                         "hga_rows.n_intervals hga_rows.interval hga_interval.first hga_interval.n"},
    [TRAIT_ROWS_STAY] = {"rows that stay", ""},
    [TRAIT_STRICT] = {"strict_rows", "hga_options.strict_rows"},
    [TRAIT_BATCH] = {"batch", ""},
    [TRAIT_UPDATED] = {"updates", ""},
    [TRAIT_GROUPED] = {"grouped heads", "hga_shape.n_kv_heads"},
    [TRAIT_DIM_V] = {"dim_v", "hga_shape.dim_v"},
    [TRAIT_SCALE] = {"scale", "hga_io.scale"},
    [TRAIT_SCALE_ZERO] = {"scale 0", ""},
    [TRAIT_SIGMOID] = {"sigmoid", "hga_io.normaliser_bias"},
    [TRAIT_ENTMAX] = {"entmax", ""},
    [TRAIT_SOFTCAP] = {"softcap", "hga_io.softcap"},
    [TRAIT_SINK] = {"sink", "hga_io.sink"},
    [TRAIT_SLOPES] = {"slopes", "hga_io.slopes"},
    [TRAIT_ADDITIVE] = {"additive scores", "hga_io.additive"},
    [TRAIT_STRIDES] = {"strides", "hga_tensor.row_stride hga_tensor.head_stride"},
    [TRAIT_FOLDS] = {"folded rows", "hga_tensor.fold hga_tensor.fold_stride"},
    [TRAIT_F16_TENSORS] = {"f16 tensors", "hga_tensor.dtype"},
    [TRAIT_BF16_TENSORS] = {"bf16 tensors", "hga_tensor.dtype"},
    [TRAIT_LSE] = {"lse", "hga_io.lse"},
    [TRAIT_REL_KEY] = {"rel_key", "hga_io.rel_key"},
    [TRAIT_REL_BIAS] = {"rel_bias", "hga_io.rel_bias"},
    [TRAIT_EDGE_BIAS] = {"edge_bias", "hga_io.edge_bias"},
    [TRAIT_EDGE_BIAS_HEADS] = {"edge_bias by head", "hga_table.columns"},
    [TRAIT_EDGE_KEY] = {"edge_key", "hga_io.edge_key"},
    [TRAIT_EDGE_VALUE] = {"edge_value", "hga_io.edge_value hga_io.edge_out"},
    [TRAIT_NODE_POS] = {"node_pos", "hga_shape.pos_dim hga_io.node_pos"},
    [TRAIT_TYPE_SCALE] = {"type_scale", "hga_io.type_scale"},
    [TRAIT_USER_TENSORS] = {"user tensors", "hga_io.user"},
    [TRAIT_USER_FUNCTIONS] = {"user functions", ""},
    [TRAIT_ROW_ORDER] = {"order of rows", ""},
    [TRAIT_SOURCE_ORDER] = {"order of sources", ""},
    [TRAIT_SIDES] = {"sides of tokens", ""},
    [TRAIT_CROSS] = {"cross-attention", ""},
    [TRAIT_COARSE] = {"coarse keys", ""},
    [TRAIT_RANKS] = {"ranks", "hga_options.ranks"},
    [TRAIT_DECODING] = {"decoding", "hga_decode_options.plan hga_decode_options.rollback hga_decode_options.page_rows "
                                    "hga_decode_options.same_bits hga_decode_options.page_type"},
    [TRAIT_GRADIENT] = {"gradient", "hga_options.gradient hga_io.tape hga_grad_io.d_out"},
    [TRAIT_STRIPS] = {"gradient_row_ranges", "hga_options.gradient_row_ranges"},
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
    [TRAIT_D_EDGE_KEY] = {"d_edge_key", "hga_grad_io.d_edge_key"},
    [TRAIT_D_EDGE_VALUE] = {"d_edge_value", "hga_grad_io.d_edge_value"},
    [TRAIT_D_EDGE_OUT] = {"d_edge_out", "hga_grad_io.d_edge_out"},
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
    "hga_io.first_head of calls of some heads, which drop what all would: tests/test_dropout.c",
    "hga_io.reserved no option yet",
    "hga_io.table what follows, by number",
    "hga_grad_io.reserved no option yet",
    "hga_grad_io.d_table what follows, by number",
    "hga_io.HGA_CALL_INPUT_MEMBER rows of hga_call_tables, of which each is one",
    "hga_grad_io.HGA_CALL_GRADIENT_MEMBER rows of hga_call_tables, of which each is one",
    "hga_table.data what a table is",
    "hga_table.rows what a table is",
    "hga_table.reserved no option yet",
    "hga_decode_options.selection tokens that choose have a graph of their own: tests/test_decode_chosen.c draws them",
    "hga_decode_options.prefill the same",
    "hga_decode_options.reserved no option yet",
    "hga_rows.reserved no option yet",
    NULL,
};

/* ---- of graph and program ---- */

static void put_if(trait_set *t, int holds, trait of) { t->has[of] |= holds != 0; }

/* Is there an edge from above the tokens? */
static int has_coarse_sources(const hga_graph *g, hga_id relation)
{
    hga_csr rows;
    hga_nodes nodes = hga_graph_nodes(g);
    int coarse = 0;
    if (nodes.n == nodes.level_ptr[1]) return 0;
    if (hga_graph_rows(g, relation, 0, nodes.n, &rows)) draw_fail("no rows: %s", hga_error_detail());
    for (hga_pos e = 0; e < rows.ptr[nodes.n] && !coarse; e++) coarse = rows.src[e] >= nodes.level_ptr[1];
    hga_csr_clear(&rows);
    return coarse;
}

static void add_graph(const hga_graph *g, trait_set *t)
{
    hga_nodes nodes = hga_graph_nodes(g);
    put_if(t, nodes.query_first != nodes.key_first || nodes.n_queries != nodes.n_keys, TRAIT_CROSS);
    for (hga_id r = 0; r < nodes.n_relations; r++) {
        hga_relation x = hga_graph_relation(g, r);
        put_if(t, x.dst_order != NULL, TRAIT_ROW_ORDER), put_if(t, x.src_order != NULL, TRAIT_SOURCE_ORDER);
    }
    for (hga_id v = 0; nodes.side && v < nodes.level_ptr[1] && !t->has[TRAIT_CROSS]; v++)
        put_if(t, nodes.side[v] != HGA_SIDE_BOTH, TRAIT_SIDES);
}

static int has_stage(const hga_program *p, hga_message message)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].message == message) return 1;
    return 0;
}

static void add_program(const hga_graph *g, const hga_program *p, trait_set *t)
{
    put_if(t, has_stage(p, HGA_MESSAGE_USER), TRAIT_USER_FUNCTIONS);
    put_if(t, p->scores == HGA_SCORES_ADDITIVE, TRAIT_ADDITIVE);
    for (hga_id i = 0; i < p->n_stages; i++) {
        const hga_stage *s = &p->stage[i];
        put_if(t, s->normaliser == HGA_NORMALISER_SIGMOID, TRAIT_SIGMOID);
        put_if(t, s->normaliser == HGA_NORMALISER_ENTMAX, TRAIT_ENTMAX);
        int attends = s->message == HGA_SCORE && s->relation >= 0 && s->relation < hga_graph_nodes(g).n_relations;
        put_if(t, attends && !t->has[TRAIT_COARSE] && has_coarse_sources(g, s->relation), TRAIT_COARSE);
    }
}

/* ---- of arrays ---- */

static void add_array(const drawn_call *c, int number, trait_set *t)
{
    static const struct {
        const char *name;
        trait of;
    } named[] = {{"lse", TRAIT_LSE},
                 {"rel_key", TRAIT_REL_KEY},
                 {"rel_bias", TRAIT_REL_BIAS},
                 {"edge_bias", TRAIT_EDGE_BIAS},
                 {"edge_key", TRAIT_EDGE_KEY},
                 {"edge_value", TRAIT_EDGE_VALUE},
                 {"d_edge_key", TRAIT_D_EDGE_KEY},
                 {"d_edge_value", TRAIT_D_EDGE_VALUE},
                 {"d_edge_out", TRAIT_D_EDGE_OUT},
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
    int input = a->use != ARRAY_OUTPUT || c->wanted >> number & 1;
    put_if(t, !input, TRAIT_SOME_GRADIENTS);
    if (!input) return;
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        put_if(t, strcmp(a->name, named[i].name) == 0, named[i].of);
    put_if(t, !a->packed, TRAIT_STRIDES), put_if(t, a->fold != 0, TRAIT_FOLDS);
    put_if(t, a->dtype == HGA_F16, TRAIT_F16_TENSORS), put_if(t, a->dtype == HGA_BF16, TRAIT_BF16_TENSORS);
}

static void add_options(const hga_options *o, trait_set *t)
{
    put_if(t, o->threads > 1, TRAIT_THREADS), put_if(t, o->isa != NULL, TRAIT_ISA);
    put_if(t, o->precision == HGA_PRECISION_BF16, TRAIT_BF16), put_if(t, o->generic, TRAIT_GENERIC);
    put_if(t, o->topology != NULL, TRAIT_TOPOLOGY), put_if(t, o->bind, TRAIT_BIND);
    put_if(t, o->keep_fields, TRAIT_KEEP_FIELDS);
    put_if(t, o->cut_edges != 0, TRAIT_CUT_EDGES), put_if(t, o->dropout > 0, TRAIT_DROPOUT);
    put_if(t, o->rows != 0, TRAIT_SOME_ROWS), put_if(t, o->rows == HGA_ROWS_THAT_STAY, TRAIT_ROWS_STAY);
    put_if(t, o->strict_rows != 0, TRAIT_STRICT), put_if(t, o->gradient, TRAIT_GRADIENT);
    put_if(t, o->gradient && o->gradient_row_ranges, TRAIT_STRIPS);
    put_if(t, o->gradient && o->gradient_subtree, TRAIT_SUBTREE);
}

/* A table counts where somebody looks it up. */
static void drop_unread(const hga_program *p, trait_set *t)
{
    static const trait of_scores[] = {TRAIT_REL_KEY, TRAIT_REL_BIAS,   TRAIT_NODE_POS,
                                      TRAIT_SCALE,   TRAIT_SCALE_ZERO, TRAIT_DROPOUT};
    if (!has_stage(p, HGA_SCALED)) t->has[TRAIT_TYPE_SCALE] = 0;
    for (size_t i = 0; !has_stage(p, HGA_SCORE) && i < sizeof of_scores / sizeof *of_scores; i++)
        t->has[of_scores[i]] = 0;
}

trait_set traits_of(const drawn_call *c)
{
    const hga_shape *s = &c->shape;
    trait_set t = {{0}};
    add_graph(c->graph, &t), add_program(c->graph, c->program, &t), add_options(&c->options, &t);
    put_if(&t, c->modifiers.softcap != 0, TRAIT_SOFTCAP), put_if(&t, c->modifiers.sink != NULL, TRAIT_SINK);
    put_if(&t, c->modifiers.slopes != NULL, TRAIT_SLOPES);
    put_if(&t, s->n_kv_heads != s->n_heads, TRAIT_GROUPED), put_if(&t, s->dim_v && s->dim_v != s->dim, TRAIT_DIM_V);
    put_if(&t, c->modifiers.scale != 0, TRAIT_SCALE), put_if(&t, c->in_batch, TRAIT_BATCH);
    put_if(&t, c->updated, TRAIT_UPDATED);
    put_if(&t, c->modifiers.has_scale && c->modifiers.scale == 0, TRAIT_SCALE_ZERO);
    for (int i = 0; i < c->n_samples; i++) put_if(&t, c->asked[i].interval[1].n > 0, TRAIT_INTERVALS);
    put_if(&t, c->options.gradient && c->accumulate, TRAIT_ACCUMULATE);
    put_if(&t, c->of_edges[EDGES_BIAS] && c->io.edge_bias.columns > 1, TRAIT_EDGE_BIAS_HEADS);
    for (int i = 0; i < c->n_arrays; i++) add_array(c, i, &t);
    drop_unread(c->program, &t);
    return t;
}

void call_describe(const drawn_call *c)
{
    trait_set t = traits_of(c);
    fprintf(stderr, "heads %d/%d, columns %d/%d, threads %d, %d samples:", c->shape.n_heads, c->shape.n_kv_heads,
            c->shape.dim, c->shape.dim_v, c->options.threads, c->n_samples);
    for (int i = 0; i < N_TRAITS; i++)
        if (t.has[i]) fprintf(stderr, " %s,", trait_table[i].name);
    for (int s = 0; s < c->n_samples; s++)
        for (const hga_interval *x = c->asked[s].interval; x < c->asked[s].interval + 2; x++)
            fprintf(stderr, " rows %lld + %lld", (long long)x->first, (long long)x->n);
    fprintf(stderr, " of %lld\n", (long long)c->out_rows);
}
