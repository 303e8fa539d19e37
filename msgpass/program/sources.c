/* sources.c: rows in the order of a stage, each with its sources as intervals. Rows that share their sources are
   visited together. */
#include "interrupt.h"
#include "sources.h"

enum { CHUNK_ROWS = 1024 }; /* rows of a chunk */

struct reach_walk {
    const hga_graph *g;
    hga_nodes nodes;
    hga_id relation;
    hga_relation rel;
    reach_visit visit;
    void *context;
    hga_segment *segment;
    int64_t segment_capacity;
    reach_span *span;
    int64_t span_capacity;
    int64_t ptr[CHUNK_ROWS + 2];  /* spans of group i are [ptr[i], ptr[i + 1]) */
    hga_id group[CHUNK_ROWS + 1]; /* row of the chunk -> group */
    hga_id start[CHUNK_ROWS + 1]; /* group -> its first row of the chunk */
    uint8_t cut[CHUNK_ROWS + 1];  /* a group starts here */
};

/* Whether every row of the segment has all its columns. */
static int is_full(const hga_segment *s)
{
    return !s->has_hole && s->band_first <= 1 - (int64_t)s->n_rows && s->band_last >= (int64_t)s->n_src - 1;
}

static hga_status fetch_segments(reach_walk *w, hga_id first, hga_id n, hga_pos *count)
{
    hga_status st = HGA_OK;
    *count = hga_graph_segments(w->g, w->relation, first, n, w->segment, w->segment_capacity);
    if (*count <= w->segment_capacity) return HGA_OK;
    HGA_TRY(hga_grow(NULL, &w->segment, &w->segment_capacity, 0, *count, sizeof *w->segment));
    *count = hga_graph_segments(w->g, w->relation, first, n, w->segment, w->segment_capacity);
done:
    return st;
}

/* The rows of a segment inside the chunk [first, first + n), counted from `first`. */
static void clip(const hga_segment *s, hga_id first, hga_id n, hga_id *from, hga_id *to)
{
    int64_t end = (int64_t)s->row + s->n_rows - first;
    *from = s->row > first ? s->row - first : 0;
    *to = end < n ? (hga_id)end : n;
}

static int has_explicit(const reach_walk *w, hga_id v) { return w->rel.ptr && w->rel.ptr[v + 1] > w->rel.ptr[v]; }

static hga_id node_at(const hga_id *order, hga_id position) { return order ? order[position] : position; }

/* Groups end where a segment starts or ends; rows of cut-off columns and rows with explicit edges are groups of their
   own. */
static hga_id mark_groups(reach_walk *w, hga_id first, hga_id n, hga_pos n_segments)
{
    for (hga_id i = 0; i <= n; i++) w->cut[i] = i == 0;
    for (hga_pos k = 0; k < n_segments; k++) {
        hga_id from, to;
        clip(&w->segment[k], first, n, &from, &to);
        w->cut[from] = w->cut[to] = 1;
        if (!is_full(&w->segment[k]))
            for (hga_id i = from; i < to; i++) w->cut[i] = 1;
    }
    for (hga_id i = 0; i < n; i++)
        if (has_explicit(w, node_at(w->rel.dst_order, first + i))) w->cut[i] = w->cut[i + 1] = 1;
    hga_id groups = 0;
    for (hga_id i = 0; i < n; i++) {
        if (w->cut[i]) w->start[groups++] = i;
        w->group[i] = groups - 1;
    }
    w->start[groups] = n;
    return groups;
}

/* Counting pass (fill = 0) and writing pass over the columns that each group has of each segment. A hole makes two
   spans of one. */
static hga_status sort_spans(reach_walk *w, hga_id first, hga_id n, hga_pos n_segments, int fill)
{
    hga_status st = HGA_OK;
    for (hga_pos k = 0; k < n_segments && !st; k++) {
        const hga_segment *s = &w->segment[k];
        hga_id from, to, c0, c1, hole;
        clip(s, first, n, &from, &to);
        if (from >= to) continue;
        for (hga_id i = w->group[from]; i <= w->group[to - 1]; i++) {
            hga_segment_columns(s, first + w->start[i], &c0, &c1, &hole);
            reach_span part[2] = {{c0, hole < 0 ? c1 - 1 : hole - 1}, {hole + 1, hole < 0 ? -1 : c1 - 1}};
            for (int h = 0; h < 2; h++) {
                if (part[h].first > part[h].last) continue;
                if (fill) w->span[w->ptr[i + 1]] = (reach_span){s->src + part[h].first, s->src + part[h].last};
                w->ptr[fill ? i + 1 : i + 2]++;
            }
        }
        st = interrupted_at(k);
    }
    return st;
}

/* Visits a group of rows with their sources: spans, and nodes where edges are explicit. */
static hga_status visit_group(reach_walk *w, hga_id first, hga_id i)
{
    reach r = {.row = first + w->start[i],
               .n_rows = w->start[i + 1] - w->start[i],
               .row_order = w->rel.dst_order,
               .spans = w->span ? w->span + w->ptr[i] : NULL,
               .n_spans = w->ptr[i + 1] - w->ptr[i],
               .source_order = w->rel.src_order};
    hga_id v = node_at(r.row_order, r.row);
    if (has_explicit(w, v)) {
        r.nodes = w->rel.src + w->rel.ptr[v];
        r.n_nodes = w->rel.ptr[v + 1] - w->rel.ptr[v];
    }
    return w->visit(&r, w->context);
}

