/* json.c: reading a graph from JSON (the only file of graph/ that includes jansson).

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
     "relations": [{"name": "near",
        "dst_order": [3, [10, 5], ..], "src_order": [..]       node ids; [first, n] stands for first, first + 1, ..
        "blocks": [{"dst": 0, "n_dst": 2, "src": 0, "n_src": 2, "count", "dst_step", "src_step", "type", "type_dst",
        "type_src",
                    "pos_of" (a node), "pos_step", "weight", "shape": "lower", "band": [first, last] (with "shape":
                    "band")}, ..],
        "edges": [[source, destination, type, weight], ..]     type 0 and weight 1 may be left out
     }, ..]
     "program": {..}, "words": ..        kept for others

   A member `comment` may stand in every object. Any other member is an error. */
#include "json.h"

#include <errno.h>
#include <float.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const json_shapes[HGA_BAND + 1] = {"all",          "lower",        "strict_lower", "upper",
                                               "strict_upper", "off_diagonal", "band"};
const char *const json_sides[HGA_SIDE_KEY + 1] = {"both", "query", "key"};
const char *const json_claims[3] = {"causal", "single", "complete"};

static const char *const graph_members[] = {"format", "schema",   "levels",  "queries", "keys",      "claims",
                                            "side",   "families", "parents", "mass",    "relations", NULL};
static const char *const free_members[] = {"program", "words", "comment", NULL};
static const char *const relation_members[] = {"name", "dst_order", "src_order", "blocks", "edges", "comment", NULL};

/* ---- where in the file ---- */

/* A value's place: a member of `up`, or its item `index`; the root's name is the file's. Lives on the stack of the
   function that reads it. */
typedef struct place {
    const struct place *up;
    const char *name; /* NULL: an item */
    size_t index;
} place;

static place member_of(const place *up, const char *name) { return (place){up, name, 0}; }

static place item_of(const place *up, size_t index) { return (place){up, NULL, index}; }

/* "graph.json: relations[2].blocks[17].n_dst" */
static size_t put_place(const place *p, char *text, size_t room)
{
    size_t used = p->up ? put_place(p->up, text, room) : 0;
    if (used >= room) return used;
    const char *before = !p->up ? "" : p->up->up ? "." : ": ";
    int n = p->name ? snprintf(text + used, room - used, "%s%s", before, p->name)
                    : snprintf(text + used, room - used, "[%zu]", p->index);
    return used + (n > 0 ? (size_t)n : 0);
}

static hga_status wrong(const place *p, const char *format, ...) HGA_PRINTF(2, 3);
static hga_status wrong(const place *p, const char *format, ...)
{
    char where[400], what[200];
    put_place(p, where, sizeof where);
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return hga_fail(HGA_EFORMAT, "%s: %s", where, what);
}

/* What the builder refused, with its place; an argument it calls invalid is a fault of the file. */
static hga_status refused(const place *p, hga_status st)
{
    if (st == HGA_OK || st == HGA_ENOMEM) return st;
    char where[256], what[320];
    put_place(p, where, sizeof where);
    snprintf(what, sizeof what, "%s", hga_error_detail());
    return hga_fail(st == HGA_EINVAL ? HGA_EGRAPH : st, "%s: %s", where, what);
}

/* ---- values ---- */

static const char *type_name(const json_t *value)
{
    static const char *const names[] = {"an object",     "an array", "a string", "an integer",
                                        "a real number", "true",     "false",    "null"};
    size_t type = (size_t)json_typeof(value);
    return type < sizeof names / sizeof *names ? names[type] : "something else";
}

static hga_status read_integer(const place *p, const json_t *value, int32_t *out)
{
    if (!json_is_integer(value)) return wrong(p, "an integer is expected, not %s", type_name(value));
    json_int_t i = json_integer_value(value);
    if (i < INT32_MIN || i > INT32_MAX) return wrong(p, "%lld does not fit 32 bits", (long long)i);
    *out = (int32_t)i;
    return HGA_OK;
}

