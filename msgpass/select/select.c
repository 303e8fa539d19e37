/* select.c: the call: threads score sixteen query blocks of one chooser at a time against all candidates with the
   tile's products, and record what each chooses. */
#include "sampled.h"
#include "select.h"
#include "selection_check.h"

#include <math.h>
#include <omp.h>
#include <string.h>

/* The state of a thread. */
typedef struct chooser {
    picker pick;
    sampler sample;
    float *queries;    /* [KERNEL_TILE][3 dim] */
    float *transposed; /* [columns][KERNEL_TILE] */
    hga_id *block;     /* the choices of its rows, contiguous */
    hga_pos n, capacity;
    hga_pos bad_row; /* the first row with a bad score, and the block; -1: none */
    hga_id bad_block;
    hga_status status;
} chooser;

/* The thread, offset and number of a sixteen's chosen blocks. */
typedef struct noted {
    hga_id thread;
    hga_pos at, n;
} noted;

static hga_id whole_chunks(hga_id n) { return (n + KERNEL_CHUNK - 1) / KERNEL_CHUNK * KERNEL_CHUNK; }

/* ---- scores ---- */

/* A query for bounds: its positive part meets the greatest, its negative part the least. */
static const float *part_query(const selecting *s, const float *q, float *out)
{
    for (hga_id j = 0; j < s->dim; j++) {
        out[j] = q[j] < 0 ? 0 : q[j];
        out[s->dim + j] = q[j] > 0 ? 0 : q[j];
    }
    return out;
}

/* Row i's query block of head `head`. */
static const float *block_query(const selecting *s, chooser *t, const sixteen *x, hga_id i, hga_id head)
{
    float *buffer = t->queries + (ptrdiff_t)i * 3 * s->dim;
    const hga_id block = query_block_of(x, i);
    if (s->queries) return s->queries + ((ptrdiff_t)head * s->n_query_blocks + x->sample->query_block + block) * s->dim;
    const float *q = query_row(s, (int64_t)x->sample->token + block, head, buffer);
    if (s->in->precision == HGA_PRECISION_BF16) s->kernels->round_bf16(s->dim, q, buffer), q = buffer;
    return s->how->score == HGA_SELECT_MINMAX ? part_query(s, q, buffer + s->dim) : q;
}

static void transpose_queries(const selecting *s, chooser *t, const scored_rows *r)
{
    const float *row[KERNEL_TILE] = {NULL};
    for (hga_id i = r->first; i < r->end; i++) row[i] = block_query(s, t, r->x, i, head_of(s, r->x, i, r->h));
    s->kernels->transpose_rows(r->end, row, s->scale, s->columns, t->transposed);
}

/* The blocks of x's sample to score: n of them, from block `first` of all samples on; [n, padded][KERNEL_TILE]. */
typedef struct scoring {
    const key_blocks *of;
    hga_id first, n;
    float *out;
} scoring;

/* Stores the scores of `some` blocks, or, after the first head, adds them. */
static void take_scores(const scored_rows *r, hga_id some, const float *product, float *out)
{
    for (hga_id i = 0; i < some * KERNEL_TILE; i += KERNEL_TILE)
        for (hga_id k = i + r->first; k < i + r->end; k++) out[k] = r->h == 0 ? product[k] : out[k] + product[k];
}

/* Scores of the rows with all candidates, KERNEL_CHUNK blocks at a time. */
static void score_rows(const selecting *s, chooser *t, const scoring *b, const scored_rows *r)
{
    float product[KERNEL_CHUNK * KERNEL_TILE];
    static const float none[KERNEL_CHUNK];
    const float *key[KERNEL_CHUNK];
    const ptrdiff_t all = (ptrdiff_t)r->kv * b->of->n + b->first;
    const int alone = r->h == 0 && r->first == 0 && r->end == r->x->n;
    for (hga_id j = 0; j < b->n; j += KERNEL_CHUNK) {
        hga_id some = b->n - j < KERNEL_CHUNK ? b->n - j : KERNEL_CHUNK;
        float *out = b->out + (ptrdiff_t)j * KERNEL_TILE;
        for (hga_id c = 0; c < some; c++)
            key[c] =
                b->of->at ? b->of->at[j + c] + (ptrdiff_t)r->kv * s->columns : b->of->rows + (all + j + c) * s->columns;
        kernel_tile tile = {
            .n_groups = 1, .n = some, .dim = s->columns, .k = key, .terms.bias = none, .group = {{.q = t->transposed}}};
        s->kernels->score_tile(&tile, alone ? out : product);
        if (!alone) take_scores(r, some, product, out);
    }
}

