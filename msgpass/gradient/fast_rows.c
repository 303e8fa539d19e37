/* fast_rows.c: the rows of a panel. Queries and the output's gradients become sixteen contiguous rows and their
   transpose; queries' gradients are written back. Where attention is the only stage that reads a field, its rows are
   read from and written to the caller's tensors, and the pass stores no head of it. */
#include "fast_rows.h"
#include "gradient_rows.h"
#include "caller.h"
#include "carve.h"
#include "fast_columns.h"
#include "fast_states.h"
#include "panel.h"
#include "plan.h"

#include <math.h>
#include <string.h>

int is_by_row(const hga_plan *plan, hga_id f)
{
    const hga_program *p = &plan->program;
    hga_id s = only_stage(plan, f);
    if (s < 0 || !kind_attends(plan->stage[s].kind) || has_energies(p, p->stage[s].out)) return 0;
    const hga_stage *stage = &p->stage[s];
    if (p->field[f].binding == HGA_IO_OUT) return stage->out == f;
    if (stage->key == f || stage->value == f) return columns_stage(plan) == s;
    return stage->query == f && program_is_input(p->field[f].binding);
}

hga_id rows_from(const fast_pass *p, hga_id first)
{
    hga_id n = p->nodes.n - first;
    return n < 0 ? 0 : n < KERNEL_TILE ? n : KERNEL_TILE;
}

int is_passed_over(const fast_pass *p, hga_id first, hga_id end)
{
    return !p->finds && p->call->requested.n && !p->rows.r.dst_order && !range_has(p->call, first, end);
}

/* The node at a position; -1: none, or not in the rows that are attended now. */
static hga_id position_node(const fast_pass *p, hga_id position)
{
    const hga_id *order = p->rows.r.dst_order;
    if (position < p->panel->begin || position >= p->panel->end) return -1;
    return order ? order[position] : position;
}

int has_adjoint(const fast_pass *p, hga_id f)
{
    return p->field[f].by_row ? field_gradient(p->call, f)->data != NULL : p->field[f].adjoint != NULL;
}

/* ---- queries ---- */

/* Are the caller's queries rounded before they are read? */
static int rounds_queries(const fast_pass *p, hga_id s)
{
    return storage_is_rounded(p->plan, p->program->stage[s].query) && p->program->stage[s].order == HGA_FLAT;
}

/* Reads a query of the caller's. */
static void read_query(const fast_pass *p, hga_id s, const caller_rows *input, hga_id v, float *to)
{
    hga_id padded = p->field[p->program->stage[s].query].padded;
    read_padded(input, row_of(input, v), padded, to);
    if (rounds_queries(p, s)) p->plan->machine.kernels->round_bf16(padded, to, to);
}

/* Loads the group's queries, times the scale; prefetches the caller's rows of the next group. */
static void load_queries(const fast_pass *p, hga_id s, group *g, hga_id first)
{
    hga_id f = p->program->stage[s].query;
    const fast_field *x = &p->field[f];
    const caller_rows input = x->by_row ? rows_at(p, f, field_tensor(p->call, f)) : (caller_rows){0};
    for (hga_id i = 0; i < KERNEL_TILE; i++) {
        float *row = g->q_rows + (ptrdiff_t)i * x->padded;
        hga_id v = g->node[i];
        if (x->by_row) fetch_row(&input, position_node(p, first + KERNEL_TILE + i));
        if (v < 0) {
            memset(row, 0, (size_t)x->padded * sizeof *row);
        } else if (x->by_row) {
            read_query(p, s, &input, v, row);
            p->plan->machine.kernels->scale(x->padded, query_scale(p), row, row);
        } else {
            p->plan->machine.kernels->scale(x->padded, query_scale(p), value_row(p, f, v), row);
        }
    }
}

/* ---- the output's gradients ---- */