static hga_status read_real(const place *p, const json_t *value, float *out)
{
    if (!json_is_number(value)) return wrong(p, "a number is expected, not %s", type_name(value));
    double x = json_number_value(value);
    if (!(x >= -(double)FLT_MAX && x <= (double)FLT_MAX) || (x != 0 && (float)x == 0))
        return wrong(p, "%g does not fit a 32-bit real number", x);
    *out = (float)x;
    return HGA_OK;
}

static hga_status want_array(const place *p, const json_t *value)
{
    return json_is_array(value) ? HGA_OK : wrong(p, "an array is expected, not %s", type_name(value));
}

/* An array of `least` to `most` integers; *n gets how many. */
static hga_status read_integers(const place *p, const json_t *value, size_t least, size_t most, int32_t *out, size_t *n)
{
    hga_status st = want_array(p, value);
    if (st) return st;
    *n = json_array_size(value);
    if (*n < least || *n > most) return wrong(p, "%zu numbers, where %zu are expected", *n, *n < least ? least : most);
    for (size_t i = 0; !st && i < *n; i++) {
        place item = item_of(p, i);
        st = read_integer(&item, json_array_get(value, i), &out[i]);
    }
    return st;
}

/* One of the n words; *out gets which. */
static hga_status read_word(const place *p, const json_t *value, const char *const *words, int n, int *out)
{
    if (!json_is_string(value)) return wrong(p, "a string is expected, not %s", type_name(value));
    for (*out = 0; *out < n; ++*out)
        if (strcmp(json_string_value(value), words[*out]) == 0) return HGA_OK;
    return wrong(p, "\"%.40s\" is unknown", json_string_value(value));
}

static int is_listed(const char *name, const char *const *names)
{
    while (*names && strcmp(name, *names) != 0) names++;
    return *names != NULL;
}

/* An object without members that nobody knows. */
static hga_status want_object(const place *p, json_t *value, const char *const *names, const char *const *more)
{
    if (!json_is_object(value)) return wrong(p, "an object is expected, not %s", type_name(value));
    const char *name;
    json_t *ignored;
    json_object_foreach(value, name, ignored)
    {
        if (!is_listed(name, names) && !(more && is_listed(name, more)))
            return wrong(p, "unknown member \"%.60s\"", name);
    }
    return HGA_OK;
}

static hga_status want_member(const place *p, const json_t *object, const char *name, json_t **out)
{
    *out = json_object_get(object, name);
    return *out ? HGA_OK : wrong(p, "member \"%s\" is missing", name);
}

/* ---- nodes ---- */

typedef struct reader {
    const hga_allocator *allocator;
    place root;
    json_t *object;
    hga_builder *b;
    hga_id n_nodes, relation; /* nodes of the levels; the relation being read */
} reader;

typedef hga_status (*item_reader)(reader *r, const place *p, json_t *value);

/* Read each item of an optional array. */
static hga_status each_item(reader *r, const place *up, const json_t *object, const char *name, item_reader read)
{
    json_t *list = json_object_get(object, name);
    if (!list) return HGA_OK;
    place at = member_of(up, name);
    hga_status st = want_array(&at, list);
    for (size_t i = 0, n = json_array_size(list); !st && i < n; i++) {
        place item = item_of(&at, i);
        st = read(r, &item, json_array_get(list, i));
    }
    return st;
}

static hga_status check_header(reader *r)
{
    hga_status st = HGA_OK;
    json_t *value;
    int which;
    int32_t schema;
    HGA_TRY(want_object(&r->root, r->object, graph_members, free_members));
    HGA_TRY(want_member(&r->root, r->object, "format", &value));
    place format = member_of(&r->root, "format");
    HGA_TRY(read_word(&format, value, (const char *const[]){"hga-graph"}, 1, &which));
    HGA_TRY(want_member(&r->root, r->object, "schema", &value));
    place at = member_of(&r->root, "schema");
    HGA_TRY(read_integer(&at, value, &schema));
    if (schema != JSON_SCHEMA) st = wrong(&at, "schema %d is unknown, this library reads %d", schema, JSON_SCHEMA);
done:
    return st;
}

