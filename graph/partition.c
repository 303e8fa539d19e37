/* partition.c: partitions a graph, scaled to METIS's limits, by recursive bisection. */
#include "cut_in_two.h"
#include "interrupt.h"
#include "partition.h"

#include <string.h>

/* of sums of weights and numbers of edges, so that no sum in METIS leaves 32 bits */
static const int64_t LIMIT = INT64_C(1) << 30;

typedef struct cutting {
    const hga_allocator *a, *of_subgraphs;
    hga_id *part;
    int64_t *index; /* [n of the whole]: scratch, -1 between uses */
    int64_t n;
    part_found found;
    void *context;
} cutting;

/* ---- the caller's graph, symmetric, without loops, weights in range ---- */

/* Requires edges to vertices and weights that are not negative. */
static hga_status check_arguments(int64_t n, const int64_t *ptr, const int64_t *adj, const int64_t *vertex_weight,
                                  const int64_t *edge_weight, hga_id n_parts)
{
    if (n_parts < 1) return hga_fail(HGA_EINVAL, "partition: %d parts", n_parts);
    if (n < 0 || n > LIMIT / 2)
        return hga_fail(n < 0 ? HGA_EINVAL : HGA_EOVERFLOW, "partition: %lld vertices", (long long)n);
    for (int64_t v = 0; v < n; v++) {
        if (vertex_weight && vertex_weight[v] < 0)
            return hga_fail(HGA_EINVAL, "partition: vertex %lld weighs %lld", (long long)v,
                            (long long)vertex_weight[v]);
        if (ptr[v] > ptr[v + 1]) return hga_fail(HGA_EINVAL, "partition: offsets fall at vertex %lld", (long long)v);
        for (int64_t e = ptr[v]; e < ptr[v + 1]; e++) {
            long long edge = (long long)e;
            if (adj[e] < 0 || adj[e] >= n)
                return hga_fail(HGA_EINVAL, "partition: edge %lld goes to vertex %lld of %lld", edge, (long long)adj[e],
                                (long long)n);
            if (edge_weight && edge_weight[e] < 0)
                return hga_fail(HGA_EINVAL, "partition: edge %lld weighs %lld", edge, (long long)edge_weight[e]);
        }
    }
    return HGA_OK;
}

/* The factor that keeps the sum of weights below the limit; in double, since int64 may not hold the sum. */
static double scale_of(const int64_t *weight, int64_t n, double copies)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += weight ? (double)weight[i] : 1;
    return sum * copies > (double)LIMIT / 2 ? (double)LIMIT / 2 / (sum * copies) : 1;
}

/* At least 1: METIS requires positive weights. */
static int32_t scaled(const int64_t *weight, int64_t i, double scale)
{
    double w = (weight ? (double)weight[i] : 1) * scale;
    return w < 1 ? 1 : (int32_t)w;
}

/* Writes both directions of every edge, row after row. */
static void scatter(const int64_t *ptr, const int64_t *adj, const int64_t *edge_weight, double scale, int64_t *at,
                    subgraph *p)
{
    for (int64_t v = 0; v < p->n; v++)
        for (int64_t e = ptr[v]; e < ptr[v + 1]; e++) {
            if (adj[e] == v) continue;
            int32_t w = scaled(edge_weight, e, scale);
            p->adj[at[v]] = (int32_t)adj[e], p->adj_weight[at[v]++] = w;
            p->adj[at[adj[e]]] = (int32_t)v, p->adj_weight[at[adj[e]]++] = w;
        }
}

/* Merges edges between the same two vertices and adds their weights. index[u]: where the current row has u. */
static hga_status join_multiple(const int64_t *row, int64_t *index, subgraph *p)
{
    hga_status st = HGA_OK;
    int64_t used = 0;
    for (int64_t v = 0; v < p->n && !st; v++) {
        int64_t start = used;
        for (int64_t e = row[v]; e < row[v + 1]; e++) {
            int32_t u = p->adj[e], w = p->adj_weight[e];
            if (index[u] >= 0) {
                p->adj_weight[index[u]] += w;
                continue;
            }
            index[u] = used;
            p->adj[used] = u, p->adj_weight[used++] = w;
        }
        for (int64_t e = start; e < used; e++) index[p->adj[e]] = -1;
        p->ptr[v + 1] = (int32_t)used;
        st = interrupted_at(v);
    }
    p->n_adj = used;
    return st;
}

