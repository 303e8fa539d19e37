/* The ways back, as a table: each way takes a problem of its own, and every fact holds of every way. A new way is a
   row of `rows`, a new fact one of `facts`. */
#include "sixteen.h"
#include "slopes.h"
#include "way_cases.h"

/* ---- a call ---- */

typedef struct call {
    const row *r;
    problem p;
    filling memory;
    hga_allocator allocator;
    hga_plan *plan;
    hga_workspace *workspace;
    hga_io io;
    slope s;
} call;

static void call_begin(call *c, const row *r, const hga_shape *shape, hga_id threads)
{
    *c = (call){.r = r, .p = problem_of(r, shape), .memory = {.byte = 0xff}};
    c->allocator = filling_allocator(&c->memory);
    hga_options options = r->options;
    options.gradient = 1, options.threads = threads, options.allocator = &c->allocator;
    assert_ok(hga_plan_create(c->p.graph, &c->p.program, &c->p.shape, &options, &c->plan));
    assert_ok(hga_workspace_create(c->plan, &c->workspace));
    c->io = c->p.io, c->io.tape = memory(hga_plan_tape_bytes(c->plan), 1);
    c->s = slope_create(&c->p, 1);
    assert_ok(hga_plan_execute(c->plan, c->workspace, &c->io));
}

static void call_end(call *c)
{
    free(c->io.tape), slope_clear(&c->s);
    hga_workspace_destroy(c->workspace), hga_plan_destroy(c->plan), problem_clear(&c->p);
    if (c->memory.live) fail_msg("%s: %lld blocks were not given back", c->p.name, (long long)c->memory.live);
}

static hga_status go_back(call *c) { return hga_plan_gradient(c->plan, c->workspace, &c->io, &c->s.grad); }

/* ---- facts ---- */

static hga_options with_threads(const row *r, hga_id threads)
{
    hga_options options = r->options;
    options.threads = threads;
    return options;
}

/* Numbers of the tensors. */
static int64_t query_count(const problem *p) { return p->n_query * p->shape.n_heads * p->shape.dim; }
static hga_id kv_heads(const hga_shape *s) { return s->n_kv_heads ? s->n_kv_heads : s->n_heads; }
static int64_t key_count(const problem *p) { return p->n_key * kv_heads(&p->shape) * p->shape.dim; }
static int64_t value_count(const problem *p)
{
    return p->n_value * kv_heads(&p->shape) * (p->shape.dim_v ? p->shape.dim_v : p->shape.dim);
}

static void assert_told(const char *what)
{
    if (!strstr(hga_error_detail(), what)) fail_msg("'%s' does not say '%s'", hga_error_detail(), what);
}

/* The same problem in double. */
static slope plainly(problem *p, hga_options options)
{
    slope s = slope_create(p, 1);
    options.generic = 1, options.threads = 1;
    slope_run(&s, options);
    return s;
}

/* The row is of its way, and each way before it says why not. */
static void is_of_its_way(const row *r, const hga_shape *shape)
{
    call c;
    const char *name, *refusal;
    int found = 0;
    call_begin(&c, r, shape, 2);
    assert_string_equal(way_of(c.plan, &c.io, &c.s.grad), r->way);
    for (hga_id i = 0; (name = hga_plan_gradient_tried(c.plan, &c.io, &c.s.grad, i, &refusal)); i++) {
        int mine = strcmp(name, r->way) == 0;
        if (!found && !mine && (!refusal || !*refusal)) fail_msg("%s: %s refuses without a word", c.p.name, name);
        if (mine && refusal) fail_msg("%s: %s goes, and refuses: %s", c.p.name, name, refusal);
        found |= mine;
    }
    assert_true(found);
    call_end(&c);
}

/* With whatever a call may bring: a way that does not know it refuses, and another goes. An even number of them, where
   instruments are slow, is half of all, in which every three still meet, with and without each; of half the tokens,
   since what is plain is slowest. */
