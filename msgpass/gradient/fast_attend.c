/* fast_attend.c: the adjoint of attention, one head, a panel of rows at a time. What enough of sixteen rows have an
   edge to is computed in tiles; what is left, and every edge whose score has more than a product, a mass and a
   weight in it, goes row by row. Which is which depends on the graph and on what the call brings, never on
   threads. */
#include "panel.h"

#include <math.h>
#include <string.h>

static hga_id padded_columns(hga_id n) { return (n + KERNEL_PAD - 1) / KERNEL_PAD * KERNEL_PAD; }

/* Of a group: turned and as rows, both operands, and the gradient. */
static int64_t group_floats(hga_id dim, hga_id dim_v) { return (3 * (int64_t)dim + 2 * (int64_t)dim_v) * KERNEL_TILE; }

static int64_t panel_floats(const hga_plan *plan)
{
    hga_id dim = padded_columns(plan->shape.dim), dim_v = padded_columns(plan->shape.dim_v);
    return GROUPS * group_floats(dim, dim_v) + 2 * ((int64_t)dim + dim_v) * WINDOW + LINE_FLOATS;
}

int64_t panel_bytes(const hga_plan *plan)
{
    return (int64_t)sizeof(panel) + panel_floats(plan) * (int64_t)sizeof(float);
}

hga_status panel_create(const hga_plan *plan, panel **out)
{
    hga_status st = HGA_OK;
    panel *x = NULL;
    hga_id dim = padded_columns(plan->shape.dim), dim_v = padded_columns(plan->shape.dim_v);
    HGA_TRY(hga_new_zero(&plan->given, 1, sizeof *x, &x));
    x->floats = panel_floats(plan);
    HGA_TRY(hga_new_zero(&plan->given, x->floats, sizeof *x->memory, &x->memory));
    float *at = first_line(x->memory);
    for (int i = 0; i < GROUPS; i++, at += group_floats(dim, dim_v)) {
        group *g = &x->group[i];
        g->q = at, g->q_rows = g->q + dim * KERNEL_TILE, g->dq = g->q_rows + dim * KERNEL_TILE;
        g->g = g->dq + dim * KERNEL_TILE, g->g_rows = g->g + dim_v * KERNEL_TILE;
    }
    x->k = at, x->dk = x->k + dim * WINDOW, x->v = x->dk + dim * WINDOW, x->dv = x->v + dim_v * WINDOW;
done:
    if (st) panel_destroy(plan, x), x = NULL;
    *out = x;
    return st;
}

void panel_destroy(const hga_plan *plan, panel *x)
{
    if (!x) return;
    const hga_allocator *a = &plan->given;
    hga_delete(a, x->segment, x->segment_room, sizeof *x->segment);
    hga_delete(a, x->window, x->window_room, sizeof *x->window);
    hga_delete(a, x->left, x->left_room, sizeof *x->left);
    hga_delete(a, x->sorted, x->sorted_room, sizeof *x->sorted);
    hga_delete(a, x->memory, x->floats, sizeof *x->memory);
    hga_delete(a, x, 1, sizeof *x);
}

/* ---- the rows ---- */

static int row_is_wanted(const fast_pass *p, const hga_stage *s, hga_id v)
{
    return program_row(&p->nodes, p->program->field[s->out].rows, v) && p->field[s->out].lse[v] < INFINITY;
}

