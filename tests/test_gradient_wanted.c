/* test_gradient_wanted.c: every gradient that is wanted is written, whoever reads the tensor it belongs to: what was in
   memory before does not show. */
#include "engine_cases.h"
#include "filling.h"
#include "random_program.h"

enum { SPARE_ROWS = 7 /* of a tensor that the program has no field for */ };

/* A tensor whose gradient is wanted, with gaps between rows and heads. */
typedef struct wanted_rows {
    char name[24];
    hga_tensor t;
    int64_t rows, bytes;
    hga_id heads, columns;
    int read; /* by a stage; else its gradient is zeros */
} wanted_rows;

/* All that a call may want. */
typedef struct wanted_all {
    problem *p;
    wanted_rows tensor[3 + HGA_MAX_USER_TENSORS];
    int n;
    float *table[7];
    int64_t entries[7];
    float *d_out;
} wanted_all;

static hga_id columns_of(const problem *p, hga_width w)
{
    hga_id dim_v = p->shape.dim_v ? p->shape.dim_v : p->shape.dim;
    return w == HGA_WIDTH_SCALAR ? 1 : w == HGA_WIDTH_KEY || w == HGA_WIDTH_KV_KEY ? p->shape.dim : dim_v;
}

static hga_id heads_of(const problem *p, hga_width w)
{
    hga_id kv = p->shape.n_kv_heads ? p->shape.n_kv_heads : p->shape.n_heads;
    return w == HGA_WIDTH_KV_KEY || w == HGA_WIDTH_VALUE ? kv : p->shape.n_heads;
}

static void add_tensor(wanted_all *w, const char *name, hga_id field, hga_width width, hga_dtype dtype)
{
    const problem *p = w->p;
    wanted_rows *x = &w->tensor[w->n++];
    hga_id first, n = SPARE_ROWS;
    uint32_t reads = 0;
    snprintf(x->name, sizeof x->name, "%s", name);
    for (hga_id s = 0; s < p->program.n_stages; s++) reads |= p->program.stage[s].reads;
    if (field) assert_ok(hga_program_rows(&p->program, p->graph, field, &first, &n));
    x->rows = n, x->heads = heads_of(p, width), x->columns = columns_of(p, width), x->read = reads >> field & 1u;
    x->t = (hga_tensor){.rows = n, .head_stride = x->columns + 3, .dtype = dtype};
    x->t.row_stride = x->heads * x->t.head_stride + 5;
    x->bytes = (x->rows * x->t.row_stride + 1) * (dtype == HGA_F32 ? 4 : 2);
    x->t.data = memory(x->bytes, 1);
}

static const hga_width usual[] = {HGA_WIDTH_KEY, HGA_WIDTH_KV_KEY, HGA_WIDTH_VALUE};

static wanted_all wanted_create(problem *p, hga_dtype dtype)
{
    static const char *const names[] = {"query", "key", "value"};
    wanted_all w = {.p = p, .d_out = random_floats(99, 1, out_count(p))};
    const hga_io *io = &p->io;
    for (int i = 0; i < 3; i++)
        add_tensor(&w, names[i], hga_program_field(&p->program, (hga_binding)(HGA_IO_QUERY + i)), usual[i], dtype);
    for (hga_id f = 1; f <= p->program.n_fields; f++)
        if (p->program.field[f].binding == HGA_IO_USER) add_tensor(&w, "user", f, p->program.field[f].width, dtype);
    const int64_t entries[] = {io->rel_key.data ? (int64_t)io->rel_key.rows * p->shape.dim : 0,
                               io->rel_bias.data ? (int64_t)io->rel_bias.rows * p->shape.n_heads : 0,
                               io->edge_bias.data ? io->edge_bias.rows * io->edge_bias.columns : 0,
                               io->node_pos.data ? (int64_t)io->node_pos.rows * p->shape.pos_dim : 0,
                               io->type_scale.data ? io->type_scale.rows : 0,
                               hga_graph_nodes(p->graph).n,
                               1};
    for (int i = 0; i < 7; i++) w.entries[i] = entries[i], w.table[i] = memory(entries[i] + 1, sizeof(float));
    return w;
}

static void wanted_clear(wanted_all *w)
{
    for (int i = 0; i < w->n; i++) free(w->tensor[i].t.data);
    for (int i = 0; i < 7; i++) free(w->table[i]);
    free(w->d_out);
}

static hga_grad_io wanted_io(const wanted_all *w)
{
    hga_grad_io g = {.d_out = {.data = w->d_out, .rows = w->p->n_out},
                     .d_query = w->tensor[0].t,
                     .d_key = w->tensor[1].t,
                     .d_value = w->tensor[2].t};
    for (int i = 3; i < w->n; i++) g.d_user[i - 3] = w->tensor[i].t;
    float **to[] = {&g.d_rel_key,    &g.d_rel_bias, &g.d_edge_bias, &g.d_node_pos,
                    &g.d_type_scale, &g.d_log_mass, &g.d_scale};
    for (int i = 0; i < 7; i++) *to[i] = w->entries[i] ? w->table[i] : NULL;
    return g;
}

