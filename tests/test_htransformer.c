/* test_htransformer.c: the blocks of H-Transformer-1D against the definition, node by node. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hga_graph *build(const hga_htransformer *p)
{
    hga_graph *g;
    hga_program program;
    assert_ok(hga_build_htransformer(p, &g, &program));
    return g;
}

/* ---- the definition: every node knows its block, and the block it came from ---- */

enum { MAX_NODES = 200, MAX_LEVELS = 12 };

/* One side's levels. half is the node's block one level finer (its own, on level 0). */
typedef struct levels {
    int n, size[MAX_LEVELS], n_blocks[MAX_LEVELS];
    int block[MAX_LEVELS][MAX_NODES], half[MAX_LEVELS][MAX_NODES], parent[MAX_LEVELS][MAX_NODES];
} levels;

/* level l + 1 of `neighbours`: each block's nodes pair on their own, two blocks' parents are a block */
static void coarsen_blocks(levels *s, int l)
{
    int size = 0, place = 0;
    for (int i = 0; i < s->size[l]; i++) {
        int block = s->block[l][i];
        place = i > 0 && s->block[l][i - 1] == block ? place + 1 : 0;
        if (place % 2 == 0) s->half[l + 1][size] = block, s->block[l + 1][size] = block / 2, size++;
        s->parent[l][i] = size - 1;
    }
    s->size[l + 1] = size;
}

/* level l + 1 of `siblings`: all nodes pair */
static void coarsen_plainly(levels *s, int l, int c)
{
    s->size[l + 1] = (s->size[l] + 1) / 2;
    for (int i = 0; i < s->size[l]; i++) s->parent[l][i] = i / 2;
    for (int i = 0; i < s->size[l + 1]; i++) s->block[l + 1][i] = i / c;
}

static void find_levels(const hga_htransformer *p, int n, levels *s)
{
    memset(s, 0, sizeof *s);
    s->size[0] = n;
    for (int i = 0; i < n; i++) s->block[0][i] = s->half[0][i] = i / p->block;
    for (int l = 0; l + 1 < MAX_LEVELS; l++) {
        s->n_blocks[l] = s->block[l][s->size[l] - 1] + 1;
        if (p->structure == HGA_SIBLINGS)
            coarsen_plainly(s, l, p->block);
        else
            coarsen_blocks(s, l);
    }
}

/* Does coarse query i see coarse key j on level l? */
static int sees(const hga_htransformer *p, const levels *q, const levels *k, int l, int i, int j)
{
    int b = q->block[l][i], a = k->block[l][j];
    if (p->causal && (a > b || (a == b && j > i))) return 0;
    if (p->structure == HGA_SIBLINGS) return a / 2 == b / 2 && (l == 0 || a != b);
    return abs(a - b) <= 1 && (l == 0 || abs(k->half[l][j] - q->half[l][i]) > 1);
}

/* Both sides' levels, and where they are in the graph. */
typedef struct definition {
    const hga_htransformer *p;
    levels query, key;
    int n_levels, first[MAX_LEVELS + 1], key_at[MAX_LEVELS];
    edge *e;
    int64_t n;
} definition;

static definition *define(const hga_htransformer *p)
{
    definition *d = memory(1, sizeof *d);
    d->p = p;
    find_levels(p, p->n_tokens, &d->query);
    find_levels(p, p->n_keys ? p->n_keys : p->n_tokens, &d->key);
    for (d->n_levels = 1; d->query.n_blocks[d->n_levels - 1] > 2 || d->key.n_blocks[d->n_levels - 1] > 2;)
        d->n_levels++;
    for (int l = 0; l < d->n_levels; l++) {
        d->key_at[l] = d->first[l] + (p->n_keys ? d->query.size[l] : 0);
        d->first[l + 1] = d->key_at[l] + d->key.size[l];
    }
    d->e = memory(1 << 18, sizeof *d->e);
    return d;
}

static void forget(definition *d)
{
    free(d->e);
    free(d);
}

static void emit(definition *d, int dst, int src, int type, float weight)
{
    d->e[d->n++] = (edge){.dst = dst, .src = src, .type = type, .weight = weight};
}

