/* read_json.c: reading a graph from JSON.

   One object. `format`, `schema`, `levels` and `relations` must be there; what is left out has the value that a builder
   gives it.

     "format": "hga-graph", "schema": 1
     "levels": [8, 4, 2, 1]              nodes of each level, tokens first
     "queries": [first, n], "keys": [first, n]       both or neither: cross-attention
     "claims": ["causal", "single", "complete"]
     "side": [[first, n, "query"], ..]   or "key", "both"
     "families": [[parent, child, n, each], ..]      as hga_builder_set_families
     "parents": [8, 8, 9, ..]            one a node, -1 without; beside or instead of families
     "mass": [[first, n, mass], ..]      of nodes whose mass is not the sum of their children's
     "positions": [[first, n, position], ..]   of tokens that are not at their index; -1: without
     "names": [[node, "name"], ..]
     "kinds": [[first, n, "kind"], ..]   of schema 4; numbered as they come, also with n 0
     "parts": [0, 83, ..]                of schema 5: the first node of each, hga_builder_set_parts
     "words": ["name", ..]               one a token
     "relations": [{"name": "near",
        "dst_order": [3, [10, 5], ..], "src_order": [..]       node ids; [first, n] stands for first, first + 1, ..
        "blocks": [{"dst": 0, "n_dst": 2, "src": 0, "n_src": 2, "count", "dst_step", "src_step", "type", "type_dst",
        "type_src",
                    "pos_of" (a node), "pos_step", "src_pos_of", "src_pos_step", "weight", "shape": "lower",
                    "band": [first, last] (with "shape": "band")}, ..],
        "edges": [[source, destination, type, weight], ..]     type 0 and weight 1 may be left out
        "choices": [{"dst": 0, "n_dst": 8, "src": 0, "n_src": 8, "row_block": 4, "block": 2, "causal": 1,
                     "lists": [[0, 3], ..]}, ..]               of schema 5; with neither orders, blocks nor edges
     }, ..]
     "longer": {"levels": [..], "relations": [..]}   of schema 3: hga_builder_set_longer, relations of blocks alone;
                                                     {}: an empty one
     "program": {..}                     kept for others

   A member `comment` may stand in every object. Any other member is an error. */
#include "builder.h"
#include "json_values.h"

#include <stdio.h>
#include <string.h>

/* ---- other formats ---- */

/* Whether it is node-link JSON of networkx or D3: nodes, and links or edges, as arrays of objects. */
static int is_node_link(const json_t *object)
{
    const json_t *links = json_object_get(object, "links");
    return json_is_array(json_object_get(object, "nodes")) && !json_object_get(object, "format") &&
           json_is_array(links ? links : json_object_get(object, "edges"));
}

static hga_status refuse_node_link(const char *name)
{
    return hga_fail(
        HGA_EFORMAT,
        "%.80s: is networkx's node-link JSON; `python3 -c 'import json, sys, networkx as nx; d = json.load("
        "sys.stdin); d.setdefault(\"links\", d.get(\"edges\")); d.setdefault(\"edges\", d[\"links\"]); "
        "nx.write_graphml(nx.node_link_graph(d), \"graph.graphml\")' <FILE` makes GraphML of it, which is read",
        name);
}

/* ---- members ---- */

static hga_status read_format(json_reader *r, const json_location *p, json_t *value)
{
    int which;
    (void)r;
    return json_read_word(p, value, (const char *const[]){"hga-graph"}, 1, &which);
}

static hga_status read_schema(json_reader *r, const json_location *p, json_t *value)
{
    int32_t schema;
    hga_status st = json_read_integer(p, value, &schema);
    (void)r;
    if (st || (schema >= JSON_SCHEMA && schema <= JSON_NEWEST_SCHEMA)) return st;
    return json_wrong(p, "schema %d is unknown, this library reads %d to %d", schema, JSON_SCHEMA, JSON_NEWEST_SCHEMA);
}

static hga_status read_level(json_reader *r, const json_location *p, json_t *value)
{
    int32_t n = 0;
    hga_status st = json_read_integer(p, value, &n);
    if (!st && n < 0) st = json_wrong(p, "a level of %d nodes", n);
    if (!st) st = json_refused(p, hga_builder_add_level(r->b, n, NULL));
    if (!st) r->n_nodes += n;
    return st;
}

