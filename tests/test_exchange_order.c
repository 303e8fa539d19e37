/* test_exchange_order.c: a graph of the user's whose nodes have numbers by chance, on ranks: in an order that puts
   neighbours beside each other ranks need few rows of others, and have the bits of one process in that order. */
#include "by_hand.h"
#include "exchange.h"

enum { SIDE = 40, NODES = SIDE * SIDE };

static const hga_id counts[] = {2, 3, 4, 8};

/* A grid whose nodes have numbers by chance, each joined to itself and the eight around it, in two types. */
static hga_graph *shuffled_grid(uint64_t *rng)
{
    hga_id number[NODES], near;
    hga_builder *b = tokens_alone(NODES);
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id i = 0; i < NODES; i++) {
        hga_id other = random_below(rng, i + 1);
        number[i] = number[other], number[other] = i;
    }
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++)
            for (int d = 0; d < 9; d++) {
                int r = row + d / 3 - 1, c = column + d % 3 - 1;
                if (r < 0 || r >= SIDE || c < 0 || c >= SIDE) continue;
                assert_ok(hga_builder_add_edge(b, near, number[r * SIDE + c], number[row * SIDE + column], d % 2, 1));
            }
    return finished(b);
}

/* The problem whose node i is node order[i] of p's. */
static problem in_order(const problem *p, const hga_id *order, uint64_t seed)
{
    problem q = {.shape = p->shape, .program = p->program};
    snprintf(q.name, sizeof q.name, "a grid in order");
    assert_ok(hga_graph_renumber(p->graph, order, &q.graph));
    problem_fill(&q, seed);
    return q;
}

static problem grid_problem(uint64_t seed)
{
    problem p = {.shape = narrow};
    snprintf(p.name, sizeof p.name, "a shuffled grid");
    p.graph = shuffled_grid(&seed);
    attend_program(&p.program);
    problem_fill(&p, seed);
    return p;
}

/* Bytes that the busiest rank of those on evenly cut tokens receives. */
static int64_t most_received(const problem *p, hga_id n_ranks)
{
    hga_halo_list halo;
    hga_id cuts[MOST_RANKS + 1];
    int64_t most = 0;
    cut_evenly(NODES, n_ranks, 1, cuts);
    assert_ok(hga_halo(p->graph, &p->program, &p->shape, cuts, n_ranks, &halo));
    for (hga_id r = 0; r < n_ranks; r++)
        if (halo.load[r].bytes_in > most) most = halo.load[r].bytes_in;
    hga_halo_clear(&halo);
    return most;
}

static const hga_options settings[] = {{.threads = 1},
                                       {.threads = 3, .precision = HGA_PRECISION_BF16},
                                       {.threads = 2, .dropout = 0.25f},
                                       {.threads = 2, .generic = 1}};

static void ranks_in_an_order_have_the_bits_of_one_process(void **state)
{
    static const hga_ordering how[] = {HGA_ORDERING_RCM, HGA_ORDERING_METIS, HGA_ORDERING_DEGREE};
    (void)state;
    problem p = grid_problem(3);
    for (int o = 0; o < 3; o++) {
        hga_id order[NODES];
        uint64_t rng = (uint64_t)o;
        assert_ok(hga_graph_order(p.graph, how[o], order));
        problem q = in_order(&p, order, 5);
        for (int s = 0; s < 4; s++) {
            layout l = (layout)(s % N_LAYOUTS);
            tensors want = run_whole(&q, &settings[s], l);
            for (int i = 0; i < 4; i++) {
                hga_id cuts[MOST_RANKS + 1];
                s % 2 ? cut_anywhere(NODES, counts[i], &rng, cuts) : cut_evenly(NODES, counts[i], 1, cuts);
                hold(&q, "in order", &settings[s], l, cuts, counts[i], &strict, &want);
            }
            close_tensors(&want);
        }
        problem_clear(&q);
    }
    problem_clear(&p);
}

/* By chance a rank reads more than half of all others' rows; in an order those along its border: strips of a breadth
   first order, or parts, have less than twice two sides of the grid. */
static void an_order_leaves_borders_alone_to_be_sent(void **state)
{
    static const hga_ordering how[] = {HGA_ORDERING_RCM, HGA_ORDERING_METIS};
    const int64_t row_bytes = (int64_t)2 * (12 + 9) * (int64_t)sizeof(float);
    (void)state;
    problem p = grid_problem(3);
    for (int o = 0; o < 2; o++) {
        hga_id order[NODES];
        assert_ok(hga_graph_order(p.graph, how[o], order));
        problem q = in_order(&p, order, 5);
        for (int i = 0; i < 4; i++) {
            int64_t chance = most_received(&p, counts[i]), rows = most_received(&q, counts[i]) / row_bytes;
            int64_t others = NODES - NODES / counts[i] - 1;
            assert_true(chance > others * row_bytes / 2);
            if (rows > 2 * 2 * SIDE) fail_msg("%s, %d ranks: %d rows", q.name, counts[i], (int)rows);
        }
        problem_clear(&q);
    }
    problem_clear(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_in_an_order_have_the_bits_of_one_process),
        cmocka_unit_test(an_order_leaves_borders_alone_to_be_sent),
    };
    end_when_ranks_hang();
    return cmocka_run_group_tests_name("exchange_order", tests, NULL, NULL);
}
