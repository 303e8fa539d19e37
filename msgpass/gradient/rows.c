/* rows.c: the in-edges of a row, whatever they are stored as, in canonical order: by source and type. */
#include "gradient.h"

#include <stdlib.h>
#include <string.h>

void rows_open(edge_rows *rows, const hga_plan *plan, hga_id stage)
{
    rows->plan = plan;
    rows->list = rows->lists && rows->lists[stage].ptr ? &rows->lists[stage] : NULL;
    rows->relation = plan->program.stage[stage].relation;
    rows->r = rows->relation >= 0 ? hga_graph_relation(plan->graph, rows->relation) : (hga_relation){0};
}

void rows_close(edge_rows *rows)
{
    const hga_allocator *a = &rows->plan->given;
    hga_delete(a, rows->segment, rows->segment_room, sizeof *rows->segment);
    hga_delete(a, rows->own, rows->own_room, sizeof *rows->own);
    *rows = (edge_rows){.plan = rows->plan};
}

static hga_status add(edge_rows *rows, row_edge e)
{
    hga_status st = HGA_OK;
    if (rows->n == rows->own_room)
        st = hga_grow(&rows->plan->given, &rows->own, &rows->own_room, rows->n, rows->n + 1, sizeof *rows->own);
    if (!st) rows->own[rows->n++] = e;
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
    if (n > rows->own_room) st = hga_grow(&rows->plan->given, &rows->own, &rows->own_room, 0, n, sizeof *rows->own);
    for (hga_id i = 0; !st && i < n; i++)
        rows->own[rows->n++] = (row_edge){nodes->child_list ? nodes->child_list[first + i] : first + i, 0, 1, 0, 0};
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
    row_edge *x = rows->own, *y = NULL;
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

static hga_status read_row(edge_rows *rows, hga_id v)
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

hga_status rows_read(edge_rows *rows, hga_id v)
{
    const row_list *list = rows->list;
    if (list) {
        rows->edge = list->edge + list->ptr[v], rows->n = list->ptr[v + 1] - list->ptr[v];
        return HGA_OK;
    }
    hga_status st = read_row(rows, v);
    rows->edge = rows->own;
    return st;
}

/* Node v's row goes behind those before it. */
static hga_status list_row(edge_rows *rows, hga_id v, row_list *out)
{
    hga_status st = rows_read(rows, v);
    int64_t n = out->ptr[v], room = n + rows->n;
    if (!st && room > out->room) st = hga_grow(&rows->plan->given, &out->edge, &out->room, n, room, sizeof *out->edge);
    if (!st && rows->n) memcpy(out->edge + n, rows->edge, (size_t)rows->n * sizeof *out->edge);
    out->ptr[v + 1] = room;
    return st;
}

hga_status rows_list(const hga_plan *plan, hga_id stage, int64_t bytes, row_list *out)
{
    hga_status st = HGA_OK;
    edge_rows rows = {.plan = plan};
    hga_id out_field = plan->program.stage[stage].out;
    int64_t fits = bytes / (int64_t)sizeof *out->edge - plan->nodes.n;
    *out = (row_list){0};
    if (fits <= 0) return HGA_OK;
    rows_open(&rows, plan, stage);
    HGA_TRY(hga_new_zero(&plan->given, (int64_t)plan->nodes.n + 1, sizeof *out->ptr, &out->ptr));
    for (hga_id v = 0; v < plan->nodes.n && out->ptr[v] <= fits; v++) {
        out->ptr[v + 1] = out->ptr[v];
        if (program_row(&plan->nodes, plan->program.field[out_field].rows, v)) HGA_TRY(list_row(&rows, v, out));
    }
    if (out->ptr[plan->nodes.n] == 0 || out->ptr[plan->nodes.n] > fits) rows_unlist(plan, out);
done:
    rows_close(&rows);
    if (st) rows_unlist(plan, out);
    return st;
}

void rows_unlist(const hga_plan *plan, row_list *list)
{
    if (list->ptr) hga_delete(&plan->given, list->ptr, (int64_t)plan->nodes.n + 1, sizeof *list->ptr);
    hga_delete(&plan->given, list->edge, list->room, sizeof *list->edge);
    *list = (row_list){0};
}
