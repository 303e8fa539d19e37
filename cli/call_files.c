/* call_files.c: files become tables of a call. */
#include "typed_call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

int call_files_read(const typed_call *typed, call_files *files)
{
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        const hga_call_row *row = &hga_call_tables()[t];
        if (!typed->text[t] || call_is_number(row) || files->file[t].path) continue;
        int endless = row->numbers && isinf(row->none);
        MUST(npy_read(typed->text[t], endless ? NPY_ENDLESS : NPY_REAL, &files->file[t]));
    }
    return CLI_GOOD;
}

call_files call_files_attach(const call_files *files)
{
    call_files borrowed = {.borrowed = 1};
    memcpy(borrowed.file, files->file, sizeof borrowed.file);
    return borrowed;
}

void call_files_clear(call_files *files)
{
    for (int t = 0; t < HGA_N_TABLES; t++) {
        if (!files->borrowed) npy_clear(&files->file[t]);
        free(files->made[t]);
    }
    *files = (call_files){0};
}

/* ---- counts ---- */

int32_t call_types(const model *m, const hga_call_row *row)
{
    return types_read(m->graph, &m->program, row->is & HGA_CALL_NEEDS_SUMS ? HGA_SCALED : HGA_SCORE);
}

/* Of a call that is bound; `n_input`: the count that only the call knows. */
static int64_t count(hga_extent extent, const model *m, const hga_shape *s, int64_t n_input)
{
    return hga_call_extent(extent, s, m ? hga_graph_nodes(m->graph).n : 0, n_input);
}

int64_t call_entries(const model *m, const hga_shape *s, const hga_io *io, hga_call_table which)
{
    return hga_call_entries(which, s, hga_graph_nodes(m->graph).n, io);
}

/* ---- shapes ---- */

/* The rows that the file must have; of types as many or more. */
static int64_t rows_needed(const hga_call_row *row, const model *m, const hga_shape *s)
{
    const hga_stage *attended = score_stage(&m->program);
    if (row->rows == HGA_EXTENT_TYPES) return call_types(m, row);
    return count(row->rows, m, s, attended ? hga_graph_relation(m->graph, attended->relation).n_edges : 0);
}

static int may_be_shared(const hga_call_row *row)
{
    return row->columns == HGA_EXTENT_HEADS || row->columns == HGA_EXTENT_HEADS_OR_ONE;
}

/* Does the file determine the number of columns? */
static int is_free(const hga_call_row *row)
{
    return row->columns == HGA_EXTENT_POS_DIM || row->columns == HGA_EXTENT_COLUMNS;
}

static int64_t columns_of(const npy *a) { return a->n_dims == 2 ? a->dim[1] : 1; }

static int columns_fit(const hga_call_row *row, const hga_shape *s, const npy *a)
{
    int64_t columns = columns_of(a);
    if (may_be_shared(row)) return columns == 1 || columns == s->n_heads;
    if (row->columns == HGA_EXTENT_ONE) return a->n_dims == 1;
    if (a->n_dims != 2) return 0;
    return is_free(row) ? columns >= 1 && columns <= INT32_MAX : columns == count(row->columns, NULL, s, 0);
}

static int rows_fit(const hga_call_row *row, int64_t needed, const npy *a)
{
    return row->rows == HGA_EXTENT_TYPES ? a->dim[0] >= needed && a->dim[0] <= INT32_MAX : a->dim[0] == needed;
}

/* "[edges = 21] or [edges = 21][heads = 4]" */
static void put_needed(const hga_call_row *row, int64_t rows, const hga_shape *s, size_t capacity, char *text)
{
    const char *name = hga_extent_name(row->rows), *more = row->rows == HGA_EXTENT_TYPES ? " or more" : "";
    char first[64];
    snprintf(first, sizeof first, "[%s = %lld%s]", name, (long long)rows, more);
    if (row->columns == HGA_EXTENT_ONE)
        snprintf(text, capacity, "%s", first);
    else if (may_be_shared(row))
        snprintf(text, capacity, "%s or %s[heads = %d]", first, first, s->n_heads);
    else if (is_free(row))
        snprintf(text, capacity, "%s[%s]", first, hga_extent_name(row->columns));
    else
        snprintf(text, capacity, "%s[%s = %lld]", first, hga_extent_name(row->columns),
                 (long long)count(row->columns, NULL, s, 0));
}

