/* test_forward_ways.c: the ways to attend, as a table. Some call goes each way, with the results of the plain
   definition; and whatever a call brings, each way that is asked goes or says why not. */
#include "brought.h"
#include "by_hand.h"
#include "engine_cases.h"
#include "explain_solvers.h"
#include "plan.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- calls ---- */

enum { TYPE_KEYS = 1, TYPE_BIASES = 2, EDGE_BIASES = 4, SLOPES = 8, CAP = 16, POSITIONS = 32, N_BROUGHT = 64 };

typedef struct row {
    attend_solver_id solver;
    const char *words;
    hga_id tokens;
    unsigned call_has;
    hga_options options;
    double entmax; /* alpha, 0: softmax */
} row;

/* Rows that see three runs of 64 columns each of their own choice. */
#define CHOSEN "chosen"

/* Fours that see each other. */
#define FOURS "fours"

/* Edges listed one by one. */
#define LISTED "listed"

static const row rows[] = {
    {SOLVER_WIDE, "dense", 520, 0, {0}, 0},
    {SOLVER_WIDE, "window left=128 right=128", 700, CAP, {0}, 0},
    {SOLVER_SPLITS, "bpt k=4", 700, TYPE_BIASES, {0}, 0},
    {SOLVER_SPLITS, "bpt k=4", 700, EDGE_BIASES, {0}, 0},
    {SOLVER_COLUMNS, CHOSEN, 800, CAP, {0}, 0},
    {SOLVER_CACHED, "bpt k=4", 700, 0, {0}, 0},
    {SOLVER_CACHED, "bpt k=4", 700, TYPE_KEYS, {0}, 0},
    {SOLVER_EQUAL, "hsa branching=2,4,8,16", 2048, 0, {0}, 0},
    {SOLVER_EQUAL, FOURS, 2048, CAP, {0}, 0},
    {SOLVER_TILES, "window left=20 right=9", 400, POSITIONS, {0}, 0},
    {SOLVER_TILES, "window left=20 right=9", 300, EDGE_BIASES | TYPE_KEYS, {0}, 0},
    {SOLVER_TILES, "dense", 300, EDGE_BIASES | POSITIONS, {0}, 0},
    {SOLVER_STRICT, "window left=20 right=9", 400, TYPE_BIASES, {.strict_rows = 1}, 0},
    {SOLVER_FAMILIES, "hsa branching=2,4", 300, TYPE_KEYS, {0}, 0},
    {SOLVER_FAMILIES, FOURS, 300, TYPE_KEYS, {0}, 0},
    {SOLVER_FEW_EDGES, LISTED, 300, CAP | POSITIONS, {0}, 0},
    {SOLVER_FEW_EDGES, LISTED, 300, 0, {.strict_rows = 1}, 0},
    {SOLVER_HEADS, "bpt k=4", 300, TYPE_KEYS | CAP, {0}, 0},
    {SOLVER_ROWS, "htransformer block=8", 300, EDGE_BIASES, {.strict_rows = 1}, 0},
    {SOLVER_ROWS, "window left=20 right=9", 300, EDGE_BIASES, {.strict_rows = 1}, 0},
    {SOLVER_WHOLE, "window left=20 right=9", 300, 0, {0}, 1.5},
    {SOLVER_PLAIN, "window left=20 right=9", 300, 0, {.generic = 1}, 0},
};
enum { N_ROWS = sizeof rows / sizeof *rows, HEADS = 4 };

static void open_chosen(problem *p, hga_id tokens)
{
    enum { RUNS = 3, COLUMNS = 64 };
    uint64_t seed = 3;
    hga_block *block = memory((int64_t)RUNS * tokens, sizeof *block);
    for (hga_id i = 0; i < RUNS * tokens; i++) {
        const hga_id base = tokens / RUNS * (i % RUNS);
        block[i] = (hga_block){.dst = i / RUNS, .n_dst = 1, .n_src = COLUMNS};
        block[i].src = base + COLUMNS * random_below(&seed, tokens / RUNS / COLUMNS);
    }
    p->graph = blocks_over(tokens, block, RUNS * tokens);
    assert_ok(hga_program_attention(&p->program, 0));
    free(block);
}

static void open_fours(problem *p, hga_id tokens)
{
    hga_block fours = {.n_dst = 4, .n_src = 4, .count = tokens / 4, .dst_step = 4, .src_step = 4};
    p->graph = blocks_over(tokens, &fours, 1);
    assert_ok(hga_program_attention(&p->program, 0));
}

