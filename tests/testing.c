/* testing.c: statuses, numbers, edges and problems. */
#include "testing.h"

#include "filling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- statuses ---- */

void check_status(hga_status want, hga_status got, const char *call, const char *file, int line)
{
    if (got == want && (got == HGA_OK || hga_error_detail()[0])) return;
    print_error("%s gave %s (%s), not %s\n", call, hga_status_name(got), got ? hga_error_detail() : "",
                hga_status_name(want));
    _fail(file, line);
}

/* ---- numbers ---- */

/* splitmix64: the i-th value depends on seed + i * gamma alone. */
uint64_t next_random(uint64_t *stream)
{
    uint64_t z = *stream += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

void fill_random(uint64_t seed, double scale, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i++) out[i] = (float)(((double)(next_random(&seed) >> 40) * 0x1p-24 * 2 - 1) * scale);
}

float *random_floats(uint64_t seed, double scale, int64_t n)
{
    float *x = memory(n, sizeof *x);
    fill_random(seed, scale, n, x);
    return x;
}

hga_id random_below(uint64_t *stream, int64_t below) { return (hga_id)(next_random(stream) % (uint64_t)below); }

int passed_over(int i) { return getenv("HGA_TEST_QUICK") && i % 5; }

int every_other_passed_over(int i) { return getenv("HGA_TEST_QUICK") && i % 2; }

int shortened(int n) { return getenv("HGA_TEST_QUICK") ? (n + 1) / 2 : n; }

int thinned(int n) { return getenv("HGA_TEST_QUICK") ? (n + 7) / 8 : n; }

int times_tell(void) { return !getenv("HGA_TEST_QUICK"); }

void end_when_ranks_hang(void) { alarm(getenv("HGA_TEST_QUICK") ? 600 : 120); }

void *memory(int64_t n, size_t size)
{
    void *m = calloc((size_t)(n > 0 ? n : 1), size);
    if (!m) fail_msg("no memory for %lld elements", (long long)n);
    return m;
}

/* |a - b|, infinite when one is NaN or they are different infinities. */
static double distance(double a, double b)
{
    if (a == b) return 0;
    double d = fabs(a - b);
    return isnan(d) ? INFINITY : d;
}

double max_difference(const float *got, const double *want, int64_t n)
{
    double d = 0;
    for (int64_t i = 0; i < n; i++) d = fmax(d, distance(got[i], want[i]));
    return d;
}

double max_difference_floats(const float *a, const float *b, int64_t n)
{
    double d = 0;
    for (int64_t i = 0; i < n; i++) d = fmax(d, distance(a[i], b[i]));
    return d;
}

void assert_near(const char *what, const float *got, const double *want, int64_t n, double tolerance)
{
    for (int64_t i = 0; i < n; i++)
        if (!(distance(got[i], want[i]) <= tolerance))
            fail_msg("%s: [%lld] is %.9g, not %.9g; largest difference %.3g > %.3g", what, (long long)i, (double)got[i],
                     want[i], max_difference(got, want, n), tolerance);
}

void assert_near_floats(const char *what, const float *got, const float *want, int64_t n, double tolerance)
{
    for (int64_t i = 0; i < n; i++)
        if (!(distance(got[i], want[i]) <= tolerance))
            fail_msg("%s: [%lld] is %.9g, not %.9g; largest difference %.3g > %.3g", what, (long long)i, (double)got[i],
                     (double)want[i], max_difference_floats(got, want, n), tolerance);
}

void assert_same_bits(const char *what, const float *got, const float *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(got + i, want + i, sizeof *got) != 0)
            fail_msg("%s: bits of [%lld] differ: %.9g, not %.9g", what, (long long)i, (double)got[i], (double)want[i]);
}

/* ---- rows and edges ---- */

/* Is the node in the row set? */
static int in_rows(const hga_nodes *nodes, hga_field_rows rows, hga_id v)
{
    int side = nodes->side ? nodes->side[v] : HGA_SIDE_BOTH;
    switch (rows) {
    case HGA_ROWS_QUERIES: return v >= nodes->query_first && v < nodes->query_first + nodes->n_queries;
    case HGA_ROWS_KEYS: return v >= nodes->key_first && v < nodes->key_first + nodes->n_keys;
    case HGA_ROWS_QUERY_SIDE: return side != HGA_SIDE_KEY;
    case HGA_ROWS_KEY_SIDE: return side != HGA_SIDE_QUERY;
    case HGA_ROWS_ABOVE: return v >= nodes->level_ptr[1];
    case HGA_ROWS_NODES: return 1;
    }
    return 0;
}

