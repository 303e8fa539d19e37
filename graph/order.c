/* order.c: orders in which neighbours are near each other: reverse Cuthill-McKee, METIS's parts, degrees. */
#include "graph.h"
#include "neighbours.h"
#include "partition.h"
#include "sort.h"

/* Nodes of a part: their rows of a few hundred floats fit a core's second-level cache. */
enum { PART_NODES = 1024 };

static hga_pos degree(const neighbours *x, hga_id v) { return x->ptr[v + 1] - x->ptr[v]; }

/* ---- sorting by a key ---- */

typedef struct keyed {
    int64_t key, then;
    hga_id node;
} keyed;

static int keyed_before(const keyed *a, const keyed *b)
{
    if (a->key != b->key) return a->key < b->key;
    return a->then != b->then ? a->then < b->then : a->node < b->node;
}

SORT_DEFINE(sort_keyed, keyed, keyed_before)

/* ---- reverse Cuthill-McKee ---- */

/* Cuthill and McKee 1969, reversed (George 1971), from a node of great eccentricity (George and Liu 1979). */
typedef struct node_search {
    const neighbours *x;
    hga_id *queue;  /* nodes in the order in which they were reached */
    hga_id *level;  /* steps from the root of a search; -1: not reached */
    uint8_t *taken; /* already in the order */
    keyed *found;   /* neighbours of the current node */
} node_search;

/* A breadth-first search from the root into `queue`, a node's neighbours by ascending degree. Returns the number of
   nodes. */
static hga_id reach_from(node_search *w, hga_id root, hga_id *queue)
{
    hga_id n = 0;
    queue[n++] = root, w->level[root] = 0;
    for (hga_id i = 0; i < n; i++) {
        hga_id v = queue[i], here = 0;
        for (hga_pos e = w->x->ptr[v]; e < w->x->ptr[v + 1]; e++) {
            hga_id u = (hga_id)w->x->node[e];
            if (w->level[u] >= 0) continue;
            w->level[u] = w->level[v] + 1;
            w->found[here++] = (keyed){degree(w->x, u), 0, u};
        }
        sort_keyed(w->found, here);
        for (hga_id k = 0; k < here; k++) queue[n++] = w->found[k].node;
    }
    return n;
}

static void forget_levels(node_search *w, const hga_id *queue, hga_id n)
{
    for (hga_id i = 0; i < n; i++) w->level[queue[i]] = -1;
}

/* The node of least degree on the last level of a search. */
static hga_id farthest(const node_search *w, const hga_id *queue, hga_id n)
{
    hga_id best = queue[n - 1];
    for (hga_id i = n; i-- > 0 && w->level[queue[i]] == w->level[best];)
        if (degree(w->x, queue[i]) <= degree(w->x, best)) best = queue[i];
    return best;
}

/* A component in Cuthill and McKee's order, from a root where searches stop getting deeper. */
static hga_id walk_component(node_search *w, hga_id root, hga_id *queue)
{
    hga_id n = reach_from(w, root, queue), depth = w->level[queue[n - 1]];
    for (;;) {
        hga_id next = farthest(w, queue, n);
        forget_levels(w, queue, n);
        reach_from(w, next, queue);
        if (w->level[queue[n - 1]] <= depth) break;
        depth = w->level[queue[n - 1]];
    }
    for (hga_id i = 0; i < n; i++) w->taken[queue[i]] = 1;
    return n;
}

/* Component after component, starting from nodes of least degree; the order of all is reversed. */
static hga_status order_by_walking(const neighbours *x, hga_id *order)
{
    const hga_allocator *a = &x->allocator;
    hga_status st = HGA_OK;
    node_search w = {.x = x};
    keyed *start = NULL;
    HGA_TRY(hga_new(a, x->n, sizeof *start, &start));
    HGA_TRY(hga_new(a, x->n, sizeof *w.level, &w.level));
    HGA_TRY(hga_new_zero(a, x->n, sizeof *w.taken, &w.taken));
    HGA_TRY(hga_new(a, x->n, sizeof *w.found, &w.found));
    for (hga_id v = 0; v < x->n; v++) start[v] = (keyed){degree(x, v), -v, v}, w.level[v] = -1;
    sort_keyed(start, x->n);
    for (hga_id i = 0, n = 0; i < x->n; i++)
        if (!w.taken[start[i].node]) n += walk_component(&w, start[i].node, order + n);
    for (hga_id i = 0, j = x->n - 1; i < j; i++, j--) {
        hga_id first = order[i];
        order[i] = order[j], order[j] = first;
    }
done:
    hga_delete(a, start, x->n, sizeof *start);
    hga_delete(a, w.level, x->n, sizeof *w.level);
    hga_delete(a, w.taken, x->n, sizeof *w.taken);
    hga_delete(a, w.found, x->n, sizeof *w.found);
    return st;
}