/* Queries, and the keys that must be beside them. */
static hga_status read_queries(json_reader *r, const json_location *p, json_t *value)
{
    const json_t *keys = json_object_get(r->object, "keys");
    json_location at = json_member_of(&r->root, "keys");
    int32_t q[2], k[2];
    size_t n;
    if (!keys) return json_wrong(&r->root, "member \"keys\" is missing beside \"queries\"");
    hga_status st = json_read_integers(p, value, 2, 2, q, &n);
    if (!st) st = json_read_integers(&at, keys, 2, 2, k, &n);
    return st ? st : json_refused(p, hga_builder_set_tokens(r->b, q[0], q[1], k[0], k[1]));
}

static hga_status read_keys(json_reader *r, const json_location *p, json_t *value)
{
    (void)p, (void)value; /* read with the queries */
    if (json_object_get(r->object, "queries")) return HGA_OK;
    return json_wrong(&r->root, "member \"queries\" is missing beside \"keys\"");
}

/* `parts`, the first node of each, to the builder. */
static hga_status read_parts(json_reader *r, const json_location *p, json_t *list)
{
    hga_status st = HGA_OK;
    hga_id *first = NULL;
    size_t n = 0;
    HGA_TRY(json_expect_array(p, list));
    n = json_array_size(list);
    HGA_TRY(hga_new(r->allocator, (int64_t)n, sizeof *first, &first));
    for (size_t i = 0; i < n; i++) {
        json_location item = json_item_of(p, i);
        HGA_TRY(json_read_integer(&item, json_array_get(list, i), &first[i]));
    }
    HGA_TRY(json_refused(p, hga_builder_set_parts(r->b, (hga_id)n, first)));
done:
    hga_delete(r->allocator, first, (int64_t)n, sizeof *first);
    return st;
}

/* `claims`, words, to the builder as bits. */
static hga_status read_claims(json_reader *r, const json_location *p, json_t *list)
{
    uint32_t claims = 0;
    hga_status st = json_expect_array(p, list);
    for (size_t i = 0, n = json_array_size(list); !st && i < n; i++) {
        json_location item = json_item_of(p, i);
        int which = 0;
        st = json_read_word(&item, json_array_get(list, i), json_claims, 3, &which);
        if (!st) claims |= 1u << which;
    }
    return st ? st : json_refused(p, hga_builder_set_claims(r->b, claims));
}

/* Reads [first, n] of [first, n, x]; x stays unread. A node may be named once, so that the cost of short lines is that
   of the nodes. */
static hga_status read_json_run(json_reader *r, const json_location *p, json_t *value, hga_id *first, hga_id *n,
                                json_t **x)
{
    json_location at[2] = {json_item_of(p, 0), json_item_of(p, 1)};
    hga_status st = json_expect_array(p, value);
    if (!st && json_array_size(value) != 3)
        st = json_wrong(p, "%zu items, where 3 are expected", json_array_size(value));
    if (!st) st = json_read_integer(&at[0], json_array_get(value, 0), first);
    if (!st) st = json_read_integer(&at[1], json_array_get(value, 1), n);
    if (st) return st;
    if (*first < 0 || *n < 0 || *first > r->n_nodes - *n)
        return json_wrong(p, "nodes %d .. %lld leave [0, %d)", *first, (long long)*first + *n - 1, r->n_nodes);
    r->n_named += *n;
    if (r->n_named > r->n_nodes)
        return json_wrong(p, "nodes are named twice: %lld so far, the graph has %d", (long long)r->n_named, r->n_nodes);
    *x = json_array_get(value, 2);
    return HGA_OK;
}

static hga_status read_side(json_reader *r, const json_location *p, json_t *value)
{
    hga_id first, n;
    json_t *word;
    int side;
    json_location at = json_item_of(p, 2);
    hga_status st = read_json_run(r, p, value, &first, &n, &word);
    if (!st) st = json_read_word(&at, word, json_sides, 3, &side);
    return st ? st : json_refused(p, hga_builder_set_side(r->b, first, n, side));
}

