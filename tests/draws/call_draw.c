/* call_draw.c: everything that a call is, drawn together. */
#include "calls.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TYPES = 2000 };

/* A call has few options or many: one has all that meet, and in the other each is seen without the rest, which may take
   another way altogether. */
static int sometimes(choices *c, const drawn_call *call, hga_id n) { return rarely(c, call->few ? 4 * n : n); }

/* ---- shape and options ---- */

/* 1 to 17 columns, or whole vectors, which some ways are for alone. */
static hga_id some_columns(choices *c)
{
    static const hga_id whole[] = {16, 32, 16};
    hga_id n = 1 + choose(c, 20);
    return n > 17 ? whole[n - 18] : n;
}

static hga_shape some_shape(choices *c, const drawn_call *call)
{
    hga_id kv = 1 + choose(c, 2), each = 1 + choose(c, 3);
    hga_shape s = {.n_heads = kv * each, .n_kv_heads = kv, .dim = some_columns(c)};
    if (rarely(c, 2)) s.dim_v = some_columns(c);
    if (sometimes(c, call, 3)) s.pos_dim = 1 + choose(c, 3);
    return s;
}

/* A set that this machine has; which machine it is is no part of the choices. */
static const char *some_isa(choices *c)
{
    static const char *const names[] = {"ref", "avx2", "avx512", "avx512bf16"};
    const char *name = names[choose(c, 4)], *found = strstr(hga_isa_list(), name);
    char after = found ? found[strlen(name)] : 'x';
    return after == ' ' || after == 0 ? name : names[0];
}

static void draw_options(choices *c, drawn_call *call)
{
    static const char *const topologies[] = {"numa:2 core:2 pu:1", "core:3 pu:2"};
    hga_options *o = &call->options;
    o->threads = 1 + choose(c, 4);
    o->gradient = rarely(c, 2);
    o->rows = rarely(c, 3) ? HGA_SOME_ROWS : HGA_EVERY_ROW;
    if (sometimes(c, call, 4)) o->isa = some_isa(c);
    if (sometimes(c, call, 3)) o->precision = HGA_PRECISION_BF16;
    if (sometimes(c, call, 3)) o->cut_edges = 1 + choose(c, 40);
    if (sometimes(c, call, 4)) o->dropout = 0.25f * (float)(1 + choose(c, 3));
    if (sometimes(c, call, 4)) o->gradient_strips = 1 + choose(c, 6);
    if (sometimes(c, call, 4)) o->gradient_subtree = 1 + choose(c, 60);
    if (sometimes(c, call, 5)) o->topology = topologies[choose(c, 2)];
    o->generic = sometimes(c, call, 4);
    o->keep_fields = sometimes(c, call, o->rows ? 20 : 3); /* which are refused together */
    (void)sometimes(c, call, 5); /* of an option that is gone: what is drawn after it stays what it was */
    o->bind = sometimes(c, call, 6);
}

/* ---- arrays ---- */

static int64_t rows_of(const hga_graph *g, hga_field_rows rows)
{
    hga_nodes nodes = hga_graph_nodes(g);
    int64_t n = 0;
    for (hga_id v = 0; v < nodes.n; v++) {
        int side = nodes.side ? nodes.side[v] : HGA_SIDE_BOTH;
        n += rows == HGA_ROWS_QUERIES      ? v >= nodes.query_first && v < nodes.query_first + nodes.n_queries
             : rows == HGA_ROWS_KEYS       ? v >= nodes.key_first && v < nodes.key_first + nodes.n_keys
             : rows == HGA_ROWS_QUERY_SIDE ? side != HGA_SIDE_KEY
             : rows == HGA_ROWS_KEY_SIDE   ? side != HGA_SIDE_QUERY
             : rows == HGA_ROWS_ABOVE      ? v >= nodes.level_ptr[1]
                                           : 1;
    }
    return n;
}

static hga_id columns_of(const hga_shape *s, hga_width width)
{
    hga_id values = s->dim_v ? s->dim_v : s->dim;
    return width == HGA_WIDTH_SCALAR ? 1 : width == HGA_WIDTH_KEY || width == HGA_WIDTH_KV_KEY ? s->dim : values;
}

