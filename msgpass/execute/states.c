/* states.c: finished states down the hierarchy, and energies. A row has little to do, and each of its steps waits for
   the one before: so the scalars of many rows go through the kernels together, and then all their vectors. */
#include "stages.h"

#include <math.h>
#include <string.h>

/* Rows that are taken together: their scalars, [rows][heads], have room, and so do addresses. */
enum { ROWS_AT_ONCE = 128 };
static hga_id rows_at_once(const worker *w, hga_id heads)
{
    return w->lanes / heads < ROWS_AT_ONCE ? w->lanes / heads : ROWS_AT_ONCE;
}

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

/* ---- mixing ---- */

/* A field's row of some node. */
typedef struct field_row {
    float *at;
    ptrdiff_t head;
} field_row;

static field_row row_of(const bound_field *x, hga_id v) { return (field_row){bound_row(x, v), bound_head(x, v)}; }

/* Rows that wait to be mixed, which go through the kernel together as long as their heads lie at the same strides. */
typedef struct mixing {
    const kernel_table *kernels;
    kernel_mix of;
    const float *x[ROWS_AT_ONCE], *y[ROWS_AT_ONCE];
    float *out[ROWS_AT_ONCE];
} mixing;

/* Of a and b there are the rows' scalars, in the order in which rows are added. */
static void mix_open(mixing *m, const worker *w, const bound_field *out, const float *a, const float *b)
{
    m->kernels = w->plan->kernels;
    m->of =
        (kernel_mix){.heads = out->heads, .columns = out->columns, .a = a, .b = b, .x = m->x, .y = m->y, .out = m->out};
}

static void mix_flush(mixing *m)
{
    if (m->of.n) m->kernels->mix(&m->of);
    if (m->of.a) m->of.a += m->of.n * m->of.heads;
    m->of.b += m->of.n * m->of.heads, m->of.n = 0;
}

static void mix_add(mixing *m, field_row x, field_row y, field_row out)
{
    kernel_mix *of = &m->of;
    if (of->x_head != x.head || of->y_head != y.head || of->out_head != out.head) mix_flush(m);
    of->x_head = x.head, of->y_head = y.head, of->out_head = out.head;
    m->x[of->n] = x.at, m->y[of->n] = y.at, m->out[of->n++] = out.at;
}

/* ---- merging ---- */

/* Merges the state of each source into row v's, one after the other. */
void spread_row(worker *w, const row_job *job)
{
    const bound_field *x = field(w, stage_of(w, job->stage)->out);
    const field_row own = row_of(x, job->v);
    float *lse = bound_lse(x, job->v), *theirs = w->scalars[0], *a = w->row.greatest, *b = w->row.sum;
    mixing m;
    edge_cursor c = cursor_start(&w->reader, job->v);
    for (cursor_next(&c, job->count, &w->chunk); w->chunk.n; cursor_next(&c, job->count, &w->chunk))
        for (hga_id e = 0; e < w->chunk.n; e++) {
            hga_id u = w->chunk.src[e];
            float log_weight = w->chunk.weight[e] == 1 ? 0 : logf(w->chunk.weight[e]);
            for (hga_id h = 0; h < x->heads; h++) theirs[h] = bound_lse(x, u)[h] + log_weight;
            w->plan->kernels->shares(x->heads, lse, theirs, a, b, lse);
            mix_open(&m, w, x, a, b);
            mix_add(&m, own, row_of(x, u), own);
            mix_flush(&m);
        }
}

static hga_id find_above(const worker *w, hga_id stage, hga_id v)
{
    return v < 0 ? -1 : node_above(&w->plan->nodes, w->part_of_tree, w->plan->stage[stage].cut, v);
}

/* Nodes, and who is above each of them; -1: nobody. */
typedef struct pairs {
    hga_id n, orphans, node[ROWS_AT_ONCE], above[ROWS_AT_ONCE];
} pairs;

/* Those of [0, n) that are computed here, or of these those that have somebody above them. */
static void find_pairs(const worker *w, hga_id stage, hga_id n, const hga_id *node, int orphans, pairs *out)
{
    out->n = out->orphans = 0;
    for (hga_id i = 0; i < n; i++) {
        hga_id u = find_above(w, stage, node[i]);
        if (node[i] < 0 || (u < 0 && !orphans)) continue;
        out->orphans += u < 0;
        out->node[out->n] = node[i], out->above[out->n++] = u;
    }
}

/* Rows become what they are and the states of who is above them. */
static void spread_families(worker *w, hga_id stage, const pairs *p)
{
    float *mine = w->scalars[0], *theirs = w->scalars[1], *a = w->scalars[2], *b = w->scalars[3];
    const bound_field *x = field(w, stage_of(w, stage)->out);
    hga_id heads = x->heads;
    mixing m;
    for (hga_id i = 0; i < p->n; i++) {
        copy_scalars(heads, bound_lse(x, p->node[i]), mine + i * heads);
        copy_scalars(heads, bound_lse(x, p->above[i]), theirs + i * heads);
    }
    w->plan->kernels->shares(p->n * heads, mine, theirs, a, b, mine);
    mix_open(&m, w, x, a, b);
    for (hga_id i = 0; i < p->n; i++) {
        const field_row own = row_of(x, p->node[i]);
        copy_scalars(heads, mine + i * heads, bound_lse(x, p->node[i]));
        mix_add(&m, own, row_of(x, p->above[i]), own);
    }
    mix_flush(&m);
}