static hga_status read_level(reader *r, const place *p, json_t *value)
{
    int32_t n = 0;
    hga_status st = read_integer(p, value, &n);
    if (!st && n < 0) st = wrong(p, "a level of %d nodes", n);
    if (!st) st = refused(p, hga_builder_add_level(r->b, n, NULL));
    if (!st) r->n_nodes += n;
    return st;
}

static hga_status read_levels(reader *r)
{
    json_t *levels;
    hga_status st = want_member(&r->root, r->object, "levels", &levels);
    return st ? st : each_item(r, &r->root, r->object, "levels", read_level);
}

static hga_status read_tokens(reader *r)
{
    json_t *queries = json_object_get(r->object, "queries"), *keys = json_object_get(r->object, "keys");
    place query_place = member_of(&r->root, "queries"), key_place = member_of(&r->root, "keys");
    int32_t q[2], k[2];
    size_t n;
    if (!queries && !keys) return HGA_OK;
    if (!queries) return wrong(&r->root, "member \"queries\" is missing beside \"keys\"");
    if (!keys) return wrong(&r->root, "member \"keys\" is missing beside \"queries\"");
    hga_status st = read_integers(&query_place, queries, 2, 2, q, &n);
    if (!st) st = read_integers(&key_place, keys, 2, 2, k, &n);
    return st ? st : refused(&query_place, hga_builder_set_tokens(r->b, q[0], q[1], k[0], k[1]));
}

static hga_status read_claims(reader *r)
{
    json_t *list = json_object_get(r->object, "claims");
    place at = member_of(&r->root, "claims");
    uint32_t claims = 0;
    if (!list) return HGA_OK;
    hga_status st = want_array(&at, list);
    for (size_t i = 0, n = json_array_size(list); !st && i < n; i++) {
        place item = item_of(&at, i);
        int which = 0;
        st = read_word(&item, json_array_get(list, i), json_claims, 3, &which);
        if (!st) claims |= 1u << which;
    }
    return st ? st : refused(&at, hga_builder_set_claims(r->b, claims));
}

/* [first, n, x]: the run and, still unread, what holds for it. */
static hga_status read_run(reader *r, const place *p, json_t *value, hga_id *first, hga_id *n, json_t **x)
{
    place at[2] = {item_of(p, 0), item_of(p, 1)};
    hga_status st = want_array(p, value);
    if (!st && json_array_size(value) != 3) st = wrong(p, "%zu items, where 3 are expected", json_array_size(value));
    if (!st) st = read_integer(&at[0], json_array_get(value, 0), first);
    if (!st) st = read_integer(&at[1], json_array_get(value, 1), n);
    if (st) return st;
    if (*first < 0 || *n < 0 || *first > r->n_nodes - *n)
        return wrong(p, "nodes %d .. %lld leave [0, %d)", *first, (long long)*first + *n - 1, r->n_nodes);
    *x = json_array_get(value, 2);
    return HGA_OK;
}

static hga_status read_side(reader *r, const place *p, json_t *value)
{
    hga_id first, n;
    json_t *word;
    int side;
    place at = item_of(p, 2);
    hga_status st = read_run(r, p, value, &first, &n, &word);
    if (!st) st = read_word(&at, word, json_sides, 3, &side);
    return st ? st : refused(p, hga_builder_set_side(r->b, first, n, side));
}

static hga_status read_mass(reader *r, const place *p, json_t *value)
{
    hga_id first, n;
    json_t *number;
    float mass;
    place at = item_of(p, 2);
    hga_status st = read_run(r, p, value, &first, &n, &number);
    if (!st) st = read_real(&at, number, &mass);
    for (hga_id i = 0; !st && i < n; i++) st = refused(p, hga_builder_set_mass(r->b, first + i, mass));
    return st;
}

static hga_status read_family(reader *r, const place *p, json_t *value)
{
    int32_t f[4];
    size_t n;
    hga_status st = read_integers(p, value, 4, 4, f, &n);
    return st ? st : refused(p, hga_builder_set_families(r->b, f[0], f[1], f[2], f[3]));
}