static int check_shape(const hga_call_row *row, const model *m, const hga_shape *s, const npy *a)
{
    char needed[200];
    int64_t rows = rows_needed(row, m, s);
    if ((a->n_dims == 1 || a->n_dims == 2) && columns_fit(row, s, a) && rows_fit(row, rows, a)) return CLI_GOOD;
    put_needed(row, rows, s, sizeof needed, needed);
    return complain(CLI_DATA, "%s: has the shape %s; for %s --%s takes %s", a->path, npy_shape(a), m->title,
                    row->option, needed);
}

static int check_entries(const hga_call_row *row, const npy *a)
{
    for (int64_t i = 0; i < a->count; i++)
        if (!call_is_fit(row, (double)a->real[i]))
            return complain(CLI_DATA, "%s: number %lld is %g, not %s", a->path, (long long)i, (double)a->real[i],
                            row->numbers);
    return CLI_GOOD;
}

/* ---- a call ---- */

/* The index in the call of a file's row i: nodes have the caller's ids in files. */
static int64_t array_index(const hga_call_row *row, const model *m, int64_t i)
{
    return row->rows == HGA_EXTENT_NODES ? node_ids_at(&m->map, (hga_id)i) : i;
}

/* Copies the file in the call's order, with so many columns. */
static int make(const hga_call_row *row, const model *m, const npy *a, int64_t columns, float **out)
{
    int64_t own = columns_of(a), n = a->dim[0];
    MUST(take(n * columns, sizeof **out, out));
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++)
            (*out)[array_index(row, m, i) * columns + c] = a->real[i * own + (own > 1 ? c : 0)];
    return CLI_GOOD;
}

void call_files_add(const call_files *files, const model *m, hga_call_table which, const float *x, int64_t n,
                    int64_t wide, float *sum)
{
    const hga_call_row *row = &hga_call_tables()[which];
    const npy *a = &files->file[which];
    int64_t rows = a->n_dims ? a->dim[0] : row->columns == HGA_EXTENT_ONE ? n : 1;
    int64_t columns = n / rows, own = a->n_dims ? columns_of(a) : columns;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < columns; c++)
            sum[i * (wide ? wide : own) + (own > 1 ? c : 0)] += x[array_index(row, m, i) * columns + c];
}

/* Binds a file to the call's table, copied if it must be repeated for each head or put in the graph's order of
   nodes. */
static int bind_file(hga_call_table t, const model *m, hga_shape *s, call_files *files, hga_io *io)
{
    const hga_call_row *row = &hga_call_tables()[t];
    const npy *a = &files->file[t];
    MUST(check_shape(row, m, s, a));
    MUST(check_entries(row, a));
    int64_t columns = row->columns == HGA_EXTENT_HEADS ? s->n_heads : columns_of(a);
    int is_made = columns != columns_of(a) || (row->rows == HGA_EXTENT_NODES && m->map.id);
    if (row->columns == HGA_EXTENT_POS_DIM) s->pos_dim = (hga_id)columns;
    if (is_made) MUST(make(row, m, a, columns, &files->made[t]));
    io->table[t] =
        (hga_table){.data = is_made ? files->made[t] : a->real, .rows = a->dim[0], .columns = (hga_id)columns};
    return CLI_GOOD;
}

/* Binds to the call the numbers and files that the program itself does not hold. */
int call_files_bind(const typed_call *typed, const model *m, hga_shape *shape, call_files *files, hga_io *io)
{
    MUST(call_files_read(typed, files));
    if (typed->normaliser.bias != 0) io->normaliser_bias.data = &typed->normaliser.bias;
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        int is_number = call_is_number(&hga_call_tables()[t]);
        if (!typed->text[t] || call_is_put(typed, t)) continue;
        if (is_number)
            io->table[t].data = &typed->number[t];
        else
            MUST(bind_file(t, m, shape, files, io));
    }
    return CLI_GOOD;
}
