/* read_json_relations.c: the relations of a graph from JSON: orders, blocks, explicit edges. */
#include "json_values.h"

#include <string.h>

static const char *const relation_members[] = {"name",    "dst_order", "src_order", "blocks",
                                               "choices", "edges",     "comment",   NULL};

/* The number of nodes that an order lists; entries are ids or [first, n]. */
static hga_status count_order(const json_reader *r, const json_location *at, const json_t *list, int64_t *n)
{
    *n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_location item = json_item_of(at, i);
        const json_t *entry = json_array_get(list, i);
        int32_t run[2] = {0, 1};
        size_t size;
        hga_status st = json_is_array(entry) ? json_read_integers(&item, entry, 2, 2, run, &size)
                                             : json_read_integer(&item, entry, run);
        if (st) return st;
        if (run[0] < 0 || run[1] < 1 || run[0] > r->n_nodes - run[1])
            return json_wrong(&item, "nodes %d .. %lld leave [0, %d)", run[0], (long long)run[0] + run[1] - 1,
                              r->n_nodes);
        *n += run[1];
    }
    if (*n > r->n_nodes) return json_wrong(at, "%lld nodes are listed, the graph has %d", (long long)*n, r->n_nodes);
    return *n > 0 ? HGA_OK : json_wrong(at, "the order is empty");
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

/* An order's nodes; *order stays NULL without one. */
static hga_status read_order(const json_reader *r, const json_location *p, const json_t *object, const char *name,
                             hga_id **order, int64_t *n)
{
    const json_t *list = json_object_get(object, name);
    json_location at = json_member_of(p, name);
    if (!list) return HGA_OK;
    hga_status st = json_expect_array(&at, list);
    if (!st) st = count_order(r, &at, list, n);
    if (!st) st = hga_new(r->allocator, *n, sizeof **order, order);
    if (!st) fill_order(list, *order);
    return st;
}

/* `dst_order` and `src_order` of a relation, where it has them. */
static hga_status read_orders(const json_reader *r, const json_location *p, const json_t *object)
{
    hga_status st = HGA_OK;
    hga_id *dst = NULL, *src = NULL;
    int64_t n_dst = 0, n_src = 0;
    HGA_TRY(read_order(r, p, object, "dst_order", &dst, &n_dst));
    HGA_TRY(read_order(r, p, object, "src_order", &src, &n_src));
    if (dst || src)
        HGA_TRY(json_refused(p, hga_builder_set_order(r->b, r->relation, dst, (hga_id)n_dst, src, (hga_id)n_src)));
done:
    hga_delete(r->allocator, dst, n_dst, sizeof *dst);
    hga_delete(r->allocator, src, n_src, sizeof *src);
    return st;
}

/* The integers of a block by name; the first four are required. */
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
    {"pos_step", offsetof(hga_block, pos_step)}, {"src_pos_step", offsetof(hga_block, src_pos_step)},
};
enum { N_BLOCK_FIELDS = sizeof block_fields / sizeof *block_fields, N_NEEDED = 4 };
static const char *const block_members[] = {
    "dst",    "n_dst",    "src",    "n_src", "count", "dst_step", "src_step",   "type",         "type_dst", "type_src",
    "pos_of", "pos_step", "weight", "shape", "band",  "comment",  "src_pos_of", "src_pos_step", NULL};

/* Members that are left out stay 0. */
static hga_status read_block_fields(const json_location *p, const json_t *object, hga_block *b)
{
    for (size_t i = 0; i < N_BLOCK_FIELDS; i++) {
        const json_t *value = json_object_get(object, block_fields[i].name);
        json_location at = json_member_of(p, block_fields[i].name);
        int32_t x = 0;
        if (!value && i < N_NEEDED) return json_wrong(p, "member \"%s\" is missing", block_fields[i].name);
        hga_status st = value ? json_read_integer(&at, value, &x) : HGA_OK;
        if (st) return st;
        memcpy((char *)b + block_fields[i].offset, &x, sizeof x);
    }
    return HGA_OK;
}

/* The node whose position a block uses, if it names one. */
static hga_status read_block_position(const json_reader *r, const json_location *p, const json_t *object,
                                      const char *name, hga_id *pos_of)
{
    const json_t *value = json_object_get(object, name);
    json_location at = json_member_of(p, name);
    int32_t node = -1;
    if (!value) return HGA_OK;
    hga_status st = json_read_integer(&at, value, &node);
    if (!st && (node < 0 || node >= r->n_nodes)) st = json_wrong(&at, "node %d of %d does not exist", node, r->n_nodes);
    *pos_of = node + 1;
    return st;
}

