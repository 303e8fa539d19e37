/* write_metis.c: a relation as a METIS .graph file, which is undirected: an edge for every pair of nodes that are
   joined in either direction, without self loops. Its weight counts the edges between the two; a file where all weights
   are 1 has none. */
#include "sort.h"
#include "write.h"

enum { EDGES_AT_A_TIME = 1 << 20, ROWS_AT_A_TIME = 16384 };

typedef struct metis {
    output out;
    const hga_graph *g, *transposed;
    hga_id relation, n;
    hga_pos entries;   /* of all rows: every undirected edge twice */
    int weighted;      /* some pair has more than one edge */
    hga_id *neighbour; /* of one row */
    int64_t capacity;
    hga_progress progress;
    void *context;
    double done, share; /* progress at the pass's start; what the pass adds */
} metis;

static int id_before(const hga_id *a, const hga_id *b) { return *a < *b; }

SORT_DEFINE(sort_ids, hga_id, id_before)

/* The neighbours of row i of the chunk, with repetitions, sorted. */
static hga_status find_neighbours(metis *w, const hga_csr *in, const hga_csr *from, hga_id i, hga_pos *n)
{
    hga_pos both = in->ptr[i + 1] - in->ptr[i] + from->ptr[i + 1] - from->ptr[i];
    hga_status st = hga_grow(hga_graph_allocator(w->g), &w->neighbour, &w->capacity, 0, both, sizeof *w->neighbour);
    if (st) return st;
    *n = 0;
    for (hga_pos e = in->ptr[i]; e < in->ptr[i + 1]; e++)
        if (in->src[e] != in->first + i) w->neighbour[(*n)++] = in->src[e];
    for (hga_pos e = from->ptr[i]; e < from->ptr[i + 1]; e++)
        if (from->src[e] != from->first + i) w->neighbour[(*n)++] = from->src[e];
    sort_ids(w->neighbour, *n);
    return HGA_OK;
}

static void count_entries(metis *w, hga_pos n)
{
    for (hga_pos e = 0; e < n; e++) {
        int again = e > 0 && w->neighbour[e] == w->neighbour[e - 1];
        w->entries += !again, w->weighted |= again;
    }
}

static void put_row(metis *w, hga_pos n)
{
    for (hga_pos e = 0, end; e < n; e = end) {
        for (end = e + 1; end < n && w->neighbour[end] == w->neighbour[e]; end++) continue;
        if (e > 0) output_bytes(&w->out, " ", 1);
        output_integer(&w->out, (int64_t)w->neighbour[e] + 1);
        if (w->weighted) output_bytes(&w->out, " ", 1), output_integer(&w->out, end - e);
    }
    output_bytes(&w->out, "\n", 1);
}

/* Calls `visit` with the number of neighbours of each row, which are in w->neighbour. */
static hga_status visit_neighbours(metis *w, hga_id first, hga_id rows, void (*visit)(metis *, hga_pos))
{
    hga_csr in = {0}, from = {0};
    hga_pos n;
    hga_status st = HGA_OK;
    HGA_TRY(relation_rows(w->g, w->relation, first, rows, &in));
    HGA_TRY(relation_rows(w->transposed, relation_transposed(w->relation), first, rows, &from));
    for (hga_id i = 0; i < rows; i++) {
        HGA_TRY(find_neighbours(w, &in, &from, i, &n));
        visit(w, n);
    }
    HGA_TRY(output_check(&w->out));
done:
    hga_csr_clear(&in);
    hga_csr_clear(&from);
    return st;
}

/* The number of leading rows that have at most EDGES_AT_A_TIME edges in both directions; at least one. */
static hga_id rows_in_chunk(const hga_pos *in, const hga_pos *from, hga_id n)
{
    hga_pos edges = in[0] + from[0];
    hga_id rows = 1;
    while (rows < n && edges + in[rows] + from[rows] <= EDGES_AT_A_TIME) edges += in[rows] + from[rows], rows++;
    return rows;
}

/* Visits all rows, in chunks whose edges fit the buffer. */
static hga_status pass(metis *w, void (*visit)(metis *, hga_pos))
{
    hga_pos *degree = NULL;
    hga_status st = HGA_OK;
    HGA_TRY(hga_new(hga_graph_allocator(w->g), 2 * ROWS_AT_A_TIME, sizeof *degree, &degree));
    for (hga_id first = 0; first < w->n;) {
        hga_id n = w->n - first < ROWS_AT_A_TIME ? w->n - first : ROWS_AT_A_TIME;
        relation_degrees(w->g, w->relation, first, n, degree);
        relation_degrees(w->transposed, relation_transposed(w->relation), first, n, degree + ROWS_AT_A_TIME);
        for (hga_id i = 0, rows; i < n; i += rows) {
            rows = rows_in_chunk(degree + i, degree + ROWS_AT_A_TIME + i, n - i);
            HGA_TRY(visit_neighbours(w, first + i, rows, visit));
            if (w->progress) w->progress(w->done + w->share * ((double)first + i + rows) / w->n, w->context);
        }
        first += n;
    }
    w->done += w->share;
done:
    hga_delete(hga_graph_allocator(w->g), degree, 2 * ROWS_AT_A_TIME, sizeof *degree);
    return st;
}

/* The first pass counts, since the header comes first; the second writes. */
hga_status hga_graph_write_metis(const hga_graph *g, hga_id relation, const char *path, hga_progress progress,
                                 void *context)
{
    hga_status st = relation_check(g, relation);
    if (st) return st;
    metis w = {.g = g,
               .relation = relation,
               .n = hga_graph_nodes(g).n,
               .progress = progress,
               .context = context,
               .share = 0.5};
    hga_graph *transposed = NULL;
    HGA_TRY(output_open(&w.out, path));
    HGA_TRY(hga_graph_transpose(g, &transposed));
    w.transposed = transposed;
    HGA_TRY(pass(&w, count_entries));
    output_integer(&w.out, w.n), output_text(&w.out, " "), output_integer(&w.out, w.entries / 2);
    output_text(&w.out, w.weighted ? " 001\n" : "\n");
    HGA_TRY(pass(&w, put_row));
done:
    hga_delete(hga_graph_allocator(g), w.neighbour, w.capacity, sizeof *w.neighbour);
    hga_graph_destroy(transposed);
    return output_close(&w.out, st);
}
