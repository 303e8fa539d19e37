/* select.c: the call: threads take sixteen query blocks of one chooser at a time, score all candidates with the tile's
   products, and note what each of the sixteen chooses. */
#include "select.h"

#include <math.h>
#include <omp.h>
#include <string.h>

/* A thread's own. */
typedef struct chooser {
    picker pick;
    float *queries; /* [KERNEL_TILE][3 dim] */
    float *turned;  /* [columns][KERNEL_TILE] */
    hga_id *block;  /* what its rows chose, one behind the other */
    hga_pos n, capacity;
    hga_pos bad_row; /* the first whose scores are not numbers, and the block; -1: none */
    hga_id bad_block;
    hga_status status;
} chooser;

/* Where a sixteen's blocks are. */
typedef struct noted {
    hga_id thread;
    hga_pos at, n;
} noted;

static hga_id padded(hga_id n) { return (n + KERNEL_CHUNK - 1) / KERNEL_CHUNK * KERNEL_CHUNK; }

/* ---- scores ---- */

/* A query for bounds: what is above 0 meets the greatest, what is below the least. */
static const float *part_query(const selecting *s, const float *q, float *out)
{
    for (hga_id j = 0; j < s->dim; j++) {
        out[j] = q[j] < 0 ? 0 : q[j];
        out[s->dim + j] = q[j] > 0 ? 0 : q[j];
    }
    return out;
}

/* The row that stands for query block i of sixteen. */
static const float *block_query(const selecting *s, chooser *t, const sixteen *x, hga_id i, hga_id head)
{
    float *room = t->queries + (ptrdiff_t)i * 3 * s->dim;
    if (s->queries)
        return s->queries + ((ptrdiff_t)head * s->n_query_blocks + x->sample->query_block + x->first + i) * s->dim;
    const float *q = query_row(s, (int64_t)x->sample->token + x->first + i, head, room);
    if (s->in->precision == HGA_PRECISION_BF16) s->kernels->round_bf16(s->dim, q, room), q = room;
    return s->how->score == HGA_SELECT_MINMAX ? part_query(s, q, room + s->dim) : q;
}

static void turn_queries(const selecting *s, chooser *t, const sixteen *x, hga_id head)
{
    const float *row[KERNEL_TILE];
    for (hga_id i = 0; i < x->n; i++) row[i] = block_query(s, t, x, i, head);
    s->kernels->turn_rows(x->n, row, s->scale, s->columns, t->turned);
}

/* Blocks of x's sample that are scored: n of them, from block `first` of all samples' on; [n, padded][KERNEL_TILE]. */
typedef struct scoring {
    const key_blocks *of;
    hga_id first, n;
    float *out;
} scoring;

/* Add a head's scores. */
static void score_head(const selecting *s, chooser *t, const scoring *b, hga_id head, int is_first)
{
    float product[KERNEL_CHUNK * KERNEL_TILE];
    static const float none[KERNEL_CHUNK];
    const float *key[KERNEL_CHUNK];
    const ptrdiff_t kv = head / (s->n_heads / s->n_kv_heads);
    const float *keys = b->of->rows + (kv * b->of->n + b->first) * s->columns;
    for (hga_id j = 0; j < b->n; j += KERNEL_CHUNK) {
        hga_id some = b->n - j < KERNEL_CHUNK ? b->n - j : KERNEL_CHUNK;
        float *out = b->out + (ptrdiff_t)j * KERNEL_TILE;
        for (hga_id c = 0; c < some; c++) key[c] = keys + (ptrdiff_t)(j + c) * s->columns;
        kernel_tile tile = {
            .n_groups = 1, .n = some, .dim = s->columns, .k = key, .bias = none, .group = {{.q = t->turned}}};
        s->kernels->score_tile(&tile, is_first ? out : product);
        for (hga_id i = 0; !is_first && i < some * KERNEL_TILE; i++) out[i] += product[i];
    }
}

