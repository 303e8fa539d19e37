/* write_json.c: a graph as JSON, streamed. Regular things are written as runs, so that a million tokens may fit a
   screen. read_json.c describes the format. */
#include "copy.h"
#include "graph.h"
#include "json.h"
#include "longer.h"
#include "output.h"
#include "parts.h"

#include <string.h>

/* Begins a member of the object, except its first. */
static void put_member(output *o, const char *name)
{
    output_text(o, ",\n  \""), output_text(o, name), output_text(o, "\": ");
}

/* The separator before item i of a list; a new line every `per_line` items. */
static void put_comma(output *o, hga_pos i, hga_pos per_line)
{
    if (i > 0) output_text(o, ",");
    if (i % per_line == 0)
        output_text(o, "\n      ");
    else
        output_text(o, " ");
}

static void put_integers(output *o, const int64_t *values, int n)
{
    output_text(o, "[");
    for (int i = 0; i < n; i++) {
        if (i > 0) output_text(o, ", ");
        output_integer(o, values[i]);
    }
    output_text(o, "]");
}

/* A string in quotes, with JSON's escapes. */
static void put_string(output *o, const char *text)
{
    static const char hex[] = "0123456789abcdef";
    output_text(o, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') output_text(o, "\\");
        if (c >= ' ')
            output_bytes(o, text, 1);
        else
            output_text(o, "\\u00"), output_bytes(o, &hex[c >> 4], 1), output_bytes(o, &hex[c & 15], 1);
    }
    output_text(o, "\"");
}

/* ---- nodes ---- */

static void put_levels(output *o, const hga_nodes *nodes)
{
    put_member(o, "levels"), output_text(o, "[");
    for (hga_id l = 0; l < nodes->n_levels; l++) {
        if (l > 0) output_text(o, ", ");
        output_integer(o, nodes->level_ptr[l + 1] - nodes->level_ptr[l]);
    }
    output_text(o, "]");
}

static void put_tokens(output *o, const hga_nodes *nodes)
{
    if (!is_cross(nodes)) return; /* equal ranges can only be all of level 0 */
    put_member(o, "queries"), put_integers(o, (int64_t[]){nodes->query_first, nodes->n_queries}, 2);
    put_member(o, "keys"), put_integers(o, (int64_t[]){nodes->key_first, nodes->n_keys}, 2);
}

/* `claims` as words; nothing where there are none. */
static void put_claims(output *o, uint32_t claims)
{
    const char *before = "[";
    if (!claims) return;
    put_member(o, "claims");
    for (int i = 0; i < 3; i++) {
        if (!(claims >> i & 1)) continue;
        output_text(o, before), put_string(o, json_claims[i]);
        before = ", ";
    }
    output_text(o, "]");
}

static void put_side(output *o, hga_pos i, side_run run)
{
    if (i == 0) put_member(o, "side"), output_text(o, "[");
    put_comma(o, i, 6);
    output_text(o, "["), output_integer(o, run.first), output_text(o, ", "), output_integer(o, run.n),
        output_text(o, ", ");
    put_string(o, json_sides[run.side]), output_text(o, "]");
}

/* Writes only sides that do not follow from the ranges; where all follow but sides were declared, one run of `both`
   records that. */
static void put_sides(output *o, const hga_nodes *nodes)
{
    hga_pos n = 0;
    for (hga_id v = 0; nodes->side && v < nodes->n;) {
        side_run run = side_run_at(nodes, v);
        if (!run.is_default) put_side(o, n++, run);
        v += run.n;
    }
    if (n == 0 && nodes->side && !is_cross(nodes)) put_side(o, n++, (side_run){0, nodes->n, HGA_SIDE_BOTH, 1});
    if (n > 0) output_text(o, "]");
}

static hga_pos count_families(const hga_nodes *nodes)
{
    hga_pos n = 0;
    for (hga_id v = 0; v < nodes->n;) {
        int is_child = nodes->parent[v] >= 0;
        n += is_child;
        v += is_child ? family_run_at(nodes->parent, nodes->n, v).n : 1;
    }
    return n;
}

/* The tree as families, [parent, first child, number of children, each]: a run of children is one item. */
static void put_families(output *o, const hga_nodes *nodes)
{
    put_member(o, "families"), output_text(o, "[");
    hga_pos i = 0;
    for (hga_id v = 0; v < nodes->n;) {
        family_run run = {.n = 1};
        if (nodes->parent[v] >= 0) {
            run = family_run_at(nodes->parent, nodes->n, v);
            put_comma(o, i++, 6);
            put_integers(o, (int64_t[]){run.parent, run.child, run.n, run.each}, 4);
        }
        v += run.n;
    }
    output_text(o, "]");
}

