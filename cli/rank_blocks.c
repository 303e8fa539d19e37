/* rank_blocks.c: cut, fill with exponentials of scores, count singular values. */
#include "rank_blocks.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "lapack.h"
#include "progress.h"

/* ---- the partition ---- */

int64_t level_size(const rank_map *m, hga_id level)
{
    return ((int64_t)m->block << level) / (m->structure == PARTITION_NEIGHBOURS ? 2 : 1);
}

/* Blocks (i, j) of `size` tokens, clipped at n; those beyond it are not there. With no memory yet, they are only
   counted. */
static void add_block(rank_map *m, int64_t size, int64_t i, int64_t j, hga_id level)
{
    int64_t row = i * size, column = j * size;
    if (row >= m->n || column >= m->n) return;
    if (m->blocks) {
        rank_block *b = &m->blocks[m->n_blocks];
        *b = (rank_block){.row = (hga_id)row, .column = (hga_id)column, .level = level};
        b->rows = (hga_id)(m->n - row < size ? m->n - row : size);
        b->columns = (hga_id)(m->n - column < size ? m->n - column : size);
    }
    m->n_blocks++;
}

static void add_pair(rank_map *m, int64_t size, int64_t i, int64_t j, hga_id level)
{
    add_block(m, size, i, j, level);
    add_block(m, size, j, i, level);
}

/* (9): at every level the odd block and the even one before it */
static void cut_siblings(rank_map *m)
{
    for (int64_t i = 0; i * m->block < m->n; i++) add_block(m, m->block, i, i, -1);
    for (hga_id l = 0; level_size(m, l) < m->n; l++, m->n_levels++)
        for (int64_t i = 0; i * level_size(m, l) < m->n; i += 2) add_pair(m, level_size(m, l), i, i + 1, l);
}

/* (16)-(19): of two adjacent blocks 2p, 2p+1 | 2p+2, 2p+3, the halves that do not touch; those that touch are one level
   finer, or near */
static void cut_neighbours(rank_map *m)
{
    for (int64_t i = 0; i * m->block < m->n; i++) {
        add_block(m, m->block, i, i, -1);
        add_pair(m, m->block, i, i + 1, -1);
    }
    m->n_levels = 1; /* level 0 is near */
    for (hga_id l = 1; 2 * ((int64_t)m->block << (l - 1)) < m->n; l++, m->n_levels++)
        for (int64_t i = 0; i * (m->block << (l - 1)) < m->n; i += 2) {
            add_pair(m, (int64_t)m->block << (l - 1), i, i + 2, l);
            add_pair(m, (int64_t)m->block << (l - 1), i, i + 3, l);
            add_pair(m, (int64_t)m->block << (l - 1), i + 1, i + 3, l);
        }
}

static void cut(rank_map *m)
{
    m->n_blocks = m->n_levels = 0;
    if (m->structure == PARTITION_SIBLINGS)
        cut_siblings(m);
    else
        cut_neighbours(m);
}

/* near blocks first, then finer levels before coarser ones, then row by row */
static int by_level(const void *a, const void *b)
{
    const rank_block *x = a, *y = b;
    if (x->level != y->level) return x->level < y->level ? -1 : 1;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    return (x->column > y->column) - (x->column < y->column);
}

int rank_map_cut(hga_id n, hga_id block, partition structure, rank_map *out)
{
    *out = (rank_map){.n = n, .block = block, .structure = structure};
    cut(out); /* counts */
    int status = take(out->n_blocks, sizeof *out->blocks, &out->blocks);
    if (status) return status;
    cut(out);
    qsort(out->blocks, (size_t)out->n_blocks, sizeof *out->blocks, by_level);
    return CLI_GOOD;
}

void rank_map_clear(rank_map *m)
{
    free(m->blocks);
    *m = (rank_map){0};
}

int64_t block_stored(const rank_block *b)
{
    int64_t whole = (int64_t)b->rows * b->columns, factors = (int64_t)b->rank * (b->rows + b->columns);
    return b->level < 0 || whole < factors ? whole : factors;
}

/* ---- ranks ---- */

static int complain_of_score(double score, hga_id i, hga_id j)
{
    return complain(
        CLI_DATA,
        "the score of query %d and key %d is %g, its exponential too large to compute with; --relative needs none", i,
        j, score);
}

/* exp(score), and when relative exp(score - the block's largest), which changes all singular values by one factor */
static int fill_block(const score_source *a, const rank_block *b, int relative, double *x)
{
    double most = -INFINITY;
    for (hga_id i = 0; i < b->rows; i++)
        for (hga_id j = 0; j < b->columns; j++) {
            double score = a->score(b->row + i, b->column + j, a->data);
            if (!isfinite(score))
                return complain(CLI_DATA, "the score of query %d and key %d is not finite", b->row + i, b->column + j);
            if (!relative && score > log(DBL_MAX) - 60) return complain_of_score(score, b->row + i, b->column + j);
            x[(int64_t)i * b->columns + j] = score;
            most = score > most ? score : most;
        }
    double less = relative ? most : 0;
    for (int64_t i = 0; i < (int64_t)b->rows * b->columns; i++) x[i] = exp(x[i] - less);
    return CLI_GOOD;
}

/* the least rank whose remaining singular values sum up to less than the tolerance, smallest first so that nothing is
   lost */
static hga_id count_rank(const double *sigma, hga_id n, hga_id longer, double tolerance)
{
    double zero = sigma[0] * DBL_EPSILON * longer, rest = 0;
    while (n > 0 && sigma[n - 1] <= zero) n--;
    while (n > 0 && rest + sigma[n - 1] < tolerance) rest += sigma[--n];
    return n;
}

static int measure_block(const score_source *a, const rank_map *m, rank_block *b, double *x, double *sigma)
{
    int status = fill_block(a, b, m->relative, x);
    if (status == CLI_GOOD) status = singular_values(b->rows, b->columns, x, sigma);
    if (status) return status;
    hga_id shorter = b->rows < b->columns ? b->rows : b->columns, longer = b->rows < b->columns ? b->columns : b->rows;
    b->rank = count_rank(sigma, shorter, longer, m->tolerance * (m->relative ? sigma[0] : 1));
    return CLI_GOOD;
}

/* what the singular values of a block cost */
static double work_of(const rank_block *b)
{
    return (double)b->rows * (double)b->columns * (double)(b->rows < b->columns ? b->rows : b->columns);
}

int rank_map_measure(const score_source *a, rank_map *m)
{
    int64_t most = 0;
    double work = 0, spent = 0, *x = NULL, *sigma = NULL;
    int status = CLI_GOOD;
    progress bar = progress_start("ranks");
    for (int64_t i = 0; i < m->n_blocks; i++) {
        int64_t entries = (int64_t)m->blocks[i].rows * m->blocks[i].columns;
        most = entries > most ? entries : most;
        work += work_of(&m->blocks[i]);
    }
    TRY(take(most, sizeof *x, &x));
    TRY(take(m->n, sizeof *sigma, &sigma));
    for (int64_t i = 0; i < m->n_blocks; i++) {
        progress_show(spent / work, &bar);
        TRY(measure_block(a, m, &m->blocks[i], x, sigma));
        spent += work_of(&m->blocks[i]);
    }
done:
    progress_end(&bar);
    free(x);
    free(sigma);
    return status;
}