/* Of the chooser's heads together. */
static void score_blocks(const selecting *s, chooser *t, const sixteen *x, hga_id n)
{
    const scoring blocks = {&s->keys, x->sample->block, n, t->pick.score};
    const scoring coarse = {&s->coarse, x->sample->coarse, s->how->coarse ? coarse_before(s, x) : 0, t->pick.coarse};
    for (hga_id h = 0; h < s->choosing; h++) {
        hga_id head = x->chooser * s->choosing + h;
        turn_queries(s, t, x, head);
        score_head(s, t, &blocks, head, h == 0);
        score_head(s, t, &coarse, head, h == 0);
    }
}

static void take_given(const selecting *s, chooser *t, const sixteen *x, hga_id n)
{
    for (hga_id j = 0; j < n; j++)
        for (hga_id i = 0; i < KERNEL_TILE; i++)
            t->pick.score[(ptrdiff_t)j * KERNEL_TILE + i] = i < x->n ? s->in->given[(x->row + i) * s->longest + j] : 0;
}

/* ---- choosing ---- */

/* Write what rows have chosen behind what the thread has, row by row. */
static hga_status note_rows(const selecting *s, chooser *t, const sixteen *x, hga_pos *n_of)
{
    hga_status st = HGA_OK;
    hga_pos at[KERNEL_TILE] = {0}, n = t->n;
    const lanes *chosen = t->pick.chosen;
    for (hga_id j = 0; j < x->sample->n_blocks; j++)
        for (unsigned rows = chosen[j]; rows; rows &= rows - 1) at[__builtin_ctz(rows)]++;
    for (hga_id i = 0; i < x->n; i++) {
        hga_pos here = n_of[x->row + i] = at[i];
        at[i] = n, n += here;
    }
    if (n > t->capacity) HGA_TRY(hga_grow(s->in->allocator, &t->block, &t->capacity, t->n, n, sizeof *t->block));
    for (hga_id j = 0; j < x->sample->n_blocks; j++)
        for (unsigned rows = chosen[j]; rows; rows &= rows - 1) t->block[at[__builtin_ctz(rows)]++] = j;
    t->n = n;
done:
    return st;
}

static void choose_sixteen(const selecting *s, chooser *t, const sixteen *x, hga_pos *n_of)
{
    hga_id n = candidates_of(s->how, x->sample, x->first + x->n - 1).end, bad_block;
    if (s->how->score == HGA_SELECT_GIVEN)
        take_given(s, t, x, n);
    else
        score_blocks(s, t, x, n);
    hga_id bad = pick_sixteen(s, x, &t->pick, &bad_block);
    if (bad >= 0 && (t->bad_row < 0 || x->row + bad < t->bad_row)) t->bad_row = x->row + bad, t->bad_block = bad_block;
    if (bad < 0 && !t->status) t->status = note_rows(s, t, x, n_of);
}

/* ---- threads ---- */

/* Coarse blocks of the longest sample; a sample has no more of them than blocks. */
static int64_t coarse_room(const selecting *s) { return padded(s->longest); }

static hga_status make_chooser(const selecting *s, chooser *t)
{
    hga_status st = HGA_OK;
    const hga_allocator *a = s->in->allocator;
    *t = (chooser){.bad_row = -1};
    HGA_TRY(hga_new(a, (int64_t)padded(s->longest) * KERNEL_TILE, sizeof *t->pick.score, &t->pick.score));
    HGA_TRY(hga_new(a, s->longest, sizeof *t->pick.chosen, &t->pick.chosen));
    HGA_TRY(hga_new(a, s->longest, sizeof *t->pick.forced, &t->pick.forced));
    if (s->how->coarse) HGA_TRY(hga_new(a, coarse_room(s) * KERNEL_TILE, sizeof *t->pick.coarse, &t->pick.coarse));
    if (s->how->coarse) HGA_TRY(hga_new(a, coarse_room(s), sizeof *t->pick.open, &t->pick.open));
    HGA_TRY(hga_new(a, s->how->k ? 0 : s->longest, sizeof *t->pick.heap, &t->pick.heap));
    HGA_TRY(hga_new(a, s->how->k ? 0 : s->longest, sizeof *t->pick.p, &t->pick.p));
    if (s->how->score == HGA_SELECT_GIVEN) return HGA_OK;
    HGA_TRY(hga_new(a, (int64_t)3 * s->dim * KERNEL_TILE, sizeof *t->queries, &t->queries));
    HGA_TRY(hga_new(a, (int64_t)s->columns * KERNEL_TILE, sizeof *t->turned, &t->turned));
done:
    return st;
}