static hga_id heads_of(const hga_shape *s, hga_width width)
{
    return width == HGA_WIDTH_KV_KEY || width == HGA_WIDTH_VALUE ? s->n_kv_heads : s->n_heads;
}

static int64_t elements_of(const array *a)
{
    return a->rows && a->columns ? (a->rows - 1) * a->row_stride + (a->heads - 1) * a->head_stride + a->columns : 0;
}

static array *add_array(drawn_call *call, array a)
{
    if (call->n_arrays == MOST_ARRAYS) draw_fail("more than %d arrays", MOST_ARRAYS);
    a.packed = 1, a.head_stride = (ptrdiff_t)a.columns, a.row_stride = a.heads * (ptrdiff_t)a.columns;
    a.dtype = HGA_F32, a.elements = elements_of(&a), a.written_from = a.rows;
    call->plain[call->n_arrays] = call->drawn[call->n_arrays] = a;
    return &call->drawn[call->n_arrays++];
}

/* Packed or with gaps, rows or heads outermost; float32 more often than 16 bits. */
static void draw_layout(choices *c, array *a)
{
    int how = choose(c, 4), gap = how ? choose(c, 3) : 0;
    if (how == 3)
        a->row_stride = (ptrdiff_t)a->columns + gap, a->head_stride = (ptrdiff_t)a->rows * a->row_stride + gap;
    else
        a->head_stride = (ptrdiff_t)a->columns + gap, a->row_stride = a->heads * a->head_stride + gap;
    a->packed = !how;
    if (rarely(c, 4)) a->dtype = choose(c, 2) ? HGA_F16 : HGA_BF16;
    a->elements = elements_of(a);
}

static void add_tensor(choices *c, drawn_call *call, const char *name, array_use use, size_t at, int64_t rows,
                       hga_id heads, hga_id columns, int by_row)
{
    array a = {.name = name, .use = use, .is_tensor = 1, .by_row = by_row, .at = at};
    a.rows = rows, a.heads = heads, a.columns = columns;
    draw_layout(c, add_array(call, a));
}

/* Of log-sum-exps, which are float32 always. */
static void add_lse(choices *c, drawn_call *call, const char *name, array_use use, size_t at)
{
    add_tensor(c, call, name, use, at, call->out_rows, call->shape.n_heads, 1, 1);
    call->drawn[call->n_arrays - 1].dtype = HGA_F32;
}

static void add_table(drawn_call *call, const char *name, array_use use, size_t at, int64_t n)
{
    add_array(call, (array){.name = name, .use = use, .at = at, .rows = 1, .heads = 1, .columns = n});
}

static void add_output(choices *c, drawn_call *call, const hga_field *f)
{
    const hga_shape *s = &call->shape;
    hga_id columns = columns_of(s, f->width);
    call->out_rows = rows_of(call->graph, f->io);
    add_tensor(c, call, "out", ARRAY_WRITTEN, offsetof(hga_io, out), call->out_rows, s->n_heads, columns, 1);
    if (call->options.gradient)
        add_tensor(c, call, "d_out", ARRAY_GIVEN, offsetof(hga_grad_io, d_out), call->out_rows, s->n_heads, columns, 1);
    if (!call->program->has_lse) return;
    if (choose(c, 3)) add_lse(c, call, "lse", ARRAY_WRITTEN, offsetof(hga_io, lse));
    if (call->options.gradient && choose(c, 2)) add_lse(c, call, "d_lse", ARRAY_GIVEN, offsetof(hga_grad_io, d_lse));
}

/* The first of the caller's rows of a field that a stage writes, as many as there are without. A stage that coarsens in
   place leaves tokens alone. */
static int64_t first_written(const drawn_call *call, hga_id field, int64_t rows)
{
    hga_id first, n, tokens = hga_graph_nodes(call->graph).level_ptr[1];
    int64_t from = rows;
    if (hga_program_rows(call->program, call->graph, field, &first, &n)) return rows;
    for (hga_id i = 0; i < call->program->n_stages; i++) {
        const hga_stage *s = &call->program->stage[i];
        int keeps_tokens = s->order == HGA_LEVELS_UP && s->value == s->out && s->message != HGA_MESSAGE_USER;
        int64_t here = keeps_tokens && tokens > first ? tokens - first : 0;
        if (s->writes >> field & 1 && here < from) from = here;
    }
    return from;
}

