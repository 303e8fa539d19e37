/* lanes.c: threads on one head. A stage's strips are shared out in turns; each adds to what is its own, and what it
   has in rows and sums of its own is added behind all strips before it. One thread does the same by itself. */
#include "fast.h"
#include "panel.h"

#include <omp.h>
#include <string.h>

static hga_id chunks_of(const gradient_call *c) { return (c->plan->nodes.n + CHUNK - 1) / CHUNK; }

static int has_strips(const gradient_call *c)
{
    int several = 0;
    for (hga_id s = 0; s < c->plan->program.n_stages; s++) several |= c->strips[s].n > 1;
    return several;
}

/* Do strips have entries of their own of a table? Edges are each in one strip. */
static int is_shared(const gradient_call *c, call_table which)
{
    return which != EDGE_BIAS && which != TYPE_SCALE && table_entries(c, which) > 0;
}

/* ---- memory ---- */

static int64_t rel_key_floats(const gradient_call *c)
{
    return c->grad->d_rel_key ? (int64_t)c->io->n_rel_key * padded(c->plan->shape.dim) : 0;
}

static int64_t lay_out(const gradient_call *c, float *memory, lane *l)
{
    int64_t most = 0;
    carver room = {.base = memory};
    hga_id dim = c->plan->shape.dim, dim_v = c->plan->shape.dim_v;
    for (hga_id s = 0; s < c->plan->program.n_stages; s++) {
        int64_t n = strips_most_chunks(&c->strips[s]);
        most = n > most ? n : most;
    }
    l->numbers = carve_floats(&room, 2 * padded(dim > dim_v ? dim : dim_v));
    l->own_dk = carve_floats(&room, most * CHUNK * padded(dim));
    l->own_dv = carve_floats(&room, most * CHUNK * padded(dim_v));
    l->d_rel_key = carve_floats(&room, rel_key_floats(c));
    if (!rel_key_floats(c)) l->d_rel_key = NULL;
    return carved_floats(&room);
}

int64_t lane_floats(const gradient_call *c) { return lay_out(c, NULL, &(lane){0}); }

hga_status lane_create(const gradient_call *c, float *memory, struct panel *kept, lane *l)
{
    hga_status st = HGA_OK;
    const hga_allocator *a = &c->plan->given;
    lay_out(c, memory, l);
    l->panel = kept;
    memset(l->d_rel_key ? l->d_rel_key : memory, 0, (size_t)rel_key_floats(c) * sizeof *memory);
    if (!has_strips(c)) goto done;
    HGA_TRY(hga_new(a, chunks_of(c), sizeof *l->slot, &l->slot));
    for (hga_id i = 0; i < chunks_of(c); i++) l->slot[i] = -1;
    for (call_table i = 0; i < N_TABLES; i++)
        if (is_shared(c, i)) HGA_TRY(hga_new_zero(a, table_entries(c, i), sizeof(double), &l->own.of[i]));
done:
    return st;
}

void lane_destroy(const gradient_call *c, lane *l)
{
    const hga_allocator *a = &c->plan->given;
    if (!l->panel) return;
    edges_close(&l->rows);
    hga_delete(a, l->slot, chunks_of(c), sizeof *l->slot);
    for (call_table i = 0; i < N_TABLES; i++) hga_delete(a, l->own.of[i], table_entries(c, i), sizeof(double));
}

/* ---- a strip ---- */

/* The pass as the lane sees it, on strip i of the stage: with rows and sums of its own where there are several. */
static fast_pass seen_by(const fast_pass *p, lane *l, hga_id stage, hga_id i)
{
    const strips *s = &p->call->strips[stage];
    fast_pass one = *p;
    one.panel = l->panel, one.rows = l->rows, one.d_rel_key = l->d_rel_key, one.numbers = l->numbers;
    if (s->n == 1) return one;
    const hga_stage *at = &p->program->stage[stage];
    int64_t chunks = s->ptr[i + 1] - s->ptr[i];
    one.slot = l->slot, one.rank = s->rank, one.own_dk = l->own_dk, one.own_dv = l->own_dv;
    for (int64_t c = 0; c < chunks; c++) l->slot[s->chunk[s->ptr[i] + c]] = (int32_t)c;
    memset(l->own_dk, 0, (size_t)(chunks * CHUNK * p->field[at->key].padded) * sizeof(float));
    memset(l->own_dv, 0, (size_t)(chunks * CHUNK * p->field[at->value].padded) * sizeof(float));
    for (call_table t = 0; t < N_TABLES; t++)
        if (is_shared(p->call, t)) one.sums.of[t] = l->own.of[t];
    return one;
}

