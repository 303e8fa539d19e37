/* sparse.c: explicit edges through CXSparse (the only file that includes it): triplets are compressed, and transposed
   twice, which sorts them. */
#include "graph.h"

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

/* Sort the edges of one (source, destination) pair by type: insertion, since pairs have few. */
static void sort_types(cs_dl *m, const explicit_edge *edges, hga_pos first, hga_pos last)
{
    for (hga_pos i = first + 1; i < last; i++)
        for (hga_pos j = i; j > first && edge_at(m, edges, j - 1)->type > edge_at(m, edges, j)->type; j--) {
            double x = m->x[j];
            m->x[j] = m->x[j - 1], m->x[j - 1] = x;
        }
}

static void sort_pairs(cs_dl *m, const explicit_edge *edges)
{
    for (hga_pos v = 0; v < m->n; v++)
        for (hga_pos at = m->p[v], end; at < m->p[v + 1]; at = end) {
            for (end = at + 1; end < m->p[v + 1] && m->i[end] == m->i[at]; end++) continue;
            sort_types(m, edges, at, end);
        }
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
    sort_pairs(m, edges);
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