static void has_plain_gradients(const row *r, const hga_shape *shape)
{
    enum { TYPES = 1, POSITIONS = 2, BIASES = 4, DROPS = 8, ALL = 16 };
    for (unsigned call_has = 0; call_has < ALL; call_has++) {
        if (every_other_passed_over(__builtin_popcount(call_has))) continue;
        hga_shape with = *shape;
        hga_options options = with_threads(r, 2);
        if (call_has & POSITIONS) with.pos_dim = 3;
        if (call_has & DROPS) options.dropout = 0.3f;
        problem p = problem_of_tokens(r, shortened(r->n), &with);
        problem_fill_tables(&p, 2, call_has & TYPES, call_has & TYPES, call_has & BIASES ? p.shape.n_heads : 0);
        slope plain = plainly(&p, options), s = slope_create(&p, 1);
        slope_run(&s, options);
        assert_same_slopes(&plain, &s, 2e-4);
        slope_clear(&plain), slope_clear(&s), problem_clear(&p);
    }
}

/* Tensors of 16 bits have the gradients of the same numbers in floats. */
static void has_them_of_16_bits(const row *r, const hga_shape *shape)
{
    problem p = problem_of(r, shape);
    hga_tensor *input[] = {&p.io.query, &p.io.key, &p.io.value};
    const int64_t n[] = {query_count(&p), key_count(&p), value_count(&p)};
    uint16_t *narrow[3] = {NULL, NULL, NULL};
    for (int i = 0; i < 3; i++) {
        float *x = input[i]->data;
        narrow[i] = memory(n[i], sizeof *narrow[i]);
        for (int64_t j = 0; x && j < n[i]; j++) narrow[i][j] = narrow_bf16(x[j]), x[j] = widen_bf16(narrow[i][j]);
    }
    slope plain = plainly(&p, r->options), s = slope_create(&p, 1);
    for (int i = 0; i < 3; i++)
        if (input[i]->data) input[i]->data = narrow[i], input[i]->dtype = HGA_BF16;
    slope_run(&s, with_threads(r, 2));
    assert_same_slopes(&plain, &s, 4e-5);
    for (int i = 0; i < 3; i++) free(narrow[i]);
    slope_clear(&plain), slope_clear(&s), problem_clear(&p);
}

static void is_the_same_by_any_threads(const row *r, const hga_shape *shape)
{
    problem p = problem_of(r, shape);
    slope one = slope_create(&p, 1);
    slope_run(&one, with_threads(r, 1));
    for (hga_id threads = 2; threads < 6; threads++) {
        slope more = slope_create(&p, 1);
        slope_run(&more, with_threads(r, threads));
        assert_same_slopes(&one, &more, 0);
        slope_clear(&more);
    }
    slope_clear(&one), problem_clear(&p);
}

static const int tensors[] = {SLOW_QUERY, SLOW_KEY, SLOW_VALUE};

static hga_tensor *wanted(slope *s, int i)
{
    hga_tensor *all[] = {&s->grad.d_query, &s->grad.d_key, &s->grad.d_value};
    return all[i];
}

/* What is not wanted is not written, and not needed for the rest; what was there stays under what is added. */
static void gives_what_is_wanted_and_adds(const row *r, const hga_shape *shape)
{
    problem p = problem_of(r, shape);
    slope plain = plainly(&p, r->options);
    for (int which = 0; which < 8; which++) {
        slope s = slope_create(&p, 1);
        s.grad.accumulate = 1;
        if (which % 2) s.grad.d_scale = s.grad.d_log_mass = NULL;
        for (int i = 0; i < N_SLOW_INPUTS; i++)
            for (int64_t j = 0; j < s.n[i]; j++) s.of[i][j] = 1;
        for (int i = 0; i < 3; i++)
            if (!(which >> i & 1)) wanted(&s, i)->data = NULL;
        slope_run(&s, with_threads(r, 2));
        for (int i = 0; i < 3; i++)
            for (int64_t j = 0; j < s.n[tensors[i]]; j++) {
                double want = 1 + (which >> i & 1 ? (double)plain.of[tensors[i]][j] : 0);
                if (!(fabs((double)s.of[tensors[i]][j] - want) <= 4e-5 * fmax(1, fabs(want))))
                    fail_msg("%s: input %d entry %lld: %.9g, not %.9g", p.name, i, (long long)j,
                             (double)s.of[tensors[i]][j], want);
            }
        slope_clear(&s);
    }
    slope_clear(&plain), problem_clear(&p);
}

