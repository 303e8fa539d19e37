/* test_overlap.c: what a call writes must not share memory with what it reads, with what else it writes, or with
   itself; views of one array may lie between each other. */
#include "by_hand.h"
#include "overlap.h"
#include "plan.h"
#include "slopes.h"

/* ---- which arrays meet ---- */

enum { MEMORY = 4096, MIDDLE = 2048 };

static void mark(const io_array *a, const char *memory, uint8_t *marks, int *twice)
{
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t h = 0; h < a->heads; h++)
            for (int64_t c = 0; c < a->bytes; c++) *twice |= marks[a->data - memory + i * a->row + h * a->head + c]++;
}

static io_array random_array(uint64_t *rng, const char *memory)
{
    static const hga_dtype types[] = {HGA_F32, HGA_F16, HGA_BF16};
    hga_id heads = 1 + random_below(rng, 4), columns = 1 + random_below(rng, 4), rows = 1 + random_below(rng, 6);
    hga_tensor t = {.dtype = types[random_below(rng, 3)]};
    switch (random_below(rng, 4)) {
    case 0: break;
    case 1: t.head_stride = columns + random_below(rng, 3), t.row_stride = heads * t.head_stride; break;
    case 2: t.row_stride = columns + random_below(rng, 3), t.head_stride = rows * t.row_stride; break;
    default: t.row_stride = random_below(rng, 25) - 12, t.head_stride = random_below(rng, 25) - 12;
    }
    t.data = (void *)(uintptr_t)(memory + MIDDLE + 4 * (random_below(rng, 60) - 30));
    io_array a;
    assert_ok(array_of_tensor("an", "array", &t, 0, rows, heads, columns, &a));
    return a;
}

/* Byte by byte: what is found is there, and what is there is found, where one is in one piece or strides are alike. */
static void arrays_meet_where_they_have_a_byte_in_common(void **state)
{
    (void)state;
    static char memory_of_all[MEMORY];
    int64_t met = 0, apart = 0, between = 0;
    for (uint64_t seed = 0; seed < 60000; seed++) {
        uint64_t rng = seed;
        uint8_t marks[2][MEMORY] = {{0}};
        int twice[2] = {0}, common = 0;
        io_array a = random_array(&rng, memory_of_all), b = random_array(&rng, memory_of_all);
        if (seed % 3 == 0) b.rows = a.rows, b.heads = a.heads, b.row = a.row, b.head = a.head;
        if (seed % 3 == 0) b = a, b.data += 4 * (random_below(&rng, 40) - 20);
        if (seed % 3 == 0) b.first += (uintptr_t)(b.data - a.data), b.end += (uintptr_t)(b.data - a.data);
        mark(&a, memory_of_all, marks[0], &twice[0]), mark(&b, memory_of_all, marks[1], &twice[1]);
        for (int i = 0; i < MEMORY; i++) common |= marks[0][i] && marks[1][i];
        int found = arrays_meet(&a, &b), alike = a.row == b.row && a.head == b.head;
        if (found && !common) fail_msg("seed %llu: nothing is common", (unsigned long long)seed);
        if (common && !found && alike) fail_msg("seed %llu: strides are alike", (unsigned long long)seed);
        if (arrays_meet(&b, &a) != found) fail_msg("seed %llu: the other way", (unsigned long long)seed);
        if ((arrays_disjoint(&a, 1, &a, 1) != HGA_OK) != (twice[0] != 0))
            fail_msg("seed %llu: itself", (unsigned long long)seed);
        met += found, apart += !found, between += !found && alike && a.first < b.end && b.first < a.end;
    }
    assert_true(met > 1000 && apart > 1000 && between > 1000);
}

static void one_piece_meets_whatever_begins_or_ends_in_it(void **state)
{
    (void)state;
    static const char memory_of_all[MEMORY];
    for (uint64_t seed = 0; seed < 20000; seed++) {
        uint64_t rng = seed;
        uint8_t marks[2][MEMORY] = {{0}};
        int twice = 0, common = 0;
        io_array a = random_array(&rng, memory_of_all),
                 b = array_of_block("a", "", memory_of_all + MIDDLE + random_below(&rng, 200) - 100,
                                    1 + random_below(&rng, 40));
        mark(&a, memory_of_all, marks[0], &twice), mark(&b, memory_of_all, marks[1], &twice);
        for (int i = 0; i < MEMORY; i++) common |= marks[0][i] && marks[1][i];
        assert_int_equal(arrays_meet(&a, &b), common);
        assert_int_equal(arrays_meet(&b, &a), common);
    }
}

