/* fast_energies.c: states that a program reads again. Such a state is no sum any more: the adjoints of its energy
   and of its share of what is left need its value, so attention runs forward again, row by row, and the tape need
   not hold it. The formulas are those of all_stage_semantics.c. */
#include "carve.h"
#include "live.h"
#include "exponents.h"
#include "fast_states.h"
#include "plan.h"

#include <math.h>
#include <string.h>

/* ---- which programs ---- */

int has_energies(const hga_program *p, hga_id field)
{
    for (hga_id s = 0; s < p->n_stages; s++) {
        stage_kind kind = program_kind(&p->stage[s]);
        if ((kind == KIND_ENERGY || kind == KIND_DESCEND) && p->stage[s].value == field) return 1;
    }
    return 0;
}

/* Is the field internal, and does one stage alone write it, of that kind? */
static int is_of_one_stage(const hga_plan *plan, hga_id field, stage_kind kind)
{
    const hga_program *p = &plan->program;
    int writers = 0;
    for (hga_id s = 0; s < p->n_stages; s++)
        if (p->stage[s].writes >> field & 1u) writers += plan->stage[s].kind == kind ? 1 : 2;
    return writers == 1 && (p->field[field].binding == HGA_INTERNAL || kind == KIND_DESCEND);
}

/* Is the field internal, and a state that only attending stages write, before any other stage reads it? */
static int is_attended(const hga_plan *plan, hga_id field)
{
    const hga_program *p = &plan->program;
    int begun = 0, read = 0, simple = p->field[field].binding == HGA_INTERNAL;
    for (hga_id s = 0; s < p->n_stages; s++)
        if (p->stage[s].writes >> field & 1u)
            simple &= !read && plan->stage[s].kind == (begun ? KIND_ATTEND_MORE : KIND_ATTEND), begun = 1;
        else
            read |= (int)(p->stage[s].reads >> field & 1u);
    return simple && begun;
}

/* Does no other stage read the field? */
static int is_read_by_none(const hga_program *p, hga_id field, hga_id but)
{
    for (hga_id s = 0; s < p->n_stages; s++)
        if (s != but && p->stage[s].reads >> field & 1u) return 0;
    return 1;
}

/* Is each state that the program reads again made by attention alone, and each energy and share by one stage? */
int energies_are_simple(const hga_plan *plan)
{
    const hga_program *p = &plan->program;
    int simple = 1;
    for (hga_id s = 0; s < p->n_stages; s++) {
        const hga_stage *stage = &p->stage[s];
        stage_kind kind = plan->stage[s].kind;
        if (kind == KIND_ENERGY || kind == KIND_DESCEND) simple &= is_attended(plan, stage->value);
        if (kind == KIND_ENERGY) simple &= is_of_one_stage(plan, stage->out, KIND_ENERGY);
        if (kind != KIND_DESCEND) continue;
        simple &= is_of_one_stage(plan, stage->gate, KIND_ENERGY) && is_of_one_stage(plan, stage->keep, KIND_DESCEND);
        simple &= is_of_one_stage(plan, stage->out, KIND_DESCEND) && is_read_by_none(p, stage->out, s) &&
                  is_read_by_none(p, stage->keep, s);
    }
    return simple;
}

/* ---- the stages, a row at a time ---- */

/* Computes node v's energy: the mean by mass, over its sources, of the log-sum-exp of the source's energy and its
   state. */
static void energy_row(fast_pass *p, const hga_stage *s, hga_id v)
{
    float *psi = p->field[s->out].value;
    const float *lse = p->field[s->value].own_lse;
    double mass = 0, sum = 0;
    for (int64_t i = 0; i < p->rows.n; i++) {
        hga_id u = p->rows.edge[i].src;
        double m = (double)p->nodes.mass[u];
        mass += m;
        if (m > 0) sum += m * log_add((double)psi[u], (double)lse[u]);
    }
    psi[v] = mass > 0 ? (float)(sum / mass) : -INFINITY;
}