/* Rows and heads of gradients lie anywhere, and nothing between them is touched. */
static void writes_rows_that_lie_anywhere(const row *r, const hga_shape *shape)
{
    enum { GAP = 3 };
    problem p = problem_of(r, shape);
    slope plain = plainly(&p, r->options), s = slope_create(&p, 1);
    float *buffer[3];
    int64_t columns[3], of[3];
    for (int i = 0; i < 3; i++) {
        hga_tensor *t = wanted(&s, i);
        of[i] = i == 0 ? shape->n_heads : kv_heads(shape),
        columns[i] = i == 2 && shape->dim_v ? shape->dim_v : shape->dim;
        int64_t stride = of[i] * (columns[i] + GAP) + GAP;
        buffer[i] = memory((t->rows + 1) * stride, sizeof(float));
        for (int64_t j = 0; j < (t->rows + 1) * stride; j++) buffer[i][j] = 7;
        if (t->data)
            *t =
                (hga_tensor){.data = buffer[i], .rows = t->rows, .row_stride = stride, .head_stride = columns[i] + GAP};
    }
    slope_run(&s, with_threads(r, 2));
    for (int i = 0; i < 3; i++) {
        const hga_tensor *t = wanted(&s, i);
        for (int64_t v = 0, at = 0; t->data && v < t->rows; v++)
            for (int64_t h = 0; h < of[i]; h++, at += columns[i]) {
                const float *x = buffer[i] + v * t->row_stride + h * t->head_stride;
                memcpy(s.of[tensors[i]] + at, x, (size_t)columns[i] * sizeof *x);
                for (int c = 0; c < GAP; c++) assert_true(x[columns[i] + c] == 7);
            }
        free(buffer[i]);
    }
    assert_same_slopes(&plain, &s, 4e-5);
    slope_clear(&plain), slope_clear(&s), problem_clear(&p);
}

/* Of rows that are not asked for nothing is looked at. */
static void takes_some_rows(const row *r, const hga_shape *shape)
{
    problem p = problem_of(r, shape);
    slope whole = slope_create(&p, 1), some = slope_create(&p, 1);
    int64_t first = p.n_out / 3, n = p.n_out / 4, numbers = out_count(&p) / p.n_out;
    for (int64_t i = 0; i < out_count(&p); i++)
        if (i / numbers < first || i / numbers >= first + n) whole.d_out[i] = 0, some.d_out[i] = NAN;
    for (int64_t i = 0; some.d_lse && i < lse_count(&p); i++)
        if (i / shape->n_heads < first || i / shape->n_heads >= first + n) whole.d_lse[i] = 0, some.d_lse[i] = NAN;
    hga_options options = with_threads(r, 2);
    options.generic = 1;
    slope_run(&whole, options);
    for (int64_t i = 0; i < out_count(&p); i++) ((float *)p.io.out.data)[i] = NAN;
    p.io.rows = SOME_ROWS(first, n);
    options = with_threads(r, 2), options.rows = HGA_SOME_ROWS;
    slope_run(&some, options);
    assert_same_slopes(&whole, &some, 4e-5);
    slope_clear(&whole), slope_clear(&some), problem_clear(&p);
}

