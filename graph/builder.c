/* builder.c: collects levels, families, relations, blocks and edges; finish.c makes the graph of them. */
#include "builder.h"
#include "builder_relations.h"
#include "kind_list.h"

#include <string.h>

hga_status hga_builder_create(const hga_allocator *a, hga_builder **out)
{
    *out = NULL;
    hga_status st = hga_new_zero(a, 1, sizeof **out, out);
    if (!st && a) (*out)->allocator = *a;
    return st;
}

static void draft_clear(const hga_allocator *a, draft *d)
{
    hga_delete(a, d->blocks, d->block_capacity, sizeof *d->blocks);
    hga_delete(a, d->edges.src, d->edges.src_capacity, sizeof *d->edges.src);
    hga_delete(a, d->edges.dst, d->edges.dst_capacity, sizeof *d->edges.dst);
    hga_delete(a, d->edges.type, d->edges.type_capacity, sizeof *d->edges.type);
    hga_delete(a, d->edges.weight, d->edges.weight_capacity, sizeof *d->edges.weight);
    choices_drop(a, d);
    hga_delete(a, d->dst_order, d->n_dst_order, sizeof *d->dst_order);
    hga_delete(a, d->src_order, d->n_src_order, sizeof *d->src_order);
}

void builder_clear(hga_builder *b)
{
    hga_allocator a = b->allocator;
    for (int64_t i = 0; i < b->drafts.n; i++) draft_clear(&a, &b->drafts.list[i]);
    hga_delete(&a, b->drafts.list, b->drafts.capacity, sizeof *b->drafts.list);
    names_clear(&a, &b->drafts.names);
    hga_delete(&a, b->labels.list, b->labels.capacity, sizeof *b->labels.list);
    hga_delete(&a, b->labels.text, b->labels.text_capacity, 1);
    kinds_clear(&a, &b->kinds);
    hga_delete(&a, b->declared.list, b->declared.capacity, sizeof *b->declared.list);
    hga_delete(&a, b->levels.size, b->levels.capacity, sizeof *b->levels.size);
    hga_delete(&a, b->families.list, b->families.capacity, sizeof *b->families.list);
    hga_delete(&a, b->sides.list, b->sides.capacity, sizeof *b->sides.list);
    hga_delete(&a, b->masses.list, b->masses.capacity, sizeof *b->masses.list);
    hga_graph_destroy(b->longer);
    hga_delete(&a, b->part, b->n_parts, sizeof *b->part);
    hga_delete(&a, b->positions.list, b->positions.capacity, sizeof *b->positions.list);
    memset(b, 0, sizeof *b);
    b->allocator = a;
}

void hga_builder_destroy(hga_builder *b)
{
    if (!b) return;
    hga_allocator a = b->allocator;
    builder_clear(b);
    hga_delete(&a, b, 1, sizeof *b);
}

/* A panel of rows that begins at the last node still has positions that fit an id. */
enum { MOST_NODES = INT32_MAX - 4096 };

hga_status hga_builder_add_level(hga_builder *b, hga_id n, hga_id *first)
{
    if (n < 0) return hga_fail(HGA_EINVAL, "level %lld: %d nodes", (long long)b->levels.n, n);
    if (n > MOST_NODES - b->n)
        return hga_fail(HGA_EOVERFLOW, "level %lld: %d nodes after %d do not fit a 32-bit id", (long long)b->levels.n,
                        n, b->n);
    hga_status st = hga_grow(&b->allocator, &b->levels.size, &b->levels.capacity, b->levels.n, b->levels.n + 1,
                             sizeof *b->levels.size);
    if (st) return st;
    b->levels.size[b->levels.n++] = n;
    if (first) *first = b->n;
    b->n += n;
    return HGA_OK;
}

hga_status hga_builder_set_tokens(hga_builder *b, hga_id query_first, hga_id n_queries, hga_id key_first, hga_id n_keys)
{
    b->token.query_first = query_first, b->token.n_queries = n_queries;
    b->token.key_first = key_first, b->token.n_keys = n_keys;
    b->has_tokens = 1;
    return HGA_OK;
}

