/* call_ranks.c: a call on ranks that are threads of one process, each with its rows of the tensors in drawn layouts and
   types. Rows have the bits of one process, gaps and what is read stay as they were, and all ranks say the same. */
#include "calls.h"

#include "filling.h"
#include "hga_dist.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 4, MOST_INTERVALS = 64 };

/* ---- what a rank has ---- */

/* An array's rows: intervals of all of them, none of a table, which ranks share. */
typedef struct part {
    array array;
    hga_interval interval[MOST_INTERVALS];
    int64_t n;
    void *block[MOST_SAMPLES], *before[MOST_SAMPLES];
} part;

typedef struct rank {
    const drawn_call *c;
    const call_memory *whole; /* what all ranks together are given */
    hga_exchange *exchange;
    const hga_id *cuts;
    filling memory;
    part part[MOST_ARRAYS];
    hga_status st;
    char said[160];
    pthread_t thread;
} rank;

/* The field whose tensor the array is; 0: it is a table. */
static hga_id field_of(const drawn_call *c, const array *a)
{
    const hga_program *p = c->program;
    static const struct {
        size_t at;
        hga_binding bound;
    } known[] = {{offsetof(hga_io, query), HGA_IO_QUERY},
                 {offsetof(hga_io, key), HGA_IO_KEY},
                 {offsetof(hga_io, value), HGA_IO_VALUE},
                 {offsetof(hga_io, out), HGA_IO_OUT},
                 {offsetof(hga_io, lse), HGA_IO_OUT}};
    if (!a->is_tensor) return 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (a->at == known[i].at) return hga_program_field(p, known[i].bound);
    size_t user = (a->at - offsetof(hga_io, user)) / sizeof(hga_tensor);
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (p->field[f].binding == HGA_IO_USER && user-- == 0) return f;
    return 0;
}

static int is_used(const array *a) { return a->use == ARRAY_READ || a->use == ARRAY_WRITTEN; }

/* The same layout of so many rows. */
static array of_rows(const array *a, int64_t rows)
{
    array x = *a;
    ptrdiff_t gap = a->head_stride - (ptrdiff_t)a->rows * a->row_stride;
    x.rows = rows;
    if (a->row_stride < a->head_stride && gap >= 0) x.head_stride = (ptrdiff_t)rows * a->row_stride + gap;
    x.elements = rows ? (rows - 1) * x.row_stride + (x.heads - 1) * x.head_stride + x.columns : 0;
    return x;
}

static size_t bytes_of(const array *a) { return a->dtype == HGA_F32 ? sizeof(float) : sizeof(uint16_t); }

static char *row_at(const array *a, void *block, int64_t row, hga_id head)
{
    return (char *)block + (size_t)(row * a->row_stride + head * a->head_stride) * bytes_of(a);
}

/* Rows of the whole, from number `from` on, to the rank's. */
static void take_rows(const part *p, const array *whole, void *from, void *to, int64_t first)
{
    int64_t row = 0;
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t k = 0; k < p->interval[i].n; k++, row++)
            for (hga_id h = 0; h < whole->heads && p->interval[i].first + k >= first; h++)
                memcpy(row_at(&p->array, to, row, h), row_at(whole, from, p->interval[i].first + k, h),
                       (size_t)whole->columns * bytes_of(whole));
}

static void *new_block(const array *a, int byte)
{
    size_t bytes = (size_t)a->elements * bytes_of(a);
    void *block = malloc(bytes + 1);
    if (!block) draw_fail("no memory for %s", a->name);
    memset(block, byte, bytes);
    return block;
}

static hga_status open_part(rank *r, const hga_plan *plan, int number)
{
    const array *a = &r->c->drawn[number];
    part *p = &r->part[number];
    hga_id f = field_of(r->c, a);
    int64_t rows = 0;
    if (!is_used(a) || !f) return HGA_OK;
    hga_status st = hga_plan_rank_rows(plan, f, p->interval, MOST_INTERVALS, &p->n);
    if (st || p->n > MOST_INTERVALS) draw_fail("%s has %lld intervals of rows", a->name, (long long)p->n);
    for (int64_t i = 0; i < p->n; i++) rows += p->interval[i].n;
    p->array = of_rows(a, rows);
    for (int s = 0; s < r->c->n_samples; s++) {
        p->block[s] = new_block(&p->array, r->memory.byte);
        if (a->use == ARRAY_READ) take_rows(p, a, r->whole->block[s][number], p->block[s], 0);
        p->before[s] = new_block(&p->array, 0);
        memcpy(p->before[s], p->block[s], (size_t)p->array.elements * bytes_of(a));
    }
    return HGA_OK;
}

