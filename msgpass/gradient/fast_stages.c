/* fast_stages.c: a stage at a time: sums forward and backward, and the adjoint of every kind of stage. */
#include "call.h"
#include "carve.h"
#include "fast.h"
#include "fast_attend.h"
#include "fast_states.h"
#include "fast_trees.h"
#include "panel.h"
#include "regions.h"

#include <string.h>

/* The factor of an edge's source. */
static double factor(const fast_pass *p, const hga_stage *stage, const row_edge *e)
{
    float weight = e->weight;
    if (stage->message == HGA_SCALED) weight *= p->call->io->type_scale.data[e->type];
    if (stage->reduce == HGA_MEAN && stage->by_mass) weight *= p->nodes.mass[e->src];
    return (double)weight;
}

/* Reads the edges of a row, and sets the divisor of the sum over them. */
static hga_status read_sum(fast_pass *p, const hga_stage *stage, hga_id v, double *total)
{
    hga_status st = edges_read(&p->rows, v);
    *total = stage->reduce == HGA_MEAN ? 0 : 1;
    for (int64_t i = 0; !st && stage->reduce == HGA_MEAN && i < p->rows.n; i++)
        *total += factor(p, stage, &p->rows.edge[i]);
    return st;
}

/* Computes row v of a sum or a mean over its edges, KERNEL_CHUNK of them at a time. */
static void sum_row(fast_pass *p, const hga_stage *stage, hga_id v, double total)
{
    float *y = value_row(p, stage->out, v), weight[KERNEL_CHUNK];
    const float *x[KERNEL_CHUNK];
    hga_id columns = p->field[stage->out].padded;
    int64_t n = total > 0 ? p->rows.n : 0;
    if (n == 0 || n > KERNEL_CHUNK) memset(y, 0, (size_t)columns * sizeof *y);
    for (int64_t at = 0; at < n; at += KERNEL_CHUNK) {
        hga_id many = (hga_id)(n - at < KERNEL_CHUNK ? n - at : KERNEL_CHUNK);
        for (hga_id i = 0; i < many; i++) {
            const row_edge *e = &p->rows.edge[at + i];
            weight[i] = (float)(factor(p, stage, e) / total), x[i] = value_row(p, stage->value, e->src);
        }
        if (n > KERNEL_CHUNK)
            p->plan->machine.kernels->sum(many, x, 0, weight, columns, y);
        else
            p->plan->machine.kernels->weigh(many, x, 0, weight, 1, columns, y);
    }
}

/* Scatters row v's gradient to its sources, and adds it to the scales of their types. */
static void sum_adjoint(fast_pass *p, const hga_stage *stage, hga_id v, double total)
{
    hga_id columns = p->field[stage->out].padded;
    float *dy = adjoint_row(p, stage->out, v);
    double *scales = stage->message == HGA_SCALED ? p->sums.of[HGA_TABLE_TYPE_SCALE] : NULL;
    for (int64_t i = 0; i < p->rows.n && total > 0; i++) {
        const row_edge *e = &p->rows.edge[i];
        if (scales) {
            double sum = 0;
            const float *x = value_row(p, stage->value, e->src);
            for (hga_id c = 0; c < columns; c++) sum += (double)dy[c] * (double)x[c];
            scales[e->type] += sum * (double)e->weight;
        }
        if (!p->field[stage->value].adjoint) continue;
        float *dx = adjoint_row(p, stage->value, e->src);
        p->plan->machine.kernels->blend(columns, 1, dx, (float)(factor(p, stage, e) / total), dy, dx);
    }
    if (is_read_again(p, stage, v)) memset(dy, 0, (size_t)columns * sizeof *dy);
}

static int writes_row(const fast_pass *p, const hga_stage *stage, hga_id v)
{
    int is_copied = v < p->nodes.level_ptr[1] && program_keeps_tokens(stage);
    return program_row(&p->nodes, p->program->field[stage->out].rows, v) && !is_copied;
}

/* Runs a stage of sums forward or backward, rows in the order of the stage or in reverse. */
hga_status walk_sum(fast_pass *p, hga_id s, int backwards)
{
    const hga_stage *stage = &p->program->stage[s];
    int down = (stage->order == HGA_LEVELS_DOWN) != backwards;
    hga_status st = HGA_OK;
    if (backwards ? !p->field[stage->out].adjoint : !p->field[stage->out].value) return HGA_OK;
    if (is_of_children(stage)) {
        fast_children(p, stage, backwards);
        return HGA_OK;
    }
    rows_open(&p->rows, p->plan, s);
    for (node_walk w = {0}; node_next(p, down, &w);) {
        hga_id v = w.v;
        double total;
        if (!writes_row(p, stage, v)) continue;
        HGA_TRY(read_sum(p, stage, v, &total));
        (backwards ? sum_adjoint : sum_row)(p, stage, v, total);
    }
done:
    return st;
}

static int is_written_later(const hga_program *p, hga_id field, hga_id s)
{
    int later = 0;
    while (++s < p->n_stages) later |= (int)(p->stage[s].writes >> field & 1u);
    return later;
}

/* Runs an attending stage backward. All stages that attend into one state use the same adjoint; the last of them
   converts it. */
static hga_status attend_back(fast_pass *p, hga_id s)
{
    hga_id out = p->program->stage[s].out;
    if (p->field[out].own_lse && !is_written_later(p->program, out, s)) request_states(p, out);
    return fast_attend(p, s);
}

/* A stage's adjoint, by its kind. */
hga_status stage_back(fast_pass *p, hga_id s)
{
    hga_status st = HGA_OK;
    stage_kind kind = p->plan->stage[s].kind;
    if (kind_sums(kind)) HGA_TRY(walk_sum(p, s, 1));
    if (kind == KIND_SPREAD) HGA_TRY(fast_spread(p, s));
    if (kind == KIND_ENERGY) HGA_TRY(fast_energy(p, s, 1));
    if (kind == KIND_DESCEND) HGA_TRY(fast_descend(p, s, 1));
    if (kind_attends(kind)) HGA_TRY(attend_back(p, s));
done:
    return st;
}
