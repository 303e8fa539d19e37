/* exchange.h: a problem on ranks that are threads of one process beside the same problem in one process: what tests
   of ranks share. */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "bindings.h"
#include "engine_cases.h"
#include "filling.h"
#include "halves.h"
#include "plan.h"
#include "ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { MOST_RANKS = 8, CALLS = 2 };

static const hga_shape narrow = {.n_heads = 4, .n_kv_heads = 2, .dim = 12, .dim_v = 9};

/* ---- tensors of some rows ---- */

/* How tensors lie: packed, heads first, bfloat16, float16 with gaps. */
typedef enum layout { PACKED, HEADS_FIRST, BF16_PACKED, F16_WIDE, N_LAYOUTS } layout;

typedef struct some_rows {
    hga_interval *rows;
    int64_t n_intervals, n;
} some_rows;

typedef struct tensors {
    hga_io io;
    some_rows of[HGA_FIELD_SLOTS];
    void *owned[HGA_FIELD_SLOTS + 1];
} tensors;

static inline hga_dtype type_of(layout l) { return l == BF16_PACKED ? HGA_BF16 : l == F16_WIDE ? HGA_F16 : HGA_F32; }

static inline hga_tensor empty_tensor(layout l, int64_t rows, hga_id heads, hga_id columns, void **owned)
{
    hga_tensor t = {.rows = rows, .dtype = type_of(l)};
    int64_t wide = (int64_t)heads * columns + 5;
    if (l == HEADS_FIRST) t.row_stride = columns, t.head_stride = rows * columns + 3;
    if (l == F16_WIDE) t.row_stride = wide, t.head_stride = columns;
    int64_t n = rows * wide + 4 * heads;
    t.data = *owned = memory(n + 1, sizeof(float));
    memset(t.data, 0xff, (size_t)n * sizeof(float));
    return t;
}

/* Values of a problem's tensor of field f, whole. */
static inline const float *values_of(const problem *p, hga_id f)
{
    const hga_tensor *t = program_tensor(&p->program, &p->io, f);
    return t->data;
}

/* Finds the rows of the whole problem, field by field, that the plan's rank has; all of them without a plan. */
static inline void find_some_rows(const problem *p, const hga_plan *plan, hga_id f, some_rows *out)
{
    hga_id first, n;
    assert_ok(hga_program_rows(&p->program, p->graph, f, &first, &n));
    if (!plan) {
        *out = (some_rows){memory(1, sizeof *out->rows), 1, n};
        out->rows[0] = (hga_interval){0, n};
        return;
    }
    assert_ok(hga_plan_rank_rows(plan, f, NULL, 0, &out->n_intervals));
    out->rows = memory(out->n_intervals + 1, sizeof *out->rows);
    assert_ok(hga_plan_rank_rows(plan, f, out->rows, out->n_intervals, &out->n_intervals));
    for (int64_t i = 0; i < out->n_intervals; i++) out->n += out->rows[i].n;
}

static inline void open_tensors(const problem *p, const hga_plan *plan, layout l, tensors *t)
{
    *t = (tensors){.io = p->io};
    for (hga_id f = 1; f <= p->program.n_fields; f++) {
        if (p->program.field[f].binding == HGA_INTERNAL) continue;
        hga_id heads = program_heads(&p->program, &p->shape, f), columns = program_columns(&p->program, &p->shape, f);
        hga_tensor *tensor = (hga_tensor *)program_tensor(&p->program, &t->io, f);
        find_some_rows(p, plan, f, &t->of[f]);
        *tensor = empty_tensor(l, t->of[f].n, heads, columns, &t->owned[f]);
        if (p->program.field[f].binding == HGA_IO_OUT) continue;
        int64_t row = 0;
        for (int64_t i = 0; i < t->of[f].n_intervals; i++)
            for (int64_t k = 0; k < t->of[f].rows[i].n; k++, row++)
                for (hga_id h = 0; h < heads; h++)
                    store_numbers(tensor->dtype, values_of(p, f) + ((t->of[f].rows[i].first + k) * heads + h) * columns,
                                  columns, tensor_at(tensor, heads, columns, row, h));
    }
    if (!p->io.lse.data) return;
    hga_id out = program_bound(&p->program, HGA_IO_OUT);
    t->io.lse = empty_tensor(l == HEADS_FIRST ? l : PACKED, t->of[out].n, p->shape.n_heads, 1, &t->owned[0]);
}

static inline void close_tensors(tensors *t)
{
    for (int i = 0; i < HGA_FIELD_SLOTS; i++) free(t->of[i].rows), free(t->owned[i]);
}

