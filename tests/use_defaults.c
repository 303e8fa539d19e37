/* use_defaults.c: every public struct that callers fill, used as a caller would. test_headers.sh compiles it as C11 and
   as C++20, warnings being errors. */
#include "hga.h"

#include <stdio.h>

static hga_id tokens_of_defaults(void)
{
    hga_dense dense;
    hga_defaults(&dense);
    hga_window window;
    hga_defaults(&window);
    hga_bpt bpt;
    hga_defaults(&bpt);
    hga_htransformer htransformer;
    hga_defaults(&htransformer);
    hga_treeformer treeformer;
    hga_defaults(&treeformer);
    hga_hsa hsa;
    hga_defaults(&hsa);
    dense.n_tokens = 1;
    window.n_tokens = 2, window.left = 5;
    bpt.n_tokens = 3, bpt.k = 2;
    htransformer.n_tokens = 4, htransformer.block = 8;
    treeformer.n_queries = 5, treeformer.n_tree_heads = 2;
    hsa.n_tokens = 6, hsa.mode = HGA_HSA_SELF;
    return dense.n_tokens + window.n_tokens + bpt.n_tokens + htransformer.n_tokens + treeformer.n_queries +
           hsa.n_tokens;
}

/* A struct that is zero but for what is set. */
#ifdef __cplusplus
#define ZERO \
    {        \
    }
#else
#define ZERO \
    {        \
        0    \
    }
#endif

static hga_status attend(hga_graph *g, const hga_program *program, float *x, float *out, int64_t n)
{
    hga_shape shape = ZERO;
    hga_options options = ZERO;
    hga_tensor in = ZERO, result = ZERO;
    hga_io io = ZERO;
    shape.n_heads = 1, shape.dim = 4;
    options.threads = 1, options.cut_edges = 64;
    in.data = x, result.data = out, in.rows = result.rows = n;
    io.query = io.key = io.value = in, io.out = result;
    return hga_attention(g, program, &shape, &options, &io);
}

int main(void)
{
    enum { N = 10 };
    static float x[N * 4], out[N * 4];
    hga_graph *g = NULL;
    hga_program program;
    hga_dense dense;
    hga_defaults(&dense);
    dense.n_tokens = N;
    hga_status st = hga_build_dense(&dense, &g, &program);
    if (st == HGA_OK) st = attend(g, &program, x, out, N);
    hga_graph_destroy(g);
    if (st != HGA_OK) printf("%s\n", hga_error_detail());
    return st != HGA_OK || tokens_of_defaults() != 21;
}
