/* exchange_back.h: ranks that are threads of one process run backward, beside the same problem in one process, whose
   bits their gradients have. */
#ifndef EXCHANGE_BACK_H
#define EXCHANGE_BACK_H

#include "call.h"
#include "exchange.h"
#include "plan.h"

/* ---- gradients of some rows ---- */

/* What a call wants: of every tensor, and of every table that the problem has. */
typedef struct gradients {
    hga_grad_io grad;
    void *owned[HGA_FIELD_SLOTS + 1], *lse;
    float *table[HGA_N_TABLES];
    int64_t entries[HGA_N_TABLES];
} gradients;

static inline void want_tables(const problem *p, gradients *g)
{
    int scores = find_stage(&p->program, HGA_SCORE) != NULL;
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        int always = t == HGA_TABLE_SCALE || t == HGA_TABLE_LOG_MASS;
        int wanted = call_row(t)->is & HGA_CALL_GRADIENT && (always ? scores : p->io.table[t].data != NULL);
        g->entries[t] = wanted ? hga_call_entries(t, &p->shape, hga_graph_nodes(p->graph).n, &p->io) : 0;
        if (!wanted) continue;
        g->grad.d_table[t] = g->table[t] = memory(g->entries[t], sizeof(float));
        for (int64_t k = 0; k < g->entries[t]; k++) g->table[t][k] = 0.25f; /* what is there, where a call adds */
    }
}

/* Numbers of a row of the whole problem, whichever rank has it. */
static inline void fill_row(hga_tensor *t, hga_id heads, hga_id columns, int64_t row, int64_t whole, uint64_t seed)
{
    float *x = random_floats(seed + (uint64_t)whole * 977, 1, (int64_t)heads * columns);
    for (hga_id h = 0; h < heads; h++)
        store_numbers(t->dtype, x + (int64_t)h * columns, columns, tensor_at(t, heads, columns, row, h));
    free(x);
}

static inline void fill_rows(const some_rows *of, hga_tensor *t, hga_id heads, hga_id columns, uint64_t seed)
{
    int64_t row = 0;
    for (int64_t i = 0; i < of->n_intervals; i++)
        for (int64_t k = 0; k < of->rows[i].n; k++, row++)
            fill_row(t, heads, columns, row, of->rows[i].first + k, seed);
}

/* The output's gradient has the layout and type of tensors; gradients, of float32, have the other layouts. */
static inline void open_gradients(const problem *p, const tensors *t, layout l, int accumulate, gradients *g)
{
    layout wanted = l == F16_WIDE ? HEADS_FIRST : l == HEADS_FIRST ? HEADS_FIRST : PACKED;
    *g = (gradients){.grad = {.accumulate = accumulate}};
    for (hga_id f = 1; f <= p->program.n_fields; f++) {
        hga_binding of = p->program.field[f].binding;
        if (of == HGA_INTERNAL) continue;
        hga_id heads = program_heads(&p->program, &p->shape, f), columns = program_columns(&p->program, &p->shape, f);
        hga_tensor *to = (hga_tensor *)program_gradient(&p->program, &g->grad, f);
        *to = empty_tensor(of == HGA_IO_OUT ? l : wanted, t->of[f].n, heads, columns, &g->owned[f]);
        fill_rows(&t->of[f], to, heads, columns, 50 + (uint64_t)f);
    }
    want_tables(p, g);
    if (!p->program.has_lse) return;
    hga_id out = program_bound(&p->program, HGA_IO_OUT);
    g->grad.d_lse = empty_tensor(PACKED, t->of[out].n, p->shape.n_heads, 1, &g->lse);
    fill_rows(&t->of[out], &g->grad.d_lse, p->shape.n_heads, 1, 49);
}

static inline void close_gradients(gradients *g)
{
    for (int i = 0; i < HGA_FIELD_SLOTS; i++) free(g->owned[i]);
    for (int i = 0; i < HGA_N_TABLES; i++) free(g->table[i]);
    free(g->lse);
}

/* ---- bits ---- */

/* Compares a rank's own rows, and all tables. */
static inline void expect_bits(const problem *p, const char *how, hga_id rank, const tensors *rows,
                               const gradients *got, const gradients *want)
{
    for (hga_id f = 1; f <= p->program.n_fields; f++)
        if (program_is_input(p->program.field[f].binding))
            compare(p, how, rank, rows, f, program_gradient(&p->program, &got->grad, f),
                    program_gradient(&p->program, &want->grad, f), program_heads(&p->program, &p->shape, f),
                    program_columns(&p->program, &p->shape, f));
    for (int i = 0; i < HGA_N_TABLES; i++)
        if (want->entries[i] && memcmp(got->table[i], want->table[i], (size_t)want->entries[i] * sizeof(float)))
            fail_msg("%s, %s: rank %d has other bits of the gradient of %s", p->name, how, rank,
                     call_row((hga_call_table)i)->name);
}

