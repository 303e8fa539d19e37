/* test_exchange_gradient.c: ranks that are threads of one process have the gradients of one process, of their rows and
   of tables, whatever is cut where; as many bytes go home as came; and where one fails, all do. */
#include "exchange.h"
#include "modifiers.h"
#include "random_program.h"
#include "user_softmax.h"

/* ---- gradients of some rows ---- */

enum { N_GIVEN_TABLES = 10 };

/* What a call wants: of every tensor, and of every table that the problem has. */
typedef struct gradients {
    hga_grad_io grad;
    void *owned[HGA_FIELD_SLOTS + 1], *lse;
    float *table[N_GIVEN_TABLES];
    int64_t entries[N_GIVEN_TABLES];
} gradients;

static const char *const table_name[N_GIVEN_TABLES] = {"rel_key",    "rel_bias", "edge_bias", "node_pos", "type_scale",
                                                       "log masses", "scale",    "sink",      "slopes",   "additive"};

static void want_tables(const problem *p, gradients *g)
{
    const hga_io *io = &p->io;
    const hga_shape *s = &p->shape;
    hga_id n = hga_graph_nodes(p->graph).n;
    hga_modifiers m = modifiers_of(io);
    int scores = find_stage(&p->program, HGA_SCORE) != NULL;
    const int64_t entries[N_GIVEN_TABLES] = {io->rel_key ? (int64_t)io->n_rel_key * s->dim : 0,
                                             io->rel_bias ? (int64_t)io->n_rel_bias * s->n_heads : 0,
                                             io->edge_bias ? io->n_edge_bias * io->edge_bias_heads : 0,
                                             io->node_pos ? (int64_t)n * s->pos_dim : 0,
                                             io->type_scale ? io->n_type_scale : 0,
                                             scores ? n : 0,
                                             scores,
                                             m.sink ? s->n_heads : 0,
                                             m.slopes ? s->n_heads : 0,
                                             m.additive ? (int64_t)s->n_heads * s->dim : 0};
    float **const to[N_GIVEN_TABLES] = {
        &g->grad.d_rel_key,  &g->grad.d_rel_bias, &g->grad.d_edge_bias, &g->grad.d_node_pos, &g->grad.d_type_scale,
        &g->grad.d_log_mass, &g->grad.d_scale,    &g->grad.d_sink,      &g->grad.d_slopes,   &g->grad.d_additive};
    for (int i = 0; i < N_GIVEN_TABLES; i++) {
        g->entries[i] = entries[i];
        if (!entries[i]) continue;
        *to[i] = g->table[i] = memory(entries[i], sizeof(float));
        for (int64_t k = 0; k < entries[i]; k++) g->table[i][k] = 0.25f; /* what is there, where a call adds */
    }
}

/* Numbers of a row of the whole problem, whoever has it. */
static void fill_row(hga_tensor *t, hga_id heads, hga_id columns, int64_t row, int64_t whole, uint64_t seed)
{
    float *x = random_floats(seed + (uint64_t)whole * 977, 1, (int64_t)heads * columns);
    for (hga_id h = 0; h < heads; h++)
        numbers_write(t->dtype, x + (int64_t)h * columns, columns, tensor_at(t, heads, columns, row, h));
    free(x);
}

static void fill_rows(const some_rows *of, hga_tensor *t, hga_id heads, hga_id columns, uint64_t seed)
{
    int64_t row = 0;
    for (int64_t i = 0; i < of->n_intervals; i++)
        for (int64_t k = 0; k < of->rows[i].n; k++, row++)
            fill_row(t, heads, columns, row, of->rows[i].first + k, seed);
}

/* The output's gradient lies and is of a type as tensors, and gradients, of float32, lie as the other layouts do. */
static void open_gradients(const problem *p, const tensors *t, layout l, int accumulate, gradients *g)
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

static void close_gradients(gradients *g)
{
    for (int i = 0; i < HGA_FIELD_SLOTS; i++) free(g->owned[i]);
    for (int i = 0; i < N_GIVEN_TABLES; i++) free(g->table[i]);
    free(g->lse);
}

/* ---- near ---- */