/* Adds the gradient of node v's energy to its sources' energies and to their states' log-sum-exps. */
static void energy_adjoint(fast_pass *p, const hga_stage *s, hga_id v)
{
    const float *psi = p->field[s->out].value, *lse = p->field[s->value].own_lse;
    float *d_psi = p->field[s->out].adjoint, *less = p->field[s->value].delta;
    double mass = 0;
    for (int64_t i = 0; i < p->rows.n; i++) mass += (double)p->nodes.mass[p->rows.edge[i].src];
    for (int64_t i = 0; i < p->rows.n && psi[v] != -INFINITY; i++) {
        hga_id u = p->rows.edge[i].src;
        double part = (double)p->nodes.mass[u] / mass * (double)d_psi[v];
        d_psi[u] += (float)(part * share((double)psi[u], (double)lse[u]));
        less[u] -= (float)(part * share((double)lse[u], (double)psi[u]));
    }
    d_psi[v] = 0;
}

static void descend_row(fast_pass *p, const hga_stage *s, hga_id v)
{
    float *keep = p->field[s->keep].value;
    double lse = (double)p->field[s->value].own_lse[v], psi = (double)p->field[s->gate].value[v],
           left = p->rows.n ? (double)keep[p->rows.edge[0].src] : 1;
    keep[v] = (float)(left * (lse == -INFINITY ? 1 : share(psi, lse)));
}

/* Adds node v's gradients to its state and its energy, and to what its parent hands down. */
static void descend_adjoint(fast_pass *p, const hga_stage *s, hga_id v)
{
    const fast_field *state = &p->field[s->value];
    float *d_keep = p->field[s->keep].adjoint, *d_y = adjoint_row(p, s->out, v), *d_o = adjoint_row(p, s->value, v);
    double lse = (double)state->own_lse[v], psi = (double)p->field[s->gate].value[v];
    double mine = share(lse, psi), rest = lse == -INFINITY ? 1 : share(psi, lse);
    hga_id u = p->rows.n ? p->rows.edge[0].src : -1;
    double left = u < 0 ? 1 : (double)p->field[s->keep].value[u],
           g = p->plan->machine.kernels->dot(state->columns, d_y, value_row(p, s->value, v));
    double d_share = mine * rest * left * (g - (double)d_keep[v]);
    p->plan->machine.kernels->blend(state->padded, 1, d_o, (float)(left * mine), d_y, d_o);
    state->delta[v] -= (float)d_share;
    p->field[s->gate].adjoint[v] -= (float)d_share;
    if (u >= 0) {
        d_keep[u] += (float)(mine * g + rest * (double)d_keep[v]);
        p->plan->machine.kernels->blend(state->padded, 1, adjoint_row(p, s->out, u), 1, d_y, adjoint_row(p, s->out, u));
    }
}

/* Calls `row` for the stage's rows with their edges, in the order of the stage or in reverse. */
static hga_status walk_energies(fast_pass *p, hga_id s, int backwards,
                                void (*row)(fast_pass *, const hga_stage *, hga_id))
{
    const hga_stage *stage = &p->program->stage[s];
    int down = (stage->order == HGA_LEVELS_DOWN) != backwards;
    hga_status st = HGA_OK;
    rows_open(&p->rows, p->plan, s);
    for (node_walk w = {0}; node_next(p, down, &w);) {
        hga_id v = w.v;
        if (!program_row(&p->nodes, p->program->field[stage->out].rows, v)) continue;
        HGA_TRY(edges_read(&p->rows, v));
        row(p, stage, v);
    }
done:
    return st;
}

hga_status fast_energy(fast_pass *p, hga_id s, int backwards)
{
    return walk_energies(p, s, backwards, backwards ? energy_adjoint : energy_row);
}

hga_status fast_descend(fast_pass *p, hga_id s, int backwards)
{
    return walk_energies(p, s, backwards, backwards ? descend_adjoint : descend_row);
}

void request_states(const fast_pass *p, hga_id field)
{
    const fast_field *x = &p->field[field];
    for (node_walk w = {0}; node_next(p, 0, &w);) {
        hga_id v = w.v;
        if (!program_row(&p->nodes, p->program->field[field].rows, v) || x->own_lse[v] == -INFINITY) continue;
        x->lse[v] = x->own_lse[v];
        x->delta[v] +=
            (float)p->plan->machine.kernels->dot(x->columns, adjoint_row(p, field, v), value_row(p, field, v));
    }
}