/* Scores of the blocks, summed over each chooser's heads. */
static void score_blocks(const selecting *s, chooser *t, const sixteen *x, hga_id n)
{
    const scoring blocks = {&s->keys, x->sample->block, n, t->pick.score};
    const scoring coarse = {&s->coarse, x->sample->coarse, s->how->coarse ? coarse_before(s, x) : 0, t->pick.coarse};
    for (hga_id h = 0; h < s->choosing; h++)
        for (scored_rows r = rows_from(s, x, 0, h);; r = rows_from(s, x, r.end, h)) {
            transpose_queries(s, t, &r);
            score_rows(s, t, &blocks, &r);
            score_rows(s, t, &coarse, &r);
            if (r.end == x->n) break;
        }
}

static void copy_scores(const selecting *s, chooser *t, const sixteen *x, hga_id n)
{
    for (hga_id j = 0; j < n; j++)
        for (hga_id i = 0; i < KERNEL_TILE; i++)
            t->pick.score[(ptrdiff_t)j * KERNEL_TILE + i] = i < x->n ? s->in->scores[(x->row + i) * s->longest + j] : 0;
}

/* ---- choosing ---- */

/* Appends the rows' choices to the thread's, row by row. */
static hga_status note_chosen(const selecting *s, chooser *t, const sixteen *x, hga_pos *n_of)
{
    hga_status st = HGA_OK;
    hga_pos at[KERNEL_TILE] = {0}, n = t->n;
    const lane_mask *chosen = t->pick.chosen;
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

/* Scores and chooses for sixteen query blocks; the first bad score is recorded in *t. */
static void choose_sixteen(const selecting *s, chooser *t, const sixteen *x, hga_pos *n_of)
{
    hga_id n = candidates_of(s->how, x->sample, last_query_block(x)).end, bad_block, bad = -1;
    if (s->how->score == HGA_SELECT_SCORES)
        copy_scores(s, t, x, n);
    else if (s->how->score == HGA_SELECT_SAMPLE)
        bad = sampled_score(s, &t->sample, x, n, t->pick.score, &bad_block);
    else
        score_blocks(s, t, x, n);
    if (bad < 0) bad = pick_sixteen(s, x, &t->pick, &bad_block);
    if (bad >= 0 && (t->bad_row < 0 || x->row + bad < t->bad_row)) t->bad_row = x->row + bad, t->bad_block = bad_block;
    if (bad < 0 && !t->status) t->status = note_chosen(s, t, x, n_of);
}

/* ---- threads ---- */

/* Coarse blocks of the longest sample; a sample has no more of them than blocks. */
static int64_t coarse_bytes(const selecting *s) { return whole_chunks(s->longest); }

/* Allocates a thread's state, for the longest sample. */
static hga_status make_chooser(const selecting *s, chooser *t)
{
    hga_status st = HGA_OK;
    const hga_allocator *a = s->in->allocator;
    *t = (chooser){.bad_row = -1, .pick.weights = s->how->score == HGA_SELECT_SAMPLE};
    HGA_TRY(hga_new(a, (int64_t)whole_chunks(s->longest) * KERNEL_TILE, sizeof *t->pick.score, &t->pick.score));
    HGA_TRY(hga_new(a, s->longest, sizeof *t->pick.chosen, &t->pick.chosen));
    HGA_TRY(hga_new(a, s->longest, sizeof *t->pick.forced, &t->pick.forced));
    if (s->how->coarse) HGA_TRY(hga_new(a, coarse_bytes(s) * KERNEL_TILE, sizeof *t->pick.coarse, &t->pick.coarse));
    if (s->how->coarse) HGA_TRY(hga_new(a, coarse_bytes(s), sizeof *t->pick.open, &t->pick.open));
    HGA_TRY(hga_new(a, by_number(s->how) ? 0 : s->longest, sizeof *t->pick.heap, &t->pick.heap));
    HGA_TRY(hga_new(a, by_number(s->how) ? 0 : s->longest, sizeof *t->pick.p, &t->pick.p));
    if (s->how->score == HGA_SELECT_SCORES) return HGA_OK;
    if (s->how->score == HGA_SELECT_SAMPLE) return sampler_make(s, &t->sample);
    HGA_TRY(hga_new(a, (int64_t)3 * s->dim * KERNEL_TILE, sizeof *t->queries, &t->queries));
    HGA_TRY(hga_new(a, (int64_t)s->columns * KERNEL_TILE, sizeof *t->transposed, &t->transposed));
done:
    return st;
}

static void drop_chooser(const selecting *s, chooser *t)
{
    const hga_allocator *a = s->in->allocator;
    sampler_drop(s, &t->sample);
    hga_delete(a, t->pick.score, (int64_t)whole_chunks(s->longest) * KERNEL_TILE, sizeof *t->pick.score);
    hga_delete(a, t->pick.chosen, s->longest, sizeof *t->pick.chosen);
    hga_delete(a, t->pick.forced, s->longest, sizeof *t->pick.forced);
    hga_delete(a, t->pick.coarse, coarse_bytes(s) * KERNEL_TILE, sizeof *t->pick.coarse);
    hga_delete(a, t->pick.open, coarse_bytes(s), sizeof *t->pick.open);
    hga_delete(a, t->pick.heap, by_number(s->how) ? 0 : s->longest, sizeof *t->pick.heap);
    hga_delete(a, t->pick.p, by_number(s->how) ? 0 : s->longest, sizeof *t->pick.p);
    hga_delete(a, t->queries, (int64_t)3 * s->dim * KERNEL_TILE, sizeof *t->queries);
    hga_delete(a, t->transposed, (int64_t)s->columns * KERNEL_TILE, sizeof *t->transposed);
    hga_delete(a, t->block, t->capacity, sizeof *t->block);
}

/* The number of choosers whose query blocks share a sixteen: more than 1 for one sample with few. */
static hga_id choosers_together(const selecting *s)
{
    const hga_id some = s->n_samples == 1 && s->n_query_blocks > 0 ? KERNEL_TILE / s->n_query_blocks : 0;
    return some > 1 ? some : 1;
}

/* Lists every sixteen of every chooser and sample; returns their number. x NULL: only counts. */
static int64_t list_sixteens(const selecting *s, sixteen *x)
{
    int64_t n = 0;
    const hga_id together = choosers_together(s);
    for (hga_id c = 0; c < s->n_choosers; c += together)
        for (const sample_cut *p = s->sample; p < s->sample + s->n_samples; p++)
            for (hga_id i = p->first_query; i < p->n_query_blocks; i += KERNEL_TILE, n++) {
                hga_id each = p->n_query_blocks - i < KERNEL_TILE ? p->n_query_blocks - i : KERNEL_TILE;
                hga_id some = s->n_choosers - c < together ? s->n_choosers - c : together;
                hga_pos row = (hga_pos)c * s->n_query_blocks + p->query_block + i;
                if (x) x[n] = (sixteen){p, c, i, each, some * each, row};
            }
    return n;
}

/* A thread's failure, or the first row with a bad score, whichever thread had it. */
static hga_status say_what_is_bad(const selecting *s, const chooser *t)
{
    const chooser *first = NULL;
    for (hga_id i = 0; i < s->threads; i++) {
        if (t[i].status) return t[i].status;
        if (t[i].bad_row >= 0 && (!first || t[i].bad_row < first->bad_row)) first = &t[i];
    }
    if (!first) return HGA_OK;
    return hga_fail(HGA_EINVAL, "the score of block %d for query block %lld, chooser %lld, is not a number or +inf",
                    first->bad_block, (long long)(s->sample->first_query + first->bad_row % s->n_query_blocks),
                    (long long)(first->bad_row / s->n_query_blocks));
}

/* Joins the threads' choices in the order of rows; `first` holds how many each row has. */
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

/* Threads take sixteens dynamically; their choices are joined in the order of rows. */
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

/* Finds the kernels, and the number of threads that may run. */
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

void selecting_find_shape(selecting *s)
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
    selecting_find_shape(s);
    HGA_TRY(choose_machine(s));
    HGA_TRY(blocks_cut(s));
done:
    return st;
}