/* Writes families where they take fewer numbers than one parent a node. */
static void put_parents(output *o, const hga_nodes *nodes)
{
    if (!nodes->parent) return;
    if (4 * count_families(nodes) <= nodes->n) {
        put_families(o, nodes);
        return;
    }
    put_member(o, "parents"), output_text(o, "[");
    for (hga_id v = 0; v < nodes->n; v++) put_comma(o, v, 24), output_integer(o, nodes->parent[v]);
    output_text(o, "]");
}

/* Runs of nodes whose mass is not the sum of their children's. */
static hga_status put_masses(output *o, const hga_graph *g)
{
    hga_nodes nodes = hga_graph_nodes(g);
    float *usual = NULL;
    hga_pos i = 0;
    hga_status st = masses_by_default(hga_graph_allocator(g), nodes.n, nodes.parent, nodes.mass, &usual);
    for (hga_id v = 0, end; !st && v < nodes.n; v = end) {
        end = v + 1;
        if (nodes.mass[v] == usual[v]) continue;
        while (end < nodes.n && nodes.mass[end] == nodes.mass[v] && nodes.mass[end] != usual[end]) end++;
        if (i == 0) put_member(o, "mass"), output_text(o, "[");
        put_comma(o, i++, 6);
        output_text(o, "["), output_integer(o, v), output_text(o, ", "), output_integer(o, end - v),
            output_text(o, ", ");
        output_real(o, nodes.mass[v]), output_text(o, "]");
    }
    if (i > 0) output_text(o, "]");
    hga_delete(hga_graph_allocator(g), usual, nodes.n, sizeof *usual);
    return st;
}

/* Positions of tokens that are not at their index. */
static void put_positions(output *o, const hga_graph *g)
{
    hga_pos i = 0;
    const float *at = g->node.position;
    for (hga_id v = 0, end; at && v < g->node.level_ptr[1]; v = end) {
        end = v + 1;
        if (at[v] == (float)token_index(g, v)) continue;
        while (end < g->node.level_ptr[1] && at[end] == at[v] && at[end] != (float)token_index(g, end)) end++;
        if (i == 0) put_member(o, "positions"), output_text(o, "[");
        put_comma(o, i++, 6);
        output_text(o, "["), output_integer(o, v), output_text(o, ", "), output_integer(o, end - v);
        output_text(o, ", "), output_real(o, at[v]), output_text(o, "]");
    }
    if (i > 0) output_text(o, "]");
}

/* Whether all tokens have a name, so that these are written as `words`. */
static int tokens_are_named(const hga_graph *g)
{
    hga_id v = 0, n = hga_graph_nodes(g).level_ptr[1];
    while (v < n && hga_graph_name(g, v)) v++;
    return n > 0 && v == n;
}

static hga_status put_words(output *o, const hga_graph *g)
{
    put_member(o, "words"), output_text(o, "[");
    for (hga_id v = 0; v < hga_graph_nodes(g).level_ptr[1]; v++) {
        if (v) output_text(o, ", ");
        put_string(o, hga_graph_name(g, v));
    }
    output_text(o, "]");
    return output_check(o);
}

/* [node, name] of the nodes from `first` on that have one. */
static hga_status put_names(output *o, const hga_graph *g, hga_id first)
{
    hga_pos i = 0;
    for (hga_id v = first; v < hga_graph_nodes(g).n; v++) {
        const char *name = hga_graph_name(g, v);
        if (!name) continue;
        if (i == 0) put_member(o, "names"), output_text(o, "[");
        put_comma(o, i++, 6);
        output_text(o, "["), output_integer(o, v), output_text(o, ", "), put_string(o, name), output_text(o, "]");
    }
    if (i > 0) output_text(o, "]");
    return output_check(o);
}

static void put_parts(output *o, const hga_graph *g)
{
    const hga_id *first;
    const hga_id n = graph_parts(g, &first);
    if (!n) return;
    put_member(o, "parts"), output_text(o, "[");
    for (hga_id i = 0; i < n; i++) put_comma(o, i, 16), output_integer(o, first[i]);
    output_text(o, "]");
}

static void put_kind_run(output *o, hga_pos i, hga_id first, hga_id n, const char *kind)
{
    put_comma(o, i, 6);
    output_text(o, "["), output_integer(o, first), output_text(o, ", "), output_integer(o, n);
    output_text(o, ", "), put_string(o, kind), output_text(o, "]");
}

