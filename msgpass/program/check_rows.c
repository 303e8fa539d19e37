/* check_rows.c: the check of nodes and edges. A field must hold values wherever a stage reads it: the caller's, or
   those of an earlier stage. And a stage that reads at its sources what it writes must never have an edge inside a
   level or against its direction. */
#include "interrupt.h"
#include "program_check.h"
#include "regions.h"
#include "sources.h"

typedef struct inspection {
    const hga_program *p;
    const hga_stage *stage;
    const hga_graph *g;
    hga_nodes nodes;
    row_set present, rows, visited; /* the regions that have nodes, rows of the out field, rows that are computed */
    program_values before, after;
    /* fields read at the sources, at a row with in-edges, at one without */
    uint32_t source_reads, own_reads, lone_reads;
    row_set source_lacks, own_lacks, lone_lacks; /* regions where some of them hold nothing */
    const hga_id *order;                         /* of source positions */
    hga_id n_positions;
    hga_id *missing; /* [n_positions + 1]: positions before that are in source_lacks; NULL: there is none */
    int directed;    /* edges must go up, or down */
} inspection;

static int is_in(const inspection *c, row_set set, hga_id v) { return set && set >> program_region(&c->nodes, v) & 1; }

/* The regions of `rows` in which some of `fields` is missing. */
static row_set lacking(const hga_program *p, uint32_t fields, const row_set *holds, row_set rows)
{
    row_set lacks = 0;
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (fields >> f & 1u) lacks |= rows & (row_set)~holds[f];
    return lacks;
}

/* The error of the first of `fields` that is missing on node v. */
static hga_status complain(const inspection *c, uint32_t fields, const row_set *holds, hga_id v)
{
    hga_id f = 1;
    while (f < c->p->n_fields && !(fields >> f & 1u && !is_in(c, holds[f], v))) f++;
    int exists = program_row(&c->nodes, c->p->field[f].rows, v);
    return hga_fail(HGA_EPROGRAM, "stage '%s' needs field '%s' on node %d, where %s", c->stage->name,
                    c->p->field[f].name, v,
                    exists ? "neither the caller nor an earlier stage has written it" : "it does not exist");
}

/* ---- rows ---- */

/* Every field that a built-in stage reads or writes at a row must exist there, whether the row has edges or not. */
static hga_status check_memory(const inspection *c, const stage_rule *rule)
{
    uint32_t fields = program_fields(c->stage, rule->reads.own | rule->reads.lone | rule->writes);
    row_set exists[HGA_FIELD_SLOTS] = {0};
    for (hga_id f = 1; f <= c->p->n_fields; f++) exists[f] = program_row_set(c->p->field[f].rows);
    row_set lacks = lacking(c->p, fields, exists, c->visited);
    for (hga_id v = 0; lacks && v < c->nodes.n; v++)
        if (is_in(c, lacks, v)) return complain(c, fields, exists, v);
    return HGA_OK;
}

static hga_status check_reads(const inspection *c, hga_id v, int has_edges)
{
    if (!is_in(c, has_edges ? c->own_lacks : c->lone_lacks, v)) return HGA_OK;
    return complain(c, has_edges ? c->own_reads : c->lone_reads, c->before.holds, v);
}

/* ---- sources ---- */

static hga_id source_at(const inspection *c, hga_id position) { return c->order ? c->order[position] : position; }

static hga_status count_missing(inspection *c)
{
    hga_status st = hga_new(NULL, (int64_t)c->n_positions + 1, sizeof *c->missing, &c->missing);
    if (st) return st;
    c->missing[0] = 0;
    for (hga_id i = 0; i < c->n_positions; i++)
        c->missing[i + 1] = c->missing[i] + is_in(c, c->source_lacks, source_at(c, i));
    return HGA_OK;
}

static hga_status check_source(const inspection *c, hga_id u)
{
    return is_in(c, c->source_lacks, u) ? complain(c, c->source_reads, c->after.holds, u) : HGA_OK;
}

static hga_status check_span(const inspection *c, reach_span s)
{
    hga_status st = HGA_OK;
    if (!c->missing || c->missing[s.last + 1] == c->missing[s.first]) return HGA_OK;
    for (hga_id i = s.first; i <= s.last; i++) HGA_TRY(check_source(c, source_at(c, i)));
done:
    return st;
}

/* The least and the largest source of a group; without an order these are the ends of a span. */
static void hull(const inspection *c, const reach *r, hga_id *lowest, hga_id *highest)
{
    *lowest = c->nodes.n, *highest = -1;
    for (int64_t i = 0; i < r->n_spans; i++) {
        reach_span s = r->spans[i];
        hga_id step = c->order || s.last == s.first ? 1 : s.last - s.first;
        for (int64_t k = s.first; k <= s.last; k += step) {
            hga_id u = source_at(c, (hga_id)k);
            *lowest = u < *lowest ? u : *lowest, *highest = u > *highest ? u : *highest;
        }
    }
    for (int64_t i = 0; i < r->n_nodes; i++)
        *lowest = r->nodes[i] < *lowest ? r->nodes[i] : *lowest,
        *highest = r->nodes[i] > *highest ? r->nodes[i] : *highest;
}

