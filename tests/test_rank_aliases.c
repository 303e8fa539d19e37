/* test_rank_aliases.c: a rank's states live in the rows of its output until these are written, but for those that
   somebody reads, or is sent, later than that. */
#include "exchange.h"
#include "plan.h"

static const hga_shape shape = {.n_heads = 4, .n_kv_heads = 2, .dim = 8, .dim_v = 8};

/* ---- trees ---- */

typedef struct planted {
    hga_id parent[4096], n;
} planted;

static void plant_subtree(planted *t, hga_id parent, int height)
{
    hga_id v = t->n++;
    t->parent[v] = parent;
    for (int i = 0; height && i < 4; i++) plant_subtree(t, v, height - 1);
}

/* The root has tokens of its own between subtrees of 256, so that a token's state is read behind all of these. */
static void plant(planted *t)
{
    t->n = 1, t->parent[0] = -1;
    for (int i = 0; i < 4; i++) plant_subtree(t, 0, 0), plant_subtree(t, 0, 4), plant_subtree(t, 0, 0);
}

static void build_planted(int self, int causal, problem *p)
{
    static planted t;
    hga_hsa h;
    hga_defaults(&h);
    plant(&t);
    h.parent = t.parent, h.n_parent = t.n, h.self = self, h.causal = causal, h.mode = HGA_HSA_SELF;
    *p = (problem){.shape = shape};
    snprintf(p->name, sizeof p->name, "%s", causal ? "causal" : self ? "self" : "siblings");
    assert_ok(hga_build_hsa(&h, &p->graph, &p->program));
    problem_fill(p, 7);
}

/* ---- plans ---- */

static void *make_plan(void *of)
{
    rank_run *r = of;
    hga_ranks ranks = {.exchange = r->x, .cuts = r->cuts};
    r->options.ranks = &ranks;
    r->st = plan_create_with_panels(r->p->graph, &r->p->program, &r->p->shape, &r->options, 0, &r->plan);
    return NULL;
}

/* Rows of states of the rank's tokens that live in its output. */
static hga_id count_aliases(const hga_plan *plan)
{
    const hga_id *cuts = plan->share.ranks->cuts + plan->share.ranks->exchange->rank;
    hga_id state = plan->program.stage[3].out, n = 0;
    for (hga_id v = cuts[0]; v < cuts[1]; v++) n += is_alias(&plan->fields.storage[state].aliases, v);
    return n;
}

static void count_on_ranks(const problem *p, hga_id n_ranks, const hga_id *cuts, hga_id *aliases)
{
    hga_exchange xs[MOST_RANKS];
    rank_run runs[MOST_RANKS];
    hga_options o = {.threads = 1};
    assert_ok(hga_dist_in_process(n_ranks, NULL, xs));
    open_runs(p, &o, PACKED, cuts, xs, n_ranks, runs);
    for (hga_id r = 0; r < n_ranks; r++) pthread_create(&runs[r].thread, NULL, make_plan, &runs[r]);
    for (hga_id r = 0; r < n_ranks; r++) {
        pthread_join(runs[r].thread, NULL);
        assert_ok(runs[r].st);
        aliases[r] = count_aliases(runs[r].plan);
        hga_plan_destroy(runs[r].plan), hga_dist_destroy(&xs[r]);
    }
}

/* ---- facts ---- */

static void all_states_of_tokens_are_aliases_of_the_output(void **state)
{
    (void)state;
    problem p = {.name = "hsa", .shape = shape};
    hga_id aliases[4];
    assert_ok(hga_build("hsa branching=4", 4096, &p.graph, &p.program));
    count_on_ranks(&p, 4, (hga_id[]){0, 1024, 2048, 3072, 4096}, aliases);
    for (int r = 0; r < 4; r++) assert_int_equal(aliases[r], 1024);
    problem_clear(&p);
}

/* Tokens 0, 257, 258, 515 and so on are the root's: its energy is found when outputs of subtrees are written. Those
   around them, which are remembered with them, stay where they are, too. */
static void a_state_that_is_read_later_is_no_alias(void **state)
{
    (void)state;
    problem p;
    hga_id aliases[2];
    build_planted(1, 0, &p);
    assert_int_equal(tokens_of(&p), 1032);
    count_on_ranks(&p, 1, (hga_id[]){0, 1032}, aliases);
    assert_true(aliases[0] > 800 && aliases[0] <= 1032 - 8);
    count_on_ranks(&p, 2, (hga_id[]){0, 512, 1032}, aliases);
    assert_true(aliases[0] > 256 && aliases[0] <= 512 - 3);
    problem_clear(&p);
}

static void outputs_have_the_bits_of_one_process(void **state)
{
    (void)state;
    for (int form = 0; form < 3; form++)
        for (int i = 0; i < 12; i++) {
            problem p;
            hga_id cuts[MOST_RANKS + 1], n_ranks = 1 + i % 4;
            uint64_t rng = (uint64_t)(100 * form + i);
            hga_options o = {.threads = 1 + i % 2};
            layout l = (layout)(i % N_LAYOUTS);
            build_planted(form > 0, form > 1, &p);
            tensors want = run_whole(&p, &o, l);
            cut_anywhere(tokens_of(&p), n_ranks, &rng, cuts);
            hold_in_panels(&p, "aliases", &o, l, cuts, n_ranks, i % 3 ? 16 : 0, &strict, &want);
            close_tensors(&want);
            problem_clear(&p);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_states_of_tokens_are_aliases_of_the_output),
        cmocka_unit_test(a_state_that_is_read_later_is_no_alias),
        cmocka_unit_test(outputs_have_the_bits_of_one_process),
    };
    alarm(getenv("HGA_TEST_QUICK") ? 600 : 120); /* a rank that hangs ends the test */
    return cmocka_run_group_tests_name("rank_aliases", tests, NULL, NULL);
}
