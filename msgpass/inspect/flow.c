/* flow.c: which field a stage propagates, which rows it leaves unchanged, and the lists of inputs. */
#include "flow.h"
#include "interrupt.h"
#include "regions.h"

/* ---- stages and fields ---- */

/* A user function that names no value is assumed to propagate the first value, state or output that it may read. */
hga_id flow_source(const hga_program *p, const hga_stage *s)
{
    uint32_t fields = program_fields(s, program_rules[program_kind(s)].carry.source);
    for (hga_id f = 1; f <= p->n_fields; f++) {
        hga_width width = p->field[f].width;
        int carries = width == HGA_WIDTH_VALUE || width == HGA_WIDTH_STATE || width == HGA_WIDTH_OUT;
        if (fields ? fields >> f & 1u : program_kind(s) == KIND_USER && carries && f != s->out && s->reads >> f & 1u)
            return f;
    }
    return 0;
}

hga_id flow_own(const hga_stage *s)
{
    unsigned roles = program_rules[program_kind(s)].carry.own;
    return roles ? program_role(s, (stage_role)__builtin_ctz(roles)) : 0;
}

int flow_in_place(const hga_program *p, const hga_stage *s) { return flow_source(p, s) == s->out; }

/* The stages before `end` that propagate something to one of *fields; these grow by the fields that those stages
   read. */
uint32_t flow_stages(const hga_program *p, hga_id end, uint32_t *fields)
{
    uint32_t stages = 0;
    for (hga_id i = end - 1; i >= 0; i--) {
        const hga_stage *s = &p->stage[i];
        if (!program_rules[program_kind(s)].carry.on || !(*fields >> s->out & 1u)) continue;
        hga_id source = flow_source(p, s), own = flow_own(s);
        stages |= UINT32_C(1) << i;
        if (source) *fields |= UINT32_C(1) << source;
        if (own) *fields |= UINT32_C(1) << own;
    }
    return stages;
}

/* Those of the stages that have scores; if none has, the last one that propagates another field. */
uint32_t flow_attending(const hga_program *p, uint32_t stages)
{
    uint32_t scores = 0, last = 0;
    for (hga_id i = 0; i < p->n_stages; i++) {
        const hga_stage *s = &p->stage[i];
        if (!(stages >> i & 1u)) continue;
        if (s->reduce == HGA_SOFTMAX) scores |= UINT32_C(1) << i;
        if (flow_source(p, s) && !flow_in_place(p, s)) last = UINT32_C(1) << i;
    }
    return scores ? scores : last;
}

int flow_keeps(const hga_nodes *nodes, const hga_stage *s, const hga_field *out, hga_id v)
{
    return !program_row(nodes, out->rows, v) || (program_keeps_tokens(s) && v < nodes->level_ptr[1]);
}

/* ---- lists ---- */

uint64_t flow_level(const hga_graph *g, hga_id v)
{
    hga_id l = hga_graph_level(g, v);
    return UINT64_C(1) << (l < FLOW_LEVELS ? l : FLOW_LEVELS - 1);
}

const hga_id *flow_source_order(const hga_graph *g, hga_id relation, hga_id *n)
{
    *n = hga_graph_nodes(g).n;
    if (relation < 0) return NULL;
    hga_relation r = hga_graph_relation(g, relation);
    if (r.src_order) *n = r.n_src_order;
    return r.src_order;
}

/* The key tokens of a node if the graph has them as an interval; 0 if it has not. */
static int span_of(const hga_nodes *nodes, hga_id v, interval *out)
{
    hga_id first = nodes->span_first[v], last = nodes->span_last[v], end = nodes->key_first + nodes->n_keys - 1;
    if (first > last) return 0;
    first = first > nodes->key_first ? first : nodes->key_first, last = last < end ? last : end;
    *out = (interval){.first = first - nodes->key_first, .last = last - nodes->key_first, .times = 1};
    return 1;
}

/* Adds the lists of v's children to the sum. */
static hga_status add_children(const hga_nodes *nodes, const interval_lists *l, hga_id v, interval_sum *sum)
{
    hga_status st = HGA_OK;
    if (v < nodes->level_ptr[1] || !nodes->child_ptr) return HGA_OK;
    for (hga_id i = nodes->child_ptr[v - nodes->level_ptr[1]]; i < nodes->child_ptr[v - nodes->level_ptr[1] + 1]; i++) {
        hga_id u = flow_node(nodes->child_list, i);
        HGA_TRY(interval_add_list(sum, interval_list(l, u), l->size[u]));
    }
done:
    return st;
}

/* A node's span, or its children's lists where they fill no interval. */
static hga_status start_node(const hga_nodes *nodes, int letters, hga_id v, interval_sum *sum, interval_lists *out)
{
    hga_status st = HGA_OK;
    const interval *list;
    int64_t n;
    interval span;
    if (letters >= 0 && program_row(nodes, (hga_field_rows)letters, v))
        HGA_TRY(interval_add(sum, (interval){.first = v, .last = v, .times = 1}));
    else if (!span_of(nodes, v, &span))
        HGA_TRY(add_children(nodes, out, v, sum));
    else if (span.first <= span.last)
        HGA_TRY(interval_add(sum, span));
    HGA_TRY(interval_take(sum, &list, &n));
    HGA_TRY(interval_put(out, v, list, n));
done:
    return st;
}

/* Lists of an input before any stage, empty where the caller's tensor has no row. */
hga_status flow_start(const hga_graph *g, const hga_field *field, int letters, interval_sum *sum, interval_lists *out)
{
    hga_nodes nodes = hga_graph_nodes(g);
    hga_status st = HGA_OK;
    HGA_TRY(interval_lists_create(nodes.n, out));
    for (hga_id v = 0; v < nodes.n; v++) {
        HGA_TRY(start_node(&nodes, letters, v, sum, out));
        HGA_TRY(interrupted_at(v));
    }
    for (hga_id v = 0; v < nodes.n; v++) {
        if (!program_row(&nodes, field->io, v)) out->size[v] = 0;
        HGA_TRY(interrupted_at(v));
    }
done:
    return st;
}