/* In parts of the greatest number: sums in double of what ranks send as float32; and in float32. */
static const double plainly = 1e-6, quickly = 1e-5;

/* Ranks go back row by row in double, one process perhaps in float32, where what rounds to bfloat16 may round
   otherwise. */
static double within(const hga_options *o)
{
    if (o->generic) return plainly;
    return o->precision == HGA_PRECISION_BF16 ? 1e-2 : quickly;
}

/* The greatest difference, in parts of the greatest number. */
typedef struct nearness {
    double far, size;
} nearness;

static void look(nearness *n, double got, double want)
{
    double far = fabs(got - want);
    if (!(far <= n->far)) n->far = far;
    if (fabs(want) > n->size) n->size = fabs(want);
}

static void expect_near(const problem *p, const char *how, const char *of, hga_id rank, nearness n, double within)
{
    double size = n.size > 1 ? n.size : 1; /* sums that are nothing but rounding */
    if (!(n.far <= within * size))
        fail_msg("%s, %s: the gradient of %s at rank %d is off by %g of %g", p->name, how, of, rank, n.far, n.size);
}

static void compare_gradients(const problem *p, const char *how, hga_id rank, const tensors *rows, const gradients *got,
                              const gradients *want, double within)
{
    for (hga_id f = 1; f <= p->program.n_fields; f++) {
        if (!program_is_input(p->program.field[f].binding)) continue;
        hga_id heads = program_heads(&p->program, &p->shape, f), columns = program_columns(&p->program, &p->shape, f);
        const hga_tensor *a = program_gradient(&p->program, &got->grad, f),
                         *b = program_gradient(&p->program, &want->grad, f);
        nearness n = {0};
        for (int64_t row = 0; row < b->rows; row++) /* of the whole: its size */
            for (hga_id h = 0; h < heads; h++)
                for (hga_id c = 0; c < columns; c++) {
                    double x = (double)((const float *)tensor_at(b, heads, columns, row, h))[c];
                    look(&n, x, x);
                }
        int64_t row = 0;
        for (int64_t i = 0; i < rows->of[f].n_intervals; i++)
            for (int64_t k = 0; k < rows->of[f].rows[i].n; k++, row++)
                for (hga_id h = 0; h < heads; h++) {
                    const float *x = tensor_at(a, heads, columns, row, h),
                                *y = tensor_at(b, heads, columns, rows->of[f].rows[i].first + k, h);
                    for (hga_id c = 0; c < columns; c++) look(&n, (double)x[c], (double)y[c]);
                }
        expect_near(p, how, p->program.field[f].name, rank, n, within);
    }
    int rounded = within >= 1e-2; /* then tables, which add up much that cancels out, say nothing */
    for (int i = 0; i < N_GIVEN_TABLES && !rounded; i++) {
        nearness n = {0};
        for (int64_t k = 0; k < want->entries[i]; k++) look(&n, (double)got->table[i][k], (double)want->table[i][k]);
        expect_near(p, how, table_name[i], rank, n, within > plainly ? 10 * within : within);
    }
}

/* ---- a run ---- */

/* What a rank does otherwise than the others. */
typedef enum fault { NO_FAULT, NO_TAPE, NO_VALUE, OTHER_TABLES, NO_GRADIENTS } fault;

typedef struct back_run {
    rank_run at;
    gradients g, batch[2]; /* batch: of two samples at once, both the same; where that is asked for */
    int accumulate, in_batch;
    fault fault;
} back_run;

static hga_status go_back(back_run *b, hga_plan *plan, hga_workspace *workspace)
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
        hga_io given = io;
        hga_grad_io grad = b->g.grad;
        if (i == 0 && !b->accumulate && b->fault == NO_FAULT)
            HGA_TRY(plan_failed(plan, hga_plan_prepare(plan, workspace, &given, &grad)));
        if (b->fault == NO_TAPE) given.tape = NULL;
        if (b->fault == NO_VALUE) given.value.data = NULL;
        if (b->fault == OTHER_TABLES) grad.d_scale = NULL;
        HGA_TRY(hga_plan_gradient(plan, workspace, &given, b->fault == NO_GRADIENTS ? NULL : &grad));
        if (i == 0) asked = r->f.asked;
    }
    r->allocated = r->f.asked != asked;
