/* write.c: numbers as text to a file that appears whole or not at all, and a relation's edges in pieces. */
#include "write.h"
#include "copy.h"
#include "written.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

/* ---- a file ---- */

hga_status output_open(output *o, const char *path)
{
    o->used = 0, o->error = 0;
    return hga_file_open(&o->file, path);
}

hga_status output_check(const output *o)
{
    return o->error ? hga_fail(HGA_EIO, "cannot write %s: %s", o->file.path, strerror(o->error)) : HGA_OK;
}

static void put(output *o, const void *bytes, size_t n)
{
    if (o->error || n == 0) return;
    errno = 0;
    memory_must_be_written(bytes, n);
    if (fwrite(bytes, 1, n, o->file.stream) != n) o->error = errno ? errno : EIO;
}

static void put_waiting(output *o)
{
    put(o, o->buffer, o->used);
    o->used = 0;
}

hga_status output_close(output *o, hga_status st)
{
    if (!o->file.stream) return st;
    if (!st) put_waiting(o), st = output_check(o);
    if (!st) return hga_file_keep(&o->file);
    hga_file_drop(&o->file);
    return st;
}

/* ---- text ---- */

void output_bytes(output *o, const void *bytes, size_t n)
{
    if (n > sizeof o->buffer - o->used) put_waiting(o);
    if (n > sizeof o->buffer) {
        put(o, bytes, n);
    } else {
        memcpy(o->buffer + o->used, bytes, n);
        o->used += n;
    }
}

void output_text(output *o, const char *text) { output_bytes(o, text, strlen(text)); }

void output_integer(output *o, int64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    do digits[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) output_bytes(o, "-", 1);
    output_bytes(o, digits + at, sizeof digits - at);
}

/* Replace the locale's decimal point by a full stop. */
static void use_full_stop(char *text)
{
    const char *point = localeconv()->decimal_point;
    size_t length = strlen(point);
    char *at = length ? strstr(text, point) : NULL;
    if (!at) return;
    *at = '.';
    memmove(at + 1, at + length, strlen(at + length) + 1);
}

char *real_text(float value, char text[static REAL_BYTES])
{
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, REAL_BYTES, "%.*g", digits, (double)value);
        if ((float)strtod(text, NULL) == value) break;
    }
    use_full_stop(text);
    return text;
}

void output_real(output *o, float value)
{
    char text[REAL_BYTES];
    output_text(o, real_text(value, text));
}

/* ---- edges ---- */

hga_status local_ids_find(const hga_graph *g, local_ids *out)
{
    hga_nodes nodes = hga_graph_nodes(g);
    *out = (local_ids){0};
    if (!is_cross(&nodes)) return HGA_OK;
    hga_status st = hga_new(graph_allocator(g), nodes.n, sizeof *out->rank, &out->rank);
    for (hga_id v = 0; !st && v < nodes.n; v++) out->rank[v] = out->n_side[node_side(&nodes, v)]++;
    return st;
}

void local_ids_clear(const hga_graph *g, local_ids *ids)
{
    hga_delete(graph_allocator(g), ids->rank, hga_graph_nodes(g).n, sizeof *ids->rank);
    ids->rank = NULL;
}

enum { ROWS_AT_A_TIME = 16384, EDGES_AT_A_TIME = 1 << 20 };

/* How many of the rows together have at most EDGES_AT_A_TIME edges; at least one. */
static hga_id rows_in_piece(const hga_pos *degree, hga_id n)
{
    hga_pos edges = degree[0];
    hga_id rows = 1;
    while (rows < n && edges + degree[rows] <= EDGES_AT_A_TIME) edges += degree[rows++];
    return rows;
}

typedef struct pieces {
    const hga_graph *g;
    hga_id relation;
    hga_pos done, all;
    piece_visitor visit;
    void *context;
} pieces;

static hga_status visit_piece(pieces *p, hga_id first, hga_id n)
{
    hga_csr rows = {0};
    hga_status st = relation_rows(p->g, p->relation, first, n, &rows);
    if (st) return st;
    p->done += rows.ptr[n];
    st = p->visit(&rows, p->context);
    hga_csr_clear(&rows);
    return st;
}

hga_status pieces_visit(const hga_graph *g, hga_id relation, piece_visitor visit, void *context, hga_progress progress,
                        void *progress_context)
{
    hga_status st = HGA_OK;
    hga_id n = hga_graph_nodes(g).n;
    pieces p = {g, relation, 0, relation_view(g, relation).n_edges, visit, context};
    hga_pos *degree = NULL;
    HGA_TRY(hga_new(graph_allocator(g), ROWS_AT_A_TIME, sizeof *degree, &degree));
    for (hga_id first = 0; first < n;) {
        hga_id end = n - first < ROWS_AT_A_TIME ? n : first + ROWS_AT_A_TIME;
        relation_degrees(g, relation, first, end - first, degree);
        for (hga_id start = first; first < end;) {
            hga_id rows = rows_in_piece(degree + (first - start), end - first);
            HGA_TRY(visit_piece(&p, first, rows));
            first += rows;
            if (progress && p.all > 0) progress((double)p.done / (double)p.all, progress_context);
        }
    }
    if (p.done != p.all)
        st = hga_fail(HGA_EGRAPH, "relation %d: %lld edges counted, %lld found", relation, (long long)p.all,
                      (long long)p.done);
done:
    hga_delete(graph_allocator(g), degree, ROWS_AT_A_TIME, sizeof *degree);
    return st;
}