/* Behind the first call, or a preparation, nothing is allocated. */
static void later_calls_allocate_nothing(const row *r, const hga_shape *shape)
{
    for (int prepared = 0; prepared < 2; prepared++)
        for (hga_id threads = 1; threads < 4; threads += 2) {
            call c;
            call_begin(&c, r, shape, threads);
            assert_ok(prepared ? hga_plan_prepare(c.plan, c.workspace, &c.io, &c.s.grad, NULL) : go_back(&c));
            for (int i = 0; i < 2; i++) {
                c.memory.asked = 0;
                c.memory.fails_from = 1;
                hga_status st = go_back(&c);
                if (st || c.memory.asked)
                    fail_msg("%s%s, %d threads: %lld allocations", c.p.name, prepared ? ", prepared" : "", threads,
                             (long long)c.memory.asked);
            }
            call_end(&c);
        }
}

/* Each allocation that fails is told; then the call goes, and has the gradients that it has. */
static void failing_allocations_are_told(const row *r, const hga_shape *shape)
{
    for (int prepares = 0; prepares < 2; prepares++) {
        call c;
        hga_status st = HGA_ENOMEM;
        call_begin(&c, r, shape, 2);
        slope plain = plainly(&c.p, r->options);
        for (int64_t fails = 1; st; fails++) {
            c.memory.asked = 0;
            c.memory.fails_from = fails;
            st = prepares ? hga_plan_prepare(c.plan, c.workspace, &c.io, &c.s.grad, NULL) : go_back(&c);
            if (st) assert_status(HGA_ENOMEM, st);
            assert_true(fails < 1000);
        }
        c.memory.fails_from = 0;
        if (prepares) assert_ok(go_back(&c));
        assert_same_slopes(&plain, &c.s, 4e-5);
        slope_clear(&plain), call_end(&c);
    }
}

/* Tensors and their gradients. */
static int64_t tensor_bytes(const problem *p)
{
    return 2 * (int64_t)sizeof(float) * (query_count(p) + key_count(p) + value_count(p) + out_count(p));
}

/* A workspace takes what was told, and what heads leave each other; the plan's lists, which hga_plan_bytes tells, at
   most a tenth of the tensors, and the plan once more without its lists. */
static void bytes_are_told_before(const row *r, const hga_shape *shape)
{
    call c;
    int64_t told;
    call_begin(&c, r, shape, 2);
    c.s.grad.d_scale = c.s.grad.d_log_mass = NULL;
    const int64_t plan = hga_plan_bytes(c.plan);
    assert_ok(hga_plan_prepare(c.plan, NULL, &c.io, &c.s.grad, &told));
    const int64_t made = hga_plan_bytes(c.plan) - plan;
    int64_t before = c.memory.bytes;
    assert_true(before > 0 && told > 0);
    assert_in_range(made, 1, tensor_bytes(&c.p) / 10 + (int64_t)sizeof(hga_program) * 8 + 65536);
    assert_ok(go_back(&c));
    assert_int_equal(hga_plan_bytes(c.plan) - plan, made);
    int64_t took = c.memory.bytes - before, drawn = r->options.dropout > 0 ? tensor_bytes(&c.p) / 4 : 0;
    if (!(took >= told * 8 / 10 && took <= told * 11 / 10 + tensor_bytes(&c.p) / 8 + drawn + 65536))
        fail_msg("%s: %lld bytes were told, %lld taken", c.p.name, (long long)told, (long long)took);
    call_end(&c);
}

