/* call_tables.c: the tables of a drawn call, by type, by edge and by node, and the numbers of all arrays. */
#include "call_parts.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_TYPES = 2000 };

static void fill(float *x, int64_t n, uint64_t seed)
{
    choices numbers = choices_of_seed(seed);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(choose(&numbers, 1 << 24) - (1 << 23)) * 0x1p-23f;
}

/* Numbers for every edge that depend on the edge alone: of twins, an edge that two blocks give, nobody says which is
   first. */
static float *edge_numbers(const hga_graph *g, hga_id relation, hga_id heads, uint64_t salt)
{
    hga_csr rows;
    hga_nodes nodes = hga_graph_nodes(g);
    if (hga_graph_rows(g, relation, 0, nodes.n, &rows)) draw_fail("no rows: %s", hga_error_detail());
    float *bias = malloc((size_t)(rows.ptr[nodes.n] * heads + 1) * sizeof *bias);
    if (!bias) draw_fail("no memory for biases");
    for (hga_id v = 0; v < nodes.n; v++)
        for (hga_pos e = rows.ptr[v]; e < rows.ptr[v + 1]; e++)
            fill(bias + e * heads, heads,
                 salt + (uint64_t)v * 7919 + (uint64_t)rows.src[e] * 104729 +
                     (uint64_t)(uint32_t)rows.type[e] * 1299709);
    hga_csr_clear(&rows);
    return bias;
}

/* The first relation that is attended, -1 without; how many types tables must know of. */
static hga_id find_tables(const drawn_call *call, int32_t *n_types)
{
    hga_id attended = -1, n_relations = hga_graph_nodes(call->graph).n_relations;
    *n_types = 1;
    for (hga_id i = 0; i < call->program->n_stages; i++) {
        const hga_stage *s = &call->program->stage[i];
        if (s->relation < 0 || s->relation >= n_relations) continue;
        hga_relation r = hga_graph_relation(call->graph, s->relation);
        *n_types = r.n_types > *n_types ? r.n_types : *n_types;
        if (s->message == HGA_SCORE && attended < 0) attended = s->relation;
    }
    return attended;
}

static void add_both(drawn_call *call, const char *name, size_t at, const char *gradient, size_t d_at, int64_t n)
{
    call_add_table(call, name, ARRAY_READ, at, n);
    if (call->options.gradient) call_add_table(call, gradient, ARRAY_OUTPUT, d_at, n);
}

#define BOTH(table) #table, offsetof(hga_io, table), "d_" #table, offsetof(hga_grad_io, d_##table)

/* Tables by type, by edge and by node, where the choices want them; some are longer than they must be. */
void call_add_tables(choices *c, drawn_call *call)
{
    const hga_shape *s = &call->shape;
    hga_io *io = &call->io;
    int32_t n_types;
    hga_id attended = find_tables(call, &n_types), n = hga_graph_nodes(call->graph).n;
    hga_id n_entries = n_types + (rarely(c, 3) ? 2 : 0);
    if (n_types > MOST_TYPES) return;
    io->type_scale.rows = n_entries;
    add_both(call, BOTH(type_scale), n_entries);
    if (sometimes(c, call, 3)) io->rel_key.rows = n_entries, add_both(call, BOTH(rel_key), (int64_t)n_entries * s->dim);
    if (sometimes(c, call, 3))
        io->rel_bias.rows = n_entries, add_both(call, BOTH(rel_bias), (int64_t)n_entries * s->n_heads);
    if (attended >= 0 && sometimes(c, call, 3)) {
        hga_pos edges = hga_graph_relation(call->graph, attended).n_edges;
        io->edge_bias.columns = rarely(c, 2) ? s->n_heads : 1, io->edge_bias.rows = edges;
        call->of_edges[EDGES_BIAS] = edge_numbers(call->graph, attended, io->edge_bias.columns, 0);
        add_both(call, BOTH(edge_bias), edges * io->edge_bias.columns);
    }
    if (s->pos_dim) io->node_pos.rows = n, add_both(call, BOTH(node_pos), (int64_t)n * s->pos_dim);
    if (!call->options.gradient) return;
    call_add_table(call, "d_log_mass", ARRAY_OUTPUT, offsetof(hga_grad_io, d_log_mass), n);
    call_add_table(call, "d_scale", ARRAY_OUTPUT, offsetof(hga_grad_io, d_scale), 1);
}

/* ---- what edges bring ---- */