/* Fill a group; 0 when nothing is asked of any row. */
static int load_rows(fast_pass *p, hga_id s, group *g, hga_id first, hga_id n)
{
    const hga_stage *stage = &p->program->stage[s];
    const hga_relation *r = &p->plan->stage[s].relation;
    const kernel_table *kernels = p->plan->kernels;
    hga_id dim = p->field[stage->query].padded, dim_v = p->field[stage->out].padded;
    const float *q[KERNEL_TILE], *given[KERNEL_TILE];
    g->there = 0, g->windows = p->panel->n_windows, g->n_windows = 0;
    for (hga_id i = 0; i < KERNEL_TILE; i++) {
        hga_id v = i >= n ? -1 : r->dst_order ? r->dst_order[first + i] : first + i;
        g->node[i] = v >= 0 && row_is_wanted(p, stage, v) ? v : -1;
        g->lse[i] = INFINITY, g->delta[i] = 0, q[i] = given[i] = NULL;
        if (g->node[i] < 0) continue;
        g->there |= 1u << i;
        q[i] = value_row(p, stage->query, v), given[i] = adjoint_row(p, stage->out, v);
        g->lse[i] = p->field[stage->out].lse[v], g->delta[i] = p->field[stage->out].delta[v];
    }
    if (!g->there) return 0;
    for (hga_id i = 0; i < KERNEL_TILE; i++) {
        float *q_row = g->q_rows + (ptrdiff_t)i * dim, *g_row = g->g_rows + (ptrdiff_t)i * dim_v;
        if (q[i])
            kernels->scale(dim, p->call->scale, q[i], q_row), memcpy(g_row, given[i], (size_t)dim_v * sizeof *g_row);
        else
            memset(q_row, 0, (size_t)dim * sizeof *q_row), memset(g_row, 0, (size_t)dim_v * sizeof *g_row);
    }
    kernels->turn_rows(KERNEL_TILE, q, p->call->scale, dim, g->q);
    kernels->turn_rows(KERNEL_TILE, given, 1, dim_v, g->g);
    memset(g->dq, 0, (size_t)(dim * KERNEL_TILE) * sizeof *g->dq);
    return 1;
}

static void store_rows(fast_pass *p, const hga_stage *stage, const group *g)
{
    hga_id dim = p->field[stage->query].padded;
    for (hga_id i = 0; i < KERNEL_TILE; i++) {
        if (g->node[i] < 0) continue;
        const float *dq = g->dq + (ptrdiff_t)i * dim, *q = value_row(p, stage->query, g->node[i]);
        double *scale = p->sums.of[SCALE];
        for (hga_id c = 0; scale && c < dim; c++) *scale += (double)dq[c] * (double)q[c];
        if (!p->field[stage->query].adjoint) continue;
        float *to = adjoint_row(p, stage->query, g->node[i]);
        p->plan->kernels->blend(dim, 1, to, p->call->scale, dq, to);
    }
}

/* ---- edges row by row ---- */

hga_status leave(fast_pass *p, hga_id row, row_edge e, hga_pos position)
{
    panel *x = p->panel;
    hga_status st = HGA_OK;
    if (x->n_left == x->left_room)
        st = hga_grow(&p->plan->given, &x->left, &x->left_room, x->n_left, x->n_left + 1, sizeof *x->left);
    if (!st) x->left[x->n_left++] = (left_edge){row, e, position};
    return st;
}

/* What the score of an edge has besides the product with the key. */
static float base_score(const fast_pass *p, hga_id s, hga_id v, const left_edge *x)
{
    const hga_io *io = p->call->io;
    const hga_stage *stage = &p->program->stage[s];
    double sum = x->e.weight == 1 ? 0 : log((double)x->e.weight);
    if (stage->by_mass) sum += (double)p->log_mass[x->e.src];
    if (io->rel_bias) sum += (double)io->rel_bias[(ptrdiff_t)x->e.type * p->plan->shape.n_heads + p->head];
    if (io->edge_bias && s == p->plan->bias_stage) {
        hga_id heads = io->edge_bias_heads;
        sum += (double)io->edge_bias[(p->plan->stage[s].row_ptr[v] + x->position) * heads + (heads == 1 ? 0 : p->head)];
    }
    hga_id own = x->e.pos_of ? x->e.pos_of - 1 : v, dim = p->plan->shape.pos_dim;
    for (hga_id c = 0; io->node_pos && c < dim; c++)
        sum += (double)io->node_pos[(ptrdiff_t)own * dim + c] * (double)io->node_pos[(ptrdiff_t)x->e.src * dim + c];
    return (float)sum;
}

