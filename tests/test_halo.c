/* test_halo.c: what ranks send each other, against sets of rows collected edge by edge. */
#include "by_hand.h"
#include "ways.h"

#include <inttypes.h>

enum { MOST_RANKS = 5, VERSIONS = HGA_MAX_STAGES + 1 };

/* ---- the oracle: needs[rank][field][version][v]; version 1 + the stage that wrote the field last ---- */

typedef struct needs {
    hga_nodes nodes;
    hga_id n_ranks, owner[MOST_NODES];
    uint8_t row[MOST_RANKS][HGA_FIELD_SLOTS][VERSIONS][MOST_NODES];
    hga_pos edges[MOST_RANKS];
} needs;

static void find_owners(needs *x, const hga_id *cuts)
{
    for (hga_id v = 0; v < x->nodes.n; v++) {
        x->owner[v] = -1;
        for (hga_id r = 0; r < x->n_ranks; r++)
            if (x->nodes.span_first[v] <= x->nodes.span_last[v] && x->nodes.span_first[v] >= cuts[r] &&
                x->nodes.span_last[v] < cuts[r + 1])
                x->owner[v] = r;
    }
}

static uint32_t reads_of(const hga_stage *t)
{
    switch (t->message) {
    case HGA_SCORE: return 1u << t->key | 1u << t->value;
    case HGA_ENERGY: return 1u << t->out | 1u << t->value;
    case HGA_GATE: return 1u << t->out | 1u << t->keep;
    case HGA_MESSAGE_USER: return t->reads | 1u << t->query | 1u << t->key;
    default: return 1u << t->value;
    }
}

/* User functions see sources that have no row of some field. */
static void need(needs *x, const hga_graph *g, const hga_program *p, hga_id rank, uint32_t fields, const hga_id *wrote,
                 hga_id u)
{
    if (x->owner[u] < 0 || x->owner[u] == rank) return;
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (fields >> f & 1u && is_row(g, p->field[f].rows, u)) x->row[rank][f][wrote[f] + 1][u] = 1;
}

static void collect(needs *x, const hga_graph *g, const hga_program *p)
{
    hga_id wrote[HGA_FIELD_SLOTS];
    for (hga_id f = 0; f < HGA_FIELD_SLOTS; f++) wrote[f] = -1;
    for (hga_id i = 0; i < p->n_stages; i++) {
        const hga_stage *t = &p->stage[i];
        int64_t n;
        edge *e = stage_edges(g, t, &n);
        for (hga_id f = 1; f <= p->n_fields; f++)
            if (reads_of(t) & t->writes & 1u << f) wrote[f] = i;
        for (int64_t k = 0; k < n; k++) {
            if (!is_row(g, p->field[t->out].rows, e[k].dst) || !is_written(g, p, t, e[k].dst)) continue;
            for (hga_id r = 0; r < x->n_ranks; r++) {
                if (x->owner[e[k].dst] >= 0 && x->owner[e[k].dst] != r) continue;
                need(x, g, p, r, reads_of(t), wrote, e[k].src);
                x->edges[r]++;
            }
        }
        for (hga_id f = 1; f <= p->n_fields; f++)
            if (t->writes >> f & 1u) wrote[f] = i;
        free(e);
    }
}

/* Takes what the list sends out of the set, each row once. */
static void take(needs *x, const hga_transfer *t, hga_id rank)
{
    for (hga_id v = t->first; v < t->first + t->n; v++) {
        uint8_t *row = &x->row[rank][t->field][t->written_by + 1][v];
        assert_int_equal(x->owner[v], t->from);
        if (!*row) fail_msg("rank %d is sent row %d of field %d, which it does not need", rank, v, t->field);
        *row = 0;
    }
}

static void take_all(needs *x, const hga_halo_list *list)
{
    for (int64_t i = 0; i < list->n_transfers; i++) {
        const hga_transfer *t = &list->transfer[i];
        for (hga_id r = 0; r < x->n_ranks; r++)
            if (r != t->from && (t->to == r || t->to == HGA_EVERY_RANK)) take(x, t, r);
    }
}

static int64_t left(const needs *x)
{
    int64_t n = 0;
    const uint8_t *row = &x->row[0][0][0][0];
    for (size_t i = 0; i < sizeof x->row; i++) n += row[i];
    return n;
}

/* ---- facts ---- */

static int n_compared;

