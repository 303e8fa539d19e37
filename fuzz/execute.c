/* execute.c: a program run in several ways on one graph, which must agree. */
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TENSORS = 5 + HGA_MAX_USER_TENSORS, MAX_TYPES = 2000 };

/* One array of the caller's: exactly as long as it must be, so that a sanitiser sees a step beyond. */
typedef struct array {
    hga_tensor *tensor;
    int64_t rows, floats;
    hga_id heads, columns;
    ptrdiff_t row_stride, head_stride;
    float *start; /* what it holds before a run */
} array;

/* What all runs of an input have in common, and the arrays of the latest. */
typedef struct trial {
    const hga_graph *g;
    const hga_program *p;
    hga_shape shape;
    hga_io io;
    int n_arrays;
    array arrays[MAX_TENSORS];
    float *table[5];
} trial;

static hga_id columns_of(const hga_shape *s, hga_width width)
{
    hga_id values = s->dim_v ? s->dim_v : s->dim;
    return width == HGA_WIDTH_SCALAR ? 1 : width == HGA_WIDTH_KEY || width == HGA_WIDTH_KV_KEY ? s->dim : values;
}

static hga_id heads_of(const hga_shape *s, hga_width width)
{
    int kv = width == HGA_WIDTH_KV_KEY || width == HGA_WIDTH_VALUE;
    return kv && s->n_kv_heads ? s->n_kv_heads : s->n_heads;
}

static int64_t rows_of(const hga_graph *g, hga_rows rows)
{
    hga_nodes nodes = hga_graph_nodes(g);
    int64_t n = 0;
    for (hga_id v = 0; v < nodes.n; v++) {
        int side = nodes.side ? nodes.side[v] : HGA_SIDE_BOTH;
        n += rows == HGA_ROWS_QUERIES      ? v >= nodes.query_first && v < nodes.query_first + nodes.n_queries
             : rows == HGA_ROWS_KEYS       ? v >= nodes.key_first && v < nodes.key_first + nodes.n_keys
             : rows == HGA_ROWS_QUERY_SIDE ? side != HGA_SIDE_KEY
             : rows == HGA_ROWS_KEY_SIDE   ? side != HGA_SIDE_QUERY
             : rows == HGA_ROWS_ABOVE      ? v >= nodes.level_ptr[1]
                                           : 1;
    }
    return n;
}

/* Numbers in (-1, 1) of a stream of their own. */
static void fill(float *x, int64_t n, uint32_t seed)
{
    uint64_t z = seed * 0x9E3779B97F4A7C15u + 1;
    for (int64_t i = 0; i < n; i++) {
        z = z * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)((int64_t)(z >> 33) - ((int64_t)1 << 30)) * 0x1p-30f;
    }
}

static float *numbers(int64_t n, uint32_t seed)
{
    float *x = malloc((size_t)(n > 0 ? n : 1) * sizeof *x);
    if (!x) fuzz_fail("no memory for %lld numbers", (long long)n);
    fill(x, n, seed);
    return x;
}

/* An array for the tensor, packed or with gaps, rows or heads outermost. */
static void add_array(trial *t, hga_tensor *tensor, hga_width width, int64_t rows, hga_id columns, choices *c)
{
    array *a = &t->arrays[t->n_arrays++];
    hga_id heads = heads_of(&t->shape, width);
    *a = (array){.tensor = tensor, .rows = rows, .heads = heads, .columns = columns};
    tensor->rows = rows;
    int way = choose(c, 4), gap = way ? choose(c, 3) : 0;
    if (way == 3)
        a->row_stride = columns + gap, a->head_stride = (ptrdiff_t)rows * a->row_stride + gap;
    else
        a->head_stride = columns + gap, a->row_stride = heads * a->head_stride + gap;
    if (way) tensor->row_stride = a->row_stride, tensor->head_stride = a->head_stride;
    a->floats = rows && columns ? (rows - 1) * a->row_stride + (heads - 1) * a->head_stride + columns : 0;
    a->start = numbers(a->floats, (uint32_t)t->n_arrays);
}

static void add_arrays(trial *t, choices *c)
{
    int user = 0;
    for (hga_id i = 1; i <= t->p->n_fields; i++) {
        const hga_field *f = &t->p->field[i];
        hga_tensor *tensor = f->binding == HGA_IO_QUERY   ? &t->io.query
                             : f->binding == HGA_IO_KEY   ? &t->io.key
                             : f->binding == HGA_IO_VALUE ? &t->io.value
                             : f->binding == HGA_IO_OUT   ? &t->io.out
                             : f->binding == HGA_IO_USER  ? &t->io.user[user++]
                                                          : NULL;
        if (!tensor || t->n_arrays + 2 >= MAX_TENSORS) continue;
        int64_t rows = rows_of(t->g, f->io);
        add_array(t, tensor, f->width, rows, columns_of(&t->shape, f->width), c);
        if (f->binding == HGA_IO_OUT && t->p->has_lse && choose(c, 3) < 2)
            add_array(t, &t->io.lse, HGA_WIDTH_SCALAR, rows, 1, c);
    }
}

