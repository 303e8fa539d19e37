/* scattered.c: edges listed one by one go back twice. Rows that lie anywhere come from memory for every edge, and to
   add to one there costs as much as two: so the first pass goes over the rows, gives queries theirs and notes two
   numbers for each edge and head, and the second over the sources, with the edges turned round, gives keys and values
   theirs, each written once. A row comes with all its heads, from end to end, and the first ones of the next row's are
   asked for before: nobody else foresees them. */
#include "scattered.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { BLOCK = 128 }; /* rows that a thread takes at once */

/* Rows of a tensor; `at` NULL: not wanted. */
typedef struct wide_rows {
    float *at;
    ptrdiff_t row, head;
    hga_id heads, columns;
} wide_rows;

/* The edges of one end: those of node v are at [ptr[v], ptr[v + 1]). */
typedef struct edge_ends {
    const hga_pos *ptr, *edge; /* edge NULL: the relation's own order */
    const hga_id *other;
    hga_id first, n, other_first; /* nodes first .. first + n - 1 have rows; the other ends' begin at other_first */
} edge_ends;

/* Edges turned round. */
typedef struct out_edges {
    hga_pos *ptr, *edge;
    hga_id *dst;
} out_edges;

typedef struct scattered {
    const gradient_call *call;
    const hga_plan *plan;
    const hga_relation *r;
    const hga_stage *stage;
    hga_id heads, share; /* share: query heads that read one key/value head */
    out_edges out;
    wide_rows q, k, v, o, g, dq, dk, dv;
    float *noted;       /* [edges][2][heads]: the score's gradient, and what the value is given the row's with */
    float *log_mass;    /* [nodes]; NULL where scores have none */
    double *d_scale;    /* [blocks]; NULL: not wanted */
    double *d_log_mass; /* [nodes]; NULL: not wanted */
} scattered;

/* What a thread has. */
typedef struct scattered_lane {
    float *scaled, *sum, *sum_v; /* a row of all heads: queries scaled; what it is given */
    float *lse, *delta;          /* [heads]; lse +inf where nothing is asked */
} scattered_lane;

/* ---- who goes this way ---- */

static int same_rows(const hga_plan *plan, hga_id a, hga_id b)
{
    hga_id first, other, n = field_io(plan, a, &first);
    return n == field_io(plan, b, &other) && first == other;
}

static int is_known(const hga_plan *plan)
{
    const hga_program *p = &plan->program;
    const hga_stage *s = &p->stage[0];
    const hga_relation *r = &plan->stage[0].relation;
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (p->field[f].binding == HGA_IO_USER) return 0; /* nobody reads it, and its gradient is zeros */
    if (p->n_stages != 1 || plan->stage[0].kind != KIND_ATTEND || !r->ptr || r->n_blocks) return 0;
    int bound = p->field[s->query].binding == HGA_IO_QUERY && p->field[s->key].binding == HGA_IO_KEY &&
                p->field[s->value].binding == HGA_IO_VALUE && p->field[s->out].binding == HGA_IO_OUT;
    return bound && same_rows(plan, s->query, s->out) && same_rows(plan, s->key, s->value) &&
           plan->shape.n_heads <= KERNEL_HEADS && plan->shape.dim % KERNEL_PAD == 0 &&
           plan->shape.dim_v % KERNEL_PAD == 0 && plan->options.dropout == 0 && !plan->options.generic &&
           !storage_is_rounded(plan, s->query) && !storage_is_rounded(plan, s->key) &&
           !storage_is_rounded(plan, s->value);
}

/* Nothing is known of any pair, and all numbers are floats. */
static int call_is_known(const gradient_call *c)
{
    const hga_io *io = c->io;
    const hga_grad_io *g = c->grad;
    const hga_tensor *tensors[] = {&io->query, &io->key,    &io->value, &io->out,
                                   &g->d_out,  &g->d_query, &g->d_key,  &g->d_value};
    int known = !io->rel_key && !io->rel_bias && !io->edge_bias && !io->node_pos;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) known &= tensors[i]->dtype == HGA_F32;
    return known;
}