/* Weight 0 means "unset" in a block, so a file may not have it. */
static hga_status read_block_weight(const json_location *p, const json_t *object, hga_block *b)
{
    const json_t *value = json_object_get(object, "weight");
    json_location at = json_member_of(p, "weight");
    if (!value) return HGA_OK;
    hga_status st = json_read_real(&at, value, &b->weight);
    return !st && !(b->weight > 0) ? json_wrong(&at, "weight %g is not positive", (double)b->weight) : st;
}

/* A shape by its name; a band, and nothing else, has two ends. */
static hga_status read_block_shape(const json_location *p, const json_t *object, hga_block *b)
{
    const json_t *shape = json_object_get(object, "shape"), *band = json_object_get(object, "band");
    json_location shape_location = json_member_of(p, "shape"), band_location = json_member_of(p, "band");
    int32_t ends[2] = {0, 0};
    size_t n;
    int which = HGA_ALL;
    hga_status st = shape ? json_read_word(&shape_location, shape, json_shapes, HGA_BAND + 1, &which) : HGA_OK;
    if (!st && band && which != HGA_BAND) st = json_wrong(&band_location, "only \"shape\": \"band\" has a band");
    if (!st && !band && which == HGA_BAND) st = json_wrong(p, "member \"band\" is missing");
    if (!st && band) st = json_read_integers(&band_location, band, 2, 2, ends, &n);
    b->shape = (hga_shape_kind)which, b->band_first = ends[0], b->band_last = ends[1];
    return st;
}

/* One item of `blocks`. */
static hga_status read_block(json_reader *r, const json_location *p, json_t *object)
{
    hga_block b = {0};
    hga_status st = json_expect_object(p, object, block_members, NULL);
    if (!st) st = read_block_fields(p, object, &b);
    if (!st) st = read_block_position(r, p, object, "pos_of", &b.pos_of);
    if (!st) st = read_block_position(r, p, object, "src_pos_of", &b.src_pos_of);
    if (!st) st = read_block_weight(p, object, &b);
    if (!st) st = read_block_shape(p, object, &b);
    return st ? st : json_refused(p, hga_builder_add_blocks(r->b, r->relation, &b));
}

/* ---- choices ---- */

static const block_field choice_fields[] = {
    {"dst", offsetof(hga_choice, dst)},     {"n_dst", offsetof(hga_choice, n_dst)},
    {"src", offsetof(hga_choice, src)},     {"n_src", offsetof(hga_choice, n_src)},
    {"block", offsetof(hga_choice, block)}, {"row_block", offsetof(hga_choice, row_block)},
};
static const char *const choice_members[] = {"dst",   "n_dst",  "src",   "n_src",   "row_block",
                                             "block", "causal", "lists", "comment", NULL};

/* The lists in one array: [n + 1] offsets, and all blocks. */
typedef struct choice_lists {
    hga_pos n, n_chosen;
    hga_pos *first;
    hga_id *chosen;
} choice_lists;

/* Counts the lists and their blocks. */
static hga_status count_lists(const json_location *p, const json_t *lists, choice_lists *x)
{
    x->n = (hga_pos)json_array_size(lists);
    for (hga_pos i = 0; i < x->n; i++) {
        json_location at = json_item_of(p, (size_t)i);
        const json_t *list = json_array_get(lists, (size_t)i);
        hga_status st = json_expect_array(&at, list);
        if (st) return st;
        x->n_chosen += (hga_pos)json_array_size(list);
    }
    return HGA_OK;
}

/* Reads the lists' blocks and the offset of each list. */
static hga_status read_lists(const json_location *p, const json_t *lists, choice_lists *x)
{
    hga_pos n = 0;
    for (hga_pos i = 0; i < x->n; i++) {
        json_location at = json_item_of(p, (size_t)i);
        const json_t *list = json_array_get(lists, (size_t)i);
        x->first[i] = n;
        for (size_t e = 0; e < json_array_size(list); e++) {
            json_location item = json_item_of(&at, e);
            hga_status st = json_read_integer(&item, json_array_get(list, e), &x->chosen[n++]);
            if (st) return st;
        }
    }
    x->first[x->n] = n;
    return HGA_OK;
}