/* A bias for every edge and head that hangs on the edge alone: of twins, an edge that two blocks give, nobody says
   which is first. */
static float *edge_biases(const hga_graph *g, hga_id relation, hga_id heads)
{
    hga_csr rows;
    hga_nodes nodes = hga_graph_nodes(g);
    if (hga_graph_rows(g, relation, 0, nodes.n, &rows)) fuzz_fail("no rows: %s", hga_error_detail());
    float *bias = numbers(rows.ptr[nodes.n] * heads, 24);
    for (hga_id v = 0; v < nodes.n; v++)
        for (hga_pos e = rows.ptr[v]; e < rows.ptr[v + 1]; e++)
            fill(bias + e * heads, heads, (uint32_t)(v * 7919 + rows.src[e] * 104729 + rows.type[e] * 1299709));
    hga_csr_clear(&rows);
    return bias;
}

/* Tables by type, by edge and by node, where the choices want them. */
static void add_tables(trial *t, hga_options *options, choices *c)
{
    hga_pos n_edges = 0;
    int32_t n_types = 1;
    hga_id attended = -1;
    for (hga_id i = 0; i < t->p->n_stages; i++) {
        const hga_stage *s = &t->p->stage[i];
        if (s->relation < 0 || s->relation >= hga_graph_nodes(t->g).n_relations) continue;
        hga_relation r = hga_graph_relation(t->g, s->relation);
        n_types = r.n_types > n_types ? r.n_types : n_types;
        if (s->message == HGA_SCORE) n_edges = r.n_edges, attended = s->relation;
    }
    if (n_types > MAX_TYPES) return;
    const hga_shape *s = &t->shape;
    t->io.type_scale = t->table[0] = numbers(n_types, 21), t->io.n_type_scale = n_types;
    if (rarely(c, 3)) t->io.rel_key = t->table[1] = numbers((int64_t)n_types * s->dim, 22), t->io.n_rel_key = n_types;
    if (rarely(c, 3))
        t->io.rel_bias = t->table[2] = numbers((int64_t)n_types * s->n_heads, 23), t->io.n_rel_bias = n_types;
    if (attended >= 0 && rarely(c, 4)) {
        options->edge_bias = 1;
        t->io.edge_bias_heads = rarely(c, 2) ? s->n_heads : 1, t->io.n_edge_bias = n_edges;
        t->io.edge_bias = t->table[3] = edge_biases(t->g, attended, t->io.edge_bias_heads);
    }
    hga_id n = hga_graph_nodes(t->g).n;
    if (s->pos_dim) t->io.node_pos = t->table[4] = numbers((int64_t)n * s->pos_dim, 25), t->io.n_node_pos = n;
}

static void clear(trial *t)
{
    for (int i = 0; i < t->n_arrays; i++) free(t->arrays[i].start);
    for (int i = 0; i < 5; i++) free(t->table[i]);
}

/* ---- one run ---- */

/* What the arrays held after a run; `status` of the first call that failed. */
typedef struct outcome {
    hga_status status;
    float *end[MAX_TENSORS];
} outcome;

static void clear_outcome(const trial *t, outcome *o)
{
    for (int i = 0; i < t->n_arrays; i++) free(o->end[i]);
}

/* Another graph of the same relations, so that a plan may be updated to it: the same one with its edges as explicit
   ones or as blocks. */
static hga_graph *another(const hga_graph *g)
{
    hga_graph *other;
    return hga_graph_compress(g, &other) ? NULL : other;
}

static hga_status run_plan(hga_plan *plan, const trial *t, outcome *o, int times)
{
    hga_workspace *workspace = NULL;
    hga_io io = t->io;
    hga_status st = hga_workspace_create(plan, &workspace);
    for (int i = 0; i < t->n_arrays; i++) {
        const array *a = &t->arrays[i];
        hga_tensor *tensor = (hga_tensor *)((char *)&io + ((const char *)a->tensor - (const char *)&t->io));
        o->end[i] = malloc((size_t)(a->floats > 0 ? a->floats : 1) * sizeof(float));
        if (!o->end[i]) fuzz_fail("no memory");
        tensor->data = o->end[i];
    }
    for (int n = 0; n < times && !st; n++) {
        for (int i = 0; i < t->n_arrays; i++)
            if (t->arrays[i].floats) memcpy(o->end[i], t->arrays[i].start, (size_t)t->arrays[i].floats * sizeof(float));
        st = hga_plan_execute(plan, workspace, &io);
    }
    hga_workspace_destroy(workspace);
    return st;
}