/* The tensors of a field, forward and back. */
static void add_field(choices *c, drawn_call *call, const hga_field *f, int user)
{
    static const char *const names[] = {
        [HGA_IO_QUERY] = "query", [HGA_IO_KEY] = "key", [HGA_IO_VALUE] = "value", [HGA_IO_USER] = "user"};
    static const char *const gradients[] = {
        [HGA_IO_QUERY] = "d_query", [HGA_IO_KEY] = "d_key", [HGA_IO_VALUE] = "d_value", [HGA_IO_USER] = "d_user"};
    static const size_t in_io[] = {[HGA_IO_QUERY] = offsetof(hga_io, query),
                                   [HGA_IO_KEY] = offsetof(hga_io, key),
                                   [HGA_IO_VALUE] = offsetof(hga_io, value),
                                   [HGA_IO_USER] = offsetof(hga_io, user)};
    static const size_t in_grad[] = {[HGA_IO_QUERY] = offsetof(hga_grad_io, d_query),
                                     [HGA_IO_KEY] = offsetof(hga_grad_io, d_key),
                                     [HGA_IO_VALUE] = offsetof(hga_grad_io, d_value),
                                     [HGA_IO_USER] = offsetof(hga_grad_io, d_user)};
    size_t step = f->binding == HGA_IO_USER ? (size_t)user * sizeof(hga_tensor) : 0;
    int64_t rows = rows_of(call->graph, f->io);
    hga_id heads = heads_of(&call->shape, f->width), columns = columns_of(&call->shape, f->width);
    add_tensor(c, call, names[f->binding], ARRAY_READ, in_io[f->binding] + step, rows, heads, columns, 0);
    if (f->binding == HGA_IO_USER) {
        int64_t from = first_written(call, (hga_id)(f - call->program->field), rows);
        call->drawn[call->n_arrays - 1].written_from = call->plain[call->n_arrays - 1].written_from = from;
    }
    if (call->options.gradient)
        add_tensor(c, call, gradients[f->binding], ARRAY_WANTED, in_grad[f->binding] + step, rows, heads, columns, 0);
}

static void add_tensors(choices *c, drawn_call *call)
{
    int user = 0;
    for (hga_id i = 1; i <= call->program->n_fields; i++) {
        const hga_field *f = &call->program->field[i];
        if (f->binding == HGA_INTERNAL || (f->binding == HGA_IO_USER && user == HGA_MAX_USER_TENSORS)) continue;
        if (f->binding == HGA_IO_OUT)
            add_output(c, call, f);
        else
            add_field(c, call, f, user);
        user += f->binding == HGA_IO_USER;
    }
}

/* A caller may bring what the program has no field for, and want its gradient: zeros. */
static void add_unbound(choices *c, drawn_call *call)
{
    static const hga_field usual[] = {{.binding = HGA_IO_QUERY, .width = HGA_WIDTH_KEY, .io = HGA_ROWS_QUERIES},
                                      {.binding = HGA_IO_KEY, .width = HGA_WIDTH_KV_KEY, .io = HGA_ROWS_KEYS},
                                      {.binding = HGA_IO_VALUE, .width = HGA_WIDTH_VALUE, .io = HGA_ROWS_KEYS}};
    for (int i = 0; i < 3; i++)
        if (!hga_program_field(call->program, usual[i].binding) && choose(c, 3)) add_field(c, call, &usual[i], 0);
}

/* ---- tables ---- */

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
    add_table(call, name, ARRAY_READ, at, n);
    if (call->options.gradient) add_table(call, gradient, ARRAY_WANTED, d_at, n);
}

#define BOTH(table) #table, offsetof(hga_io, table), "d_" #table, offsetof(hga_grad_io, d_##table)

