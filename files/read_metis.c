/* read_metis.c: METIS's .graph files: a line of neighbours for every vertex, each edge listed at both of its ends. */
#include "import.h"
#include "import_names.h"
#include "readers.h"
#include "scan.h"
#include "sort.h"

typedef struct header {
    int64_t n, edges;
    int sizes, vertex_weights, edge_weights; /* 1: the lines contain them */
    int64_t constraints;
} header;

/* Advances to the next line that is not a comment. */
static int next_vertex(import *x)
{
    while (scan_next_line(x))
        if (*x->reader.at != '%') return 1;
    return 0;
}

/* Reads n, the number of edges, and optionally three digits (sizes, vertex weights, edge weights) and the number of
   weights of a vertex. */
static hga_status read_metis_header(import *x, header *h)
{
    hga_status st = HGA_OK;
    int64_t format = 0;
    while (x->reader.at < x->reader.end && *x->reader.at == '%')
        if (!scan_next_line(x)) break;
    HGA_TRY(scan_integer(x, "vertices", 0, INT32_MAX - 4097, &h->n));
    HGA_TRY(scan_integer(x, "edges", 0, INT64_MAX / 64, &h->edges));
    scan_blanks(x);
    if (!scan_at_line_end(x)) HGA_TRY(scan_integer(x, "format", 0, 111, &format));
    if (format % 10 > 1 || format / 10 % 10 > 1)
        HGA_TRY(scan_wrong(x, "format %lld is not of 0 and 1", (long long)format));
    h->edge_weights = format % 10 == 1, h->vertex_weights = format / 10 % 10 == 1, h->sizes = format / 100 == 1;
    h->constraints = h->vertex_weights;
    scan_blanks(x);
    if (!scan_at_line_end(x)) HGA_TRY(scan_integer(x, "weights of a vertex", 0, 1024, &h->constraints));
    scan_blanks(x);
    if (!scan_at_line_end(x)) HGA_TRY(scan_wrong(x, "more than four numbers in the first line"));
    if (h->n > 0) st = import_reach(x, h->n - 1);
done:
    return st;
}

/* Notes the sizes and weights that the lines contain. */
static hga_status note_weights(import *x, const header *h)
{
    hga_status st = HGA_OK;
    int of_edges = !x->wish->pattern;
    if (h->sizes) HGA_TRY(import_note_name(x, "nodes", "size", 4, 0));
    if (h->vertex_weights && h->constraints > 0) HGA_TRY(import_note_name(x, "nodes", "weight as mass", 14, 1));
    if (h->vertex_weights && h->constraints > 1) HGA_TRY(import_note_name(x, "nodes", "further weights", 15, 0));
    if (h->edge_weights) st = import_note_name(x, "edges", "weight", 6, of_edges);
done:
    return st;
}

/* Reads the sizes and weights that precede the neighbours; the first weight is the mass. */
static hga_status read_weights(import *x, const header *h, hga_id v)
{
    hga_status st = HGA_OK;
    import_node *node;
    int64_t number;
    if (h->sizes) HGA_TRY(scan_integer(x, "size", 0, INT64_MAX, &number));
    for (int64_t i = 0; h->vertex_weights && i < h->constraints; i++) {
        HGA_TRY(scan_integer(x, "weight of a vertex", 0, INT32_MAX, &number));
        if (i > 0) continue;
        HGA_TRY(import_tell(x, v, &node));
        node->mass = (float)number;
    }
done:
    return st;
}

/* Reads a vertex's weights, then its neighbours. */
static hga_status read_vertex(import *x, const header *h, hga_id v)
{
    hga_status st = HGA_OK;
    int64_t u;
    double weight = 1;
    HGA_TRY(read_weights(x, h, v));
    for (scan_blanks(x); !scan_at_line_end(x); scan_blanks(x)) {
        HGA_TRY(scan_integer(x, "neighbour", 1, h->n, &u));
        if (h->edge_weights) HGA_TRY(scan_real(x, "weight of an edge", &weight));
        HGA_TRY(import_edge_add(x, 0, u - 1, v, 0, weight));
    }
done:
    return st;
}

static hga_id lower_end(const import_edge *e) { return e->src < e->dst ? e->src : e->dst; }
static hga_id upper_end(const import_edge *e) { return e->src < e->dst ? e->dst : e->src; }

/* Orders edges so that those between two vertices are adjacent, edges into the lower one first. */
static int pair_before(const import_edge *a, const import_edge *b)
{
    if (lower_end(a) != lower_end(b)) return lower_end(a) < lower_end(b);
    if (upper_end(a) != upper_end(b)) return upper_end(a) < upper_end(b);
    return a->dst != b->dst ? a->dst < b->dst : a->weight < b->weight;
}

SORT_DEFINE(sort_pairs, import_edge, pair_before)

/* Checks that the lists are symmetric, with equal weights. */
static hga_status check_pairs(import *x)
{
    const import_edge *e = x->edges.list;
    sort_pairs(x->edges.list, x->edges.n);
    for (int64_t i = 0, end; i < x->edges.n; i = end) {
        int64_t half = 0;
        for (end = i;
             end < x->edges.n && lower_end(&e[end]) == lower_end(&e[i]) && upper_end(&e[end]) == upper_end(&e[i]);)
            half += e[end++].dst == lower_end(&e[i]);
        if (e[i].src == e[i].dst) continue;
        int is_pair = 2 * half == end - i;
        for (int64_t k = i; is_pair && k < i + half; k++) is_pair = e[k].weight == e[k + half].weight;
        if (!is_pair)
            return hga_fail(HGA_EFORMAT, "%s: vertices %d and %d do not list each other alike", x->name,
                            lower_end(&e[i]) + 1, upper_end(&e[i]) + 1);
    }
    return HGA_OK;
}

/* After the last vertex only comments and empty lines are allowed. */
static hga_status check_rest(import *x, const header *h)
{
    while (next_vertex(x)) {
        scan_blanks(x);
        if (!scan_at_line_end(x))
            return scan_wrong(x, "more lines than the %lld vertices of the first line", (long long)h->n);
    }
    return HGA_OK;
}

/* Reads all lines; the number of edges must be that of the header. */
static hga_status read_vertices(import *x)
{
    hga_status st = HGA_OK;
    header h = {0};
    hga_id relation;
    HGA_TRY(scan_start(x));
    HGA_TRY(import_relation(x, NULL, &relation));
    HGA_TRY(read_metis_header(x, &h));
    HGA_TRY(note_weights(x, &h));
    for (hga_id v = 0; v < h.n; v++) {
        /* the lines of the last vertices may be empty, and the last end of line may be missing */
        if (!next_vertex(x) && (x->edges.n < 2 * h.edges || h.vertex_weights))
            HGA_TRY(scan_wrong(x, "the file ends before vertex %d of %lld", v + 1, (long long)h.n));
        HGA_TRY(read_vertex(x, &h, v));
    }
    HGA_TRY(check_rest(x, &h));
    if (x->edges.n != 2 * h.edges)
        HGA_TRY(scan_wrong(x, "%lld edges are told of, from both ends, and the first line says %lld",
                           (long long)x->edges.n, (long long)h.edges));
    st = check_pairs(x);
done:
    return st;
}

hga_status import_metis(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out)
{
import x;
    hga_status st = import_open(&x, a, path, o, out);
    return import_close(&x, st ? st : read_vertices(&x), out);
}