done:
    hga_delete(&a, tape, hga_plan_tape_bytes(plan), 1);
    return st;
}

static hga_status go_back_in_batch(back_run *b, const hga_plan *plan)
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

static hga_status run_back(back_run *b)
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

static void *run_thread(void *b)
{
    ((back_run *)b)->at.st = run_back(b);
    return NULL;
}

static void run_all(back_run *b, hga_id n_ranks)
{
    for (hga_id r = 0; r < n_ranks; r++) assert_int_equal(pthread_create(&b[r].at.thread, NULL, run_thread, &b[r]), 0);
    for (hga_id r = 0; r < n_ranks; r++) pthread_join(b[r].at.thread, NULL);
}

static void open_all(const problem *p, const hga_options *o, layout l, const hga_id *cuts, hga_exchange *xs,
                     hga_id n_ranks, back_run *b)
{
    for (hga_id r = 0; r < n_ranks; r++)
        b[r] = (back_run){.at = {.p = p, .x = &xs[r], .cuts = cuts, .options = *o, .lie = l, .f = {.byte = 0xff}}};
}

static void close_all(back_run *b, hga_exchange *xs, hga_id n_ranks)
{
    for (hga_id r = 0; r < n_ranks; r++) close_tensors(&b[r].at.t), close_gradients(&b[r].g), hga_dist_destroy(&xs[r]);
}

/* In one process. */
typedef struct whole {
    tensors t;
    gradients g;
} whole;

static whole go_back_whole(const problem *p, const hga_options *o, layout l, int accumulate)
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

static void close_whole(whole *w) { close_tensors(&w->t), close_gradients(&w->g); }

typedef struct holding {
    const problem *p;
    const char *what;
    hga_options o;
    layout l;
    int accumulate;
    double within;
    const hga_dist_wire *wire;
} holding;

/* What comes home to a rank, or goes from it, beside as many numbers as went forward: a log-sum-exp for each state,
   where merged states go back in float. */
static int64_t log_sum_exps(const problem *p, const hga_halo_list *halo, hga_id n_ranks, hga_id rank, int home)
{
    int64_t bytes = 0;
    for (const hga_transfer *t = halo->transfer; t < halo->transfer + halo->n_transfers; t++) {
        if (p->program.field[t->field].width != HGA_WIDTH_STATE) continue;
        hga_id copies = t->to != HGA_EVERY_RANK ? (home ? t->from : t->to) == rank : home ? n_ranks - 1 : 1;
        if (t->to == HGA_EVERY_RANK && (t->from == rank) != home) continue;
        bytes += (int64_t)copies * t->n * p->shape.n_heads * (int64_t)sizeof(float);
    }
    return bytes;
}

/* What went forward comes back. */
static void check_both_ways(const holding *h, const hga_id *cuts, hga_id n_ranks, const hga_exchange *xs)
{
    const problem *p = h->p;
    hga_halo_list halo;
    int merges = !h->o.generic && !find_stage(&p->program, HGA_ENERGY);
    assert_ok(halo_find(p->graph, &p->program, &p->shape, cuts, n_ranks, 0, NULL, &halo));
    for (hga_id r = 0; r < n_ranks; r++) {
        hga_dist_counts c = hga_dist_in_process_counts(&xs[r]);
        int64_t both = halo.load[r].bytes_in + halo.load[r].bytes_out;
        assert_int_equal(c.bytes_in, CALLS * (both + merges * log_sum_exps(p, &halo, n_ranks, r, 1)));
        assert_int_equal(c.bytes_out, CALLS * (both + merges * log_sum_exps(p, &halo, n_ranks, r, 0)));
    }
    hga_halo_clear(&halo);
}

