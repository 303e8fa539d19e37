/* family_order.c: a tree whose nodes have edges to their siblings alone, as families: in an order that uses a
   family's coarse rows while they are in cache, and in shares that threads may take in parallel. */
#include "families.h"
#include "plan.h"

/* ---- edges ---- */

typedef struct edge_reader {
    family_order *o;
    hga_relation r;
    const hga_id *index; /* [n]: positions of nodes; NULL: the node's id */
    const char *why;     /* NULL: no other edge so far */
} edge_reader;

/* Sets an edge's bit. Refuses edges that are not between siblings, have a weight other than 1, or come twice. */
static void read_edge(edge_reader *x, hga_id v, hga_id u, float weight)
{
    const family_order *o = x->o;
    hga_id above = o->nodes.parent[v];
    if (above < 0 || o->nodes.parent[u] != above) x->why = "an attended edge is not between siblings";
    if (weight != 1) x->why = "an attended edge has a weight";
    if (x->why) return;
    uint64_t *columns = &o->columns[x->index ? x->index[v] : v];
    uint64_t bit = (uint64_t)1 << ((x->index ? x->index[u] : u) - index_of(o, above));
    if (*columns & bit) x->why = "an attended edge is there twice";
    *columns |= bit;
}

static void read_segment(edge_reader *x, const hga_segment *s)
{
    for (hga_id p = s->row; p < s->row + s->n_rows && !x->why; p++) {
        hga_id c0, c1, hole, v = x->r.dst_order ? x->r.dst_order[p] : p;
        hga_segment_columns(s, p, &c0, &c1, &hole);
        for (hga_id c = c0; c < c1; c++)
            if (c != hole) read_edge(x, v, x->r.src_order ? x->r.src_order[s->src + c] : s->src + c, s->weight);
    }
}

static void read_segments(const hga_segments *s, void *context)
{
    edge_reader *x = context;
    for (hga_id i = 0; i < s->count && !x->why; i++) {
        hga_segment one = hga_segments_at(s, i);
        read_segment(x, &one);
    }
}

/* Sets which siblings each member of a family has an edge to, as bits; or *why the edges do not fit. */
static hga_status read_edges(family_order *o, hga_id relation, const char **why)
{
    hga_status st = HGA_OK;
    hga_id *index = NULL, n = o->nodes.n, places = o->nodes.child_ptr[o->n_above];
    HGA_TRY(hga_new_zero(&o->plan->memory.allocator, n, sizeof *o->columns, &o->columns));
    if (o->nodes.child_list) {
        HGA_TRY(hga_new(&o->plan->memory.allocator, n, sizeof *index, &index));
        for (hga_id i = 0; i < places; i++) index[o->nodes.child_list[i]] = i;
    }
    edge_reader x = {.o = o, .r = hga_graph_relation(o->plan->graph, relation), .index = index};
    if (x.r.n_blocks) hga_graph_visit_segments(o->plan->graph, relation, 0, n, read_segments, &x);
    for (hga_id v = 0; x.r.ptr && v < n && !x.why; v++)
        for (hga_pos e = x.r.ptr[v]; e < x.r.ptr[v + 1]; e++)
            read_edge(&x, v, x.r.src[e], x.r.weight ? x.r.weight[e] : 1);
    *why = x.why;
done:
    hga_delete(&o->plan->memory.allocator, index, n, sizeof *index);
    return st;
}

/* edge_ptr: the prefix sum of families' edges, in the order of the nodes above them. */
static hga_status count_edges(family_order *o)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_new_zero(&o->plan->memory.allocator, o->n_above + 1, sizeof *o->edge_ptr, &o->edge_ptr));
    for (hga_id i = 0; i < o->n_above; i++) {
        hga_pos n = 0;
        for (hga_id p = o->nodes.child_ptr[i]; p < o->nodes.child_ptr[i + 1]; p++)
            n += __builtin_popcountll(o->columns[p]);
        o->edge_ptr[i + 1] = o->edge_ptr[i] + n;
    }
done:
    return st;
}

/* ---- the order ---- */

