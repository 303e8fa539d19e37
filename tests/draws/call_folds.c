/* call_folds.c: tensors whose rows are folded, as those of graphs for each key/value head are. */
#include "calls.h"

int64_t array_row(const array *a, int64_t row)
{
    return a->fold ? row / a->fold * a->fold_stride + row % a->fold * a->row_stride : row * a->row_stride;
}

/* The heads of all folds inside a row of each; or folds behind each other, with rows inside heads or around them. */
static void fold(array *a, uint64_t at)
{
    ptrdiff_t each = (ptrdiff_t)a->columns + (ptrdiff_t)(at & 1);
    int64_t rows = 1 + (int64_t)(at >> 1 & 63) % a->rows, folds = (a->rows + rows - 1) / rows;
    a->packed = 0, a->fold = rows, a->head_stride = each;
    if ((at >> 7) % 3 == 0)
        a->fold_stride = a->heads * each, a->row_stride = folds * a->fold_stride;
    else if (a->heads == 1 || (at >> 7) % 3 == 1)
        a->row_stride = a->heads * each, a->fold_stride = rows * a->row_stride + (ptrdiff_t)(at >> 9 & 3);
    else
        a->row_stride = each, a->head_stride = rows * each, a->fold_stride = a->heads * a->head_stride;
    a->elements = array_row(a, (folds - 1) * rows) + (rows - 1) * a->row_stride + (a->heads - 1) * a->head_stride +
                  (ptrdiff_t)a->columns;
}

void call_draw_folds(drawn_call *call, uint64_t at)
{
    if (at % 4 && !call->wish.has[TRAIT_FOLDS]) return;
    for (int i = 0; i < call->n_arrays; i++) {
        array *a = &call->drawn[i];
        uint64_t of = (at + (uint64_t)i) * UINT64_C(0x9E3779B97F4A7C15) >> 32;
        if (a->is_tensor && a->rows > 0 && of % 3) fold(a, of >> 2);
    }
}