/* Siblings that follow one another go to the builder together. */
static hga_status read_parents(reader *r)
{
    json_t *list = json_object_get(r->object, "parents");
    place at = member_of(&r->root, "parents");
    if (!list) return HGA_OK;
    hga_status st = want_array(&at, list);
    size_t n = json_array_size(list);
    if (!st && n != (size_t)r->n_nodes) st = wrong(&at, "%zu parents for %d nodes", n, r->n_nodes);
    hga_id first = 0, family = -1;
    for (size_t i = 0; !st && i <= n; i++) {
        place item = item_of(&at, i);
        int32_t parent = -1;
        if (i < n) st = read_integer(&item, json_array_get(list, i), &parent);
        if (!st && parent < -1) st = wrong(&item, "parent %d", parent);
        if (st || (parent == family && i < n)) continue;
        place start = item_of(&at, (size_t)first);
        if (family >= 0) st = refused(&start, hga_builder_set_children(r->b, family, first, (hga_id)i - first));
        first = (hga_id)i, family = parent;
    }
    return st;
}

/* ---- relations ---- */

/* How many nodes an order lists; entries are ids or [first, n]. */
static hga_status count_order(const reader *r, const place *at, const json_t *list, int64_t *n)
{
    *n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        place item = item_of(at, i);
        const json_t *entry = json_array_get(list, i);
        int32_t run[2] = {0, 1};
        size_t size;
        hga_status st =
            json_is_array(entry) ? read_integers(&item, entry, 2, 2, run, &size) : read_integer(&item, entry, run);
        if (st) return st;
        if (run[0] < 0 || run[1] < 1 || run[0] > r->n_nodes - run[1])
            return wrong(&item, "nodes %d .. %lld leave [0, %d)", run[0], (long long)run[0] + run[1] - 1, r->n_nodes);
        *n += run[1];
    }
    if (*n > r->n_nodes) return wrong(at, "%lld nodes are listed, the graph has %d", (long long)*n, r->n_nodes);
    return *n > 0 ? HGA_OK : wrong(at, "the order is empty");
}

static void fill_order(const json_t *list, hga_id *order)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const json_t *first = json_is_array(entry) ? json_array_get(entry, 0) : entry;
        json_int_t n = json_is_array(entry) ? json_integer_value(json_array_get(entry, 1)) : 1;
        for (json_int_t k = 0; k < n; k++) *order++ = (hga_id)(json_integer_value(first) + k);
    }
}

static hga_status read_order(const reader *r, const place *p, const json_t *object, const char *name, hga_id **order,
                             int64_t *n)
{
    const json_t *list = json_object_get(object, name);
    place at = member_of(p, name);
    if (!list) return HGA_OK;
    hga_status st = want_array(&at, list);
    if (!st) st = count_order(r, &at, list, n);
    if (!st) st = hga_new(r->allocator, *n, sizeof **order, order);
    if (!st) fill_order(list, *order);
    return st;
}

static hga_status read_orders(const reader *r, const place *p, const json_t *object)
{
    hga_status st = HGA_OK;
    hga_id *dst = NULL, *src = NULL;
    int64_t n_dst = 0, n_src = 0;
    HGA_TRY(read_order(r, p, object, "dst_order", &dst, &n_dst));
    HGA_TRY(read_order(r, p, object, "src_order", &src, &n_src));
    if (dst || src)
        HGA_TRY(refused(p, hga_builder_set_order(r->b, r->relation, dst, (hga_id)n_dst, src, (hga_id)n_src)));
done:
    hga_delete(r->allocator, dst, n_dst, sizeof *dst);
    hga_delete(r->allocator, src, n_src, sizeof *src);
    return st;
}

/* The integers of a block by name; the first four must be given. */
typedef struct block_field {
    const char *name;
    size_t offset;
} block_field;