/* [first, first + n) must lie among the nodes so far. */
static hga_status check_range(const hga_builder *b, const char *what, hga_id first, hga_id n)
{
    if (first < 0 || n < 0 || first > b->n - n)
        return hga_fail(HGA_EGRAPH, "%s: nodes %d .. %lld leave [0, %d)", what, first, (long long)first + n - 1, b->n);
    return HGA_OK;
}

hga_status hga_builder_set_side(hga_builder *b, hga_id first, hga_id n, int side)
{
    hga_status st = check_range(b, "side", first, n);
    if (!st && (side < HGA_SIDE_BOTH || side > HGA_SIDE_KEY)) st = hga_fail(HGA_EGRAPH, "side: %d is not a side", side);
    if (!st)
        st = hga_grow(&b->allocator, &b->sides.list, &b->sides.capacity, b->sides.n, b->sides.n + 1,
                      sizeof *b->sides.list);
    if (!st) b->sides.list[b->sides.n++] = (sides){first, n, (uint8_t)side};
    return st;
}

hga_status hga_builder_set_families(hga_builder *b, hga_id parent, hga_id child, hga_id n, hga_id each)
{
    if (n == 0) return HGA_OK;
    hga_status st = check_range(b, "children", child, n);
    if (!st && each < 1) st = hga_fail(HGA_EGRAPH, "children of node %d: %d each", parent, each);
    if (!st) st = check_range(b, "parents", parent, (hga_id)(((int64_t)n + each - 1) / each));
    if (!st)
        st = hga_grow(&b->allocator, &b->families.list, &b->families.capacity, b->families.n, b->families.n + 1,
                      sizeof *b->families.list);
    if (!st) b->families.list[b->families.n++] = (declared_families){parent, child, n, each};
    return st;
}

hga_status hga_builder_set_children(hga_builder *b, hga_id parent, hga_id child, hga_id n)
{
    return hga_builder_set_families(b, parent, child, n, n > 0 ? n : 1);
}

hga_status builder_set_masses(hga_builder *b, hga_id first, hga_id n, float mass)
{
    hga_status st = check_range(b, "mass", first, n);
    if (!st && !(mass >= 0 && mass < 3e38f))
        st = hga_fail(HGA_EGRAPH, "mass %g of node %d is not finite and >= 0", (double)mass, first);
    if (!st)
        st = hga_grow(&b->allocator, &b->masses.list, &b->masses.capacity, b->masses.n, b->masses.n + 1,
                      sizeof *b->masses.list);
    if (!st) b->masses.list[b->masses.n++] = (masses){first, n, mass};
    return st;
}

hga_status hga_builder_set_position(hga_builder *b, hga_id first, hga_id n, float position)
{
    hga_status st = check_range(b, "position", first, n);
    if (!st && !((position == -1 || position >= 0) && position < 3e38f))
        st = hga_fail(HGA_EGRAPH, "position %g of token %d is neither finite and >= 0 nor -1", (double)position, first);
    if (!st)
        st = hga_grow(&b->allocator, &b->positions.list, &b->positions.capacity, b->positions.n, b->positions.n + 1,
                      sizeof *b->positions.list);
    if (!st) b->positions.list[b->positions.n++] = (positions){first, n, position};
    return st;
}

hga_status hga_builder_set_mass(hga_builder *b, hga_id node, float mass)
{
    return builder_set_masses(b, node, 1, mass);
}

hga_status hga_builder_set_claims(hga_builder *b, uint32_t claims)
{
    if (claims & ~(uint32_t)(HGA_CLAIM_CAUSAL | HGA_CLAIM_SINGLE | HGA_CLAIM_COMPLETE))
        return hga_fail(HGA_EINVAL, "claims 0x%x are unknown", claims);
    b->claims = claims;
    return HGA_OK;
}

static const char *draft_name(const void *drafts, int64_t i) { return ((const draft *)drafts)[i].name; }

