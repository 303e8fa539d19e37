/* plain.c: what a gradient is. A program runs forward in double, one group of heads at a time, and every stage saves
   what it is about to overwrite; then the stages run backward, each by the adjoint that semantics/ has beside its
   formula, row by row. Slow and obvious; the fast solvers must agree. */
#include "plain.h"
#include "live.h"
#include "number_types.h"
#include "carve.h"
#include "regions.h"
#include "sink.h"
#include "tape.h"

#include "vectors.h"

#include <string.h>

/* ---- storage ---- */

static void rows_lay_out(const pass *p, hga_id field, double_rows *v, carver *arena)
{
    v->heads = field_heads(p->plan, field) == p->plan->shape.n_heads ? p->end - p->first : 1;
    v->columns = field_columns(p->plan, field);
    int64_t rows = (int64_t)p->nodes.n * v->heads;
    v->x = carve(arena, rows * v->columns, sizeof *v->x);
    if (p->program->field[field].width == HGA_WIDTH_STATE) v->lse = carve(arena, rows, sizeof *v->lse);
}

static void rows_zero(const pass *p, double_rows *v)
{
    size_t rows = (size_t)p->nodes.n * (size_t)v->heads;
    memset(v->x, 0, rows * (size_t)v->columns * sizeof *v->x);
    if (v->lse) memset(v->lse, 0, rows * sizeof *v->lse);
}

static void rows_copy(const pass *p, const double_rows *from, double_rows *to)
{
    size_t rows = (size_t)p->nodes.n * (size_t)from->heads;
    memcpy(to->x, from->x, rows * (size_t)from->columns * sizeof *to->x);
    if (from->lse) memcpy(to->lse, from->lse, rows * sizeof *to->lse);
}

/* Reads the caller's rows of a field. */
static void load_doubles(pass *p, hga_id field, const hga_tensor *t)
{
    hga_gradient_input input = program_gradient_input(p->program, field);
    hga_id heads = field_heads(p->plan, field);
    hga_id columns = p->value.of[field].columns, first, n = field_io(p->plan, field, &first);
    for (hga_id i = 0; i < n; i++)
        for (hga_id h = p->first; h < heads_end(p, field); h++) {
            hga_id head = head_of(p, field, h);
            double *to = double_row(&p->value, field, first + i, h);
            numbers_read(p->plan->machine.kernels, t->dtype, tensor_at(t, heads, columns, i, head), columns,
                         p->numbers);
            for (hga_id c = 0; c < columns; c++)
                to[c] = entry_of(&p->m, input, p->numbers[c], ((int64_t)i * heads + head) * columns + c);
        }
}

/* The most edges that a row of any stage has. */
static int64_t widest_plain_row(const hga_plan *plan)
{
    int64_t most = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        int64_t n = edges_most(plan->graph, plan->program.stage[s].relation);
        most = n > most ? n : most;
    }
    return most;
}

/* Carves values, adjoints, what stages overwrite, and a row: all memory of a pass. Key/value heads use it in turn. */
static int64_t pass_lay_out(pass *p, void *memory)
{
    carver arena = {.base = memory};
    hga_id widest = widest_columns(&p->plan->shape);
    for (hga_id f = 1; f <= p->program->n_fields; f++) {
        rows_lay_out(p, f, &p->value.of[f], &arena), rows_lay_out(p, f, &p->adjoint.of[f], &arena);
        for (hga_id s = 0; s < p->program->n_stages; s++)
            if (p->program->stage[s].writes >> f & 1u) rows_lay_out(p, f, &p->before[s].of[f], &arena);
    }
    p->numbers = carve_floats(&arena, widest);
    p->rows.own = carve(&arena, p->widest, sizeof *p->rows.own), p->rows.capacity = p->widest;
    void *row = carve(&arena, plain_scratch_bytes(p->widest, widest), 1);
    if (row) p->scratch = plain_scratch_at(row, p->widest, widest);
    user_rows_lay_out(p, &arena);
    return arena.used;
}

static void pass_begin(pass *p, void *memory)
{
    pass_lay_out(p, memory);
    for (hga_id f = 1; f <= p->program->n_fields; f++) {
        rows_zero(p, &p->value.of[f]), rows_zero(p, &p->adjoint.of[f]);
        if (program_is_input(p->program->field[f].binding)) load_doubles(p, f, field_tensor(p->call, f));
    }
}

/* ---- values as a stage reads them ---- */

typedef struct seen_values {
    field_values as;
    const pass *p;
    const hga_stage *stage;
} seen_values;

