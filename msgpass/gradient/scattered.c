/* scattered.c: edges listed one by one go back twice. Rows that lie anywhere come from memory for every edge, and to
   add to one there costs as much as two: so the first pass goes over the queries, which are given what their keys and
   values make of them, and the second over the keys, with the edges turned round, which are given what queries and
   their gradients do. Both score anew, and write each row once. A row comes with all its heads, from end to end, and
   those of the next edges are asked for before: nobody else foresees them. */
#include "ways.h"

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

/* Edges by the rows at one end: those of row i are at [ptr[i], ptr[i + 1]); nodes at the other end. */
typedef struct edge_list {
    const hga_pos *ptr;
    const hga_id *other;
    const float *weight; /* NULL: 1 */
} edge_list;

/* The relation's edges by their sources, those that attention looks at. */
typedef struct turned_edges {
    hga_pos *ptr;
    hga_id *dst;
    float *weight;
    char *block; /* [bytes]: where they are, when the plan has them */
    int64_t bytes;
} turned_edges;

typedef struct scattered {
    const gradient_call *call;
    const hga_plan *plan;
    const hga_relation *r;
    const hga_stage *stage;
    hga_id heads, share; /* share: query heads that read one key/value head */
    hga_id row_first, rows, key_first, keys;
    turned_edges turned;
    wide_rows q, k, v, o, g, dq, dk, dv;
    float *asked;       /* [rows][2][heads]: log-sum-exp, +inf where nothing is asked; delta */
    float *log_mass;    /* [keys]; NULL where scores have none */
    double *d_scale;    /* [blocks]; NULL: not wanted */
    double *d_log_mass; /* [nodes]; NULL: not wanted */
} scattered;

/* What a thread has: a row of all query heads, its score's part scaled, and what it is given. */
typedef struct scattered_lane {
    float *mine, *mine_v, *sum, *sum_v;
} scattered_lane;

/* ---- who goes this way ---- */

static int same_rows(const hga_plan *plan, hga_id a, hga_id b)
{
    hga_id first, other, n = field_io(plan, a, &first);
    return n == field_io(plan, b, &other) && first == other;
}

static const char *program_refuses(const hga_plan *plan, reason *room)
{
    const hga_program *p = &plan->program;
    const hga_stage *s = &p->stage[0];
    if (p->n_stages != 1) return reason_of(room, "the program has %d stages that count, not one", p->n_stages);
    if (plan->stage[0].kind != KIND_ATTEND) return reason_of(room, "stage '%s' does not attend", s->name);
    if (p->field[s->query].binding != HGA_IO_QUERY || p->field[s->key].binding != HGA_IO_KEY ||
        p->field[s->value].binding != HGA_IO_VALUE || p->field[s->out].binding != HGA_IO_OUT)
        return reason_of(room, "stage '%s' attends to other fields than the caller's", s->name);
    if (!same_rows(plan, s->query, s->out) || !same_rows(plan, s->key, s->value))
        return "queries and output, or keys and values, have different rows";
    if (storage_is_rounded(plan, s->query)) return "operands are rounded to bfloat16";
    return NULL;
}

/* Nothing is known of any pair. */
static const char *refuses(const hga_plan *plan, unsigned features, reason *room)
{
    const hga_shape *s = &plan->shape;
    const char *why;
    if (program_normaliser(&plan->program) != HGA_NORMALISER_SOFTMAX) return "another normaliser than softmax";
    if (plan->options.generic) return "asked for double";
    if (scores_are_sums(plan)) return "additive scores";
    if (plan->options.modifiers) return "softcaps or slopes";
    if ((why = program_refuses(plan, room))) return why;
    const hga_relation *r = &plan->stage[0].relation;
    if (!r->ptr || r->n_blocks) return reason_of(room, "edges of '%s' are not all listed one by one", r->name);
    if (s->n_heads > KERNEL_HEADS) return reason_of(room, "more than %d heads", KERNEL_HEADS);
    if (s->dim % KERNEL_PAD || s->dim_v % KERNEL_PAD)
        return reason_of(room, "columns of a head are no multiple of %d", KERNEL_PAD);
    if (plan->options.dropout > 0) return "dropout";
    if (features & BRINGS_TYPES) return "the call brings relative keys or biases";
    if (features & BRINGS_EDGE_BIASES) return "the call brings biases of edges";
    if (features & BRINGS_POSITIONS) return "the call brings positions";
    if (features & BRINGS_SIXTEEN) return "the call brings numbers of 16 bits";
    return NULL;
}