hga_id *row_nodes(const hga_graph *g, hga_field_rows rows, hga_id *n)
{
    hga_nodes nodes = hga_graph_nodes(g);
    hga_id *list = memory(nodes.n, sizeof *list), count = 0;
    for (hga_id v = 0; v < nodes.n; v++)
        if (in_rows(&nodes, rows, v)) list[count++] = v;
    *n = count;
    return list;
}

static int by_edge(const void *a, const void *b)
{
    const edge *x = a, *y = b;
    if (x->dst != y->dst) return x->dst < y->dst ? -1 : 1;
    if (x->src != y->src) return x->src < y->src ? -1 : 1;
    return (x->type > y->type) - (x->type < y->type);
}

/* Twins, given by two blocks, go by weight. */
static int by_edge_and_weight(const void *a, const void *b)
{
    const edge *x = a, *y = b;
    int order = by_edge(a, b);
    return order ? order : (x->weight > y->weight) - (x->weight < y->weight);
}

void sort_edges(edge *e, int64_t n)
{
    if (n > 0) qsort(e, (size_t)n, sizeof *e, by_edge_and_weight);
}

/* Does the shape keep an offset = column - row? */
static int keeps(const hga_block *b, hga_id offset)
{
    switch (b->shape) {
    case HGA_ALL: return 1;
    case HGA_LOWER: return offset <= 0;
    case HGA_STRICT_LOWER: return offset < 0;
    case HGA_UPPER: return offset >= 0;
    case HGA_STRICT_UPPER: return offset > 0;
    case HGA_OFF_DIAGONAL: return offset != 0;
    case HGA_BAND: return b->band_first <= offset && offset <= b->band_last;
    }
    return 0;
}

/* Write the edges of instance i of a block at e, or count them when e is NULL. */
static int64_t instance_edges(const hga_relation *r, const hga_block *b, hga_id i, edge *e)
{
    int64_t n = 0;
    for (hga_id row = 0; row < b->n_dst; row++)
        for (hga_id column = 0; column < b->n_src; column++) {
            if (!keeps(b, column - row)) continue;
            hga_id d = b->dst + i * b->dst_step + row, s = b->src + i * b->src_step + column;
            hga_id v = r->dst_order ? r->dst_order[d] : d;
            if (e)
                e[n] = (edge){.dst = v,
                              .src = r->src_order ? r->src_order[s] : s,
                              .type = (int32_t)(b->type + (int64_t)row * b->type_dst + (int64_t)column * b->type_src),
                              .weight = b->weight == 0 ? 1 : b->weight,
                              .pos_of = b->pos_of ? b->pos_of - 1 + i * b->pos_step : v};
            if (e) e[n].src_pos_of = b->src_pos_of ? b->src_pos_of - 1 + i * b->src_pos_step : e[n].src;
            n++;
        }
    return n;
}

static int64_t block_edges(const hga_relation *r, edge *e)
{
    int64_t n = 0;
    for (hga_block_walk w = {0}; hga_relation_next(r, &w);)
        for (hga_id i = 0; i < (w.block.count ? w.block.count : 1); i++)
            n += instance_edges(r, &w.block, i, e ? e + n : NULL);
    return n;
}

edge *all_edges(const hga_graph *g, hga_id relation, int64_t *n)
{
    hga_relation r = hga_graph_relation(g, relation);
    int64_t count = block_edges(&r, NULL);
    edge *e = memory(count + r.n_explicit, sizeof *e);
    block_edges(&r, e);
    for (hga_id v = 0; r.ptr && v < hga_graph_nodes(g).n; v++)
        for (hga_pos p = r.ptr[v]; p < r.ptr[v + 1]; p++)
            e[count++] = (edge){.dst = v,
                                .src = r.src[p],
                                .type = r.type ? r.type[p] : 0,
                                .weight = r.weight ? r.weight[p] : 1,
                                .pos_of = v,
                                .src_pos_of = r.src[p]};
    sort_edges(e, count);
    *n = count;
    return e;
}