static void assert_halo_is_the_oracles(const char *name, const hga_graph *g, const hga_program *p)
{
    static needs x;
    hga_halo_list list;
    hga_nodes nodes = hga_graph_nodes(g);
    hga_id tokens = nodes.level_ptr[1];
    if (nodes.query_first != nodes.key_first || nodes.n > MOST_NODES) return;
    for (hga_id n_ranks = 1; n_ranks <= MOST_RANKS; n_ranks++) {
        hga_id cuts[MOST_RANKS + 1] = {0};
        for (hga_id r = 1; r <= n_ranks; r++) cuts[r] = (hga_id)((int64_t)tokens * r / n_ranks);
        memset(&x, 0, sizeof x);
        x.nodes = nodes, x.n_ranks = n_ranks;
        find_owners(&x, cuts);
        collect(&x, g, p);
        assert_ok(hga_halo(g, p, &(hga_shape){.n_heads = 2, .dim = 3}, cuts, n_ranks, &list));
        take_all(&x, &list);
        if (left(&x)) fail_msg("%s: %d ranks lack %" PRId64 " rows", name, n_ranks, left(&x));
        for (hga_id r = 0; r < n_ranks; r++) assert_int_equal(list.load[r].n_edges, x.edges[r]);
        hga_halo_clear(&list);
        n_compared++;
    }
}

static void rows_of_random_programs_are_the_oracles(void **state)
{
    (void)state;
    n_compared = 0;
    on_random_programs(100, assert_halo_is_the_oracles);
    on_drawn_programs(thinned(300), USER_STAGES, assert_halo_is_the_oracles);
    assert_true(n_compared > 200);
}

static void rows_of_the_variants_are_the_oracles(void **state)
{
    (void)state;
    n_compared = 0;
    on_variants(3, assert_halo_is_the_oracles);
    assert_true(n_compared > 50);
}

/* The halo of a built hierarchy of n tokens in equal parts, one head of four. */
static void halo_of(hga_graph *g, const hga_program *p, hga_id n, hga_id n_ranks, hga_halo_list *list)
{
    hga_id cuts[65] = {0};
    for (hga_id r = 1; r <= n_ranks; r++) cuts[r] = (hga_id)((int64_t)n * r / n_ranks);
    assert_ok(hga_halo(g, p, &(hga_shape){.n_heads = 1, .dim = 4}, cuts, n_ranks, list));
    hga_graph_destroy(g);
}

static void a_window_of_ranks(hga_id n, hga_id n_ranks, hga_id width, hga_halo_list *list)
{
    hga_window d;
    hga_defaults(&d);
    hga_graph *g;
    hga_program p;
    d.n_tokens = n, d.left = d.right = width;
    assert_ok(hga_build_window(&d, &g, &p));
    halo_of(g, &p, n, n_ranks, list);
}

static void a_window_needs_its_width_on_either_side(void **state)
{
    (void)state;
    hga_halo_list list;
    a_window_of_ranks(16, 2, 2, &list);
    assert_int_equal(list.n_transfers, 4); /* keys and values, either way */
    assert_int_equal(list.load[0].rows_in, 4);
    assert_int_equal(list.load[0].bytes_in, 4 * 4 * 4);
    assert_int_equal(list.load[0].messages_in, 1);
    assert_int_equal(list.load[0].messages_out, 1);
    assert_int_equal(list.transfer[0].from, 1);
    assert_int_equal(list.transfer[0].to, 0);
    assert_int_equal(list.transfer[0].first, 8);
    assert_int_equal(list.transfer[0].n, 2);
    assert_int_equal(list.transfer[0].written_by, -1);
    hga_halo_clear(&list);
}

static void one_rank_sends_nothing(void **state)
{
    (void)state;
    hga_halo_list list;
    a_window_of_ranks(16, 1, 2, &list);
    assert_int_equal(list.n_transfers, 0);
    assert_int_equal(list.load[0].n_tokens, 16);
    assert_int_equal(list.load[0].n_edges, 16 * 5 - 6);
    hga_halo_clear(&list);
}

static void a_rank_may_own_nothing(void **state)
{
    (void)state;
    hga_halo_list list;
    a_window_of_ranks(2, 3, 1, &list);
    hga_id owned = 0;
    for (hga_id r = 0; r < 3; r++) owned += list.load[r].n_tokens;
    assert_int_equal(owned, 2);
    hga_halo_clear(&list);
}

/* Two blocks of 16 on either side of a cut, on every level but the highest, which has a block a rank. */
static void the_halo_of_trees_grows_with_the_logarithm(void **state)
{
    (void)state;
    hga_htransformer d;
    hga_defaults(&d);
    int64_t before = 0;
    d.block = 16;
    for (d.n_tokens = 1024; d.n_tokens <= 4096; d.n_tokens *= 2) {
        hga_halo_list list;
        hga_graph *g;
        hga_program p;
        assert_ok(hga_build_htransformer(&d, &g, &p));
        halo_of(g, &p, d.n_tokens, 2, &list);
        assert_int_equal(list.n_shared, 0);
        if (before) assert_int_equal(list.load[0].rows_in - before, 2 * 16);
        before = list.load[0].rows_in;
        hga_halo_clear(&list);
    }
}