/* The whole call's numbers and tables, and the rank's tensors. */
static hga_io io_of(const rank *r, int sample)
{
    hga_io io;
    hga_grad_io grad;
    filled f = {.arrays = r->c->drawn, .whole = 1};
    call_io(r->c, &f, r->whole, sample, &io, &grad);
    for (int i = 0; i < r->c->n_arrays; i++) {
        const array *a = &r->part[i].array;
        if (!r->part[i].block[sample]) continue;
        hga_tensor t = {.data = r->part[i].block[sample], .rows = a->rows, .dtype = a->dtype};
        if (!a->packed) t.row_stride = a->row_stride, t.head_stride = a->head_stride;
        memcpy((char *)&io + a->at, &t, sizeof t);
    }
    return io;
}

/* ---- a run ---- */

static hga_status execute(rank *r, const hga_plan *plan, hga_workspace **own)
{
    hga_io io[MOST_SAMPLES];
    hga_status st = HGA_OK;
    for (int i = 0; i < r->c->n_arrays; i++) HGA_TRY(open_part(r, plan, i));
    for (int s = 0; s < r->c->n_samples; s++) io[s] = io_of(r, s);
    if (r->c->in_batch) return hga_plan_execute_batch(plan, own, io, r->c->n_samples);
    for (int s = 0; s < r->c->n_samples; s++) HGA_TRY(hga_plan_execute(plan, own[s], &io[s]));
done:
    return st;
}

static hga_status run(rank *r)
{
    hga_allocator a = filling_allocator(&r->memory);
    hga_ranks ranks = {.exchange = r->exchange, .cuts = r->cuts};
    hga_options options = r->c->options;
    hga_plan *plan = NULL;
    hga_workspace *own[MOST_SAMPLES] = {NULL};
    hga_status st = HGA_OK;
    options.ranks = &ranks, options.allocator = &a;
    HGA_TRY(hga_plan_create(r->c->graph, r->c->program, &r->c->shape, &options, &plan));
    if (r->c->updated) HGA_TRY(hga_plan_update(plan, r->c->graph));
    for (int s = 0; s < r->c->n_samples; s++) HGA_TRY(hga_workspace_create(plan, &own[s]));
    HGA_TRY(execute(r, plan, own));
done:
    snprintf(r->said, sizeof r->said, "%s", st ? hga_error_detail() : "");
    for (int s = 0; s < r->c->n_samples; s++) hga_workspace_destroy(own[s]);
    hga_plan_destroy(plan);
    return st;
}

static void *run_thread(void *r)
{
    ((rank *)r)->st = run(r);
    return NULL;
}

/* ---- what comes out ---- */

/* Of the rows that one process has written, the rank's have these bits, and nothing else was written. */
static void compare_part(const rank *r, int number, const outcome *one)
{
    const array *a = &r->c->drawn[number];
    const part *p = &r->part[number];
    for (int s = 0; s < r->c->n_samples; s++) {
        if (!p->block[s]) continue;
        take_rows(p, a, one->memory.block[s][number], p->before[s], a->use == ARRAY_WRITTEN ? 0 : a->written_from);
        const unsigned char *was = p->before[s], *now = p->block[s];
        for (size_t b = 0; b < (size_t)p->array.elements * bytes_of(a); b++)
            if (was[b] != now[b])
                draw_fail("rank %d of %d: element %zu of its %s of sample %d has not the bits of one process",
                          r->exchange->rank, r->exchange->n_ranks, b / bytes_of(a), a->name, s);
    }
}

static void close_rank(rank *r)
{
    for (int i = 0; i < r->c->n_arrays; i++)
        for (int s = 0; s < r->c->n_samples; s++) free(r->part[i].block[s]), free(r->part[i].before[s]);
    hga_dist_destroy(r->exchange);
    if (r->memory.live) draw_fail("on ranks: %lld blocks were not given back", (long long)r->memory.live);
}

/* Anywhere, ranks without tokens among them. */
static void draw_cuts(choices *c, hga_id tokens, hga_id n_ranks, hga_id *cuts)
{
    cuts[0] = 0, cuts[n_ranks] = tokens;
    for (hga_id r = 1; r < n_ranks; r++) {
        hga_id at = choose(c, tokens + 1), i = r;
        for (; cuts[i - 1] > at; i--) cuts[i] = cuts[i - 1];
        cuts[i] = at;
    }
}

