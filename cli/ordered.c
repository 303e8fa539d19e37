/* ordered.c: arrays with a row for each node, or an entry for each edge, moved into an order and back. */
#include "ordered.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"

/* ---- the order ---- */

int ordered_find(hga_ordering how, model *m)
{
    if (!how) return CLI_GOOD;
    MUST(take(hga_graph_nodes(m->graph).n, sizeof *m->order, &m->order));
    MUST(complain_of(hga_graph_order(m->graph, how, m->order), CLI_USAGE, "order"));
    return complain_of(hga_graph_renumber(m->graph, m->order, &m->ordered), CLI_DATA, m->title);
}

const hga_graph *ordered_graph(const model *m) { return m->ordered ? m->ordered : m->graph; }

static double percent(hga_pos part, hga_pos all) { return all ? 100.0 * (double)part / (double)all : 0; }

/* rows read by others for each of the 128 rows that read them together, on average */
static double rows_a_row(const hga_locality *l, const model *m)
{
    hga_id n = hga_graph_nodes(m->graph).n;
    return n ? (double)l->gathered / n : 0;
}

/* Compares the graph before and after it was ordered. */
int ordered_gain(const model *m, char **text)
{
    enum { CAPACITY = 256 };
    hga_locality was, is;
    *text = NULL;
    if (!m->ordered) return CLI_GOOD;
    MUST(complain_of(hga_graph_locality(m->graph, 2, &was), CLI_DATA, m->title));
    MUST(complain_of(hga_graph_locality(m->ordered, 2, &is), CLI_DATA, m->title));
    MUST(take(CAPACITY, 1, text));
    snprintf(*text, CAPACITY,
             "edges between two halves %.1f -> %.1f %%, rows read for a row %.2f -> %.2f, bandwidth %d -> %d, mean "
             "distance %.0f -> %.0f",
             percent(was.cut, was.edges), percent(is.cut, is.edges), rows_a_row(&was, m), rows_a_row(&is, m),
             was.bandwidth, is.bandwidth, was.distance, is.distance);
    return CLI_GOOD;
}

int ordered_say(const model *m)
{
    char *text;
    int status = ordered_gain(m, &text);
    if (text) fprintf(stderr, "hga: order: %s\n", text);
    free(text);
    return status;
}

/* ---- rows and entries that move ---- */

/* n items of `columns` floats: number i in order is the caller's from[i] - first, or edge[i]. */
struct ordered_move {
    const hga_id *from;
    const hga_pos *edge;
    int64_t first, n, columns;
    float *ours, *theirs;
};

static int64_t theirs_at(const ordered_move *x, int64_t i) { return x->edge ? x->edge[i] : x->from[i] - x->first; }

typedef enum direction { THERE, BACK } direction;

static void carry(const ordered_move *x, direction way)
{
    for (int64_t i = 0; i < x->n; i++) {
        float *ours = x->ours + i * x->columns, *theirs = x->theirs + theirs_at(x, i) * x->columns;
        memcpy(way == THERE ? ours : theirs, way == THERE ? theirs : ours, (size_t)x->columns * sizeof *ours);
    }
}

/* The move of the caller's tensor of a field. */
static ordered_move rows_of(ordered_call *c, hga_binding binding, int64_t columns)
{
    const model *m = c->m;
    hga_id first = 0, n = 0;
    hga_status st = hga_program_rows(&m->program, m->graph, hga_program_field(&m->program, binding), &first, &n);
    if (!c->status) c->status = complain_of(st, CLI_DATA, m->title);
    return (ordered_move){.from = m->order + first, .first = first, .n = n, .columns = columns};
}

/* The move of a table that has a row for every node or edge; without rows it stays as it is. */
static ordered_move rows_of_table(const ordered_call *c, const hga_shape *s, hga_call_table t)
{
    const hga_extent extent = hga_call_tables()[t].rows;
    ordered_move x = {0};
    if (extent == HGA_EXTENT_NODES) x.from = c->m->order, x.n = hga_graph_nodes(c->m->graph).n;
    if (extent == HGA_EXTENT_EDGES) x.edge = c->edge, x.n = c->io.table[t].rows;
    if (x.n) x.columns = call_entries(c->m, s, &c->io, t) / x.n;
    return x;
}

/* ---- a call ---- */

