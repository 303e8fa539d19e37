/* fast_columns.c: keys and values of the one stage that reads them, and their gradients: a chunk is copied from the
   caller's tensors when the first of its columns is needed, into the memory that was used last, and is written back
   when no later row has an edge to it. So most of what tiles work on is in the caches. */
#include "fast_columns.h"
#include "caller.h"
#include "carve.h"
#include "fast_states.h"
#include "panel.h"
#include "plan.h"

#include <string.h>

static hga_id panels_of(const hga_plan *plan) { return (plan->nodes.n + ROW_RANGE_PANEL - 1) / ROW_RANGE_PANEL; }

hga_id only_stage(const hga_plan *plan, hga_id f)
{
    hga_id only = -1;
    int n = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        if ((plan->program.stage[s].reads | plan->program.stage[s].writes) >> f & 1u) only = s, n++;
    return n == 1 ? only : -1;
}

/* The first attending stage whose keys and values are tensors of the caller that it alone reads; -1: none. */
hga_id columns_stage(const hga_plan *plan)
{
    const hga_program *p = &plan->program;
    for (hga_id s = 0; s < p->n_stages; s++) {
        const hga_stage *x = &p->stage[s];
        if (!kind_attends(plan->stage[s].kind) || has_energies(p, x->out) || x->key == x->value) continue;
        if (x->query == x->key || x->query == x->value || x->out == x->key || x->out == x->value) continue;
        int is_input = program_is_input(p->field[x->key].binding) && program_is_input(p->field[x->value].binding);
        if (is_input && only_stage(plan, x->key) == s && only_stage(plan, x->value) == s) return s;
    }
    return -1;
}

/* ---- when chunks leave ---- */

/* Marks the current panel as the last so far that has edges to the chunks it touches. */
typedef struct last_visit {
    hga_id panel, *last;
} last_visit;

static void touch_chunks(void *context, hga_id first, hga_id last)
{
    const last_visit *at = context;
    for (hga_id c = first / CHUNK; c <= last / CHUNK; c++) at->last[c] = at->panel;
}

/* Lists the chunks by the last panel that has edges to them. */
hga_status last_uses_create(const hga_plan *plan, const row_ranges *cut, last_uses *out)
{
    hga_status st = HGA_OK;
    const hga_allocator *a = &plan->memory.allocator;
    hga_id chunks = count_chunks(plan), panels = panels_of(plan), stage = columns_stage(plan), *last = NULL;
    if (stage < 0) return HGA_OK;
    HGA_TRY(hga_new(a, chunks, sizeof *last, &last));
    HGA_TRY(hga_new(a, chunks, sizeof *out->chunk, &out->chunk));
    HGA_TRY(hga_new_zero(a, panels + 1, sizeof *out->ptr, &out->ptr));
    for (hga_id i = 0; i < chunks; i++) last[i] = -1;
    for (last_visit at = {0, last}; at.panel < panels; at.panel++) {
        hga_id first = at.panel * ROW_RANGE_PANEL, left = plan->nodes.n - first;
        row_ranges_visit(plan, stage, first, left < ROW_RANGE_PANEL ? left : ROW_RANGE_PANEL, &cut[stage], touch_chunks,
                         &at);
    }
    for (hga_id i = 0; i < chunks; i++)
        if (last[i] >= 0) out->ptr[last[i]]++;
    for (hga_id i = 0; i < panels; i++) out->ptr[i + 1] += out->ptr[i];
    for (hga_id i = chunks; i-- > 0;)
        if (last[i] >= 0) out->chunk[--out->ptr[last[i]]] = i;
done:
    hga_delete(a, last, chunks, sizeof *last);
    return st;
}

void last_uses_clear(const hga_plan *plan, last_uses *x)
{
    hga_delete(&plan->memory.allocator, x->chunk, count_chunks(plan), sizeof *x->chunk);
    hga_delete(&plan->memory.allocator, x->ptr, panels_of(plan) + 1, sizeof *x->ptr);
    *x = (last_uses){0};
}

/* ---- memory ---- */

/* A chunk's keys, values and their gradients are contiguous. */
column_chunks *columns_lay_out(const fast_pass *p, carver *arena)
{
    hga_id stage = columns_stage(p->plan), chunks = count_chunks(p->plan);
    if (stage < 0) return NULL;
    const hga_stage *s = &p->program->stage[stage];
    int64_t dim = p->field[s->key].padded * CHUNK, dim_v = p->field[s->value].padded * CHUNK;
    column_chunks x = {.stage = stage, .value = dim, .d_key = -1, .d_value = -1, .floats = dim + dim_v};
    if (p->needs->grads >> s->key & 1u) x.d_key = x.floats, x.floats += dim;
    if (p->needs->grads >> s->value & 1u) x.d_value = x.floats, x.floats += dim_v;
    column_chunks *out = carve(arena, 1, sizeof x);
    x.at = carve(arena, chunks, sizeof *x.at);
    x.unused = carve(arena, chunks, sizeof *x.unused);
    x.gone = carve(arena, chunks, sizeof *x.gone);
    x.memory = carve_floats(arena, chunks * x.floats);
    if (out) *out = x;
    return out;
}

/* ---- loading ---- */

enum { AHEAD = 12 };

/* The node at a column; -1: none. */
static hga_id column_at(const fast_pass *p, hga_id at)
{
    const hga_id *order = p->call->row_ranges[p->chunks->stage].order;
    return at >= p->nodes.n ? -1 : order ? order[at] : at;
}

/* How many columns a chunk has: the last one may have few, and the rest of its memory is not read. */
static hga_id count_in_chunk(const fast_pass *p, hga_id chunk)
{
    hga_id left = p->nodes.n - chunk * CHUNK;
    return left < CHUNK ? left : CHUNK;
}

