/* edge_biases.c: biases of edges for the pairs of tiles. Their table lists a row's edges in canonical order: those of a
   row in a chunk are found from the rank of the first, which its segments count, and follow each other, unless the row
   has edges between them that other chunks have. */
#include "edge_biases.h"
#include "plan.h"
#include "stages.h"

#include <string.h>

int has_edge_biases(const worker *w, hga_id stage) { return w->io->edge_bias.data && stage == w->plan->bias_stage; }

/* ---- ranks ---- */

static int sources_ascend(const edge_chunk *c)
{
    hga_id e = 1;
    while (e < c->n && c->src[e] >= c->src[e - 1]) e++;
    return e >= c->n;
}

/* Which columns each requested row has, as bits. */
static void find_columns(const tile_chunk *c, hga_id i, row_ranks *x)
{
    const tile_part *part = &c->part[i];
    const unsigned requested = requested_mask(part->group);
    const hga_id n = part->last - part->first;
    const uint64_t all = n > 0 ? ~UINT64_C(0) >> (KERNEL_CHUNK - n) << part->first : 0;
    for (hga_id r = 0; r < KERNEL_TILE; r++) x[r] = (row_ranks){.columns = part->full && requested >> r & 1u ? all : 0};
    for (hga_id e = part->first; e < part->last && !part->full; e++)
        for (unsigned rows = c->rows[i][e] & requested; rows; rows &= rows - 1)
            x[__builtin_ctz(rows)].columns |= UINT64_C(1) << e;
}

/* The rank of the row's edge to column e among all edges of the row. Those of a row in splits are its columns alone. */
static hga_pos rank_of(const worker *w, const tile_chunk *c, const row_group *g, hga_id r, hga_id e)
{
    const hga_id src = c->columns.src[e];
    if (g->split) return src - long_row_of(&w->plan->stage[g->stage], g->split[r])->alone.first;
    return reader_rank_of(&w->reader, g->first + r, src);
}

void find_edge_ranks(worker *w, const tile_chunk *c)
{
    const hga_pos *first_edge = w->plan->cache->lists.first_edge;
    const int ascend = sources_ascend(&c->columns);
    for (hga_id i = 0; i < c->n_parts; i++) {
        const row_group *g = c->part[i].group;
        row_ranks *x = w->tiles.tile.edges->rank[i];
        find_columns(c, i, x);
        for (hga_id r = 0; r < KERNEL_TILE; r++) {
            const uint64_t columns = x[r].columns;
            if (!columns) continue;
            const hga_pos first = rank_of(w, c, g, r, __builtin_ctzll(columns)),
                          last = rank_of(w, c, g, r, 63 - __builtin_clzll(columns));
            x[r].first = first_edge[g->node[r]] + first;
            x[r].in_order = ascend && last - first == __builtin_popcountll(columns) - 1;
        }
    }
}

/* ---- biases ---- */

/* Copies n heads' biases of a row's edges that do not follow each other, in the order of the columns. */
static void gather_row(const worker *w, const tile_chunk *c, const row_group *g, hga_id r, uint64_t columns,
                       hga_id head, hga_id n, float *to)
{
    const hga_table *t = &w->io->edge_bias;
    const hga_pos first = w->plan->cache->lists.first_edge[g->node[r]];
    for (; columns; columns &= columns - 1, to += n)
        memcpy(to, t->data + (first + rank_of(w, c, g, r, __builtin_ctzll(columns))) * t->columns + head,
               (size_t)n * sizeof *to);
}

/* Loads the biases of part i's pairs in n columns of the table. */
static void load_biases(worker *w, const tile_chunk *c, hga_id i, hga_id head, hga_id n)
{
    const tile_part *part = &c->part[i];
    const hga_table *t = &w->io->edge_bias;
    const row_ranks *x = w->tiles.tile.edges->rank[i];
    const float *row[KERNEL_TILE];
    float gathered[KERNEL_TILE][KERNEL_CHUNK * BIAS_HEADS];
    uint64_t columns[KERNEL_TILE];
    ptrdiff_t edge[KERNEL_TILE];
    if (part->first == part->last) return;
    for (hga_id r = 0; r < KERNEL_TILE; r++) {
        columns[r] = x[r].columns >> part->first, row[r] = gathered[r], edge[r] = n;
        if (!x[r].columns) continue;
        if (x[r].in_order)
            row[r] = t->data + x[r].first * t->columns + head, edge[r] = t->columns;
        else
            gather_row(w, c, part->group, r, x[r].columns, head, n, gathered[r]);
    }
    w->plan->machine.kernels->edge_biases(
        &(kernel_edge_biases){.n = part->last - part->first,
                              .heads = n,
                              .columns = columns,
                              .row = row,
                              .edge = edge,
                              .out = w->tiles.tile.edges->bias[i][0] + (ptrdiff_t)part->first * KERNEL_TILE});
}

const float *edge_biases_of(worker *w, const tile_chunk *c, hga_id i, hga_id head)
{
    const int by_head = w->io->edge_bias.columns > 1;
    const hga_id at = head - w->heads.first, left = w->heads.end - head;
    if (by_head && at % BIAS_HEADS == 0) load_biases(w, c, i, head, left < BIAS_HEADS ? left : BIAS_HEADS);
    if (!by_head && at == 0) load_biases(w, c, i, 0, 1);
    return w->tiles.tile.edges->bias[i][by_head ? at % BIAS_HEADS : 0];
}