/* Lists every node above the tokens after its parent, children from left to right, or from right to left. */
static void walk_down(const family_order *o, int leftwards, hga_id *stack, hga_id *out)
{
    hga_id n = 0, depth = 0;
    for (hga_id i = 0; i < o->n_above; i++) {
        hga_id root = leftwards ? o->nodes.n - 1 - i : o->base + i;
        if (o->nodes.parent[root] < 0) stack[depth++] = root;
        while (depth > 0) {
            hga_id v = out[n++] = stack[--depth], first = index_of(o, v), members = members_of(o, v);
            for (hga_id j = 0; j < members; j++) {
                hga_id u = member_at(o, leftwards ? first + j : first + members - 1 - j);
                if (u >= o->base) stack[depth++] = u;
            }
        }
    }
}

static void reverse(hga_id n, hga_id *x)
{
    for (hga_id i = 0; i < n / 2; i++) {
        hga_id other = x[n - 1 - i];
        x[n - 1 - i] = x[i], x[i] = other;
    }
}

/* ---- shares ---- */

/* Counts the members of families at and below each node. */
static void count_below(const family_order *o, int64_t *below)
{
    for (hga_id i = 0; i < o->n_above; i++) {
        hga_id v = o->up[i], first = index_of(o, v), members = members_of(o, v);
        below[v - o->base] = members;
        for (hga_id j = 0; j < members; j++) {
            hga_id u = member_at(o, first + j);
            if (u >= o->base) below[v - o->base] += below[u - o->base];
        }
    }
}

/* Starts a new share with node v's families, or adds them to the last share, if that has capacity and its families
   are of siblings of v. */
static hga_status join_share(family_order *o, hga_id v, int64_t members, int64_t most, int64_t *in_last, hga_id *last)
{
    hga_id above = o->nodes.parent[v];
    int joins = o->n_shares > 0 && *last >= 0 && *last == above && *in_last + members <= most;
    if (!joins) {
        if (o->n_shares == o->share_capacity) {
            hga_status st = hga_grow(&o->plan->memory.allocator, &o->share, &o->share_capacity, o->n_shares,
                                     o->n_shares + 1, sizeof *o->share);
            if (st) return st;
        }
        o->share[o->n_shares++] = (family_share){0}, *in_last = 0;
    }
    *in_last += members, *last = above;
    return HGA_OK;
}

/* Sets each node's share in `of`, -1 for nodes above all shares; and the range of each share. */
static hga_status cut_shares(family_order *o, const int64_t *below, hga_id *of)
{
    hga_status st = HGA_OK;
    int64_t most = o->nodes.child_ptr[o->n_above] / SHARES, in_last = 0;
    hga_id last = -1;
    most = most < LEAST_MEMBERS ? LEAST_MEMBERS : most;
    for (hga_id i = 0; i < o->n_above; i++) {
        hga_id v = o->down[i], above = o->nodes.parent[v];
        of[v - o->base] = above < 0 ? -1 : of[above - o->base];
        if (of[v - o->base] >= 0) continue;
        if (below[v - o->base] > most) {
            last = -1;
            continue;
        }
        HGA_TRY(join_share(o, v, below[v - o->base], most, &in_last, &last));
        of[v - o->base] = o->n_shares - 1;
    }
    if (o->n_shares == o->share_capacity)
        HGA_TRY(hga_grow(&o->plan->memory.allocator, &o->share, &o->share_capacity, o->n_shares, o->n_shares + 1,
                         sizeof *o->share));
    o->share[o->n_shares++] = (family_share){0};
    for (hga_id i = 0; i < o->n_above; i++) o->share[of[i] < 0 ? o->n_shares - 1 : of[i]].end++;
    for (hga_id i = 0, at = 0; i < o->n_shares; i++)
        o->share[i].first = at, at += o->share[i].end, o->share[i].end = at;
done:
    return st;
}

/* Sorts nodes of shares first, those above all shares last; stable. */
static void part(const family_order *o, const hga_id *of, hga_id *order, hga_id *scratch)
{
    hga_id n = 0, above = 0;
    for (hga_id i = 0; i < o->n_above; i++)
        if (of[order[i] - o->base] < 0)
            scratch[above++] = order[i];
        else
            order[n++] = order[i];
    for (hga_id i = 0; i < above; i++) order[n + i] = scratch[i];
}