/* Reads the integers of a choice, all of them required, and the optional `causal`. */
static hga_status read_choice_fields(const json_location *p, const json_t *object, hga_choice *c)
{
    const json_t *causal = json_object_get(object, "causal");
    json_location causal_at = json_member_of(p, "causal");
    int32_t is_causal = 0;
    for (size_t i = 0; i < sizeof choice_fields / sizeof *choice_fields; i++) {
        const json_t *value = json_object_get(object, choice_fields[i].name);
        json_location at = json_member_of(p, choice_fields[i].name);
        int32_t x = 0;
        if (!value) return json_wrong(p, "member \"%s\" is missing", choice_fields[i].name);
        hga_status st = json_read_integer(&at, value, &x);
        if (st) return st;
        memcpy((char *)c + choice_fields[i].offset, &x, sizeof x);
    }
    hga_status st = causal ? json_read_integer(&causal_at, causal, &is_causal) : HGA_OK;
    if (!st && (is_causal < 0 || is_causal > 1)) st = json_wrong(&causal_at, "%d is neither 0 nor 1", is_causal);
    c->causal = is_causal;
    return st;
}

/* A choice with a list for each block of its rows. */
static hga_status read_choice(json_reader *r, const json_location *p, json_t *object)
{
    hga_status st = HGA_OK;
    hga_choice c = {0};
    choice_lists x = {0};
    json_t *lists;
    json_location at = json_member_of(p, "lists");
    HGA_TRY(json_expect_object(p, object, choice_members, NULL));
    HGA_TRY(read_choice_fields(p, object, &c));
    HGA_TRY(json_expect_member(p, object, "lists", &lists));
    HGA_TRY(json_expect_array(&at, lists));
    HGA_TRY(count_lists(&at, lists, &x));
    const int64_t expected = c.row_block > 0 ? c.n_dst / c.row_block + (c.n_dst % c.row_block != 0) : x.n;
    if (x.n != expected)
        HGA_TRY(json_wrong(&at, "%lld lists for %lld blocks of rows", (long long)x.n, (long long)expected));
    HGA_TRY(hga_new(r->allocator, x.n + 1, sizeof *x.first, &x.first));
    HGA_TRY(hga_new(r->allocator, x.n_chosen + 1, sizeof *x.chosen, &x.chosen));
    HGA_TRY(read_lists(&at, lists, &x));
    c.first = x.first, c.chosen = x.chosen;
    HGA_TRY(json_refused(p, hga_builder_add_choice(r->b, r->relation, &c)));
done:
    hga_delete(r->allocator, x.first, x.n + 1, sizeof *x.first);
    hga_delete(r->allocator, x.chosen, x.n_chosen + 1, sizeof *x.chosen);
    return st;
}

/* ---- edges ---- */

/* Source and destination, and perhaps a type and a weight. */
static hga_status read_json_edge(json_reader *r, const json_location *p, json_t *list)
{
    int32_t x[3] = {0, 0, 0};
    float weight = 1;
    hga_status st = json_expect_array(p, list);
    size_t n = json_array_size(list);
    if (!st && (n < 2 || n > 4)) st = json_wrong(p, "%zu numbers, where 2 to 4 are expected", n);
    for (size_t i = 0; !st && i < n; i++) {
        json_location at = json_item_of(p, i);
        st = i < 3 ? json_read_integer(&at, json_array_get(list, i), &x[i])
                   : json_read_real(&at, json_array_get(list, i), &weight);
    }
    return st ? st : json_refused(p, hga_builder_add_edge(r->b, r->relation, x[0], x[1], x[2], weight));
}

/* Adds the relation to the builder, then its orders, blocks, choices and edges. */
hga_status json_read_relation(json_reader *r, const json_location *p, json_t *object)
{
    hga_status st = HGA_OK;
    json_t *name;
    json_location at = json_member_of(p, "name");
    HGA_TRY(json_expect_object(p, object, relation_members, NULL));
    HGA_TRY(json_expect_member(p, object, "name", &name));
    if (!json_is_string(name)) HGA_TRY(json_wrong(&at, "a string is expected, not %s", json_type_name(name)));
    HGA_TRY(json_refused(&at, hga_builder_add_relation(r->b, json_string_value(name), &r->relation)));
    HGA_TRY(read_orders(r, p, object));
    HGA_TRY(json_each_item(r, p, object, "blocks", read_block));
    HGA_TRY(json_each_item(r, p, object, "choices", read_choice));
    HGA_TRY(json_each_item(r, p, object, "edges", read_json_edge));
done:
    return st;
}