/* ---- edges turned round ---- */

static hga_status turn_edges(scattered *x)
{
    hga_status st = HGA_OK;
    const hga_relation *r = x->r;
    const hga_allocator *a = &x->plan->given;
    hga_id n = x->plan->nodes.n;
    out_edges *o = &x->out;
    HGA_TRY(hga_new(a, r->n_edges, sizeof *o->dst, &o->dst));
    HGA_TRY(hga_new(a, r->n_edges, sizeof *o->edge, &o->edge));
    HGA_TRY(hga_new_zero(a, n + 1, sizeof *o->ptr, &o->ptr));
    for (hga_pos e = 0; e < r->n_edges; e++) o->ptr[r->src[e]]++;
    for (hga_id u = 0; u < n; u++) o->ptr[u + 1] += o->ptr[u];
    for (hga_id v = n; v-- > 0;)
        for (hga_pos e = r->ptr[v + 1]; e-- > r->ptr[v];) {
            hga_pos at = --o->ptr[r->src[e]];
            o->dst[at] = v, o->edge[at] = e;
        }
done:
    return st;
}

static void clear_edges(scattered *x)
{
    const hga_allocator *a = &x->plan->given;
    hga_delete(a, x->out.dst, x->r->n_edges, sizeof *x->out.dst);
    hga_delete(a, x->out.edge, x->r->n_edges, sizeof *x->out.edge);
    hga_delete(a, x->out.ptr, x->plan->nodes.n + 1, sizeof *x->out.ptr);
}

static edge_ends ends_of(const scattered *x, int of_rows)
{
    hga_id row_first, first, rows = field_io(x->plan, x->stage->query, &row_first),
                             n = field_io(x->plan, x->stage->key, &first);
    return of_rows ? (edge_ends){x->r->ptr, NULL, x->r->src, row_first, rows, first}
                   : (edge_ends){x->out.ptr, x->out.edge, x->out.dst, first, n, row_first};
}

/* ---- pieces: some edges of a node ---- */

typedef struct piece {
    hga_id row, n; /* row of the tensors; at most KERNEL_CHUNK edges */
    int first, last;
    hga_id other[KERNEL_CHUNK];
    hga_pos edge[KERNEL_CHUNK]; /* in the relation's order */
} piece;

/* Where the walk is. */
typedef struct cursor {
    hga_id row, end;
    hga_pos at; /* -1: at the row's beginning */
} cursor;

static float base_score(const scattered *x, hga_pos e)
{
    float weight = x->r->weight ? x->r->weight[e] : 1;
    return (weight == 1 ? 0 : logf(weight)) + (x->log_mass ? x->log_mass[x->r->src[e]] : 0);
}

/* The next piece; 0: there is none. */
static int next_piece(const edge_ends *ends, cursor *c, piece *out)
{
    if (c->row == c->end) return out->n = 0;
    hga_pos begin = ends->ptr[ends->first + c->row], end = ends->ptr[ends->first + c->row + 1],
            at = c->at < 0 ? begin : c->at;
    out->row = c->row, out->first = at == begin, out->edge[0] = at;
    out->n = (hga_id)(end - at < KERNEL_CHUNK ? end - at : KERNEL_CHUNK);
    for (hga_id i = 0; i < out->n; i++) {
        out->other[i] = ends->other[at + i] - ends->other_first;
        out->edge[i] = ends->edge ? ends->edge[at + i] : at + i;
    }
    out->last = at + out->n == end, c->at = at + out->n;
    if (out->last) c->row++, c->at = -1;
    return 1;
}

static float *row_at(const wide_rows *x, hga_id row, hga_id head) { return x->at + row * x->row + head * x->head; }

enum { AHEAD = 4, LISTED = KERNEL_CHUNK + AHEAD };