hga_status hga_builder_add_relation(hga_builder *b, const char *name, hga_id *relation)
{
    size_t length = name ? strlen(name) : 0;
    if (length < 1 || length >= NAME_BYTES)
        return hga_fail(HGA_EGRAPH, "a relation's name has 1 to %d bytes, not %zu", NAME_BYTES - 1, length);
    if (names_find(&b->drafts.names, b->drafts.list, draft_name, name) >= 0)
        return hga_fail(HGA_EGRAPH, "two relations are named %s", name);
    hga_status st = hga_grow(&b->allocator, &b->drafts.list, &b->drafts.capacity, b->drafts.n, b->drafts.n + 1,
                             sizeof *b->drafts.list);
    if (st) return st;
    memset(&b->drafts.list[b->drafts.n], 0, sizeof *b->drafts.list);
    memcpy(b->drafts.list[b->drafts.n].name, name, length);
    st = names_add(&b->allocator, &b->drafts.names, b->drafts.list, draft_name);
    if (st) return st;
    if (relation) *relation = (hga_id)b->drafts.n;
    b->drafts.n++;
    return HGA_OK;
}

/* NULL, with the error text set, for a relation that was not added. */
static draft *find_draft(hga_builder *b, hga_id relation)
{
    if (relation >= 0 && relation < b->drafts.n) return &b->drafts.list[relation];
    hga_fail(HGA_EGRAPH, "relation %d of %lld does not exist", relation, (long long)b->drafts.n);
    return NULL;
}

/* Replaces *copy by a copy of the order; NULL: none. */
static hga_status copy_order(const hga_allocator *a, const hga_id *order, hga_id n, hga_id **copy, hga_id *n_copy)
{
    hga_delete(a, *copy, *n_copy, sizeof **copy);
    *copy = NULL, *n_copy = 0;
    if (!order) return HGA_OK;
    hga_status st = hga_new(a, n, sizeof *order, copy);
    if (st || n == 0) return st;
    memcpy(*copy, order, (size_t)n * sizeof *order);
    *n_copy = n;
    return HGA_OK;
}

hga_status hga_builder_set_order(hga_builder *b, hga_id relation, const hga_id *dst_order, hga_id n_dst,
                                 const hga_id *src_order, hga_id n_src)
{
    draft *d = find_draft(b, relation);
    if (!d) return HGA_EGRAPH;
    if ((dst_order && n_dst < 0) || (src_order && n_src < 0))
        return hga_fail(HGA_EGRAPH, "relation %s: an order of %d nodes", d->name, n_dst < 0 ? n_dst : n_src);
    hga_status st = copy_order(&b->allocator, dst_order, n_dst, &d->dst_order, &d->n_dst_order);
    if (!st) st = copy_order(&b->allocator, src_order, n_src, &d->src_order, &d->n_src_order);
    return st;
}

/* Checks the ends, type and weight of the draft's next edge. */
static hga_status check_edge(const hga_builder *b, const draft *d, hga_id src, hga_id dst, int32_t type, float weight)
{
    long long e = (long long)d->edges.n;
    if (src < 0 || src >= b->n)
        return hga_fail(HGA_EGRAPH, "relation %s, edge %lld: source %d is not a node", d->name, e, src);
    if (dst < 0 || dst >= b->n)
        return hga_fail(HGA_EGRAPH, "relation %s, edge %lld: destination %d is not a node", d->name, e, dst);
    if (type < 0 || type == INT32_MAX)
        return hga_fail(HGA_EGRAPH, "relation %s, edge %lld: type %d is out of range", d->name, e, type);
    if (!(weight > 0 && weight < 3e38f))
        return hga_fail(HGA_EGRAPH, "relation %s, edge %lld: weight %g is not positive and finite", d->name, e,
                        (double)weight);
    return HGA_OK;
}

