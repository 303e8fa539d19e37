/* rows.c: the in-edges of a row, whatever they are stored as, in canonical order: by source and type. */
#include "gradient.h"

#include <stdlib.h>

void rows_open(edge_rows *rows, const hga_plan *plan, hga_id stage)
{
    rows->plan = plan;
    rows->relation = plan->program.stage[stage].relation;
    rows->r = rows->relation >= 0 ? hga_graph_relation(plan->graph, rows->relation) : (hga_relation){0};
}

void rows_close(edge_rows *rows)
{
    const hga_allocator *a = &rows->plan->given;
    hga_delete(a, rows->segment, rows->segment_room, sizeof *rows->segment);
    hga_delete(a, rows->edge, rows->edge_room, sizeof *rows->edge);
    *rows = (edge_rows){.plan = rows->plan};
}

static hga_status add(edge_rows *rows, row_edge e)
{
    hga_status st = HGA_OK;
    if (rows->n == rows->edge_room)
        st = hga_grow(&rows->plan->given, &rows->edge, &rows->edge_room, rows->n, rows->n + 1, sizeof *rows->edge);
    if (!st) rows->edge[rows->n++] = e;
    return st;
}

static hga_status read_tree(edge_rows *rows, hga_id v)
{
    const hga_nodes *nodes = &rows->plan->nodes;
    hga_status st = HGA_OK;
    if (rows->relation == HGA_TREE_DOWN) {
        if (nodes->parent && nodes->parent[v] >= 0) st = add(rows, (row_edge){nodes->parent[v], 0, 1, 0, 0});
        return st;
    }
    hga_id base = nodes->level_ptr[1];
    if (!nodes->child_ptr || v < base) return HGA_OK;
    hga_id first = nodes->child_ptr[v - base], n = nodes->child_ptr[v - base + 1] - first;
    if (n > rows->edge_room) st = hga_grow(&rows->plan->given, &rows->edge, &rows->edge_room, 0, n, sizeof *rows->edge);
    for (hga_id i = 0; !st && i < n; i++)
        rows->edge[rows->n++] = (row_edge){nodes->child_list ? nodes->child_list[first + i] : first + i, 0, 1, 0, 0};
    return st;
}

/* The edges of one segment in the row at `position`. */
static hga_status read_segment(edge_rows *rows, const hga_segment *s, hga_id position)
{
    hga_id c0, c1, hole;
    hga_status st = HGA_OK;
    hga_segment_columns(s, position, &c0, &c1, &hole);
    for (hga_id c = c0; !st && c < c1; c++) {
        if (c == hole) continue;
        int64_t type = s->type + (int64_t)(position - s->row) * s->type_dst + (int64_t)c * s->type_src;
        hga_id u = rows->r.src_order ? rows->r.src_order[s->src + c] : s->src + c;
        st = add(rows, (row_edge){u, (int32_t)type, s->weight, s->pos_of, s->src_pos_of});
    }
    return st;
}

static hga_status read_blocks(edge_rows *rows, hga_id v)
{
    hga_id position = rows->r.dst_rank ? rows->r.dst_rank[v] : v;
    hga_status st = HGA_OK;
    const hga_graph *g = rows->plan->graph;
    hga_pos n = hga_graph_segments(g, rows->relation, position, 1, rows->segment, rows->segment_room);
    if (n > rows->segment_room) {
        st = hga_grow(&rows->plan->given, &rows->segment, &rows->segment_room, 0, n, sizeof *rows->segment);
        if (st) return st;
        hga_graph_segments(g, rows->relation, position, 1, rows->segment, rows->segment_room);
    }
    for (hga_pos i = 0; !st && i < n; i++) st = read_segment(rows, &rows->segment[i], position);
    return st;
}

static int before(const row_edge *a, const row_edge *b)
{
    if (a->src != b->src) return a->src < b->src;
    return a->type != b->type ? a->type < b->type : a->weight < b->weight;
}

/* Merge sort from runs: rows are a few runs in order as they are read. Stable, so that twins keep their order. */
static hga_status sort_row(edge_rows *rows)
{
    int64_t n = rows->n, room = 0;
    row_edge *x = rows->edge, *y = NULL;
    int64_t sorted = 1;
    while (sorted < n && !before(&x[sorted], &x[sorted - 1])) sorted++;
    if (sorted >= n) return HGA_OK;
    hga_status st = hga_grow(&rows->plan->given, &y, &room, 0, n, sizeof *y);
    if (st) return st;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t at = 0; at < n; at += 2 * width) {
            int64_t mid = at + width < n ? at + width : n, end = mid + width < n ? mid + width : n;
            for (int64_t i = at, j = mid, k = at; k < end; k++)
                y[k] = j >= end || (i < mid && !before(&x[j], &x[i])) ? x[i++] : x[j++];
        }
        for (int64_t k = 0; k < n; k++) x[k] = y[k];
    }
    hga_delete(&rows->plan->given, y, room, sizeof *y);
    return HGA_OK;
}

hga_status rows_read(edge_rows *rows, hga_id v)
{
    hga_status st = HGA_OK;
    rows->n = 0;
    if (rows->relation < 0) return read_tree(rows, v);
    if (rows->r.n_blocks) HGA_TRY(read_blocks(rows, v));
    for (hga_pos e = rows->r.ptr ? rows->r.ptr[v] : 0; rows->r.ptr && e < rows->r.ptr[v + 1]; e++)
        HGA_TRY(add(rows, (row_edge){rows->r.src[e], rows->r.type ? rows->r.type[e] : 0,
                                     rows->r.weight ? rows->r.weight[e] : 1, 0, 0}));
    HGA_TRY(sort_row(rows));
done:
    return st;
}