/* The array that replaces one of the caller's in the call; NULL if that is NULL. After a failure, which c->status
   keeps, does nothing. */
static float *moved(ordered_call *c, ordered_move x, direction way, const void *theirs)
{
    if (!theirs || c->status) return NULL;
    x.theirs = (float *)(uintptr_t)theirs; /* written only in the backward pass */
    c->status = take(x.n * x.columns, sizeof *x.ours, &x.ours);
    if (c->status) return NULL;
    if (way == THERE) carry(&x, THERE);
    c->back[c->n] = way == BACK;
    c->move[c->n++] = x;
    return x.ours;
}

/* The tensors of a call and of its gradients. */
static const struct {
    size_t io, grad;
    hga_binding rows;
} tensors[] = {{offsetof(hga_io, query), offsetof(hga_grad_io, d_query), HGA_IO_QUERY},
               {offsetof(hga_io, key), offsetof(hga_grad_io, d_key), HGA_IO_KEY},
               {offsetof(hga_io, value), offsetof(hga_grad_io, d_value), HGA_IO_VALUE},
               {offsetof(hga_io, out), offsetof(hga_grad_io, d_out), HGA_IO_OUT},
               {offsetof(hga_io, lse), offsetof(hga_grad_io, d_lse), HGA_IO_OUT},
               {offsetof(hga_io, edge_out), offsetof(hga_grad_io, d_edge_out), HGA_IO_OUT}};
enum { N_TENSORS = sizeof tensors / sizeof *tensors };

/* Inputs are moved to the order, and outputs moved back; of gradients those of outputs are inputs. */
static void move_call(ordered_call *c, const hga_shape *s, const hga_grad_io *grad)
{
    const int64_t heads = s->n_heads, kv = s->n_kv_heads ? s->n_kv_heads : heads;
    const int64_t columns[N_TENSORS] = {heads * s->dim,   kv * s->dim, kv * s->dim_v,
                                        heads * s->dim_v, heads,       heads * c->io.edge_value.columns};
    for (int i = 0; i < N_TENSORS; i++) {
        const direction way = tensors[i].rows == HGA_IO_OUT ? BACK : THERE;
        hga_tensor *x = (hga_tensor *)((char *)&c->io + tensors[i].io);
        hga_tensor *d = (hga_tensor *)((char *)&c->grad + tensors[i].grad);
        x->data = moved(c, rows_of(c, tensors[i].rows, columns[i]), way, x->data);
        if (grad) d->data = moved(c, rows_of(c, tensors[i].rows, columns[i]), way == BACK ? THERE : BACK, d->data);
    }
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        ordered_move x = rows_of_table(c, s, t);
        if (!x.n) continue;
        c->io.table[t].data = moved(c, x, THERE, c->io.table[t].data);
        if (grad) c->grad.d_table[t] = moved(c, x, BACK, c->grad.d_table[t]);
    }
}

/* Finds the edges' positions if there is a table of edges. */
static int find_edges(ordered_call *c)
{
    int64_t n = 0;
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        if (hga_call_tables()[t].rows == HGA_EXTENT_EDGES && c->io.table[t].data) n = c->io.table[t].rows;
    int status = take(n, sizeof *c->edge, &c->edge);
    if (status || !n) return status;
    hga_id relation = score_stage(&c->m->program)->relation;
    return complain_of(hga_graph_renumbered_edges(c->m->graph, relation, c->m->order, c->edge), CLI_DATA, c->m->title);
}

/* Without an order the call stays as it is. */
int ordered_open(const model *m, const hga_shape *shape, const hga_io *io, const hga_grad_io *grad, ordered_call *c)
{
    *c = (ordered_call){.m = m, .io = *io};
    if (grad) c->grad = *grad;
    if (!m->ordered) return CLI_GOOD;
    c->status = take(MOST_MOVES, sizeof *c->move, &c->move);
    if (!c->status) c->status = find_edges(c);
    move_call(c, shape, grad);
    return c->status;
}

void ordered_return(ordered_call *c)
{
    for (int i = 0; i < c->n; i++)
        if (c->back[i]) carry(&c->move[i], BACK);
}

void ordered_close(ordered_call *c)
{
    for (int i = 0; i < c->n; i++) free(c->move[i].ours);
    free(c->move);
    free(c->edge);
    *c = (ordered_call){0};
}