/* Rows of a rank are those of one process. */
static inline void compare(const problem *p, const char *what, hga_id rank, const tensors *got, hga_id f,
                           const hga_tensor *a, const hga_tensor *b, hga_id heads, hga_id columns)
{
    int64_t row = 0;
    for (int64_t i = 0; i < got->of[f].n_intervals; i++)
        for (int64_t k = 0; k < got->of[f].rows[i].n; k++, row++)
            for (hga_id h = 0; h < heads; h++) {
                int64_t whole = got->of[f].rows[i].first + k;
                const void *x = tensor_at(a, heads, columns, row, h), *y = tensor_at(b, heads, columns, whole, h);
                if (memcmp(x, y, (size_t)columns * dtype_bytes(a->dtype)))
                    fail_msg("%s, %s: row %lld of rank %d has other bits than in one process (%g, not %g)", p->name,
                             what, (long long)whole, rank, (double)*(const float *)x, (double)*(const float *)y);
            }
}

static inline void compare_tensors(const problem *p, const char *what, hga_id rank, const tensors *got,
                                   const tensors *want)
{
    hga_id out = program_bound(&p->program, HGA_IO_OUT);
    for (hga_id f = 1; f <= p->program.n_fields; f++)
        if (p->program.field[f].binding != HGA_INTERNAL)
            compare(p, what, rank, got, f, program_tensor(&p->program, &got->io, f),
                    program_tensor(&p->program, &want->io, f), program_heads(&p->program, &p->shape, f),
                    program_columns(&p->program, &p->shape, f));
    if (p->io.lse.data) compare(p, what, rank, got, out, &got->io.lse, &want->io.lse, p->shape.n_heads, 1);
}

/* ---- a run ---- */

/* What a rank forgets to give: its values, all tensors, the new graph. */
typedef enum gap { NO_GAP, VALUES, TENSORS, GRAPH } gap;

typedef struct rank_run {
    const problem *p;
    const hga_exchange *x;
    const hga_id *cuts;
    hga_options options;
    layout lie;
    tensors t;
    filling f;
    hga_id panel; /* rows of every panel, 0: as the plan thinks best */
    gap forgets;
    const hga_graph *before; /* its plan is another graph's at first; NULL */
    hga_plan *plan;          /* where it is left */
    hga_status st;
    int allocated; /* by later calls */
    char said[300];
    pthread_t thread;
} rank_run;

static inline hga_status execute_rank(rank_run *r)
{
    hga_plan *plan = NULL;
    hga_workspace *workspace = NULL;
    hga_allocator a = filling_allocator(&r->f);
    hga_status st = HGA_OK;
    hga_ranks ranks = {.exchange = r->x, .cuts = r->cuts};
    r->options.ranks = &ranks, r->options.allocator = &a;
    HGA_TRY(plan_create_with_panels(r->before ? r->before : r->p->graph, &r->p->program, &r->p->shape, &r->options,
                                    r->panel, &plan));
    if (r->before) HGA_TRY(hga_plan_update(plan, r->forgets == GRAPH ? NULL : r->p->graph));
    HGA_TRY(hga_workspace_create(plan, &workspace));
    open_tensors(r->p, plan, r->lie, &r->t);
    hga_io io = r->t.io;
    if (r->forgets == VALUES) io.value.data = NULL;
    int64_t asked = r->f.asked;
    for (int i = 0; i < CALLS; i++) {
        HGA_TRY(hga_plan_execute(plan, workspace, r->forgets == TENSORS ? NULL : &io));
        if (i == 0 && r->lie < BF16_PACKED) asked = r->f.asked;
    }
    r->allocated = r->lie < BF16_PACKED && r->f.asked != asked;
done:
    snprintf(r->said, sizeof r->said, "%s", st ? hga_error_detail() : "");
    hga_workspace_destroy(workspace);
    hga_plan_destroy(plan);
    return st;
}

static inline void *run_rank(void *r)
{
    ((rank_run *)r)->st = execute_rank(r);
    return NULL;
}

static inline void run_ranks(rank_run *runs, hga_id n_ranks)
{
    for (hga_id r = 0; r < n_ranks; r++) assert_int_equal(pthread_create(&runs[r].thread, NULL, run_rank, &runs[r]), 0);
    for (hga_id r = 0; r < n_ranks; r++) pthread_join(runs[r].thread, NULL);
}

