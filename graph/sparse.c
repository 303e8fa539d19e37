/* sparse.c: explicit edges as compressed rows, sorted by counting: by source, then by destination. */
#include "graph.h"
#include "sort.h"

#include <string.h>

static hga_id source_of(const explicit_edge *e) { return e->src; }
static hga_id destination_of(const explicit_edge *e) { return e->dst; }

/* By one of their nodes; those of a node stay as they were, from ptr[node] on. */
static inline void sort_by_node(hga_id n, hga_id (*node)(const explicit_edge *), const explicit_edge *from,
                                hga_pos n_edges, hga_pos *ptr, explicit_edge *to)
{
    memset(ptr, 0, ((size_t)n + 1) * sizeof *ptr);
    for (hga_pos e = 0; e < n_edges; e++) ptr[node(&from[e])]++;
    for (hga_pos v = 0, sum = 0; v <= n; v++) {
        hga_pos here = ptr[v];
        ptr[v] = sum, sum += here;
    }
    for (hga_pos e = 0; e < n_edges; e++) to[ptr[node(&from[e])]++] = from[e];
    memmove(ptr + 1, ptr, (size_t)n * sizeof *ptr);
    ptr[0] = 0;
}

/* Of edges between the same two nodes; weights come in an order, too, so that their sum depends on no other. */
static int typed_before(const explicit_edge *a, const explicit_edge *b)
{
    return a->type != b->type ? a->type < b->type : a->weight < b->weight;
}

SORT_DEFINE(sort_typed, explicit_edge, typed_before)

/* A row's edges, whose sources ascend: those of a source by type. */
static void sort_types(explicit_edge *row, hga_pos n)
{
    for (hga_pos at = 0, end; at < n; at = end) {
        for (end = at + 1; end < n && row[end].src == row[at].src;) end++;
        if (end - at > 1) sort_typed(row + at, end - at);
    }
}

static int same_edge(const explicit_edge *a, const explicit_edge *b)
{
    return a->src == b->src && a->dst == b->dst && a->type == b->type;
}

/* n edges that are one: with one weight, or with the sum of all. */
static hga_status make_one(const stored_relation *r, int sums, explicit_edge *e, hga_pos n)
{
    double sum = 0;
    for (hga_pos i = 0; i < n; i++) sum += (double)e[i].weight;
    if (!sums && e[0].weight < e[n - 1].weight)
        return hga_fail(HGA_EGRAPH, "relation %s: edge %d -> %d of type %d is given with weights %g and %g", r->name,
                        e->src, e->dst, e->type, (double)e[0].weight, (double)e[n - 1].weight);
    if (sums && sum >= 3e38)
        return hga_fail(HGA_EGRAPH, "relation %s: edge %d -> %d of type %d: its weights sum up to %g", r->name, e->src,
                        e->dst, e->type, sum);
    if (sums) e->weight = (float)sum;
    return HGA_OK;
}

/* Each edge once, in front; ptr says where rows begin then. */
static hga_status keep_once(hga_id n, int sums, explicit_edge *edges, stored_relation *r)
{
    hga_pos kept = 0, at = 0, next;
    for (hga_id v = 0; v < n; v++) {
        hga_pos row_end = r->ptr[v + 1];
        r->ptr[v] = kept;
        for (; at < row_end; at = next) {
            for (next = at + 1; next < row_end && same_edge(&edges[at], &edges[next]);) next++;
            hga_status st = next - at > 1 ? make_one(r, sums, &edges[at], next - at) : HGA_OK;
            if (st) return st;
            edges[kept++] = edges[at];
        }
    }
    r->ptr[n] = r->n_explicit = kept;
    return HGA_OK;
}

/* Types and weights are stored where an edge has another than 0 and 1. */
static hga_status store_edges(const hga_allocator *a, const explicit_edge *edges, stored_relation *out)
{
    hga_status st = HGA_OK;
    int typed = 0, weighted = 0;
    for (hga_pos e = 0; e < out->n_explicit; e++) typed |= edges[e].type != 0, weighted |= edges[e].weight != 1;
    HGA_TRY(hga_new(a, out->n_explicit, sizeof *out->src, &out->src));
    if (typed) HGA_TRY(hga_new(a, out->n_explicit, sizeof *out->type, &out->type));
    if (weighted) HGA_TRY(hga_new(a, out->n_explicit, sizeof *out->weight, &out->weight));
    for (hga_pos e = 0; e < out->n_explicit; e++) out->src[e] = edges[e].src;
    for (hga_pos e = 0; typed && e < out->n_explicit; e++) out->type[e] = edges[e].type;
    for (hga_pos e = 0; weighted && e < out->n_explicit; e++) out->weight[e] = edges[e].weight;
done:
    return st;
}

/* ---- edges of one type and of weight 1 ---- */

static int are_plain(const explicit_edge *edges, hga_pos n_edges)
{
    for (hga_pos e = 0; e < n_edges; e++)
        if (edges[e].type != 0 || edges[e].weight != 1) return 0;
    return 1;
}

