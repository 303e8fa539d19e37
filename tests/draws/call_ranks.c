/* call_ranks.c: a call on ranks that are threads of one process, each with its rows of the tensors in drawn layouts and
   types, and tables' gradients of its own. Rows and gradients have the bits of one process, gaps and what is read stay
   as they were, and all ranks say the same. */
#include "calls.h"

#include "filling.h"
#include "hga_dist.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 4, MOST_INTERVALS = 64 };

/* ---- what a rank has ---- */

/* An array's rows: intervals of all of them. Tables that are read have none, since ranks share them. */
typedef struct part {
    array array;
    hga_interval interval[MOST_INTERVALS];
    int64_t n;
    void *block[MOST_SAMPLES], *before[MOST_SAMPLES];
} part;

typedef struct rank {
    const drawn_call *c;
    const call_memory *whole; /* the input of all ranks together */
    hga_exchange *exchange;
    const hga_id *cuts;
    filling memory;
    part part[MOST_ARRAYS];
    void *tape[MOST_SAMPLES];
    pthread_barrier_t *forward_ends;
    hga_status st, back;
    char said[160];
    pthread_t thread;
} rank;

/* Is the array a tensor of hga_grad_io? */
static int is_gradient(const array *a) { return a->use == ARRAY_INPUT || a->use == ARRAY_OUTPUT; }

/* The field whose tensor, or tensor's gradient, the array is; 0: it is a table. */
static hga_id field_of(const drawn_call *c, const array *a)
{
    const hga_program *p = c->program;
    static const struct {
        size_t at, d_at;
        hga_binding bound;
    } known[] = {{offsetof(hga_io, query), offsetof(hga_grad_io, d_query), HGA_IO_QUERY},
                 {offsetof(hga_io, key), offsetof(hga_grad_io, d_key), HGA_IO_KEY},
                 {offsetof(hga_io, value), offsetof(hga_grad_io, d_value), HGA_IO_VALUE},
                 {offsetof(hga_io, out), offsetof(hga_grad_io, d_out), HGA_IO_OUT},
                 {offsetof(hga_io, lse), offsetof(hga_grad_io, d_lse), HGA_IO_OUT}};
    if (!a->is_tensor) return 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (a->at == (is_gradient(a) ? known[i].d_at : known[i].at)) return hga_program_field(p, known[i].bound);
    size_t first = is_gradient(a) ? offsetof(hga_grad_io, d_user) : offsetof(hga_io, user),
           user = (a->at - first) / sizeof(hga_tensor);
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (p->field[f].binding == HGA_IO_USER && user-- == 0) return f;
    return 0;
}

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

static void open_part(rank *r, const hga_plan *plan, int number)
{
    const array *a = &r->c->drawn[number];
    part *p = &r->part[number];
    hga_id f = field_of(r->c, a);
    hga_status st = HGA_OK;
    int64_t rows = 0;
    if (!r->whole->block[0][number] || (!f && a->use != ARRAY_OUTPUT)) return;
    if (f)
        st = hga_plan_rank_rows(plan, f, p->interval, MOST_INTERVALS, &p->n);
    else
        p->interval[0] = (hga_interval){0, a->rows}, p->n = 1;
    if (st || p->n > MOST_INTERVALS) draw_fail("%s has %lld intervals of rows", a->name, (long long)p->n);
    for (int64_t i = 0; i < p->n; i++) rows += p->interval[i].n;
    p->array = of_rows(a, rows);
    for (int s = 0; s < r->c->n_samples; s++) {
        p->block[s] = new_block(&p->array, r->memory.byte);
        if (a->use != ARRAY_WRITTEN) take_rows(p, a, r->whole->block[s][number], p->block[s], 0);
        p->before[s] = new_block(&p->array, 0);
        memcpy(p->before[s], p->block[s], (size_t)p->array.elements * bytes_of(a));
    }
}