static const block_field block_fields[] = {
    {"dst", offsetof(hga_block, dst)},           {"n_dst", offsetof(hga_block, n_dst)},
    {"src", offsetof(hga_block, src)},           {"n_src", offsetof(hga_block, n_src)},
    {"count", offsetof(hga_block, count)},       {"dst_step", offsetof(hga_block, dst_step)},
    {"src_step", offsetof(hga_block, src_step)}, {"type", offsetof(hga_block, type)},
    {"type_dst", offsetof(hga_block, type_dst)}, {"type_src", offsetof(hga_block, type_src)},
    {"pos_step", offsetof(hga_block, pos_step)},
};
enum { N_BLOCK_FIELDS = sizeof block_fields / sizeof *block_fields, N_NEEDED = 4 };
static const char *const block_members[] = {"dst",      "n_dst", "src",      "n_src",    "count",  "dst_step",
                                            "src_step", "type",  "type_dst", "type_src", "pos_of", "pos_step",
                                            "weight",   "shape", "band",     "comment",  NULL};

static hga_status read_block_fields(const place *p, const json_t *object, hga_block *b)
{
    for (size_t i = 0; i < N_BLOCK_FIELDS; i++) {
        const json_t *value = json_object_get(object, block_fields[i].name);
        place at = member_of(p, block_fields[i].name);
        int32_t x = 0;
        if (!value && i < N_NEEDED) return wrong(p, "member \"%s\" is missing", block_fields[i].name);
        hga_status st = value ? read_integer(&at, value, &x) : HGA_OK;
        if (st) return st;
        memcpy((char *)b + block_fields[i].offset, &x, sizeof x);
    }
    return HGA_OK;
}

static hga_status read_block_position(const reader *r, const place *p, const json_t *object, hga_block *b)
{
    const json_t *value = json_object_get(object, "pos_of");
    place at = member_of(p, "pos_of");
    int32_t node = -1;
    if (!value) return HGA_OK;
    hga_status st = read_integer(&at, value, &node);
    if (!st && (node < 0 || node >= r->n_nodes)) st = wrong(&at, "node %d of %d does not exist", node, r->n_nodes);
    b->pos_of = node + 1;
    return st;
}

/* Weight 0 stands for "not given" in a block, so a file may not say it. */
static hga_status read_block_weight(const place *p, const json_t *object, hga_block *b)
{
    const json_t *value = json_object_get(object, "weight");
    place at = member_of(p, "weight");
    if (!value) return HGA_OK;
    hga_status st = read_real(&at, value, &b->weight);
    return !st && !(b->weight > 0) ? wrong(&at, "weight %g is not positive", (double)b->weight) : st;
}

static hga_status read_block_shape(const place *p, const json_t *object, hga_block *b)
{
    const json_t *shape = json_object_get(object, "shape"), *band = json_object_get(object, "band");
    place shape_place = member_of(p, "shape"), band_place = member_of(p, "band");
    int32_t ends[2] = {0, 0};
    size_t n;
    int which = HGA_ALL;
    hga_status st = shape ? read_word(&shape_place, shape, json_shapes, HGA_BAND + 1, &which) : HGA_OK;
    if (!st && band && which != HGA_BAND) st = wrong(&band_place, "only \"shape\": \"band\" has a band");
    if (!st && !band && which == HGA_BAND) st = wrong(p, "member \"band\" is missing");
    if (!st && band) st = read_integers(&band_place, band, 2, 2, ends, &n);
    b->shape = (hga_shape_kind)which, b->band_first = ends[0], b->band_last = ends[1];
    return st;
}

static hga_status read_block(reader *r, const place *p, json_t *object)
{
    hga_block b = {0};
    hga_status st = want_object(p, object, block_members, NULL);
    if (!st) st = read_block_fields(p, object, &b);
    if (!st) st = read_block_position(r, p, object, &b);
    if (!st) st = read_block_weight(p, object, &b);
    if (!st) st = read_block_shape(p, object, &b);
    return st ? st : refused(p, hga_builder_add_blocks(r->b, r->relation, &b));
}

