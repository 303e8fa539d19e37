/* latest.c: the latest token that reaches each field of each node, through all stages: an int32 per value instead of
   the value. */
#include "latest.h"

#include "interrupt.h"
#include "regions.h"
#include "sources.h"

enum { BLOCK = 16, MAX_TABLE_LEVELS = 32 };
enum { EMPTY = LATEST_EMPTY, NO_TOKEN = LATEST_NO_TOKEN };

/* Maxima of any interval of an array in constant time: prefix and suffix maxima inside blocks of 16, and over the
   blocks a table of the maxima of 2^k of them. */
typedef struct maxima {
    const int32_t *x;
    hga_id n, n_blocks;
    int32_t *prefix, *suffix;
    int32_t *over[MAX_TABLE_LEVELS];
} maxima;

typedef struct token_trace {
    const hga_program *p;
    const hga_graph *g;
    hga_nodes nodes;
    int32_t **latest; /* the caller's latest_tokens.of */
    /* of the current stage */
    const hga_stage *stage;
    stage_kind kind;
    const hga_id *order;
    hga_id n_positions;
    int32_t *source;  /* [n]: the latest token that an edge from this node passes on */
    int32_t *ordered; /* the same by source position */
    int table;        /* sources do not change while the stage runs, so `max` serves */
    maxima max;
} token_trace;

static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

/* ---- interval maxima ---- */

static void maxima_clear(maxima *m)
{
    hga_delete(NULL, m->prefix, m->n, sizeof(int32_t));
    hga_delete(NULL, m->suffix, m->n, sizeof(int32_t));
    for (int k = 0; k < MAX_TABLE_LEVELS; k++) hga_delete(NULL, m->over[k], m->n_blocks, sizeof(int32_t));
    *m = (maxima){0};
}

/* over[k][b] is the maximum of the 2^k blocks from b on. */
static hga_status maxima_over_blocks(maxima *m)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_new(NULL, m->n_blocks, sizeof(int32_t), &m->over[0]));
    for (hga_id b = 0; b < m->n_blocks; b++) m->over[0][b] = m->suffix[b * BLOCK];
    for (int k = 1; (int64_t)1 << k <= m->n_blocks; k++) {
        hga_id half = (hga_id)1 << (k - 1);
        HGA_TRY(hga_new(NULL, m->n_blocks, sizeof(int32_t), &m->over[k]));
        for (hga_id b = 0; b + 2 * (int64_t)half <= m->n_blocks; b++)
            m->over[k][b] = larger(m->over[k - 1][b], m->over[k - 1][b + half]);
    }
done:
    return st;
}

/* The maxima of n numbers, for maxima_of. */
static hga_status maxima_build(maxima *m, const int32_t *x, hga_id n)
{
    hga_status st = HGA_OK;
    maxima_clear(m);
    if (n == 0) return HGA_OK;
    m->x = x, m->n = n, m->n_blocks = (n - 1) / BLOCK + 1;
    HGA_TRY(hga_new(NULL, n, sizeof(int32_t), &m->prefix));
    HGA_TRY(hga_new(NULL, n, sizeof(int32_t), &m->suffix));
    for (hga_id i = 0; i < n; i++) m->prefix[i] = i % BLOCK ? larger(m->prefix[i - 1], x[i]) : x[i];
    for (hga_id i = n - 1; i >= 0; i--)
        m->suffix[i] = i == n - 1 || i % BLOCK == BLOCK - 1 ? x[i] : larger(m->suffix[i + 1], x[i]);
    HGA_TRY(maxima_over_blocks(m));
done:
    return st;
}

/* The maximum of numbers first .. last: two ends of blocks, and two entries for the blocks between them. */
static int32_t maxima_of(const maxima *m, hga_id first, hga_id last)
{
    hga_id a = first / BLOCK, b = last / BLOCK;
    int32_t best = EMPTY;
    if (a == b) {
        for (hga_id i = first; i <= last; i++) best = larger(best, m->x[i]);
        return best;
    }
    best = larger(m->suffix[first], m->prefix[last]);
    if (b - a < 2) return best;
    int k = 31 - __builtin_clz((unsigned)(b - a - 1));
    return larger(best, larger(m->over[k][a + 1], m->over[k][b - ((hga_id)1 << k)]));
}