/* Loads them from the caller's rows. A row without edges has an adjoint of zero. */
static void load_adjoints(const fast_pass *p, hga_id f, group *g, hga_id first)
{
    const fast_field *x = &p->field[f];
    const caller_rows upstream = rows_at(p, f, &p->call->grad->d_out), out = rows_at(p, f, &p->call->io->out);
    for (hga_id i = 0; i < KERNEL_TILE; i++) {
        float *row = g->g_rows + (ptrdiff_t)i * x->padded;
        hga_id v = position_node(p, first + i), next = position_node(p, first + KERNEL_TILE + i),
               at = v - upstream.node;
        int here = v >= 0 && row_of(&upstream, v);
        g->lse[i] = here ? call_requests_lse(p->call, at, p->heads.head) : INFINITY;
        g->node[i] = g->lse[i] == INFINITY ? -1 : v;
        fetch_row(&upstream, next), fetch_row(&out, next);
        if (g->node[i] < 0) {
            memset(row, 0, (size_t)x->padded * sizeof *row);
            continue;
        }
        read_padded(&upstream, row_of(&upstream, v), x->padded, row);
        g->delta[i] = adjoint_delta(p, at, x->columns, row, look_at_row(&out, row_of(&out, v), p->panel->operands.row));
    }
}

/* Loads them from the stage's adjoint. */
static void load_adjoint(const fast_pass *p, hga_id f, group *g, hga_id first)
{
    const fast_field *x = &p->field[f];
    for (hga_id i = 0; i < KERNEL_TILE; i++) {
        float *row = g->g_rows + (ptrdiff_t)i * x->padded;
        hga_id v = position_node(p, first + i);
        int has_adjoint = v >= 0 && program_row(&p->nodes, p->program->field[f].rows, v) && x->lse[v] != INFINITY;
        g->node[i] = has_adjoint ? v : -1;
        if (has_adjoint)
            memcpy(row, adjoint_row(p, f, v), (size_t)x->padded * sizeof *row), g->lse[i] = x->lse[v],
                                                                                g->delta[i] = x->delta[v];
        else
            memset(row, 0, (size_t)x->padded * sizeof *row);
    }
}

/* Can the row's adjoint be nonzero? That of tokens that have no edges in any stage is zero. */
static int is_expected(const fast_pass *p, hga_id f, hga_id v)
{
    if (v < 0 || !program_row(&p->nodes, p->program->field[f].rows, v)) return 0;
    int has_edges = v >= p->nodes.level_ptr[1] && !p->field[f].by_row;
    for (hga_id s = 0; s < p->program->n_stages && !has_edges; s++)
        if (p->program->stage[s].writes >> f & 1u)
            has_edges = edges_exist(p->plan->graph, p->program->stage[s].relation, v);
    return has_edges;
}

void expect_sixteen(fast_pass *p, hga_id s, group *g, hga_id first)
{
    g->there = 0;
    for (hga_id i = 0; i < KERNEL_TILE; i++) {
        hga_id v = position_node(p, first + i);
        g->node[i] = is_expected(p, p->program->stage[s].out, v) ? v : -1;
        g->there |= (uint32_t)(g->node[i] >= 0) << i;
    }
}

/* Transposes sixteen rows. */
static void transpose_rows_of(const fast_pass *p, const float *rows, hga_id columns, float *out)
{
    const float *row[KERNEL_TILE];
    for (hga_id i = 0; i < KERNEL_TILE; i++) row[i] = rows + (ptrdiff_t)i * columns;
    p->plan->machine.kernels->transpose_rows(KERNEL_TILE, row, 1, columns, out);
}

void transpose_group(const fast_pass *p, const hga_stage *stage, group *g)
{
    transpose_rows_of(p, g->q_rows, p->field[stage->query].padded, g->q);
    transpose_rows_of(p, g->g_rows, p->field[stage->out].padded, g->g);
}

/* Loads sixteen rows of queries, of the output's gradient and of log-sum-exps, both as rows and transposed. */
void load_sixteen(fast_pass *p, hga_id s, group *g, hga_id first)
{
    const hga_stage *stage = &p->program->stage[s];
    hga_id dim = p->field[stage->query].padded;
    g->there = 0;
    for (hga_id i = 0; i < KERNEL_TILE; i++) g->lse[i] = INFINITY, g->delta[i] = 0, g->node[i] = -1;
    if (first >= p->panel->end) return;
    (p->field[stage->out].by_row ? load_adjoints : load_adjoint)(p, stage->out, g, first);
    for (hga_id i = 0; i < KERNEL_TILE; i++) g->there |= (uint32_t)(g->node[i] >= 0) << i;
    if (!g->there) return;
    for (hga_id i = 0; p->scores.slopes && i < KERNEL_TILE; i++)
        g->at[i] = g->node[i] < 0 ? 0 : (float)p->plan->cache->lists.position[g->node[i]];
    load_queries(p, s, g, first);
    transpose_group(p, stage, g);
    memset(g->dq, 0, (size_t)(dim * KERNEL_TILE) * sizeof *g->dq);
}

