/* states.c: finished states down the hierarchy, and energies. A row has little to do, and each of its steps waits for
   the one before: so the scalars of many rows go through the kernels together, and then each row's vectors. */
#include "stages.h"

#include <math.h>
#include <string.h>

/* Rows whose scalars, [rows][heads], are taken together. */
static hga_id rows_at_once(const worker *w, hga_id heads) { return w->lanes / heads; }

static void copy_scalars(hga_id n, const float *from, float *to) { memcpy(to, from, (size_t)n * sizeof *to); }

/* A scalar field's row, its heads side by side; and back. */
static void load_scalars(const bound_field *x, hga_id v, float *out)
{
    const float *row = bound_row(x, v);
    ptrdiff_t head = bound_head(x, v);
    if (head == 1)
        copy_scalars(x->heads, row, out);
    else
        for (hga_id h = 0; h < x->heads; h++) out[h] = row[h * head];
}
static void store_scalars(const bound_field *x, hga_id v, const float *in)
{
    float *row = bound_row(x, v);
    ptrdiff_t head = bound_head(x, v);
    if (head == 1)
        copy_scalars(x->heads, in, row);
    else
        for (hga_id h = 0; h < x->heads; h++) row[h * head] = in[h];
}

static void fill_scalars(hga_id n, float x, float *to)
{
    for (hga_id h = 0; h < n; h++) to[h] = x;
}

/* ---- merging ---- */

/* Row v's vectors become a of theirs and b of row u's. */
static void mix_rows(worker *w, const bound_field *x, hga_id v, hga_id u, const float *a, const float *b)
{
    w->plan->kernels->mix(&(kernel_mix){.heads = x->heads,
                                        .columns = x->columns,
                                        .a = a,
                                        .b = b,
                                        .x = bound_row(x, v),
                                        .y = bound_row(x, u),
                                        .out = bound_row(x, v),
                                        .x_head = bound_head(x, v),
                                        .y_head = bound_head(x, u),
                                        .out_head = bound_head(x, v)});
}

void spread_row(worker *w, const row_job *job)
{
    const bound_field *x = field(w, stage_of(w, job->stage)->out);
    float *lse = bound_lse(x, job->v), *theirs = w->scalars[0], *a = w->row.greatest, *b = w->row.sum;
    edge_cursor c = cursor_start(&w->reader, job->v);
    for (cursor_next(&c, job->count, &w->chunk); w->chunk.n; cursor_next(&c, job->count, &w->chunk))
        for (hga_id e = 0; e < w->chunk.n; e++) {
            hga_id u = w->chunk.src[e];
            float log_weight = w->chunk.weight[e] == 1 ? 0 : logf(w->chunk.weight[e]);
            for (hga_id h = 0; h < x->heads; h++) theirs[h] = bound_lse(x, u)[h] + log_weight;
            w->plan->kernels->shares(x->heads, lse, theirs, a, b, lse);
            mix_rows(w, x, job->v, u, a, b);
        }
}

static hga_id find_above(const worker *w, hga_id stage, hga_id v)
{
    return v < 0 ? -1 : node_above(&w->plan->nodes, w->part_of_tree, w->plan->stage[stage].cut, v);
}

/* Rows [0, n) with the states of who is above them. */
static void spread_families(worker *w, hga_id stage, hga_id n, const hga_id *node)
{
    float *mine = w->scalars[0], *theirs = w->scalars[1], *a = w->scalars[2], *b = w->scalars[3];
    const bound_field *x = field(w, stage_of(w, stage)->out);
    hga_id heads = x->heads;
    for (hga_id i = 0; i < n; i++) {
        hga_id u = find_above(w, stage, node[i]);
        fill_scalars(heads, -INFINITY, mine + i * heads);
        fill_scalars(heads, -INFINITY, theirs + i * heads);
        if (node[i] >= 0) copy_scalars(heads, bound_lse(x, node[i]), mine + i * heads);
        if (u >= 0) copy_scalars(heads, bound_lse(x, u), theirs + i * heads);
    }
    w->plan->kernels->shares(n * heads, mine, theirs, a, b, mine);
    for (hga_id i = 0; i < n; i++) {
        hga_id u = find_above(w, stage, node[i]);
        if (u < 0) continue;
        copy_scalars(heads, mine + i * heads, bound_lse(x, node[i]));
        mix_rows(w, x, node[i], u, a + i * heads, b + i * heads);
    }
}

void spread_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node)
{
    const bound_field *x = field(w, stage_of(w, stage)->out);
    if (stage_of(w, stage)->relation != HGA_TREE_DOWN) {
        for (hga_id i = 0; i < n; i++)
            if (node[i] >= 0)
                spread_row(
                    w,
                    &(row_job){.stage = stage, .v = node[i], .position = first + i, .count = INT64_MAX, .piece = -1});
        return;
    }
    for (hga_id at = 0, most = rows_at_once(w, x->heads); at < n; at += most)
        spread_families(w, stage, n - at < most ? n - at : most, node + at);
}

/* ---- energy ---- */

/* A family whose mean is being taken; it may be large, so in double. */
typedef struct mean {
    double *sum, total; /* sum: [heads] */
} mean;

static void mean_add(mean *m, hga_id heads, float mass, const float *x)
{
    m->total += (double)mass;
    for (hga_id h = 0; h < heads; h++) m->sum[h] += (double)mass * (double)x[h];
}

/* psi[v] = sum of mass log(e^psi + e^LSE) over the children, by mass (Amizadeh et al. 2025, eq. 8-10, as
   log-likelihoods) */