/* ---- a run ---- */

/* What a rank does otherwise than the others. */
typedef enum fault { NO_FAULT, NO_TAPE, NO_VALUE, OTHER_TABLES, NO_GRADIENTS, ADDS, OTHER_TYPE } fault;

typedef struct back_run {
    rank_run at;
    gradients g, batch[2]; /* batch: of two samples at once, both the same; where that is asked for */
    int accumulate, in_batch;
    fault fault;
    int wants; /* of queries (1), keys (2) or values (3) alone; 0: everything */
} back_run;

static inline void want_one(int which, hga_grad_io *grad)
{
    if (which != 1) grad->d_query.data = NULL;
    if (which != 2) grad->d_key.data = NULL;
    if (which != 3) grad->d_value.data = NULL;
}

static inline hga_status go_back(back_run *b, hga_plan *plan, hga_workspace *workspace)
{
    hga_status st = HGA_OK;
    rank_run *r = &b->at;
    void *tape = NULL;
    hga_io io = r->t.io;
    hga_allocator a = filling_allocator(&r->f);
    HGA_TRY(plan_failed(plan, hga_new(&a, hga_plan_tape_bytes(plan), 1, &tape)));
    io.tape = tape;
    int64_t asked = 0;
    for (int i = 0; i < CALLS; i++) {
        HGA_TRY(hga_plan_execute(plan, workspace, &io));
        close_gradients(&b->g);
        open_gradients(r->p, &r->t, r->lie, b->accumulate, &b->g);
        hga_io input = io;
        hga_grad_io grad = b->g.grad;
        if (i == 0 && !b->accumulate && b->fault == NO_FAULT)
            HGA_TRY(plan_failed(plan, hga_plan_prepare(plan, workspace, &input, &grad, NULL)));
        if (b->fault == NO_TAPE) input.tape = NULL;
        if (b->fault == NO_VALUE) input.value.data = NULL;
        if (b->fault == OTHER_TABLES) grad.d_scale = NULL;
        if (b->fault == ADDS) grad.accumulate = 1;
        if (b->fault == OTHER_TYPE) grad.d_value.dtype = HGA_BF16;
        if (b->wants) want_one(b->wants, &grad);
        HGA_TRY(hga_plan_gradient(plan, workspace, &input, b->fault == NO_GRADIENTS ? NULL : &grad));
        if (i == 0) asked = r->f.asked;
    }
    r->allocated = r->f.asked != asked;
done:
    hga_delete(&a, tape, hga_plan_tape_bytes(plan), 1);
    return st;
}

static inline hga_status go_back_in_batch(back_run *b, const hga_plan *plan)
{
    hga_status st = HGA_OK;
    rank_run *r = &b->at;
    hga_workspace *own[2] = {NULL};
    tensors more;
    open_tensors(r->p, plan, r->lie, &more);
    hga_io io[2] = {r->t.io, more.io};
    hga_grad_io grad[2];
    for (int i = 0; i < 2; i++) {
        HGA_TRY(hga_workspace_create(plan, &own[i]));
        io[i].tape = memory(hga_plan_tape_bytes(plan), 1);
        open_gradients(r->p, &r->t, r->lie, b->accumulate, &b->batch[i]);
        grad[i] = b->batch[i].grad;
    }
    HGA_TRY(hga_plan_execute_batch(plan, own, io, 2));
    HGA_TRY(hga_plan_gradient_batch(plan, own, io, grad, 2));
done:
    for (int i = 0; i < 2; i++) free(io[i].tape), hga_workspace_destroy(own[i]);
    close_tensors(&more);
    return st;
}