/* Sigmoids in softmax's place: 0 where they have no meaning. */
static int take_sigmoids(problem *p)
{
    for (hga_id i = 0; i < p->program.n_stages; i++)
        if (p->program.stage[i].message == HGA_ENERGY) return 0;
    assert_ok(hga_program_normalise(&p->program, HGA_NORMALISER_SIGMOID, 0));
    p->io.lse.data = NULL;
    return 1;
}

static void open_listed(problem *p, hga_id tokens)
{
    p->graph = edges_over(tokens, 5 * tokens);
    assert_ok(hga_program_attention(&p->program, 0));
}

static problem problem_of(const char *words, hga_id tokens, unsigned call_has, double entmax)
{
    static const float slopes[HEADS] = {0.1f, 0, 0.02f, 0.5f};
    problem p = {.shape = {.n_heads = HEADS, .dim = 16, .pos_dim = 3}};
    static operands more; /* the call reads numbers where they are */
    more = (operands){.softcap = call_has & CAP ? 2.0f : 0, .slopes = call_has & SLOPES ? slopes : NULL};
    snprintf(p.name, sizeof p.name, "%s, %x", words, call_has);
    if (strcmp(words, CHOSEN) == 0)
        open_chosen(&p, tokens);
    else if (strcmp(words, FOURS) == 0)
        open_fours(&p, tokens);
    else if (strcmp(words, LISTED) == 0)
        open_listed(&p, tokens);
    else
        assert_ok(hga_build(words, tokens, &p.graph, &p.program));
    if (entmax > 0) assert_ok(hga_program_normalise(&p.program, HGA_NORMALISER_ENTMAX, entmax));
    problem_fill(&p, 5);
    problem_fill_tables(&p, 7, call_has & TYPE_KEYS, call_has & TYPE_BIASES, call_has & EDGE_BIASES ? HEADS : 0);
    if (!(call_has & POSITIONS)) p.io.node_pos.data = NULL;
    bring_to(&p.io, &more);
    return p;
}

/* What is told of the first stage that attends. */
static pair_solvers told(const problem *p, const hga_options *options)
{
    pair_solvers solvers[HGA_MAX_STAGES];
    hga_plan *plan;
    hga_id s = 0;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, options, &plan));
    assert_ok(solvers_find(plan, &p->io, solvers));
    while (!solvers[s].attends) s++;
    hga_plan_destroy(plan);
    return solvers[s];
}

static void some_call_goes_each_way(void **state)
{
    (void)state;
    unsigned seen = 0;
    for (int i = 0; i < N_ROWS; i++) {
        problem p = problem_of(rows[i].words, rows[i].tokens, rows[i].call_has, rows[i].entmax);
        pair_solvers solvers = told(&p, &rows[i].options);
        if (!(solvers.applies >> rows[i].solver & 1))
            fail_msg("%s does not go in %s", p.name, solver_name(rows[i].solver));
        seen |= 1u << rows[i].solver;
        problem_clear(&p);
    }
    assert_int_equal(seen, (1u << N_ATTEND_SOLVERS) - 1);
}

static float *results(const problem *p, hga_options options)
{
    float *out = memory(out_count(p), sizeof *out);
    hga_io io = p->io;
    io.out.data = out;
    assert_ok(hga_attention(p->graph, &p->program, &p->shape, &options, &io));
    return out;
}

/* .. by one thread and by three, who share out heads and panels. */
static void check_results(const problem *p, const hga_options *input)
{
    char buffer[16];
    float *plain = results(p, (hga_options){.generic = 1, .threads = 2});
    double most = 1;
    for (int64_t k = 0; k < out_count(p); k++) most = fmax(most, fabs((double)plain[k]));
    for (int j = 0; isa_name(j / 2, buffer, sizeof buffer); j++) {
        hga_options options = *input;
        options.threads = j % 2 ? 3 : 1, options.isa = buffer;
        float *out = results(p, options);
        for (int64_t k = 0; k < out_count(p); k++)
            if (!(fabs((double)out[k] - (double)plain[k]) <= 1e-4 * most))
                fail_msg("%s, %s: %g, not %g", p->name, buffer, (double)out[k], (double)plain[k]);
        free(out);
    }
    free(plain);
}

static void each_way_has_plain_results(void **state)
{
    (void)state;
    for (int i = 0; i < N_ROWS; i++) {
        problem p = problem_of(rows[i].words, rows[i].tokens, rows[i].call_has, rows[i].entmax);
        check_results(&p, &rows[i].options);
        problem_clear(&p);
    }
}

