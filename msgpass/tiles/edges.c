/* edges.c: the in-edges of a row, a chunk at a time. Regular edges are generated from segments on demand, explicit ones
   are read, the tree is walked: stages see one kind of row. */
#include "edges.h"
#include "plan.h"
#include "sort.h"

#include <string.h>

/* Whether keys and values of all nodes exceed the tuned size, in a relation whose listed edges may name any of them. */
static int sources_are_far(const hga_plan *plan, const hga_relation *r)
{
    const hga_shape *s = &plan->shape;
    int64_t row = (int64_t)s->n_kv_heads * (s->dim + s->dim_v) * (plan->fields.bf16_rows ? 2 : 4);
    return r->ptr && !r->n_blocks && row * plan->nodes.n >= plan->machine.tuning.is.far_sources;
}

/* Sets what is constant for all rows of a stage; rows are loaded later. */
void reader_open(row_reader *r, const hga_plan *plan, hga_id stage)
{
    r->graph = plan->graph;
    r->relation = plan->program.stage[stage].relation;
    r->r = plan->stage[stage].relation;
    r->nodes = plan->nodes;
    r->longer = kind_attends(plan->stage[stage].kind) && r->relation >= 0 ? graph_longer(plan->graph) : NULL;
    r->ahead = 0, r->strict = plan->stage[stage].strict;
    r->from_instances = plan->stage[stage].from_instances;
    r->far = kind_attends(plan->stage[stage].kind) && sources_are_far(plan, &r->r);
    r->first = r->n = 0;
    r->segments.n = 0;
    r->ranks.ranked = -1;
}

static int64_t first_type(const hga_segment *s)
{
    return s->type - (int64_t)s->row_inside * s->type_dst - (int64_t)s->src_inside * s->type_src;
}

/* Orders segments by the beginning of their instances; ties in the order found, which is that of the blocks. So rows
   loaded together change the shapes of segments, but not the order of a row's edges. */
static int key_before(const segment_key *x, const segment_key *y)
{
    if (x->src != y->src) return x->src < y->src;
    if (x->type != y->type) return x->type < y->type;
    const hga_segment *a = x->segment, *b = y->segment;
    hga_id row = a->row - a->row_inside, other_row = b->row - b->row_inside;
    if (row != other_row) return row < other_row;
    return a < b;
}

SORT_DEFINE(sort_keys, segment_key, key_before)

/* Copies each segment with its sort key. */
static void note_segments(const hga_segments *s, void *context)
{
    row_reader *r = context;
    for (hga_id i = 0; i < s->count; i++) {
        hga_segment *found = &r->segments.found[r->segments.n];
        *found = hga_segments_at(s, i);
        r->segments.key[r->segments.n++] = (segment_key){found->src - found->src_inside, first_type(found), found};
    }
}

/* Segments are large: sorts their keys, then moves each segment once. */
static void load_segments(row_reader *r, const hga_graph *g, hga_id first, hga_id n)
{
    r->segments.n = 0;
    hga_graph_visit_segments(g, r->relation, first, n, note_segments, r);
    sort_keys(r->segments.key, r->segments.n);
    for (hga_pos i = 0; i < r->segments.n; i++) r->segments.at[i] = *r->segments.key[i].segment;
}

/* Whether x's first column at position p comes before y's. */
static int comes_before(const hga_segment *x, const hga_segment *y, hga_id p)
{
    hga_id a, b, end, hole;
    hga_segment_columns(x, p, &a, &end, &hole);
    hga_segment_columns(y, p, &b, &end, &hole);
    if (x->src + a != y->src + b) return x->src + a < y->src + b;
    int64_t t = x->type + (int64_t)(p - x->row) * x->type_dst + (int64_t)a * x->type_src,
            u = y->type + (int64_t)(p - y->row) * y->type_dst + (int64_t)b * y->type_src;
    return t < u;
}

/* Insertion sort: rows have few segments. */
static void sort_lists(row_reader *r)
{
    for (hga_id p = 0; p < r->n; p++)
        for (hga_id i = r->list_ptr[p] + 1; i < r->list_ptr[p + 1]; i++) {
            hga_id moved = r->list[i], at = i;
            for (; at > r->list_ptr[p] &&
                   comes_before(&r->segments.at[moved], &r->segments.at[r->list[at - 1]], r->first + p);
                 at--)
                r->list[at] = r->list[at - 1];
            r->list[at] = moved;
        }
}

