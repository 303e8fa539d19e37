/* test_rank_memory.c: the memory of a rank falls with the number of ranks. */
#include "exchange.h"
#include "plan.h"
#include "rank_memory.h"

static void *make_plan(void *r)
{
    rank_run *run = r;
    hga_ranks ranks = {.exchange = run->x, .cuts = run->cuts};
    run->options.ranks = &ranks;
    run->st = hga_plan_create(run->p->graph, &run->p->program, &run->p->shape, &run->options, &run->plan);
    return NULL;
}

static void open_plans(const problem *p, hga_id threads, const hga_id *cuts, hga_id n_ranks, hga_exchange *xs,
                       rank_run *runs)
{
    hga_options o = {.threads = threads};
    assert_ok(hga_dist_in_process(n_ranks, NULL, xs));
    open_runs(p, &o, PACKED, cuts, xs, n_ranks, runs);
    for (hga_id r = 0; r < n_ranks; r++) pthread_create(&runs[r].thread, NULL, make_plan, &runs[r]);
    for (hga_id r = 0; r < n_ranks; r++) pthread_join(runs[r].thread, NULL), assert_ok(runs[r].st);
}

static void close_plans(hga_id n_ranks, hga_exchange *xs, rank_run *runs)
{
    for (hga_id r = 0; r < n_ranks; r++) hga_plan_destroy(runs[r].plan), hga_dist_destroy(&xs[r]);
}

/* Bytes of the caller's tensors: [0] a rank's, [1] one process'. */
static void tensor_bytes(const hga_plan *plan, double bytes[2])
{
    bytes[0] = bytes[1] = 0;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        const field_storage *h = &plan->fields.storage[f];
        double row = (double)h->heads * h->columns * sizeof(float);
        bytes[0] += row * h->input_n, bytes[1] += row * h->io_n;
    }
}

static const hga_shape wide = {.n_heads = 4, .n_kv_heads = 4, .dim = 16, .dim_v = 16};

/* Rows of the workspace, and packets, beside the rank's tensors and what it sends and receives, which has a packet
   and, received, a row. */
static void what_a_rank_adds_to_its_tensors_is_less_than_they_are(void **state)
{
    static const struct {
        const char *name; /* words of hga_build */
        double most;
    } cases[] = {{"window left=64 right=64", 0.05},
                 {"htransformer block=8", 0.85},
                 {"hsa branching=4", 0.38},
                 {"hsa branching=4 causal=1", 0.2},
                 {"fenwick", 0.7}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (hga_id n_ranks = 2; n_ranks <= 8; n_ranks *= 2) {
            problem p = {.shape = wide};
            hga_exchange xs[8];
            rank_run runs[8];
            hga_id cuts[9];
            assert_ok(hga_build(cases[i].name, 8192, &p.graph, &p.program));
            cut_evenly(tokens_of(&p), n_ranks, 16, cuts);
            open_plans(&p, 2, cuts, n_ranks, xs, runs);
            for (hga_id r = 0; r < n_ranks; r++) {
                const hga_plan *plan = runs[r].plan;
                double bytes[2],
                    added = (double)plan->most.workspace_floats * sizeof(float) + (double)rank_memory_bytes(plan);
                tensor_bytes(plan, bytes);
                double messages =
                    2 * (double)plan->share.ranks->traffic.bytes_in + (double)plan->share.ranks->traffic.bytes_out;
                if (added > cases[i].most * bytes[0] + messages)
                    fail_msg("%s: rank %d of %d: %.0f bytes beside tensors of %.0f", cases[i].name, r, n_ranks, added,
                             bytes[0]);
                assert_true(bytes[0] < 1.1 * bytes[1] / n_ranks);
            }
            close_plans(n_ranks, xs, runs);
            problem_clear(&p);
        }
}

/* Means that ranks ask for are of all tokens that a rank has: whatever reads them goes along with most of them, so that
   few wait until messages are under way. If all of them did, these would be half as many bytes as the tensors with
   H-Transformer, a quarter with HSA, whose states are a quarter, too, where they are no aliases of the output. */
static void means_wait_for_messages_only_as_long_as_a_wire_may_hide(void **state)
{
    static const struct {
        const char *words;
        double most;
    } cases[] = {{"htransformer block=16", 0.23}, {"hsa branching=4", 0.22}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        problem p = {.shape = {.n_heads = 8, .n_kv_heads = 8, .dim = 64, .dim_v = 64}};
        hga_exchange xs[2];
        rank_run runs[2];
        hga_id cuts[3];
        assert_ok(hga_build(cases[i].words, 1 << 16, &p.graph, &p.program));
        cut_evenly(tokens_of(&p), 2, 16, cuts);
        open_plans(&p, 1, cuts, 2, xs, runs);
        for (int r = 0; r < 2; r++) {
            double bytes[2], added = (double)runs[r].plan->most.workspace_floats * sizeof(float);
            tensor_bytes(runs[r].plan, bytes);
            if (added > cases[i].most * bytes[0])
                fail_msg("%s: rank %d: %.0f bytes beside tensors of %.0f", cases[i].words, r, added, bytes[0]);
        }
        close_plans(2, xs, runs);
        problem_clear(&p);
    }
}

/* Rows of nodes are a tensor's intervals, one for each level: they are used where they are. */
static void tensors_of_several_intervals_are_not_copied(void **state)
{
    (void)state;
    problem p;
    hga_exchange xs[3];
    rank_run runs[3];
    hga_id cuts[] = {0, 112, 208, 300};
    variant_build(variant_named("bpt"), 300, 3, &wide, &p);
    open_plans(&p, 2, cuts, 3, xs, runs);
    for (int i = 0; i < 3; i++) {
        const struct rank_plan *r = runs[i].plan->share.ranks;
        hga_interval rows[64];
        int64_t n;
        assert_ok(hga_plan_rank_rows(runs[i].plan, program_bound(&p.program, HGA_IO_KEY), rows, 64, &n));
        assert_true(n > 3);
        assert_true(rank_memory_bytes(runs[i].plan) < r->traffic.bytes_in + r->traffic.bytes_out +
                                                          r->traffic.n_messages * (int64_t)sizeof(hga_packet) +
                                                          r->n_splits + (int64_t)sizeof(rank_memory) + 6 * 64);
    }
    close_plans(3, xs, runs);
    problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_rank_adds_to_its_tensors_is_less_than_they_are),
        cmocka_unit_test(means_wait_for_messages_only_as_long_as_a_wire_may_hide),
        cmocka_unit_test(tensors_of_several_intervals_are_not_copied),
    };
    end_when_ranks_hang();
    return cmocka_run_group_tests_name("rank_memory", tests, NULL, NULL);
}
