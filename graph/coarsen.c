/* coarsen.c: a tree of clusters over a graph, as in METIS's multilevel schemes: the nodes of a level are partitioned
   into small clusters, whose graph is that of the level above. */
#include "copy.h"
#include "graph.h"
#include "interrupt.h"
#include "partition.h"
#include "sort.h"

/* An edge of a level's graph: all edges of one relation and type between the tokens of two of its nodes. */
typedef struct bundle {
    hga_id relation, dst, src;
    int32_t type;
    int64_t n;     /* edges between tokens */
    double weight; /* of all of them, times the masses of their ends */
} bundle;

typedef struct coarsening {
    const hga_graph *g;
    const hga_allocator *a;
    hga_id n_levels, *level_ptr; /* [n_levels + 1] */
    hga_id *parent;              /* [level_ptr[n_levels]] */
    double *mass;                /* the same */
    bundle *bundle;              /* [n], of the current level */
    int64_t n, capacity;
    hga_builder *b;
    hga_progress progress;
    void *context;
    int64_t found; /* clusters, of all levels */
} coarsening;

/* ---- what can be coarsened, and into how many ---- */

/* Requires a graph of one level whose queries are its keys, and clusters of at least 2. */
static hga_status check_graph(const hga_graph *g, const hga_id *size, hga_id n_sizes)
{
    if (!g) return hga_fail(HGA_EINVAL, "no graph to coarsen");
    if (g->n_levels > 1) return hga_fail(HGA_EINVAL, "a graph of %d levels has a tree already", g->n_levels);
    hga_nodes nodes = hga_graph_nodes(g);
    if (is_cross(&nodes)) return hga_fail(HGA_EUNSUPPORTED, "tokens on two sides have no clusters in common");
    if (n_sizes < 1 || !size) return hga_fail(HGA_EINVAL, "no sizes of clusters");
    for (hga_id l = 0; l < n_sizes; l++)
        if (size[l] < 2) return hga_fail(HGA_EINVAL, "clusters of %d nodes: 2 are the fewest", size[l]);
    return HGA_OK;
}

/* Plans levels until the sizes end or one cluster is left, and allocates parents and masses. */
static hga_status plan_levels(coarsening *x, const hga_id *size, hga_id n_sizes)
{
    hga_status st = hga_new(x->a, (int64_t)n_sizes + 2, sizeof *x->level_ptr, &x->level_ptr);
    if (st) return st;
    int64_t n = x->g->n, end = n;
    x->level_ptr[0] = 0, x->level_ptr[1] = x->g->n, x->n_levels = 1;
    for (hga_id l = 0; l < n_sizes && n > 1; l++) {
        n = (n - 1) / size[l] + 1, end += n;
        if (end > INT32_MAX - 3) return hga_fail(HGA_EOVERFLOW, "level %d: more than %d nodes", l + 1, INT32_MAX - 3);
        x->level_ptr[++x->n_levels] = (hga_id)end;
    }
    st = hga_new(x->a, end, sizeof *x->parent, &x->parent);
    for (int64_t v = 0; !st && v < end; v++) x->parent[v] = -1;
    if (!st) st = hga_new_zero(x->a, end, sizeof *x->mass, &x->mass);
    for (hga_id v = 0; !st && v < x->g->n; v++) x->mass[v] = (double)x->g->node.mass[v];
    return st;
}

/* ---- the graph of a level ---- */

static bundle bundle_of(const coarsening *x, hga_id relation, const hga_csr *rows, hga_id row, hga_pos e)
{
    hga_id v = rows->first + row, u = rows->src[e];
    return (bundle){relation, v, u, rows->type[e], 1, (double)rows->weight[e] * x->mass[v] * x->mass[u]};
}