static void emit_near(definition *d)
{
    int c = d->p->block, offset = 2 * (d->p->structure == HGA_NEIGHBOURS ? c + c % 2 : c) - 1;
    for (int l = 0; l < d->n_levels; l++)
        for (int i = 0; i < d->query.size[l]; i++)
            for (int j = 0; j < d->key.size[l]; j++)
                if (sees(d->p, &d->query, &d->key, l, i, j))
                    emit(d, d->first[l] + i, d->key_at[l] + j, d->p->relative ? j - i + offset : 0, 1);
}

static void emit_first_children(definition *d)
{
    for (int l = 0; l + 1 < d->n_levels; l++)
        for (int i = 0; i < d->query.size[l]; i++)
            if (i == 0 || d->query.parent[l][i] != d->query.parent[l][i - 1])
                emit(d, d->first[l + 1] + d->query.parent[l][i], d->first[l] + i, 0, 1);
}

/* first and only children: x[j]; second ones: (x[j] + x[j + 1]) / 2, where there is an x[j + 1] */
static void emit_interpolation(definition *d)
{
    for (int l = 0; l + 1 < d->n_levels; l++)
        for (int i = 0; i < d->query.size[l]; i++) {
            int j = d->query.parent[l][i], second = i > 0 && d->query.parent[l][i - 1] == j,
                shared = second && j + 1 < d->query.size[l + 1];
            emit(d, d->first[l] + i, d->first[l + 1] + j, 0, shared ? 0.5f : 1);
            if (shared) emit(d, d->first[l] + i, d->first[l + 1] + j + 1, 0, 0.5f);
        }
}

static void assert_relation(definition *d, const hga_graph *g, const char *name)
{
    const hga_htransformer *p = d->p;
    char what[200];
    snprintf(what, sizeof what, "%s of n %d keys %d block %d structure %d causal %d", name, p->n_tokens, p->n_keys,
             p->block, (int)p->structure, p->causal);
    int64_t n;
    edge *got = all_rows(g, hga_graph_find_relation(g, name), &n);
    sort_edges(d->e, d->n);
    assert_same_edges(what, got, n, d->e, d->n);
    for (int64_t e = 0; e < n; e++) assert_true(got[e].weight == d->e[e].weight);
    free(got);
    d->n = 0;
}

static void assert_parents(const levels *s, int l, const int *at, const hga_graph *g)
{
    for (int i = 0; i < s->size[l]; i++)
        assert_int_equal(hga_graph_nodes(g).parent[at[l] + i], at[l + 1] + s->parent[l][i]);
}

static void assert_is_the_definition(const hga_htransformer *p)
{
    hga_graph *g = build(p);
    definition *d = define(p);
    assert_int_equal(hga_graph_nodes(g).n_levels, d->n_levels);
    for (int l = 0; l <= d->n_levels; l++) assert_int_equal(hga_graph_nodes(g).level_ptr[l], d->first[l]);
    for (int l = 0; l + 1 < d->n_levels; l++) {
        assert_parents(&d->query, l, d->first, g);
        assert_parents(&d->key, l, d->key_at, g);
    }
    emit_near(d);
    assert_relation(d, g, "near");
    if (p->causal) emit_first_children(d), assert_relation(d, g, "first_child");
    if (p->linear) emit_interpolation(d), assert_relation(d, g, "interpolate");
    forget(d);
    hga_graph_destroy(g);
}

/* ---- drawing parameters ---- */

static hga_htransformer draw(uint64_t *stream)
{
    const hga_id blocks[] = {1, 2, 3, 4, 5, 6, 7, 9, 16, 70};
    hga_htransformer p = {.n_tokens = 1 + random_below(stream, 70), .block = blocks[random_below(stream, 10)]};
    p.structure = random_below(stream, 2) ? HGA_SIBLINGS : HGA_NEIGHBOURS;
    p.causal = random_below(stream, 2);
    p.linear = !p.causal && random_below(stream, 2);
    p.relative = random_below(stream, 2);
    if (random_below(stream, 3) == 0) p.n_keys = p.causal ? p.n_tokens : 1 + random_below(stream, 70);
    return p;
}

/* ---- facts ---- */

