/* use.c: what a user of the installed library writes. Attention over an H-Transformer whose values are all one is one.
   */
#include <hga.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TOKENS = 100, HEADS = 2, DIM = 8, FLOATS = TOKENS * HEADS * DIM };

int main(void)
{
    static float q[FLOATS], ones[FLOATS], out[FLOATS];
    hga_graph *g = NULL;
    hga_program program;
    hga_shape shape = {.n_heads = HEADS, .dim = DIM};
    hga_io io = {.query = {.data = q, .rows = TOKENS},
                 .key = {.data = q, .rows = TOKENS},
                 .value = {.data = ones, .rows = TOKENS},
                 .out = {.data = out, .rows = TOKENS}};
    for (int i = 0; i < FLOATS; i++) q[i] = sinf((float)i), ones[i] = 1;

    hga_htransformer tree;
    hga_defaults(&tree);
    tree.n_tokens = TOKENS;
    hga_status st = hga_build_htransformer(&tree, &g, &program);
    if (st == HGA_OK) st = hga_attention(g, &program, &shape, NULL, &io);
    hga_graph_destroy(g);
    if (st != HGA_OK) return fprintf(stderr, "%s: %s\n", hga_status_name(st), hga_error_detail()), 1;

    float worst = 0;
    for (int i = 0; i < FLOATS; i++) worst = fmaxf(worst, fabsf(out[i] - 1));
    printf("hga %s: ones give ones, to %g\n", hga_version(), (double)worst);
    return worst > 1e-5f;
}