static void hold_back(const holding *h, const hga_id *cuts, hga_id n_ranks, const whole *want)
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
        compare_gradients(h->p, how, r, &b[r].at.t, &b[r].g, &want->g, h->within);
        if (h->l < BF16_PACKED && b[r].at.allocated) fail_msg("%s, %s: rank %d allocates", h->p->name, how, r);
        assert_int_equal(b[r].at.f.live, 0);
        for (int i = 0; i < N_GIVEN_TABLES; i++)
            if (b[r].g.entries[i]) assert_same_bits(table_name[i], b[r].g.table[i], b[0].g.table[i], b[0].g.entries[i]);
    }
    check_both_ways(h, cuts, n_ranks, xs);
    close_all(b, xs, n_ranks);
}

/* ---- every variant ---- */

static void every_variant_has_the_gradients_of_one_process(void **state)
{
    static const hga_id counts[] = {1, 2, 3, 4, 7, 8};
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        hga_id cuts[MOST_RANKS + 1];
        uint64_t rng = (uint64_t)i;
        if (passed_over(i)) continue;
        variant_build(i, 150, 3 + (uint64_t)i, &narrow, &p);
        if (!is_cross(&p)) {
            holding h = {&p, "plain", {.threads = 1, .generic = 1}, PACKED, i % 2, plainly, &strict}, fast = h;
            fast.what = "fast", fast.o.generic = 0, fast.within = quickly;
            whole want = go_back_whole(&p, &h.o, PACKED, h.accumulate),
                  wanted = go_back_whole(&p, &fast.o, PACKED, h.accumulate);
            for (int c = 0; c < 6; c++) {
                cut_evenly(tokens_of(&p), counts[c], 16, cuts);
                hold_back(c % 2 ? &fast : &h, cuts, counts[c], c % 2 ? &wanted : &want);
                cut_anywhere(tokens_of(&p), counts[c], &rng, cuts);
                hold_back(&h, cuts, counts[c], &want), hold_back(&fast, cuts, counts[c], &wanted);
            }
            close_whole(&wanted);
            close_whole(&want);
        }
        problem_clear(&p);
    }
}

/* ---- options ---- */

static const hga_options settings[] = {{.threads = 3},
                                       {.threads = 2, .precision = HGA_PRECISION_BF16},
                                       {.threads = 1, .isa = "ref"},
                                       {.threads = 2, .cut_edges = 24},
                                       {.threads = 2, .generic = 1},
                                       {.threads = 1, .strict_rows = 1, .gradient_strips = 5},
                                       {.threads = 2, .dropout = 0.25f},
                                       {.threads = 1, .precision = HGA_PRECISION_BF16, .dropout = 0.5f}};
enum { N_SETTINGS = sizeof settings / sizeof *settings };

static void options_and_layouts_change_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++)
        for (int s = 0; s < N_SETTINGS; s++) {
            problem p;
            hga_id cuts[MOST_RANKS + 1], n_ranks = 2 + (i + s) % 4;
            uint64_t rng = (uint64_t)(i * N_SETTINGS + s);
            if (passed_over(i + s)) continue;
            variant_build(i, 100 + 7 * s, 3 + (uint64_t)i, &narrow, &p);
            p.io.seed = 5, p.io.layer = 3;
            if (!is_cross(&p)) {
                char what[40];
                holding h = {&p,     what, settings[s], (layout)((i + s) % N_LAYOUTS), s % 2, within(&settings[s]),
                             &strict};
                snprintf(what, sizeof what, "setting %d, layout %d", s, (int)h.l);
                whole want = go_back_whole(&p, &h.o, h.l, h.accumulate);
                s % 2 ? cut_evenly(tokens_of(&p), n_ranks, 16, cuts) : cut_anywhere(tokens_of(&p), n_ranks, &rng, cuts);
                hold_back(&h, cuts, n_ranks, &want);
                close_whole(&want);
            }
            problem_clear(&p);
        }
}

