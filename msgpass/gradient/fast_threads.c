/* fast_threads.c: threads on one head. A stage's row ranges are divided among threads round robin. Gradients that
   several ranges add to go to rows and sums of the thread's own, which are added after those of all earlier ranges.
   One thread does the same by itself. */
#include "fast_threads.h"
#include "carve.h"
#include "fast_attend.h"
#include "fast_columns.h"
#include "panel.h"
#include "plan.h"
#include "thread_binding.h"

#include <omp.h>
#include <string.h>

static int has_row_ranges(const hga_plan *plan, const row_ranges *cut)
{
    int several = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++) several |= cut[s].n > 1;
    return several;
}

/* Do row ranges have sums of their own for a table? Not where each edge is in one range. */
static int row_ranges_sum_alone(const call_needs *needs, hga_call_table which)
{
    return which != HGA_TABLE_EDGE_BIAS && which != HGA_TABLE_TYPE_SCALE && needs->entries[which] > 0;
}

/* ---- memory ---- */

static int64_t rel_key_floats(const hga_plan *plan, const call_needs *needs)
{
    return needs->entries[HGA_TABLE_REL_KEY] ? (int64_t)needs->n_rel_key * padded(plan->shape.dim) : 0;
}

/* Carves memory for the most chunks that a range of any stage adds to, for rows' edges, and for sums of tables that
   ranges add up separately. */
void fast_thread_lay_out(const hga_plan *plan, const made_fast *made, const call_needs *needs, fast_thread *l,
                         carver *arena)
{
    const row_ranges *cut = row_ranges_for(made, plan, needs);
    int64_t most = 0;
    hga_id dim = plan->shape.dim, dim_v = plan->shape.dim_v;
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        int64_t n = row_ranges_most_chunks(&cut[s]);
        most = n > most ? n : most;
    }
    *l = (fast_thread){0};
    l->numbers = carve_floats(arena, 2 * padded(dim > dim_v ? dim : dim_v));
    l->own_dk = carve_floats(arena, most * CHUNK * padded(dim));
    l->own_dv = carve_floats(arena, most * CHUNK * padded(dim_v));
    if (rel_key_floats(plan, needs)) l->d_rel_key = carve_floats(arena, rel_key_floats(plan, needs));
    l->rows.capacity = widest_row(made, needs), l->rows.own = carve(arena, l->rows.capacity, sizeof *l->rows.own);
    if (rows_are_whole(plan)) whole_row_lay_out(widest_row(made, needs), &l->whole, arena);
    if (!has_row_ranges(plan, cut)) return;
    l->slot = carve(arena, count_chunks(plan), sizeof *l->slot);
    for (hga_call_table i = 0; i < HGA_N_TABLES; i++)
        if (row_ranges_sum_alone(needs, i)) l->own.of[i] = carve(arena, needs->entries[i], sizeof(double));
}

void fast_thread_begin(const gradient_call *c, struct panel *cached, fast_thread *l)
{
    l->panel = cached;
    if (l->d_rel_key) memset(l->d_rel_key, 0, (size_t)rel_key_floats(c->plan, &c->needs) * sizeof *l->d_rel_key);
    for (hga_id i = 0; l->slot && i < count_chunks(c->plan); i++) l->slot[i] = -1;
    for (hga_call_table i = 0; i < HGA_N_TABLES; i++)
        if (l->own.of[i]) memset(l->own.of[i], 0, (size_t)c->needs.entries[i] * sizeof(double));
}

/* ---- a row range ---- */

/* The pass of a thread on range i of the stage: with rows and sums of its own if there are several ranges. */
static fast_pass seen_by(const fast_pass *p, fast_thread *l, hga_id stage, hga_id i)
{
    const row_ranges *s = &p->call->row_ranges[stage];
    fast_pass one = *p;
    one.panel = l->panel, one.rows = l->rows, one.own.d_rel_key = l->d_rel_key, one.own.numbers = l->numbers,
    one.own.whole = l->whole;
    if (s->n == 1) return one;
    const hga_stage *at = &p->program->stage[stage];
    int64_t chunks = s->ptr[i + 1] - s->ptr[i];
    one.own.slot = l->slot, one.rank = s->rank, one.own.dk = l->own_dk, one.own.dv = l->own_dv;
    for (int64_t c = 0; c < chunks; c++) l->slot[s->chunk[s->ptr[i] + c]] = (int32_t)c;
    memset(l->own_dk, 0, (size_t)(chunks * CHUNK * p->field[at->key].padded) * sizeof(float));
    memset(l->own_dv, 0, (size_t)(chunks * CHUNK * p->field[at->value].padded) * sizeof(float));
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        if (row_ranges_sum_alone(p->needs, t)) one.sums.of[t] = l->own.of[t];
    return one;
}