static void drop_chooser(const selecting *s, chooser *t)
{
    const hga_allocator *a = s->in->allocator;
    hga_delete(a, t->pick.score, (int64_t)padded(s->longest) * KERNEL_TILE, sizeof *t->pick.score);
    hga_delete(a, t->pick.chosen, s->longest, sizeof *t->pick.chosen);
    hga_delete(a, t->pick.forced, s->longest, sizeof *t->pick.forced);
    hga_delete(a, t->pick.coarse, coarse_room(s) * KERNEL_TILE, sizeof *t->pick.coarse);
    hga_delete(a, t->pick.open, coarse_room(s), sizeof *t->pick.open);
    hga_delete(a, t->pick.heap, s->how->k ? 0 : s->longest, sizeof *t->pick.heap);
    hga_delete(a, t->pick.p, s->how->k ? 0 : s->longest, sizeof *t->pick.p);
    hga_delete(a, t->queries, (int64_t)3 * s->dim * KERNEL_TILE, sizeof *t->queries);
    hga_delete(a, t->turned, (int64_t)s->columns * KERNEL_TILE, sizeof *t->turned);
    hga_delete(a, t->block, t->capacity, sizeof *t->block);
}

/* Every sixteen of every chooser and sample; how many: with x NULL they are counted. */
static int64_t list_sixteens(const selecting *s, sixteen *x)
{
    int64_t n = 0;
    for (hga_id c = 0; c < s->n_choosers; c++)
        for (const sample_cut *p = s->sample; p < s->sample + s->n_samples; p++)
            for (hga_id i = 0; i < p->n_query_blocks; i += KERNEL_TILE, n++) {
                hga_id some = p->n_query_blocks - i < KERNEL_TILE ? p->n_query_blocks - i : KERNEL_TILE;
                if (x) x[n] = (sixteen){p, c, i, some, (hga_pos)c * s->n_query_blocks + p->query_block + i};
            }
    return n;
}

static hga_status say_what_is_bad(const selecting *s, const chooser *t)
{
    const chooser *first = NULL;
    for (hga_id i = 0; i < s->threads; i++) {
        if (t[i].status) return t[i].status;
        if (t[i].bad_row >= 0 && (!first || t[i].bad_row < first->bad_row)) first = &t[i];
    }
    if (!first) return HGA_OK;
    return hga_fail(HGA_EINVAL, "the score of block %d for query block %lld, chooser %lld, is not a number or +inf",
                    first->bad_block, (long long)(first->bad_row % s->n_query_blocks),
                    (long long)(first->bad_row / s->n_query_blocks));
}

/* What threads noted, in the order of rows; `first` holds how many each row has. */
static hga_status put_together(const selecting *s, const chooser *t, const sixteen *x, const noted *where, int64_t n,
                               hga_chosen *out)
{
    hga_status st = HGA_OK;
    hga_pos sum = 0, rows = (hga_pos)s->n_choosers * s->n_query_blocks;
    for (hga_pos r = 0; r <= rows; r++) {
        hga_pos here = r < rows ? out->first[r] : 0;
        if (here > out->slots) out->slots = (hga_id)here;
        out->first[r] = sum, sum += here;
    }
    HGA_TRY(hga_new(s->in->allocator, sum, sizeof *out->block, &out->block));
    for (int64_t i = 0; i < n; i++)
        memcpy(out->block + out->first[x[i].row], t[where[i].thread].block + where[i].at,
               (size_t)where[i].n * sizeof *out->block);
done:
    return st;
}

static hga_status choose_all(const selecting *s, chooser *t, hga_chosen *out)
{
    hga_status st = HGA_OK;
    sixteen *x = NULL;
    noted *where = NULL;
    const hga_allocator *a = s->in->allocator;
    const int64_t n = list_sixteens(s, NULL);
    HGA_TRY(hga_new(a, n, sizeof *x, &x));
    HGA_TRY(hga_new(a, n, sizeof *where, &where));
    list_sixteens(s, x);
#pragma omp parallel for num_threads(s->threads) schedule(dynamic) if (s->threads > 1)
    for (int64_t i = 0; i < n; i++) {
        hga_id thread = (hga_id)omp_get_thread_num();
        hga_pos before = t[thread].n;
        choose_sixteen(s, &t[thread], &x[i], out->first);
        where[i] = (noted){thread, before, t[thread].n - before};
    }
    HGA_TRY(say_what_is_bad(s, t));
    HGA_TRY(put_together(s, t, x, where, n, out));
done:
    hga_delete(a, x, n, sizeof *x);
    hga_delete(a, where, n, sizeof *where);
    return st;
}