static const seen_values *seen_of(const field_values *from) { return (const seen_values *)(const void *)from; }

static const double *see_row(const field_values *from, hga_id f, hga_id v, hga_id head, double *buffer)
{
    return row_as_read(seen_of(from)->p, seen_of(from)->stage, f, v, head, buffer);
}

static double see_lse(const field_values *from, hga_id f, hga_id v, hga_id head)
{
    return *double_lse(&seen_of(from)->p->value, f, v, head);
}

static void write_seen(const field_values *to, hga_id f, hga_id v, hga_id head, const double *x)
{
    const field_values *value = &seen_of(to)->p->value.as;
    value->write(value, f, v, head, x);
}

static void write_seen_lse(const field_values *to, hga_id f, hga_id v, hga_id head, double lse)
{
    const field_values *value = &seen_of(to)->p->value.as;
    value->write_lse(value, f, v, head, lse);
}

/* ---- stages ---- */

static int writes(const pass *p, const hga_stage *stage, hga_id v)
{
    int is_copied = v < p->nodes.level_ptr[1] && program_keeps_tokens(stage);
    return program_row(&p->nodes, p->program->field[stage->out].rows, v) && !is_copied;
}

/* The gradient of the row's edge_out; NULL: none. */
static const float *edge_out_adjoint(const pass *p, const stage_row *r)
{
    const hga_tensor *t = &p->call->grad->d_edge_out;
    hga_id first, n = field_io(p->plan, r->stage->out, &first);
    if (!t->data || r->s != p->m.biased || r->v < first || r->v >= first + n) return NULL;
    return tensor_at(t, p->plan->shape.n_heads, p->call->io->edge_value.columns, r->v - first, r->head);
}

/* The row's share of a loss: its sums of edges' features times the gradient of edge_out. */
static double edge_out_loss(const pass *p, const stage_row *r)
{
    const float *d = edge_out_adjoint(p, r);
    double sum = 0;
    for (hga_id c = 0; d && c < p->call->io->edge_value.columns; c++) sum += (double)d[c] * row_add_features(r, c);
    return sum;
}

/* Runs a row of a stage forward or backward, by its formula or by the caller's functions. */
static void run_row(pass *p, stage_row *r, int backwards)
{
    const stage_semantics *kind = &all_stage_semantics[r->kind];
    const row_gradients g = {&p->adjoint, p->sums, edge_out_adjoint(p, r)};
    if (r->kind == KIND_USER)
        (backwards ? user_adjoint : user_row)(p, r);
    else if (backwards)
        kind->adjoint(r, &g);
    else
        kind->row(r), p->edge_loss += edge_out_loss(p, r);
}

/* Is the row's adjoint not zero? A row without adjoint adds nothing, whatever it holds: 0 times a number that is not
   finite would be NaN. */
static int has_adjoint(const pass *p, const stage_row *r)
{
    const float *features = edge_out_adjoint(p, r);
    int had_adjoint = 0;
    for (hga_id c = 0; features && c < p->call->io->edge_value.columns; c++) had_adjoint |= features[c] != 0;
    for (hga_id f = 1; f <= p->program->n_fields; f++) {
        if (!(r->stage->writes >> f & 1u)) continue;
        const double *d = double_row(&p->adjoint, f, r->v, r->head);
        for (hga_id c = 0; c < p->adjoint.of[f].columns; c++) had_adjoint |= d[c] != 0;
        if (p->adjoint.of[f].lse) had_adjoint |= *double_lse(&p->adjoint, f, r->v, r->head) != 0;
    }
    return had_adjoint;
}

/* Runs node v's row for all current heads. `was` holds the row before the stage: forward its present value, backward
   the saved one. */
static hga_status run_node(pass *p, hga_id s, hga_id v, int backwards)
{
    const hga_stage *stage = &p->program->stage[s];
    hga_status st = HGA_OK;
    const seen_values seen = {{see_row, see_lse, write_seen, write_seen_lse}, p, stage};
    HGA_TRY(edges_read(&p->rows, v));
    stage_row r = {.m = &p->m,
                   .stage = stage,
                   .kind = p->plan->stage[s].kind,
                   .s = s,
                   .v = v,
                   .edge = p->rows.edge,
                   .n = p->rows.n,
                   .values = &seen.as,
                   .was = backwards ? &p->before[s].as : &p->value.as,
                   .scratch = p->scratch};
    for (r.head = p->first; r.head < heads_end(p, stage->out); r.head++)
        if (!backwards || has_adjoint(p, &r)) run_row(p, &r, backwards);
done:
    return st;
}

