/* partition.c: the one file that knows METIS. METIS divides by log 1 for one part, prints when a part is left without
   vertices, may answer METIS_OK with empty parts, and cannot be entered twice. So it is only ever asked to cut a graph
   of at least two vertices and one edge in two, under a lock, and its answer is checked; halves are cut again until
   there are enough. */
#include "partition.h"
#include "written.h"

#include <metis.h>
#include <pthread.h>
#include <string.h>

_Static_assert(sizeof(idx_t) == 4, "weights and sizes are scaled for METIS with 32-bit indices");

/* of sums of weights and numbers of edges, so that no sum in METIS leaves 32 bits */
static const int64_t LIMIT = INT64_C(1) << 30;

/* A symmetric graph without loops; vertex i is `name[i]` of the caller's. */
typedef struct subgraph {
    int64_t n, n_adj, room;
    idx_t *ptr, *adj, *weight, *adj_weight;
    int64_t *name;
} subgraph;

typedef struct cutting {
    const hga_allocator *a;
    hga_id *part;
    int64_t *place; /* [n of the whole]: scratch, -1 between uses */
    int64_t n;
    part_found found;
    void *context;
} cutting;

/* A graph of n nodes and n_adj neighbours, to be filled; cleared by piece_clear, whatever comes of it. */
static hga_status piece_create(const hga_allocator *a, int64_t n, int64_t n_adj, subgraph *p)
{
    hga_status st = HGA_OK;
    *p = (subgraph){.n = n, .room = n_adj};
    HGA_TRY(hga_new_zero(a, n + 1, sizeof *p->ptr, &p->ptr));
    HGA_TRY(hga_new(a, n, sizeof *p->weight, &p->weight));
    HGA_TRY(hga_new(a, n, sizeof *p->name, &p->name));
    HGA_TRY(hga_new(a, n_adj, sizeof *p->adj, &p->adj));
    HGA_TRY(hga_new(a, n_adj, sizeof *p->adj_weight, &p->adj_weight));
done:
    return st;
}

static void piece_clear(const hga_allocator *a, subgraph *p)
{
    hga_delete(a, p->ptr, p->n + 1, sizeof *p->ptr);
    hga_delete(a, p->weight, p->n, sizeof *p->weight);
    hga_delete(a, p->name, p->n, sizeof *p->name);
    hga_delete(a, p->adj, p->room, sizeof *p->adj);
    hga_delete(a, p->adj_weight, p->room, sizeof *p->adj_weight);
    *p = (subgraph){0};
}

/* ---- the caller's graph, symmetric, without loops, weights in range ---- */

/* Edges go to vertices, and no weight is negative. */
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

/* What to multiply weights with so that their sum stays below the limit; in double, since int64 may not hold the sum.
   */
static double scale_of(const int64_t *weight, int64_t n, double copies)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += weight ? (double)weight[i] : 1;
    return sum * copies > (double)LIMIT / 2 ? (double)LIMIT / 2 / (sum * copies) : 1;
}

/* At least 1: METIS has no use for vertices and edges of no weight. */
static idx_t scaled(const int64_t *weight, int64_t i, double scale)
{
    double w = (weight ? (double)weight[i] : 1) * scale;
    return w < 1 ? 1 : (idx_t)w;
}

/* Both directions of every edge, row after row. */
static void scatter(const int64_t *ptr, const int64_t *adj, const int64_t *edge_weight, double scale, int64_t *at,
                    subgraph *p)
{
    for (int64_t v = 0; v < p->n; v++)
        for (int64_t e = ptr[v]; e < ptr[v + 1]; e++) {
            if (adj[e] == v) continue;
            idx_t w = scaled(edge_weight, e, scale);
            p->adj[at[v]] = (idx_t)adj[e], p->adj_weight[at[v]++] = w;
            p->adj[at[adj[e]]] = (idx_t)v, p->adj_weight[at[adj[e]]++] = w;
        }
}

