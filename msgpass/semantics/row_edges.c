/* row_edges.c: segments, listed edges and the tree as rows of edges, by source, type, weight. */
#include "row_edges.h"
#include "sort.h"

#include <string.h>

void edges_open(edge_rows *rows, const hga_graph *g, const hga_allocator *a, hga_id relation)
{
    rows->graph = g, rows->allocator = a, rows->nodes = hga_graph_nodes(g);
    rows->list = NULL;
    rows->relation = relation;
    rows->r = relation >= 0 ? hga_graph_relation(g, relation) : (hga_relation){0};
}

void edges_close(edge_rows *rows)
{
    hga_delete(rows->allocator, rows->own, rows->capacity, sizeof *rows->own);
    rows->own = NULL, rows->capacity = rows->n = 0;
}

/* ---- a row ---- */

/* The state of reading a row: the first error stays. */
typedef struct row_reading {
    edge_rows *rows;
    hga_id position;
    hga_status st;
} row_reading;

/* Capacity for n more edges, which count as read; NULL: an error, or n is 0. */
static row_edge *add_some(row_reading *r, int64_t n)
{
    edge_rows *rows = r->rows;
    if (!r->st && rows->n + n > rows->capacity)
        r->st = hga_grow(rows->allocator, &rows->own, &rows->capacity, rows->n, rows->n + n, sizeof *rows->own);
    if (r->st || n == 0) return NULL;
    rows->n += n;
    return rows->own + rows->n - n;
}

static void add(row_reading *r, row_edge e)
{
    row_edge *to = add_some(r, 1);
    if (to) *to = e;
}

/* The children of v: entries *first .. *first + the result of the list of children. */
static hga_id children(const hga_nodes *nodes, hga_id v, hga_id *first)
{
    hga_id above = v - nodes->level_ptr[1];
    if (above < 0 || !nodes->child_ptr) return 0;
    *first = nodes->child_ptr[above];
    return nodes->child_ptr[above + 1] - *first;
}

static int has_parent(const hga_nodes *nodes, hga_id v) { return nodes->parent && nodes->parent[v] >= 0; }

static void add_family_edges(row_reading *r, hga_id v)
{
    const hga_nodes *nodes = &r->rows->nodes;
    hga_id first = 0, n = r->rows->relation == HGA_TREE_UP ? children(nodes, v, &first) : 0;
    for (hga_id i = first; i < first + n; i++)
        add(r, (row_edge){.src = nodes->child_list ? nodes->child_list[i] : i, .weight = 1});
    if (r->rows->relation == HGA_TREE_DOWN && has_parent(nodes, v))
        add(r, (row_edge){.src = nodes->parent[v], .weight = 1});
}

/* Reads the columns of a segment in the row. */
static void read_segment(row_reading *r, const hga_segment *s)
{
    const hga_id *order = r->rows->r.src_order;
    hga_id first, end, hole;
    hga_segment_columns(s, r->position, &first, &end, &hole);
    const int64_t n = first < end ? (int64_t)end - first - (hole >= first && hole < end) : 0;
    row_edge *to = add_some(r, n);
    for (hga_id c = first; to && c < end; c++) {
        int64_t type = s->type + (int64_t)(r->position - s->row) * s->type_dst + (int64_t)c * s->type_src;
        hga_id u = order ? order[s->src + c] : s->src + c;
        if (c != hole) *to++ = (row_edge){u, (int32_t)type, s->weight, s->pos_of, s->src_pos_of};
    }
}

static void read_segments(const hga_segments *s, void *context)
{
    for (hga_id i = 0; i < s->count; i++) {
        hga_segment one = hga_segments_at(s, i);
        read_segment(context, &one);
    }
}

static void read_relation(row_reading *r, hga_id v)
{
    const hga_relation *from = &r->rows->r;
    if (from->n_blocks) hga_graph_visit_segments(r->rows->graph, r->rows->relation, r->position, 1, read_segments, r);
    for (hga_pos e = from->ptr ? from->ptr[v] : 0; from->ptr && e < from->ptr[v + 1]; e++)
        add(r, (row_edge){from->src[e], from->type ? from->type[e] : 0, from->weight ? from->weight[e] : 1, 0, 0});
}