/* Tables by type, by edge and by node, where the choices want them; some are longer than they must be. */
static void add_tables(choices *c, drawn_call *call)
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
    add_table(call, "d_log_mass", ARRAY_WANTED, offsetof(hga_grad_io, d_log_mass), n);
    add_table(call, "d_scale", ARRAY_WANTED, offsetof(hga_grad_io, d_scale), 1);
}

/* ---- what is asked for ---- */

/* Rows as one interval; or as two, a third each, where several are due. */
static void list_rows(drawn_call *call)
{
    for (int i = 0; i < call->n_samples; i++) {
        hga_interval *x = call->asked[i].interval;
        int64_t third = call->several ? x->n / 3 : 0;
        if (third) x[1] = (hga_interval){x->first + x->n - third, third}, x->n = third;
        call->rows[i] = (hga_rows){.n_intervals = 1 + (third > 0), .interval = x};
    }
}

void call_draw_rows(choices *c, drawn_call *call)
{
    for (int i = 0; i < call->n_samples; i++) {
        call->asked[i] = asked_between(0, 0);
        if (!call->options.rows || call->out_rows < 1 || rarely(c, 8)) continue;
        hga_id first = choose(c, (hga_id)call->out_rows);
        call->asked[i] = asked_between(first, 1 + choose(c, (hga_id)(call->out_rows - first)));
    }
    list_rows(call);
}

static void draw_asked(choices *c, drawn_call *call)
{
    static const float scales[] = {0, 0.5f, -0.75f, 2};
    call->n_samples = rarely(c, 3) ? 1 + choose(c, MOST_SAMPLES) : 1;
    call->in_batch = call->n_samples > 1 || rarely(c, 8) || call->wish.has[TRAIT_BATCH];
    call_draw_rows(c, call);
    call->modifiers.scale = scales[rarely(c, 3) ? 1 + choose(c, 3) : 0];
    call->io.seed = (uint64_t)choose(c, 256), call->io.layer = (uint32_t)choose(c, 3);
    call->updated = sometimes(c, call, 2);
    call->accumulate = sometimes(c, call, 3);
    int all = rarely(c, 2);
    for (int a = 0; a < call->n_arrays; a++)
        if (call->drawn[a].use == ARRAY_WANTED && (all || choose(c, 3) == 0)) call->wanted |= UINT64_C(1) << a;
}

static int has_message(const hga_program *p, hga_message message)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].message == message) return 1;
    return 0;
}

static hga_normaliser normaliser_of(const hga_program *p)
{
    hga_normaliser found = HGA_NORMALISER_SOFTMAX;
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].message == HGA_SCORE) found = p->stage[i].normaliser;
    return found;
}

static int has_places(const hga_graph *g)
{
    double *where = malloc((size_t)(hga_graph_nodes(g).n + 1) * sizeof *where);
    if (!where) draw_fail("no memory for positions");
    hga_status st = hga_graph_positions(g, where);
    free(where);
    return !st;
}

/* A gradient that comes later; wanted for seven seeds in eight. */
static void want_later(drawn_call *call, const char *name, size_t at, int64_t n)
{
    if (!call->options.gradient) return;
    add_table(call, name, ARRAY_WANTED, at, n);
    if (call->seed & 7) call->wanted |= UINT64_C(1) << (call->n_arrays - 1);
}

static void draw_additive(drawn_call *call)
{
    int64_t n = (int64_t)call->shape.n_heads * call->shape.dim;
    for (int64_t i = 0; i < n; i++) call->additive[i] = 0.25f * (float)((i * 5 + 3) % 9 - 4);
    call->modifiers.additive = call->additive;
    want_later(call, "d_additive", offsetof(hga_grad_io, d_additive), n);
}