/* The rows of the piece's other ends, and of some of the next one's; how many of those. */
static hga_id list_rows(const wide_rows *rows, const piece *p, const piece *next, const float **out)
{
    hga_id more = next->n < AHEAD ? next->n : AHEAD;
    for (hga_id i = 0; i < p->n; i++) out[i] = row_at(rows, p->other[i], 0);
    for (hga_id i = 0; i < more; i++) out[p->n + i] = row_at(rows, next->other[i], 0);
    return more;
}

/* ---- a row of a gradient ---- */

static void store_row(const scattered *x, const wide_rows *to, hga_id row, float scale, const float *sum)
{
    for (hga_id h = 0; to->at && h < to->heads; h++, sum += to->columns) {
        float *out = row_at(to, row, h);
        if (x->call->grad->accumulate)
            x->plan->kernels->blend(to->columns, 1, out, scale, sum, out);
        else
            x->plan->kernels->scale(to->columns, scale, sum, out);
    }
}

/* All heads of a row, scaled, side by side. */
static void scale_row(const scattered *x, const wide_rows *from, hga_id row, float *out)
{
    for (hga_id h = 0; h < from->heads; h++, out += from->columns)
        x->plan->kernels->scale(from->columns, x->call->scale, row_at(from, row, h), out);
}

static void clear_row(const wide_rows *x, float *sum)
{
    memset(sum, 0, (size_t)x->heads * (size_t)x->columns * sizeof *sum);
}

/* ---- from the rows ---- */

static void end_row(const scattered *x, const scattered_lane *l, hga_id row)
{
    const float *sum = l->sum;
    for (hga_id h = 0; x->d_scale && h < x->heads; h++, sum += x->q.columns)
        if (l->lse[h] != INFINITY)
            x->d_scale[row / BLOCK] += x->plan->kernels->dot(x->q.columns, sum, row_at(&x->q, row, h));
    store_row(x, &x->dq, row, x->call->scale, l->sum);
}

/* What the gradient of a row's scores is relative to. */
static float delta_of(const scattered *x, hga_id row, hga_id h)
{
    const hga_tensor *d_lse = &x->call->grad->d_lse;
    double given = d_lse->data ? (double)*(const float *)tensor_at(d_lse, x->heads, 1, row, h) : 0;
    return (float)(x->plan->kernels->dot(x->g.columns, row_at(&x->g, row, h), row_at(&x->o, row, h)) - given);
}

static void begin_row(const scattered *x, const scattered_lane *l, hga_id row)
{
    scale_row(x, &x->q, row, l->scaled), clear_row(&x->q, l->sum);
    for (hga_id h = 0; h < x->heads; h++) {
        float lse = x->call->tape_lse[(ptrdiff_t)row * x->heads + h];
        l->lse[h] = lse == -INFINITY ? INFINITY : lse, l->delta[h] = delta_of(x, row, h);
    }
}

static void run_row(const scattered *x, const scattered_lane *l, const piece *p, const piece *next)
{
    const float *k[LISTED], *v[LISTED];
    float score[KERNEL_CHUNK], *noted = x->noted + 2 * p->edge[0] * x->heads;
    if (p->first) begin_row(x, l, p->row);
    for (hga_id i = 0; i < p->n; i++) score[i] = base_score(x, p->edge[i]);
    hga_id more = list_rows(&x->k, p, next, k);
    list_rows(&x->v, p, next, v);
    x->plan->kernels->grad_heads(&(kernel_grad_heads){.n = p->n,
                                                      .more = more,
                                                      .heads = x->heads,
                                                      .share = x->share,
                                                      .dim = x->q.columns,
                                                      .dim_v = x->g.columns,
                                                      .q = l->scaled,
                                                      .g = row_at(&x->g, p->row, 0),
                                                      .g_head = x->g.head,
                                                      .k = k,
                                                      .k_head = x->k.head,
                                                      .v = v,
                                                      .v_head = x->v.head,
                                                      .score = score,
                                                      .lse = l->lse,
                                                      .delta = l->delta,
                                                      .dq = x->dq.at || x->d_scale ? l->sum : NULL,
                                                      .ds = noted,
                                                      .p = noted + x->heads,
                                                      .step = 2 * x->heads});
    if (p->last) end_row(x, l, p->row);
}

