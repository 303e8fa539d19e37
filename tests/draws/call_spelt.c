/* call_spelt.c: a call in which what was left zero is said as the headers say that it is meant. */
#include "call_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CUT_EDGES = 16384 };

/* The instruction set that no name means. */
static const char *best_isa(void)
{
    const char *told = getenv("HGA_ISA"), *last = strrchr(hga_isa_list(), ' ');
    return told && told[0] ? told : last ? last + 1 : hga_isa_list();
}

static float meant_scale(const hga_program *p, hga_id dim)
{
    if (p->default_scale != 0) return p->default_scale;
    return p->scores == HGA_SCORES_ADDITIVE ? 1 : (float)(1 / sqrt((double)dim));
}

/* Where nobody asks for rows, all of them are meant. */
static void spell_rows(drawn_call *c)
{
    for (int i = 0; i < c->n_samples; i++) {
        int all = !asked_count(c->asked[i]) && c->options.rows && c->out_rows;
        if (all) c->asked[i] = asked_between(0, c->out_rows);
        c->rows[i].interval = c->asked[i].interval;
        if (all) c->rows[i].n_intervals = 1;
    }
}

/* Packed tensors with their strides. */
static void spell_strides(drawn_call *c)
{
    for (int i = 0; i < c->n_arrays; i++) {
        array *a = &c->drawn[i];
        a->packed = 0;
        if (a->fold && !a->fold_stride) a->fold_stride = (ptrdiff_t)a->fold * a->row_stride;
    }
}

void call_spell(const drawn_call *call, drawn_call *to)
{
    *to = *call;
    operands *m = &to->modifiers;
    hga_options *o = &to->options;
    if (call->program == &call->own) to->program = &to->own;
    if (!to->shape.dim_v) to->shape.dim_v = to->shape.dim;
    if (!o->isa) o->isa = best_isa();
    if (!o->cut_edges) o->cut_edges = CUT_EDGES;
    if (m->scale == 0 && !m->has_scale) m->scale = meant_scale(to->program, to->shape.dim), m->has_scale = 1;
    spell_rows(to);
    spell_strides(to);
}