static void strides_that_leave_memory_are_refused(void **state)
{
    (void)state;
    float x[4];
    io_array a;
    hga_tensor t = {.data = x, .row_stride = PTRDIFF_MAX / 8, .head_stride = 1};
    assert_status(HGA_EOVERFLOW, array_of_tensor("the output", "", &t, 0, 1000, 2, 2, &a));
    assert_non_null(strstr(hga_error_detail(), "the output: 1000 rows"));
    t.row_stride = 2, t.head_stride = PTRDIFF_MIN / 8;
    assert_status(HGA_EOVERFLOW, array_of_tensor("the output", "", &t, 0, 10, 200, 2, &a));
    t.head_stride = 2;
    assert_ok(array_of_tensor("the output", "", &t, 0, 1, 2, 2, &a));
}

/* ---- executions ---- */

enum { N = 12, HEADS = 2, DIM = 3, ROW = HEADS * DIM };

/* Attention over all pairs of N tokens, with log-sum-exps, a tape, and one tensor of everything. */
typedef struct attended {
    problem p;
    hga_plan *plan;
    hga_workspace *own;
    hga_io io;
    float *all; /* [N][4][ROW], and as much again */
    char *tape;
} attended;

static attended attended_open(int64_t rows)
{
    attended a = {.p = {.name = "all pairs", .shape = {.n_heads = HEADS, .dim = DIM}}};
    a.p.graph = blocks_over(N, &(hga_block){.n_dst = N, .n_src = N}, 1);
    assert_ok(hga_program_attention(&a.p.program, 0));
    a.p.program.has_lse = 1;
    problem_fill(&a.p, 1), problem_fill_tables(&a.p, 2, 1, 1, 0);
    hga_options o = {.threads = 2, .gradient = 1, .rows = rows};
    assert_ok(hga_plan_create(a.p.graph, &a.p.program, &a.p.shape, &o, &a.plan));
    assert_ok(hga_workspace_create(a.plan, &a.own));
    a.all = memory(2 * 4 * N * ROW, sizeof(float));
    a.tape = memory(hga_plan_tape_bytes(a.plan) + 64, 1);
    a.io = a.p.io, a.io.tape = a.tape;
    return a;
}

static void attended_close(attended *a)
{
    free(a->all), free(a->tape);
    hga_workspace_destroy(a->own), hga_plan_destroy(a->plan), problem_clear(&a->p);
}

static void assert_refused(const attended *a, const hga_io *io, const char *says)
{
    assert_status(HGA_EINVAL, hga_plan_execute(a->plan, a->own, io));
    if (!strstr(hga_error_detail(), says)) fail_msg("'%s' does not say '%s'", hga_error_detail(), says);
}

static void outputs_apart_from_inputs_and_themselves(void **state)
{
    (void)state;
    attended a = attended_open(0);
    hga_io io = a.io;
    float *query = io.query.data, *out = io.out.data;
    io.out.data = query + (N - 1) * ROW + 1;
    io.out.row_stride = ROW;
    assert_refused(&a, &io, "the output would be written over the tensor of field query");
    io = a.io, io.out.row_stride = ROW - 1, io.out.head_stride = DIM;
    assert_refused(&a, &io, "the output overlaps itself");
    io = a.io, io.out.row_stride = 1;
    assert_refused(&a, &io, "the output overlaps itself");
    io = a.io, io.out.row_stride = 10 * ROW, io.out.head_stride = DIM - 1;
    assert_refused(&a, &io, "the output overlaps itself");
    io = a.io, io.out.row_stride = -ROW + 2, io.out.head_stride = DIM;
    assert_refused(&a, &io, "the output overlaps itself");
    io = a.io, io.lse.data = out + 3;
    assert_refused(&a, &io, "the output and the log-sum-exp share memory");
    io = a.io, io.lse.row_stride = 1;
    assert_refused(&a, &io, "the log-sum-exp overlaps itself");
    io = a.io, io.tape = io.lse.data;
    if ((uintptr_t)io.tape % 8 == 0) assert_refused(&a, &io, "the tape share memory");
    io = a.io, io.tape = a.tape + 4;
    assert_refused(&a, &io, "the tape does not start at a multiple of 8 bytes");
    io = a.io, io.rel_bias.data = out + 5;
    assert_refused(&a, &io, "the output would be written over rel_bias");
    assert_ok(hga_plan_execute(a.plan, a.own, &a.io));
    attended_close(&a);
}

