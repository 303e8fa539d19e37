/* call_memory.c: the caller's arrays: how they are laid out, what they hold before a run, and what may have changed
   after it. */
#include "calls.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers of 16 bits ---- */

/* To the nearest that has this many digits behind the point of 1.x, and this least exponent; ties to even. */
static float round_to(float x, int digits, int least)
{
    int exponent;
    if (!isfinite(x) || x == 0) return x;
    frexpf(x, &exponent);
    int last = (exponent - 1 > least ? exponent - 1 : least) - digits;
    return (float)ldexp(nearbyint(ldexp((double)x, -last)), last);
}

float rounded(hga_dtype type, float x)
{
    if (type == HGA_F32) return x;
    if (type == HGA_BF16) return round_to(x, 7, -126);
    float y = round_to(x, 10, -14);
    return fabsf(y) > 65504 && isfinite(y) ? copysignf(INFINITY, y) : y;
}

/* A number that the type can hold, as its bits. */
static uint16_t half_of(hga_dtype type, float x)
{
    uint32_t bits;
    int exponent;
    memcpy(&bits, &x, sizeof bits);
    if (type == HGA_BF16) return (uint16_t)(bits >> 16);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (x == 0) return sign;
    frexpf(x, &exponent);
    int field = exponent - 1 < -14 ? 0 : exponent - 1 + 15;
    int fraction = (int)ldexpf(fabsf(x), 10 - (field ? field - 15 : -14)) & 0x3ff;
    return (uint16_t)(sign | field << 10 | fraction);
}

static float float_of(hga_dtype type, uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float x;
    if (type == HGA_BF16) {
        memcpy(&x, &bits, sizeof x);
        return x;
    }
    int exponent = half >> 10 & 31, fraction = half & 0x3ff;
    x = exponent == 31 ? (fraction ? NAN : INFINITY)
                       : ldexpf((float)(exponent ? fraction + 1024 : fraction), (exponent ? exponent : 1) - 25);
    return half & 0x8000 ? -x : x;
}

/* ---- elements ---- */

static size_t bytes_of(hga_dtype type) { return type == HGA_F32 ? sizeof(float) : sizeof(uint16_t); }

static size_t offset_of(const array *a, int64_t row, hga_id head, int64_t column)
{
    return (size_t)(array_row(a, row) + head * a->head_stride + column) * bytes_of(a->dtype);
}

float memory_at(const array *a, const void *block, int64_t row, hga_id head, int64_t column)
{
    const char *at = (const char *)block + offset_of(a, row, head, column);
    float x;
    uint16_t half;
    memcpy(&x, at, a->dtype == HGA_F32 ? sizeof x : 0);
    if (a->dtype == HGA_F32) return x;
    memcpy(&half, at, sizeof half);
    return float_of(a->dtype, half);
}

static void put(const array *a, void *block, int64_t row, hga_id head, int64_t column, float x)
{
    char *at = (char *)block + offset_of(a, row, head, column);
    uint16_t half;
    if (a->dtype == HGA_F32) {
        memcpy(at, &x, sizeof x);
        return;
    }
    half = half_of(a->dtype, x);
    memcpy(at, &half, sizeof half);
}

/* ---- blocks ---- */

asked asked_of(const drawn_call *c, int sample, int whole)
{
    return whole || !asked_count(c->asked[sample]) ? asked_between(0, c->out_rows) : c->asked[sample];
}

asked asked_between(int64_t first, int64_t n) { return (asked){{{first, n}, {0, 0}}}; }
int64_t asked_count(asked rows) { return rows.interval[0].n + rows.interval[1].n; }

int64_t asked_row(asked rows, int64_t i)
{
    int64_t behind = i - rows.interval[0].n;
    return behind < 0 ? rows.interval[0].first + i : rows.interval[1].first + behind;
}

static int is_in(hga_interval x, int64_t row) { return row >= x.first && row - x.first < x.n; }

/* Has a run with these wanted gradients the array? */
static int has_array(const filled *f, int a) { return f->arrays[a].use != ARRAY_OUTPUT || f->wanted >> a & 1; }

static int holds_numbers(const filled *f, const array *a)
{
    return a->use == ARRAY_READ || a->use == ARRAY_INPUT || (a->use == ARRAY_OUTPUT && f->accumulate);
}

/* The numbers; of gradients given for rows that nobody asks for none, or zeros where all rows are asked for. */
static void put_numbers(const drawn_call *c, const filled *f, int number, int sample, void *block)
{
    const array *a = &f->arrays[number];
    asked rows = asked_of(c, sample, 0);
    float *x = malloc((size_t)(a->rows * a->heads * a->columns + 1) * sizeof *x), *at = x;
    if (!x) draw_fail("no memory for %s", a->name);
    array_numbers(c, number, sample, x);
    for (int64_t i = 0; i < a->rows; i++) {
        int left_out = a->use == ARRAY_INPUT && !is_in(rows.interval[0], i) && !is_in(rows.interval[1], i);
        if (a->use == ARRAY_READ && i >= a->written_from) break;
        for (hga_id h = 0; h < a->heads; h++)
            for (int64_t k = 0; k < a->columns; k++, at++)
                if (!left_out || f->whole) put(a, block, i, h, k, left_out ? 0 : *at);
    }
    free(x);
}