/* How many edges of a source lie before each, and of a destination: ptr[v] and of[v]. */
static void count_nodes(hga_id n, const explicit_edge *edges, hga_pos n_edges, hga_pos *of, hga_pos *ptr)
{
    memset(of, 0, ((size_t)n + 1) * sizeof *of);
    memset(ptr, 0, ((size_t)n + 1) * sizeof *ptr);
    for (hga_pos e = 0; e < n_edges; e++) of[edges[e].src]++, ptr[edges[e].dst]++;
    for (hga_pos v = 0, sources = 0, destinations = 0; v <= n; v++) {
        hga_pos sends = of[v], receives = ptr[v];
        of[v] = sources, sources += sends;
        ptr[v] = destinations, destinations += receives;
    }
}

/* Sources by destination, ascending: only the other node of an edge is moved, twice. */
static hga_status sort_sources(const hga_allocator *a, hga_id n, const explicit_edge *edges, hga_pos n_edges,
                               hga_pos *ptr, hga_id *sources)
{
    hga_status st = HGA_OK;
    hga_pos *of = NULL, e = 0;
    hga_id *by_source = NULL;
    HGA_TRY(hga_new(a, (int64_t)n + 1, sizeof *of, &of));
    HGA_TRY(hga_new(a, n_edges, sizeof *by_source, &by_source));
    count_nodes(n, edges, n_edges, of, ptr);
    for (hga_pos i = 0; i < n_edges; i++) by_source[of[edges[i].src]++] = edges[i].dst;
    for (hga_id u = 0; u < n; u++)
        for (; e < of[u]; e++) sources[ptr[by_source[e]]++] = u;
    memmove(ptr + 1, ptr, (size_t)n * sizeof *ptr);
    ptr[0] = 0;
done:
    hga_delete(a, of, (int64_t)n + 1, sizeof *of);
    hga_delete(a, by_source, n_edges, sizeof *by_source);
    return st;
}

/* Each source of a row once, and how often it was there as its weight, where that counts. */
static void keep_sources(hga_id n, const hga_id *sources, stored_relation *r)
{
    hga_pos kept = 0, at = 0, next;
    for (hga_id v = 0; v < n; v++) {
        hga_pos row_end = r->ptr[v + 1];
        r->ptr[v] = kept;
        for (; at < row_end; at = next) {
            for (next = at + 1; next < row_end && sources[next] == sources[at];) next++;
            if (r->weight) r->weight[kept] = (float)(next - at);
            r->src[kept++] = sources[at];
        }
    }
    r->ptr[n] = kept;
}

static hga_pos count_kept(hga_id n, const hga_pos *ptr, const hga_id *sources)
{
    hga_pos kept = 0;
    for (hga_id v = 0; v < n; v++)
        for (hga_pos e = ptr[v]; e < ptr[v + 1]; e++) kept += e == ptr[v] || sources[e] != sources[e - 1];
    return kept;
}

/* Edges without types and weights, of which only nodes need be moved. */
static hga_status compress_plain(const hga_allocator *a, hga_id n, const explicit_edge *edges, hga_pos n_edges,
                                 int sums, stored_relation *out)
{
    hga_status st = HGA_OK;
    hga_id *sources = NULL;
    HGA_TRY(hga_new(a, n_edges, sizeof *sources, &sources));
    HGA_TRY(sort_sources(a, n, edges, n_edges, out->ptr, sources));
    out->n_explicit = count_kept(n, out->ptr, sources);
    if (out->n_explicit == n_edges) { /* they are the rows as they lie */
        out->src = sources;
        return HGA_OK;
    }
    HGA_TRY(hga_new(a, out->n_explicit, sizeof *out->src, &out->src));
    if (sums) HGA_TRY(hga_new(a, out->n_explicit, sizeof *out->weight, &out->weight));
    keep_sources(n, sources, out);
done:
    hga_delete(a, sources, n_edges, sizeof *sources);
    return st;
}

/* ---- all edges ---- */

/* Edges by destination, source and type, each once. */
static hga_status compress_all(const hga_allocator *a, hga_id n, explicit_edge *edges, hga_pos n_edges, int sums,
                               stored_relation *out)
{
    hga_status st = HGA_OK;
    explicit_edge *by_source = NULL;
    HGA_TRY(hga_new(a, n_edges, sizeof *by_source, &by_source));
    sort_by_node(n, source_of, edges, n_edges, out->ptr, by_source);
    sort_by_node(n, destination_of, by_source, n_edges, out->ptr, edges);
    for (hga_id v = 0; v < n; v++) sort_types(edges + out->ptr[v], out->ptr[v + 1] - out->ptr[v]);
    HGA_TRY(keep_once(n, sums, edges, out));
    HGA_TRY(store_edges(a, edges, out));
done:
    hga_delete(a, by_source, n_edges, sizeof *by_source);
    return st;
}

hga_status sparse_compress(const hga_allocator *a, hga_id n, explicit_edge *edges, hga_pos n_edges, int sums,
                           stored_relation *out)
{
    hga_status st = hga_new(a, (int64_t)n + 1, sizeof *out->ptr, &out->ptr);
    if (st) return st;
    return are_plain(edges, n_edges) ? compress_plain(a, n, edges, n_edges, sums, out)
                                     : compress_all(a, n, edges, n_edges, sums, out);
}
