/* peer_graphblas.c: SuiteSparse:GraphBLAS 7 over explicit edges: scores as a masked product, the softmax by
   reductions, a product with the values. The library is found at run time, so that the few functions that are used
   are declared here; its objects are opaque pointers. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "peer.h"

typedef void *object;
typedef uint64_t count;

enum { NONBLOCKING = 0, THREADS_OPTION = 5 };

/* The functions, and the constants: handles that are exported as variables. */
typedef struct library {
    int (*init)(int mode);
    int (*set_option)(int option, int32_t value);
    int (*new_matrix)(object *m, object type, count rows, count columns);
    int (*free_matrix)(object *m);
    int (*new_vector)(object *v, object type, count n);
    int (*free_vector)(object *v);
    int (*pack_csr)(object m, count **ptr, count **column, void **x, count ptr_bytes, count column_bytes, count x_bytes,
                    bool one_value, bool jumbled, object descriptor);
    int (*pack_full)(object m, void **x, count bytes, bool one_value, object descriptor);
    int (*unpack_full)(object m, void **x, count *bytes, bool *one_value, object descriptor);
    int (*product)(object c, object mask, object accumulate, object semiring, object a, object b, object descriptor);
    int (*reduce)(object v, object mask, object accumulate, object monoid, object a, object descriptor);
    int (*diagonal)(object *d, object v, int64_t k);
    int (*apply)(object c, object mask, object accumulate, object op, object a, object descriptor);
    object *fp32, *times, *minus, *divide, *max, *plus, *exp, *masked_transposed;
} library;

typedef struct sparse {
    peer_job job;
    object edges;    /* [rows][rows], the mask */
    object *operand; /* [3][heads]: queries times scale, keys, values, each [rows][dim] */
} sparse;

static const struct {
    const char *name;
    size_t at;
} symbols[] = {{"GrB_init", offsetof(library, init)},
               {"GxB_Global_Option_set_INT32", offsetof(library, set_option)},
               {"GrB_Matrix_new", offsetof(library, new_matrix)},
               {"GrB_Matrix_free", offsetof(library, free_matrix)},
               {"GrB_Vector_new", offsetof(library, new_vector)},
               {"GrB_Vector_free", offsetof(library, free_vector)},
               {"GxB_Matrix_pack_CSR", offsetof(library, pack_csr)},
               {"GxB_Matrix_pack_FullR", offsetof(library, pack_full)},
               {"GxB_Matrix_unpack_FullR", offsetof(library, unpack_full)},
               {"GrB_mxm", offsetof(library, product)},
               {"GrB_Matrix_reduce_Monoid", offsetof(library, reduce)},
               {"GrB_Matrix_diag", offsetof(library, diagonal)},
               {"GrB_Matrix_apply", offsetof(library, apply)},
               {"GrB_FP32", offsetof(library, fp32)},
               {"GrB_PLUS_TIMES_SEMIRING_FP32", offsetof(library, times)},
               {"GxB_PLUS_RMINUS_FP32", offsetof(library, minus)},
               {"GxB_PLUS_RDIV_FP32", offsetof(library, divide)},
               {"GrB_MAX_MONOID_FP32", offsetof(library, max)},
               {"GrB_PLUS_MONOID_FP32", offsetof(library, plus)},
               {"GxB_EXP_FP32", offsetof(library, exp)},
               {"GrB_DESC_ST1", offsetof(library, masked_transposed)}};

/* loaded once and kept: it must not be started a second time */
static const library *find_library(void)
{
    static library found;
    static int state; /* 0: not looked for, 1: here, -1: not here */
    if (state) return state > 0 ? &found : NULL;
    state = -1;
    void *handle = dlopen("libgraphblas.so.7", RTLD_NOW | RTLD_LOCAL);
    if (!handle) return NULL;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address) return NULL;
        memcpy((char *)&found + symbols[i].at, &address, sizeof address);
    }
    if (found.init(NONBLOCKING) != 0) return NULL;
    state = 1;
    return &found;
}

/* the rows' sums must exist, so every row needs an edge; a relation has no pair twice if it has one type */
static int has_plain_rows(const hga_csr *g)
{
    for (hga_id v = 0; v < g->n; v++) {
        if (g->ptr[v] == g->ptr[v + 1]) return 0;
        for (hga_pos e = g->ptr[v] + 1; e < g->ptr[v + 1]; e++)
            if (g->src[e] == g->src[e - 1]) return 0;
    }
    return 1;
}

/* where every pair is an edge, a mask would only slow it down */
static int can(const peer_job *j)
{
    int64_t pairs = (int64_t)j->rows * j->rows;
    return j->edges->ptr[j->rows] < pairs && has_plain_rows(j->edges) && find_library();
}

static hga_status succeeded(int info)
{
    return info >= 0 ? HGA_OK : hga_fail(HGA_EEXTERNAL, "GraphBLAS returned %d", info);
}

static void stop(void *state)
{
    sparse *s = state;
    if (!s) return;
    const library *l = find_library();
    l->free_matrix(&s->edges);
    for (hga_id i = 0; s->operand && i < 3 * s->job.heads; i++) l->free_matrix(&s->operand[i]);
    free(s->operand);
    free(s);
}