static inline void open_runs(const problem *p, const hga_options *o, layout l, const hga_id *cuts, hga_exchange *xs,
                             hga_id n_ranks, rank_run *runs)
{
    for (hga_id r = 0; r < n_ranks; r++)
        runs[r] = (rank_run){.p = p, .x = &xs[r], .cuts = cuts, .options = *o, .lie = l, .f = {.byte = 0xff}};
}

/* What ranks with these options send: what hga_halo counts; or, if the options cut rows elsewhere or not at all, the
   result of the same rule for that. */
static inline void find_halo(const problem *p, const hga_options *o, const hga_id *cuts, hga_id n_ranks,
                             hga_halo_list *halo)
{
    int whole = o->generic || o->strict_rows || o->gradient;
    if (whole || o->cut_edges)
        assert_ok(halo_find(p->graph, &p->program, &p->shape, cuts, n_ranks, whole ? 0 : o->cut_edges, NULL, halo));
    else
        assert_ok(hga_halo(p->graph, &p->program, &p->shape, cuts, n_ranks, halo));
}

static inline void check_counts(const problem *p, const hga_options *o, const hga_id *cuts, hga_id n_ranks,
                                const hga_exchange *xs)
{
    hga_halo_list halo;
    find_halo(p, o, cuts, n_ranks, &halo);
    for (hga_id r = 0; r < n_ranks; r++) {
        hga_dist_counts c = hga_dist_in_process_counts(&xs[r]);
        assert_int_equal(c.bytes_in, CALLS * halo.load[r].bytes_in);
        assert_int_equal(c.bytes_out, CALLS * halo.load[r].bytes_out);
    }
    hga_halo_clear(&halo);
}

static inline tensors run_whole(const problem *p, const hga_options *o, layout l)
{
    tensors t;
    open_tensors(p, NULL, l, &t);
    assert_ok(hga_attention(p->graph, &p->program, &p->shape, o, &t.io));
    return t;
}

/* .. with panels of so many rows, 0: the plan's choice. */
static inline void hold_in_panels(const problem *p, const char *what, const hga_options *o, layout l,
                                  const hga_id *cuts, hga_id n_ranks, hga_id panel, const hga_dist_wire *wire,
                                  const tensors *want)
{
    hga_exchange xs[MOST_RANKS];
    rank_run runs[MOST_RANKS];
    char how[200];
    snprintf(how, sizeof how, "%s, %d ranks", what, n_ranks);
    assert_ok(hga_dist_in_process(n_ranks, wire, xs));
    open_runs(p, o, l, cuts, xs, n_ranks, runs);
    for (hga_id r = 0; r < n_ranks; r++) runs[r].panel = panel;
    run_ranks(runs, n_ranks);
    for (hga_id r = 0; r < n_ranks; r++) {
        if (runs[r].st) fail_msg("%s, %s: rank %d: %s", p->name, how, r, runs[r].said);
        compare_tensors(p, how, r, &runs[r].t, want);
        assert_int_equal(runs[r].allocated, 0);
        assert_int_equal(runs[r].f.live, 0);
    }
    check_counts(p, o, cuts, n_ranks, xs);
    for (hga_id r = 0; r < n_ranks; r++) close_tensors(&runs[r].t), hga_dist_destroy(&xs[r]);
}

static inline void hold(const problem *p, const char *what, const hga_options *o, layout l, const hga_id *cuts,
                        hga_id n_ranks, const hga_dist_wire *wire, const tensors *want)
{
    hold_in_panels(p, what, o, l, cuts, n_ranks, 0, wire, want);
}

/* ---- cuts ---- */

static inline hga_id tokens_of(const problem *p) { return hga_graph_nodes(p->graph).level_ptr[1]; }

static inline void cut_evenly(hga_id n, hga_id n_ranks, hga_id multiple, hga_id *cuts)
{
    for (hga_id r = 0; r < n_ranks; r++) cuts[r] = (hga_id)((int64_t)n * r / n_ranks) / multiple * multiple;
    cuts[n_ranks] = n;
}

/* Anywhere, ranks without tokens among them. */
static inline void cut_anywhere(hga_id n, hga_id n_ranks, uint64_t *rng, hga_id *cuts)
{
    cuts[0] = 0, cuts[n_ranks] = n;
    for (hga_id r = 1; r < n_ranks; r++) {
        hga_id at = random_below(rng, n + 1), i = r;
        for (; cuts[i - 1] > at; i--) cuts[i] = cuts[i - 1];
        cuts[i] = at;
    }
}

static inline int is_cross(const problem *p)
{
    hga_nodes n = hga_graph_nodes(p->graph);
    return n.query_first != n.key_first || n.n_queries != n.n_keys;
}

static const hga_dist_wire strict = {.fill = 1};

#endif