/* Softcap, sinks and slopes where the program can have them. */
static void draw_modifiers(drawn_call *call, uint64_t at)
{
    brought *m = &call->modifiers;
    int scores = has_message(call->program, HGA_SCORE);
    hga_id heads = call->shape.n_heads;
    for (hga_id h = 0; h < heads; h++) {
        call->sink[h] = h % 3 == 2 ? -INFINITY : 0.5f * (float)((at + (uint64_t)h) & 7) - 2;
        call->slopes[h] = h % 4 == 3 ? 0 : 1.0f / (float)(2 << h % 6);
    }
    if (at % 5 == 0 && scores && !has_message(call->program, HGA_ENERGY)) m->softcap = 1 + (float)(at >> 3 & 3);
    if ((at >> 5) % 3 == 0 && call->program->has_lse)
        m->sink = call->sink, want_later(call, "d_sink", offsetof(hga_grad_io, d_sink), heads);
    if ((at >> 8) % 5 == 0 && scores && has_places(call->graph)) {
        m->slopes = call->slopes;
        want_later(call, "d_slopes", offsetof(hga_grad_io, d_slopes), heads);
    }
    if (call->program->scores == HGA_SCORES_ADDITIVE && (at >> 11) % 8) draw_additive(call);
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
    sum.name = "edge_out", sum.at = offsetof(hga_io, edge_out), add_array(call, sum);
    sum.name = "d_edge_out", sum.at = offsetof(hga_grad_io, d_edge_out), sum.use = ARRAY_GIVEN;
    if (call->options.gradient && call->seed & 7) add_array(call, sum);
}

/* Keys and features of edges, which come last: who cannot have them leaves them out. */
static void draw_edges(drawn_call *call, uint64_t at)
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
    int rare = has_message(call->program, HGA_SCALED); /* weighted sums before it */
    if (fits && ((at >> 2) % 2 == 0 || rare || call->wish.has[TRAIT_EDGE_VALUE]))
        add_features(call, relation, edges, 1 + (hga_id)(at >> 4 & 7));
}

void call_drop_edges(drawn_call *c)
{
    c->n_arrays = c->n_before_edges, c->wanted &= (UINT64_C(1) << c->n_arrays) - 1;
    c->io.edge_key = c->io.edge_value = (hga_table){0};
}

/* Options that came later depend on the numbers' seed, so that what was drawn before stays what it was. */
static void draw_later(drawn_call *call)
{
    uint64_t at = call->seed * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    call->modifiers = (brought){.scale = at % 8 ? call->modifiers.scale : 0, .scale_is_given = at % 8 < 2};
    if (normaliser_of(call->program) == HGA_NORMALISER_SIGMOID)
        call->modifiers.normaliser_bias = 0.5f * (float)(at >> 4 & 7) - 2;
    call->several = at >> 3 & 1;
    list_rows(call);
    draw_modifiers(call, at >> 10);
    int may = !call->options.gradient && !call->options.keep_fields;
    if (may && ((at >> 7) % 3 == 0 || call->wish.has[TRAIT_ROWS_STAY])) call->options.rows = HGA_ROWS_THAT_STAY;
    call->options.strict_rows = (at >> 15) % 4 == 0;
    call_draw_folds(call, at >> 17);
    draw_edges(call, call->seed * UINT64_C(0x9E3779B97F4A7C15) >> 40);
}

/* Of what there is one of, what a call wishes keeps the others out. */
static int is_due(const drawn_call *call, trait of, int comes)
{
    int another =
        (of == TRAIT_SIGMOID && call->wish.has[TRAIT_ENTMAX]) || (of == TRAIT_ENTMAX && call->wish.has[TRAIT_SIGMOID]);
    return call->wish.has[of] || (comes && !another);
}

/* Entmax in softmax's place in some programs of one stage that attends, into whose states nothing is merged. */
static void draw_entmax(drawn_call *call)
{
    static const double alphas[] = {1.5, 2, 1.25, 1.5, 1};
    hga_program *p = &call->own;
    hga_id attends = -1, n = hga_graph_nodes(call->graph).n;
    int comes = (n + 3 * call->program->n_stages) % 5 == 0 && call->program != p;
    if (!is_due(call, TRAIT_ENTMAX, comes)) return;
    *p = *call->program;
    for (hga_id i = 0; i < p->n_stages; i++) {
        hga_message message = p->stage[i].message;
        if (message == HGA_SCORE && attends < 0 && p->stage[i].update == HGA_REPLACE)
            attends = i;
        else if (message != HGA_COPY && message != HGA_SCALED && message != HGA_MESSAGE_USER)
            return;
    }
    if (attends < 0) return;
    p->stage[attends].normaliser = HGA_NORMALISER_ENTMAX, p->stage[attends].alpha = alphas[n % 5], p->has_lse = 0;
    call->program = p;
}