/* Half of the blocks begin at a line of the caches, which is what streams of whole lines ask for; none has a byte more
   than it needs. */
enum { LINE = 64, PLAIN = 16 };

static void *new_block(size_t bytes, size_t alignment)
{
    void *block;
    return posix_memalign(&block, alignment, bytes ? bytes : 1) ? NULL : block;
}

void memory_fill(const drawn_call *c, const filled *f, call_memory *m)
{
    for (int s = 0; s < c->n_samples; s++)
        for (int i = 0; i < c->n_arrays; i++) {
            const array *a = &f->arrays[i];
            size_t bytes = (size_t)a->elements * bytes_of(a->dtype);
            if (!has_array(f, i)) continue;
            if (!m->block[s][i]) m->block[s][i] = new_block(bytes, (c->seed + (uint64_t)i) % 2 ? LINE : PLAIN);
            if (!m->block[s][i]) draw_fail("no memory for %s", a->name);
            if (bytes) memset(m->block[s][i], f->byte, bytes);
            if (bytes && holds_numbers(f, a)) put_numbers(c, f, i, s, m->block[s][i]);
        }
}

void memory_clear(call_memory *m)
{
    for (int s = 0; s < MOST_SAMPLES; s++)
        for (int i = 0; i < MOST_ARRAYS; i++) free(m->block[s][i]), m->block[s][i] = NULL;
}

asked rows_written(const array *a) { return asked_between(a->written_from, a->rows - a->written_from); }

/* Take over from `now` what the call was to write. */
static void take_over(const array *a, asked rows, const void *now, void *before)
{
    for (int64_t i = 0; i < asked_count(rows); i++)
        for (hga_id h = 0; h < a->heads; h++) {
            size_t at = offset_of(a, asked_row(rows, i), h, 0);
            memcpy((char *)before + at, (const char *)now + at, (size_t)a->columns * bytes_of(a->dtype));
        }
}

/* The row and so on of the first byte that differs. */
static _Noreturn void complain(const array *a, const char *when, int sample, size_t byte)
{
    ptrdiff_t element = (ptrdiff_t)(byte / bytes_of(a->dtype));
    draw_fail(
        "%s: element %td of %s of sample %d was written, of %lld rows at steps of %td and %d heads at steps of %td",
        when, element, a->name, sample, (long long)a->rows, a->row_stride, a->heads, a->head_stride);
}

void memory_check(const drawn_call *c, const filled *f, const char *when, const call_memory *m, int written, int wanted)
{
    call_memory before = {{{0}}};
    memory_fill(c, f, &before);
    for (int s = 0; s < c->n_samples; s++)
        for (int i = 0; i < c->n_arrays; i++) {
            const array *a = &f->arrays[i];
            unsigned char *was = before.block[s][i];
            const unsigned char *now = m->block[s][i];
            size_t bytes = (size_t)a->elements * bytes_of(a->dtype);
            if (!was || !bytes) continue;
            if (a->use == ARRAY_WRITTEN && written) take_over(a, asked_of(c, s, f->whole), now, was);
            if (a->use == ARRAY_READ && written) take_over(a, rows_written(a), now, was);
            if (a->use == ARRAY_OUTPUT && wanted) take_over(a, asked_between(0, a->rows), now, was);
            for (size_t b = 0; b < bytes; b++)
                if (was[b] != now[b]) complain(a, when, s, b);
        }
    memory_clear(&before);
}

/* ---- for the library ---- */

static void describe(const array *a, void *block, hga_io *io, hga_grad_io *grad)
{
    int in_grad = a->use == ARRAY_INPUT || a->use == ARRAY_OUTPUT;
    char *at = (in_grad ? (char *)grad : (char *)io) + a->at;
    hga_tensor t = {.data = block, .rows = a->rows, .dtype = a->dtype};
    if (!a->packed) t.row_stride = a->row_stride, t.head_stride = a->head_stride;
    if (a->fold) t.fold = a->fold, t.fold_stride = a->fold_stride;
    if (a->is_tensor)
        memcpy(at, &t, sizeof t);
    else
        memcpy(at, &block, sizeof block);
}

void call_io(const drawn_call *c, const filled *f, const call_memory *m, int sample, hga_io *io, hga_grad_io *grad)
{
    *io = c->io;
    *grad = (hga_grad_io){.accumulate = f->accumulate};
    io->layer += (uint32_t)sample;
    bring_to(io, &c->modifiers);
    if (!f->whole && asked_count(c->asked[sample])) io->rows = &c->rows[sample];
    for (int i = 0; i < c->n_arrays; i++)
        if (m->block[sample][i]) describe(&f->arrays[i], m->block[sample][i], io, grad);
}
