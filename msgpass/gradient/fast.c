/* fast.c: gradients a head at a time, in float. The means and sums of the forward pass are computed again, the
   output's log-sum-exps come from the tape, and then the stages are run backward. Softmax states are carried as sums
   of numerators and denominators, so that merging them is adding and its adjoint a copy: no state of the forward
   pass but the output's is needed. */
#include "carve.h"
#include "live.h"
#include "fast_columns.h"
#include "fast.h"
#include "fast_additive.h"
#include "fast_states.h"
#include "fast_tensors.h"
#include "panel.h"
#include "plan.h"

#include <math.h>
#include <string.h>

/* ---- memory ---- */

/* Does a stage write the field from others? */
static int is_made(const hga_program *p, hga_id f)
{
    int made = 0;
    for (const hga_stage *s = p->stage; s < p->stage + p->n_stages; s++)
        made |= s->writes >> f & 1u && s->reads & ~(UINT32_C(1) << f);
    return made;
}

/* Is a gradient required of the field, or of what it is made of? Fields of the program's own always have one, and so
   do the caller's own tensors where a stage writes them. */
static int needs_grad(const fast_pass *p, hga_id f)
{
    if (!program_is_input(p->program->field[f].binding)) return 1;
    return p->needs->grads >> f & 1u || is_made(p->program, f);
}

/* Does a stage that scales by types read the field, or what is made of it? The gradients of scales need it. */
static int is_scaled(const hga_program *p, hga_id f)
{
    uint32_t scaled = 0;
    for (const hga_stage *s = p->stage + p->n_stages; s-- > p->stage;)
        if (s->message == HGA_SCALED || (kind_sums(program_kind(s)) && scaled >> s->out & 1u))
            scaled |= UINT32_C(1) << s->value;
    return scaled >> f & 1u;
}

/* Does an adjoint need the field's values? Not those of outputs and states, unless energies or scales read them. */
static int has_values(const fast_pass *p, hga_id f)
{
    hga_width w = p->program->field[f].width;
    return w == HGA_WIDTH_KEY || w == HGA_WIDTH_KV_KEY || w == HGA_WIDTH_VALUE || w == HGA_WIDTH_SCALAR ||
           has_energies(p->program, f) || (p->needs->entries[HGA_TABLE_TYPE_SCALE] && is_scaled(p->program, f));
}

static int attends_by_mass(const hga_program *p)
{
    int by_mass = 0;
    for (hga_id s = 0; s < p->n_stages; s++) by_mass |= kind_attends(program_kind(&p->stage[s])) && p->stage[s].by_mass;
    return by_mass;
}

/* Carves a field's memory: values that an adjoint needs, required adjoints, and a state's own numbers. */
static void lay_out_field(fast_pass *p, hga_id f, carver *arena)
{
    fast_field *x = &p->field[f];
    int64_t n = p->nodes.n;
    hga_width width = p->program->field[f].width;
    x->columns = field_columns(p->plan, f), x->padded = width == HGA_WIDTH_SCALAR ? 1 : padded(x->columns);
    x->by_row = is_by_row(p->plan, f);
    if (x->by_row || !field_is_used(p->program, f)) return;
    if (has_values(p, f)) x->value = carve_floats(arena, n * x->padded);
    if (needs_grad(p, f)) x->adjoint = carve_floats(arena, n * x->padded);
    if (width == HGA_WIDTH_STATE) x->lse = carve_floats(arena, n), x->delta = carve_floats(arena, n);
    if (has_energies(p->program, f)) x->own_lse = carve_floats(arena, n);
    if (needs_grad(p, f) && is_kv(p, f)) x->fresh = carve(arena, n / CHUNK + 1, sizeof *x->fresh);
}

static fast_pass empty_pass(const hga_plan *plan, const call_needs *needs)
{
    return (fast_pass){.plan = plan,
                       .needs = needs,
                       .program = &plan->program,
                       .nodes = plan->nodes,
                       .field_dim = padded(plan->shape.dim)};
}