static hga_status read_edge(reader *r, const place *p, json_t *list)
{
    int32_t x[3] = {0, 0, 0};
    float weight = 1;
    hga_status st = want_array(p, list);
    size_t n = json_array_size(list);
    if (!st && (n < 2 || n > 4)) st = wrong(p, "%zu numbers, where 2 to 4 are expected", n);
    for (size_t i = 0; !st && i < n; i++) {
        place at = item_of(p, i);
        st = i < 3 ? read_integer(&at, json_array_get(list, i), &x[i])
                   : read_real(&at, json_array_get(list, i), &weight);
    }
    return st ? st : refused(p, hga_builder_add_edge(r->b, r->relation, x[0], x[1], x[2], weight));
}

static hga_status read_relation(reader *r, const place *p, json_t *object)
{
    hga_status st = HGA_OK;
    json_t *name;
    place at = member_of(p, "name");
    HGA_TRY(want_object(p, object, relation_members, NULL));
    HGA_TRY(want_member(p, object, "name", &name));
    if (!json_is_string(name)) HGA_TRY(wrong(&at, "a string is expected, not %s", type_name(name)));
    HGA_TRY(refused(&at, hga_builder_add_relation(r->b, json_string_value(name), &r->relation)));
    HGA_TRY(read_orders(r, p, object));
    HGA_TRY(each_item(r, p, object, "blocks", read_block));
    HGA_TRY(each_item(r, p, object, "edges", read_edge));
done:
    return st;
}

static hga_status read_graph(reader *r, hga_graph **out)
{
    hga_status st = HGA_OK;
    json_t *relations;
    HGA_TRY(check_header(r));
    HGA_TRY(read_levels(r));
    HGA_TRY(read_tokens(r));
    HGA_TRY(read_claims(r));
    HGA_TRY(each_item(r, &r->root, r->object, "side", read_side));
    HGA_TRY(each_item(r, &r->root, r->object, "families", read_family));
    HGA_TRY(read_parents(r));
    HGA_TRY(each_item(r, &r->root, r->object, "mass", read_mass));
    HGA_TRY(want_member(&r->root, r->object, "relations", &relations));
    HGA_TRY(each_item(r, &r->root, r->object, "relations", read_relation));
    HGA_TRY(refused(&r->root, hga_builder_finish(r->b, out)));
done:
    return st;
}

/* ---- text ---- */

void hga_text_free(char *text)
{
    if (text) hga_delete(NULL, text, (int64_t)strlen(text) + 1, 1);
}

static int starts_with(const char *text, const char *words) { return strncmp(text, words, strlen(words)) == 0; }

/* jansson tells of a failed allocation in three ways: by its code, by no text at all, and by calling a string no token,
   although one was complete. */
static int is_want_of_memory(const json_error_t *error, const char *text, size_t n)
{
    if (json_error_code(error) == json_error_out_of_memory || !error->text[0]) return 1;
    if (!starts_with(error->text, "string or '}' expected") && !starts_with(error->text, "invalid token")) return 0;
    return error->position > 0 && (size_t)error->position <= n && text[error->position - 1] == '"';
}

static hga_status parse(const char *name, const char *text, size_t n, json_t **out)
{
    json_error_t error;
    *out = json_loadb(text ? text : "", n, JSON_REJECT_DUPLICATES, &error);
    if (*out) return HGA_OK;
    if (is_want_of_memory(&error, text, n)) return hga_fail(HGA_ENOMEM, "%s: no memory for its values", name);
    return hga_fail(HGA_EFORMAT, "%s: line %d, column %d: %s", name, error.line, error.column, error.text);
}

typedef struct bytes {
    char *text;
    int64_t n, room;
} bytes;

static hga_status take_bytes(const hga_allocator *a, FILE *file, const char *name, bytes *out)
{
    for (size_t got = 1; got > 0; out->n += (int64_t)got) {
        hga_status st = hga_grow(a, &out->text, &out->room, out->n, out->n + 65536, 1);
        if (st) return st;
        errno = 0;
        got = fread(out->text + out->n, 1, (size_t)(out->room - out->n), file);
        if (ferror(file)) return hga_fail(HGA_EIO, "cannot read %s: %s", name, strerror(errno ? errno : EIO));
    }
    return HGA_OK;
}