/* The root's span attends all tokens: each rank computes the part that its own give. */
static void long_shared_rows_are_computed_in_pieces(void **state)
{
    (void)state;
    hga_bpt d;
    hga_defaults(&d);
    hga_graph *g;
    hga_program p;
    hga_halo_list list;
    d.n_tokens = 65536;
    assert_ok(hga_build_bpt(&d, &g, &p));
    halo_of(g, &p, d.n_tokens, 2, &list);
    assert_int_equal(list.n_shared, 1);
    assert_int_equal(list.n_splits, 2);
    assert_int_equal(list.split[0].n_edges, 32768);
    assert_int_equal(list.split[1].n_edges, 32768);
    assert_int_equal(list.n_gathers, 1);
    assert_int_equal(list.split[0].bytes, 5 * 4); /* a state: four columns and a log-sum-exp */
    hga_halo_clear(&list);
}

/* A user's function of token 0 sees a node of the other rank, which has a value, but no key. */
static void a_row_that_a_field_has_not_is_not_sent(void **state)
{
    (void)state;
    hga_builder *b = started(4, 0, 2);
    hga_halo_list list;
    hga_program p;
    assert_ok(hga_builder_set_children(b, 4, 0, 2));
    assert_ok(hga_builder_set_children(b, 5, 2, 2));
    assert_ok(hga_builder_add_edge(b, 0, 5, 0, 0, 1));
    hga_graph *g = finished(b);
    hga_program_init(&p);
    hga_id key = field(&p, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_KEYS),
           value = field_on_nodes(&p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE),
           out = field(&p, "o", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
    hga_stage user = {.name = "look",
                      .relation = 0,
                      .message = HGA_MESSAGE_USER,
                      .reduce = HGA_REDUCE_USER,
                      .update = HGA_UPDATE_USER,
                      .out = out,
                      .reads = 1u << key | 1u << value,
                      .writes = 1u << out};
    choices c = choices_of_seed(1);
    user.udf = draw_user_functions(&c, user.reads, user.writes);
    assert_ok(hga_program_add_stage(&p, &user));
    assert_halo_is_the_oracles("by hand", g, &p);
    halo_of(g, &p, 4, 2, &list);
    assert_int_equal(list.n_transfers, 1);
    assert_int_equal(list.transfer[0].field, value);
    assert_int_equal(list.transfer[0].first, 5);
    hga_halo_clear(&list);
}

static void wrong_cuts_are_named(void **state)
{
    (void)state;
    hga_window d;
    hga_defaults(&d);
    hga_graph *g;
    hga_program p;
    hga_halo_list list;
    hga_shape shape = {.n_heads = 1, .dim = 4};
    d.n_tokens = 8;
    assert_ok(hga_build_window(&d, &g, &p));
    assert_status(HGA_EINVAL, hga_halo(g, &p, &shape, (hga_id[]){1, 8}, 1, &list));
    assert_non_null(strstr(hga_error_detail(), "cut 0 is 1"));
    assert_status(HGA_EINVAL, hga_halo(g, &p, &shape, (hga_id[]){0, 6, 4, 8}, 3, &list));
    assert_non_null(strstr(hga_error_detail(), "cut 2 is 4"));
    assert_status(HGA_EINVAL, hga_halo(g, &p, &shape, (hga_id[]){0, 7}, 1, &list));
    assert_non_null(strstr(hga_error_detail(), "cut 1 is 7, of 8 tokens"));
    assert_status(HGA_EINVAL, hga_halo(g, &p, &shape, (hga_id[]){0, 8}, 0, &list));
    assert_status(HGA_EINVAL, hga_halo(g, &p, NULL, (hga_id[]){0, 8}, 1, &list));
    assert_null(list.load);
    hga_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_needs_its_width_on_either_side),
        cmocka_unit_test(one_rank_sends_nothing),
        cmocka_unit_test(a_rank_may_own_nothing),
        cmocka_unit_test(the_halo_of_trees_grows_with_the_logarithm),
        cmocka_unit_test(long_shared_rows_are_computed_in_pieces),
        cmocka_unit_test(a_row_that_a_field_has_not_is_not_sent),
        cmocka_unit_test(wrong_cuts_are_named),
        cmocka_unit_test(rows_of_random_programs_are_the_oracles),
        cmocka_unit_test(rows_of_the_variants_are_the_oracles),
    };
    return cmocka_run_group_tests_name("halo", tests, NULL, NULL);
}