/* The sources of a row are all on lower levels when the stage runs up, on higher ones when it runs down. */
static hga_status check_direction(const inspection *c, const reach *r, hga_id v)
{
    hga_id lowest, highest, level = hga_graph_level(c->g, v);
    int up = c->stage->order == HGA_LEVELS_UP;
    hull(c, r, &lowest, &highest);
    if (highest < 0 || (up ? highest < c->nodes.level_ptr[level] : lowest >= c->nodes.level_ptr[level + 1]))
        return HGA_OK;
    hga_id wrong = up ? highest : lowest;
    return hga_fail(HGA_EPROGRAM,
                    "stage '%s' runs level by level %s, but its relation has an edge from node %d of level %d to node "
                    "%d of level %d",
                    c->stage->name, up ? "up" : "down", wrong, hga_graph_level(c->g, wrong), v, level);
}

/* Rows with the same sources: each row is checked, the sources once. */
static hga_status check_group(const reach *r, void *context)
{
    const inspection *c = context;
    hga_status st = HGA_OK;
    int has_edges = r->n_spans || r->n_nodes;
    for (hga_id i = 0, seen = 0; i < r->n_rows; i++) {
        hga_id v = r->row_order ? r->row_order[r->row + i] : r->row + i;
        if (c->directed && is_in(c, c->rows, v)) HGA_TRY(check_direction(c, r, v));
        HGA_TRY(interrupted_at(i));
        if (!is_in(c, c->visited, v)) continue;
        HGA_TRY(check_reads(c, v, has_edges));
        if (seen++) continue;
        for (int64_t k = 0; k < r->n_spans; k++) HGA_TRY(check_span(c, r->spans[k]));
        for (int64_t k = 0; k < r->n_nodes; k++) HGA_TRY(check_source(c, r->nodes[k]));
    }
done:
    return st;
}

/* Whether no block and no explicit edge reaches a node that lacks a field: a quick answer for most relations. */
static int blocks_are_clear(const inspection *c, const hga_relation *rel)
{
    for (hga_block_walk w = {0}; hga_relation_next(rel, &w);) {
        const hga_block *k = &w.block;
        int64_t end = (int64_t)k->src + (k->count > 1 ? (int64_t)(k->count - 1) * k->src_step : 0) + k->n_src;
        if (c->missing[end] != c->missing[k->src]) return 0;
    }
    for (hga_pos e = 0; e < rel->n_explicit; e++)
        if (is_in(c, c->source_lacks, rel->src[e])) return 0;
    return 1;
}

/* Checks edges where regions alone do not decide. */
static hga_status check_edges(inspection *c)
{
    const hga_stage *s = c->stage;
    hga_status st = HGA_OK;
    hga_relation rel = {0};
    if (s->relation >= 0) rel = hga_graph_relation(c->g, s->relation);
    c->order = rel.src_order;
    c->n_positions = rel.src_order ? rel.n_src_order : c->nodes.n;
    c->directed = s->relation >= 0 && program_in_place(s);
    int rows = c->directed || c->own_lacks || c->lone_lacks;
    if (!rows && !c->source_lacks) return HGA_OK;
    if (c->source_lacks) HGA_TRY(count_missing(c));
    if (!rows && s->relation >= 0 && blocks_are_clear(c, &rel)) goto done;
    HGA_TRY(reach_rows(c->g, s->relation, HGA_FLAT, check_group, c));
done:
    hga_delete(NULL, c->missing, (int64_t)c->n_positions + 1, sizeof *c->missing);
    c->missing = NULL;
    return st;
}

/* Finds the fields that a stage reads at sources and rows. A user's function gets NULL where a field holds nothing; its
   scores do not. */
static void find_reads(inspection *c, const stage_rule *rule)
{
    const hga_stage *s = c->stage;
    int user = rule == &program_rules[KIND_USER];
    c->source_reads = program_fields(s, user ? 1u << ROLE_KEY : rule->reads.source);
    c->own_reads = program_fields(s, user ? 1u << ROLE_QUERY : rule->reads.own);
    c->lone_reads = program_fields(s, rule->reads.lone);
    c->rows = program_row_set(c->p->field[s->out].rows) & c->present;
    c->visited = program_visits(c->p, s) & c->present;
    c->source_lacks = lacking(c->p, c->source_reads, c->after.holds, c->present);
    c->own_lacks = lacking(c->p, c->own_reads, c->before.holds, c->visited);
    c->lone_lacks = lacking(c->p, c->lone_reads, c->before.holds, c->visited);
}

/* The caller's output is written on every row of his tensor. */
static hga_status check_out(const inspection *c)
{
    hga_id out = program_bound(c->p, HGA_IO_OUT);
    row_set lacks = program_row_set(c->p->field[out].io) & c->present & (row_set)~c->before.holds[out];
    for (hga_id v = 0; lacks && v < c->nodes.n; v++)
        if (is_in(c, lacks, v))
            return hga_fail(HGA_EPROGRAM, "no stage writes the out field '%s' on node %d", c->p->field[out].name, v);
    return HGA_OK;
}

/* Checks stage by stage, with the values of the stages before. */
hga_status program_check_rows(const hga_program *p, const hga_graph *g)
{
    hga_status st = HGA_OK;
    inspection c = {.p = p, .g = g, .nodes = hga_graph_nodes(g)};
    c.present = program_present(&c.nodes);
    program_values_start(p, &c.after);
    for (hga_id i = 0; i < p->n_stages; i++) {
        c.stage = &p->stage[i];
        c.before = c.after;
        program_values_after(p, c.stage, &c.after);
        const stage_rule *rule = &program_rules[program_kind(c.stage)];
        find_reads(&c, rule);
        HGA_TRY(check_memory(&c, rule));
        HGA_TRY(check_edges(&c));
    }
    c.before = c.after;
    HGA_TRY(check_out(&c));
done:
    return st;
}