/* The caller's graph for METIS: edges in both directions, no loops, weights that fit. */
static hga_status symmetrise(cutting *c, int64_t n, const int64_t *ptr, const int64_t *adj,
                             const int64_t *vertex_weight, const int64_t *edge_weight, subgraph *p)
{
    hga_status st = HGA_OK;
    int64_t *row = NULL, *at = NULL;
    HGA_TRY(hga_new_zero(c->a, n + 1, sizeof *row, &row));
    HGA_TRY(hga_new(c->a, n + 1, sizeof *at, &at));
    for (int64_t v = 0; v < n; v++)
        for (int64_t e = ptr[v]; e < ptr[v + 1]; e++)
            if (adj[e] != v) row[v + 1]++, row[adj[e] + 1]++;
    for (int64_t v = 0; v < n; v++) row[v + 1] += row[v];
    if (row[n] > LIMIT) {
        st = hga_fail(HGA_EOVERFLOW, "partition: %lld edges in both directions, METIS takes %lld", (long long)row[n],
                      (long long)LIMIT);
        goto done;
    }
    HGA_TRY(subgraph_create(c->of_subgraphs, n, row[n], p));
    memcpy(at, row, (size_t)(n + 1) * sizeof *at);
    double scale = scale_of(vertex_weight, n, 1);
    for (int64_t v = 0; v < n; v++) p->weight[v] = scaled(vertex_weight, v, scale), p->name[v] = v;
    scatter(ptr, adj, edge_weight, scale_of(edge_weight ? edge_weight + ptr[0] : NULL, ptr[n] - ptr[0], 2), at, p);
    HGA_TRY(interrupted());
    HGA_TRY(join_multiple(row, c->index, p));
done:
    hga_delete(c->a, row, n + 1, sizeof *row);
    hga_delete(c->a, at, n + 1, sizeof *at);
    return st;
}

/* The subgraph of one side's vertices. index[i]: new number of old vertex i. */
static hga_status take_side(cutting *c, const subgraph *p, const int32_t *side, int32_t which, subgraph *out)
{
    hga_status st = HGA_OK;
    int64_t n = 0, n_adj = 0, used = 0;
    for (int64_t i = 0; i < p->n; i++)
        if (side[i] == which) {
            c->index[i] = n++;
            n_adj += p->ptr[i + 1] - p->ptr[i];
        }
    HGA_TRY(subgraph_create(c->of_subgraphs, n, n_adj, out));
    HGA_TRY(interrupted());
    for (int64_t i = 0; i < p->n; i++) {
        if (side[i] != which) continue;
        for (int32_t e = p->ptr[i]; e < p->ptr[i + 1]; e++)
            if (side[p->adj[e]] == which)
                out->adj[used] = (int32_t)c->index[p->adj[e]], out->adj_weight[used++] = p->adj_weight[e];
        int64_t v = c->index[i];
        out->ptr[v + 1] = (int32_t)used, out->weight[v] = p->weight[i], out->name[v] = p->name[i];
    }
    out->n_adj = used;
done:
    return st;
}

/* Assigns parts first .. first + n_parts - 1 to the vertices of p, of which there are at least n_parts. Depth: log2
   n_parts. */
static hga_status cut(cutting *c, subgraph *p, hga_id first, hga_id n_parts)
{
    hga_status st = HGA_OK;
    int32_t *side = NULL;
    subgraph half[2] = {{0}, {0}};
    hga_id parts[2] = {n_parts / 2, n_parts - n_parts / 2};
    int64_t n = p->n;
    if (n_parts == 1) {
        for (int64_t i = 0; i < n; i++) c->part[p->name[i]] = first;
        if (c->found) c->found(c->context);
        return HGA_OK;
    }
    HGA_TRY(hga_new(c->of_subgraphs, n, sizeof *side, &side));
    HGA_TRY(cut_in_two(p, parts[0], parts[1], &side));
    for (int32_t s = 0; s < 2; s++) HGA_TRY(take_side(c, p, side, s, &half[s]));
    subgraph_clear(c->of_subgraphs, p);
    for (int s = 0; s < 2; s++) HGA_TRY(cut(c, &half[s], first + s * parts[0], parts[s]));
done:
    hga_delete(c->of_subgraphs, side, n, sizeof *side);
    for (int s = 0; s < 2; s++) subgraph_clear(c->of_subgraphs, &half[s]);
    return st;
}

/* Calls METIS only for two parts or more and more vertices than parts. */
hga_status partition_graph(const hga_allocator *a, int64_t n_vertices, const int64_t *ptr, const int64_t *adj,
                           const int64_t *vertex_weight, const int64_t *edge_weight, hga_id n_parts, part_found found,
                           void *context, hga_id *part)
{
    hga_status st = HGA_OK;
    cutting c = {.a = a,
                 .of_subgraphs = subgraph_allocator(a),
                 .part = part,
                 .n = n_vertices,
                 .found = found,
                 .context = context};
    subgraph whole = {0};
    HGA_TRY(check_arguments(n_vertices, ptr, adj, vertex_weight, edge_weight, n_parts));
    for (int64_t v = 0; v < n_vertices; v++) part[v] = n_parts == 1 ? 0 : (hga_id)(v < n_parts ? v : 0);
    if (n_parts == 1 || n_vertices <= n_parts) return HGA_OK;
    HGA_TRY(hga_new(a, n_vertices, sizeof *c.index, &c.index));
    for (int64_t v = 0; v < n_vertices; v++) c.index[v] = -1;
    HGA_TRY(symmetrise(&c, n_vertices, ptr, adj, vertex_weight, edge_weight, &whole));
    HGA_TRY(cut(&c, &whole, 0, n_parts));
done:
    hga_delete(a, c.index, n_vertices, sizeof *c.index);
    subgraph_clear(c.of_subgraphs, &whole);
    return st;
}