/* Edges between the same two vertices become one of their weight together. place[u]: where the row at hand has u. */
static void join_multiple(const int64_t *row, int64_t *place, subgraph *p)
{
    int64_t used = 0;
    for (int64_t v = 0; v < p->n; v++) {
        int64_t start = used;
        for (int64_t e = row[v]; e < row[v + 1]; e++) {
            idx_t u = p->adj[e], w = p->adj_weight[e];
            if (place[u] >= 0) {
                p->adj_weight[place[u]] += w;
                continue;
            }
            place[u] = used;
            p->adj[used] = u, p->adj_weight[used++] = w;
        }
        for (int64_t e = start; e < used; e++) place[p->adj[e]] = -1;
        p->ptr[v + 1] = (idx_t)used;
    }
    p->n_adj = used;
}

/* The caller's graph as METIS takes it: edges in both directions, no loops, weights that fit. */
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
    HGA_TRY(piece_create(c->a, n, row[n], p));
    memcpy(at, row, (size_t)(n + 1) * sizeof *at);
    double scale = scale_of(vertex_weight, n, 1);
    for (int64_t v = 0; v < n; v++) p->weight[v] = scaled(vertex_weight, v, scale), p->name[v] = v;
    scatter(ptr, adj, edge_weight, scale_of(edge_weight ? edge_weight + ptr[0] : NULL, ptr[n] - ptr[0], 2), at, p);
    join_multiple(row, c->place, p);
done:
    hga_delete(c->a, row, n + 1, sizeof *row);
    hga_delete(c->a, at, n + 1, sizeof *at);
    return st;
}

/* ---- in two ---- */

/* The first vertices, by weight, to side 0: good where there are no edges, and in place of an answer that leaves a side
   short of vertices. */
static void cut_in_order(const subgraph *p, hga_id left, hga_id right, idx_t *side)
{
    double total = 0, sum = 0;
    for (int64_t i = 0; i < p->n; i++) total += p->weight[i];
    double goal = total * left / ((double)left + right);
    for (int64_t i = 0; i < p->n; i++) {
        side[i] = i >= left && (i >= p->n - right || sum + p->weight[i] / 2.0 > goal);
        sum += p->weight[i];
    }
}

/* Cuts p in shares for `left` and `right` parts, one caller at a time; the answer is checked. */
static hga_status ask_metis(subgraph *p, hga_id left, hga_id right, idx_t *side)
{
    static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
    idx_t n = (idx_t)p->n, one = 1, two = 2, cut = 0, options[METIS_NOPTIONS];
    real_t share[2] = {(real_t)left / (real_t)(left + right), (real_t)right / (real_t)(left + right)};
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_NUMBERING] = 0;
    options[METIS_OPTION_SEED] = 1;
    pthread_mutex_lock(&turn_lock);
    int answer = METIS_PartGraphRecursive(&n, &one, p->ptr, p->adj, p->weight, NULL, p->adj_weight, &two, share, NULL,
                                          options, &cut, side);
    pthread_mutex_unlock(&turn_lock);
    memory_is_written(side, (size_t)p->n * sizeof *side);
    if (answer == METIS_ERROR_MEMORY)
        return hga_fail(HGA_ENOMEM, "METIS: no memory for %lld vertices", (long long)p->n);
    if (answer != METIS_OK)
        return hga_fail(HGA_EEXTERNAL, "METIS: error %d for %lld vertices", answer, (long long)p->n);
    for (int64_t i = 0; i < p->n; i++)
        if (side[i] != 0 && side[i] != 1)
            return hga_fail(HGA_EEXTERNAL, "METIS: vertex %lld in part %d of 2", (long long)i, (int)side[i]);
    return HGA_OK;
}

/* Two sides for `left` and `right` parts, each with at least as many vertices as parts. */
static hga_status cut_in_two(subgraph *p, hga_id left, hga_id right, idx_t *side)
{
    hga_status st = HGA_OK;
    int64_t on_right = 0;
    if (p->n_adj == 0) {
        cut_in_order(p, left, right, side);
        return HGA_OK;
    }
    HGA_TRY(ask_metis(p, left, right, side));
    for (int64_t i = 0; i < p->n; i++) on_right += side[i];
    if (on_right < right || p->n - on_right < left) cut_in_order(p, left, right, side);
done:
    return st;
}

