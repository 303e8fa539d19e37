/* text.c: any bytes as a text. Its tree has the words in reading order, every parent above its children, and is a
   hierarchy that HSA can be built on. */
#include "fuzz.h"
#include "hga_files.h"

/* The same bytes as a document: words in reading order, children behind their parents, and a name for each word. */
static void check_document(const hga_tree *t)
{
    for (hga_id v = 0; v < t->n; v++)
        if (t->parent[v] < -1 || t->parent[v] >= v || (t->parent[v] < 0) != (v == 0))
            fuzz_fail("parent %d of %d", t->parent[v], v);
    for (hga_id i = 0; i < t->n_leaves; i++)
        if (t->leaf_node[i] < 0 || t->leaf_node[i] >= t->n || !hga_tree_name(t, t->leaf_node[i]))
            fuzz_fail("leaf %d is node %d", i, t->leaf_node[i]);
}

static void read_document(const hga_allocator *a, const uint8_t *data, size_t size)
{
    hga_tree tree;
    int markdown = size && data[size - 1] % 2;
    hga_status st = (markdown ? hga_tree_markdown : hga_tree_html)(a, (const char *)data, size, &tree);
    if (!st) check_document(&tree);
    if (st && !hga_error_detail()[0]) fuzz_fail("refused without a word");
    hga_tree_clear(&tree);
}

static void check(const hga_tree *t, size_t size)
{
    for (hga_id v = 0; v < t->n; v++)
        if (t->parent[v] < -1 || t->parent[v] >= t->n || t->parent[v] == v)
            fuzz_fail("parent %d of %d", t->parent[v], v);
    for (hga_id i = 0; i < t->n_leaves; i++) {
        if (t->leaf_begin[i] < (i ? t->leaf_end[i - 1] : 0) || t->leaf_end[i] <= t->leaf_begin[i] ||
            t->leaf_end[i] > (int64_t)size)
            fuzz_fail("leaf %d is [%lld, %lld)", i, (long long)t->leaf_begin[i], (long long)t->leaf_end[i]);
        if (t->leaf_node[i] < 0 || t->leaf_node[i] >= t->n) fuzz_fail("leaf %d is node %d", i, t->leaf_node[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    filling memory = {.byte = 0xff};
    hga_allocator a = filling_allocator(&memory);
    hga_tree tree;
    hga_graph *g = NULL;
    hga_program p;
    hga_id most = size && data[0] % 4 == 0 ? 5 : 0;
    if (hga_tree_text(&a, (const char *)data, size, NULL, most, &tree) == HGA_OK) {
        check(&tree, size);
        hga_hsa h;
        hga_defaults(&h);
        h.parent = tree.parent, h.n_parent = tree.n, h.allocator = &a;
        if (hga_build_hsa(&h, &g, &p)) fuzz_fail("no HSA over the text's tree: %s", hga_error_detail());
        hga_graph_destroy(g);
        hga_tree_clear(&tree);
    } else if (!hga_error_detail()[0]) {
        fuzz_fail("refused without a word");
    }
    read_document(&a, data, size);
    fuzz_memory_end(&memory, "a text");
    return 0;
}