static void seven_tokens_in_blocks_of_two_by_hand(void **state)
{
    (void)state;
    /* tokens 0 1 | 2 3 | 4 5 | 6, nodes 7 8 | 9 10: block 0 of level 0 never meets block 2, so 7 sees 9, and 10 as
       well; 8 sees 10 */
    hga_graph *g = build(&(hga_htransformer){.n_tokens = 7, .block = 2});
    hga_csr csr;
    assert_ok(hga_graph_rows(g, hga_graph_find_relation(g, "near"), 0, 11, &csr));
    const hga_id sources[] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 0,  1,  2, 3, 4, 5,
                              2, 3, 4, 5, 6, 2, 3, 4, 5, 6, 4, 5, 6, 9, 10, 10, 7, 7, 8};
    assert_int_equal(csr.ptr[11], sizeof sources / sizeof *sources);
    assert_memory_equal(csr.src, sources, sizeof sources);
    const float mass[] = {1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 1};
    assert_memory_equal(hga_graph_nodes(g).mass, mass, sizeof mass);
    hga_csr_clear(&csr);
    hga_graph_destroy(g);
}

static void siblings_of_eight_tokens_by_hand(void **state)
{
    (void)state;
    /* tokens 0 1 | 2 3 | 4 5 | 6 7, nodes 8 9 | 10 11 */
    hga_graph *g = build(&(hga_htransformer){.n_tokens = 8, .block = 2, .structure = HGA_SIBLINGS});
    hga_csr csr;
    assert_ok(hga_graph_rows(g, 0, 3, 6, &csr));
    const hga_id sources[] = {0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 10, 11};
    assert_int_equal(csr.ptr[6], sizeof sources / sizeof *sources);
    assert_memory_equal(csr.src, sources, sizeof sources);
    hga_csr_clear(&csr);
    hga_graph_destroy(g);
}

static void blocks_of_odd_size_halve_on_their_own(void **state)
{
    (void)state;
    /* tokens 0 1 2 | 3 4 5 | 6 7 8, nodes 9 10 11 12 | 13 14: token 2 is an only child */
    hga_graph *g = build(&(hga_htransformer){.n_tokens = 9, .block = 3});
    const hga_id parent[] = {9, 9, 10, 11, 11, 12, 13, 13, 14, -1, -1, -1, -1, -1, -1};
    assert_int_equal(hga_graph_nodes(g).n, 15);
    assert_memory_equal(hga_graph_nodes(g).parent, parent, sizeof parent);
    hga_graph_destroy(g);
}

static void random_graphs_are_the_definition(void **state)
{
    (void)state;
    uint64_t stream = 3;
    for (int t = 0; t < 1200; t++) {
        hga_htransformer p = draw(&stream);
        assert_is_the_definition(&p);
    }
}

/* times[node][key token], down the tree: a token sees what its ancestors see */
static int *cover(const hga_graph *g)
{
    hga_nodes nodes = hga_graph_nodes(g);
    int64_t n;
    edge *e = all_rows(g, hga_graph_find_relation(g, "near"), &n);
    int *times = memory((int64_t)nodes.n * nodes.n_keys, sizeof *times);
    for (int64_t i = 0; i < n; i++)
        for (hga_id u = nodes.span_first[e[i].src]; u <= nodes.span_last[e[i].src]; u++)
            times[e[i].dst * nodes.n_keys + u - nodes.key_first]++;
    for (hga_id v = nodes.n - 1; v >= 0; v--)
        for (hga_id u = 0; nodes.parent && nodes.parent[v] >= 0 && u < nodes.n_keys; u++)
            times[v * nodes.n_keys + u] += times[nodes.parent[v] * nodes.n_keys + u];
    free(e);
    return times;
}

static void every_pair_is_covered_once_and_none_later_when_causal(void **state)
{
    (void)state;
    uint64_t stream = 4;
    for (int t = 0; t < 600; t++) {
        hga_htransformer p = draw(&stream);
        hga_graph *g = build(&p);
        hga_id n_keys = hga_graph_nodes(g).n_keys;
        int *times = cover(g);
        for (hga_id i = 0; i < p.n_tokens; i++)
            for (hga_id j = 0; j < n_keys; j++)
                if (times[i * n_keys + j] != (!p.causal || j <= i))
                    fail_msg("n %d keys %d block %d structure %d causal %d: %d sees %d %d times", p.n_tokens, p.n_keys,
                             p.block, (int)p.structure, p.causal, i, j, times[i * n_keys + j]);
        free(times);
        hga_graph_destroy(g);
    }
}