/* Measures a pass's memory, or carves it where the carver has memory. */
void fast_lay_out(const hga_plan *plan, const made_fast *made, const call_needs *needs, fast_pass *p, carver *arena)
{
    *p = empty_pass(plan, needs);
    p->memory.at = carve(arena, 0, 1);
    int64_t from = arena->used;
    for (hga_id f = 1; f <= p->program->n_fields; f++) lay_out_field(p, f, arena);
    if (needs->n_rel_key) p->scores.rel_key = carve_floats(arena, (int64_t)needs->n_rel_key * padded(plan->shape.dim));
    if (scores_are_sums(plan))
        p->scores.additive = carve_floats(arena, (int64_t)plan->shape.n_heads * padded(plan->shape.dim));
    p->memory.bytes = arena->used - from;
    p->chunks = columns_lay_out(p, arena);
    if (attends_by_mass(p->program)) p->scores.log_mass = carve_floats(arena, p->nodes.n);
    p->rows.capacity = widest_row(made, needs), p->rows.own = carve(arena, p->rows.capacity, sizeof *p->rows.own);
}

static void pad_rel_key(fast_pass *p)
{
    const hga_io *io = p->call->io;
    hga_id dim = p->plan->shape.dim, padded_dim = padded(dim);
    float *to = p->scores.rel_key;
    for (hga_id t = 0; to && t < io->rel_key.rows; t++)
        memcpy(to + (ptrdiff_t)t * padded_dim, io->rel_key.data + (ptrdiff_t)t * dim, (size_t)dim * sizeof *to);
}

/* Are any rows padded? Padding must be zero; everything else that is read was written before. */
int fast_has_padding(const fast_pass *p)
{
    int padded = 0;
    for (hga_id f = 1; f <= p->program->n_fields; f++) padded |= p->field[f].padded != p->field[f].columns;
    return padded;
}

void fast_clear(const fast_pass *p, hga_id part, hga_id parts)
{
    int64_t first = p->memory.bytes / parts * part,
            end = part + 1 == parts ? p->memory.bytes : p->memory.bytes / parts * (part + 1);
    memset((char *)p->memory.at + first, 0, (size_t)(end - first));
}

void fast_begin(const gradient_call *c, fast_thread *first, hga_id n_threads, fast_pass *p)
{
    p->call = c, p->rows.lists = c->lists;
    p->team.thread = first, p->team.n = n_threads, p->panel = first->panel, p->own.numbers = first->numbers;
    p->own.whole = first->whole;
    pad_rel_key(p), additive_load(p);
    p->scores.softcap = call_number(HGA_TABLE_SOFTCAP, p->program, c->io), p->scores.slopes = c->io->slopes.data;
    plan_orders(p), plan_clearing(p);
    for (hga_id v = 0; p->scores.log_mass && v < p->nodes.n; v++) p->scores.log_mass[v] = logf(p->nodes.mass[v]);
}

/* ---- a head ---- */

/* Rounds operands of a bfloat16 plan before the first flat stage that reads them; later writes to them are not
   rounded. */
static void round_operands(const fast_pass *p, const hga_stage *stage, int kv, uint32_t *rounded)
{
    for (hga_id f = 1; f <= p->program->n_fields; f++) {
        const fast_field *x = &p->field[f];
        int due = stage->order == HGA_FLAT && stage->reads >> f & 1u && !(*rounded >> f & 1u);
        if (!due || is_kv(p, f) != kv || !x->value || !storage_is_rounded(p->plan, f)) continue;
        p->plan->machine.kernels->round_bf16((hga_id)(p->nodes.n * x->padded), x->value, x->value);
        *rounded |= 1u << f;
    }
}

