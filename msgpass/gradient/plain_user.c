/* plain_user.c: stages of the caller's own, forward and backward. Their functions read floats, as in an execution;
   gradients are accumulated in double. */
#include "carve.h"
#include "plain.h"
#include "plan.h"
#include "regions.h"
#include "sixteen.h"

#include <math.h>
#include <string.h>

static double to_bf16(double x) { return isfinite((float)x) ? (double)widen_bf16(narrow_bf16((float)x)) : x; }

const double *row_as_read(const pass *p, const hga_stage *s, hga_id f, hga_id v, hga_id head, double *buffer)
{
    const double *x = double_row(&p->value, f, v, head);
    if (!reads_rounded(s) || !storage_is_rounded(p->plan, f)) return x;
    for (hga_id c = 0; c < p->value.of[f].columns; c++) buffer[c] = to_bf16(x[c]);
    return buffer;
}

/* Aggregates are aligned to lines, as they are in an execution. */
enum { LINE = LINE_FLOATS * sizeof(float) };

/* One end of an edge as a function sees it: the fields' rows of this head, or their gradients. */
typedef struct shown_end {
    float *field[HGA_FIELD_SLOTS], *lse[HGA_FIELD_SLOTS]; /* NULL: not shown */
    float *row[HGA_FIELD_SLOTS], lse_of[HGA_FIELD_SLOTS];
} shown_end;

typedef struct user_rows {
    shown_end source, own, d_source, d_own;
    hga_id columns[HGA_FIELD_SLOTS];
    void *state, *d_state; /* the aggregate and its gradient */
} user_rows;

static int64_t row_floats(const hga_plan *plan)
{
    int64_t n = 0;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) n += field_columns(plan, f);
    return n;
}

static int64_t state_bytes(const hga_plan *plan)
{
    size_t most = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        const hga_stage *stage = &plan->program.stage[s];
        if (plan->stage[s].kind == KIND_USER && stage->udf.state_bytes > most) most = stage->udf.state_bytes;
    }
    return (int64_t)((most + LINE - 1) / LINE * LINE);
}

static int has_user_stage(const hga_plan *plan)
{
    int has = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++) has |= plan->stage[s].kind == KIND_USER;
    return has;
}

/* Memory for both ends of an edge, their gradients, and two aggregates, if any stage is the caller's own. */
void user_rows_lay_out(pass *p, carver *arena)
{
    if (!has_user_stage(p->plan)) return;
    user_rows *u = carve(arena, 1, sizeof *u);
    float *at_row = carve_floats(arena, 4 * row_floats(p->plan));
    void *state = carve(arena, state_bytes(p->plan), 1), *d_state = carve(arena, state_bytes(p->plan), 1);
    p->user = u;
    if (!u) return;
    *u = (user_rows){.state = state, .d_state = d_state};
    shown_end *sides[] = {&u->source, &u->own, &u->d_source, &u->d_own};
    for (int i = 0; i < 4; i++)
        for (hga_id f = 1; f <= p->program->n_fields; f++) {
            u->columns[f] = field_columns(p->plan, f);
            sides[i]->row[f] = at_row, at_row += u->columns[f];
        }
}

/* Node v's row of a field, of values or of gradients; values are rounded if the stage reads them rounded. */
static const double *row_shown(const pass *p, const hga_stage *s, const doubles *from, hga_id f, hga_id v, hga_id h)
{
    int reads = from == &p->value && !(s->writes >> f & 1u);
    return reads ? row_as_read(p, s, f, v, h, p->scratch.source) : double_row(from, f, v, h);
}

/* Shows node v to the caller's functions: the fields of `shown`, copied from `from`; NULL: zeros. */
static hga_end show(const pass *p, const hga_stage *s, const row_set *shown, const doubles *from, hga_id v, hga_id h,
                    shown_end *x)
{
    int region = program_region(&p->nodes, v);
    for (hga_id f = 1; f <= p->program->n_fields; f++) {
        int is_there = shown[f] >> region & 1, state = p->program->field[f].width == HGA_WIDTH_STATE;
        x->field[f] = is_there ? x->row[f] : NULL;
        x->lse[f] = is_there && state ? &x->lse_of[f] : NULL;
        const double *row = is_there && from ? row_shown(p, s, from, f, v, h) : NULL;
        for (hga_id c = 0; is_there && c < p->user->columns[f]; c++) x->row[f][c] = row ? (float)row[c] : 0;
        if (x->lse[f]) x->lse_of[f] = from ? (float)*double_lse(from, f, v, h) : 0;
    }
    return (hga_end){v, hga_graph_level(p->plan->graph, v), p->nodes.mass[v], x->field, x->lse, p->user->columns};
}

/* Copies the shown fields in `set` to the node's values, or adds them. */
static void take_shown(const pass *p, const shown_end *x, uint32_t set, const doubles *to, hga_id v, hga_id h, int add)
{
    for (hga_id f = 1; f <= p->program->n_fields; f++) {
        if (!x->field[f] || !(set >> f & 1u)) continue;
        double *y = double_row(to, f, v, h);
        for (hga_id c = 0; c < p->user->columns[f]; c++) y[c] = (add ? y[c] : 0) + (double)x->field[f][c];
        if (x->lse[f]) *double_lse(to, f, v, h) = (add ? *double_lse(to, f, v, h) : 0) + (double)*x->lse[f];
    }
}