static void types_fit_the_table_of_relative_positions(void **state)
{
    (void)state;
    hga_graph *even = build(&(hga_htransformer){.n_tokens = 60, .block = 4, .relative = 1}),
              *odd = build(&(hga_htransformer){.n_tokens = 60, .block = 5, .relative = 1});
    hga_graph *plain = build(&(hga_htransformer){.n_tokens = 60, .block = 5, .relative = 1, .structure = HGA_SIBLINGS});
    assert_int_equal(hga_graph_relation(even, 0).n_types, 4 * 4 - 1);
    assert_in_range(hga_graph_relation(odd, 0).n_types, 1, 4 * 6 - 1);
    assert_in_range(hga_graph_relation(plain, 0).n_types, 1, 4 * 5 - 1);
    hga_graph_destroy(even);
    hga_graph_destroy(odd);
    hga_graph_destroy(plain);
}

/* Row v of `near` and of first_child, as (level, index). */
static void assert_same_row(const hga_graph *a, const hga_graph *b, hga_id relation, hga_id row_a, hga_id row_b)
{
    hga_csr x, y;
    assert_ok(hga_graph_rows(a, relation, row_a, 1, &x));
    assert_ok(hga_graph_rows(b, relation, row_b, 1, &y));
    assert_int_equal(x.ptr[1], y.ptr[1]);
    for (hga_pos e = 0; e < x.ptr[1]; e++) {
        hga_id at_a, at_b;
        assert_int_equal(index_in_level(a, x.src[e], &at_a), index_in_level(b, y.src[e], &at_b));
        assert_int_equal(at_a, at_b);
        assert_int_equal(x.type[e], y.type[e]);
    }
    hga_csr_clear(&x);
    hga_csr_clear(&y);
}

static void causal_rows_keep_their_edges_when_tokens_are_appended(void **state)
{
    (void)state;
    uint64_t stream = 6;
    for (int t = 0; t < 100; t++) {
        hga_htransformer p = draw(&stream);
        p.causal = p.relative = 1, p.linear = p.n_keys = 0;
        hga_graph *shorter = build(&p);
        p.n_tokens += 1 + random_below(&stream, 20);
        hga_graph *longer = build(&p);
        for (hga_id v = 0; v < hga_graph_nodes(shorter).n; v++) {
            hga_id level, i = index_in_level(shorter, v, &level), same = hga_graph_nodes(longer).level_ptr[level] + i;
            for (hga_id relation = 0; relation < 2; relation++) assert_same_row(shorter, longer, relation, v, same);
        }
        hga_graph_destroy(shorter);
        hga_graph_destroy(longer);
    }
}

static void a_million_tokens_are_a_few_blocks_a_level(void **state)
{
    (void)state;
    for (int structure = HGA_NEIGHBOURS; structure <= HGA_SIBLINGS; structure++)
        for (int causal = 0; causal < 2; causal++) {
            hga_graph *g = build(&(hga_htransformer){.n_tokens = (1 << 20) + 77,
                                                     .block = 16,
                                                     .structure = (hga_htransformer_structure)structure,
                                                     .causal = causal});
            hga_relation near = hga_graph_relation(g, 0);
            assert_int_equal(near.n_explicit, 0);
            assert_in_range(near.n_blocks, 1, 12 * hga_graph_nodes(g).n_levels);
            if (causal) assert_in_range(hga_graph_relation(g, 1).n_blocks, 1, 2 * hga_graph_nodes(g).n_levels);
            hga_graph_destroy(g);
        }
}

static void long_odd_blocks_stay_few_blocks_too(void **state)
{
    (void)state;
    hga_graph *g = build(&(hga_htransformer){.n_tokens = 1 << 20, .block = 40001, .linear = 1});
    assert_in_range(hga_graph_relation(g, hga_graph_find_relation(g, "interpolate")).n_blocks, 1, 200);
    hga_graph_destroy(g);
}

