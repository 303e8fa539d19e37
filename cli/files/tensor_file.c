/* tensor_file.c: a tensor of attention from a file, and to one. */
#include "tensor_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the order of axes ---- */

int layout_heads_first(tensor_layout l) { return l == LAYOUT_HND || l == LAYOUT_BHND; }

int layout_swap(const float *data, int64_t samples, int64_t a, int64_t b, int64_t columns, float **out)
{
    int status = take(samples * a * b * columns, sizeof **out, out);
    if (status) return status;
    for (int64_t s = 0; s < samples; s++)
        for (int64_t i = 0; i < a; i++)
            for (int64_t j = 0; j < b; j++)
                memcpy(*out + ((s * b + j) * a + i) * columns, data + ((s * a + i) * b + j) * columns,
                       (size_t)columns * sizeof **out);
    return CLI_GOOD;
}

/* ---- reading ---- */

/* the sizes of the axes, by the layout */
static int find_sizes(tensor_file *t)
{
    static const char *const axes[LAYOUT_BHND + 1] = {"[rows][heads][dim]", "[heads][rows][dim]",
                                                      "[batch][rows][heads][dim]", "[batch][heads][rows][dim]"};
    npy *a = &t->array;
    int least = t->layout == LAYOUT_BNHD || t->layout == LAYOUT_BHND ? 4 : 2;
    if (a->n_dims >= least && a->n_dims <= 4 && a->count == 0)
        return complain(CLI_DATA, "%s: has the shape %s, which holds no numbers", a->path, npy_shape(a));
    if (a->n_dims < least || a->n_dims > 4)
        return complain(CLI_DATA, "%s: a tensor is %s%s, not the shape %s", a->path, least == 2 ? "[rows][dim], " : "",
                        axes[t->layout], npy_shape(a));
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

/* Which axis of the file has the rows. */
static int rows_axis(const tensor_file *t) { return (t->axes == 4) + (t->axes > 2 && layout_heads_first(t->layout)); }

/* What was read in the file's order of axes becomes [samples][rows][heads][columns]; array.dim is one sample's. */
static int arrange(tensor_file *t)
{
    float *ordered = NULL;
    npy *a = &t->array;
    if (a->real && t->axes > 2 && layout_heads_first(t->layout) && t->heads > 1) {
        MUST(layout_swap(a->real, t->samples, t->heads, t->rows, t->columns, &ordered));
        free(a->real);
        a->real = ordered;
    }
    a->n_dims = t->axes == 2 ? 2 : 3;
    a->count /= t->samples;
    a->dim[0] = t->rows, a->dim[1] = t->axes == 2 ? t->columns : t->heads, a->dim[2] = t->columns;
    return CLI_GOOD;
}

static int read_as(npy_content wish, const char *path, tensor_layout layout, tensor_file *t)
{
    t->layout = layout;
    int status = npy_read(path, wish, &t->array);
    if (!status) status = find_sizes(t);
    return status ? status : arrange(t);
}

int tensor_file_read(const char *path, tensor_layout layout, tensor_file *t)
{
    return read_as(NPY_REAL, path, layout, t);
}

int tensor_file_read_sizes(const char *path, tensor_layout layout, tensor_file *t)
{
    return read_as(NPY_SIZES, path, layout, t);
}

int tensor_file_read_rows(const char *path, const hga_interval *rows, int64_t n, tensor_file *t)
{
    const npy_part part = {rows_axis(t), n, rows};
    npy_clear(&t->array);
    MUST(npy_read_part(path, &part, &t->array));
    t->rows = (hga_id)t->array.dim[part.axis];
    MUST(arrange(t));
    return CLI_GOOD;
}

int tensor_file_read_one(const char *path, tensor_layout layout, tensor_file *t)
{
    int status = tensor_file_read(path, layout, t);
    if (status || t->samples == 1) return status;
    return complain(CLI_DATA, "%s: is a batch of %d; one sample is needed here", t->array.path, t->samples);
}

int tensor_file_check_pair(const tensor_file *q, const tensor_file *k)
{
    if (k->columns != q->columns)
        return complain(CLI_DATA, "%s: has dim %d, the query in %s has %d", k->array.path, k->columns, q->array.path,
                        q->columns);
    if (q->heads % k->heads != 0)
        return complain(CLI_DATA, "%s: has %d heads, which do not divide the query's %d", k->array.path, k->heads,
                        q->heads);
    return CLI_GOOD;
}

int tensor_file_read_pair(const char *query, const char *key, tensor_layout layout, tensor_file *q, tensor_file *k)
{
    MUST(tensor_file_read_one(query, layout, q));
    MUST(tensor_file_read_one(key, layout, k));
    MUST(tensor_file_check_pair(q, k));
    return CLI_GOOD;
}

int tensor_file_check_program(const hga_program *p)
{
    for (hga_id i = 1; i <= p->n_fields; i++)
        if (p->field[i].binding == HGA_IO_USER)
            return complain(CLI_USAGE, "the program reads a tensor of its own, '%s', which no option gives",
                            p->field[i].name);
    return CLI_GOOD;
}

void tensor_file_say(const tensor_file *q)
{
    char buffer[HGA_NPY_TYPE_BYTES];
    fprintf(stderr, "hga: %d row%s, %d head%s of %d, %s", q->rows, q->rows == 1 ? "" : "s", q->heads,
            q->heads == 1 ? "" : "s", q->columns, hga_npy_type(&q->array.type, buffer));
    if (q->samples > 1 || q->axes == 4) fprintf(stderr, "; batch of %d", q->samples);
    if (q->axes > 2 && q->heads > q->rows)
        fprintf(stderr, "; if it is the other way round, --layout %s", layout_heads_first(q->layout) ? "nhd" : "hnd");
    fputc('\n', stderr);
}

/* The sizes of a file in the axes and layout of `like`; returns how many. */
static int axes_like(const tensor_file *q, hga_id rows, int64_t columns, int64_t dim[4])
{
    int n = 0, swapped = q->axes > 2 && layout_heads_first(q->layout);
    if (q->axes == 4) dim[n++] = q->samples;
    dim[n++] = swapped ? q->heads : rows;
    if (q->axes > 2) dim[n++] = swapped ? rows : q->heads;
    if (columns) dim[n++] = columns;
    return n;
}

/* Writes [samples][rows][heads][columns], or some of the rows as a range of a file that others write, in the file's
   order. */
static int write_in_order(outfile *out, const tensor_file *q, hga_id rows, int64_t columns, element type,
                          const npy_part *part, int64_t here, int header, const float *data)
{
    int status = CLI_GOOD;
    float *buffer = NULL;
    int64_t dim[4];
    const int n = axes_like(q, rows, columns, dim);
    if (q->axes > 2 && layout_heads_first(q->layout)) {
        TRY(layout_swap(data, q->samples, here, q->heads, columns ? columns : 1, &buffer));
        data = buffer;
    }
    TRY(part ? npy_write_part(out, type, data, n, dim, part, header) : npy_write_as(out, type, data, n, dim));
done:
    free(buffer);
    return status;
}

int tensor_file_write(outfile *out, const tensor_file *q, hga_id rows, int64_t columns, element type, const float *data)
{
    return write_in_order(out, q, rows, columns, type, NULL, rows, 1, data);
}

int tensor_file_write_rows(outfile *out, const tensor_file *q, hga_id rows, int64_t columns, element type,
                           const hga_interval *these, int64_t n, int header, const float *data)
{
    const npy_part part = {rows_axis(q), n, these};
    int64_t here = 0;
    for (int64_t i = 0; i < n; i++) here += these[i].n;
    return write_in_order(out, q, rows, columns, type, &part, here, header, data);
}

hga_tensor tensor_file_heads(const tensor_file *t, hga_id first, hga_id n, hga_id per)
{
    hga_tensor x = {.data = t->array.real, .rows = (int64_t)t->rows * per};
    if (n == t->heads) return x;
    x.data = t->array.real + (int64_t)first * t->columns;
    x.row_stride = (ptrdiff_t)t->heads * t->columns, x.head_stride = t->columns;
    return x;
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
