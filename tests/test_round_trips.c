/* test_round_trips.c: what the writers of other programs' formats wrote, the readers of these formats read back. */
#include "readers.h"
#include "graphs.h"
#include "hga_files.h"

typedef hga_status (*writer)(const hga_graph *, hga_id relation, const char *path, hga_progress, void *);

/* A format: what of an edge it keeps. */
typedef struct format {
    const char *suffix;
    writer write;
    int types, weights, all; /* 1: kept; all: takes all relations in one file */
} format;

static const format formats[] = {{".csv", hga_graph_write_csv, 1, 1, 1},
                                 {".graphml", hga_graph_write_graphml, 1, 1, 1},
                                 {".mtx", hga_graph_write_mtx, 0, 1, 0},
                                 {".npy", hga_graph_write_npy, 1, 0, 0}};
enum { N_FORMATS = sizeof formats / sizeof *formats };

/* The edges of the tree: from child to parent, or turned. */
static edges tree_edges(const hga_graph *g, int down)
{
    hga_nodes nodes = hga_graph_nodes(g);
    edges list = {0};
    for (hga_id i = 0; i < nodes.n - nodes.level_ptr[1]; i++)
        for (hga_id c = nodes.child_ptr[i]; c < nodes.child_ptr[i + 1]; c++) {
            hga_id parent = nodes.level_ptr[1] + i, child = nodes.child_list ? nodes.child_list[c] : c;
            edges_add(&list, (edge){down ? child : parent, down ? parent : child, 0, 1});
        }
    return list;
}

/* The edges of a relation, or of the tree, without what a format does not keep, sorted. */
static edges wanted(const hga_graph *g, hga_id relation, const format *f)
{
    edges list = relation < 0 ? tree_edges(g, relation == HGA_TREE_DOWN) : edges_of(g, relation);
    for (int64_t i = 0; i < list.n; i++) {
        if (!f->types) list.e[i].type = 0;
        if (!f->weights) list.e[i].weight = 1;
    }
    edges_sort(&list);
    return list;
}

/* A read graph's edges, sorted; the graph is given back. */
static edges sorted_edges(hga_graph *g)
{
    edges list = edges_of(g, 0);
    edges_sort(&list);
    hga_graph_destroy(g);
    return list;
}

static edges read_back(const char *path)
{
    hga_graph *g;
    SUCCEEDS(hga_graph_read(NULL, path, NULL, &g, NULL));
    return sorted_edges(g);
}

/* GraphML tells the tree besides, from which levels follow: its nodes come back under their numbers only where levels
   are the tree's. */
static void assert_comes_back(const hga_graph *g, hga_id relation, int tree_tells_levels)
{
    for (int i = 0; i < N_FORMATS; i++) {
        const format *f = formats + i;
        edges want = wanted(g, relation, f);
        if (want.n == 0 || (f->write == hga_graph_write_graphml && !tree_tells_levels)) {
            free(want.e);
            continue;
        }
        const char *path = scratch(f->suffix);
        SUCCEEDS(f->write(g, relation, path, NULL, NULL));
        assert_equal_edges(read_back(path), want);
        assert_int_equal(remove(path), 0);
    }
}

static void relations_and_trees_come_back_edge_for_edge(void **state)
{
    (void)state;
    hga_graph *g = mixed_graph(NULL);
    for (hga_id i = 0; i < hga_graph_nodes(g).n_relations; i++) assert_comes_back(g, i, 1);
    assert_comes_back(g, HGA_TREE_UP, 1);
    assert_comes_back(g, HGA_TREE_DOWN, 1);
    hga_graph_destroy(g);
    for (uint64_t seed = 0; seed < 60; seed++) {
        g = random_graph(seed, 0);
        for (hga_id i = 0; i < hga_graph_nodes(g).n_relations; i++) assert_comes_back(g, i, 0);
        assert_comes_back(g, HGA_TREE_UP, 0);
        hga_graph_destroy(g);
    }
}

/* Names in quotes, levels, masses, the tree and every relation, from one file. */
static void a_hierarchy_comes_back_from_all_its_relations(void **state)
{
    (void)state;
    hga_builder *b;
    hga_id near, far;
    SUCCEEDS(hga_builder_create(NULL, &b));
    SUCCEEDS(hga_builder_add_level(b, 4, NULL));
    SUCCEEDS(hga_builder_add_level(b, 2, NULL));
    SUCCEEDS(hga_builder_set_families(b, 4, 0, 4, 2));
    SUCCEEDS(hga_builder_set_mass(b, 1, 0.25f));
    SUCCEEDS(hga_builder_set_name(b, 0, "the \"first\", <quoted> & one"));
    SUCCEEDS(hga_builder_set_name(b, 5, "half"));
    SUCCEEDS(hga_builder_add_relation(b, "near", &near));
    SUCCEEDS(hga_builder_add_block(b, near, 0, 3, 1, 3, 2));
    SUCCEEDS(hga_builder_add_relation(b, "far \"off\"", &far));
    SUCCEEDS(hga_builder_add_edge(b, far, 0, 5, 1, 0.5f));
    hga_graph *g = finished(b), *again;
    for (int i = 0; i < N_FORMATS; i++) {
        const format *f = formats + i;
        const char *path = scratch(f->suffix);
        if (!f->all) {
            FAILS(HGA_EUNSUPPORTED, "one relation", f->write(g, HGA_ALL_RELATIONS, path, NULL, NULL));
            continue;
        }
        SUCCEEDS(f->write(g, HGA_ALL_RELATIONS, path, NULL, NULL));
        SUCCEEDS(hga_graph_read(NULL, path, NULL, &again, NULL));
        assert_equal_edges(wanted(again, HGA_TREE_UP, f), wanted(g, HGA_TREE_UP, f));
        for (hga_id r = 0; r < 2; r++) {
            hga_id same = hga_graph_find_relation(again, hga_graph_relation(g, r).name);
            assert_true(same >= 0);
            assert_equal_edges(wanted(again, same, f), wanted(g, r, f));
        }
        assert_int_equal(hga_graph_nodes(again).n_levels, 2);
        if (f->write == hga_graph_write_graphml) {
            assert_string_equal(hga_graph_name(again, 0), hga_graph_name(g, 0));
            assert_true(hga_graph_nodes(again).mass[1] == 0.25f);
        }
        hga_graph_destroy(again);
        assert_int_equal(remove(path), 0);
    }
    hga_graph_destroy(g);
}