/* Runs the rows in the order of the stage, or in reverse. */
static hga_status walk_stage(pass *p, hga_id s, int backwards)
{
    const hga_stage *stage = &p->program->stage[s];
    int down = (stage->order == HGA_LEVELS_DOWN) != backwards;
    hga_status st = HGA_OK;
    rows_open(&p->rows, p->plan, s);
    for (hga_id i = 0; i < p->nodes.n; i++) {
        hga_id v = down ? p->nodes.n - 1 - i : i;
        if (writes(p, stage, v)) HGA_TRY(run_node(p, s, v, backwards));
    }
done:
    return st;
}

/* Saves what the stage is about to overwrite. */
static void save_overwritten(pass *p, hga_id s)
{
    for (hga_id f = 1; f <= p->program->n_fields; f++)
        if (p->program->stage[s].writes >> f & 1u) rows_copy(p, &p->value.of[f], &p->before[s].of[f]);
}

static hga_status forward(pass *p)
{
    hga_status st = HGA_OK;
    for (hga_id s = 0; s < p->program->n_stages; s++) {
        save_overwritten(p, s);
        HGA_TRY(walk_stage(p, s, 0));
    }
done:
    return st;
}

/* Runs stages from last to first; after each, its fields are again what they were before it. */
static hga_status backward(pass *p)
{
    hga_status st = HGA_OK;
    for (hga_id s = p->program->n_stages; s-- > 0;) {
        HGA_TRY(walk_stage(p, s, 1));
        for (hga_id f = 1; f <= p->program->n_fields; f++)
            if (p->program->stage[s].writes >> f & 1u) rows_copy(p, &p->before[s].of[f], &p->value.of[f]);
    }
done:
    return st;
}

/* The shares of an output's row that are its own and its head's sink's. */
static sink_shares shares_of(const pass *p, hga_id out, hga_id v, hga_id h)
{
    const float *sink = p->call->io->sink.data;
    if (!sink) return (sink_shares){1, 0};
    double b = table_entry(&p->m, HGA_TABLE_SINK, sink[h], h);
    return sink_shares_of(b, *double_lse(&p->value, out, v, h));
}

/* The formulas use an output of 16 bits as it was rounded: attention's adjoint reads d_out . out - d_lse, so the
   change of the product by rounding is subtracted from d_lse. */
static void seed_rounded(pass *p, hga_id out, hga_id i, hga_id v, hga_id h)
{
    const hga_tensor *t = &p->call->io->out;
    hga_id columns = p->adjoint.of[out].columns;
    if (t->dtype == HGA_F32 || !p->call->tape_lse || !p->adjoint.of[out].lse) return; /* a loss alone has no tape */
    if (*double_lse(&p->value, out, v, h) == -INFINITY) return;
    const double *d = double_row(&p->adjoint, out, v, h), *exact = double_row(&p->value, out, v, h);
    double moved = 0;
    int asks = 0; /* else the row is perhaps not one of the call, and not there */
    for (hga_id c = 0; c < columns; c++) asks |= d[c] != 0;
    if (!asks) return;
    numbers_read(p->plan->machine.kernels, t->dtype, tensor_at(t, p->plan->shape.n_heads, columns, i, h), columns,
                 p->numbers);
    double left = shares_of(p, out, v, h).row;
    for (hga_id c = 0; c < columns; c++) moved += d[c] * ((double)p->numbers[c] - left * exact[c]);
    *double_lse(&p->adjoint, out, v, h) -= moved;
}

/* Loads the caller's gradients of the output into its adjoint. */
static void seed(pass *p)
{
    hga_id out = program_bound(p->program, HGA_IO_OUT), first, n = field_io(p->plan, out, &first);
    const hga_tensor *lse = &p->call->grad->d_lse, *input = &p->call->grad->d_out;
    hga_id heads = p->plan->shape.n_heads, columns = p->adjoint.of[out].columns;
    for (hga_id i = 0; i < n; i++) {
        for (hga_id h = p->first; h < heads_end(p, out); h++) {
            double *d = double_row(&p->adjoint, out, first + i, h);
            numbers_read(p->plan->machine.kernels, input->dtype, tensor_at(input, heads, columns, i, h), columns,
                         p->numbers);
            for (hga_id c = 0; c < columns; c++) d[c] = (double)p->numbers[c];
            if (lse->data)
                *double_lse(&p->adjoint, out, first + i, h) = (double)*(const float *)tensor_at(lse, heads, 1, i, h);
            seed_rounded(p, out, i, first + i, h);
        }
    }
}

/* ---- sinks ---- */