/* The rows of a chunk that is here. */
static void add_near(const fast_pass *p, hga_id f, hga_id chunk, const float *own)
{
    const column_chunks *x = p->chunks;
    hga_id columns = p->field[f].padded;
    int64_t at = p->program->stage[x->stage].key == f ? x->d_key : x->d_value;
    if (at < 0 || !x->at[chunk]) return; /* not there: none of the rows so far was asked for anything */
    float *to = x->at[chunk] + at;
    p->plan->kernels->blend(CHUNK * columns, 1, to, 1, own, to);
}

static void add_chunk(const fast_pass *p, hga_id f, const hga_id *order, hga_id chunk, const float *own)
{
    if (p->field[f].by_row) {
        add_near(p, f, chunk, own);
        return;
    }
    hga_id first = chunk * CHUNK, n = p->nodes.n - first < CHUNK ? p->nodes.n - first : CHUNK,
           columns = p->field[f].padded;
    if (!p->field[f].adjoint) return;
    for (hga_id i = 0; i < n; i++) {
        float *to = cleared_row(p, f, order ? order[first + i] : first + i);
        p->plan->kernels->blend(columns, 1, to, 1, own + (ptrdiff_t)i * columns, to);
    }
}

/* Entries of other heads are 0 here, and may be another thread's at the same time: they are not touched. */
static void add_sums(double *to, double *own, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        if (own[j] != 0) to[j] += own[j];
        own[j] = 0;
    }
}

/* What the lane has of its own goes where it belongs. */
static void add_own(const fast_pass *p, lane *l, hga_id stage, hga_id i)
{
    const strips *s = &p->call->strips[stage];
    const hga_stage *at = &p->program->stage[stage];
    if (s->n == 1) return;
    for (int64_t c = 0; c < s->ptr[i + 1] - s->ptr[i]; c++) {
        hga_id chunk = s->chunk[s->ptr[i] + c];
        add_chunk(p, at->key, s->order, chunk, l->own_dk + c * CHUNK * p->field[at->key].padded);
        add_chunk(p, at->value, s->order, chunk, l->own_dv + c * CHUNK * p->field[at->value].padded);
        l->slot[chunk] = -1;
    }
    for (call_table t = 0; t < N_TABLES; t++)
        if (is_shared(p->call, t)) add_sums(p->sums.of[t], l->own.of[t], table_entries(p->call, t));
}

hga_status each_strip(fast_pass *p, hga_id stage, strip_rows rows)
{
    const strips *s = &p->call->strips[stage];
    hga_id threads = p->n_lanes < s->n ? p->n_lanes : s->n;
    hga_status st = HGA_OK;
#pragma omp parallel for ordered schedule(static, 1) num_threads(threads) if (threads > 1)
    for (hga_id i = 0; i < s->n; i++) {
        lane *l = &p->lanes[threads > 1 ? omp_get_thread_num() : 0];
        fast_pass one = seen_by(p, l, stage, i);
        hga_id first = s->first[i], end = s->first[i + 1];
        if (!l->status) l->status = rows(&one, stage, first, end);
        l->rows = one.rows;
#pragma omp ordered
        add_own(p, l, stage, i);
        columns_leave(p, stage, first / STRIP_PANEL, (end + STRIP_PANEL - 1) / STRIP_PANEL);
    }
    for (hga_id i = 0; !st && i < threads; i++) st = p->lanes[i].status;
    return st;
}
