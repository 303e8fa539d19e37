/* sixteen.c: tensors of 16 bits. What the caller brings is widened into the state once a call, what a program wrote is
   rounded back behind it, to nearest, ties to even; widening is exact, so results are those of the same values in
   float32, and rows that nobody wrote keep their bits. */
#include "execute.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float real_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- one number ---- */

static float widen_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
    if (rest < 0x400) return real_of(sign | bits_of((float)rest * 0x1p-24f)); /* zero, subnormal */
    uint32_t exponent = rest >= 0x7c00 ? 0x7f800000 : (112u << 23) + ((rest & 0x7c00) << 13);
    return real_of(sign | exponent | (rest & 0x3ff) << 13);
}

static uint16_t narrow_f16(float x)
{
    uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff)); /* NaN, quiet */
    if (rest >= bits_of(65520)) return (uint16_t)(sign | 0x7c00);                   /* half way beyond the largest */
    if (rest < bits_of(0x1p-14f)) return (uint16_t)(sign | (uint32_t)lrintf(real_of(rest) * 0x1p24f));
    uint32_t rounded = rest + 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
}

static float widen_bf16(uint16_t half) { return real_of((uint32_t)half << 16); }

static uint16_t narrow_bf16(float x)
{
    uint32_t bits = bits_of(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* ---- rows ---- */

static void widen_row(hga_dtype type, const uint16_t *from, float *to, hga_id n)
{
    if (type == HGA_F16)
        for (hga_id i = 0; i < n; i++) to[i] = widen_f16(from[i]);
    else
        for (hga_id i = 0; i < n; i++) to[i] = widen_bf16(from[i]);
}

static void narrow_row(hga_dtype type, const float *from, uint16_t *to, hga_id n)
{
    if (type == HGA_F16)
        for (hga_id i = 0; i < n; i++) to[i] = narrow_f16(from[i]);
    else
        for (hga_id i = 0; i < n; i++) to[i] = narrow_bf16(from[i]);
}

/* ---- a tensor ---- */

static hga_status grow(hga_workspace *state, widened *w, int64_t floats)
{
    if (w->room >= floats) return HGA_OK;
    float *more = NULL;
    hga_status st = hga_new(&state->allocator, floats, sizeof *more, &more);
    if (st) return st;
    hga_delete(&state->allocator, w->values, w->room, sizeof *w->values);
    w->values = more, w->room = floats;
    return HGA_OK;
}

hga_status sixteen_widen(hga_workspace *state, hga_id field, const hga_tensor *t)
{
    bound_field *x = &state->field[field];
    widened *w = &state->widened[field];
    hga_status st = grow(state, w, (int64_t)x->io_n * x->heads * x->columns);
    if (st) return st;
    ptrdiff_t head = t->head_stride ? t->head_stride : x->columns;
    ptrdiff_t row = t->row_stride ? t->row_stride : (ptrdiff_t)x->columns * x->heads;
    w->bf16 = t->data, w->type = t->dtype, w->row_stride = row, w->head_stride = head, w->rows = x->io_n;
    float *to = w->values;
    for (hga_id i = 0; i < x->io_n; i++)
        for (hga_id h = 0; h < x->heads; h++, to += x->columns)
            widen_row(t->dtype, w->bf16 + i * row + h * head, to, x->columns);
    return HGA_OK;
}

/* Does a stage write the field? */
static int is_written(const hga_program *p, hga_id field)
{
    int written = 0;
    for (hga_id s = 0; s < p->n_stages; s++) written |= p->stage[s].out == field;
    return written;
}

void sixteen_narrow(const hga_plan *plan, hga_workspace *state)
{
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        widened *w = &state->widened[f];
        const bound_field *x = &state->field[f];
        const float *from = w->values;
        if (w->bf16 && is_written(&plan->program, f))
            for (hga_id i = 0; i < w->rows; i++)
                for (hga_id h = 0; h < x->heads; h++, from += x->columns)
                    narrow_row(w->type, from, w->bf16 + i * w->row_stride + h * w->head_stride, x->columns);
        w->bf16 = NULL;
    }
}

void sixteen_clear(hga_workspace *state)
{
    for (hga_id f = 0; f < HGA_FIELD_SLOTS; f++)
        hga_delete(&state->allocator, state->widened[f].values, state->widened[f].room, sizeof(float));
}