static void run_together(choices *drawn, const drawn_call *c, const outcome *one, call_fate *fate)
{
    hga_exchange xs[MOST_RANKS];
    hga_id cuts[MOST_RANKS + 1], n = 1 + choose(drawn, MOST_RANKS);
    const hga_dist_wire wire = {.most_delay = rarely(drawn, 3) ? 1e-4 : 0, .seed = c->seed, .fill = 1};
    filled given = {.arrays = c->drawn, .byte = 0xff, .whole = 1};
    call_memory whole = {{{0}}};
    rank *ranks = calloc((size_t)n, sizeof *ranks);
    if (!ranks) draw_fail("no memory for %d ranks", n);
    memory_fill(c, &given, &whole);
    draw_cuts(drawn, hga_graph_nodes(c->graph).level_ptr[1], n, cuts);
    if (hga_dist_in_process(n, &wire, xs)) draw_fail("%s", hga_error_detail());
    for (hga_id r = 0; r < n; r++) {
        ranks[r] = (rank){.c = c, .whole = &whole, .exchange = &xs[r], .cuts = cuts, .memory = {.byte = 0xff}};
        if (pthread_create(&ranks[r].thread, NULL, run_thread, &ranks[r])) draw_fail("no thread for rank %d", r);
    }
    for (hga_id r = 0; r < n; r++) pthread_join(ranks[r].thread, NULL);
    fate->on_ranks = ranks[0].st;
    snprintf(fate->refused_on_ranks, sizeof fate->refused_on_ranks, "%s", ranks[0].said);
    for (hga_id r = 0; r < n; r++) {
        if (ranks[r].st != fate->on_ranks)
            draw_fail("rank %d: %s (%s), and rank 0: %s (%s)", r, hga_status_name(ranks[r].st), ranks[r].said,
                      hga_status_name(fate->on_ranks), fate->refused_on_ranks);
        for (int i = 0; i < c->n_arrays && !ranks[r].st; i++) compare_part(&ranks[r], i, one);
    }
    for (hga_id r = 0; r < n; r++) close_rank(&ranks[r]);
    memory_clear(&whole);
    free(ranks);
}

/* ---- what ranks do not do ---- */

/* Options that are refused with ranks, one at a time, on the only rank of a run. */
static int is_refused(const drawn_call *c, const hga_options *o, const char *name)
{
    hga_exchange x;
    hga_plan *plan = NULL;
    hga_options options = *o;
    char says[64];
    const hga_id cuts[] = {0, hga_graph_nodes(c->graph).level_ptr[1]};
    if (hga_dist_in_process(1, NULL, &x)) draw_fail("%s", hga_error_detail());
    options.ranks = &(hga_ranks){.exchange = &x, .cuts = cuts};
    hga_status st = hga_plan_create(c->graph, c->program, &c->shape, &options, &plan);
    snprintf(says, sizeof says, "ranks: not with options.%s", name);
    int refused = st == HGA_EUNSUPPORTED && strstr(hga_error_detail(), says);
    if (!refused) draw_fail("ranks with %s: %s, %s", name, hga_status_name(st), hga_error_detail());
    hga_plan_destroy(plan);
    hga_dist_destroy(&x);
    return refused;
}

static unsigned refused_with(const drawn_call *c)
{
    hga_options bare = c->options;
    unsigned refused = 0;
    bare.ranges = bare.slices = bare.keep_fields = bare.gradient = 0;
    hga_options ranges = bare, slices = bare, keeps = bare;
    ranges.ranges = slices.slices = keeps.keep_fields = 1;
    if (c->options.ranges && is_refused(c, &ranges, "ranges")) refused |= RANKS_WITHOUT_RANGES;
    if (c->options.slices && is_refused(c, &slices, "slices")) refused |= RANKS_WITHOUT_SLICES;
    if (c->options.keep_fields && is_refused(c, &keeps, "keep_fields")) refused |= RANKS_WITHOUT_KEPT_FIELDS;
    return refused;
}

void call_hold_on_ranks(const drawn_call *c, call_fate *fate)
{
    drawn_call all = *c;
    choices drawn = choices_of_seed(c->seed + 7);
    fate->ranks_without = refused_with(c);
    all.options.ranges = all.options.slices = all.options.keep_fields = all.options.gradient = 0;
    memset(all.n_rows, 0, sizeof all.n_rows), memset(all.first_row, 0, sizeof all.first_row);
    way w = {
        .name = "in one process", .options = all.options, .filled = {.arrays = all.drawn, .byte = 0xff, .whole = 1}};
    outcome one = call_run(&all, &w);
    fate->on_ranks = one.forward;
    if (one.forward == HGA_OK) run_together(&drawn, &all, &one, fate);
    outcome_clear(&one);
}