/* Down the tree many rows are merged at a time, along other relations one by one. */
void spread_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node)
{
    const bound_field *x = field(w, stage_of(w, stage)->out);
    pairs p;
    (void)first;
    if (stage_of(w, stage)->relation != HGA_TREE_DOWN) {
        for (hga_id i = 0; i < n; i++)
            if (node[i] >= 0) spread_row(w, &(row_job){.stage = stage, .v = node[i], .count = INT64_MAX, .piece = -1});
        return;
    }
    for (hga_id at = 0, most = rows_at_once(w, x->heads); at < n; at += most) {
        find_pairs(w, stage, n - at < most ? n - at : most, node + at, 0, &p);
        spread_families(w, stage, &p);
    }
}

/* ---- energy ---- */

/* A scalar field's row with its heads side by side: where it is, or in `room`. */
static const float *scalars_of(const bound_field *x, hga_id v, float *room)
{
    if (bound_head(x, v) == 1) return bound_row(x, v);
    load_scalars(x, v, room);
    return room;
}

/* psi[v] = sum of mass log(e^psi + e^LSE) over the children, by mass (Amizadeh et al. 2025, eq. 8-10, as
   log-likelihoods). A family may be large, so in double; what counts as no token has no say, whatever it holds. */
void energy_of_family(worker *w, const bound_field *psi, const bound_field *state, hga_id v)
{
    const float *own[ROWS_AT_ONCE], *theirs[ROWS_AT_ONCE], *masses = w->plan->nodes.mass;
    float mass[ROWS_AT_ONCE], *room = w->scalars[0], *out = bound_row(psi, v);
    const ptrdiff_t out_head = bound_head(psi, v);
    const hga_id *list = NULL;
    hga_id heads = psi->heads, first = 0, n = children_of(&w->plan->nodes, v, &list, &first);
    hga_id most = rows_at_once(w, heads), many = 0;
    double *sum = w->plain, total = 0;
    for (hga_id h = 0; h < heads; h++) sum[h] = 0, out[h * out_head] = -INFINITY;
    for (hga_id i = 0; i < n; i++) {
        hga_id u = list ? list[i] : first + i;
        if (masses[u] != 0) {
            own[many] = scalars_of(psi, u, room + many * heads), theirs[many] = bound_lse(state, u);
            total += (double)(mass[many++] = masses[u]);
        }
        if (many < most && i < n - 1) continue;
        w->plan->kernels->energies(many, heads, own, theirs, mass, sum);
        many = 0;
    }
    for (hga_id h = 0; h < heads && total > 0; h++) out[h * out_head] = (float)(sum[h] / total);
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
static void descend_rows(worker *w, hga_id stage, const pairs *p)
{
    const hga_stage *s = stage_of(w, stage);
    float *share = w->scalars[0], *rest = w->scalars[1], *whole = w->scalars[2], *of_above = w->scalars[3];
    const bound_field *state = field(w, s->value), *psi = field(w, s->gate), *keep = field(w, s->keep),
                      *out = field(w, s->out);
    hga_id heads = out->heads;
    mixing m;
    for (hga_id i = 0, at = 0; i < p->n; i++, at += heads) {
        copy_scalars(heads, bound_lse(state, p->node[i]), share + at);
        load_scalars(psi, p->node[i], rest + at);
        if (p->orphans) fill_scalars(heads, p->above[i] < 0 ? 0 : 1, of_above + at);
        if (p->above[i] < 0)
            fill_scalars(heads, 1, whole + at);
        else
            load_scalars(keep, p->above[i], whole + at);
    }
    w->plan->kernels->divide(p->n * heads, share, rest, whole, share, rest);
    mix_open(&m, w, out, p->orphans ? of_above : NULL, share);
    m.of.ahead = &w->coming;
    for (hga_id i = 0; i < p->n; i++) {
        const hga_id v = p->node[i], u = p->above[i];
        const field_row own = row_of(state, v);
        const int streams = out->streams && bound_is_io(out, v);
        store_scalars(keep, v, rest + i * heads);
        if (m.of.streams != streams) mix_flush(&m), m.of.streams = streams;
        mix_add(&m, u < 0 ? own : row_of(out, u), own, row_of(out, v));
    }
    mix_flush(&m);
}

/* Rows were computed as if node u, their ancestor across the cut, had passed everything inside. */
static void descend_across(worker *w, hga_id stage, const pairs *p)
{
    const hga_stage *s = stage_of(w, stage);
    const bound_field *keep = field(w, s->keep), *out = field(w, s->out);
    float *inside = w->scalars[0], *own = w->scalars[1];
    hga_id heads = out->heads;
    mixing m;
    mix_open(&m, w, out, NULL, inside);
    for (hga_id i = 0; i < p->n; i++) {
        const field_row row = row_of(out, p->node[i]);
        load_scalars(keep, p->above[i], inside + i * heads);
        mix_add(&m, row_of(out, p->above[i]), row, row);
    }
    mix_flush(&m);
    if (!w->plan->stage[stage].crosses_all) return;
    for (hga_id i = 0; i < p->n; i++) {
        load_scalars(keep, p->node[i], own);
        for (hga_id h = 0; h < heads; h++) own[h] *= inside[i * heads + h];
        store_scalars(keep, p->node[i], own);
    }
}

/* Many rows at a time; across the tree's cut they take what their ancestor there passes down. */
void descend_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node)
{
    const bound_field *out = field(w, stage_of(w, stage)->out);
    const int across = w->part_of_tree == TREE_ACROSS;
    pairs p;
    (void)first;
    for (hga_id at = 0, most = rows_at_once(w, out->heads); at < n; at += most) {
        find_pairs(w, stage, n - at < most ? n - at : most, node + at, !across, &p);
        if (across)
            descend_across(w, stage, &p);
        else
            descend_rows(w, stage, &p);
    }
    if (!across && out->streams) w->plan->kernels->streamed();
}