/* Copies the caller's rows of a chunk, rounded where the stage reads them rounded. */
static void read_chunk(const fast_pass *p, hga_id f, hga_id chunk, float *to)
{
    hga_id padded = p->field[f].padded, first = chunk * CHUNK, n = count_in_chunk(p, chunk);
    const caller_rows r = rows_at(p, f, field_tensor(p->call, f));
    for (hga_id i = first; i < first + n; i++) {
        fetch_row(&r, column_at(p, i + AHEAD));
        read_padded(&r, row_of(&r, column_at(p, i)), padded, to + (ptrdiff_t)(i - first) * padded);
    }
    if (storage_is_rounded(p->plan, f) && p->program->stage[p->chunks->stage].order == HGA_FLAT)
        p->plan->machine.kernels->round_bf16(n * padded, to, to);
}

/* Zeros the chunk's rows of a field's gradient; at = -1: the pass has none. */
static void clear_gradient(const fast_pass *p, hga_id f, hga_id chunk, float *memory, int64_t at)
{
    if (at >= 0) memset(memory + at, 0, (size_t)(count_in_chunk(p, chunk) * p->field[f].padded) * sizeof *memory);
}

float *fetch_chunk(const fast_pass *p, hga_id chunk)
{
    column_chunks *x = p->chunks;
    const hga_stage *s = &p->program->stage[x->stage];
    float *to = x->at[chunk] = x->memory + x->unused[--x->n_unused] * x->floats;
    read_chunk(p, s->key, chunk, to), read_chunk(p, s->value, chunk, to + x->value);
    clear_gradient(p, s->key, chunk, to, x->d_key), clear_gradient(p, s->value, chunk, to, x->d_value);
    return to;
}

void columns_begin(const fast_pass *p)
{
    column_chunks *x = p->chunks;
    hga_id chunks = count_chunks(p->plan);
    if (!x) return;
    for (hga_id c = 0; c < chunks; c++) x->at[c] = NULL, x->unused[c] = chunks - 1 - c, x->gone[c] = 0;
    x->n_unused = chunks, x->stay = p->team.n > 1;
    for (hga_id c = 0; x->stay && c < chunks; c++) fetch_chunk(p, c);
}

/* ---- storing ---- */

/* Writes a chunk's gradients of a field to the caller's tensor; `from` NULL: zeros. */
static void write_chunk(const fast_pass *p, hga_id f, hga_id chunk, const float *from)
{
    static const float none[CHUNK];
    const hga_tensor *t = field_gradient(p->call, f);
    hga_id padded = p->field[f].padded, first = chunk * CHUNK;
    int accumulate = p->call->grad->accumulate;
    if (!t->data || (!from && (accumulate || p->call->requested.n))) return;
    const caller_rows r = rows_at(p, f, t);
    if (from && !accumulate && is_stream(p->plan, &r)) {
        float *to[CHUNK];
        for (hga_id i = 0; i < CHUNK; i++) to[i] = (float *)(void *)row_of(&r, column_at(p, first + i));
        p->plan->machine.kernels->stream(CHUNK, r.columns, from, padded, to);
        return;
    }
    for (hga_id i = first; i < first + count_in_chunk(p, chunk); i++) {
        char *to = row_of(&r, column_at(p, i));
        const float *row = from ? from + (ptrdiff_t)(i - first) * padded : NULL;
        fetch_row(&r, column_at(p, i + AHEAD));
        if (!to) continue;
        if (accumulate)
            p->plan->machine.kernels->blend(r.columns, 1, look_at_row(&r, to, p->own.numbers), 1, row, p->own.numbers),
                row = p->own.numbers;
        for (hga_id c = 0; !row && c < r.columns; c += CHUNK)
            numbers_write(p->plan->machine.kernels, r.type, none, r.columns - c < CHUNK ? r.columns - c : CHUNK,
                          to + c * (r.type == HGA_F32 ? 4 : 2));
        if (row) numbers_write(p->plan->machine.kernels, r.type, row, r.columns, to);
    }
}

static void give_chunk(const fast_pass *p, hga_id chunk)
{
    column_chunks *x = p->chunks;
    const hga_stage *s = &p->program->stage[x->stage];
    const float *from = x->at[chunk];
    write_chunk(p, s->key, chunk, from && x->d_key >= 0 ? from + x->d_key : NULL);
    write_chunk(p, s->value, chunk, from && x->d_value >= 0 ? from + x->d_value : NULL);
    if (from) x->unused[x->n_unused++] = (hga_id)((from - x->memory) / x->floats);
    x->at[chunk] = NULL, x->gone[chunk] = 1;
}

/* Other query heads may still read the chunks: they leave with the last query head of the key/value head. */
void columns_leave(const fast_pass *p, hga_id stage, hga_id first, hga_id end)
{
    const column_chunks *x = p->chunks;
    const last_uses *d = p->call->last_uses;
    hga_id heads = p->plan->shape.n_heads / p->plan->shape.n_kv_heads, panels = panels_of(p->plan);
    if (!x || x->stage != stage || x->stay || p->heads.head != (p->heads.kv + 1) * heads - 1) return;
    for (hga_id i = d->ptr[first < panels ? first : panels]; i < d->ptr[end < panels ? end : panels]; i++) {
        hga_id c = d->chunk[i];
        if (x->at[c] && !(p->own.slot && p->own.slot[c] >= 0)) give_chunk(p, c);
    }
}

void columns_end(const fast_pass *p)
{
    for (hga_id c = 0; p->chunks && c < count_chunks(p->plan); c++)
        if (!p->chunks->gone[c]) give_chunk(p, c);
}