/* ---- the call ---- */

hga_id hga_select_choosers(const hga_selection *s, const hga_shape *shape)
{
    if (s->share == HGA_SELECT_ALL) return 1;
    return s->share == HGA_SELECT_HEAD || shape->n_kv_heads == 0 ? shape->n_heads : shape->n_kv_heads;
}

static hga_status choose_machine(selecting *s)
{
    hga_status st = HGA_OK;
    topology *machine = NULL;
    HGA_TRY(isa_kernels(s->in->isa, &s->kernels));
    HGA_TRY(topology_open(NULL, &machine));
    s->threads = threads_allowed(isa_threads(s->in->threads, machine));
    HGA_TRY(threads_prepare(s->threads));
done:
    topology_close(machine);
    return st;
}

static void find_shape(selecting *s)
{
    const hga_shape *shape = &s->in->shape;
    s->n_heads = shape->n_heads, s->dim = shape->dim;
    s->n_kv_heads = shape->n_kv_heads ? shape->n_kv_heads : shape->n_heads;
    s->n_choosers = hga_select_choosers(s->how, shape);
    s->choosing = s->n_heads / s->n_choosers;
    s->scale = s->in->scale ? *s->in->scale : (float)(1 / sqrt((double)s->dim));
}

hga_status selection_open(selecting *s)
{
    hga_status st = HGA_OK;
    find_shape(s);
    HGA_TRY(choose_machine(s));
    HGA_TRY(blocks_cut(s));
done:
    return st;
}

hga_selection hga_selection_defaults(void)
{
    return (hga_selection){.block = 64, .query_block = 1, .k = 16, .sinks = 1, .local = 1, .coarse_k = 6};
}

hga_status hga_select_blocks(const hga_selection *how, const hga_select_input *in, hga_chosen *out)
{
    hga_status st = HGA_OK;
    selecting s = {.how = how, .in = in};
    chooser *t = NULL;
    *out = (hga_chosen){.allocator = in->allocator};
    HGA_TRY(selection_check(how, in));
    HGA_TRY(selection_open(&s));
    out->n_choosers = s.n_choosers, out->n_query_blocks = s.n_query_blocks;
    HGA_TRY(hga_new_zero(in->allocator, (int64_t)s.n_choosers * s.n_query_blocks + 1, sizeof *out->first, &out->first));
    HGA_TRY(blocks_make(&s));
    HGA_TRY(hga_new_zero(in->allocator, s.threads, sizeof *t, &t));
    for (hga_id i = 0; i < s.threads; i++) HGA_TRY(make_chooser(&s, &t[i]));
    HGA_TRY(choose_all(&s, t, out));
done:
    for (hga_id i = 0; t && i < s.threads; i++) drop_chooser(&s, &t[i]);
    hga_delete(in->allocator, t, s.threads, sizeof *t);
    blocks_drop(&s);
    if (st) hga_chosen_clear(out);
    return st;
}

void hga_chosen_clear(hga_chosen *c)
{
    hga_pos rows = (hga_pos)c->n_choosers * c->n_query_blocks;
    hga_delete(c->allocator, c->block, c->first ? c->first[rows] : 0, sizeof *c->block);
    hga_delete(c->allocator, c->first, rows + 1, sizeof *c->first);
    *c = (hga_chosen){0};
}

void hga_chosen_table(const hga_chosen *c, int32_t *table)
{
    hga_pos rows = (hga_pos)c->n_choosers * c->n_query_blocks;
    for (hga_pos r = 0; r < rows; r++, table += c->slots) {
        hga_id n = (hga_id)(c->first[r + 1] - c->first[r]);
        for (hga_id i = 0; i < c->slots; i++) table[i] = i < n ? c->block[c->first[r] + i] : -1;
    }
}
