/* linear_edges.c: edges of blocks and listed ones, counted and then listed, in the relation's order. */
#include "linear_edges.h"

static int has_row(const linear_rows *x, hga_id v) { return v >= x->first && v - x->first < x->n; }

/* Edges are counted, and then listed. */
typedef struct edge_walk {
    const hga_plan *plan;
    const hga_stage *stage;
    hga_relation r;
    linear_edges *e;
    const linear_rows *rows, *out, *value; /* rows: those of the end that is gone through */
    hga_id *rank;                          /* of its nodes: where they are in the order */
    double *total;                         /* [out's rows]: what a mean is divided by; NULL for sums */
    const float *scale, *mass;             /* NULL: are no part of a weight */
    int listing;
} edge_walk;

/* A row that edges come to. */
typedef struct edge_row {
    hga_id v;
    hga_id rank; /* -1: sources are gone through */
    double *total;
    double inverse;
} edge_row;

/* Row v, unless the stage does not compute it. */
static int open_row(const edge_walk *w, hga_id v, edge_row *row)
{
    const hga_program *p = &w->plan->program;
    if (!has_row(w->out, v) || !program_row(&w->plan->nodes, p->field[w->stage->out].rows, v)) return 0;
    *row = (edge_row){.v = v, .rank = w->e->by_source ? -1 : w->rank[v - w->rows->first], .inverse = 1};
    if (!w->total) return 1;
    row->total = &w->total[v - w->out->first];
    row->inverse = *row->total > 0 ? 1 / *row->total : 0;
    return 1;
}

static inline void add_edge(const edge_walk *w, const edge_row *row, hga_id u, int32_t type, float weight)
{
    linear_edges *e = w->e;
    if (!has_row(w->value, u)) return;
    hga_pos *ptr = &e->ptr[row->rank < 0 ? w->rank[u - w->rows->first] : row->rank];
    float factor = weight;
    if (w->scale) factor *= w->scale[type];
    if (w->mass) factor *= w->mass[u];
    if (!w->listing) {
        ++*ptr;
        if (row->total) *row->total += (double)factor;
        return;
    }
    hga_pos at = --*ptr;
    e->other[at] = e->by_source ? row->v : u;
    e->weight[at] = (float)((double)factor * row->inverse);
    if (e->type) e->type[at] = type, e->unscaled[at] = weight;
}

/* One segment's edges into row p. */
static void add_row(const edge_walk *w, const hga_segment *s, hga_id p)
{
    hga_id c0, c1, hole;
    edge_row row;
    if (!open_row(w, w->r.dst_order ? w->r.dst_order[p] : p, &row)) return;
    hga_segment_columns(s, p, &c0, &c1, &hole);
    for (hga_id c = c0; c < c1; c++) {
        int64_t type = s->type + (int64_t)(p - s->row) * s->type_dst + (int64_t)c * s->type_src;
        if (c != hole)
            add_edge(w, &row, w->r.src_order ? w->r.src_order[s->src + c] : s->src + c, (int32_t)type, s->weight);
    }
}

static void add_segments(const hga_segments *s, void *context)
{
    for (hga_id i = 0; i < s->count; i++) {
        hga_segment one = hga_segments_at(s, i);
        for (hga_id p = one.row; p < one.row + one.n_rows; p++) add_row(context, &one, p);
    }
}

static void add_all(edge_walk *w)
{
    const hga_plan *plan = w->plan;
    const hga_relation *r = &w->r;
    edge_row row;
    if (r->n_blocks) hga_graph_visit_segments(plan->graph, w->stage->relation, 0, plan->nodes.n, add_segments, w);
    for (hga_id v = 0; r->ptr && v < plan->nodes.n; v++)
        if (r->ptr[v] < r->ptr[v + 1] && open_row(w, v, &row))
            for (hga_pos i = r->ptr[v]; i < r->ptr[v + 1]; i++)
                add_edge(w, &row, r->src[i], r->type ? r->type[i] : 0, r->weight ? r->weight[i] : 1);
}

/* First those that the relation's order names, as it does, then the others. */
static void order_rows(const edge_walk *w)
{
    const linear_edges *e = w->e;
    const hga_id *list = e->by_source ? w->r.src_order : w->r.dst_order;
    hga_id named = e->by_source ? w->r.n_src_order : w->plan->nodes.n, n = 0;
    for (hga_id i = 0; i < e->n; i++) w->rank[i] = -1;
    for (hga_id i = 0; list && i < named; i++)
        if (has_row(w->rows, list[i])) w->rank[list[i] - w->rows->first] = n, e->order[n++] = list[i];
    for (hga_id i = 0; i < e->n; i++)
        if (w->rank[i] < 0) w->rank[i] = n, e->order[n++] = w->rows->first + i;
}