hga_selection hga_selection_defaults(void)
{
    return (hga_selection){.block = 64, .query_block = 1, .k = 16, .sinks = 1, .local = 1, .coarse_k = 6, .sample = 4};
}

/* The choice of all query blocks, once blocks are made. */
hga_status selecting_choose(const selecting *s, hga_chosen *out)
{
    hga_status st = HGA_OK;
    chooser *t = NULL;
    const hga_allocator *a = s->in->allocator;
    *out = (hga_chosen){.n_choosers = s->n_choosers, .n_query_blocks = s->n_query_blocks, .allocator = a};
    HGA_TRY(hga_new_zero(a, (int64_t)s->n_choosers * s->n_query_blocks + 1, sizeof *out->first, &out->first));
    HGA_TRY(hga_new_zero(a, s->threads, sizeof *t, &t));
    for (hga_id i = 0; i < s->threads; i++) HGA_TRY(make_chooser(s, &t[i]));
    HGA_TRY(choose_all(s, t, out));
done:
    for (hga_id i = 0; t && i < s->threads; i++) drop_chooser(s, &t[i]);
    hga_delete(a, t, s->threads, sizeof *t);
    if (st) hga_chosen_clear(out);
    return st;
}

hga_status hga_select_blocks(const hga_selection *how, const hga_select_input *in, hga_chosen *out)
{
    hga_status st = HGA_OK;
    selecting s = {.how = how, .in = in};
    *out = (hga_chosen){.allocator = in->allocator};
    HGA_TRY(selection_check(how, in));
    HGA_TRY(selection_open(&s));
    HGA_TRY(blocks_make(&s));
    HGA_TRY(sampled_pack(&s));
    HGA_TRY(selecting_choose(&s, out));
done:
    sampled_drop(&s);
    blocks_drop(&s);
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