/* The vertices of one side with the edges among them. place[i]: new number of old vertex i. */
static hga_status take_side(cutting *c, const subgraph *p, const idx_t *side, idx_t which, subgraph *out)
{
    hga_status st = HGA_OK;
    int64_t n = 0, n_adj = 0, used = 0;
    for (int64_t i = 0; i < p->n; i++)
        if (side[i] == which) {
            c->place[i] = n++;
            n_adj += p->ptr[i + 1] - p->ptr[i];
        }
    HGA_TRY(piece_create(c->a, n, n_adj, out));
    for (int64_t i = 0; i < p->n; i++) {
        if (side[i] != which) continue;
        for (idx_t e = p->ptr[i]; e < p->ptr[i + 1]; e++)
            if (side[p->adj[e]] == which)
                out->adj[used] = (idx_t)c->place[p->adj[e]], out->adj_weight[used++] = p->adj_weight[e];
        int64_t v = c->place[i];
        out->ptr[v + 1] = (idx_t)used, out->weight[v] = p->weight[i], out->name[v] = p->name[i];
    }
    out->n_adj = used;
done:
    return st;
}

/* Parts first .. first + n_parts - 1 to the vertices of p, of which there are at least n_parts. Depth: log2 n_parts. */
static hga_status cut(cutting *c, subgraph *p, hga_id first, hga_id n_parts)
{
    hga_status st = HGA_OK;
    idx_t *side = NULL;
    subgraph half[2] = {{0}, {0}};
    hga_id parts[2] = {n_parts / 2, n_parts - n_parts / 2};
    int64_t n = p->n;
    if (n_parts == 1) {
        for (int64_t i = 0; i < n; i++) c->part[p->name[i]] = first;
        if (c->found) c->found(c->context);
        return HGA_OK;
    }
    HGA_TRY(hga_new(c->a, n, sizeof *side, &side));
    HGA_TRY(cut_in_two(p, parts[0], parts[1], side));
    for (idx_t s = 0; s < 2; s++) HGA_TRY(take_side(c, p, side, s, &half[s]));
    piece_clear(c->a, p);
    for (int s = 0; s < 2; s++) HGA_TRY(cut(c, &half[s], first + s * parts[0], parts[s]));
done:
    hga_delete(c->a, side, n, sizeof *side);
    for (int s = 0; s < 2; s++) piece_clear(c->a, &half[s]);
    return st;
}

/* With one part, or no more vertices than parts, METIS is not asked. */
hga_status partition_graph(const hga_allocator *a, int64_t n_vertices, const int64_t *ptr, const int64_t *adj,
                           const int64_t *vertex_weight, const int64_t *edge_weight, hga_id n_parts, part_found found,
                           void *context, hga_id *part)
{
    hga_status st = HGA_OK;
    cutting c = {.a = a, .part = part, .n = n_vertices, .found = found, .context = context};
    subgraph whole = {0};
    HGA_TRY(check_arguments(n_vertices, ptr, adj, vertex_weight, edge_weight, n_parts));
    for (int64_t v = 0; v < n_vertices; v++) part[v] = n_parts == 1 ? 0 : (hga_id)(v < n_parts ? v : 0);
    if (n_parts == 1 || n_vertices <= n_parts) return HGA_OK;
    HGA_TRY(hga_new(a, n_vertices, sizeof *c.place, &c.place));
    for (int64_t v = 0; v < n_vertices; v++) c.place[v] = -1;
    HGA_TRY(symmetrise(&c, n_vertices, ptr, adj, vertex_weight, edge_weight, &whole));
    HGA_TRY(cut(&c, &whole, 0, n_parts));
done:
    hga_delete(a, c.place, n_vertices, sizeof *c.place);
    piece_clear(a, &whole);
    return st;
}