/* Every edge of every relation as a bundle. */
static hga_status bundle_tokens(coarsening *x)
{
    enum { ROWS = 4096 };
    hga_status st = HGA_OK;
    hga_csr rows = {0};
    for (hga_id r = 0; r < x->g->n_relations; r++)
        for (hga_id first = 0; first < x->g->n; first += ROWS) {
            hga_id n = x->g->n - first < ROWS ? x->g->n - first : ROWS;
            HGA_TRY(hga_graph_rows(x->g, r, first, n, &rows));
            HGA_TRY(hga_grow(x->a, &x->bundle, &x->capacity, x->n, x->n + rows.ptr[n], sizeof *x->bundle));
            for (hga_id i = 0; i < n; i++)
                for (hga_pos e = rows.ptr[i]; e < rows.ptr[i + 1]; e++)
                    x->bundle[x->n++] = bundle_of(x, r, &rows, i, e);
            hga_csr_clear(&rows);
            HGA_TRY(interrupted());
        }
done:
    hga_csr_clear(&rows);
    return st;
}

static int same_edge(const bundle *a, const bundle *b)
{
    return a->relation == b->relation && a->dst == b->dst && a->src == b->src && a->type == b->type;
}

static int bundle_before(const bundle *a, const bundle *b)
{
    if (a->relation != b->relation) return a->relation < b->relation;
    if (a->dst != b->dst) return a->dst < b->dst;
    if (a->src != b->src) return a->src < b->src;
    if (a->type != b->type) return a->type < b->type;
    return a->n != b->n ? a->n < b->n : a->weight < b->weight;
}

SORT_DEFINE(sort_bundles, bundle, bundle_before)

/* Replaces the ends of bundles by their parents and merges equal edges. */
static void bundle_above(coarsening *x)
{
    int64_t used = 0;
    for (int64_t i = 0; i < x->n; i++)
        x->bundle[i].dst = x->parent[x->bundle[i].dst], x->bundle[i].src = x->parent[x->bundle[i].src];
    sort_bundles(x->bundle, x->n);
    for (int64_t i = 0; i < x->n; i++) {
        const bundle *one = &x->bundle[i];
        if (used && same_edge(&x->bundle[used - 1], one))
            x->bundle[used - 1].n += one->n, x->bundle[used - 1].weight += one->weight;
        else
            x->bundle[used++] = *one;
    }
    x->n = used;
}

/* ---- clusters ---- */

/* Reports progress at most a thousand times: a callback may cost more than the smallest clusters do. */
static void tell_found(void *context)
{
    coarsening *x = context;
    int64_t all = x->level_ptr[x->n_levels] - x->g->n, before = x->found++;
    if (before * 1000 / all < x->found * INT64_C(1000) / all) x->progress((double)x->found / (double)all, x->context);
}

/* Partitions the level's graph into the clusters above it. An edge's weight is the number of token edges in it. */
static hga_status cut_level(coarsening *x, hga_id level)
{
    hga_status st = HGA_OK;
    hga_id first = x->level_ptr[level], above = x->level_ptr[level + 1], n = above - first;
    hga_id parts = x->level_ptr[level + 2] - above;
    int64_t *ptr = NULL, *adj = NULL, *weight = NULL;
    HGA_TRY(hga_new_zero(x->a, (int64_t)n + 1, sizeof *ptr, &ptr));
    HGA_TRY(hga_new(x->a, x->n, sizeof *adj, &adj));
    HGA_TRY(hga_new(x->a, x->n, sizeof *weight, &weight));
    for (int64_t i = 0; i < x->n; i++) ptr[x->bundle[i].dst - first + 1]++;
    for (hga_id v = 0; v < n; v++) ptr[v + 1] += ptr[v];
    for (int64_t i = x->n; i-- > 0;) {
        const bundle *e = &x->bundle[i];
        int64_t at = --ptr[e->dst - first + 1];
        adj[at] = e->src - first, weight[at] = e->n;
    }
    for (hga_id v = 0; v < n; v++) ptr[v] = ptr[v + 1];
    ptr[n] = x->n;
    HGA_TRY(
        partition_graph(x->a, n, ptr, adj, NULL, weight, parts, x->progress ? tell_found : NULL, x, x->parent + first));
    x->found = above + parts - x->g->n;
    for (hga_id v = first; v < above; v++) x->parent[v] += above, x->mass[x->parent[v]] += x->mass[v];
done:
    hga_delete(x->a, ptr, (int64_t)n + 1, sizeof *ptr);
    hga_delete(x->a, adj, x->n, sizeof *adj);
    hga_delete(x->a, weight, x->n, sizeof *weight);
    return st;
}