edge *all_rows(const hga_graph *g, hga_id relation, int64_t *n)
{
    hga_csr csr;
    hga_id n_nodes = hga_graph_nodes(g).n;
    assert_ok(hga_graph_rows(g, relation, 0, n_nodes, &csr));
    edge *e = memory(csr.ptr[n_nodes], sizeof *e);
    for (hga_id v = 0; v < n_nodes; v++)
        for (hga_pos p = csr.ptr[v]; p < csr.ptr[v + 1]; p++)
            e[p] = (edge){.dst = v, .src = csr.src[p], .type = csr.type[p], .weight = csr.weight[p], .pos_of = -1};
    *n = csr.ptr[n_nodes];
    hga_csr_clear(&csr);
    return e;
}

void assert_same_edges(const char *what, const edge *got, int64_t n_got, const edge *want, int64_t n_want)
{
    for (int64_t i = 0; i < n_got && i < n_want; i++)
        if (by_edge(got + i, want + i) != 0)
            fail_msg("%s: edge %lld is %d -> %d type %d, not %d -> %d type %d (%lld edges, %lld wanted)", what,
                     (long long)i, got[i].src, got[i].dst, got[i].type, want[i].src, want[i].dst, want[i].type,
                     (long long)n_got, (long long)n_want);
    if (n_got != n_want) fail_msg("%s: %lld edges, not %lld", what, (long long)n_got, (long long)n_want);
}

hga_id index_in_level(const hga_graph *g, hga_id node, hga_id *level)
{
    *level = hga_graph_level(g, node);
    return node - hga_graph_nodes(g).level_ptr[*level];
}

/* ---- problems ---- */

const hga_stage *find_stage(const hga_program *p, hga_message message)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].message == message) return p->stage + i;
    return NULL;
}

/* Rows of the caller's tensor of a binding, 0 when no field has it. */
static int64_t bound_rows(const problem *p, hga_binding binding)
{
    hga_id first, n;
    assert_ok(hga_program_rows(&p->program, p->graph, hga_program_field(&p->program, binding), &first, &n));
    return n;
}

static float *own(problem *p, float *x)
{
    assert_true(p->n_owned < 16);
    return p->owned[p->n_owned++] = x;
}

static hga_id kv_heads(const hga_shape *s) { return s->n_kv_heads ? s->n_kv_heads : s->n_heads; }

static hga_id value_columns(const hga_shape *s) { return s->dim_v ? s->dim_v : s->dim; }

int64_t out_count(const problem *p) { return p->n_out * p->shape.n_heads * value_columns(&p->shape); }

int64_t lse_count(const problem *p) { return p->n_out * p->shape.n_heads; }

void problem_fill(problem *p, uint64_t seed)
{
    const hga_shape *s = &p->shape;
    p->n_query = bound_rows(p, HGA_IO_QUERY), p->n_key = bound_rows(p, HGA_IO_KEY);
    p->n_value = bound_rows(p, HGA_IO_VALUE), p->n_out = bound_rows(p, HGA_IO_OUT);
    p->io.query.data = p->n_query ? own(p, random_floats(seed, 2, p->n_query * s->n_heads * s->dim)) : NULL;
    p->io.key.data = p->n_key ? own(p, random_floats(seed + 1, 2, p->n_key * kv_heads(s) * s->dim)) : NULL;
    p->io.value.data =
        p->n_value ? own(p, random_floats(seed + 2, 2, p->n_value * kv_heads(s) * value_columns(s))) : NULL;
    p->io.query.rows = p->n_query, p->io.key.rows = p->n_key, p->io.value.rows = p->n_value;
    p->io.out.rows = p->io.lse.rows = p->n_out;
    p->io.out.data = own(p, memory(out_count(p), sizeof(float)));
    p->io.lse.data = p->program.has_lse ? own(p, memory(lse_count(p), sizeof(float))) : NULL;
}

static void fill_by_node(const hga_graph *g, hga_field_rows rows, uint64_t seed, int64_t columns, float *out)
{
    hga_id n, level, *list = row_nodes(g, rows, &n);
    for (hga_id i = 0; i < n; i++) {
        hga_id index = index_in_level(g, list[i], &level);
        fill_random(seed + (uint64_t)level * 1000 + (uint64_t)index * 100003, 2, columns, out + i * columns);
    }
    free(list);
}

void problem_fill_by_node(problem *p)
{
    const hga_shape *s = &p->shape;
    problem_fill(p, 1);
    for (hga_id f = 1; f <= p->program.n_fields; f++) {
        const hga_field *field = &p->program.field[f];
        switch (field->binding) {
        case HGA_IO_QUERY:
            fill_by_node(p->graph, field->io, field->binding, s->n_heads * s->dim, p->io.query.data);
            break;
        case HGA_IO_KEY: fill_by_node(p->graph, field->io, field->binding, kv_heads(s) * s->dim, p->io.key.data); break;
        case HGA_IO_VALUE:
            fill_by_node(p->graph, field->io, field->binding, kv_heads(s) * value_columns(s), p->io.value.data);
            break;
        default: break;
        }
    }
}