static inline hga_status run_back(back_run *b)
{
    rank_run *r = &b->at;
    hga_plan *plan = NULL;
    hga_workspace *workspace = NULL;
    hga_allocator a = filling_allocator(&r->f);
    hga_status st = HGA_OK;
    hga_ranks ranks = {.exchange = r->x, .cuts = r->cuts};
    r->options.ranks = &ranks, r->options.allocator = &a, r->options.gradient = 1;
    HGA_TRY(hga_plan_create(r->p->graph, &r->p->program, &r->p->shape, &r->options, &plan));
    HGA_TRY(hga_workspace_create(plan, &workspace));
    open_tensors(r->p, plan, r->lie, &r->t);
    HGA_TRY(go_back(b, plan, workspace));
    if (b->in_batch) HGA_TRY(go_back_in_batch(b, plan));
done:
    snprintf(r->said, sizeof r->said, "%s", st ? hga_error_detail() : "");
    hga_workspace_destroy(workspace);
    hga_plan_destroy(plan);
    return st;
}

static inline void *run_thread(void *b)
{
    ((back_run *)b)->at.st = run_back(b);
    return NULL;
}

static inline void run_all(back_run *b, hga_id n_ranks)
{
    for (hga_id r = 0; r < n_ranks; r++) assert_int_equal(pthread_create(&b[r].at.thread, NULL, run_thread, &b[r]), 0);
    for (hga_id r = 0; r < n_ranks; r++) pthread_join(b[r].at.thread, NULL);
}

static inline void open_all(const problem *p, const hga_options *o, layout l, const hga_id *cuts, hga_exchange *xs,
                            hga_id n_ranks, back_run *b)
{
    for (hga_id r = 0; r < n_ranks; r++)
        b[r] = (back_run){.at = {.p = p, .x = &xs[r], .cuts = cuts, .options = *o, .lie = l, .f = {.byte = 0xff}}};
}

static inline void close_all(back_run *b, hga_exchange *xs, hga_id n_ranks)
{
    for (hga_id r = 0; r < n_ranks; r++) close_tensors(&b[r].at.t), close_gradients(&b[r].g), hga_dist_destroy(&xs[r]);
}

/* In one process. */
typedef struct whole {
    tensors t;
    gradients g;
} whole;

static inline whole go_back_whole(const problem *p, const hga_options *o, layout l, int accumulate)
{
    whole w = {0};
    hga_options mine = *o;
    hga_plan *plan;
    hga_workspace *workspace;
    mine.gradient = 1;
    open_tensors(p, NULL, l, &w.t);
    open_gradients(p, &w.t, l, accumulate, &w.g);
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, &mine, &plan));
    assert_ok(hga_workspace_create(plan, &workspace));
    void *tape = memory(hga_plan_tape_bytes(plan), 1);
    w.t.io.tape = tape;
    assert_ok(hga_plan_execute(plan, workspace, &w.t.io));
    assert_ok(hga_plan_gradient(plan, workspace, &w.t.io, &w.g.grad));
    free(tape);
    hga_workspace_destroy(workspace);
    hga_plan_destroy(plan);
    return w;
}

static inline void close_whole(whole *w) { close_tensors(&w->t), close_gradients(&w->g); }

typedef struct holding {
    const problem *p;
    const char *what;
    hga_options o;
    layout l;
    int accumulate;
    const hga_dist_wire *wire;
} holding;

static inline void hold_back(const holding *h, const hga_id *cuts, hga_id n_ranks, const whole *want)
{
    hga_exchange xs[MOST_RANKS];
    back_run b[MOST_RANKS];
    char how[200];
    snprintf(how, sizeof how, "%s, %d ranks", h->what, n_ranks);
    assert_ok(hga_dist_in_process(n_ranks, h->wire, xs));
    open_all(h->p, &h->o, h->l, cuts, xs, n_ranks, b);
    for (hga_id r = 0; r < n_ranks; r++) b[r].accumulate = h->accumulate;
    run_all(b, n_ranks);
    for (hga_id r = 0; r < n_ranks; r++) {
        if (b[r].at.st) fail_msg("%s, %s: rank %d: %s", h->p->name, how, r, b[r].at.said);
        compare_tensors(h->p, how, r, &b[r].at.t, &want->t);
        expect_bits(h->p, how, r, &b[r].at.t, &b[r].g, &want->g);
        if (h->l < BF16_PACKED && b[r].at.allocated) fail_msg("%s, %s: rank %d allocates", h->p->name, how, r);
        assert_int_equal(b[r].at.f.live, 0);
        for (int i = 0; i < HGA_N_TABLES; i++)
            if (b[r].g.entries[i])
                assert_same_bits(call_row((hga_call_table)i)->name, b[r].g.table[i], b[0].g.table[i],
                                 b[0].g.entries[i]);
    }
    close_all(b, xs, n_ranks);
}

#endif