/* Builds list_ptr and list: for each of n rows from `first` on, the indices of its segments. */
static void list_segments(row_reader *r, hga_id first, hga_id n)
{
    for (hga_pos i = 0; i < r->segments.n; i++)
        for (hga_id p = 0; p < r->segments.at[i].n_rows; p++) r->list_ptr[r->segments.at[i].row - first + p]++;
    for (hga_id p = 0, sum = 0; p <= n; p++) {
        hga_id here = r->list_ptr[p];
        r->list_ptr[p] = sum, sum += p < n ? here : 0;
    }
    for (hga_pos i = 0; i < r->segments.n; i++)
        for (hga_id p = 0; p < r->segments.at[i].n_rows; p++)
            r->list[r->list_ptr[r->segments.at[i].row - first + p]++] = (hga_id)i;
    for (hga_id p = n; p > 0; p--) r->list_ptr[p] = r->list_ptr[p - 1];
    r->list_ptr[0] = 0;
    if (r->strict) sort_lists(r);
}

void reader_load(row_reader *r, hga_id first, hga_id n)
{
    if (n && r->first == first && r->n == n) return; /* already loaded */
    r->first = first, r->n = n, r->ahead = 0;
    memset(r->list_ptr, 0, ((size_t)n + 1) * sizeof *r->list_ptr);
    if (r->relation < 0 || !r->r.n_blocks) return;
    load_segments(r, r->graph, first, n);
    list_segments(r, first, n);
}

/* Loads a panel, with the rows that a longer graph has after it; returns the number of rows. */
hga_id reader_load_panel(row_reader *r, hga_id first, hga_id n)
{
    rows_ahead next = look_ahead(r->longer, &r->nodes, first, n);
    if (!next.n) {
        reader_load(r, first, n);
        return n;
    }
    if (r->ahead && r->first == first && r->n == next.n) return next.n;
    r->first = first, r->n = next.n, r->ahead = 1;
    memset(r->list_ptr, 0, ((size_t)r->n + 1) * sizeof *r->list_ptr);
    load_segments(r, r->longer, next.first, next.n);
    for (hga_pos i = 0; i < r->segments.n; i++) r->segments.at[i].row -= next.first - first;
    list_segments(r, first, r->n);
    return r->n;
}

hga_id reader_pos(const row_reader *r, hga_id pos_of)
{
    if (!r->ahead || pos_of == HGA_POS_OWN) return pos_of;
    return node_here(r->longer, &r->nodes, pos_of - 1) + 1;
}

hga_id reader_source(const row_reader *r, int64_t position)
{
    if (r->ahead) return node_here(r->longer, &r->nodes, (hga_id)position);
    return r->r.src_order ? r->r.src_order[position] : (hga_id)position;
}

/* Advances to the row's next segment with columns left; 0 when there is none. */
static int next_segment(edge_cursor *c)
{
    while (c->list_at < c->list_end) {
        hga_id segment = c->reader->list[c->list_at++];
        if (c->done && c->done[segment] & c->done_bits) continue;
        hga_segment_columns(&c->reader->segments.at[segment], c->position, &c->column, &c->column_end, &c->hole);
        if (c->column == c->hole) c->column++;
        if (c->column < c->column_end) return 1;
    }
    c->column = c->column_end = 0;
    return 0;
}

static void start_on_tree(edge_cursor *c)
{
    const hga_nodes *nodes = &c->reader->nodes;
    if (c->reader->relation == HGA_TREE_DOWN) {
        c->tree_end = nodes->parent && nodes->parent[c->v] >= 0;
    } else if (nodes->child_ptr && c->v >= nodes->level_ptr[1]) {
        c->tree_at = nodes->child_ptr[c->v - nodes->level_ptr[1]];
        c->tree_end = nodes->child_ptr[c->v - nodes->level_ptr[1] + 1];
    }
}

edge_cursor cursor_start(const row_reader *r, hga_id v) { return cursor_start_beyond(r, v, NULL, 0); }

/* A cursor at the row's first segment that is not done, and at the first of its listed edges. */
edge_cursor cursor_start_beyond(const row_reader *r, hga_id v, const uint16_t *done, unsigned done_bits)
{
    edge_cursor c = {.reader = r, .v = v, .hole = -1, .done = done, .done_bits = done_bits};
    if (r->relation < 0) {
        start_on_tree(&c);
        return c;
    }
    c.position = r->r.dst_rank ? r->r.dst_rank[v] : v;
    c.list_at = r->list_ptr[c.position - r->first], c.list_end = r->list_ptr[c.position - r->first + 1];
    if (r->r.ptr) c.explicit_at = r->r.ptr[v], c.explicit_end = r->r.ptr[v + 1];
    next_segment(&c);
    return c;
}

