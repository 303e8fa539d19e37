/* bench.c: what the measurements share. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

float *bench_random(int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);
    uint32_t seed = 1;
    for (int64_t i = 0; x && i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / (1 << 23) - 1;
    }
    return x;
}

/* Rows of the tensor behind a binding: what the program says. */
static int64_t rows_of(const bench_case *c, hga_binding binding)
{
    hga_nodes nodes = hga_graph_nodes(c->graph);
    for (hga_id f = 1; f <= c->program.n_fields; f++) {
        if (c->program.field[f].binding != binding) continue;
        hga_rows rows = c->program.field[f].io;
        return rows == HGA_ROWS_NODES ? nodes.n : rows == HGA_ROWS_KEYS ? nodes.n_keys : nodes.n_queries;
    }
    return 0;
}

static hga_status make_tensors(bench_case *c, const hga_shape *s)
{
    hga_id kv_heads = s->n_kv_heads ? s->n_kv_heads : s->n_heads, dim_v = s->dim_v ? s->dim_v : s->dim;
    int64_t query = rows_of(c, HGA_IO_QUERY) * s->n_heads * s->dim, key = rows_of(c, HGA_IO_KEY) * kv_heads * s->dim,
            value = rows_of(c, HGA_IO_VALUE) * kv_heads * dim_v, out = rows_of(c, HGA_IO_OUT) * s->n_heads * dim_v;
    c->io.query.rows = rows_of(c, HGA_IO_QUERY), c->io.key.rows = rows_of(c, HGA_IO_KEY);
    c->io.value.rows = rows_of(c, HGA_IO_VALUE), c->io.out.rows = rows_of(c, HGA_IO_OUT);
    c->tensors = bench_random(query + key + value + out);
    if (!c->tensors) return HGA_ENOMEM;
    c->tensor_bytes = (double)(query + key + value + out) * sizeof(float);
    c->io.query.data = c->tensors;
    c->io.key.data = c->tensors + query;
    c->io.value.data = c->tensors + query + key;
    c->io.out.data = c->tensors + query + key + value;
    return HGA_OK;
}

hga_status bench_ready(bench_case *c, const hga_shape *shape, const hga_options *options)
{
    hga_status st;
    HGA_TRY(hga_plan_create(c->graph, &c->program, shape, options, &c->plan));
    HGA_TRY(hga_workspace_create(c->plan, &c->state));
    HGA_TRY(make_tensors(c, shape));
done:
    return st;
}

hga_status bench_best(bench_case *c, double enough, double *seconds)
{
    double begin = bench_now();
    *seconds = HUGE_VAL;
    for (int i = 0; i < 2 || bench_now() - begin < enough; i++) {
        double start = bench_now();
        hga_status st = hga_plan_execute(c->plan, c->state, &c->io);
        if (st) return st;
        *seconds = fmin(*seconds, bench_now() - start);
    }
    return HGA_OK;
}

void bench_clear(bench_case *c)
{
    free(c->tensors);
    hga_workspace_destroy(c->state);
    hga_plan_destroy(c->plan);
    hga_graph_destroy(c->graph);
    *c = (bench_case){0};
}

int bench_complain(const char *what, hga_status st)
{
    fprintf(stderr, "%s: %s: %s\n", what, hga_status_name(st), hga_error_detail());
    return 1;
}

hga_id bench_argument(int n_words, char **word, int i, hga_id otherwise)
{
    return n_words > i ? (hga_id)strtol(word[i], NULL, 10) : otherwise;
}
