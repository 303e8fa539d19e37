/* linear_edges.c: edges of blocks and explicit ones, counted and then listed, in the relation's order. */
#include "linear_edges.h"
#include "carve.h"
#include "plan.h"

#include <string.h>

static int has_row(const linear_rows *x, hga_id v) { return v >= x->first && v - x->first < x->n; }

/* A walk over the edges: the first counts them, the second lists them. */
typedef struct edge_walk {
    const hga_plan *plan;
    const hga_stage *stage;
    hga_relation r;
    linear_edges *e;
    const linear_rows *rows, *out, *value; /* rows: those of the end that is walked */
    hga_id *rank;                          /* of its nodes: their indices in the order */
    double *total;                         /* [out's rows]: divisors of means; NULL for sums */
    const float *mass;                     /* NULL: not in the weights */
    int listing;
} edge_walk;

/* A destination row. */
typedef struct edge_row {
    hga_id v;
    hga_id rank; /* -1: sources are walked */
    double *total;
    double inverse;
} edge_row;

/* Opens row v, unless the stage does not compute it. */
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

/* Counts an edge, or lists it at the end of its row with its share of the row's sum. */
static inline void add_edge(const edge_walk *w, const edge_row *row, hga_id u, int32_t type, float weight)
{
    linear_edges *e = w->e;
    if (!has_row(w->value, u)) return;
    hga_pos *ptr = &e->ptr[row->rank < 0 ? w->rank[u - w->rows->first] : row->rank];
    float factor = weight;
    if (w->mass) factor *= w->mass[u];
    if (!w->listing) {
        ++*ptr;
        if (row->total) *row->total += (double)factor;
        return;
    }
    hga_pos at = --*ptr;
    e->other[at] = e->by_source ? row->v : u;
    e->weight[at] = (float)((double)factor * row->inverse);
    if (e->type) e->type[at] = type;
}

/* Adds one segment's edges into row p. */
static void add_segment(const edge_walk *w, const hga_segment *s, hga_id p)
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
        for (hga_id p = one.row; p < one.row + one.n_rows; p++) add_segment(context, &one, p);
    }
}

/* Counts or lists every edge of the stage, those of blocks first. */
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

/* Orders first the rows that the relation's order names, as it does, then the others. */
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

/* ---- memory ---- */

/* The caller's rows, or all rows of a field that has none of the caller's. */
static linear_rows there_of(const hga_plan *plan, hga_id f)
{
    const hga_field *field = &plan->program.field[f];
    linear_rows rows = {0};
    rows.n = range_of_rows(plan, field->binding == HGA_INTERNAL ? field->rows : field->io, &rows.first);
    return rows;
}

/* The two ends. */
typedef struct edge_ends {
    linear_rows out, value, most; /* most: of the end that has more rows */
    int by_source;
} edge_ends;

static edge_ends ends_of(const hga_plan *plan, hga_id stage)
{
    const hga_stage *s = &plan->program.stage[stage];
    edge_ends x = {.out = there_of(plan, s->out), .value = there_of(plan, s->value)};
    x.by_source = x.value.n > x.out.n, x.most = x.by_source ? x.value : x.out;
    return x;
}

hga_id linear_most_heavy(const hga_plan *plan, hga_id stage)
{
    return (hga_id)(plan->stage[stage].relation.n_edges / SUM_CUT);
}

/* Carves capacity for as many edges as the stage's relation has, and decides whether they are listed by source or by
   destination. */
void linear_edges_lay_out(const hga_plan *plan, hga_id stage, linear_edges *e, carver *arena)
{
    edge_ends x = ends_of(plan, stage);
    hga_pos most = plan->stage[stage].relation.n_edges;
    *e = (linear_edges){.by_source = x.by_source, .n = x.most.n};
    e->order = carve(arena, e->n, sizeof *e->order);
    e->ptr = carve(arena, (int64_t)e->n + 1, sizeof *e->ptr);
    e->other = carve(arena, most, sizeof *e->other);
    e->weight = carve(arena, most, sizeof *e->weight);
    if (plan->program.stage[stage].message == HGA_SCALED) e->type = carve(arena, most, sizeof *e->type);
    e->heavy = carve(arena, linear_most_heavy(plan, stage), sizeof *e->heavy);
}