/* The whole call's numbers and tables, and the rank's tensors, gradients and tape. */
static void describe(const rank *r, int sample, hga_io *io, hga_grad_io *grad)
{
    filled f = {.arrays = r->c->drawn, .whole = 1, .accumulate = r->c->accumulate};
    call_io(r->c, &f, r->whole, sample, io, grad);
    io->tape = r->tape[sample];
    for (int i = 0; i < r->c->n_arrays; i++) {
        const array *a = &r->part[i].array;
        void *block = r->part[i].block[sample];
        if (!block) continue;
        char *at = (is_gradient(a) ? (char *)grad : (char *)io) + a->at;
        hga_tensor t = {.data = block, .rows = a->rows, .dtype = a->dtype};
        if (!a->packed) t.row_stride = a->row_stride, t.head_stride = a->head_stride;
        memcpy(at, a->is_tensor ? (void *)&t : (void *)&block, a->is_tensor ? sizeof t : sizeof block);
    }
}

/* ---- a run ---- */

static void open_all(rank *r, const hga_plan *plan)
{
    int64_t bytes = hga_plan_tape_bytes(plan);
    for (int i = 0; i < r->c->n_arrays; i++) open_part(r, plan, i);
    for (int s = 0; s < r->c->n_samples && r->c->options.gradient; s++) {
        if (!(r->tape[s] = malloc((size_t)bytes + 1))) draw_fail("no memory for a tape");
        memset(r->tape[s], r->memory.byte, (size_t)bytes);
    }
}

/* A rank at work. */
typedef struct running {
    hga_plan *plan;
    hga_workspace *own[MOST_SAMPLES];
    hga_io io[MOST_SAMPLES];
    hga_grad_io grad[MOST_SAMPLES];
} running;

static hga_status execute(rank *r, const hga_allocator *a, running *x)
{
    hga_status st = HGA_OK;
    const drawn_call *c = r->c;
    hga_ranks ranks = {.exchange = r->exchange, .cuts = r->cuts};
    hga_options options = c->options;
    options.ranks = &ranks, options.allocator = a;
    HGA_TRY(hga_plan_create(c->graph, c->program, &c->shape, &options, &x->plan));
    if (c->updated) HGA_TRY(hga_plan_update(x->plan, c->graph));
    for (int s = 0; s < c->n_samples; s++) HGA_TRY(hga_workspace_create(x->plan, &x->own[s]));
    open_all(r, x->plan);
    for (int s = 0; s < c->n_samples; s++) describe(r, s, &x->io[s], &x->grad[s]);
    if (c->in_batch) return hga_plan_execute_batch(x->plan, x->own, x->io, c->n_samples);
    for (int s = 0; s < c->n_samples; s++) HGA_TRY(hga_plan_execute(x->plan, x->own[s], &x->io[s]));
done:
    return st;
}

static hga_status go_back(const rank *r, running *x)
{
    hga_status st = HGA_OK;
    if (r->c->in_batch) return hga_plan_gradient_batch(x->plan, x->own, x->io, x->grad, r->c->n_samples);
    for (int s = 0; s < r->c->n_samples; s++) HGA_TRY(hga_plan_gradient(x->plan, x->own[s], &x->io[s], &x->grad[s]));
done:
    return st;
}

/* Nobody goes back while others go forward: whoever cannot would end their calls. */
static void run(rank *r)
{
    hga_allocator a = filling_allocator(&r->memory);
    running x = {0};
    r->st = execute(r, &a, &x);
    pthread_barrier_wait(r->forward_ends);
    if (!r->st && r->c->options.gradient) r->back = go_back(r, &x);
    snprintf(r->said, sizeof r->said, "%s", r->st || r->back ? hga_error_detail() : "");
    for (int s = 0; s < r->c->n_samples; s++) hga_workspace_destroy(x.own[s]);
    hga_plan_destroy(x.plan);
}

static void *run_thread(void *r)
{
    run(r);
    return NULL;
}

/* ---- what comes out ---- */

/* The first row that a run writes of an array. */
static int64_t written_from(const array *a, const outcome *one)
{
    if (a->use == ARRAY_WRITTEN) return 0;
    if (a->use == ARRAY_OUTPUT) return one->backward ? a->rows : 0;
    return a->use == ARRAY_INPUT ? a->rows : a->written_from;
}