/* A bias for every edge and head that depends on the edge alone: where two blocks give the same edge twice, nobody can
   tell which is first. */
static float *edge_biases(const hga_graph *g, hga_id relation, uint64_t seed, hga_id heads)
{
    int64_t n;
    edge *e = all_edges(g, relation, &n);
    float *bias = memory(n * heads, sizeof *bias);
    for (int64_t i = 0; i < n; i++) {
        uint64_t of_edge = (uint64_t)e[i].dst * 7919 + (uint64_t)e[i].src * 104729 + (uint64_t)e[i].type * 1299709 +
                           (uint64_t)(e[i].weight * 64);
        fill_random(seed + of_edge, 1, heads, bias + i * heads);
    }
    free(e);
    return bias;
}

/* Types and edges of the attended relation. */
static void attended(const problem *p, int32_t *n_types, int64_t *n_edges)
{
    const hga_stage *attend = find_stage(&p->program, HGA_SCORE);
    hga_relation r = hga_graph_relation(p->graph, attend ? attend->relation : 0);
    *n_types = attend ? r.n_types : 0;
    *n_edges = attend ? r.n_edges : 0;
}

void problem_fill_tables(problem *p, uint64_t seed, int rel_key, int rel_bias, int edge_bias)
{
    int32_t n_types;
    int64_t n_edges;
    attended(p, &n_types, &n_edges);
    if (rel_key && n_types)
        p->io.rel_key.data = own(p, random_floats(seed, 1, (int64_t)n_types * p->shape.dim)),
        p->io.rel_key.rows = n_types;
    if (rel_bias && n_types)
        p->io.rel_bias.data = own(p, random_floats(seed + 1, 1, (int64_t)n_types * p->shape.n_heads)),
        p->io.rel_bias.rows = n_types;
    if (edge_bias && n_edges) {
        p->io.edge_bias.columns = edge_bias;
        p->io.edge_bias.rows = n_edges;
        p->io.edge_bias.data =
            own(p, edge_biases(p->graph, find_stage(&p->program, HGA_SCORE)->relation, seed + 2, edge_bias));
    }
    if (p->shape.pos_dim)
        p->io.node_pos.data =
            own(p, random_floats(seed + 3, 1, (int64_t)hga_graph_nodes(p->graph).n * p->shape.pos_dim)),
        p->io.node_pos.rows = hga_graph_nodes(p->graph).n;
}

/* hga_attention in memory that nobody has written, all of which is given back: a read before the first write is NaN. */
static void attend_in_filled_memory(const problem *p, const hga_options *options, const hga_io *io)
{
    filling memory = {.byte = 0xff};
    hga_allocator allocator = filling_allocator(&memory);
    hga_options filled = *options;
    if (!filled.allocator) filled.allocator = &allocator;
    hga_status st = hga_attention(p->graph, &p->program, &p->shape, &filled, io);
    if (st) fail_msg("%s: %s, %s", p->name, hga_status_name(st), hga_error_detail());
    if (memory.live) fail_msg("%s: %lld blocks were not given back", p->name, (long long)memory.live);
}

void problem_run(problem *p) { attend_in_filled_memory(p, &p->options, &p->io); }

float *problem_out(problem *p, const hga_options *options, float **lse)
{
    hga_io io = p->io;
    float *out = memory(out_count(p), sizeof *out), *l = memory(lse_count(p), sizeof *l);
    io.out = (hga_tensor){.data = out, .rows = p->n_out};
    io.lse = (hga_tensor){.data = p->program.has_lse ? l : NULL, .rows = p->n_out};
    attend_in_filled_memory(p, options, &io);
    if (lse)
        *lse = l;
    else
        free(l);
    return out;
}

void problem_clear(problem *p)
{
    hga_graph_destroy(p->graph);
    for (int i = 0; i < p->n_owned; i++) free(p->owned[i]);
    memset(p, 0, sizeof *p);
}

int has_positions(const hga_graph *g)
{
    double *at = memory(hga_graph_nodes(g).n, sizeof *at);
    hga_status st = hga_graph_positions(g, at);
    free(at);
    return !st;
}
