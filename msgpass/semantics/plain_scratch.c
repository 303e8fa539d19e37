/* plain_scratch.c: the scratch of a row. */
#include "bindings.h"
#include "stage_semantics.h"

enum { BY_EDGE = 5, ROWS = 3 };

hga_id widest_columns(const hga_shape *s) { return s->dim > s->dim_v ? s->dim : s->dim_v; }

static int64_t numbers(int64_t n, int64_t columns) { return BY_EDGE * n + ROWS * columns; }

int64_t plain_scratch_bytes(int64_t edges, hga_id columns)
{
    return numbers(edges + 1, columns) * (int64_t)sizeof(double);
}

/* The arrays of a row with n scores, contiguous. */
static plain_scratch hand_out(double *at, int64_t n, int64_t columns)
{
    double *rows = at + BY_EDGE * n;
    return (plain_scratch){.n = n,
                           .columns = columns,
                           .score = at,
                           .count = at + n,
                           .weight = at + 2 * n,
                           .slope = at + 3 * n,
                           .d_count = at + 4 * n,
                           .own = rows,
                           .source = rows + columns,
                           .out = rows + 2 * columns};
}

plain_scratch plain_scratch_at(void *memory, int64_t edges, hga_id columns)
{
    return hand_out(memory, edges + 1, columns);
}

/* Scratch that grows is at least doubled, so that rows of rising length seldom reallocate. */
hga_status plain_scratch_fit(plain_scratch *scratch, const hga_allocator *a, int64_t edges, hga_id columns)
{
    hga_status st = HGA_OK;
    int64_t n = edges + 1;
    double *memory;
    if (scratch->n >= n && scratch->columns >= columns) return HGA_OK;
    if (scratch->n && n < 2 * scratch->n) n = 2 * scratch->n;
    plain_scratch_clear(scratch, a);
    HGA_TRY(hga_new(a, numbers(n, columns), sizeof *memory, &memory));
    *scratch = hand_out(memory, n, columns);
done:
    return st;
}

void plain_scratch_clear(plain_scratch *scratch, const hga_allocator *a)
{
    hga_delete(a, scratch->score, numbers(scratch->n, scratch->columns), sizeof *scratch->score);
    *scratch = (plain_scratch){0};
}