/* Sigmoids in softmax's place in some programs whose stages do not need log-sum-exps. */
static void draw_sigmoids(drawn_call *call)
{
    hga_program *p = &call->own;
    hga_nodes nodes = hga_graph_nodes(call->graph);
    hga_id attends = 0;
    *p = *call->program;
    for (hga_id i = 0; i < p->n_stages; i++) {
        hga_message message = p->stage[i].message;
        if (message == HGA_ENERGY || message == HGA_GATE) return;
        if (message == HGA_SCORE) p->stage[i].normaliser = HGA_NORMALISER_SIGMOID, attends = 1;
    }
    int comes = (nodes.n + 3 * p->n_stages + 5 * p->n_fields) % 6 == 0;
    if (!attends || !is_due(call, TRAIT_SIGMOID, comes)) return;
    p->has_lse = 0;
    call->program = p;
}

/* Additive scores in products' place in some programs. */
static void draw_additive_scores(drawn_call *call)
{
    const hga_program *p = call->program;
    hga_nodes nodes = hga_graph_nodes(call->graph);
    int comes = (nodes.n + p->n_stages + 2 * p->n_fields) % 6 == 3;
    if (!has_message(p, HGA_SCORE) || !is_due(call, TRAIT_ADDITIVE, comes)) return;
    if (p != &call->own) call->own = *p;
    call->own.scores = HGA_SCORES_ADDITIVE, call->own.negative_slope = 0.25f * (float)(nodes.n % 5);
    call->program = &call->own;
}

/* Options that are wished for, in place of those that are refused with them. */
static void grant_options(drawn_call *call)
{
    const uint8_t *has = call->wish.has;
    hga_options *o = &call->options;
    if (has[TRAIT_BF16]) o->precision = HGA_PRECISION_BF16;
    if (has[TRAIT_GENERIC]) o->generic = 1;
    if (has[TRAIT_DROPOUT] && o->dropout == 0) o->dropout = 0.25f;
    if (has[TRAIT_SOME_ROWS]) o->rows = HGA_SOME_ROWS;
    if (has[TRAIT_ROWS_STAY]) o->gradient = 0;
    if (has[TRAIT_ROWS_STAY] || has[TRAIT_SOME_ROWS]) o->keep_fields = 0;
}

/* The first tensors that are read have the types that are wished for. */
static void grant_types(drawn_call *call)
{
    static const struct {
        trait of;
        hga_dtype type;
    } types[] = {{TRAIT_F16_TENSORS, HGA_F16}, {TRAIT_BF16_TENSORS, HGA_BF16}};
    int next = 0;
    for (int i = 0; i < call->n_arrays && next < 2; i++) {
        array *a = &call->drawn[i];
        if (a->use != ARRAY_READ || !a->is_tensor) continue;
        while (next < 2 && !call->wish.has[types[next].of]) next++;
        if (next < 2) a->dtype = types[next++].type;
    }
}

void call_draw(choices *c, const hga_graph *g, const hga_program *p, drawn_call *out)
{
    call_draw_wish(c, g, p, &(trait_set){{0}}, out);
}

void call_draw_wish(choices *c, const hga_graph *g, const hga_program *p, const trait_set *wish, drawn_call *out)
{
    *out = (drawn_call){.graph = g, .program = p, .few = choose(c, 2) == 0, .wish = *wish};
    draw_sigmoids(out);
    draw_entmax(out);
    draw_additive_scores(out);
    out->shape = some_shape(c, out);
    draw_options(c, out);
    grant_options(out);
    add_tensors(c, out);
    grant_types(out);
    add_unbound(c, out);
    add_tables(c, out);
    draw_asked(c, out);
    out->seed = (uint64_t)choose(c, 65536);
    draw_later(out);
}

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