static hga_status read_mass(json_reader *r, const json_location *p, json_t *value)
{
    hga_id first, n;
    json_t *number;
    float mass;
    json_location at = json_item_of(p, 2);
    hga_status st = read_json_run(r, p, value, &first, &n, &number);
    if (!st) st = json_read_real(&at, number, &mass);
    return st ? st : json_refused(p, builder_set_masses(r->b, first, n, mass));
}

static hga_status read_position(json_reader *r, const json_location *p, json_t *value)
{
    hga_id first, n;
    json_t *number;
    float position;
    json_location at = json_item_of(p, 2);
    hga_status st = read_json_run(r, p, value, &first, &n, &number);
    if (!st) st = json_read_real(&at, number, &position);
    return st ? st : json_refused(p, hga_builder_set_position(r->b, first, n, position));
}

/* One item of `names`, [node, text], to the builder. */
static hga_status read_name(json_reader *r, const json_location *p, json_t *value)
{
    hga_id node = 0;
    json_location at[2] = {json_item_of(p, 0), json_item_of(p, 1)};
    hga_status st = json_expect_array(p, value);
    if (!st && json_array_size(value) != 2)
        st = json_wrong(p, "%zu items, where 2 are expected", json_array_size(value));
    if (!st) st = json_read_integer(&at[0], json_array_get(value, 0), &node);
    const json_t *name = st ? NULL : json_array_get(value, 1);
    if (!st && !json_is_string(name)) st = json_wrong(&at[1], "a string is expected, not %s", json_type_name(name));
    return st ? st : json_refused(p, hga_builder_set_name(r->b, node, json_string_value(name)));
}

/* The names of all tokens. */
static hga_status read_words(json_reader *r, const json_location *p, json_t *list)
{
    const json_t *levels = json_object_get(r->object, "levels");
    hga_status st = json_expect_array(p, list);
    size_t n = json_array_size(list);
    json_int_t tokens = json_integer_value(json_array_get(levels, 0));
    if (!st && (json_int_t)n != tokens) st = json_wrong(p, "%zu for %lld tokens", n, (long long)tokens);
    for (size_t i = 0; !st && i < n; i++) {
        json_location item = json_item_of(p, i);
        const json_t *word = json_array_get(list, i);
        if (!json_is_string(word)) st = json_wrong(&item, "a string is expected, not %s", json_type_name(word));
        if (!st) st = json_refused(&item, hga_builder_set_name(r->b, (hga_id)i, json_string_value(word)));
    }
    return st;
}

static hga_status read_family(json_reader *r, const json_location *p, json_t *value)
{
    int32_t f[4];
    size_t n;
    hga_status st = json_read_integers(p, value, 4, 4, f, &n);
    return st ? st : json_refused(p, hga_builder_set_families(r->b, f[0], f[1], f[2], f[3]));
}

/* Passes consecutive siblings to the builder together. */
static hga_status read_parents(json_reader *r, const json_location *p, json_t *list)
{
    hga_status st = json_expect_array(p, list);
    size_t n = json_array_size(list);
    if (!st && n != (size_t)r->n_nodes) st = json_wrong(p, "%zu parents for %d nodes", n, r->n_nodes);
    hga_id first = 0, family = -1;
    for (size_t i = 0; !st && i <= n; i++) {
        json_location item = json_item_of(p, i);
        int32_t parent = -1;
        if (i < n) st = json_read_integer(&item, json_array_get(list, i), &parent);
        if (!st && parent < -1) st = json_wrong(&item, "parent %d", parent);
        if (st || (parent == family && i < n)) continue;
        json_location start = json_item_of(p, (size_t)first);
        if (family >= 0) st = json_refused(&start, hga_builder_set_children(r->b, family, first, (hga_id)i - first));
        first = (hga_id)i, family = parent;
    }
    return st;
}

static hga_status read_kind(json_reader *r, const json_location *p, json_t *value)
{
    hga_id first, n;
    json_t *word;
    const json_location at = json_item_of(p, 2);
    hga_status st = read_json_run(r, p, value, &first, &n, &word);
    if (!st && !json_is_string(word)) st = json_wrong(&at, "a string is expected, not %s", json_type_name(word));
    return st ? st : json_refused(p, hga_builder_set_kinds(r->b, first, n, json_string_value(word)));
}

/* ---- the graph ---- */

static hga_status read_longer(json_reader *r, const json_location *p, json_t *object);