/* Tables of types and edges, positions, softcaps, sinks and slopes, where the program can have them. */
static void tables_have_the_gradients_of_all_ranks(void **state)
{
    static const float sink[] = {0.5f, -1, 2, -INFINITY}, slopes[] = {0.1f, 0, 0.02f, 1};
    hga_shape shape = narrow;
    (void)state;
    shape.pos_dim = 3;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        hga_id cuts[MOST_RANKS + 1];
        if (passed_over(i)) continue;
        variant_build(i, 130, 3 + (uint64_t)i, &shape, &p);
        const hga_stage *attends = find_stage(&p.program, HGA_SCORE);
        int energies = find_stage(&p.program, HGA_ENERGY) != NULL, all_heads = p.shape.n_heads == 4;
        hga_modifiers m = {.size = sizeof m, .softcap = energies ? 0 : 3};
        if (p.program.has_lse && all_heads) m.sink = sink;
        double *at = memory(hga_graph_nodes(p.graph).n, sizeof *at);
        int has_distances = hga_graph_positions(p.graph, at) == HGA_OK;
        free(at);
        if (!energies && all_heads && has_distances) m.slopes = slopes;
        for (int dropped = 0; attends && !is_cross(&p) && dropped < 2; dropped++) {
            problem_fill_tables(&p, 9, 1, 1, dropped ? p.shape.n_heads : 1);
            p.io.modifiers = &m, p.io.seed = 8;
            holding h = {&p,
                         "tables and modifiers",
                         {.threads = 2,
                          .dropout = dropped ? 0.3f : 0,
                          .edge_bias = p.io.edge_bias != NULL,
                          .modifiers = (energies ? 0 : HGA_MODIFIES_SOFTCAP) | (m.slopes ? HGA_MODIFIES_SLOPES : 0)},
                         PACKED,
                         dropped,
                         quickly,
                         &strict};
            whole want = go_back_whole(&p, &h.o, PACKED, h.accumulate);
            cut_evenly(tokens_of(&p), 3, 16, cuts);
            hold_back(&h, cuts, 3, &want);
            close_whole(&want);
        }
        problem_clear(&p);
    }
}

/* ---- any graph and program ---- */

static void fill_scales(problem *p)
{
    int32_t n = 1;
    for (hga_id r = 0; r < hga_graph_nodes(p->graph).n_relations; r++)
        if (hga_graph_relation(p->graph, r).n_types > n) n = hga_graph_relation(p->graph, r).n_types;
    p->io.type_scale = p->owned[p->n_owned++] = random_floats(7, 1, n);
    p->io.n_type_scale = n;
}

static void random_programs_on_random_graphs_cut_anywhere(void **state)
{
    int held = 0;
    (void)state;
    for (int seed = 1; seed <= thinned(300); seed++) {
        uint64_t rng = (uint64_t)seed;
        problem p = {.shape = {.n_heads = 2, .n_kv_heads = 2, .dim = 5, .dim_v = 3}};
        hga_plan *plan = NULL;
        hga_id cuts[MOST_RANKS + 1], n_ranks = 1 + random_below(&rng, MOST_RANKS);
        snprintf(p.name, sizeof p.name, "random program %d", seed);
        p.graph = random_graph((uint64_t)seed, 1 + random_below(&rng, 120), 1 + (unsigned)random_below(&rng, 63));
        p.program = random_program(&rng);
        hga_options o = {.threads = 1 + random_below(&rng, 3), .generic = seed % 2, .slices = 1};
        if (hga_plan_create(p.graph, &p.program, &p.shape, &o, &plan) == HGA_OK && !is_cross(&p)) {
            o.slices = 0, held++;
            problem_fill(&p, rng);
            problem_fill_tables(&p, rng, 0, 0, 0);
            fill_scales(&p);
            holding h = {&p, "cut anywhere", o, PACKED, 0, o.generic ? 3e-6 : quickly, &strict};
            whole want = go_back_whole(&p, &o, PACKED, 0);
            cut_anywhere(tokens_of(&p), n_ranks, &rng, cuts);
            hold_back(&h, cuts, n_ranks, &want);
            close_whole(&want);
        }
        hga_plan_destroy(plan);
        problem_clear(&p);
    }
    assert_true(held > thinned(150));
}

/* ---- threads ---- */

