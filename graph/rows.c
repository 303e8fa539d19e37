/* rows.c: a relation as ordinary CSR, for any rows: its plain definition, and its export; no fast path uses it. */
#include "graph.h"
#include "blocks.h"
#include "sort.h"

#include <string.h>

static hga_id position_of(const stored_relation *r, hga_id node)
{
    return r->order.dst_rank ? r->order.dst_rank[node] : node;
}

typedef struct sorted_edge {
    hga_id src;
    int32_t type;
    float weight;
} sorted_edge;

typedef struct filling {
    const stored_relation *r;
    sorted_edge *cells;
    hga_pos n;
} filling;

static void fill_segment(filling *f, const hga_segment *s)
{
    hga_id c0, c1, hole;
    hga_segment_columns(s, s->row, &c0, &c1, &hole);
    for (hga_id c = c0; c < c1; c++) {
        if (c == hole) continue;
        hga_id u = f->r->order.src ? f->r->order.src[s->src + c] : s->src + c;
        f->cells[f->n++] = (sorted_edge){u, s->type + c * s->type_src, s->weight};
    }
}

static void fill_segments(const hga_segments *s, void *context)
{
    for (hga_id i = 0; i < s->count; i++) {
        hga_segment one = hga_segments_at(s, i);
        fill_segment(context, &one);
    }
}

static int sorted_before(const sorted_edge *a, const sorted_edge *b)
{
    if (a->src != b->src) return a->src < b->src;
    if (a->type != b->type) return a->type < b->type;
    return a->weight < b->weight;
}

SORT_DEFINE(sort_row, sorted_edge, sorted_before)

static void fill_row(const stored_relation *r, hga_id v, sorted_edge *cells, hga_csr *out, hga_pos at)
{
    filling f = {r, cells, 0};
    blocks_visit(r, position_of(r, v), 1, fill_segments, &f);
    for (hga_pos e = r->edges.ptr ? r->edges.ptr[v] : 0; r->edges.ptr && e < r->edges.ptr[v + 1]; e++)
        cells[f.n++] = (sorted_edge){r->edges.src[e], r->edges.type ? r->edges.type[e] : 0,
                                     r->edges.weight ? r->edges.weight[e] : 1};
    sort_row(cells, f.n);
    for (hga_pos i = 0; i < f.n; i++) {
        out->src[at + i] = cells[i].src;
        out->type[at + i] = cells[i].type;
        out->weight[at + i] = cells[i].weight;
    }
}

hga_status hga_graph_rows(const hga_graph *g, hga_id index, hga_id first, hga_id n, hga_csr *out)
{
    memset(out, 0, sizeof *out);
    if (index < 0 || index >= g->n_relations)
        return hga_fail(HGA_EINVAL, "relation %d of %d does not exist", index, g->n_relations);
    if (first < 0 || n < 0 || first > g->n - n)
        return hga_fail(HGA_EINVAL, "rows %d + %d leave the %d nodes", first, n, g->n);
    hga_status st = HGA_OK;
    const stored_relation *r = &g->relation[index];
    sorted_edge *cells = NULL;
    hga_pos widest = 0;
    out->first = first, out->n = n, out->allocator = g->allocator;
    HGA_TRY(hga_new_zero(&g->allocator, (int64_t)n + 1, sizeof *out->ptr, &out->ptr));
    hga_graph_degrees(g, index, first, n, out->ptr);
    for (hga_id i = 0; i < n; i++)
        if (out->ptr[i] > widest) widest = out->ptr[i];
    for (hga_pos i = 0, sum = 0; i <= n; i++) {
        hga_pos here = out->ptr[i];
        out->ptr[i] = sum, sum += here;
    }
    HGA_TRY(hga_new(&g->allocator, out->ptr[n], sizeof *out->src, &out->src));
    HGA_TRY(hga_new(&g->allocator, out->ptr[n], sizeof *out->type, &out->type));
    HGA_TRY(hga_new(&g->allocator, out->ptr[n], sizeof *out->weight, &out->weight));
    HGA_TRY(hga_new(&g->allocator, widest, sizeof *cells, &cells));
    for (hga_id i = 0; i < n; i++) fill_row(r, first + i, cells, out, out->ptr[i]);
done:
    hga_delete(&g->allocator, cells, widest, sizeof *cells);
    if (st) hga_csr_clear(out);
    return st;
}

void hga_csr_clear(hga_csr *csr)
{
    hga_pos n_edges = csr->ptr ? csr->ptr[csr->n] : 0;
    hga_delete(&csr->allocator, csr->src, n_edges, sizeof *csr->src);
    hga_delete(&csr->allocator, csr->type, n_edges, sizeof *csr->type);
    hga_delete(&csr->allocator, csr->weight, n_edges, sizeof *csr->weight);
    hga_delete(&csr->allocator, csr->ptr, (int64_t)csr->n + 1, sizeof *csr->ptr);
    memset(csr, 0, sizeof *csr);
}