/* Readers number kinds in order of appearance: each comes first with a run of no nodes, then the runs of nodes. */
static void put_kinds(output *o, const hga_graph *g)
{
    const hga_kinds kinds = hga_graph_kinds(g);
    hga_pos i = 0;
    if (!kinds.n) return;
    put_member(o, "kinds"), output_text(o, "[");
    for (int32_t k = 0; k < kinds.n; k++) put_kind_run(o, i++, 0, 0, kinds.name[k]);
    for (hga_id v = 0, end; v < g->n; v = end) {
        for (end = v + 1; end < g->n && kinds.of[end] == kinds.of[v];) end++;
        if (kinds.of[v] >= 0) put_kind_run(o, i++, v, end - v, kinds.name[kinds.of[v]]);
    }
    output_text(o, "]");
}

/* ---- relations ---- */

/* Ids; three or more consecutive ones as [first, n]. */
static void put_order(output *o, const char *name, const hga_id *order, hga_id n)
{
    output_text(o, ",\n     \""), output_text(o, name), output_text(o, "\": [");
    hga_pos item = 0;
    for (hga_id i = 0, run; i < n; i += run) {
        for (run = 1; i + run < n && order[i + run] == order[i] + run; run++) continue;
        if (run < 3) run = 1;
        put_comma(o, item++, 16);
        if (run == 1)
            output_integer(o, order[i]);
        else
            put_integers(o, (int64_t[]){order[i], run}, 2);
    }
    output_text(o, "]");
}

/* The builder appends the nodes that an order leaves out in ascending order, so the last ascending run is not written;
   one entry is, to show that there is an order. */
static hga_id order_length(const hga_id *order, hga_id n)
{
    hga_id length = n > 1 ? n - 1 : n;
    while (length > 1 && order[length - 1] < order[length]) length--;
    return length;
}

/* One member's value, which is not its default. */
static void put_value(output *o, json_form form, const void *at)
{
    if (form == JSON_WEIGHT)
        output_real(o, *(const float *)at);
    else if (form == JSON_SHAPE)
        put_string(o, json_shapes[*(const hga_shape_kind *)at]);
    else if (form == JSON_FLAG)
        output_integer(o, *(const int *)at != 0);
    else
        output_integer(o, *(const int32_t *)at - (form == JSON_NODE));
}

/* Begins an object with the members of a block or a choice that are not special, without those that are 0. */
static void put_fields(output *o, const json_field *fields, const void *from)
{
    static const char zero[sizeof(int32_t)];
    const char *before = "{\"";
    for (const json_field *f = fields; f->name; f++) {
        const char *at = (const char *)from + f->offset;
        const int unset = f->form == JSON_WEIGHT ? *(const float *)at == 0 : memcmp(at, zero, sizeof zero) == 0;
        if (f->form == JSON_SPECIAL || (f->form != JSON_NEEDED && unset)) continue;
        output_text(o, before), output_text(o, f->name), output_text(o, "\": "), put_value(o, f->form, at);
        before = ", \"";
    }
}

static void put_block(output *o, const hga_block *b)
{
    put_fields(o, json_block_fields, b);
    if (b->shape == HGA_BAND)
        output_text(o, ", \"band\": "), put_integers(o, (int64_t[]){b->band_first, b->band_last}, 2);
    output_text(o, "}");
}

/* A list for each block of rows. */
static hga_status put_choice(output *o, const hga_choice *c)
{
    hga_status st = HGA_OK;
    put_fields(o, json_choice_fields, c);
    output_text(o, ",\n      \"lists\": [");
    for (hga_pos i = 0; !st && i * c->row_block < c->n_dst; i++) {
        put_comma(o, i, 8), output_text(o, "[");
        for (hga_pos e = c->first[i]; e < c->first[i + 1]; e++) {
            if (e > c->first[i]) output_text(o, ", ");
            output_integer(o, c->chosen[e]);
        }
        output_text(o, "]");
        st = output_check(o);
    }
    output_text(o, "]}");
    return st;
}

static hga_status put_choices(output *o, const hga_relation *r)
{
    hga_status st = HGA_OK;
    output_text(o, ",\n     \"choices\": [");
    for (hga_pos i = 0; !st && i < r->n_choices; i++) put_comma(o, i, 1), st = put_choice(o, &r->choices[i]);
    output_text(o, "]");
    return st;
}

static void put_blocks(output *o, const hga_relation *r)
{
    output_text(o, ",\n     \"blocks\": [");
    for (hga_pos i = 0; i < r->n_blocks; i++) put_comma(o, i, 1), put_block(o, &r->blocks[i]);
    output_text(o, "]");
}

static void put_edge(output *o, const hga_relation *r, hga_id v, hga_pos e)
{
    output_text(o, "["), output_integer(o, r->src[e]);
    output_text(o, ", "), output_integer(o, v);
    float weight = r->weight ? r->weight[e] : 1;
    int32_t type = r->type ? r->type[e] : 0;
    if (type != 0 || weight != 1) output_text(o, ", "), output_integer(o, type);
    if (weight != 1) output_text(o, ", "), output_real(o, weight);
    output_text(o, "]");
}