/* ---- inputs ---- */

/* The last token of each node: a token itself, of a node above the last of its descendants, when its value is complete.
   Ids ascend with levels. */
static void last_tokens(const hga_nodes *nodes, int32_t *last)
{
    for (hga_id v = 0; v < nodes->n; v++) last[v] = v < nodes->level_ptr[1] ? v - nodes->query_first : NO_TOKEN;
    for (hga_id v = 0; v < nodes->n && nodes->parent; v++)
        if (nodes->parent[v] >= 0) last[nodes->parent[v]] = larger(last[nodes->parent[v]], last[v]);
}

/* Before any stage the caller's rows hold the last token of their node, all others nothing. */
static hga_status start_fields(token_trace *t)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_new(NULL, t->nodes.n, sizeof(int32_t), &t->source));
    HGA_TRY(hga_new(NULL, t->nodes.n, sizeof(int32_t), &t->ordered));
    last_tokens(&t->nodes, t->source);
    for (hga_id f = 1; f <= t->p->n_fields; f++) {
        const hga_field *field = &t->p->field[f];
        HGA_TRY(hga_new(NULL, t->nodes.n, sizeof(int32_t), &t->latest[f]));
        for (hga_id v = 0; v < t->nodes.n; v++)
            t->latest[f][v] =
                program_is_input(field->binding) && program_row(&t->nodes, field->io, v) ? t->source[v] : EMPTY;
        HGA_TRY(interrupted());
    }
done:
    return st;
}

/* ---- one stage ---- */

static int32_t latest_among(const token_trace *t, uint32_t fields, hga_id v)
{
    int32_t best = EMPTY;
    for (hga_id f = 1; f <= t->p->n_fields; f++)
        if (fields >> f & 1u) best = larger(best, t->latest[f][v]);
    return best;
}

/* A user function may read everything it names at both ends. */
static uint32_t user_reads(const hga_stage *s)
{
    return s->reads | program_fields(s, 1u << ROLE_QUERY | 1u << ROLE_KEY);
}

uint32_t latest_source_fields(const hga_stage *s)
{
    stage_kind kind = program_kind(s);
    return kind == KIND_USER ? user_reads(s) : program_fields(s, program_rules[kind].reads.source);
}

uint32_t latest_own_fields(const hga_stage *s, int lone)
{
    stage_kind kind = program_kind(s);
    if (kind == KIND_USER) return user_reads(s);
    return program_fields(s, lone ? program_rules[kind].reads.lone : program_rules[kind].reads.own);
}

static uint32_t own_fields(const token_trace *t, hga_id v, int lone)
{
    const stage_rule *rule = &program_rules[t->kind];
    if (t->kind == KIND_USER) return user_reads(t->stage);
    unsigned roles = lone ? rule->reads.lone : rule->reads.own;
    if (rule->reads.gating && t->latest[t->stage->value][v] == EMPTY) roles &= ~rule->reads.gating;
    return program_fields(t->stage, roles);
}

/* The latest token that the sources of a group of rows pass on. */
static int32_t latest_source(const token_trace *t, const reach *r)
{
    int32_t best = EMPTY;
    for (int64_t i = 0; i < r->n_spans; i++) {
        reach_span s = r->spans[i];
        if (t->table)
            best = larger(best, maxima_of(&t->max, s.first, s.last));
        else
            for (hga_id k = s.first; k <= s.last; k++)
                best = larger(best, t->source[r->source_order ? r->source_order[k] : k]);
    }
    for (int64_t i = 0; i < r->n_nodes; i++) best = larger(best, t->source[r->nodes[i]]);
    return best;
}

static int32_t latest_below(const token_trace *t, hga_id v)
{
    const uint32_t fields = program_fields(t->stage, program_rules[t->kind].reads.child);
    int32_t best = EMPTY;
    const hga_id *list = NULL;
    hga_id first = 0, n = fields ? children_of(&t->nodes, v, &list, &first) : 0;
    for (hga_id i = 0; i < n; i++) best = larger(best, latest_among(t, fields, child_number(list, first, i)));
    return best;
}