/* A total order: it compares all members. */
static int edge_before(const row_edge *a, const row_edge *b)
{
    if (a->src != b->src) return a->src < b->src;
    if (a->type != b->type) return a->type < b->type;
    if (a->weight < b->weight || a->weight > b->weight) return a->weight < b->weight;
    return a->pos_of != b->pos_of ? a->pos_of < b->pos_of : a->src_pos_of < b->src_pos_of;
}

SORT_DEFINE(sort_row, row_edge, edge_before)

hga_status edges_read(edge_rows *rows, hga_id v)
{
    const row_list *list = rows->list;
    if (list) {
        rows->edge = list->edge + list->ptr[v], rows->n = list->ptr[v + 1] - list->ptr[v];
        return HGA_OK;
    }
    row_reading r = {rows, rows->r.dst_rank ? rows->r.dst_rank[v] : v, HGA_OK};
    rows->n = 0;
    (rows->relation < 0 ? add_family_edges : read_relation)(&r, v);
    sort_row(rows->own, rows->n);
    rows->edge = rows->own;
    return r.st;
}

/* ---- how many ---- */

int edges_exist(const hga_graph *g, hga_id relation, hga_id v)
{
    hga_nodes nodes = hga_graph_nodes(g);
    hga_id first;
    hga_pos degree;
    if (relation == HGA_TREE_UP) return children(&nodes, v, &first) > 0;
    if (relation == HGA_TREE_DOWN) return has_parent(&nodes, v);
    hga_graph_degrees(g, relation, v, 1, &degree);
    return degree > 0;
}

/* Finds degrees some hundred rows at a time; down the tree a row has one edge. */
int64_t edges_most(const hga_graph *g, hga_id relation)
{
    enum { ROWS = 256 };
    hga_nodes nodes = hga_graph_nodes(g);
    hga_pos degree[ROWS];
    int64_t most = relation == HGA_TREE_DOWN;
    hga_id first;
    for (hga_id v = 0; v < nodes.n && relation != HGA_TREE_DOWN; v += ROWS) {
        hga_id n = nodes.n - v < ROWS ? nodes.n - v : ROWS;
        if (relation >= 0) hga_graph_degrees(g, relation, v, n, degree);
        for (hga_id i = 0; i < n; i++) {
            int64_t here = relation >= 0 ? degree[i] : children(&nodes, v + i, &first);
            if (here > most) most = here;
        }
    }
    return most;
}

/* ---- lists ---- */

/* Appends node v's row to those before it. */
static hga_status list_row(edge_rows *rows, hga_id v, row_list *out)
{
    hga_status st = edges_read(rows, v);
    int64_t n = out->ptr[v], capacity = n + rows->n;
    if (!st && capacity > out->capacity)
        st = hga_grow(rows->allocator, &out->edge, &out->capacity, n, capacity, sizeof *out->edge);
    if (!st && rows->n) memcpy(out->edge + n, rows->edge, (size_t)rows->n * sizeof *out->edge);
    out->ptr[v + 1] = capacity;
    return st;
}

/* Lists the rows of these nodes if that takes no more than so many bytes; else *out stays empty. */
hga_status edges_list(edge_rows *rows, hga_field_rows of, int64_t bytes, row_list *out)
{
    hga_status st = HGA_OK;
    hga_id n = rows->nodes.n;
    int64_t fits = bytes / (int64_t)sizeof *out->edge - n;
    *out = (row_list){0};
    if (fits <= 0) return HGA_OK;
    HGA_TRY(hga_new_zero(rows->allocator, (int64_t)n + 1, sizeof *out->ptr, &out->ptr));
    for (hga_id v = 0; v < n && out->ptr[v] <= fits; v++) {
        out->ptr[v + 1] = out->ptr[v];
        if (program_row(&rows->nodes, of, v)) HGA_TRY(list_row(rows, v, out));
    }
    if (out->ptr[n] == 0 || out->ptr[n] > fits) edges_unlist(rows->graph, rows->allocator, out);
done:
    if (st) edges_unlist(rows->graph, rows->allocator, out);
    return st;
}

void edges_unlist(const hga_graph *g, const hga_allocator *a, row_list *list)
{
    if (list->ptr) hga_delete(a, list->ptr, (int64_t)hga_graph_nodes(g).n + 1, sizeof *list->ptr);
    hga_delete(a, list->edge, list->capacity, sizeof *list->edge);
    *list = (row_list){0};
}