/* Nodes at the other end that are given so much that floats would lose it. */
static hga_status find_heavy(const hga_plan *plan, linear_edges *e, const linear_rows *others)
{
    hga_status st = HGA_OK;
    const hga_allocator *a = &plan->given;
    hga_pos *degree = NULL;
    if (e->room <= SUM_CUT) return HGA_OK;
    HGA_TRY(hga_new_zero(a, others->n, sizeof *degree, &degree));
    for (hga_pos i = 0; i < e->room; i++) e->n_heavy += degree[e->other[i] - others->first]++ == SUM_CUT;
    HGA_TRY(hga_new(a, e->n_heavy, sizeof *e->heavy, &e->heavy));
    HGA_TRY(hga_new(a, (int64_t)e->n_heavy * linear_columns(plan), sizeof *e->wide, &e->wide));
    for (hga_id i = 0, n = 0; i < others->n; i++)
        if (degree[i] > SUM_CUT) e->heavy[n++] = others->first + i;
done:
    hga_delete(a, degree, others->n, sizeof *degree);
    return st;
}

hga_status linear_edges_list(const gradient_call *c, hga_id stage, const linear_rows *out, const linear_rows *value,
                             linear_edges *e)
{
    hga_status st = HGA_OK;
    const hga_allocator *a = &c->plan->given;
    edge_walk w = {.plan = c->plan, .e = e, .out = out, .value = value};
    w.stage = &c->plan->program.stage[stage], w.r = c->plan->stage[stage].relation;
    w.scale = w.stage->message == HGA_SCALED ? c->io->type_scale : NULL;
    w.mass = w.stage->reduce == HGA_MEAN && w.stage->by_mass ? c->plan->nodes.mass : NULL;
    e->by_source = value->n > out->n;
    w.rows = e->by_source ? value : out, e->n = w.rows->n;
    HGA_TRY(hga_new(a, e->n, sizeof *w.rank, &w.rank));
    if (w.stage->reduce == HGA_MEAN) HGA_TRY(hga_new_zero(a, out->n, sizeof *w.total, &w.total));
    HGA_TRY(hga_new(a, e->n, sizeof *e->order, &e->order));
    HGA_TRY(hga_new_zero(a, (int64_t)e->n + 1, sizeof *e->ptr, &e->ptr));
    order_rows(&w);
    add_all(&w);
    for (hga_id i = 0; i < e->n; i++) e->ptr[i + 1] += e->ptr[i];
    e->room = e->ptr[e->n];
    HGA_TRY(hga_new(a, e->room, sizeof *e->other, &e->other));
    HGA_TRY(hga_new(a, e->room, sizeof *e->weight, &e->weight));
    if (c->grad->d_type_scale && w.stage->message == HGA_SCALED) {
        HGA_TRY(hga_new(a, e->room, sizeof *e->unscaled, &e->unscaled));
        HGA_TRY(hga_new(a, e->room, sizeof *e->type, &e->type));
    }
    w.listing = 1;
    add_all(&w);
    HGA_TRY(find_heavy(c->plan, e, e->by_source ? out : value));
done:
    hga_delete(a, w.rank, e->n, sizeof *w.rank);
    hga_delete(a, w.total, out->n, sizeof *w.total);
    return st;
}

void linear_edges_clear(const hga_plan *plan, linear_edges *e)
{
    const hga_allocator *a = &plan->given;
    hga_delete(a, e->order, e->n, sizeof *e->order);
    hga_delete(a, e->ptr, (int64_t)e->n + 1, sizeof *e->ptr);
    hga_delete(a, e->other, e->room, sizeof *e->other);
    hga_delete(a, e->weight, e->room, sizeof *e->weight);
    hga_delete(a, e->unscaled, e->room, sizeof *e->unscaled);
    hga_delete(a, e->type, e->room, sizeof *e->type);
    hga_delete(a, e->heavy, e->n_heavy, sizeof *e->heavy);
    hga_delete(a, e->wide, (int64_t)e->n_heavy * linear_columns(plan), sizeof *e->wide);
}

int64_t linear_edges_bytes(const hga_plan *plan, hga_id stage, hga_id n)
{
    int64_t edge = sizeof(hga_id) + sizeof(float);
    if (plan->program.stage[stage].message == HGA_SCALED) edge += (int64_t)(sizeof(float) + sizeof(int32_t));
    return plan->stage[stage].relation.n_edges * edge + n * (int64_t)(sizeof(hga_id) + sizeof(hga_pos));
}