/* Reads the parent or the children of a node as edges of weight 1, up to the limit. */
static void read_family(edge_cursor *c, hga_id limit, edge_chunk *chunk)
{
    const hga_nodes *nodes = &c->reader->nodes;
    for (; chunk->n < limit && c->tree_at < c->tree_end; c->tree_at++) {
        hga_id e = chunk->n++;
        chunk->src[e] = c->reader->relation == HGA_TREE_DOWN ? nodes->parent[c->v]
                        : nodes->child_list                  ? nodes->child_list[c->tree_at]
                                                             : c->tree_at;
        chunk->type[e] = 0, chunk->weight[e] = 1, chunk->pos_of[e] = chunk->src_pos_of[e] = 0;
    }
}

/* Reads edges of the current segment up to its end, its hole, or the limit. */
static void read_run(edge_cursor *c, hga_id limit, edge_chunk *chunk)
{
    const hga_segment *s = &c->reader->segments.at[c->reader->list[c->list_at - 1]];
    const hga_id *order = c->reader->r.src_order;
    const int ahead = c->reader->ahead;
    const hga_id pos_of = reader_pos(c->reader, s->pos_of), src_pos_of = reader_pos(c->reader, s->src_pos_of);
    hga_id stop = c->hole > c->column ? c->hole : c->column_end, n = stop - c->column;
    if (n > limit - chunk->n) n = limit - chunk->n;
    hga_id u = s->src + c->column;
    int32_t type =
        (int32_t)(s->type + (int64_t)(c->position - s->row) * s->type_dst + (int64_t)c->column * s->type_src);
    for (hga_id i = 0, e = chunk->n; i < n; i++, e++) {
        chunk->src[e] = ahead ? reader_source(c->reader, u + i) : order ? order[u + i] : u + i;
        chunk->type[e] = (int32_t)(type + (int64_t)i * s->type_src);
        chunk->weight[e] = s->weight;
        chunk->pos_of[e] = pos_of, chunk->src_pos_of[e] = src_pos_of;
    }
    chunk->n += n;
    c->column += n;
    if (c->column == c->hole) c->column++;
    if (c->column >= c->column_end) next_segment(c);
}

/* Appends listed edges to the chunk, until it has `limit` of them. */
static void read_explicit(edge_cursor *c, hga_id limit, edge_chunk *chunk)
{
    const hga_relation *r = &c->reader->r;
    for (; chunk->n < limit && c->explicit_at < c->explicit_end; c->explicit_at++) {
        hga_id e = chunk->n++;
        chunk->src[e] = r->src[c->explicit_at];
        chunk->type[e] = r->type ? r->type[c->explicit_at] : 0;
        chunk->weight[e] = r->weight ? r->weight[c->explicit_at] : 1;
        chunk->pos_of[e] = chunk->src_pos_of[e] = 0;
    }
}

/* Appends lookahead sources: listed edges of consecutive rows are contiguous. */
static void look_further(const edge_cursor *c, edge_chunk *chunk)
{
    const hga_relation *r = &c->reader->r;
    hga_pos left = r->ptr[c->reader->nodes.n] - c->explicit_at;
    chunk->more = left < KERNEL_HEAD_EDGES ? (hga_id)left : KERNEL_HEAD_EDGES;
    memcpy(chunk->src + chunk->n, r->src + c->explicit_at, (size_t)chunk->more * sizeof *chunk->src);
}

/* Reads edges of segments first, then explicit ones. */
void cursor_next(edge_cursor *c, hga_pos most, edge_chunk *chunk)
{
    hga_id limit = most < KERNEL_CHUNK ? (hga_id)most : KERNEL_CHUNK;
    chunk->n = 0, chunk->number = c->number, chunk->has_gaps = c->done != NULL;
    if (c->reader->relation < 0) read_family(c, limit, chunk);
    while (chunk->n < limit && c->column < c->column_end) read_run(c, limit, chunk);
    if (chunk->n < limit) read_explicit(c, limit, chunk);
    chunk->more = 0;
    if (c->reader->far) look_further(c, chunk);
    c->number += chunk->n;
}

/* Skips n edges without listing them. */
void cursor_skip(edge_cursor *c, hga_pos n)
{
    c->number += n;
    while (n > 0 && c->column < c->column_end) {
        hga_id stop = c->hole > c->column ? c->hole : c->column_end;
        hga_id step = stop - c->column < n ? stop - c->column : (hga_id)n;
        c->column += step, n -= step;
        if (c->column == c->hole) c->column++;
        if (c->column >= c->column_end) next_segment(c);
    }
    hga_pos left = c->explicit_end - c->explicit_at;
    c->explicit_at += n < left ? n : left;
}