/* ---- METIS ---- */

/* What an undirected file makes of edges: pairs joined in either direction both ways, without self loops; the weight is
   how many edges joined them. Frees the list. */
static edges undirected(edges list)
{
    edges both = {0}, want = {0};
    for (int64_t i = 0; i < list.n; i++) {
        edge e = list.e[i];
        if (e.dst == e.src) continue;
        edges_add(&both, (edge){e.dst, e.src, 0, 1});
        edges_add(&both, (edge){e.src, e.dst, 0, 1});
    }
    edges_sort(&both);
    for (int64_t i = 0; i < both.n; i++) {
        edge *last = want.n ? &want.e[want.n - 1] : NULL;
        if (last && last->dst == both.e[i].dst && last->src == both.e[i].src)
            last->weight += 1;
        else
            edges_add(&want, both.e[i]);
    }
    free(list.e), free(both.e);
    return want;
}

static edges metis_back(const char *path)
{
    hga_graph *g;
    SUCCEEDS(import_metis(NULL, path, NULL, &g));
    return sorted_edges(g);
}

static void pairs_of_a_metis_file_are_those_joined_in_either_direction(void **state)
{
    (void)state;
    static const format all = {.types = 1, .weights = 1};
    const char *path = scratch(".graph");
    for (uint64_t seed = 0; seed < 60; seed++) {
        hga_graph *g = random_graph(seed, 0);
        for (hga_id i = 0; i < hga_graph_nodes(g).n_relations; i++) {
            SUCCEEDS(hga_graph_write_metis(g, i, path, NULL, NULL));
            assert_equal_edges(metis_back(path), undirected(wanted(g, i, &all)));
        }
        SUCCEEDS(hga_graph_write_metis(g, HGA_TREE_UP, path, NULL, NULL));
        assert_equal_edges(metis_back(path), undirected(wanted(g, HGA_TREE_UP, &all)));
        hga_graph_destroy(g);
    }
    assert_int_equal(remove(path), 0);
}

/* ---- what is not there ---- */

static const writer writers[] = {hga_graph_write_csv, hga_graph_write_graphml, hga_graph_write_gexf,
                                 hga_graph_write_mtx, hga_graph_write_npy,     hga_graph_write_metis};
enum { N_WRITERS = sizeof writers / sizeof *writers };

static void a_relation_that_is_not_there_is_refused_by_every_writer(void **state)
{
    (void)state;
    hga_graph *g = mixed_graph(NULL);
    for (int i = 0; i < N_WRITERS; i++) {
        FAILS(HGA_EINVAL, "the graph has 3", writers[i](g, 3, scratch(".no"), NULL, NULL));
        FAILS(HGA_EIO, "no/such", writers[i](g, 0, "no/such/folder", NULL, NULL));
    }
    hga_graph_destroy(g);
}

/* The n-th allocation fails, for every n until the file is written: HGA_ENOMEM, no block left, no file. */
static void a_writer_without_memory_leaves_nothing(void **state)
{
    (void)state;
    const char *path = scratch(".scarce");
    for (int i = 0; i < N_WRITERS; i++)
        for (int cross = 0; cross < 2; cross++) {
            scarce s = {.left = -1};
            hga_allocator a = scarce_allocator(&s);
            hga_graph *g = cross ? cross_graph(&a) : mixed_graph(&a);
            int64_t kept = s.blocks, failed = 0;
            hga_status st = HGA_ENOMEM;
            for (; st == HGA_ENOMEM; failed++) {
                s.left = failed;
                st = writers[i](g, 0, path, NULL, NULL);
                assert_int_equal(s.blocks, kept);
                assert_int_equal(access(path, F_OK), st ? -1 : 0);
            }
            assert_int_equal(st, HGA_OK);
            s.left = -1;
            hga_graph_destroy(g);
            assert_int_equal(s.blocks, 0);
            assert_int_equal(remove(path), 0);
        }
}

static void tell(double done, void *context)
{
    double *last = context;
    assert_true(done >= *last && done <= 1);
    *last = done;
}

static void every_writer_tells_how_far_it_is(void **state)
{
    (void)state;
    const char *path = scratch(".told");
    hga_graph *g = mixed_graph(NULL);
    for (int i = 0; i < N_WRITERS; i++) {
        double last = 0;
        SUCCEEDS(writers[i](g, 0, path, tell, &last));
        assert_true(last == 1);
    }
    assert_int_equal(remove(path), 0);
    hga_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(relations_and_trees_come_back_edge_for_edge),
        cmocka_unit_test(a_hierarchy_comes_back_from_all_its_relations),
        cmocka_unit_test(pairs_of_a_metis_file_are_those_joined_in_either_direction),
        cmocka_unit_test(a_relation_that_is_not_there_is_refused_by_every_writer),
        cmocka_unit_test(a_writer_without_memory_leaves_nothing),
        cmocka_unit_test(every_writer_tells_how_far_it_is),
    };
    return cmocka_run_group_tests_name("round_trips", tests, NULL, NULL);
}