static void fill(wanted_all *w, int byte)
{
    for (int i = 0; i < w->n; i++) memset(w->tensor[i].t.data, byte, (size_t)w->tensor[i].bytes);
    for (int i = 0; i < 7; i++) memset(w->table[i], byte, (size_t)(w->entries[i] + 1) * sizeof(float));
}

/* Execute and go back in memory that nobody has written. */
static void run(wanted_all *w, hga_options options, int accumulate)
{
    problem *p = w->p;
    filling fresh = {.byte = 0xff};
    hga_allocator allocator = filling_allocator(&fresh);
    hga_plan *plan;
    hga_workspace *workspace;
    hga_io io = p->io;
    hga_grad_io g = wanted_io(w);
    options.allocator = &allocator, options.gradient = 1;
    options.rows = io.rows ? HGA_SOME_ROWS : HGA_EVERY_ROW;
    g.accumulate = accumulate;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, &options, &plan));
    assert_ok(hga_workspace_create(plan, &workspace));
    io.tape = memory(hga_plan_tape_bytes(plan), 1);
    assert_ok(hga_plan_execute(plan, workspace, &io));
    assert_ok(hga_plan_gradient(plan, workspace, &io, &g));
    free(io.tape);
    hga_workspace_destroy(workspace), hga_plan_destroy(plan);
    assert_int_equal(fresh.live, 0);
}

/* Is byte `at` of a tensor one of a number's? */
static int is_inside(const wanted_rows *x, int64_t at)
{
    int64_t i = at / (x->t.dtype == HGA_F32 ? 4 : 2), in_row = i % x->t.row_stride;
    return i < x->rows * x->t.row_stride && in_row < x->heads * x->t.head_stride &&
           in_row % x->t.head_stride < x->columns;
}

/* Two patterns of memory become one, zeros where nobody reads; between the rows they stay. */
static void compare(const wanted_all *a, const wanted_all *b, const char *how)
{
    for (int i = 0; i < a->n; i++) {
        const wanted_rows *x = &a->tensor[i];
        const uint8_t *one = x->t.data, *other = b->tensor[i].t.data;
        for (int64_t j = 0; j < x->bytes; j++) {
            int inside = is_inside(x, j), kept = one[j] == 0xff && other[j] == 0x5a;
            if (inside ? one[j] != other[j] || (!x->read && one[j]) : !kept)
                fail_msg("%s, %s: byte %lld of the gradient of %s (%s, %s) is %d or %d", a->p->name, how, (long long)j,
                         x->name, x->read ? "read" : "not read", inside ? "a number's" : "a gap", one[j], other[j]);
        }
    }
    for (int i = 0; i < 7; i++)
        if (memcmp(a->table[i], b->table[i], (size_t)a->entries[i] * sizeof(float)) != 0)
            fail_msg("%s, %s: the gradient of table %d is what memory was", a->p->name, how, i);
}

static void check_written(problem *p, hga_options options, hga_dtype dtype)
{
    char how[80];
    wanted_all a = wanted_create(p, dtype), b = wanted_create(p, dtype);
    snprintf(how, sizeof how, "generic %d, %d threads, dtype %d, rows %lld", options.generic, options.threads,
             (int)dtype, (long long)(p->io.rows ? p->io.rows->interval->n : 0));
    fill(&a, 0xff), fill(&b, 0x5a);
    run(&a, options, 0), run(&b, options, 0);
    compare(&a, &b, how);
    wanted_clear(&a), wanted_clear(&b);
}

/* A tensor of the caller's own beside the others, which no stage looks at. */
static void add_unread(problem *p)
{
    static const hga_width widths[] = {HGA_WIDTH_KEY, HGA_WIDTH_KV_KEY, HGA_WIDTH_SCALAR};
    hga_id f, n = hga_graph_nodes(p->graph).n, seed = p->program.n_stages % 3;
    assert_ok(
        hga_program_add_field(&p->program, "unread", widths[seed], HGA_IO_USER, HGA_ROWS_NODES, HGA_ROWS_NODES, &f));
    int64_t count = (int64_t)n * p->shape.n_heads * (p->shape.dim + 1);
    p->io.user[0] = (hga_tensor){.data = p->owned[p->n_owned++] = random_floats(3, 1, count), .rows = n};
}

static void check_ways(problem *p, int i)
{
    for (int generic = 0; generic < 2; generic++)
        for (hga_id threads = 1; threads < 4; threads += 2)
            check_written(p, (hga_options){.generic = generic, .threads = threads}, (hga_dtype)((i + generic) % 3));
}

/* Query and key of a program of sums, a user's tensor beside any program's, whatever the backward pass. */
static void a_wanted_gradient_that_nothing_writes_is_zero(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * n_variants(); i++) {
        problem p;
        if (passed_over(i)) continue;
        variant_build(i / 2, 60, (uint64_t)i, &shapes[i % N_SHAPES], &p);
        if (i % 2 && find_stage(&p.program, HGA_SCORE)) problem_fill_tables(&p, 5, i % 4 == 1, 1, 0);
        if (i % 3) add_unread(&p);
        check_ways(&p, i);
        p.io.rows = i % 4 == 1 ? SOME_ROWS(3, 9) : NULL;
        check_written(&p, (hga_options){.threads = 2}, HGA_F32);
        problem_clear(&p);
    }
}