/* ---- edges by their sources ---- */

static scattered scattered_of(const hga_plan *plan);

/* The sources of a query's edges. */
static edge_list sources_of(const scattered *x)
{
    return (edge_list){x->r->ptr + x->row_first, x->r->src, x->r->weight};
}

static void lay_out_turned(const scattered *x, turned_edges *t, carver *room)
{
    edge_list in = sources_of(x);
    hga_pos n = in.ptr[x->rows] - in.ptr[0];
    t->ptr = carve(room, (int64_t)x->keys + 1, sizeof *t->ptr);
    t->dst = carve(room, n, sizeof *t->dst);
    t->weight = in.weight ? carve(room, n, sizeof *t->weight) : NULL;
}

static void count_edges(const scattered *x, hga_pos *ptr)
{
    edge_list in = sources_of(x);
    memset(ptr, 0, ((size_t)x->keys + 1) * sizeof *ptr);
    for (hga_pos e = in.ptr[0]; e < in.ptr[x->rows]; e++) ptr[in.other[e] - x->key_first]++;
    for (hga_id u = 0; u < x->keys; u++) ptr[u + 1] += ptr[u];
}

static void turn_edges(const scattered *x, turned_edges *t)
{
    edge_list in = sources_of(x);
    count_edges(x, t->ptr);
    for (hga_id i = x->rows; i-- > 0;)
        for (hga_pos e = in.ptr[i + 1]; e-- > in.ptr[i];) {
            hga_pos at = --t->ptr[in.other[e] - x->key_first];
            t->dst[at] = x->row_first + i;
            if (in.weight) t->weight[at] = in.weight[e];
        }
}

static void drop(const hga_plan *plan, void *what)
{
    turned_edges *t = what;
    hga_delete(&plan->allocator, t->block, t->bytes, 1);
    hga_delete(&plan->allocator, t, 1, sizeof *t);
}

/* A plan has them where they are few beside the tensors; else each call makes them anew in its own memory. */
static hga_status make(const hga_plan *plan, void **out, const char **why, reason *room)
{
    hga_status st = HGA_OK;
    scattered x = scattered_of(plan);
    turned_edges *t = NULL;
    carver size = {0};
    (void)why, (void)room;
    lay_out_turned(&x, &(turned_edges){0}, &size);
    if (size.used > most_list_bytes(plan)) return HGA_OK;
    HGA_TRY(hga_new_zero(&plan->allocator, 1, sizeof *t, &t));
    t->bytes = size.used;
    HGA_TRY(hga_new(&plan->allocator, t->bytes, 1, &t->block));
    lay_out_turned(&x, t, &(carver){.base = t->block});
    turn_edges(&x, t);
    *out = t;
done:
    if (st && t) drop(plan, t);
    return st;
}

/* ---- a pass: rows that are given something ---- */

typedef struct pass {
    edge_list edges;
    hga_id n, other_first; /* rows; the node of the other ends' row 0 */
    hga_id share, into;    /* see kernel_grad_heads */
    wide_rows mine, mine_v, theirs, theirs_v, given, given_v;
    int of_keys;
} pass;

static pass pass_of_queries(const scattered *x)
{
    return (pass){.edges = sources_of(x),
                  .n = x->rows,
                  .other_first = x->key_first,
                  .share = x->share,
                  .into = 1,
                  .mine = x->q,
                  .mine_v = x->g,
                  .theirs = x->k,
                  .theirs_v = x->v,
                  .given = x->dq};
}