static void another_plans_workspace_is_refused(const row *r, const hga_shape *shape)
{
    call c;
    hga_plan *other;
    hga_workspace *its;
    call_begin(&c, r, shape, 1);
    assert_ok(
        hga_plan_create(c.p.graph, &c.p.program, &c.p.shape, &(hga_options){.gradient = 1, .threads = 1}, &other));
    assert_ok(hga_workspace_create(other, &its));
    assert_status(HGA_EINVAL, hga_plan_gradient(c.plan, its, &c.io, &c.s.grad));
    assert_told("the workspace belongs to another plan");
    assert_status(HGA_EINVAL, hga_plan_prepare(c.plan, its, NULL, NULL, NULL));
    assert_status(HGA_EINVAL, hga_plan_gradient_batch(c.plan, &its, &c.io, &c.s.grad, 1));
    assert_told("sample 0: the workspace belongs to another plan");
    for (int i = 0; i < N_SLOW_INPUTS; i++)
        for (int64_t j = 0; j < c.s.n[i]; j++) assert_true(isnan(c.s.of[i][j]));
    hga_workspace_destroy(its), hga_plan_destroy(other), call_end(&c);
}

/* Another output of the caller's, of which no gradient is given, sends no plan another way. */
static void side_outputs_change_nothing(const row *r, const hga_shape *shape)
{
    problem p = problem_of(r, shape), more = problem_of(r, shape);
    hga_program *q = &more.program;
    hga_id side, value = hga_program_field(q, HGA_IO_VALUE);
    const hga_stage *last = &q->stage[q->n_stages - 1];
    hga_id relation = last->relation >= 0 ? last->relation : find_stage(q, HGA_SCORE)->relation;
    hga_field_rows io = q->field[hga_program_field(q, HGA_IO_OUT)].io;
    assert_ok(hga_program_add_field(q, "side", HGA_WIDTH_VALUE, HGA_IO_USER, io, io, &side));
    assert_ok(hga_program_mean(q, relation, last->relation >= 0 ? last->value : value, side, 0));
    more.io.user[0] = (hga_tensor){.data = memory(out_count(&more), sizeof(float)), .rows = more.n_out};
    more.owned[more.n_owned++] = more.io.user[0].data;
    call c = {.p = more};
    hga_options options = with_threads(r, 2);
    options.gradient = 1;
    assert_ok(hga_plan_create(more.graph, q, shape, &options, &c.plan));
    assert_string_equal(way_of(c.plan, &more.io, &(hga_grad_io){0}), r->way);
    hga_plan_destroy(c.plan);
    slope without = slope_create(&p, 1), with = slope_create(&more, 1);
    slope_run(&without, with_threads(r, 2)), slope_run(&with, with_threads(r, 2));
    assert_same_slopes(&without, &with, 0);
    slope_clear(&without), slope_clear(&with), problem_clear(&p), problem_clear(&more);
}

static const struct {
    const char *name;
    void (*holds)(const row *r, const hga_shape *shape);
} facts[] = {
    {"is of its way", is_of_its_way},
    {"has plain gradients, whatever a call brings", has_plain_gradients},
    {"has them of 16 bits", has_them_of_16_bits},
    {"is the same by any threads", is_the_same_by_any_threads},
    {"gives what is wanted, and adds", gives_what_is_wanted_and_adds},
    {"writes rows that lie anywhere", writes_rows_that_lie_anywhere},
    {"takes some rows", takes_some_rows},
    {"later calls allocate nothing", later_calls_allocate_nothing},
    {"failing allocations are told", failing_allocations_are_told},
    {"bytes are told before", bytes_are_told_before},
    {"another plan's workspace is refused", another_plans_workspace_is_refused},
    {"side outputs change nothing", side_outputs_change_nothing},
};

/* Instrumented builds, which are slow, take one shape or the other, in turns. */
static void every_fact_holds_of_every_way(void **state)
{
    (void)state;
    for (int f = 0; f < (int)(sizeof facts / sizeof *facts); f++)
        for (int i = 0; i < N_ROWS; i++) {
            print_message("%s: %s\n", rows[i].way, facts[f].name);
            if (!every_other_passed_over(f + i)) facts[f].holds(&rows[i], &rows[i].shape);
            if (!every_other_passed_over(f + i + 1)) facts[f].holds(&rows[i], &rows[i].grouped);
        }
}

/* ---- lists ---- */