static void energy_of_family(worker *w, const bound_field *psi, const bound_field *state, hga_id v)
{
    float *own = w->scalars[0], *theirs = w->scalars[1];
    const hga_nodes *nodes = &w->plan->nodes;
    const hga_id *list = NULL;
    hga_id heads = psi->heads, first = 0, n = children_of(nodes, v, &list, &first), most = rows_at_once(w, heads);
    mean m = {.sum = w->plain};
    for (hga_id h = 0; h < heads; h++) m.sum[h] = 0;
    for (hga_id at = 0, many; at < n; at += many) {
        many = n - at < most ? n - at : most;
        for (hga_id i = 0; i < many; i++) {
            hga_id u = list ? list[at + i] : first + at + i;
            load_scalars(psi, u, own + i * heads);
            copy_scalars(heads, bound_lse(state, u), theirs + i * heads);
        }
        w->plan->kernels->log_add(many * heads, own, theirs, own);
        for (hga_id i = 0; i < many; i++) {
            float mass = nodes->mass[list ? list[at + i] : first + at + i];
            if (mass != 0) mean_add(&m, heads, mass, own + i * heads);
        }
    }
    float *out = bound_row(psi, v);
    for (hga_id h = 0; h < heads; h++)
        out[h * bound_head(psi, v)] = m.total > 0 ? (float)(m.sum[h] / m.total) : -INFINITY;
}

void energy_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node)
{
    const hga_stage *s = stage_of(w, stage);
    (void)first;
    for (hga_id i = 0; i < n; i++)
        if (node[i] >= 0) energy_of_family(w, field(w, s->out), field(w, s->value), node[i]);
}

/* ---- descent ---- */

/* The share of its mass that a node spends on its siblings is 1 / (1 + e^(psi - LSE)); the rest passes inside. */
static void descend_rows(worker *w, hga_id stage, hga_id n, const hga_id *node)
{
    const hga_stage *s = stage_of(w, stage);
    float *own = w->scalars[0], *theirs = w->scalars[1], *one = w->scalars[2], *above = w->scalars[3];
    const bound_field *state = field(w, s->value), *psi = field(w, s->gate), *keep = field(w, s->keep),
                      *out = field(w, s->out);
    hga_id heads = out->heads;
    for (hga_id i = 0; i < n; i++) {
        fill_scalars(heads, -INFINITY, own + i * heads);
        fill_scalars(heads, -INFINITY, theirs + i * heads);
        if (node[i] >= 0)
            copy_scalars(heads, bound_lse(state, node[i]), own + i * heads),
                load_scalars(psi, node[i], theirs + i * heads);
    }
    w->plan->kernels->divide(n * heads, own, theirs, own, theirs);
    for (hga_id i = 0; i < n; i++) {
        hga_id v = node[i], u = find_above(w, stage, v);
        float *share = own + i * heads, *rest = theirs + i * heads;
        if (v < 0) continue;
        fill_scalars(heads, 1, above);
        if (u >= 0) load_scalars(keep, u, above);
        for (hga_id h = 0; h < heads; h++) share[h] *= above[h], rest[h] *= above[h], one[h] = u >= 0 ? 1 : 0;
        store_scalars(keep, v, rest);
        w->plan->kernels->mix(&(kernel_mix){.heads = heads,
                                            .columns = out->columns,
                                            .a = one,
                                            .b = share,
                                            .x = u >= 0 ? bound_row(out, u) : bound_row(state, v),
                                            .y = bound_row(state, v),
                                            .out = bound_row(out, v),
                                            .streams = out->streams && bound_is_io(out, v),
                                            .ahead = rows_to_ask(w),
                                            .x_head = u >= 0 ? bound_head(out, u) : bound_head(state, v),
                                            .y_head = bound_head(state, v),
                                            .out_head = bound_head(out, v)});
    }
}

/* Row v was computed as if node u, its ancestor across the cut, had passed everything inside. */
static void descend_across(worker *w, hga_id stage, hga_id v, hga_id u)
{
    const hga_stage *s = stage_of(w, stage);
    const bound_field *keep = field(w, s->keep), *out = field(w, s->out);
    float *one = w->scalars[0], *inside = w->scalars[1], *own = w->scalars[2];
    fill_scalars(out->heads, 1, one);
    load_scalars(keep, u, inside);
    w->plan->kernels->mix(&(kernel_mix){.heads = out->heads,
                                        .columns = out->columns,
                                        .a = one,
                                        .b = inside,
                                        .x = bound_row(out, u),
                                        .y = bound_row(out, v),
                                        .out = bound_row(out, v),
                                        .x_head = bound_head(out, u),
                                        .y_head = bound_head(out, v),
                                        .out_head = bound_head(out, v)});
    if (!w->plan->stage[stage].crosses_all) return;
    load_scalars(keep, v, own);
    for (hga_id h = 0; h < out->heads; h++) own[h] *= inside[h];
    store_scalars(keep, v, own);
}

void descend_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node)
{
    hga_id most = rows_at_once(w, field(w, stage_of(w, stage)->out)->heads);
    (void)first;
    if (w->part_of_tree != TREE_ACROSS) {
        for (hga_id at = 0; at < n; at += most) descend_rows(w, stage, n - at < most ? n - at : most, node + at);
        if (field(w, stage_of(w, stage)->out)->streams) w->plan->kernels->streamed();
        return;
    }
    for (hga_id i = 0; i < n; i++) {
        hga_id u = find_above(w, stage, node[i]);
        if (u >= 0) descend_across(w, stage, node[i], u);
    }
}