/* Of the rows that one process has written, the rank's have these bits, and nothing else was written. */
static void compare_part(const rank *r, int number, const outcome *one)
{
    const array *a = &r->c->drawn[number];
    const part *p = &r->part[number];
    for (int s = 0; s < r->c->n_samples; s++) {
        if (!p->block[s]) continue;
        take_rows(p, a, one->memory.block[s][number], p->before[s], written_from(a, one));
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
    for (int s = 0; s < MOST_SAMPLES; s++) free(r->tape[s]);
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
    filled input = one->filled;
    call_memory whole = {{{0}}};
    rank *ranks = calloc((size_t)n, sizeof *ranks);
    if (!ranks) draw_fail("no memory for %d ranks", n);
    memory_fill(c, &input, &whole);
    draw_cuts(drawn, hga_graph_nodes(c->graph).level_ptr[1], n, cuts);
    pthread_barrier_t forward_ends;
    if (hga_dist_in_process(n, &wire, xs)) draw_fail("%s", hga_error_detail());
    if (pthread_barrier_init(&forward_ends, NULL, (unsigned)n)) draw_fail("no barrier");
    for (hga_id r = 0; r < n; r++) {
        ranks[r] = (rank){.c = c,
                          .whole = &whole,
                          .exchange = &xs[r],
                          .cuts = cuts,
                          .memory = {.byte = 0xff},
                          .forward_ends = &forward_ends};
        if (pthread_create(&ranks[r].thread, NULL, run_thread, &ranks[r])) draw_fail("no thread for rank %d", r);
    }
    for (hga_id r = 0; r < n; r++) pthread_join(ranks[r].thread, NULL);
    pthread_barrier_destroy(&forward_ends);
    fate->on_ranks = ranks[0].st, fate->back_on_ranks = ranks[0].back;
    snprintf(fate->refused_on_ranks, sizeof fate->refused_on_ranks, "%s", ranks[0].said);
    for (hga_id r = 0; r < n; r++) {
        if (ranks[r].st != fate->on_ranks)
            draw_fail("rank %d: %s (%s), and rank 0: %s (%s)", r, hga_status_name(ranks[r].st), ranks[r].said,
                      hga_status_name(fate->on_ranks), fate->refused_on_ranks);
        if (!ranks[r].st && c->options.gradient && ranks[r].back != one->backward)
            draw_fail("rank %d back: %s (%s), and one process: %s (%s)", r, hga_status_name(ranks[r].back),
                      ranks[r].said, hga_status_name(one->backward), one->refused);
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
    bare.rows = HGA_EVERY_ROW, bare.keep_fields = bare.gradient = 0;
    hga_options some = bare, stay = bare, keeps = bare;
    some.rows = HGA_SOME_ROWS, stay.rows = HGA_ROWS_THAT_STAY, keeps.keep_fields = 1;
    if (c->options.rows && is_refused(c, &some, "rows")) refused |= RANKS_WITHOUT_SOME_ROWS;
    if (c->options.rows == HGA_ROWS_THAT_STAY && is_refused(c, &stay, "rows")) refused |= RANKS_WITHOUT_ROWS_THAT_STAY;
    if (c->options.keep_fields && is_refused(c, &keeps, "keep_fields")) refused |= RANKS_WITHOUT_KEPT_FIELDS;
    return refused;
}

void call_hold_on_ranks(const drawn_call *c, call_fate *fate)
{
    drawn_call all = *c;
    choices drawn = choices_of_seed(c->seed + 7);
    fate->ranks_without = refused_with(c);
    call_drop_edges(&all); /* ranks refuse them: test_edge_values.c */
    all.options.rows = HGA_EVERY_ROW, all.options.keep_fields = 0;
    memset(all.asked, 0, sizeof all.asked);
    for (int i = 0; i < all.n_arrays; i++)
        if (all.drawn[i].fold) all.drawn[i] = all.plain[i]; /* ranks refuse folds: test_folds.c */
    filled f = {.arrays = all.drawn, .byte = 0xff, .whole = 1, .accumulate = all.accumulate, .wanted = all.wanted};
    way w = {.name = "in one process", .options = all.options, .filled = f};
    outcome one = call_run(&all, &w);
    fate->on_ranks = one.forward;
    if (one.forward == HGA_OK) run_together(&drawn, &all, &one, fate);
    outcome_clear(&one);
}