/* The array of types is allocated with the first type other than 0. */
static hga_status reserve_types(const hga_allocator *a, declared_edges *e, int64_t n, const int32_t *type)
{
    int64_t first = 0, used = e->type ? e->n : 0;
    while (type && !e->type && first < n && type[first] == 0) first++;
    if (!e->type && (!type || first == n)) return HGA_OK;
    hga_status st = hga_grow(a, &e->type, &e->type_capacity, used, e->n + n, sizeof *e->type);
    for (; !st && used < e->n; used++) e->type[used] = 0;
    return st;
}

/* The array of weights is allocated with the first weight other than 1. */
static hga_status reserve_weights(const hga_allocator *a, declared_edges *e, int64_t n, const float *weight)
{
    int64_t first = 0, used = e->weight ? e->n : 0;
    while (weight && !e->weight && first < n && weight[first] == 1) first++;
    if (!e->weight && (!weight || first == n)) return HGA_OK;
    hga_status st = hga_grow(a, &e->weight, &e->weight_capacity, used, e->n + n, sizeof *e->weight);
    for (; !st && used < e->n; used++) e->weight[used] = 1;
    return st;
}

hga_status hga_builder_add_edges(hga_builder *b, hga_id relation, int64_t n, const hga_id *source,
                                 const hga_id *destination, const int32_t *type, const float *weight)
{
    hga_status st = HGA_OK;
    draft *d = find_draft(b, relation);
    if (!d) return HGA_EGRAPH;
    if (n < 0 || (n > 0 && (!source || !destination)))
        return hga_fail(HGA_EINVAL, "%lld edges%s", (long long)n, n < 0 ? "" : " without their ends");
    declared_edges *x = &d->edges;
    HGA_TRY(hga_grow(&b->allocator, &x->src, &x->src_capacity, x->n, x->n + n, sizeof *x->src));
    HGA_TRY(hga_grow(&b->allocator, &x->dst, &x->dst_capacity, x->n, x->n + n, sizeof *x->dst));
    HGA_TRY(reserve_types(&b->allocator, x, n, type));
    HGA_TRY(reserve_weights(&b->allocator, x, n, weight));
    for (int64_t i = 0; i < n; i++, x->n++) {
        int32_t its_type = type ? type[i] : 0;
        float its_weight = weight ? weight[i] : 1;
        HGA_TRY(check_edge(b, d, source[i], destination[i], its_type, its_weight));
        x->src[x->n] = source[i], x->dst[x->n] = destination[i];
        if (x->type) x->type[x->n] = its_type;
        if (x->weight) x->weight[x->n] = its_weight;
    }
done:
    return st;
}

hga_status hga_builder_sum_edges(hga_builder *b, hga_id relation)
{
    draft *d = find_draft(b, relation);
    if (!d) return HGA_EGRAPH;
    d->sums = 1;
    return HGA_OK;
}

hga_status hga_builder_add_edge(hga_builder *b, hga_id relation, hga_id source, hga_id destination, int32_t type,
                                float weight)
{
    return hga_builder_add_edges(b, relation, 1, &source, &destination, &type, &weight);
}

hga_status hga_builder_add_blocks(hga_builder *b, hga_id relation, const hga_block *block)
{
    draft *d = find_draft(b, relation);
    if (!d) return HGA_EGRAPH;
    hga_status st =
        hga_grow(&b->allocator, &d->blocks, &d->block_capacity, d->n_blocks, d->n_blocks + 1, sizeof *d->blocks);
    if (!st) d->blocks[d->n_blocks++] = *block;
    return st;
}

hga_status hga_builder_add_block(hga_builder *b, hga_id relation, hga_id dst, hga_id n_dst, hga_id src, hga_id n_src,
                                 int32_t type)
{
    return hga_builder_add_blocks(b, relation,
                                  &(hga_block){.dst = dst, .n_dst = n_dst, .src = src, .n_src = n_src, .type = type});
}

hga_status hga_builder_add_choice(hga_builder *b, hga_id relation, const hga_choice *choice)
{
    draft *d = find_draft(b, relation);
    return d ? choice_add(b, d, choice) : HGA_EGRAPH;
}