/* ---- the whole graph ---- */

/* Adds a relation with its edges between tokens. */
static hga_status begin_relation(coarsening *x, hga_id relation)
{
    hga_status st = HGA_OK;
    hga_relation r = hga_graph_relation(x->g, relation);
    hga_id n = x->g->n;
    HGA_TRY(hga_builder_add_relation(x->b, r.name, &relation));
    if (r.dst_order || r.src_order)
        HGA_TRY(hga_builder_set_order(x->b, relation, r.dst_order, r.dst_order ? n : 0, r.src_order, r.n_src_order));
    HGA_TRY(blocks_copy(x->b, relation, &r));
    for (hga_id v = 0; r.n_explicit && v < n; v++)
        for (hga_pos e = r.ptr[v]; e < r.ptr[v + 1]; e++)
            HGA_TRY(
                hga_builder_add_edge(x->b, relation, r.src[e], v, r.type ? r.type[e] : 0, r.weight ? r.weight[e] : 1));
done:
    return st;
}

/* Adds everything but the parents and the edges above the tokens. */
static hga_status begin_graph(coarsening *x)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_builder_create(x->a, &x->b));
    for (hga_id l = 0; l < x->n_levels; l++)
        HGA_TRY(hga_builder_add_level(x->b, x->level_ptr[l + 1] - x->level_ptr[l], NULL));
    HGA_TRY(masses_copy(x->b, x->a, x->g->n, NULL, x->g->node.mass));
    HGA_TRY(positions_copy(x->b, x->g, 0, NULL));
    HGA_TRY(names_copy(x->b, x->g, NULL));
    HGA_TRY(kinds_copy(x->b, x->g, NULL));
    for (hga_id r = 0; r < x->g->n_relations; r++) HGA_TRY(begin_relation(x, r));
done:
    return st;
}

/* Adds the level's edges. Those of weight 0, between tokens without mass, are left out. */
static hga_status add_bundles(const coarsening *x)
{
    hga_status st = HGA_OK;
    for (int64_t i = 0; i < x->n && !st; i++) {
        const bundle *e = &x->bundle[i];
        float weight = e->weight > 0 ? (float)(e->weight / (x->mass[e->dst] * x->mass[e->src])) : 0;
        if (weight > 0) st = hga_builder_add_edge(x->b, e->relation, e->src, e->dst, e->type, weight);
    }
    return st;
}

hga_status hga_graph_coarsen(const hga_graph *g, const hga_id *size, hga_id n_sizes, hga_progress progress,
                             void *context, hga_graph **out)
{
    hga_status st = HGA_OK;
    coarsening x = {.g = g, .progress = progress, .context = context};
    *out = NULL;
    HGA_TRY(check_graph(g, size, n_sizes));
    x.a = hga_graph_allocator(g);
    HGA_TRY(plan_levels(&x, size, n_sizes));
    HGA_TRY(begin_graph(&x));
    HGA_TRY(bundle_tokens(&x));
    for (hga_id l = 0; l + 1 < x.n_levels; l++) {
        HGA_TRY(cut_level(&x, l));
        HGA_TRY(interrupted());
        bundle_above(&x);
        HGA_TRY(interrupted());
        HGA_TRY(add_bundles(&x));
    }
    HGA_TRY(parents_copy(x.b, x.parent, x.level_ptr[x.n_levels]));
    HGA_TRY(hga_builder_finish(x.b, out));
done:
    if (x.level_ptr) hga_delete(x.a, x.parent, x.level_ptr[x.n_levels], sizeof *x.parent);
    if (x.level_ptr) hga_delete(x.a, x.mass, x.level_ptr[x.n_levels], sizeof *x.mass);
    if (x.level_ptr) hga_delete(x.a, x.level_ptr, (int64_t)n_sizes + 2, sizeof *x.level_ptr);
    hga_delete(x.a, x.bundle, x.capacity, sizeof *x.bundle);
    hga_builder_destroy(x.b);
    return st;
}