static pass pass_of_keys(const scattered *x)
{
    return (pass){.edges = {x->turned.ptr, x->turned.dst, x->turned.weight},
                  .n = x->keys,
                  .other_first = x->row_first,
                  .share = 1,
                  .into = x->share,
                  .mine = x->k,
                  .mine_v = x->v,
                  .theirs = x->q,
                  .theirs_v = x->g,
                  .given = x->dk,
                  .given_v = x->dv,
                  .of_keys = 1};
}

static float *row_at(const wide_rows *x, hga_id row, hga_id head) { return x->at + row * x->row + head * x->head; }

/* ---- pieces: some edges of a row ---- */

typedef struct piece {
    hga_id row, n; /* at most KERNEL_CHUNK edges */
    int first, last;
    hga_id other[KERNEL_CHUNK]; /* rows at the other ends */
    float score[KERNEL_CHUNK];
} piece;

/* Where the walk is. */
typedef struct cursor {
    hga_id row, end;
    hga_pos at; /* -1: at the row's beginning */
} cursor;

static float log_weight(const scattered *x, const pass *p, hga_pos e, hga_id key)
{
    float weight = p->edges.weight ? p->edges.weight[e] : 1;
    return (weight == 1 ? 0 : logf(weight)) + (x->log_mass ? x->log_mass[key] : 0);
}

/* The next piece; 0: there is none. */
static int next_piece(const scattered *x, const pass *p, cursor *c, piece *out)
{
    if (c->row == c->end) return out->n = 0;
    hga_pos begin = p->edges.ptr[c->row], end = p->edges.ptr[c->row + 1], at = c->at < 0 ? begin : c->at;
    out->row = c->row, out->first = at == begin;
    out->n = (hga_id)(end - at < KERNEL_CHUNK ? end - at : KERNEL_CHUNK);
    for (hga_id i = 0; i < out->n; i++) {
        out->other[i] = p->edges.other[at + i] - p->other_first;
        out->score[i] = log_weight(x, p, at + i, p->of_keys ? out->row : out->other[i]);
    }
    out->last = at + out->n == end, c->at = at + out->n;
    if (out->last) c->row++, c->at = -1;
    return 1;
}

/* What a piece's edges need, and the first of the next one's. */
enum { AHEAD = 4, LISTED = KERNEL_CHUNK + AHEAD };
typedef struct piece_rows {
    hga_id more;
    const float *theirs[LISTED], *theirs_v[LISTED], *asked[LISTED];
} piece_rows;

static void list_rows(const scattered *x, const pass *p, const piece *at, const piece *next, piece_rows *out)
{
    out->more = next->n < AHEAD ? next->n : AHEAD;
    for (hga_id i = 0; i < at->n + out->more; i++) {
        const piece *of = i < at->n ? at : next;
        hga_id other = of->other[i < at->n ? i : i - at->n], query = p->of_keys ? other : of->row;
        out->theirs[i] = row_at(&p->theirs, other, 0), out->theirs_v[i] = row_at(&p->theirs_v, other, 0);
        out->asked[i] = x->asked + 2 * (ptrdiff_t)query * x->heads;
    }
}

/* ---- a row ---- */

/* A row of each query head, scaled, side by side. */
static void copy_row(const scattered *x, const wide_rows *from, hga_id row, float scale, float *out)
{
    for (hga_id h = 0; h < x->heads; h++, out += from->columns)
        x->plan->kernels->scale(from->columns, scale, row_at(from, row, h / (x->heads / from->heads)), out);
}

static void begin_row(const scattered *x, const pass *p, const scattered_lane *l, hga_id row)
{
    copy_row(x, &p->mine, row, x->call->scale, l->mine), copy_row(x, &p->mine_v, row, 1, l->mine_v);
    memset(l->sum, 0, (size_t)x->heads * (size_t)p->mine.columns * sizeof *l->sum);
    if (p->of_keys) memset(l->sum_v, 0, (size_t)x->heads * (size_t)p->mine_v.columns * sizeof *l->sum_v);
}

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

/* The scale is given what a query is, times the query. */
static void give_scale(const scattered *x, hga_id row, const float *sum)
{
    const float *lse = x->asked + 2 * (ptrdiff_t)row * x->heads;
    for (hga_id h = 0; h < x->heads; h++, sum += x->q.columns)
        if (lse[h] != INFINITY)
            x->d_scale[row / BLOCK] += x->plan->kernels->dot(x->q.columns, sum, row_at(&x->q, row, h));
}