/* Updates a row with the latest token among its own reads and its sources, except for tokens, which a stage in place
   does not write. */
static void trace_row(token_trace *t, hga_id v, int lone, int32_t from_sources)
{
    int32_t value = larger(from_sources, latest_among(t, own_fields(t, v, lone), v));
    value = larger(value, latest_below(t, v));
    if (t->kind == KIND_USER || (!lone && t->stage->reduce == HGA_SOFTMAX)) value = larger(value, NO_TOKEN);
    int keeps = program_keeps_tokens(t->stage) && v < t->nodes.level_ptr[1];
    for (hga_id f = 1; f <= t->p->n_fields && !keeps; f++) {
        if (!(t->stage->writes >> f & 1u) || !program_row(&t->nodes, t->p->field[f].rows, v)) continue;
        t->latest[f][v] = t->kind == KIND_USER ? larger(t->latest[f][v], value) : value;
    }
    if (!t->table) t->source[v] = latest_among(t, latest_source_fields(t->stage), v);
}

/* A visitor of rows with the same sources, from which they get the same token. */
static hga_status trace_rows(const reach *r, void *context)
{
    token_trace *t = context;
    int lone = r->n_spans == 0 && r->n_nodes == 0;
    int32_t latest = latest_source(t, r);
    for (hga_id i = 0; i < r->n_rows; i++) {
        hga_id v = r->row_order ? r->row_order[r->row + i] : r->row + i;
        if (program_row(&t->nodes, t->p->field[t->stage->out].rows, v)) trace_row(t, v, lone, latest);
    }
    return HGA_OK;
}

/* Sources in the order of their positions, and the table over them. */
static hga_status prepare_table(token_trace *t)
{
    hga_relation rel = hga_graph_relation(t->g, t->stage->relation);
    hga_id n = rel.src_order ? rel.n_src_order : t->nodes.n;
    for (hga_id i = 0; i < n; i++) t->ordered[i] = t->source[rel.src_order ? rel.src_order[i] : i];
    hga_status st = interrupted();
    return st ? st : maxima_build(&t->max, t->ordered, n);
}

/* Finds what each node passes on to the stage's rows, and what these hold afterwards. */
static hga_status follow_stage(token_trace *t, const hga_stage *s)
{
    hga_status st = HGA_OK;
    t->stage = s;
    t->kind = program_kind(s);
    t->table = s->relation >= 0 && s->order == HGA_FLAT;
    for (hga_id v = 0; v < t->nodes.n; v++) {
        t->source[v] = latest_among(t, latest_source_fields(t->stage), v);
        HGA_TRY(interrupted_at(v));
    }
    if (t->table) HGA_TRY(prepare_table(t));
    HGA_TRY(reach_rows(t->g, s->relation, s->order, trace_rows, t));
done:
    return st;
}

/* Follows the stages in order: for each row of each field, the latest token that it depends on. */
hga_status latest_find(const hga_program *p, const hga_graph *g, latest_tokens *out)
{
    hga_status st = HGA_OK;
    token_trace t = {.p = p, .g = g, .nodes = hga_graph_nodes(g), .latest = out->of};
    *out = (latest_tokens){.n = t.nodes.n};
    HGA_TRY(start_fields(&t));
    HGA_TRY(hga_new(NULL, t.nodes.n, sizeof(int32_t), &out->token));
    HGA_TRY(interrupted());
    last_tokens(&t.nodes, out->token);
    HGA_TRY(interrupted());
    for (hga_id s = 0; s < p->n_stages; s++) HGA_TRY(follow_stage(&t, &p->stage[s]));
done:
    hga_delete(NULL, t.source, t.nodes.n, sizeof(int32_t));
    hga_delete(NULL, t.ordered, t.nodes.n, sizeof(int32_t));
    maxima_clear(&t.max);
    if (st) latest_clear(out);
    return st;
}

void latest_clear(latest_tokens *x)
{
    for (hga_id f = 0; f < HGA_FIELD_SLOTS; f++) hga_delete(NULL, x->of[f], x->n, sizeof(int32_t));
    hga_delete(NULL, x->token, x->n, sizeof(int32_t));
    *x = (latest_tokens){0};
}
