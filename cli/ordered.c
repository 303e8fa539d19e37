/* ordered.c: what has a row a node, or an entry an edge, on its way into an order and back. */
#include "ordered.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"

/* ---- the order ---- */

int ordered_find(hga_ordering how, model *m)
{
    int status = CLI_GOOD;
    if (!how) return CLI_GOOD;
    TRY(take(hga_graph_nodes(m->graph).n, sizeof *m->order, &m->order));
    TRY(complain_of(hga_graph_order(m->graph, how, m->order), CLI_USAGE, "order"));
    TRY(complain_of(hga_graph_renumber(m->graph, m->order, &m->ordered), CLI_DATA, m->title));
done:
    return status;
}

const hga_graph *ordered_graph(const model *m) { return m->ordered ? m->ordered : m->graph; }

static double percent(hga_pos part, hga_pos all) { return all ? 100.0 * (double)part / (double)all : 0; }

/* rows of others for each of the 128 rows that read them together, in the mean */
static double rows_a_row(const hga_locality *l, const model *m)
{
    hga_id n = hga_graph_nodes(m->graph).n;
    return n ? (double)l->gathered / n : 0;
}

/* Compares the graph before and after it was ordered. */
int ordered_gain(const model *m, char **text)
{
    enum { ROOM = 256 };
    hga_locality was, is;
    int status = CLI_GOOD;
    *text = NULL;
    if (!m->ordered) return CLI_GOOD;
    TRY(complain_of(hga_graph_locality(m->graph, 2, &was), CLI_DATA, m->title));
    TRY(complain_of(hga_graph_locality(m->ordered, 2, &is), CLI_DATA, m->title));
    TRY(take(ROOM, 1, text));
    snprintf(*text, ROOM,
             "edges between two halves %.1f -> %.1f %%, rows read for a row %.2f -> %.2f, bandwidth %d -> %d, mean "
             "distance %.0f -> %.0f",
             percent(was.cut, was.edges), percent(is.cut, is.edges), rows_a_row(&was, m), rows_a_row(&is, m),
             was.bandwidth, is.bandwidth, was.distance, is.distance);
done:
    return status;
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

static void bring(const ordered_move *x)
{
    size_t bytes = (size_t)x->columns * sizeof(float);
    for (int64_t i = 0; i < x->n; i++)
        memcpy(x->ours + i * x->columns, x->theirs + theirs_at(x, i) * x->columns, bytes);
}

static void bring_back(const ordered_move *x)
{
    size_t bytes = (size_t)x->columns * sizeof(float);
    for (int64_t i = 0; i < x->n; i++)
        memcpy(x->theirs + theirs_at(x, i) * x->columns, x->ours + i * x->columns, bytes);
}

/* The rows that the caller's tensor of a field has. */
static ordered_move rows_of(ordered_call *c, hga_binding binding, int64_t columns)
{
    const model *m = c->m;
    hga_id first = 0, n = 0;
    hga_status st = hga_program_rows(&m->program, m->graph, hga_program_field(&m->program, binding), &first, &n);
    if (!c->status) c->status = complain_of(st, CLI_DATA, m->title);
    return (ordered_move){.from = m->order + first, .first = first, .n = n, .columns = columns};
}

/* Those of a table that has a row for every node or edge; without rows it stays as it is. */
static ordered_move rows_of_table(const ordered_call *c, const hga_shape *s, hga_call_table t)
{
    const hga_extent extent = hga_call_tables()[t].rows;
    ordered_move x = {.n = call_rows(c->m, s, &c->io, t)};
    if (x.n) x.columns = call_entries(c->m, s, &c->io, t) / x.n;
    if (extent == HGA_EXTENT_NODES) x.from = c->m->order;
    if (extent == HGA_EXTENT_EDGES) x.edge = c->edge;
    return x.from || x.edge ? x : (ordered_move){.n = 0};
}

/* ---- a call ---- */

typedef enum direction { THERE, BACK } direction;

/* What stands for an array of the caller's in the call; NULL where that is. After a failure, which c->status keeps,
   nothing more is done. */
static float *moved(ordered_call *c, ordered_move x, direction way, const void *theirs)
{
    if (!theirs || c->status) return NULL;
    x.theirs = (float *)(uintptr_t)theirs; /* written only in the backward pass */
    c->status = take(x.n * x.columns, sizeof *x.ours, &x.ours);
    if (c->status) return NULL;
    if (way == THERE) bring(&x);
    c->back[c->n] = way == BACK;
    c->move[c->n++] = x;
    return x.ours;
}

/* Queries, keys, values and tables go to the order. */
static void move_inputs(ordered_call *c, const hga_shape *s, hga_io *io)
{
    hga_id kv_heads = s->n_kv_heads ? s->n_kv_heads : s->n_heads;
    io->query.data = moved(c, rows_of(c, HGA_IO_QUERY, (int64_t)s->n_heads * s->dim), THERE, io->query.data);
    io->key.data = moved(c, rows_of(c, HGA_IO_KEY, (int64_t)kv_heads * s->dim), THERE, io->key.data);
    io->value.data = moved(c, rows_of(c, HGA_IO_VALUE, (int64_t)kv_heads * s->dim_v), THERE, io->value.data);
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        ordered_move x = rows_of_table(c, s, t);
        if (x.n) io->table[t].data = moved(c, x, THERE, io->table[t].data);
    }
}