static void end_row(const scattered *x, const pass *p, const scattered_lane *l, hga_id row)
{
    if (x->d_scale && !p->of_keys) give_scale(x, row, l->sum);
    store_row(x, &p->given, row, x->call->scale, l->sum);
    store_row(x, &p->given_v, row, 1, l->sum_v);
}

static void run_piece(const scattered *x, const pass *p, const scattered_lane *l, const piece *at, const piece *next)
{
    piece_rows rows;
    if (at->first) begin_row(x, p, l, at->row);
    list_rows(x, p, at, next, &rows);
    x->plan->kernels->grad_heads(
        &(kernel_grad_heads){.n = at->n,
                             .more = rows.more,
                             .heads = x->heads,
                             .dim = p->mine.columns,
                             .dim_v = p->mine_v.columns,
                             .share = p->share,
                             .into = p->into,
                             .mine = l->mine,
                             .mine_v = l->mine_v,
                             .theirs = rows.theirs,
                             .theirs_v = rows.theirs_v,
                             .theirs_head = p->theirs.head,
                             .theirs_v_head = p->theirs_v.head,
                             .score = at->score,
                             .asked = rows.asked,
                             .sum = p->given.at || (x->d_scale && !p->of_keys) ? l->sum : NULL,
                             .sum_v = p->given_v.at ? l->sum_v : NULL,
                             .slope = p->of_keys && x->d_log_mass ? &x->d_log_mass[x->key_first + at->row] : NULL});
    if (at->last) end_row(x, p, l, at->row);
}

/* ---- all rows ---- */

/* Rows [first, end), piece by piece; each is worked on while the rows of the next come. */
static void run_block(const scattered *x, const pass *p, const scattered_lane *l, cursor c)
{
    piece two[2];
    int more = next_piece(x, p, &c, &two[0]);
    for (int i = 0; more; i = !i) {
        more = next_piece(x, p, &c, &two[!i]);
        run_piece(x, p, l, &two[i], &two[!i]);
    }
}

static void run_pass(const scattered *x, pass p, const scattered_lane *lane)
{
    hga_id threads = x->call->threads;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        binding old;
        binding_take(x->plan, &old);
#pragma omp for schedule(dynamic, 1) nowait
        for (hga_id first = 0; first < p.n; first += BLOCK)
            run_block(x, &p, &lane[threads > 1 ? omp_get_thread_num() : 0],
                      (cursor){first, p.n - first < BLOCK ? p.n : first + BLOCK, -1});
        topology_unbind(&old);
    }
}

/* What is asked of a query: its log-sum-exp, and what its scores' gradients are relative to. */
static void find_asked(const scattered *x, hga_id row)
{
    const hga_tensor *d_lse = &x->call->grad->d_lse;
    const float *tape = x->call->tape_lse + (ptrdiff_t)row * x->heads;
    float *lse = x->asked + 2 * (ptrdiff_t)row * x->heads, *delta = lse + x->heads;
    for (hga_id h = 0; h < x->heads; h++) {
        double given = d_lse->data ? (double)*(const float *)tensor_at(d_lse, x->heads, 1, row, h) : 0;
        lse[h] = tape[h] == -INFINITY ? INFINITY : tape[h];
        delta[h] = (float)(x->plan->kernels->dot(x->g.columns, row_at(&x->g, row, h), row_at(&x->o, row, h)) - given);
    }
}

static void find_all_asked(const scattered *x)
{
    hga_id threads = x->call->threads;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        binding old;
        binding_take(x->plan, &old);
#pragma omp for nowait
        for (hga_id row = 0; row < x->rows; row++) find_asked(x, row);
        topology_unbind(&old);
    }
}

/* ---- the call ---- */

static wide_rows rows_of(const hga_plan *plan, hga_id field)
{
    return (wide_rows){.heads = field_heads(plan, field), .columns = field_columns(plan, field)};
}