/* Positions [first, first + n), n <= CHUNK_ROWS: a counting sort of the segments' columns by group. */
static hga_status walk_chunk(reach_walk *w, hga_id first, hga_id n)
{
    hga_status st = HGA_OK;
    hga_pos n_segments = 0;
    HGA_TRY(fetch_segments(w, first, n, &n_segments));
    hga_id groups = mark_groups(w, first, n, n_segments);
    for (hga_id i = 0; i <= groups + 1; i++) w->ptr[i] = 0;
    HGA_TRY(sort_spans(w, first, n, n_segments, 0));
    for (hga_id i = 1; i <= groups; i++) w->ptr[i + 1] += w->ptr[i];
    HGA_TRY(hga_grow(NULL, &w->span, &w->span_capacity, 0, w->ptr[groups + 1], sizeof *w->span));
    HGA_TRY(sort_spans(w, first, n, n_segments, 1));
    for (hga_id i = 0; i < groups; i++) {
        HGA_TRY(visit_group(w, first, i));
        HGA_TRY(interrupted());
    }
done:
    return st;
}

/* Rows at positions [first, end) of the relation's order, a chunk at a time. */
static hga_status walk_positions(reach_walk *w, hga_id first, hga_id end)
{
    hga_status st = HGA_OK;
    while (first < end) {
        hga_id n = end - first < CHUNK_ROWS ? end - first : CHUNK_ROWS;
        HGA_TRY(walk_chunk(w, first, n));
        first += n;
    }
done:
    return st;
}

/* ---- nodes ---- */

/* Node v with its children, which are one span where no list names them. */
static hga_status visit_children(const reach_walk *w, hga_id v)
{
    const hga_nodes *nodes = &w->nodes;
    hga_id tokens = nodes->level_ptr[1];
    int childless = v < tokens || !nodes->child_ptr;
    hga_id first = childless ? 0 : nodes->child_ptr[v - tokens], end = childless ? 0 : nodes->child_ptr[v - tokens + 1];
    reach_span children = {first, end - 1};
    reach r = {.row = v, .n_rows = 1};
    if (nodes->child_list)
        r.nodes = nodes->child_list + first, r.n_nodes = end - first;
    else
        r.spans = &children, r.n_spans = end > first;
    return w->visit(&r, w->context);
}

static hga_status visit_parent(const reach_walk *w, hga_id v)
{
    reach r = {.row = v, .n_rows = 1};
    if (w->nodes.parent && w->nodes.parent[v] >= 0) r.nodes = w->nodes.parent + v, r.n_nodes = 1;
    return w->visit(&r, w->context);
}

/* Visits node v. Consecutive nodes need not have consecutive positions in the relation's order. */
static hga_status walk_node(reach_walk *w, hga_id v)
{
    if (w->relation == HGA_TREE_UP) return visit_children(w, v);
    if (w->relation == HGA_TREE_DOWN) return visit_parent(w, v);
    return walk_chunk(w, w->rel.dst_rank[v], 1);
}

static hga_status walk_nodes(reach_walk *w, hga_id first, hga_id end)
{
    hga_status st = HGA_OK;
    if (w->relation >= 0 && !w->rel.dst_rank) return walk_positions(w, first, end);
    for (hga_id v = first; v < end; v++) {
        HGA_TRY(walk_node(w, v));
        HGA_TRY(interrupted_at(v));
    }
done:
    return st;
}

/* All rows in the stage's order: flat, or level by level. */
static hga_status walk_all(reach_walk *w, hga_order order)
{
    hga_status st = HGA_OK;
    if (w->relation == HGA_TREE_UP) return walk_nodes(w, 0, w->nodes.n);
    if (w->relation >= 0 && order == HGA_FLAT) return walk_positions(w, 0, w->nodes.n);
    for (hga_id i = 0; i < w->nodes.n_levels; i++) {
        hga_id l = order == HGA_LEVELS_UP ? i : w->nodes.n_levels - 1 - i;
        HGA_TRY(walk_nodes(w, w->nodes.level_ptr[l], w->nodes.level_ptr[l + 1]));
    }
done:
    return st;
}

/* ---- the calls ---- */

hga_status reach_walk_create(const hga_graph *g, hga_id relation, reach_walk **out)
{
    hga_status st = hga_new_zero(NULL, 1, sizeof **out, out);
    if (st) return st;
    (*out)->g = g, (*out)->nodes = hga_graph_nodes(g), (*out)->relation = relation;
    if (relation >= 0) (*out)->rel = hga_graph_relation(g, relation);
    return HGA_OK;
}

void reach_walk_destroy(reach_walk *w)
{
    if (!w) return;
    hga_delete(NULL, w->segment, w->segment_capacity, sizeof *w->segment);
    hga_delete(NULL, w->span, w->span_capacity, sizeof *w->span);
    hga_delete(NULL, w, 1, sizeof *w);
}

hga_status reach_nodes(reach_walk *w, hga_id first, hga_id n, reach_visit visit, void *context)
{
    w->visit = visit, w->context = context;
    return walk_nodes(w, first, first + n);
}

/* Visits each row of a stage with the nodes that its edges come from. */
hga_status reach_rows(const hga_graph *g, hga_id relation, hga_order order, reach_visit visit, void *context)
{
    reach_walk *w = NULL;
    hga_status st = HGA_OK;
    HGA_TRY(reach_walk_create(g, relation, &w));
    w->visit = visit, w->context = context;
    HGA_TRY(walk_all(w, order));
done:
    reach_walk_destroy(w);
    return st;
}