/* Converts the gradient of a row of the output, and of its log-sum-exp, to those before the sink. */
static void seed_before_sink(pass *p, hga_id out, hga_id v, hga_id h)
{
    sink_shares share = shares_of(p, out, v, h);
    hga_id columns = p->adjoint.of[out].columns;
    double *d = double_row(&p->adjoint, out, v, h), *d_lse = double_lse(&p->adjoint, out, v, h),
           along = dot(d, double_row(&p->value, out, v, h), columns);
    *d_lse = share.row * (*d_lse + share.sink * along);
    for (hga_id c = 0; c < columns; c++) d[c] *= share.row;
}

/* Applies the sink to a row of the output and its log-sum-exp. */
static void pay_sink(pass *p, hga_id out, hga_id v, hga_id h)
{
    double left = shares_of(p, out, v, h).row, *x = double_row(&p->value, out, v, h),
           *lse = double_lse(&p->value, out, v, h);
    *lse = sink_lse(table_entry(&p->m, HGA_TABLE_SINK, p->call->io->sink.data[h], h), *lse);
    for (hga_id c = 0; c < p->value.of[out].columns; c++) x[c] *= left;
}

static void each_sink(pass *p, void (*each)(pass *p, hga_id out, hga_id v, hga_id h))
{
    hga_id out = program_bound(p->program, HGA_IO_OUT), first, n = field_io(p->plan, out, &first);
    if (!p->call->io->sink.data) return;
    for (hga_id v = first; v < first + n; v++)
        for (hga_id h = p->first; h < heads_end(p, out); h++) each(p, out, v, h);
}

/* ---- required gradients ---- */

/* Stores the gradients of an input's rows in the caller's tensor, if it is required. */
static void store_gradient(pass *p, hga_id field)
{
    const hga_tensor *t = field_gradient(p->call, field);
    if (!t || !t->data) return;
    hga_id first, heads = field_heads(p->plan, field), columns = p->adjoint.of[field].columns;
    int adds = p->call->grad->accumulate;
    float *x = p->numbers;
    hga_id n = field_io(p->plan, field, &first);
    for (hga_id i = 0; i < n; i++)
        for (hga_id h = p->first; h < heads_end(p, field); h++) {
            void *to = tensor_at(t, heads, columns, i, head_of(p, field, h));
            const double *d = double_row(&p->adjoint, field, first + i, h);
            if (adds) numbers_read(p->plan->machine.kernels, t->dtype, to, columns, x);
            for (hga_id c = 0; c < columns; c++) x[c] = (float)((adds ? (double)x[c] : 0) + d[c]);
            numbers_write(p->plan->machine.kernels, t->dtype, x, columns, to);
        }
}

/* The query heads of one key/value head, without a call. */
static pass empty_pass(const hga_plan *plan, hga_id kv)
{
    hga_id group = plan->shape.n_heads / plan->shape.n_kv_heads;
    pass p = {.plan = plan,
              .program = &plan->program,
              .nodes = plan->nodes,
              .widest = widest_plain_row(plan),
              .first = kv * group,
              .end = (kv + 1) * group,
              .value = doubles_from(kv * group),
              .adjoint = doubles_from(kv * group)};
    for (hga_id s = 0; s < plan->program.n_stages; s++) p.before[s] = p.value;
    return p;
}

/* A call's pass over the query heads of one key/value head. */
static pass pass_of(const gradient_call *c, hga_id kv)
{
    const hga_plan *plan = c->plan;
    hga_id biased = call_has_edges(c->io) ? plan->bias_stage : -1;
    pass p = empty_pass(plan, kv);
    p.call = c, p.sums = c->sums ? &c->sums[kv] : NULL;
    p.m = semantics_of_call(&plan->program, plan->nodes, &plan->shape, c->io);
    p.m.position = plan->cache->lists.position, p.m.dropout = plan->options.dropout, p.m.moved = c->moved;
    p.m.biased = biased, p.m.first_edge = biased >= 0 ? plan->cache->lists.first_edge : NULL;
    return p;
}

static int64_t pass_bytes(const hga_plan *plan)
{
    pass p = empty_pass(plan, 0);
    return pass_lay_out(&p, NULL);
}

/* ---- the solver ---- */

/* A field that has been read rounded and is written by this stage, or read unrounded; 0: none. */
static hga_id continues_rounded(const hga_stage *s, uint32_t rounded)
{
    uint32_t again = rounded & (s->writes | (s->order == HGA_FLAT ? 0 : s->reads));
    return again ? __builtin_ctz(again) : 0;
}

