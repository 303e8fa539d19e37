/* call_check.c: checks a call's tables by their rows. */
#include "call_check.h"
#include "program.h"
#include "soften.h"

#include <math.h>

static int sends(const hga_program *p, hga_message message)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].message == message) return 1;
    return 0;
}

/* Why the table does not apply to the program; NULL: it does. */
static const char *lack_of(const hga_call_row *row, const hga_program *p)
{
    if (row->is & HGA_CALL_NO_PRODUCT && p->scores != HGA_SCORES_ADDITIVE) return "the program's scores are products";
    if (row->is & HGA_CALL_NEEDS_SCORES && !sends(p, HGA_SCORE)) return "the program computes no scores";
    if (row->is & HGA_CALL_NO_ENERGY && program_has_energies(p)) return "the program's scores are those of an energy";
    if (row->is & HGA_CALL_NEEDS_LSE && !p->has_lse) return "the program's output has no log-sum-exp";
    if (row->is & HGA_CALL_NEEDS_BIAS && !(program_normaliser_is(p) & NORMALISER_HAS_BIAS))
        return "the program's normaliser has no bias";
    return NULL;
}

static hga_status refuse_entry(const hga_call_row *row, const hga_shape *s, int64_t i, float x)
{
    if (row->rows == HGA_EXTENT_ONE) return hga_fail(HGA_EINVAL, "%s %g is not %s", row->name, (double)x, row->numbers);
    if (row->columns == HGA_EXTENT_ONE)
        return hga_fail(HGA_EINVAL, "%s of head %d is %g, not %s", row->name, (int)i, (double)x, row->numbers);
    return hga_fail(HGA_EINVAL, "%s of head %d, column %d is %g, not %s", row->name, (int)(i / s->dim),
                    (int)(i % s->dim), (double)x, row->numbers);
}

static hga_status check_entries(const hga_call_row *row, const hga_shape *s, const float *data, int64_t n)
{
    for (int64_t i = 0; row->numbers && i < n; i++)
        if (!call_entry_is_fit(row, data[i])) return refuse_entry(row, s, i, data[i]);
    return HGA_OK;
}

/* Rows and columns that follow from the shape may be 0, or must agree with it. */
static hga_status check_extent(const hga_call_row *row, const char *what, hga_extent extent, int64_t n_input,
                               const hga_shape *s)
{
    int64_t expected = hga_call_extent(extent, s, 0, n_input);
    if (extent == HGA_EXTENT_NODES || !n_input || n_input == expected) return HGA_OK;
    return hga_fail(HGA_EINVAL, "%s has %lld %s, not %lld (%s)", row->name, (long long)n_input, what,
                    (long long)expected, hga_extent_name(extent));
}

/* Rows are ids, except edges, and the table's bytes fit 64 bits. */
static hga_status check_counts(const hga_call_row *row, const hga_table *t, const hga_shape *s)
{
    int64_t columns = hga_call_extent(row->columns, s, 0, t->columns), bytes;
    int fits = t->rows >= 0 && t->columns >= 0 && (row->rows == HGA_EXTENT_EDGES || t->rows <= INT32_MAX);
    if (fits && !__builtin_mul_overflow(t->rows, columns * (int64_t)sizeof(float), &bytes)) return HGA_OK;
    return hga_fail(HGA_EINVAL, "%s has %lld rows of %lld columns", row->name, (long long)t->rows, (long long)columns);
}

/* Checks the table's rows and columns against its entry in hga_call_tables(). */
static hga_status check_extents(const hga_call_row *row, const hga_table *t, const hga_shape *s, hga_id n_nodes)
{
    hga_status st = check_counts(row, t, s);
    if (!st) st = check_extent(row, "rows", row->rows, t->rows, s);
    if (!st) st = check_extent(row, "columns", row->columns, t->columns, s);
    if (!st) st = hga_check_reserved("hga_table", &t->reserved, sizeof t->reserved);
    if (st) return st;
    if (row->columns == HGA_EXTENT_HEADS_OR_ONE && t->columns != 1 && t->columns != s->n_heads)
        return hga_fail(HGA_EINVAL,
                        s->n_heads > 1 ? "%s has %d columns, not 1 or %d (heads)" : "%s has %d columns, not 1",
                        row->name, t->columns, s->n_heads);
    if (row->columns == HGA_EXTENT_COLUMNS && t->columns < 1)
        return hga_fail(HGA_EINVAL, "%s has %d columns", row->name, t->columns);
    if (row->columns == HGA_EXTENT_POS_DIM && s->pos_dim < 1)
        return hga_fail(HGA_EINVAL, "%s is given but the shape says pos_dim = %d", row->name, s->pos_dim);
    if (row->rows == HGA_EXTENT_NODES && t->rows < n_nodes)
        return hga_fail(HGA_EINVAL, "%s has %lld rows but the graph has %d nodes", row->name, (long long)t->rows,
                        n_nodes);
    return HGA_OK;
}

/* Checks that the program's own number, where the call has none, applies to it. */
static hga_status check_standing(hga_call_table which, const hga_program *p, const hga_io *io)
{
    const hga_call_row *row = call_row(which);
    const char *lack = row->is & HGA_CALL_IS_REFUSED && call_number(which, p, io) != 0 ? lack_of(row, p) : NULL;
    return lack ? hga_fail(HGA_EUNSUPPORTED, "%s: %s", row->name, lack) : HGA_OK;
}

/* Checks one table of the call; where the call has none, the program's own number. */
static hga_status check_table(hga_call_table which, const hga_program *p, const hga_shape *s, hga_id n_nodes,
                              const hga_io *io)
{
    const hga_call_row *row = call_row(which);
    const hga_table *t = &io->table[which];
    if (!t->data) return check_standing(which, p, io);
    if (row->is & HGA_CALL_OF_GRAPH) return hga_fail(HGA_EINVAL, "%s is the graph's: no call has it", row->name);
    hga_status st = check_extents(row, t, s, n_nodes);
    if (!st) st = check_entries(row, s, t->data, hga_call_entries(which, s, n_nodes, io));
    int changes = row->rows != HGA_EXTENT_ONE || *t->data != 0;
    const char *lack = row->is & HGA_CALL_IS_REFUSED && changes ? lack_of(row, p) : NULL;
    return lack && !st ? hga_fail(HGA_EUNSUPPORTED, "%s: %s", row->name, lack) : st;
}

hga_status call_check_tables(const hga_program *p, const hga_shape *shape, hga_id n_nodes, const hga_io *io)
{
    hga_status st = HGA_OK;
    for (hga_call_table t = 0; t < HGA_N_TABLES && !st; t++) st = check_table(t, p, shape, n_nodes, io);
    for (int t = HGA_N_TABLES; t < HGA_MAX_TABLES && !st; t++)
        if (io->table[t].data)
            st = hga_fail(HGA_EINVAL, "hga_io: table %d is given, which this library does not know", t);
    return st;
}