/* What preparing a plan that goes a head at a time adds to it. */
static int64_t prepared_bytes(const problem *p, hga_id heads)
{
    hga_plan *plan;
    hga_shape shape = {.n_heads = heads, .dim = 64};
    assert_ok(hga_plan_create(p->graph, &p->program, &shape, &(hga_options){.gradient = 1, .threads = 1}, &plan));
    int64_t before = hga_plan_bytes(plan);
    assert_ok(hga_plan_prepare(plan, NULL, NULL, NULL, NULL));
    assert_string_equal(way_back(plan), "a head at a time");
    int64_t more = hga_plan_bytes(plan) - before;
    hga_plan_destroy(plan);
    return more;
}

/* Lists of edges whose rows are read again serve several heads, and are kept for them; one head needs none. */
static void lists_are_kept_for_several_heads(void **state)
{
    (void)state;
    problem p = attends_twice(600, &(hga_shape){.n_heads = 1, .dim = 4});
    int64_t one = prepared_bytes(&p, 1), several = prepared_bytes(&p, 4);
    if (several < 2 * one) fail_msg("%lld bytes for one head, %lld for four", (long long)one, (long long)several);
    problem_clear(&p);
}

/* ---- stages that do not count ---- */

/* HSA whose values are coarsened a second time before they are attended to, or whose states attend once more when
   nobody reads them any more, or where a mean of the queries is not read at all. */
static void spare_stages_cost_nothing(void **state)
{
    (void)state;
    static const hga_shape shape = {.n_heads = 4, .n_kv_heads = 2, .dim = 16};
    for (int spare = 0; spare < 4; spare++) {
        problem p = {.shape = shape}, with = {.shape = shape};
        snprintf(p.name, sizeof p.name, "spare stage %d", spare);
        assert_ok(hga_build("hsa branching=2,4,8", 600, &p.graph, &p.program));
        assert_ok(hga_build("hsa branching=2,4,8", 600, &with.graph, &with.program));
        problem_fill(&p, 1), problem_fill(&with, 1);
        hga_program *q = &with.program;
        hga_stage *stage = q->stage;
        hga_id attend = (hga_id)(find_stage(q, HGA_SCORE) - stage);
        if (spare < 2) { /* the stage that coarsens values, or queries, again */
            memmove(stage + attend + 1, stage + attend, (size_t)(q->n_stages - attend) * sizeof *stage);
            for (hga_id i = 0; i < attend; i++)
                if (q->field[stage[i].out].binding == (spare ? HGA_IO_QUERY : HGA_IO_VALUE)) stage[attend] = stage[i];
            snprintf(stage[attend].name, sizeof stage[attend].name, "again");
            q->n_stages++;
        } else {
            hga_stage s = stage[attend];
            hga_id unread;
            assert_ok(hga_program_add_field(q, "unread", HGA_WIDTH_VALUE, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES,
                                            &unread));
            assert_ok(spare == 2 ? hga_program_attend_more(q, s.relation, s.query, s.key, s.value, s.out, s.by_mass)
                                 : hga_program_mean(q, s.relation, s.value, unread, 0));
        }
        hga_plan *plan;
        assert_ok(hga_plan_create(with.graph, q, &shape, &(hga_options){.gradient = 1}, &plan));
        assert_string_equal(way_back(plan), rows[0].way);
        hga_plan_destroy(plan);
        slope without = slope_create(&p, 1), all = slope_create(&with, 1), plain = plainly(&with, (hga_options){0});
        slope_run(&without, (hga_options){.threads = 2}), slope_run(&all, (hga_options){.threads = 2});
        assert_same_slopes(&without, &all, 0);
        assert_same_slopes(&plain, &all, 4e-5); /* which goes through all stages */
        slope_clear(&without), slope_clear(&all), slope_clear(&plain), problem_clear(&p), problem_clear(&with);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_fact_holds_of_every_way),
                                       cmocka_unit_test(lists_are_kept_for_several_heads),
                                       cmocka_unit_test(spare_stages_cost_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