static void expect_same_gradients(const problem *p, const back_run *a, const back_run *b)
{
    for (hga_id f = 1; f <= p->program.n_fields; f++) {
        if (!program_is_input(p->program.field[f].binding)) continue;
        int64_t n = (int64_t)a->at.t.of[f].n * program_heads(&p->program, &p->shape, f) *
                    program_columns(&p->program, &p->shape, f);
        assert_same_bits(p->name, program_gradient(&p->program, &a->g.grad, f)->data,
                         program_gradient(&p->program, &b->g.grad, f)->data, n);
    }
    for (int i = 0; i < N_GIVEN_TABLES; i++)
        if (a->g.entries[i]) assert_same_bits(table_name[i], a->g.table[i], b->g.table[i], a->g.entries[i]);
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        hga_id cuts[4];
        if (passed_over(i)) continue;
        variant_build(i, 330, 3, &narrow, &p);
        cut_evenly(tokens_of(&p), 3, 1, cuts);
        for (int s = 0; s < 2 && !is_cross(&p); s++) {
            hga_exchange xs[2][3];
            back_run b[2][3];
            for (int k = 0; k < 2; k++) {
                hga_options o = {.threads = k ? 3 : 1, .gradient_strips = s ? 4 : 0};
                assert_ok(hga_dist_in_process(3, NULL, xs[k]));
                open_all(&p, &o, PACKED, cuts, xs[k], 3, b[k]);
                run_all(b[k], 3);
            }
            for (int r = 0; r < 3; r++) {
                assert_int_equal(b[0][r].at.st | b[1][r].at.st, HGA_OK);
                expect_same_gradients(&p, &b[0][r], &b[1][r]);
            }
            for (int k = 0; k < 2; k++) close_all(b[k], xs[k], 3);
        }
        problem_clear(&p);
    }
}

/* ---- batches ---- */

static void a_batch_goes_back_sample_after_sample(void **state)
{
    static const char *const names[] = {"bpt", "window", "hsa", "neighbours"};
    const hga_options o = {.threads = 2, .dropout = 0.25f};
    (void)state;
    for (int i = 0; i < 4; i++) {
        problem p;
        hga_exchange xs[3];
        back_run b[3];
        hga_id cuts[4];
        variant_build(variant_named(names[i]), 200, 3, &narrow, &p);
        cut_evenly(tokens_of(&p), 3, 1, cuts);
        assert_ok(hga_dist_in_process(3, NULL, xs));
        open_all(&p, &o, PACKED, cuts, xs, 3, b);
        for (int r = 0; r < 3; r++) b[r].in_batch = 1;
        run_all(b, 3);
        for (int r = 0; r < 3; r++) {
            if (b[r].at.st) fail_msg("%s: rank %d: %s", p.name, r, b[r].at.said);
            for (int k = 0; k < 2; k++) {
                back_run in_batch = b[r];
                in_batch.g = b[r].batch[k];
                expect_same_gradients(&p, &b[r], &in_batch);
                close_gradients(&b[r].batch[k]);
            }
        }
        close_all(b, xs, 3);
        problem_clear(&p);
    }
}

/* ---- time and failures ---- */

static void a_rank_that_is_late_changes_nothing(void **state)
{
    static const char *const names[] = {"window", "bpt", "neighbours", "hsa", "fenwick"};
    (void)state;
    for (int i = 0; i < 5; i++) {
        problem p;
        hga_id cuts[MOST_RANKS + 1];
        variant_build(variant_named(names[i]), 160, 3, &narrow, &p);
        hga_dist_wire slow = {.most_delay = 3e-3, .fill = 1};
        holding h = {&p, "late", {.threads = 1, .generic = 1}, PACKED, 0, plainly, &slow};
        whole want = go_back_whole(&p, &h.o, PACKED, 0);
        cut_evenly(tokens_of(&p), 5, 16, cuts);
        for (slow.seed = 0; slow.seed < 4; slow.seed++) hold_back(&h, cuts, 5, &want);
        close_whole(&want);
        problem_clear(&p);
    }
}

static void open_three(problem *p, hga_exchange *xs, back_run *b, hga_id *cuts)
{
    hga_options o = {.threads = 1};
    variant_build(variant_named("bpt"), 120, 3, &narrow, p);
    cut_evenly(tokens_of(p), 3, 16, cuts);
    assert_ok(hga_dist_in_process(3, NULL, xs));
    open_all(p, &o, PACKED, cuts, xs, 3, b);
}

