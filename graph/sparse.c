/* sparse.c: explicit edges as compressed rows: sorted by destination and source (sorted_edges.h), then by type, and
   each kept once. */
#include "graph.h"
#include "sort.h"
#include "sorted_edges.h"

#include <string.h>

/* What an edge has besides its ends. */
typedef struct edge_kind {
    int32_t type;
    float weight;
} edge_kind;

/* Orders edges between the same two nodes by type, then by weight, so that the sum of their weights is reproducible. */
static int kind_before(const edge_kind *a, const edge_kind *b)
{
    return a->type != b->type ? a->type < b->type : a->weight < b->weight;
}

SORT_DEFINE(sort_kinds, edge_kind, kind_before)

/* The edges, sorted; kind is NULL where all have type 0 and weight 1 and weights are not summed. */
typedef struct sorting {
    const hga_allocator *a;
    const declared_edges *declared;
    int sums;
    sorted_edges edges;
    edge_kind *kind;
} sorting;

_Static_assert(sizeof(edge_kind) == sizeof(hga_pos), "a kind lies where its edge's number was");

/* Types and weights in the edges' new order, in the memory of the edges' numbers, which are no longer needed. */
static hga_status find_kinds(sorting *s)
{
    const declared_edges *declared = s->declared;
    const hga_pos *number = s->edges.number; /* NULL where types and weights are, too */
    void *memory = s->edges.number;
    if (!memory) {
        hga_status st = hga_new(s->a, declared->n, sizeof *s->kind, &memory);
        if (st) return st;
    }
    s->kind = memory, s->edges.number = NULL;
    for (hga_pos e = 0; e < declared->n; e++) {
        hga_pos from = number ? number[e] : e;
        edge_kind kind = {declared->type ? declared->type[from] : 0, declared->weight ? declared->weight[from] : 1};
        s->kind[e] = kind;
    }
    return HGA_OK;
}

/* Sorts by type the edges of each source in the row [at, row_end), whose sources ascend. */
static void sort_types(const sorting *s, hga_pos at, hga_pos row_end)
{
    const hga_id *src = s->edges.column;
    for (hga_pos end; at < row_end; at = end) {
        for (end = at + 1; end < row_end && src[end] == src[at];) end++;
        if (end - at > 1) sort_kinds(s->kind + at, end - at);
    }
}

static int is_same_edge(const sorting *s, hga_pos e, hga_pos other)
{
    return s->edges.column[e] == s->edges.column[other] && (!s->kind || s->kind[e].type == s->kind[other].type);
}

/* Merges n equal edges: their weights must be equal, or are summed. */
static hga_status make_one(const stored_relation *r, int sums, hga_id src, hga_id dst, edge_kind *e, hga_pos n)
{
    double sum = 0;
    for (hga_pos i = 0; i < n; i++) sum += (double)e[i].weight;
    if (!sums && e[0].weight < e[n - 1].weight)
        return hga_fail(HGA_EGRAPH, "relation %s: edge %d -> %d of type %d is given with weights %g and %g", r->name,
                        src, dst, e->type, (double)e[0].weight, (double)e[n - 1].weight);
    if (sums && sum >= 3e38)
        return hga_fail(HGA_EGRAPH, "relation %s: edge %d -> %d of type %d: its weights sum up to %g", r->name, src,
                        dst, e->type, sum);
    if (sums) e->weight = (float)sum;
    return HGA_OK;
}

/* Compacts the edges to one each, and sets ptr to the new beginnings of rows. */
static hga_status keep_once(const sorting *s, const stored_relation *r, hga_pos *n_kept)
{
    const sorted_edges *x = &s->edges;
    hga_pos kept = 0, at = 0, next;
    for (hga_id v = 0; v < x->rows; v++) {
        hga_pos row_end = x->ptr[v + 1];
        x->ptr[v] = kept;
        for (; at < row_end; at = next) {
            hga_status st = HGA_OK;
            for (next = at + 1; next < row_end && is_same_edge(s, at, next);) next++;
            if (s->kind && next - at > 1) st = make_one(r, s->sums, x->column[at], v, s->kind + at, next - at);
            if (st) return st;
            if (s->kind) s->kind[kept] = s->kind[at];
            x->column[kept++] = x->column[at];
        }
    }
    x->ptr[x->rows] = *n_kept = kept;
    return HGA_OK;
}

/* Where no edge was repeated the relation takes the lists; else it gets a copy of the needed size. */
static hga_status store_rows(sorting *s, hga_pos kept, stored_relation *out)
{
    out->edges.n = kept;
    out->edges.ptr = s->edges.ptr, s->edges.ptr = NULL;
    if (kept == s->edges.n) {
        out->edges.src = s->edges.column, s->edges.column = NULL;
        return HGA_OK;
    }
    hga_status st = hga_new(s->a, kept, sizeof *out->edges.src, &out->edges.src);
    if (!st) memcpy(out->edges.src, s->edges.column, (size_t)kept * sizeof *out->edges.src);
    return st;
}

/* Stores types where one is not 0, and weights where one is not 1. */
static hga_status store_kinds(const sorting *s, stored_relation *out)
{
    hga_status st = HGA_OK;
    int typed = 0, weighted = 0;
    for (hga_pos e = 0; e < out->edges.n; e++) typed |= s->kind[e].type != 0, weighted |= s->kind[e].weight != 1;
    if (typed) HGA_TRY(hga_new(s->a, out->edges.n, sizeof *out->edges.type, &out->edges.type));
    if (weighted) HGA_TRY(hga_new(s->a, out->edges.n, sizeof *out->edges.weight, &out->edges.weight));
    for (hga_pos e = 0; typed && e < out->edges.n; e++) out->edges.type[e] = s->kind[e].type;
    for (hga_pos e = 0; weighted && e < out->edges.n; e++) out->edges.weight[e] = s->kind[e].weight;
done:
    return st;
}

hga_status sparse_compress(const hga_allocator *a, hga_id n, const declared_edges *declared, int sums,
                           stored_relation *out)
{
    hga_status st = HGA_OK;
    int numbered = declared->type || declared->weight;
    hga_pos kept = 0;
    sorting s = {.a = a, .declared = declared, .sums = sums};
    loose_edges loose = {out->name, n, declared->n, declared->dst, declared->src, numbered, 0};
    HGA_TRY(edges_sort(a, &loose, &s.edges));
    if (numbered || sums) HGA_TRY(find_kinds(&s));
    for (hga_id v = 0; s.kind && v < n; v++) sort_types(&s, s.edges.ptr[v], s.edges.ptr[v + 1]);
    HGA_TRY(keep_once(&s, out, &kept));
    HGA_TRY(store_rows(&s, kept, out));
    if (s.kind) HGA_TRY(store_kinds(&s, out));
done:
    hga_delete(a, s.kind, declared->n, sizeof *s.kind);
    edges_clear(a, &s.edges);
    return st;
}