/* Rows of a tensor that no row attends to, or that attends to nothing. */
static void gradients_of_random_programs_are_all_written(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        problem p = {.shape = shapes[seed % N_SHAPES]};
        uint64_t rng = seed;
        if (passed_over((int)seed)) continue;
        snprintf(p.name, sizeof p.name, "random program %d", (int)seed);
        p.graph = random_graph(seed, 5 + random_below(&rng, 60), (unsigned)random_below(&rng, 64));
        p.program = random_program(&rng);
        problem_fill(&p, seed);
        problem_fill_tables(&p, seed, seed % 2 == 0, seed % 3 == 0, seed % 5 == 1);
        if (find_stage(&p.program, HGA_SCALED)) {
            p.io.type_scale.rows = hga_graph_relation(p.graph, 0).n_types;
            p.io.type_scale.data = p.owned[p.n_owned++] = random_floats(seed, 1, p.io.type_scale.rows);
        }
        if (seed % 2) add_unread(&p);
        check_ways(&p, (int)seed);
        problem_clear(&p);
    }
}

/* To be added to, what nobody reads has nothing. */
static void nothing_is_added_to_what_nobody_reads(void **state)
{
    (void)state;
    problem p;
    variant_build(variant_named("coarse"), 40, 1, &shapes[1], &p);
    for (int generic = 0; generic < 2; generic++) {
        wanted_all w = wanted_create(&p, HGA_F32);
        fill(&w, 0x5a);
        run(&w, (hga_options){.generic = generic, .threads = 2}, 1);
        for (int i = 0; i < 2; i++)
            for (int64_t j = 0; j < w.tensor[i].bytes; j++)
                assert_int_equal(((const uint8_t *)w.tensor[i].t.data)[j], 0x5a);
        wanted_clear(&w);
    }
    problem_clear(&p);
}

/* Once keys and values were added up in another order where a tensor that nobody reads had 16 bits; on ranks,
   which do not look at it, they were not. */
static void check_type_of_unread(problem *p)
{
    wanted_all floats = wanted_create(p, HGA_F32), halves = wanted_create(p, HGA_F32);
    int user = halves.n - 1;
    assert_string_equal(halves.tensor[user].name, "user");
    assert_false(halves.tensor[user].read);
    halves.tensor[user].t.dtype = HGA_F16;
    fill(&floats, 0), fill(&halves, 0);
    run(&floats, (hga_options){.threads = 2}, 0), run(&halves, (hga_options){.threads = 2}, 0);
    for (int i = 0; i < 3; i++)
        if (memcmp(floats.tensor[i].t.data, halves.tensor[i].t.data, (size_t)floats.tensor[i].bytes))
            fail_msg("%s: %s has other bits", p->name, floats.tensor[i].name);
    wanted_clear(&floats), wanted_clear(&halves);
}

static void the_type_of_what_nobody_reads_changes_no_bit(void **state)
{
    (void)state;
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        if (passed_over(i)) continue;
        variant_build(i, 60, (uint64_t)i, &shapes[2], &p);
        add_unread(&p);
        check_type_of_unread(&p);
        problem_clear(&p);
    }
}

/* How long a row is of a tensor that is not in the program nobody knows. */
static void gradients_of_user_tensors_that_are_not_there_are_refused(void **state)
{
    (void)state;
    problem p;
    hga_plan *plan;
    hga_workspace *workspace;
    float x[4] = {0};
    variant_build(variant_named("dense"), 10, 1, &shapes[0], &p);
    wanted_all w = wanted_create(&p, HGA_F32);
    hga_grad_io g = wanted_io(&w);
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, &(hga_options){.gradient = 1}, &plan));
    assert_ok(hga_workspace_create(plan, &workspace));
    p.io.tape = memory(hga_plan_tape_bytes(plan), 1);
    assert_ok(hga_plan_execute(plan, workspace, &p.io));
    g.d_user[2] = (hga_tensor){.data = x, .rows = 4};
    assert_status(HGA_EINVAL, hga_plan_gradient(plan, workspace, &p.io, &g));
    assert_string_equal(hga_error_detail(), "the gradient of user tensor 2 is requested, but the program has 0");
    free(p.io.tape);
    hga_workspace_destroy(workspace), hga_plan_destroy(plan), wanted_clear(&w), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wanted_gradient_that_nothing_writes_is_zero),
        cmocka_unit_test(gradients_of_random_programs_are_all_written),
        cmocka_unit_test(nothing_is_added_to_what_nobody_reads),
        cmocka_unit_test(the_type_of_what_nobody_reads_changes_no_bit),
        cmocka_unit_test(gradients_of_user_tensors_that_are_not_there_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