/* Loads inputs and runs the stages that adjoints need, of the fields of key/value heads or of all others. */
static hga_status forward(fast_pass *p, int kv)
{
    hga_status st = HGA_OK;
    uint32_t rounded = 0;
    for (hga_id f = 1; f <= p->program->n_fields; f++)
        if (is_kv(p, f) == kv && p->field[f].value && program_is_input(p->program->field[f].binding)) fast_load(p, f);
    for (hga_id s = 0; s < p->program->n_stages; s++) {
        const hga_stage *stage = &p->program->stage[s];
        round_operands(p, stage, kv, &rounded);
        stage_kind kind = p->plan->stage[s].kind;
        if (is_kv(p, stage->out) != kv) continue;
        if (kind_sums(kind)) HGA_TRY(walk_sum(p, s, 0));
        if (kind_attends(kind) && p->field[stage->out].own_lse) HGA_TRY(fast_attend_forward(p, s));
        if (kind == KIND_ENERGY) HGA_TRY(fast_energy(p, s, 0));
        if (kind == KIND_DESCEND) HGA_TRY(fast_descend(p, s, 0));
    }
done:
    return st;
}

/* Runs the stages backward, those of key/value heads' fields or all others. */
static hga_status backward(fast_pass *p, int kv)
{
    hga_status st = HGA_OK;
    for (hga_id s = p->program->n_stages; s-- > 0;) {
        hga_id out = p->program->stage[s].out;
        if (is_kv(p, out) != kv) continue;
        HGA_TRY(stage_back(p, s));
        if (p->plan->stage[s].kind == KIND_ATTEND)
            clear_field(p, out); /* the field's value before this stage is overwritten */
    }
done:
    return st;
}

static void store_all(fast_pass *p, int kv)
{
    for (hga_id f = 1; f <= p->program->n_fields; f++)
        if (is_kv(p, f) == kv && p->field[f].adjoint && program_is_input(p->program->field[f].binding))
            fast_store(p, f);
}

int runs_by_panels(const hga_plan *plan)
{
    int by_row = 1;
    for (hga_id f = 1; f <= plan->program.n_fields; f++)
        by_row &= is_by_row(plan, f) || !field_is_used(&plan->program, f);
    return by_row;
}

/* Sets the heads of a head group, and the sums of tables that it adds to. */
static void take_head_group(fast_pass *p, hga_id head_group)
{
    const hga_shape *s = &p->plan->shape;
    hga_id head_groups = p->needs->head_groups;
    p->heads.n = s->n_heads / head_groups, p->heads.first = head_group * p->heads.n;
    p->heads.kv = p->heads.first / (s->n_heads / s->n_kv_heads), p->heads.adds = head_groups > s->n_kv_heads;
    p->heads.at_once = runs_by_panels(p->plan) ? p->heads.n : 1;
    p->sums = p->call->sums[head_group], p->scores.needs_tables = 0;
    for (hga_call_table i = 0; i < HGA_N_TABLES; i++)
        p->scores.needs_tables |= i != HGA_TABLE_SCALE && i != HGA_TABLE_TYPE_SCALE && p->sums.of[i];
}

/* Computes a head group: its heads in order, each forward again and then backward; or subtree by subtree. */
hga_status fast_gradient(fast_pass *p, hga_id head_group)
{
    hga_status st = HGA_OK;
    take_head_group(p, head_group);
    clear_all(p, 1);
    if (p->call->subtrees->n) return subtrees_gradient(p);
    columns_begin(p);
    HGA_TRY(forward(p, 1));
    for (p->heads.head = p->heads.first + p->heads.at_once - 1; p->heads.head < p->heads.first + p->heads.n;
         p->heads.head++) {
        clear_all(p, 0);
        HGA_TRY(forward(p, 0));
        if (!p->field[program_bound(p->program, HGA_IO_OUT)].by_row) fast_seed(p);
        HGA_TRY(backward(p, 0));
        store_all(p, 0);
    }
    columns_end(p);
done:
    return st;
}

/* Runs the stages of key/value heads' fields backward once all heads that share them are done, then stores the
   caller's gradients of these. */
hga_status fast_end(fast_pass *p)
{
    clear_rest(p);
    if (p->call->subtrees->n) {
        subtrees_end(p);
        return HGA_OK;
    }
    hga_status st = backward(p, 1);
    if (!st) store_all(p, 1);
    return st;
}
