/* read_json_relations.c: the relations of a graph from JSON: orders, blocks, explicit edges. */
#include "json_values.h"

#include <string.h>

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
static hga_status read_order(const json_reader *r, const char *name, hga_id **order, int64_t *n)
{
    const json_t *list = json_object_get(r->object, name);
    json_location at = json_member_of(&r->root, name);
    if (!list) return HGA_OK;
    hga_status st = json_expect_array(&at, list);
    if (!st) st = count_order(r, &at, list, n);
    if (!st) st = hga_new(r->allocator, *n, sizeof **order, order);
    if (!st) fill_order(list, *order);
    return st;
}

/* `dst_order`, and `src_order` with it; either may be missing. */
static hga_status read_orders(json_reader *r, const json_location *p, json_t *value)
{
    hga_status st = HGA_OK;
    hga_id *dst = NULL, *src = NULL;
    int64_t n_dst = 0, n_src = 0;
    (void)p, (void)value;
    HGA_TRY(read_order(r, "dst_order", &dst, &n_dst));
    HGA_TRY(read_order(r, "src_order", &src, &n_src));
    HGA_TRY(json_refused(&r->root, hga_builder_set_order(r->b, r->relation, dst, (hga_id)n_dst, src, (hga_id)n_src)));
done:
    hga_delete(r->allocator, dst, n_dst, sizeof *dst);
    hga_delete(r->allocator, src, n_src, sizeof *src);
    return st;
}

static hga_status read_src_order(json_reader *r, const json_location *p, json_t *value)
{
    return json_object_get(r->object, "dst_order") ? HGA_OK : read_orders(r, p, value);
}

/* ---- members of blocks and choices ---- */

/* Reads one member's value to its place in the struct. Weight 0 means "unset" in a block, so a file may not have it. */
static hga_status read_value(const json_reader *r, const json_location *at, json_form form, const json_t *value,
                             void *to)
{
    int32_t *number = to;
    const float *weight = to;
    hga_status st = form == JSON_WEIGHT  ? json_read_real(at, value, to)
                    : form == JSON_SHAPE ? json_read_word(at, value, json_shapes, HGA_BAND + 1, to)
                                         : json_read_integer(at, value, to);
    if (st) return st;
    if (form == JSON_WEIGHT && !(*weight > 0)) return json_wrong(at, "weight %g is not positive", (double)*weight);
    if (form == JSON_FLAG && (*number < 0 || *number > 1)) return json_wrong(at, "%d is neither 0 nor 1", *number);
    if (form != JSON_NODE) return HGA_OK;
    if (*number < 0 || *number >= r->n_nodes)
        return json_wrong(at, "node %d of %d does not exist", *number, r->n_nodes);
    ++*number;
    return HGA_OK;
}

/* Reads the members that are not special to the zeroed struct; the object has no others than the table's. */
static hga_status read_fields(const json_reader *r, const json_location *p, json_t *object, const json_field *fields,
                              void *to)
{
    const char *names[JSON_MOST_MEMBERS + 1] = {NULL};
    for (size_t i = 0; fields[i].name; i++) names[i] = fields[i].name;
    hga_status st = json_expect_object(p, object, names, NULL);
    for (const json_field *f = fields; !st && f->name; f++) {
        json_t *value = json_object_get(object, f->name);
        json_location at = json_member_of(p, f->name);
        if (f->form == JSON_NEEDED) st = json_expect_member(p, object, f->name, &value);
        if (!st && value && f->form != JSON_SPECIAL) st = read_value(r, &at, f->form, value, (char *)to + f->offset);
    }
    return st;
}

/* ---- blocks ---- */

/* A shape that is a band, and no other, has two ends. */
static hga_status read_band(const json_location *p, const json_t *object, hga_block *b)
{
    const json_t *band = json_object_get(object, "band");
    json_location at = json_member_of(p, "band");
    int32_t ends[2] = {0, 0};
    size_t n;
    if (!band) return b->shape == HGA_BAND ? json_wrong(p, "member \"band\" is missing") : HGA_OK;
    if (b->shape != HGA_BAND) return json_wrong(&at, "only \"shape\": \"band\" has a band");
    hga_status st = json_read_integers(&at, band, 2, 2, ends, &n);
    b->band_first = ends[0], b->band_last = ends[1];
    return st;
}

/* One item of `blocks`. */
static hga_status read_block(json_reader *r, const json_location *p, json_t *object)
{
    hga_block b = {0};
    hga_status st = read_fields(r, p, object, json_block_fields, &b);
    if (!st) st = read_band(p, object, &b);
    return st ? st : json_refused(p, hga_builder_add_blocks(r->b, r->relation, &b));
}

/* ---- choices ---- */

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

/* A choice with a list for each block of its rows. */
static hga_status read_choice(json_reader *r, const json_location *p, json_t *object)
{
    hga_status st = HGA_OK;
    hga_choice c = {0};
    choice_lists x = {0};
    json_t *lists;
    json_location at = json_member_of(p, "lists");
    HGA_TRY(read_fields(r, p, object, json_choice_fields, &c));
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

/* ---- a relation ---- */

/* Adds the relation to the builder. */
static hga_status read_relation_name(json_reader *r, const json_location *p, json_t *name)
{
    if (!json_is_string(name)) return json_wrong(p, "a string is expected, not %s", json_type_name(name));
    return json_refused(p, hga_builder_add_relation(r->b, json_string_value(name), &r->relation));
}

static const json_member members[] = {
    {"name", OF_RELATION | IS_NEEDED, read_relation_name},
    {"dst_order", OF_RELATION, read_orders},
    {"src_order", OF_RELATION, read_src_order},
    {"blocks", OF_RELATION | BY_ITEM, read_block},
    {"choices", OF_RELATION | BY_ITEM, read_choice},
    {"edges", OF_RELATION | BY_ITEM, read_json_edge},
    {"comment", OF_RELATION, NULL},
    {NULL, 0, NULL},
};

hga_status json_read_relation(json_reader *r, const json_location *p, json_t *object)
{
    json_reader of = *r;
    of.root = *p, of.object = object;
    return json_read_members(&of, members, OF_RELATION, NULL);
}