/* The gradients of what the scores of n edges of a row have besides the product. */
static void sum_tables(fast_pass *p, hga_id s, const group *g, hga_id row, const left_edge *x, hga_id n,
                       const float *ds)
{
    const hga_io *io = p->call->io;
    const table_sums *sums = &p->sums;
    hga_id v = g->node[row], key_dim = p->plan->shape.dim, dim = p->plan->shape.pos_dim;
    const float *q = g->q_rows + (ptrdiff_t)row * p->field[p->program->stage[s].query].padded;
    for (hga_id i = 0; i < n; i++) {
        double d = (double)ds[i];
        ptrdiff_t type = x[i].e.type;
        for (hga_id c = 0; sums->of[REL_KEY] && c < key_dim; c++)
            sums->of[REL_KEY][type * key_dim + c] += d * (double)q[c];
        if (sums->of[REL_BIAS]) sums->of[REL_BIAS][type * p->plan->shape.n_heads + p->head] += d;
        if (sums->of[EDGE_BIAS] && s == p->plan->bias_stage) {
            hga_id heads = io->edge_bias_heads;
            sums->of[EDGE_BIAS][(p->plan->stage[s].row_ptr[v] + x[i].position) * heads + (heads == 1 ? 0 : p->head)] +=
                d;
        }
        if (sums->of[LOG_MASS]) sums->of[LOG_MASS][x[i].e.src] += d;
        hga_id own = x[i].e.pos_of ? x[i].e.pos_of - 1 : v;
        for (hga_id c = 0; sums->of[NODE_POS] && c < dim; c++) {
            ptrdiff_t mine = (ptrdiff_t)own * dim + c, other = (ptrdiff_t)x[i].e.src * dim + c;
            sums->of[NODE_POS][mine] += d * (double)io->node_pos[other];
            sums->of[NODE_POS][other] += d * (double)io->node_pos[mine];
        }
    }
}

/* At most KERNEL_CHUNK edges of one row. */
static void run_row(fast_pass *p, hga_id s, const group *g, hga_id row, const left_edge *x, hga_id n)
{
    const hga_stage *stage = &p->program->stage[s];
    const hga_io *io = p->call->io;
    hga_id padded_dim = p->field[stage->query].padded, v = g->node[row];
    const float *k[KERNEL_CHUNK], *value[KERNEL_CHUNK], *r[KERNEL_CHUNK];
    float *dk[KERNEL_CHUNK], *dv[KERNEL_CHUNK], score[KERNEL_CHUNK], kept[KERNEL_CHUNK], ds[KERNEL_CHUNK];
    int with_keys = p->field[stage->key].adjoint != NULL, with_values = p->field[stage->value].adjoint != NULL;
    for (hga_id i = 0; i < n; i++) {
        k[i] = value_row(p, stage->key, x[i].e.src), value[i] = value_row(p, stage->value, x[i].e.src);
        if (with_keys) dk[i] = adjoint_row(p, stage->key, x[i].e.src);
        if (with_values) dv[i] = adjoint_row(p, stage->value, x[i].e.src);
        score[i] = base_score(p, s, v, &x[i]);
        if (p->plan->options.dropout > 0) kept[i] = (float)dropout_factor(p->call, &x[i].e, v, p->head);
        if (io->rel_key) r[i] = p->rel_key + (ptrdiff_t)x[i].e.type * padded_dim;
    }
    p->plan->kernels->grad_row(&(kernel_grad_row){.n = n,
                                                  .dim = p->plan->shape.dim,
                                                  .dim_v = p->plan->shape.dim_v,
                                                  .k = k,
                                                  .v = value,
                                                  .r = io->rel_key ? r : NULL,
                                                  .dk = with_keys ? dk : NULL,
                                                  .dv = with_values ? dv : NULL,
                                                  .score = score,
                                                  .kept = p->plan->options.dropout > 0 ? kept : NULL,
                                                  .q = g->q_rows + (ptrdiff_t)row * padded_dim,
                                                  .g = g->g_rows + (ptrdiff_t)row * p->field[stage->out].padded,
                                                  .lse = g->lse[row],
                                                  .delta = g->delta[row],
                                                  .dq = g->dq + (ptrdiff_t)row * padded_dim,
                                                  .ds = ds});
    if (p->wants_tables) sum_tables(p, s, g, row, x, n, ds);
}

