/* layers.c: how many layers it takes until every token has been reached by every other. A layer is a relation between
   nodes: whose input reaches whose output; a node also retains its own input, as by residual connections. k layers are
   the k-th power, and the smallest k is found by doubling and halving: log k compositions instead of k. */
#include "flow.h"
#include "hga_inspect.h"
#include "power.h"

enum { MOST_DOUBLINGS = 32 };

/* Limit of joined intervals where the caller gives none: some minutes' worth. */
#define MOST_WORK ((int64_t)1 << 32)

typedef struct layer_stack {
    const hga_program *p;
    const hga_graph *g;
    hga_nodes nodes;
    const hga_field *out;
    int causal;
    hga_id *run;                    /* [n]: above the tokens, the last of the nodes from v on with contiguous spans */
    hop power[MOST_DOUBLINGS];      /* of 2^i layers */
    reach_span *span;               /* a scratch list */
    int64_t n_span, capacity, work; /* work: intervals that may still be joined */
} layer_stack;

static hga_status add_span(layer_stack *s, hga_id first, hga_id last)
{
    hga_status st = hga_grow(NULL, &s->span, &s->capacity, s->n_span, s->n_span + 1, sizeof *s->span);
    if (!st) s->span[s->n_span++] = (reach_span){first, last};
    return st;
}

/* ---- one layer ---- */

/* Only nodes whose output is the next layer's input change. */
static hga_status take_reach(const interval *list, int64_t n, int same, hga_id v, void *context)
{
    (void)same;
    layer_stack *s = context;
    hga_status st = HGA_OK;
    s->n_span = 0;
    HGA_TRY(add_span(s, v, v));
    for (int64_t i = 0; i < n && program_row(&s->nodes, s->out->io, v); i++)
        HGA_TRY(add_span(s, list[i].first, list[i].last));
    HGA_TRY(hop_set(&s->power[0], v, s->span, s->n_span));
done:
    return st;
}

static hga_status first_layer(layer_stack *s)
{
    hga_status st = HGA_OK;
    HGA_TRY(hop_create(s->nodes.n, &s->power[0]));
    HGA_TRY(flow_rows(s->p, s->g, &(flow_wish){.by_node = 1, .row = take_reach, .context = s}));
    HGA_TRY(hop_finish(&s->power[0]));
done:
    return st;
}

/* ---- tests of completeness ---- */

static int has_span(const layer_stack *s, hga_id v) { return s->nodes.span_first[v] <= s->nodes.span_last[v]; }

/* run[v]: the last of the nodes from v on whose spans are contiguous. */
static hga_status find_runs(layer_stack *s)
{
    const hga_nodes *nodes = &s->nodes;
    hga_status st = hga_new(NULL, nodes->n, sizeof *s->run, &s->run);
    for (hga_id v = nodes->n - 1; v >= 0 && !st; v--) {
        int continues = v >= nodes->level_ptr[1] && v + 1 < nodes->n && has_span(s, v) && has_span(s, v + 1) &&
                        nodes->span_last[v] + 1 == nodes->span_first[v + 1];
        s->run[v] = continues ? s->run[v + 1] : v;
    }
    return st;
}

/* Adds the tokens of a node whose span is no interval. */
static hga_status add_tokens(layer_stack *s, hga_id v)
{
    const hga_nodes *nodes = &s->nodes;
    hga_status st = HGA_OK;
    if (has_span(s, v)) return add_span(s, nodes->span_first[v], nodes->span_last[v]);
    if (v < nodes->level_ptr[1] || !nodes->child_ptr) return HGA_OK;
    for (hga_id i = nodes->child_ptr[v - nodes->level_ptr[1]]; i < nodes->child_ptr[v - nodes->level_ptr[1] + 1]; i++)
        HGA_TRY(add_tokens(s, nodes->child_list ? nodes->child_list[i] : i));
done:
    return st;
}

/* Adds the tokens under an interval of nodes. */
static hga_status add_nodes(layer_stack *s, reach_span span)
{
    hga_status st = HGA_OK;
    hga_id tokens = s->nodes.level_ptr[1];
    if (span.first < tokens) HGA_TRY(add_span(s, span.first, span.last < tokens ? span.last : tokens - 1));
    for (hga_id v = span.first < tokens ? tokens : span.first; v <= span.last;) {
        hga_id end = s->run[v] < span.last ? s->run[v] : span.last;
        if (has_span(s, v))
            HGA_TRY(add_span(s, s->nodes.span_first[v], s->nodes.span_last[end]));
        else
            HGA_TRY(add_tokens(s, v));
        v = end + 1;
    }
done:
    return st;
}

/* The last token that must reach token i. */
static hga_id last_needed(const layer_stack *s, hga_id i) { return s->causal ? i : s->nodes.n_queries - 1; }

/* Whether all tokens that must reach token i do, those under nodes that reach it included. A scratch relation sorts the
   spans. */