static hga_status load(const hga_allocator *a, const char *path, const char *name, json_t **out)
{
    hga_status st = HGA_OK;
    bytes whole = {0};
    int is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "rb");
    if (!file) return hga_fail(errno == ENOMEM ? HGA_ENOMEM : HGA_EIO, "cannot read %s: %s", name, strerror(errno));
    HGA_TRY(take_bytes(a, file, name, &whole));
    HGA_TRY(parse(name, whole.text, (size_t)whole.n, out));
done:
    hga_delete(a, whole.text, whole.room, 1);
    if (!is_stdin) fclose(file);
    return st;
}

/* The text of the member `program`, NULL without. */
static hga_status take_program(const reader *r, char **out)
{
    const json_t *program = json_object_get(r->object, "program");
    place at = member_of(&r->root, "program");
    if (!program) return HGA_OK;
    if (!json_is_object(program)) return wrong(&at, "an object is expected, not %s", type_name(program));
    size_t length = json_dumpb(program, NULL, 0, JSON_COMPACT);
    if (length == 0) return hga_fail(HGA_ENOMEM, "%s: no memory for the program", r->root.name);
    hga_status st = hga_new(NULL, (int64_t)length + 1, 1, out);
    if (st) return st;
    (*out)[length] = 0;
    if (json_dumpb(program, *out, length, JSON_COMPACT) == length) return HGA_OK;
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
    reader r = {.allocator = a, .root = {NULL, strcmp(path, "-") == 0 ? "stdin" : path, 0}};
    HGA_TRY(load(a, path, r.root.name, &r.object));
    HGA_TRY(hga_builder_create(a, &r.b));
    HGA_TRY(read_graph(&r, out));
    if (program) HGA_TRY(take_program(&r, program));
done:
    if (st) hga_graph_destroy(*out), *out = NULL;
    hga_builder_destroy(r.b);
    json_decref(r.object);
    return st;
}

/* ---- for the writer ---- */

/* jansson does not say why it refuses: text that it takes at a second try, or not even unchecked, was refused for want
   of memory. */
hga_status json_check_text(const char *what, const char *text)
{
    json_t *first = json_string(text), *again = first ? NULL : json_string(text),
           *unchecked = first || again ? NULL : json_string_nocheck(text);
    int good = first != NULL, invalid = unchecked != NULL;
    json_decref(first);
    json_decref(again);
    json_decref(unchecked);
    if (good) return HGA_OK;
    return invalid ? hga_fail(HGA_EINVAL, "%s, %s, is not UTF-8", what, text)
                   : hga_fail(HGA_ENOMEM, "no memory for %s", what);
}

/* The members between braces, parsed. */
static hga_status load_members(const char *members, json_t **out)
{
    char *text = NULL;
    int64_t length = (int64_t)strlen(members);
    hga_status st = hga_new(NULL, length + 2, 1, &text);
    if (st) return st;
    text[0] = '{';
    memcpy(text + 1, members, (size_t)length);
    text[length + 1] = '}';
    st = parse("the further members", text, (size_t)length + 2, out);
    hga_delete(NULL, text, length + 2, 1);
    return st == HGA_EFORMAT ? HGA_EINVAL : st;
}

hga_status json_check_members(const char *members, hga_pos *n)
{
    json_t *object = NULL;
    const char *name;
    json_t *value;
    *n = 0;
    if (!members) return HGA_OK;
    hga_status st = load_members(members, &object);
    if (st) return st;
    *n = (hga_pos)json_object_size(object);
    json_object_foreach(object, name, value)
    {
        if (!is_listed(name, free_members))
            st = hga_fail(HGA_EINVAL, "\"%.60s\" is not a member that a graph may carry along", name);
        if (!st && strcmp(name, "program") == 0 && !json_is_object(value))
            st = hga_fail(HGA_EINVAL, "the program is not an object");
        if (st) break;
    }
    json_decref(object);
    return st;
}