/* Assigns slots to a family's members and frees the slot of the node above them, unless that belongs to another
   share. Slots start at `from`; returns how many are needed. */
static hga_id assign_slots(family_order *o, const family_share *s, hga_id from, hga_id *free_slots)
{
    hga_id n_free = 0, n = 0;
    for (hga_id i = s->first; i < s->end; i++) {
        hga_id v = o->down[i], first = index_of(o, v), members = members_of(o, v), own = o->slot[v - o->base];
        for (hga_id j = 0; j < members; j++) {
            hga_id u = member_at(o, first + j);
            if (u >= o->base) o->slot[u - o->base] = n_free ? free_slots[--n_free] : from + n++;
        }
        if (own >= from && own < from + n && o->nodes.parent[v] >= 0) free_slots[n_free++] = own;
    }
    return n;
}

static void find_slots(family_order *o, hga_id *free_slots)
{
    hga_id last = o->n_shares - 1;
    for (hga_id i = 0; i < o->n_above; i++) o->slot[i] = -1;
    for (hga_id i = 0; i < last; i++) {
        hga_id n = assign_slots(o, &o->share[i], 0, free_slots);
        o->n_slots = n > o->n_slots ? n : o->n_slots;
    }
    o->n_top_slots = assign_slots(o, &o->share[last], o->n_slots, free_slots);
}

/* Finds the orders of families up and down the tree, in shares for threads, and the slots of their gradients. */
static hga_status find_order(family_order *o)
{
    hga_status st = HGA_OK;
    const hga_allocator *a = &o->plan->memory.allocator;
    hga_id *scratch = NULL, *of = NULL;
    int64_t *below = NULL;
    HGA_TRY(hga_new(a, o->n_above, sizeof *o->up, &o->up));
    HGA_TRY(hga_new(a, o->n_above, sizeof *o->down, &o->down));
    HGA_TRY(hga_new(a, o->n_above, sizeof *o->slot, &o->slot));
    HGA_TRY(hga_new(a, o->n_above, sizeof *scratch, &scratch));
    HGA_TRY(hga_new(a, o->n_above, sizeof *of, &of));
    HGA_TRY(hga_new(a, o->n_above, sizeof *below, &below));
    walk_down(o, 0, scratch, o->down);
    walk_down(o, 1, scratch, o->up);
    reverse(o->n_above, o->up);
    count_below(o, below);
    HGA_TRY(cut_shares(o, below, of));
    part(o, of, o->up, scratch), part(o, of, o->down, scratch);
    find_slots(o, scratch);
done:
    hga_delete(a, scratch, o->n_above, sizeof *scratch);
    hga_delete(a, of, o->n_above, sizeof *of);
    hga_delete(a, below, o->n_above, sizeof *below);
    return st;
}

/* Finds the families' edges and an order to take them in, or says in *why what does not fit. */
hga_status order_create(const hga_plan *plan, hga_id relation, family_order *o, const char **why)
{
    hga_status st = HGA_OK;
    *o = (family_order){.plan = plan, .nodes = plan->nodes, .base = plan->nodes.level_ptr[1]};
    o->n_above = plan->nodes.n - o->base;
    *why = o->nodes.parent && o->nodes.child_ptr ? NULL : "there is no tree";
    for (hga_id v = o->base; !*why && v < o->nodes.n; v++)
        if (members_of(o, v) > KERNEL_SIBLINGS) *why = "a family has more than 64 members";
    if (!*why) HGA_TRY(read_edges(o, relation, why));
    if (!*why) HGA_TRY(count_edges(o));
    if (!*why) HGA_TRY(find_order(o));
done:
    return st;
}

void order_clear(family_order *o)
{
    if (!o->plan) return;
    const hga_allocator *a = &o->plan->memory.allocator;
    hga_delete(a, o->columns, o->nodes.n, sizeof *o->columns);
    hga_delete(a, o->edge_ptr, o->n_above + 1, sizeof *o->edge_ptr);
    hga_delete(a, o->up, o->n_above, sizeof *o->up);
    hga_delete(a, o->down, o->n_above, sizeof *o->down);
    hga_delete(a, o->slot, o->n_above, sizeof *o->slot);
    hga_delete(a, o->share, o->share_capacity, sizeof *o->share);
    *o = (family_order){0};
}
