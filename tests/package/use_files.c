/* use_files.c: what a user of libhga-files writes. A text's tree is a hierarchy, whose edges go to another program's
   file and come back. */
#include <hga.h>
#include <hga_files.h>
#include <stdio.h>
#include <string.h>

static const char text[] = "One word. And two more.\n\nA paragraph.";

int main(void)
{
    hga_tree tree;
    hga_graph *g = NULL, *back = NULL;
    hga_program program;
    hga_status st = hga_tree_text(NULL, text, strlen(text), NULL, 0, &tree);
    if (!st) {
        hga_hsa p;
        hga_defaults(&p);
        p.n_tokens = tree.n_leaves, p.parent = tree.parent, p.n_parent = tree.n;
        st = hga_build_hsa(&p, &g, &program);
        hga_tree_clear(&tree);
    }
    if (!st) st = hga_graph_write_graphml(g, 0, "edges.graphml", NULL, NULL);
    if (!st) st = hga_graph_read(NULL, "edges.graphml", NULL, &back, NULL);
    long long edges = st ? 0 : hga_graph_relation(back, 0).n_edges,
              wrong = st ? 1 : edges - hga_graph_relation(g, 0).n_edges;
    hga_graph_destroy(g), hga_graph_destroy(back);
    if (st) return fprintf(stderr, "%s: %s\n", hga_status_name(st), hga_error_detail()), 1;
    printf("hga %s: %lld edges there and back\n", hga_version(), edges);
    return wrong != 0 || edges == 0;
}