/* Query, key, value and output side by side in one array, row by row; or, from its end to its begin. */
static void views_between_each_other_are_fine(void **state)
{
    (void)state;
    attended a = attended_open(0);
    float *want = problem_out(&a.p, &(hga_options){.threads = 1}, NULL);
    for (int backwards = 0; backwards < 2; backwards++) {
        hga_io io = a.io;
        hga_tensor *t[] = {&io.query, &io.key, &io.value, &io.out};
        for (int i = 0; i < 4; i++) {
            const float *from = t[i]->data;
            t[i]->data = a.all + i * ROW + (backwards ? (N - 1) * 4 * ROW : 0);
            t[i]->row_stride = backwards ? -4 * ROW : 4 * ROW, t[i]->head_stride = DIM;
            for (int v = 0; v < N && i < 3; v++)
                memcpy((float *)t[i]->data + v * t[i]->row_stride, from + v * ROW, ROW * sizeof *from);
        }
        assert_ok(hga_plan_execute(a.plan, a.own, &io));
        for (int v = 0; v < N; v++)
            assert_same_bits("side by side", (float *)io.out.data + v * io.out.row_stride, want + v * ROW, ROW);
        io.out.data = (float *)io.out.data - 1;
        assert_refused(&a, &io, "the output would be written over the tensor of field value");
    }
    free(want), attended_close(&a);
}

/* ---- gradients ---- */

static void gradients_apart_from_inputs_and_each_other(void **state)
{
    (void)state;
    attended a = attended_open(0);
    slope s = slope_create(&a.p, 1);
    assert_ok(hga_plan_execute(a.plan, a.own, &a.io));
    struct {
        void *at; /* a pointer, which lies in what the gradient of keys goes to */
        const char *says;
    } cases[] = {
        {&a.io.value.data, "key would be written over the tensor of field value"},
        {&a.io.out.data, "key would be written over the tensor of field out"},
        {&s.grad.d_out.data, "key would be written over the given gradient of field out"},
        {&s.grad.d_lse.data, "key would be written over the gradient of the log-sum-exp"},
        {&s.grad.d_query.data, "query and the gradient of field key share memory"},
        {&s.grad.d_rel_bias, "key and the gradient of rel_bias share memory"},
        {&s.grad.d_scale, "key and the gradient of scale share memory"},
        {(void *)(uintptr_t)&a.io.rel_key.data, "key would be written over rel_key"},
        {&a.io.tape, "key would be written over the tape"},
    };
    void *key = s.grad.d_key.data;
    s.grad.d_key.data = a.all;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        void *kept, *inside = a.all + N * ROW - 2;
        memcpy(&kept, cases[i].at, sizeof kept), memcpy(cases[i].at, &inside, sizeof inside);
        if (cases[i].at == &a.io.tape) memcpy(a.io.tape, kept, (size_t)hga_plan_tape_bytes(a.plan));
        assert_status(HGA_EINVAL, hga_plan_gradient(a.plan, a.own, &a.io, &s.grad));
        if (!strstr(hga_error_detail(), cases[i].says))
            fail_msg("'%s' does not say '%s'", hga_error_detail(), cases[i].says);
        memcpy(cases[i].at, &kept, sizeof kept);
    }
    s.grad.d_key.head_stride = DIM, s.grad.d_key.row_stride = ROW - 1;
    assert_status(HGA_EINVAL, hga_plan_gradient(a.plan, a.own, &a.io, &s.grad));
    assert_non_null(strstr(hga_error_detail(), "the gradient of field key overlaps itself"));
    s.grad.d_key.head_stride = s.grad.d_key.row_stride = 0, s.grad.d_key.data = key;
    assert_ok(hga_plan_gradient(a.plan, a.own, &a.io, &s.grad));
    slope_clear(&s), attended_close(&a);
}

/* ---- samples ---- */

