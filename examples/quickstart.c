/* Quickstart: H-Transformer attention over 1000 random tokens, next to dense attention. */
#include <hga.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1000, HEADS = 4, DIM = 32 };
static float q[N][HEADS][DIM], k[N][HEADS][DIM], v[N][HEADS][DIM], fast[N][HEADS][DIM], dense[N][HEADS][DIM];

/* Uniform in [-1, 1]. */
static void randomise(float x[N][HEADS][DIM])
{
    for (int i = 0; i < N * HEADS * DIM; i++) (&x[0][0][0])[i] = (float)rand() / (float)RAND_MAX * 2 - 1;
}

/* Run a program on a graph and give both back. */
static hga_status attend(hga_graph *g, const hga_program *program, float out[N][HEADS][DIM])
{
    hga_shape shape = {.n_heads = HEADS, .dim = DIM};
    hga_io io = {.query = {.data = q, .rows = N},
                 .key = {.data = k, .rows = N},
                 .value = {.data = v, .rows = N},
                 .out = {.data = out, .rows = N}};
    hga_status st = hga_attention(g, program, &shape, NULL, &io);
    printf("%9lld edges\n", (long long)hga_graph_relation(g, 0).n_edges);
    hga_graph_destroy(g);
    return st;
}

int main(void)
{
    randomise(q), randomise(k), randomise(v);
    for (int i = 0; i < N; i++) v[i][0][0] = 1; /* a value that is the same everywhere must come out as it went in */

    hga_status st;
    hga_graph *g;
    hga_program program;
    hga_htransformer tree;
    hga_defaults(&tree);
    tree.n_tokens = N;
    HGA_TRY(hga_build_htransformer(&tree, &g, &program));
    HGA_TRY(attend(g, &program, fast));
    HGA_TRY(hga_build_dense(&(hga_dense){.n_tokens = N}, &g, &program));
    HGA_TRY(attend(g, &program, dense));

    double away = 0, size = 0, worst = 0;
    for (int i = 0; i < N * HEADS * DIM; i++) {
        double x = (&dense[0][0][0])[i], d = (&fast[0][0][0])[i] - x;
        away += d * d, size += x * x;
    }
    for (int i = 0; i < N; i++) worst = fmax(worst, fabs(fast[i][0][0] - 1.0));
    printf("relative distance from dense attention %.3f, ones came out within %.1e of one\n", sqrt(away / size), worst);
    return worst < 1e-5 ? 0 : 1;
done:
    fprintf(stderr, "%s: %s\n", hga_status_name(st), hga_error_detail());
    return 1;
}