/* Rows and edges, without a call. */
static scattered scattered_of(const hga_plan *plan)
{
    const hga_stage *s = &plan->program.stage[0];
    scattered x = {.plan = plan,
                   .r = &plan->stage[0].relation,
                   .stage = s,
                   .heads = plan->shape.n_heads,
                   .share = plan->shape.n_heads / plan->shape.n_kv_heads};
    x.q = x.dq = rows_of(plan, s->query), x.k = x.dk = rows_of(plan, s->key);
    x.v = x.dv = rows_of(plan, s->value), x.o = x.g = rows_of(plan, s->out);
    x.rows = field_io(plan, s->query, &x.row_first), x.keys = field_io(plan, s->key, &x.key_first);
    return x;
}

static void bind(wide_rows *x, const hga_tensor *t)
{
    x->at = t->data;
    x->row = t->row_stride ? t->row_stride : (ptrdiff_t)x->heads * x->columns;
    x->head = t->head_stride ? t->head_stride : x->columns;
}

static void bind_all(scattered *x, const gradient_call *c)
{
    x->call = c;
    bind(&x->q, &c->io->query), bind(&x->k, &c->io->key), bind(&x->v, &c->io->value), bind(&x->o, &c->io->out);
    bind(&x->g, &c->grad->d_out);
    bind(&x->dq, &c->grad->d_query), bind(&x->dk, &c->grad->d_key), bind(&x->dv, &c->grad->d_value);
    x->d_log_mass = c->sums[0].of[LOG_MASS];
}

static hga_id blocks_of(const scattered *x) { return x->rows / BLOCK + 1; }

/* Every array; bytes in all. */
static int64_t lay_out(scattered *x, const void *made, const call_needs *needs, scattered_lane **out, void *memory)
{
    int64_t heads = x->heads;
    carver room = {.base = memory};
    scattered_lane *lane = carve(&room, needs->threads, sizeof *lane);
    if (needs->entries[SCALE]) x->d_scale = carve(&room, blocks_of(x), sizeof *x->d_scale);
    x->asked = carve_floats(&room, 2 * heads * x->rows);
    if (x->stage->by_mass) x->log_mass = carve_floats(&room, x->keys);
    for (hga_id t = 0; t < needs->threads; t++) {
        scattered_lane l = {carve_floats(&room, heads * x->q.columns), carve_floats(&room, heads * x->v.columns),
                            carve_floats(&room, heads * x->q.columns), carve_floats(&room, heads * x->v.columns)};
        if (lane) lane[t] = l;
    }
    if (made)
        x->turned = *(const turned_edges *)made;
    else
        lay_out_turned(x, &x->turned, &room);
    if (out) *out = lane;
    return room.used;
}

static int64_t room_of(const hga_plan *plan, const void *made, const call_needs *needs)
{
    scattered x = scattered_of(plan);
    return lay_out(&x, made, needs, NULL, NULL);
}

static hga_status go(gradient_call *c, const void *made, hga_workspace *workspace, void *memory)
{
    scattered x = scattered_of(c->plan);
    scattered_lane *lane;
    (void)workspace;
    bind_all(&x, c);
    lay_out(&x, made, &c->needs, &lane, memory);
    for (hga_id u = 0; x.log_mass && u < x.keys; u++) x.log_mass[u] = logf(c->plan->nodes.mass[x.key_first + u]);
    if (x.d_scale) memset(x.d_scale, 0, (size_t)blocks_of(&x) * sizeof *x.d_scale);
    find_all_asked(&x);
    if (x.dq.at || x.d_scale) run_pass(&x, pass_of_queries(&x), lane);
    for (hga_id i = 0; x.d_scale && i < blocks_of(&x); i++) *c->sums[0].of[SCALE] += x.d_scale[i];
    if (x.dk.at || x.dv.at || x.d_log_mass) {
        if (!made) turn_edges(&x, &x.turned);
        run_pass(&x, pass_of_keys(&x), lane);
    }
    return HGA_OK;
}

const way scattered_way = {.name = "row by row and source by source, all heads together",
                           .refuses = refuses,
                           .make = make,
                           .drop = drop,
                           .room = room_of,
                           .go = go};