/* ---- from the sources ---- */

/* What the piece's edges give a source: `at` the one or the other of the numbers that are noted. */
static void add_rows(const scattered *x, const piece *p, const piece *next, const wide_rows *from, hga_id at,
                     const float *const *noted, float *sum)
{
    const float *row[LISTED];
    hga_id more = list_rows(from, p, next, row);
    x->plan->kernels->sum_heads(&(kernel_sum_heads){.n = p->n,
                                                    .more = more,
                                                    .heads = x->heads,
                                                    .from = 1,
                                                    .into = x->share,
                                                    .columns = from->columns,
                                                    .at = at,
                                                    .fetches = 1,
                                                    .x = row,
                                                    .x_head = from->head,
                                                    .w = noted,
                                                    .acc = sum});
}

static void run_source(const scattered *x, const scattered_lane *l, const piece *p, const piece *next)
{
    const float *noted[KERNEL_CHUNK];
    double *mass = x->d_log_mass ? &x->d_log_mass[ends_of(x, 0).first + p->row] : NULL;
    if (p->first) clear_row(&x->k, l->sum), clear_row(&x->v, l->sum_v);
    for (hga_id i = 0; i < next->n; i++) __builtin_prefetch(x->noted + 2 * next->edge[i] * x->heads);
    for (hga_id i = 0; i < p->n; i++) noted[i] = x->noted + 2 * p->edge[i] * x->heads;
    for (hga_id i = 0; i < p->n; i++)
        for (hga_id h = 0; mass && h < x->heads; h++) *mass += (double)noted[i][h];
    if (x->dk.at) add_rows(x, p, next, &x->q, 0, noted, l->sum);
    if (x->dv.at) add_rows(x, p, next, &x->g, x->heads, noted, l->sum_v);
    if (p->last) store_row(x, &x->dk, p->row, x->call->scale, l->sum), store_row(x, &x->dv, p->row, 1, l->sum_v);
}

/* ---- the pass ---- */

typedef void (*run_piece)(const scattered *x, const scattered_lane *l, const piece *p, const piece *next);

/* Rows [first, end), piece by piece; each is worked on while the rows of the next come. */
static void run_block(const scattered *x, const scattered_lane *l, const edge_ends *ends, cursor c, run_piece run)
{
    piece two[2];
    int more = next_piece(ends, &c, &two[0]);
    for (int i = 0; more; i = !i) {
        more = next_piece(ends, &c, &two[!i]);
        run(x, l, &two[i], &two[!i]);
    }
}

static void run_all(const scattered *x, const scattered_lane *lanes, hga_id threads, int of_rows)
{
    const edge_ends ends = ends_of(x, of_rows);
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads) if (threads > 1)
    for (hga_id first = 0; first < ends.n; first += BLOCK) {
        hga_id end = ends.n - first < BLOCK ? ends.n : first + BLOCK;
        const scattered_lane *l = &lanes[threads > 1 ? omp_get_thread_num() : 0];
        run_block(x, l, &ends, (cursor){first, end, -1}, of_rows ? run_row : run_source);
    }
}

/* ---- the call ---- */

static wide_rows rows_of(const gradient_call *c, hga_id field, const hga_tensor *t)
{
    hga_id heads = field_heads(c->plan, field), columns = field_columns(c->plan, field);
    return (wide_rows){t->data, t->row_stride ? t->row_stride : (ptrdiff_t)heads * columns,
                       t->head_stride ? t->head_stride : columns, heads, columns};
}