/* ---- METIS ---- */

/* Part after part, where recursive bisection makes neighbouring parts consecutive; within a part in reverse
   Cuthill-McKee order. */
static hga_status order_by_parts(const neighbours *x, hga_id *order)
{
    const hga_allocator *a = &x->allocator;
    hga_status st = HGA_OK;
    hga_id *part = NULL, parts = x->n / PART_NODES + 1;
    keyed *at = NULL;
    HGA_TRY(hga_new(a, x->n, sizeof *part, &part));
    HGA_TRY(hga_new(a, x->n, sizeof *at, &at));
    HGA_TRY(partition_graph(a, x->n, x->ptr, x->node, NULL, NULL, parts, NULL, NULL, part));
    HGA_TRY(order_by_walking(x, order));
    for (hga_id i = 0; i < x->n; i++) at[i] = (keyed){part[order[i]], i, order[i]};
    sort_keyed(at, x->n);
    for (hga_id i = 0; i < x->n; i++) order[i] = at[i].node;
done:
    hga_delete(a, part, x->n, sizeof *part);
    hga_delete(a, at, x->n, sizeof *at);
    return st;
}

/* ---- degrees ---- */

/* Hubs first, so that the rows that most others read are contiguous. */
static hga_status order_by_degree(const neighbours *x, hga_id *order)
{
    keyed *at = NULL;
    hga_status st = hga_new(&x->allocator, x->n, sizeof *at, &at);
    if (st) return st;
    for (hga_id v = 0; v < x->n; v++) at[v] = (keyed){-degree(x, v), 0, v};
    sort_keyed(at, x->n);
    for (hga_id i = 0; i < x->n; i++) order[i] = at[i].node;
    hga_delete(&x->allocator, at, x->n, sizeof *at);
    return HGA_OK;
}

/* ---- levels and sides ---- */

/* Sorts the order stably by level and side: nodes keep both. */
static hga_status keep_levels(const hga_graph *g, hga_id *order)
{
    hga_status st = HGA_OK;
    hga_nodes nodes = hga_graph_nodes(g);
    keyed *at = NULL;
    HGA_TRY(hga_new(hga_graph_allocator(g), nodes.n, sizeof *at, &at));
    for (hga_id i = 0; i < nodes.n; i++) at[i] = (keyed){node_stand(g, order[i]), i, order[i]};
    sort_keyed(at, nodes.n);
    for (hga_id i = 0; i < nodes.n; i++) order[i] = at[i].node;
done:
    hga_delete(hga_graph_allocator(g), at, nodes.n, sizeof *at);
    return st;
}

hga_status hga_graph_order(const hga_graph *g, hga_ordering how, hga_id *order)
{
    static hga_status (*const find[HGA_ORDERING_DEGREE + 1])(const neighbours *,
                                                             hga_id *) = {[HGA_ORDERING_RCM] = order_by_walking,
                                                                          [HGA_ORDERING_METIS] = order_by_parts,
                                                                          [HGA_ORDERING_DEGREE] = order_by_degree};
    hga_status st = HGA_OK;
    neighbours x = {0};
    if (how < HGA_ORDERING_RCM || how > HGA_ORDERING_DEGREE)
        return hga_fail(HGA_EINVAL, "order %d is not known", (int)how);
    HGA_TRY(neighbours_find(g, &x));
    HGA_TRY(find[how](&x, order));
    HGA_TRY(keep_levels(g, order));
done:
    neighbours_clear(&x);
    return st;
}