static hga_status has_all(layer_stack *s, const hop *h, hga_id i, hop *line, int *all)
{
    hga_status st = HGA_OK;
    *all = h->first[i] == 0 && h->last[i] >= last_needed(s, i);
    if (*all) return HGA_OK;
    s->n_span = 0;
    HGA_TRY(add_nodes(s, (reach_span){h->first[i], h->last[i]}));
    for (int64_t k = 0; k < h->size[i]; k++) HGA_TRY(add_nodes(s, h->extra[h->start[i] + k]));
    line->n_extra = 0;
    HGA_TRY(hop_set(line, i, s->span, s->n_span));
    *all = line->first[i] == 0 && line->last[i] >= last_needed(s, i);
done:
    return st;
}

/* Whether every token is reached by all tokens that must reach it. */
static hga_status reaches_all(layer_stack *s, const hop *h, int *all)
{
    hop line = {0};
    hga_status st = HGA_OK;
    *all = 1;
    HGA_TRY(hop_create(s->nodes.n_queries, &line));
    for (hga_id i = 0; i < s->nodes.n_queries && *all; i++) HGA_TRY(has_all(s, h, i, &line, all));
done:
    hop_clear(&line);
    return st;
}

/* ---- powers ---- */

/* Squares until power[*top] reaches all, or until nothing changes: *top = -1. */
static hga_status double_up(layer_stack *s, int *top)
{
    hga_status st = HGA_OK;
    int all, i = 0;
    *top = -1;
    HGA_TRY(reaches_all(s, &s->power[0], &all));
    while (!all && i + 1 < MOST_DOUBLINGS) {
        HGA_TRY(hop_compose(&s->power[i], &s->power[i], &s->work, &s->power[i + 1]));
        i++;
        if (hop_equal(&s->power[i - 1], &s->power[i])) return HGA_OK;
        HGA_TRY(reaches_all(s, &s->power[i], &all));
    }
    *top = i;
done:
    return st;
}

/* Finds the most layers below 2^top that do not reach all, by powers of two, descending; *layers is one more. */
static hga_status halve_down(layer_stack *s, int top, int64_t *layers)
{
    hop sum = {0}, more = {0};
    const hop *best = &s->power[top - 1];
    hga_status st = HGA_OK;
    int all;
    *layers = (int64_t)1 << (top - 1);
    for (int i = top - 2; i >= 0; i--) {
        HGA_TRY(hop_compose(best, &s->power[i], &s->work, &more));
        HGA_TRY(reaches_all(s, &more, &all));
        if (!all) {
            hop_clear(&sum);
            sum = more, best = &sum, *layers += (int64_t)1 << i;
            more = (hop){0};
        }
        hop_clear(&more);
    }
    *layers += 1;
done:
    hop_clear(&sum);
    hop_clear(&more);
    return st;
}

/* *layers: as many as it takes; 0: more than `most`, -1: no number is enough. */
static hga_status count_layers(layer_stack *s, hga_id most, hga_id *layers)
{
    hga_status st = HGA_OK;
    int top;
    int64_t needed = 1;
    HGA_TRY(find_runs(s));
    HGA_TRY(first_layer(s));
    HGA_TRY(double_up(s, &top));
    if (top > 0) HGA_TRY(halve_down(s, top, &needed));
    *layers = top < 0 ? -1 : needed <= most ? (hga_id)needed : 0;
done:
    return st;
}

hga_status hga_program_layers(const hga_program *p, const hga_graph *g, int causal, hga_id most, hga_id *layers)
{
    return hga_program_layers_within(p, g, causal, most, MOST_WORK, layers);
}

hga_status hga_program_layers_within(const hga_program *p, const hga_graph *g, int causal, hga_id most, int64_t work,
                                     hga_id *layers)
{
    layer_stack s = {.p = p, .g = g, .causal = causal, .work = work};
    hga_coverage c;
    hga_status st = HGA_OK;
    if (!layers) return hga_fail(HGA_EINVAL, "layers: nowhere to put the result");
    *layers = 0;
    if (most < 1) return hga_fail(HGA_EINVAL, "layers: at most %d of them", most);
    s.nodes = hga_graph_nodes(g);
    if (s.nodes.query_first != s.nodes.key_first || s.nodes.n_queries != s.nodes.n_keys)
        return hga_fail(HGA_EUNSUPPORTED,
                        "layers have a meaning for self-attention only: queries %d + %d, keys %d + %d",
                        s.nodes.query_first, s.nodes.n_queries, s.nodes.key_first, s.nodes.n_keys);
    HGA_TRY(hga_program_coverage(p, g, causal, &c));
    *layers = c.none == c.none_diagonal;
    if (*layers) return HGA_OK;
    s.out = &p->field[program_bound(p, HGA_IO_OUT)];
    HGA_TRY(count_layers(&s, most, layers));
done:
    for (int i = 0; i < MOST_DOUBLINGS; i++) hop_clear(&s.power[i]);
    hga_delete(NULL, s.run, s.nodes.n, sizeof *s.run);
    hga_delete(NULL, s.span, s.capacity, sizeof *s.span);
    return st;
}