/* Adds a thread's own rows to a chunk that is loaded. */
static void add_near(const fast_pass *p, hga_id f, hga_id chunk, const float *own)
{
    const column_chunks *x = p->chunks;
    hga_id columns = p->field[f].padded;
    int64_t at = p->program->stage[x->stage].key == f ? x->d_key : x->d_value;
    if (at < 0 || !x->at[chunk]) return; /* not loaded: no row so far had an adjoint */
    float *to = x->at[chunk] + at;
    p->plan->machine.kernels->blend(CHUNK * columns, 1, to, 1, own, to);
}

/* Adds a thread's own rows of a chunk of columns to the field's gradient. */
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
        p->plan->machine.kernels->blend(columns, 1, to, 1, own + (ptrdiff_t)i * columns, to);
    }
}

/* Adds a thread's own sums. Entries of other heads are 0 here, and another thread may write them at the same time:
   they are not touched. */
static void add_sums(double *to, double *own, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        if (own[j] != 0) to[j] += own[j];
        own[j] = 0;
    }
}

/* Adds all rows and sums that the thread has of its own to the pass's gradients. */
static void add_own(const fast_pass *p, fast_thread *l, hga_id stage, hga_id i)
{
    const row_ranges *s = &p->call->row_ranges[stage];
    const hga_stage *at = &p->program->stage[stage];
    if (s->n == 1) return;
    for (int64_t c = 0; c < s->ptr[i + 1] - s->ptr[i]; c++) {
        hga_id chunk = s->chunk[s->ptr[i] + c];
        add_chunk(p, at->key, s->order, chunk, l->own_dk + c * CHUNK * p->field[at->key].padded);
        add_chunk(p, at->value, s->order, chunk, l->own_dv + c * CHUNK * p->field[at->value].padded);
        l->slot[chunk] = -1;
    }
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        if (row_ranges_sum_alone(p->needs, t)) add_sums(p->sums.of[t], l->own.of[t], p->needs->entries[t]);
}

static void run_row_range(fast_pass *p, fast_thread *l, hga_id stage, hga_id i, row_range_rows rows)
{
    const row_ranges *s = &p->call->row_ranges[stage];
    fast_pass one = seen_by(p, l, stage, i);
    if (!l->status) l->status = rows(&one, stage, s->first[i], s->first[i + 1]);
    l->rows = one.rows;
}

/* Ends a range, after all earlier ones have ended. */
static void end_row_range(fast_pass *p, fast_thread *l, hga_id stage, hga_id i)
{
    const row_ranges *s = &p->call->row_ranges[stage];
    add_own(p, l, stage, i);
    columns_leave(p, stage, s->first[i] / ROW_RANGE_PANEL, (s->first[i + 1] + ROW_RANGE_PANEL - 1) / ROW_RANGE_PANEL);
}

/* Threads may compute ranges in parallel, but a range's own rows and sums are added after those of all earlier
   ranges. */
hga_status each_row_range(fast_pass *p, hga_id stage, row_range_rows rows)
{
    const row_ranges *s = &p->call->row_ranges[stage];
    hga_id threads = p->team.n < s->n ? p->team.n : s->n;
    hga_status st = HGA_OK;
    /* OpenMP would create a parallel region even of one thread, and allocate */
    for (hga_id i = 0; threads <= 1 && i < s->n; i++) {
        run_row_range(p, p->team.thread, stage, i, rows);
        end_row_range(p, p->team.thread, stage, i);
    }
    if (threads <= 1) return p->team.thread->status;
#pragma omp parallel num_threads(threads)
    {
        binding old;
        binding_take(p->plan, &old);
#pragma omp for ordered schedule(static, 1)
        for (hga_id i = 0; i < s->n; i++) {
            fast_thread *l = &p->team.thread[omp_get_thread_num()];
            run_row_range(p, l, stage, i, rows);
#pragma omp ordered
            end_row_range(p, l, stage, i);
        }
        topology_unbind(&old);
    }
    for (hga_id i = 0; !st && i < threads; i++) st = p->team.thread[i].status;
    return st;
}