/* ---- queries' gradients ---- */

/* Adds row i to the gradient of the scale. */
static void add_scale(fast_pass *p, hga_id s, const group *g, hga_id i)
{
    hga_id f = p->program->stage[s].query;
    const fast_field *x = &p->field[f];
    const float *dq = g->dq + (ptrdiff_t)i * x->padded, *q;
    hga_id v = g->node[i];
    if (x->by_row) {
        const caller_rows upstream = rows_at(p, f, field_tensor(p->call, f));
        read_query(p, s, &upstream, v, p->panel->operands.row), q = p->panel->operands.row;
    } else {
        q = value_row(p, f, v);
    }
    for (hga_id c = 0; c < x->columns; c++) *p->sums.of[HGA_TABLE_SCALE] += (double)dq[c] * (double)q[c];
}

/* Scales the group's gradients as the caller gets them; rows without an adjoint are zeroed. */
static void finish_queries(const fast_pass *p, const fast_field *x, const group *g)
{
    for (hga_id i = 0; i < KERNEL_TILE; i++) {
        float *dq = g->dq + (ptrdiff_t)i * x->padded;
        if (g->node[i] < 0)
            memset(dq, 0, (size_t)x->padded * sizeof *dq);
        else
            p->plan->machine.kernels->scale(x->padded, query_scale(p), dq, dq);
    }
}

/* Writes the group's gradients to the caller's rows. */
static void give_to_caller(fast_pass *p, hga_id f, const group *g, hga_id first)
{
    const fast_field *x = &p->field[f];
    const hga_tensor *t = field_gradient(p->call, f);
    int accumulate = p->call->grad->accumulate, is_set = accumulate || p->call->requested.n;
    float *whole[KERNEL_TILE];
    if (!t->data) return;
    const caller_rows to = rows_at(p, f, t);
    int streams = is_stream(p->plan, &to) && !accumulate;
    finish_queries(p, x, g);
    for (hga_id i = 0; i < KERNEL_TILE; i++) {
        hga_id v = position_node(p, first + i);
        float *dq = g->dq + (ptrdiff_t)i * x->padded;
        char *row = row_of(&to, v);
        whole[i] = (float *)(void *)row;
        if (!row || streams || (g->node[i] < 0 && is_set)) continue;
        fetch_row(&to, position_node(p, first + KERNEL_TILE + i));
        if (accumulate)
            p->plan->machine.kernels->blend(x->columns, 1, look_at_row(&to, row, p->panel->operands.row), 1, dq, dq);
        numbers_write(p->plan->machine.kernels, to.type, dq, x->columns, row);
    }
    if (streams) p->plan->machine.kernels->stream(KERNEL_TILE, x->columns, g->dq, x->padded, whole);
}

/* Adds the group's gradients to the field's adjoint. The stage that writes the field first writes zeros for rows
   without an adjoint. */
static void add_queries(fast_pass *p, hga_id s, hga_id f, const group *g, hga_id first)
{
    const fast_field *x = &p->field[f];
    int writes = x->writer == s;
    for (hga_id i = 0; x->adjoint && i < rows_from(p, first); i++) {
        const float *dq = g->dq + (ptrdiff_t)i * x->padded;
        hga_id v = position_node(p, first + i);
        if (v < 0 || (g->node[i] < 0 && !writes)) continue;
        float *to = adjoint_row(p, f, v);
        if (g->node[i] < 0)
            memset(to, 0, (size_t)x->padded * sizeof *to);
        else if (writes)
            p->plan->machine.kernels->scale(x->padded, query_scale(p), dq, to);
        else
            p->plan->machine.kernels->blend(x->padded, 1, to, query_scale(p), dq, to);
    }
}

void store_sixteen(fast_pass *p, hga_id s, const group *g, hga_id first)
{
    hga_id query = p->program->stage[s].query;
    for (hga_id i = 0; p->sums.of[HGA_TABLE_SCALE] && !p->scores.additive && i < KERNEL_TILE; i++)
        if (g->node[i] >= 0) add_scale(p, s, g, i);
    p->field[query].by_row ? give_to_caller(p, query, g, first) : add_queries(p, s, query, g, first);
}