static void it_claims_what_it_is(void **state)
{
    (void)state;
    hga_graph *plain = build(&(hga_htransformer){.n_tokens = 9, .block = 2}),
              *causal = build(&(hga_htransformer){.n_tokens = 9, .block = 2, .causal = 1});
    hga_graph *linear = build(&(hga_htransformer){.n_tokens = 9, .block = 2, .linear = 1});
    assert_int_equal(hga_graph_nodes(plain).claims, HGA_CLAIM_SINGLE | HGA_CLAIM_COMPLETE);
    assert_int_equal(hga_graph_nodes(causal).claims, HGA_CLAIM_SINGLE | HGA_CLAIM_COMPLETE | HGA_CLAIM_CAUSAL);
    assert_int_equal(hga_graph_nodes(linear).claims, HGA_CLAIM_COMPLETE);
    hga_graph_destroy(plain);
    hga_graph_destroy(causal);
    hga_graph_destroy(linear);
}

static void the_program_coarsens_attends_by_mass_and_spreads(void **state)
{
    (void)state;
    hga_graph *g;
    hga_program program;
    assert_ok(hga_build_htransformer(&(hga_htransformer){.n_tokens = 40, .block = 4, .causal = 1}, &g, &program));
    assert_int_equal(program.n_stages, 5);
    assert_int_equal(program.stage[0].relation, hga_graph_find_relation(g, "first_child"));
    assert_int_equal(program.stage[1].relation, HGA_TREE_UP);
    assert_int_equal(program.stage[2].relation, HGA_TREE_UP);
    assert_int_equal(program.stage[3].message, HGA_SCORE);
    assert_int_equal(program.stage[3].by_mass, 1);
    assert_int_equal(program.stage[4].relation, HGA_TREE_DOWN);
    assert_int_equal(program.field[program.stage[3].query].rows, HGA_ROWS_QUERY_SIDE);
    assert_int_equal(program.field[program.stage[3].key].rows, HGA_ROWS_KEY_SIDE);
    assert_int_equal(program.has_lse, 1);
    hga_graph_destroy(g);
    assert_ok(hga_build_htransformer(&(hga_htransformer){.n_tokens = 40, .block = 4, .linear = 1}, &g, &program));
    assert_int_equal(program.stage[0].relation, HGA_TREE_UP);
    assert_int_equal(program.stage[4].relation, hga_graph_find_relation(g, "interpolate"));
    hga_graph_destroy(g);
}

static void refused(hga_status status, hga_htransformer p, const char *number)
{
    hga_graph *g = (hga_graph *)&p;
    hga_program program;
    assert_status(status, hga_build_htransformer(&p, &g, &program));
    assert_null(g);
    assert_non_null(strstr(hga_error_detail(), number));
}

static void what_has_no_meaning_is_refused_with_its_number(void **state)
{
    (void)state;
    hga_htransformer p;
    hga_defaults(&p);
    refused(HGA_EINVAL, p, "tokens: 0");
    refused(HGA_EINVAL, (hga_htransformer){.n_tokens = 4, .block = 0}, "block: 0");
    refused(HGA_EINVAL, (hga_htransformer){.n_tokens = 4, .block = 2, .structure = (hga_htransformer_structure)2},
            "structure: 2");
    refused(HGA_EUNSUPPORTED, (hga_htransformer){.n_tokens = 4, .block = 2, .causal = 1, .linear = 1}, "causal");
    refused(HGA_EUNSUPPORTED, (hga_htransformer){.n_tokens = 4, .n_keys = 5, .block = 2, .causal = 1},
            "4 queries and 5 keys");
    refused(HGA_EOVERFLOW, (hga_htransformer){.n_tokens = 4, .block = INT32_MAX, .relative = 1}, "2147483647");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seven_tokens_in_blocks_of_two_by_hand),
        cmocka_unit_test(siblings_of_eight_tokens_by_hand),
        cmocka_unit_test(blocks_of_odd_size_halve_on_their_own),
        cmocka_unit_test(random_graphs_are_the_definition),
        cmocka_unit_test(every_pair_is_covered_once_and_none_later_when_causal),
        cmocka_unit_test(types_fit_the_table_of_relative_positions),
        cmocka_unit_test(causal_rows_keep_their_edges_when_tokens_are_appended),
        cmocka_unit_test(a_million_tokens_are_a_few_blocks_a_level),
        cmocka_unit_test(long_odd_blocks_stay_few_blocks_too),
        cmocka_unit_test(it_claims_what_it_is),
        cmocka_unit_test(the_program_coarsens_attends_by_mass_and_spreads),
        cmocka_unit_test(what_has_no_meaning_is_refused_with_its_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
