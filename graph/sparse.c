/* sparse.c: explicit edges through CXSparse (the only file that includes it): triplets are compressed, and transposed
   twice, which sorts them. */
#include "graph.h"
#include "sort.h"

#include <suitesparse/cs.h>

/* The edges as a triplet matrix, row = source, column = destination; its values are edge numbers, exact in a double up
   to 2^53. */
static cs_dl *triplets(hga_id n, const explicit_edge *edges, hga_pos n_edges)
{
    cs_dl *t = cs_dl_spalloc(n, n, n_edges, 1, 1);
    if (!t) return NULL;
    for (hga_pos e = 0; e < n_edges; e++) {
        t->i[e] = edges[e].src;
        t->p[e] = edges[e].dst;
        t->x[e] = (double)e;
    }
    t->nz = n_edges;
    return t;
}

/* Columns are destinations; within each the sources ascend, and equal ones stay in the order they were given. */
static cs_dl *sorted_by_destination(hga_id n, const explicit_edge *edges, hga_pos n_edges)
{
    cs_dl *t = triplets(n, edges, n_edges);
    cs_dl *columns = t ? cs_dl_compress(t) : NULL;
    cs_dl_spfree(t);
    cs_dl *rows = columns ? cs_dl_transpose(columns, 1) : NULL;
    cs_dl_spfree(columns);
    cs_dl *sorted = rows ? cs_dl_transpose(rows, 1) : NULL;
    cs_dl_spfree(rows);
    return sorted;
}

static const explicit_edge *edge_at(const cs_dl *m, const explicit_edge *edges, hga_pos at)
{
    return &edges[(hga_pos)m->x[at]];
}

typedef struct typed_edge { /* one of several edges between two nodes */
    int32_t type;
    double number;
} typed_edge;

static int typed_before(const typed_edge *a, const typed_edge *b)
{
    return a->type != b->type ? a->type < b->type : a->number < b->number;
}

SORT_DEFINE(sort_typed, typed_edge, typed_before)

/* One past the edges that join the same two nodes as the one at `at`, of destination v. */
static hga_pos pair_end(const cs_dl *m, hga_pos v, hga_pos at)
{
    hga_pos end = at + 1;
    while (end < m->p[v + 1] && m->i[end] == m->i[at]) end++;
    return end;
}

/* The edges between any two nodes by type, equal ones as they were given. */
static hga_status sort_pairs(const hga_allocator *a, cs_dl *m, const explicit_edge *edges)
{
    hga_status st = HGA_OK;
    typed_edge *pair = NULL;
    int64_t room = 0;
    for (hga_pos v = 0; v < m->n; v++)
        for (hga_pos at = m->p[v], end; at < m->p[v + 1]; at = end) {
            end = pair_end(m, v, at);
            if (end - at < 2) continue;
            HGA_TRY(hga_grow(a, &pair, &room, 0, end - at, sizeof *pair));
            for (hga_pos e = at; e < end; e++) pair[e - at] = (typed_edge){edge_at(m, edges, e)->type, m->x[e]};
            sort_typed(pair, end - at);
            for (hga_pos e = at; e < end; e++) m->x[e] = pair[e - at].number;
        }
done:
    hga_delete(a, pair, room, sizeof *pair);
    return st;
}

static int same_edge(const explicit_edge *a, const explicit_edge *b)
{
    return a->src == b->src && a->dst == b->dst && a->type == b->type;
}

static int repeats(const cs_dl *m, const explicit_edge *edges, hga_pos v, hga_pos at)
{
    return at > m->p[v] && same_edge(edge_at(m, edges, at - 1), edge_at(m, edges, at));
}

/* Count the edges, each once; one given twice with two weights is an error. */
static hga_status count_once(const cs_dl *m, const explicit_edge *edges, stored_relation *out)
{
    out->n_explicit = 0;
    for (hga_pos v = 0; v < m->n; v++)
        for (hga_pos at = m->p[v]; at < m->p[v + 1]; at++) {
            const explicit_edge *e = edge_at(m, edges, at);
            if (!repeats(m, edges, v, at))
                out->n_explicit++;
            else if (edge_at(m, edges, at - 1)->weight != e->weight)
                return hga_fail(HGA_EGRAPH, "relation %s: edge %d -> %d of type %d is given with weights %g and %g",
                                out->name, e->src, e->dst, e->type, (double)edge_at(m, edges, at - 1)->weight,
                                (double)e->weight);
        }
    return HGA_OK;
}

static void fill_once(const cs_dl *m, const explicit_edge *edges, stored_relation *out)
{
    hga_pos kept = 0;
    for (hga_pos v = 0; v < m->n; v++) {
        out->ptr[v] = kept;
        for (hga_pos at = m->p[v]; at < m->p[v + 1]; at++) {
            if (repeats(m, edges, v, at)) continue;
            const explicit_edge *e = edge_at(m, edges, at);
            out->src[kept] = e->src;
            if (out->type) out->type[kept] = e->type;
            if (out->weight) out->weight[kept] = e->weight;
            kept++;
        }
    }
    out->ptr[m->n] = kept;
}

hga_status sparse_compress(const hga_allocator *a, hga_id n, const explicit_edge *edges, hga_pos n_edges,
                           stored_relation *out)
{
    hga_status st = HGA_OK;
    int typed = 0, weighted = 0;
    for (hga_pos e = 0; e < n_edges; e++) {
        typed |= edges[e].type != 0;
        weighted |= edges[e].weight != 1;
    }
    cs_dl *m = sorted_by_destination(n, edges, n_edges);
    if (!m) return hga_fail(HGA_ENOMEM, "relation %s: cannot assemble %lld edges", out->name, (long long)n_edges);
    HGA_TRY(sort_pairs(a, m, edges));
    HGA_TRY(count_once(m, edges, out));
    HGA_TRY(hga_new(a, (int64_t)n + 1, sizeof *out->ptr, &out->ptr));
    HGA_TRY(hga_new(a, out->n_explicit, sizeof *out->src, &out->src));
    if (typed) HGA_TRY(hga_new(a, out->n_explicit, sizeof *out->type, &out->type));
    if (weighted) HGA_TRY(hga_new(a, out->n_explicit, sizeof *out->weight, &out->weight));
    fill_once(m, edges, out);
done:
    cs_dl_spfree(m);
    return st;
}