/* The edges that are left, row after row, each in the order they were left in. */
static hga_status run_left(fast_pass *p, hga_id s, const group *g)
{
    panel *x = p->panel;
    int64_t begin[KERNEL_TILE + 1] = {0};
    if (!x->n_left) return HGA_OK;
    hga_status st = hga_grow(&p->plan->given, &x->sorted, &x->sorted_room, 0, x->n_left, sizeof *x->sorted);
    if (st) return st;
    for (int64_t i = 0; i < x->n_left; i++) begin[x->left[i].row + 1]++;
    for (hga_id r = 0; r < KERNEL_TILE; r++) begin[r + 1] += begin[r];
    int64_t at[KERNEL_TILE];
    memcpy(at, begin, sizeof at);
    for (int64_t i = 0; i < x->n_left; i++) x->sorted[at[x->left[i].row]++] = x->left[i];
    for (hga_id r = 0; r < KERNEL_TILE; r++)
        for (int64_t i = begin[r]; i < begin[r + 1]; i += KERNEL_CHUNK) {
            int64_t n = begin[r + 1] - i < KERNEL_CHUNK ? begin[r + 1] - i : KERNEL_CHUNK;
            run_row(p, s, g, r, x->sorted + i, (hga_id)n);
        }
    x->n_left = 0;
    return HGA_OK;
}

/* Explicit edges of the group's rows. */
static hga_status leave_explicit(fast_pass *p, const group *g)
{
    const hga_relation *r = &p->rows.r;
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < KERNEL_TILE && r->ptr; i++) {
        hga_id v = g->node[i];
        for (hga_pos e = v < 0 ? 0 : r->ptr[v]; !st && v >= 0 && e < r->ptr[v + 1]; e++)
            st = leave(p, i, (row_edge){r->src[e], 0, r->weight ? r->weight[e] : 1, 0}, 0);
    }
    return st;
}

/* Rows whose scores depend on types, positions or places: each edge by itself. */
static hga_status leave_rows(fast_pass *p, const group *g)
{
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < KERNEL_TILE; i++) {
        if (g->node[i] < 0) continue;
        HGA_TRY(rows_read(&p->rows, g->node[i]));
        for (int64_t e = 0; e < p->rows.n; e++) HGA_TRY(leave(p, i, p->rows.edge[e], e));
    }
done:
    return st;
}

/* Do all edges' scores consist of a product, a mass and a weight? */
static int is_simple(const fast_pass *p, hga_id s)
{
    const hga_io *io = p->call->io;
    return !io->rel_key && !io->rel_bias && !io->node_pos && !(io->edge_bias && s == p->plan->bias_stage) &&
           p->plan->options.dropout == 0;
}

/* A group's rows, the edges of them that are no tile's, and its windows. */
static hga_status run_group(fast_pass *p, hga_id s, group *g, hga_id first, int simple)
{
    hga_id n = p->nodes.n - first < KERNEL_TILE ? p->nodes.n - first : KERNEL_TILE;
    hga_status st = HGA_OK;
    if (n <= 0) {
        g->there = 0, g->n_windows = 0;
        return HGA_OK;
    }
    if (!load_rows(p, s, g, first, n)) return HGA_OK;
    if (!simple) HGA_TRY(leave_rows(p, g));
    if (simple && p->rows.r.n_blocks) HGA_TRY(find_windows(p, s, g, first, n));
    if (simple) HGA_TRY(leave_explicit(p, g));
    HGA_TRY(run_left(p, s, g));
done:
    return st;
}

hga_status fast_attend(fast_pass *p, hga_id s)
{
    hga_status st = HGA_OK;
    int simple = is_simple(p, s);
    rows_open(&p->rows, p->plan, s);
    for (hga_id first = 0; first < p->nodes.n; first += GROUPS * KERNEL_TILE) {
        p->panel->n_windows = 0;
        for (hga_id i = 0; i < GROUPS; i++)
            HGA_TRY(run_group(p, s, &p->panel->group[i], first + i * KERNEL_TILE, simple));
        run_windows(p, s);
        for (hga_id i = 0; i < GROUPS; i++)
            if (p->panel->group[i].there) store_rows(p, &p->program->stage[s], &p->panel->group[i]);
    }
done:
    return st;
}

