/* dilated.c: dilated attention (LongNet, Ding et al. 2023, eq. 5-11). A branch cuts the tokens into segments of w and,
   in each, into r classes of equal remainder; a token sees its class. In LongNet a head has one class of r, and other
   heads have the other tokens; here each head has all classes. A branch is a relation of its own, its rows and columns
   sorted by segment and class, so that every class is a block. The branches' softmax states are merged: by their
   denominators, as eq. 10 weighs them, so a pair of several branches counts several times. */
#include "hga_builders.h"
#include "longer.h"

#include <stdio.h>

/* as many as there are stages */
enum { MAX_BRANCHES = HGA_MAX_STAGES };

static const hga_id standard_segments[] = {64, 256, 1024}, standard_dilations[] = {1, 4, 16};

/* One branch: segments of `width` tokens, in which every `step`-th are one class. */
typedef struct branch {
    hga_id n_tokens, width, step;
} branch;

static hga_id least_id(hga_id a, hga_id b) { return a < b ? a : b; }

/* Every branch has a segment and a dilation, both at least 1. */
static hga_status check_dilated(const hga_dilated *p)
{
    if (p->n_tokens < 1) return hga_fail(HGA_EINVAL, "tokens: %d, at least 1 is needed", p->n_tokens);
    if (p->n_segments != p->n_dilations)
        return hga_fail(HGA_EINVAL, "segments: %d of them, but %d dilations; a branch has one of each", p->n_segments,
                        p->n_dilations);
    if (p->n_segments < 1 || p->n_segments > MAX_BRANCHES)
        return hga_fail(HGA_EINVAL, "segments: %d of them; there are 1 to %d branches", p->n_segments, MAX_BRANCHES);
    for (hga_id i = 0; i < p->n_segments; i++) {
        if (p->segments[i] < 1)
            return hga_fail(HGA_EINVAL, "segments: number %d is %d, at least 1 is needed", i, p->segments[i]);
        if (p->dilations[i] < 1)
            return hga_fail(HGA_EINVAL, "dilations: number %d is %d, at least 1 is needed", i, p->dilations[i]);
    }
    return HGA_OK;
}

/* tokens by segment, in each by remainder, in each in order */
static void sort_by_class(const branch *c, hga_id *order)
{
    hga_id at = 0;
    for (int64_t first = 0; first < c->n_tokens; first += c->width)
        for (hga_id r = 0; r < c->step && r < c->width; r++)
            for (int64_t i = first + r; i < first + c->width && i < c->n_tokens; i += c->step) order[at++] = (hga_id)i;
}

/* Sets the order by classes; without dilation there is none. */
static hga_status set_order(hga_builder *b, hga_id relation, const hga_allocator *a, const branch *c)
{
    hga_status st = HGA_OK;
    hga_id *order = NULL;
    if (c->step == 1) return HGA_OK;
    HGA_TRY(hga_new(a, c->n_tokens, sizeof *order, &order));
    sort_by_class(c, order);
    HGA_TRY(hga_builder_set_order(b, relation, order, c->n_tokens, order, c->n_tokens));
done:
    hga_delete(a, order, c->n_tokens, sizeof *order);
    return st;
}

/* Consecutive blocks of one size. */
typedef struct class_run {
    int64_t first;
    hga_id size, count;
} class_run;

static hga_status flush(hga_builder *b, hga_id relation, hga_shape_kind shape, const class_run *r)
{
    hga_block classes = {.dst = (hga_id)r->first, .n_dst = r->size, .src = (hga_id)r->first, .n_src = r->size};
    classes.count = r->count, classes.dst_step = classes.src_step = r->size, classes.shape = shape;
    return r->count ? hga_builder_add_blocks(b, relation, &classes) : HGA_OK;
}

/* Appends `count` classes of `size` tokens to the run, or starts another. */
static hga_status put_classes(hga_builder *b, hga_id relation, hga_shape_kind shape, class_run *r, hga_id size,
                              hga_id count)
{
    hga_status st = HGA_OK;
    if (size == 0 || count == 0) return HGA_OK;
    if (size != r->size) {
        st = flush(b, relation, shape, r);
        *r = (class_run){.first = r->first + (int64_t)r->size * r->count, .size = size};
    }
    r->count += count;
    return st;
}

/* the first n mod step classes of a segment of n tokens have one member more than the others */
static hga_status add_classes(hga_builder *b, hga_id relation, hga_shape_kind shape, const branch *c)
{
    hga_status st = HGA_OK;
    class_run r = {0};
    for (int64_t first = 0; first < c->n_tokens; first += c->width) {
        hga_id n = least_id(c->width, (hga_id)(c->n_tokens - first)), size = n / c->step, more = n % c->step;
        HGA_TRY(put_classes(b, relation, shape, &r, size + 1, more));
        HGA_TRY(put_classes(b, relation, shape, &r, size, c->step - more));
    }
    HGA_TRY(flush(b, relation, shape, &r));
done:
    return st;
}

/* Branch i as a relation of its own. */
static hga_status add_branch(hga_builder *b, const hga_dilated *p, hga_id i)
{
    hga_status st = HGA_OK;
    hga_id relation;
    char name[32];
    branch c = {p->n_tokens, p->segments[i], p->dilations[i]};
    snprintf(name, sizeof name, "branch_%d", i);
    HGA_TRY(hga_builder_add_relation(b, name, &relation));
    HGA_TRY(set_order(b, relation, p->allocator, &c));
    HGA_TRY(add_classes(b, relation, p->causal ? HGA_LOWER : HGA_ALL, &c));
done:
    return st;
}

/* attend over the first branch, then more over each of the others */
static hga_status dilated_program(hga_id n_branches, hga_program *program)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_program_attention(program, 0));
    hga_id query = hga_program_field(program, HGA_IO_QUERY), key = hga_program_field(program, HGA_IO_KEY),
           value = hga_program_field(program, HGA_IO_VALUE), out = hga_program_field(program, HGA_IO_OUT);
    for (hga_id i = 1; i < n_branches; i++) HGA_TRY(hga_program_attend_more(program, i, query, key, value, out, 0));
done:
    return st;
}

/* Without lists the defaults are three branches. */
static hga_dilated with_branches(const hga_dilated *p)
{
    hga_dilated d = *p;
    if (!d.segments && !d.n_segments) d.segments = standard_segments, d.n_segments = 3;
    if (!d.dilations && !d.n_dilations) d.dilations = standard_dilations, d.n_dilations = 3;
    return d;
}

hga_status hga_build_dilated(const hga_dilated *p, hga_graph **g, hga_program *program)
{
    hga_status st = HGA_OK;
    hga_builder *b = NULL;
    hga_dilated d = with_branches(p);
    *g = NULL;
    HGA_TRY(hga_check_reserved("hga_dilated", p->reserved, sizeof p->reserved));
    HGA_TRY(check_dilated(&d));
    HGA_TRY(hga_builder_create(d.allocator, &b));
    HGA_TRY(hga_builder_add_level(b, d.n_tokens, NULL));
    HGA_TRY(
        hga_builder_set_claims(b, (d.causal ? HGA_CLAIM_CAUSAL : 0u) | (d.n_segments == 1 ? HGA_CLAIM_SINGLE : 0u)));
    if (d.causal) HGA_TRY(keep_positions(b, d.allocator));
    for (hga_id i = 0; i < d.n_segments; i++) HGA_TRY(add_branch(b, &d, i));
    HGA_TRY(dilated_program(d.n_segments, program));
    HGA_TRY(hga_builder_finish(b, g));
done:
    hga_builder_destroy(b);
    return st;
}
