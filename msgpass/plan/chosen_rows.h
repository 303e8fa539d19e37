/* chosen_rows.h: the chosen blocks of a row of a relation of choices, read where they are stored. */
#ifndef CHOSEN_ROWS_H
#define CHOSEN_ROWS_H

#include "hga_graph.h"

/* The chosen blocks of a row, `size` source positions each from `src` on, as far as `end`. */
typedef struct chosen_row {
    const hga_id *block; /* [n], ascending */
    hga_pos n;
    int64_t src, size, end;
} chosen_row;

/* The row at a position. *at is the index of a choice where the search begins, and becomes the position's. */
static inline chosen_row chosen_row_of(const hga_relation *r, hga_id position, hga_pos *at)
{
    while (*at > 0 && r->choices[*at].dst > position) --*at;
    while (*at + 1 < r->n_choices && r->choices[*at + 1].dst <= position) ++*at;
    const hga_choice *c = &r->choices[*at];
    const int64_t row = (int64_t)position - c->dst;
    if (row < 0 || row >= c->n_dst) return (chosen_row){0};
    const hga_pos first = c->first[row / c->row_block], end = c->first[row / c->row_block + 1];
    const int64_t seen = c->causal && row + 1 < c->n_src ? row + 1 : c->n_src;
    return (chosen_row){c->chosen + first, end - first, c->src, c->block, c->src + seen};
}

/* The source positions of chosen block i that the row sees: [*begin, *end). */
static inline void chosen_columns(const chosen_row *x, hga_pos i, int64_t *begin, int64_t *end)
{
    *begin = x->src + x->block[i] * x->size;
    *end = *begin + x->size < x->end ? *begin + x->size : x->end;
}

#endif