/* Scratch of listing: indices of nodes, sums of weights, degrees of the other end. */
typedef struct list_scratch {
    hga_id *rank;
    double *total;
    hga_pos *degree;
} list_scratch;

static list_scratch lay_out_scratch(const edge_ends *x, carver *arena)
{
    hga_id others = x->by_source ? x->out.n : x->value.n;
    return (list_scratch){carve(arena, x->most.n, sizeof(hga_id)), carve(arena, x->out.n, sizeof(double)),
                          carve(arena, others, sizeof(hga_pos))};
}

int64_t linear_scratch_bytes(const hga_plan *plan, hga_id stage)
{
    edge_ends x = ends_of(plan, stage);
    carver arena = {0};
    lay_out_scratch(&x, &arena);
    return arena.used;
}

/* ---- lists ---- */

/* Lists nodes at the other end whose sums have so many terms that floats would lose them. */
static void find_heavy(linear_edges *e, const linear_rows *others, hga_pos *degree)
{
    if (e->ptr[e->n] <= SUM_CUT) return;
    memset(degree, 0, (size_t)others->n * sizeof *degree);
    for (hga_pos i = 0; i < e->ptr[e->n]; i++) degree[e->other[i] - others->first]++;
    for (hga_id i = 0; i < others->n; i++)
        if (degree[i] > SUM_CUT) e->heavy[e->n_heavy++] = others->first + i;
}

/* A first walk over the edges counts those of each row, a second one lists them. */
void linear_edges_list(const hga_plan *plan, hga_id stage, linear_edges *e, void *memory)
{
    edge_ends x = ends_of(plan, stage);
    list_scratch scratch = lay_out_scratch(&x, &(carver){.base = memory});
    edge_walk w = {.plan = plan, .e = e, .rows = &x.most, .out = &x.out, .value = &x.value, .rank = scratch.rank};
    w.stage = &plan->program.stage[stage], w.r = plan->stage[stage].relation;
    w.mass = w.stage->reduce == HGA_MEAN && w.stage->by_mass ? plan->nodes.mass : NULL;
    if (w.stage->reduce == HGA_MEAN) w.total = scratch.total;
    if (w.total) memset(w.total, 0, (size_t)x.out.n * sizeof *w.total);
    memset(e->ptr, 0, ((size_t)e->n + 1) * sizeof *e->ptr);
    e->n_heavy = 0;
    order_rows(&w);
    add_all(&w);
    for (hga_id i = 0; i < e->n; i++) e->ptr[i + 1] += e->ptr[i];
    w.listing = 1;
    add_all(&w);
    find_heavy(e, x.by_source ? &x.out : &x.value, scratch.degree);
}

/* ---- which programs and relations have such edges ---- */

/* Each stage sums a field that is complete into one that no stage has written yet. */
const char *linear_stages_refuse(const hga_plan *plan, reason *buffer)
{
    const hga_program *p = &plan->program;
    uint32_t there = 0;
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (program_is_input(p->field[f].binding)) there |= 1u << f;
    for (const hga_stage *s = p->stage; s < p->stage + p->n_stages; s++) {
        if (!kind_sums(plan->stage[s - p->stage].kind)) return reason_of(buffer, "stage '%s' is not a sum", s->name);
        if (s->relation < 0 || s->order != HGA_FLAT)
            return reason_of(buffer, "stage '%s' runs along the tree or level by level", s->name);
        if (there >> s->out & 1u) return reason_of(buffer, "stage '%s' writes a field a second time", s->name);
        if (p->field[s->value].binding == HGA_IO_OUT) /* its gradient is more than the caller's */
            return reason_of(buffer, "stage '%s' reads the output", s->name);
        there |= 1u << s->out;
    }
    return NULL;
}

/* Edges of blocks are listed, which must take little memory beside a row for each node: few of them, or many
   columns. */
const char *linear_edges_refuse(const hga_plan *plan, reason *buffer)
{
    int64_t most = (int64_t)plan->nodes.n * plan->shape.n_kv_heads * plan->shape.dim_v * (int64_t)sizeof(float);
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        const hga_relation *r = &plan->stage[s].relation;
        hga_pos of_blocks = r->n_edges - (r->ptr ? r->ptr[plan->nodes.n] : 0);
        if (of_blocks > most / (hga_pos)(sizeof(hga_id) + sizeof(float)))
            return reason_of(buffer, "blocks of '%s' have too many edges to list", r->name);
    }
    return NULL;
}