static int has_score(const hga_stage *s) { return s->query && s->key && s->relation >= 0; }

/* Edge i of the row, if the stage has scores. */
static scored_edge scored(const pass *p, const stage_row *r, int64_t i)
{
    return edge_between(&p->m, r->s, r->v, r->head, &r->edge[i], i,
                        row_as_read(p, r->stage, r->stage->query, r->v, r->head, r->scratch.own),
                        row_as_read(p, r->stage, r->stage->key, r->edge[i].src, r->head, r->scratch.source));
}

static double score_input(const pass *p, const stage_row *r, int64_t i)
{
    if (!has_score(r->stage)) return 0;
    scored_edge x = scored(p, r, i);
    return edge_score(&p->m, &x);
}

/* Edge i of the row with its score and both ends, as the caller's functions read it. */
static hga_edge user_edge(const pass *p, const stage_row *r, int64_t i, const hga_end *own)
{
    const stage_plan *sp = &p->plan->stage[r->s];
    return (hga_edge){.position = sp->row_ptr ? sp->row_ptr[r->v] + i : -1,
                      .type = r->edge[i].type,
                      .weight = r->edge[i].weight,
                      .score = score_input(p, r, i),
                      .source =
                          show(p, r->stage, sp->shown.source, &p->value, r->edge[i].src, r->head, &p->user->source),
                      .destination = *own};
}

/* Computes the aggregate over the row's edges. */
static void feed(const pass *p, const stage_row *r, const hga_end *own)
{
    const hga_udf *udf = &r->stage->udf;
    udf->begin(p->user->state, own, r->head, udf->ctx);
    for (int64_t i = 0; i < r->n; i++) {
        hga_edge e = user_edge(p, r, i, own);
        udf->edge(p->user->state, &e, r->head, udf->ctx);
    }
}

void user_row(pass *p, const stage_row *r)
{
    const program_shown *shown = &p->plan->stage[r->s].shown;
    user_rows *u = p->user;
    hga_end own = show(p, r->stage, shown->row, &p->value, r->v, r->head, &u->own);
    feed(p, r, &own);
    own = show(p, r->stage, shown->result, &p->value, r->v, r->head, &u->own);
    r->stage->udf.finish(u->state, &own, r->head, r->stage->udf.ctx);
    take_shown(p, &u->own, r->stage->writes, &p->value, r->v, r->head, 0);
}

/* Runs the adjoint of the row's finish: adds to the aggregate's gradient and to the fields that finish read, then
   zeros the gradient of the fields that it wrote. */
static void finish_adjoint(pass *p, const stage_row *r)
{
    const row_set *shown = p->plan->stage[r->s].shown.result;
    const hga_udf *udf = &r->stage->udf;
    user_rows *u = p->user;
    uint32_t written = r->stage->writes;
    hga_end own = show(p, r->stage, shown, &p->value, r->v, r->head, &u->own),
            d_own = show(p, r->stage, shown, &p->adjoint, r->v, r->head, &u->d_own);
    for (hga_id f = 1; f <= p->program->n_fields; f++)
        if (u->d_own.field[f] && !(written >> f & 1u))
            memset(u->d_own.row[f], 0, (size_t)u->columns[f] * sizeof(float)), u->d_own.lse_of[f] = 0;
    memset(u->d_state, 0, udf->state_bytes);
    udf->finish_adjoint(u->state, u->d_state, &own, &d_own, r->head, udf->ctx);
    take_shown(p, &u->d_own, ~written, &p->adjoint, r->v, r->head, 1);
    show(p, r->stage, shown, NULL, r->v, r->head, &u->d_own);
    take_shown(p, &u->d_own, written, &p->adjoint, r->v, r->head, 0);
}

/* Computes the aggregate again, then runs the adjoints of finish and of every edge, which add to rows, scores and
   tables. */
void user_adjoint(pass *p, const stage_row *r)
{
    const program_shown *shown = &p->plan->stage[r->s].shown;
    const hga_udf *udf = &r->stage->udf;
    user_rows *u = p->user;
    hga_end own = show(p, r->stage, shown->row, &p->value, r->v, r->head, &u->own);
    feed(p, r, &own);
    finish_adjoint(p, r);
    own = show(p, r->stage, shown->row, &p->value, r->v, r->head, &u->own);
    for (int64_t i = 0; i < r->n; i++) {
        hga_id from = r->edge[i].src;
        hga_edge e = user_edge(p, r, i, &own);
        hga_end d_source = show(p, r->stage, shown->source, NULL, from, r->head, &u->d_source),
                d_own = show(p, r->stage, shown->row, NULL, r->v, r->head, &u->d_own);
        double d_score = 0;
        udf->edge_adjoint(u->state, u->d_state, &e, &d_score, &d_source, &d_own, r->head, udf->ctx);
        take_shown(p, &u->d_source, ~0u, &p->adjoint, from, r->head, 1);
        take_shown(p, &u->d_own, ~0u, &p->adjoint, r->v, r->head, 1);
        if (!has_score(r->stage)) continue;
        scored_edge x = scored(p, r, i);
        edge_score_adjoint(&p->m, &x, d_score, d_score, double_row(&p->adjoint, r->stage->query, r->v, r->head),
                           double_row(&p->adjoint, r->stage->key, from, r->head), p->sums);
    }
}