enum { SAMPLES = 3 };
typedef struct batch {
    attended a;
    hga_workspace *own[SAMPLES];
    hga_io io[SAMPLES];
    float *out[SAMPLES], *lse[SAMPLES];
    void *tape[SAMPLES];
} batch;

static batch batch_open(int64_t rows)
{
    batch b = {.a = attended_open(rows)};
    for (int i = 0; i < SAMPLES; i++) {
        assert_ok(hga_workspace_create(b.a.plan, &b.own[i]));
        b.out[i] = memory(N * ROW, sizeof(float)), b.lse[i] = memory(N * HEADS, sizeof(float));
        b.tape[i] = memory(hga_plan_tape_bytes(b.a.plan), 1);
        b.io[i] = b.a.io;
        b.io[i].out.data = b.out[i], b.io[i].lse.data = b.lse[i], b.io[i].tape = b.tape[i];
    }
    return b;
}

static void batch_close(batch *b)
{
    for (int i = 0; i < SAMPLES; i++) {
        free(b->out[i]), free(b->lse[i]), free(b->tape[i]);
        hga_workspace_destroy(b->own[i]);
    }
    attended_close(&b->a);
}

static void assert_batch_refused(const batch *b, const hga_io *io, const char *says)
{
    assert_status(HGA_EINVAL, hga_plan_execute_batch(b->a.plan, b->own, io, SAMPLES));
    if (strcmp(hga_error_detail(), says) != 0) fail_msg("'%s' does not say '%s'", hga_error_detail(), says);
    for (int i = 0; i < SAMPLES; i++) /* none has run */
        for (int j = 0; j < N * ROW; j++) assert_true(b->out[i][j] == 0);
}

static void one_output_or_tape_does_not_serve_two_samples(void **state)
{
    (void)state;
    batch b = batch_open(0);
    hga_io io[SAMPLES];
    memcpy(io, b.io, sizeof io), io[2].out.data = b.out[0];
    assert_batch_refused(&b, io, "sample 2: the output and the output of sample 0 share memory");
    memcpy(io, b.io, sizeof io), io[1].tape = b.tape[0];
    assert_batch_refused(&b, io, "sample 1: the tape and the tape of sample 0 share memory");
    memcpy(io, b.io, sizeof io), io[2].lse.data = b.lse[1] + 3, io[2].lse.row_stride = HEADS;
    assert_batch_refused(&b, io, "sample 2: the log-sum-exp and the log-sum-exp of sample 1 share memory");
    memcpy(io, b.io, sizeof io), io[2].key.data = b.out[1];
    assert_batch_refused(&b, io, "sample 2: the tensor of field key and the output of sample 1 share memory");
    memcpy(io, b.io, sizeof io), io[1].query.data = b.out[2];
    assert_batch_refused(&b, io, "sample 2: the output and the tensor of field query of sample 1 share memory");
    assert_ok(hga_plan_execute_batch(b.a.plan, b.own, b.io, SAMPLES)); /* which share all that they read */
    assert_same_bits("samples", b.out[1], b.out[0], N * ROW);
    batch_close(&b);
}

/* Outputs of samples side by side, row by row, in one array; and rows of one output, each sample's its own, in numbers
   of 32 and of 16 bits. */