/* Sigmoids go the ways that softmax goes, but for those that know softmax alone. */
static void sigmoids_have_plain_results_each_way(void **state)
{
    (void)state;
    const float bias = -1.5f;
    const unsigned of_softmax = 1u << SOLVER_WHOLE | 1u << SOLVER_FEW_EDGES;
    unsigned seen = of_softmax;
    for (int i = 0; i < N_ROWS; i++) {
        problem p = problem_of(rows[i].words, rows[i].tokens, rows[i].call_has, 0);
        if (!(of_softmax >> rows[i].solver & 1) && take_sigmoids(&p)) {
            p.io.normaliser_bias.data = &bias;
            pair_solvers solvers = told(&p, &rows[i].options);
            if (!(solvers.applies >> rows[i].solver & 1))
                fail_msg("%s: sigmoids do not go in %s", p.name, solver_name(rows[i].solver));
            seen |= 1u << rows[i].solver;
            check_results(&p, &rows[i].options);
        }
        problem_clear(&p);
    }
    assert_int_equal(seen, (1u << N_ATTEND_SOLVERS) - 1);
}

/* ---- what is told ---- */

static json_t *stages_of(const problem *p, const hga_options *options)
{
    hga_plan *plan;
    char *text;
    assert_ok(hga_plan_create(p->graph, &p->program, &p->shape, options, &plan));
    assert_ok(hga_plan_explain(plan, &p->io, HGA_JSON, &text));
    json_t *j = json_loads(text, 0, NULL), *stages = json_incref(json_object_get(j, "stages"));
    json_decref(j), hga_text_free(text), hga_plan_destroy(plan);
    return stages;
}

/* The ways from the first on, in their order, each in one of the lists, up to one that takes what is left. */
static void check_pairs(const problem *p, json_t *pairs)
{
    json_t *goes = json_object_get(pairs, "ways"), *refused = json_object_get(pairs, "refused");
    size_t g = 0, r = 0, n = json_array_size(goes) + json_array_size(refused);
    for (size_t i = 0; i < n; i++) {
        const char *name = solver_name((attend_solver_id)i), *why = NULL;
        const char *went = json_string_value(json_array_get(goes, g));
        json_t *not = json_array_get(refused, r);
        if (went && strcmp(went, name) == 0) {
            g++;
            continue;
        }
        if (json_unpack(not, "{s:s, s:s}", "way", &went, "why", &why) != 0 || strcmp(went, name) != 0 || !*why)
            fail_msg("%s: nothing is told of %s", p->name, name);
        r++;
    }
    if (json_array_size(goes) == 0 || n <= SOLVER_HEADS) fail_msg("%s: no way goes", p->name);
}

static void each_way_goes_or_says_why_not(void **state)
{
    (void)state;
    static const char *const words[] = {"dense",           "window left=70", "bpt k=4", "htransformer block=8",
                                        "hsa branching=4", "fenwick"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (unsigned call_has = 0; call_has < N_BROUGHT; call_has++) {
            if (every_other_passed_over((int)call_has)) continue;
            problem p = problem_of(words[i], 120, call_has, 0);
            hga_options options = {.threads = call_has % 5 ? 1 : 3,
                                   .dropout = call_has % 3 ? 0 : 0.2f,
                                   .precision = call_has % 7 ? HGA_PRECISION_F32 : HGA_PRECISION_BF16,
                                   .strict_rows = call_has % 4 == 1};
            json_t *stages = stages_of(&p, &options), *stage;
            size_t at;
            json_array_foreach(stages, at, stage)
            {
                if (strncmp(json_string_value(json_object_get(stage, "kind")), "attend", 6) == 0)
                    check_pairs(&p, json_object_get(stage, "pairs"));
            }
            json_decref(stages), problem_clear(&p);
        }
}

static void a_reason_is_the_calls(void **state)
{
    (void)state;
    problem p = problem_of("dense", 300, EDGE_BIASES, 0);
    hga_plan *plan;
    char *text;
    assert_ok(hga_plan_create(p.graph, &p.program, &p.shape, NULL, &plan));
    assert_ok(hga_plan_explain(plan, &p.io, HGA_TEXT, &text));
    assert_non_null(strstr(text, "      pairs: 100.0 % in tiles that are 99 % full\n"));
    assert_non_null(strstr(text, "strict tiles; families; few edges a row, all heads at once; row by row, all "
                                 "heads at once: the call has biases of edges\n"));
    hga_text_free(text);
    assert_ok(hga_plan_explain(plan, NULL, HGA_TEXT, &text));
    assert_null(strstr(text, "biases of edges"));
    assert_non_null(strstr(text, "      pairs: 100.0 % in tiles"));
    hga_text_free(text);
    hga_plan_destroy(plan), problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(some_call_goes_each_way),
        cmocka_unit_test(each_way_has_plain_results),
        cmocka_unit_test(sigmoids_have_plain_results_each_way),
        cmocka_unit_test(each_way_goes_or_says_why_not),
        cmocka_unit_test(a_reason_is_the_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