static void move_outputs(ordered_call *c, const hga_shape *s, hga_io *io)
{
    io->out.data = moved(c, rows_of(c, HGA_IO_OUT, (int64_t)s->n_heads * s->dim_v), BACK, io->out.data);
    io->lse.data = moved(c, rows_of(c, HGA_IO_OUT, s->n_heads), BACK, io->lse.data);
    int64_t features = (int64_t)s->n_heads * io->edge_value.columns;
    io->edge_out.data = moved(c, rows_of(c, HGA_IO_OUT, features), BACK, io->edge_out.data);
}

/* Gradients that are given go to the order, and those that are found come back from it. */
static void move_gradients(ordered_call *c, const hga_shape *s, hga_grad_io *g)
{
    hga_id kv_heads = s->n_kv_heads ? s->n_kv_heads : s->n_heads;
    g->d_out.data = moved(c, rows_of(c, HGA_IO_OUT, (int64_t)s->n_heads * s->dim_v), THERE, g->d_out.data);
    g->d_lse.data = moved(c, rows_of(c, HGA_IO_OUT, s->n_heads), THERE, g->d_lse.data);
    int64_t features = (int64_t)s->n_heads * c->io.edge_value.columns;
    g->d_edge_out.data = moved(c, rows_of(c, HGA_IO_OUT, features), THERE, g->d_edge_out.data);
    g->d_query.data = moved(c, rows_of(c, HGA_IO_QUERY, (int64_t)s->n_heads * s->dim), BACK, g->d_query.data);
    g->d_key.data = moved(c, rows_of(c, HGA_IO_KEY, (int64_t)kv_heads * s->dim), BACK, g->d_key.data);
    g->d_value.data = moved(c, rows_of(c, HGA_IO_VALUE, (int64_t)kv_heads * s->dim_v), BACK, g->d_value.data);
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        ordered_move x = rows_of_table(c, s, t);
        if (x.n) g->d_table[t] = moved(c, x, BACK, g->d_table[t]);
    }
}

/* Where there is a table of edges. */
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
    move_inputs(c, shape, &c->io);
    move_outputs(c, shape, &c->io);
    if (grad) move_gradients(c, shape, &c->grad);
    return c->status;
}

void ordered_return(ordered_call *c)
{
    for (int i = 0; i < c->n; i++)
        if (c->back[i]) bring_back(&c->move[i]);
}

void ordered_close(ordered_call *c)
{
    for (int i = 0; i < c->n; i++) free(c->move[i].ours);
    free(c->move);
    free(c->edge);
    *c = (ordered_call){0};
}
