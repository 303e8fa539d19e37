/* The library without ICU, libxml2, libzip, md4c, METIS, hwloc and CXSparse: what stands in their place is linked into
   this test instead of them. What needs one is refused with the name of its option; all the rest goes on. */
#include "readers.h"
#include "npz.h"
#include "partition.h"
#include "testing.h"
#include "topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void assert_refused(hga_status st, const char *option)
{
    assert_int_equal(HGA_EUNSUPPORTED, st);
    if (!strstr(hga_error_detail(), option)) fail_msg("'%s' does not name %s", hga_error_detail(), option);
}

static void texts_need_icu(void **state)
{
    (void)state;
    hga_tree tree;
    assert_refused(hga_tree_text(NULL, "a word", 6, NULL, 0, &tree), "HGA_WITH_ICU=OFF");
    assert_null(tree.parent);
}

static void markdown_needs_md4c(void **state)
{
    (void)state;
    hga_tree tree;
    assert_refused(hga_tree_markdown(NULL, "# a word", 8, &tree), "HGA_WITH_MD4C=OFF");
    assert_null(tree.parent);
}

static void html_needs_libxml2(void **state)
{
    (void)state;
    hga_tree tree;
    assert_refused(hga_tree_html(NULL, "<p>a word", 9, &tree), "HGA_WITH_XML=OFF");
    assert_null(tree.parent);
}

static void graphml_and_gexf_need_libxml2(void **state)
{
    (void)state;
    hga_graph *g = NULL;
    hga_program program;
    assert_ok(hga_build("dense", 4, &g, &program));
    assert_refused(hga_graph_write_graphml(g, 0, "x.graphml", NULL, NULL), "HGA_WITH_XML=OFF");
    assert_refused(hga_graph_write_gexf(g, 0, "x.gexf", NULL, NULL), "HGA_WITH_XML=OFF");
    hga_graph_destroy(g);
    assert_refused(import_graphml(NULL, "x.graphml", NULL, &g), "HGA_WITH_XML=OFF");
    assert_null(g);
    assert_refused(hga_graph_read(NULL, "x.graphml", NULL, &g, NULL), "HGA_WITH_XML=OFF");
}

static void npz_needs_libzip(void **state)
{
    (void)state;
    npz *z;
    assert_refused(npz_open(NULL, "x.npz", NULL, 0, &z), "HGA_WITH_ZIP=OFF");
    assert_null(z);
}

static void single_edges_need_cxsparse(void **state)
{
    (void)state;
    hga_builder *b;
    hga_graph *g = NULL;
    hga_id near;
    assert_ok(hga_builder_create(NULL, &b));
    assert_ok(hga_builder_add_level(b, 3, NULL));
    assert_ok(hga_builder_add_relation(b, "near", &near));
    assert_ok(hga_builder_add_edge(b, near, 0, 2, 0, 1));
    assert_refused(hga_builder_finish(b, &g), "HGA_WITH_CXSPARSE=OFF");
    assert_null(g);
    hga_builder_destroy(b);
}

static void parts_by_metis_need_metis(void **state)
{
    (void)state;
    int64_t ptr[] = {0, 1, 2}, neighbour[] = {1, 0};
    hga_id part[2];
    assert_refused(partition_graph(NULL, 2, ptr, neighbour, NULL, NULL, 2, NULL, NULL, part), "HGA_WITH_METIS=OFF");
}

static void synthetic_topologies_need_hwloc(void **state)
{
    (void)state;
    topology *t;
    assert_refused(topology_open("pack:2 numa:1 core:4 pu:1", &t), "HGA_WITH_HWLOC=OFF");
    assert_null(t);
}

static void the_machine_is_one_domain_of_its_cpus(void **state)
{
    (void)state;
    topology *t;
    hga_id domain[5], pu[5];
    binding old;
    assert_ok(topology_open(NULL, &t));
    assert_int_equal(1, topology_domains(t));
    assert_true(topology_domain_at(t, 0).n_pus >= 1 && topology_cores(t) >= 1);
    topology_locate(t, 5, domain, pu);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(0, domain[i]);
        assert_int_equal(topology_domain_at(t, 0).pu[i % topology_domain_at(t, 0).n_pus], pu[i]);
    }
    assert_ok(topology_bind(t, pu[0], &old));
    assert_non_null(old.t);
    topology_unbind(&old);
    assert_null(old.t);
    topology_close(t);
}

/* Variants made of blocks run, on one thread and on two, with equal bits. */
static void attention_goes_on(void **state)
{
    (void)state;
    static const char *const words[] = {"dense", "window left=3 right=3", "htransformer block=4 causal=1",
                                        "hsa branching=2,4"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        problem p = {.shape = {.n_heads = 2, .dim = 8}};
        snprintf(p.name, sizeof p.name, "%s", words[i]);
        assert_ok(hga_build(words[i], 70, &p.graph, &p.program));
        problem_fill(&p, 1);
        p.options.threads = 1;
        problem_run(&p);
        size_t bytes = (size_t)out_count(&p) * sizeof(float);
        float *one = memory(out_count(&p), sizeof *one);
        memcpy(one, p.io.out.data, bytes);
        p.options.threads = 2;
        problem_run(&p);
        assert_memory_equal(one, p.io.out.data, bytes);
        free(one);
        problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_need_icu),
        cmocka_unit_test(markdown_needs_md4c),
        cmocka_unit_test(html_needs_libxml2),
        cmocka_unit_test(graphml_and_gexf_need_libxml2),
        cmocka_unit_test(npz_needs_libzip),
        cmocka_unit_test(single_edges_need_cxsparse),
        cmocka_unit_test(parts_by_metis_need_metis),
        cmocka_unit_test(synthetic_topologies_need_hwloc),
        cmocka_unit_test(the_machine_is_one_domain_of_its_cpus),
        cmocka_unit_test(attention_goes_on),
    };
    return cmocka_run_group_tests_name("without", tests, NULL, NULL);
}