/* Plan and execute with memory full of `byte`; with `there_and_back`, after updates of the plan. */
static outcome run(const trial *t, hga_options options, int byte, int there_and_back)
{
    filling memory = {.byte = byte};
    hga_allocator a = filling_allocator(&memory);
    hga_plan *plan = NULL;
    outcome o = {0};
    options.allocator = &a;
    o.status = hga_plan_create(t->g, t->p, &t->shape, &options, &plan);
    if (!o.status && there_and_back) {
        hga_graph *other = another(t->g);
        if (other && hga_plan_update(plan, other) == HGA_OK) o.status = hga_plan_update(plan, t->g);
        hga_graph_destroy(other);
    }
    if (!o.status) o.status = run_plan(plan, t, &o, there_and_back ? 2 : 1);
    hga_plan_destroy(plan);
    fuzz_memory_end(&memory, "a plan");
    if (o.status && !hga_error_detail()[0]) fuzz_fail("%s without a word", hga_status_name(o.status));
    return o;
}

/* Bits, or values where the way of summing differs. */
static void compare(const trial *t, const char *what, const outcome *a, const outcome *b, double tolerance)
{
    if (a->status != b->status)
        fuzz_fail("%s: %s, then %s: %s", what, hga_status_name(a->status), hga_status_name(b->status),
                  hga_error_detail());
    for (int i = 0; i < t->n_arrays && !a->status; i++)
        for (int64_t j = 0; j < t->arrays[i].floats; j++) {
            float x = a->end[i][j], y = b->end[i][j];
            if (memcmp(&x, &y, sizeof x) == 0) continue;
            if (tolerance > 0 && (x == y || fabsf(x - y) <= tolerance * fmaxf(1, fabsf(x)))) continue;
            fuzz_fail("%s: number %lld of array %d is %.9g, then %.9g", what, (long long)j, i, (double)x, (double)y);
        }
}

/* 1 to 17 columns, or whole vectors, which some ways are for alone. */
static hga_id some_columns(choices *c)
{
    static const hga_id whole[] = {16, 32, 16};
    hga_id n = 1 + choose(c, 20);
    return n > 17 ? whole[n - 18] : n;
}

static hga_shape some_shape(choices *c)
{
    hga_id kv = 1 + choose(c, 2), each = 1 + choose(c, 3);
    hga_shape s = {.n_heads = kv * each, .n_kv_heads = kv, .dim = some_columns(c)};
    if (rarely(c, 2)) s.dim_v = some_columns(c);
    if (rarely(c, 4)) s.pos_dim = 1 + choose(c, 3);
    return s;
}

static hga_options some_options(choices *c)
{
    static const char *const topologies[] = {NULL, "numa:2 core:2 pu:1", "core:3 pu:2"};
    hga_options o = {.threads = 2 + choose(c, 3)};
    if (rarely(c, 4)) o.isa = "ref";
    if (rarely(c, 5)) o.precision = HGA_PRECISION_BF16;
    if (rarely(c, 3)) o.cut_edges = 1 + choose(c, 40);
    o.keep_fields = rarely(c, 6);
    o.partition_metis = rarely(c, 12);
    o.topology = topologies[rarely(c, 6) ? 1 + choose(c, 2) : 0];
    return o;
}

long fuzz_n_executed;

/* Stages that go up or down many levels add rounding to rounding; in 16 bits weights are rounded, which the plain
   executor's are not. */
static double near_enough(hga_precision p) { return p == HGA_PRECISION_BF16 ? 8e-3 : 2e-3; }

void fuzz_execute(const hga_graph *g, const hga_program *p, choices *c)
{
    trial t = {.g = g, .p = p, .shape = some_shape(c)};
    hga_options options = some_options(c), other = options;
    fuzz_set_input(g, p);
    add_arrays(&t, c);
    add_tables(&t, &options, c);
    fuzz_user_shape(&t.shape);
    outcome first = run(&t, options, 0xff, 0), second = run(&t, options, 0x41, 0);
    compare(&t, "bytes nobody wrote", &first, &second, 0);
    clear_outcome(&t, &second);
    if (!first.status) {
        fuzz_n_executed++;
        other = options, other.threads = 1;
        second = run(&t, other, 0xff, 0);
        compare(&t, "one thread", &first, &second, 0);
        clear_outcome(&t, &second);
        second = run(&t, options, 0x41, 1);
        compare(&t, "there and back", &first, &second, 0);
        clear_outcome(&t, &second);
        other.generic = 1;
        second = run(&t, other, 0xff, 0);
        compare(&t, "the plain executor", &first, &second, near_enough(options.precision));
        clear_outcome(&t, &second);
        options.dropout = rarely(c, 3) ? 0.25f : 0, options.keep_fields = 0;
        if (rarely(c, 2)) options.gradient_strips = 1 + choose(c, 6);
        if (rarely(c, 4)) options.gradient_subtree = 1 + choose(c, 60);
        fuzz_go_back(g, p, &t.shape, &t.io, options);
    }
    clear_outcome(&t, &first);
    clear(&t);
}
