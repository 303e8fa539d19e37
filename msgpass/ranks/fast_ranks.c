/* fast_ranks.c: the fast way on ranks. A pass computes the rows of its rank alone; rows of others that it looks at have
   come with the execution, and what it asks of them goes home a head at a time. */
#include "panel.h"

#include <string.h>

/* ---- rows that have come ---- */

/* Which fields a pass takes now. */
typedef struct taking {
    fast_pass *p;
    int kv;
} taking;

static void put_row(void *context, hga_id f, hga_id v, const float *row)
{
    const taking *t = context;
    fast_pass *p = t->p;
    const fast_field *x = &p->field[f];
    if (!x->value || is_kv(p, f) != t->kv) return;
    int state = p->program->field[f].width == HGA_WIDTH_STATE;
    hga_id head = t->kv ? p->kv : p->head;
    const float *from = row + (ptrdiff_t)head * (x->columns + state);
    memcpy(value_row(p, f, v), from, (size_t)x->columns * sizeof *from);
    if (x->own_lse) x->own_lse[v] = from[x->columns];
}

void put_received(fast_pass *p, int kv) { each_received(p->call, &(taking){p, kv}, put_row); }

/* ---- what goes home ---- */

/* A state whose value nobody asks for: its adjoint stands beside a log-sum-exp of its own. */
static int is_merged(const fast_field *x) { return x->lse && !x->own_lse; }

static int64_t parcel_floats(const fast_field *x) { return x->columns + (x->lse != NULL) + is_merged(x); }

/* Of a state its numerator's gradient, and that of its log-sum-exp. */
static void take_asked(void *context, hga_id f, hga_id v, float *parcel)
{
    fast_pass *p = context;
    const fast_field *x = &p->field[f];
    float *row = adjoint_row(p, f, v);
    memcpy(parcel, row, (size_t)x->columns * sizeof *row);
    memset(row, 0, (size_t)x->columns * sizeof *row);
    if (x->lse) parcel[x->columns] = -x->delta[v], x->delta[v] = 0;
    if (is_merged(x)) parcel[x->columns + 1] = x->lse[v], x->lse[v] = INFINITY;
}

static void merge_parcel(fast_pass *p, hga_id f, hga_id v, const float *parcel)
{
    const fast_field *x = &p->field[f];
    float *row = p->panel->row; /* padded */
    memcpy(row, parcel, (size_t)x->columns * sizeof *row);
    memset(row + x->columns, 0, (size_t)(x->padded - x->columns) * sizeof *row);
    merge_asked(p, f, v, (asked_state){row, -parcel[x->columns], parcel[x->columns + 1]}, 1);
}

static void add_asked(void *context, hga_id f, hga_id v, const float *parcel)
{
    fast_pass *p = context;
    const fast_field *x = &p->field[f];
    if (is_merged(x)) {
        if (parcel[x->columns + 1] != INFINITY) merge_parcel(p, f, v, parcel);
        return;
    }
    float *row = adjoint_row(p, f, v);
    for (hga_id c = 0; c < x->columns; c++) row[c] += parcel[c];
    if (x->lse) x->delta[v] -= parcel[x->columns];
}

/* What is asked elsewhere of the stage's rows (of a level) comes. */
static hga_status return_asked(fast_pass *p, hga_id s, hga_id level)
{
    row_mover m = {.context = p, .take = take_asked, .add = add_asked};
    for (hga_id f = 1; f <= p->program->n_fields; f++) m.floats[f] = parcel_floats(&p->field[f]);
    return return_gradients(p->call, s, level, &m);
}

/* ---- a stage ---- */

static hga_status levels_back(fast_pass *p, hga_id s)
{
    hga_status st = HGA_OK;
    const hga_id *ptr = p->nodes.level_ptr, n = p->nodes.n_levels;
    for (hga_id i = 0; i < n; i++) {
        hga_id level = p->program->stage[s].order == HGA_LEVELS_UP ? n - 1 - i : i;
        HGA_TRY(return_asked(p, s, level));
        p->begin = ptr[level], p->end = ptr[level + 1];
        HGA_TRY(stage_back(p, s));
    }
done:
    p->begin = 0, p->end = p->nodes.n;
    return st;
}

hga_status rank_stage_back(fast_pass *p, hga_id s)
{
    hga_status st = HGA_OK;
    return_time time = p->plan->ranks->time[s];
    if (time == RETURN_LEVELS) return levels_back(p, s);
    if (time == RETURN_SHARED) {
        p->rows_of = ROWS_SHARED;
        HGA_TRY(stage_back(p, s));
        p->rows_of = ROWS_OWNED;
    }
    HGA_TRY(return_asked(p, s, 0));
    HGA_TRY(stage_back(p, s));
done:
    p->rows_of = ROWS_COMPUTED;
    return st;
}