/* In the order that a builder requires. */
static const json_member members[] = {
    {"format", OF_GRAPH | IS_NEEDED, read_format},
    {"schema", OF_GRAPH | IS_NEEDED, read_schema},
    {"levels", OF_GRAPH | OF_LONGER | IS_NEEDED | BY_ITEM, read_level},
    {"queries", OF_GRAPH, read_queries},
    {"keys", OF_GRAPH, read_keys},
    {"claims", OF_GRAPH, read_claims},
    {"side", OF_GRAPH | BY_ITEM, read_side},
    {"families", OF_GRAPH | BY_ITEM, read_family},
    {"parents", OF_GRAPH, read_parents},
    {"mass", OF_GRAPH | BY_ITEM, read_mass},
    {"positions", OF_GRAPH | BY_ITEM, read_position},
    {"words", OF_GRAPH, read_words},
    {"names", OF_GRAPH | BY_ITEM, read_name},
    {"kinds", OF_GRAPH | BY_ITEM, read_kind},
    {"parts", OF_GRAPH, read_parts},
    {"relations", OF_GRAPH | OF_LONGER | IS_NEEDED | BY_ITEM, json_read_relation},
    {"longer", OF_GRAPH, read_longer},
    {"comment", OF_LONGER, NULL},
    {NULL, 0, NULL},
};

/* Reads `longer` with a json_reader and a builder of its own; an empty object is an empty graph. */
static hga_status read_longer(json_reader *r, const json_location *p, json_t *object)
{
    hga_status st = HGA_OK;
    json_reader more = {.allocator = r->allocator, .object = object, .root = *p};
    HGA_TRY(hga_builder_create(r->allocator, &more.b));
    if (!json_is_object(object) || json_object_size(object))
        HGA_TRY(json_read_members(&more, members, OF_LONGER, NULL));
    HGA_TRY(json_refused(&more.root, hga_builder_set_longer(r->b, more.b)));
done:
    if (st == HGA_EUNSUPPORTED) st = HGA_EFORMAT; /* a fault of the file */
    hga_builder_destroy(more.b);
    return st;
}

static hga_status read_graph(json_reader *r, hga_graph **out)
{
    if (is_node_link(r->object)) return refuse_node_link(r->root.name);
    hga_status st = json_read_members(r, members, OF_GRAPH, json_free_members);
    return st ? st : json_refused(&r->root, hga_builder_finish(r->b, out));
}

/* The text of the member `program`; NULL: none. */
static hga_status take_program(const json_reader *r, char **out)
{
    const json_t *program = json_object_get(r->object, "program");
    json_location at = json_member_of(&r->root, "program");
    if (!program) return HGA_OK;
    if (!json_is_object(program) && !json_is_string(program))
        return json_wrong(&at, "an object or a name is expected, not %s", json_type_name(program));
    size_t length = json_dumpb(program, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);
    if (length == 0) return hga_fail(HGA_ENOMEM, "%s: no memory for the program", r->root.name);
    hga_status st = hga_new(NULL, (int64_t)length + 1, 1, out);
    if (st) return st;
    (*out)[length] = 0;
    if (json_dumpb(program, *out, length, JSON_COMPACT | JSON_ENCODE_ANY) == length) return HGA_OK;
    hga_delete(NULL, *out, (int64_t)length + 1, 1);
    *out = NULL;
    return hga_fail(HGA_ENOMEM, "%s: no memory for the program", r->root.name);
}

hga_status hga_graph_read_json(const hga_allocator *a, const char *path, hga_graph **out, char **program)
{
    hga_status st = HGA_OK;
    *out = NULL;
    if (program) *program = NULL;
    if (!path || !*path) return hga_fail(HGA_EINVAL, "the name of the file to read is empty");
    json_reader r = {.allocator = a, .root = {NULL, strcmp(path, "-") == 0 ? "stdin" : path, 0}};
    HGA_TRY(json_load(a, path, r.root.name, &r.object));
    HGA_TRY(hga_builder_create(a, &r.b));
    HGA_TRY(read_graph(&r, out));
    if (program) HGA_TRY(take_program(&r, program));
done:
    if (st) hga_graph_destroy(*out), *out = NULL;
    hga_builder_destroy(r.b);
    json_decref(r.object);
    return st;
}
