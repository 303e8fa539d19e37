/* call_draw.c: everything that a call is, drawn together: shape, options, what is asked for, what came later. Arrays
   are in call_arrays.c and call_tables.c. */
#include "call_parts.h"
#include "isas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    static const char *const names[] = {FLOAT_ISAS, PAIRS_ISA};
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
    if (sometimes(c, call, 4)) o->gradient_row_ranges = 1 + choose(c, 6);
    if (sometimes(c, call, 4)) o->gradient_subtree = 1 + choose(c, 60);
    if (sometimes(c, call, 5)) o->topology = topologies[choose(c, 2)];
    o->generic = sometimes(c, call, 4);
    o->keep_fields = sometimes(c, call, o->rows ? 20 : 3); /* which are refused together */
    (void)sometimes(c, call, 5); /* of an option that is gone: what is drawn after it stays what it was */
    o->bind = sometimes(c, call, 6);
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
        if (call->drawn[a].use == ARRAY_OUTPUT && (all || choose(c, 3) == 0)) call->wanted |= UINT64_C(1) << a;
}

int call_has_message(const hga_program *p, hga_message message)
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

int sums_rounded_sigmoids(const drawn_call *c)
{
    return c->options.precision == HGA_PRECISION_BF16 && normaliser_of(c->program) == HGA_NORMALISER_SIGMOID;
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
    call_add_table(call, name, ARRAY_OUTPUT, at, n);
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
    operands *m = &call->modifiers;
    int scores = call_has_message(call->program, HGA_SCORE);
    hga_id heads = call->shape.n_heads;
    for (hga_id h = 0; h < heads; h++) {
        call->sink[h] = h % 3 == 2 ? -INFINITY : 0.5f * (float)((at + (uint64_t)h) & 7) - 2;
        call->slopes[h] = h % 4 == 3 ? 0 : 1.0f / (float)(2 << h % 6);
    }
    if (at % 5 == 0 && scores && !call_has_message(call->program, HGA_ENERGY)) m->softcap = 1 + (float)(at >> 3 & 3);
    if ((at >> 5) % 3 == 0 && call->program->has_lse)
        m->sink = call->sink, want_later(call, "d_sink", offsetof(hga_grad_io, d_sink), heads);
    if ((at >> 8) % 5 == 0 && scores && has_places(call->graph)) {
        m->slopes = call->slopes;
        want_later(call, "d_slopes", offsetof(hga_grad_io, d_slopes), heads);
    }
    if (call->program->scores == HGA_SCORES_ADDITIVE && (at >> 11) % 8) draw_additive(call);
}

/* Options that came later depend on the numbers' seed, so that what was drawn before stays what it was. */
static void draw_later(drawn_call *call)
{
    uint64_t at = call->seed * UINT64_C(0x9E3779B97F4A7C15) >> 32;
    call->modifiers = (operands){.scale = at % 8 ? call->modifiers.scale : 0, .has_scale = at % 8 < 2};
    if (normaliser_of(call->program) == HGA_NORMALISER_SIGMOID)
        call->modifiers.normaliser_bias = 0.5f * (float)(at >> 4 & 7) - 2;
    call->several = at >> 3 & 1;
    list_rows(call);
    draw_modifiers(call, at >> 10);
    int may = !call->options.gradient && !call->options.keep_fields;
    if (may && ((at >> 7) % 3 == 0 || call->wish.has[TRAIT_ROWS_STAY])) call->options.rows = HGA_ROWS_THAT_STAY;
    call->options.strict_rows = (at >> 15) % 4 == 0;
    call_draw_folds(call, at >> 17);
    call_draw_edges(call, call->seed * UINT64_C(0x9E3779B97F4A7C15) >> 40);
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
    if (!call_has_message(p, HGA_SCORE) || !is_due(call, TRAIT_ADDITIVE, comes)) return;
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
    call_add_tensors(c, out);
    grant_types(out);
    call_add_unbound(c, out);
    call_add_tables(c, out);
    draw_asked(c, out);
    out->seed = (uint64_t)choose(c, 65536);
    draw_later(out);
}