/* The library takes over the arrays it packs, by malloc and free. */
static hga_status make_edges(const peer_job *j, object *out)
{
    const library *l = find_library();
    count n = (count)j->edges->ptr[j->rows], *ptr = NULL, *column = NULL;
    float *one = NULL;
    hga_status st = HGA_OK;
    HGA_TRY(bench_new((int64_t)j->rows + 1, sizeof *ptr, &ptr));
    HGA_TRY(bench_new((int64_t)n, sizeof *column, &column));
    HGA_TRY(bench_new(1, sizeof *one, &one));
    for (hga_id v = 0; v <= j->rows; v++) ptr[v] = (count)j->edges->ptr[v];
    for (count e = 0; e < n; e++) column[e] = (count)j->edges->src[e];
    *one = 1;
    HGA_TRY(succeeded(l->new_matrix(out, *l->fp32, (count)j->rows, (count)j->rows)));
    HGA_TRY(succeeded(l->pack_csr(*out, &ptr, &column, (void **)&one, ((count)j->rows + 1) * sizeof *ptr,
                                  n * sizeof *column, sizeof *one, true, false, NULL)));
done:
    free(ptr);
    free(column);
    free(one);
    return st;
}

/* one head of a tensor as a full matrix */
static hga_status make_operand(const peer_job *j, const float *x, hga_id head, float scale, object *out)
{
    const library *l = find_library();
    float *full = NULL;
    int64_t n = (int64_t)j->rows * j->dim;
    hga_status st = HGA_OK;
    HGA_TRY(bench_new(n, sizeof *full, &full));
    for (int64_t i = 0; i < n; i++) full[i] = scale * x[(i / j->dim * j->heads + head) * j->dim + i % j->dim];
    HGA_TRY(succeeded(l->new_matrix(out, *l->fp32, (count)j->rows, (count)j->dim)));
    HGA_TRY(succeeded(l->pack_full(*out, (void **)&full, (count)n * sizeof *full, false, NULL)));
done:
    free(full);
    return st;
}

static hga_status start(const peer_job *j, void **state)
{
    sparse *s = NULL;
    hga_status st = HGA_OK;
    HGA_TRY(bench_new(1, sizeof *s, &s));
    s->job = *j;
    *state = s;
    HGA_TRY(succeeded(find_library()->set_option(THREADS_OPTION, j->threads)));
    HGA_TRY(bench_new(3 * (int64_t)j->heads, sizeof *s->operand, &s->operand));
    HGA_TRY(make_edges(j, &s->edges));
    for (hga_id h = 0; h < j->heads; h++) {
        HGA_TRY(make_operand(j, j->query, h, j->scale, &s->operand[h]));
        HGA_TRY(make_operand(j, j->key, h, 1, &s->operand[j->heads + h]));
        HGA_TRY(make_operand(j, j->value, h, 1, &s->operand[2 * j->heads + h]));
    }
done:
    return st;
}

/* x[i][j] = op(w[i], x[i][j]) for the reduction w of x's rows: a product with a diagonal matrix */
static hga_status by_row(const library *l, hga_id rows, object x, object monoid, object semiring)
{
    object w = NULL, d = NULL;
    hga_status st = HGA_OK;
    HGA_TRY(succeeded(l->new_vector(&w, *l->fp32, (count)rows)));
    HGA_TRY(succeeded(l->reduce(w, NULL, NULL, monoid, x, NULL)));
    HGA_TRY(succeeded(l->diagonal(&d, w, 0)));
    HGA_TRY(succeeded(l->product(x, NULL, NULL, semiring, d, x, NULL)));
done:
    l->free_vector(&w);
    l->free_matrix(&d);
    return st;
}

/* copies a full matrix into its head's columns; the library hands over its memory */
static hga_status copy_out(const library *l, const peer_job *j, object o, hga_id head)
{
    float *x = NULL;
    count bytes;
    bool one_value;
    hga_status st = succeeded(l->unpack_full(o, (void **)&x, &bytes, &one_value, NULL));
    for (hga_id v = 0; st == HGA_OK && v < j->rows; v++)
        for (hga_id i = 0; i < j->dim; i++)
            j->out[((int64_t)v * j->heads + head) * j->dim + i] = x[one_value ? 0 : (int64_t)v * j->dim + i];
    free(x);
    return st;
}

static hga_status run_head(const sparse *s, hga_id head)
{
    const library *l = find_library();
    const peer_job *j = &s->job;
    object score = NULL, o = NULL, *of = s->operand + head;
    hga_status st = HGA_OK;
    HGA_TRY(succeeded(l->new_matrix(&score, *l->fp32, (count)j->rows, (count)j->rows)));
    HGA_TRY(succeeded(l->new_matrix(&o, *l->fp32, (count)j->rows, (count)j->dim)));
    HGA_TRY(succeeded(l->product(score, s->edges, NULL, *l->times, of[0], of[j->heads], *l->masked_transposed)));
    HGA_TRY(by_row(l, j->rows, score, *l->max, *l->minus));
    HGA_TRY(succeeded(l->apply(score, NULL, NULL, *l->exp, score, NULL)));
    HGA_TRY(by_row(l, j->rows, score, *l->plus, *l->divide));
    HGA_TRY(succeeded(l->product(o, NULL, NULL, *l->times, score, of[2 * j->heads], NULL)));
    HGA_TRY(copy_out(l, j, o, head));
done:
    l->free_matrix(&score);
    l->free_matrix(&o);
    return st;
}

static hga_status run(void *state)
{
    const sparse *s = state;
    hga_status st = HGA_OK;
    for (hga_id head = 0; st == HGA_OK && head < s->job.heads; head++) st = run_head(s, head);
    return st;
}

const peer peer_graphblas = {"graphblas", can, start, run, stop};