static void expect_all(const back_run *b, hga_status st)
{
    for (int r = 0; r < 3; r++) {
        if (b[r].at.st != st) fail_msg("rank %d: %s, %s", r, hga_status_name(b[r].at.st), b[r].at.said);
        assert_int_equal(b[r].at.f.live, 0);
    }
}

/* Whoever finds it first; the others may say that this rank has failed. */
static int somebody_says(const back_run *b, const char *what)
{
    int says = 0;
    for (int r = 0; r < 3; r++) says |= strstr(b[r].at.said, what) != NULL;
    return says;
}

static void what_one_rank_does_otherwise_reaches_all(void **state)
{
    static const char *const said[] = {[NO_TAPE] = "no tape",
                                       [NO_VALUE] = "is missing",
                                       [OTHER_TABLES] = "entries of scale",
                                       [NO_GRADIENTS] = "no gradients"};
    (void)state;
    for (fault f = NO_TAPE; f <= NO_GRADIENTS; f++) {
        problem p;
        hga_exchange xs[3];
        back_run b[3];
        hga_id cuts[4];
        open_three(&p, xs, b, cuts);
        b[1].fault = f;
        run_all(b, 3);
        expect_all(b, HGA_EINVAL);
        if (!somebody_says(b, said[f])) fail_msg("%s", b[1].at.said);
        close_all(b, xs, 3);
        problem_clear(&p);
    }
}

/* Each allocation of one rank, until none fails. */
static void a_failing_allocation_of_one_rank_reaches_all(void **state)
{
    (void)state;
    for (int64_t n = 1, over = 0; !over; n += 1 + n / 16) {
        problem p;
        hga_exchange xs[3];
        back_run b[3];
        hga_id cuts[4];
        open_three(&p, xs, b, cuts);
        b[2].at.f.fails_from = n;
        run_all(b, 3);
        over = b[2].at.st == HGA_OK;
        expect_all(b, over ? HGA_OK : HGA_ENOMEM);
        close_all(b, xs, 3);
        problem_clear(&p);
    }
}

/* ---- what is refused ---- */

#define assert_refused(status, text, call)                                         \
    do {                                                                           \
        assert_status(status, call);                                               \
        if (!strstr(hga_error_detail(), text)) fail_msg("%s", hga_error_detail()); \
    } while (0)

static void losses_are_of_one_process(void **state)
{
    problem p;
    hga_exchange x;
    hga_plan *plan;
    hga_workspace *workspace;
    hga_id cuts[] = {0, 40};
    double loss;
    (void)state;
    variant_build(variant_named("window"), 40, 3, &narrow, &p);
    assert_ok(hga_dist_in_process(1, NULL, &x));
    hga_ranks ranks = {.exchange = &x, .cuts = cuts};
    hga_options o = {.threads = 1, .gradient = 1, .ranks = &ranks};
    hga_grad_io grad = {.d_out = p.io.out};
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &o, &plan));
    assert_ok(hga_workspace_create(plan, &workspace));
    assert_refused(HGA_EUNSUPPORTED, "one process", hga_plan_loss(plan, &p.io, &grad, HGA_GRADIENT_SCALE, 0, 0, &loss));
    hga_workspace_destroy(workspace), hga_plan_destroy(plan);
    hga_dist_destroy(&x);
    problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_has_the_gradients_of_one_process),
        cmocka_unit_test(options_and_layouts_change_nothing),
        cmocka_unit_test(tables_have_the_gradients_of_all_ranks),
        cmocka_unit_test(random_programs_on_random_graphs_cut_anywhere),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(a_rank_that_is_late_changes_nothing),
        cmocka_unit_test(what_one_rank_does_otherwise_reaches_all),
        cmocka_unit_test(a_failing_allocation_of_one_rank_reaches_all),
        cmocka_unit_test(a_batch_goes_back_sample_after_sample),
        cmocka_unit_test(losses_are_of_one_process),
    };
    alarm(getenv("HGA_TEST_QUICK") ? 900 : 300); /* a rank that hangs ends the test */
    return cmocka_run_group_tests_name("exchange_gradient", tests, NULL, NULL);
}