static void samples_may_lie_between_each_other(void **state)
{
    (void)state;
    batch b = batch_open(1);
    const hga_rows *third[SAMPLES] = {SOME_ROWS(0, 4), SOME_ROWS(4, 4), SOME_ROWS(8, 4)};
    float *want = problem_out(&b.a.p, &(hga_options){.threads = 1}, NULL);
    for (int i = 0; i < SAMPLES; i++)
        b.io[i].out =
            (hga_tensor){.data = b.a.all + i * ROW, .rows = N, .row_stride = SAMPLES * ROW, .head_stride = DIM};
    assert_ok(hga_plan_execute_batch(b.a.plan, b.own, b.io, SAMPLES));
    for (int i = 0; i < SAMPLES; i++)
        for (int v = 0; v < N; v++)
            assert_same_bits("row by row", b.a.all + (v * SAMPLES + i) * ROW, want + v * ROW, ROW);
    for (int type = HGA_F32; type <= HGA_BF16; type++) {
        uint16_t *half = (uint16_t *)(void *)b.a.all, whole[N * ROW];
        b.io[0].rows = NULL;
        b.io[0].out = (hga_tensor){.data = b.a.all, .rows = N, .dtype = (hga_dtype)type};
        assert_ok(hga_plan_execute(b.a.plan, b.own[0], &b.io[0]));
        memcpy(whole, half, sizeof whole), memset(half, 0, 2 * sizeof whole);
        for (int i = 0; i < SAMPLES; i++) b.io[i].out = b.io[0].out, b.io[i].lse.data = NULL, b.io[i].rows = third[i];
        assert_ok(hga_plan_execute_batch(b.a.plan, b.own, b.io, SAMPLES));
        if (type == HGA_F32)
            assert_same_bits("rows of one output", b.a.all, want, N * ROW);
        else
            assert_memory_equal(half, whole, sizeof whole);
        b.io[2].rows = SOME_ROWS(7, 4);
        assert_status(HGA_EINVAL, hga_plan_execute_batch(b.a.plan, b.own, b.io, SAMPLES));
        for (int i = 0; i < SAMPLES; i++) b.io[i].lse.data = b.lse[i];
    }
    free(want), batch_close(&b);
}

/* What one sample writes into a tensor of the user's no other does. */
static void an_own_tensor_that_is_written_is_one_samples(void **state)
{
    (void)state;
    problem p = {.name = "means", .shape = {.n_heads = 1, .dim = DIM}};
    p.graph = blocks_over(N, &(hga_block){.n_dst = N, .n_src = N}, 1);
    hga_program_init(&p.program);
    hga_id v = field_on_nodes(&p.program, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE),
           y = field_on_nodes(&p.program, "y", HGA_WIDTH_VALUE, HGA_IO_USER),
           out = field_on_nodes(&p.program, "out", HGA_WIDTH_OUT, HGA_IO_OUT);
    assert_ok(hga_program_mean(&p.program, 0, v, y, 0));
    assert_ok(hga_program_weighted_sum(&p.program, 0, y, out));
    problem_fill(&p, 1);
    p.io.type_scale.data = (float[]){1}, p.io.type_scale.rows = 1;
    float own[2][N * DIM], other[N * DIM];
    hga_plan *plan;
    hga_workspace *w[2];
    hga_io io[2] = {p.io, p.io};
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, NULL, &plan));
    for (int i = 0; i < 2; i++) assert_ok(hga_workspace_create(plan, &w[i]));
    io[1].out.data = other;
    for (int i = 0; i < 2; i++) io[i].user[0] = (hga_tensor){.data = own[0], .rows = N};
    assert_status(HGA_EINVAL, hga_plan_execute_batch(plan, w, io, 2));
    assert_string_equal(hga_error_detail(),
                        "sample 1: the tensor of field y and the tensor of field y of sample 0 share memory");
    io[1].user[0].data = own[1];
    assert_ok(hga_plan_execute_batch(plan, w, io, 2));
    assert_same_bits("two samples", own[0], own[1], N * DIM);
    memset(own[1], 0xff, sizeof own[1]); /* an output: what it held is not read */
    assert_ok(hga_plan_execute_batch(plan, w, io, 2));
    assert_same_bits("once more", own[0], own[1], N * DIM);
    assert_same_bits("once more", p.io.out.data, other, N * DIM);
    io[0].user[0].data = io[0].value.data;
    assert_status(HGA_EINVAL, hga_plan_execute(plan, w[0], &io[0]));
    assert_string_equal(hga_error_detail(), "the tensor of field y would be written over the tensor of field v");
    for (int i = 0; i < 2; i++) hga_workspace_destroy(w[i]);
    hga_plan_destroy(plan), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_meet_where_they_have_a_byte_in_common),
        cmocka_unit_test(one_piece_meets_whatever_begins_or_ends_in_it),
        cmocka_unit_test(strides_that_leave_memory_are_refused),
        cmocka_unit_test(outputs_apart_from_inputs_and_themselves),
        cmocka_unit_test(views_between_each_other_are_fine),
        cmocka_unit_test(gradients_apart_from_inputs_and_each_other),
        cmocka_unit_test(one_output_or_tape_does_not_serve_two_samples),
        cmocka_unit_test(samples_may_lie_between_each_other),
        cmocka_unit_test(an_own_tensor_that_is_written_is_one_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
