/* bindings.c: the caller's tensor of a field: one table for calls, gradients and their checks. */
#include "bindings.h"

#include <stddef.h>
#include <string.h>

/* By binding: the offsets of a call's tensor and its gradient, and the gradient's name. */
static const struct {
    int there;
    size_t io, gradient;
    hga_gradient_input input;
} places[HGA_IO_USER + 1] = {
    [HGA_IO_QUERY] = {1, offsetof(hga_io, query), offsetof(hga_grad_io, d_query), HGA_GRADIENT_QUERY},
    [HGA_IO_KEY] = {1, offsetof(hga_io, key), offsetof(hga_grad_io, d_key), HGA_GRADIENT_KEY},
    [HGA_IO_VALUE] = {1, offsetof(hga_io, value), offsetof(hga_grad_io, d_value), HGA_GRADIENT_VALUE},
    [HGA_IO_OUT] = {1, offsetof(hga_io, out), offsetof(hga_grad_io, d_out), HGA_GRADIENT_NONE},
    [HGA_IO_USER] = {1, offsetof(hga_io, user), offsetof(hga_grad_io, d_user), HGA_GRADIENT_USER},
};

/* The number of a field among user tensors; 0 for others. */
static hga_id user_number(const hga_program *p, hga_id field)
{
    hga_id n = 0;
    for (hga_id f = 1; f < field && p->field[field].binding == HGA_IO_USER; f++)
        n += p->field[f].binding == HGA_IO_USER;
    return n;
}

static int has_tensor(const hga_program *p, hga_id field)
{
    return places[p->field[field].binding].there && user_number(p, field) < HGA_MAX_USER_TENSORS;
}

const hga_tensor *program_tensor(const hga_program *p, const hga_io *io, hga_id field)
{
    const char *first = (const char *)io + places[p->field[field].binding].io;
    return has_tensor(p, field) ? (const hga_tensor *)(const void *)first + user_number(p, field) : NULL;
}

hga_tensor *binding_gradient(hga_grad_io *grad, hga_binding binding, hga_id user)
{
    return (hga_tensor *)(void *)((char *)grad + places[binding].gradient) + user;
}

const hga_tensor *program_gradient(const hga_program *p, const hga_grad_io *grad, hga_id field)
{
    const char *first = (const char *)grad + places[p->field[field].binding].gradient;
    return has_tensor(p, field) ? (const hga_tensor *)(const void *)first + user_number(p, field) : NULL;
}

hga_gradient_input program_gradient_input(const hga_program *p, hga_id field)
{
    hga_gradient_input first = places[p->field[field].binding].input;
    return first ? (hga_gradient_input)((hga_id)first + user_number(p, field)) : HGA_GRADIENT_NONE;
}

/* ---- rows ---- */

hga_id program_heads(const hga_program *p, const hga_shape *s, hga_id field)
{
    hga_width w = p->field[field].width;
    return w == HGA_WIDTH_KV_KEY || w == HGA_WIDTH_VALUE ? s->n_kv_heads : s->n_heads;
}

hga_id program_columns(const hga_program *p, const hga_shape *s, hga_id field)
{
    hga_width w = p->field[field].width;
    return w == HGA_WIDTH_SCALAR ? 1 : w == HGA_WIDTH_KEY || w == HGA_WIDTH_KV_KEY ? s->dim : s->dim_v;
}

size_t dtype_bytes(hga_dtype type) { return type == HGA_F32 ? sizeof(float) : sizeof(uint16_t); }

row_layout tensor_layout(const hga_tensor *t, hga_id heads, hga_id columns)
{
    row_layout x = {.row = t->row_stride ? t->row_stride : (ptrdiff_t)heads * columns,
                    .head = t->head_stride ? t->head_stride : columns};
    x.step = t->fold && t->fold_stride ? t->fold_stride - t->fold * x.row : 0;
    x.fold = x.step ? t->fold : 0;
    return x;
}

/* Rows and folds together must have one stride, within memory. */
hga_status tensor_check_fold(const hga_tensor *t, hga_id heads, hga_id columns, const char *what, const char *name)
{
    ptrdiff_t head = t->head_stride ? t->head_stride : columns, row = t->row_stride ? t->row_stride : heads * columns;
    if (t->fold < 0 || t->fold > INT32_MAX)
        return hga_fail(HGA_EINVAL, "%s%s%s is folded by %lld rows", what, *name ? " " : "", name, (long long)t->fold);
    if (!t->fold || !t->fold_stride) return HGA_OK;
    ptrdiff_t far = INT64_MAX / 16 / t->fold;
    if (row < -far || row > far)
        return hga_fail(HGA_EOVERFLOW, "%s%s%s: %lld rows %lld apart leave memory", what, *name ? " " : "", name,
                        (long long)t->fold, (long long)row);
    if (heads == 1 || t->fold_stride == heads * head || row == heads * head) return HGA_OK;
    return hga_fail(HGA_EUNSUPPORTED,
                    "%s%s%s: neither rows, %lld apart, nor folds, %lld apart, are %d heads, %lld apart", what,
                    *name ? " " : "", name, (long long)row, (long long)t->fold_stride, heads, (long long)head);
}

void *tensor_at(const hga_tensor *t, hga_id heads, hga_id columns, int64_t i, hga_id h)
{
    row_layout x = tensor_layout(t, heads, columns);
    return (char *)t->data + (row_offset(&x, i) + h * x.head) * (ptrdiff_t)dtype_bytes(t->dtype);
}
