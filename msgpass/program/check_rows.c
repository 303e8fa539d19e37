/* check_rows.c: the part of the check that depends on edges. A field must exist wherever a stage reads it, and a stage
   that reads at its sources what it writes must never meet an edge inside a level or against its direction. */
#include "program.h"
#include "sources.h"

typedef struct inspection {
    const hga_program *p;
    const hga_stage *stage;
    const hga_graph *g;
    hga_nodes nodes;
    uint32_t source_reads; /* fields */
    /* fields that earlier stages and this one write: the caller's others exist on the caller's rows only */
    uint32_t written;
    const hga_id *order; /* of source positions */
    hga_id n_positions;
    hga_id *missing; /* [n_positions + 1]: positions before that lack one of source_reads; NULL: none lacks any */
    int directed;    /* edges must go up, or down */
} inspection;

/* Where field f has values. */
static hga_rows rows_of(const inspection *c, hga_id f)
{
    const hga_field *field = &c->p->field[f];
    return program_is_input(field->binding) && !(c->written >> f & 1u) ? field->io : field->rows;
}

/* The first of `fields` that does not exist on node v, 0 when all do. */
static hga_id lacking(const inspection *c, uint32_t fields, hga_id v)
{
    for (hga_id f = 1; f <= c->p->n_fields; f++)
        if (fields >> f & 1u && !program_row(&c->nodes, rows_of(c, f), v)) return f;
    return 0;
}

static hga_status complain(const inspection *c, hga_id field, hga_id v)
{
    return hga_fail(HGA_EPROGRAM, "stage '%s' needs field '%s' on node %d, where it does not exist", c->stage->name,
                    c->p->field[field].name, v);
}

/* Are these all the nodes there are? */
static int are_all(const hga_nodes *nodes, hga_rows rows)
{
    return (rows == HGA_ROWS_QUERIES && nodes->n_queries == nodes->n) ||
           (rows == HGA_ROWS_KEYS && nodes->n_keys == nodes->n);
}

/* Does every one of `fields` exist on all of `rows`, to judge without looking at each? */
static int everywhere(const inspection *c, uint32_t fields, hga_rows rows)
{
    for (hga_id f = 1; f <= c->p->n_fields; f++) {
        hga_rows exists = rows_of(c, f);
        if (fields >> f & 1u && !are_all(&c->nodes, exists) && !program_rows_within(&c->nodes, rows, exists)) return 0;
    }
    return 1;
}

/* ---- rows ---- */

static hga_status check_own(const inspection *c, const stage_rule *rule)
{
    hga_rows rows = c->p->field[c->stage->out].rows;
    uint32_t fields = program_fields(c->stage, rule->own_reads | rule->lone_reads | rule->writes);
    if (everywhere(c, fields, rows)) return HGA_OK;
    for (hga_id v = 0; v < c->nodes.n; v++) {
        hga_id f = program_row(&c->nodes, rows, v) ? lacking(c, fields, v) : 0;
        if (f) return complain(c, f, v);
    }
    return HGA_OK;
}

/* ---- sources ---- */

static hga_id source_at(const inspection *c, hga_id position) { return c->order ? c->order[position] : position; }

static hga_status count_missing(inspection *c)
{
    hga_status st = hga_new(NULL, (int64_t)c->n_positions + 1, sizeof *c->missing, &c->missing);
    if (st) return st;
    c->missing[0] = 0;
    for (hga_id i = 0; i < c->n_positions; i++)
        c->missing[i + 1] = c->missing[i] + (lacking(c, c->source_reads, source_at(c, i)) != 0);
    return HGA_OK;
}

static hga_status check_source(const inspection *c, hga_id u)
{
    hga_id f = lacking(c, c->source_reads, u);
    return !f ? HGA_OK : complain(c, f, u);
}

static hga_status check_span(const inspection *c, reach_span s)
{
    hga_status st = HGA_OK;
    if (!c->missing || c->missing[s.last + 1] == c->missing[s.first]) return HGA_OK;
    for (hga_id i = s.first; i <= s.last; i++) HGA_TRY(check_source(c, source_at(c, i)));
done:
    return st;
}

/* The least and the largest source of a group; without an order the ends of a span tell. */
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

/* The sources of a row are all lower than it when going up, all higher when going down. */
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

static hga_status check_group(const reach *r, void *context)
{
    const inspection *c = context;
    hga_status st = HGA_OK;
    hga_rows rows = c->p->field[c->stage->out].rows;
    for (hga_id i = 0, seen = 0; i < r->n_rows; i++) {
        hga_id v = r->row_order ? r->row_order[r->row + i] : r->row + i;
        if (!program_row(&c->nodes, rows, v)) continue;
        if (c->directed) HGA_TRY(check_direction(c, r, v));
        if (seen++) continue;
        for (int64_t k = 0; k < r->n_spans; k++) HGA_TRY(check_span(c, r->spans[k]));
        for (int64_t k = 0; c->missing && k < r->n_nodes; k++) HGA_TRY(check_source(c, r->nodes[k]));
    }
done:
    return st;
}

/* The quick answer for most relations: no block and no explicit edge comes near a node that lacks a field. */
static int blocks_are_clear(const inspection *c, const hga_relation *rel)
{
    for (hga_pos b = 0; b < rel->n_blocks; b++) {
        const hga_block *k = &rel->blocks[b];
        int64_t end = (int64_t)k->src + (k->count > 1 ? (int64_t)(k->count - 1) * k->src_step : 0) + k->n_src;
        if (c->missing[end] != c->missing[k->src]) return 0;
    }
    for (hga_pos e = 0; e < rel->n_explicit; e++)
        if (lacking(c, c->source_reads, rel->src[e])) return 0;
    return 1;
}

static hga_status check_sources(inspection *c)
{
    const hga_stage *s = c->stage;
    hga_status st = HGA_OK;
    hga_relation rel = {0};
    if (s->relation >= 0) rel = hga_graph_relation(c->g, s->relation);
    c->order = rel.src_order;
    c->n_positions = rel.src_order ? rel.n_src_order : c->nodes.n;
    c->directed = s->relation >= 0 && program_in_place(s);
    int exist = everywhere(c, c->source_reads, HGA_ROWS_NODES);
    if (exist && !c->directed) return HGA_OK;
    if (!exist) HGA_TRY(count_missing(c));
    if (!c->directed && s->relation >= 0 && blocks_are_clear(c, &rel)) goto done;
    HGA_TRY(reach_rows(c->g, s->relation, HGA_FLAT, check_group, c));
done:
    hga_delete(NULL, c->missing, (int64_t)c->n_positions + 1, sizeof *c->missing);
    return st;
}

hga_status program_check_rows(const hga_program *p, const hga_graph *g)
{
    hga_status st = HGA_OK;
    uint32_t written = 0;
    for (hga_id i = 0; i < p->n_stages; i++) {
        stage_kind kind = program_kind(&p->stage[i]);
        const stage_rule *rule = &program_rules[kind];
        written |= p->stage[i].writes;
        if (kind == KIND_USER) continue; /* a user function is told where a field does not exist */
        inspection c = {.p = p, .stage = &p->stage[i], .g = g, .nodes = hga_graph_nodes(g), .written = written};
        c.source_reads = program_fields(c.stage, rule->source_reads);
        HGA_TRY(check_own(&c, rule));
        HGA_TRY(check_sources(&c));
    }
done:
    return st;
}
