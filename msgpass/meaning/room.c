/* room.c: room for a row. */
#include "bindings.h"
#include "stage_meanings.h"

enum { BY_EDGE = 5, ROWS = 3 };

hga_id widest_columns(const hga_shape *s) { return s->dim > s->dim_v ? s->dim : s->dim_v; }

static int64_t numbers(int64_t n, int64_t columns) { return BY_EDGE * n + ROWS * columns; }

int64_t row_room_bytes(int64_t edges, hga_id columns) { return numbers(edges + 1, columns) * (int64_t)sizeof(double); }

/* The arrays of a row with n places, one behind the other. */
static row_room hand_out(double *at, int64_t n, int64_t columns)
{
    double *rows = at + BY_EDGE * n;
    return (row_room){.n = n,
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

row_room row_room_at(void *memory, int64_t edges, hga_id columns) { return hand_out(memory, edges + 1, columns); }

/* Room that grows is at least doubled, so that rows of rising length seldom wait for it. */
hga_status row_room_fit(row_room *room, const hga_allocator *a, int64_t edges, hga_id columns)
{
    hga_status st = HGA_OK;
    int64_t n = edges + 1;
    double *memory;
    if (room->n >= n && room->columns >= columns) return HGA_OK;
    if (room->n && n < 2 * room->n) n = 2 * room->n;
    row_room_clear(room, a);
    HGA_TRY(hga_new(a, numbers(n, columns), sizeof *memory, &memory));
    *room = hand_out(memory, n, columns);
done:
    return st;
}

void row_room_clear(row_room *room, const hga_allocator *a)
{
    hga_delete(a, room->score, numbers(room->n, room->columns), sizeof *room->score);
    *room = (row_room){0};
}