static scattered scattered_of(const gradient_call *c)
{
    const hga_stage *s = &c->plan->program.stage[0];
    const hga_grad_io *g = c->grad;
    return (scattered){.call = c,
                       .plan = c->plan,
                       .r = &c->plan->stage[0].relation,
                       .stage = s,
                       .heads = c->plan->shape.n_heads,
                       .share = c->plan->shape.n_heads / c->plan->shape.n_kv_heads,
                       .q = rows_of(c, s->query, &c->io->query),
                       .k = rows_of(c, s->key, &c->io->key),
                       .v = rows_of(c, s->value, &c->io->value),
                       .o = rows_of(c, s->out, &c->io->out),
                       .g = rows_of(c, s->out, &g->d_out),
                       .dq = rows_of(c, s->query, &g->d_query),
                       .dk = rows_of(c, s->key, &g->d_key),
                       .dv = rows_of(c, s->value, &g->d_value)};
}

static float *carve(float *memory, int64_t *at, int64_t n)
{
    float *here = memory ? memory + *at : NULL;
    *at += (n + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
    return here;
}

/* Every array; floats in all. */
static int64_t lay_out(scattered *x, scattered_lane *lanes, hga_id threads, float *memory)
{
    int64_t at = 0, heads = x->heads;
    x->noted = carve(memory, &at, 2 * x->r->n_edges * heads);
    if (x->stage->by_mass) x->log_mass = carve(memory, &at, x->plan->nodes.n);
    for (hga_id t = 0; t < threads; t++) {
        scattered_lane l = {carve(memory, &at, heads * x->q.columns), carve(memory, &at, heads * x->q.columns),
                            carve(memory, &at, heads * x->v.columns), carve(memory, &at, heads),
                            carve(memory, &at, heads)};
        if (lanes) lanes[t] = l;
    }
    return at;
}

hga_status scattered_gradient(gradient_call *c, hga_workspace *workspace, int *known)
{
    hga_status st = HGA_OK;
    *known = is_known(c->plan) && call_is_known(c);
    if (!*known) return HGA_OK;
    scattered x = scattered_of(c);
    scattered_lane *lanes = NULL;
    hga_id blocks = ends_of(&x, 1).n / BLOCK + 1;
    void *memory;
    HGA_TRY(hga_new(&c->plan->given, c->threads, sizeof *lanes, &lanes));
    HGA_TRY(workspace_spare(workspace, lay_out(&x, NULL, c->threads, NULL) * (int64_t)sizeof(float), &memory));
    lay_out(&x, lanes, c->threads, memory);
    for (hga_id v = 0; x.log_mass && v < c->plan->nodes.n; v++) x.log_mass[v] = logf(c->plan->nodes.mass[v]);
    if (c->sums[0].of[SCALE]) HGA_TRY(hga_new_zero(&c->plan->given, blocks, sizeof *x.d_scale, &x.d_scale));
    x.d_log_mass = c->sums[0].of[LOG_MASS];
    run_all(&x, lanes, c->threads, 1);
    for (hga_id i = 0; x.d_scale && i < blocks; i++) *c->sums[0].of[SCALE] += x.d_scale[i];
    if (x.dk.at || x.dv.at || x.d_log_mass) {
        HGA_TRY(turn_edges(&x));
        run_all(&x, lanes, c->threads, 0);
    }
done:
    clear_edges(&x);
    hga_delete(&c->plan->given, x.d_scale, blocks, sizeof *x.d_scale);
    hga_delete(&c->plan->given, lanes, c->threads, sizeof *lanes);
    return st;
}

int64_t scattered_bytes(const hga_plan *plan)
{
    static const hga_io io;
    static const hga_grad_io grad;
    gradient_call c = {.plan = plan, .io = &io, .grad = &grad};
    if (!is_known(plan)) return -1;
    scattered x = scattered_of(&c);
    return lay_out(&x, NULL, plan->threads, NULL) * (int64_t)sizeof(float) +
           x.r->n_edges * (int64_t)(sizeof(hga_id) + sizeof(hga_pos)) + (plan->nodes.n + 1) * (int64_t)sizeof(hga_pos);
}