/* Returns the first reason that holds, in this order. */
const char *must_be_plain(const hga_plan *plan, reason *buffer)
{
    uint32_t read = 0, rounded = 0, operands = 0;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) operands |= (uint32_t)storage_is_rounded(plan, f) << f;
    if (program_normaliser(&plan->program) != HGA_NORMALISER_SOFTMAX && plan->options.generic)
        return "another normaliser than softmax";
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        if (plan->stage[s].kind == KIND_ATTEND_INSIDE) return "attention and its energies are one stage";
    const char *why = is_generic(plan, buffer);
    if (why) return why;
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        const hga_stage *stage = &plan->program.stage[s];
        stage_kind kind = plan->stage[s].kind;
        if (kind == KIND_USER) return "functions of the caller's own";
        if ((kind == KIND_ENERGY || kind == KIND_DESCEND) && !energies_are_simple(plan))
            return reason_of(buffer, "stage '%s' continues a state that not attention alone has made", stage->name);
        if (plan->stage[s].has_rowless_columns) return "blocks with columns of nodes that have no rows";
        if (kind_sums(kind) && read >> stage->out & 1u)
            return reason_of(buffer, "stage '%s' writes field '%s' again after it was attended to", stage->name,
                             plan->program.field[stage->out].name);
        if (!kind_sums(kind) || kind == KIND_WEIGHTED_SUM) read |= stage->reads;
        hga_id again = continues_rounded(stage, rounded);
        if (again)
            return reason_of(buffer, "stage '%s' continues field '%s', which was read rounded to bfloat16", stage->name,
                             plan->program.field[again].name);
        if (stage->order == HGA_FLAT) rounded |= stage->reads & operands;
    }
    return NULL;
}

/* Runs forward in double, sets the output's gradient, runs backward, and stores the inputs' gradients. */
static hga_status plain_gradient(const gradient_call *c, hga_id kv, void *memory)
{
    hga_status st = HGA_OK;
    pass p = pass_of(c, kv);
    pass_begin(&p, memory);
    HGA_TRY(forward(&p));
    seed(&p);
    each_sink(&p, seed_before_sink);
    HGA_TRY(backward(&p));
    for (hga_id f = 1; f <= p.program->n_fields; f++)
        if (program_is_input(p.program->field[f].binding)) store_gradient(&p, f);
done:
    return st;
}

static hga_status go_plain(gradient_call *c, const void *made, hga_workspace *workspace, void *memory)
{
    hga_status st = HGA_OK;
    (void)made, (void)workspace;
    for (hga_id kv = c->needs.kv_first; !st && kv < c->needs.kv_end; kv++) st = plain_gradient(c, kv, memory);
    return st;
}

static int64_t plain_bytes(const hga_plan *plan, const void *made, const call_needs *needs)
{
    (void)made, (void)needs;
    return pass_bytes(plan);
}

const solver plain_solver = {.name = "row by row in double", .reads_out = 1, .bytes = plain_bytes, .go = go_plain};

/* ---- the loss ---- */

/* The outputs and log-sum-exps times the caller's gradients of them, summed. */
static double sum_loss(const pass *p)
{
    hga_id out = program_bound(p->program, HGA_IO_OUT), first, n = field_io(p->plan, out, &first);
    double loss = 0;
    for (hga_id i = first; i < first + n; i++)
        for (hga_id h = p->first; h < heads_end(p, out); h++) {
            const double *d = double_row(&p->adjoint, out, i, h), *x = double_row(&p->value, out, i, h);
            double lse = p->value.of[out].lse ? *double_lse(&p->value, out, i, h) : -INFINITY;
            loss += dot(d, x, p->value.of[out].columns);
            if (isfinite(lse)) loss += *double_lse(&p->adjoint, out, i, h) * lse;
        }
    return loss;
}

/* The loss of one key/value head's query heads: runs the program forward alone. */
hga_status plain_loss(const gradient_call *c, hga_id kv, double *loss)
{
    hga_status st = HGA_OK;
    int64_t bytes = pass_bytes(c->plan) + LINE_FLOATS * (int64_t)sizeof(float);
    void *memory = NULL;
    pass p = pass_of(c, kv);
    HGA_TRY(hga_new(&c->plan->memory.user, bytes, 1, &memory));
    pass_begin(&p, first_line(memory));
    HGA_TRY(forward(&p));
    each_sink(&p, pay_sink);
    seed(&p);
    *loss = sum_loss(&p) + p.edge_loss;
done:
    hga_delete(&c->plan->memory.user, memory, bytes, 1);
    return st;
}