/* The last stage, where it alone attends and leaves the output, with a softmax; else NULL. */
static const hga_stage *lone_stage(const drawn_call *call)
{
    const hga_program *p = call->program;
    const hga_stage *last = &p->stage[p->n_stages - 1];
    hga_id out = hga_program_field(p, HGA_IO_OUT);
    for (const hga_stage *s = p->stage; s < last; s++)
        if (s->writes >> out & 1u || s->message == HGA_SCORE) return NULL;
    int attends = last->writes >> out & 1u && last->message == HGA_SCORE && last->update != HGA_UPDATE_MERGE &&
                  last->normaliser == HGA_NORMALISER_SOFTMAX;
    return attends ? last : NULL;
}

static void add_features(drawn_call *call, hga_id relation, int64_t edges, hga_id columns)
{
    hga_table *t = &call->io.edge_value;
    array sum = {.use = ARRAY_WRITTEN, .is_tensor = 1, .by_row = 1, .rows = call->out_rows, .columns = columns};
    t->rows = edges, t->columns = columns, sum.heads = call->shape.n_heads;
    call->of_edges[EDGES_VALUE] = edge_numbers(call->graph, relation, columns, 2);
    add_both(call, BOTH(edge_value), edges * columns);
    if (call->options.gradient && call->seed & 3) call->wanted |= UINT64_C(1) << (call->n_arrays - 1);
    sum.name = "edge_out", sum.at = offsetof(hga_io, edge_out), call_add_array(call, sum);
    sum.name = "d_edge_out", sum.at = offsetof(hga_grad_io, d_edge_out), sum.use = ARRAY_INPUT;
    if (call->options.gradient && call->seed & 7) call_add_array(call, sum);
}

/* Keys and features of edges, which come last: who cannot have them leaves them out. */
void call_draw_edges(drawn_call *call, uint64_t at)
{
    int32_t n_types;
    hga_id relation = find_tables(call, &n_types);
    const hga_stage *lone = lone_stage(call);
    call->n_before_edges = call->n_arrays;
    if (relation < 0 || n_types > MOST_TYPES) return;
    int64_t edges = hga_graph_relation(call->graph, relation).n_edges;
    if (at % 4 == 0 || call->wish.has[TRAIT_EDGE_KEY]) {
        hga_id columns = call->shape.n_kv_heads * call->shape.dim;
        call->io.edge_key.rows = edges;
        call->of_edges[EDGES_KEY] = edge_numbers(call->graph, relation, columns, 1);
        add_both(call, BOTH(edge_key), edges * columns);
        if (call->options.gradient && call->seed & 3) call->wanted |= UINT64_C(1) << (call->n_arrays - 1);
    }
    int fits = lone && lone->relation == relation && !call->modifiers.sink;
    int rare = call_has_message(call->program, HGA_SCALED); /* weighted sums before it */
    if (fits && ((at >> 2) % 2 == 0 || rare || call->wish.has[TRAIT_EDGE_VALUE]))
        add_features(call, relation, edges, 1 + (hga_id)(at >> 4 & 7));
}

void call_drop_edges(drawn_call *c)
{
    c->n_arrays = c->n_before_edges, c->wanted &= (UINT64_C(1) << c->n_arrays) - 1;
    c->io.edge_key = c->io.edge_value = (hga_table){0};
}

/* ---- numbers ---- */

void call_clear(drawn_call *c)
{
    for (int i = 0; i < N_OF_EDGES; i++) free(c->of_edges[i]), c->of_edges[i] = NULL;
}

void call_forget_biases(drawn_call *c) { call_clear(c); }

uint64_t array_seed(const drawn_call *c, int a, int sample)
{
    return c->seed * 1000 + (uint64_t)a * 10 + (uint64_t)(c->drawn[a].is_tensor ? sample : 0);
}

void array_numbers(const drawn_call *c, int a, int sample, float *out)
{
    static const size_t in_io[N_OF_EDGES] = {offsetof(hga_io, edge_bias), offsetof(hga_io, edge_key),
                                             offsetof(hga_io, edge_value)};
    const array *x = &c->drawn[a];
    int64_t n = x->rows * x->heads * x->columns;
    for (int i = 0; i < N_OF_EDGES; i++)
        if (c->of_edges[i] && x->use == ARRAY_READ && !x->is_tensor && x->at == in_io[i]) {
            memcpy(out, c->of_edges[i], (size_t)n * sizeof *out);
            return;
        }
    fill(out, n, array_seed(c, a, sample));
    for (int64_t i = 0; i < n && x->dtype != HGA_F32; i++) out[i] = rounded(x->dtype, out[i]);
}
