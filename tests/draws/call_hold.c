/* call_hold.c: what is true of every call, whatever its options: equal bits whatever was in memory before, for any
   number of threads, in a batch and alone, for some rows and for all, in any layout; the plain executor's values. */
#include "calls.h"

#include <stdio.h>
#include <string.h>

enum { NOBODYS = 0xff, OTHERS = 0x41 }; /* NaN, and 12.08 */

static way way_of(const drawn_call *c, const char *name, int byte)
{
    return (way){.name = name,
                 .options = c->options,
                 .filled = {.arrays = c->drawn, .byte = byte, .accumulate = c->accumulate, .wanted = c->wanted}};
}

/* One more run, which must give what the first gave. */
static void hold(const drawn_call *c, const outcome *first, const way *w, double forward, double backward)
{
    outcome o = call_run(c, w);
    outcomes_compare(c, w->name, first, &o, forward, backward);
    outcome_clear(&o);
}

/* ---- how near ---- */

static int has_type(const drawn_call *c, hga_dtype type, array_use use)
{
    int found = 0;
    for (int i = 0; i < c->n_arrays; i++) {
        const array *a = &c->drawn[i];
        int is_output = a->use == ARRAY_WRITTEN || a->written_from < a->rows;
        found |= a->dtype == type && (use == ARRAY_WRITTEN ? is_output : a->use == use);
    }
    return found;
}

/* Sums in another order, and results rounded to 16 bits. Stages that go up or down many levels add rounding to
   rounding; in bfloat16 weights are rounded, which the plain executor's are not. */
static double near_forward(const drawn_call *c)
{
    double near = c->options.precision == HGA_PRECISION_BF16 ? 1.2e-2 : 2e-3;
    if (has_type(c, HGA_F16, ARRAY_WRITTEN)) near += 0x1p-10;
    if (has_type(c, HGA_BF16, ARRAY_WRITTEN)) near += 0x1p-7;
    return near;
}

/* An output that was rounded stands in the formulas as it was, but not in those of the plain way. */
static double near_backward(const drawn_call *c)
{
    double near = c->options.precision == HGA_PRECISION_BF16 ? 5e-2 : 2e-3;
    if (has_type(c, HGA_F16, ARRAY_OUTPUT) || has_type(c, HGA_F16, ARRAY_WRITTEN)) near += 0x1p-8;
    if (has_type(c, HGA_BF16, ARRAY_OUTPUT) || has_type(c, HGA_BF16, ARRAY_WRITTEN)) near += 0x1p-5;
    return near;
}

static int are_floats_in_line(const drawn_call *c)
{
    for (int i = 0; i < c->n_arrays; i++)
        if (c->drawn[i].dtype != HGA_F32 || c->drawn[i].fold) return 0;
    return 1;
}

/* ---- the ways ---- */

static void hold_threads(const drawn_call *c, const outcome *first)
{
    way w = way_of(c, "on one thread", NOBODYS);
    if (c->options.threads == 1) return;
    w.options.threads = 1;
    hold(c, first, &w, 0, 0);
}

/* What is asked for alone: no rows beside, no sample beside, no gap between rows. */
static void hold_alone(const drawn_call *c, const outcome *first)
{
    way w = way_of(c, "sample by sample", NOBODYS);
    if (!c->in_batch) return;
    w.alone = 1;
    hold(c, first, &w, 0, 0);
}

/* Other rows of the same call, forward alone: they have the bits that they have in `whole`, or depend on rows of the
   output that are not among them. */
static void hold_other_rows(const drawn_call *c, const outcome *whole)
{
    enum { MORE = 5 };
    choices drawn = choices_of_seed(c->seed);
    for (int i = 0; i < MORE; i++) {
        drawn_call other = *c;
        call_draw_rows(&drawn, &other);
        other.options.gradient = 0;
        way w = way_of(&other, "other rows among all", NOBODYS);
        outcome o = call_run(&other, &w);
        if (!strstr(o.refused, "of the output is not requested")) outcomes_compare(&other, w.name, whole, &o, 0, -1);
        outcome_clear(&o);
    }
}

/* Rows have the bits that they have among all. Gradients are those of a loss of these rows alone, summed otherwise. */
static void hold_rows(const drawn_call *c, const outcome *first)
{
    way w = way_of(c, "among all rows", NOBODYS);
    if (!c->options.rows) return;
    w.options.rows = HGA_EVERY_ROW, w.filled.whole = 1;
    outcome whole = call_run(c, &w);
    outcomes_compare(c, w.name, first, &whole, 0, near_backward(c));
    whole.backward = HGA_OK;
    hold_other_rows(c, &whole);
    outcome_clear(&whole);
}

/* What is left zero means what is documented, to the bit. */
static void hold_spelt(const drawn_call *c, const outcome *first)
{
    drawn_call spelt;
    call_spell(c, &spelt);
    way w = way_of(&spelt, "with defaults spelt", NOBODYS);
    hold(&spelt, first, &w, 0, 0);
}

/* Packed arrays of float32. An output of 16 bits, which is part of the gradients as it was rounded, may stay so. */
static void pack(const drawn_call *c, int output_as_drawn, array *to)
{
    for (int i = 0; i < c->n_arrays; i++) {
        to[i] = c->plain[i];
        if (to[i].use == ARRAY_WRITTEN && output_as_drawn) to[i].dtype = c->drawn[i].dtype;
    }
}

/* The same numbers side by side in float32. Gradients of 16 bits, or of folded rows, may go another way. */
static void hold_layout(const drawn_call *c, const outcome *first)
{
    array arrays[MOST_ARRAYS];
    way w = way_of(c, "packed in float32", NOBODYS);
    pack(c, c->options.gradient, arrays);
    w.filled.arrays = arrays;
    hold(c, first, &w, 0, are_floats_in_line(c) ? 0 : near_backward(c));
}

/* The definition: every gradient of every row by the plain executor, packed, on one thread. The output has its type,
   which is part of the gradients. */
static void hold_definition(const drawn_call *c, const outcome *first)
{
    array arrays[MOST_ARRAYS];
    way w = way_of(c, "by definition", NOBODYS);
    pack(c, 1, arrays);
    w.options = (hga_options){.threads = 1,
                              .generic = 1,
                              .precision = c->options.precision,
                              .gradient = c->options.gradient,
                              .dropout = c->options.dropout,
                              .cut_edges = c->options.cut_edges};
    w.filled = (filled){.arrays = arrays, .byte = NOBODYS, .whole = 1, .wanted = ~UINT64_C(0)};
    outcome o = call_run(c, &w);
    outcomes_compare(c, w.name, first, &o, near_forward(c), near_backward(c));
    if (c->oracle && !o.forward) {
        hga_io io;
        hga_grad_io grad;
        call_io(c, &w.filled, &o.memory, 0, &io, &grad);
        c->oracle(c, &io);
    }
    outcome_clear(&o);
}

call_fate call_hold(const drawn_call *c)
{
    way w = way_of(c, "as drawn", NOBODYS);
    outcome first = call_run(c, &w);
    call_fate fate = {.forward = first.forward, .backward = first.backward, .fast = first.fast};
    snprintf(fate.refused, sizeof fate.refused, "%s", first.refused);
    w = way_of(c, "in other bytes", OTHERS);
    w.updated = c->updated, w.again = 1;
    hold(c, &first, &w, 0, 0);
    if (!first.forward) {
        hold_threads(c, &first);
        hold_alone(c, &first);
        hold_rows(c, &first);
        hold_spelt(c, &first);
        hold_layout(c, &first);
        hold_definition(c, &first);
    }
    outcome_clear(&first);
    return fate;
}
