/* tensor_file.c: a tensor of attention from a file, and to one. */
#include "tensor_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"

/* the sizes of the axes, by the layout */
static int find_sizes(tensor_file *t)
{
    char shape[200];
    npy *a = &t->array;
    int least = layout_batched(t->layout) ? 4 : 2;
    if (a->n_dims < least || a->n_dims > 4 || a->count == 0)
        return complain(CLI_DATA, "%s: a tensor is %s%s, not the shape %s", a->path, least == 2 ? "[rows][dim], " : "",
                        layout_axes(t->layout), npy_shape(a->n_dims, a->dim, shape));
    for (int i = 0; i < a->n_dims; i++)
        if (a->dim[i] > INT32_MAX)
            return complain(CLI_DATA, "%s: %lld does not fit int32", a->path, (long long)a->dim[i]);
    const int64_t *axis = a->dim + (a->n_dims == 4);
    int flat = a->n_dims == 2, swapped = !flat && layout_heads_first(t->layout);
    t->axes = a->n_dims;
    t->samples = a->n_dims == 4 ? (hga_id)a->dim[0] : 1;
    t->rows = (hga_id)axis[swapped];
    t->heads = flat ? 1 : (hga_id)axis[!swapped];
    t->columns = (hga_id)a->dim[a->n_dims - 1];
    return CLI_GOOD;
}

int tensor_file_read(const char *path, tensor_layout layout, tensor_file *t)
{
    float *ordered = NULL;
    npy *a = &t->array;
    int status = CLI_GOOD;
    t->layout = layout;
    TRY(npy_read_real(path, a));
    TRY(find_sizes(t));
    if (t->axes > 2 && layout_heads_first(layout) && t->heads > 1) {
        TRY(layout_swap(a->real, t->samples, t->heads, t->rows, t->columns, &ordered));
        free(a->real);
        a->real = ordered;
    }
    a->n_dims = t->axes == 2 ? 2 : 3;
    a->count /= t->samples;
    a->dim[0] = t->rows, a->dim[1] = t->axes == 2 ? t->columns : t->heads, a->dim[2] = t->columns;
done:
    return status;
}

int tensor_file_read_one(const char *path, tensor_layout layout, tensor_file *t)
{
    int status = tensor_file_read(path, layout, t);
    if (status || t->samples == 1) return status;
    return complain(CLI_DATA, "%s: is a batch of %d; one sample is needed here", t->array.path, t->samples);
}

void tensor_file_say(const tensor_file *q)
{
    fprintf(stderr, "hga: %d row%s, %d head%s of %d, %s", q->rows, q->rows == 1 ? "" : "s", q->heads,
            q->heads == 1 ? "" : "s", q->columns, element_name(q->array.type));
    if (q->samples > 1 || q->axes == 4) fprintf(stderr, "; batch of %d", q->samples);
    if (q->axes > 2 && q->heads > q->rows)
        fprintf(stderr, "; if it is the other way round, --layout %s", layout_heads_first(q->layout) ? "nhd" : "hnd");
    fputc('\n', stderr);
}

int tensor_file_write(outfile *out, const tensor_file *q, hga_id rows, int64_t columns, element type, const float *data)
{
    int swapped = q->axes > 2 && layout_heads_first(q->layout), n = 0, status = CLI_GOOD;
    float *ordered = NULL;
    int64_t dim[4];
    if (swapped) TRY(layout_swap(data, q->samples, rows, q->heads, columns ? columns : 1, &ordered));
    if (q->axes == 4) dim[n++] = q->samples;
    dim[n++] = swapped ? q->heads : rows;
    if (q->axes > 2) dim[n++] = swapped ? rows : q->heads;
    if (columns) dim[n++] = columns;
    TRY(npy_write_as(out, type, ordered ? ordered : data, n, dim));
done:
    free(ordered);
    return status;
}

int tensor_file_widen(const tensor_file *t, hga_id heads, float **out)
{
    int64_t columns = t->columns, group = heads / t->heads;
    int status = take((int64_t)t->rows * heads * columns, sizeof **out, out);
    for (int64_t i = 0; status == CLI_GOOD && i < (int64_t)t->rows * heads; i++)
        memcpy(*out + i * columns, t->array.real + (i / heads * t->heads + i % heads / group) * columns,
               (size_t)columns * sizeof **out);
    return status;
}