/* ---- forward ---- */

/* The scores of n edges of a row to `score`, and where their values are. */
static void row_scores(const fast_pass *p, hga_id s, hga_id v, const float *q, const row_edge *e, hga_pos position,
                       hga_id n, float *score, const float **value)
{
    const hga_stage *stage = &p->program->stage[s];
    const float *k[KERNEL_CHUNK], *r[KERNEL_CHUNK];
    float base[KERNEL_CHUNK];
    for (hga_id i = 0; i < n; i++) {
        left_edge x = {.e = e[i], .position = position + i};
        k[i] = value_row(p, stage->key, e[i].src), value[i] = value_row(p, stage->value, e[i].src);
        base[i] = base_score(p, s, v, &x);
        if (p->rel_key) r[i] = p->rel_key + (ptrdiff_t)e[i].type * p->field[stage->query].padded;
    }
    p->plan->kernels->grad_scores(
        &(kernel_grad_row){
            .n = n, .dim = p->plan->shape.dim, .k = k, .r = p->rel_key ? r : NULL, .score = base, .q = q},
        score);
}

/* A row's state; weights that are dropped do not count in its log-sum-exp. */
static hga_status attend_row(fast_pass *p, hga_id s, hga_id v, float *q)
{
    const hga_stage *stage = &p->program->stage[s];
    const kernel_table *kernels = p->plan->kernels;
    fast_field *out = &p->field[stage->out];
    float greatest = -INFINITY, score[KERNEL_CHUNK];
    double sum = 0;
    hga_status st = rows_read(&p->rows, v);
    if (st) return st;
    memset(value_row(p, stage->out, v), 0, (size_t)out->padded * sizeof(float));
    kernels->scale(p->field[stage->query].padded, p->call->scale, value_row(p, stage->query, v), q);
    for (int64_t at = 0, n; at < p->rows.n; at += n) {
        const row_edge *e = &p->rows.edge[at];
        const float *value[KERNEL_CHUNK];
        float most = greatest, *o = value_row(p, stage->out, v);
        n = p->rows.n - at < KERNEL_CHUNK ? p->rows.n - at : KERNEL_CHUNK;
        row_scores(p, s, v, q, e, at, (hga_id)n, score, value);
        for (int64_t i = 0; i < n; i++) most = fmaxf(most, score[i]);
        if (most == -INFINITY) continue;
        float keep = expf(greatest - most);
        if (greatest > -INFINITY) kernels->scale(out->padded, keep, o, o);
        sum *= (double)keep, greatest = most;
        for (int64_t i = 0; i < n; i++) score[i] -= greatest;
        kernels->exp((hga_id)n, score);
        for (int64_t i = 0; i < n; i++) sum += (double)score[i];
        for (int64_t i = 0; i < n && p->plan->options.dropout > 0; i++)
            score[i] *= (float)dropout_factor(p->call, &e[i], v, p->head);
        kernels->sum((hga_id)n, value, 0, score, out->padded, o);
    }
    out->own_lse[v] = sum > 0 ? (float)((double)greatest + log(sum)) : -INFINITY;
    if (sum > 0)
        kernels->scale(out->padded, (float)(1 / sum), value_row(p, stage->out, v), value_row(p, stage->out, v));
    return HGA_OK;
}

hga_status fast_attend_forward(fast_pass *p, hga_id s)
{
    hga_status st = HGA_OK;
    hga_id field = p->program->stage[s].out;
    rows_open(&p->rows, p->plan, s);
    for (hga_id v = 0; v < p->nodes.n; v++) {
        p->field[field].own_lse[v] = -INFINITY;
        if (program_row(&p->nodes, p->program->field[field].rows, v))
            HGA_TRY(attend_row(p, s, v, p->panel->group[0].q_rows));
    }
done:
    return st;
}