/* Writes the relation's explicit edges; ends early when the output fails. */
static hga_status put_edges(output *o, const hga_relation *r, hga_id n)
{
    hga_status st = HGA_OK;
    output_text(o, ",\n     \"edges\": [");
    for (hga_id v = 0; !st && v < n; v++) {
        for (hga_pos e = r->ptr[v]; e < r->ptr[v + 1]; e++) put_comma(o, e, 8), put_edge(o, r, v, e);
        st = output_check(o);
    }
    output_text(o, "]");
    return st;
}

/* Writes a relation without the members that it does not have. */
static hga_status put_relation(output *o, const hga_relation *r, hga_id n)
{
    output_text(o, "    {\"name\": "), put_string(o, r->name);
    if (r->dst_order) put_order(o, "dst_order", r->dst_order, order_length(r->dst_order, n));
    if (r->src_order) put_order(o, "src_order", r->src_order, r->n_src_order);
    if (r->blocks && r->n_blocks > 0) put_blocks(o, r);
    hga_status st = r->n_choices > 0 ? put_choices(o, r) : HGA_OK;
    if (!st && r->n_explicit > 0) st = put_edges(o, r, n);
    output_text(o, "}");
    return st ? st : output_check(o);
}

static hga_status put_relations(output *o, const hga_graph *g)
{
    hga_status st = HGA_OK;
    hga_nodes nodes = hga_graph_nodes(g);
    put_member(o, "relations"), output_text(o, "[");
    for (hga_id i = 0; !st && i < nodes.n_relations; i++) {
        hga_relation r = hga_graph_relation(g, i);
        output_text(o, i > 0 ? ",\n" : "\n");
        st = put_relation(o, &r, nodes.n);
    }
    output_text(o, "]");
    return st;
}

/* What the last rows would see in a longer graph: hga_builder_set_longer. */
static hga_status put_longer(output *o, const hga_graph *g)
{
    const hga_graph *longer = graph_longer(g);
    hga_status st = HGA_OK;
    if (graph_keeps_positions(g)) put_member(o, "longer"), output_text(o, "{}");
    if (!longer) return st;
    hga_nodes nodes = hga_graph_nodes(longer);
    put_member(o, "longer"), output_text(o, "{\"comment\": \"what the last rows would see of more\"");
    put_levels(o, &nodes);
    st = put_relations(o, longer);
    output_text(o, "}");
    return st;
}

static hga_status check_names(const hga_graph *g)
{
    hga_status st = HGA_OK;
    for (hga_id i = 0; !st && i < hga_graph_nodes(g).n_relations; i++)
        st = json_check_text("a relation's name", hga_graph_relation(g, i).name);
    return st;
}

static int has_choices(const hga_graph *g)
{
    int any = 0;
    for (hga_id i = 0; i < hga_graph_nodes(g).n_relations; i++) any |= hga_graph_relation(g, i).n_choices > 0;
    return any;
}

static int schema_of(const hga_graph *g, const json_carried *members)
{
    const hga_id *part;
    if (has_choices(g) || graph_parts(g, &part)) return JSON_CHOICES_SCHEMA;
    if (hga_graph_kinds(g).n) return JSON_KINDS_SCHEMA;
    if (graph_longer(g) || graph_keeps_positions(g)) return JSON_LONGER_SCHEMA;
    return members->is_newer || g->node.position ? JSON_PROGRAM_SCHEMA : JSON_SCHEMA;
}

hga_status hga_graph_write_json(const hga_graph *g, const char *members, const char *path)
{
    hga_status st = HGA_OK;
    hga_nodes nodes = hga_graph_nodes(g);
    json_carried carried;
    int named = tokens_are_named(g);
    output o = {0};
    HGA_TRY(json_check_members(members, &carried));
    HGA_TRY(check_names(g));
    HGA_TRY(output_open(&o, path));
    output_text(&o, "{\n  \"format\": \"hga-graph\"");
    put_member(&o, "schema"), output_integer(&o, schema_of(g, &carried));
    put_levels(&o, &nodes), put_tokens(&o, &nodes), put_claims(&o, nodes.claims);
    put_sides(&o, &nodes), put_parents(&o, &nodes);
    HGA_TRY(put_masses(&o, g));
    put_positions(&o, g);
    if (named && !carried.has_words) HGA_TRY(put_words(&o, g));
    HGA_TRY(put_names(&o, g, named ? nodes.level_ptr[1] : 0));
    put_kinds(&o, g), put_parts(&o, g);
    HGA_TRY(put_relations(&o, g));
    HGA_TRY(put_longer(&o, g));
    if (carried.n > 0) output_text(&o, ",\n  "), output_text(&o, members);
    output_text(&o, "\n}\n");
done:
    return output_close(&o, st);
}
